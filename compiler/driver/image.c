/* image.c - see image.h. */
#include "image.h"

#include <string.h>

uint64_t image_put(AuImageBuilder *b, const void *data, size_t bytes, size_t align)
{
    static const unsigned char zeros[64] = {0};
    b->bytes.arena = b->arena;
    const size_t gap = (align - b->bytes.length % align) % align;
    au_text_bytes(&b->bytes, zeros, gap);
    const uint64_t at = b->bytes.length;
    au_text_bytes(&b->bytes, data, bytes);
    return at;
}

uint64_t image_string(AuImageBuilder *b, const char *text)
{
    return image_put(b, text, strlen(text) + 1, 1);
}

void image_point(AuImageBuilder *b, uint64_t at, uint64_t target)
{
    const AuImageFix fix = {.at = at, .offset = target};
    AU_PUSH(b->arena, b->fixes, b->fix_count, b->fix_capacity, fix);
}

void image_symbol(AuImageBuilder *b, uint64_t at, const char *symbol)
{
    const AuImageFix fix = {.at = at, .symbol = symbol};
    AU_PUSH(b->arena, b->fixes, b->fix_count, b->fix_capacity, fix);
}

AuImage image_done(const AuImageBuilder *b)
{
    return (AuImage){(const unsigned char *)au_text_str(&b->bytes), b->bytes.length, b->fixes,
                     b->fix_count};
}
