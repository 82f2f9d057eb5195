/* linear_warps_back_shape.c - what `linear_warps_backward` takes, and its shapes: chunks as long as shared memory has room for.
 *
 * Shared memory: chunks of q, k, v and the output's gradient, as many as stages; the state before the chunk and the gradient of that behind
 * it, as operands; pairs and their gradients. Registers of a lane: the state's gradient, and of the rows of queries, keys or values one
 * gradient at a time. */
#include "linear_warps_channels.h"

enum {
    REGISTER = 4,
    VECTOR = 16, /* bytes that a lane moves at once */
    FRAGMENT_SHARE = 48,
    UNIT = 16,
    COLUMNS = 64,
    SPAN = 32, /* bytes of rows: longer ones cost `reverse` more addresses than their copies gain */
    APART_SHARE = 50, /* of registers, likewise */
    APART_SPAN = 128, /* whole rows: nothing between them */
    PAIRS_WARPS = 4,
    OWN_WARPS = 8,
    WIDE = 128 /* channels, of which eight warps sum 16 each at once */
};

static bool sums(const AuProblem *p, AuSlot slot)
{
    return lin_problem_has(p, slot) && p->hooks->slots[slot].has_sums;
}

int32_t linear_warps_key_parts(const AuShape *s)
{
    return s->executors / linear_warps_row_groups(s) / 2;
}

int32_t linear_warps_key_strips(const AuProblem *p, const AuShape *s)
{
    const int32_t all = linear_warps_channels(p) / linear_warps_key_parts(s);
    return all % COLUMNS ? 1 : all / COLUMNS;
}

/* Do slots sum over channels that several warps have? */
bool linear_warps_is_staged(const AuProblem *p, const AuShape *s)
{
    return (sums(p, AU_SLOT_Q) || sums(p, AU_SLOT_K)) &&
           linear_warps_key_parts(s) * linear_warps_key_strips(p, s) > 1;
}

int32_t linear_warps_value_columns(const AuProblem *p, const AuShape *s)
{
    const int32_t unit = UNIT * (s->executors / linear_warps_row_groups(s));
    return (p->e + unit - 1) / unit * unit;
}

/* Parts of the columns of the state's gradient: as square a part as can be, which reads least of both operands. */
int32_t linear_warps_state_parts(const AuProblem *p, const AuShape *s)
{
    AuShape now = *s;
    const int32_t d = linear_warps_channels(p), e = linear_warps_value_columns(p, s);
    int32_t best = 1, least = 0;
    for (int32_t parts = 1; parts <= s->executors; parts *= 2) {
        now.column_parts = parts;
        if (e % (parts * UNIT)) break;
        const int32_t groups = linear_warps_state_groups(p, &now), size = d / groups * (e / parts),
                      cost = size * 64 + d / groups + e / parts;
        if (!least || cost < least) least = cost, best = parts;
    }
    return best;
}

/* Feedback `own`. */
static const char *refusal_of_own(AuArena *arena, const AuProblem *p)
{
    if (p->d < UNIT)
        return au_format(arena, "gradients of rows of feedback's own of fewer than %d channels",
                         UNIT);
    if (p->hooks->has_out_mod) return "an out_mod beside feedback by rows of its own";
    if (!warps_copy_ahead(p) || !linear_warps_sums_atom(p))
        return "feedback by rows of its own, for whose decays sums are products of bf16, which "
               "this machine does not have";
    return NULL;
}

/* Decays a channel. */
static const char *refusal_of_channels(AuArena *arena, const AuProblem *p)
{
    if (lin_problem_is_own(p)) return refusal_of_own(arena, p);
    if (p->d <
        UNIT) /* of so few, what factors of pairs are rounded to exceeds the rule of numerics */
        return au_format(arena, "gradients of decays of fewer than %d channels", UNIT);
    if (lin_problem_has(p, AU_SLOT_NORM)) return "a norm beside a decay a channel";
    if (lin_problem_is_fed(p) && p->hooks->has_out_mod)
        return "an out_mod beside a decay a channel and feedback";
    if (lin_problem_has(p, AU_SLOT_BONUS) && lin_problem_has(p, AU_SLOT_WRITE))
        return "a bonus beside a strength";
    if (!warps_copy_ahead(p) || !linear_warps_sums_atom(p))
        return "a decay a channel, whose sums are products of bf16, which this machine does not "
               "have";
    return NULL;
}

