"""Tensors of other libraries as DLPack descriptors, without copies, and new tensors of the same library.

NumPy arrays and torch tensors are read directly, since ``__dlpack__`` refuses some that are fine (read-only arrays, types that
NumPy lacks, tensors that require a gradient); everything else goes through ``__dlpack__``.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_char_p, c_int64, c_void_p, py_object
from functools import lru_cache, partial
from typing import Any, Callable, Mapping

import numpy

from ._errors import ArgumentError
from ._libaule import BF16, F16, F32, DLDataType, DLManagedTensorVersioned, DLTensor

CPU, CUDA, METAL, ROCM, ONEAPI = 1, 2, 8, 10, 14  # kDLCPU, kDLCUDA, kDLMetal, kDLROCM, kDLOneAPI
GPUS = {CUDA: "cuda", ROCM: "hip"}  # backends that work on the caller's streams
BACKENDS = {**GPUS, METAL: "metal", ONEAPI: "levelzero"}  # that read tensors where they are, levelzero those of torch alone (_xpu.py)
INT, UINT, FLOAT, BFLOAT, BOOL = 0, 1, 2, 4, 6  # DLDataTypeCode

# (code, bits) of DLPack by the name that NumPy and torch share
TYPES = {
    "float32": (FLOAT, 32), "float16": (FLOAT, 16), "bfloat16": (BFLOAT, 16), "float64": (FLOAT, 64), "int8": (INT, 8),
    "int16": (INT, 16), "int32": (INT, 32), "int64": (INT, 64), "uint8": (UINT, 8), "uint16": (UINT, 16), "uint32": (UINT, 32),
    "uint64": (UINT, 64), "bool": (BOOL, 8), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8),
}
# NumPy has no such numbers of its own: their codes are bytes
STORED_AS = {name: TYPES["uint8"] for name in ("float8_e4m3fn", "float8_e5m2")}
NAMES = {code: name for name, code in TYPES.items()}
OPERANDS = {TYPES["float32"]: F32, TYPES["float16"]: F16, TYPES["bfloat16"]: BF16}
TORCH_DEVICES = {"cpu": CPU, "mps": METAL, "xpu": ONEAPI}  # and "cuda": torch_gpu
XPU_NUMBERS: dict[int, int] = {}  # of torch's devices "xpu" the numbers that libaule has for them, where they are others
LEGACY_STREAM = 1  # the default stream, by the handle that is not NULL; of CUDA the array API's number for it as well, of ROCm that is 0


READ_ONLY = 1  # of the flags of a versioned DLPack tensor


class View:
    """A DLPack descriptor of somebody's tensor; keeps alive what the descriptor points to."""

    def __init__(self, owner: Any, data: int, device: tuple[int, int], dtype: tuple[int, int], shape: Any, strides: Any) -> None:
        rank = len(shape)
        self.owner, self.read_only = owner, False
        self.shape = tuple(shape)
        self._shape = (c_int64 * max(rank, 1))(*shape)
        self._strides = (c_int64 * max(rank, 1))(*strides)
        self.tensor = DLTensor(
            data=data, device=device, ndim=rank, dtype=DLDataType(dtype[0], dtype[1], 1), shape=self._shape,
            strides=self._strides, byte_offset=0,
        )

    @property
    def dtype(self) -> tuple[int, int]:
        """(code, bits)."""
        return self.tensor.dtype.code, self.tensor.dtype.bits

    @property
    def device(self) -> tuple[int, int]:
        """(type, id) of DLPack."""
        return self.tensor.device.device_type, self.tensor.device.device_id


def _torch() -> Any:
    """torch, if the program has imported it: a tensor of it cannot exist otherwise."""
    return sys.modules.get("torch")


@lru_cache(maxsize=1)
def torch_gpu() -> int:
    """What torch's devices "cuda" are to DLPack: a torch made for ROCm calls AMD's so, too."""
    return ROCM if getattr(_torch().version, "hip", None) else CUDA


