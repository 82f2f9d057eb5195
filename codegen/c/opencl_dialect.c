/* opencl_dialect.c - OpenCL C 1.2 without extensions, for any device: a dialect of the C printer.
 * A lane is a work-item, a block a work-group; there are no subgroups, so that lanes talk through local memory only.
 * f16 is stored as `half`, which core OpenCL C can load and store but not declare: arrays of it hold the bits (`ushort`). bf16 is
 * bits everywhere. No option that relaxes arithmetic is assumed; contraction is off but where kernels say fma. */
#include "internal.h"
#include "opencl.h"

#include <string.h>

// clang-format off
/* Keywords, qualifiers, macros, and the functions that printed code calls. */
static const char *const reserved[] = {
    "auto", "break", "case", "const", "continue", "default", "do", "else", "enum", "extern", "false", "for", "goto", "if",
    "inline", "register", "restrict", "return", "signed", "sizeof", "static", "struct", "switch", "true", "typedef", "union",
    "unsigned", "void", "volatile", "while", "kernel", "global", "local", "private", "constant", "generic", "read_only",
    "write_only", "read_write", "uniform", "pipe", "size_t", "ptrdiff_t", "intptr_t", "uintptr_t", "event_t", "sampler_t",
    "quad", "complex", "imaginary", "NULL", "NAN", "INFINITY", "INT_MIN", "UNROLL", "AFTER_BARRIERS", "LONG_MIN", "MAXFLOAT", "CLK_LOCAL_MEM_FENCE",
    "CLK_GLOBAL_MEM_FENCE", "FP_FAST_FMAF", "abs", "fabs", "min", "max", "fmax", "fma", "floor", "ceil", "rint", "sqrt", "rsqrt",
    "exp", "exp2", "expm1", "log", "log2", "log1p", "pow", "tanh", "erf", "sin", "cos", "mul_hi", "isnan", "barrier",
    "mem_fence", "get_group_id", "get_num_groups", "get_local_id", "atomic_add", "atomic_inc", "atomic_cmpxchg", "linux", "unix", NULL};
// clang-format on

/* ---- operations */

static const char *conversion(AuKType of, AuKType to)
{
    const bool vector = to.width > 1;
    const bool to_int = to.scalar == AU_I32 || to.scalar == AU_I64;
    if (to.scalar == AU_F16) return "float_to_half%w(%0)";
    if (to.scalar == AU_BF16) return "float_to_bf16%w(%0)";
    if (of.scalar == AU_F16) return "half_to_float%w(%0)";
    if (of.scalar == AU_BF16) return "bf16_to_float%w(%0)";
    if (to.scalar == AU_I1)
        return vector && of.scalar == AU_I64 ? "convert_%t(%0 != 0)" : "%0 != 0";
    /* What does not fit must still be some integer: a plain cast would be undefined. */
    if (of.scalar == AU_F32 && to_int) return "convert_%t_sat(%0)";
    if (of.scalar == AU_I1 && vector) return "convert_%t(%0 & 1)";
    return vector ? "convert_%t(%0)" : "(%t)%0";
}

static const char *of_vectors(AuKOp op, AuKType of)
{
    const uint32_t bytes = of.scalar == AU_I1 ? 4 : kernel_scalar_bytes(of.scalar);
    const bool wide = bytes == 8;
    switch ((int)op) {
    case AU_K_SELECT:
        return bytes == 4   ? "%0 ? %1 : %2"
               : wide       ? "convert_long%n(%0) ? %1 : %2"
               : bytes == 2 ? "convert_short%n(%0) ? %1 : %2"
                            : "convert_char%n(%0) ? %1 : %2";
    case AU_K_LT: return wide ? "convert_%t(%0 < %1)" : "%0 < %1";
    case AU_K_LE: return wide ? "convert_%t(%0 <= %1)" : "%0 <= %1";
    case AU_K_EQ: return wide ? "convert_%t(%0 == %1)" : "%0 == %1";
    case AU_K_NE: return wide ? "convert_%t(%0 != %1)" : "%0 != %1";
    }
    return NULL;
}

