/* interpret.c - the f64 oracle: an attention evaluated exactly as the section "Meaning" of the
 * language says, row by row. For each batch and head: the keys and values of the head, modified;
 * for each query: mask, raw products, scores; the pairs that take part, packed together; tiles of
 * them through online_fwd; the epilogue. A tile without a pair is not there at all. With round_to,
 * the same steps in the arithmetic of a plain kernel, for the rule about errors
 * (docs/dev/attention-ir.md). */
#include "oracle.h"

#include <string.h>

#include "meaning.h"

/* ---- rounding */

double attn_oracle_single(const AuOracle *o, double x) { return o->single ? (double)(float)x : x; }

void attn_oracle_round(const AuOracle *o, double *row, uint32_t count)
{
    if (!o->single || o->call->round_to == AU_DT_F32) return;
    for (uint32_t i = 0; i < count; i++) row[i] = attn_round(row[i], o->call->round_to);
}

double attn_oracle_operand(const AuOracle *o, double x)
{
    return o->call->tf32 ? attn_round_tf32(x) : x;
}

void attn_oracle_operands(const AuOracle *o, double *row, uint32_t count)
{
    attn_oracle_round(o, row, count);
    for (uint32_t i = 0; o->call->tf32 && i < count; i++) row[i] = attn_round_tf32(row[i]);
}

/* ---- rows of q, k, v */

const double *attn_oracle_row(const AuOracle *o, uint32_t tensor, int64_t b, int64_t head,
                              int64_t row)
{
    const int64_t *n = o->dims[tensor];
    return o->call->tensors[tensor] + ((b * n[1] + head) * n[2] + row) * n[3];
}

bool attn_oracle_mod(AuOracle *o, AuProgram *mod, const double *in, double *out, uint32_t width)
{
    if (!mod) {
        memmove(out, in, width * sizeof *out);
        return true;
    }
    o->element = in;
    o->width = width;
    attn_program_run(mod, AU_CHANGED_ALL, width);
    for (uint32_t c = 0; c < width; c++) {
        if (attn_step_trouble(mod, mod->roots[0], c))
            return attn_oracle_trouble(o, mod, mod->roots[0], c);
        out[c] = attn_step_at(mod->roots[0], c);
    }
    attn_oracle_round(o, out, width);
    return true;
}

/* Modified keys of a head, transposed, so that products of one query run along keys. */
static bool load_keys(AuOracle *o, int64_t b, int64_t head)
{
    const uint32_t width = (uint32_t)o->D;
    o->kv_h = head;
    for (int64_t j = 0; j < o->T; j++) {
        o->j = j;
        if (!attn_oracle_mod(o, o->k_mod, attn_oracle_row(o, 1, b, head, j), o->row, width))
            return false;
        attn_oracle_operands(o, o->row, width);
        for (uint32_t c = 0; c < width; c++) o->keys[c * o->T + j] = o->row[c];
    }
    return true;
}

static bool load_values(AuOracle *o, int64_t b, int64_t head)
{
    const AuAttn *a = o->a;
    o->kv_h = head;
    for (int64_t j = 0; j < o->T; j++) {
        o->j = j;
        const double *v = a->v_in_k ? attn_oracle_row(o, 1, b, head, j) + a->v_first
                                    : attn_oracle_row(o, 2, b, head, j);
        double *value = o->values + j * o->E;
        if (!attn_oracle_mod(o, o->v_mod, v, value, (uint32_t)o->E)) return false;
        attn_oracle_operands(o, value, (uint32_t)o->E);
    }
    return true;
}

/* ---- one row */

/* Which keys the mask admits; their number. */
static bool run_mask(AuOracle *o, uint8_t changed, uint32_t *count)
{
    const uint32_t T = (uint32_t)o->T;
    *count = T;
    if (!o->mask) {
        memset(o->admitted, 1, T);
        return true;
    }
    attn_program_run(o->mask, changed, T);
    *count = 0;
    for (uint32_t j = 0; j < T; j++) {
        if (attn_step_trouble(o->mask, o->mask->roots[0], j))
            return attn_oracle_trouble(o, o->mask, o->mask->roots[0], j);
        o->admitted[j] = attn_step_at(o->mask->roots[0], j) != 0;
        *count += o->admitted[j];
    }
    return true;
}

static void multiply_query(AuOracle *o)
{
    const int64_t T = o->T;
    double *restrict score = o->score;
    memset(score, 0, (size_t)T * sizeof *score);
    for (int64_t c = 0; c < o->D; c++) {
        const double x = o->query[c];
        const double *restrict k = o->keys + c * T;
        if (o->single)
            for (int64_t j = 0; j < T; j++) score[j] = (float)score[j] + (float)x * (float)k[j];
        else
            for (int64_t j = 0; j < T; j++) score[j] += x * k[j];
    }
}

