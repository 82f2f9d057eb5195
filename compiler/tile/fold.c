/* fold.c - arithmetic on literals, with exactly the meaning that the interpreter gives it. */
#include "fold.h"

#include "numeric.h"

static float on_floats(AuTileOp op, float a, float b, float c)
{
    // clang-format off
    switch (op) {
#define OP(NAME, text, count, syntax, result, on_f32, on_i32) case TILE_X_##NAME: return (float)(on_f32);
#include "ops.def"
#undef OP
    }
    // clang-format on
    return 0;
}

static int64_t on_integers(AuTileOp op, int64_t a, int64_t b, int64_t c)
{
    // clang-format off
    switch (op) {
#define OP(NAME, text, count, syntax, result, on_f32, on_i32) case TILE_X_##NAME: return on_i32;
#include "ops.def"
#undef OP
    }
    // clang-format on
    return 0;
}

bool is_literal(const AuTileExpr *e)
{
    return e->op == TILE_X_INT || e->op == TILE_X_FLOAT || e->op == TILE_X_BOOL;
}

static float as_float(const AuTileExpr *e)
{
    return e->op == TILE_X_FLOAT ? (float)e->number : (float)e->integer;
}

static void become(AuTileExpr *e, AuTileOp op, int64_t integer, float number)
{
    *e = (AuTileExpr){.op = op, .span = e->span, .integer = integer, .number = (double)number};
}

static void become_integer(AuTileExpr *e, int64_t value)
{
    become(e, TILE_X_INT, (int32_t)value, 0);
}

/* f32(3), i32(2.5): casts between what literals can be. */
static void fold_cast(AuTileExpr *e)
{
    const AuTileExpr *a = e->args.at[0];
    if (e->op == TILE_X_TO_F32)
        become(e, TILE_X_FLOAT, 0, as_float(a));
    else if (e->op == TILE_X_TO_I32 && a->op == TILE_X_FLOAT)
        become_integer(e, to_i32((float)a->number));
    else if (e->op == TILE_X_TO_I32)
        become_integer(e, a->integer);
}

/* One rule for all rows of numbers; `where` and comparisons as the verifier types them. */
void fold(AuTileExpr *e)
{
    const AuTileOpInfo *info = tile_op(e->op);
    const bool is_cast = e->op == TILE_X_TO_F32 || e->op == TILE_X_TO_I32;
    if ((info->result == TILE_RESULT_OWN && !is_cast) || e->args.count == 0 || e->args.count > 3)
        return;
    bool any_float = false;
    const AuTileExpr *args[3] = {0};
    for (uint32_t i = 0; i < e->args.count; i++) {
        args[i] = e->args.at[i];
        if (!is_literal(args[i])) return;
        any_float |= args[i]->op == TILE_X_FLOAT && !(e->op == TILE_X_WHERE && i == 0);
    }
    if (is_cast) {
        fold_cast(e);
        return;
    }
    const bool floats = any_float || info->result == TILE_RESULT_F32;
    float f[3] = {0};
    int64_t n[3] = {0};
    for (uint32_t i = 0; i < e->args.count; i++) {
        f[i] = as_float(args[i]);
        n[i] = args[i]->integer;
    }
    if (floats && info->result == TILE_RESULT_I32) return; /* the verifier will say what is wrong */
    if (info->result == TILE_RESULT_BOOL)
        become(e, TILE_X_BOOL,
               floats ? on_floats(e->op, f[0], f[1], f[2]) != 0
                      : on_integers(e->op, n[0], n[1], n[2]),
               0);
    else if (floats)
        become(e, TILE_X_FLOAT, 0, on_floats(e->op, f[0], f[1], f[2]));
    else
        become_integer(e, on_integers(e->op, n[0], n[1], n[2]));
}
