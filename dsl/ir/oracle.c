/* oracle.c - setting up an evaluation: sizes, their checks, programs, room; and messages. */
#include "oracle.h"

#include <inttypes.h>
#include <string.h>

#include "meaning.h"

/* ---- messages */

bool attn_oracle_fail(AuOracle *o, AuSpan span, const char *format, ...)
{
    AuText text = {.arena = o->arena};
    if (o->call->diags && span.source) {
        const AuPosition at = au_position(o->call->diags, span);
        au_text_add(&text, "%s:%u:%u: ", at.file, at.line, at.column);
    }
    va_list arguments;
    va_start(arguments, format);
    au_text_vadd(&text, format, arguments);
    va_end(arguments);
    *o->why = au_text_str(&text);
    return false;
}

/* The index that is out of range among args[first..], if any, in element n. */
static bool explain_index(AuOracle *o, const AuEvalStep *s, int32_t tensor, uint32_t first,
                          uint32_t axes, uint32_t n)
{
    for (uint32_t k = 0; k < axes; k++) {
        const double index = attn_step_at(s->args[first + k], n);
        const int64_t extent = o->dims[tensor][k];
        if (index >= 0 && index < (double)extent) continue;
        attn_oracle_fail(o, s->node->span,
                         "index %.0f on axis %u of '%s' is not in [0, %" PRId64 ")", index, k,
                         o->a->tensors[tensor].name, extent);
        return true;
    }
    return false;
}

bool attn_oracle_trouble(AuOracle *o, const AuProgram *p, const AuEvalStep *root, uint32_t i)
{
    const AuEvalStep *s = attn_step_trouble(p, root, i);
    const AuNode *node = s->node;
    const uint32_t mine = (uint32_t)(s - p->steps) + 1;
    uint32_t n = s->vector ? i : 0;
    for (uint32_t k = 0; s->vector && s->bad[n] != mine && k < p->count; k++)
        n = k; /* behind a sum of the row */
    if (node->op == AU_OP_INPUT && explain_index(o, s, node->integer, 0, node->count, n))
        return false;
    if (node->op == AU_OP_INPUT)
        return attn_oracle_fail(o, node->span, "%.0f in '%s' does not fit i32", attn_step_at(s, n),
                                o->a->tensors[node->integer].name);
    if (node->op == AU_OP_DOT) {
        const uint32_t left = o->a->tensors[node->integer].rank - 1;
        if (!explain_index(o, s, node->integer, 0, left, n))
            explain_index(o, s, node->integer2, left, node->count - left, n);
        return false;
    }
    if (node->op == AU_OP_ROPE)
        return attn_oracle_fail(o, node->span,
                                "rope turns %.0f channels from channel %.0f on in a row of %u",
                                attn_step_at(s->args[4], 0), attn_step_at(s->args[3], 0),
                                s->of_keys && p->key_count ? p->key_count : p->count);
    return attn_oracle_fail(o, node->span, "division of an integer by 0");
}

/* ---- sizes */

/* A size gets the first extent that is bound to it; every further one must be the same. */
static bool bind_axis(const AuAttn *a, uint32_t tensor, uint32_t axis, int64_t extent,
                      const double *params, int64_t *sizes, AuArena *arena, const char **why)
{
    const AuTensor *t = &a->tensors[tensor];
    const AuNode *n = attn_at(a, t->axes[axis]);
    if (n->op == AU_OP_SIZE && sizes[n->integer] < 0) {
        sizes[n->integer] = extent;
        return true;
    }
    const double wanted = attn_scalar(a, t->axes[axis], sizes, params);
    if (wanted == (double)extent) return true;
    AuText text = {.arena = arena};
    attn_print_expr(a, t->axes[axis], &text);
    *why = au_format(arena, "axis %u of '%s': expected %.0f (%s), found %" PRId64, axis, t->name,
                     wanted, au_text_str(&text), extent);
    return false;
}

