/* cprint.c - statements: which values are declared and which become part of expressions, memories, control flow. */
#include "internal.h"

#include <string.h>

enum {
    LONGEST_FOLDED = 64 /* characters of an expression that may become part of another one */
};

void cprint_line(AuCPrinter *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = au_vformat(p->arena, format, arguments);
    va_end(arguments);
    if (*text) au_text_add(p->out, "%*s%s", (int)(4 * p->indent), "", text);
    au_text_add(p->out, "\n");
}

/* Comment lines of a text that may contain anything: a backslash at the end of a line would continue the comment. */
void cprint_comment(AuCPrinter *p, const char *text)
{
    while (*text) {
        const size_t length = strcspn(text, "\n");
        char *line = au_strndup(p->arena, text, length);
        for (char *c = line; *c; c++)
            if ((unsigned char)*c < ' ' || *c == 127 || (*c == '\\' && !c[1])) *c = ' ';
        cprint_line(p, *line ? "// %s" : "//", line);
        text += length + (text[length] == '\n');
    }
}

/* ---- values */

void cprint_declare(AuCPrinter *p, AuVal v)
{
    const AuInstr *in = kernel_at(p->k, v);
    AuCValue *value = &p->values[v.i];
    const char *wanted = in->text              ? in->text
                         : in->op == AU_K_LOAD ? p->k->mems[in->mem.i].name
                                               : NULL;
    const char *name = cprint_name(p, wanted);
    const char *type = cprint_type(p, in->type, value->expr.is_unsigned);
    cprint_place(p, in);
    cprint_line(p, "const %s %s = %s;", type, name, value->expr.text);
    value->expr =
        (AuCExpr){.text = name, .binding = C_PRIMARY, .is_unsigned = value->expr.is_unsigned};
    value->pending = false;
}

/* Declares what waits and looks at one of the memories, before they change. */
void cprint_settle(AuCPrinter *p, uint64_t memories)
{
    uint32_t kept = 0;
    for (uint32_t n = 0; n < p->pending_count; n++) {
        const AuVal v = p->pending[n];
        if (!p->values[v.i].pending) continue;
        if (p->values[v.i].reads & memories)
            cprint_declare(p, v);
        else
            p->pending[kept++] = v;
    }
    p->pending_count = kept;
}

/* In its own region, and without a name. */
static bool has_one_user(const AuCPrinter *p, AuVal v)
{
    const AuCValue *value = &p->values[v.i];
    return value->uses == 1 && value->used_in == value->region && !kernel_at(p->k, v)->text;
}

/* x + c of integers, which accesses to memory add for nothing: a variable of its own would be a register. It is
 * written out at each use. */
static bool is_offset(const AuCPrinter *p, AuVal v)
{
    const AuInstr *in = kernel_at(p->k, v);
    return p->dialect->offsets && in->op == AU_K_ADD && in->type.width == 1 && !in->text &&
           (in->type.scalar == AU_I32 || in->type.scalar == AU_I64) &&
           kernel_at(p->k, kernel_operand(p->k, in, 1))->op == AU_K_CONST;
}

/* A value has been made: waits for its only user, or is declared. */
static void define(AuCPrinter *p, AuVal v, AuCExpr expr)
{
    AuCValue *value = &p->values[v.i];
    value->expr = expr;
    value->reads = p->reading;
    p->reading = 0;
    if (value->uses == 0) return;
    /* A name from the script says more than brevity. What lanes do together must not become part of what some of them skip. */
    const bool together = kernel_op_info(kernel_at(p->k, v)->op)->flags & AU_KF_LANES;
    if (!together && has_one_user(p, v) && strlen(expr.text) <= LONGEST_FOLDED) {
        value->pending = true;
        AU_PUSH(p->arena, p->pending, p->pending_count, p->pending_capacity, v);
    } else if (!is_offset(p, v)) {
        cprint_declare(p, v);
    }
}

/* ---- structure */

