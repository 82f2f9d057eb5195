/* read_header.c - what stands before the instructions: memories, arguments, grid, maps. */
#include "reader.h"

static bool memory(Reader *r)
{
    static const char *const spaces[] = {"global", "shared", "exec", "lane", "matrix", "tensor"};
    static const char *const uses[] = {"a", "b", "c"};
    enum { SPACES = sizeof spaces / sizeof *spaces };
    AuMemory m = {.span = r->t.span};
    uint32_t space = 0;
    if (!punct(r, '@') || !name(r, &m.name) || !punct(r, ':')) return false;
    for (uint32_t n = 1; n < r->k->mem_count; n++)
        if (strcmp(r->k->mems[n].name, m.name) == 0) {
            au_error(r->diags, AU_E0802, m.span, "@%s is declared twice", m.name);
            return false;
        }
    while (space < SPACES && !accept(r, spaces[space])) space++;
    if (space == SPACES) return expected(r, "global, shared, exec, lane, matrix or tensor");
    m.space = (AuSpace)space;
    uint8_t scalar;
    if (r->t.kind != AU_KT_WORD || !scalar_named(r->t.text, strlen(r->t.text), &scalar))
        return expected(r, "a scalar type");
    m.scalar = scalar;
    next(r);
    if (m.space != AU_GLOBAL && (!punct(r, '[') || !count(r, &m.count) || !punct(r, ']')))
        return false;
    if (m.space == AU_MATRIX) {
        if (!keyword(r, "shape") || !count(r, &m.rows) || !count(r, &m.columns)) return false;
        while (m.use < 3 && !accept(r, uses[m.use])) m.use++;
        if (m.use == 3) return expected(r, "a, b or c");
    }
    if (m.space == AU_TENSOR &&
        (!keyword(r, "shape") || !count(r, &m.rows) || !count(r, &m.columns)))
        return false;
    if (accept(r, "align") && !count(r, &m.align)) return false;
    if (accept(r, "swizzle") && !count(r, &m.swizzle)) return false;
    m.reads = accept(r, "reads");
    m.writes = accept(r, "writes");
    m.earlier = accept(r, "earlier");
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

static bool words(Reader *r, AuLaunchExpr *out)
{
    uint32_t *code = NULL, length = 0, capacity = 0;
    while (r->t.kind == AU_KT_INT && !r->t.starts_line) {
        uint32_t word;
        if (!count(r, &word)) return false;
        AU_PUSH(r->k->arena, code, length, capacity, word);
    }
    *out = (AuLaunchExpr){code, length};
    return true;
}

static bool grid(Reader *r)
{
    uint32_t dim;
    if (!count(r, &dim) || !punct(r, ':')) return false;
    if (dim > 2) return expected(r, "a dimension from 0 to 2 before it");
    return words(r, &r->k->grid[dim]);
}

/* Launch expressions of a map: of its size or stride in a dimension. */
static bool extent(Reader *r, bool stride)
{
    const char *wanted = NULL;
    const AuSpan span = r->t.span;
    uint32_t dim;
    AuMap *map = NULL;
    if (!name(r, &wanted)) return false;
    for (uint32_t n = 0; n < r->k->map_count; n++)
        if (strcmp(r->k->maps[n].name, wanted) == 0) map = &r->k->maps[n];
    if (!map) {
        au_error(r->diags, AU_E0802, span, "there is no map %s", wanted);
        return false;
    }
    if (!count(r, &dim) || !punct(r, ':')) return false;
    if (dim >= AU_MAP_RANK) return expected(r, "a dimension from 0 to 4 before it");
    return words(r, stride ? &map->stride[dim] : &map->size[dim]);
}

static bool map(Reader *r)
{
    AuMap m = {.span = r->t.span};
    if (!name(r, &m.name) || !punct(r, ':') || !memory_named(r, &m.mem) || !keyword(r, "box"))
        return false;
    while (r->t.kind == AU_KT_INT && !r->t.starts_line) {
        if (m.rank == AU_MAP_RANK) return expected(r, "at most five dimensions");
        if (!count(r, &m.box[m.rank++])) return false;
    }
    if (accept(r, "swizzle") && !count(r, &m.swizzle)) return false;
    if (accept(r, "fill")) {
        if (r->t.kind != AU_KT_FLOAT || r->t.number == r->t.number) return expected(r, "nan");
        m.nan = true;
        next(r);
    }
    if (accept(r, "cut") && !count(r, &m.cut)) return false;
    for (uint32_t n = 0; n < r->k->map_count; n++)
        if (strcmp(r->k->maps[n].name, m.name) == 0) {
            au_error(r->diags, AU_E0802, m.span, "map %s is declared twice", m.name);
            return false;
        }
    kernel_map(r->k, m);
    return true;
}

bool kernel_read_first_line(Reader *r)
{
    const char *kernel_name = NULL;
    uint32_t lanes, warps;
    if (!keyword(r, "kernel") || !name(r, &kernel_name) || !keyword(r, "lanes") ||
        !count(r, &lanes) || !keyword(r, "warps") || !count(r, &warps))
        return false;
    r->k = kernel_new(r->arena, kernel_name, lanes, warps);
    if (accept(r, "group") && !count(r, &r->k->group)) return false;
    if (accept(r, "written") && !count(r, &r->k->written)) return false;
    if (accept(r, "paced") && !count(r, &r->k->paced)) return false;
    if (accept(r, "resident") && !count(r, &r->k->resident)) return false;
    r->k->is_coarse = accept(r, "coarse");
    return true;
}

void kernel_read_header(Reader *r)
{
    while (r->t.kind != AU_KT_END && !is_punct(r, '{')) {
        const uint32_t from = r->t.span.begin;
        const bool good = accept(r, "banner")   ? name(r, &r->k->banner)
                          : accept(r, "memory") ? memory(r)
                          : accept(r, "arg")    ? arg(r)
                          : accept(r, "grid")   ? grid(r)
                          : accept(r, "map")    ? map(r)
                          : accept(r, "size")   ? extent(r, false)
                          : accept(r, "stride") ? extent(r, true)
                                                : expected(r, "memory, arg, grid, map or {");
        if (good && (r->t.starts_line || r->t.kind == AU_KT_END)) continue;
        if (good) expected(r, "the end of the line");
        skip_line(r, from);
    }
}
