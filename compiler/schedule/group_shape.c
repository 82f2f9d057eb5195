/* group_shape.c - block shapes of the schedule `group`: what fits a problem, and what is best by rule.
 *
 * Registers. A block enters with as many a lane as a processor has for all of its lanes, in eights; what the producer's group gives up
 * the consumers share. A lane of a consumer holds, of 64 rows among 128 lanes: scores and further products keys / 2 each, weights keys / 4,
 * output e / 2, queries that stay in registers d / 4. Beside them it needs 24: ptxas begins accumulators there, and what fills the rest to
 * the last register makes it end each product before the next (docs/dev/hopper.md).
 *
 * Shared memory: queries, the output where it is not as wide as they, for each stage keys and values; and barriers. */
#include "group.h"

enum {
    NEARLY_QUARTER = 14, /* 64ths of registers that stay free where pairs are heavy */
    ALL = 64,
    LANES = 128,          /* of a group */
    BESIDE = 24,          /* registers of a lane that no fragment may have */
    OF_PARTS = 40,        /* registers of a lane that brings tiles of a part of the keys */
    EIGHT = 8,            /* registers change hands so many at a time */
    MOST_REGISTERS = 240, /* that a consumer asks for */
    MOST_BOX = 256,       /* elements of a box along an axis */
    LEAST_SWIZZLE = 32,   /* bytes */
    BARRIERS = 1024,      /* bytes of shared memory beside tiles */
};

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

const AuTileAtom *group_atom(const AuProblem *p)
{
    return p->tf32 ? NULL : tile_best_atom(p->caps, p->operand, TILE_ON_WARPGROUP);
}

int32_t group_swizzle(const AuProblem *p, int32_t width)
{
    const int32_t bytes = width * tile_elem(p->operand)->bytes;
    return least(bytes & -bytes, 128);
}

/* ---- registers and shared memory */

static int32_t channels_of_queries(const AuProblem *p)
{
    int32_t sum = p->d;
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) sum += lanes_dot_width(p, n);
    return sum;
}

static int32_t fragment_registers(const AuProblem *p, const AuShape *s)
{
    const int32_t scores = 1 + (int32_t)p->hooks->dot_count, rows = GROUP_ROWS;
    return rows * (scores * s->key_tile + p->e) / LANES + rows * s->key_tile / 2 / LANES +
           (s->query_in_registers ? rows * p->d / 2 / LANES : 0);
}

static int32_t shared_bytes(const AuProblem *p, const AuShape *s)
{
    const int32_t bytes = tile_elem(p->operand)->bytes, channels = channels_of_queries(p),
                  queries = group_holds_packed(p, s) ? 0 : channels,
                  rows = GROUP_ROWS * s->executors;
    return BARRIERS + WARPS_ALIGNMENT +
           bytes * (rows * (queries + (s->output_apart ? p->e : 0)) +
                    s->stages * s->key_tile * (channels + p->e));
}

int32_t group_registers_of(const AuProblem *p, int32_t groups)
{
    return p->caps->processor_registers / (LANES * groups) / EIGHT * EIGHT;
}

int32_t group_registers_at_entry(const AuProblem *p, const AuShape *s)
{
    return group_registers_of(p, s->executors + 1);
}

void group_set_registers(const AuProblem *p, AuShape *s)
{
    if (s->producer_registers && s->consumer_registers) return;
    const int32_t all = group_registers_at_entry(p, s) * (s->executors + 1);
    s->producer_registers = schedule_packs_rows(p) ? OF_PARTS
                            : s->executors < 3     ? BESIDE
                                                   : BESIDE + EIGHT;
    s->consumer_registers =
        least((all - s->producer_registers) / s->executors / EIGHT * EIGHT, MOST_REGISTERS);
}

void group_complete(const AuProblem *p, AuShape *s)
{
    group_set_registers(p, s);
    s->rows = GROUP_ROWS;
    s->output_apart |= p->d != p->e && !schedule_packs_rows(p);
    s->split_segments = true;
    s->swizzle_span = 0;
}

/* ---- what does not do */

static bool is_multiple(int32_t width, int32_t unit) { return width > 0 && width % unit == 0; }

/* A copy of a tile of such keys is a box for each SCHEDULE_PAGE_ROWS of its rows. */
static const char *refusal_of_pages(const AuProblem *p)
{
    if (p->attn->keys.layout != AU_LAYOUT_PAGED) return NULL;
    const char *why = schedule_packs_rows(p) ? NULL : schedule_pages_refusal(p);
    if (why) return why;
    if (p->hooks->needs_lists && !schedule_packs_rows(p))
        return "pages, and a mask that depends on data";
    return p->hooks->dot_count ? "pages, and further products" : NULL;
}

