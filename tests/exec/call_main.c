/* call_main.c - a program that uses an artifact and nothing of the compiler, as an application
 * would: loads it, calls it on random tensors, compares with the formula in f64. Built for this
 * machine and for AArch64, where qemu runs it. call_main mha.so */
#include "aule/aule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { B = 1, H = 4, HK = 2, S = 37, T = 53, D = 64, E = 64 };

static float q[B * H * S * D], k[B * HK * T * D], v[B * HK * T * E], o[B * H * S * E],
    lse[B * H * S];

static float noise(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) * 0x1p-23f - 1.0f;
}

static void fill(float *at, size_t count, unsigned seed)
{
    for (size_t n = 0; n < count; n++) at[n] = 2 * noise(&seed);
}

/* The largest difference from causal softmax attention in f64. */
static double worst(void)
{
    double most = 0;
    for (int h = 0; h < H; h++)
        for (int i = 0; i < S; i++) {
            double p[T], sum = 0, top = -INFINITY;
            const float *kh = k + (h / (H / HK)) * T * D, *vh = v + (h / (H / HK)) * T * E;
            const int last = i + T - S;
            for (int j = 0; j <= last; j++) {
                p[j] = 0;
                for (int d = 0; d < D; d++)
                    p[j] += (double)q[(h * S + i) * D + d] * (double)kh[j * D + d];
                p[j] /= sqrt(D);
                top = fmax(top, p[j]);
            }
            for (int j = 0; j <= last; j++) sum += p[j] = exp(p[j] - top);
            for (int e = 0; e < E; e++) {
                double want = 0;
                for (int j = 0; j <= last; j++) want += p[j] / sum * (double)vh[j * E + e];
                most = fmax(most, fabs(want - (double)o[(h * S + i) * E + e]));
            }
            most = fmax(most, fabs(top + log(sum) - (double)lse[h * S + i]));
        }
    return most;
}

static int complain(aule_error *error)
{
    fprintf(stderr, "%s\n", aule_error_message(error));
    aule_error_free(error);
    return 1;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"q", "k", "v", "o", "lse"};
    int64_t shapes[5][4] = {{B, H, S, D}, {B, HK, T, D}, {B, HK, T, E}, {B, H, S, E}, {B, H, S}};
    float *const data[5] = {q, k, v, o, lse};
    DLTensor tensors[5];
    aule_tensor_arg args[5];
    for (int n = 0; n < 5; n++) {
        tensors[n] = (DLTensor){.data = data[n],
                                .device = {kDLCPU, 0},
                                .ndim = n == 4 ? 3 : 4,
                                .dtype = {kDLFloat, 32, 1},
                                .shape = shapes[n]};
        args[n] = (aule_tensor_arg){names[n], &tensors[n]};
    }
    fill(q, sizeof q / sizeof *q, 1), fill(k, sizeof k / sizeof *k, 2),
        fill(v, sizeof v / sizeof *v, 3);
    aule_module *module = NULL;
    aule_device *device = NULL;
    aule_attention *attention = NULL;
    aule_error *error = NULL;
    const aule_call call = {.struct_size = sizeof call, .tensors = args, .tensor_count = 5};
    if (argc < 2) return 2;
    if (aule_module_open(argv[1], NULL, &module, &error) ||
        aule_module_find(module, NULL, &attention, &error) ||
        aule_device_open("cpu", NULL, &device, &error) ||
        aule_attention_run(attention, device, &call, NULL, &error))
        return complain(error);
    const double error_found = worst();
    printf("largest error %.2e\n", error_found);
    aule_device_close(device);
    aule_module_close(module);
    return error_found < 5e-6 ? 0 : 1;
}
