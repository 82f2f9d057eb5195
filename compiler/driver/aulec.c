/* aulec.c - the compiler's command line. Exit status: 0 done, 1 the script has errors, 2 wrong use,
 * 3 a file cannot be read or written. */
#include "aule/aulec.h"
#include "files.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    "      --target LIST        cpu, opencl, cuda, hip, levelzero, metal, vulkan; default cpu, "
    "opencl, vulkan, levelzero and metal\n"
    "      --arch LIST          architectures of these targets; of one of which none stands here, "
    "and where there is no list, those by default.\n"
    "                       cpu: x86-64-v3, x86-64-v4, x86-64-v4-bf16, x86-64-v4-amx, aarch64; by "
    "default those of this kind of machine\n"
    "                       cuda: sm_80, sm_90a, ...; hip: gfx942, gfx1100, ...; opencl: generic, "
    "spirv, ...: `--target cuda --arch help` names all\n"
    "                       without --target: these architectures alone\n"
    "      --dtype LIST         operand types f32, f16, bf16; default all\n"
    "      --width NAME=LIST    sizes of a width axis, again for others; default 64,128 for q's, "
    "and the same for others\n"
    "      --attention NAME     only this one of the script\n"
    "      --no-grad            forward kernels only\n"
    "      --deterministic      gradients are summed in a fixed order, the same bits in every run\n"
    "      --f32 HOW            exact, or tf32: operands rounded to 10 bits of mantissa, for "
    "matrix "
    "units of cuda from sm_80 on; default exact\n"
    "      --checked            indices outside of their tensors are errors of the call\n"
    "      --parts              the operations unfinished and combine, too: keys in several "
    "places\n"
    "      --invariant          kernels of few queries whose results do not depend on the batch, "
    "too, for calls that ask for it\n"
    "      --append             the operation append, too: new keys and values into a cache\n"
    "      --layout AXIS=HOW[,AXIS=HOW]    rows of that axis are packed (starts) or padded "
    "(lengths), keys paged (table); default dense.\n"
    "                       Behind keys :rows, :csr, :positions, :groups, behind queries :rows, "
    ":positions,\n"
    "                       behind packed rows :most (docs/dev/serving.md).\n"
    "                       \"T=paged;S=packed,T=paged\": an attention for each in one artifact\n"
    "      --serve              what a server calls, in one artifact: dense, padded, paged and "
    "packed rows, and append; --storage is\n"
    "                       that of its caches, --layout what it has beside (docs/serving.md)\n"
    "      --storage [k=|v=]HOW keys and values are stored as e4m3, e5m2, i8 or i4, with scales; "
    "HOW:token: one a token,\n"
    "                       HOW:channels32: one for so many of its channels; HOW:zero: with zero "
    "points;\n"
    "                       HOW:f16, HOW:bf16: scales and zero points of that type, not f32\n"
    "      --lines              PTX, SPIR-V, MSL and OpenCL C name the lines of the script, for "
    "profilers and readers\n"
    "  -O LEVEL                 0 to 3; default 3\n"
    "      --emit STAGE         ast, attention-ir, gradients, tiled-ir, kernel-ir, llvm-ir, asm, "
    "opencl-c, "
    "metal, spirv, spirv-text, stdlib,\n"
    "                           shapes (which there could be, and a forecast); default: the "
    "artifact\n"
    "                           for static builds: header, c, obj, archive\n"
    "      --after PASS         with --emit=tiled-ir: the programs after this pass; `--after help` "
    "lists them\n"
    "      --shape ROW          a shape that kernels of a schedule must have: \"warps_forward: "
    "warps=4 rows=32\"; again for others\n"
    "      --shapes FILE        a table of shapes, whose rows come before those of the compiler\n"
    "      --version, --help\n";

static const char *const stages[] = {
    "so",      "ast",       "attention-ir", "tiled-ir",   "kernel-ir", "llvm-ir",
    "asm",     "opencl-c",  "stdlib",       "header",     "c",         "obj",
    "archive", "gradients", "spirv",        "spirv-text", "metal",     "shapes"};
enum { STAGES = sizeof stages / sizeof *stages };

typedef struct Arguments {
    aulec_options options;
    const char *input, *output;
    const char *emit, *level;       /* as they were given; NULL: they were not */
    char widths[1024], shape[1024]; /* collected */
} Arguments;

/* ---- results */

