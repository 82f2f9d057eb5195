/* warps_shape.c - block shapes of the schedule `warps`: what fits a problem, what is best by rule, what was measured better.
 *
 * Registers of a lane: scores and further products rows * keys / 32 each, output rows * e / 32, queries rows * d / 32, of 16 bits
 * half as many, if they stay there; what else the kernel needs (operands of products, row statistics, addresses, hooks) has the rest.
 * Shared memory: queries (or the output, if it is wider), and for each stage keys and values.
 *
 * What a machine has and how fast it is are columns of its row (caps.def). What stands here are shares of them, without a unit. */
#include "warps.h"

enum {
    REGISTER = 4,        /* its bytes */
    FRAGMENT_SHARE = 48, /* 64ths of a lane's registers that fragments may take; with weights the
                            row says it: of 16 bits as much as scores, of 32 half as much more */
    LONG_SHARE = 58,     /* up to which swizzle spans are long: of fragments and weights */
    TIGHT_SHARE = 44,    /* of fragments */
    LONG_SPAN =
        128, /* bytes of tiles' rows that stay together, as in the tensor; fewer beside many */
    SHORT_SPAN = 32, /* registers: places of vectors in a long span are addresses of their own */
    NARROW_REGISTERS =
        168,             /* of a lane of kernels for up to eight rows: three blocks of four warps */
    SCHEDULER_WARPS = 2, /* resident ones a scheduler from which on more change nothing */
};

static const double SPILLED = 1.3; /* as in warps_back_shape.c */

/* What a shape takes. */
typedef struct Needs {
    int32_t registers, weights, shared; /* registers of a lane: all fragments, and beside scores the
                                           weights, and tiles that pass through; bytes */
} Needs;

static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }
static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

/* Channels of queries, padded, with those of further products. */
static int32_t query_channels(const AuProblem *p, const AuTileAtom *atom)
{
    int32_t sum = warps_padded(atom, p->d);
    for (uint32_t n = 0; n < p->hooks->dot_count; n++)
        sum += warps_padded(atom, lanes_dot_width(p, n));
    return sum;
}

static int32_t keys_of_warp(const AuShape *s) { return s->key_tile / schedule_key_groups(s); }

/* Without shared memory. Blocks straight from tensors are Intel's, whose compiler has sums three times where they are scaled: what products have
 * left, numbers of it, and what the next products add to. The fewest keys are taken even so: in kernels with tiles in shared memory more is spilled. */
static Needs registers_of(const AuProblem *p, const AuTileAtom *atom, const AuShape *s)
{
    const int32_t bytes = tile_elem(p->operand)->bytes, keys = keys_of_warp(s),
                  channels = p->e / schedule_row_sharers(s),
                  pairs = s->rows * (1 + (int32_t)p->hooks->dot_count) * keys,
                  queries = query_channels(p, atom) * bytes / REGISTER,
                  passing = s->key_tile / s->executors * (query_channels(p, atom) + p->e) * bytes /
                            REGISTER,
                  scaled = s->far && p->caps->loads & TILE_LOADS_BLOCK &&
                                   (keys > atom->k || channels < p->e)
                               ? 2 * s->rows * channels
                               : 0;
    return (Needs){
        .registers =
            (pairs + s->rows * (channels + (s->query_in_registers ? queries : 0))) / p->caps->lanes,
        .weights =
            (pairs * (2 + bytes) / REGISTER + (warps_forward_passes(p, s) ? passing : 0) + scaled) /
            p->caps->lanes,
    };
}

