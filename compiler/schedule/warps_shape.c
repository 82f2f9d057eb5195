/* warps_shape.c - block shapes of the schedule `warps`: what fits a problem, what is best by rule, what was measured better.
 *
 * Registers of a lane: scores and further products rows * keys / 32 each, output rows * e / 32, queries rows * d / 32, of 16 bits
 * half as many, if they stay there; what else the kernel needs (operands of products, row statistics, addresses, hooks) has the rest of 255.
 * Shared memory: queries (or the output, if it is wider), and for each stage keys and values. */
#include "warps.h"

enum {
    REGISTER = 4,         /* its bytes */
    TILE_REGISTERS = 192, /* that fragments may take of a lane's 255 */
    WITH_WEIGHTS =
        264, /* that they may take with weights: of 16 bits as much as scores, of 32 half as much more */
    LANE_REGISTERS = 255,
    SM_REGISTERS =
        65536, /* CUDA programming guide: registers of a multiprocessor, sm_70 and later */
    BLOCK_RESERVE =
        1024, /* shared memory that the system takes of each block; also what a block cannot have of the whole */
    MOST_WARPS = 8, /* resident ones from which on more change nothing: two a scheduler */
};

/* What a shape takes. */
typedef struct Needs {
    int32_t registers, weights, shared; /* registers of a lane: all fragments, and beside scores the
                                           weights; bytes */
} Needs;

static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }
static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

static Needs needs_of(const AuProblem *p, const AuTileAtom *atom, const AuShape *s)
{
    const int32_t d = warps_padded(atom, p->d), block = s->rows * s->executors;
    int32_t queries = d, query = warps_row_bytes(p, most(d, p->e));
    int32_t key = warps_row_bytes(p, d) + (p->attn->v_in_k ? 0 : warps_row_bytes(p, p->e));
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) {
        const int32_t width = warps_padded(atom, lanes_dot_width(p, n));
        queries += width;
        query += warps_row_bytes(p, width), key += warps_row_bytes(p, width);
    }
    const int32_t scores = 1 + (int32_t)p->hooks->dot_count;
    const int32_t bytes = tile_elem(p->operand)->bytes, pairs = s->rows * scores * s->key_tile;
    queries = queries * bytes / REGISTER;
    if (warps_by_memory(p)) query += warps_row_bytes(p, s->key_tile);
    return (Needs){
        .registers = s->rows *
                     (scores * s->key_tile + p->e + (s->query_in_registers ? queries : 0)) /
                     p->caps->lanes,
        .weights = pairs * (2 + bytes) / REGISTER / p->caps->lanes,
        .shared = WARPS_ALIGNMENT + block * query + s->stages * s->key_tile * key,
    };
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
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) {
        if (lanes_dot_width(p, n) % 8)
            return au_format(arena, "a further product of width %d, no multiple of 8",
                             lanes_dot_width(p, n));
        for (int side = 0; side < 2; side++)
            if (p->attn->tensors[lanes_dot_tensor(p, n, side)].dtype != AU_DT_OPERAND)
                return "a further product of tensors that have another type than q and k";
    }
    return NULL;
}

const char *schedule_warps_refusal(AuArena *arena, const AuProblem *p, const AuShape *s)
{
    const AuTileAtom *atom = warps_atom(p);
    const char *why = warps_refusal_of_problem(arena, p);
    if (why) return why;
    const Needs needs = needs_of(p, atom, s);
    if (s->query_in_registers && (warps_by_memory(p) || atom->rounds))
        return "queries of which lanes hold copies, or that they round, stay in shared memory";
    if (s->rows % atom->m || s->key_tile % most(atom->k, atom->n) || s->key_tile % s->executors)
        return au_format(arena, "%d rows or %d keys for %d warps do not divide into %s", s->rows,
                         s->key_tile, s->executors, atom->name);
    if (needs.shared > p->caps->shared_bytes)
        return au_format(arena, "%d bytes of shared memory of %d", needs.shared,
                         p->caps->shared_bytes);
    if (needs.registers > TILE_REGISTERS)
        return au_format(arena, "fragments take %d registers of a lane, %d are for them",
                         needs.registers, TILE_REGISTERS);
    if (needs.registers + needs.weights > WITH_WEIGHTS)
        return au_format(arena, "fragments take %d registers of a lane, and weights %d",
                         needs.registers, needs.weights);
    if (s->stages > 1 && !(p->caps->is_async & TILE_ASYNC_COPY))
        return au_format(arena, "%s has no asynchronous copies for stages", p->caps->name);
    return NULL;
}

/* ---- by rule */

int32_t warps_resident(const AuProblem *p, int32_t shared, int32_t warps)
{
    const int32_t by_memory = (p->caps->shared_bytes + BLOCK_RESERVE) / (shared + BLOCK_RESERVE);
    return least(by_memory, SM_REGISTERS / (LANE_REGISTERS * p->caps->lanes) / warps);
}

/* More is better: warps that hide each other's waiting; rows of a warp, which share what comes from
 * shared memory; keys, up to a point; blocks, which wait for no barrier of each other; where there is
 * but one, a stage that copies ahead (two cost ptxas registers that it has not); the rest of the
 * keys; queries that need not be fetched again. */
static int64_t worth(const AuProblem *p, const AuTileAtom *atom, const AuShape *s)
{
    const Needs needs = needs_of(p, atom, s);
    const int32_t blocks = warps_resident(p, needs.shared, s->executors);
    const int32_t ranks[] = {least(blocks * s->executors, MOST_WARPS),
                             s->rows,
                             least(s->key_tile, 64),
                             least(blocks, 2),
                             blocks > 1 ? 2 : s->stages,
                             s->key_tile,
                             s->query_in_registers};
    int64_t value = 0;
    for (size_t n = 0; n < sizeof ranks / sizeof *ranks; n++) value = value * 256 + ranks[n];
    return value;
}

bool schedule_warps_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    static const int32_t warps[] = {4, 8, 2}, rows[] = {32, 16}, keys[] = {128, 96, 64, 48, 32, 16};
    const AuTileAtom *atom = warps_atom(p);
    int64_t best = -1;
    *why = warps_refusal_of_problem(arena, p);
    if (*why) return false;
    for (uint32_t n = 0; n < 3 * 2 * 6 * 2 * 2; n++) {
        const AuShape s = {.executors = warps[n / 48],
                           .rows = rows[n / 24 % 2],
                           .key_tile = keys[n / 4 % 6],
                           .stages = 1 + (int32_t)(n / 2 % 2),
                           .query_in_registers = n % 2,
                           .split_segments = true};
        const char *refused = schedule_warps_refusal(arena, p, &s);
        if (refused) {
            if (best < 0) *why = refused;
            continue;
        }
        const int64_t value = worth(p, atom, &s);
        if (value > best) best = value, *out = s, *why = NULL;
    }
    return best >= 0;
}
