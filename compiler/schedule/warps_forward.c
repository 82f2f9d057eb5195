/* warps_forward.c - forward on the matrix units of a warp (mma.sync): warps own query rows, all warps of a block share tiles of
 * keys and values in shared memory.
 *
 * S = Q K' and O += P V: scores and outputs are accumulators of 16 x 8 tiles, whose columns lie where the next product's operand
 * A has them, so weights never leave the registers. Row statistics lie with the rows: a row is held by four lanes.
 *
 * Where copies can be asynchronous the next tile comes while the warps compute. With one stage (FlashAttention-2's order) values
 * come under S and softmax, the next keys under P V, and two barriers a tile order the warps. With two stages both come a whole
 * tile ahead and one barrier is enough: whoever passes it has finished with the other stage. Without asynchronous copies the tile
 * is copied between two barriers.
 *
 * Where operands come straight from tensors (shape: far) there are no tiles, no copies and no barriers: a warp goes at its own pace, and what
 * several warps read is near them once one has.
 *
 * Where the sums do not lie as operand A (mma.m8n8k4), a warp's weights pass through its rows of shared memory.
 *
 * Queries lie in shared memory, once; the result takes their place there at the end, so that it is stored in 16-byte vectors.
 * Widths are padded to the product's depth with zeros that the copies fill in.
 *
 * For few queries (keys_apart) the warps of a block share their 16 rows, and each has its part of the keys of a tile, which it
 * copies itself and of which it keeps states and an output of its own, so that nobody waits in the loop; warps_join.c ends it.
 *
 * Kernels: `q_rows`, `k_rows`, `v_rows` (rows that the script changes), `classes`, `compact` (masks that depend on data),
 * `forward`. */
#include "key_layout.h"
#include "key_storage.h"
#include "warps.h"

/* ---- a tile of keys */

/* Who shares no keys with others waits for nobody. */
void warps_forward_meet(Lanes *x)
{
    if (!x->shape->keys_apart) tile_sync(x->t, "all");
}

void warps_forward_add_values(Lanes *x, const char *weight)
{
    const char *stage = warps_stage(x, false);
    const bool in_k = warps_has_one_tile(x->p, x->shape);
    const char *values =
        x->shape->far           ? warps_forward_far_values(x).text
        : x->codes_are_operands ? "values"
        : in_k ? tile_text(x->t, "K[%s%s, :] as [kv, e]", stage, warps_forward_keys(x))
        : warps_values_are_turned(x->p, x->shape)
            ? tile_text(x->t, "V[%s:, %s]", stage, warps_forward_keys(x))
        : x->own_v ? tile_text(x->t, "V[%s%s, :]", stage, warps_forward_keys(x))
                   : tile_text(x->t, "K[%s%s, %d +: %d] as [kv, e]", stage, warps_forward_keys(x),
                               x->p->attn->v_first, x->p->e);
    if (x->via_shared) {
        const AuTileHandle own = warps_own_rows(x, TILE_NAME("P"), lanes_keys(x), "q, kv");
        tile_store(x->t, "%s -> %v", weight, own);
        weight = own.text;
    }
    tile_product(x->t, "acc", x->atom, TILE_ADD, warps_as_rows(x, weight), values);
}

/* Copies and compute of one tile, one stage: see the head of this file. */
static void step_of_one_stage(Lanes *x)
{
    const bool ahead = warps_are_async(x);
    if (ahead)
        warps_wait(x, warps_forward_key_tokens(x));
    else
        warps_forward_issue_keys(x, "n", "");
    if (ahead) warps_forward_meet(x);
    warps_forward_issue_values(x, "n", "");
    if (!ahead) warps_forward_meet(x);
    lanes_score_products(x, warps_forward_row, warps_forward_key);
    lanes_scores(x);
    const char *weight = lanes_weights(x);
    if (ahead && x->own_v) {
        warps_wait(x, warps_pages_value_tokens(x));
        warps_forward_meet(x);
        warps_forward_issue_keys(x, "next(n)", "");
    }
    warps_forward_add_values(x, weight);
    if (ahead && x->own_v) return;
    warps_forward_meet(x);
    if (ahead) warps_forward_issue_keys(x, "next(n)", "");
}

static void step_through_registers(Lanes *x)
{
    warps_forward_store_tiles(x);
    warps_forward_meet(x);
    warps_forward_load_tiles(x, "next(n)");
    lanes_score_products(x, warps_forward_row, warps_forward_key);
    lanes_scores(x);
    warps_forward_add_values(x, lanes_weights(x));
    warps_forward_meet(x);
}

/* Nothing is copied: where a unit loads blocks the next tile is asked for while this one is computed on. */
static void step_of_far_operands(Lanes *x)
{
    if (x->p->caps->loads & TILE_LOADS_BLOCK) warps_forward_ask_for(x, "next(n)");
    lanes_score_products(x, warps_forward_row, warps_forward_key);
    lanes_scores(x);
    warps_forward_add_values(x, lanes_weights(x));
}

