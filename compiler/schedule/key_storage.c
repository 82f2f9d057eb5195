/* key_storage.c - see key_storage.h. */
#include "key_storage.h"

#include "key_layout.h"

static const AuStorage *storage(const Lanes *x, uint32_t n) { return &x->p->attn->storage[n - 1]; }

bool lanes_is_stored(const Lanes *x, uint32_t n)
{
    return (n == 1 || n == 2) && storage(x, n)->as != AU_STORED_OPERAND;
}

const char *lanes_stored_elem(const Lanes *x, uint32_t n)
{
    static const AuTileElem elems[] = {TILE_F32, TILE_E4M3, TILE_E5M2,
                                       TILE_I8}; /* ORDER AuStored */
    return tile_elem(elems[storage(x, n)->as])->name;
}

const char *lanes_scale_of(Lanes *x, uint32_t n, const char *head, const char *rows)
{
    const AuRowLayout *keys = &x->p->attn->keys;
    const char *scale = lanes_tensor(x, storage(x, n)->scale);
    const bool paged = lanes_keys_are_paged(x);
    const char *line = lanes_key_line(x);
    if (!storage(x, n)->by_token)
        return tile_text(x->t, "%s[%s, %s, 0, 0]", scale, paged ? "b" : line, head);
    if (!paged) return tile_text(x->t, "%s[%s, %s, %s, 0]", scale, line, head, rows);
    const char *slots = hooks_name(x->arena, x->p->attn->sizes[keys->slots].name),
               *pages = hooks_name(x->arena, x->p->attn->sizes[keys->pages].name);
    return tile_text(x->t, "%s[clamp(%s, 0, %s - 1), %s, %s %% %s, 0]", scale,
                     lanes_page_entry(x, tile_text(x->t, "%s / %s", rows, slots)), pages, head,
                     rows, slots);
}

/* Rows that a kernel wrote for products are elements already. */
static bool is_scaled(Lanes *x, uint32_t n)
{
    return lanes_is_stored(x, n) && !lanes_changed_type(x, n);
}

void lanes_scale_scores(Lanes *x)
{
    if (is_scaled(x, 1)) tile_set(x->t, "score", "score * %s", lanes_scale_of(x, 1, "hk", "j"));
}

static const char *value_head(const Lanes *x) { return x->p->attn->v_in_k ? "hk" : "hv"; }

/* A power of two about as large as the largest stored number: scales are as much smaller than elements, and weights times them might be too
 * small for 16 bits. */
static int32_t range_of(const Lanes *x, uint32_t n)
{
    static const int32_t ranges[] = {1, 1 << 8, 1 << 15, 1 << 7}; /* ORDER AuStored */
    return ranges[storage(x, n)->as];
}

/* What tokens outside have for a scale is not used: 0 times a NaN is none. */
void lanes_scale_weights(Lanes *x)
{
    if (!is_scaled(x, 2) || !storage(x, 2)->by_token) return;
    const char *end = lanes_key_end(x),
               *inside = x->p->attn->mask.i
                             ? tile_text(x->t, "j >= k_low && j < min(k_high, %s)", end)
                             : tile_text(x->t, "j < %s", end);
    tile_set(x->t, "p", "p * where(%s, %s * %d.0, 0.0)", inside,
             lanes_scale_of(x, 2, value_head(x), "j"), range_of(x, 2));
}

void lanes_scale_values(Lanes *x)
{
    if (!is_scaled(x, 2)) return;
    if (storage(x, 2)->by_token)
        tile_set(x->t, "acc", "acc * (1.0 / %d.0)", range_of(x, 2));
    else
        tile_set(x->t, "acc", "acc * %s", lanes_scale_of(x, 2, value_head(x), "0"));
}
