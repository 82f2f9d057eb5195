/* choose.c - families of attentions, the schedules of each, and which of them makes the kernels of an operation on a machine: `warps`
 * where its matrix units take the operands and a shape fits, else `lanes`, which every machine has; and up to how many queries a kernel
 * of fewer rows does. Who asks for tf32 gets it or is refused: `lanes` multiplies f32. */
#include "group.h"
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

static const char *refusal_of_warps(const AuProblem *p)
{
    if (schedule_values_apart(p)) return "values that are rows of their own";
    if (p->attn->keys.layout != AU_LAYOUT_PAGED) return schedule_pages_refusal(p);
    if (!warps_copy_ahead(p)) return "pages, on machines without asynchronous copies of lanes";
    return schedule_pages_refusal(p);
}

bool schedule_warps_forward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                  const char **why)
{
    *why = refusal_of_warps(p);
    return !*why && schedule_warps_shape(arena, p, out, why);
}

bool schedule_warps_backward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                   const char **why)
{
    *why = "values that are rows of their own";
    return !schedule_values_apart(p) && schedule_warps_back_shape(arena, p, out, why);
}

/* Tiles of a block lie where its executors share them, or in the memory of the one there is. */
static const char *refusal_of_lanes(const AuProblem *p)
{
    return p->caps->has_private || p->caps->shared_bytes
               ? NULL
               : "no memory that the executors of a block share";
}

bool schedule_lanes_forward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                  const char **why)
{
    (void)arena;
    *why = refusal_of_lanes(p);
    if (!*why) *out = schedule_lanes_shape(p);
    return !*why;
}

bool schedule_lanes_backward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                   const char **why)
{
    (void)arena;
    *why = refusal_of_lanes(p);
    if (!*why) *out = schedule_lanes_back_shape(p);
    return !*why;
}

bool schedule_has_form(AuArena *arena, const AuProblem *p, AuFewForm form)
{
    AuProblem of = *p;
    AuShape usual, own;
    const char *why;
    const AuRowLayout *keys = &p->attn->keys;
    if (form == AU_FEW_USUAL) return true;
    const bool narrow = form == AU_FEW_NARROW; /* of codes alone, which have no other */
    if (p->caps->has_private || p->queries != AU_DECODE_QUERIES || p->invariant ||
        (keys->has_groups && form != AU_FEW_CROWDED) || attn_is_stored(p->attn) != narrow ||
        shapes_row(p->shapes, p, "warps_decode", SHAPES_FORCED))
        return false;
    if (narrow) return warps_has_narrow(arena, p);
    of.form = AU_FEW_USUAL;
    if (!schedule_warps_decode_shape(arena, &of, &usual, &why)) return false;
    of.form = form;
    return schedule_warps_decode_shape(arena, &of, &own, &why) &&
           (form == AU_FEW_TALL ||
            warps_decode_resident(p, &usual) < warps_decode_resident(p, &own));
}

int32_t schedule_decode_rows(AuArena *arena, const AuProblem *p)
{
    const char *why;
    AuProblem by_groups = *p;
    if (p->caps->has_private) return schedule_lanes_decode_rows(p);
    if (p->form == AU_FEW_NARROW) return warps_atom(p)->m;
    if (schedule_lanes_packed_limit(arena,
                                    p)) /* alone they are those that they are beside others */
        return p->invariant && p->attn->queries.layout ? LANES_PACKED_BESIDE : LANES_PACKED_ROWS;
    if (schedule_warps_decode_limit(arena, p)) {
        /* those before the tall form leave it what is more than a tile; the usual form has the rest */
        const bool before = (p->balanced && !p->form) || p->form == AU_FEW_CROWDED;
        return before && schedule_has_form(arena, p, AU_FEW_TALL) ? WARPS_TILE_ROWS
                                                                  : WARPS_DECODE_ROWS;
    }
    by_groups.queries = AU_SOME_QUERIES;
    return schedule_has_boxes(arena, &by_groups, AU_FORWARD, &why) ? WARPS_WIDE_BELOW_GROUPS
                                                                   : WARPS_WIDE_ROWS;
}

/* Of sequences that share keys and of queries in a layout bounds of rows are known to other kernels, too. */
bool schedule_takes_more_rows(AuArena *arena, const AuProblem *p)
{
    return p->queries == AU_DECODE_QUERIES && !p->attn->queries.layout &&
           !p->attn->keys.has_groups && schedule_family(p->attn)->name == AU_FAMILY_ONLINE &&
           schedule_warps_decode_limit(arena, p) &&
           schedule_decode_rows(arena, p) == WARPS_DECODE_ROWS;
}

