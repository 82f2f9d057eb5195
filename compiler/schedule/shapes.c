/* shapes.c - see shapes.h: reads and prints shapes. Texts come from users: every word is bounded, and what is wrong is reported at its
 * place. */
#include "shapes.h"

#include "scan.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

typedef struct Key {
    const char *schedule, *name;
    size_t at;
    bool is_flag, is_quiet; /* not in a text where it is 0 */
    int32_t least, most;
} Key;

static const Key keys[] = {
#define KEY_OF(schedule, name, member, is_quiet, least, most)                                      \
    {schedule,                                                                                     \
     name,                                                                                         \
     offsetof(AuShape, member),                                                                    \
     sizeof(((AuShape *)0)->member) == sizeof(bool),                                               \
     is_quiet,                                                                                     \
     least,                                                                                        \
     most},
#define KEY(schedule, name, member, least, most) KEY_OF(schedule, name, member, false, least, most)
#define SOME_KEY(schedule, name, member, least, most)                                              \
    KEY_OF(schedule, name, member, true, least, most)
#include "shape_keys.def"
};
enum { KEYS = sizeof keys / sizeof *keys, MOST_DIGITS = 5, WIDEST = 1024 };
static_assert(sizeof keys / sizeof *keys == SHAPE_KEYS, "a row has a place for each key");

static const char *const masks[AU_MASK_KINDS + 1] = {
#define MASK(NAME, word) [AU_MASK_##NAME] = word,
#include "conditions.def"
};
static const char *const lengths[AU_LENGTH_CLASSES + 1] = {
#define LENGTH(NAME, word) [AU_LENGTH_##NAME] = word,
#include "conditions.def"
};

typedef AuShapeRow Row;

struct AuShapes {
    AuArena *arena;
    TILE_LIST(Row) rows;
};

static int32_t get(const AuShape *s, const Key *k)
{
    const char *at = (const char *)s + k->at;
    return k->is_flag ? *(const bool *)at : *(const int32_t *)at;
}

static void put(AuShape *s, const Key *k, int32_t value)
{
    char *at = (char *)s + k->at;
    if (k->is_flag)
        *(bool *)at = value != 0;
    else
        *(int32_t *)at = value;
}

static bool is_of(const Key *k, const char *schedule) { return strcmp(k->schedule, schedule) == 0; }

const char *shape_text(AuArena *arena, const char *schedule, const AuShape *s)
{
    AuText text = {.arena = arena};
    au_text_add(&text, "%s:", schedule);
    for (uint32_t n = 0; n < KEYS; n++)
        if (is_of(&keys[n], schedule) && (!keys[n].is_quiet || get(s, &keys[n])))
            au_text_add(&text, " %s=%d", keys[n].name, get(s, &keys[n]));
    return au_text_str(&text);
}

const char *schedule_mask_word(AuMaskKind kind) { return masks[kind]; }

const char *schedule_length_word(AuLengthClass length) { return lengths[length]; }

const char *shape_missing(const char *schedule, const AuShape *s)
{
    for (uint32_t n = 0; n < KEYS; n++)
        if (is_of(&keys[n], schedule) &&
            (get(s, &keys[n]) < keys[n].least || get(s, &keys[n]) > keys[n].most))
            return keys[n].name;
    return NULL;
}

/* ---- reading: a line at a time */

typedef struct Reader {
    AuArena *arena;
    AuDiags *diags;
    uint32_t source;
    AuScan in; /* the line, without its comment */
} Reader;

static bool wrong(Reader *r, uint32_t begin, const char *what)
{
    au_error(r->diags, AU_E0601,
             (AuSpan){r->source, begin, r->in.at > begin ? r->in.at : begin + 1}, "%s", what);
    return false;
}

static void skip_spaces(Reader *r) { au_scan_space(&r->in, false); }

static bool at_end(Reader *r)
{
    skip_spaces(r);
    return r->in.at == r->in.end;
}

/* The next word; "" where there is none. */
static const char *word(Reader *r)
{
    skip_spaces(r);
    const uint32_t length = au_scan_word(&r->in, "-");
    return au_strndup(r->arena, r->in.text + r->in.at - length, length);
}

static bool takes(Reader *r, char c)
{
    skip_spaces(r);
    const bool is_there = au_scan_peek(&r->in, 0) == c;
    r->in.at += is_there;
    return is_there;
}

