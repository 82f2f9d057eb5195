/* print_expr.c - the text form of expressions of the tiled IR. */
#include "tile.h"

void tile_print_args(const AuTileExprs *args, AuText *out)
{
    for (uint32_t i = 0; i < args->count; i++) {
        if (i) au_text_add(out, ", ");
        tile_print_expr(args->at[i], out);
    }
}

void tile_print_names(const AuTileNames *names, const char *before, AuText *out)
{
    for (uint32_t i = 0; i < names->count; i++)
        au_text_add(out, "%s%s", i ? ", " : before, names->at[i]);
}

/* An operand; in parentheses if it binds less tightly than `least`. */
static void print_operand(const AuTileExpr *e, uint8_t least, AuText *out)
{
    const AuTileOpInfo *op = tile_op(e->op);
    const bool parenthesis = op->syntax == TILE_SYNTAX_INFIX && op->strength < least;
    if (parenthesis) au_text_add(out, "(");
    tile_print_expr(e, out);
    if (parenthesis) au_text_add(out, ")");
}

static void print_ref(const AuTileExpr *e, AuText *out)
{
    au_text_add(out, "%s", e->name);
    if (e->field) au_text_add(out, ".%s", e->field);
    if (e->has_index) {
        au_text_add(out, "[");
        tile_print_args(&e->args, out);
        au_text_add(out, "]");
    }
    if (!e->names.count) return;
    tile_print_names(&e->names, " as [", out);
    au_text_add(out, "]");
}

static void print_leaf(const AuTileExpr *e, AuText *out)
{
    if (e->op == TILE_X_INT)
        au_text_add(out, "%lld", (long long)e->integer);
    else if (e->op == TILE_X_FLOAT)
        au_text_float(out, (float)e->number);
    else if (e->op == TILE_X_BOOL)
        au_text_add(out, e->integer ? "true" : "false");
    else
        au_text_add(out, "%s", e->name);
}

static void print_special(const AuTileExpr *e, AuText *out)
{
    if (e->op == TILE_X_REF) {
        print_ref(e, out);
    } else if (e->op == TILE_X_ALL) {
        au_text_add(out, ":");
    } else if (e->op == TILE_X_SPAN) {
        tile_print_expr(e->args.at[0], out);
        au_text_add(out, " +: ");
        tile_print_expr(e->args.at[1], out);
        for (uint32_t n = 2; n < e->args.count; n++) {
            au_text_add(out, n == 2 ? " from " : " to ");
            tile_print_expr(e->args.at[n], out);
        }
    } else if (e->op == TILE_X_IOTA) {
        au_text_add(out, "iota(%s:", e->name);
        tile_print_expr(e->args.at[0], out);
        au_text_add(out, ")");
    } else if (e->op == TILE_X_CALL || e->op == TILE_X_TUPLE) {
        au_text_add(out, "%s(", e->op == TILE_X_CALL ? e->name : "");
        tile_print_args(&e->args, out);
        au_text_add(out, ")");
    } else { /* first, count, next */
        au_text_add(out, "%s(%s)", tile_op(e->op)->text, e->name);
    }
}

void tile_print_expr(const AuTileExpr *e, AuText *out)
{
    const AuTileOpInfo *op = tile_op(e->op);
    switch (op->syntax) {
    case TILE_SYNTAX_LEAF: print_leaf(e, out); break;
    case TILE_SYNTAX_SPECIAL: print_special(e, out); break;
    case TILE_SYNTAX_PREFIX:
        au_text_add(out, "%s", op->text);
        print_operand(e->args.at[0], UINT8_MAX, out);
        break;
    case TILE_SYNTAX_INFIX:
        print_operand(e->args.at[0], op->strength, out);
        au_text_add(out, " %s ", op->text);
        print_operand(e->args.at[1], (uint8_t)(op->strength + 1), out);
        break;
    case TILE_SYNTAX_FN:
        au_text_add(out, "%s(", op->text);
        tile_print_args(&e->args, out);
        tile_print_names(&e->names, ", ", out);
        au_text_add(out, ")");
        break;
    }
}
