/* forms.c - random forms of instructions as text: operands, encodings, modifiers. What a machine has not its assembler refuses. */
#include "instruction.h"

#include <stdarg.h>
#include <stdio.h>

uint32_t draw(Random *r, uint32_t below)
{
    r->state = r->state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(r->state >> 33) % below;
}

void say(Form *f, const char *format, ...)
{
    const size_t at = strlen(f->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f->text + at, sizeof f->text - at, format, arguments);
    va_end(arguments);
}

unsigned width_of(char type)
{
    return type == 'q' || type == 'l' || type == 'd' ? 64 : type == 'h' || type == 'w' ? 16 : 32;
}

/* ---- sources */

static void draw_constant(Source *s, char type, Random *r)
{
    static const struct {
        const char *text;
        uint16_t half;
        uint32_t real;
        uint64_t wide;
    } reals[] = {{"0.5", 0x3800, 0x3f000000, 0x3fe0000000000000},
                 {"-0.5", 0xb800, 0xbf000000, 0xbfe0000000000000},
                 {"1.0", 0x3c00, 0x3f800000, 0x3ff0000000000000},
                 {"-2.0", 0xc000, 0xc0000000, 0xc000000000000000},
                 {"4.0", 0x4400, 0x40800000, 0x4010000000000000}};
    static const struct {
        const char *text;
        int32_t value;
    } whole[] = {{"0", 0}, {"1", 1}, {"17", 17}, {"31", 31}, {"64", 64}, {"-1", -1}, {"-16", -16}};
    static const struct {
        const char *text;
        uint32_t value;
    } literals[] = {{"0x12345", 0x12345}, {"0x80000001", 0x80000001}, {"0x3f7ffffe", 0x3f7ffffe}};
    const uint32_t kind = draw(r, 3), n = draw(r, 1000);
    if (kind == 0 && is_real(type)) {
        s->text = reals[n % 5].text;
        s->bits = type == 'h'   ? reals[n % 5].half
                  : type == 'd' ? reals[n % 5].wide
                                : reals[n % 5].real;
    } else if (kind == 1 && width_of(type) == 32) {
        s->text = literals[n % 3].text;
        s->bits = literals[n % 3].value;
    } else {
        s->text = whole[n % 7].text;
        s->bits = (uint64_t)(int64_t)whole[n % 7].value;
    }
}

/* [kinds]: letters of Source.kind; what comes first comes more often. */
void draw_source(Form *f, unsigned n, char type, Random *r, const char *kinds)
{
    Source *s = &f->source[n];
    const uint32_t count = (uint32_t)strlen(kinds), pairs = width_of(type) == 64 ? 2 : 0;
    memset(s, 0, sizeof *s);
    s->kind = draw(r, 2) ? *kinds : kinds[draw(r, count)];
    if (s->kind == 'c') draw_constant(s, type, r);
    const uint32_t of = s->kind == 's' ? SCALARS : VECTORS;
    s->reg = (uint8_t)(pairs ? 2 * draw(r, of / 2) : draw(r, of));
}

void say_source(Form *f, unsigned n, char type, bool halves)
{
    const Source *s = &f->source[n];
    const unsigned first = s->reg + (unsigned)(s->kind == 's' ? FIRST_S : FIRST_V);
    say(f, "%s%s", s->neg ? "-" : "", s->abs ? "|" : "");
    if (s->kind == 'c')
        say(f, "%s", s->text);
    else if (width_of(type) == 64)
        say(f, "%c[%u:%u]", s->kind, first, first + 1);
    else
        say(f, "%c%u%s", s->kind, first, !halves || s->kind == 's' ? "" : s->high ? ".h" : ".l");
    say(f, "%s", s->abs ? "|" : "");
}

uint8_t draw_mask(Random *r) { return draw(r, 2) ? TO_VCC : (uint8_t)(2 * draw(r, SCALARS / 2)); }

void say_mask(Form *f, uint8_t place)
{
    const bool wide = f->machine->lanes == 64;
    const unsigned first = FIRST_S + place;
    if (place == TO_VCC)
        say(f, "%s", wide ? "vcc" : "vcc_lo");
    else if (wide)
        say(f, "s[%u:%u]", first, first + 1);
    else
        say(f, "s%u", first);
}

