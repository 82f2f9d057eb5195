/* gradient_print.c - the text of gradients, for people and for golden tests; it is not read again. */
#include "gradient.h"

static void one(const AuAttn *a, const char *head, AuExpr e, AuText *out)
{
    attn_print_value(a, head, &e, 1, out);
}

/* `pair d(bias[h, q_idx, kv_idx]) = value` */
static void print_inputs(const AuAttn *a, const char *what, const AuInputGrads *in, AuText *out)
{
    for (uint32_t i = 0; i < in->count; i++) {
        AuText read = {.arena = out->arena};
        attn_print_expr(a, in->at[i].read, &read);
        one(a, au_format(out->arena, "%s d(%s)", what, au_text_str(&read)), in->at[i].value, out);
    }
}

static void print_row(const AuAttn *a, const char *what, const AuRowGrad *g, AuText *out)
{
    one(a, au_format(out->arena, "%s_back", what), g->value, out);
    print_inputs(a, what, &g->inputs, out);
}

void gradient_print(const AuAttn *a, const AuGrads *g, AuText *out)
{
    au_text_add(out, "gradients %s {", a->name);
    one(a, "score", g->score, out);
    one(a, "weight", g->weight, out);
    for (uint32_t k = 0; k < g->pass_count; k++)
        one(a, au_format(out->arena, "pass%u", k), g->pass[k], out);
    for (uint32_t n = 0; n < a->online->final_count; n++)
        one(a, au_format(out->arena, "adjoint %s", a->online->finals[n].name), g->adjoint[n], out);
    one(a, "dscore", g->dscore, out);
    for (uint32_t n = 0; n < g->dot_count; n++) {
        AuText product = {.arena = out->arena};
        attn_print_expr(a, g->dots[n], &product);
        one(a, au_format(out->arena, "d(%s)", au_text_str(&product)), g->ddots[n], out);
    }
    print_inputs(a, "pair", &g->pairs, out);
    print_inputs(a, "row", &g->rows, out);
    print_row(a, "q_mod", &g->q, out);
    print_row(a, "k_mod", &g->k, out);
    print_row(a, "v_mod", &g->v, out);
    print_row(a, "out_mod", &g->out, out);
    au_text_add(out, "\n}\n");
}
