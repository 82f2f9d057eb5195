/* surface.c - matrices straight from tensors (SPV_NV_tensor_addressing with CooperativeMatrixLoadTensorNV). A surface is a tensor layout of two dimensions,
 * whose clamp mode gives 0 outside, of which the matrix is a slice; where its columns are the surface's rows a tensor view exchanges them.
 *
 * Units want a surface at a multiple of 16 bytes whose rows do not overlap, and count its elements in 32 bits. Any other surface
 * (matrix_block_gather) goes by a function of an element, which loads where its place is inside; for devices that have no tensor addressing all do
 * (flavour->tensors), so that these execute what surrounds the instruction. */
#include "emit.h"

enum { CONSTANT = 1, ALIGNED = 2, NO_OPERANDS = 0, WITH_VIEW = 1 };

/* Operands of both operations, behind the matrix: what units are told. */
typedef struct Surface {
    SpvId rows, columns, pitch, row, column;
} Surface;

/* ---- by the unit */

static SpvId layout_of(SpvEmit *e, const AuMemory *matrix, const Surface *s, bool turned)
{
    SpvModule *m = e->m;
    const SpvId type =
        spirv_type(m, SPV_TypeTensorLayoutNV, SPV_WORDS(spirv_u32(m, 2), spirv_u32(m, CONSTANT)));
    const SpvId high = spirv_u32(m, turned ? matrix->columns : matrix->rows),
                wide = spirv_u32(m, turned ? matrix->rows : matrix->columns);
    SpvId t = spirv_make(m, SPV_CreateTensorLayoutNV, type, NULL, 0);
    t = spirv_make(m, SPV_TensorLayoutSetDimensionNV, type, SPV_WORDS(t, s->rows, s->columns));
    t = spirv_make(m, SPV_TensorLayoutSetStrideNV, type, SPV_WORDS(t, s->pitch, spirv_u32(m, 1)));
    return spirv_make(m, SPV_TensorLayoutSliceNV, type,
                      SPV_WORDS(t, s->row, high, s->column, wide));
}

static SpvId turned_view(SpvModule *m)
{
    const SpvId type = spirv_type(
        m, SPV_TypeTensorViewNV,
        SPV_WORDS(spirv_u32(m, 2), spirv_bits(m, AU_I1, 0), spirv_u32(m, 1), spirv_u32(m, 0)));
    return spirv_make(m, SPV_CreateTensorViewNV, type, NULL, 0);
}

static SpvId by_unit(SpvEmit *e, const AuInstr *in)
{
    SpvModule *m = e->m;
    const SpvId type = e->mems[in->mem.i].element;
    const Surface s = {.columns = spirv_operand(e, in, 2, 0),
                       .rows = spirv_operand(e, in, 3, 0),
                       .pitch = spirv_operand(e, in, 4, 0),
                       .column = spirv_operand(e, in, 5, 0),
                       .row = spirv_operand(e, in, 6, 0)};
    const SpvId address = spirv_far_address(e, in->also[0], kernel_operand(e->k, in, 1), 0);
    spirv_extension(m, "SPV_NV_cooperative_matrix2");
    spirv_extension(m, "SPV_NV_tensor_addressing");
    spirv_capability(m, SPV_CAP_TensorAddressingNV);
    spirv_capability(m, SPV_CAP_CooperativeMatrixTensorAddressingNV);
    const SpvId from =
        spirv_make1(m, SPV_ConvertUToPtr,
                    spirv_pointer(m, e->flavour->far, e->mems[in->also[0].i].element), address);
    const SpvId layout = layout_of(e, &e->k->mems[in->mem.i], &s, in->imm);
    const SpvId nothing = spirv_zero_matrix(e, in->mem); /* all elements are loaded */
    const uint32_t operands[] = {from,
                                 nothing,
                                 layout,
                                 ALIGNED,
                                 AU_TENSOR_ALIGN,
                                 in->imm ? WITH_VIEW : NO_OPERANDS,
                                 in->imm ? turned_view(m) : 0};
    return spirv_make(m, SPV_CooperativeMatrixLoadTensorNV, type, operands,
                      sizeof operands / sizeof *operands - (in->imm ? 0 : 1));
}

/* ---- element by element */

enum { HERE_ROW, HERE_COLUMN, ELEMENT, ADDRESS, COLUMNS, ROWS, PITCH, STEP, COLUMN, ROW };

static SpvId along(SpvModule *m, SpvId index, SpvId apart)
{
    const SpvId wide = spirv_scalar(m, AU_I64);
    return spirv_make2(m, SPV_IMul, wide, spirv_make1(m, SPV_SConvert, wide, index), apart);
}

