/* memory.c - loads, stores and atomic operations with their masks; arrays and the variables that stand for their elements. */
#include "internal.h"

enum { LINE = 100 };

/* ---- accesses */

static uint64_t bit_of(AuMem mem) { return (uint64_t)1 << (mem.i & 63); }

static const char *element_name(AuCPrinter *p, const AuInstr *in)
{
    const AuInstr *index = kernel_at(p->k, kernel_operand(p->k, in, 0));
    return p->mems[in->mem.i].elements[index->imm];
}

static AuCExpr index_of(AuCPrinter *p, const AuInstr *in)
{
    const AuKType type = kernel_at(p->k, kernel_operand(p->k, in, 0))->type;
    return cprint_as(p, cprint_take(p, in, 0), type, false);
}

static AuCExpr zero(AuCPrinter *p, AuKType type)
{
    const AuInstr in = {.op = AU_K_CONST, .type = type};
    return cprint_constant(p, &in, false);
}

AuCExpr cprint_load(AuCPrinter *p, const AuInstr *in)
{
    AuCExpr e = {.text = NULL, .binding = C_PRIMARY};
    if (p->mems[in->mem.i].split)
        e.text = element_name(p, in);
    else
        e = p->dialect->load(p, in->mem, index_of(p, in), in->type);
    if (in->count > 1) {
        const AuCExpr mask = cprint_take(p, in, 1);
        const AuCExpr other = in->count > 2 ? cprint_as(p, cprint_take(p, in, 2), in->type, false)
                                            : zero(p, in->type);
        const char *condition = cprint_within(p, mask, C_OR);
        const char *format = "%s ? %s : %s";
        e.text = au_format(p->arena, format, condition, cprint_within(p, e, C_OR), other.text);
        e.wide = e.wide && other.wide ? au_format(p->arena, format, condition, e.wide, other.wide)
                                      : NULL;
        e.binding = e.wide_binding = C_TERNARY;
        e.unrounded = NULL;
    }
    p->reading |= bit_of(in->mem);
    return e;
}

static void masked_statement(AuCPrinter *p, const char *mask, const char *statement)
{
    if (mask) {
        cprint_line(p, "if (%s)", mask);
        p->indent++;
    }
    cprint_line(p, "%s", statement);
    if (mask) p->indent--;
}

void cprint_store(AuCPrinter *p, const AuInstr *in)
{
    const AuKType type = kernel_at(p->k, kernel_operand(p->k, in, 1))->type;
    const bool split = p->mems[in->mem.i].split;
    const AuCExpr none = {0}, index = split ? none : index_of(p, in);
    const AuCExpr value = cprint_as(p, cprint_take(p, in, 1), type, false);
    const char *mask = in->count > 2 ? cprint_take(p, in, 2).text : NULL;
    cprint_settle(p, bit_of(in->mem));
    const AuCMemory *m = &p->mems[in->mem.i];
    const bool starts = m->starts_here && in == &p->k->instrs[m->first_use];
    const char *start = starts ? cprint_type(p, type, false) : NULL;
    const char *assignment =
        !split  ? p->dialect->store(p, in->mem, index, value, type)
        : start ? au_format(p->arena, "%s %s = %s;", start, element_name(p, in), value.text)
                : au_format(p->arena, "%s = %s;", element_name(p, in), value.text);
    cprint_place(p, in);
    masked_statement(p, mask, assignment);
    p->reading = 0;
}

void cprint_atomic(AuCPrinter *p, AuVal v)
{
    const AuInstr *in = kernel_at(p->k, v);
    const bool inc = in->op == AU_K_ATOMIC_INC;
    const AuCExpr none = {0}, index = index_of(p, in);
    const AuCExpr value =
        inc ? none : cprint_as(p, cprint_take(p, in, 1), (AuKType){AU_I32, 1}, false);
    const uint32_t at = inc ? 1 : 2;
    const char *mask = in->count > at ? cprint_within(p, cprint_take(p, in, at), C_OR) : NULL;
    const char *call =
        p->dialect->atomic(p, in->mem, index, value,
                           inc ? 1 : kernel_at(p->k, kernel_operand(p->k, in, 1))->type.width);
    cprint_settle(p, inc ? UINT64_MAX : bit_of(in->mem));
    cprint_place(p, in);
    if (inc) cprint_line(p, "%s", p->dialect->fence);
    if (inc && p->values[v.i].uses) {
        if (mask) call = au_format(p->arena, "%s ? %s : 0", mask, call);
        p->values[v.i].expr = (AuCExpr){.text = call};
        cprint_declare(p, v);
    } else {
        masked_statement(p, mask, au_format(p->arena, "%s;", call));
    }
    if (inc) cprint_line(p, "%s", p->dialect->fence);
    p->reading = 0;
}

/* ---- declarations */

static void declare_split(AuCPrinter *p, AuMem mem)
{
    const AuMemory *memory = &p->k->mems[mem.i];
    const char *type = p->dialect->scalars[memory->scalar];
    AuText line = {.arena = p->arena};
    for (uint32_t n = 0; n < memory->count; n++) {
        if (!p->mems[mem.i].elements[n]) continue;
        au_text_add(&line, line.length ? ", " : "%s ", type);
        au_text_add(&line, "%s", p->mems[mem.i].elements[n]);
        if (line.length < LINE - 30) continue;
        cprint_line(p, "%s;", au_text_str(&line));
        line.length = 0;
    }
    if (line.length) cprint_line(p, "%s;", au_text_str(&line));
}

void cprint_array(AuCPrinter *p, AuMem mem)
{
    const AuCDialect *d = p->dialect;
    const AuMemory *m = &p->k->mems[mem.i];
    const char *type = d->elements[m->scalar], *space = d->spaces[m->space];
    const char *name = p->mems[mem.i].name;
    const bool aligned = m->align > kernel_scalar_bytes(m->scalar);
    const char *before = aligned ? au_format(p->arena, d->aligned_before, m->align) : "",
               *after = aligned ? au_format(p->arena, d->aligned_after, m->align) : "";
    if (m->space != AU_EXEC || p->k->warps == 1) {
        cprint_line(p, "%s%s%s %s[%u]%s;", before, space, type, name, m->count, after);
        return;
    }
    /* One array for the block, of which each executor has its part. */
    const char *all = cprint_name(p, au_format(p->arena, "%s_all", name));
    cprint_line(p, "%s%s%s %s[%u * %u]%s;", before, space, type, all, p->k->warps, m->count, after);
    cprint_line(p, "%s%s *const %s = %s + %s * %u;", space, type, name, all, p->warp_name,
                m->count);
}

void cprint_lane_memories(AuCPrinter *p, uint32_t i)
{
    for (uint32_t n = 1; n < p->k->mem_count; n++) {
        const AuCMemory *m = &p->mems[n];
        if (p->k->mems[n].space != AU_LANE || m->first_use != i || m->starts_here) continue;
        if (m->split)
            declare_split(p, (AuMem){n});
        else
            cprint_array(p, (AuMem){n});
    }
}
