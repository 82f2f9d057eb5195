/* vulkan_record.c - runs of plans. A plan has a few turns, each a command buffer that was written once and a block of memory that the host
 * sees, with the parameter blocks of its launches behind each other: a run takes the next turn whose run before is done, fills the blocks
 * and submits, which is all. Only where new parameters change a grid or what is cleared are the commands written again. A run waits where
 * all turns are still on the queue.
 *
 * Between launches there is a barrier where they touch the same memory and one of them writes it: tensors and regions of the workspace, as
 * slots say what kernels do with them. Where they do not, in artifacts before 1.17, tensors are written or read by their role in the
 * operation, and regions may be written by anybody. Tensors that are written overlap nothing. */
#include "vulkan.h"

#include <stdio.h>

#include "../descriptor.h"

enum { TURNS = 16, LINE = 64 };

/* Tensors, and regions behind them. */
enum { MEMORIES = AULE_MAX_TENSORS + AULE_MAX_REGIONS, WORD = 64, SET_WORDS = MEMORIES / WORD };
typedef struct Touched {
    uint64_t read[SET_WORDS], written[SET_WORDS];
} Touched;

typedef struct Turn {
    VkCommandBuffer commands;
    uint64_t done; /* value of the timeline */
    bool written;  /* the commands are those of [grid] and [cleared] */
    bool watched;  /* kernels may have said that their loops were cut */
    uint32_t steps;
    uint32_t (*grid)[3];
    uint64_t *cleared; /* bytes of each region; 0: it is not */
} Turn;

struct VulkanRecording {
    const VulkanProgram *program;
    const aule_attention_v1 *attention;
    VulkanBuffer *blocks;
    uint64_t turn_bytes; /* of the blocks */
    uint64_t *at;        /* from there to the block of each launch, and of each region */
    Turn turns[TURNS];
    uint32_t next;
    uint32_t (*grids)[3]; /* what turns have of these */
    uint64_t *bytes;
    bool left; /* its plan is freed, and the device may still read it */
    VulkanRecording *link;
};

static uint32_t launches(const VulkanRecording *r) { return r->program->variant->launch_count; }
static uint32_t regions(const VulkanRecording *r) { return r->program->variant->workspace_count; }

/* ---- which launches need a barrier between them */

static void touch(uint64_t *set, uint32_t memory) { set[memory / WORD] |= 1ull << memory % WORD; }

static uint32_t region_memory(uint32_t region) { return AULE_MAX_TENSORS + region; }

/* AULE_TOUCH_* of a slot that is an address. */
static uint32_t touch_of(const VulkanRecording *r, const aule_launch_v1 *launch, uint32_t n)
{
    const aule_slot_v1 *slot = &launch->slots[n];
    if (rt_knows_touches(launch)) return rt_touch(launch, n);
    if (slot->kind == AULE_SLOT_WORKSPACE) return AULE_TOUCH_WRITE;
    const AuOperation *operation = rt_operation(r->program->variant->operation);
    const AuPart part = rt_part(operation, rt_tensor(r->attention, slot->index));
    return part == AU_PART_READ ? AULE_TOUCH_READ : AULE_TOUCH_WRITE;
}

static Touched touched_by(const VulkanRecording *r, uint32_t index)
{
    const aule_launch_v1 *launch = rt_launch(r->program->variant, index);
    Touched t = {{0}, {0}};
    for (uint32_t n = 0; n < launch->slot_count; n++) {
        const aule_slot_v1 *slot = &launch->slots[n];
        if (slot->kind != AULE_SLOT_WORKSPACE && slot->kind != AULE_SLOT_TENSOR) continue;
        const uint32_t what = touch_of(r, launch, n), memory = slot->kind == AULE_SLOT_TENSOR
                                                                   ? slot->index
                                                                   : region_memory(slot->index);
        if (what & AULE_TOUCH_READ) touch(t.read, memory);
        if (what & AULE_TOUCH_WRITE) touch(t.written, memory);
    }
    return t;
}

static bool meet(const uint64_t *a, const uint64_t *b)
{
    uint64_t shared = 0;
    for (uint32_t n = 0; n < SET_WORDS; n++) shared |= a[n] & b[n];
    return shared != 0;
}

