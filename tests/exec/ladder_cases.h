/* ladder_cases.h - what ladder_test.c runs: tables of cases, and the rungs on which each table is executed. */
#ifndef AU_TESTS_LADDER_CASES_H
#define AU_TESTS_LADDER_CASES_H

#include "exec.h"

#include <stddef.h>

// clang-format off
#define UNSEEN    "../../exec/scripts/unseen.attn"
#define PAIR_BIAS "../../../attn_scripts/pair_bias.attn"
#define BAND "../../exec/scripts/band.attn"
#define BOUNDED "../../exec/scripts/bounded_mask.attn"
#define BOUNDED_RUNS "../../exec/scripts/bounded_runs.attn"
#define CAPPED_BIAS "../../exec/scripts/capped_bias.attn"
#define LOW "../../exec/sums/low.attn"
#define EMPTY "../../exec/scripts/empty_rows.attn"
#define EMPTY_OF_PLAIN "../../exec/scripts/empty_plain_rows.attn"
#define HIDDEN "../../exec/scripts/hidden_rows.attn"
#define FURTHER "../../exec/scripts/further_rows.attn"
#define SHARED_FURTHER "../../exec/scripts/shared_further.attn"
#define ODD_FURTHER "../../exec/scripts/odd_further.attn"
#define KEYS_AS_VALUES "../../exec/scripts/keys_as_values.attn"
static const ExecCase cases[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=21 T=37 D=16 E=24", NULL, "nan odd dfinals"},
    {"mha.attn", "B=1 H=1 Hk=1 S=1 T=1 D=8 E=8", NULL, NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=70 T=9 D=16 E=16", NULL, NULL},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=90 T=150 D=16 E=16", "window=20", NULL},
    {"documents_bias_sink.attn", "B=1 H=2 S=140 T=140 D=16 E=16", NULL, "sorted"},
    {"dropout.attn", "B=1 H=2 Hk=1 S=19 T=23 D=16 E=16", "rate=0.25 seed=987654321", NULL},
    {"gated_qknorm.attn", "B=1 H=2 Hk=1 S=13 T=21 D=16", NULL, "odd"},
    {"mla_train.attn", "B=1 H=2 S=17 T=19 D=16 E=8 P=8", NULL, NULL},
    {"sigmoid.attn", "B=1 H=1 S=13 T=41 D=16 E=16", NULL, NULL},
    {"relu.attn", "B=1 H=1 S=10 T=70 D=16 E=16", NULL, NULL},
    {"retention.attn", "B=1 H=1 S=30 T=30 D=16 E=16", NULL, NULL},
    {"gemma_local.attn", "B=2 H=2 Hk=1 S=70 T=70 D=16 E=16", "window=20", "repeat"},
    {"../../../attn_scripts/softcap.attn", "B=1 H=2 Hk=1 S=90 T=110 D=64 E=32", "cap=3.0", "nan"},
    {"gated_qknorm.attn", "B=2 H=2 Hk=1 S=13 T=21 D=16", NULL, "repeat"},
    /* dQ by blocks of its own queries: several of each, tails, windows, lists, rows far below 0, NaN that is not to be seen */
    {"mha.attn", "B=1 H=4 Hk=2 S=197 T=301 D=64 E=64", NULL, "nan repeat dfinals ordered"},
    {"../../../attn_scripts/sliding_window.attn", "B=1 H=2 Hk=1 S=40 T=150 D=32 E=32", "window=20", "unseen repeat ordered"},
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=140 D=256 E=256", NULL, "nan repeat dfinals ordered"},
    {"mha.attn", "B=1 H=2 Hk=1 S=133 T=140 D=80 E=112", NULL, "nan repeat ordered"},
    {"mha.attn", "B=1 H=2 Hk=1 S=133 T=140 D=112 E=80", NULL, "nan dfinals"},
    {"../../../attn_scripts/alibi.attn", "B=1 H=2 S=140 T=133 D=80 E=80", NULL, "unseen"},
    {"../../../attn_scripts/tree.attn", "B=1 H=2 Hk=1 S=140 T=150 D=16 E=16", NULL, "repeat ordered"},
    {"../../../attn_scripts/sliding_window.attn", "B=1 H=2 Hk=1 S=150 T=70 D=192 E=128", "window=20", "unseen repeat ordered"},
    {"../../../attn_scripts/documents.attn", "B=1 H=2 S=200 T=200 D=64 E=64", NULL, "sorted repeat"},
    {"dropout.attn", "B=1 H=2 Hk=1 S=139 T=153 D=32 E=64", "rate=0.25 seed=987654321", "repeat"},
    {"../../../attn_scripts/softcap.attn", "B=1 H=2 Hk=1 S=150 T=170 D=128 E=128", "cap=3.0", "nan repeat"},
    {"retention_decay.attn", "B=1 H=2 S=31 T=31 D=16 E=24", NULL, "dfinals"},
    /* distances of positions: near, far, gradients of the slope */
    {"../../../attn_scripts/alibi.attn", "B=1 H=3 S=40 T=70 D=16 E=16", NULL, "odd"},
    {"hidden_units.attn", "B=1 H=2 S=21 T=37 D=16 E=16", NULL, NULL},
    /* rows, and parts of rows, far below 0 */
    {PAIR_BIAS, "B=1 H=2 S=130 D=16 E=16", NULL, "far_back"},
    {PAIR_BIAS, "B=1 H=2 S=130 D=16 E=16", NULL, "far_front dfinals"},
    {PAIR_BIAS, "B=1 H=2 S=70 D=16 E=16", NULL, "far_head"},
    {PAIR_BIAS, "B=1 H=2 S=70 D=16 E=16", NULL, "far_all flat dfinals"},
    {"documents_bias_sink.attn", "B=1 H=2 S=40 T=40 D=16 E=16", NULL, "sorted far_head"},
    {CAPPED_BIAS, "B=1 H=2 S=70 D=16 E=16", NULL, "far_head"},
    {CAPPED_BIAS, "B=1 H=2 S=70 D=16 E=16", NULL, "far_front dfinals"},
    /* rows without a pair */
    {EMPTY, "B=2 H=1 S=70 T=37 D=16 E=16", NULL, "long unseen"},
    {EMPTY, "B=1 H=1 S=20 T=30 D=32 E=32", NULL, "few"},
    {EMPTY_OF_PLAIN, "B=1 H=1 S=40 T=17 D=16 E=16", NULL, NULL},
    /* weights of 2^-20, 2^-26 */
    {LOW, "B=1 H=1 S=70 T=90 D=32 E=32", "offset=-14.0", "scaled"},
    {LOW, "B=1 H=1 S=70 T=40 D=32 E=32", "offset=-18.0", "scaled"},
    /* NaN reaches its row, and no other */
    {"mha.attn", "B=1 H=2 Hk=1 S=21 T=37 D=16 E=16", NULL, "poison"},
    {PAIR_BIAS, "B=1 H=2 S=37 D=16 E=16", NULL, "poison"},
    /* kernels for few queries: parts of the keys without a pair, of one tile, no keys at all; a joined maximum, none, NaN */
    {"mha.attn", "B=1 H=2 Hk=1 S=1 T=300 D=64 E=64", NULL, "few dfinals"},
    {"mha.attn", "B=1 H=2 Hk=1 S=17 T=37 D=16 E=32", NULL, "few nan odd"},
    {"mha.attn", "B=1 H=2 Hk=1 S=3 T=70 D=16 E=24", NULL, "few poison"},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=16 T=300 D=16 E=32", "window=20", "few"},
    {"documents_bias_sink.attn", "B=1 H=2 S=30 T=30 D=16 E=64", NULL, "few sorted far_head"},
    {"mla_train.attn", "B=1 H=2 S=17 T=290 D=32 E=16 P=32", NULL, "few"},
    {"gated_qknorm.attn", "B=1 H=1 Hk=1 S=3 T=150 D=32", NULL, "few odd"},
    {"sigmoid.attn", "B=1 H=1 S=3 T=200 D=16 E=32", NULL, "few"},
    {"retention.attn", "B=1 H=1 S=30 T=30 D=16 E=32", NULL, "few"},
    {"relu.attn", "B=1 H=1 S=10 T=270 D=16 E=32", NULL, "few"},
    {PAIR_BIAS, "B=1 H=2 S=30 D=16 E=32", NULL, "few far_all flat"},
    /* widths of matrix units */
    {"mha.attn", "B=1 H=2 Hk=1 S=21 T=37 D=32 E=48", NULL, "nan odd"},
    {"gated_qknorm.attn", "B=1 H=1 Hk=1 S=13 T=70 D=32", NULL, "odd"},
    {"mla_train.attn", "B=1 H=2 S=17 T=19 D=32 E=16 P=32", NULL, NULL},
    {"documents_bias_sink.attn", "B=1 H=3 S=140 T=140 D=64 E=16", NULL, "sorted dfinals"},
    /* tiles of which bounds say what they are */
    {BOUNDED_RUNS, "B=2 H=1 Hk=1 S=200 T=700 D=16 E=16", "from=30", "sorted"},
    {BOUNDED, "B=1 H=1 Hk=1 S=300 T=520 D=16 E=16", "step=70 from=200", "sorted"},
    {BOUNDED, "B=2 H=1 Hk=1 S=150 T=301 D=32 E=32", "step=-3 from=-9", "sorted nan"},
    {"../../../attn_scripts/global_window.attn", "B=1 H=1 S=500 D=16 E=16", "window=40 global=130", NULL},
    /* windows of all sizes, and a bound that falls */
    {BAND, "B=1 H=2 Hk=1 S=150 T=170 D=16 E=16", "window=2147483647 left=2147483000 right=2147483020 fall=2000000000", NULL},
    {BAND, "B=1 H=1 Hk=1 S=170 T=150 D=32 E=32", "window=1073741824 left=30 right=40 fall=130", "nan"},
    /* lists of more than 32 tiles; "slow": on warps, not in the quick suite */
    {"groups.attn", "B=2 H=2 Hk=2 Hv=2 S=20 T=2300 D=16 E=16", NULL, "sorted slow"},
    {"groups.attn", "B=1 H=1 Hk=1 Hv=1 S=2300 T=20 D=16 E=16", NULL, "sorted slow"},
    {"groups.attn", "B=1 H=4 Hk=2 Hv=1 S=70 T=150 D=16 E=32", NULL, "sorted"},
    {"../../../attn_scripts/alibi.attn", "B=1 H=1 S=20 T=2300 D=32 E=32", NULL, "slow"},
    /* NaN where no query looks */
    {UNSEEN, "B=1 H=2 Hk=1 S=70 T=130 D=32 E=32 P=16", NULL, "unseen"},
    {"mha.attn", "B=1 H=2 Hk=1 S=90 T=37 D=32 E=32", NULL, "unseen"},
    {"../../../attn_scripts/attention_sink.attn", "B=1 H=2 Hk=1 S=150 T=60 D=64 E=64", NULL, "unseen"},
    {"../../exec/scripts/two_sums.attn", "B=1 H=2 S=70 T=90 D=128 E=128", NULL, NULL},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=40 T=150 D=32 E=32", "window=20", "unseen repeat"},
    {"mha.attn", "B=1 H=1 Hk=1 S=270 T=275 D=32 E=32", NULL, "later slow"},
    /* four warps that share keys */
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=90 D=256 E=256", NULL, "nan"},
    {"retention_decay.attn", "B=1 H=1 S=31 T=31 D=32 E=32", NULL, NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=5 T=9 D=256 E=512", NULL, NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=5 T=9 D=1024 E=528", NULL, NULL},
};
enum { WIDE = 42 }; /* the first case with widths of matrix units */
static const char *const rungs[] = {"tiled-ir:x86-64-v4", "kernel-ir:x86-64-v4", "tiled-ir:generic", "kernel-ir:generic",
                                    "tiled-ir:x86-64-v4-amx", "kernel-ir:x86-64-v4-amx", "tiled-ir:sm_80", "kernel-ir:sm_80", "passed-ir:sm_80",
                                    "tiled-ir:sm_75", "kernel-ir:sm_75", "kernel-ir:sm_90", "kernel-ir:sm_70", "tiled-ir:sm_70", "passed-ir:sm_70",
                                    "tiled-ir:x86-64-v3", "kernel-ir:x86-64-v3", "tiled-ir:aarch64", "kernel-ir:aarch64",
                                    "tiled-ir:x86-64-v4-bf16", "kernel-ir:x86-64-v4-bf16"};
