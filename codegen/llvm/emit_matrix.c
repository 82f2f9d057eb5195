/* emit_matrix.c - MATMUL on the tiles of AMX (Intel SDM volume 1, chapter 18).
 *
 * A kernel with products configures all eight tiles once as 16 rows of 64 bytes and gives them back at its end. A product is at
 * most 2 x 2 tiles of sums (0..3); 4 and 5 hold rows of A, 6 and 7 vectors of B; a step takes 32 numbers along k. A tile of A is
 * rows as they lie in memory; a tile of B, and of C, is a vector of lanes a row, which is how memories of lanes are stored. Tile
 * numbers are immediates, so LLVM neither allocates nor spills tiles, and calls between would not keep them: there are none. */
#include "emit.h"

enum { CONFIG_BYTES = 64, TILES = 8, TILE_ROWS = 16, TILE_DEPTH = 32, FIRST_A = 4, FIRST_B = 6 };

static bool has_products(const AuKernel *k)
{
    for (uint32_t n = 1; n < k->instr_count; n++)
        if (k->instrs[n].op == AU_K_MATMUL) return true;
    return false;
}

/* Palette 1; bytes a row from byte 16 on, 16 bits a tile; rows from byte 48 on, 8 bits a tile. */
void emit_tiles_open(AuEmit *e)
{
    if (!has_products(e->k)) return;
    if (!e->host->tiles || e->k->lanes != TILE_ROWS) {
        emit_fault(e, NULL, "products of matrices need AMX and 16 lanes");
        return;
    }
    LLVMTypeRef type = LLVMVectorType(e->element[AU_U8], CONFIG_BYTES);
    for (uint32_t n = 0; n < CONFIG_BYTES; n++) {
        const bool row_bytes = n >= 16 && n < 16 + 2 * TILES && n % 2 == 0;
        const bool rows = n >= 48 && n < 48 + TILES;
        const uint32_t byte = n == 0 ? 1 : row_bytes ? 64 : rows ? TILE_ROWS : 0;
        e->list[n] = LLVMConstInt(e->element[AU_U8], byte, false);
    }
    LLVMValueRef config = LLVMBuildAlloca(e->builder, type, "tiles");
    LLVMSetAlignment(config, CONFIG_BYTES);
    LLVMBuildStore(e->builder, LLVMConstVector(e->list, CONFIG_BYTES), config);
    emit_call(e, "llvm.x86.ldtilecfg", NULL, NULL, &config, 1);
}

void emit_tiles_close(AuEmit *e)
{
    if (has_products(e->k)) emit_call(e, "llvm.x86.tilerelease", NULL, NULL, NULL, 0);
}

static LLVMValueRef tile(AuEmit *e, uint32_t number)
{
    return LLVMConstInt(e->element[AU_U8], number, false);
}

/* Memory as tiles: where row and element (0, 0) lie, in bytes. */
typedef struct Rows {
    LLVMValueRef first;
    int64_t stride;
} Rows;

static Rows rows_of(AuEmit *e, AuMem mem, AuVal at, int32_t stride)
{
    const AuMemory *m = &e->k->mems[mem.i];
    const uint32_t lanes = m->space == AU_LANE ? e->k->lanes : 1;
    LLVMTypeRef type = emit_stored(e, m->scalar, lanes);
    return (Rows){.first = emit_step(e, type, e->places[mem.i].base, emit_index(e, at)),
                  .stride = (int64_t)stride * lanes * kernel_scalar_bytes(m->scalar)};
}

/* A tile's worth of memory, [rows] and [bytes] on, to a tile or back. */
static void move(AuEmit *e, const char *intrinsic, uint32_t number, const Rows *from, int64_t rows,
                 int64_t bytes)
{
    LLVMValueRef offset =
        LLVMConstInt(e->i64, (unsigned long long)(rows * from->stride + bytes), true);
    LLVMValueRef arguments[3] = {tile(e, number),
                                 emit_step(e, e->element[AU_U8], from->first, offset),
                                 LLVMConstInt(e->i64, (unsigned long long)from->stride, true)};
    emit_call(e, intrinsic, NULL, NULL, arguments, 3);
}

/* All sums: tile r * vectors + n is rows 16 r.. of vector n. */
static void move_sums(AuEmit *e, const char *intrinsic, const AuMatmul *x, const Rows *c)
{
    for (int32_t r = 0; r < x->rows / TILE_ROWS; r++)
        for (int32_t n = 0; n < x->vectors; n++)
            move(e, intrinsic, (uint32_t)(r * x->vectors + n), c, r * TILE_ROWS, n * 64);
}

void emit_matmul(AuEmit *e, AuVal v)
{
    static const char load[] = "llvm.x86.tileloadd64", store[] = "llvm.x86.tilestored64",
                      zero[] = "llvm.x86.tilezero", multiply[] = "llvm.x86.tdpbf16ps";
    const AuMatmul x = kernel_matmul_of(e->k, kernel_at(e->k, v));
    const int32_t high = x.rows / TILE_ROWS, wide = x.vectors;
    const Rows a = rows_of(e, x.a, x.a_at, x.a_stride), b = rows_of(e, x.b, x.b_at, x.b_stride);
    const Rows c = rows_of(e, x.c, x.c_at, x.c_stride);
    if (x.add) move_sums(e, load, &x, &c);
    for (int32_t n = 0; n < high * wide && !x.add; n++) {
        LLVMValueRef number = tile(e, (uint32_t)n);
        emit_call(e, zero, NULL, NULL, &number, 1);
    }
    for (int32_t k = 0; k < x.depth; k += TILE_DEPTH) {
        for (int32_t n = 0; n < wide; n++) move(e, load, FIRST_B + (uint32_t)n, &b, k / 2, n * 64);
        for (int32_t r = 0; r < high; r++) {
            move(e, load, FIRST_A + (uint32_t)r, &a, r * TILE_ROWS, k * 2);
            for (int32_t n = 0; n < wide; n++) {
                LLVMValueRef tiles[3] = {tile(e, (uint32_t)(r * wide + n)),
                                         tile(e, FIRST_A + (uint32_t)r),
                                         tile(e, FIRST_B + (uint32_t)n)};
                emit_call(e, multiply, NULL, NULL, tiles, 3);
            }
        }
    }
    move_sums(e, store, &x, &c);
}
