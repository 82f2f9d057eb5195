/* group_wide_shape.c - block shapes of the schedule `group_wide`: what fits a problem, and what is best by rule.
 *
 * Registers. Groups that sum have 64 rows of 256 channels at most, 128 of a lane; the group of scores has what they and the warps that bring tiles
 * leave. Shared memory: queries but for those in registers, stages of keys (and values that are no channels of them), weights and factors. */
#include "group_wide.h"
#include "warps_decode.h"

enum {
    LANES = 128,         /* of a group */
    BESIDE = 24,         /* registers of a lane that no fragment may have */
    SPAN_CHANNELS = 64,  /* that lie together in shared memory */
    MOST_SCORES = 240,   /* what is left is for the group of scores, at most so many */
    MOST_CHANNELS = 256, /* of a product, and of a group's sums */
    MOST_SUMS = 128,     /* columns of a fragment of sums */
    MOST_STAGES = 5,
    PAIRED_KEYS = 64, /* of groups that make weights in turn, by rule */
    PAIRED_HELD = 128,
    PAIRED_PRODUCER = 56, /* registers */
    PAIRED_CONSUMER = 224,
    BARRIERS = 512, /* bytes of shared memory beside tiles */
};

int32_t group_wide_registers(const AuProblem *p, const AuShape *s)
{
    const int32_t all = group_registers_of(p, s->executors + 2) * (s->executors + 2),
                  left = all - s->producer_registers - s->executors * s->consumer_registers;
    return left < MOST_SCORES ? left : MOST_SCORES;
}

int32_t group_wide_columns(const AuProblem *p, const AuShape *s) { return p->e / s->executors; }

int32_t group_wide_shared(const AuProblem *p, const AuShape *s) { return p->d - s->query_channels; }

int32_t group_wide_fragments(const AuProblem *p, const AuShape *s)
{
    const int32_t own = group_wide_columns(p, s), most = s->paired ? MOST_CHANNELS : MOST_SUMS;
    for (int32_t n = (own + most - 1) / most; n <= own / SPAN_CHANNELS; n++)
        if (own % (n * SPAN_CHANNELS) == 0) return n;
    return 0;
}

/* Two groups leave weights, factors and states; each ring ends with a whole line of swizzled tiles. */
static int32_t pair_bytes(const AuProblem *p, const AuShape *s)
{
    const int32_t bytes = tile_elem(p->operand)->bytes,
                  numbers = (1 + (int32_t)p->hooks->state_count) * GROUP_ROWS * 4,
                  ring = GROUP_ROWS * s->key_tile * bytes * s->exchange_stages +
                         numbers * s->exchange_stages;
    return BARRIERS + GROUP_ROWS * group_wide_shared(p, s) * bytes +
           s->stages * s->key_tile * (p->d + (p->attn->v_in_k ? 0 : p->e)) * bytes +
           2 * ((ring + WARPS_ALIGNMENT - 1) / WARPS_ALIGNMENT * WARPS_ALIGNMENT);
}

static int32_t shared_bytes(const AuProblem *p, const AuShape *s)
{
    if (s->paired) return pair_bytes(p, s);
    const int32_t bytes = tile_elem(p->operand)->bytes, float_bytes = (int32_t)sizeof(float),
                  key = p->d + (p->attn->v_in_k ? 0 : p->e),
                  ends = schedule_packs_rows(p) ? 0 : (int32_t)p->hooks->state_count;
    return BARRIERS + WARPS_ALIGNMENT + GROUP_ROWS * group_wide_shared(p, s) * bytes +
           s->stages * s->key_tile * key * bytes +
           s->exchange_stages * GROUP_ROWS * (s->key_tile * bytes + float_bytes) +
           ends * GROUP_ROWS * float_bytes;
}

/* Of a lane of the group of scores: scores and weights, of both types, and queries. */
static int32_t fragment_registers(const AuShape *s)
{
    return GROUP_ROWS * s->key_tile * (s->scores_ahead ? 5 : 3) / 2 / LANES +
           GROUP_ROWS * s->query_channels / 2 / LANES;
}

static const char *refusal(AuArena *arena, const AuProblem *p)
{
    const char *why = warps_wide_refusal(arena, p);
    if (why) return why;
    if (p->queries == AU_DECODE_QUERIES) return "so few rows that a group's would be empty";
    why = group_refusal_of_units(arena, p);
    if (why) return why;
    const int32_t unit = group_atom(p)->k;
    if (p->d % unit || p->e % unit)
        return au_format(arena, "widths %d and %d are no multiples of %d", p->d, p->e, unit);
    return NULL;
}