/* Groups of warps, backward too where they have it. */
static const char *const groups[] = {"kernel-ir:sm_90a", "passed-ir:sm_90a", "tiled-ir:sm_90a"};
/* Heads that two groups share backward, and others: masks, grouped heads, gradients of inputs. */
static const ExecCase wide_cases[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=132 T=150 D=192 E=128", NULL, "wide"},
    /* results by boxes and element by element; values in registers, all channels or some; numbers of queries of every kind, since rows'
     * statistics come by lanes; heads in sections of which the last is not whole; forward of rows that are not short */
    {"mha.attn", "B=2 H=2 Hk=1 S=132 T=150 D=64 E=64", NULL, "dfinals"},
    {"mha.attn", "B=2 H=2 Hk=1 S=131 T=150 D=64 E=64", NULL, "elements"},
    {"mha.attn", "B=1 H=2 Hk=1 S=133 T=150 D=64 E=64", NULL, "held dfinals"},
    {"../../tile/scripts/full.attn", "B=1 H=2 Hk=1 S=67 T=150 D=128 E=128", NULL, "long"},
    {"mha.attn", "B=2 H=2 Hk=1 S=130 T=150 D=128 E=128", NULL, "dfinals nan"},
    {"mha.attn", "B=2 H=2 Hk=1 S=132 T=150 D=64 E=64", NULL, "long"},
    {"../../../attn_scripts/sliding_window.attn", "B=1 H=3 Hk=3 S=8000 T=70 D=192 E=128", "window=20", "wide_sections"},
    {"mha.attn", "B=1 H=2 Hk=1 S=132 T=150 D=192 E=128", NULL, "dfinals"},
    {"mha.attn", "B=1 H=1 Hk=1 S=68 T=200 D=224 E=224", NULL, "wide dfinals"},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=200 T=200 D=128 E=192", "window=90", "wide nan"},
    {"mha.attn", "B=1 H=1 Hk=1 S=70 T=90 D=128 E=144", NULL, "wide"},
    {"mha.attn", "B=1 H=2 Hk=1 S=200 T=70 D=128 E=144", NULL, "wide_apart"},
    {"../../../attn_scripts/alibi.attn", "B=1 H=2 S=140 T=140 D=128 E=208", NULL, "wide"},
    /* masks of data, tiles of queries from lists */
    {"../../../attn_scripts/block_causal.attn", "B=2 H=2 S=150 T=150 D=64 E=64", NULL, "listed"},
    {"../../../attn_scripts/documents.attn", "B=2 H=2 S=140 D=128 E=128", NULL, "listed sorted"},
    {"../../../attn_scripts/tree.attn", "B=2 H=2 Hk=1 S=140 T=190 D=64 E=64", NULL, "listed"},
    /* .. of which bounds say what they are: full, empty, neither, with every rule that bounds have */
    {BOUNDED_RUNS, "B=2 H=1 Hk=1 S=400 T=700 D=64 E=64", "from=30", "listed sorted"},
    {BOUNDED, "B=1 H=1 Hk=1 S=300 T=500 D=64 E=64", "step=70 from=200", "listed sorted"},
    {"../../../attn_scripts/block_causal.attn", "B=1 H=1 S=132 T=132 D=192 E=192", NULL, "listed wide"},
    {BAND, "B=1 H=2 Hk=1 S=300 T=330 D=64 E=64", "window=2147483647 left=2147483000 right=2147483020 fall=250", "nan"},
    /* gradients of inputs that pairs read by their query: tables of distances, a number a pair, a number a row and a key */
    {"../../../attn_scripts/relative_bias.attn", "B=1 H=2 S=132 T=150 D=64 E=64 W=21", NULL, "queried"},
    {PAIR_BIAS, "B=1 H=2 S=132 D=64 E=64", NULL, "queried"},
    {"../../../attn_scripts/t5_decoder.attn", "B=1 H=2 S=132 T=132 D=64 E=64", NULL, "queried"},
    {"documents_bias_sink.attn", "B=2 H=2 S=140 T=140 D=64 E=64", NULL, "queried sorted"},
    {PAIR_BIAS, "B=1 H=1 S=68 D=64 E=144", NULL, "wide_queried"},
    /* groups that pass over what they do not see at both ends of a window: wide, narrower than a tile, rows without a key, one group of a block
     * without rows */
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=400 T=420 D=64 E=64", "window=90", "forward nan"},
    {"gemma_local.attn", "B=1 H=1 Hk=1 S=513 T=560 D=128 E=128", "window=20", "forward nan"},
    {"../../../attn_scripts/sliding_window.attn", "B=1 H=1 Hk=1 S=300 T=140 D=64 E=64", "window=33", "forward nan"},
    /* dS through store_matrix, as it lies and across */
    {"mha.attn", "B=1 H=2 Hk=1 S=132 T=150 D=64 E=64", NULL, "stored"},
    {"mha.attn", "B=1 H=2 Hk=1 S=132 T=150 D=64 E=64", NULL, "turned"},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=132 T=150 D=64 E=64", "window=90", "turned nan"},
    {"../../../attn_scripts/softcap.attn", "B=1 H=2 Hk=1 S=132 T=190 D=64 E=64", "cap=3.0", "nan"},
    /* exponents of rows far from 0 come in as zeros; in bf16, since f16 rounds dS' coarsely beside such queries */
    {"mha.attn", "B=1 H=2 Hk=1 S=132 T=150 D=64 E=64", NULL, "far_queries nan"},
    {"../../../attn_scripts/softcap.attn", "B=1 H=2 Hk=1 S=132 T=150 D=128 E=128", "cap=0.125", "forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=140 T=150 D=128 E=128", NULL, "far_queries"},
    {"../../exec/scripts/two_caps.attn", "B=1 H=2 Hk=1 S=132 T=150 D=64 E=64", NULL, "nan"},
    /* blocks that stay, with a tile of its own for results of another width */
    {"../../../attn_scripts/documents.attn", "B=2 H=1 S=132 D=64 E=128", NULL, "stays forward sorted"},
    {"../../../attn_scripts/tree.attn", "B=2 H=2 Hk=2 S=200 T=40 D=128 E=64", NULL, "stays forward"},
    {"mha.attn", "B=2 H=3 Hk=1 S=300 T=70 D=64 E=64", NULL, "stays forward nan"},
    /* of two groups with keys of their own: rows without a pair, of which NaN is given */
    {EMPTY, "B=2 H=1 S=68 T=37 D=64 E=64", NULL, "unseen"},
    {"mha.attn", "B=1 H=2 Hk=1 S=200 T=50 D=64 E=64", NULL, "unseen dfinals"},
    {HIDDEN, "B=1 H=1 Hk=1 S=70 T=40 D=64 E=64", NULL, "hidden dfinals"}, {"../../exec/scripts/parted.attn", "B=1 H=1 Hk=1 S=20 T=30 D=64 E=64", NULL, NULL},
    /* distances beside full registers, and gradients of inputs that are summed where they are made, since nothing is left for them */
    {"../../../attn_scripts/alibi.attn", "B=1 H=2 S=131 T=150 D=128 E=128", NULL, "dfinals"},
    {"retention.attn", "B=1 H=2 S=150 T=150 D=128 E=128", NULL, NULL},
    {"sigmoid.attn", "B=1 H=2 S=131 T=150 D=128 E=128", NULL, NULL},
};
/* Few rows of all heads that share keys, at most 16: channels along lanes, parts of 1024 keys, joined. */
#define HEAD_WINDOWS "../../exec/scripts/head_windows.attn"
#define HEAD_ENDS    "../../exec/scripts/head_ends.attn"
#define UNJOINED     "../../exec/scripts/unjoined.attn"
#define FURTHER_HEADS "../../exec/scripts/further_heads.attn"
static const ExecCase decode_cases[] = {
    {"mha.attn", "B=1 H=4 Hk=2 S=3 T=2100 D=64 E=32", NULL, "decode"},
    {"mha.attn", "B=2 H=3 Hk=1 S=5 T=1037 D=16 E=32", NULL, "decode nan odd"},
    {"mha.attn", "B=1 H=1 Hk=1 S=1 T=1 D=16 E=16", NULL, "decode dfinals"},
    {"mha.attn", "B=1 H=1 Hk=1 S=9 T=0 D=16 E=16", NULL, "decode"},
    {"mha.attn", "B=1 H=2 Hk=1 S=8 T=1100 D=16 E=16", NULL, "decode poison"},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=8 T=2300 D=16 E=32", "window=20", "decode nan"},
    {"gated_qknorm.attn", "B=1 H=2 Hk=1 S=3 T=1150 D=32", NULL, "decode odd"},
    {"dropout.attn", "B=1 H=2 Hk=1 S=4 T=1030 D=16 E=16", "rate=0.25 seed=987654321", "decode"},
    {"sigmoid.attn", "B=1 H=1 S=3 T=1200 D=16 E=32", NULL, "decode"},
    {"retention_decay.attn", "B=1 H=2 S=16 T=16 D=16 E=16", NULL, "decode dfinals"},
    {"relu.attn", "B=1 H=1 S=10 T=1270 D=16 E=32", NULL, "decode"},
    {PAIR_BIAS, "B=1 H=2 S=16 D=16 E=32", NULL, "decode far_all flat"},
    {EMPTY, "B=1 H=1 S=16 T=30 D=32 E=32", NULL, "decode"},
    /* values that are channels of the keys: rows of several blocks, a window over the border of parts, sequences of fewer rows, codes, keys that are shared */
    {"../../exec/scripts/latent.attn", "B=1 H=35 S=2 T=1041 D=400", NULL, "decode forward nan odd"},
    {"../../../attn_scripts/mla_decode.attn", "B=2 H=5 S=1 T=39", NULL, "decode forward poison"},
    {"../../exec/scripts/latent.attn", "B=3 H=12 S=3 T=150 D=400 slots=16", NULL, "decode packed most forward paged unequal"},
    {"../../exec/scripts/latent.attn", "B=2 H=9 S=4 T=130 D=400", NULL, "decode forward ragged padded"},
    {"../../../attn_scripts/mla_decode.attn", "B=2 H=3 S=1 T=50 slots=16", NULL, "decode forward paged e4m3 token"},
    {"../../exec/scripts/latent.attn", "B=2 H=3 S=2 T=70 D=416 slots=7", NULL, "decode forward paged i4 channels32 zero"},
    {"../../exec/scripts/latent.attn", "B=5 H=7 S=2 T=120 D=400 slots=8 shared=64", NULL, "decode forward paged groups shares"},
    /* masks of data, of which tiles have no pair, and of a head; values of fewer heads than keys; more heads of a group than are asked for their ranges */
    {"groups.attn", "B=2 H=4 Hk=2 Hv=1 S=3 T=1100 D=16 E=32", NULL, "decode forward by_head sorted nan"},
    {HEAD_WINDOWS, "B=1 H=6 Hk=2 Hv=1 S=5 T=1090 D=16 E=16", NULL, "decode forward by_head nan odd"},
    {HEAD_WINDOWS, "B=2 H=9 Hk=1 Hv=1 S=2 T=130 D=16 E=16 slots=16", NULL, "decode forward by_head paged"},
    {HEAD_WINDOWS, "B=5 H=4 Hk=2 Hv=1 S=2 T=200 D=16 E=32 slots=8 shared=128", NULL, "decode forward by_head paged groups shares"},
    {HEAD_ENDS, "B=2 H=6 Hk=1 Hv=3 S=2 T=1090 D=16 E=16", NULL, "decode forward by_head nan odd"},
    {UNJOINED, "B=2 H=4 Hk=2 Hv=2 S=3 T=2100 D=16 E=16", NULL, "decode forward nan odd"}, /* keys of all parts in one */
    {UNJOINED, "B=3 H=4 Hk=2 Hv=1 S=2 T=1100 D=16 E=32 slots=16", "window=300", "decode packed most forward paged unequal"},
    {HEAD_WINDOWS, "B=5 H=4 Hk=1 Hv=2 S=2 T=200 D=16 E=32 slots=8 shared=128", NULL, "decode forward by_head paged groups shares"},
    {"../../../attn_scripts/cross.attn", "B=3 H=4 S=3 T=1100 D=16 E=16", NULL, "decode forward by_head unseen"},
};
/* Few rows of all heads that share keys, packed: groups of 1 to 7 heads, rows in several blocks, ranges without a key, one key, tiles
 * that end with the keys or not, row mods, values that are channels of the keys, functions of all kinds whose parts can be joined. */
