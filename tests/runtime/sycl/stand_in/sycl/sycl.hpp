// sycl.hpp - a stand-in for SYCL's header with what libaule_sycl asks of it, by the names and types of DPC++'s: queues of Level Zero's handles, or of
// another backend, which throw where a test wants that.
#ifndef STAND_IN_SYCL_HPP
#define STAND_IN_SYCL_HPP

#include <array>
#include <stdexcept>
#include <variant>

typedef struct _ze_context_handle_t *ze_context_handle_t;
typedef struct _ze_command_list_handle_t *ze_command_list_handle_t;
typedef struct _ze_command_queue_handle_t *ze_command_queue_handle_t;

namespace sycl {

enum class backend { opencl, ext_oneapi_level_zero };

class exception : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

namespace ext::intel::info::device {
struct uuid {
    using return_type = std::array<unsigned char, 16>;
};
} // namespace ext::intel::info::device

class device {
  public:
    std::array<unsigned char, 16> of;
    template <typename Param> typename Param::return_type get_info() const { return of; }
};

class context {
  public:
    ze_context_handle_t handle;
};

class queue {
  public:
    backend api;
    bool in_order;
    context of;
    device on;
    std::variant<ze_command_queue_handle_t, ze_command_list_handle_t> handle;
    void (*work)(void); // what SYCL has not handed on yet
    int waits;
    backend get_backend() const noexcept { return api; }
    bool is_in_order() const { return in_order; }
    context get_context() const { return of; }
    device get_device() const { return on; }
    void wait()
    {
        waits++;
        if (work) work();
    }
};

template <backend Backend> ze_context_handle_t get_native(const context &c) { return c.handle; }
template <backend Backend> auto get_native(const queue &q)
{
    if (std::visit([](auto handle) { return !handle; }, q.handle))
        throw exception("the queue has no native handle");
    return q.handle;
}

} // namespace sycl

#endif
