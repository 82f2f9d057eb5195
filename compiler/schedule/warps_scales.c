/* warps_scales.c - scales of tokens in the kernel for few queries, whose warps have keys of their own (warps_decode.c): they come a tile ahead with
 * the codes, by the page and the slot that those have, instead of by a table's entry and a quotient for each element when it is needed.
 *
 * A warp reads those of its keys as soon as they are there, keys' and values' both, so that the next tile's have their place. */
#include "key_layout.h"
#include "key_storage.h"
#include "warps.h"

static const char *const memories[] = {NULL, "k_scales", "v_scales"};
static const char *const tokens[] = {NULL, "tks", "tvs"};

static bool comes(const AuProblem *p, uint32_t operand)
{
    const AuStorage *s = &p->attn->storage[operand - 1];
    return !p->attn->v_in_k && s->by_token && !attn_stores_parts(s) && warps_has_codes(p, operand);
}

int32_t warps_scale_bytes(const AuProblem *p, const AuShape *s)
{
    enum { SCALE = 4 };
    return s->keys_apart ? SCALE * (comes(p, 1) + comes(p, 2)) : 0;
}

static bool brings(const Lanes *x, uint32_t operand)
{
    return x->shape->keys_apart && comes(x->p, operand);
}

void warps_scale_memories(Lanes *x)
{
    for (uint32_t n = 1; n <= 2; n++)
        if (brings(x, n)) tile_shared(x->t, memories[n], "f32[kv:%d]", x->shape->key_tile);
}

static void issue(Lanes *x, uint32_t operand, const char *n)
{
    const char *scale = lanes_tensor(x, x->p->attn->storage[operand - 1].scale),
               *head = operand == 1 ? "hk" : "hv";
    if (lanes_keys_are_paged(x)) {
        warps_pages_issue_scales(x, tokens[operand],
                                 (LanesRows){.before = scale, .after = ", 0]", .head = head},
                                 memories[operand], n);
        return;
    }
    const WarpsShare share = warps_share(x, n, x->shape->key_tile, "", lanes_limits(x, "k"));
    tile_async_copy(x->t, tokens[operand], "%s[%s, %s, %s, 0] as [kv] -> %s[%s] pad 0", scale,
                    lanes_key_line(x), head, share.rows, memories[operand], share.to);
}

void warps_issue_scales(Lanes *x, const char *n)
{
    for (uint32_t operand = 1; operand <= 2; operand++)
        if (brings(x, operand)) issue(x, operand, n);
}

const char *warps_scale_tokens(Lanes *x, const char *before)
{
    AuText text = {.arena = x->arena};
    au_text_add(&text, "%s", before);
    for (uint32_t n = 1; n <= 2; n++)
        if (brings(x, n)) au_text_add(&text, ", %s", warps_pages_tokens(x, tokens[n], n));
    return au_text_str(&text);
}

void warps_load_scales(Lanes *x)
{
    const int32_t own = lanes_keys(x);
    for (uint32_t n = 1; n <= 2; n++) {
        if (!brings(x, n)) continue;
        tile_load(x->t, n == 1 ? "k_factor" : "v_factor",
                  "%s[self * %d +: %d] as [kv] like key_like", memories[n], own, own);
        x->has_factor[n] = true;
    }
}

void warps_declare_scales(Lanes *x)
{
    if (brings(x, 1) || brings(x, 2))
        tile_frag(x->t, "key_like", "f32[kv:%d] like score = 0.0", lanes_keys(x));
}
