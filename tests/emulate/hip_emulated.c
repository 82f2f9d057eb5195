/* hip_emulated.c - a libamdhip64.so.6 whose devices are emulated: what of hip_mock.c is about code. hip:0 is a gfx942, then gfx1100, gfx908,
 * gfx90a, gfx950, gfx1200, gfx1030; HIP_VISIBLE_DEVICES ("5,6") shows some of them, numbered from 0 on, as AMD's library does. A launch that does what it must not prints the emulator's words and fails. */
#include "../runtime/cuda_mock_inside.h"
#include "hip_emulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"gfx942:sramecc+:xnack-",
                                    "gfx1100",
                                    "gfx908:sramecc+:xnack-",
                                    "gfx90a:sramecc+:xnack-",
                                    "gfx950:sramecc+:xnack-",
                                    "gfx1200",
                                    "gfx1030"};
enum { DEVICES = sizeof names / sizeof *names };
static const char *visible[DEVICES]; /* the names of those that are shown */
static uint64_t errors;              /* AULE_EMULATED_ERRORS, a seed (EmuLaunch) */

/* The first number that is none of ours ends the list, as in AMD's library. */
static int read_visible(const char *list)
{
    int count = 0;
    for (char *end; count < DEVICES; list = end + 1) {
        const long n = strtol(list, &end, 10);
        if (end == list || n < 0 || n >= DEVICES) break;
        visible[count++] = names[n];
        if (*end != ',') break;
    }
    return count;
}

__attribute__((constructor)) static void begin(void)
{
    const char *list = getenv("HIP_VISIBLE_DEVICES"), *seed = getenv("AULE_EMULATED_ERRORS");
    errors = seed ? strtoull(seed, NULL, 10) : 0;
    cuda_mock_reset();
    memcpy(visible, names, sizeof names);
    cuda_mock.devices = list && *list ? read_visible(list) : DEVICES;
}

/* A module's first part is what the mock knows of it. */
enum { MOST_KERNELS = 64 };
typedef struct Module {
    CUmod base;
    Emulator *emulator;
    Kernel kernels[MOST_KERNELS];
} Module;

/* The mistake that kernels whose name ends in [kernel] get, and what the emulator said last. */
static struct {
    char kernel[32], text[64], said[512];
    unsigned at;
    EmuMistake mistake;
    bool wanted, planted;
} plan;

void hip_emulated_plant(const char *kernel, const char *text, unsigned at, EmuMistake mistake)
{
    memset(&plan, 0, sizeof plan);
    plan.wanted = text != NULL;
    plan.at = at;
    plan.mistake = mistake;
    snprintf(plan.kernel, sizeof plan.kernel, "%s", kernel);
    snprintf(plan.text, sizeof plan.text, "%s", text ? text : "");
}

bool hip_emulated_planted(const char **said)
{
    *said = plan.said;
    return plan.planted;
}

/* Who wants to know what launches executed. */
static struct {
    char kernel[32];
    EmuCounts *counts;
} watched;

void hip_emulated_count(const char *kernel, EmuCounts *counts)
{
    snprintf(watched.kernel, sizeof watched.kernel, "%s", kernel);
    watched.counts = counts;
}

static bool ends_in(const char *name, const char *end)
{
    const size_t length = strlen(name), rest = strlen(end);
    return length >= rest && strcmp(name + length - rest, end) == 0;
}

/* What the emulator executed since [before]. */
static void count(const char *kernel, const EmuCounts *now, const EmuCounts *before)
{
    EmuCounts *sum = watched.counts;
    if (!sum || !ends_in(kernel, watched.kernel)) return;
    for (int n = 0; n < EMU_CLASSES; n++) {
        sum->instructions[n] += now->instructions[n] - before->instructions[n];
        sum->cycles[n] += now->cycles[n] - before->cycles[n];
    }
    sum->lanes += now->lanes - before->lanes;
    sum->narrow_reads += now->narrow_reads - before->narrow_reads;
    sum->bank_cycles += now->bank_cycles - before->bank_cycles;
    sum->conflicts += now->conflicts - before->conflicts;
    sum->seconds += now->seconds - before->seconds;
}

static void plant(Emulator *emulator, const char *kernel)
{
    if (plan.wanted && ends_in(kernel, plan.kernel) &&
        emu_plant(emulator, kernel, plan.text, plan.at, plan.mistake))
        plan.planted = true;
}

MOCK_API CUresult hipModuleLoadDataEx(CUmod **module, const void *code, unsigned count,
                                      int *options, void **values);
