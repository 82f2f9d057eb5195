/* parts.c - what a statement consists of: the expressions that it reads, the view that it writes, the blocks in it. */
#include "tile.h"

#include <string.h>

static void add(AuTileParts *parts, AuTileExpr **e) { parts->reads[parts->read_count++] = e; }

AuTileParts tile_parts(AuTileStmt *s)
{
    AuTileParts p = {.read_count = 0};
    switch (s->kind) {
    case TILE_S_FRAG: add(&p, &s->frag.init); break;
    case TILE_S_ASSIGN: add(&p, &s->assign.value); break;
    case TILE_S_CONVERT: add(&p, &s->convert.source); break;
    case TILE_S_LOAD:
        add(&p, &s->load.source), add(&p, &s->load.when), add(&p, &s->load.pad);
        break;
    case TILE_S_MOVE:
        add(&p, &s->move.source), add(&p, &s->move.when), add(&p, &s->move.pad);
        p.dest = s->move.dest;
        break;
    case TILE_S_PRODUCT:
        add(&p, &s->product.a), add(&p, &s->product.b), add(&p, &s->product.when);
        p.dest = s->product.dest;
        p.adds = s->product.add && !s->product.dest;
        break;
    case TILE_S_ACQUIRE:
    case TILE_S_WAIT_STAGE: add(&p, &s->stage.index), add(&p, &s->stage.turn); break;
    case TILE_S_SYNC:
    case TILE_S_ARRIVE: add(&p, &s->barrier.index); break;
    case TILE_S_PART:
    case TILE_S_JOIN: p.adds = true; break;
    case TILE_S_FOR:
        add(&p, &s->loop.low), add(&p, &s->loop.high);
        p.bodies[p.body_count++] = &s->loop.body;
        break;
    case TILE_S_IF:
        add(&p, &s->branch.test);
        p.bodies[p.body_count++] = &s->branch.then, p.bodies[p.body_count++] = &s->branch.other;
        break;
    case TILE_S_ON:
        p.bodies[p.body_count++] = &s->on.body, p.bodies[p.body_count++] = &s->on.other;
        break;
    case TILE_S_PRIVATE:
    case TILE_S_WAIT:
    case TILE_S_COMMIT:
    case TILE_S_RELEASE:
    case TILE_S_RETURN: break;
    }
    return p;
}

const AuTileExpr *tile_assigned(const AuTileStmt *s)
{
    return s->kind == TILE_S_FRAG     ? s->frag.init
           : s->kind == TILE_S_ASSIGN ? s->assign.value
                                      : NULL;
}

uint32_t tile_count_reads(const AuTileExpr *e, const AuTileVar *var)
{
    if (!e) return 0;
    uint32_t count = e->op == TILE_X_NAME && e->var == var;
    for (uint32_t n = 0; n < e->args.count; n++) count += tile_count_reads(e->args.at[n], var);
    return count;
}

static uint32_t count_in(AuTileStmt *const *body, uint32_t count, const AuTileVar *var,
                         bool assignments)
{
    uint32_t found = 0;
    for (uint32_t n = 0; n < count; n++) {
        const AuTileParts p = tile_parts(body[n]);
        found += assignments && body[n]->kind != TILE_S_FOR && body[n]->var == var;
        for (uint32_t i = 0; i < p.read_count; i++) found += tile_count_reads(*p.reads[i], var);
        found += tile_count_reads(p.dest, var);
        for (uint32_t i = 0; i < p.body_count; i++)
            found += count_in(p.bodies[i]->at, p.bodies[i]->count, var, assignments);
    }
    return found;
}

uint32_t tile_count_uses(const AuTileStmts *body, const AuTileVar *var)
{
    return count_in(body->at, body->count, var, true);
}

uint32_t tile_count_reads_in(AuTileStmt *const *body, uint32_t count, const AuTileVar *var)
{
    return count_in(body, count, var, false);
}

bool tile_is_in_run(const AuTileStmt *s)
{
    const AuTileExpr *value = tile_assigned(s);
    const bool opaque = s->var && s->var->type && s->var->type->opaque;
    if (s->kind != TILE_S_IF) return value && value->op != TILE_X_CUMSUM && !opaque;
    bool good = s->branch.test->op == TILE_X_ANYWHERE && !s->branch.other.count;
    for (uint32_t n = 0; n < s->branch.then.count && good; n++)
        good = s->branch.then.at[n]->kind == TILE_S_LOAD || tile_assigned(s->branch.then.at[n]);
    return good;
}

/* ---- how a role's fragments lie */

bool tile_is_of_warp(const AuTileAtom *atom)
{
    return strncmp(atom->rows[TILE_A], "lane", 4) == 0 && !atom->is_async;
}

static bool has_matrix(const AuTileStmts *body)
{
    bool found = false;
    for (uint32_t n = 0; n < body->count && !found; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        found = (s->kind == TILE_S_PRODUCT && tile_is_of_warp(s->product.atom)) ||
                (s->kind == TILE_S_MOVE && s->move.is_async);
        for (uint32_t i = 0; i < parts.body_count; i++) found |= has_matrix(parts.bodies[i]);
    }
    return found;
}

/* Is a variable spread over the lanes otherwise than all lanes along one axis, vector by vector? */
static bool has_spread(const AuTileModule *module, const AuTileRole *role)
{
    for (uint32_t v = 0; v < role->vars.count; v++) {
        const AuTileVar *var = role->vars.at[v];
        for (uint32_t n = 0; var->kind == TILE_VALUE && n < var->type->count; n++) {
            const AuTilePlaces *places = var->type->axes[n].places;
            if (!places || places->lanes == 1) continue;
            const AuTileDigit *first = &places->digits.at[0];
            if (places->lanes < module->caps->lanes ||
                (first->unit == TILE_UNIT_REG && first->size > 1))
                return true;
        }
    }
    return false;
}

bool tile_shares_rows(const AuTileModule *module, const AuTileRole *role)
{
    return role->on == TILE_ON_WARPGROUP ||
           (role->on == TILE_ON_WARP && (has_matrix(&role->body) || has_spread(module, role)));
}

/* Only numbers, rows and the variable itself. */
static bool is_plain(const AuTileExpr *e)
{
    if (e->op == TILE_X_REF || e->op == TILE_X_IOTA || tile_is_max(e) || tile_is_sum(e) ||
        e->op == TILE_X_CUMSUM)
        return false;
    if (e->op == TILE_X_NAME && e->var && e->var->type->count && tile_is_virtual(e->var->type))
        return false;
    for (uint32_t n = 0; n < e->args.count; n++)
        if (e->args.at[n] && !is_plain(e->args.at[n])) return false;
    return true;
}

bool tile_starts_product(const AuTileStmt *s, const AuTileStmt *next)
{
    return s->kind == TILE_S_ASSIGN && next->kind == TILE_S_PRODUCT && next->product.add &&
           !next->product.dest && next->product.atom->k == 1 && s->var == next->var &&
           is_plain(s->assign.value);
}
