/* counts.c - what a role does with each of its variables. */
#include "tile.h"

typedef struct Counts {
    AuArena *arena;
    AuTileCount *at;
    uint32_t slots;
    const AuTileStmt *loop;
} Counts;

static void count_reads(Counts *c, const AuTileExpr *e)
{
    if (!e) return;
    if (e->var && !tile_is_of_kernel(e->var)) {
        c->at[e->var->slot].uses += e->op == TILE_X_NAME;
        c->at[e->var->slot].followed |= e->op == TILE_X_NEXT;
    }
    for (uint32_t n = 0; n < e->args.count; n++) count_reads(c, e->args.at[n]);
}

static void count_body(Counts *c, const AuTileStmts *body);

static void count_statement(Counts *c, AuTileStmt *s)
{
    const AuTileParts parts = tile_parts(s);
    AuTileCount *of = s->var ? &c->at[s->var->slot] : NULL;
    if (of && s->kind != TILE_S_PART && s->kind != TILE_S_JOIN)
        of->defs += s->kind != TILE_S_FRAG || s->frag.init;
    for (uint32_t n = 0; n < parts.read_count; n++) count_reads(c, *parts.reads[n]);
    count_reads(c, parts.dest);
    if (s->kind == TILE_S_PRODUCT && of) {
        of->restarted |= !s->product.add && of->defs == 1;
        of->uses += s->product.add;
        if (s->product.atom->k > 2 && (s->product.atom->on & 1u << TILE_ON_THREAD) &&
            s->product.b->var)
            c->at[s->product.b->var->slot].pair_axis = s->product.contracted;
    }
    for (uint32_t n = 0; n < parts.body_count && s->kind != TILE_S_ON; n++)
        count_body(c, parts.bodies[n]);
}

static uint32_t *definitions(const Counts *c)
{
    uint32_t *defs = AU_NEW_ARRAY(c->arena, uint32_t, c->slots);
    for (uint32_t n = 0; n < c->slots; n++) defs[n] = c->at[n].defs;
    return defs;
}

/* One of several ways to go on from the definitions at [begin]. */
static void count_way(Counts *c, const AuTileStmts *way, const uint32_t *begin)
{
    const uint32_t *most = definitions(c);
    for (uint32_t n = 0; n < c->slots; n++) c->at[n].defs = begin[n];
    count_body(c, way);
    for (uint32_t n = 0; n < c->slots; n++)
        if (c->at[n].defs < most[n]) c->at[n].defs = most[n];
}

static void count_body(Counts *c, const AuTileStmts *body)
{
    const uint32_t *begin = NULL; /* before the loop over the first segment, or a branch */
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const bool alone = s->kind == TILE_S_FOR && s->loop.segment;
        if (alone && c->loop && c->loop->loop.list == s->loop.list &&
            c->loop->loop.segment->integer != s->loop.segment->integer)
            continue;
        if (s->kind == TILE_S_ON || (alone && !s->loop.segment->integer)) begin = definitions(c);
        if (s->kind == TILE_S_ON) {
            count_way(c, &s->on.body, begin);
            count_way(c, &s->on.other, begin);
        } else if (alone && begin && !c->loop)
            count_way(c, &s->loop.body, begin);
        else
            count_statement(c, s);
    }
}

AuTileCount *tile_count_role(AuArena *arena, const AuTileRole *role, const AuTileStmt *loop)
{
    const uint32_t slots = role->vars.count + 1;
    Counts c = {arena, AU_NEW_ARRAY(arena, AuTileCount, slots), slots, loop};
    count_body(&c, &role->body);
    return c.at;
}
