/* lint_calls.c - calls: functions of the program, and those of the library that printed text has. Overloads are looked for without
 * conversions: min(1L, 2) fits none of them better than another. */
#include "lint.h"

#include <string.h>

typedef enum Rule {
    ALIKE,    /* numbers of one type, the result too */
    REAL,     /* real ones */
    INTEGER,  /* whole ones */
    TRUTH,    /* a real one; a bool of each */
    ANY,      /* one bool */
    BARRIER,  /* mem_flags */
    EXCHANGE, /* a number of up to 32 bits, and an integer */
    CHOICE,   /* two alike and a bool of each */
    MULTIPLY, /* four matrices */
    MATRIX,   /* a matrix, memory of its elements, how far rows are apart */
    ATOMIC    /* a pointer to an atomic, then numbers, pointers, orders */
} Rule;

static const struct {
    const char *name;
    unsigned count;
    Rule rule;
} library[] = {
    {"min", 2, ALIKE},
    {"max", 2, ALIKE},
    {"clamp", 3, ALIKE},
    {"abs", 1, ALIKE},
    {"fma", 3, REAL},
    {"floor", 1, REAL},
    {"ceil", 1, REAL},
    {"rint", 1, REAL},
    {"sqrt", 1, REAL},
    {"rsqrt", 1, REAL},
    {"sin", 1, REAL},
    {"cos", 1, REAL},
    {"exp", 1, REAL},
    {"exp2", 1, REAL},
    {"log", 1, REAL},
    {"log2", 1, REAL},
    {"tanh", 1, REAL},
    {"mulhi", 2, INTEGER},
    {"isnan", 1, TRUTH},
    {"select", 3, CHOICE},
    {"simd_any", 1, ANY},
    {"simd_shuffle", 2, EXCHANGE},
    {"simd_shuffle_xor", 2, EXCHANGE},
    {"threadgroup_barrier", 1, BARRIER},
    {"simdgroup_barrier", 1, BARRIER},
    {"simdgroup_multiply_accumulate", 4, MULTIPLY},
    {"simdgroup_load", 3, MATRIX},
    {"atomic_fetch_add_explicit", 3, ATOMIC},
    {"atomic_load_explicit", 2, ATOMIC},
    {"atomic_compare_exchange_weak_explicit", 5, ATOMIC},
};
enum { LIBRARY = sizeof library / sizeof *library };

static unsigned arguments(Lint *l, LintType *given)
{
    unsigned count = 0;
    if (lint_take(l, ")")) return 0;
    do {
        const LintType one = lint_value(l);
        if (count < LINT_PARAMETERS) given[count] = one;
        count++;
    } while (lint_take(l, ","));
    lint_expect(l, ")");
    return count;
}

static bool all_known(const LintType *given, unsigned count)
{
    for (unsigned n = 0; n < count; n++)
        if (given[n].base == LINT_UNKNOWN) return false;
    return true;
}

static void check_atomic(Lint *l, const LintToken *name, const LintType *given, unsigned count)
{
    if (!given[0].pointer || given[0].base != LINT_ATOMIC ||
        (given[0].space != LINT_DEVICE && given[0].space != LINT_THREADGROUP))
        lint_wrong(l, name, "no atomic in device or threadgroup memory");
    if (given[count - 1].base != LINT_ORDER) lint_wrong(l, name, "an order other than relaxed");
    if (count == 5 &&
        (!given[1].pointer || given[1].space != LINT_THREAD || given[1].base != given[0].element))
        lint_wrong(l, name, "what was seen is no number in thread memory");
}

/* Arguments of one rule; false: they do not fit. */
static bool fits(Lint *l, Rule rule, const LintToken *name, const LintType *given, unsigned count)
{
    const LintType a = given[0];
    unsigned matrices = 0;
    switch (rule) {
    case ALIKE:
    case REAL:
    case INTEGER:
        for (unsigned n = 0; n < count; n++)
            if (given[n].pointer || given[n].base != a.base || given[n].width != a.width ||
                (rule == REAL ? !lint_is_real(a) : rule == INTEGER && !lint_is_integer(a)) ||
                a.base == LINT_BOOL || !(lint_is_real(a) || lint_is_integer(a)))
                return false;
        return true;
    case TRUTH: return lint_is_real(a);
    case ANY: return !a.pointer && a.base == LINT_BOOL && a.width == 1;
    case BARRIER: return a.base == LINT_FLAGS;
    case EXCHANGE:
        return !a.pointer && a.base != LINT_BOOL && a.base != LINT_LONG && a.base != LINT_ULONG &&
               (lint_is_real(a) || lint_is_integer(a)) && lint_is_integer(given[1]) &&
               given[1].width == 1;
    case CHOICE:
        return !a.pointer && given[1].base == a.base && given[1].width == a.width &&
               given[2].base == LINT_BOOL && given[2].width == a.width;
    case MULTIPLY:
        for (unsigned n = 0; n < count; n++) matrices += given[n].base == LINT_MATRIX;
        return matrices == count && a.element == given[3].element;
    case MATRIX:
        return a.base == LINT_MATRIX && given[1].pointer && given[1].base == a.element &&
               (given[1].space == LINT_DEVICE || given[1].space == LINT_THREADGROUP) &&
               lint_is_integer(given[2]);
    case ATOMIC: check_atomic(l, name, given, count); return true;
    }
    return false;
}

