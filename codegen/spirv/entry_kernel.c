/* entry_kernel.c - the head of a kernel of flavour Kernel: arguments are parameters of the function, where an address is two: a pointer,
 * and a number of 64 bits, the offset of element 0 in elements (as OpenCL C of target `opencl` has them). Places in the grid are
 * built-in vectors of 64 bits. */
#include "emit.h"

#include <aule/artifact.h>

enum { ALIGNED = 2 /* Memory Operands */, VECTOR_BYTES = 32 };

static SpvId parameter(SpvEmit *e, SpvId type, const char *name)
{
    const SpvId id = spirv_id(e->m);
    e->parameters[e->parameter_count++] = (SpvParameter){type, id};
    spirv_name(e->m, id, name);
    return id;
}

static SpvId tensor(SpvEmit *e, const AuArg *arg, bool used)
{
    SpvModule *m = e->m;
    const AuMemory *memory = &e->k->mems[arg->mem.i];
    spirv_storage(m, memory);
    const SpvId type = spirv_pointer(m, e->flavour->far, spirv_stored(m, memory->scalar));
    const SpvId buffer = parameter(e, type, arg->name);
    const SpvId offset =
        parameter(e, spirv_scalar(m, AU_I64), au_format(m->arena, "%s_offset", arg->name));
    return used ? spirv_make2(m, SPV_InBoundsPtrAccessChain, type, buffer, offset) : 0;
}

static SpvId number(SpvEmit *e, const AuArg *arg)
{
    const AuScalar scalar = arg->kind == AU_ARG_I32   ? AU_I32
                            : arg->kind == AU_ARG_F32 ? AU_F32
                                                      : AU_I64;
    return parameter(e, spirv_scalar(e->m, scalar), arg->name);
}

/* Built-in vectors of which a kernel wants elements. */
static const struct Place {
    uint32_t which;
    const char *name;
} places[SPV_PLACES] = {{SPV_BUILTIN_WorkgroupId, "blocks_place"},
                        {SPV_BUILTIN_NumWorkgroups, "blocks_count"},
                        {SPV_BUILTIN_LocalInvocationId, "thread"},
                        {SPV_BUILTIN_SubgroupLocalInvocationId, "lane_place"},
                        {SPV_BUILTIN_SubgroupId, "warp_place"}};
enum { PLACE, COUNT, THREAD, LANE, WARP };

/* A module has one variable of each: Intel's compiler knows no second one. */
static SpvId place_of(SpvEmit *e, uint32_t n, SpvId type)
{
    SpvModule *m = e->m;
    if (!m->places[n]) {
        m->places[n] = spirv_builtin(e, places[n].which, type, places[n].name);
        spirv_decorate(m, m->places[n], SPV_IS_Constant);
        return m->places[n];
    }
    for (uint32_t i = 0; i < e->interface_count; i++)
        if (e->interface[i] == m->places[n]) return m->places[n];
    spirv_names_variable(e, m->places[n]);
    return m->places[n];
}

/* Its element [n], as 32 bits. */
static SpvId element(SpvEmit *e, uint32_t place, uint32_t n)
{
    SpvModule *m = e->m;
    const SpvId wide = spirv_scalar(m, AU_I64);
    const SpvId all = spirv_type(m, SPV_TypeVector, SPV_WORDS(wide, 3));
    const SpvId from = place_of(e, place, all);
    const SpvId v = spirv_make(m, SPV_Load, all, SPV_WORDS(from, ALIGNED, VECTOR_BYTES));
    const SpvId one = spirv_make(m, SPV_CompositeExtract, wide, SPV_WORDS(v, n));
    return spirv_make1(m, SPV_UConvert, spirv_scalar(m, AU_I32), one);
}

static SpvId word(SpvEmit *e, uint32_t place, const char *name)
{
    SpvModule *m = e->m;
    const SpvId type = spirv_scalar(m, AU_I32), from = place_of(e, place, type);
    const SpvId id = spirv_make1(m, SPV_Load, type, from);
    spirv_name(m, id, name);
    return id;
}

/* Nothing says that the work-items of a subgroup are neighbours; the device says who they are. Places of blocks are the same in all lanes: Intel's compiler,
 * which keeps what is the same once, does not know that of the subgroup's number, so it is told. (In kernels without blocks it keeps more numbers then,
 * and spills more.) */
static void subgroup_places(SpvEmit *e, const SpvUses *uses)
{
    e->lane = word(e, LANE, "lane");
    e->warp = e->k->warps == 1 ? spirv_u32(e->m, 0) : word(e, WARP, "warp");
    if (e->k->warps > 1 && uses->surfaces) e->warp = spirv_from_first(e, e->warp);
}

/* A tensor's address as a number: of the pointer, where there is one, since the host of OpenCL knows none. */
static void address(SpvEmit *e, uint32_t n)
{
    const AuArg *args = e->k->args, *arg = &args[n];
    if (arg->kind != AU_ARG_I64 || arg->source != AULE_SLOT_TENSOR) return;
    for (uint32_t i = 0; i < e->k->arg_count; i++) {
        const bool same = args[i].kind == AU_ARG_POINTER && args[i].source == arg->source &&
                          args[i].source_index == arg->source_index;
        if (!same || !e->args[i]) continue;
        e->args[n] = spirv_make1(e->m, SPV_ConvertPtrToU, spirv_scalar(e->m, AU_I64), e->args[i]);
        return;
    }
}

void spirv_kernel_open(SpvEmit *e, const SpvUses *uses)
{
    SpvModule *m = e->m;
    const AuKernel *k = e->k;
    m->compares = !uses->surfaces;
    e->parameters = AU_NEW_ARRAY(m->arena, SpvParameter, 2 * (size_t)k->arg_count + 1);
    for (uint32_t n = 0; n < k->arg_count; n++)
        e->args[n] = k->args[n].kind == AU_ARG_POINTER ? tensor(e, &k->args[n], uses->args[n])
                                                       : number(e, &k->args[n]);
    for (uint32_t n = 0; n < k->arg_count; n++)
        if (uses->args[n]) address(e, n);
    for (uint32_t n = 0; n < 3; n++) {
        if (uses->block[n]) e->block[n] = element(e, PLACE, n);
        if (uses->blocks[n]) e->blocks[n] = element(e, COUNT, n);
    }
    if (!uses->lane && !uses->warp) return;
    if (e->subgroups)
        subgroup_places(e, uses);
    else
        spirv_lanes(e, element(e, THREAD, 0));
}
