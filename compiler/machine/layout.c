/* layout.c - questions about layouts. Places are small integer arrays, compared element by element; no algebra is needed to ask
 * whether two layouts agree. */
#include "layout.h"

#include "scan.h"

#include <string.h>

static bool read_unit(AuScan *s, AuTileUnit *unit)
{
    static const char *const names[] = {
        [TILE_UNIT_REG] = "reg", [TILE_UNIT_LANE] = "lane", [TILE_UNIT_WARP] = "warp"};
    const uint32_t length = au_scan_word(s, "");
    for (uint32_t n = 0; n < sizeof names / sizeof *names; n++) {
        if (strlen(names[n]) != length || memcmp(s->text + s->at - length, names[n], length) != 0)
            continue;
        *unit = (AuTileUnit)n;
        return true;
    }
    return false;
}

/* The number after `mark`, or `missing` if there is no such mark; -1: it is none. */
static int32_t number_after(AuScan *s, char mark, int32_t missing)
{
    if (au_scan_peek(s, 0) != mark) return missing;
    s->at++;
    const AuNumber n = au_scan_number(s);
    return n.is_good && !n.is_real && n.integer > 0 && n.integer <= TILE_WARP ? (int32_t)n.integer
                                                                              : -1;
}

bool tile_digits(const char *text, AuTileDigits *out)
{
    AuScan s = {text, 0, (uint32_t)strlen(text)};
    *out = (AuTileDigits){0};
    for (; s.at < s.end; au_scan_space(&s, false)) {
        AuTileDigit d = {0};
        if (out->count == TILE_MAX_DIGITS || !read_unit(&s, &d.unit)) return false;
        d.size = number_after(&s, ':', 0);
        d.stride = number_after(&s, '@', 1);
        if (d.size < 0 || d.stride < 0) return false;
        out->at[out->count++] = d;
    }
    return true;
}

bool tile_cut_digits(const AuTileDigits *digits, int32_t extent, AuTileDigits *out)
{
    int32_t rest = extent;
    *out = (AuTileDigits){0};
    for (uint32_t i = 0; i < digits->count && rest > 1; i++) {
        AuTileDigit d = digits->at[i];
        if (d.size == 0 || d.size > rest) d.size = rest;
        if (rest % d.size) return false;
        rest /= d.size;
        if (d.size > 1) out->at[out->count++] = d;
    }
    if (rest == 1) return true;
    if (out->count == TILE_MAX_DIGITS) return false;
    out->at[out->count++] = (AuTileDigit){TILE_UNIT_REG, rest, 1};
    return true;
}

int32_t tile_place_of(const AuTileDigits *digits, int32_t index)
{
    int32_t place = 0;
    for (uint32_t i = 0; i < digits->count; i++) {
        const AuTileDigit d = digits->at[i];
        const int32_t unit = d.unit == TILE_UNIT_WARP ? TILE_WARP : d.unit == TILE_UNIT_LANE;
        place += index % d.size * d.stride * unit;
        index /= d.size;
    }
    return place;
}

const AuTilePlaces *tile_places(AuArena *arena, const AuTileDigits *digits, int32_t extent)
{
    AuTileDigits cut;
    if (extent < 1 || !tile_cut_digits(digits, extent, &cut)) return NULL;
    AuTilePlaces *places = AU_NEW(arena, AuTilePlaces);
    int32_t *place = AU_NEW_ARRAY(arena, int32_t, extent);
    for (int32_t i = 0; i < extent; i++) place[i] = tile_place_of(&cut, i);
    *places = (AuTilePlaces){.digits = cut, .extent = extent, .lanes = 1, .place = place};
    for (uint32_t i = 0; i < cut.count; i++)
        if (cut.at[i].unit != TILE_UNIT_REG) places->lanes *= cut.at[i].size;
    return places;
}

bool tile_same_places(const AuTilePlaces *a, const AuTilePlaces *b)
{
    if (a == b) return true;
    if (!a || !b || a->extent != b->extent) return false;
    return memcmp(a->place, b->place, sizeof *a->place * (size_t)a->extent) == 0;
}

int32_t tile_axis_registers(const AuTilePlaces *places) { return places->extent / places->lanes; }

