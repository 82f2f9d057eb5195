/* key_storage.c - see key_storage.h. */
#include "key_storage.h"

#include "key_layout.h"

static const AuStorage *storage(const Lanes *x, uint32_t n) { return &x->p->attn->storage[n - 1]; }

bool lanes_is_stored(const Lanes *x, uint32_t n)
{
    return (n == 1 || n == 2) && storage(x, n)->as != AU_STORED_OPERAND;
}

AuTileElem schedule_stored_elem(const AuStorage *s)
{
    static const AuTileElem elems[] = {TILE_F32, TILE_E4M3, TILE_E5M2, TILE_I8,
                                       TILE_I8}; /* ORDER AuStored */
    return elems[s->as];
}

const char *lanes_stored_elem(const Lanes *x, uint32_t n)
{
    return tile_elem(schedule_stored_elem(storage(x, n)))->name;
}

bool lanes_stores_halves(const Lanes *x, uint32_t n)
{
    return lanes_is_stored(x, n) && attn_stores_halves(storage(x, n));
}

int32_t lanes_stored_width(const Lanes *x, uint32_t n, int32_t width)
{
    return lanes_stores_halves(x, n) ? width / 2 : width;
}

/* Scales and zero points are numbers of f32 wherever they are used. */
static const char *as_f32(Lanes *x, uint32_t tensor, const char *element)
{
    const bool is = x->p->attn->tensors[tensor].dtype == AU_DT_F32;
    return is ? element : tile_text(x->t, "f32(%s)", element);
}

/* Of the scale or the zero point: of channels of a group. Of keys in pages those of a sequence are [sequence]'s. */
static const char *stored_scale(Lanes *x, uint32_t n, uint32_t tensor, LanesPlace at,
                                const char *sequence)
{
    const AuRowLayout *keys = &x->p->attn->keys;
    const char *scale = lanes_tensor(x, tensor), *line = lanes_key_line(x),
               *group = at.group ? at.group : "0";
    const bool paged = lanes_keys_are_paged(x);
    if (!storage(x, n)->by_token)
        return tile_text(x->t, "%s[%s, %s, 0, %s]", scale, paged ? sequence : line, at.head, group);
    if (lanes_is_packed(x, LANES_KEYS)) line = "0";
    if (!paged)
        return tile_text(x->t, "%s[%s, %s, %s%s, %s]", scale, line, at.head,
                         lanes_row_start(x, LANES_KEYS), at.rows, group);
    const char *slots = hooks_name(x->arena, x->p->attn->sizes[keys->slots].name),
               *pages = hooks_name(x->arena, x->p->attn->sizes[keys->pages].name);
    return tile_text(x->t, "%s[clamp(%s, 0, %s - 1), %s, %s %% %s, %s]", scale,
                     lanes_page_entry(x, tile_text(x->t, "%s / %s", at.rows, slots)), pages,
                     at.head, at.rows, slots, group);
}

static const char *scale_at(Lanes *x, uint32_t n, uint32_t tensor, LanesPlace at,
                            const char *sequence)
{
    return as_f32(x, tensor, stored_scale(x, n, tensor, at, sequence));
}

const char *lanes_scale_of(Lanes *x, uint32_t n, const char *head, const char *rows)
{
    return scale_at(x, n, storage(x, n)->scale, (LanesPlace){.head = head, .rows = rows}, "b");
}

/* Of values that are channels of the keys, a channel of those. */
static const char *in_keys(Lanes *x, uint32_t n, const char *channel)
{
    const AuAttn *a = x->p->attn;
    return n == 2 && a->v_in_k && a->v_first ? tile_text(x->t, "(%s + %d)", channel, a->v_first)
                                             : channel;
}

const char *lanes_stored_index(Lanes *x, uint32_t n, const char *channel)
{
    const char *of_keys = in_keys(x, n, channel);
    return lanes_stores_halves(x, n) ? tile_text(x->t, "%s / 2", of_keys) : of_keys;
}

/* Of the two codes in a byte that was read as a number, that of the channel. Each step is exact. */
static const char *half(Lanes *x, const char *raw, const char *channel)
{
    return tile_text(x->t,
                     "where(%s %% 2 == 0, %s - floor((%s + 8.0) * 0.0625) * 16.0, floor(%s * "
                     "0.0625))",
                     channel, raw, raw, raw);
}

const char *lanes_number_of(Lanes *x, uint32_t n, const char *raw, const char *channel)
{
    return lanes_stores_halves(x, n) ? half(x, raw, in_keys(x, n, channel)) : raw;
}

