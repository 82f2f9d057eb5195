/* print.c - the text form of the attention IR (docs/dev/attention-ir.md).
 * Each place is a block: `$n = ...` for what is used more than once there or stands too deep, then
 * the value, so that the printer never recurses deeper than LEVELS, whatever the graph. */
#include "attn.h"

#include <string.h>

enum { LEVELS = 24, BUDGET = 64 };

typedef struct Printer {
    const AuAttn *a;
    AuText *out;
    AuArena *scratch;
    uint32_t indent;
    uint32_t budget; /* nodes that may still be written, then "..."; 0: any number */
    /* one entry a node */
    uint32_t *let; /* number of its let in the present block; 0: written in place */
    uint32_t *uses, *height;
    bool *mark;
} Printer;

static Printer printer(const AuAttn *a, AuText *out)
{
    Printer p = {.a = a, .out = out, .scratch = out->arena, .indent = 1};
    p.let = AU_NEW_ARRAY(p.scratch, uint32_t, a->node_count);
    p.uses = AU_NEW_ARRAY(p.scratch, uint32_t, a->node_count);
    p.height = AU_NEW_ARRAY(p.scratch, uint32_t, a->node_count);
    p.mark = AU_NEW_ARRAY(p.scratch, bool, a->node_count);
    return p;
}

static const char *dtype_text(AuDtype dtype)
{
    static const char *const texts[] = {"operand", "f32", "f16", "bf16",
                                        "i32",     "i64", "u8",  "bool"};
    return texts[dtype];
}

/* ---- expressions */

static void print_expr(Printer *p, AuExpr e, int precedence);

static void print_args(Printer *p, const AuNode *n, uint32_t first, uint32_t end)
{
    for (uint32_t k = first; k < end; k++) {
        if (k > first) au_text_add(p->out, ", ");
        print_expr(p, p->a->args[n->first + k], 0);
    }
}

static void print_read(Printer *p, const AuNode *n, int32_t tensor, uint32_t first, uint32_t end)
{
    au_text_add(p->out, "%s[", p->a->tensors[tensor].name);
    print_args(p, n, first, end);
    au_text_add(p->out, "]");
}

static void print_size(Printer *p, int32_t i)
{
    const char *name = p->a->sizes[i].name;
    if (attn_is_name(name))
        au_text_add(p->out, "%s", name);
    else
        au_text_add(p->out, "#%d", i);
}

static void print_index(Printer *p, int32_t axis)
{
    au_text_add(p->out, "%s",
                axis == AU_AX_B    ? "b"
                : axis == AU_AX_H  ? "h"
                : axis == AU_AX_Q  ? "q_idx"
                : axis == AU_AX_KV ? "kv_idx"
                : axis == AU_AX_C  ? "$c"
                                   : "$t");
}

/* A tensor of a recurrence, with the axes it has: `gate{b, h, t}`. */
static void print_tensor(Printer *p, const AuNode *n)
{
    static const struct {
        uint8_t axis;
        const char *text;
    } axes[] = {{AU_AX_B, "b"}, {AU_AX_H, "h"}, {AU_AX_TOK, "t"}, {AU_AX_K, "k"}, {AU_AX_V, "v"}};
    const char *comma = "";
    au_text_add(p->out, "%s{", p->a->tensors[n->integer].name);
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        if (!(n->axes & axes[i].axis)) continue;
        au_text_add(p->out, "%s%s", comma, axes[i].text);
        comma = ", ";
    }
    au_text_add(p->out, "}");
}

static void print_seed_word(Printer *p, const AuNode *n)
{
    const AuAttn *a = p->a;
    if (n->integer2 >= 0)
        au_text_add(p->out, "seed_word(%d, %s)", n->integer, a->params[n->integer2].name);
    else
        au_text_add(p->out, "seed_word(%d, %s[])", n->integer, a->tensors[~n->integer2].name);
}

static void print_call(Printer *p, const AuNode *n, const char *name)
{
    au_text_add(p->out, "%s(", name);
    print_args(p, n, 0, n->count);
    au_text_add(p->out, ")");
}

