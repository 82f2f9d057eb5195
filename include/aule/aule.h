/* aule/aule.h - libaule: loads what aulec compiled, finds devices, checks arguments, runs kernels. C99.
 *
 * In one breath:
 *
 *     aule_module *module; aule_device *device; aule_attention *mha; aule_plan *plan; aule_error *error = NULL;
 *     aule_module_open("mha.so", NULL, &module, &error);
 *     aule_module_find(module, "mha", &mha, &error);
 *     aule_device_open("cpu", NULL, &device, &error);
 *     aule_tensor_arg tensors[] = {{"q", &q}, {"k", &k}, {"v", &v}, {"o", &o}};
 *     aule_call call = {.struct_size = sizeof call, .tensors = tensors, .tensor_count = 4};
 *     aule_plan_new(mha, device, &call, &plan, &error);
 *     aule_plan_run(plan, NULL, &error);
 *
 * Status: a function that can fail returns AULE_OK (0) or another aule_status, and then makes an error object with a message
 * when [error] is not NULL; the caller frees it with aule_error_free. [*error] and results are written by failing and by
 * succeeding calls respectively, never by the other. Messages are one line, name what was expected and what was found, in
 * lower case without a full stop; they are for people and may change.
 *
 * Ownership: each *_new, *_open and *_from makes a handle that the caller gives back with the matching *_close or *_free (NULL is
 * fine). Handles are counted: a plan keeps its module and its device alive, so they may be given back in any order. Texts
 * and descriptors that a function returns belong to the handle they were asked of, and live as long.
 *
 * Threads: every function may be called from several threads at once, on the same handles too; only a handle's own *_close or
 * *_free must be its last use. The library has no state of its own: everything hangs from handles.
 *
 * Memory: nothing is allocated, waited for or copied behind the caller in aule_plan_run; a workspace is the caller's.
 *
 * Option structs begin with struct_size = sizeof the struct as the caller was compiled, and should be zeroed before they are
 * filled: later versions append fields, whose zero means what was before. A NULL option struct means all defaults.
 *
 * Units: sizes and offsets called bytes are bytes; strides and shapes are in elements; times in nanoseconds. */
#ifndef AULE_AULE_H
#define AULE_AULE_H

#include <stddef.h>
#include <stdint.h>

#include "aule/artifact.h"
#include "aule/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define AULE_API __attribute__((visibility("default")))
#else
#define AULE_API
#endif

/* Grows when something is added; never shrinks. */
#define AULE_API_VERSION 1

/* "0.1.0"; [api] (may be NULL) receives the AULE_API_VERSION of the library that runs. */
AULE_API const char *aule_version(uint32_t *api);

/* ---- status and errors */

typedef enum aule_status {
    AULE_OK = 0,
    AULE_ERROR_USAGE =
        1, /* a NULL or meaningless argument of the call itself, a wrong struct_size */
    AULE_ERROR_MEMORY = 2,      /* out of memory, on the host or on the device */
    AULE_ERROR_FILE = 3,        /* a file cannot be read */
    AULE_ERROR_ARTIFACT = 4,    /* not an artifact, truncated, damaged, or for another machine */
    AULE_ERROR_VERSION = 5,     /* an artifact newer than this library */
    AULE_ERROR_NAME = 6,        /* no attention, tensor or parameter of that name */
    AULE_ERROR_DEVICE = 7,      /* no such device, or it is not available */
    AULE_ERROR_UNSUPPORTED = 8, /* the artifact has no kernel for this call on this device */
    AULE_ERROR_TENSOR =
        9, /* a tensor's shape, dtype, strides, alignment, device, address, overlap */
    AULE_ERROR_PARAM = 10,     /* a parameter is missing or has a wrong value */
    AULE_ERROR_REQUIRE = 11,   /* a `require` of the script does not hold */
    AULE_ERROR_WORKSPACE = 12, /* no workspace, or one that is too small or misaligned */
    AULE_ERROR_BUILD = 13,     /* the driver does not take the code; its log is in the message */
    AULE_ERROR_DRIVER = 14,    /* a driver's call failed */
    AULE_ERROR_INDEX = 15,     /* an index of the script lies outside of its tensor (--checked) */
    AULE_ERROR_WORK = 16       /* lists of work that were not made for tensors that lie so */
} aule_status;