static Needs needs_of(const AuProblem *p, const AuTileAtom *atom, const AuShape *s)
{
    const int32_t d = warps_padded(atom, p->d), block = s->rows * s->executors,
                  span = s->swizzle_span;
    int32_t query = warps_row_bytes(p, span, most(d, p->e)),
            key =
                warps_row_bytes(p, span, d) +
                (p->attn->v_in_k || warps_has_one_tile(p, s) ? 0 : warps_row_bytes(p, span, p->e));
    if (warps_codes_are_operands(p, s) || s->far) key = 0;
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) {
        const int32_t width = warps_padded(atom, lanes_dot_width(p, n));
        query += warps_row_bytes(p, span, width);
        if (!s->far) key += warps_row_bytes(p, span, width);
    }
    if (warps_rows_are_direct(p, s) || warps_forward_stages_rows(p, s)) query = 0;
    if (warps_values_are_turned(p, s)) key -= warps_row_bytes(p, span, p->e);
    if (warps_via_shared(p, s)) query += warps_row_bytes(p, span, keys_of_warp(s));
    Needs needs = registers_of(p, atom, s);
    /* rows of such tiles are multiples of 128 bytes, as beginnings are */
    const int32_t alignment = warps_has_one_tile(p, s) && query % 128 == 0 && key % 128 == 0
                                  ? WARPS_ALIGNMENT / 4
                                  : WARPS_ALIGNMENT;
    needs.shared =
        alignment + block * query + s->key_tile * (s->stages * key + warps_code_bytes(p)) +
        (warps_values_are_turned(p, s) ? p->e * warps_row_bytes(p, span, s->key_tile) : 0) +
        (s->keys_apart ? warps_join_bytes(p, s) : 0) + s->executors * tile_place_bytes(atom) +
        (tile_place_bytes(atom) ? 4 * atom->m : 0); /* the numbers of rows and columns */
    return needs;
}

/* Why no shape would do, or NULL. */
const char *warps_refusal_of_problem(AuArena *arena, const AuProblem *p)
{
    const AuTileAtom *atom = warps_atom(p);
    const char *operand = p->tf32 ? "tf32" : tile_elem(p->operand)->name;
    if (!atom) return au_format(arena, "no matrix unit for operands of %s", operand);
    if (atom->opaque || atom->is_async)
        return au_format(arena, "sums of %s are not in a warp's registers", atom->name);
    const int32_t unit = most(atom->n, 8);
    if (p->d % unit || p->e % unit)
        return au_format(arena, "widths %d and %d are no multiples of %d", p->d, p->e, unit);
    if (p->attn->v_in_k && p->attn->v_first % 8)
        return au_format(arena, "values begin at channel %d of the keys, no multiple of 8",
                         p->attn->v_first);
    /* tiles of the next keys come before products are done with those of this tile, of which others are in use then */
    if (p->hooks->dot_count && warps_has_any_codes(p)) return "codes, and further products";
    return lanes_dot_refusal(arena, p, 8);
}

static bool is_power_of_two(int32_t n) { return (n & (n - 1)) == 0; }

/* Are tiles whole rows of their tensors? A copy that no register sees writes no zeros beside them. */
static bool are_whole(const AuProblem *p, const AuTileAtom *atom)
{
    bool whole = !p->attn->v_in_k && warps_padded(atom, p->d) == p->d;
    for (uint32_t n = 0; n < p->hooks->dot_count; n++)
        whole = whole && warps_padded(atom, lanes_dot_width(p, n)) == lanes_dot_width(p, n);
    return whole;
}

/* Of a lane's registers what fragments and weights may take together. Where not even the least that a block of as many warps as the processor has
 * schedulers holds is within what does without moves between two kinds of registers, more: moves cost less than multiply-adds of lanes. Seen
 * without spills at width 256; at 224, where queries in shared memory leave room for a shape, 165 registers were spilled by this. */
static int32_t room_of(const AuProblem *p, const AuTileAtom *atom, const AuShape *s)
{
    const AuTileCaps *caps = p->caps;
    const int32_t room = tile_share(caps, s->direct ? caps->direct_held
                                          : s->far  ? caps->far_held
                                                    : caps->held);
    if (s->direct || !caps->moved_held || !is_power_of_two(query_channels(p, atom)) ||
        !is_power_of_two(p->e))
        return room;
    const AuShape small = {.executors = caps->schedulers,
                           .rows = atom->m,
                           .key_tile = atom->n,
                           .stages = 1,
                           .query_in_registers = true};
    const Needs needs = registers_of(p, atom, &small);
    return needs.registers + needs.weights > room ? tile_share(caps, caps->moved_held) : room;
}

