/* internal.h - what the files of the lowering share. A line needs the lines below it only:
 *
 *     lower.c, roles.c, persistent.c              a kernel: arguments, scalars, its roles and who has them
 *     walk.c                                      statements: loops, branches, barriers
 *     units.c                                     tables of executors and of what multiplies
 *     move.c, transfer.c, gather.c, direct.c, registers.c   memory: element by element, in vectors, rows that lanes know, fragments
 *     stages.c, boxes.c                           pipelines, bulk copies of boxes of tensors
 *     product.c, matrix.c, group.c, opaque.c      products of lanes and cores, of warps, of groups of them, of opaque matrices
 *     blocks.c                                    operands of warps that come from tensors by blocks
 *     by_place.c, by_place_move.c                 fragments of matrices whose functions know places (by_place.h)
 *     tensor.c                                    tensor memory, whose products are those of group.c
 *     fuse.c, items.c, stores.c, sums.c, convert.c  runs of assignments, reductions, running sums, other layouts
 *     exchange.c                                  reductions among lanes
 *     eval.c, address.c, alignment.c, packed.c, tiles.c,
 *     places.c, launch.c                          elements of expressions and memory, memories: these need each other and the next
 *     fragments.c, fragment_loops.c               registers of fragments, where they are and loops over them (fragments.h)
 *
 * What alignment.c knows all files ask, and matrix.c loads fragments for registers.c (lower_load_by_ldmatrix). */
#ifndef AU_LOWER_INTERNAL_H
#define AU_LOWER_INTERNAL_H

#include "fragments.h"
#include "lower.h"
#include "units.h"

/* How a variable of the tiled kernel is held. */
typedef enum AuHeldAs {
    HELD_NOT,     /* not defined yet */
    HELD_VALUE,   /* scalar, assigned once: a value */
    HELD_CELL,    /* scalar, assigned several times: an array of one element */
    HELD_ARRAY,   /* fragment: an array of a lane, one element a register */
    HELD_FORMULA, /* virtual tile: evaluated where it is used */
} AuHeldAs;

typedef struct AuHeld {
    AuHeldAs as;
    AuVal value;
    AuMem mem;
    const AuTileExpr *formula;
    bool in_parts;  /* each lane has a part of it */
    bool taken;     /* another variable lives in its array by now */
    uint32_t met;   /* by the walk of this number over what an expression reads */
    uint32_t visit; /* of a formula: the visit of a point on which it had [value] */
    const AuTilePipe
        *pipe;     /* of a stage; since it was acquired, at this depth of regions, copies bring */
    int32_t bytes; /* so many */
    bool by_lanes; /* and lanes copy asynchronously */
    bool
        by_halves; /* what lanes have side by side came as halves of bytes: every other number together */
    uint32_t depth;
} AuHeld;

/* In what order the last two axes of a packed tensor lie (packed.c). */
enum { LOWER_PACKED = 16 };
typedef struct AuPacked {
    const AuTileType *piece;
    int32_t lanes, size, across;         /* of a piece: lanes, elements; pieces side by side */
    int32_t words;                       /* a lane's registers that lie side by side */
    int32_t strides[2][TILE_MAX_DIGITS]; /* of the digits of an index in the piece */
    int32_t rows[LOWER_PACKED],
        columns[LOWER_PACKED]; /* a lane's register of a piece as one along each axis */
} AuPacked;

/* A memory argument or buffer. */
typedef struct AuLowerMemory {
    const AuTileMemory *memory;
    AuMem mem;
    AuVal strides[8]; /* elements; i64 for global memory, i32 else */
    AuVal extents[8]; /* i32 */
    AuVal present;    /* optional tensors: i1; else none */
    AuVal by_vectors; /* vector access: rows consist of 16-byte vectors, aligned to them: i1 */
    AuVal address;    /* then, of a tensor that the launch passes: a number, i64; else none */
    const AuPacked *packed; /* or NULL */
    const char *pair_axis; /* neighbours along this axis are stored side by side (operands of dot2);
                              NULL: plain */
    int32_t
        swizzle_span; /* bytes: within as many the 16-byte vectors of a row change places, by the row; 16: they do not */
    int32_t part, part_step; /* as units lay rows: elements of a row that lie side by side, and from
                                one part of the columns to the next; 0: rows are whole */
    int32_t stage;           /* of a pipeline's tile: elements from one stage to the next */
} AuLowerMemory;