/* What stands between launches. ENDED: those before have ended, for those whose reads are all that is in the way: nothing that was written
 * needs to be seen. */
typedef enum Between { NOTHING, ENDED, SEEN } Between;
static Between between(const Touched *before, const Touched *next)
{
    if (meet(before->written, next->read) || meet(before->written, next->written)) return SEEN;
    return meet(before->read, next->written) ? ENDED : NOTHING;
}

static void add(Touched *all, const Touched *more)
{
    for (uint32_t n = 0; n < SET_WORDS; n++) {
        all->read[n] |= more->read[n];
        all->written[n] |= more->written[n];
    }
}

/* ---- writing commands */

/* [before] is what nothing stands behind yet. */
static void barrier(const Vulkan *v, VkCommandBuffer commands, Between what, Touched *before)
{
    const VkMemoryBarrier shaders = {.type = VK_TYPE_MEMORY_BARRIER,
                                     .before = VK_ACCESS_SHADER_WRITE,
                                     .after = VK_ACCESS_SHADER_READ | VK_ACCESS_SHADER_WRITE};
    if (what == NOTHING) return;
    v->vk.vkCmdPipelineBarrier(commands, VK_AT_COMPUTE, VK_AT_COMPUTE, 0, what == SEEN, &shaders, 0,
                               NULL, 0, NULL);
    memset(before->read, 0, sizeof before->read);
    if (what == SEEN) memset(before->written, 0, sizeof before->written);
}

static bool is_launched(const uint32_t grid[3]) { return grid[0] && grid[1] && grid[2]; }

static uint64_t block_of(const VulkanRecording *r, const Turn *t, uint32_t step)
{
    return (uint64_t)(t - r->turns) * r->turn_bytes + r->at[step];
}

static void write_steps(const Vulkan *v, const VulkanRecording *r, Turn *t)
{
    const VulkanProgram *clear = v->clear;
    Touched before = {{0}, {0}};
    t->steps = 0;
    for (uint32_t n = 0; n < regions(r); n++) {
        if (!t->cleared[n]) continue;
        const uint32_t grid[3] = {rt_vulkan_clear_blocks(t->cleared[n]), 1, 1};
        touch(before.written, region_memory(n));
        rt_vulkan_dispatch(v, t->commands, clear->pipelines[0],
                           r->blocks->address + block_of(r, t, launches(r) + n), grid);
        t->steps++;
    }
    for (uint32_t n = 0; n < launches(r); n++) {
        const Touched now = touched_by(r, n);
        if (!is_launched(t->grid[n])) continue;
        barrier(v, t->commands, between(&before, &now), &before);
        add(&before, &now);
        rt_vulkan_dispatch(v, t->commands, r->program->pipelines[n],
                           r->blocks->address + block_of(r, t, n), t->grid[n]);
        t->steps++;
    }
}

static uint64_t to_clear(const AuRun *run, uint32_t region)
{
    return run->variant->workspaces[region].zeroed ? run->region_bytes[region] : 0;
}

static bool is_of(const VulkanRecording *r, const Turn *t, const AuRun *run)
{
    bool same = t->written && memcmp(t->grid, run->grid, launches(r) * sizeof *t->grid) == 0;
    for (uint32_t n = 0; n < regions(r) && same; n++) same = t->cleared[n] == to_clear(run, n);
    return same;
}

static aule_status write_turn(Vulkan *v, const VulkanRecording *r, Turn *t, const AuRun *run,
                              AuSink sink)
{
    t->written = false;
    memcpy(t->grid, run->grid, launches(r) * sizeof *t->grid);
    for (uint32_t n = 0; n < regions(r); n++) t->cleared[n] = to_clear(run, n);
    aule_status status = rt_vulkan_begin_commands(v, t->commands, 0, sink);
    if (status) return status;
    write_steps(v, r, t);
    status = rt_vulkan_end_commands(v, t->commands, sink);
    t->written = status == AULE_OK;
    return status;
}

/* ---- making */

static void free_recording(VulkanRecording *r)
{
    rt_free(r->at);
    rt_free(r->grids);
    rt_free(r->bytes);
    rt_free(r);
}

