/* passes.c - runs the table of passes, the verifier after each. */
#include "pass.h"

#include <string.h>

typedef enum Roles {
    ALL_ROLES,
    SHARED_ROWS,
    LANES_ROWS /* shared ones, of which lanes are known to have parts */
} Roles;

enum { OTHER_BITS, SAME_BITS };

typedef struct Row {
    void (*run)(Pass *p);
    Roles roles;
} Row;

// clang-format off
static const Row rows[] = {
#define PASS(name, function, roles, bits, what) {function, roles},
#include "passes.def"
#undef PASS
};
static const AuPass passes[] = {
#define PASS(name, function, roles, bits, what) {#name, bits, what},
#include "passes.def"
#undef PASS
};
// clang-format on
enum { PASSES = sizeof passes / sizeof *passes };

const AuPass *passes_all(uint32_t *count)
{
    *count = PASSES;
    return passes;
}

void pass_refuse(Pass *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *what = au_vformat(p->arena, format, arguments);
    va_end(arguments);
    if (!p->failed)
        au_error(p->diags, AU_E0810, p->span, "kernel %s for %s: %s", p->kernel->name,
                 p->module->caps->name, what);
    p->failed = true;
}

void pass_push(Pass *p, AuTileStmts *to, AuTileStmt *s)
{
    AU_PUSH(p->arena, to->at, to->count, to->capacity, s);
}

bool pass_is_list_loop(const AuTileStmt *s) { return s->kind == TILE_S_FOR && s->loop.list_name; }

static bool suits(const Pass *p, Roles roles)
{
    if (roles == LANES_ROWS && tile_is_by_place(&p->role->body)) return false;
    return roles == ALL_ROLES || p->shares_rows;
}

static bool run_pass(AuArena *arena, AuDiags *diags, AuTileModule *m, const Row *row)
{
    for (uint32_t k = 0; k < m->kernels.count; k++) {
        Pass p = {.arena = arena, .diags = diags, .module = m, .kernel = m->kernels.at[k]};
        for (uint32_t r = 0; r < p.kernel->roles.count && !p.failed; r++) {
            p.role = p.kernel->roles.at[r];
            p.shares_rows = tile_shares_rows(m, p.role);
            if (suits(&p, row->roles)) row->run(&p);
        }
        if (p.failed) return false;
    }
    return tile_verify(diags, m, TILE_ALL_RULES);
}

AuTileModule *passes_run(AuArena *arena, AuDiags *diags, const AuTileModule *module,
                         const char *last)
{
    AuTileModule *m = tile_copy_module(arena, diags, module);
    if (!m || !tile_verify(diags, m, TILE_ALL_RULES)) return NULL;
    for (uint32_t n = 0; n < PASSES; n++) {
        if (!run_pass(arena, diags, m, &rows[n])) return NULL;
        if (last && strcmp(passes[n].name, last) == 0) break;
    }
    return m;
}