bool attn_bind_sizes(const AuAttn *a, const int64_t *const *shapes, const uint32_t *ranks,
                     const double *params, int64_t *sizes, AuArena *arena, const char **why)
{
    for (uint32_t i = 0; i < a->size_count; i++) sizes[i] = a->sizes[i].fixed;
    /* plain names first, so that computed axes find every size bound */
    for (int computed = 0; computed < 2; computed++)
        for (uint32_t i = 0; i < a->tensor_count; i++) {
            const AuTensor *t = &a->tensors[i];
            if (i == 2 && a->v_in_k) continue; /* no tensor of its own */
            if (ranks[i] != t->rank) {
                *why = au_format(arena, "'%s': expected %u axes, found %u", t->name, t->rank,
                                 ranks[i]);
                return false;
            }
            for (uint32_t k = 0; k < t->rank; k++) {
                if ((attn_at(a, t->axes[k])->op != AU_OP_SIZE) != computed) continue;
                if (!bind_axis(a, i, k, shapes[i][k], params, sizes, arena, why)) return false;
            }
        }
    for (uint32_t i = 0; i < a->size_count; i++) {
        if (sizes[i] >= 0) continue;
        const AuExpr width = a->tensors[2].axes[3];
        if (a->v_in_k && attn_at(a, width)->op == AU_OP_SIZE &&
            attn_at(a, width)->integer == (int32_t)i) {
            sizes[i] = a->v_last - a->v_first;
            continue;
        }
        *why = au_format(arena, "no tensor has '%s' as an axis, so that its size is unknown",
                         a->sizes[i].name);
        return false;
    }
    return true;
}

/* ---- setting up */

static bool check_sizes(AuOracle *o)
{
    const AuAttn *a = o->a;
    const AuSpan span = a->span;
    const int64_t *q = o->dims[0], *k = o->dims[1], *v = o->dims[2];
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        if (!o->call->tensors[i] && !(i == 2 && a->v_in_k))
            return attn_oracle_fail(o, span, "'%s' is missing", a->tensors[i].name);
        for (uint32_t n = 0; n < a->tensors[i].rank; n++)
            if (o->dims[i][n] < 0 || o->dims[i][n] > UINT32_MAX / 2)
                return attn_oracle_fail(o, span, "axis %u of '%s' has size %" PRId64, n,
                                        a->tensors[i].name, o->dims[i][n]);
    }
    if (q[0] != k[0] || q[3] != k[3] || (!a->v_in_k && (k[0] != v[0] || k[2] != v[2])))
        return attn_oracle_fail(o, span, "the shapes of q, k and v do not fit each other");
    if (a->linear && (q[1] <= 0 || o->H % q[1]))
        return attn_oracle_fail(o, span, "%" PRId64 " heads cannot share %" PRId64 " of queries",
                                o->H, q[1]);
    if (o->Hk <= 0 || o->Hv <= 0 || o->H % o->Hk || o->H % o->Hv)
        return attn_oracle_fail(o, span,
                                "%" PRId64 " heads cannot share %" PRId64
                                " heads of keys and %" PRId64 " of values",
                                o->H, o->Hk, o->Hv);
    if (a->v_in_k && (a->v_last > o->D || a->v_last - a->v_first != o->E))
        return attn_oracle_fail(o, span,
                                "values are channels %d:%d of %" PRId64 ", but %" PRId64 " wide",
                                a->v_first, a->v_last, o->D, o->E);
    return true;
}

AuProgram *attn_oracle_program(AuOracle *o, const AuExpr *roots, uint32_t count, uint8_t across,
                               int64_t capacity)
{
    AuProgram *p = attn_program_new(o->arena, o->a, roots, count, across, (uint32_t)capacity,
                                    attn_oracle_leaf, o);
    p->single = o->single;
    return p;
}

static AuProgram *optional_program(AuOracle *o, AuExpr root, uint8_t across, int64_t capacity)
{
    return root.i ? attn_oracle_program(o, &root, 1, across, capacity) : NULL;
}

