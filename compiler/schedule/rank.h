/* rank.h - shapes of a schedule side by side: which fit, what a model of cycles forecasts of them, and why others do not fit. What is made of
 * a problem does not depend on it: rules and tables choose (choose.c). */
#ifndef AU_SCHEDULE_RANK_H
#define AU_SCHEDULE_RANK_H

#include "group_cost.h"

/* A shape that fits, and what is forecast of it. */
typedef struct AuRankedShape {
    AuShape shape;
    GroupCost cost;
} AuRankedShape;

typedef struct AuRejectedShape {
    const char *keys; /* "groups=3 stages=2 held=0 keys=96" */
    const char *why;
} AuRejectedShape;

typedef struct AuRanking {
    AuRankedShape *at; /* the best first */
    uint32_t count, capacity;
    AuRejectedShape *rejected; /* of shapes that differ in the last of their keys alone the first */
    uint32_t rejected_count, rejected_capacity;
    uint32_t tried;
} AuRanking;

/* All values of the keys that the model tells apart; the others, flags that it does not, are as [like] has them. False: the schedule has no model,
 * or the machine's rates are not known. */
bool schedule_rank(AuArena *arena, const AuProblem *problem, const char *schedule,
                   const AuShape *like, AuRanking *out);
/* What is forecast of one shape that fits. */
bool schedule_forecast(const AuProblem *problem, const char *schedule, const AuShape *shape,
                       GroupCost *out);
/* The ranking as text for `--emit=shapes`; says so where there is none. */
const char *schedule_ranking_text(AuArena *arena, const AuProblem *problem, const AuSchedule *made);

#endif
