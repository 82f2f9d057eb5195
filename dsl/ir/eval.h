/* eval.h - programs: expressions of one place, evaluated in f64 over a vector of keys or of
 * channels at once. A program is made of roots and of the axis that its vectors run along. Nodes
 * without that axis are single values; nodes that depend on nothing that changed since the last
 * run keep theirs. Leaves that need a context (tensors, indices, states) are computed by a
 * function of the user's.
 *
 * What is not chosen is not read: an index out of range does not fail where it happens. It marks
 * its element as bad, marks spread to whatever uses the element, but not through the sides that
 * &&, || and where did not choose, and whoever uses a root's element asks whether it is bad. */
#ifndef AU_DSL_ATTN_EVAL_H
#define AU_DSL_ATTN_EVAL_H

#include "attn.h"

typedef struct AuEvalStep {
    const AuNode *node;
    struct AuEvalStep *args[16];
    bool vector;
    bool of_keys;    /* along the channels of keys, of which there may be another number */
    uint8_t depends; /* axes on which the value depends, reductions included */
    bool any_bad;
    double *value; /* one, or one an element */
    uint32_t *bad; /* 0, or 1 + the step where the trouble began; of no meaning unless any_bad */
} AuEvalStep;

typedef struct AuProgram AuProgram;
/* Fills value (count entries, 1 if the step is no vector), and bad by attn_step_mark_bad. The arguments
 * are computed. */
typedef void (*AuLeafFunction)(void *user, AuProgram *p, AuEvalStep *step, uint32_t count);

struct AuProgram {
    const AuAttn *a;
    AuEvalStep *steps;
    uint32_t step_count, capacity;
    uint32_t count;     /* elements of the last run */
    uint32_t key_count; /* the same of vectors along AU_AX_K, 0: as many; set before a run */
    AuEvalStep **roots;
    uint32_t root_count;
    AuLeafFunction leaf;
    void *user;
    bool fresh;  /* never run */
    bool single; /* round every f32 to f32 */
    double *spread[3];
};

enum { AU_CHANGED_ALL = 255 };

/* Roots may be none; [across] is one axis, or a set for vectors along whichever there is. */
AuProgram *attn_program_new(AuArena *arena, const AuAttn *a, const AuExpr *roots,
                            uint32_t root_count, uint8_t across, uint32_t capacity,
                            AuLeafFunction leaf, void *user);
/* Computes the first [count] elements; [changed] are the axes whose index, or leaves whose axes,
 * changed. */
void attn_program_run(AuProgram *p, uint8_t changed, uint32_t count);

static inline double attn_step_at(const AuEvalStep *s, uint32_t i)
{
    return s->value[s->vector ? i : 0];
}
void attn_step_mark_bad(AuProgram *p, AuEvalStep *step, uint32_t i); /* the trouble begins here */
/* The step where the trouble of element i began, NULL: there is none. */
const AuEvalStep *attn_step_trouble(const AuProgram *p, const AuEvalStep *step, uint32_t i);

#endif
