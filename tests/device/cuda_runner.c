/* cuda_runner.c - runs cases on an NVIDIA GPU and compares them with what the interpreter expects.
 *
 * cuda_runner FOLDER...: every NAME.ptx there is a module (NAME.cubin, if there is one that suits the device, spares the driver its
 * compilation), NAME.cases what to run (written by tests/codegen/device.c): the number of
 * cases; for each its grid, threads, dynamic shared memory, number of arguments and the errors allowed (in 2^-40 of the value plus 1,
 * in 1/256 of a unit of the last place), a label of 128 bytes, and for each argument its length in bytes (0: a number, in the second
 * word), the element type, and the buffer before and after. Behind the errors stands the number of tensor maps, behind the label each
 * of them: its argument, element type, number of dimensions, swizzle, whether NaN fills it, box, sizes and strides in elements. Numbers have 64 bits; everything is padded to 64 bytes. Case n is the
 * function case_n. Needs nothing but the driver: libcuda is opened at run time. Ends with "N passed, M failed".
 *
 * The cases run in a child: one that never ends, or takes its context with it, ends that child, and the next begins behind it. */
#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_ARGUMENTS = 64,
    MOST_MAPS = 8,
    MAP_BYTES = 128,
    MOST_LOST = 8,
    SECONDS = 2,
    NOT_READY = 600
};
enum { VOID, I1, I32, I64, F32, F16, BF16, U8 }; /* AuScalar */

typedef struct Driver {
    int (*Init)(unsigned);
    int (*DeviceGet)(int *, int);
    int (*DeviceGetName)(char *, int, int);
    int (*DevicePrimaryCtxRetain)(void **, int);
    int (*CtxSetCurrent)(void *);
    int (*StreamQuery)(void *);
    int (*ModuleLoadData)(void **, const void *);
    int (*ModuleUnload)(void *);
    int (*ModuleGetFunction)(void **, void *, const char *);
    int (*FuncSetAttribute)(void *, int, int);
    int (*MemAlloc_v2)(uint64_t *, size_t);
    int (*MemFree_v2)(uint64_t);
    int (*MemcpyHtoD_v2)(uint64_t, const void *, size_t);
    int (*MemcpyDtoH_v2)(void *, uint64_t, size_t);
    int (*LaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, void *, void **, void **);
    int (*GetErrorString)(int, const char **);
    int (*TensorMapEncodeTiled)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                                const uint32_t *, const uint32_t *, int, int, int, int);
} Driver;

static bool find(void *library, const char *name, void *to)
{
    char full[64];
    snprintf(full, sizeof full, "cu%s", name);
    void *at = dlsym(library, full);
    memcpy(to, &at, sizeof at);
    if (!at) fprintf(stderr, "the driver has no %s\n", full);
    return at != NULL;
}

static bool open_driver(Driver *d)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    bool good = true;
#define FIND(name) good &= find(library, #name, &d->name)
    FIND(Init), FIND(DeviceGet), FIND(DeviceGetName), FIND(DevicePrimaryCtxRetain);
    FIND(CtxSetCurrent), FIND(StreamQuery), FIND(ModuleLoadData), FIND(ModuleUnload);
    FIND(ModuleGetFunction), FIND(FuncSetAttribute), FIND(MemAlloc_v2), FIND(MemFree_v2);
    FIND(MemcpyHtoD_v2), FIND(MemcpyDtoH_v2), FIND(LaunchKernel), FIND(GetErrorString);
    FIND(TensorMapEncodeTiled);
#undef FIND
    return good;
}

/* ---- the file */

typedef struct Argument {
    uint64_t bytes, slot, scalar;
    const unsigned char *before, *after;
} Argument;

typedef struct Case {
    const uint64_t *head;
    const char *label;
    const uint64_t *maps[MOST_MAPS];
    Argument arguments[MOST_ARGUMENTS];
} Case;

