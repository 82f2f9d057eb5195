/* exec_kernels.c - kernels of a variant on the interpreter of the kernel IR; and, where the case has the word `work`, as calls that are given lists of
 * work run them: lists made by themselves, others than the call's between them, numbers that no list has. */
#include "internal.h"

#include "driver.h"
#include "kernel_run.h"
#include "work.h"

#include <string.h>

int64_t exec_evaluate(Run *r, AuLaunchExpr e)
{
    const aule_expr expr = {e.code, e.length};
    aule_value params[MOST_SIZES] = {{0}}, value = {0};
    for (uint32_t n = 0; n < r->attn->param_count; n++)
        params[n] = (aule_value){.type = r->attn->params[n].dtype == AU_DT_F32 ? AULE_VALUE_FLOAT
                                                                               : AULE_VALUE_INT,
                                 .i = r->params_i64[n],
                                 .f = r->params[n]};
    if (aule_evaluate(&expr, r->sizes, r->attn->size_count, params, r->attn->param_count, &value,
                      NULL))
        exec_fail(r, "launch expression", "");
    return value.i;
}

/* Blocks that stay: fewer than there is work for, so that each has several of the grid's. */
static void limit_blocks(const AuKernel *k, AuKRun *run)
{
    enum { PROCESSORS = 2 };
    bool stays = false;
    for (uint32_t n = 1; n < k->instr_count; n++) stays |= k->instrs[n].op == AU_K_BLOCKS;
    if (stays && run->grid[0] > PROCESSORS) run->grid[0] = PROCESSORS;
}

static uint64_t slot_value(Run *r, const AuArg *a)
{
    uint64_t bits = 0;
    const float f = (float)r->params[a->source_index < MOST_SIZES ? a->source_index : 0];
    switch (a->source) {
    case AULE_SLOT_STRIDE: return (uint64_t)r->tensors[a->source_index].strides[a->source_dim];
    case AULE_SLOT_SIZE: return (uint64_t)r->sizes[a->source_index];
    case AULE_SLOT_PRESENT: return !r->tensors[a->source_index].absent;
    case AULE_SLOT_PARAM:
        if (a->kind == AU_ARG_F32)
            memcpy(&bits, &f, sizeof f);
        else
            bits = (uint64_t)r->params_i64[a->source_index];
        return bits;
    default: return 0;
    }
}

/* As the launch does: sizes as the map says, strides of the tensor; regions of the workspace are contiguous. */
static const AuKMap *maps_of(Run *r, const AuKernel *k)
{
    AuKMap *maps = AU_NEW_ARRAY(r->arena, AuKMap, k->map_count + 1);
    for (uint32_t n = 0; n < k->map_count; n++) {
        const AuMap *map = &k->maps[n];
        const AuArg *arg = &k->args[k->mems[map->mem.i].arg];
        int64_t step = 1;
        for (uint32_t d = 0; d < map->rank; d++) {
            maps[n].size[d] = exec_evaluate(r, map->size[d]);
            maps[n].stride[d] = arg->source == AULE_SLOT_TENSOR
                                    ? r->tensors[arg->source_index].strides[map->rank - 1 - d]
                                    : step;
            step *= maps[n].size[d];
        }
    }
    return maps;
}

/* The workspace of a call. */
typedef struct Regions {
    void *at[AULE_MAX_REGIONS];
    int64_t bytes[AULE_MAX_REGIONS];
    bool filled[AULE_MAX_REGIONS];
} Regions;

typedef enum Launches { ALL, LISTS, OTHERS } Launches;

static Regions *new_regions(Run *r, const AuVariant *v)
{
    Regions *w = AU_NEW(r->arena, Regions);
    for (uint32_t n = 0; n < v->schedule->region_count; n++) {
        w->bytes[n] = exec_evaluate(r, v->workspace[n]);
        w->at[n] = au_alloc(r->arena, (size_t)w->bytes[n] + 16);
        w->filled[n] = v->schedule->zeroed[n];
    }
    return w;
}