static const char *refusal_of_problem(AuArena *arena, const AuProblem *p)
{
    const char *why = linear_warps_refusal(arena, p);
    if (why) return why;
    if (linear_warps_by_channel(p)) {
        const char *of_channel = refusal_of_channels(arena, p);
        if (of_channel) return of_channel;
    }
    if (lin_problem_is_fed(p) && !lin_problem_is_own(p) && p->hooks->normal->before)
        return "feedback and a read before the token";
    if (sums(p, AU_SLOT_V) || sums(p, AU_SLOT_SKIP)) return "a slot that sums over values";
    return p->deterministic && lin_sums_gradients(arena, p) ? "sums in one order" : NULL;
}

static int32_t registers_of(const AuProblem *p, const AuShape *s)
{
    const int32_t d = linear_warps_channels(p), e = linear_warps_value_columns(p, s),
                  parts = s->executors / linear_warps_row_groups(s);
    AuShape whole = *s;
    whole.column_parts = linear_warps_state_parts(p, s);
    const int32_t states = d / linear_warps_state_groups(p, &whole) * (e / whole.column_parts);
    return (states +
            LINEAR_ROWS *
                (d / (linear_warps_key_parts(s) * linear_warps_key_strips(p, s)) + e / parts)) /
           p->caps->lanes;
}

/* What feedback adds: M and y as two numbers, U. */
static int32_t fed_of(const AuProblem *p, const AuShape *s)
{
    const int32_t span = s->swizzle_span, c = s->key_tile, columns = warps_row_bytes(p, span, c);
    return c * (REGISTER * (2 * s->executors + 2) + 2 * s->stages * columns) +
           3 * linear_warps_value_columns(p, s) * columns;
}

/* Of rows of queries and keys that a warp has at once. */
static int32_t row_columns(const AuProblem *p, const AuShape *s)
{
    return linear_warps_channels(p) / (linear_warps_key_parts(s) * linear_warps_key_strips(p, s));
}

/* What a norm adds: its sums and their gradients; what strengths get of them. */
static int32_t norm_of(const AuProblem *p, const AuShape *s)
{
    const int32_t parts =
        linear_warps_key_parts(s) * linear_warps_key_strips(p, s) + linear_warps_row_groups(s);
    return REGISTER * (2 * linear_warps_channels(p) +
                       s->key_tile * (1 + lin_problem_has(p, AU_SLOT_WRITE) * parts));
}

static int32_t shared_of(const AuProblem *p, const AuShape *s)
{
    const int32_t span = s->swizzle_span, d = linear_warps_channels(p), c = s->key_tile,
                  keys = warps_row_bytes(p, span, d),
                  values = warps_row_bytes(p, span, linear_warps_value_columns(p, s)),
                  sums = 2 * linear_warps_key_parts(s) * linear_warps_key_strips(p, s) +
                         3 * s->executors;
    return WARPS_ALIGNMENT + s->stages * c * 2 * (keys + values) + 2 * d * values +
           2 * c * warps_row_bytes(p, span, c) + REGISTER * c * (2 + sums) +
           (lin_problem_is_fed(p) ? fed_of(p, s) : 0) +
           (lin_problem_has(p, AU_SLOT_NORM) ? norm_of(p, s) : 0) +
           (linear_warps_is_staged(p, s) ? 2 * REGISTER * c * d : 0);
}

/* Registers of a lane where a processor has a block of so many warps. */
static int32_t room_of(const AuProblem *p, int32_t warps)
{
    const int32_t all = p->caps->processor_registers / (warps * p->caps->lanes);
    return all < p->caps->registers ? all : p->caps->registers;
}

/* ---- with feedback, chunks apart */

