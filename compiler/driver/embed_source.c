/* embed_source.c - the descriptor as C: tables of <aule/artifact.h>, from the leaves up, for targets
 * whose code is data. */
#include "embed.h"

#include <string.h>

typedef struct Source {
    AuText *out;
    uint32_t next; /* number of the next table */
} Source;

/* ---- texts */

static void quoted(AuText *out, const char *text, size_t length, const char *line)
{
    au_text_add(out, "\"");
    for (size_t n = 0; n < length; n++) {
        const unsigned char c = (unsigned char)text[n];
        if (c == '\n' && n + 1 < length)
            au_text_add(out, "\\n\"%s\"", line);
        else if (c == '\n')
            au_text_add(out, "\\n");
        else if (c == '"' || c == '\\')
            au_text_add(out, "\\%c", c);
        else if (c < 32 || c > 126 || c == '?') /* no trigraphs; three digits end an escape */
            au_text_add(out, "\\%03o", c);
        else
            au_text_add(out, "%c", c);
    }
    au_text_add(out, "\"");
}

static void string(AuText *out, const char *text) { quoted(out, text, strlen(text), "\n    "); }

/* ---- tables: each is declared before what points to it, and gives its number */

static uint32_t expr_code(Source *s, const aule_expr *e)
{
    const uint32_t number = s->next++;
    if (!e->code) return number;
    au_text_add(s->out, "static const uint32_t t%u[] = {", number);
    for (uint32_t n = 0; n < e->length; n++) au_text_add(s->out, "%s%u", n ? ", " : "", e->code[n]);
    au_text_add(s->out, "};\n");
    return number;
}

static void expr(Source *s, const aule_expr *e, uint32_t number)
{
    if (e->code)
        au_text_add(s->out, "{t%u, %u}", number, e->length);
    else
        au_text_add(s->out, "{0, 0}");
}

static uint32_t exprs(Source *s, const aule_expr *list, uint32_t count)
{
    const uint32_t first = s->next;
    for (uint32_t n = 0; n < count; n++) expr_code(s, &list[n]);
    return first;
}

/* "T tN[] = {", for lists that are not empty. */
static uint32_t open_table(Source *s, const char *type)
{
    au_text_add(s->out, "static const %s t%u[] = {\n", type, s->next);
    return s->next++;
}

static void pointer(Source *s, uint32_t count, uint32_t number)
{
    if (count)
        au_text_add(s->out, "%u, t%u", count, number);
    else
        au_text_add(s->out, "0, 0");
}

static uint32_t axes(Source *s, const aule_tensor_v1 *t)
{
    const uint32_t first = exprs(s, t->axes, t->rank);
    if (!t->rank) return 0;
    const uint32_t table = open_table(s, "aule_expr");
    for (uint32_t n = 0; n < t->rank; n++) {
        au_text_add(s->out, "    ");
        expr(s, &t->axes[n], first + n);
        au_text_add(s->out, ",\n");
    }
    au_text_add(s->out, "};\n");
    return table;
}

static uint32_t tensors(Source *s, const aule_attention_v1 *a)
{
    uint32_t lists[128];
    const uint32_t count = a->tensor_count < 128 ? a->tensor_count : 128;
    for (uint32_t n = 0; n < count; n++) lists[n] = axes(s, &a->tensors[n]);
    const uint32_t table = open_table(s, "aule_tensor_v1");
    for (uint32_t n = 0; n < count; n++) {
        const aule_tensor_v1 *t = &a->tensors[n];
        au_text_add(s->out, "    {sizeof(aule_tensor_v1), \"%s\", %u, %u, %u, %u, ", t->name,
                    t->role, t->dtype, t->rank, t->flags);
        au_text_add(s->out, t->rank ? "t%u},\n" : "0},\n", lists[n]);
    }
    au_text_add(s->out, "};\n");
    return table;
}

static uint32_t sizes(Source *s, const aule_attention_v1 *a)
{
    if (!a->size_count) return 0;
    const uint32_t table = open_table(s, "aule_size_v1");
    for (uint32_t n = 0; n < a->size_count; n++)
        au_text_add(s->out, "    {\"%s\"},\n", a->sizes[n].name);
    au_text_add(s->out, "};\n");
    return table;
}

static uint32_t params(Source *s, const aule_attention_v1 *a)
{
    const uint32_t first = s->next;
    if (!a->param_count) return 0;
    for (uint32_t n = 0; n < a->param_count; n++) expr_code(s, &a->params[n].default_value);
    const uint32_t table = open_table(s, "aule_param_v1");
    for (uint32_t n = 0; n < a->param_count; n++) {
        au_text_add(s->out, "    {sizeof(aule_param_v1), \"%s\", %u, ", a->params[n].name,
                    a->params[n].dtype);
        expr(s, &a->params[n].default_value, first + n);
        au_text_add(s->out, "},\n");
    }
    au_text_add(s->out, "};\n");
    return table;
}

