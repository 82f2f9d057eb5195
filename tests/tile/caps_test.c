/* caps_test.c - lane maps of the matrix instructions against the formulas of the vendors' manuals, written down here a second
 * time; which accumulator is the next product's operand as it lies; what conversions cost. */
#include "support.h"

typedef struct Cell {
    int row, col;
} Cell;

/* Element of register v in lane l (of thread t of a warpgroup). */
typedef Cell (*Formula)(int l, int v);

// clang-format off
static Cell mma_c(int l, int v)  { return (Cell){l / 4 + 8 * (v / 2), 2 * (l % 4) + v % 2}; }
static Cell mma_a(int l, int v)  { return (Cell){l / 4 + 8 * (v / 2 % 2), 2 * (l % 4) + v % 2 + 8 * (v / 4)}; }
static Cell mma_b(int l, int v)  { return (Cell){2 * (l % 4) + v % 2 + 8 * (v / 2), l / 4}; }
static Cell tf32_a(int l, int v) { return (Cell){l / 4 + 8 * (v % 2), l % 4 + 4 * (v / 2)}; }
static Cell tf32_b(int l, int v) { return (Cell){l % 4 + 4 * v, l / 4}; }
/* Row or column i of a quad pair's 8 in the 16 of all. */
static int of_pair(int i, int half) { return i % 4 + 4 * half + 8 * (i / 4); }
static Cell mma884_a(int l, int v) { return (Cell){of_pair(l % 4 + 4 * (l / 16), l / 4 % 2), v}; }
static Cell mma884_b(int l, int v) { return (Cell){v, of_pair(l % 4 + 4 * (l / 16), l / 8 % 2)}; }
static Cell mma884_a_col(int l, int v) { return (Cell){of_pair(v + 4 * (l / 16), l / 4 % 2), l % 4}; }
static Cell mma884_b_row(int l, int v) { return (Cell){l % 4, of_pair(v + 4 * (l / 16), l / 8 % 2)}; }
static Cell mma884_c(int l, int v)
{
    return (Cell){of_pair((l & 1) + (v & 2) + 4 * (l / 16), l / 4 % 2), of_pair((v & 4) + (l & 2) + (v & 1), l / 8 % 2)};
}
static Cell wgmma_c(int t, int v) { return (Cell){16 * (t / 32) + t % 32 / 4 + 8 * (v / 2), 2 * (t % 4) + v % 2}; }
static Cell wgmma_a(int t, int v) { return (Cell){16 * (t / 32) + t % 32 / 4 + 8 * (v / 2 % 2), 2 * (t % 4) + v % 2 + 8 * (v / 4)}; }
/* The same instruction, C' = B' A'. */
static Cell turned(Cell c) { return (Cell){c.col, c.row}; }
static Cell narrow_a(int l, int v) { return turned(mma_b(l, v)); }
static Cell narrow_b(int l, int v) { return turned(mma_a(l, v)); }
static Cell narrow_c(int l, int v) { return turned(mma_c(l, v)); }
static Cell mfma32_a(int l, int v) { return (Cell){l % 32, 4 * (l / 32) + v}; }
static Cell mfma32_b(int l, int v) { return (Cell){4 * (l / 32) + v, l % 32}; }
static Cell mfma32_c(int l, int v) { return (Cell){l % 32, 8 * (v / 4) + 4 * (l / 32) + v % 4}; }
static Cell mfma16_a(int l, int v) { return (Cell){l % 16, 4 * (l / 16) + v}; }
static Cell mfma16_b(int l, int v) { return (Cell){4 * (l / 16) + v, l % 16}; }
static Cell bf4_a(int l, int v) { return (Cell){l % 32, 2 * (l / 32) + v}; }
static Cell bf8_a(int l, int v) { return (Cell){l % 16, 2 * (l / 16) + v}; }
static Cell bf8_b(int l, int v) { return (Cell){2 * (l / 16) + v, l % 16}; }
static Cell k16_b(int l, int v) { return (Cell){8 * (l / 32) + v, l % 32}; }
static Cell wmma11_a(int l, int v) { return (Cell){l % 16, v}; }
/* The instruction's columns are 2 v + half; ours have the half as their third bit. */
static int wmma11_column(int column) { return column / 2 % 4 + 4 * (column % 2) + 8 * (column / 8); }
static Cell wmma11_b(int l, int v) { return (Cell){v, wmma11_column(l % 16)}; }
static Cell wmma11_c(int l, int v) { return (Cell){l % 16, wmma11_column(2 * v + l / 16)}; }
static Cell wmma12_a(int l, int v) { return (Cell){l % 16, 8 * (v / 4) + 4 * (l / 16) + v % 4}; }
static Cell wmma12_b(int l, int v) { return (Cell){8 * (v / 4) + 4 * (l / 16) + v % 4, l % 16}; }
static Cell wmma12_c(int l, int v) { return (Cell){l % 16, 8 * (l / 16) + v}; }
static Cell simdgroup(int l, int v) { return (Cell){(l / 4 & 4) + l / 2 % 4, 2 * (l / 4 & 2) + 2 * (l % 2) + v}; }
static Cell by_lane(int l, int v) { return (Cell){v, l}; }