/* A value that the fused loops know at the present point, in place of what the variable's array
 * holds. */
typedef struct AuKnown {
    const AuTileVar *var; /* or */
    const AuTileExpr *reduction;
    AuVal value; /* of an element computed at this point; none: see mem */
    AuMem mem;   /* of a reduction: its accumulators, indexed like [type] */
    const AuTileType *type;
} AuKnown;

/* A tile list as it is in this block: its segments, where each begins in the count of all tiles. */
typedef struct AuSegment {
    AuVal base, count; /* first tile, number of tiles */
    const AuTileSegment *s;
} AuSegment;
enum { LOWER_SEGMENTS = 4 };
typedef struct AuTiles {
    const AuTileList *list;
    AuSegment at[LOWER_SEGMENTS];
    AuVal start[LOWER_SEGMENTS], total;
    uint32_t count; /* of segments that may have tiles */
    const AuTileVar
        *var; /* of the loop over it that is open, if one is; and how far that loop is */
    AuVal turn, next;
    AuMem
        numbers; /* vector access: of this tile and the ones after it, if somebody asks for the next */
} AuTiles;

/* Which executors of the block a role has: [warps] of them make up one of its own, [many] times. */
typedef struct AuRolePlan {
    const AuTileRole *role;
    uint32_t first, warps, many;
    uint32_t
        barrier; /* the first of its named barriers, one for each of its own; 0: it needs none */
} AuRolePlan;

/* The barriers of a pipeline in memory, one for each stage of each ring. */
typedef struct AuPipePlan {
    const AuTilePipe *pipe;
    AuMem full, empty;
} AuPipePlan;

/* The emission of a role: where in its program it is, and what is known there. */
typedef struct AuRoleState {
    const AuTileRole *role;
    const AuRolePlan *plan;
    const AuUnit *unit;
    AuVal self, warp;          /* which of the role's executors; which warp of that one */
    AuHeld *vars;              /* by slot */
    const AuTileCount *counts; /* likewise */
    /* The loop over tiles around the present statement: which segment a tile is in. */
    AuVal in_segment; /* i1: in one called asked_segment, as the first is */
    const char *asked_segment;
    AuTiles tiles[4];
    uint32_t tiles_count;
    bool
        of_surfaces; /* products take operands from tensors: what is loaded as an operand comes as these do */
    bool by_blocks; /* operands in tensors come by the unit that loads blocks (blocks.c) */
    bool in_branch; /* scalars set here must outlive the region: cells, not values */
    /* The run of assignments or the product being lowered. */
    AuTileStmt *const *run;
    uint32_t run_count;
    const AuTileStmts *beside; /* in half of a branch: the other half */
    const AuTileExpr *start;   /* what a product's accumulator begins with, if not with itself */
    AuKnown *known;
    uint32_t known_count, known_capacity;
    uint32_t walks;       /* over what expressions read, so far */
    const AuPoint *point; /* where expressions are being evaluated */
    uint32_t visits;      /* of points so far; a formula has one value on each */
} AuRoleState;

/* A kernel, and the role that is being emitted. */
struct AuLower {
    AuArena *arena;
    AuDiags *diags;
    const AuTileModule *module;
    const AuTileKernel *tile;
    const AuLowering *how;
    AuKernel *k;
    AuHeld *kernel_vars; /* by slot */
    AuRolePlan *plans;   /* by role */
    AuPipePlan *pipes;
    bool vector_access; /* one of the roles' units moves memory so */
    bool is_persistent; /* its blocks work through those of the grid: persistent.c */
    AuMem row_numbers, place_sums,
        place_operand, /* where an executor's sums go to be reduced, and to become operands; or none */
        column_numbers; /* matrices of positions (by_place.c); none: functions of an element know theirs */
    bool has_units; /* copies or products go on beside executors that go different ways */
    AuVal elected;  /* then: one lane of each warp */
    AuMem left;     /* where lanes that cannot shuffle leave what others add up; or none */
    AuLowerMemory *places;
    uint32_t place_count, place_capacity;
    AuRoleState r;
    AuSpan span; /* of the present statement */
    bool failed;
};

