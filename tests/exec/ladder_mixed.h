/* ladder_mixed.h - what ladder_test.c runs of few queries beside many in one call; scripts as ladder_cases.h names them. */
#ifndef AU_TESTS_LADDER_MIXED_H
#define AU_TESTS_LADDER_MIXED_H

#include "ladder_cases.h"

// clang-format off
/* Batches of few queries and many (exec_rows.c): as many as are few, one more; over keys in all layouts. */
static const char *const mixed_rungs[] = {"kernel-ir:sm_80", "tiled-ir:sm_80", "kernel-ir:x86-64-v3", "kernel-ir:sm_90a", "kernel-ir:generic", "kernel-ir:sm_90", "tiled-ir:generic", "tiled-ir:x86-64-v4", "kernel-ir:x86-64-v4-amx"};
static const ExecCase mixed_cases[] = {
    {"mha.attn", "B=6 H=4 Hk=2 S=40 T=70 D=32 E=32 slots=1", NULL, "mixed packed most forward paged unequal work"},
    {"gemma_local.attn", "B=4 H=8 Hk=1 S=20 T=150 D=32 E=32 slots=48", "window=40", "mixed packed most forward paged work"},
    {"../../../attn_scripts/rope.attn", "B=6 H=2 Hk=1 S=36 T=50 D=32 E=32 slots=13", NULL, "mixed packed most forward paged csr work"},
    {"../../../attn_scripts/attention_sink.attn", "B=5 H=6 Hk=2 S=33 T=90 D=32 E=32", NULL, "mixed packed most forward padded work"},
    {"../../../attn_scripts/alibi.attn", "B=6 H=3 S=50 T=50 D=32 E=32", NULL, "mixed packed most forward"},
    {"../../../attn_scripts/cross.attn", "B=6 H=4 S=40 T=70 D=32 E=32", NULL, "mixed packed most forward"},
    {"../../../attn_scripts/cross.attn", "B=6 H=4 S=20 T=70 D=32 E=32 slots=16", NULL, "mixed packed most forward paged unequal work"},
    {KEYS_AS_VALUES, "B=4 H=4 Hk=1 S=20 T=70 D=64 slots=16", NULL, "mixed packed most forward paged"},
    {"../../../attn_scripts/gated.attn", "B=6 H=4 Hk=2 S=34 T=40 D=32 E=32", NULL, "mixed packed most forward"},
    {"mha.attn", "B=3 H=4 Hk=2 S=3 T=200 D=64 E=64 slots=5", NULL, "mixed packed most forward paged e4m3"},
    {"mla_train.attn", "B=6 H=2 S=36 T=70 D=32 E=32 P=16 slots=16", NULL, "mixed packed most forward paged further work"},
    {"mha.attn", "B=6 H=4 Hk=2 S=40 T=1100 D=32 E=32 slots=16", NULL, "mixed packed most forward paged invariant"},
    {"mha.attn", "B=9 H=4 Hk=2 S=40 T=200 D=32 E=32 slots=4 shared=128", NULL, "mixed packed most forward paged groups work"},
    {"mha.attn", "B=14 H=8 Hk=1 S=4 T=200 D=32 E=32 slots=16 shared=128", NULL, "mixed packed most forward paged groups shares"},
    {"mha.attn", "B=9 H=4 Hk=2 S=20 T=140 D=64 E=64 slots=8 shared=128", NULL, "mixed packed most forward paged groups e4m3"},
    /* masks by head, of more heads than are asked for their ranges, whose blocks have the same heads in all turns or not; values of other heads; further products by pieces */
    {HEAD_WINDOWS, "B=6 H=6 Hk=2 Hv=1 S=40 T=90 D=32 E=32 slots=16", NULL, "mixed packed most forward paged by_head"},
    {HEAD_WINDOWS, "B=6 H=12 Hk=1 Hv=1 S=10 T=150 D=32 E=32", NULL, "mixed packed most forward padded by_head"},
    {HEAD_WINDOWS, "B=6 H=10 Hk=1 Hv=1 S=12 T=130 D=32 E=32 slots=7", NULL, "mixed packed most forward paged by_head work"},
    {HEAD_ENDS, "B=6 H=40 Hk=1 Hv=2 S=8 T=90 D=32 E=32 slots=16", NULL, "mixed packed most forward paged by_head"},
    {HEAD_WINDOWS, "B=2 H=18 Hk=1 Hv=1 S=4 T=540 D=16 E=32 slots=16", NULL, "mixed packed most forward paged by_head"}, /* more heads of a group than a tile has rows */
    {UNJOINED, "B=6 H=6 Hk=2 Hv=2 S=40 T=90 D=32 E=32 slots=16", "window=50", "mixed packed most forward paged work"},
    {UNJOINED, "B=6 H=6 Hk=2 Hv=2 S=40 T=90 D=32 E=32 slots=16", NULL, "mixed packed most forward paged invariant"},
    {SHARED_FURTHER, "B=6 H=6 Hk=2 S=40 T=70 D=32 E=64 P=32 slots=7", NULL, "mixed packed most forward paged further"},
    {FURTHER_HEADS, "B=6 H=6 Hk=1 Hv=2 S=20 T=90 D=32 E=32 P=32 slots=16", NULL, "mixed packed most forward paged further"},
    {KEPT, "B=6 H=4 Hk=2 S=40 T=70 D=32 E=32 slots=16", NULL, "mixed packed most forward paged unequal work"},
    {KEPT, "B=5 H=4 Hk=1 S=36 T=90 D=32 E=32", NULL, "mixed packed most forward padded work"},
};
// clang-format on

#endif
