/* empty.c - segments that have no tile, whatever the sizes are: below a causal mask nothing is partial.
 * Bounds of segments are expressions of the kernel's scalars, of which intervals are known. One segment of a list stays. */
#include "pass.h"

typedef struct Interval {
    int64_t low, high;
} Interval;

typedef struct Bounds {
    Pass *p;
    Interval *of; /* scalars of the kernel, by slot */
    bool *known;
} Bounds;

static const Interval anything = {INT32_MIN, INT32_MAX};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t down(int64_t a, int64_t by) { return a / by - (a % by < 0); }

static Interval interval(Bounds *b, const AuTileExpr *e);

/* A size is at least 1; a scalar of the kernel is what it was set to. */
static Interval interval_of_name(Bounds *b, const AuTileExpr *e)
{
    if (!e->var) return anything;
    if (e->var->origin == TILE_FROM_SIZE) return (Interval){1, INT32_MAX};
    if (e->var->origin == TILE_FROM_GRID) return (Interval){0, INT32_MAX};
    if (e->var->origin != TILE_FROM_LET) return anything;
    const uint32_t slot = e->var->slot;
    const AuTileStmts *lets = &b->p->kernel->lets;
    for (uint32_t n = 0; !b->known[slot] && n < lets->count; n++)
        if (lets->at[n]->var == e->var) {
            b->of[slot] = interval(b, lets->at[n]->assign.value);
            b->known[slot] = true;
        }
    return b->known[slot] ? b->of[slot] : anything;
}

static Interval interval(Bounds *bounds, const AuTileExpr *e)
{
    Interval a = anything, b = anything, c = anything, out = anything;
    if (e->args.count > 0 && e->args.at[0]) a = interval(bounds, e->args.at[0]);
    if (e->args.count > 1 && e->args.at[1]) b = interval(bounds, e->args.at[1]);
    if (e->args.count > 2 && e->args.at[2]) c = interval(bounds, e->args.at[2]);
    const bool by_number = b.low == b.high && b.low > 0;
    switch ((int)e->op) {
    case TILE_X_INT: return (Interval){e->integer, e->integer};
    case TILE_X_NAME: return interval_of_name(bounds, e);
    case TILE_X_ADD: out = (Interval){a.low + b.low, a.high + b.high}; break;
    case TILE_X_SUB: out = (Interval){a.low - b.high, a.high - b.low}; break;
    case TILE_X_MIN: return (Interval){least(a.low, b.low), least(a.high, b.high)};
    case TILE_X_MAX: return (Interval){most(a.low, b.low), most(a.high, b.high)};
    case TILE_X_CLAMP: /* min(max(a, b), c) */
        return (Interval){least(most(a.low, b.low), c.low), least(most(a.high, b.high), c.high)};
    case TILE_X_DIV:
        return by_number ? (Interval){down(a.low, b.low), down(a.high, b.low)} : anything;
    case TILE_X_CDIV:
        return by_number
                   ? (Interval){down(a.low + b.low - 1, b.low), down(a.high + b.low - 1, b.low)}
                   : anything;
    case TILE_X_WHERE: return (Interval){least(b.low, c.low), most(b.high, c.high)};
    default: return anything;
    }
    /* What wraps around may be anything. */
    return out.low < INT32_MIN || out.high > INT32_MAX ? anything : out;
}

static bool never_runs(Bounds *bounds, const AuTileSegment *s)
{
    if (s->how == TILE_INDEX_LIST) return interval(bounds, s->b).high <= 0;
    const Interval a = interval(bounds, s->a), b = interval(bounds, s->b);
    return s->how == TILE_RANGE ? b.high <= a.low : a.high <= b.low;
}

static void shorten(Bounds *bounds, AuTileList *list)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < list->segments.count; n++) {
        const bool last = n + 1 == list->segments.count;
        if (never_runs(bounds, &list->segments.at[n]) && !(last && !count)) continue;
        list->segments.at[count++] = list->segments.at[n];
    }
    list->segments.count = count;
}

static bool is_segment(const AuTileList *list, const char *name)
{
    for (uint32_t n = 0; n < list->segments.count; n++)
        if (list->segments.at[n].name == name) return true;
    return false;
}

/* `on` of a segment that is no more goes with it. */
static void drop(AuTileStmts *body, const AuTileList *list)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        if (list && s->kind == TILE_S_ON && !is_segment(list, s->on.segment)) continue;
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++)
            drop(parts.bodies[i], pass_is_list_loop(s) ? s->loop.list : list);
        body->at[count++] = s;
    }
    body->count = count;
}

void pass_empty(Pass *p)
{
    const uint32_t vars = p->kernel->vars.count + 1;
    Bounds bounds = {.p = p,
                     .of = AU_NEW_ARRAY(p->arena, Interval, vars),
                     .known = AU_NEW_ARRAY(p->arena, bool, vars)};
    for (uint32_t n = 0; n < p->kernel->lists.count; n++) shorten(&bounds, p->kernel->lists.at[n]);
    for (uint32_t n = 0; n < p->kernel->roles.count; n++) drop(&p->kernel->roles.at[n]->body, NULL);
}