/* With decays a channel, whose rows are a kernel's before it; of two chains the one that has more. */
static int32_t shared_of_channel_chain(const AuProblem *p, const AuShape *s)
{
    const int32_t span = s->swizzle_span, d = linear_warps_channels(p), c = s->key_tile,
                  keys = warps_row_bytes(p, span, d), columns = warps_row_bytes(p, span, c),
                  values = warps_row_bytes(p, span, s->query_tile);
    if (lin_problem_is_fed(p)) /* keys, or rows of feedback's own, as readers; pairs and M; y */
        return WARPS_ALIGNMENT + s->stages * c * (3 * keys + values + 3 * columns) + d * values +
               2 * s->query_tile * columns + 2 * REGISTER * c;
    return WARPS_ALIGNMENT + s->stages * c * (keys + values) + d * values + REGISTER * c;
}

/* Rows without gaps where those leave no room for a second block. */
AuShape linear_warps_chain_shape(const AuProblem *p, const AuShape *s)
{
    AuShape chain = *s;
    chain.stages = warps_copy_ahead(p) ? 2 : 1;
    linear_warps_complete(p, &chain);
    if (!lin_problem_is_fed(p) || !linear_warps_by_channel(p)) return chain;
    AuShape whole = chain;
    whole.swizzle_span = APART_SPAN;
    const int32_t before = shared_of_channel_chain(p, &chain),
                  after = shared_of_channel_chain(p, &whole);
    return before > p->caps->shared_bytes || warps_resident(p, after, whole.executors) >
                                                 warps_resident(p, before, chain.executors)
               ? whole
               : chain;
}

/* With feedback `own` a strip of 16 channels has rows of four kinds: as many warps as strips, so that each has registers, and what rows get need
 * not lie in memory. */
static int32_t executors_of_own(const AuProblem *p, const AuShape *s)
{
    const int32_t strips = linear_warps_channels(p) / UNIT, least = 2 * linear_warps_row_groups(s);
    int32_t executors = least;
    while (executors < strips && executors < OWN_WARPS) executors *= 2;
    return executors;
}

AuShape linear_warps_apart_shape(const AuProblem *p, const AuShape *s)
{
    AuShape apart = {.executors = 4 * linear_warps_row_groups(s),
                     .key_tile = s->key_tile,
                     .query_tile = linear_warps_value_columns(p, s),
                     .column_parts = 1,
                     .stages = 1};
    apart.swizzle_span = warps_copy_ahead(p) ? APART_SPAN : 0;
    if (lin_problem_is_own(p)) apart.executors = executors_of_own(p, s);
    return apart;
}

/* Of `carry`, which has more than `states`. */
static int32_t shared_of_chain(const AuProblem *p, const AuShape *whole)
{
    const AuShape s = linear_warps_chain_shape(p, whole);
    const int32_t span = s.swizzle_span, d = linear_warps_channels(p), c = s.key_tile,
                  keys = warps_row_bytes(p, span, d), columns = warps_row_bytes(p, span, c),
                  values = warps_row_bytes(p, span, s.query_tile);
    return WARPS_ALIGNMENT + s.stages * c * (2 * keys + values + 2 * columns) + d * values +
           (c + 2 * s.query_tile) * columns + c * keys + 3 * REGISTER * c;
}

static int32_t shared_of_apart(const AuProblem *p, const AuShape *whole, int32_t rounds)
{
    const AuShape s = linear_warps_apart_shape(p, whole);
    const int32_t span = s.swizzle_span, d = linear_warps_channels(p), c = s.key_tile,
                  groups = linear_warps_row_groups(&s), parts = s.executors / groups,
                  keys = warps_row_bytes(p, span, d), columns = warps_row_bytes(p, span, c),
                  values = warps_row_bytes(p, span, s.query_tile);
    return WARPS_ALIGNMENT + c * (2 * keys + values) + 2 * d / rounds * values +
           2 * (s.query_tile + c) * columns +
           REGISTER * (c * (2 * (d + LINEAR_ROW_GAP) + 6 + 4 * parts + 2 * groups) + s.executors);
}

/* ---- decays a channel: a chain as above without feedback, pairs, chunks */

/* Of running sums of log decays, f32. */
static int32_t sums_bytes(const AuProblem *p, const AuShape *s)
{
    return s->key_tile * REGISTER * linear_warps_channels(p);
}