static bool number(Reader *r, int32_t *out)
{
    skip_spaces(r);
    const uint32_t begin = r->in.at;
    const char *digits = word(r);
    const size_t length = strlen(digits);
    *out = 0;
    for (size_t n = 0; n < length && n < MOST_DIGITS; n++)
        *out = !au_is_digit(digits[n]) ? -1 : *out < 0 ? -1 : *out * 10 + digits[n] - '0';
    return (length && length <= MOST_DIGITS && *out >= 0) ||
           wrong(r, begin,
                 au_format(r->arena, "a number of at most %d digits is due", MOST_DIGITS));
}

/* The names of the schedules, or of a schedule's keys, for who wrote another one. */
static const char *names(Reader *r, const char *of)
{
    AuText text = {.arena = r->arena};
    for (uint32_t n = 0; n < KEYS; n++) {
        const bool is_first = n == 0 || strcmp(keys[n].schedule, keys[n - 1].schedule) != 0;
        if (of ? !is_of(&keys[n], of) : !is_first) continue;
        au_text_add(&text, "%s%s", text.length ? ", " : "", of ? keys[n].name : keys[n].schedule);
    }
    return au_text_str(&text);
}

/* "full, causal, window or data, short or long may stand" */
static const char *conditions(Reader *r)
{
    AuText text = {.arena = r->arena};
    for (uint32_t n = 1; n < AU_MASK_KINDS; n++)
        au_text_add(&text, "%s%s", n == 1 ? "" : n + 1 < AU_MASK_KINDS ? ", " : " or ", masks[n]);
    for (uint32_t n = 1; n < AU_LENGTH_CLASSES; n++)
        au_text_add(&text, "%s%s", n == 1 ? ", " : " or ", lengths[n]);
    au_text_add(&text, " may stand");
    return au_text_str(&text);
}

/* Names of machines, for who wrote another one. */
static const char *machines(Reader *r)
{
    AuText text = {.arena = r->arena};
    for (uint32_t n = 0; tile_caps_at(n); n++)
        au_text_add(&text, "%s%s", n ? ", " : "", tile_caps_at(n)->name);
    return au_text_str(&text);
}

static bool width(Reader *r, int32_t *out)
{
    skip_spaces(r);
    const uint32_t begin = r->in.at;
    if (!number(r, out)) return false;
    return (*out >= 1 && *out <= WIDEST) ||
           wrong(r, begin, au_format(r->arena, "a width is 1 to %d", WIDEST));
}

/* The number of the word among those of a condition, 1 and more; 0: it is none of them. */
static uint32_t condition(const char *name, const char *const *words)
{
    uint32_t n = 1;
    while (words[n] && strcmp(words[n], name) != 0) n++;
    return words[n] ? n : 0;
}

/* "causal short", in any order: what else the row is for. */
static bool read_conditions(Reader *r, Row *row)
{
    for (;;) {
        skip_spaces(r);
        const uint32_t begin = r->in.at;
        const char *name = word(r);
        const AuMaskKind mask = condition(name, masks);
        const AuLengthClass length = condition(name, lengths);
        if (mask && row->mask)
            return wrong(
                r, begin,
                au_format(r->arena, "a row has one mask, and this has '%s'", masks[row->mask]));
        if (length && row->length)
            return wrong(r, begin,
                         au_format(r->arena, "a row has one length, and this has '%s'",
                                   lengths[row->length]));
        if (!mask && !length) {
            r->in.at = begin;
            return true;
        }
        if (mask) row->mask = mask;
        if (length) row->length = length;
    }
}

/* What a row of a table is for: a machine, a type, two widths, conditions. */
static bool read_place(Reader *r, Row *row)
{
    static const char *const operands[] = {"f32", "tf32", "f16", "bf16"};
    skip_spaces(r);
    uint32_t begin = r->in.at, n = 0;
    row->machine = word(r);
    if (!tile_caps(row->machine))
        return wrong(
            r, begin,
            au_format(r->arena, "'%s' is no machine; expected %s", row->machine, machines(r)));
    skip_spaces(r);
    begin = r->in.at, row->operand = word(r);
    while (n < 4 && strcmp(operands[n], row->operand) != 0) n++;
    if (n == 4)
        return wrong(r, begin,
                     au_format(r->arena, "'%s' is no operand type; expected f32, tf32, f16 or bf16",
                               row->operand));
    return width(r, &row->d) && width(r, &row->e) && read_conditions(r, row);
}

