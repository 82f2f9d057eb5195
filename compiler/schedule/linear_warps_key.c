/* linear_warps_key.c - feedback `key` by `linear_warps`: what is written is U instead of the values,
 *
 *     U = M R      R = w V - erase (K S) kept since the chunk's start      M = (1 - a)^-1, of linear_warps_inverse.c
 *
 * each warp for some columns of values, which lie along the rows of its products: so R, [e, q], is an operand where it was made, and nothing
 * is exchanged between S and U. M, R and U are two numbers an element, hi + lo, where they meet as operands: one is not enough where keys
 * are alike and strengths near 2. */
#include "linear_warps.h"

static const char *const halves[] = {"h", "l"};

/* Three products of four: lo lo is below what sums round. */
const char *lw_half(uint32_t product, bool of_b)
{
    static const char *const met[LINEAR_HALVES_MET][2] = {{"h", "h"}, {"h", "l"}, {"l", "h"}};
    return met[product][of_b];
}

/* Where the forward inverts, M lies where the factors were of which its pairs are made, if they are as wide. */
static bool is_in_levels(const LinearWarps *w) { return lw_inverts(w) && w->d >= w->l.chunk; }

const char *lw_inverse_view(LinearWarps *w, const char *half, const char *rows, const char *columns)
{
    AuTileBuild *t = w->l.x.t;
    if (is_in_levels(w))
        return tile_text(t, "%s[%d, %s, %s]", lw_in_turn(w) ? "M" : "N", *half == 'l', rows,
                         columns);
    return tile_text(t, "M%s[%s%s, %s]", half,
                     lw_inverts(w) || w->makes_inverse ? "" : warps_stage(&w->l.x, false), rows,
                     columns);
}

/* M of the chunk, as many as stages, and what others of the block read: U, [e, kv]. */
void lw_key_memories(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    for (uint32_t n = 0; n < 2; n++) {
        if (!is_in_levels(w))
            warps_tile(&l->x, TILE_NAME(tile_text(t, "M%s", halves[n])), "kv", l->chunk, "q",
                       l->chunk, lw_inverts(w) ? 1 : l->x.shape->stages);
        if (w->makes_inverse || w->without_values || (n && w->rounds_written)) continue;
        warps_tile(&l->x, TILE_NAME(tile_text(t, "U%s", halves[n])), "e", w->e, "kv", l->chunk, 1);
    }
}

void lw_key_declare(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    tile_frag(t, "right", "f32[e:%d, q:%d] @ %s.C%s", w->solved, l->chunk, atom,
              w->without_values ? " = 0.0" : "");
    tile_frag(t, "solved", "f32[e:%d, kv:%d] @ %s.C", w->solved, l->chunk, atom);
    tile_frag(t, "written", "%s[e:%d, q:%d] like right", l->x.operand, w->solved, l->chunk);
    tile_frag(t, "of_token", "f32[q:%d] like right", l->chunk);
    if (lw_is_own(w) && w->has_decayed && !w->without_values && lin_has(l, AU_SLOT_WRITE)) {
        tile_frag(t, "values", "%s[e:%d, kv:%d] @ %s.A", l->x.operand, w->solved, l->chunk, atom);
        tile_frag(t, "of_values", "f32[kv:%d] like values", l->chunk);
    }
    if (w->keeps_written || w->without_values)
        tile_frag(t, "of_solved", "f32[kv:%d] like solved", l->chunk);
}

/* Where lw_issue found the chunk's place. */
void lw_key_issue(LinearWarps *w, const char *stage)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *share = tile_text(t, "self * %d +: %d", w->share, w->share);
    for (uint32_t n = 0; n < 2; n++)
        warps_issue(&l->x, TILE_NAME(tile_text(t, "tm%s", halves[n])),
                    tile_part(t,
                              "inverses[b, h, place_brought, %u, %s from 0 to rows_brought, "
                              ":] as [kv, q]",
                              n, share),
                    tile_part(t, "M%s[%s%s, :]", halves[n], stage, share));
}

void lw_key_wait(LinearWarps *w)
{
    for (uint32_t n = 0; n < 2; n++) warps_wait(&w->l.x, tile_text(w->l.x.t, "tm%s", halves[n]));
}

/* Both halves of a fragment of f32, to memories NAMEh and NAMEl. */
void lw_store_halves(LinearWarps *w, const char *value, const char *memory, const char *view)
{
    AuTileBuild *t = w->l.x.t;
    const char *type = w->l.x.operand;
    tile_store(t, "%s(%s) -> %sh%s", type, value, memory, view);
    tile_store(t, "%s(%s - f32(%s(%s))) -> %sl%s", type, value, type, value, memory, view);
}

/* [acc] += [a] (NAMEh + NAMEl). */
void lw_add_halves(LinearWarps *w, const char *acc, const char *a, const char *memory,
                   const char *view)
{
    AuTileBuild *t = w->l.x.t;
    for (uint32_t n = 0; n < 2; n++)
        tile_product(t, acc, w->l.x.atom, TILE_ADD, a,
                     tile_text(t, "%s%s%s", memory, halves[n], view));
}

