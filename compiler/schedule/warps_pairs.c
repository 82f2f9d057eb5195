/* warps_pairs.c - pairs of a warp's keys with a tile of queries (warps_backward.c), and what dK and dV get of them:
 *
 *     S' = K Q'   dP' = V dO'   weights P', dS'   dV += P' dO   dK += dS' Q
 *
 * A warp that has its keys for itself makes pairs of some queries of the tile after the other, and uses them at once, as operands in registers.
 * Where warps share keys each has some queries, and P' and dS' of all are in shared memory before anybody multiplies. */
#include "key_layout.h"
#include "lanes_back.h"

int32_t warps_pair_columns(const Lanes *x)
{
    const int32_t whole = x->shape->query_tile;
    return (warps_is_split(x) ? warps_part_of(x, whole) : whole) / x->shape->query_parts;
}

static const char *own_tile(Lanes *x, bool values)
{
    return tile_text(x->t, "%s[%s +: %d, :]", values && x->own_v ? "V" : "K", warps_own_keys(x),
                     x->rows);
}

/* The same, in their tensors; [limits]: of the rows. */
static AuTileHandle own_rows(Lanes *x, bool values, const char *limits)
{
    const char *rows = tile_text(x->t, "%snb * %d + %s +: %d%s", lanes_row_start(x, LANES_KEYS),
                                 x->block, warps_own_keys(x), x->rows, limits);
    const char *columns = warps_columns(x, values ? x->p->e : x->p->d);
    return lanes_at(x, lanes_operand_rows(x, values ? 2 : 1, columns), rows);
}

bool warps_begin_keys(Lanes *x)
{
    return (lanes_changed_type(x, 1) || lanes_changed_type(x, 2)) &&
           warps_begin_far(x, LANES_KEYS,
                           tile_text(x->t, "nb * %d + %s", x->block, warps_own_keys(x)));
}

/* As blocks: not to the end of the mask's range, which may be empty and no surface, but of the tensor; what pairs of other rows have is masked. Of rows that
 * a mod changes nobody wrote those of no sequence: to its end (warps_begin_keys). */
static AuTileHandle far_rows(Lanes *x, bool values)
{
    return own_rows(x, values,
                    !lanes_changed_type(x, values ? 2 : 1) ? ""
                    : lanes_is_packed(x, LANES_KEYS)       ? " from kv_start to kv_end"
                    : x->p->attn->keys.layout              ? " from 0 to kv_length"
                                                           : "");
}

/* Of S' and dP': the warp's keys and values. */
static const char *keys_operand(Lanes *x, bool values)
{
    if (x->shape->keys_in_registers) return values && x->own_v ? "values" : "keys";
    return x->shape->far ? far_rows(x, values).text : own_tile(x, values);
}

static void hold_rows(Lanes *x, bool values)
{
    tile_load(x->t, keys_operand(x, values), "%v @ %s.A pad 0",
              x->shape->far ? far_rows(x, values) : own_rows(x, values, lanes_limits(x, "k")),
              x->atom->name);
}

void warps_hold_keys(Lanes *x)
{
    if (warps_keys_are_direct(x)) {
        for (int values = 0; values <= 1; values++) hold_rows(x, values);
        return;
    }
    tile_sync(x->t, "all");
    for (int values = 0; values <= x->own_v; values++)
        tile_load(x->t, keys_operand(x, values), "%s @ %s.A", own_tile(x, values), x->atom->name);
}

/* Of the warps that make the same pairs one adds what is summed over them. */
static bool adds_once(const Lanes *x) { return warps_repeats_pairs(x) && x->p->grads->pairs.count; }

void warps_begin_once(Lanes *x)
{
    if (adds_once(x)) tile_if(x->t, "self %% %d == 0", x->shape->column_parts);
}

void warps_end_once(Lanes *x)
{
    if (adds_once(x)) tile_end(x->t);
}

/* S' and dP' of some queries of the tile. */
static void pair_products(Lanes *x, const char *from)
{
    AuTileBuild *t = x->t;
    const int32_t m = warps_pair_columns(x);
    const char *queries = tile_text(t, "[%s%s +: %d, :]", warps_stage(x, false), from, m);
    const bool far = x->shape->far;
    tile_product(t, "score", x->atom, TILE_START, keys_operand(x, false),
                 far ? warps_far_queries(x, 0, from, m).text : tile_text(t, "Q%s", queries));
    tile_product(t, "dp", x->atom, TILE_START, keys_operand(x, true),
                 far ? warps_far_queries(x, 2, from, m).text : tile_text(t, "dO%s", queries));
    warps_dot_products(x, tile_text(t, "[%s +: %d, :]", warps_own_keys(x), x->rows), queries);
}

