/* aule_torch.c - torch's allocator of memory that is Vulkan's and CUDA's. Blocks are few and large: torch shares them out. */
#include "aule_torch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct Block {
    aule_buffer *exported, *imported;
    uint64_t at, place, bytes; /* of CUDA, of Vulkan */
    struct Block *next;
} Block;

typedef struct Memory {
    aule_torch_memory of; /* struct_size 0: none yet */
    Block *blocks;
    char why[512];
} Memory;

static Memory memories[AULE_TORCH_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* NULL: of no use. */
static Memory *memory_of(int device)
{
    if (device < 0 || device >= AULE_TORCH_DEVICES) return NULL;
    return &memories[device];
}

int aule_torch_use(int device, const aule_torch_memory *memory)
{
    Memory *m = memory_of(device);
    if (!m || memory->struct_size != sizeof *memory) return -1;
    pthread_mutex_lock(&lock);
    const bool other =
        m->of.struct_size && (m->of.vulkan != memory->vulkan || m->of.cuda != memory->cuda);
    if (!m->of.struct_size) m->of = *memory; /* once: allocations of other threads read it */
    pthread_mutex_unlock(&lock);
    return other ? -1 : 0;
}

static bool is_used(const Memory *m)
{
    pthread_mutex_lock(&lock);
    const bool used = m->of.struct_size;
    pthread_mutex_unlock(&lock);
    return used;
}

/* The error's words, which end here. */
static void say_why(Memory *m, aule_error *error)
{
    pthread_mutex_lock(&lock);
    snprintf(m->why, sizeof m->why, "%s", error ? m->of.error_message(error) : "out of memory");
    pthread_mutex_unlock(&lock);
    if (error) m->of.error_free(error);
}

/* Of the block's bytes; false: of neither driver. */
static bool make(Memory *m, Block *b)
{
    aule_error *error = NULL;
    int fd = -1;
    uint64_t fd_bytes = 0;
    if (m->of.buffer_export(m->of.vulkan, b->bytes, &b->exported, &fd, &fd_bytes, &error)) {
        say_why(m, error);
        return false;
    }
    const aule_status status = m->of.buffer_import(m->of.cuda, fd, fd_bytes, &b->imported, &error);
    close(fd);
    if (status) {
        m->of.buffer_free(b->exported);
        say_why(m, error);
        return false;
    }
    b->place = (uintptr_t)m->of.buffer_data(b->exported);
    b->at = (uintptr_t)m->of.buffer_data(b->imported);
    return true;
}

void *aule_torch_allocate(ssize_t bytes, int device, void *stream)
{
    (void)stream; /* the memory is new */
    Memory *m = memory_of(device);
    if (!m || bytes <= 0 || !is_used(m)) return NULL;
    Block *b = calloc(1, sizeof *b);
    if (b) b->bytes = (uint64_t)bytes;
    if (!b) say_why(m, NULL);
    if (!b || !make(m, b)) {
        free(b);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    b->next = m->blocks, m->blocks = b;
    m->why[0] = 0;
    pthread_mutex_unlock(&lock);
    return (void *)(uintptr_t)b->at;
}

static Block *take_out(Memory *m, uint64_t at)
{
    Block *found = NULL;
    pthread_mutex_lock(&lock);
    for (Block **b = &m->blocks; *b && !found; b = found ? b : &(*b)->next)
        if ((*b)->at == at) found = *b, *b = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

void aule_torch_release(void *data, size_t bytes, int device, void *stream)
{
    (void)bytes;
    Memory *m = memory_of(device);
    Block *b = m && data ? take_out(m, (uintptr_t)data) : NULL;
    if (!b) return;
    aule_error *error = NULL;
    /* torch's default stream is NULL, which to libaule is one of its own */
    if (m->of.synchronize(m->of.cuda, stream ? stream : (void *)1, &error)) m->of.error_free(error);
    error = NULL;
    if (m->of.synchronize(m->of.vulkan, NULL, &error)) m->of.error_free(error);
    m->of.buffer_free(b->imported);
    m->of.buffer_free(b->exported);
    free(b);
}

void aule_torch_why(int device, char *text, size_t size)
{
    const Memory *m = memory_of(device);
    pthread_mutex_lock(&lock);
    snprintf(text, size, "%s", m ? m->why : "");
    pthread_mutex_unlock(&lock);
}

static const Block *block_with(const Memory *m, uint64_t address)
{
    const Block *b = m->blocks;
    while (b && (address < b->at || address - b->at >= b->bytes)) b = b->next;
    return b;
}

size_t aule_torch_places(int device, size_t count, const uint64_t *addresses, uint64_t *places)
{
    const Memory *m = memory_of(device);
    size_t n = 0;
    if (!m) return 0;
    pthread_mutex_lock(&lock);
    for (; n < count; n++) {
        const Block *b = addresses[n] ? block_with(m, addresses[n]) : NULL;
        if (addresses[n] && !b) break;
        places[n] = b ? b->place + (addresses[n] - b->at) : 0;
    }
    pthread_mutex_unlock(&lock);
    return n;
}

uint64_t aule_torch_bytes(int device)
{
    const Memory *m = memory_of(device);
    uint64_t bytes = 0;
    if (!m) return 0;
    pthread_mutex_lock(&lock);
    for (const Block *b = m->blocks; b; b = b->next) bytes += b->bytes;
    pthread_mutex_unlock(&lock);
    return bytes;
}