static int32_t shared_of_pairs(const AuProblem *p, const AuShape *s)
{
    const int32_t span = s->swizzle_span, c = s->key_tile,
                  keys = warps_row_bytes(p, span, linear_warps_channels(p)),
                  columns = warps_row_bytes(p, span, c), levels = linear_warps_levels(c);
    /* with feedback M, which takes the place of two levels where these are as wide; a, its blocks in f32 */
    const int32_t fed = !lin_problem_is_fed(p)
                            ? 0
                            : c * (2 * columns + REGISTER * (LINEAR_ROWS + 2)) +
                                  (linear_warps_channels(p) < c ? 2 * c * columns : 0);
    /* rows that feedback has of its own, and their levels; three matrices of pairs */
    const int32_t own =
        lin_problem_is_own(p) ? c * ((2 + levels) * keys + 2 * columns + REGISTER) : 0;
    return WARPS_ALIGNMENT + c * (2 + levels) * keys + sums_bytes(p, s) + c * columns +
           2 * REGISTER * c + fed + own;
}

/* With feedback blocks of wide rows have twice the warps, and where a processor has one block. */
AuShape linear_warps_pairs_shape(const AuProblem *p, const AuShape *s)
{
    AuShape pairs = {.executors = 2 * linear_warps_row_groups(s),
                     .key_tile = s->key_tile,
                     .query_tile = s->query_tile,
                     .column_parts = 1,
                     .stages = 1};
    if (pairs.executors < PAIRS_WARPS) pairs.executors = PAIRS_WARPS;
    pairs.swizzle_span = warps_copy_ahead(p) ? APART_SPAN : 0;
    if (lin_problem_is_fed(p) &&
        (linear_warps_channels(p) >= WIDE ||
         warps_resident(p, shared_of_pairs(p, &pairs), pairs.executors) < 2))
        pairs.executors *= 2;
    return pairs;
}

int32_t linear_warps_shared_of_pairs(const AuProblem *p, const AuShape *s)
{
    const AuShape pairs = linear_warps_pairs_shape(p, s);
    return shared_of_pairs(p, &pairs);
}

/* Beside rows, T and pairs: sums of log decays, gradients of rows, pairs by near levels and tiles of ones. */
static int32_t shared_of_channels(const AuProblem *p, const AuShape *whole)
{
    enum { HALF = 2 };
    const AuShape s = linear_warps_apart_shape(p, whole);
    const int32_t span = s.swizzle_span, d = linear_warps_channels(p), c = s.key_tile,
                  keys = warps_row_bytes(p, span, d), columns = warps_row_bytes(p, span, c),
                  values = warps_row_bytes(p, span, s.query_tile),
                  made = d / LINEAR_ROWS > s.executors ? 2 + lin_problem_has(p, AU_SLOT_BONUS) : 1,
                  near = CHANNELS_NEAR * c * warps_row_bytes(p, span, LINEAR_ROWS);
    const bool own = lin_problem_is_own(p);
    if (lin_problem_is_fed(p) && !own) /* U and y where values, T and pairs of queries are; Z */
        return WARPS_ALIGNMENT + c * (2 * keys + values) + 2 * s.query_tile * columns +
               2 * c * columns + 2 * near + (1 + made) * REGISTER * c * (d + LINEAR_ROW_GAP) +
               HALF * (CHANNELS_NEAR * LINEAR_ROWS * LINEAR_ROWS + 2 * c * c) +
               REGISTER * c * (4 + (c + d) / LINEAR_ROWS);
    /* with feedback `own` x and b, P and y; A(x, k), three more gradients of pairs */
    const int32_t more = c * (2 * keys + 4 * columns + REGISTER) + 2 * s.query_tile * columns +
                         3 * near + HALF * LINEAR_ROWS * LINEAR_ROWS;
    return WARPS_ALIGNMENT + 2 * c * (keys + values) + d * values + 2 * c * columns + near +
           (1 + made + (own && made > 1 ? 2 : 0)) * REGISTER * c * (d + LINEAR_ROW_GAP) +
           HALF * (CHANNELS_NEAR * LINEAR_ROWS * LINEAR_ROWS + 2 * c * c) +
           REGISTER * c * (2 + s.executors / linear_warps_row_groups(&s)) + (own ? more : 0);
}