static const ExecCase packed_cases[] = {
    {"mha.attn", "B=1 H=4 Hk=2 S=3 T=700 D=64 E=32", NULL, "decode"},
    {"mha.attn", "B=2 H=3 Hk=1 S=7 T=1037 D=16 E=32", NULL, "decode nan odd"},
    {"mha.attn", "B=1 H=5 Hk=1 S=1 T=1 D=32 E=32", NULL, "decode dfinals"},
    {"mha.attn", "B=1 H=5 Hk=1 S=1 T=2300 D=32 E=32", NULL, "decode forward nan rounds"}, /* warps that share a row's rounds: of two rows a block, of one */
    {"mha.attn", "B=1 H=3 Hk=1 S=2 T=4300 D=16 E=16 slots=64", NULL, "decode forward paged rounds"},
    {"gemma_local.attn", "B=2 H=2 Hk=1 S=3 T=1200 D=32 E=32", "window=1100", "decode forward rounds"},
    {"mha.attn", "B=1 H=7 Hk=1 S=9 T=0 D=16 E=32", NULL, "decode"},
    {"mha.attn", "B=3 H=12 Hk=2 S=2 T=257 D=16 E=64", NULL, "decode poison"},
    {"mha.attn", "B=1 H=2 Hk=2 S=5 T=3 D=64 E=64", NULL, "decode unseen dfinals"},
    {"gemma_local.attn", "B=1 H=6 Hk=2 S=8 T=900 D=16 E=32", "window=20", "decode nan"},
    {"gated_qknorm.attn", "B=1 H=2 Hk=1 S=3 T=350 D=32", NULL, "decode odd"},
    {"dropout.attn", "B=1 H=2 Hk=1 S=4 T=530 D=16 E=32", "rate=0.25 seed=987654321", "decode"},
    {"../../../attn_scripts/alibi.attn", "B=1 H=3 S=4 T=300 D=32 E=32", NULL, "decode"},
    {"../../../attn_scripts/attention_sink.attn", "B=2 H=6 Hk=2 S=2 T=190 D=32 E=32", NULL, "decode"},
    {KEYS_AS_VALUES, "B=1 H=4 Hk=1 S=2 T=270 D=64", NULL, "decode"},
    {"relu.attn", "B=1 H=1 S=10 T=470 D=16 E=32", NULL, "decode"},
    {PAIR_BIAS, "B=1 H=2 S=16 D=16 E=32", NULL, "decode far_all flat"},
    {"retention_decay.attn", "B=1 H=2 S=16 T=16 D=16 E=32", NULL, "decode dfinals"},
    {"mha.attn", "B=1 H=8 Hk=1 S=5 T=300 D=128 E=128", NULL, "decode"},
    {"mha.attn", "B=1 H=136 Hk=136 S=1 T=260 D=16 E=32", NULL, "decode"}, /* a part each, of several tiles */
};
/* Gradients of few queries: rows of 1 to 7 heads that share keys, as many as the tile has, one, none; keys that end within a warp's, one, none; windows
 * of which some keys are in nobody's, rows without a pair, NaN where nobody looks; functions without a row scale, changed rows, masks of data, sinks. */
