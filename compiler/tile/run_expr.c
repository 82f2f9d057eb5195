/* run_expr.c - values of expressions: whole tiles at a time, one loop for each row of ops.def. */
#include "machine.h"

#include "numeric.h"

bool is_floats(const AuTileType *type) { return tile_elem(type->elem)->is_float; }

/* ---- loops over elements, generated from ops.def: floats to floats, floats to truth values, integers to integers */

typedef void (*FloatLoop)(float *o, const float *const *p, const ptrdiff_t *s, int64_t n);
typedef void (*TestLoop)(int32_t *o, const float *const *p, const ptrdiff_t *s, int64_t n);
typedef void (*IntegerLoop)(int32_t *o, const int32_t *const *p, const ptrdiff_t *s, int64_t n);

// clang-format off
#define LOOP(function, from, wide, to, meaning)                                                    \
    static void function(to *o, const from *const *p, const ptrdiff_t *s, int64_t n)               \
    {                                                                                              \
        for (int64_t x = 0; x < n; x++) {                                                          \
            const wide a = p[0][x * s[0]], b = p[1][x * s[1]], c = p[2][x * s[2]];                  \
            (void)a, (void)b, (void)c;                                                             \
            o[x] = (to)(meaning);                                                                  \
        }                                                                                          \
    }
#define LOOPS_NUM(NAME, f, i)   LOOP(floats_##NAME, float, float, float, f) LOOP(integers_##NAME, int32_t, int64_t, int32_t, i)
#define LOOPS_F32(NAME, f, i)   LOOP(floats_##NAME, float, float, float, f)
#define LOOPS_I32(NAME, f, i)   LOOP(integers_##NAME, int32_t, int64_t, int32_t, i)
#define LOOPS_BOOL(NAME, f, i)  LOOP(tests_##NAME, float, float, int32_t, f) LOOP(integers_##NAME, int32_t, int64_t, int32_t, i)
#define LOOPS_WHERE(NAME, f, i) LOOPS_NUM(NAME, f, i)
#define LOOPS_OWN(NAME, f, i)
#define OP(NAME, text, count, syntax, result, on_f32, on_i32) LOOPS_##result(NAME, on_f32, on_i32)
#include "ops.def"
#undef OP

#define ROW_NUM(NAME)   {floats_##NAME, NULL, integers_##NAME}
#define ROW_F32(NAME)   {floats_##NAME, NULL, NULL}
#define ROW_I32(NAME)   {NULL, NULL, integers_##NAME}
#define ROW_BOOL(NAME)  {NULL, tests_##NAME, integers_##NAME}
#define ROW_WHERE(NAME) ROW_NUM(NAME)
#define ROW_OWN(NAME)   {NULL, NULL, NULL}
#define OP(NAME, text, count, syntax, result, on_f32, on_i32) ROW_##result(NAME),
static const struct {
    FloatLoop floats;
    TestLoop tests;
    IntegerLoop integers;
} loops[] = {
#include "ops.def"
};
#undef OP
// clang-format on

/* ---- tiles */

Tile new_tile(Machine *m, const AuTileType *type)
{
    const size_t bytes = 4 * (size_t)tile_elements(type);
    void *elements = scratch(m, bytes);
    return is_floats(type) ? (Tile){type, elements, NULL} : (Tile){type, NULL, elements};
}

Tile stored_tile(AuArena *arena, const AuTileType *type)
{
    void *elements = au_alloc(arena, 4 * (size_t)tile_elements(type));
    return is_floats(type) ? (Tile){type, elements, NULL} : (Tile){type, NULL, elements};
}

/* How far one goes in `from` with a step along each axis of `to`; 0 along an axis that it lacks. */
static void steps(const AuTileType *from, const AuTileType *to, int64_t *out)
{
    for (uint32_t i = 0; i < to->count; i++) {
        int64_t step = 1;
        out[i] = 0;
        for (uint32_t n = from->count; n-- > 0; step *= from->axes[n].size)
            if (from->axes[n].name == to->axes[i].name) out[i] = step;
    }
}

static bool same_order(const AuTileType *a, const AuTileType *b)
{
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->axes[i].name != b->axes[i].name) return false;
    return true;
}

enum { MAX_AXES = TILE_MAX_AXES };

