/* lowered.c - see lowered.h. */
#include "lowered.h"

#include "codes.h"

#include "lower.h"
#include "passes.h"

#include "aule/artifact.h"
#include "random.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { MOST = 16, MOST_SIZES = 16 };

typedef struct Tensor {
    const AuTileMemory *memory;
    int64_t shape[TILE_MAX_AXES], strides[TILE_MAX_AXES];
    size_t elements, span;
    float *f32;
    int32_t *i32;
    unsigned char *bytes; /* the kernel's */
    unsigned char *given; /* ... before it runs */
    int32_t words;        /* packed: a lane's neighbours */
} Tensor;

typedef struct Both {
    Session *s;
    const Lowered *t;
    AuTileModule *module;
    Tensor tensors[MOST];
    uint32_t count;
    uint64_t random;
    LoweredVisit visit;
    void *user;
} Both;

static int64_t size_named(const void *user, const char *name)
{
    const Lowered *t = user;
    for (const Size *s = t->sizes; s && s->name; s++)
        if (strcmp(s->name, name) == 0) return s->value;
    return -1;
}

AuTileModule *lowered_module(Session *s, const Lowered *t)
{
    AuTileModule *hooks[4];
    uint32_t count = 0;
    for (; count < 4 && t->hooks[count]; count++) {
        const char *text = strstr(t->hooks[count], "fn ") ? t->hooks[count]
                                                          : example_text(s->arena, t->hooks[count]);
        hooks[count] = read_text(s, "hooks", text);
        if (!hooks[count]) fail_msg("%s", session_errors(s));
    }
    AuTileModule *m = read_text(s, t->file, t->text ? t->text : example_text(s->arena, t->file));
    const AuTileExpansion expansion = {.hooks = (const AuTileModule *const *)hooks,
                                       .hook_count = count,
                                       .consts = t->consts,
                                       .const_count = t->const_count};
    if (m && t->split) m->options.split = 1;
    if (m && t->processors) m->options.persistent = 1;
    if (m && t->swizzle_span) m->options.swizzle_span = t->swizzle_span;
    AuTileModule *out = m ? tile_expand(s->arena, s->diags, m, &expansion) : NULL;
    if (!out || !tile_verify(s->diags, out, TILE_ALL_RULES)) fail_msg("%s", session_errors(s));
    out = passes_run(s->arena, s->diags, out, NULL);
    if (!out) fail_msg("%s", session_errors(s));
    /* The text determines the kernel: what is lowered is what it says. */
    AuText text = {.arena = s->arena};
    tile_print(out, &text);
    out = read_text(s, "passed", au_text_str(&text));
    if (out) out = tile_expand(s->arena, s->diags, out, NULL);
    if (!out || !tile_verify(s->diags, out, TILE_ALL_RULES)) fail_msg("%s", session_errors(s));
    return out;
}

static uint32_t tensor_number(const AuTileModule *m, const char *name)
{
    uint32_t number = 0;
    for (uint32_t k = 0; k < m->kernels.count; k++)
        for (uint32_t a = 0; a < m->kernels.at[k]->args.count; a++, number++)
            if (m->kernels.at[k]->args.at[a]->name == name) return number;
    return number;
}

AuKernel *lowered_try(Session *s, const Lowered *t, AuTileModule *m, uint32_t which)
{
    const AuTileKernel *tile = m->kernels.at[which];
    AuLowerTensor tensors[MOST];
    AuLowerScalar scalars[MOST_SIZES];
    AuLowering how = {.tensors = tensors, .scalars = scalars};
    for (uint32_t n = 0; n < tile->args.count; n++)
        if (tile->args.at[n]->mode != TILE_PARAM)
            tensors[how.tensor_count++] =
                (AuLowerTensor){tile->args.at[n]->name, AULE_SLOT_TENSOR,
                                tensor_number(m, tile->args.at[n]->name), false};
    for (uint32_t n = 0; t->sizes && t->sizes[n].name; n++)
        scalars[how.scalar_count++] = (AuLowerScalar){
            .name = au_name(m->names, t->sizes[n].name), .slot = AULE_SLOT_SIZE, .index = n};
    return lower_kernel(s->arena, s->diags, m, tile, &how);
}

