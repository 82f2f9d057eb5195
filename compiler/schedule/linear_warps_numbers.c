/* linear_warps_numbers.c - what is a number a token: sums of log decays since the chunk's start, strengths of writes and of erasing. They come
 * through the script's hooks, which load, and through scans over lanes, one after the other: so the kernel `numbers` makes them of all
 * chunks at once, in the workspace, a warp each; who goes over chunks in order loads those of the next one a chunk ahead. */
#include "linear_warps.h"

enum { PARTS = 32, BLOCKS = 1024 }; /* see lw_parts */

typedef struct Number {
    AuSlot slot;
    const char *memory, *next; /* where a chunk's are; the next chunk's, in registers */
} Number;

static const Number numbers[] = {
    {AU_SLOT_LOG_DECAY, "G", "next_sums"},
    {AU_SLOT_WRITE, "W", "next_strength"},
    {AU_SLOT_ERASE, "E", "next_erase"},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static bool is_made(const LinearWarps *w, const Number *number)
{
    return number->slot == AU_SLOT_LOG_DECAY ? lw_decay(w) == AU_DECAY_SCALAR
                                             : lin_has(&w->l, number->slot);
}

/* Inverses need no strengths of writes. */
static bool is_there(const LinearWarps *w, const Number *number)
{
    return is_made(w, number) && !(w->makes_inverse && number->slot == AU_SLOT_WRITE);
}

/* As many as are before it. */
static int32_t index_of(const LinearWarps *w, uint32_t which)
{
    int32_t index = 0;
    for (uint32_t n = 0; n < which; n++) index += is_made(w, &numbers[n]);
    return index;
}

bool lw_has_numbers(const LinearWarps *w) { return index_of(w, NUMBERS) > 0; }

/* Places of [which] in memory: sums begin with those of no token, where a read comes before the write. */
static int32_t first_of(const LinearWarps *w, const Number *number)
{
    return number->slot == AU_SLOT_LOG_DECAY && w->has_since;
}

void lw_numbers_argument(LinearWarps *w, AuTileMode mode)
{
    if (lw_has_numbers(w))
        lw_chunk_argument(w, "numbers", mode, "f32",
                          tile_text(w->l.x.t, "m:%d, kv:%d", index_of(w, NUMBERS), w->l.chunk));
}

void lw_numbers_memories(LinearWarps *w)
{
    for (uint32_t n = 0; n < NUMBERS; n++)
        if (is_there(w, &numbers[n]))
            tile_shared(w->l.x.t, numbers[n].memory, "f32[kv:%d]",
                        w->l.chunk + first_of(w, &numbers[n]));
}

void lw_numbers_declare(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    for (uint32_t n = 0; n < NUMBERS; n++) {
        if (!is_there(w, &numbers[n])) continue;
        tile_frag(t, numbers[n].next, "f32[kv:%d] @ along_lanes = 0.0", w->l.chunk);
        if (!first_of(w, &numbers[n])) continue;
        tile_if(t, "self == 0");
        tile_store(t, "%s -> G[0 +: %d]", numbers[n].next,
                   w->l.chunk); /* of which the first stays */
        tile_end(t);
    }
}

/* Each by a warp of its own, where there are as many. */
static void begin_owner(LinearWarps *w, uint32_t which)
{
    tile_if(w->l.x.t, "self == %d", index_of(w, which) % w->l.x.shape->executors);
}

void lw_numbers_issue(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    for (uint32_t n = 0; n < NUMBERS; n++) {
        if (!is_there(w, &numbers[n])) continue;
        begin_owner(w, n);
        tile_load(t, numbers[n].next,
                  "numbers[b, h, place_brought, %d, 0 +: %d from 0 to rows_brought] as [kv] pad 0",
                  index_of(w, n), w->l.chunk);
        tile_end(t);
    }
}

void lw_numbers(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    for (uint32_t n = 0; n < NUMBERS; n++) {
        if (!is_there(w, &numbers[n])) continue;
        begin_owner(w, n);
        tile_store(t, "%s -> %s[%d +: %d]", numbers[n].next, numbers[n].memory,
                   first_of(w, &numbers[n]), w->l.chunk);
        tile_end(t);
    }
}

/* ---- the kernel */

/* 0 behind the sequence. */
static void make(LinearWarps *w, uint32_t which)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    tile_set(t, "number", "%s(token, b, h, first + iota(kv:%d), 0)",
             l->slots[numbers[which].slot].name, l->chunk);
    if (numbers[which].slot == AU_SLOT_LOG_DECAY) {
        tile_set(t, "number", "%s", lin_floored(l, "number"));
        tile_set(t, "number", "cumsum(%s, kv)", lin_guarded(l, "kv", "number"));
    } else
        tile_set(t, "number", "%s", lin_guarded(l, "kv", "number"));
    tile_store(t, "number -> numbers[b, h, place_of_numbers, %d, :] as [kv]", index_of(w, which));
}

static void kernel(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t count = index_of(w, NUMBERS);
    lin_begin_kernel(l, "numbers");
    lw_numbers_argument(w, TILE_INOUT);
    tile_grid(t, "part: %s, h: %s, n: %s", lw_parts(w, PARTS, BLOCKS), l->heads, lin_sequences(l));
    tile_role(t, "core", count, TILE_ON_WARP, 0);
    lin_find_sequence(l);
    tile_frag(t, "token", "f32[kv:%d] @ along_lanes = 0.0", l->chunk);
    lw_begin_parts(w, lw_parts(w, PARTS, BLOCKS));
    lw_place_of_states(w, "place_of_numbers", "chunk");
    for (uint32_t n = 0; n < NUMBERS; n++) {
        if (!is_made(w, &numbers[n])) continue;
        tile_if(t, "self == %d", index_of(w, n));
        make(w, n);
        tile_end(t);
    }
    for (uint32_t n = 0; n < 3; n++) tile_end(t);
}

void lw_numbers_kernel(LinearWarps *w)
{
    if (!lw_has_numbers(w)) return;
    kernel(w);
    lanes_region(&w->l.x, "numbers");
}
