/* warps_wide.c - forward for rows of queries whose values are wider than a warp holds beside its scores (latent attention: keys of 576 channels,
 * of which 512 are the value), on the matrix units of warps (mma.sync).
 *
 * As in warps_decode.c a block has a part of the keys of one head, and rows of all query heads that share it. Its warps divide a tile's work
 * twice: for scores, 16 rows and a part of the tile's keys each; for the output, all rows and a part of the channels. Weights go from the
 * one to the other through shared memory.
 *
 * A warp's weights are by the states of its own keys alone, which begin anew with each tile. The warps that share rows put these states
 * side by side, and each joins all of them to the states of the keys before (`online_join`, derived from the online function): that gives by
 * what its weights, and what the sums so far, are multiplied. All warps join in the same order, so states are the same everywhere.
 *
 *     wait, barrier | copies of the next tile | S, weights | barrier | join, P, factors | barrier | O = O factor + P V
 *
 * (FlashMLA divides the output alike between two groups of warps; here any number of them, by what `online` and masks a script has.)
 *
 * Kernels: `q_rows`, `k_rows`, `v_rows` (rows that the script changes), `keys`, `forward` (joins parts of keys, warps_decode_parts.c). */
#include "key_layout.h"
#include "key_storage.h"
#include "warps_decode.h"

enum {
    MANY_ROWS = 64, /* of a block, where WARPS_WIDE_ROWS are too few: keys come once for so many */
    SPAN = 128,     /* bytes of tiles' rows that stay together, as in the tensor */
    MOST_QUERIES = 128,  /* of a head: the workspace has a part for each row */
    FRAGMENT_SHARE = 48, /* 64ths of a lane's registers, as in warps_shape.c */
};

/* Warps that share 16 rows of scores. */
static int32_t sharers(const AuTileAtom *atom, const AuShape *s)
{
    return s->executors / (s->rows / atom->m);
}

static bool is_joined(const Lanes *x) { return x->key_parts > 1 && x->p->hooks->state_count; }

/* The warp's channels of the output. */
static int32_t columns(const Lanes *x) { return x->p->e / x->shape->executors; }

/* ---- memories */

static AuTileHandle part_states(Lanes *x, uint32_t n) { return tile_numbered(x->t, "STATES", n); }

static void memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuShape *s = x->shape;
    warps_tile(x, TILE_NAME("Q"), "q", x->block, "d", warps_padded(x->atom, x->p->d), 1);
    warps_tile(x, TILE_NAME("K"), "kv", s->key_tile, "d", warps_padded(x->atom, x->p->d),
               s->stages);
    if (x->own_v) warps_tile(x, TILE_NAME("V"), "kv", s->key_tile, "e", x->p->e, s->stages);
    warps_tile(x, TILE_NAME("P"), "q", x->block, "kv", s->key_tile, 1);
    tile_shared(t, "FACTORS", "f32[q:%d]", x->block);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++) {
        if (is_joined(x)) tile_shared(t, part_states(x, n), "f32[q:%d]", x->block * x->key_parts);
        if (warps_is_whole(x)) tile_shared(t, tile_numbered(t, "ENDS", n), "f32[q:%d]", x->block);
    }
}

/* The warp's rows of a tile of the block's. */
static const char *own_rows(Lanes *x)
{
    return tile_text(x->t, "self / %d * %d +: %d", x->key_parts, x->rows, x->rows);
}

/* ---- rows of queries: row r is query r / G of head r % G of the group */

/* Each warp brings as many of the block's rows. */
static void issue_rows(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t share = x->block / x->shape->executors;
    tile_set(t, "brought", "%s + self * %d + iota(q:%d)", warps_first_row(x), share, share);
    const LanesRows rows =
        lanes_rows(x, lanes_changed_name(x, 0),
                   tile_text(x->t, "%s * group + brought %% group", lanes_group_name(x)),
                   warps_columns(x, x->p->d));
    const char *start = lanes_row_start(x, LANES_QUERIES);
    const char *first = warps_first_query(x);
    tile_async_copy(t, "tq", "%v -> Q[self * %d +: %d, :] pad 0 when %sbrought / group < %s",
                    lanes_at(x, rows, tile_text(t, "%s%sbrought / group", start, first)), share,
                    share, first, lanes_query_end(x));
}