/* The pairs that take part, packed into o->scores and o->kv. What the mask does not admit is not
 * read, so it cannot fail. */
static bool gather_scores(AuOracle *o)
{
    const uint32_t T = (uint32_t)o->T;
    multiply_query(o);
    if (o->score_mod) attn_program_run(o->score_mod, o->pending, T);
    o->pending = 0;
    o->pairs = 0;
    for (uint32_t j = 0; j < T; j++) {
        if (!o->admitted[j]) continue;
        double s = o->score[j];
        if (o->score_mod) {
            const AuEvalStep *root = o->score_mod->roots[0];
            if (attn_step_trouble(o->score_mod, root, j))
                return attn_oracle_trouble(o, o->score_mod, root, j);
            s = attn_step_at(root, j);
        }
        if (s == -INFINITY) continue;
        o->scores[o->pairs] = s;
        o->kv[o->pairs++] = j;
    }
    return true;
}

/* weight_mod on the packed pairs [first, end). */
static bool modify_weights(AuOracle *o, uint32_t first, uint32_t end)
{
    if (!o->weight_mod) return true;
    o->pair_first = first;
    attn_program_run(o->weight_mod, AU_CHANGED_ALL, end - first);
    for (uint32_t n = first; n < end; n++) {
        const AuEvalStep *root = o->weight_mod->roots[0];
        if (attn_step_trouble(o->weight_mod, root, n - first))
            return attn_oracle_trouble(o, o->weight_mod, root, n - first);
        o->weights[n] = attn_step_at(root, n - first);
    }
    return true;
}

static void accumulate(AuOracle *o, uint32_t first, uint32_t end)
{
    double *restrict acc = o->acc;
    for (uint32_t n = first; n < end; n++) {
        const double p = o->weights[n];
        const double *restrict v = o->values + (int64_t)o->kv[n] * o->E;
        if (o->in_turn)
            for (int64_t e = 0; e < o->E; e++) acc[e] = (float)acc[e] + (float)p * (float)v[e];
        else
            for (int64_t e = 0; e < o->E; e++) acc[e] += p * v[e];
    }
}

/* One tile through online_fwd: the packed pairs [first, end), at least one. */
static bool run_tile(AuOracle *o, uint32_t first, uint32_t end)
{
    const uint32_t scales = o->a->online->scale_count;
    AuProgram *p = o->online;
    o->pair_first = first;
    attn_program_run(p, AU_CHANGED_ALL, end - first);
    for (uint32_t i = 0; i < p->root_count; i++)
        for (uint32_t n = 0; n < (p->roots[i]->vector ? end - first : 1); n++)
            if (attn_step_trouble(p, p->roots[i], n))
                return attn_oracle_trouble(o, p, p->roots[i], n);
    for (uint32_t n = first; n < end; n++)
        o->weights[n] = attn_step_at(p->roots[scales], n - first);
    const double rescale = attn_step_at(p->roots[scales + 1], 0);
    for (uint32_t i = 0; i < scales; i++) o->state[i] = attn_step_at(p->roots[i], 0);
    if (!modify_weights(o, first, end)) return false;
    attn_oracle_operands(o, o->weights + first, end - first);
    if (first > 0) { /* before the first pair there is nothing to rescale */
        for (int64_t e = 0; e < o->E; e++) o->acc[e] = attn_oracle_single(o, o->acc[e] * rescale);
        for (uint32_t n = 0; n < first; n++) o->weights[n] *= rescale;
    }
    accumulate(o, first, end);
    return true;
}

static bool run_tiles(AuOracle *o)
{
    const int64_t tile = o->call->key_tile > 0 ? o->call->key_tile : o->T;
    for (uint32_t first = 0, end; first < o->pairs; first = end) {
        const int64_t last =
            ((int64_t)o->kv[first] / tile + 1) * tile; /* where the tile of this key ends */
        for (end = first + 1; end < o->pairs && (int64_t)o->kv[end] < last;) end++;
        if (!run_tile(o, first, end)) return false;
    }
    return true;
}

/* ---- the end of a row */

static bool write_finals(AuOracle *o, int64_t at)
{
    AuProgram *p = o->finals;
    if (!o->call->finals) return true;
    attn_program_run(p, AU_CHANGED_ALL, 1);
    for (uint32_t i = 0; i < p->root_count; i++) {
        if (attn_step_trouble(p, p->roots[i], 0)) return attn_oracle_trouble(o, p, p->roots[i], 0);
        if (o->call->finals[i]) o->call->finals[i][at] = attn_step_at(p->roots[i], 0);
    }
    return true;
}

