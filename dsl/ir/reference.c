/* reference.c - running maxima for which any other number would do.
 *
 * Softmax's m is the largest score so far only so that exp(s - m) neither overflows nor vanishes: its sums are all multiples of exp(-m), and
 * what it gives in the end has no m left. Kernels then need not look for the exact maximum in every tile (compiler/passes/lag.c).
 *
 * Proof by units. Let the old m be more by d, the new one, t = max(m, rowmax(scores)), by e: any numbers, which need not be what they are by
 * the maximum. Every expression is then, for some vector u of exponents of (d, e, ..),
 *
 *     shifted   more by u . (d, e, ..)             m: (1, 0)     t: (0, 1)     scores: 0
 *     scaled    multiplied by exp(u . (d, e, ..))  row sums r: (-1, 0)
 *
 * or nothing is known of it. exp makes scaled of shifted, log the other way round; products and quotients add units, sums want equal ones. A
 * maximum of anything else (a sink, a 0) is a further number of which nothing is asked but that it drops out, too. What is neither, as 0
 * and what depends on inputs alone, has units 0 in both kinds. The function has a free reference if after a tile m is t, each sum has again
 * the units that it had, with e for d, so have the weight and the factor of the output, and the output and all finals have units 0. */
#include "attn.h"

#include <math.h>
#include <string.h>

enum { UNITS = 8, OLD = 0, NEW = 1 };

typedef enum Kind { NOTHING, SHIFTED, SCALED } Kind;

typedef struct Unit {
    Kind kind;
    int u[UNITS];
} Unit;

typedef struct Proof {
    AuAttn *a;
    uint32_t state; /* that is the reference */
    AuExpr next;    /* max(m, rowmax(score)) */
    Unit *known;    /* by node, as far as [done] */
    bool *done;
    int symbols;        /* further maxima have theirs from here on */
    const bool *is_sum; /* by row scale: multiples of exp(-m); else nothing of m is in it */
} Proof;

static bool is_zero(const Unit *x)
{
    bool zero = x->kind != NOTHING;
    for (int n = 0; n < UNITS; n++) zero &= x->u[n] == 0;
    return zero;
}

static bool same(const Unit *x, const Unit *y)
{
    return x->kind && y->kind && memcmp(x->u, y->u, sizeof x->u) == 0 &&
           (x->kind == y->kind || is_zero(x));
}

static Unit symbol(Kind kind, int at, int exponent)
{
    Unit x = {.kind = kind};
    if (at < UNITS)
        x.u[at] = exponent;
    else
        x.kind = NOTHING;
    return x;
}

/* Units x + sign y of two of a kind; 0 is of both. */
static Unit sum_of(const Unit *x, const Unit *y, int sign, Kind kind)
{
    Unit out = {.kind = kind};
    if ((x->kind != kind && !is_zero(x)) || (y->kind != kind && !is_zero(y))) return (Unit){0};
    for (int n = 0; n < UNITS; n++) out.u[n] = x->u[n] + sign * y->u[n];
    return out;
}

static Unit turned(const Unit *x, Kind from, Kind to)
{
    Unit out = *x;
    out.kind = x->kind == from || is_zero(x) ? to : NOTHING;
    return out;
}

static bool is_infinite(const AuAttn *a, AuExpr e)
{
    const AuNode *n = attn_at(a, e);
    if (n->op == AU_OP_NEG) return is_infinite(a, attn_arg(a, e, 0));
    return n->op == AU_OP_F32 && isinf(n->number);
}

static bool is_number_zero(const AuAttn *a, AuExpr e)
{
    const AuNode *n = attn_at(a, e);
    return n->op == AU_OP_F32 && n->number >= 0 && n->number <= 0;
}

/* A comparison that comes out the same: of equal units, of a finite number with an infinity, of the sign of what is scaled. */
static Unit comparison(const AuAttn *a, AuExpr e, const Unit *x, const Unit *y)
{
    const AuExpr left = attn_arg(a, e, 0), right = attn_arg(a, e, 1);
    const bool good = same(x, y) || (x->kind && is_infinite(a, right)) ||
                      (y->kind && is_infinite(a, left)) ||
                      (x->kind == SCALED && is_number_zero(a, right)) ||
                      (y->kind == SCALED && is_number_zero(a, left));
    return (Unit){.kind = good ? SHIFTED : NOTHING};
}

/* 0 and infinities are multiples of anything. */
static Unit either(const AuAttn *a, AuExpr e, const Unit *x, const Unit *y)
{
    if (same(x, y)) return *x;
    if (x->kind == SCALED && is_number_zero(a, attn_arg(a, e, 2))) return *x;
    if (y->kind == SCALED && is_number_zero(a, attn_arg(a, e, 1))) return *y;
    return (Unit){0};
}

static Unit of_state(const Proof *p, const AuNode *n)
{
    const uint32_t state = (uint32_t)n->integer;
    if (state == p->state) return symbol(SHIFTED, OLD, 1);
    return p->is_sum[state] ? symbol(SCALED, OLD, -1) : (Unit){.kind = SHIFTED};
}

static Unit unit_of(Proof *p, AuExpr e);

/* What no unit is in stays as it is, whatever is made of it. */
static Unit of_any(Proof *p, AuExpr e)
{
    bool plain = true;
    for (uint32_t n = 0; n < attn_at(p->a, e)->count && plain; n++) {
        const Unit x = unit_of(p, attn_arg(p->a, e, n));
        plain = is_zero(&x);
    }
    return (Unit){.kind = plain ? SHIFTED : NOTHING};
}