/* "tensor": the status as a word; "unknown" for a number that is none. */
AULE_API const char *aule_status_name(aule_status status);

typedef struct aule_error aule_error;
AULE_API aule_status aule_error_status(const aule_error *error);  /* NULL: AULE_OK */
AULE_API const char *aule_error_message(const aule_error *error); /* NULL: "" */
AULE_API void aule_error_free(aule_error *error);

/* ---- memory */

/* Where the library's own memory comes from. [resize] works like realloc; new_bytes 0 frees [memory]; returns NULL where there is
 * none. Called from any thread. The struct and what it points to must outlive every handle made with it. */
typedef struct aule_allocator {
    size_t struct_size;
    void *(*resize)(void *user, void *memory, size_t old_bytes, size_t new_bytes);
    void *user;
} aule_allocator;

typedef struct aule_options {
    size_t struct_size;
    const aule_allocator *allocator; /* NULL: malloc's */
} aule_options;

/* ---- modules: artifacts */

typedef struct aule_module aule_module;
typedef struct aule_attention aule_attention; /* belongs to its module */

/* Opens `x.so`. The file is checked to be a whole ELF library for this machine that exports an artifact before any of it is loaded;
 * the artifact's version and structure are checked before anything else is read. AULE_ERROR_FILE, _ARTIFACT, _VERSION, _MEMORY. */
AULE_API aule_status aule_module_open(const char *path, const aule_options *options,
                                      aule_module **module, aule_error **error);

/* The same of an artifact in memory, as a static build exports it; [descriptor] must outlive the module. */
AULE_API aule_status aule_module_from(const aule_module_v1 *descriptor, const aule_options *options,
                                      aule_module **module, aule_error **error);
AULE_API void aule_module_close(aule_module *module);

AULE_API const aule_module_v1 *aule_module_descriptor(const aule_module *module);
AULE_API size_t aule_module_count(const aule_module *module);
AULE_API aule_attention *aule_module_attention(const aule_module *module,
                                               size_t index); /* NULL: out of range */

/* [name] NULL: the only one, or that of dense rows, "mha", where all others are its layouts, "mha@T=paged"; AULE_ERROR_NAME lists the names there are. */
AULE_API aule_status aule_module_find(const aule_module *module, const char *name,
                                      aule_attention **attention, aule_error **error);
AULE_API const aule_attention_v1 *aule_attention_descriptor(const aule_attention *attention);

/* What the artifact holds, as text of several lines that ends in a newline; freed with aule_text_free. */
AULE_API aule_status aule_describe_module(const aule_module *module, char **text,
                                          aule_error **error);
AULE_API void aule_text_free(char *text);

/* ---- devices */

typedef struct aule_device aule_device;

typedef enum aule_device_kind {
    AULE_DEVICE_CPU = 0, /* the host's processor, also behind a driver's interface */
    AULE_DEVICE_GPU = 1,
    AULE_DEVICE_OTHER = 2
} aule_device_kind;

/* What is known of a device without opening it. Where a backend is not available there is one entry for it, with the reason. */
typedef struct aule_device_info {
    size_t struct_size;
    const char *
        id; /* "cpu", "opencl:1": what aule_device_open takes; the backend's name where it is not available */
    const char *backend;   /* "cpu", "opencl", "cuda" */
    int32_t available;     /* 1 or 0 */
    const char *reason;    /* why not; "" if available */
    const char *name;      /* the driver's words */
    const char *driver;    /* platform and version */
    const char *features;  /* space-separated, as variants of artifacts ask for them */
    uint32_t kind;         /* aule_device_kind */
    uint32_t units;        /* cores, compute units */
    uint64_t memory_bytes; /* of the device; 0 unknown */
    DLDevice dl;           /* the device that tensors must name */
    /* "4f2c..-..": what the device is called whatever else is in the machine, 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12; "vulkan:UUID"
     * opens it, too. "": its driver does not say (Vulkan's, HIP's and Level Zero's are asked) */
    const char *uuid;
} aule_device_info;

/* All devices of all backends of this build, in order of preference. */
typedef struct aule_device_list aule_device_list;
AULE_API aule_status aule_device_list_new(const aule_options *options, aule_device_list **list,
                                          aule_error **error);