static const struct {
    const char *atom;
    AuTileUse use;
    int registers;
    Formula formula;
} maps[] = {
    {"mma16816", TILE_C, 4, mma_c},       {"mma16816", TILE_A, 8, mma_a},       {"mma16816", TILE_B, 4, mma_b},
    {"mma81616", TILE_C, 4, narrow_c},    {"mma81616", TILE_A, 4, narrow_a},    {"mma81616", TILE_B, 8, narrow_b},
    {"mma1688", TILE_C, 4, mma_c},        {"mma1688", TILE_A, 4, mma_a},        {"mma1688", TILE_B, 2, mma_b},
    {"mma1688tf32", TILE_C, 4, mma_c},    {"mma1688tf32", TILE_A, 4, tf32_a},   {"mma1688tf32", TILE_B, 2, tf32_b},
    {"mma884", TILE_C, 8, mma884_c},      {"mma884", TILE_A, 4, mma884_a},      {"mma884", TILE_B, 4, mma884_b},
    {"wgmma", TILE_C, 4, wgmma_c},        {"wgmma", TILE_A, 8, wgmma_a},
    {"mfma32x32x8", TILE_A, 4, mfma32_a}, {"mfma32x32x8", TILE_B, 4, mfma32_b}, {"mfma32x32x8", TILE_C, 16, mfma32_c},
    {"mfma16x16x16", TILE_A, 4, mfma16_a}, {"mfma16x16x16", TILE_B, 4, mfma16_b}, {"mfma16x16x16", TILE_C, 4, mfma16_a},
    {"mfma32x32x4bf", TILE_A, 2, bf4_a},  {"mfma32x32x4bf", TILE_C, 16, mfma32_c}, {"mfma32x32x16", TILE_B, 8, k16_b},
    {"mfma16x16x8bf", TILE_A, 2, bf8_a},  {"mfma16x16x8bf", TILE_B, 2, bf8_b},  {"mfma16x16x8bf", TILE_C, 4, mfma16_a},
    {"mfma16x16x16f16", TILE_A, 4, mfma16_a}, {"mfma16x16x16f16", TILE_B, 4, mfma16_b}, {"mfma16x16x16f16", TILE_C, 4, mfma16_a},
    {"wmma11", TILE_A, 16, wmma11_a},     {"wmma11", TILE_B, 16, wmma11_b},     {"wmma11", TILE_C, 8, wmma11_c},
    {"wmma12", TILE_A, 8, wmma12_a},      {"wmma12", TILE_B, 8, wmma12_b},      {"wmma12", TILE_C, 8, wmma12_c},
    {"simdgroup8", TILE_A, 2, simdgroup}, {"simdgroup8", TILE_B, 2, simdgroup}, {"simdgroup8", TILE_C, 2, simdgroup},
    {"dpas", TILE_A, 8, by_lane},         {"dpas", TILE_B, 16, by_lane},        {"dpas", TILE_C, 8, by_lane},
    {"fma64", TILE_C, 1, by_lane},        {"fma32", TILE_C, 1, by_lane},        {"fma16", TILE_C, 1, by_lane},
    {"fma8", TILE_C, 1, by_lane},         {"fma4", TILE_C, 1, by_lane},         {"fma1", TILE_C, 1, by_lane},
    {"fma32", TILE_B, 1, by_lane},        {"fma16", TILE_B, 1, by_lane},        {"dot2", TILE_B, 2, by_lane}, {"dot2x32", TILE_B, 2, by_lane},
};
// clang-format on

static int32_t bits_of(const AuTilePlaces *p)
{
    int32_t bits = 0;
    for (int32_t i = 0; i < p->extent; i++) bits |= p->place[i];
    return bits;
}

