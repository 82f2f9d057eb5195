/* memory.c - loads, stores and atomic operations with their masks; barriers.
 * Addresses in global memory are numbers, the base of an argument and an index in bytes. A mask is a branch where an access
 * outside could fault, and a choice for what a lane has to itself at a constant place. */
#include "emit.h"

enum { ALIGNED = 2 }; /* Memory Operands */

/* A load or store: where, and of how much. */
typedef struct Access {
    const AuInstr *in;
    const AuMemory *memory;
    SpvPlace *place;
    AuVal index;
    AuVal mask; /* none: always */
    uint32_t width;
} Access;

static Access access_of(SpvEmit *e, const AuInstr *in, uint32_t width, uint32_t mask)
{
    Access a = {.in = in, .memory = &e->k->mems[in->mem.i], .place = &e->mems[in->mem.i]};
    a.index = kernel_operand(e->k, in, 0);
    a.width = width;
    if (in->count > mask) {
        const AuVal v = kernel_operand(e->k, in, mask);
        const AuInstr *how = kernel_at(e->k, v);
        if (how->op != AU_K_CONST || !(how->imm & 1)) a.mask = v;
    }
    return a;
}

/* ---- addresses */

/* Index plus [ahead], of 32 bits. */
static SpvId array_index(SpvEmit *e, const Access *a, uint32_t ahead)
{
    SpvModule *m = e->m;
    const AuInstr *index = kernel_at(e->k, a->index);
    const SpvId type = spirv_scalar(m, AU_I32);
    const bool fixed = index->op == AU_K_CONST;
    SpvId at;
    if (fixed)
        at = spirv_u32(m, (uint32_t)index->imm + ahead);
    else {
        at = spirv_value(e, a->index, 0);
        if (index->type.scalar == AU_I64) at = spirv_make1(m, SPV_UConvert, type, at);
        if (ahead) at = spirv_make2(m, SPV_IAdd, type, at, spirv_u32(m, ahead));
    }
    if (a->place->first)
        at = spirv_make2(m, SPV_IAdd, type, spirv_seen(e, a->place->first, type), at);
    return at;
}

static SpvId array_element(SpvEmit *e, const Access *a, uint32_t ahead)
{
    const SpvId at = array_index(e, a, ahead);
    if (a->place->in_struct)
        return spirv_make(e->m, SPV_AccessChain, a->place->pointer,
                          SPV_WORDS(a->place->base, spirv_u32(e->m, 0), at));
    return spirv_make2(e->m, SPV_AccessChain, a->place->pointer, a->place->base, at);
}

/* [ahead] elements behind an address or a pointer. */
static SpvId far_behind(SpvEmit *e, const Access *a, SpvId address, uint64_t ahead)
{
    SpvModule *m = e->m;
    if (!ahead) return address;
    if (e->flavour->has_pointers)
        return spirv_make2(m, SPV_InBoundsPtrAccessChain, a->place->pointer, address,
                           spirv_u64(m, ahead));
    return spirv_make2(m, SPV_IAdd, spirv_scalar(m, AU_I64), address,
                       spirv_u64(m, ahead * kernel_scalar_bytes(a->memory->scalar)));
}

/* Of the element at the index: an address, or a pointer. */
static SpvId far_address(SpvEmit *e, const Access *a)
{
    SpvModule *m = e->m;
    const SpvId type = spirv_scalar(m, AU_I64), base = spirv_seen(e, a->place->base, type);
    const uint32_t bytes = kernel_scalar_bytes(a->memory->scalar);
    const AuInstr *index = kernel_at(e->k, a->index);
    if (index->op == AU_K_CONST) return far_behind(e, a, base, (uint64_t)index->imm);
    SpvId at = spirv_value(e, a->index, 0);
    if (index->type.scalar == AU_I32) at = spirv_make1(m, SPV_SConvert, type, at);
    if (e->flavour->has_pointers)
        return spirv_make2(m, SPV_InBoundsPtrAccessChain, a->place->pointer, base, at);
    if (bytes > 1) at = spirv_make2(m, SPV_IMul, type, at, spirv_u64(m, bytes));
    return spirv_make2(m, SPV_IAdd, type, base, at);
}

