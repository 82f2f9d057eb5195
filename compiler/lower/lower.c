/* lower.c - one kernel: its variables, what kind of lowering its role asks for, its scalars, and the
 * order of the parts. See lower.h. */
#include "internal.h"

#include "aule/artifact.h"

void lower_refuse(AuLower *l, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *what = au_vformat(l->arena, format, arguments);
    va_end(arguments);
    if (!l->failed)
        au_error(l->diags, AU_E0810, l->span, "kernel %s for %s: %s", l->tile->name,
                 l->module->caps->name, what);
    l->failed = true;
}

bool lower_is_small(AuDiags *diags, const AuKernel *k, const AuLowering *how)
{
    if (k->instr_count <= KERNEL_MOST) return true;
    au_error(
        diags, AU_E0813, how->largest,
        "kernel %s of more than %d instructions; this is the longest of the script's expressions",
        k->name, KERNEL_MOST);
    return false;
}

AuScalar lower_scalar(AuTileElem elem)
{
    switch (elem) {
    case TILE_F32: return AU_F32;
    case TILE_F16: return AU_F16;
    case TILE_BF16: return AU_BF16;
    case TILE_I32: return AU_I32;
    case TILE_BOOL: return AU_I1;
    case TILE_I64: return AU_I64;
    case TILE_U8: return AU_U8;
    }
    return AU_VOID;
}

/* ---- variables */

static bool is_of_kernel(const AuTileVar *var)
{
    return var->origin == TILE_FROM_LET || var->origin == TILE_FROM_GRID ||
           var->origin == TILE_FROM_PARAM || var->origin == TILE_FROM_SIZE;
}

AuHeld *lower_held(AuLower *l, const AuTileVar *var)
{
    return is_of_kernel(var) ? &l->kernel_vars[var->slot] : &l->role_vars[var->slot];
}

AuTileVar *lower_new_var(AuLower *l, const char *name, const AuTileType *type)
{
    if (l->new_vars == LOWER_NEW_VARS) return NULL;
    AuTileVar *var = AU_NEW(l->arena, AuTileVar);
    *var = (AuTileVar){.name = name,
                       .kind = TILE_VALUE,
                       .origin = TILE_FROM_BODY,
                       .type = type,
                       .slot = l->role->vars.count + l->new_vars++};
    lower_held(l, var)->defs = 1;
    return var;
}

static void count_uses(AuLower *l, const AuTileExpr *e)
{
    if (!e) return;
    if (e->op == TILE_X_NAME && e->var) lower_held(l, e->var)->uses++;
    if (e->op == TILE_X_NEXT) lower_held(l, e->var)->followed = true;
    for (uint32_t n = 0; n < e->args.count; n++) count_uses(l, e->args.at[n]);
}

static void count_statements(AuLower *l, const AuTileStmts *body, const AuTileStmt *loop);

static void count_statement(AuLower *l, AuTileStmt *s, const AuTileStmt *loop)
{
    const AuTileParts parts = tile_parts(s);
    AuHeld *held = s->var ? lower_held(l, s->var) : NULL;
    if (held && s->kind != TILE_S_PART && s->kind != TILE_S_JOIN)
        held->defs += s->kind != TILE_S_FRAG || s->frag.init;
    for (uint32_t n = 0; n < parts.read_count; n++) count_uses(l, *parts.reads[n]);
    count_uses(l, parts.dest);
    if (s->kind == TILE_S_PRODUCT && held) {
        if (!s->product.add && held->defs == 1) held->restarted = true;
        if (s->product.add) held->uses++;
        if (s->product.atom->k > 2 && s->product.b->var)
            lower_held(l, s->product.b->var)->pair_axis = s->product.contracted;
    }
    for (uint32_t n = 0; n < parts.body_count && s->kind != TILE_S_ON; n++)
        count_statements(l, parts.bodies[n], loop);
}

static uint32_t *definitions(const AuLower *l)
{
    uint32_t *defs = AU_NEW_ARRAY(l->arena, uint32_t, l->role->vars.count + 1);
    for (uint32_t n = 0; n < l->role->vars.count; n++) defs[n] = l->role_vars[n].defs;
    return defs;
}

/* One of several ways to go on from the definitions at [begin]: what counts is the way with most. */
static void count_way(AuLower *l, const AuTileStmts *way, const AuTileStmt *loop,
                      const uint32_t *begin)
{
    const uint32_t *most = definitions(l);
    for (uint32_t n = 0; n < l->role->vars.count; n++) l->role_vars[n].defs = begin[n];
    count_statements(l, way, loop);
    for (uint32_t n = 0; n < l->role->vars.count; n++)
        if (l->role_vars[n].defs < most[n]) l->role_vars[n].defs = most[n];
}

