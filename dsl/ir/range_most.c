/* range_most.c - masks that leave few queries nearly all keys whatever data say, as that of a tree of drafts does: all of the text, and of the tree
 * what data allow. Lists of tiles save nothing there. */
#include "meaning.h"

enum { KEYS = 1 << 20, QUERIES = 8, BEHIND = 16 * QUERIES }; /* that may be left out */

/* Of sizes and the tile's rows alone, of a tile that has all queries. False: something else decides. */
static bool value_of(const AuAttn *a, AuExpr e, double *out)
{
    const AuNode *n = attn_at(a, e);
    double x[3] = {0};
    if (e.i == a->tensors[1].axes[2].i) return *out = KEYS, true;
    if (e.i == a->tensors[0].axes[2].i) return *out = QUERIES, true;
    switch (n->op) {
    case AU_OP_I32: return *out = n->integer, true;
    case AU_OP_INDEX: return *out = n->integer == AU_AX_KV ? QUERIES : 0, n->integer >= AU_AX_Q;
    case AU_OP_SIZE:
    case AU_OP_PARAM:
    case AU_OP_INPUT: return false;
    }
    if (!n->count || n->count > 3 || attn_op_info((AuOp)n->op)->rule == AU_RULE_LEAF) return false;
    for (uint32_t i = 0; i < n->count; i++)
        if (!value_of(a, attn_arg(a, e, i), &x[i])) return false;
    if ((n->op == AU_OP_IDIV || n->op == AU_OP_MOD) && x[1] == 0) return false;
    *out = attn_eval_op((AuOp)n->op, (AuType)n->type, x[0], x[1], x[2]);
    return true;
}

bool attn_range_is_most(const AuAttn *a, const AuRange *keys)
{
    double low, high;
    return value_of(a, keys->full_low, &low) && value_of(a, keys->full_high, &high) && low == 0 &&
           high >= KEYS - BEHIND;
}
