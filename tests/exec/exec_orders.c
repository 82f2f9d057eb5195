/* exec_orders.c - a variant on the interpreters in several orders of blocks and threads. Each begins with the same bytes; the results of the first are
 * those of the run, and all others are the same to the bit. */
#include "internal.h"

#include <string.h>

void exec_be_ordered(ExecSuite *suite, uint32_t orders) { suite->orders = orders; }

static size_t bytes_of(const Tensor *t) { return t->span * exec_bytes_of(t->dtype); }

/* The bytes of what the operation writes. */
static void save(Run *r, unsigned char **to)
{
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        const Tensor *t = &r->tensors[n];
        if (!t->output || t->absent) continue;
        if (!to[n]) to[n] = AU_NEW_ARRAY(r->arena, unsigned char, bytes_of(t) + 1);
        memcpy(to[n], t->bytes, bytes_of(t));
    }
}

static void restore(Run *r, unsigned char *const *from)
{
    for (uint32_t n = 0; n < r->tensor_count; n++)
        if (from[n]) memcpy(r->tensors[n].bytes, from[n], bytes_of(&r->tensors[n]));
}

static bool are_same(Run *r, unsigned char *const *first)
{
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        const Tensor *t = &r->tensors[n];
        if (!first[n] || memcmp(t->bytes, first[n], bytes_of(t)) == 0) continue;
        return exec_fail(r, t->name,
                         au_format(r->arena, "other bits in order %u", r->suite->order));
    }
    return true;
}

/* What a run needs beside the results goes with it. */
static bool run_again(Run *r, const struct AuVariant *v)
{
    AuArena *arena = r->arena;
    r->arena = au_arena_new(NULL);
    const bool good = exec_run_once(r, v);
    au_arena_free(r->arena);
    r->arena = arena;
    return good;
}

bool exec_run_variant(Run *r, const struct AuVariant *v)
{
    ExecSuite *suite = r->suite;
    unsigned char *before[MOST_TENSORS] = {NULL}, *first[MOST_TENSORS] = {NULL};
    if (suite->orders) save(r, before);
    bool good = exec_run_once(r, v);
    if (good && suite->orders) save(r, first);
    for (suite->order = 1; good && suite->order < suite->orders; suite->order++) {
        restore(r, before);
        good = run_again(r, v) && are_same(r, first);
    }
    suite->order = 0;
    return good;
}
