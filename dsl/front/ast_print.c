/* ast_print.c - the syntax tree as an outline, for --emit=ast and golden tests. */
#include "ast.h"

const char *ast_op_text(AuAstOp op)
{
    // clang-format off
    static const char *const texts[AU_AST_OP_COUNT] = {
        [AU_AST_NO_OP] = "",
#define BINARY(NAME, text) [AU_AST_##NAME] = text,
#define UNARY(NAME, text) [AU_AST_##NAME] = text,
#include "operators.def"
    };
    // clang-format on
    return texts[op];
}

static void print_list(const AuAstList *list, AuText *out)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (i) au_text_add(out, ", ");
        ast_print_expr(list->items[i], out);
    }
}

void ast_print_expr(const AuAst *e, AuText *out)
{
    switch (e->kind) {
    case AU_AST_ERROR: au_text_add(out, "<error>"); break;
    case AU_AST_INT: au_text_add(out, "%lld", (long long)e->integer); break;
    case AU_AST_FLOAT: au_text_number(out, e->number); break;
    case AU_AST_BOOL: au_text_add(out, e->integer ? "true" : "false"); break;
    case AU_AST_NAME: au_text_add(out, "%s", e->name); break;
    case AU_AST_FIELD: au_text_add(out, "%s.%s", e->name, e->field); break;
    case AU_AST_REST: au_text_add(out, ".."); break;
    case AU_AST_UNARY:
        au_text_add(out, "(%s", ast_op_text(e->op));
        ast_print_expr(e->args.items[0], out);
        au_text_add(out, ")");
        break;
    case AU_AST_BINARY:
        au_text_add(out, "(");
        ast_print_expr(e->args.items[0], out);
        au_text_add(out, " %s ", ast_op_text(e->op));
        ast_print_expr(e->args.items[1], out);
        au_text_add(out, ")");
        break;
    case AU_AST_RANGE:
        ast_print_expr(e->args.items[0], out);
        au_text_add(out, ":");
        ast_print_expr(e->args.items[1], out);
        break;
    case AU_AST_CALL:
    case AU_AST_INDEX:
        au_text_add(out, "%s%s", e->name, e->kind == AU_AST_CALL ? "(" : "[");
        print_list(&e->args, out);
        au_text_add(out, e->kind == AU_AST_CALL ? ")" : "]");
        break;
    }
}

static void indent(int depth, AuText *out) { au_text_add(out, "%*s", depth * 4, ""); }

static void print_names(const AuAstNames *names, AuText *out)
{
    for (uint32_t i = 0; i < names->count; i++)
        au_text_add(out, "%s%s", i ? ", " : "", names->items[i].text);
}

static void print_body(const AuBody *body, int depth, AuText *out)
{
    for (uint32_t i = 0; i < body->count; i++) {
        const AuStmt *s = &body->stmts[i];
        indent(depth, out);
        switch (s->kind) {
        case AU_STMT_LET: au_text_add(out, "let %s = ", s->name.text); break;
        case AU_STMT_ASSIGN: au_text_add(out, "%s = ", s->name.text); break;
        case AU_STMT_FOR: au_text_add(out, "for %s in ", s->name.text); break;
        case AU_STMT_RETURN: au_text_add(out, "return "); break;
        }
        if (s->value) ast_print_expr(s->value, out);
        print_list(&s->values, out);
        au_text_add(out, "\n");
        if (s->body) print_body(s->body, depth + 1, out);
    }
    if (body->broken) {
        indent(depth, out);
        au_text_add(out, "<broken>\n");
    }
}

/* What stands on the item's own line. */
static void print_head(const AuItem *item, AuText *out)
{
    const char *name = item->name.text ? item->name.text : "";
    switch (item->kind) {
    case AU_ITEM_CONST: au_text_add(out, "const %s = ", name); break;
    case AU_ITEM_FN: au_text_add(out, "fn %s(", name); break;
    case AU_ITEM_ONLINE: au_text_add(out, "online %s(", name); break;
    case AU_ITEM_ATTENTION: au_text_add(out, "attention %s", name); break;
    case AU_ITEM_TENSOR: au_text_add(out, "tensor %s: ", name); break;
    case AU_ITEM_SLICE: au_text_add(out, "slice %s = ", name); break;
    case AU_ITEM_INPUT: au_text_add(out, "input %s: ", name); break;
    case AU_ITEM_PARAM: au_text_add(out, "param %s: ", name); break;
    case AU_ITEM_REQUIRE: au_text_add(out, "require "); break;
    case AU_ITEM_LET: au_text_add(out, "let %s = ", name); break;
    case AU_ITEM_MOD: au_text_add(out, "%s(", name); break;
    case AU_ITEM_USE: au_text_add(out, "use %s(", name); break;
    case AU_ITEM_LINEAR: au_text_add(out, "linear"); break;
    case AU_ITEM_ROWSCALE: au_text_add(out, "rowscale %s = ", name); break;
    case AU_ITEM_FINAL: au_text_add(out, "final "); break;
    case AU_ITEM_KEPT: au_text_add(out, "kept "); break;
    case AU_ITEM_SLOT: au_text_add(out, "slot %s = ", name); break;
    }
}

static void print_item(const AuItem *item, int depth, AuText *out)
{
    const AuItemKind kind = item->kind;
    const bool tensor = kind == AU_ITEM_TENSOR || kind == AU_ITEM_INPUT;
    const bool parens =
        kind == AU_ITEM_FN || kind == AU_ITEM_ONLINE || kind == AU_ITEM_MOD || kind == AU_ITEM_USE;
    indent(depth, out);
    print_head(item, out);
    if (item->dtype.text) au_text_add(out, "%s", item->dtype.text);
    if (item->value && kind == AU_ITEM_PARAM) au_text_add(out, " = ");
    if (item->value) ast_print_expr(item->value, out);
    if (tensor) au_text_add(out, "[");
    print_list(&item->list, out);
    if (tensor) au_text_add(out, "]");
    if (item->tail.text) au_text_add(out, " %s", item->tail.text);
    print_names(&item->params, out);
    au_text_add(out, parens ? ")\n" : "\n");
    if (item->body) print_body(item->body, depth + 1, out);
    for (uint32_t i = 0; i < item->items.count; i++)
        print_item(item->items.items[i], depth + 1, out);
}

void front_print_ast(const AuScript *script, AuText *out)
{
    for (uint32_t i = 0; i < script->items.count; i++) print_item(script->items.items[i], 0, out);
}