static const char *const back_rungs[] = {"kernel-ir:sm_80", "tiled-ir:sm_80", "kernel-ir:sm_90a", "passed-ir:sm_90"};
static const ExecCase back_cases[] = {
    {"mha.attn", "B=2 H=4 Hk=2 S=16 T=700 D=64 E=32", NULL, "decode keyed dfinals"},
    {"mha.attn", "B=2 H=3 Hk=1 S=7 T=137 D=16 E=32", NULL, "decode keyed nan odd"},
    {"mha.attn", "B=1 H=5 Hk=1 S=1 T=1 D=32 E=32", NULL, "decode keyed dfinals"},
    {"mha.attn", "B=1 H=7 Hk=1 S=4 T=0 D=16 E=32", NULL, "decode keyed"},
    {"mha.attn", "B=1 H=3 Hk=1 S=11 T=40 D=16 E=32", NULL, "decode keyed"}, /* one row too many */
    {"mha.attn", "B=1 H=2 Hk=2 S=32 T=131 D=64 E=64", NULL, "decode keyed dfinals nan"},
    {"mha.attn", "B=3 H=6 Hk=2 S=2 T=257 D=24 E=72", NULL, "decode keyed poison"},
    {"mha.attn", "B=1 H=2 Hk=2 S=5 T=3 D=64 E=64", NULL, "decode keyed unseen dfinals"},
    {"mha.attn", "B=1 H=2 Hk=1 S=13 T=530 D=128 E=128", NULL, "decode keyed scaled"},
    {"gemma_local.attn", "B=1 H=6 Hk=2 S=8 T=900 D=16 E=32", "window=20", "decode keyed nan unseen"},
    {"../../../attn_scripts/sliding_window.attn", "B=1 H=6 Hk=2 S=5 T=300 D=32 E=32", "window=20", "decode keyed unseen"},
    {"gated_qknorm.attn", "B=1 H=2 Hk=1 S=3 T=350 D=32", NULL, "decode keyed odd"},
    {"dropout.attn", "B=1 H=3 Hk=1 S=7 T=230 D=16 E=32", "rate=0.25 seed=987654321", "decode keyed"},
    {"sigmoid.attn", "B=1 H=1 S=3 T=200 D=16 E=32", NULL, "decode keyed"},
    {"relu.attn", "B=1 H=1 S=29 T=170 D=16 E=32", NULL, "decode keyed"},
    {"retention.attn", "B=1 H=1 S=30 T=30 D=16 E=32", NULL, "decode keyed"},
    {EMPTY, "B=1 H=1 S=16 T=30 D=32 E=32", NULL, "decode keyed unseen"},
    {EMPTY_OF_PLAIN, "B=1 H=1 S=31 T=17 D=16 E=16", NULL, "decode keyed"},
    {LOW, "B=1 H=1 S=7 T=90 D=32 E=32", "offset=-14.0", "decode keyed scaled"},
    {"../../../attn_scripts/documents.attn", "B=2 H=2 S=29 D=32 E=32", NULL, "decode keyed sorted"},
    {"../../../attn_scripts/tree.attn", "B=2 H=6 Hk=2 S=7 T=90 D=32 E=32", NULL, "decode keyed"},
    {"../../../attn_scripts/softcap.attn", "B=1 H=4 Hk=1 S=5 T=150 D=64 E=64", NULL, "decode keyed"},
    {"mha.attn", "B=1 H=2 Hk=1 S=5 T=70 D=192 E=128", NULL, "decode keyed"},
    {"mha.attn", "B=1 H=2 Hk=2 S=11 T=150 D=256 E=256", NULL, "decode keyed"},
};
#define ODD_POSITIONS "../../exec/scripts/odd_positions.attn"
#define ODD_WINDOW "../../exec/scripts/odd_window.attn"
/* The same of keys in pages: one page, a key less and more, none; windows that begin within a page, sinks, values in keys, changed keys. */
#define KEPT "../../exec/scripts/kept.attn"
static const ExecCase page_cases[] = {
    {"mha.attn", "B=2 H=4 Hk=2 S=3 T=300 D=64 E=64 slots=16", NULL, "decode forward paged"},
    {"mha.attn", "B=2 H=3 Hk=1 S=5 T=47 D=32 E=64 slots=7", NULL, "decode forward paged"},
    {"mha.attn", "B=1 H=5 Hk=1 S=1 T=48 D=64 E=32 slots=48", NULL, "decode forward paged"},
    {"mha.attn", "B=3 H=2 Hk=2 S=2 T=49 D=32 E=32 slots=1", NULL, "decode forward paged"},
    {"mha.attn", "B=2 H=7 Hk=1 S=4 T=1 D=32 E=32 slots=16", NULL, "decode forward paged"},
    {"mha.attn", "B=1 H=2 Hk=1 S=3 T=0 D=32 E=32 slots=13", NULL, "decode forward paged"},
    {"gemma_local.attn", "B=1 H=6 Hk=2 S=4 T=600 D=32 E=32 slots=64", "window=150", "decode forward paged"},
    {"../../../attn_scripts/attention_sink.attn", "B=2 H=6 Hk=2 S=2 T=190 D=32 E=32 slots=5", NULL, "decode forward paged"},
    {KEYS_AS_VALUES, "B=1 H=4 Hk=1 S=2 T=270 D=64 slots=16", NULL, "decode forward paged"},
    {"gated_qknorm.attn", "B=1 H=2 Hk=1 S=3 T=150 D=32 slots=24", NULL, "decode forward paged"},
    {"../../../attn_scripts/alibi.attn", "B=1 H=3 S=4 T=129 D=32 E=32 slots=16", NULL, "decode forward paged"},
    {"mha.attn", "B=2 H=6 Hk=2 S=3 T=200 D=32 E=32", NULL, "decode forward padded"},
    {"../../../attn_scripts/alibi.attn", "B=1 H=3 S=4 T=128 D=32 E=64", NULL, "decode forward padded"},
    {"gemma_local.attn", "B=1 H=5 Hk=1 S=4 T=300 D=32 E=32", "window=50", "decode forward padded"},
    {ODD_WINDOW, "B=2 H=4 Hk=2 S=3 T=600 D=64 E=64 slots=3", NULL, "decode forward paged positions"},
    {ODD_WINDOW, "B=2 H=6 Hk=2 S=4 T=1200 D=32 E=32 slots=32", "window=300", "decode forward paged csr positions"},
    {ODD_POSITIONS, "B=2 H=2 Hk=1 S=3 T=300 D=32 E=32 slots=107", NULL, "decode forward paged rows positions"},
    {ODD_WINDOW, "B=3 H=2 Hk=2 S=2 T=98 D=32 E=32", "window=21", "decode forward padded positions"},
    {"mha.attn", "B=3 H=2 Hk=2 S=2 T=49 D=32 E=32 slots=48", NULL, "decode forward paged csr"},
    {"gated_qknorm.attn", "B=2 H=2 Hk=1 S=3 T=150 D=32 slots=7", NULL, "decode forward paged rows csr"},
    {"gemma_local.attn", "B=2 H=6 Hk=2 S=4 T=600 D=32 E=32 slots=64", "window=150", "decode forward paged csr"},
    {"mha.attn", "B=3 H=2 Hk=2 S=2 T=49 D=32 E=32 slots=1", NULL, "decode forward paged rows"},
    {"../../../attn_scripts/tree.attn", "B=3 H=4 Hk=2 S=6 T=300 D=32 E=32 slots=7", NULL, "decode forward paged rows"},
    {"../../../attn_scripts/tree.attn", "B=2 H=6 Hk=1 S=5 T=4 D=32 E=64", NULL, "decode forward padded"},
    {"gated_qknorm.attn", "B=2 H=2 Hk=1 S=3 T=150 D=32 slots=32", NULL, "decode forward paged rows"},
    {"gemma_local.attn", "B=2 H=5 Hk=1 S=4 T=300 D=32 E=32", "window=50", "decode forward padded rows"},
    {"../../exec/scripts/latent.attn", "B=2 H=6 S=2 T=150 D=416 slots=16", NULL, "decode forward paged nan"},
    {"../../../attn_scripts/mla_decode.attn", "B=1 H=5 S=1 T=70 slots=13", NULL, "decode forward paged i8 token"},
    {"groups.attn", "B=2 H=4 Hk=2 Hv=1 S=3 T=300 D=32 E=32", NULL, "decode forward by_head sorted nan"},
    {HEAD_WINDOWS, "B=1 H=6 Hk=2 Hv=1 S=5 T=390 D=32 E=64 slots=16", NULL, "decode forward by_head paged nan"},
    {HEAD_WINDOWS, "B=2 H=9 Hk=1 Hv=1 S=2 T=130 D=32 E=32", NULL, "decode forward by_head odd"},
    {HEAD_WINDOWS, "B=2 H=12 Hk=2 Hv=4 S=3 T=230 D=32 E=32 slots=16", NULL, "decode forward by_head paged nan"},
    {HEAD_ENDS, "B=1 H=40 Hk=1 Hv=2 S=2 T=270 D=64 E=64", NULL, "decode forward by_head nan"}, /* rows of two tiles, of other heads each */
    {HEAD_ENDS, "B=2 H=4 Hk=4 Hv=2 S=1 T=0 D=32 E=32 slots=16", NULL, "decode forward by_head paged"},
    {HEAD_ENDS, "B=1 H=3 Hk=1 Hv=3 S=1 T=1 D=32 E=32", NULL, "decode forward by_head padded"},
    /* one part of all keys */
    {UNJOINED, "B=2 H=6 Hk=2 Hv=2 S=3 T=300 D=32 E=32 slots=16", NULL, "decode forward paged nan"},
    {UNJOINED, "B=1 H=20 Hk=1 Hv=2 S=2 T=230 D=64 E=64", "window=100", "decode forward odd"},
    {UNJOINED, "B=2 H=2 Hk=1 Hv=1 S=3 T=0 D=32 E=32", NULL, "decode forward padded"},
    {UNJOINED, "B=2 H=3 Hk=1 Hv=1 S=1 T=190 D=32 E=64 slots=7", NULL, "decode forward paged csr invariant"},
    {KEPT, "B=2 H=4 Hk=2 S=3 T=300 D=32 E=32 slots=16", NULL, "decode forward paged"},
    {KEPT, "B=1 H=3 Hk=1 S=2 T=70 D=32 E=64 slots=7", NULL, "decode forward paged nan"},
    {KEPT, "B=2 H=2 Hk=1 S=3 T=150 D=32 E=32", NULL, "decode forward padded"},
    {KEPT, "B=2 H=5 Hk=1 S=2 T=330 D=16 E=384 slots=16", NULL, "decode forward paged"},
};
/* Neighbouring sequences that share their first keys: rows of several in a warp's tile, several tiles of rows, less than a tile of keys; windows that
 * begin behind what is shared, in it, that see none of it; slopes, sinks, gates; rows of the table, a table that is one list. */
/* shares: those that planted mistakes are looked for with. */
static const char *const group_rungs[] = {"kernel-ir:sm_80", "tiled-ir:sm_80", "kernel-ir:x86-64-v3", "kernel-ir:generic", "kernel-ir:sm_90", "tiled-ir:generic"};
static const ExecCase group_cases[] = {
    {"mha.attn", "B=7 H=4 Hk=2 S=3 T=300 D=64 E=64 slots=4 shared=256", NULL, "decode forward paged groups shares"},
    {"mha.attn", "B=23 H=8 Hk=1 S=1 T=200 D=32 E=32 slots=32 shared=128", NULL, "decode forward paged groups"},
    {"gemma_local.attn", "B=7 H=6 Hk=2 S=4 T=700 D=32 E=32 slots=4 shared=640", "window=150", "decode forward paged groups work"},
    {"gemma_local.attn", "B=6 H=5 Hk=1 S=2 T=600 D=32 E=32 slots=32 shared=384", "window=100", "decode forward paged groups shares work"},
    {"../../../attn_scripts/attention_sink.attn", "B=5 H=6 Hk=2 S=2 T=390 D=32 E=64 slots=4 shared=384", NULL, "decode forward paged groups"},
    {"../../../attn_scripts/alibi.attn", "B=10 H=3 S=4 T=270 D=32 E=32 slots=16 shared=144", NULL, "decode forward paged groups shares"},
    {"gated_qknorm.attn", "B=5 H=2 Hk=1 S=3 T=150 D=32 slots=8 shared=128", NULL, "decode forward paged groups"},
    {"mha.attn", "B=2 H=2 Hk=2 S=1 T=140 D=128 E=128 slots=16 shared=128", NULL, "decode forward paged groups rows"},
    {"../../../attn_scripts/softcap.attn", "B=7 H=4 Hk=2 S=2 T=300 D=64 E=64 slots=4 shared=256", NULL, "decode forward paged groups csr"},
    {"mha.attn", "B=5 H=2 Hk=1 S=3 T=70 D=32 E=32 slots=16 shared=64", NULL, "decode forward paged groups shares"},
    {"../../../attn_scripts/tree.attn", "B=7 H=4 Hk=2 S=6 T=300 D=32 E=32 slots=8 shared=256", NULL, "decode forward paged groups work"},
    {"mha.attn", "B=7 H=4 Hk=2 S=3 T=300 D=64 E=64 slots=16 shared=256", NULL, "decode forward paged groups weighed"},
    {"../../../attn_scripts/tree.attn", "B=3 H=4 Hk=2 S=4 T=70 D=32 E=32 slots=8 shared=48", NULL, "decode forward paged groups weighed"},
    {"mha.attn", "B=23 H=16 Hk=16 S=1 T=768 D=32 E=32 slots=4 shared=704", NULL, "decode forward paged groups weighed"},
    {"mha.attn", "B=7 H=4 Hk=2 S=3 T=300 D=64 E=64 slots=16 shared=256", NULL, "decode forward paged groups shares e4m3"},
    {"gemma_local.attn", "B=6 H=5 Hk=1 S=2 T=600 D=32 E=32 slots=8 shared=384", "window=100", "decode forward paged groups shares i8 token"},
    {"../../../attn_scripts/attention_sink.attn", "B=5 H=6 Hk=2 S=2 T=200 D=32 E=64 slots=16 shared=128", NULL, "decode forward paged groups rows i4 channels16 zero"},
    {"../../../attn_scripts/tree.attn", "B=7 H=4 Hk=2 S=6 T=200 D=32 E=32 slots=12 shared=144", NULL, "decode forward paged groups e4m3 channels32"},
    {"mha.attn", "B=2 H=2 Hk=1 S=2 T=2300 D=32 E=32 slots=16", NULL, "decode forward paged invariant"},
    {"gemma_local.attn", "B=1 H=3 Hk=1 S=3 T=2100 D=32 E=64 slots=24", "window=1200", "decode forward paged invariant"},
    {"mha.attn", "B=5 H=4 Hk=2 S=1 T=300 D=64 E=64 slots=16 shared=256", NULL, "decode forward paged groups invariant"},
    {"../../exec/scripts/latent.attn", "B=1 H=7 S=1 T=1100 D=416", NULL, "decode forward invariant"},
    {"mha.attn", "B=5 H=2 Hk=1 S=60 T=170 D=32 E=32 slots=4 shared=64", NULL, "forward paged groups pages"},
    {"../../../attn_scripts/mla_decode.attn", "B=3 H=5 S=1 T=150 slots=16 shared=128", NULL, "decode forward paged groups e4m3"},
    {"../../exec/scripts/latent.attn", "B=5 H=7 S=2 T=200 D=416 slots=8 shared=128", NULL, "decode forward paged groups shares"},
    {HEAD_WINDOWS, "B=5 H=4 Hk=2 Hv=1 S=2 T=200 D=32 E=32 slots=8 shared=128", NULL, "decode forward paged groups by_head shares"},
    {HEAD_WINDOWS, "B=6 H=10 Hk=1 Hv=1 S=1 T=600 D=32 E=32 slots=16 shared=512", NULL, "decode forward paged groups by_head"},
    {HEAD_WINDOWS, "B=6 H=6 Hk=2 Hv=1 S=3 T=300 D=32 E=64 slots=4 shared=256", NULL, "decode packed most forward paged groups by_head"},
    {HEAD_ENDS, "B=5 H=6 Hk=1 Hv=2 S=2 T=300 D=32 E=32 slots=8 shared=256", NULL, "decode forward paged groups by_head shares"},
    {UNJOINED, "B=5 H=4 Hk=2 Hv=2 S=2 T=200 D=32 E=32 slots=8 shared=128", NULL, "decode forward paged groups"},
    {KEPT, "B=5 H=4 Hk=2 S=2 T=200 D=32 E=32 slots=8 shared=128", NULL, "decode forward paged groups shares"},
    {KEPT, "B=1 H=3 Hk=1 S=3 T=1100 D=32 E=64 slots=24", NULL, "decode forward paged invariant"},
};
/* Few queries that are packed, or padded, over keys in all layouts: with rows of their own, none too, against kernels for any number (exec_rows.c); groups of
 * 1 to 7 heads, rows in several blocks, one row, no keys; windows, sinks, slopes, changed queries and keys, values in keys, inputs that are packed too.
 * unequal: those that planted mistakes are looked for with. */
