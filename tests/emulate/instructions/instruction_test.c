/* instruction_test.c - single instructions, with hard and random operands and modifiers, executed by the emulator and as their C meaning says
 * (lane_meanings.def, scalar_meanings.def, masks.c, pairs.c: from the ISA documents): `emulate_instruction_test [SEED [FORMS]]`, so many forms of an instruction a
 * machine. Registers, VCC, EXEC, SCC and M0 must be the same after each; what an instruction has no result in, too. A form that the machine's
 * assembler refuses is left out; that no instruction of the emulator's tables is without a meaning, or a reason why, is tested. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "assemble.h"
#include "data.h"
#include "emulate.h"
#include "known.h"

static uint64_t seed = 1;
static uint32_t forms_each = 6;
enum { RUNS = 2 }; /* of a form, each with other numbers */

static const Machine machines[] = {
    {"gfx908", GFX9, 64, true},    {"gfx90a", GFX9, 64, true},   {"gfx942", GFX9, 64, false},
    {"gfx950", GFX9, 64, false},   {"gfx1030", GFX10, 32, true}, {"gfx1100", GFX11, 32, false},
    {"gfx1200", GFX12, 32, false},
};

/* ---- numbers */

static uint32_t draw_word(Random *r)
{
    static const uint32_t hard[] = {
        0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x807fffff, 0x00800000,
        0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
        0xffc12345, 0x7fffffff, 0xffffffff, 0x7ffffffe, 0x40490fdb, 0x477fe000, 0x477ff000,
        0x33800000, 0x4f000000, 0xcf000000, 0x4f800000, 0x3effffff, 0x00010000, 0x00008000,
        0x7f000000, 0x01000000, 0xbf000000, 0x3fc00000};
    static const uint16_t halves[] = {0,      0x8000, 1,      0x8001, 0x03ff, 0x0400,
                                      0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
                                      0x7e00, 0xffff, 0x3bff, 0x3800, 0x1400, 0x0200};
    const uint32_t all = draw(r, 65536) << 16 | draw(r, 65536);
    switch (draw(r, 7)) {
    case 0: return hard[draw(r, sizeof hard / sizeof *hard)];
    case 1: return halves[draw(r, 18)] | (uint32_t)halves[draw(r, 18)] << 16;
    case 2: return draw(r, 2) ? draw(r, 70) : -draw(r, 70);
    case 3: return (all & 0x807fffff) | (120 + draw(r, 20)) << 23; /* reals near 1 */
    case 4: return draw(r, 65536) << 16 | (draw(r, 2) ? halves[draw(r, 18)] : draw(r, 65536));
    default: return all;
    }
}

/* Signalling NaN are quiet: what becomes of them is said by modes that are not tried. */
static uint32_t quiet(uint32_t word)
{
    if ((word & 0x7c00) == 0x7c00 && (word & 0x3ff)) word |= 0x200;
    if ((word & 0x7c000000) == 0x7c000000 && (word & 0x3ff0000)) word |= 0x2000000;
    if ((word & 0x7f800000) == 0x7f800000 && (word & 0x7fffff)) word |= 0x400000;
    return word;
}

static void draw_state(State *s, const Machine *m, Random *r)
{
    static const uint32_t above[] = {0x3ff00000, 0xbff00000, 0x41e00000, 0xc1e00000, 0x7ff00000,
                                     0xfff80000, 0,          0x80000000, 0x00000001, 0x43e00000};
    const bool whole = draw(r, 3) == 0;
    memset(s, 0, sizeof *s);
    for (unsigned lane = 0; lane < WIDEST; lane++)
        for (unsigned n = 0; n < VECTORS; n++)
            s->v[lane][n] = n % 2 && draw(r, 8) == 0 ? above[draw(r, 10)]
                            : n && draw(r, 8) == 0   ? s->v[lane][n - 1]
                                                     : quiet(draw_word(r));
    for (unsigned n = 0; n < SCALARS; n++) s->s[n] = quiet(draw_word(r));
    for (unsigned n = 0; n < 2; n++) {
        s->vcc[n] = draw(r, 65536) << 16 | draw(r, 65536);
        s->exec[n] = whole ? ~0u : draw(r, 8) == 0 ? 0 : draw(r, 65536) << 16 | draw(r, 65536);
    }
    if (m->lanes == 32 && whole) s->exec[1] = 0;
    s->scc = draw(r, 2);
    s->m0 = draw_word(r);
}

