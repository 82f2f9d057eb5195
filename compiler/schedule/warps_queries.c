/* warps_queries.c - kernels of gradients whose blocks own queries, on the matrix units of warps: the sums over a row's keys that
 * some adjoints need (`row_pass`), and gradients of queries where they must be summed in one order (`dq`).
 *
 *     S = Q K'   dP = dO V'   dQ += dS K        queries of a warp as rows, as in the forward; dS is operand A as it lies
 *
 * Tiles of keys and values come a tile ahead with two stages, and between two barriers with one. Where operands come straight from tensors
 * (shape: far) there are no tiles: queries and output gradients are in registers, and nobody waits. */
#include "key_layout.h"
#include "lanes_back.h"

/* Which of the two kernels. */
typedef enum Kind { ROW_PASS, DQ } Kind;

static int32_t keys_width(const Lanes *x) { return warps_padded(x->atom, x->p->d); }
static int32_t values_width(const Lanes *x) { return warps_padded(x->atom, x->p->e); }

void warps_queries_head(Lanes *x, bool row_pass)
{
    AuTileBuild *t = x->t;
    back_begin_kernel(x, row_pass ? "row_pass" : "dq");
    if (x->p->hooks->needs_lists) lanes_list_arguments(x);
    for (uint32_t n = 0; n < back_row_count(x, !row_pass); n++)
        back_argument(x, back_row_name(x, n), TILE_IN);
    for (uint32_t n = 0; n < x->p->grads->pass_count && row_pass; n++)
        back_argument(x, tile_text(t, "pass_%u", n), TILE_OUT);
    if (!row_pass) back_argument(x, back_gradient(x, 0), TILE_OUT);
    if (lanes_is_packed(x, LANES_QUERIES)) {
        const BackAxis axes[3] = {{"mb_up", "", AU_AX_Q}, {"h", lanes_axis(x, 0, 1), AU_AX_H}};
        back_row_grid(x, LANES_QUERIES, x->block, axes, BACK_SUMS_NOTHING, NULL);
        tile_let(t, "mb", "cdiv(q_length, %d) - 1 - mb_up", x->block);
    } else {
        lanes_grid_by_work(x, "turn", tile_text(t, "cdiv(%s, %d)", lanes_axis(x, 0, 2), x->block),
                           "h", lanes_axis(x, 0, 1), lanes_axis(x, 0, 0));
        tile_let(t, "mb", "cdiv(%s, %d) - 1 - turn", lanes_axis(x, 0, 2), x->block);
        lanes_let_key_length(x);
    }
    lanes_key_heads(x);
    lanes_key_tiles(x, TILE_DOWN);
}

static void memories(Lanes *x, Kind kind)
{
    if (x->shape->far) return;
    const int32_t keys = x->shape->key_tile, stages = x->shape->stages;
    warps_tile(x, TILE_NAME("Q"), "q", x->block, "d", keys_width(x), 1);
    warps_tile(x, TILE_NAME("dO"), "q", x->block, "e", values_width(x), 1);
    warps_tile(x, TILE_NAME("K"), "kv", keys, "d", keys_width(x), stages);
    if (x->own_v) warps_tile(x, TILE_NAME("V"), "kv", keys, "e", values_width(x), stages);
    if (x->via_shared && kind == DQ) warps_tile(x, TILE_NAME("dS"), "q", x->block, "kv", keys, 1);
}

static void issue_keys(Lanes *x, const char *n, const char *stage)
{
    warps_issue_tile(x, TILE_NAME("tk"), lanes_operand_rows(x, 1, warps_columns(x, x->p->d)), n,
                     TILE_NAME("K"), stage, true);
    if (x->own_v)
        warps_issue_tile(x, TILE_NAME("tv"), lanes_operand_rows(x, 2, warps_columns(x, x->p->e)), n,
                         TILE_NAME("V"), stage, false);
}

static void wait_for_keys(Lanes *x) { warps_wait(x, x->own_v ? "tk, tv" : "tk"); }

