/* metal_dialect.c - MSL 3.0, a dialect of the C printer. A lane is a thread, an executor a simdgroup, a block a threadgroup.
 * The parameter block is a struct of 8 bytes a slot in buffer 0, with pointers in it (Metal 3). Memory of the block is one argument,
 * whose bytes the launch gives. f16 is `half`; bf16 is its bits. Vectors have 4 elements at most. */
#include "internal.h"
#include "metal.h"

#include <string.h>

// clang-format off
/* Keywords of C++14 and MSL, names of types, macros, and the functions and parameters that printed code names. */
static const char *const reserved[] = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "char16_t",
    "char32_t", "class", "compl", "const", "const_cast", "constexpr", "continue", "decltype", "default", "delete", "do", "double",
    "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int",
    "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected",
    "public", "register", "reinterpret_cast", "restrict", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast",
    "struct", "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned",
    "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
    "kernel", "vertex", "fragment", "device", "constant", "thread", "threadgroup", "threadgroup_imageblock", "ray_data", "object_data",
    "mesh", "object", "visible", "intersection", "stitchable", "half", "bfloat", "uchar", "ushort", "uint", "ulong", "size_t",
    "ptrdiff_t", "sampler", "texture", "access", "metal", "simd", "quad", "matrix", "vec", "atomic", "mem_flags", "main",
    "NULL", "NAN", "INFINITY", "INT_MIN", "LONG_MIN", "MAXFLOAT", "HUGE_VALF", "INT_MAX", "LONG_MAX", "UNROLL", "NO_UNROLL",
    "UINT_MAX", "ULONG_MAX", "SHRT_MAX", "CHAR_BIT", "FLT_MAX", "FLT_MIN", "FLT_EPSILON", "HALF_MAX", "M_PI_F", "M_E_F", "assert",
    "bfloat2", "bfloat4", "packed_float3", "memory_order_relaxed", "atomic_int", "atomic_uint", "atomic_float",
    "abs", "fabs", "min", "max", "fmin", "fmax", "fma", "floor", "ceil", "rint", "round", "trunc", "sqrt", "rsqrt", "exp", "exp2",
    "log", "log2", "pow", "tanh", "sin", "cos", "clamp", "select", "mulhi", "isnan", "any", "all", "dot", "length", "distance",
    "as_type", "simd_shuffle", "simd_shuffle_xor", "simd_any", "simdgroup_matrix", "simdgroup_barrier", "threadgroup_barrier",
    "simdgroup_multiply_accumulate", "slots", "shared", "thread_in_simdgroup", "simdgroup", "block_at", "grid_blocks", NULL};
// clang-format on

/* ---- operations */

static const char *conversion(AuKType of, AuKType to)
{
    if (to.scalar == AU_BF16) return "float_to_bf16%w(%0)";
    if (of.scalar == AU_BF16) return "bf16_to_float%w(%0)";
    if (to.scalar == AU_I1) return "%0 != 0";
    if (of.scalar == AU_F32 && to.scalar == AU_I32) return "float_to_int%w(%0)";
    if (of.scalar == AU_F32 && to.scalar == AU_I64) return "float_to_long%w(%0)";
    return "%t(%0)";
}

/* Exchanged are integers and floats of 16 and 32 bits; of 64 in two parts. */
static const char *shuffle(AuKOp op, AuKType of)
{
    const bool by = op == AU_K_SHUFFLE_XOR;
    switch ((AuScalar)of.scalar) {
    case AU_I1:
        if (of.width > 1) return NULL;
        return by ? "simd_shuffle_xor(int(%0), ushort(%i)) != 0"
                  : "simd_shuffle(int(%0), ushort(%1 & 31)) != 0";
    case AU_I64:
        if (of.width > 1) return NULL;
        return by ? "shuffle_long(%0, ushort(thread_in_simdgroup ^ %i))"
                  : "shuffle_long(%0, ushort(%1 & 31))";
    case AU_I32:
    case AU_F32:
    case AU_F16:
    case AU_BF16:
        return by ? "simd_shuffle_xor(%0, ushort(%i))" : "simd_shuffle(%0, ushort(%1 & 31))";
    case AU_U8:
    case AU_VOID:
    case AU_SCALARS: return NULL;
    }
    return NULL;
}

