/* expand.c - tile_expand: the program that the verifier, the interpreter and the lowering see.
 *
 * Constants become literals and literals are folded. A call of a hook becomes its body: parameters are bound to the arguments,
 * every assignment of the body gets a variable of its own (bodies are straight lines, so this is static single assignment), and
 * what it returns takes the place of the call. The statements of the body stand before the statement that calls. A variable that
 * holds a tuple becomes one variable for each component. */
#include "expand.h"

#include "fold.h"

#include <string.h>

enum { MAX_INLINE_DEPTH = 32 }; /* hooks that call hooks; deeper means that one calls itself */

const char *keep(Expand *x, const char *name) { return name ? au_name(x->out->names, name) : NULL; }

void expand_error(Expand *x, AuCode code, AuSpan span, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *message = au_vformat(x->diags->arena, format, arguments);
    va_end(arguments);
    au_error(x->diags, code, span, "%s", message);
    x->failed = true;
}

/* ---- names */

static bool is_taken(const Expand *x, const char *name)
{
    for (uint32_t i = 0; i < x->taken.count; i++)
        if (x->taken.at[i] == name) return true;
    return false;
}

void take(Expand *x, const char *name)
{
    name = keep(x, name);
    if (name && !is_taken(x, name))
        AU_PUSH(x->arena, x->taken.at, x->taken.count, x->taken.capacity, name);
}

/* `base`, or `base_2`, `base_3`, ...: the first that nothing in the kernel is called. */
static const char *fresh(Expand *x, const char *base)
{
    const char *name = keep(x, base);
    for (uint32_t n = 2; is_taken(x, name); n++)
        name = keep(x, au_format(x->arena, "%s_%u", base, n));
    take(x, name);
    return name;
}

static AuTileExpr *lookup(const Binding *b, const char *name)
{
    for (; b; b = b->before)
        if (b->name == name) return b->value;
    return NULL;
}

static Binding *bind(Expand *x, Binding *before, const char *name, AuTileExpr *value)
{
    Binding *b = AU_NEW(x->arena, Binding);
    *b = (Binding){name, value, before};
    return b;
}

static AuTileExpr *name_expr(Expand *x, const char *name, AuSpan span)
{
    AuTileExpr *e = AU_NEW(x->arena, AuTileExpr);
    *e = (AuTileExpr){.op = TILE_X_NAME, .span = span, .name = name};
    return e;
}

/* ---- assignments. Values are expanded already. */

static void emit(Expand *x, const char *name, AuTileExpr *value)
{
    AuTileStmt *s = AU_NEW(x->arena, AuTileStmt);
    s->kind = TILE_S_ASSIGN;
    s->span = x->span.source ? x->span : value->span;
    AU_PUSH(x->arena, s->assign.names.at, s->assign.names.count, s->assign.names.capacity, name);
    s->assign.value = value;
    AU_PUSH(x->arena, x->emit->at, x->emit->count, x->emit->capacity, s);
}

/* May stand anywhere, any number of times. */
static bool is_simple(const AuTileExpr *e)
{
    if (e->op != TILE_X_TUPLE) return e->op == TILE_X_NAME || is_literal(e);
    for (uint32_t i = 0; i < e->args.count; i++)
        if (!is_simple(e->args.at[i])) return false;
    return true;
}

/* A simple expression of the same value: what is not simple goes into variables named after `base`. */
static AuTileExpr *simplified(Expand *x, const char *base, AuTileExpr *value)
{
    if (is_simple(value)) return value;
    if (value->op == TILE_X_TUPLE) {
        for (uint32_t i = 0; i < value->args.count; i++)
            value->args.at[i] = simplified(x, base, value->args.at[i]);
        return value;
    }
    const char *name = fresh(x, base);
    emit(x, name, value);
    return name_expr(x, name, value->span);
}

static bool reads(const AuTileExpr *e, const char *name)
{
    if (e->op == TILE_X_NAME && e->name == name) return true;
    for (uint32_t i = 0; i < e->args.count; i++)
        if (reads(e->args.at[i], name)) return true;
    return false;
}