int32_t linear_warps_channels_blocks(const AuProblem *p, const AuShape *s)
{
    /* all tiles begin where the one before ends */
    const int32_t block = shared_of_channels(p, s) - WARPS_ALIGNMENT + p->caps->reserved,
                  warps = LINEAR_APART_BLOCKS * linear_warps_apart_shape(p, s).executors;
    if (lin_problem_is_own(p) && room_of(p, warps) < p->caps->registers) return 1;
    return LINEAR_APART_BLOCKS * block <= p->caps->processor_shared ? LINEAR_APART_BLOCKS : 1;
}

static const char *refusal_of_channel_shape(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const AuShape chain = linear_warps_chain_shape(p, s);
    const int32_t bytes[] = {shared_of_channel_chain(p, &chain), linear_warps_shared_of_pairs(p, s),
                             shared_of_channels(p, s)};
    const int32_t d = linear_warps_channels(p),
                  executors = linear_warps_apart_shape(p, s).executors;
    for (uint32_t n = 0; n < sizeof bytes / sizeof *bytes; n++)
        if (bytes[n] > p->caps->shared_bytes)
            return au_format(arena, "%d bytes of shared memory of %d", bytes[n],
                             p->caps->shared_bytes);
    if (s->key_tile & (s->key_tile - 1) || d % executors || s->key_tile % executors)
        return au_format(arena, "chunks of %d tokens and %d channels among %d warps", s->key_tile,
                         d, executors);
    return NULL;
}

/* ---- the output once more, where something stands behind the read */

static bool needs_output(const AuProblem *p)
{
    return lin_problem_has(p, AU_SLOT_NORM) || p->hooks->has_out_mod;
}

AuShape linear_warps_given_shape(const AuProblem *p, const AuShape *s)
{
    const int32_t groups = linear_warps_row_groups(s), e = linear_warps_padded(p->e);
    return (AuShape){.executors = e % (2 * UNIT) ? groups : 2 * groups,
                     .key_tile = s->key_tile,
                     .query_tile = e,
                     .column_parts = 1,
                     .stages = 1,
                     .swizzle_span = warps_copy_ahead(p) ? APART_SPAN : 0};
}

/* Rows of queries and of keys, or the pairs of both, and values, or U; the state; what q reads, f32. */
static int32_t shared_of_given(const AuProblem *p, const AuShape *whole)
{
    const AuShape s = linear_warps_given_shape(p, whole);
    const int32_t span = s.swizzle_span, d = linear_warps_channels(p), c = s.key_tile,
                  e = s.query_tile, keys = warps_row_bytes(p, span, d),
                  columns = warps_row_bytes(p, span, c), values = warps_row_bytes(p, span, e),
                  read = tile_pitch_bytes(REGISTER * e, tile_swizzle_span(REGISTER * e, span));
    const bool by_token = p->hooks->normal->decay == AU_DECAY_SCALAR;
    const int32_t pairs = linear_warps_by_channel(p) ? c
                          : warps_sums_lie_apart(p)  ? LINEAR_ROWS * s.executors
                                                     : 0;
    return WARPS_ALIGNMENT + c * (linear_warps_by_channel(p) ? 1 : 2) * keys +
           (lin_problem_is_fed(p) ? e * columns : c * values) + pairs * columns + d * values +
           c * (read +
                REGISTER * (by_token + lin_problem_has(p, AU_SLOT_WRITE) + lin_problem_is_fed(p))) +
           (lin_problem_has(p, AU_SLOT_NORM) ? REGISTER * (c + d) : 0);
}

static int32_t given_registers(const AuProblem *p, const AuShape *s)
{
    const AuShape given = linear_warps_given_shape(p, s);
    const int32_t parts = given.executors / linear_warps_row_groups(&given);
    return LINEAR_ROWS * (given.query_tile / parts + given.key_tile) / p->caps->lanes;
}

int32_t linear_warps_given_blocks(const AuProblem *p, const AuShape *s)
{
    /* all tiles begin where the one before ends */
    const int32_t block = shared_of_given(p, s) - WARPS_ALIGNMENT + p->caps->reserved,
                  warps = LINEAR_APART_BLOCKS * linear_warps_given_shape(p, s).executors;
    return LINEAR_APART_BLOCKS * block <= p->caps->processor_shared &&
                   given_registers(p, s) <= room_of(p, warps) * APART_SHARE / 64
               ? LINEAR_APART_BLOCKS
               : 1;
}