static uint32_t requires_(Source *s, const aule_attention_v1 *a)
{
    const uint32_t first = s->next;
    if (!a->require_count) return 0;
    for (uint32_t n = 0; n < a->require_count; n++) expr_code(s, &a->requires_[n].condition);
    const uint32_t table = open_table(s, "aule_require_v1");
    for (uint32_t n = 0; n < a->require_count; n++) {
        au_text_add(s->out, "    {");
        expr(s, &a->requires_[n].condition, first + n);
        au_text_add(s->out, ", ");
        string(s->out, a->requires_[n].text);
        au_text_add(s->out, "},\n");
    }
    au_text_add(s->out, "};\n");
    return table;
}

/* ---- variants */

typedef struct Launch {
    uint32_t grid, slots;
} Launch;

static Launch launch_tables(Source *s, const aule_launch_v1 *l)
{
    Launch made = {.grid = exprs(s, l->grid, 3)};
    if (!l->slot_count) return made;
    made.slots = open_table(s, "aule_slot_v1");
    for (uint32_t n = 0; n < l->slot_count; n++)
        au_text_add(s->out, "    {%u, %u, %u, %u},\n", l->slots[n].kind, l->slots[n].type,
                    l->slots[n].index, l->slots[n].dim);
    au_text_add(s->out, "};\n");
    return made;
}

static void launch(Source *s, const aule_launch_v1 *l, Launch made)
{
    au_text_add(s->out, "    {sizeof(aule_launch_v1), \"%s\", 0, {", l->entry);
    for (uint32_t n = 0; n < 3; n++) {
        expr(s, &l->grid[n], made.grid + n);
        au_text_add(s->out, n < 2 ? ", " : "}, ");
    }
    au_text_add(s->out, "{%u, %u, %u}, %u, %u, ", l->block[0], l->block[1], l->block[2],
                l->shared_bytes, l->private_bytes);
    pointer(s, l->slot_count, made.slots);
    au_text_add(s->out, "},\n");
}

static uint32_t launches(Source *s, const aule_variant_v1 *v)
{
    Launch made[64];
    const uint32_t count = v->launch_count < 64 ? v->launch_count : 64;
    for (uint32_t n = 0; n < count; n++) made[n] = launch_tables(s, &v->launches[n]);
    const uint32_t table = open_table(s, "aule_launch_v1");
    for (uint32_t n = 0; n < count; n++) launch(s, &v->launches[n], made[n]);
    au_text_add(s->out, "};\n");
    return table;
}

static uint32_t workspaces(Source *s, const aule_variant_v1 *v)
{
    const uint32_t first = s->next;
    if (!v->workspace_count) return 0;
    for (uint32_t n = 0; n < v->workspace_count; n++) expr_code(s, &v->workspaces[n].bytes);
    const uint32_t table = open_table(s, "aule_workspace_v1");
    for (uint32_t n = 0; n < v->workspace_count; n++) {
        au_text_add(s->out, "    {");
        expr(s, &v->workspaces[n].bytes, first + n);
        au_text_add(s->out, ", %u, %u},\n", v->workspaces[n].align, v->workspaces[n].zeroed);
    }
    au_text_add(s->out, "};\n");
    return table;
}

static uint32_t fixed(Source *s, const aule_variant_v1 *v)
{
    if (!v->fixed_count) return 0;
    const uint32_t table = open_table(s, "aule_fixed_v1");
    for (uint32_t n = 0; n < v->fixed_count; n++)
        au_text_add(s->out, "    {%u, %lld},\n", v->fixed[n].size, (long long)v->fixed[n].value);
    au_text_add(s->out, "};\n");
    return table;
}

static uint32_t checks(Source *s, const aule_variant_v1 *v)
{
    if (!v->check_count) return 0;
    const uint32_t table = open_table(s, "aule_check_v1");
    for (uint32_t n = 0; n < v->check_count; n++) {
        const aule_check_v1 *c = &v->checks[n];
        au_text_add(s->out, "    {");
        string(s->out, c->text);
        au_text_add(s->out, ", %u, %u, %u, %u, %u, %u},\n", c->tensor, c->axis, c->region, c->rows,
                    c->slice, c->slices);
    }
    au_text_add(s->out, "};\n");
    return table;
}

static bool is_text(const aule_variant_v1 *v)
{
    return v->code_format == AULE_CODE_OPENCL_C || v->code_format == AULE_CODE_PTX ||
           v->code_format == AULE_CODE_MSL;
}

