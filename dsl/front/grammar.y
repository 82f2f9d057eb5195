/* grammar.y - the grammar of scripts (docs/language.md), for lemon.
 * Actions only build the tree. After an error the parser goes on behind the next `;` or in front of the next `}`: parse.c
 * skips the tokens between, so that one mistake is one diagnostic. */
%name FrontGrammar
%token_prefix TOK_
%token_type {const AuToken *}
%extra_context {AuParse *p}
%stack_size 2048

%include {
#include "token.h"

#include <string.h>

/* A statement that was given up: the parser may report again at once. */
#define RECOVERED (yypParser->yyerrcnt = -1)

static AuAstName name_of(const AuToken *token) { return (AuAstName){token->name, token->span}; }

static void add_expr(AuParse *p, AuAstList *list, AuAst *e)
{
    AU_PUSH(p->make.arena, list->items, list->count, list->capacity, e);
}

static void add_name(AuParse *p, AuAstNames *list, const AuToken *token)
{
    AU_PUSH(p->make.arena, list->items, list->count, list->capacity, name_of(token));
}

static void add_item(AuParse *p, AuItemList *list, AuItem *item)
{
    if (item) AU_PUSH(p->make.arena, list->items, list->count, list->capacity, item);
}

static void add_stmt(AuParse *p, AuBody *body, AuStmt stmt)
{
    AU_PUSH(p->make.arena, body->stmts, body->count, body->capacity, stmt);
}

/* NULL in a list of items stands for "something here was lost". */
typedef struct Items {
    AuItemList list;
    bool broken;
} Items;
}

%syntax_error {
    bool expected[YYNTOKEN] = {false};
    for (int kind = 0; kind < YYNTOKEN; kind++)
        expected[kind] = yy_find_shift_action((YYCODETYPE)kind, yypParser->yytos->stateno) != YY_ERROR_ACTION;
    parse_unexpected(p, yyminor, expected, YYNTOKEN);
}

%stack_overflow { p->overflow = true; }
%parse_failure { p->failed = true; }

/* C's precedence. */
%left OROR.
%left ANDAND.
%left PIPE.
%left CARET.
%left AMP.
%left EQ NE.
%left LT LE GT GE.
%left SHL SHR.
%left PLUS MINUS.
%left STAR SLASH PERCENT.
%right NOT TILDE UMINUS.

%type expr {AuAst *}
%type index {AuAst *}
%type exprs {AuAstList}
%type some_exprs {AuAstList}
%type indices {AuAstList}
%type some_indices {AuAstList}
%type names {AuAstNames}
%type some_names {AuAstNames}
%type body {AuBody *}
%type stmts {AuBody *}
%type function {AuItem *}
%type decl {AuItem *}
%type item {AuItem *}
%type clause {AuItem *}
%type slot {AuItem *}
%type decls {Items}
%type items {Items}
%type clauses {Items}
%type slots {Items}
%type tail {AuAstName}

%start_symbol file
file ::= decls(L). { p->script->items = L.list; p->script->broken |= L.broken; }

/* ---- a file */
decls(L) ::= . { L = (Items){0}; }
decls(L) ::= decls(M) decl(I). { L = M; add_item(p, &L.list, I); }
decls(L) ::= decls(M) error SEMI. { L = M; L.broken = true; RECOVERED; }
decls(L) ::= decls(M) error RBRACE. { L = M; L.broken = true; RECOVERED; }

decl(I) ::= CONST(A) NAME(N) ASSIGN expr(E) SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_CONST, name_of(N), A->span, Z->span);
    I->value = E;
}
decl(I) ::= FN(A) function(F). {
    I = F;
    I->kind = AU_ITEM_FN;
    I->span = ast_join(A->span, I->span);
}
decl(I) ::= ONLINE(A) NAME(N) LBRACE clauses(L) RBRACE(Z). {
    I = ast_item(&p->make, AU_ITEM_ONLINE, name_of(N), A->span, Z->span);
    I->items = L.list;
    I->broken = L.broken;
}
decl(I) ::= ONLINE(A) NAME(N) LPAREN names(P) RPAREN LBRACE clauses(L) RBRACE(Z). {
    I = ast_item(&p->make, AU_ITEM_ONLINE, name_of(N), A->span, Z->span);
    I->params = P;
    I->items = L.list;
    I->broken = L.broken;
}
decl(I) ::= ATTENTION(A) NAME(N) LBRACE items(L) RBRACE(Z). {
    I = ast_item(&p->make, AU_ITEM_ATTENTION, name_of(N), A->span, Z->span);
    I->items = L.list;
    I->broken = L.broken;
}

