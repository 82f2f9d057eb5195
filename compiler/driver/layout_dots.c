/* layout_dots.c - rows that further products read, dot(x[.., q_idx], y[.., kv_idx]), in a call with layouts. Rows of keys are keys: where they have the
 * batch they lie in pages, in rows of a cache, at some positions as k does (AuTensor.as_keys); packed rows are those of inputs (dsl/ir/layout.c). What
 * a kernel could not find there is refused by name. */
#include "layouts.h"

typedef struct Finder {
    AuArena *arena;
    AuDiags *diags;
    AuAttn *a;
    bool *is_reached; /* by what the attention computes */
    uint32_t node_count;
} Finder;

/* The leading indices of one side of a product. */
typedef struct Side {
    const AuNode *dot;
    bool of_keys;
    uint32_t tensor, first, count;
} Side;

static Side side_of(const AuAttn *a, uint32_t dot, bool of_keys)
{
    const AuNode *n = &a->nodes[dot];
    const uint32_t left = a->tensors[n->integer].rank - 1;
    return (Side){.dot = n,
                  .of_keys = of_keys,
                  .tensor = (uint32_t)(of_keys ? n->integer2 : n->integer),
                  .first = of_keys ? left : 0,
                  .count = of_keys ? n->count - left : left};
}

static const AuNode *index_of(const AuAttn *a, const Side *s, uint32_t axis)
{
    return attn_at(a, a->args[s->dot->first + s->first + axis]);
}

static bool is_index(const AuNode *n, AuAxisBit axis)
{
    return n->op == AU_OP_INDEX && n->integer == (int32_t)axis;
}

/* The axis that the rows lie along; as many as there are: none. */
static uint32_t row_axis(const AuAttn *a, const Side *s)
{
    uint32_t n = 0;
    while (n < s->count && !is_index(index_of(a, s, n), s->of_keys ? AU_AX_KV : AU_AX_Q)) n++;
    return n;
}

/* As many as there are: none. */
static uint32_t batch_axis(const AuAttn *a, const Side *s)
{
    uint32_t n = 0;
    while (n < s->count && a->tensors[s->tensor].axes[n].i != a->tensors[0].axes[0].i) n++;
    return n;
}

static bool is_axis_of(const AuAttn *a, const Side *s, uint32_t axis, uint32_t operand)
{
    return axis < s->count && a->tensors[s->tensor].axes[axis].i == a->tensors[operand].axes[2].i;
}

static Finder finder(AuArena *arena, AuDiags *diags, AuAttn *a)
{
    Finder f = {arena, diags, a, AU_NEW_ARRAY(arena, bool, a->node_count), a->node_count};
    AuRoot *roots;
    const uint32_t count = attn_roots(a, arena, &roots);
    for (uint32_t n = 0; n < count; n++) attn_mark(a, *roots[n].at, f.is_reached);
    return f;
}

static bool is_dot(const Finder *f, uint32_t node)
{
    return f->is_reached[node] && f->a->nodes[node].op == AU_OP_DOT;
}

void driver_find_key_rows(AuArena *arena, AuAttn *a)
{
    const Finder f = finder(arena, NULL, a);
    for (uint32_t i = 1; i < f.node_count; i++) {
        if (!is_dot(&f, i)) continue;
        const Side s = side_of(a, i, true);
        AuTensor *t = &a->tensors[s.tensor];
        if (s.tensor > 2 && is_axis_of(a, &s, row_axis(a, &s), 1) && batch_axis(a, &s) < s.count)
            t->as_keys = true;
    }
}

/* ---- what is refused */

static bool refuse(Finder *f, const Side *s, const char *why)
{
    const AuAttn *a = f->a;
    const bool of_keys = s->of_keys && a->keys.layout;
    static const char *const names[] = {"q", "k", "v"};
    const char *name = s->tensor < 3 ? names[s->tensor] : a->tensors[s->tensor].name;
    au_error(f->diags, AU_E0811, s->dot->span,
             "--layout: axis %s: '%s', of a further product (`dot`), %s",
             a->sizes[attn_at(a, a->tensors[of_keys].axes[2])->integer].name, name, why);
    return false;
}

