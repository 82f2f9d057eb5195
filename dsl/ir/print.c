/* print.c - the text form of the attention IR (docs/dev/attention-ir.md).
 * Each place is a block: `$n = ...` for what is used more than once there or stands too deep, then
 * the value, so that the printer never recurses deeper than LEVELS, whatever the graph. */
#include "printer.h"

#include <string.h>

enum { LEVELS = 24, BUDGET = 64 };

static Printer printer(const AuAttn *a, AuText *out)
{
    Printer p = {.a = a, .out = out, .scratch = out->arena, .indent = 1};
    p.let = AU_NEW_ARRAY(p.scratch, uint32_t, a->node_count);
    p.uses = AU_NEW_ARRAY(p.scratch, uint32_t, a->node_count);
    p.height = AU_NEW_ARRAY(p.scratch, uint32_t, a->node_count);
    p.mark = AU_NEW_ARRAY(p.scratch, bool, a->node_count);
    return p;
}

static const char *dtype_text(AuDtype dtype)
{
    static const char *const texts[] = {"operand", "f32", "f16", "bf16",
                                        "i32",     "i64", "u8",  "bool"};
    return texts[dtype];
}

/* ---- blocks */

static void line(Printer *p) { au_text_add(p->out, "\n%*s", (int)(4 * p->indent), ""); }

/* Numbers the nodes of the block that get a let: used more than once, or LEVELS deep. Returns how
 * many. */
static uint32_t number_lets(Printer *p, const AuExpr *roots, uint32_t count)
{
    const AuAttn *a = p->a;
    bool *mark = p->mark;
    uint32_t *uses = p->uses, *height = p->height;
    uint32_t lets = 0, top = 0;
    memset(mark, 0, a->node_count * sizeof *mark);
    memset(uses, 0, a->node_count * sizeof *uses);
    memset(height, 0, a->node_count * sizeof *height);
    memset(p->let, 0, a->node_count * sizeof *p->let);
    for (uint32_t i = 0; i < count; i++) {
        attn_mark(a, roots[i], mark);
        uses[roots[i].i]++;
        if (roots[i].i > top) top = roots[i].i;
    }
    for (uint32_t i = 1; i <= top; i++)
        for (uint32_t k = 0; mark[i] && k < a->nodes[i].count; k++)
            uses[a->args[a->nodes[i].first + k].i]++;
    for (uint32_t i = 1; i <= top; i++) {
        const AuNode *n = &a->nodes[i];
        if (!mark[i] || n->count == 0) continue;
        for (uint32_t k = 0; k < n->count; k++) {
            const uint32_t below = height[a->args[n->first + k].i] + 1;
            if (below > height[i]) height[i] = below;
        }
        if (uses[i] < 2 && height[i] < LEVELS) continue;
        p->let[i] = ++lets;
        height[i] = 0;
    }
    return lets;
}

static void print_lets(Printer *p)
{
    for (uint32_t i = 1; i < p->a->node_count; i++) {
        const uint32_t number = p->let[i];
        if (!number) continue;
        line(p);
        au_text_add(p->out, "$%u = ", number);
        p->let[i] = 0; /* its own text, not its name */
        printer_expr(p, (AuExpr){i}, 0);
        p->let[i] = number;
    }
}

static void print_list(Printer *p, const AuExpr *roots, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        au_text_add(p->out, i ? ", " : "");
        printer_expr(p, roots[i], 0);
    }
}

/* `head = value`, or `head {` lets and `return` values `}`. */
static void print_value(Printer *p, const char *head, const AuExpr *roots, uint32_t count)
{
    if (!roots[0].i) return;
    const uint32_t lets = number_lets(p, roots, count);
    line(p);
    au_text_add(p->out, "%s%s", head, lets ? " {" : " = ");
    if (!lets) {
        print_list(p, roots, count);
        return;
    }
    p->indent++;
    print_lets(p);
    line(p);
    au_text_add(p->out, "return ");
    print_list(p, roots, count);
    p->indent--;
    line(p);
    au_text_add(p->out, "}");
}

typedef struct Assignment {
    const char *name;
    AuExpr value;
} Assignment;

/* `head {` lets, assignments, `return` values `}`. */
static void print_clause(Printer *p, const char *head, const Assignment *set, uint32_t set_count,
                         const AuExpr *values, uint32_t count)
{
    AuExpr *roots = AU_NEW_ARRAY(p->scratch, AuExpr, set_count + count);
    for (uint32_t i = 0; i < set_count; i++) roots[i] = set[i].value;
    for (uint32_t i = 0; i < count; i++) roots[set_count + i] = values[i];
    number_lets(p, roots, set_count + count);
    line(p);
    au_text_add(p->out, "%s {", head);
    p->indent++;
    print_lets(p);
    for (uint32_t i = 0; i < set_count; i++) {
        line(p);
        au_text_add(p->out, "%s = ", set[i].name);
        printer_expr(p, set[i].value, 0);
    }
    line(p);
    au_text_add(p->out, "return ");
    print_list(p, values, count);
    p->indent--;
    line(p);
    au_text_add(p->out, "}");
}

/* ---- sections */

