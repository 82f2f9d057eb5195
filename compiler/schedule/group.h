/* group.h - what the files of the schedule `group` share, beyond warps.h. */
#ifndef AU_SCHEDULE_GROUP_H
#define AU_SCHEDULE_GROUP_H

#include "warps.h"

enum { GROUP_ROWS = 64 }; /* query rows of a group of warps: those of one instruction */

/* The matrix unit of a group of warps for the operands; NULL: there is none. */
const AuTileAtom *group_atom(const AuProblem *p);
/* What follows from the rest of a shape. */
void group_complete(const AuProblem *p, AuShape *shape);
/* Why the shape does not do for the problem: what it has no form for, widths, registers, shared memory; NULL: it does. */
const char *schedule_group_refusal(AuArena *arena, const AuProblem *p, const AuShape *shape);
/* The first that fits, by rule, of so many groups, in that order. */
bool group_shape_of(AuArena *arena, const AuProblem *p, const int32_t *groups, int32_t count,
                    AuShape *out, const char **why);
/* Registers of a lane that all groups of a block have when it begins: of so many groups; of so many consumers. */
int32_t group_registers_of(const AuProblem *p, int32_t groups);
int32_t group_registers_at_entry(const AuProblem *p, const AuShape *s);
/* What consumers and the group of single warps have, if the shape does not say. */
void group_set_registers(const AuProblem *p, AuShape *s);
/* What of the problem no kernel of groups has, and what of a lane's registers and the block's; NULL: it does. */
const char *group_refusal_of_units(AuArena *arena, const AuProblem *p);
const char *group_refusal_of_problem(AuArena *arena, const AuProblem *p);
bool group_has_room(const AuShape *s, int32_t fragments); /* beside what else a consumer keeps */
const char *group_refusal_of_registers(AuArena *arena, const AuProblem *p, const AuShape *s,
                                       int32_t fragments);
const char *group_refusal_of_shared_memory(AuArena *arena, const AuProblem *p, int32_t bytes);
/* Bytes of rows of [width] elements that units move and multiply side by side. */
int32_t group_swizzle(const AuProblem *p, int32_t width);

/* group_forward.c: its kernel `forward`. What others have of it: its fragments but for those of rows; queries that are waited for, and held; all tiles of
 * the list `keys`, from the last on. */
void group_forward_kernel(Lanes *x);
void group_forward_fragments(Lanes *x);
void group_forward_hold(Lanes *x);
void group_forward_tiles(Lanes *x);
/* Rows of all heads that share keys: do groups take them from the tensor, without a tile? A role that brings them has a division a row. */
bool group_holds_packed(const AuProblem *p, const AuShape *s);

/* ---- group_parts.c */
/* What multiplies is the unit of a group. */
Lanes group_begin(Lanes of_warps);
/* In each role: what a block does that has rows. */
void group_begin_rows(Lanes *x);
void group_end_rows(Lanes *x);
/* Fills the pipeline `queries`: rows of all heads that share keys, of which row r is query r / G of head r % G; so many channels of them. */
void group_bring_packed(Lanes *x, const char *channels);
const char *group_own_rows(Lanes *x,
                           const char *tile); /* the group's part of a tile of the block */
/* [rows] of the group's queries, a fragment, to the tensor [to], by a box: through [tile], a view that nobody else reads any more. */
void group_store_rows(Lanes *x, const char *rows, const char *tile, const char *to);
void group_issue(Lanes *x, AuTileHandle from, AuTileHandle to); /* a copy, padded with 0 */
/* The span "n * 64 +: 64" of the sequence's rows as it lies in memory. No limits: boxes, which end where the sequence does; some row of it must
 * be there (kernel-ir.md, 10.4). */
const char *group_span(Lanes *x, LanesSide side, const char *rows, const char *limits);
/* The span of the block's rows, of which a block without rows has one of another sequence, and nobody asks for it. Lets `first`, after the grid. */
void group_let_first(Lanes *x);
const char *group_first_span(Lanes *x);
/* A tile of [rows] queries ("q") or keys ("k"), of [all] there are; [number] is its number. */
typedef struct GroupTile {
    const char *number;
    int32_t rows;
    const char *of;
    const char *
        all; /* backward: how many rows there are, where ends of ranges within dense rows are lanes', too (fewer registers than a third
                           kind of copy); NULL: such ends are boxes' */
    bool
        may_be_unseen; /* no row of it is within the range, or there: zeros, by lanes, since a box that is cut has a row */
} GroupTile;
/* How its rows are limited, " from a to b" or "": by lanes at both ends of the mask's range, else at its end (a box's). */
const char *group_limits(Lanes *x, const GroupTile *tile, bool by_lanes);
/* Its copies: by lanes where the range begins in or behind the tile or ends before it, else by boxes, which end where the range does. */
typedef void GroupIssue(Lanes *x, const GroupTile *tile, bool by_lanes);
void group_issue_within(Lanes *x, const GroupTile *tile, GroupIssue *issue);
/* The same of a loop over a list, of which the range only begins in tiles of the segment `partial`. */
void group_issue_of_list(Lanes *x, const GroupTile *tile, GroupIssue *issue);

/* ---- group_pages.c: tiles of keys that lie in pages, a box for each 16 rows */
void group_pages_begin(Lanes *x); /* what the role that brings them knows from the start */
/* In the loop, before its copies: where the first key of the tile lies, the entry of the table and the row of its page. */
void group_pages_find(Lanes *x, const GroupTile *tile);
/* Rows of [tile], of such a view, to [to]: "y.K", whose columns are axis [axis]. */
void group_pages_issue(Lanes *x, const GroupTile *tile, LanesRows view, const char *to,
                       const char *axis, bool by_lanes);
