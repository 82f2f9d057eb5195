/* warps_back_shape.c - block shapes of warps_backward, by a model of what a tile costs.
 *
 * All shapes multiply as much a pair. What differs is what they read of shared memory for it, what they add to the sums of dQ, and
 * how often warps wait for each other. Cycles of a processor (rates: its row of caps.def), for a tile of queries and the block's keys:
 *
 *     memory     bytes through shared memory: operands of products, copies of queries, dS' and P'; sums of dQ, which go on to memory
 *     matrix     multiply-adds, at the same time: the longer of the two counts
 *     pairs      instructions for scores and their gradients, and what waits for them
 *     waits      barriers; copies, where they are not a tile ahead; what begins and ends a tile
 *
 * Two blocks on a processor, which wait for no barrier of each other, do with APART of the time. The constants are a fit to
 * 29 shapes of widths 32 to 256 on an H200, whose times they give within 4 % on average and 9 % at most. Cycles a pair, without a
 * mask, bf16 (measured / by the model), warps x rows / those that share keys, queries a tile, stages:
 *
 *     width 64    4x32, 64, 2   .405 .401     4x32, 32, 2     .448 .452     8x32, 64, 2     .442 .459     8x32/2, 64, 2   .552 .601
 *     width 128   8x32/2, 64, 2 .895 .892     8x16, 64, 2     .976 .988     8x32/4, 64, 2   1.22 1.27
 *     width 256   8x32/4, 64, 2 2.18 2.18     8x16/2, 64, 2   2.32 2.37     8x16/2, 64, 1   2.41 2.39
 *
 * Foretold, then measured: width 192, 8x32/4, 128, 1: 1.57 1.55; width 96, 4x32/2, 64, 2: .711 .724. */
#include "lanes_back.h"

enum {                      /* 64ths of a lane's registers */
       FRAGMENT_SHARE = 48, /* accumulators and what is alive with them */
       PAIR_SHARE = 16,     /* of them for pairs, */
       SUM_SHARE = 32,      /* for sums, */
       FEWER_SHARE = 41,    /* of all where there is less room: beyond these ptxas spills; */
       HELD_SHARE = 40,     /* of all, where operands stay there, which live as long as sums */
};
enum {
    PAIR_INSTRUCTIONS = 14,
    MANY_COPIES = 16, /* 16-byte vectors of a tile that a lane copies */
    MOST_PASSING = 4, /* of those on their way through registers; with 8 gfx950 spills */
};
/* TILE: what begins and ends a tile, of a barrier; COPY: what waiting for copies that are not a tile ahead takes, of the latency. */
static const double APART = 0.84, SPILLED = 1.3, CROWDED = 1.15, TILE = 1.4, COPY = 13. / 14;
/* What shapes are chosen by, but no forecast has in it, since no device has told what it costs. AVOIDED: shapes of machines whose rows say when
 * the compiler spills; NARROW: operands that are read 16 bits at a time, where tiles of both orders do not fit: rather than that any shape
 * whose do, but for one that spills. */
static const double AVOIDED = 4, NARROW = 2;

typedef struct Cost {
    int32_t registers, pairs, sums, held; /* of a lane: all, of pairs, sums, operands that stay */
    int32_t shared;                       /* bytes */
    int32_t copied;                       /* by a lane: 16-byte vectors of a tile */
    double cycles;                        /* of a tile of queries */
} Cost;

static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

int32_t warps_back_swizzle_span(const AuProblem *p)
{
    enum { WIDE = 512, SPAN = 32, VECTOR = 16 };
    return warps_copy_ahead(p) && p->d + p->e >= WIDE ? SPAN : VECTOR;
}

/* Channels of further products; and bytes of their rows in shared memory. */
static int32_t padded_dots(const Lanes *x, int32_t *row_bytes)
{
    int32_t sum = 0;
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) {
        const int32_t width = warps_padded(x->atom, lanes_dot_width(x->p, n));
        sum += width, *row_bytes += warps_row_bytes(x->p, warps_back_swizzle_span(x->p), width);
    }
    return sum;
}

