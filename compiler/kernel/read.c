/* read.c - reads the text form of a kernel (docs/dev/kernel-ir.md 6).
 * Nothing is folded or checked beyond the grammar: what was printed comes back, right or wrong, for
 * kernel_verify to judge. After an error the reader goes on with the next line, so that one run
 * shows all; any bytes whatsoever are answered. */
#include "internal.h"
#include "tokens.h"

#include <string.h>

typedef struct Reader {
    AuKernel *k;
    AuArena *arena;
    AuNames *names;
    AuDiags *diags;
    uint32_t source, at;
    AuKToken t; /* the word at hand */
    AuVal *values;
    uint32_t value_count; /* numbers that the table has room for */
    bool stop;            /* too deep: the rest cannot be understood */
} Reader;

static void next(Reader *r)
{
    r->t = kernel_token(r->diags, r->names, r->arena, r->source, &r->at);
}

/* To the beginning of a line behind [from]. */
static void skip_line(Reader *r, uint32_t from)
{
    while (r->t.kind != AU_KT_END && (!r->t.starts_line || r->t.span.begin <= from)) next(r);
}

static bool expected(Reader *r, const char *what)
{
    const AuSource *s = &r->diags->sources[r->source];
    uint32_t shown = r->t.span.end - r->t.span.begin;
    if (shown > 40) shown = 40;
    if (r->t.kind == AU_KT_END)
        au_error(r->diags, AU_E0801, r->t.span, "expected %s, found the end of the text", what);
    else
        au_error(r->diags, AU_E0801, r->t.span, "expected %s, found '%.*s'", what, (int)shown,
                 s->text + r->t.span.begin);
    return false;
}

static bool is_punct(const Reader *r, char c)
{
    return r->t.kind == AU_KT_PUNCT && r->t.punct == c;
}

static bool punct(Reader *r, char c)
{
    if (!is_punct(r, c)) return expected(r, (char[]){'\'', c, '\'', 0});
    next(r);
    return true;
}

static bool is_word(const Reader *r, const char *word)
{
    return r->t.kind == AU_KT_WORD && strcmp(r->t.text, word) == 0;
}

static bool accept(Reader *r, const char *word)
{
    if (!is_word(r, word)) return false;
    next(r);
    return true;
}

static bool keyword(Reader *r, const char *word) { return accept(r, word) || expected(r, word); }

static bool name(Reader *r, const char **out)
{
    if (r->t.kind != AU_KT_WORD && r->t.kind != AU_KT_STRING) return expected(r, "a name");
    *out = r->t.text;
    next(r);
    return true;
}

static bool count(Reader *r, uint32_t *out)
{
    if (r->t.kind != AU_KT_INT || r->t.integer < 0 || r->t.integer > UINT32_MAX)
        return expected(r, "a count");
    *out = (uint32_t)r->t.integer;
    next(r);
    return true;
}

static bool scalar_named(const char *text, size_t length, uint8_t *out)
{
    for (uint8_t s = AU_I1; s < AU_SCALARS; s++) {
        const char *known = kernel_scalar_name(s);
        if (strlen(known) != length || memcmp(known, text, length) != 0) continue;
        *out = s;
        return true;
    }
    return false;
}

/* f32 or f32x4. */
static bool type_named(const char *text, AuKType *out)
{
    const char *x = strchr(text, 'x');
    uint32_t width = 1;
    if (x) {
        if (x[1] < '1' || x[1] > '9') return false;
        width = 0;
        for (const char *d = x + 1; *d; d++) {
            if (*d < '0' || *d > '9' || width > 99) return false;
            width = width * 10 + (uint32_t)(*d - '0');
        }
        if (width > UINT8_MAX) return false;
    }
    out->width = (uint8_t)width;
    return scalar_named(text, x ? (size_t)(x - text) : strlen(text), &out->scalar);
}

/* ---- values */

static bool define(Reader *r, const AuKToken *t, AuVal v)
{
    const uint32_t number = (uint32_t)t->integer;
    if (number < r->value_count && r->values[number].i) {
        au_error(r->diags, AU_E0802, t->span, "%%%u is defined twice", number);
        return false;
    }
    if (number >= r->value_count) { /* no more values than bytes, so the table stays small */
        if (number > r->diags->sources[r->source].length) {
            au_error(r->diags, AU_E0801, t->span, "values are numbered from 1 on");
            return false;
        }
        const uint32_t room = number * 2 + 64;
        AuVal *larger = AU_NEW_ARRAY(r->arena, AuVal, room);
        if (r->value_count) memcpy(larger, r->values, r->value_count * sizeof *larger);
        r->values = larger;
        r->value_count = room;
    }
    r->values[number] = v;
    return true;
}

