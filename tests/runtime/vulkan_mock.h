/* vulkan_mock.h - a libvulkan.so.1 without a device: loader and driver over host memory. It runs the kernels of the sample artifact as host
 * functions when they are submitted, counts what is alive, and fails where it is told to. */
#ifndef VULKAN_MOCK_H
#define VULKAN_MOCK_H

#include <stdbool.h>
#include <stdint.h>

#define MOCK_API __attribute__((visibility("default")))

/* Features and properties that a device may lack, as bits. */
enum {
    MOCK_BUFFER_ADDRESS,
    MOCK_MEMORY_MODEL,
    MOCK_TIMELINE,
    MOCK_INT64,
    MOCK_INT16,
    MOCK_INT8,
    MOCK_STORAGE_16,
    MOCK_STORAGE_8,
    MOCK_KEEPS_SPECIAL,
    MOCK_ROUNDS_EVEN,
    MOCK_QUEUE,
    MOCK_FEATURES, /* from here on kernels of some kinds alone need them */
    MOCK_SHUFFLE = MOCK_FEATURES,
    MOCK_FULL_SUBGROUPS,
    MOCK_FLOAT_16,
    MOCK_MATRICES,
    MOCK_BF16,
    MOCK_REDUCES,
    MOCK_CONVERTS,
    MOCK_BY_ELEMENT,
    MOCK_BY_TENSORS,
    MOCK_OF_BLOCKS,
    MOCK_ANY_EXTENTS,
    MOCK_LAYOUT,
    MOCK_ROUNDS_HALF,
    MOCK_SUMS,
    MOCK_EXPORTS,
    MOCK_IMPORTS,
    MOCK_TIMELINES
};

typedef struct VulkanMock {
    uint32_t devices, loader, version; /* versions as Vulkan counts them */
    uint32_t lacks;                    /* bits of what is above */
    bool hidden;                       /* the host does not see the device's memory */
    uint32_t most_blocks, shared_bytes;
    uint32_t driver; /* its version */
    bool external;   /* memory by file descriptor */
    bool signals;    /* timelines, likewise */
    bool nameless;   /* no UUID; else 00 10 20 .. f0 plus its number in each byte */
    bool twin;       /* 8x8x8 of f16 has sums of f16, too */
    bool sums;       /* it adds to f32 by an instruction */
    bool scattered;  /* components of two matrices do not lie alike */
    bool newer;      /* it lists the extensions of newer ones */
    uint32_t block_threads, block_extent; /* of matrices of a work-group at most */
    uint32_t least, most;                 /* lanes that a pipeline may ask for; 0: it may not */
    uint64_t memory_bytes;                /* of one allocation at most */
    bool downward;                        /* each allocation ends where the one before it begins */
    int most_memories;                    /* allocations alive at most; 0: any number */
    bool lazy;        /* what is on the queue is done when it is waited for, and not before */
    bool idle;        /* kernels do nothing */
    bool unordered;   /* kernels between which no barrier stands are done last first */
    int together;     /* a pipeline takes until so many are being made, or a second */
    int fail_at;      /* this call fails, counted from 1; 0: none */
    const char *fail; /* or the first of this function */
    int code;         /* with this result */
    bool hangs, slow; /* of what is submitted nothing is done; one in each wait */
    /* so far */
    uint64_t taken;                /* bytes of those allocations */
    int calls, dispatches, cached; /* pipeline caches that had data */
    int submits, begun;            /* command buffers written */
    int barriers, seen; /* between kernels; those behind which what was written is seen */
    int waits, blocks;  /* of the host; of kernels */
    uint64_t patience;  /* nanoseconds of the last wait */
    int most_together;  /* pipelines that were being made */
    const char *failed; /* the function that did */
    int instances, opened, buffers, memories, mapped; /* alive */
    int modules, layouts, pipelines, pools, commands, semaphores, queries, caches;
} VulkanMock;

extern MOCK_API VulkanMock vulkan_mock;
MOCK_API void
vulkan_mock_reset(void); /* one device that has everything, with memory that the host sees */
/* Does what is on the queue, until something waits that nobody has signalled. */
MOCK_API void vulkan_mock_work(void);

#endif