/* The ops above the table in attn.h. */
static void print_leaf(Printer *p, const AuNode *n)
{
    const AuAttn *a = p->a;
    const AuOnline *o = a->online;
    switch ((AuOp)n->op) {
    case AU_OP_F32: au_text_number(p->out, n->number); break;
    case AU_OP_I32:
        if (n->type == AU_T_BOOL)
            au_text_add(p->out, n->integer ? "true" : "false");
        else
            au_text_add(p->out, "%d", n->integer);
        break;
    case AU_OP_SIZE: print_size(p, n->integer); break;
    case AU_OP_INDEX: print_index(p, n->integer); break;
    case AU_OP_KV_H: au_text_add(p->out, "kv_h"); break;
    case AU_OP_PARAM: au_text_add(p->out, "%s", a->params[n->integer].name); break;
    case AU_OP_INPUT: print_read(p, n, n->integer, 0, n->count); break;
    case AU_OP_SCORE: au_text_add(p->out, "$score"); break;
    case AU_OP_WEIGHT: au_text_add(p->out, "$p"); break;
    case AU_OP_DWEIGHT: au_text_add(p->out, "$dp"); break;
    case AU_OP_ELEMENT: au_text_add(p->out, "$x"); break;
    case AU_OP_STATE: au_text_add(p->out, "state.%s", o->scales[n->integer].name); break;
    case AU_OP_STATE_B: au_text_add(p->out, "other.%s", o->scales[n->integer].name); break;
    case AU_OP_FINAL: au_text_add(p->out, "final.%s", o->finals[n->integer].name); break;
    case AU_OP_DELTA: au_text_add(p->out, "$delta"); break;
    case AU_OP_DFINAL: au_text_add(p->out, "dfinal.%s", o->finals[n->integer].name); break;
    case AU_OP_ADJOINT: au_text_add(p->out, "adjoint.%s", o->finals[n->integer].name); break;
    case AU_OP_PASS: au_text_add(p->out, "$pass%d", n->integer); break;
    case AU_OP_DELEMENT: au_text_add(p->out, "$dx"); break;
    case AU_OP_TENSOR: print_tensor(p, n); break;
    case AU_OP_DOT: {
        const uint32_t left = a->tensors[n->integer].rank - 1;
        au_text_add(p->out, "dot(");
        print_read(p, n, n->integer, 0, left);
        au_text_add(p->out, ", ");
        print_read(p, n, n->integer2, left, n->count);
        au_text_add(p->out, ")");
        break;
    }
    case AU_OP_ROPE: print_call(p, n, n->integer ? "rope_interleaved" : "rope"); break;
    case AU_OP_SEED_WORD: print_seed_word(p, n); break;
    case AU_OP_ROWMAX:
    case AU_OP_ROWSUM:
    case AU_OP_ROW_SUM_C:
    case AU_OP_DROPOUT: print_call(p, n, attn_op_info((AuOp)n->op)->text); break;
    case AU_NO_OP:
    case AU_OP_COUNT: break;
#define OP(NAME, text, count, rule, flags, meaning) case AU_OP_##NAME:
#include "ops.def"
#undef OP
        break;
    }
}

typedef struct Infix {
    const char *symbol;
    int precedence;
} Infix;

static Infix infix_of(uint8_t op)
{
    switch (op) {
#define INFIX(NAME, symbol, precedence)                                                            \
    case AU_OP_##NAME:                                                                             \
        return (Infix){symbol, precedence};
#include "infix.def"
#undef INFIX
    }
    return (Infix){NULL, 0};
}

static bool is_number(const AuNode *n) { return n->op == AU_OP_F32 || n->op == AU_OP_I32; }

static void print_operation(Printer *p, const AuNode *n, int precedence)
{
    const AuExpr *args = p->a->args + n->first;
    const Infix infix = infix_of(n->op);
    if (infix.symbol) {
        if (infix.precedence < precedence) au_text_add(p->out, "(");
        print_expr(p, args[0], infix.precedence);
        au_text_add(p->out, " %s ", infix.symbol);
        print_expr(p, args[1], infix.precedence + 1);
        if (infix.precedence < precedence) au_text_add(p->out, ")");
        return;
    }
    const bool is_sign = n->op == AU_OP_NEG && !is_number(attn_at(p->a, args[0]));
    if (is_sign || n->op == AU_OP_NOT || n->op == AU_OP_BNOT) {
        au_text_add(p->out, is_sign ? "-" : n->op == AU_OP_NOT ? "!" : "~");
        print_expr(p, args[0], 11);
        return;
    }
    print_call(p, n, attn_op_info((AuOp)n->op)->text);
}

static void print_expr(Printer *p, AuExpr e, int precedence)
{
    const AuNode *n = attn_at(p->a, e);
    if (p->budget && --p->budget == 0) {
        au_text_add(p->out, "...");
        p->budget = 1; /* and so is whatever comes after it */
        return;
    }
    if (p->let[e.i])
        au_text_add(p->out, "$%u", p->let[e.i]);
    else if (attn_op_info((AuOp)n->op)->rule == AU_RULE_LEAF)
        print_leaf(p, n);
    else
        print_operation(p, n, precedence);
}

/* ---- blocks */