SpvId spirv_far_address(SpvEmit *e, AuMem mem, AuVal index, uint64_t ahead)
{
    const Access a = {.memory = &e->k->mems[mem.i], .place = &e->mems[mem.i], .index = index};
    return far_behind(e, &a, far_address(e, &a), ahead);
}

/* A pointer to [count] elements from the address on. */
static SpvId far_pointer(SpvEmit *e, const Access *a, SpvId address, uint32_t from, SpvId type)
{
    SpvModule *m = e->m;
    const SpvId to = spirv_pointer(m, e->flavour->far, type);
    address = far_behind(e, a, address, from);
    if (!e->flavour->has_pointers) return spirv_make1(m, SPV_ConvertUToPtr, to, address);
    return to == a->place->pointer ? address : spirv_make1(m, SPV_Bitcast, to, address);
}

static uint32_t far_kind(const SpvEmit *e, const Access *a)
{
    return a->memory->reads && a->memory->writes ? ALIGNED | e->flavour->seen : ALIGNED;
}

/* So many bytes, of that many neighbours at once. */
static uint32_t far_alignment(const SpvEmit *e, const Access *a, uint32_t count)
{
    const uint32_t known = spirv_alignment(e, a->in->mem, a->index),
                   all = count * kernel_scalar_bytes(a->memory->scalar);
    return known < all ? known : all;
}

/* ---- values in memory */

/* Between an element as it lies there and as lanes compute with it. */
static SpvId fetched(SpvEmit *e, const Access *a, SpvId v)
{
    SpvModule *m = e->m;
    const AuScalar scalar = a->memory->scalar;
    if (a->memory->space == AU_LANE || a->place->unit) return v;
    if (a->place->atomic) return spirv_make1(m, SPV_Bitcast, spirv_scalar(m, scalar), v);
    if (kernel_scalar_bytes(scalar) >= 4) return v;
    v = spirv_make1(m, SPV_UConvert, spirv_scalar(m, AU_I32), v);
    return scalar == AU_I1 ? spirv_convert(m, AU_I32, AU_I1, v) : v;
}

static SpvId storable(SpvEmit *e, const Access *a, SpvId v)
{
    SpvModule *m = e->m;
    const AuScalar scalar = a->memory->scalar;
    if (a->memory->space == AU_LANE || a->place->unit) return v;
    if (a->place->atomic) return spirv_make1(m, SPV_Bitcast, a->place->element, v);
    if (kernel_scalar_bytes(scalar) >= 4) return v;
    if (scalar == AU_I1) v = spirv_convert(m, AU_I1, AU_I32, v);
    return spirv_make1(m, SPV_UConvert, a->place->element, v);
}

static uint32_t together(uint32_t width) { return width < 4 ? width : 4; }

/* Elements of a vector are taken out and put in, which narrow ones in memory alone would not allow. */
static SpvId vector_of(SpvEmit *e, const Access *a, uint32_t width)
{
    if (width == 1) return a->place->element;
    spirv_narrow(e->m, a->memory->scalar, SPV_CAP_Int16, SPV_CAP_Int8);
    return spirv_type(e->m, SPV_TypeVector, SPV_WORDS(a->place->element, width));
}

uint32_t spirv_element(SpvEmit *e, AuMem mem, AuVal index, SpvId *at, uint32_t operands[2])
{
    const Access a = {
        .memory = &e->k->mems[mem.i], .place = &e->mems[mem.i], .index = index, .width = 1};
    if (a.memory->space != AU_GLOBAL) {
        *at = array_element(e, &a, 0);
        operands[0] = e->flavour->seen;
        return 1;
    }
    *at = far_pointer(e, &a, far_address(e, &a), 0, a.place->element);
    operands[0] = far_kind(e, &a);
    operands[1] = kernel_scalar_bytes(a.memory->scalar);
    return 2;
}

/* ---- branches */

SpvId spirv_open_mask(SpvEmit *e, SpvId mask, SpvId *before)
{
    SpvModule *m = e->m;
    const SpvId inside = spirv_id(m), end = spirv_id(m);
    *before = m->f->label;
    spirv_do(m, SPV_SelectionMerge, SPV_WORDS(end, 0));
    spirv_do(m, SPV_BranchConditional, SPV_WORDS(mask, inside, end));
    spirv_label(m, inside);
    return end;
}

