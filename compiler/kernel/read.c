/* read.c - reads the text form of a kernel (docs/dev/kernel-ir.md 6).
 * Nothing is folded or checked beyond the grammar: what was printed comes back, right or wrong, for
 * kernel_verify to judge. After an error the reader goes on with the next line, so that one run
 * shows all; any bytes whatsoever are answered. */
#include "reader.h"

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

static AuVal append_constant(Reader *r, AuScalar scalar, int64_t imm, float number)
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
    case AU_KT_FLOAT: *out = append_constant(r, AU_F32, 0, (float)t.number); break;
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

/* With several coordinates where the operation has them. */
static bool place(Reader *r, Line *line, AuMem *mem)
{
    const bool box = kernel_op_info(line->in.op)->flags & AU_KF_COORDS;
    if (!memory_named(r, mem) || !punct(r, '[') || !more(r, line)) return false;
    while (box && is_punct(r, ','))
        if (!punct(r, ',') || !more(r, line)) return false;
    return punct(r, ']');
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

/* Places, all of them, then the mask, which must be there. */
static bool box(Reader *r, Line *line, uint32_t further)
{
    if (!place(r, line, &line->in.mem)) return false;
    for (uint32_t n = 0; n < further; n++)
        if (!punct(r, ',') || !place(r, line, &line->in.also[n])) return false;
    return !r->t.starts_line && keyword(r, "if") && more(r, line);
}

static bool constant(Reader *r, AuInstr *in)
{
    if (accept(r, "true"))
        in->imm = 1;
    else if (accept(r, "false"))
        in->imm = 0;
    else if (r->t.kind == AU_KT_INT || r->t.kind == AU_KT_LONG || r->t.kind == AU_KT_FLOAT) {
        in->imm = r->t.integer;
        in->number = r->t.kind == AU_KT_FLOAT ? (float)r->t.number : 0;
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
    if (info->flags & AU_KF_NAMES) {
        AuMem *const named[3] = {&in->mem, &in->also[0], &in->also[1]};
        for (uint32_t n = 0; n < 3 && is_punct(r, n ? ',' : '@'); n++)
            if ((n && !punct(r, ',')) || !memory_named(r, named[n])) return false;
    } else if (info->flags & AU_KF_COORDS) {
        if (!box(r, line, kernel_further(info))) return false;
    } else if (info->flags & AU_KF_MEM) {
        if (!access(r, line, info->count, kernel_further(info))) return false;
    } else if (info->most && (info->count || !r->t.starts_line)) {
        do
            if (!more(r, line)) return false;
        while (is_punct(r, ',') && punct(r, ','));
    }
    if (line->count < info->count || line->count > info->most)
        return expected(r, au_format(r->arena, "%u operands", info->count));
    if (!(info->flags & AU_KF_IMM)) return true;
    if (!punct(r, '#')) return false;
    const bool word = r->t.kind == AU_KT_WORD || r->t.kind == AU_KT_STRING;
    const int32_t named = word ? kernel_imm_named(r->k, in->op, r->t.text) : -1;
    if (named < 0 && r->t.kind != AU_KT_INT) return expected(r, "a number");
    in->imm = named < 0 ? r->t.integer : named;
    next(r);
    return true;
}

/* Splits add.f32 into the operation and its type. */
static const AuKOpInfo *operation(Reader *r, AuInstr *in)
{
    const char *text = r->t.text, *dot = strrchr(text, '.');
    const size_t length = dot ? (size_t)(dot - text) : strlen(text);
    for (AuKOp op = AU_K_NONE + 1; op < AU_K_COUNT; op++) {
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

static void region(Reader *r);
static bool open(Reader *r);

/* The region of a `matrix_each`. */
static bool of_element(Reader *r, AuVal each)
{
    kernel_open(r->k, each);
    if (!open(r)) return false;
    region(r);
    kernel_end(r->k);
    return r->stop || punct(r, '}');
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
    if (info->flags & AU_KF_REGION) return of_element(r, v);
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

AuKernel *kernel_read(AuArena *arena, AuNames *names, AuDiags *diags, uint32_t source)
{
    Reader r = {.arena = arena, .names = names, .diags = diags, .source = source};
    const uint32_t errors = diags->errors;
    next(&r);
    if (!kernel_read_first_line(&r)) return NULL;
    kernel_read_header(&r);
    if (punct(&r, '{')) {
        region(&r);
        if (!r.stop && punct(&r, '}') && r.t.kind != AU_KT_END) expected(&r, "the end of the text");
    }
    return diags->errors == errors ? r.k : NULL;
}
