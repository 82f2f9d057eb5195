/* warps_pieces.c - dQ in the kernel of keys (warps_backward.c): dS K of a tile of queries, of which each warp makes pieces, one a turn, and
 * adds them to sums in memory; a tile late where a warp has its keys for itself, from the other of two buffers of dS. */
#include "key_layout.h"
#include "lanes_back.h"

enum { PIECE_REGISTERS = 48 }; /* of a piece of dQ, beside the accumulators of dK and dV */

const char *warps_own_keys(Lanes *x)
{
    const int32_t parts = x->shape->column_parts;
    return parts > 1 ? tile_text(x->t, "self / %d * %d", parts, x->rows)
                     : tile_text(x->t, "self * %d", x->rows);
}

/* Is dQ made a tile later, under the products of that? Its dS lies in another buffer then, so one barrier a tile does. */
bool warps_dq_is_late(const Lanes *x)
{
    return x->with_dq && x->shape->column_parts == 1 && x->shape->stages > 1 &&
           !x->p->hooks->dot_count;
}

/* In as few turns as the registers allow; as many warps as can be; and of those ways the one that reads least. */
WarpsPieces warps_dq_pieces(const Lanes *x, int32_t width)
{
    const int32_t m = x->shape->query_tile, warps = x->shape->executors;
    WarpsPieces best = {.count = 0};
    for (int32_t turns = 1; !best.count; turns++)
        for (int32_t r = x->atom->m; r <= m; r += x->atom->m)
            for (int32_t c = x->atom->n; c <= width; c += x->atom->n) {
                const int32_t count = m / r * (width / c), registers = r * c / x->p->caps->lanes;
                const bool fits = count <= turns * warps && registers <= PIECE_REGISTERS;
                if (m % r || width % c || !fits || count < best.count) continue;
                if (count == best.count && r + c >= best.rows + best.channels) continue;
                best = (WarpsPieces){r, c, width / c, count};
            }
    return best;
}

bool warps_begin_piece(Lanes *x, const WarpsPieces *p, int32_t turn, const char **row,
                       const char **channel)
{
    const int32_t before = turn * x->shape->executors, rest = p->count - before;
    const char *number = before ? tile_text(x->t, "(self + %d)", before) : "self";
    *row = tile_text(x->t, "%s / %d * %d", number, p->beside, p->rows);
    *channel = tile_text(x->t, "%s %% %d * %d", number, p->beside, p->channels);
    const bool some_idle = rest < x->shape->executors;
    if (some_idle) tile_if(x->t, "self < %d", rest);
    return some_idle;
}

int32_t warps_dq_turns(const Lanes *x, const WarpsPieces *p)
{
    return (p->count + x->shape->executors - 1) / x->shape->executors;
}

/* They are read where they lie, a number at a time: that is once a block. */
void warps_hold_turned_keys(Lanes *x)
{
    const WarpsPieces p = warps_dq_pieces(x, warps_keys_width(x));
    const char *row, *channel;
    tile_sync(x->t, "all");
    const bool some_idle = warps_begin_piece(x, &p, 0, &row, &channel);
    tile_load(x->t, "turned_keys", "K[:, %s +: %d] @ %s.B", channel, p.channels, x->atom->name);
    if (some_idle) tile_end(x->t);
}

/* Registers of a lane for so much of an operand. */
static int32_t registers_of(const Lanes *x, AuTileUse use, int32_t rows, int32_t columns)
{
    const AuTilePlaces *down = tile_atom_places(x->arena, x->atom, use, 0, rows),
                       *across = tile_atom_places(x->arena, x->atom, use, 1, columns);
    if (!down || !across) return 0;
    return tile_axis_registers(down) * tile_axis_registers(across) *
           tile_elem(x->p->operand)->bytes / (int32_t)sizeof(float);
}

int32_t warps_held_turned_keys(const Lanes *x, const WarpsPieces *p)
{
    return warps_turned_keys_are_held(x) ? registers_of(x, TILE_B, x->block, p->channels) : 0;
}

/* Where shapes are small since room is. Operands that lie in both halves of a wave take twice as many registers: where pairs come in parts (width 64 on
 * gfx1100: 17 spilled, none paced), or a number at a time (160: 169 and none), but not at width 32, which has room and more waits when paced. */
bool warps_is_paced(const Lanes *x)
{
    return warps_is_cramped(x) ||
           (warps_exchanges(x->p) && (x->shape->query_parts > 1 || !warps_back_turns(x)));
}

/* With more LLVM was seen to spill (docs/dev/performance-notes.md). */
int32_t warps_paced(const Lanes *x)
{
    enum { AHEAD = 32 }; /* registers */
    const AuTileAtom *a = x->atom;
    const int32_t of_one =
        registers_of(x, TILE_A, a->m, a->k) + registers_of(x, TILE_B, a->k, a->n);
    return of_one && of_one < AHEAD ? AHEAD / of_one : 1;
}

static const char *turned_keys(Lanes *x, const WarpsPieces *p, const char *channel)
{
    return warps_turned_keys_are_held(x) ? "turned_keys"
                                         : tile_text(x->t, "KT[%s +: %d, :]", channel, p->channels);
}

void warps_query_gradients(Lanes *x)
{
    AuTileBuild *t = x->t;
    const WarpsPieces p = warps_dq_pieces(x, warps_padded(x->atom, x->p->d));
    for (int32_t turn = 0; turn < warps_dq_turns(x, &p); turn++) {
        const char *row, *channel;
        const bool some_idle = warps_begin_piece(x, &p, turn, &row, &channel);
        if (warps_back_turns(x))
            tile_product(t, "dq", x->atom, TILE_START,
                         tile_text(t, "dST[%s +: %d, :]", row, p.rows),
                         turned_keys(x, &p, channel));
        else
            tile_product(t, "dq", x->atom, TILE_START,
                         tile_text(t, "dS[%s:, %s +: %d]", warps_dq_is_late(x) ? "1 - at, " : "",
                                   row, p.rows),
                         tile_text(t, "K[:, %s +: %d]", channel, p.channels));
        const bool late = warps_dq_is_late(x);
        const char *rows = tile_text(t, "%s * %d + %s +: %d", late ? "late_m" : "m",
                                     x->shape->query_tile, row, p.rows);
        tile_atomic_add(t, "dq -> dq_sum[%s, %s +: %d]",
                        back_sum_place(x, late ? "late_h" : "h", rows), channel, p.channels);
        if (some_idle) tile_end(t);
    }
    warps_dot_query_gradients(x);
}

/* Before the first tile there is none that is late: its dS is 0, its place any. */
void warps_begin_late(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_frag(t, "nothing", "f32[kv:%d, q:%d] @ %s.C = 0.0", x->rows, x->shape->query_tile,
              x->atom->name);
    tile_store(t, "%s(nothing) -> dS[1 - at, %s +: %d, :]", x->held, warps_own_keys(x), x->rows);
    tile_set(t, "late_m", "0");
    tile_set(t, "late_h", x->heads_apart ? "h" : "hk * G");
}

/* The last tile, behind a barrier. */
void warps_end_late(Lanes *x)
{
    tile_if(x->t, "%s > 0", lanes_query_end(x));
    warps_query_gradients(x);
    tile_end(x->t);
    tile_sync(x->t, "all"); /* before K holds gradients */
}
