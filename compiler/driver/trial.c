/* trial.c - see trial.h. */
#include "trial.h"

#include "far.h"
#include "meaning.h"
#include "random.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

double *trial_normal(AuArena *arena, uint64_t elements, AuDtype dtype, uint64_t *random)
{
    double *values = AU_NEW_ARRAY(arena, double, elements + 1);
    for (uint64_t n = 0; n < elements; n++) {
        const double radius = sqrt(-2 * log(au_uniform(random) + 0x1p-60));
        values[n] = attn_round(radius * cos(6.283185307179586 * au_uniform(random)), dtype);
    }
    return values;
}

/* ---- numbers by name: "S=100,window=16" */

/* An item of the list, [length] characters, and its name's length. */
typedef struct Item {
    const char *at;
    size_t length, name;
} Item;

/* The item after [item], or the first; false: there is none. */
static bool next_item(const char *list, Item *item)
{
    const char *end = item->at + item->length;
    if (item->at && *end == 0) return false;
    item->at = item->at ? end + 1 : list;
    if (!item->at) return false;
    item->length = strcspn(item->at, ",");
    item->name = strcspn(item->at, "=,");
    return true;
}

static bool item_is(const Item *item, const char *name)
{
    return item->name > 0 && strlen(name) == item->name && memcmp(item->at, name, item->name) == 0;
}

/* What stands behind the name, as a whole number or any finite one. */
static bool number_of(const Item *item, bool is_whole, double *value)
{
    char text[64], *end = text;
    if (item->name + 1 >= item->length || item->length - item->name > sizeof text) return false;
    memcpy(text, item->at + item->name + 1, item->length - item->name - 1);
    text[item->length - item->name - 1] = 0;
    if (strchr(" \t\r\n\v\f", text[0])) return false; /* which the next skips */
    *value = strtod(text, &end);
    return *end == 0 && isfinite(*value) &&
           (!is_whole || (*value == floor(*value) && fabs(*value) <= 0x1p53));
}

static bool given(const char *list, const char *name, double *value)
{
    for (Item item = {0}; next_item(list, &item);)
        if (item_is(&item, name)) return number_of(&item, false, value);
    return false;
}

static bool fail_item(AuDiags *diags, const AuAttn *a, const Item *item, const char *expected)
{
    au_error(diags, AU_E0601, a->span, "'%.*s': expected %s", (int)item->length, item->at,
             expected);
    return false;
}

static bool item_is_good(AuDiags *diags, const AuAttn *a, const Item *item)
{
    double v;
    for (uint32_t n = 0; n < a->size_count; n++) {
        if (!item_is(item, a->sizes[n].name)) continue;
        if (!number_of(item, true, &v) || v < 0)
            return fail_item(diags, a, item, "a size, which is a whole number");
        return a->sizes[n].fixed < 0 || v == (double)a->sizes[n].fixed ||
               fail_item(diags, a, item, "another name: the script fixes this size");
    }
    for (uint32_t n = 0; n < a->param_count; n++)
        if (item_is(item, a->params[n].name))
            return number_of(item, a->params[n].dtype != AU_DT_F32, &v) ||
                   fail_item(diags, a, item, "a number of the parameter's type");
    au_error(diags, AU_E0601, a->span,
             "'%.*s' is no size or parameter of '%s'; expected NAME=number,NAME=number",
             (int)item->length, item->at, a->name);
    return false;
}

/* Whether each item names something of the attention, once, and gives it a number that it can have. */
static bool list_is_good(AuDiags *diags, const AuAttn *a, const char *list)
{
    for (Item item = {0}; next_item(list, &item);) {
        if (!item_is_good(diags, a, &item)) return false;
        for (Item before = {0}; next_item(list, &before) && before.at != item.at;)
            if (before.name == item.name && memcmp(before.at, item.at, item.name) == 0)
                return fail_item(diags, a, &item, "each name once");
    }
    return true;
}

