/* group_cost.c - see group_cost.h.
 *
 * What a tile takes of each part of a processor is counted, as docs/dev/performance-notes.md counts wavefronts of shared memory by the profiler: 3200 a
 * tile of 64 queries and 128 keys at width 128 backward, 3328 of 128 and 128 at width 64. The parts overlap but in part: the shares below were fitted to 70
 * shapes of forward that were measured on H100 and H200 (bf16; widths 64, 128, 256), of which the forecast meets most within 4 % of each other, and backward
 * has the same. What a group does to a tile between its products hides under the products of the others: of G groups a G-th of its way is left. */
#include "group_cost.h"
#include "lanes_back.h"

enum {
    LANES = 128,    /* of a group */
    WORD = 4,       /* bytes */
    WAY_TILE = 600, /* cycles of a group's way: waits, votes, barriers */
    WAY_PAIR = 16,  /* and a pair of a lane: its exponential, sum, rounding, one behind the other */
    BLOCK =
        4000, /* what a block begins and ends with: first loads, last stores, no other under way */
    EXCHANGE_ONE =
        100, /* groups wait for the one tile of dS' until all have multiplied the one before */
    RESULT_ONE = 60, /* and for the one tile of dQ until it has left */
    PART = 150,      /* a part of dQ that is handed over by itself */
    TILE_ISSUE =
        125, /* instructions of a lane and tile that do not depend on how many pairs: products, barriers, places */
    BACK_TILE_ISSUE = 262,
    BACK_PAIR_ISSUE = 7, /* instructions of a pair; counted in machine code of full attention */
};

static const double PAIR_ISSUE = 4.5;
/* Shares of what parts take, that do not hide under each other. */
static const double UNITS = .2, POWERS = .17, SHARED = .68, ISSUE = .5, WAY = .63;
/* Without `ahead` half of a group's products have no other's beside them. */
static const double ALONE = .5;
/* A group that passes over tiles waits for those of the block all the same where others hold the stage. */
static const double PASSED = .8;

static double larger(double a, double b) { return a > b ? a : b; }
static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

bool group_is_ranked(const AuProblem *p)
{
    const AuTileCaps *rates = tile_rates(p->caps);
    return p->caps->group_matrix > 0 && p->caps->bulk_sums > 0 && rates->exp > 0 &&
           rates->shared > 0 && p->caps->schedulers > 0;
}

int32_t group_cost_rows(const AuProblem *p) { return p->short_rows ? GROUP_SHORT : GROUP_LONG; }

const char *group_limit(const GroupCost *c)
{
    const struct {
        double cycles;
        const char *name;
    } all[] = {{c->shared, "shared memory"},
               {c->units, "matrix units"},
               {c->powers, "exponentials"},
               {c->issue, "issue"},
               {c->sums, "sums of dQ"}};
    uint32_t of = 0;
    for (uint32_t n = 1; n < sizeof all / sizeof *all; n++)
        if (all[n].cycles > all[of].cycles) of = n;
    return all[of].name;
}

/* ---- tiles of a block of rows, by how masks cut them */

/* Rows of the other side that rows [begin, end) see of [all], in tiles of [tile]; [of_keys]: rows are keys, which are seen from themselves on. */
static int32_t tiles_of(const AuProblem *p, int32_t begin, int32_t end, int32_t all, int32_t tile,
                        bool of_keys)
{
    const AuMaskKind kind = schedule_mask_kind(p);
    int32_t low = 0, high = all;
    if (kind != AU_MASK_FULL) {
        if (of_keys)
            low = begin;
        else
            high = end;
    }
    if (kind == AU_MASK_WINDOW) {
        if (of_keys)
            high = least(all, end + GROUP_WINDOW - 1);
        else
            low = most(0, begin - GROUP_WINDOW + 1);
    }
    return (high - 1) / tile - low / tile + 1;
}