/* Walks over the lines (last axis) of a type, keeping the positions in up to three operands. */
typedef struct Walk {
    const AuTileType *type;
    int64_t step[3][MAX_AXES], at[3], index[MAX_AXES];
    int64_t lines, length; /* of the last axis */
} Walk;

static Walk begin_walk(const AuTileType *type, const AuTileType *const *operands, uint32_t count)
{
    Walk w = {.type = type};
    for (uint32_t i = 0; i < count; i++) steps(operands[i], type, w.step[i]);
    w.length = type->count ? type->axes[type->count - 1].size : 1;
    w.lines = tile_elements(type) / w.length;
    return w;
}

static void next_line(Walk *w)
{
    for (uint32_t axis = w->type->count - 1; axis-- > 0;) {
        for (int i = 0; i < 3; i++) w->at[i] += w->step[i][axis];
        if (++w->index[axis] < w->type->axes[axis].size) return;
        for (int i = 0; i < 3; i++) w->at[i] -= w->step[i][axis] * w->index[axis];
        w->index[axis] = 0;
    }
}

static int64_t last_step(const Walk *w, int operand)
{
    return w->type->count ? w->step[operand][w->type->count - 1] : 0;
}

void spread(const AuTileType *to, Tile *dst, const Tile *src)
{
    const int64_t count = tile_elements(to);
    const bool floats = is_floats(to);
    if (same_order(to, src->type)) {
        if (floats)
            memcpy(dst->f, src->f, 4 * (size_t)count);
        else
            memcpy(dst->i, src->i, 4 * (size_t)count);
        return;
    }
    Walk w = begin_walk(to, &src->type, 1);
    const int64_t step = last_step(&w, 0);
    for (int64_t line = 0; line < w.lines; line++) {
        for (int64_t x = 0; floats && x < w.length; x++)
            dst->f[line * w.length + x] = src->f[w.at[0] + x * step];
        for (int64_t x = 0; !floats && x < w.length; x++)
            dst->i[line * w.length + x] = src->i[w.at[0] + x * step];
        next_line(&w);
    }
}

int64_t *permutation(AuArena *arena, const AuTileType *from, const AuTileType *to)
{
    if (same_order(from, to)) return NULL;
    int64_t *order = AU_NEW_ARRAY(arena, int64_t, tile_elements(to));
    Walk w = begin_walk(to, &from, 1);
    const int64_t step = last_step(&w, 0);
    for (int64_t line = 0; line < w.lines; line++) {
        for (int64_t x = 0; x < w.length; x++) order[line * w.length + x] = w.at[0] + x * step;
        next_line(&w);
    }
    return order;
}

/* The same numbers as floats. */
static const float *as_floats(Machine *m, const Tile *t)
{
    if (t->f) return t->f;
    const int64_t count = tile_elements(t->type);
    float *f = scratch(m, 4 * (size_t)count);
    for (int64_t x = 0; x < count; x++) f[x] = (float)t->i[x];
    return f;
}

/* ---- operations on elements */

static void run_loop(const AuTileExpr *e, bool floats, const void *const *in, const ptrdiff_t *step,
                     Tile *out, int64_t at, int64_t count)
{
    if (!floats) {
        const int32_t *const p[3] = {in[0], in[1], in[2]};
        loops[e->op].integers(out->i + at, p, step, count);
        return;
    }
    const float *const p[3] = {in[0], in[1], in[2]};
    if (out->i)
        loops[e->op].tests(out->i + at, p, step, count);
    else
        loops[e->op].floats(out->f + at, p, step, count);
}

