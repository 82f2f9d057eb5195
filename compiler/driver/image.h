/* image.h - the artifact's data under construction: structures of <aule/artifact.h> laid one after
 * the other, pointers between them as offsets that become addresses when the image is linked
 * (codegen/target.h). Little endian, 64-bit, as every target is. */
#ifndef AU_DRIVER_IMAGE_H
#define AU_DRIVER_IMAGE_H

#include "target.h"

typedef struct AuImageBuilder {
    AuArena *arena;
    AuText bytes;
    AuImageFix *fixes;
    uint32_t fix_count, fix_capacity;
} AuImageBuilder;

/* Puts a copy of [data] at the next aligned offset; gives the offset. */
uint64_t image_put(AuImageBuilder *b, const void *data, size_t bytes, size_t align);
uint64_t image_string(AuImageBuilder *b, const char *text);
/* The 8-byte field at offset [at] becomes the address of offset [target], or of a symbol. */
void image_point(AuImageBuilder *b, uint64_t at, uint64_t target);
void image_symbol(AuImageBuilder *b, uint64_t at, const char *symbol);
AuImage image_done(const AuImageBuilder *b);

/* image_point of member [member] of the structure [type] at offset [at]. */
#define IMAGE_POINT(b, type, at, member, target)                                                   \
    image_point((b), (at) + offsetof(type, member), (target))

#endif
