/* transfer.c - copies between memories by executors whose lanes are threads.
 *
 * Memory moves in vectors of 16 bytes a lane. They ask for a contiguous last axis and for rows and a base that are multiples of 16
 * bytes: of shared memory and workspace known here, of tensors at the launch, so there the code
 * exists twice under one uniform branch, the other time element by element.
 * Where lanes divide into whole rows a lane keeps its columns: its next vector is a fixed number of rows
 * on, one sum of an address and one comparison with what is left of the rows.
 * Codes of 8 bits become numbers in such vectors, of as many as there are numbers in 16 bytes.
 * Asynchronous copies pad with zeros by the number of bytes that a lane's vector has in the tensor. */
#include "transfer.h"

enum { VECTOR = 16, WORD = 4, MOST_WRITTEN_OUT = 32, FEW = 2 }; /* bytes; turns of a copy */
enum { LINE = 8 };                                              /* vectors of a line of memory */

/* ---- copies between memories */

/* Number [flat] of the vectors, the last axis fastest. */
static AuPoint piece_at(AuLower *l, const Transfer *x, AuVal flat)
{
    AuKernel *k = l->k;
    AuPoint p = {.count = x->type->count};
    for (uint32_t n = x->type->count; n-- > 0;) {
        const bool last = n + 1 == x->type->count;
        const AuVal size = kernel_i32(k, last ? x->units : x->type->axes[n].size);
        const AuVal at = n ? kernel_op2(k, AU_K_IMOD, flat, size) : flat;
        if (n) flat = kernel_op2(k, AU_K_IDIV, flat, size);
        p.at[n] =
            (AuCoord){.axis = x->type->axes[n].name,
                      .index = last ? kernel_op2(k, AU_K_MUL, at, kernel_i32(k, x->unit)) : at};
    }
    return p;
}

/* How many bytes of a vector the tensor has. */
static AuVal bytes_valid(AuLower *l, const Transfer *x, const AuPoint *p, AuVal inside)
{
    AuKernel *k = l->k;
    const AuTileMemory *m = x->from->memory;
    const uint32_t last = m->type.count - 1;
    const int32_t bytes = tile_elem(m->type.elem)->bytes;
    AuVal valid = kernel_i32(k, VECTOR);
    if (!lower_is_whole(x->from, x->unit)) {
        const AuTileExpr *index = x->from->has_index ? x->from->args.at[last] : NULL;
        AuVal at = p->at[p->count - 1].index;
        if (index && index->op == TILE_X_SPAN)
            at = kernel_op2(k, AU_K_ADD, at,
                            lower_as(l, lower_eval(l, index->args.at[0], p), AU_I32));
        const AuVal left =
            kernel_op2(k, AU_K_MUL, kernel_op2(k, AU_K_SUB, lower_end(l, x->from, last), at),
                       kernel_i32(k, bytes));
        valid = kernel_op2(k, AU_K_MIN, valid, left);
    }
    return inside.i ? kernel_op3(k, AU_K_SELECT, inside, valid, kernel_i32(k, 0)) : valid;
}

/* Codes of a tile that becomes one of numbers on the way. */
static bool converts(const Transfer *x)
{
    const AuTileElem from = x->from->memory->type.elem, to = x->to->memory->type.elem;
    return from != to && tile_elem(from)->is_code && !tile_elem(to)->is_code &&
           !x->s->move.is_async;
}

static AuVal moved(AuLower *l, const Transfer *x, AuVal v)
{
    const AuTileElem from = x->from->memory->type.elem, to = x->to->memory->type.elem;
    return from == to ? v : lower_encoded(l, to, lower_decoded(l, from, v));
}

/* One lane's vector; [mine]: whether this lane has one, none: all have. */
static void move_vector(AuLower *l, const Transfer *x, AuVal flat, AuVal mine)
{
    AuKernel *k = l->k;
    const AuPoint p = piece_at(l, x, flat);
    AuLowerMemory *from = lower_memory(l, x->from->memory), *to = lower_memory(l, x->to->memory);
    AuVal inside = {0}, target_inside = {0}, none = {0};
    const uint32_t known = lower_gather_indices(l, x->from, &p);
    const AuVal at = lower_piece_address(
        l, x->from, &p, x->s->move.pad ? OUTSIDE_TESTED : OUTSIDE_TRUSTED, &inside, x->unit);
    const AuVal target = lower_piece_address(
        l, x->to, &p, x->s->move.clip ? OUTSIDE_TESTED : OUTSIDE_TRUSTED, &target_inside, x->unit);
    const AuVal when = lower_when(l, x->s->move.when, &p);
    l->r.known_count = known;
    if (x->s->move.pad)
        inside = lower_both(l, lower_both(l, inside, when), from->present);
    else
        target_inside = lower_both(l, target_inside, when);
    target_inside = lower_both(l, lower_both(l, target_inside, mine), to->present);
    if (x->s->move.is_async) {
        kernel_copy_async(k, to->mem, target, from->mem, at, bytes_valid(l, x, &p, inside), VECTOR,
                          target_inside);
        return;
    }
    inside = lower_both(l, lower_both(l, inside, mine), to->present);
    const AuVal v = kernel_load(k, from->mem, at, (uint32_t)x->unit, inside, none);
    kernel_store(k, to->mem, target, moved(l, x, v), target_inside);
}