/* NAME(names) body: a function, a mod, or a clause of an online function. */
function(I) ::= NAME(N) LPAREN names(P) RPAREN body(B). {
    I = ast_item(&p->make, AU_ITEM_MOD, name_of(N), N->span, B->span);
    I->params = P;
    I->body = B;
    I->broken = B->broken;
}

body(B) ::= ASSIGN(A) expr(E) SEMI(Z). { B = ast_body_of_expr(&p->make, E, ast_join(A->span, Z->span)); }
body(B) ::= LBRACE(A) stmts(L) RBRACE(Z). { B = L; ast_body_end(&p->make, B, ast_join(A->span, Z->span)); }
body(B) ::= LBRACE(A) stmts(L) error RBRACE(Z). {
    B = L;
    B->broken = true;
    ast_body_end(&p->make, B, ast_join(A->span, Z->span));
    RECOVERED;
}

stmts(L) ::= . { L = ast_body(&p->make); }
stmts(L) ::= stmts(M) LET(A) NAME(N) ASSIGN expr(E) SEMI(Z). {
    L = M;
    add_stmt(p, L, (AuStmt){.kind = AU_STMT_LET, .span = ast_join(A->span, Z->span), .name = name_of(N), .value = E});
}
stmts(L) ::= stmts(M) NAME(N) ASSIGN expr(E) SEMI(Z). {
    L = M;
    add_stmt(p, L, (AuStmt){.kind = AU_STMT_ASSIGN, .span = ast_join(N->span, Z->span), .name = name_of(N), .value = E});
}
stmts(L) ::= stmts(M) FOR(A) NAME(N) IN expr(X) COLON expr(Y) LBRACE stmts(B) RBRACE(Z). {
    L = M;
    ast_loop_end(&p->make, B, ast_join(A->span, Z->span));
    L->broken |= B->broken;
    add_stmt(p, L, (AuStmt){.kind = AU_STMT_FOR, .span = ast_join(A->span, Z->span), .name = name_of(N),
                            .value = ast_range(&p->make, X, Y), .body = B});
}
stmts(L) ::= stmts(M) RETURN(A) some_exprs(E) SEMI(Z). {
    L = M;
    add_stmt(p, L, (AuStmt){.kind = AU_STMT_RETURN, .span = ast_join(A->span, Z->span), .values = E});
}
stmts(L) ::= stmts(M) error SEMI. { L = M; L->broken = true; RECOVERED; }

/* ---- an online function */
clauses(L) ::= . { L = (Items){0}; }
clauses(L) ::= clauses(M) clause(I). { L = M; add_item(p, &L.list, I); L.broken |= I->broken; }
clauses(L) ::= clauses(M) error SEMI. { L = M; L.broken = true; RECOVERED; }

clause(I) ::= ROWSCALE(A) NAME(N) ASSIGN expr(E) SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_ROWSCALE, name_of(N), A->span, Z->span);
    I->value = E;
}
clause(I) ::= FINAL(A) some_names(N) SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_FINAL, N.items[0], A->span, Z->span);
    I->params = N;
}
clause(I) ::= KEPT(A) some_names(N) SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_KEPT, N.items[0], A->span, Z->span);
    I->params = N;
}
clause(I) ::= function(F). { I = F; }

/* ---- an attention */
items(L) ::= . { L = (Items){0}; }
items(L) ::= items(M) item(I). { L = M; add_item(p, &L.list, I); L.broken |= I->broken; }
items(L) ::= items(M) error SEMI. { L = M; L.broken = true; RECOVERED; }