static AuVal append_constant(Reader *r, AuScalar scalar, int64_t imm, double number)
{
    const AuInstr in = {
        .op = AU_K_CONST, .type = {(uint8_t)scalar, 1}, .imm = imm, .number = number};
    return kernel_append(r->k, in, NULL, 0);
}

static bool operand(Reader *r, AuVal *out)
{
    const AuKToken t = r->t;
    if (t.starts_line) return expected(r, "a value on the same line");
    switch (t.kind) {
    case AU_KT_VALUE:
        if (t.integer >= r->value_count || !r->values[t.integer].i) {
            au_error(r->diags, AU_E0802, t.span, "%%%u is not defined before", (uint32_t)t.integer);
            return false;
        }
        *out = r->values[t.integer];
        break;
    case AU_KT_INT:
        if (t.integer != (int32_t)t.integer)
            return expected(r, "an i32, or an i64 with an l behind it");
        *out = append_constant(r, AU_I32, t.integer, 0);
        break;
    case AU_KT_LONG: *out = append_constant(r, AU_I64, t.integer, 0); break;
    case AU_KT_FLOAT: *out = append_constant(r, AU_F32, 0, (double)(float)t.number); break;
    case AU_KT_WORD:
        if (!is_word(r, "true") && !is_word(r, "false")) return expected(r, "a value");
        *out = append_constant(r, AU_I1, is_word(r, "true"), 0);
        break;
    case AU_KT_END:
    case AU_KT_BAD:
    case AU_KT_STRING:
    case AU_KT_PUNCT: return expected(r, "a value");
    }
    next(r);
    return true;
}

static bool memory_named(Reader *r, AuMem *out)
{
    const char *wanted = NULL;
    if (!punct(r, '@')) return false;
    const AuSpan span = r->t.span;
    if (!name(r, &wanted)) return false;
    for (uint32_t n = 1; n < r->k->mem_count; n++)
        if (strcmp(r->k->mems[n].name, wanted) == 0) {
            out->i = n;
            return true;
        }
    au_error(r->diags, AU_E0802, span, "there is no memory @%s", wanted);
    return false;
}

/* ---- instructions */

typedef struct Line {
    AuInstr in;
    AuVal operands[16];
    uint32_t count;
} Line;

static bool more(Reader *r, Line *line)
{
    if (line->count == sizeof line->operands / sizeof *line->operands)
        return expected(r, "fewer operands");
    return operand(r, &line->operands[line->count]) && ++line->count;
}

static bool place(Reader *r, Line *line, AuMem *mem)
{
    return memory_named(r, mem) && punct(r, '[') && more(r, line) && punct(r, ']');
}

static bool access(Reader *r, Line *line, uint32_t values, uint32_t further)
{
    if (!place(r, line, &line->in.mem)) return false;
    for (uint32_t n = 1; n < values; n++) {
        if (!punct(r, ',')) return false;
        if (n <= further ? !place(r, line, &line->in.also[n - 1]) : !more(r, line)) return false;
    }
    if (r->t.starts_line) return true; /* an if there is a branch */
    if (accept(r, "if") && (!more(r, line) || (accept(r, "else") && !more(r, line)))) return false;
    return true;
}

static bool constant(Reader *r, AuInstr *in)
{
    if (accept(r, "true"))
        in->imm = 1;
    else if (accept(r, "false"))
        in->imm = 0;
    else if (r->t.kind == AU_KT_INT || r->t.kind == AU_KT_LONG || r->t.kind == AU_KT_FLOAT) {
        in->imm = r->t.integer;
        in->number = r->t.kind == AU_KT_FLOAT ? r->t.number : 0;
        next(r);
    } else
        return expected(r, "a constant");
    return true;
}

static bool body_of(Reader *r, Line *line, const AuKOpInfo *info)
{
    AuInstr *in = &line->in;
    if (in->op == AU_K_CONST) return constant(r, in);
    if (info->flags & AU_KF_TEXT) {
        if (r->t.kind != AU_KT_STRING) return expected(r, "a text in quotes");
        return name(r, &in->text);
    }
    if (info->flags & AU_KF_MEM) {
        if (!access(r, line, info->count, kernel_further(info))) return false;
    } else if (info->most) {
        do
            if (!more(r, line)) return false;
        while (is_punct(r, ',') && punct(r, ','));
    }
    if (line->count < info->count || line->count > info->most)
        return expected(r, au_format(r->arena, "%u operands", info->count));
    if (!(info->flags & AU_KF_IMM)) return true;
    if (!punct(r, '#')) return false;
    const int32_t matrix =
        in->op == AU_K_MMA && r->t.kind == AU_KT_WORD ? kernel_matrix_named(r->t.text) : -1;
    if (matrix < 0 && r->t.kind != AU_KT_INT) return expected(r, "a number");
    in->imm = matrix < 0 ? r->t.integer : matrix;
    next(r);
    return true;
}