static const char *const few_rungs[] = {"kernel-ir:sm_80", "kernel-ir:x86-64-v3", "tiled-ir:sm_80", "kernel-ir:sm_90", "tiled-ir:x86-64-v4", "kernel-ir:generic", "tiled-ir:generic"};
static const ExecCase few_cases[] = {
    {"mha.attn", "B=5 H=4 Hk=2 S=3 T=140 D=32 E=32 slots=16", NULL, "decode packed most forward paged unequal"},
    {"mha.attn", "B=3 H=8 Hk=1 S=5 T=70 D=32 E=32 slots=107", NULL, "decode packed most forward paged warps unequal"},
    {"mha.attn", "B=4 H=7 Hk=1 S=1 T=49 D=32 E=32 slots=16", NULL, "decode packed most forward paged csr"},
    {"gemma_local.attn", "B=3 H=6 Hk=2 S=4 T=600 D=32 E=32 slots=7", "window=150", "decode packed most forward paged"},
    {"../../../attn_scripts/attention_sink.attn", "B=4 H=6 Hk=2 S=2 T=190 D=32 E=32 slots=128", NULL, "decode packed most forward paged rows"},
    {"../../../attn_scripts/alibi.attn", "B=5 H=3 S=4 T=129 D=32 E=32", NULL, "decode packed most forward padded"},
    {"../../../attn_scripts/rope.attn", "B=5 H=2 Hk=1 S=3 T=70 D=32 E=32 slots=1", NULL, "decode packed most forward paged"},
    {KEYS_AS_VALUES, "B=4 H=4 Hk=1 S=2 T=270 D=64 slots=16", NULL, "decode packed most forward paged"},
    {"mha.attn", "B=4 H=4 Hk=2 S=3 T=130 D=64 E=32", NULL, "decode packed most forward"},
    {"gemma_local.attn", "B=5 H=2 Hk=1 S=4 T=170 D=32 E=32", "window=40", "decode packed most forward"},
    {"../../../attn_scripts/rope.attn", "B=3 H=2 Hk=1 S=3 T=70 D=32 E=32", NULL, "decode packed most forward"},
    {"../../../attn_scripts/gated.attn", "B=4 H=4 Hk=2 S=3 T=70 D=32 E=32", NULL, "decode packed most forward"},
    {"mha.attn", "B=3 H=2 Hk=1 S=4 T=0 D=32 E=32 slots=13", NULL, "decode packed most forward paged"},
    {"mha.attn", "B=5 H=4 Hk=2 S=3 T=70 D=32 E=32 slots=16", NULL, "decode forward ragged paged unequal"},
    {"../../../attn_scripts/gated.attn", "B=4 H=4 Hk=2 S=3 T=70 D=32 E=32", NULL, "decode forward ragged"},
    {"gemma_local.attn", "B=5 H=2 Hk=1 S=4 T=170 D=32 E=32", "window=40", "decode forward ragged padded"},
    {"../../../attn_scripts/rope.attn", "B=4 H=2 Hk=1 S=3 T=70 D=32 E=32 slots=5", NULL, "decode forward ragged paged"},
    {ODD_WINDOW, "B=3 H=4 Hk=2 S=3 T=300 D=32 E=32 slots=16", NULL, "decode packed most forward paged positions"},
    {"mha.attn", "B=3 H=4 Hk=2 S=3 T=200 D=64 E=64 slots=24", NULL, "decode packed most forward paged e4m3"},
    {"mha.attn", "B=7 H=4 Hk=2 S=3 T=300 D=64 E=64 slots=16 shared=256", NULL, "decode packed most forward paged groups shares unequal"},
    {"gemma_local.attn", "B=6 H=5 Hk=1 S=3 T=600 D=32 E=32 slots=4 shared=384", "window=100", "decode packed most forward paged groups"},
    {"../../../attn_scripts/alibi.attn", "B=9 H=3 S=4 T=270 D=32 E=32 slots=16 shared=144", NULL, "decode forward ragged paged groups shares unequal"},
    {"../../../attn_scripts/tree.attn", "B=7 H=4 Hk=2 S=3 T=200 D=32 E=32 slots=4 shared=144", NULL, "decode packed most forward paged groups"},
    /* further products: keys of one head for all, of the heads that share keys, tables of all sequences */
    {"mla_train.attn", "B=5 H=2 S=3 T=140 D=32 E=32 P=16", NULL, "decode packed most forward further"},
    {"mla_train.attn", "B=4 H=3 S=4 T=270 D=64 E=32 P=32 slots=16", NULL, "decode packed most forward paged further seeded"},
    {SHARED_FURTHER, "B=5 H=6 Hk=2 S=2 T=190 D=32 E=64 P=16 slots=7", NULL, "decode packed most forward paged rows further seeded"},
    {SHARED_FURTHER, "B=3 H=4 Hk=1 S=3 T=130 D=32 E=32 P=32", NULL, "decode ragged padded forward further"},
    {"mla_train.attn", "B=3 H=2 S=4 T=0 D=32 E=32 P=16 slots=13", NULL, "decode packed most forward paged further"},
    {SHARED_FURTHER, "B=5 H=6 Hk=1 S=8 T=270 D=64 E=64 P=32 slots=16", NULL, "decode packed most forward paged unequal tall further"},
    {"mla_train.attn", "B=9 H=2 S=2 T=300 D=32 E=32 P=16 slots=24", NULL, "decode packed most forward paged unequal balanced further"},
    {SHARED_FURTHER, "B=3 H=4 Hk=2 S=3 T=130 D=64 E=64 P=32 slots=1", NULL, "decode packed most forward paged crowded further"},
    {FURTHER, "B=3 H=2 S=3 T=70 D=32 E=32 P=16", NULL, "decode packed most forward further"},
    {ODD_FURTHER, "B=3 H=2 S=3 T=300 D=32 E=32 P=16 slots=16", NULL, "decode packed most forward paged positions further"},
    {SHARED_FURTHER, "B=4 H=10 Hk=2 S=3 T=150 D=64 E=32 P=96 slots=16", NULL, "decode packed most forward paged further"},
    {FURTHER, "B=3 H=2 S=3 T=70 D=32 E=32 P=64", NULL, "decode packed most forward further"},
    {ODD_FURTHER, "B=3 H=2 S=3 T=300 D=32 E=32 P=32 slots=16", NULL, "decode packed most forward paged positions further"},
    {FURTHER_HEADS, "B=4 H=8 Hk=2 Hv=4 S=3 T=190 D=32 E=32 P=32 slots=16", NULL, "decode packed most forward paged further unequal"},
    {FURTHER_HEADS, "B=3 H=6 Hk=2 Hv=1 S=2 T=150 D=32 E=64 P=32", NULL, "decode ragged padded forward further"},
    {HEAD_WINDOWS, "B=4 H=9 Hk=1 Hv=1 S=3 T=290 D=32 E=32 slots=24", NULL, "decode packed most forward paged by_head"},
    {HEAD_ENDS, "B=5 H=12 Hk=2 Hv=4 S=3 T=190 D=32 E=32 slots=7", NULL, "decode packed most forward paged by_head unequal"},
    {HEAD_WINDOWS, "B=3 H=20 Hk=1 Hv=2 S=3 T=270 D=64 E=64 slots=16", NULL, "decode packed most forward paged by_head tall"},
    {HEAD_WINDOWS, "B=2 H=20 Hk=1 Hv=1 S=2 T=600 D=32 E=32 slots=16", NULL, "decode packed most forward paged by_head warps unequal"}, /* of whose heads a block asks some */
    {HEAD_ENDS, "B=3 H=4 Hk=2 Hv=2 S=3 T=130 D=64 E=64 slots=1", NULL, "decode packed most forward paged by_head crowded"},
    {HEAD_WINDOWS, "B=5 H=4 Hk=2 Hv=1 S=4 T=170 D=32 E=32", NULL, "decode forward ragged padded by_head"},
    {UNJOINED, "B=5 H=12 Hk=2 Hv=2 S=3 T=190 D=32 E=32 slots=7", NULL, "decode packed most forward paged unequal"},
    {UNJOINED, "B=4 H=4 Hk=2 Hv=2 S=3 T=170 D=32 E=32", "window=40", "decode forward ragged padded"},
    {"../../exec/scripts/latent.attn", "B=3 H=7 S=2 T=130 D=416", NULL, "decode packed most forward"},
    {"../../exec/scripts/latent.attn", "B=3 H=7 S=2 T=70 D=416 slots=16", NULL, "decode packed most forward paged"},
    {KEPT, "B=5 H=4 Hk=2 S=3 T=140 D=32 E=32 slots=16", NULL, "decode packed most forward paged unequal"},
    {KEPT, "B=4 H=4 Hk=2 S=3 T=170 D=32 E=32 slots=5", NULL, "decode forward ragged paged"},
};
/* Parts of keys by a list (warps_shares.c), of sequences of different lengths, none too: against the oracle where they are the same, else against kernels
 * without it (exec_groups.c). More parts than processors, room for as many as there are tiles, windows, several blocks of rows, packed and padded rows.
 * lists: those that planted mistakes are looked for with. */