/* ---- comparisons */

static bool is_nan32(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }

static bool same_half(uint32_t a, uint32_t b, uint32_t infinity)
{
    const uint32_t size = infinity | (infinity == 0x7c00 ? 0x3ff : 0x7f);
    return a == b || ((a & size) > infinity && (b & size) > infinity);
}

static bool same_real(uint32_t a, uint32_t b, Kind kind)
{
    const double x = real_of(a), y = real_of(b);
    if (a == b || (is_nan32(a) && is_nan32(b))) return true;
    if (kind == REAL || is_nan32(a) || is_nan32(b)) return false;
    if (kind == SINE) return fabs(x - y) <= 0x1p-18;
    return labs((long)(a & 0x7fffffff) - (long)(b & 0x7fffffff)) <= 1 && a >> 31 == b >> 31;
}

static bool same_word(uint32_t a, uint32_t b, Kind kind)
{
    const uint32_t infinity = kind == BRAINS ? 0x7f80 : 0x7c00;
    if (kind == HALVES || kind == BRAINS)
        return same_half(a & 0xffff, b & 0xffff, infinity) && same_half(a >> 16, b >> 16, infinity);
    return kind == BITS ? a == b : same_real(a, b, kind);
}

static bool same_wide(const uint32_t *a, const uint32_t *b)
{
    const bool nan_a = (a[1] & 0x7fffffff) + (a[0] != 0) > 0x7ff00000,
               nan_b = (b[1] & 0x7fffffff) + (b[0] != 0) > 0x7ff00000;
    return (a[0] == b[0] && a[1] == b[1]) || (nan_a && nan_b);
}

static unsigned errors, checked;
static bool quiet_errors;

