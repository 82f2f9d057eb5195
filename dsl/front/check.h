/* check.h - inside the front end: from syntax tree to attention IR.
 *
 * One AuCheck walks one script. Every attention gets its own graph; consts, functions and online functions are evaluated
 * (inlined) into it at each use. An expression evaluates to an AuValue: a node of the graph with its type. What is wrong is
 * reported once and gives a value without type, which every operation passes on silently.
 *
 *   check.c     the script: modules, attentions, parts that are missing or given twice
 *   tensors.c   q, k, v, inputs, sizes       params.c   params, lets, requires
 *   mods.c      mods and bodies              online.c   online functions      linear.c, decay.c   recurrences
 *   expr.c      operators      names.c, index.c      call.c, rowfunc.c   functions      value.c   promotion and operations
 *   scope.c     names and what they mean     refuse.c   what is refused by name, words that were misspelled
 *   foreign.c   words of other languages */
#ifndef AU_FRONT_CHECK_H
#define AU_FRONT_CHECK_H

#include "front.h"

/* ---- values */
typedef enum AuValueFlag {
    AU_V_QUOTIENT = 1, /* made of a quotient of integers that lost its remainder */
    AU_V_LOG = 2,      /* made of log(...) */
    AU_V_LOG_INT = 4   /* the same, made an integer */
} AuValueFlag;

typedef struct AuValue {
    AuExpr e;
    AuType type; /* AU_T_NONE: something is wrong and was reported */
    uint8_t flags;
    AuSpan quotient; /* where the quotient of AU_V_QUOTIENT stands */
} AuValue;

/* ---- names */
typedef enum AuSymbolKind {
    AU_SYM_VALUE,  /* const, let, parameter, number that is always there */
    AU_SYM_SIZE,   /* value: its node */
    AU_SYM_INDEX,  /* site_bit says where it has a meaning */
    AU_SYM_PARAM,  /* index: into params */
    AU_SYM_TENSOR, /* index: into tensors */
    AU_SYM_LAZY, /* a let beside `linear`: evaluated where it is used, because its axes depend on the slot */
    AU_SYM_ROWSCALE, /* index: into row scales */
    AU_SYM_FINAL,    /* index: into finals */
    AU_SYM_SIDE      /* index: 0 for a, 1 for b of combine */
} AuSymbolKind;

typedef struct AuSymbol {
    AuSymbolKind kind;
    const char *name;
    AuSpan span;      /* source 0: part of the language */
    const char *what; /* "the const", "the input": for messages */
    AuValue value;
    int32_t index;
    uint32_t site_bit;
    const AuAst *lazy;
    AuValue slot_values[2]; /* of a lazy one: in slots of keys, of values */
    bool assignable, assigned, is_final;
} AuSymbol;

typedef struct AuScope {
    AuNameSet *names; /* of AuSymbol */
    struct AuScope *parent;
} AuScope;

/* ---- sites */
// clang-format off
typedef enum AuSite {
#define SITE(NAME, text, indices, allowed) AU_SITE_##NAME,
#include "sites.def"
#undef SITE
    AU_SITE_COUNT
} AuSite;

typedef enum AuSiteBit {
    AU_SITE_B = 1, AU_SITE_H = 2, AU_SITE_KVH = 4, AU_SITE_Q = 8, AU_SITE_KV = 16, AU_SITE_TOK = 32,
    AU_SITE_READ = 64, AU_SITE_ROW = 128, AU_SITE_KEYS = 256, AU_SITE_DOT = 512, AU_SITE_DROPOUT = 1024, AU_SITE_TENSOR = 2048
} AuSiteBit;
// clang-format on

const char *site_text(AuSite site);
uint32_t site_bits(AuSite site);

/* ---- modules: the script and the standard library */
typedef struct AuModule {
    const AuScript *script;
    AuNameSet *fns, *onlines, *attentions; /* of AuItem */
    AuScope *consts;                       /* of the present attention; NULL: not evaluated yet */
} AuModule;

/* A function that is being inlined, or the clause of an online function. */
typedef struct AuFrame {
    const AuItem *fn;
    AuSpan call; /* where it was called */
    struct AuFrame *outer;
} AuFrame;

typedef struct AuReported {
    AuCode code;
    AuSpan span;
} AuReported;

