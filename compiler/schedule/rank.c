/* rank.c - see rank.h. */
#include "rank.h"
#include "shapes.h"

#include <string.h>

enum { AXES = 7, SHOWN = 12 };

typedef struct Axis {
    const char *key; /* NULL: there are no more */
    int32_t first, last, step;
} Axis;

typedef struct Ranked {
    const char *schedule;
    GroupCost (*cost)(const AuProblem *p, const AuShape *s);
    /* Fills in what follows from the keys; why the shape is none to choose, or NULL. */
    const char *(*candidate)(AuArena *arena, const AuProblem *p, AuShape *s);
    Axis axes[AXES]; /* the last one grows first */
} Ranked;

static const Ranked all[] = {
    {"group_forward",
     group_forward_cost,
     group_forward_candidate,
     {{"groups", 1, 4, 1}, {"stages", 1, 4, 1}, {"held", 0, 1, 1}, {"keys", 16, 256, 16}}},
    {"group_backward",
     group_backward_cost,
     group_backward_candidate,
     {{"groups", 1, 3, 1},
      {"stages", 1, 3, 1},
      {"exchange", 1, 2, 1},
      {"results", 1, 2, 1},
      {"with_dq", 0, 1, 1},
      {"queries", 64, 256, 64},
      {"held", 0, 128, 32}}},
    {"group_back_wide",
     group_back_wide_cost,
     group_back_wide_candidate,
     {{"stages", 1, 3, 1},
      {"exchange", 1, 2, 1},
      {"results", 1, 2, 1},
      {"with_dq", 0, 1, 1},
      {"parts", 1, 8, 1}}},
};

static const Ranked *ranked(const AuProblem *p, const char *schedule)
{
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++)
        if (strcmp(all[n].schedule, schedule) == 0) return group_is_ranked(p) ? &all[n] : NULL;
    return NULL;
}

static uint32_t axes_of(const Ranked *r)
{
    uint32_t count = 0;
    while (count < AXES && r->axes[count].key) count++;
    return count;
}

/* The next values, the last axis first; false: there are no more. */
static bool advance(const Ranked *r, uint32_t count, int32_t *values)
{
    for (uint32_t n = count; n-- > 0;) {
        values[n] += r->axes[n].step;
        if (values[n] <= r->axes[n].last) return true;
        values[n] = r->axes[n].first;
    }
    return false;
}

static const char *keys_text(AuArena *arena, const Ranked *r, uint32_t count, const int32_t *values)
{
    AuText text = {.arena = arena};
    for (uint32_t n = 0; n < count; n++)
        au_text_add(&text, "%s%s=%d", n ? " " : "", r->axes[n].key, values[n]);
    return au_text_str(&text);
}

/* In front of those that are as fast: of shapes that the model does not tell apart the one with more stages comes first. */
static void insert(AuArena *arena, AuRanking *out, AuRankedShape shape)
{
    AU_PUSH(arena, out->at, out->count, out->capacity, shape);
    for (uint32_t n = out->count - 1; n > 0 && shape.cost.pair <= out->at[n - 1].cost.pair; n--) {
        out->at[n] = out->at[n - 1];
        out->at[n - 1] = shape;
    }
}

bool schedule_rank(AuArena *arena, const AuProblem *p, const char *schedule, const AuShape *like,
                   AuRanking *out)
{
    const Ranked *r = ranked(p, schedule);
    int32_t values[AXES];
    bool rejected = false; /* the one before, which differs in the last key */
    *out = (AuRanking){0};
    if (!r) return false;
    const uint32_t count = axes_of(r);
    for (uint32_t n = 0; n < count; n++) values[n] = r->axes[n].first;
    do {
        AuShape s = *like;
        s.producer_registers = s.consumer_registers = 0;
        for (uint32_t n = 0; n < count; n++) shape_set(&s, schedule, r->axes[n].key, values[n]);
        if (values[count - 1] == r->axes[count - 1].first) rejected = false;
        out->tried++;
        const char *why = r->candidate(arena, p, &s);
        if (!why)
            insert(arena, out, (AuRankedShape){s, r->cost(p, &s)});
        else if (!rejected) {
            const AuRejectedShape one = {keys_text(arena, r, count, values), why};
            AU_PUSH(arena, out->rejected, out->rejected_count, out->rejected_capacity, one);
        }
        rejected = why != NULL;
    } while (advance(r, count, values));
    return true;
}

