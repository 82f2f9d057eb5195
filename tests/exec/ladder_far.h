/* ladder_far.h - cases of ladder_test.c: operands of matrix units that come straight from tensors (docs/dev/blocks.md). */
#ifndef AU_TESTS_LADDER_FAR_H
#define AU_TESTS_LADDER_FAR_H

#include "ladder_cases.h"

// clang-format off
/* Operands straight from tensors, by blocks and gathered (odd strides): few queries, whose warps have keys of their own; rows that grow by more than maxima
 * may lie behind, by little and by much; tiles that a window and a list cut; the fewest keys a tile. */
static const char *const far_rungs[] = {"kernel-ir:xe2", "passed-ir:xe2", "tiled-ir:xe2"};
static const ExecCase far_cases[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=3 T=300 D=128 E=128", NULL, "few nan forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=2 T=100 D=128 E=128", NULL, "few forward"}, /* factors of a join, of rows, and two columns */
    {"mha.attn", "B=1 H=2 Hk=1 S=8 T=137 D=64 E=64", NULL, "few odd dfinals forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=9 T=290 D=64 E=64", NULL, "few huge forward"},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=7 T=300 D=64 E=32", "window=20", "few forward"},
    {"documents_bias_sink.attn", "B=1 H=2 S=30 T=30 D=32 E=64", NULL, "few sorted far_head forward"},
    {EMPTY, "B=1 H=1 S=20 T=30 D=32 E=32", NULL, "few forward"},
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=290 D=128 E=128", NULL, "big odd forward"},
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=290 D=64 E=64", NULL, "huge nan forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=33 T=290 D=96 E=96", NULL, "far_queries forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=20 T=70 D=192 E=160", NULL, "odd forward"},
    {"../../../attn_scripts/sliding_window.attn", "B=1 H=1 Hk=1 S=150 T=300 D=64 E=64", "window=140", "forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=33 T=200 D=64 E=64", NULL, "poison forward"},
    /* gradients: of keys whose warps have them alone, and share them (128), also with inputs that pairs read and queries that a mod changes */
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=90 D=64 E=64", NULL, "nan dfinals"},
    {"mha.attn", "B=2 H=2 Hk=1 S=37 T=70 D=128 E=128", NULL, "odd nan"},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=41 T=150 D=128 E=64", "window=20", "odd"},
    {"../../../attn_scripts/alibi.attn", "B=1 H=2 Hk=1 S=33 T=50 D=128 E=128", NULL, "nan"},
    {"documents_bias_sink.attn", "B=1 H=2 S=70 T=70 D=128 E=128", NULL, "sorted dfinals"},
    {"mha.attn", "B=1 H=1 Hk=1 S=1 T=37 D=192 E=160", NULL, "nan"},
    {"mha.attn", "B=1 H=1 Hk=1 S=33 T=0 D=128 E=128", NULL, NULL},
    {EMPTY, "B=1 H=1 S=20 T=30 D=128 E=128", NULL, NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=40 T=20 D=64 E=64", NULL, "unseen"},
    /* warps that share rows, each with a part of the channels: two, four, of few queries with keys of their own, too */
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=90 D=160 E=160", NULL, "nan dfinals forward"},
    {"mha.attn", "B=1 H=2 Hk=1 S=41 T=50 D=192 E=192", NULL, "odd forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=19 T=70 D=256 E=256", NULL, "nan forward"},
    {"mha.attn", "B=1 H=2 Hk=1 S=7 T=137 D=160 E=160", NULL, "few nan dfinals forward"},
    {"mha.attn", "B=1 H=2 Hk=1 S=3 T=150 D=192 E=192", NULL, "few odd forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=9 T=90 D=256 E=256", NULL, "few dfinals forward"},
    {EMPTY, "B=1 H=1 S=20 T=30 D=32 E=192", NULL, "few unseen forward"},
    {"documents_bias_sink.attn", "B=1 H=2 S=70 T=70 D=64 E=192", NULL, "sorted dfinals forward"},
    /* rows in a layout: sequences without any are no surface */
    {"mha.attn", "B=6 H=2 Hk=1 S=70 T=90 D=64 E=64", NULL, "laid ragged padded lengths dfinals"},
    {"mha.attn", "B=3 H=2 Hk=1 S=70 T=90 D=64 E=192", NULL, "laid packed"},
    {"gemma_local.attn", "B=4 H=2 Hk=1 S=41 T=90 D=128 E=160", "window=20", "laid ragged lengths"},
    {"documents_bias_sink.attn", "B=2 H=2 S=90 T=90 D=64 E=64", NULL, "laid packed sorted"},
};
/* Operands by the lanes' own loads: whole tiles, tiles that an end, a range or a document cuts, rows that are no vectors, further products, values that
 * are channels of keys, packed and padded rows, no keys, few queries. */
static const char *const own_rungs[] = {"kernel-ir:metal9", "tiled-ir:metal9", "passed-ir:metal9"};
/* The same by loads of whole matrices: by bounds, and where a tensor does not lie so, element by element. */
static const char *const tensor_rungs[] = {"kernel-ir:vulkan_nv_tensors", "kernel-ir:vulkan8_nv_tensors", "tiled-ir:vulkan_nv_tensors", "kernel-ir:vulkan_nv_blocks", "tiled-ir:vulkan_nv_blocks", "kernel-ir:vulkan_nv_blocks256"};
static const ExecCase own_cases[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=90 D=64 E=64", NULL, "nan forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=40 T=128 D=64 E=64", NULL, "nan forward"},
    {"mha.attn", "B=2 H=2 Hk=1 S=37 T=131 D=128 E=128", NULL, "nan odd forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=5 T=0 D=64 E=64", NULL, "forward"},
    {"mha.attn", "B=1 H=4 Hk=2 S=1 T=150 D=64 E=64", NULL, "few nan forward"},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=16 T=300 D=32 E=64", "window=20", "few odd forward"},
    {"../../../attn_scripts/sliding_window.attn", "B=1 H=1 Hk=1 S=150 T=300 D=40 E=72", "window=50", "nan forward"},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=41 T=150 D=64 E=64", "window=20", "unseen forward"},
    {"mha.attn", "B=1 H=2 Hk=1 S=90 T=37 D=64 E=64", NULL, "unseen forward"},
    {"../../../attn_scripts/documents.attn", "B=1 H=1 S=150 D=64 E=64", NULL, "sorted forward"},
    {"mla_train.attn", "B=1 H=2 S=17 T=39 D=32 E=32 P=32", NULL, "nan forward"},
    {KEYS_AS_VALUES, "B=1 H=2 Hk=1 S=21 T=70 D=32", NULL, "odd forward"},
    {FURTHER, "B=3 H=2 S=21 T=40 D=64 E=64 P=32", NULL, "forward packed seeded"},
    {"mha.attn", "B=3 H=2 Hk=1 S=70 T=40 D=64 E=64", NULL, "forward ragged padded"},
    {"mha.attn", "B=1 H=1 Hk=1 S=20 T=70 D=256 E=256", NULL, "forward"}, /* too wide for it */
    /* gradients: heads that share keys, rows that are no vectors, tiles that an end, a window or a document cuts, NaN that is not to be seen, no keys, rows that
     * change, sums over a row's keys, gradients of inputs; too wide */
    {"mha.attn", "B=1 H=4 Hk=2 S=70 T=90 D=64 E=64", NULL, "nan dfinals repeat"},
    {"mha.attn", "B=2 H=2 Hk=1 S=37 T=131 D=128 E=128", NULL, "nan odd dfinals"},
    {"mha.attn", "B=1 H=1 Hk=1 S=5 T=0 D=64 E=64", NULL, NULL},
    {"mha.attn", "B=1 H=1 Hk=1 S=1 T=1 D=16 E=16", NULL, NULL},
    {"mha.attn", "B=1 H=2 Hk=1 S=90 T=37 D=96 E=64", NULL, "unseen ordered"},
    {"../../../attn_scripts/sliding_window.attn", "B=1 H=2 Hk=1 S=150 T=170 D=40 E=112", "window=50", "nan repeat ordered"},
    {"../../../attn_scripts/documents.attn", "B=1 H=2 S=150 T=150 D=32 E=48", NULL, "sorted repeat"},
    {"gated_qknorm.attn", "B=2 H=2 Hk=1 S=13 T=21 D=32", NULL, "odd"},
    {"../../exec/scripts/two_sums.attn", "B=1 H=2 S=70 T=90 D=80 E=64", NULL, NULL},
    {"../../exec/scripts/dropout_input.attn", "B=1 H=2 Hk=1 S=60 T=100 D=64 E=64", "rate=0.25", NULL},
    {PAIR_BIAS, "B=1 H=2 S=37 D=64 E=64", NULL, "poison"},
    {"mha.attn", "B=1 H=1 Hk=1 S=20 T=70 D=192 E=160", NULL, "nan"},
};
// clang-format on

#endif