const char *lw_solved_columns(LinearWarps *w)
{
    if (w->e == w->solved) return tile_text(w->l.x.t, "0 +: %d", w->solved);
    return tile_text(w->l.x.t, "self * %d +: %d", w->solved, w->solved);
}

void lw_begin_solvers(LinearWarps *w)
{
    const int32_t solvers = w->e / w->solved;
    if (solvers < w->l.x.shape->executors) tile_if(w->l.x.t, "self < %d", solvers);
}

void lw_end_solvers(LinearWarps *w)
{
    if (w->e / w->solved < w->l.x.shape->executors) tile_end(w->l.x.t);
}

/* Where registers of sums are no operand, `right` passes through the memories, too. */
void lw_key_multiply(LinearWarps *w, const char *as, const char *to)
{
    lw_key_multiply_by(w, as, to, NULL, "");
}

void lw_key_multiply_by(LinearWarps *w, const char *as, const char *to, const char *kept,
                        const char *factor)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *type = l->x.operand, *columns = lw_solved_columns(w),
               *own = tile_text(t, "[%s, :] as [e, q]", columns),
               *all = tile_text(t, "0 +: %d", l->chunk);
    const char *rights[] = {
        tile_text(t, "%s(right)", type),
        tile_text(t, "%s(right - f32(%s(right)))", type, type),
    };
    if (l->x.via_shared) {
        const char *by = w->rounds_written ? "Y" : to;
        lw_store_halves(w, "right", by, own);
        for (uint32_t n = 0; n < 2; n++) rights[n] = tile_text(t, "%s%s%s", by, halves[n], own);
    }
    for (uint32_t n = 0; n < LINEAR_HALVES_MET; n++)
        tile_product(
            t, "solved", l->x.atom, n ? TILE_ADD : TILE_START, rights[*lw_half(n, false) == 'l'],
            tile_text(t, "%s as [%s]", lw_inverse_view(w, lw_half(n, true), ":", all), as));
    const char *result = tile_text(t, "[%s, :] as [e, kv]", columns);
    if (kept)
        tile_store(t, "%s(solved) -> %s[b, h, place, vb * %d + %s, :] as [e, kv] clip", type, kept,
                   w->e, columns);
    if (*factor) tile_set(t, "solved", "solved%s", factor);
    if (w->rounds_written && *to == 'U')
        tile_store(t, "%s(solved) -> Uh%s", type, result);
    else
        lw_store_halves(w, "solved", to, result);
}

/* R, of the warp's columns. */
static void right_side(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *stage = warps_stage(&l->x, false), *strength = "", *kept = "",
               *columns = lw_solved_columns(w);
    tile_product(t, "right", l->x.atom, TILE_START, tile_text(t, "S[:, %s]", columns),
                 tile_text(t, "%s[%s:, :] as [q, d]", lw_by_channel(w) ? "Ks" : "K",
                           lw_inverts(w) ? "" : stage));
    if (l->n->decay == AU_DECAY_SCALAR) {
        tile_load(t, "of_token", "G[%d +: %d] as [q]", w->has_since, l->chunk);
        tile_set(t, "right", "right * exp(of_token)");
    } else if (l->n->decay == AU_DECAY_CONSTANT)
        kept = tile_text(t, " * exp(f32(iota(q:%d) + 1) * rate)", l->chunk);
    tile_load(t, "of_token", "E[:] as [q]");
    tile_set(t, "right", "right * of_token%s", kept);
    tile_load(t, "written", "V[%s:, %s] as [q, e]", stage, columns);
    if (lin_has(l, AU_SLOT_WRITE)) {
        tile_load(t, "of_token", "W[:] as [q]");
        strength = " * of_token";
    }
    tile_set(t, "right", "%s - right",
             lw_values_of_end(w, tile_text(t, "f32(written)%s", strength)));
}

/* What is written keeps until the chunk's end. */
static const char *until(LinearWarps *w)
{
    Linear *l = &w->l;
    if (lw_is_own(w)) return ""; /* b is as it is kept */
    if (l->n->decay == AU_DECAY_CONSTANT)
        return tile_text(l->x.t, " * exp(f32(max(count - 1 - iota(kv:%d), 0)) * rate)", l->chunk);
    if (l->n->decay != AU_DECAY_SCALAR) return "";
    tile_load(l->x.t, "of_solved", "G[%d +: %d]", w->has_since, l->chunk);
    tile_load(l->x.t, "total", "G[%d]", w->has_since + l->chunk - 1);
    return " * exp(total - of_solved)";
}

void lw_key_solve(LinearWarps *w)
{
    lw_begin_solvers(w);
    lw_is_own(w) ? lw_own_right(w) : right_side(w);
    if (w->keeps_written)
        lw_key_multiply_by(w, "kv, q", "U", "updates", until(w));
    else
        lw_key_multiply(w, "kv, q", "U");
    lw_end_solvers(w);
}