static const char *const balanced_rungs[] = {"kernel-ir:sm_80", "tiled-ir:sm_80", "kernel-ir:sm_90"};
static const ExecCase balanced_cases[] = {
    {"mha.attn", "B=6 H=4 Hk=2 S=1 T=700 D=32 E=32 slots=7", NULL, "decode forward paged balanced lists work"},
    {"mha.attn", "B=8 H=2 Hk=2 S=1 T=1100 D=32 E=32 slots=48", NULL, "decode forward paged balanced"},
    {"gemma_local.attn", "B=5 H=4 Hk=2 S=2 T=1100 D=32 E=32 slots=1", "window=300", "decode forward paged balanced lists windowed work"},
    {"mha.attn", "B=35 H=4 Hk=4 S=1 T=300 D=32 E=32 slots=16", NULL, "decode forward paged balanced"},
    {"../../../attn_scripts/alibi.attn", "B=7 H=3 S=3 T=400 D=32 E=32", NULL, "decode forward padded balanced"},
    {"mha.attn", "B=3 H=8 Hk=1 S=5 T=270 D=32 E=32 slots=13", NULL, "decode packed most forward paged balanced lists work"},
    {"../../../attn_scripts/attention_sink.attn", "B=6 H=6 Hk=2 S=2 T=300 D=32 E=32 slots=128", NULL, "decode packed most forward paged rows balanced lists work"},
    {"mha.attn", "B=4 H=7 Hk=1 S=1 T=349 D=32 E=32 slots=5", NULL, "decode forward paged csr balanced work"},
    {"../../../attn_scripts/rope.attn", "B=5 H=2 Hk=1 S=3 T=170 D=32 E=32 slots=16", NULL, "decode forward ragged paged balanced"},
    {"../../exec/scripts/latent.attn", "B=3 H=7 S=2 T=270 D=416 slots=24", NULL, "decode packed most forward paged balanced work"},
    {"mha.attn", "B=3 H=4 Hk=2 S=3 T=400 D=64 E=64 slots=16", NULL, "decode forward paged balanced e4m3"},
    {ODD_WINDOW, "B=4 H=4 Hk=2 S=3 T=600 D=32 E=32 slots=3", "window=300", "decode forward paged positions balanced windowed"},
    {"mha.attn", "B=3 H=2 Hk=1 S=4 T=0 D=32 E=32 slots=16", NULL, "decode forward paged balanced"},
    {HEAD_ENDS, "B=6 H=6 Hk=1 Hv=2 S=2 T=500 D=32 E=32 slots=7", NULL, "decode forward paged balanced by_head work"},
    {HEAD_WINDOWS, "B=5 H=4 Hk=2 Hv=2 S=2 T=700 D=32 E=32 slots=16", NULL, "decode packed most forward paged balanced by_head windowed"},
    {"mha.attn", "B=9 H=4 Hk=2 S=1 T=500 D=32 E=32 slots=8 shared=256", NULL, "decode forward paged groups balanced lists work shares"},
    {"../../../attn_scripts/alibi.attn", "B=10 H=3 S=3 T=270 D=32 E=32 slots=16 shared=144", NULL, "decode packed most forward paged groups balanced work shares"},
    /* Several warps of the kernel of lists have sequences to add up, and more than one round of them. */
    {"mha.attn", "B=150 H=1 Hk=1 S=1 T=400 D=32 E=32 slots=7", NULL, "decode forward paged balanced lists crowd work"},
    {"mha.attn", "B=1061 H=1 Hk=1 S=1 T=33 D=32 E=32 slots=16", NULL, "decode forward paged balanced crowd"},
    {"mha.attn", "B=2 H=8 Hk=2 S=9 T=300 D=64 E=64 slots=16", NULL, "decode forward paged tall"},
    {"mha.attn", "B=9 H=20 Hk=1 S=1 T=500 D=128 E=128 slots=7", NULL, "decode forward paged balanced tall lists work"},
    {"mha.attn", "B=5 H=6 Hk=1 S=8 T=270 D=128 E=64 slots=16", NULL, "decode packed most forward paged unequal tall"},
    {"mha.attn", "B=40 H=4 Hk=2 S=2 T=190 D=128 E=128 slots=5", NULL, "decode forward paged crowded"},
    {"mha.attn", "B=9 H=4 Hk=2 S=1 T=300 D=128 E=128 slots=8 shared=128", NULL, "decode forward paged groups crowded"},
    {"mha.attn", "B=2 H=8 Hk=2 S=9 T=300 D=64 E=64", NULL, "decode forward tall"},
    {"gemma_local.attn", "B=5 H=4 Hk=2 S=3 T=270 D=128 E=128", "window=100", "decode forward crowded"},
    {"mha.attn", "B=3 H=10 Hk=1 S=6 T=129 D=128 E=128", NULL, "decode forward padded tall"},
    {"gemma_local.attn", "B=3 H=12 Hk=1 S=5 T=700 D=128 E=128 slots=24", "window=150", "decode forward ragged paged tall crowded"},
    {"mha.attn", "B=9 H=4 Hk=2 S=1 T=400 D=64 E=128 slots=5", NULL, "decode forward paged i8 token balanced narrow"},
    {KEPT, "B=6 H=4 Hk=2 S=1 T=500 D=32 E=32 slots=7", NULL, "decode forward paged balanced lists work"},
    {KEPT, "B=5 H=8 Hk=2 S=9 T=300 D=64 E=64 slots=16", NULL, "decode forward paged tall"},
    {KEPT, "B=5 H=4 Hk=2 S=3 T=270 D=64 E=64 slots=16", NULL, "decode forward paged csr balanced e4m3"},
};
/* Packed rows, and padded keys, of many queries: borders of sequences within blocks and tiles, an empty sequence, rows of none. */
static const ExecCase row_cases[] = {
    {"mha.attn", "B=3 H=2 Hk=1 S=70 T=90 D=64 E=32", NULL, "forward packed work"},
    {"gemma_local.attn", "B=2 H=2 Hk=1 S=150 T=170 D=32 E=32", "window=40", "forward packed work"},
    {"mha.attn", "B=3 H=1 Hk=1 S=130 T=1 D=32 E=32", NULL, "forward packed"},
    {"../../../attn_scripts/alibi.attn", "B=5 H=2 S=1 T=1 D=32 E=32", NULL, "forward packed"},
    {"../../../attn_scripts/cross.attn", "B=3 H=2 S=33 T=70 D=32 E=32", NULL, "forward packed"},
    {KEYS_AS_VALUES, "B=2 H=2 Hk=1 S=21 T=130 D=64", NULL, "forward packed"},
    {"../../../attn_scripts/rope.attn", "B=2 H=2 Hk=1 S=33 T=70 D=32 E=32", NULL, "forward packed work"},
    {"../../../attn_scripts/block_causal.attn", "B=2 H=2 S=150 T=150 D=32 E=32", NULL, "forward packed"},
    {"mha.attn", "B=2 H=2 Hk=1 S=40 T=0 D=32 E=32", NULL, "forward packed"},
    {"mha.attn", "B=2 H=2 Hk=2 S=129 T=65 D=64 E=64", NULL, "forward packed padded"},
    {"mha.attn", "B=2 H=4 Hk=2 S=140 T=97 D=32 E=64 slots=16", NULL, "forward paged pages"},
    {"gemma_local.attn", "B=2 H=2 Hk=1 S=100 T=300 D=64 E=64 slots=107", "window=70", "forward paged pages unseen"},
    {"../../../attn_scripts/kerple.attn", "B=2 H=3 S=129 T=129 D=32 E=32 slots=64", NULL, "forward packed paged pages work"},
    {"../../../attn_scripts/sink_window.attn", "B=2 H=2 Hk=1 S=200 T=400 D=32 E=32 slots=7", "window=90", "forward packed paged pages"},
    {"../../../attn_scripts/softcap.attn", "B=3 H=4 Hk=2 S=210 T=250 D=64 E=64 slots=16", NULL, "forward packed paged pages"},
    {KEYS_AS_VALUES, "B=2 H=2 Hk=1 S=21 T=130 D=64 slots=1", NULL, "forward packed paged pages"},
    {"../../../attn_scripts/rope.attn", "B=2 H=2 Hk=1 S=33 T=70 D=128 E=128 slots=32", NULL, "forward packed paged pages"},
    {"mha.attn", "B=2 H=2 Hk=1 S=40 T=0 D=32 E=32 slots=13", NULL, "forward paged pages"},
    /* keys narrower than their tile, of whom the last lies before what nobody wrote, and at the pool's end */
    {"mha.attn", "B=3 H=6 Hk=2 S=17 T=70 D=24 E=40 slots=16", NULL, "forward paged pages nan"},
    {"mha.attn", "B=3 H=6 Hk=2 S=3 T=70 D=24 E=32 slots=16", NULL, "decode forward paged pages nan"},
    {"mha.attn", "B=2 H=2 Hk=1 S=40 T=90 D=32 E=32 slots=7", NULL, "forward packed paged"},
    {"gemma_local.attn", "B=2 H=2 Hk=1 S=100 T=150 D=32 E=32", "window=70", "forward padded"},
    {"mha.attn", "B=2 H=4 Hk=2 S=140 T=97 D=32 E=64", NULL, "forward padded"},
    {"mha.attn", "B=3 H=2 Hk=1 S=70 T=90 D=64 E=32", NULL, "forward ragged padded"},
    {"gemma_local.attn", "B=2 H=2 Hk=1 S=150 T=170 D=32 E=32", "window=40", "forward ragged"},
    {"../../../attn_scripts/documents.attn", "B=3 H=2 S=140 D=32 E=32", NULL, "forward ragged sorted"},
    {"../../../attn_scripts/gated.attn", "B=2 H=4 Hk=2 S=33 T=70 D=32 E=32 slots=5", NULL, "forward ragged paged pages"},
    {"../../../attn_scripts/rope.attn", "B=2 H=2 Hk=1 S=3 T=70 D=32 E=32 slots=16", NULL, "decode forward ragged paged"},
    {"gemma_local.attn", "B=2 H=2 Hk=1 S=75 T=150 D=32 E=32", "window=40", "forward ragged padded turns"},
    {"../../../attn_scripts/rope.attn", "B=3 H=2 Hk=1 S=33 T=70 D=32 E=32", NULL, "forward ragged padded lines lengths"},
    {"mha.attn", "B=3 H=2 Hk=1 S=1 T=37 D=64 E=32", NULL, "forward ragged lines turns"},
    {"mha.attn", "B=35 H=1 Hk=1 S=2 T=3 D=32 E=32", NULL, "forward ragged lines"}, /* rows that several blocks mark */
    {"../../../attn_scripts/alibi.attn", "B=2 H=3 S=271 T=271 D=32 E=32", NULL, "forward ragged turns"},
    {"../../../attn_scripts/rope.attn", "B=2 H=2 Hk=1 S=33 T=70 D=32 E=32 slots=16", NULL, "forward ragged paged pages turns"},
    {ODD_WINDOW, "B=2 H=2 Hk=1 S=150 T=300 D=32 E=32 slots=24", "window=90", "forward ragged paged pages positions rows lines turns"},
    {"../../../attn_scripts/softcap.attn", "B=3 H=4 Hk=2 S=141 T=250 D=64 E=64 slots=16", NULL, "forward packed paged pages turns"},
    {"gemma_local.attn", "B=3 H=4 Hk=2 S=5 T=170 D=32 E=32 slots=16", "window=40", "decode forward ragged paged rows lines turns"},
    {"../../../attn_scripts/alibi.attn", "B=3 H=3 S=6 T=270 D=32 E=32 slots=16", NULL, "decode packed most forward paged turns"},
    {"../../../attn_scripts/rope.attn", "B=3 H=2 Hk=1 S=6 T=170 D=32 E=32", NULL, "mixed packed most forward padded turns"},
    {"../../../attn_scripts/alibi.attn", "B=9 H=3 S=6 T=270 D=32 E=32 slots=16", NULL, "decode forward ragged paged balanced windowed turns"},
    {"gemma_local.attn", "B=3 H=4 Hk=2 S=5 T=170 D=64 E=64", "window=40", "decode forward ragged padded i8 token lines turns"},
    {ODD_WINDOW, "B=2 H=4 Hk=2 S=140 T=300 D=32 E=64 slots=24", NULL, "forward paged pages positions"},
    {ODD_WINDOW, "B=2 H=2 Hk=1 S=100 T=600 D=64 E=64 slots=48", "window=170", "forward packed paged pages positions"},
    {ODD_POSITIONS, "B=2 H=2 Hk=1 S=33 T=140 D=32 E=32 slots=3", "window=50", "forward packed paged positions"},
    {ODD_POSITIONS, "B=2 H=2 Hk=1 S=200 T=140 D=32 E=32", NULL, "forward padded positions"},
    {"mha.attn", "B=2 H=4 Hk=2 S=140 T=97 D=32 E=64 slots=16", NULL, "forward paged csr pages"},
    {"../../../attn_scripts/rope.attn", "B=3 H=2 Hk=1 S=33 T=70 D=32 E=32 slots=107", NULL, "forward packed paged csr"},
    {KEYS_AS_VALUES, "B=2 H=2 Hk=1 S=21 T=130 D=64 slots=1", NULL, "forward packed paged rows csr"},
    {"mha.attn", "B=2 H=2 Hk=1 S=40 T=0 D=32 E=32 slots=7", NULL, "forward packed paged csr pages"},
    {"mha.attn", "B=2 H=4 Hk=2 S=140 T=97 D=32 E=64 slots=16", NULL, "forward paged rows pages"},
    {"../../../attn_scripts/rope.attn", "B=2 H=2 Hk=1 S=33 T=70 D=32 E=32 slots=1", NULL, "forward packed paged rows"},
    {KEYS_AS_VALUES, "B=3 H=2 Hk=1 S=21 T=130 D=64", NULL, "forward padded rows"},
    {"../../../attn_scripts/documents.attn", "B=3 H=2 S=140 D=32 E=32", NULL, "forward packed sorted"},
    {"../../../attn_scripts/pair_bias.attn", "B=2 H=2 S=70 D=32 E=64", NULL, "forward packed"},
    {"../../../attn_scripts/forgetting.attn", "B=3 H=2 S=33 T=70 D=64 E=32", NULL, "forward packed"},
    {"../../../attn_scripts/tree.attn", "B=2 H=2 Hk=1 S=17 T=90 D=32 E=32", NULL, "forward packed"},
    {"../../../attn_scripts/tree.attn", "B=2 H=4 Hk=2 S=21 T=80 D=32 E=32 slots=16", NULL, "forward packed paged pages"},
    {"../../../attn_scripts/tree.attn", "B=2 H=4 Hk=2 S=140 T=190 D=64 E=64 slots=7", NULL, "forward paged pages"},
    {"../../../attn_scripts/tree.attn", "B=1 H=2 Hk=1 S=130 T=150 D=32 E=64 slots=1", NULL, "forward paged csr pages"},
    {"../../../attn_scripts/tree.attn", "B=3 H=2 Hk=2 S=70 T=300 D=32 E=32 slots=48", NULL, "forward ragged paged pages"},
    {"../../../attn_scripts/tree.attn", "B=2 H=2 Hk=1 S=33 T=33 D=128 E=128 slots=5", NULL, "forward packed paged rows pages"},
    {"../../../attn_scripts/tree.attn", "B=2 H=2 Hk=1 S=40 T=70 D=64 E=64 slots=24", NULL, "forward paged pages e4m3"},
    {"documents_bias_sink.attn", "B=2 H=2 S=90 T=90 D=64 E=64 slots=13", NULL, "forward paged pages sorted"},
    /* further products, rows of keys in a cache of their own */
    {"mla_train.attn", "B=3 H=2 S=70 T=90 D=32 E=16 P=32", NULL, "forward packed work further"},
    {"mla_train.attn", "B=2 H=3 S=140 T=97 D=64 E=32 P=16 slots=16", NULL, "forward paged pages further"},
    {"mla_train.attn", "B=3 H=2 S=33 T=131 D=32 E=32 P=48 slots=7", NULL, "forward packed paged pages further seeded"},
    {"mla_train.attn", "B=2 H=2 S=40 T=70 D=64 E=64 P=32 slots=1", NULL, "forward paged csr pages further"},
    {"mla_train.attn", "B=3 H=2 S=70 T=97 D=32 E=32 P=16 slots=16", NULL, "forward paged rows pages further"},
    {"mla_train.attn", "B=3 H=2 S=37 T=150 D=32 E=32 P=16 slots=107", NULL, "forward ragged paged pages further"},
    {"mla_train.attn", "B=2 H=2 S=40 T=0 D=32 E=32 P=16 slots=13", NULL, "forward packed paged pages further"},
    {"mla_train.attn", "B=3 H=2 S=41 T=97 D=32 E=32 P=32 slots=17", NULL, "forward packed paged rows csr further"},
    {"mla_train.attn", "B=3 H=2 S=70 T=90 D=64 E=32 P=32", NULL, "forward ragged padded further"},
    {"mla_train.attn", "B=3 H=2 S=21 T=130 D=32 E=32 P=16", NULL, "forward padded rows further seeded"},
    {"mla_train.attn", "B=2 H=2 S=129 T=65 D=64 E=64 P=32", NULL, "forward packed padded further"},
    {ODD_FURTHER, "B=2 H=2 S=70 T=300 D=32 E=64 P=16 slots=24", NULL, "forward paged pages positions further"},
    {ODD_FURTHER, "B=2 H=2 S=40 T=140 D=32 E=32 P=16", "window=50", "forward padded positions further"},
    {"mla_train.attn", "B=2 H=2 S=70 T=97 D=64 E=64 P=16 slots=16", NULL, "forward paged pages e4m3 values further"},
    {"mla_train.attn", "B=2 H=2 S=40 T=97 D=64 E=64 P=16", NULL, "forward padded i8 token further"},
    {FURTHER, "B=3 H=2 S=70 T=90 D=32 E=32 P=16", NULL, "forward packed work further seeded"},
    {FURTHER, "B=2 H=2 S=70 T=90 D=64 E=32 P=16 slots=16", NULL, "forward packed paged pages further"},
    {FURTHER, "B=3 H=2 S=33 T=70 D=32 E=32 P=32", NULL, "forward ragged padded further"},
};
/* Gradients of rows in layouts: groups of heads, fewer queries than keys and more, one row, sums of inputs, mods of rows, block lists, values in keys. */
static const ExecCase row_gradients[] = {
    {"mha.attn", "B=3 H=2 Hk=1 S=70 T=90 D=64 E=32", NULL, "laid packed planted"},
    {"gemma_local.attn", "B=2 H=2 Hk=1 S=150 T=170 D=32 E=32", "window=40", "laid packed planted"},
    {"mha.attn", "B=3 H=1 Hk=1 S=130 T=1 D=32 E=32", NULL, "laid packed"},
    {"../../../attn_scripts/alibi.attn", "B=5 H=2 S=1 T=1 D=32 E=32", NULL, "laid packed"},
    {KEYS_AS_VALUES, "B=2 H=2 Hk=1 S=21 T=130 D=64", NULL, "laid packed"},
    {"../../../attn_scripts/rope.attn", "B=2 H=2 Hk=1 S=33 T=70 D=32 E=32", NULL, "laid packed"},
    {"../../../attn_scripts/block_causal.attn", "B=2 H=2 S=150 T=150 D=32 E=32", NULL, "laid packed"},
    {"mha.attn", "B=2 H=2 Hk=1 S=40 T=0 D=32 E=32", NULL, "laid packed"},
    {"mha.attn", "B=2 H=2 Hk=2 S=129 T=65 D=64 E=64", NULL, "laid packed padded planted"},
    {"../../../attn_scripts/alibi.attn", "B=2 H=3 S=140 T=140 D=32 E=32", NULL, "laid packed planted"},
    {"../../../attn_scripts/attention_sink.attn", "B=3 H=4 Hk=2 S=90 T=75 D=64 E=64", "window=30", "laid packed planted"},
    {"../../../attn_scripts/qk_norm.attn", "B=2 H=2 Hk=1 S=70 T=70 D=64 E=32", NULL, "laid packed"},
    {"mha.attn", "B=2 H=4 Hk=2 S=70 T=97 D=32 E=64", NULL, "laid packed repeat"},
    {"mha.attn", "B=1 H=1 Hk=1 S=200 T=150 D=128 E=128", NULL, "laid packed"},
    {"mha.attn", "B=3 H=2 Hk=1 S=70 T=90 D=256 E=256", NULL, "laid packed planted"},
    {"gemma_local.attn", "B=2 H=2 Hk=1 S=100 T=150 D=80 E=80", "window=70", "laid packed planted"},
    {"mha.attn", "B=2 H=2 Hk=1 S=70 T=150 D=80 E=208", NULL, "laid padded planted"},
    {"gemma_local.attn", "B=2 H=2 Hk=1 S=100 T=150 D=32 E=32", "window=70", "laid padded"},
    {"../../../attn_scripts/alibi.attn", "B=2 H=3 S=70 T=129 D=32 E=32", NULL, "laid padded"},
    {"../../../attn_scripts/relu.attn", "B=2 H=4 S=140 T=97 D=32 E=64", NULL, "laid padded planted"},
    {"../../../attn_scripts/qk_norm.attn", "B=2 H=2 Hk=1 S=33 T=70 D=64 E=32", NULL, "laid padded planted"},
    {"../../../attn_scripts/pair_bias.attn", "B=2 H=2 S=70 D=32 E=64", NULL, "laid packed planted"},
    {"../../../attn_scripts/forgetting.attn", "B=3 H=2 S=33 T=70 D=64 E=32", NULL, "laid packed"},
    {"documents_bias_sink.attn", "B=2 H=2 S=90 T=90 D=32 E=32", NULL, "laid packed sorted"},
    /* padded queries */
    {"mha.attn", "B=6 H=2 Hk=1 S=70 T=90 D=64 E=32", NULL, "laid ragged padded lengths planted"},
    {"gemma_local.attn", "B=4 H=2 Hk=1 S=150 T=130 D=32 E=32", "window=40", "laid ragged lengths planted"},
    {"../../../attn_scripts/alibi.attn", "B=6 H=2 S=67 T=140 D=32 E=32", NULL, "laid ragged padded lengths planted"},
    {"../../../attn_scripts/attention_sink.attn", "B=3 H=4 Hk=2 S=90 T=75 D=64 E=64", "window=30", "laid ragged padded lengths planted"},
    {"../../../attn_scripts/documents.attn", "B=4 H=2 S=150 D=32 E=32", NULL, "laid ragged sorted lengths planted"},
    {"../../../attn_scripts/pair_bias.attn", "B=4 H=2 S=70 D=32 E=64", NULL, "laid ragged lengths planted"},
    {"../../../attn_scripts/gated.attn", "B=6 H=4 Hk=2 S=70 T=97 D=32 E=32", NULL, "laid ragged padded lengths"},
    {"../../../attn_scripts/forgetting.attn", "B=4 H=2 S=33 T=70 D=64 E=32", NULL, "laid ragged lengths"},
    {"../../../attn_scripts/forgetting.attn", "B=2 H=2 S=33 T=70 D=64 E=32", NULL, "laid ragged padded"},
    {"../../../attn_scripts/rope.attn", "B=6 H=2 Hk=1 S=40 T=70 D=32 E=32", NULL, "laid ragged padded lengths"},
    {"../../../attn_scripts/qk_norm.attn", "B=4 H=2 Hk=1 S=70 T=70 D=64 E=32", NULL, "laid ragged padded lengths planted"},
    {KEYS_AS_VALUES, "B=6 H=2 Hk=1 S=41 T=130 D=64", NULL, "laid ragged padded lengths"},
    {"../../../attn_scripts/block_causal.attn", "B=3 H=2 S=150 T=150 D=32 E=32", NULL, "laid ragged padded lengths"},
    {"../../../attn_scripts/relu.attn", "B=3 H=4 S=140 T=97 D=32 E=64", NULL, "laid ragged padded lengths planted"},
    {"mha.attn", "B=3 H=2 Hk=1 S=70 T=90 D=256 E=256", NULL, "laid ragged lengths planted"},
    {"mha.attn", "B=3 H=2 Hk=1 S=70 T=150 D=80 E=208", NULL, "laid ragged padded lengths"},
    {"mha.attn", "B=6 H=2 Hk=1 S=70 T=90 D=64 E=64", NULL, "laid ragged padded lengths dfinals"},
    {"mha.attn", "B=2 H=2 Hk=1 S=40 T=0 D=32 E=32", NULL, "laid ragged"},
    {"documents_bias_sink.attn", "B=2 H=2 S=90 T=90 D=32 E=32", NULL, "laid ragged sorted"},
    /* further products */
    {"mla_train.attn", "B=3 H=2 S=70 T=90 D=32 E=32 P=16", NULL, "laid packed further seeded planted"},
    {"mla_train.attn", "B=2 H=3 S=33 T=150 D=64 E=32 P=32", NULL, "laid packed padded further"},
    {"mla_train.attn", "B=6 H=2 S=70 T=90 D=32 E=32 P=32", NULL, "laid ragged padded lengths further seeded planted"},
    {"mla_train.attn", "B=3 H=1 S=130 T=1 D=32 E=32 P=16", NULL, "laid packed further"},
    {"mla_train.attn", "B=2 H=2 S=41 T=67 D=32 E=32 P=16", NULL, "laid padded further"},
    {FURTHER, "B=3 H=2 S=70 T=90 D=32 E=32 P=16", NULL, "laid packed further seeded planted"},
    {FURTHER, "B=4 H=2 S=37 T=64 D=32 E=32 P=32", NULL, "laid ragged padded lengths further"},
};
static const char *const row_rungs[] = {"tiled-ir:sm_80", "kernel-ir:sm_80", "kernel-ir:sm_70", "kernel-ir:x86-64-v4", "kernel-ir:sm_90a", "tiled-ir:sm_90a", "passed-ir:sm_90a"};
static const char *const gradient_rungs[] = {"tiled-ir:sm_80", "kernel-ir:sm_80", "kernel-ir:sm_70", "kernel-ir:x86-64-v4", "kernel-ir:sm_90", "kernel-ir:generic", "passed-ir:sm_80",
                                             "tiled-ir:sm_90a", "kernel-ir:sm_90a", "kernel-ir:xe2", "tiled-ir:xe2"};
