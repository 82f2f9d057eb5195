/* warps_back_shape.c - block shapes of warps_backward, by rule.
 *
 * All shapes multiply as much a pair. What differs is what they read of shared memory for it, which is as scarce as the matrix
 * units are, and how often warps wait for each other. So the best shape reads least a pair, a barrier counted as so many bytes,
 * among those with enough warps at work. */
#include "lanes_back.h"

enum {
    FRAGMENT_REGISTERS = 192, /* of a lane: accumulators and what is alive with them */
    FEWER_REGISTERS = 176,    /* with one stage, whose third barrier keeps more alive, */
    PAIR_REGISTERS = 96,      /* and of pairs: beyond these ptxas begins to spill */
    TILE_COST = 32768,        /* of two barriers and the loop, in bytes of shared memory */
    ENOUGH_WARPS = 8,
};

typedef struct Cost {
    int32_t registers, pairs, shared; /* registers of a lane: all, of pairs; bytes */
    int64_t bytes;                    /* read from shared memory by all warps, a tile of queries */
} Cost;

static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* Channels of further products; and bytes of their rows in shared memory. */
static int32_t padded_dots(const Lanes *x, int32_t *row_bytes)
{
    int32_t sum = 0;
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) {
        const int32_t width = warps_padded(x->atom, lanes_dot_width(x->p, n));
        sum += width, *row_bytes += warps_row_bytes(x->p, width);
    }
    return sum;
}

static Cost cost_of(const Lanes *x)
{
    const AuProblem *p = x->p;
    const AuShape *s = x->shape;
    const int32_t bytes = tile_elem(p->operand)->bytes, lanes = p->caps->lanes;
    const bool split = x->by_memory || s->column_parts > 1;
    /* Channels of keys and those of further products; of output gradients. */
    const int32_t own = warps_padded(x->atom, p->d),
                  e = x->own_v ? warps_padded(x->atom, p->e) : own;
    int32_t d_bytes = warps_row_bytes(p, own);
    const int32_t e_bytes = warps_row_bytes(p, e), d = own + padded_dots(x, &d_bytes);
    const int32_t columns = s->query_tile / s->column_parts;
    int32_t rows = 0, channels = 0;
    warps_dq_piece(x, own, &rows, &channels);
    /* In halves of a register: a pair's two products, its weight and dS' as operands, what else is kept of it. */
    const int32_t halves =
        (split ? 4 : 5) + 2 * (int32_t)p->hooks->dot_count + 2 * warps_kept_values(x);
    const int32_t sums = s->rows * (d + (x->own_v ? e : 0)) / s->column_parts / lanes;
    const int32_t pairs = s->rows * columns * halves / 2 / lanes;
    const int32_t scores = (s->rows + columns) * (d + e);
    const int32_t keys =
        s->query_tile * (d + e) / s->column_parts + (split ? 2 * s->rows * s->query_tile : 0);
    const int32_t queries = x->block * (rows + channels);
    const int32_t statistics = 4 * (int32_t)back_row_count(x) * s->query_tile;
    return (Cost){
        .registers = sums + most(pairs, rows * channels / lanes),
        .pairs = pairs,
        .shared = WARPS_ALIGNMENT + x->block * (d_bytes + (x->own_v ? e_bytes : 0)) +
                  s->stages * (s->query_tile * (d_bytes + e_bytes) + statistics) +
                  (1 + split) * x->block * warps_row_bytes(p, s->query_tile),
        .bytes = (int64_t)bytes * s->executors * (scores + keys + queries),
    };
}

/* Why the shape does not do, or NULL. */
static const char *refusal(Lanes *x)
{
    const AuShape *s = x->shape;
    const Cost cost = cost_of(x);
    if (s->query_tile % (s->executors * 4) ||
        s->query_tile / s->column_parts % most(x->atom->k, x->atom->n))
        return au_format(x->arena, "%d queries do not divide among %d warps", s->query_tile,
                         s->executors);
    if (cost.shared > x->p->caps->shared_bytes)
        return au_format(x->arena, "%d bytes of shared memory of %d", cost.shared,
                         x->p->caps->shared_bytes);
    if (cost.registers > FRAGMENT_REGISTERS)
        return au_format(x->arena, "fragments take %d registers of a lane, %d are for them",
                         cost.registers, FRAGMENT_REGISTERS);
    if (s->stages > 1 && !warps_are_async(x)) return "no asynchronous copies for stages";
    return NULL;
}

const char *schedule_warps_back_refusal(AuArena *arena, const AuProblem *p, const AuShape *shape)
{
    AuSchedule scratch = {.shape = *shape};
    const char *why = warps_refusal_of_problem(arena, p);
    if (!why) why = warps_back_refusal(arena, p);
    if (why) return why;
    Lanes x = warps_back_begin(arena, NULL, p, &scratch);
    return refusal(&x);
}

/* Less is better. */
static double price(const Lanes *x)
{
    const Cost cost = cost_of(x);
    const int32_t blocks = warps_resident(x->p, cost.shared, x->shape->executors);
    const int32_t warps = blocks * x->shape->executors;
    const double pairs = (double)x->block * x->shape->query_tile;
    const double late = x->shape->stages > 1 ? 1 : 1.1; /* waits for copies */
    const bool spills =
        cost.pairs > PAIR_REGISTERS || (x->shape->stages == 1 && cost.registers > FEWER_REGISTERS);
    return late * (spills ? 1.5 : 1) * ((double)cost.bytes + TILE_COST) / pairs *
           (warps < ENOUGH_WARPS ? (double)ENOUGH_WARPS / warps : 1);
}

bool schedule_warps_back_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    static const int32_t warps[] = {8, 4, 2}, rows[] = {32, 16}, queries[] = {128, 64, 32, 16};
    double best = 0;
    *why = NULL;
    for (uint32_t n = 0; n < 3 * 2 * 4 * 2 * 2; n++) {
        const AuShape s = {.executors = warps[n / 32],
                           .rows = rows[n / 16 % 2],
                           .query_tile = queries[n / 4 % 4],
                           .stages = 2 - (int32_t)(n / 2 % 2),
                           .column_parts = 1 + (int32_t)(n % 2)};
        const char *refused = schedule_warps_back_refusal(arena, p, &s);
        if (refused) {
            if (!best) *why = refused;
            continue;
        }
        AuSchedule scratch = {.shape = s};
        const Lanes x = warps_back_begin(arena, NULL, p, &scratch);
        const double now = price(&x);
        if (!best || now < best) best = now, *out = s, *why = NULL;
    }
    return best > 0;
}
