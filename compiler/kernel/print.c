/* print.c - the text form of kernels (docs/dev/kernel-ir.md 6): what read.c reads.
 * Values are numbered in the order of the text, so that equal kernels give equal texts. Scalar
 * constants stand where they are used: 4 is an i32, 4l an i64, 4.0 an f32, true an i1. */
#include "internal.h"

#include <ctype.h>
#include <string.h>

typedef struct Printer {
    const AuKernel *k;
    AuText *out;
    uint32_t *number; /* of a value, 0 where it has none */
} Printer;

static bool is_inline(const AuInstr *in)
{
    return in->op == AU_K_CONST && in->type.width == 1 && in->type.scalar != AU_F16 &&
           in->type.scalar != AU_BF16 && in->type.scalar != AU_U8;
}

static void print_type(AuText *out, AuKType type)
{
    au_text_add(out, "%s", kernel_scalar_name(type.scalar));
    if (type.width != 1) au_text_add(out, "x%u", type.width);
}

static void print_constant(AuText *out, const AuInstr *in)
{
    switch ((AuScalar)in->type.scalar) {
    case AU_I1: au_text_add(out, in->imm & 1 ? "true" : "false"); return;
    case AU_I64: au_text_add(out, "%lldl", (long long)in->imm); return;
    case AU_I32:
    case AU_U8: au_text_add(out, "%lld", (long long)in->imm); return;
    case AU_F32:
    case AU_F16:
    case AU_BF16: au_text_float(out, in->number); return;
    case AU_VOID:
    case AU_SCALARS: break;
    }
    au_text_add(out, "0");
}

static bool is_plain(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_') return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_' && *name != '.') return false;
    return true;
}

static void print_string(AuText *out, const char *text)
{
    au_text_add(out, "\"");
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            au_text_add(out, "\\%c", c);
        else if (c == '\n')
            au_text_add(out, "\\n");
        else if (c < 32 || c == 127)
            au_text_add(out, "\\x%02x", c);
        else
            au_text_bytes(out, text, 1);
    }
    au_text_add(out, "\"");
}

static void print_name(AuText *out, const char *name)
{
    if (is_plain(name))
        au_text_add(out, "%s", name);
    else
        print_string(out, name);
}

static void print_value(const Printer *p, AuVal v)
{
    const AuInstr *in = kernel_at(p->k, v);
    if (is_inline(in))
        print_constant(p->out, in);
    else
        au_text_add(p->out, "%%%u", p->number[v.i]);
    if (!is_inline(in) && in->text && in->op != AU_K_NOTE && is_plain(in->text))
        au_text_add(p->out, ".%s", in->text);
}

static void print_place(const Printer *p, AuMem mem, AuVal index)
{
    au_text_add(p->out, "@");
    print_name(p->out, p->k->mems[mem.i].name);
    au_text_add(p->out, "[");
    print_value(p, index);
    au_text_add(p->out, "]");
}

/* @mem[index], values, then `if mask` and `else other`. The first values of an operation between
 * memories are places too. */
static void print_access(const Printer *p, const AuInstr *in, uint32_t values)
{
    const uint32_t further = kernel_further(kernel_op_info(in->op));
    au_text_add(p->out, " ");
    print_place(p, in->mem, kernel_operand(p->k, in, 0));
    for (uint32_t n = 1; n < in->count; n++) {
        au_text_add(p->out, n < values ? ", " : n == values ? " if " : " else ");
        if (n <= further)
            print_place(p, in->also[n - 1], kernel_operand(p->k, in, n));
        else
            print_value(p, kernel_operand(p->k, in, n));
    }
}

/* The place in global memory has the coordinates that are left over. */
static void print_box(const Printer *p, const AuInstr *in, uint32_t least)
{
    const uint32_t places = 1 + kernel_further(kernel_op_info(in->op));
    const AuMem mems[3] = {in->mem, in->also[0], in->also[1]};
    uint32_t at = 0, rest = in->count - least;
    for (uint32_t n = 0; n < places; n++) {
        au_text_add(p->out, n ? ", @" : " @");
        print_name(p->out, p->k->mems[mems[n].i].name);
        au_text_add(p->out, "[");
        print_value(p, kernel_operand(p->k, in, at++));
        for (; p->k->mems[mems[n].i].space == AU_GLOBAL && rest; rest--) {
            au_text_add(p->out, ", ");
            print_value(p, kernel_operand(p->k, in, at++));
        }
        au_text_add(p->out, "]");
    }
    au_text_add(p->out, " if ");
    print_value(p, kernel_operand(p->k, in, at));
}

