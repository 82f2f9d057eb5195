/* registers.c - loads, stores and sums of fragments that lie across lanes as matrix units have them.
 * What a lane holds side by side and memory too moves as one vector, if rows of the memory are aligned
 * to it; of tensors the launch decides that, so there the code exists twice. Of the lanes that hold
 * copies of a value one stores it. */
#include "internal.h"

#include <string.h>

enum { VECTOR = 16 }; /* bytes of the widest vector */

typedef struct Registers {
    const AuTileStmt *s;
    const AuTileExpr *ref;
    const AuTileType *type;  /* of the fragment */
    const AuTileVar *var;    /* load */
    const AuTileExpr *value; /* store, atomic_add */
    int32_t wide;            /* elements that lie side by side in the lane and in memory */
    uint32_t fast;           /* their axis */
    bool atomic;
    bool trusted;           /* all of it is inside, whatever the statement says of what is not */
    const AuPacked *packed; /* the tensor lies in this order and the fragment too; or NULL */
    int32_t word;           /* of a piece: which register comes first */
} Registers;

/* The point of the fragment's registers; along the fast axis, or in the order of the piece, one of [wide] further on. */
static AuPoint registers_at(AuLower *l, const Registers *x, const int32_t *regs, int32_t further)
{
    AuPoint p = {.count = x->type->count};
    if (x->packed) {
        const int32_t n = x->word + further;
        p.at[0] = lower_coord(l, &x->type->axes[0], regs[0] + x->packed->rows[n]);
        p.at[1] = lower_coord(l, &x->type->axes[1], regs[1] + x->packed->columns[n]);
        return p;
    }
    for (uint32_t n = 0; n < p.count; n++)
        p.at[n] = lower_coord(l, &x->type->axes[n],
                              regs[n] + (x->wide > 1 && n == x->fast ? further : 0));
    return p;
}

/* Have what a lane says of an index and what a register says no bit in common? */
static bool are_bits(const AuTilePlaces *places)
{
    for (uint32_t n = 0; n + 1 < places->digits.count; n++)
        if (places->digits.at[n].size & (places->digits.at[n].size - 1)) return false;
    return true;
}

static bool goes_by_steps(AuLower *l, const Registers *x)
{
    return x->wide > 1 && x->type->count == 2 && are_bits(x->type->axes[0].places) &&
           are_bits(x->type->axes[1].places) && lower_has_steps(l, x->ref);
}

/* By steps from the lane's first register. */
static AuVal stepped_address(AuLower *l, const Registers *x, const int32_t *regs)
{
    const int32_t zeros[TILE_MAX_AXES] = {0};
    const uint32_t column = x->fast, row = 1 - x->fast;
    const AuTileAxis *axes = x->type->axes;
    const AuPoint first = registers_at(l, x, zeros, 0);
    const AuVal at = lower_piece_address(l, x->ref, &first, OUTSIDE_TRUSTED, NULL, x->wide);
    return lower_step(l, x->ref, at, tile_axis_offset(axes[row].places, regs[row]),
                      tile_axis_offset(axes[column].places, regs[column]));
}

static AuVal address_of(AuLower *l, const Registers *x, const int32_t *regs, const AuPoint *first,
                        AuOutside outside, AuVal *inside)
{
    if (x->packed) {
        const AuTileAxis *piece = x->packed->piece->axes;
        return lower_packed_address(l, x->ref, x->type,
                                    regs[0] / tile_axis_registers(piece[0].places),
                                    regs[1] / tile_axis_registers(piece[1].places), x->word);
    }
    if (goes_by_steps(l, x)) return stepped_address(l, x, regs);
    return x->wide > 1 ? lower_piece_address(l, x->ref, first, outside, inside, x->wide)
                       : lower_address(l, x->ref, first, outside, inside, false);
}

/* A vector that stays one, if its elements have neighbouring registers: numbers of 16 bits that come one by one and are kept from one turn
 * of a loop to the next are a register each to LLVM. */
