/* linear_warps_key_back.c - gradients with feedback `key` by `linear_warps_backward`. With U and M of linear_warps_key.c, P = A(q, k),
 * T the gradient of the state behind the chunk, and e = -erase:
 *
 *     dU = P' dO + (K T) until        y = M' dU
 *     dV = y w        Z = e (y U') kept, where j < i        de = y . (K S) since + rowsum(y U' A(k, k))
 *     dK += (U T') until + Z K + Z' K + e (y S') since        T += (e K since)' y
 *
 * No derivative of M is formed. y is two numbers an element, U one here: no sum goes on from it. Z lies where M of the chunk was. */
#include "linear_warps.h"

static const char *const halves[] = {"h", "l"};

/* By a number a token at most: what decays by channels comes as it is kept. */
static bool decays(const LinearBack *b) { return lin_decays(&b->w.l) && !lw_by_channel(&b->w); }
static bool by_token(const LinearBack *b)
{
    return lin_decays_by_token(&b->w.l) && !lw_by_channel(&b->w);
}

void lw_key_back_memories(LinearBack *b)
{
    Linear *l = &b->w.l;
    warps_tile(&l->x, TILE_NAME("Yh"), "e", b->w.e, "kv", l->chunk, 1);
    warps_tile(&l->x, TILE_NAME("Yl"), "e", b->w.e, "kv", l->chunk, 1);
}

void lw_key_back_declare(LinearBack *b)
{
    AuTileBuild *t = b->w.l.x.t;
    const char *atom = b->w.l.x.atom->name;
    tile_frag(t, "at_end", "f32[kv:%d, d:%d] @ %s.C", LINEAR_ROWS, b->key_columns, atom);
    tile_frag(t, "erase", "f32[q:%d] like score", LINEAR_ROWS);
    tile_frag(t, "erase_of_row", "f32[kv:%d] like dx", LINEAR_ROWS);
    tile_frag(t, "erase_of_column", "f32[q:%d] like column", b->w.l.chunk);
}

/* Each executor for some columns of values, without waiting for others. */
void lw_key_back_right(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *columns = lw_solved_columns(w), *stage = warps_stage(&l->x, false);
    tile_product(t, "right", l->x.atom, TILE_START, tile_text(t, "T[:, %s]", columns),
                 tile_text(t, "%s[%s:, :] as [q, d]", lw_fed_writers(w), stage));
    if (by_token(b)) {
        tile_load(t, "of_token", "G[%d +: %d] as [q]", w->has_since, l->chunk);
        tile_set(t, "right", "right * exp(total - of_token)");
    } else if (decays(b))
        tile_set(t, "right", "right * exp(f32(max(count - 1 - iota(q:%d), 0)) * rate)", l->chunk);
}

void lw_key_back_solve(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const LinearKept *kept = lw_kept_of_chain(w);
    tile_product(
        t, "right", l->x.atom, TILE_ADD,
        tile_text(t, "D[%s:, %s] as [kv, e]", warps_stage(&l->x, false), lw_solved_columns(w)),
        kept ? tile_text(t, "%s[%s:, :] as [kv, q]", kept->memory, warps_stage(&l->x, false))
             : "P[:, :] as [kv, q]");
    if (!w->without_values) {
        lw_key_multiply(w, "q, kv", "Y");
        return;
    }
    const char *since =
        decays(b) ? tile_text(t, " * exp(f32(iota(kv:%d) + 1) * rate)", l->chunk) : "";
    if (by_token(b)) {
        tile_load(t, "of_solved", "G[0 +: %d]", l->chunk);
        since = " * exp(of_solved)";
    }
    const char *factor = "";
    if (lin_is_fed(l)) {
        tile_load(t, "erase_of_solved", "E[:] as [kv]");
        factor = tile_text(t, " * -erase_of_solved%s", since);
    }
    lw_key_multiply_by(w, "q, kv", "Y", "solutions", factor);
}

/* Those of keys with keys before: `score` is y U', `dscore` their products. */
void lw_key_back_pairs(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t rows = LINEAR_ROWS;
    const char *row = lw_row(w), *kept = "", *stage = warps_stage(&l->x, false);
    if (!b->is_apart) tile_if(t, "self < %d", w->row_groups);
    for (uint32_t n = 0; n < 2u - b->is_apart; n++)
        tile_product(t, "score", l->x.atom, n ? TILE_ADD : TILE_START,
                     tile_text(t, "Y%s[:, %s +: %d] as [e, q]", halves[n], row, rows), "Uh[:, :]");
    tile_product(t, "dscore", l->x.atom, TILE_START,
                 tile_text(t, "K[%s%s +: %d, :] as [q, d]", stage, row, rows),
                 tile_text(t, "K[%s:, :]", stage));
    tile_set(t, "i", "%s + iota(q:%d)", row, rows);
    tile_set(t, "j", "iota(kv:%d)", l->chunk);
    if (by_token(b)) {
        tile_load(t, "since", "G[%d + %s +: %d] as [q]", w->has_since, row, rows);
        tile_load(t, "at_writer", "G[%d +: %d]", w->has_since, l->chunk);
        kept = " * exp(where(j < i, since - at_writer, -inf))";
    } else if (decays(b))
        kept = " * exp(f32(i - j) * rate)";
    tile_load(t, "erase", "E[%s +: %d] as [q]", row, rows);
    tile_set(t, "score", "where(j < i, score%s, 0.0)", kept);
    tile_set(t, "dscore", "where(j < i, score * dscore, 0.0)");
    tile_set(t, "of_erase", "reduce_sum(dscore, kv)");
    tile_store(t, "of_erase -> Erases[0, %s +: %d] as [q]", row, rows);
    if (b->has_rate) {
        tile_set(t, "dscore", "-erase * dscore");
        tile_set(t, "dscore", "cumsum(dscore, kv)");
        tile_set(t, "crossing", "reduce_sum(where(j < i, dscore, 0.0), q)");
        tile_store(t, "crossing -> Crossing[%s, :]",
                   b->is_apart ? tile_text(t, "%d + self %% %d", w->row_groups, w->row_groups)
                               : tile_text(t, "%d + self", w->row_groups));
    }
    tile_store(t, "%s(-erase * score) -> %s%s +: %d, :] as [q, kv]", l->x.operand,
               b->is_apart ? "Z[" : tile_text(t, "Mh[%s", stage), row, rows);
    if (!b->is_apart) tile_end(t);
}

