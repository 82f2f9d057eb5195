/* stages.c - see stages.h. */
#include "stages.h"

#include "normal_form.h"
#include "passes.h"

#include "aule/aulec.h"
#include "std.h"

#include <string.h>

void stages_stdlib(AuText *out) { au_text_add(out, "%s", au_std_source()); }

void stages_ast(const AuScript *script, AuText *out) { front_print_ast(script, out); }

void stages_attention(AuAttn *const *attns, uint32_t count, AuText *out)
{
    for (uint32_t n = 0; n < count; n++) {
        attn_simplify(attns[n]);
        if (n) au_text_add(out, "\n");
        attn_print(attns[n], out);
    }
}

static bool recurrence_gradients(AuArena *arena, AuDiags *diags, AuAttn *a, const char *before,
                                 AuText *out)
{
    const AuNormal n = attn_normal_form(a, arena);
    const AuNormalGrads *g = attn_normal_gradients(a, &n, arena, diags);
    if (!g) return false;
    au_text_add(out, "%s", before);
    attn_print_normal(a, &n, g, out);
    return true;
}

bool stages_gradients(AuArena *arena, AuDiags *diags, AuAttn *const *attns, uint32_t count,
                      AuText *out)
{
    for (uint32_t n = 0; n < count; n++) {
        attn_simplify(attns[n]);
        if (attns[n]->linear) {
            if (!recurrence_gradients(arena, diags, attns[n], n ? "\n" : "", out)) return false;
            continue;
        }
        const AuGrads *g = attn_gradients(attns[n], arena, diags);
        if (!g) return false;
        if (n) au_text_add(out, "\n");
        gradient_print(attns[n], g, out);
    }
    return true;
}

static void title(const AuVariant *v, AuText *out)
{
    au_text_add(out, "// ==== %s, %s, %s %s: %s\n", v->called, tile_elem(v->operand)->name,
                v->target->name, v->arch->name, v->schedule->name);
    if (v->schedule->shape.forecast > 0)
        au_text_add(out, "// forecast: %.1f cycles of a processor for 32 x 32 pairs\n",
                    32 * 32 * v->schedule->shape.forecast);
}

void stages_variants(const AuAttentionBuild *builds, uint32_t count, uint32_t emit, AuText *out)
{
    for (uint32_t b = 0; b < count; b++)
        for (uint32_t n = 0; n < builds[b].count; n++) {
            const AuVariant *v = &builds[b].variants[n];
            title(v, out);
            if (emit == AULEC_EMIT_SHAPES) {
                au_text_add(out, "%s", v->ranking);
                continue;
            }
            if (emit == AULEC_EMIT_TILED_IR) {
                if (v->checks.schedule) tile_print(v->checks.schedule->written, out);
                tile_print(v->schedule->written, out);
                au_text_add(out, "\n// ---- hooks inlined\n");
                tile_print(v->schedule->module, out);
                continue;
            }
            for (uint32_t k = 0; k < v->kernel_count; k++) kernel_print(v->kernels[k], out);
        }
}

/* Source text and modules are stages of their own; other code has LLVM's IR and assembly. */
static bool has_stage(const AuTarget *target, uint32_t emit)
{
    const bool module = emit == AULEC_EMIT_SPIRV || emit == AULEC_EMIT_SPIRV_TEXT;
    return (target->format == AULE_CODE_OPENCL_C) == (emit == AULEC_EMIT_OPENCL_C) &&
           (target->format == AULE_CODE_MSL) == (emit == AULEC_EMIT_METAL) &&
           (target->format == AULE_CODE_SPIRV) == module;
}

/* "cpu or cuda" */
static const char *names_with_stage(uint32_t emit, AuArena *arena)
{
    uint32_t count;
    AuText names = {.arena = arena};
    const AuTarget *const *targets = au_targets(&count);
    for (uint32_t n = 0; n < count; n++)
        if (has_stage(targets[n], emit))
            au_text_add(&names, "%s%s", names.length ? " or " : "", targets[n]->name);
    return au_text_str(&names);
}