/* Warps with the same rows, each with a part of the channels: nobody has all of an output, for functions that ask for that. */
static const char *refusal_of_columns(const AuProblem *p, const AuShape *s)
{
    const int32_t sharers = schedule_row_sharers(s);
    if (sharers == 1) return NULL;
    if (!(p->caps->loads & TILE_LOADS_BLOCK) || p->attn->v_in_k || p->unfinished ||
        p->hooks->has_out_mod)
        return "parts of the channels, of values among keys, of unfinished results, or beside a "
               "function of all channels";
    return s->executors % sharers || p->e % (sharers * warps_atom(p)->n)
               ? "channels do not divide among the warps that share rows"
               : NULL;
}

/* Operands straight from tensors: rows that lie one behind the other, of elements. */
static const char *refusal_of_far(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    if (!tile_takes_tensors(p->caps))
        return au_format(arena, "operands straight from tensors, which %s has no loads for",
                         p->caps->name);
    if (p->attn->keys.layout == AU_LAYOUT_PAGED || warps_has_any_codes(p))
        return "operands straight from tensors, of pages or of codes";
    if (attn_is_packed(p->attn) && p->caps->loads & TILE_LOADS_TENSOR)
        return "operands straight from tensors, of packed rows";
    if (refusal_of_columns(p, s)) return refusal_of_columns(p, s);
    return s->query_in_registers && s->stages == 1 && !s->via_shared && !s->direct
               ? NULL
               : "operands straight from tensors beside queries in shared memory, or stages";
}

/* Matrices that a whole block holds: its one executor has no others to share tiles with, and lanes that exchange nothing. */
static const char *refusal_of_block(const AuProblem *p, const AuShape *s)
{
    if (!s->far || s->executors != 1 || p->queries)
        return "matrices of a block take operands straight from tensors, by blocks of many queries";
    return attn_has_layout(p->attn) ? "matrices of a block beside rows in a layout" : NULL;
}

static bool divides(const AuProblem *p, const AuTileAtom *atom, const AuShape *s)
{
    return s->rows % atom->m == 0 && keys_of_warp(s) % most(atom->k, atom->n) == 0 &&
           s->key_tile % s->executors == 0 && !(s->keys_apart && p->e % (s->executors * atom->n));
}

const char *schedule_warps_refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const AuTileAtom *atom = warps_atom(p);
    const char *why = warps_refusal_of_problem(arena, p);
    if (why) return why;
    const Needs needs = needs_of(p, atom, s);
    if (s->far && refusal_of_far(arena, p, s)) return refusal_of_far(arena, p, s);
    if (!s->far && schedule_row_sharers(s) > 1)
        return "parts of the channels beside tiles in shared memory";
    if (atom->of_block && refusal_of_block(p, s)) return refusal_of_block(p, s);
    if (s->query_in_registers && (warps_sums_lie_apart(p) || atom->rounds))
        return "queries of which lanes hold copies, or that they round, stay in shared memory";
    if (s->via_shared && !warps_exchanges(p))
        return "weights by way of shared memory, where lanes exchange none";
    if (!divides(p, atom, s))
        return au_format(arena, "%d rows or %d keys for %d warps do not divide into %s", s->rows,
                         s->key_tile, s->executors, atom->name);
    if (needs.shared > p->caps->shared_bytes)
        return au_format(arena, "widths %d and %d take %d bytes of shared memory of %d", p->d, p->e,
                         needs.shared, p->caps->shared_bytes);
    const int32_t room = tile_share(p->caps, FRAGMENT_SHARE);
    if (needs.registers > room)
        return au_format(
            arena, "fragments of widths %d and %d take %d registers of a lane, %d are for them",
            p->d, p->e, needs.registers, room);
    if (needs.registers + needs.weights > room_of(p, atom, s))
        return au_format(
            arena, "fragments of widths %d and %d take %d registers of a lane, and weights %d",
            p->d, p->e, needs.registers, needs.weights);
    if (s->stages > 1 && warps_has_any_codes(p))
        return "a second stage of tiles whose codes come a tile ahead";
    if (s->direct && (!warps_copy_direct(p) || s->keys_apart || !are_whole(p, atom) ||
                      needs.shared - WARPS_ALIGNMENT > p->caps->direct_reach))
        return au_format(arena, "direct copies, which %s, the widths or the shape do not go with",
                         p->caps->name);
    if (s->stages > 1 &&
        !warps_copy_ahead(p)) /* nor direct ones: LLVM reads no stage while they write another */
        return au_format(arena, "%s has no asynchronous copies for stages", p->caps->name);
    return NULL;
}

