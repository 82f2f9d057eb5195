/* device.c - cases for a GPU (host.h): one module of PTX, assembled here, and a file of what goes in and what must come out,
 * as the interpreter says, to be run elsewhere by cuda_runner.c. */
#include "host.h"

#include <errno.h>
#include <unistd.h>

bool device_has_use(void) { return *PTXAS || getenv("AULE_DEVICE_OUT"); }

static void write_file(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static AuBlob compile(Host *host)
{
    AuKernel **kernels = AU_NEW_ARRAY(host->arena, AuKernel *, host->count);
    for (uint32_t n = 0; n < host->count; n++) {
        kernels[n] = host->cases[n]->k;
        if (!kernel_verify(kernels[n], host->diags))
            print_error("in case %s\n", host->cases[n]->label);
        host_check(host, true);
    }
    AuBlob code;
    host_check(host, host->target->emit(host->arena, host->diags, kernels, host->count, host->arch,
                                        AU_CODE_FINAL, host->optimize, &code));
    return code;
}

int device_assemble(AuArena *arena, const AuArch *arch, const AuBlob *code, AuText *said)
{
    char path[] = "/tmp/aule-test-XXXXXX";
    const int handle = mkstemp(path);
    assert_true(handle >= 0);
    close(handle);
    write_file(path, code->bytes, code->length);
    /* CUDA 13 has no sm_70: its PTX is for the next, too */
    const char *name = strcmp(arch->name, "sm_70") == 0 ? "sm_75" : arch->name;
    const char *command = au_format(arena, "%s -arch=%s %s -o /dev/null 2>&1", PTXAS, name, path);
    FILE *from = popen(command, "r");
    assert_non_null(from);
    char line[1024];
    while (fgets(line, sizeof line, from)) au_text_add(said, "%s", line);
    const int status = pclose(from);
    unlink(path);
    return status;
}

/* C7510 to C7517: "wgmma.mma_async instructions are serialized", and waits that nobody asked for. */
static bool is_serial(const char *said)
{
    const char *at = said;
    while ((at = strstr(at, "(C751")) && (at[5] < '0' || at[5] > '7')) at++;
    return at;
}

static void assemble(const Host *host, const AuBlob *code)
{
    AuText text = {.arena = host->arena};
    const int status = device_assemble(host->arena, host->arch, code, &text);
    const char *said = au_text_str(&text);
    print_error("%s", said);
    if (status) fail_msg("ptxas refuses the module");
    if (is_serial(said)) fail_msg("ptxas makes products wait for each other");
}

/* The file's words (cuda_runner.c): numbers of 64 bits, texts and buffers padded to 64 bytes. */
static void put(AuText *file, const void *bytes, size_t length)
{
    static const char zero[64];
    au_text_bytes(file, bytes, length);
    if (length % 64) au_text_bytes(file, zero, 64 - length % 64);
}

static void put_map(AuText *file, const Case *c, uint32_t which)
{
    const AuMap *map = &c->k->maps[which];
    const AuMemory *mem = &c->k->mems[map->mem.i];
    uint64_t words[24] = {mem->arg, mem->scalar, map->rank, map->swizzle, map->nan};
    for (uint32_t d = 0; d < map->rank; d++) {
        words[8 + d] = map->box[d];
        words[13 + d] = (uint64_t)c->maps[which].size[d];
        words[18 + d] = (uint64_t)c->maps[which].stride[d];
    }
    put(file, words, sizeof words);
}

static void put_case(AuText *file, Case *c)
{
    void *before[CASE_ARGS];
    for (uint32_t a = 0; a < c->k->arg_count; a++) {
        before[a] = malloc(c->bytes[a] + 1);
        if (c->bytes[a]) memcpy(before[a], c->buffers[a].data, c->bytes[a]);
    }
    host_interpret(c, false);
    const uint64_t slack = (uint64_t)(c->slack * 0x1p40f), ulps = (uint64_t)(c->ulps * 256);
    const uint32_t shared = au_target_cuda.dynamic_shared(c->k);
    const uint64_t head[16] = {c->grid[0],      c->grid[1], c->grid[2], c->k->warps * 32, shared,
                               c->k->arg_count, slack,      ulps,       c->k->map_count};
    put(file, head, sizeof head);
    char label[128] = {0};
    snprintf(label, sizeof label, "%s", c->label);
    put(file, label, sizeof label);
    for (uint32_t m = 0; m < c->k->map_count; m++) put_map(file, c, m);
    for (uint32_t a = 0; a < c->k->arg_count; a++) {
        const AuScalar scalar = c->k->mems[c->k->args[a].mem.i].scalar;
        const uint64_t words[8] = {c->bytes[a], c->slots[a], c->bytes[a] ? scalar : 0};
        put(file, words, sizeof words);
        put(file, before[a], c->bytes[a]);
        put(file, c->buffers[a].data, c->bytes[a]);
        free(before[a]);
    }
}

void device_run(Host *host)
{
    const AuBlob code = compile(host);
    if (*PTXAS) assemble(host, &code);
    const char *folder = getenv("AULE_DEVICE_OUT");
    if (!folder) return;
    AuText file = {.arena = host->arena};
    const uint64_t head[8] = {host->count};
    put(&file, head, sizeof head);
    for (uint32_t n = 0; n < host->count; n++) put_case(&file, host->cases[n]);
    const char *name = au_format(host->arena, "%s/%s-%s-%u", folder, program_invocation_short_name,
                                 host->arch->name, host->count);
    write_file(au_format(host->arena, "%s.ptx", name), code.bytes, code.length);
    write_file(au_format(host->arena, "%s.cases", name), file.at, file.length);
}