/* Every element of one instruction is held, and where the formula says; unused lanes hold copies. */
static void test_lane_maps(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    for (size_t n = 0; n < sizeof maps / sizeof *maps; n++) {
        const AuTileAtom *atom = tile_atom(maps[n].atom);
        const bool group = atom->on >> TILE_ON_WARPGROUP & 1;
        const int32_t rows = tile_atom_extent(atom, maps[n].use, 0);
        const int32_t cols = tile_atom_extent(atom, maps[n].use, 1);
        const AuTilePlaces *r = tile_atom_places(arena, atom, maps[n].use, 0, rows);
        const AuTilePlaces *c = tile_atom_places(arena, atom, maps[n].use, 1, cols);
        assert_true(r && c);
        const int32_t used = bits_of(r) | bits_of(c);
        bool *held = AU_NEW_ARRAY(arena, bool, rows *cols);
        for (int l = 0; l < atom->lanes * (group ? 4 : 1); l++)
            for (int v = 0; v < maps[n].registers; v++) {
                const Cell cell = maps[n].formula(l, v);
                assert_true(cell.row < rows && cell.col < cols);
                const int32_t place = group ? l % 32 + l / 32 * TILE_WARP : l;
                assert_int_equal(place & used, r->place[cell.row] + c->place[cell.col]);
                held[cell.row * cols + cell.col] = true;
            }
        for (int32_t i = 0; i < rows * cols; i++) assert_true(held[i]);
    }
    au_arena_free(arena);
}

/* The forms of m8n8k4 whose lanes hold parts of columns of A, of rows of B. */
static void test_turned_maps(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    const AuTileAtom *atom = tile_atom("mma884");
    for (AuTileUse use = TILE_A; use <= TILE_B; use++) {
        const int32_t rows = tile_atom_extent(atom, use, 0), cols = tile_atom_extent(atom, use, 1);
        const AuTilePlaces *r = tile_turned_places(arena, atom, use, 0, rows),
                           *c = tile_turned_places(arena, atom, use, 1, cols);
        const int32_t used = bits_of(r) | bits_of(c);
        for (int l = 0; l < 32; l++)
            for (int v = 0; v < 4; v++) {
                const Cell cell = (use == TILE_A ? mma884_a_col : mma884_b_row)(l, v);
                assert_int_equal(l & used, r->place[cell.row] + c->place[cell.col]);
            }
    }
    au_arena_free(arena);
}

/* Register and lane of an index, as the lowering asks for them, lead back to its place. */
static void test_lane_and_register_make_the_index(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    for (uint32_t n = 0; tile_atom_at(n); n++)
        for (AuTileUse use = TILE_A; use <= TILE_C; use++)
            for (int axis = 0; axis < 2; axis++) {
                const int32_t extent = 4 * tile_atom_extent(tile_atom_at(n), use, axis);
                const AuTilePlaces *p = tile_atom_places(arena, tile_atom_at(n), use, axis, extent);
                assert_non_null(p);
                bool *seen = AU_NEW_ARRAY(arena, bool, extent);
                for (int32_t i = 0; i < extent; i++) {
                    const int32_t lane = p->place[i] % TILE_WARP, warp = p->place[i] / TILE_WARP;
                    int32_t matches = 0;
                    for (int32_t reg = 0; reg < tile_axis_registers(p); reg++)
                        matches += tile_axis_base(p, lane, warp) + tile_axis_offset(p, reg) == i;
                    assert_int_equal(matches, 1);
                    seen[i] = true;
                }
                for (int32_t i = 0; i < extent; i++) assert_true(seen[i]);
            }
    au_arena_free(arena);
}

/* May an accumulator with 32 columns (or rows) be the next product's operand as it lies: with the other operand in memory, and
 * with it in registers in the same order? */
