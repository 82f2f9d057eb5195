/* params.c - params, lets and requires of an attention. */
#include "check.h"

static AuExpr default_value(AuCheck *c, const AuItem *item, AuDtype dtype)
{
    c->site = AU_SITE_DEFAULT;
    AuValue v = check_expr(c, item->value);
    const AuType type = attn_type_of(dtype);
    if (v.type == AU_T_I32 && type == AU_T_F32)
        v = value_to_f32(c, v, item->value->span, "the default");
    if (v.type == AU_T_NONE || v.type == type) return v.e;
    check_error(c, AU_E0309, item->value->span, "the default of '%s' is %s, the param is %s",
                item->name.text, value_type_text(v.type), item->dtype.text);
    return (AuExpr){0};
}

static bool dtype_of_param(AuDtype dtype)
{
    return dtype == AU_DT_F32 || dtype == AU_DT_I32 || dtype == AU_DT_I64 || dtype == AU_DT_BOOL;
}

void check_params(AuCheck *c)
{
    const AuItemList *items = &c->attention->items;
    for (uint32_t i = 0; i < items->count; i++) {
        const AuItem *item = items->items[i];
        if (item->kind != AU_ITEM_PARAM) continue;
        bool ok;
        AuParam p = {.name = item->name.text, .span = item->name.span};
        p.dtype = check_dtype(c, item->dtype, &ok);
        if (ok && !dtype_of_param(p.dtype)) {
            check_error(c, AU_E0309, item->dtype.span, "a param is f32, i32, i64 or bool, found %s",
                        item->dtype.text);
            p.dtype = attn_type_of(p.dtype) == AU_T_F32 ? AU_DT_F32 : AU_DT_I32;
        }
        if (item->value) p.default_value = default_value(c, item, p.dtype);
        AuSymbol *s = scope_declare(c, c->scope, AU_SYM_PARAM, item->name, "a param");
        s->index = (int32_t)attn_add_param(c->a, p);
    }
}

/* In the softmax family one number a launch. Beside `linear` the axes of a let depend on the slot that uses it. */
static void check_attention_let(AuCheck *c, const AuItem *item)
{
    c->site = c->linear ? AU_SITE_SLOT : AU_SITE_LET;
    c->width_axis = AU_AX_K;
    const AuValue v = check_expr(c, item->value);
    AuSymbol *s =
        scope_declare(c, c->scope, c->linear ? AU_SYM_LAZY : AU_SYM_VALUE, item->name, "a let");
    s->value = v;
    s->lazy = item->value;
}

static void check_require(AuCheck *c, const AuItem *item)
{
    c->site = AU_SITE_REQUIRE;
    const AuValue v = check_expr(c, item->value);
    if (value_is_bool(c, v, item->value->span, "require"))
        attn_add_require(c->a,
                         (AuRequire){.holds = v.e, .span = item->value->span, .is_written = true});
}

void check_lets_and_requires(AuCheck *c)
{
    const AuItemList *items = &c->attention->items;
    for (uint32_t i = 0; i < items->count; i++) {
        if (items->items[i]->kind == AU_ITEM_LET) check_attention_let(c, items->items[i]);
        if (items->items[i]->kind == AU_ITEM_REQUIRE) check_require(c, items->items[i]);
    }
}