static bool eval_operation(Agent *a, const AuTileExpr *e, Tile *out)
{
    static const AuTileType scalar = {.elem = TILE_F32};
    Tile args[3] = {0};
    const AuTileType *types[3] = {&scalar, &scalar, &scalar};
    const void *in[3];
    const AuTileResult result = tile_op(e->op)->result;
    bool floats = result == TILE_RESULT_F32, flat = true;
    for (uint32_t i = 0; i < e->args.count; i++) {
        if (!eval(a, e->args.at[i], &args[i])) return false;
        types[i] = args[i].type;
        floats |= is_floats(types[i]) && !(result == TILE_RESULT_WHERE && i == 0);
        flat &= types[i]->count == 0 || same_order(types[i], e->type);
    }
    for (uint32_t i = 0; i < 3; i++) {
        const Tile *arg = &args[i < e->args.count ? i : 0];
        in[i] = floats ? (const void *)as_floats(a->m, arg) : (const void *)arg->i;
    }
    *out = new_tile(a->m, e->type);
    const int64_t count = tile_elements(e->type);
    if (flat) {
        const ptrdiff_t step[3] = {types[0]->count > 0, types[1]->count > 0, types[2]->count > 0};
        run_loop(e, floats, in, step, out, 0, count);
        return true;
    }
    Walk w = begin_walk(e->type, types, 3);
    const ptrdiff_t step[3] = {last_step(&w, 0), last_step(&w, 1), last_step(&w, 2)};
    for (int64_t line = 0; line < w.lines; line++) {
        const void *const p[3] = {(const float *)in[0] + w.at[0], (const float *)in[1] + w.at[1],
                                  (const float *)in[2] + w.at[2]};
        run_loop(e, floats, p, step, out, line * w.length, w.length);
        next_line(&w);
    }
    return true;
}

/* ---- rows with rules of their own */

static bool eval_name(Agent *a, const AuTileExpr *e, Tile *out)
{
    const AuTileVar *v = e->var;
    const bool of_role =
        v->origin == TILE_FROM_BODY || v->origin == TILE_FROM_LOOP || v->origin == TILE_FROM_SELF;
    if (!of_role) {
        *out = a->item->vars[v->slot];
        return true;
    }
    const Var *var = &a->vars[v->slot];
    if (var->flight)
        return run_error(a, AU_E0705, var->flight->stmt, "%s is in flight; wait for it first",
                         v->name);
    if (!var->set) return run_error(a, AU_E0707, NULL, "fragment %s has no value yet", v->name);
    *out = var->tile;
    return true;
}

static bool eval_cast(Agent *a, const AuTileExpr *e, Tile *out)
{
    Tile x;
    if (!eval(a, e->args.at[0], &x)) return false;
    *out = new_tile(a->m, e->type);
    const int64_t count = tile_elements(e->type);
    const AuTileElem to = e->type->elem;
    if (out->f) {
        const float *from = as_floats(a->m, &x);
        for (int64_t n = 0; n < count; n++) out->f[n] = round_to(to, from[n]);
    } else if (to == TILE_BOOL) {
        for (int64_t n = 0; n < count; n++) out->i[n] = x.f ? x.f[n] != 0 : x.i[n] != 0;
    } else {
        for (int64_t n = 0; n < count; n++) out->i[n] = x.f ? to_i32(x.f[n]) : x.i[n];
    }
    return true;
}

static bool eval_fill(Agent *a, const AuTileExpr *e, Tile *out)
{
    Tile value;
    if (!eval(a, e->args.at[1], &value)) return false;
    *out = new_tile(a->m, e->type);
    const float with = value.f ? *value.f : (float)*value.i;
    for (int64_t n = 0, count = tile_elements(e->type); n < count; n++) out->f[n] = with;
    return true;
}

/* The larger one as an integer. */
static float upper_bits(float a, float b)
{
    int32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x > y ? a : b;
}

static bool eval_reduction(Agent *a, const AuTileExpr *e, Tile *out)
{
    Tile x;
    if (!eval(a, e->args.at[0], &x)) return false;
    const float *in = as_floats(a->m, &x);
    const bool keeps_nan = e->op == TILE_X_REDUCE_MAXNAN, by_bits = e->op == TILE_X_REDUCE_TOP,
               is_max = keeps_nan || e->op == TILE_X_REDUCE_MAX;
    *out = new_tile(a->m, e->type);
    for (int64_t n = 0, count = tile_elements(e->type); n < count; n++)
        out->f[n] = is_max ? -INFINITY : 0;
    Walk w = begin_walk(x.type, &e->type, 1);
    const int64_t step = last_step(&w, 0);
    for (int64_t line = 0; line < w.lines; line++) {
        const float *p = in + line * w.length;
        float *o = out->f + w.at[0];
        if (keeps_nan)
            for (int64_t n = 0; n < w.length; n++)
                o[n * step] = isnan(p[n]) || isnan(o[n * step]) ? NAN : maximum(o[n * step], p[n]);
        else if (by_bits)
            for (int64_t n = 0; n < w.length; n++) o[n * step] = upper_bits(o[n * step], p[n]);
        else if (is_max)
            for (int64_t n = 0; n < w.length; n++) o[n * step] = maximum(o[n * step], p[n]);
        else
            for (int64_t n = 0; n < w.length; n++) o[n * step] += p[n];
        next_line(&w);
    }
    return true;
}