/* Elements that an asynchronous copy can bring one by one. */
static bool are_words(const Transfer *x)
{
    return tile_elem(x->from->memory->type.elem)->bytes == WORD &&
           x->from->memory->type.elem == x->to->memory->type.elem && lower_is_zero(x->s->move.pad);
}

static void move_element(AuLower *l, const Transfer *x, AuVal flat, AuVal mine)
{
    AuKernel *k = l->k;
    const AuPoint p = piece_at(l, x, flat);
    AuLowerMemory *from = lower_memory(l, x->from->memory), *to = lower_memory(l, x->to->memory);
    const AuScalar scalar = lower_scalar(x->from->memory->type.elem);
    AuVal inside = {0}, target_inside = {0}, none = {0};
    const uint32_t known = lower_gather_indices(l, x->from, &p);
    const AuVal at = lower_address(
        l, x->from, &p, x->s->move.pad ? OUTSIDE_TESTED : OUTSIDE_TRUSTED, &inside, false);
    const AuVal target = lower_address(
        l, x->to, &p, x->s->move.clip ? OUTSIDE_TESTED : OUTSIDE_TRUSTED, &target_inside, false);
    const AuVal when = lower_when(l, x->s->move.when, &p);
    l->r.known_count = known;
    if (x->s->move.pad)
        inside = lower_both(l, lower_both(l, inside, when), from->present);
    else
        target_inside = lower_both(l, target_inside, when);
    if (x->s->move.is_async && are_words(x)) {
        const AuVal bytes = kernel_i32(k, WORD);
        kernel_copy_async(k, to->mem, target, from->mem, at,
                          inside.i ? kernel_op3(k, AU_K_SELECT, inside, bytes, kernel_i32(k, 0))
                                   : bytes,
                          WORD, lower_both(l, target_inside, mine));
        return;
    }
    inside = lower_both(l, lower_both(l, inside, mine), to->present);
    target_inside = lower_both(l, lower_both(l, target_inside, mine), to->present);
    const AuVal v = kernel_load(k, from->mem, at, 1, inside,
                                inside.i ? lower_padding(l, x->s->move.pad, scalar) : none);
    kernel_store(k, to->mem, target, moved(l, x, v), target_inside);
}

static void all_vectors(AuLower *l, const Transfer *x,
                        void (*move)(AuLower *l, const Transfer *x, AuVal flat, AuVal mine))
{
    AuKernel *k = l->k;
    const int32_t lanes = (int32_t)k->lanes, turns = (x->total + lanes - 1) / lanes;
    const bool ragged = x->total % lanes != 0,
               written_out = turns <= (x->unit > 1 ? MOST_WRITTEN_OUT : FEW);
    for (int32_t t = 0; t < (written_out ? turns : 1); t++) {
        const AuVal turn =
            written_out ? kernel_i32(k, t)
                        : kernel_for(k, kernel_i32(k, 0), kernel_i32(k, turns), 1, AU_UNROLL_NEVER);
        const AuVal flat = kernel_op2(
            k, AU_K_ADD, kernel_op2(k, AU_K_MUL, turn, kernel_i32(k, lanes)), kernel_lane(k));
        const bool tested = ragged && (!written_out || t + 1 == turns);
        move(l, x, flat,
             tested ? kernel_op2(k, AU_K_LT, flat, kernel_i32(k, x->total)) : (AuVal){0});
        if (!written_out) kernel_end(k);
    }
}

/* ---- by rows */

/* One side of a copy by rows: the lane's element in the first rows and in the present ones, how far the next is, how many rows
 * from the lane's first one to the end of what is inside; none: all are before it; and how many come before its begin; none: no row. */
typedef struct Side {
    AuVal first, at, step, left, before;
    AuVal here; /* of rows that are asked for (gather.c): is there this one; none: all are */
} Side;