const char *linear_warps_given_refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const AuShape given = linear_warps_given_shape(p, s);
    const int32_t d = linear_warps_channels(p), shared = shared_of_given(p, s),
                  registers = given_registers(p, s),
                  room = room_of(p, given.executors) * FRAGMENT_SHARE / 64;
    if (!needs_output(p)) return NULL;
    if (d % given.executors || s->key_tile % given.executors)
        return au_format(arena, "chunks of %d tokens and %d channels among %d warps", s->key_tile,
                         d, given.executors);
    if (shared > p->caps->shared_bytes)
        return au_format(arena, "%d bytes of shared memory of %d for what q reads", shared,
                         p->caps->shared_bytes);
    if (registers > room)
        return au_format(arena, "what q reads takes %d registers of a lane, %d are for it",
                         registers, room);
    return NULL;
}

/* Two, where that makes room for a second block of a processor. */
int32_t linear_warps_apart_rounds(const AuProblem *p, const AuShape *s)
{
    const AuShape apart = linear_warps_apart_shape(p, s);
    if (linear_warps_channels(p) % (2 * LINEAR_ROWS) ||
        linear_warps_channels(p) % (2 * apart.executors))
        return 1;
    /* all tiles begin where the one before ends */
    const int32_t room = p->caps->processor_shared / 2 - p->caps->reserved + WARPS_ALIGNMENT;
    return shared_of_apart(p, s, 1) > room && shared_of_apart(p, s, 2) <= room ? 2 : 1;
}

int32_t linear_warps_rows_at_once(const AuProblem *p, const AuShape *s)
{
    const int32_t vectors = s->query_tile * tile_elem(p->operand)->bytes / VECTOR,
                  power = vectors & -vectors, lanes = p->caps->lanes;
    return lanes / (power < lanes ? power : lanes);
}

/* Those of a warp are whole turns of its lanes, or lanes whole copies of them. */
static bool keeps_rows(const AuProblem *p, const AuShape *s)
{
    const int32_t at_once = linear_warps_rows_at_once(p, s),
                  rows = linear_warps_channels(p) / s->executors;
    return rows && (rows % at_once == 0 || at_once % rows == 0);
}

bool linear_warps_is_apart(const AuProblem *p, const AuShape *s)
{
    const int32_t d = linear_warps_channels(p), e = linear_warps_value_columns(p, s);
    if (!lin_problem_is_fed(p) || s->executors < 2 * linear_warps_row_groups(s) || s->stages != 1 ||
        d % (4 * linear_warps_row_groups(s)))
        return false;
    return shared_of_chain(p, s) <= p->caps->shared_bytes &&
           shared_of_apart(p, s, linear_warps_apart_rounds(p, s)) <= p->caps->shared_bytes &&
           (2 * d + e) * LINEAR_ROWS / p->caps->lanes <=
               room_of(p, 4 * linear_warps_row_groups(s)) * APART_SHARE / 64;
}

bool linear_warps_states_divide(const AuProblem *p, const AuShape *s)
{
    if (s->key_tile % LINEAR_ROWS) return false;
    const int32_t groups = linear_warps_row_groups(s), d = linear_warps_channels(p);
    if (s->executors % (2 * groups) || s->key_tile % s->executors || d % s->executors ||
        (!linear_warps_by_channel(p) && d % (linear_warps_key_parts(s) * UNIT)) ||
        s->executors < s->column_parts ||
        ((lin_problem_is_fed(p) || linear_warps_by_channel(p)) && !keeps_rows(p, s)))
        return false;
    return s->query_tile % (s->column_parts * UNIT) == 0 &&
           s->query_tile % (s->executors / groups * UNIT) == 0;
}

