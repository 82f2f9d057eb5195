/* levelzero.h - what the parts of the Level Zero backend share: levelzero_find.c finds devices, levelzero.c opens them,
 * levelzero_queue.c puts work on lists and queues, levelzero_event.c has points in it, levelzero_memory.c buffers, levelzero_code.c
 * modules, kernels and launches. */
#ifndef AU_RUNTIME_LEVELZERO_H
#define AU_RUNTIME_LEVELZERO_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend.h"
#include "levelzero_api.h"

/* ---- levelzero_find.c */

/* A device, or a part of one (a tile). */
typedef struct ZeListed {
    ze_driver_handle_t driver;
    ze_device_handle_t device;
} ZeListed;
enum { ZE_DEVICES = 64, ZE_DRIVERS = 16 };

/* The loader, begun, and the devices of all drivers as ids count them: as zeDeviceGet does, parts of devices after all of them. 0: [why]
 * says why there is none. */
uint32_t rt_ze_devices(AuLevelZero *ze, ZeListed *listed, AuText *why);

/* What a device says of itself. */
typedef struct ZeFacts {
    uint32_t version; /* of the driver's interface, as ZE_API_1_2 counts */
    ze_driver_properties_t driver;
    ze_device_properties_t of;
    ze_device_compute_properties_t compute;
    ze_device_module_properties_t module;
    uint64_t memory_bytes;
    uint32_t ordinal; /* of queues that compute; UINT32_MAX: there are none */
    bool sees_host;   /* kernels may read any memory of the process */
    bool multiplies;  /* has matrix units (DPAS) */
} ZeFacts;
/* The call that failed; NULL: none did. */
const char *rt_ze_facts(const AuLevelZero *ze, const ZeListed *listed, ZeFacts *facts,
                        ze_result_t *code);
/* Why kernels of ours cannot run there; NULL: they can. */
const char *rt_ze_lacks(const ZeFacts *facts);
aule_status rt_ze_find(AuFinder *finder, AuSink sink);

/* ---- a device's state */

/* Events are made 32 at a time, and used again. */
enum { ZE_POOL = 32 };
typedef struct ZePool {
    ze_event_pool_handle_t pool;
    ze_event_handle_t events[ZE_POOL];
    uint32_t taken; /* a bit each */
    struct ZePool *next;
} ZePool;

/* Lists that are executed on a queue of the caller's, and may be written again when their event is there. */
enum { ZE_RING = 16 };
typedef struct ZeCommands {
    ze_command_list_handle_t list;
    ze_event_handle_t done;
    bool put; /* on a queue, since the event was last seen */
} ZeCommands;

#define ZE_PATIENCE "AULE_LEVELZERO_TIMEOUT"
typedef struct LevelZero {
    AuHeap heap;
    AuLevelZero ze;
    uint32_t index; /* of the id, levelzero:N */
    ZeListed at;
    ZeFacts facts;
    ze_context_handle_t context;
    bool owns_context;
    uint32_t kind;                /* aule_queue_kind of the caller's queues */
    ze_command_list_handle_t own; /* immediate */
    pthread_mutex_t lock; /* of lists, the ring, events, the stage and arguments of kernels */
    ZeCommands ring[ZE_RING];
    uint32_t turn; /* of the ring */
    ZePool *pools;
    void *stage;       /* memory that host and device see, for copies; NULL until one is needed */
    uint64_t patience; /* nanoseconds */
    const volatile uint64_t *at_work; /* the device writes the time there as it begins a command */
    ze_event_handle_t behind; /* all of the own list, once the device was hung; NULL: not put yet */
    _Atomic(ze_event_handle_t) awaited; /* in vain, since the device hung */
    atomic_uint lost; /* the result that said so, or ours where it hung; 0: it is not */
    atomic_bool hung; /* no work was finished for [patience]; it may still read what it was given */
} LevelZero;

