/* entry.c - what a kernel uses, and its head: what is alike in both flavours. */
#include "emit.h"

/* ---- survey */

/* By the widest words that vectors and matrices move by. Elements by themselves are parts of words, which costs two atomic operations to store one: where
 * nothing is stored but these, all stay elements; so they do where a matrix lies as no words do. */
static void note_unit(SpvEmit *e, AuMem mem, AuVal index, int64_t width, bool matrix, bool store)
{
    SpvPlace *place = &e->mems[mem.i];
    const uint32_t unit = spirv_unit(e, mem, index, width);
    if (!place->used) place->unit = UINT32_MAX;
    if ((unit || matrix) && unit < place->unit) place->unit = unit;
    place->in_words |= unit && store && !matrix;
}

static void note_access(SpvEmit *e, const AuInstr *in)
{
    const AuMemory *memory = &e->k->mems[in->mem.i];
    SpvPlace *place = &e->mems[in->mem.i];
    const AuInstr *index = kernel_at(e->k, kernel_operand(e->k, in, 0));
    const uint32_t width = in->op == AU_K_STORE
                               ? kernel_at(e->k, kernel_operand(e->k, in, 1))->type.width
                               : in->type.width;
    if (!place->used) place->split = memory->space == AU_LANE;
    note_unit(e, in->mem, kernel_operand(e->k, in, 0), width, false, in->op == AU_K_STORE);
    place->used = true;
    if (index->op != AU_K_CONST || index->imm < 0 || (uint64_t)index->imm + width > memory->count)
        place->split = false;
    if (in->op == AU_K_ATOMIC_ADD && memory->space != AU_GLOBAL)
        place->atomic = memory->scalar == AU_F32;
}

/* Elements between rows of a matrix in memory; 1, which no words are, where that is not known. */
static int64_t rows_apart(const SpvEmit *e, const AuInstr *in)
{
    const AuInstr *apart = kernel_at(e->k, kernel_operand(e->k, in, 2));
    return apart->op == AU_K_CONST ? apart->imm : 1;
}

/* Matrices, and where they are loaded from or stored to. */
static void note_matrices(SpvEmit *e, const AuInstr *in)
{
    const AuMem mems[] = {in->mem, in->also[0], in->also[1]};
    const uint32_t count = in->op == AU_K_MATRIX_FILL || in->op == AU_K_MATRIX_EACH ||
                                   in->op == AU_K_MATRIX_GET || in->op == AU_K_MATRIX_ANY
                               ? 1
                           : in->op == AU_K_MATRIX_MUL || in->op == AU_K_MATRIX_MAP ? 3
                                                                                    : 2;
    for (uint32_t n = 0; n < count; n++) {
        SpvPlace *place = &e->mems[mems[n].i];
        const AuInstr *index = kernel_at(e->k, kernel_operand(e->k, in, n));
        if (!place->used) place->split = e->k->mems[mems[n].i].space == AU_MATRIX;
        if (in->op == AU_K_MATRIX_LOAD || in->op == AU_K_MATRIX_STORE)
            note_unit(e, mems[n], kernel_operand(e->k, in, n), rows_apart(e, in), true, false);
        place->used = true;
        if (index->op != AU_K_CONST) place->split = false;
    }
}

static void note_region(SpvEmit *e, SpvUses *uses, uint32_t first)
{
    for (uint32_t i = first; i; i = e->k->instrs[i].next) {
        const AuInstr *in = &e->k->instrs[i];
        const uint32_t flags = kernel_op_info((AuKOp)in->op)->flags;
        const bool plain = in->op == AU_K_LOAD || in->op == AU_K_STORE ||
                           in->op == AU_K_ATOMIC_ADD || in->op == AU_K_ATOMIC_INC ||
                           in->op == AU_K_BLOCK_LOAD || in->op == AU_K_BLOCK_GATHER ||
                           in->op == AU_K_BLOCK_AHEAD;
        if (flags & AU_KF_MEM && plain) note_access(e, in);
        if (flags & AU_KF_OPAQUE) note_matrices(e, in);
        e->subgroups |= flags & AU_KF_LANES && e->flavour->subgroups;
        if (in->op == AU_K_ARG) uses->args[in->imm] = true;
        if (in->op == AU_K_BLOCK) uses->block[in->imm] = true;
        if (in->op == AU_K_BLOCKS) uses->blocks[in->imm] = true;
        uses->lane |= in->op == AU_K_LANE || in->op == AU_K_BOTH || in->op == AU_K_BLOCK_GATHER ||
                      (in->op == AU_K_BLOCK_LOAD && e->flavour->blocks == SPV_BLOCKS_OF_MODULE);
        uses->warp |= in->op == AU_K_WARP;
        uses->surfaces |= in->op == AU_K_BLOCK_LOAD || in->op == AU_K_BLOCK_GATHER;
        e->loops |= in->op == AU_K_FOR;
        note_region(e, uses, in->body);
        note_region(e, uses, in->other);
    }
}

