/* nodes.h - what programs of the tiled IR are made of: expressions, variables, statements, and what a kernel declares. tile.h has what is
 * done with them.
 *
 * Nodes live in the module's arena and are never freed singly. Names are interned in the module: compare them with ==. Fields marked
 * "verified" are filled in by tile_verify. */
#ifndef AU_TILE_NODES_H
#define AU_TILE_NODES_H

#include "caps.h"
#include "diag.h"

// clang-format off
typedef enum AuTileOp {
#define OP(NAME, text, count, syntax, result, on_f32, on_i32) TILE_X_##NAME,
#include "ops.def"
#undef OP
} AuTileOp;

typedef enum AuTileStmtKind {
#define STMT(KIND, member, text) TILE_S_##KIND,
#include "stmts.def"
#undef STMT
} AuTileStmtKind;

enum {
#define OP(...) +1
    TILE_OP_COUNT = 0
#include "ops.def"
#undef OP
};
// clang-format on

typedef enum AuTileSyntax {
    TILE_SYNTAX_LEAF,
    TILE_SYNTAX_PREFIX,
    TILE_SYNTAX_INFIX,
    TILE_SYNTAX_FN,
    TILE_SYNTAX_SPECIAL,
} AuTileSyntax;

typedef enum AuTileResult {
    TILE_RESULT_NUM,
    TILE_RESULT_F32,
    TILE_RESULT_I32,
    TILE_RESULT_BOOL,
    TILE_RESULT_WHERE,
    TILE_RESULT_OWN,
} AuTileResult;

/* A row of ops.def. */
typedef struct AuTileOpInfo {
    const char *name; /* "ADD" */
    const char *text; /* "+" */
    int32_t arguments;
    AuTileResult result;
    AuTileSyntax syntax;
    uint8_t strength; /* how tightly an infix operator binds */
} AuTileOpInfo;
const AuTileOpInfo *tile_op(AuTileOp op);

typedef struct AuTileExpr AuTileExpr;
typedef struct AuTileStmt AuTileStmt;
typedef struct AuTileVar AuTileVar;
typedef struct AuTileMemory AuTileMemory;
typedef struct AuTilePipe AuTilePipe;
typedef struct AuTileList AuTileList;
typedef struct AuTileRole AuTileRole;
typedef struct AuTileFn AuTileFn;
typedef struct AuTileKernel AuTileKernel;
typedef struct AuTileLayout AuTileLayout;

/* Growing arrays: AU_PUSH(arena, l.at, l.count, l.capacity, item). */
#define TILE_LIST(type)                                                                            \
    struct {                                                                                       \
        type *at;                                                                                  \
        uint32_t count, capacity;                                                                  \
    }
typedef TILE_LIST(AuTileStmt *) AuTileStmts;
typedef TILE_LIST(AuTileExpr *) AuTileExprs;
typedef TILE_LIST(const char *) AuTileNames;

/* ---- types */

enum { TILE_MAX_AXES = 8 };     /* of a tile, a memory or a view */
enum { TILE_MOST_CHAINED = 3 }; /* products in flight that one is added to: chains of four */

/* An axis of a tile or memory. Verified: `size`, the value of the extent, 0 while not known when compiling; `places`, NULL for
 * memory and for virtual axes, which have no home: every lane computes the elements it needs. */
typedef struct AuTileAxis {
    const char *name;
    AuTileExpr *extent;
    int32_t size;
    const AuTilePlaces *places;
} AuTileAxis;

/* Of a value or a memory. A scalar has no axes. An opaque fragment's places are its instruction's secret. */
typedef struct AuTileType {
    AuTileElem elem;
    uint32_t count;
    AuTileAxis *axes;
    const AuTileAtom *opaque;
    AuTileUse use; /* of an opaque fragment */
} AuTileType;

typedef enum AuTileLayoutKind {
    TILE_NO_LAYOUT,
    TILE_LIKE,
    TILE_OF_ATOM,
    TILE_NAMED
} AuTileLayoutKind;

/* `like other`, `@ wgmma.C`, `@ along_lanes` */
typedef struct AuTileLayoutRef {
    AuTileLayoutKind kind;
    AuSpan span;
    const char *name; /* of the fragment or layout */
    const AuTileAtom *atom;
    AuTileUse use;
} AuTileLayoutRef;

/* ---- expressions */

