/* calls_expr.c - launch expressions as LLVM IR: the postfix code on a stack of values. */
#include "calls_ir.h"

#include <string.h>

typedef enum Gives { SAME, TRUTH } Gives;

/* An operation on integers and on floats; NULL: not defined. DIV, MOD and what takes several
 * instructions is written out below. */
typedef struct Row {
    const char *on_int, *on_float;
    uint32_t arity;
    Gives gives;
} Row;

// clang-format off
static const Row rows[] = {
    [AULE_E_ADD]  = {"add i64 %s, %s",                           "fadd double %s, %s",                       2, SAME},
    [AULE_E_SUB]  = {"sub i64 %s, %s",                           "fsub double %s, %s",                       2, SAME},
    [AULE_E_MUL]  = {"mul i64 %s, %s",                           "fmul double %s, %s",                       2, SAME},
    [AULE_E_DIV]  = {"call i64 @divide(i64 %s, i64 %s)",         "fdiv double %s, %s",                       2, SAME},
    [AULE_E_MOD]  = {"call i64 @modulo(i64 %s, i64 %s)",         "call double @modulo_float(double %s, double %s)", 2, SAME},
    [AULE_E_NEG]  = {"sub i64 0, %s",                            "fneg double %s",                           1, SAME},
    [AULE_E_MIN]  = {"call i64 @llvm.smin.i64(i64 %s, i64 %s)",  "call double @least(double %s, double %s)", 2, SAME},
    [AULE_E_MAX]  = {"call i64 @llvm.smax.i64(i64 %s, i64 %s)",  "call double @most(double %s, double %s)",  2, SAME},
    [AULE_E_ABS]  = {"call i64 @llvm.abs.i64(i64 %s, i1 false)", "call double @llvm.fabs.f64(double %s)",    1, SAME},
    [AULE_E_LT]   = {"icmp slt i64 %s, %s",                      "fcmp olt double %s, %s",                   2, TRUTH},
    [AULE_E_LE]   = {"icmp sle i64 %s, %s",                      "fcmp ole double %s, %s",                   2, TRUTH},
    [AULE_E_EQ]   = {"icmp eq i64 %s, %s",                       "fcmp oeq double %s, %s",                   2, TRUTH},
    [AULE_E_NE]   = {"icmp ne i64 %s, %s",                       "fcmp une double %s, %s",                   2, TRUTH},
    [AULE_E_AND]  = {"call i1 @both(i64 %s, i64 %s)",            NULL,                                       2, TRUTH},
    [AULE_E_OR]   = {"call i1 @either(i64 %s, i64 %s)",          NULL,                                       2, TRUTH},
    [AULE_E_NOT]  = {"icmp eq i64 %s, 0",                        NULL,                                       1, TRUTH},
    [AULE_E_FLOOR] = {NULL, "call double @floor(double %s)",          1, SAME},
    [AULE_E_CEIL]  = {NULL, "call double @ceil(double %s)",           1, SAME},
    [AULE_E_SQRT]  = {NULL, "call double @llvm.sqrt.f64(double %s)",  1, SAME},
    [AULE_E_RSQRT] = {NULL, "call double @inverse_root(double %s)",   1, SAME},
    [AULE_E_EXP]   = {NULL, "call double @exp(double %s)",            1, SAME},
    [AULE_E_EXP2]  = {NULL, "call double @exp2(double %s)",           1, SAME},
    [AULE_E_LOG]   = {NULL, "call double @log(double %s)",            1, SAME},
    [AULE_E_LOG2]  = {NULL, "call double @log2(double %s)",           1, SAME},
    [AULE_E_POW]   = {NULL, "call double @pow(double %s, double %s)", 2, SAME},
    [AULE_E_TANH]  = {NULL, "call double @tanh(double %s)",           1, SAME},
    [AULE_E_SIN]   = {NULL, "call double @sin(double %s)",            1, SAME},
    [AULE_E_COS]   = {NULL, "call double @cos(double %s)",            1, SAME},
};
// clang-format on
enum { ROWS = sizeof rows / sizeof *rows, STACK = 64 };

typedef struct Machine {
    AuCalls *c;
    AuCallValue at[STACK];
    uint32_t depth;
    const char *wrong;
} Machine;

static const AuCallValue none = {"0", false};

/* Descriptors come from our own writer; what is not well formed is refused all the same. */
static AuCallValue refuse(Machine *m)
{
    if (!m->c->failed)
        au_error(m->c->diags, AU_E0812, (AuSpan){0},
                 "a launch expression of '%s' is not well formed", m->c->a->name);
    m->c->failed = true;
    return none;
}

static AuCallValue pop(Machine *m) { return m->depth ? m->at[--m->depth] : refuse(m); }

static void push(Machine *m, const char *name, bool is_float)
{
    if (m->depth == STACK)
        refuse(m);
    else
        m->at[m->depth++] = (AuCallValue){name, is_float};
}

