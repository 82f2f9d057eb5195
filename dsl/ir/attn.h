/* attn.h - the attention IR: what one attention means, as typed expression graphs over named axes.
 * docs/dev/attention-ir.md is its specification.
 *
 * An AuAttn is made by the front end (dsl/front) or by the reader of the text form, checked by
 * attn_verify, simplified by attn_simplify, evaluated in f64 by attn_interpret (the oracle of every
 * test), and turned into the hooks of the tiled IR.
 *
 * Expressions are nodes of one graph, in topological order (an argument's index is smaller than its
 * user's), hash-consed: equal expressions are one node. A node has a type (f32, i32, bool) and a
 * set of axes, the indices that its value depends on; an expression without axes is a scalar of the
 * launch. Whatever depends on the query only is computed once a row by whoever generates code,
 * because its axes say so. */
#ifndef AU_DSL_ATTN_H
#define AU_DSL_ATTN_H

#include "arena.h"
#include "diag.h"

typedef struct AuExpr {
    uint32_t i; /* 0: none */
} AuExpr;

typedef enum AuType { AU_T_NONE, AU_T_F32, AU_T_I32, AU_T_BOOL } AuType;

/* Element types of tensors and parameters. OPERAND: the operand type of the build (f32, f16, bf16). */
typedef enum AuDtype {
    AU_DT_OPERAND,
    AU_DT_F32,
    AU_DT_F16,
    AU_DT_BF16,
    AU_DT_I32,
    AU_DT_I64,
    AU_DT_U8,
    AU_DT_BOOL
} AuDtype;

/* The indices an expression can depend on. KV_H is h / (H / Hk): what depends on it depends on H. */
typedef enum AuAxisBit {
    AU_AX_B = 1,
    AU_AX_H = 2,
    AU_AX_Q = 4,
    AU_AX_KV = 8,
    AU_AX_C = 16,   /* the channel of a row mod */
    AU_AX_TOK = 32, /* the token of a recurrence (`linear`), with channels K and V beside it */
    AU_AX_K = 64,
    AU_AX_V = 128
} AuAxisBit;

// clang-format off
typedef enum AuOp {
    AU_NO_OP,
    /* Leaves. [pair] has the axes b, h, q, kv; [row] has b, h, q. */
    AU_OP_F32,       /* number: the constant */
    AU_OP_I32,       /* integer: the constant (also of bool, type AU_T_BOOL) */
    AU_OP_SIZE,      /* integer: index into sizes; i32 */
    AU_OP_INDEX,     /* integer: an AuAxisBit: b, h, q_idx, kv_idx, channel, t */
    AU_OP_KV_H,      /* the key head, h / (H / Hk); in v_mod the value head */
    AU_OP_PARAM,     /* integer: index into params */
    AU_OP_INPUT,     /* integer: index into tensors; args: one i32 index per axis. i64 and u8 read as i32,
                        f16 and bf16 as f32 */
    AU_OP_SCORE,     /* pair. In score_mod: the raw product q_i . k_j of the modified rows. In online
                        functions: a score */
    AU_OP_WEIGHT,    /* pair. In weight_mod: the weight p. In `backward`: p */
    AU_OP_DWEIGHT,   /* pair. In `backward`: dp */
    AU_OP_ELEMENT,   /* x at channel c: b, h, q, c (q_mod, out_mod, epilogue: o) or b, h, kv, c (k_mod, v_mod) */
    AU_OP_STATE,     /* row. integer: index into row scales: the value before the tile (online_fwd), at the
                        end (epilogue), or of side a (combine) */
    AU_OP_STATE_B,   /* row. integer: index into row scales: of side b in combine */
    AU_OP_FINAL,     /* row. integer: index into finals (in `forward`) */
    /* Of gradients only (gradient.h). */
    AU_OP_DELTA,     /* row: the sum over channels of dO' O', where O' is the output before out_mod */
    AU_OP_DFINAL,    /* row. integer: index into finals: the gradient given for it, 0 if none is */
    AU_OP_ADJOINT,   /* row. integer: index into finals: the whole gradient of it */
    AU_OP_PASS,      /* row. integer: result n of the extra pass over the row */
    AU_OP_DELEMENT,  /* the gradient at channel c of what a row mod returned; axes as of ELEMENT there */
    AU_OP_TENSOR,    /* integer: index into tensors: one of a recurrence as an expression, broadcast by
                        axis name (`linear` only) */
    /* over an axis */
    AU_OP_ROWMAX,    /* args[0]: over the keys of the tile */
    AU_OP_ROWSUM,
    AU_OP_ROW_SUM_C, /* args[0]: over the channels of the row (sum, mean, l2norm, rmsnorm are made of it) */
    AU_OP_DOT,       /* integer: tensor of the query side, integer2: of the key side; args: the indices of
                        x, then those of y, without those of the contracted last axes */
    AU_OP_ROPE,      /* args: x, position (i32 or f32), theta, first, count; the element at channel c after
                        the rotation; x has axis C, and its partner channel is evaluated, too.
                        integer: 1 if pairs are interleaved */
    AU_OP_DROPOUT,   /* args: p, rate, seed low word, seed high word (i32): p / (1 - rate) if
                        attn_dropout_uniform >= rate, else 0: Philox4x32-10, key (low, high), counter words
                        (b, h, q_idx, kv_idx), output word 0, its upper 24 bits * 2^-24 */
    AU_OP_SEED_WORD, /* integer: 0 low, 1 high, integer2: param index, or ~tensor index: a 32-bit word of an
                        i64 seed; i32 */
#define OP(NAME, text, count, rule, flags, meaning) AU_OP_##NAME,
#include "ops.def"
#undef OP
    AU_OP_COUNT
} AuOp;
// clang-format on

