/* warps.h - what the kernels of the schedule `warps` share, beyond lanes.h. */
#ifndef AU_SCHEDULE_WARPS_H
#define AU_SCHEDULE_WARPS_H

#include "rows.h"

/* Why the shape does not do for the problem: widths, registers, shared memory; NULL: it does. */
const char *schedule_warps_refusal(AuArena *arena, const AuProblem *p, const AuShape *shape);

/* What follows from the rest of a shape of forward, for a problem that is not refused. */
void warps_complete(const AuProblem *p, AuShape *shape);
void warps_forward_complete(const AuProblem *p, AuShape *shape); /* of whole blocks of queries */

/* The matrix unit of a warp for the operands; NULL: there is none, or one of single numbers only. */
const AuTileAtom *warps_atom(const AuProblem *p);
/* Do sums lie otherwise than operand A of the next product? Then lanes exchange what they hold, or it goes through shared memory. */
bool warps_sums_lie_apart(const AuProblem *p);
bool warps_exchanges(const AuProblem *p);
bool warps_via_shared(const AuProblem *p, const AuShape *s);
/* Rounded sums, as operand A: as they lie, or once lanes have exchanged them. */
const char *warps_as_rows(Lanes *x, const char *name);
/* Of a problem that is not refused, and a shape. */
const char *warps_refusal_of_problem(AuArena *arena, const AuProblem *p);
/* Blocks that are on a processor at once. */
int32_t warps_resident(const AuProblem *p, int32_t shared, int32_t warps);
/* Registers that a lane of kernels for few queries has. */
int32_t warps_lane_registers(const AuProblem *p);
/* Those of a shape of forward. */
int32_t warps_decode_resident(const AuProblem *p, const AuShape *shape);
/* By how much longer a tile takes with so few warps on a processor, which hide less. */
double warps_enough(const AuProblem *p, int32_t warps);
/* Warps of a block with rows of their own, each with those that have the same (schedule_row_sharers) counted once. */
int32_t warps_row_groups(const AuShape *s);
Lanes warps_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out);
void warps_layouts(Lanes *x); /* of kernels of rows and of lists */
void warps_across(Lanes *x, const char *name,
                  int32_t width); /* the layout: a row lies along lanes */
int32_t warps_padded(const AuTileAtom *atom, int32_t width); /* to the depth of a product */
/* The last index of a view of rows of that width: `:`, or a span up to the padded width. */
const char *warps_columns(Lanes *x, int32_t width);
int32_t warps_lanes_across(const AuProblem *p, int32_t width); /* lanes of a row of vectors */
/* A tile in shared memory, swizzled; with several stages they are its first axis. */
/* " swizzle 128 span 64" of rows of so many bytes; "". */
const char *warps_swizzle(Lanes *x, int32_t bytes);
void warps_tile(Lanes *x, AuTileHandle name, const char *rows, int32_t count, const char *columns,
                int32_t width, int32_t stages);
/* Do forward's queries and results pass between memory and registers, past shared memory? */
bool warps_rows_are_direct(const AuProblem *p, const AuShape *s);
/* Are the values of forward's tiles stored with the keys along their rows? */
bool warps_values_are_turned(const AuProblem *p, const AuShape *s);
/* What a row of such a tile takes, as the lowering writes a swizzle in spans of [span] bytes. */
int32_t warps_row_bytes(const AuProblem *p, int32_t span, int32_t columns);
enum { WARPS_ALIGNMENT = 1024 }; /* bytes that beginnings of tiles may cost */
/* Are there asynchronous copies whose lanes choose where what they copy goes? */
bool warps_copy_ahead(const AuProblem *p);
/* Are there some whose lanes write one behind the other (shape: direct), in vectors, and are tiles read as they lie in the tensor? */
bool warps_copy_direct(const AuProblem *p);
bool warps_are_async(const Lanes *x);
/* Copies view [from] to [to], padded with 0; asynchronous where there is that. */
void warps_issue(Lanes *x, AuTileHandle token, AuTileHandle from, AuTileHandle to);
/* Of tile [n] of so many rows, what the warp copies: a span of the tensor's rows, and its index in the tile of that stage. */
typedef struct WarpsShare {
    const char *rows, *to;
} WarpsShare;
WarpsShare warps_share(Lanes *x, const char *n, int32_t rows, const char *stage,
                       const char *limits);