AULE_API size_t aule_device_list_count(const aule_device_list *list);
AULE_API const aule_device_info *aule_device_list_get(const aule_device_list *list,
                                                      size_t index); /* NULL: out of range */
AULE_API void aule_device_list_free(aule_device_list *list);

/* What aule_run.queue and the other queues of calls are. DEFAULT: of the backend's usual kind; levelzero: an immediate
 * ze_command_list_handle_t. RECORDED, levelzero: a ze_command_list_handle_t that its owner closes and executes, each time with the addresses and
 * parameters of the call; it cannot be waited for here, and events on it must outlive what is executed. RECORDED, metal: an
 * id<MTLCommandBuffer> without an open encoder, which its owner commits and waits for; it has no events (GPUStartTime is its own). COMMANDS,
 * levelzero: a ze_command_queue_handle_t. A kind that a backend does not have is refused (AULE_ERROR_USAGE). */
typedef enum aule_queue_kind {
    AULE_QUEUE_DEFAULT = 0,
    AULE_QUEUE_RECORDED = 1,
    AULE_QUEUE_COMMANDS = 2
} aule_queue_kind;

typedef struct aule_device_options {
    size_t struct_size;
    const aule_allocator *allocator;
    uint32_t
        threads; /* cpu: threads that work, the caller's included, at most 1024; 0: AULE_NUM_THREADS, else the cores the process may use */
    uint32_t queue_kind; /* aule_queue_kind */
    const aule_attention
        *attention; /* where a choice is left, only devices for which this has a kernel */
    /* opencl: the caller's cl_context, retained; cuda: the caller's CUcontext, levelzero: the caller's ze_context_handle_t of the device's
     * driver, which must outlive the device; vulkan: an aule_vulkan_device, read while the device is opened; NULL: one of its own, for cuda
     * the device's primary context, which the CUDA runtime and PyTorch have too. The device must be opened by name */
    void *context;
} aule_device_options;

/* A VkDevice of the caller's, and a queue of it, which all work of the aule_device goes on; both must outlive that. Handles are Vulkan's, those
 * that are 64-bit numbers there are so here. */
typedef void (*aule_vulkan_function)(void);
typedef struct aule_vulkan_device {
    size_t struct_size;
    /* vkGetInstanceProcAddr of the loader that made the instance; NULL: of libvulkan.so.1 */
    aule_vulkan_function (*get_instance_proc_addr)(void *instance, const char *name);
    void *instance; /* VkInstance, for Vulkan 1.2 or newer */
    /* VkPhysicalDevice: number N among the instance's where vulkan:N is opened */
    void *physical_device;
    void *device; /* VkDevice, of that alone (no group) */
    /* The VkDeviceCreateInfo that it was made from: what it enables is what kernels may use, and what they all need and it leaves out is
     * named. NULL: taken to enable what they all need, and nothing that only some do (subgroups of a size, matrices) */
    const void *created;
    void *queue;           /* VkQueue */
    uint32_t queue_family; /* which computes */
    /* Around each vkQueueSubmit on the queue, which one thread at a time may do: for those who put work there from other threads while
     * this device is used. Both or none. */
    void (*lock)(void *user);
    void (*unlock)(void *user);
    void *user;
} aule_vulkan_device;

/* Opens a device. [id]: "cpu", "opencl:1", or a backend's name for its first device. NULL: the environment's AULE_DEVICE or
 * AULE_BACKEND if set (one id, or several with commas, the first that can be opened; all must be ids; a number in AULE_DEVICE is that device of the
 * one backend in AULE_BACKEND), else the first available device in the order cuda, hip,
 * levelzero, opencl, metal, vulkan, cpu; a processor behind a driver's interface comes after the native `cpu`. What was asked for by
 * name and is not there is AULE_ERROR_DEVICE, with the reason: another device never takes its place. A value of AULE_NUM_THREADS that is
 * none is AULE_ERROR_USAGE, whatever the device. */
AULE_API aule_status aule_device_open(const char *id, const aule_device_options *options,
                                      aule_device **device, aule_error **error);
AULE_API void aule_device_close(aule_device *device);
AULE_API const aule_device_info *aule_device_get_info(const aule_device *device);

/* Every backend and device, available or why not, as text; freed with aule_text_free. */
AULE_API aule_status aule_describe_devices(const aule_options *options, char **text,
                                           aule_error **error);

