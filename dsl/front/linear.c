/* linear.c - `linear` blocks: slots into an AuLinear, with the axes each may have and what goes together.
 * Tensors without indices stand for themselves, broadcast by the names of their axes. */
#include "check.h"

#include <string.h>

typedef struct Slot {
    const char *name;
    uint8_t axes;
    size_t field;
} Slot;

// clang-format off
enum { B = AU_AX_B, H = AU_AX_H, TOK = AU_AX_TOK, K = AU_AX_K, V = AU_AX_V };
static const Slot slots[] = {
#define SLOT(name, axes, field) {#name, axes, offsetof(AuLinear, field)},
#include "slots.def"
#undef SLOT
};
// clang-format on
enum { SLOTS = sizeof slots / sizeof *slots };

/* ---- whole tensors */

static AuExpr width_of(const AuCheck *c, AuTensorRole role) { return check_axis(c, role, 3); }

/* Which of batch, heads, length and width (0 to 3) an axis is, at [from] or behind; 4: none of them. */
static int place_of(const AuCheck *c, AuExpr axis, int from)
{
    const AuExpr places[4][3] = {
        {check_axis(c, AU_ROLE_Q, 0)},
        {check_axis(c, AU_ROLE_Q, 1), check_axis(c, AU_ROLE_K, 1), check_axis(c, AU_ROLE_V, 1)},
        {check_axis(c, AU_ROLE_K, 2)},
        {width_of(c, AU_ROLE_K), width_of(c, AU_ROLE_V)},
    };
    for (int place = from; place < 4; place++)
        for (int n = 0; n < 3; n++)
            if (places[place][n].i == axis.i) return place;
    return 4;
}

/* Which index an axis of an input stands for; false: none. Sizes that are equal numbers (8 heads of width 8) are told apart by
 * the usual order of axes; *place is that of the axis before. */
static bool axis_of(const AuCheck *c, AuExpr axis, int *place, uint8_t *out)
{
    static const uint8_t bits[] = {B, H, TOK};
    const AuNode *n = attn_at(c->a, axis);
    const bool one = n->op == AU_OP_I32 && n->integer == 1;
    int at = place_of(c, axis, *place + 1);
    if (at == 4) at = place_of(c, axis, 0);
    *out = 0;
    if (at == 4) return one;
    *place = at;
    if (at < 3)
        *out = bits[at];
    else if (width_of(c, AU_ROLE_K).i == width_of(c, AU_ROLE_V).i)
        *out = c->width_axis;
    else
        *out = axis.i == width_of(c, AU_ROLE_V).i ? V : K;
    return true;
}

AuValue check_whole_tensor(AuCheck *c, int32_t tensor, AuSpan span)
{
    const AuTensor t = c->a->tensors[tensor];
    uint8_t axes = t.role == AU_ROLE_V       ? B | H | TOK | V
                   : t.role == AU_ROLE_INPUT ? 0
                                             : B | H | TOK | K,
            one = 0;
    int place = -1;
    for (uint32_t i = 0; i < t.rank && t.role == AU_ROLE_INPUT; i++) {
        if (!t.axes[i].i) return value_none(); /* an expression that is wrong, reported */
        const bool known = axis_of(c, t.axes[i], &place, &one);
        if (!known || (axes & one)) {
            AuDiag *d = check_error(
                c, AU_E0308, span, "axis %u of '%s' is %s: it needs indices here", i + 1, t.name,
                known ? "one that it has already" : "none of batch, heads, length and widths");
            au_add_note(c->diags, d, t.span, "'%s' is declared here", t.name);
            return value_none();
        }
        axes |= one;
    }
    return value_of(c, attn_leaf(c->a, AU_OP_TENSOR, attn_type_of(t.dtype), axes, tensor, 0, span));
}

/* ---- slots */

static const char *axes_text(const AuCheck *c, uint8_t axes)
{
    static const char *const names[] = {"batch",   "head",  "query",           "key",
                                        "channel", "token", "channel of keys", "channel of values"};
    AuText text = {.arena = c->arena};
    for (uint32_t i = 0; i < 8; i++)
        if (axes >> i & 1) au_text_add(&text, "%s%s", text.length ? ", " : "", names[i]);
    return au_text_str(&text);
}

static AuExpr slot_value(AuCheck *c, const AuAst *e, const char *name, uint8_t allowed)
{
    c->width_axis = allowed & V ? V : K;
    const AuValue v = value_to_f32(c, check_expr(c, e), e->span, name);
    if (v.type == AU_T_NONE) return (AuExpr){0};
    const uint8_t foreign = value_axes(c, v) & (uint8_t)~allowed;
    if (!foreign) return v.e;
    check_error(c, AU_E0411, e->span, "%s depends on %s at most, this depends on %s, too", name,
                axes_text(c, allowed), axes_text(c, foreign));
    return (AuExpr){0};
}