static void print_instr(const Printer *p, AuVal v)
{
    const AuInstr *in = kernel_at(p->k, v);
    const AuKOpInfo *info = kernel_op_info(in->op);
    if (info->flags & AU_KF_RESULT) {
        print_value(p, v);
        au_text_add(p->out, " = ");
    }
    au_text_add(p->out, "%s", info->text);
    if (info->flags & AU_KF_RESULT) {
        au_text_add(p->out, ".");
        const bool compares = info->rule == AU_R_CMP && in->count;
        print_type(p->out,
                   compares ? kernel_at(p->k, kernel_operand(p->k, in, 0))->type : in->type);
    }
    if (in->op == AU_K_CONST) {
        au_text_add(p->out, " ");
        print_constant(p->out, in);
    }
    const AuMem named[3] = {in->mem, in->also[0], in->also[1]};
    for (uint32_t n = 0; info->flags & AU_KF_NAMES && n < 3 && named[n].i; n++) {
        au_text_add(p->out, n ? ", @" : " @");
        print_name(p->out, p->k->mems[named[n].i].name);
    }
    if (info->flags & AU_KF_COORDS)
        print_box(p, in, info->count);
    else if (info->flags & AU_KF_MEM)
        print_access(p, in, info->count);
    else
        for (uint32_t n = 0; n < in->count; n++) {
            au_text_add(p->out, n ? ", " : " ");
            print_value(p, kernel_operand(p->k, in, n));
        }
    const char *imm = info->flags & AU_KF_IMM ? kernel_imm_name(p->k, in) : NULL;
    if (imm) {
        au_text_add(p->out, " #");
        print_name(p->out, imm);
    } else if (info->flags & AU_KF_IMM)
        au_text_add(p->out, " #%lld", (long long)in->imm);
    if (info->flags & AU_KF_TEXT) {
        au_text_add(p->out, " ");
        print_string(p->out, in->text ? in->text : "");
    }
}

static void print_for(const Printer *p, AuVal v)
{
    static const char *const unroll[] = {"", " unroll full", " unroll never"};
    const AuInstr *in = kernel_at(p->k, v);
    au_text_add(p->out, "for ");
    print_value(p, v);
    au_text_add(p->out, " = ");
    print_value(p, kernel_operand(p->k, in, 0));
    au_text_add(p->out, " to ");
    print_value(p, kernel_operand(p->k, in, 1));
    au_text_add(p->out, " step %lld%s", (long long)in->imm, unroll[in->unroll]);
}

/* Regions nest as deep as the builder and the reader allow, which is little. */
static void print_region(const Printer *p, uint32_t first, uint32_t indent)
{
    for (uint32_t i = first; i; i = p->k->instrs[i].next) {
        const AuInstr *in = &p->k->instrs[i];
        if (is_inline(in)) continue;
        au_text_add(p->out, "%*s", (int)indent * 2, "");
        if (in->op == AU_K_FOR)
            print_for(p, (AuVal){i});
        else
            print_instr(p, (AuVal){i});
        if (kernel_op_info(in->op)->flags & AU_KF_REGION) {
            au_text_add(p->out, " {\n");
            print_region(p, in->body, indent + 1);
            if (in->other) {
                au_text_add(p->out, "%*s} else {\n", (int)indent * 2, "");
                print_region(p, in->other, indent + 1);
            }
            au_text_add(p->out, "%*s}", (int)indent * 2, "");
        }
        au_text_add(p->out, "\n");
    }
}

static uint32_t number_region(const Printer *p, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i; i = p->k->instrs[i].next) {
        const AuInstr *in = &p->k->instrs[i];
        if (!is_inline(in) && kernel_op_info(in->op)->flags & AU_KF_RESULT) p->number[i] = ++count;
        if (!(kernel_op_info(in->op)->flags & AU_KF_REGION)) continue;
        count = number_region(p, in->body, count);
        count = number_region(p, in->other, count);
    }
    return count;
}

static Printer printer_of(const AuKernel *k, AuText *out)
{
    const Printer p = {k, out, AU_NEW_ARRAY(out->arena, uint32_t, k->instr_count)};
    number_region(&p, k->body, 0);
    return p;
}