static bool key(Reader *r, Row *row)
{
    skip_spaces(r);
    const uint32_t begin = r->in.at;
    const char *name = word(r);
    uint32_t n = 0;
    while (n < KEYS && !(is_of(&keys[n], row->schedule) && strcmp(keys[n].name, name) == 0)) n++;
    if (n == KEYS)
        return wrong(r, begin,
                     au_format(r->arena, "'%s' is no key of %s; expected %s", name, row->schedule,
                               names(r, row->schedule)));
    if (row->values[n] >= 0) return wrong(r, begin, au_format(r->arena, "%s is given twice", name));
    if (!takes(r, '=')) return wrong(r, begin, au_format(r->arena, "'=' is due after %s", name));
    if (!number(r, &row->values[n])) return false;
    if (row->values[n] < keys[n].least || row->values[n] > keys[n].most)
        return wrong(r, begin,
                     au_format(r->arena, "%s is %d to %d", name, keys[n].least, keys[n].most));
    return true;
}

static bool read_row(Reader *r, Row *row)
{
    for (uint32_t n = 0; n < KEYS; n++) row->values[n] = -1;
    if (row->which == SHAPES_TUNED && !read_place(r, row)) return false;
    skip_spaces(r);
    const uint32_t begin = r->in.at;
    row->schedule = word(r);
    uint32_t n = 0;
    while (n < KEYS && !is_of(&keys[n], row->schedule)) n++;
    if (n == KEYS)
        return wrong(r, begin,
                     au_format(r->arena, "'%s' is no schedule; expected %s%s%s", row->schedule,
                               names(r, NULL), row->which == SHAPES_TUNED ? "; before it " : "",
                               row->which == SHAPES_TUNED ? conditions(r) : ""));
    if (!takes(r, ':'))
        return wrong(r, begin, au_format(r->arena, "':' is due after %s", row->schedule));
    while (!at_end(r))
        if (!key(r, row)) return false;
    return true;
}

/* Of shapes that kernels must have there is one a schedule. */
static bool is_new(Reader *r, const AuShapes *s, const Row *row)
{
    for (uint32_t n = 0; row->which == SHAPES_FORCED && n < s->rows.count; n++)
        if (s->rows.at[n].which == SHAPES_FORCED &&
            strcmp(s->rows.at[n].schedule, row->schedule) == 0)
            return wrong(r, row->span.begin,
                         au_format(r->arena, "a shape of %s is given twice", row->schedule));
    return true;
}

bool shapes_read(AuShapes *s, AuDiags *diags, const char *name, const char *text, size_t length,
                 AuShapesAre which)
{
    enum { MOST_BYTES = 1 << 20 };
    if (length > MOST_BYTES) {
        au_error(diags, AU_E0601, (AuSpan){0}, "%s has more than %d bytes", name, MOST_BYTES);
        return false;
    }
    Reader r = {.arena = s->arena, .diags = diags, .in = {.text = text}};
    r.source = au_source_add(diags, name, text, length);
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, which scripts may have, too */
    const uint32_t marked = sizeof mark - 1;
    const bool has_mark = length >= marked && memcmp(text, mark, marked) == 0;
    for (uint32_t begin = has_mark ? marked : 0; begin < length;) {
        const char *newline = memchr(text + begin, '\n', length - begin);
        const uint32_t line_end = newline ? (uint32_t)(newline - text) : (uint32_t)length;
        const char *comment = memchr(text + begin, '#', line_end - begin);
        r.in.at = begin, r.in.end = comment ? (uint32_t)(comment - text) : line_end;
        if (!at_end(&r)) {
            Row row = {.which = which, .span = {r.source, r.in.at, r.in.end}};
            if (!read_row(&r, &row) || !is_new(&r, s, &row)) return false;
            row.matched = AU_NEW(s->arena, bool);
            AU_PUSH(s->arena, s->rows.at, s->rows.count, s->rows.capacity, row);
        }
        begin = line_end + 1;
    }
    return true;
}

/* ---- which row */

static bool is_for(const Row *row, const AuProblem *p, const char *schedule, AuShapesAre which)
{
    if (row->which != which || strcmp(row->schedule, schedule) != 0) return false;
    if (which == SHAPES_FORCED) return true;
    return strcmp(row->machine, p->caps->name) == 0 &&
           strcmp(row->operand, schedule_operand(p)) == 0 && row->d == p->d && row->e == p->e &&
           (!row->mask || row->mask == schedule_mask_kind(p)) &&
           (!row->length || row->length == schedule_length_class(p)) && !p->hooks->dot_count &&
           !p->attn->v_in_k;
}

