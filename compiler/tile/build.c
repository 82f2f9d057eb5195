/* build.c - see build.h: fills in a template, reads what it gives with the reader of files (reader.h), and puts the node where the
 * program stands. Blocks are read empty, `for n in keys { }`, and stay open until tile_end. */
#include "build.h"
#include "reader.h"

#include <string.h>

enum { MOST_OPEN = 64 };

/* What is open. A kernel's block has no statements of its own. */
typedef struct Open {
    AuTileStmts *body; /* NULL: of a kernel */
    AuTileStmt *stmt;  /* a branch, of which else may follow; or NULL */
} Open;

struct AuTileBuild {
    Reader r;
    const char *name;
    AuTileKernel *kernel; /* the one that was begun last */
    int32_t written;      /* what those that begin say of loops */
    Open open[MOST_OPEN];
    uint32_t depth;
};

AuTileBuild *tile_build(AuArena *arena, AuDiags *diags, const AuTileCaps *caps, const char *name)
{
    AuTileBuild *t = AU_NEW(arena, AuTileBuild);
    AuTileModule *m = tile_module_new(arena, caps);
    *t = (AuTileBuild){.r = {.arena = arena, .diags = diags, .names = m->names, .module = m},
                       .name = name};
    return t;
}

AuTileModule *tile_built(AuTileBuild *t)
{
    if (t->depth && !t->r.failed) {
        au_error(t->r.diags, AU_E0701, (AuSpan){0}, "%s: %u blocks are not closed", t->name,
                 t->depth);
        t->r.failed = true;
    }
    return t->r.failed ? NULL : t->r.module;
}

/* ---- texts */

static uint32_t source_of(AuTileBuild *t, AuTileWhere at, const char *text)
{
    const char *slash = strrchr(at.file, '/');
    return au_source_add_part(t->r.diags, slash ? slash + 1 : at.file, at.line, text, strlen(text));
}

const char *tile_text_(AuTileBuild *t, AuTileWhere at, AuTileTemplate text)
{
    const char *filled = tile_fill(t->r.arena, text);
    if (filled) return filled;
    const char *template = text.at[0].text ? text.at[0].text : "";
    const uint32_t source = source_of(t, at, template), length = (uint32_t)strlen(template);
    if (!t->r.failed)
        au_error(t->r.diags, AU_E0701, (AuSpan){source, 0, length},
                 "a template and what it is given do not agree");
    t->r.failed = true;
    return "";
}

const char *tile_number(AuTileBuild *t, double value)
{
    AuText text = {.arena = t->r.arena};
    au_text_number(&text, value);
    return au_text_str(&text);
}

/* Begins to read the text. false: something was wrong before. */
static bool begin(AuTileBuild *t, AuTileWhere at, const char *text)
{
    if (t->r.failed) return false;
    t->r.source = source_of(t, at, text);
    t->r.count = t->r.at = 0;
    if (!lex(&t->r)) t->r.failed = true;
    return !t->r.failed;
}

/* Nothing may follow what was read. */
static void finish(AuTileBuild *t)
{
    end_line(&t->r);
    if (!t->r.failed && token(&t->r)->kind != TOKEN_END) fail(&t->r, "the end of the statement");
}

static void open_block(AuTileBuild *t, AuTileStmts *body, AuTileStmt *stmt)
{
    if (t->r.failed) return;
    if (t->depth == MOST_OPEN) {
        fail(&t->r, "fewer blocks in one another");
        return;
    }
    t->open[t->depth++] = (Open){body, stmt};
}

/* The text as a part of the file. */
static void definition(AuTileBuild *t, AuTileWhere at, const char *text)
{
    if (!begin(t, at, text)) return;
    read_definition(&t->r);
    finish(t);
}

/* .. of the kernel that is open. */
static void item(AuTileBuild *t, AuTileWhere at, const char *text)
{
    if (!begin(t, at, text)) return;
    if (!t->depth || t->open[t->depth - 1].body) {
        fail(&t->r, "a kernel around it");
        return;
    }
    read_item(&t->r, t->kernel);
    finish(t);
}

/* .. of the block that is open. NULL after an error. */
static AuTileStmt *statement(AuTileBuild *t, AuTileWhere at, const char *text)
{
    if (!begin(t, at, text)) return NULL;
    AuTileStmts *body = t->depth ? t->open[t->depth - 1].body : NULL;
    if (!body) {
        fail(&t->r, "a block around it");
        return NULL;
    }
    AuTileStmt *s = read_statement(&t->r);
    finish(t);
    if (t->r.failed) return NULL;
    AU_PUSH(t->r.arena, body->at, body->count, body->capacity, s);
    return s;
}