typedef struct AuCheck {
    AuArena *arena;
    AuNames *names;
    AuDiags *diags;
    AuModule user, std;
    bool std_loaded;
    AuReported *reported;
    uint32_t reported_count, reported_capacity;

    /* of the present attention */
    AuAttn *a;
    const AuItem *attention;
    const AuItem *linear; /* the `linear` item, or NULL */
    AuScope *root;        /* inf, nan, pi */
    AuScope *scope;       /* names visible now */
    AuNameSet *
        expressions; /* axes of q, k, v that are expressions: their texts, of the names of their sizes */
    AuScope *outside; /* the attention's names, which functions do not see */
    AuModule *module; /* whose functions are visible now */
    AuSite site;
    uint8_t width_axis; /* in a slot: the axis of a width that both keys and values have */
    AuFrame *frame;
    uint32_t steps, depth;
    uint32_t loops; /* around the present statement, in its body */
    uint32_t turns; /* of all loops around it together, those that call its function too; 0: none */
    bool wrong;     /* something about the present attention was reported, now or before */
    bool incomplete; /* q, k or v is missing */
    bool gave_up;    /* the limit of steps was reported */
    bool
        dry; /* checking what no attention uses: parameters have no type, places with an error are known */
} AuCheck;

/* Where the limits are: evaluated tree nodes of a script, nesting of expressions through functions. */
enum {
    AU_MOST_STEPS = 500000,
    AU_MOST_NESTING = 800,
    AU_MOST_TURNS = 256,
    AU_MOST_TURNS_TOGETHER = 4096
};