/* ---- by rule */

static int32_t resident(const AuProblem *p, int32_t shared, int32_t warps, int32_t registers)
{
    const AuTileCaps *caps = p->caps;
    const int32_t by_shared = caps->processor_shared / (shared + caps->reserved),
                  by_registers = caps->processor_registers / (registers * caps->lanes);
    return least(by_shared, least(by_registers, caps->warps) / warps);
}

int32_t warps_resident(const AuProblem *p, int32_t shared, int32_t warps)
{
    return resident(p, shared, warps, p->caps->registers);
}

/* Of a lane: all of them, or the half that leaves room for a second warp, seen without spills at widths of 32, 64 and 128; at 96 and 160
 * what the half has by this count spilled 15 and 50 registers (docs/dev/performance-notes.md). */
static int32_t taken(const AuProblem *p, const AuTileAtom *atom, const Needs *needs)
{
    enum { WIDEST = 128 };
    const AuTileCaps *caps = p->caps;
    const int32_t queries = query_channels(p, atom), half = tile_share(caps, caps->half_held) / 2;
    return is_power_of_two(queries) && is_power_of_two(p->e) && most(queries, p->e) <= WIDEST &&
                   needs->registers + needs->weights <= half
               ? caps->registers / 2
               : caps->registers;
}

int32_t warps_lane_registers(const AuProblem *p)
{
    return p->form == AU_FEW_NARROW ? NARROW_REGISTERS : p->caps->registers;
}

int32_t warps_decode_resident(const AuProblem *p, const AuShape *s)
{
    const int32_t shared =
        needs_of(p, warps_atom(p), s).shared -
        WARPS_ALIGNMENT; /* of which tiles that follow each other leave nothing */
    return most(resident(p, shared, s->executors, warps_lane_registers(p)), 1);
}

double warps_enough(const AuProblem *p, int32_t warps)
{
    const int32_t enough = SCHEDULER_WARPS * p->caps->schedulers;
    return warps < enough ? (double)enough / warps : 1;
}

/* Tiles that come by spans of 64 bytes have all that the far cache gives; shorter ones cut its sectors and their pairs. */
static double far_rate(const AuProblem *p, const AuShape *s)
{
    return tile_rates(p->caps)->far * (s->swizzle_span >= 64   ? 1
                                       : s->swizzle_span >= 32 ? 2. / 3
                                                               : 13. / 30);
}

/* How weights become operands where lanes could exchange them, by the emulator's counts of gfx1100 for 32 x 32 pairs (docs/dev/performance-notes.md): 16
 * exchanges, 32 choices and 16 turns for what these wait for; by way of shared memory 8 stores, 8 loads and 6. */
static double operand_cycles(const AuProblem *p, const AuShape *s)
{
    enum { PAIRS = 32 * 32, EXCHANGED = 64, STORED = 22 };
    if (!warps_exchanges(p)) return 0;
    return (double)(s->via_shared ? STORED : EXCHANGED) / PAIRS / p->caps->schedulers;
}

/* Cycles of a processor for a pair, less is better: what its parts take for a tile, which overlap but in part. The shares were fitted
 * to 25 shapes measured on an H200 (bf16, widths 64, 128, 256), most of which the sum meets within 6 %; what is measured of them is in
 * docs/dev/lowering.md. */
