"""Shows that memory which Vulkan exported is CUDA's, too, on one GPU, and torch's without a copy where torch is installed.

    python bench/shared_memory.py LIBAULE [vulkan:N] [cuda:N]

An allocation of libaule's on the Vulkan device is exported by file descriptor and imported on the CUDA device (aule_buffer_export,
aule_buffer_import). What either writes the other must read, also in the last bytes; torch adds 1 to it by way of its address, which
the Vulkan side must see. Ends with an error at the first difference. Needs Python with NumPy; the Vulkan loader, and one GPU that both drivers know.
"""

import ctypes
import sys

import numpy as np

BYTES = 1 << 20


class Aule:
    """The few functions that are needed; a status other than 0 is an exception with the runtime's words."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.aule_error_message.restype = ctypes.c_char_p
        self.library.aule_error_message.argtypes = [ctypes.c_void_p]
        self.library.aule_buffer_data.restype = ctypes.c_void_p
        self.library.aule_buffer_data.argtypes = [ctypes.c_void_p]

    def call(self, name, *arguments):
        error = ctypes.c_void_p()
        if getattr(self.library, name)(*arguments, ctypes.byref(error)):
            raise SystemExit(f"{name}: {self.library.aule_error_message(error).decode()}")

    def device(self, name):
        device = ctypes.c_void_p()
        self.call("aule_device_open", name.encode(), None, ctypes.byref(device))
        return device

    def write(self, buffer, x):
        self.call("aule_buffer_upload", buffer, ctypes.c_uint64(0), x.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(x.nbytes))

    def read(self, buffer):
        x = np.empty(BYTES // 4, np.float32)
        self.call("aule_buffer_download", buffer, ctypes.c_uint64(0), x.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(x.nbytes))
        return x


def same(what, found, wanted):
    if not np.array_equal(found, wanted):
        raise SystemExit(f"{what}: {np.count_nonzero(found != wanted)} of {wanted.size} numbers are others")
    print(f"{what}: {wanted.size} numbers are the same")


def by_torch(aule, of_vulkan, of_cuda, x):
    try:
        import torch
    except ImportError:
        print("torch is not installed")
        return

    class Memory:
        __cuda_array_interface__ = {"shape": (x.size,), "typestr": "<f4", "data": (aule.library.aule_buffer_data(of_cuda), False), "version": 3}

    t = torch.as_tensor(Memory(), device="cuda")
    if t.data_ptr() != aule.library.aule_buffer_data(of_cuda):
        raise SystemExit("torch took a copy")
    t += 1
    torch.cuda.synchronize()
    same("torch adds, Vulkan reads", aule.read(of_vulkan), x + 1)


def main():
    aule, names = Aule(sys.argv[1]), [*sys.argv[2:], "vulkan:0", "cuda:0"]
    vulkan, cuda = aule.device(names[0]), aule.device(names[1])
    of_vulkan, of_cuda, fd, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(-1), ctypes.c_uint64()
    aule.call("aule_buffer_export", vulkan, ctypes.c_uint64(BYTES), ctypes.byref(of_vulkan), ctypes.byref(fd), ctypes.byref(size))
    aule.call("aule_buffer_import", cuda, fd, size, ctypes.byref(of_cuda))
    print(f"{size.value} bytes, by descriptor {fd.value}")
    x = np.random.default_rng(1).standard_normal(BYTES // 4, dtype=np.float32)
    aule.write(of_vulkan, x)
    same("Vulkan writes, CUDA reads", aule.read(of_cuda), x)
    aule.write(of_cuda, -x)
    same("CUDA writes, Vulkan reads", aule.read(of_vulkan), -x)
    by_torch(aule, of_vulkan, of_cuda, -x)


main()
