/* vulkan_program.h - a call of mha.so in a program with a Vulkan device of its own (vulkan_app.h): tensors and workspace by address, plans of
 * both directions, what `cpu` makes of it. */
#ifndef VULKAN_PROGRAM_H
#define VULKAN_PROGRAM_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "vulkan_app.h"

enum { B = 2, H = 3, S = 37, T = 53, D = 64, QUERIES = B * H * S * D, KEYS = B * H * T * D };
enum { Q, K, V, O, LSE, DO, DQ, DK, DV, TENSORS };
enum { WORKSPACE = 1 << 20 };

typedef struct Tensor {
    const char *name;
    int rank;
    int64_t shape[4];
    int count;
} Tensor;
extern const Tensor tensors[TENSORS];

#define OK(call)                                                                                   \
    do {                                                                                           \
        if (call) give_up(error, #call);                                                           \
    } while (0)

_Noreturn void give_up(aule_error *error, const char *what);

typedef struct Call {
    DLTensor dl[TENSORS];
    aule_tensor_arg args[TENSORS];
    aule_call call;
    aule_plan *plan;
} Call;

void plan_call(Call *c, aule_attention *attention, aule_device *device, bool backward,
               void *const *data);

/* By `cpu`. */
typedef struct Expected {
    float *at[TENSORS];
} Expected;
bool is_close(const float *found, const Expected *x, int tensor);

typedef struct Program {
    const char *path; /* of mha.so */
    aule_module *module;
    App app;
    Expected x;
    aule_attention *attention;
    aule_device *device;
    Memory memory[TENSORS], workspace;
    Call forward, backward;
    pthread_mutex_t queue; /* which is one thread's at a time */
    VkSemaphore ready, done;
    uint64_t done_value;
} Program;

/* false: there is no device. [functions]: vkGetInstanceProcAddr, or NULL. */
bool program_begin(Program *p, const char *path,
                   aule_vulkan_function (*functions)(void *instance, const char *name));
void program_end(Program *p);
void *by_address(const Memory *m);
/* All tensors where they are. */
void program_addresses(const Program *p, aule_address at[TENSORS]);

#endif
