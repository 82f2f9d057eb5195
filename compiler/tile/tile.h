/* tile.h - the tiled IR: one kernel as a block program of executors, fragments, memory tiles, products, asynchronous operations,
 * pipelines, barriers, tile lists and hooks. docs/dev/tiled-ir.md is its specification.
 *
 * Life of a module: built (build.h) or read (tile_read) -> tile_expand (constants folded, hooks inlined, tuples flattened)
 * -> tile_verify (the rules; fills in the fields marked "verified") -> run.h (interpreter) or the lowering.
 * Nodes live in the module's arena and are never freed singly. Names are interned in the module: compare them with ==. */
#ifndef AU_TILE_TILE_H
#define AU_TILE_TILE_H

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

enum { TILE_MAX_AXES = 8 }; /* of a tile, a memory or a view */

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
            const char *name;
            AuTileExpr *index; /* or NULL */
            bool fences; /* `fence self`: units that go on by themselves see what lanes wrote */
            struct AuTileBarrier *barrier; /* verified; NULL: `self`, the lanes of the executor */
        } barrier;
        struct {
            const char *var_name, *list_name; /* list_name NULL: a range */
            AuTileExpr *low, *high;           /* range(low, high); of a list `from low` or NULL */
            AuTileExpr *segment;              /* of a list, the number of the only one; NULL: all */
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
    const char *name, *producer_name, *consumer_name;
    AuSpan span;
    AuTileExpr *stages;
    AuTileEach each; /* a ring for each instance of that role */
    TILE_LIST(AuTileMemory *) tiles;
    AuTileRole *producer, *consumer; /* verified */
    int32_t stage_count, rings;      /* verified */
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
    int32_t fragment_registers;     /* a lane */
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
    AuTileStmts lets;               /* ASSIGN */
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

/* What a schedule asks of passes and lowering. A row: name in the text, member, what it is where nothing is said. */
#define TILE_OPTIONS(OPTION)                                                                       \
    OPTION(product_rows, 4)    /* register block of a product without matrix units: rows, */       \
    OPTION(product_columns, 1) /* and registers along the lanes */                                 \
    OPTION(swizzle_span, 16)   /* bytes of a swizzled row that stay together: 16, 32, 64, 128 */   \
    OPTION(split, 0)           /* a loop for each segment of a list, not one with a branch */      \
    OPTION(persistent, 0)      /* as many blocks as processors work through the grid's */          \
    OPTION(written, 0)         /* instructions at most where loops over registers are written out */
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

/* ---- the text form (read.c, print.c). Errors go into diags; NULL after an error. */

AuTileModule *tile_module_new(AuArena *arena, const AuTileCaps *caps);
/* `source` is a number that au_source_add gave. A file of hooks alone needs no target. */
AuTileModule *tile_read(AuArena *arena, AuDiags *diags, uint32_t source);
void tile_print(const AuTileModule *module, AuText *out);
void tile_print_expr(const AuTileExpr *expr, AuText *out);
void tile_print_stmt(const AuTileStmt *stmt,
                     AuText *out); /* its first line, without indentation or `{` */
bool tile_equal(const AuTileModule *a, const AuTileModule *b); /* all but places in sources */

/* ---- passes */

typedef struct AuTileOverride {
    const char *name;
    int64_t value;
} AuTileOverride;

/* What tile_expand puts in: later hook files replace functions of earlier ones; the module's own functions replace all. */
typedef struct AuTileExpansion {
    const AuTileModule *const *hooks;
    uint32_t hook_count;
    const AuTileOverride *consts; /* other values for constants */
    uint32_t const_count;
    AuTileNames
        *called; /* gets the names of the functions that were inlined, each once; may be NULL */
} AuTileExpansion;

/* A copy without constants, hooks and tuples: every ASSIGN sets one variable, no CALL is left. NULL after an error.
 * `expansion` may be NULL. The copy's text form reads back. */
AuTileModule *tile_expand(AuArena *arena, AuDiags *diags, const AuTileModule *module,
                          const AuTileExpansion *expansion);

typedef enum AuTileRules {
    TILE_ALL_RULES,
    TILE_TYPES_ONLY, /* not the order of waits, stages and releases (tests of the interpreter) */
} AuTileRules;

/* Checks an expanded module and fills in what is marked "verified". False after an error. */
bool tile_verify(AuDiags *diags, AuTileModule *module, AuTileRules rules);

/* Of an expanded module: all of it, with the same names, to be verified; statements, to stand in it once more. */
AuTileModule *tile_copy_module(AuArena *arena, AuDiags *diags, const AuTileModule *module);
void tile_copy_body(AuDiags *diags, AuTileModule *module, const AuTileStmts *from, AuTileStmts *to);

/* ---- what a statement consists of (parts.c), so that few need to know every kind */

typedef enum AuTileFieldKind {
    TILE_F_END,
    TILE_F_READ,
    TILE_F_DEST,
    TILE_F_CONST,
    TILE_F_NEW,
    TILE_F_NEWS,
    TILE_F_NAME,
    TILE_F_NAMES,
    TILE_F_BODY,
    TILE_F_ITEMS,
    TILE_F_TYPE,
    TILE_F_LAYOUT,
    TILE_F_MEMORY,
    TILE_F_ATOM,
    TILE_F_FLAG,
    TILE_F_NUMBER,
} AuTileFieldKind;

/* A field of statements of one kind (fields.def), and where it is in AuTileStmt. */
typedef struct AuTileField {
    AuTileFieldKind kind;
    uint32_t at;
} AuTileField;
const AuTileField *tile_fields(AuTileStmtKind kind); /* up to the END */

enum { TILE_MOST_READS = 4 };
typedef struct AuTileParts {
    AuTileExpr *
        *reads[TILE_MOST_READS]; /* expressions, NULL where there is none: values and views */
    uint32_t read_count;
    AuTileExpr *dest; /* the view that it writes, or NULL; its indices are read */
    bool adds;        /* the variable that it sets is read too */
    AuTileStmts *bodies[2];
    uint32_t body_count;
} AuTileParts;
AuTileParts tile_parts(AuTileStmt *s);
/* The value of an assignment or of a declaration with one; NULL: it is neither. */
AuTileExpr *tile_assigned(const AuTileStmt *s);
uint32_t tile_count_reads(const AuTileExpr *e, const AuTileVar *var);    /* of NULL: 0 */
uint32_t tile_count_uses(const AuTileStmts *body, const AuTileVar *var); /* reads and assignments */
uint32_t tile_count_reads_in(AuTileStmt *const *body, uint32_t count, const AuTileVar *var);
/* Assignments, but for those of running sums and of opaque fragments, and an `if anywhere(x)` of assignments and loads between them. */
bool tile_is_in_run(const AuTileStmt *s);

/* What a role does with one of its variables (counts.c). Of several ways, be it halves of a branch or loops over the segments of a
 * list, the one that sets it most often counts. */
typedef struct AuTileCount {
    uint32_t defs, uses; /* statements that assign it, expressions that read it */
    bool
        restarted; /* its first definition is a product that does not add: nothing of it outlives a step of a loop */
    bool followed; /* of a loop over tiles: next() asks for the tile after it */
    const char *
        pair_axis; /* operand B of a CPU's matrix unit: an i32 holds two bf16, neighbours along this axis; NULL: plain */
} AuTileCount;
/* By slot. [loop]: one over a segment, or NULL; then loops over the list's other segments are left out. */
AuTileCount *tile_count_role(AuArena *arena, const AuTileRole *role, const AuTileStmt *loop);

/* Do lanes of the role's executors have parts of rows, as matrix units of a warp want them, or neighbours along them? Else each
 * has rows of its own. */
bool tile_shares_rows(const AuTileModule *module, const AuTileRole *role);
/* Of a warp alone, its operands and sums in the lanes' registers: mma.sync, MFMA, WMMA, simdgroup, DPAS. */
bool tile_is_of_warp(const AuTileAtom *atom);

/* `acc = acc * scale` before `acc += a b` of multiply-adds, made of numbers and rows: one pass less over the accumulator where the
 * product computes it as it loads it. */
bool tile_starts_product(const AuTileStmt *s, const AuTileStmt *next);

/* ---- sums that may be added up in parts (linear.c): is e made of x by factors, and by sums over lanes whose numbers differ in
 * [bits], so that it may be computed of parts of x? */
bool tile_is_sum(const AuTileExpr *e);
uint32_t tile_summed_lanes(const AuTileExpr *sum);
bool tile_is_linear(const AuTileExpr *e, const AuTileVar *x, uint32_t *bits);
uint32_t
tile_lane_bits(const AuTilePlaces *places); /* bits of the lane that choose along the axis */
uint32_t tile_warp_bits(const AuTilePlaces *places); /* ... of the warp in its group */

/* ---- small questions */

extern const char *const tile_option_names[TILE_OPTION_COUNT];
int32_t *tile_option(AuTileOptions *options, const char *name);        /* NULL: there is none */
const AuTileAxis *tile_axis(const AuTileType *type, const char *name); /* NULL if there is none */
int64_t tile_elements(const AuTileType *type);
/* The limits of a span `low +: size from a to b`: what is before a, and from b on, counts as outside of the memory. */
bool tile_is_limited(const AuTileExpr *index); /* of an index; NULL: of a whole axis */
/* The largest power of two, at most 64, that divides the i32 expression whatever its variables are. */
int32_t tile_divisor(const AuTileExpr *e);

/* How rows of swizzled memory lie, in bytes. A swizzle span is what stays together of a row: the largest power of two up to [most]
 * (0: a vector) that divides [row]; 0: there is none. */
enum {
    TILE_VECTOR = 16,
    TILE_MOST_SPAN = 128
}; /* bytes: of an access, which is a row of a matrix; of all banks */
int32_t tile_swizzle_span(int32_t row, int32_t most);
int32_t tile_pitch_bytes(int32_t row,
                         int32_t span); /* from row to row: short spans begin on other banks */
bool tile_is_virtual(const AuTileType *type); /* axes, but none has a home */
/* Has an axis no layout? Such a tile is computed where it is read. */
bool tile_is_homeless(const AuTileType *type);
bool tile_is_max(const AuTileExpr *e);        /* a reduction */
bool tile_is_of_kernel(const AuTileVar *var); /* all roles see it */
/* Registers of 32 bits a lane for a value of this type; warp_lanes for opaque fragments. */
int32_t tile_registers(const AuTileType *type, int32_t warp_lanes);
void tile_print_type(const AuTileType *type, AuText *out); /* "f32[q:64, kv:32]" */

#endif
