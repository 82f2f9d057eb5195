/* lint_tokens.c - words, numbers, lines of the preprocessor; types and names. */
#include "lint.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words */

bool lint_is(const LintToken *t, const char *text)
{
    return t->kind != LINT_END && strlen(text) == t->length && memcmp(t->at, text, t->length) == 0;
}

const LintToken *lint_next(Lint *l)
{
    const LintToken *t = l->at;
    l->at += t->kind != LINT_END;
    return t;
}

bool lint_take(Lint *l, const char *text) { return lint_is(l->at, text) && lint_next(l); }

void lint_expect(Lint *l, const char *text)
{
    if (!lint_take(l, text)) lint_stop(l, text);
}

/* From the line [at] on to behind the first of two lines that comes. */
static const char *passed(const char *at, const char *one, const char *other, unsigned *line)
{
    for (; *at; at++) {
        const size_t length = strncmp(at, one, strlen(one)) == 0                ? strlen(one)
                              : other && strncmp(at, other, strlen(other)) == 0 ? strlen(other)
                                                                                : 0;
        *line += *at == '\n';
        if (length) return at + length;
    }
    return at;
}

/* Lines of the preprocessor that text may have. What `#if` leaves out is passed over. */
static const char *directive(Lint *l, const char *at, unsigned *line)
{
    static const char *const fine[] = {"#include <metal_stdlib>",
                                       "#include <metal_simdgroup_matrix>",
                                       "#pragma clang fp contract(off)",
                                       "#pragma unroll",
                                       "#pragma nounroll",
                                       "#endif"};
    const char *end = strchr(at, '\n');
    const size_t length = end ? (size_t)(end - at) : strlen(at);
    const LintToken here = {LINT_SIGN, at, (unsigned)length, *line};
    unsigned version;
    for (size_t n = 0; n < sizeof fine / sizeof *fine; n++)
        if (strlen(fine[n]) == length && memcmp(fine[n], at, length) == 0) return at + length;
    const bool below = sscanf(at, "#if __METAL_VERSION__ < %u", &version) == 1;
    if (below || sscanf(at, "#if __METAL_VERSION__ >= %u", &version) == 1) {
        if (below == (l->version < version)) return at + length;
        return passed(at, "\n#else", "\n#endif", line);
    }
    if (length == 5 && memcmp(at, "#else", 5) == 0) return passed(at, "\n#endif", NULL, line);
    lint_wrong(l, &here, "'%.*s' is no line of the preprocessor that kernels may have", (int)length,
               at);
    return at + length;
}

static unsigned number_length(const char *at)
{
    unsigned n = 0;
    const bool hex = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    while (isalnum((unsigned char)at[n]) || at[n] == '.' ||
           (n && !hex && (at[n] == '+' || at[n] == '-') && (at[n - 1] == 'e' || at[n - 1] == 'E')))
        n++;
    return n;
}

