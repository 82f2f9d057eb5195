"""Tensors of other libraries as DLPack descriptors, without copies, and new tensors of the same library.

NumPy arrays and torch tensors are read directly, since ``__dlpack__`` refuses some that are fine (read-only arrays, types that
NumPy lacks); everything else goes through ``__dlpack__``.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_char_p, c_int64, c_void_p, py_object
from functools import lru_cache
from typing import Any

from ._errors import ArgumentError
from ._libaule import BF16, F16, F32, DLDataType, DLManagedTensorVersioned, DLTensor

CPU = 1  # kDLCPU
INT, UINT, FLOAT, BFLOAT, BOOL = 0, 1, 2, 4, 6  # DLDataTypeCode

# (code, bits) of DLPack by the name that NumPy and torch share
TYPES = {
    "float32": (FLOAT, 32), "float16": (FLOAT, 16), "bfloat16": (BFLOAT, 16), "float64": (FLOAT, 64), "int8": (INT, 8),
    "int16": (INT, 16), "int32": (INT, 32), "int64": (INT, 64), "uint8": (UINT, 8), "uint16": (UINT, 16), "uint32": (UINT, 32),
    "uint64": (UINT, 64), "bool": (BOOL, 8),
}
NAMES = {code: name for name, code in TYPES.items()}
OPERANDS = {TYPES["float32"]: F32, TYPES["float16"]: F16, TYPES["bfloat16"]: BF16}
TORCH_DEVICES = {"cpu": CPU, "cuda": 2, "mps": 8, "xpu": 14}


class View:
    """A DLPack descriptor of somebody's tensor; keeps alive what the descriptor points to."""

    def __init__(self, owner: Any, data: int, device: tuple[int, int], dtype: tuple[int, int], shape: Any, strides: Any) -> None:
        rank = len(shape)
        self.owner = owner
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
    def on_host(self) -> bool:
        return self.tensor.device.device_type == CPU


def _torch() -> Any:
    """torch, if the program has imported it: a tensor of it cannot exist otherwise."""
    return sys.modules.get("torch")


def is_torch(x: Any) -> bool:
    torch = _torch()
    return torch is not None and isinstance(x, torch.Tensor)


def _is_numpy(x: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic))


@lru_cache(maxsize=None)
def _numpy_name(dtype: Any) -> str:
    return dtype.name  # made anew each time it is asked for


def _type_named(name: str, what: str) -> tuple[int, int]:
    try:
        return TYPES[name]
    except KeyError:
        raise ArgumentError(f"{what} is of type {name}, which aule does not know", "tensor") from None


def _view_numpy(x: Any, what: str) -> View:
    import numpy

    x = numpy.asarray(x)  # numpy.generic: a scalar, copied
    dtype = _type_named(_numpy_name(x.dtype), what)
    if not x.dtype.isnative:
        raise ArgumentError(f"{what} is of type {x.dtype.str}: its byte order is not the machine's", "tensor")
    if any(stride % x.itemsize for stride in x.strides):
        raise ArgumentError(f"{what} has strides of {x.strides} bytes, which are no multiples of its {x.itemsize} byte elements", "tensor")
    return View(x, x.ctypes.data, (CPU, 0), dtype, x.shape, [stride // x.itemsize for stride in x.strides])


def _view_torch(x: Any, what: str) -> View:
    torch = _torch()
    if x.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(
            f"{what} requires a gradient, and this version computes forward only; call under torch.no_grad() or pass {what}.detach()",
            "tensor",
        )
    if x.layout != torch.strided or x.is_neg():
        raise ArgumentError(f"{what} is not a plain strided tensor; pass {what}.to_dense() or {what}.resolve_neg()", "tensor")
    dtype = _type_named(str(x.dtype).removeprefix("torch."), what)
    kind = TORCH_DEVICES.get(x.device.type)
    if kind is None:
        raise ArgumentError(f"{what} is on device {x.device}, which aule does not know", "tensor")
    return View(x, x.data_ptr(), (kind, x.device.index or 0), dtype, tuple(x.shape), x.stride())


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, [py_object, c_char_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.restype, _capsule_is.argtypes = ctypes.c_int, [py_object, c_char_p]


def _view_dlpack(x: Any, what: str) -> View:
    """The capsule is kept, not consumed: its destructor gives the memory back when the call is over."""
    capsule = x.__dlpack__()
    if _capsule_is(capsule, b"dltensor"):
        tensor = DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    elif _capsule_is(capsule, b"dltensor_versioned"):
        managed = DLManagedTensorVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise ArgumentError(f"{what} speaks DLPack {managed.major}.{managed.minor}, aule 1", "tensor")
        tensor = managed.dl_tensor
    else:
        raise ArgumentError(f"{what} gives no DLPack tensor", "tensor")
    shape = [tensor.shape[n] for n in range(tensor.ndim)]
    strides = [tensor.strides[n] for n in range(tensor.ndim)] if tensor.strides else compact(shape)
    view = View((x, capsule), tensor.data, (tensor.device.device_type, tensor.device.device_id), (tensor.dtype.code, tensor.dtype.bits), shape, strides)
    view.tensor.dtype.lanes = tensor.dtype.lanes
    view.tensor.byte_offset = tensor.byte_offset
    return view


def compact(shape: list[int]) -> list[int]:
    """Strides of a tensor without gaps, the last axis fastest."""
    strides = [1] * len(shape)
    for n in range(len(shape) - 1, 0, -1):
        strides[n - 1] = strides[n] * max(shape[n], 1)
    return strides


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
    raise TypeError(f"{what} must be a NumPy array, a torch tensor or have __dlpack__, it is {type(x).__name__}")


def new_like(x: Any, shape: tuple[int, ...], dtype: tuple[int, int]) -> Any:
    """A new host tensor of the same library as [x]; a NumPy array where that library offers no way."""
    name = NAMES[dtype]
    if is_torch(x):
        torch = _torch()
        return torch.empty(shape, dtype=getattr(torch, name), device=x.device)
    import numpy

    if name != "bfloat16":
        return numpy.empty(shape, dtype=name)
    if _is_numpy(x) and x.dtype.name == "bfloat16":
        return numpy.empty(shape, dtype=x.dtype)
    import ml_dtypes  # bfloat16 is not NumPy's own

    return numpy.empty(shape, dtype=ml_dtypes.bfloat16)
