/* image.c - the descriptor as data of an object: structures one after the other, pointers between them as offsets that become addresses
 * when the image is linked (codegen/target.h). Little endian, 64 bits, as every target is. */
#include "descriptor.h"

#include <string.h>

typedef struct Image {
    AuArena *arena;
    AuText bytes;
    AuImageFix *fixes;
    uint32_t count, capacity;
    AuCodes codes;
} Image;

/* A copy of [data] at the next offset that is aligned. */
static uint64_t put(Image *m, const void *data, size_t bytes, size_t align)
{
    static const unsigned char zeros[64] = {0};
    au_text_bytes(&m->bytes, zeros, (align - m->bytes.length % align) % align);
    const uint64_t at = m->bytes.length;
    au_text_bytes(&m->bytes, data, bytes);
    return at;
}

/* The pointer at [at] is the address of the offset [target], or of a symbol. */
static void point(Image *m, uint64_t at, uint64_t target, const char *symbol)
{
    const AuImageFix fix = {.at = at, .symbol = symbol, .offset = target};
    AU_PUSH(m->arena, m->fixes, m->count, m->capacity, fix);
}

static const void *pointer_in(const void *at)
{
    const void *target;
    return memcpy(&target, at, sizeof target), target;
}

static void fill(Image *m, uint64_t at, const AuStruct *type, const void *data);

static uint64_t put_list(Image *m, const AuStruct *type, const void *list, uint64_t count)
{
    const size_t bytes = type->bytes * count;
    const uint64_t at = put(m, au_alloc(m->arena, bytes + 1), bytes, 8);
    for (uint64_t n = 0; n < count; n++)
        fill(m, at + n * type->bytes, type, (const char *)list + n * type->bytes);
    return at;
}

static uint64_t put_code(Image *m, const void *bytes, uint64_t length)
{
    bool fresh;
    uint64_t *at = descriptor_code(m->arena, &m->codes, bytes, length, &fresh);
    if (fresh) *at = put(m, bytes, length + 1, 16); /* with a NUL behind it */
    return *at;
}

static void copy(Image *m, uint64_t at, const void *from, size_t bytes)
{
    memcpy(m->bytes.at + at, from, bytes);
}

static void fill_member(Image *m, uint64_t at, const AuStructMember *of, const AuStruct *type,
                        const void *data)
{
    const char *from = (const char *)data + of->at;
    const uint64_t to = at + of->at;
    const void *target;
    switch (of->kind) {
    case AU_M_MAGIC: copy(m, to, from, sizeof(uint64_t)); break;
    case AU_M_SIZE: copy(m, to, &type->bytes, sizeof type->bytes); break;
    case AU_M_U16: copy(m, to, from, sizeof(uint16_t)); break;
    case AU_M_U32: copy(m, to, from, of->many * sizeof(uint32_t)); break;
    case AU_M_U64:
    case AU_M_I64: copy(m, to, from, sizeof(uint64_t)); break;
    case AU_M_INLINE:
        for (uint32_t n = 0; n < of->many; n++)
            fill(m, to + n * of->of->bytes, of->of, from + n * of->of->bytes);
        break;
    case AU_M_HOST:
        if (pointer_in(from)) point(m, to, 0, pointer_in((const char *)data + of->count_at));
        break;
    case AU_M_TEXT:
        target = pointer_in(from);
        point(m, to, put(m, target, strlen(target) + 1, 1), NULL);
        break;
    case AU_M_WORDS:
        target = pointer_in(from);
        if (target) point(m, to, put(m, target, 4 * descriptor_count(of, data), 4), NULL);
        break;
    case AU_M_CODE:
        target = pointer_in(from);
        if (target) point(m, to, put_code(m, target, descriptor_count(of, data)), NULL);
        break;
    case AU_M_LIST:
        target = pointer_in(from);
        if (target) point(m, to, put_list(m, of->of, target, descriptor_count(of, data)), NULL);
        break;
    case AU_M_END: break;
    }
}

/* Member by member: nothing of what lies between them. */
static void fill(Image *m, uint64_t at, const AuStruct *type, const void *data)
{
    for (const AuStructMember *of = type->members; of->kind; of++)
        fill_member(m, at, of, type, data);
}

AuImage descriptor_image(AuArena *arena, const aule_module_v1 *module)
{
    Image m = {.arena = arena, .bytes = {.arena = arena}};
    put_list(&m, &descriptor_module, module, 1);
    return (AuImage){(const unsigned char *)au_text_str(&m.bytes), m.bytes.length, m.fixes,
                     m.count};
}