typedef struct AuNode {
    uint8_t op;      /* AuOp */
    uint8_t type;    /* AuType */
    uint8_t axes;    /* AuAxisBit set */
    uint8_t count;   /* arguments */
    uint32_t first;  /* of args in AuAttn.args */
    int32_t integer; /* see AuOp */
    int32_t integer2;
    double number;
    AuSpan span; /* where it was first written; not part of equality */
} AuNode;

/* A size: the extent of a named axis, bound by the tensors at launch, or fixed when compiling. */
typedef struct AuSize {
    const char *name;
    int64_t fixed; /* >= 0: written as a number, or fixed when compiling (widths); -1: at launch */
    AuSpan span;
} AuSize;

typedef enum AuTensorRole { AU_ROLE_Q, AU_ROLE_K, AU_ROLE_V, AU_ROLE_INPUT } AuTensorRole;

/* axes[n] is an i32 expression of sizes, params and constants; usually one AU_OP_SIZE node. */
typedef struct AuTensor {
    const char *name;
    AuTensorRole role;
    AuDtype dtype;
    AuExpr axes[8];
    uint32_t rank;
    bool grad;
    bool as_keys; /* rows of keys that a further product reads: they lie where those of k do */
    AuSpan span;
} AuTensor;

/* What must hold for a call's sizes and params. */
typedef struct AuRequire {
    AuExpr holds;
    AuSpan span;
    bool is_written; /* by the script, in these words; else asked for by the compiler */
    const char
        *says; /* which of a call's tensors must have what, where no script says it; else NULL */
} AuRequire;

typedef struct AuParam {
    const char *name;
    AuDtype dtype;        /* f32, i32, i64, bool (u8) */
    AuExpr default_value; /* scalar expression of sizes and earlier params; none: must be given */
    AuSpan span;
} AuParam;

typedef struct AuRowScale {
    const char *name;
    AuExpr start; /* scalar or per-row expression, neutral for combine */
    AuExpr next;  /* after a tile: of STATE, SCORE under ROWMAX/ROWSUM; STATE if never assigned */
    AuExpr combined; /* of STATE (a) and STATE_B (b); none when there is no combine */
    AuSpan span;
} AuRowScale;

typedef struct AuFinal {
    const char *name;
    AuExpr value; /* of STATE: a row scale's last value, or what the epilogue assigns */
    bool kept;    /* for gradients alone: no output, and no gradient is given for it */
    AuSpan span;
} AuFinal;

/* The online function, parameters substituted. Everything about "a row without a pair" and "no pair
 * in a tile" is in docs/dev/attention-ir.md, section Meaning, and is the business of whoever evaluates
 * it, not of these expressions. */
