/* leaves.c - values of the leaves in the oracle: indices, sizes, tensors read at indices, products
 * of rows, rotations, dropout. */
#include "oracle.h"

#include "meaning.h"

static void fill_index(AuOracle *o, const AuProgram *p, AuEvalStep *s, uint32_t count)
{
    const bool packed = p != o->mask && p != o->score_mod;
    switch ((AuAxisBit)s->node->integer) {
    case AU_AX_B: s->value[0] = (double)o->b; break;
    case AU_AX_H: s->value[0] = (double)o->h; break;
    case AU_AX_TOK:
    case AU_AX_Q: s->value[0] = (double)o->i; break;
    case AU_AX_KV:
        if (!s->vector)
            s->value[0] = (double)o->j;
        else
            for (uint32_t n = 0; n < count; n++)
                s->value[n] = packed ? o->kv[o->pair_first + n] : n;
        break;
    case AU_AX_C:
    case AU_AX_K:
    case AU_AX_V:
        for (uint32_t n = 0; n < count; n++) s->value[n] = n;
        break;
    }
}

/* An axis along which sequences are packed: it is the tokens'. */
static bool is_packed(const AuOracle *o, int32_t tensor, uint32_t axis)
{
    const AuAttn *a = o->a;
    return o->packed && a->tensors[tensor].axes[axis].i == a->tensors[1].axes[2].i;
}

/* Of a sequence, where several are packed. */
static double size_of(const AuOracle *o, int32_t size)
{
    const AuNode *tokens = attn_at(o->a, o->a->tensors[1].axes[2]);
    const bool is_length = o->packed && tokens->op == AU_OP_SIZE && tokens->integer == size;
    return (double)(is_length ? o->length : o->call->sizes[size]);
}

/* Where element n of a read lies in its tensor; -1 and a mark if it lies outside. Indices
 * args[first..] address the leading axes. */
static int64_t offset_of(AuOracle *o, AuProgram *p, AuEvalStep *s, int32_t tensor, uint32_t first,
                         uint32_t axes, uint32_t n)
{
    int64_t offset = 0;
    for (uint32_t k = 0; k < axes; k++) {
        const double index = attn_step_at(s->args[first + k], n);
        const int64_t extent = o->dims[tensor][k];
        const bool packed = is_packed(o, tensor, k);
        if (!(index >= 0 && index < (double)(packed ? o->length : extent))) {
            attn_step_mark_bad(p, s, n);
            return -1;
        }
        offset = offset * extent + (packed ? o->first : 0) + (int64_t)index;
    }
    return offset;
}

static void fill_input(AuOracle *o, AuProgram *p, AuEvalStep *s, uint32_t count)
{
    const int32_t tensor = s->node->integer;
    const double *data = o->call->tensors[tensor];
    for (uint32_t n = 0; n < count; n++) {
        const int64_t at = offset_of(o, p, s, tensor, 0, s->node->count, n);
        s->value[n] = at < 0 ? 0 : data[at];
        if (s->node->type == AU_T_I32 && fabs(s->value[n]) > 2147483648.0)
            attn_step_mark_bad(p, s, n);
    }
}

static void fill_dot(AuOracle *o, AuProgram *p, AuEvalStep *s, uint32_t count)
{
    const AuNode *node = s->node;
    const uint32_t left = o->a->tensors[node->integer].rank - 1, right = node->count - left;
    const int64_t width = o->dims[node->integer][left];
    for (uint32_t n = 0; n < count; n++) {
        const int64_t x_at = offset_of(o, p, s, node->integer, 0, left, n);
        const int64_t y_at = offset_of(o, p, s, node->integer2, left, right, n);
        double sum = 0;
        s->value[n] = 0;
        if (x_at < 0 || y_at < 0) continue;
        const double *x = o->call->tensors[node->integer] + x_at * width;
        const double *y = o->call->tensors[node->integer2] + y_at * width;
        for (int64_t c = 0; c < width; c++) {
            const double product = attn_oracle_operand(o, x[c]) * attn_oracle_operand(o, y[c]);
            sum = attn_oracle_single(o, sum + attn_oracle_single(o, product));
        }
        s->value[n] = sum;
    }
}

/* Channels first..first+count turn in pairs: (j, j + count/2), or (2j, 2j + 1) if interleaved, by
 * position * theta^(-2j/count). */
static void fill_rope(AuOracle *o, AuProgram *p, AuEvalStep *s, uint32_t width)
{
    const double position = attn_step_at(s->args[1], 0), theta = attn_step_at(s->args[2], 0);
    const double first = attn_step_at(s->args[3], 0), count = attn_step_at(s->args[4], 0);
    for (uint32_t c = 0; c < width; c++) s->value[c] = attn_step_at(s->args[0], c);
    if (first < 0 || count < 0 || first + count > width || fmod(count, 2) != 0) {
        for (uint32_t c = 0; c < width; c++) attn_step_mark_bad(p, s, c);
        return;
    }
    const uint32_t begin = (uint32_t)first, half = (uint32_t)count / 2;
    for (uint32_t j = 0; j < half; j++) {
        const uint32_t low = begin + (s->node->integer ? 2 * j : j),
                       high = s->node->integer ? low + 1 : low + half;
        const double frequency = attn_oracle_single(o, pow(theta, -2.0 * j / count));
        const double angle = attn_oracle_single(o, position * frequency);
        const double co = attn_oracle_single(o, cos(angle)), si = attn_oracle_single(o, sin(angle));
        const double x = attn_step_at(s->args[0], low), y = attn_step_at(s->args[0], high);
        s->value[low] = x * co - y * si;
        s->value[high] = y * co + x * si;
    }
}

