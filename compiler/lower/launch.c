/* launch.c - scalar integer expressions over sizes and parameters as launch expressions of the
 * artifact. */
#include "internal.h"

#include "aule/artifact.h"

typedef struct Code {
    AuLower *l;
    uint32_t *words;
    uint32_t count, capacity;
} Code;

static void word(Code *c, uint32_t op, uint32_t operand)
{
    AU_PUSH(c->l->arena, c->words, c->count, c->capacity, op + (operand << 8));
}

static void constant(Code *c, int64_t value)
{
    word(c, AULE_E_CONST_INT, 0);
    AU_PUSH(c->l->arena, c->words, c->count, c->capacity,
            (uint32_t)((uint64_t)value & 0xffffffffu));
    AU_PUSH(c->l->arena, c->words, c->count, c->capacity, (uint32_t)((uint64_t)value >> 32));
}

static void expression(Code *c, const AuTileExpr *e);

static void name(Code *c, const AuTileExpr *e)
{
    const AuLowering *how = c->l->how;
    for (uint32_t n = 0; n < how->scalar_count; n++)
        if (how->scalars[n].name == e->name) {
            word(c, how->scalars[n].slot == AULE_SLOT_SIZE ? AULE_E_SIZE : AULE_E_PARAM,
                 how->scalars[n].index);
            return;
        }
    lower_refuse(c->l, "%s is not known at launch", e->name);
}

static void operator_(Code *c, const AuTileExpr *e, uint32_t op)
{
    for (uint32_t n = 0; n < e->args.count; n++) expression(c, e->args.at[n]);
    word(c, op, 0);
}

static void expression(Code *c, const AuTileExpr *e)
{
    // clang-format off
    switch ((int)e->op) {
    case TILE_X_INT: constant(c, e->integer); return;
    case TILE_X_NAME: name(c, e); return;
    case TILE_X_ADD: operator_(c, e, AULE_E_ADD); return;
    case TILE_X_SUB: operator_(c, e, AULE_E_SUB); return;
    case TILE_X_MUL: operator_(c, e, AULE_E_MUL); return;
    case TILE_X_DIV: operator_(c, e, AULE_E_DIV); return;
    case TILE_X_MOD: operator_(c, e, AULE_E_MOD); return;
    case TILE_X_MIN: operator_(c, e, AULE_E_MIN); return;
    case TILE_X_MAX: operator_(c, e, AULE_E_MAX); return;
    case TILE_X_CDIV: /* (a + b - 1) / b */
        expression(c, e->args.at[0]);
        expression(c, e->args.at[1]);
        word(c, AULE_E_ADD, 0);
        constant(c, 1);
        word(c, AULE_E_SUB, 0);
        expression(c, e->args.at[1]);
        word(c, AULE_E_DIV, 0);
        return;
    default: lower_refuse(c->l, "an extent of the grid that cannot be computed at launch"); return;
    }
    // clang-format on
}

static void product_of_extents(Code *c)
{
    const AuTileKernel *t = c->l->tile;
    for (uint32_t n = 0; n < t->grid.count; n++) {
        expression(c, t->grid.at[n].extent);
        if (n) word(c, AULE_E_MUL, 0);
    }
}

/* Blocks that stay: so many a processor, at most as many as the grid has. A grid of more than numbers of 32 bits count stays as it is,
 * which is too large. */
static void persistent_blocks(Code *c)
{
    product_of_extents(c);
    constant(c, INT32_MAX);
    word(c, AULE_E_LE, 0);
    product_of_extents(c);
    word(c, AULE_E_PROCESSORS, 0);
    if (c->l->module->options.persistent > 1) {
        constant(c, c->l->module->options.persistent);
        word(c, AULE_E_MUL, 0);
    }
    word(c, AULE_E_MIN, 0);
    product_of_extents(c);
    word(c, AULE_E_SELECT, 0);
}

void lower_launch_grid(AuLower *l)
{
    const AuTileKernel *t = l->tile;
    for (uint32_t n = 0; n < 3; n++) {
        Code c = {.l = l};
        if (l->is_persistent && n == 0)
            persistent_blocks(&c);
        else if (l->is_persistent || n >= t->grid.count)
            constant(&c, 1);
        else
            expression(&c, t->grid.at[n].extent);
        l->k->grid[n] = (AuLaunchExpr){c.words, c.count};
    }
}

AuLaunchExpr lower_launch_expr(AuLower *l, const AuTileExpr *e)
{
    Code c = {.l = l};
    expression(&c, e);
    return (AuLaunchExpr){c.words, c.count};
}

AuLaunchExpr lower_workspace_bytes(AuArena *arena, AuDiags *diags, const AuTileModule *module,
                                   const AuTileKernel *kernel, const AuTileMemory *memory,
                                   const AuLowering *how)
{
    AuLower l = {.arena = arena,
                 .diags = diags,
                 .module = module,
                 .tile = kernel,
                 .how = how,
                 .span = memory->span};
    Code c = {.l = &l};
    constant(&c, tile_elem(memory->type.elem)->bytes);
    for (uint32_t n = 0; n < memory->type.count; n++) {
        expression(&c, memory->type.axes[n].extent);
        word(&c, AULE_E_MUL, 0);
    }
    return (AuLaunchExpr){c.words, c.count};
}
