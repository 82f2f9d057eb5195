/* cuda_gate.h - which pass of LLVM's code generator is left out of what becomes PTX. */
#ifndef AU_CUDA_GATE_H
#define AU_CUDA_GATE_H

#include <llvm-c/Types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Code of [context] is generated without straight line strength reduction: a sixth of the compiler's time for kernels of groups of warps, whose machine
 * code is the same within a few instructions, since assemblers of PTX do it again. */
typedef struct CudaGate CudaGate;
CudaGate *cuda_gate_open(LLVMContextRef context); /* NULL, with all passes: out of memory */
void cuda_gate_close(CudaGate *gate);             /* after the context; NULL: nothing */

#ifdef __cplusplus
}
#endif
#endif
