/* exec_shares.c - the lists of equal parts that the kernel `shares` made (compiler/schedule/warps_shares.c), beside the same rule in a few lines: any list
 * that names each part once gives right results, so nothing else would find sums that miss some sequences. Of calls whose blocks of a part are one, of
 * which the room for parts says how many processors there are. */
#include "internal.h"

#include "driver.h"

#include <math.h>
#include <string.h>

enum { WAYS = 32, MOST_RESIDENT = 16, PROCESSORS = 132, LONGEST = 8192 };

static double parts_of(double tiles, double inverse)
{
    const double each = ceil((double)((float)tiles * (float)inverse) - 0.75 / LONGEST);
    return tiles > 0 ? fmax(each, 1) : 0;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Blocks that are on the machine together; 0: the room does not say. */
static int64_t workers_of(int64_t room, int64_t batch, int64_t tiles_of_room)
{
    for (int64_t n = 1; n <= MOST_RESIDENT; n++) {
        const int64_t some = n * PROCESSORS;
        if (room == batch + some + smaller(some, batch / 2) && room < batch * tiles_of_room)
            return some;
    }
    return 0;
}

/* 1 over the tiles of a part. */
static double best_way(const AuVariant *v, const double *tiles, int64_t batch, int64_t room,
                       double workers)
{
    double longest = 1, all = 0, best = 0, least = INFINITY;
    for (int64_t b = 0; b < batch; b++) longest = fmax(longest, tiles[b]), all += tiles[b];
    longest = fmin(longest, LONGEST);
    for (int way = 0; way < WAYS; way++) {
        const double inverse = (float)((1 + 0.25 * (way % 4)) * (1 << way / 4)) / (float)longest,
                     start = v->schedule->shape.part_start;
        double parts = 0;
        for (int64_t b = 0; b < batch; b++) parts += parts_of(tiles[b], inverse);
        const double takes = parts <= workers ? 1 / inverse + start
                                              : (all + start * parts) / workers + 0.25 / inverse;
        if (parts > (double)room || takes > least + 1e-5) continue;
        if (takes < least - 1e-5 || inverse > best) best = inverse;
        least = fmin(least, takes);
    }
    return best;
}

bool exec_shares_are_right(Run *r, const AuVariant *v, const int32_t *share_of, int64_t room,
                           const int32_t *share_at)
{
    const AuRowLayout *keys = &v->attn->keys;
    const int64_t batch = r->tensors[0].shape[0], tile = v->schedule->shape.key_tile;
    if (r->tensors[0].shape[1] != 1 || keys->layout != AU_LAYOUT_PAGED || keys->is_csr ||
        v->attn->queries.layout)
        return true;
    const Tensor *lengths = &r->tensors[keys->lengths];
    const int64_t keys_of_room = r->tensors[keys->table].shape[1] * r->tensors[1].shape[2],
                  workers = workers_of(room, batch, (keys_of_room + tile - 1) / tile);
    double *tiles = AU_NEW_ARRAY(r->arena, double, (uint32_t)batch);
    for (int64_t b = 0; b < batch; b++) {
        const unsigned char *at = lengths->bytes + exec_memory_index(lengths, (size_t)b) * 4;
        const double length = fmin(fmax(exec_get(at, AU_DT_I32), 0), (double)keys_of_room);
        tiles[b] = ceil(length / (double)tile);
    }
    const double way = workers ? best_way(v, tiles, batch, room, (double)workers) : 0;
    int64_t place = 0;
    for (int64_t b = 0; b < batch; b++) {
        const int32_t first = share_at[b], parts = share_at[batch + b];
        if (first != place || (way > 0 && parts != (int32_t)parts_of(tiles[b], way)))
            return exec_fail(r, "share_at",
                             au_format(r->arena, "sequence %d has %d parts from %d on", (int)b,
                                       (int)parts, (int)first));
        for (int32_t n = 0; n < parts && place < room; n++, place++)
            if (share_of[place] != b || share_of[room + place] != n)
                return exec_fail(r, "share_of", au_format(r->arena, "place %d", (int)place));
    }
    for (; place < room; place++)
        if (share_of[room + place] != -1)
            return exec_fail(r, "share_of",
                             au_format(r->arena, "place %d has no part", (int)place));
    return true;
}
