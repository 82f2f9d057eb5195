/* engine.c - see recurrence.h: the same lines for f64 and for f32. */
#include "recurrence.h"
#include "round.h"

#include <math.h>
#include <string.h>

/* Which writers a reader sees, and where it reads: before its token; between its decay and its write; behind it. */
typedef enum AuReads { AU_READS_BEFORE, AU_READS_BETWEEN, AU_READS_AFTER } AuReads;

#define FLOOR_f64 recurrence_floor(false)
#define FLOOR_f32 ((float)recurrence_floor(true))
#define EXP_f64   exp
#define EXP_f32   expf

#define JOIN(x, y) x##y

#define REAL    double
#define NAME(x) JOIN(x, _f64)
#include "steps_body.h"
#include "chunk_body.h"
#include "chunks_body.h"
#include "engine_body.h"
#undef REAL
#undef NAME

#define REAL    float
#define NAME(x) JOIN(x, _f32)
#include "steps_body.h"
#include "chunk_body.h"
#include "chunks_body.h"
#include "engine_body.h"
#undef REAL
#undef NAME

void recurrence_forward(const AuRows *rows, const AuEngine *how, double *state, double *o,
                        AuArena *scratch)
{
    if (how->single)
        forward_f32(rows, how, state, o, scratch);
    else
        forward_f64(rows, how, state, o, scratch);
}

void recurrence_backward(const AuRows *rows, const AuEngine *how, const double *state,
                         const double *dout, double *dstate, AuRows *d, AuArena *scratch)
{
    if (how->single)
        backward_f32(rows, how, state, dout, dstate, d, scratch);
    else
        backward_f64(rows, how, state, dout, dstate, d, scratch);
}
