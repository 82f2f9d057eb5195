/* embed_source.c - the descriptor as C: tables of <aule/artifact.h>, from the leaves up, for targets
 * whose code is data. */
#include "descriptor.h"
#include "embed.h"

#include <string.h>

typedef struct Source {
    AuText *out;
    AuArena *arena;
    uint32_t next; /* number of the next table */
    AuCodes codes; /* the number of each one's table */
} Source;

/* Of tables, in the order in which members point to them. */
typedef struct Numbers {
    uint32_t *at;
    uint32_t count, capacity;
} Numbers;

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

/* ---- structures */

static void structure(Source *s, const AuStruct *type, const char *data, const uint32_t **tables)
{
    const char *separator = "{";
    for (const AuStructMember *of = type->members; of->kind; of++, separator = ", ") {
        const void *at = data + of->at;
        au_text_add(s->out, "%s", separator);
        switch (of->kind) {
        case AU_M_MAGIC: au_text_add(s->out, "AULE_MAGIC"); break;
        case AU_M_SIZE: au_text_add(s->out, "sizeof(%s)", type->name); break;
        case AU_M_U16: au_text_add(s->out, "%u", *(const uint16_t *)at); break;
        case AU_M_U32:
            for (uint32_t n = 0; n < of->many; n++)
                au_text_add(s->out, "%s%u",
                            n              ? ", "
                            : of->many > 1 ? "{"
                                           : "",
                            ((const uint32_t *)at)[n]);
            au_text_add(s->out, "%s", of->many > 1 ? "}" : "");
            break;
        case AU_M_U64:
            au_text_add(s->out, "%lluu", (unsigned long long)*(const uint64_t *)at);
            break;
        case AU_M_I64: au_text_add(s->out, "%lld", (long long)*(const int64_t *)at); break;
        case AU_M_TEXT: {
            const char *text = *(const char *const *)at;
            quoted(s->out, text, strlen(text), "\n    ");
            break;
        }
        case AU_M_INLINE:
            for (uint32_t n = 0; n < of->many; n++) {
                au_text_add(s->out, "%s", n ? ", " : of->many > 1 ? "{" : "");
                structure(s, of->of, (const char *)at + n * of->of->bytes, tables);
            }
            au_text_add(s->out, "%s", of->many > 1 ? "}" : "");
            break;
        case AU_M_WORDS:
        case AU_M_CODE:
        case AU_M_LIST:
            au_text_add(s->out, descriptor_count(of, data) ? "t%u" : "0", *(*tables)++);
            break;
        case AU_M_HOST: /* machine code, which C cannot hold */
        case AU_M_END: au_text_add(s->out, "0"); break;
        }
    }
    au_text_add(s->out, "}");
}

/* ---- tables: each is declared before what points to it, and gives its number */

static uint32_t words(Source *s, const uint32_t *word, uint64_t count)
{
    au_text_add(s->out, "static const uint32_t t%u[] = {", s->next);
    for (uint64_t n = 0; n < count; n++) au_text_add(s->out, "%s%u", n ? ", " : "", word[n]);
    au_text_add(s->out, "};\n");
    return s->next++;
}

static uint32_t code(Source *s, const unsigned char *bytes, uint64_t length)
{
    bool fresh;
    uint64_t *table = descriptor_code(s->arena, &s->codes, bytes, length, &fresh);
    if (!fresh) return (uint32_t)*table;
    *table = s->next;
    if (!memchr(bytes, 0, length)) { /* text */
        au_text_add(s->out, "static const char t%u[] =\n    ", s->next);
        quoted(s->out, (const char *)bytes, length, "\n    ");
        au_text_add(s->out, ";\n");
        return s->next++;
    }
    au_text_add(s->out, "static const unsigned char t%u[] = {", s->next);
    for (uint64_t n = 0; n < length; n++)
        au_text_add(s->out, n % 20 ? "%u," : "\n    %u,", bytes[n]);
    au_text_add(s->out, "\n};\n");
    return s->next++;
}

static void tables_of(Source *s, const AuStruct *type, const char *data, Numbers *numbers);

static uint32_t list(Source *s, const AuStruct *type, const char *first, uint64_t count)
{
    Numbers own = {0};
    for (uint64_t n = 0; n < count; n++) tables_of(s, type, first + n * type->bytes, &own);
    const uint32_t *tables = own.at;
    au_text_add(s->out, "static const %s t%u[] = {\n", type->name, s->next);
    for (uint64_t n = 0; n < count; n++) {
        au_text_add(s->out, "    ");
        structure(s, type, first + n * type->bytes, &tables);
        au_text_add(s->out, ",\n");
    }
    au_text_add(s->out, "};\n");
    return s->next++;
}

/* Everything that a structure points to; what is not there counts, too. */
static void tables_of(Source *s, const AuStruct *type, const char *data, Numbers *numbers)
{
    for (const AuStructMember *of = type->members; of->kind; of++) {
        const bool points =
            of->kind == AU_M_WORDS || of->kind == AU_M_CODE || of->kind == AU_M_LIST;
        for (uint32_t n = 0; of->kind == AU_M_INLINE && n < of->many; n++)
            tables_of(s, of->of, data + of->at + n * of->of->bytes, numbers);
        if (!points) continue;
        const void *target = *(const void *const *)(const void *)(data + of->at);
        const uint64_t count = descriptor_count(of, data);
        const uint32_t number = !count                   ? 0
                                : of->kind == AU_M_WORDS ? words(s, target, count)
                                : of->kind == AU_M_CODE  ? code(s, target, count)
                                                         : list(s, of->of, target, count);
        AU_PUSH(s->arena, numbers->at, numbers->count, numbers->capacity, number);
    }
}

void embed_source(const AuEmbed *e, AuText *out)
{
    Source s = {.out = out, .arena = e->arena};
    Numbers own = {0};
    au_text_add(out,
                "/* %s.c - made by %s from %s; changes will be lost.\n"
                " * An artifact as data: link it and give &%s_module to aule_module_from. */\n"
                "#include <aule/artifact.h>\n"
                "\n"
                "#if defined(__GNUC__) /* C99 promises 4095 characters, compilers take more */\n"
                "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n"
                "#endif\n"
                "\n",
                e->stem, e->module->producer, e->module->source_name, e->stem);
    tables_of(&s, &descriptor_module, (const char *)e->module, &own);
    const uint32_t *tables = own.at;
    au_text_add(out,
                "\n"
                "extern const aule_module_v1 %s_module;\n"
                "const aule_module_v1 %s_module = ",
                e->stem, e->stem);
    structure(&s, &descriptor_module, (const char *)e->module, &tables);
    au_text_add(out, ";\n");
}
