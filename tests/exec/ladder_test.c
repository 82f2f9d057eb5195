/* ladder_test.c - the rungs between the oracle and the devices: every softmax-family script on the
 * interpreters of the tiled IR and of the kernel IR, for every architecture that code is generated
 * for. The first rung that disagrees names the guilty layer. ladder_test SCRIPTS [quick|all] [NAME]: scripts whose name has it, cases of that word,
 * or the rung of that name */
#include "ladder_cases.h"
#include "ladder_far.h"
#include "ladder_latent.h"
#include "ladder_mixed.h"
#include "ladder_chunk.h"
#include "ladder_neighbours.h"
#include "ladder_stored.h"
#include "ladder_waves.h"

#include <stdio.h>
#include <string.h>

/* Rungs whose programs differ from another's in numbers of registers alone: every third case, but for `all`. */
static bool is_alike(const char *rung)
{
    static const char *const alike[] = {":x86-64-v3",    ":aarch64",        ":generic",
                                        "tiled-ir:sm_7", "passed-ir:sm_7",  "kernel-ir:sm_75",
                                        "tiled-ir:x86",  "kernel-ir:sm_90", "-amx"};
    for (size_t n = 0; n < sizeof alike / sizeof *alike; n++)
        if (strstr(rung, alike[n])) return true;
    return false;
}

/* Which operand types of a case: one, another at each rung; f32 too if [all]; at matrix units of bf16 that
 * only; on warps the two that their units take. */
static bool takes(unsigned rung, unsigned n, unsigned dtype, bool quick, bool all)
{
    if (cases[n].how && strstr(cases[n].how, "slow") && (quick || !strstr(rungs[rung], ":sm_")))
        return false;
    if (strstr(rungs[rung], "v4-bf16")) return dtype == 2; /* else as without */
    if (strstr(rungs[rung], "amx")) return dtype == 2 && (!quick || n >= WIDE);
    if (strstr(rungs[rung], ":sm_"))
        return n + 1 < sizeof cases / sizeof *cases &&
               dtype == 1 + (n + rung) % 2; /* the last has too wide heads */
    if (quick) return dtype == n % 3 && n < WIDE;
    return dtype == (n + rung) % 3 || (all && dtype == 0);
}

/* tf32 where the architecture has it, at one rung of each IR; not what it refuses: sums of inputs in one order, the widest heads,
 * further products whose gradient is not the score's. */
static bool takes_tf32(unsigned rung, unsigned n, bool quick)
{
    const char *how = cases[n].how ? cases[n].how : "";
    return strstr(rungs[rung], ":sm_80") && !strstr(how, "slow") && !strstr(how, "repeat") &&
           strcmp(cases[n].script, UNSEEN) != 0 && n + 2 < sizeof cases / sizeof *cases &&
           (!quick || n % 4 == 0);
}

/* [only]: NULL, or what the caller asks for. */
static bool wants(const char *only, const char *rung, const ExecCase *c)
{
    return !only || strcmp(only, rung) == 0 || strstr(c->script, only) ||
           (c->how && strstr(c->how, only));
}

/* What was asked for, and which rung it is. */
typedef struct Rung {
    bool quick, all;
    const char *only, *name;
    unsigned number;
} Rung;
static const char *const dtypes[] = {"f32", "f16", "bf16", "tf32"};

static const char *of_rung(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    const unsigned of_each = r->quick ? 2 : !r->all && is_alike(r->name) ? 3 : 1;
    if ((n + r->number) % of_each || !wants(r->only, r->name, &cases[n])) return NULL;
    return (turn == 3 ? takes_tf32(r->number, n, r->quick)
                      : takes(r->number, n, turn, r->quick, r->all))
               ? dtypes[turn]
               : NULL;
}