void spirv_close_mask(SpvEmit *e, SpvId end)
{
    spirv_branch(e->m, end);
    spirv_label(e->m, end);
}

/* ---- loads */

static bool is_seen(const SpvEmit *e, const Access *a)
{
    return a->memory->space != AU_LANE && e->flavour->seen;
}

static SpvId split_element(SpvEmit *e, const Access *a, uint32_t n)
{
    const uint64_t at = (uint64_t)kernel_at(e->k, a->index)->imm + n;
    SpvId *element = &a->place->elements[at];
    if (!*element) {
        *element = spirv_variable(e->m, a->place->element);
        spirv_name(e->m, *element, au_format(e->m->arena, "%s_%u", a->memory->name, (unsigned)at));
    }
    return *element;
}

static void load_all(SpvEmit *e, const Access *a, SpvId *values)
{
    SpvModule *m = e->m;
    if (a->memory->space == AU_GLOBAL) {
        const SpvId address = far_address(e, a);
        const uint32_t count = together(a->width);
        const SpvId type = vector_of(e, a, count);
        for (uint32_t n = 0; n < a->width; n += count) {
            const SpvId at = far_pointer(e, a, address, n, type);
            const SpvId v = spirv_make(m, SPV_Load, type,
                                       SPV_WORDS(at, far_kind(e, a), far_alignment(e, a, count)));
            for (uint32_t i = 0; i < count; i++)
                values[n + i] = count == 1 ? v
                                           : spirv_make(m, SPV_CompositeExtract, a->place->element,
                                                        SPV_WORDS(v, i));
        }
    } else if (a->place->unit)
        for (uint32_t n = 0; n < a->width; n++)
            values[n] = spirv_unit_get(e, a->in->mem, array_index(e, a, n));
    else
        for (uint32_t n = 0; n < a->width; n++) {
            const SpvId at = a->place->split ? split_element(e, a, n) : array_element(e, a, n);
            const uint32_t words[] = {at, e->flavour->seen};
            const size_t count = is_seen(e, a) ? 2 : 1;
            values[n] = spirv_make(m, SPV_Load, a->place->element, words, count);
        }
    for (uint32_t n = 0; n < a->width; n++) values[n] = fetched(e, a, values[n]);
}

void spirv_load(SpvEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    if (spirv_wide_load(e, v) || spirv_load_half(e, v)) return;
    const Access a = access_of(e, in, in->type.width, 1);
    const AuScalar scalar = (AuScalar)in->type.scalar;
    const SpvId type = spirv_scalar(e->m, scalar);
    SpvId values[16], other[16], before = 0, end = 0, mask = 0;
    for (uint32_t n = 0; a.mask.i && n < a.width; n++)
        other[n] = in->count > 2 ? spirv_operand(e, in, 2, n) : spirv_bits(e->m, scalar, 0);
    if (a.mask.i) mask = spirv_value(e, a.mask, 0);
    if (a.mask.i && !a.place->split) end = spirv_open_mask(e, mask, &before);
    load_all(e, &a, values);
    const SpvId inside = e->m->f->label;
    if (end) spirv_close_mask(e, end);
    for (uint32_t n = 0; n < a.width; n++) {
        SpvId id = values[n];
        if (end)
            id = spirv_make(e->m, SPV_Phi, type, SPV_WORDS(id, inside, other[n], before));
        else if (mask)
            id = spirv_choose(e->m, type, mask, id, other[n]);
        spirv_set(e, v, n, id);
    }
}

/* ---- stores */

static void store_far(SpvEmit *e, const Access *a, const SpvId *values)
{
    SpvModule *m = e->m;
    const SpvId address = far_address(e, a);
    const uint32_t count = together(a->width);
    const SpvId type = vector_of(e, a, count);
    for (uint32_t n = 0; n < a->width; n += count) {
        const SpvId at = far_pointer(e, a, address, n, type);
        const SpvId v =
            count == 1 ? values[n] : spirv_make(m, SPV_CompositeConstruct, type, values + n, count);
        spirv_do(m, SPV_Store, SPV_WORDS(at, v, far_kind(e, a), far_alignment(e, a, count)));
    }
}