static bool keeps_vector(AuLower *l, const Registers *x, const int32_t *regs, AuVal all)
{
    const AuVal none = {0};
    uint32_t first = 0;
    int32_t at[TILE_MAX_AXES];
    if (!l->module->options.passing || x->packed || x->wide < 2 ||
        lower_scalar(x->type->elem) != lower_scalar(x->ref->memory->type.elem))
        return false;
    memcpy(at, regs, sizeof at);
    for (int32_t i = 0; i < x->wide; i++, at[x->fast]++) {
        const uint32_t number = lower_register_number(x->type, at);
        if (i == 0) first = number;
        if (number != first + (uint32_t)i) return false;
    }
    if (first % (uint32_t)x->wide) return false;
    kernel_store(l->k, lower_var_array(l, x->var), kernel_i32(l->k, (int32_t)first), all, none);
    return true;
}

/* What a lane has of the bytes, where their numbers lie as the fragment does; NULL: a byte's two are not side by side. */
static const AuTileType *type_of_bytes(AuLower *l, const AuTileType *type, const char *axis)
{
    AuTileType *out = AU_NEW(l->arena, AuTileType);
    AuTileAxis *axes = AU_NEW_ARRAY(l->arena, AuTileAxis, type->count);
    *out = *type;
    memcpy(axes, type->axes, type->count * sizeof *axes);
    for (uint32_t n = 0; n < type->count; n++) {
        if (axes[n].name != axis) continue;
        AuTileDigits digits = axes[n].places->digits;
        if (lower_neighbours(axes[n].places) % 2) return NULL;
        digits.at[0].size /= 2, axes[n].size /= 2;
        axes[n].places = tile_places(l->arena, &digits, axes[n].size);
    }
    out->axes = axes;
    return out;
}

/* A vector of memory, as it lies. */
static AuVal load_vector(AuLower *l, const Registers *x, const int32_t *regs)
{
    const AuLowerMemory *place = lower_memory(l, x->ref->memory);
    const AuScalar scalar = lower_scalar(x->ref->memory->type.elem);
    const AuPoint first = registers_at(l, x, regs, 0);
    const AuTileExpr *pad = x->s->load.pad;
    const AuOutside outside = pad && !x->trusted ? OUTSIDE_TESTED : OUTSIDE_TRUSTED;
    AuVal inside = {0}, none = {0};
    const AuVal at = address_of(l, x, regs, &first, outside, &inside);
    inside = lower_both(l, inside, lower_when(l, x->s->load.when, &first));
    inside = lower_both(l, inside, place->present); /* what was not passed reads as padding */
    const AuVal other = inside.i && x->wide == 1 ? lower_padding(l, pad, scalar) : none;
    return kernel_load(l->k, place->mem, at, (uint32_t)x->wide, inside, other);
}

/* ---- codes that become numbers of 16 bits */

enum { PAIR = 2, TWINS = 8 /* bytes of each of two rows that a vector takes */ };

static bool becomes_halfwords(const Registers *x)
{
    return tile_elem(x->ref->memory->type.elem)->is_code && tile_elem(x->type->elem)->bytes == 2;
}

/* The other axis, if two rows of bytes have numbers that are neighbours in a register; TILE_MAX_AXES: there is none. So integers come, whose numbers
 * machines make two at a time; others become f32 first, of which any two do. */
static uint32_t axis_of_twins(const Registers *x)
{
    const uint32_t other = 1 - x->fast;
    if (!becomes_halfwords(x) || x->ref->memory->type.elem != TILE_I8 || x->type->count != 2 ||
        x->fast > 1 || x->wide < PAIR || x->s->load.pad || x->s->load.when ||
        lower_neighbours(x->type->axes[other].places) != PAIR)
        return TILE_MAX_AXES;
    return other;
}

