/* lint_values.c - expressions: what type each has, in which memory pointers lead, and what the language does not convert by itself. */
#include "lint.h"

#include <string.h>

static LintType scalar(LintBase base)
{
    return (LintType){.base = base, .width = 1, .structure = -1};
}
static LintType unknown(void) { return scalar(LINT_UNKNOWN); }

static bool is_value(LintType t)
{
    return !t.pointer && t.base >= LINT_BOOL && t.base <= LINT_FLOAT;
}
bool lint_is_real(LintType t) { return is_value(t) && t.base >= LINT_HALF; }
bool lint_is_integer(LintType t) { return is_value(t) && t.base < LINT_HALF; }

static bool same_target(LintType a, LintType b)
{
    return a.base == b.base && a.width == b.width && a.packed == b.packed &&
           a.structure == b.structure && a.element == b.element;
}

void lint_give(Lint *l, const LintToken *at, LintType to, LintType from, const char *what)
{
    if (to.base == LINT_UNKNOWN || from.base == LINT_UNKNOWN) return;
    if (to.pointer != from.pointer) {
        lint_wrong(l, at, "%s: a pointer and a number", what);
    } else if (to.pointer) {
        if (to.space != from.space)
            lint_wrong(l, at, "%s: a pointer to %s memory becomes one to %s memory", what,
                       lint_space(from.space), lint_space(to.space));
        else if (!same_target(to, from))
            lint_wrong(l, at, "%s: pointers to different types", what);
    } else if (is_value(to) && is_value(from)) {
        if (from.width > 1 && (to.width != from.width || to.base != from.base))
            lint_wrong(l, at, "%s: a vector becomes one of another type by itself", what);
    } else if (to.base != from.base || to.structure != from.structure) {
        lint_wrong(l, at, "%s: another type", what);
    }
}

/* ---- what stands alone */

static LintType number(Lint *l)
{
    const LintToken *t = lint_next(l);
    const bool hex = t->length > 1 && (t->at[1] == 'x' || t->at[1] == 'X');
    bool real = false;
    unsigned end = 0;
    for (; end < t->length && !strchr(hex ? "uUlLhH" : "fFhHuUlL", t->at[end]); end++)
        real |= !hex && strchr(".eE", t->at[end]);
    const char *suffix = t->at + end;
    const unsigned left = t->length - end;
    if (real) {
        if (left == 1 && strchr("fF", *suffix)) return scalar(LINT_FLOAT);
        if (left == 1 && strchr("hH", *suffix)) return scalar(LINT_HALF);
        lint_wrong(l, t, "'%.*s': a real number ends in f or h", (int)t->length, t->at);
        return unknown();
    }
    const bool is_long = left && strchr("lL", suffix[left - 1]);
    const bool is_unsigned = left && strchr("uU", suffix[0]);
    if (left > (unsigned)is_long + is_unsigned)
        lint_wrong(l, t, "'%.*s': an integer ends in u, L or uL", (int)t->length, t->at);
    if (is_long) return scalar(is_unsigned ? LINT_ULONG : LINT_LONG);
    return scalar(is_unsigned ? LINT_UINT : LINT_INT);
}

/* Constants of the library's headers and its enumerations. */
static bool constant(Lint *l, LintType *type)
{
    static const struct {
        const char *name;
        LintBase base;
    } known[] = {
        {"true", LINT_BOOL},     {"false", LINT_BOOL},    {"INFINITY", LINT_FLOAT},
        {"NAN", LINT_FLOAT},     {"INT_MIN", LINT_INT},   {"INT_MAX", LINT_INT},
        {"LONG_MIN", LINT_LONG}, {"LONG_MAX", LINT_LONG}, {"memory_order_relaxed", LINT_ORDER}};
    for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
        if (!lint_take(l, known[n].name)) continue;
        *type = scalar(known[n].base);
        return true;
    }
    if (!lint_take(l, "mem_flags")) return false;
    lint_expect(l, "::");
    if (!lint_take(l, "mem_device") && !lint_take(l, "mem_threadgroup") &&
        !lint_take(l, "mem_none"))
        lint_stop(l, "mem_device, mem_threadgroup or mem_none");
    *type = scalar(LINT_FLAGS);
    return true;
}