static void end(Vulkan *v, VulkanRecording *r)
{
    VkCommandBuffer commands[TURNS];
    for (VulkanRecording **at = &v->recordings; *at; at = &(*at)->link) {
        if (*at != r) continue;
        *at = r->link;
        break;
    }
    for (uint32_t n = 0; n < TURNS; n++) commands[n] = r->turns[n].commands;
    if (commands[0]) v->vk.vkFreeCommandBuffers(v->device, v->pool, TURNS, commands);
    if (r->blocks) rt_vulkan_buffer_end(v, r->blocks);
    free_recording(r);
}

/* Each block begins a line of the cache, and has a word behind its slots. */
static void lay_out(VulkanRecording *r)
{
    for (uint32_t n = 0; n < launches(r) + regions(r); n++) {
        const uint64_t slots =
            n < launches(r) ? rt_launch(r->program->variant, n)->slot_count : VULKAN_CLEAR_SLOTS;
        r->at[n] = r->turn_bytes;
        r->turn_bytes += ((slots + 1) * 8 + LINE - 1) / LINE * LINE;
    }
}

static VulkanRecording *new_recording(AuHeap heap, const VulkanProgram *program, const AuRun *run)
{
    VulkanRecording *r = rt_alloc(heap, sizeof *r);
    if (!r) return NULL;
    r->program = program;
    r->attention = run->attention;
    const size_t steps = (size_t)launches(r) + regions(r);
    r->at = rt_alloc_array(heap, steps + 1, sizeof *r->at);
    r->grids = rt_alloc_array(heap, (size_t)TURNS * launches(r) + 1, sizeof *r->grids);
    r->bytes = rt_alloc_array(heap, (size_t)TURNS * regions(r) + 1, sizeof *r->bytes);
    if (!r->at || !r->grids || !r->bytes) {
        free_recording(r);
        return NULL;
    }
    for (uint32_t n = 0; n < TURNS; n++) {
        r->turns[n].grid = r->grids + (size_t)n * launches(r);
        r->turns[n].cleared = r->bytes + (size_t)n * regions(r);
    }
    lay_out(r);
    return r;
}

static aule_status make(Vulkan *v, VulkanRecording *r, const AuRun *planned, AuSink sink)
{
    VkCommandBuffer commands[TURNS];
    bool clears = false;
    for (uint32_t n = 0; n < regions(r); n++) clears |= planned->variant->workspaces[n].zeroed;
    aule_status status = rt_vulkan_alive(v, sink);
    if (!status && clears) status = rt_vulkan_clear(v, sink);
    if (!status) status = rt_vulkan_buffer(v, TURNS * r->turn_bytes + 1, true, &r->blocks, sink);
    if (status) return status;
    const VkCommandBufferAllocateInfo all = {
        .type = VK_TYPE_COMMAND_BUFFERS, .pool = v->pool, .count = TURNS};
    const VkResult code = v->vk.vkAllocateCommandBuffers(v->device, &all, commands);
    if (code != VK_SUCCESS) return rt_vulkan_check(v, sink, "vkAllocateCommandBuffers", code);
    for (uint32_t n = 0; n < TURNS; n++) r->turns[n].commands = commands[n];
    for (uint32_t n = 0; n < TURNS && !status; n++)
        status = write_turn(v, r, &r->turns[n], planned, sink);
    return status;
}

aule_status rt_vulkan_record(void *state, void *program, const AuRun *planned, void **recording,
                             AuSink sink)
{
    Vulkan *v = state;
    VulkanRecording *r = new_recording(v->heap, program, planned);
    if (!r) return rt_fail_memory(sink);
    pthread_mutex_lock(&v->lock);
    rt_vulkan_reap(v);
    r->link = v->recordings;
    v->recordings = r;
    aule_status status = make(v, r, planned, sink);
    if (status)
        end(v, r);
    else
        *recording = r;
    pthread_mutex_unlock(&v->lock);
    return status;
}

static bool is_done(const Vulkan *v, const VulkanRecording *r)
{
    uint64_t last = 0;
    for (uint32_t n = 0; n < TURNS; n++)
        if (r->turns[n].done > last) last = r->turns[n].done;
    return last <= v->reached || rt_vulkan_gone(v);
}