/* The same in two steps: where all boxes of the tile lie; sends them. */
void group_pages_find_all(Lanes *x, const GroupTile *tile);
void group_pages_send(Lanes *x, const GroupTile *tile, LanesRows view, const char *to,
                      const char *axis, bool by_lanes);
/* With turns: who may start the products of a tile is one group after the other. Group 0 begins, and takes back the turn that is left over. */
void group_take_turn(Lanes *x);
void group_pass_turn(Lanes *x);
void group_first_turn(Lanes *x);
void group_last_turn(Lanes *x);

/* Do pairs read tensors, or hold more than scores (forward)? Rules leave registers for that; rows of the compiler's table were measured without. */
bool group_pairs_are_heavy(const AuProblem *p);
/* For who ranks shapes (rank.c): fills in registers and what else follows. NULL, or why the shape is none to choose, as the rules see it, too: beside what
 * does not do what was measured to spill. */
const char *group_forward_candidate(AuArena *arena, const AuProblem *p, AuShape *s);
const char *group_backward_candidate(AuArena *arena, const AuProblem *p, AuShape *s);
const char *group_back_wide_candidate(AuArena *arena, const AuProblem *p, AuShape *s);

/* Backward (group_back_shape.c): what follows from the rest of a shape; why it does not do. */
void group_back_complete(const AuProblem *p, AuShape *shape);
const char *schedule_group_back_refusal(AuArena *arena, const AuProblem *p, const AuShape *s);
/* Groups side by side along dQ's channels; the others share its rows. 0: they do not divide them. */
int32_t group_back_columns(const AuShape *s);
/* Do pairs read inputs by their query? Their gradients go to memory from each tile. */
bool group_back_adds_pairs(const AuProblem *p);
/* Are numbers of pairs for inputs kept while products are under way, and summed behind them? */
bool group_back_sums_late(const AuProblem *p, const AuShape *s);
int32_t group_back_values(const AuProblem *p); /* that a pair has at once, of gradients of inputs */
/* The swizzle of keys of which a group's part has so many bytes a row, so that units may begin where it does. */
int32_t group_back_swizzle(int32_t bytes);
/* What of the problem no backward kernel of groups has; NULL: it does. */
const char *group_back_refusal_of_problem(AuArena *arena, const AuProblem *p);
const char *group_back_refusal_of_dq(AuArena *arena, const AuProblem *p, const AuShape *s);
/* What kernels of groups have and rules do not choose, since it was measured to be slower; NULL: nothing. */
const char *group_back_slower(const AuProblem *p);
/* Why heads do not stand in sections; NULL: they do, or none are asked for. */
const char *group_back_refusal_of_sections(AuArena *arena, const AuProblem *p, const AuShape *s);
/* Single warps get more where consumers' fragments leave room. */
void group_back_give_registers(int32_t fragments, AuShape *s);
/* Registers of a lane for distances of so many queries from keys; 0: no score function reads them. */
int32_t group_back_distance_registers(const AuProblem *p, int32_t queries);
/* Bytes of shared memory of the block's operands and statistics of rows, dS' too, of so many keys. */
int32_t group_back_operand_bytes(const AuProblem *p, const AuShape *s, int32_t keys);

/* ---- group_back_parts.c */
/* The pipelines of dS' and of dQ: between [groups], "mma" or "one mma", and from them to the warp that adds it, [width] channels at a time. */
void group_back_query_pipelines(Lanes *x, const char *groups, int32_t width);
const char *group_back_sums(Lanes *x); /* where the tile's rows of dQ are added, in dq_sum */
/* A loop over the heads of the block and their tiles of queries. */
void group_back_open_walk(Lanes *x);
void group_back_end_walk(Lanes *x);
/* Statistics of rows, those from [from] on, and their names; adjoints lie beside output gradients. */
void group_back_load_rows(Lanes *x, const char **rows, uint32_t from, uint32_t to);
/* dK (1) or dV (2) of the group to memory, through its rows of K or V, [tile], which nobody may read any more. */
void group_back_store(Lanes *x, uint32_t n, const char *tile);
/* The kernels before, that one, and those after. NULL after an error. */
AuSchedule *group_back_built(AuArena *arena, AuDiags *diags, const AuProblem *p, AuSchedule *out,
                             void (*kernel)(Lanes *x));

/* ---- group_load.c: pipelines of tiles that the role `load` fills, and that role; backward's but for dS'. Units read [part] channels of keys side by side. */
void group_forward_pipelines(Lanes *x);
void group_forward_load(Lanes *x);
void group_back_pipelines(Lanes *x, int32_t part);
void group_back_load(Lanes *x);

/* group_queries.c: dQ by blocks that own queries, for sums in one order, and its pipelines and role `load` (group_load.c); its shape, or why there is none. */
void group_dq(Lanes *x);
void group_query_pipelines(Lanes *x);
void group_query_load(Lanes *x);
const char *group_queries_shape(AuArena *arena, const AuProblem *p, AuShape *out);

/* Backward of wide heads (group_back_wide_shape.c): groups of a block; channels of a part of dQ; what follows from the rest of a shape; why it does not do. */
enum { GROUP_BACK_WIDE = 2 };
int32_t group_back_wide_part(const AuProblem *p, const AuShape *s);
void group_back_wide_complete(const AuProblem *p, AuShape *shape);
const char *schedule_group_back_wide_refusal(AuArena *arena, const AuProblem *p, const AuShape *s);

#endif