static void print_memory(AuText *out, const AuMemory *m)
{
    static const char *const spaces[] = {
        [AU_GLOBAL] = "global", [AU_SHARED] = "shared", [AU_EXEC] = "exec",
        [AU_LANE] = "lane",     [AU_MATRIX] = "matrix", [AU_TENSOR] = "tensor"};
    au_text_add(out, "memory @");
    print_name(out, m->name);
    au_text_add(out, ": %s %s", spaces[m->space], kernel_scalar_name(m->scalar));
    if (m->space != AU_GLOBAL) au_text_add(out, "[%u]", m->count);
    if (m->space == AU_MATRIX)
        au_text_add(out, " shape %u %u %c", m->rows, m->columns, "abc"[m->use % 3]);
    if (m->space == AU_TENSOR) au_text_add(out, " shape %u %u", m->rows, m->columns);
    if (m->align) au_text_add(out, " align %u", m->align);
    if (m->swizzle) au_text_add(out, " swizzle %u", m->swizzle);
    if (m->reads) au_text_add(out, " reads");
    if (m->writes) au_text_add(out, " writes");
    if (m->earlier) au_text_add(out, " earlier");
    au_text_add(out, "\n");
}

static void print_arg(const AuKernel *k, AuText *out, const AuArg *a)
{
    static const char *const kinds[] = {[AU_ARG_POINTER] = "pointer",
                                        [AU_ARG_I32] = "i32",
                                        [AU_ARG_I64] = "i64",
                                        [AU_ARG_F32] = "f32"};
    au_text_add(out, "arg ");
    print_name(out, a->name);
    au_text_add(out, ": %s", kinds[a->kind]);
    if (a->kind == AU_ARG_POINTER) {
        au_text_add(out, " @");
        print_name(out, k->mems[a->mem.i].name);
    }
    if (a->source || a->source_index || a->source_dim)
        au_text_add(out, " from %u %u %u", a->source, a->source_index, a->source_dim);
    au_text_add(out, "\n");
}

static void print_words(AuText *out, const char *what, const char *of, uint32_t dim,
                        AuLaunchExpr words)
{
    if (!words.length) return;
    au_text_add(out, "%s ", what);
    if (of) {
        print_name(out, of);
        au_text_add(out, " ");
    }
    au_text_add(out, "%u:", dim);
    for (uint32_t w = 0; w < words.length; w++) au_text_add(out, " %u", words.code[w]);
    au_text_add(out, "\n");
}

static void print_map(const AuKernel *k, AuText *out, const AuMap *map)
{
    au_text_add(out, "map ");
    print_name(out, map->name);
    au_text_add(out, ": @");
    print_name(out, k->mems[map->mem.i].name);
    au_text_add(out, " box");
    for (uint32_t d = 0; d < map->rank; d++) au_text_add(out, " %u", map->box[d]);
    if (map->swizzle) au_text_add(out, " swizzle %u", map->swizzle);
    if (map->nan) au_text_add(out, " fill nan");
    if (map->cut) au_text_add(out, " cut %u", map->cut);
    au_text_add(out, "\n");
    for (uint32_t d = 0; d < map->rank; d++) {
        print_words(out, "size", map->name, d, map->size[d]);
        print_words(out, "stride", map->name, d, map->stride[d]);
    }
}

void kernel_print(const AuKernel *k, AuText *out)
{
    const Printer p = printer_of(k, out);
    au_text_add(out, "kernel ");
    print_name(out, k->name);
    au_text_add(out, " lanes %u warps %u", k->lanes, k->warps);
    if (k->group) au_text_add(out, " group %u", k->group);
    if (k->written) au_text_add(out, " written %u", k->written);
    if (k->paced) au_text_add(out, " paced %u", k->paced);
    if (k->resident) au_text_add(out, " resident %u", k->resident);
    if (k->is_coarse) au_text_add(out, " coarse");
    au_text_add(out, "\n");
    if (k->banner) {
        au_text_add(out, "banner ");
        print_string(out, k->banner);
        au_text_add(out, "\n");
    }
    for (uint32_t n = 1; n < k->mem_count; n++) print_memory(out, &k->mems[n]);
    for (uint32_t n = 0; n < k->arg_count; n++) print_arg(k, out, &k->args[n]);
    for (uint32_t n = 0; n < 3; n++) print_words(out, "grid", NULL, n, k->grid[n]);
    for (uint32_t n = 0; n < k->map_count; n++) print_map(k, out, &k->maps[n]);
    au_text_add(out, "{\n");
    print_region(&p, k->body, 1);
    au_text_add(out, "}\n");
}

void kernel_print_instr(const AuKernel *k, AuVal v, AuText *out)
{
    const Printer p = printer_of(k, out);
    if (kernel_at(k, v)->op == AU_K_FOR)
        print_for(&p, v);
    else if (is_inline(kernel_at(k, v)))
        print_constant(out, kernel_at(k, v));
    else
        print_instr(&p, v);
}
