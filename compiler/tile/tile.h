/* tile.h - the tiled IR: one kernel as a block program of executors, fragments, memory tiles, products, asynchronous operations,
 * pipelines, barriers, tile lists and hooks. docs/dev/tiled-ir.md is its specification, nodes.h what its programs are made of.
 *
 * Life of a module: built (build.h) or read (tile_read) -> tile_expand (constants folded, hooks inlined, tuples flattened)
 * -> tile_verify (the rules; fills in the fields marked "verified") -> run.h (interpreter) or the lowering. */
#ifndef AU_TILE_TILE_H
#define AU_TILE_TILE_H

#include "nodes.h"

/* ---- the text form (read.c, print.c). Errors go into diags; NULL after an error. */

AuTileModule *tile_module_new(AuArena *arena, const AuTileCaps *caps);
/* `source` is a number that au_source_add gave. A file of hooks alone needs no target. */
AuTileModule *tile_read(AuArena *arena, AuDiags *diags, uint32_t source);
void tile_print(const AuTileModule *module, AuText *out);
void tile_print_expr(const AuTileExpr *expr, AuText *out);
void tile_print_args(const AuTileExprs *args, AuText *out); /* "a, b" */
/* "a, b", with [before] in front if there are any. */
void tile_print_names(const AuTileNames *names, const char *before, AuText *out);
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
/* Does one instance of its producer, or of its consumer, have a ring of the pipeline for itself? Else all instances share its stages. */
bool tile_pipe_is_alone(const AuTilePipe *pipe, bool produces);
/* The value of an assignment or of a declaration with one; NULL: it is neither. */
AuTileExpr *tile_assigned(const AuTileStmt *s);
uint32_t tile_count_reads(const AuTileExpr *e, const AuTileVar *var);    /* of NULL: 0 */
uint32_t tile_count_uses(const AuTileStmts *body, const AuTileVar *var); /* reads and assignments */
uint32_t tile_count_reads_in(AuTileStmt *const *body, uint32_t count, const AuTileVar *var);
bool tile_reads_memory(const AuTileStmts *body, const AuTileMemory *memory); /* anywhere in it */
/* Assignments, but for those of running sums and of opaque fragments, and an `if anywhere(x)` of assignments and loads, whose other half has
 * assignments alone, between them. */
bool tile_is_in_run(const AuTileStmt *s);
bool tile_asks(const AuTileStmt *s); /* is it an `if anywhere(x)`? */

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

/* Do lanes of the role's executors have parts of rows, as matrix units of a warp want them, or neighbours along them, or move matrices together? Else each
 * has rows of its own. */
bool tile_shares_rows(const AuTileModule *module, const AuTileRole *role);
/* Do they multiply by an instruction of which nobody knows where elements lie, but what place each has (atoms.h, by_place)? */
bool tile_is_by_place(const AuTileStmts *body);
/* Is it a fragment of such an instruction, or a row or column of one? */
bool tile_has_places(const AuTileType *type);
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
bool tile_is_max(const AuTileExpr *e); /* a reduction */
/* The same operations on the same variables; what reads memory is like nothing, it may have changed. */
bool tile_same_expr(const AuTileExpr *a, const AuTileExpr *b);
bool tile_is_of_kernel(const AuTileVar *var); /* all roles see it */
/* Registers of 32 bits a lane for a value of this type; warp_lanes for opaque fragments. */
int32_t tile_registers(const AuTileType *type, int32_t warp_lanes);
void tile_print_type(const AuTileType *type, AuText *out); /* "f32[q:64, kv:32]" */

#endif
