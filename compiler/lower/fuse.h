/* fuse.h - a run of assignments while it is being lowered: what items.c, fuse.c and stores.c share. */
#ifndef AU_LOWER_FUSE_H
#define AU_LOWER_FUSE_H

#include "internal.h"

enum { MOST_PENDING = 64 };

/* What an expression is made of, seen through formulas, but not into reductions, which are items of their own. */
typedef struct Reads {
    TILE_LIST(const AuTileVar *) vars;
    TILE_LIST(const AuTileExpr *) reductions;
} Reads;

typedef struct Item {
    const AuTileVar *var;   /* what it defines, or NULL: */
    AuTileExpr *reduction;  /* the reduction that it computes */
    const AuTileExpr *expr; /* what is computed for each element */
    Reads reads;
    AuSpaces spaces; /* registers it runs over */
    bool looped, stored, emitted;
    bool updates;         /* it, or one before it in a loop, reads the variable that it defines */
    uint32_t level, loop; /* of a looped item the number of its loop, from 1 on */
    AuMem mem;            /* of a reduction: accumulators */
    AuMem odd; /* of a sum in two halves: of every second element; `mem` again: there is none */
    uint32_t visits;
    AuTileType row_type;       /* of a reduction: type of its result */
    AuVal first[MOST_PENDING]; /* of pairs whose second element is still to come, the oldest from
                                  [taken] on */
    uint32_t first_count, taken;
    AuVal *even;              /* warps, 16 bits: by register, what waits for its neighbour */
    const AuTileStmt *branch; /* warps: the `if` that it stands in, or NULL, */
    bool otherwise;           /* in its other half */
} Item;

typedef struct Run {
    AuLower *l;
    Item *items;
    uint32_t count, capacity;
} Run;

typedef struct Group {
    Run *run;
    TILE_LIST(Item *) items;
    AuVal *values; /* of the items, at the present point */
} Group;

/* items.c: the run's items, with levels and loops. */
void lower_find_items(Run *run, AuTileStmt *const *statements, uint32_t count);
void lower_find_reductions(Run *run,
                           AuTileExpr *e); /* those in an expression that is no assignment's */
bool lower_is_at(const Item *item, uint32_t level, bool looped);
/* Reads in the whole run, in every segment, to be compared with all reads in the role. */
uint32_t lower_reads_in_run(const AuLower *l, const AuTileVar *var);

/* stores.c */
const char *lower_pair_axis_of(AuLower *l, const Item *item);
/* The item's value at a point goes into the array of its variable. */
void lower_store_point(AuLower *l, Item *item, AuVal value, const AuPoint *p);
/* Gives variables of the group arrays that nobody needs any more. */
void lower_reuse_arrays(const Group *g);

#endif