/* Few queries by multiply-adds of a warp (lanes_packed.c), too. */
static const char *const page_rungs[] = {"kernel-ir:sm_80", "tiled-ir:sm_80", "passed-ir:sm_80", "kernel-ir:sm_90", "kernel-ir:generic", "tiled-ir:generic"};
static const char *const packed_rungs[] = {"kernel-ir:sm_80", "tiled-ir:sm_80", "passed-ir:sm_80", "kernel-ir:sm_90"};
/* Attentions of some of the keys, joined: one part, two, parts without a key, no part; rows without a pair. */
#define PARTS "../../exec/scripts/parts.attn"
#define PARTS_GATE "../../exec/scripts/parts_gate.attn"
static const ExecCase part_cases[] = {
    {PARTS, "B=1 H=2 Hk=1 S=37 T=70 D=16 E=32 parts=2", NULL, "parts forward nan odd"},
    {PARTS_GATE, "B=2 H=1 S=21 T=21 D=32 E=32 parts=3", NULL, "parts forward"},
    {PARTS, "B=1 H=2 Hk=2 S=70 T=130 D=32 E=32 parts=6", NULL, "parts forward big"},
    {PARTS, "B=1 H=1 Hk=1 S=9 T=7 D=16 E=16 parts=1", NULL, "parts forward"},
    {LOW, "B=1 H=1 S=33 T=90 D=32 E=32 parts=4", "offset=-14.0", "parts forward"},
    {PARTS, "B=1 H=1 Hk=1 S=5 T=0 D=16 E=16 parts=0", NULL, "parts forward"},
    {PARTS, "B=1 H=1 Hk=1 S=20 T=40 D=256 E=256 parts=2", NULL, "parts forward"},
};
static const char *const part_rungs[] = {"tiled-ir:x86-64-v4", "kernel-ir:generic", "passed-ir:sm_80", "kernel-ir:x86-64-v3", "tiled-ir:generic",
                                         "kernel-ir:sm_80", "kernel-ir:aarch64", "kernel-ir:sm_90a", "tiled-ir:sm_75"};