static void complain(const Form *f, const char *format, ...)
{
    va_list arguments;
    if (errors++ > 60 || quiet_errors) return;
    printf("%s, %s: ", f->machine->name, f->text);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

static bool compare_lanes(const Form *f, const State *before, const State *said, const State *got)
{
    for (unsigned lane = 0; lane < f->machine->lanes; lane++)
        for (unsigned n = 0; n < VECTORS; n++) {
            const Kind kind = (Kind)f->kinds[n];
            if (f->unsaid[n] >> lane & 1) continue;
            const bool same = kind == REAL64 ? same_wide(&said->v[lane][n], &got->v[lane][n])
                                             : same_word(said->v[lane][n], got->v[lane][n], kind);
            if (!same) {
                const uint32_t *x = before->v[lane];
                complain(f, "v%u of lane %u is 0x%08x, not 0x%08x; of 0x%08x, 0x%08x, 0x%08x",
                         n + FIRST_V, lane, (unsigned)got->v[lane][n], (unsigned)said->v[lane][n],
                         (unsigned)x[f->source[0].reg % VECTORS],
                         (unsigned)x[f->source[1].reg % VECTORS],
                         (unsigned)x[f->source[2].reg % VECTORS]);
                return false;
            }
            n += kind == REAL64;
        }
    return true;
}

static bool compare_states(const Form *f, const State *before, const State *said, const State *got)
{
    if (!compare_lanes(f, before, said, got)) return false;
    for (unsigned n = 0; n < SCALARS; n++)
        if (!same_word(said->s[n], got->s[n], n == f->to ? (Kind)f->scalar_kind : BITS)) {
            complain(f, "s%u is 0x%08x, not 0x%08x; of 0x%08x, 0x%08x, SCC %u", n + FIRST_S,
                     (unsigned)got->s[n], (unsigned)said->s[n],
                     (unsigned)before->s[f->source[0].reg % SCALARS],
                     (unsigned)before->s[f->source[1].reg % SCALARS], (unsigned)before->scc);
            return false;
        }
    if (said->scc != got->scc || said->m0 != got->m0)
        return complain(f, "SCC is %u, not %u; M0 0x%x, not 0x%x; of s 0x%x, 0x%x",
                        (unsigned)got->scc, (unsigned)said->scc, (unsigned)got->m0,
                        (unsigned)said->m0, (unsigned)before->s[f->source[0].reg % SCALARS],
                        (unsigned)before->s[f->source[1].reg % SCALARS]),
               false;
    for (unsigned n = 0; n < (f->machine->lanes == 64 ? 2u : 1u); n++)
        if (said->vcc[n] != got->vcc[n] || said->exec[n] != got->exec[n])
            return complain(f, "VCC is 0x%08x, not 0x%08x; EXEC 0x%08x, not 0x%08x; was 0x%08x",
                            (unsigned)got->vcc[n], (unsigned)said->vcc[n], (unsigned)got->exec[n],
                            (unsigned)said->exec[n], (unsigned)before->exec[n]),
                   false;
    return true;
}

/* ---- runs */

static bool inside(void *context, uint64_t address, size_t bytes)
{
    const Arguments *a = context;
    return (address >= a->before && address + bytes <= a->before + sizeof(State)) ||
           (address >= a->after && address + bytes <= a->after + sizeof(State));
}

static bool run_form(Emulator *e, Form *f, uint32_t number, Random *r)
{
    State before, said, got;
    draw_state(&before, f->machine, r);
    said = before;
    got = before;
    Arguments arguments = {(uintptr_t)&before, (uintptr_t)&got, number, 0};
    const EmuLaunch launch = {.kernel = "k",
                              .grid = {1, 1, 1},
                              .block = {f->machine->lanes, 1, 1},
                              .arguments = &arguments,
                              .seed = 1,
                              .inside = inside,
                              .context = &arguments};
    memset(f->unsaid, 0, sizeof f->unsaid);
    f->meaning->apply(f, &before, &said);
    checked++;
    if (!emu_run(e, &launch)) return complain(f, "stopped: %s", emu_error(e)), false;
    return compare_states(f, &before, &said, &got);
}

typedef const Meaning *Table(void);
static Table *const tables[] = {meanings_of_lanes, meanings_of_scalars, meanings_of_masks,
                                meanings_of_pairs};
enum { TABLES = sizeof tables / sizeof *tables, MOST_NAMES = 700 };

/* Meanings whose instruction some machine took. */
static bool taken[TABLES][MOST_NAMES];

/* Newer names of the same, where the assembler does not take the older. */
static const char *newer_name(const Machine *m, const char *name)
{
    static const struct {
        const char *name, *newer;
        Generation from;
    } names[] = {{"v_addc_co_u32", "v_add_co_ci_u32", GFX10},
                 {"v_subb_co_u32", "v_sub_co_ci_u32", GFX10},
                 {"v_subbrev_co_u32", "v_subrev_co_ci_u32", GFX10},
                 {"v_add_u32", "v_add_nc_u32", GFX10},
                 {"v_sub_u32", "v_sub_nc_u32", GFX10},
                 {"v_subrev_u32", "v_subrev_nc_u32", GFX10}};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (strcmp(name, names[n].name) == 0 && m->generation >= names[n].from)
            return names[n].newer;
    return name;
}

typedef struct World {
    Bench b;
    const Machine *machine;
    Random random;
    Form *forms;
    bool *refused;
    uint32_t count;
    Emulator *emulator;
} World;

/* [each] forms of every row, or of the row of this name. */
static void make_forms(World *w, uint32_t each, const char *only)
{
    uint32_t rows = 0;
    for (size_t t = 0; t < TABLES; t++)
        for (const Meaning *row = tables[t](); row->name; row++) rows++;
    w->forms = calloc((size_t)rows * each, sizeof *w->forms);
    for (size_t t = 0; t < TABLES; t++)
        for (const Meaning *row = tables[t](); row->name; row++)
            for (uint32_t n = 0; n < each && (!only || strcmp(only, row->name) == 0); n++) {
                Form *f = &w->forms[w->count++];
                *f = (Form){.meaning = row,
                            .machine = w->machine,
                            .table = (uint8_t)t,
                            .row = (uint16_t)(row - tables[t]()),
                            .rows = 15,
                            .banks = 15};
                row->make(f, newer_name(w->machine, row->name), &w->random);
            }
}

static World world_new(const Machine *m, uint32_t each, const char *only)
{
    World w = {.b = bench_new(), .machine = m, .random = {seed * 7919 + (uint64_t)(m - machines)}};
    AuText shown = {.arena = w.b.arena};
    AuBlob code = {0};
    char why[256] = "";
    make_forms(&w, each, only);
    w.refused = AU_NEW_ARRAY(w.b.arena, bool, w.count);
    if (!assemble(w.b.arena, w.b.diags, m, w.forms, w.count, w.refused, &code)) {
        au_diags_render(w.b.diags, &shown);
        fail_msg("%s", au_text_str(&shown));
    }
    w.emulator = emu_new(code.bytes, why, sizeof why);
    if (!w.emulator) fail_msg("%s: %s", m->name, why);
    return w;
}

static void world_free(World *w)
{
    emu_free(w->emulator);
    free(w->forms);
    bench_free(&w->b);
}

/* How many forms the assembler took. */
static uint32_t run_forms(World *w, int runs)
{
    uint32_t kept = 0;
    for (uint32_t n = 0; n < w->count; n++) {
        if (w->refused[n]) continue;
        kept++;
        taken[w->forms[n].table][w->forms[n].row] = true;
        for (int run = 0; run < runs && run_form(w->emulator, &w->forms[n], n, &w->random); run++)
            continue;
    }
    return kept;
}

/* Rows of s_..._saveexec are of both widths. */
static bool is_name(const char *name, const char *row)
{
    const size_t length = strlen(row);
    return strcmp(name, row) == 0 || (strstr(row, "saveexec") && strncmp(name, row, length) == 0 &&
                                      strncmp(name + length, "_b", 2) == 0);
}

/* Every instruction of the emulator that has a plain meaning was tried. */
static void test_all_known(void **state)
{
    unsigned missing = 0;
    (void)state;
    for (unsigned n = 0; known_name(n); n++) {
        bool has = known_without_meaning(n);
        for (size_t t = 0; t < TABLES && !has; t++)
            for (unsigned i = 0; tables[t]()[i].name && !has; i++)
                has = taken[t][i] && is_name(known_name(n), tables[t]()[i].name);
        if (!has) printf("%s was not tried\n", known_name(n)), missing++;
    }
    assert_int_equal(missing, 0);
}

/* Of each kind of modifier the machine's assembler took some. */
static void expect_modifiers(const World *w)
{
    unsigned parts = 0, moved = 0, clamped = 0, upper = 0, negated = 0, multiplied = 0;
    for (uint32_t n = 0; n < w->count; n++) {
        const Form *f = &w->forms[n];
        if (w->refused[n]) continue;
        parts += f->sdwa, moved += f->dpp != 0, clamped += f->clamp, upper += f->high,
            negated += f->source[0].neg, multiplied += f->omod != 0;
    }
    assert_true((parts > 0) == w->machine->sdwa);
    printf("%s: parts %u, lanes moved %u, clamped %u, upper halves %u, negated %u, multiplied %u\n",
           w->machine->name, parts, moved, clamped, upper, negated, multiplied);
    assert_true(moved && clamped && negated && multiplied);
    assert_true(upper || w->machine->generation < GFX11);
}

static void test_machines(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof machines / sizeof *machines; n++) {
        World w = world_new(&machines[n], forms_each, NULL);
        const uint32_t kept = run_forms(&w, RUNS);
        expect_modifiers(&w);
        printf("%s: %u of %u forms\n", machines[n].name, (unsigned)kept, (unsigned)w.count);
        world_free(&w);
    }
    printf("%u runs, %u wrong\n", checked, errors);
    assert_int_equal(errors, 0);
}

