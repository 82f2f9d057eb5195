"""Tensors of torch on "xpu" where they are: the context and the queues of SYCL's that they belong to, which only C++ gives out. A small library of ours does
(runtime/sycl), made where SYCL is; without it such tensors are copied."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint8, c_uint32, c_void_p
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ._errors import Error, LibraryError
from ._libaule import QUEUE_COMMANDS, DeviceOptions
from ._libraries import load_library
from ._tensors import XPU_NUMBERS

if TYPE_CHECKING:
    from ._devices import Device


class Queue(Structure):
    """aule_sycl_queue"""

    _fields_ = [("context", c_void_p), ("queue", c_void_p), ("queue_kind", c_uint32), ("uuid", c_uint8 * 16)]


@lru_cache(maxsize=None)
def _library() -> Any:
    """libaule_sycl; None: it was not made."""
    try:
        cdll, _ = load_library("aule_sycl")
    except LibraryError:
        return None
    cdll.aule_sycl_read.restype = cdll.aule_sycl_wait.restype = c_int
    cdll.aule_sycl_read.argtypes = [c_void_p, POINTER(Queue), c_char_p, c_size_t]
    cdll.aule_sycl_wait.argtypes = [c_void_p, c_char_p, c_size_t]
    return cdll


def _current(index: int) -> int:
    """The address of the sycl::queue on which torch works now."""
    import torch

    return int(torch.xpu.current_stream(index).sycl_queue)


def _read(index: int, at: int) -> Queue:
    made, why = Queue(), ctypes.create_string_buffer(256)
    if _library().aule_sycl_read(at, byref(made), why, len(why)):
        raise Error(f"the queue of torch's xpu:{index}: {why.value.decode(errors='replace')}", "device")
    return made


_why: dict[int, str] = {}


def why_not(index: int) -> str:
    """Why tensors of that device of torch's cannot stay where they are; "" if they can."""
    if index not in _why:
        if _library() is None:
            return "libaule_sycl is not there, which knows torch's queue (docs/python.md)"
        try:
            _read(index, _current(index))
            _why[index] = ""
        except Error as error:
            _why[index] = str(error)
    return _why[index]


def opened(of: type[Device], index: int) -> Device:
    """libaule's device with torch's context."""
    queue = _read(index, _current(index))
    options = DeviceOptions(struct_size=ctypes.sizeof(DeviceOptions), queue_kind=queue.queue_kind, context=queue.context)
    device = of(f"levelzero:{UUID(bytes=bytes(queue.uuid))}", options, index)
    XPU_NUMBERS[index] = device.dl[1]
    return device


def is_apart(device: Device) -> bool:
    """Whether SYCL keeps commands back before it puts them on the queue that is ours, too: both then wait for each other."""
    return device.xpu is not None and device.queue_kind == QUEUE_COMMANDS


def queue_of(device: Device) -> int:
    """The list, or queue, of Level Zero on which torch works now."""
    assert device.xpu is not None
    at = _current(device.xpu)
    made = _read(device.xpu, at)
    if made.queue_kind != device.queue_kind:
        raise Error(f"torch's xpu:{device.xpu} has immediate lists and command queues, a device of libaule's has one of them", "device")
    if is_apart(device):
        why = ctypes.create_string_buffer(256)
        if _library().aule_sycl_wait(at, why, len(why)):
            raise Error(f"waiting for the queue of torch's xpu:{device.xpu}: {why.value.decode(errors='replace')}", "device")
    queue: int = made.queue
    return queue
