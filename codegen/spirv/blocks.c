/* blocks.c - blocks of matrices in global memory for the lanes of a subgroup of 16 (block_load, block_ahead): Intel's GPUs from Ponte Vecchio on.
 *
 * Two spellings of the same units (flavour->blocks): functions that the compiler of the device knows by their names (cl_intel_subgroup_2d_block_io),
 * and instructions (SPV_INTEL_2d_block_io). Surfaces that the units do not take (block_gather) go by functions of the module, which load element by
 * element and are not inlined: what takes that way is short. For devices that have no such units but subgroups of 16 lanes these do all: so
 * Intel's device for processors executes what surrounds them.
 *
 * Elements come in words of two, as operand B of a product wants them, but of blocks of eight rows, which are operand A. */
#include "emit.h"

#include <string.h>

enum { VOLATILE_ALIGNED = 3 /* Memory Operands */, COLUMNS = 16, BYTES = 2, PIECES = 8 };

/* A shape that the units know. */
typedef struct Block {
    const char *name;       /* of the function */
    uint32_t width, across, /* of block_load; of two that are one load, of both */
        element, /* bytes, as the unit counts: of two neighbours where rows become lanes */
        columns, rows, count, op, capability;
} Block;
static const Block blocks[SPV_BLOCKS] = {
    {"read_16b_8r16x1c", 8, 0, 2, COLUMNS, 8, 1, SPV_Subgroup2DBlockLoadINTEL,
     SPV_CAP_Subgroup2DBlockIOINTEL},
    {"read_transform_16b_16r16x1c", 16, 0, 2, COLUMNS, 16, 1, SPV_Subgroup2DBlockLoadTransformINTEL,
     SPV_CAP_Subgroup2DBlockTransformINTEL},
    {"read_transpose_32b_16r8x1c", 16, 1, 4, COLUMNS / 2, 16, 1,
     SPV_Subgroup2DBlockLoadTransposeINTEL, SPV_CAP_Subgroup2DBlockTransposeINTEL},
    {"read_transform_16b_16r16x2c", 32, 0, 2, COLUMNS, 16, 2, SPV_Subgroup2DBlockLoadTransformINTEL,
     SPV_CAP_Subgroup2DBlockTransformINTEL},
    {"prefetch_16b_8r16x2c", 0, 0, 2, COLUMNS, 8, 2, SPV_Subgroup2DBlockPrefetchINTEL,
     SPV_CAP_Subgroup2DBlockIOINTEL},
    {"prefetch_16b_16r16x2c", 0, 0, 2, COLUMNS, 16, 2, SPV_Subgroup2DBlockPrefetchINTEL,
     SPV_CAP_Subgroup2DBlockIOINTEL},
    {"prefetch_16b_32r16x2c", 0, 0, 2, COLUMNS, 32, 2, SPV_Subgroup2DBlockPrefetchINTEL,
     SPV_CAP_Subgroup2DBlockIOINTEL}};

static bool in_words(const Block *b) { return b->width > 8; }

/* Of a load, what a lane gets: elements, or words of two. */
static uint32_t pieces_of(const Block *b) { return b->width > 16 ? 2 * PIECES : PIECES; }

enum { PAIR = 3, PLACE_OF_COLUMN = 4 /* among operands of block_load */ };

/* The number of the row; SPV_BLOCKS: there is none. */
static uint32_t block_of(const AuInstr *in)
{
    const bool loads = in->op != AU_K_BLOCK_AHEAD;
    uint32_t n = 0;
    while (n < SPV_BLOCKS &&
           (loads ? blocks[n].width != in->type.width || blocks[n].across != in->imm
                  : blocks[n].width || blocks[n].rows != in->imm))
        n++;
    return n;
}

typedef struct Types {
    SpvId word, wide, small, place, far, piece,
        all; /* i32, i64, i16; two coordinates; a pointer to memory; what a lane gets, one and all */
} Types;

static Types types_of(SpvModule *m, const Block *b)
{
    Types t = {.word = spirv_scalar(m, AU_I32),
               .wide = spirv_scalar(m, AU_I64),
               .small = spirv_int(m, 16)};
    spirv_capability(m, SPV_CAP_Int16);
    t.place = spirv_type(m, SPV_TypeVector, SPV_WORDS(t.word, 2));
    t.far = spirv_pointer(m, m->flavour->far, t.small);
    t.piece = in_words(b) ? t.word : t.small;
    t.all = spirv_type(m, SPV_TypeVector, SPV_WORDS(t.piece, pieces_of(b)));
    if (pieces_of(b) > PIECES) spirv_capability(m, SPV_CAP_Vector16);
    return t;
}

/* ---- a body */