/* ---- the head */

enum {
    ALL_NAMED = 0x10400
}; /* from here on entry points name all variables, before only Input and Output */

void spirv_names_variable(SpvEmit *e, SpvId id)
{
    AU_PUSH(e->m->arena, e->interface, e->interface_count, e->interface_capacity, id);
}

SpvId spirv_global(SpvEmit *e, uint32_t storage, SpvId type, const char *name)
{
    SpvModule *m = e->m;
    const SpvId pointer = spirv_pointer(m, storage, type), id = spirv_id(m);
    spirv_put(m, &m->sections[SPV_GLOBALS], SPV_Variable, SPV_WORDS(pointer, id, storage));
    spirv_name(m, id, name);
    if (storage == SPV_IN_Input || m->flavour->version >= ALL_NAMED) spirv_names_variable(e, id);
    return id;
}

SpvId spirv_builtin(SpvEmit *e, uint32_t which, SpvId type, const char *name)
{
    SpvModule *m = e->m;
    const SpvId id = spirv_global(e, SPV_IN_Input, type, name);
    spirv_put(m, &m->sections[SPV_DECORATIONS], SPV_Decorate, SPV_WORDS(id, SPV_IS_BuiltIn, which));
    return id;
}

void spirv_lanes(SpvEmit *e, SpvId all)
{
    SpvModule *m = e->m;
    const SpvId word = spirv_scalar(m, AU_I32), lanes = spirv_u32(m, e->k->lanes);
    const bool one = e->k->warps == 1;
    e->lane = one ? all : spirv_make2(m, SPV_UMod, word, all, lanes);
    e->warp = one ? spirv_u32(m, 0) : spirv_make2(m, SPV_UDiv, word, all, lanes);
    spirv_name(m, e->lane, "lane");
    if (!one) spirv_name(m, e->warp, "warp");
}

void spirv_narrow(SpvModule *m, AuScalar scalar, uint32_t bits16, uint32_t bits8)
{
    const uint32_t bytes = kernel_scalar_bytes(scalar);
    if (bytes == 2) spirv_capability(m, bits16);
    if (bytes == 1) spirv_capability(m, bits8);
}

void spirv_storage(SpvModule *m, const AuMemory *memory)
{
    const bool far = memory->space == AU_GLOBAL;
    spirv_narrow(m, memory->scalar, far ? m->flavour->far_bits16 : SPV_CAP_Int16,
                 far ? m->flavour->far_bits8 : SPV_CAP_Int8);
}

/* Sums of floats in shared memory are exchanges of words, so all of it is words; so is what moves by these alone. */
static void open_shared(SpvEmit *e, const AuMemory *memory, SpvPlace *place)
{
    SpvModule *m = e->m;
    const bool parts = memory->space == AU_EXEC && e->k->warps > 1;
    if (!place->unit) spirv_storage(m, memory);
    place->element = place->unit     ? spirv_unit_type(m, place->unit)
                     : place->atomic ? spirv_scalar(m, AU_I32)
                                     : spirv_stored(m, memory->scalar);
    place->pointer = spirv_pointer(m, SPV_IN_Workgroup, place->element);
    const uint32_t all = parts ? memory->count * e->k->warps : memory->count;
    const uint32_t count = place->unit ? all / (2 * place->unit) : all;
    const SpvId array = spirv_array(m, place->element, count);
    place->base = spirv_global(e, SPV_IN_Workgroup, array, memory->name);
    if (parts)
        place->first =
            spirv_make2(m, SPV_IMul, spirv_scalar(m, AU_I32), e->warp, spirv_u32(m, memory->count));
}

/* A block whose only member is an array at that place of the work-group's memory. */
static SpvId laid_out(SpvEmit *e, SpvId element, uint32_t bytes, uint32_t count, uint32_t offset,
                      const char *name)
{
    SpvModule *m = e->m;
    SpvWords *globals = &m->sections[SPV_GLOBALS], *decorations = &m->sections[SPV_DECORATIONS];
    const SpvId extent = spirv_u32(m, count), array = spirv_id(m), block = spirv_id(m);
    spirv_put(m, globals, SPV_TypeArray, SPV_WORDS(array, element, extent));
    spirv_put(m, decorations, SPV_Decorate, SPV_WORDS(array, SPV_IS_ArrayStride, bytes));
    spirv_put(m, globals, SPV_TypeStruct, SPV_WORDS(block, array));
    spirv_put(m, decorations, SPV_MemberDecorate, SPV_WORDS(block, 0, SPV_IS_Offset, offset));
    spirv_decorate(m, block, SPV_IS_Block);
    const SpvId id = spirv_global(e, SPV_IN_Workgroup, block, name);
    spirv_decorate(m, id, SPV_IS_Aliased);
    return id;
}