/* Tiles of a pipeline come by one span. */
static const char *refusal_of_dots(const AuProblem *p)
{
    for (uint32_t n = 0; n < p->hooks->dot_count; n++)
        if (lanes_dot_is_in_sequence(p, n, LANES_QUERIES) ||
            lanes_dot_is_in_sequence(p, n, LANES_KEYS))
            return "further products of rows that all packed sequences share";
    return NULL;
}

const char *group_refusal_of_units(AuArena *arena, const AuProblem *p)
{
    if (group_atom(p) && p->caps->pipelines && p->caps->copies & TILE_COPIES_TENSOR) return NULL;
    return au_format(arena, "no matrix unit of groups of warps for operands of %s",
                     p->tf32 ? "tf32" : tile_elem(p->operand)->name);
}

const char *group_refusal_of_problem(AuArena *arena, const AuProblem *p)
{
    const AuTileAtom *atom = group_atom(p);
    const char *why = group_refusal_of_units(arena, p);
    if (why) return why;
    if (p->attn->v_in_k) return "values that are channels of the keys";
    why = refusal_of_pages(p);
    if (!why) why = refusal_of_dots(p);
    if (why) return why;
    if (!is_multiple(p->d, atom->k) || !is_multiple(p->e, atom->k))
        return au_format(arena, "widths %d and %d are no multiples of %d", p->d, p->e, atom->k);
    if (p->e > MOST_BOX || p->d > MOST_BOX)
        return au_format(arena, "widths %d and %d, of which one is above %d", p->d, p->e, MOST_BOX);
    return lanes_dot_refusal(arena, p, atom->k);
}

const char *group_refusal_of_shared_memory(AuArena *arena, const AuProblem *p, int32_t bytes)
{
    const int32_t room = p->caps->shared_bytes - p->spare_shared;
    if (bytes <= room) return NULL;
    return au_format(arena, "%d bytes of shared memory, where a block has %d", bytes, room);
}

/* Does a pair read tensors, has it a power of its own, or are its weights made of many operations? What that holds for a moment has no place in the count above. */
bool group_pairs_are_heavy(const AuProblem *p)
{
    AuAttn *a = p->attn;
    bool *mark = AU_NEW_ARRAY(a->arena, bool, a->node_count);
    bool reads = p->hooks->needs_lists || p->hooks->has_weight_mod;
    if (!a->score_mod.i) return reads;
    attn_mark(a, a->score_mod, mark);
    for (uint32_t n = 1; n < a->node_count && !reads; n++) {
        const AuNode *node = attn_at(a, (AuExpr){n});
        const bool power = node->op == AU_OP_EXP || node->op == AU_OP_EXP2 || node->op == AU_OP_POW;
        reads = mark[n] && (power || node->op == AU_OP_INPUT) && (node->axes & AU_AX_KV);
    }
    return reads;
}

bool group_has_room(const AuShape *s, int32_t fragments)
{
    const int32_t all = s->consumer_registers ? s->consumer_registers : MOST_REGISTERS;
    return fragments + BESIDE < all;
}

const char *group_refusal_of_registers(AuArena *arena, const AuProblem *p, const AuShape *s,
                                       int32_t fragments)
{
    const int32_t entry = group_registers_at_entry(p, s);
    if (!group_has_room(s, fragments))
        return au_format(arena,
                         "fragments of %d registers beside %d others, where a consumer has %d",
                         fragments, BESIDE, s->consumer_registers);
    if (s->producer_registers % EIGHT || s->consumer_registers % EIGHT)
        return au_format(arena, "registers that are no multiples of %d", EIGHT);
    if (s->producer_registers + s->executors * s->consumer_registers > entry * (s->executors + 1))
        return au_format(arena, "%d groups of %d registers and one of %d, where %d each are there",
                         s->executors, s->consumer_registers, s->producer_registers, entry);
    return NULL;
}

/* Ranges of keys end with the rows, and tiles come from the last on: the last are no other group's. (Those of a part may be nobody's.) */
static bool can_pass(const AuProblem *p, const AuShape *s)
{
    return p->attn->mask.i && !p->hooks->needs_lists && s->scores_ahead && s->executors > 1 &&
           !schedule_packs_rows(p);
}