static double cycles_of_pair(const AuProblem *p, const AuTileAtom *atom, const AuShape *s)
{
    const AuTileCaps *rates = tile_rates(p->caps);
    const Needs needs = needs_of(p, atom, s);
    const int32_t blocks = resident(p, needs.shared, s->executors, taken(p, atom, &needs)),
                  warps = blocks * s->executors, bytes = tile_elem(p->operand)->bytes;
    const double pairs = (double)warps * s->rows * s->key_tile;
    const int32_t queries = query_channels(p, atom), channels = queries + p->e;
    const double matrix = pairs * channels * bytes / 2 / rates->matrix;
    /* keys and values for each warp, queries unless they stay */
    const double read = (double)warps * bytes *
                        (s->key_tile * channels + (s->query_in_registers ? 0 : s->rows * queries)) /
                        rates->shared;
    /* keys and values come once a block */
    const double copied = (double)blocks * bytes * s->key_tile *
                          (queries + (p->attn->v_in_k ? 0 : p->e)) / far_rate(p, s);
    /* alone, a block waits for keys and then for values, or with two stages for its own warps; so does whoever copies through
     * registers */
    const bool ahead = warps_copy_ahead(p);
    const double waits = rates->latency * (ahead && blocks > 1      ? 1. / 7
                                           : ahead && s->stages > 1 ? 3. / 7
                                                                    : 1);
    /* copies that no register sees are begun twice a tile: 80 cycles of four warps, by the emulator's counts; each warp begins its share */
    const double begun = s->direct ? (double)rates->barrier * rates->schedulers / s->executors : 0;
    const double all =
        .73 * matrix + .68 * read + .2 * copied + .84 * pairs / rates->exp + waits + begun;
    /* what the border of a mask cuts a tile through for, of 8192 keys */
    const double border = (s->rows * s->executors + s->key_tile) / 8192.0;
    /* Fewer warps hide less. Beside 32 rows or many registers, queries in registers or a second stage cost a sixth. */
    const bool tight = s->rows > atom->m || needs.registers > tile_share(p->caps, TIGHT_SHARE);
    return (all / pairs + operand_cycles(p, s)) * (1 + border) * warps_enough(p, warps) *
           (tight && (s->query_in_registers || s->stages > 1) ? 1.17 : 1) *
           (p->caps->lone_rows && s->rows > atom->m ? SPILLED : 1);
}

/* As long as registers allow, where it matters: to copies that go from memory to memory. Units that round read values element by
 * element, for which a base and constants of an odd pitch do. */
static int32_t span_of(const AuProblem *p, const AuTileAtom *atom, const AuShape *s)
{
    const Needs needs = registers_of(p, atom, s);
    if (s->direct) return LONG_SPAN; /* rows without a gap */
    if (!warps_copy_ahead(p) || atom->rounds) return 0;
    const int32_t room = tile_share(p->caps, LONG_SHARE);
    return needs.registers + needs.weights > room ? SHORT_SPAN : LONG_SPAN;
}

/* Gradients of inputs are sums over pairs, whose rows' terms cancel but for the error of the stored results (dS = P (dP - do o)). The largest
 * weight of a row is 1, which is not rounded, where the reference is the maximum; where it lies behind, each weight is. Measured: the
 * gradient of a table of relative_bias, f16, gfx1100, .35 of what the rule of numerics allows and 1.96. */
static bool sums_gradients(const AuProblem *p)
{
    for (uint32_t n = 3; p->grads && n < p->attn->tensor_count; n++)
        if (p->attn->tensors[n].grad) return true;
    return false;
}

static void let_maxima_lag(const AuProblem *p, AuShape *s)
{
    enum { LAG = 8 }; /* as in group_shape.c */
    if (!warps_passes(p) || !p->caps->lags) return;
    s->grown = p->hooks->has_scale;
    s->lag = p->hooks->free_reference && !sums_gradients(p) ? LAG : 0;
}

/* A loop for each segment of tiles? Products whose operands lanes load are there twice in each, the way in which elements are tested by hundreds of loads: one
 * loop with a branch around the mask is a third of that code. */
static bool splits(const AuProblem *p, bool far)
{
    return !far || !(p->caps->loads & TILE_LOADS_OWN);
}

