/* build.c - see build.h: writes the text form, one line a call, and reads it at the end. A kernel's arguments and grid, and a
 * list's segments, share a line; what is open is remembered until the next call that does not continue it. */
#include "build.h"

typedef enum Open { NOTHING, ARGS, FIRST_ARG, SEGMENTS, FIRST_SEGMENT } Open;

struct AuTileBuild {
    AuArena *arena;
    AuDiags *diags;
    const char *name;
    AuText text;
    uint32_t depth;
    Open open;
};

AuTileBuild *tile_build(AuArena *arena, AuDiags *diags, const AuTileCaps *caps, const char *name)
{
    AuTileBuild *t = AU_NEW(arena, AuTileBuild);
    *t = (AuTileBuild){.arena = arena, .diags = diags, .name = name, .text = {.arena = arena}};
    if (caps) au_text_add(&t->text, "target %s\n", caps->name);
    return t;
}

/* Ends the list of segments that is being written. */
static void settle(AuTileBuild *t)
{
    if (t->open == SEGMENTS) au_text_add(&t->text, "\n");
    if (t->open == ARGS || t->open == FIRST_ARG) au_text_add(&t->text, ")\n");
    t->open = NOTHING;
}

AuTileModule *tile_built(AuTileBuild *t)
{
    settle(t);
    const uint32_t source = au_source_add(t->diags, t->name, au_text_str(&t->text), t->text.length);
    if (t->depth) {
        au_error(t->diags, AU_E0701, (AuSpan){0}, "%s: %u blocks are not closed", t->name,
                 t->depth);
        return NULL;
    }
    return tile_read(t->arena, t->diags, source);
}

const char *tile_text(AuTileBuild *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = au_vformat(t->arena, format, arguments);
    va_end(arguments);
    return text;
}

const char *tile_number(AuTileBuild *t, double value)
{
    AuText text = {.arena = t->arena};
    au_text_number(&text, value);
    return au_text_str(&text);
}

/* ---- lines */