bool schedule_takes_mixed(AuArena *arena, const AuProblem *p)
{
    AuShape shape;
    const char *why;
    AuProblem mixed = *p;
    mixed.queries = AU_MIXED_QUERIES;
    if (p->tf32) return false;
    return (!p->caps->has_private && schedule_warps_mixed_shape(arena, &mixed, &shape, &why)) ||
           schedule_lanes_mixed_shape(arena, &mixed, &shape, &why);
}

/* Where sequences have lengths of their own, and no others' keys. Kernels that begin beside those before would wait for the list. */
bool schedule_balances(AuArena *arena, const AuProblem *p)
{
    const AuRowLayout *keys = &p->attn->keys;
    if (p->caps->has_private || !schedule_packs_rows(p) || p->invariant || !keys->layout ||
        keys->has_no_lengths || !schedule_joins_parts(p))
        return false;
    return schedule_warps_decode_limit(arena, p) || schedule_warps_wide_limit(arena, p) ||
           p->queries == AU_CHUNK_QUERIES;
}

bool schedule_joins_warps(AuArena *arena, const AuProblem *p)
{
    AuShape shape;
    const char *why;
    return schedule_family(p->attn)->name == AU_FAMILY_ONLINE && !p->boxes &&
           !schedule_packs_rows(p) && schedule_warps_wide_shape(arena, p, &shape, &why);
}

static int32_t online_limit(AuArena *arena, const AuProblem *p)
{
    AuShape shape;
    const char *why;
    AuProblem usual = *p;
    usual.queries = AU_ANY_QUERIES;
    if (p->queries == AU_PAGED_QUERIES)
        return !p->tf32 && (schedule_warps_forward_shape(arena, p, &shape, &why) ||
                            schedule_warps_wide_shape(arena, p, &shape, &why));
    if (p->queries == AU_CHUNK_QUERIES)
        return p->boxes && schedule_group_packed_shape(arena, p, &shape, &why);
    if (p->queries == AU_MIXED_QUERIES) return schedule_takes_mixed(arena, p);
    int32_t packed = schedule_warps_decode_limit(arena, p);
    if (!packed) packed = schedule_warps_wide_limit(arena, p);
    if (!packed) packed = schedule_lanes_packed_limit(arena, p);
    if (packed) return packed;
    if (p->attn->queries.layout &&
        (!p->caps->has_private || (p->invariant && p->queries != AU_DECODE_QUERIES)))
        return 0; /* other kernels of fewer rows take none of them, or run where all have few */
    if (attn_is_for_calls(p->attn) && !p->caps->has_private) return 0;
    if (schedule_warps_forward_shape(arena, &usual, &shape, &why))
        return schedule_warps_limit(arena, p, shape.rows * warps_row_groups(&shape));
    return p->tf32 ? 0 : schedule_lanes_limit(p, p->queries);
}

/* ---- shapes that rows of text give */

const char *schedule_warps_forward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = refusal_of_warps(p);
    if (!why) why = warps_refusal_of_problem(arena, p);
    if (why) return why;
    warps_forward_complete(p, s);
    if (s->keys_apart && (!p->hooks->has_join || p->hooks->has_out_mod))
        return "warps that share their rows are for few queries, where results can be joined";
    return schedule_warps_refusal(arena, p, s);
}

const char *schedule_group_forward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    group_complete(p, s);
    return schedule_group_refusal(arena, p, s);
}

const char *schedule_group_backward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    group_back_complete(p, s);
    return schedule_group_back_refusal(arena, p, s);
}

const char *schedule_group_back_wide_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    group_back_wide_complete(p, s);
    return schedule_group_back_wide_refusal(arena, p, s);
}

const char *schedule_warps_backward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    if (schedule_values_apart(p)) return "values that are rows of their own";
    const char *why = schedule_warps_back_refusal(arena, p, s);
    s->swizzle_span = warps_back_swizzle_span(p);
    return why;
}

/* What else lanes cannot have is seen when their programs are verified. */
const char *schedule_lanes_forward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = refusal_of_lanes(p);
    if (why) return why;
    if (p->caps->has_private && s->executors > 1)
        return au_format(arena, "%d executors where a block has one", s->executors);
    if (s->key_tile % s->executors || s->query_tile % s->executors)
        return au_format(arena, "tiles do not divide among %d executors", s->executors);
    return NULL;
}

