/* linear_warps_shape.c - what `linear_warps` takes, and its shapes: those that fit, and of those the one whose token costs the fewest
 * cycles of a processor by the rates of the machine's row.
 *
 * Registers of a lane: the state's part, scores and the weights made of them, the output's part, a part of the keys as operand. Shared
 * memory: chunks of q, k and v, as many as stages, the state as operand, a few numbers a token. */
#include "linear_warps.h"

enum {
    REGISTER = 4,        /* its bytes */
    FRAGMENT_SHARE = 48, /* 64ths of a lane's registers that fragments may take */
    OWN_SHARE = 40,      /* likewise, beside the addresses of more tiles */
    VECTOR = 16,         /* bytes that a lane moves at once */
    LANE_CHANNELS = 40,
    OWN_VIA_SHARED = 128,
    SPAN = 128,    /* bytes of a row that stay together */
    UNIT = 16,     /* a multiple of all extents of products */
    BLOCKS = 2,    /* of a processor, as there are heads */
    OWN_PAIRS = 3, /* matrices of pairs that feedback of its own keeps */
    INVERTED = 80, /* cycles of a row of a block on the diagonal */
    FED_COLUMNS = 64,
    PRODUCT = 35, /* cycles until its sums are there for the next one */
};

static int32_t smallest(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t largest(int32_t a, int32_t b) { return a > b ? a : b; }

static int32_t padded(int32_t width) { return (width + UNIT - 1) / UNIT * UNIT; }

int32_t linear_warps_padded(int32_t width) { return padded(width); }

int32_t linear_warps_channels(const AuProblem *p) { return padded(p->d); }

int32_t linear_warps_row_groups(const AuShape *s) { return s->key_tile / LINEAR_ROWS; }

int32_t linear_warps_state_groups(const AuProblem *p, const AuShape *s)
{
    const int32_t units = linear_warps_channels(p) / UNIT;
    int32_t groups = s->executors / s->column_parts;
    while (groups > 1 && units % groups) groups--;
    return groups;
}

static int32_t out_columns(const AuShape *s)
{
    return s->query_tile / (s->executors / linear_warps_row_groups(s));
}

/* Parts of rows that begin at a multiple of the swizzle's span are addresses that differ by constants. */
void linear_warps_complete(const AuProblem *p, AuShape *s)
{
    const int32_t bytes = tile_elem(p->operand)->bytes;
    const int32_t begins = linear_warps_channels(p) / linear_warps_state_groups(p, s) |
                           s->query_tile / s->column_parts | out_columns(s);
    s->swizzle_span = warps_copy_ahead(p) ? smallest(SPAN, (begins & -begins) * bytes) : 0;
}

int32_t linear_warps_solved(const AuShape *s)
{
    int32_t warps = s->executors;
    while (s->query_tile % (warps * UNIT)) warps--;
    return s->query_tile / warps;
}

/* ---- what is refused */

/* With feedback of its own all decays are as if they were that. */
bool linear_warps_by_channel(const AuProblem *p)
{
    return lin_problem_by_channel(p) || lin_problem_is_own(p);
}

bool linear_warps_rows_apart(const AuProblem *p)
{
    return linear_warps_by_channel(p) && !lin_problem_is_own(p) &&
           !p->hooks->slots[AU_SLOT_NORM].value.i && warps_copy_ahead(p);
}

static bool has_levels(const AuProblem *p)
{
    return linear_warps_by_channel(p) && !linear_warps_rows_apart(p);
}

/* A slot that a block needs all channels for. */
static bool sums(const AuProblem *p, AuSlot slot)
{
    return lin_problem_has(p, slot) && p->hooks->slots[slot].has_sums;
}

static bool takes_all_columns(const AuProblem *p)
{
    return p->hooks->has_out_mod || sums(p, AU_SLOT_V) || sums(p, AU_SLOT_SKIP);
}

static const char *refusal_of_class(const AuProblem *p)
{
    const AuNormal *n = p->hooks->normal;
    if (lin_problem_is_own(p) && n->decay != AU_DECAY_NONE && n->log_decay.high > 0)
        return "a decay that may be above 1 beside feedback by rows of its own";
    if (lin_problem_is_own(p) && lin_problem_has(p, AU_SLOT_NORM))
        return "a norm beside feedback by rows of its own";
    if (linear_warps_by_channel(p) && n->log_decay.high > 0)
        return "a decay a channel that may be above 1";
    if (lin_problem_has(p, AU_SLOT_BONUS) && !linear_warps_by_channel(p))
        return "a bonus, and no decay a channel";
    if (sums(p, AU_SLOT_BONUS)) return "a bonus that sums over channels";
    /* it weighs v, and what products take with feedback is U */
    if (lin_problem_has(p, AU_SLOT_BONUS) && lin_problem_is_fed(p))
        return "a bonus beside feedback";
    if (sums(p, AU_SLOT_LOG_DECAY) || sums(p, AU_SLOT_WRITE) || sums(p, AU_SLOT_ERASE) ||
        sums(p, AU_SLOT_NORM))
        return "a decay, a write, an erase or a norm that sums over channels";
    return NULL;
}

/* Of a row, where lanes have whole vectors of it: few lanes of some widths, whose code for rows of four kinds would have no end. */
static int32_t channels_of_lane(const AuProblem *p)
{
    const int32_t d = linear_warps_channels(p), vectors = d * tile_elem(p->operand)->bytes / VECTOR,
                  power = vectors & -vectors;
    return d / smallest(power, p->caps->lanes);
}

static const char *refusal_of_widths(AuArena *arena, const AuProblem *p)
{
    if (lin_problem_is_own(p) && channels_of_lane(p) > LANE_CHANNELS)
        return au_format(arena, "rows of %d channels, of which a lane has %d", p->d,
                         channels_of_lane(p));
    if (lin_problem_is_own(p) && warps_sums_lie_apart(p) && p->d > OWN_VIA_SHARED)
        return au_format(arena, "%d channels of rows of feedback's own where sums are no operands",
                         p->d);
    if ((sums(p, AU_SLOT_Q) || sums(p, AU_SLOT_K) || sums(p, AU_SLOT_READS) ||
         sums(p, AU_SLOT_WRITES)) &&
        p->d % UNIT)
        return au_format(arena, "a slot that sums over %d channels, no multiple of %d", p->d, UNIT);
    if (takes_all_columns(p) && p->e % UNIT)
        return au_format(arena,
                         "a slot or an out_mod that takes all of %d columns, no multiple of %d",
                         p->e, UNIT);
    return NULL;
}

const char *linear_warps_refusal(AuArena *arena, const AuProblem *p)
{
    const AuTileAtom *atom = warps_atom(p);
    if (!atom)
        return au_format(arena, "no matrix unit for operands of %s",
                         p->tf32 ? "tf32" : tile_elem(p->operand)->name);
    if (atom->opaque || atom->by_place || atom->is_async || atom->rounds || UNIT % atom->m ||
        UNIT % atom->n || UNIT % atom->k)
        return au_format(arena, "the matrix unit %s", atom->name);
    const char *why = refusal_of_class(p);
    return why ? why : refusal_of_widths(arena, p);
}

/* ---- what a shape takes */

/* Of wide rows of feedback of its own fewer at once, as registers do. */
int32_t linear_warps_rows_of_own(int32_t channels) { return channels < 128 ? 4 : 2; }

/* Rows of decays a channel while tiles are made of them. */
static int32_t registers_of_rows(const AuProblem *p)
{
    const int32_t d = linear_warps_channels(p);
    return lin_problem_is_own(p) ? linear_warps_rows_of_own(d) * 7 * d : 4 * 5 * d;
}

static int32_t registers_of(const AuProblem *p, const AuShape *s)
{
    const int32_t bytes = tile_elem(p->operand)->bytes, d = linear_warps_channels(p);
    const int32_t channels = d / linear_warps_state_groups(p, s), key = channels * s->key_tile,
                  score = LINEAR_ROWS * s->key_tile;
    int32_t others = score + LINEAR_ROWS * out_columns(s) + (score + key) * bytes / REGISTER;
    const int32_t solved = lin_problem_is_fed(p) ? 3 * linear_warps_solved(s) * s->key_tile : 0;
    if (has_levels(p)) others = largest(others, registers_of_rows(p));
    others = largest(others, solved);
    return (channels * s->query_tile / s->column_parts + others) / p->caps->lanes;
}

/* U, M where factors of decays a channel are not its place, and of those the pairs, each as two numbers; near pairs in f32. */
static int32_t fed_of(const AuProblem *p, const AuShape *s)
{
    const int32_t c = s->key_tile, row = warps_row_bytes(p, s->swizzle_span, c);
    const int32_t inverses = !has_levels(p) ? s->stages : linear_warps_channels(p) < c;
    return 2 * (inverses * c + s->query_tile + has_levels(p) * c) * row +
           has_levels(p) * REGISTER * LINEAR_ROWS * c;
}

/* Of the kernel of inverses: keys, numbers, pairs of keys, M. */
static int32_t shared_of_inverse(const AuProblem *p, const AuShape *whole)
{
    const AuShape s = linear_warps_inverse_shape(p, whole);
    const int32_t span = s.swizzle_span, c = s.key_tile;
    return WARPS_ALIGNMENT + c * warps_row_bytes(p, span, linear_warps_channels(p)) +
           REGISTER * (3 + c) * c + 2 * 2 * c * warps_row_bytes(p, span, c);
}

/* Of P, where pairs pass through memory: those of a group of rows may be made once for all its executors (lw_shares_pairs). */
static int32_t rows_of_pairs(const AuProblem *p, const AuShape *s)
{
    const bool shared = linear_warps_by_channel(p) && lin_problem_is_fed(p) &&
                        !lin_problem_has(p, AU_SLOT_NORM) &&
                        s->executors >= 2 * linear_warps_row_groups(s);
    if (lin_problem_is_own(p)) return OWN_PAIRS * s->key_tile;
    if (!warps_sums_lie_apart(p) && !linear_warps_by_channel(p)) return 0;
    return shared ? s->key_tile : s->executors * LINEAR_ROWS;
}

static int32_t shared_of(const AuProblem *p, const AuShape *s)
{
    const int32_t span = s->swizzle_span, d = linear_warps_channels(p);
    const int32_t keys = warps_row_bytes(p, span, d),
                  values = warps_row_bytes(p, span, s->query_tile);
    if (linear_warps_rows_apart(p))
        return WARPS_ALIGNMENT +
               s->stages * s->key_tile *
                   ((2 + lin_problem_is_fed(p)) * keys + values +
                    warps_row_bytes(p, span, s->key_tile)) +
               d * values + 2 * REGISTER * s->key_tile + (lin_problem_is_fed(p) ? fed_of(p, s) : 0);
    /* of feedback factors of levels once more, and a tile of keys, or two of rows of its own, of each stage */
    const int32_t tiles = linear_warps_levels(s->key_tile) * (lin_problem_is_fed(p) ? 2 : 1) +
                          (lin_problem_is_own(p) ? 2 * s->stages : lin_problem_is_fed(p));
    return WARPS_ALIGNMENT + s->stages * s->key_tile * (2 * keys + values) + d * values +
           (linear_warps_by_channel(p) ? s->key_tile * (REGISTER * d + tiles * keys) : 0) +
           rows_of_pairs(p, s) * warps_row_bytes(p, span, s->key_tile) +
           REGISTER * ((lin_problem_is_own(p) ? 4 : 3) * s->key_tile + UNIT + d) +
           (lin_problem_is_fed(p) ? fed_of(p, s) : 0);
}

/* Of a processor, as far as their number matters. */
static int32_t blocks_of(const AuProblem *p, const AuShape *s)
{
    return smallest(warps_resident(p, shared_of(p, s), s->executors), BLOCKS);
}

/* Rows of short spans are padded, which is not worth a block of a processor: Mamba-2 on an H200, 64 columns, 0.72 ms with two stages, whose
 * padding would leave room for one block, and 1.05 with one. Where the columns are more than a block's, those who have all in one block
 * are faster (simple_gla of 128, 0.61 and 0.63 ms). */
static void complete(const AuProblem *p, AuShape *s)
{
    linear_warps_complete(p, s);
    AuShape whole = *s;
    whole.swizzle_span = SPAN;
    const bool some_columns = linear_warps_rows_apart(p) && lin_problem_is_fed(p); /* more rows */
    if (s->swizzle_span && (!has_levels(p) || lin_problem_is_own(p)) &&
        (s->query_tile >= p->e || some_columns) && blocks_of(p, &whole) > blocks_of(p, s))
        *s = whole;
}

int32_t linear_warps_shared_of_inverse(const AuProblem *p, const AuShape *s)
{
    return lin_problem_is_fed(p) && !linear_warps_by_channel(p) ? shared_of_inverse(p, s) : 0;
}

static bool divides(const AuShape *s)
{
    const int32_t groups = linear_warps_row_groups(s);
    if (s->key_tile % LINEAR_ROWS || s->executors % groups || s->key_tile % s->executors ||
        s->executors < s->column_parts)
        return false;
    return s->query_tile % (s->column_parts * UNIT) == 0 &&
           s->query_tile % (s->executors / groups * UNIT) == 0;
}

static const char *refusal_of_shape(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    if (!divides(s))
        return au_format(arena, "%d tokens and %d columns do not divide among %d warps",
                         s->key_tile, s->query_tile, s->executors);
    if (linear_warps_by_channel(p) && s->key_tile & (s->key_tile - 1))
        return au_format(arena, "%d tokens, whose halves of halves are not 1", s->key_tile);
    if (takes_all_columns(p) && (s->query_tile != p->e || out_columns(s) != p->e))
        return "a slot or an out_mod that takes all columns of values";
    const int32_t before = linear_warps_rows_apart(p) ? linear_warps_shared_of_pairs(p, s)
                                                      : linear_warps_shared_of_inverse(p, s),
                  shared = largest(shared_of(p, s), before), registers = registers_of(p, s),
                  room = tile_share(p->caps, lin_problem_is_own(p) ? OWN_SHARE : FRAGMENT_SHARE);
    if (shared > p->caps->shared_bytes)
        return au_format(arena, "%d bytes of shared memory of %d", shared, p->caps->shared_bytes);
    if (registers > room)
        return au_format(arena, "fragments take %d registers of a lane, %d are for them", registers,
                         room);
    if (s->stages > 1 && !warps_copy_ahead(p))
        return au_format(arena, "%s has no asynchronous copies for stages", p->caps->name);
    return NULL;
}

static const char *refusal_of_one(AuArena *arena, const AuProblem *p, AuShape *s)
{
    if (divides(s)) complete(p, s);
    return refusal_of_shape(arena, p, s);
}

bool linear_warps_is_in_two(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    AuShape one = *s;
    return refusal_of_one(arena, p, &one) != NULL;
}

/* Where nothing stands behind the read there are no two. */
static const char *of_both(AuArena *arena, const char *one, const char *two)
{
    return *two ? au_format(arena, "%s; in two kernels, %s", one, two) : one;
}

const char *schedule_linear_warps_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    AuShape two = *s;
    const char *why = linear_warps_refusal(arena, p);
    if (why) return why;
    why = refusal_of_one(arena, p, s);
    if (!why) return NULL;
    const char *not_two = linear_warps_two_fit(arena, p, &two);
    if (not_two) return of_both(arena, why, not_two);
    *s = two;
    return NULL;
}

