/* backend.h - what a device is to the runtime: one const struct a backend, in one file, listed in backends.def.
 * The core checks arguments, chooses variants and evaluates launch expressions; a backend finds devices, loads code, launches.
 * Contract: functions may be called from several threads at once; the core gives each device's [state] back to its backend
 * only when nothing uses it. Errors go to the sink with a message that names the driver's call. Functions marked (optional) may
 * be NULL. */
#ifndef AU_RUNTIME_BACKEND_H
#define AU_RUNTIME_BACKEND_H

#include "../base.h"

/* Raised when this struct changes; a backend built for another one is not used. */
#define AU_BACKEND_API 10

/* Receives what find() finds. Copies the texts. */
typedef struct AuFinder AuFinder;
aule_status rt_found(AuFinder *finder, const aule_device_info *info, AuSink sink);
/* Adds 16 bytes as aule_device_info.uuid has them. */
void rt_add_uuid(const uint8_t *uuid, AuText *text);
/* In place of devices, of which there are none: why. Frees the text. */
aule_status rt_found_none(AuFinder *finder, const char *backend, DLDevice dl, AuText *why,
                          AuSink sink);

/* A tensor as the unit that copies boxes sees it (aule_map_v1): sizes in elements, strides in bytes, a dimension more where one is cut.
 * rank 0: it was not passed, and nobody asks for its boxes. */
typedef struct AuMapView {
    uint32_t rank;
    uint64_t size[AULE_MAP_RANK], stride[AULE_MAP_RANK];
    uint64_t before; /* bytes that the map begins before the tensor */
} AuMapView;
typedef struct AuMapped {
    const aule_map_v1 *map;
    const AuMapView *view;
    uint64_t address;
} AuMapped;

/* One launch, all expressions evaluated. */
typedef struct AuLaunch {
    uint32_t index;   /* of the variant's launches */
    uint32_t grid[3]; /* blocks; none is 0 */
    const uint64_t *
        slots; /* the parameter block; tensors are addresses, or handles where memory is not flat */
    const int64_t *
        offsets; /* a slot each, memory not flat: the offset of a handle's element 0, in elements or bytes */
    const AuMapped *maps; /* to be encoded for the kernel */
    uint32_t map_count;
    bool early; /* may begin before the launch before it has ended, which is of this run */
} AuLaunch;

/* A run of a plan as a whole: regions of the workspace that are to be 0, then the launches, in order. What is not an address or a
 * parameter is the same from run to run, mostly: new parameters may change grids and regions. */
typedef struct AuRun AuRun;
struct AuRun {
    const aule_attention_v1 *attention;
    const aule_variant_v1 *variant;
    const uint32_t (*grid)[3];                /* of each launch; with a 0 in it, it is left out */
    const uint64_t *region_at, *region_bytes; /* of each of the variant's workspaces */
    void *workspace;
    /* The parameter block of a launch; written once from its beginning to its end, and not read. Not of a run that is only
     * prepared. */
    void (*fill)(const AuRun *run, uint32_t launch, uint64_t *slots);
};