struct AuTileExpr {
    AuTileOp op;
    AuSpan span;
    AuTileExprs args; /* operands; of a REF its indices, one a dimension, of a CALL the arguments */
    const char *
        name; /* NAME, CALL, IOTA (the axis), REF (memory or stage), FIRST, COUNT (list), NEXT (loop variable) */
    const char *field; /* REF: the tile of a stage */
    AuTileNames
        names; /* REF: new names of its axes (`as`); reductions, cumsum: the axes they run over */
    bool has_index;  /* REF: false means all of it */
    int64_t integer; /* INT, BOOL */
    double number;   /* FLOAT: an f32 */
    /* verified */
    const AuTileType *
        type; /* of the value; of a REF the element as read (bf16 stays bf16 as an operand), and the view's axes */
    AuTileVar *var;       /* NAME; the handle of a REF with a field; NEXT: the loop's variable */
    AuTileMemory *memory; /* REF */
    AuTileList *list;     /* FIRST, COUNT */
};

/* ---- variables. One object for each variable of a role, and for each scalar that all roles see. */

typedef enum AuTileVarKind { TILE_VALUE, TILE_STAGE, TILE_TOKEN } AuTileVarKind;
typedef enum AuTileVarOrigin {
    TILE_FROM_BODY,  /* declared or first assigned in a role */
    TILE_FROM_LOOP,  /* of a `for` */
    TILE_FROM_SELF,  /* `self`: which instance of its role */
    TILE_FROM_LET,   /* `let` of the kernel */
    TILE_FROM_GRID,  /* number of the block along an axis of the grid */
    TILE_FROM_PARAM, /* scalar argument */
    TILE_FROM_SIZE, /* extent of a tensor argument: args[arg], axis `axis` (the first that has it) */
} AuTileVarOrigin;

struct AuTileVar {
    const char *name;
    AuTileVarKind kind;
    AuTileVarOrigin origin;
    const AuTileType *type; /* of a VALUE; it never changes */
    uint32_t slot;          /* number among the variables of its role, or of the kernel */
    uint32_t arg, axis;     /* FROM_SIZE, FROM_PARAM, FROM_GRID (axis) */
    const AuTileList *list; /* FROM_LOOP over a list */
    bool is_fragment;       /* has a layout: lives in registers, element by element */
    const AuTileStmt *loop; /* the last loop over one segment that declares it; NULL: none does */
};

/* ---- statements */

typedef enum AuTileMoveOp { TILE_COPY, TILE_STORE, TILE_ATOMIC_ADD, TILE_REDUCE_ADD } AuTileMoveOp;
extern const char *const tile_move_names[4];

struct AuTileStmt {
    AuTileStmtKind kind;
    AuSpan span;
    AuTileVar *var; /* verified: the variable that the statement sets, starts or declares */
    union {
        struct {
            const char *name;
            AuTileType type;
            AuTileLayoutRef layout;
            AuTileExpr *init; /* or NULL */
        } frag;
        AuTileMemory *memory; /* PRIVATE */
        struct {
            AuTileNames names; /* one, once expanded */
            AuTileExpr *value;
        } assign;
        struct {
            const char *name;
            AuTileExpr *source; /* a NAME */
            AuTileLayoutRef layout;
        } convert;
        struct {
            const char *name;
            AuTileExpr *source; /* a REF */
            AuTileLayoutRef layout;
            const char *across; /* axis along which the value is repeated, or NULL */
            AuTileExpr *across_extent, *pad, *when;
            bool paired; /* 0 in rows without a pair: whoever wrote it saw to that */
            bool halves; /* a byte is two integers of 4 bits, the lower one first */
        } load;
        struct {
            AuTileMoveOp op;
            bool is_async, clip;
            const char *token; /* or NULL */
            AuTileExpr *source,
                *dest; /* copy, reduce_add: both REF; store, atomic_add: a value -> REF */
            AuTileExpr *pad, *when;
        } move;
        struct {
            const char *name; /* the accumulator; with dest the token */
            const AuTileAtom *atom;
            bool is_async, add;
            bool serial; /* multiply-adds: each to the sum as it is, not first among themselves */
            AuTileExpr *a, *b;        /* a fragment's value or a REF */
            AuTileExpr *dest, *when;  /* tensor memory, and when to add to it */
            const char *contracted;   /* verified: the common axis */
            const AuTileType *result; /* verified: [m, n] of f32 */
        } product;
        struct {
            AuTileNames names;
            AuTileExpr *but;  /* how many later copies may be in flight still; NULL: not said */
            AuTileVar **vars; /* verified */
        } wait;
        struct {
            const char *name, *pipe_name;
            AuTileExpr *index; /* which ring, or NULL */
            AuTileExpr *turn;  /* how many stages of the ring it had before; NULL: not said */
            AuTilePipe *pipe;  /* verified */
        } stage;
        struct {
            AuTileNames names;
            const char *after;            /* token of a product, or NULL */
            AuTileVar **vars, *after_var; /* verified */
        } close;
        struct {
            AuTileExpr *view; /* of a tensor; rows outside of it are not meant */
        } ahead;
        struct {
            const char *name;
            AuTileExpr *index; /* or NULL */
            bool fences; /* `fence self`: units that go on by themselves see what lanes wrote */
            struct AuTileBarrier *barrier; /* verified; NULL: `self`, the lanes of the executor */
        } barrier;
        struct {
            const char *var_name, *list_name; /* list_name NULL: a range */
            /* range(low, high); of a list `from low to high`, each or NULL */
            AuTileExpr *low, *high;
            AuTileExpr *segment; /* of a list, the number of the only one; NULL: all */
            AuTileStmts body;
            AuTileList *list; /* verified */
        } loop;
        struct {
            AuTileExpr *test;
            AuTileStmts then, other;
        } branch;
        struct {
            const char *segment;
            AuTileStmts body, other; /* other: in all other segments */
        } on;
        struct {
            const char *name;
            AuTileExpr *lanes; /* those that share a sum differ in these bits of their numbers */
            int32_t bits;      /* verified */
        } part;
        struct {
            AuTileExprs items;
        } ret;
    };
};

