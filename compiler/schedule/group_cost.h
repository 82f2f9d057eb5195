/* group_cost.h - what a tile of the schedules of groups of warps takes of a processor, by arithmetic and the rates of the machine's row, and a forecast
 * of it that ranks shapes which fit. docs/dev/hopper.md, "Choice of shapes", says what it is held against. */
#ifndef AU_SCHEDULE_GROUP_COST_H
#define AU_SCHEDULE_GROUP_COST_H

#include "group.h"

/* Cycles of a processor that a block's tile takes of each of its parts, were it alone. */
typedef struct GroupCost {
    double units;  /* products */
    double powers; /* exponentials */
    double issue;  /* instructions, of all schedulers side by side */
    double
        shared;  /* bytes of shared memory: operands, tiles that come and go, what lanes exchange */
    double sums; /* backward: sums of dQ in memory */
    double
        way; /* of one group through a tile, which the others' work hides: its first products, and what its lanes do to weights */
    double tile; /* all of it together */
    double
        pair; /* the same of a pair that takes part, with what a block begins and ends with and the tiles that a mask cuts */
} GroupCost;

/* The call that lengths stand for: so many queries and keys; a window has so many keys. */
enum { GROUP_SHORT = 2048, GROUP_LONG = 16384, GROUP_WINDOW = 1024 };
int32_t group_cost_rows(const AuProblem *p);

/* Of a shape that fits. All rates of the machine's row are there (group_is_ranked). */
GroupCost group_forward_cost(const AuProblem *p, const AuShape *s);
GroupCost group_backward_cost(const AuProblem *p, const AuShape *s);
GroupCost group_back_wide_cost(const AuProblem *p, const AuShape *s);
/* Are there rates for it? Where one is not known nothing is forecast. */
bool group_is_ranked(const AuProblem *p);
/* The part that takes longest: "shared memory". */
const char *group_limit(const GroupCost *c);

#endif
