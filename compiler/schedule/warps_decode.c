/* warps_decode.c - forward for a few queries on the matrix units of warps (mma.sync), at the speed of memory.
 *
 * A block has a part of the keys of one head, and query rows of all heads that share it, packed into one tile: row r is query r / G of
 * the head's G query heads' number r % G. Keys and values come once a tile of rows. The block's warps share the rows, and each has keys
 * of its own of a tile, as in the forward kernel for few queries (warps_forward.c), so that nobody waits in the loop; warps_join.c joins
 * the warps. What a block then has of each row, sums and states, goes to the workspace; a second kernel joins a row's parts in their
 * order and finishes it, so that results depend neither on who was first nor on which processor was free. Rows of one part are ended at once.
 *
 * There are as many parts as keep the machine's processors busy once; the keys of each are a run of tiles of the mask's range. Of an online function
 * whose parts nobody can join a block is one warp, which has all keys of its rows.
 *
 * Kernels: `q_rows`, `k_rows`, `v_rows` (rows that the script changes), `members` and `shares` (lists, key_groups.c and
 * warps_shares.c), `prefix` (keys that sequences share, warps_prefix.c), `keys`, `forward` (joins). */
#include "key_layout.h"
#include "key_storage.h"
#include "warps_decode.h"

enum { TWO = 2 }; /* tiles of rows of a tall block; blocks of the further forms a processor */
enum {
    SHARING = 5
}; /* trips to memory: 128 keys of 64 sequences do not pay, 512 do (docs/performance.md, Prefixes) */

static void fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_declare_scores(
        x, tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, lanes_keys(x), x->atom->name));
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s = 0.0", x->rows, x->p->e, warps_sums_layout(x));
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    warps_name_rows(x, warps_own_first_row(x));
}

const char *warps_own_first_row(Lanes *x)
{
    const char *first = tile_text(x->t, "mb * %d", x->block);
    return x->block == x->rows ? first : tile_text(x->t, "%s + self * %d", first, x->rows);
}

/* The executor's rows, in tensors of parts. */
static const char *rows_of_part(Lanes *x)
{
    return tile_text(x->t, "[%s, %s +: %d", warps_part_place(x), warps_own_first_row(x), x->rows);
}

static void store_states(Lanes *x)
{
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(x->t, "state%u -> part_state%u%s] clip", n, n, rows_of_part(x));
}

void warps_store_cuts(Lanes *x, int32_t width)
{
    for (int32_t n = 0; n < x->p->e / width; n++)
        tile_store(x->t, "acc%d -> part_acc%s, %d +: %d] clip", n, rows_of_part(x), n * width,
                   width);
    store_states(x);
}

/* What rows of one part become, of whom nobody is left to join anything. */
static void store_rows(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool joined = x->shape->keys_apart;
    const int32_t share = x->p->e / x->shape->executors;
    const char *place = lanes_row_place(x, LANES_QUERIES, "h", "i"),
               *when = tile_text(t, "i < %s", lanes_query_end(x)),
               *columns = joined ? tile_text(t, "self * %d +: %d", share, share) : ":";
    lanes_end(x, joined ? "part" : "acc");
    tile_store(t, "%s(out) -> o[%s, %s] as [q, e] when %s", x->operand, place, columns, when);
    if (joined) tile_if(t, "self == 0");
    lanes_store_finals_when(x, place, when);
    if (joined) tile_end(t);
}

void warps_store_part(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool joined = x->shape->keys_apart;
    const int32_t share = x->p->e / x->shape->executors;
    const char *rows = rows_of_part(x);
    if (joined) warps_join_warps(x);
    if (warps_ends_all_rows(x)) {
        store_rows(x);
        return;
    }
    if (x->ends_rows) {
        tile_if(t, "%s", warps_is_whole_part(x));
        store_rows(x);
        tile_else(t);
    }
    if (joined)
        tile_store(t, "part -> part_acc%s, self * %d +: %d] clip", rows, share, share);
    else
        tile_store(t, "acc -> part_acc%s, :] clip", rows);
    if (joined) tile_if(t, "self == 0");
    store_states(x);
    if (joined) tile_end(t);
    if (x->ends_rows) tile_end(t);
}

static void part(Lanes *x)
{
    fragments(x);
    lanes_begin_states(x);
    warps_pages_begin(x);
    x->rows_follow = !lanes_has_pages(x); /* of pages the table is waited for first */
    if (!x->rows_follow) warps_forward_issue_packed_rows(x);
    warps_forward_loop(x);
    lanes_scale_values(x);
    warps_store_part(x);
}