void warps_complete(const AuProblem *p, AuShape *s)
{
    s->swizzle_span = span_of(p, warps_atom(p), s);
    s->split_segments = splits(p, s->far);
}

void warps_forward_complete(const AuProblem *p, AuShape *s)
{
    warps_complete(p, s);
    if (!s->keys_apart) let_maxima_lag(p, s);
}

/* Blocks straight from tensors, of the fewest keys, are counted without what scaled sums take (registers_of): the last thing to do. */
static bool is_counted(const AuProblem *p, const AuShape *s)
{
    return !(p->caps->loads & TILE_LOADS_BLOCK) || !s->far || schedule_row_sharers(s) > 1 ||
           keys_of_warp(s) > warps_atom(p)->k;
}

/* Operands straight from tensors: the most rows and keys whose fragments registers hold, and the fewest warps with the same rows; warps share nothing, so that as many as the processor
 * has schedulers make a block, whose keys are near all of them. Matrices that a block holds: half as many rows as it has threads, and 64 keys, measured on
 * an H200 (docs/dev/blocks.md, 8). */
static bool far_shape(AuArena *arena, const AuProblem *p, AuShape *out)
{
    static const int32_t keys[] = {128, 64, 32, 16}, keys_of_block[] = {64, 128, 32, 16},
                         parts[] = {0, 2, 4};
    const AuTileAtom *atom = warps_atom(p);
    const int32_t most_rows = atom->of_block ? atom->lanes / 2 : 2 * atom->m;
    bool found = false;
    for (int32_t n = 0; n < 2 * 3 * 4; n++) {
        AuShape s = {.executors = p->caps->schedulers,
                     .rows = most_rows / (1 + n / 12),
                     .column_parts = parts[n / 4 % 3],
                     .key_tile = atom->of_block ? keys_of_block[n % 4] : keys[n % 4],
                     .stages = 1,
                     .query_in_registers = true,
                     .far = true,
                     .split_segments = splits(p, true)};
        if ((s.rows > atom->m && p->caps->lone_rows) || s.key_tile % s.executors ||
            schedule_warps_refusal(arena, p, &s))
            continue;
        let_maxima_lag(p, &s);
        if (!found || is_counted(p, &s)) *out = s;
        if (is_counted(p, &s)) return true;
        found = true;
    }
    return found;
}

/* Of few queries, which have few blocks: warps that share 16 rows and copy their keys themselves, two tiles ahead of each other.
 * Four hide what one waits for, and with 32 keys each has four sums in flight. Where a result is not joined channel by channel one
 * warp does everything. The first that fits; before all others where operands come straight from tensors. */
static bool few_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    static const int32_t warps[] = {4, 2, 1}, keys[] = {32, 16}, stages[] = {2, 1},
                         parts[] = {0, 2, 4};
    enum { SHAPES = 3 * 2 * 2 * 2, PARTS = 3 };
    const AuTileAtom *atom = warps_atom(p);
    bool found = false;
    for (uint32_t i = 0; i < (PARTS + 1) * SHAPES; i++) {
        const uint32_t n = i % SHAPES;
        if (found && i >= PARTS * SHAPES) return true;
        AuShape s = {.executors = warps[n / 8],
                     .rows = atom->m,
                     .stages = stages[n / 2 % 2],
                     .query_in_registers = n % 2 == 0,
                     .far = i < PARTS * SHAPES,
                     .split_segments = splits(p, i < PARTS * SHAPES)};
        if (s.far) s.column_parts = parts[i / SHAPES];
        if (s.executors % schedule_row_sharers(&s)) continue;
        s.key_tile = keys[n / 4 % 2] * s.executors / schedule_row_sharers(&s);
        s.keys_apart = s.executors > 1;
        s.swizzle_span = span_of(p, atom, &s);
        if (s.keys_apart && (!p->hooks->has_join || p->hooks->has_out_mod)) continue;
        *why = schedule_warps_refusal(arena, p, &s);
        if (*why) continue;
        if (s.far) let_maxima_lag(p, &s);
        if (!found || is_counted(p, &s)) *out = s;
        if (is_counted(p, &s)) return true;
        found = true;
    }
    return found;
}