static void fill_dropout(AuOracle *o, AuEvalStep *s, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t seed[2] = {(uint32_t)as_i32(attn_step_at(s->args[2], n)),
                                  (uint32_t)as_i32(attn_step_at(s->args[3], n))};
        const double rate = attn_step_at(s->args[1], n);
        const double u = attn_dropout_uniform(seed, (uint32_t)o->b, (uint32_t)o->h, (uint32_t)o->i,
                                              o->kv[o->pair_first + n]);
        s->value[n] = u >= rate ? attn_step_at(s->args[0], n) / (1 - rate) : 0;
    }
}

static double seed_word(const AuOracle *o, const AuNode *n)
{
    const int64_t seed = n->integer2 >= 0 ? o->call->params_i64[n->integer2]
                                          : (int64_t)o->call->tensors[~n->integer2][0];
    return (int32_t)(uint32_t)((uint64_t)seed >> (n->integer ? 32 : 0));
}

/* Fewer heads are shared by groups. */
int64_t attn_oracle_tensor(const AuOracle *o, const AuNode *node, int64_t *channel)
{
    const AuTensor *t = &o->a->tensors[node->integer];
    const int32_t source = attn_oracle_source(o, node->integer);
    const int64_t *dims = o->dims[source];
    uint8_t bits[8];
    int64_t offset = 0, step = 0;
    attn_tensor_axes(o->a, node, bits);
    for (uint32_t k = 0; k < t->rank; k++) {
        offset *= dims[k];
        step *= dims[k];
        if (bits[k] == AU_AX_B)
            offset += o->b;
        else if (bits[k] == AU_AX_H)
            offset += o->h / (o->H / dims[k]);
        else if (bits[k] == AU_AX_TOK)
            offset += o->first + o->i;
        else if (bits[k])
            step = 1; /* the channel */
    }
    *channel = step;
    return offset + (source != node->integer ? o->a->v_first : 0);
}

static void fill_tensor(AuOracle *o, AuEvalStep *s, uint32_t count)
{
    int64_t step;
    const int64_t offset = attn_oracle_tensor(o, s->node, &step);
    const double *data = o->call->tensors[attn_oracle_source(o, s->node->integer)];
    for (uint32_t n = 0; n < count; n++) s->value[n] = data[offset + step * n];
}

static void fill(double *value, const double *from, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) value[n] = from[n];
}

void attn_oracle_leaf(void *user, AuProgram *p, AuEvalStep *s, uint32_t count)
{
    AuOracle *o = user;
    const AuNode *n = s->node;
    switch ((AuOp)n->op) {
    case AU_OP_SIZE: s->value[0] = size_of(o, n->integer); break;
    case AU_OP_INDEX: fill_index(o, p, s, count); break;
    case AU_OP_KV_H: s->value[0] = (double)o->kv_h; break;
    case AU_OP_PARAM:
        s->value[0] = o->a->params[n->integer].dtype == AU_DT_I64
                          ? (double)o->call->params_i64[n->integer]
                          : o->call->params[n->integer];
        break;
    case AU_OP_INPUT: fill_input(o, p, s, count); break;
    case AU_OP_SCORE:
        fill(s->value, p == o->score_mod ? o->score : o->scores + o->pair_first, count);
        break;
    case AU_OP_WEIGHT: fill(s->value, o->weights + o->pair_first, count); break;
    case AU_OP_ELEMENT: fill(s->value, o->element, count); break;
    case AU_OP_STATE: s->value[0] = o->state[n->integer]; break;
    case AU_OP_TENSOR: fill_tensor(o, s, count); break;
    case AU_OP_DOT: fill_dot(o, p, s, count); break;
    case AU_OP_ROPE: fill_rope(o, p, s, count); break;
    case AU_OP_DROPOUT: fill_dropout(o, s, count); break;
    case AU_OP_SEED_WORD: s->value[0] = seed_word(o, n); break;
    case AU_OP_DWEIGHT: fill(s->value, o->dweights, count); break;
    case AU_OP_FINAL: s->value[0] = o->final_values[n->integer]; break;
    case AU_OP_DELTA: s->value[0] = o->delta; break;
    case AU_OP_DFINAL: s->value[0] = o->dfinals[n->integer]; break;
    case AU_OP_ADJOINT: s->value[0] = o->adjoints[n->integer]; break;
    case AU_OP_PASS: s->value[0] = o->passes[n->integer]; break;
    case AU_OP_DELEMENT: fill(s->value, o->delement, count); break;
    case AU_OP_STATE_B: /* of combine, which the oracle does not evaluate */
    case AU_NO_OP:      /* not of leaves */
    case AU_OP_F32:
    case AU_OP_I32:
    case AU_OP_ROWMAX:
    case AU_OP_ROWSUM:
    case AU_OP_ROW_SUM_C:
    case AU_OP_COUNT:
#define OP(NAME, text, arguments, rule, flags, meaning) case AU_OP_##NAME:
#include "ops.def"
#undef OP
        break;
    }
}