static uint32_t row_dimension(const AuTileExpr *ref, const char *axis)
{
    uint32_t n = 0;
    while (n < ref->memory->type.count && lower_view_axis(ref, n) != axis) n++;
    return n;
}

/* Vectors of a row that go together: all of them or, where lanes are fewer, as many as divide a row and are a line of memory at least;
 * 0: there are none. */
static int32_t beside(const AuLower *l, const Transfer *x)
{
    const int32_t lanes = (int32_t)l->k->lanes, power = x->units & -x->units;
    if (x->units <= lanes) return x->units;
    return power < LINE ? 0 : power < lanes ? power : lanes;
}

/* Two axes, of which the rows' is a dimension of both memories, or of the one they come to, if lanes hold where they are. */
static bool goes_by_rows(const AuLower *l, const Transfer *x)
{
    const bool gathers = lower_gathers(x->from);
    if (x->type->count != 2 || !beside(l, x) ||
        (gathers ? !lower_may_gather(x) : x->s->move.when != NULL))
        return false;
    const AuTileExpr *const refs[2] = {x->from, x->to};
    for (int n = gathers; n < 2; n++)
        if (row_dimension(refs[n], x->type->axes[0].name) + 1 >= refs[n]->memory->type.count)
            return false;
    return true;
}

enum { NO_ROWS = -(1 << 30) }; /* so few are left that no tile's first row makes it one */

/* How many rows from the lane's first one on are inside: what a tile changes of it is subtracted last. */
static AuVal rows_left(AuLower *l, const Transfer *x, const AuTileExpr *ref, const AuPoint *p)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    const uint32_t row = row_dimension(ref, x->type->axes[0].name);
    AuVal left = {0}, inside = {0}, tile = {0};
    for (uint32_t n = 0; n < ref->memory->type.count; n++) {
        if (!lower_may_be_outside(ref, n)) continue;
        if (n == row) {
            const AuParts at = lower_parted_position(l, ref, n, p);
            left = kernel_op2(k, AU_K_SUB, lower_end(l, ref, n), at.own);
            tile = at.tile;
        } else {
            inside = lower_both(
                l, inside,
                kernel_op2(k, AU_K_LT, lower_position(l, ref, n, p), lower_end(l, ref, n)));
        }
    }
    if (ref == x->from) inside = lower_both(l, inside, place->present);
    if (inside.i && !left.i) left = kernel_i32(k, x->type->axes[0].size);
    if (inside.i) left = kernel_op3(k, AU_K_SELECT, inside, left, kernel_i32(k, NO_ROWS));
    return tile.i ? kernel_op2(k, AU_K_SUB, left, tile) : left;
}

/* How many rows from the lane's first one on come before those that are inside. */
static AuVal rows_before(AuLower *l, const Transfer *x, const AuTileExpr *ref, const AuPoint *p)
{
    AuKernel *k = l->k;
    const uint32_t row = row_dimension(ref, x->type->axes[0].name);
    AuVal first = {0};
    if (row < ref->memory->type.count) first = lower_begin(l, ref, row);
    if (!first.i) return first;
    const AuParts at = lower_parted_position(l, ref, row, p);
    first = kernel_op2(k, AU_K_SUB, first, at.own);
    return at.tile.i ? kernel_op2(k, AU_K_SUB, first, at.tile) : first;
}

static Side side_of(AuLower *l, const Transfer *x, const AuTileExpr *ref, const AuPoint *p,
                    int32_t rows, bool tested)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    const uint32_t row = row_dimension(ref, x->type->axes[0].name);
    const bool global = ref->memory->space == TILE_GLOBAL;
    const AuVal unit = global ? kernel_i64(k, x->unit) : kernel_i32(k, x->unit),
                many = global ? kernel_i64(k, rows) : kernel_i32(k, rows);
    Side side = {.first = lower_piece_address(l, ref, p, OUTSIDE_TRUSTED, NULL, x->unit)};
    const AuVal stride =
        kernel_op2(k, AU_K_MUL, kernel_op2(k, AU_K_IDIV, place->strides[row], unit), unit);
    side.step = kernel_op2(k, AU_K_MUL, stride, many);
    if (tested) side.left = rows_left(l, x, ref, p), side.before = rows_before(l, x, ref, p);
    return side;
}

/* A row further down is inside if [rows] before it are fewer than those left, and all of those that come before. */
static AuVal reaches(AuLower *l, const Side *side, int32_t rows)
{
    AuVal inside = side->here;
    const AuVal above = kernel_i32(l->k, rows);
    if (side->left.i) inside = lower_both(l, inside, kernel_op2(l->k, AU_K_LT, above, side->left));
    if (side->before.i)
        inside = lower_both(l, inside, kernel_op2(l->k, AU_K_LE, side->before, above));
    return inside;
}