static const char *of_group(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    const bool slow = cases[n].how && strstr(cases[n].how, "slow");
    if (turn || !wants(r->only, r->name, &cases[n])) return NULL;
    if (r->quick ? slow || n % 8 != r->number : !r->all && r->number && n % 2) return NULL;
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_wide(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || (r->quick && n != r->number) || !wants(r->only, r->name, &wide_cases[n]))
        return NULL;
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_decode(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    const unsigned of_each = r->quick ? 3 : 1;
    if (turn || (n + r->number) % of_each || !wants(r->only, r->name, &decode_cases[n]))
        return NULL;
    return dtypes[(n + r->number) % 3];
}

/* Of four rungs the quick round has a case at one, the usual one at two. */
static bool is_of_others(const Rung *r, unsigned n)
{
    return r->quick ? n % 4 != r->number : !r->all && (n + r->number) % 2;
}

static const char *of_packed(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || is_of_others(r, n) || !wants(r->only, r->name, &packed_cases[n])) return NULL;
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_back(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || is_of_others(r, n) || !wants(r->only, r->name, &back_cases[n])) return NULL;
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_pages(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || is_of_others(r, n) || !wants(r->only, r->name, &page_cases[n])) return NULL;
    if (strstr(r->name, "generic")) return dtypes[(n + r->number) % 3];
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_groups(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || is_of_others(r, n) || !wants(r->only, r->name, &group_cases[n])) return NULL;
    if (strstr(r->name, "generic")) return dtypes[(n + r->number) % 3];
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_latent(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || is_of_others(r, n) || !wants(r->only, r->name, &latent_cases[n])) return NULL;
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_rows(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || is_of_others(r, n) || !wants(r->only, r->name, &row_cases[n])) return NULL;
    return strstr(r->name, "sm_70") ? "f16" : dtypes[1 + (n + r->number) % 2];
}

static const char *of_few(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    const bool others = r->quick ? n % 7 != r->number : !r->all && !r->only && (n + r->number) % 2;
    const bool warps =
        strstr(few_cases[n].how, "warps") != NULL; /* rows that no processor has in one block */
    if (turn || others || !wants(r->only, r->name, &few_cases[n])) return NULL;
    if (warps && strstr(r->name, "x86")) return NULL;
    return strstr(r->name, ":sm_") ? dtypes[1 + (n + r->number) % 2] : dtypes[(n + r->number) % 3];
}