/* Widths, padded: channels of keys and those of further products; of output gradients; all that have sums of their own. */
typedef struct Widths {
    int32_t own, d, e, sums;
    int32_t row_bytes,
        own_e_bytes; /* of queries and output gradients in shared memory; of values */
} Widths;

static Widths widths_of(const Lanes *x)
{
    const AuProblem *p = x->p;
    Widths w = {.own = warps_padded(x->atom, p->d)};
    w.e = x->own_v ? warps_padded(x->atom, p->e) : w.own;
    int32_t d_bytes = warps_row_bytes(p, warps_back_swizzle_span(p), w.own);
    w.d = w.own + padded_dots(x, &d_bytes);
    w.sums = w.d + (x->own_v ? w.e : 0);
    w.row_bytes = d_bytes + warps_row_bytes(p, warps_back_swizzle_span(p), w.e);
    w.own_e_bytes = x->own_v ? warps_row_bytes(p, warps_back_swizzle_span(p), w.e) : 0;
    return w;
}

static int32_t shared_of(const Lanes *x, const Widths *w)
{
    const AuShape *s = x->shape;
    if (s->far) return warps_totals_bytes(x);
    const int32_t e_bytes = warps_row_bytes(x->p, warps_back_swizzle_span(x->p), w->e),
                  d_bytes = w->row_bytes - e_bytes;
    const int32_t statistics = 4 * (int32_t)back_row_count(x, true) * s->query_tile;
    const int32_t of_pairs = !warps_has_ds(x) ? 0
                             : warps_back_via_shared(x) || warps_dq_is_late(x)
                                 ? 2
                                 : 1; /* dS, and P or dS again */
    if (warps_back_turns(x)) return warps_turned_bytes(x);
    return WARPS_ALIGNMENT + warps_totals_bytes(x) +
           (warps_keys_are_shared(x) ? x->block * d_bytes : 0) +
           (warps_keys_are_direct(x) ? 0 : x->block * w->own_e_bytes) +
           s->stages * (s->query_tile * w->row_bytes + statistics) +
           of_pairs * x->block *
               warps_row_bytes(x->p, warps_back_swizzle_span(x->p), s->query_tile);
}

/* Elements that all warps read of shared memory, for a tile. */
static double reads_of(const Lanes *x, const Widths *w, const WarpsPieces *piece)
{
    const AuShape *s = x->shape;
    const int32_t columns = warps_pair_columns(x);
    const int32_t scores =
        s->query_parts * ((s->keys_in_registers ? 0 : s->rows) + columns) * (w->d + w->e);
    const int32_t keys = s->query_tile * (w->d + w->e) / s->column_parts +
                         (warps_back_via_shared(x) ? 2 * s->rows * s->query_tile : 0);
    const int32_t queries = x->block * (piece->rows + piece->channels) * warps_dq_turns(x, piece);
    return (double)s->executors * (scores + keys + queries);
}

static double cycles_of(const Lanes *x, const Widths *w, const WarpsPieces *piece)
{
    const AuShape *s = x->shape;
    const AuTileCaps *rates = tile_rates(x->p->caps);
    const double pairs = (double)x->block * s->query_tile, bytes = tile_elem(x->p->operand)->bytes;
    const int32_t buffers = warps_back_via_shared(x) ? 2 : 1; /* that pairs are written to */
    const double written = buffers * pairs + s->query_tile * (w->d + w->e);
    const double sums = (double)sizeof(float) * s->query_tile * w->d / rates->sums;
    const double memory = bytes * (reads_of(x, w, piece) + written) / rates->shared + sums;
    const double matrix = pairs * (3 * w->d + 2 * w->e) * bytes / 2 / rates->matrix;
    const int32_t barriers = warps_dq_is_late(x)                     ? 1
                             : s->stages > 1 || s->column_parts == 1 ? 2
                                                                     : 3;
    return (memory > matrix ? memory : matrix) + pairs * PAIR_INSTRUCTIONS / rates->fma +
           (barriers + TILE) * rates->barrier + (s->stages == 1 ? COPY * rates->latency : 0);
}