static size_t padded(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

static const unsigned char *read_case(const unsigned char *at, Case *c)
{
    c->head = (const uint64_t *)(const void *)at;
    c->label = (const char *)at + 128;
    at += 128 + 128;
    for (uint64_t n = 0; n < c->head[8]; n++, at += 192)
        c->maps[n] = (const uint64_t *)(const void *)at;
    for (uint64_t n = 0; n < c->head[5]; n++) {
        const uint64_t *words = (const uint64_t *)(const void *)at;
        Argument *a = &c->arguments[n];
        *a = (Argument){words[0], words[1], words[2], at + 64, at + 64 + padded(words[0])};
        at += 64 + 2 * padded(words[0]);
    }
    return at;
}

static unsigned char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    unsigned char *bytes = aligned_alloc(64, padded((size_t)size + 1));
    if (bytes && fread(bytes, 1, (size_t)size, file) == (size_t)size) bytes[size] = 0;
    fclose(file);
    return bytes;
}

/* ---- comparing */

static float from_half(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf((float)(mantissa + 1024), exponent - 25)
                            : ldexpf((float)mantissa, -24));
}

static bool number_of(uint64_t scalar, const unsigned char *at, float *value)
{
    uint16_t half;
    uint32_t word;
    memcpy(&half, at, sizeof half);
    if (scalar == F32) memcpy(value, at, sizeof *value);
    if (scalar == F16) *value = from_half(half);
    if (scalar == BF16) word = (uint32_t)half << 16, memcpy(value, &word, sizeof word);
    return scalar == F32 || scalar == F16 || scalar == BF16;
}

static bool is_same(const Case *c, uint64_t scalar, uint32_t bytes, const unsigned char *got,
                    const unsigned char *want, double *worst)
{
    float x, y;
    if (memcmp(got, want, bytes) == 0) return true;
    if (!number_of(scalar, got, &x) || !number_of(scalar, want, &y)) return false;
    if (isnan(x) && isnan(y)) return true;
    if (!isfinite(x) || !isfinite(y)) return false;
    const double error = fabs((double)x - (double)y), size = fabs((double)y);
    const double unit = ldexp(1.0, (size > 0x1p-126 ? ilogb(size) : -126) - 23);
    if (error / unit > *worst) *worst = error / unit;
    return error <= ldexp((double)c->head[6], -40) * (size + 1) ||
           error <= (double)c->head[7] / 256 * unit ||
           (c->head[7] && size < 0x1p-125 && fabs((double)x) < 0x1p-125);
}

static bool compare(const Case *c, const unsigned char *const *got)
{
    static const uint32_t sizes[] = {1, 1, 4, 8, 4, 2, 2, 1};
    double worst = 0;
    bool good = true;
    for (uint64_t a = 0; a < c->head[5] && good; a++) {
        const Argument *x = &c->arguments[a];
        const uint32_t bytes = sizes[x->scalar];
        for (uint64_t n = 0; n < x->bytes / bytes && good; n++) {
            const unsigned char *want = x->after + n * bytes, *is = got[a] + n * bytes;
            uint64_t is_bits = 0, want_bits = 0;
            good = is_same(c, x->scalar, bytes, is, want, &worst);
            memcpy(&is_bits, is, bytes), memcpy(&want_bits, want, bytes);
            if (!good)
                printf("FAILED %s: argument %d, element %llu is 0x%llx, expected 0x%llx\n",
                       c->label, (int)a, (unsigned long long)n, (unsigned long long)is_bits,
                       (unsigned long long)want_bits);
        }
    }
    if (c->head[7] && good) printf("%s: at most %.2f ulp\n", c->label, worst);
    return good;
}

/* ---- running */

/* What the child has done, where its parent sees it. */
typedef struct Progress {
    int passed, failed, lost;
    int next; /* the case to begin with, counted through all modules */
} Progress;

static bool wrong(const Driver *d, const char *label, const char *what, int code)
{
    const char *text = "";
    if (!code) return false;
    d->GetErrorString(code, &text);
    printf("FAILED %s: %s: %s\n", label, what, text);
    return true;
}

/* Waits as long as a case may take; the driver itself would wait for ever. */
static int wait_for(const Driver *d)
{
    const struct timespec nap = {0, 20000};
    const time_t end = time(NULL) + SECONDS;
    int code = d->StreamQuery(NULL);
    while (code == NOT_READY && time(NULL) <= end) {
        nanosleep(&nap, NULL);
        code = d->StreamQuery(NULL);
    }
    return code;
}

