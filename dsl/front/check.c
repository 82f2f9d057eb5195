/* check.c - a script to its attentions: modules, consts, parts that are missing or given twice, diagnostics with the place of a
 * call. Everything reported goes through here and is reported once, however often a function is inlined. */
#include "check.h"
#include "std.h"

#include <string.h>

/* ---- sites */

// clang-format off
enum { B = AU_SITE_B, H = AU_SITE_H, KVH = AU_SITE_KVH, Q = AU_SITE_Q, KV = AU_SITE_KV, TOK = AU_SITE_TOK, READ = AU_SITE_READ,
       ROW = AU_SITE_ROW, KEYS = AU_SITE_KEYS, DOT = AU_SITE_DOT, DROPOUT = AU_SITE_DROPOUT, TENSOR = AU_SITE_TENSOR };

static const struct { const char *text; uint32_t bits; } sites[] = {
#define SITE(NAME, text, indices, allowed) {text, (indices) | (allowed)},
#include "sites.def"
#undef SITE
};
// clang-format on

const char *site_text(AuSite site) { return sites[site].text; }
uint32_t site_bits(AuSite site) { return sites[site].bits; }

/* ---- diagnostics */

enum { MOST_REPORTED = 1000 };

/* True the first time that a code is reported at a place. Errors are never lost: when too many places are known, they are new. */
static bool is_new(AuCheck *c, AuCode code, AuSpan span)
{
    const bool error = *au_code_name(code) == 'E';
    c->wrong |= error;
    for (uint32_t i = 0; i < c->reported_count; i++) {
        const AuReported *r = &c->reported[i];
        const bool here =
            r->span.source == span.source && r->span.begin == span.begin && r->span.end == span.end;
        if (here && (r->code == code || c->dry)) return false;
    }
    if (c->reported_count >= MOST_REPORTED) return error;
    AU_PUSH(c->arena, c->reported, c->reported_count, c->reported_capacity,
            ((AuReported){code, span}));
    return true;
}

/* Where the function that the problem is in was called from the script. */
static void add_calls(AuCheck *c, AuDiag *d, AuSpan span)
{
    const AuFrame *outermost = NULL;
    for (const AuFrame *f = c->frame; f; f = f->outer)
        if (f->fn->kind == AU_ITEM_FN || f->fn->span.source != c->user.script->source)
            outermost = f;
    if (outermost && outermost->call.source && outermost->call.begin != span.begin)
        au_add_note(c->diags, d, outermost->call, "in '%s', used here", outermost->fn->name.text);
}

// clang-format off
#define DEFINE(function, report)                                                                   \
    AuDiag *function(AuCheck *c, AuCode code, AuSpan span, const char *format, ...)                \
    {                                                                                              \
        va_list arguments;                                                                         \
        if (!is_new(c, code, span)) return AU_NEW(c->arena, AuDiag);                               \
        va_start(arguments, format);                                                               \
        AuDiag *d = report(c->diags, code, span, "%s", au_vformat(c->arena, format, arguments));   \
        va_end(arguments);                                                                         \
        add_calls(c, d, span);                                                                     \
        return d;                                                                                  \
    }
DEFINE(check_error, au_error)
DEFINE(check_warning, au_warning)
DEFINE(check_remark, au_remark)
#undef DEFINE
// clang-format on

/* ---- modules */

static void declare_item(AuCheck *c, AuNameSet *set, AuItem *item, const char *what)
{
    const AuItem *first = nameset_get(set, item->name.text);
    if (first) {
        AuDiag *d = check_error(c, AU_E0203, item->name.span, "'%s' is already the name of %s",
                                item->name.text, what);
        au_add_note(c->diags, d, first->name.span, "'%s' is declared here", item->name.text);
    } else if (item->kind == AU_ITEM_FN && builtin_find(item->name.text)) {
        check_error(c, AU_E0203, item->name.span,
                    "'%s' is a function of the language; choose another name", item->name.text);
    } else {
        nameset_put(set, item->name.text, item);
        if (item->kind != AU_ITEM_FN) scope_check_reserved(c, item->name);
    }
}

static AuModule new_module(AuCheck *c, const AuScript *script)
{
    AuModule m = {script, nameset_new(c->arena), nameset_new(c->arena), nameset_new(c->arena),
                  NULL};
    for (uint32_t i = 0; i < script->items.count; i++) {
        AuItem *item = script->items.items[i];
        if (item->kind == AU_ITEM_FN) declare_item(c, m.fns, item, "a function");
        if (item->kind == AU_ITEM_ONLINE) declare_item(c, m.onlines, item, "an online function");
        if (item->kind == AU_ITEM_ATTENTION) declare_item(c, m.attentions, item, "an attention");
    }
    return m;
}

