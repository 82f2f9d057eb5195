/* run.c - the interpreter's launches: blocks of the grid in random order, the agents of a block interleaved at random. The weights
 * of the agents differ by a hundred, so that some schedules starve one; async operations end eagerly, rarely, or only when nobody
 * can go on. */
#include "machine.h"

#include "numeric.h"
#include "random.h"

void *scratch(Machine *m, size_t bytes)
{
    Scratch *s = &m->scratch;
    bytes = (bytes + 63) & ~(size_t)63;
    if (s->used + bytes > s->size) { /* what the old one holds stays valid */
        s->size = 2 * s->size + bytes + (1u << 16);
        s->at = au_alloc(m->arena, s->size);
        s->used = 0;
    }
    s->used += bytes;
    return s->at + s->used - bytes;
}

bool run_error(Agent *a, AuCode code, const AuTileStmt *other, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *message = au_vformat(a->m->diags->arena, format, arguments);
    va_end(arguments);
    const AuSpan nowhere = {0};
    AuDiag *diag = au_error(a->m->diags, code, a->stmt ? a->stmt->span : nowhere, "%s%s%s", a->name,
                            *a->name ? ": " : "", message);
    if (other) au_add_note(a->m->diags, diag, other->span, "the other statement");
    a->m->failed = true;
    return false;
}

/* ---- random numbers */

double random_unit(Machine *m) { return au_uniform(&m->random); }

static uint32_t below(Machine *m, uint32_t n) { return (uint32_t)(au_random(&m->random) % n); }

/* ---- the arguments of a launch */

static AuTileTensor *find_tensor(const AuTileLaunch *launch, const char *name)
{
    for (uint32_t i = 0; i < launch->tensor_count; i++)
        if (strcmp(launch->tensors[i].name, name) == 0) return &launch->tensors[i];
    return NULL;
}

/* Tensors of the launch as memories that live through all kernels. */
typedef struct Storage {
    const AuTileTensor *tensor;
    uint8_t *init;
    int64_t count;
} Storage;

static void store_tensor(AuArena *arena, const AuTileTensor *t, AuTileElem elem, Storage *out)
{
    *out = (Storage){.tensor = t, .count = 1};
    for (uint32_t i = 0; i < t->rank; i++) out->count *= t->shape[i];
    out->init = AU_NEW_ARRAY(arena, uint8_t, out->count);
    memset(out->init, !t->fresh, (size_t)out->count);
    for (int64_t n = 0; t->f32 && n < out->count; n++)
        t->f32[n] = t->fresh ? NAN : round_to(elem, t->f32[n]);
}

static bool bind_arg(Agent *a, const Storage *storage, uint32_t n)
{
    const AuTileMemory *decl = a->m->kernel->args.at[n];
    const AuTileTensor *t = storage->tensor;
    const bool floats = is_floats(&decl->type);
    if (t->rank != decl->type.count || (floats ? !t->f32 : !t->i32))
        return run_error(a, AU_E0714, NULL, "%s has %u axes of %s, the tensor has %u of %s",
                         decl->name, decl->type.count, tile_elem(decl->type.elem)->name, t->rank,
                         t->f32 ? "floats" : "integers");
    Memory *m = new_memory(a->m->arena, decl, 0, t->shape);
    m->f = t->f32;
    m->i = t->i32;
    m->init = storage->init;
    a->m->args[n] = m;
    return true;
}

/* ---- one launched block */

static void make_ring(Machine *m, const AuTilePipe *p, Ring *ring)
{
    const uint32_t n = (uint32_t)p->stage_count;
    *ring = (Ring){.pipe = p, .stages = n};
    ring->producers = tile_pipe_is_alone(p, true) ? 1 : (uint32_t)p->producer->many_value;
    ring->consumers = tile_pipe_is_alone(p, false) ? 1 : (uint32_t)p->consumer->many_value;
    if (p->also) ring->consumers += (uint32_t)p->also->many_value;
    ring->tiles = AU_NEW_ARRAY(m->block, Memory *, p->tiles.count);
    for (uint32_t i = 0; i < p->tiles.count; i++)
        ring->tiles[i] = new_memory(m->block, p->tiles.at[i], n, NULL);
    uint32_t **const counters[] = {&ring->commits, &ring->landing, &ring->filled, &ring->releases,
                                   &ring->freed};
    for (int i = 0; i < 5; i++) *counters[i] = AU_NEW_ARRAY(m->block, uint32_t, n);
    ring->full = AU_NEW_ARRAY(m->block, Clock, n);
    ring->free = AU_NEW_ARRAY(m->block, Clock, n);
    for (uint32_t i = 0; i < n; i++) {
        ring->full[i] = new_clock(m);
        ring->free[i] = new_clock(m);
    }
}

