/* names.c - names in expressions: what each kind of name is worth in the present place, and what to say of one that is unknown. */
#include "check.h"

#include <string.h>

static AuValue query_position(AuCheck *c, AuSpan span)
{
    const AuExpr s = check_axis(c, AU_ROLE_Q, 2), t = check_axis(c, AU_ROLE_K, 2);
    const AuValue i = value_index(c, AU_AX_Q, span);
    if (!s.i || !t.i) return value_none(); /* q or k is missing, which is reported */
    if (s.i == t.i) return i;
    const AuValue ahead = value_binary(c, AU_OP_SUB, value_of(c, t), value_of(c, s), span);
    return value_binary(c, AU_OP_ADD, i, ahead, span);
}

/* One of the names that are always there, where it has a meaning. */
static AuValue index_value(AuCheck *c, const AuSymbol *s, AuSpan span)
{
    if (!(site_bits(c->site) & s->site_bit)) {
        check_error(c, AU_E0209, span, "'%s' is %s, which has no meaning in %s", s->name, s->what,
                    site_text(c->site));
        return value_none();
    }
    switch (s->site_bit) {
    case AU_SITE_B: return value_index(c, AU_AX_B, span);
    case AU_SITE_H: return value_index(c, AU_AX_H, span);
    case AU_SITE_KVH: break;
    case AU_SITE_KV: return value_index(c, AU_AX_KV, span);
    case AU_SITE_TOK: return value_index(c, AU_AX_TOK, span);
    default:
        return strcmp(s->name, "q_pos") == 0 ? query_position(c, span)
                                             : value_index(c, AU_AX_Q, span);
    }
    if (c->site == AU_SITE_V_MOD &&
        check_axis(c, AU_ROLE_K, 1).i != check_axis(c, AU_ROLE_V, 1).i) {
        check_error(c, AU_E0601, span,
                    "'kv_h' in v_mod is not supported where k and v have different heads");
        return value_none();
    }
    return value_of(c, attn_leaf(c->a, AU_OP_KV_H, AU_T_I32, AU_AX_H, 0, 0, span));
}

/* A let beside `linear`, in the slot that uses it; evaluated once for slots of keys and once for those of values. */
static AuValue lazy_value(AuCheck *c, AuSymbol *s)
{
    AuValue *known = c->site == AU_SITE_SLOT ? &s->slot_values[c->width_axis == AU_AX_V] : NULL;
    if (known && known->type) return *known;
    AuScope *scope = c->scope;
    AuModule *module = c->module;
    AuFrame *frame = c->frame;
    c->scope = c->outside;
    c->module = &c->user;
    c->frame = NULL;
    const AuValue v = check_expr(c, s->lazy);
    c->scope = scope;
    c->module = module;
    c->frame = frame;
    if (known) *known = v;
    return v;
}

static AuValue tensor_value(AuCheck *c, const AuSymbol *s, AuSpan span)
{
    const AuTensor *t = &c->a->tensors[s->index];
    if (!(site_bits(c->site) & AU_SITE_READ)) {
        check_error(c, AU_E0313, span, "%s cannot read the tensor '%s'", site_text(c->site),
                    s->name);
        return value_none();
    }
    if (t->role == AU_ROLE_INPUT && t->rank == 0)
        return value_of(c, attn_node(c->a, AU_OP_INPUT, NULL, 0, s->index, 0, span));
    if (site_bits(c->site) & AU_SITE_TENSOR) return check_whole_tensor(c, s->index, span);
    AuDiag *d = check_error(c, AU_E0308, span, "'%s' is a tensor of %u axes: it needs indices here",
                            s->name, t->rank);
    au_add_note(c->diags, d, t->span, "'%s' is declared here", s->name);
    return value_none();
}

/* A row scale or final that has no value in the present clause. */
static AuValue valueless(AuCheck *c, const AuSymbol *s, AuSpan span)
{
    if (c->dry && c->site == AU_SITE_START) return value_none();
    if (c->site == AU_SITE_COMBINE)
        check_error(c, AU_E0209, span,
                    "'%s' has two values in combine, those of the two sides: a.%s and b.%s",
                    s->name, s->name, s->name);
    else if (s->kind == AU_SYM_ROWSCALE)
        check_error(c, AU_E0209, span,
                    "the row scale '%s' is not visible in %s, which sees finals and parameters",
                    s->name, site_text(c->site));
    else
        check_error(c, AU_E0209, span, "the final '%s' has no value in %s", s->name,
                    site_text(c->site));
    return value_none();
}