static const char *slice(const AuCPrinter *p, AuKType to)
{
    if (to.width == 2) return p->expanded->imm ? "%t(%0[2], %0[3])" : "%t(%0[0], %0[1])";
    return to.width == 4 ? "%0" : NULL;
}

static const char *product(const AuCPrinter *p)
{
    switch ((int)p->expanded->imm) {
    case AU_MATRIX_SIMDGROUP8_F16: return "multiply_add_half(%0, %1, %2)";
    case AU_MATRIX_SIMDGROUP8_BF16: return "multiply_add_bf16(%0, %1, %2)";
    case AU_MATRIX_SIMDGROUP8_F32: return "multiply_add(%0, %1, %2)";
    }
    return NULL;
}

/* Counts are taken modulo the width, which C leaves open. 0: this one is less; else log2 of the bytes, less 1. */
static uint32_t fits(const AuCPrinter *p)
{
    const AuInstr *count = kernel_at(p->k, kernel_operand(p->k, p->expanded, 1));
    const bool is_long = count->type.scalar == AU_I64;
    if (count->op == AU_K_CONST && count->imm >= 0 && count->imm < (is_long ? 64 : 32)) return 0;
    return is_long ? 2 : 1;
}
static const char *const shift_left[] = {"%0 << %1", "%0 << (%1 & 31)", "%0 << (%1 & 63)"};
static const char *const shift_right[] = {"%0 >> %1", "%0 >> (%1 & 31)", "%0 >> (%1 & 63)"};

static const char *pattern(const AuCPrinter *p, AuKOp op, AuKType of, AuKType to)
{
    const bool real = of.scalar == AU_F32, is_long = of.scalar == AU_I64, vector = of.width > 1;
    switch ((int)op) {
    case AU_K_CVT: return conversion(of, to);
    case AU_K_BITCAST: return "as_type<%t>(%0)";
    case AU_K_IDIV: return is_long ? "floor_div_long%w(%0, %1)" : "floor_div%w(%0, %1)";
    case AU_K_IMOD: return is_long ? "floor_mod_long%w(%0, %1)" : "floor_mod%w(%0, %1)";
    case AU_K_MULHI: return "mulhi(%0, %1)";
    case AU_K_ABS: return "abs(%0)";
    case AU_K_MIN: return real ? "minimum%w(%0, %1)" : "min(%0, %1)";
    case AU_K_MAX: return real ? "maximum%w(%0, %1)" : "max(%0, %1)";
    case AU_K_SHL: return shift_left[fits(p)];
    case AU_K_SHR:
    case AU_K_USHR: return shift_right[fits(p)];
    case AU_K_SELECT: return vector ? "select(%2, %1, %0)" : "%0 ? %1 : %2";
    case AU_K_DOT2: return of.scalar == AU_F16 ? "dot2_half(%0, %1, %2)" : "dot2_bf16(%0, %1, %2)";
    case AU_K_SLICE: return slice(p, to);
    case AU_K_SHUFFLE_XOR:
    case AU_K_SHUFFLE: return shuffle(op, to);
    case AU_K_BOTH: /* of vectors that the language has */
        return to.width > 4 ? NULL
                            : "%t(simd_shuffle(%0, ushort(thread_in_simdgroup & ~%i)), "
                              "simd_shuffle(%0, ushort(thread_in_simdgroup | %i)))";
    case AU_K_ANY: return "simd_any(%0)";
    case AU_K_MMA: return product(p);
    }
    return kernel_op_info(op)->opencl;
}

/* ---- memory */

/* The element at an index as a vector with the alignment of one element. */
static const char *packed(AuCPrinter *p, AuMem mem, AuCExpr index, AuKType type, bool write)
{
    const AuMemory *m = &p->k->mems[mem.i];
    const char *name = p->mems[mem.i].name, *element = p->dialect->elements[m->scalar];
    const bool first = strcmp(index.text, "0") == 0 || strcmp(index.text, "0L") == 0;
    const char *place =
        first ? name : au_format(p->arena, "(%s + %s)", name, cprint_within(p, index, C_PRODUCT));
    return au_format(p->arena, "*(%s%spacked_%s%u *)%s", p->dialect->spaces[m->space],
                     write ? "" : "const ", element, type.width, place);
}

