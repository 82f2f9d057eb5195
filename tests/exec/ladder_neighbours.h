/* ladder_neighbours.h - what ladder_test.c runs of sequences whose results must have the same bits whatever else is in the call (exec_neighbours.c). */
#ifndef AU_TESTS_LADDER_NEIGHBOURS_H
#define AU_TESTS_LADDER_NEIGHBOURS_H

#include "ladder_cases.h"

// clang-format off
#define NEIGHBOURS "../../exec/scripts/neighbours.attn"
#define CAPPED_NEIGHBOURS "../../exec/scripts/capped_neighbours.attn"
#define CHANGED_NEIGHBOURS "../../exec/scripts/changed_neighbours.attn"
static const char *const neighbour_rungs[] = {"passed-ir:sm_90a", "kernel-ir:sm_80", "kernel-ir:sm_90a", "passed-ir:sm_80", "kernel-ir:generic", "kernel-ir:gfx942", "kernel-ir:xe2", "kernel-ir:gfx1100",
                                              "kernel-ir:x86-64-v4", "kernel-ir:x86-64-v4-amx"};
static const ExecCase neighbour_cases[] = {
    /* two rows of a warp are the sequence's, whose neighbours' lie behind them; whose maxima lie behind, whose tanh is a polynomial */
    {NEIGHBOURS, "B=3 H=4 Hk=1 S=130 T=170 D=32 E=32", NULL, "forward packed most invariant neighbours"},
    {NEIGHBOURS, "B=3 H=4 Hk=1 S=130 T=170 D=32 E=32 slots=16", NULL, "forward packed paged pages invariant neighbours"},
    {NEIGHBOURS, "B=3 H=4 Hk=1 S=67 T=170 D=32 E=32", NULL, "forward ragged padded invariant neighbours"},
    {NEIGHBOURS, "B=3 H=2 Hk=1 S=3 T=700 D=32 E=32", NULL, "decode forward packed most padded invariant neighbours"},
    {NEIGHBOURS, "B=3 H=4 Hk=2 S=5 T=700 D=32 E=32 slots=16", NULL, "decode forward ragged paged invariant neighbours"},
    {NEIGHBOURS, "B=4 H=4 Hk=2 S=35 T=170 D=32 E=32 slots=16", NULL, "mixed packed most forward paged invariant neighbours"},
    {NEIGHBOURS, "B=3 H=3 Hk=1 S=35 T=170 D=16 E=384 slots=16", NULL, "forward latent whole packed paged pages invariant neighbours"},
    {NEIGHBOURS, "B=3 H=2 Hk=1 S=5 T=290 D=16 E=384 slots=16", NULL, "some forward latent paged invariant neighbours"},
    {CAPPED_NEIGHBOURS, "B=3 H=2 Hk=1 S=130 T=150 D=64 E=64", NULL, "forward packed most invariant neighbours"},
    {CAPPED_NEIGHBOURS, "B=3 H=2 Hk=1 S=67 T=150 D=64 E=64", NULL, "forward ragged padded invariant neighbours"},
    {CAPPED_NEIGHBOURS, "B=3 H=2 Hk=1 S=3 T=300 D=64 E=64 slots=16", NULL, "decode forward packed most paged invariant neighbours"},
    {CAPPED_NEIGHBOURS, "B=4 H=4 Hk=2 S=35 T=150 D=64 E=64 slots=16", NULL, "mixed packed most forward paged invariant neighbours"},
    /* keys of a tile that are behind the sequence's, whose inputs are others' */
    {CAPPED_NEIGHBOURS, "B=3 H=4 Hk=1 S=40 T=70 D=64 E=64", "of_rows=0.3 of_keys=1.1", "forward padded invariant neighbours"},
    {CAPPED_NEIGHBOURS, "B=3 H=4 Hk=1 S=70 T=90 D=64 E=64", "of_rows=0.3 of_keys=1.1", "forward packed most invariant neighbours"},
    {CAPPED_NEIGHBOURS, "B=3 H=2 Hk=1 S=70 T=90 D=64 E=64 slots=16", "of_rows=0.3 of_keys=1.1", "forward packed paged pages invariant neighbours"},
    {CAPPED_NEIGHBOURS, "B=3 H=2 Hk=1 S=3 T=300 D=64 E=64 slots=16", "of_rows=0.3 of_keys=1.1", "decode forward packed most paged invariant neighbours"},
    {CHANGED_NEIGHBOURS, "B=3 H=4 Hk=2 S=67 T=90 D=32 E=32", NULL, "forward packed most invariant neighbours"},
    {CHANGED_NEIGHBOURS, "B=3 H=4 Hk=2 S=67 T=90 D=32 E=32 slots=16", NULL, "forward ragged paged pages invariant neighbours"},
    {CHANGED_NEIGHBOURS, "B=3 H=2 Hk=1 S=3 T=300 D=32 E=32 slots=16", NULL, "decode forward packed most paged invariant neighbours"},
    {"../../../attn_scripts/documents.attn", "B=4 H=2 S=130 D=32 E=32", NULL, "forward packed most invariant sorted neighbours"},
    {"../../../attn_scripts/documents.attn", "B=4 H=2 S=130 D=32 E=32", NULL, "forward ragged invariant sorted neighbours"},
    {PAIR_BIAS, "B=3 H=2 S=97 D=32 E=32", NULL, "forward packed most invariant neighbours"},
    {"../../../attn_scripts/tree.attn", "B=3 H=2 Hk=1 S=20 T=300 D=32 E=32 slots=16", NULL, "forward packed paged pages invariant neighbours"},
    {"../../../attn_scripts/tree.attn", "B=3 H=6 Hk=2 S=5 T=300 D=32 E=32 slots=16", NULL, "decode forward packed most paged invariant neighbours"},
    /* dense: rows behind a head's are nobody's, and its sums do not ask how many heads there are */
    {NEIGHBOURS, "B=3 H=4 Hk=1 S=130 T=170 D=32 E=32", NULL, "forward invariant neighbours"},
    {NEIGHBOURS, "B=3 H=2 Hk=1 S=3 T=700 D=32 E=32", NULL, "decode forward invariant neighbours"},
};
// clang-format on

#endif
