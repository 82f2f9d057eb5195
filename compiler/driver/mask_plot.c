/* mask_plot.c - see mask_plot.h. */
#include "mask_plot.h"

#include <inttypes.h>

static uint32_t tiles_of(int64_t length, int64_t tile)
{
    return (uint32_t)((length + tile - 1) / tile);
}

static AuTileKind kind_of(const AuMaskPlot *p, const uint8_t *map, uint32_t row, uint32_t column,
                          uint64_t *pairs)
{
    uint64_t inside = 0, all = 0;
    for (int64_t i = row * p->tile; i < (row + 1) * p->tile && i < p->S; i++)
        for (int64_t j = column * p->tile; j < (column + 1) * p->tile && j < p->T; j++, all++)
            inside += map[i * p->T + j];
    *pairs += inside;
    return inside == all ? AU_TILE_FULL : inside ? AU_TILE_PARTIAL : AU_TILE_EMPTY;
}

bool mask_plot_make(AuArena *arena, const AuTrial *trial, const AuDiags *diags, uint32_t most,
                    AuMaskPlot *out, const char **why)
{
    const int64_t S = trial->shapes[0][2], T = trial->shapes[1][2];
    *out = (AuMaskPlot){.S = S, .T = T, .tile = 1};
    while (tiles_of(S > T ? S : T, out->tile) > most) out->tile *= 2;
    out->rows = tiles_of(S, out->tile);
    out->columns = tiles_of(T, out->tile);
    uint8_t *map = AU_NEW_ARRAY(arena, uint8_t, (size_t)(S * T + 1));
    out->kinds = AU_NEW_ARRAY(arena, uint8_t, (size_t)out->rows * out->columns + 1);
    const AuOracleCall call = trial_call(trial, diags);
    if (!attn_mask_map(trial->attn, &call, 0, 0, map, arena, why)) return false;
    uint64_t pairs = 0;
    for (uint32_t r = 0; r < out->rows; r++)
        for (uint32_t c = 0; c < out->columns; c++) {
            const AuTileKind kind = kind_of(out, map, r, c, &pairs);
            out->kinds[r * out->columns + c] = (uint8_t)kind;
            out->of[kind]++;
        }
    out->pairs = S > 0 && T > 0 ? (double)pairs / (double)(S * T) : 0;
    return true;
}

static double share(const AuMaskPlot *p, AuTileKind kind)
{
    const uint64_t all = (uint64_t)p->rows * p->columns;
    return all ? 100.0 * (double)p->of[kind] / (double)all : 0;
}

static void caption(const AuMaskPlot *p, AuText *out)
{
    au_text_add(out,
                "S = %" PRId64 ", T = %" PRId64 ", tiles of %" PRId64 " x %" PRId64
                ": %.1f %% full, %.1f %% partial, %.1f %% empty and skipped; %.1f %% of the pairs "
                "take part",
                p->S, p->T, p->tile, p->tile, share(p, AU_TILE_FULL), share(p, AU_TILE_PARTIAL),
                share(p, AU_TILE_EMPTY), 100 * p->pairs);
}

void mask_plot_text(const AuMaskPlot *p, AuText *out)
{
    static const char letters[] = {
        [AU_TILE_EMPTY] = '.', [AU_TILE_PARTIAL] = '+', [AU_TILE_FULL] = '#'};
    for (uint32_t r = 0; r < p->rows; r++) {
        au_text_add(out, "    ");
        for (uint32_t c = 0; c < p->columns; c++)
            au_text_add(out, "%c", letters[p->kinds[r * p->columns + c]]);
        au_text_add(out, "\n");
    }
    au_text_add(out, "    # full  + partial  . empty; queries downward, keys to the right\n    ");
    caption(p, out);
    au_text_add(out, "\n");
}

void mask_plot_svg(const AuMaskPlot *p, const char *title, AuText *out)
{
    static const char *const colours[] = {
        [AU_TILE_EMPTY] = "#f2f2f2", [AU_TILE_PARTIAL] = "#8fbcdb", [AU_TILE_FULL] = "#1b6ca8"};
    enum { SIDE = 8, LEFT = 40, TOP = 48 };
    au_text_add(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
                "font-family=\"sans-serif\" font-size=\"12\">\n",
                LEFT + (p->columns * SIDE > 640 ? p->columns * SIDE : 640) + 20,
                TOP + p->rows * SIDE + 20);
    au_text_add(out,
                "<text x=\"%d\" y=\"16\" font-weight=\"bold\">%s</text>\n<text x=\"%d\" y=\"34\">",
                LEFT, title, LEFT);
    caption(p, out);
    au_text_add(out, "</text>\n");
    for (uint32_t r = 0; r < p->rows; r++)
        for (uint32_t c = 0; c < p->columns; c++)
            au_text_add(out, "<rect x=\"%u\" y=\"%u\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
                        LEFT + c * SIDE, TOP + r * SIDE, SIDE - 1, SIDE - 1,
                        colours[p->kinds[r * p->columns + c]]);
    au_text_add(
        out, "<text x=\"%d\" y=\"%u\">keys</text>\n<text x=\"6\" y=\"%d\">queries</text>\n</svg>\n",
        LEFT, TOP + p->rows * SIDE + 14, TOP - 2);
}