/* ---- the cache: what took long to make, in a folder of this user's alone
 *
 * $XDG_CACHE_HOME/aule, else ~/.cache/aule: machine code that CUDA's driver made, and Python's artifacts. It holds no more than
 * AULE_CACHE_MAX says ("500M", "2G"; default 1G; 0: nothing is kept): after each file that is written those used least recently go. Any
 * process may trim it at any time. */

typedef struct aule_cache_use {
    size_t struct_size;
    uint64_t files, bytes;
} aule_cache_use;

/* Its path, freed with aule_text_free; made if need be. AULE_ERROR_FILE: there is none that only this user can write, and why. */
AULE_API aule_status aule_cache_folder(char **path, aule_error **error);
/* AULE_CACHE_MAX in bytes. AULE_ERROR_USAGE: it is no number of bytes. */
AULE_API aule_status aule_cache_limit(uint64_t *bytes, aule_error **error);
/* Removes what was used least recently until at most [most] bytes are left (0: all); [left] (may be NULL): what is. */
AULE_API aule_status aule_cache_trim(uint64_t most, aule_cache_use *left, aule_error **error);

/* Waits until everything that was put on [queue] (NULL: the device's own) has been done. cpu: nothing to wait for. */
AULE_API aule_status aule_device_synchronize(aule_device *device, void *queue, aule_error **error);

/* ---- memory of a device: explicit helpers, for callers who have none of their own */

typedef struct aule_buffer aule_buffer;

/* Memory that is aligned to at least 64 bytes, not zeroed. Keeps its device alive. */
AULE_API aule_status aule_buffer_new(aule_device *device, uint64_t bytes, aule_buffer **buffer,
                                     aule_error **error);
AULE_API void aule_buffer_free(aule_buffer *buffer);
AULE_API void *
aule_buffer_data(const aule_buffer *buffer); /* for DLTensor.data and aule_run.workspace */
AULE_API uint64_t aule_buffer_bytes(const aule_buffer *buffer);

/* Copies, and waits until done; ordered after the work on the device's own queue. */
AULE_API aule_status aule_buffer_upload(aule_buffer *buffer, uint64_t offset, const void *from,
                                        uint64_t bytes, aule_error **error);
AULE_API aule_status aule_buffer_download(const aule_buffer *buffer, uint64_t offset, void *to,
                                          uint64_t bytes, aule_error **error);

/* Memory that another driver has, too, by a file descriptor, as Vulkan and CUDA have on one GPU. AULE_ERROR_UNSUPPORTED where the backend or the
 * driver does not: today vulkan does both, by VK_KHR_external_memory_fd, which a device of the caller's must enable; cuda imports, so that what
 * vulkan exported on the same GPU is memory of CUDA's, too. Who reads and writes it when is the caller's to order, by what both drivers wait for.
 *   _export: as aule_buffer_new, in memory of its own that begins where the buffer does and has [fd_bytes] bytes. *[fd] is the caller's, to be
 *            closed or given to a driver, which then closes it.
 *   _import: memory of [fd_bytes] bytes that somebody allocated on the same device, local to it. [fd] stays the caller's. */
AULE_API aule_status aule_buffer_export(aule_device *device, uint64_t bytes, aule_buffer **buffer,
                                        int *fd, uint64_t *fd_bytes, aule_error **error);
AULE_API aule_status aule_buffer_import(aule_device *device, int fd, uint64_t fd_bytes,
                                        aule_buffer **buffer, aule_error **error);

/* A number that only grows and that two drivers on one GPU set and wait for, by a file descriptor (a timeline semaphore): the order of what both do with
 * memory as above, of which no thread waits. It begins with 0. AULE_ERROR_UNSUPPORTED where the backend or the driver has none: today vulkan exports, by
 * VK_KHR_external_semaphore_fd, which a device of the caller's must enable, and cuda imports.
 *   _export: *[fd] is the caller's, to be closed or given to a driver, which then closes it.
 *   _import: of a semaphore that was exported on the same device. [fd] stays the caller's.
 *   _signal: behind what is on [queue], as in aule_run, it gets [value], which is more than any before; _wait: what comes behind waits until it has it.
 *            Put what signals a value on its queue before what waits for it.
 *   _handle: on vulkan the VkSemaphore, which runs on the device wait for and signal by an aule_vulkan_queue, also where it is libaule's own; else 0.
 *   _free:   once nothing that is on a queue uses it. */
