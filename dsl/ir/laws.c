/* laws.c - the laws of an online function, tried on random rows in f64 (a falsifier, not a proof;
 * the seeds are fixed). A row of scores and values is cut in two parts. Each part alone, one after
 * the other, both at once, and joined by combine: all ways must end with the same row scales and
 * the same output. Parameters, inputs and indices get random values. */
#include <math.h>

#include "findings.h"
#include "eval.h"
#include "meaning.h"
#include "random.h"

enum { TRIALS = 48, LONGEST = 7 };

typedef struct Row {
    uint32_t count;
    double scores[2 * LONGEST], values[2 * LONGEST];
} Row;

/* The state of a row, or of a part of it. */
typedef struct State {
    double *scales;
    double o;    /* the unfinished output */
    double size; /* the sum of its terms' magnitudes, which rounding is measured by */
} State;

typedef struct Laws {
    const AuAttn *a;
    const AuOnline *online;
    AuArena *arena;
    uint64_t random;
    uint64_t trial;
    const double *scores; /* what leaves read */
    const double *state, *other, *finals;
    double element;
    AuProgram *starts, *tile, *combine, *finish, *forward;
    AuFindings *out;
} Laws;

static const char cut_in_tiles[] = "a row cut in two tiles",
                  by_combine[] = "two parts joined by combine";

/* Some value for a leaf that the laws do not speak of: the same all through a trial. */
static double some_value(const Laws *l, const AuEvalStep *s)
{
    uint32_t words[4];
    const uint32_t key[2] = {(uint32_t)l->trial, 7};
    attn_philox(key, (uint32_t[4]){(uint32_t)(s->node - l->a->nodes)}, words);
    if (s->node->type == AU_T_I32) return 1 + words[0] % 8;
    if (s->node->type == AU_T_BOOL) return words[0] & 1;
    return words[0] * 0x1p-31 - 0.5;
}

static void leaf(void *user, AuProgram *p, AuEvalStep *s, uint32_t count)
{
    const Laws *l = user;
    const AuNode *n = s->node;
    (void)p;
    for (uint32_t i = 0; i < count; i++)
        s->value[i] = n->op == AU_OP_SCORE     ? l->scores[i]
                      : n->op == AU_OP_STATE   ? l->state[n->integer]
                      : n->op == AU_OP_STATE_B ? l->other[n->integer]
                      : n->op == AU_OP_FINAL   ? l->finals[n->integer]
                      : n->op == AU_OP_ELEMENT ? l->element
                                               : some_value(l, s);
}

static AuProgram *program(Laws *l, const AuExpr *roots, uint32_t count, uint8_t across)
{
    return attn_program_new(l->arena, l->a, roots, count, across, 2 * LONGEST, leaf, l);
}

static void make_programs(Laws *l)
{
    const AuOnline *o = l->online;
    const uint32_t scales = o->scale_count;
    AuExpr *roots = AU_NEW_ARRAY(l->arena, AuExpr, scales + o->final_count + 2);
    for (uint32_t i = 0; i < scales; i++) roots[i] = o->scales[i].start;
    l->starts = program(l, roots, scales, 0);
    for (uint32_t i = 0; i < scales; i++) roots[i] = o->scales[i].next;
    roots[scales] = o->weight;
    roots[scales + 1] = o->rescale;
    l->tile = program(l, roots, scales + 2, AU_AX_KV);
    for (uint32_t i = 0; i < o->final_count; i++) roots[i] = o->finals[i].value;
    roots[o->final_count] = o->epilogue;
    l->finish = program(l, roots, o->final_count + 1, 0);
    if (o->forward.i) l->forward = program(l, &o->forward, 1, AU_AX_KV);
    if (!o->has_combine) return;
    for (uint32_t i = 0; i < scales; i++) roots[i] = o->scales[i].combined;
    roots[scales] = o->combine_a;
    roots[scales + 1] = o->combine_b;
    l->combine = program(l, roots, scales + 2, 0);
}

static State new_state(Laws *l)
{
    return (State){.scales = AU_NEW_ARRAY(l->arena, double, l->online->scale_count)};
}

static State start(Laws *l)
{
    State s = new_state(l);
    attn_program_run(l->starts, AU_CHANGED_ALL, 1);
    for (uint32_t i = 0; i < l->online->scale_count; i++)
        s.scales[i] = attn_step_at(l->starts->roots[i], 0);
    return s;
}

/* One tile: the pairs [first, end) of the row. */
static State run_tile(Laws *l, State before, const Row *row, uint32_t first, uint32_t end)
{
    const uint32_t scales = l->online->scale_count, count = end - first;
    State s = new_state(l);
    l->scores = row->scores + first;
    l->state = before.scales;
    attn_program_run(l->tile, AU_CHANGED_ALL, count);
    const double rescale = before.size == 0 ? 0 : attn_step_at(l->tile->roots[scales + 1], 0);
    for (uint32_t i = 0; i < scales; i++) s.scales[i] = attn_step_at(l->tile->roots[i], 0);
    s.o = before.o * rescale;
    s.size = before.size * fabs(rescale);
    for (uint32_t n = 0; n < count; n++) {
        const double term = attn_step_at(l->tile->roots[scales], n) * row->values[first + n];
        s.o += term;
        s.size += fabs(term);
    }
    return s;
}

static State combine(Laws *l, State a, State b)
{
    const uint32_t scales = l->online->scale_count;
    State s = new_state(l);
    l->state = a.scales;
    l->other = b.scales;
    attn_program_run(l->combine, AU_CHANGED_ALL, 1);
    for (uint32_t i = 0; i < scales; i++) s.scales[i] = attn_step_at(l->combine->roots[i], 0);
    const double fa = attn_step_at(l->combine->roots[scales], 0),
                 fb = attn_step_at(l->combine->roots[scales + 1], 0);
    s.o = a.o * fa + b.o * fb;
    s.size = a.size * fabs(fa) + b.size * fabs(fb);
    return s;
}