/* ---- weights */

/* Puts the states of the warp's keys where the others find them. */
static void show_states(Lanes *x)
{
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(x->t, "state%u -> %v[self %% %d * %d + %s] as [q]", n, part_states(x, n),
                   x->key_parts, x->block, own_rows(x));
    tile_sync(x->t, "all");
}

/* `whole` becomes what joins it and the states of all parts; `before` and `own`: by what sums so far and the warp's weights are multiplied. */
static void join_states(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *whole = lanes_states_called(x, "whole"), *others = lanes_states_called(x, "other");
    for (int32_t part = 0; part < x->key_parts; part++) {
        for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
            tile_load(t, tile_numbered(t, "other", n), "%v[%d + %s] as [q] like row_like",
                      part_states(x, n), part * x->block, own_rows(x));
        tile_set(t, tile_text(t, "first, second%s", whole), "online_join(b, h, i%s%s)", whole,
                 others);
        tile_set(t, "before", part ? "before * first" : "first");
        if (part)
            tile_set(t, "own", "where(self %% %d == %d, second, own * first)", x->key_parts, part);
        else
            tile_set(t, "own", "second");
    }
    tile_set(t, "p", "p * own");
}

/* The weights of all rows and keys, and the factors of sums, in shared memory. */
static void share_weights(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *factor = NULL;
    if (is_joined(x)) lanes_begin_states(x); /* anew */
    lanes_online(x);
    if (is_joined(x)) {
        show_states(x);
        join_states(x);
        factor = "before";
    } else if (x->p->hooks->has_scale) {
        factor = "scale";
    }
    tile_store(t, "%s(p) -> P[%s, self %% %d * %d +: %d] as [q, kv]", x->operand, own_rows(x),
               x->key_parts, lanes_keys(x), lanes_keys(x));
    if (factor) {
        tile_if(t, "self %% %d == 0", x->key_parts);
        tile_store(t, "%s -> FACTORS[%s] as [q]", factor, own_rows(x));
        tile_end(t);
    }
    tile_sync(t, "all");
    if (!factor) return;
    tile_load(t, "factor", "FACTORS[:] as [q] like sum_like");
    tile_set(t, "grown",
             "factor != 1.0"); /* few tiles of long rows have a larger maximum than those before */
    tile_if(t, "anywhere(grown)");
    tile_set(t, "acc", "acc * factor");
    tile_end(t);
}

/* ---- a tile of keys */

static void add_values(Lanes *x)
{
    const char *stage = warps_stage(x, false);
    const int32_t first = x->own_v ? 0 : x->p->attn->v_first;
    const char *from = first ? tile_text(x->t, "%d + ", first) : "";
    tile_product(x->t, "acc", x->atom, TILE_ADD, "P[:, :]",
                 tile_text(x->t, "%s[%s:, %sself * %d +: %d] as [kv, e]", x->own_v ? "V" : "K",
                           stage, from, columns(x), columns(x)));
}

static void scores(Lanes *x)
{
    const int32_t keys = lanes_keys(x);
    tile_product(x->t, "score", x->atom, TILE_START,
                 tile_text(x->t, "Q[%s, :] as [q, d]", own_rows(x)),
                 tile_text(x->t, "K[%sself %% %d * %d +: %d, :]", warps_stage(x, false),
                           x->key_parts, keys, keys));
    lanes_scores(x);
}

static void step(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool two = x->shape->stages > 1;
    if (!two) {
        tile_sync(t, "all"); /* nobody reads the tile before */
        warps_forward_issue_keys(x, "n", "");
        warps_forward_issue_values(x, "n", "");
    }
    warps_wait(x, warps_forward_tokens(x));
    tile_sync(t, "all");
    if (two) {
        warps_forward_issue_keys(x, "next(n)", warps_stage(x, true));
        warps_forward_issue_values(x, "next(n)", warps_stage(x, true));
    }
    scores(x);
    share_weights(x);
    add_values(x);
    if (two) tile_set(t, "at", "1 - at");
}

