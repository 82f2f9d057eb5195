/* attn_fuzz.c - any bytes as the text form of the attention IR: no crash, no hang. What verifies
 * reads back equal, stays valid when simplified and when combine is derived, has mask ranges, has
 * gradients or says why not, and can be evaluated or says why not. */
#include "driver.h"
#include "findings.h"
#include "gradient.h"
#include "linear.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ELEMENTS = 2000 };

static const char *print(AuArena *arena, const AuAttn *a)
{
    AuText text = {.arena = arena};
    attn_print(a, &text);
    return au_text_str(&text);
}

static void check_text(AuArena *arena, AuNames *names, AuDiags *diags, const AuAttn *a)
{
    const char *first = print(arena, a);
    const AuAttn *again =
        attn_read(arena, names, diags, au_source_add(diags, "ir", first, strlen(first)));
    if (!again || strcmp(first, print(arena, again)) != 0) abort();
}

/* Small tensors of small numbers; false if the sizes are not small. */
static bool fill(AuArena *arena, const AuAttn *a, AuOracleCall *call, const double **tensors,
                 double *params)
{
    for (uint32_t i = 0; i < a->param_count; i++)
        if (a->params[i].default_value.i)
            params[i] = attn_scalar(a, a->params[i].default_value, call->sizes, params);
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        double count = 1;
        for (uint32_t k = 0; k < a->tensors[i].rank; k++) {
            const double extent = attn_scalar(a, a->tensors[i].axes[k], call->sizes, params);
            if (!(extent >= 0 && extent <= 16)) return false;
            count *= extent;
        }
        if (count > MOST_ELEMENTS) return false;
        double *data = AU_NEW_ARRAY(arena, double, count);
        for (size_t n = 0; n < (size_t)count; n++) data[n] = (double)(n % 7) - 3;
        tensors[i] = data;
    }
    return true;
}

/* A recurrence by its normal form, in chunks of two, with gradients. */
static void evaluate_linear(AuArena *arena, AuAttn *a, const AuOracleCall *call, AuDiags *diags)
{
    const char *why = NULL;
    const AuNormal n = attn_normal_form(a, arena);
    const AuNormalGrads *g = attn_normal_gradients(a, &n, arena, diags);
    if (!g) return;
    AuText text = {.arena = arena};
    attn_print_normal(a, &n, g, &text);
    double **grads = AU_NEW_ARRAY(arena, double *, a->tensor_count);
    for (uint32_t i = 0; i < a->tensor_count; i++)
        grads[i] = AU_NEW_ARRAY(arena, double, MOST_ELEMENTS);
    const AuLinearCall linear = {
        .call = *call, .how = {.chunk = 2}, .dout = call->o, .grads = grads};
    if (!attn_linear_gradients(a, &n, g, &linear, arena, &why) && !why) abort();
}

/* [g]: NULL for the attention alone. */
static void evaluate(AuArena *arena, AuAttn *a, const AuGrads *g)
{
    int64_t *sizes = AU_NEW_ARRAY(arena, int64_t, a->size_count);
    double *params = AU_NEW_ARRAY(arena, double, a->param_count);
    const double **tensors = AU_NEW_ARRAY(arena, const double *, a->tensor_count);
    for (uint32_t i = 0; i < a->size_count; i++)
        sizes[i] = a->sizes[i].fixed >= 0 ? a->sizes[i].fixed : i % 3 + 1;
    AuOracleCall call = {.sizes = sizes, .tensors = tensors, .params = params, .key_tile = 2};
    call.params_i64 = AU_NEW_ARRAY(arena, int64_t, a->param_count);
    if (!fill(arena, a, &call, tensors, params)) return;
    call.o = AU_NEW_ARRAY(arena, double, 16 * 16 * 16 * 16);
    const char *why = NULL;
    if (!g) {
        if (!attn_interpret(a, &call, arena, &why) && !why) abort();
        if (a->linear) evaluate_linear(arena, a, &call, au_diags_new(arena));
        return;
    }
    double **grads = AU_NEW_ARRAY(arena, double *, a->tensor_count);
    for (uint32_t i = 0; i < a->tensor_count; i++)
        grads[i] = AU_NEW_ARRAY(arena, double, MOST_ELEMENTS);
    if (!attn_interpret_gradients(a, g, &call, call.o, NULL, grads, arena, &why) && !why) abort();
}

static void check_gradients(AuArena *arena, AuNames *names, AuAttn *a)
{
    AuDiags *diags = au_diags_new(arena);
    AuText out = {.arena = arena};
    const AuGrads *g = attn_gradients(a, arena, diags);
    if ((g == NULL) != (diags->errors > 0)) abort();
    au_diags_render(diags, &out);
    if (!attn_verify(a, diags)) abort();
    check_text(arena, names, diags, a);
    if (!g) return;
    if (a->linear) return; /* evaluate_linear has had them, from the normal form */
    gradient_print(a, g, &out);
    evaluate(arena, a, g);
    attn_check(a, NULL, arena, diags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AuArena *arena = au_arena_new(NULL);
    AuNames *names = au_names_new(arena);
    AuDiags *diags = au_diags_new(arena);
    AuText out = {.arena = arena};
    AuRange range;
    const char *why;
    AuAttn *a =
        attn_read(arena, names, diags, au_source_add(diags, "fuzz.air", (const char *)data, size));
    au_diags_render(diags, &out);
    if ((a != NULL) != (diags->errors == 0)) abort();
    if (a) {
        check_text(arena, names, diags, a);
        evaluate(arena, a, NULL);
        attn_check_online(a, arena, &why);
        attn_simplify(a);
        attn_derive_combine(a);
        if (!attn_verify(a, diags)) abort();
        check_text(arena, names, diags, a);
        attn_key_range(a, &range);
        attn_query_range(a, &range);
        check_gradients(arena, names, a);
    }
    au_arena_free(arena);
    return 0;
}