/* `norm` is an expression of `sum`, the same recurrence over a column of ones. */
static AuExpr norm_value(AuCheck *c, const AuAst *e, uint8_t allowed)
{
    AuScope *scope = scope_new(c, c->outside);
    const AuAstName name = {au_name(c->names, "sum"), e->span};
    const AuExpr sum = attn_leaf(c->a, AU_OP_ELEMENT, AU_T_F32,
                                 attn_element_axes(AU_PLACE_LIN_NORM), 0, 0, e->span);
    scope_declare(c, scope, AU_SYM_VALUE, name, "the running sum")->value = value_of(c, sum);
    c->scope = scope;
    const AuExpr value = slot_value(c, e, "norm", allowed);
    c->scope = c->outside;
    return value;
}

static bool read_order(AuCheck *c, const AuItem *slot)
{
    const AuAst *e = slot->list.items[0];
    if (e->kind == AU_AST_NAME && strcmp(e->name, "before") == 0) return true;
    if (e->kind == AU_AST_NAME && strcmp(e->name, "after") == 0) return false;
    if (e->kind == AU_AST_NAME && refuse_word(c, e->name, e->span)) return false;
    check_error(c, AU_E0204, e->span, "read is 'before' or 'after' the present token is written");
    return false;
}

static void unknown_slot(AuCheck *c, const AuItem *slot)
{
    AuGuess guess = guess_new(c, slot->name.text);
    if (refuse_word(c, slot->name.text, slot->name.span)) return;
    for (uint32_t i = 0; i < SLOTS; i++) guess_try(&guess, slots[i].name);
    guess_try(&guess, "lowrank");
    guess_try(&guess, "read");
    AuDiag *d =
        check_error(c, AU_E0204, slot->name.span, "unknown slot '%s' of linear", slot->name.text);
    guess_add_note(c, d, &guess);
}

static void check_slot(AuCheck *c, const AuItem *slot, AuLinear *out)
{
    const char *name = slot->name.text;
    const uint32_t count = slot->list.count, wanted = strcmp(name, "lowrank") == 0 ? 2 : 1;
    const Slot *s = NULL;
    for (uint32_t i = 0; i < SLOTS; i++)
        if (strcmp(slots[i].name, name) == 0) s = &slots[i];
    if (!s && wanted == 1 && strcmp(name, "read") != 0) {
        unknown_slot(c, slot);
    } else if (count != wanted) {
        check_error(c, AU_E0317, slot->span,
                    wanted == 2 ? "lowrank is a pair: lowrank = (a, b)"
                                : "%s is one expression, found two",
                    name);
    } else if (wanted == 2) {
        out->lowrank_a = slot_value(c, slot->list.items[0], "lowrank", B | H | TOK | K);
        out->lowrank_b = slot_value(c, slot->list.items[1], "lowrank", B | H | TOK | K);
    } else if (!s) {
        out->read_before = read_order(c, slot);
    } else {
        AuExpr *field = (AuExpr *)(void *)((char *)out + s->field);
        *field = field == &out->norm ? norm_value(c, slot->list.items[0], s->axes)
                                     : slot_value(c, slot->list.items[0], name, s->axes);
    }
}

static const AuItem *find_slot(const AuItem *linear, const char *name)
{
    for (uint32_t i = 0; i < linear->items.count; i++)
        if (strcmp(linear->items.items[i]->name.text, name) == 0) return linear->items.items[i];
    return NULL;
}

static void exclude(AuCheck *c, const AuItem *linear, const char *one, const char *other,
                    const char *why)
{
    const AuItem *x = find_slot(linear, one), *y = find_slot(linear, other);
    if (!x || !y) return;
    AuDiag *d = check_error(c, AU_E0409, y->name.span, "'%s' and '%s' do not go together: %s", one,
                            other, why);
    au_add_note(c->diags, d, x->name.span, "'%s' is given here", one);
}

static void check_combination(AuCheck *c, const AuItem *item, const AuLinear *out)
{
    const AuItem *bonus = find_slot(item, "bonus");
    exclude(c, item, "erase", "lowrank",
            "both change what the state keeps; erase is lowrank = (-decay * k, erase * k)");
    exclude(c, item, "erase", "norm", "the sum of weights of the delta rule has no meaning");
    exclude(c, item, "lowrank", "norm", "the sum of weights of a low-rank update has no meaning");
    if (!bonus || out->read_before) return;
    AuDiag *d =
        check_error(c, AU_E0409, bonus->name.span,
                    "'bonus' weighs the present token, which 'read = after' has counted already");
    au_add_note(c->diags, d, (AuSpan){0}, "add 'read = before;'");
}

void check_linear(AuCheck *c, const AuItem *item)
{
    AuLinear *out = AU_NEW(c->arena, AuLinear);
    AuNameSet *seen = nameset_new(c->arena);
    out->span = item->span;
    c->site = AU_SITE_SLOT;
    for (uint32_t i = 0; i < item->items.count; i++) {
        AuItem *slot = item->items.items[i];
        const AuItem *before = nameset_put(seen, slot->name.text, slot);
        if (before) {
            AuDiag *d =
                check_error(c, AU_E0214, slot->name.span, "'%s' is given twice", slot->name.text);
            au_add_note(c->diags, d, before->name.span, "it is given here, too");
        } else {
            check_slot(c, slot, out);
        }
    }
    check_combination(c, item, out);
    if (out->decay.i) check_decay(c, out->decay, find_slot(item, "decay")->list.items[0]->span);
    c->a->linear = out;
}
