/* image_fuzz.c - bytes as changes of an artifact's file, AULE_FUZZ_ARTIFACT, which libaule reads as data: its checks of the file, then segments and
 * relocations, then the descriptor. It refuses, or what it read can be described and planned; nothing outside of the file and of the image is touched.
 * Places are drawn from the tables for loaders more often than from the rest. */
#include "driver.h"
#include "sample_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/descriptor.h"
#include "../../runtime/elf_image.h"

enum { MOST = 1 << 20, CHANGES = 8 };

static size_t read_artifact(unsigned char *bytes)
{
    const char *path = getenv("AULE_FUZZ_ARTIFACT");
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file) abort();
    const size_t length = fread(bytes, 1, MOST, file);
    fclose(file);
    return length;
}

/* A word of 2, 4 or 8 bytes: small, at an end, near the file's own numbers, or any. */
static void change(unsigned char *bytes, size_t length, Source *s)
{
    static const uint64_t ends[] = {0, 1ull << 31, UINT32_MAX, 1ull << 47, 1ull << 63, UINT64_MAX};
    const uint64_t kind = take(s, 1), region = kind % 4;
    /* heads, tables of a small artifact, all */
    const size_t room = region == 0   ? 64
                        : region == 1 ? 1024
                        : region == 2 ? 65536
                                      : length,
                 width = (size_t)2 << kind / 4 % 3;
    if (length < room || length < 8) return;
    const size_t at = take(s, 3) % (room - 7) / 2 * 2;
    uint64_t value = 0;
    memcpy(&value, bytes + at, width);
    switch (kind / 16 % 4) {
    case 0: value = take(s, 1); break;
    case 1: value = ends[take(s, 1) % (sizeof ends / sizeof *ends)]; break;
    case 2: value += (uint64_t)(int64_t)(int8_t)take(s, 1); break;
    default: value = take(s, width); break;
    }
    memcpy(bytes + at, &value, width);
}

static void try_module(const AuElfImage *image, Source *s, AuSink sink)
{
    aule_module *module;
    char *text;
    if (rt_check_module(image->symbol, &image->segments, "fuzz", sink)) return;
    if (aule_module_from(image->symbol, NULL, &module, NULL)) return;
    if (aule_describe_module(module, &text, NULL) == AULE_OK) aule_text_free(text);
    call_and_close(module, s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Source s = {data, size};
    unsigned char *bytes = malloc(MOST);
    if (!bytes) return 0;
    size_t length = read_artifact(bytes);
    const AuSink sink = {rt_memory(NULL), NULL};
    AuElfLibrary library;
    AuElfImage image;
    const uint64_t how = take(&s, 1);
    if (how % 8 == 7) length = take(&s, 3) % (length + 1);
    /* Half of them are changed after the file was looked at, as a file may be. */
    AuElfFile file = {.path = "fuzz", .bytes = bytes, .length = length};
    bool checked = how % 2 && rt_check_library(&file, "aule_module_v1", &library, sink) == AULE_OK;
    for (uint64_t n = how / 8 % CHANGES; n > 0; n--) change(bytes, length, &s);
    if (!checked) checked = rt_check_library(&file, "aule_module_v1", &library, sink) == AULE_OK;
    if (checked && rt_read_image(&file, &library, &image, sink) == AULE_OK) {
        try_module(&image, &s, sink);
        rt_free_image(&image);
    }
    free(bytes);
    return 0;
}
