/* print_expr.c - the text form of expressions of the attention IR. */
#include "printer.h"

static void print_args(Printer *p, const AuNode *n, uint32_t first, uint32_t end)
{
    for (uint32_t k = first; k < end; k++) {
        if (k > first) au_text_add(p->out, ", ");
        printer_expr(p, p->a->args[n->first + k], 0);
    }
}

static void print_read(Printer *p, const AuNode *n, int32_t tensor, uint32_t first, uint32_t end)
{
    au_text_add(p->out, "%s[", p->a->tensors[tensor].name);
    print_args(p, n, first, end);
    au_text_add(p->out, "]");
}

void printer_size(Printer *p, int32_t i)
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
    case AU_OP_SIZE: printer_size(p, n->integer); break;
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
        printer_expr(p, args[0], infix.precedence);
        au_text_add(p->out, " %s ", infix.symbol);
        printer_expr(p, args[1], infix.precedence + 1);
        if (infix.precedence < precedence) au_text_add(p->out, ")");
        return;
    }
    const bool is_sign = n->op == AU_OP_NEG && !is_number(attn_at(p->a, args[0]));
    if (is_sign || n->op == AU_OP_NOT || n->op == AU_OP_BNOT) {
        au_text_add(p->out, is_sign ? "-" : n->op == AU_OP_NOT ? "!" : "~");
        printer_expr(p, args[0], 11);
        return;
    }
    print_call(p, n, attn_op_info((AuOp)n->op)->text);
}

void printer_expr(Printer *p, AuExpr e, int precedence)
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
