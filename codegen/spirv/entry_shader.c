/* entry_shader.c - the head of a kernel of flavour Shader: slots of the parameter block, places in the grid; and its end.
 * The pushed words are the address of the parameter block, how many blocks the grid has, and the place of the first one here: devices
 * limit the blocks of a dispatch, so that a grid may be several. */
#include "emit.h"

enum { PUSHED_SLOTS, PUSHED_BLOCKS, PUSHED_FIRST = PUSHED_BLOCKS + 3, PUSHED = PUSHED_FIRST + 3 };
enum { SLOT_BYTES = 8, ALIGNED = 2 /* Memory Operands */ };

/* A struct whose members lie where [offsets] says; made anew, since its decorations are its own. */
static SpvId laid_out(SpvModule *m, const SpvId *types, const uint32_t *offsets, uint32_t count,
                      const char *name)
{
    SpvWords *globals = &m->sections[SPV_GLOBALS], *decorations = &m->sections[SPV_DECORATIONS];
    const SpvId id = spirv_id(m);
    uint32_t *words = AU_NEW_ARRAY(m->arena, uint32_t, count + 1);
    words[0] = id;
    for (uint32_t n = 0; n < count; n++) {
        words[1 + n] = types[n];
        spirv_put(m, decorations, SPV_MemberDecorate, SPV_WORDS(id, n, SPV_IS_Offset, offsets[n]));
    }
    spirv_put(m, globals, SPV_TypeStruct, words, count + 1);
    spirv_decorate(m, id, SPV_IS_Block);
    spirv_name(m, id, name);
    return id;
}

static SpvId member(SpvModule *m, SpvId base, uint32_t storage, SpvId type, uint32_t which)
{
    return spirv_make2(m, SPV_AccessChain, spirv_pointer(m, storage, type), base,
                       spirv_u32(m, which));
}

static SpvId pushed(SpvEmit *e)
{
    SpvModule *m = e->m;
    SpvId types[PUSHED] = {spirv_scalar(m, AU_I64)};
    uint32_t offsets[PUSHED] = {0};
    for (uint32_t n = PUSHED_BLOCKS; n < PUSHED; n++) {
        types[n] = spirv_scalar(m, AU_I32);
        offsets[n] = 8 + 4 * (n - PUSHED_BLOCKS);
    }
    const SpvId type = laid_out(m, types, offsets, PUSHED, "pushed");
    return spirv_global(e, SPV_IN_PushConstant, type, "launch");
}

static AuScalar scalar_of(const AuArg *arg)
{
    return arg->kind == AU_ARG_I32 ? AU_I32 : arg->kind == AU_ARG_F32 ? AU_F32 : AU_I64;
}

/* The parameter block: a slot of 64 bits an argument, of which numbers of 32 bits take the lower half. */
static void open_args(SpvEmit *e, const SpvUses *uses, SpvId launch)
{
    SpvModule *m = e->m;
    const AuKernel *k = e->k;
    const uint32_t space = SPV_IN_PhysicalStorageBuffer;
    SpvId *types = AU_NEW_ARRAY(m->arena, SpvId, k->arg_count + 1);
    uint32_t *offsets = AU_NEW_ARRAY(m->arena, uint32_t, k->arg_count + 1);
    if (!k->arg_count) return;
    for (uint32_t n = 0; n <= k->arg_count; n++) { /* the last one is spirv_close's */
        types[n] = spirv_scalar(m, n < k->arg_count ? scalar_of(&k->args[n]) : AU_I64);
        offsets[n] = SLOT_BYTES * n;
    }
    const SpvId slots = laid_out(m, types, offsets, k->arg_count + e->loops, "slots");
    for (uint32_t n = 0; n < k->arg_count; n++)
        spirv_put_text(m, &m->sections[SPV_NAMES], SPV_MemberName, (uint32_t[]){slots, n}, 2,
                       k->args[n].name, NULL, 0);
    const SpvId number = spirv_scalar(m, AU_I64);
    const SpvId from = member(m, launch, SPV_IN_PushConstant, number, PUSHED_SLOTS);
    const SpvId address = spirv_make1(m, SPV_Load, number, from);
    const SpvId base = spirv_make1(m, SPV_ConvertUToPtr, spirv_pointer(m, space, slots), address);
    e->slots = base;
    for (uint32_t n = 0; n < k->arg_count; n++) {
        if (!uses->args[n]) continue;
        const SpvId at = member(m, base, space, types[n], n);
        e->args[n] = spirv_make(m, SPV_Load, types[n], SPV_WORDS(at, ALIGNED, SLOT_BYTES));
        spirv_name(m, e->args[n], k->args[n].name);
    }
}

static SpvId pushed_word(SpvModule *m, SpvId launch, uint32_t which)
{
    const SpvId word = spirv_scalar(m, AU_I32);
    return spirv_make1(m, SPV_Load, word, member(m, launch, SPV_IN_PushConstant, word, which));
}