/* ---- by rule */

/* Cycles of a processor for a token of a head: products, what they read from shared memory, and what a chunk waits for: copies, barriers,
 * and the products of which one needs the other. There are rarely more than two blocks a processor. Nothing of it is fitted to
 * measurements yet. */
/* Decays a channel: an exponential a token, channel and level, and what goes with it; pairs of near tokens, level by level. */
static double cycles_of_levels(const AuProblem *p, const AuShape *s)
{
    const AuTileCaps *rates = tile_rates(p->caps);
    const int32_t d = linear_warps_channels(p), c = s->key_tile, near = 4, /* levels of 16 tokens */
        copies = s->executors / linear_warps_row_groups(s);
    const double made = (double)c * d * (linear_warps_levels(c) + 2) / rates->exp,
                 products = (double)copies * c * d * (near * LINEAR_ROWS + c / 2);
    return 2 * made + products / rates->matrix;
}

int32_t linear_warps_blocks(const AuProblem *p, const AuShape *s)
{
    return largest(blocks_of(p, s), 1);
}

/* Feedback of its own, a chunk: four barriers more, rows on the diagonal inverted one after the other, blocks of M and its product. */
static double waits_of_own(const AuProblem *p, int32_t tokens)
{
    const AuTileCaps *rates = tile_rates(p->caps);
    if (!lin_problem_is_own(p)) return 0;
    return 4 * rates->barrier + INVERTED * LINEAR_ROWS +
           (double)PRODUCT * LINEAR_HALVES_MET * 3 * tokens / UNIT;
}

