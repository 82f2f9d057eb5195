#include "expr.h"

#include <math.h>
#include <stdio.h>

#include "descriptor.h"

enum { STACK = 64 };

typedef struct Machine {
    aule_value at[STACK];
    uint32_t depth;
} Machine;

static bool divide_floor(int64_t a, int64_t b, int64_t *r)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    *r = a / b - (a % b != 0 && (a < 0) != (b < 0));
    return true;
}

static bool modulo_floor(int64_t a, int64_t b, int64_t *r)
{
    if (b == 0) return false;
    if (b == -1) return *r = 0, true; /* INT64_MIN % -1 traps */
    *r = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
    return true;
}

static const char not_formed[] = "is not well formed";
static const char bad_types[] = "mixes integers and floats";

/* One row of expr.def on the values a and b (b is a, where the arity is 1). */
static const char *apply_int(uint32_t op, int64_t a, int64_t b, aule_value *out)
{
    int64_t r = 0;
    bool fine = false;
    switch (op) {
#define NEVER false
#define EOP(name, arity, result, int_code, float_code)                                             \
    case AULE_E_##name:                                                                            \
        fine = int_code;                                                                           \
        break;
#include "expr.def"
#undef NEVER
    }
    *out = (aule_value){.type = AULE_VALUE_INT, .i = r};
    if (fine) return NULL;
    if (op >= AULE_E_FLOOR) return bad_types;
    return (op == AULE_E_DIV || op == AULE_E_MOD) && b == 0 ? "divides by zero" : "leaves 64 bits";
}

static const char *apply_float(uint32_t op, double a, double b, aule_value *out)
{
    bool to_int = false;
    double value = 0;
    if ((op == AULE_E_DIV || op == AULE_E_MOD) && b == 0) return "divides by zero";
    if (op == AULE_E_AND || op == AULE_E_OR || op == AULE_E_NOT) return bad_types;
    switch (op) {
#define NEVER 0
#define SAME  false
#define INT   true
#define EOP(name, arity, result, int_code, float_code)                                             \
    case AULE_E_##name:                                                                            \
        value = float_code;                                                                        \
        to_int = result;                                                                           \
        break;
#include "expr.def"
#undef NEVER
#undef SAME
#undef INT
    }
    *out = to_int ? (aule_value){.type = AULE_VALUE_INT, .i = (int64_t)value}
                  : (aule_value){.type = AULE_VALUE_FLOAT, .f = value};
    return NULL;
}

static uint32_t arity_of(uint32_t op) /* 0: not an operation of the table */
{
    // clang-format off
    switch (op) {
#define EOP(name, arity, result, int_code, float_code) case AULE_E_##name: return arity;
#include "expr.def"
    }
    // clang-format on
    return 0;
}

static const char *convert(uint32_t op, aule_value *top)
{
    if (op == AULE_E_TO_FLOAT) {
        if (top->type == AULE_VALUE_INT)
            *top = (aule_value){.type = AULE_VALUE_FLOAT, .f = (double)top->i};
        return NULL;
    }
    if (top->type == AULE_VALUE_INT) return NULL;
    double whole = trunc(top->f);
    if (!(whole >= -0x1p63 && whole < 0x1p63)) return "leaves 64 bits";
    *top = (aule_value){.type = AULE_VALUE_INT, .i = (int64_t)whole};
    return NULL;
}

static const char *select_value(Machine *m)
{
    if (m->depth < 3) return not_formed;
    aule_value *c = &m->at[m->depth - 3];
    if (c[0].type != AULE_VALUE_INT || c[1].type != c[2].type) return bad_types;
    c[0] = c[0].i ? c[1] : c[2];
    m->depth -= 2;
    return NULL;
}

static const char *operate(Machine *m, uint32_t op)
{
    if (op == AULE_E_SELECT) return select_value(m);
    if (op == AULE_E_TO_FLOAT || op == AULE_E_TO_INT)
        return m->depth == 0 ? not_formed : convert(op, &m->at[m->depth - 1]);
    uint32_t arity = arity_of(op);
    if (arity == 0 || m->depth < arity) return not_formed;
    m->depth -= arity - 1;
    aule_value *a = &m->at[m->depth - 1], b = a[arity - 1];
    if (a->type != b.type) return bad_types;
    return a->type == AULE_VALUE_INT ? apply_int(op, a->i, b.i, a) : apply_float(op, a->f, b.f, a);
}

