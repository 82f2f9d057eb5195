/* places.c - the expressions of an attention, each with the place where it hangs (places.def), in
 * the order of the text form. Whatever visits or rewrites all of an attention (printer, verifier,
 * simplifier) goes through attn_roots. */
#include "attn.h"

enum {
    PAIR = AU_AX_B | AU_AX_H | AU_AX_Q | AU_AX_KV,
    ROW = AU_AX_B | AU_AX_H | AU_AX_Q,
    Q_CHANNEL = ROW | AU_AX_C,
    K_CHANNEL = AU_AX_B | AU_AX_H | AU_AX_KV | AU_AX_C,
    TOKEN = AU_AX_B | AU_AX_H | AU_AX_TOK | AU_AX_K | AU_AX_V,
    READ = AU_LEAF_READ,
    SCORE = AU_LEAF_SCORE,
    WEIGHT = AU_LEAF_WEIGHT,
    DWEIGHT = AU_LEAF_DWEIGHT,
    ELEMENT = AU_LEAF_ELEMENT,
    CHANNELS = AU_LEAF_CHANNELS,
    STATE = AU_LEAF_STATE,
    STATE_B = AU_LEAF_STATE_B,
    FINAL = AU_LEAF_FINAL,
    TENSOR = AU_LEAF_TENSOR | AU_LEAF_READ,
    KEYS = AU_LEAF_KEYS,
    DOT = AU_LEAF_DOT,
    DROPOUT = AU_LEAF_DROPOUT,
    GRADIENT = AU_LEAF_GRADIENT
};

const AuPlaceInfo *attn_place_info(AuPlace place)
{
    // clang-format off
    static const AuPlaceInfo infos[AU_PLACE_COUNT] = {
#define PLACE(NAME, text, type, axes, leaves) {text, AU_T_##type, axes, leaves},
#include "places.def"
#undef PLACE
    };
    // clang-format on
    return &infos[place];
}

uint8_t attn_element_axes(AuPlace place)
{
    return place == AU_PLACE_LIN_NORM ? AU_AX_B | AU_AX_H | AU_AX_TOK
                                      : attn_place_info(place)->axes;
}

uint32_t attn_leaf_bit(const AuNode *n)
{
    // clang-format off
    static const uint16_t bits[AU_OP_COUNT] = {
        [AU_OP_INPUT] = READ,           [AU_OP_SCORE] = SCORE,       [AU_OP_WEIGHT] = WEIGHT,
        [AU_OP_DWEIGHT] = DWEIGHT,      [AU_OP_ELEMENT] = ELEMENT,   [AU_OP_STATE] = STATE,
        [AU_OP_STATE_B] = STATE_B,      [AU_OP_FINAL] = FINAL,       [AU_OP_TENSOR] = AU_LEAF_TENSOR,
        [AU_OP_ROWMAX] = KEYS,          [AU_OP_ROWSUM] = KEYS,       [AU_OP_ROW_SUM_C] = CHANNELS,
        [AU_OP_ROPE] = CHANNELS,        [AU_OP_DOT] = DOT,           [AU_OP_DROPOUT] = DROPOUT,
        [AU_OP_SEED_WORD] = DROPOUT,    [AU_OP_DELTA] = GRADIENT,    [AU_OP_DFINAL] = GRADIENT,
        [AU_OP_ADJOINT] = GRADIENT,     [AU_OP_PASS] = GRADIENT,     [AU_OP_DELEMENT] = GRADIENT,
    };
    // clang-format on
    if (n->op == AU_OP_INDEX && n->integer == AU_AX_C) return CHANNELS;
    return bits[n->op];
}

/* Whether an axis of a tensor may stand for this index, by the tensors of q, k and v. */
static bool axis_is(const AuAttn *a, AuExpr axis, uint8_t bit)
{
    static const uint8_t positions[] = {AU_AX_B, AU_AX_H, AU_AX_TOK, 0};
    for (uint32_t role = 0; role < 3; role++)
        for (uint32_t n = 0; n < 4; n++) {
            const uint8_t here = n < 3 ? positions[n] : role == AU_ROLE_V ? AU_AX_V : AU_AX_K;
            if (here == bit && a->tensors[role].axes[n].i == axis.i) return true;
        }
    return false;
}

static bool is_one(const AuAttn *a, AuExpr axis)
{
    const AuNode *n = attn_at(a, axis);
    return n->op == AU_OP_I32 && n->integer == 1;
}

/* Sizes that are equal numbers are told apart by the usual order of axes; axes of 1 take what is
 * left, a head shared by all. */