static void step_of_two_stages(Lanes *x)
{
    warps_wait(x, warps_forward_tokens(x));
    warps_forward_meet(x);
    warps_forward_issue_keys(x, "next(n)", warps_stage(x, true));
    warps_forward_issue_values(x, "next(n)", warps_stage(x, true));
    lanes_score_products(x, warps_forward_row, warps_forward_key);
    lanes_scores(x);
    warps_forward_add_values(x, lanes_weights(x));
    tile_set(x->t, "at", "1 - at");
}

void warps_forward_loop(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool ahead = warps_are_async(x), two = x->shape->stages > 1;
    x->weights_scaled = warps_weights_get_lost(x->p); /* `acc` is 0 */
    if (two) tile_set(t, "at", "0");
    if (ahead) warps_forward_issue_keys(x, "first(keys)", warps_stage(x, false));
    if (x->rows_follow) warps_forward_issue_packed_rows(x);
    const bool codes = ahead && warps_has_any_codes(x->p);
    if (two || codes) warps_forward_issue_values(x, "first(keys)", warps_stage(x, false));
    if (codes) {
        warps_codes_begin(x);
        warps_scales_load(x, "first(keys)");
    }
    if (!warps_forward_stages_rows(x->p, x->shape)) warps_forward_load_rows(x);
    const bool passing = warps_forward_passes(x->p, x->shape);
    if (passing) warps_forward_load_tiles(x, "first(keys)");
    tile_for_tiles(t, "n", "keys", NULL);
    (codes           ? warps_step_of_codes
     : x->shape->far ? step_of_far_operands
     : passing       ? step_through_registers
     : two           ? step_of_two_stages
                     : step_of_one_stage)(x);
    tile_end(t);
    warps_wait(x, two || codes ? warps_forward_tokens(x) : warps_forward_key_tokens(x));
    if (x->weights_scaled) tile_set(t, "acc", "acc * %s", LANES_WEIGHT_SHARE);
    x->weights_scaled = false;
    if (two)
        warps_forward_meet(x); /* before copies for another block of rows, in a persistent kernel */
}

/* ---- the kernel */

static void fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_declare_scores(
        x, tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, lanes_keys(x), x->atom->name));
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s = 0.0", x->rows, warps_own_channels(x).count,
              warps_sums_layout(x));
    lanes_declare_rows(x);
}

static void store_output(Lanes *x)
{
    if (warps_rows_are_direct(x->p, x->shape)) {
        tile_store(x->t, "%s(out) -> o[%s, %s] clip", x->operand, lanes_query_place(x),
                   warps_own_channels(x).span);
        return;
    }
    const AuTileHandle rows = warps_own_rows(x, TILE_NAME("Q"), x->p->e, "q, e");
    tile_store(x->t, "%s(out) -> %v", x->operand, rows);
    tile_copy(x->t, "%v -> o[%s, :] clip", rows, lanes_query_place(x));
}

/* Warps with the same rows have the same. */
static void store_finals(Lanes *x)
{
    const int32_t sharers = schedule_row_sharers(x->shape);
    if (sharers > 1) tile_if(x->t, "self %% %d == 0", sharers);
    lanes_store_finals(x);
    if (sharers > 1) tile_end(x->t);
}

void warps_forward_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_forward_head(x);
    lanes_key_tiles(x, TILE_DOWN);
    warps_forward_memories(x);
    tile_barrier(t, "all", 0, x->shape->executors);
    tile_role(t, "core", x->shape->executors, TILE_ON_WARP, 0);
    lanes_begin_listed(x);
    const bool some = warps_begin_far(x, LANES_QUERIES, lanes_first_row(x));
    fragments(x);
    const bool staged = warps_forward_stages_rows(x->p, x->shape);
    if (staged)
        warps_forward_stage_rows(x);
    else
        warps_forward_issue_rows(x);
    lanes_begin_states(x);
    warps_pages_begin(x);
    warps_forward_loop(x);
    lanes_scale_values(x);
    if (x->p->unfinished)
        lanes_store_part(x, lanes_query_place(x));
    else if (x->shape->keys_apart)
        warps_join_results(x);
    else {
        lanes_results(x);
        if (staged)
            warps_forward_stage_output(x);
        else
            store_output(x);
        store_finals(x);
    }
    if (some) tile_end(t);
    lanes_end_listed(x);
    tile_end(t);
    tile_end(t);
}

AuSchedule *schedule_warps_forward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                   const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "warps_forward", shape,
                                   schedule_warps_refusal(arena, p, shape));
    if (!out) return NULL;
    Lanes x = warps_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    warps_layouts(&x);
    warps_code_layouts(&x);
    warps_forward_layouts(&x);
    if (warps_passes(p) && !shape->far) warps_pass_tiles(&x);
    if (shape->far && p->caps->loads & TILE_LOADS_OWN) tile_set_option(x.t, "late_strides", 1);
    return lanes_forward_built(&x, diags, warps_forward_kernel);
}
