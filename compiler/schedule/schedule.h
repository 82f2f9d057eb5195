/* schedule.h - schedules: C functions that build one kernel shape in the tiled IR for an attention,
 * from a row of capabilities and a shape: by the schedule's rule, from the tuned table (shapes.def) or
 * a user's, or forced. A schedule knows nothing of targets' names
 * and nothing of the attention but its hooks. */
#ifndef AU_SCHEDULE_H
#define AU_SCHEDULE_H

#include "build.h"
#include "hooks.h"

#include "aule/artifact.h"

/* How many queries a kernel is made for: blocks of a few rows where they would be mostly empty. */
typedef enum AuQueries {
    AU_ANY_QUERIES,
    AU_PAGED_QUERIES, /* any number, of keys in pages */
    AU_MIXED_QUERIES, /* packed, few of some sequences and many of others */
    AU_SOME_QUERIES,
    AU_FEW_QUERIES,
    AU_DECODE_QUERIES, /* rows of all heads that share keys, counted together */
    AU_CHUNK_QUERIES, /* the same, more of them than are few, where groups of warps have parts of the keys */
    AU_QUERIES
} AuQueries;

/* Kernels for few rows of all heads that share keys have further forms: more blocks a processor, where sequences are many and
 * what a block begins and ends with counts; twice the rows a block, which read keys once where others read them twice. Of keys and values that are stored as codes:
 * half the rows, with room for three blocks a processor. */
typedef enum AuFewForm { AU_FEW_USUAL, AU_FEW_CROWDED, AU_FEW_TALL, AU_FEW_NARROW } AuFewForm;
enum {
    SCHEDULE_CROWD = 264, /* blocks of an H200, two a processor, from which on sequences are many */
    SCHEDULE_TILE_ROWS = 16, /* of a block, but of tall ones */
    SCHEDULE_TALL_KEYS =
        1
        << 17, /* of all sequences and heads together, from which on tall blocks are faster: at half as many 0.95 to 0.7 of
                                     the speed, at twice as many 1.3 (H200) */
};

/* Fewer sequences, or sequences of so few keys at most, do not differ by what a list of parts takes. */
enum { SCHEDULE_UNEVEN_SEQUENCES = 8, SCHEDULE_UNEVEN_KEYS = 1024 };
enum { SCHEDULE_SHORT_ROWS = 4096 }; /* what a block begins and ends with counts beside its tiles */

typedef struct AuShapes AuShapes;
typedef struct AuShapeRow AuShapeRow;

/* What a schedule is asked for. */
typedef struct AuProblem {
    AuAttn *attn; /* widths fixed: every size of a last axis of q, k, v is a number */
    const AuHooks *hooks;
    const AuTileCaps *caps;
    AuTileElem operand;   /* element type of q, k, v, o */
    int32_t d, e;         /* widths of keys and of values */
    const AuGrads *grads; /* NULL: there is no backward */
    bool unfinished;    /* forward leaves sums and states as they are: the operation `unfinished` */
    bool deterministic; /* no sums in any order */
    bool tf32;          /* operands of f32 are multiplied as tf32 */
    AuQueries queries;
    bool invariant; /* the bits of a row's result depend on its own sequence alone */
    bool
        balanced; /* of few queries: parts of keys are equal whatever lengths sequences have (warps_shares.c) */
    AuFewForm form;  /* of AU_DECODE_QUERIES */
    bool short_rows; /* there are SCHEDULE_SHORT_ROWS queries at most */
    bool by_slots;   /* append: slots say where each row goes, else the ends of sequences */
    bool
        boxes; /* a launch passes tensors that boxes of tensor maps describe: strides are multiples of 16 bytes */
    int32_t spare_shared;   /* bytes of a block's shared memory to leave to what passes make */
    const AuShapes *shapes; /* tuned rows and forced ones (shapes.h); NULL: rules decide */
    const AuShapeRow **row; /* where it is said which row was taken or refused; NULL: nowhere */
} AuProblem;

/* Are rows of all heads that share keys counted together? */
static inline bool schedule_counts_groups(AuQueries queries)
{
    return queries == AU_DECODE_QUERIES || queries == AU_CHUNK_QUERIES;
}

/* Of queries in a layout: are the kernels those for few, whose blocks have a sequence's rows of all heads that share keys? */
static inline bool schedule_packs_rows(const AuProblem *p)
{
    return schedule_counts_groups(p->queries) ||
           (p->queries == AU_SOME_QUERIES && !p->caps->has_private);
}