static Cost cost_of(const Lanes *x)
{
    const AuProblem *p = x->p;
    const AuShape *s = x->shape;
    const int32_t lanes = p->caps->lanes, bytes = tile_elem(p->operand)->bytes;
    const Widths w = widths_of(x);
    const WarpsPieces piece = warps_dq_pieces(x, w.own);
    const int32_t columns = warps_pair_columns(x);
    /* Of a pair: its two products, further ones, what else is kept of it. */
    const int32_t kept = 2 + (int32_t)p->hooks->dot_count + warps_kept_values(x);
    const int32_t pairs = s->rows * columns * kept / lanes;
    const int32_t held = (s->keys_in_registers ? s->rows * w.sums * bytes / 4 / lanes : 0) +
                         warps_held_turned_keys(x, &piece);
    const int32_t copied = s->query_tile * (w.d + w.e) * bytes / 16 / s->executors / lanes;
    const int32_t sums = s->rows * w.sums / s->column_parts / lanes;
    return (Cost){
        .registers = sums + held + most(pairs, piece.rows * piece.channels / lanes),
        .pairs = pairs,
        .sums = sums,
        .held = held,
        .copied = copied,
        .shared = shared_of(x, &w),
        .cycles = cycles_of(x, &w, &piece),
    };
}

/* Does each of the warps that share keys have whole columns of the products? */
static bool parts_divide(const Lanes *x)
{
    const int32_t unit = x->atom->n * x->shape->column_parts;
    bool divide =
        warps_padded(x->atom, x->p->d) % unit == 0 && warps_padded(x->atom, x->p->e) % unit == 0;
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++)
        divide &= warps_padded(x->atom, lanes_dot_width(x->p, n)) % unit == 0;
    return divide && x->shape->executors % x->shape->column_parts == 0;
}

/* Operands straight from tensors: rows that lie one behind the other, loaded in either order, which the unit of blocks does. */
static const char *refusal_of_far(const Lanes *x)
{
    const AuProblem *p = x->p;
    const AuShape *s = x->shape;
    AuShape of_queries;
    if (!tile_takes_surfaces(p->caps))
        return au_format(x->arena, "operands straight from tensors, which %s has no loads for",
                         p->caps->name);
    if (attn_has_layout(p->attn) && !(p->caps->loads & TILE_LOADS_BLOCK))
        return "operands straight from tensors, of packed or padded rows";
    if (p->attn->keys.layout == AU_LAYOUT_PAGED) return "operands straight from tensors, of pages";
    if (!x->own_v || p->hooks->dot_count || warps_heads_apart(p))
        return "operands straight from tensors, of further products, of values among keys or with "
               "heads of their own";
    return s->stages == 1 && !s->via_shared && !warps_sums_lie_apart(p) &&
                   warps_far_queries_shape(p, &of_queries)
               ? NULL
               : "operands straight from tensors beside stages, or tiles of queries in shared "
                 "memory";
}