static bool encode(const Driver *d, const Case *c, const uint64_t *words, const uint64_t *slots,
                   void *map)
{
    static const int types[] = {0, 0, 3, 5, 7, 6, 9, 0}; /* of AuScalar: CUtensorMapDataType */
    static const uint64_t bytes[] = {1, 1, 4, 8, 4, 2, 2, 1};
    uint64_t sizes[5], strides[5];
    uint32_t box[5], steps[5];
    const uint64_t scalar = words[1], swizzle = words[3];
    for (uint64_t n = 0; n < words[2]; n++) {
        box[n] = (uint32_t)words[8 + n], steps[n] = 1;
        sizes[n] = words[13 + n], strides[n] = words[18 + n] * bytes[scalar];
    }
    const int pattern = swizzle == 128 ? 3 : swizzle == 64 ? 2 : swizzle == 32;
    return !wrong(d, c->label, "map",
                  d->TensorMapEncodeTiled(map, types[scalar], (uint32_t)words[2],
                                          (void *)(uintptr_t)slots[words[0]], sizes, strides + 1,
                                          box, steps, 0, pattern, 2, words[4] != 0));
}

/* False: the context is gone, or occupied for ever. */
static bool launch(const Driver *d, const Case *c, void *function, uint64_t *slots)
{
    static _Alignas(64) unsigned char maps[MOST_MAPS][MAP_BYTES];
    const unsigned shared = (unsigned)c->head[4];
    void *parameters[2] = {slots, maps};
    for (uint64_t n = 0; n < c->head[8]; n++)
        if (!encode(d, c, c->maps[n], slots, maps[n])) return false;
    if (shared) d->FuncSetAttribute(function, 8, (int)shared); /* most dynamic shared memory */
    int code = d->LaunchKernel(function, (unsigned)c->head[0], (unsigned)c->head[1],
                               (unsigned)c->head[2], (unsigned)c->head[3], 1, 1, shared, NULL,
                               c->head[5] ? parameters : NULL, NULL);
    if (!code) code = wait_for(d);
    if (code == NOT_READY) printf("FAILED %s: it has not ended after %d s\n", c->label, SECONDS);
    return !(code == NOT_READY || wrong(d, c->label, "launch", code));
}

static bool run_case(const Driver *d, const Case *c, void *function, bool *lost)
{
    uint64_t slots[MOST_ARGUMENTS];
    unsigned char *got[MOST_ARGUMENTS] = {NULL};
    bool good = true;
    for (uint64_t n = 0; n < c->head[5]; n++) {
        const Argument *a = &c->arguments[n];
        slots[n] = a->slot;
        if (!a->bytes) continue;
        got[n] = malloc(a->bytes);
        good = good && !wrong(d, c->label, "memory", d->MemAlloc_v2(&slots[n], a->bytes)) &&
               !wrong(d, c->label, "copy", d->MemcpyHtoD_v2(slots[n], a->before, a->bytes));
    }
    *lost = good && !launch(d, c, function, slots);
    for (uint64_t n = 0; n < c->head[5] && !*lost; n++) {
        const Argument *a = &c->arguments[n];
        if (!a->bytes) continue;
        good = good && !wrong(d, c->label, "copy", d->MemcpyDtoH_v2(got[n], slots[n], a->bytes));
        d->MemFree_v2(slots[n]);
    }
    good = good && !*lost && compare(c, (const unsigned char *const *)got);
    for (uint64_t n = 0; n < c->head[5]; n++) free(got[n]);
    return good;
}

static void *load_module(const Driver *d, const char *folder, const char *name)
{
    char path[4096];
    void *module = NULL;
    snprintf(path, sizeof path, "%s/%s.cubin", folder, name);
    unsigned char *code = read_file(path);
    if (!code || d->ModuleLoadData(&module, code)) { /* another architecture's */
        free(code);
        snprintf(path, sizeof path, "%s/%s.ptx", folder, name);
        code = read_file(path);
        module = NULL;
        if (code && wrong(d, name, "module", d->ModuleLoadData(&module, code))) module = NULL;
    }
    free(code);
    return module;
}