typedef struct aule_timeline aule_timeline;
AULE_API aule_status aule_timeline_export(aule_device *device, aule_timeline **timeline, int *fd,
                                          aule_error **error);
AULE_API aule_status aule_timeline_import(aule_device *device, int fd, aule_timeline **timeline,
                                          aule_error **error);
AULE_API aule_status aule_timeline_signal(aule_timeline *timeline, void *queue, uint64_t value,
                                          aule_error **error);
AULE_API aule_status aule_timeline_wait(aule_timeline *timeline, void *queue, uint64_t value,
                                        aule_error **error);
AULE_API uint64_t aule_timeline_handle(const aule_timeline *timeline);
AULE_API void aule_timeline_free(aule_timeline *timeline);

/* Memory of the process that the device reads and writes where it is: [bytes] from [memory] on, whole pages both (sysconf(_SC_PAGESIZE)), which a
 * program has who rounds the place of its data outwards; a tensor in it has a byte_offset. It stays the caller's, and must stay mapped, and be writable where
 * kernels write, until the buffer is freed, and that until the work that uses it has been waited for; who reads or writes it in between waits, too.
 * AULE_ERROR_USAGE: no whole pages. AULE_ERROR_UNSUPPORTED: the device has no such buffers (today metal has), or the driver refuses that memory: use copies. */
AULE_API aule_status aule_buffer_host(aule_device *device, void *memory, uint64_t bytes,
                                      aule_buffer **buffer, aule_error **error);

/* ---- events: points in the work of a queue, with the device's time */

typedef struct aule_event aule_event;
AULE_API aule_status aule_event_record(aule_device *device, void *queue, aule_event **event,
                                       aule_error **error);
AULE_API aule_status aule_event_wait(aule_event *event, aule_error **error);
/* Nanoseconds from [first] to [last], waiting for both. AULE_ERROR_USAGE where [last] came first, AULE_ERROR_DRIVER where the queue keeps
 * no times. */
AULE_API aule_status aule_event_elapsed(aule_event *first, aule_event *last, uint64_t *nanoseconds,
                                        aule_error **error);
AULE_API void aule_event_free(aule_event *event);

/* ---- calls */

typedef struct aule_tensor_arg {
    const char *name; /* as in the signature: "q", "k", "v", inputs, "o", finals, "do", "dq" */
    const DLTensor *tensor;
} aule_tensor_arg;

typedef enum aule_value_type { AULE_VALUE_INT = 0, AULE_VALUE_FLOAT = 1 } aule_value_type;

/* An integer is taken for a float parameter; a float for an integer parameter only if it is whole. */
typedef struct aule_value {
    uint32_t type; /* aule_value_type: which of the two counts */
    uint32_t reserved;
    int64_t i;
    double f;
} aule_value;

typedef struct aule_param_arg {
    const char *name;
    aule_value value;
} aule_param_arg;

/* The arguments of one call, by name, in any order. Tensors are described, not owned: nothing of this is read after the function
 * returns, but the tensors' data. By role (aule_role):
 *   forward   reads q, k, v and inputs; writes o, and finals, "o_kept" and "NAME_kept" if they are passed. If "k_new" and "v_new" are
 *             (artifacts of `aulec --append`), it is append and then forward, in one plan: k, v and the scales of tokens are written, too, and
 *             must overlap nothing. Without "slots" the new rows are those of the queries, [B, Hk, S, D], or packed as q is.
 *   backward  reads what forward read and wrote, finals and what is kept included ("o" may be left out where the attention has an
 *             "o_kept"), "do" and, if they are passed, the gradients "dNAME" given for finals (else 0); writes "dq", "dk", "dv" (not
 *             where v is a part of k: its gradient is in "dk") and "dNAME" of each input marked `grad`: all of them.
 *   step      of a recurrence, reads q, k, v and inputs; reads and writes "state", where there is a norm "sum"; writes o.
 *   unfinished (artifacts of `aulec --parts`) reads what forward does, with some of the keys or none; writes f32 "acc" [B, H, S, E],
 *             "state_NAME" [B, H, S] of each row scale and, where there is one, "seen" [B, H, S]: all of them.
 *   combine   reads these of N parts, "acc_parts" [N, B, H, S, E], "state_NAME_parts" and "seen_parts" [N, B, H, S], and the inputs
 *             marked AULE_TENSOR_JOINED; writes o and, if they are passed, finals.
 *   append    (artifacts of `aulec --append`) reads "k_new" [M, Hk, N, D], "v_new" and inputs marked AULE_TENSOR_CACHED; writes them into k
 *             and v, and the scales of tokens: where "slots", i64 [M, N], says, or to the last rows of each sequence.
 *   schedule  (of rows in layouts) is given what forward is; reads inputs, writes "work", i32 of as many elements as aule_attention_shape says: lists of who
 *             does what. A forward that is passed "work" makes none of its own: once a step, for all calls of the same shapes, lists, parameters and flags.
 *             Its address is a multiple of 64. Whatever it holds, nothing outside of the tensors is touched; rows that it does not name are not written. */