/* What a schedule may choose; shape_keys.def has what rows of text say of it. */
typedef struct AuShape {
    int32_t query_registers; /* query rows of a block: lanes * executors * this */
    int32_t executors;       /* of a block; 1 on a CPU */
    int32_t key_tile;        /* keys a tile */
    int32_t
        pair_rows; /* lanes: rows of a tile, keys or queries, whose pairs a lane has at once, in a loop; 0: all of the tile */
    int32_t key_registers; /* backward, lanes: keys of a block: lanes * executors * this */
    bool with_dq;          /* all gradients in one kernel */
    bool by_gradient;      /* dk and dv in a kernel each */
    int32_t product_rows,
        product_columns; /* register block of a product: rows, and registers along the lanes */
    /* warps: */
    int32_t rows, stages;             /* query rows of a warp; tiles of keys in shared memory */
    int32_t query_tile, column_parts; /* backward: queries a tile (of which there are stages); warps
                                         that share their [rows] keys, forward: rows */
    int32_t
        sharing; /* trips to memory that it costs to read keys once that sequences share: groups that save less
                        are read by each of their sequences; 0: none is */
    int32_t part_keys; /* backward, few queries: keys of a block's part at least */
    int32_t
        row_tiles; /* of warps_decode: tiles of rows of a block, of which each warp has all; 0: one */
    int32_t
        part_start; /* of lists of parts (warps_shares.c): what a part begins and ends with, in tiles of keys; 0: no lists */
    bool keys_apart; /* the warps of a block share its [rows]; each has its part of a tile's keys */
    bool query_in_registers; /* else products take queries from shared memory */
    int32_t query_channels;  /* few queries: channels of theirs that are operands in registers */
    bool keys_in_registers;  /* backward: and keys and values of S and dP */
    int32_t
        query_parts; /* backward: parts of a tile of queries whose pairs are made one after another */
    /* groups of warps: */
    bool scores_ahead; /* products of the next scores beside those of these weights */
    bool grown;        /* sums are scaled only where a row's maximum has grown */
    int32_t lag;       /* a row's maximum may lie behind by so many powers of two; 0: it is exact */
    bool paired;       /* of wide values: two groups make weights in turn, of a tile each */
    int32_t key_pieces; /* of a tile of theirs that come and go by themselves; 0: one */
    bool turns;         /* groups take turns at the matrix units */
    bool passes;        /* a group passes over tiles that none of its rows sees */
    int32_t
        persistent; /* so many blocks a processor at most, each for several of the grid's; 0: for one */
    bool output_apart;  /* the output has a tile of its own, not that of the queries */
    bool matrix_stores; /* operands go to shared memory by rows of matrices (stmatrix) */
    int32_t exchange_stages, result_stages; /* backward: tiles of dS, of dQ in shared memory */
    bool values_early;                      /* backward: dV starts in front of the fence of dS */
    bool exchange_turned;   /* tiles of dS lie [queries, keys], as dQ reads them by rows */
    int32_t value_channels; /* backward: of the block's values that are operands in registers */
    bool result_boxes;      /* dK and dV leave through shared memory, by boxes */
    bool
        grid_sections; /* as many heads after each other as the second cache holds what their blocks come back to */
    int32_t producer_registers, consumer_registers; /* of a lane, once roles part */
    bool
        one_loop; /* of few queries: tiles that are tested and others in one loop, with a branch a tile */
    bool split_segments; /* an option: a loop for each segment of tiles, without a branch */
    bool
        direct; /* tiles of keys and values come to shared memory by copies that no register sees */
    bool
        far; /* operands come straight from their tensors, without tiles in shared memory: keys and values; backward's queries, too */
    bool
        exchanges; /* lanes exchange sums that become operands, or could: a rule's choice (via_shared) */
    bool
        via_shared; /* sums become operands by way of shared memory, where lanes could exchange them */
    int32_t hints;        /* around products: a set of AuTileHints */
    int32_t swizzle_span; /* likewise: bytes of a tile's row that stay together; 0: 16 */
    double
        forecast; /* warps: cycles of a processor for a pair, by the model that chose it; 0: none did */
} AuShape;