/* Shorter for parts whose holes are always right. */
static const char *filled(AuTileBuild *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static const char *filled(AuTileBuild *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = au_vformat(t->r.arena, format, arguments);
    va_end(arguments);
    return text;
}

static AuTileHandle handle_of(const char *name) { return (AuTileHandle){name}; }

AuTileHandle tile_numbered(AuTileBuild *t, const char *kind, uint32_t n)
{
    return handle_of(filled(t, "%s%u", kind, n));
}

/* "[n]", or nothing for 0. */
static const char *many_text(AuTileBuild *t, int32_t many)
{
    return many ? filled(t, "[%d]", many) : "";
}

/* ---- the file */

void tile_set_option_(AuTileBuild *t, AuTileWhere at, const char *name, int32_t value)
{
    definition(t, at, filled(t, "option %s = %d", name, value));
}

void tile_const_(AuTileBuild *t, AuTileWhere at, const char *name, int64_t value)
{
    definition(t, at, filled(t, "const %s = %lld", name, (long long)value));
}

void tile_layout_(AuTileBuild *t, AuTileWhere at, const char *name, const char *rows,
                  const char *cols)
{
    definition(t, at,
               cols ? filled(t, "layout %s = rows(%s) cols(%s)", name, rows, cols)
                    : filled(t, "layout %s = rows(%s)", name, rows));
}

void tile_fn_(AuTileBuild *t, AuTileWhere at, const char *name, const char *params)
{
    definition(t, at, filled(t, "fn %s(%s) { }", name, params));
    const AuTileModule *m = t->r.module;
    if (!t->r.failed) open_block(t, &m->fns.at[m->fns.count - 1]->body, NULL);
}

void tile_return_(AuTileBuild *t, AuTileWhere at, AuTileTemplate text)
{
    statement(t, at, filled(t, "return %s", tile_text_(t, at, text)));
}

/* ---- declarations */

void tile_kernel_(AuTileBuild *t, AuTileWhere at, const char *name)
{
    if (!begin(t, at, name)) return;
    AuTileModule *m = t->r.module;
    t->kernel = AU_NEW(t->r.arena, AuTileKernel);
    t->kernel->name = take_name(&t->r);
    t->kernel->span = span_from(&t->r, 0);
    t->kernel->written = t->written;
    finish(t);
    AU_PUSH(t->r.arena, m->kernels.at, m->kernels.count, m->kernels.capacity, t->kernel);
    open_block(t, NULL, NULL);
}

AuTileHandle tile_arg_(AuTileBuild *t, AuTileWhere at, const char *name, AuTileMode mode,
                       AuTileTemplate type)
{
    const char *how = mode == TILE_PARAM ? "" : tile_mode_names[mode];
    if (begin(t, at, filled(t, "%s: %s %s", name, how, tile_text_(t, at, type)))) {
        read_arg(&t->r, t->kernel);
        finish(t);
    }
    return handle_of(name);
}

void tile_resident(AuTileBuild *t, int32_t blocks) { t->kernel->resident = blocks; }

void tile_coarse(AuTileBuild *t) { t->kernel->is_coarse = true; }

void tile_written(AuTileBuild *t, int32_t instructions) { t->written = instructions; }

void tile_grid_(AuTileBuild *t, AuTileWhere at, AuTileTemplate axes)
{
    if (!begin(t, at, filled(t, "grid(%s)", tile_text_(t, at, axes)))) return;
    read_grid(&t->r, t->kernel);
    finish(t);
}

AuTileHandle tile_let_(AuTileBuild *t, AuTileWhere at, const char *names, AuTileTemplate value)
{
    item(t, at, filled(t, "let %s = %s", names, tile_text_(t, at, value)));
    return handle_of(names);
}

AuTileHandle tile_list_(AuTileBuild *t, AuTileWhere at, const char *name)
{
    if (begin(t, at, name)) {
        AuTileKernel *k = t->kernel;
        AuTileList *list = AU_NEW(t->r.arena, AuTileList);
        list->name = take_name(&t->r);
        list->span = span_from(&t->r, 0);
        finish(t);
        AU_PUSH(t->r.arena, k->lists.at, k->lists.count, k->lists.capacity, list);
    }
    return handle_of(name);
}

void tile_segment_(AuTileBuild *t, AuTileWhere at, const char *name, AuTileHow how, const char *a,
                   const char *b)
{
    if (!begin(t, at, filled(t, "%s: %s(%s, %s)", name, tile_how_names[how], a, b))) return;
    AuTileList *list = t->kernel->lists.at[t->kernel->lists.count - 1];
    const AuTileSegment g = read_segment(&t->r);
    finish(t);
    AU_PUSH(t->r.arena, list->segments.at, list->segments.count, list->segments.capacity, g);
}

AuTileHandle tile_shared_(AuTileBuild *t, AuTileWhere at, const char *name, AuTileTemplate type)
{
    item(t, at, filled(t, "shared %s: %s", name, tile_text_(t, at, type)));
    return handle_of(name);
}

void tile_pipeline_(AuTileBuild *t, AuTileWhere at, const char *name, int32_t stages,
                    const char *producer, const char *consumer, AuTileTemplate tiles)
{
    item(t, at,
         filled(t, "pipeline %s[%d] %s -> %s { %s }", name, stages, producer, consumer,
                tile_text_(t, at, tiles)));
}

void tile_barrier_(AuTileBuild *t, AuTileWhere at, const char *name, int32_t many, int32_t count)
{
    item(t, at, filled(t, "barrier %s%s of %d", name, many_text(t, many), count));
}

void tile_role_(AuTileBuild *t, AuTileWhere at, const char *name, int32_t many, AuTileExecutor on,
                int32_t registers)
{
    const char *regs = registers ? filled(t, " regs %d", registers) : "";
    item(
        t, at,
        filled(t, "role %s%s on %s%s { }", name, many_text(t, many), tile_executor_name(on), regs));
    if (t->r.failed) return;
    open_block(t, &t->kernel->roles.at[t->kernel->roles.count - 1]->body, NULL);
}

void tile_role_exact(AuTileBuild *t)
{
    if (!t->r.failed) t->kernel->roles.at[t->kernel->roles.count - 1]->is_exact = true;
}

/* ---- statements */

AuTileHandle tile_frag_(AuTileBuild *t, AuTileWhere at, const char *name,
                        AuTileTemplate type_and_layout)
{
    statement(t, at, filled(t, "frag %s: %s", name, tile_text_(t, at, type_and_layout)));
    return handle_of(name);
}

AuTileHandle tile_private_(AuTileBuild *t, AuTileWhere at, const char *name, AuTileTemplate type)
{
    statement(t, at, filled(t, "private %s: %s", name, tile_text_(t, at, type)));
    return handle_of(name);
}

AuTileHandle tile_set_(AuTileBuild *t, AuTileWhere at, const char *names, AuTileTemplate value)
{
    statement(t, at, filled(t, "%s = %s", names, tile_text_(t, at, value)));
    return handle_of(names);
}

AuTileHandle tile_convert_(AuTileBuild *t, AuTileWhere at, const char *name, const char *source,
                           const char *layout)
{
    statement(t, at, filled(t, "%s = convert %s %s", name, source, layout));
    return handle_of(name);
}

AuTileHandle tile_load_(AuTileBuild *t, AuTileWhere at, const char *name, AuTileTemplate view)
{
    statement(t, at, filled(t, "%s = load %s", name, tile_text_(t, at, view)));
    return handle_of(name);
}

void tile_store_(AuTileBuild *t, AuTileWhere at, AuTileTemplate text)
{
    statement(t, at, filled(t, "store %s", tile_text_(t, at, text)));
}

void tile_atomic_add_(AuTileBuild *t, AuTileWhere at, AuTileTemplate text)
{
    statement(t, at, filled(t, "atomic_add %s", tile_text_(t, at, text)));
}

void tile_copy_(AuTileBuild *t, AuTileWhere at, AuTileTemplate text)
{
    statement(t, at, filled(t, "copy %s", tile_text_(t, at, text)));
}

void tile_prefetch_(AuTileBuild *t, AuTileWhere at, AuTileTemplate text)
{
    statement(t, at, filled(t, "prefetch %s", tile_text_(t, at, text)));
}

void tile_async_copy_(AuTileBuild *t, AuTileWhere at, const char *token, AuTileTemplate text)
{
    const char *views = tile_text_(t, at, text);
    statement(t, at,
              token ? filled(t, "%s = async copy %s", token, views)
                    : filled(t, "async copy %s", views));
}

void tile_async_reduce_add_(AuTileBuild *t, AuTileWhere at, const char *token, AuTileTemplate text)
{
    statement(t, at, filled(t, "%s = async reduce_add %s", token, tile_text_(t, at, text)));
}

void tile_product_(AuTileBuild *t, AuTileWhere at, const char *acc, const AuTileAtom *atom,
                   AuTileProduct how, const char *a, const char *b)
{
    statement(t, at,
              filled(t, "%s %s %s%s(%s, %s)%s", acc,
                     how == TILE_START ? "=" : "+=", atom->is_async ? "async " : "", atom->name, a,
                     b, how == TILE_ADD_SERIAL ? " serial" : ""));
}

void tile_product_into_(AuTileBuild *t, AuTileWhere at, const char *token, const AuTileAtom *atom,
                        AuTileProduct how, const char *a, const char *b, const char *dest)
{
    statement(t, at,
              filled(t, "%s = async %s(%s, %s)%s -> %s", token, atom->name, a, b,
                     how == TILE_ADD ? " add" : "", dest));
}

void tile_wait_(AuTileBuild *t, AuTileWhere at, const char *names)
{
    statement(t, at, filled(t, "wait %s", names));
}

void tile_acquire_(AuTileBuild *t, AuTileWhere at, const char *stage, const char *pipeline)
{
    statement(t, at, filled(t, "%s = acquire %s", stage, pipeline));
}

void tile_wait_stage_(AuTileBuild *t, AuTileWhere at, const char *stage, const char *pipeline)
{
    statement(t, at, filled(t, "%s = wait %s", stage, pipeline));
}

void tile_commit_(AuTileBuild *t, AuTileWhere at, const char *names)
{
    statement(t, at, filled(t, "commit %s", names));
}

void tile_release_(AuTileBuild *t, AuTileWhere at, const char *names)
{
    statement(t, at, filled(t, "release %s", names));
}

void tile_sync_(AuTileBuild *t, AuTileWhere at, AuTileTemplate barrier)
{
    statement(t, at, filled(t, "sync %s", tile_text_(t, at, barrier)));
}

void tile_arrive_(AuTileBuild *t, AuTileWhere at, AuTileTemplate barrier)
{
    statement(t, at, filled(t, "arrive %s", tile_text_(t, at, barrier)));
}

/* ---- blocks */

static void loop(AuTileBuild *t, AuTileWhere at, const char *text)
{
    AuTileStmt *s = statement(t, at, text);
    if (s) open_block(t, &s->loop.body, NULL);
}

void tile_for_tiles_(AuTileBuild *t, AuTileWhere at, const char *var, const char *list,
                     const char *from)
{
    loop(t, at,
         from ? filled(t, "for %s in %s from %s { }", var, list, from)
              : filled(t, "for %s in %s { }", var, list));
}

void tile_for_range_(AuTileBuild *t, AuTileWhere at, const char *var, const char *low,
                     const char *high)
{
    loop(t, at, filled(t, "for %s in range(%s, %s) { }", var, low, high));
}

void tile_if_(AuTileBuild *t, AuTileWhere at, AuTileTemplate test)
{
    AuTileStmt *s = statement(t, at, filled(t, "if %s { }", tile_text_(t, at, test)));
    if (s) open_block(t, &s->branch.then, s);
}

void tile_else_(AuTileBuild *t, AuTileWhere at)
{
    if (!begin(t, at, "else")) return;
    AuTileStmt *s = t->depth ? t->open[t->depth - 1].stmt : NULL;
    if (!s) {
        fail(&t->r, "a branch that is open");
        return;
    }
    t->depth--;
    open_block(t, s->kind == TILE_S_IF ? &s->branch.other : &s->on.other, NULL);
}

void tile_on_segment_(AuTileBuild *t, AuTileWhere at, const char *segment)
{
    AuTileStmt *s = statement(t, at, filled(t, "on %s { }", segment));
    if (s) open_block(t, &s->on.body, s);
}

void tile_end_(AuTileBuild *t, AuTileWhere at)
{
    if (!begin(t, at, "}")) return;
    if (t->depth)
        t->depth--;
    else
        fail(&t->r, "a block that is open");
}
