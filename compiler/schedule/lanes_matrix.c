/* lanes_matrix.c - the kernel of keys (lanes_keys.c) by matrix units of a core: which products they take, and what those take.
 *
 *     S = Q K'   dP = dO V'            rows of Q and dO as they lie
 *     dV' += dO' P   dK' += Q' dS      rows of Q' and dO', a channel each: written once, [b, h, channel, query]
 *     dQ += dS K                       rows of dS, through memory
 *
 * The unit takes A in rows along what is contracted, and B in pairs along it: P, dS, K' and V' in fragments, K in one of its own. So
 * weights and gradients of scores are rounded to the operand type, as matrix units of warps have them; what inputs that pairs read
 * get is not. */
#include "key_layout.h"
#include "lanes_back.h"

#include <string.h>

typedef struct Across {
    const char *name, *from, *channel;
    int32_t width;
} Across;

static Across across_of(Lanes *x, uint32_t n)
{
    if (n) return (Across){"do_across", back_output_gradient(x), "e", x->p->e};
    return (Across){"q_across", lanes_changed_name(x, 0), "d", x->p->d};
}

const AuTileAtom *lanes_back_atom(const AuProblem *p, const AuShape *shape)
{
    const AuTileAtom *atom = tile_best_atom(p->caps, p->operand, TILE_ON_THREAD);
    const int32_t keys = p->caps->lanes * shape->key_registers;
    if (!atom || atom->k <= 2 || !shape->with_dq || p->hooks->dot_count) return NULL;
    const bool fits = p->d % atom->k == 0 && p->e % atom->k == 0 && keys % atom->k == 0 &&
                      shape->query_tile % atom->k == 0;
    return fits ? atom : NULL;
}

/* Tiles of Q and dO both ways, of dS and K; operands of keys; sums of dK, dV, dQ; scores and what is made of them. */
int32_t lanes_matrix_words(const AuProblem *p, const AuShape *shape)
{
    const int32_t keys = shape->key_registers, lanes = p->caps->lanes, wide = p->d + p->e;
    const int32_t tile = shape->query_tile;
    const int32_t brought = tile * wide / lanes + (tile * keys + p->d * keys) / 2;
    const int32_t held = keys * (wide + p->d) / 2 + keys * wide + tile * p->d / lanes;
    return brought + held + keys * tile * (4 + (int32_t)p->grads->pairs.count);
}

void lanes_across_arguments(Lanes *x, AuTileMode mode)
{
    for (uint32_t n = 0; n < 2; n++) {
        const Across a = across_of(x, n);
        tile_arg(x->t, a.name, mode, "%s[b:%s, h:%s, %s:%d, q:%s]", x->operand,
                 lanes_row_batch(x, LANES_QUERIES), lanes_axis(x, 0, 1), a.channel, a.width,
                 lanes_axis(x, 0, 2));
    }
}

/* ---- in the kernel of keys */

void lanes_across_memories(Lanes *x)
{
    static const char *const names[] = {"Q_across", "dO_across"};
    for (uint32_t n = 0; n < 2; n++)
        lanes_memory(x, TILE_NAME(names[n]),
                     tile_text(x->t, "%s[%s:%d, q:%d]", x->held, across_of(x, n).channel,
                               across_of(x, n).width, x->shape->query_tile));
}

void lanes_across_copies(Lanes *x)
{
    const char *b = lanes_row_b(x, LANES_QUERIES);
    const LanesRows q = {.before = tile_text(x->t, "q_across[%s, h, :, ", b), .after = "]"},
                    grad = {.before = tile_text(x->t, "do_across[%s, h, :, ", b), .after = "]"};
    lanes_copy_tile(x, LANES_QUERIES, q, TILE_NAME("Q_across"));
    lanes_copy_tile(x, LANES_QUERIES, grad, TILE_NAME("dO_across"));
}

void lanes_across_declare(Lanes *x, const char *pair)
{
    const char *held = tile_text(x->t, "%s%s", x->held, pair + strlen("f32"));
    tile_frag(x->t, "weight", "%s", held);
    tile_frag(x->t, "ds_unmasked", "%s", pair);
    tile_frag(x->t, "ds_operand", "%s", held);
}

void lanes_across_pairs(Lanes *x, bool masked)
{
    AuTileBuild *t = x->t;
    tile_set(t, "weight", masked ? "%s(where(unmasked, p, 0.0))" : "%s(p)", x->held);
    tile_set(t, "ds_unmasked", masked ? "where(unmasked, ds, 0.0)" : "ds");
    tile_set(t, "ds_operand", "%s(ds_unmasked)", x->held);
}

/* ---- kernels before it */

/* A lane holds a row. */
static void across_kernel(Lanes *x, uint32_t n)
{
    AuTileBuild *t = x->t;
    const Across a = across_of(x, n);
    const int32_t lanes = lanes_block_rows(x);
    const char *heads = lanes_axis(x, 0, 1), *b = lanes_row_b(x, LANES_QUERIES);
    const char *rows =
        lanes_row_span(x, LANES_QUERIES, tile_text(t, "nb * %d +: %d", lanes, lanes), NULL, NULL);
    const BackAxis axes[3] = {
        {"nb", tile_text(t, "cdiv(%s, %d)", lanes_axis(x, 0, 2), lanes), AU_AX_Q},
        {"h", heads, AU_AX_H},
        {"b", lanes_axis(x, 0, 0), AU_AX_B}};
    back_begin_kernel(x, a.name);
    tile_arg(t, a.name, TILE_OUT, "%s[b:%s, h:%s, %s:%d, q:%s]", x->operand,
             lanes_row_batch(x, LANES_QUERIES), heads, a.channel, a.width, lanes_axis(x, 0, 2));
    back_row_grid(x, LANES_QUERIES, lanes, axes, BACK_SUMS_NOTHING, NULL);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_frag(t, "raw", "%s[%s:%d, q:%d] @ %s", x->operand, a.channel, a.width, lanes,
              lanes_row_layout(x, a.channel));
    tile_load(t, "raw", "%s[%s, h, %s, :] pad 0", a.from, b, rows);
    tile_store(t, "%s(raw) -> %s[%s, h, :, %s] clip", x->operand, a.name, b, rows);
    tile_end(t);
    tile_end(t);
    lanes_region(x, a.name);
}

void lanes_across_kernels(Lanes *x)
{
    for (uint32_t n = 0; n < 2; n++) across_kernel(x, n);
}