void spirv_store(SpvEmit *e, const AuInstr *in)
{
    SpvModule *m = e->m;
    const AuVal value = kernel_operand(e->k, in, 1);
    if (spirv_wide_store(e, in) || spirv_store_half(e, in)) return;
    const Access a = access_of(e, in, kernel_at(e->k, value)->type.width, 2);
    SpvId values[16], before, end = 0;
    for (uint32_t n = 0; n < a.width; n++) values[n] = spirv_value(e, value, n);
    const SpvId mask = a.mask.i ? spirv_value(e, a.mask, 0) : 0;
    if (mask && !a.place->split) end = spirv_open_mask(e, mask, &before);
    for (uint32_t n = 0; n < a.width; n++) values[n] = storable(e, &a, values[n]);
    if (a.memory->space == AU_GLOBAL)
        store_far(e, &a, values);
    else if (a.place->unit)
        for (uint32_t n = 0; n < a.width; n++)
            spirv_unit_put(e, in->mem, array_index(e, &a, n), values[n]);
    else
        for (uint32_t n = 0; n < a.width; n++) {
            const SpvId at = a.place->split ? split_element(e, &a, n) : array_element(e, &a, n);
            if (mask && a.place->split) {
                const SpvId old = spirv_make(m, SPV_Load, a.place->element, &at, 1);
                values[n] = spirv_choose(m, a.place->element, mask, values[n], old);
            }
            const uint32_t words[] = {at, values[n], e->flavour->seen};
            spirv_do(m, SPV_Store, words, is_seen(e, &a) ? 3 : 2);
        }
    if (end) spirv_close_mask(e, end);
}

/* ---- atomics */

/* A pointer to the [n]th of 32 bits behind the index. */
static SpvId word_at(SpvEmit *e, const Access *a, SpvId address, uint32_t n)
{
    if (a->memory->space == AU_GLOBAL)
        return far_pointer(e, a, address, n, spirv_scalar(e->m, AU_I32));
    return array_element(e, a, n);
}

/* The first guess is zero: a plain look at what others add to would be a race. */
static void add_float(SpvEmit *e, SpvId at, SpvId value)
{
    SpvModule *m = e->m;
    const SpvId word = spirv_scalar(m, AU_I32), scope = spirv_u32(m, e->flavour->everywhere);
    const SpvId none = spirv_u32(m, 0), real = spirv_scalar(m, AU_F32);
    const SpvId before = m->f->label, again = spirv_id(m), turn = spirv_id(m), next = spirv_id(m),
                end = spirv_id(m), now = spirv_id(m), seen = spirv_id(m);
    spirv_branch(m, again);
    spirv_label(m, again);
    spirv_do(m, SPV_Phi, SPV_WORDS(word, now, none, before, seen, next));
    spirv_do(m, SPV_LoopMerge, SPV_WORDS(end, next, 0));
    spirv_branch(m, turn);
    spirv_label(m, turn);
    const SpvId sum = spirv_exactly(m, SPV_FAdd, spirv_make1(m, SPV_Bitcast, real, now), value);
    const SpvId bits = spirv_make1(m, SPV_Bitcast, word, sum);
    spirv_do(m, SPV_AtomicCompareExchange, SPV_WORDS(word, seen, at, scope, none, none, bits, now));
    const SpvId done = spirv_make2(m, SPV_IEqual, spirv_scalar(m, AU_I1), seen, now);
    spirv_do(m, SPV_BranchConditional, SPV_WORDS(done, end, next));
    spirv_label(m, next);
    spirv_branch(m, again);
    spirv_label(m, end);
}

/* Of tensors, where the device adds to them itself. */
static void add_float_there(SpvEmit *e, const Access *a, SpvId address, uint32_t n, SpvId value)
{
    SpvModule *m = e->m;
    const SpvId real = spirv_scalar(m, AU_F32), at = far_pointer(e, a, address, n, real);
    spirv_extension(m, "SPV_EXT_shader_atomic_float_add");
    spirv_capability(m, SPV_CAP_AtomicFloat32AddEXT);
    spirv_make(m, SPV_AtomicFAddEXT, real,
               SPV_WORDS(at, spirv_u32(m, e->flavour->everywhere), spirv_u32(m, 0), value));
}