static SpvId clamped(SpvModule *m, SpvId v, SpvId count)
{
    const SpvId last = spirv_make2(m, SPV_ISub, spirv_scalar(m, AU_I32), count, spirv_u32(m, 1));
    v = spirv_extreme(m, AU_K_MIN, AU_I32, v, last);
    return spirv_extreme(m, AU_K_MAX, AU_I32, v, spirv_u32(m, 0));
}

/* Parameters of a body. A place is two numbers along each axis: what tiles share, and a constant, so that nothing is kept for each block. */
enum { POINTER, WIDTH, HEIGHT, PITCH, STEP, COLUMN, ROW, RIGHT, BELOW, LANE };

static SpvId along(SpvModule *m, const Types *t, SpvId index, SpvId apart)
{
    return spirv_make2(m, SPV_IMul, t->wide, spirv_make1(m, SPV_SConvert, t->wide, index), apart);
}

/* Element [number] of the lane, a word; 0 outside. Volatile, so that calls stay where they are: of functions that only read Intel's compiler makes those
 * of a whole tile at its beginning, and has no registers for what they give. */
static SpvId element_of(SpvModule *m, const Types *t, const Block *b, const SpvId *given,
                        SpvId number)
{
    const SpvId truth = spirv_scalar(m, AU_I1), lane = given[LANE];
    const SpvId x = spirv_make2(m, SPV_IAdd, t->word, given[COLUMN], given[RIGHT]),
                y = spirv_make2(m, SPV_IAdd, t->word, given[ROW], given[BELOW]);
    const SpvId column = spirv_make2(m, SPV_IAdd, t->word, x, b->across ? number : lane),
                row = spirv_make2(m, SPV_IAdd, t->word, y, b->across ? lane : number);
    const SpvId near_column = clamped(m, column, given[WIDTH]),
                near_row = clamped(m, row, given[HEIGHT]);
    const SpvId at = spirv_make2(m, SPV_IAdd, t->wide, along(m, t, near_row, given[PITCH]),
                                 along(m, t, near_column, given[STEP]));
    const SpvId from = spirv_make2(m, SPV_InBoundsPtrAccessChain, t->far, given[POINTER], at),
                small = spirv_make(m, SPV_Load, t->small, SPV_WORDS(from, VOLATILE_ALIGNED, BYTES)),
                value = spirv_make1(m, SPV_UConvert, t->word, small);
    const SpvId inside = spirv_make2(m, SPV_LogicalAnd, truth,
                                     spirv_make2(m, SPV_IEqual, truth, column, near_column),
                                     spirv_make2(m, SPV_IEqual, truth, row, near_row));
    return spirv_choose(m, t->word, inside, value, spirv_u32(m, 0));
}

/* Piece [n] of what the lane gets: an element, or a word of two. */
static SpvId piece_of(SpvModule *m, const Types *t, const Block *b, const SpvId *given, SpvId n)
{
    if (!in_words(b)) return spirv_make1(m, SPV_UConvert, t->small, element_of(m, t, b, given, n));
    const SpvId first = spirv_make2(m, SPV_ShiftLeftLogical, t->word, n, spirv_u32(m, 1)),
                second = spirv_make2(m, SPV_IAdd, t->word, first, spirv_u32(m, 1));
    const SpvId low = element_of(m, t, b, given, first),
                high = spirv_make2(m, SPV_ShiftLeftLogical, t->word,
                                   element_of(m, t, b, given, second), spirv_u32(m, 16));
    return spirv_make2(m, SPV_BitwiseOr, t->word, low, high);
}

/* Piece by piece: written out, what a call needs beside its result takes as many registers again, of the kernel that calls it. */
static SpvId body(SpvModule *m, const Types *t, const Block *b, const SpvId *given)
{
    const SpvId all = spirv_variable(m, t->all);
    const SpvTurns turns = spirv_open_turns(m, PIECES);
    const SpvId one = piece_of(m, t, b, given, turns.now),
                so_far = spirv_make1(m, SPV_Load, t->all, all);
    const SpvId more =
        spirv_make(m, SPV_VectorInsertDynamic, t->all, SPV_WORDS(so_far, one, turns.now));
    spirv_do(m, SPV_Store, SPV_WORDS(all, more));
    spirv_close_turns(m, &turns);
    return spirv_make1(m, SPV_Load, t->all, all);
}

/* ---- functions */

/* One that the device's compiler brings: pointer, bytes of a row, rows, bytes from row to row, coordinates, and where a lane's part goes. */
static SpvId known_function(SpvModule *m, const Types *t, uint32_t n)
{
    const Block *b = &blocks[n];
    const bool loads = b->width != 0;
    const SpvId operands[] = {t->far,  t->word,  t->word,
                              t->word, t->place, spirv_pointer(m, SPV_IN_Function, t->piece)};
    const SpvSignature takes = {spirv_scalar(m, AU_VOID), operands,
                                sizeof operands / sizeof *operands - (loads ? 0 : 1)};
    if (m->blocks[n]) return m->blocks[n];
    const char *name = au_format(m->arena, "intel_sub_group_2d_block_%s", b->name),
               *to = !loads        ? ""
                     : in_words(b) ? "Pj"
                                   : "Pt";
    const char *mangled = au_format(m->arena, "_Z%zu%sPU3AS1viiiDv2_i%s", strlen(name), name, to);
    return m->blocks[n] = spirv_known_function(m, name, mangled, &takes);
}