/* What rows of tables may ask for (conditions.def). */
typedef enum AuMaskKind {
    AU_MASK_ANY,
#define MASK(NAME, word) AU_MASK_##NAME,
#include "conditions.def"
    AU_MASK_KINDS
} AuMaskKind;
typedef enum AuLengthClass {
    AU_LENGTH_ANY, /* there is one variant for any number of queries */
#define LENGTH(NAME, word) AU_LENGTH_##NAME,
#include "conditions.def"
    AU_LENGTH_CLASSES
} AuLengthClass;
/* common.c: of a problem; a mask's is never ANY. */
AuMaskKind schedule_mask_kind(const AuProblem *p);
AuLengthClass schedule_length_class(const AuProblem *p);
const char *schedule_mask_word(AuMaskKind kind); /* "causal"; NULL for ANY */
const char *schedule_length_word(AuLengthClass length);

/* common.c: the same for so many queries. */
AuProblem schedule_problem_for(const AuProblem *p, AuQueries queries);

typedef struct AuSchedule {
    const char *name;      /* its row: "lanes_forward: executors=1 .." (shape_text) */
    AuTileModule *module;  /* expanded and verified; kernels in the order of their launches */
    AuTileModule *written; /* as built, hooks not inlined: for --emit=tiled-ir */
    AuTileNames called;    /* functions that its kernels call */
    AuShape shape;
    bool by_batch;    /* bits of a row's result depend on how many others there are, or on which */
    bool shares_keys; /* those that groups of sequences share are read once */
    bool
        overlaps; /* its kernels are so short that each should begin beside those before it, where machines have that */
    const char
        *regions[AULE_MAX_REGIONS]; /* arguments of its kernels that are regions of the workspace,
                               sized by their types */
    bool zeroed[AULE_MAX_REGIONS];  /* before the first launch */
    bool work
        [AULE_MAX_REGIONS]; /* lists that kernels before the others make of inputs and shapes alone: what the operation `schedule` makes */
    uint32_t region_count;
} AuSchedule;

/* One index of a read in the script, and where the kernels of checks say that it lies outside. */
typedef struct AuCheck {
    AuSpan span;           /* of the read */
    uint32_t tensor, axis; /* what is read */
    uint32_t rows;   /* 0: rows of queries, 1: of keys, 2: of values: the tensor whose they are */
    uint32_t region; /* i32[b, h, slices, row], axes as of that tensor */
    uint32_t slice, slices;
} AuCheck;

typedef struct AuChecks {
    AuSchedule *schedule; /* NULL: there is nothing to check */
    AuCheck *at;
    uint32_t count;
} AuChecks;

/* checks.c: kernels to run before those of an operation. false: diagnostics are in diags. */
bool schedule_checks(AuArena *arena, AuDiags *diags, const AuProblem *problem, AuChecks *out);

/* Are there kernels for few queries whose parts are those of a list? */
bool schedule_has_form(AuArena *arena, const AuProblem *problem, AuFewForm form);
bool schedule_balances(AuArena *arena, const AuProblem *problem);
/* Are there kernels for batches of few queries and many? */
bool schedule_takes_mixed(AuArena *arena, const AuProblem *problem);

/* Is there a function that joins what parts of a row's keys come to? Else one block of kernels for few queries has all of them. */
bool schedule_joins_parts(const AuProblem *problem);
/* Have values other heads than the keys? Kernels for few queries have one head of values for each of keys, or one of keys for each of values, which the condition of a
 * variant asks. */
bool schedule_has_value_heads(const AuAttn *a);
/* Does only data say which keys few queries see, but of those of a group, which are read whatever it says? */
bool schedule_asks_data(const AuProblem *problem);
/* Why blocks would not do that read all keys of a range, of which data leave some: lists of tiles are for blocks of one head; NULL: they do. */
const char *schedule_lists_refusal(const AuProblem *problem);
/* Why they take no rows of keys of further products, which heads that share keys must share, too; NULL: they do. */
const char *schedule_shared_dots_refusal(const AuProblem *problem);
/* What of the script kernels for few queries do not take; NULL: nothing, if there are none it is a matter of widths or of the machine. */
const char *schedule_few_refusal(const AuProblem *problem);
/* Why kernels for few queries do not take rows as they lie; NULL: they do. */
const char *schedule_rows_refusal(const AuProblem *problem);
/* The same of kernels for any number of queries that copy tiles of whole pages. */
const char *schedule_pages_refusal(const AuProblem *problem);

/* Values are channels of the keys, but rows of their own, since a mod changes either. */
bool schedule_values_apart(const AuProblem *problem);

