/* warps_back.c - see warps_back.h. */
#include "warps_back.h"

static uint32_t finals(const Lanes *x) { return x->p->attn->online->final_count; }

uint32_t back_row_count(const Lanes *x) { return 2 * finals(x); }

const char *back_row_name(Lanes *x, uint32_t n)
{
    const bool given = n < finals(x);
    return tile_text(x->t, "%s_%s", given ? "final" : "adjoint",
                     x->p->attn->online->finals[n % finals(x)].name);
}

const char *back_row_variable(Lanes *x, uint32_t n)
{
    return tile_text(x->t, "%s%u", n < finals(x) ? "final" : "adjoint", n % finals(x));
}

const char *back_output_gradient(Lanes *x)
{
    return x->p->hooks->has_out_mod ? "do_changed" : "do";
}

const char *back_key_gradient(Lanes *x, uint32_t n)
{
    return tile_text(x->t, back_is_sum(x, n) ? "%s_sum" : "%s", n == 1 ? "dk" : "dv");
}

bool back_is_sum(const Lanes *x, uint32_t n)
{
    return n == 1 ? x->p->hooks->has_k_mod : x->p->hooks->has_v_mod;
}

static void arguments(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *batch = lanes_axis(x, 0, 0), *heads = lanes_axis(x, 0, 1), *s = lanes_axis(x, 0, 2);
    lanes_arguments(x);
    for (uint32_t n = 0; n < 3; n++)
        if (lanes_changed_type(x, n))
            tile_arg(t, lanes_changed_name(x, n), TILE_IN, "%s", lanes_changed_type(x, n));
    tile_arg(t, back_output_gradient(x), TILE_IN, "%s[b:%s, h:%s, q:%s, e:%d]", x->operand, batch,
             heads, s, x->p->e);
    for (uint32_t n = 0; n < back_row_count(x); n++)
        tile_arg(t, back_row_name(x, n), TILE_IN, "f32[b:%s, h:%s, q:%s]", batch, heads, s);
    tile_arg(t, "dq_sum", TILE_INOUT, "f32[b:%s, h:%s, q:%s, d:%d]", batch, heads, s, x->p->d);
    for (uint32_t n = 1; n < (x->own_v ? 3u : 2u); n++)
        tile_arg(t, back_key_gradient(x, n), TILE_OUT, "%s[b:%s, h:%s, kv:%s, %s:%d]",
                 back_is_sum(x, n) ? "f32" : x->operand, lanes_axis(x, n, 0), lanes_axis(x, n, 1),
                 lanes_axis(x, n, 2), n == 1 ? "d" : "e", n == 1 ? x->p->d : x->p->e);
}

void back_head(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *s = lanes_axis(x, 0, 2), *last = lanes_axis(x, 1, 2);
    tile_kernel(t, "keys_back");
    arguments(x);
    tile_grid(t, "nb: cdiv(%s, %d), hk: %s, b: %s", last, x->block, lanes_axis(x, 1, 1),
              lanes_axis(x, 1, 0));
    tile_let(t, "G", "%s / %s", lanes_axis(x, 0, 1), lanes_axis(x, 1, 1));
    tile_let(t, "q_low, q_high, q_full_low, q_full_high",
             "query_range(b, hk * G, nb * %d, min(nb * %d + %d, %s))", x->block, x->block, x->block,
             last);
    tile_let(
        t, "m_low, f_low, f_high, m_high",
        "key_tiles(q_low, q_high, where(nb * %d + %d > %s, %s, q_full_low), q_full_high, %s, %d)",
        x->block, x->block, last, s, s, x->shape->query_tile);
    tile_list(t, "queries");
    tile_segment(t, "partial", TILE_RANGE, "m_low", "f_low");
    tile_segment(t, "full", TILE_RANGE, "f_low", "f_high");
    tile_segment(t, "partial", TILE_RANGE, "f_high", "m_high");
}

void back_pairs(Lanes *x)
{
    AuText rows = {.arena = x->arena};
    for (uint32_t n = 0; n < back_row_count(x); n++)
        au_text_add(&rows, ", %s", back_row_variable(x, n));
    tile_set(x->t, "p, ds", "backward_pair(score, dp, b, h, i, j%s)", au_text_str(&rows));
}

const char *back_takes_part(Lanes *x)
{
    return tile_text(x->t, "j < %s && i < %s%s", lanes_axis(x, 1, 2), lanes_axis(x, 0, 2),
                     x->p->hooks->has_mask ? " && mask(b, h, i, j)" : "");
}