static void roles(Lanes *x) { warps_core_role(x, part); }

void warps_decode_lists(Lanes *x)
{
    warps_prefix_lists(x);
    if (x->p->balanced) warps_share_kernel(x);
}

void warps_decode_kernels(Lanes *x)
{
    warps_prefix_kernel(x);
    warps_kernels_behind_lists(x, warps_forward_memories, roles);
}

static void kernels(Lanes *x)
{
    warps_decode_lists(x);
    warps_decode_kernels(x);
}

/* Where rows of one part are not left to the kernel that joins: but for those of lengths of their own, which have zeros behind them, and where an
 * out_mod looks at channels of other warps. */
bool warps_may_end_rows(const AuProblem *p)
{
    const bool joins = p->invariant && schedule_joins_parts(p); /* as many as there are keys */
    return !joins && !p->hooks->has_out_mod && !p->attn->queries.layout;
}

AuSchedule *schedule_warps_decode(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                  const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "warps_decode", shape,
                                   schedule_warps_refusal(arena, p, shape));
    if (!out) return NULL;
    out->overlaps = true;
    Lanes x = warps_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    warps_layouts(&x);
    warps_code_layouts(&x);
    x.resident = warps_decode_resident(p, &out->shape);
    warps_prefix_begin(&x);
    x.ends_rows = warps_may_end_rows(p);
    return lanes_forward_built(&x, diags, kernels);
}

/* ---- shapes */

static const char *refusal(AuArena *arena, const AuProblem *p)
{
    if (p->queries != AU_DECODE_QUERIES) return "many queries";
    if (p->e % p->caps->lanes)
        return au_format(arena, "values of %d channels, no multiple of %d", p->e, p->caps->lanes);
    return warps_packed_refusal(arena, p);
}

/* Are sums scaled where a maximum has grown alone? Measured (an H200, us of 64 rows over 8192 keys): with scales of tokens in pages i8 286 and i4 219 become
 * 275 and 209; dense i8 268 becomes 275, and with scales of heads nothing changes. */
static bool scales_seldom(const AuProblem *p)
{
    const AuStorage *stored = p->attn->storage;
    return p->form == AU_FEW_NARROW && p->attn->keys.layout == AU_LAYOUT_PAGED &&
           (stored[0].by_token || stored[1].by_token);
}

const char *schedule_warps_decode_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = refusal(arena, p);
    if (why) return why;
    s->rows = warps_atom(p)->m * (s->row_tiles ? s->row_tiles : 1);
    s->keys_apart = s->executors > 1;
    if (s->keys_apart && !schedule_joins_parts(p))
        return "several warps, of which nobody could join what each has";
    warps_complete(p, s);
    s->split_segments = !s->one_loop;
    s->grown = p->hooks->has_scale && scales_seldom(p);
    return schedule_warps_refusal(arena, p, s);
}

static const char *fit_of_form(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = schedule_warps_decode_fit(arena, p, s);
    if (why || !p->form) return why;
    if (s->executors < TWO) return "one warp, for which nobody hides what it waits for";
    return warps_decode_resident(p, s) < TWO ? "a processor has room for one block" : NULL;
}

/* The first that fits: four warps, which hide what one waits for. */
bool schedule_warps_decode_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    static const int32_t warps[] = {4, 2, 1}, keys[] = {32, 16}, stages[] = {2, 1};
    *why = refusal(arena, p);
    if (*why) return false;
    for (uint32_t n = 0; n < 3 * 2 * 2 * 2; n++) {
        AuShape s = {.executors = warps[n / 8],
                     .key_tile = keys[n / 4 % 2] * warps[n / 8],
                     .stages = stages[n / 2 % 2],
                     .query_in_registers = n % 2 == 0,
                     .sharing = p->attn->keys.has_groups ? SHARING : 0,
                     .row_tiles = p->form == AU_FEW_TALL ? TWO : 0,
                     .part_start = warps_part_start(p)};
        if (s.executors > 1 && !schedule_joins_parts(p))
            continue; /* what warps have of keys of their own */
        *why = fit_of_form(arena, p, &s);
        if (*why) continue;
        *out = s;
        return true;
    }
    return false;
}

int32_t schedule_warps_decode_limit(AuArena *arena, const AuProblem *p)
{
    AuShape shape;
    const char *why;
    return schedule_warps_decode_shape(arena, p, &shape, &why) ? WARPS_DECODE_QUERIES : 0;
}