static void atomic_add(SpvEmit *e, const AuInstr *in)
{
    SpvModule *m = e->m;
    const AuVal value = kernel_operand(e->k, in, 1);
    const AuKType type = kernel_at(e->k, value)->type;
    const Access a = access_of(e, in, type.width, 2);
    SpvId before, end = 0;
    SpvId values[16];
    for (uint32_t n = 0; n < type.width; n++) values[n] = spirv_value(e, value, n);
    if (a.mask.i) end = spirv_open_mask(e, spirv_value(e, a.mask, 0), &before);
    const SpvId address = a.memory->space == AU_GLOBAL ? far_address(e, &a) : 0;
    for (uint32_t n = 0; n < type.width; n++) {
        if (e->flavour->adds_floats && address && type.scalar == AU_F32) {
            add_float_there(e, &a, address, n, values[n]);
            continue;
        }
        const SpvId at = word_at(e, &a, address, n);
        const SpvId scope = spirv_u32(m, e->flavour->everywhere), none = spirv_u32(m, 0);
        if (type.scalar == AU_F32)
            add_float(e, at, values[n]);
        else
            spirv_make(m, SPV_AtomicIAdd, spirv_scalar(m, AU_I32),
                       SPV_WORDS(at, scope, none, values[n]));
    }
    if (end) spirv_close_mask(e, end);
}

/* All lanes are ordered around it: what any of them reads behind it must be what other blocks left. */
static void fence(SpvEmit *e)
{
    spirv_do(
        e->m, SPV_MemoryBarrier,
        SPV_WORDS(spirv_u32(e->m, e->flavour->everywhere), spirv_u32(e->m, e->flavour->order_far)));
}

static void atomic_inc(SpvEmit *e, AuVal v)
{
    SpvModule *m = e->m;
    const Access a = access_of(e, kernel_at(e->k, v), 1, 1);
    const SpvId type = spirv_scalar(m, AU_I32);
    SpvId before, end = 0;
    fence(e);
    if (a.mask.i) end = spirv_open_mask(e, spirv_value(e, a.mask, 0), &before);
    const SpvId address = a.memory->space == AU_GLOBAL ? far_address(e, &a) : 0;
    const SpvId at = word_at(e, &a, address, 0);
    SpvId count = spirv_make(m, SPV_AtomicIAdd, type,
                             SPV_WORDS(at, spirv_u32(m, e->flavour->everywhere),
                                       spirv_u32(m, e->flavour->order_far), spirv_u32(m, 1)));
    const SpvId inside = m->f->label;
    if (end) {
        spirv_close_mask(e, end);
        count = spirv_make(m, SPV_Phi, type, SPV_WORDS(count, inside, spirv_u32(m, 0), before));
    }
    fence(e);
    spirv_set(e, v, 0, count);
}

void spirv_atomic(SpvEmit *e, AuVal v)
{
    if (kernel_at(e->k, v)->op == AU_K_ATOMIC_INC)
        atomic_inc(e, v);
    else
        atomic_add(e, kernel_at(e->k, v));
}

/* ---- barriers */

/* Tensors are ordered where a lane may read what another wrote. */
static void meet(SpvEmit *e, uint32_t who)
{
    const SpvFlavour *f = e->flavour;
    const SpvId scope = spirv_u32(e->m, who);
    const uint32_t order = kernel_shares_tensors(e->k) ? f->order_all : f->order_block;
    spirv_do(e->m, SPV_ControlBarrier, SPV_WORDS(scope, scope, spirv_u32(e->m, order)));
}

void spirv_meet(SpvEmit *e) { meet(e, SPV_SCOPE_WORKGROUP); }

/* Executors have a barrier of their own where their lanes are a subgroup's; else they wait for the block. */
void spirv_barrier(SpvEmit *e, const AuInstr *in)
{
    const bool own = in->imm == 1 && e->subgroups && !e->of_block;
    if (in->imm == 1 && !own && e->k->warps > 1 && e->parted) {
        au_error(e->diags, AU_E0621, in->span,
                 "kernel %s has a barrier of one executor where executors may take different ways; "
                 "%s only has barriers of the whole block",
                 e->k->name, e->flavour->name);
        e->good = false;
    }
    meet(e, own ? SPV_SCOPE_SUBGROUP : SPV_SCOPE_WORKGROUP);
}