/* Keys (1) or values (2) of tile [n], or the warp's share of them, straight from their tensor. */
static AuTileHandle far_rows(Lanes *x, uint32_t operand, const char *n, int32_t share)
{
    const char *columns = warps_columns(x, operand == 1 ? x->p->d : x->p->e);
    return warps_far_rows(x, lanes_operand_rows(x, operand, columns), n, share, true);
}

static void ask_for_keys(Lanes *x, const char *n)
{
    const int32_t share = x->shape->key_tile / x->shape->executors;
    for (uint32_t operand = 1; operand <= 2; operand++)
        tile_prefetch(x->t, "%v", far_rows(x, operand, n, share));
}

/* The warp's queries (0) or output gradients (2), in their tensor. */
static AuTileHandle own_rows(Lanes *x, uint32_t operand)
{
    const char *rows = lanes_row_span(
        x, LANES_QUERIES, tile_text(x->t, "%s +: %d", lanes_first_row(x), x->rows), NULL, NULL);
    const char *columns = warps_columns(x, operand ? x->p->e : x->p->d);
    return lanes_at(x,
                    operand ? lanes_rows(x, back_output_gradient(x), "h", columns)
                            : lanes_operand_rows(x, 0, columns),
                    rows);
}

/* The same as operand of a product. */
static const char *row_operand(Lanes *x, uint32_t operand)
{
    if (!x->shape->far)
        return tile_text(x->t, "%s[self * %d +: %d, :]", operand ? "dO" : "Q", x->rows, x->rows);
    return !x->shape->query_in_registers ? own_rows(x, operand).text
           : operand                     ? "gradient"
                                         : "query";
}

static void bring_rows(Lanes *x)
{
    if (!x->shape->far) {
        warps_issue(x, TILE_NAME("tq"), own_rows(x, 0), tile_part(x->t, "%s", row_operand(x, 0)));
        warps_issue(x, TILE_NAME("to"), own_rows(x, 2), tile_part(x->t, "%s", row_operand(x, 2)));
        return;
    }
    for (uint32_t operand = 0; operand <= 2 && x->shape->query_in_registers; operand += 2)
        tile_load(x->t, row_operand(x, operand), "%v @ %s.A pad 0", own_rows(x, operand),
                  x->atom->name);
}

void warps_query_fragments(Lanes *x, bool row_pass)
{
    AuTileBuild *t = x->t;
    const char *pair =
        tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, x->shape->key_tile, x->atom->name);
    tile_frag(t, "score", "%s", pair);
    tile_frag(t, "dp", "%s", pair);
    if (row_pass)
        warps_declare_passes(x);
    else
        tile_frag(t, "dq_acc", "f32[q:%d, d:%d] @ %s.C = 0.0", x->rows, keys_width(x),
                  x->atom->name);
    tile_set(t, "i", "%s + iota(q:%d)", lanes_first_row(x), x->rows);
}

/* Rows of the warp, their statistics in registers. */
static void begin_rows(Lanes *x, Kind kind)
{
    warps_query_fragments(x, kind == ROW_PASS);
    bring_rows(x);
    back_load_statistics(x, kind != ROW_PASS);
    if (!x->shape->far) warps_wait(x, "tq, to");
}

/* ---- what pairs add to sums of the row, or to the gradient of the query; also of matrices_backward.c */

void warps_declare_passes(Lanes *x)
{
    for (uint32_t n = 0; n < x->p->grads->pass_count; n++)
        tile_frag(x->t, tile_numbered(x->t, "pass", n), "f32[q:%d] like score = 0.0", x->rows);
}

void warps_add_passes(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuTileHandle unmasked = {lanes_unmasked(x)};
    const uint32_t sums = x->p->grads->pass_count;
    lanes_row_parts(x);
    tile_on_segment(t, "partial");
    for (uint32_t n = 0; n < sums; n++) lanes_mask(x, tile_numbered(t, "part", n), unmasked);
    tile_end(t);
    for (uint32_t n = 0; n < sums; n++)
        tile_set(t, tile_numbered(t, "pass", n), "pass%u + rowsum(part%u)", n, n);
}

