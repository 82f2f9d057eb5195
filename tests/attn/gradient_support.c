/* gradient_support.c - see gradient_support.h. */
#include "gradient_support.h"

#include <math.h>
#include <string.h>

#include "findings.h"
#include "front.h"

/* What is differentiated: sum dO O + sum dR R. */
static double loss(void *user)
{
    Check *k = user;
    double sum = 0;
    const char *why = "";
    AuArena *scratch = au_arena_new(NULL);
    if (!attn_interpret(k->c->a, &k->c->call, scratch, &why)) fail_msg("%s", why);
    au_arena_free(scratch);
    for (size_t n = 0; n < k->outs; n++) sum += k->dout[n] * k->c->o[n];
    for (uint32_t f = 0; f < k->c->a->online->final_count; f++)
        for (size_t n = 0; n < k->c->rows && k->dfinals[f]; n++)
            if (k->dfinals[f][n] != 0) sum += k->dfinals[f][n] * k->c->finals[f][n];
    return sum;
}

static void check_tensor(Check *k, uint32_t t, const char *name)
{
    double size = 0;
    const size_t count = k->c->counts[t];
    const size_t stride = count > 24 ? count / 19 : 1; /* some elements of large tensors */
    for (size_t n = 0; n < count; n++) size = fmax(size, fabs(k->grads[t][n]));
    for (size_t n = 0; n < count; n += stride) {
        const double found = k->grads[t][n];
        double step = 1e-2, expected;
        do { /* smaller ones where there is a kink or a pole near by */
            step *= 0.1;
            expected = attn_difference(&k->c->tensors[t][n], step, loss, k);
        } while (step > 1e-5 && !(fabs(found - expected) <= 1e-8 * (size + fabs(expected))));
        if (!(fabs(found - expected) <= 1e-8 * (size + fabs(expected)) + 1e-10))
            fail_msg("%s: d%s[%zu] is %.12g, expected %.12g", name, k->c->a->tensors[t].name, n,
                     found, expected);
    }
}

Check *check_new(Bench *b, Case *c, uint64_t seed)
{
    Check *k = AU_NEW(b->arena, Check);
    Random r = {seed};
    k->b = b;
    k->c = c;
    k->outs = c->rows * (size_t)attn_scalar(c->a, c->a->tensors[2].axes[3], c->sizes, NULL);
    k->dout = AU_NEW_ARRAY(b->arena, double, k->outs);
    for (size_t n = 0; n < k->outs; n++) k->dout[n] = random_between(&r, -1, 1);
    for (uint32_t i = 0; i < c->a->tensor_count; i++)
        k->grads[i] = AU_NEW_ARRAY(b->arena, double, c->counts[i]);
    c->call.weights = NULL;
    return k;
}

/* Whether the final takes a gradient from outside. */
static bool is_open(const AuAttn *a, AuExpr adjoint)
{
    for (uint32_t i = 1; i <= adjoint.i; i++)
        if (a->nodes[i].op == AU_OP_DFINAL) {
            bool *mark = AU_NEW_ARRAY(a->arena, bool, adjoint.i + 1);
            attn_mark(a, adjoint, mark);
            if (mark[i]) return true;
        }
    return false;
}

/* -inf has no difference. */
void check_give_finals(Check *k, const AuGrads *g, uint32_t count, uint64_t seed)
{
    Random r = {seed};
    case_run(k->b, k->c);
    for (uint32_t f = 0; f < count; f++) {
        if (k->c->a->online->finals[f].kept || !is_open(k->c->a, g->adjoint[f])) continue;
        k->dfinals[f] = AU_NEW_ARRAY(k->b->arena, double, k->c->rows);
        for (size_t n = 0; n < k->c->rows; n++)
            if (isfinite(k->c->finals[f][n])) k->dfinals[f][n] = random_between(&r, -1, 1);
    }
}

AuGrads *derive_gradients(Bench *b, AuAttn *a, const char *name)
{
    attn_simplify(a);
    AuGrads *g = attn_gradients(a, b->arena, b->diags);
    if (!g) fail_msg("%s: %s", name, bench_errors(b));
    if (!attn_verify(a, b->diags)) fail_msg("%s: %s", name, bench_errors(b));
    return g;
}

void check_gradients(Check *k, const AuGrads *g, const char *name)
{
    const char *why = "";
    if (!attn_interpret_gradients(k->c->a, g, &k->c->call, k->dout,
                                  (const double *const *)k->dfinals, k->grads, k->b->arena, &why))
        fail_msg("%s: %s", name, why);
}

void check_differences(Check *k, const AuGrads *g, const char *name)
{
    check_gradients(k, g, name);
    for (uint32_t i = 0; i < k->c->a->tensor_count; i++) {
        const AuTensor *t = &k->c->a->tensors[i];
        if (i == 2 && k->c->a->v_in_k) continue;
        if (i < 3 || t->grad) check_tensor(k, i, name);
    }
}

AuAttn *compile_script(Bench *b, const char *name, const char *text)
{
    uint32_t count;
    const uint32_t source = au_source_add(b->diags, name, text, strlen(text));
    AuScript *script = front_parse(b->arena, b->names, b->diags, source);
    AuAttn **all = front_check(b->arena, b->names, b->diags, script, &count);
    if (count != 1) fail_msg("%s: %s", name, bench_errors(b));
    return all[0];
}
