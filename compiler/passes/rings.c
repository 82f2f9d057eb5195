/* rings.c - loops over the rings of a pipeline.
 *
 *     for half in range(0, 2) { s = acquire scores[half] .. }     s = acquire scores[0] .. s = acquire scores[1] ..
 *
 * Each ring counts its turns, so a stage must say which ring it is of by a constant. A loop of few turns whose variable chooses rings
 * is written out; one with declarations in it, or of bounds that are not known, stays, and the lowering refuses it. */
#include "pass.h"

enum { MOST_TURNS = 8 };

static bool reads(const AuTileExpr *e, const char *name)
{
    if (!e) return false;
    bool found = e->op == TILE_X_NAME && e->name == name;
    for (uint32_t n = 0; n < e->args.count; n++) found |= reads(e->args.at[n], name);
    return found;
}

typedef struct Found {
    bool ring, declaration;
} Found;

static void find(Found *f, const AuTileStmts *body, const char *name)
{
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++) find(f, parts.bodies[i], name);
        f->declaration |= s->kind == TILE_S_FRAG;
        if (s->kind == TILE_S_ACQUIRE || s->kind == TILE_S_WAIT_STAGE)
            f->ring |= reads(s->stage.index, name);
    }
}

static bool chooses_rings(const AuTileStmt *s)
{
    if (s->kind != TILE_S_FOR || s->loop.list_name) return false;
    const AuTileExpr *low = s->loop.low, *high = s->loop.high;
    Found f = {false, false};
    if (low->op != TILE_X_INT || high->op != TILE_X_INT ||
        high->integer - low->integer > MOST_TURNS)
        return false;
    find(&f, &s->loop.body, s->loop.var_name);
    return f.ring && !f.declaration;
}

/* ---- a turn: the body with a number in place of the variable */

static void put_expr(AuTileExpr *e, const char *name, int64_t value)
{
    if (!e) return;
    if (e->op == TILE_X_NAME && e->name == name) {
        e->op = TILE_X_INT;
        e->name = NULL;
        e->integer = value;
    }
    for (uint32_t n = 0; n < e->args.count; n++) put_expr(e->args.at[n], name, value);
}

static void put(AuTileStmts *body, const char *name, int64_t value)
{
    for (uint32_t n = 0; n < body->count; n++)
        for (const AuTileField *f = tile_fields(body->at[n]->kind); f->kind; f++) {
            void *at = (char *)body->at[n] + f->at;
            if (f->kind == TILE_F_READ || f->kind == TILE_F_DEST)
                put_expr(*(AuTileExpr **)at, name, value);
            if (f->kind == TILE_F_BODY) put(at, name, value);
        }
}

static void walk(Pass *p, AuTileStmts *body)
{
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++) walk(p, parts.bodies[i]);
        if (!chooses_rings(s)) {
            pass_push(p, &out, s);
            continue;
        }
        for (int64_t v = s->loop.low->integer; v < s->loop.high->integer; v++) {
            AuTileStmts turn = {0};
            tile_copy_body(p->diags, p->module, &s->loop.body, &turn);
            put(&turn, s->loop.var_name, v);
            for (uint32_t i = 0; i < turn.count; i++) pass_push(p, &out, turn.at[i]);
        }
    }
    *body = out;
}

void pass_rings(Pass *p) { walk(p, &p->role->body); }