/* One of the module: what it gives is what a lane gets. */
static SpvId own_function(SpvModule *m, const Types *t, uint32_t n)
{
    const SpvId word = t->word;
    const SpvSignature takes = {
        t->all, (SpvId[]){t->far, word, word, t->wide, t->wide, word, word, word, word, word},
        SPV_PARAMETERS};
    SpvOwnFunction f;
    if (m->gathers[n]) return m->gathers[n];
    spirv_begin_function(m, &f, blocks[n].name, &takes);
    const SpvId all = body(m, t, &blocks[n], f.given);
    return m->gathers[n] = spirv_end_function(m, &f, all);
}

/* ---- uses */

static SpvId pointer_of(SpvEmit *e, const AuInstr *in)
{
    return spirv_far_address(e, in->mem, kernel_operand(e->k, in, 0), 0);
}

/* Pointer, bytes of a row, rows, bytes from row to row, coordinates: what the units are told. */
static void surface_of(SpvEmit *e, const AuInstr *in, const Block *b, const Types *t, SpvId *out)
{
    SpvModule *m = e->m;
    SpvId at[2] = {spirv_operand(e, in, 4, 0), spirv_operand(e, in, 5, 0)};
    out[0] = pointer_of(e, in);
    for (uint32_t n = 1; n < 4; n++) {
        out[n] = spirv_operand(e, in, n, 0);
        if (n != 2) out[n] = spirv_make2(m, SPV_ShiftLeftLogical, t->word, out[n], spirv_u32(m, 1));
    }
    if (b->element != BYTES) /* in words of two elements */
        at[0] = spirv_make2(m, SPV_ShiftRightArithmetic, t->word, at[0], spirv_u32(m, 1));
    out[4] = spirv_make(m, SPV_CompositeConstruct, t->place, at, 2);
}

/* By the unit; [to]: where a lane's part goes, or none. */
static void by_unit(SpvEmit *e, const AuInstr *in, const Types *t, uint32_t n, SpvId to)
{
    SpvModule *m = e->m;
    const Block *b = &blocks[n];
    SpvId given[5];
    surface_of(e, in, b, t, given);
    if (e->flavour->blocks == SPV_BLOCKS_BY_NAME) {
        const SpvId all[] = {
            known_function(m, t, n), given[0], given[1], given[2], given[3], given[4], to};
        spirv_make(m, SPV_FunctionCall, spirv_scalar(m, AU_VOID), all,
                   sizeof all / sizeof *all - (to ? 0 : 1));
        return;
    }
    const SpvId all[] = {spirv_u32(m, b->element),
                         spirv_u32(m, b->columns),
                         spirv_u32(m, b->rows),
                         spirv_u32(m, b->count),
                         given[0],
                         given[1],
                         given[2],
                         given[3],
                         given[4],
                         to};
    spirv_capability(m, b->capability);
    spirv_extension(m, "SPV_INTEL_2d_block_io");
    spirv_do(m, b->op, all, sizeof all / sizeof *all - (to ? 0 : 1));
}

/* A number as one that is computed and a constant. */
static void parted(SpvEmit *e, AuVal v, SpvId *shared, SpvId *constant)
{
    const AuInstr *in = kernel_at(e->k, v);
    const AuInstr *last = in->op == AU_K_ADD ? kernel_at(e->k, kernel_operand(e->k, in, 1)) : NULL;
    const bool is_sum = last && last->op == AU_K_CONST;
    *shared = is_sum                 ? spirv_operand(e, in, 0, 0)
              : in->op == AU_K_CONST ? spirv_u32(e->m, 0)
                                     : spirv_value(e, v, 0);
    *constant = is_sum                 ? spirv_u32(e->m, (uint32_t)last->imm)
                : in->op == AU_K_CONST ? spirv_value(e, v, 0)
                                       : spirv_u32(e->m, 0);
}