/* key_layout.c: have inputs the axis of keys? Where keys are paged, nothing else says how long it is. */
bool schedule_inputs_have_keys(const AuAttn *attn);

/* common.c: a schedule of that name and shape, without kernels; NULL: refused, since [why] says so. */
AuSchedule *schedule_new(AuArena *arena, AuDiags *diags, const AuProblem *p, const char *name,
                         const AuShape *shape, const char *why);
/* What all schedules begin with: target, and options of the shape that others than schedules read. */
AuTileBuild *schedule_begin(AuArena *arena, AuDiags *diags, const AuProblem *p,
                            const AuSchedule *out);

/* ---- shapes, by rule and refused; what builds kernels of them is declared below, by its row of schedules.def */

/* lanes_forward.c */
AuShape schedule_lanes_shape(const AuProblem *problem);
int32_t schedule_lanes_limit(const AuProblem *problem, AuQueries queries);
/* lanes_decode.c: most queries, 0: it is nothing for the problem; most rows of queries of the heads that share keys. */
int32_t schedule_decode_limit(const AuProblem *problem);
enum {
    SCHEDULE_DECODE_ROWS = 32,
    SCHEDULE_DECODE_QUERIES = 8
}; /* of a head; one more are faster with queries along the lanes */
int32_t schedule_lanes_decode_rows(const AuProblem *problem); /* of a head of keys */
/* lanes_packed.c: the same. Of the heads that share keys as many rows as there are: what else there is has each head by itself. */
int32_t schedule_lanes_packed_limit(AuArena *arena, const AuProblem *problem);
enum { LANES_PACKED_ROWS = 1 << 16, LANES_PACKED_QUERIES = 48 };
/* Beside sequences of many queries of a head of keys no more than so many rows are few, and those of one query, since there is room for as many of each. */
enum { LANES_PACKED_BESIDE = 64 };
/* Have kernels for any number of queries warps that share their rows, so that hooks must have what joins their states (hooks_join)? */
bool schedule_joins_warps(AuArena *arena, const AuProblem *p);
/* choose.c: of the kernels that there are for the problem. */
int32_t schedule_decode_rows(AuArena *arena, const AuProblem *problem);
/* Do kernels of forward for few queries, which have parts of the keys, take more rows where others have too few blocks, or blocks of which most rows
 * are none? */
bool schedule_takes_more_rows(AuArena *arena, const AuProblem *problem);
enum {
    SCHEDULE_MORE_QUERIES = 128, /* of a head: a block's of kernels for any number */
    SCHEDULE_MORE_ROWS =
        2048 /* of all heads and sequences, which leave processors to others; twice as many where blocks are tall */
};
/* AU_CHUNK_QUERIES: more rows than so many of the heads that share keys. Up to so many queries of a head that have twice as many keys; or so many rows of all
 * heads and sequences, too few blocks for all processors, that have eight times as many keys as queries (docs/dev/hopper.md). */
enum { SCHEDULE_CHUNK_ROWS = 32, SCHEDULE_CHUNK_QUERIES = 128, SCHEDULE_CHUNK_ALL = 1 << 15 };
enum { SCHEDULE_MOST_GROUPS = 4096 }; /* of sequences that share keys (key_groups.c) */
enum { SCHEDULE_PAGE_ROWS = 16 };     /* of which pages that come by boxes must be multiples */

/* lanes_backward.c */
AuShape schedule_lanes_back_shape(const AuProblem *problem);
/* What the shape would compute otherwise than the problem asks; NULL: nothing. */
const char *schedule_lanes_back_refusal(const AuProblem *problem, const AuShape *shape);

/* warps_back_shape.c */
bool schedule_warps_back_shape(AuArena *arena, const AuProblem *problem, AuShape *shape,
                               const char **why);
/* warps_shape.c: the best shape by rule; false: none does, *why says what stands against the last. */
bool schedule_warps_shape(AuArena *arena, const AuProblem *problem, AuShape *shape,
                          const char **why);
/* Where the kernels for any number of queries have blocks of [usual] rows. */
int32_t schedule_warps_limit(AuArena *arena, const AuProblem *problem, int32_t usual);

/* linear_parts.c: what both of the following ask of a row of text; NULL, or why it does not do. */
const char *schedule_linear_fit(const AuProblem *problem, const AuShape *shape);
const char *schedule_linear_tokens_sharing(const AuProblem *problem, const AuShape *shape);
/* Executors that share out a block's key channels, by rule. */
int32_t schedule_linear_tokens_parts(const AuProblem *problem);
/* linear_chunks.c */
const char *schedule_linear_chunks_refusal(const AuProblem *problem);
const char *schedule_linear_chunks_backward_refusal(const AuProblem *problem, const AuShape *shape);

