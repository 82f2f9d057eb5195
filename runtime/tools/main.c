#include "command.h"

#include <errno.h>
#include <string.h>

// clang-format off
#define DEVICE_HELP \
    "  --backend cpu | opencl:0          the device; else AULE_BACKEND and AULE_DEVICE, else the best there is for the artifact\n" \
    "  --attention NAME                  where the artifact has several\n" \
    "  --layout T=paged                  where it has several layouts of one (aulec --serve); else the dense one\n" \
    "  --arch NAME                       only kernels for this architecture of the artifact\n" \
    "  --threads N                       cpu: 1 to 1024; else AULE_NUM_THREADS, else all cores\n"
#define ARRAY_HELP \
    "\n" \
    "Arrays: .npy, or one tensor of a .safetensors file as file.safetensors:name.\n"

static const char devices_help[] =
    "aule devices\n"
    "\n"
    "What can run kernels here, or why not.\n";

static const char inspect_help[] =
    "aule inspect x.so\n"
    "\n"
    "What an artifact holds: attentions, their sizes, tensors and params, kernels.\n";

static const char check_help[] =
    "aule check x.attn [OPTION]...\n"
    "\n"
    "Tries the laws of the language on a script, draws its mask, and compares its kernels on every device with the\n"
    "interpreter. Exit status 1 if something is wrong.\n"
    "\n"
    "  --shape S=100,window=16           sizes and params of the trial\n"
    "  --attention NAME                  only this one of the script\n"
    "  --seed N                          of the random data; a whole number\n"
    "  --backend cpu | opencl | opencl:0 only on it; else AULE_BACKEND and AULE_DEVICE, else every device there is\n"
    "  --dtype f32 | f16 | bf16          kernels of these operands alone\n"
    "  --f32 exact | tf32                how operands of f32 are multiplied\n"
    "  --layout \"T=paged;S=packed,T=paged\"  kernels of these layouts, too (aulec --layout), over sequences of different lengths\n"
    "  --plot mask.svg                   the mask as a drawing\n";

static const char run_help[] =
    "aule run x.so --q q.npy --k k.npy --v v.npy -o DIR [OPTION]...\n"
    "\n"
    "Writes DIR/o.npy and each final; given the gradient of the output, DIR/dNAME.npy too. Of a recurrence also DIR/state.npy (and\n"
    "sum.npy where it has a norm), the state after the last token; with --state it is a step, on a pool of states.\n"
    "\n"
    "  --NAME file.npy                   an input of the script\n"
    "  --NAME number                     a param of the script\n"
    "  --dout do.npy, --dFINAL file.npy  gradients given for the output and for finals\n"
    "  --state-in, --sum-in file.npy     of a recurrence: the state before the first token; else 0\n"
    "  --cu-seqlens file.npy             of a recurrence: where packed sequences begin\n"
    "  --state, --sum, --slots file.npy  of a recurrence: a step's pool of states, and which is whose\n"
    "  --operation unfinished            of some of the keys: writes DIR/acc.npy, DIR/state_NAME.npy for combine\n"
    "  --operation combine               joins them: --acc-parts file.npy and so on, [N, ..] of N parts; o is of --dtype, else f32\n"
    "  --operation append                writes --k-new, --v-new into --k and --v, by --slots or at the ends of sequences: DIR/k.npy, DIR/v.npy\n"
    "  --operation schedule              makes lists of work, DIR/work.npy, which --work gives to forward of all layers\n"
    "  --k-new, --v-new file.npy         without an operation: does so and then attends to what the cache has: DIR/k.npy, DIR/v.npy, too\n"
    "  --invariant                       the bits of a row do not depend on the batch: forward alone\n"
    "  -o DIR, --output DIR              where the outputs go\n"
    "  --dtype f32 | f16 | bf16          convert the operands of other types\n"
    DEVICE_HELP ARRAY_HELP;

