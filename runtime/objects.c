/* objects.c - what the objects of a call are as tensors, in words by which bindings know calls that one plan takes. */
#include "base.h"

typedef struct Words {
    uint64_t *at;
    size_t count, room;
} Words;

static bool add(Words *words, uint64_t word)
{
    if (words->count == words->room) return false;
    words->at[words->count++] = word;
    return true;
}

/* Of an object that is a tensor. No stride is nobody's: a library that gives none means rows without gaps. */
static bool add_tensor(Words *words, const DLTensor *t)
{
    uint32_t type;
    memcpy(&type, &t->dtype, sizeof type);
    bool fits = add(words, (uint64_t)(uint32_t)t->device.device_type << 32 |
                               (uint32_t)t->device.device_id) &&
                add(words, (uint64_t)type << 32 | (uint64_t)(uint32_t)t->ndim << 1 | !t->strides);
    for (int32_t i = 0; fits && i < t->ndim; i++)
        fits = add(words, (uint64_t)t->shape[i]) &&
               (!t->strides || add(words, (uint64_t)t->strides[i]));
    return fits;
}

size_t aule_objects_read(const aule_objects *given)
{
    if (given->struct_size < sizeof *given) return 0;
    Words words = {given->words, 0, given->word_count};
    uint64_t bits = 0;
    for (size_t i = 0; i < given->count; i++) {
        DLTensor t = {0};
        given->addresses[i] = 0;
        if (given->objects[i] == given->none) {
            if (!add(&words, UINT64_MAX)) return 0;
            continue;
        }
        if (given->read(given->objects[i], &t) || !t.data || !add_tensor(&words, &t)) return 0;
        given->addresses[i] = (uint64_t)(uintptr_t)t.data + t.byte_offset;
        bits |= given->addresses[i];
    }
    given->addresses[given->count] = 0;
    return add(&words, (bits & 15) == 0) ? words.count : 0;
}