typedef struct AuOnline {
    const char *name;
    AuRowScale *scales;
    uint32_t scale_count;
    AuFinal *finals;
    uint32_t final_count;
    AuExpr weight;   /* p of online_fwd: of SCORE, STATE, ROWMAX/ROWSUM */
    AuExpr rescale;  /* factor of the output so far; per row */
    AuExpr epilogue; /* of ELEMENT (o) and STATE */
    AuExpr forward;  /* of SCORE and FINAL; none: not given */
    AuExpr backward; /* of DWEIGHT, WEIGHT, ROWSUM; none: not given */
    bool has_combine, combine_derived;
    AuExpr combine_a, combine_b; /* factors of the two unfinished outputs */
    uint32_t parts_size; /* 1 + index of the size that counts the parts of combine; 0: none does */
    AuSpan span;
} AuOnline;

/* A recurrence; expressions over TENSOR, INPUT, SIZE, PARAM, INDEX(TOK, H, B). None: not given.
 * ROW_SUM_C sums over K or V. In norm, ELEMENT (axes b, h, t) is `sum`, the same recurrence over a
 * column of ones. */
typedef struct AuLinear {
    AuExpr q, k, v, decay, erase, write, bonus, norm, skip, lowrank_a, lowrank_b;
    bool read_before;
    uint32_t
        own_sizes; /* 1 + index of the first of those that kernels have beside the script's; 0: not there yet */
    AuSpan span;
} AuLinear;

/* How the rows of a length axis of a call lie in memory (docs/dev/serving.md). The axes of tensors say what they are
 * in the script's terms, [B, Hk, T, D], in every layout; what is written of T then means the sequence's own. */
typedef enum AuLayout {
    AU_LAYOUT_DENSE,
    AU_LAYOUT_PADDED,
    AU_LAYOUT_PAGED,
    AU_LAYOUT_PACKED
} AuLayout;

typedef struct AuRowLayout {
    AuLayout layout;
    uint32_t lengths,
        table; /* tensors: i32 [B], i32 [B, entries]; of padded and paged rows, table of paged alone */
    uint32_t pages, slots, entries; /* sizes of paged keys: k is [pages, Hk, slots, D] */
    uint32_t
        starts; /* tensor of packed rows: i32 [B + 1]; the extent of the axis is that of all rows */
    uint32_t ends; /* its size, B + 1 */
    bool modified; /* of keys: rows in memory are what k_mod and v_mod make of them */
    uint32_t
        most; /* 1 + the size of axes of inputs that count the packed rows of a sequence; 0: no input has such */
    bool
        says_most; /* of packed rows: a call says how many a sequence has at most, by that size, or where there is none */
    uint32_t most_rows; /* by this parameter */
    /* What keys, padded or paged, may have beside, and queries of it rows and positions: */
    bool has_rows, has_positions, is_csr, has_no_lengths, has_groups;
    uint32_t rows,
        lines; /* tensor i32 [B]: the row of the table, of the cache, or of q, that a sequence has; size: how many there are */
    uint32_t table_starts; /* tensor i32 [lines + 1]: the table is i32 [entries], of all lines */
    uint32_t most_keys;    /* parameter, with it: no sequence has more */
    uint32_t first, whole,
        every; /* tensors i32 [B], parameter: row j is position first + every * j of whole */
    uint32_t groups,
        shared;      /* tensors i32 [n + 1], i32 [n]: sequences groups[g] .. groups[g + 1] have
                                the same first shared[g] keys, on the same pages */
    uint32_t shares; /* the size n */
} AuRowLayout;

/* Of k and v in a call: as operands are, or as codes of 8 or 4 bits with a scale. The element is scale * (stored - zero), in f32, then of
 * the operand type. Of codes of 4 bits two lie in a byte, that of the lower channel in its lower half. */
typedef enum AuStored {
    AU_STORED_OPERAND,
    AU_STORED_E4M3,
    AU_STORED_E5M2,
    AU_STORED_I8,
    AU_STORED_I4
} AuStored;

typedef struct AuStorage {
    AuStored as;
    bool by_token;    /* scales have an element for each token; else for each sequence and head */
    int32_t channels; /* and, of a token, one for so many channels; 0: one for all */
    bool has_zero;
    AuDtype scales;       /* their type and that of zero points: f32, f16 or bf16 */
    uint32_t scale, zero; /* tensors: [B, Hk, 1, 1], or [B, Hk, T, D / channels] as tokens lie */
} AuStorage;

/* Do two codes lie in a byte? */
static inline bool attn_stores_halves(const AuStorage *s) { return s->as == AU_STORED_I4; }