static const char *const processors[] = {"kernel-ir:x86-64-v4", "tiled-ir:x86-64-v3", "kernel-ir:aarch64"};
/* What products of pairs must not take as it lies: odd widths, of further products too, and values that are channels of the keys. */
static const char *const cores[] = {"kernel-ir:x86-64-v4-bf16", "kernel-ir:x86-64-v3", "kernel-ir:x86-64-v4", "kernel-ir:x86-64-v4-amx",
                                    "kernel-ir:aarch64", "tiled-ir:x86-64-v4-bf16"};
static const ExecCase core_cases[] = {
    {KEYS_AS_VALUES, "B=1 H=2 Hk=1 S=21 T=70 D=16", NULL, "odd"},
    {KEYS_AS_VALUES, "B=1 H=1 Hk=1 S=3 T=40 D=19", NULL, "few"},
    {"mha.attn", "B=1 H=1 Hk=1 S=9 T=35 D=1 E=1", NULL, NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=9 T=35 D=2 E=5", NULL, "few"},
    {"mha.attn", "B=1 H=1 Hk=1 S=5 T=21 D=3 E=4", NULL, "few nan"},
    {"mha.attn", "B=1 H=1 Hk=1 S=5 T=21 D=7 E=2", NULL, "odd"},
    {"mha.attn", "B=1 H=1 Hk=1 S=5 T=21 D=13 E=9", NULL, "nan"},
    {"mla_train.attn", "B=1 H=1 S=5 T=21 D=6 E=3 P=5", NULL, NULL},
    /* sums of dQ of more registers than one block of a product has, which are no multiple of its */
    {"mha.attn", "B=1 H=2 Hk=1 S=5 T=21 D=129 E=9", NULL, "nan"},
    {"mha.attn", "B=1 H=2 Hk=1 S=5 T=21 D=257 E=3", NULL, "odd"},
    {"../../exec/scripts/dropout_input.attn", "B=2 H=2 Hk=1 S=9 T=35 D=16 E=16", "rate=0.25", NULL},
};
// clang-format on

#endif