/* Splits add.f32 into the operation and its type. */
static const AuKOpInfo *operation(Reader *r, AuInstr *in)
{
    const char *text = r->t.text, *dot = strrchr(text, '.');
    const size_t length = dot ? (size_t)(dot - text) : strlen(text);
    for (int op = AU_K_NONE + 1; op < AU_K_COUNT; op++) {
        const AuKOpInfo *info = kernel_op_info(op);
        if (strlen(info->text) != length || memcmp(info->text, text, length) != 0) continue;
        const bool typed = (info->flags & AU_KF_RESULT) && !(info->flags & AU_KF_REGION);
        in->op = (uint8_t)op;
        if (typed && dot && type_named(dot + 1, &in->type)) return info;
        if (!typed && !dot) return info;
        expected(r, typed ? "the operation with a type, as in add.f32"
                          : "the operation without a type");
        return NULL;
    }
    au_error(r->diags, AU_E0801, r->t.span, "there is no operation '%s'", text);
    return NULL;
}

static bool instruction(Reader *r, const AuKToken result)
{
    Line line = {.in = {.span = r->t.span}};
    if (result.kind == AU_KT_VALUE) {
        line.in.text = result.text;
        next(r);
        if (!punct(r, '=')) return false;
    }
    if (r->t.kind != AU_KT_WORD) return expected(r, "an operation");
    const AuKOpInfo *info = operation(r, &line.in);
    if (!info) return false;
    if ((result.kind == AU_KT_VALUE) != ((info->flags & AU_KF_RESULT) != 0))
        return expected(r, info->flags & AU_KF_RESULT ? "'%n =' before it"
                                                      : "nothing that has a value");
    next(r);
    if (!body_of(r, &line, info)) return false;
    if (info->rule == AU_R_CMP) line.in.type.scalar = AU_I1;
    const AuVal v = kernel_append(r->k, line.in, line.operands, line.count);
    return result.kind != AU_KT_VALUE || define(r, &result, v);
}

static bool plain(Reader *r)
{
    const AuKToken result = r->t;
    if (instruction(r, result)) return true;
    /* So that its uses are not errors as well. */
    if (result.kind == AU_KT_VALUE &&
        (result.integer >= r->value_count || !r->values[result.integer].i))
        define(r, &result, append_constant(r, AU_I32, 0, 0));
    return false;
}

static void region(Reader *r);

static bool open(Reader *r)
{
    if (r->k->misbuilt) {
        au_error(r->diags, AU_E0803, r->t.span, "regions are nested too deeply");
        r->stop = true;
        return false;
    }
    return punct(r, '{');
}

static bool loop(Reader *r)
{
    const AuKToken result = r->t;
    AuVal low, high;
    if (result.kind != AU_KT_VALUE) return expected(r, "%n, the loop's variable");
    next(r);
    if (!punct(r, '=') || !operand(r, &low) || !keyword(r, "to") || !operand(r, &high) ||
        !keyword(r, "step"))
        return false;
    if (r->t.kind != AU_KT_INT || r->t.integer != (int32_t)r->t.integer)
        return expected(r, "a step");
    const int32_t step = (int32_t)r->t.integer;
    AuUnroll unroll = AU_UNROLL_AUTO;
    next(r);
    if (accept(r, "unroll")) {
        unroll = is_word(r, "full") ? AU_UNROLL_FULL : AU_UNROLL_NEVER;
        if (!accept(r, "full") && !keyword(r, "never")) return false;
    }
    const AuVal v = kernel_for(r->k, low, high, step, unroll);
    r->k->instrs[v.i].text = result.text;
    r->k->instrs[v.i].span = result.span;
    if (!define(r, &result, v) || !open(r)) return false;
    region(r);
    kernel_end(r->k);
    return r->stop || punct(r, '}');
}

static bool branch(Reader *r)
{
    AuVal condition;
    const AuSpan span = r->t.span;
    if (!operand(r, &condition)) return false;
    kernel_if(r->k, condition);
    r->k->instrs[r->k->stack[r->k->depth].owner].span = span;
    if (!open(r)) return false;
    region(r);
    if (r->stop) return true;
    if (!punct(r, '}')) return false;
    if (accept(r, "else")) {
        kernel_else(r->k);
        if (!punct(r, '{')) return false;
        region(r);
        if (r->stop || !punct(r, '}')) return r->stop;
    }
    kernel_end(r->k);
    return true;
}

static void region(Reader *r)
{
    while (!r->stop && r->t.kind != AU_KT_END && !is_punct(r, '}')) {
        const uint32_t depth = r->k->depth, from = r->t.span.begin;
        const bool good = accept(r, "for") ? loop(r) : accept(r, "if") ? branch(r) : plain(r);
        if (good && (r->t.starts_line || r->t.kind == AU_KT_END || is_punct(r, '}'))) continue;
        if (good) expected(r, "the end of the line");
        while (r->k->depth > depth) kernel_end(r->k);
        if (!r->stop) skip_line(r, from);
    }
}

