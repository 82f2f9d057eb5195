/* compile_fuzz.c - any bytes as a script, compiled as a whole: no crash, no hang, no leak; a result or an error, and
 * never both. One input in eight goes to machine code and an artifact, the others to OpenCL C,
 * which is quicker. */
#include "aule/aulec.h"
#include "driver.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void check(const aulec_result *result, aulec_status status)
{
    const bool has_data = aulec_result_data(result) && aulec_result_length(result) > 0;
    const bool has_errors = aulec_result_errors(result) > 0;
    if (status == AULEC_OK && (!has_data || has_errors)) abort();
    if (status == AULEC_ERROR_SCRIPT && (has_data || !has_errors)) abort();
    if (has_errors && !strstr(aulec_result_diagnostics(result), "error E")) abort();
    if (status != AULEC_OK && status != AULEC_ERROR_SCRIPT) abort(); /* the options are right */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t sum = 0;
    for (size_t n = 0; n < size; n++) sum = sum * 31 + data[n];
    aulec_options options = {.struct_size = sizeof options,
                             .targets = "opencl",
                             .dtypes = "f32",
                             .optimize = 1,
                             .emit = AULEC_EMIT_OPENCL_C};
    if (sum % 8 == 0) {
        options.targets = "cpu,opencl";
        options.archs = "x86-64-v3,generic";
        options.emit = AULEC_EMIT_ARTIFACT;
    }
    aulec_result *result = NULL;
    const aulec_status status =
        aulec_compile("fuzz.attn", (const char *)data, size, &options, &result);
    if (!result) abort();
    check(result, status);
    aulec_result_free(result);
    return 0;
}
