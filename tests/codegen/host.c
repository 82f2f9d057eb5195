#include "host.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

/* ---- cases */

uint32_t host_random(Host *host, uint32_t below)
{
    host->random = host->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((host->random >> 32) * below >> 32);
}

static uint64_t random_bits(Host *host)
{
    return (uint64_t)host_random(host, 0xffffffffu) << 32 | host_random(host, 0xffffffffu);
}

/* Numbers where meanings differ between machines come first, then ordinary ones. */
static float float_at(Host *host, uint64_t n)
{
    static const float edges[] = {
        0.0f,    -0.0f,    1.0f,     -1.0f,      0.5f,      1.5f,  2.5f,   -2.5f, 3e38f,
        -3e38f,  65504.0f, 65520.0f, 1e-3f,      7.0f,      -7.0f, 255.0f, 1e9f,  -1e9f,
        6.0e-5f, -6.2e-5f, 0x1p-24f, 0x1.8p-24f, 0x1p-126f, 0.1f,  33.25f, 100.0f};
    enum { EDGES = sizeof edges / sizeof *edges };
    if (n < EDGES) return edges[n];
    if (n == EDGES) return __builtin_inff();
    if (n == EDGES + 1) return -__builtin_inff();
    if (n == EDGES + 2) return __builtin_nanf("");
    return ((float)host_random(host, 20001) - 10000.0f) / 1024.0f;
}

static int64_t int_at(Host *host, uint64_t n, bool wide)
{
    static const int64_t edges[] = {0,  1,  -1, 2,  -2,  3,    -3,        7,
                                    -8, 31, 32, 33, 100, -100, INT32_MAX, INT32_MIN};
    enum { EDGES = sizeof edges / sizeof *edges };
    if (n < EDGES) return edges[n];
    if (n < EDGES + 2 && wide) return n == EDGES ? INT64_MAX : INT64_MIN;
    const uint32_t shift = host_random(host, wide ? 64 : 32);
    return (int64_t)random_bits(host) >> shift;
}

static void fill(Host *host, AuScalar scalar, void *data, uint64_t count)
{
    for (uint64_t n = 0; n < count; n++) switch (scalar) {
        case AU_F32: ((float *)data)[n] = float_at(host, n); break;
        case AU_F16: ((uint16_t *)data)[n] = kernel_to_f16(float_at(host, n)); break;
        case AU_BF16: ((uint16_t *)data)[n] = kernel_to_bf16(float_at(host, n)); break;
        case AU_I32: ((int32_t *)data)[n] = (int32_t)int_at(host, n, false); break;
        case AU_I64: ((int64_t *)data)[n] = int_at(host, n, true); break;
        case AU_U8: ((uint8_t *)data)[n] = (uint8_t)host_random(host, 256); break;
        case AU_I1: ((uint8_t *)data)[n] = (uint8_t)host_random(host, 2); break;
        case AU_VOID:
        case AU_SCALARS: break;
        }
}

Case *host_case(Host *host, const char *format, ...)
{
    Case *c = AU_NEW(host->arena, Case);
    va_list arguments;
    va_start(arguments, format);
    c->label = au_vformat(host->arena, format, arguments);
    va_end(arguments);
    c->k = kernel_new(host->arena, au_format(host->arena, "case_%u", host->count), host->lanes, 1);
    c->k->banner = c->label;
    c->grid[0] = c->grid[1] = c->grid[2] = 1;
    AU_PUSH(host->arena, host->cases, host->count, host->capacity, c);
    return c;
}

AuMem case_tensor(Host *host, Case *c, const char *name, AuScalar scalar, uint64_t count, bool read,
                  bool written)
{
    const AuMem mem = kernel_tensor(c->k, name, scalar, read, written, 0, 0);
    const uint32_t n = c->k->arg_count - 1;
    c->bytes[n] = count * kernel_scalar_bytes(scalar);
    void *data = au_alloc(host->arena, c->bytes[n]);
    if (read)
        fill(host, scalar, data, count);
    else
        memset(data, scalar == AU_I1 ? 1 : 0x5a, c->bytes[n]);
    c->buffers[n] = (AuKBuffer){.data = data, .count = count, .initialised = true};
    return mem;
}

void *case_data(Case *c, AuMem mem) { return c->buffers[c->k->mems[mem.i].arg].data; }

void case_kernel(Case *c, AuKernel *k)
{
    k->name = c->k->name;
    k->banner = c->label;
    c->k = k;
}

AuVal case_i32(Case *c, const char *name, int32_t value)
{
    const AuVal v = kernel_arg(c->k, name, AU_ARG_I32, 0, c->k->arg_count, 0);
    c->slots[c->k->arg_count - 1] = (uint32_t)value;
    return v;
}

AuVal case_place(Case *c)
{
    AuVal block =
        kernel_op2(c->k, AU_K_MUL, kernel_block(c->k, 0), kernel_i32(c->k, (int32_t)c->k->lanes));
    return kernel_op2(c->k, AU_K_ADD, block, kernel_lane(c->k));
}

/* ---- hosts */

