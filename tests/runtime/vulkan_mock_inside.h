/* vulkan_mock_inside.h - what the files of the mock share. */
#ifndef VULKAN_MOCK_INSIDE_H
#define VULKAN_MOCK_INSIDE_H

#include "../../runtime/backends/vulkan_api.h"
#include "vulkan_mock.h"

enum { VK_ERROR_UNKNOWN_KERNEL = -13 };

/* In each function that may fail, first. */
#define ENTER()                                                                                    \
    do {                                                                                           \
        if (mock_fails(__func__)) return vulkan_mock.code;                                         \
    } while (0)
bool mock_fails(const char *function);
/* More or fewer of something, from any thread. */
void mock_count(int *number, int by);
/* The program gives back what is still in use, or writes into it. */
void mock_expect_no_work(void);
void *mock_file_new(size_t bytes);        /* memory that others have by descriptor */
void *mock_file_of(int fd, size_t bytes); /* others' */
int mock_file_fd(const void *at);
bool mock_file_end(void *at); /* false: none of these */

#define MOCK(type, handle) ((type *)(uintptr_t)(handle))

typedef struct MockBuffer {
    uint64_t bytes;
    char *at;
} MockBuffer;

typedef struct MockKernel {
    const char *name;
    void (*run)(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z);
} MockKernel;
const MockKernel *mock_kernel(const char *name);

#define VK(result, name, arguments) result name arguments;
#include "../../runtime/backends/vulkan_api.def"

#endif
