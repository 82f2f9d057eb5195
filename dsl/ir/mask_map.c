/* mask_map.c - which pairs of one head the mask admits, for drawings and for counting what a kernel
 * may leave out; how high the scores of rows are. */
#include "oracle.h"

#include <math.h>

#include <string.h>

bool attn_mask_map(const AuAttn *a, const AuOracleCall *call, int64_t b, int64_t h, uint8_t *map,
                   AuArena *scratch, const char **why)
{
    AuOracle o;
    if (!attn_oracle_begin(&o, a, call, scratch, why)) return false;
    o.b = b, o.h = h, o.kv_h = h / (o.H / o.Hk);
    if (!o.mask) memset(map, 1, (size_t)(o.S * o.T));
    for (o.i = 0; o.mask && o.i < o.S; o.i++) {
        attn_program_run(o.mask, o.i ? AU_AX_Q : AU_CHANGED_ALL, (uint32_t)o.T);
        for (uint32_t j = 0; j < o.T; j++) {
            const AuEvalStep *root = o.mask->roots[0];
            if (attn_step_trouble(o.mask, root, j)) return attn_oracle_trouble(&o, o.mask, root, j);
            map[o.i * o.T + j] = attn_step_at(root, j) != 0;
        }
    }
    return true;
}

typedef struct Heights {
    AuOracle o; /* first: row_done gets it */
    double *at;
} Heights;

static bool look_at_scores(AuOracle *o)
{
    double highest = -INFINITY;
    for (uint32_t n = 0; n < o->pairs; n++) highest = fmax(highest, o->scores[n]);
    ((Heights *)o)->at[(o->b * o->H + o->h) * o->S + o->i] = highest;
    return true;
}

bool attn_highest_scores(const AuAttn *a, const AuOracleCall *call, double *highest,
                         AuArena *scratch, const char **why)
{
    Heights *w = AU_NEW(scratch, Heights);
    if (!attn_oracle_begin(&w->o, a, call, scratch, why)) return false;
    w->at = highest;
    w->o.row_done = look_at_scores;
    return attn_oracle_rows(&w->o);
}