const char *schedule_lanes_backward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = schedule_lanes_back_refusal(p, s);
    return why ? why : schedule_lanes_forward_fit(arena, p, s);
}

/* ---- recurrences */

static bool is_linear(const AuAttn *a) { return a->linear != NULL; }

const char *schedule_linear_chunks_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = schedule_linear_chunks_refusal(p);
    if (!why && s->key_tile % p->caps->lanes)
        why = au_format(arena, "chunks of %d tokens where a vector has %d lanes", s->key_tile,
                        p->caps->lanes);
    return why ? why : schedule_linear_fit(p, s);
}

const char *schedule_linear_tokens_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    (void)arena;
    const char *why = schedule_linear_tokens_sharing(p, s);
    return why ? why : schedule_linear_fit(p, s);
}

const char *schedule_linear_step_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    (void)arena;
    return schedule_linear_fit(p, s);
}

const char *schedule_linear_chunks_backward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    (void)arena;
    return schedule_linear_chunks_backward_refusal(p, s);
}

const char *schedule_linear_tokens_backward_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    (void)arena;
    return schedule_linear_fit(p, s);
}

/* ---- all */

/* AuScheduleRow.traits */
enum { EXACT = 1, BOXES = 2, LAYOUTS = 4, STORED = 8, OPAQUE = 16, MIXED = 32, BLOCKS = 64 };

