/* assemble.c - by LLVM's assembler, which takes the text as that of a module. A line that it refuses makes no bytes, and the others are assembled. */
#include "assemble.h"

#include "llvm.h"
#include "text.h"

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOT = 64, LANE_BYTES = 4 * VECTORS, SCALARS_AT = WIDEST * LANE_BYTES };

/* ---- what is around the forms. v10 to v21 and s32 to s47 are theirs, with VCC, EXEC, SCC and M0. */

static const char begin[] = ".text\n.globl k\n.p2align 8\n.type k,@function\nk:\n"
                            "s_load_dwordx4 s[4:7], s[0:1], 0x0\ns_load_dword s8, s[0:1], 0x10\n"
                            "v_mul_u32_u24 v1, 48, v0\n";
static const char load[] =
    "s_add_u32 s10, s4, 0xc00\ns_addc_u32 s11, s5, 0\n"
    "global_load_dwordx4 v[10:13], v1, s[4:5]\nglobal_load_dwordx4 v[14:17], v1, s[4:5] offset:16\n"
    "global_load_dwordx4 v[18:21], v1, s[4:5] offset:32\n"
    "s_load_dwordx16 s[32:47], s[10:11], 0x0\ns_load_dwordx8 s[48:55], s[10:11], 0x40\n";
static const char go[] =
    "s_getpc_b64 s[56:57]\nhere:\ns_add_u32 s58, s56, back-here\ns_addc_u32 s59, s57, 0\n"
    "s_lshl_b32 s60, s8, 6\ns_add_u32 s60, s60, table-here\n"
    "s_add_u32 s56, s56, s60\ns_addc_u32 s57, s57, 0\n"
    "s_mov_b32 vcc_lo, s48\ns_mov_b32 vcc_hi, s49\ns_mov_b32 m0, s53\ns_cmp_lg_u32 s52, 0\n"
    "s_mov_b32 exec_lo, s50\ns_mov_b32 exec_hi, s51\ns_setpc_b64 s[56:57]\n.p2align 6\ntable:\n";
static const char back[] = "back:\ns_mov_b32 s60, vcc_lo\ns_mov_b32 s61, vcc_hi\ns_mov_b32 s62, "
                           "exec_lo\ns_mov_b32 s63, exec_hi\n"
                           "s_cselect_b32 s64, 1, 0\ns_mov_b32 s65, m0\ns_mov_b32 exec_lo, -1\n";
static const char store[] = "global_store_dwordx4 v1, v[10:13], s[6:7]\nglobal_store_dwordx4 v1, "
                            "v[14:17], s[6:7] offset:16\n"
                            "global_store_dwordx4 v1, v[18:21], s[6:7] offset:32\n"
                            "s_mov_b32 exec_lo, 1\ns_mov_b32 exec_hi, 0\nv_mov_b32 v3, "
                            "0\ns_add_u32 s6, s6, 0xc00\ns_addc_u32 s7, s7, 0\n";
/* The descriptor as aulec's kernels have it (tests/golden/hip). */
static const char end[] =
    ".rodata\n.p2align 6\n.amdhsa_kernel k\n.amdhsa_user_sgpr_kernarg_segment_ptr "
    "1\n.amdhsa_kernarg_size 24\n"
    ".amdhsa_next_free_vgpr 32\n.amdhsa_next_free_sgpr 80\n.amdhsa_float_denorm_mode_32 3\n"
    ".amdhsa_float_denorm_mode_16_64 3\n";

static void say_stores(AuText *t)
{
    static const unsigned from[] = {32, 36, 40, 44, 60, 64};
    for (unsigned n = 0; n < sizeof from / sizeof *from; n++) {
        for (unsigned i = 0; i < (from[n] == 64 ? 2u : 4u); i++)
            au_text_add(t, "v_mov_b32 v%u, s%u\n", 4 + i, from[n] + i);
        au_text_add(t, "global_store_dwordx%d v3, v[4:%d], s[6:7] offset:%u\n",
                    from[n] == 64 ? 2 : 4, from[n] == 64 ? 5 : 7, 16 * n);
    }
}