/* The cases from progress->next on; [first] is the number of this module's first one. False: the child is of no use any more. */
static bool run_module(const Driver *d, const char *folder, const char *name, int *first,
                       Progress *progress)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.cases", folder, name);
    unsigned char *cases = read_file(path);
    const int count = cases ? (int)*(uint64_t *)(void *)cases : 1, begin = *first;
    bool lost = false;
    *first += count;
    if (progress->next >= *first) {
        free(cases);
        return true;
    }
    void *module = cases ? load_module(d, folder, name) : NULL;
    if (!module) progress->failed += *first - progress->next, progress->next = *first;
    const unsigned char *at = cases ? cases + 64 : NULL;
    for (int n = 0; module && n < count && !lost; n++) {
        Case c;
        char symbol[32];
        void *function = NULL;
        at = read_case(at, &c);
        if (begin + n < progress->next) continue;
        progress->next = begin + n + 1;
        snprintf(symbol, sizeof symbol, "case_%d", n);
        const bool good =
            !wrong(d, c.label, symbol, d->ModuleGetFunction(&function, module, symbol)) &&
            run_case(d, &c, function, &lost);
        *(good ? &progress->passed : &progress->failed) += 1;
    }
    if (module && !lost) d->ModuleUnload(module);
    free(cases);
    return !lost;
}

static bool run_folder(const Driver *d, const char *folder, int *first, Progress *progress)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, alphasort);
    bool fine = count >= 0;
    if (!fine && progress->next == 0)
        printf("FAILED %s: not a folder\n", folder), progress->failed++;
    for (int n = 0; n < count; n++) {
        char *end = strstr(entries[n]->d_name, ".cases");
        if (end && fine) {
            *end = 0;
            fine = run_module(d, folder, entries[n]->d_name, first, progress);
        }
        free(entries[n]);
    }
    if (count >= 0) free(entries);
    return fine;
}

/* The child: 0 all is done, 1 a case took the context with it, 2 there is no device. */
static int run_folders(char **folders, int count, Progress *progress)
{
    Driver d;
    int device, first = 0;
    void *context;
    char name[128] = "";
    if (!open_driver(&d)) return 2;
    if (wrong(&d, "driver", "init", d.Init(0)) ||
        wrong(&d, "driver", "device", d.DeviceGet(&device, 0)) ||
        wrong(&d, "driver", "context", d.DevicePrimaryCtxRetain(&context, device)) ||
        wrong(&d, "driver", "context", d.CtxSetCurrent(context)))
        return 2;
    d.DeviceGetName(name, sizeof name, device);
    printf("on %s\n", name);
    bool fine = true;
    for (int n = 0; n < count && fine; n++) fine = run_folder(&d, folders[n], &first, progress);
    return !fine;
}

/* Begins a child behind the case that ended the last one. */
static int run_children(char **folders, int count, Progress *progress)
{
    for (progress->lost = 0; progress->lost < MOST_LOST; progress->lost++) {
        int status;
        fflush(stdout);
        const pid_t child = fork();
        if (child < 0) return 2;
        if (child == 0) {
            status = run_folders(folders, count, progress);
            fflush(stdout);
            _exit(status);
        }
        if (waitpid(child, &status, 0) != child) return 2;
        if (WIFEXITED(status) && WEXITSTATUS(status) != 1) return WEXITSTATUS(status);
        if (WIFSIGNALED(status))
            printf("FAILED: signal %d\n", WTERMSIG(status)), progress->failed++;
    }
    printf("FAILED: the cases after the %dth that ended its process\n", MOST_LOST);
    progress->failed++;
    return 0;
}

int main(int count, char **arguments)
{
    Progress *progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED) return 2;
    const int status = run_children(arguments + 1, count - 1, progress);
    if (status) return status;
    printf("%d passed, %d failed\n", progress->passed, progress->failed);
    return progress->failed != 0;
}
