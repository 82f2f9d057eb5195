/* lint.h - what the parts of the linter share: lint_tokens.c has words and types, lint_values.c expressions, lint_calls.c functions,
 * lint.c declarations and statements. Sources: Metal Shading Language Specification, chapters 1.5 (what of C++ is missing), 2 (types),
 * 4 (address spaces), 5 (functions, attributes), 6 (library), and the limits of Metal's feature set tables. */
#ifndef AU_TESTS_LINT_H
#define AU_TESTS_LINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LINT_MOST_BUFFERS = 31,
    LINT_THREADGROUP_BYTES = 32 << 10,
    LINT_SLOT_BYTES = 4096, /* of setBytes:length:atIndex: */
    LINT_MOST_THREADS = 1024,
    LINT_BFLOATS = 310
};
enum { LINT_NAMES = 16384, LINT_FUNCTIONS = 2048, LINT_PARAMETERS = 8 };

typedef enum LintKind { LINT_END, LINT_NAME, LINT_NUMBER, LINT_SIGN } LintKind;
typedef struct LintToken {
    LintKind kind;
    const char *at;
    unsigned length, line;
} LintToken;

typedef enum LintBase {
    LINT_UNKNOWN, /* something is wrong that has been said: of no type that anything disagrees with */
    LINT_VOID,
    LINT_BOOL,
    LINT_CHAR,
    LINT_UCHAR,
    LINT_SHORT,
    LINT_USHORT,
    LINT_INT,
    LINT_UINT,
    LINT_LONG,
    LINT_ULONG,
    LINT_HALF,
    LINT_BFLOAT,
    LINT_FLOAT,
    LINT_ATOMIC, /* of [element] */
    LINT_MATRIX,
    LINT_STRUCT,
    LINT_FLAGS,
    LINT_ORDER
} LintBase;
typedef enum LintSpace {
    LINT_NOWHERE,
    LINT_DEVICE,
    LINT_CONSTANT,
    LINT_THREADGROUP,
    LINT_THREAD
} LintSpace;
typedef struct LintType {
    LintBase base, element;
    LintSpace space; /* of what a pointer or reference leads to, else of the value itself */
    unsigned width;  /* 1: no vector */
    int structure;   /* its number among the structs */
    bool packed, pointer, reference, of_vector; /* of_vector: an element of a vector */
} LintType;

typedef struct LintVariable {
    const LintToken *name;
    LintType type;
} LintVariable;

typedef struct LintFunction {
    const LintToken *name;
    LintType result, parameters[LINT_PARAMETERS];
    unsigned count;
    bool kernel, declared; /* declared: its body was not seen yet */
} LintFunction;

/* Members lie one behind the other in [members]. */
typedef struct LintStruct {
    const LintToken *name;
    unsigned first, count;
} LintStruct;

typedef struct Lint {
    const char *source;
    unsigned version; /* of the language: 310 */
    char *why;
    size_t room, used;
    unsigned wrong;
    LintToken *tokens, *at;
    size_t count;
    LintVariable names[LINT_NAMES], members[LINT_NAMES]; /* names in scope, innermost last */
    unsigned name_count, member_count;
    LintStruct structs[LINT_FUNCTIONS];
    unsigned struct_count;
    LintFunction functions[LINT_FUNCTIONS];
    unsigned function_count, current;           /* current: whose body is read */
    bool calls[LINT_FUNCTIONS][LINT_FUNCTIONS]; /* which function calls which */
    unsigned threadgroup_bytes, threads;        /* of the kernel that is read */
    bool in_kernel, stopped;
} Lint;

/* Something is wrong at a token. */
__attribute__((format(printf, 3, 4))) void lint_wrong(Lint *l, const LintToken *at,
                                                      const char *format, ...);
/* The text is not understood here: nothing after it is looked at. */
void lint_stop(Lint *l, const char *expected);

/* ---- lint_tokens.c */
bool lint_read(Lint *l); /* false: no memory */
bool lint_is(const LintToken *t, const char *text);
const LintToken *lint_next(Lint *l);       /* passes one, but never the end */
bool lint_take(Lint *l, const char *text); /* is it next? then it is passed */
void lint_expect(Lint *l, const char *text);
bool lint_begins_type(const Lint *l, const LintToken *t);
/* A type with what stands before and behind it, up to `*` or `&`. */
LintType lint_type(Lint *l);
unsigned lint_bytes(LintType t);
unsigned lint_bytes_of(const LintToken *name); /* a number's or vector's; 0: it is none */
const char *lint_space(LintSpace space);
/* A name that is declared may not be a word of the language or of its library. */
void lint_check_name(Lint *l, const LintToken *name, bool of_program);

/* ---- lint_values.c */
LintType lint_value(Lint *l);
bool lint_is_real(LintType t);
bool lint_is_integer(LintType t);
/* May [from] be given to a variable, a parameter, a result of type [to]? */
void lint_give(Lint *l, const LintToken *at, LintType to, LintType from, const char *what);

/* ---- lint_calls.c: the name and `(` are passed */
LintType lint_call(Lint *l, const LintToken *name);
LintType lint_make(Lint *l, const LintToken *at, LintType type);
LintType lint_as_type(Lint *l, const LintToken *at);
/* A value of another type, as (T)x has it: memory stays the same. */
LintType lint_convert(Lint *l, const LintToken *at, LintType to, LintType from);

#endif