static void line(Printer *p) { au_text_add(p->out, "\n%*s", (int)(4 * p->indent), ""); }

/* Numbers the nodes of the block that get a let: used more than once, or LEVELS deep. Returns how
 * many. */
static uint32_t number_lets(Printer *p, const AuExpr *roots, uint32_t count)
{
    const AuAttn *a = p->a;
    bool *mark = p->mark;
    uint32_t *uses = p->uses, *height = p->height;
    uint32_t lets = 0, top = 0;
    memset(mark, 0, a->node_count * sizeof *mark);
    memset(uses, 0, a->node_count * sizeof *uses);
    memset(height, 0, a->node_count * sizeof *height);
    memset(p->let, 0, a->node_count * sizeof *p->let);
    for (uint32_t i = 0; i < count; i++) {
        attn_mark(a, roots[i], mark);
        uses[roots[i].i]++;
        if (roots[i].i > top) top = roots[i].i;
    }
    for (uint32_t i = 1; i <= top; i++)
        for (uint32_t k = 0; mark[i] && k < a->nodes[i].count; k++)
            uses[a->args[a->nodes[i].first + k].i]++;
    for (uint32_t i = 1; i <= top; i++) {
        const AuNode *n = &a->nodes[i];
        if (!mark[i] || n->count == 0) continue;
        for (uint32_t k = 0; k < n->count; k++) {
            const uint32_t below = height[a->args[n->first + k].i] + 1;
            if (below > height[i]) height[i] = below;
        }
        if (uses[i] < 2 && height[i] < LEVELS) continue;
        p->let[i] = ++lets;
        height[i] = 0;
    }
    return lets;
}

static void print_lets(Printer *p)
{
    for (uint32_t i = 1; i < p->a->node_count; i++) {
        const uint32_t number = p->let[i];
        if (!number) continue;
        line(p);
        au_text_add(p->out, "$%u = ", number);
        p->let[i] = 0; /* its own text, not its name */
        print_expr(p, (AuExpr){i}, 0);
        p->let[i] = number;
    }
}

static void print_list(Printer *p, const AuExpr *roots, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        au_text_add(p->out, i ? ", " : "");
        print_expr(p, roots[i], 0);
    }
}

/* `head = value`, or `head {` lets and `return` values `}`. */
static void print_value(Printer *p, const char *head, const AuExpr *roots, uint32_t count)
{
    if (!roots[0].i) return;
    const uint32_t lets = number_lets(p, roots, count);
    line(p);
    au_text_add(p->out, "%s%s", head, lets ? " {" : " = ");
    if (!lets) {
        print_list(p, roots, count);
        return;
    }
    p->indent++;
    print_lets(p);
    line(p);
    au_text_add(p->out, "return ");
    print_list(p, roots, count);
    p->indent--;
    line(p);
    au_text_add(p->out, "}");
}

typedef struct Assignment {
    const char *name;
    AuExpr value;
} Assignment;

/* `head {` lets, assignments, `return` values `}`. */
static void print_clause(Printer *p, const char *head, const Assignment *set, uint32_t set_count,
                         const AuExpr *values, uint32_t count)
{
    AuExpr *roots = AU_NEW_ARRAY(p->scratch, AuExpr, set_count + count);
    for (uint32_t i = 0; i < set_count; i++) roots[i] = set[i].value;
    for (uint32_t i = 0; i < count; i++) roots[set_count + i] = values[i];
    number_lets(p, roots, set_count + count);
    line(p);
    au_text_add(p->out, "%s {", head);
    p->indent++;
    print_lets(p);
    for (uint32_t i = 0; i < set_count; i++) {
        line(p);
        au_text_add(p->out, "%s = ", set[i].name);
        print_expr(p, set[i].value, 0);
    }
    line(p);
    au_text_add(p->out, "return ");
    print_list(p, values, count);
    p->indent--;
    line(p);
    au_text_add(p->out, "}");
}

/* ---- sections */

static void print_declaration(Printer *p, const AuTensor *t)
{
    static const char *const roles[] = {"query", "key", "value", "input"};
    const AuAttn *a = p->a;
    number_lets(p, t->axes, t->rank);
    print_lets(p);
    line(p);
    au_text_add(p->out, "%s %s", roles[t->role], t->name);
    if (t->role == AU_ROLE_V && a->v_in_k) au_text_add(p->out, " = %d:%d", a->v_first, a->v_last);
    au_text_add(p->out, ": %s[", dtype_text(t->dtype));
    print_list(p, t->axes, t->rank);
    au_text_add(p->out, t->grad ? "] grad" : "]");
}