static LintType result_of(Rule rule, unsigned count, LintType a)
{
    const LintType nothing = {.base = LINT_VOID, .width = 1, .structure = -1};
    a.of_vector = a.packed = false;
    a.space = LINT_NOWHERE;
    if (rule == BARRIER || rule == MULTIPLY || rule == MATRIX) return nothing;
    if (rule == TRUTH || rule == ANY) a.base = LINT_BOOL;
    if (rule == ATOMIC) {
        a = nothing;
        a.base = count == 5 ? LINT_BOOL : LINT_INT;
        if (count == 2) a.base = LINT_UINT;
    }
    return a;
}

static LintType of_library(Lint *l, const LintToken *name)
{
    LintType given[LINT_PARAMETERS] = {{0}};
    const unsigned count = arguments(l, given);
    for (unsigned n = 0; n < LIBRARY; n++) {
        if (!lint_is(name, library[n].name)) continue;
        if (count != library[n].count)
            lint_wrong(l, name, "%s takes %u arguments", library[n].name, library[n].count);
        else if (all_known(given, count) && !fits(l, library[n].rule, name, given, count))
            lint_wrong(l, name, "no function %s takes these types", library[n].name);
        return result_of(library[n].rule, count, given[0]);
    }
    lint_wrong(l, name, "'%.*s' is no function of MSL 3.0 that kernels are known to call",
               (int)name->length, name->at);
    return (LintType){.width = 1};
}

/* The program's own, the latest first: a name may have several, by number and types of what they take. */
static bool suits(const LintFunction *f, const LintToken *name, const LintType *given,
                  unsigned count)
{
    if (f->name->length != name->length || memcmp(f->name->at, name->at, name->length) != 0 ||
        f->count != count)
        return false;
    for (unsigned n = 0; n < count; n++)
        if (given[n].width > 1 && f->parameters[n].width != given[n].width) return false;
    return true;
}

LintType lint_call(Lint *l, const LintToken *name)
{
    bool named = false;
    for (unsigned n = 0; n < l->function_count; n++) {
        const LintToken *other = l->functions[n].name;
        named |= other->length == name->length && memcmp(other->at, name->at, name->length) == 0;
    }
    if (!named) return of_library(l, name);
    LintType given[LINT_PARAMETERS] = {{0}};
    const unsigned count = arguments(l, given);
    for (unsigned n = l->function_count; n-- > 0;) {
        const LintFunction *f = &l->functions[n];
        if (!suits(f, name, given, count)) continue;
        for (unsigned k = 0; k < count && k < LINT_PARAMETERS; k++)
            lint_give(l, name, f->parameters[k], given[k], "an argument");
        if (f->kernel) lint_wrong(l, name, "a kernel is called");
        l->calls[l->current][n] = true;
        return f->result;
    }
    lint_wrong(l, name, "no function '%.*s' takes %u arguments of these widths", (int)name->length,
               name->at, count);
    return (LintType){.width = 1};
}

/* ---- values of a type: T(x), T(x, y), as_type<T>(x) */

static LintType made(LintType type)
{
    if (!type.pointer) type.space = LINT_NOWHERE;
    return type;
}

LintType lint_convert(Lint *l, const LintToken *at, LintType to, LintType from)
{
    if (from.base == LINT_UNKNOWN) return made(to);
    if (to.pointer != from.pointer)
        lint_wrong(l, at, "a pointer and a number become each other");
    else if (to.pointer && to.space != from.space)
        lint_wrong(l, at, "a pointer to %s memory becomes one to %s memory", lint_space(from.space),
                   lint_space(to.space));
    else if (!to.pointer && from.width > 1 && from.width != to.width)
        lint_wrong(l, at, "a vector of %u becomes one of %u", from.width, to.width);
    else if (!to.pointer && to.packed && from.width > 1 && from.base != to.base)
        lint_wrong(l, at, "a packed vector of another type");
    return made(to);
}

LintType lint_make(Lint *l, const LintToken *at, LintType type)
{
    LintType given[LINT_PARAMETERS] = {{0}};
    const unsigned count = arguments(l, given);
    unsigned width = 0;
    for (unsigned n = 0; n < count && n < LINT_PARAMETERS; n++) width += given[n].width;
    if (count == 1) return lint_convert(l, at, type, given[0]);
    if (count && all_known(given, count) && width != type.width)
        lint_wrong(l, at, "a vector of %u is made of %u numbers", type.width, width);
    return made(type);
}

LintType lint_as_type(Lint *l, const LintToken *at)
{
    LintType given[LINT_PARAMETERS] = {{0}};
    lint_expect(l, "<");
    LintType type = lint_type(l);
    lint_expect(l, ">");
    lint_expect(l, "(");
    const unsigned count = arguments(l, given);
    if (count != 1 || (given[0].base && lint_bytes(given[0]) != lint_bytes(type)) ||
        given[0].pointer || type.base == LINT_BOOL)
        lint_wrong(l, at, "as_type of one value of as many bytes");
    return made(type);
}