static LintType name(Lint *l)
{
    const LintToken *t = l->at;
    LintType type;
    if (constant(l, &type)) return type;
    lint_next(l);
    if (lint_is(t, "as_type")) return lint_as_type(l, t);
    for (unsigned n = l->name_count; n-- > 0;) {
        const LintToken *other = l->names[n].name;
        if (other->length != t->length || memcmp(other->at, t->at, t->length) != 0) continue;
        if (lint_is(l->at, "("))
            lint_wrong(l, t, "'%.*s' is a variable and is called", (int)t->length, t->at);
        type = l->names[n].type;
        type.reference = false;
        return type;
    }
    if (lint_take(l, "(")) return lint_call(l, t);
    lint_wrong(l, t, "nothing is called '%.*s'", (int)t->length, t->at);
    return unknown();
}

static LintType primary(Lint *l)
{
    const LintToken *t = l->at;
    if (t->kind == LINT_NUMBER) return number(l);
    if (lint_take(l, "(")) {
        const LintType type = lint_value(l);
        lint_expect(l, ")");
        return type;
    }
    if (t->kind != LINT_NAME) {
        lint_stop(l, "a value");
        return unknown();
    }
    if (!lint_begins_type(l, t)) return name(l);
    LintType type = lint_type(l);
    lint_expect(l, "(");
    return lint_make(l, t, type);
}

/* ---- what stands before and behind */

static LintType element(Lint *l, LintType of)
{
    const LintToken *at = l->at - 1, *index = l->at;
    LintType by = lint_value(l);
    lint_expect(l, "]");
    if (by.base && (!lint_is_integer(by) || by.width > 1))
        lint_wrong(l, at, "an index is no integer");
    if (of.pointer) {
        of.pointer = false;
        return of;
    }
    if (of.base == LINT_UNKNOWN) return of;
    if (!is_value(of) || of.width == 1) {
        lint_wrong(l, at, "an element of what has none");
        return unknown();
    }
    if (index->kind == LINT_NUMBER && lint_is(index + 1, "]") &&
        (index->length > 1 || (unsigned)(*index->at - '0') >= of.width))
        lint_wrong(l, index, "a vector of %u has no element %.*s", of.width, (int)index->length,
                   index->at);
    LintType one = scalar(of.base);
    one.space = of.space;
    one.of_vector = true;
    return one;
}

static LintType member(Lint *l, LintType of)
{
    const LintToken *t = lint_next(l);
    if (of.base == LINT_MATRIX && lint_is(t, "thread_elements")) {
        lint_expect(l, "(");
        lint_expect(l, ")");
        LintType two = scalar(of.element);
        two.width = 2;
        return two;
    }
    if (of.base == LINT_STRUCT && !of.pointer) {
        const LintStruct *s = &l->structs[of.structure];
        for (unsigned n = s->first; n < s->first + s->count; n++) {
            const LintToken *other = l->members[n].name;
            if (other->length == t->length && memcmp(other->at, t->at, t->length) == 0) {
                LintType type = l->members[n].type;
                if (!type.pointer) type.space = of.space;
                return type;
            }
        }
    }
    lint_wrong(l, t, "no member '%.*s'", (int)t->length, t->at);
    return unknown();
}

static LintType postfix(Lint *l)
{
    LintType type = primary(l);
    for (;;) {
        if (lint_take(l, "["))
            type = element(l, type);
        else if (lint_take(l, "."))
            type = member(l, type);
        else if (!lint_take(l, "++") && !lint_take(l, "--"))
            return type;
    }
}

static LintType promoted(LintType t)
{
    if (!t.pointer && t.width == 1 && t.base >= LINT_BOOL && t.base <= LINT_USHORT)
        t.base = LINT_INT;
    t.of_vector = false;
    return t;
}

static LintType unary(Lint *l)
{
    const LintToken *at = l->at;
    LintType type;
    if (lint_take(l, "-") || lint_take(l, "+") || lint_take(l, "~")) {
        type = promoted(unary(l));
        if (type.base && !is_value(type)) lint_wrong(l, at, "a sign before no number");
        return type;
    }
    if (lint_take(l, "!")) {
        type = unary(l);
        type.base = type.base ? LINT_BOOL : LINT_UNKNOWN;
        return type;
    }
    if (lint_take(l, "*")) {
        type = unary(l);
        if (type.base && !type.pointer) lint_wrong(l, at, "what is no pointer is followed");
        type.pointer = false;
        return type;
    }
    if (lint_is(at, "(") && lint_begins_type(l, at + 1) && !lint_is(at + 2, "(")) {
        lint_next(l);
        type = lint_type(l);
        lint_expect(l, ")");
        return lint_convert(l, at, type, unary(l));
    }
    if (!lint_take(l, "&")) return postfix(l);
    type = unary(l);
    if (type.of_vector) lint_wrong(l, at, "the address of a vector's element");
    if (type.pointer) lint_wrong(l, at, "the address of a pointer");
    type.pointer = true;
    if (!type.space) type.space = LINT_THREAD;
    return type;
}