const char *schedule_group_refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const char *why = group_refusal_of_problem(arena, p);
    if (why) return why;
    if (!is_multiple(s->key_tile, group_atom(p)->k) || s->key_tile > MOST_BOX)
        return au_format(arena, "%d keys a tile are no multiple of %d", s->key_tile,
                         group_atom(p)->k);
    if (s->lag && !p->hooks->free_reference) return "no running maximum that may lie behind";
    if (s->passes && !can_pass(p, s)) return "no tiles that a group could pass over";
    if (s->turns && (!s->scores_ahead || s->executors == 1))
        return "turns are for several groups that have scores ahead";
    why = group_refusal_of_registers(arena, p, s, fragment_registers(p, s));
    if (why) return why;
    return group_refusal_of_shared_memory(arena, p, shared_bytes(p, s));
}

const char *group_forward_candidate(AuArena *arena, const AuProblem *p, AuShape *s)
{
    if (s->executors == 1) s->turns = s->passes = false;
    group_complete(p, s);
    const char *why = schedule_group_refusal(arena, p, s);
    if (why || !group_pairs_are_heavy(p)) return why;
    const int32_t free = s->consumer_registers - BESIDE - fragment_registers(p, s),
                  wanted = s->consumer_registers * NEARLY_QUARTER / ALL;
    if (s->query_in_registers) return "queries in registers that pairs need";
    return free >= wanted
               ? NULL
               : au_format(arena, "%d registers for what pairs hold, of %d", free, wanted);
}

/* ---- by rule */

static bool is_narrow(const AuProblem *p) { return p->d <= 64 && p->e <= 64; }

/* Measured (docs/dev/performance-notes.md): narrow heads have most of four groups in short rows, others of three, or of two. They take turns. */
static const int32_t *groups_in_order(const AuProblem *p)
{
    static const int32_t short_narrow[] = {4, 3, 2, 1}, others[] = {3, 2, 1, 4};
    return is_narrow(p) && p->short_rows ? short_narrow : others;
}

/* As many keys a tile as registers and so many stages allow; false: fewer than [least_keys]. [beside]: a share of registers, of 64, that
 * stays free. */
static bool most_keys(AuArena *arena, const AuProblem *p, AuShape *s, int32_t least_keys,
                      int32_t beside, const char **why)
{
    enum { MOST_KEYS = 128, STEP = 16 };
    group_complete(p, s);
    for (s->key_tile = MOST_KEYS; s->key_tile >= least_keys; s->key_tile -= STEP) {
        const int32_t free = s->consumer_registers - BESIDE - fragment_registers(p, s);
        *why = schedule_group_refusal(arena, p, s);
        if (!*why && free >= s->consumer_registers * beside / ALL) return true;
    }
    return false;
}

/* Four stages at most for narrow heads, and queries in registers, where they fit. */
static void fill_up(AuArena *arena, const AuProblem *p, AuShape *s, bool heavy)
{
    const int32_t stages = s->stages;
    if (is_narrow(p)) s->stages = 4;
    if (schedule_group_refusal(arena, p, s)) s->stages = stages;
    s->query_in_registers = !heavy;
    if (schedule_group_refusal(arena, p, s)) s->query_in_registers = false;
}

bool group_shape_of(AuArena *arena, const AuProblem *p, const int32_t *groups, int32_t count,
                    AuShape *out, const char **why)
{
    enum { STAGES = 2, LAG = 8 };
    static const struct {
        int32_t keys, beside;
    } least_of[] = {{64, NEARLY_QUARTER}, {64, 0}, {16, 0}};
    const bool heavy = group_pairs_are_heavy(p);
    for (int32_t l = heavy ? 0 : 1; l < 3; l++)
        for (int32_t n = 0; n < count * STAGES; n++) {
            AuShape s = {.executors = groups[n / STAGES],
                         .stages = STAGES - n % STAGES,
                         .grown = p->hooks->has_scale,
                         .lag = p->hooks->free_reference ? LAG : 0,
                         .matrix_stores = p->caps->matrix_stores,
                         .scores_ahead = true};
            s.turns = s.executors > 1;
            s.passes = can_pass(p, &s);
            if (!most_keys(arena, p, &s, least_of[l].keys, least_of[l].beside, why)) continue;
            fill_up(arena, p, &s, heavy);
            *out = s;
            return true;
        }
    return false;
}

bool schedule_group_forward_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                  const char **why)
{
    enum { GROUPS = 4 };
    const bool few = p->queries && p->queries != AU_PAGED_QUERIES;
    *why = few ? "kernels for few queries" : group_refusal_of_problem(arena, p);
    return !*why && group_shape_of(arena, p, groups_in_order(p), GROUPS, out, why);
}
