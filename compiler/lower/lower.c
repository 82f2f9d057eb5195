/* lower.c - one kernel: its variables, its scalars, what its roles share, and the order of the parts. See lower.h. */
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

static bool is_of_script(const AuLower *l, AuSpan span)
{
    return span.source && span.source < l->how->source_count;
}

void lower_at(AuLower *l, AuSpan span)
{
    if (is_of_script(l, span)) l->k->at = span;
}

void lower_at_statement(AuLower *l, const AuTileStmt *s)
{
    const AuTileExpr *value = tile_assigned(s);
    l->span = s->span;
    l->k->at = (AuSpan){0};
    if (value) lower_at(l, value->span);
    lower_at(l, s->span);
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
    case TILE_U8:
    case TILE_E4M3:
    case TILE_E5M2:
    case TILE_I8: return AU_U8;
    }
    return AU_VOID;
}

/* ---- variables */

AuHeld *lower_held(AuLower *l, const AuTileVar *var)
{
    return tile_is_of_kernel(var) ? &l->kernel_vars[var->slot] : &l->r.vars[var->slot];
}

const AuTileCount *lower_count(const AuLower *l, const AuTileVar *var)
{
    static const AuTileCount none;
    return tile_is_of_kernel(var) ? &none : &l->r.counts[var->slot];
}

/* ---- the kernel */

static void bind_scalar(AuLower *l, const AuTileVar *var)
{
    AuKernel *k = l->k;
    for (uint32_t n = 0; n < l->how->scalar_count; n++) {
        const AuLowerScalar *s = &l->how->scalars[n];
        if (s->name != var->name) continue;
        const AuArgKind kind = s->is_i64 ? AU_ARG_I64 : s->is_f32 ? AU_ARG_F32 : AU_ARG_I32;
        AuVal v = kernel_arg(k, lower_plain_name(l, var->name), kind, s->slot, s->index, 0);
        if (s->word == 2) v = kernel_op2(k, AU_K_SHR, v, kernel_i64(k, 32));
        if (s->is_i64) v = kernel_cvt(k, v, AU_I32);
        lower_bind_value(l, var, v);
        return;
    }
    lower_refuse(l, "nothing is known of %s", var->name);
}

/* What follows from the block's position in the grid. */
static void lower_lets(AuLower *l)
{
    const AuTileKernel *t = l->tile;
    const AuPoint nowhere = {.count = 0};
    for (uint32_t n = 0; n < t->lets.count && !l->failed; n++)
        lower_bind_value(l, t->lets.at[n]->var,
                         lower_eval(l, t->lets.at[n]->assign.value, &nowhere));
}

static void lower_lists(AuLower *l)
{
    for (uint32_t n = 0; n < l->tile->lists.count; n++) lower_tiles(l, l->tile->lists.at[n]);
}

/* The position along an axis of one block is known when compiling, and so is what lies behind the end of a tensor there. */
static AuVal position(AuLower *l, uint32_t axis)
{
    const AuTileExpr *extent = l->tile->grid.at[axis].extent;
    const bool is_one = extent->op == TILE_X_INT && extent->integer == 1;
    return is_one ? kernel_i32(l->k, 0) : kernel_block(l->k, axis);
}

/* What all roles know. */
static void lower_head(AuLower *l)
{
    const AuTileKernel *t = l->tile;
    for (uint32_t n = 0; n < t->vars.count; n++) {
        const AuTileVar *var = t->vars.at[n];
        if (var->origin == TILE_FROM_LET) continue;
        if (var->origin != TILE_FROM_GRID)
            bind_scalar(l, var);
        else if (!l->is_persistent)
            lower_bind_value(l, var, position(l, var->axis));
    }
    for (uint32_t n = 0; n < t->args.count; n++)
        if (t->args.at[n]->mode != TILE_PARAM) lower_add_argument(l, t->args.at[n]);
    if (!l->is_persistent) lower_lets(l);
    for (uint32_t n = 0; n < t->shared.count; n++) lower_add_buffer(l, t->shared.at[n]);
    if (!l->has_units && lower_wants_positions(l, &l->r.role->body)) lower_positions(l);
    if (!l->has_units) return;
    l->elected = kernel_elect(l->k);
    lower_add_pipes(l);
    lower_take_tensor(l);
    if (!l->is_persistent) lower_lists(l);
}

/* Where the launch decides how operands in tensors come, once for each way. */
static void walk_either_way(AuLower *l, const AuTileStmts *body)
{
    const AuVal by_blocks = lower_blocks_suit(l, body, &l->r.of_surfaces);
    if (!by_blocks.i) {
        lower_walk(l, body);
        return;
    }
    const AuRoleState before = l->r;
    const uint32_t count = before.role->vars.count;
    AuHeld *held = AU_NEW_ARRAY(l->arena, AuHeld, count + 1);
    for (uint32_t n = 0; n < count; n++) held[n] = before.vars[n];
    kernel_if(l->k, by_blocks);
    l->r.by_blocks = true;
    lower_walk(l, body);
    kernel_else(l->k);
    l->r = before;
    l->r.vars = held; /* nothing of the other way is known in this one */
    lower_walk(l, body);
    kernel_end(l->k);
}

/* [body], of the role, for the block whose position is known. */
static void lower_block(AuLower *l, const AuTileStmts *body)
{
    if (l->is_persistent) {
        l->r.tiles_count = 0; /* those that another role evaluated are its own */
        lower_lets(l);
    }
    if (l->is_persistent || l->r.unit->looks_ahead) lower_lists(l);
    walk_either_way(l, body);
}

static void lower_role(AuLower *l)
{
    for (uint32_t n = 0; n < l->r.role->vars.count; n++)
        if (l->r.role->vars.at[n]->origin == TILE_FROM_SELF)
            lower_bind_value(l, l->r.role->vars.at[n], l->r.self);
    l->r.counts = tile_count_role(l->arena, l->r.role, NULL);
    if (l->is_persistent)
        lower_each_block(l, lower_block);
    else
        lower_block(l, &l->r.role->body);
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
    if (!kernel->roles.count || kernel->grid.count > 3) {
        lower_refuse(l, "no role, or more than three axes of the grid");
        return NULL;
    }
    l->kernel_vars = AU_NEW_ARRAY(arena, AuHeld, kernel->vars.count + 1);
    l->k = kernel_new(arena, kernel->name, (uint32_t)module->caps->lanes, 1);
    l->k->banner = how->banner;
    l->k->written = (uint32_t)kernel->written;
    l->k->paced = (uint32_t)module->options.paced;
    l->k->resident = (uint32_t)kernel->resident;
    l->k->is_coarse = kernel->is_coarse;
    l->k->span = how->script;
    l->k->sources = how->sources;
    l->k->source_count = how->source_count;
    if (!lower_plan(l)) return NULL;
    lower_begin_role(l, &l->plans[0]);
    lower_head(l);
    if (!l->failed) lower_each_role(l, lower_role);
    if (!l->failed) lower_give_tensor(l);
    lower_launch_grid(l);
    return l->failed ? NULL : l->k;
}