AuKernel *lowered_kernel(Session *s, const Lowered *t, AuTileModule *m, uint32_t which)
{
    AuKernel *k = lowered_try(s, t, m, which);
    if (k) kernel_simplify(k);
    if (k && kernel_verify(k, s->diags)) return k;
    AuText text = {.arena = s->arena};
    if (k && getenv("AULE_TEST_PRINT")) kernel_print(k, &text), fputs(au_text_str(&text), stderr);
    fail_msg("%s: %s", t->file, session_errors(s));
    return NULL;
}

/* ---- inputs */

static uint32_t element_bytes(AuTileElem e) { return tile_elem(e)->bytes; }

/* Of the last two axes of a tensor packed as m16n8 products hold their sums: pieces of 16 x 8; in one, for lane after lane, the
 * first [words] of its four numbers, which are two neighbours of row r and two of row r + 8. */
static size_t packed_index(const Tensor *t, size_t row, size_t column, size_t words)
{
    const size_t across = (size_t)t->shape[t->memory->type.count - 1] / 8;
    const size_t lane = row % 8 * 4 + column % 8 / 2, number = row % 16 / 8 * 2 + column % 2;
    return (row / 16 * across + column / 8) * 128 + number / words * 32 * words + lane * words +
           number % words;
}

static size_t memory_index(const Tensor *t, size_t n)
{
    size_t at = 0;
    if (t->memory->packed.kind) {
        const size_t columns = (size_t)t->shape[t->memory->type.count - 1],
                     size = columns * (size_t)t->shape[t->memory->type.count - 2];
        at = packed_index(t, n % size / columns, n % columns, (size_t)t->words);
        return at + n / size * size;
    }
    for (uint32_t d = t->memory->type.count; d-- > 0;) {
        at += n % (size_t)t->shape[d] * (size_t)t->strides[d];
        n /= (size_t)t->shape[d];
    }
    return at;
}

static void put(const Tensor *t, size_t n)
{
    const AuTileElem elem = t->memory->type.elem;
    unsigned char *at = t->bytes + memory_index(t, n) * element_bytes(elem);
    uint16_t half;
    switch (elem) {
    case TILE_F32: memcpy(at, &t->f32[n], 4); return;
    case TILE_I32: memcpy(at, &t->i32[n], 4); return;
    case TILE_F16: half = kernel_to_f16(t->f32[n]), memcpy(at, &half, 2); return;
    case TILE_BF16: half = kernel_to_bf16(t->f32[n]), memcpy(at, &half, 2); return;
    case TILE_BOOL:
    case TILE_I64:
    case TILE_U8: fail_msg("a tensor of a type that this test has not"); return;
    case TILE_E4M3:
    case TILE_E5M2:
    case TILE_I8: *at = machine_encode(elem, t->f32[n]); return;
    }
}

static double get(const Tensor *t, size_t n)
{
    const AuTileElem elem = t->memory->type.elem;
    const unsigned char *at = t->bytes + memory_index(t, n) * element_bytes(elem);
    uint16_t half;
    float f = 0;
    if (tile_elem(elem)->is_code) return (double)machine_decode(elem, *at);
    memcpy(&half, at, 2);
    if (elem == TILE_F16) return (double)kernel_from_f16(half);
    if (elem == TILE_BF16) return (double)kernel_from_bf16(half);
    memcpy(&f, at, 4);
    return (double)f;
}

static void add_tensor(Both *b, const AuTileMemory *m)
{
    for (uint32_t n = 0; n < b->count; n++)
        if (b->tensors[n].memory->name == m->name) return;
    Tensor *t = &b->tensors[b->count++];
    *t = (Tensor){.memory = m, .elements = 1, .words = b->module->caps->sum_words};
    const bool odd = b->t->odd && !m->packed.kind;
    int64_t step = odd ? 2 : 1;
    for (uint32_t d = m->type.count; d-- > 0;) {
        t->shape[d] = extent_value(m->type.axes[d].extent, size_named, b->t);
        t->strides[d] = step;
        step = (step * t->shape[d]) + (odd ? 3 : 0);
        t->elements *= (size_t)t->shape[d];
    }
    t->span = (size_t)step;
    t->f32 = AU_NEW_ARRAY(b->s->arena, float, t->elements + 1);
    t->i32 = AU_NEW_ARRAY(b->s->arena, int32_t, t->elements + 1);
    t->bytes = au_alloc(b->s->arena, t->span * 4 + 16);
    for (size_t n = 0; n < t->elements && m->mode != TILE_OUT; n++) {
        const double u = au_uniform(&b->random) + 1e-12, v = au_uniform(&b->random);
        if (m->mode == TILE_IN) t->f32[n] = (float)(sqrt(-2 * log(u)) * cos(6.283185307 * v));
        t->i32[n] = (int32_t)((b->t->integers ? b->t->integers : 3) * v);
    }
}