/* Where the helpers of eight numbers find theirs. */
static const char *eight(AuCPrinter *p, AuMem mem, AuCExpr index, bool write)
{
    const AuMemory *m = &p->k->mems[mem.i];
    const char *place =
        au_format(p->arena, "%s + %s", p->mems[mem.i].name, cprint_within(p, index, C_PRODUCT));
    if (m->scalar == AU_BF16) return place;
    return au_format(p->arena, "(%s%sushort *)(%s)", p->dialect->spaces[m->space],
                     write ? "" : "const ", place);
}

static const char *space_word(const AuMemory *m)
{
    return m->space == AU_GLOBAL ? "device" : m->space == AU_LANE ? "thread" : "shared";
}

static AuCExpr load(AuCPrinter *p, AuMem mem, AuCExpr index, AuKType type)
{
    const AuMemory *m = &p->k->mems[mem.i];
    const char *element = p->dialect->elements[m->scalar];
    AuCExpr e = {.binding = C_PRIMARY};
    if (cprint_is_eight(p, type)) {
        e.text = au_format(p->arena, "eight_of_%s(%s)", space_word(m), eight(p, mem, index, false));
    } else if (type.width > 1 && m->scalar == AU_I1) {
        e.text = au_format(p->arena, "bool%u(uchar%u(%s))", type.width, type.width,
                           packed(p, mem, index, type, false));
    } else if (type.width > 1) {
        e.text = au_format(p->arena, "%s%u(%s)", element, type.width,
                           packed(p, mem, index, type, false));
    } else {
        e.text = au_format(p->arena, "%s[%s]", p->mems[mem.i].name, index.text);
        if (m->scalar != AU_I1) return e;
        e.text = au_format(p->arena, "%s != 0", e.text);
        e.binding = C_EQUALITY;
    }
    return e;
}

static const char *store(AuCPrinter *p, AuMem mem, AuCExpr index, AuCExpr value, AuKType type)
{
    const AuMemory *m = &p->k->mems[mem.i];
    const char *element = p->dialect->elements[m->scalar];
    if (cprint_is_eight(p, type))
        return au_format(p->arena, "eight_to_%s(%s, %s);", space_word(m),
                         eight(p, mem, index, true), value.text);
    if (type.width == 1 && m->scalar == AU_I1)
        return au_format(p->arena, "%s[%s] = uchar(%s);", p->mems[mem.i].name, index.text,
                         value.text);
    if (type.width == 1)
        return au_format(p->arena, "%s[%s] = %s;", p->mems[mem.i].name, index.text, value.text);
    const char *vector = value.text;
    if (m->scalar == AU_I1) vector = au_format(p->arena, "uchar%u(%s)", type.width, vector);
    return au_format(p->arena, "%s = packed_%s%u(%s);", packed(p, mem, index, type, true), element,
                     type.width, vector);
}

static const char *atomic(AuCPrinter *p, AuMem mem, AuCExpr index, AuCExpr value, uint32_t width)
{
    const AuMemory *m = &p->k->mems[mem.i];
    const bool device = m->space == AU_GLOBAL;
    const char *place =
        au_format(p->arena, "%s + %s", p->mems[mem.i].name, cprint_within(p, index, C_PRODUCT));
    if (!value.text)
        return au_format(p->arena,
                         "atomic_fetch_add_explicit((%satomic_int *)(%s), 1, memory_order_relaxed)",
                         p->dialect->spaces[m->space], place);
    return au_format(p->arena, "%s%s(%s, %s)", device ? "add_device" : "add_shared",
                     width == 2            ? "_pair"
                     : width == 4          ? "_four"
                     : m->scalar == AU_I32 ? "_int"
                                           : "",
                     place, value.text);
}

/* ---- a kernel's head */

/* Memories of the block lie in its one argument, as the launch counts them. */
static void shared(AuCPrinter *p)
{
    const AuKernel *k = p->k;
    uint32_t *offsets = AU_NEW_ARRAY(p->arena, uint32_t, k->mem_count);
    kernel_shared_bytes(k, offsets);
    for (uint32_t n = 1; n < k->mem_count; n++) {
        const AuMemory *m = &k->mems[n];
        if (!p->mems[n].used || (m->space != AU_SHARED && m->space != AU_EXEC)) continue;
        const char *type = p->dialect->elements[m->scalar];
        const bool own = m->space == AU_EXEC && k->warps > 1;
        const char *part = own ? au_format(p->arena, " + %s * %u", p->warp_name, m->count) : "";
        cprint_line(p, "threadgroup %s *const %s = (threadgroup %s *)(shared + %u)%s; // %u", type,
                    p->mems[n].name, type, offsets[n], part, m->count);
    }
}