/* ---- what a kernel declares */

typedef enum AuTileSpace { TILE_GLOBAL, TILE_SHARED, TILE_TENSOR, TILE_PRIVATE_MEMORY } AuTileSpace;
extern const char *const tile_space_names[4];
typedef enum AuTileMode { TILE_PARAM, TILE_IN, TILE_OUT, TILE_INOUT } AuTileMode;
extern const char *const tile_mode_names[4];

/* An argument, a buffer of the block, of an executor, or one tile of a pipeline's stages (first axis `stage` not counted). */
struct AuTileMemory {
    const char *name;
    AuSpan span;
    AuTileSpace space;
    AuTileMode mode; /* of an argument; PARAM: a scalar, no memory */
    AuTileType type;
    AuTileExpr *swizzle;      /* or NULL */
    AuTileExpr *swizzle_span; /* bytes of a swizzled row that stay together, or NULL */
    AuTileLayoutRef packed;   /* of a tensor: the operand in whose pieces it lies, or none */
    AuTilePipe *pipe;         /* whose tile it is, or NULL */
    int32_t swizzle_bytes, swizzle_span_bytes,
        stages;              /* verified; stages is 1 outside of pipelines */
    const AuTileType *piece; /* verified: of a packed tensor, its last two axes cut to a piece */
};

typedef enum AuTileEach { TILE_EACH_NONE, TILE_EACH_PRODUCER, TILE_EACH_CONSUMER } AuTileEach;

struct AuTilePipe {
    const char *name, *producer_name, *consumer_name,
        *also_name; /* a second role that has every stage, too; NULL: none */
    AuSpan span;
    AuTileExpr *stages;
    AuTileEach each; /* a ring for each instance of that role */
    bool one_producer,
        one_consumer; /* of that role one instance alone, always the same, has stages */
    TILE_LIST(AuTileMemory *) tiles;
    AuTileRole *producer, *consumer, *also; /* verified */
    int32_t stage_count, rings;             /* verified */
};

typedef struct AuTileBarrier {
    const char *name;
    AuSpan span;
    AuTileExpr *many, *count;        /* many NULL: one */
    int32_t many_value, count_value; /* verified */
} AuTileBarrier;

typedef enum AuTileHow { TILE_RANGE, TILE_DOWN, TILE_INDEX_LIST } AuTileHow;
extern const char *const tile_how_names[3];

typedef struct AuTileSegment {
    const char *name;
    AuSpan span;
    AuTileHow how;
    AuTileExpr *a,
        *b; /* range(a, b), down(a, b): a-1 .. b; list(a row of an index tensor, count) */
} AuTileSegment;

struct AuTileList {
    const char *name;
    AuSpan span;
    TILE_LIST(AuTileSegment) segments;
};

struct AuTileRole {
    const char *name;
    AuSpan span;
    AuTileExpr *many, *regs; /* NULL: one; not said */
    AuTileExecutor on;
    AuTileStmts body;
    /* verified */
    int32_t many_value, regs_value; /* regs_value 0: not said */
    bool is_exact;                  /* running maxima do not lie behind, whatever option lag says */
    int32_t fragment_registers;     /* a lane, where most declared fragments are in scope */
    TILE_LIST(AuTileVar *) vars;
};