typedef struct AuBackend {
    uint32_t api_version;
    const char *name; /* "cpu": in ids of devices, and the target of artifacts */
    bool flat;        /* memory has addresses; else tensors are handles with offsets */
    bool in_bytes;    /* not flat: offsets of handles are bytes, else elements */
    bool has_uuids;   /* its devices have UUIDs (aule_device_info), by which they are opened, too */
    const char
        *queues[AULE_QUEUE_COMMANDS + 1]; /* what a queue of each aule_queue_kind is; NULL: has
                                                    none, or all of one kind */
    DLDeviceType dl[4]; /* kinds of DLPack devices whose memory it reads, 0-terminated if fewer */

    /* Calls rt_found for each device, or once with available 0 and the reason. Never fails but for memory. */
    aule_status (*find)(AuFinder *finder, AuSink sink);

    /* In place of find() where [options] have a context of the caller's: the same devices, of which the one that it is of may do only what
     * the caller enabled. (optional) */
    aule_status (*find_given)(AuFinder *finder, const aule_device_options *options, AuSink sink);
    /* Are its variables of the environment what they may be? NULL: it reads none, or says so when it is asked for devices. */
    aule_status (*environment)(AuSink sink);

    /* [index] counts the devices that find() found. */
    aule_status (*open)(AuHeap memory, uint32_t index, const aule_device_options *options,
                        void **state, AuSink sink);
    void (*close)(void *state);

    /* How well code for [arch] of the artifact suits such a device: 0 best, -1 not at all. (optional: all suit alike) Among equals the
     * artifact's order decides; features are checked by the core. */
    int (*rank_arch)(const aule_device_info *info, const char *arch);

    /* Adds to a message that the device lacks [feature] what it has instead. (optional) */
    void (*explain)(const aule_device_info *info, const char *feature, AuText *text);

    /* Why rank_arch said -1 to [arch], where features are not the reason: "AULE_.. is .."; NULL: none to be told. (optional) */
    const char *(*refuses)(const char *arch);

    /* Code is of one machine, and not all are compiled by default: the first word of a device's features is what aulec's --arch takes. */
    bool names_machine;

    /* Does the device hold what a variant's code relies on and no word of features can promise, by a trial, if it must? AULE_ERROR_UNSUPPORTED
     * says why not: the variant is not chosen then, and another may be. (optional) */
    aule_status (*confirm)(void *state, const aule_variant_v1 *variant, AuSink sink);

    /* A variant's code, ready to launch. */
    aule_status (*load)(void *state, const aule_variant_v1 *variant, void **program, AuSink sink);
    void (*unload)(void *state, void *program);
    /* Bytes a thread that its kernels keep in memory for want of registers, the most. (optional: nobody knows) */
    uint64_t (*spilled)(const void *program);

    /* A plan's tensors: the bytes from a handle's beginning on, where memory is flat those from the address of its lowest element on, must
     * be there. (optional) */
    aule_status (*check_memory)(void *state, const char *name, void *data, uint64_t bytes,
                                AuSink sink);

    /* Each after what was put on the queue before, by this or by the caller. [queue] NULL: the device's own. */
    aule_status (*launch)(void *state, void *program, void *queue, const AuLaunch *launch,
                          AuSink sink);
    aule_status (*zero)(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                        AuSink sink); /* (optional where runs are recorded) */
    aule_status (*synchronize)(void *state, void *queue,
                               AuSink sink); /* (optional: launches are done when they return) */
    /* What the caller puts on its queue behind a run comes after it. (optional: whatever is on a queue is done in its order) */
    aule_status (*behind)(void *state, void *queue, AuSink sink);

    /* Runs that are put on the queue as one. (optional, all or none: zero and launch, one after the other) What is needed for runs like
     * this one is made when the plan is, [recording], and given back before its program is. */
    aule_status (*record)(void *state, void *program, const AuRun *planned, void **recording,
                          AuSink sink);
    aule_status (*run)(void *state, void *recording, void *queue, const AuRun *run, AuSink sink);
    void (*forget)(void *state, void *recording);

    /* Memory. data() of a buffer is what DLTensor.data holds. Copies wait until they are done. */
    aule_status (*buffer_new)(void *state, uint64_t bytes, void **data, AuSink sink);
    void (*buffer_free)(void *state, void *data);
    /* Memory that other drivers have, too, which is freed likewise. [fd] stays the caller's. (optional, both or none) */
    aule_status (*buffer_export)(void *state, uint64_t bytes, void **data, int *fd,
                                 uint64_t *fd_bytes, AuSink sink);
    aule_status (*buffer_import)(void *state, int fd, uint64_t fd_bytes, void **data, AuSink sink);
    /* Numbers that another driver sets and waits for, too (aule_timeline). [fd] stays the caller's. (optional: either, with what follows; handle alone
     * may be NULL) */
    aule_status (*timeline_export)(void *state, void **timeline, int *fd, AuSink sink);
    aule_status (*timeline_import)(void *state, int fd, void **timeline, AuSink sink);
    aule_status (*timeline_put)(void *state, void *timeline, void *queue, bool signals,
                                uint64_t value, AuSink sink);
    uint64_t (*timeline_handle)(const void *timeline);
    void (*timeline_free)(void *state, void *timeline);
    /* Whole pages of the process as a buffer, which is freed likewise and leaves them alone. (optional) */
    aule_status (*buffer_host)(void *state, void *memory, uint64_t bytes, void **data, AuSink sink);
    aule_status (*upload)(void *state, void *data, uint64_t offset, const void *from,
                          uint64_t bytes, AuSink sink);
    aule_status (*download)(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                            AuSink sink);

    /* Points in a queue's work. (optional: the host's clock, for backends without synchronize) */
    aule_status (*event_record)(void *state, void *queue, void **event, AuSink sink);
    aule_status (*event_wait)(void *event, AuSink sink);
    /* Negative where the first came last. */
    aule_status (*event_elapsed)(void *first, void *last, int64_t *nanoseconds, AuSink sink);
    void (*event_free)(void *event);
} AuBackend;

/* patience.c: nanoseconds that the environment's [variable] allows, in seconds, and the error of a device that did nothing for as long. */
#define RT_SECOND 1000000000u
aule_status rt_patience(const char *variable, uint64_t *nanoseconds, AuSink sink);
aule_status rt_fail_hung(AuSink sink, const char *backend, uint32_t index, const char *variable,
                         uint64_t nanoseconds);

/* NULL: unknown. */
const AuBackend *rt_backend(const char *name, size_t length);

#define BACKEND(name) extern const AuBackend au_backend_##name;
#include "backends.def"

#endif