/* Is a tensor its scale or its zero point? */
static inline bool attn_storage_has(const AuStorage *s, uint32_t tensor)
{
    return s->as && (s->scale == tensor || (s->has_zero && s->zero == tensor));
}

/* Must codes become elements before products take them? A scale that no channel has of its own multiplies what products give, instead. */
static inline bool attn_scales_parts(const AuStorage *s) { return s->channels || s->has_zero; }

/* The same of kernels to which half a byte is no number, either. */
static inline bool attn_stores_parts(const AuStorage *s)
{
    return attn_scales_parts(s) || attn_stores_halves(s);
}

/* Sizes that tensors of append alone have (docs/dev/operations.md): k_new is [new_batch, Hk, new_rows, D], slots is [new_batch, slots_rows]. */
typedef enum AuNewSize { AU_NEW_BATCH, AU_NEW_ROWS, AU_SLOTS_ROWS, AU_NEW_SIZES } AuNewSize;

typedef struct AuAttn {
    AuArena *arena;
    const char *name;
    AuNode *nodes; /* [0] is unused */
    uint32_t node_count, node_capacity;
    AuExpr *args;
    uint32_t arg_count, arg_capacity;
    uint32_t *table; /* hash-consing; open addressing over node indices */
    uint32_t table_size;

    AuSize *sizes;
    uint32_t size_count, size_capacity;
    AuTensor *tensors; /* [0] q, [1] k, [2] v, then inputs in order */
    uint32_t tensor_count, tensor_capacity;
    AuParam *params;
    uint32_t param_count, param_capacity;
    AuRequire *requires;
    uint32_t require_count, require_capacity;

    /* v = k[.., first:last]: values are a slice of the keys, taken before k_mod. Then tensors[2] has
     * k's dtype and its own width axis. */
    bool v_in_k;
    int32_t v_first, v_last;

    AuExpr score_mod, mask, weight_mod;  /* none: identity, everything, identity */
    AuExpr q_mod, k_mod, v_mod, out_mod; /* over ELEMENT with axis C; none: identity */
    AuOnline *online;                    /* softmax family; NULL for a recurrence */
    AuLinear *linear;                    /* NULL for the softmax family */
    AuRowLayout keys, queries;           /* of one axis both, they have one list of starts */
    AuStorage storage[2]; /* of k, v; values that are channels of the keys: as keys */
    uint32_t new_sizes;   /* 1 + index of the first of AuNewSize; 0: rows are not appended */
    uint32_t work_size;   /* 1 + index of the size of the tensor "work"; 0: there is none */
    bool
        rows_are_new; /* k_mod and v_mod change rows of k_new and v_new, on their way into a modified cache */
    AuSpan span;
} AuAttn;

/* Does a call of it have layouts? */
static inline bool attn_has_layout(const AuAttn *a) { return a->keys.layout || a->queries.layout; }
static inline bool attn_is_stored(const AuAttn *a) { return a->storage[0].as || a->storage[1].as; }
static inline bool attn_is_packed(const AuAttn *a)
{
    return a->keys.layout == AU_LAYOUT_PACKED || a->queries.layout == AU_LAYOUT_PACKED;
}
/* layout.c: where an axis of an input (from tensor 3 on) lies in a call with layouts. */
typedef enum AuInputPlace {
    AU_PLACE_AS_WRITTEN,
    AU_PLACE_PAGES, /* of rows that lie as k does: the batch, and */
    AU_PLACE_SLOTS, /* the keys, where they are in pages; */
    AU_PLACE_LINES, /* the batch, where sequences say which row of it they have */
    AU_PLACE_ONE,   /* the batch of an input whose rows are packed */
    AU_PLACE_QUERIES,
    AU_PLACE_KEYS, /* packed rows: element i of sequence b is starts[b] + i */
    AU_PLACE_MOST_QUERIES,
    AU_PLACE_MOST_KEYS /* the rows of one sequence, of which there may be more than it has */
} AuInputPlace;
AuInputPlace attn_input_place(const AuAttn *a, uint32_t tensor, uint32_t axis);
/* The extent of the axis in memory. */
AuExpr attn_input_extent(AuAttn *a, uint32_t tensor, uint32_t axis);
/* Of serving: forward alone. */
static inline bool attn_is_for_calls(const AuAttn *a)
{
    return attn_has_layout(a) || attn_is_stored(a);
}
/* The index of a size, -1: there is none of this name. Fixed widths are sizes, too. */
int32_t attn_size_of(const AuAttn *a, const char *name);
/* Which index each axis of a tensor takes where an AU_OP_TENSOR node stands for it: an AuAxisBit, or 0
 * where the axis is the number 1. False: the tensor does not have just the axes of the node. */