static const char *slot_type(const AuCPrinter *p, const AuArg *a)
{
    switch ((AuArgKind)a->kind) {
    case AU_ARG_POINTER: {
        const AuMemory *m = &p->k->mems[a->mem.i];
        return au_format(p->arena, "device %s%s *", m->writes ? "" : "const ",
                         p->dialect->elements[m->scalar]);
    }
    case AU_ARG_F32: return "float ";
    case AU_ARG_I64: return "long ";
    case AU_ARG_I32: return "int ";
    }
    return "";
}

/* Slots have 8 bytes each. */
static const char *slot_padding(const AuArg *a)
{
    return a->kind == AU_ARG_F32 || a->kind == AU_ARG_I32 ? "alignas(8) " : "";
}

/* What the hardware says of a thread is named in print_entry by the expressions of the table below. */
static void open_kernel(AuCPrinter *p)
{
    const AuKernel *k = p->k;
    p->indent = 0;
    if (k->arg_count) {
        cprint_line(p, "struct %s_slots {", k->name);
        p->indent = 1;
        for (uint32_t n = 0; n < k->arg_count; n++)
            cprint_line(p, "%s%s%s;", slot_padding(&k->args[n]), slot_type(p, &k->args[n]),
                        p->args[n]);
        p->indent = 0;
        cprint_line(p, "%s", "};");
    }
    cprint_line(p, "[[max_total_threads_per_threadgroup(%u)]] kernel void %s(", k->lanes * k->warps,
                k->name);
    p->indent = 1;
    if (k->arg_count) cprint_line(p, "constant %s_slots &slots [[buffer(0)]],", k->name);
    if (kernel_shared_bytes(k, NULL))
        cprint_line(p, "%s", "threadgroup uchar *shared [[threadgroup(0)]],");
    cprint_line(p, "%s", "uint3 block_at [[threadgroup_position_in_grid]],");
    cprint_line(p, "%s", "uint3 grid_blocks [[threadgroups_per_grid]],");
    cprint_line(p, "%s", "uint simdgroup [[simdgroup_index_in_threadgroup]],");
    cprint_line(p, "%s", "uint thread_in_simdgroup [[thread_index_in_simdgroup]])");
    p->indent = 0;
    cprint_line(p, "%s", "{");
    p->indent = 1;
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const AuArg *a = &k->args[n];
        const char *type = slot_type(p, a);
        cprint_line(p, "%s%s%s = slots.%s;", a->kind == AU_ARG_POINTER ? type : "const ",
                    a->kind == AU_ARG_POINTER ? "const " : type, p->args[n], p->args[n]);
    }
}

const AuCDialect metal_dialect = {
    .name = "MSL",
    .target = "metal",
    .stage = "metal",
    .prelude = "// MSL 3.0, generated. A threadgroup is a block; its threads are the lanes.\n"
               "#include <metal_stdlib>\n"
               "#include <metal_simdgroup_matrix>\n"
               "using namespace metal;\n"
               "#pragma clang fp contract(off)\n",
    .scalars = {"void", "bool", "int", "long", "float", "half", "ushort", "uchar"},
    .unsigneds = {[AU_I32] = "uint", [AU_I64] = "ulong"},
    .elements = {"void", "uchar", "int", "long", "float", "half", "ushort", "uchar"},
    .spaces = {"device ", "threadgroup ", "threadgroup ", "thread "},
    .lane = "int(thread_in_simdgroup)",
    .executor = "int(simdgroup)",
    .block = "int(block_at[%u])",
    .blocks = "int(grid_blocks[%u])",
    .barriers = {"threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);",
                 "simdgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);"},
    .fence = "device_fence();",
    .vector = "%s(%s)",
    .element = "%s[%u]",
    .reinterpret = "as_type<%s>(%s)",
    .half = "half(%s)",
    .aligned_before = "alignas(%u) ",
    .aligned_after = "",
    .has_bools = true,
    .offsets = true,
    .widest = 4,
    .eight = "uint4",
    .unroll = "#pragma unroll",
    .no_unroll = "#pragma nounroll",
    .helpers = metal_helpers,
    .helper_count = METAL_HELPERS,
    .reserved = reserved,
    .pattern = pattern,
    .open = open_kernel,
    .shared = shared,
    .load = load,
    .store = store,
    .atomic = atomic,
};
