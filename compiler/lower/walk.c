/* walk.c - the statements of a role, in order: runs of assignments are gathered for fuse.c, loops and
 * branches opened and closed, everything else handed to the file that lowers it. A scalar that a loop
 * or branch sets must outlive it: it is a cell. */
#include "internal.h"

void lower_bind_value(AuLower *l, const AuTileVar *var, AuVal value)
{
    AuHeld *held = lower_held(l, var);
    held->as = HELD_VALUE;
    held->value = value;
}

/* A value, or a cell where it is set in several places or in a branch. */
void lower_set_scalar(AuLower *l, const AuTileVar *var, AuVal value)
{
    if (lower_count(l, var)->defs == 1 && !l->r.in_branch)
        lower_bind_value(l, var, value);
    else
        kernel_store(l->k, lower_var_array(l, var), kernel_i32(l->k, 0), value, (AuVal){0});
}

static void range_loop(AuLower *l, const AuTileStmt *s)
{
    const AuVal low = lower_integer(l, s->loop.low), high = lower_integer(l, s->loop.high);
    lower_bind_value(l, s->var, kernel_for(l->k, low, high, 1, AU_UNROLL_NEVER));
    lower_walk(l, &s->loop.body);
    kernel_end(l->k);
}

/* ---- loops over tiles */

/* One loop over all segments, or all but the first or last tiles; which one a tile belongs to is known from its number. */
static void loop_of_all(AuLower *l, const AuTileStmt *s, AuTiles *tiles)
{
    AuKernel *k = l->k;
    const AuVal first = s->loop.low ? lower_integer(l, s->loop.low) : kernel_i32(k, 0);
    AuVal end = tiles->total;
    if (s->loop.high) end = kernel_op2(k, AU_K_MIN, end, lower_integer(l, s->loop.high));
    lower_follow_from(l, tiles, first);
    tiles->turn = kernel_for(k, first, end, 1, AU_UNROLL_NEVER);
    const AuVal tile = lower_tile_at(l, tiles, tiles->turn, &l->r.in_segment),
                followed = lower_follow(l, tiles);
    l->r.asked_segment = tiles->at[0].s->name;
    lower_bind_value(l, s->var, followed.i ? followed : tile);
}

/* The loop over one segment, from tile [low] to [high] of all: nothing in it asks which one it is in. */
static void loop_of_segment(AuLower *l, const AuTileStmt *s, AuTiles *tiles)
{
    AuKernel *k = l->k;
    const uint32_t n = (uint32_t)s->loop.segment->integer;
    l->r.counts = tile_count_role(l->arena, l->r.role, s);
    AuVal first = kernel_i32(k, 0);
    if (s->loop.low)
        first = kernel_op2(k, AU_K_MAX, first,
                           kernel_op2(k, AU_K_SUB, lower_integer(l, s->loop.low), tiles->start[n]));
    AuVal end = tiles->at[n].count;
    if (s->loop.high)
        end = kernel_op2(k, AU_K_MIN, end,
                         kernel_op2(k, AU_K_SUB, lower_integer(l, s->loop.high), tiles->start[n]));
    lower_follow_from(l, tiles, kernel_op2(k, AU_K_ADD, tiles->start[n], first));
    const AuVal t = kernel_for(k, first, end, 1, AU_UNROLL_NEVER);
    tiles->turn = kernel_op2(k, AU_K_ADD, tiles->start[n], t);
    const AuVal tile = lower_follow(l, tiles);
    lower_bind_value(l, s->var, tile.i ? tile : lower_tile_of_segment(l, &tiles->at[n], t));
}

static void list_loop(AuLower *l, const AuTileStmt *s)
{
    const AuRoleState outer = l->r;
    AuTiles *tiles = lower_tiles(l, s->loop.list);
    if (!tiles) {
        lower_refuse(l, "this loop over tiles");
        return;
    }
    const AuTiles before = *tiles;
    tiles->var = s->var;
    if (s->loop.segment)
        loop_of_segment(l, s, tiles);
    else
        loop_of_all(l, s, tiles);
    lower_walk(l, &s->loop.body);
    kernel_end(l->k);
    if (s->loop.segment) l->r.counts = tile_count_role(l->arena, l->r.role, NULL);
    *tiles = before;
    l->r.tiles_count = outer.tiles_count;
    l->r.asked_segment = outer.asked_segment;
    l->r.in_segment = outer.in_segment;
}

