/* hooks.h - an attention as hooks of the tiled IR: the functions that schedules call and tile_expand inlines.
 *
 *   score_mod(s, b, h, i, j [, dot0, ..])      the score of a pair; dotN: the further products that `dot` asks for
 *   mask(b, h, i, j)                           takes the pair part? (present only if the script has one)
 *   key_range(b, h, i0, i1)                    low, high, full_low, full_high of the keys for rows i0 .. i1-1
 *   mask_bounds(b, h, i, i_last, j, j_last, ..) may, must: what the mask can be for all pairs of a tile (hook_bounds.c)
 *   online_init(row, b, h, i)                  state: a tuple of row vectors
 *   online_fwd(s, b, h, i, state..)            p, scale, state.. of scores in which a pair that takes no part is -inf
 *   weight_mod(p, s, b, h, i, j)               the weight as it meets the values
 *   online_end(o, b, h, i, state..)            o and the finals
 *   online_join(b, h, i, state.., other..)     factors of two outputs, of disjoint keys, and the state of both (hooks_join)
 *   q_mod(x, b, h, i, j, c), k_mod, v_mod, out_mod
 *                                              an element of a row; over the axis `d` (`e` of v_mod and out_mod)
 *   out_mod(.., seen), out_back(.., seen)      the same where asks_for_pairs: 0 in rows without a pair
 *
 * Of gradients (hooks_backward.c), finals and adjoints being those of the row:
 *
 *   query_range(b, h, j0, j1)                  low, high, full_low, full_high of the queries for keys j0 .. j1-1
 *   backward_pair(s, dp, b, h, i, j [, dot0..], final0.., adjoint0..)
 *                                              p, ds [, ddots of AuGrads] [, values of its pairs] of the raw product s and
 *                                              dp = dO' . v; all 0 where the score is -inf
 *   backward_pass(s, dp, b, h, i, j [, dot0..], final0..)
 *                                              what the extra pass sums (only if there is one)
 *   backward_row(delta, b, h, i, final0.., dfinal0.. [, pass0..])
 *                                              adjoints [, values of rows]
 *   q_back(x, dx, row, b, h, i, j, c), k_back, v_back, out_back
 *                                              gradient [, values of inputs] of row mods; `row` is any value of a row
 *
 * Of recurrences (hooks_linear.c), of the slots that their normal form has:
 *
 *   slot_q(x, b, h, t, c), slot_k, ..          an element, or a number a token; x: what the slot's tensor has there
 *   slot_log_decay(b, h)                       where it is a number a head
 *   slot_norm(x, b, h, t, c)                   of the sum x
 *   slot_q_back(x, dx, b, h, t, c), ..         what the slot's tensors and inputs get for the gradient dx of its value, in the order
 *                                              of AuNormalGrads; of norm before them the gradient of the sum
 *   out_back(x, dx, row, b, h, i, j, c)        as above
 *
 * A row without a pair in a tile keeps its state, a row without any pair has output 0: online_fwd
 * and online_end say so with `where`s over rows, left out where the expressions cannot tell the
 * difference (docs/dev/lowering.md). */
#ifndef AU_HOOKS_H
#define AU_HOOKS_H

#include "attn.h"
#include "gradient.h"
#include "normal_form.h"
#include "tile.h"

/* A slot of a recurrence. */
typedef struct AuHookSlot {
    AuExpr value;     /* none: it is not there */
    const char *name; /* of its hook; NULL: there is none, or the slot is a tensor as it stands */
    uint8_t channel;  /* of the hook's argument: AU_AX_K, AU_AX_V, or 0: it is a number a token */
    AuExpr held;      /* the TENSOR node that the argument is; none: it only says what places are */
    bool is_plain;    /* the slot is that tensor */
    bool has_sums;    /* over the channels */
    bool is_scalar;   /* of the head at most */
    const char *back; /* the hook of its gradients; NULL: none has any, or the one is dx itself */
} AuHookSlot;

