/* operation_test.c - an operation that is rows of tables (operation.def) and a schedule: the compiler makes its kernels, the artifact has
 * them by its name, and the runtime passes it the tensors that its rows name, refuses others and calls it. */
#include "aule/aule.h"
#include "aule/aulec.h"
#include "schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- its schedule: kernels of forward, which is what it computes */

bool schedule_toy_again_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    return schedule_lanes_forward_shape(arena, p, out, why);
}

const char *schedule_toy_again_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    return schedule_lanes_forward_fit(arena, p, s);
}

AuSchedule *schedule_toy_again(AuArena *arena, AuDiags *diags, const AuProblem *p, const AuShape *s)
{
    return schedule_lanes_forward(arena, diags, p, s);
}

/* ---- a call of it beside one of forward */

static const char script[] = "attention small {\n"
                             "    q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D];\n"
                             "    score_mod(s) = s * rsqrt(D);\n"
                             "    mask(b, h, i, j) = j <= q_pos;\n"
                             "    online softmax;\n"
                             "}\n";

enum { S = 200, T = 211, D = 16 }; /* of many queries: forward has other kernels for few */

static aule_module *compiled(void)
{
    const aulec_options options = {
        .struct_size = sizeof options, .targets = "cpu", .dtypes = "f32", .widths = "D=16"};
    aulec_result *result = NULL;
    aule_module *module = NULL;
    aule_error *error = NULL;
    char path[] = "/tmp/aule-operation-XXXXXX";
    if (aulec_compile("small.attn", script, strlen(script), &options, &result) != AULEC_OK)
        fputs(aulec_result_diagnostics(result), stderr);
    const size_t length = aulec_result_length(result);
    const int file = mkstemp(path);
    if (file >= 0 && length && write(file, aulec_result_data(result), length) == (ssize_t)length &&
        aule_module_open(path, NULL, &module, &error))
        fprintf(stderr, "%s\n", aule_error_message(error));
    close(file);
    unlink(path);
    aule_error_free(error);
    aulec_result_free(result);
    return module;
}

/* NULL: it ran; else what was said. */
static const char *call(aule_attention *attention, aule_device *device, const char *operation,
                        float *o, bool with_gradient)
{
    static float q[S * D], k[T * D], v[T * D], other[S * D];
    static char said[1024];
    static const char *const names[] = {"q", "k", "v", "o", "do"};
    float *const data[] = {q, k, v, o, other};
    int64_t shapes[2][4] = {{1, 1, S, D}, {1, 1, T, D}};
    DLTensor tensors[5];
    aule_tensor_arg args[5];
    aule_error *error = NULL;
    for (int n = 0; n < S * D; n++) q[n] = (float)(n * 37 % 23 - 11) / 8;
    for (int n = 0; n < T * D; n++)
        k[n] = (float)(n * 29 % 19 - 9) / 8, v[n] = (float)(n % 31) / 16;
    for (int n = 0; n < 5; n++) {
        tensors[n] = (DLTensor){.data = data[n],
                                .device = {kDLCPU, 0},
                                .ndim = 4,
                                .dtype = {kDLFloat, 32, 1},
                                .shape = shapes[n == 1 || n == 2]};
        args[n] = (aule_tensor_arg){names[n], &tensors[n]};
    }
    const aule_call c = {.struct_size = sizeof c,
                         .tensors = args,
                         .tensor_count = with_gradient ? 5 : 4,
                         .operation = operation};
    if (!aule_attention_run(attention, device, &c, NULL, &error)) return NULL;
    snprintf(said, sizeof said, "%s", aule_error_message(error));
    aule_error_free(error);
    return said;
}

static int fails(const char *what, const char *said)
{
    fprintf(stderr, "%s: %s\n", what, said ? said : "nothing was said");
    return 1;
}

int main(void)
{
    static float forward[S * D], again[S * D];
    aule_module *module = compiled();
    aule_device *device = NULL;
    aule_attention *attention = NULL;
    if (!module || aule_module_find(module, NULL, &attention, NULL) ||
        aule_device_open("cpu", NULL, &device, NULL))
        return 1;
    const char *said = call(attention, device, "forward", forward, false);
    if (said) return fails("forward", said);
    said = call(attention, device, "again", again, false);
    if (said) return fails("again", said);
    if (memcmp(forward, again, sizeof again) != 0 || again[S * D - 1] == 0)
        return fails("again", "it computes something else");
    said = call(attention, device, "again", again, true);
    if (!said || !strstr(said, "do is passed to backward only"))
        return fails("a tensor that it has no use for", said);
    said = call(attention, device, "once more", again, false);
    if (!said || !strstr(said, "once more")) return fails("an operation that is none", said);
    aule_device_close(device);
    aule_module_close(module);
    return 0;
}
