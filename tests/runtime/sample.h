/* sample.h - an artifact made by hand, for tests of the runtime without the compiler: one attention, `sample`, softmax with a scale,
 * key lengths and a window, with kernels for the processor, for OpenCL, for the mock device and for the mock of CUDA's driver.
 *
 *   q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; input lengths: i32[B]; input slope: f32[2 * H - 1];
 *   o: [B, H, S, E]; final lse: f32[B, H, S] (optional)
 *   backward: do, dlse (optional); dq, dk, dv, dslope
 *   param scale: f32 = rsqrt(D); param window: i32; param flag: bool = 1; param seed: i64 = 7
 *   require window > 0; require H % Hk == 0
 *   score = scale * q.k + slope[h]; keys j < lengths[b] and |i - j| < window */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "aule/aule.h"

enum { SAMPLE_D = 8, SAMPLE_E = 4 };
// clang-format off
enum { T_Q, T_K, T_V, T_LENGTHS, T_SLOPE, T_O, T_LSE, T_DO, T_DLSE, T_DQ, T_DK, T_DV, T_DSLOPE, TENSORS, FORWARD_TENSORS = T_DO };
// clang-format on
enum { Z_B, Z_H, Z_HK, Z_S, Z_T, Z_D, Z_E, SIZES };
enum { P_SCALE, P_WINDOW, P_FLAG, P_SEED, PARAMS };

/* In a shared library it goes by the name that libaule looks for, which is also a type's. */
#ifdef SAMPLE_IN_LIBRARY
extern const aule_module_v1 sample_module __asm__("aule_module_v1");
#else
extern const aule_module_v1 sample_module;
#endif

#endif