/* ---- the header */

static bool memory(Reader *r)
{
    static const char *const spaces[] = {"global", "shared", "exec", "lane"};
    AuMemory m = {.span = r->t.span};
    uint32_t space = 0;
    if (!punct(r, '@') || !name(r, &m.name) || !punct(r, ':')) return false;
    for (uint32_t n = 1; n < r->k->mem_count; n++)
        if (strcmp(r->k->mems[n].name, m.name) == 0) {
            au_error(r->diags, AU_E0802, m.span, "@%s is declared twice", m.name);
            return false;
        }
    while (space < 4 && !accept(r, spaces[space])) space++;
    if (space == 4) return expected(r, "global, shared, exec or lane");
    m.space = (AuSpace)space;
    uint8_t scalar;
    if (r->t.kind != AU_KT_WORD || !scalar_named(r->t.text, strlen(r->t.text), &scalar))
        return expected(r, "a scalar type");
    m.scalar = scalar;
    next(r);
    if (m.space != AU_GLOBAL && (!punct(r, '[') || !count(r, &m.count) || !punct(r, ']')))
        return false;
    if (accept(r, "align") && !count(r, &m.align)) return false;
    if (accept(r, "swizzle") && !count(r, &m.swizzle)) return false;
    m.reads = accept(r, "reads");
    m.writes = accept(r, "writes");
    kernel_memory(r->k, m);
    return true;
}

static bool arg(Reader *r)
{
    static const char *const kinds[] = {"pointer", "i32", "i64", "f32"};
    AuArg a = {0};
    uint32_t kind = 0;
    if (!name(r, &a.name) || !punct(r, ':')) return false;
    while (kind < 4 && !accept(r, kinds[kind])) kind++;
    if (kind == 4) return expected(r, "pointer, i32, i64 or f32");
    a.kind = (AuArgKind)kind;
    if (a.kind == AU_ARG_POINTER) {
        if (!memory_named(r, &a.mem)) return false;
        r->k->mems[a.mem.i].arg = r->k->arg_count;
    }
    if (accept(r, "from") &&
        (!count(r, &a.source) || !count(r, &a.source_index) || !count(r, &a.source_dim)))
        return false;
    AU_PUSH(r->k->arena, r->k->args, r->k->arg_count, r->k->arg_capacity, a);
    return true;
}

static bool grid(Reader *r)
{
    uint32_t dim, *code = NULL, length = 0, capacity = 0;
    if (!count(r, &dim) || !punct(r, ':')) return false;
    if (dim > 2) return expected(r, "a dimension from 0 to 2 before it");
    while (r->t.kind == AU_KT_INT && !r->t.starts_line) {
        uint32_t word;
        if (!count(r, &word)) return false;
        AU_PUSH(r->k->arena, code, length, capacity, word);
    }
    r->k->grid[dim] = (AuLaunchExpr){code, length};
    return true;
}

static bool first_line(Reader *r)
{
    const char *kernel_name = NULL;
    uint32_t lanes, warps;
    if (!keyword(r, "kernel") || !name(r, &kernel_name) || !keyword(r, "lanes") ||
        !count(r, &lanes) || !keyword(r, "warps") || !count(r, &warps))
        return false;
    r->k = kernel_new(r->arena, kernel_name, lanes, warps);
    return !accept(r, "group") || count(r, &r->k->group);
}

static void header(Reader *r)
{
    while (r->t.kind != AU_KT_END && !is_punct(r, '{')) {
        const uint32_t from = r->t.span.begin;
        const bool good = accept(r, "banner")   ? name(r, &r->k->banner)
                          : accept(r, "memory") ? memory(r)
                          : accept(r, "arg")    ? arg(r)
                          : accept(r, "grid")   ? grid(r)
                                                : expected(r, "memory, arg, grid or {");
        if (good && (r->t.starts_line || r->t.kind == AU_KT_END)) continue;
        if (good) expected(r, "the end of the line");
        skip_line(r, from);
    }
}

AuKernel *kernel_read(AuArena *arena, AuNames *names, AuDiags *diags, uint32_t source)
{
    Reader r = {.arena = arena, .names = names, .diags = diags, .source = source};
    const uint32_t errors = diags->errors;
    next(&r);
    if (!first_line(&r)) return NULL;
    header(&r);
    if (punct(&r, '{')) {
        region(&r);
        if (!r.stop && punct(&r, '}') && r.t.kind != AU_KT_END) expected(&r, "the end of the text");
    }
    return diags->errors == errors ? r.k : NULL;
}
