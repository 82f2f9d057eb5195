/* units.c - the tables of executors and of what multiplies. The first row that takes a role or an atom is the one. */
#include "internal.h"

/* ---- executors */

static bool is_thread(const AuTileModule *module, const AuTileRole *role)
{
    (void)module;
    return role->on == TILE_ON_THREAD;
}

static bool is_any(const AuTileModule *module, const AuTileRole *role)
{
    (void)module, (void)role;
    return true;
}

static bool is_group(const AuTileModule *module, const AuTileRole *role)
{
    (void)module;
    return role->on == TILE_ON_WARPGROUP;
}

static void no_copy(AuLower *l, const AuTileStmt *s)
{
    (void)s;
    lower_refuse(l, "a copy by the lanes of a group of warps");
}

/* Of warps: registers have constant numbers. */
#define BY_REGISTERS                                                                               \
    .written_out = true, .fuses = true, .vector_access = true, .looks_ahead = true,                \
    .load = lower_fragment_load, .store = lower_fragment_store

static const AuUnit units[] = {
    /* A core: lanes are the elements of its vectors. */
    {.name = "vectors",
     .takes = is_thread,
     .vectors = true,
     .load = lower_each_load,
     .store = lower_each_store,
     .copy = lower_each_copy},
    /* Several warps that multiply together, by a unit that goes on beside them. */
    {.name = "groups", .takes = is_group, BY_REGISTERS, .copy = no_copy},
    /* A warp or wave whose lanes share rows, as matrix units want them. */
    {.name = "shared rows", .takes = tile_shares_rows, BY_REGISTERS, .copy = lower_transfer},
    /* Lanes with rows of their own, which need little of each other. */
    {.name = "lanes",
     .takes = is_any,
     .meets_alone = true,
     .load = lower_each_load,
     .store = lower_each_store,
     .copy = lower_each_copy},
};

const AuUnit *lower_unit(const AuTileModule *module, const AuTileRole *role)
{
    const AuUnit *u = units;
    while (!u->takes(module, role)) u++;
    return u;
}

void lower_load(AuLower *l, const AuTileStmt *s) { l->r.unit->load(l, s); }

void lower_move(AuLower *l, const AuTileStmt *s)
{
    if (lower_is_bulk(s)) {
        lower_bulk(l, s);
    } else if (s->move.op == TILE_COPY) {
        l->r.unit->copy(l, s);
        if (s->move.is_async && s->move.dest->memory->pipe)
            lower_held(l, s->move.dest->var)->by_lanes = true;
    } else if (s->move.is_async) {
        lower_refuse(l, "an asynchronous %s", tile_move_names[s->move.op]);
    } else {
        const uint32_t known_before = lower_reductions(l, s->move.source);
        l->r.unit->store(l, s);
        l->r.known_count = known_before;
    }
}

/* ---- products */

static bool is_of_group(const AuTileAtom *atom) { return atom->is_async; }

static bool is_of_core(const AuTileAtom *atom) { return atom->k > 2; }

void lower_product(AuLower *l, const AuTileStmt *s)
{
    static const struct {
        bool (*takes)(const AuTileAtom *atom);
        void (*lower)(AuLower *l, const AuTileStmt *s);
    } products[] = {
        {tile_is_of_warp, lower_matrix_product}, /* mma.sync, MFMA, WMMA, simdgroup, DPAS */
        {is_of_group, lower_group_product},      /* wgmma, tcgen05 */
        {is_of_core, lower_core_product},        /* AMX */
        {NULL, lower_block_product},             /* multiply-adds, pairs of them */
    };
    uint32_t n = 0;
    while (products[n].takes && !products[n].takes(s->product.atom)) n++;
    products[n].lower(l, s);
}