static void move_row(AuLower *l, const Transfer *x, const Side *from, const Side *to, int32_t rows,
                     AuVal valid, AuVal mine)
{
    AuKernel *k = l->k;
    const AuLowerMemory *source = lower_memory(l, x->from->memory),
                        *dest = lower_memory(l, x->to->memory);
    const AuVal inside = reaches(l, from, rows), none = {0},
                mask = lower_both(l, lower_both(l, reaches(l, to, rows), mine), dest->present);
    if (x->s->move.is_async) {
        const AuVal bytes =
            inside.i ? kernel_op3(k, AU_K_SELECT, inside, valid, kernel_i32(k, 0)) : valid;
        kernel_copy_async(k, dest->mem, to->at, source->mem, from->at, bytes, VECTOR, mask);
        return;
    }
    const AuVal v =
        kernel_load(k, source->mem, from->at, (uint32_t)x->unit, lower_both(l, inside, mask), none);
    kernel_store(k, dest->mem, to->at, moved(l, x, v), mask);
}

/* Where the lane's vector is [rows] rows below the first; the row before is at side->at. */
static AuVal further_down(AuLower *l, const Transfer *x, const AuTileExpr *ref, const Side *side,
                          const AuPoint *p, int32_t rows)
{
    AuKernel *k = l->k;
    const int32_t at_once = (int32_t)k->lanes / x->units;
    if (!rows) return side->first;
    if (lower_memory(l, ref->memory)->swizzle_span <= VECTOR)
        return kernel_op2(k, AU_K_ADD, side->at, side->step);
    if (lower_has_steps(l, ref) && (at_once & (at_once - 1)) == 0)
        return lower_step(l, ref, side->first, rows, 0);
    AuPoint below = *p;
    below.at[0].index = kernel_op2(k, AU_K_ADD, p->at[0].index, kernel_i32(k, rows));
    return lower_piece_address(l, ref, &below, OUTSIDE_TRUSTED, NULL, x->unit);
}

/* Rows from [base] on, [all] of them, none: from the view's first. */
static void some_rows(AuLower *l, const Transfer *x, AuVal base, int32_t all)
{
    AuKernel *k = l->k;
    const int32_t rows = (int32_t)k->lanes / x->units;
    const AuVal units = kernel_i32(k, x->units), lane = kernel_lane(k),
                row = kernel_op2(k, AU_K_IDIV, lane, units),
                own = kernel_op2(k, AU_K_MUL, kernel_op2(k, AU_K_IMOD, lane, units),
                                 kernel_i32(k, x->unit)),
                column = x->column ? kernel_op2(k, AU_K_ADD, own, kernel_i32(k, x->column)) : own;
    const AuPoint p = {.at = {{.axis = x->type->axes[0].name,
                               .index = base.i ? kernel_op2(k, AU_K_ADD, base, row) : row},
                              {.axis = x->type->axes[1].name, .index = column}},
                       .count = 2};
    const bool gathers = lower_gathers(x->from);
    const Gathered where = gathers ? lower_gathered(l, x, &p) : (Gathered){.row = row};
    Side from = gathers ? (Side){.at = {0}} : side_of(l, x, x->from, &p, rows, x->s->move.pad),
         to = side_of(l, x, x->to, &p, rows, x->s->move.clip);
    const AuVal valid = bytes_valid(l, x, &p, (AuVal){0}), none = {0};
    const bool idle = rows * x->units < (int32_t)k->lanes;
    for (int32_t first = 0; first < all; first += rows) {
        const int32_t most = all - first < rows ? all - first : rows;
        const AuVal mine = idle || most < rows
                               ? kernel_op2(k, AU_K_LT, lane, kernel_i32(k, most * x->units))
                               : none;
        from.at = gathers ? lower_gathered_address(l, &where, first, &from.here)
                          : further_down(l, x, x->from, &from, &p, first);
        to.at = further_down(l, x, x->to, &to, &p, first);
        move_row(l, x, &from, &to, first, valid, mine);
    }
}

/* Many turns are a loop of one: written out, and even eight at a time, what they test and where they are takes more registers than a
 * warp that copies alone has. */