/* The variables of a tuple variable, shaped like `value`. */
static AuTileExpr *components(Expand *x, const char *name, const AuTileExpr *value)
{
    AuTileExpr *tuple = AU_NEW(x->arena, AuTileExpr);
    *tuple = (AuTileExpr){.op = TILE_X_TUPLE, .span = value->span};
    for (uint32_t i = 0; i < value->args.count; i++) {
        const AuTileExpr *item = value->args.at[i];
        const char *part = au_format(x->arena, "%s_%u", name, i);
        AuTileExpr *e = item->op == TILE_X_TUPLE ? components(x, part, item)
                                                 : name_expr(x, fresh(x, part), item->span);
        AU_PUSH(x->arena, tuple->args.at, tuple->args.count, tuple->args.capacity, e);
    }
    return tuple;
}

/* Splits name = value into pairs of variables and values without tuples. */
static void pair_up(Expand *x, Pairs *pairs, AuTileExpr *target, AuTileExpr *value)
{
    const bool tuples = target->op == TILE_X_TUPLE;
    if (tuples != (value->op == TILE_X_TUPLE) ||
        (tuples && target->args.count != value->args.count)) {
        expand_error(x, AU_E0703, value->span, "a tuple of %u values where %u are expected",
                     value->op == TILE_X_TUPLE ? value->args.count : 1,
                     tuples ? target->args.count : 1);
        return;
    }
    for (uint32_t i = 0; tuples && i < target->args.count; i++)
        pair_up(x, pairs, target->args.at[i], value->args.at[i]);
    if (tuples) return;
    const Pair pair = {target->name, value};
    AU_PUSH(x->arena, pairs->at, pairs->count, pairs->capacity, pair);
}

static AuTileExpr *target_of(Expand *x, const char *name, const AuTileExpr *value, AuSpan span)
{
    AuTileExpr *tuple = lookup(x->tuples, name);
    if (tuple) return tuple;
    if (value->op != TILE_X_TUPLE) return name_expr(x, name, span);
    tuple = components(x, name, value);
    x->tuples = bind(x, x->tuples, name, tuple);
    return tuple;
}

/* All values are those before the assignment: one that reads an earlier target is put aside first. */
static void assign_pairs(Expand *x, const Pairs *pairs)
{
    for (uint32_t j = 1; j < pairs->count; j++)
        for (uint32_t i = 0; i < j; i++)
            if (reads(pairs->at[j].value, pairs->at[i].name)) {
                const char *aside = fresh(x, pairs->at[j].name);
                emit(x, aside, pairs->at[j].value);
                pairs->at[j].value = name_expr(x, aside, pairs->at[j].value->span);
                break;
            }
    for (uint32_t i = 0; i < pairs->count; i++) {
        const AuTileExpr *v = pairs->at[i].value;
        if (v->op == TILE_X_NAME && v->name == pairs->at[i].name) continue; /* x = x */
        emit(x, pairs->at[i].name, pairs->at[i].value);
    }
}

static bool split_values(Expand *x, const AuTileNames *names, AuTileExpr *value, AuTileExprs *out)
{
    if (names->count == 1) {
        AU_PUSH(x->arena, out->at, out->count, out->capacity, value);
        return true;
    }
    if (value->op != TILE_X_TUPLE || value->args.count != names->count) {
        expand_error(x, AU_E0703, value->span, "%u names for %u values", names->count,
                     value->op == TILE_X_TUPLE ? value->args.count : 1);
        return false;
    }
    *out = value->args;
    return true;
}

void expand_assign(Expand *x, const AuTileStmt *s)
{
    AuTileExprs values = {0};
    AuTileExpr *value = expand_expr(x, NULL, s->assign.value);
    if (!split_values(x, &s->assign.names, value, &values)) return;
    Pairs pairs = {0};
    for (uint32_t i = 0; i < values.count; i++) {
        const char *name = keep(x, s->assign.names.at[i]);
        pair_up(x, &pairs, target_of(x, name, values.at[i], s->span), values.at[i]);
    }
    assign_pairs(x, &pairs);
}

