/* cuda_gate.cpp - a pass of LLVM's code generator that a PTX assembler makes superfluous, left out of one context. What asks whether a pass
 * shall run is a class of LLVM's (OptPassGate) that its C API does not have. */
#include "cuda_gate.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/Support/CBindingWrapping.h>

namespace {

class Gate final : public llvm::OptPassGate {
  public:
    bool isEnabled() const override { return true; }
    bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) const override
    {
        return pass != "slsr";
    }
};

} // namespace

extern "C" void cuda_gate(LLVMContextRef context)
{
    static Gate gate; /* without any state; contexts do not own theirs */
    llvm::unwrap(context)->setOptPassGate(gate);
}
