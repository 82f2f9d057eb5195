/* hooks_parts.c - what the operation `combine` has of an attention: the expressions that follow the sums, and what they
 * read; the states that parts have. */
#include "hooks.h"

uint32_t hooks_state_count(AuAttn *attn)
{
    const AuOnline *online = attn->online;
    const bool plain_end = attn_at(attn, online->epilogue)->op == AU_OP_ELEMENT;
    const bool stateless = online->scale_count == 0 && online->final_count == 0 && plain_end &&
                           !attn_asks_for_pairs(attn);
    return online->scale_count + !stateless;
}

bool *hooks_behind_sums(AuArena *arena, const AuAttn *a)
{
    const AuOnline *o = a->online;
    bool *mark = AU_NEW_ARRAY(arena, bool, a->node_count);
    attn_mark(a, o->combine_a, mark);
    attn_mark(a, o->combine_b, mark);
    attn_mark(a, o->epilogue, mark);
    attn_mark(a, a->out_mod, mark);
    for (uint32_t n = 0; n < o->scale_count; n++) {
        attn_mark(a, o->scales[n].start, mark);
        attn_mark(a, o->scales[n].combined, mark);
    }
    for (uint32_t n = 0; n < o->final_count; n++) attn_mark(a, o->finals[n].value, mark);
    for (uint32_t n = 1; n < a->node_count; n++)
        if (mark[n] && a->nodes[n].op == AU_OP_PARAM)
            attn_mark(a, a->params[a->nodes[n].integer].default_value, mark);
    return mark;
}

/* The inputs that marked nodes read. */
static bool *read_by(AuArena *arena, const AuAttn *a, const bool *mark)
{
    bool *read = AU_NEW_ARRAY(arena, bool, a->tensor_count);
    for (uint32_t n = 1; n < a->node_count; n++) {
        const AuNode *node = &a->nodes[n];
        if (!mark[n]) continue;
        if (node->op == AU_OP_INPUT) read[node->integer] = true;
        if (node->op == AU_OP_SEED_WORD && node->integer2 < 0) read[~node->integer2] = true;
    }
    return read;
}

bool *hooks_joined(AuArena *arena, const AuAttn *a)
{
    return read_by(arena, a, hooks_behind_sums(arena, a));
}

bool *hooks_read_by_mods(AuArena *arena, const AuAttn *a)
{
    bool *mark = AU_NEW_ARRAY(arena, bool, a->node_count);
    attn_mark(a, a->k_mod, mark);
    attn_mark(a, a->v_mod, mark);
    return read_by(arena, a, mark);
}
