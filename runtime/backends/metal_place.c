/* metal_place.c - which kernel, and with `aulec --lines` which line of the script, what Metal's compiler complains of is in. */
#include "metal.h"

#include <stdio.h>

static const char file_name[] =
    "program_source:"; /* what Apple calls the text, "program_source:12:5: error: .." */

/* The line of the first error, else of the first word about any; 0: it names none. */
static unsigned error_line(const char *log)
{
    unsigned first = 0;
    for (const char *at = log; (at = strstr(at, file_name)) != NULL; at++) {
        unsigned line = 0;
        int end = 0;
        sscanf(at + sizeof file_name - 1, "%u:%*u: error%n", &line, &end);
        if (end) return line;
        if (!first) first = line;
    }
    return first;
}

/* Is it a comment with a line of the script, "// x.attn:12" (codegen/c/lines.c), and nothing else? */
static bool is_place(const char *line, size_t length)
{
    const char *colon = memchr(line, ':', length);
    if (length < 4 || memcmp(line, "// ", 3) != 0 || !colon) return false;
    const size_t from = (size_t)(colon + 1 - line), digits = strspn(colon + 1, "0123456789");
    return digits && from + digits == length && !memchr(line + 3, ' ', length - 3);
}

void rt_metal_place(const char *text, const char *log, AuText *said)
{
    static const char word[] = "kernel void ";
    const char *kernel = NULL, *place = NULL;
    for (unsigned left = error_line(log); left && *text; left--) {
        const char *line = text + strspn(text, " ");
        const size_t length = strcspn(line, "\n");
        const char *found = strstr(line, word);
        if (found && found < line + length) kernel = found + sizeof word - 1, place = NULL;
        if (is_place(line, length)) place = line + 3;
        text = line + length + (line[length] == '\n');
    }
    if (kernel) rt_text_add(said, ", in %.*s", (int)strcspn(kernel, "( \n"), kernel);
    if (place) rt_text_add(said, ", of %.*s", (int)strcspn(place, "\n"), place);
}