static AuKBuffer buffer_of(const Run *r, const AuArg *arg, uint32_t size, const Regions *w)
{
    if (arg->source == AULE_SLOT_TENSOR) {
        const Tensor *t = &r->tensors[arg->source_index];
        return (AuKBuffer){.data = t->bytes, .count = t->span, .initialised = true};
    }
    return (AuKBuffer){.data = w->at[arg->source_index],
                       .count = (uint64_t)w->bytes[arg->source_index] / size,
                       .initialised = w->filled[arg->source_index]};
}

/* [wild]: of memory bounds alone are looked at, since lists may say that two blocks have one part. */
static bool run_kernel(Run *r, const AuVariant *v, const AuKernel *k, const Regions *w,
                       uint64_t seed, bool wild)
{
    uint64_t *slots = AU_NEW_ARRAY(r->arena, uint64_t, k->arg_count + 1);
    AuKBuffer *buffers = AU_NEW_ARRAY(r->arena, AuKBuffer, k->arg_count + 1);
    for (uint32_t a = 0; a < k->arg_count; a++) {
        const AuArg *arg = &k->args[a];
        slots[a] = slot_value(r, arg);
        if (arg->kind != AU_ARG_POINTER) continue;
        buffers[a] = buffer_of(r, arg, kernel_scalar_bytes(k->mems[arg->mem.i].scalar), w);
    }
    AuKRun run = {.slots = slots,
                  .buffers = buffers,
                  .maps = maps_of(r, k),
                  .seed = seed,
                  .bounds_alone = wild,
                  .lockstep = v->target->format == AULE_CODE_HOST};
    for (uint32_t d = 0; d < 3; d++) run.grid[d] = (uint32_t)exec_evaluate(r, k->grid[d]);
    limit_blocks(k, &run);
    const char *why = NULL;
    return kernel_run(k, &run, r->arena, &why) || exec_fail(r, k->name, why);
}

static bool run_launches(Run *r, const AuVariant *v, Regions *w, Launches which, bool wild)
{
    for (uint32_t n = 0; n < v->kernel_count; n++) {
        const bool lists = work_makes(v, v->kernels[n]);
        if (which != ALL && lists != (which == LISTS)) continue;
        const uint64_t seed = n + 1 + (uint64_t)r->suite->order * AULE_MAX_LAUNCHES;
        if (!run_kernel(r, v, v->kernels[n], w, seed, wild)) return false;
        for (uint32_t i = 0; i < AULE_MAX_REGIONS; i++)
            w->filled[i] = true; /* index lists are written as far as their counts say */
    }
    return true;
}

bool exec_run_kernels(Run *r, const AuVariant *v)
{
    return run_launches(r, v, new_regions(r, v), ALL, false);
}

/* ---- lists of work that are given */

/* The lists of one call are those of another: the rest of its workspace is new. */
static Regions *with_lists(Run *r, const AuVariant *v, const Regions *lists)
{
    Regions *w = new_regions(r, v);
    for (uint32_t n = 0; n < v->schedule->region_count; n++) {
        if (!v->schedule->work[n]) continue;
        memcpy(w->at[n], lists->at[n], (size_t)w->bytes[n]);
        w->filled[n] = true;
    }
    return w;
}

static unsigned char *copied(Run *r, const Tensor *t)
{
    const size_t bytes = t->span * exec_bytes_of(t->dtype);
    return memcpy(AU_NEW_ARRAY(r->arena, unsigned char, bytes + 16), t->bytes, bytes);
}

/* Elements of a tensor in another order: a layer's own. */
static void turn_round(Tensor *t)
{
    const size_t size = exec_bytes_of(t->dtype);
    unsigned char kept[8];
    for (size_t n = 0; n < t->elements / 2; n++) {
        unsigned char *a = t->bytes + exec_memory_index(t, n) * size,
                      *b = t->bytes + exec_memory_index(t, t->elements - 1 - n) * size;
        memcpy(kept, a, size), memcpy(a, b, size), memcpy(b, kept, size);
    }
}

static bool are_same(Run *r, const Tensor *t, const unsigned char *other)
{
    const size_t size = exec_bytes_of(t->dtype);
    for (size_t n = 0; n < t->elements; n++) {
        const size_t at = exec_memory_index(t, n) * size;
        if (memcmp(t->bytes + at, other + at, size))
            return exec_fail(
                r, t->name,
                au_format(r->arena, "element %zu is another by lists that were given", n));
    }
    return true;
}

