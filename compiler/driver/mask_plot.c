/* mask_plot.c - see mask_plot.h. */
#include "mask_plot.h"

#include <inttypes.h>

/* ---- tiles */

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
    const AuAttn *a = trial->attn;
    const int64_t S = trial->shapes[0][2], T = trial->shapes[1][2];
    *out = (AuMaskPlot){.name = a->name, .S = S, .T = T, .tile = 1};
    out->one_of_many = a->mask.i && (attn_at(a, a->mask)->axes & (AU_AX_B | AU_AX_H));
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

/* ---- words */

static double share(const AuMaskPlot *p, AuTileKind kind)
{
    const uint64_t all = (uint64_t)p->rows * p->columns;
    return all ? 100.0 * (double)p->of[kind] / (double)all : 0;
}

static void which(const AuMaskPlot *p, AuText *out)
{
    au_text_add(out, "S = %" PRId64 ", T = %" PRId64 "; %s", p->S, p->T,
                p->one_of_many ? "head 0 of batch 0, others may differ" : "the same for all heads");
}

static void shares(const AuMaskPlot *p, AuText *out)
{
    au_text_add(out, "%.1f %% full, %.1f %% partial, %.1f %% empty and skipped",
                share(p, AU_TILE_FULL), share(p, AU_TILE_PARTIAL), share(p, AU_TILE_EMPTY));
}

/* ---- letters */

/* The numbers of queries stand in the margin. */
enum { LETTERS = 2, MARGIN = 12, INDENT = 4 };

uint32_t mask_plot_most(uint32_t columns)
{
    const uint32_t least = 16;
    return columns > MARGIN + LETTERS * least ? (columns - MARGIN) / LETTERS : least;
}

/* Tiles from one number at an edge to the next: a power of two that leaves room for numbers, and makes few of them. */
static uint32_t step_of(uint32_t tiles, uint32_t least)
{
    enum { NUMBERS = 8 };
    uint32_t step = 1;
    while (step * NUMBERS < tiles || step < least) step *= 2;
    return step;
}

static void edge_of_keys(const AuMaskPlot *p, AuText *out)
{
    enum { DIGITS = 6 };
    const uint32_t step = step_of(p->columns, DIGITS / LETTERS + 1);
    au_text_add(out, "%*s", MARGIN, "");
    for (uint32_t c = 0; c < p->columns; c += step)
        au_text_add(out, "%-*" PRId64, c + step < p->columns ? (int)step * LETTERS : 1,
                    c * p->tile);
    au_text_add(out, "\n");
}

void mask_plot_text(const AuMaskPlot *p, AuText *out)
{
    static const char *const letters[] = {
        [AU_TILE_EMPTY] = "..", [AU_TILE_PARTIAL] = "++", [AU_TILE_FULL] = "##"};
    const uint32_t step = step_of(p->rows, 1);
    au_text_add(out, "%*s", INDENT, "");
    which(p, out);
    au_text_add(out, "\n%*squery   keys\n", INDENT, "");
    edge_of_keys(p, out);
    for (uint32_t r = 0; r < p->rows; r++) {
        if (r % step == 0)
            au_text_add(out, "%*" PRId64 "   ", MARGIN - 3, r * p->tile);
        else
            au_text_add(out, "%*s", MARGIN, "");
        for (uint32_t c = 0; c < p->columns; c++)
            au_text_add(out, "%s", letters[p->kinds[r * p->columns + c]]);
        au_text_add(out, "\n");
    }
    au_text_add(out,
                "%*s## full  ++ partial  .. empty: tiles of %" PRId64 " x %" PRId64 " pairs\n%*s",
                INDENT, "", p->tile, p->tile, INDENT, "");
    shares(p, out);
    au_text_add(out, "; %.1f %% of the pairs\n", 100 * p->pairs);
}

/* ---- SVG */

enum { LEFT = 64, TOP = 84, SIDE = 640, BELOW = 56, LINE = 18 };