def check_writeable(tensors: Mapping[str, Any], operation: str) -> None:
    """Refuses arrays that the operation would write and that are read-only."""
    for name, x in tensors.items():
        flags = getattr(x, "flags", None)
        others = not is_torch(x) and not _is_numpy(x) and hasattr(x, "__dlpack__")
        if (flags is not None and not getattr(flags, "writeable", True)) or (others and _view_dlpack(x, name).read_only):
            raise ArgumentError(f"{name} is read-only, and {operation} writes it", "tensor")


def is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")  # _torch(), without a call: asked for every tensor
    return torch is not None and isinstance(x, torch.Tensor)


def _is_numpy(x: Any) -> bool:
    return isinstance(x, (numpy.ndarray, numpy.generic))


@lru_cache(maxsize=None)
def _numpy_name(dtype: Any) -> str:
    return dtype.name  # made anew each time it is asked for


def _type_named(name: str, what: str) -> tuple[int, int]:
    try:
        return TYPES[name]
    except KeyError:
        raise ArgumentError(f"{what} is of type {name}, which aule does not know", "tensor") from None


def _view_numpy(x: Any, what: str) -> View:
    if isinstance(x, numpy.ma.MaskedArray):
        raise ArgumentError(f"{what} is a masked array: pass {what}.filled(..), and the mask to a script that has one", "tensor")
    x = numpy.asarray(x)  # numpy.generic: a scalar, copied
    dtype = _type_named(_numpy_name(x.dtype), what)
    if not x.dtype.isnative:
        raise ArgumentError(f"{what} is of type {x.dtype.str}: its byte order is not the machine's", "tensor")
    if any(stride % x.itemsize for stride in x.strides):
        raise ArgumentError(f"{what} has strides of {x.strides} bytes, which are no multiples of its {x.itemsize} byte elements", "tensor")
    return View(x, x.ctypes.data, (CPU, 0), dtype, x.shape, [stride // x.itemsize for stride in x.strides])


def nested(what: str) -> str:
    """The rest of a message."""
    return f"is a nested tensor: call once for each of {what}.unbind(), or pad them (torch.nested.to_padded_tensor) and mask the rest"


def torch_trouble(x: Any, what: str) -> str | None:
    """Why a tensor of torch has no data that strides describe, and what to pass in its place."""
    if x.is_nested:
        return nested(what)
    if x.layout != _torch().strided:
        return f"is of layout {str(x.layout).removeprefix('torch.')}, not strided: pass {what}.to_dense()"
    if x.is_neg():
        return f"is a negated view: pass {what}.resolve_neg()"
    if x.is_quantized:
        return f"is quantized: pass {what}.dequantize()"
    if x._is_zerotensor():
        return f"is a tensor of zeros without data: pass {what}.clone()"
    if x.is_meta:
        return "is a meta tensor, which has no data"
    return None


def _view_torch(x: Any, what: str) -> View:
    trouble = torch_trouble(x, what)
    if trouble is not None:
        raise ArgumentError(f"{what} {trouble}", "tensor")
    dtype = _type_named(str(x.dtype).removeprefix("torch."), what)
    kind = torch_gpu() if x.device.type == "cuda" else TORCH_DEVICES.get(x.device.type)
    if kind is None:
        raise ArgumentError(f"{what} is on device {x.device}, which aule does not know", "tensor")
    place, offset = metal_buffer(x, what) if kind == METAL else (x.data_ptr(), 0)
    index = x.device.index or 0
    view = View(x, place, (kind, XPU_NUMBERS.get(index, index) if kind == ONEAPI else index), dtype, tuple(x.shape), x.stride())
    view.tensor.byte_offset = offset
    return view


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, [py_object, c_char_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.restype, _capsule_is.argtypes = ctypes.c_int, [py_object, c_char_p]


def metal_buffer(x: Any, what: str) -> tuple[int, int]:
    """The MTLBuffer of a tensor of torch on "mps", and the bytes before its first element: by DLPack, since what data_ptr() is there depends on
    torch's version: a buffer's handle with the offset added, which is no address, or an address of the host's."""
    capsule = _torch().utils.dlpack.to_dlpack(x.detach())
    tensor = DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    offset = x.storage_offset() * x.element_size()
    if tensor.device.device_type != METAL:
        raise ArgumentError(f"{what}: torch says by DLPack that it is on device type {tensor.device.device_type}, not Metal", "tensor")
    if tensor.byte_offset == offset:
        return tensor.data, offset
    if tensor.byte_offset == 0 and tensor.data == x.data_ptr() == x.untyped_storage().data_ptr() + offset:
        return tensor.data - offset, offset  # a torch that adds the offset to the handle here, too
    raise ArgumentError(f"{what}: what torch's DLPack says of it ({tensor.byte_offset} bytes) is not its offset ({offset}): pass {what}.clone()", "tensor")


def _view_dlpack(x: Any, what: str) -> View:
    """The capsule is kept, not consumed: its destructor gives the memory back when the call is over."""
    gpu = gpu_of(x)
    read_only = False
    capsule = x.__dlpack__() if gpu is None else x.__dlpack__(stream=0 if gpu[0] == ROCM else LEGACY_STREAM)
    if _capsule_is(capsule, b"dltensor"):
        tensor = DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    elif _capsule_is(capsule, b"dltensor_versioned"):
        managed = DLManagedTensorVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise ArgumentError(f"{what} speaks DLPack {managed.major}.{managed.minor}, aule 1", "tensor")
        tensor, read_only = managed.dl_tensor, bool(managed.flags & READ_ONLY)
    else:
        raise ArgumentError(f"{what} gives no DLPack tensor", "tensor")
    shape = [tensor.shape[n] for n in range(tensor.ndim)]
    strides = [tensor.strides[n] for n in range(tensor.ndim)] if tensor.strides else compact(shape)
    view = View((x, capsule), tensor.data, (tensor.device.device_type, tensor.device.device_id), (tensor.dtype.code, tensor.dtype.bits), shape, strides)
    view.tensor.dtype.lanes = tensor.dtype.lanes
    view.read_only = read_only
    view.tensor.byte_offset = tensor.byte_offset
    return view


def dlpack_device(x: Any) -> tuple[int, int]:
    """(type, id) of DLPack of the memory that it says; the host's of what does not say."""
    device = getattr(x, "__dlpack_device__", None)
    if device is None:
        return CPU, 0
    said = device()
    try:
        kind, index = said
        return int(kind), int(index)
    except (TypeError, ValueError):
        raise ArgumentError(f"__dlpack_device__ of a {type(x).__name__} says {said!r}, no pair of numbers", "tensor") from None


def library_of(x: Any) -> Any:
    """The array library (`__array_namespace__`) that makes results beside a tensor on a device."""
    if not hasattr(x, "__array_namespace__"):
        raise ArgumentError(f"a {type(x).__name__} is on a device, and its library has no __array_namespace__ to make results there: pass out=, or a tensor in the host's memory", "tensor")
    return x.__array_namespace__()


def gpu_of(x: Any) -> tuple[int, int] | None:
    """(type, id) of DLPack where a tensor is in memory of CUDA or ROCm, or torch's in that of Metal or (id: torch's number) Level Zero."""
    if is_torch(x):
        kind = torch_gpu() if x.device.type == "cuda" else TORCH_DEVICES.get(x.device.type, CPU)
        return None if kind == CPU else (kind, x.device.index or 0)
    kind, index = dlpack_device(x)
    return (kind, index) if kind in GPUS else None


def compact(shape: list[int]) -> list[int]:
    """Strides of a tensor without gaps, the last axis fastest."""
    strides = [1] * len(shape)
    for n in range(len(shape) - 1, 0, -1):
        strides[n - 1] = strides[n] * max(shape[n], 1)
    return strides


def not_a_tensor(x: Any, what: str) -> TypeError:
    return TypeError(f"{what} must be a NumPy array, a torch tensor or have __dlpack__, it is {type(x).__name__}")


def view(x: Any, what: str) -> View:
    """Describes a tensor; [what] is its name in messages.

    Raises:
        ArgumentError: of a type, layout or device that cannot be described.
        TypeError: not a tensor.
    """
    if _is_numpy(x):
        return _view_numpy(x, what)
    if is_torch(x):
        return _view_torch(x, what)
    if hasattr(x, "__dlpack__"):
        return _view_dlpack(x, what)
    raise not_a_tensor(x, what)


def describe(x: Any, what: str) -> tuple[Any, int, int, Any]:
    """What a prepared call depends on (equal for tensors that one call can take in turn), the address and an offset to it, which is not 0 where
    the address is a handle, and what keeps it valid.

    Fast for NumPy arrays and torch tensors; what cannot be described raises as :func:`view` does.
    """
    if type(x) is numpy.ndarray and x.ndim:
        return (x.dtype, x.shape, x.strides), x.__array_interface__["data"][0], 0, x
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor) and x.layout is torch.strided and not x.is_neg() and not x.is_nested and x.data_ptr():
        place, offset = metal_buffer(x, what) if x.is_mps else (x.data_ptr(), 0)
        return (x.dtype, x.shape, x.stride(), x.device), place, offset, x
    v = view(x, what)
    t = v.tensor
    strides = tuple(t.strides[n] for n in range(t.ndim))
    if v.device[0] == METAL:
        return (type(x), v.dtype, t.dtype.lanes, v.shape, strides, v.device), t.data or 0, t.byte_offset, v
    return (type(x), v.dtype, t.dtype.lanes, v.shape, strides, v.device), (t.data or 0) + t.byte_offset, 0, v  # results are of its library


def heads_inside(x: Any) -> bool:
    """Whether a tensor [B, H, S, D] is [B, S, H, D] in memory: outputs then are, too, as those who concatenate heads want it."""
    if is_torch(x):
        return x.dim() == 4 and bool(x.stride(1) < x.stride(2))
    strides = getattr(x, "strides", None)
    return strides is not None and len(strides) == 4 and strides[1] < strides[2]


def is_cupy(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "cupy"


def _empty_cupy(device: Any, shape: tuple[int, ...], name: str) -> Any:
    import cupy

    with device:  # CuPy has no device= for it
        return cupy.empty(shape, name)


def _empty(x: Any, shape: tuple[int, ...], name: str) -> Callable[[], Any]:
    if is_torch(x):
        torch = _torch()
        return partial(torch.empty, shape, dtype=getattr(torch, name), device=x.device)
    if is_cupy(x):
        return partial(_empty_cupy, x.device, shape, name)
    if gpu_of(x) is not None:
        library = library_of(x)
        return partial(library.empty, shape, dtype=getattr(library, name), device=x.device)
    if name != "bfloat16":
        return partial(numpy.empty, shape, numpy.dtype(name))
    if _is_numpy(x) and x.dtype.name == "bfloat16":
        return partial(numpy.empty, shape, x.dtype)
    import ml_dtypes  # bfloat16 is not NumPy's own

    return partial(numpy.empty, shape, numpy.dtype(ml_dtypes.bfloat16))


def maker(x: Any, shape: tuple[int, ...], dtype: tuple[int, int], inside: bool = False) -> Callable[[], Any]:
    """Makes new tensors for a result, of the library and the device of [x]: NumPy arrays where that is a library that cannot write
    into its own tensors or offers no way to make one (see :func:`finished`).

    Args:
        inside: [B, S, H, D] in memory.
    """
    if not inside:
        return _empty(x, tuple(shape), NAMES[dtype])
    b, h, s, d = shape
    swapped = _empty(x, (b, s, h, d), NAMES[dtype])
    return lambda: swapped().swapaxes(1, 2)


LISTS_ALIGN = 64  # bytes of which the address of lists of work is a multiple


def lists_maker(x: Any, shape: tuple[int, ...], dtype: tuple[int, int]) -> Callable[[], Any]:
    """As :func:`maker`, of lists of work; NumPy's own memory begins anywhere."""
    make = maker(x, shape, dtype)
    if is_torch(x) or gpu_of(x) is not None:
        return make

    def aligned() -> Any:
        space: Any = numpy.empty(shape[0] * 4 + LISTS_ALIGN, "uint8")
        first = -space.__array_interface__["data"][0] % LISTS_ALIGN
        return space[first : first + shape[0] * 4].view("int32")

    return aligned


def finished(x: Any, result: Any) -> Any:
    """A result that :func:`maker` made, as a tensor of the library of [x]."""
    if _is_numpy(x) or not _is_numpy(result) or not hasattr(x, "__array_namespace__"):
        return result
    return x.__array_namespace__().asarray(result)
