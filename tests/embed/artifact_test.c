/* artifact_test.c - artifacts linked into a program and given to libaule: one of machine code (mha.o) and one of data (sink.c).
 * What libaule computes from mha_module is what mha_forward computes, to the bit. */
#include "mha.h"
#include "sink.h"

#include "reference.h"

#include <aule/aule.h>

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
    aule_module_close(module);
    return 0;
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