static void print_region(AuCPrinter *p, uint32_t first, uint32_t region);

/* What decides over control flow; executors that may part there are remembered. */
static AuCExpr take_decisive(AuCPrinter *p, const AuInstr *in, uint32_t n, bool *parts)
{
    const AuVal operand = kernel_operand(p->k, in, n);
    if (p->executors.kind[operand.i] != AU_UNIFORM) *parts = true;
    return cprint_as(p, cprint_take(p, in, n), kernel_at(p->k, operand)->type, false);
}

static void print_body(AuCPrinter *p, const AuInstr *in, uint32_t owner, bool other, bool parts)
{
    p->parted += parts;
    print_region(p, other ? in->other : in->body, cprint_region(owner, other));
    p->parted -= parts;
}

static void print_for(AuCPrinter *p, AuVal v)
{
    const AuInstr *in = kernel_at(p->k, v);
    const AuVal high_value = kernel_operand(p->k, in, 1);
    bool parts = false;
    const AuCExpr low = take_decisive(p, in, 0, &parts);
    /* C asks for the bound again at every turn: it must not look at memory. */
    if (p->values[high_value.i].pending && p->values[high_value.i].reads)
        cprint_declare(p, high_value);
    const AuCExpr high = take_decisive(p, in, 1, &parts);
    cprint_settle(p, UINT64_MAX);
    p->reading = 0;
    const uint32_t names = cprint_names_open(p);
    const char *name = in->text ? cprint_name(p, in->text) : cprint_counter(p);
    const long long step = in->imm;
    const char *next = step == 1    ? au_format(p->arena, "%s++", name)
                       : step == -1 ? au_format(p->arena, "%s--", name)
                       : step > 0   ? au_format(p->arena, "%s += %lld", name, step)
                                    : au_format(p->arena, "%s -= %lld", name, -step);
    const char *unroll = cprint_unroll(p, v);
    cprint_place(p, in);
    if (unroll) cprint_line(p, "%s", unroll);
    cprint_line(p, "for (int %s = %s; %s %s %s; %s) {", name, low.text, name, step > 0 ? "<" : ">",
                cprint_within(p, high, C_SUM), next);
    p->values[v.i].expr = (AuCExpr){.text = name, .binding = C_PRIMARY};
    print_body(p, in, v.i, false, parts);
    cprint_line(p, "}");
    if (p->dialect->after_barriers && kernel_has_barrier(p->k, in->body))
        cprint_line(p, "%s", p->dialect->after_barriers);
    cprint_names_close(p, names);
}

static void print_if(AuCPrinter *p, AuVal v)
{
    const AuInstr *in = kernel_at(p->k, v);
    bool parts = false;
    const AuCExpr condition = take_decisive(p, in, 0, &parts);
    cprint_settle(p, UINT64_MAX);
    p->reading = 0;
    cprint_place(p, in);
    cprint_line(p, "if (%s) {", condition.text);
    print_body(p, in, v.i, false, parts);
    if (in->other) {
        cprint_line(p, "} else {");
        print_body(p, in, v.i, true, parts);
    }
    cprint_line(p, "}");
}

static void print_barrier(AuCPrinter *p, const AuInstr *in)
{
    const char *own = p->dialect->barriers[in->imm];
    if (!own && p->k->warps > 1 && p->parted) {
        au_error(p->diags, AU_E0621, in->span,
                 "kernel %s has a barrier of one executor where executors may take different ways; "
                 "%s only has barriers of the whole block",
                 p->k->name, p->dialect->name);
        p->good = false;
    }
    cprint_settle(p, UINT64_MAX);
    cprint_place(p, in);
    cprint_line(p, "%s", own ? own : p->dialect->barriers[0]);
}

/* Values that are names, not expressions. */
static const char *name_of(const AuCPrinter *p, const AuInstr *in)
{
    switch ((int)in->op) {
    case AU_K_ARG: return p->args[in->imm];
    case AU_K_BLOCK: return p->block_name[in->imm];
    case AU_K_BLOCKS: return p->blocks_name[in->imm];
    case AU_K_WARP: return p->warp_name;
    case AU_K_LANE: return p->lane_name;
    }
    return NULL;
}