/* The constant in the two words after a CONST. */
static aule_value constant(const uint32_t *words, uint32_t op)
{
    uint64_t bits = words[0] | (uint64_t)words[1] << 32;
    aule_value value = {.type = op == AULE_E_CONST_INT ? AULE_VALUE_INT : AULE_VALUE_FLOAT};
    if (op == AULE_E_CONST_INT)
        memcpy(&value.i, &bits, sizeof bits);
    else
        memcpy(&value.f, &bits, sizeof bits);
    return value;
}

const char *rt_evaluate(const aule_expr *expr, const AuEnv *env, aule_value *value)
{
    Machine m;
    m.depth = 0;
    if (!expr->code) return not_formed;
    for (uint32_t at = 0; at < expr->length; at++) {
        uint32_t op = expr->code[at] & 255u, operand = expr->code[at] >> 8;
        if (op >= AULE_E_ADD) {
            const char *wrong = operate(&m, op);
            if (wrong) return wrong;
            continue;
        }
        if (m.depth == STACK) return not_formed;
        if (op == AULE_E_CONST_INT || op == AULE_E_CONST_FLOAT) {
            if (expr->length - at < 3) return not_formed;
            m.at[m.depth++] = constant(expr->code + at + 1, op);
            at += 2;
        } else if (op == AULE_E_SIZE && operand < env->size_count) {
            m.at[m.depth++] = (aule_value){.type = AULE_VALUE_INT, .i = env->sizes[operand]};
        } else if (op == AULE_E_PARAM && operand < env->param_count) {
            m.at[m.depth++] = env->params[operand];
        } else if (op == AULE_E_PROCESSORS) {
            const int64_t many = env->processors ? env->processors : INT32_MAX;
            m.at[m.depth++] = (aule_value){.type = AULE_VALUE_INT, .i = many};
        } else {
            return not_formed;
        }
    }
    if (m.depth != 1) return not_formed;
    *value = m.at[0];
    return NULL;
}

bool rt_expr_lacks_size(const aule_expr *expr, const AuEnv *env)
{
    for (uint32_t at = 0; at < expr->length; at++) {
        const uint32_t op = expr->code[at] & 255u, operand = expr->code[at] >> 8;
        if (op == AULE_E_CONST_INT || op == AULE_E_CONST_FLOAT) at += 2;
        if (op == AULE_E_SIZE && operand < env->size_count && env->sizes[operand] < 0) return true;
    }
    return false;
}

bool rt_expr_has_size(const aule_expr *expr, uint32_t size)
{
    for (uint32_t at = 0; at < expr->length; at++) {
        const uint32_t op = expr->code[at] & 255u;
        if (op == AULE_E_CONST_INT || op == AULE_E_CONST_FLOAT) at += 2;
        if (op == AULE_E_SIZE && expr->code[at] >> 8 == size) return true;
    }
    return false;
}

int32_t rt_expr_size(const aule_expr *expr)
{
    return expr->length == 1 && (expr->code[0] & 255u) == AULE_E_SIZE
               ? (int32_t)(expr->code[0] >> 8)
               : -1;
}

int32_t rt_expr_part_of(const aule_expr *expr, int64_t *parts)
{
    enum { SIZE, CONST, LOW, HIGH, QUOTIENT, LENGTH };
    if (expr->length != LENGTH || (expr->code[SIZE] & 255u) != AULE_E_SIZE ||
        expr->code[CONST] != AULE_E_CONST_INT || expr->code[QUOTIENT] != AULE_E_DIV)
        return -1;
    *parts = constant(expr->code + LOW, AULE_E_CONST_INT).i;
    return (int32_t)(expr->code[SIZE] >> 8);
}

void rt_value_text(AuText *text, const aule_value *value)
{
    if (value->type == AULE_VALUE_INT)
        rt_text_add(text, "%lld", (long long)value->i);
    else
        rt_text_add(text, "%.9g", value->f);
}

/* How an operation is written: between its operands where it has a sign, else as a function. */
static const char *sign_of(uint32_t op)
{
    static const char *const signs[] = {"+", "-", "*", "/", "%"};
    return op >= AULE_E_ADD && op <= AULE_E_MOD ? signs[op - AULE_E_ADD] : NULL;
}

static const char *function_of(uint32_t op)
{
    switch (op) {
    case AULE_E_MIN: return "min";
    case AULE_E_MAX: return "max";
    case AULE_E_TO_FLOAT: return "to_f32";
    case AULE_E_SQRT: return "sqrt";
    case AULE_E_RSQRT: return "rsqrt";
    default: return NULL;
    }
}

enum { WORDS = 64, PLACES = 8 }; /* what is longer, or deeper, is not for people */

typedef struct Written {
    char at[PLACES][WORDS];
    uint32_t depth;
} Written;