static bool eval_vote(Agent *a, const AuTileExpr *e, Tile *out)
{
    Tile x;
    if (!eval(a, e->args.at[0], &x)) return false;
    *out = new_tile(a->m, e->type);
    *out->i = 0;
    for (int64_t n = 0, count = tile_elements(x.type); n < count; n++) *out->i |= x.i[n] != 0;
    return true;
}

static bool eval_cumsum(Agent *a, const AuTileExpr *e, Tile *out)
{
    Tile x;
    if (!eval(a, e->args.at[0], &x)) return false;
    const float *in = as_floats(a->m, &x);
    *out = new_tile(a->m, e->type);
    int64_t step = 1, size = 1;
    for (uint32_t n = e->type->count; n-- > 0;) {
        size = e->type->axes[n].size;
        if (e->type->axes[n].name == e->names.at[0]) break;
        step *= size;
    }
    for (int64_t n = 0, count = tile_elements(e->type); n < count; n++)
        out->f[n] = in[n] + (n / step % size ? out->f[n - step] : 0);
    return true;
}

static bool eval_iota(Agent *a, const AuTileExpr *e, Tile *out)
{
    *out = new_tile(a->m, e->type);
    for (int32_t n = 0; n < e->type->axes[0].size; n++) out->i[n] = n;
    return true;
}

static bool eval_number(Agent *a, const AuTileExpr *e, Tile *out)
{
    *out = new_tile(a->m, e->type);
    if (out->f)
        *out->f = (float)e->number;
    else
        *out->i = (int32_t)e->integer;
    return true;
}

static bool eval_list_question(Agent *a, const AuTileExpr *e, Tile *out)
{
    *out = new_tile(a->m, e->type);
    if (e->op == TILE_X_NEXT) {
        *out->i = a->vars[e->var->slot].next;
        return true;
    }
    uint32_t n = 0;
    while (a->m->kernel->lists.at[n] != e->list) n++;
    const struct TileRun *run = &a->item->lists[n];
    *out->i = e->op == TILE_X_COUNT ? (int32_t)run->tiles.count
              : run->tiles.count    ? run->tiles.at[0]
                                    : 0;
    return true;
}

bool eval(Agent *a, const AuTileExpr *e, Tile *out)
{
    if (tile_op(e->op)->result != TILE_RESULT_OWN) return eval_operation(a, e, out);
    switch ((int)e->op) {
    case TILE_X_INT:
    case TILE_X_FLOAT:
    case TILE_X_BOOL: return eval_number(a, e, out);
    case TILE_X_NAME: return eval_name(a, e, out);
    case TILE_X_FILL: return eval_fill(a, e, out);
    case TILE_X_ANYWHERE: return eval_vote(a, e, out);
    case TILE_X_REDUCE_MAX:
    case TILE_X_REDUCE_MAXNAN:
    case TILE_X_REDUCE_TOP:
    case TILE_X_REDUCE_SUM: return eval_reduction(a, e, out);
    case TILE_X_CUMSUM: return eval_cumsum(a, e, out);
    case TILE_X_IOTA: return eval_iota(a, e, out);
    case TILE_X_REF: return gather(a, e, out);
    case TILE_X_FIRST:
    case TILE_X_COUNT:
    case TILE_X_NEXT: return eval_list_question(a, e, out);
    }
    return eval_cast(a, e, out);
}

bool eval_integer(Agent *a, const AuTileExpr *e, int64_t *out)
{
    Tile t;
    if (!eval(a, e, &t)) return false;
    *out = t.i ? *t.i : to_i32(*t.f);
    return true;
}

bool eval_truth(Agent *a, const AuTileExpr *e, bool *out)
{
    Tile t;
    if (!eval(a, e, &t)) return false;
    *out = t.i ? *t.i != 0 : *t.f != 0;
    return true;
}