void warps_store_passes(Lanes *x)
{
    for (uint32_t n = 0; n < x->p->grads->pass_count; n++)
        tile_store(x->t, "pass%u -> pass_%u[%s] clip", n, n, lanes_query_place(x));
}

void warps_query_pairs(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuTileHandle unmasked = {lanes_unmasked(x)};
    tile_set(t, lanes_pair_results(x), "%s", lanes_pair_hook(x, "backward_pair", true, NULL));
    tile_on_segment(t, "partial");
    lanes_mask(x, TILE_NAME("ds"), unmasked);
    tile_end(t);
    tile_set(t, "ds_operand", "%s(ds)", x->held);
}

static void results(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    if (kind == ROW_PASS) {
        warps_add_passes(x);
        return;
    }
    warps_query_pairs(x);
    const char *own = tile_text(t, "dS[self * %d +: %d, :]", x->rows, x->rows);
    if (x->via_shared) tile_store(t, "ds_operand -> %s", own);
    tile_product(t, "dq_acc", x->atom, TILE_ADD,
                 x->via_shared ? own : warps_as_rows(x, "ds_operand"),
                 x->shape->far ? far_rows(x, 1, "n", x->shape->key_tile).text
                               : tile_text(t, "K[%s:, :]", warps_stage(x, false)));
}

static void step_of_far_operands(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    const int32_t keys = x->shape->key_tile;
    if (x->p->caps->loads & TILE_LOADS_BLOCK) ask_for_keys(x, "next(n)");
    tile_product(t, "score", x->atom, TILE_START, row_operand(x, 0),
                 far_rows(x, 1, "n", keys).text);
    tile_product(t, "dp", x->atom, TILE_START, row_operand(x, 2), far_rows(x, 2, "n", keys).text);
    tile_set(t, "j", "n * %d + iota(kv:%d)", keys, keys);
    results(x, kind);
}

static void step(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    const bool ahead = warps_are_async(x), two = x->shape->stages > 1;
    const char *stage = warps_stage(x, false);
    if (!ahead) issue_keys(x, "n", "");
    wait_for_keys(x);
    tile_sync(t, "all");
    if (two) issue_keys(x, "next(n)", warps_stage(x, true));
    tile_product(t, "score", x->atom, TILE_START, row_operand(x, 0),
                 tile_text(t, "K[%s:, :]", stage));
    tile_product(t, "dp", x->atom, TILE_START, row_operand(x, 2),
                 x->own_v ? tile_text(t, "V[%s:, :]", stage)
                          : tile_text(t, "K[%s:, %d +: %d] as [kv, e]", stage, x->p->attn->v_first,
                                      values_width(x)));
    tile_set(t, "j", "n * %d + iota(kv:%d)", x->shape->key_tile, x->shape->key_tile);
    results(x, kind);
    if (two)
        tile_set(t, "at", "1 - at");
    else
        tile_sync(t, "all");
    if (ahead && !two) issue_keys(x, "next(n)", "");
}

static void finish(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    const char *place = lanes_query_place(x),
               *own = tile_text(t, "Q[self * %d +: %d, :]", x->rows, x->rows);
    if (kind == ROW_PASS) {
        warps_store_passes(x);
        return;
    }
    if (back_has_rows(x, 0)) {
        tile_store(t, "dq_acc -> dq_sum[%s, 0 +: %d] clip", place, keys_width(x));
        return;
    }
    if (x->shape->far) {
        tile_store(t, "%s(dq_acc) -> dq[%s, 0 +: %d] clip", x->operand, place, keys_width(x));
        return;
    }
    tile_store(t, "%s(dq_acc) -> %s", x->operand, own);
    tile_copy(t, "%s -> dq[%s, 0 +: %d] clip", own, place, keys_width(x));
}

