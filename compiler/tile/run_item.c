/* run_item.c - what a kernel knows of the block of the grid that it runs: sizes, parameters, lets and lists of tiles. */
#include "machine.h"

#include <string.h>

static bool set_scalar(Agent *a, const AuTileVar *v, double value)
{
    Tile *t = &a->item->vars[v->slot];
    *t = stored_tile(a->m->arena, v->type);
    if (t->f)
        *t->f = (float)value;
    else
        *t->i = (int32_t)value;
    return true;
}

static bool set_param(Agent *a, const AuTileVar *v)
{
    for (uint32_t i = 0; i < a->m->launch->param_count; i++)
        if (strcmp(a->m->launch->params[i].name, v->name) == 0)
            return set_scalar(a, v, a->m->launch->params[i].value);
    return run_error(a, AU_E0714, NULL, "parameter %s has no value", v->name);
}

static bool set_scalars(Agent *a, const int64_t *block)
{
    const AuTileKernel *k = a->m->kernel;
    for (uint32_t i = 0; i < k->vars.count; i++) {
        const AuTileVar *v = k->vars.at[i];
        if (v->origin == TILE_FROM_SIZE)
            set_scalar(a, v, (double)a->m->args[v->arg]->size[v->axis]);
        else if (v->origin == TILE_FROM_PARAM && !set_param(a, v))
            return false;
        else if (v->origin == TILE_FROM_GRID && block)
            set_scalar(a, v, (double)block[v->axis]);
    }
    for (uint32_t i = 0; block && i < k->lets.count; i++) {
        Tile value;
        a->stmt = k->lets.at[i];
        a->m->scratch.used = 0;
        if (!eval(a, k->lets.at[i]->assign.value, &value)) return false;
        set_scalar(a, k->lets.at[i]->var, value.f ? (double)*value.f : (double)*value.i);
    }
    a->stmt = NULL;
    return true;
}

static void add_tile(Machine *m, struct TileRun *run, const char *segment, int64_t tile)
{
    AU_PUSH(m->arena, run->segments.at, run->segments.count, run->segments.capacity, segment);
    AU_PUSH(m->arena, run->tiles.at, run->tiles.count, run->tiles.capacity, (int32_t)tile);
}

/* Tiles whose numbers stand in a row of an index tensor. */
static bool list_tiles(Agent *a, const AuTileSegment *g, int64_t count, struct TileRun *run)
{
    const Memory *m = NULL;
    for (uint32_t i = 0; i < a->m->kernel->args.count; i++)
        if (a->m->kernel->args.at[i] == g->a->memory) m = a->m->args[i];
    int64_t at = 0, step = 0, room = 0;
    for (uint32_t d = 0; d < g->a->args.count; d++) {
        int64_t p = 0;
        if (g->a->args.at[d]->op == TILE_X_ALL) {
            step = m->stride[d];
            room = m->size[d];
        } else if (!eval_integer(a, g->a->args.at[d], &p)) {
            return false;
        } else if (p < 0 || p >= m->size[d]) {
            return run_error(a, AU_E0710, NULL, "position %lld of %s is outside", (long long)p,
                             m->name);
        }
        at += p * m->stride[d];
    }
    if (count > room)
        return run_error(a, AU_E0710, NULL, "%lld tiles in a row of %lld", (long long)count,
                         (long long)room);
    for (int64_t n = 0; n < count; n++) add_tile(a->m, run, g->name, m->i[at + n * step]);
    return true;
}

static bool make_list(Agent *a, const AuTileList *list, struct TileRun *run)
{
    run->ends = AU_NEW_ARRAY(a->m->arena, uint32_t, list->segments.count);
    for (uint32_t i = 0; i < list->segments.count; i++) {
        const AuTileSegment *g = &list->segments.at[i];
        int64_t low = 0, high;
        if (!eval_integer(a, g->b, &high) ||
            (g->how != TILE_INDEX_LIST && !eval_integer(a, g->a, &low)))
            return false;
        if (g->how == TILE_INDEX_LIST && !list_tiles(a, g, high, run)) return false;
        if (g->how == TILE_RANGE)
            for (int64_t n = low; n < high; n++) add_tile(a->m, run, g->name, n);
        if (g->how == TILE_DOWN)
            for (int64_t n = low; n-- > high;) add_tile(a->m, run, g->name, n);
        run->ends[i] = run->tiles.count;
    }
    return true;
}

bool make_item(Agent *a, const int64_t *block, Item *item)
{
    const AuTileKernel *k = a->m->kernel;
    item->vars = AU_NEW_ARRAY(a->m->arena, Tile, k->vars.count);
    item->lists = AU_NEW_ARRAY(a->m->arena, struct TileRun, k->lists.count);
    a->item = item;
    if (!set_scalars(a, block)) return false;
    for (uint32_t i = 0; block && i < k->lists.count; i++)
        if (!make_list(a, k->lists.at[i], &item->lists[i])) return false;
    return true;
}
