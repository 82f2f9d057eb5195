/* cuda_gate.cpp - a pass of LLVM's code generator that a PTX assembler makes superfluous, left out of one context. What asks whether a pass
 * shall run is a class of LLVM's (OptPassGate) that its C API does not have. */
#include "cuda_gate.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/Support/CBindingWrapping.h>

#include <new>

struct CudaGate final : llvm::OptPassGate {
    bool isEnabled() const override { return true; }
    bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) const override
    {
        return pass != "slsr";
    }
};

extern "C" CudaGate *cuda_gate_open(LLVMContextRef context)
{
    CudaGate *opened = new (std::nothrow) CudaGate;
    if (opened) llvm::unwrap(context)->setOptPassGate(*opened);
    return opened;
}

extern "C" void cuda_gate_close(CudaGate *gate) { delete gate; }