static double pairs_of(const AuProblem *p, int32_t rows)
{
    const double all = rows, seen = least(GROUP_WINDOW, rows);
    switch ((int)schedule_mask_kind(p)) {
    case AU_MASK_FULL: return all * all;
    case AU_MASK_WINDOW: return seen * (seen + 1) / 2 + (all - seen) * seen;
    }
    return all * (all + 1) / 2;
}

/* Of a block of [groups] times 64 rows; with [passes] groups pass over what they do not see. */
static double tiles_of_block(const AuProblem *p, int32_t begin, int32_t groups, int32_t tile,
                             bool passes, bool of_keys)
{
    const int32_t all = group_cost_rows(p), end = begin + groups * GROUP_ROWS;
    const double block = tiles_of(p, begin, least(end, all), all, tile, of_keys);
    double own = 0;
    if (!passes) return block;
    for (int32_t g = 1; g <= groups; g++)
        own += tiles_of(p, begin, least(begin + g * GROUP_ROWS, all), all, tile, of_keys);
    return PASSED * own / groups + (1 - PASSED) * block;
}

/* A pair's share of what all blocks of a head take. */
static void add_up(const AuProblem *p, const AuShape *s, int32_t groups, int32_t tile, bool of_keys,
                   GroupCost *c)
{
    const int32_t rows = group_cost_rows(p), step = groups * GROUP_ROWS;
    double tiles = 0, blocks = 0;
    for (int32_t begin = 0; begin < rows; begin += step, blocks++)
        tiles += tiles_of_block(p, begin, groups, tile, s->passes, of_keys);
    c->pair = (tiles * c->tile + blocks * (BLOCK + c->way)) / pairs_of(p, rows);
}

static double together(const GroupCost *c, int32_t groups)
{
    const double shares =
        UNITS * c->units + POWERS * c->powers + SHARED * c->shared + ISSUE * c->issue;
    const double longest =
        larger(larger(c->units, c->powers), larger(larger(c->issue, c->shared), c->sums));
    return larger(shares, longest) + WAY * c->way / groups;
}

/* ---- forward */

GroupCost group_forward_cost(const AuProblem *p, const AuShape *s)
{
    const AuTileCaps *rates = tile_rates(p->caps);
    const int32_t bytes = tile_elem(p->operand)->bytes, groups = s->executors, keys = s->key_tile,
                  rows = GROUP_ROWS;
    int32_t d = p->d;
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) d += lanes_dot_width(p, n);
    const double pairs = (double)rows * keys, scores = pairs * d / p->caps->group_matrix,
                 products = pairs * (d + p->e) / p->caps->group_matrix,
                 pairs_of_lane = pairs / LANES;
    const double queries = s->query_in_registers ? 0 : (double)rows * d,
                 tile = (double)keys * (d + p->e);
    GroupCost c = {
        .units = groups * products,
        .powers = groups * pairs / rates->exp,
        .issue = groups * (pairs_of_lane * PAIR_ISSUE + TILE_ISSUE),
        .shared = bytes * (groups * (queries + tile) + tile) / rates->shared,
        .way = scores + WAY_PAIR * pairs_of_lane + WAY_TILE,
    };
    c.tile = together(&c, groups) + (s->scores_ahead ? 0 : ALONE * products) +
             (s->stages > 1 ? 0 : rates->latency);
    add_up(p, s, groups, keys, false, &c);
    return c;
}

/* ---- backward */

/* Of lanes that load statistics of the tile's rows: two a row, a word a lane and column that it holds. */
static double statistics(const AuShape *s, double a_row)
{
    enum { COLUMN_LANES = 4 };
    return a_row * LANES * s->query_tile / COLUMN_LANES * 2 * WORD;
}

