/* lanes_parts.c - sums in parts, where one kernel makes all gradients: a block has a part of dQ, that of its keys;
 * where query heads share keys, a part of dK and dV, too, that of its query heads. Both are as many as give all cores
 * something to do; heads come first, since parts of dK and dV are smaller than those of the group's dQ. */
#include "lanes_back.h"

/* As many blocks at least, if there are heads and tiles. */
enum { BLOCKS = 16 };

bool lanes_in_parts(const Lanes *x, uint32_t n)
{
    return n == 0 ? x->with_dq && x->on_cpu : x->heads_in_parts;
}

static const char *parts_of_heads(Lanes *x)
{
    return tile_text(x->t, "min(%s / %s, cdiv(%d, max(%s * %s, 1)))", lanes_axis(x, 0, 1),
                     lanes_axis(x, 1, 1), BLOCKS, lanes_axis(x, 1, 0), lanes_axis(x, 1, 1));
}

const char *lanes_parts(Lanes *x, uint32_t n)
{
    if (n) return parts_of_heads(x);
    const char *heads = x->heads_in_parts ? tile_text(x->t, " * %s", parts_of_heads(x)) : "";
    return tile_text(x->t, "min(cdiv(%s, %d), cdiv(%d, max(%s * %s%s, 1)))", lanes_axis(x, 1, 2),
                     lanes_block_keys(x), BLOCKS, lanes_axis(x, 1, 0), lanes_axis(x, 1, 1), heads);
}

const char *lanes_parts_name(uint32_t n)
{
    static const char *const names[3] = {"dq_parts", "dk_parts", "dv_parts"};
    return names[n];
}

/* One part of dK or dV is the gradient itself. */
const char *lanes_parts_type(Lanes *x, uint32_t n)
{
    static const char *const rows[3] = {"q", "kv", "kv"}, *const channels[3] = {"d", "d", "e"};
    const int32_t widths[3] = {lanes_padded_width(x), x->p->d, x->p->e};
    const char *parts = lanes_parts(x, n);
    if (n) parts = tile_text(x->t, "%s * min(%s - 1, 1)", parts, parts);
    return tile_text(x->t, "f32[part:%s, b:%s, h:%s, %s:%s, %s:%d]", parts, lanes_axis(x, n, 0),
                     lanes_axis(x, n, 1), rows[n], lanes_axis(x, n, 2), channels[n], widths[n]);
}
