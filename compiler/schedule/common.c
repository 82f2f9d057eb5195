/* common.c - what all schedules begin with. */
#include "rows.h"
#include "shapes.h"

bool schedule_values_apart(const AuProblem *p)
{
    return p->attn->v_in_k && (p->hooks->has_k_mod || p->hooks->has_v_mod);
}

bool schedule_joins_parts(const AuProblem *p) { return attn_derive_combine(p->attn); }

bool schedule_asks_data(const AuProblem *p)
{
    return p->hooks->needs_lists && !p->hooks->needs_most && !p->attn->keys.has_groups;
}

/* Of a cache all keys are read, by as many blocks as the machine has room for: a list of the tiles that data leave would be walked by one block a head. */
static bool is_over_cache(const AuProblem *p)
{
    const AuLayout keys = p->attn->keys.layout;
    return keys == AU_LAYOUT_PAGED || keys == AU_LAYOUT_PADDED;
}

const char *schedule_lists_refusal(const AuProblem *p)
{
    return schedule_asks_data(p) && !is_over_cache(p) ? "a mask that depends on data" : NULL;
}

/* Rows of keys that come beside those of K are the head's; of kernels for few queries none had them beside what else departs from plain calls. */
static const char *beside_dots_refusal(const AuProblem *p)
{
    if (p->attn->keys.has_groups) return "prefixes, and further products";
    if (p->attn->v_in_k) return "values that are channels of the keys, and further products";
    return schedule_asks_data(p) ? "a mask that depends on data, and further products" : NULL;
}

const char *schedule_shared_dots_refusal(const AuProblem *p)
{
    if (!p->hooks->dot_count) return NULL;
    for (uint32_t n = 0; n < p->hooks->dot_count; n++)
        if (lanes_dot_has_own_keys(p, n))
            return "rows of keys of further products that heads have for themselves";
    if (!attn_has_layout(p->attn)) return "further products of dense rows";
    return beside_dots_refusal(p);
}

/* Lists of tiles are those of matrix units; others ask a tile before they bring it. */
const char *schedule_few_refusal(const AuProblem *p)
{
    const AuTileAtom *atom = tile_best_atom(p->caps, p->operand, TILE_ON_WARP);
    const char *why = schedule_shared_dots_refusal(p);
    if (why || p->caps->has_private || !atom || atom->m == 1) return why;
    return schedule_lists_refusal(p);
}

bool schedule_has_value_heads(const AuAttn *a)
{
    return a->tensors[1].axes[1].i != a->tensors[2].axes[1].i;
}

const char *schedule_rows_refusal(const AuProblem *p)
{
    const AuAttn *a = p->attn;
    if (attn_is_packed(a) && !a->queries.says_most)
        return "packed rows, of which no call says how many a sequence has";
    return attn_is_packed(a) && a->tensors[0].axes[2].i == a->tensors[1].axes[2].i
               ? "packed rows that are queries and keys"
               : NULL;
}

const char *schedule_pages_refusal(const AuProblem *p)
{
    const bool paged = p->attn->keys.layout == AU_LAYOUT_PAGED;
    return paged != (p->queries == AU_PAGED_QUERIES) ? "keys in pages" : NULL;
}

AuMaskKind schedule_mask_kind(const AuProblem *p)
{
    if (!p->attn->mask.i) return AU_MASK_FULL;
    if (p->hooks->needs_lists) return AU_MASK_DATA;
    return p->hooks->range_begins ? AU_MASK_WINDOW : AU_MASK_CAUSAL;
}

/* Kernels that move boxes have variants by length (driver/builds.c); others are for any number of queries. */
AuLengthClass schedule_length_class(const AuProblem *p)
{
    if (!p->boxes || p->queries) return AU_LENGTH_ANY;
    return p->short_rows ? AU_LENGTH_SHORT : AU_LENGTH_LONG;
}

AuProblem schedule_problem_for(const AuProblem *p, AuQueries queries)
{
    AuProblem of = *p;
    of.queries = queries;
    return of;
}

AuSchedule *schedule_new(AuArena *arena, AuDiags *diags, const AuProblem *p, const char *name,
                         const AuShape *shape, const char *why)
{
    if (why) {
        au_error(diags, AU_E0811, p->attn->span, "%s on %s: %s", name, p->caps->name, why);
        return NULL;
    }
    AuSchedule *out = AU_NEW(arena, AuSchedule);
    out->shape = *shape;
    out->name = au_format(arena, "%s%s", shape_text(arena, name, shape), p->tf32 ? " # tf32" : "");
    return out;
}

/* Is the final what rounding took from another, u - (u + v) + v, where a row has a pair? */
static bool is_rest(const AuAttn *a, const AuFinal *rest)
{
    AuExpr e = rest->value;
    if (attn_at(a, e)->op == AU_OP_WHERE) e = attn_arg(a, e, 1);
    if (!rest->kept || attn_at(a, e)->op != AU_OP_ADD) return false;
    for (uint32_t n = 0; n < 2; n++) {
        const AuExpr difference = attn_arg(a, e, n), v = attn_arg(a, e, 1 - n);
        if (attn_at(a, difference)->op != AU_OP_SUB) continue;
        const AuExpr u = attn_arg(a, difference, 0), sum = attn_arg(a, difference, 1);
        if (sum.i == attn_find(a, AU_OP_ADD, u, v).i || sum.i == attn_find(a, AU_OP_ADD, v, u).i)
            return true;
    }
    return false;
}

/* Weights may be exp(score - y - z) of two finals, each of which counts. */
static bool has_parts(const AuAttn *a)
{
    uint32_t whole = 0;
    for (uint32_t n = 0; a->online && n < a->online->final_count; n++)
        whole += !is_rest(a, &a->online->finals[n]);
    return whole > 1;
}

AuTileBuild *schedule_begin(AuArena *arena, AuDiags *diags, const AuProblem *p,
                            const AuSchedule *out)
{
    AuTileBuild *t = tile_build(arena, diags, p->caps, out->name);
    const AuShape *s = &out->shape;
    if (s->product_rows) tile_set_option(t, "product_rows", s->product_rows);
    if (s->product_columns) tile_set_option(t, "product_columns", s->product_columns);
    if (s->swizzle_span) tile_set_option(t, "swizzle_span", s->swizzle_span);
    if (s->split_segments) tile_set_option(t, "split", 1);
    if (has_parts(p->attn)) tile_set_option(t, "parted", 1);
    if (s->lag) tile_set_option(t, "lag", s->lag);
    if (s->persistent) tile_set_option(t, "persistent", s->persistent);
    if (s->hints) tile_set_option(t, "hints", s->hints);
    if (s->matrix_stores) tile_set_option(t, "matrix_stores", 1);
    return t;
}
