/* verify_async.c - barriers between executors that go different ways, and what goes on beside them. */
#include "verify.h"

/* A memory that one operation on barriers names holds barriers. */
void verify_find_objects(AuVerifier *v)
{
    v->objects = AU_NEW_ARRAY(v->diags->arena, bool, v->k->mem_count);
    for (uint32_t i = 1; i < v->k->instr_count; i++) {
        const AuInstr *in = &v->k->instrs[i];
        const bool object = in->op == AU_K_MBAR_INIT || in->op == AU_K_MBAR_ARRIVE ||
                            in->op == AU_K_MBAR_EXPECT || in->op == AU_K_MBAR_WAIT ||
                            in->op == AU_K_TENSOR_COMMIT;
        const bool reports = in->op == AU_K_TMA_LOAD || in->op == AU_K_BULK_LOAD;
        const uint32_t mem = object ? in->mem.i : reports ? in->also[1].i : 0;
        if (mem && mem < v->k->mem_count) v->objects[mem] = true;
    }
}

static void wants_uniform(AuVerifier *v, uint32_t i, uint32_t n, const char *what)
{
    if (v->lanes.kind[kernel_operand(v->k, &v->k->instrs[i], n).i] != AU_UNIFORM)
        verify_wrong(v, AU_E0806, i, "%s must be the same in all lanes", what);
}

static void check_named(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i], *id = kernel_at(v->k, kernel_operand(v->k, in, 0));
    const int64_t lanes = v->k->lanes;
    if (!verify_wants(v, i, 0, I32, 1, "a barrier, i32")) return;
    wants_uniform(v, i, 0, "the barrier");
    verify_range(v, i, lanes, lanes * v->k->warps);
    if (in->imm % lanes)
        verify_wrong(v, AU_E0808, i, "#%lld is no number of executors of %u lanes",
                     (long long)in->imm, v->k->lanes);
    if (id->op == AU_K_CONST && (id->imm < 1 || id->imm > 15))
        verify_wrong(v, AU_E0808, i, "there are barriers 1 to 15");
}

/* [from]: the first operand that may be left out. */
static void check_object(AuVerifier *v, uint32_t i, uint32_t from)
{
    const AuInstr *in = &v->k->instrs[i], *at = kernel_at(v->k, kernel_operand(v->k, in, 0));
    const AuMemory *m = &v->k->mems[in->mem.i];
    verify_wants(v, i, 0, INT, 1, "an index, i32 or i64");
    for (uint32_t n = 1; n < from; n++) verify_wants(v, i, n, I32, 1, "i32");
    if (in->count > from) verify_wants(v, i, from, I1, 1, "a mask, i1");
    if (m->space != AU_SHARED || m->scalar != AU_I64 || m->swizzle)
        verify_wrong(v, AU_E0807, i, "@%s must be shared memory of i64", m->name);
    else if (at->op == AU_K_CONST && (at->imm < 0 || at->imm >= (int64_t)m->count))
        verify_wrong(v, AU_E0808, i, "@%s has %u elements", m->name, m->count);
}

static void check_wait(AuVerifier *v, uint32_t i)
{
    check_object(v, i, 2);
    wants_uniform(v, i, 0, "the barrier");
    wants_uniform(v, i, 1, "the phase");
}

/* ---- copies */

/* Of a box or a row between a global and a shared memory. */
static bool check_ends(AuVerifier *v, uint32_t i, AuMem shared, AuMem global, bool load)
{
    const AuMemory *s = &v->k->mems[shared.i], *g = &v->k->mems[global.i];
    const uint32_t flags = kernel_op_info(v->k->instrs[i].op)->flags;
    const bool adds =
        !load && v->k->instrs[i].op != AU_K_TMA_STORE && v->k->instrs[i].op != AU_K_BULK_STORE;
    const uint32_t plain = flags & AU_KF_COORDS ? 128u : 16u,
                   line = s->swizzle ? 8 * s->swizzle : plain;
    if (s->space != AU_SHARED || g->space != AU_GLOBAL || s->scalar != g->scalar)
        verify_wrong(v, AU_E0807, i,
                     "copies go between global and shared memory of the same elements");
    else if (load ? !g->reads : !g->writes)
        verify_wrong(v, AU_E0807, i, "@%s is not declared as %s", g->name,
                     load ? "read" : "written");
    else if (adds && !((F32 | HALF) >> g->scalar & 1))
        verify_wrong(v, AU_E0807, i, "adds f32, f16 or bf16, not %s",
                     kernel_scalar_name(g->scalar));
    else if (s->swizzle && !(flags & AU_KF_COORDS))
        verify_wrong(v, AU_E0807, i, "@%s is swizzled, and bytes are copied as they lie", s->name);
    else if (s->align < line)
        verify_wrong(v, AU_E0807, i, "@%s is not aligned to %u bytes", s->name, line);
    else if (v->objects[shared.i])
        verify_wrong(v, AU_E0807, i, "@%s holds barriers, which nothing else may touch", s->name);
    else
        return true;
    return false;
}

static void check_object_at(AuVerifier *v, uint32_t i, AuMem mem, uint32_t n)
{
    const AuMemory *m = &v->k->mems[mem.i];
    verify_wants(v, i, n, INT, 1, "an index, i32 or i64");
    if (m->space != AU_SHARED || m->scalar != AU_I64 || m->swizzle)
        verify_wrong(v, AU_E0807, i, "@%s must be shared memory of i64", m->name);
}