/* Numbers of codes, those of the registers at [regs] and further on; [twins]: every other one of the row beside. */
static void store_numbers(AuLower *l, const Registers *x, const int32_t *regs, AuVal codes,
                          uint32_t twins)
{
    const AuTileVar *var = x->var;
    const AuVal none = {0};
    const bool halves = x->s->load.halves, beside = twins < TILE_MAX_AXES;
    const int32_t count = (int32_t)kernel_at(l->k, codes)->type.width, rows = beside ? PAIR : 1;
    for (int32_t half = 0; half < (halves ? PAIR : 1); half++) {
        const AuVal numbers = halves
                                  ? kernel_op1(l->k, half ? AU_K_FROM_I4_HIGH : AU_K_FROM_I4, codes)
                                  : lower_decoded(l, x->ref->memory->type.elem, codes);
        const AuVal all = lower_as(l, numbers, lower_scalar(var->type->elem));
        for (int32_t i = 0; i < count; i++) {
            int32_t at[TILE_MAX_AXES];
            memcpy(at, regs, sizeof at);
            at[x->fast] += i / rows;
            if (halves) at[x->fast] = PAIR * at[x->fast] + half;
            if (beside) at[twins] += i % rows;
            kernel_store(l->k, lower_var_array(l, var),
                         kernel_i32(l->k, (int32_t)lower_register_number(var->type, at)),
                         count > 1 ? kernel_element(l->k, all, (uint32_t)i) : all, none);
        }
    }
}

/* Of two rows, whose codes come by turns in a vector. */
static void load_twins(AuLower *l, const Registers *x, const int32_t *regs, uint32_t axis)
{
    int32_t next[TILE_MAX_AXES], at[TILE_MAX_AXES];
    AuVal v[PAIR * TWINS];
    memcpy(next, regs, sizeof next), memcpy(at, regs, sizeof at);
    if (regs[axis] % PAIR) return; /* has come with the row before */
    next[axis]++;
    const AuVal one = load_vector(l, x, regs), other = load_vector(l, x, next);
    for (int32_t first = 0; first < x->wide; first += TWINS) {
        const int32_t count = x->wide < TWINS ? x->wide : TWINS;
        for (int32_t i = 0; i < count; i++) {
            v[PAIR * i] = kernel_element(l->k, one, (uint32_t)(first + i));
            v[PAIR * i + 1] = kernel_element(l->k, other, (uint32_t)(first + i));
        }
        at[x->fast] = regs[x->fast] + first;
        store_numbers(l, x, at, kernel_vec(l->k, v, (uint32_t)(PAIR * count)), axis);
    }
}

static void load_registers(AuLower *l, const Registers *x, const int32_t *regs)
{
    AuKernel *k = l->k;
    const AuVal none = {0};
    const uint32_t twins = axis_of_twins(x);
    if (twins < TILE_MAX_AXES) {
        load_twins(l, x, regs, twins);
        return;
    }
    AuVal all = load_vector(l, x, regs);
    if (x->s->load.halves || (becomes_halfwords(x) && !x->packed)) {
        store_numbers(l, x, regs, all, TILE_MAX_AXES);
        return;
    }
    all = lower_decoded(l, x->ref->memory->type.elem, all);
    if (keeps_vector(l, x, regs, all)) return;
    for (int32_t i = 0; i < x->wide; i++) {
        const AuPoint p = registers_at(l, x, regs, i);
        const AuVal one = x->wide > 1 ? kernel_element(k, all, (uint32_t)i) : all;
        kernel_store(k, lower_var_array(l, x->var), lower_register(l, x->type, &p),
                     lower_as(l, one, lower_scalar(x->type->elem)), none);
    }
}

static void store_registers(AuLower *l, const Registers *x, const int32_t *regs)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, x->ref->memory);
    const AuPoint first = registers_at(l, x, regs, 0);
    const AuOutside outside = x->s->move.clip ? OUTSIDE_TESTED : OUTSIDE_TRUSTED;
    AuVal inside = {0}, v[16];
    const AuVal at = address_of(l, x, regs, &first, outside, &inside);
    inside = lower_both(l, inside, lower_when(l, x->s->move.when, &first));
    inside = lower_both(l, inside, lower_holds(l, x->type));
    for (int32_t i = 0; i < x->wide; i++) {
        const AuPoint p = registers_at(l, x, regs, i);
        v[i] = lower_encoded(l, x->ref->memory->type.elem, lower_eval(l, x->value, &p));
    }
    const AuVal all = x->wide > 1 ? kernel_vec(k, v, (uint32_t)x->wide) : v[0];
    if (!x->atomic) {
        kernel_store(k, place->mem, at, all, inside);
        return;
    }
    const AuVal operands[3] = {at, all, inside};
    kernel_emit(k, (AuInstr){.op = AU_K_ATOMIC_ADD, .mem = place->mem, .span = l->span}, operands,
                inside.i ? 3 : 2);
}

