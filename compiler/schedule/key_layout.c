/* key_layout.c - see key_layout.h. */
#include "key_layout.h"

static const AuKeyLayout *layout(const Lanes *x) { return &x->p->attn->keys; }

static const char *size(Lanes *x, uint32_t n)
{
    return hooks_name(x->arena, x->p->attn->sizes[n].name);
}

bool lanes_keys_are_paged(const Lanes *x) { return layout(x)->layout == AU_LAYOUT_PAGED; }

const char *lanes_most_keys(Lanes *x)
{
    return tile_text(x->t, "%s * %s", size(x, layout(x)->entries), size(x, layout(x)->slots));
}

const char *lanes_paged_type(Lanes *x, const char *elem, uint32_t n)
{
    return tile_text(x->t, "%s[page:%s, h:%s, slot:%s, %s:%d]", elem, size(x, layout(x)->pages),
                     lanes_axis(x, n, 1), size(x, layout(x)->slots), n == 1 ? "d" : "e",
                     n == 1 ? x->p->d : x->p->e);
}

bool schedule_inputs_have_keys(const AuAttn *a)
{
    for (uint32_t n = 3; n < a->tensor_count; n++)
        for (uint32_t k = 0; k < a->tensors[n].rank; k++)
            if (a->tensors[n].axes[k].i == a->tensors[1].axes[2].i) return true;
    return false;
}

/* Clamped to what there is room for: no length makes an address outside. */
void lanes_let_key_length(Lanes *x)
{
    const AuAttn *a = x->p->attn;
    if (!a->keys.layout) return;
    const char *lengths = lanes_tensor(x, a->keys.lengths), *room = lanes_axis(x, 1, 2);
    if (lanes_keys_are_paged(x)) {
        room = tile_text(x->t, "%s * min(%s, 1)", room, size(x, a->keys.pages));
        if (schedule_inputs_have_keys(a)) /* what they have for a sequence ends there */
            room = tile_text(x->t, "min(%s, %s)", room,
                             size(x, (uint32_t)attn_at(a, a->tensors[1].axes[2])->integer));
    }
    tile_let(x->t, "kv_length", "min(max(%s[b], 0), %s)", lengths, room);
}

const char *lanes_key_end(Lanes *x)
{
    return layout(x)->layout ? "kv_length" : lanes_axis(x, 1, 2);
}

LanesRows lanes_paged_rows(Lanes *x, const char *tensor, const char *head, const char *columns)
{
    return (LanesRows){.before = tensor, .after = tile_text(x->t, ", %s]", columns), .head = head};
}

AuTileHandle lanes_at_pages(Lanes *x, LanesRows view, const char *rows)
{
    const char *slots = size(x, layout(x)->slots), *table = lanes_tensor(x, layout(x)->table);
    return tile_part(x->t, "%s[clamp(%s[b, %s / %s], 0, %s - 1), %s, %s %% %s%s", view.before,
                     table, rows, slots, size(x, layout(x)->pages), view.head, rows, slots,
                     view.after);
}
