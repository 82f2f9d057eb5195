/* ladder_waves.h - cases of ladder_test.c: matrix units beside NVIDIA's. */
#ifndef AU_TESTS_LADDER_WAVES_H
#define AU_TESTS_LADDER_WAVES_H

#include "ladder_cases.h"

// clang-format off
/* Matrix units beside NVIDIA's, by the layouts of their rows in atoms.def; at least one of each vendor's is quick. gfx1030: products of pairs. */
static const char *const waves[] = {"kernel-ir:gfx942", "kernel-ir:gfx1100", "kernel-ir:xe2", "kernel-ir:gfx908", "kernel-ir:gfx90a",
                                    "kernel-ir:gfx950", "kernel-ir:gfx1200", "kernel-ir:metal", "tiled-ir:gfx942", "tiled-ir:xe2",
                                    "kernel-ir:vulkan", "kernel-ir:vulkan_at", "kernel-ir:vulkan8", "tiled-ir:vulkan8", "kernel-ir:vulkan_nv", "kernel-ir:vulkan8_nv",
                                    "tiled-ir:vulkan_nv", "passed-ir:gfx942", "passed-ir:gfx1200",
                                    "tiled-ir:gfx908", "tiled-ir:gfx90a", "tiled-ir:gfx950", "tiled-ir:gfx1100", "tiled-ir:gfx1200", "tiled-ir:metal",
                                    "kernel-ir:gfx1030", "tiled-ir:gfx1030", "kernel-ir:vulkan_nv_tensors", "kernel-ir:vulkan_nv_blocks"};
static const ExecCase wave_cases[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=90 D=64 E=64", NULL, "nan odd dfinals"},
    {"documents_bias_sink.attn", "B=1 H=2 S=140 T=140 D=32 E=32", NULL, "sorted dfinals"},
    {"gemma_local.attn", "B=1 H=2 Hk=1 S=90 T=150 D=32 E=64", "window=20", NULL},
    {"mla_train.attn", "B=1 H=2 S=17 T=39 D=32 E=32 P=32", NULL, NULL},
    {FURTHER, "B=3 H=2 S=21 T=40 D=64 E=64 P=32", NULL, "forward packed seeded"}, /* a table that packed sequences share */
    {"mha.attn", "B=3 H=2 Hk=1 S=70 T=40 D=64 E=64", NULL, "forward ragged padded"},
    {"../../../attn_scripts/softcap.attn", "B=1 H=2 Hk=1 S=70 T=90 D=64 E=64", "cap=3.0", "odd"},
    {"../../exec/scripts/two_caps.attn", "B=1 H=2 Hk=1 S=70 T=90 D=64 E=64", NULL, NULL},
    {"../../exec/scripts/dropout_input.attn", "B=1 H=2 Hk=1 S=60 T=100 D=64 E=64", "rate=0.25", NULL},
};
/* Products of 16 columns of a machine whose bf16 has another shape than f16. */
static const char *const narrow_rungs[] = {"kernel-ir:gfx908", "tiled-ir:gfx908", "passed-ir:gfx908"};
static const ExecCase narrow_cases[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=37 T=57 D=48 E=80", NULL, "nan odd"},
    {"mha.attn", "B=1 H=1 Hk=1 S=33 T=35 D=16 E=16", NULL, "nan dfinals"},
    {"../../../attn_scripts/documents.attn", "B=1 H=1 S=50 D=112 E=48", NULL, "sorted"},
    {"mha.attn", "B=1 H=1 Hk=1 S=3 T=70 D=80 E=112", NULL, "few odd"},
};
/* Tiles that come by copies which take one place for all lanes: whole ones, borders, rows that the swizzle repeats after 5 and after 8. */
static const char *const direct_rungs[] = {"kernel-ir:gfx950", "passed-ir:gfx950", "tiled-ir:gfx950"};
static const ExecCase direct_cases[] = {
    {"mha.attn", "B=1 H=2 Hk=1 S=70 T=290 D=128 E=128", NULL, "nan forward"},
    {"../../../attn_scripts/sliding_window.attn", "B=1 H=1 Hk=1 S=150 T=300 D=96 E=144", "window=140", "forward"},
    {"../../../attn_scripts/documents.attn", "B=1 H=1 S=300 D=128 E=128", NULL, "sorted forward"},
    {"mha.attn", "B=1 H=1 Hk=1 S=33 T=200 D=192 E=128", NULL, "odd forward"},
};
// clang-format on

#endif