bool attn_tensor_axes(const AuAttn *a, const AuNode *n, uint8_t bits[8]);
/* The heads of the output: those of the queries; of a recurrence the most of q, k and v, whose heads may all be shared. */
AuExpr attn_heads(AuAttn *a);
/* Letters, digits and underscores, no digit first; false for NULL. */
bool attn_is_name(const char *text);

/* ---- building (build.c): types and axes are computed; constants are folded by attn_simplify only */
AuAttn *attn_new(AuArena *arena, const char *name);
AuExpr attn_f32(AuAttn *a, double value, AuSpan span);
AuExpr attn_i32(AuAttn *a, int32_t value, AuSpan span);
AuExpr attn_bool(AuAttn *a, bool value, AuSpan span);
AuExpr attn_leaf(AuAttn *a, AuOp op, AuType type, uint8_t axes, int32_t integer, int32_t integer2,
                 AuSpan span);
/* Any op with arguments. Types must already agree (the front end inserts TO_F32); a violation is
 * reported by attn_verify. */
AuExpr attn_node(AuAttn *a, AuOp op, const AuExpr *args, uint32_t count, int32_t integer,
                 int32_t integer2, AuSpan span);
AuExpr attn_op1(AuAttn *a, AuOp op, AuExpr x, AuSpan span);
AuExpr attn_op2(AuAttn *a, AuOp op, AuExpr x, AuExpr y, AuSpan span);
AuExpr attn_where(AuAttn *a, AuExpr c, AuExpr x, AuExpr y, AuSpan span);
/* The node if it exists, else none. */
AuExpr attn_find(const AuAttn *a, AuOp op, AuExpr x, AuExpr y);
static inline const AuNode *attn_at(const AuAttn *a, AuExpr e) { return &a->nodes[e.i]; }
static inline AuExpr attn_arg(const AuAttn *a, AuExpr e, uint32_t n)
{
    return a->args[a->nodes[e.i].first + n];
}
/* A copy of [e] in which leaves are replaced: [replace] returns the replacement of a leaf, or none
 * to keep it. */
typedef AuExpr (*AuReplace)(void *user, AuAttn *a, AuExpr leaf);
AuExpr attn_substitute(AuAttn *a, AuExpr e, AuReplace replace, void *user);
/* [e] made again from its leaves on: [make] gives what stands for a node whose arguments became [args]. */
typedef AuExpr (*AuMake)(void *user, AuAttn *a, AuExpr node, const AuExpr *args);
AuExpr attn_remake(AuAttn *a, AuExpr e, AuMake make, void *user);
/* The node with other arguments; a leaf is what it was. */
AuExpr attn_with_args(AuAttn *a, AuExpr node, const AuExpr *args);
/* Sets mark[i] for every node that [e] is made of, [e] included; mark has node_count entries and may
 * hold marks already. */
void attn_mark(const AuAttn *a, AuExpr e, bool *mark);
/* Is this operation among the marked nodes; among those that [e] is made of? */
bool attn_has_marked(const AuAttn *a, const bool *mark, AuOp op);
bool attn_has_op(const AuAttn *a, AuExpr e, AuOp op);
/* Does any number do for the running maximum of the online function, as long as all tiles take it, so that kernels need not find the exact one
 * (reference.c)? */
bool attn_has_free_reference(AuAttn *a);
/* Declarations; each returns the index. A tensor's axes must exist before it. */
uint32_t attn_add_size(AuAttn *a, const char *name, int64_t fixed, AuSpan span);
uint32_t attn_add_tensor(AuAttn *a, AuTensor tensor);
uint32_t attn_add_param(AuAttn *a, AuParam param);
void attn_add_require(AuAttn *a, AuRequire require);
/* What an element of this dtype is when read into an expression. */
AuType attn_type_of(AuDtype dtype);