/* The same where shared memory has a layout: every block begins at its first byte, so members say where they are. */
static void open_laid_out(SpvEmit *e, uint32_t n, SpvPlace *place)
{
    enum { VECTOR = 16 };
    SpvModule *m = e->m;
    const AuMemory *memory = &e->k->mems[n];
    uint32_t *offsets = AU_NEW_ARRAY(m->arena, uint32_t, e->k->mem_count);
    const bool parts = memory->space == AU_EXEC && e->k->warps > 1;
    const uint32_t bytes = kernel_scalar_bytes(memory->scalar),
                   count = parts ? memory->count * e->k->warps : memory->count;
    kernel_shared_bytes(e->k, offsets);
    spirv_extension(m, "SPV_KHR_workgroup_memory_explicit_layout");
    spirv_capability(m, SPV_CAP_WorkgroupMemoryExplicitLayoutKHR);
    spirv_narrow(m, memory->scalar, SPV_CAP_WorkgroupMemoryExplicitLayout16BitAccessKHR,
                 SPV_CAP_WorkgroupMemoryExplicitLayout8BitAccessKHR);
    place->element = place->atomic ? spirv_scalar(m, AU_I32) : spirv_stored(m, memory->scalar);
    place->pointer = spirv_pointer(m, SPV_IN_Workgroup, place->element);
    place->in_struct = true;
    place->base = laid_out(e, place->element, bytes, count, offsets[n], memory->name);
    if (parts)
        place->first =
            spirv_make2(m, SPV_IMul, spirv_scalar(m, AU_I32), e->warp, spirv_u32(m, memory->count));
    if (memory->space != AU_SHARED || bytes != 2 || count * bytes % VECTOR) return;
    const SpvId words = spirv_type(m, SPV_TypeVector, SPV_WORDS(spirv_scalar(m, AU_I32), 4));
    place->wide = laid_out(e, words, VECTOR, count * bytes / VECTOR, offsets[n],
                           au_format(m->arena, "%s_words", memory->name));
}

static void open_memory(SpvEmit *e, uint32_t n)
{
    SpvModule *m = e->m;
    const AuMemory *memory = &e->k->mems[n];
    SpvPlace *place = &e->mems[n];
    if (memory->space == AU_MATRIX && !e->flavour->subgroups) return; /* refused where it is used */
    if (memory->space == AU_LANE || memory->space == AU_MATRIX) {
        place->element =
            memory->space == AU_LANE
                ? spirv_scalar(m, memory->scalar)
                : spirv_matrix_type(m, memory,
                                    e->of_block ? SPV_SCOPE_WORKGROUP : SPV_SCOPE_SUBGROUP);
        if (!place->element) { /* refused where it is used, too */
            place->split = true;
            return;
        }
        place->pointer = spirv_pointer(m, SPV_IN_Function, place->element);
        if (place->split) {
            place->elements = AU_NEW_ARRAY(m->arena, SpvId, memory->count);
            if (memory->space == AU_LANE) spirv_find_pairs(e, (AuMem){n});
            return;
        }
        place->base = spirv_variable(m, spirv_array(m, place->element, memory->count));
        spirv_name(m, place->base, memory->name);
        return;
    }
    if (memory->space == AU_GLOBAL) {
        spirv_storage(m, memory);
        place->element = spirv_stored(m, memory->scalar);
        if (e->flavour->has_pointers)
            place->pointer = spirv_pointer(m, e->flavour->far, place->element);
        place->base = e->args[memory->arg];
    } else if (e->flavour->laid_out)
        open_laid_out(e, n, place);
    else
        open_shared(e, memory, place);
}

void spirv_open(SpvEmit *e)
{
    const AuKernel *k = e->k;
    SpvUses uses = {.args = AU_NEW_ARRAY(e->m->arena, bool, k->arg_count + 1)};
    e->of_block = kernel_has_matrices_of_block(k);
    note_region(e, &uses, k->body);
    for (uint32_t n = 1; n < k->mem_count; n++) {
        if (!e->mems[n].used) continue;
        if (!e->mems[n].in_words || e->mems[n].unit == UINT32_MAX) e->mems[n].unit = 0;
        if (k->mems[n].space == AU_GLOBAL) uses.args[k->mems[n].arg] = true;
        uses.warp |= k->mems[n].space == AU_EXEC && k->warps > 1;
    }
    e->flavour->open(e, &uses);
    for (uint32_t n = 1; n < k->mem_count; n++)
        if (e->mems[n].used) open_memory(e, n);
}
