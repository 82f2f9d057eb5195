/* arrays_fuzz.c - bytes as a .npy file (they begin with its magic) or a .safetensors file: read, or refused in one line. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"

static void use(AuArray *array, const AuWhy *why, bool read)
{
    AuWhy more;
    if (!read) {
        if (!why->text[0] || strchr(why->text, '\n')) abort(); /* what is wrong is always said */
        return;
    }
    if (array->rank > ARRAY_RANK || !array_dtype_bytes(array->dtype)) abort();
    const unsigned char *bytes = array->data;
    volatile unsigned sum = 0; /* all of the data is there */
    for (size_t i = 0; i < array->bytes; i++) sum += bytes[i];
    if (array->dtype == AULE_F32) array_convert(array, AULE_BF16, &more);
    array_free(array);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AuArray array = {0};
    AuWhy why = {""};
    AuFile file = {malloc(size + 1), size}; /* of just this length: a read beyond it is seen */
    if (!file.bytes) return 0;
    memcpy(file.bytes, data, size);
    if (size > 6 && memcmp(data, "\x93NUMPY", 6) == 0)
        use(&array, &why, npy_parse(&array, &file, "x.npy", &why));
    else
        use(&array, &why, safetensors_parse(&array, &file, "x.safetensors", "q", &why));
    free(file.bytes);
    return 0;
}