static void move_at(AuLower *l, const Registers *x, const int32_t *regs)
{
    if (x->var)
        load_registers(l, x, regs);
    else
        store_registers(l, x, regs);
}

static void all_registers(AuLower *l, const Registers *x)
{
    int32_t regs[TILE_MAX_AXES] = {0};
    do move_at(l, x, regs);
    while (lower_next_register(x->type, regs, x->fast, x->wide) && !l->failed);
}

/* A lane's registers piece by piece, as many at once as lie side by side. */
static void all_vectors(AuLower *l, Registers *x)
{
    const AuTileAxis *piece = x->packed->piece->axes, *axes = x->type->axes;
    const int32_t down = tile_axis_registers(piece[0].places),
                  across = tile_axis_registers(piece[1].places);
    int32_t regs[TILE_MAX_AXES] = {0};
    for (; regs[0] < tile_axis_registers(axes[0].places); regs[0] += down)
        for (regs[1] = 0; regs[1] < tile_axis_registers(axes[1].places); regs[1] += across)
            for (x->word = 0; x->word < down * across && !l->failed; x->word += x->wide)
                move_at(l, x, regs);
}

/* How many of a lane's registers are neighbours in memory. A condition that is the same for neighbours is one for vectors, too. */
static void widen(AuLower *l, Registers *x, const AuTileExpr *when)
{
    enum { MOST_ADDED = 2 };
    const AuTileType *view = x->ref->type;
    x->wide = 1, x->fast = TILE_MAX_AXES;
    const AuTileElem elem = x->ref->memory->type.elem;
    if (!view->count || (x->atomic && elem != TILE_F32)) return;
    const char *name = view->axes[view->count - 1].name;
    if (when && tile_axis(when->type, name)) return;
    for (uint32_t n = 0; n < x->type->count; n++)
        if (x->type->axes[n].name == name) x->fast = n;
    if (x->fast == TILE_MAX_AXES) return;
    const int32_t neighbours = lower_neighbours(x->type->axes[x->fast].places);
    const int32_t most = x->atomic ? MOST_ADDED : VECTOR / tile_elem(elem)->bytes;
    int32_t wide = 1;
    while (wide * 2 <= most && neighbours % (wide * 2) == 0 && lower_is_whole(x->ref, wide * 2) &&
           lower_in_vectors(l, x->ref, name, wide * 2))
        wide *= 2;
    x->wide = wide;
}

/* How the fragment moves; false, and refused, where it cannot. */
static bool plan(AuLower *l, Registers *x, const AuTileExpr *when)
{
    for (uint32_t n = 0; n < x->type->count; n++)
        if (!x->type->axes[n].places) {
            lower_refuse(l, "axis %s has no layout here", x->type->axes[n].name);
            return false;
        }
    const bool tested = x->var ? x->s->load.pad != NULL : x->s->move.clip;
    widen(l, x, when);
    if (!when && lower_is_packed_so(l, x->ref, x->type, tested)) {
        x->packed = lower_memory(l, x->ref->memory)->packed;
        x->wide = x->packed->words;
    }
    return true;
}

/* Is there code for vectors, and other code? */
static bool exists_twice(AuLower *l, const Registers *x)
{
    return !x->packed && x->wide > 1 &&
           !lower_is_known(l, lower_memory(l, x->ref->memory)->by_vectors, true);
}