void stages_pass_names(AuText *out)
{
    uint32_t count;
    const AuPass *all = passes_all(&count);
    for (uint32_t n = 0; n < count; n++) au_text_add(out, "  %-12s %s\n", all[n].name, all[n].what);
}

bool stages_is_pass(AuDiags *diags, const char *name)
{
    uint32_t count;
    const AuPass *all = passes_all(&count);
    for (uint32_t n = 0; n < count; n++)
        if (strcmp(all[n].name, name) == 0) return true;
    AuText known = {.arena = diags->arena};
    stages_pass_names(&known);
    au_error(diags, AU_E0601, (AuSpan){0}, "unknown pass '%s'; in their order there are:\n%s", name,
             au_text_str(&known));
    return false;
}

bool stages_passed(AuArena *arena, AuDiags *diags, const AuAttentionBuild *builds, uint32_t count,
                   const char *after, AuText *out)
{
    for (uint32_t b = 0; b < count; b++)
        for (uint32_t n = 0; n < builds[b].count; n++) {
            const AuVariant *v = &builds[b].variants[n];
            const AuTileModule *m = passes_run(arena, diags, v->schedule->module, after);
            if (!m) return false;
            title(v, out);
            tile_print(m, out);
        }
    return true;
}

static bool no_such_stage(uint32_t emit, AuDiags *diags)
{
    au_error(diags, AU_E0601, (AuSpan){0},
             "this stage exists for target %s only, which was not asked for",
             names_with_stage(emit, diags->arena));
    return false;
}

bool stages_is_there(const AuChoice *choice, uint32_t emit, AuDiags *diags)
{
    /* Targets without LLVM's stages say so themselves, by what they have instead. */
    bool found =
        emit == AULEC_EMIT_SHAPES || (emit != AULEC_EMIT_OPENCL_C && emit < AULEC_EMIT_SPIRV);
    for (uint32_t n = 0; n < choice->target_count; n++)
        found |= has_stage(choice->targets[n], emit);
    return found || no_such_stage(emit, diags);
}

bool stages_code(const AuAttentionBuild *builds, uint32_t count, uint32_t emit, AuDiags *diags,
                 AuText *out)
{
    bool found = false;
    for (uint32_t b = 0; b < count; b++)
        for (uint32_t n = 0; n < builds[b].count; n++) {
            const AuVariant *v = &builds[b].variants[n];
            if (!has_stage(v->target, emit)) continue;
            found = true;
            au_text_bytes(out, v->code.bytes, v->code.length);
            if (emit != AULEC_EMIT_SPIRV) au_text_add(out, "\n");
        }
    return found || no_such_stage(emit, diags);
}

bool stages_is_useful(const AuChoice *choice, uint32_t target, const AuArch *arch,
                      AuTileElem operand)
{
    if (choice->targets[target]->apart) return true;
    const AuTileCaps *caps = tile_caps(arch->caps);
    const AuTileExecutor on = caps->has_private ? TILE_ON_THREAD : TILE_ON_WARP;
    const AuTileAtom *atom = choice->tf32 && operand == TILE_F32
                                 ? tile_rounding_atom(caps, on)
                                 : tile_best_atom(caps, operand, on);
    if (atom && atom->m > 1) return true; /* around matrix units architectures differ in more */
    for (const AuArch *plainer = choice->targets[target]->archs; plainer < arch; plainer++) {
        const AuTileCaps *other = tile_caps(plainer->caps);
        if (options_takes_arch(choice, target, plainer) && other->lanes == caps->lanes &&
            other->exchange == caps->exchange && other->shared_bytes <= caps->shared_bytes &&
            tile_best_atom(other, operand, on) == atom)
            return false;
    }
    return true;
}