typedef struct AuTileGridAxis {
    const char *name;
    AuTileExpr *extent;
} AuTileGridAxis;

struct AuTileKernel {
    const char *name;
    AuSpan span;
    TILE_LIST(AuTileMemory *) args;
    TILE_LIST(AuTileGridAxis) grid; /* the first axis varies fastest */
    int32_t resident; /* blocks that a processor shall have registers for; 0: not said */
    int32_t
        written; /* instructions at most where loops over registers are written out; 0: all are, or none */
    bool
        is_coarse; /* its results are about to become 16-bit floats: functions of a few ulp will do, as beside products of such */
    AuTileStmts lets; /* ASSIGN */
    TILE_LIST(AuTileList *) lists;
    TILE_LIST(AuTileMemory *) shared;
    TILE_LIST(AuTilePipe *) pipes;
    TILE_LIST(AuTileBarrier *) barriers;
    TILE_LIST(AuTileRole *) roles;
    /* verified */
    TILE_LIST(AuTileVar *) vars;               /* sizes, params, grid, lets */
    int32_t threads, shared_used, tensor_used; /* threads of a block; bytes */
};

struct AuTileFn {
    const char *name;
    AuSpan span;
    AuTileNames params;
    AuTileStmts body; /* ASSIGNs and a RETURN at the end */
};

typedef struct AuTileConst {
    const char *name;
    AuSpan span;
    AuTileExpr *value;
} AuTileConst;

struct AuTileLayout {
    const char *name;
    AuSpan span;
    AuTileDigits rows, cols;
    bool has_cols;
};

/* Registers along the lanes that one block of a product without matrix units has at most. Wider products are several blocks. */
enum { TILE_MOST_COLUMNS = 16 };

/* What a schedule asks of passes and lowering. A row: name in the text, member, what it is where nothing is said. */
#define TILE_OPTIONS(OPTION)                                                                        \
    OPTION(product_rows, 4)    /* register block of a product without matrix units: rows, */        \
    OPTION(product_columns, 1) /* and registers along the lanes */                                  \
    OPTION(swizzle_span, 16)   /* bytes of a swizzled row that stay together: 16, 32, 64, 128 */    \
    OPTION(split, 0)           /* a loop for each segment of a list, not one with a branch */       \
    OPTION(lag, 0)             /* running maxima may lie behind by this, of exponents base 2 */     \
    OPTION(persistent, 0)      /* so many blocks a processor work through the grid's */             \
    OPTION(paced, 0)           /* products at most that operands are read ahead for: AMD's */       \
    OPTION(hints, 0)           /* around products: a set of AuTileHints (caps.h) */                 \
    OPTION(late_strides, 0)    /* addresses of copies element by element are made beside them */    \
    OPTION(row_steps, 0)       /* numbers of a row are loaded steps behind the lane's first one */  \
    OPTION(together, 0) /* loads side by side ask once whether all tensors lie in vectors */        \
    OPTION(passing, 0)  /* tiles pass through registers: loads side by side ask once whether \
                                all of their rows are inside, and a lane keeps vectors; what is \
                                seldom asked of a row is asked in a branch */      \
    OPTION(                                                                                         \
        parted,                                                                                     \
        0) /* of exp(x - y - z), both of a row, z may be anything, not what rounding took from y */ \
    OPTION(contiguous, 0)    /* loads from rows that are contiguous have code of their own */       \
    OPTION(fused, 0)         /* a * b + c in expressions is one instruction, of lanes too */        \
    OPTION(matrix_stores, 0) /* fragments of 16 bits go to shared memory by rows of matrices */
typedef struct AuTileOptions {
#define OPTION(name, otherwise) int32_t name;
    TILE_OPTIONS(OPTION)
#undef OPTION
} AuTileOptions;
enum { TILE_OPTION_COUNT = sizeof(AuTileOptions) / sizeof(int32_t) };

typedef struct AuTileModule {
    AuArena *arena;
    AuNames *names;
    const AuTileCaps *caps; /* of its target */
    AuTileOptions options;
    bool expanded;
    TILE_LIST(AuTileConst) consts;
    TILE_LIST(AuTileLayout *) layouts;
    TILE_LIST(AuTileFn *) fns; /* hooks */
    TILE_LIST(AuTileKernel *) kernels;
} AuTileModule;

#endif
