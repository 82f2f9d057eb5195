/* hook_writer.h - one hook being written: from nodes of the attention's graph to expressions of the
 * tiled IR. */
#ifndef AU_HOOKS_HOOK_WRITER_H
#define AU_HOOKS_HOOK_WRITER_H

#include "hooks.h"

/* A channel of the row at which expressions of it are written: the partner of another one in a rotation. */
typedef struct AuChannel {
    struct AuChannel *of; /* whose partner; NULL: of the hook's own channel */
    AuExpr first, count;  /* the rotation's, as of AU_OP_ROPE */
    int32_t interleaved;
    uint32_t number;   /* 1, 2, .. */
    AuTileExpr *index; /* a name */
    AuTileExpr **done; /* by node that depends on the channel: the name that holds it here */
} AuChannel;

/* One function being written. */
typedef struct AuHookWriter {
    AuHooks *hooks;
    AuAttn *attn;
    AuDiags *diags;
    AuTileFn *fn;
    AuTileExpr **done;   /* by node: the name that holds it, or a call, at the hook's own channel */
    uint32_t *uses;      /* by node, in this function */
    bool own_head;       /* k_mod, v_mod: h already is the key head */
    const char *channel; /* axis of the channels in row mods: "d" or "e" */
    const char *row_tensor, *row_h,
        *row_i;   /* row mods: the tensor whose element x is, and the names of its head and row */
    AuExpr whole; /* of slots: the tensor that x is */
    const char *gradient_tensor;     /* the one whose element dx is */
    TILE_LIST(AuChannel *) channels; /* that there are beside the hook's own */
    AuChannel *at;                   /* the one that is written for; NULL: the hook's own */
    bool
        of_sequence; /* of recurrences: positions and the length are the sequence's, `start` and `length` in kernels */
    bool of_extents; /* sizes are those of tensors, whatever a sequence has of them */
    bool in_range;   /* of a mask's range, which counts positions, whatever rows they are */
    bool guards_rows,
        guards_keys; /* of layouts: nothing is read behind the rows, the keys, that the sequence has (hooks.c, guard) */
    bool guard_ok; /* in online_fwd: pairs that take no part must be kept out of sums explicitly */
    bool failed;
} AuHookWriter;

/* A function from its beginning to its results; between them uses are counted and expressions written. */
void writer_begin(AuHookWriter *w, const char *name, const char *const *params, uint32_t count);
void writer_count_uses(AuHookWriter *w, AuExpr e);
void writer_finish(AuHookWriter *w, AuTileExpr *const *items, uint32_t count);

/* hooks_linear.c: those of a recurrence, all of them. */
bool hooks_linear(AuHookWriter *w);
bool hooks_linear_back(AuHookWriter *w, const AuNormalGrads *g);
/* hooks_backward.c: out_back alone. */
void writer_out_back(AuHookWriter *w, const AuRowGrad *g, bool asks);

/* hook_bounds.c, of a mask, once; has_bounds: it says something. */
void writer_mask_bounds(AuHookWriter *w);

/* hook_nodes.c */
AuTileModule *writer_module(AuHookWriter *w);
AuTileExpr *writer_node(AuHookWriter *w, AuTileOp op, AuSpan span);
void writer_add_arg(AuHookWriter *w, AuTileExpr *e, AuTileExpr *arg);
const char *writer_name(AuHookWriter *w, const char *name);
AuTileExpr *writer_op1(AuHookWriter *w, AuTileOp op, AuTileExpr *a);
AuTileExpr *writer_op2(AuHookWriter *w, AuTileOp op, AuTileExpr *a, AuTileExpr *b);
AuTileExpr *writer_op3(AuHookWriter *w, AuTileOp op, AuTileExpr *a, AuTileExpr *b, AuTileExpr *c);
AuTileExpr *writer_variable(AuHookWriter *w, const char *name);
AuTileExpr *writer_integer(AuHookWriter *w, int64_t value);
AuTileExpr *writer_number(AuHookWriter *w, double value);
AuTileExpr *writer_assign(AuHookWriter *w, const char *name, AuTileExpr *value);

/* hook_elements.c: what leaves of the graph read */
AuTileExpr *writer_size(AuHookWriter *w, const AuSize *s);
/* Of a recurrence: the length of a sequence is not that of the tensors where several are packed. */
bool writer_is_length(const AuHookWriter *w, const AuNode *n);
/* Of queries or keys in a layout: how many a sequence has is not how many there is room for. `kv_length` in kernels. */
bool writer_is_key_length(const AuHookWriter *w, const AuNode *n);
bool writer_is_query_length(const AuHookWriter *w, const AuNode *n);
/* Its name: `kv_length`, or `kv_whole` where the rows of keys are some of a sequence's. */
AuTileExpr *writer_key_length(AuHookWriter *w);
AuTileExpr *writer_query_length(AuHookWriter *w); /* likewise `q_length`, `q_whole` */
/* Of a range's end, a position: the first row from there on. */
AuTileExpr *writer_row_of(AuHookWriter *w, AuTileExpr *position);
/* The batch of packed queries, which no tensor has: the sequences that `starts` has. NULL: it is none. */
AuTileExpr *writer_batch(AuHookWriter *w, const AuNode *n);
/* The token's, or the key's, position in its sequence; hooks are given its row. */
AuTileExpr *writer_position(AuHookWriter *w, int32_t axis);
AuTileExpr *writer_key_head(AuHookWriter *w);        /* h / (H / Hk) */
AuTileExpr *writer_input(AuHookWriter *w, AuExpr e); /* at the script's indices */
/* A tensor of a recurrence where it stands: the hook's argument, or read at the token. */
AuTileExpr *writer_tensor(AuHookWriter *w, AuExpr e);
/* x or dx of a row mod: the hook's argument, or, for the partner channel of a rotation, the tensor's element there. */
AuTileExpr *writer_element(AuHookWriter *w, const char *argument, const char *tensor);
AuTileExpr *writer_rope(AuHookWriter *w, AuExpr e);

/* hook_writer.c */
AuTileExpr *writer_expr(AuHookWriter *w, AuExpr e);
/* Do kernels have this product? If not, that is reported. */
bool writer_can_dot(AuHookWriter *w, AuExpr dot, bool backward);
/* Is [e] computed element by element from what the hook was given of a row or of pairs? Then it has its axes and places. */
bool writer_is_of_tile(AuHookWriter *w, AuExpr e);
/* What a row mod makes of its element x, with the axes of x. */
AuTileExpr *writer_row_value(AuHookWriter *w, AuExpr e, const char *name);
/* [value], 0 in rows whose `seen` says that they have no pair. */
AuTileExpr *writer_where_seen(AuHookWriter *w, AuTileExpr *value);
/* A value with all axes of [like], whatever it depends on; [name]: of a variable that holds it. */
AuTileExpr *writer_spread(AuHookWriter *w, AuTileExpr *value, const char *like, const char *name);

#endif