static const char *refusal_of_pairs(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const int32_t own = GROUP_ROWS * group_wide_columns(p, s) / LANES + fragment_registers(s),
                  all = group_registers_of(p, s->executors + 1) * (s->executors + 1),
                  rest = p->d - p->e;
    if (s->executors != 2 || s->scores_ahead || s->stages < 2)
        return "weights in turn of other groups than two, or of one tile in shared memory";
    if (own + BESIDE > s->consumer_registers ||
        s->producer_registers + s->executors * s->consumer_registers > all)
        return au_format(arena, "sums, scores and queries of %d registers, where a consumer has %d",
                         own, s->consumer_registers);
    if (!s->key_pieces) return NULL;
    if (!p->attn->v_in_k || p->attn->v_first || rest < 0 || s->key_pieces != (rest ? 3 : 2))
        return au_format(arena,
                         "keys of %d pieces, which are not their values' halves and the rest",
                         s->key_pieces);
    if (s->query_channels && s->query_channels != rest)
        return au_format(arena, "%d channels in registers, of %d behind the values",
                         s->query_channels, rest);
    return NULL;
}

const char *group_wide_refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const int32_t unit = group_atom(p)->k, own = p->e / s->executors;
    if (p->e % s->executors || own > MOST_CHANNELS || !group_wide_fragments(p, s) ||
        (p->attn->v_in_k && p->attn->v_first % SPAN_CHANNELS))
        return au_format(arena,
                         "%d channels are not those of %d groups, %d at most, in steps of %d", p->e,
                         s->executors, MOST_CHANNELS, SPAN_CHANNELS);
    if (s->key_tile % unit || s->key_tile > MOST_CHANNELS)
        return au_format(arena, "%d keys a tile are no multiple of %d", s->key_tile, unit);
    if (s->query_channels % SPAN_CHANNELS || s->query_channels >= p->d)
        return au_format(arena, "%d channels of %d in registers", s->query_channels, p->d);
    if (s->producer_registers % 8 || s->consumer_registers % 8)
        return "registers that are no multiples of 8";
    if (s->paired) {
        const char *why = refusal_of_pairs(arena, p, s);
        return why ? why : group_refusal_of_shared_memory(arena, p, shared_bytes(p, s));
    }
    if (GROUP_ROWS * own / LANES + BESIDE > s->consumer_registers)
        return au_format(arena, "sums of %d registers, where a consumer has %d",
                         GROUP_ROWS * own / LANES, s->consumer_registers);
    if (fragment_registers(s) + BESIDE > group_wide_registers(p, s))
        return au_format(arena, "scores and queries of %d registers, where their group has %d",
                         fragment_registers(s), group_wide_registers(p, s));
    return group_refusal_of_shared_memory(arena, p, shared_bytes(p, s));
}

static void complete(const AuProblem *p, AuShape *s)
{
    s->rows = GROUP_ROWS;
    s->matrix_stores = p->caps->matrix_stores;
    s->swizzle_span = 0;
}

const char *schedule_group_wide_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = refusal(arena, p);
    complete(p, s);
    return why ? why : group_wide_refusal(arena, p, s);
}

/* Two groups that make weights in turn, of long tiles that come in pieces where their channels allow it, with as few channels of the queries in registers
 * as leave room. */
static bool fits_paired(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const int32_t most = p->d == p->e ? 2 : 3;
    for (int32_t stages = MOST_STAGES; stages > 1; stages--)
        for (int32_t pieces = most; pieces >= 0; pieces -= most)
            for (int32_t held = 0; held <= PAIRED_HELD; held += SPAN_CHANNELS) {
                *s = (AuShape){.executors = 2,
                               .key_tile = PAIRED_KEYS,
                               .stages = stages,
                               .exchange_stages = 1,
                               .query_channels = held,
                               .producer_registers = PAIRED_PRODUCER,
                               .consumer_registers = PAIRED_CONSUMER,
                               .paired = true,
                               .key_pieces = pieces,
                               .part_start = warps_part_start(p)};
                complete(p, s);
                if (!group_wide_refusal(arena, p, s)) return true;
            }
    return false;
}

/* The first that fits: long tiles, of which those of 64 keys keep the unit of scores busy best (docs/dev/hopper.md); then stages. */
bool schedule_group_wide_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    enum { KINDS = (MOST_STAGES - 1) * 2 };
    static const int32_t keys[] = {64, 32, 16};
    const bool whole = !schedule_packs_rows(p); /* groups end their rows, which takes more */
    *why = refusal(arena, p);
    if (*why) return false;
    if (whole && fits_paired(arena, p, out)) return true; /* parts of the keys are slower so */
    for (int32_t n = 0; n < 3 * KINDS; n++) {
        AuShape s = {.executors = (p->e + MOST_CHANNELS - 1) / MOST_CHANNELS,
                     .key_tile = keys[n / KINDS],
                     .stages = MOST_STAGES - n % KINDS / 2,
                     .exchange_stages = 2 - n % 2,
                     .producer_registers = whole ? 56 : 48,
                     .consumer_registers = whole ? 176 : 160,
                     .part_start = warps_part_start(p)};
        complete(p, &s);
        *why = group_wide_refusal(arena, p, &s);
        if (*why) continue;
        *out = s;
        return true;
    }
    return false;
}
