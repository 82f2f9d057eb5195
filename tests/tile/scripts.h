/* scripts.h - a script of the examples as a case of the tiled IR's tests: checked, its numbers bound, random tensors, what its
 * kernels write compared with the oracle. */
#ifndef TEST_TILE_SCRIPTS_H
#define TEST_TILE_SCRIPTS_H

#include "run.h"
#include "schedule.h"
#include "support.h"

enum { MOST = 48 };

typedef struct Case {
    const char *script, *sizes, *params;
} Case;

/* Of both directions: what tests of forward and of backward begin with. */
enum { SCRIPT_CASES = 22 };
extern const Case script_cases[SCRIPT_CASES];

typedef struct Run {
    Session *s;
    const Case *c;
    AuAttn *attn;
    AuTileElem operand;
    int64_t sizes[MOST], params_i64[MOST];
    double params[MOST];
    double *values[MOST]; /* of the attention's tensors */
    AuTileTensor tensors[MOST];
    uint32_t count;
    AuTileScalar scalars[MOST];
    uint32_t scalar_count;
    uint64_t random;
} Run;

/* [folder] holds the script. The tensors are those of the attention, by their names in kernels. */
Run *script_begin(Session *s, const Case *c, const char *folder, AuTileElem operand, uint64_t seed);
AuProblem script_problem(const Run *r, const AuHooks *hooks, const AuTileCaps *caps);
/* Adds what the schedule's kernels write or have in the workspace, and is not there yet. */
void script_outputs(Run *r, const AuSchedule *schedule);
void script_launch(Run *r, const AuSchedule *schedule, const char *target, uint64_t seed);
AuTileTensor *script_tensor(Run *r, const char *name); /* NULL: there is none */
/* Fails where it is further from [want] than [factor] times [plain] is, the same computed in the operand type. */
void script_compare(Run *r, const char *target, const char *name, const double *want,
                    const double *plain, double factor);
/* What a forward schedule wrote, against the oracle. */
void script_check_outputs(Run *r, const char *target);
double script_normal(Run *r);
float script_rounded(AuTileElem elem, float x);

#endif