static void say_kernel(AuText *t, const Machine *m, const Form *forms, uint32_t count,
                       uint32_t *lines)
{
    const bool new = m->generation == GFX12;
    const char *scalars = new ? "s_wait_kmcnt 0\n" : "s_waitcnt lgkmcnt(0)\n";
    au_text_add(t, "%s%s%s%s", begin, scalars, load, scalars);
    au_text_add(t, "%s%s", new ? "s_wait_loadcnt 0\n" : "s_waitcnt vmcnt(0)\n", go);
    for (const char *at = au_text_str(t); *at; at++) *lines += *at == '\n';
    for (uint32_t n = 0; n < count; n++)
        au_text_add(t, "%s\ns_setpc_b64 s[58:59]\n.p2align 6\n", forms[n].text);
    au_text_add(t, "%s%s%s", back, m->lanes == 64 ? "s_mov_b32 exec_hi, -1\n" : "", store);
    say_stores(t);
    au_text_add(t, "s_endpgm\n%s", end);
    if (strcmp(m->name, "gfx90a") == 0 || strcmp(m->name, "gfx942") == 0 ||
        strcmp(m->name, "gfx950") == 0)
        au_text_add(t, ".amdhsa_accum_offset 24\n");
    au_text_add(t, ".end_amdhsa_kernel\n");
}

/* ---- refusals: "<inline asm>:LINE:COLUMN: ..." */

typedef struct Refusals {
    const Form *forms;
    uint32_t count, first; /* lines before the table */
    bool *refused;
    char other[256];
} Refusals;

static void note_refusal(LLVMDiagnosticInfoRef info, void *context)
{
    Refusals *r = context;
    char *text = LLVMGetDiagInfoDescription(info);
    unsigned line = 0;
    bool known = false;
    uint32_t at = r->first + 1;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) {
        LLVMDisposeMessage(text);
        return;
    }
    sscanf(text, "<inline asm>:%u:", &line);
    for (uint32_t n = 0; n < r->count && !known && line >= at; n++) {
        uint32_t own = 1;
        for (const char *c = r->forms[n].text; *c; c++) own += *c == '\n';
        known = line >= at && line < at + own;
        if (known) r->refused[n] = true;
        at += own + 2;
    }
    if (!known) snprintf(r->other, sizeof r->other, "%s", text);
    LLVMDisposeMessage(text);
}

static bool make_object(AuArena *arena, const Machine *m, const char *text, LLVMContextRef context,
                        AuBlob *out)
{
    static const char triple[] = "amdgcn-amd-amdhsa";
    LLVMModuleRef module = LLVMModuleCreateWithNameInContext("forms", context);
    LLVMTargetRef target;
    LLVMMemoryBufferRef object = NULL;
    char *why = NULL;
    LLVMSetTarget(module, triple);
    LLVMSetModuleInlineAsm2(module, text, strlen(text));
    bool good = LLVMGetTargetFromTriple(triple, &target, &why) == 0;
    if (good) {
        LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
            target, triple, m->name, m->lanes == 64 ? "+wavefrontsize64" : "+wavefrontsize32",
            LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
        good = LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &why,
                                                   &object) == 0;
        LLVMDisposeTargetMachine(machine);
    }
    if (good)
        *out = (AuBlob){au_strndup(arena, LLVMGetBufferStart(object), LLVMGetBufferSize(object)),
                        LLVMGetBufferSize(object)};
    if (object) LLVMDisposeMemoryBuffer(object);
    LLVMDisposeMessage(why);
    LLVMDisposeModule(module);
    return good;
}

bool assemble(AuArena *arena, AuDiags *diags, const Machine *m, const Form *forms, uint32_t count,
              bool *refused, AuBlob *code)
{
    Refusals r = {.forms = forms, .count = count, .refused = refused};
    AuText text = {.arena = arena};
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
    say_kernel(&text, m, forms, count, &r.first);
    LLVMContextRef context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(context, note_refusal, &r);
    bool good = make_object(arena, m, au_text_str(&text), context, code);
    LLVMContextDispose(context);
    if (*r.other) {
        au_error(diags, AU_E0004, (AuSpan){0}, "%s: %s", m->name, r.other);
        good = false;
    }
    return good && llvm_link_code_object(arena, diags, code);
}