/* ---- modifiers of lanes */

static void draw_dpp(Form *f, Random *r)
{
    static const char old[] = "qlromhfw", new[] = "qlromhsx";
    const bool rdna = f->machine->generation > GFX9;
    f->dpp = (rdna ? new : old)[draw(r, 8)];
    f->dpp_argument[0] = (uint8_t)(1 + draw(r, 15));
    if (f->dpp == 'q')
        for (int n = 0; n < 4; n++) f->dpp_argument[n] = (uint8_t)draw(r, 4);
    f->rows = draw(r, 2) ? 15 : (uint8_t)draw(r, 16);
    f->banks = draw(r, 2) ? 15 : (uint8_t)draw(r, 16);
    f->zeros = draw(r, 2);
    f->fetches = rdna && draw(r, 4) == 0;
}

static void say_dpp(Form *f)
{
    const unsigned by = f->dpp_argument[0];
    switch (f->dpp) {
    case 'q':
        say(f, " quad_perm:[%u,%u,%u,%u]", by, (unsigned)f->dpp_argument[1],
            (unsigned)f->dpp_argument[2], (unsigned)f->dpp_argument[3]);
        break;
    case 'l': say(f, " row_shl:%u", by); break;
    case 'r': say(f, " row_shr:%u", by); break;
    case 'o': say(f, " row_ror:%u", by); break;
    case 'm': say(f, " row_mirror"); break;
    case 'h': say(f, " row_half_mirror"); break;
    case 's': say(f, " row_share:%u", by); break;
    case 'x': say(f, " row_xmask:%u", by); break;
    case 'f': say(f, " row_bcast:15"); break;
    default: say(f, " row_bcast:31");
    }
    say(f, " row_mask:0x%x bank_mask:0x%x%s%s", (unsigned)f->rows, (unsigned)f->banks,
        f->zeros ? " bound_ctrl:1" : "", f->fetches ? " fi:1" : "");
}

static const char *const parts[] = {"DWORD",  "BYTE_0", "BYTE_1", "BYTE_2",
                                    "BYTE_3", "WORD_0", "WORD_1"};

static void draw_sdwa(Form *f, const char *types, Random *r)
{
    f->sdwa = true;
    f->select = (uint8_t)(width_of(types[0]) == 16               ? 5 + draw(r, 2)
                          : is_real(types[0]) || types[0] == 'P' ? 0
                                                                 : draw(r, 7));
    f->preserve = f->select && draw(r, 2);
    for (unsigned n = 0; n < 2 && types[n + 1]; n++)
        f->source[n].select = (uint8_t)(width_of(types[n + 1]) == 16 ? 5 + draw(r, 2) : draw(r, 7));
}

static void say_sdwa(Form *f, unsigned sources)
{
    say(f, " dst_sel:%s dst_unused:%s", parts[f->select],
        f->preserve ? "UNUSED_PRESERVE" : "UNUSED_PAD");
    for (unsigned n = 0; n < sources && n < 2; n++)
        say(f, " src%u_sel:%s", n, parts[f->source[n].select]);
}

/* ---- forms */

enum { SHORT, LONG, SDWA, DPP, LONG_DPP };

static int draw_encoding(const Form *f, const char *types, unsigned sources, Random *r)
{
    bool wide = false;
    for (const char *at = types; *at; at++) wide |= width_of(*at) == 64;
    if (f->meaning->more == 'K' || f->meaning->more == 'M') return SHORT;
    switch (draw(r, 8)) {
    case 0: return sources == 3 ? LONG : SHORT;
    case 1:
    case 2:
        return f->machine->sdwa && !wide && sources < 3 && f->meaning->more != 'A' ? SDWA : LONG;
    case 3:
    case 4: return wide ? LONG : sources == 3 ? LONG_DPP : DPP;
    case 5: return wide || f->machine->generation < GFX11 ? LONG : LONG_DPP;
    default: return LONG;
    }
}