static void line(AuTileBuild *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(AuTileBuild *t, const char *format, ...)
{
    settle(t);
    va_list arguments;
    va_start(arguments, format);
    au_text_add(&t->text, "%*s", (int)(4 * t->depth), "");
    au_text_vadd(&t->text, format, arguments);
    au_text_add(&t->text, "\n");
    va_end(arguments);
}

/* Defines TEXT, the text that format and the arguments after it make. */
#define FORMATTED(text, format)                                                                    \
    va_list arguments;                                                                             \
    va_start(arguments, format);                                                                   \
    const char *text = au_vformat(t->arena, format, arguments);                                    \
    va_end(arguments)

/* "[n]", or nothing for 0. */
static const char *many_text(AuTileBuild *t, int32_t many)
{
    return many ? tile_text(t, "[%d]", many) : "";
}

void tile_set_option(AuTileBuild *t, const char *name, int32_t value)
{
    line(t, "option %s = %d", name, value);
}

void tile_const(AuTileBuild *t, const char *name, int64_t value)
{
    line(t, "const %s = %lld", name, (long long)value);
}

void tile_layout(AuTileBuild *t, const char *name, const char *rows, const char *cols)
{
    if (cols)
        line(t, "layout %s = rows(%s) cols(%s)", name, rows, cols);
    else
        line(t, "layout %s = rows(%s)", name, rows);
}

void tile_fn(AuTileBuild *t, const char *name, const char *params)
{
    line(t, "fn %s(%s) {", name, params);
    t->depth++;
}

void tile_return(AuTileBuild *t, const char *format, ...)
{
    FORMATTED(values, format);
    line(t, "return %s", values);
}

/* ---- declarations */

void tile_kernel(AuTileBuild *t, const char *name)
{
    settle(t);
    au_text_add(&t->text, "kernel %s(", name);
    t->open = FIRST_ARG;
    t->depth++;
}

void tile_arg(AuTileBuild *t, const char *name, AuTileMode mode, const char *type, ...)
{
    FORMATTED(text, type);
    au_text_add(&t->text, "%s%s: %s%s%s", t->open == ARGS ? ", " : "", name,
                mode == TILE_PARAM ? "" : tile_mode_names[mode], mode == TILE_PARAM ? "" : " ",
                text);
    t->open = ARGS;
}

void tile_grid(AuTileBuild *t, const char *axes, ...)
{
    FORMATTED(text, axes);
    settle(t);
    au_text_add(&t->text, "grid(%s) {\n", text);
}

void tile_let(AuTileBuild *t, const char *names, const char *value, ...)
{
    FORMATTED(text, value);
    line(t, "let %s = %s", names, text);
}

void tile_list(AuTileBuild *t, const char *name)
{
    settle(t);
    au_text_add(&t->text, "%*stiles %s = ", (int)(4 * t->depth), "", name);
    t->open = FIRST_SEGMENT;
}

void tile_segment(AuTileBuild *t, const char *name, AuTileHow how, const char *a, const char *b)
{
    au_text_add(&t->text, "%s%s: %s(%s, %s)", t->open == SEGMENTS ? ", " : "", name,
                tile_how_names[how], a, b);
    t->open = SEGMENTS;
}

void tile_shared(AuTileBuild *t, const char *name, const char *type, ...)
{
    FORMATTED(text, type);
    line(t, "shared %s: %s", name, text);
}

void tile_pipeline(AuTileBuild *t, const char *name, int32_t stages, const char *producer,
                   const char *consumer, const char *tiles, ...)
{
    FORMATTED(text, tiles);
    line(t, "pipeline %s[%d] %s -> %s { %s }", name, stages, producer, consumer, text);
}

void tile_barrier(AuTileBuild *t, const char *name, int32_t many, int32_t count)
{
    line(t, "barrier %s%s of %d", name, many_text(t, many), count);
}

void tile_role(AuTileBuild *t, const char *name, int32_t many, AuTileExecutor on, int32_t registers)
{
    line(t, "role %s%s on %s%s {", name, many_text(t, many), tile_executor_name(on),
         registers ? tile_text(t, " regs %d", registers) : "");
    t->depth++;
}

/* ---- statements */

void tile_frag(AuTileBuild *t, const char *name, const char *type_and_layout, ...)
{
    FORMATTED(text, type_and_layout);
    line(t, "frag %s: %s", name, text);
}

void tile_private(AuTileBuild *t, const char *name, const char *type, ...)
{
    FORMATTED(text, type);
    line(t, "private %s: %s", name, text);
}

void tile_set(AuTileBuild *t, const char *names, const char *value, ...)
{
    FORMATTED(text, value);
    line(t, "%s = %s", names, text);
}

void tile_convert(AuTileBuild *t, const char *name, const char *source, const char *layout)
{
    line(t, "%s = convert %s %s", name, source, layout);
}

void tile_load(AuTileBuild *t, const char *name, const char *view, ...)
{
    FORMATTED(text, view);
    line(t, "%s = load %s", name, text);
}

void tile_store(AuTileBuild *t, const char *format, ...)
{
    FORMATTED(text, format);
    line(t, "store %s", text);
}

void tile_atomic_add(AuTileBuild *t, const char *format, ...)
{
    FORMATTED(text, format);
    line(t, "atomic_add %s", text);
}

void tile_copy(AuTileBuild *t, const char *format, ...)
{
    FORMATTED(text, format);
    line(t, "copy %s", text);
}

void tile_async_copy(AuTileBuild *t, const char *token, const char *format, ...)
{
    FORMATTED(text, format);
    line(t, "%s%sasync copy %s", token ? token : "", token ? " = " : "", text);
}

void tile_async_reduce_add(AuTileBuild *t, const char *token, const char *format, ...)
{
    FORMATTED(text, format);
    line(t, "%s = async reduce_add %s", token, text);
}

void tile_product(AuTileBuild *t, const char *acc, const AuTileAtom *atom, AuTileProduct how,
                  const char *a, const char *b)
{
    line(t, "%s %s %s%s(%s, %s)", acc, how == TILE_ADD ? "+=" : "=", atom->is_async ? "async " : "",
         atom->name, a, b);
}

void tile_product_into(AuTileBuild *t, const char *token, const AuTileAtom *atom, AuTileProduct how,
                       const char *a, const char *b, const char *dest)
{
    line(t, "%s = async %s(%s, %s)%s -> %s", token, atom->name, a, b, how == TILE_ADD ? " add" : "",
         dest);
}

void tile_wait(AuTileBuild *t, const char *names) { line(t, "wait %s", names); }
void tile_commit(AuTileBuild *t, const char *names) { line(t, "commit %s", names); }
void tile_release(AuTileBuild *t, const char *names) { line(t, "release %s", names); }

void tile_acquire(AuTileBuild *t, const char *stage, const char *pipeline)
{
    line(t, "%s = acquire %s", stage, pipeline);
}

void tile_wait_stage(AuTileBuild *t, const char *stage, const char *pipeline)
{
    line(t, "%s = wait %s", stage, pipeline);
}

void tile_sync(AuTileBuild *t, const char *barrier, ...)
{
    FORMATTED(text, barrier);
    line(t, "sync %s", text);
}

void tile_arrive(AuTileBuild *t, const char *barrier, ...)
{
    FORMATTED(text, barrier);
    line(t, "arrive %s", text);
}

/* ---- blocks */

void tile_for_tiles(AuTileBuild *t, const char *var, const char *list, const char *from)
{
    line(t, "for %s in %s%s%s {", var, list, from ? " from " : "", from ? from : "");
    t->depth++;
}

void tile_for_range(AuTileBuild *t, const char *var, const char *low, const char *high)
{
    line(t, "for %s in range(%s, %s) {", var, low, high);
    t->depth++;
}

void tile_if(AuTileBuild *t, const char *test, ...)
{
    FORMATTED(text, test);
    line(t, "if %s {", text);
    t->depth++;
}

void tile_else(AuTileBuild *t)
{
    t->depth--;
    line(t, "} else {");
    t->depth++;
}

void tile_on_segment(AuTileBuild *t, const char *segment)
{
    line(t, "on %s {", segment);
    t->depth++;
}

void tile_end(AuTileBuild *t)
{
    t->depth -= t->depth > 0;
    line(t, "}");
}