/* Why the shape does not do, or NULL. */
static const char *refusal(Lanes *x)
{
    const AuShape *s = x->shape;
    if (s->far && refusal_of_far(x)) return refusal_of_far(x);
    if (s->query_tile % x->atom->m || s->rows % x->atom->m)
        return au_format(x->arena, "%d queries or %d keys are no rows of %s", s->query_tile,
                         s->rows, x->atom->name);
    const Cost cost = cost_of(x);
    if (s->query_tile % (s->executors * (s->far ? 1 : 4)) ||
        warps_pair_columns(x) % most(x->atom->k, x->atom->n))
        return au_format(x->arena, "%d queries do not divide among %d warps", s->query_tile,
                         s->executors);
    if (s->query_parts > 1 && warps_back_via_shared(x)) return "parts of queries via shared memory";
    if (s->keys_in_registers && warps_sums_lie_apart(x->p))
        return "operands that do not lie as sums do";
    if (s->via_shared && !warps_exchanges(x->p))
        return "weights by way of shared memory, where lanes exchange none";
    if (!parts_divide(x)) return "channels do not divide among the warps that share keys";
    if (cost.shared > x->p->caps->shared_bytes)
        return au_format(x->arena, "%d bytes of shared memory of %d", cost.shared,
                         x->p->caps->shared_bytes);
    const int32_t there =
        tile_share(x->p->caps, s->keys_in_registers ? HELD_SHARE : FRAGMENT_SHARE);
    if (cost.registers > there)
        return au_format(x->arena, "fragments take %d registers of a lane, %d are for them",
                         cost.registers, there);
    if (s->stages > 1 && !warps_are_async(x)) return "no asynchronous copies for stages";
    return NULL;
}

const char *schedule_warps_back_refusal(AuArena *arena, const AuProblem *p, const AuShape *shape)
{
    AuSchedule scratch = {.shape = *shape};
    const char *why = warps_refusal_of_problem(arena, p);
    if (!why && warps_atom(p)->by_place && !warps_atom(p)->joins)
        why = "gradients' operands by way of memory";
    if (!why) why = warps_back_refusal(arena, p);
    if (!why && warps_atom(p)->of_block && attn_has_layout(p->attn))
        why = "matrices of a block beside rows in a layout"; /* as of forward (warps_shape.c) */
    if (why) return why;
    Lanes x = warps_back_begin(arena, NULL, p, &scratch);
    return refusal(&x);
}

/* Was the compiler seen to spill with as much? Of AMD's machines their rows say when, else it is ptxas. Fewer registers are left where a
 * lane copies many vectors of a tile, where sums are added number by number, and where a third barrier keeps more alive, unless four
 * warps share 32 keys (not measured with tf32). */
static bool spills(const Lanes *x, const Cost *cost)
{
    const AuShape *s = x->shape;
    const bool quarters =
        s->column_parts == 4 && s->rows == 32 && tile_elem(x->p->operand)->bytes == 2;
    const AuTileCaps *caps = x->p->caps;
    if (caps->lone_rows && s->rows > x->atom->m) return true;
    if (warps_back_passes(x) && !warps_is_cramped(x) && cost->copied > MOST_PASSING) return true;
    /* Beside a tile that passes through registers pairs were seen to take three and a half. */
    const int32_t passing = warps_back_passes(x) && warps_passes_ahead(x->p) ? cost->pairs / 2 : 0;
    if (caps->back_held &&
        cost->sums + cost->held + passing + 3 * cost->pairs > tile_share(caps, caps->back_held))
        return true;
    const bool roomy = caps->sum_words >= 4 && (s->stages > 1 || quarters);
    return cost->pairs > tile_share(caps, PAIR_SHARE) || cost->sums > tile_share(caps, SUM_SHARE) ||
           (!roomy && cost->registers + cost->copied > tile_share(caps, FEWER_SHARE));
}

/* With a mask, addresses of many copies that are a tile ahead are reloaded in every tile, 124 bytes at width 256: there two stages
 * take 11.4 ms where one, which waits for its copies and spills 28 bytes, takes 10.5 (causal, 16384 rows of 8 heads). */
static bool is_crowded(const Lanes *x, const Cost *cost)
{
    return x->p->attn->mask.i && x->shape->stages > 1 && cost->copied >= MANY_COPIES;
}

static bool reads_narrowly(const Lanes *x) { return warps_turns(x->p) && !warps_back_turns(x); }

