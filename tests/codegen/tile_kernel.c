#include "tile_kernel.h"

typedef struct Tile {
    AuKernel *k;
    const TileShape *shape;
    AuMem keys, queries, scores, sums;
    AuVal row, column, lane;
    int32_t pair; /* elements that a step of d takes */
} Tile;

static AuVal none(void) { return (AuVal){0}; }
static AuVal number(Tile *t, uint32_t n) { return kernel_i32(t->k, (int32_t)n); }
static AuVal times(Tile *t, AuVal a, uint32_t by)
{
    return kernel_op2(t->k, AU_K_MUL, a, number(t, by));
}
static AuVal plus(Tile *t, AuVal a, AuVal b) { return kernel_op2(t->k, AU_K_ADD, a, b); }
static AuVal sum_at(Tile *t, AuVal row, uint32_t vector)
{
    return plus(t, times(t, row, t->shape->vectors), number(t, vector));
}
/* The column of S in lane 0 .. of a vector. */
static AuVal column_of(Tile *t, uint32_t vector)
{
    return plus(t, plus(t, t->column, t->lane), number(t, vector * t->shape->lanes));
}

static void clear(Tile *t)
{
    AuVal n = kernel_for(t->k, number(t, 0), number(t, t->shape->rows * t->shape->vectors), 1,
                         AU_UNROLL_FULL);
    kernel_store(t->k, t->sums, n, kernel_f32(t->k, 0), none());
    kernel_end(t->k);
}

/* One step: all sums += K[rows, d] Q[d, vectors]. */
static void step(Tile *t, AuVal d)
{
    const TileShape *shape = t->shape;
    const uint32_t width = (uint32_t)t->pair;
    AuVal queries[8];
    for (uint32_t v = 0; v < shape->vectors; v++) {
        AuVal at = plus(t, times(t, d, TILE * width), times(t, column_of(t, v), width));
        queries[v] = kernel_load(t->k, t->queries, at, width, none(), none());
    }
    AuVal row = kernel_for(t->k, number(t, 0), number(t, shape->rows), 1, AU_UNROLL_FULL);
    AuVal at = plus(t, times(t, plus(t, t->row, row), shape->depth), times(t, d, width));
    AuVal key = kernel_load(t->k, t->keys, at, width, none(), none());
    for (uint32_t v = 0; v < shape->vectors; v++) {
        AuVal sum = kernel_load(t->k, t->sums, sum_at(t, row, v), 1, none(), none());
        sum = shape->dot ? kernel_dot2(t->k, sum, key, queries[v])
                         : kernel_op3(t->k, AU_K_FMA, key, queries[v], sum);
        kernel_store(t->k, t->sums, sum_at(t, row, v), sum, none());
    }
    kernel_end(t->k);
}

static void write_scores(Tile *t)
{
    AuVal row = kernel_for(t->k, number(t, 0), number(t, t->shape->rows), 1, AU_UNROLL_FULL);
    for (uint32_t v = 0; v < t->shape->vectors; v++) {
        AuVal at = plus(t, times(t, plus(t, t->row, row), TILE), column_of(t, v));
        kernel_store(t->k, t->scores, at,
                     kernel_load(t->k, t->sums, sum_at(t, row, v), 1, none(), none()), none());
    }
    kernel_end(t->k);
}

AuKernel *tile_kernel(AuArena *arena, const TileShape *shape)
{
    AuKernel *k = kernel_new(arena, "tile", shape->lanes, 1);
    Tile t = {.k = k, .shape = shape, .pair = shape->dot ? 2 : 1};
    const AuScalar scalar = shape->dot ? AU_BF16 : AU_F32;
    k->banner = "product tile\nS = K Q";
    t.keys = kernel_tensor(k, "K", scalar, true, false, 0, 0);
    t.queries = kernel_tensor(k, "Q", scalar, true, false, 0, 0);
    t.scores = kernel_tensor(k, "S", AU_F32, false, true, 0, 0);
    t.sums = kernel_memory(k, (AuMemory){.name = "acc",
                                         .space = AU_LANE,
                                         .scalar = AU_F32,
                                         .count = shape->rows * shape->vectors});
    AuVal often = kernel_arg(k, "often", AU_ARG_I32, 0, 0, 0);
    t.lane = kernel_lane(k);
    kernel_for(k, number(&t, 0), often, 1, AU_UNROLL_NEVER);
    t.row = kernel_for(k, number(&t, 0), number(&t, TILE / shape->rows * shape->rows),
                       (int32_t)shape->rows, AU_UNROLL_NEVER);
    t.column = kernel_for(k, number(&t, 0), number(&t, TILE),
                          (int32_t)(shape->lanes * shape->vectors), AU_UNROLL_NEVER);
    clear(&t);
    kernel_note(k, "S = K Q");
    AuVal d = kernel_for(k, number(&t, 0), number(&t, shape->depth / (uint32_t)t.pair),
                         (int32_t)shape->unroll, AU_UNROLL_NEVER);
    AuVal u = kernel_for(k, number(&t, 0), number(&t, shape->unroll), 1, AU_UNROLL_FULL);
    step(&t, plus(&t, d, u));
    kernel_end(k);
    kernel_end(k);
    kernel_note(k, "write S");
    write_scores(&t);
    kernel_end(k);
    kernel_end(k);
    kernel_end(k);
    return k;
}