static const char *const colours[] = {
    [AU_TILE_EMPTY] = "#f2f2f2", [AU_TILE_PARTIAL] = "#8fbcdb", [AU_TILE_FULL] = "#1b6ca8"};

static void svg_edges(const AuMaskPlot *p, uint32_t side, AuText *out)
{
    const uint32_t along = step_of(p->columns, 1), down = step_of(p->rows, 1);
    for (uint32_t c = 0; c < p->columns; c += along)
        au_text_add(out, "<text x=\"%u\" y=\"%d\">%" PRId64 "</text>\n", LEFT + c * side, TOP - 6,
                    c * p->tile);
    for (uint32_t r = 0; r < p->rows; r += down)
        au_text_add(out,
                    "<text x=\"%d\" y=\"%u\" text-anchor=\"end\" dominant-baseline=\"hanging\">"
                    "%" PRId64 "</text>\n",
                    LEFT - 6, TOP + r * side, r * p->tile);
    au_text_add(out,
                "<text x=\"%d\" y=\"%d\">keys</text>\n"
                "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">queries</text>\n",
                LEFT, TOP - 6 - LINE, LEFT - 6, TOP - 6);
}

/* Tiles of one kind beside each other are one rectangle. */
static void svg_row(const AuMaskPlot *p, uint32_t row, uint32_t side, AuText *out)
{
    const uint8_t *kinds = &p->kinds[row * p->columns];
    for (uint32_t first = 0, last; first < p->columns; first = last) {
        for (last = first + 1; last < p->columns && kinds[last] == kinds[first];) last++;
        au_text_add(out, "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" fill=\"%s\"/>\n",
                    LEFT + first * side, TOP + row * side, (last - first) * side, side,
                    colours[kinds[first]]);
    }
}

static void svg_legend(const AuMaskPlot *p, uint32_t y, AuText *out)
{
    static const char *const words[] = {
        [AU_TILE_EMPTY] = "empty", [AU_TILE_PARTIAL] = "partial", [AU_TILE_FULL] = "full"};
    enum { BOX = 12, APART = 88 };
    for (int kind = AU_TILE_FULL, x = LEFT; kind >= AU_TILE_EMPTY; kind--, x += APART)
        au_text_add(out,
                    "<rect x=\"%d\" y=\"%u\" width=\"%d\" height=\"%d\" fill=\"%s\" "
                    "stroke=\"#888888\"/>\n<text x=\"%d\" y=\"%u\">%s</text>\n",
                    x, y - BOX + 2, BOX, BOX, colours[kind], x + BOX + 6, y, words[kind]);
    au_text_add(out,
                "<text x=\"%d\" y=\"%u\">tiles of %" PRId64 " x %" PRId64
                " pairs</text>\n<text x=\"%d\" y=\"%u\">",
                LEFT + 3 * APART, y, p->tile, p->tile, LEFT, y + LINE);
    shares(p, out);
    au_text_add(out, "; %.1f %% of the pairs</text>\n", 100 * p->pairs);
}

void mask_plot_svg(const AuMaskPlot *p, AuText *out)
{
    const uint32_t most = p->rows > p->columns ? p->rows : p->columns,
                   side = most && most < SIDE / 4 ? SIDE / most : 4;
    const uint32_t height = p->rows * side;
    au_text_add(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
                "font-family=\"sans-serif\" font-size=\"12\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
                "<text x=\"%d\" y=\"20\" font-weight=\"bold\">%s: its mask</text>\n"
                "<text x=\"%d\" y=\"%d\">",
                LEFT + SIDE + LEFT / 2, TOP + height + BELOW, LEFT, p->name, LEFT, 20 + LINE);
    which(p, out);
    au_text_add(out, "</text>\n");
    svg_edges(p, side, out);
    for (uint32_t r = 0; r < p->rows; r++) svg_row(p, r, side, out);
    svg_legend(p, TOP + height + 24, out);
    au_text_add(out, "</svg>\n");
}
