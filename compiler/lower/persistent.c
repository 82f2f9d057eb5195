/* persistent.c - blocks that stay: as many as the device has processors are launched, and each works through every so many-th block of
 * the grid (`option persistent`), so that the loads of one begin while the results of the one before leave.
 *
 *     counters = 0
 *     for t in 0 .. cdiv(blocks of the grid - block, blocks launched) {
 *         item = block + t * blocks launched; positions in the grid, lets, tile lists; the role
 *     }
 *
 * Each role has the loop for itself. Barriers and pipelines go on from one block to the next, and with them the counters of turns,
 * which the role sets to 0 before anything else. What is right under the tiled interpreter's `items` is right so. */
#include "internal.h"

/* The grid's blocks in the order in which they would have been launched: the first axis fastest. */
static void bind_positions(AuLower *l, AuVal item)
{
    AuKernel *k = l->k;
    const AuTileKernel *t = l->tile;
    for (uint32_t axis = 0; axis < t->grid.count; axis++) {
        const AuVal extent = lower_integer(l, t->grid.at[axis].extent);
        const AuVal at = axis + 1 < t->grid.count ? kernel_op2(k, AU_K_IMOD, item, extent) : item;
        for (uint32_t n = 0; n < t->vars.count; n++)
            if (t->vars.at[n]->origin == TILE_FROM_GRID && t->vars.at[n]->axis == axis)
                lower_bind_value(l, t->vars.at[n], at);
        item = kernel_op2(k, AU_K_IDIV, item, extent);
    }
}

static AuVal blocks_of_grid(AuLower *l)
{
    AuVal all = kernel_i32(l->k, 1);
    for (uint32_t n = 0; n < l->tile->grid.count; n++)
        all = kernel_op2(l->k, AU_K_MUL, all, lower_integer(l, l->tile->grid.at[n].extent));
    return all;
}

/* Is it the number of a stage's turn? */
static bool is_counter(const AuTileStmts *body, const AuTileVar *var)
{
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        const bool opens = s->kind == TILE_S_ACQUIRE || s->kind == TILE_S_WAIT_STAGE;
        if (opens && tile_count_reads(s->stage.turn, var)) return true;
        for (uint32_t i = 0; i < parts.body_count; i++)
            if (is_counter(parts.bodies[i], var)) return true;
    }
    return false;
}

void lower_each_block(AuLower *l, void (*block)(AuLower *l, const AuTileStmts *body))
{
    AuKernel *k = l->k;
    const AuTileStmts *all = &l->r.role->body;
    uint32_t counters = 0;
    while (counters < all->count && tile_assigned(all->at[counters]) &&
           is_counter(all, all->at[counters]->var))
        counters++;
    const AuTileStmts before = {.at = all->at, .count = counters},
                      rest = {.at = all->at + counters, .count = all->count - counters};
    lower_walk(l, &before);
    const AuVal first = kernel_block(k, 0), step = kernel_blocks(k, 0),
                beyond = kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_SUB, blocks_of_grid(l), first),
                                    kernel_op2(k, AU_K_SUB, step, kernel_i32(k, 1)));
    const AuVal turn =
        kernel_for(k, kernel_i32(k, 0), kernel_op2(k, AU_K_IDIV, beyond, step), 1, AU_UNROLL_NEVER);
    bind_positions(l, kernel_op2(k, AU_K_ADD, first, kernel_op2(k, AU_K_MUL, turn, step)));
    block(l, &rest);
    kernel_end(k);
}