static void loop(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool two = x->shape->stages > 1;
    if (two) {
        tile_set(t, "at", "0");
        warps_forward_issue_keys(x, "first(keys)", warps_stage(x, false));
        warps_forward_issue_values(x, "first(keys)", warps_stage(x, false));
    }
    warps_wait(x, "tq");
    tile_for_tiles(t, "n", "keys", NULL);
    step(x);
    tile_end(t);
    if (two) warps_wait(x, warps_forward_tokens(x));
}

/* ---- kernels */

static void fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_declare_scores(
        x, tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, lanes_keys(x), x->atom->name));
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s.C = 0.0", x->block, columns(x), x->atom->name);
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    tile_frag(t, "sum_like", "f32[q:%d] like acc = 0.0", x->block);
    warps_name_rows(x,
                    tile_text(t, "%s + self / %d * %d", warps_first_row(x), x->key_parts, x->rows));
}

static void store_part(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_store(t, "acc -> part_acc[%s, mb * %d +: %d, self * %d +: %d] clip", warps_part_place(x),
               x->block, x->block, columns(x), columns(x));
    tile_if(t, "self %% %d == 0", x->key_parts);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(t, "%s%u -> part_state%u[%s, mb * %d + %s] clip",
                   is_joined(x) ? "whole" : "state", n, n, warps_part_place(x), x->block,
                   own_rows(x));
    tile_end(t);
}

/* The states of rows go from the warps that have them to all. */
static void end_rows(Lanes *x)
{
    AuTileBuild *t = x->t;
    const uint32_t count = x->p->hooks->state_count;
    tile_if(t, "self %% %d == 0", x->key_parts);
    for (uint32_t n = 0; n < count; n++)
        tile_store(t, "%s%u -> %v[%s] as [q]", is_joined(x) ? "whole" : "state", n,
                   tile_numbered(t, "ENDS", n), own_rows(x));
    tile_end(t);
    if (count) tile_sync(t, "all");
    warps_name_all_rows(x);
    for (uint32_t n = 0; n < count; n++)
        tile_load(t, tile_numbered(t, "end", n), "%v[:] as [q] like sum_like",
                  tile_numbered(t, "ENDS", n));
    warps_end_whole(x, "acc", tile_text(t, "self * %d +: %d", columns(x), columns(x)));
    warps_store_whole_finals(x);
}

static void part(Lanes *x)
{
    fragments(x);
    issue_rows(x);
    if (is_joined(x))
        tile_set(x->t, lanes_states_called(x, "whole") + 2, "online_init(row_like, b, h, i)");
    else
        lanes_begin_states(x);
    warps_pages_begin(x);
    loop(x);
    if (warps_is_whole(x))
        end_rows(x);
    else
        store_part(x);
}

static void roles(Lanes *x) { warps_core_role(x, part); }

static void kernels(Lanes *x) { warps_wide_kernels(x, memories, roles); }

/* ---- shapes */

static int32_t shared_bytes(const AuProblem *p, const AuShape *s)
{
    const AuTileAtom *atom = warps_atom(p);
    const int32_t span = s->swizzle_span, d = warps_row_bytes(p, span, warps_padded(atom, p->d)),
                  key = d + (p->attn->v_in_k ? 0 : warps_row_bytes(p, span, p->e)),
                  whole = schedule_packs_rows(p) ? 0 : 1,
                  states = (int32_t)p->hooks->state_count * (sharers(atom, s) + whole);
    return WARPS_ALIGNMENT + s->rows * (d + warps_row_bytes(p, span, s->key_tile)) +
           s->stages * s->key_tile * key + s->rows * 4 * (1 + states);
}