static const char *refusal_of_shape(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const AuTileCaps *caps = p->caps;
    if (!linear_warps_states_divide(p, s))
        return au_format(arena, "%d tokens and widths %d and %d do not divide among %d warps",
                         s->key_tile, p->d, p->e, s->executors);
    linear_warps_complete(p, s);
    const char *behind = linear_warps_given_refusal(arena, p, s);
    if (behind) return behind;
    if (linear_warps_by_channel(p)) return refusal_of_channel_shape(arena, p, s);
    if (lin_problem_has(p, AU_SLOT_NORM) && warps_sums_lie_apart(p) && row_columns(p, s) > COLUMNS)
        return au_format(arena,
                         "a norm where sums are no operands, and %d channels of a row, which would "
                         "be more code than there may be",
                         row_columns(p, s));
    if (!lin_problem_is_fed(p) && s->swizzle_span > SPAN) s->swizzle_span = SPAN;
    const bool apart = linear_warps_is_apart(p, s);
    const int32_t own = apart ? 0 : shared_of(p, s), inverse = linear_warps_shared_of_inverse(p, s),
                  shared = own > inverse ? own : inverse,
                  registers = apart ? 0 : registers_of(p, s),
                  room = room_of(p, s->executors) * FRAGMENT_SHARE / 64;
    if (shared > caps->shared_bytes)
        return au_format(arena, "%d bytes of shared memory of %d", shared, caps->shared_bytes);
    if (registers > room)
        return au_format(arena, "fragments take %d registers of a lane, %d are for them", registers,
                         room);
    if (s->stages > 1 && !warps_copy_ahead(p))
        return au_format(arena, "%s has no asynchronous copies for stages", caps->name);
    return NULL;
}

const char *schedule_linear_warps_backward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = refusal_of_problem(arena, p);
    return why ? why : refusal_of_shape(arena, p, s);
}

/* The kernel of states: strips of columns, so that there are blocks enough, and parts of it that are as square as can be. Without feedback
 * all columns of most widths: `reverse` has no more blocks, and keys are brought once. */
void linear_warps_strips(const AuProblem *p, AuShape *s)
{
    const int32_t all = linear_warps_value_columns(p, s),
                  strip = lin_problem_is_fed(p) ? COLUMNS : 2 * COLUMNS;
    s->query_tile = all % strip ? all % COLUMNS ? all : COLUMNS : strip;
    while (all % s->query_tile ||
           s->query_tile % (s->executors / linear_warps_row_groups(s) * UNIT))
        s->query_tile += UNIT;
    s->column_parts = 1;
    while (s->query_tile / s->column_parts > 2 * UNIT &&
           s->query_tile % (2 * s->column_parts * UNIT) == 0 && 2 * s->column_parts <= s->executors)
        s->column_parts *= 2;
}

static bool shape_of_channels(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    static const int32_t tokens[] = {32, 16};
    for (uint32_t n = 0; n < sizeof tokens / sizeof *tokens; n++) {
        AuShape s = {
            .executors = lin_problem_is_fed(p) ? 4 : 8, .key_tile = tokens[n], .stages = 1};
        linear_warps_strips(p, &s);
        *why = refusal_of_shape(arena, p, &s);
        if (*why) continue;
        *out = s;
        return true;
    }
    return false;
}

bool schedule_linear_warps_backward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                          const char **why)
{
    static const int32_t tokens[] = {64, 32, 16}, warps[] = {8, 16, 4, 2};
    AuProblem halves = *p; /* a machine without such units: nothing to be said of it */
    halves.operand = TILE_F16, halves.tf32 = false;
    *why = NULL;
    if (!warps_atom(&halves)) return false;
    *why = refusal_of_problem(arena, p);
    if (*why) return false;
    for (uint32_t n = 0; lin_problem_is_fed(p) && !linear_warps_by_channel(p) && n < 2; n++) {
        AuShape s = {.executors = 4, .key_tile = tokens[1 + n], .stages = 1};
        linear_warps_strips(p, &s);
        if (linear_warps_is_apart(p, &s) && !refusal_of_shape(arena, p, &s)) {
            *out = s;
            return true;
        }
    }
    if (linear_warps_by_channel(p)) return shape_of_channels(arena, p, out, why);
    for (uint32_t n = 0; n < 3 * 4 * 2; n++) {
        AuShape s = {.executors = warps[n / 2 % 4], .key_tile = tokens[n / 8], .stages = 2 - n % 2};
        if (s.executors % (2 * linear_warps_row_groups(&s))) continue;
        linear_warps_strips(p, &s);
        const char *refused = refusal_of_shape(arena, p, &s);
        if (!refused) {
            *out = s;
            return true;
        }
        if (!*why || s.stages == 1) *why = refused;
    }
    return false;
}