/* ---- hooks */

static const AuTileFn *find_hook(const Expand *x, const char *name)
{
    for (uint32_t i = x->in->fns.count; i-- > 0;)
        if (strcmp(x->in->fns.at[i]->name, name) == 0) return x->in->fns.at[i];
    for (uint32_t m = x->expansion ? x->expansion->hook_count : 0; m-- > 0;) {
        const AuTileModule *module = x->expansion->hooks[m];
        for (uint32_t i = module->fns.count; i-- > 0;)
            if (strcmp(module->fns.at[i]->name, name) == 0) return module->fns.at[i];
    }
    return NULL;
}

static uint32_t uses(const AuTileExpr *e, const char *name)
{
    uint32_t n = e->op == TILE_X_NAME && e->name == name;
    for (uint32_t i = 0; i < e->args.count; i++) n += uses(e->args.at[i], name);
    return n;
}

/* A body that is one expression may take an argument as it is if it has one use for it. */
static bool takes_once(const AuTileFn *fn, const char *param)
{
    const AuTileStmt *last = fn->body.at[fn->body.count - 1];
    return fn->body.count == 1 && last->ret.items.count == 1 &&
           uses(last->ret.items.at[0], param) <= 1;
}

static Binding *inline_assign(Expand *x, Binding *env, const AuTileStmt *s)
{
    AuTileExprs values = {0};
    if (!split_values(x, &s->assign.names, expand_expr(x, env, s->assign.value), &values))
        return env;
    for (uint32_t i = 0; i < values.count; i++)
        values.at[i] = simplified(x, s->assign.names.at[i], values.at[i]);
    for (uint32_t i = 0; i < values.count; i++)
        env = bind(x, env, s->assign.names.at[i], values.at[i]);
    return env;
}

static AuTileExpr *inline_body(Expand *x, Binding *env, const AuTileFn *fn)
{
    AuTileExpr *tuple = AU_NEW(x->arena, AuTileExpr);
    *tuple = (AuTileExpr){.op = TILE_X_TUPLE, .span = fn->span};
    for (uint32_t i = 0; i + 1 < fn->body.count; i++) env = inline_assign(x, env, fn->body.at[i]);
    const AuTileStmt *last = fn->body.at[fn->body.count - 1];
    for (uint32_t i = 0; i < last->ret.items.count; i++) {
        AuTileExpr *item = expand_expr(x, env, last->ret.items.at[i]);
        AU_PUSH(x->arena, tuple->args.at, tuple->args.count, tuple->args.capacity, item);
    }
    return tuple->args.count == 1 ? tuple->args.at[0] : tuple;
}

/* Names are of [call], which outlives the expansion as its module does. */
static void note_call(Expand *x, const AuTileExpr *call)
{
    AuTileNames *called = x->expansion ? x->expansion->called : NULL;
    if (!called) return;
    for (uint32_t n = 0; n < called->count; n++)
        if (strcmp(called->at[n], call->name) == 0) return;
    AU_PUSH(x->arena, called->at, called->count, called->capacity, call->name);
}

