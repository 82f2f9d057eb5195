/* common.c - functions of the tiled IR that schedules and hooks call, the same for every attention. */
#include "hooks.h"

/* key_tiles: tile indices from key_range. Tiles [low, full_low) are partial, [full_low, full_high)
 * full, [full_high, high) partial. Nothing lies outside the keys, and a tile that sticks out of
 * them is partial.
 *
 * philox: Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011),
 * section 3.3 and table 2. The conventions (counter, key, word, uniform number) are those of
 * docs/dev/attention-ir.md. */
static const char text[] =
    "fn key_tiles(low, high, full_low, full_high, last, N) {\n"
    "    a = clamp(low, 0, last)\n"
    "    z = clamp(high, a, last)\n"
    "    n_low = a / N\n"
    "    n_high = max(cdiv(z, N), n_low)\n"
    "    f_low = clamp(cdiv(max(full_low, 0), N), n_low, n_high)\n"
    "    return n_low, f_low, clamp(min(full_high, last) / N, f_low, n_high), n_high\n"
    "}\n"
    "fn philox_round(c0, c1, c2, c3, k0, k1) {\n"
    "    return mulhi(c2, -845247145) ^ c1 ^ k0, c2 * -845247145, mulhi(c0, -766435501) ^ c3 ^ k1, "
    "c0 * -766435501\n"
    "}\n"
    "fn philox_two(c0, c1, c2, c3, k0, k1) {\n"
    "    d0, d1, d2, d3 = philox_round(c0, c1, c2, c3, k0, k1)\n"
    "    e0, e1, e2, e3 = philox_round(d0, d1, d2, d3, k0 + -1640531527, k1 + -1150833019)\n"
    "    return e0, e1, e2, e3\n"
    "}\n"
    "fn philox_uniform(b, h, i, j, k0, k1) {\n"
    "    a0, a1, a2, a3 = philox_two(b, h, i, j, k0, k1)\n"
    "    b0, b1, b2, b3 = philox_two(a0, a1, a2, a3, k0 + 1013904242, k1 + 1993301258)\n"
    "    d0, d1, d2, d3 = philox_two(b0, b1, b2, b3, k0 + 2027808484, k1 + -308364780)\n"
    "    e0, e1, e2, e3 = philox_two(d0, d1, d2, d3, k0 + -1253254570, k1 + 1684936478)\n"
    "    f0, f1, f2, f3 = philox_two(e0, e1, e2, e3, k0 + -239350328, k1 + -616729560)\n"
    "    return f32((f0 >> 8) & 16777215) * 5.960464477539063e-08\n"
    "}\n";

const AuTileModule *hooks_common(AuArena *arena, AuDiags *diags)
{
    return tile_read(arena, diags, au_source_add(diags, "<common hooks>", text, sizeof text - 1));
}
