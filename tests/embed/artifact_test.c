/* artifact_test.c - artifacts linked into a program and given to libaule: one of machine code (mha.o) and one of data (sink.c).
 * What libaule computes from mha_module is what mha_forward computes, to the bit; what slots say of memory is no contradiction. */
#include "mha.h"
#include "sink.h"

#include "reference.h"

#include <aule/aule.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { H = 4, HK = 2, S = 37, T = 53, D = 64 };

static float q[H * S * D], k[HK * T * D], v[HK * T * D], o[H * S * D], other[H * S * D];

static int fail(aule_error *error, const char *what)
{
    printf("failed: %s: %s\n", what, aule_error_message(error));
    aule_error_free(error);
    return 1;
}

static DLTensor tensor(float *data, int64_t *shape)
{
    const DLTensor t = {data, {kDLCPU, 0}, 4, {kDLFloat, 32, 1}, shape, NULL, 0};
    return t;
}

static int run(aule_attention *attention, aule_error **error)
{
    int64_t queries[] = {1, H, S, D}, keys[] = {1, HK, T, D};
    const DLTensor tq = tensor(q, queries), tk = tensor(k, keys), tv = tensor(v, keys),
                   to = tensor(o, queries);
    const aule_tensor_arg tensors[] = {{"q", &tq}, {"k", &tk}, {"v", &tv}, {"o", &to}};
    aule_device *device = NULL;
    aule_call call = {.struct_size = sizeof call, .tensors = tensors, .tensor_count = 4};
    int failed = aule_device_open("cpu", NULL, &device, error) ||
                 aule_attention_run(attention, device, &call, NULL, error);
    aule_device_close(device);
    return failed;
}

/* Of each variant: tensors that it writes and no others are written by some launch, and what a launch reads of the workspace was zeroed or
 * written by it or one before it. */
enum { TENSORS = 64, REGIONS = 64 };
typedef struct Touched {
    uint32_t tensors[TENSORS], regions[REGIONS]; /* AULE_TOUCH_* so far */
} Touched;

static bool touch(Touched *t, const aule_launch_v1 *l, uint32_t n, const char **what)
{
    const aule_slot_v1 *slot = &l->slots[n];
    const uint32_t bits = l->touches[n / 16] >> 2 * (n % 16) & 3;
    const bool tensor = slot->kind == AULE_SLOT_TENSOR, region = slot->kind == AULE_SLOT_WORKSPACE;
    *what = "a slot that is no address is touched";
    if (slot->type != AULE_SLOT_PTR || (!tensor && !region)) return bits == 0;
    *what = "an address is not touched";
    if (!bits) return false;
    uint32_t *before = tensor ? &t->tensors[slot->index] : &t->regions[slot->index];
    *what = "a region is read that nobody has written";
    if (region && !((*before | bits) & AULE_TOUCH_WRITE)) return false;
    *before |= bits;
    return true;
}

static bool writes(const aule_variant_v1 *variant, uint32_t role)
{
    if (strcmp(variant->operation, "backward") == 0) return role == AULE_ROLE_GRAD;
    return role == AULE_ROLE_OUTPUT || role == AULE_ROLE_FINAL || role == AULE_ROLE_KEPT ||
           role == AULE_ROLE_KEPT_ROW;
}

static const char *wrong_touches(const aule_attention_v1 *a, const aule_variant_v1 *variant)
{
    Touched t = {{0}, {0}};
    const char *what;
    for (uint32_t n = 0; n < variant->workspace_count; n++)
        t.regions[n] = variant->workspaces[n].zeroed ? AULE_TOUCH_WRITE : 0;
    for (uint32_t n = 0; n < variant->launch_count; n++) {
        const aule_launch_v1 *l = &variant->launches[n];
        if (l->touch_count != (l->slot_count + 15) / 16) return "not all slots";
        for (uint32_t slot = 0; slot < l->slot_count; slot++)
            if (!touch(&t, l, slot, &what)) return what;
    }
    for (uint32_t n = 0; n < a->tensor_count; n++)
        if (t.tensors[n] &&
            writes(variant, a->tensors[n].role) != ((t.tensors[n] & AULE_TOUCH_WRITE) != 0))
            return a->tensors[n].name;
    return NULL;
}

static int test_touches(aule_module *module)
{
    const aule_attention_v1 *a = aule_attention_descriptor(aule_module_attention(module, 0));
    for (uint32_t n = 0; n < a->variant_count; n++) {
        const char *wrong = wrong_touches(a, &a->variants[n]);
        if (!wrong) continue;
        printf("%s of %s\n", a->variants[n].operation, a->variants[n].arch);
        return fail(NULL, wrong);
    }
    return 0;
}

static int test_code(void)
{
    aule_module *module = NULL;
    aule_attention *attention = NULL;
    aule_error *error = NULL;
    if (aule_module_from(&mha_module, NULL, &module, &error) ||
        aule_module_find(module, "mha", &attention, &error) || run(attention, &error))
        return fail(error, "mha_module");
    mha_forward_args a = {.struct_size = sizeof a,
                          .dtype = MHA_F32,
                          .B = 1,
                          .H = H,
                          .Hk = HK,
                          .S = S,
                          .T = T,
                          .D = D,
                          .E = D,
                          .q = q,
                          .k = k,
                          .v = v,
                          .o = other};
    const int status = mha_forward(&a);
    if (status || memcmp(o, other, sizeof o) != 0)
        return fail(NULL, "libaule and mha_forward differ");
    const Reference r = {H, HK, S, T, D, q, k, v, NULL, T, 0, 0};
    if (!(reference_error(&r, o, NULL) < 2e-6)) return fail(NULL, "the result is wrong");
    const int wrong = test_touches(module);
    aule_module_close(module);
    return wrong;
}

/* The tables of C say what the compiler's image says: the same description, and code of every variant. */
static int test_data(void)
{
    aule_module *module = NULL;
    aule_error *error = NULL;
    char *text = NULL;
    if (aule_module_from(&sink_module, NULL, &module, &error) ||
        aule_describe_module(module, &text, &error))
        return fail(error, "sink_module");
    const aule_attention_v1 *a = aule_attention_descriptor(aule_module_attention(module, 0));
    for (uint32_t n = 0; n < a->variant_count; n++)
        if (strlen(a->variants[n].code) != a->variants[n].code_bytes)
            return fail(NULL, "length of code");
    if (test_touches(module)) return 1;
    fputs(text, stdout);
    aule_text_free(text);
    aule_module_close(module);
    return 0;
}

int main(int argc, char **argv)
{
    reference_fill(q, H * S * D, 1), reference_fill(k, HK * T * D, 2),
        reference_fill(v, HK * T * D, 3);
    (void)argv;
    return argc > 1 ? test_data() : test_code();
}
