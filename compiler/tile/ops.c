/* ops.c - the tables of ops.def and of the small enums, and questions about types. */
#include "tile.h"

#include <string.h>

const char *const tile_move_names[4] = {"copy", "store", "atomic_add", "reduce_add"};
const char *const tile_space_names[4] = {"global", "shared", "tensor", "private"};
const char *const tile_mode_names[4] = {"param", "in", "out", "inout"};
const char *const tile_how_names[3] = {"range", "down", "list"};

const AuTileOpInfo *tile_op(AuTileOp op)
{
    // clang-format off
#define LEAF TILE_SYNTAX_LEAF, 0
#define PREFIX TILE_SYNTAX_PREFIX, 0
#define FN TILE_SYNTAX_FN, 0
#define SPECIAL TILE_SYNTAX_SPECIAL, 0
#define INFIX(strength) TILE_SYNTAX_INFIX, strength
#define OP(NAME, text, arguments, syntax, result, on_f32, on_i32) {#NAME, text, arguments, TILE_RESULT_##result, syntax},
    static const AuTileOpInfo ops[] = {
#include "ops.def"
    };
#undef OP
#undef LEAF
#undef PREFIX
#undef FN
#undef SPECIAL
#undef INFIX
    // clang-format on
    return &ops[op];
}

const char *const tile_option_names[TILE_OPTION_COUNT] = {
#define OPTION(name, otherwise) #name,
    TILE_OPTIONS(OPTION)
#undef OPTION
};

int32_t *tile_option(AuTileOptions *options, const char *name)
{
#define OPTION(member, otherwise)                                                                  \
    if (strcmp(name, #member) == 0) return &options->member;
    TILE_OPTIONS(OPTION)
#undef OPTION
    return NULL;
}

const AuTileAxis *tile_axis(const AuTileType *type, const char *name)
{
    for (uint32_t i = 0; i < type->count; i++)
        if (type->axes[i].name == name) return &type->axes[i];
    return NULL;
}

int64_t tile_elements(const AuTileType *type)
{
    int64_t elements = 1;
    for (uint32_t i = 0; i < type->count; i++) elements *= type->axes[i].size;
    return elements;
}

bool tile_is_limited(const AuTileExpr *index)
{
    return index && index->op == TILE_X_SPAN && index->args.count > 2;
}

int32_t tile_divisor(const AuTileExpr *e)
{
    enum { MOST = 64 };
    if (e->op == TILE_X_INT) {
        int32_t d = 1;
        while (d < MOST && e->integer % (2 * d) == 0) d *= 2;
        return d;
    }
    if (e->op != TILE_X_MUL && e->op != TILE_X_ADD && e->op != TILE_X_SUB) return 1;
    const int32_t a = tile_divisor(e->args.at[0]), b = tile_divisor(e->args.at[1]);
    if (e->op == TILE_X_MUL) return a * b < MOST ? a * b : MOST;
    return a < b ? a : b;
}

int32_t tile_swizzle_span(int32_t row, int32_t most)
{
    int32_t span = most ? most : TILE_VECTOR;
    while (span >= TILE_VECTOR && row % span) span /= 2;
    return span >= TILE_VECTOR ? span : 0;
}

int32_t tile_pitch_bytes(int32_t row, int32_t span)
{
    return span && span < TILE_MOST_SPAN ? (row / span | 1) * span : row;
}

bool tile_is_homeless(const AuTileType *type)
{
    for (uint32_t n = 0; n < type->count; n++)
        if (!type->axes[n].places) return true;
    return false;
}

bool tile_same_expr(const AuTileExpr *a, const AuTileExpr *b)
{
    bool same = a->op == b->op && a->var == b->var && a->memory == b->memory &&
                a->integer == b->integer && a->name == b->name &&
                memcmp(&a->number, &b->number, sizeof a->number) == 0 &&
                a->args.count == b->args.count && a->op != TILE_X_REF;
    for (uint32_t n = 0; n < a->args.count && same; n++)
        same = tile_same_expr(a->args.at[n], b->args.at[n]);
    return same;
}

bool tile_is_max(const AuTileExpr *e)
{
    return e->op == TILE_X_REDUCE_MAX || e->op == TILE_X_REDUCE_MAXNAN ||
           e->op == TILE_X_REDUCE_TOP || e->op == TILE_X_ROWMAX;
}

bool tile_is_of_kernel(const AuTileVar *var)
{
    return var->origin == TILE_FROM_LET || var->origin == TILE_FROM_GRID ||
           var->origin == TILE_FROM_PARAM || var->origin == TILE_FROM_SIZE;
}

bool tile_is_virtual(const AuTileType *type)
{
    if (!type->count || type->opaque) return false;
    for (uint32_t i = 0; i < type->count; i++)
        if (type->axes[i].places) return false;
    return true;
}

int32_t tile_registers(const AuTileType *type, int32_t warp_lanes)
{
    int64_t lanes = type->opaque ? warp_lanes : 1;
    for (uint32_t i = 0; i < type->count; i++)
        if (type->axes[i].places) lanes *= type->axes[i].places->lanes;
    const int64_t words = tile_elements(type) * tile_elem(type->elem)->bytes / 4 / lanes;
    return type->count == 0 ? 0 : words < 1 ? 1 : (int32_t)words;
}
