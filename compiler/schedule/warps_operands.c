/* warps_operands.c - codes that become operands of products in registers, in kernels whose warps have keys of their own (warps_codes.c).
 *
 * A lane reads codes as they lie, neighbours of a row: so they pass shared memory once, where a tile of numbers is written and read again, twice as wide. Of
 * keys a lane then has channels side by side, along which products add up in any order that queries have, too; of values channels that lie
 * so in the sums. Scales of heads and tokens multiply scores, weights and sums; those of groups of channels, and zero points, need elements. */
#include "key_storage.h"
#include "warps.h"
#include "warps_decode.h"

/* Digits of an axis of an instruction's operand, so that a lane has neighbours: its registers first. */
static const char *gathered(AuArena *arena, const char *digits, int32_t extent)
{
    AuTileDigits of;
    AuText lanes = {.arena = arena};
    int32_t count = 1;
    if (!tile_digits(digits, &of)) return "reg";
    for (uint32_t n = 0; n < of.count; n++) {
        if (of.at[n].unit != TILE_UNIT_LANE) continue;
        au_text_add(&lanes, " lane:%d@%d", of.at[n].size, of.at[n].stride);
        count *= of.at[n].size;
    }
    return au_format(arena, "reg:%d%s", extent / count, au_text_str(&lanes));
}

static const AuTilePlaces *places_of(AuArena *arena, const char *text, int32_t extent)
{
    AuTileDigits digits;
    return tile_digits(text, &digits) ? tile_places(arena, &digits, extent) : NULL;
}

/* Does the instruction take what lanes so have? Channels of keys are what it adds up along, those of values lie as the sums. */
static bool takes_neighbours(const AuProblem *p, const AuTileAtom *atom)
{
    AuArena *arena = p->attn->arena;
    const int32_t d = p->d, e = p->e;
    const AuTilePlaces *query = places_of(arena, gathered(arena, atom->cols[TILE_A], d), d),
                       *key = places_of(arena, gathered(arena, atom->rows[TILE_B], d), d),
                       *value = places_of(arena, gathered(arena, atom->cols[TILE_B], e), e),
                       *sums = places_of(arena, gathered(arena, atom->cols[TILE_C], e), e);
    return query && key && value && sums && tile_contraction_matches(atom, query, key, d) &&
           tile_free_matches(atom, TILE_B, value, sums, e);
}

/* A lane has all keys of its warp's part of a tile, and then all values, beside scores, sums and queries. Seen without spills up to 184 registers of
 * 255, and 120 of 168; width 256 would take 336, and 192 with half as many keys spilled 100 bytes. */
static bool has_registers(const AuProblem *p, const AuShape *s)
{
    enum { SHARE = 47, OF = 64 };
    const int32_t keys = s->key_tile / s->executors, widest = p->d > p->e ? p->d : p->e,
                  halves = keys * widest + s->rows * p->d, words = s->rows * (keys + p->e);
    return keys == p->caps->lanes &&
           halves / 2 + words <= warps_lane_registers(p) * p->caps->lanes * SHARE / OF;
}

/* Numbers by a few instructions a code; where arithmetic makes each of its own a whole tile's at once spilled 90 to 350 bytes (e4m3 on sm_80). */
static bool becomes_quickly(const AuProblem *p, const AuStorage *stored)
{
    return (p->caps->converts | p->caps->decodes) >> schedule_stored_elem(stored) & 1;
}

bool warps_codes_are_operands(const AuProblem *p, const AuShape *s)
{
    const AuTileAtom *atom = warps_atom(p);
    for (uint32_t n = 1; n <= 2; n++) {
        const AuStorage *stored = &p->attn->storage[n - 1];
        if (!warps_has_codes(p, n) || attn_scales_parts(stored) || !becomes_quickly(p, stored))
            return false;
    }
    return s->keys_apart && s->query_in_registers && atom && !warps_sums_lie_apart(p) &&
           !atom->rounds && warps_padded(atom, p->d) == p->d && has_registers(p, s) &&
           takes_neighbours(p, atom);
}

/* Of up to eight rows of the heads that share keys the instruction's columns are these, and a lane has half as many sums, scores and queries: so
 * three blocks are on a processor, whose warps hide what each waits for. */
bool warps_has_narrow(AuArena *arena, const AuProblem *p)
{
    AuProblem of = *p;
    AuShape shape;
    const char *why;
    of.form = AU_FEW_NARROW;
    return !p->tf32 && warps_copy_ahead(p) && tile_narrow_atom(p->caps, p->operand, TILE_ON_WARP) &&
           schedule_warps_decode_shape(arena, &of, &shape, &why) &&
           warps_codes_are_operands(&of, &shape);
}

void warps_code_layouts(Lanes *x)
{
    const AuTileAtom *atom = x->atom;
    const int32_t d = x->p->d, e = x->p->e;
    x->codes_are_operands = warps_codes_are_operands(x->p, x->shape);
    if (!x->codes_are_operands) return;
    tile_layout(x->t, "query_of_codes", atom->rows[TILE_A],
                gathered(x->arena, atom->cols[TILE_A], d));
    tile_layout(x->t, "key_of_codes", atom->cols[TILE_B],
                gathered(x->arena, atom->rows[TILE_B], d));
    tile_layout(x->t, "value_of_codes", atom->rows[TILE_B],
                gathered(x->arena, atom->cols[TILE_B], e));
    tile_layout(x->t, "sums_of_codes", atom->rows[TILE_C],
                gathered(x->arena, atom->cols[TILE_C], e));
}

const char *warps_query_layout(Lanes *x)
{
    return x->codes_are_operands ? "query_of_codes" : tile_text(x->t, "%s.A", x->atom->name);
}

const char *warps_sums_layout(Lanes *x)
{
    return x->codes_are_operands ? "sums_of_codes" : tile_text(x->t, "%s.C", x->atom->name);
}

void warps_codes_begin(Lanes *x)
{
    if (x->codes_are_operands) {
        tile_frag(x->t, "keys", "%s[kv:%d, d:%d] @ key_of_codes", x->operand, lanes_keys(x),
                  x->p->d);
        tile_frag(x->t, "values", "%s[kv:%d, e:%d] @ value_of_codes", x->operand, lanes_keys(x),
                  x->p->e);
        if (x->p->form == AU_FEW_NARROW)
            tile_frag(x->t, "weight", "%s[q:%d, kv:%d] like score", x->operand, x->rows,
                      lanes_keys(x));
    }
    warps_scales_begin(x);
}