static void run_tiles(Both *b)
{
    AuTileTensor tensors[MOST];
    AuTileLaunch launch = {.tensors = tensors, .tensor_count = b->count, .seed = 3};
    for (uint32_t n = 0; n < b->count; n++) {
        const Tensor *t = &b->tensors[n];
        const bool whole = t->memory->type.elem == TILE_I32;
        tensors[n] = (AuTileTensor){.name = t->memory->name,
                                    .rank = t->memory->type.count,
                                    .f32 = whole ? NULL : t->f32,
                                    .i32 = whole ? t->i32 : NULL,
                                    .fresh = t->memory->mode == TILE_OUT};
        for (uint32_t d = 0; d < tensors[n].rank; d++) tensors[n].shape[d] = t->shape[d];
    }
    if (!tile_run(b->s->diags, b->module, &launch))
        fail_msg("%s: %s", b->t->file, session_errors(b->s));
}

static const Tensor *tensor_of(const Both *b, const char *name)
{
    for (uint32_t n = 0; n < b->count; n++)
        if (b->tensors[n].memory->name == name) return &b->tensors[n];
    return NULL;
}

static const Tensor *tensor_by_number(const Both *b, uint32_t number)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < b->module->kernels.count; k++)
        for (uint32_t a = 0; a < b->module->kernels.at[k]->args.count; a++)
            if (n++ == number) return tensor_of(b, b->module->kernels.at[k]->args.at[a]->name);
    return NULL;
}

/* As the launch does: a map has the tensor's axes, the last first. */
static const AuKMap *maps_of(const Both *b, AuArena *scratch, const AuKernel *k)
{
    AuKMap *maps = AU_NEW_ARRAY(scratch, AuKMap, k->map_count + 1);
    for (uint32_t n = 0; n < k->map_count; n++) {
        const AuMap *map = &k->maps[n];
        const Tensor *t = tensor_by_number(b, k->args[k->mems[map->mem.i].arg].source_index);
        for (uint32_t d = 0; d < map->rank; d++) {
            maps[n].size[d] = t->shape[map->rank - 1 - d];
            maps[n].stride[d] = t->strides[map->rank - 1 - d];
        }
    }
    return maps;
}

/* NULL: it ran; else what the interpreter found. */
static const char *run_kernel(const Both *b, AuArena *scratch, const AuKernel *k, uint32_t which,
                              uint64_t seed, bool *written)
{
    const AuTileKernel *tile = b->module->kernels.at[which];
    uint64_t slots[64] = {0};
    AuKBuffer buffers[64] = {{0}};
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const AuArg *a = &k->args[n];
        if (a->source == AULE_SLOT_SIZE) {
            slots[n] = (uint64_t)b->t->sizes[a->source_index].value;
            continue;
        }
        const Tensor *t = tensor_by_number(b, a->source_index);
        if (a->source == AULE_SLOT_STRIDE) slots[n] = (uint64_t)t->strides[a->source_dim];
        if (a->kind != AU_ARG_POINTER) continue;
        buffers[n] = (AuKBuffer){t->bytes, t->span, written[t - b->tensors]};
        if (k->mems[a->mem.i].writes) written[t - b->tensors] = true;
    }
    AuKRun run = {.slots = slots,
                  .buffers = buffers,
                  .maps = maps_of(b, scratch, k),
                  .grid = {1, 1, 1},
                  .seed = seed,
                  .lockstep = b->t->of_core,
                  .check_all_written = !b->t->odd};
    for (uint32_t d = 0; d < tile->grid.count; d++)
        run.grid[d] = (uint32_t)extent_value(tile->grid.at[d].extent, size_named, b->t);
    if (b->t->processors && tile->pipes.count) {
        const uint32_t blocks = run.grid[0] * run.grid[1] * run.grid[2];
        run.grid[0] = blocks < b->t->processors ? blocks : b->t->processors;
        run.grid[1] = run.grid[2] = 1;
    }
    const char *why = NULL;
    if (b->visit) b->visit(k, &run, b->user);
    return kernel_run(k, &run, scratch, &why) ? NULL : why;
}

