/* embed.c - see embed.h: decides what the functions take, and puts together
 * what was asked for. */
#include "descriptor.h"
#include "embed.h"
#include "operations.h"

#include "aule/aulec.h"

#include <ctype.h>
#include <string.h>

bool embed_needs_code(uint32_t emit) { return emit != AULEC_EMIT_HEADER; }

/* ---- names */

const char *embed_upper(AuArena *arena, const char *name)
{
    char *upper = au_strndup(arena, name, strlen(name));
    for (char *c = upper; *c; c++) *c = (char)toupper((unsigned char)*c);
    return upper;
}

/* "my-script.attn" is my_script. */
static const char *stem_of(AuArena *arena, const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    char *stem = au_format(arena, "%s%s", isdigit((unsigned char)*base) ? "_" : "", base);
    stem[strcspn(stem, ".")] = 0;
    for (char *c = stem; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return *stem && strcmp(stem, "_") != 0 ? stem : "script";
}

/* Words that are not names in C or C++, and what headers define in lower or single letters. */
static bool is_taken(const char *name)
{
    static const char *const words[] = {
        "alignas",  "alignof",  "and",       "asm",      "auto",     "bool",     "break",
        "case",     "catch",    "char",      "class",    "const",    "continue", "default",
        "delete",   "do",       "double",    "else",     "enum",     "explicit", "export",
        "extern",   "false",    "float",     "for",      "friend",   "goto",     "if",
        "inline",   "int",      "long",      "mutable",  "new",      "not",      "operator",
        "or",       "private",  "protected", "public",   "register", "restrict", "return",
        "short",    "signed",   "sizeof",    "static",   "struct",   "switch",   "template",
        "this",     "throw",    "true",      "try",      "typedef",  "typename", "union",
        "unsigned", "using",    "virtual",   "void",     "volatile", "while",    "xor",
        "I",        "linux",    "unix",      "concept",  "requires", "nullptr",  "namespace",
        "typeof",   "decltype", "constexpr", "noexcept", "errno"};
    for (size_t n = 0; n < sizeof words / sizeof *words; n++)
        if (strcmp(words[n], name) == 0) return true;
    return false;
}

/* ---- fields: what a function of an operation takes */

typedef struct Fields {
    AuEmbed *e;
    AuCallField *at;
    uint32_t count, capacity;
} Fields;

static void add_field(Fields *f, AuCallFieldKind kind, uint32_t index, bool optional,
                      const char *name)
{
    const char *unique = is_taken(name) ? au_format(f->e->arena, "%s_", name) : name;
    for (uint32_t n = 0; n < f->count; n++)
        if (strcmp(f->at[n].name, unique) == 0) {
            unique = au_format(f->e->arena, "%s_", unique);
            n = UINT32_MAX; /* from the start */
        }
    const AuCallField field = {kind, index, optional, unique};
    AU_PUSH(f->e->arena, f->at, f->count, f->capacity, field);
}

static void add_tensors(Fields *f, const aule_attention_v1 *a, AuOperation operation)
{
    for (uint32_t n = 0; n < a->tensor_count; n++) {
        const aule_tensor_v1 *t = &a->tensors[n];
        const AuUse use = operation_use(operation, a, t);
        if (use == AU_UNUSED) continue;
        add_field(f, AU_CALL_TENSOR, n, use == AU_POSSIBLE, t->name);
        if (t->rank)
            add_field(f, AU_CALL_STRIDES, n, true, au_format(f->e->arena, "%s_strides", t->name));
    }
}

static bool has_size(const aule_expr *e, uint32_t size)
{
    for (uint32_t at = 0; at < e->length; at++) {
        const uint32_t op = e->code[at] & 255u;
        if (op == AULE_E_CONST_INT || op == AULE_E_CONST_FLOAT) at += 2;
        if (op == AULE_E_SIZE && e->code[at] >> 8 == size) return true;
    }
    return false;
}

/* Sizes are those of the operation's tensors; how many slots there are, of append, its other tensors say. */
static bool takes_size(const aule_attention_v1 *a, AuOperation operation, uint32_t size)
{
    for (uint32_t n = 0; n < a->tensor_count; n++) {
        const aule_tensor_v1 *t = &a->tensors[n];
        if (operation_use(operation, a, t) == AU_UNUSED) continue;
        for (uint32_t axis = 0; axis < t->rank; axis++)
            if (has_size(&t->axes[axis], size) && t->role != AULE_ROLE_NEW_SLOTS) return true;
    }
    return false;
}

static void add_call(AuEmbed *e, const aule_attention_v1 *a, const char *name)
{
    const AuOperation operation = operation_named(name);
    Fields f = {.e = e};
    add_field(&f, AU_CALL_STRUCT_SIZE, 0, false, "struct_size");
    add_field(&f, AU_CALL_DTYPE, 0, false, "dtype");
    for (uint32_t n = 0; n < a->size_count; n++)
        if (*a->sizes[n].name && takes_size(a, operation, n))
            add_field(&f, AU_CALL_SIZE, n, false, a->sizes[n].name);
    add_tensors(&f, a, operation);
    for (uint32_t n = 0; n < a->param_count; n++)
        add_field(&f, AU_CALL_PARAM, n, a->params[n].default_value.code != NULL, a->params[n].name);
    add_field(&f, AU_CALL_WORKSPACE, 0, true, "workspace");
    add_field(&f, AU_CALL_WORKSPACE_BYTES, 0, true, "workspace_bytes");
    add_field(&f, AU_CALL_PARALLEL, 0, true, "parallel");
    add_field(&f, AU_CALL_USER, 0, true, "parallel_user");
    const AuCall call = {a, name, f.at, f.count};
    AU_PUSH(e->arena, e->calls, e->call_count, e->call_capacity, call);
}

/* Operations that have kernels for the host, each once. */
static void find_calls(AuEmbed *e)
{
    for (uint32_t n = 0; n < e->module->attention_count; n++) {
        const aule_attention_v1 *a = &e->module->attentions[n];
        const uint32_t first = e->call_count;
        for (uint32_t v = 0; v < a->variant_count; v++) {
            bool known = a->variants[v].code_format != AULE_CODE_HOST;
            for (uint32_t c = first; c < e->call_count; c++)
                known |= strcmp(e->calls[c].operation, a->variants[v].operation) == 0;
            if (!known) add_call(e, a, a->variants[v].operation);
        }
    }
}

/* ---- what cannot be */

/* Finds the architecture that host code is for; all must be of one machine. */
bool embed_is_possible(AuEmbed *e)
{
    const bool is_object = e->emit == AULEC_EMIT_OBJECT || e->emit == AULEC_EMIT_ARCHIVE;
    if (is_object && !au_object_arch()) {
        au_error(e->diags, AU_E0623, (AuSpan){0},
                 "objects and archives need LLVM, without which this aulec was built; --emit=c "
                 "writes the same data as C");
        return false;
    }
    for (uint32_t b = 0; b < e->build_count; b++)
        for (uint32_t n = 0; n < e->builds[b].count; n++) {
            const AuVariant *v = &e->builds[b].variants[n];
            if (v->target->format != AULE_CODE_HOST) continue;
            if (e->emit == AULEC_EMIT_C) {
                au_error(
                    e->diags, AU_E0623, (AuSpan){0},
                    "--emit=c cannot hold kernels of target %s, which are machine code and not "
                    "C: use --emit=obj or --emit=archive, or leave the target out",
                    v->target->name);
                return false;
            }
            if (e->host && strcmp(e->host->machine, v->arch->machine) != 0) {
                au_error(e->diags, AU_E0623, (AuSpan){0},
                         "one object cannot hold code for %s and for %s: compile them apart, with "
                         "--arch",
                         e->host->name, v->arch->name);
                return false;
            }
            e->host = v->arch;
        }
    return true;
}

/* ---- objects */

typedef struct Members {
    AuEmbed *e;
    AuMember *at;
    uint32_t count, capacity;
} Members;

static void add_member(Members *m, const char *name, AuBlob content, const char *const *symbols,
                       uint32_t symbol_count)
{
    const AuMember member = {name, content, symbols, symbol_count};
    AU_PUSH(m->e->arena, m->at, m->count, m->capacity, member);
}

static bool add_descriptor(Members *m)
{
    AuEmbed *e = m->e;
    const char **symbol = AU_NEW(e->arena, const char *);
    AuBlob content;
    const AuImage image = descriptor_image(e->arena, e->module);
    *symbol = au_format(e->arena, "%s_module", e->stem);
    if (!au_image_object(e->arena, e->diags, &image, *symbol, e->host ? e->host : au_object_arch(),
                         &content))
        return false;
    add_member(m, "module.o", content, symbol, 1);
    return true;
}

static bool add_calls(Members *m)
{
    AuEmbed *e = m->e;
    AuBlob content;
    const char **symbols = AU_NEW_ARRAY(e->arena, const char *, 3 * e->call_count + 1);
    uint32_t count = 0;
    if (!e->call_count) return true;
    if (!au_calls_object(e->arena, e->diags, e->calls, e->call_count, e->host, &content))
        return false;
    for (uint32_t n = 0; n < e->call_count; n++) {
        const char *name = e->calls[n].attention->name;
        symbols[count++] = au_format(e->arena, "%s_%s", name, e->calls[n].operation);
        symbols[count++] = au_format(e->arena, "%s_%s_workspace", name, e->calls[n].operation);
        if (n == 0 || e->calls[n - 1].attention != e->calls[n].attention)
            symbols[count++] = au_format(e->arena, "%s_message", name);
    }
    add_member(m, "calls.o", content, symbols, count);
    return true;
}

static void add_kernels(Members *m)
{
    AuEmbed *e = m->e;
    for (uint32_t b = 0; b < e->build_count; b++)
        for (uint32_t n = 0; n < e->builds[b].count; n++) {
            const AuVariant *v = &e->builds[b].variants[n];
            if (v->target->format != AULE_CODE_HOST) continue;
            const uint32_t count = v->kernel_count + v->part_name_count;
            const char **symbols = AU_NEW_ARRAY(e->arena, const char *, count);
            for (uint32_t k = 0; k < v->kernel_count; k++) symbols[k] = v->launches[k].entry;
            for (uint32_t k = 0; k < v->part_name_count; k++)
                symbols[v->kernel_count + k] = v->part_names[k];
            add_member(m, au_format(e->arena, "kernels%u.o", m->count), v->code, symbols, count);
        }
}

static bool emit_objects(AuEmbed *e, AuBlob *out)
{
    Members m = {.e = e};
    if (!add_calls(&m) || !add_descriptor(&m)) return false;
    add_kernels(&m);
    if (e->emit == AULEC_EMIT_ARCHIVE) {
        *out = archive_write(e->arena, m.at, m.count);
        return true;
    }
    AuBlob *objects = AU_NEW_ARRAY(e->arena, AuBlob, m.count);
    for (uint32_t n = 0; n < m.count; n++) objects[n] = m.at[n].content;
    return au_link_object(e->arena, e->diags, objects, m.count, out);
}

bool embed_emit(AuEmbed *e, AuBlob *out)
{
    AuText text = {.arena = e->arena};
    e->stem = e->attention ? e->attention : stem_of(e->arena, e->name);
    find_calls(e);
    if (e->emit == AULEC_EMIT_OBJECT || e->emit == AULEC_EMIT_ARCHIVE) return emit_objects(e, out);
    if (e->emit == AULEC_EMIT_HEADER)
        embed_header(e, &text);
    else
        embed_source(e, &text);
    *out = (AuBlob){au_text_str(&text), text.length};
    return true;
}
