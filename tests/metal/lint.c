/* lint.c - a text: structs, functions, kernels and their arguments, statements; limits; who calls whom. */
#include "lint.h"
#include "metal_lint.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is wrong */

void lint_wrong(Lint *l, const LintToken *at, const char *format, ...)
{
    va_list values;
    l->wrong++;
    if (l->used >= l->room) return;
    int n = snprintf(l->why + l->used, l->room - l->used, "%u: ", at->line);
    l->used += n > 0 ? (size_t)n : 0;
    if (l->used >= l->room) return;
    va_start(values, format);
    n = vsnprintf(l->why + l->used, l->room - l->used, format, values);
    va_end(values);
    l->used += n > 0 ? (size_t)n : 0;
    if (l->used < l->room) l->used += (size_t)snprintf(l->why + l->used, l->room - l->used, "\n");
}

void lint_stop(Lint *l, const char *expected)
{
    if (l->stopped) return;
    lint_wrong(l, l->at, "expected %s, found '%.*s'", expected, (int)l->at->length, l->at->at);
    l->stopped = true;
    while (l->at->kind != LINT_END) l->at++;
}

/* ---- names */

static void declare(Lint *l, const LintToken *name, LintType type)
{
    lint_check_name(l, name, false);
    if (l->name_count == LINT_NAMES)
        lint_stop(l, "fewer names");
    else
        l->names[l->name_count++] = (LintVariable){name, type};
}

/* Elements of `[n]` behind a name; 1: none. Arrays are used as pointers to their first element. */
static unsigned array(Lint *l, LintType *type)
{
    if (!lint_take(l, "[")) return 1;
    const unsigned count = (unsigned)strtoul(l->at->at, NULL, 10);
    if (l->at->kind != LINT_NUMBER || !count) lint_stop(l, "a number of elements");
    lint_next(l);
    lint_expect(l, "]");
    type->pointer = true;
    if (!type->space) type->space = LINT_THREAD;
    return count;
}

/* ---- statements */

static void statement(Lint *l);

static void check_local(Lint *l, const LintToken *at, LintType type, unsigned bytes, bool given)
{
    const bool variable = !type.reference && (!type.pointer || bytes);
    if (!variable) return;
    if (type.space == LINT_DEVICE || type.space == LINT_CONSTANT)
        lint_wrong(l, at, "a variable of a function lies in %s memory", lint_space(type.space));
    if (type.space != LINT_THREADGROUP) return;
    if (!l->in_kernel) lint_wrong(l, at, "a threadgroup variable outside of a kernel");
    if (given) lint_wrong(l, at, "a threadgroup variable with a first value");
    l->threadgroup_bytes += bytes;
}

static void declaration(Lint *l)
{
    const LintType base = lint_type(l);
    do {
        LintType type = base;
        const LintToken *name = lint_next(l);
        const unsigned element = lint_bytes(type), count = array(l, &type);
        const bool given = lint_take(l, "=");
        const bool is_array = type.pointer && !base.pointer;
        check_local(l, name, type, is_array || !type.pointer ? element * count : 0, given);
        if (base.base == LINT_VOID && !base.pointer) lint_wrong(l, name, "a variable of no type");
        if (given) {
            const LintToken *at = l->at;
            lint_give(l, at, type, lint_value(l), "=");
        }
        if (!type.pointer && !type.space) type.space = LINT_THREAD;
        declare(l, name, type);
    } while (lint_take(l, ","));
    lint_expect(l, ";");
}

/* ( condition ): one truth, not a vector of them. */
static void condition(Lint *l)
{
    lint_expect(l, "(");
    const LintToken *at = l->at;
    const LintType type = lint_value(l);
    if (type.width > 1 || type.pointer) lint_wrong(l, at, "a condition that is no one value");
    lint_expect(l, ")");
}

static void loop(Lint *l)
{
    lint_expect(l, "(");
    if (lint_begins_type(l, l->at))
        declaration(l);
    else if (!lint_take(l, ";"))
        lint_value(l), lint_expect(l, ";");
    if (!lint_is(l->at, ";")) lint_value(l);
    lint_expect(l, ";");
    if (!lint_is(l->at, ")")) lint_value(l);
    lint_expect(l, ")");
    statement(l);
}

