/* gather.c - copies of rows at places that lanes hold: `k[page, h, slot, :]`, where page and slot are fragments of one number a row
 * that lie along the lanes, as those of keys in pages of any size are (schedule/warps_pages.c).
 *
 * The lane that holds a row's numbers makes an address of them, once, and what the statement asks of the row. Whoever brings a part of the
 * row asks that lane: two exchanges of a word, whatever the number of dimensions and the size of the tensor. Element by element, where rows
 * are no vectors, each index is asked for. */
#include "transfer.h"

/* The address of a row that nobody reads. Rows of tensors lie nearer to each other. */
#define NO_ROW INT64_MIN

static const AuTileExpr *held_index(const AuTileExpr *ref, uint32_t n)
{
    const AuTileExpr *index = ref->has_index ? ref->args.at[n] : NULL;
    if (!index || index->op == TILE_X_ALL || index->op == TILE_X_SPAN || !index->type ||
        !index->type->count || tile_is_virtual(index->type))
        return NULL;
    return index;
}

bool lower_gathers(const AuTileExpr *ref)
{
    for (uint32_t n = 0; n < ref->memory->type.count; n++)
        if (held_index(ref, n)) return true;
    return false;
}

/* ---- index by index */

/* The fragment's number at an index that need not be the lane's own. */
static AuVal number_at(AuLower *l, const AuTileVar *var, AuVal index)
{
    AuKernel *k = l->k;
    const AuTilePlaces *places = var->type->axes[0].places;
    const AuMem held = lower_var_array(l, var);
    const AuVal none = {0};
    AuVal lane = kernel_i32(k, 0), value = {0};
    const AuVal reg = lower_find(l, places, index, &lane);
    for (int32_t n = 0; n < tile_axis_registers(places); n++) {
        const AuVal there =
            lower_ask_lane(l, kernel_load(k, held, kernel_i32(k, n), 1, none, none), lane);
        value = !n ? there
                   : kernel_op3(k, AU_K_SELECT, kernel_op2(k, AU_K_EQ, reg, kernel_i32(k, n)),
                                there, value);
    }
    return value;
}

static bool can_ask(const AuLower *l, const AuTileExpr *index)
{
    return index->op == TILE_X_NAME && index->type->count == 1 && index->type->axes[0].places &&
           !tile_warp_bits(index->type->axes[0].places) && l->r.unit->written_out &&
           (l->module->caps->exchange & TILE_EXCHANGE_ANY);
}

uint32_t lower_gather_indices(AuLower *l, const AuTileExpr *ref, const AuPoint *p)
{
    const uint32_t before = l->r.known_count;
    for (uint32_t n = 0; n < ref->memory->type.count && !l->failed; n++) {
        const AuTileExpr *index = held_index(ref, n);
        if (!index) continue;
        const AuCoord *c = lower_coordinate(l, p, index->type->axes[0].name);
        if (!c || !can_ask(l, index)) {
            lower_refuse(l, "rows at places that these lanes cannot ask each other for");
            break;
        }
        const AuKnown known = {.var = index->var, .value = number_at(l, index->var, c->index)};
        AU_PUSH(l->arena, l->r.known, l->r.known_count, l->r.known_capacity, known);
    }
    return before;
}

/* ---- row by row */

bool lower_may_gather(const Transfer *x)
{
    for (uint32_t n = 0; n < x->from->memory->type.count; n++) {
        const AuTileExpr *index = held_index(x->from, n);
        if (!index) continue;
        const AuTilePlaces *places = index->op == TILE_X_NAME && index->type->count == 1
                                         ? index->type->axes[0].places
                                         : NULL;
        if (!places || places->lanes != places->extent ||
            index->type->axes[0].name != x->type->axes[0].name)
            return false;
        for (int32_t i = 0; i < places->extent; i++)
            if (places->place[i] != i) return false;
    }
    return true;
}