static void make_agents(Machine *m)
{
    const AuTileKernel *k = m->kernel;
    uint32_t n = 0;
    m->agents = AU_NEW_ARRAY(m->block, Agent, m->agent_count);
    for (uint32_t r = 0; r < k->roles.count; r++)
        for (int32_t i = 0; i < k->roles.at[r]->many_value; i++, n++) {
            const AuTileRole *role = k->roles.at[r];
            Agent *a = &m->agents[n];
            *a = (Agent){
                .m = m, .role = role, .index = (uint32_t)i, .number = n, .clock = new_clock(m)};
            a->name =
                role->many_value > 1 ? au_format(m->arena, "%s[%d]", role->name, i) : role->name;
            a->vars = AU_NEW_ARRAY(m->block, Var, role->vars.count);
            a->acquired = AU_NEW_ARRAY(m->block, uint32_t, m->ring_count);
            a->acquired_before = AU_NEW_ARRAY(m->block, uint32_t, m->ring_count);
            a->waited_before = AU_NEW_ARRAY(m->block, uint32_t, m->ring_count);
            a->waited = AU_NEW_ARRAY(m->block, uint32_t, m->ring_count);
            const double weights[] = {0.1, 1, 10};
            a->weight = weights[below(m, 3)];
            tick(a);
        }
}

static void make_block(Machine *m)
{
    const AuTileKernel *k = m->kernel;
    m->agent_count = m->ring_count = m->op_count = 0;
    m->pending.count = m->pending.capacity = 0;
    for (uint32_t i = 0; i < k->roles.count; i++)
        m->agent_count += (uint32_t)k->roles.at[i]->many_value;
    m->shared = AU_NEW_ARRAY(m->block, Memory *, k->shared.count);
    for (uint32_t i = 0; i < k->shared.count; i++)
        m->shared[i] = new_memory(m->block, k->shared.at[i], 0, NULL);
    uint32_t rings = 0, barriers = 0;
    for (uint32_t i = 0; i < k->pipes.count; i++) rings += (uint32_t)k->pipes.at[i]->rings;
    for (uint32_t i = 0; i < k->barriers.count; i++)
        barriers += (uint32_t)k->barriers.at[i]->many_value;
    m->rings = AU_NEW_ARRAY(m->block, Ring, rings);
    for (uint32_t i = 0; i < k->pipes.count; i++)
        for (int32_t n = 0; n < k->pipes.at[i]->rings; n++)
            make_ring(m, k->pipes.at[i], &m->rings[m->ring_count++]);
    m->barriers = AU_NEW_ARRAY(m->block, Barrier, barriers);
    Barrier *b = m->barriers;
    for (uint32_t i = 0; i < k->barriers.count; i++)
        for (int32_t n = 0; n < k->barriers.at[i]->many_value; n++, b++)
            *b = (Barrier){.decl = k->barriers.at[i],
                           .here = AU_NEW_ARRAY(m->block, bool, m->agent_count),
                           .clock = new_clock(m)};
    make_agents(m);
}

/* One of the operations in flight that may end now. */
static bool end_some_op(Machine *m)
{
    uint32_t able = 0;
    for (uint32_t i = 0; i < m->pending.count; i++)
        able += !m->pending.at[i]->before || m->pending.at[i]->before->done;
    uint32_t chosen = below(m, able), n = 0;
    for (;; n++)
        if ((!m->pending.at[n]->before || m->pending.at[n]->before->done) && chosen-- == 0) break;
    AsyncOp *op = m->pending.at[n];
    m->pending.at[n] = m->pending.at[--m->pending.count];
    return finish_op(m, op);
}