/* One uniform branch: tiles of segments called as the first, and all others. */
static void on_segment(AuLower *l, const AuTileStmt *s)
{
    const bool before = l->r.in_branch;
    if (s->on.segment != l->r.asked_segment) {
        lower_refuse(l, "`on %s` in a loop that begins with other tiles", s->on.segment);
        return;
    }
    l->r.in_branch = true;
    kernel_if(l->k, l->r.in_segment);
    l->r.beside = &s->on.other;
    lower_walk(l, &s->on.body);
    kernel_else(l->k);
    l->r.beside = &s->on.body;
    lower_walk(l, &s->on.other);
    l->r.beside = NULL;
    kernel_end(l->k);
    l->r.in_branch = before;
}

static void branch(AuLower *l, const AuTileStmt *s)
{
    const AuPoint nowhere = {.count = 0};
    const bool before = l->r.in_branch;
    l->r.in_branch = true;
    kernel_if(l->k, lower_as(l, lower_eval(l, s->branch.test, &nowhere), AU_I1));
    lower_walk(l, &s->branch.then);
    if (s->branch.other.count) {
        kernel_else(l->k);
        lower_walk(l, &s->branch.other);
    }
    kernel_end(l->k);
    l->r.in_branch = before;
}

static const char *text_of(AuLower *l, const AuTileStmt *s)
{
    AuText text = {.arena = l->arena};
    tile_print_stmt(s, &text);
    return au_text_str(&text);
}

static void note(AuLower *l, const AuTileStmt *s) { kernel_note(l->k, text_of(l, s)); }

static void statement(AuLower *l, const AuTileStmt *s)
{
    lower_at_statement(l, s);
    if (lower_is_opaque(s)) {
        note(l, s), lower_opaque(l, s);
        return;
    }
    switch (s->kind) {
    case TILE_S_FRAG: break; /* its array is made when it is first used */
    case TILE_S_PRIVATE: lower_add_buffer(l, s->memory); break;
    case TILE_S_LOAD: note(l, s), lower_load(l, s); break;
    case TILE_S_MOVE: note(l, s), lower_move(l, s); break;
    case TILE_S_PREFETCH: note(l, s), lower_prefetch(l, s); break;
    case TILE_S_PRODUCT: note(l, s), lower_product(l, s); break;
    case TILE_S_WAIT: lower_wait(l, s); break;
    case TILE_S_ACQUIRE:
    case TILE_S_WAIT_STAGE: note(l, s), lower_open_stage(l, s); break;
    case TILE_S_COMMIT:
    case TILE_S_RELEASE: lower_close_stage(l, s); break;
    case TILE_S_SYNC:
    case TILE_S_ARRIVE: lower_meet(l, s); break;
    case TILE_S_FOR:
        if (s->loop.list_name)
            list_loop(l, s);
        else
            range_loop(l, s);
        break;
    case TILE_S_IF: branch(l, s); break;
    case TILE_S_ON: on_segment(l, s); break;
    case TILE_S_PART: lower_part(l, s); break;
    case TILE_S_JOIN: lower_join(l, s); break;
    case TILE_S_CONVERT: note(l, s), lower_convert(l, s); break;
    case TILE_S_ASSIGN: lower_running_sum(l, s); break; /* all others stand in runs */
    case TILE_S_RETURN: break;
    }
}

/* How many loads from [first] on go together; 0: none. */
static uint32_t loads_at(AuLower *l, const AuTileStmts *body, uint32_t first)
{
    uint32_t count = 0;
    const uint32_t fewest = l->module->options.passing ? 1 : 2;
    if (!l->module->options.together || !l->r.unit->written_out) return 0;
    while (first + count < body->count && body->at[first + count]->kind == TILE_S_LOAD &&
           !lower_is_opaque(body->at[first + count]) &&
           lower_load_exists_twice(l, body->at[first + count]))
        count++;
    return count >= fewest ? count : 0;
}

static void loads(AuLower *l, AuTileStmt *const *s, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        lower_at_statement(l, s[n]);
        note(l, s[n]);
    }
    lower_fragment_loads(l, s, count);
}

void lower_walk(AuLower *l, const AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count && !l->failed;) {
        const uint32_t together = loads_at(l, body, n);
        if (together) {
            loads(l, body->at + n, together);
            n += together;
            continue;
        }
        uint32_t end = n;
        while (end < body->count && tile_is_in_run(body->at[end])) end++;
        const bool into =
            end > n && end < body->count && tile_starts_product(body->at[end - 1], body->at[end]);
        if (end - into > n && lower_has_places(body->at + n, end - into - n))
            lower_by_place(l, body->at + n, end - into - n);
        else if (end - into > n)
            lower_assignments(l, body->at + n, end - into - n);
        l->r.start = into ? body->at[end - 1]->assign.value : NULL;
        if (into || end == n) statement(l, body->at[end++]);
        l->r.start = NULL;
        n = end;
    }
}