/* The view at row 0 of every dimension that is asked for. */
static AuTileExpr *without_rows(AuLower *l, const AuTileExpr *ref)
{
    AuTileExpr *zero = AU_NEW(l->arena, AuTileExpr), *out = AU_NEW(l->arena, AuTileExpr);
    AuTileExpr **args = AU_NEW_ARRAY(l->arena, AuTileExpr *, ref->args.count);
    *zero = (AuTileExpr){.op = TILE_X_INT, .span = ref->span};
    for (uint32_t n = 0; n < ref->args.count; n++)
        args[n] = held_index(ref, n) ? zero : ref->args.at[n];
    *out = *ref;
    out->args.at = args;
    if (out->names.count) out->names.at++, out->names.count--; /* the rows' comes first */
    return out;
}

/* Is what the lane brings of any row inside: channels of widths that tiles are wider than. */
static AuVal beside_rows(AuLower *l, const AuTileExpr *ref, const AuPoint *p)
{
    AuVal inside = {0};
    for (uint32_t n = 0; n < ref->memory->type.count; n++)
        if (!held_index(ref, n) && lower_may_be_outside(ref, n))
            inside = lower_both(
                l, inside,
                kernel_op2(l->k, AU_K_LT, lower_position(l, ref, n, p), lower_end(l, ref, n)));
    return inside;
}

Gathered lower_gathered(AuLower *l, const Transfer *x, const AuPoint *p)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, x->from->memory);
    AuVal sum = {0}, inside = {0};
    AuPoint own = {.count = 1};
    for (uint32_t n = 0; n < x->from->memory->type.count; n++) {
        const AuTileExpr *index = held_index(x->from, n);
        if (!index) continue;
        own.at[0] = lower_coord(l, &index->type->axes[0], 0);
        const AuVal at = lower_as(l, lower_eval(l, index, &own), AU_I32),
                    stride = kernel_op2(k, AU_K_IDIV, place->strides[n], kernel_i64(k, x->unit)),
                    term = kernel_op2(k, AU_K_MUL, lower_as(l, at, AU_I64), stride);
        sum = sum.i ? kernel_op2(k, AU_K_ADD, sum, term) : term;
        if (x->s->move.pad)
            inside = lower_both(l, inside, kernel_op2(k, AU_K_LT, at, lower_end(l, x->from, n)));
    }
    inside = lower_both(l, inside, lower_when(l, x->s->move.when, &own));
    inside = lower_both(l, inside, place->present);
    sum = kernel_op2(k, AU_K_MUL, sum, kernel_i64(k, x->unit));
    if (inside.i) sum = kernel_op3(k, AU_K_SELECT, inside, sum, kernel_i64(k, NO_ROW));
    return (Gathered){
        .at = {kernel_cvt(k, sum, AU_I32),
               kernel_cvt(k, kernel_op2(k, AU_K_SHR, sum, kernel_i64(k, 32)), AU_I32)},
        .tested = inside.i != 0,
        .beside = x->s->move.pad ? beside_rows(l, x->from, p) : (AuVal){0},
        .rest = lower_piece_address(l, without_rows(l, x->from), p, OUTSIDE_TRUSTED, NULL, x->unit),
        .row = p->at[0].index};
}

AuVal lower_gathered_address(AuLower *l, const Gathered *g, int32_t first, AuVal *inside)
{
    AuKernel *k = l->k;
    const AuVal lane = kernel_op2(k, AU_K_ADD, g->row, kernel_i32(k, first)),
                low = lower_ask_lane(l, g->at[0], lane), high = lower_ask_lane(l, g->at[1], lane),
                above = kernel_op2(k, AU_K_SHL, lower_as(l, high, AU_I64), kernel_i64(k, 32)),
                below = kernel_op2(k, AU_K_AND, lower_as(l, low, AU_I64),
                                   kernel_i64(k, (int64_t)UINT32_MAX));
    *inside = g->beside;
    if (g->tested)
        *inside = lower_both(l, *inside, kernel_op2(k, AU_K_NE, high, kernel_i32(k, INT32_MIN)));
    return kernel_op2(k, AU_K_ADD, g->rest, kernel_op2(k, AU_K_OR, above, below));
}