/* The epilogue is linear in o (forward would not hold otherwise), so it turns weights as it turns
 * outputs. */
static bool write_weights(AuOracle *o, double *row)
{
    memset(row, 0, (size_t)o->T * sizeof *row);
    if (!o->pairs) return true;
    o->element = o->weights;
    o->width = o->pairs;
    attn_program_run(o->weight_epilogue, AU_CHANGED_ALL, o->pairs);
    for (uint32_t n = 0; n < o->pairs; n++)
        row[o->kv[n]] = attn_step_at(o->weight_epilogue->roots[0], n);
    return true;
}

/* The output before out_mod, in acc, then the output. */
static bool write_output(AuOracle *o, int64_t at)
{
    const uint32_t E = (uint32_t)o->E;
    double *out = o->call->o ? o->call->o + at * o->E : o->row;
    memset(out, 0, E * sizeof *out);
    if (!o->pairs) return true; /* no pair at all: the output is 0, whatever out_mod makes of 0 */
    o->element = o->acc;
    o->width = E;
    attn_program_run(o->epilogue, AU_CHANGED_ALL, E);
    for (uint32_t e = 0; e < E; e++) {
        if (attn_step_trouble(o->epilogue, o->epilogue->roots[0], e))
            return attn_oracle_trouble(o, o->epilogue, o->epilogue->roots[0], e);
        o->acc[e] = attn_step_at(o->epilogue->roots[0], e);
    }
    if (!attn_oracle_mod(o, o->out_mod, o->acc, out, E)) return false;
    attn_oracle_round(o, out, E);
    return true;
}

static bool finish_row(AuOracle *o)
{
    const int64_t at = (o->b * o->H + o->h) * o->S + o->i;
    if (!write_finals(o, at)) return false;
    if (o->call->weights && !write_weights(o, o->call->weights + at * o->T)) return false;
    return write_output(o, at) && (!o->row_done || o->row_done(o));
}

static bool run_row(AuOracle *o, uint8_t changed)
{
    const AuOnline *online = o->a->online;
    uint32_t admitted;
    o->pairs = 0;
    memset(o->acc, 0, (size_t)o->E * sizeof *o->acc);
    attn_program_run(o->starts, AU_CHANGED_ALL, 1);
    for (uint32_t i = 0; i < online->scale_count; i++)
        o->state[i] = attn_step_at(o->starts->roots[i], 0);
    if (!run_mask(o, changed, &admitted)) return false;
    o->pending |= changed; /* for score_mod, which rows without a pair leave out */
    if (admitted) {
        const double *q = attn_oracle_row(o, 0, o->b, o->h, o->i);
        if (!attn_oracle_mod(o, o->q_mod, q, o->query, (uint32_t)o->D)) return false;
        attn_oracle_operands(o, o->query, (uint32_t)o->D);
        if (!gather_scores(o)) return false;
        if (!run_tiles(o)) return false;
    }
    return finish_row(o);
}

static bool run_head(AuOracle *o, int64_t loaded[2])
{
    const int64_t k_head = o->h / (o->H / o->Hk), v_head = o->h / (o->H / o->Hv);
    const int64_t k_at = o->b * o->Hk + k_head, v_at = o->b * o->Hv + v_head;
    if (loaded[0] != k_at && !load_keys(o, o->b, k_head)) return false;
    if (loaded[1] != v_at && !load_values(o, o->b, v_head)) return false;
    loaded[0] = k_at;
    loaded[1] = v_at;
    o->kv_h = k_head;
    for (o->i = 0; o->i < o->S; o->i++)
        if (!run_row(o, o->i == 0 ? AU_AX_B | AU_AX_H | AU_AX_Q : AU_AX_Q)) return false;
    return true;
}

bool attn_oracle_rows(AuOracle *o)
{
    int64_t loaded[2] = {-1, -1};
    for (o->b = 0; o->b < o->B; o->b++)
        for (o->h = 0; o->h < o->H; o->h++)
            if (!run_head(o, loaded)) return false;
    return true;
}

bool attn_interpret(const AuAttn *a, const AuOracleCall *call, AuArena *scratch, const char **why)
{
    AuOracle o;
    if (!attn_oracle_begin(&o, a, call, scratch, why)) return false;
    return a->linear ? attn_oracle_linear(&o) : attn_oracle_rows(&o);
}
