/* aule_torch.h - memory for torch's CUDA tensors that Vulkan allocated and exported, and CUDA imported, so that kernels of both work on them where they are.
 *
 * torch takes allocators as two functions of a shared library (torch.cuda.memory.CUDAPluggableAllocator), which it calls with its own lock held, from any
 * thread. They must not ask for Python's lock, whose owner may wait for torch's: so they are C, and what they know of a device lies here, by its number,
 * which is all that torch passes. No other library of ours has state. The functions of libaule come as addresses: this library needs libc alone. */
#ifndef AULE_TORCH_H
#define AULE_TORCH_H

#include <sys/types.h>

#include "aule/aule.h"

#define AULE_TORCH_API     __attribute__((visibility("default")))
#define AULE_TORCH_DEVICES 64

/* The device of either driver for one GPU, and what is asked of libaule. */
typedef struct aule_torch_memory {
    size_t struct_size;
    aule_device *vulkan, *cuda;
    aule_status (*buffer_export)(aule_device *device, uint64_t bytes, aule_buffer **buffer, int *fd,
                                 uint64_t *fd_bytes, aule_error **error);
    aule_status (*buffer_import)(aule_device *device, int fd, uint64_t fd_bytes,
                                 aule_buffer **buffer, aule_error **error);
    void (*buffer_free)(aule_buffer *buffer);
    void *(*buffer_data)(const aule_buffer *buffer);
    aule_status (*synchronize)(aule_device *device, void *queue, aule_error **error);
    const char *(*error_message)(const aule_error *error);
    void (*error_free)(aule_error *error);
} aule_torch_memory;

/* What torch's device of that number takes its memory from; -1: there is no such number, or it has another one's. */
AULE_TORCH_API int aule_torch_use(int device, const aule_torch_memory *memory);

/* torch's allocator. NULL: there was none, and aule_torch_why says why. Memory is given back once the stream that torch names and all that Vulkan was given are done. */
AULE_TORCH_API void *aule_torch_allocate(ssize_t bytes, int device, void *stream);
AULE_TORCH_API void aule_torch_release(void *data, size_t bytes, int device, void *stream);

/* Why the last allocation failed, cut to [size]; "": none did. */
AULE_TORCH_API void aule_torch_why(int device, char *text, size_t size);

/* Where [count] addresses of CUDA's are for Vulkan; what is 0 stays so. Returns how many are in such memory: fewer than [count], and the next one is not. */
AULE_TORCH_API size_t aule_torch_places(int device, size_t count, const uint64_t *addresses,
                                        uint64_t *places);

/* Bytes that torch has of it now. */
AULE_TORCH_API uint64_t aule_torch_bytes(int device);

#endif