/* Type rules of the table: arguments of T_F32, T_I32 and T_BOOL have the result's type. */
typedef enum AuTypeRule {
    AU_RULE_LEAF, /* the ops above the table, each with its own rule */
    AU_RULE_T_F32,
    AU_RULE_T_I32,
    AU_RULE_T_BOOL,
    AU_RULE_T_NUM,   /* all i32 or all f32, the result alike */
    AU_RULE_T_CMP,   /* two numbers of one type, gives bool */
    AU_RULE_T_WHERE, /* bool, then two of one type, the result alike */
    AU_RULE_T_CAST   /* any type; the op says the result */
} AuTypeRule;
enum { AU_OPFLAG_0 = 0, AU_OPFLAG_COMM = 1 };

typedef struct AuOpInfo {
    const char *text;           /* the word in the text form */
    uint8_t count, flags, rule; /* of AU_RULE_LEAF: count is not fixed */
} AuOpInfo;
const AuOpInfo *attn_op_info(AuOp op);

/* ---- places (places.def): where expressions hang, and what may stand in each */
// clang-format off
typedef enum AuPlace {
#define PLACE(NAME, text, type, axes, leaves) AU_PLACE_##NAME,
#include "places.def"
#undef PLACE
    AU_PLACE_COUNT
} AuPlace;
// clang-format on

enum AuLeafBit {
    AU_LEAF_READ = 1, /* input */
    AU_LEAF_SCORE = 2,
    AU_LEAF_WEIGHT = 4,
    AU_LEAF_DWEIGHT = 8,
    AU_LEAF_ELEMENT = 16,
    AU_LEAF_CHANNELS = 32, /* the channel's index, channel_sum, rope */
    AU_LEAF_STATE = 64,
    AU_LEAF_STATE_B = 128,
    AU_LEAF_FINAL = 256,
    AU_LEAF_TENSOR = 512,
    AU_LEAF_KEYS = 1024, /* rowmax, rowsum */
    AU_LEAF_DOT = 2048,
    AU_LEAF_DROPOUT = 4096,
    AU_LEAF_GRADIENT = 8192 /* of gradients, which hang in no place of an attention */
};

typedef struct AuPlaceInfo {
    const char *text;
    AuType type;     /* AU_T_NONE: any */
    uint8_t axes;    /* an expression here depends on no others; also the axes of AU_OP_ELEMENT */
    uint32_t leaves; /* the ops that not every place allows: bits of AuLeafBit */
} AuPlaceInfo;
const AuPlaceInfo *attn_place_info(AuPlace place);
uint8_t attn_element_axes(AuPlace place); /* of AU_OP_ELEMENT there */
uint32_t attn_leaf_bit(const AuNode *n);  /* the AuLeafBit that allows this op, 0: all do */

/* One expression of an attention and where it hangs. */
typedef struct AuRoot {
    AuExpr *at; /* never none */
    AuPlace place;
    uint32_t item; /* index of the tensor, parameter, row scale, final or condition */
} AuRoot;
/* All expressions, in the order of the text form. */
uint32_t attn_roots(const AuAttn *a, AuArena *arena, AuRoot **roots);

/* ---- text form (print.c, read.c): reading what was printed gives an equal attention */
void attn_print(const AuAttn *a, AuText *out);
/* One expression by itself, on one line: for messages and comments of generated code. */
void attn_print_expr(const AuAttn *a, AuExpr e, AuText *out);
/* The first attention of the text, verified. NULL: errors are in diags. */
AuAttn *attn_read(AuArena *arena, AuNames *names, AuDiags *diags, uint32_t source);

/* One value, as a block of the text form: `head = value`, or `head {` lets and `return` values `}`. */
void attn_print_value(const AuAttn *a, const char *head, const AuExpr *roots, uint32_t count,
                      AuText *out);

/* ---- checks and rewriting */
bool attn_verify(const AuAttn *a, AuDiags *diags);
/* Constant folding, algebra that changes no rounding, dead nodes removed. Meaning unchanged. Handles of
 * before are of no use after it. */
void attn_simplify(AuAttn *a);
/* One expression; no node goes away, so that other handles stay valid. */
AuExpr attn_simplify_expr(AuAttn *a, AuExpr e);
/* May out_mod make something else than 0 of an output of 0? Then rows without a pair must be kept out of it. */
bool attn_asks_for_pairs(const AuAttn *a);
/* Derives `combine` where the row scales are running maxima, sums, and sums rescaled by them; false:
 * cannot. True without doing anything if there is one already. */
bool attn_derive_combine(AuAttn *a);
/* Tries the online function on random rows: the result must not depend on how keys are cut into
 * tiles, combine must join the states of two parts as if they had been one, forward must give the
 * weights that online_fwd and the epilogue made. False: *why says what does not hold, with the
 * numbers. */