/* Consts are evaluated into the graph of each attention; each sees those above it. */
AuScope *check_consts(AuCheck *c, AuModule *module)
{
    if (module->consts) return module->consts;
    AuScope *scope = scope_new(c, c->root), *caller = c->scope;
    AuModule *calling = c->module;
    AuFrame *frame = c->frame;
    const AuSite site = c->site;
    module->consts = scope;
    c->module = module;
    c->site = AU_SITE_CONST;
    c->frame = NULL;
    for (uint32_t i = 0; i < module->script->items.count; i++) {
        const AuItem *item = module->script->items.items[i];
        if (item->kind != AU_ITEM_CONST) continue;
        c->scope = scope;
        const AuValue v = check_expr(c, item->value);
        scope_declare(c, scope, AU_SYM_VALUE, item->name, "a const")->value = v;
    }
    c->scope = caller;
    c->module = calling;
    c->frame = frame;
    c->site = site;
    return scope;
}

const AuItem *check_find_online(AuCheck *c, const char *name, AuModule **module)
{
    const AuItem *own = nameset_get(c->user.onlines, name);
    *module = own ? &c->user : &c->std;
    return own ? own : nameset_get(c->std.onlines, name);
}

/* ---- attentions */

/* A new graph; everything evaluated before belongs to another. */
static void begin_graph(AuCheck *c, const char *name)
{
    c->a = attn_new(c->arena, name);
    c->user.consts = c->std.consts = NULL;
    c->attention = c->linear = NULL;
    c->outside = NULL;
    c->frame = NULL;
    c->expressions = nameset_new(c->arena);
    c->module = &c->user;
    c->depth = 0;
    c->incomplete = false;
    c->wrong = c->gave_up;
    c->root = scope_new(c, NULL);
    scope_add_language(c, c->root);
    c->scope = check_consts(c, &c->user);
}

static const AuItem *only(AuCheck *c, AuItemKind kind)
{
    const AuItem *first = NULL;
    for (uint32_t i = 0; i < c->attention->items.count; i++) {
        const AuItem *item = c->attention->items.items[i];
        if (item->kind != kind) continue;
        if (first) {
            AuDiag *d = check_error(c, AU_E0214, item->span, "an attention has one %s",
                                    kind == AU_ITEM_USE ? "online function" : "linear");
            au_add_note(c->diags, d, first->span, "it is given here, too");
        } else
            first = item;
    }
    return first;
}

/* q, k, v and mods given twice; tensors that are not q, k or v. */
static void check_parts(AuCheck *c)
{
    AuNameSet *seen = nameset_new(c->arena);
    for (uint32_t i = 0; i < c->attention->items.count; i++) {
        AuItem *item = c->attention->items.items[i];
        const bool tensor = item->kind == AU_ITEM_TENSOR || item->kind == AU_ITEM_SLICE;
        if (!tensor && item->kind != AU_ITEM_MOD) continue;
        const char *name = item->name.text;
        const AuItem *first = nameset_put(seen, name, item);
        if (first) {
            AuDiag *d = check_error(c, AU_E0214, item->name.span, "'%s' is given twice", name);
            au_add_note(c->diags, d, first->name.span, "it is given here, too");
        } else if (tensor && strcmp(name, "q") != 0 && strcmp(name, "k") != 0 &&
                   strcmp(name, "v") != 0) {
            AuDiag *d =
                check_error(c, AU_E0204, item->name.span, "'%s' is none of q, k and v", name);
            au_add_note(c->diags, d, (AuSpan){0},
                        item->kind == AU_ITEM_SLICE
                            ? "'let %s = ...' names a value"
                            : "other tensors are written 'input %s: f32[...];'",
                        name);
        }
    }
}

static void check_family(AuCheck *c, const AuItem *use)
{
    const AuItem *attention = c->attention;
    if (use && c->linear) {
        AuDiag *d = check_error(c, AU_E0408, use->span,
                                "an attention has an online function or linear, not both");
        au_add_note(c->diags, d, c->linear->span, "linear is given here");
    } else if (!use && !c->linear && !attention->broken && !c->user.script->truncated) {
        AuDiag *d = check_error(c, AU_E0213, attention->name.span,
                                "attention '%s' does not say how weights are normalised",
                                attention->name.text);
        au_add_note(c->diags, d, (AuSpan){0},
                    "add 'online softmax;', 'online identity;' for none, or a recurrence, 'linear "
                    "{ ... }'");
    }
}

static void check_mods(AuCheck *c)
{
    AuNameSet *seen = nameset_new(c->arena);
    for (uint32_t i = 0; i < c->attention->items.count; i++) {
        AuItem *item = c->attention->items.items[i];
        if (item->kind != AU_ITEM_MOD || nameset_put(seen, item->name.text, item)) continue;
        c->scope = c->outside;
        check_mod(c, item);
    }
}

/* It begins names of C functions, of types and of kernels. */
static void check_title(AuCheck *c, const AuItem *attention)
{
    const char *name = attention->name.text;
    const size_t length = strlen(name);
    if (!length || (name[0] != '_' && name[length - 1] != '_' && !strstr(name, "__"))) return;
    check_error(c, AU_E0216, attention->name.span,
                "'%s' cannot name an attention: it begins or ends with '_', or has '__' in it",
                name);
}