bool attn_tensor_axes(const AuAttn *a, const AuNode *n, uint8_t bits[8])
{
    static const uint8_t order[] = {AU_AX_B, AU_AX_H, AU_AX_TOK, AU_AX_K, AU_AX_V};
    const AuTensor *t = &a->tensors[n->integer];
    uint8_t left = n->axes, last = 0;
    for (uint32_t k = 0; k < 2 * t->rank; k++) {
        const uint32_t axis = k % t->rank;
        const AuExpr e = t->axes[axis];
        if (is_one(a, e) != (k >= t->rank)) continue;
        bits[axis] = 0;
        for (uint32_t round = 0; round < 2 && !bits[axis];
             round++) /* behind the last one, or any */
            for (uint32_t i = 0; i < 5 && !bits[axis]; i++)
                if (left & order[i] && (round || order[i] > last) && axis_is(a, e, order[i]))
                    bits[axis] = order[i];
        if (!bits[axis] && !is_one(a, e)) return false;
        if (bits[axis]) last = bits[axis];
        left &= (uint8_t)~bits[axis];
    }
    return left == 0;
}

typedef struct Roots {
    AuArena *arena;
    AuRoot *at;
    uint32_t count, capacity;
} Roots;

static void add(Roots *r, AuExpr *e, AuPlace place, uint32_t item)
{
    if (e->i) AU_PUSH(r->arena, r->at, r->count, r->capacity, ((AuRoot){e, place, item}));
}

static void add_declarations(Roots *r, const AuAttn *a)
{
    for (uint32_t i = 0; i < a->param_count; i++)
        add(r, &a->params[i].default_value, AU_PLACE_DEFAULT, i);
    for (uint32_t i = 0; i < a->tensor_count; i++)
        for (uint32_t n = 0; n < a->tensors[i].rank; n++)
            add(r, &a->tensors[i].axes[n], AU_PLACE_SIZE_AXIS, i);
    for (uint32_t i = 0; i < a->require_count; i++)
        add(r, &a->requires[i].holds, AU_PLACE_REQUIRE, i);
}

static void add_online(Roots *r, AuOnline *o)
{
    for (uint32_t i = 0; i < o->scale_count; i++) add(r, &o->scales[i].start, AU_PLACE_START, i);
    for (uint32_t i = 0; i < o->scale_count; i++) add(r, &o->scales[i].next, AU_PLACE_NEXT, i);
    add(r, &o->weight, AU_PLACE_P, 0);
    add(r, &o->rescale, AU_PLACE_RESCALE, 0);
    for (uint32_t i = 0; i < o->final_count; i++) add(r, &o->finals[i].value, AU_PLACE_FINAL, i);
    add(r, &o->epilogue, AU_PLACE_EPILOGUE, 0);
    add(r, &o->forward, AU_PLACE_FORWARD, 0);
    add(r, &o->backward, AU_PLACE_BACKWARD, 0);
    if (!o->has_combine) return;
    for (uint32_t i = 0; i < o->scale_count; i++)
        add(r, &o->scales[i].combined, AU_PLACE_COMBINED, i);
    add(r, &o->combine_a, AU_PLACE_COMBINE_A, 0);
    add(r, &o->combine_b, AU_PLACE_COMBINE_B, 0);
}

static void add_linear(Roots *r, AuLinear *l)
{
    add(r, &l->q, AU_PLACE_LIN_Q, 0);
    add(r, &l->k, AU_PLACE_LIN_K, 0);
    add(r, &l->v, AU_PLACE_LIN_V, 0);
    add(r, &l->decay, AU_PLACE_LIN_DECAY, 0);
    add(r, &l->erase, AU_PLACE_LIN_ERASE, 0);
    add(r, &l->write, AU_PLACE_LIN_WRITE, 0);
    add(r, &l->bonus, AU_PLACE_LIN_BONUS, 0);
    add(r, &l->norm, AU_PLACE_LIN_NORM, 0);
    add(r, &l->skip, AU_PLACE_LIN_SKIP, 0);
    add(r, &l->lowrank_a, AU_PLACE_LIN_A, 0);
    add(r, &l->lowrank_b, AU_PLACE_LIN_B, 0);
}

uint32_t attn_roots(const AuAttn *a, AuArena *arena, AuRoot **roots)
{
    Roots r = {.arena = arena};
    AuAttn *m =
        (AuAttn *)(uintptr_t)a; /* a root may be written by whoever may write the attention */
    add_declarations(&r, a);
    add(&r, &m->q_mod, AU_PLACE_Q_MOD, 0);
    add(&r, &m->k_mod, AU_PLACE_K_MOD, 0);
    add(&r, &m->v_mod, AU_PLACE_V_MOD, 0);
    add(&r, &m->score_mod, AU_PLACE_SCORE_MOD, 0);
    add(&r, &m->mask, AU_PLACE_MASK, 0);
    add(&r, &m->weight_mod, AU_PLACE_WEIGHT_MOD, 0);
    if (a->online) add_online(&r, a->online);
    if (a->linear) add_linear(&r, a->linear);
    add(&r, &m->out_mod, AU_PLACE_OUT_MOD, 0);
    *roots = r.at;
    return r.count;
}
