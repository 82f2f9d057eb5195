/* archive.c - static libraries in the format of System V and GNU: a magic line, then members, each
 * after a header of 60 characters and padded to an even length. The first member, named "/", is the
 * index: big endian, the number of names, for each the place of the member that defines it, then the
 * names. Times and owners are zero, so that the same input gives the same bytes. */
#include "embed.h"

#include <string.h>

enum { MAGIC_BYTES = 8, HEADER_BYTES = 60 };

static void word(AuText *t, uint32_t value)
{
    const unsigned char bytes[4] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16),
                                    (unsigned char)(value >> 8), (unsigned char)value};
    au_text_bytes(t, bytes, sizeof bytes);
}

static void member(AuText *t, const char *name, const void *bytes, size_t length)
{
    au_text_add(t, "%-16s%-12d%-6d%-6d%-8s%-10zu`\n", name, 0, 0, 0, "644", length);
    au_text_bytes(t, bytes, length);
    if (length % 2) au_text_add(t, "\n");
}

static size_t padded(size_t length) { return length + length % 2; }

static size_t index_bytes(const AuMember *members, uint32_t count)
{
    size_t bytes = 4;
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t s = 0; s < members[n].symbol_count; s++)
            bytes += 4 + strlen(members[n].symbols[s]) + 1;
    return bytes;
}

AuBlob archive_write(AuArena *arena, const AuMember *members, uint32_t count)
{
    AuText index = {.arena = arena}, names = {.arena = arena}, out = {.arena = arena};
    uint32_t symbols = 0;
    for (uint32_t n = 0; n < count; n++) symbols += members[n].symbol_count;
    word(&index, symbols);
    size_t at = MAGIC_BYTES + HEADER_BYTES + padded(index_bytes(members, count));
    for (uint32_t n = 0; n < count; n++) {
        for (uint32_t s = 0; s < members[n].symbol_count; s++) {
            const char *name = members[n].symbols[s];
            word(&index, (uint32_t)at);
            au_text_bytes(&names, name, strlen(name) + 1);
        }
        at += HEADER_BYTES + padded(members[n].content.length);
    }
    au_text_bytes(&index, au_text_str(&names), names.length);
    au_text_add(&out, "!<arch>\n");
    member(&out, "/", au_text_str(&index), index.length);
    for (uint32_t n = 0; n < count; n++)
        member(&out, au_format(arena, "%s/", members[n].name), members[n].content.bytes,
               members[n].content.length);
    return (AuBlob){au_text_str(&out), out.length};
}
