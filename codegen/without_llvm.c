/* without_llvm.c - what machine code and linking come from is not in this build (meson's option llvm=none). The compiler refuses before it comes here. */
#include "calls.h"

static bool refuse(AuDiags *diags, const char *what)
{
    au_error(diags, AU_E0623, (AuSpan){0}, "%s: this aulec was built without LLVM", what);
    return false;
}

bool au_image_object(AuArena *arena, AuDiags *diags, const AuImage *image, const char *symbol,
                     const AuArch *arch, AuBlob *out)
{
    (void)arena, (void)image, (void)arch, (void)out;
    return refuse(diags, symbol);
}

bool au_link_shared(AuArena *arena, AuDiags *diags, const AuBlob *objects, uint32_t count,
                    const char *export_symbol, const AuArch *arch, AuBlob *out)
{
    (void)arena, (void)objects, (void)count, (void)arch, (void)out;
    return refuse(diags, export_symbol);
}

bool au_calls_object(AuArena *arena, AuDiags *diags, const AuCall *calls, uint32_t count,
                     const AuArch *arch, AuBlob *out)
{
    (void)arena, (void)calls, (void)count, (void)arch, (void)out;
    return refuse(diags, "functions that call kernels");
}

bool au_link_object(AuArena *arena, AuDiags *diags, const AuBlob *objects, uint32_t count,
                    AuBlob *out)
{
    (void)arena, (void)objects, (void)count, (void)out;
    return refuse(diags, "an object of several");
}