static AuAttn *check_attention(AuCheck *c, const AuItem *attention)
{
    check_title(c, attention);
    begin_graph(c, attention->name.text);
    c->attention = attention;
    c->a->span = attention->name.span;
    c->linear = only(c, AU_ITEM_LINEAR);
    const AuItem *use = only(c, AU_ITEM_USE);
    c->outside = c->scope = scope_new(c, c->scope);
    scope_add_indices(c, c->outside);
    check_parts(c);
    check_tensors(c);
    check_params(c);
    check_axis_expressions(c);
    check_lets_and_requires(c);
    check_mods(c);
    c->scope = c->outside;
    if (use) check_online_use(c, use);
    if (c->linear) check_linear(c, c->linear);
    check_family(c, use);
    return !c->wrong && !attention->broken ? c->a : NULL;
}

/* ---- what no attention uses is checked, too, with parameters of unknown type */

static void check_unused(AuCheck *c)
{
    const AuItemList *items = &c->user.script->items;
    begin_graph(c, "");
    c->dry = true;
    for (uint32_t i = 0; i < items->count; i++) {
        const AuItem *item = items->items[i];
        if (item->kind == AU_ITEM_ONLINE) check_online_unused(c, item);
        if (item->kind != AU_ITEM_FN) continue;
        AuFrame frame = {item, {0}, NULL};
        AuValue v;
        c->scope = scope_new(c, check_consts(c, &c->user));
        for (uint32_t n = 0; n < item->params.count; n++)
            scope_declare(c, c->scope, AU_SYM_VALUE, item->params.items[n], "a parameter");
        c->site = AU_SITE_UNUSED;
        c->frame = &frame;
        check_body(c, item, &v, 1);
        c->frame = NULL;
    }
}

struct AuFront {
    AuNames *names;
    const AuScript *script;
    AuModule user, std;
};

static AuCheck check_of(const AuFront *f, AuArena *arena, AuDiags *diags)
{
    return (AuCheck){
        .arena = arena, .names = f->names, .diags = diags, .user = f->user, .std = f->std};
}

AuFront *front_open(AuArena *arena, AuNames *names, AuDiags *diags, const AuScript *script)
{
    const char *std = au_std_source();
    AuFront *f = AU_NEW(arena, AuFront);
    AuCheck c = {.arena = arena, .names = names, .diags = diags};
    const uint32_t source = au_source_add(diags, "<std>", std, strlen(std));
    const AuModule library = new_module(&c, front_parse(arena, names, diags, source));
    *f = (AuFront){names, script, new_module(&c, script), library};
    return f;
}

AuAttn **front_check_all(const AuFront *f, AuArena *arena, AuDiags *diags, uint32_t *count)
{
    AuCheck check = check_of(f, arena, diags), *c = &check;
    const AuScript *script = f->script;
    AuAttn **out = AU_NEW_ARRAY(arena, AuAttn *, script->items.count);
    bool any = false;
    *count = 0;
    for (uint32_t i = 0; i < script->items.count; i++) {
        const AuItem *item = script->items.items[i];
        if (item->kind != AU_ITEM_ATTENTION) continue;
        any = true;
        AuAttn *a = check_attention(c, item);
        if (a) out[(*count)++] = a;
    }
    check_unused(c);
    if (!any && !script->broken)
        check_error(c, AU_E0215, (AuSpan){script->source, 0, 0}, "this file has no attention");
    return out;
}

AuAttn *front_check_again(const AuFront *f, AuArena *arena, AuDiags *diags, const char *name)
{
    AuCheck c = check_of(f, arena, diags);
    return check_attention(&c, nameset_get(f->user.attentions, name));
}

AuAttn **front_check(AuArena *arena, AuNames *names, AuDiags *diags, const AuScript *script,
                     uint32_t *count)
{
    return front_check_all(front_open(arena, names, diags, script), arena, diags, count);
}

AuAttn *front_select(AuDiags *diags, const AuScript *script, AuAttn **attns, uint32_t count,
                     const char *name)
{
    AuDiag *d = NULL;
    const AuSpan file = {script->source, 0, 0};
    for (uint32_t i = 0; i < count; i++)
        if (name ? strcmp(attns[i]->name, name) == 0 : count == 1) return attns[i];
    if (count == 0) return NULL; /* front_check said why */
    if (name)
        d = au_error(diags, AU_E0215, file, "this file has no attention '%s'", name);
    else
        d = au_error(diags, AU_E0509, file,
                     "this file has %u attentions where one is asked for: choose one by name",
                     count);
    for (uint32_t i = 0; i < count; i++)
        au_add_note(diags, d, attns[i]->span, "'%s' is one", attns[i]->name);
    return NULL;
}