void rt_vulkan_reap(Vulkan *v)
{
    bool looked = false;
    for (VulkanRecording *r = v->recordings, *next; r; r = next) {
        next = r->link;
        if (!r->left) continue;
        if (!is_done(v, r) && !looked) {
            rt_vulkan_look(v, (AuSink){.memory = v->heap});
            looked = true;
        }
        if (!is_done(v, r)) continue;
        rt_vulkan_listen(v, v->reached);
        end(v, r);
    }
}

/* A plan may be freed while its runs wait for what the caller has yet to signal: its recording stays until they are done. */
void rt_vulkan_forget(void *state, void *recording)
{
    Vulkan *v = state;
    VulkanRecording *r = recording;
    pthread_mutex_lock(&v->lock);
    r->left = true;
    rt_vulkan_reap(v);
    pthread_mutex_unlock(&v->lock);
}

/* ---- running */

void rt_vulkan_listen_runs(Vulkan *v, uint64_t value)
{
    for (VulkanRecording *r = v->recordings; r; r = r->link)
        for (Turn *t = r->turns; t < r->turns + TURNS; t++) {
            if (!t->watched || t->done > value) continue;
            for (uint32_t n = 0; n < launches(r); n++) {
                const aule_launch_v1 *launch = rt_launch(r->program->variant, n);
                uint64_t said = 0;
                memcpy(&said, r->blocks->mapped + block_of(r, t, n) + launch->slot_count * 8,
                       sizeof said);
                if (said && is_launched(t->grid[n]))
                    snprintf(v->cut, sizeof v->cut, "%s", launch->entry);
            }
            t->watched = false;
        }
}

/* The next turn, which is the one that was used longest ago. Others may go on while it is waited for. */
static aule_status take_turn(Vulkan *v, VulkanRecording *r, Turn **turn, AuSink sink)
{
    Turn *t = &r->turns[r->next];
    aule_status status = t->done > v->reached ? rt_vulkan_look(v, sink) : AULE_OK;
    while (!status && t->done > v->reached) {
        const uint64_t value = t->done;
        pthread_mutex_unlock(&v->lock);
        status = rt_vulkan_wait(v, value, sink);
        pthread_mutex_lock(&v->lock);
        if (!status && v->reached < value) v->reached = value;
        t = &r->turns[r->next];
    }
    if (status) return status;
    if (t->watched) rt_vulkan_listen(v, t->done);
    r->next = (r->next + 1) % TURNS;
    *turn = t;
    return AULE_OK;
}

/* Slots are written once, in order: what the host sees of a device's memory may be slow to read. */
static void fill_blocks(const VulkanRecording *r, const Turn *t, const AuRun *run)
{
    for (uint32_t n = 0; n < regions(r); n++) {
        void *block = r->blocks->mapped + block_of(r, t, launches(r) + n);
        if (t->cleared[n])
            rt_vulkan_clear_fill((uintptr_t)run->workspace + run->region_at[n], t->cleared[n],
                                 block);
    }
    for (uint32_t n = 0; n < launches(r); n++) {
        if (!is_launched(t->grid[n])) continue;
        void *block = r->blocks->mapped + block_of(r, t, n);
        uint64_t *slots = block;
        run->fill(run, n, slots);
        slots[rt_launch(r->program->variant, n)->slot_count] = 0;
    }
}

static aule_status run_turn(Vulkan *v, VulkanRecording *r, VulkanOrder *order, const AuRun *run,
                            AuSink sink)
{
    Turn *t;
    aule_status status = rt_vulkan_alive(v, sink);
    if (!status) status = take_turn(v, r, &t, sink);
    if (!status && !is_of(r, t, run)) status = write_turn(v, r, t, run, sink);
    if (status || (!t->steps && !order->wait_count && !order->signal_count)) return status;
    fill_blocks(r, t, run);
    status = rt_vulkan_put(v, t->commands, order, sink);
    if (status) return status;
    t->done = v->submitted;
    t->watched = v->cuts_loops;
    return AULE_OK;
}

aule_status rt_vulkan_run(void *state, void *recording, void *queue, const AuRun *run, AuSink sink)
{
    Vulkan *v = state;
    VulkanOrder order;
    aule_status status = rt_vulkan_order(v, queue, &order, sink);
    if (status) return status;
    pthread_mutex_lock(&v->lock);
    status = run_turn(v, recording, &order, run, sink);
    pthread_mutex_unlock(&v->lock);
    return status;
}
