/* ladder_latent.h - what ladder_test.c runs of values that no warp holds: channels of the keys and rows of their own, few rows of queries and more. */
#ifndef AU_TESTS_LADDER_LATENT_H
#define AU_TESTS_LADDER_LATENT_H

#include "ladder_cases.h"

// clang-format off
#define FIRST "../../exec/scripts/latent_first.attn"
#define LATENT "../../exec/scripts/latent.attn"
static const ExecCase latent_cases[] = { /* a part has 256 keys at least */
    {LATENT, "B=2 H=12 S=3 T=550 D=448 slots=16", NULL, "decode forward paged"},
    {"../../../attn_scripts/mla_decode.attn", "B=2 H=16 S=1 T=529 slots=1", NULL, "decode forward paged"},
    {LATENT, "B=1 H=40 S=3 T=530 D=400", NULL, "some forward nan odd"},
    {"mha.attn", "B=67 H=1 Hk=1 S=2 T=90 D=16 E=384", NULL, "decode forward latent"}, /* a block has several tiles */
    {"mha.attn", "B=1 H=6 Hk=2 S=11 T=130 D=384 E=512", NULL, "some forward dfinals"},
    {"sigmoid.attn", "B=1 H=1 S=5 T=850 D=64 E=512", NULL, "decode forward"},
    {"mha.attn", "B=2 H=3 Hk=1 S=9 T=0 D=64 E=384", NULL, "decode forward"},
    {"retention_decay.attn", "B=1 H=2 S=16 T=16 D=16 E=512", NULL, "some forward dfinals"},
    {"../../../attn_scripts/mla_decode.attn", "B=1 H=70 S=1 T=70", NULL, "some forward poison"},
    {EMPTY, "B=1 H=1 S=16 T=30 D=32 E=512", NULL, "decode forward"},
    {"dropout.attn", "B=1 H=2 Hk=1 S=4 T=130 D=64 E=384", "rate=0.25 seed=987654321", "decode forward"},
    {LATENT, "B=3 H=7 S=1 T=200 D=416 slots=32", NULL, "decode forward paged csr"},
    {LATENT, "B=1 H=3 S=1 T=4700 D=400", NULL, "decode forward nan rounds"}, /* warps with some of the channels share a row's rounds */
    {LATENT, "B=2 H=9 S=4 T=390 D=448", NULL, "some forward padded"},
    {HEAD_WINDOWS, "B=2 H=4 Hk=2 Hv=1 S=3 T=190 D=64 E=384", NULL, "decode forward by_head nan"},
    {HEAD_ENDS, "B=2 H=12 Hk=1 Hv=2 S=3 T=230 D=64 E=384 slots=16", NULL, "some forward paged by_head"},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=7 T=190 D=16 E=384", "window=20", "decode forward nan"},
    {"../../../attn_scripts/mla_decode.attn", "B=2 H=5 S=3 T=49 slots=13", NULL, "some forward paged rows"},
    {"mha.attn", "B=1 H=2 Hk=2 S=35 T=590 D=16 E=384", NULL, "some forward latent invariant"}, /* a part has several tiles */
    {"gemma_local.attn", "B=2 H=1 Hk=1 S=33 T=430 D=16 E=384 slots=16", "window=270", "some forward latent paged invariant"},
    {"../../../attn_scripts/mla_decode.attn", "B=2 H=64 S=1 T=330 slots=5", NULL, "some forward latent paged invariant"},
    {"mha.attn", "B=9 H=1 Hk=1 S=35 T=290 D=16 E=384 slots=32", NULL, "some forward latent paged balanced"},
    {"mha.attn", "B=2 H=32 Hk=2 S=3 T=190 D=64 E=384 slots=16", NULL, "some forward latent paged boxes"}, /* queries by boxes of some heads of each */
    {"mha.attn", "B=3 H=8 Hk=1 S=9 T=150 D=16 E=384", NULL, "some forward latent padded nan boxes"},
    {"mha.attn", "B=3 H=24 Hk=1 S=5 T=90 D=16 E=384", NULL, "forward latent whole packed nan boxes"},
    /* groups that make weights in turn: of one tile, an odd number, keys in pieces with and without channels behind the values */
    {FIRST, "B=2 H=12 S=1 T=40 D=384 slots=16", NULL, "some forward latent paged paired_two"},
    {FIRST, "B=3 H=11 S=3 T=180 D=448", NULL, "some forward latent padded nan paired"},
    {FIRST, "B=9 H=16 S=1 T=330 D=448 slots=32", NULL, "some forward latent paged balanced paired"},
    {FIRST, "B=1 H=5 S=70 T=190 D=384", NULL, "forward latent whole dfinals"},
    /* any number of queries: rows of a block are of all heads that share keys, of some queries or of a part of one */
    {"../../../attn_scripts/mla_decode.attn", "B=1 H=3 S=67 T=90", NULL, "forward latent whole"},
    {"mha.attn", "B=2 H=4 Hk=2 S=66 T=150 D=16 E=384", NULL, "forward latent whole"},
    {"mha.attn", "B=1 H=70 Hk=1 S=3 T=66 D=16 E=384", NULL, "forward latent whole nan"},
    {"mha.attn", "B=1 H=64 Hk=1 S=5 T=66 D=16 E=384", NULL, "forward latent whole"}, /* rows of a block are a box */
    {"mha.attn", "B=2 H=128 Hk=1 S=3 T=40 D=16 E=384 slots=24", NULL, "forward latent whole packed paged pages"},
    {"mha.attn", "B=2 H=6 Hk=2 S=65 T=0 D=16 E=384", NULL, "forward latent whole"},
    {"gemma_local.attn", "B=2 H=3 Hk=1 S=130 T=170 D=16 E=384 slots=16", "window=40", "forward latent whole paged pages"},
    {"mha.attn", "B=3 H=5 Hk=1 S=70 T=90 D=16 E=384 slots=3", NULL, "forward latent whole packed paged pages"},
    {"../../../attn_scripts/alibi.attn", "B=3 H=2 S=70 T=97 D=16 E=384", NULL, "forward latent whole packed planted"},
    {LATENT, "B=2 H=3 S=40 T=90 D=448", NULL, "forward latent whole padded"},
    {"sigmoid.attn", "B=1 H=2 S=33 T=150 D=64 E=512", NULL, "forward latent whole"},
    {"../../../attn_scripts/rope.attn", "B=1 H=2 Hk=1 S=70 T=70 D=32 E=384", NULL, "forward latent whole"},
};
static const char *const latent_rungs[] = {"kernel-ir:sm_80", "tiled-ir:sm_90a", "kernel-ir:sm_90a", "passed-ir:sm_90a", "tiled-ir:sm_80", "passed-ir:sm_80", "kernel-ir:sm_90"};
// clang-format on

#endif