/* NULL: the two agree. */
static const char *difference(const Both *b, AuArena *scratch)
{
    for (uint32_t n = 0; n < b->count; n++) {
        const Tensor *t = &b->tensors[n];
        if (t->memory->mode == TILE_IN) continue;
        double largest = 0, worst = 0;
        size_t at = 0;
        for (size_t i = 0; i < t->elements; i++) {
            const double want = (double)t->f32[i], have = get(t, i);
            const double error = isinf(want) && have == want ? 0 : fabs(want - have);
            if (isfinite(want) && fabs(want) > largest) largest = fabs(want);
            if (!(error <= worst)) worst = error, at = i;
        }
        const double bound = (b->t->tolerance > 0 ? b->t->tolerance : 0x1p-8) * largest + 1e-6;
        if (!(worst <= bound))
            return au_format(scratch, "wrong: %s[%zu] is %g, not %g", t->memory->name, at,
                             get(t, at), (double)t->f32[at]);
    }
    return NULL;
}

struct LoweredBench {
    Both b;
    AuKernel *kernels[MOST];
};

LoweredBench *lowered_bench(Session *s, const Lowered *t)
{
    LoweredBench *bench = AU_NEW(s->arena, LoweredBench);
    Both *b = &bench->b;
    *b = (Both){.s = s, .t = t, .random = 1};
    b->module = lowered_module(s, t);
    for (uint32_t k = 0; k < b->module->kernels.count; k++) {
        for (uint32_t a = 0; a < b->module->kernels.at[k]->args.count; a++)
            if (b->module->kernels.at[k]->args.at[a]->mode != TILE_PARAM)
                add_tensor(b, b->module->kernels.at[k]->args.at[a]);
        bench->kernels[k] = lowered_kernel(s, t, b->module, k);
    }
    for (uint32_t n = 0; n < b->count; n++) {
        Tensor *tensor = &b->tensors[n];
        for (size_t i = 0; i < tensor->elements; i++) put(tensor, i);
        tensor->given = AU_NEW_ARRAY(s->arena, unsigned char, tensor->span * 4 + 16);
        memcpy(tensor->given, tensor->bytes, tensor->span * 4 + 16);
    }
    run_tiles(b);
    return bench;
}

AuKernel *lowered_bench_kernel(const LoweredBench *bench, uint32_t which)
{
    return bench->kernels[which];
}

const char *lowered_run(const LoweredBench *bench, AuArena *scratch, const AuKernel *instead,
                        uint64_t seed)
{
    const Both *b = &bench->b;
    bool written[MOST] = {false};
    const char *why = NULL;
    for (uint32_t n = 0; n < b->count; n++) {
        const Tensor *t = &b->tensors[n];
        written[n] = t->memory->mode != TILE_OUT;
        memcpy(t->bytes, t->given, t->span * 4 + 16);
    }
    for (uint32_t k = 0; k < b->module->kernels.count && !why; k++) {
        const AuKernel *own = bench->kernels[k];
        const bool other = instead && strcmp(instead->name, own->name) == 0;
        why = run_kernel(b, scratch, other ? instead : own, k, seed, written);
    }
    return why ? why : difference(b, scratch);
}

void lowered_check(Session *s, const Lowered *t)
{
    const LoweredBench *bench = lowered_bench(s, t);
    AuText text = {.arena = s->arena};
    for (uint32_t k = 0; getenv("AULE_TEST_PRINT") && k < bench->b.module->kernels.count; k++)
        kernel_print(bench->kernels[k], &text), fputs(au_text_str(&text), stderr);
    const char *why = lowered_run(bench, s->arena, NULL, t->seed);
    if (why) fail_msg("%s: %s", t->file, why);
}

void lowered_visit(Session *s, const Lowered *t, LoweredVisit visit, void *user)
{
    LoweredBench *bench = lowered_bench(s, t);
    bench->b.visit = visit;
    bench->b.user = user;
    const char *why = lowered_run(bench, s->arena, NULL, t->seed);
    if (why) fail_msg("%s: %s", t->file, why);
}