static bool write_value(Written *w, const aule_expr *expr, uint32_t at, const aule_attention_v1 *a)
{
    const uint32_t op = expr->code[at] & 255u, operand = expr->code[at] >> 8;
    if (w->depth == PLACES) return false;
    char *to = w->at[w->depth++];
    int length = 0;
    if (op == AULE_E_SIZE && operand < a->size_count)
        length = snprintf(to, WORDS, "%s", a->sizes[operand].name);
    else if (op == AULE_E_PARAM && operand < a->param_count)
        length = snprintf(to, WORDS, "%s", rt_param(a, operand)->name);
    else if ((op == AULE_E_CONST_INT || op == AULE_E_CONST_FLOAT) && expr->length - at >= 3) {
        const aule_value value = constant(expr->code + at + 1, op);
        length = op == AULE_E_CONST_INT ? snprintf(to, WORDS, "%lld", (long long)value.i)
                                        : snprintf(to, WORDS, "%.9g", value.f);
    }
    return length > 0 && length < WORDS;
}

static bool write_operation(Written *w, uint32_t op, bool last)
{
    const char *sign = sign_of(op), *function = function_of(op);
    const uint32_t arity = op == AULE_E_TO_FLOAT ? 1 : arity_of(op);
    if ((!sign && !function) || w->depth < arity) return false;
    char *a = w->at[w->depth - arity], text[WORDS];
    const char *b = w->at[w->depth - 1];
    int length;
    if (sign)
        length = snprintf(text, WORDS, last ? "%s %s %s" : "(%s %s %s)", a, sign, b);
    else if (arity == 1)
        length = snprintf(text, WORDS, "%s(%s)", function, a);
    else
        length = snprintf(text, WORDS, "%s(%s, %s)", function, a, b);
    if (length >= WORDS) return false;
    memcpy(a, text, (size_t)length + 1);
    w->depth -= arity - 1;
    return true;
}

void rt_expr_text(AuText *text, const aule_expr *expr, const aule_attention_v1 *attention)
{
    Written w;
    w.depth = 0;
    bool fine = expr->code != NULL;
    for (uint32_t at = 0; fine && at < expr->length; at++) {
        const uint32_t op = expr->code[at] & 255u;
        fine = op >= AULE_E_ADD ? write_operation(&w, op, at + 1 == expr->length)
                                : write_value(&w, expr, at, attention);
        if (op == AULE_E_CONST_INT || op == AULE_E_CONST_FLOAT) at += 2;
    }
    rt_text_add(text, "%s", fine && w.depth == 1 ? w.at[0] : "computed");
}

void rt_expr_names(AuText *text, const aule_expr *expr, const aule_attention_v1 *attention,
                   const AuEnv *env)
{
    uint64_t seen_sizes = 0, seen_params = 0;
    const char *separator = "";
    for (uint32_t at = 0; at < expr->length; at++) {
        uint32_t op = expr->code[at] & 255u, operand = expr->code[at] >> 8;
        if (op == AULE_E_CONST_INT || op == AULE_E_CONST_FLOAT) at += 2;
        bool size = op == AULE_E_SIZE && operand < env->size_count;
        bool param = op == AULE_E_PARAM && operand < env->param_count;
        uint64_t *seen = size ? &seen_sizes : &seen_params, bit = 1ull << (operand & 63);
        if ((!size && !param) || (*seen & bit)) continue;
        *seen |= bit;
        aule_value value = size ? (aule_value){.i = env->sizes[operand]} : env->params[operand];
        rt_text_add(text, "%s%s = ", separator,
                    size ? attention->sizes[operand].name : rt_param(attention, operand)->name);
        rt_value_text(text, &value);
        separator = ", ";
    }
}

aule_status aule_evaluate(const aule_expr *expr, const int64_t *sizes, size_t size_count,
                          const aule_value *params, size_t param_count, aule_value *value,
                          aule_error **error)
{
    AuSink sink = {rt_memory(NULL), error};
    if (!expr || !value)
        return rt_fail(sink, AULE_ERROR_USAGE, "aule_evaluate: expr and value must not be NULL");
    AuEnv env = {sizes, params, sizes ? size_count : 0, params ? param_count : 0, 0};
    const char *wrong = rt_evaluate(expr, &env, value);
    if (!wrong) return AULE_OK;
    bool formed = wrong != not_formed && wrong != bad_types;
    return rt_fail(sink, formed ? AULE_ERROR_REQUIRE : AULE_ERROR_ARTIFACT, "the expression %s",
                   wrong);
}
