/* group_wide.h - what the files of the schedule `group_wide` share. */
#ifndef AU_SCHEDULE_GROUP_WIDE_H
#define AU_SCHEDULE_GROUP_WIDE_H

#include "group.h"

/* Registers of a lane of the group of scores: what the others leave. */
int32_t group_wide_registers(const AuProblem *p, const AuShape *s);
/* Channels of the output of a group; of the queries in shared memory. */
int32_t group_wide_columns(const AuProblem *p, const AuShape *s);
int32_t group_wide_shared(const AuProblem *p, const AuShape *s);
/* Fragments of a group's sums, of so many channels each: an assembler that has the registers of all groups of a block alike in mind refuses a
 * product of more, and none may begin between channels that lie together. 0: there are no such. */
int32_t group_wide_fragments(const AuProblem *p, const AuShape *s);
/* Why a shape does not do for a problem that is not refused; NULL: it does. */
const char *group_wide_refusal(AuArena *arena, const AuProblem *p, const AuShape *s);
/* group_wide.c: channels of the queries that stay in registers; starts scores of the stage of keys [stage], into fragment [to]; what scores of tile number
 * [tile] become, which are there, masked by that number, since no loop over the list says it; sums, "acc0, acc1", one of them; them by [factor], where a row of
 * the warp has a larger maximum: few tiles have. */
void group_wide_hold_queries(Lanes *x);
void group_wide_start_scores(Lanes *x, const char *to, const char *stage);
void group_wide_scores_of(Lanes *x, const char *tile);
const char *group_wide_sums(Lanes *x);
AuTileHandle group_wide_sum(Lanes *x, int32_t n);
void group_wide_scale_sums(Lanes *x, const char *factor);
/* group_wide_keys.c: parts of a tile of keys that come and go by themselves, in what ring, what names of their stages end with, of what channels; which one (of
 * three, 0 and 1 of who has these values); their rings; the role that fills them. */
typedef struct GroupWidePiece {
    const char *ring, *suffix;
    int32_t first, count;
} GroupWidePiece;
int32_t group_wide_piece_count(const AuShape *s);
GroupWidePiece group_wide_piece(const AuProblem *p, const AuShape *s, int32_t n);
/* Which one comes, and is multiplied, as number [turn], of a tile whose weights half 0 or 1 makes. */
int32_t group_wide_piece_at(const AuShape *s, int32_t turn, int32_t half);
void group_wide_key_memories(Lanes *x);
void group_wide_load_role(Lanes *x);
/* group_wide_pairs.c: of AuShape.paired, what the groups leave each other, and their roles. */
void group_wide_pair_memories(Lanes *x);
void group_wide_pair_roles(Lanes *x);

#endif
