/* aulec.c - the compiler's command line. Exit status: 0 done, 1 the script has errors, 2 wrong use,
 * 3 a file cannot be read or written. */
#include "aule/aulec.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
    "aulec - compiles attention scripts\n"
    "\n"
    "    aulec x.attn -o x.so              an artifact for all targets\n"
    "    aulec x.attn --emit=kernel-ir     a stage, to the standard output\n"
    "\n"
    "  -o, --output FILE        where the result goes; default: the script's name with .so, .o or "
    ".a; `-` or "
    "a stage: the standard output\n"
    "      --target LIST        cpu, opencl, cuda; default all but cuda, which takes long\n"
    "      --arch LIST          x86-64-v3, x86-64-v4, x86-64-v4-bf16, x86-64-v4-amx, aarch64, "
    "generic; default: those of this kind of machine\n"
    "      --dtype LIST         operand types f32, f16, bf16; default all\n"
    "      --width NAME=LIST    sizes of a width axis, again for others; default 64,128 for q's, "
    "and the same for others\n"
    "      --attention NAME     only this one of the script\n"
    "      --no-grad            forward kernels only\n"
    "      --deterministic      gradients of inputs are summed in a fixed order\n"
    "      --f32 HOW            exact, or tf32: operands rounded to 10 bits of mantissa, for "
    "matrix "
    "units of cuda from sm_80 on; default exact\n"
    "      --checked            indices outside of their tensors are errors of the call\n"
    "  -O LEVEL                 0 to 3; default 3\n"
    "      --emit STAGE         ast, attention-ir, gradients, tiled-ir, kernel-ir, llvm-ir, asm, "
    "opencl-c, "
    "stdlib; default: the artifact\n"
    "                           for static builds: header, c, obj, archive\n"
    "      --version, --help\n";

static const char *const stages[] = {"so",      "ast", "attention-ir", "tiled-ir", "kernel-ir",
                                     "llvm-ir", "asm", "opencl-c",     "stdlib",   "header",
                                     "c",       "obj", "archive",      "gradients"};
enum { STAGES = sizeof stages / sizeof *stages };

typedef struct Arguments {
    aulec_options options;
    const char *input, *output;
    char widths[1024];
} Arguments;

static int complain(const char *what, const char *detail)
{
    fprintf(stderr, "aulec: %s%s%s; see aulec --help\n", what, *detail ? ": " : "", detail);
    return 2;
}

/* ---- files */

static char *read_all(FILE *file, size_t *length)
{
    char *text = NULL;
    size_t capacity = 0;
    *length = 0;
    for (;;) {
        if (*length == capacity) {
            capacity = capacity ? capacity * 2 : 1 << 16;
            char *more = realloc(text, capacity);
            if (!more) break;
            text = more;
        }
        const size_t got = fread(text + *length, 1, capacity - *length, file);
        *length += got;
        if (got == 0) {
            if (!ferror(file)) return text;
            break;
        }
    }
    free(text);
    return NULL;
}

static char *read_script(const char *name, size_t *length)
{
    FILE *file = strcmp(name, "-") == 0 ? stdin : fopen(name, "rb");
    char *text = file ? read_all(file, length) : NULL;
    if (!text) fprintf(stderr, "aulec: cannot read %s: %s\n", name, strerror(errno));
    if (file && file != stdin) fclose(file);
    return text;
}

/* A device or a pipe is written to as it is: renaming would put a file in its place. */
static bool is_special(const char *name)
{
    struct stat what;
    return stat(name, &what) == 0 && !S_ISREG(what.st_mode) && !S_ISDIR(what.st_mode);
}

/* Into a file beside [name], renamed when complete: whoever reads [name] finds the old content or
 * the new one. */
static int write_file(const char *name, const void *data, size_t length)
{
    const bool special = is_special(name);
    char *path = malloc(strlen(name) + 32);
    if (!path) return complain("out of memory", "");
    if (special)
        strcpy(path, name);
    else
        sprintf(path, "%s.%ld.part", name, (long)getpid());
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(data, 1, length, file) == length && fflush(file) == 0;
    good = good && (special || fsync(fileno(file)) == 0);
    int error = errno;
    if (file && fclose(file) != 0 && good) good = false, error = errno;
    if (good && !special && rename(path, name) != 0) good = false, error = errno;
    if (!good) {
        fprintf(stderr, "aulec: cannot write %s: %s\n", name, strerror(error));
        if (file && !special) remove(path);
    }
    free(path);
    return good ? 0 : 3;
}

/* What stands before and after the script's name in that of a binary result; NULL: it is text. */
static const char *const *file_name(uint32_t emit)
{
    static const char *const library[] = {"", ".so"}, *const object[] = {"", ".o"},
                             *const archive[] = {"lib", ".a"};
    return emit == AULEC_EMIT_ARTIFACT  ? library
           : emit == AULEC_EMIT_OBJECT  ? object
           : emit == AULEC_EMIT_ARCHIVE ? archive
                                        : NULL;
}