static void kernel(Lanes *x, Kind kind)
{
    AuTileBuild *t = x->t;
    const bool ahead = warps_are_async(x) && !x->shape->far;
    warps_queries_head(x, kind == ROW_PASS);
    memories(x, kind);
    tile_barrier(t, "all", 0, x->shape->executors);
    tile_role(t, "core", x->shape->executors, TILE_ON_WARP, 0);
    if (x->shape->stages > 1) tile_set(t, "at", "0");
    if (ahead) issue_keys(x, "first(keys)", warps_stage(x, false));
    const bool some = warps_begin_far(x, LANES_QUERIES, lanes_first_row(x));
    begin_rows(x, kind);
    if (x->shape->far) tile_if(t, "k_low < k_high"); /* no surface is empty */
    tile_for_tiles(t, "n", "keys", NULL);
    (x->shape->far ? step_of_far_operands : step)(x, kind);
    tile_end(t);
    if (x->shape->far) {
        tile_end(t);
    } else {
        wait_for_keys(x);
        tile_sync(t, "all");
    }
    finish(x, kind);
    if (some) tile_end(t);
    tile_end(t);
    tile_end(t);
}

/* ---- shapes: 16 rows a warp, or those of a taller instruction, the largest tiles that fit */

enum { FRAGMENT_SHARE = 48 }; /* 64ths of a lane's registers */

bool warps_queries_shape(const AuProblem *p, AuShape *out)
{
    const AuTileAtom *atom = warps_atom(p);
    const int32_t d = warps_padded(atom, p->d),
                  d_bytes = warps_row_bytes(p, warps_back_swizzle_span(p), d);
    const int32_t e_bytes =
        warps_row_bytes(p, warps_back_swizzle_span(p), warps_padded(atom, p->e));
    const bool ahead = warps_copy_ahead(p);
    for (uint32_t n = 0; n < 16; n++) {
        *out = (AuShape){.executors = n < 8 ? 8 : 4,
                         .rows = atom->m > 16 ? atom->m : 16,
                         .key_tile = n / 2 % 4 == 0   ? 64
                                     : n / 2 % 4 == 1 ? 48
                                     : n / 2 % 4 == 2 ? 32
                                                      : 16,
                         .stages = 2 - (int32_t)(n % 2)};
        if (out->key_tile % atom->n || out->key_tile % atom->k) continue;
        const int32_t ds_bytes = warps_via_shared(p, out)
                                     ? warps_row_bytes(p, warps_back_swizzle_span(p), out->key_tile)
                                     : 0;
        const int32_t shared =
            WARPS_ALIGNMENT + out->executors * out->rows * (d_bytes + e_bytes + ds_bytes) +
            out->stages * out->key_tile * (d_bytes + (p->attn->v_in_k ? 0 : e_bytes));
        const int32_t registers = out->rows * (d + 5 * out->key_tile / 2) / p->caps->lanes;
        if (shared <= p->caps->shared_bytes && registers <= tile_share(p->caps, FRAGMENT_SHARE) &&
            (ahead || out->stages == 1))
            return true;
    }
    return false;
}

/* Rows of one instruction, and the most keys a tile whose pairs registers hold, beside operands of the warp's rows if these fit, too. */
bool warps_far_queries_shape(const AuProblem *p, AuShape *out)
{
    static const int32_t keys[] = {64, 32, 16};
    const AuTileAtom *atom = warps_atom(p);
    const int32_t d = warps_padded(atom, p->d), e = warps_padded(atom, p->e);
    for (int32_t n = 0; n < 2 * 3; n++) {
        *out = (AuShape){.executors = p->caps->schedulers,
                         .rows = atom->m,
                         .key_tile = keys[n / 2],
                         .stages = 1,
                         .query_in_registers = n % 2 == 0,
                         .far = true,
                         .split_segments = true};
        const WarpsFar needs = {.sums = out->rows * d,
                                .held = out->query_in_registers ? out->rows * (d + e) : 0,
                                .pairs = 2 * out->rows * out->key_tile,
                                .made = out->rows * out->key_tile};
        if (out->key_tile % out->executors == 0 && warps_far_fits(p, &needs)) return true;
    }
    return false;
}

void warps_row_pass(Lanes *x)
{
    if (x->p->grads->pass_count) kernel(x, ROW_PASS);
}

void warps_dq(Lanes *x) { kernel(x, DQ); }