static SpvId by_lanes(SpvEmit *e, const AuInstr *in, const Types *t, uint32_t n)
{
    SpvModule *m = e->m;
    const bool gathers = in->op == AU_K_BLOCK_GATHER;
    const uint32_t place = gathers ? 5 : 4;
    SpvId all[1 + SPV_PARAMETERS] = {own_function(m, t, n)}, *given = all + 1;
    given[POINTER] = pointer_of(e, in);
    given[WIDTH] = spirv_operand(e, in, 1, 0);
    given[HEIGHT] = spirv_operand(e, in, 2, 0);
    given[PITCH] = spirv_operand(e, in, 3, 0);
    if (!gathers) given[PITCH] = spirv_make1(m, SPV_SConvert, t->wide, given[PITCH]);
    given[STEP] = gathers ? spirv_operand(e, in, 4, 0) : spirv_u64(m, 1);
    parted(e, kernel_operand(e->k, in, place), &given[COLUMN], &given[RIGHT]);
    parted(e, kernel_operand(e->k, in, place + 1), &given[ROW], &given[BELOW]);
    given[LANE] = e->lane;
    return spirv_make(m, SPV_FunctionCall, t->all, all, 1 + SPV_PARAMETERS);
}

/* What the lane gets, all together. */
static SpvId loaded(SpvEmit *e, const AuInstr *in, uint32_t n)
{
    SpvModule *m = e->m;
    const Types t = types_of(m, &blocks[n]);
    if (in->op == AU_K_BLOCK_GATHER || e->flavour->blocks == SPV_BLOCKS_OF_MODULE)
        return by_lanes(e, in, &t, n);
    if (!e->loaded[n]) e->loaded[n] = spirv_variable(m, t.all);
    by_unit(e, in, &t, n,
            spirv_make1(m, SPV_Bitcast, spirv_pointer(m, SPV_IN_Function, t.piece), e->loaded[n]));
    return spirv_make1(m, SPV_Load, t.all, e->loaded[n]);
}

/* The next instruction, if it loads the block to the right of this one: the two are one load of the unit, for which Intel's compiler keeps one description
 * of the surface. */
static AuVal right_beside(const SpvEmit *e, AuVal v, const Block *b)
{
    const AuVal none = {0}, next = {kernel_at(e->k, v)->next};
    if (!next.i || b->across || !in_words(b) || e->flavour->blocks == SPV_BLOCKS_OF_MODULE)
        return none;
    const AuInstr *in = kernel_at(e->k, v), *other = kernel_at(e->k, next);
    if (in->op != AU_K_BLOCK_LOAD || other->op != AU_K_BLOCK_LOAD || in->mem.i != other->mem.i ||
        in->imm != other->imm || in->type.width != other->type.width)
        return none;
    for (uint32_t n = 0; n < in->count; n++) {
        const AuVal left = kernel_operand(e->k, in, n), right = kernel_operand(e->k, other, n);
        const AuInstr *from = kernel_at(e->k, left), *to = kernel_at(e->k, right);
        const bool beside = n == PLACE_OF_COLUMN && from->op == AU_K_CONST &&
                            to->op == AU_K_CONST && to->imm == from->imm + COLUMNS;
        if (n == PLACE_OF_COLUMN ? !beside : left.i != right.i) return none;
    }
    return next;
}

static SpvId *pieces(SpvEmit *e, SpvId all, SpvId type, uint32_t first)
{
    SpvId *parts = AU_NEW_ARRAY(e->m->arena, SpvId, PIECES);
    for (uint32_t i = 0; i < PIECES; i++)
        parts[i] = spirv_make(e->m, SPV_CompositeExtract, type, SPV_WORDS(all, first + i));
    return parts;
}

void spirv_block_load(SpvEmit *e, AuVal v)
{
    SpvModule *m = e->m;
    const AuInstr *in = kernel_at(e->k, v);
    uint32_t n = block_of(in);
    if (e->words[v.i]) return; /* with the one before */
    if (n == SPV_BLOCKS || e->k->lanes != AU_BLOCK_LANES) {
        spirv_lacks(e, in);
        return;
    }
    const AuVal second = right_beside(e, v, &blocks[n]);
    if (second.i) n = PAIR;
    const bool words = in_words(&blocks[n]);
    const SpvId all = loaded(e, in, n), word = spirv_scalar(m, AU_I32),
                piece = words ? word : spirv_int(m, 16);
    SpvId *const parts = pieces(e, all, piece, 0);
    for (uint32_t i = 0; i < PIECES && !words; i++)
        spirv_set(e, v, i, spirv_make1(m, SPV_UConvert, word, parts[i]));
    if (words) e->words[v.i] = parts;
    if (second.i) e->words[second.i] = pieces(e, all, piece, PIECES);
}

void spirv_block_ahead(SpvEmit *e, const AuInstr *in)
{
    const uint32_t n = block_of(in);
    if (n == SPV_BLOCKS) {
        spirv_lacks(e, in);
        return;
    }
    if (e->flavour->blocks == SPV_BLOCKS_OF_MODULE) return; /* nothing is far away there */
    const Types t = types_of(e->m, &blocks[n]);
    by_unit(e, in, &t, n, 0);
}