static void draw_modifiers(Form *f, const char *types, unsigned sources, int encoding, Random *r)
{
    bool reals = is_real(types[0]) || types[0] == 'P';
    for (unsigned n = 0; n < sources; n++) {
        Source *s = &f->source[n];
        const bool part = s->select && (types[n + 1] != 'h' || s->select < 5);
        if (!is_real(types[n + 1]) || s->kind == 'c' || part || draw(r, 2)) continue;
        s->neg = draw(r, 2);
        s->abs = draw(r, 2);
    }
    reals = reals && is_real(types[0]);
    f->clamp = reals && encoding != DPP && draw(r, 4) == 0;
    f->omod =
        reals && (encoding == LONG || encoding == LONG_DPP) && types[0] == 'f' && draw(r, 4) == 0
            ? (uint8_t)(1 + draw(r, 3))
            : 0;
}

/* Halves of registers: by op_sel, or by the register's name on machines that have such (true16). */
static bool draw_halves(Form *f, const char *types, unsigned sources, int encoding, Random *r)
{
    const bool named = f->machine->generation == GFX11 && draw(r, 4) != 0;
    if (!named && encoding != LONG) return false;
    if (!named && draw(r, 2)) return false;
    for (unsigned n = 0; n < sources; n++)
        f->source[n].high = width_of(types[n + 1]) == 16 && f->source[n].kind == 'v' && draw(r, 2);
    f->high = width_of(types[0]) == 16 && draw(r, 2);
    return named;
}

static void say_selected(Form *f, unsigned sources)
{
    bool any = f->high;
    for (unsigned n = 0; n < sources; n++) any |= f->source[n].high;
    if (!any) return;
    say(f, " op_sel:[");
    for (unsigned n = 0; n < sources; n++) say(f, "%d,", f->source[n].high);
    say(f, "%d]", f->high);
}

static bool has_halves(const char *types)
{
    for (const char *at = types; *at; at++)
        if (width_of(*at) == 16) return true;
    return false;
}

void make_lanes(Form *f, const char *name, Random *r)
{
    static const char *const endings[] = {"", "_e64", "_sdwa", "_dpp", "_e64_dpp"},
                             *const omods[] = {"", " mul:2", " mul:4", " div:2"};
    static const char *const plain[] = {"", "", "_sdwa", "_dpp", "_e64_dpp"};
    const char *types = f->meaning->types;
    const unsigned all = (unsigned)strlen(types) - 1, sources = f->meaning->more == 'A' ? 2 : all;
    const int encoding = draw_encoding(f, types, sources, r);
    const bool lanes_move = encoding == DPP || encoding == LONG_DPP;
    f->to = (uint8_t)(width_of(types[0]) == 64 ? 2 * draw(r, VECTORS / 2) : draw(r, VECTORS));
    const bool adds = f->meaning->more == 'A';
    f->source[2].kind = 'c';
    for (unsigned n = 0; n < sources; n++)
        draw_source(f, n, types[n + 1], r,
                    n == 0 && lanes_move         ? "v"
                    : encoding == SHORT && n > 0 ? "v"
                    : encoding == SDWA           ? "vvs"
                    : lanes_move && adds ? "vs" /* its constants LLVM 22 disassembles wrongly */
                                         : "vsc");
    if (f->meaning->more == 'K' || f->meaning->more == 'M')
        f->source[f->meaning->more == 'K' ? 2 : 1] =
            (Source){.kind = 'c', .text = "0x3eabcdef", .bits = 0x3eabcdef};
    if (encoding == SDWA) draw_sdwa(f, types, r);
    if (lanes_move) draw_dpp(f, r);
    if (encoding != SHORT) draw_modifiers(f, types, sources, encoding, r);
    const bool named =
        has_halves(types) && encoding != SDWA && draw_halves(f, types, sources, encoding, r);
    say(f, "%s%s ", name, (sources == 3 ? plain : endings)[encoding]);
    const unsigned to = FIRST_V + f->to;
    if (width_of(types[0]) == 64)
        say(f, "v[%u:%u]", to, to + 1);
    else
        say(f, "v%u%s", to, !named || width_of(types[0]) != 16 ? "" : f->high ? ".h" : ".l");
    for (unsigned n = 0; n < sources; n++) {
        say(f, ", ");
        say_source(f, n, types[n + 1], named && width_of(types[n + 1]) == 16);
    }
    if (!named && encoding == LONG) say_selected(f, sources);
    say(f, "%s%s", f->clamp ? " clamp" : "", omods[f->omod]);
    if (encoding == SDWA) say_sdwa(f, sources);
    if (lanes_move) say_dpp(f);
}