static Agent *choose_agent(Machine *m)
{
    double sum = 0;
    for (uint32_t i = 0; i < m->agent_count; i++)
        if (!is_finished(&m->agents[i]) && is_ready(&m->agents[i])) sum += m->agents[i].weight;
    double at = random_unit(m) * sum;
    Agent *last = NULL;
    for (uint32_t i = 0; i < m->agent_count; i++) {
        Agent *a = &m->agents[i];
        if (is_finished(a) || !is_ready(a)) continue;
        last = a;
        at -= a->weight;
        if (at < 0) break;
    }
    return last;
}

static bool all_finished(const Machine *m)
{
    for (uint32_t i = 0; i < m->agent_count; i++)
        if (!is_finished(&m->agents[i])) return false;
    return true;
}

static bool deadlock(Machine *m)
{
    AuDiag *diag = NULL;
    for (uint32_t i = 0; i < m->agent_count; i++) {
        const Agent *a = &m->agents[i];
        if (is_finished(a)) continue;
        AuText text = {.arena = m->diags->arena};
        tile_print_stmt(a->stmt, &text);
        if (!diag)
            diag = au_error(m->diags, AU_E0712, a->stmt->span, "deadlock: %s waits at `%s`",
                            a->name, au_text_str(&text));
        else
            au_add_note(m->diags, diag, a->stmt->span, "%s waits at `%s`", a->name,
                        au_text_str(&text));
    }
    m->failed = true;
    return false;
}

static bool run_block(Machine *m)
{
    make_block(m);
    while (!all_finished(m)) {
        Agent *a = choose_agent(m);
        if (m->pending.count && (!a || random_unit(m) < m->lazy)) {
            if (!end_some_op(m)) return false;
        } else if (!a) {
            return deadlock(m);
        } else if (!step(a)) {
            return false;
        }
    }
    while (m->pending.count) /* e.g. a last release after a product */
        if (!end_some_op(m)) return false;
    return true;
}

/* ---- one kernel */

static bool check_extents(Agent *a)
{
    const AuTileKernel *k = a->m->kernel;
    for (uint32_t i = 0; i < k->args.count; i++)
        for (uint32_t d = 0; k->args.at[i]->mode != TILE_PARAM && d < k->args.at[i]->type.count;
             d++) {
            int64_t size;
            if (!eval_integer(a, k->args.at[i]->type.axes[d].extent, &size)) return false;
            if (size != a->m->args[i]->size[d])
                return run_error(a, AU_E0714, NULL, "axis %s of %s is %lld, the tensor has %lld",
                                 k->args.at[i]->type.axes[d].name, k->args.at[i]->name,
                                 (long long)size, (long long)a->m->args[i]->size[d]);
        }
    return true;
}

static bool grid_size(Agent *a, int64_t *extents, int64_t *blocks)
{
    const AuTileKernel *k = a->m->kernel;
    *blocks = 1;
    for (uint32_t i = 0; i < k->grid.count; i++) {
        if (!eval_integer(a, k->grid.at[i].extent, &extents[i])) return false;
        *blocks *= extents[i] > 0 ? extents[i] : 0;
    }
    return true;
}

static bool make_items(Agent *a, const int64_t *order, uint32_t count, const int64_t *extents)
{
    Machine *m = a->m;
    m->items = AU_NEW_ARRAY(m->arena, Item, count);
    m->item_count = count;
    for (uint32_t n = 0; n < count; n++) {
        int64_t rest = order[n], *block = AU_NEW_ARRAY(m->arena, int64_t, m->kernel->grid.count);
        for (uint32_t i = 0; i < m->kernel->grid.count; i++) {
            block[i] = rest % extents[i];
            rest /= extents[i];
        }
        if (!make_item(a, block, &m->items[n])) return false;
    }
    return true;
}