static void print_instr(AuCPrinter *p, AuVal v)
{
    const AuInstr *in = kernel_at(p->k, v);
    const char *name = name_of(p, in);
    if (name) p->values[v.i].expr = (AuCExpr){.text = name, .binding = C_PRIMARY};
    if (name) return;
    if (!cprint_has_type(p, in->type)) {
        p->values[v.i].expr = cprint_lacks(p, in);
        return;
    }
    switch ((int)in->op) {
    case AU_K_CONST: p->values[v.i].expr = cprint_constant(p, in, false); return;
    case AU_K_LOAD: define(p, v, cprint_load(p, in)); return;
    case AU_K_STORE: cprint_store(p, in); return;
    case AU_K_ATOMIC_ADD:
    case AU_K_ATOMIC_INC: cprint_atomic(p, v); return;
    case AU_K_BARRIER: print_barrier(p, in); return;
    case AU_K_HINT: return;
    case AU_K_FOR: print_for(p, v); return;
    case AU_K_IF: print_if(p, v); return;
    case AU_K_NOTE:
        if (p->out->at[p->out->length - 2] != '{') cprint_line(p, "%s", "");
        cprint_comment(p, in->text);
        return;
    }
    const AuVal base = in->count ? kernel_operand(p->k, in, 0) : v;
    if (is_offset(p, v) && !has_one_user(p, v) && p->values[base.i].pending)
        cprint_declare(p, base);
    define(p, v, cprint_operation(p, in));
}

static void print_region(AuCPrinter *p, uint32_t first, uint32_t region)
{
    const uint32_t outer = p->region;
    const uint32_t names = cprint_names_open(p);
    p->region = region;
    p->indent++;
    for (uint32_t i = first; i; i = p->k->instrs[i].next) {
        cprint_lane_memories(p, i);
        const bool seen = p->values[i].live || p->k->instrs[i].op == AU_K_NOTE;
        if (seen) print_instr(p, (AuVal){i});
    }
    p->indent--;
    p->region = outer;
    cprint_names_close(p, names);
}

/* ---- kernels */

/* Dimension [n] of the grid, or of a place in it, if it is used. */
static void print_position(AuCPrinter *p, const char **name, const char *stem, const char *format,
                           uint32_t n)
{
    if (!*name) return;
    *name = cprint_name(p, au_format(p->arena, "%s_%c", stem, "xyz"[n]));
    cprint_line(p, "const int %s = %s;", *name, au_format(p->arena, format, n));
}

/* Variables of the position in the grid and the block, where they are used; arrays that lanes share. */
static void print_entry(AuCPrinter *p)
{
    const AuCDialect *d = p->dialect;
    for (uint32_t n = 0; n < 3; n++) {
        print_position(p, &p->block_name[n], "block", d->block, n);
        print_position(p, &p->blocks_name[n], "blocks", d->blocks, n);
    }
    for (uint32_t n = 1; n < p->k->mem_count; n++)
        if (p->k->mems[n].space == AU_EXEC && p->mems[n].used && p->k->warps > 1)
            p->warp_name = "warp";
    const bool one = p->k->warps == 1;
    if (p->lane_name) p->lane_name = cprint_name(p, "lane");
    if (p->lane_name && (one || d->lane))
        cprint_line(p, "const int %s = %s;", p->lane_name, d->lane ? d->lane : d->thread);
    if (p->lane_name && !one && !d->lane)
        cprint_line(p, "const int %s = %s %% %u;", p->lane_name, d->thread, p->k->lanes);
    if (p->warp_name && one) p->warp_name = "0";
    if (p->warp_name && !one) {
        p->warp_name = cprint_name(p, "warp");
        if (d->executor)
            cprint_line(p, "const int %s = %s;", p->warp_name, d->executor);
        else
            cprint_line(p, "const int %s = %s / %u;", p->warp_name, d->thread, p->k->lanes);
    }
    if (d->shared) {
        d->shared(p);
        return;
    }
    for (uint32_t n = 1; n < p->k->mem_count; n++)
        if (p->mems[n].used && (p->k->mems[n].space == AU_SHARED || p->k->mems[n].space == AU_EXEC))
            cprint_array(p, (AuMem){n});
}

