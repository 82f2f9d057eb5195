/* group_back_wide_shape.c - block shapes of the schedule `group_back_wide`: what fits a problem, and what is best by rule.
 *
 * The part of dQ that is made at once is what is chosen: it takes registers of the group of values, and shared memory on its way out. */
#include "group.h"
#include "lanes_back.h"
#include "shapes.h"

enum {
    LANES = 128, /* of a group */
    EXCHANGES = 2,
};

int32_t group_back_wide_part(const AuProblem *p, const AuShape *s) { return p->d / s->query_parts; }

static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* Of a lane, of 64 keys and 64 queries: the group of values has dV, weights as operand, scores and, of the tile before, a part of dQ; the group of
 * keys dK, scores and dP', and gradients of inputs one at a time. */
static int32_t fragment_registers(const AuProblem *p, const AuShape *s)
{
    enum { SUM = 2 };
    const int32_t rows = GROUP_ROWS, m = s->query_tile, inputs = (int32_t)p->grads->pairs.count,
                  pair = rows * m / LANES, part = s->with_dq ? group_back_wide_part(p, s) : 0;
    const int32_t values = rows * p->e / LANES + pair / 2 + pair + m * part / LANES,
                  keys = rows * p->d / LANES + (2 + group_back_values(p)) * pair + SUM * inputs;
    return most(values, keys) + group_back_distance_registers(p, m);
}

static int32_t shared_bytes(const AuProblem *p, const AuShape *s)
{
    const int32_t operands = group_back_operand_bytes(p, s, GROUP_ROWS);
    if (!s->with_dq) return operands;
    return operands +
           s->result_stages * (int32_t)sizeof(float) * s->query_tile * group_back_wide_part(p, s);
}

void group_back_wide_complete(const AuProblem *p, AuShape *s)
{
    s->executors = s->column_parts = GROUP_BACK_WIDE;
    s->query_tile = s->rows = GROUP_ROWS;
    group_set_registers(p, s);
    s->split_segments = true;
    s->swizzle_span = 0;
}

const char *schedule_group_back_wide_refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const int32_t unit = group_atom(p) ? group_atom(p)->k : 1;
    const char *why = group_back_refusal_of_problem(arena, p);
    if (!why) why = group_back_refusal_of_dq(arena, p, s);
    if (why) return why;
    if (s->query_parts < 1 || p->d % (unit * s->query_parts))
        return au_format(arena, "%d channels are not %d parts in steps of %d", p->d, s->query_parts,
                         unit);
    if (!s->with_dq && s->query_parts > 1) return "parts of dQ, which has a kernel of its own";
    if (s->exchange_stages < 1 || s->exchange_stages > EXCHANGES)
        return "more than two tiles of dS";
    if (s->result_stages < 1 || s->result_stages > EXCHANGES) return "more than two tiles of dQ";
    why = group_back_refusal_of_sections(arena, p, s);
    if (why) return why;
    why = group_refusal_of_registers(arena, p, s, fragment_registers(p, s));
    if (why) return why;
    return group_refusal_of_shared_memory(arena, p, shared_bytes(p, s));
}

const char *group_back_wide_candidate(AuArena *arena, const AuProblem *p, AuShape *s)
{
    if (s->query_parts > 0) group_back_give_registers(fragment_registers(p, s), s);
    group_back_wide_complete(p, s);
    return schedule_group_back_wide_refusal(arena, p, s);
}

/* ---- by rule */

/* As few parts, [most] at most, as leave a lane's registers room; if none do, as few as fit at all. false: none. */
static bool has_parts(AuArena *arena, const AuProblem *p, int32_t most, const AuShape *tiles,
                      AuShape *out, const char **why)
{
    enum { ROOMY = 176 };
    const int32_t unit = group_atom(p) ? group_atom(p)->k : 1;
    bool found = false, roomy = false;
    for (int32_t parts = 1; parts <= most && !roomy; parts++) {
        AuShape s = *tiles;
        if (p->d % (unit * parts)) continue;
        s.query_parts = parts;
        const int32_t registers = fragment_registers(p, &s);
        group_back_give_registers(registers, &s);
        group_back_wide_complete(p, &s);
        const char *refusal = schedule_group_back_wide_refusal(arena, p, &s);
        roomy = !refusal && registers <= ROOMY;
        if (refusal && !found) *why = refusal;
        if (refusal || (found && !roomy)) continue;
        found = true;
        *out = s;
    }
    return found;
}

/* Does the cache take sums of dQ more slowly than units multiply, so that they have to stay in it? A tile of 64 queries adds 256 d bytes in 4 (2 d + e) cycles
 * of the units (six products); an H100 takes 14 bytes a cycle and processor where its cache holds the sums, 5.5 where it does not. */
static bool adds_much(const AuProblem *p)
{
    enum { BYTES = 256, CYCLES = 4, MANY = 22 };
    return BYTES * p->d > MANY * CYCLES * (2 * p->d + p->e);
}

/* Measured (docs/dev/hopper.md): two stages, two tiles of dS' and of dQ, of which 4 parts are the most that were worth it; one of dQ where two do not fit. Narrow
 * heads were not measured. Above ADDED, and in one order, dQ has a kernel of its own. */
bool schedule_group_back_wide_shape(AuArena *arena, const AuProblem *p, AuShape *out,
                                    const char **why)
{
    enum { NARROW = 128, ADDED = 192, MOST_PARTS = 8, FEWER_PARTS = 4, STAGES = 2 };
    if (p->d <= NARROW && p->e <= NARROW) {
        if (!*why) *why = "widths to 128 that 'group_backward' does not take";
        return false;
    }
    if ((*why = group_back_slower(p))) return false;
    if (p->deterministic || p->d > ADDED) {
        const AuShape tiles = {.query_tile = GROUP_ROWS,
                               .stages = STAGES,
                               .exchange_stages = 1,
                               .result_stages = 1,
                               .result_boxes = true};
        if (has_parts(arena, p, 1, &tiles, out, why)) return true;
        if (p->deterministic) return false;
    }
    for (int32_t exchange = EXCHANGES; exchange > 0; exchange--)
        for (int32_t results = EXCHANGES; results > 0; results--) {
            const AuShape tiles = {.query_tile = GROUP_ROWS,
                                   .stages = STAGES,
                                   .exchange_stages = exchange,
                                   .result_stages = results,
                                   .result_boxes = true,
                                   .with_dq = true,
                                   .grid_sections = p->caps->cached && adds_much(p)};
            if (has_parts(arena, p, exchange > 1 ? FEWER_PARTS : MOST_PARTS, &tiles, out, why))
                return true;
        }
    return false;
}