static unsigned sign_length(const char *at)
{
    static const char *const signs[] = {
        "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&",
        "||",  "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "::", "[[", "]]"};
    for (size_t n = 0; n < sizeof signs / sizeof *signs; n++)
        if (strncmp(at, signs[n], strlen(signs[n])) == 0) return (unsigned)strlen(signs[n]);
    return 1;
}

/* `a[b[0]]` ends in two signs, `[[buffer(0)]]` in one: open ones are counted. */
static bool add(Lint *l, LintToken t, size_t *room, unsigned *attributes)
{
    if (lint_is(&t, "[[")) ++*attributes;
    if (lint_is(&t, "]]") && *attributes == 0) t.length = 1;
    if (lint_is(&t, "]]")) --*attributes;
    if (l->count == *room) {
        LintToken *more = realloc(l->tokens, (*room = *room * 2 + 1024) * sizeof *more);
        if (!more) return false;
        l->tokens = more;
    }
    l->tokens[l->count++] = t;
    return true;
}

bool lint_read(Lint *l)
{
    size_t room = 0;
    unsigned line = 1, attributes = 0;
    const char *at = l->source;
    while (*at) {
        LintToken t = {LINT_SIGN, at, 1, line};
        if (isspace((unsigned char)*at)) {
            line += *at++ == '\n';
            continue;
        }
        if (at[0] == '/' && at[1] == '/') {
            while (*at && *at != '\n') at++;
            continue;
        }
        if (*at == '#') {
            at = directive(l, at, &line);
            continue;
        }
        if (isalpha((unsigned char)*at) || *at == '_') {
            t.kind = LINT_NAME;
            while (isalnum((unsigned char)at[t.length]) || at[t.length] == '_') t.length++;
        } else if (isdigit((unsigned char)*at) || (*at == '.' && isdigit((unsigned char)at[1]))) {
            t.kind = LINT_NUMBER;
            t.length = number_length(at);
        } else {
            t.length = sign_length(at);
        }
        if (!add(l, t, &room, &attributes)) return false;
        at = l->tokens[l->count - 1].at + l->tokens[l->count - 1].length;
    }
    for (int n = 0; n < 4; n++) /* some are looked at before their turn */
        if (!add(l, (LintToken){LINT_END, at, 0, line}, &room, &attributes)) return false;
    l->at = l->tokens;
    return true;
}

/* ---- types */

static const struct {
    const char *name;
    LintBase base;
    unsigned bytes;
} scalars[] = {
    {"bool", LINT_BOOL, 1},   {"char", LINT_CHAR, 1},     {"uchar", LINT_UCHAR, 1},
    {"short", LINT_SHORT, 2}, {"ushort", LINT_USHORT, 2}, {"int", LINT_INT, 4},
    {"uint", LINT_UINT, 4},   {"long", LINT_LONG, 8},     {"ulong", LINT_ULONG, 8},
    {"half", LINT_HALF, 2},   {"bfloat", LINT_BFLOAT, 2}, {"float", LINT_FLOAT, 4},
};
enum { SCALARS = sizeof scalars / sizeof *scalars };

/* bool has no packed vectors; vectors have 2 to 4 elements. */
static bool of_scalars(const LintToken *t, LintType *type)
{
    const char *at = t->at;
    size_t length = t->length;
    *type = (LintType){.width = 1, .structure = -1};
    if (length > 7 && memcmp(at, "packed_", 7) == 0) {
        type->packed = true;
        at += 7, length -= 7;
    }
    for (unsigned n = 0; n < SCALARS; n++) {
        const size_t name = strlen(scalars[n].name);
        if (length < name || memcmp(at, scalars[n].name, name) != 0) continue;
        if (length == name + 1 && at[name] >= '2' && at[name] <= '4')
            type->width = (unsigned)(at[name] - '0');
        else if (length != name)
            continue;
        if (type->packed && (type->width == 1 || scalars[n].base == LINT_BOOL)) continue;
        type->base = scalars[n].base;
        return true;
    }
    return false;
}

static bool named_type(const Lint *l, const LintToken *t, LintType *type)
{
    static const struct {
        const char *name;
        LintBase base, element;
    } others[] = {{"void", LINT_VOID, LINT_UNKNOWN},
                  {"atomic_int", LINT_ATOMIC, LINT_INT},
                  {"atomic_uint", LINT_ATOMIC, LINT_UINT},
                  {"atomic_float", LINT_ATOMIC, LINT_FLOAT},
                  {"simdgroup_matrix", LINT_MATRIX, LINT_UNKNOWN}};
    if (t->kind != LINT_NAME) return false;
    if (of_scalars(t, type)) return true;
    for (size_t n = 0; n < sizeof others / sizeof *others; n++) {
        if (!lint_is(t, others[n].name)) continue;
        type->base = others[n].base, type->element = others[n].element;
        return true;
    }
    for (unsigned n = 0; n < l->struct_count; n++) {
        const LintToken *name = l->structs[n].name;
        if (name->length != t->length || memcmp(name->at, t->at, t->length) != 0) continue;
        type->base = LINT_STRUCT, type->structure = (int)n;
        return true;
    }
    return false;
}

static LintSpace space_of(const LintToken *t)
{
    static const struct {
        const char *name;
        LintSpace space;
    } spaces[] = {{"device", LINT_DEVICE},
                  {"constant", LINT_CONSTANT},
                  {"threadgroup", LINT_THREADGROUP},
                  {"thread", LINT_THREAD}};
    for (size_t n = 0; n < sizeof spaces / sizeof *spaces; n++)
        if (lint_is(t, spaces[n].name)) return spaces[n].space;
    return LINT_NOWHERE;
}

const char *lint_space(LintSpace space)
{
    static const char *const names[] = {"no", "device", "constant", "threadgroup", "thread"};
    return names[space];
}

bool lint_begins_type(const Lint *l, const LintToken *t)
{
    LintType type;
    return space_of(t) || lint_is(t, "const") || lint_is(t, "volatile") || lint_is(t, "alignas") ||
           named_type(l, t, &type);
}

static void qualifiers(Lint *l, LintType *type)
{
    for (;; lint_next(l)) {
        const LintSpace space = space_of(l->at);
        if (space && type->space)
            lint_wrong(l, l->at, "a type in %s and %s memory", lint_space(type->space),
                       lint_space(space));
        if (space)
            type->space = space;
        else if (lint_is(l->at, "alignas"))
            lint_next(l), lint_next(l), lint_next(l); /* ( number ) */
        else if (!lint_is(l->at, "const") && !lint_is(l->at, "volatile"))
            return;
    }
}

static void matrix_arguments(Lint *l, LintType *type)
{
    LintType element;
    lint_expect(l, "<");
    if (!of_scalars(l->at, &element) || element.base < LINT_HALF || element.base > LINT_FLOAT)
        lint_wrong(l, l->at, "matrices of a simdgroup are of half, bfloat and float");
    if (element.base == LINT_BFLOAT && l->version < LINT_BFLOATS)
        lint_wrong(l, l->at, "bfloat begins with MSL 3.1");
    type->element = element.base;
    lint_next(l);
    lint_expect(l, ",");
    lint_expect(l, "8");
    lint_expect(l, ",");
    lint_expect(l, "8");
    lint_expect(l, ">");
}

LintType lint_type(Lint *l)
{
    LintType before = {0}, type;
    qualifiers(l, &before);
    const LintToken *at = l->at;
    if (!named_type(l, at, &type)) {
        lint_stop(l, "a type of MSL 3.0");
        return (LintType){.width = 1};
    }
    lint_next(l);
    type.space = before.space;
    if (type.base == LINT_MATRIX) matrix_arguments(l, &type);
    qualifiers(l, &type);
    if (lint_is(l->at, "*") || lint_is(l->at, "&")) {
        type.pointer = lint_is(l->at, "*"), type.reference = !type.pointer;
        if (!type.space)
            lint_wrong(l, at, "a %s without an address space",
                       type.pointer ? "pointer" : "reference");
        lint_next(l);
        LintType own = {0};
        qualifiers(l, &own);
        if (own.space > LINT_NOWHERE && own.space != LINT_THREAD)
            lint_wrong(l, at, "the pointer itself lies in %s memory", lint_space(own.space));
        if (lint_is(l->at, "*")) lint_wrong(l, at, "a pointer to a pointer");
    }
    if (type.base == LINT_ATOMIC && type.element == LINT_FLOAT && type.space == LINT_THREADGROUP)
        lint_wrong(l, at, "atomic_float is of device memory alone");
    return type;
}

unsigned lint_bytes(LintType t)
{
    if (t.pointer || t.reference) return 8;
    if (t.base == LINT_ATOMIC) return 4;
    for (unsigned n = 0; n < SCALARS; n++)
        if (scalars[n].base == t.base)
            return scalars[n].bytes * (t.width == 3 && !t.packed ? 4 : t.width);
    return 0;
}

unsigned lint_bytes_of(const LintToken *name)
{
    LintType type;
    return of_scalars(name, &type) ? lint_bytes(type) : 0;
}

/* ---- names */

/* Keywords of C++14 and of MSL, words that its documents keep, and macros of its headers. */
static const char words[] =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t "
    "char32_t class compl const const_cast "
    "constexpr continue decltype default delete do double dynamic_cast else enum explicit export "
    "extern false float for friend goto if "
    "inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private "
    "protected public register "
    "reinterpret_cast return short signed sizeof static static_assert static_cast struct switch "
    "template this thread_local throw true "
    "try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor "
    "xor_eq kernel vertex fragment device "
    "constant thread threadgroup threadgroup_imageblock ray_data object_data mesh object visible "
    "intersection stitchable half bfloat "
    "size_t ptrdiff_t metal main restrict NULL NAN INFINITY INT_MIN INT_MAX UINT_MAX LONG_MIN "
    "LONG_MAX ULONG_MAX SHRT_MAX "
    "CHAR_BIT MAXFLOAT HUGE_VALF FLT_MAX FLT_MIN FLT_EPSILON HALF_MAX M_PI_F M_E_F assert sampler ";
/* Functions of its library: a function of the program of the same name makes calls ambiguous. */
static const char library[] = " abs absdiff acos all any as_type asin atan ceil clamp clz copysign "
                              "cos cross ctz distance divide dot exp exp2 fabs fdim floor fma "
                              "fmax fmin fmod fract frexp ilogb isfinite isinf isnan ldexp length "
                              "log log2 max max3 median3 min min3 mix modf mulhi normalize "
                              "popcount pow powr reverse_bits rint rotate round rsqrt saturate "
                              "select sign signbit sin sincos sinpi smoothstep sqrt step tan tanh "
                              "trunc simd_all simd_any simd_sum simd_max simd_shuffle "
                              "simd_shuffle_xor simdgroup_barrier threadgroup_barrier quad_sum ";

static bool among(const char *list, const LintToken *name)
{
    for (const char *at = list + 1; *at; at += strcspn(at, " ") + 1)
        if (strcspn(at, " ") == name->length && memcmp(at, name->at, name->length) == 0)
            return true;
    return false;
}

void lint_check_name(Lint *l, const LintToken *name, bool of_program)
{
    LintType type;
    const int length = (int)name->length;
    if (name->kind != LINT_NAME)
        lint_stop(l, "a name");
    else if (among(words, name) || of_scalars(name, &type))
        lint_wrong(l, name, "'%.*s' is a word of the language", length, name->at);
    else if (of_program && among(library, name))
        lint_wrong(l, name, "'%.*s' is a function of the library", length, name->at);
    else if (name->at[0] == '_' && (name->at[1] == '_' || isupper((unsigned char)name->at[1])))
        lint_wrong(l, name, "'%.*s' is a name that compilers keep", length, name->at);
}