/* Zero is put right, so that nothing traps, and remembered. */
static const char *divisor(Machine *m, AuCallValue by)
{
    if (by.is_float || (by.name[0] != '%' && strcmp(by.name, "0") != 0)) return by.name;
    const char *zero = calls_value(m->c, "icmp eq i64 %s, 0", by.name);
    m->wrong = calls_value(m->c, "or i1 %s, %s", m->wrong, zero);
    return calls_value(m->c, "select i1 %s, i64 1, i64 %s", zero, by.name);
}

static void choose(Machine *m)
{
    const AuCallValue no = pop(m), yes = pop(m), c = pop(m);
    const char *type = yes.is_float ? "double" : "i64";
    if (c.is_float || yes.is_float != no.is_float) refuse(m);
    const char *holds = calls_value(m->c, "icmp ne i64 %s, 0", c.name);
    push(m, calls_value(m->c, "select i1 %s, %s %s, %s %s", holds, type, yes.name, type, no.name),
         yes.is_float);
}

static void convert(Machine *m, bool to_float)
{
    const AuCallValue v = pop(m);
    if (v.is_float == to_float)
        push(m, v.name, to_float);
    else if (to_float)
        push(m, calls_value(m->c, "sitofp i64 %s to double", v.name), true);
    else
        push(m, calls_value(m->c, "call i64 @llvm.fptosi.sat.i64.f64(double %s)", v.name), false);
}

static void compute(Machine *m, uint32_t op)
{
    const Row *row = op < ROWS ? &rows[op] : &rows[0];
    const AuCallValue b = row->arity == 2 ? pop(m) : none, a = pop(m);
    const char *format = a.is_float ? row->on_float : row->on_int;
    if (!format || (row->arity == 2 && a.is_float != b.is_float)) {
        refuse(m);
        return;
    }
    const bool divides = op == AULE_E_DIV || op == AULE_E_MOD;
    const char *second = divides ? divisor(m, b) : b.name;
    AuText text = {.arena = m->c->arena};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    au_text_add(&text, format, a.name, second); /* an operand too many is ignored */
#pragma GCC diagnostic pop
    const char *r = calls_value(m->c, "%s", au_text_str(&text));
    if (row->gives == TRUTH) r = calls_value(m->c, "zext i1 %s to i64", r);
    push(m, r, row->gives == SAME && a.is_float);
}

static void operate(Machine *m, uint32_t op)
{
    if (op == AULE_E_SELECT)
        choose(m);
    else if (op == AULE_E_TO_FLOAT || op == AULE_E_TO_INT)
        convert(m, op == AULE_E_TO_FLOAT);
    else
        compute(m, op);
}

static void constant(Machine *m, uint32_t op, const uint32_t *words)
{
    const uint64_t bits = words[0] | (uint64_t)words[1] << 32;
    if (op == AULE_E_CONST_INT)
        push(m, au_format(m->c->arena, "%lld", (long long)bits), false);
    else /* LLVM writes doubles as their bits */
        push(m, au_format(m->c->arena, "0x%016llX", (unsigned long long)bits), true);
}

static void param(Machine *m, uint32_t index)
{
    const bool is_float = m->c->a->params[index].dtype == AULE_F32;
    const char *bits = calls_load(m->c, m->c->param_at + index);
    push(m, is_float ? calls_value(m->c, "bitcast i64 %s to double", bits) : bits, is_float);
}

AuCallValue calls_expr(AuCalls *c, const aule_expr *e, const char **wrong)
{
    Machine m = {.c = c, .wrong = "false"};
    for (uint32_t at = 0; at < e->length && !c->failed; at++) {
        const uint32_t op = e->code[at] & 255u, operand = e->code[at] >> 8;
        if (op >= AULE_E_ADD)
            operate(&m, op);
        else if ((op == AULE_E_CONST_INT || op == AULE_E_CONST_FLOAT) && e->length - at >= 3) {
            constant(&m, op, e->code + at + 1);
            at += 2;
        } else if (op == AULE_E_SIZE && operand < c->a->size_count)
            push(&m, calls_load(c, operand), false);
        else if (op == AULE_E_PARAM && operand < c->a->param_count)
            param(&m, operand);
        else if (op == AULE_E_PROCESSORS)
            push(&m, "2147483647", false);
        else
            refuse(&m);
    }
    if (m.depth != 1) return refuse(&m);
    *wrong = m.wrong;
    return m.at[0];
}

const char *calls_count(AuCalls *c, const aule_expr *e, const char *what)
{
    const char *wrong = "false";
    const AuCallValue v = calls_expr(c, e, &wrong);
    if (strcmp(wrong, "false") != 0) {
        const char *right = calls_value(c, "xor i1 %s, true", wrong);
        calls_check(c, right, "%s: %s divides by zero", c->a->name, what);
    }
    return v.name;
}