/* The kernel whose blocks own queries, where dQ is made by itself: three products of a pair, of which a group starts none ahead. */
static double queries_pair(const AuProblem *p)
{
    const AuTileCaps *rates = tile_rates(p->caps);
    AuShape s;
    if (group_queries_shape(p->attn->arena, p, &s)) return 0;
    const int32_t bytes = tile_elem(p->operand)->bytes, groups = s.executors, keys = s.key_tile,
                  rows = GROUP_ROWS;
    const double pairs = (double)rows * keys, pairs_of_lane = pairs / LANES, d = p->d, e = p->e,
                 products = pairs * (2 * d + e) / p->caps->group_matrix;
    GroupCost c = {
        .units = groups * products,
        .powers = groups * pairs / rates->exp,
        .issue = groups * (pairs_of_lane * BACK_PAIR_ISSUE + TILE_ISSUE),
        .shared = bytes * (groups * (rows * (d + e) + keys * (2 * d + e)) + keys * (d + e)) /
                  rates->shared,
        .way = products + WAY_PAIR * pairs_of_lane + WAY_TILE,
    };
    c.tile = together(&c, groups);
    add_up(p, &s, groups, keys, false, &c);
    return c.pair;
}

static GroupCost back_cost(const AuProblem *p, const AuShape *s, double of_products, double shared,
                           int32_t keys, double parts)
{
    const AuTileCaps *rates = tile_rates(p->caps);
    const int32_t groups = s->executors;
    const double queries = s->query_tile, own = GROUP_ROWS * queries,
                 first = own * (p->d + p->e) / p->caps->group_matrix, pairs_of_lane = own / LANES;
    GroupCost c = {
        .units = (double)keys * queries * of_products / p->caps->group_matrix,
        .powers = groups * own / rates->exp,
        .issue = groups * (pairs_of_lane * BACK_PAIR_ISSUE + BACK_TILE_ISSUE),
        .shared = shared / rates->shared,
        .sums = s->with_dq ? queries * p->d * WORD / p->caps->bulk_sums : 0,
        .way = first + WAY_PAIR * pairs_of_lane + WAY_TILE,
    };
    c.tile = together(&c, groups) + (s->stages > 1 ? 0 : rates->latency);
    if (s->with_dq)
        c.tile += (s->exchange_stages > 1 ? 0 : EXCHANGE_ONE) +
                  (s->result_stages > 1 ? 0 : RESULT_ONE) + PART * (parts - 1);
    add_up(p, s, keys / GROUP_ROWS, s->query_tile, true, &c);
    if (!s->with_dq) c.pair += queries_pair(p);
    return c;
}

GroupCost group_backward_cost(const AuProblem *p, const AuShape *s)
{
    const double bytes = tile_elem(p->operand)->bytes, groups = s->executors, rows = GROUP_ROWS,
                 m = s->query_tile, d = p->d, e = p->e, keys = rows * groups;
    const double columns = group_back_columns(s) > 0 ? group_back_columns(s) : 1;
    /* operands of S' and dP', of dV and dK; Q and dO in; and of dQ with dS', dQ in and out */
    const double operands =
        groups * (rows * (d + e - s->value_channels) + m * (d + e) + m * (d + e));
    const double of_dq =
        bytes * (groups * (rows * keys + keys * d / columns) + keys * m) + 2 * WORD * m * d;
    const double shared =
        bytes * (operands + m * (d + e)) + (s->with_dq ? of_dq : 0) + statistics(s, 2) * groups / 2;
    return back_cost(p, s, (s->with_dq ? 3 : 2) * d + 2 * e, shared, s->executors * GROUP_ROWS, 1);
}

/* Both groups make the scores; one has dQ = dS K, a part of the channels at a time, for each of which dS is read again. */
GroupCost group_back_wide_cost(const AuProblem *p, const AuShape *s)
{
    const double bytes = tile_elem(p->operand)->bytes, rows = GROUP_ROWS, m = s->query_tile,
                 d = p->d, e = p->e, parts = s->query_parts;
    const double operands = 2 * (rows + m) * d + (rows + m) * e + m * (d + e);
    const double of_dq = bytes * (parts * m * rows + rows * d + rows * m) + 2 * WORD * m * d;
    const double shared =
        bytes * (operands + m * (d + e)) + (s->with_dq ? of_dq : 0) + statistics(s, 1.5);
    return back_cost(p, s, (s->with_dq ? 4 : 3) * d + 2 * e, shared, GROUP_ROWS, parts);
}
