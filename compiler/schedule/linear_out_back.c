/* linear_out_back.c - recurrences, backward: what comes behind the read of the state (norm, skip, out_mod), from the gradient of
 * the output in `do` to that of what q reads, in the memory `D`, and of the sums of a norm, in `Dsums`. Of a chunk at a time, a token a
 * lane. */
#include "linear.h"

bool lin_needs_output(const Linear *l) { return l->has_norm || l->x.p->hooks->has_out_mod; }

static bool has_epilogue(const Linear *l)
{
    return lin_needs_output(l) || lin_has(l, AU_SLOT_SKIP);
}

static LinearRows skip_of(const Linear *l)
{
    LinearRows r = lin_rows(l, AU_SLOT_SKIP);
    r.tokens = "kv";
    return r;
}

void lin_out_back_memory(Linear *l)
{
    const LinearRows skip = skip_of(l);
    const int32_t lanes = l->x.p->caps->lanes, e = l->x.p->e;
    lin_memory(l, "D", tile_text(l->x.t, "f32[kv:%d, e:%d]", l->chunk, e));
    if (lin_has(l, AU_SLOT_SKIP)) lin_rows_memory(l, &skip);
    if (lin_needs_output(l))
        lin_memory(
            l, "O",
            tile_text(l->x.t, "f32[kv:%d, e:%d]", l->chunk, (e + lanes - 1) / lanes * lanes));
    if (!l->has_norm) return;
    lin_memory(l, "Sums", tile_text(l->x.t, "f32[kv:%d, n:%d]", l->chunk, lanes));
    lin_memory(l, "Dsums", tile_text(l->x.t, "f32[kv:%d]", l->chunk));
}

void lin_out_back_declare(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const LinearRows skip = skip_of(l);
    const int32_t e = l->x.p->e, spread = l->spread;
    if (!has_epilogue(l)) return;
    tile_frag(t, "given", "%s[e:%d, kv:%d] @ a_token_a_lane", l->x.operand, e, spread);
    tile_frag(t, "row", "f32[kv:%d] @ along_lanes = 0.0", spread);
    if (lin_needs_output(l))
        tile_frag(t, "kept_out", "f32[e:%d, kv:%d] @ a_token_a_lane", e, spread);
    if (lin_has(l, AU_SLOT_SKIP)) {
        lin_rows_declare(l, &skip);
        lin_rows_back_declare(l, &skip);
        tile_frag(t, "skipped", "f32[e:%d, kv:%d] @ a_token_a_lane", e, spread);
    }
    if (l->has_norm) tile_frag(t, "sums", "f32[kv:%d] @ along_lanes", spread);
}

bool lin_has_dsum(const Linear *l)
{
    const AuExpr sum = l->x.p->grads->normal->sum;
    const AuNode *node = l->has_norm ? attn_at(l->x.p->attn, sum) : NULL;
    return node && !(node->op == AU_OP_F32 && node->number == 0);
}

void lin_norm_back(Linear *l, const char *dnorm)
{
    AuTileBuild *t = l->x.t;
    const AuInputGrads *in = &l->x.p->grads->normal->slot[AU_SLOT_NORM];
    const char *values = lin_value_names(l, in, "Norm");
    tile_set(t, "dnorm", "%s", dnorm);
    tile_set(t, tile_text(t, "dsum%s%s", *values ? ", " : "", values),
             "%s(sums, dnorm, b, h, t, 0)", l->slots[AU_SLOT_NORM].back);
    lin_add_gradients(l, in, "Norm", "");
}

static void norm_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    lin_norm_back(l, "-reduce_sum(change * kept_out, e) / (norms * norms)");
    tile_store(t, "%s -> Dsums%s", lin_guarded(l, "kv", "dsum"),
               l->spread == l->chunk ? "" : tile_text(t, "[0 +: %d] clip", l->spread));
    tile_set(t, "change", "change / norms");
}

void lin_out_mod_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const AuInputGrads *in = &l->x.p->grads->normal->out.inputs;
    const char *values = lin_value_names(l, in, "Out");
    tile_set(t, tile_text(t, "change%s%s", *values ? ", " : "", values),
             "out_back(finished, change, row, b, h, i, 0, c)");
    lin_add_gradients(l, in, "Out", "e");
}

void lin_out_back(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const LinearRows skip = skip_of(l);
    const bool skips = lin_has(l, AU_SLOT_SKIP), mod = l->x.p->hooks->has_out_mod;
    const char *rows = l->spread == l->chunk ? "" : tile_text(t, "[0 +: %d, :] clip", l->spread);
    if (!has_epilogue(l)) {
        tile_copy(t, "do[b, h, first +: %d from start to end, :] as [kv, e] -> D pad 0", l->chunk);
        lin_meet(l);
        return;
    }
    if (skips) lin_rows_load(l, &skip);
    lin_meet(l);
    tile_load(t, "given", "do[b, h, first +: %d from start to end, :] as [kv, e] pad 0", l->spread);
    tile_set(t, "change", "f32(given)");
    if (lin_needs_output(l))
        tile_load(t, "kept_out", "O[0 +: %d, 0 +: %d] pad 0", l->spread, l->x.p->e);
    if (l->has_norm) {
        tile_load(t, "sums", "Sums[0 +: %d, 0] pad 1", l->spread);
        tile_set(t, "norms", "slot_norm(sums, b, h, first + iota(kv:%d), 0)", l->spread);
    }
    if (mod) {
        if (skips) tile_load(t, "skipped", "Skip[0 +: %d, :] pad 0", l->spread);
        tile_set(t, "finished", "kept_out%s%s", l->has_norm ? " / norms" : "",
                 skips ? " + skipped" : "");
        lin_out_mod_back(l);
    }
    if (skips) {
        lin_meet(l);
        tile_store(t, "change -> Skip%s", rows);
        lin_meet(l);
        lin_rows_back(l, &skip);
    }
    if (l->has_norm) norm_back(l);
    tile_store(t, "%s -> D%s", lin_guarded(l, "kv", "change"), rows);
    lin_meet(l);
}
