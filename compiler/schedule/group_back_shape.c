/* group_back_shape.c - block shapes of the schedule `group_backward`: what fits a problem, and what is best by rule.
 *
 * Registers of a lane of a consumer, of its 64 keys: sums of dK (d / 2) and dV (e / 2) all the time; beside them S' and dP' (queries / 2
 * each), later P' and dS' as operands (queries / 4 each) and the group's part of dQ; gradients of inputs that pairs read, one at a
 * time, or all where pairs read one by their query, and none where they have no room and are summed at once.
 *
 * Shared memory: keys and values of the block, queries and output gradients of each stage with what rows know, tiles of dS' and of dQ. */
#include "group.h"
#include "lanes_back.h"

enum {
    LANES = 128,        /* of a group */
    MOST_WIDTH = 256,   /* elements of a box along an axis */
    MOST_SWIZZLE = 128, /* bytes */
    BARRIERS = 512,     /* bytes of shared memory beside tiles, which leave no gaps */
    EXCHANGES = 2,
    RESULTS = 2,
    NARROW = 64,
    /* Single warps take 40 registers to have none in memory, where consumers do not need them. */
    ROOMY = 176,
    PRODUCER = 40,
    CONSUMER = 232,
};

static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

int32_t group_back_columns(const AuShape *s)
{
    const int32_t rows = s->query_tile / GROUP_ROWS;
    return rows > 0 && s->executors % rows == 0 ? s->executors / rows : 0;
}

int32_t group_back_swizzle(int32_t bytes)
{
    const int32_t power = bytes & -bytes;
    return power < MOST_SWIZZLE ? power : MOST_SWIZZLE;
}

void group_back_complete(const AuProblem *p, AuShape *s)
{
    group_set_registers(p, s);
    s->rows = GROUP_ROWS;
    s->column_parts = s->query_parts = 1;
    if (!s->with_dq) s->exchange_turned = false; /* there is no dS' */
    s->split_segments = true;
    s->swizzle_span = 0;
}

/* ---- registers and shared memory */

/* Does the score function read where queries are? */
static bool reads_positions(const AuProblem *p)
{
    AuAttn *a = p->attn;
    bool *mark = AU_NEW_ARRAY(a->arena, bool, a->node_count), found = false;
    if (!a->score_mod.i) return false;
    attn_mark(a, a->score_mod, mark);
    for (uint32_t n = 1; n < a->node_count; n++) {
        const AuNode *node = attn_at(a, (AuExpr){n});
        found |= mark[n] && node->op == AU_OP_INDEX && (node->axes & AU_AX_Q);
    }
    return found;
}

/* Distances from queries lie in a fragment of their own, a number a query, of which a lane has a quarter (distances.c). */
int32_t group_back_distance_registers(const AuProblem *p, int32_t queries)
{
    enum { QUARTER = 4 };
    return reads_positions(p) ? queries / QUARTER : 0;
}

bool group_back_adds_pairs(const AuProblem *p)
{
    const Lanes x = {.p = p};
    bool found = false;
    for (uint32_t n = 0; n < p->grads->pairs.count; n++)
        found |= (back_read_axes(&x, &p->grads->pairs.at[n]) & AU_AX_Q) != 0;
    return found;
}

int32_t group_back_values(const AuProblem *p)
{
    const int32_t inputs = (int32_t)p->grads->pairs.count;
    return group_back_adds_pairs(p) ? inputs : inputs > 0;
}

/* With so many numbers of each pair for inputs. Sums of inputs' gradients are a number a key, of which a lane has two, or one in all. */
static int32_t registers_with(const AuProblem *p, const AuShape *s, int32_t values)
{
    enum { SUM = 2 };
    const int32_t rows = GROUP_ROWS, m = s->query_tile;
    const int32_t dq = s->with_dq ? rows * p->d / group_back_columns(s) : 0;
    const int32_t held = rows * s->value_channels / 2;
    return (held + rows * (p->d + p->e) + most((2 + values) * rows * m, rows * m + dq)) / LANES +
           group_back_distance_registers(p, m) + SUM * (int32_t)p->grads->pairs.count;
}

bool group_back_sums_late(const AuProblem *p, const AuShape *s)
{
    return !group_back_adds_pairs(p) &&
           group_has_room(s, registers_with(p, s, group_back_values(p)));
}

static int32_t fragment_registers(const AuProblem *p, const AuShape *s)
{
    const bool kept = group_back_adds_pairs(p) || group_back_sums_late(p, s);
    return registers_with(p, s, kept ? group_back_values(p) : 0);
}

/* What rows know that the pass `statistics` makes where distances are left out of scores: references and adjoints beside the finals. What sums of
 * inputs' gradients go through, too. */
