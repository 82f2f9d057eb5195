/* choose.c - families of attentions, the schedules of each, and which of them makes the kernels of an operation on a machine: `warps`
 * where its matrix units take the operands and a shape fits, else `lanes`, which every machine has; and up to how many queries a kernel
 * of fewer rows does. Who asks for tf32 gets it or is refused: `lanes` multiplies f32. */
#include "shapes.h"
#include "warps_back.h"

#include <string.h>

const char *schedule_operation(AuOperation operation)
{
    static const char *const names[AU_OPERATIONS] = {
#define OPERATION(NAME, text) text,
#include "aule/operations.def"
    };
    return names[operation];
}

/* ---- softmax, sigmoid, ..: weights of scores, in one sweep over the keys */

static bool is_online(const AuAttn *a) { return a->online != NULL; }

static bool warps_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    *why = "values that are rows of their own";
    return !schedule_values_apart(p) && schedule_warps_shape(arena, p, out, why);
}

static bool warps_back_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    *why = "values that are rows of their own";
    return !schedule_values_apart(p) && schedule_warps_back_shape(arena, p, out, why);
}

static bool lanes_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    (void)arena, (void)why;
    *out = schedule_lanes_shape(p);
    return true;
}

static bool lanes_back_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    (void)arena, (void)why;
    *out = schedule_lanes_back_shape(p);
    return true;
}

static int32_t online_limit(AuArena *arena, const AuProblem *p)
{
    AuShape shape;
    const char *why;
    AuProblem usual = *p;
    usual.queries = AU_ANY_QUERIES;
    if (warps_shape(arena, &usual, &shape, &why))
        return schedule_warps_limit(arena, p, shape.rows * shape.executors);
    return p->tf32 ? 0 : schedule_lanes_limit(p, p->queries);
}

/* ---- shapes that rows of text give */

static const char *warps_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    if (schedule_values_apart(p)) return "values that are rows of their own";
    const char *why = warps_refusal_of_problem(arena, p);
    if (why) return why;
    warps_complete(p, s);
    if (s->keys_apart && (!p->hooks->has_join || p->hooks->has_out_mod))
        return "warps that share their rows are for few queries, where results can be joined";
    return schedule_warps_refusal(arena, p, s);
}

static const char *warps_back_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    if (schedule_values_apart(p)) return "values that are rows of their own";
    const char *why = schedule_warps_back_refusal(arena, p, s);
    s->line = warps_back_line(p);
    return why;
}

/* What lanes cannot have is seen when their programs are verified. */
static const char *lanes_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    if (p->caps->has_private && s->executors > 1)
        return au_format(arena, "%d executors where a block has one", s->executors);
    if (s->key_tile % s->executors || s->query_tile % s->executors)
        return au_format(arena, "tiles do not divide among %d executors", s->executors);
    return NULL;
}

static const char *lanes_back_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = schedule_lanes_back_refusal(p, s);
    return why ? why : lanes_fit(arena, p, s);
}

static const AuScheduleRow online_rows[] = {
    {"warps_forward", AU_FORWARD, false, warps_shape, schedule_warps_forward, warps_fit},
    {"lanes_forward", AU_FORWARD, true, lanes_shape, schedule_lanes_forward, lanes_fit},
    {"warps_backward", AU_BACKWARD, false, warps_back_shape, schedule_warps_backward,
     warps_back_fit},
    {"lanes_backward", AU_BACKWARD, true, lanes_back_shape, schedule_lanes_backward,
     lanes_back_fit},
};

/* ---- recurrences */

static bool is_linear(const AuAttn *a) { return a->linear != NULL; }

/* ---- all */

enum { ONLINE_ROWS = sizeof online_rows / sizeof *online_rows };
static const AuFamily families[] = {
    {"an attention with weights", is_online, online_rows, ONLINE_ROWS, online_limit},
    {"a recurrence ('linear')", is_linear, NULL, 0, NULL},
};
enum { FAMILIES = sizeof families / sizeof *families };

const AuFamily *schedule_family(const AuAttn *a)
{
    uint32_t n = 0;
    while (n + 1 < FAMILIES && !families[n].has(a)) n++;
    return &families[n];
}

