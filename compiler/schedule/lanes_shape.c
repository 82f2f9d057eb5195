/* lanes_shape.c - what multiplies in forward kernels of the schedule `lanes`, and their shapes by rule. */
#include "key_storage.h"

Lanes lanes_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out)
{
    const int32_t rows = p->caps->lanes * out->shape.query_registers;
    return (Lanes){.t = t,
                   .p = p,
                   .shape = &out->shape,
                   .out = out,
                   .arena = arena,
                   .on_cpu = p->caps->has_private,
                   .own_v = !p->attn->v_in_k || schedule_values_apart(p),
                   .rows = rows,
                   .block = rows * out->shape.executors,
                   .operand = tile_elem(p->operand)->name};
}

/* Widths that are no multiples of what the atom contracts at once (a matrix unit, or pairs), and values that are
 * parts of keys at matrix units, go by multiply-adds of f32, and so do what does not fit the matrix units of warps
 * and few queries, for which values are not worth transposing. */
const AuTileAtom *lanes_forward_atom(const AuProblem *p, AuTileExecutor on)
{
    const AuTileAtom *atom = tile_best_atom(p->caps, p->operand, on);
    if (!atom || atom->k == 1) return atom;
    bool fits = p->d % atom->k == 0;
    for (uint32_t n = 0; n < p->hooks->dot_count; n++)
        fits = fits && lanes_dot_width(p, n) % atom->k == 0;
    if (atom->k > 2)
        fits = fits && on == TILE_ON_THREAD && p->queries != AU_FEW_QUERIES &&
               p->e % atom->m == 0 && !p->attn->v_in_k;
    return fits ? atom : tile_best_atom(p->caps, TILE_F32, on);
}

/* f32 numbers that the tiles hold for each key. */
static int32_t memory_of_a_key(const AuProblem *p)
{
    int32_t numbers = p->d + (p->attn->v_in_k && !schedule_values_apart(p) ? 0 : p->e);
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) numbers += lanes_dot_width(p, n);
    return numbers;
}

/* Does a matrix unit of the core multiply? */
static bool has_matrix(const AuProblem *p)
{
    const AuTileAtom *atom = p->caps->has_private ? lanes_forward_atom(p, TILE_ON_THREAD) : NULL;
    return atom && atom->k > 2;
}

/* Of a CPU: what the queries fill at least half. */
static int32_t block_rows(const AuProblem *p)
{
    switch (p->queries) {
    case AU_FEW_QUERIES: return 16;
    case AU_SOME_QUERIES: return 64;
    case AU_DECODE_QUERIES:
    case AU_CHUNK_QUERIES:
    case AU_PAGED_QUERIES:
    case AU_MIXED_QUERIES:
    case AU_ANY_QUERIES:
    case AU_QUERIES: break;
    }
    return p->attn->mask.i || has_matrix(p) ? 128 : 256;
}

/* A CPU: 128 query rows a block share the cost of bringing K and V (256 where no mask makes border
 * tiles); blocks of products fill the vector registers (measured: docs/performance.md); fewer rows
 * where the fragments of wide heads would leave the L2. Tiles of 128 keys for matrix units, where the sums
 * that a product loads and stores cost more than it does. A GPU: a row a lane, tiles of
 * keys as large as shared memory allows; in pieces where queries and sums have room in a lane's registers, since what does not is
 * read again for each. */
AuShape schedule_lanes_shape(const AuProblem *p)
{
    enum { MOST_NUMBERS = 512 }; /* so that tiles of wide heads leave room on a thread's stack */
    const AuTileCaps *caps = p->caps;
    AuShape s = {.executors = 1,
                 .key_tile = 64,
                 .product_rows = 6,
                 .product_columns = caps->has_private ? caps->registers / 8 : 4};
    if (!caps->has_private) {
        const int32_t row_bytes = 4 * memory_of_a_key(p) + schedule_code_bytes(p);
        s.query_registers = 1;
        s.executors = 4;
        s.key_tile = 32;
        s.product_rows = 16;
        /* Two numbers at once leave room for twice the keys: sums round half as often (2003 keys by eights: 1.1 of what the rule allows). */
        const int32_t keys = caps->pair_rows * (caps->pairs ? 2 : 1);
        if (p->d + p->e + keys <= caps->registers) s.pair_rows = keys;
        while (s.key_tile > 2 && s.key_tile * row_bytes > caps->shared_bytes) s.key_tile /= 2;
        if (s.executors > s.key_tile)
            s.executors = s.key_tile; /* each copies a share of the keys */
        return s;
    }
    if (has_matrix(p) && memory_of_a_key(p) <= MOST_NUMBERS) s.key_tile = 128;
    /* Queries (twice where they are converted), output, scores and those of further products, a few
     * row statistics. */
    const int32_t queries =
        memory_of_a_key(p) - (p->attn->v_in_k && !schedule_values_apart(p) ? 0 : p->e);
    const int32_t of_a_row = queries + (p->operand == TILE_F32 ? 0 : (queries + 1) / 2) + p->e +
                             s.key_tile * (1 + (int32_t)p->hooks->dot_count) + 32;
    s.query_registers = block_rows(p) / caps->lanes;
    while (s.query_registers > 1 && s.query_registers * of_a_row > caps->private_words)
        s.query_registers /= 2;
    if (s.product_columns > s.query_registers) s.product_columns = s.query_registers;
    if (p->queries == AU_FEW_QUERIES)
        s.key_tile = 32; /* keys, values and weights in the first cache */
    if (s.product_columns == 1) s.product_rows = 16; /* as many sums in flight */
    return s;
}

static int32_t rows_for(const AuProblem *p, AuQueries queries)
{
    AuProblem one = *p;
    one.queries = queries;
    return schedule_lanes_shape(&one).query_registers * p->caps->lanes;
}

/* Blocks between the smallest and the usual ones gain less than a third where those are 128 rows. */
int32_t schedule_lanes_limit(const AuProblem *p, AuQueries queries)
{
    const int32_t any = rows_for(p, AU_ANY_QUERIES), few = rows_for(p, AU_FEW_QUERIES);
    const bool some = 4 * rows_for(p, AU_SOME_QUERIES) <= any;
    if (!p->caps->has_private) return 0;
    switch (queries) {
    case AU_SOME_QUERIES: return some ? any / 2 : 0;
    case AU_FEW_QUERIES: return few >= any ? 0 : some ? 2 * few : any / 2;
    case AU_DECODE_QUERIES: return schedule_decode_limit(p);
    case AU_CHUNK_QUERIES:
    case AU_PAGED_QUERIES:
    case AU_MIXED_QUERIES:
    case AU_ANY_QUERIES:
    case AU_QUERIES: break;
    }
    return 0;
}