static int32_t bytes_beside(const AuProblem *p, const AuShape *s)
{
    enum { NUMBERS = 2, SUMS = 512 };
    const int32_t rows = s->stages * s->query_tile * NUMBERS * (int32_t)sizeof(float);
    return (reads_positions(p) ? rows : 0) + (p->grads->pairs.count ? SUMS : 0);
}

/* Numbers that backward knows of each row. */
static int32_t row_count(const AuProblem *p, const AuShape *s)
{
    AuSchedule scratch = {.shape = *s};
    scratch.shape.column_parts = 1;
    const Lanes x = warps_back_begin(p->attn->arena, NULL, p, &scratch);
    return (int32_t)back_row_count(&x, true);
}

int32_t group_back_operand_bytes(const AuProblem *p, const AuShape *s, int32_t keys)
{
    const int32_t bytes = tile_elem(p->operand)->bytes, m = s->query_tile,
                  number = (int32_t)sizeof(float);
    const int32_t statistics = number * row_count(p, s);
    return BARRIERS + bytes * keys * (p->d + p->e) +
           s->stages * m * (bytes * (p->d + p->e) + statistics) +
           (s->with_dq ? s->exchange_stages * bytes * keys * m : 0);
}

static int32_t shared_bytes(const AuProblem *p, const AuShape *s)
{
    const int32_t operands =
        group_back_operand_bytes(p, s, GROUP_ROWS * s->executors) + bytes_beside(p, s);
    if (!s->with_dq) return operands;
    return operands + s->result_stages * (int32_t)sizeof(float) * s->query_tile * p->d;
}

/* ---- what does not do */

const char *group_back_refusal_of_problem(AuArena *arena, const AuProblem *p)
{
    const char *why = group_refusal_of_problem(arena, p);
    if (why) return why;
    if (p->grads->pass_count) return "sums over keys that need a pass of their own";
    if (p->hooks->dot_count) return "further products";
    return NULL;
}

const char *group_back_refusal_of_dq(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    AuShape of_queries;
    const char *why = warps_refusal_of_order(p);
    if (why) return why;
    if (s->with_dq) return p->deterministic ? "sums of dQ in one order" : NULL;
    if (s->exchange_stages > 1 || s->result_stages > 1)
        return "tiles of dS and of dQ, which has a kernel of its own";
    return group_queries_shape(arena, p, &of_queries);
}

const char *group_back_refusal_of_sections(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    if (!s->grid_sections || p->caps->cached) return NULL;
    return au_format(arena, "sections of heads on %s, of whose cache nothing is known",
                     p->caps->name);
}

static const char *refusal_of_tiles(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const int32_t unit = group_atom(p)->k, columns = group_back_columns(s);
    if (s->query_tile % GROUP_ROWS || s->query_tile > MOST_WIDTH || !columns)
        return au_format(arena, "%d queries a tile do not divide among %d groups in %d rows each",
                         s->query_tile, s->executors, GROUP_ROWS);
    if (s->value_channels % unit || s->value_channels > p->e)
        return au_format(arena,
                         "%d channels of values in registers, where there are %d in steps of %d",
                         s->value_channels, p->e, unit);
    if (s->with_dq && p->d % (unit * columns))
        return au_format(arena, "%d channels do not divide among %d groups in steps of %d", p->d,
                         columns, unit);
    if (s->exchange_stages < 1 || s->exchange_stages > EXCHANGES)
        return "more than two tiles of dS";
    if (s->result_stages < 1 || s->result_stages > RESULTS) return "more than two tiles of dQ";
    return group_back_refusal_of_sections(arena, p, s);
}

const char *schedule_group_back_refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const char *why = group_back_refusal_of_problem(arena, p);
    if (!why) why = group_back_refusal_of_dq(arena, p, s);
    if (!why) why = refusal_of_tiles(arena, p, s);
    if (!why) why = group_refusal_of_registers(arena, p, s, fragment_registers(p, s));
    if (why) return why;
    return group_refusal_of_shared_memory(arena, p, shared_bytes(p, s));
}

/* ---- by rule */

void group_back_give_registers(int32_t fragments, AuShape *s)
{
    if (fragments <= ROOMY) s->producer_registers = PRODUCER, s->consumer_registers = CONSUMER;
}

/* Are scores sums and products of what pairs have, weights what the online function gives, and masks ranges? Others keep numbers of each pair (a soft
 * cap's slope, what dropout draws), which have no place in the count above beside 128 queries. */
static bool are_pairs_plain(const AuProblem *p)
{
    static const bool plain[AU_OP_COUNT] = {
        [AU_OP_SCORE] = true, [AU_OP_INDEX] = true, [AU_OP_TO_F32] = true, [AU_OP_ADD] = true,
        [AU_OP_SUB] = true,   [AU_OP_MUL] = true,   [AU_OP_DIV] = true,    [AU_OP_NEG] = true};
    AuAttn *a = p->attn;
    bool *mark = AU_NEW_ARRAY(a->arena, bool, a->node_count),
         good = !p->hooks->has_weight_mod && !p->hooks->needs_lists;
    if (!a->score_mod.i) return good;
    attn_mark(a, a->score_mod, mark);
    for (uint32_t n = 1; n < a->node_count && good; n++) {
        const AuNode *node = attn_at(a, (AuExpr){n});
        good = !mark[n] || !(node->axes & AU_AX_KV) || plain[node->op];
    }
    return good;
}