static void test_accumulators_as_operands(void **state)
{
    (void)state;
    static const struct {
        const char *atom;
        AuTileUse use;
        bool memory, registers;
    } facts[] = {
        {"mma1688", TILE_A, true, true},       {"mma16816", TILE_A, true, true},
        {"mma1688tf32", TILE_A, true, true},   {"mma884", TILE_A, false, false},
        {"wgmma", TILE_A, true, true},         {"mfma32x32x8", TILE_A, true, true},
        {"mfma16x16x8bf", TILE_A, true, true}, {"mfma16x16x16f16", TILE_A, true, true},
        {"mfma16x16x16", TILE_A, true, true},  {"wmma12", TILE_A, true, true},
        {"wmma11", TILE_A, false, false},      {"simdgroup8", TILE_A, true, true},
        {"dpas", TILE_A, true, true},          {"fma32", TILE_B, true, true},
        {"dot2", TILE_B, true, true},
    };
    AuArena *arena = au_arena_new(NULL);
    for (size_t n = 0; n < sizeof facts / sizeof *facts; n++) {
        const AuTileAtom *atom = tile_atom(facts[n].atom);
        const bool first = facts[n].use == TILE_A;
        const AuTilePlaces *c = tile_atom_places(arena, atom, TILE_C, first ? 1 : 0, 32);
        const AuTilePlaces *other =
            tile_atom_places(arena, atom, first ? TILE_B : TILE_A, first ? 0 : 1, 32);
        if (strcmp(facts[n].atom, "wmma12") == 0 || strcmp(facts[n].atom, "mma1688tf32") == 0 ||
            strcmp(facts[n].atom, "mfma16x16x8bf") == 0)
            other = c; /* loaded in the order of the weights */
        assert_int_equal(tile_contraction_matches(atom, first ? c : NULL, first ? NULL : c, 32),
                         facts[n].memory);
        assert_int_equal(tile_contraction_matches(atom, first ? c : other, first ? other : c, 32),
                         facts[n].registers);
    }
    au_arena_free(arena);
}

/* Memory comes in the order of the other operand, unless the instruction reads it itself. */
static void test_order_of_memory(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    AuTileDigits pairs, apart, alone;
    assert_true(tile_digits("reg:2 lane:4@1", &pairs) && tile_digits("lane:4@1 reg", &apart) &&
                tile_digits("reg", &alone));
    const AuTilePlaces *neighbours = tile_places(arena, &pairs, 16),
                       *others = tile_places(arena, &apart, 16),
                       *one_lane = tile_places(arena, &alone, 16);
    const AuTileAtom *tf32 = tile_atom("mma1688tf32"), *wgmma = tile_atom("wgmma");
    assert_true(tile_contraction_matches(tf32, neighbours, NULL, 16));
    assert_true(tile_contraction_matches(tf32, NULL, neighbours, 16));
    assert_false(tile_contraction_matches(tf32, neighbours, others, 16));
    assert_false(tile_contraction_matches(tf32, one_lane, NULL, 16));
    assert_true(tile_contraction_matches(wgmma, neighbours, NULL, 16));
    assert_false(tile_contraction_matches(wgmma, others, NULL, 16));
    au_arena_free(arena);
}

static AuTileCost price(AuArena *arena, const char *name, AuTileUse from, const char *rows,
                        const char *cols, AuTileUse to)
{
    const AuTileAtom *atom = tile_atom(name);
    const AuTilePlaces *a[2], *b[2];
    for (int axis = 0; axis < 2; axis++) {
        AuTileDigits digits;
        a[axis] = tile_atom_places(arena, atom, from, axis, 64);
        b[axis] = tile_atom_places(arena, atom, to, axis, 64);
        if (!rows) continue;
        assert_true(tile_digits(axis ? cols : rows, &digits));
        b[axis] = tile_places(arena, &digits, 64);
    }
    return tile_conversion_cost(a, b, 2);
}

static void test_conversion_cost(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    assert_int_equal(price(arena, "mma16816", TILE_C, NULL, NULL, TILE_A), TILE_COST_NONE);
    assert_int_equal(price(arena, "mfma32x32x8", TILE_C, NULL, NULL, TILE_A), TILE_COST_NONE);
    assert_int_equal(price(arena, "wmma11", TILE_C, NULL, NULL, TILE_A), TILE_COST_SHUFFLE);
    assert_int_equal(price(arena, "wmma12", TILE_C, NULL, NULL, TILE_A), TILE_COST_SHUFFLE);
    assert_int_equal(price(arena, "mma16816", TILE_C, "lane:32@1", "reg", TILE_C),
                     TILE_COST_SHUFFLE);
    assert_int_equal(price(arena, "wgmma", TILE_C, "reg:4 warp:4", "lane:32@1", TILE_C),
                     TILE_COST_SHARED);
    au_arena_free(arena);
}

