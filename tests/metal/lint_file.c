/* lint_file.c - the linter for files, as each version of the language: metal_lint FILE.metal.. */
#include "metal_lint.h"

#include <stdio.h>
#include <stdlib.h>

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t used = 0, room = 1 << 20, got = 0;
    if (!file) return NULL;
    do {
        char *more = realloc(text, room *= 2);
        if (!more) break;
        text = more;
        got = fread(text + used, 1, room - used - 1, file);
        used += got;
    } while (got);
    fclose(file);
    if (text) text[used] = 0;
    return text;
}

int main(int count, char **names)
{
    int bad = 0;
    for (int n = 1; n < count; n++) {
        char why[2000] = "";
        char *text = read_all(names[n]);
        unsigned wrong = text ? 0 : 1;
        for (unsigned version = 300; version <= 320 && !wrong; version += 10)
            wrong = metal_lint(text, version, why, sizeof why);
        if (wrong) printf("%s: %u wrong\n%s", names[n], wrong, text ? why : "it cannot be read\n");
        bad |= wrong != 0;
        free(text);
    }
    return bad || count < 2;
}