static AuTileExpr *inline_call(Expand *x, Binding *env, const AuTileExpr *call)
{
    AuTileExpr *nothing = AU_NEW(x->arena, AuTileExpr);
    nothing->span = call->span;
    const AuTileFn *fn = find_hook(x, call->name);
    if (!fn) {
        expand_error(x, AU_E0702, call->span, "no function or hook is called %s", call->name);
        return nothing;
    }
    if (fn->params.count != call->args.count) {
        expand_error(x, AU_E0703, call->span, "%s takes %u arguments, found %u", call->name,
                     fn->params.count, call->args.count);
        return nothing;
    }
    if (!x->emit) {
        expand_error(x, AU_E0703, call->span, "a hook cannot be called here");
        return nothing;
    }
    if (++x->depth > MAX_INLINE_DEPTH) {
        if (!x->failed) expand_error(x, AU_E0702, fn->span, "the hook %s calls itself", fn->name);
        x->depth--;
        return nothing;
    }
    note_call(x, call);
    Binding *inner = bind(x, NULL, "", NULL);
    for (uint32_t i = 0; i < call->args.count; i++) {
        AuTileExpr *arg = expand_expr(x, env, call->args.at[i]);
        if (!takes_once(fn, fn->params.at[i]) || arg->op == TILE_X_TUPLE)
            arg = simplified(x, fn->params.at[i], arg);
        inner = bind(x, inner, fn->params.at[i], arg);
    }
    AuTileExpr *result = inline_body(x, inner, fn);
    x->depth--;
    return result;
}

/* ---- expressions */

static AuTileExpr *const_value(const Expand *x, const char *name)
{
    for (uint32_t i = 0; i < x->in->consts.count; i++)
        if (strcmp(x->in->consts.at[i].name, name) == 0) return x->consts[i];
    return NULL;
}

/* A fresh copy of what is simple, so that no node is shared. */
static AuTileExpr *copy_simple(Expand *x, const AuTileExpr *e)
{
    AuTileExpr *copy = AU_NEW(x->arena, AuTileExpr);
    *copy = *e;
    copy->args = (AuTileExprs){0};
    for (uint32_t i = 0; i < e->args.count; i++) {
        AuTileExpr *arg = copy_simple(x, e->args.at[i]);
        AU_PUSH(x->arena, copy->args.at, copy->args.count, copy->args.capacity, arg);
    }
    return copy;
}

static AuTileExpr *expand_name(Expand *x, Binding *env, const AuTileExpr *e)
{
    AuTileExpr *bound = env ? lookup(env, e->name) : NULL;
    if (!bound && !env) bound = lookup(x->tuples, keep(x, e->name));
    if (!bound) bound = const_value(x, e->name);
    if (!bound) return name_expr(x, keep(x, e->name), e->span);
    AuTileExpr *copy = copy_simple(x, bound);
    copy->span = e->span;
    return copy;
}

static bool takes_tuples(AuTileOp op) { return op == TILE_X_TUPLE || op == TILE_X_CALL; }

AuTileExpr *expand_expr(Expand *x, Binding *env, const AuTileExpr *e)
{
    if (!e) return NULL;
    if (e->op == TILE_X_NAME) return expand_name(x, env, e);
    if (e->op == TILE_X_CALL) return inline_call(x, env, e);
    AuTileExpr *copy = AU_NEW(x->arena, AuTileExpr);
    *copy = *e;
    copy->name = keep(x, e->name);
    copy->field = keep(x, e->field);
    copy->number = (double)(float)e->number; /* who builds nodes may have had more digits */
    copy->args = (AuTileExprs){0};
    copy->names = (AuTileNames){0};
    for (uint32_t i = 0; i < e->names.count; i++) {
        const char *name = keep(x, e->names.at[i]);
        AU_PUSH(x->arena, copy->names.at, copy->names.count, copy->names.capacity, name);
    }
    for (uint32_t i = 0; i < e->args.count; i++) {
        AuTileExpr *arg = expand_expr(x, env, e->args.at[i]);
        if (arg->op == TILE_X_TUPLE && !takes_tuples(e->op))
            expand_error(x, AU_E0703, arg->span, "a tuple is no operand");
        AU_PUSH(x->arena, copy->args.at, copy->args.count, copy->args.capacity, arg);
    }
    if (e->op == TILE_X_ROWMAX ||
        e->op == TILE_X_ROWSUM) { /* over the keys, whatever the orientation */
        copy->op = e->op == TILE_X_ROWMAX ? TILE_X_REDUCE_MAX : TILE_X_REDUCE_SUM;
        AU_PUSH(x->arena, copy->names.at, copy->names.count, copy->names.capacity, keep(x, "kv"));
    }
    fold(copy);
    return copy;
}