/* With twice the queries consumers hold nothing beside their fragments that 232 registers have no place for, unless ranges begin late or distances lie in
 * a fragment, and then single warps have more: 1.00 to 1.03 of the speed of 24 and 240 (windows 0.98). */
static void give_narrow(const AuProblem *p, AuShape *s)
{
    AuShape given = *s;
    given.producer_registers = PRODUCER, given.consumer_registers = CONSUMER;
    if (s->query_tile > GROUP_ROWS && !p->hooks->range_begins &&
        group_has_room(&given, fragment_registers(p, s)))
        *s = given;
}

const char *group_backward_candidate(AuArena *arena, const AuProblem *p, AuShape *s)
{
    if (s->query_tile % GROUP_ROWS == 0 && group_back_columns(s)) {
        group_back_give_registers(fragment_registers(p, s), s);
        give_narrow(p, s);
    }
    group_back_complete(p, s);
    if (s->query_tile > GROUP_ROWS && !are_pairs_plain(p))
        return "pairs that hold numbers of their own beside more than 64 queries";
    return schedule_group_back_refusal(arena, p, s);
}

const char *group_back_slower(const AuProblem *p)
{
    return group_back_adds_pairs(p) ? "gradients of inputs that pairs read by their query, which "
                                      "were slower than by single warps"
                                    : NULL;
}

/* Measured (docs/dev/performance-notes.md, tools: bench/shapes.py): two tiles of dQ where they fit, dS' as [queries, keys], dV in front of the fence. For
 * narrow heads twice the queries, with which units read shared memory less often, and scores a tile ahead. Others have some channels of values in
 * registers, where these have room. Pairs that hold numbers of their own, or ask where they are, have scores ahead instead; those that do both have no
 * registers for that, and those that ask their row for nothing wait for nothing that it would hide. */
static bool shape_of_groups(AuArena *arena, const AuProblem *p, int32_t groups, bool with_dq,
                            AuShape *out, const char **why)
{
    enum { WIDER = 2, HELD = 32, HELD_WHOLE = 64 };
    const bool narrow = p->d <= NARROW && p->e <= NARROW, plain = are_pairs_plain(p);
    const int32_t rows = GROUP_ROWS;
    const int32_t held[] = {narrow || !plain ? 0 : p->attn->mask.i ? HELD : HELD_WHOLE, 0};
    const AuShape all[] = {
        {.query_tile = WIDER * rows, .stages = 2, .exchange_stages = 1, .result_stages = RESULTS},
        {.query_tile = rows,
         .stages = 2,
         .exchange_stages = plain || narrow ? 1 : EXCHANGES,
         .result_stages = RESULTS},
        {.query_tile = rows, .stages = 2, .exchange_stages = 1, .result_stages = RESULTS},
        {.query_tile = rows, .stages = 2, .exchange_stages = 1, .result_stages = 1},
        {.query_tile = rows, .stages = 1, .exchange_stages = 1, .result_stages = 1},
    };
    for (uint32_t n = narrow && plain ? 0 : 1; n < sizeof all / sizeof *all; n++)
        for (uint32_t h = *held ? 0 : 1; h < sizeof held / sizeof *held; h++) {
            AuShape s = all[n];
            s.executors = groups;
            s.with_dq = with_dq;
            if (!s.with_dq) s.exchange_stages = s.result_stages = 1;
            s.value_channels = held[h];
            s.scores_ahead =
                (s.query_tile > rows || plain == reads_positions(p)) && row_count(p, &s) > 0;
            s.values_early = s.result_boxes = true;
            s.matrix_stores = s.exchange_turned = p->caps->matrix_stores;
            *why = group_backward_candidate(arena, p, &s);
            if (*why) continue;
            *out = s;
            return true;
        }
    return false;
}

/* Of widths whose halves no unit takes (80, 112) two groups have no dQ: a kernel of its own has it, 1.3 times as fast as one group with all. */
bool schedule_group_backward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                   const char **why)
{
    *why = group_back_refusal_of_problem(arena, p);
    if (!*why) *why = warps_refusal_of_order(p);
    if (!*why) *why = group_back_slower(p);
    if (*why) return false;
    if (shape_of_groups(arena, p, 2, !p->deterministic, out, why)) return true;
    const bool uneven = p->d % (2 * group_atom(p)->k) != 0;
    return uneven && !p->deterministic &&
           (shape_of_groups(arena, p, 2, false, out, why) ||
            shape_of_groups(arena, p, 1, true, out, why));
}
