/* sample.c - the mock runs the kernels of the sample artifact (sample_kernels.h), which it knows by name; any module is one of theirs. */
#include "inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sample_kernels.h"

/* Arguments in the order of slots: p an address and its offset, l 64 bits, i 32. */
#define L4         "llll"
#define FORWARD_1  "pppppppp" L4 L4 L4 L4 "lll"
#define FORWARD    FORWARD_1 "iiliiilii"
#define BACKWARD_1 "pppppppppppppp" L4 L4 L4 L4 L4 L4 L4 L4
#define BACKWARD                                                                                   \
    BACKWARD_1 "lllllll"                                                                           \
               "iiiiiiii"

static const struct {
    const char *name, *args;
    void (*run)(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z);
} kernels[] = {{"weigh", FORWARD, sample_weigh},
               {"divide", FORWARD, sample_divide},
               {"gradients", BACKWARD, sample_gradients},
               {"move_sums", BACKWARD, sample_move_sums}};
enum { KERNELS = sizeof kernels / sizeof *kernels };

bool run_ready(void) { return true; }

Program *run_build(const void *code, size_t bytes, char *log, size_t log_bytes)
{
    uint32_t magic = 0;
    if (bytes >= 4) memcpy(&magic, code, 4);
    if (magic == 0x07230203) return malloc(1);
    snprintf(log, log_bytes, "mock: no SPIR-V");
    return NULL;
}
void run_end(Program *program) { free(program); }

static int find(const char *name)
{
    for (int n = 0; n < KERNELS; n++)
        if (strcmp(kernels[n].name, name) == 0) return n;
    return -1;
}

bool run_facts(Program *program, const char *name, KernelFacts *facts)
{
    const int n = find(name);
    (void)program;
    for (const char *arg = n < 0 ? "" : kernels[n].args; *arg; arg++) {
        facts->args[facts->arg_count].bytes = *arg == 'i' ? 4 : 8;
        facts->args[facts->arg_count++].pointer = *arg == 'p';
        if (*arg == 'p') facts->args[facts->arg_count++].bytes = 8;
    }
    facts->local_bytes = levelzero_mock.local_bytes;
    return n >= 0;
}

bool run_launch(Program *program, const char *name, const KernelFacts *facts,
                const uint64_t *values, const uint32_t *groups, const uint32_t *block)
{
    uint64_t slots[MOST_ARGS];
    uint32_t count = 0;
    (void)program, (void)block;
    for (uint32_t n = 0; n < facts->arg_count; n++) {
        slots[count++] = values[n];
        if (facts->args[n].pointer && values[++n]) return false; /* offsets are of no use here */
    }
    for (uint32_t z = 0; z < groups[2]; z++)
        for (uint32_t y = 0; y < groups[1]; y++)
            for (uint32_t x = 0; x < groups[0]; x++) kernels[find(name)].run(slots, x, y, z);
    return true;
}