/* What is emitted next comes from there, if it is a place in the script; and from a statement, which is the present one. */
void lower_at(AuLower *l, AuSpan span);
void lower_at_statement(AuLower *l, const AuTileStmt *s);
/* Refuses the present statement. */
void lower_refuse(AuLower *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

AuHeld *lower_held(AuLower *l, const AuTileVar *var);
AuLowerMemory *lower_memory(AuLower *l, const AuTileMemory *memory);
AuScalar lower_scalar(AuTileElem elem);
/* Of a variable of the role, in the loop around. */
const AuTileCount *lower_count(const AuLower *l, const AuTileVar *var);

/* ---- places.c */
void lower_add_argument(AuLower *l, const AuTileMemory *m);
/* A name without the $ of names that a script gave: kernel IR makes its names unique by itself. */
const char *lower_plain_name(AuLower *l, const char *name);
void lower_add_buffer(AuLower *l, const AuTileMemory *m);

/* ---- walk.c */
void lower_walk(AuLower *l, const AuTileStmts *body);
void lower_bind_value(AuLower *l, const AuTileVar *var, AuVal value);

void lower_set_scalar(AuLower *l, const AuTileVar *var, AuVal value);

/* ---- roles.c */
bool lower_plan(AuLower *l); /* which executors have which role; false: refused */
void lower_each_role(AuLower *l, void (*body)(AuLower *l));
void lower_begin_role(AuLower *l, const AuRolePlan *plan);
/* `sync`, `arrive` */
void lower_meet(AuLower *l, const AuTileStmt *s);
void lower_meet_self(AuLower *l); /* all lanes of the executor, be it one warp or several */
/* One lane of the executor, as a mask. */
AuVal lower_one_lane(AuLower *l);

/* ---- stages.c: pipelines */
void lower_add_pipes(AuLower *l);
void lower_open_stage(AuLower *l, const AuTileStmt *s);
void lower_close_stage(AuLower *l, const AuTileStmt *s);
/* The place of the stage among its pipeline's, and its barrier that says that it is filled. */
AuVal lower_stage_of(AuLower *l, const AuTileVar *handle);
AuMem lower_filled(AuLower *l, const AuTilePipe *pipe);

/* ---- boxes.c: copies by a unit of its own */
bool lower_is_bulk(const AuTileStmt *s);
/* Is the tensor one that boxes describe? Then its launches pass rows that are contiguous and aligned to vectors. */
bool lower_has_map(const AuLower *l, const AuTileMemory *m);
void lower_bulk(AuLower *l, const AuTileStmt *s);

/* ---- group.c: products of a group of warps */
void lower_group_product(AuLower *l, const AuTileStmt *s);
void lower_wait(AuLower *l, const AuTileStmt *s); /* for what is in flight, by name */

/* ---- tensor.c: tensor memory */
void lower_add_tensor(AuLower *l, const AuTileMemory *m);
bool lower_has_tensor(const AuLower *l);
void lower_take_tensor(AuLower *l); /* in front of the roles */
void lower_give_tensor(AuLower *l); /* behind them */
void lower_tensor_load(AuLower *l, const AuTileStmt *s);
void lower_tensor_store(AuLower *l, const AuTileStmt *s);

/* ---- eval.c: one element of an expression */
AuVal lower_eval(AuLower *l, const AuTileExpr *e, const AuPoint *p);
AuVal lower_integer(AuLower *l, const AuTileExpr *e); /* of a scalar, as i32 */
/* Between the two all expressions at [p] share what formulas are there; code has no branch in between. */
void lower_visit(AuLower *l, const AuPoint *p);
void lower_leave(AuLower *l);
AuVal lower_as(AuLower *l, AuVal v, AuScalar to);
/* What a memory of [elem] holds as a value, and a value as it holds it. Elements that are no codes are their values. */
AuVal lower_decoded(AuLower *l, AuTileElem elem, AuVal v);
AuVal lower_encoded(AuLower *l, AuTileElem elem,
                    AuVal v); /* between i1, i32, i64, f32 and storage types */
const AuCoord *lower_coordinate(AuLower *l, const AuPoint *p, const char *axis); /* NULL: refused */
AuVal lower_both(AuLower *l, AuVal a, AuVal b); /* a && b, where none is true */

/* ---- address.c: where elements are */
/* Index of an element of a view: in elements of the memory. [inside]: whether all indices that may
 * lie outside are inside, i1 or none; clamped ones never are outside, trusted ones are not by the
 * program. */
typedef enum AuOutside { OUTSIDE_CLAMPED, OUTSIDE_TESTED, OUTSIDE_TRUSTED } AuOutside;
AuVal lower_address(AuLower *l, const AuTileExpr *ref, const AuPoint *p, AuOutside outside,
                    AuVal *inside, bool last_stride_is_one);
/* The same for the first of [unit] neighbours along the last axis, where rows are known to be
 * multiples of the unit apart: the index is written as a multiple of it. */
AuVal lower_piece_address(AuLower *l, const AuTileExpr *ref, const AuPoint *p, AuOutside outside,
                          AuVal *inside, int32_t unit);
/* Swizzled rows: may addresses in the view be made by steps? Its own rows begin at a multiple of eight, its columns at lines. */
bool lower_has_steps(AuLower *l, const AuTileExpr *ref);
/* The element [rows] below and [columns] beside the one at [at], where the lane's part of the row, among eight, and of the column, in
 * its swizzle span, has none of the bits of these: an operation and a constant. */
AuVal lower_step(AuLower *l, const AuTileExpr *ref, AuVal at, int32_t rows, int32_t columns);
/* Index along dimension [n] of the memory, not seen to; the view's axis along it, NULL: none. */
AuVal lower_position(AuLower *l, const AuTileExpr *ref, uint32_t n, const AuPoint *p);
/* The same as a sum: what loops over tiles do not change, and what they do (none: nothing). */
typedef struct AuParts {
    AuVal own, tile;
} AuParts;
AuParts lower_parted_position(AuLower *l, const AuTileExpr *ref, uint32_t n, const AuPoint *p);
const char *lower_view_axis(const AuTileExpr *ref, uint32_t n);
/* The dimension of A's memory along which a product sums. */
uint32_t lower_contracted_dimension(const AuTileStmt *product);
bool lower_may_be_outside(const AuTileExpr *ref, uint32_t dimension);
/* Along dimension [n] the first position that is inside (none: 0), and the first after those. */
AuVal lower_begin(AuLower *l, const AuTileExpr *ref, uint32_t n);
AuVal lower_end(AuLower *l, const AuTileExpr *ref, uint32_t n);
/* Is all of the view inside, asked once for all lanes? None: it always is. */
AuVal lower_view_inside(AuLower *l, const AuTileExpr *ref);

/* ---- fuse.c: a run of assignments */
/* Is it so in a lane, for one of its registers? The same in all lanes. */
AuVal lower_is_anywhere(AuLower *l, const AuTileVar *test);
void lower_assignments(AuLower *l, AuTileStmt *const *statements, uint32_t count);
uint32_t lower_count_reads(const AuTileExpr *e, const AuTileVar *var); /* of NULL: 0 */
/* Computes the reductions in an expression that is no assignment's; they are known until the caller
 * sets l->known_count back to what this returns. */
uint32_t lower_reductions(AuLower *l, AuTileExpr *e);

/* ---- move.c: element by element */
void lower_each_load(AuLower *l, const AuTileStmt *s);
void lower_each_store(AuLower *l, const AuTileStmt *s);
void lower_each_copy(AuLower *l, const AuTileStmt *s);

/* ---- product.c: products of lanes and cores */
void lower_block_product(AuLower *l, const AuTileStmt *s);
void lower_core_product(AuLower *l, const AuTileStmt *s);

/* ---- sums.c: sums of rows in parts while a loop runs */
enum { LOWER_IN_PARTS = 1 }; /* `integer` of a reduction: its lanes do not exchange */
void lower_part(AuLower *l, const AuTileStmt *s);
void lower_join(AuLower *l, const AuTileStmt *s);
AuTileExpr *lower_in_parts(AuLower *l, AuTileExpr *e);
/* of `reduce_top(x) * c + y < z`, c > 0, for a vote: some lane of a row has it false where the row has */
AuTileExpr *lower_asked_in_parts(AuLower *l, AuTileExpr *e);
/* Reduces each register over the warps of the executor whose numbers differ in [bits], through shared memory. */
void lower_join_warps(AuLower *l, AuMem mem, uint32_t registers, uint32_t bits, AuKOp op);

void lower_running_sum(AuLower *l, const AuTileStmt *s); /* x = cumsum(y, axis) */

/* ---- exchange.c: the same over lanes, by shuffles where there are any, else by way of memory */
void lower_join_lanes(AuLower *l, AuMem mem, uint32_t registers, uint32_t bits, AuKOp op);
AuVal lower_ask_lane(AuLower *l, AuVal value, AuVal lane); /* what that lane's value is */

/* ---- opaque.c: fragments whose elements lie nobody knows how */
bool lower_is_opaque(const AuTileStmt *s);
void lower_opaque(AuLower *l, const AuTileStmt *s);
/* Those of a type: how many, and of how many elements, rows first. */
typedef struct AuCut {
    int32_t rows, columns, height, width;
    const char *row_axis, *column_axis; /* NULL: all rows, or columns, are alike */
} AuCut;
AuMem lower_matrices(AuLower *l, const char *name, const AuCut *cut, AuTileUse use,
                     AuTileElem elem);
/* The matrix at that row and column of the view, whose axes are called so. */
void lower_matrix_move(AuLower *l, AuKOp op, AuOpaque matrix, const AuTileExpr *ref,
                       const AuCut *cut, int32_t n);

/* Is the operand loaded straight from a tensor? */
bool lower_is_of_tensor(const AuTileStmt *s);
/* blocks.c: the matrix of the tensor's view at that row and column; what is outside is 0. */
void lower_matrix_of_tensor(AuLower *l, AuOpaque matrix, const AuTileExpr *ref, const AuCut *cut,
                            int32_t row, int32_t column);

/* ---- by_place.c, by_place_move.c: the same where functions of an element know its row and column */
AuCut lower_cut_by_place(AuLower *l, const AuTileType *type);
/* Those of a variable that is operand A: what it holds, or, where that are sums, taken there by way of memory. */
AuMem lower_operand_matrices(AuLower *l, const AuTileVar *var);
/* The variable's matrices, made at its first use; those of 16 bits are operands A. */
AuMem lower_var_matrices(AuLower *l, const AuTileVar *var);
/* Matrices of positions at the beginning of a kernel that computes by them. */
bool lower_wants_positions(const AuLower *l, const AuTileStmts *body);
void lower_positions(AuLower *l);
bool lower_has_places(AuTileStmt *const *statements, uint32_t count);
void lower_by_place(AuLower *l, AuTileStmt *const *statements, uint32_t count);
void lower_part_by_place(AuLower *l, const AuTileVar *var);
void lower_join_by_place(AuLower *l, const AuTileVar *var);
void lower_move_by_place(AuLower *l, const AuTileStmt *s); /* loads and stores */

/* ---- convert.c: other layouts */
void lower_convert(AuLower *l, const AuTileStmt *s);

/* ---- tiles.c: loops over tile lists */
AuTiles *lower_tiles(AuLower *l, const AuTileList *list);
/* The tile number [t] of all segments; *in_first: whether it lies in one called as the first. */
AuVal lower_tile_at(AuLower *l, const AuTiles *tiles, AuVal t, AuVal *in_first);
AuVal lower_tile_of_segment(AuLower *l, const AuSegment *seg, AuVal t);
AuVal lower_first_tile(AuLower *l, const AuTileList *list);
AuVal lower_next_tile(AuLower *l, const AuTileVar *var);
/* Warps: before a loop whose first turn is [first], and in it. Where somebody asks for the next tile, numbers of tiles are found two
 * turns ahead, once a turn; the tile is then what lower_follow gives. */
void lower_follow_from(AuLower *l, AuTiles *tiles, AuVal first);
AuVal lower_follow(AuLower *l, AuTiles *tiles); /* none: nobody asks */

/* ---- matrix.c: products of matrix units of a warp */
void lower_matrix_product(AuLower *l, const AuTileStmt *s);
/* The load of an operand's fragment by load_matrix; false: it cannot be loaded so. */
bool lower_load_by_ldmatrix(AuLower *l, const AuTileStmt *s);

/* ---- blocks.c: operands in tensors, by blocks; those of matrices: matrix.h */
/* Can all operands in tensors of products in there come so, and what else could: i1, the same for all lanes; none: there are none (*any), or they never can. */
AuVal lower_blocks_suit(AuLower *l, const AuTileStmts *body, bool *any);
/* The load of an operand's fragment; false: it goes otherwise. */
bool lower_load_by_blocks(AuLower *l, const AuTileStmt *s);
/* own_loads.c: a row of numbers, with the option row_steps; false: no such load. */
bool lower_load_row(AuLower *l, const AuTileStmt *s);
void lower_blocks_ahead(AuLower *l, const AuTileStmt *s);

/* ---- matrix_store.c: the store of a fragment by store_matrix; false: it cannot be stored so */
bool lower_store_by_matrices(AuLower *l, const AuTileStmt *s);

/* ---- transfer.c: warps: memory to memory */
void lower_transfer(AuLower *l, const AuTileStmt *s);

/* ---- direct.c: those of machines that take one place in shared memory for all lanes */
bool lower_copies_direct(const AuLower *l);
void lower_direct(AuLower *l, const AuTileStmt *s);

/* ---- alignment.c: is memory made of whole vectors? */
/* With the option late_strides: the strides of a tensor in global memory as numbers of where they are asked for, so that addresses of
 * a way that is seldom taken are made there, not before the loops around it, where they would hold registers; and what they were. */
typedef struct AuStrides {
    AuVal at[8];
} AuStrides;
AuStrides lower_strides_late(AuLower *l, const AuTileExpr *ref);
void lower_strides_again(AuLower *l, const AuTileExpr *ref, const AuStrides *known);
void lower_vector_condition(AuLower *l, AuLowerMemory *place, const AuLowerTensor *from);
/* Do the view's elements along its last axis, called [axis], lie side by side, beginning at a multiple
 * of [unit]? by_vectors says when. Is a piece of them inside as a whole, if its first element is? */
bool lower_in_vectors(AuLower *l, const AuTileExpr *ref, const char *axis, int32_t unit);
bool lower_is_whole(const AuTileExpr *ref, int32_t unit);
/* Is the index along a dimension (NULL: all of it) known to begin at a multiple of [unit]? */
bool lower_starts_at(const AuTileExpr *index, int32_t unit);
bool lower_is_known(AuLower *l, AuVal v, bool value); /* a constant i1 */

/* What a statement has beside its view, at a point. */
AuVal lower_when(AuLower *l, const AuTileExpr *when, const AuPoint *p); /* none: always */
AuVal lower_padding(AuLower *l, const AuTileExpr *pad, AuScalar scalar);
bool lower_is_zero(const AuTileExpr *e); /* or NULL */

/* ---- packed.c: tensors in the pieces of an instruction's operand */
const AuPacked *lower_pack(AuLower *l, const AuTileMemory *m); /* NULL: refused */
/* Where the element of that row and column is, i64: behind the offset of the other dimensions. */
AuVal lower_packed_offset(AuLower *l, const AuPacked *p, AuVal row, AuVal column);
/* Is the fragment spread over lanes as the tensor's pieces are, and the view one of whole pieces, none of
 * them outside where that is [tested]? */
bool lower_is_packed_so(AuLower *l, const AuTileExpr *ref, const AuTileType *type, bool tested);
/* Then: where the lane's registers from [word] on of that piece of the fragment are. */
AuVal lower_packed_address(AuLower *l, const AuTileExpr *ref, const AuTileType *type, int32_t row,
                           int32_t column, int32_t word);
/* Where a view of whole pieces begins. */
AuVal lower_packed_start(AuLower *l, const AuTileExpr *ref);

/* ---- registers.c: warps: fragments and memory */
void lower_fragment_load(AuLower *l, const AuTileStmt *s);
/* With the option together: loads that stand side by side, whose code exists twice, for vectors and for any strides, ask once
 * for all of them, so that all are on their way before one is waited for. */
bool lower_load_exists_twice(AuLower *l, const AuTileStmt *s);
void lower_fragment_loads(AuLower *l, AuTileStmt *const *s, uint32_t count);
void lower_fragment_store(AuLower *l, const AuTileStmt *s); /* and atomic_add */

/* ---- launch.c: scalar expressions of sizes as launch expressions */
AuLaunchExpr lower_launch_expr(AuLower *l, const AuTileExpr *e);
void lower_launch_grid(AuLower *l);

/* ---- persistent.c: the role for each block of the grid that falls to this one. [block] lowers the rest of its body */
void lower_each_block(AuLower *l, void (*block)(AuLower *l, const AuTileStmts *body));

#endif
