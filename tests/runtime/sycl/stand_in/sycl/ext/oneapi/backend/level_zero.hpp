// level_zero.hpp - all of it is in the stand-in's sycl.hpp.
#include <sycl/sycl.hpp>