/* Which sums are operands as they lie, and which once lanes have exchanged them, digits and rows must say alike. */
static void test_exchanged_sums(void **state)
{
    (void)state;
    enum { EXTENT = 64 };
    AuArena *arena = au_arena_new(NULL);
    uint32_t exchanged = 0;
    for (uint32_t n = 0; tile_atom_at(n); n++) {
        const AuTileAtom *atom = tile_atom_at(n);
        const AuTilePlaces *sums = tile_atom_places(arena, atom, TILE_C, 1, EXTENT),
                           *rows = tile_atom_places(arena, atom, TILE_A, 1, EXTENT);
        if (!atom->exchanges) continue;
        exchanged++;
        assert_non_null(sums), assert_non_null(rows);
        assert_false(tile_contraction_matches(atom, sums, NULL, EXTENT));
        assert_int_equal(tile_spread_bit(sums, rows), 16);
        assert_int_equal(tile_spread_bit(rows, sums), 0);
    }
    assert_int_equal(exchanged, 1);
    const AuTileAtom *wmma12 = tile_atom("wmma12"), *mma = tile_atom("mma16816");
    assert_int_equal(tile_spread_bit(tile_atom_places(arena, wmma12, TILE_C, 1, EXTENT),
                                     tile_atom_places(arena, wmma12, TILE_A, 1, EXTENT)),
                     0);
    assert_int_equal(tile_spread_bit(tile_atom_places(arena, mma, TILE_C, 0, EXTENT),
                                     tile_atom_places(arena, mma, TILE_A, 1, EXTENT)),
                     0);
    au_arena_free(arena);
}