static void block(Lint *l)
{
    const unsigned outside = l->name_count;
    while (l->at->kind != LINT_END && !lint_is(l->at, "}")) statement(l);
    lint_expect(l, "}");
    l->name_count = outside;
}

static void give_back(Lint *l)
{
    const LintToken *at = l->at;
    const LintType result = l->functions[l->current].result;
    if (lint_take(l, ";")) {
        if (result.base != LINT_VOID) lint_wrong(l, at, "a function returns nothing");
        return;
    }
    lint_give(l, at, result, lint_value(l), "return");
    lint_expect(l, ";");
}

/* A value as a statement may not begin like a type, so that both are told apart by the first word. */
static void statement(Lint *l)
{
    const unsigned outside = l->name_count;
    if (lint_take(l, "{")) {
        block(l);
    } else if (lint_take(l, "if")) {
        condition(l);
        statement(l);
        if (lint_take(l, "else")) statement(l);
    } else if (lint_take(l, "for")) {
        loop(l);
        l->name_count = outside;
    } else if (lint_take(l, "while")) {
        condition(l);
        statement(l);
    } else if (lint_take(l, "return")) {
        give_back(l);
    } else if (lint_take(l, "break") || lint_take(l, "continue")) {
        lint_expect(l, ";");
    } else if (lint_begins_type(l, l->at)) {
        declaration(l);
    } else {
        lint_value(l);
        lint_expect(l, ";");
    }
}

/* ---- structs: the parameter block */

static void structure(Lint *l)
{
    LintStruct *s = &l->structs[l->struct_count];
    const LintToken *name = lint_next(l);
    unsigned bytes = 0;
    lint_check_name(l, name, false);
    for (unsigned n = 0; n < l->struct_count; n++) {
        const LintToken *other = l->structs[n].name;
        if (other->length == name->length && memcmp(other->at, name->at, name->length) == 0)
            lint_wrong(l, name, "a second struct '%.*s'", (int)name->length, name->at);
    }
    *s = (LintStruct){name, l->member_count, 0};
    lint_expect(l, "{");
    while (l->at->kind != LINT_END && !lint_is(l->at, "}")) {
        const LintToken *at = l->at;
        const LintType type = lint_type(l);
        lint_check_name(l, l->at, false);
        if (type.pointer ? type.space != LINT_DEVICE && type.space != LINT_CONSTANT
                         : type.space || type.reference)
            lint_wrong(l, at, "a member in, or of, %s memory", lint_space(type.space));
        if (l->member_count == LINT_NAMES) {
            lint_stop(l, "fewer members");
            return;
        }
        l->members[l->member_count++] = (LintVariable){lint_next(l), type};
        bytes += 8; /* a slot */
        lint_expect(l, ";");
    }
    s->count = l->member_count - s->first;
    lint_expect(l, "}");
    lint_expect(l, ";");
    if (bytes > LINT_SLOT_BYTES)
        lint_wrong(l, name, "a parameter block of %u bytes: setBytes takes %u", bytes,
                   LINT_SLOT_BYTES);
    if (l->struct_count + 1 < LINT_FUNCTIONS) l->struct_count++;
}

/* ---- functions */

/* What the hardware says of a thread: a number or a vector of them, of 16 or 32 bits. */
static bool is_builtin(Lint *l, const LintToken *at, LintType type)
{
    static const struct {
        const char *name;
        unsigned widest;
    } known[] = {{"threadgroup_position_in_grid", 3},   {"threadgroups_per_grid", 3},
                 {"simdgroup_index_in_threadgroup", 1}, {"thread_index_in_simdgroup", 1},
                 {"thread_position_in_threadgroup", 3}, {"thread_index_in_threadgroup", 1}};
    for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
        if (!lint_is(at, known[n].name)) continue;
        if ((type.base != LINT_UINT && type.base != LINT_USHORT) || type.pointer ||
            type.reference || type.width > known[n].widest)
            lint_wrong(l, at, "%s has another type", known[n].name);
        return true;
    }
    return false;
}