static const char bench_help[] =
    "aule bench x.so --shape B=1,H=16,S=4096,T=4096 [OPTION]...\n"
    "\n"
    "Times a call on random data.\n"
    "\n"
    "  --shape NAME=N,..                 the sizes, as aule inspect shows them\n"
    "  --NAME file.npy                   an input of the script; else random, whole numbers 0, lists of a layout those of full sequences\n"
    "  --NAME number                     a param of the script\n"
    "  --dtype f32 | f16 | bf16          of the operands; else f32\n"
    "  --invariant                       times forward of which the bits of a row do not depend on the batch\n"
    "  --backward                        times backward, and forward and backward together\n"
    "  --json                            one line of JSON\n"
    "\n"
    "aule bench --serve x.so [OPTION]...\n"
    "\n"
    "Times steps of a server, of an artifact of aulec --serve: decode, in which each sequence has a row over its keys in pages, and mixed, in\n"
    "which the first one has a chunk of its prompt. Exit status 1 if results are not those of dense calls of single sequences.\n"
    "\n"
    "  --batch N                         sequences; else 8\n"
    "  --keys N[,N..]                    keys that they have, in turns; else 1024\n"
    "  --page N                          slots of a page; else 16\n"
    "  --queries N                       rows of a sequence that decodes; else 1\n"
    "  --chunk N                         rows of the first sequence of mixed; else 256\n"
    "  --shape H=32,Hk=8                 the script's other sizes; heads else 32 and 8, widths else those of its kernels\n"
    DEVICE_HELP ARRAY_HELP;

static const char cache_help[] =
    "aule cache [size | list | prune | clear]\n"
    "\n"
    "Kernels kept on disk, in $XDG_CACHE_HOME/aule or ~/.cache/aule: machine code that CUDA's driver made, and Python's artifacts.\n"
    "\n"
    "  size                              how much of how much; also without a word\n"
    "  list                              each file, with the time of its last use\n"
    "  prune                             keeps to the limit: what was used longest ago goes\n"
    "  clear                             all goes\n"
    "\n"
    "The limit is AULE_CACHE_MAX (500M, 2G; 0: nothing is kept), else 1G.\n";

static const char help[] =
    "aule: runs attentions that aulec compiled\n"
    "\n"
    "  aule devices                      what can run kernels here, or why not\n"
    "  aule inspect x.so                 what an artifact holds\n"
    "  aule check x.attn                 is the script what it says? its laws, its mask, its kernels on every device\n"
    "  aule run x.so --q q.npy --k k.npy --v v.npy -o DIR\n"
    "                                    runs it on arrays from files\n"
    "  aule bench x.so --shape B=1,H=16,S=4096,T=4096\n"
    "                                    times it on random data\n"
    "  aule bench --serve x.so           times steps of a server over keys in pages\n"
    "  aule cache                        what is kept on disk\n"
    "\n"
    "  aule COMMAND --help               its options\n"
    "  aule --version, --help\n"
    "\n"
    "Exit status: 0 done and right, 1 not right or not possible, 2 wrong use, 3 a file cannot be read or written.\n";

static const AuCommand commands[] = {
    {"devices", command_devices, "", "", false, devices_help},
    {"inspect", command_inspect, "", "", false, inspect_help},
    {"check", command_check, "", "shape attention seed backend dtype f32 plot layout", false, check_help},
    {"run", command_run, "invariant", "output dtype backend attention arch threads operation layout", true, run_help},
    {"bench", command_bench, "backward invariant json serve", "shape dtype backend attention arch threads layout batch keys page queries chunk", true, bench_help},
    {"cache", command_cache, "", "", false, cache_help},
};
// clang-format on
enum { COMMANDS = sizeof commands / sizeof *commands };

/* ---- the short commands */

int command_devices(AuOptions *options)
{
    char *text;
    aule_error *error = NULL;
    if (options->artifact) return command_fail(EXIT_USAGE, "devices takes no arguments");
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
    if (!options->artifact) return command_fail(EXIT_USAGE, "expected: aule inspect x.so");
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

/* ---- one command line */

static bool asks_for_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

static int run_command(const AuCommand *command, int count, char **arguments)
{
    AuOptions options;
    for (int i = 0; i < count; i++)
        if (asks_for_help(arguments[i])) return fputs(command->help, stdout), 0;
    int status = options_parse(&options, command, count, arguments);
    return status ? status : command->run(&options);
}

static int run(int count, char **arguments)
{
    if (count < 2) return fputs(help, stderr), EXIT_USAGE;
    const char *name = arguments[1];
    if (strcmp(name, "--version") == 0) return printf("aule %s\n", aule_version(NULL)), 0;
    if (asks_for_help(name) || strcmp(name, "help") == 0) return fputs(help, stdout), 0;
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return run_command(&commands[i], count - 2, arguments + 2);
    return command_fail(
        EXIT_USAGE, "unknown command '%s', expected devices, inspect, check, run, bench or cache",
        name);
}

/* What was printed must have arrived: a full disk is no success. */
int main(int count, char **arguments)
{
    int status = run(count, arguments);
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == 0)
        status = command_fail(EXIT_FILE, "standard output: %s",
                              errno ? strerror(errno) : "cannot be written");
    return status;
}