static void print_declarations(Printer *p)
{
    const AuAttn *a = p->a;
    for (uint32_t i = 0; i < a->size_count; i++) {
        line(p);
        au_text_add(p->out, "size ");
        print_size(p, (int32_t)i);
        if (a->sizes[i].fixed >= 0) au_text_add(p->out, " = %lld", (long long)a->sizes[i].fixed);
    }
    for (uint32_t i = 0; i < a->param_count; i++) {
        const AuParam *m = &a->params[i];
        char *head = au_format(p->scratch, "param %s: %s", m->name, dtype_text(m->dtype));
        if (m->default_value.i) {
            print_value(p, head, &m->default_value, 1);
            continue;
        }
        line(p);
        au_text_add(p->out, "%s", head);
    }
    for (uint32_t i = 0; i < a->tensor_count; i++) print_declaration(p, &a->tensors[i]);
    for (uint32_t i = 0; i < a->require_count; i++) print_value(p, "require", &a->requires[i], 1);
}

static void print_online(Printer *p, const AuOnline *o)
{
    const uint32_t scales = o->scale_count, finals = o->final_count;
    Assignment *set = AU_NEW_ARRAY(p->scratch, Assignment, scales + finals);
    line(p);
    au_text_add(p->out, "online %s {", o->name);
    p->indent++;
    for (uint32_t i = 0; i < scales; i++)
        print_value(p, au_format(p->scratch, "rowscale %s", o->scales[i].name), &o->scales[i].start,
                    1);
    for (uint32_t i = 0; i < finals; i++) {
        line(p);
        au_text_add(p->out, "%s %s", o->finals[i].kept ? "kept" : "final", o->finals[i].name);
    }
    for (uint32_t i = 0; i < scales; i++)
        set[i] = (Assignment){o->scales[i].name, o->scales[i].next};
    print_clause(p, "online_fwd", set, scales, (AuExpr[]){o->weight, o->rescale}, 2);
    for (uint32_t i = 0; i < finals; i++)
        set[i] = (Assignment){o->finals[i].name, o->finals[i].value};
    print_clause(p, "epilogue", set, finals, &o->epilogue, 1);
    print_value(p, "forward", &o->forward, 1);
    print_value(p, "backward", &o->backward, 1);
    if (o->has_combine) {
        for (uint32_t i = 0; i < scales; i++)
            set[i] = (Assignment){o->scales[i].name, o->scales[i].combined};
        print_clause(p, o->combine_derived ? "combine derived" : "combine", set, scales,
                     (AuExpr[]){o->combine_a, o->combine_b}, 2);
    }
    p->indent--;
    line(p);
    au_text_add(p->out, "}");
}

static void print_linear(Printer *p, const AuLinear *l)
{
    line(p);
    au_text_add(p->out, "linear {");
    p->indent++;
    print_value(p, "q", &l->q, 1);
    print_value(p, "k", &l->k, 1);
    print_value(p, "v", &l->v, 1);
    print_value(p, "decay", &l->decay, 1);
    print_value(p, "erase", &l->erase, 1);
    print_value(p, "write", &l->write, 1);
    print_value(p, "bonus", &l->bonus, 1);
    print_value(p, "norm", &l->norm, 1);
    print_value(p, "skip", &l->skip, 1);
    print_value(p, "lowrank", (AuExpr[]){l->lowrank_a, l->lowrank_b}, 2);
    if (l->read_before) {
        line(p);
        au_text_add(p->out, "read before");
    }
    p->indent--;
    line(p);
    au_text_add(p->out, "}");
}

void attn_print(const AuAttn *a, AuText *out)
{
    Printer p = printer(a, out);
    au_text_add(out, "attention %s {", a->name);
    print_declarations(&p);
    print_value(&p, "q_mod", &a->q_mod, 1);
    print_value(&p, "k_mod", &a->k_mod, 1);
    print_value(&p, "v_mod", &a->v_mod, 1);
    print_value(&p, "score_mod", &a->score_mod, 1);
    print_value(&p, "mask", &a->mask, 1);
    print_value(&p, "weight_mod", &a->weight_mod, 1);
    if (a->online) print_online(&p, a->online);
    if (a->linear) print_linear(&p, a->linear);
    print_value(&p, "out_mod", &a->out_mod, 1);
    au_text_add(out, "\n}\n");
}

void attn_print_value(const AuAttn *a, const char *head, const AuExpr *roots, uint32_t count,
                      AuText *out)
{
    Printer p = printer(a, out);
    print_value(&p, head, roots, count);
}

void attn_print_expr(const AuAttn *a, AuExpr e, AuText *out)
{
    Printer p = printer(a, out);
    p.budget = BUDGET;
    if (e.i) print_expr(&p, e, 0);
}