MOCK_API CUresult hipModuleUnload(CUmod *module);
MOCK_API CUresult hipModuleGetFunction(Kernel **function, CUmod *module, const char *name);
MOCK_API CUresult hipModuleLaunchKernel(Kernel *f, unsigned gx, unsigned gy, unsigned gz,
                                        unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                        void *stream, void **params, void **extra);
MOCK_API CUresult hipGetDevicePropertiesR0600(void *properties, CUdevice device);
MOCK_API CUresult hipDeviceGetAttribute(int *value, int attribute, CUdevice device);

/* hipDeviceProp_t as it is from ROCm 6 on. */
CUresult hipGetDevicePropertiesR0600(void *properties, CUdevice device)
{
    memset(properties, 0, 1472);
    strcpy((char *)properties + 1160, visible[device]);
    mock_hip_uuid(properties, device);
    return OK;
}

/* Processors; LDS of a block. */
CUresult hipDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    const int lds = strncmp(visible[device], "gfx950", 6) == 0 ? 160 << 10 : 64 << 10;
    *value = attribute == 63 ? 304 : attribute == 74 ? lds : 0;
    return *value ? OK : INVALID_VALUE;
}

CUresult hipModuleLoadDataEx(CUmod **module, const void *code, unsigned count, int *options,
                             void **values)
{
    (void)count, (void)options, (void)values;
    char why[128];
    ENTER("cuModuleLoadDataEx", true);
    Emulator *emulator = emu_new(code, why, sizeof why);
    if (!emulator) return fprintf(stderr, "hip double: %s\n", why), INVALID_IMAGE;
    if (!emu_runs_on(emulator, visible[CURRENT->device])) {
        emu_free(emulator);
        return NO_BINARY;
    }
    Module *made = mock_new(sizeof *made);
    made->base.context = CURRENT;
    made->emulator = emulator;
    atomic_fetch_add(&cuda_mock.modules, 1);
    *module = &made->base;
    return OK;
}

CUresult hipModuleUnload(CUmod *module)
{
    ENTER("cuModuleUnload", true);
    if (module->context != CURRENT) return INVALID_CONTEXT;
    atomic_fetch_sub(&cuda_mock.modules, 1);
    emu_free(((Module *)module)->emulator);
    mock_free(module);
    return OK;
}

CUresult hipModuleGetFunction(Kernel **function, CUmod *module, const char *name)
{
    ENTER("cuModuleGetFunction", true);
    Module *own = (Module *)module;
    if (!emu_has(own->emulator, name) || module->count == MOST_KERNELS) return NOT_FOUND;
    Kernel *kernel = &own->kernels[module->count++];
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    plant(own->emulator, name);
    kernel->module = module;
    *function = kernel;
    return OK;
}

enum { MOST_RANGES = 256, UNKNOWN = 999 };
typedef struct Buffers {
    MockRange ranges[MOST_RANGES];
    size_t count, last;
} Buffers;

static bool inside(void *context, uint64_t address, size_t bytes)
{
    Buffers *b = context;
    for (size_t n = 0; n < b->count; n++) {
        const size_t at = (b->last + n) % b->count;
        const MockRange *r = &b->ranges[at];
        if (address < r->address || address + bytes > r->address + r->bytes) continue;
        b->last = at;
        return true;
    }
    return false;
}

CUresult hipModuleLaunchKernel(Kernel *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, void *stream,
                               void **params, void **extra)
{
    (void)stream, (void)extra;
    ENTER("cuLaunchKernel", true);
    if (f->module->context != CURRENT) return INVALID_HANDLE;
    if ((uint64_t)bx * by * bz > 1024 || shared > 65536 || gy > 65535 || gz > 65535 || !gx || !gy ||
        !gz)
        return INVALID_VALUE;
    Emulator *emulator = ((Module *)f->module)->emulator;
    Buffers buffers = {.last = 0};
    buffers.count = mock_ranges(buffers.ranges, MOST_RANGES);
    const EmuLaunch launch = {.kernel = f->name,
                              .grid = {gx, gy, gz},
                              .block = {bx, by, bz},
                              .arguments = params[0],
                              .seed = (uint64_t)atomic_fetch_add(&cuda_mock.launch_count, 1) + 1,
                              .errors = errors,
                              .inside = inside,
                              .context = &buffers};
    const EmuCounts before = *emu_counts(emulator);
    if (emu_run(emulator, &launch)) return count(f->name, emu_counts(emulator), &before), OK;
    snprintf(plan.said, sizeof plan.said, "%s", emu_error(emulator));
    if (!plan.wanted) fprintf(stderr, "hip double: %s\n", plan.said);
    return UNKNOWN; /* not what loses a context: the next case still runs */
}
