/* inside.h - what the files of the mock share. All of it is done under one lock. */
#ifndef LEVELZERO_MOCK_INSIDE_H
#define LEVELZERO_MOCK_INSIDE_H

#include "../../../runtime/backends/levelzero_api.h"
#include "mock.h"

#ifndef MOCK_FACE
#define MOCK_FACE MOCK_API /* functions are the loader's */
#endif
#define ZE(name, arguments) MOCK_FACE ze_result_t name arguments;
#include "../../../runtime/backends/levelzero_api.def"
/* Of the caller's, which the backend has no use for. */
MOCK_FACE ze_result_t zeMemAllocShared(ze_context_handle_t context,
                                       const ze_device_mem_alloc_desc_t *desc,
                                       const ze_host_mem_alloc_desc_t *host, size_t size,
                                       size_t alignment, ze_device_handle_t device, void **memory);
MOCK_FACE ze_result_t zeCommandQueueCreate(ze_context_handle_t context, ze_device_handle_t device,
                                           const ze_command_queue_desc_t *desc,
                                           ze_command_queue_handle_t *queue);
MOCK_FACE ze_result_t zeCommandQueueDestroy(ze_command_queue_handle_t queue);

/* In each function, first; LEAVE is the only way out of it. */
#define ENTER()                                                                                    \
    mock_lock();                                                                                   \
    if (mock_fails(__func__)) return mock_unlock(levelzero_mock.code)
/* The same in those that end something: these do not fail. */
#define END()                                                                                      \
    mock_lock();                                                                                   \
    levelzero_mock.calls++
#define LEAVE(code) return mock_unlock(code)
/* A rule of the specification: where it is broken, the call is refused. */
#define RULE(holds, code)                                                                          \
    do {                                                                                           \
        if (!(holds)) return mock_unlock(mock_broken(__func__, #holds, code));                     \
    } while (0)
#define NOT_NULL(pointer) RULE((pointer) != NULL, ZE_RESULT_ERROR_INVALID_NULL_POINTER)
#define DESC(pointer, type)                                                                        \
    NOT_NULL(pointer);                                                                             \
    RULE((pointer)->stype == ZE_STRUCTURE_TYPE_##type, ZE_RESULT_ERROR_INVALID_ARGUMENT)
#define LIVE(handle, kind)                                                                         \
    RULE(mock_lives(handle, kind),                                                                 \
         (handle) ? ZE_RESULT_ERROR_INVALID_ARGUMENT : ZE_RESULT_ERROR_INVALID_NULL_HANDLE)
void mock_lock(void);
ze_result_t mock_unlock(ze_result_t code);
bool mock_fails(const char *function);
ze_result_t mock_broken(const char *function, const char *rule, ze_result_t code);

/* ---- objects: each handle is one, in a list of all that live */
typedef struct Object {
    MockKind kind;
    struct Object *context, *next; /* [context] NULL: it is one */
} Object;
void *mock_new(MockKind kind, size_t bytes, ze_context_handle_t context);
void mock_end(void *object);
bool mock_lives(const void *object, MockKind kind);
bool mock_is_device(const void *device);
bool mock_has_children(const void *parent, MockKind kind); /* pools, modules: of events, kernels */

typedef struct Memory {
    Object head;
    char *at;
    size_t size, mapped; /* [mapped]: of the device, which hosts do not see */
    uint32_t type;
    ze_device_handle_t device;
} Memory;
Memory *mock_memory(const void *at, size_t bytes); /* in which they lie; NULL: none of ours */
void mock_open_memory(bool open);                  /* of devices */

/* ---- kernels */
typedef struct Program Program; /* of what runs them */
enum { MOST_ARGS = 256 };
typedef struct KernelFacts {
    uint32_t arg_count, local_bytes, block[3]; /* [block]: required, 0 where it is not */
    struct {
        uint32_t bytes;
        bool pointer;
    } args[MOST_ARGS];
} KernelFacts;
bool run_ready(void);
Program *run_build(const void *code, size_t bytes, char *log, size_t log_bytes);
void run_end(Program *program);
bool run_facts(Program *program, const char *name, KernelFacts *facts);
/* [values] of all arguments. */
bool run_launch(Program *program, const char *name, const KernelFacts *facts,
                const uint64_t *values, const uint32_t *groups, const uint32_t *block);

struct ze_module {
    Object head;
    Program *program;
    void *code;
    size_t bytes;
};
struct ze_kernel {
    Object head;
    struct ze_module *module;
    char name[128];
    KernelFacts facts;
    uint32_t block[3];
    uint64_t values[MOST_ARGS];
    bool set[MOST_ARGS];
    uint32_t waiting; /* launches that are not done */
};

/* ---- lists (run.c) */
struct ze_pool {
    Object head;
    uint32_t count, taken;
    bool times;
};
struct ze_event {
    Object head;
    struct ze_pool *pool;
    uint32_t index, waiting;
    bool signalled;
    uint64_t time;
};
bool mock_is_used(const Memory *memory); /* by a command that is not done */
void mock_lose(void);                    /* the device: nothing is done any more */

#endif
