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

static void count_statements(AuLower *l, const AuTileStmts *body);

static void count_statement(AuLower *l, const AuTileStmt *s)
{
    if (s->var && s->kind != TILE_S_FRAG) lower_held(l, s->var)->defs++;
    switch (s->kind) {
    case TILE_S_FRAG:
        if (s->frag.init) lower_held(l, s->var)->defs++;
        count_uses(l, s->frag.init);
        break;
    case TILE_S_ASSIGN: count_uses(l, s->assign.value); break;
    case TILE_S_LOAD:
        count_uses(l, s->load.source), count_uses(l, s->load.when), count_uses(l, s->load.pad);
        break;
    case TILE_S_MOVE:
        count_uses(l, s->move.source), count_uses(l, s->move.dest), count_uses(l, s->move.when);
        break;
    case TILE_S_PRODUCT:
        count_uses(l, s->product.a), count_uses(l, s->product.b);
        if (!s->product.add && lower_held(l, s->var)->defs == 1)
            lower_held(l, s->var)->restarted = true;
        if (s->product.add) lower_held(l, s->var)->uses++;
        if (s->product.atom->k > 2 && s->product.b->var)
            lower_held(l, s->product.b->var)->pair_axis = s->product.contracted;
        break;
    case TILE_S_FOR:
        count_uses(l, s->loop.low), count_uses(l, s->loop.high), count_statements(l, &s->loop.body);
        break;
    case TILE_S_IF:
        count_uses(l, s->branch.test), count_statements(l, &s->branch.then),
            count_statements(l, &s->branch.other);
        break;
    case TILE_S_ON: count_statements(l, &s->on.body); break;
    case TILE_S_PRIVATE:
    case TILE_S_CONVERT:
    case TILE_S_WAIT:
    case TILE_S_ACQUIRE:
    case TILE_S_WAIT_STAGE:
    case TILE_S_COMMIT:
    case TILE_S_RELEASE:
    case TILE_S_SYNC:
    case TILE_S_ARRIVE:
    case TILE_S_RETURN: break;
    }
}

static void count_statements(AuLower *l, const AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) count_statement(l, body->at[n]);
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

static bool has_matrix(const AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileStmt *s = body->at[n];
        if ((s->kind == TILE_S_PRODUCT && lower_is_matrix(s->product.atom)) ||
            (s->kind == TILE_S_FOR && has_matrix(&s->loop.body)) ||
            (s->kind == TILE_S_IF &&
             (has_matrix(&s->branch.then) || has_matrix(&s->branch.other))) ||
            (s->kind == TILE_S_MOVE && s->move.is_async))
            return true;
    }
    return false;
}

/* Is a variable spread over the lanes otherwise than all lanes along one axis, vector by vector? */
static bool has_spread(const AuLower *l)
{
    for (uint32_t v = 0; v < l->role->vars.count; v++) {
        const AuTileVar *var = l->role->vars.at[v];
        for (uint32_t n = 0; var->kind == TILE_VALUE && n < var->type->count; n++) {
            const AuTilePlaces *places = var->type->axes[n].places;
            if (!places || places->lanes == 1) continue;
            const AuTileDigit *first = &places->digits.at[0];
            if (places->lanes < l->module->caps->lanes ||
                (first->unit == TILE_UNIT_REG && first->size > 1))
                return true;
        }
    }
    return false;
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
    count_statements(l, &l->role->body);
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
    AuLowering *own =
        AU_NEW(arena, AuLowering); /* schedules of matrix units say nothing of blocks */
    *own = *how;
    if (!own->product_rows) own->product_rows = 4;
    if (!own->product_columns) own->product_columns = 1;
    *l = (AuLower){.arena = arena,
                   .diags = diags,
                   .module = module,
                   .tile = kernel,
                   .how = own,
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
    l->in_warps = l->role->on == TILE_ON_WARP && (has_matrix(&l->role->body) || has_spread(l));
    lower_role(l);
    return l->failed ? NULL : l->k;
}