item(I) ::= NAME(N) COLON LBRACKET exprs(X) RBRACKET SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_TENSOR, name_of(N), N->span, Z->span);
    I->list = X;
}
item(I) ::= NAME(N) COLON NAME(T) LBRACKET exprs(X) RBRACKET SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_TENSOR, name_of(N), N->span, Z->span);
    I->dtype = name_of(T);
    I->list = X;
}
item(I) ::= NAME(N) ASSIGN expr(E) SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_SLICE, name_of(N), N->span, Z->span);
    I->value = E;
}
item(I) ::= INPUT(A) NAME(N) COLON LBRACKET exprs(X) RBRACKET tail(G) SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_INPUT, name_of(N), A->span, Z->span);
    I->list = X;
    I->tail = G;
}
item(I) ::= INPUT(A) NAME(N) COLON NAME(T) LBRACKET exprs(X) RBRACKET tail(G) SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_INPUT, name_of(N), A->span, Z->span);
    I->dtype = name_of(T);
    I->list = X;
    I->tail = G;
}
item(I) ::= PARAM(A) NAME(N) COLON NAME(T) SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_PARAM, name_of(N), A->span, Z->span);
    I->dtype = name_of(T);
}
item(I) ::= PARAM(A) NAME(N) COLON NAME(T) ASSIGN expr(E) SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_PARAM, name_of(N), A->span, Z->span);
    I->dtype = name_of(T);
    I->value = E;
}
item(I) ::= REQUIRE(A) expr(E) SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_REQUIRE, (AuAstName){0}, A->span, Z->span);
    I->value = E;
}
item(I) ::= LET(A) NAME(N) ASSIGN expr(E) SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_LET, name_of(N), A->span, Z->span);
    I->value = E;
}
item(I) ::= function(F). { I = F; }
item(I) ::= ONLINE(A) NAME(N) SEMI(Z). { I = ast_item(&p->make, AU_ITEM_USE, name_of(N), A->span, Z->span); }
item(I) ::= ONLINE(A) NAME(N) LPAREN exprs(X) RPAREN SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_USE, name_of(N), A->span, Z->span);
    I->list = X;
}
item(I) ::= LINEAR(A) LBRACE slots(L) RBRACE(Z). {
    I = ast_item(&p->make, AU_ITEM_LINEAR, (AuAstName){0}, A->span, Z->span);
    I->items = L.list;
    I->broken = L.broken;
}

tail(G) ::= . { G = (AuAstName){0}; }
tail(G) ::= NAME(N). { G = name_of(N); }

slots(L) ::= . { L = (Items){0}; }
slots(L) ::= slots(M) slot(I). { L = M; add_item(p, &L.list, I); }
slots(L) ::= slots(M) error SEMI. { L = M; L.broken = true; RECOVERED; }

slot(I) ::= NAME(N) ASSIGN expr(E) SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_SLOT, name_of(N), N->span, Z->span);
    add_expr(p, &I->list, E);
}
slot(I) ::= NAME(N) ASSIGN LPAREN expr(E) COMMA expr(F) RPAREN SEMI(Z). {
    I = ast_item(&p->make, AU_ITEM_SLOT, name_of(N), N->span, Z->span);
    add_expr(p, &I->list, E);
    add_expr(p, &I->list, F);
}