static AuValue symbol_value(AuCheck *c, AuSymbol *s, AuSpan span)
{
    switch (s->kind) {
    case AU_SYM_VALUE:
    case AU_SYM_SIZE: return s->value;
    case AU_SYM_INDEX: return index_value(c, s, span);
    case AU_SYM_PARAM: {
        const AuType type = attn_type_of(c->a->params[s->index].dtype);
        return value_of(c, attn_leaf(c->a, AU_OP_PARAM, type, 0, s->index, 0, span));
    }
    case AU_SYM_TENSOR: return tensor_value(c, s, span);
    case AU_SYM_LAZY: return lazy_value(c, s);
    case AU_SYM_ROWSCALE:
    case AU_SYM_FINAL: return s->value.e.i || s->assigned ? s->value : valueless(c, s, span);
    case AU_SYM_SIDE:
        check_error(c, AU_E0212, span,
                    "'%s' is one side of combine: name a row scale of it, as in %s.m", s->name,
                    s->name);
        return value_none();
    }
    return value_none();
}

void check_unknown_name(AuCheck *c, const char *name, AuSpan span)
{
    c->wrong = true;
    if (c->incomplete) return; /* whoever forgot k forgot the names of its axes, too */
    const bool in_function = c->frame && c->frame->fn->kind == AU_ITEM_FN;
    const char *where = in_function                ? "a function"
                        : c->site == AU_SITE_CONST ? "a const"
                                                   : "an online function";
    if (nameset_has(c->module->script->lost, name) || nameset_has(c->user.script->lost, name))
        return;
    if (nameset_get(c->module->fns, name) || builtin_find(name)) {
        check_error(c, AU_E0211, span, "'%s' is a function: call it with arguments", name);
        return;
    }
    const bool theirs = c->outside && c->scope != c->outside && scope_find(c->outside, name);
    if (theirs || scope_is_always_there(name)) {
        AuDiag *d = check_error(c, AU_E0209, span, "'%s' is not visible in %s", name, where);
        au_add_note(c->diags, d, (AuSpan){0},
                    "it sees its parameters and consts: pass '%s' as an argument", name);
        return;
    }
    if (c->site == AU_SITE_MASK && (strcmp(name, "score") == 0 || strcmp(name, "scores") == 0)) {
        refuse_mask_by_score(c, span);
        return;
    }
    AuGuess guess = guess_new(c, name);
    guess_scope(&guess, c->scope);
    AuDiag *d =
        c->site == AU_SITE_AXIS
            ? check_error(c, AU_E0306, span,
                          "no tensor has an axis '%s' by itself, so its size is not known", name)
            : check_error(c, AU_E0201, span, "unknown name '%s'", name);
    guess_add_note(c, d, &guess);
}

AuValue check_name(AuCheck *c, const AuAst *e)
{
    AuSymbol *s = scope_find(c->scope, e->name);
    if (s) return symbol_value(c, s, e->span);
    check_unknown_name(c, e->name, e->span);
    return value_none();
}

/* a.m in combine. */
AuValue check_field(AuCheck *c, const AuAst *e)
{
    const AuSymbol *side = scope_find(c->scope, e->name);
    const AuSymbol *scale = scope_find(c->scope, e->field);
    if (!side) {
        check_unknown_name(c, e->name, e->name_span);
    } else if (side->kind != AU_SYM_SIDE) {
        check_error(c, AU_E0212, e->span,
                    "'%s' has no fields; only the sides of combine have, one for each row scale",
                    e->name);
    } else if (!scale || scale->kind != AU_SYM_ROWSCALE) {
        AuGuess guess = guess_new(c, e->field);
        for (const AuScope *s = c->scope; s; s = s->parent)
            for (uint32_t i = 0; i < s->names->size; i++) {
                const AuSymbol *other = s->names->slots[i].value;
                if (other && other->kind == AU_SYM_ROWSCALE) guess_try(&guess, other->name);
            }
        AuDiag *d = check_error(c, AU_E0212, e->span,
                                "'%s' is not a row scale of this online function", e->field);
        guess_add_note(c, d, &guess);
        if (d->fix) d->fix = au_format(c->arena, "%s.%s", e->name, d->fix);
    } else {
        const AuOp op = side->index ? AU_OP_STATE_B : AU_OP_STATE;
        return value_of(c, attn_leaf(c->a, op, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q, scale->index,
                                     0, e->span));
    }
    return value_none();
}