static void name_elements(AuCPrinter *p, uint32_t mem)
{
    AuCMemory *m = &p->mems[mem];
    const uint32_t count = p->k->mems[mem].count;
    for (uint32_t n = 0; n < count; n++)
        if (m->elements[n])
            m->elements[n] =
                count == 1 ? m->name : cprint_name(p, au_format(p->arena, "%s_%u", m->name, n));
}

static bool print_kernel(AuCPrinter *p)
{
    const AuKernel *k = p->k;
    if (!cprint_is_identifier(p->dialect, k->name)) {
        const AuSpan nowhere = {0};
        au_error(p->diags, AU_E0622, nowhere, "'%s' cannot be the name of a kernel in %s", k->name,
                 p->dialect->name);
        return false;
    }
    p->names = cprint_names_new(p->arena, p->dialect);
    cprint_name(p, k->name);
    p->values = AU_NEW_ARRAY(p->arena, AuCValue, k->instr_count);
    p->mems = AU_NEW_ARRAY(p->arena, AuCMemory, k->mem_count);
    p->args = AU_NEW_ARRAY(p->arena, const char *, k->arg_count);
    p->executors = kernel_lanes_of(k, p->arena, AU_OF_BLOCK);
    cprint_survey(p);
    for (uint32_t n = 0; n < k->arg_count; n++) p->args[n] = cprint_name(p, k->args[n].name);
    for (uint32_t n = 1; n < k->mem_count; n++)
        p->mems[n].name = k->mems[n].space == AU_GLOBAL ? p->args[k->mems[n].arg]
                                                        : cprint_name(p, k->mems[n].name);
    for (uint32_t n = 1; n < k->mem_count; n++)
        if (p->mems[n].split) name_elements(p, n);

    cprint_line(p, "%s", "");
    if (k->banner) cprint_comment(p, k->banner);
    p->dialect->open(p);
    p->indent = 1;
    print_entry(p);
    p->indent = 0;
    print_region(p, k->body, 0);
    cprint_line(p, "}");
    return p->good;
}

bool cprint_kernels(AuArena *arena, AuDiags *diags, const AuCDialect *dialect,
                    AuKernel *const *kernels, uint32_t count, AuText *out)
{
    AuText bodies = {.arena = arena};
    bool good = true;
    for (uint32_t n = 0; n < count; n++) {
        AuCPrinter p = {.dialect = dialect,
                        .arena = arena,
                        .diags = diags,
                        .k = kernels[n],
                        .out = &bodies,
                        .good = true};
        good = print_kernel(&p) && good;
    }
    const char *text = au_text_str(&bodies);
    au_text_add(out, "%s%s%s", dialect->prelude, cprint_helpers(arena, dialect, text), text);
    return good;
}

bool cprint_target(AuArena *arena, AuDiags *diags, const AuCDialect *dialect,
                   AuKernel *const *kernels, uint32_t count, AuCodeStage stage, AuBlob *out)
{
    if (stage != AU_CODE_FINAL) {
        const AuSpan nowhere = {0};
        au_error(diags, AU_E0623, nowhere,
                 "target %s has neither LLVM IR nor assembly; it emits source text: %s",
                 dialect->target, dialect->stage);
        return false;
    }
    AuText text = {.arena = arena};
    if (!cprint_kernels(arena, diags, dialect, kernels, count, &text)) return false;
    *out = (AuBlob){au_text_str(&text), text.length};
    return true;
}