static LanesPlace with_group(Lanes *x, uint32_t n, LanesPlace at)
{
    const int32_t channels = storage(x, n)->channels;
    if (channels && !at.group)
        at.group = tile_text(x->t, "%s / %d", in_keys(x, n, at.channel), channels);
    return at;
}

/* Elements of a tile are made once for the rows of all of a group: its sequences have the same keys, so the first one's scales are theirs. */
static const char *sequence_of(const Lanes *x) { return x->of_group ? "leader" : "b"; }

const char *lanes_scale_at(Lanes *x, uint32_t n, LanesPlace at)
{
    return scale_at(x, n, storage(x, n)->scale, with_group(x, n, at), sequence_of(x));
}

const char *lanes_zero_at(Lanes *x, uint32_t n, LanesPlace at)
{
    return storage(x, n)->has_zero
               ? scale_at(x, n, storage(x, n)->zero, with_group(x, n, at), sequence_of(x))
               : NULL;
}

const char *lanes_element_of(Lanes *x, uint32_t n, const char *number, LanesPlace at)
{
    const char *zero = lanes_zero_at(x, n, at);
    if (zero) number = tile_text(x->t, "(%s - %s)", number, zero);
    return tile_text(x->t, "%s * %s", number, lanes_scale_at(x, n, at));
}

/* Rows that a kernel wrote for products are elements already. */
static bool is_scaled(Lanes *x, uint32_t n)
{
    const AuStorage *s = storage(x, n);
    const bool parts = x->codes_are_operands ? attn_scales_parts(s) : attn_stores_parts(s);
    return lanes_is_stored(x, n) && !parts && !lanes_changed_type(x, n);
}

const char *lanes_scale_in_page(Lanes *x, uint32_t n, const char *head, const char *page,
                                const char *slot)
{
    const uint32_t scale = storage(x, n)->scale;
    return as_f32(x, scale,
                  tile_text(x->t, "%s[%s, %s, %s, 0]", lanes_tensor(x, scale), page, head, slot));
}

AuTileHandle lanes_scale_ahead(uint32_t n)
{
    return n == 1 ? TILE_NAME("k_scale_ahead") : TILE_NAME("v_scale_ahead");
}

/* What lanes have ahead, where scores have it. */
static const char *scale_here(Lanes *x, uint32_t n)
{
    const char *name = n == 1 ? "k_scale_here" : "v_scale_here";
    tile_convert(x->t, name, lanes_scale_ahead(n), "like score");
    return name;
}

void lanes_scale_scores(Lanes *x)
{
    if (!is_scaled(x, 1)) return;
    tile_set(x->t, "score", "score * %s",
             x->scales_ahead[0] ? scale_here(x, 1) : lanes_scale_of(x, 1, "hk", "j"));
}

const char *lanes_value_head(const Lanes *x) { return x->p->attn->v_in_k ? "hk" : "hv"; }

/* A power of two about as large as the largest stored number: scales are as much smaller than elements, and weights times them might be too
 * small for 16 bits. */
int32_t lanes_weight_range(const Lanes *x)
{
    static const int32_t ranges[] = {1, 1 << 8, 1 << 15, 1 << 7, 1 << 3}; /* ORDER AuStored */
    return ranges[storage(x, 2)->as];
}

/* What tokens outside have for a scale is not used: 0 times a NaN is none. */
const char *lanes_key_inside(Lanes *x, const char *j)
{
    const char *end = lanes_key_end(x);
    return x->p->attn->mask.i ? tile_text(x->t, "%s >= k_low && %s < min(k_high, %s)", j, j, end)
                              : tile_text(x->t, "%s < %s", j, end);
}

void lanes_scale_weights(Lanes *x)
{
    if (!is_scaled(x, 2) || !storage(x, 2)->by_token) return;
    if (x->scales_ahead[1])
        tile_set(x->t, "p", "p * %s", scale_here(x, 2));
    else
        tile_set(x->t, "p", "p * where(%s, %s * %d.0, 0.0)", lanes_key_inside(x, "j"),
                 lanes_scale_of(x, 2, lanes_value_head(x), "j"), lanes_weight_range(x));
}

void lanes_scale_values(Lanes *x) { lanes_scale_values_of(x, "acc"); }

void lanes_scale_values_of(Lanes *x, const char *sums)
{
    if (!is_scaled(x, 2)) return;
    if (storage(x, 2)->by_token)
        tile_set(x->t, sums, "%s * (1.0 / %d.0)", sums, lanes_weight_range(x));
    else
        tile_set(x->t, sums, "%s * %s", sums, lanes_scale_of(x, 2, lanes_value_head(x), "0"));
}
