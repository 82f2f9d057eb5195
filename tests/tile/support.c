/* support.c - see support.h. EXAMPLES is the folder, from the build. */
#include "support.h"

#include <stdio.h>

const char *const example_names[EXAMPLE_COUNT + 1] = {"mma_sync_forward.tile",
                                                      "hopper_forward.tile",
                                                      "blackwell_forward.tile",
                                                      "mfma_forward.tile",
                                                      "wmma_forward.tile",
                                                      "wmma11_forward.tile",
                                                      "coopmat_forward.tile",
                                                      "cpu_forward.tile",
                                                      "documents.tile",
                                                      "decode.tile",
                                                      "linear_forward.tile",
                                                      "hopper_backward.tile",
                                                      "simt_forward.tile",
                                                      "vector_forward.tile",
                                                      "dot2_forward.tile",
                                                      "mma_sync_backward.tile",
                                                      NULL};

const char *example_text(AuArena *arena, const char *name)
{
    const char *path = au_format(arena, "%s/%s", EXAMPLES, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot read %s", path);
    AuText text = {.arena = arena};
    char bytes[4096];
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;) au_text_bytes(&text, bytes, n);
    fclose(file);
    return au_text_str(&text);
}

Session session_begin(void)
{
    Session s = {.arena = au_arena_new(NULL)};
    assert_non_null(s.arena);
    s.diags = au_diags_new(s.arena);
    return s;
}

void session_end(Session *s) { au_arena_free(s->arena); }

const char *session_errors(const Session *s)
{
    AuText text = {.arena = s->arena};
    au_diags_render(s->diags, &text);
    return au_text_str(&text);
}

AuTileModule *read_text(Session *s, const char *name, const char *text)
{
    return tile_read(s->arena, s->diags, au_source_add(s->diags, name, text, strlen(text)));
}

const char *replaced(AuArena *arena, const char *text, const char *old, const char *with)
{
    AuText out = {.arena = arena};
    const char *at = strstr(text, old);
    if (!at) fail_msg("the text does not contain `%s`", old);
    for (; at; text = at + strlen(old), at = strstr(text, old)) {
        au_text_bytes(&out, text, (size_t)(at - text));
        au_text_add(&out, "%s", with);
    }
    au_text_add(&out, "%s", text);
    return au_text_str(&out);
}

int64_t extent_value(const AuTileExpr *e, int64_t (*size)(const void *user, const char *name),
                     const void *user)
{
    int64_t a[3] = {0}, value = -1;
    for (uint32_t n = 0; n < e->args.count && n < 3; n++)
        a[n] = extent_value(e->args.at[n], size, user);
    switch ((int)e->op) {
    case TILE_X_INT: return e->integer;
    case TILE_X_ADD: return a[0] + a[1];
    case TILE_X_SUB: return a[0] - a[1];
    case TILE_X_MUL: return a[0] * a[1];
    case TILE_X_DIV: return a[0] / a[1];
    case TILE_X_CDIV: return (a[0] + a[1] - 1) / a[1];
    case TILE_X_MIN: return a[0] < a[1] ? a[0] : a[1];
    case TILE_X_MAX: return a[0] > a[1] ? a[0] : a[1];
    case TILE_X_NAME: value = size(user, e->name); break;
    }
    if (value < 0) fail_msg("an extent is made of more than sizes that the test knows");
    return value;
}