int32_t tile_axis_offset(const AuTilePlaces *places, int32_t reg)
{
    int32_t weight = 1, index = 0;
    for (uint32_t i = 0; i < places->digits.count; i++) {
        const AuTileDigit d = places->digits.at[i];
        if (d.unit == TILE_UNIT_REG) {
            index += reg % d.size * weight;
            reg /= d.size;
        }
        weight *= d.size;
    }
    return index;
}

int32_t tile_axis_base(const AuTilePlaces *places, int32_t lane, int32_t warp)
{
    int32_t weight = 1, index = 0;
    for (uint32_t i = 0; i < places->digits.count; i++) {
        const AuTileDigit d = places->digits.at[i];
        if (d.unit == TILE_UNIT_LANE) index += lane / d.stride % d.size * weight;
        if (d.unit == TILE_UNIT_WARP) index += warp / d.stride % d.size * weight;
        weight *= d.size;
    }
    return index;
}

int32_t tile_axis_register(const AuTilePlaces *places, int32_t index)
{
    int32_t number = 0, unit = 1;
    for (uint32_t i = 0; i < places->digits.count; i++) {
        const AuTileDigit d = places->digits.at[i];
        if (d.unit == TILE_UNIT_REG) {
            number += index % d.size * unit;
            unit *= d.size;
        }
        index /= d.size;
    }
    return number;
}

int32_t tile_spread_bit(const AuTilePlaces *from, const AuTilePlaces *to)
{
    int32_t bit = 0;
    for (int32_t i = 0; i < from->extent; i++) bit |= from->place[i] ^ to->place[i];
    if (from->extent != to->extent || bit >= TILE_WARP || (bit & (bit - 1))) return 0;
    for (int32_t i = 0; i < from->extent; i++) {
        const int32_t first = tile_axis_offset(from, tile_axis_register(from, i)),
                      half = tile_axis_base(from, from->place[i] & bit, 0);
        if (to->place[i] & bit || tile_axis_register(to, first + half) != tile_axis_register(to, i))
            return 0;
    }
    return bit;
}

/* Lanes that turn together name rows of the axis that they hold one behind the other: g / n of them a piece each of one row, the next ones of the
 * next. */
const AuTilePlaces *tile_named_places(AuArena *arena, const AuTilePlaces *got, bool free, int32_t n)
{
    enum { ELEMENTS = 64 };
    const AuTileDigits *from = &got->digits;
    const int32_t group = ELEMENTS / n, beside = group / n;
    const AuTileDigit first = from->count ? from->at[0] : (AuTileDigit){0};
    const int32_t whole = free ? group : n;
    if (first.unit != (free ? TILE_UNIT_LANE : TILE_UNIT_REG) || first.stride != 1 ||
        first.size % whole || from->count + 2 > TILE_MAX_DIGITS)
        return NULL;
    AuTileDigits to = {0};
    if (free) {
        to.at[to.count++] = (AuTileDigit){TILE_UNIT_REG, n, 1};
        to.at[to.count++] = (AuTileDigit){TILE_UNIT_LANE, beside, 1};
        to.at[to.count++] = (AuTileDigit){TILE_UNIT_LANE, first.size / group, group};
    } else {
        to.at[to.count++] = (AuTileDigit){TILE_UNIT_LANE, n, beside};
        to.at[to.count++] = (AuTileDigit){TILE_UNIT_REG, first.size / n, 1};
    }
    for (uint32_t i = 1; i < from->count; i++) {
        if (from->at[i].unit == TILE_UNIT_LANE && from->at[i].stride % group) return NULL;
        to.at[to.count++] = from->at[i];
    }
    return tile_places(arena, &to, got->extent);
}

AuTileCost tile_conversion_cost(const AuTilePlaces *const *from, const AuTilePlaces *const *to,
                                uint32_t axes)
{
    AuTileCost cost = TILE_COST_NONE;
    for (uint32_t n = 0; n < axes; n++)
        for (int32_t i = 0; i < from[n]->extent; i++) {
            const int32_t a = from[n]->place[i], b = to[n]->place[i];
            if (a / TILE_WARP != b / TILE_WARP) return TILE_COST_SHARED;
            if (a != b) cost = TILE_COST_SHUFFLE;
        }
    return cost;
}