typedef struct aule_call {
    size_t struct_size;
    const char *
        operation; /* "forward", "backward", "step", "unfinished", "combine", "append", "schedule"; NULL: forward */
    const aule_tensor_arg *tensors;
    size_t tensor_count;
    const aule_param_arg *params;
    size_t param_count;
    const char *
        arch; /* only kernels for this architecture of the artifact ("x86-64-v3"); NULL: the best that fits */
    uint32_t flags; /* AULE_CALL_* */
} aule_call;
/* Of forward of attentions with weights: the bits of a row's result depend on its own sequence alone, whatever else is in the batch and
 * in whatever order. Kernels whose blocks share out keys by how many sequences there are are left alone; artifacts of `aulec --invariant`
 * have others in their place, else what is left reads keys of few queries in fewer blocks and takes longer. */
#define AULE_CALL_INVARIANT 1u

/* Shape and dtype that [call]'s inputs imply for the tensor [name] (of any operation), which itself need not be in [call].
 * That of "work" may depend on the parameters, too, which must then be there. [shape] has room for 8. [dtype]'s lanes are 1; of an operand whose type no tensor of the call says, as o of "combine", the
 * caller chooses it and bits is 0. */
AULE_API aule_status aule_attention_shape(const aule_attention *attention, const aule_call *call,
                                          const char *name, int32_t *rank, int64_t shape[8],
                                          DLDataType *dtype, aule_error **error);

/* A prepared call: arguments checked, kernel chosen, code loaded, grids computed. Everything that can be refused is refused here:
 * shapes, dtypes, strides, alignment, devices, NULL, outputs that overlap themselves or another tensor, sizes that contradict
 * each other, parameters, `require`s, and calls for which the artifact has no kernel (the message says which it has, and how to compile
 * the one that is missing). The first plan of a module on a device may build its code, which takes time. */
typedef struct aule_plan aule_plan;
AULE_API aule_status aule_plan_new(aule_attention *attention, aule_device *device,
                                   const aule_call *call, aule_plan **plan, aule_error **error);
AULE_API void aule_plan_free(aule_plan *plan);
AULE_API const aule_variant_v1 *aule_plan_variant(const aule_plan *plan);
/* Bytes that a thread of the device keeps in memory for want of registers, of the plan's kernel that has most, as the driver's compiler says
 * (levelzero: a hardware thread, which is a subgroup). 0: none, or the driver does not say. Such kernels are right, and slow. */
AULE_API uint64_t aule_plan_spilled(const aule_plan *plan);

/* Bytes of workspace a run needs; [align] (may be NULL) receives the alignment of its address. */
AULE_API uint64_t aule_plan_workspace(const aule_plan *plan, uint32_t *align);

/* Where a tensor's data is. */
typedef struct aule_address {
    void *data;
    uint64_t byte_offset;
} aule_address;

/* What aule_run.queue points to on a Vulkan device: what a run waits for and signals on the device's queue. On a device that is not the caller's the semaphores
 * are those of its timelines (aule_timeline_handle). */
typedef struct aule_vulkan_semaphore {
    uint64_t semaphore; /* VkSemaphore of the device */
    uint64_t value;     /* of a timeline; not looked at of a binary one */
} aule_vulkan_semaphore;
#define AULE_VULKAN_SEMAPHORES 16 /* of each kind at most */
typedef struct aule_vulkan_queue {
    size_t struct_size;
    const aule_vulkan_semaphore *waits; /* before the first kernel */
    size_t wait_count;
    const aule_vulkan_semaphore
        *signals; /* behind the last; what was written is there for whoever waits */
    size_t signal_count;
} aule_vulkan_queue;