/* [[buffer(n)]], [[threadgroup(n)]], [[what the hardware says]] of a kernel's argument. */
static void attribute(Lint *l, const LintToken *name, LintType type, unsigned *taken)
{
    if (!lint_take(l, "[[")) {
        lint_wrong(l, name, "an argument of a kernel without an attribute");
        return;
    }
    const LintToken *at = lint_next(l);
    const bool buffer = lint_is(at, "buffer"), threadgroup = lint_is(at, "threadgroup");
    if (buffer || threadgroup) {
        lint_expect(l, "(");
        const unsigned index = (unsigned)strtoul(lint_next(l)->at, NULL, 10);
        lint_expect(l, ")");
        if (index >= LINT_MOST_BUFFERS)
            lint_wrong(l, at, "index %u: there are %u", index, LINT_MOST_BUFFERS);
        else if (taken[threadgroup] >> index & 1)
            lint_wrong(l, at, "index %u is taken twice", index);
        else
            taken[threadgroup] |= 1u << index;
        const bool right = threadgroup ? type.space == LINT_THREADGROUP
                                       : type.space == LINT_DEVICE || type.space == LINT_CONSTANT;
        if (!right || !(type.pointer || type.reference))
            lint_wrong(l, at, "a %s of %s memory", buffer ? "buffer" : "threadgroup argument",
                       lint_space(type.space));
    } else if (!is_builtin(l, at, type)) {
        lint_wrong(l, at, "'%.*s' is no attribute of an argument", (int)at->length, at->at);
    }
    lint_expect(l, "]]");
}

static void parameters(Lint *l, LintFunction *f)
{
    unsigned taken[2] = {0}, widths = 0;
    if (lint_take(l, ")")) return;
    do {
        LintType type = lint_type(l);
        const LintToken *name = lint_next(l);
        if (!type.pointer && !type.reference && type.space && type.space != LINT_THREAD)
            lint_wrong(l, name, "a parameter lies in %s memory", lint_space(type.space));
        if (f->kernel) {
            attribute(l, name, type, taken);
            if (type.base == LINT_UINT && type.width > 1) widths |= 1u << type.width;
        }
        if (f->count < LINT_PARAMETERS) f->parameters[f->count] = type;
        f->count++;
        if (!type.pointer && !type.space) type.space = LINT_THREAD;
        declare(l, name, type);
    } while (lint_take(l, ","));
    if (widths & (widths - 1)) lint_wrong(l, f->name, "positions have several widths");
    if (f->count > LINT_PARAMETERS) lint_wrong(l, f->name, "more parameters than are looked at");
    lint_expect(l, ")");
}

/* What printed text says of its memory: `threadgroup T *const x = (threadgroup T *)(shared + offset); // count` */
static void check_shared(Lint *l, const LintToken *from, const LintToken *to)
{
    unsigned offset, count;
    char type[32], name[128], again[32];
    for (const LintToken *t = from; t < to; t++) {
        if (!lint_is(t, "threadgroup") || !lint_is(t + 2, "*") || !lint_is(t + 3, "const"))
            continue;
        const char *text = t->at, *comment = strstr(text, "//");
        const char *line = strchr(text, '\n');
        if (sscanf(text, "threadgroup %31s *const %127s = (threadgroup %31s *)(shared + %u", type,
                   name, again, &offset) != 4 ||
            !comment || comment > line || sscanf(comment, "// %u", &count) != 1) {
            lint_wrong(l, t, "a memory whose place and number of elements are not told");
            continue;
        }
        const unsigned element = lint_bytes_of(t + 1);
        if (element && offset % element) lint_wrong(l, t, "%s is not aligned", name);
        for (const char *at = text; at < comment; at++) /* each simdgroup has its own */
            if (strncmp(at, "simdgroup *", 11) == 0) count *= l->threads / 32;
        const unsigned end = offset + count * element;
        if (end > LINT_THREADGROUP_BYTES)
            lint_wrong(l, t, "%s ends at %u of %u bytes of threadgroup memory", name, end,
                       LINT_THREADGROUP_BYTES);
    }
}

/* A declaration and what it declares are one function. */
static unsigned number_of(const Lint *l, const LintFunction *f)
{
    for (unsigned n = 0; n < l->function_count; n++) {
        const LintFunction *other = &l->functions[n];
        if (other->declared && other->count == f->count && other->name->length == f->name->length &&
            memcmp(other->name->at, f->name->at, f->name->length) == 0)
            return n;
    }
    return l->function_count;
}

