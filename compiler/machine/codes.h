/* codes.h - numbers of 8 bits as tensors store them: what a code means, and which code is nearest to a number. */
#ifndef AU_MACHINE_CODES_H
#define AU_MACHINE_CODES_H

#include "atoms.h"

/* E4M3 (OCP: no infinities, NaN are 0x7f and 0xff), E5M2 (as the high half of f16), I8. Exact in f32, f16 and bf16. */
float machine_decode(AuTileElem elem, uint8_t code);
/* Integers of 4 bits, two in a byte: of the lower half (0) or the upper one (1). */
float machine_decode_half(uint8_t byte, int half);
/* To nearest even. What is larger than the largest number, infinities too, becomes it with its sign; NaN becomes 0x7f, of I8 0. */
uint8_t machine_encode(AuTileElem elem, float value);

#endif