const AuArch *host_arch(const char *name)
{
    for (uint32_t n = 0; n < au_target_cpu.arch_count; n++)
        if (strcmp(au_target_cpu.archs[n].name, name) == 0) return &au_target_cpu.archs[n];
    return NULL;
}

/* tdpbf16ps, and a system that lets a process have the registers. */
static bool has_tiles(void)
{
#ifdef __x86_64__
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1) &&
           syscall(SYS_arch_prctl, 0x1023, 18) == 0;
#else
    return false;
#endif
}

static bool executes(const char *arch)
{
    if (strcmp(arch, "aarch64") == 0) return *AARCH64_RUNNER != 0;
#ifdef __x86_64__
    __builtin_cpu_init();
    if (strcmp(arch, "x86-64-v3") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(arch, "x86-64-v4") == 0)
        return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (strcmp(arch, "x86-64-v4-bf16") == 0) return __builtin_cpu_supports("avx512bf16");
    if (strcmp(arch, "x86-64-v4-amx") == 0)
        return __builtin_cpu_supports("avx512bf16") && has_tiles();
#endif
    return false;
}

static bool is_gpu(const char *arch) { return strncmp(arch, "sm_", 3) == 0; }

static const AuArch *gpu_arch(const char *name)
{
    for (uint32_t n = 0; n < au_target_cuda.arch_count; n++)
        if (strcmp(au_target_cuda.archs[n].name, name) == 0) return &au_target_cuda.archs[n];
    return NULL;
}

Host *host_new(const char *arch)
{
    if (is_gpu(arch) ? !device_has_use() : !executes(arch)) return NULL;
    AuArena *arena = au_arena_new(NULL);
    Host *host = AU_NEW(arena, Host);
    host->arena = arena;
    host->diags = au_diags_new(arena);
    host->gpu = is_gpu(arch);
    host->target = host->gpu ? &au_target_cuda : &au_target_cpu;
    host->arch = host->gpu ? gpu_arch(arch) : host_arch(arch);
    host->lanes = host->gpu                        ? 32
                  : strcmp(arch, "x86-64-v3") == 0 ? 8
                  : strcmp(arch, "aarch64") == 0   ? 4
                                                   : 16;
    host->random = 1;
    host->optimize = 2;
    assert_non_null(host->arch);
    return host;
}

void host_free(Host *host) { au_arena_free(host->arena); }

void host_check(Host *host, bool good)
{
    AuText text = {.arena = host->arena};
    au_diags_render(host->diags, &text);
    if (!good || host->diags->errors) fail_msg("%s", au_text_str(&text));
}

/* ---- running */

static void write_file(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static AuBlob build(Host *host)
{
    AuKernel **kernels = AU_NEW_ARRAY(host->arena, AuKernel *, host->count);
    AuImageFix *fixes = AU_NEW_ARRAY(host->arena, AuImageFix, host->count);
    for (uint32_t n = 0; n < host->count; n++) {
        kernels[n] = host->cases[n]->k;
        fixes[n] = (AuImageFix){.at = 8 * n, .symbol = kernels[n]->name};
        if (!kernel_verify(kernels[n], host->diags))
            print_error("in case %s\n", host->cases[n]->label);
        host_check(host, true);
    }
    AuImage image = {.bytes = au_alloc(host->arena, 8 * host->count),
                     .length = 8 * host->count,
                     .fixes = fixes,
                     .fix_count = host->count};
    AuBlob objects[3], library; /* two of kernels: what is shared is so across objects */
    const uint32_t half = (host->count + 1) / 2;
    for (uint32_t n = 0; n < 2; n++)
        host_check(host, au_target_cpu.emit(host->arena, host->diags, kernels + n * half,
                                            n ? host->count - half : half, host->arch,
                                            AU_CODE_FINAL, host->optimize, &objects[n]));
    host_check(host, au_image_object(host->arena, host->diags, &image, "aule_module_v1", host->arch,
                                     &objects[2]));
    host_check(host, au_link_shared(host->arena, host->diags, objects, 3, "aule_module_v1",
                                    host->arch, &library));
    return library;
}

/* Words of the cases as runner.c wants them; [place] gets where each buffer lies. */
static AuText pack(Host *host, size_t (*place)[CASE_ARGS])
{
    static const unsigned char zero[64];
    AuText file = {.arena = host->arena};
    const uint64_t head[8] = {host->count};
    au_text_bytes(&file, head, sizeof head);
    for (uint32_t n = 0; n < host->count; n++) {
        Case *c = host->cases[n];
        const uint64_t start[4] = {c->grid[0], c->grid[1], c->grid[2], c->k->arg_count};
        au_text_bytes(&file, start, sizeof start);
        for (uint32_t a = 0; a < c->k->arg_count; a++) {
            const uint64_t words[8] = {c->bytes[a], c->slots[a]};
            au_text_bytes(&file, words, sizeof words);
            place[n][a] = file.length;
            if (c->bytes[a]) au_text_bytes(&file, c->buffers[a].data, c->bytes[a]);
            au_text_bytes(&file, zero, (64 - c->bytes[a] % 64) % 64);
        }
        au_text_bytes(&file, zero, (64 - file.length % 64) % 64);
    }
    return file;
}

static void execute(const Host *host, const char *folder)
{
    const bool arm = strcmp(host->arch->name, "aarch64") == 0;
    char library[256], data[256];
    snprintf(library, sizeof library, "%s/t.so", folder);
    snprintf(data, sizeof data, "%s/t.data", folder);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (arm)
            execlp("qemu-aarch64", "qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", AARCH64_RUNNER,
                   library, data, NULL);
        else
            execl(NATIVE_RUNNER, NATIVE_RUNNER, library, data, NULL);
        _exit(127);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0) assert_int_equal(errno, EINTR);
    if (status) fail_msg("%s: the runner ended with status %x", host->arch->name, (unsigned)status);
}