/* ---- mistakes: an instruction that means what another does, and one whose sources are exchanged in the emulator, are found */

static const Meaning *meaning_of(const char *name)
{
    for (size_t t = 0; t < TABLES; t++)
        for (const Meaning *row = tables[t](); row->name; row++)
            if (strcmp(row->name, name) == 0) return row;
    fail_msg("no meaning of %s", name);
    return NULL;
}

static void test_other_meanings(void **state)
{
    static const struct {
        const char *name, *other;
    } mistakes[] = {{"v_bfe_i32", "v_bfe_u32"},
                    {"v_med3_f32", "v_max3_f32"},
                    {"v_mul_hi_i32", "v_mul_hi_u32"},
                    {"v_cmp_nlt_f32", "v_cmp_ge_f32"},
                    {"v_cmp_lt_i32", "v_cmp_lt_u32"},
                    {"v_fma_f32", "v_max3_f32"},
                    {"s_min_i32", "s_min_u32"},
                    {"s_addc_u32", "s_add_u32"},
                    {"v_pk_max_f16", "v_pk_min_f16"},
                    {"v_rcp_f32", "v_rsq_f32"},
                    {"v_ffbh_u32", "v_ffbl_b32"},
                    {"v_addc_co_u32", "v_add_co_u32"},
                    {"v_fma_mixlo_f16", "v_fma_mix_f32"},
                    {"s_bfe_i32", "s_bfe_u32"},
                    {"ds_bpermute_b32", "ds_permute_b32"},
                    {"v_dot2_f32_f16", "v_pk_fma_f16"}};
    unsigned missed = 0;
    (void)state;
    quiet_errors = true;
    for (size_t n = 0; n < sizeof mistakes / sizeof *mistakes; n++) {
        World w = world_new(&machines[2], 8, mistakes[n].name);
        const unsigned before = errors;
        const Meaning *other = meaning_of(mistakes[n].other);
        for (uint32_t i = 0; i < w.count; i++) w.forms[i].meaning = other;
        run_forms(&w, 8);
        if (errors == before)
            printf("not found: %s as %s\n", mistakes[n].name, mistakes[n].other), missed++;
        errors = before;
        world_free(&w);
    }
    quiet_errors = false;
    assert_int_equal(missed, 0);
}

static void test_planted(void **state)
{
    static const char *const names[] = {"v_sub_f32",  "v_lshlrev_b32", "v_bfi_b32",
                                        "s_bfm_b32",  "s_sub_u32",     "v_cmp_lt_f32",
                                        "v_perm_b32", "v_cndmask_b32"};
    static const EmuMistake mistakes[] = {EMU_REMOVED, EMU_SHIFTED};
    unsigned missed = 0;
    (void)state;
    quiet_errors = true;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (size_t m = 0; m < 2; m++) {
            World w = world_new(&machines[5], 4, names[n]);
            const unsigned before = errors;
            assert_true(emu_plant(w.emulator, "k", names[n], 0, mistakes[m]));
            run_forms(&w, 4);
            if (errors == before)
                printf("not found: %s, mistake %d\n", names[n], (int)mistakes[m]), missed++;
            errors = before;
            world_free(&w);
        }
    quiet_errors = false;
    assert_int_equal(missed, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) seed = strtoull(argv[1], NULL, 10);
    if (argc > 2) forms_each = (uint32_t)strtoul(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machines), cmocka_unit_test(test_all_known),
        cmocka_unit_test(test_other_meanings), cmocka_unit_test(test_planted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