static void count_statements(AuLower *l, const AuTileStmts *body, const AuTileStmt *loop)
{
    const uint32_t *begin = NULL; /* before the loop over the first segment, or a branch */
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const bool alone = s->kind == TILE_S_FOR && s->loop.segment;
        if (alone && loop && loop->loop.list == s->loop.list &&
            loop->loop.segment->integer != s->loop.segment->integer)
            continue;
        if (s->kind == TILE_S_ON || (alone && !s->loop.segment->integer)) begin = definitions(l);
        if (s->kind == TILE_S_ON) {
            count_way(l, &s->on.body, loop, begin);
            count_way(l, &s->on.other, loop, begin);
        } else if (alone && begin && !loop)
            count_way(l, &s->loop.body, loop, begin);
        else
            count_statement(l, s, loop);
    }
}

void lower_count(AuLower *l, const AuTileStmt *loop)
{
    for (uint32_t n = 0; n < l->role->vars.count; n++) {
        AuHeld *held = &l->role_vars[n];
        held->defs = held->uses = 0, held->restarted = held->followed = false;
    }
    count_statements(l, &l->role->body, loop);
}

/* ---- the kernel */

static void bind_scalar(AuLower *l, const AuTileVar *var)
{
    AuKernel *k = l->k;
    if (var->origin == TILE_FROM_GRID) {
        lower_bind_value(l, var, kernel_block(k, var->axis));
        return;
    }
    for (uint32_t n = 0; n < l->how->scalar_count; n++) {
        const AuLowerScalar *s = &l->how->scalars[n];
        if (s->name != var->name) continue;
        const AuArgKind kind = s->is_i64 ? AU_ARG_I64 : s->is_f32 ? AU_ARG_F32 : AU_ARG_I32;
        AuVal v = kernel_arg(k, var->name, kind, s->slot, s->index, 0);
        if (s->word == 2) v = kernel_op2(k, AU_K_SHR, v, kernel_i64(k, 32));
        if (s->is_i64) v = kernel_cvt(k, v, AU_I32);
        lower_bind_value(l, var, v);
        return;
    }
    lower_refuse(l, "nothing is known of %s", var->name);
}

static void prepare_warps(AuLower *l)
{
    const uint32_t vars = l->role->vars.count + 1;
    l->age = AU_NEW_ARRAY(l->arena, int32_t, vars);
    l->filled = AU_NEW_ARRAY(l->arena, const AuTileMemory *, vars);
    for (uint32_t n = 0; n < vars; n++) l->age[n] = -1;
    for (uint32_t n = 0; n < l->tile->lists.count; n++) lower_tiles(l, l->tile->lists.at[n]);
}

static void lower_role(AuLower *l)
{
    const AuTileKernel *t = l->tile;
    const AuPoint nowhere = {.count = 0};
    for (uint32_t n = 0; n < t->vars.count; n++)
        if (t->vars.at[n]->origin != TILE_FROM_LET) bind_scalar(l, t->vars.at[n]);
    for (uint32_t n = 0; n < t->args.count; n++)
        if (t->args.at[n]->mode != TILE_PARAM) lower_add_argument(l, t->args.at[n]);
    for (uint32_t n = 0; n < t->lets.count && !l->failed; n++)
        lower_bind_value(l, t->lets.at[n]->var,
                         lower_eval(l, t->lets.at[n]->assign.value, &nowhere));
    for (uint32_t n = 0; n < t->shared.count; n++) lower_add_buffer(l, t->shared.at[n]);
    for (uint32_t n = 0; n < l->role->vars.count; n++)
        if (l->role->vars.at[n]->origin == TILE_FROM_SELF)
            lower_bind_value(l, l->role->vars.at[n],
                             l->k->warps > 1 ? kernel_warp(l->k) : kernel_i32(l->k, 0));
    lower_count(l, NULL);
    if (l->in_warps) prepare_warps(l);
    lower_walk(l, &l->role->body);
    const AuTileExpr one = {.op = TILE_X_INT, .integer = 1};
    for (uint32_t n = 0; n < 3; n++)
        l->k->grid[n] = lower_launch_expr(l, n < t->grid.count ? t->grid.at[n].extent : &one);
}

AuKernel *lower_kernel(AuArena *arena, AuDiags *diags, const AuTileModule *module,
                       const AuTileKernel *kernel, const AuLowering *how)
{
    AuLower *l = AU_NEW(arena, AuLower);
    *l = (AuLower){.arena = arena,
                   .diags = diags,
                   .module = module,
                   .tile = kernel,
                   .how = how,
                   .span = kernel->span};
    if (kernel->roles.count != 1 || kernel->pipes.count || kernel->grid.count > 3) {
        lower_refuse(l, "several roles, pipelines or more than three axes of the grid");
        return NULL;
    }
    l->role = kernel->roles.at[0];
    l->kernel_vars = AU_NEW_ARRAY(arena, AuHeld, kernel->vars.count + 1);
    l->role_vars = AU_NEW_ARRAY(arena, AuHeld, l->role->vars.count + LOWER_NEW_VARS);
    const uint32_t warps = l->role->on == TILE_ON_THREAD ? 1 : (uint32_t)l->role->many_value;
    l->k = kernel_new(arena, kernel->name, (uint32_t)module->caps->lanes, warps ? warps : 1);
    l->k->banner = how->banner;
    l->in_warps = tile_shares_rows(module, l->role);
    lower_role(l);
    return l->failed ? NULL : l->k;
}