/* Nothing says that the work-items of a subgroup are neighbours; the device says who they are. */
static void subgroup_places(SpvEmit *e)
{
    SpvModule *m = e->m;
    const SpvId word = spirv_scalar(m, AU_I32);
    const bool one = e->k->warps == 1;
    spirv_capability(m, SPV_CAP_GroupNonUniform);
    const SpvId lane = spirv_builtin(e, SPV_BUILTIN_SubgroupLocalInvocationId, word, "lane_place");
    e->lane = spirv_make1(m, SPV_Load, word, lane);
    spirv_name(m, e->lane, "lane");
    e->warp = spirv_u32(m, 0);
    if (one) return;
    const SpvId warp = spirv_builtin(e, SPV_BUILTIN_SubgroupId, word, "warp_place");
    e->warp = spirv_make1(m, SPV_Load, word, warp);
    spirv_name(m, e->warp, "warp");
}

static void open_places(SpvEmit *e, const SpvUses *uses, SpvId launch)
{
    SpvModule *m = e->m;
    const SpvId word = spirv_scalar(m, AU_I32);
    const SpvId words = spirv_type(m, SPV_TypeVector, SPV_WORDS(word, 3));
    SpvId place = 0;
    for (uint32_t n = 0; n < 3; n++) {
        if (uses->block[n]) {
            if (!place) place = spirv_builtin(e, SPV_BUILTIN_WorkgroupId, words, "blocks_place");
            const SpvId at = member(m, place, SPV_IN_Input, word, n);
            const SpvId here = spirv_make1(m, SPV_Load, word, at);
            const SpvId first = pushed_word(m, launch, PUSHED_FIRST + n);
            e->block[n] = spirv_make2(m, SPV_IAdd, word, first, here);
            spirv_name(m, e->block[n], au_format(m->arena, "block_%c", "xyz"[n]));
        }
        if (uses->blocks[n]) {
            e->blocks[n] = pushed_word(m, launch, PUSHED_BLOCKS + n);
            spirv_name(m, e->blocks[n], au_format(m->arena, "blocks_%c", "xyz"[n]));
        }
    }
    if (!uses->lane && !uses->warp) return;
    if (e->subgroups && !e->of_block) {
        subgroup_places(e);
        return;
    }
    const SpvId thread = spirv_builtin(e, SPV_BUILTIN_LocalInvocationIndex, word, "thread");
    spirv_lanes(e, spirv_make1(m, SPV_Load, word, thread));
}

void spirv_shader_open(SpvEmit *e, const SpvUses *uses)
{
    const SpvId launch = pushed(e);
    open_args(e, uses, launch);
    open_places(e, uses, launch);
}

/* ---- the end */

static SpvId cuts_loops(SpvModule *m)
{
    const SpvId truth = spirv_scalar(m, AU_I1);
    if (m->cuts_loops) return m->cuts_loops;
    m->cuts_loops = spirv_id(m);
    spirv_put(m, &m->sections[SPV_GLOBALS], SPV_SpecConstantFalse, SPV_WORDS(truth, m->cuts_loops));
    spirv_put(m, &m->sections[SPV_DECORATIONS], SPV_Decorate,
              SPV_WORDS(m->cuts_loops, SPV_IS_SpecId, SPV_CUTS_LOOPS));
    spirv_name(m, m->cuts_loops, "cuts_loops");
    return m->cuts_loops;
}

/* A loop of two turns: were there fewer? */
static SpvId two_turns(SpvModule *m)
{
    enum { TURNS = 2 };
    const SpvTurns turns = spirv_open_turns(m, TURNS);
    spirv_close_turns(m, &turns);
    return spirv_make2(m, SPV_SLessThan, spirv_scalar(m, AU_I1), turns.now, spirv_u32(m, TURNS));
}

/* Mesa's drivers for processors count the turns of all loops of a work-item, and end each loop after its first one when there were 65535. So
 * a last loop that does not make its two turns tells that others were cut. */
void spirv_shader_close(SpvEmit *e)
{
    SpvModule *m = e->m;
    if (!e->loops || !e->slots) return;
    const SpvId look = spirv_id(m), tell = spirv_id(m), end = spirv_id(m), known = spirv_id(m);
    const SpvId number = spirv_scalar(m, AU_I64);
    spirv_do(m, SPV_SelectionMerge, SPV_WORDS(end, 0));
    spirv_do(m, SPV_BranchConditional, SPV_WORDS(cuts_loops(m), look, end));
    spirv_label(m, look);
    const SpvId cut = two_turns(m);
    spirv_do(m, SPV_SelectionMerge, SPV_WORDS(known, 0));
    spirv_do(m, SPV_BranchConditional, SPV_WORDS(cut, tell, known));
    spirv_label(m, tell);
    const SpvId at = member(m, e->slots, SPV_IN_PhysicalStorageBuffer, number, e->k->arg_count);
    spirv_do(m, SPV_Store, SPV_WORDS(at, spirv_u64(m, 1), ALIGNED, SLOT_BYTES));
    spirv_branch(m, known);
    spirv_label(m, known);
    spirv_branch(m, end);
    spirv_label(m, end);
}