/* ---- expressions */
expr(E) ::= INT(T). { E = ast_leaf(&p->make, AU_AST_INT, T->span); E->integer = T->integer; }
expr(E) ::= FLOAT(T). { E = ast_leaf(&p->make, AU_AST_FLOAT, T->span); E->number = T->number; }
expr(E) ::= TRUE(T). { E = ast_leaf(&p->make, AU_AST_BOOL, T->span); E->integer = 1; }
expr(E) ::= FALSE(T). { E = ast_leaf(&p->make, AU_AST_BOOL, T->span); }
expr(E) ::= NAME(N). {
    E = ast_leaf(&p->make, AU_AST_NAME, N->span);
    E->name = N->name;
    E->name_span = N->span;
}
expr(E) ::= NAME(N) DOT NAME(F). {
    E = ast_leaf(&p->make, AU_AST_FIELD, ast_join(N->span, F->span));
    E->name = N->name;
    E->name_span = N->span;
    E->field = F->name;
}
expr(E) ::= NAME(N) LPAREN exprs(X) RPAREN(Z). { E = ast_apply(&p->make, AU_AST_CALL, name_of(N), X, Z->span); }
expr(E) ::= NAME(N) LBRACKET indices(X) RBRACKET(Z). { E = ast_apply(&p->make, AU_AST_INDEX, name_of(N), X, Z->span); }
expr(E) ::= LPAREN(A) expr(X) RPAREN(Z). { E = ast_grouped(X, A->span, Z->span); }
expr(E) ::= MINUS(A) expr(X). [UMINUS] { E = ast_unary(&p->make, AU_AST_NEG, X, A->span); }
expr(E) ::= NOT(A) expr(X). { E = ast_unary(&p->make, AU_AST_NOT, X, A->span); }
expr(E) ::= TILDE(A) expr(X). { E = ast_unary(&p->make, AU_AST_BNOT, X, A->span); }
expr(E) ::= expr(X) PLUS expr(Y). { E = ast_binary(&p->make, AU_AST_ADD, X, Y); }
expr(E) ::= expr(X) MINUS expr(Y). { E = ast_binary(&p->make, AU_AST_SUB, X, Y); }
expr(E) ::= expr(X) STAR expr(Y). { E = ast_binary(&p->make, AU_AST_MUL, X, Y); }
expr(E) ::= expr(X) SLASH expr(Y). { E = ast_binary(&p->make, AU_AST_DIV, X, Y); }
expr(E) ::= expr(X) PERCENT expr(Y). { E = ast_binary(&p->make, AU_AST_MOD, X, Y); }
expr(E) ::= expr(X) LT expr(Y). { E = ast_binary(&p->make, AU_AST_LT, X, Y); }
expr(E) ::= expr(X) LE expr(Y). { E = ast_binary(&p->make, AU_AST_LE, X, Y); }
expr(E) ::= expr(X) GT expr(Y). { E = ast_binary(&p->make, AU_AST_GT, X, Y); }
expr(E) ::= expr(X) GE expr(Y). { E = ast_binary(&p->make, AU_AST_GE, X, Y); }
expr(E) ::= expr(X) EQ expr(Y). { E = ast_binary(&p->make, AU_AST_EQ, X, Y); }
expr(E) ::= expr(X) NE expr(Y). { E = ast_binary(&p->make, AU_AST_NE, X, Y); }
expr(E) ::= expr(X) ANDAND expr(Y). { E = ast_binary(&p->make, AU_AST_AND, X, Y); }
expr(E) ::= expr(X) OROR expr(Y). { E = ast_binary(&p->make, AU_AST_OR, X, Y); }
expr(E) ::= expr(X) AMP expr(Y). { E = ast_binary(&p->make, AU_AST_BAND, X, Y); }
expr(E) ::= expr(X) PIPE expr(Y). { E = ast_binary(&p->make, AU_AST_BOR, X, Y); }
expr(E) ::= expr(X) CARET expr(Y). { E = ast_binary(&p->make, AU_AST_BXOR, X, Y); }
expr(E) ::= expr(X) SHL expr(Y). { E = ast_binary(&p->make, AU_AST_SHL, X, Y); }
expr(E) ::= expr(X) SHR expr(Y). { E = ast_binary(&p->make, AU_AST_SHR, X, Y); }

index(E) ::= expr(X). { E = X; }
index(E) ::= expr(X) COLON expr(Y). { E = ast_range(&p->make, X, Y); }
index(E) ::= DOTDOT(T). { E = ast_leaf(&p->make, AU_AST_REST, T->span); }

exprs(L) ::= . { L = (AuAstList){0}; }
exprs(L) ::= some_exprs(M). { L = M; }
some_exprs(L) ::= expr(E). { L = (AuAstList){0}; add_expr(p, &L, E); }
some_exprs(L) ::= some_exprs(M) COMMA expr(E). { L = M; add_expr(p, &L, E); }

indices(L) ::= . { L = (AuAstList){0}; }
indices(L) ::= some_indices(M). { L = M; }
some_indices(L) ::= index(E). { L = (AuAstList){0}; add_expr(p, &L, E); }
some_indices(L) ::= some_indices(M) COMMA index(E). { L = M; add_expr(p, &L, E); }

names(L) ::= . { L = (AuAstNames){0}; }
names(L) ::= some_names(M). { L = M; }
some_names(L) ::= NAME(N). { L = (AuAstNames){0}; add_name(p, &L, N); }
some_names(L) ::= some_names(M) COMMA NAME(N). { L = M; add_name(p, &L, N); }

/* Tokens that no rule takes: the driver says what to write instead. */
%token LOOP BRANCH QUESTION.

%code {
void *grammar_new(AuParse *p)
{
    yyParser *parser = au_alloc(p->make.arena, sizeof *parser);
    FrontGrammarInit(parser, p);
    return parser;
}

void grammar_feed(void *parser, const AuToken *token) { FrontGrammar(parser, token->kind, token); }
}