/* The warp's share of tile [n] of keys. [by_weight]: the second operand of a product with weights
 * or their gradients, so that rows before the mask's range must be zeros, too. */
void warps_issue_tile(Lanes *x, AuTileHandle token, LanesRows view, const char *n, AuTileHandle to,
                      const char *stage, bool by_weight);

/* The first index of a tile in stages: the stage `at` that is computed on, or the one that is being filled; "" where there is one. */
const char *warps_stage(const Lanes *x, bool filled);
/* ---- keys (1) and values (2) in 8 bits: where copies go on by themselves they bring codes, `K_codes` and `V_codes`, of which the warp that
 * brought them makes its share of `K` and `V` (warps_codes.c) */
bool warps_has_codes(const AuProblem *p, uint32_t operand);
/* Do warps make elements of codes that have scales along channels, zero points, or half a byte? Else kernels of rows make them before. */
bool warps_makes_elements(const AuProblem *p);
/* Columns of the keys as they lie, of the padded tile. */
const char *warps_key_columns(Lanes *x);
bool warps_has_any_codes(const AuProblem *p);
int32_t warps_code_bytes(const AuProblem *p);                  /* of a key and its values */
bool warps_has_one_tile(const AuProblem *p, const AuShape *s); /* `K` for the numbers of both */
void warps_code_memories(Lanes *x);
const char *warps_brought(Lanes *x, uint32_t operand); /* "K_codes", or "K": what copies write */
void warps_step_of_codes(Lanes *x); /* one tile, instead of the steps of warps_forward.c */
/* warps_operands.c: are codes, where warps have keys of their own, operands of products without a tile of numbers? What a lane then has, in layouts of its own: of
 * queries and sums; before the loop. */
bool warps_codes_are_operands(const AuProblem *p, const AuShape *s);
/* Is there a form of such kernels for few rows (schedule_has_form, AU_FEW_NARROW)? */
bool warps_has_narrow(AuArena *arena, const AuProblem *p);
void warps_code_layouts(Lanes *x);
const char *warps_query_layout(Lanes *x);
const char *warps_sums_layout(Lanes *x);
void warps_codes_begin(Lanes *x);
/* warps_scales.c: before the loop; scales of tokens of that tile, whose keys are on their way. */
void warps_scales_begin(Lanes *x);
void warps_scales_load(Lanes *x, const char *tile);

/* ---- warps_turned.c: tiles whose rows are columns of the tensor */
/* Does nothing copy by itself, so that tiles pass through registers? */
bool warps_passes(const AuProblem *p);
/* Does the machine besides read operand B by vectors along the contracted axis alone, so that some lie turned? */
bool warps_turns(const AuProblem *p);
/* Do tiles that pass come to registers under the work on the tile before? */
bool warps_passes_ahead(const AuProblem *p);
/* The same of forward's keys and values. */
bool warps_forward_passes(const AuProblem *p, const AuShape *s);
/* The layout of a fragment in which so many rows and columns of a tensor pass through registers: vectors of rows come, of columns go. */
void warps_passing_layout(Lanes *x, const char *name, int32_t rows,
                          int32_t columns); /* as they are */
void warps_turned_layout(Lanes *x, const char *name, int32_t rows, int32_t columns);

void warps_pass_tiles(
    Lanes *x); /* what the lowering is asked for where tiles pass through registers */

/* Waits for copies, where they are asynchronous. */
void warps_wait(Lanes *x, const char *tokens);

/* ---- warps_forward.c: the kernel `forward`, after what is before it */
void warps_forward_kernel(Lanes *x);
/* The loop over the list `keys` of tiles, from the first copy on */
void warps_forward_loop(Lanes *x);
/* Of a step: barriers of warps that share tiles; acc += weight V. */
void warps_forward_meet(Lanes *x);
/* Do products take weights for 0 that count, and is there room in f16 for a factor? */
bool warps_weights_get_lost(const AuProblem *p);
void warps_forward_add_values(Lanes *x, const char *weight);

