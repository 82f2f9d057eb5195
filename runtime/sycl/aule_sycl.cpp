// aule_sycl.cpp - see aule_sycl.h. No device code: any C++ compiler that knows SYCL's headers makes it.
#include "aule_sycl.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <variant>

#include <sycl/sycl.hpp>

#include <sycl/ext/oneapi/backend/level_zero.hpp>

namespace
{

constexpr sycl::backend level_zero = sycl::backend::ext_oneapi_level_zero;

// Nothing is thrown at C.
template <class Work> int guarded(char *why, size_t size, const Work &work) noexcept
{
    try {
        work();
        return 0;
    } catch (const std::exception &error) {
        std::snprintf(why, size, "%s", error.what());
    } catch (...) {
        std::snprintf(why, size, "SYCL threw something that is no std::exception");
    }
    return 1;
}

void read(const sycl::queue &queue, aule_sycl_queue &made)
{
    if (queue.get_backend() != level_zero)
        throw std::runtime_error("its backend is not Level Zero");
    if (!queue.is_in_order()) throw std::runtime_error("its commands are in no order");
    const auto uuid = queue.get_device().get_info<sycl::ext::intel::info::device::uuid>();
    static_assert(sizeof uuid == sizeof made.uuid, "UUIDs have 16 bytes");
    std::memcpy(made.uuid, uuid.data(), sizeof made.uuid);
    made.context = sycl::get_native<level_zero>(queue.get_context());
    const auto native = sycl::get_native<level_zero>(queue);
    const auto *list = std::get_if<ze_command_list_handle_t>(&native);
    made.queue_kind = list ? AULE_QUEUE_DEFAULT : AULE_QUEUE_COMMANDS;
    if (list)
        made.queue = *list;
    else
        made.queue = std::get<ze_command_queue_handle_t>(native);
}

} // namespace

int aule_sycl_read(const void *queue, aule_sycl_queue *made, char *why, size_t size)
{
    return guarded(why, size, [=] { read(*static_cast<const sycl::queue *>(queue), *made); });
}

int aule_sycl_wait(void *queue, char *why, size_t size)
{
    return guarded(why, size, [=] { static_cast<sycl::queue *>(queue)->wait(); });
}
