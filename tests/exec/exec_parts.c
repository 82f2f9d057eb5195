/* exec_parts.c - a case in parts: `unfinished` of sets of keys, one after the other, and `combine` of what they left. */
#include "internal.h"

#include "aule/artifact.h"

#include <math.h>
#include <string.h>

/* Sets of [all] keys: of three and more the first has none, of four and more the last. */
static int64_t first_key(int64_t part, int64_t parts, int64_t all)
{
    if (parts == 2) return part * all * 2 / 3 > all ? all : part * all * 2 / 3;
    const int64_t empty = parts > 3 ? 2 : parts > 1 ? 1 : 0, filled = parts - empty;
    const int64_t at = parts > 1 ? part - 1 : part;
    return at <= 0 ? 0 : at >= filled ? all : at * all / filled;
}

static void name_first_key(Run *r, int64_t first)
{
    for (uint32_t n = 0; n < r->attn->param_count; n++)
        if (strcmp(r->attn->params[n].name, "first") == 0)
            r->params[n] = (double)first, r->params_i64[n] = first;
}

/* [t] with the keys from [first] to [end] alone, where they lie. */
static Tensor some_keys(const Tensor *t, int64_t first, int64_t end)
{
    Tensor some = *t;
    const size_t before = (size_t)(first * t->strides[2]);
    some.shape[2] = end - first;
    some.elements = 1;
    for (uint32_t d = 0; d < t->rank; d++) some.elements *= (size_t)some.shape[d];
    some.span = 1;
    if (!some.elements) return some;
    some.bytes += before * exec_bytes_of(t->dtype);
    some.span = t->span - before;
    return some;
}

static void forget(Tensor *t)
{
    for (size_t n = 0; n < t->span; n++)
        exec_put(t->bytes + n * exec_bytes_of(t->dtype), t->dtype, NAN);
}

/* What a part left goes to its place among all, [part, ..]. */
static void keep(Run *r, int64_t part)
{
    uint32_t from, to;
    for (uint32_t n = 0; (from = exec_find_role(r, AULE_ROLE_PART_OUT, n)) != EXEC_NONE; n++) {
        to = exec_find_role(r, AULE_ROLE_PART, n);
        const Tensor *one = &r->tensors[from], *all = &r->tensors[to];
        for (size_t i = 0; i < one->elements; i++)
            memcpy(all->bytes + 4 * exec_memory_index(all, (size_t)part * one->elements + i),
                   one->bytes + 4 * exec_memory_index(one, i), 4);
    }
}

bool exec_in_parts(Run *r, const AuScript *script)
{
    const AuNode *axis = attn_at(r->attn, r->attn->tensors[1].axes[2]);
    int64_t *keys = &r->sizes[axis->integer];
    const int64_t all = *keys, parts = r->sizes[r->attn->online->parts_size - 1];
    const Tensor k = r->tensors[1], v = r->tensors[2];
    uint32_t out;
    bool good = true;
    for (int64_t part = 0; good && part < parts; part++) {
        const int64_t first = first_key(part, parts, all), end = first_key(part + 1, parts, all);
        name_first_key(r, first);
        *keys = end - first;
        r->tensors[1] = some_keys(&k, first, end), r->tensors[2] = some_keys(&v, first, end);
        for (uint32_t n = 0; (out = exec_find_role(r, AULE_ROLE_PART_OUT, n)) != EXEC_NONE; n++)
            forget(&r->tensors[out]);
        good = exec_interpret_operation(r, script, AU_UNFINISHED);
        keep(r, part);
    }
    *keys = all;
    r->tensors[1] = k, r->tensors[2] = v;
    name_first_key(r, 0);
    if (!good) return false;
    exec_begin(r, AU_FORWARD); /* values of all keys, as the oracle sees them */
    return exec_interpret_operation(r, script, AU_COMBINE);
}