static const char *pattern(const AuCPrinter *p, AuKOp op, AuKType of, AuKType to)
{
    (void)p;
    const bool real = of.scalar == AU_F32, is_long = of.scalar == AU_I64;
    if (of.width > 1 && of_vectors(op, of)) return of_vectors(op, of);
    switch ((int)op) {
    case AU_K_CVT: return conversion(of, to);
    case AU_K_IDIV: return is_long ? "floor_div_long%w(%0, %1)" : "floor_div%w(%0, %1)";
    case AU_K_IMOD: return is_long ? "floor_mod_long%w(%0, %1)" : "floor_mod%w(%0, %1)";
    case AU_K_FMA: return "mul_add%w(%0, %1, %2)";
    case AU_K_MULHI: return "mul_hi(%0, %1)";
    case AU_K_NEG: return real ? "negated%w(%0)" : kernel_op_info(op)->opencl;
    case AU_K_ABS: return real ? "fabs(%0)" : "as_%t(abs(%0))";
    case AU_K_MIN: return real ? "minimum%w(%0, %1)" : "min(%0, %1)";
    case AU_K_MAX: return real ? "maximum%w(%0, %1)" : "max(%0, %1)";
    case AU_K_SHL: return "%0 << %1";
    case AU_K_SHR:
    case AU_K_USHR: return "%0 >> %1"; /* the printer gives USHR unsigned operands */
    case AU_K_SIGMOID: return "sigmoid%w(%0)";
    case AU_K_SOFTPLUS: return "softplus%w(%0)";
    case AU_K_DOT2: return of.scalar == AU_F16 ? "dot2_half(%0, %1, %2)" : "dot2_bf16(%0, %1, %2)";
    }
    return kernel_op_info(op)->opencl;
}

/* ---- memory */

static const char *space_of(const AuCPrinter *p, AuMem mem)
{
    return p->dialect->spaces[p->k->mems[mem.i].space];
}

/* Global f16 is declared `half`, whose elements only vload_half and vstore_half may touch; arrays hold its bits. */
static bool is_half_pointer(const AuCPrinter *p, AuMem mem)
{
    return p->k->mems[mem.i].space == AU_GLOBAL && p->k->mems[mem.i].scalar == AU_F16;
}

/* The memory as a pointer to [type], cast if it is declared as something else. */
static const char *pointer_as(AuCPrinter *p, AuMem mem, const char *type, bool cast, bool write)
{
    const char *name = p->mems[mem.i].name;
    if (!cast) return name;
    return au_format(p->arena, "(%s%s%s *)%s", space_of(p, mem), write ? "" : "const ", type, name);
}

static const char *sum(AuCPrinter *p, const char *pointer, AuCExpr index)
{
    if (strcmp(index.text, "0") == 0 || strcmp(index.text, "0L") == 0) return pointer;
    return au_format(p->arena, "%s + %s", pointer, cprint_within(p, index, C_PRODUCT));
}

static AuCExpr load(AuCPrinter *p, AuMem mem, AuCExpr index, AuKType type)
{
    const AuMemory *m = &p->k->mems[mem.i];
    const bool half_pointer = is_half_pointer(p, mem);
    const char *bits = pointer_as(p, mem, "ushort", half_pointer, false);
    AuCExpr e = {.binding = C_PRIMARY, .wide_binding = C_PRIMARY};
    if (type.width > 1)
        e.text = au_format(p->arena, "vload%u(0, %s)", type.width, sum(p, bits, index));
    else
        e.text = au_format(p->arena, half_pointer ? "(%s)[%s]" : "%s[%s]", bits, index.text);
    if (m->scalar == AU_I1 && type.width > 1)
        e.text = au_format(p->arena, "convert_int%u(%s != 0)", type.width, e.text);
    if (m->scalar == AU_I1 && type.width == 1) {
        e.text = au_format(p->arena, "%s != 0", e.text);
        e.binding = C_EQUALITY;
    }
    if (m->scalar != AU_F16) return e;
    const char *halves = pointer_as(p, mem, "half", !half_pointer, false);
    e.wide = type.width > 1
                 ? au_format(p->arena, "vload_half%u(0, %s)", type.width, sum(p, halves, index))
                 : au_format(p->arena, "vload_half(%s, %s)", index.text, halves);
    return e;
}

static const char *store(AuCPrinter *p, AuMem mem, AuCExpr index, AuCExpr value, AuKType type)
{
    const AuMemory *m = &p->k->mems[mem.i];
    const bool half_pointer = is_half_pointer(p, mem);
    if (m->scalar == AU_F16 && value.unrounded) {
        const char *halves = pointer_as(p, mem, "half", !half_pointer, true);
        if (type.width == 1)
            return au_format(p->arena, "vstore_half_rte(%s, %s, %s);", value.unrounded, index.text,
                             halves);
        return au_format(p->arena, "vstore_half%u_rte(%s, 0, %s);", type.width, value.unrounded,
                         sum(p, halves, index));
    }
    const char *bits = pointer_as(p, mem, "ushort", half_pointer, true);
    if (type.width == 1)
        return au_format(p->arena, half_pointer ? "(%s)[%s] = %s;" : "%s[%s] = %s;", bits,
                         index.text, value.text);
    const char *vector = value.text;
    if (m->scalar == AU_I1)
        vector = au_format(p->arena, "convert_uchar%u(%s & 1)", type.width,
                           cprint_within(p, value, C_UNARY));
    return au_format(p->arena, "vstore%u(%s, 0, %s);", type.width, vector, sum(p, bits, index));
}

