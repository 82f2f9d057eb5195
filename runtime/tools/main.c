#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
static const char help[] =
    "aule: runs attentions that aulec compiled\n"
    "\n"
    "  aule devices                      what can run kernels here, or why not\n"
    "  aule inspect x.so                 what an artifact holds\n"
    "  aule check x.attn [--shape S=100,window=16] [--plot mask.svg] [--seed N] [--backend cpu] [--f32 tf32]\n"
    "                                    tries the laws of the language on a script, draws its mask, and compares its\n"
    "                                    kernels on every device with the interpreter; exit status 1 if something is wrong\n"
    "  aule run x.so --q q.npy --k k.npy --v v.npy [--NAME file.npy | --NAME number]... [--dout do.npy [--dFINAL file.npy]...] -o DIR\n"
    "                                    writes DIR/o.npy and each final; given the gradient of the output, DIR/dNAME.npy too\n"
    "  aule bench x.so --shape B=1,H=16,S=4096,T=4096 [--dtype f32] [--NAME file.npy | --NAME number]... [--backward] [--json]\n"
    "                                    times it on random data\n"
    "\n"
    "  --backend cpu | opencl:0          the device; else AULE_BACKEND, else the best there is for the artifact\n"
    "  --attention NAME                  where the artifact has several\n"
    "  --arch NAME                       only kernels for this architecture of the artifact\n"
    "  --threads N                       cpu: else AULE_NUM_THREADS, else all cores\n"
    "  --dtype f32 | f16 | bf16          run: convert the operands of other types\n"
    "  --version, --help\n"
    "\n"
    "Arrays: .npy, or one tensor of a .safetensors file as file.safetensors:name.\n";
// clang-format on

/* ---- commands */

int command_devices(AuOptions *options)
{
    char *text;
    aule_error *error = NULL;
    if (options->artifact || options->count)
        return command_fail(EXIT_USAGE, "devices takes no arguments");
    if (aule_describe_devices(NULL, &text, &error)) return command_error(error);
    fputs(text, stdout);
    aule_text_free(text);
    return 0;
}

int command_inspect(AuOptions *options)
{
    char *text;
    aule_module *module;
    aule_error *error = NULL;
    if (!options->artifact || options->count)
        return command_fail(EXIT_USAGE, "expected: aule inspect x.so");
    if (aule_module_open(options->artifact, NULL, &module, &error)) return command_error(error);
    aule_status status = aule_describe_module(module, &text, &error);
    if (status) {
        aule_module_close(module);
        return command_error(error);
    }
    fputs(text, stdout);
    aule_text_free(text);
    aule_module_close(module);
    return 0;
}

static int command_later(AuOptions *options)
{
    return command_fail(
        EXIT_WRONG,
        "'%s' is not in this version yet; there are devices, inspect, check, run and bench",
        options->command);
}

typedef struct Command {
    const char *name;
    int (*run)(AuOptions *options);
} Command;

int main(int count, char **arguments)
{
    static const Command commands[] = {{"devices", command_devices}, {"inspect", command_inspect},
                                       {"run", command_run},         {"bench", command_bench},
                                       {"tune", command_later},      {"check", command_check}};
    AuOptions options;
    if (count < 2) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    if (strcmp(arguments[1], "--version") == 0) return printf("aule %s\n", aule_version(NULL)) < 0;
    if (strcmp(arguments[1], "--help") == 0 || strcmp(arguments[1], "help") == 0)
        return fputs(help, stdout) < 0;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(arguments[1], commands[i].name) != 0) continue;
        int status = options_parse(&options, commands[i].name, count - 2, arguments + 2);
        if (status) return status;
        if (options_flag(&options, "help")) return fputs(help, stdout) < 0;
        status = commands[i].run(&options);
        if (fflush(stdout) != 0 && status == 0)
            status = command_fail(EXIT_WRONG, "standard output: %s", strerror(errno));
        return status;
    }
    return command_fail(EXIT_USAGE,
                        "unknown command '%s', expected devices, inspect, check, run or bench",
                        arguments[1]);
}