static int write_output(const Arguments *a, const void *data, size_t length)
{
    const char *const *file = file_name(a->options.emit);
    if (a->output ? strcmp(a->output, "-") == 0 : !file) {
        if (fwrite(data, 1, length, stdout) == length && fflush(stdout) == 0) return 0;
        fprintf(stderr, "aulec: cannot write to the standard output: %s\n", strerror(errno));
        return 3;
    }
    if (a->output) return write_file(a->output, data, length);
    const char *slash = strrchr(a->input, '/'), *base = slash ? slash + 1 : a->input,
               *dot = strrchr(base, '.');
    const size_t stem = dot ? (size_t)(dot - base) : strlen(base);
    char *name = malloc(stem + 8);
    if (!name) return complain("out of memory", "");
    sprintf(name, "%s%.*s%s", file[0], (int)stem, base, file[1]);
    const int status = write_file(name, data, length);
    free(name);
    return status;
}

/* ---- arguments */

static bool stage_of(const char *name, uint32_t *stage)
{
    for (*stage = 0; *stage < STAGES; ++*stage)
        if (strcmp(stages[*stage], name) == 0) return true;
    return false;
}

/* --width D=64,128 --width E=64 and --width D=64,128,E=64 mean the same. */
static bool add_width(Arguments *a, const char *list)
{
    size_t at = strlen(a->widths);
    if (at + strlen(list) + 2 > sizeof a->widths) return false;
    if (at) a->widths[at++] = ';';
    for (const char *c = list; *c; c++) {
        const bool next_axis = *c == ',' && c[1] && strchr("0123456789", c[1]) == NULL;
        a->widths[at++] = next_axis ? ';' : *c;
    }
    a->widths[at] = 0;
    a->options.widths = a->widths;
    return true;
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, Arguments *a)
{
    enum {
        TARGET = 256,
        ARCH,
        DTYPE,
        WIDTH,
        ATTENTION,
        EMIT,
        NO_GRAD,
        DETERMINISTIC,
        F32,
        CHECKED,
        VERSION,
        HELP
    };
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"target", required_argument, NULL, TARGET},
                                            {"arch", required_argument, NULL, ARCH},
                                            {"dtype", required_argument, NULL, DTYPE},
                                            {"width", required_argument, NULL, WIDTH},
                                            {"attention", required_argument, NULL, ATTENTION},
                                            {"emit", required_argument, NULL, EMIT},
                                            {"no-grad", no_argument, NULL, NO_GRAD},
                                            {"deterministic", no_argument, NULL, DETERMINISTIC},
                                            {"f32", required_argument, NULL, F32},
                                            {"checked", no_argument, NULL, CHECKED},
                                            {"version", no_argument, NULL, VERSION},
                                            {"help", no_argument, NULL, HELP},
                                            {NULL, 0, NULL, 0}};
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":o:O:h", options, NULL)) != -1;) {
        switch (c) {
        case 'o': a->output = optarg; break;
        case 'O':
            if (strlen(optarg) != 1 || *optarg < '0' || *optarg > '3')
                return complain("-O takes 0, 1, 2 or 3, not", optarg);
            a->options.optimize = (uint32_t)(*optarg - '0') + 1;
            break;
        case TARGET: a->options.targets = optarg; break;
        case ARCH: a->options.archs = optarg; break;
        case DTYPE: a->options.dtypes = optarg; break;
        case WIDTH:
            if (!add_width(a, optarg)) return complain("too many widths", optarg);
            break;
        case ATTENTION: a->options.attention = optarg; break;
        case EMIT:
            if (!stage_of(optarg, &a->options.emit)) return complain("unknown stage", optarg);
            break;
        case NO_GRAD: a->options.no_gradients = 1; break;
        case DETERMINISTIC: a->options.deterministic = 1; break;
        case F32: a->options.f32 = optarg; break;
        case CHECKED: a->options.checked = 1; break;
        case VERSION: printf("aulec %s\n", aulec_version()); return 0;
        case 'h':
        case HELP: fputs(usage, stdout); return 0;
        case ':': return complain("an option needs a value", argv[optind - 1]);
        default: return complain("unknown option", argv[optind - 1]);
        }
    }
    if (optind < argc) a->input = argv[optind++];
    if (optind < argc) return complain("more than one script", argv[optind]);
    if (!a->input && a->options.emit != AULEC_EMIT_STDLIB) return complain("no script", "");
    return -1;
}

int main(int argc, char **argv)
{
    Arguments a = {.options = {.struct_size = sizeof a.options}};
    int status = parse(argc, argv, &a);
    if (status >= 0) return status;
    size_t length = 0;
    char *text = a.input ? read_script(a.input, &length) : NULL;
    if (a.input && !text) return 3;
    aulec_result *result = NULL;
    const aulec_status compiled =
        aulec_compile(a.input ? a.input : "", text, length, &a.options, &result);
    fputs(aulec_result_diagnostics(result), stderr);
    if (compiled == AULEC_OK)
        status = write_output(&a, aulec_result_data(result), aulec_result_length(result));
    else {
        if (compiled == AULEC_ERROR_MEMORY) fputs("aulec: out of memory\n", stderr);
        status = compiled == AULEC_ERROR_USAGE ? 2 : 1;
    }
    aulec_result_free(result);
    free(text);
    return status;
}