static const char *refusal_of_shape(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const AuTileAtom *atom = warps_atom(p);
    const int32_t groups = s->rows / atom->m, unit = s->executors * atom->n;
    const bool divides = s->rows % atom->m == 0 && groups && s->executors % groups == 0 &&
                         s->rows % s->executors == 0 && p->e % unit == 0;
    if (!divides || s->key_tile % (sharers(atom, s) * atom->n) || s->key_tile % atom->k ||
        s->key_tile % s->executors)
        return au_format(arena, "%d rows, %d keys or %d channels do not divide among %d warps",
                         s->rows, s->key_tile, p->e, s->executors);
    const int32_t shared = shared_bytes(p, s);
    if (shared > p->caps->shared_bytes)
        return au_format(arena, "%d bytes of shared memory of %d", shared, p->caps->shared_bytes);
    const int32_t registers = s->rows * p->e / s->executors / p->caps->lanes +
                              atom->m * s->key_tile / sharers(atom, s) * 3 / 2 / p->caps->lanes,
                  room = tile_share(p->caps, FRAGMENT_SHARE);
    if (registers > room)
        return au_format(arena, "fragments take %d registers of a lane, %d are for them", registers,
                         room);
    return NULL;
}

static const char *refusal_of_values(AuArena *arena, const AuProblem *p)
{
    AuShape narrow;
    AuProblem usual = *p;
    usual.queries = AU_ANY_QUERIES;
    if (attn_is_stored(p->attn)) return "keys of 8 bits, wider than a warp holds";
    if (p->tf32 || !warps_atom(p) || warps_sums_lie_apart(p))
        return "units whose sums are no operands";
    const char *why = warps_grouped_refusal(arena, p), *too_wide;
    if (!why && !schedule_joins_parts(p)) why = "an online function whose parts cannot be joined";
    if (!why && p->hooks->dot_count) why = "further products of values that no warp holds";
    if (why) return why;
    return schedule_warps_shape(arena, &usual, &narrow, &too_wide) ? "values that a warp holds"
                                                                   : NULL;
}

const char *warps_wide_refusal(AuArena *arena, const AuProblem *p)
{
    const char *why = schedule_packs_rows(p) ? schedule_rows_refusal(p) : schedule_pages_refusal(p);
    if (p->queries == AU_FEW_QUERIES || p->queries == AU_MIXED_QUERIES ||
        p->queries == AU_CHUNK_QUERIES)
        return "few queries";
    if (why) return why;
    if (!schedule_packs_rows(p)) why = warps_whole_refusal(p);
    return why ? why : refusal_of_values(arena, p);
}

/* Of a problem that is not refused. */
static const char *fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    warps_complete(p, s);
    s->swizzle_span = SPAN;
    return refusal_of_shape(arena, p, s);
}

const char *schedule_warps_wide_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = warps_wide_refusal(arena, p);
    return why ? why : fit(arena, p, s);
}

/* The first that fits: long tiles, so that barriers are few, of which the next comes beside the work on one. */
bool schedule_warps_wide_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    static const int32_t keys[] = {64, 32, 16}, warps[] = {8, 4};
    *why = warps_wide_refusal(arena, p);
    if (*why) return false;
    for (uint32_t n = 0; n < 2 * 2 * 3 * 2; n++) {
        AuShape s = {.rows = p->queries == AU_DECODE_QUERIES ? WARPS_WIDE_ROWS : MANY_ROWS,
                     .key_tile = keys[n / 2 % 3],
                     .stages = 2 - (int32_t)(n / 6 % 2),
                     .executors = warps[n % 2],
                     .part_start = warps_part_start(p)};
        if (n >= 12) s.rows /= 2; /* memories that hold no more */
        *why = fit(arena, p, &s);
        if (*why) continue;
        *out = s;
        return true;
    }
    return false;
}

int32_t schedule_warps_wide_limit(AuArena *arena, const AuProblem *p)
{
    AuShape shape;
    const char *why;
    return schedule_warps_wide_shape(arena, p, &shape, &why) ? MOST_QUERIES : 0;
}

AuSchedule *schedule_warps_wide(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                const AuShape *shape)
{
    AuSchedule *out =
        schedule_new(arena, diags, p, "warps_wide", shape, refusal_of_shape(arena, p, shape));
    if (!out) return NULL;
    out->overlaps = schedule_packs_rows(p);
    Lanes x = warps_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    x.block = shape->rows;
    x.rows = x.atom->m;
    x.key_parts = sharers(x.atom, shape);
    const int32_t resident = warps_resident(p, shared_bytes(p, shape), shape->executors);
    x.resident = resident > 1 ? resident : 1;
    warps_layouts(&x);
    return lanes_forward_built(&x, diags, kernels);
}