/* Another layer by the lists of the first, to the bit as by its own. */
static bool run_layer(Run *r, const AuVariant *v, const Regions *lists)
{
    Tensor *q = &r->tensors[0];
    unsigned char *before = copied(r, q), *by_own[MOST_TENSORS] = {NULL},
                  *kept[MOST_TENSORS] = {NULL};
    for (uint32_t n = 0; n < r->tensor_count; n++)
        if (r->tensors[n].output) kept[n] = copied(r, &r->tensors[n]);
    turn_round(q);
    bool good = exec_run_kernels(r, v);
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        if (!kept[n]) continue;
        by_own[n] = copied(r, &r->tensors[n]);
        memset(r->tensors[n].bytes, 0x7b, r->tensors[n].span * exec_bytes_of(r->tensors[n].dtype));
    }
    good = good && run_launches(r, v, with_lists(r, v, lists), OTHERS, false);
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        if (!kept[n]) continue;
        good = good && are_same(r, &r->tensors[n], by_own[n]);
        memcpy(r->tensors[n].bytes, kept[n],
               r->tensors[n].span * exec_bytes_of(r->tensors[n].dtype));
    }
    memcpy(q->bytes, before, q->span * exec_bytes_of(q->dtype));
    return good;
}

/* Numbers that no list has, any, and such as were there: no address is outside, and no loop goes on. */
static bool run_wild(Run *r, const AuVariant *v, const Regions *lists)
{
    static const int32_t odd[] = {0,       1,         -1,        2,   3,
                                  1 << 30, INT32_MAX, INT32_MIN, 128, INT32_MAX / 8};
    enum { ODD = sizeof odd / sizeof *odd };
    uint64_t random = r->random;
    Regions *w = with_lists(r, v, lists);
    for (uint32_t i = 0; i < v->schedule->region_count; i++) {
        int32_t *list = w->at[i];
        for (int64_t e = 0; v->schedule->work[i] && e < w->bytes[i] / 4; e++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            if (random >> 62 == 1) list[e] = (int32_t)(random >> 20);
            if (random >> 62 > 1) list[e] = odd[(random >> 33) % ODD];
        }
        w->filled[i] = true;
    }
    return run_launches(r, v, w, OTHERS, true);
}

/* The region of that name; NULL: the schedule has none. */
static const int32_t *region_of(const AuVariant *v, const Regions *w, const char *name,
                                int64_t *elements)
{
    for (uint32_t n = 0; n < v->schedule->region_count; n++) {
        if (strcmp(v->schedule->regions[n], name) != 0) continue;
        *elements = w->bytes[n] / 4;
        return w->at[n];
    }
    return NULL;
}

static bool are_shares_right(Run *r, const AuVariant *v, const Regions *lists)
{
    int64_t room = 0, ends = 0;
    const int32_t *of = region_of(v, lists, "share_of", &room),
                  *at = region_of(v, lists, "share_at", &ends);
    return !of || !at || exec_shares_are_right(r, v, of, room / 2, at);
}

bool exec_given_work(Run *r, const AuVariant *v)
{
    if (!exec_has(r, "work") || strncmp(r->suite->name, "kernel", 6) != 0) return true;
    Regions *lists = new_regions(r, v);
    bool has = false;
    for (uint32_t n = 0; n < v->schedule->region_count; n++) has |= v->schedule->work[n];
    if (!has) return !strstr(r->suite->name, ":sm_") || exec_fail(r, "work", "no lists");
    if (!run_launches(r, v, lists, LISTS, false) || !are_shares_right(r, v, lists) ||
        !run_layer(r, v, lists))
        return false;
    Tensor outputs[MOST_TENSORS];
    memcpy(outputs, r->tensors, sizeof outputs);
    for (uint32_t n = 0; n < r->tensor_count; n++)
        if (r->tensors[n].output) r->tensors[n].bytes = copied(r, &r->tensors[n]);
    const bool good = run_wild(r, v, lists);
    memcpy(r->tensors, outputs, sizeof outputs);
    return good;
}
