/* text.c - a module for people: one instruction a line, as SPIR-V's disassemblers write it, by the forms in spirv.def. */
#include "module.h"

#include <string.h>

typedef struct Named {
    const char *name;
    uint32_t number;
} Named;

// clang-format off
static const struct Form {
    const char *name;
    uint32_t number;
    const char *form;
} forms[] = {
#define OP(name, number, form) {"Op" #name, number, form},
#include "spirv.def"
};
static const Named capabilities[] = {
#define CAPABILITY(name, number) {#name, number},
#include "spirv.def"
    {NULL, 0}};
static const Named storages[] = {
#define STORAGE(name, number) {#name, number},
#include "spirv.def"
    {NULL, 0}};
static const Named decorations[] = {
#define DECORATION(name, number) {#name, number},
#include "spirv.def"
    {NULL, 0}};
static const Named builtins[] = {
#define BUILTIN(name, number) {#name, number},
#include "spirv.def"
    {NULL, 0}};
static const Named modes[] = {
#define MODE(name, number) {#name, number},
#include "spirv.def"
    {NULL, 0}};
// clang-format on

static const struct Form *form_of(uint32_t op)
{
    for (size_t n = 0; n < sizeof forms / sizeof *forms; n++)
        if (forms[n].number == op) return &forms[n];
    return NULL;
}

static void named(const Named *rows, uint32_t number, AuText *out)
{
    for (; rows->name && rows->number != number; rows++) {}
    if (rows->name)
        au_text_add(out, " %s", rows->name);
    else
        au_text_add(out, " %u", number);
}

/* How many words the text takes. */
static uint32_t text_at(const uint32_t *words, uint32_t left, AuText *out)
{
    au_text_add(out, " \"");
    for (uint32_t n = 0; n < left; n++)
        for (uint32_t c = 0; c < 4; c++) {
            const char letter = (char)(words[n] >> 8 * c);
            if (!letter) {
                au_text_add(out, "\"");
                return n + 1;
            }
            au_text_add(out,
                        letter == '"' || letter == '\\' ? "\\%c"
                        : letter == '\n'                ? "\\n"
                                                        : "%c",
                        letter);
        }
    return left;
}

static uint32_t numbers(const uint32_t *words, uint32_t left, bool ids, AuText *out)
{
    for (uint32_t n = 0; n < left; n++) au_text_add(out, ids ? " %%%u" : " %u", words[n]);
    return left;
}

static uint32_t operand(char form, const uint32_t *words, uint32_t left, AuText *out)
{
    switch (form) {
    case 'T':
    case 'i': return numbers(words, 1, true, out);
    case 'n': return numbers(words, 1, false, out);
    case 's': return text_at(words, left, out);
    case 'C': named(capabilities, *words, out); return 1;
    case 'S': named(storages, *words, out); return 1;
    case 'X': named(modes, *words, out); return 1 + numbers(words + 1, left - 1, false, out);
    case 'D':
        named(decorations, *words, out);
        if (*words != SPV_IS_BuiltIn) return 1 + numbers(words + 1, left - 1, false, out);
        named(builtins, words[1], out);
        return 2;
    case 'f':
        au_text_add(out, " 0x%08x", words[left - 1]);
        if (left == 2) au_text_add(out, "%08x", words[0]);
        return left;
    case 'I': return numbers(words, left, true, out);
    case 'V': return numbers(words, 1, false, out) + numbers(words + 1, left - 1, true, out);
    }
    return numbers(words, left, false, out);
}

static void line(const uint32_t *words, AuText *out)
{
    const uint32_t count = words[0] >> 16;
    const struct Form *row = form_of(words[0] & 0xffff);
    uint32_t at = 1;
    const char *result = row ? strchr(row->form, 'R') : NULL;
    if (result) au_text_add(out, "%%%u = ", words[1 + (result - row->form)]);
    au_text_add(out, "%s", row ? row->name : au_format(out->arena, "Op%u", words[0] & 0xffff));
    for (const char *form = row ? row->form : "N"; *form && at < count; form++)
        at += *form == 'R' ? 1 : operand(*form, words + at, count - at, out);
    au_text_add(out, "\n");
}

void spirv_print(const uint32_t *words, size_t count, AuText *out)
{
    if (count < SPV_HEADER) return;
    au_text_add(out, "; SPIR-V %u.%u, ids below %u\n", words[1] >> 16 & 255, words[1] >> 8 & 255,
                words[3]);
    for (size_t at = SPV_HEADER; at < count && words[at] >> 16 && words[at] >> 16 <= count - at;
         at += words[at] >> 16)
        line(words + at, out);
}