static void check_box(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const bool load = in->op == AU_K_TMA_LOAD;
    const AuMem shared = load ? in->mem : in->also[0], global = load ? in->also[0] : in->mem;
    const uint32_t rank = in->count + 1u - kernel_op_info(in->op)->count, first = load ? 1 : 0;
    verify_range(v, i, 0, (int64_t)v->k->map_count - 1);
    if ((uint64_t)in->imm >= v->k->map_count || !check_ends(v, i, shared, global, load)) return;
    const AuMap *map = &v->k->maps[in->imm];
    if (map->mem.i != global.i || kernel_coordinates(map) != rank)
        verify_wrong(v, AU_E0807, i, "map %s is of @%s and has %u coordinates", map->name,
                     v->k->mems[map->mem.i].name, kernel_coordinates(map));
    else if (map->swizzle != v->k->mems[shared.i].swizzle)
        verify_wrong(v, AU_E0807, i, "map %s swizzles by %u, @%s by %u", map->name, map->swizzle,
                     v->k->mems[shared.i].name, v->k->mems[shared.i].swizzle);
    for (uint32_t d = 0; d < rank; d++) verify_wants(v, i, first + d, I32, 1, "a coordinate, i32");
    verify_wants(v, i, load ? 0 : rank, INT, 1, "an index, i32 or i64");
    if (load) check_object_at(v, i, in->also[1], 1 + rank);
    verify_wants(v, i, in->count - 1, I1, 1, "a mask, i1");
}

static void check_bulk(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const bool load = in->op == AU_K_BULK_LOAD;
    const uint32_t bytes = load ? 3 : 2;
    check_ends(v, i, load ? in->mem : in->also[0], load ? in->also[0] : in->mem, load);
    verify_wants(v, i, 0, INT, 1, "an index, i32 or i64");
    verify_wants(v, i, 1, INT, 1, "an index, i32 or i64");
    if (load) check_object_at(v, i, in->also[1], 2);
    verify_wants(v, i, bytes, I32, 1, "a number of bytes, i32");
    if (in->count > bytes + 1) verify_wants(v, i, bytes + 1, I1, 1, "a mask, i1");
}

void verify_map(AuVerifier *v, const AuMap *map)
{
    const AuMemory *m = map->mem.i && map->mem.i < v->k->mem_count ? &v->k->mems[map->mem.i] : NULL;
    const uint32_t bytes = m ? map->box[0] * kernel_scalar_bytes(m->scalar) : 0;
    const char *what = NULL;
    if (!m || m->space != AU_GLOBAL)
        what = "is of no tensor";
    else if (!map->rank || map->rank > AU_MAP_RANK)
        what = "has no dimensions";
    else if (map->swizzle ? bytes != map->swizzle : bytes % 16 != 0)
        what = "has rows that are not those of its swizzle, nor multiples of 16 bytes";
    for (uint32_t d = 0; d < map->rank && !what; d++)
        if (!map->box[d] || map->box[d] > 256) what = "has a box that is not 1 to 256 wide";
    if (map->cut && (map->cut >= map->rank || map->rank == AU_MAP_RANK))
        what = "is cut along a dimension that it has not, or has no place for one more";
    if (map->nan && m && !((F32 | HALF) >> m->scalar & 1)) what = "fills integers with NaN";
    if (!what) return;
    au_error(v->diags, AU_E0807, map->span, "map %s %s", map->name, what);
    v->good = false;
}

static void check_bulk_wait(AuVerifier *v, uint32_t i)
{
    const int64_t groups = v->k->instrs[i].imm & ~(int64_t)16;
    if (groups < 0 || groups > 7)
        verify_wrong(v, AU_E0808, i, "#%lld is none of 0 to 7, and 16 more",
                     (long long)v->k->instrs[i].imm);
}

static void check_group(AuVerifier *v, uint32_t i)
{
    if (!v->k->group)
        verify_wrong(v, AU_E0808, i, "is done by a group of executors, and the kernel has none");
    else if (v->differs_in_group)
        verify_wrong(v, AU_E0806, i,
                     "executors of the group do not all come here: what is around it differs "
                     "between them");
}

static void check_registers(AuVerifier *v, uint32_t i)
{
    verify_range(v, i, 24, 256);
    if (v->k->instrs[i].imm % 8)
        verify_wrong(v, AU_E0808, i, "#%lld is no multiple of 8", (long long)v->k->instrs[i].imm);
    if (v->begun) verify_wrong(v, AU_E0803, i, "must be the first of its region");
}

void verify_agent(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    if (kernel_op_info(in->op)->flags & AU_KF_GROUP) check_group(v, i);
    switch ((int)in->op) {
    case AU_K_SYNC:
    case AU_K_ARRIVE: check_named(v, i); return;
    case AU_K_MBAR_ARRIVE:
    case AU_K_TENSOR_COMMIT: check_object(v, i, 1); return;
    case AU_K_MBAR_INIT:
    case AU_K_MBAR_EXPECT: check_object(v, i, 2); return;
    case AU_K_MBAR_WAIT: check_wait(v, i); return;
    case AU_K_REGISTERS: check_registers(v, i); return;
    case AU_K_WGMMA: verify_wgmma(v, i); return;
    case AU_K_WGMMA_WAIT: verify_wgmma_wait(v, i); return;
    case AU_K_TENSOR_ALLOC:
    case AU_K_TENSOR_FREE:
    case AU_K_TENSOR_LOAD:
    case AU_K_TENSOR_STORE:
    case AU_K_TENSOR_WAIT:
    case AU_K_TENSOR_MUL: verify_tensor(v, i); return;
    case AU_K_TMA_LOAD:
    case AU_K_TMA_STORE:
    case AU_K_TMA_REDUCE_ADD: check_box(v, i); return;
    case AU_K_BULK_LOAD:
    case AU_K_BULK_STORE:
    case AU_K_BULK_REDUCE_ADD: check_bulk(v, i); return;
    case AU_K_BULK_WAIT: check_bulk_wait(v, i); return;
    }
}