static double cycles_of_token(const AuProblem *p, const AuShape *s)
{
    const AuTileCaps *rates = tile_rates(p->caps);
    const int32_t d = linear_warps_channels(p), e = s->query_tile, c = s->key_tile,
                  bytes = tile_elem(p->operand)->bytes,
                  copies = s->executors / linear_warps_row_groups(s), blocks = blocks_of(p, s);
    if (!blocks) return 0;
    /* warps without a part of the state wait for those that have one */
    const double holders = s->column_parts * linear_warps_state_groups(p, s);
    const double products = (linear_warps_by_channel(p) ? 0 : (double)copies * c * c * d) +
                            (double)c * d * e + (double)c * c * e +
                            (double)c * d * e * s->executors / holders;
    const double read = (double)s->executors * bytes *
                        (c * d + 2 * LINEAR_ROWS * d + (d + c) * out_columns(s) +
                         c * (e / s->column_parts + d / linear_warps_state_groups(p, s)));
    const double waits = rates->latency * (s->stages > 1 ? 1. / 7 : 1) + 2 * rates->barrier +
                         (double)PRODUCT * (2 * d + 2 * c) / UNIT;
    const double chunk = blocks *
                             (products / rates->matrix + read / rates->shared +
                              (has_levels(p) ? cycles_of_levels(p, s) : 0)) *
                             warps_enough(p, blocks * s->executors) +
                         waits;
    const int32_t slices = (padded(p->e) + e - 1) / e;
    return slices * (chunk + waits_of_own(p, c)) / (blocks * c);
}