bool schedule_forecast(const AuProblem *p, const char *schedule, const AuShape *shape,
                       GroupCost *out)
{
    const Ranked *r = ranked(p, schedule);
    if (r) *out = r->cost(p, shape);
    return r != NULL;
}

/* ---- as text */

static void add_line(AuText *text, AuArena *arena, const char *schedule, const char *number,
                     const AuShape *s, const GroupCost *c)
{
    enum { PAIRS = 32 * 32 };
    au_text_add(text, "%5s %7.1f %6.0f %6.0f %6.0f %6.0f %6.0f %6.0f %6.0f  %-14s %s\n", number,
                PAIRS * c->pair, c->units, c->powers, c->issue, c->shared, c->sums, c->way, c->tile,
                group_limit(c), shape_text(arena, schedule, s));
}

/* "group_forward" of "group_forward: groups=3 .." */
static const char *schedule_of(AuArena *arena, const AuSchedule *made)
{
    return au_strndup(arena, made->name, strcspn(made->name, ":"));
}

/* Who said which shape: the row that was taken, or nobody. */
static const char *said_by(const AuProblem *p)
{
    const AuShapeRow *row = p->row ? *p->row : NULL;
    if (!row) return "the schedule's rule";
    if (row->which == SHAPES_FORCED) return "--shape";
    return row->own ? "the compiler's table" : "--shapes";
}

/* Of a schedule without a model: by whom the shape is, and the row by which one asks for it or changes it. */
static const char *unranked_text(AuArena *arena, const AuProblem *p, const char *schedule,
                                 const AuShape *shape)
{
    AuText text = {.arena = arena};
    const bool others = schedule_takes_rows(p, schedule);
    au_text_add(
        &text,
        "// no ranking: only groups of warps on sm_90a are forecast beside other shapes; this "
        "one is by %s%s\n",
        said_by(p), others ? "" : ", which kernels for few queries keep");
    if (!others) return au_text_str(&text);
    au_text_add(&text, "// to try others: --shape=\"%s: ..\", bench/shapes.py", schedule);
    if (!p->hooks->dot_count && !p->attn->v_in_k) /* as tables have them (shapes.def) */
        au_text_add(&text, "; for tables: %s %s %d %d %s", p->caps->name, schedule_operand(p), p->d,
                    p->e, shape_text(arena, schedule, shape));
    au_text_add(&text, "\n");
    return au_text_str(&text);
}

const char *schedule_ranking_text(AuArena *arena, const AuProblem *p, const AuSchedule *made)
{
    AuText text = {.arena = arena};
    AuRanking all_of;
    GroupCost taken;
    const char *schedule = schedule_of(arena, made),
               *length = schedule_length_word(schedule_length_class(p));
    if (!schedule_forecast(p, schedule, &made->shape, &taken))
        return unranked_text(arena, p, schedule, &made->shape);
    schedule_rank(arena, p, schedule, &made->shape, &all_of);
    au_text_add(&text,
                "// for tables: %s %s %d %d %s%s%s; forecast for %d rows: cycles of a processor "
                "for 32 x 32 pairs; of a tile: matrix units,\n"
                "// exponentials, issue, shared memory, sums of dQ, the way of a group, all; what "
                "takes longest\n",
                p->caps->name, schedule_operand(p), p->d, p->e,
                schedule_mask_word(schedule_mask_kind(p)), length ? " " : "", length ? length : "",
                group_cost_rows(p));
    add_line(&text, arena, schedule, "taken", &made->shape, &taken);
    uint32_t place = 0; /* of those that are forecast alike one is shown */
    for (uint32_t n = 0; n < all_of.count && place < SHOWN; n++)
        if (!n || all_of.at[n].cost.pair > all_of.at[n - 1].cost.pair)
            add_line(&text, arena, schedule, au_format(arena, "%u", ++place), &all_of.at[n].shape,
                     &all_of.at[n].cost);
    au_text_add(&text, "// %u of %u shapes fit; of those that do not, the first of each row\n",
                all_of.count, all_of.tried);
    for (uint32_t n = 0; n < all_of.rejected_count; n++)
        au_text_add(&text, "    - %s  # %s\n", all_of.rejected[n].keys, all_of.rejected[n].why);
    return au_text_str(&text);
}