/* Who has a stage run past on a terminal learns how long it was. */
static void say_length(const char *text, size_t length)
{
    enum { A_SCREEN = 200 };
    size_t lines = 0;
    for (size_t n = 0; n < length; n++) lines += text[n] == '\n';
    if (lines > A_SCREEN && isatty(STDOUT_FILENO))
        fprintf(stderr,
                "aulec: these were %zu lines; -o FILE keeps them; --target, --arch, --dtype and "
                "--width ask for fewer kernels\n",
                lines);
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

/* Not over what was read: a slip of the hand must not cost a script. */
static int write_file(const Arguments *a, const char *name, const void *data, size_t length)
{
    const char *const read[] = {a->input, a->options.shapes_name};
    for (int n = 0; n < 2; n++)
        if (read[n] && strcmp(read[n], "-") != 0 && files_are_one(read[n], name))
            return files_complain("the result would replace what it is made of", name);
    return files_write(name, data, length);
}

static int write_output(const Arguments *a, const void *data, size_t length)
{
    const char *const *file = file_name(a->options.emit);
    if (a->output ? strcmp(a->output, "-") == 0 : !file) {
        (void)!fwrite(data, 1, length, stdout);
        const int status = files_flush();
        if (status == 0 && !file) say_length(data, length);
        return status;
    }
    if (a->output) return write_file(a, a->output, data, length);
    const char *slash = strrchr(a->input, '/'), *base = slash ? slash + 1 : a->input,
               *dot = strrchr(base, '.');
    const size_t stem = dot ? (size_t)(dot - base) : strlen(base);
    char *name = malloc(stem + 8);
    if (!name) return files_complain("out of memory", "");
    sprintf(name, "%s%.*s%s", file[0], (int)stem, base, file[1]);
    const int status = write_file(a, name, data, length);
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

/* Names that others have for what we make. */
static int complain_of_stage(const char *name)
{
    static const char *const others[][2] = {
        {"ptx", "--emit=asm --target=cuda"},
        {"nvptx", "--emit=asm --target=cuda"},
        {"cubin", "--emit=asm --target=cuda, whose PTX the driver compiles"},
        {"fatbin", "--emit=asm --target=cuda, whose PTX the driver compiles"},
        {"sass", "--emit=asm --target=cuda, whose PTX the driver compiles"},
        {"hsaco", "--emit=asm --target=hip"},
        {"amdgcn", "--emit=asm --target=hip"},
        {"spv", "--emit=spirv"},
        {"spirv-asm", "--emit=spirv-text"},
        {"spvasm", "--emit=spirv-text"},
        {"shape", "--emit=shapes"},
        {"msl", "--emit=metal"},
        {"opencl", "--emit=opencl-c"},
        {"cl", "--emit=opencl-c"},
        {"llvm", "--emit=llvm-ir"},
        {"ll", "--emit=llvm-ir"},
        {"bc", "--emit=llvm-ir"},
        {"ir", "attention-ir, tiled-ir, kernel-ir or llvm-ir"},
        {"attention", "--emit=attention-ir"},
        {"tiled", "--emit=tiled-ir"},
        {"tile-ir", "--emit=tiled-ir"},
        {"kernel", "--emit=kernel-ir"},
        {"s", "--emit=asm"},
        {"assembly", "--emit=asm"},
        {"o", "--emit=obj"},
        {"object", "--emit=obj"},
        {"a", "--emit=archive"},
        {"lib", "--emit=archive"},
        {"h", "--emit=header"},
        {"artifact", "--emit=so, which is the default"},
        {"grad", "--emit=gradients"},
        {"gradient", "--emit=gradients"},
        {"std", "--emit=stdlib"},
    };
    for (size_t n = 0; n < sizeof others / sizeof *others; n++) {
        if (strcmp(others[n][0], name) != 0) continue;
        fprintf(stderr, "aulec: unknown stage: %s; did you mean %s?\n", name, others[n][1]);
        return 2;
    }
    return files_complain("unknown stage", name);
}

/* An option with a value, which is given once. */
static bool take_once(const char **slot, const char *value)
{
    const bool first = !*slot;
    *slot = value;
    return first;
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

/* A line each. */
static bool add_shape(Arguments *a, const char *row)
{
    const size_t at = strlen(a->shape), length = strlen(row);
    if (at + length + 2 > sizeof a->shape) return false;
    memcpy(a->shape + at, row, length);
    memcpy(a->shape + at + length, "\n", 2);
    a->options.shape = a->shape;
    return true;
}

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
    INVARIANT,
    PARTS,
    APPEND,
    LAYOUT,
    SERVE,
    STORAGE,
    LINES,
    AFTER,
    SHAPE,
    SHAPES,
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
                                        {"parts", no_argument, NULL, PARTS},
                                        {"append", no_argument, NULL, APPEND},
                                        {"invariant", no_argument, NULL, INVARIANT},
                                        {"layout", required_argument, NULL, LAYOUT},
                                        {"serve", no_argument, NULL, SERVE},
                                        {"storage", required_argument, NULL, STORAGE},
                                        {"lines", no_argument, NULL, LINES},
                                        {"after", required_argument, NULL, AFTER},
                                        {"shape", required_argument, NULL, SHAPE},
                                        {"shapes", required_argument, NULL, SHAPES},
                                        {"version", no_argument, NULL, VERSION},
                                        {"help", no_argument, NULL, HELP},
                                        {NULL, 0, NULL, 0}};

/* Of one option. -1, or the exit status. */
static int take(Arguments *a, int c, char **argv)
{
    bool once = true;
    switch (c) {
    case 'o':
        if (!*optarg)
            return files_complain("-o needs a file's name, or - for the standard output", optarg);
        once = take_once(&a->output, optarg);
        break;
    case 'O':
        if (strlen(optarg) != 1 || *optarg < '0' || *optarg > '3')
            return files_complain("-O takes 0, 1, 2 or 3, not", optarg);
        a->options.optimize = (uint32_t)(*optarg - '0') + 1;
        once = take_once(&a->level, optarg);
        break;
    case TARGET: once = take_once(&a->options.targets, optarg); break;
    case ARCH: once = take_once(&a->options.archs, optarg); break;
    case DTYPE: once = take_once(&a->options.dtypes, optarg); break;
    case WIDTH:
        if (!add_width(a, optarg)) return files_complain("too many widths", optarg);
        break;
    case ATTENTION: once = take_once(&a->options.attention, optarg); break;
    case EMIT:
        if (!stage_of(optarg, &a->options.emit)) return complain_of_stage(optarg);
        once = take_once(&a->emit, optarg);
        break;
    case NO_GRAD: a->options.no_gradients = 1; break;
    case DETERMINISTIC: a->options.deterministic = 1; break;
    case F32: once = take_once(&a->options.f32, optarg); break;
    case CHECKED: a->options.checked = 1; break;
    case PARTS: a->options.parts = 1; break;
    case APPEND: a->options.append = 1; break;
    case INVARIANT: a->options.invariant = 1; break;
    case LAYOUT: once = take_once(&a->options.layout, optarg); break;
    case SERVE: a->options.serve = 1; break;
    case STORAGE: once = take_once(&a->options.storage, optarg); break;
    case LINES: a->options.lines = 1; break;
    case AFTER: once = take_once(&a->options.after, optarg); break;
    case SHAPE:
        if (!*optarg) return files_complain("--shape needs a row, \"warps_forward: rows=32\"", "");
        if (!add_shape(a, optarg)) return files_complain("too many shapes", optarg);
        break;
    case SHAPES: once = take_once(&a->options.shapes_name, optarg); break;
    case VERSION: printf("aulec %s\n", aulec_version()); return files_flush();
    case 'h':
    case HELP: fputs(usage, stdout); return files_flush();
    case ':': return files_complain("an option needs a value", argv[optind - 1]);
    default: return files_complain("unknown option", argv[optind - 1]);
    }
    if (!once) return files_complain("given twice (lists have commas between their items)", optarg);
    return -1;
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, Arguments *a)
{
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":o:O:h", options, NULL)) != -1;) {
        const int status = take(a, c, argv);
        if (status >= 0) return status;
    }
    if (optind < argc) a->input = argv[optind++];
    if (optind < argc) return files_complain("more than one script", argv[optind]);
    const bool asks = (a->options.after && strcmp(a->options.after, "help") == 0) ||
                      (a->options.archs && strcmp(a->options.archs, "help") == 0);
    if (asks) a->options.emit = AULEC_EMIT_TILED_IR; /* a text, whatever was to be made */
    if (!a->input && !asks && a->options.emit != AULEC_EMIT_STDLIB)
        return files_complain("no script", "");
    return -1;
}

/* The table of --shapes, as text. 0, or the exit status. */
static int read_shapes(Arguments *a, char **shapes)
{
    const char *name = a->options.shapes_name;
    size_t length = 0;
    if (!name) return 0;
    if (a->input && strcmp(a->input, "-") == 0 && strcmp(name, "-") == 0)
        return files_complain("script and shapes cannot both be read from the standard input", "");
    if (!(*shapes = files_read(name, &length))) return 3;
    (*shapes)[length] = 0;
    a->options.shapes = *shapes;
    if (strlen(*shapes) == length) return 0;
    free(*shapes);
    return files_complain("a table of shapes is text, and this has zero bytes", name);
}

int main(int argc, char **argv)
{
    Arguments a = {.options = {.struct_size = sizeof a.options}};
    int status = parse(argc, argv, &a);
    if (status >= 0) return status;
    size_t length = 0;
    char *text = a.input ? files_read(a.input, &length) : NULL;
    if (a.input && !text) return 3;
    char *shapes = NULL;
    status = read_shapes(&a, &shapes);
    if (status) {
        free(text);
        return status;
    }
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
    free(shapes);
    free(text);
    return status;
}