/* Sizes of q, k and v by place where they are not given: whoever comes first. */
static void choose_sizes(const AuAttn *a, AuTrialKind kind, const char *list, int64_t *sizes,
                         bool *is_free)
{
    static const int64_t usual[][3][4] = {
        [AU_TRIAL_USUAL] = {{2, 4, 37, 64}, {2, 2, 53, 64}, {2, 2, 53, 64}},
        [AU_TRIAL_FEW] = {{1, 2, 3, 4}, {1, 1, 5, 4}, {1, 1, 5, 4}},
        [AU_TRIAL_LONG] = {{2, 4, 512, 64}, {2, 2, 512, 64}, {2, 2, 512, 64}},
        [AU_TRIAL_FAR] = {{2, 4, 37, 64}, {2, 2, 53, 64}, {2, 2, 53, 64}},
    };
    /* one length, values have the more heads and a width of their own */
    static const int64_t recurrent[][3][4] = {
        [AU_TRIAL_USUAL] = {{2, 2, 37, 64}, {2, 2, 37, 64}, {2, 4, 37, 48}},
        [AU_TRIAL_FEW] = {{1, 1, 5, 4}, {1, 1, 5, 4}, {1, 2, 5, 3}},
        [AU_TRIAL_LONG] = {{2, 2, 512, 64}, {2, 2, 512, 64}, {2, 4, 512, 48}},
        [AU_TRIAL_FAR] = {{2, 2, 37, 64}, {2, 2, 37, 64}, {2, 4, 37, 48}},
    };
    const int64_t(*choice)[4] = a->linear ? recurrent[kind] : usual[kind];
    for (uint32_t n = 0; n < a->size_count; n++) {
        double v;
        sizes[n] = a->sizes[n].fixed;
        is_free[n] = false;
        if (sizes[n] >= 0) continue;
        is_free[n] = kind == AU_TRIAL_FEW || !given(list, a->sizes[n].name, &v);
        if (!is_free[n]) sizes[n] = (int64_t)v;
    }
    for (uint32_t t = 0; t < 3; t++)
        for (uint32_t d = 0; d < 4; d++) {
            const AuNode *n = attn_at(a, a->tensors[t].axes[d]);
            if (n->op == AU_OP_SIZE && sizes[n->integer] < 0) sizes[n->integer] = choice[t][d];
        }
    for (uint32_t n = 0; n < a->size_count; n++)
        if (sizes[n] < 0) sizes[n] = 24;
}

static void choose_params(const AuAttn *a, const char *list, AuTrial *t)
{
    for (uint32_t n = 0; n < a->param_count; n++) {
        const AuParam *p = &a->params[n];
        double v;
        if (!given(list, p->name, &v))
            v = p->default_value.i       ? attn_scalar(a, p->default_value, t->sizes, t->params)
                : p->dtype == AU_DT_F32  ? 0.25
                : p->dtype == AU_DT_BOOL ? 1
                                         : 8;
        t->params[n] = attn_round(v, p->dtype == AU_DT_F32 ? AU_DT_F32 : AU_DT_OPERAND);
        t->params_i64[n] = (int64_t)v;
    }
}

/* ---- what the script requires: sizes that are not given move until it holds */

typedef struct Conditions {
    const AuTrial *trial;
    AuExpr *at; /* none of them an `and` */
    uint32_t count, capacity;
    bool *seen; /* of the graph's nodes: one that is shared stands there once */
} Conditions;

static void split(AuArena *arena, Conditions *c, AuExpr e)
{
    const AuAttn *a = c->trial->attn;
    if (c->seen[e.i]) return;
    c->seen[e.i] = true;
    if (attn_at(a, e)->op == AU_OP_AND) {
        split(arena, c, attn_arg(a, e, 0));
        split(arena, c, attn_arg(a, e, 1));
    } else
        AU_PUSH(arena, c->at, c->count, c->capacity, e);
}

static bool holds(const AuTrial *t, AuExpr e)
{
    return attn_scalar(t->attn, e, t->sizes, t->params) != 0;
}

/* Whether the first [count] hold. */
static bool all_hold(const Conditions *c, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++)
        if (!holds(c->trial, c->at[n])) return false;
    return true;
}

/* Makes condition [n] hold, and leaves those before it so: the nearest value of one size does it. */
static bool repair(const Conditions *c, uint32_t n, const bool *is_free, const bool *mark)
{
    enum { FARTHEST = 2048 };
    const AuTrial *t = c->trial;
    const AuAttn *a = t->attn;
    for (uint32_t i = 1; i < a->node_count; i++) {
        if (!mark[i] || a->nodes[i].op != AU_OP_SIZE || !is_free[a->nodes[i].integer]) continue;
        int64_t *size = &t->sizes[a->nodes[i].integer];
        const int64_t was = *size;
        for (int64_t off = 1; off < FARTHEST; off++)
            for (int sign = 1; sign >= -1; sign -= 2) {
                *size = was + sign * off;
                if (*size > 0 && all_hold(c, n + 1)) return true;
            }
        *size = was;
    }
    return false;
}