static void test_digits(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    AuTileDigits d;
    assert_true(tile_digits("lane:8@4 reg:2 warp:4", &d));
    const AuTilePlaces *p = tile_places(arena, &d, 128);
    assert_int_equal(p->place[9], 4);
    assert_int_equal(p->place[17], TILE_WARP + 4);
    assert_int_equal(p->lanes, 32);
    assert_null(tile_places(arena, &d, 24)); /* 8 * 2 does not divide it */
    assert_int_equal(tile_places(arena, &d, 4)->lanes, 4);
    static const char *const bad[] = {"lane:0@1", "lan:8", "lane:8@", "reg:2lane:", "lane:-4@1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(tile_digits(bad[i], &d));
    au_arena_free(arena);
}

/* Is the row that of a machine's matrices of work-groups alone? All else is made on the machine's own. */
static bool is_block_of(const AuTileCaps *caps)
{
    for (uint32_t n = 0; tile_caps_at(n); n++) {
        const char *block = tile_caps_at(n)->block;
        if (block && strcmp(block, caps->name) == 0) return true;
    }
    return false;
}

static void test_blocks(void **state)
{
    (void)state;
    uint32_t found = 0;
    for (uint32_t n = 0; tile_caps_at(n); n++) {
        const AuTileCaps *own = tile_caps_at(n), *block = own->block ? tile_caps(own->block) : NULL;
        const AuTileAtom *atom = tile_best_atom(own, TILE_F16, TILE_ON_WARP);
        assert_true(!atom || atom->of_block == is_block_of(own));
        if (!own->block) continue;
        found++;
        assert_non_null(block);
        assert_true(!block->block && block->loads == own->loads);
        assert_true(block->lanes > own->lanes && block->lanes % own->lanes == 0);
        assert_true(block->shared_bytes == own->shared_bytes && block->threads == own->threads);
        atom = tile_best_atom(block, TILE_BF16, TILE_ON_WARP);
        assert_true(atom && atom->of_block && atom->multiples && atom->by_place && atom->joins);
        assert_true(!block->exchange); /* a subgroup's lanes do, a work-group's do not */
    }
    assert_true(found > 0);
}

/* Every target's atoms exist, run on an executor it has, and fit its warps. */
static void test_targets(void **state)
{
    (void)state;
    for (uint32_t n = 0; tile_caps_at(n); n++) {
        const AuTileCaps *caps = tile_caps_at(n);
        const char *list = caps->atoms;
        while (*list) {
            const size_t length = strcspn(list, " ");
            char name[32] = {0};
            memcpy(name, list, length);
            const AuTileAtom *atom = tile_atom(name);
            assert_non_null(atom);
            assert_true(atom->on & caps->executors);
            assert_int_equal(atom->lanes, caps->lanes);
            assert_true(tile_has_atom(caps, atom));
            list += length + (list[length] == ' ');
        }
        const AuTileExecutor on = caps->has_private ? TILE_ON_THREAD : TILE_ON_WARP;
        assert_non_null(tile_best_atom(caps, TILE_F32, on));
        assert_non_null(tile_best_atom(caps, TILE_BF16, on));
    }
    assert_string_equal(tile_best_atom(tile_caps("sm_90a"), TILE_BF16, TILE_ON_WARPGROUP)->name,
                        "wgmma");
    assert_string_equal(tile_best_atom(tile_caps("avx512bf16"), TILE_BF16, TILE_ON_THREAD)->name,
                        "dot2");
    assert_string_equal(tile_best_atom(tile_caps("avx512bf16"), TILE_F32, TILE_ON_THREAD)->name,
                        "fma16");
    assert_string_equal(tile_best_atom(tile_caps("avx512amx"), TILE_BF16, TILE_ON_THREAD)->name,
                        "amx16");
    assert_string_equal(tile_best_atom(tile_caps("avx512amx"), TILE_F16, TILE_ON_THREAD)->name,
                        "fma16");
    assert_string_equal(tile_best_atom(tile_caps("gfx908"), TILE_BF16, TILE_ON_WARP)->name,
                        "mfma32x32x4bf");
    assert_string_equal(tile_best_atom(tile_caps("sm_80"), TILE_F32, TILE_ON_WARP)->name, "fma32");
    assert_string_equal(tile_rounding_atom(tile_caps("sm_80"), TILE_ON_WARP)->name, "mma1688tf32");
    assert_null(tile_rounding_atom(tile_caps("sm_75"), TILE_ON_WARP));
    assert_null(tile_caps("sm_91"));
}

/* Does a warp keep what the unit multiplies and adds in its lanes' registers? */
static bool has_unit(const AuTileCaps *caps)
{
    const AuTileAtom *a = caps->has_private ? NULL : tile_best_atom(caps, TILE_F16, TILE_ON_WARP);
    return a && a->m > 1 && !a->opaque && (!a->by_place || a->joins) && !a->is_async;
}

/* Cost models divide by rates, and a block is part of a processor. */
static void test_numbers(void **state)
{
    (void)state;
    uint32_t units = 0;
    for (uint32_t n = 0; tile_caps_at(n); n++) {
        const AuTileCaps *c = tile_caps_at(n), *rates = tile_rates(c);
        assert_non_null(rates);
        assert_null(rates->weighed_as);
        assert_true(*c->source && c->registers > 0 && c->sum_words > 0);
        assert_true(c->private_words >= c->registers);
        assert_true(c->has_private || c->shared_bytes > 0);
        assert_int_equal(c->direct_bytes > 0, (c->copies & TILE_COPIES_DIRECT) != 0);
        assert_int_equal(c->turned > 0,
                         (c->loads & (TILE_LOADS_TURNED | TILE_LOADS_TURNED_FAR)) != 0);
        assert_int_equal(c->far_held > 0, tile_takes_tensors(c));
        assert_true(c->turned == 0 || c->turned == 4 || c->turned == 8);
        assert_true(!c->pipelines || c->copies & TILE_COPIES_BULK);
        if (!has_unit(c)) continue;
        units++;
        assert_true(c->exchange & TILE_EXCHANGE_ANY || is_block_of(c));
        assert_true(c->held > 0 && c->schedulers > 0 && c->warps >= 2 * c->schedulers);
        assert_true(c->shared_bytes <= c->processor_shared - c->reserved);
        assert_true(c->threads <= c->warps * c->lanes);
        assert_true(c->registers * c->lanes * c->schedulers <= c->processor_registers);
        assert_true(c->matrix > 0 && c->fma > 0 && c->exp > 0);
        for (int side = 0; side < 2; side++) {
            const AuTileCaps *r = side ? rates : c;
            assert_true(r->shared > 0 && r->far > 0 && r->sums > 0);
            assert_true(r->latency > 0 && r->barrier > 0);
        }
    }
    assert_true(units >= 15);
    assert_int_equal(tile_share(tile_caps("sm_90"), 48), 192);
    assert_int_equal(tile_share(tile_caps("gfx942"), 48), 384);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_lane_maps),
        cmocka_unit_test(test_turned_maps),
        cmocka_unit_test(test_lane_and_register_make_the_index),
        cmocka_unit_test(test_accumulators_as_operands),
        cmocka_unit_test(test_order_of_memory),
        cmocka_unit_test(test_conversion_cost),
        cmocka_unit_test(test_exchanged_sums),
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