typedef struct aule_run {
    size_t struct_size;
    /* opencl: the caller's cl_command_queue of the device's context; cuda: the caller's CUstream, CU_STREAM_LEGACY ((CUstream)1) for
     * the default one; hip: the caller's hipStream_t, and 1 for the default one, too; levelzero: as aule_device_options.queue_kind says; vulkan: an aule_vulkan_queue, read during the call, or NULL, which
     * waits for and signals nothing; NULL: the device's own (cuda: one that is ordered with the default one) */
    void *queue;
    void *
        workspace; /* memory of the device (opencl: a cl_mem), used by this run alone until it is done */
    uint64_t workspace_bytes;
    const aule_address *
        tensors; /* NULL: as planned; else for each tensor of the call, in its order, where it is this time */
    const aule_value *
        params; /* NULL: as planned; else for each parameter of the call, in its order, its value this time */
} aule_run;

/* Puts the call on the queue. cpu: done when it returns; elsewhere it returns at once. [run] NULL is fine where no workspace is
 * needed. New addresses must have the planned alignment and must not overlap (checked for NULL and alignment only); new parameters
 * are checked like those of aule_plan_new. A plan may be run by several threads at once, each with its own workspace and outputs.
 * cuda: it may be called while the stream is captured into a graph. Host kernels use up to 512 KB of the calling thread's stack. */
AULE_API aule_status aule_plan_run(const aule_plan *plan, const aule_run *run, aule_error **error);

/* Of an artifact that was compiled with --checked: waits for the queue of [run], which must be that of the last run with its workspace,
 * and tells with AULE_ERROR_INDEX of an index that lay outside of its tensor, with the line of the script: "docs.attn:12:31: index
 * 130 on axis 1 of 'table' is not in [0, 128) (b 0, h 1, q_idx 7)". Its results are as if the index had been clamped. cpu:
 * aule_plan_run itself returns this. AULE_OK at once where nothing was checked. */
AULE_API aule_status aule_plan_report(const aule_plan *plan, const aule_run *run,
                                      aule_error **error);

/* aule_plan_new, aule_plan_run and aule_plan_free: for calls that are made once. */
AULE_API aule_status aule_attention_run(aule_attention *attention, aule_device *device,
                                        const aule_call *call, const aule_run *run,
                                        aule_error **error);

/* ---- for bindings of languages: what the objects are that a call was given, all at once */

/* What a library of tensors has for it, DLPack's DLPackDLTensorFromPyObjectNoSync (dlpack.h 1.3): fills [tensor], whose arrays the object keeps,
 * or returns another number than 0. */
typedef int (*aule_object_reader)(void *object, DLTensor *tensor);

typedef struct aule_objects {
    size_t struct_size;
    aule_object_reader read;
    const void *none; /* an object that is no tensor */
    void *const *objects;
    size_t count;
    uint64_t *
        addresses; /* count + 1: of each where its memory begins, of [none] 0; and a 0 behind them */
    uint64_t *
        words; /* what else a plan depends on: types, devices, shapes, strides, and whether all addresses are multiples of 16 */
    size_t word_count; /* that have room */
} aule_objects;

/* Reads them, and returns how many words there are, which are equal for calls that one plan takes in turn; 0 where there is no room, an object has no
 * memory, or [read] fails, which then knows why. Nothing is checked, allocated or kept. */
AULE_API size_t aule_objects_read(const aule_objects *objects);

/* ---- launch expressions, for readers of artifacts */

/* Evaluates [expr]; [sizes] and [params] are indexed as in the attention's descriptor. AULE_ERROR_ARTIFACT where the code is not
 * well formed, AULE_ERROR_REQUIRE where it divides by zero or leaves 64 bits. Allocates nothing but the error. */
AULE_API aule_status aule_evaluate(const aule_expr *expr, const int64_t *sizes, size_t size_count,
                                   const aule_value *params, size_t param_count, aule_value *value,
                                   aule_error **error);

#ifdef __cplusplus
}
#endif
#endif