static void move_sizes(AuArena *arena, const AuTrial *t, const bool *is_free)
{
    const AuAttn *a = t->attn;
    Conditions c = {.trial = t, .seen = AU_NEW_ARRAY(arena, bool, a->node_count)};
    for (uint32_t n = 0; n < a->require_count; n++) split(arena, &c, a->requires[n].holds);
    for (uint32_t n = 0; n < c.count; n++) {
        if (holds(t, c.at[n])) continue;
        bool *mark = AU_NEW_ARRAY(arena, bool, a->node_count);
        attn_mark(a, c.at[n], mark);
        if (!repair(&c, n, is_free, mark)) return;
    }
}

static bool requires_hold(AuDiags *diags, const AuTrial *t)
{
    const AuAttn *a = t->attn;
    bool good = true;
    for (uint32_t n = 0; n < a->require_count; n++) {
        if (holds(t, a->requires[n].holds)) continue;
        au_error(diags, AU_E0605, a->requires[n].span,
                 "this does not hold for the sizes of the trial; give others, as S=128,T=128");
        good = false;
    }
    return good;
}

/* ---- tensors */

static bool is_integer(AuDtype d)
{
    return d == AU_DT_I32 || d == AU_DT_I64 || d == AU_DT_U8 || d == AU_DT_BOOL;
}

static double *rising(AuArena *arena, uint64_t elements, int64_t row, AuDtype dtype,
                      uint64_t *random)
{
    double *values = AU_NEW_ARRAY(arena, double, elements + 1), at = 0;
    for (uint64_t n = 0; n < elements; n++) {
        at = n % (uint64_t)(row > 0 ? row : 1) ? at + (au_uniform(random) < 0.06) : 0;
        values[n] = dtype == AU_DT_BOOL ? (double)(au_uniform(random) < 0.7) : at;
    }
    return values;
}

static bool make_tensor(AuArena *arena, AuDiags *diags, AuTrial *t, uint32_t n, AuDtype operand,
                        uint64_t *random)
{
    const AuAttn *a = t->attn;
    const AuTensor *tensor = &a->tensors[n];
    t->elements[n] = 1;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        const int64_t extent = (int64_t)attn_scalar(a, tensor->axes[d], t->sizes, t->params);
        if (extent < 0 || extent > 1 << 24 || t->elements[n] * (uint64_t)extent > 1u << 28) {
            au_error(diags, AU_E0605, tensor->span,
                     "axis %u of '%s' has the size %" PRId64
                     " in this trial; give others, as S=128",
                     d, tensor->name, extent);
            return false;
        }
        t->shapes[n][d] = extent;
        t->elements[n] *= (uint64_t)extent;
    }
    const AuDtype dtype = tensor->dtype == AU_DT_OPERAND ? operand : tensor->dtype;
    t->tensors[n] = is_integer(dtype)
                        ? rising(arena, t->elements[n],
                                 tensor->rank ? t->shapes[n][tensor->rank - 1] : 1, dtype, random)
                        : trial_normal(arena, t->elements[n], dtype, random);
    return true;
}

bool trial_make(AuArena *arena, AuDiags *diags, const AuAttn *attn, AuTrialKind kind,
                const char *values, AuDtype operand, uint64_t seed, AuTrial *out)
{
    uint64_t random = seed + 1;
    bool *is_free = AU_NEW_ARRAY(arena, bool, attn->size_count + 1);
    *out = (AuTrial){.attn = attn,
                     .sizes = AU_NEW_ARRAY(arena, int64_t, attn->size_count + 1),
                     .params = AU_NEW_ARRAY(arena, double, attn->param_count + 1),
                     .params_i64 = AU_NEW_ARRAY(arena, int64_t, attn->param_count + 1),
                     .tensors = AU_NEW_ARRAY(arena, double *, attn->tensor_count),
                     .elements = AU_NEW_ARRAY(arena, uint64_t, attn->tensor_count),
                     .shapes = au_alloc(arena, attn->tensor_count * sizeof *out->shapes)};
    if (!list_is_good(diags, attn, values)) return false;
    choose_sizes(attn, kind, values, out->sizes, is_free);
    choose_params(attn, values, out);
    move_sizes(arena, out, is_free);
    if (!requires_hold(diags, out)) return false;
    for (uint32_t n = 0; n < attn->tensor_count; n++)
        if (!make_tensor(arena, diags, out, n, operand, &random)) return false;
    return kind != AU_TRIAL_FAR || far_set(arena, diags, out, operand);
}