/* Decays a channel beside feedback: on an H200 2.80 ms where a warp's part of the state has all columns, 3.54 where it has half of them. */
static double of_parts(const AuProblem *p, int32_t parts)
{
    return has_levels(p) && lin_problem_is_fed(p) && parts > 1 ? 1.25 : 1;
}

/* Of a block. With feedback and rows made before, two blocks share a processor, and what joins segments has matrices of as many columns. */
static int32_t most_columns(const AuProblem *p)
{
    return linear_warps_rows_apart(p) && lin_problem_is_fed(p) ? FED_COLUMNS : 256;
}

/* The best of chunks of as many tokens; false: none fits. */
static bool best_of(AuArena *arena, const AuProblem *p, int32_t tokens, AuShape *out,
                    const char **why)
{
    static const int32_t warps[] = {4, 8, 2, 1};
    const int32_t most = smallest(padded(p->e), most_columns(p));
    double best = out->key_tile ? cycles_of_token(p, out) : 0;
    for (uint32_t n = 0; n < 4 * 2; n++)
        for (int32_t columns = UNIT; columns <= most; columns += UNIT)
            for (int32_t parts = 1; parts <= warps[n / 2]; parts *= 2) {
                AuShape s = {.executors = warps[n / 2],
                             .key_tile = tokens,
                             .query_tile = columns,
                             .column_parts = parts,
                             .stages = 2 - (int32_t)(n % 2)};
                if (divides(&s)) complete(p, &s);
                const char *refused = refusal_of_shape(arena, p, &s);
                if (refused && !best) *why = refused;
                if (refused) continue;
                const double now = cycles_of_token(p, &s) * of_parts(p, parts);
                if (now > 0 && (!best || now < best)) best = now, *out = s, *why = NULL;
            }
    return best > 0;
}

/* Shorter chunks are fewer multiply-adds, and as many waits each: those of 64 tokens are what others have found best. With decays a channel
 * their tiles leave no room for columns, which are made anew for each strip of them. With feedback those of 32 are faster on an H200 (1.70
 * and 1.88 ms), with which two blocks share a processor. */
bool schedule_linear_warps_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    static const int32_t tokens[] = {64, 32, 16};
    const uint32_t first =
        (lin_problem_is_fed(p) && !linear_warps_by_channel(p)) || linear_warps_rows_apart(p);
    AuProblem halves = *p; /* a machine without such units: nothing to be said of it */
    halves.operand = TILE_F16, halves.tf32 = false;
    *why = NULL;
    if (!warps_atom(&halves)) return false;
    *why = linear_warps_refusal(arena, p);
    if (*why) return false;
    bool found = false;
    out->key_tile = 0;
    for (uint32_t n = first; n < 3 && !(found && !has_levels(p)); n++)
        found |= best_of(arena, p, tokens[n], out, why);
    const char *not_two;
    if (!found && !(found = linear_warps_two_shape(arena, p, out, &not_two)))
        *why = of_both(arena, *why, not_two);
    if (found) *why = NULL;
    return found;
}