static void print_declaration(Printer *p, const AuTensor *t)
{
    static const char *const roles[] = {"query", "key", "value", "input"};
    const AuAttn *a = p->a;
    number_lets(p, t->axes, t->rank);
    print_lets(p);
    line(p);
    au_text_add(p->out, "%s %s", roles[t->role], t->name);
    if (t->role == AU_ROLE_V && a->v_in_k) au_text_add(p->out, " = %d:%d", a->v_first, a->v_last);
    au_text_add(p->out, ": %s[", dtype_text(t->dtype));
    print_list(p, t->axes, t->rank);
    au_text_add(p->out, t->grad ? "] grad" : "]");
}

static void print_declarations(Printer *p)
{
    const AuAttn *a = p->a;
    for (uint32_t i = 0; i < a->size_count; i++) {
        line(p);
        au_text_add(p->out, "size ");
        printer_size(p, (int32_t)i);
        if (a->sizes[i].fixed >= 0) au_text_add(p->out, " = %lld", (long long)a->sizes[i].fixed);
    }
    for (uint32_t i = 0; i < a->param_count; i++) {
        const AuParam *m = &a->params[i];
        char *head = au_format(p->scratch, "param %s: %s", m->name, dtype_text(m->dtype));
        if (m->default_value.i) {
            print_value(p, head, &m->default_value, 1);
            continue;
        }
        line(p);
        au_text_add(p->out, "%s", head);
    }
    for (uint32_t i = 0; i < a->tensor_count; i++) print_declaration(p, &a->tensors[i]);
    for (uint32_t i = 0; i < a->require_count; i++)
        print_value(p, "require", &a->requires[i].holds, 1);
}

static void print_online(Printer *p, const AuOnline *o)
{
    const uint32_t scales = o->scale_count, finals = o->final_count;
    Assignment *set = AU_NEW_ARRAY(p->scratch, Assignment, scales + finals);
    line(p);
    au_text_add(p->out, "online %s {", o->name);
    p->indent++;
    for (uint32_t i = 0; i < scales; i++)
        print_value(p, au_format(p->scratch, "rowscale %s", o->scales[i].name), &o->scales[i].start,
                    1);
    for (uint32_t i = 0; i < finals; i++) {
        line(p);
        au_text_add(p->out, "%s %s", o->finals[i].kept ? "kept" : "final", o->finals[i].name);
    }
    for (uint32_t i = 0; i < scales; i++)
        set[i] = (Assignment){o->scales[i].name, o->scales[i].next};
    print_clause(p, "online_fwd", set, scales, (AuExpr[]){o->weight, o->rescale}, 2);
    for (uint32_t i = 0; i < finals; i++)
        set[i] = (Assignment){o->finals[i].name, o->finals[i].value};
    print_clause(p, "epilogue", set, finals, &o->epilogue, 1);
    print_value(p, "forward", &o->forward, 1);
    print_value(p, "backward", &o->backward, 1);
    if (o->has_combine) {
        for (uint32_t i = 0; i < scales; i++)
            set[i] = (Assignment){o->scales[i].name, o->scales[i].combined};
        print_clause(p, o->combine_derived ? "combine derived" : "combine", set, scales,
                     (AuExpr[]){o->combine_a, o->combine_b}, 2);
    }
    p->indent--;
    line(p);
    au_text_add(p->out, "}");
}

static void print_linear(Printer *p, const AuLinear *l)
{
    line(p);
    au_text_add(p->out, "linear {");
    p->indent++;
    print_value(p, "q", &l->q, 1);
    print_value(p, "k", &l->k, 1);
    print_value(p, "v", &l->v, 1);
    print_value(p, "decay", &l->decay, 1);
    print_value(p, "erase", &l->erase, 1);
    print_value(p, "write", &l->write, 1);
    print_value(p, "bonus", &l->bonus, 1);
    print_value(p, "norm", &l->norm, 1);
    print_value(p, "skip", &l->skip, 1);
    print_value(p, "lowrank", (AuExpr[]){l->lowrank_a, l->lowrank_b}, 2);
    if (l->read_before) {
        line(p);
        au_text_add(p->out, "read before");
    }
    p->indent--;
    line(p);
    au_text_add(p->out, "}");
}

void attn_print(const AuAttn *a, AuText *out)
{
    Printer p = printer(a, out);
    au_text_add(out, "attention %s {", a->name);
    print_declarations(&p);
    print_value(&p, "q_mod", &a->q_mod, 1);
    print_value(&p, "k_mod", &a->k_mod, 1);
    print_value(&p, "v_mod", &a->v_mod, 1);
    print_value(&p, "score_mod", &a->score_mod, 1);
    print_value(&p, "mask", &a->mask, 1);
    print_value(&p, "weight_mod", &a->weight_mod, 1);
    if (a->online) print_online(&p, a->online);
    if (a->linear) print_linear(&p, a->linear);
    print_value(&p, "out_mod", &a->out_mod, 1);
    au_text_add(out, "\n}\n");
}

void attn_print_value(const AuAttn *a, const char *head, const AuExpr *roots, uint32_t count,
                      AuText *out)
{
    Printer p = printer(a, out);
    print_value(&p, head, roots, count);
}

void attn_print_expr(const AuAttn *a, AuExpr e, AuText *out)
{
    Printer p = printer(a, out);
    p.budget = BUDGET;
    if (e.i) printer_expr(&p, e, 0);
}