static bool near(double x, double y, double size)
{
    return x == y || fabs(x - y) <= 1e-9 * (fabs(x) + fabs(y) + size);
}

static bool is_finite(const Laws *l, const State *s)
{
    bool finite = isfinite(s->o);
    for (uint32_t i = 0; i < l->online->scale_count; i++) finite &= isfinite(s->scales[i]);
    return finite;
}

/* Each clause is found broken once. */
static void report(Laws *l, const char *clause, AuSpan span, double found, double expected,
                   const char *message)
{
    for (uint32_t i = 0; i < l->out->count; i++)
        if (l->out->at[i].clause == clause) return;
    const AuFinding f = {clause, message, NULL, span, found, expected};
    AU_PUSH(l->arena, l->out->at, l->out->count, l->out->capacity, f);
}

/* Equal states, or a finding about the law's clause. What the two parts of the row hold may cancel. */
static void expect_same(Laws *l, const State *x, const State *y, const State *parts,
                        const char *law, const char *clause)
{
    const AuOnline *o = l->online;
    for (uint32_t i = 0; i < o->scale_count; i++) {
        const double size = fabs(parts[0].scales[i]) + fabs(parts[1].scales[i]);
        if (!near(x->scales[i], y->scales[i], 1e-3 * (1 + (isfinite(size) ? size : 0)))) {
            report(l, clause, o->scales[i].span, x->scales[i], y->scales[i],
                   au_format(l->arena, "%s: row scale '%s' is %.9g, expected %.9g", law,
                             o->scales[i].name, x->scales[i], y->scales[i]));
            return;
        }
    }
    if (!near(x->o, y->o, x->size + y->size))
        report(l, clause, o->span, x->o, y->o,
               au_format(l->arena, "%s: the output is %.9g, expected %.9g", law, x->o, y->o));
}

/* The closed form against the way through the row scales. */
static void check_forward(Laws *l, const Row *row, const State *end)
{
    static const char clause[] = "forward";
    const AuOnline *o = l->online;
    double *finals = AU_NEW_ARRAY(l->arena, double, o->final_count), sum = 0, size = 0;
    if (!l->forward) return;
    l->state = end->scales;
    l->element = end->o;
    attn_program_run(l->finish, AU_CHANGED_ALL, 1);
    for (uint32_t i = 0; i < o->final_count; i++) finals[i] = attn_step_at(l->finish->roots[i], 0);
    const double found = attn_step_at(l->finish->roots[o->final_count], 0);
    l->finals = finals;
    l->scores = row->scores;
    attn_program_run(l->forward, AU_CHANGED_ALL, row->count);
    for (uint32_t n = 0; n < row->count; n++) {
        const double term = attn_step_at(l->forward->roots[0], n) * row->values[n];
        sum += term;
        size += fabs(term);
    }
    if (!near(sum, found, size))
        report(l, clause, attn_at(l->a, o->forward)->span, sum, found,
               au_format(l->arena,
                         "forward: the weights make %.9g of a row, online_fwd and the epilogue "
                         "%.9g",
                         sum, found));
}

static Row random_row(Laws *l, uint32_t *cut)
{
    Row row = {0};
    const double spread = l->trial % 3 == 0 ? 0.5 : l->trial % 3 == 1 ? 4 : 30;
    const double level = l->trial % 5 == 4 ? 200 * au_uniform(&l->random) - 100
                         : l->trial % 2    ? spread
                                           : 0;
    *cut = 1 + (uint32_t)(au_uniform(&l->random) * LONGEST);
    row.count = *cut + 1 + (uint32_t)(au_uniform(&l->random) * (LONGEST - 1));
    for (uint32_t n = 0; n < row.count; n++) {
        row.scores[n] = level + spread * (2 * au_uniform(&l->random) - 1);
        row.values[n] = 2 * au_uniform(&l->random) - 1;
    }
    return row;
}

void attn_try_laws(const AuAttn *a, AuArena *arena, AuFindings *out)
{
    static const char online_fwd[] = "online_fwd", combined[] = "combine";
    Laws l = {.a = a, .online = a->online, .arena = arena, .random = 1, .out = out};
    uint32_t tried = 0;
    if (!a->online) return;
    make_programs(&l);
    for (l.trial = 0; l.trial < TRIALS; l.trial++) {
        uint32_t cut;
        const Row row = random_row(&l, &cut);
        const State parts[] = {run_tile(&l, start(&l), &row, 0, cut),
                               run_tile(&l, start(&l), &row, cut, row.count)};
        const State once = run_tile(&l, start(&l), &row, 0, row.count);
        if (!is_finite(&l, &once)) continue; /* scores that this function is not made for */
        const State split = run_tile(&l, parts[0], &row, cut, row.count);
        expect_same(&l, &split, &once, parts, cut_in_tiles, online_fwd);
        if (l.combine) {
            const State joined = combine(&l, parts[0], parts[1]);
            expect_same(&l, &joined, &once, parts, by_combine, combined);
        }
        check_forward(&l, &row, &once);
        tried++;
    }
    if (tried < TRIALS / 6)
        report(&l, online_fwd, a->online->span, NAN, NAN,
               "the row scales are finite for too few random rows");
}

bool attn_check_online(const AuAttn *a, AuArena *arena, const char **why)
{
    AuFindings found = {0};
    attn_try_laws(a, arena, &found);
    if (found.count) *why = found.at[0].message;
    return found.count == 0;
}
