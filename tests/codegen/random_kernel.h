/* random_kernel.h - random kernels for generators of code: which values they join, in which order, in which integer type; arrays of
 * lanes, regions, masks. Signed arithmetic stays small, as that of indices does; what wraps around is of another kind, bits. */
#ifndef AU_TEST_RANDOM_KERNEL_H
#define AU_TEST_RANDOM_KERNEL_H

#include "data.h"

enum { RANDOM_BLOCKS = 2, RANDOM_LANES = 8 };
/* Up to 64 lanes; of more than RANDOM_LANES they exchange numbers, too. [with_fma]: without, for devices that may round a product and a
 * sum twice. */
AuKernel *random_kernel(Bench *b, uint32_t seed, uint32_t lanes, bool with_fma);
/* One an argument: inputs are filled, outputs are to be written. */
AuKBuffer *random_buffers(Bench *b, const AuKernel *k, uint32_t seed);

#endif