static bool run_blocks(Agent *a)
{
    Machine *m = a->m;
    int64_t blocks, *extents = AU_NEW_ARRAY(m->arena, int64_t, m->kernel->grid.count);
    if (!grid_size(a, extents, &blocks)) return false;
    int64_t *order = AU_NEW_ARRAY(m->arena, int64_t, blocks);
    for (int64_t n = 0; n < blocks; n++) order[n] = n;
    for (int64_t n = blocks; n > 1; n--) { /* Fisher and Yates */
        const int64_t other = below(m, (uint32_t)n), kept = order[n - 1];
        order[n - 1] = order[other];
        order[other] = kept;
    }
    const int64_t items = m->launch->items ? m->launch->items : 1;
    for (int64_t n = 0; n < blocks && !m->failed; n += items, m->block_number++) {
        const int64_t count = blocks - n < items ? blocks - n : items;
        m->block = au_arena_new(NULL);
        if (!m->block) return false;
        if (make_items(a, order + n, (uint32_t)count, extents)) run_block(m);
        au_arena_free(m->block);
    }
    return !m->failed;
}

static bool run_kernel(Machine *m, const Storage *storage, uint32_t tensors)
{
    static const double laziness[] = {0, 0.05, 0.3, 0.9};
    Item item;
    Agent launch = {.m = m, .name = "", .item = &item};
    m->lazy = laziness[below(m, 4)];
    m->args = AU_NEW_ARRAY(m->arena, Memory *, m->kernel->args.count);
    for (uint32_t i = 0; i < m->kernel->args.count; i++) {
        const AuTileMemory *arg = m->kernel->args.at[i];
        uint32_t n = 0;
        while (n < tensors && strcmp(storage[n].tensor->name, arg->name) != 0) n++;
        if (arg->mode == TILE_PARAM) continue;
        if (n == tensors)
            return run_error(&launch, AU_E0714, NULL, "no tensor is called %s", arg->name);
        if (!bind_arg(&launch, &storage[n], i)) return false;
    }
    return make_item(&launch, NULL, &item) && check_extents(&launch) && run_blocks(&launch);
}

static bool all_written(AuDiags *diags, const AuTileModule *module, const Storage *s)
{
    for (int64_t n = 0; n < s->count; n++) {
        if (s->init[n]) continue;
        int64_t rest = n, step = s->count;
        AuText text = {.arena = diags->arena};
        for (uint32_t d = 0; d < s->tensor->rank; d++) {
            step /= s->tensor->shape[d];
            au_text_add(&text, "%s%lld", d ? ", " : "", (long long)(rest / step));
            rest %= step;
        }
        au_error(diags, AU_E0713, module->kernels.at[0]->span, "%s[%s] was never written",
                 s->tensor->name, au_text_str(&text));
        return false;
    }
    return true;
}

bool tile_run(AuDiags *diags, const AuTileModule *module, const AuTileLaunch *launch)
{
    AuArena *arena = au_arena_new(NULL);
    if (!arena) return false;
    Machine m = {
        .arena = arena, .diags = diags, .module = module, .launch = launch, .random = launch->seed};
    Storage *storage = AU_NEW_ARRAY(arena, Storage, launch->tensor_count);
    uint32_t tensors = 0;
    for (uint32_t k = 0; k < module->kernels.count; k++)
        for (uint32_t i = 0; i < module->kernels.at[k]->args.count; i++) {
            const AuTileMemory *arg = module->kernels.at[k]->args.at[i];
            const AuTileTensor *t = find_tensor(launch, arg->name);
            bool known = !t || arg->mode == TILE_PARAM;
            for (uint32_t n = 0; n < tensors; n++) known |= storage[n].tensor == t;
            if (!known) store_tensor(arena, t, arg->type.elem, &storage[tensors++]);
        }
    bool ok = true;
    for (uint32_t k = 0; k < module->kernels.count && ok; k++) {
        m.kernel = module->kernels.at[k];
        ok = run_kernel(&m, storage, tensors);
    }
    for (uint32_t n = 0; n < tensors && ok; n++)
        ok = storage[n].tensor->workspace || all_written(diags, module, &storage[n]);
    au_arena_free(arena);
    return ok;
}
