/* metal.h - what the parts of the Metal backend share: metal_api.c has the system's libraries, metal.c devices, memory and events,
 * metal_commands.c command buffers, metal_code.c code and launches, metal_kept.c what of code stays on disk. Plain C: Objective-C's messages are calls of one function through pointers of the right types.
 * Every function that sends messages has an autorelease pool around it (rt_metal_enter), so that callers need none. */
#ifndef AU_RUNTIME_METAL_H
#define AU_RUNTIME_METAL_H

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend.h"
#include "recent.h"

typedef struct MetalObject *MetalId;
typedef struct MetalSelector *MetalSel;
typedef int8_t MetalBool;
typedef struct MetalSize {
    uint64_t width, height, depth;
} MetalSize;
typedef struct MetalRange {
    uint64_t location, length;
} MetalRange;

enum { METAL_FAMILY_APPLE7 = 1007, METAL_FAMILY_APPLE9 = 1009, METAL_FAMILY_METAL3 = 5001 };
enum { METAL_USAGE_READ = 1, METAL_USAGE_WRITE = 2 };
enum { METAL_STATUS_COMMITTED = 2, METAL_STATUS_ERROR = 5 };
enum { METAL_LANGUAGE_3 = 3 << 16 }; /* and the minor version */
enum { METAL_NEWEST = 2 };
enum { METAL_STATUS_COMPLETED = 4 };
enum { METAL_SENT = 64 };         /* queues hold as many that are not done */
enum { METAL_NO_LAUNCH = 0 };     /* commands without a kernel */
enum { METAL_MOST_BYTES = 4096 }; /* of setBytes:length:atIndex: */

typedef struct MetalApi {
    MetalId (*objc_getClass)(const char *name);
    MetalSel (*sel_registerName)(const char *name);
    void (*objc_msgSend)(void);
    void *(*objc_autoreleasePoolPush)(void);
    void (*objc_autoreleasePoolPop)(void *pool);
    MetalId (*MTLCopyAllDevices)(void);
    size_t (*malloc_size)(
        const void *block); /* 0: of nothing that was allocated; NULL: nobody tells */
    struct {
#define MESSAGE(name, selector, result, arguments) MetalSel name;
#include "metal_api.def"
    } sel;
} MetalApi;

/* false: [why] says why not. Both libraries stay loaded. */
bool rt_metal_begin(MetalApi *m, AuText *why);

#define MESSAGE(name, selector, result, arguments) typedef result(*MetalSend_##name) arguments;
#include "metal_api.def"

/* A message, with arguments or without, in the types that the table says. */
#define METAL_CALL(m, object, message, ...)                                                        \
    ((MetalSend_##message)(m)->objc_msgSend)(object, (m)->sel.message, __VA_ARGS__)
#define METAL_GET(m, object, message)                                                              \
    ((MetalSend_##message)(m)->objc_msgSend)(object, (m)->sel.message)

/* The minor version of the language MSL 3 that the system compiles, of those that kernels know: 0 on macOS 13, 1 on 14 (bfloat), 2 on 15 (orders of
 * the whole device). */
uint32_t rt_metal_language(const MetalApi *m);
MetalId rt_metal_string(const MetalApi *m, const char *text);
/* The words of an NSString, of an NSError; "" of none. Alive as long as the pool. */
const char *rt_metal_words(const MetalApi *m, MetalId string);
const char *rt_metal_error(const MetalApi *m, MetalId error);
/* Adds ", in KERNEL, of x.attn:12": what the first error that [log] tells of [text] is in, as far as they say (metal_place.c). */
void rt_metal_place(const char *text, const char *log, AuText *said);

/* Are elements of matrices where kernels expect them? (metal_probe.c) */
typedef enum MetalPlaces {
    METAL_PLACES_UNKNOWN,
    METAL_PLACES_EXPECTED,
    METAL_PLACES_OTHER
} MetalPlaces;

/* A command buffer that was committed, and which launch it is. */
typedef struct MetalSent {
    MetalId commands;
    const void *queue; /* the device's own, or the caller's */
    uint64_t launch;   /* rt_recent_add's number */
} MetalSent;

/* A device's state. */
typedef struct Metal {
    AuHeap memory;
    MetalApi api;
    uint32_t index;    /* of the id, metal:N */
    uint32_t language; /* rt_metal_language */
    MetalId device, queue;
    bool recorded;        /* the caller's queues are command buffers that it commits */
    AuRecent recent;      /* by queues */
    pthread_mutex_t lock; /* of what follows */
    MetalSent sent
        [METAL_SENT]; /* that nobody has seen done, oldest first, and of each queue the first that failed, until it is told */
    uint32_t sent_count;
    pthread_mutex_t probing; /* of what follows; taken before [lock] */
    MetalPlaces places;
    char places_said[160];
} Metal;

/* A binary archive of a code's kernels, from disk or to be kept there (metal_kept.c). Between open and close, which is told whether all
 * pipelines were made, each pipeline's descriptor is added. */
typedef struct MetalKept {
    AuText name, path; /* in the cache; of the file that Metal reads and writes */
    MetalId archive, list;
    bool begun, known,
        lacks; /* there is a place for it; it was kept; a kernel could not be added */
} MetalKept;
void rt_metal_kept_open(const Metal *d, MetalKept *kept, const aule_variant_v1 *variant);
void rt_metal_kept_add(const Metal *d, MetalKept *kept, MetalId descriptor);
void rt_metal_kept_close(const Metal *d, MetalKept *kept, bool good);

/* Refuses an object of the caller's that another device made, by both names; [what] is it. */
aule_status rt_metal_check_device(const Metal *d, MetalId object, const char *what,
                                  aule_status status, AuSink sink);

/* Commands for a queue (NULL: the device's own), or the caller's: to be encoded, then handed over. */
aule_status rt_metal_commands(Metal *d, void *queue, MetalId *commands, AuSink sink);
/* Ends the encoder, if there is one, and commits what is not the caller's; [launch]: its number, or METAL_NO_LAUNCH. */
void rt_metal_commit(Metal *d, void *queue, MetalId commands, MetalId encoder, uint64_t launch);
/* Waits for what was committed to the device's own queue, and tells the first error of it. */
aule_status rt_metal_finish(Metal *d, AuSink sink);
/* Waits for one; its error is ours. */
aule_status rt_metal_wait(Metal *d, const void *queue, MetalId commands, AuSink sink);
aule_status rt_metal_synchronize(void *state, void *queue, AuSink sink);
void rt_metal_forget_all(Metal *d); /* before the queue is released */
/* [what] cannot be done where a queue is a command buffer of the caller's. */
aule_status rt_metal_refuse_recorded(const Metal *d, const void *queue, const char *what,
                                     AuSink sink);

aule_status rt_metal_load(void *state, const aule_variant_v1 *variant, void **program, AuSink sink);
/* The same without a look at matrices. */
aule_status rt_metal_load_any(Metal *d, const aule_variant_v1 *variant, void **program,
                              AuSink sink);
void rt_metal_unload(void *state, void *program);
/* Asks the device once, if the code has matrices: AULE_ERROR_UNSUPPORTED where their elements lie elsewhere. */
aule_status rt_metal_confirm(void *state, const aule_variant_v1 *variant, AuSink sink);
aule_status rt_metal_launch(void *state, void *program, void *queue, const AuLaunch *given,
                            AuSink sink);

#endif