static Unit of_maximum(Proof *p, const Unit *x, const Unit *y)
{
    const bool shifted = (x->kind == SHIFTED || is_zero(x)) && (y->kind == SHIFTED || is_zero(y));
    if (same(x, y)) return *x;
    return shifted ? symbol(SHIFTED, p->symbols++, 1) : (Unit){0};
}

static Unit of_node(Proof *p, AuExpr e)
{
    const AuNode *n = attn_at(p->a, e);
    Unit x[3] = {{0}, {0}, {0}};
    if (e.i == p->next.i) return symbol(SHIFTED, NEW, 1);
    if (n->op == AU_OP_STATE) return of_state(p, n);
    if (n->op == AU_OP_ELEMENT) return symbol(SCALED, OLD, -1); /* the unfinished output */
    if (n->op == AU_OP_ROWMAX) return (Unit){0};
    if (n->op == AU_OP_STATE_B || n->count > 3) return of_any(p, e);
    for (uint32_t k = 0; k < n->count; k++) x[k] = unit_of(p, attn_arg(p->a, e, k));
    switch ((int)n->op) {
    case AU_OP_ADD:
    case AU_OP_SUB:
        if (x[0].kind == SCALED && same(&x[0], &x[1])) return x[0];
        return sum_of(&x[0], &x[1], n->op == AU_OP_ADD ? 1 : -1, SHIFTED);
    case AU_OP_NEG:
        return x[0].kind == SCALED ? x[0] : sum_of(&(Unit){.kind = SHIFTED}, &x[0], -1, SHIFTED);
    case AU_OP_MUL: return sum_of(&x[0], &x[1], 1, SCALED);
    case AU_OP_DIV: return sum_of(&x[0], &x[1], -1, SCALED);
    case AU_OP_EXP: return turned(&x[0], SHIFTED, SCALED);
    case AU_OP_LOG: return turned(&x[0], SCALED, SHIFTED);
    case AU_OP_ROWSUM: return turned(&x[0], SCALED, SCALED);
    case AU_OP_STOP_GRAD: return x[0];
    case AU_OP_MAX:
    case AU_OP_MIN: return of_maximum(p, &x[0], &x[1]);
    case AU_OP_LT:
    case AU_OP_LE:
    case AU_OP_EQ:
    case AU_OP_NE: return comparison(p->a, e, &x[0], &x[1]);
    case AU_OP_WHERE: return is_zero(&x[0]) ? either(p->a, e, &x[1], &x[2]) : (Unit){0};
    default: return of_any(p, e);
    }
}

static Unit unit_of(Proof *p, AuExpr e)
{
    if (!p->done[e.i]) {
        p->done[e.i] = true;
        p->known[e.i] = of_node(p, e);
    }
    return p->known[e.i];
}

/* ---- the function */

static bool is_running_maximum(const AuAttn *a, uint32_t state)
{
    const AuExpr next = a->online->scales[state].next;
    if (!next.i || attn_at(a, next)->op != AU_OP_MAX) return false;
    for (uint32_t n = 0; n < 2; n++) {
        const AuExpr m = attn_arg(a, next, n), top = attn_arg(a, next, 1 - n);
        if (attn_at(a, m)->op == AU_OP_STATE && attn_at(a, m)->integer == (int32_t)state &&
            attn_at(a, top)->op == AU_OP_ROWMAX &&
            attn_at(a, attn_arg(a, top, 0))->op == AU_OP_SCORE)
            return true;
    }
    return false;
}

/* Are the scales' units after a tile those before, with the new reference for the old one? */
static bool keeps_units(Proof *p)
{
    const AuOnline *online = p->a->online;
    for (uint32_t n = 0; n < online->scale_count; n++) {
        if (n == p->state) continue;
        const Unit next = unit_of(p, online->scales[n].next), want = symbol(SCALED, NEW, -1);
        if (p->is_sum[n] ? !same(&next, &want) : !is_zero(&next)) return false;
    }
    const Unit weight = unit_of(p, online->weight), rescale = unit_of(p, online->rescale),
               want = symbol(SCALED, NEW, -1);
    Unit factor = symbol(SCALED, OLD, 1);
    factor.u[NEW] = -1;
    return same(&weight, &want) && same(&rescale, &factor);
}

static bool drops_out(Proof *p)
{
    const AuOnline *online = p->a->online;
    const Unit end = unit_of(p, online->epilogue);
    bool gone = is_zero(&end);
    for (uint32_t n = 0; n < online->final_count && gone; n++) {
        const Unit final = unit_of(p, online->finals[n].value);
        gone = is_zero(&final);
    }
    return gone;
}

bool attn_has_free_reference(AuAttn *a)
{
    const AuOnline *online = a->online;
    if (!online || a->weight_mod.i) return false;
    Proof p = {.a = a, .symbols = NEW + 1, .state = UINT32_MAX};
    for (uint32_t n = 0; n < online->scale_count; n++)
        if (is_running_maximum(a, n)) p.state = p.state == UINT32_MAX ? n : UINT32_MAX - 1;
    if (p.state >= online->scale_count) return false;
    p.next = online->scales[p.state].next;
    bool *is_sum = AU_NEW_ARRAY(a->arena, bool, online->scale_count);
    p.is_sum = is_sum;
    for (uint32_t n = 0; n < online->scale_count; n++) {
        bool *mark = AU_NEW_ARRAY(a->arena, bool, a->node_count);
        attn_mark(a, online->scales[n].next, mark);
        is_sum[n] = n != p.state && mark[p.next.i];
    }
    p.known = AU_NEW_ARRAY(a->arena, Unit, a->node_count);
    p.done = AU_NEW_ARRAY(a->arena, bool, a->node_count);
    return keeps_units(&p) && drops_out(&p);
}