/* Cycles a pair, of all that a processor has at once: the forecast; and what it is chosen by, in [rank]. */
static double price(const Lanes *x, double *rank)
{
    const Cost cost = cost_of(x);
    const int32_t blocks = warps_resident(x->p, cost.shared, x->shape->executors);
    const int32_t warps = blocks * x->shape->executors;
    const double pairs = (double)x->block * x->shape->query_tile;
    const bool spilled = spills(x, &cost), known = x->p->caps->back_held > 0;
    const double cycles = (blocks > 1 ? APART : 1) * (spilled && !known ? SPILLED : 1) *
                          (is_crowded(x, &cost) ? CROWDED : 1) * cost.cycles / pairs *
                          warps_enough(x->p, warps);
    *rank = cycles * (spilled && known ? AVOIDED : 1) * (reads_narrowly(x) ? NARROW : 1);
    return cycles;
}

/* One of [options], and the number of what is left to choose. */
static int32_t choice(uint32_t *number, const int32_t *options, uint32_t count)
{
    const int32_t chosen = options[*number % count];
    *number /= count;
    return chosen;
}

/* Shape [number]; false: there are no more. */
static bool candidate(uint32_t number, AuShape *out)
{
    static const int32_t warps[] = {8, 4, 2}, rows[] = {32, 16, 8}, queries[] = {128, 64, 32, 16};
    static const int32_t stages[] = {2, 1}, column_parts[] = {1, 2, 4}, query_parts[] = {1, 2, 4};
    *out = (AuShape){.column_parts = choice(&number, column_parts, 3)};
    out->query_parts = choice(&number, query_parts, 3);
    out->stages = choice(&number, stages, 2);
    out->keys_in_registers = choice(&number, (const int32_t[]){false, true}, 2);
    out->query_tile = choice(&number, queries, 4);
    out->rows = choice(&number, rows, 3);
    out->executors = choice(&number, warps, 3);
    return number == 0;
}

/* Operands straight from tensors: the fewest warps with the same keys, which make the same pairs; the most queries; keys and values in registers if they fit, too. */
static bool far_shape(AuArena *arena, const AuProblem *p, AuShape *out)
{
    static const int32_t queries[] = {64, 32, 16}, parts[] = {1, 2, 4};
    const AuTileAtom *atom = warps_atom(p);
    const int32_t d = warps_padded(atom, p->d), e = warps_padded(atom, p->e);
    for (int32_t n = 0; n < 3 * 2 * 3; n++) {
        const AuShape s = {.executors = p->caps->schedulers,
                           .rows = atom->m,
                           .query_tile = queries[n / 2 % 3],
                           .stages = 1,
                           .column_parts = parts[n / 6],
                           .query_parts = 1,
                           .keys_in_registers = n % 2 == 0,
                           .far = true,
                           .split_segments = true};
        AuSchedule scratch = {.shape = s};
        const Lanes x = warps_back_begin(arena, NULL, p, &scratch);
        const int32_t kept = 2 + warps_kept_values(&x);
        const WarpsFar needs = {.sums = s.rows * (d + e) / s.column_parts,
                                .held = s.keys_in_registers ? s.rows * (d + e) : 0,
                                .pairs = kept * s.rows * s.query_tile,
                                .made = 2 * s.rows * s.query_tile};
        *out = s;
        if (!schedule_warps_back_refusal(arena, p, out) && warps_far_fits(p, &needs)) return true;
    }
    return false;
}

bool schedule_warps_back_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    double best = 0, forecast = 0;
    AuShape s;
    *why = NULL;
    if (tile_takes_surfaces(p->caps) && warps_atom(p) && far_shape(arena, p, out)) return true;
    for (uint32_t n = 0; candidate(n, &s); n++) {
        const char *refused = schedule_warps_back_refusal(arena, p, &s);
        if (refused) {
            if (!best) *why = refused;
            continue;
        }
        AuSchedule scratch = {.shape = s};
        const Lanes x = warps_back_begin(arena, NULL, p, &scratch);
        double rank;
        const double cycles = price(&x, &rank);
        if (!best || rank < best) best = rank, forecast = cycles, *out = s, *why = NULL;
    }
    out->swizzle_span = warps_back_swizzle_span(p);
    out->forecast = forecast;
    return best > 0;
}