static void function(Lint *l, LintFunction f)
{
    const unsigned outside = l->name_count;
    lint_expect(l, "(");
    l->in_kernel = f.kernel;
    l->threadgroup_bytes = 0;
    parameters(l, &f);
    l->current = number_of(l, &f);
    if (l->current == LINT_FUNCTIONS) {
        lint_stop(l, "fewer functions");
        return;
    }
    const LintToken *body = l->at;
    f.declared = lint_take(l, ";");
    l->function_count += l->current == l->function_count;
    l->functions[l->current] = f;
    if (!f.declared) {
        lint_expect(l, "{");
        block(l);
        check_shared(l, body, l->at);
    }
    l->name_count = outside;
    if (l->threadgroup_bytes > LINT_THREADGROUP_BYTES)
        lint_wrong(l, f.name, "%u bytes of threadgroup memory, of %u", l->threadgroup_bytes,
                   LINT_THREADGROUP_BYTES);
}

static void kernel(Lint *l)
{
    LintFunction f = {.kernel = true};
    if (lint_take(l, "[[")) {
        lint_expect(l, "max_total_threads_per_threadgroup");
        lint_expect(l, "(");
        l->threads = (unsigned)strtoul(l->at->at, NULL, 10);
        if (l->threads == 0 || l->threads > LINT_MOST_THREADS)
            lint_wrong(l, l->at, "%u threads of a threadgroup", l->threads);
        lint_next(l);
        lint_expect(l, ")");
        lint_expect(l, "]]");
    }
    lint_expect(l, "kernel");
    f.result = lint_type(l);
    if (f.result.base != LINT_VOID || f.result.pointer)
        lint_wrong(l, l->at, "a kernel returns something");
    f.name = lint_next(l);
    lint_check_name(l, f.name, true);
    function(l, f);
}

/* A variable of the program is a constant. */
static void constant(Lint *l, LintType type, const LintToken *name)
{
    array(l, &type);
    if (type.space != LINT_CONSTANT || type.reference)
        lint_wrong(l, name, "a variable of the program that is not in constant memory");
    if (!lint_take(l, "=")) lint_wrong(l, name, "a constant without a value");
    declare(l, name, type);
    while (l->at->kind != LINT_END && !lint_take(l, ";")) lint_next(l);
}

static void outermost(Lint *l)
{
    if (lint_take(l, "using")) {
        lint_expect(l, "namespace");
        lint_expect(l, "metal");
        lint_expect(l, ";");
    } else if (lint_take(l, "struct")) {
        structure(l);
    } else if (lint_is(l->at, "[[") || lint_is(l->at, "kernel")) {
        kernel(l);
    } else {
        LintFunction f = {.result = lint_type(l)};
        f.name = l->at;
        lint_check_name(l, f.name, true);
        lint_next(l);
        if (lint_is(l->at, "("))
            function(l, f);
        else
            constant(l, f.result, f.name);
    }
}

/* A function that comes back to itself by what it calls. */
static void check_recursion(Lint *l)
{
    for (unsigned by = 0; by < l->function_count; by++)
        for (unsigned from = 0; from < l->function_count; from++)
            for (unsigned to = 0; to < l->function_count && l->calls[from][by]; to++)
                l->calls[from][to] |= l->calls[by][to];
    for (unsigned n = 0; n < l->function_count; n++) {
        const LintToken *name = l->functions[n].name;
        if (l->calls[n][n]) lint_wrong(l, name, "'%.*s' calls itself", (int)name->length, name->at);
    }
}

unsigned metal_lint(const char *source, unsigned version, char *why, size_t room)
{
    Lint *l = calloc(1, sizeof *l);
    unsigned wrong = 1;
    if (room) *why = 0;
    if (!l) return wrong;
    l->source = source, l->version = version, l->why = why, l->room = room;
    if (lint_read(l)) {
        while (l->at->kind != LINT_END) outermost(l);
        check_recursion(l);
        wrong = l->wrong;
    }
    free(l->tokens);
    free(l);
    return wrong;
}