void lw_key_back_rows(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *columns = tile_text(t, "%s +: %d", lw_key_column(b), b->key_columns),
               *stage = warps_stage(&l->x, false);
    for (uint32_t n = 0; n < 2; n++)
        tile_product(t, "dx", l->x.atom, n ? TILE_ADD : TILE_START,
                     tile_text(t, "Y%s[:, %s +: %d]", halves[n], lw_row(w), LINEAR_ROWS),
                     tile_text(t, "S[%s, :]", columns));
    const char *kept = lw_kept_of_rows(b, false, "of_dx");
    tile_load(t, "erase_of_row", "E[%s +: %d]", lw_row(w), LINEAR_ROWS);
    tile_set(t, "dx", "dx * -erase_of_row%s", kept);
    lw_gates_of_rows(b, "dx", true, true);
    tile_product(t, "at_end", l->x.atom, TILE_START,
                 tile_text(t, "Uh[:, %s +: %d]", lw_row(w), LINEAR_ROWS),
                 tile_text(t, "T[%s, :]", columns));
    kept = lw_kept_of_rows(b, true, "of_dx");
    if (*kept) tile_set(t, "at_end", "at_end%s", kept);
    lw_gates_of_rows(b, "at_end", true, false);
    tile_set(t, "dx", "dx + at_end");
    tile_product(t, "dx", l->x.atom, TILE_ADD,
                 tile_text(t, "Mh[%s%s +: %d, :] as [kv, q]", stage, lw_row(w), LINEAR_ROWS),
                 tile_text(t, "K[%s:, %s] as [q, d]", stage, columns));
    tile_product(t, "dx", l->x.atom, TILE_ADD,
                 tile_text(t, "Mh[%s:, %s +: %d] as [q, kv]", stage, lw_row(w), LINEAR_ROWS),
                 tile_text(t, "K[%s:, %s] as [q, d]", stage, columns));
}

void lw_key_back_values(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *columns = tile_text(t, "%s +: %d", lw_value_column(b), b->value_columns),
               *own = tile_text(t, "[%s, %s +: %d]", columns, lw_row(w), LINEAR_ROWS);
    tile_frag(t, "of_state", "f32[kv:%d, e:%d] @ %s.C", LINEAR_ROWS, b->value_columns,
              l->x.atom->name);
    for (uint32_t n = 0; n < 2; n++) {
        const char *half = tile_text(t, "y_%s", halves[n]);
        tile_frag(t, half, "%s[kv:%d, e:%d] like dvalue", l->x.operand, LINEAR_ROWS,
                  b->value_columns);
        tile_load(t, half, "Y%s%s", halves[n], own);
    }
    tile_set(t, "dvalue", "f32(y_h) + f32(y_l)");
    tile_product(t, "of_state", l->x.atom, TILE_START, tile_text(t, "K[%s, :]", lw_own_rows(b)),
                 tile_text(t, "S[:, %s]", columns));
    const char *kept = lw_kept_of_rows(b, false, "of_value");
    tile_set(t, "of_erase_row", "reduce_sum(of_state * dvalue%s, e)", kept);
    tile_store(t, "of_erase_row -> Erases[1 + self / %d, %s +: %d]", w->row_groups, lw_row(w),
               LINEAR_ROWS);
}

void lw_key_back_state(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *kept = !decays(b)    ? ""
                       : by_token(b) ? " * exp(since_start)"
                                     : tile_text(t, " * exp(f32(iota(q:%d) + 1) * rate)", l->chunk);
    tile_load(t, "column", "K[%s:, %s +: %d] as [q, d]", warps_stage(&l->x, false), lw_state_row(w),
              w->channels);
    tile_load(t, "erase_of_column", "E[:] as [q]");
    tile_set(t, "column", "%s(f32(column) * -erase_of_column%s)", l->x.operand, kept);
    for (uint32_t n = 0; n < 2; n++)
        tile_product(
            t, "dstate", l->x.atom, TILE_ADD, "column",
            tile_text(t, "Y%s[%s +: %d, :] as [e, q]", halves[n], lw_state_column(w), w->columns));
}
