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

#endif
