/* lanes_mixed.c - forward by multiply-adds for batches of packed queries in which some sequences decode and others are chunks of prefills: the kernel for any
 * number (lanes_forward.c) and those for few queries (of processors lanes_decode.c, of warps lanes_packed.c), each for the sequences that are its own, as
 * warps_mixed.c has them.
 *
 * Kernels: `work`, `k_rows`, `v_rows` (rows that the script changes), of warps `many` and `members` (lists), `forward`, of cores `short`, `prefix` (keys that sequences share),
 * `keys`, `few` (joins), `rest`. */
#include "key_layout.h"

/* The kernels for few queries. */
typedef struct OfFew {
    bool (*shape)(AuArena *arena, const AuProblem *p, AuShape *shape, const char **why);
    void (*begin)(Lanes *x);
    void (*lists)(Lanes *x); /* before the kernel for many; NULL: there are none */
    void (*kernels)(Lanes *x);
    int32_t written; /* of their loops (tile_written) */
} OfFew;

static void begin_on_core(Lanes *x)
{
    x->atom = NULL;
    x->values_in_rows = x->values_beside = false;
    lanes_decode_begin(x);
    lanes_decode_share_keys(x);
}

static const OfFew on_cores = {schedule_lanes_decode_shape, begin_on_core, NULL,
                               lanes_decode_kernels, 0},
                   on_warps = {schedule_lanes_packed_shape, lanes_packed_begin, lanes_packed_lists,
                               lanes_packed_kernels, LANES_PACKED_WRITTEN};

static const OfFew *of_few(const AuProblem *p)
{
    return p->caps->has_private ? &on_cores : &on_warps;
}

static Lanes lanes_of_few(const Lanes *many, const AuProblem *p, const AuShape *shape)
{
    Lanes few = *many;
    few.p = p;
    few.shape = shape;
    few.only = LANES_FEW;
    few.lists_many = few.longest_first = false;
    of_few(p)->begin(&few);
    return few;
}

/* Of processors without matrix units: chunks that would leave half of a block empty have smaller ones. Items are those of the others. */
enum { SHORT_BLOCK = 16 };
_Static_assert(LANES_SHORT_ROWS % SHORT_BLOCK == 0, "pieces of an item");

static bool has_short(const Lanes *many)
{
    return many->on_cpu && many->atom->k <= 2 && many->block > LANES_SHORT_ROWS &&
           many->block % SHORT_BLOCK == 0 && SHORT_BLOCK % many->p->caps->lanes == 0 &&
           many->shape->executors == 1;
}

static void short_kernel(const Lanes *many)
{
    Lanes x = *many;
    AuShape shape = *many->shape;
    shape.query_registers = SHORT_BLOCK / x.p->caps->lanes;
    x.shape = &shape;
    x.only = LANES_SHORT;
    x.item_rows[LANES_QUERIES] = many->block;
    x.rows = x.block = SHORT_BLOCK;
    lanes_forward_kernel(&x);
}

static void kernels(Lanes *given)
{
    Lanes many = *given;
    AuTileBuild *t = many.t;
    AuProblem *p = AU_NEW(given->arena, AuProblem);
    AuShape *shape = AU_NEW(given->arena, AuShape);
    const OfFew *of = of_few(given->p);
    const char *why;
    *p = schedule_problem_for(given->p, AU_DECODE_QUERIES);
    if (!of->shape(given->arena, p, shape, &why)) return;
    Lanes few = lanes_of_few(given, p, shape);
    many.only = LANES_MANY;
    if (many.lists_many) lanes_many_kernel(&many);
    tile_written(t, of->written);
    if (of->lists) of->lists(&few);
    tile_written(t, 0);
    many.leaves_short = has_short(&many);
    lanes_forward_kernel(&many);
    if (many.leaves_short) short_kernel(&many);
    tile_written(t, of->written);
    of->kernels(&few);
    tile_written(t, 0);
}

AuSchedule *schedule_lanes_mixed(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                 const AuShape *shape)
{
    AuProblem *many = AU_NEW(arena, AuProblem);
    *many = schedule_problem_for(p, AU_ANY_QUERIES);
    AuSchedule *out = schedule_new(arena, diags, p, "lanes_mixed", shape, NULL);
    Lanes x;
    if (!lanes_forward_begin(arena, diags, many, out, &x)) return NULL;
    if (x.on_cpu && !x.makes_elements)
        tile_layout(x.t, "a_row_along", "reg", tile_text(x.t, "lane:%d@1", p->caps->lanes));
    x.lists_many = !x.on_cpu; /* of whose grids a block that has nothing to do takes its turn */
    out->by_batch = !p->invariant;
    return lanes_forward_built(&x, diags, kernels);
}

/* ---- shapes */

static const AuTileAtom *atom_of_many(const AuProblem *p)
{
    return lanes_forward_atom(p, p->caps->has_private ? TILE_ON_THREAD : TILE_ON_WARP);
}

static const char *refusal(AuArena *arena, const AuProblem *p)
{
    AuShape few;
    const char *why;
    if (p->queries != AU_MIXED_QUERIES) return "queries of one kind";
    if (p->attn->queries.layout != AU_LAYOUT_PACKED) return "queries that are not packed";
    const AuTileAtom *atom = atom_of_many(p);
    if (p->hooks->has_v_mod && atom && atom->k > 2)
        return "changed values, which matrix units take as rows of their own";
    if (schedule_asks_data(p)) return "a mask that depends on data";
    const AuProblem one = schedule_problem_for(p, AU_DECODE_QUERIES);
    return of_few(p)->shape(arena, &one, &few, &why) ? NULL : why;
}

const char *schedule_lanes_mixed_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const AuProblem many = schedule_problem_for(p, AU_ANY_QUERIES);
    const char *why = refusal(arena, p);
    return why ? why : schedule_lanes_forward_fit(arena, &many, s);
}

/* Of processors blocks of 64 rows where 128 are usual: the chunks beside rows that decode may be short, and long ones take 3 % more (docs/dev/performance-notes.md).
 * Matrix units want all of 128. */
bool schedule_lanes_mixed_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    const AuTileAtom *atom = atom_of_many(p);
    const bool matrix = atom && atom->k > 2;
    const AuProblem many = schedule_problem_for(p, matrix ? AU_ANY_QUERIES : AU_SOME_QUERIES);
    *why = refusal(arena, p);
    return !*why && schedule_lanes_forward_shape(arena, &many, out, why);
}