/* The same shape where no tile passes through registers, for queries that these hold; where tiles pass, too, copies that no register sees were
 * counted worse, and so were swizzled queries that each product reads, tiles of 48 and 96 keys and blocks of fewer warps than a
 * processor has schedulers, which begin more copies each; where rows are no power of two LLVM waits for the values' copies before it reads
 * keys (docs/dev/performance-notes.md). */
static const char *refusal_of_direct(AuArena *arena, const AuProblem *p, AuShape *s,
                                     const char *refused)
{
    AuShape direct = *s;
    direct.direct = s->query_in_registers && s->executors >= p->caps->schedulers &&
                    is_power_of_two(s->key_tile) && is_power_of_two(p->d) && is_power_of_two(p->e);
    direct.swizzle_span = span_of(p, warps_atom(p), &direct);
    if (!direct.direct || schedule_warps_refusal(arena, p, &direct)) return refused;
    *s = direct;
    return NULL;
}

/* Where tiles pass through registers and rows are no multiples of 32 numbers, LLVM spills around tiles that are no power of two: 48 keys of 80
 * channels took 387 registers by MFMA of 16 columns, 64 take 287; 96 spilled 266 by WMMA of gfx1200. Where lanes exchange weights such tiles were
 * counted worse: width 64, 96 keys, 1638 cycles of 32 x 32 pairs on gfx1100, 128 1563. */
static bool is_ragged(const AuProblem *p, const AuShape *s)
{
    const bool rows = p->d % 32 || p->e % 32, exchanges = warps_exchanges(p) && !s->via_shared;
    return (rows || exchanges) && !warps_copy_ahead(p) && !is_power_of_two(s->key_tile);
}

bool schedule_warps_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    static const int32_t warps[] = {4, 8, 2}, rows[] = {32, 16, 8},
                         keys[] = {128, 96, 64, 48, 32, 16};
    const AuTileAtom *atom = warps_atom(p);
    double best = 0;
    *why = warps_refusal_of_problem(arena, p);
    if (*why) return false;
    if (p->queries && p->queries != AU_PAGED_QUERIES) return few_shape(arena, p, out, why);
    if (far_shape(arena, p, out)) return true;
    const uint32_t ways = warps_exchanges(p) ? 2 : 1; /* of weights to the next product */
    for (uint32_t i = 0; i < 3 * 3 * 6 * 2 * 2 * ways; i++) {
        const uint32_t n = i / ways;
        AuShape s = {.executors = warps[n / 72],
                     .rows = rows[n / 24 % 3],
                     .key_tile = keys[n / 4 % 6],
                     .stages = 1 + (int32_t)(n / 2 % 2),
                     .query_in_registers = n % 2,
                     .exchanges = ways > 1,
                     .via_shared = i % ways,
                     .split_segments = true};
        s.swizzle_span = span_of(p, atom, &s);
        if (!divides(p, atom, &s)) continue; /* says nothing of the attention */
        const char *refused = is_ragged(p, &s) ? "a tile of keys that is no power of two"
                                               : schedule_warps_refusal(arena, p, &s);
        if (refused && warps_copy_direct(p)) refused = refusal_of_direct(arena, p, &s, refused);
        if (refused) {
            if (!best) *why = refused;
            continue;
        }
        const double now = cycles_of_pair(p, atom, &s);
        if (!best || now < best) best = now, *out = s, *why = NULL;
    }
    let_maxima_lag(p, out);
    out->forecast = best;
    return best > 0;
}

int32_t schedule_warps_limit(AuArena *arena, const AuProblem *p, int32_t usual)
{
    AuShape few;
    const char *why;
    AuProblem one = *p;
    one.queries = AU_FEW_QUERIES;
    const AuTileAtom *atom = warps_atom(p); /* warps join what lanes hold */
    if (p->queries != AU_FEW_QUERIES || (atom && atom->by_place) ||
        !schedule_warps_shape(arena, &one, &few, &why))
        return 0;
    const int32_t most_rows = 2 * few.rows;
    return usual < 2 * most_rows ? 0 : most_rows;
}