/* What is known of their rows. */
static void load_statistics(Lanes *x, const char *from)
{
    AuTileBuild *t = x->t;
    const int32_t m = warps_pair_columns(x);
    const char *rows = tile_text(t, "m * %d + %s +: %d", x->shape->query_tile, from, m);
    for (uint32_t n = 0; n < back_row_count(x, true); n++)
        if (x->shape->far)
            tile_load(t, back_row_variable(x, n), "%s[%s] like score pad 0", back_row_name(x, n),
                      lanes_place(x, LANES_QUERIES, "h", rows));
        else
            tile_load(t, back_row_variable(x, n), "row%u[%s%s +: %d] like score", n,
                      warps_stage(x, false), from, m);
}

/* From them the weights and dS', as operands of products. */
static void pairs(Lanes *x, const char *from)
{
    AuTileBuild *t = x->t;
    const int32_t m = warps_pair_columns(x);
    const char *rows = warps_own_keys(x);
    pair_products(x, from);
    if (warps_is_split(x)) warps_issue_next(x);
    tile_set(t, "i", "m * %d + %s + iota(q:%d)", x->shape->query_tile, from, m);
    load_statistics(x, from);
    warps_pair_gradients(x, NULL);
    const char *own = tile_text(t, "[%s +: %d, %s +: %d]", rows, x->rows, from, m);
    const bool turned = warps_back_turns(x);
    if (turned && x->with_dq)
        tile_store(t, "ds_operand -> dST[%s +: %d, %s +: %d]", from, m, rows, x->rows);
    if (warps_has_ds(x))
        tile_store(t, "ds_operand -> dS[%s%s +: %d, %s +: %d]", warps_dq_is_late(x) ? "at, " : "",
                   rows, x->rows, from, m);
    if (warps_back_via_shared(x)) tile_store(t, "weight -> P%s", own);
    warps_begin_once(x);
    warps_add_values(x);
    warps_end_once(x);
}

/* P' or dS' of the warp's keys, made an operand where it is multiplied: lanes that exchange it have it twice. */
static const char *pairs_operand(Lanes *x, const char *held, const char *shared)
{
    return warps_back_via_shared(x)
               ? tile_text(x->t, "%s[%s +: %d, :]", shared, warps_own_keys(x), x->rows)
               : warps_as_rows(x, held);
}

static void far_key_gradients(Lanes *x, const char *from)
{
    const int32_t m = warps_pair_columns(x);
    tile_product(x->t, "dv_acc", x->atom, TILE_ADD, warps_as_rows(x, "weight"),
                 warps_far_part(x, 2, from, m).text);
    tile_product(x->t, "dk_acc", x->atom, TILE_ADD, warps_as_rows(x, "ds_operand"),
                 warps_far_part(x, 0, from, m).text);
}

void warps_key_gradients(Lanes *x, const char *queries)
{
    AuTileBuild *t = x->t;
    const bool turned = warps_back_turns(x);
    const int32_t d = warps_keys_width(x), e = warps_values_width(x);
    const char *channels_d = tile_text(t, "%s +: %d", warps_part_from(x, d), warps_part_of(x, d)),
               *channels_e = tile_text(t, "%s +: %d", warps_part_from(x, e), warps_part_of(x, e));
    queries = tile_text(t, "%s%s", warps_stage(x, false), queries);
    const char *weight = pairs_operand(x, "weight", "P");
    tile_product(t, x->own_v ? "dv_acc" : "dk_acc", x->atom, TILE_ADD, weight,
                 turned ? tile_text(t, "dOT[%s, %s]", channels_e, queries)
                        : tile_text(t, "dO[%s, %s]", queries, channels_e));
    const char *ds_operand = pairs_operand(x, "ds_operand", "dS");
    tile_product(t, "dk_acc", x->atom, TILE_ADD, ds_operand,
                 turned ? tile_text(t, "QT[%s, %s]", channels_d, queries)
                        : tile_text(t, "Q[%s, %s]", queries, channels_d));
    if (!turned) warps_dot_key_gradients(x, ds_operand, queries);
}

void warps_walk_pairs(Lanes *x)
{
    const int32_t parts = x->shape->query_parts, count = warps_pair_columns(x);
    if (warps_is_split(x)) {
        pairs(x, warps_part_from(x, x->shape->query_tile));
        return;
    }
    const char *from = parts > 1 ? tile_text(x->t, "part * %d", count) : "0";
    if (parts > 1) tile_for_range(x->t, "part", "0", tile_text(x->t, "%d", parts));
    pairs(x, from);
    if (x->shape->far)
        far_key_gradients(x, from);
    else
        warps_key_gradients(x, tile_text(x->t, "%s +: %d", from, count));
    if (parts > 1) tile_end(x->t);
}
