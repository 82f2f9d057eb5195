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

static void assemble(const Host *host, const AuBlob *code)
{
    char path[] = "/tmp/aule-test-XXXXXX";
    const int handle = mkstemp(path);
    assert_true(handle >= 0);
    close(handle);
    write_file(path, code->bytes, code->length);
    const char *arch = host->arch->name; /* CUDA 13 has no sm_70: its PTX is for the next, too */
    if (strcmp(arch, "sm_70") == 0) arch = "sm_75";
    const char *command = au_format(host->arena, "%s -arch=%s %s -o /dev/null", PTXAS, arch, path);
    const int status = system(command);
    unlink(path);
    if (status) fail_msg("ptxas refuses the module");
}

/* The file's words (cuda_runner.c): numbers of 64 bits, texts and buffers padded to 64 bytes. */
static void put(AuText *file, const void *bytes, size_t length)
{
    static const char zero[64];
    au_text_bytes(file, bytes, length);
    if (length % 64) au_text_bytes(file, zero, 64 - length % 64);
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
    const uint64_t head[8] = {c->grid[0], c->grid[1],      c->grid[2], c->k->warps * 32,
                              shared,     c->k->arg_count, slack,      ulps};
    put(file, head, sizeof head);
    char label[128] = {0};
    snprintf(label, sizeof label, "%s", c->label);
    put(file, label, sizeof label);
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