static void move_registers(AuLower *l, Registers *x, const AuTileExpr *when)
{
    if (!plan(l, x, when)) return;
    const AuLowerMemory *place = lower_memory(l, x->ref->memory);
    const bool guarded = !x->var && place->present.i;
    if (guarded) kernel_if(l->k, place->present);
    if (x->packed)
        all_vectors(l, x);
    else if (!exists_twice(l, x))
        all_registers(l, x);
    else {
        kernel_if(l->k, place->by_vectors);
        all_registers(l, x);
        kernel_else(l->k);
        x->wide = 1;
        const AuStrides known = lower_strides_late(l, x->ref);
        all_registers(l, x);
        lower_strides_again(l, x->ref, &known);
        kernel_end(l->k);
    }
    if (guarded) kernel_end(l->k);
}

static Registers load_of(const AuTileStmt *s)
{
    return (Registers){.s = s, .ref = s->load.source, .type = s->var->type, .var = s->var};
}

bool lower_load_exists_twice(AuLower *l, const AuTileStmt *s)
{
    if (s->load.source->memory->space != TILE_GLOBAL || !lower_is_zero(s->load.pad)) return false;
    Registers x = load_of(s);
    return plan(l, &x, s->load.when) && exists_twice(l, &x);
}

/* By vectors; [trusted]: all of them are inside. */
static void load_vectors(AuLower *l, AuTileStmt *const *s, uint32_t count, bool trusted)
{
    for (uint32_t n = 0; n < count; n++) {
        Registers x = load_of(s[n]);
        x.trusted = trusted;
        if (plan(l, &x, s[n]->load.when)) all_registers(l, &x);
    }
}

/* Where lanes ask each for itself each load is a branch, with zeros to begin with. */
static AuVal are_whole(AuLower *l, AuTileStmt *const *s, uint32_t count)
{
    AuVal all = {0};
    if (!l->module->options.passing) return kernel_i1(l->k, false);
    for (uint32_t n = 0; n < count; n++)
        if (s[n]->load.pad) all = lower_both(l, all, lower_view_inside(l, s[n]->load.source));
    return all.i ? all : kernel_i1(l->k, true);
}

void lower_fragment_loads(AuLower *l, AuTileStmt *const *s, uint32_t count)
{
    AuVal all = {0};
    for (uint32_t n = 0; n < count; n++)
        all = lower_both(l, all, lower_memory(l, s[n]->load.source->memory)->by_vectors);
    kernel_if(l->k, all);
    const AuVal whole = are_whole(l, s, count);
    if (lower_is_known(l, whole, true) || lower_is_known(l, whole, false))
        load_vectors(l, s, count, lower_is_known(l, whole, true));
    else {
        kernel_if(l->k, whole);
        load_vectors(l, s, count, true);
        kernel_else(l->k);
        load_vectors(l, s, count, false);
        kernel_end(l->k);
    }
    kernel_else(l->k);
    for (uint32_t n = 0; n < count; n++) lower_fragment_load(l, s[n]);
    kernel_end(l->k);
}

void lower_fragment_load(AuLower *l, const AuTileStmt *s)
{
    if (s->load.source->memory->space == TILE_TENSOR) {
        lower_tensor_load(l, s);
        return;
    }
    if (lower_load_by_ldmatrix(l, s) || lower_load_by_blocks(l, s) || lower_load_row(l, s)) return;
    Registers x = load_of(s);
    lower_held(l, s->var)->by_halves = s->load.halves;
    if (s->load.halves) {
        x.type = type_of_bytes(l, x.type, x.ref->type->axes[x.ref->type->count - 1].name);
        if (!x.type) {
            lower_refuse(l, "halves of bytes that lie in several lanes");
            return;
        }
    }
    if (!lower_is_zero(s->load.pad)) {
        x.wide = 1, x.fast = TILE_MAX_AXES;
        all_registers(l, &x);
        return;
    }
    move_registers(l, &x, s->load.when);
}

void lower_fragment_store(AuLower *l, const AuTileStmt *s)
{
    if (s->move.dest->memory->space == TILE_TENSOR) {
        lower_tensor_store(l, s);
        return;
    }
    if (lower_store_by_matrices(l, s)) return;
    Registers x = {.s = s,
                   .ref = s->move.dest,
                   .type = s->move.source->type,
                   .value = s->move.source,
                   .atomic = s->move.op == TILE_ATOMIC_ADD};
    move_registers(l, &x, s->move.when);
}
