/* warps_codes.c - a tile of keys and values that lie in 8 bits: copies bring codes, and each warp makes numbers of those that it has brought itself,
 * so that it waits for nobody before it.
 *
 * Codes have a tile of their own and are free as soon as they have become numbers, so that the next tile's come under both products. The
 * numbers lie as operands of 16 bits do, which products read as ever. Warps that share tiles meet twice: once keys are numbers, and
 * once values are, when nobody reads the keys any more. What is not in 8 bits comes as in the step of one stage. Where warps have keys of their own
 * codes may be operands without a tile of numbers (warps_operands.c). */
#include "key_layout.h"
#include "key_storage.h"
#include "warps.h"

enum { REGISTERS = 32 }; /* of a lane, whose codes become elements together */

static int32_t width_of(const AuProblem *p, uint32_t operand)
{
    return operand == 1 ? warps_padded(warps_atom(p), p->d) : p->e;
}

/* Channels that become elements together: those that have one scale. */
static int32_t columns_of(const AuProblem *p, uint32_t operand)
{
    return schedule_scale_width(p, operand, width_of(p, operand));
}

/* Rows that a warp's vectors of 16 bytes lie on at once; as many as lanes, where channels are no vectors. */
static int32_t rows_at_once(const AuProblem *p, uint32_t operand)
{
    const int32_t across = warps_lanes_across(p, columns_of(p, operand));
    return p->caps->lanes / (across ? across : 1);
}

static bool are_whole(const AuProblem *p, uint32_t operand)
{
    enum { MOST = 16 }; /* any warp has as many rows of a tile */
    return width_of(p, operand) % columns_of(p, operand) == 0 && rows_at_once(p, operand) <= MOST;
}

bool warps_makes_elements(const AuProblem *p)
{
    return warps_copy_ahead(p) && warps_atom(p) && are_whole(p, 1) &&
           (p->attn->v_in_k || are_whole(p, 2));
}

bool warps_has_codes(const AuProblem *p, uint32_t operand)
{
    const AuStorage *s = &p->attn->storage[operand - 1];
    const bool changed = operand == 1 ? p->hooks->has_k_mod : p->hooks->has_v_mod;
    return s->as && !changed && warps_copy_ahead(p) && !(operand == 2 && p->attn->v_in_k) &&
           (!attn_stores_parts(s) || warps_makes_elements(p));
}

bool warps_has_any_codes(const AuProblem *p)
{
    return warps_has_codes(p, 1) || warps_has_codes(p, 2);
}

/* Of warps with keys of their own, whose values become numbers once their scores are there: one tile for both, so that two blocks are on a
 * processor. */
bool warps_has_one_tile(const AuProblem *p, const AuShape *s)
{
    return s->keys_apart && warps_has_codes(p, 1) && warps_has_codes(p, 2) &&
           warps_padded(warps_atom(p), p->d) == p->e;
}

static int32_t bytes_of(const AuProblem *p, uint32_t operand)
{
    const int32_t width = width_of(p, operand);
    if (!warps_has_codes(p, operand)) return 0;
    return attn_stores_halves(&p->attn->storage[operand - 1]) ? width / 2 : width;
}

int32_t warps_code_bytes(const AuProblem *p) { return bytes_of(p, 1) + bytes_of(p, 2); }

void warps_code_memories(Lanes *x)
{
    const bool spread = x->codes_are_operands; /* over the banks */
    for (uint32_t n = 1; n <= 2; n++) {
        if (!warps_has_codes(x->p, n)) continue;
        const int32_t bytes = bytes_of(x->p, n);
        tile_shared(x->t, TILE_NAME(lanes_codes_of(n)), "%s[kv:%d, %s:%d]%s",
                    lanes_stored_elem(x, n), x->shape->key_tile, n == 1 ? "d" : "e", bytes,
                    spread ? warps_swizzle(x, bytes) : "");
    }
}

const char *warps_brought(Lanes *x, uint32_t operand)
{
    if (warps_has_codes(x->p, operand)) return operand == 1 ? "K_codes" : "V_codes";
    return operand == 1 ? "K" : "V";
}

const char *warps_key_columns(Lanes *x)
{
    const int32_t d = warps_padded(x->atom, x->p->d);
    if (d == x->p->d || !lanes_has_codes(x, 1)) return warps_columns(x, x->p->d);
    return tile_text(x->t, "0 +: %d", lanes_stored_width(x, 1, d));
}

static LanesElements elements_of(const Lanes *x, uint32_t operand, bool in_keys)
{
    const int32_t columns = columns_of(x->p, operand);
    int32_t rows = rows_at_once(x->p, operand);
    while (2 * rows * columns <= REGISTERS * x->p->caps->lanes) rows *= 2;
    return (LanesElements){
        .to = operand == 1 || in_keys ? "K" : "V",
        .after = in_keys ? " as [kv, e]" : "",
        .layout = operand == 1 ? "wide_d" : "wide_e",
        .width = width_of(x->p, operand),
        .rows = rows,
        .columns = columns,
        .by_halves = attn_stores_halves(&x->p->attn->storage[operand - 1]) && columns % 2 == 0,
    };
}

/* Of the rows that the warp has brought. */
static void make_numbers(Lanes *x, const char *of)
{
    if (x->codes_are_operands) {
        const uint32_t n = *of == 'V' ? 2 : 1;
        tile_load(x->t, n == 2 ? "values" : "keys", "%s_codes[%s, :]%s", of, warps_forward_keys(x),
                  lanes_stores_halves(x, n) ? " halves" : "");
        return;
    }
    const int32_t share = x->shape->key_tile / x->shape->executors;
    const char *rows = tile_text(x->t, "self * %d +: %d, :", share, share);
    const bool other = *of == 'V' && warps_has_one_tile(x->p, x->shape);
    const uint32_t operand = *of == 'V' ? 2 : 1;
    if (lanes_has_codes(x, operand)) {
        lanes_make_elements(x, operand, elements_of(x, operand, other));
        return;
    }
    tile_copy(x->t, "%s_codes[%s] -> %s[%s]%s", of, rows, other ? "K" : of, rows,
              other ? " as [kv, e]" : "");
}

void warps_step_of_codes(Lanes *x)
{
    const bool keys = warps_has_codes(x->p, 1), values = warps_has_codes(x->p, 2);
    warps_wait(x, warps_forward_key_tokens(x));
    if (keys) {
        make_numbers(x, "K");
        warps_forward_issue_keys(x, "next(n)", "");
    }
    warps_forward_meet(x);
    lanes_score_products(x, warps_forward_row, warps_forward_key);
    lanes_scores(x);
    const char *weight = lanes_weights(x);
    if (keys) warps_scales_load(x, "next(n)");
    if (x->own_v) warps_wait(x, warps_pages_value_tokens(x));
    if (values) {
        make_numbers(x, "V");
        warps_forward_issue_values(x, "next(n)", "");
    }
    if (x->own_v) warps_forward_meet(x);
    if (!keys) {
        warps_forward_issue_keys(x, "next(n)", "");
        warps_scales_load(x, "next(n)");
    }
    warps_forward_add_values(x, weight);
    if (values) return;
    warps_forward_meet(x);
    if (x->own_v) warps_forward_issue_values(x, "next(n)", "");
}
