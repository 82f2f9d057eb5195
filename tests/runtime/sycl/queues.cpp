// queues.cpp - queues of the stand-in for SYCL, for Python: made of Level Zero's handles.
#include <cstring>

#include <sycl/sycl.hpp>

#define API extern "C" __attribute__((visibility("default")))

API void *sycl_queue_new(int level_zero, int in_order, void *context, void *list, void *queue,
                         const unsigned char *uuid, void (*work)(void))
{
    auto *q = new sycl::queue{};
    q->api = level_zero ? sycl::backend::ext_oneapi_level_zero : sycl::backend::opencl;
    q->in_order = in_order != 0;
    q->of.handle = static_cast<ze_context_handle_t>(context);
    std::memcpy(q->on.of.data(), uuid, 16);
    if (list)
        q->handle = static_cast<ze_command_list_handle_t>(list);
    else
        q->handle = static_cast<ze_command_queue_handle_t>(queue);
    q->work = work;
    return q;
}
API int sycl_queue_waits(const void *queue)
{
    return static_cast<const sycl::queue *>(queue)->waits;
}
API void sycl_queue_free(void *queue) { delete static_cast<sycl::queue *>(queue); }