static bool same(const Case *c, AuScalar scalar, const unsigned char *got,
                 const unsigned char *want)
{
    const uint32_t bytes = kernel_scalar_bytes(scalar);
    if (memcmp(got, want, bytes) == 0) return true;
    float x = 0, y = 0;
    uint16_t hx, hy;
    memcpy(&hx, got, 2), memcpy(&hy, want, 2);
    if (scalar == AU_F32) memcpy(&x, got, 4), memcpy(&y, want, 4);
    if (scalar == AU_F16) x = kernel_from_f16(hx), y = kernel_from_f16(hy);
    if (scalar == AU_BF16) x = kernel_from_bf16(hx), y = kernel_from_bf16(hy);
    if (scalar != AU_F32 && scalar != AU_F16 && scalar != AU_BF16) return false;
    if (x != x && y != y) return true;
    const float error = x > y ? x - y : y - x, size = y < 0 ? -y : y;
    return scalar == AU_F32 && c->slack > 0 && error <= c->slack * (size + 1);
}

static void compare(const Host *host, const Case *c, uint32_t argument, const unsigned char *got)
{
    const AuMemory *mem = &c->k->mems[c->k->args[argument].mem.i];
    const uint32_t bytes = kernel_scalar_bytes(mem->scalar);
    const unsigned char *want = c->buffers[argument].data;
    for (uint64_t i = 0; i < c->buffers[argument].count; i++)
        if (!same(c, mem->scalar, got + i * bytes, want + i * bytes)) {
            uint64_t a = 0, b = 0;
            memcpy(&a, got + i * bytes, bytes), memcpy(&b, want + i * bytes, bytes);
            fail_msg("%s, %s: @%s[%llu] is 0x%llx, the interpreter has 0x%llx", host->arch->name,
                     c->label, mem->name, (unsigned long long)i, (unsigned long long)a,
                     (unsigned long long)b);
        }
}

void host_interpret(Case *c, bool lockstep)
{
    AuArena *scratch = au_arena_new(NULL);
    const char *why = NULL;
    const AuKRun run = {.slots = c->slots,
                        .buffers = c->buffers,
                        .maps = c->maps,
                        .grid = {c->grid[0], c->grid[1], c->grid[2]},
                        .seed = 1,
                        .lockstep = lockstep};
    if (!kernel_run(c->k, &run, scratch, &why)) fail_msg("%s: %s", c->label, why);
    au_arena_free(scratch);
}

/* What can be functions of its own becomes such; has any kernel some? */
static bool share(Host *host)
{
    bool some = false;
    AuPartTable *table = kernel_part_table(host->arena);
    for (uint32_t n = 0; n < host->count; n++) {
        kernel_find_parts(host->cases[n]->k, table, host->arch->name, host->arch->plain, true);
        some |= host->cases[n]->k->part_count != 0;
    }
    return some;
}

/* What the cases' data are then. */
static const unsigned char *outcome(Host *host, const AuText *data, AuBlob library)
{
    char folder[] = "/tmp/aule-test-XXXXXX", path[256];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t.so", folder);
    write_file(path, library.bytes, library.length);
    snprintf(path, sizeof path, "%s/t.data", folder);
    write_file(path, data->at, data->length);
    execute(host, folder);

    unsigned char *after = au_alloc(host->arena, data->length);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(after, 1, data->length, file), data->length);
    fclose(file);
    unlink(path);
    snprintf(path, sizeof path, "%s/t.so", folder);
    unlink(path);
    rmdir(folder);
    return after;
}

void host_run(Host *host)
{
    if (host->gpu) {
        device_run(host);
        return;
    }
    size_t(*place)[CASE_ARGS] = au_alloc(host->arena, host->count * sizeof *place);
    const AuText data = pack(host, place);
    const unsigned char *after = outcome(host, &data, build(host)), *shared = NULL;
    if (share(host)) shared = outcome(host, &data, build(host));
    for (uint32_t n = 0; n < host->count; n++) {
        host_interpret(host->cases[n], true);
        for (uint32_t a = 0; a < host->cases[n]->k->arg_count; a++)
            if (host->cases[n]->bytes[a]) {
                compare(host, host->cases[n], a, after + place[n][a]);
                if (shared) compare(host, host->cases[n], a, shared + place[n][a]);
            }
    }
}