static const AuScheduleRow schedules[] = {
#define SCHEDULE(family, name, operation, traits)                                                  \
    {AU_FAMILY_##family,      #name,           AU_##operation,       traits,                       \
     schedule_##name##_shape, schedule_##name, schedule_##name##_fit},
#include "schedules.def"
};

/* ORDER AuFamilyName */
static const AuFamily families[] = {
    {AU_FAMILY_ONLINE, "an attention with weights", is_online, online_limit,
     schedule_warps_back_few_limit, false},
    {AU_FAMILY_LINEAR, "a recurrence ('linear')", is_linear, NULL, NULL, true},
};
enum { FAMILIES = sizeof families / sizeof *families };

const AuFamily *schedule_family(const AuAttn *a)
{
    uint32_t n = 0;
    while (n + 1 < FAMILIES && !families[n].has(a)) n++;
    return &families[n];
}

/* The next one of a family after [row]; the first after NULL; NULL after the last. */
static const AuScheduleRow *next_row(const AuFamily *family, const AuScheduleRow *row)
{
    const AuScheduleRow *end = schedules + sizeof schedules / sizeof *schedules;
    for (row = row ? row + 1 : schedules; row < end; row++)
        if (row->family == family->name) return row;
    return NULL;
}

bool schedule_makes(const AuFamily *family, AuOperation operation)
{
    for (const AuScheduleRow *row = NULL; (row = next_row(family, row)) != NULL;)
        if (row->operation == operation) return true;
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
    const AuTileNames none = {0}, *hooks = &none;
    switch ((int)operation) { /* others ask for none */
    case AU_FORWARD: hooks = &p->hooks->forward; break;
    case AU_BACKWARD: hooks = &p->hooks->backward; break;
    case AU_UNFINISHED: hooks = &p->hooks->unfinished; break;
    case AU_COMBINE: hooks = &p->hooks->combine; break;
    case AU_APPEND: hooks = &p->hooks->append; break;
    }
    for (uint32_t n = 0; n < hooks->count; n++)
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

/* The queries that rows of text for the schedule are about: for fewer the rule decides. */
static AuQueries queries_of(const AuProblem *p, const AuScheduleRow *row)
{
    const bool many = row->build == schedule_warps_forward || row->build == schedule_group_forward;
    if (many && p->attn->keys.layout == AU_LAYOUT_PAGED) return AU_PAGED_QUERIES;
    const bool few = row->build == schedule_lanes_decode || row->build == schedule_warps_decode ||
                     row->build == schedule_lanes_packed || row->build == schedule_warps_back_few;
    if (row->build == schedule_group_packed) return AU_CHUNK_QUERIES;
    if (row->build == schedule_warps_wide || row->build == schedule_group_wide)
        return AU_SOME_QUERIES;
    return few ? AU_DECODE_QUERIES : AU_ANY_QUERIES;
}

bool schedule_takes_rows(const AuProblem *p, const char *schedule)
{
    const AuScheduleRow *row = NULL;
    while ((row = next_row(schedule_family(p->attn), row)) != NULL)
        if (strcmp(row->name, schedule) == 0) return p->queries == queries_of(p, row);
    return false;
}

/* Of a row of text for the schedule; NULL: there is none. *why: it does not do. */
static const AuShapeRow *given(AuArena *arena, const AuProblem *p, const AuScheduleRow *row,
                               AuShapesAre which, AuShape *shape, const char **why)
{
    const char *none = NULL;
    if (p->queries != queries_of(p, row)) return NULL;
    const AuShapeRow *text = shapes_row(p->shapes, p, row->name, which);
    if (!text) return NULL;
    if (!row->shape(arena, p, shape, &none)) *shape = (AuShape){0};
    shape_apply(text, shape);
    const char *key = shape_missing(row->name, shape);
    *why = !key ? row->fit(arena, p, shape)
                : au_format(arena, "%s, so that there is no shape by rule, and %s is not given",
                            none ? none : "no schedule fits", key);
    if (text->own && row->build == schedule_group_forward && group_pairs_are_heavy(p))
        *why = "pairs that hold more than those that were measured";
    return text;
}

static void taken(const AuProblem *p, const AuShapeRow *text)
{
    if (p->row) *p->row = text;
}

const char *schedule_operand(const AuProblem *p)
{
    return p->tf32 ? "tf32" : tile_elem(p->operand)->name;
}

/* A row that somebody asked for is taken or refused. */
static AuSchedule *forced(AuArena *arena, AuDiags *diags, const AuProblem *p,
                          const AuScheduleRow *row, const AuShape *shape, const AuShapeRow *text,
                          const char *why)
{
    taken(p, text);
    if (!why && row->traits & EXACT && p->tf32) why = "f32 as it is, where tf32 is asked for";
    if (!why) return schedule_make(arena, diags, p, row, shape);
    au_error(diags, AU_E0811, text->span, "%s does not do for %s %s on %s: %s",
             shape_row_text(arena, text), schedule_operand(p), schedule_operation(row->operation),
             p->caps->name, why);
    return NULL;
}

static bool is_for(const AuScheduleRow *row, const AuProblem *p, AuOperation operation)
{
    const AuAttn *a = p->attn;
    return row->operation == operation && ((row->traits & BOXES) != 0) == p->boxes &&
           ((row->traits & MIXED) != 0) == (p->queries == AU_MIXED_QUERIES) &&
           (!attn_has_layout(a) || row->traits & LAYOUTS) &&
           (!attn_is_stored(a) || row->traits & STORED);
}

bool schedule_has_boxes(AuArena *arena, const AuProblem *p, AuOperation operation, const char **why)
{
    AuShape shape;
    AuProblem with = *p;
    const AuFamily *family = schedule_family(p->attn);
    with.boxes = true;
    *why = NULL; /* of the first one that has none, which is for the most problems */
    if (!p->caps->pipelines || !(p->caps->copies & TILE_COPIES_TENSOR)) return false;
    if (family->name == AU_FAMILY_LINEAR && (operation == AU_FORWARD || operation == AU_BACKWARD))
        *why = "recurrences, for which no groups of warps multiply";
    if (attn_is_stored(p->attn))
        *why = "keys or values stored in 8 bits, of which a box brings codes";
    for (const AuScheduleRow *row = NULL; (row = next_row(family, row)) != NULL;) {
        const char *said = NULL;
        if (!is_for(row, &with, operation)) continue;
        if (given(arena, &with, row, SHAPES_FORCED, &shape, &said) ||
            row->shape(arena, &with, &shape, &said)) {
            *why = said;
            return true;
        }
        if (!*why) *why = said;
    }
    return false;
}

/* The schedule's shape by a table, else by rule; NULL: it has none. */
static const char *shape_of(AuArena *arena, const AuProblem *p, const AuScheduleRow *row)
{
    AuShape shape;
    const char *why = NULL;
    const bool tuned = given(arena, p, row, SHAPES_TUNED, &shape, &why) && !why;
    return tuned || row->shape(arena, p, &shape, &why) ? shape_text(arena, row->name, &shape)
                                                       : NULL;
}

bool schedule_has_short(AuArena *arena, const AuProblem *p, AuOperation operation)
{
    AuProblem one = *p, all = *p;
    one.short_rows = true, all.short_rows = false;
    for (const AuScheduleRow *row = NULL;
         (row = next_row(schedule_family(p->attn), row)) != NULL;) {
        if (!is_for(row, &one, operation)) continue;
        if (shapes_row(p->shapes, &one, row->name, SHAPES_FORCED)) return false;
        const char *of_short = shape_of(arena, &one, row), *of_all = shape_of(arena, &all, row);
        if (of_short || of_all) return of_short && (!of_all || strcmp(of_short, of_all) != 0);
    }
    return false;
}

/* A row of a table that does for the problem; where one of a user does not, it is said. */
static bool tuned(AuArena *arena, AuDiags *diags, const AuProblem *p, const AuScheduleRow *row,
                  AuShape *shape)
{
    const char *why = NULL;
    const AuShapeRow *text = given(arena, p, row, SHAPES_TUNED, shape, &why);
    if (text && !why) taken(p, text);
    if (text && why && !text->own)
        au_warning(diags, AU_W0601, text->span,
                   "this row does not do for %s %s of '%s' on %s, where the rule decides: %s",
                   schedule_operand(p), schedule_operation(row->operation), p->attn->name,
                   p->caps->name, why);
    return text && !why;
}

/* Would the row have multiplied by matrix units, had it not refused? Of families whose kernels say all refusals the first is said. */
static bool says_refusal(const AuFamily *family, const AuScheduleRow *row, const AuProblem *p,
                         const char *passed)
{
    if (family->says_refusals) return !passed;
    const AuTileAtom *atom = p->tf32 ? NULL : tile_best_atom(p->caps, p->operand, TILE_ON_WARP);
    return atom && atom->m > 1 && !(row->traits & EXACT) &&
           (atom->opaque || (atom->by_place && !atom->joins)) == ((row->traits & OPAQUE) != 0);
}

/* The problem on the row of the machine's blocks (AuTileCaps.block), where the schedule has a shape for these; on its plain row (AuTileCaps.plain), where a
 * schedule of matrices that lie nobody knows how has no shape on its own. */
static AuProblem on_machine_of(AuArena *arena, const AuProblem *p, const AuScheduleRow *row)
{
    AuShape shape;
    const char *why = NULL;
    AuProblem other = *p;
    if (row->traits & BLOCKS && p->caps->block) {
        other.caps = tile_caps(p->caps->block);
        if (row->shape(arena, &other, &shape, &why)) return other;
    }
    if (row->traits & OPAQUE && p->caps->plain && !row->shape(arena, p, &shape, &why)) {
        other.caps = tile_caps(p->caps->plain);
        return other;
    }
    return *p;
}

/* Are backward's kernels of plain matrices the faster ones, and there are such? */
static const char *slower(AuArena *arena, const AuProblem *p, const AuScheduleRow *row)
{
    AuShape shape;
    const char *why = NULL;
    if (!p->caps->plain || row->build != schedule_warps_backward ||
        p->d + p->e < p->caps->plain_from)
        return NULL;
    return schedule_matrices_backward_shape(arena, p, &shape, &why)
               ? au_format(arena, "slower from %d channels of keys and values on",
                           p->caps->plain_from)
               : NULL;
}

AuSchedule *schedule_choose(AuArena *arena, AuDiags *diags, const AuProblem *p,
                            AuOperation operation)
{
    AuShape shape;
    const char *why = NULL, *passed = NULL; /* a row that was passed by, and what for */
    const AuFamily *family = schedule_family(p->attn);
    for (const AuScheduleRow *row = NULL; (row = next_row(family, row)) != NULL;) {
        if (!is_for(row, p, operation)) continue;
        const AuProblem here = on_machine_of(arena, p, row);
        const AuShapeRow *text = given(arena, &here, row, SHAPES_FORCED, &shape, &why);
        if (text) return forced(arena, diags, &here, row, &shape, text, why);
    }
    for (const AuScheduleRow *row = NULL; (row = next_row(family, row)) != NULL;) {
        if (!is_for(row, p, operation) || (row->traits & EXACT && p->tf32)) continue;
        const AuProblem here = on_machine_of(arena, p, row);
        const char *slow = here.caps == p->caps ? slower(arena, p, row) : NULL;
        if (slow) why = slow;
        if (!slow &&
            (tuned(arena, diags, &here, row, &shape) || row->shape(arena, &here, &shape, &why))) {
            AuSchedule *made = schedule_make(arena, diags, &here, row, &shape);
            if (made && passed && (family->says_refusals || row->traits & (EXACT | OPAQUE)))
                made->name = au_format(arena, "%s # %s", made->name, passed);
            return made;
        }
        if (why && says_refusal(family, row, p, passed))
            passed = au_format(arena, "not %s: %s", row->name, why);
    }
    au_error(diags, AU_E0811, p->attn->span, "%s%s on %s: %s", schedule_operation(operation),
             p->tf32 ? " in tf32" : "", p->caps->name, why ? why : "no schedule makes it");
    return NULL;
}
