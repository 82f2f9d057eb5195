/* ladder_chunk.h - what ladder_test.c runs of rows of all heads that share keys, more than are few, on groups of warps that have parts of the keys
 * (group_packed.c): of one block and more, of groups of heads that are no power of two, of queries whose rows two groups have. */
#ifndef AU_TESTS_LADDER_CHUNK_H
#define AU_TESTS_LADDER_CHUNK_H

#include "ladder_cases.h"

// clang-format off
static const char *const chunk_rungs[] = {"tiled-ir:sm_90a", "kernel-ir:sm_90a", "passed-ir:sm_90a"};
static const ExecCase chunk_cases[] = {
    {"mha.attn", "B=1 H=4 Hk=2 S=17 T=700 D=32 E=32 slots=16", NULL, "chunk forward paged"},
    {"mha.attn", "B=2 H=3 Hk=1 S=29 T=290 D=64 E=64", NULL, "chunk forward nan dfinals"},
    {"mha.attn", "B=1 H=5 Hk=1 S=37 T=530 D=32 E=64 slots=48", NULL, "chunk forward paged nan"},
    {"gemma_local.attn", "B=1 H=6 Hk=2 S=21 T=600 D=64 E=64 slots=32", "window=270", "chunk forward paged"},
    {"gemma_local.attn", "B=2 H=4 Hk=2 S=19 T=500 D=32 E=32", "window=33", "chunk forward padded"},
    {"mha.attn", "B=3 H=4 Hk=2 S=20 T=170 D=32 E=32", NULL, "chunk forward padded nan"},
    {"../../../attn_scripts/alibi.attn", "B=2 H=2 S=40 T=300 D=64 E=64", NULL, "chunk forward"},
    {"../../../attn_scripts/softcap.attn", "B=1 H=4 Hk=2 S=18 T=270 D=128 E=128 slots=16", "cap=3.0", "chunk forward paged"},
    {"../../../attn_scripts/attention_sink.attn", "B=2 H=4 Hk=2 S=33 T=275 D=64 E=64 slots=16", "window=130", "chunk forward paged"},
    {"dropout.attn", "B=1 H=2 Hk=1 S=39 T=270 D=32 E=64", "rate=0.25 seed=987654321", "chunk forward"},
    {"sigmoid.attn", "B=1 H=1 S=67 T=330 D=64 E=32", NULL, "chunk forward"},
    {"../../../attn_scripts/relu.attn", "B=1 H=2 S=35 T=197 D=32 E=64", NULL, "chunk forward"},
    {"../../../attn_scripts/gated.attn", "B=2 H=4 Hk=2 S=22 T=270 D=32 E=32", NULL, "chunk forward"},
    {"../../../attn_scripts/qk_norm.attn", "B=2 H=2 Hk=1 S=33 T=300 D=64 E=32", NULL, "chunk forward"},
    {"../../../attn_scripts/rope.attn", "B=1 H=4 Hk=1 S=17 T=260 D=64 E=64 slots=16", NULL, "chunk forward paged"},
    {"../../../attn_scripts/tree.attn", "B=2 H=4 Hk=1 S=21 T=300 D=32 E=32 slots=16", NULL, "chunk forward paged"},
    {"documents_bias_sink.attn", "B=2 H=2 S=90 T=90 D=32 E=64 slots=16", NULL, "chunk forward paged sorted"},
    {"mha.attn", "B=9 H=4 Hk=2 S=17 T=290 D=32 E=32 slots=32", NULL, "chunk forward paged balanced"},
    {"gemma_local.attn", "B=9 H=2 Hk=1 S=33 T=330 D=32 E=32", "window=140", "chunk forward padded balanced"},
    {"mha.attn", "B=3 H=4 Hk=2 S=35 T=290 D=32 E=32 slots=16", NULL, "chunk packed most forward paged unequal"},
    {"mha.attn", "B=9 H=3 Hk=1 S=40 T=290 D=32 E=32 slots=16", NULL, "chunk packed most forward paged balanced"},
    {"mha.attn", "B=3 H=4 Hk=2 S=35 T=290 D=32 E=32 slots=16", NULL, "chunk ragged forward paged"},
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=290 D=256 E=256 slots=16", NULL, "chunk forward paged"},
    {"mha.attn", "B=2 H=4 Hk=2 S=17 T=0 D=32 E=32", NULL, "chunk forward"},
    {"mha.attn", "B=2 H=70 Hk=1 S=2 T=290 D=32 E=32 slots=16", NULL, "chunk forward paged csr"},
    {"mha.attn", "B=2 H=128 Hk=1 S=1 T=290 D=32 E=32", NULL, "chunk forward"}, /* rows of a block are a box */
    {"mha.attn", "B=2 H=4 Hk=2 S=20 T=290 D=32 E=32 slots=16", NULL, "chunk forward paged rows"},
    {"../../../attn_scripts/differential.attn", "B=2 H=4 Hv=2 S=70 T=230 D=32 E=64 slots=16", NULL, "chunk forward paged nan"},
    /* without a mask: blocks that stay, each with several blocks of rows */
    {"../../../attn_scripts/cosine.attn", "B=3 H=4 S=140 T=290 D=32 E=32", NULL, "chunk forward many"},
    {"../../exec/scripts/two_caps.attn", "B=3 H=4 Hk=2 S=75 T=290 D=64 E=64 slots=16", NULL, "chunk forward paged many nan"},
    {"../../exec/scripts/two_caps.attn", "B=9 H=4 Hk=2 S=35 T=190 D=32 E=32 slots=32", NULL, "chunk forward paged balanced many"},
    {"gemma_local.attn", "B=9 H=80 Hk=40 S=33 T=270 D=32 E=32", "window=50", "chunk forward slow"}, /* more blocks than processors */
};
// clang-format on

#endif