typedef struct AuHooks {
    AuTileModule *module; /* the functions */
    bool has_mask, has_weight_mod, has_q_mod, has_k_mod, has_v_mod, has_out_mod;
    bool needs_lists; /* the mask depends on data */
    bool
        needs_most; /* and few queries need nearly all keys, whatever these are: no lists for them */
    bool has_bounds;         /* .. and mask_bounds tells of a tile what it can be */
    uint32_t bound_reads[2]; /* how many mask_rowN and mask_keyN there are */
    bool range_begins;       /* key_range gives a first key, else 0: windows */
    bool full_begins;        /* .. and a first key of those that all rows see */
    uint32_t state_count;    /* row vectors of the state, the flag `seen` included */
    bool has_scale;          /* the output so far is rescaled */
    bool free_reference;     /* attn_has_free_reference */
    bool
        asks_for_pairs; /* out_mod and out_back have one parameter more: above 0 where the row has a pair */
    bool has_join;      /* parts of the keys can be joined */
    uint32_t dot_count; /* further products of score_mod, in the order of */
    AuExpr dots[4];
    const AuNormal *normal; /* of a recurrence; NULL: it is none */
    AuHookSlot slots[AU_SLOT_COUNT];
    uint32_t expressions; /* written so far */
    AuTileNames forward, backward, unfinished, combine,
        append; /* hooks that the kernels of these operations must call: without one they would
                    compute something else */
} AuHooks;

/* common.c: functions that all schedules use, the same for every attention. */
const AuTileModule *hooks_common(AuArena *arena, AuDiags *diags);

/* What for: gradients have the same functions of rows, and kernels that do not ask what the rows of a tile have beside each other. */
typedef enum AuHooksFor { AU_HOOKS_OF_RESULTS, AU_HOOKS_OF_GRADIENTS } AuHooksFor;

/* NULL after an error. [caps] names the module's target, and says whether executors ask the rows of a tile together (passes/lag.c, tanh.c). */
AuHooks *hooks_make(AuArena *arena, AuDiags *diags, AuAttn *attn, const AuTileCaps *caps,
                    AuHooksFor what);

/* hooks_parts.c: row vectors of the state, the flag `seen` behind the row scales included. */
uint32_t hooks_state_count(AuAttn *attn);

/* hooks_parts.c, of an attention whose combine is there (attn_derive_combine). By node: the expressions behind the sums over keys,
 * which combine evaluates: combine, epilogue, finals, out_mod, and defaults of parameters that these have. */
bool *hooks_behind_sums(AuArena *arena, const AuAttn *attn);
bool *hooks_joined(AuArena *arena, const AuAttn *attn); /* by tensor: do they read it? */

/* By tensor: do k_mod and v_mod read it? */
bool *hooks_read_by_mods(AuArena *arena, const AuAttn *attn);

/* Adds online_join where the online function has it (has_join). false: an error. */
bool hooks_join(AuHooks *hooks, AuDiags *diags, AuAttn *attn);

/* Size of the heads of the output, of which others are shared in groups: the most of q, k and v. */
const char *hooks_heads(const AuHooks *hooks, AuAttn *attn);

/* Adds those of gradients. */
bool hooks_backward(AuHooks *hooks, AuDiags *diags, AuAttn *attn, const AuGrads *grads);

/* The name that a tensor, size or parameter of the script has in tiled kernels: its own behind a $,
 * so that it is never one of the schedule's. */
const char *hooks_name(AuArena *arena, const char *name);
/* A scalar expression of sizes, params, b and h in tiled form; sizes are the tensors', not a sequence's. */
AuTileExpr *hooks_expr(const AuHooks *hooks, AuAttn *attn, AuExpr e);
/* The read of an input (an INPUT node) with its indices, clamped; [of_keys]: h is a key head. Where one
 * of them uses a value twice, or is long, it is a hook of its own. */
const AuTileExpr *hooks_read(const AuHooks *hooks, AuAttn *attn, AuExpr read, bool of_keys);

#endif