static const char *of_balanced(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    const bool others = r->quick ? n % 6 != r->number : !r->all && !r->only && n % 3 != r->number;
    if (turn || others || !wants(r->only, r->name, &balanced_cases[n])) return NULL;
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_mixed(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    const bool others = r->quick ? n % 5 != r->number : !r->all && !r->only && (n + r->number) % 2;
    if (turn || others || !wants(r->only, r->name, &mixed_cases[n])) return NULL;
    if (strstr(r->name, "amx")) return "bf16";
    return strstr(r->name, ":sm_") ? dtypes[1 + (n + r->number) % 2] : dtypes[(n + r->number) % 3];
}

static const char *of_chunk(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    const bool others = r->quick ? n % 5 != r->number : !r->all && !r->only && (n + r->number) % 2;
    if (turn || others || !wants(r->only, r->name, &chunk_cases[n])) return NULL;
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_neighbours(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    const bool others = r->quick ? n % 7 != r->number : !r->all && !r->only && (n + r->number) % 2;
    if (turn || others || !wants(r->only, r->name, &neighbour_cases[n])) return NULL;
    return strstr(r->name, ":generic") || strstr(r->name, "-v4") ? dtypes[(n + r->number) % 3]
                                                                 : dtypes[1 + (n + r->number) % 2];
}

static const char *of_stored(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    const bool all = r->all || r->only;
    if (turn || (!all && (n + r->number) % (r->quick ? 5 : 2)) ||
        !wants(r->only, r->name, &stored_cases[n]))
        return NULL;
    if (strstr(r->name, "sm_70")) return "f16";
    if (strstr(r->name, "amx")) return "bf16";
    return strstr(r->name, ":sm_") ? dtypes[1 + (n + r->number) % 2] : dtypes[(n + r->number) % 3];
}

static const char *of_row_gradients(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    const bool planted =
        r->only && strcmp(r->only, "planted") == 0; /* a third of them, for each mistake */
    const bool others = planted    ? (n + r->number) % 3
                        : r->quick ? n % 6 != r->number
                                   : is_of_others(r, n);
    if (turn || others || !wants(r->only, r->name, &row_gradients[n])) return NULL;
    if (strstr(r->name, "sm_90a")) return dtypes[2 - n % 2]; /* whose groups take no f32 */
    return strstr(r->name, "sm_70") ? "f16" : dtypes[(n + r->number) % 3];
}

static const char *of_parts(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    const bool warps = strstr(r->name, ":sm_");
    if (turn || (r->quick && n > 2) || !wants(r->only, r->name, &part_cases[n])) return NULL;
    return dtypes[warps ? 1 + (n + r->number) % 2 : (n + r->number) % 3];
}

static const char *of_wave(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || (r->quick && n) || !wants(r->only, r->name, &wave_cases[n])) return NULL;
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_narrow(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || (r->quick && n) || !wants(r->only, r->name, &narrow_cases[n])) return NULL;
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_direct(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || (r->quick && n) || !wants(r->only, r->name, &direct_cases[n])) return NULL;
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_far(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || (r->quick && n > 1) || !wants(r->only, r->name, &far_cases[n])) return NULL;
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_own(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || (r->quick && n) || !wants(r->only, r->name, &own_cases[n])) return NULL;
    return dtypes[1 + (n + r->number) % 2];
}

static const char *of_core(const void *of, unsigned n, unsigned turn)
{
    const Rung *r = of;
    if (turn || !wants(r->only, r->name, &core_cases[n])) return NULL;
    return r->number && n % 2 ? dtypes[n / 2 % 2] : "bf16";
}

#define COUNT(array) (sizeof(array) / sizeof *(array))
static const struct {
    const char *const *rungs;
    unsigned count, quick; /* all of them, and in the quick round */
    const ExecCase *cases;
    unsigned case_count;
    ExecChoice *choose;
} rounds[] = {
    {rungs, COUNT(rungs), 9, cases, COUNT(cases), of_rung},
    {groups, COUNT(groups), COUNT(groups), cases, COUNT(cases) - 1, of_group},
    {groups, 1, 1, wide_cases, COUNT(wide_cases), of_wide},
    {processors, COUNT(processors), 1, decode_cases, COUNT(decode_cases), of_decode},
    {packed_rungs, COUNT(packed_rungs), 4, packed_cases, COUNT(packed_cases), of_packed},
    {back_rungs, COUNT(back_rungs), 4, back_cases, COUNT(back_cases), of_back},
    {page_rungs, COUNT(page_rungs), 4, page_cases, COUNT(page_cases), of_pages},
    {group_rungs, COUNT(group_rungs), 4, group_cases, COUNT(group_cases), of_groups},
    {latent_rungs, COUNT(latent_rungs), 4, latent_cases, COUNT(latent_cases), of_latent},
    {row_rungs, COUNT(row_rungs), 4, row_cases, COUNT(row_cases), of_rows},
    {few_rungs, COUNT(few_rungs), COUNT(few_rungs), few_cases, COUNT(few_cases), of_few},
    {balanced_rungs, COUNT(balanced_rungs), 2, balanced_cases, COUNT(balanced_cases), of_balanced},
    {mixed_rungs, COUNT(mixed_rungs), 5, mixed_cases, COUNT(mixed_cases), of_mixed},
    {chunk_rungs, COUNT(chunk_rungs), 3, chunk_cases, COUNT(chunk_cases), of_chunk},
    {neighbour_rungs, COUNT(neighbour_rungs), 7, neighbour_cases, COUNT(neighbour_cases),
     of_neighbours},
    {stored_rungs, COUNT(stored_rungs), 5, stored_cases, COUNT(stored_cases), of_stored},
    {gradient_rungs, COUNT(gradient_rungs), 2, row_gradients, COUNT(row_gradients),
     of_row_gradients},
    {part_rungs, COUNT(part_rungs), 3, part_cases, COUNT(part_cases), of_parts},
    {waves, COUNT(waves), 3, wave_cases, COUNT(wave_cases), of_wave},
    {narrow_rungs, COUNT(narrow_rungs), 1, narrow_cases, COUNT(narrow_cases), of_narrow},
    {direct_rungs, COUNT(direct_rungs), 1, direct_cases, COUNT(direct_cases), of_direct},
    {far_rungs, COUNT(far_rungs), 1, far_cases, COUNT(far_cases), of_far},
    {own_rungs, COUNT(own_rungs), 1, own_cases, COUNT(own_cases), of_own},
    {tensor_rungs, COUNT(tensor_rungs), 1, own_cases, COUNT(own_cases), of_own},
    {tensor_rungs, COUNT(tensor_rungs), 1, far_cases, COUNT(far_cases), of_far},
    {cores, COUNT(cores), COUNT(cores), core_cases, COUNT(core_cases), of_core},
};

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    Rung r = {.quick = argc > 2 && strcmp(argv[2], "quick") == 0,
              .all = argc > 2 && strcmp(argv[2], "all") == 0};
    const int at = 2 + (r.quick || r.all);
    ExecTally tally = {0};
    r.only = argc > at ? argv[at] : NULL;
    for (unsigned n = 0; n < COUNT(rounds); n++)
        for (r.number = 0; r.number < (r.quick ? rounds[n].quick : rounds[n].count); r.number++) {
            r.name = rounds[n].rungs[r.number];
            if (!exec_all(&tally, r.name, argv[1], rounds[n].cases, rounds[n].case_count,
                          rounds[n].choose, &r))
                return 1;
        }
    return exec_report(&tally);
}
