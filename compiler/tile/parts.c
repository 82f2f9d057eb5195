/* parts.c - what a statement consists of: the expressions that it reads, the view that it writes, the blocks in it. */
#include "tile.h"

#include <stddef.h>
#include <string.h>

// clang-format off
#define MEMBER(member)    static const AuTileField of_##member[] = {
#define FIELD(path, kind) {TILE_F_##kind, offsetof(AuTileStmt, path)},
#define END               {TILE_F_END, 0}};
#include "fields.def"

const AuTileField *tile_fields(AuTileStmtKind kind)
{
    static const AuTileField *const fields[] = {
#define STMT(KIND, member, text) of_##member,
#include "stmts.def"
#undef STMT
    };
    return fields[kind];
}
// clang-format on

AuTileParts tile_parts(AuTileStmt *s)
{
    AuTileParts p = {.read_count = 0};
    for (const AuTileField *f = tile_fields(s->kind); f->kind; f++) {
        void *at = (char *)s + f->at;
        if (f->kind == TILE_F_READ) p.reads[p.read_count++] = at;
        if (f->kind == TILE_F_DEST) p.dest = *(AuTileExpr **)at;
        if (f->kind == TILE_F_BODY) p.bodies[p.body_count++] = at;
    }
    p.adds = s->kind == TILE_S_PART || s->kind == TILE_S_JOIN ||
             (s->kind == TILE_S_PRODUCT && s->product.add && !s->product.dest);
    return p;
}

AuTileExpr *tile_assigned(const AuTileStmt *s)
{
    return s->kind == TILE_S_FRAG     ? s->frag.init
           : s->kind == TILE_S_ASSIGN ? s->assign.value
                                      : NULL;
}

bool tile_pipe_is_alone(const AuTilePipe *pipe, bool produces)
{
    return produces ? pipe->each == TILE_EACH_PRODUCER || pipe->one_producer
                    : pipe->each == TILE_EACH_CONSUMER || pipe->one_consumer;
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

static bool reads_memory(const AuTileExpr *e, const AuTileMemory *memory)
{
    if (!e) return false;
    bool found = e->op == TILE_X_REF && e->memory == memory;
    for (uint32_t n = 0; n < e->args.count; n++) found |= reads_memory(e->args.at[n], memory);
    return found;
}

bool tile_reads_memory(const AuTileStmts *body, const AuTileMemory *memory)
{
    bool found = false;
    for (uint32_t n = 0; n < body->count && !found; n++) {
        const AuTileParts p = tile_parts(body->at[n]);
        for (uint32_t i = 0; i < p.read_count; i++) found |= reads_memory(*p.reads[i], memory);
        for (uint32_t i = 0; i < p.body_count; i++) found |= tile_reads_memory(p.bodies[i], memory);
    }
    return found;
}

uint32_t tile_count_reads_in(AuTileStmt *const *body, uint32_t count, const AuTileVar *var)
{
    return count_in(body, count, var, false);
}

bool tile_asks(const AuTileStmt *s)
{
    return s->kind == TILE_S_IF && s->branch.test->op == TILE_X_ANYWHERE;
}

bool tile_is_in_run(const AuTileStmt *s)
{
    const AuTileExpr *value = tile_assigned(s);
    const bool opaque = s->var && s->var->type && s->var->type->opaque;
    if (s->kind != TILE_S_IF) return value && value->op != TILE_X_CUMSUM && !opaque;
    bool good = tile_asks(s);
    for (uint32_t n = 0; n < s->branch.then.count && good; n++)
        good = s->branch.then.at[n]->kind == TILE_S_LOAD || tile_assigned(s->branch.then.at[n]);
    for (uint32_t n = 0; n < s->branch.other.count && good; n++)
        good = tile_assigned(s->branch.other.at[n]);
    return good;
}

/* ---- how a role's fragments lie */

bool tile_is_of_warp(const AuTileAtom *atom)
{
    return atom->on == 1u << TILE_ON_WARP && !atom->is_async && !atom->opaque;
}

static bool has_matrix(const AuTileStmts *body)
{
    bool found = false;
    for (uint32_t n = 0; n < body->count && !found; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        found = (s->kind == TILE_S_PRODUCT &&
                 (tile_is_of_warp(s->product.atom) || s->product.atom->opaque)) ||
                (s->kind == TILE_S_MOVE && s->move.is_async);
        for (uint32_t i = 0; i < parts.body_count; i++) found |= has_matrix(parts.bodies[i]);
    }
    return found;
}

bool tile_is_by_place(const AuTileStmts *body)
{
    bool found = false;
    for (uint32_t n = 0; n < body->count && !found; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        found = s->kind == TILE_S_PRODUCT && s->product.atom->by_place;
        for (uint32_t i = 0; i < parts.body_count; i++) found |= tile_is_by_place(parts.bodies[i]);
    }
    return found;
}

bool tile_has_places(const AuTileType *type)
{
    bool found = false;
    for (uint32_t n = 0; n < type->count; n++)
        found |= type->axes[n].places && type->axes[n].places->by_place;
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
