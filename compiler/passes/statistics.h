/* statistics.h - what the files of the pass share: statistics.c looks for what is made of a row's statistics alone, statistics_rows.c
 * has it made where these come into shared memory. */
#ifndef AU_PASSES_STATISTICS_H
#define AU_PASSES_STATISTICS_H

#include "pass.h"

enum { STATS_MOST = 8 };

/* Rows that come into shared memory: by a copy of the role itself, or by stores of a pipeline's producer, from registers in which a lane has a row. */
typedef struct StatsSource {
    const AuTileMemory *memory;
    AuTileStmt *copy, *fill; /* the copy, or the first of the stores, one of them NULL */
    const char *lanes;       /* the rows, a row a lane; NULL: not made yet */
} StatsSource;

/* What is made of rows: [var] in pairs' registers, [lanes] where rows come in, [asked] a row a lane again. */
typedef struct StatsMade {
    const AuTileVar *var;     /* as it is known: NULL after it is set anew */
    const AuTileVar *first;   /* that is loaded in front of all; NULL: another's value */
    const AuTileExpr *of;     /* what the assignment had; NULL: it is a source itself */
    AuTileStmt *load;         /* of the memory, like the pairs */
    const AuTileStmt *behind, /* the load of rows behind which that stands; NULL: the last one */
        *opens; /* behind this what is asked a row a lane is loaded: where the stage is waited for; or as [behind] */
    StatsSource *source;
    const char *lanes, *asked;
    AuTileExpr *far; /* the constant that far rows have instead; NULL: they have none */
} StatsMade;

/* Of an exponent: who asks whether its row is far, and the constant that it has there (statistics_far.c). */
typedef struct StatsFar {
    AuTileStmt *test;
    AuTileExpr *constant;
} StatsFar;

/* What a pipeline's producer makes of rows, for all loops of its consumers. */
typedef struct StatsKept {
    const AuTileMemory *memory;
    const AuTileExpr *value; /* over lanes' names */
    const char *lanes;
} StatsKept;

typedef struct Stats {
    Pass *p;
    StatsSource sources[STATS_MOST];
    StatsMade made[STATS_MOST];
    StatsKept kept[STATS_MOST];
    const AuTileMemory *touched[2 * STATS_MOST]; /* whose rows pass through lanes, in any loop */
    uint32_t source_count, made_count, kept_count, touched_count;
    AuTileStmts writes, loads;                /* new: behind the copies, behind the loads */
    const AuTileStmt *behind[2 * STATS_MOST]; /* of each of [loads], as StatsMade has it */
    const AuTileStmts *body;                  /* the statement at hand: number [at] of this body */
    uint32_t at;
} Stats;

/* ---- statistics_places.c: where rows are, and what is the same for all of them, as the producer of a stage can say it, too */

/* What the name at the statement at hand stands for; NULL: it is no variable of the role's, or has no one meaning. */
AuTileExpr *stats_meaning(const Stats *x, const AuTileVar *var);
/* Is the expression, with one axis, made of what is known of rows, of their places, of sizes, parameters, inputs and numbers of blocks and tiles, and
 * not too long when all names are written out? [names]: how many are known. */
bool stats_are_of_rows(Stats *x, const AuTileExpr *e, uint32_t *names);
/* Are the numbers of tiles in it the producer's, too, where it fills that source? */
bool stats_can_say(Stats *x, const AuTileExpr *e, const StatsSource *source);

/* ---- statistics_far.c */

/* The one `if anywhere(var)` behind statement [n], in which all that reads the variable stands; NULL: there is none. */
AuTileStmt *stats_only_branch(const Stats *x, const AuTileStmts *body, uint32_t n,
                              const AuTileVar *var);
/* Is what the statement at hand sets asked by such a test alone, and otherwise read behind its branch? */
bool stats_find_far(const Stats *x, StatsFar *out);
/* The statement with the constant for rows that are far. */
AuTileStmt *stats_near(Stats *x, AuTileStmt *s, const StatsFar *far);
/* The branch no longer sets the variable: it makes it again, for itself. */
void stats_leave_branch(Stats *x, const AuTileVar *var, AuTileStmt *branch);
/* Is the row far, of which [asked] is the exponent with the constant? */
AuTileExpr *stats_ask_far(Stats *x, const char *asked, AuTileExpr *constant);

/* ---- statistics_rows.c */

/* The source that a load reads, all of it; NULL: none. */
StatsSource *stats_loaded(Stats *x, const AuTileStmt *s);
/* Such a load of a stage that its producer fills from lanes' registers is a source from now on. */
void stats_add_stage(Stats *x, const AuTileStmt *s);
/* A copy of rows into shared memory. */
bool stats_is_copy(const Stats *x, const AuTileStmt *s);
StatsMade *stats_known(Stats *x, const AuTileVar *var);
/* The expression over lanes: names of what is known by those of [names], one for each that is known. */
AuTileExpr *stats_over(Stats *x, const AuTileExpr *e, const char *const *names);
const char *stats_new_name(Stats *x, const char *of, const char *what);
/* The same view of another memory. */
AuTileExpr *stats_place_in(const Stats *x, const AuTileExpr *view, const AuTileMemory *memory);
AuTileStmt *stats_load_of(Stats *x, const AuTileStmt *like, const char *name, AuTileExpr *source,
                          bool lanes);
/* A memory of rows like that of [source], filled with what the assignment makes; [lanes]: its name where it is made. NULL: there is no room. */
const AuTileMemory *stats_rows_of(Stats *x, const AuTileStmt *s, StatsSource *source,
                                  const char **lanes);
/* Copies of [body] become loads and stores; in [pairs], the same or a loop in it, new loads stand behind the old ones. */
void stats_put_in(Stats *x, AuTileStmts *body, AuTileStmts *pairs, const AuTileStmt *last_copy,
                  const AuTileStmt *last_load);
/* Loads of the memory go if nobody reads what they load, and it goes, too, if nobody loads it. */
void stats_leave_out(Stats *x, const AuTileMemory *memory);

#endif