/* ---- check.c */
AuDiag *check_error(AuCheck *c, AuCode code, AuSpan span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
AuDiag *check_warning(AuCheck *c, AuCode code, AuSpan span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
AuDiag *check_remark(AuCheck *c, AuCode code, AuSpan span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
AuScope *check_consts(AuCheck *c, AuModule *module);
/* The definition of an online function, the script's own before the library's; *module is where it is. */
const AuItem *check_find_online(AuCheck *c, const char *name, AuModule **module);

/* ---- scope.c */
AuScope *scope_new(AuCheck *c, AuScope *parent);
AuSymbol *scope_find(const AuScope *scope, const char *name);
/* Declares a name; if it is taken that is reported, and the new meaning is returned but not declared. */
AuSymbol *scope_declare(AuCheck *c, AuScope *scope, AuSymbolKind kind, AuAstName name,
                        const char *what);
/* The same without asking whether an outer scope has the name. */
AuSymbol *scope_shadow(AuCheck *c, AuScope *scope, AuSymbolKind kind, AuAstName name,
                       const char *what);
void scope_add_language(AuCheck *c, AuScope *root);
void scope_add_indices(AuCheck *c, AuScope *scope);
bool scope_is_always_there(const char *name);
/* Reports a name that the attention IR keeps for itself; sizes, tensors, params, state and definitions carry their names there. */
void scope_check_reserved(AuCheck *c, AuAstName name);

/* ---- refuse.c */
/* Reports a word that is refused by name; false: it is none. */
bool refuse_word(AuCheck *c, const char *word, AuSpan span);
AuDiag *refuse_mask_by_score(AuCheck *c, AuSpan span);
AuDiag *refuse_previous_tokens(AuCheck *c, AuSpan span);
AuDiag *refuse_mixing(AuCheck *c, AuSpan span);
void refuse_sum_of_heads(AuCheck *c, AuSpan span);
AuDiag *refuse_noncausal(AuCheck *c, AuSpan span, const char *why);
void refuse_assignment(AuCheck *c, const AuStmt *stmt, const AuSymbol *s);
/* The closest of the candidates seen so far. */
typedef struct AuGuess {
    const char *word, *best;
    uint32_t distance;
} AuGuess;
AuGuess guess_new(const AuCheck *c, const char *word);
void guess_try(AuGuess *guess, const char *candidate);
void guess_scope(AuGuess *guess, const AuScope *scope);
void guess_set(AuGuess *guess, const AuNameSet *set);
void guess_add_note(AuCheck *c, AuDiag *diag, const AuGuess *guess); /* sets the fix, too */

/* ---- value.c */
static inline AuValue value_none(void) { return (AuValue){{0}, AU_T_NONE, 0, {0}}; }
AuValue value_of(AuCheck *c, AuExpr e);
AuValue value_int(AuCheck *c, int32_t number, AuSpan span);
AuValue value_float(AuCheck *c, double number, AuSpan span);
AuValue value_index(AuCheck *c, uint8_t axis, AuSpan span);
/* As f32, where [what] wants it; integers are converted, bool is an error. */
AuValue value_to_f32(AuCheck *c, AuValue v, AuSpan span, const char *what);
/* As a number, i32 or f32. */
AuValue value_number(AuCheck *c, AuValue v, AuSpan span, const char *what);
bool value_is_bool(AuCheck *c, AuValue v, AuSpan span, const char *what);
AuValue value_unary(AuCheck *c, AuOp op, AuValue x, AuSpan span);
/* Both of one type after promotion; [op] is an operation of numbers. */
AuValue value_binary(AuCheck *c, AuOp op, AuValue x, AuValue y, AuSpan span);
AuValue value_where(AuCheck *c, AuValue cond, AuValue x, AuValue y, AuSpan span);
bool value_promote_pair(AuCheck *c, AuValue *x, AuValue *y, AuSpan span_x, AuSpan span_y,
                        const char *what);
static inline uint8_t value_axes(const AuCheck *c, AuValue v) { return attn_at(c->a, v.e)->axes; }
/* The value of a constant integer; false: it is none. */
bool value_constant(const AuCheck *c, AuValue v, int64_t *number);
/* The value of a constant number of either type. */
bool value_is_number(const AuCheck *c, AuValue v, double *number);
/* Whether it is made of numbers, sizes and params by arithmetic that is done at launch. */
bool value_is_of_launch(const AuCheck *c, AuValue v);
const char *value_type_text(AuType type);

/* ---- expr.c, names.c, index.c */
/* One more step of the script's budget; false: it is spent, which is reported. */
bool check_spend(AuCheck *c, AuSpan span);
AuValue check_expr(AuCheck *c, const AuAst *e);
AuValue check_name(AuCheck *c, const AuAst *e);
AuValue check_field(AuCheck *c, const AuAst *e); /* a.m in combine */
AuValue check_index(AuCheck *c, const AuAst *e);
void check_unknown_name(AuCheck *c, const char *name, AuSpan span);
/* Indices of a tensor: as many as [wanted], each i32. Returns false if something was reported. */
bool check_indices(AuCheck *c, const AuAst *e, const AuTensor *tensor, uint32_t wanted,
                   AuExpr *out);
/* The tensor that e names, without complaint: NULL if it is none. */
const AuSymbol *check_tensor_symbol(const AuCheck *c, const AuAst *e);
const char *check_size_name(const AuCheck *c, AuExpr size);

/* ---- call.c, rowfunc.c */
typedef enum AuBuild {
    AU_BUILD_MAP,
    AU_BUILD_NUM,
    AU_BUILD_CLAMP,
    AU_BUILD_WHERE,
    AU_BUILD_RELU,
    AU_BUILD_ELU,
    AU_BUILD_SILU,
    AU_BUILD_GELU,
    AU_BUILD_CAST,
    AU_BUILD_KEYS,
    AU_BUILD_SUM,
    AU_BUILD_MEAN,
    AU_BUILD_L2NORM,
    AU_BUILD_RMSNORM,
    AU_BUILD_ROPE,
    AU_BUILD_ROPE_INTERLEAVED,
    AU_BUILD_DOT,
    AU_BUILD_DROPOUT
} AuBuild;
typedef struct AuBuiltin {
    const char *name;
    uint32_t least, most;
    AuBuild build;
    AuOp op;
} AuBuiltin;
const AuBuiltin *builtin_find(const char *name);
const AuBuiltin *builtin_at(uint32_t n); /* NULL behind the last */
AuValue check_call(AuCheck *c, const AuAst *e);
AuValue check_row_function(AuCheck *c, const AuAst *e, const AuBuiltin *f, const AuValue *args);
AuValue check_dot(AuCheck *c, const AuAst *e);

/* ---- mods.c */
typedef struct AuSignature {
    const char *name;
    uint32_t returned, count; /* values it returns; parameters it has at most */
    const char *params[6];
} AuSignature;
const AuSignature *mod_find(const char *name);    /* NULL: no mod */
const AuSignature *clause_find(const char *name); /* NULL: no clause */
const AuSignature *mod_at(uint32_t n);            /* NULL behind the last */
const AuSignature *clause_at(uint32_t n);
/* Evaluates the statements of a body in a scope of its own; the returned values, at most [most], go to out.
 * Returns how many there are, 0 if the body is broken. */
uint32_t check_body(AuCheck *c, const AuItem *function, AuValue *out, uint32_t most);
void check_mod(AuCheck *c, const AuItem *mod);

/* ---- tensors.c, params.c */
/* q, k, v and inputs. q, k and v have places afterwards, with axes of none where they are wrong. */
void check_tensors(AuCheck *c);
void check_axis_expressions(AuCheck *c);
void check_params(AuCheck *c);
void check_lets_and_requires(AuCheck *c);
/* The number of heads, H. */
AuExpr check_heads(const AuCheck *c);
/* Axis n of q, k or v; none if it was not given. */
AuExpr check_axis(const AuCheck *c, AuTensorRole role, uint32_t n);
AuDtype check_dtype(AuCheck *c, AuAstName name, bool *ok);

/* ---- online.c, linear.c, decay.c */
void check_online_use(AuCheck *c, const AuItem *use);
void check_online_unused(AuCheck *c, const AuItem *online);
void check_linear(AuCheck *c, const AuItem *item);
/* A tensor without indices in a slot: its axes by name. */
AuValue check_whole_tensor(AuCheck *c, int32_t tensor, AuSpan span);
void check_decay(AuCheck *c, AuExpr decay, AuSpan span);

#endif