const AuShapeRow *shapes_row(const AuShapes *s, const AuProblem *p, const char *schedule,
                             AuShapesAre which)
{
    for (uint32_t n = s ? s->rows.count : 0; n-- > 0;) {
        if (!is_for(&s->rows.at[n], p, schedule, which)) continue;
        *s->rows.at[n].matched = true;
        return &s->rows.at[n];
    }
    return NULL;
}

void shape_apply(const AuShapeRow *row, AuShape *shape)
{
    for (uint32_t k = 0; k < KEYS; k++)
        if (row->values[k] >= 0) put(shape, &keys[k], row->values[k]);
}

void shape_set(AuShape *shape, const char *schedule, const char *name, int32_t value)
{
    for (uint32_t k = 0; k < KEYS; k++)
        if (shape_is_key(k, schedule, name)) put(shape, &keys[k], value);
}

const char *shape_row_text(AuArena *arena, const AuShapeRow *row)
{
    AuText text = {.arena = arena};
    au_text_add(&text, "%s:", row->schedule);
    for (uint32_t k = 0; k < KEYS; k++)
        if (row->values[k] >= 0) au_text_add(&text, " %s=%d", keys[k].name, row->values[k]);
    return au_text_str(&text);
}

bool shape_is_key(uint32_t key, const char *schedule, const char *name)
{
    return is_of(&keys[key], schedule) && strcmp(keys[key].name, name) == 0;
}

const char *shape_key(uint32_t key, int32_t *least, int32_t *most)
{
    *least = keys[key].least, *most = keys[key].most;
    return keys[key].name;
}

AuShapes *shapes_without(AuArena *arena, const AuShapes *shapes, const AuShapeRow *row,
                         const AuShapeRow *other)
{
    AuShapes *s = AU_NEW(arena, AuShapes);
    *s = (AuShapes){.arena = arena};
    for (uint32_t n = 0; n < shapes->rows.count; n++)
        if (&shapes->rows.at[n] != row)
            AU_PUSH(arena, s->rows.at, s->rows.count, s->rows.capacity, shapes->rows.at[n]);
    if (other) AU_PUSH(arena, s->rows.at, s->rows.count, s->rows.capacity, *other);
    return s;
}

/* "2, 5, 7" */
static const char *lines_of(const AuShapes *s, const AuDiags *diags)
{
    AuText text = {.arena = s->arena};
    for (uint32_t n = 0; n < s->rows.count; n++)
        if (!s->rows.at[n].own && !*s->rows.at[n].matched)
            au_text_add(&text, "%s%u", text.length ? ", " : "",
                        au_position(diags, s->rows.at[n].span).line);
    return au_text_str(&text);
}

bool shapes_report(const AuShapes *s, AuDiags *diags)
{
    const Row *first = NULL;
    uint32_t count = 0;
    for (uint32_t n = 0; s && n < s->rows.count; n++) {
        const Row *row = &s->rows.at[n];
        if (row->own || *row->matched) continue;
        if (row->which == SHAPES_FORCED) {
            au_error(diags, AU_E0601, row->span,
                     "%s makes no kernel here: nothing that is compiled has a use for this shape",
                     row->schedule);
            return false;
        }
        if (!count++) first = row;
    }
    if (count)
        au_remark(diags, AU_N0602, first->span,
                  "%s of this table %s for none of the kernels that are compiled: %s %s",
                  count == 1 ? "a row" : "rows", count == 1 ? "is" : "are",
                  count == 1 ? "line" : "lines", lines_of(s, diags));
    return true;
}

bool shapes_force(const AuShapes *s)
{
    for (uint32_t n = 0; n < s->rows.count; n++)
        if (s->rows.at[n].which == SHAPES_FORCED) return true;
    return false;
}

bool shapes_have(const AuShapes *s, AuSpan span)
{
    for (uint32_t n = 0; s && n < s->rows.count; n++)
        if (s->rows.at[n].span.source == span.source) return true;
    return false;
}

AuShapes *shapes_new(AuArena *arena, AuDiags *diags)
{
    static const char tuned[] =
#define ROW(text) text "\n"
#include "shapes.def"
        ;
    AuShapes *s = AU_NEW(arena, AuShapes);
    *s = (AuShapes){.arena = arena};
    if (!shapes_read(s, diags, "<tuned shapes>", tuned, sizeof tuned - 1, SHAPES_TUNED))
        return NULL;
    for (uint32_t n = 0; n < s->rows.count; n++) s->rows.at[n].own = true;
    return s;
}
