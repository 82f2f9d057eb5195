/* families.h - runs an example, or a changed text of it, on random inputs and compares it with the reference. */
#ifndef TEST_TILE_FAMILIES_H
#define TEST_TILE_FAMILIES_H

#include "reference.h"
#include "run.h"
#include "support.h"

typedef enum Stage { READ_OR_EXPAND, VERIFY, RUN, NUMBERS, PASSED } Stage;

/* How far it came. */
typedef struct Outcome {
    Stage failed; /* PASSED: nothing failed */
    AuCode code;  /* of the diagnostic, if there is one */
    const char *message;
    double worst; /* error over bound */
} Outcome;

typedef struct Shape {
    int B, H, Hk, S, T;
} Shape;

typedef struct Trial {
    const char *file, *text; /* text NULL: the file's */
    AuTileRules rules;
    int number; /* chooses shapes, attentions, seeds as the shared specification's test does */
    bool causal_only;
    const Shape *shape; /* instead of the number's, for the forward examples */
    uint32_t items;     /* 0: 1 to 3, by number */
    bool twice;         /* and again under another schedule, bit for bit */
} Trial;

bool is_forward(const char *file);
Outcome run_trial(Session *s, const Trial *t);

#endif