/* ---- warps_decode.c: most queries of a head that its kernels are for; 0: it is nothing for the problem */
int32_t schedule_warps_decode_limit(AuArena *arena, const AuProblem *p);
enum {
    WARPS_TILE_ROWS = SCHEDULE_TILE_ROWS,
    WARPS_DECODE_ROWS = 64,   /* of the heads that share keys, together */
    WARPS_DECODE_QUERIES = 32 /* of a head: of more, blocks of queries reuse keys more often */
};
/* ---- warps_wide.c: the same of values that no warp holds */
int32_t schedule_warps_wide_limit(AuArena *arena, const AuProblem *p);
const char *warps_wide_refusal(AuArena *arena, const AuProblem *p); /* whatever the shape */
/* Of the heads that share keys, for kernels of fewer rows; and how many are still these kernels' where there are groups of warps, which
 * bring keys faster even if a quarter of their 64 rows is anybody's (hopper.md, 2). */
enum { WARPS_WIDE_ROWS = 32, WARPS_WIDE_BELOW_GROUPS = 8 };

/* ---- warps_pages.c: of kernels whose tiles are first_tile .. and end at the key part_end; rows one behind the other where there are no pages */
void warps_pages_begin(Lanes *x); /* reads what the table says of the first tile */
/* Instead of copies of rows that lie one behind the other; false: they do. */
bool warps_pages_issue_keys(Lanes *x, const char *n, const char *stage);
bool warps_pages_issue_values(Lanes *x, const char *n, const char *stage);
const char *warps_pages_key_tokens(Lanes *x); /* of an operand's copies, and of further products' */
const char *warps_pages_value_tokens(Lanes *x);

/* ---- warps_forward_tiles.c */
void warps_forward_layouts(Lanes *x);
/* Where warps_passes_ahead: the warp's share of tile [n] to registers, and from there to shared memory. */
void warps_forward_load_tiles(Lanes *x, const char *n);
void warps_forward_store_tiles(Lanes *x);
void warps_forward_memories(Lanes *x);
/* Channels of the values that the warp sums, all or its part of them. */
typedef struct WarpsChannels {
    int32_t count;
    const char *span;
} WarpsChannels;
WarpsChannels warps_own_channels(Lanes *x);
/* The warp's rows of a tile with queries. */
AuTileHandle warps_own_rows(Lanes *x, AuTileHandle tile, int32_t width, const char *axes);
void warps_forward_issue_rows(Lanes *x); /* queries, once; */
/* Instead, rows of all heads that share keys, whose numbers are the tiles h and i. */
void warps_forward_issue_packed_rows(Lanes *x);
void warps_forward_load_rows(Lanes *x); /* waits, and where they are held in registers loads them */
void warps_forward_issue_keys(Lanes *x, const char *n, const char *stage);
void warps_forward_issue_term(Lanes *x, uint32_t i, const char *n,
                              const char *stage); /* of them, those of one product */
void warps_forward_issue_values(Lanes *x, const char *n, const char *stage);
/* Are queries held in registers, and pass through the tiles of keys on their way there, as the result does on its way out? Then there is no tile
 * of them. */
bool warps_forward_stages_rows(const AuProblem *p, const AuShape *s);
void warps_forward_stage_rows(Lanes *x);
void warps_forward_stage_output(Lanes *x);
const char *warps_forward_key_tokens(Lanes *x);
const char *warps_forward_tokens(Lanes *x); /* of a tile of keys and values */
/* The rows of a tile of keys or values that this warp multiplies, an index. */
const char *warps_forward_keys(Lanes *x);
/* Shape `far`: rows of keys of tile [n], of which the warp has [share]; the values that it multiplies, and what of tile [n] will be read soon. */
/* Rows in a layout: sequences have fewer than blocks do, or none, which is no surface. What follows is for warps whose first own row, [first], is one of the
 * sequence; to be ended. False: for all warps, there is nothing to end. */
bool warps_begin_far(Lanes *x, LanesSide side, const char *first);
AuTileHandle warps_far_rows(Lanes *x, LanesRows view, const char *n, int32_t share, bool by_weight);
AuTileHandle warps_forward_far_values(Lanes *x);
void warps_forward_ask_for(Lanes *x, const char *n);
/* Operands of the score of that term. */
AuTileHandle warps_forward_row(Lanes *x, uint32_t term);
AuTileHandle warps_forward_key(Lanes *x, uint32_t term);

/* warps_join.c: warps that share their rows join what each has of its keys; then outputs and finals go to memory. */
void warps_join_memories(Lanes *x);
int32_t warps_join_bytes(const AuProblem *p, const AuShape *s); /* of shared memory */
/* `part`, the warp's part of the channels, and the states of all rows: joined, but not finished. */
void warps_join_warps(Lanes *x);
void warps_join_results(Lanes *x);

#endif