/* ---- what stands between */

static unsigned binding(const LintToken *t)
{
    static const char *const signs[] = {"||", "&&", "|",  "^",  "&", "==", "!=", "<", ">",
                                        "<=", ">=", "<<", ">>", "+", "-",  "*",  "/", "%"};
    static const unsigned char bindings[] = {1, 2, 3, 4, 5, 6, 6,  7,  7,
                                             7, 7, 8, 8, 9, 9, 10, 10, 10};
    for (size_t n = 0; n < sizeof bindings; n++)
        if (t->kind == LINT_SIGN && lint_is(t, signs[n])) return bindings[n];
    return 0;
}

/* The type that both become; vectors become nothing by themselves. */
static LintType common(Lint *l, const LintToken *at, LintType a, LintType b)
{
    if (a.base == LINT_UNKNOWN || b.base == LINT_UNKNOWN) return unknown();
    if (!is_value(a) || !is_value(b)) {
        if (a.base == b.base && a.base == LINT_FLAGS) return a;
        lint_wrong(l, at, "'%.*s' of what are no numbers", (int)at->length, at->at);
        return unknown();
    }
    if (a.width > 1 && b.width > 1) {
        if (a.width != b.width || a.base != b.base)
            lint_wrong(l, at, "'%.*s' of vectors of different types", (int)at->length, at->at);
        a.packed = false;
        return a;
    }
    if (a.width > 1 || b.width > 1) return a.width > 1 ? a : b;
    a = promoted(a), b = promoted(b);
    return scalar(a.base > b.base ? a.base : b.base);
}

static LintType moved(Lint *l, const LintToken *at, LintType a, LintType b)
{
    if (!a.pointer) {
        const LintType swap = a;
        a = b, b = swap;
    }
    if (b.base && (!lint_is_integer(b) || b.width > 1 || !(lint_is(at, "+") || lint_is(at, "-"))))
        lint_wrong(l, at, "'%.*s' of a pointer", (int)at->length, at->at);
    return a;
}

static LintType between(Lint *l, const LintToken *at, LintType a, LintType b)
{
    const unsigned bound = binding(at);
    if (a.pointer || b.pointer) return moved(l, at, a, b);
    const bool whole = lint_is(at, "%") || bound == 8 || (bound >= 3 && bound <= 5);
    if (whole && (lint_is_real(a) || lint_is_real(b)))
        lint_wrong(l, at, "'%.*s' of a real number", (int)at->length, at->at);
    if (bound == 8 && a.width == 1 && b.width == 1) return promoted(a);
    LintType type = common(l, at, a, b);
    if (type.base && (bound <= 2 || bound == 6 || bound == 7)) type.base = LINT_BOOL;
    return type;
}

static LintType binary(Lint *l, unsigned least)
{
    LintType a = unary(l);
    for (;;) {
        const LintToken *at = l->at;
        const unsigned bound = binding(at);
        if (!bound || bound < least) return a;
        lint_next(l);
        a = between(l, at, a, binary(l, bound + 1));
    }
}

static LintType chosen(Lint *l, const LintToken *at, LintType a, LintType b)
{
    if (!a.pointer && !b.pointer && a.base == b.base && a.width == b.width) return a;
    if (!a.pointer && !b.pointer) return common(l, at, a, b);
    lint_give(l, at, a, b, "?:");
    return a;
}

LintType lint_value(Lint *l)
{
    LintType type = binary(l, 1);
    const LintToken *at = l->at;
    if (lint_take(l, "?")) {
        if (type.width > 1) lint_wrong(l, at, "?: of a vector: select is meant");
        LintType yes = lint_value(l);
        lint_expect(l, ":");
        return chosen(l, at, yes, lint_value(l));
    }
    if (lint_take(l, "=")) {
        lint_give(l, at, type, lint_value(l), "=");
    } else if (at->kind == LINT_SIGN && at->length >= 2 && at->at[at->length - 1] == '=' &&
               !binding(at)) {
        const LintToken sign = {LINT_SIGN, at->at, at->length - 1, at->line};
        lint_next(l);
        lint_give(l, at, type, between(l, &sign, type, lint_value(l)), "=");
    }
    return type;
}