static const char *atomic(AuCPrinter *p, AuMem mem, AuCExpr index, AuCExpr value, uint32_t width)
{
    (void)width; /* schedules for such devices have words alone */
    const AuMemory *m = &p->k->mems[mem.i];
    const char *place = sum(p, p->mems[mem.i].name, index);
    if (!value.text) return au_format(p->arena, "atomic_inc(%s)", place);
    if (m->scalar == AU_I32) return au_format(p->arena, "atomic_add(%s, %s)", place, value.text);
    return au_format(p->arena, "%s(%s, %s)", m->space == AU_GLOBAL ? "add_global" : "add_local",
                     place, value.text);
}

/* ---- a kernel's head */

/* Buffers come with the offset of their first element, since a buffer object has no addresses to add to. */
static void open_kernel(AuCPrinter *p)
{
    const AuKernel *k = p->k;
    const char **offsets = AU_NEW_ARRAY(p->arena, const char *, k->arg_count);
    cprint_line(p, "__kernel __attribute__((reqd_work_group_size(%u, 1, 1)))", k->lanes * k->warps);
    AuText line = {.arena = p->arena};
    au_text_add(&line, "void %s(", k->name);
    p->indent = 0;
    const int column = (int)line.length;
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const AuArg *a = &k->args[n];
        if (n) line.length = 0, au_text_add(&line, "%*s", column, "");
        if (a->kind == AU_ARG_POINTER) {
            const AuMemory *m = &k->mems[a->mem.i];
            const char *type = m->scalar == AU_F16 ? "half" : p->dialect->elements[m->scalar];
            offsets[n] = cprint_name(p, au_format(p->arena, "%s_offset", p->args[n]));
            au_text_add(&line, "%s%s%s *restrict %s, long %s", p->dialect->spaces[AU_GLOBAL],
                        m->writes ? "" : "const ", type, p->args[n], offsets[n]);
        } else {
            au_text_add(&line, "%s %s",
                        a->kind == AU_ARG_F32   ? "float"
                        : a->kind == AU_ARG_I64 ? "long"
                                                : "int",
                        p->args[n]);
        }
        if (n + 1 < k->arg_count) cprint_line(p, "%s,", au_text_str(&line));
    }
    cprint_line(p, "%s)", au_text_str(&line));
    cprint_line(p, "{");
    p->indent = 1;
    for (uint32_t n = 0; n < k->arg_count; n++)
        if (offsets[n]) cprint_line(p, "%s += %s;", p->args[n], offsets[n]);
}

const AuCDialect opencl_dialect = {
    .name = "OpenCL C",
    .target = "opencl",
    .stage = "opencl-c",
    .prelude =
        "// OpenCL C 1.2, generated. A work-group is a block; its work-items are the lanes.\n"
        "#pragma OPENCL FP_CONTRACT OFF\n"
        "\n"
        "// Before loops over arrays of a work-item: a GPU's registers have no indices, so none "
        "may be left;\n"
        "// a processor's compiler takes long over what is written out, and the kernel is no "
        "faster.\n"
        "#ifdef AULE_PROCESSOR\n"
        "#define UNROLL _Pragma(\"unroll 1\")\n"
        "#else\n"
        "#define UNROLL _Pragma(\"unroll\")\n"
        "#endif\n"
        "\n"
        "// After loops with barriers: PoCL takes some values that leave them for the same in all "
        "work-items.\n"
        "#ifdef AULE_PROCESSOR\n"
        "#define AFTER_BARRIERS barrier(CLK_LOCAL_MEM_FENCE)\n"
        "#else\n"
        "#define AFTER_BARRIERS\n"
        "#endif\n",
    .scalars = {"void", "bool", "int", "long", "float", "ushort", "ushort", "uchar"},
    .unsigneds = {[AU_I32] = "uint", [AU_I64] = "ulong"},
    .elements = {"void", "uchar", "int", "long", "float", "ushort", "ushort", "uchar"},
    .spaces = {"__global ", "__local ", "__local ", ""},
    .thread = "(int)get_local_id(0)",
    .block = "(int)get_group_id(%u)",
    .blocks = "(int)get_num_groups(%u)",
    .barriers = {"barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);", NULL},
    .after_barriers = "AFTER_BARRIERS;",
    .fence = "mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    .vector = "(%s)(%s)",
    .element = "%s.s%x",
    .reinterpret = "as_%s(%s)",
    .aligned_before = "",
    .aligned_after = " __attribute__((aligned(%u)))",
    .unroll = "UNROLL",
    .no_unroll = "#pragma unroll 1",
    .helpers = opencl_helpers,
    .helper_count = OPENCL_HELPERS,
    .reserved = reserved,
    .pattern = pattern,
    .open = open_kernel,
    .load = load,
    .store = store,
    .atomic = atomic,
};