/* The surface's element, or 0. */
static SpvId element_at(SpvModule *m, SpvId element, const SpvId *given, bool turned)
{
    enum { BYTES = 2 };
    const SpvId word = spirv_scalar(m, AU_I32), wide = spirv_scalar(m, AU_I64),
                truth = spirv_scalar(m, AU_I1);
    const SpvId row = spirv_make2(m, SPV_IAdd, word, given[ROW],
                                  given[turned ? HERE_COLUMN : HERE_ROW]),
                column = spirv_make2(m, SPV_IAdd, word, given[COLUMN],
                                     given[turned ? HERE_ROW : HERE_COLUMN]);
    const SpvId inside = spirv_make2(m, SPV_LogicalAnd, truth,
                                     spirv_make2(m, SPV_ULessThan, truth, row, given[ROWS]),
                                     spirv_make2(m, SPV_ULessThan, truth, column, given[COLUMNS]));
    const SpvId there = spirv_id(m), end = spirv_id(m), before = m->f->label;
    spirv_do(m, SPV_SelectionMerge, SPV_WORDS(end, 0));
    spirv_do(m, SPV_BranchConditional, SPV_WORDS(inside, there, end));
    spirv_label(m, there);
    const SpvId behind =
        spirv_make2(m, SPV_IAdd, wide, along(m, row, given[PITCH]), along(m, column, given[STEP]));
    const SpvId address = spirv_make2(m, SPV_IAdd, wide, given[ADDRESS],
                                      spirv_make2(m, SPV_IMul, wide, behind, spirv_u64(m, BYTES)));
    const SpvId from =
        spirv_make1(m, SPV_ConvertUToPtr, spirv_pointer(m, m->flavour->far, element), address);
    const SpvId loaded = spirv_make(m, SPV_Load, element, SPV_WORDS(from, ALIGNED, BYTES));
    spirv_branch(m, end);
    spirv_label(m, end);
    return spirv_make(m, SPV_Phi, element,
                      SPV_WORDS(spirv_null(m, element), before, loaded, there));
}

/* The function, made where it is not there yet. */
static SpvId function_of(SpvModule *m, SpvId element, AuScalar scalar, bool turned)
{
    const SpvId word = spirv_scalar(m, AU_I32), wide = spirv_scalar(m, AU_I64);
    const SpvSignature takes = {
        element, (SpvId[]){word, word, element, wide, word, word, wide, wide, word, word},
        SPV_PARAMETERS};
    SpvId *known = &m->surfaces[2 * (scalar == AU_BF16) + turned];
    SpvOwnFunction f;
    if (*known) return *known;
    spirv_begin_function(m, &f, turned ? "turned_element" : "element_of_surface", &takes);
    const SpvId all = element_at(m, element, f.given, turned);
    return *known = spirv_end_function(m, &f, all);
}

static SpvId by_elements(SpvEmit *e, const AuInstr *in)
{
    SpvModule *m = e->m;
    const AuMemory *matrix = &e->k->mems[in->mem.i];
    const SpvId type = e->mems[in->mem.i].element,
                element = spirv_matrix_element(m, matrix->scalar);
    const bool gathers = in->op == AU_K_MATRIX_BLOCK_GATHER;
    const SpvId wide = spirv_scalar(m, AU_I64);
    SpvId words[] = {spirv_zero_matrix(e, in->mem),
                     function_of(m, element, matrix->scalar, in->imm),
                     spirv_far_address(e, in->also[0], kernel_operand(e->k, in, 1), 0),
                     spirv_operand(e, in, 2, 0),
                     spirv_operand(e, in, 3, 0),
                     spirv_operand(e, in, 4, 0),
                     gathers ? spirv_operand(e, in, 5, 0) : spirv_u64(m, 1),
                     spirv_operand(e, in, 5 + gathers, 0),
                     spirv_operand(e, in, 6 + gathers, 0)};
    if (!gathers) words[5] = spirv_make1(m, SPV_SConvert, wide, words[5]);
    spirv_extension(m, "SPV_NV_cooperative_matrix2");
    spirv_capability(m, SPV_CAP_CooperativeMatrixPerElementOperationsNV);
    return spirv_make(m, SPV_CooperativeMatrixPerElementOpNV, type, words,
                      sizeof words / sizeof *words);
}

void spirv_surface(SpvEmit *e, const AuInstr *in)
{
    if (!e->flavour->by_place) {
        spirv_lacks(e, in);
        return;
    }
    const bool unit = in->op == AU_K_MATRIX_BLOCK_LOAD && e->flavour->tensors;
    spirv_set_matrix(e, in->mem, kernel_operand(e->k, in, 0),
                     unit ? by_unit(e, in) : by_elements(e, in));
}