/* q is the rows of queries, k those of keys, as they are passed. */
static bool operand_fits(Finder *f, const Side *s)
{
    if (s->tensor == 2) return refuse(f, s, "is no tensor of queries or keys");
    if ((s->tensor == 1) != s->of_keys)
        return refuse(f, s, "is read at rows of the other side, which lie elsewhere");
    return s->tensor != 1 || !f->a->keys.modified ||
           refuse(f, s,
                  "is the keys as they were before k_mod, which a cache of modified rows has not");
}

/* Rows begin where those of the sequence do. */
static bool packed_fits(Finder *f, const Side *s, uint32_t axis)
{
    const AuAttn *a = f->a;
    const AuInputPlace place = attn_input_place(a, s->tensor, axis);
    const bool packed = place == AU_PLACE_QUERIES || place == AU_PLACE_KEYS;
    if (place == AU_PLACE_ONE && !is_index(index_of(a, s, axis), AU_AX_B))
        return refuse(f, s, "has packed rows, and is read at another sequence than the pair's own");
    if (packed && axis != row_axis(a, s))
        return refuse(f, s, "has packed rows, and is read at one of them");
    return !packed || is_axis_of(a, s, axis, s->of_keys) ||
           refuse(f, s, "is read at rows of the other side, which lie elsewhere");
}

/* Do keys lie elsewhere than in rows of their own batch, one behind the other? */
static bool are_elsewhere(const AuAttn *a)
{
    return a->keys.layout == AU_LAYOUT_PAGED || a->keys.has_rows;
}

/* Rows that lie as k does are read as k is; where rows are some positions, others would need a row a position. */
static bool key_rows_fit(Finder *f, const Side *s)
{
    const AuAttn *a = f->a;
    const bool as_keys = a->tensors[s->tensor].as_keys;
    const uint32_t rows = row_axis(a, s), batch = batch_axis(a, s);
    if (!as_keys && s->of_keys && a->keys.has_positions)
        return refuse(f, s, "has a row for each position, of which keys have fewer");
    if (!as_keys || !are_elsewhere(a)) return true;
    if (!s->of_keys || !is_axis_of(a, s, rows, 1) || batch == s->count)
        return refuse(f, s, "lies as keys do, and is read otherwise, too");
    if (!is_index(index_of(a, s, batch), AU_AX_B))
        return refuse(f, s, "lies as keys do, and is read at another sequence than the pair's own");
    return batch < rows || a->keys.layout != AU_LAYOUT_PAGED ||
           refuse(f, s, "lies in pages, and its batch is no axis before that of its rows");
}

/* Rows of queries that a call has in another order. */
static bool query_rows_fit(Finder *f, const Side *s)
{
    return s->of_keys || !f->a->queries.has_rows || batch_axis(f->a, s) == s->count ||
           refuse(f, s,
                  "has rows of each sequence, which beside `rows` of queries are not carried yet");
}

static bool side_fits(Finder *f, uint32_t dot, bool of_keys)
{
    const Side s = side_of(f->a, dot, of_keys);
    if (s.tensor < 3) return operand_fits(f, &s);
    for (uint32_t n = 0; n < s.count; n++)
        if (!packed_fits(f, &s, n)) return false;
    return key_rows_fit(f, &s) && query_rows_fit(f, &s);
}

/* An element of such rows is read as one of another input would be. */
static bool is_read_apart(Finder *f, uint32_t node)
{
    const AuAttn *a = f->a;
    const AuNode *n = &a->nodes[node];
    if (!f->is_reached[node] || n->op != AU_OP_INPUT || !a->tensors[n->integer].as_keys ||
        !are_elsewhere(a))
        return false;
    const Side s = {.dot = n, .of_keys = true, .tensor = (uint32_t)n->integer};
    return !refuse(f, &s, "lies as keys do, and elements of it are read, too");
}

bool driver_dots_fit(AuArena *arena, AuDiags *diags, AuAttn *a)
{
    Finder f = finder(arena, diags, a);
    if (!attn_has_layout(a) && !a->keys.modified) return true;
    for (uint32_t i = 1; i < f.node_count; i++) {
        if (is_read_apart(&f, i)) return false;
        if (!is_dot(&f, i)) continue;
        for (int side = 0; side < 2; side++)
            if (!side_fits(&f, i, side)) return false;
    }
    return true;
}