bool schedule_makes(const AuFamily *family, AuOperation operation)
{
    for (uint32_t n = 0; n < family->row_count; n++)
        if (family->rows[n].operation == operation) return true;
    return false;
}

static bool has(const AuTileNames *names, const char *name)
{
    for (uint32_t n = 0; n < names->count; n++)
        if (strcmp(names->at[n], name) == 0) return true;
    return false;
}

/* Does the schedule call all hooks that the attention has for the operation? */
static bool calls_all(AuDiags *diags, const AuProblem *p, AuOperation operation,
                      const AuSchedule *made)
{
    const AuTileNames *hooks = operation == AU_FORWARD    ? &p->hooks->forward
                               : operation == AU_BACKWARD ? &p->hooks->backward
                                                          : NULL;
    for (uint32_t n = 0; hooks && n < hooks->count; n++)
        if (!has(&made->called, hooks->at[n])) {
            au_error(diags, AU_E0811, p->attn->span,
                     "%s on %s: a mistake in the schedule '%s', which leaves out the hook '%s'",
                     schedule_operation(operation), p->caps->name, made->name, hooks->at[n]);
            return false;
        }
    return true;
}

AuSchedule *schedule_make(AuArena *arena, AuDiags *diags, const AuProblem *p,
                          const AuScheduleRow *row, const AuShape *shape)
{
    AuSchedule *made = row->build(arena, diags, p, shape);
    return made && calls_all(diags, p, row->operation, made) ? made : NULL;
}

/* Of a row of text for the schedule; false: there is none. *why: it does not do. */
static bool given(AuArena *arena, const AuProblem *p, const AuScheduleRow *row, AuShapesAre which,
                  AuShape *shape, AuSpan *span, const char **why)
{
    const char *none;
    AuShape s;
    if (p->queries != AU_ANY_QUERIES) return false;
    if (!row->shape(arena, p, &s, &none)) s = (AuShape){0};
    if (!shapes_apply(p->shapes, p, row->name, which, &s, span)) return false;
    const char *key = shape_missing(row->name, &s);
    *why = key ? au_format(arena, "there is no shape by rule, and %s is not given", key)
               : row->fit(arena, p, &s);
    *shape = s;
    return true;
}

/* A row that somebody asked for is taken or refused. */
static AuSchedule *forced(AuArena *arena, AuDiags *diags, const AuProblem *p,
                          const AuScheduleRow *row, const AuShape *shape, AuSpan span,
                          const char *why)
{
    if (!why && row->exact && p->tf32) why = "f32 as it is, where tf32 is asked for";
    AuSchedule *made = why ? NULL : schedule_make(arena, diags, p, row, shape);
    if (made) return made;
    au_error(diags, AU_E0811, span, "this shape does not do for %s %s on %s: %s",
             p->tf32 ? "tf32" : tile_elem(p->operand)->name, schedule_operation(row->operation),
             p->caps->name, why ? why : "its kernels are refused");
    return NULL;
}

AuSchedule *schedule_choose(AuArena *arena, AuDiags *diags, const AuProblem *p,
                            AuOperation operation)
{
    AuShape shape;
    AuSpan span;
    const char *why = NULL;
    const AuFamily *family = schedule_family(p->attn);
    for (uint32_t n = 0; n < family->row_count; n++) {
        const AuScheduleRow *row = &family->rows[n];
        if (row->operation == operation && given(arena, p, row, SHAPES_FORCED, &shape, &span, &why))
            return forced(arena, diags, p, row, &shape, span, why);
    }
    for (uint32_t n = 0; n < family->row_count; n++) {
        const AuScheduleRow *row = &family->rows[n];
        if (row->operation != operation || (row->exact && p->tf32)) continue;
        if ((given(arena, p, row, SHAPES_TUNED, &shape, &span, &why) && !why) ||
            row->shape(arena, p, &shape, &why))
            return schedule_make(arena, diags, p, row, &shape);
    }
    au_error(diags, AU_E0811, p->attn->span, "%s%s on %s: %s", schedule_operation(operation),
             p->tf32 ? " in tf32" : "", p->caps->name, why ? why : "no schedule makes it");
    return NULL;
}