/* choose.c: what there is for a family of attentions, and which of it for a problem. */
typedef enum AuOperation {
#define OPERATION(NAME, text) AU_##NAME,
#include "aule/operations.def"
    AU_OPERATIONS
} AuOperation;

/* Has something of that operation for so many queries that moves tensors by boxes? */
static inline bool schedule_may_have_boxes(AuOperation operation, AuQueries queries)
{
    return queries <= AU_MIXED_QUERIES ||
           (operation == AU_FORWARD && (queries == AU_SOME_QUERIES || queries == AU_CHUNK_QUERIES));
}
const char *schedule_operation(AuOperation operation); /* "forward" */

typedef enum AuFamilyName { AU_FAMILY_ONLINE, AU_FAMILY_LINEAR } AuFamilyName;

/* A way to make the kernels of an operation: a row of schedules.def. */
typedef struct AuScheduleRow {
    AuFamilyName family;
    const char *name; /* "warps_forward" */
    AuOperation operation;
    uint32_t traits; /* schedules.def says what they mean */
    /* false: not for this problem, *why says what stands against it. */
    bool (*shape)(AuArena *arena, const AuProblem *problem, AuShape *shape, const char **why);
    AuSchedule *(*build)(AuArena *arena, AuDiags *diags, const AuProblem *problem,
                         const AuShape *shape);
    /* Fills in what follows from the rest of a row of text. NULL, or why the shape does not do. */
    const char *(*fit)(AuArena *arena, const AuProblem *problem, AuShape *shape);
} AuScheduleRow;

/* A schedule's functions; the first gives NULL after an error. */
#define SCHEDULE(family, name, ...)                                                                \
    AuSchedule *schedule_##name(AuArena *arena, AuDiags *diags, const AuProblem *problem,          \
                                const AuShape *shape);                                             \
    bool schedule_##name##_shape(AuArena *arena, const AuProblem *problem, AuShape *shape,         \
                                 const char **why);                                                \
    const char *schedule_##name##_fit(AuArena *arena, const AuProblem *problem, AuShape *shape);
#include "schedules.def"

/* Attentions that have schedules in common. */
typedef struct AuFamily {
    AuFamilyName name;
    const char *what; /* "a recurrence ('linear')", for diagnostics */
    bool (*has)(const AuAttn *attn);
    /* Most queries for which forward kernels of fewer rows are worth their room; 0: none are. NULL: there are no such kernels. */
    int32_t (*limit)(AuArena *arena, const AuProblem *problem);
    /* The same of backward, which has AU_DECODE_QUERIES alone: most rows of the heads that share keys. *why: there are none, where
     * the machine has such kernels. */
    int32_t (*back_limit)(AuArena *arena, const AuProblem *problem, const char **why);
    bool says_refusals; /* kernels say in their name which better schedule did not do, and why */
} AuFamily;
const AuFamily *schedule_family(const AuAttn *attn);
bool schedule_makes(const AuFamily *family, AuOperation operation);
/* The kernels of a row; one that leaves out a hook of the attention is refused. NULL after an error. */
AuSchedule *schedule_make(AuArena *arena, AuDiags *diags, const AuProblem *problem,
                          const AuScheduleRow *row, const AuShape *shape);
/* Has the family a schedule that moves tensors by boxes, and a shape of it for the problem or one that somebody asked for? *why: not,
 * or NULL where the machine has no boxes. */
bool schedule_has_boxes(AuArena *arena, const AuProblem *problem, AuOperation operation,
                        const char **why);
/* Has it, by a table or by rule, another shape of kernels that move boxes for SCHEDULE_SHORT_ROWS queries and fewer? Not where somebody asks for one. */
bool schedule_has_short(AuArena *arena, const AuProblem *problem, AuOperation operation);
AuSchedule *schedule_choose(AuArena *arena, AuDiags *diags, const AuProblem *problem,
                            AuOperation operation);
/* Are rows of text for the schedule about the kernels of the problem, or about those for more queries? */
bool schedule_takes_rows(const AuProblem *problem, const char *schedule);
/* "bf16", or "tf32", as operands are multiplied. */
const char *schedule_operand(const AuProblem *problem);

#endif