static uint32_t code(Source *s, const aule_variant_v1 *v)
{
    const unsigned char *bytes = v->code;
    const uint32_t table = s->next++;
    if (is_text(v)) {
        au_text_add(s->out, "static const char t%u[] =\n    ", table);
        quoted(s->out, v->code, v->code_bytes, "\n    ");
        au_text_add(s->out, ";\n");
        return table;
    }
    au_text_add(s->out, "static const unsigned char t%u[] = {", table);
    for (uint64_t n = 0; n < v->code_bytes; n++)
        au_text_add(s->out, n % 20 ? "%u," : "\n    %u,", bytes[n]);
    au_text_add(s->out, "\n};\n");
    return table;
}

typedef struct Variant {
    uint32_t fixed, code, workspaces, launches, checks, condition;
} Variant;

static void variant(Source *s, const aule_variant_v1 *v, Variant made)
{
    au_text_add(s->out, "    {sizeof(aule_variant_v1), \"%s\", \"%s\", \"%s\", \"%s\", %u, ",
                v->operation, v->target, v->arch, v->features, v->dtype);
    pointer(s, v->fixed_count, made.fixed);
    au_text_add(s->out, ", \"%s\", %u, %llu, t%u, ", v->schedule, v->code_format,
                (unsigned long long)v->code_bytes, made.code);
    pointer(s, v->workspace_count, made.workspaces);
    au_text_add(s->out, ", ");
    pointer(s, v->launch_count, made.launches);
    au_text_add(s->out, ", ");
    pointer(s, v->check_count, made.checks);
    au_text_add(s->out, ", ");
    expr(s, &v->condition, made.condition);
    au_text_add(s->out, "},\n");
}

static uint32_t variants(Source *s, const aule_attention_v1 *a)
{
    enum { MOST = 1024 };
    Variant made[MOST];
    const uint32_t count = a->variant_count < MOST ? a->variant_count : MOST;
    for (uint32_t n = 0; n < count; n++) {
        const aule_variant_v1 *v = &a->variants[n];
        made[n].fixed = fixed(s, v);
        made[n].code = code(s, v);
        made[n].workspaces = workspaces(s, v);
        made[n].launches = launches(s, v);
        made[n].checks = checks(s, v);
        made[n].condition = expr_code(s, &v->condition);
    }
    if (!count) return 0;
    const uint32_t table = open_table(s, "aule_variant_v1");
    for (uint32_t n = 0; n < count; n++) variant(s, &a->variants[n], made[n]);
    au_text_add(s->out, "};\n");
    return table;
}

/* ---- the whole */

typedef struct Attention {
    uint32_t sizes, tensors, params, requires_, variants;
} Attention;

static void attention(Source *s, const aule_attention_v1 *a, Attention made)
{
    au_text_add(s->out, "    {sizeof(aule_attention_v1), \"%s\",\n    ", a->name);
    string(s->out, a->formula);
    au_text_add(s->out, ",\n    ");
    const uint32_t counts[] = {a->size_count, a->tensor_count, a->param_count, a->require_count,
                               a->variant_count};
    const uint32_t tables[] = {made.sizes, made.tensors, made.params, made.requires_,
                               made.variants};
    for (uint32_t n = 0; n < 5; n++) {
        pointer(s, counts[n], tables[n]);
        au_text_add(s->out, n < 4 ? ", " : "},\n");
    }
}

void embed_source(const AuEmbed *e, AuText *out)
{
    Source s = {.out = out};
    const aule_module_v1 *m = e->module;
    Attention *made = AU_NEW_ARRAY(e->arena, Attention, m->attention_count + 1);
    au_text_add(out,
                "/* %s.c - made by %s from %s; changes will be lost.\n"
                " * An artifact as data: link it and give &%s_module to aule_module_from. */\n"
                "#include <aule/artifact.h>\n"
                "\n"
                "#if defined(__GNUC__) /* C99 promises 4095 characters, compilers take more */\n"
                "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n"
                "#endif\n"
                "\n",
                e->stem, m->producer, m->source_name, e->stem);
    for (uint32_t n = 0; n < m->attention_count; n++) {
        const aule_attention_v1 *a = &m->attentions[n];
        made[n].sizes = sizes(&s, a);
        made[n].tensors = tensors(&s, a);
        made[n].params = params(&s, a);
        made[n].requires_ = requires_(&s, a);
        made[n].variants = variants(&s, a);
    }
    const uint32_t table = open_table(&s, "aule_attention_v1");
    for (uint32_t n = 0; n < m->attention_count; n++) attention(&s, &m->attentions[n], made[n]);
    au_text_add(out,
                "};\n"
                "\n"
                "extern const aule_module_v1 %s_module;\n"
                "const aule_module_v1 %s_module = {\n"
                "    AULE_MAGIC, %u, %u, sizeof(aule_module_v1), %u, t%u,\n"
                "    \"%s\", ",
                e->stem, e->stem, m->version_major, m->version_minor, m->attention_count, table,
                m->producer);
    string(out, m->source_name);
    au_text_add(out, ", %lluu\n};\n", (unsigned long long)m->source_hash);
}