bool attn_check_online(const AuAttn *a, AuArena *arena, const char **why);

/* ---- mask ranges (ranges.c): which keys a tile of queries may need, and which take part for all of
 * them. Keys [low, high) may take part; all of [full_low, full_high) do for every row, as far as the
 * mask goes; 0 <= low <= full_low <= full_high <= high <= T.
 * i32 expressions of sizes, parameters, b, h, inputs indexed by those, and two leaves: INDEX of
 * AU_AX_Q is the tile's first row i0, INDEX of AU_AX_KV the row after its last i1 (0 <= i0 < i1 <= S;
 * in these expressions the leaves mean nothing else). */
typedef struct AuRange {
    AuExpr low, high, full_low, full_high;
    bool exact; /* both are just the sets they stand for: whatever the tile sizes, no empty tile
                         is inside [low, high), and no full one outside of the full range */
    bool needs_lists; /* data decide (inputs indexed by q_idx or kv_idx, what is not affine), or the
                         range has gaps: lists of tiles are worth it */
} AuRange;
/* For a tile of queries [i0, i1). False: there is no mask, and everything takes part (as [out] says). */
bool attn_key_range(AuAttn *a, AuRange *out);
/* range_most.c: does a tile of all queries, where these are few, need nearly all keys, whatever data and parameters are? */
bool attn_range_is_most(const AuAttn *a, const AuRange *keys);
/* Queries for a tile of keys: the same with i and j exchanged; the two leaves mean j0 and j1. */
bool attn_query_range(AuAttn *a, AuRange *out);

/* ---- evaluation in f64 (interpret.c), the oracle
 * Tensors are f64 arrays, C order, contiguous; integers are exact in them. */
typedef struct AuOracleCall {
    const int64_t *sizes;         /* one per AuAttn.sizes */
    const double *const *tensors; /* one per AuAttn.tensors; v may be NULL if v_in_k */
    const double *params;         /* one per AuAttn.params, f32, i32, bool; already defaulted */
    const int64_t *params_i64;    /* the same for i64 params */
    int64_t key_tile;             /* keys a tile for online_fwd; 0: the whole row at once */
    double *o;                    /* [B, H, S, E] */
    double *const *finals;        /* [B, H, S] each; NULL or entries NULL: not wanted */
    /* [B, H, S, T] or NULL: weights as they make the output, o_i = sum_j w_ij v_j before out_mod. */
    double *weights;
    /* OPERAND: f64. F32, F16, BF16: as a plain kernel for these operands computes: arithmetic in f32,
     * modified rows, weights and o rounded once to the type. Tensors must hold values of their types. */
    AuDtype round_to;
    bool tf32; /* with F32: what products multiply is rounded to tf32 */
    bool
        exact_sums; /* those over keys, queries and pairs are not rounded: better than any order of them */
    const AuDiags *diags; /* for the script's lines in messages, or NULL */
} AuOracleCall;
/* False: message in *why (an index out of range, sizes that do not fit). Of a recurrence key_tile,
 * round_to, finals and weights are not looked at. */
bool attn_interpret(const AuAttn *a, const AuOracleCall *call, AuArena *scratch, const char **why);
/* Which pairs of head h of batch b the mask admits: map[S, T], 1 or 0. Softmax family; of [call]
 * sizes, tensors, params and diags count. */
bool attn_mask_map(const AuAttn *a, const AuOracleCall *call, int64_t b, int64_t h, uint8_t *map,
                   AuArena *scratch, const char **why);
/* The highest score of each row, [B, H, S], of the pairs that take part; -inf: none does. Softmax family; of [call] as above. */
bool attn_highest_scores(const AuAttn *a, const AuOracleCall *call, double *highest,
                         AuArena *scratch, const char **why);
/* A scalar expression (sizes, params, constants): for requires, axes and defaults. */
double attn_scalar(const AuAttn *a, AuExpr e, const int64_t *sizes, const double *params);
/* Sizes from shapes: binds the axes of tensors given their shapes; false: message in *why with the
 * names and numbers. */
bool attn_bind_sizes(const AuAttn *a, const int64_t *const *shapes, const uint32_t *ranks,
                     const double *params, int64_t *sizes, AuArena *arena, const char **why);

#endif