static void make_programs(AuOracle *o)
{
    const AuAttn *a = o->a;
    const AuOnline *online = a->online;
    const uint32_t scales = online->scale_count;
    AuExpr *roots = AU_NEW_ARRAY(o->arena, AuExpr, scales + online->final_count + 2);
    o->q_mod = optional_program(o, a->q_mod, AU_AX_C, o->D);
    o->k_mod = optional_program(o, a->k_mod, AU_AX_C, o->D);
    o->v_mod = optional_program(o, a->v_mod, AU_AX_C, o->E);
    o->out_mod = optional_program(o, a->out_mod, AU_AX_C, o->E);
    o->mask = optional_program(o, a->mask, AU_AX_KV, o->T);
    o->score_mod = optional_program(o, a->score_mod, AU_AX_KV, o->T);
    o->weight_mod = optional_program(o, a->weight_mod, AU_AX_KV, o->T);
    for (uint32_t i = 0; i < scales; i++) roots[i] = online->scales[i].start;
    o->starts = attn_oracle_program(o, roots, scales, 0, 1);
    for (uint32_t i = 0; i < scales; i++) roots[i] = online->scales[i].next;
    roots[scales] = online->weight;
    roots[scales + 1] = online->rescale;
    o->online = attn_oracle_program(o, roots, scales + 2, AU_AX_KV, o->T);
    for (uint32_t i = 0; i < online->final_count; i++) roots[i] = online->finals[i].value;
    o->finals = attn_oracle_program(o, roots, online->final_count, 0, 1);
    o->epilogue = attn_oracle_program(o, &online->epilogue, 1, AU_AX_C, o->E);
    o->weight_epilogue = attn_oracle_program(o, &online->epilogue, 1, AU_AX_C, o->T);
}

static void make_room(AuOracle *o)
{
    AuArena *m = o->arena;
    const int64_t wide = o->D > o->E ? o->D : o->E;
    o->keys = AU_NEW_ARRAY(m, double, o->D * o->T);
    o->values = AU_NEW_ARRAY(m, double, o->T * o->E);
    o->row = AU_NEW_ARRAY(m, double, wide);
    o->query = AU_NEW_ARRAY(m, double, wide);
    o->acc = AU_NEW_ARRAY(m, double, wide);
    o->score = AU_NEW_ARRAY(m, double, o->T);
    o->admitted = AU_NEW_ARRAY(m, uint8_t, o->T);
    o->kv = AU_NEW_ARRAY(m, uint32_t, o->T);
    o->scores = AU_NEW_ARRAY(m, double, o->T);
    o->weights = AU_NEW_ARRAY(m, double, o->T);
    o->state = AU_NEW_ARRAY(m, double, o->a->online->scale_count);
}

bool attn_oracle_begin(AuOracle *o, const AuAttn *a, const AuOracleCall *call, AuArena *arena,
                       const char **why)
{
    *o = (AuOracle){.a = a, .call = call, .arena = arena, .why = why};
    o->single = call->round_to != AU_DT_OPERAND;
    o->in_turn = o->single && !call->exact_sums;
    o->dims = au_alloc(arena, sizeof *o->dims * a->tensor_count);
    for (uint32_t i = 0; i < a->tensor_count; i++)
        for (uint32_t n = 0; n < a->tensors[i].rank; n++)
            o->dims[i][n] =
                (int64_t)attn_scalar(a, a->tensors[i].axes[n], call->sizes, call->params);
    const int64_t *q = o->dims[0], *k = o->dims[1], *v = o->dims[2];
    o->B = q[0], o->H = q[1], o->S = q[2], o->D = q[3];
    o->Hk = k[1], o->T = k[2];
    o->Hv = a->v_in_k ? k[1] : v[1], o->E = v[3];
    if (a->linear) { /* queries may share heads, too */
        if (o->Hk > o->H) o->H = o->Hk;
        if (o->Hv > o->H) o->H = o->Hv;
    }
    if (!check_sizes(o)) return false;
    if (a->linear) return true;
    make_programs(o);
    make_room(o);
    return true;
}