/* 0 is fine; else the error of the driver's call, and [more] of it. */
aule_status rt_ze_check(LevelZero *z, AuSink sink, const char *call, ze_result_t code);
aule_status rt_ze_fail(LevelZero *z, AuSink sink, aule_status status, const char *call,
                       ze_result_t code, const char *more);
/* Refused where the device was lost. */
aule_status rt_ze_alive(LevelZero *z, AuSink sink);

/* ---- levelzero_queue.c. The lock is held between rt_ze_open and rt_ze_put, which is called where rt_ze_open was fine. */

typedef struct ZeWork {
    ze_command_list_handle_t list;
    ze_command_queue_handle_t
        queue;            /* that is to execute it; NULL: it executes by itself, or by its owner */
    ZeCommands *commands; /* of the ring; NULL: another list */
    bool by_owner;        /* executed, again and again perhaps */
} ZeWork;
aule_status rt_ze_open(LevelZero *z, void *queue, ZeWork *work, AuSink sink);
/* What comes behind waits for all before it; [signal] is there then, where that is NULL a command follows. */
aule_status rt_ze_order(LevelZero *z, const ZeWork *work, ze_event_handle_t signal, AuSink sink);
/* [status]: of what was done on the list; if it is not AULE_OK, nothing of it is executed where that can be helped. */
aule_status rt_ze_put(LevelZero *z, ZeWork *work, aule_status status, AuSink sink);
/* For an event, or a queue where that is NULL, as long as the device gets anywhere within the time that it is given. */
aule_status rt_ze_wait(LevelZero *z, ze_event_handle_t event, ze_command_queue_handle_t queue,
                       AuSink sink);
/* Until what was put on the device's own list is done; the lock is held. */
aule_status rt_ze_wait_own(LevelZero *z, const ZeWork *work, AuSink sink);
aule_status rt_ze_zero(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                       AuSink sink);
aule_status rt_ze_synchronize(void *state, void *queue, AuSink sink);
aule_status rt_ze_behind(void *state, void *queue, AuSink sink);
/* Until all that we put on the device's own list and on queues is done; without a word where that fails. True: what the device was given may
 * end; false: it is hung, and what it may still read stays. */
bool rt_ze_idle(LevelZero *z);
void rt_ze_queue_end(LevelZero *z);

/* ---- levelzero_event.c. The lock is held. */
aule_status rt_ze_take(LevelZero *z, ze_event_handle_t *event, AuSink sink);
void rt_ze_give(LevelZero *z, ze_event_handle_t event);
void rt_ze_events_end(LevelZero *z);
aule_status rt_ze_event_record(void *state, void *queue, void **event, AuSink sink);
aule_status rt_ze_event_wait(void *event, AuSink sink);
aule_status rt_ze_event_elapsed(void *first, void *last, int64_t *nanoseconds, AuSink sink);
void rt_ze_event_free(void *event);

/* ---- levelzero_memory.c */
enum { ZE_STAGE = 4 << 20, ZE_ALIGN = 64 };
aule_status rt_ze_check_memory(void *state, const char *name, void *data, uint64_t bytes,
                               AuSink sink);
aule_status rt_ze_buffer_new(void *state, uint64_t bytes, void **data, AuSink sink);
void rt_ze_buffer_free(void *state, void *data);
aule_status rt_ze_upload(void *state, void *data, uint64_t offset, const void *from, uint64_t bytes,
                         AuSink sink);
aule_status rt_ze_download(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                           AuSink sink);

/* ---- levelzero_code.c */
aule_status rt_ze_load(void *state, const aule_variant_v1 *variant, void **program, AuSink sink);
void rt_ze_unload(void *state, void *program);
uint64_t rt_ze_spilled(const void *program);
aule_status rt_ze_launch(void *state, void *program, void *queue, const AuLaunch *given,
                         AuSink sink);

/* levelzero_module.c: the module of a variant's SPIR-V, or of what the driver made of it earlier. */
aule_status rt_ze_module(LevelZero *z, const aule_variant_v1 *variant, ze_module_handle_t *module,
                         AuSink sink);

#endif