/* ---- one sequence of the trial */

/* Of an input's own sequence, and of nothing else, may an expression ask. */
static bool asks_for_number(const AuAttn *a)
{
    for (uint32_t i = 1; i < a->node_count; i++) {
        const AuNode *n = &a->nodes[i];
        if (n->op == AU_OP_DROPOUT) return true;
        for (uint32_t k = 0; k < n->count && n->op != AU_OP_DOT; k++) {
            const AuNode *index = attn_at(a, attn_arg(a, (AuExpr){i}, k));
            const bool is_own =
                n->op == AU_OP_INPUT && a->tensors[n->integer].axes[k].i == a->tensors[0].axes[0].i;
            if (index->op == AU_OP_INDEX && index->integer == AU_AX_B && !is_own) return true;
        }
    }
    return false;
}

/* False: it is a number that the script says, and another one. */
static bool set_size(AuTrial *t, AuExpr axis, int64_t value)
{
    const AuNode *n = attn_at(t->attn, axis);
    if (n->op == AU_OP_SIZE && t->attn->sizes[n->integer].fixed < 0) t->sizes[n->integer] = value;
    return (int64_t)attn_scalar(t->attn, axis, t->sizes, t->params) == value;
}

/* Element [n] of the part among those of the whole, which has this [shape]. */
static uint64_t whole_at(const AuTrial *t, uint32_t tensor, uint64_t n, const int64_t *shape,
                         int64_t b)
{
    const AuTensor *of = &t->attn->tensors[tensor];
    uint64_t at = 0, step = 1;
    for (uint32_t d = of->rank; d-- > 0; step *= (uint64_t)shape[d]) {
        const uint64_t extent = (uint64_t)t->shapes[tensor][d], index = n % extent;
        at += step * (of->axes[d].i == t->attn->tensors[0].axes[0].i ? (uint64_t)b : index);
        n /= extent;
    }
    return at;
}

static bool cut_tensor(AuArena *arena, AuTrial *t, uint32_t n, int64_t b)
{
    const AuTensor *tensor = &t->attn->tensors[n];
    const double *whole = t->tensors[n];
    int64_t shape[8];
    memcpy(shape, t->shapes[n], sizeof shape);
    t->elements[n] = 1;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        t->shapes[n][d] = (int64_t)attn_scalar(t->attn, tensor->axes[d], t->sizes, t->params);
        if (t->shapes[n][d] < 0 || t->shapes[n][d] > shape[d]) return false;
        t->elements[n] *= (uint64_t)t->shapes[n][d];
    }
    t->tensors[n] = AU_NEW_ARRAY(arena, double, t->elements[n] + 1);
    for (uint64_t i = 0; i < t->elements[n]; i++)
        t->tensors[n][i] = whole[whole_at(t, n, i, shape, b)];
    return true;
}

const char *trial_cut(AuArena *arena, AuTrial *t, int64_t b, int64_t queries, int64_t keys)
{
    const AuTensor *q = &t->attn->tensors[0], *k = &t->attn->tensors[1];
    if (asks_for_number(t->attn))
        return "the script asks for the number of a sequence, of which one by itself has another";
    if (b < 0 || b >= t->shapes[0][0] || queries < 0 || queries > t->shapes[0][2] || keys < 0 ||
        keys > t->shapes[1][2])
        return "there is no such sequence, or not so many rows";
    if (!set_size(t, q->axes[0], 1) || !set_size(t, q->axes[2], queries) ||
        !set_size(t, k->axes[2], keys) || !set_size(t, q->axes[2], queries))
        return "the script says how many sequences, queries or keys there are";
    for (uint32_t n = 0; n < t->attn->tensor_count; n++)
        if (!cut_tensor(arena, t, n, b)) return "an input of fewer rows has an axis that is longer";
    return NULL;
}

AuOracleCall trial_call(const AuTrial *t, const AuDiags *diags)
{
    return (AuOracleCall){.sizes = t->sizes,
                          .tensors = (const double *const *)t->tensors,
                          .params = t->params,
                          .params_i64 = t->params_i64,
                          .diags = diags};
}

double trial_largest(const double *values, uint64_t count)
{
    double largest = 0;
    for (uint64_t n = 0; n < count; n++)
        if (isfinite(values[n])) largest = fmax(largest, fabs(values[n]));
    return largest;
}