static void by_rows(AuLower *l, const Transfer *x)
{
    AuKernel *k = l->k;
    const int32_t rows = (int32_t)k->lanes / x->units, all = x->type->axes[0].size;
    if (all <= MOST_WRITTEN_OUT * rows || all % rows) {
        some_rows(l, x, (AuVal){0}, all);
        return;
    }
    const AuVal turn =
        kernel_for(k, kernel_i32(k, 0), kernel_i32(k, all / rows), 1, AU_UNROLL_NEVER);
    some_rows(l, x, kernel_op2(k, AU_K_MUL, turn, kernel_i32(k, rows)), rows);
    kernel_end(k);
}

/* A word of a row of them: statistics of rows, which ask for no alignment. */
static void move_word(AuLower *l, const Transfer *x, AuVal flat, AuVal mine)
{
    AuKernel *k = l->k;
    const AuPoint p = piece_at(l, x, flat);
    const AuLowerMemory *from = lower_memory(l, x->from->memory),
                        *to = lower_memory(l, x->to->memory);
    const AuVal at = lower_address(l, x->from, &p, OUTSIDE_TRUSTED, NULL, false),
                target = lower_address(l, x->to, &p, OUTSIDE_TRUSTED, NULL, false), none = {0};
    const Side row = {.left = x->s->move.pad ? rows_left(l, x, x->from, &p) : none,
                      .before = x->s->move.pad ? rows_before(l, x, x->from, &p) : none};
    const AuVal inside = reaches(l, &row, 0);
    AuVal bytes = kernel_i32(k, WORD);
    if (inside.i) bytes = kernel_op3(k, AU_K_SELECT, inside, bytes, kernel_i32(k, 0));
    kernel_copy_async(k, to->mem, target, from->mem, at, bytes, WORD, mine);
}

static void by_vectors(AuLower *l, const Transfer *x)
{
    if (!goes_by_rows(l, x)) {
        all_vectors(l, x, move_vector);
        return;
    }
    Transfer part = *x;
    part.units = beside(l, x);
    for (int32_t done = 0; done < x->units; done += part.units) {
        part.column = done * x->unit;
        by_rows(l, &part);
    }
}

static void by_elements(AuLower *l, Transfer x)
{
    x.unit = 1;
    x.units = x.type->axes[x.type->count - 1].size;
    x.total = (int32_t)tile_elements(x.type);
    all_vectors(l, &x, x.is_row ? move_word : move_element);
}

void lower_transfer(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    if (s->move.is_async && lower_copies_direct(l)) {
        lower_direct(l, s);
        return;
    }
    Transfer x = {.s = s, .from = s->move.source, .to = s->move.dest, .type = s->move.source->type};
    if (!x.type->count || x.type->count > 6) {
        lower_refuse(l, "a copy of this shape");
        return;
    }
    const AuTileElem elem = x.from->memory->type.elem;
    const AuTileAxis *last = &x.type->axes[x.type->count - 1];
    const int32_t bytes = tile_elem(elem)->bytes,
                  widest = converts(&x) ? tile_elem(x.to->memory->type.elem)->bytes : bytes;
    x.unit = VECTOR / widest;
    x.units = last->size / x.unit;
    x.total = (int32_t)tile_elements(x.type) / x.unit;
    const bool vectors = (elem == x.to->memory->type.elem || converts(&x)) &&
                         last->size % x.unit == 0 && lower_is_zero(s->move.pad) &&
                         !lower_begin(l, x.from, x.from->memory->type.count - 1)
                              .i && /* a vector pads its end alone */
                         lower_in_vectors(l, x.from, last->name, x.unit) &&
                         lower_in_vectors(l, x.to, last->name, x.unit) &&
                         lower_is_whole(x.to, x.unit) &&
                         (s->move.is_async || lower_is_whole(x.from, x.unit));
    /* A word a lane needs no alignment, and no second way. */
    x.is_row = s->move.is_async && are_words(&x) && x.type->count == 1 && !s->move.when &&
               !s->move.clip && tile_elements(x.type) <= FEW * (int64_t)k->lanes;
    const AuVal both = lower_both(l, lower_memory(l, x.from->memory)->by_vectors,
                                  lower_memory(l, x.to->memory)->by_vectors);
    if (!vectors || x.is_row)
        by_elements(l, x);
    else if (lower_is_known(l, both, true))
        by_vectors(l, &x);
    else {
        kernel_if(k, both);
        by_vectors(l, &x);
        kernel_else(k);
        const AuStrides from = lower_strides_late(l, x.from), to = lower_strides_late(l, x.to);
        by_elements(l, x);
        lower_strides_again(l, x.to, &to); /* the other way round: both may be of one tensor */
        lower_strides_again(l, x.from, &from);
        kernel_end(k);
    }
    if (s->move.is_async) kernel_copy_commit(l->k);
}
