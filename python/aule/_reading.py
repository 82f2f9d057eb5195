"""What the tensors of a call are: their addresses, and all else that a plan depends on, in one value that calls alike have in common.

torch has a table of functions in C for it from 2.10 on (DLPack's exchange interface), by which libaule reads all tensors of a call at once (aule_objects_read); asking each
attribute by itself, as of versions before, takes most of a call's time on the host.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

from . import _libaule as abi

WORDS = 512  # room for what the tensors of a call are, and for a run
ROOM = 8 * WORDS
HEAD = abi.OBJECTS.size
EXCHANGE = b"dlpack_exchange_api"
MAJOR, READER = 1, 5  # its version, and in which word the reader is

TUPLE = tuple.__basicsize__  # bytes before the first item of a tuple, which are references, one after the other

Read = tuple[Any, tuple[int, ...]]


class Scratch:
    """Memory of one call at a time: what libaule reads, and a run of a plan."""

    __slots__ = ("memory", "at")

    def __init__(self) -> None:
        self.memory = (ctypes.c_char * ROOM)()
        self.at = ctypes.addressof(self.memory)


_free: list[Scratch] = []  # a call that is made within another one, or beside it, has its own


def take_scratch() -> Scratch:
    try:
        return _free.pop()
    except IndexError:
        return Scratch()


give_scratch = _free.append


class Reader:
    """Reads the tensors of torch, of a version that has the table."""

    def __init__(self, function: int) -> None:
        self._function, self._none = function, id(None)
        self._library = abi.library().objects_read

    def read(self, tensors: tuple[Any, ...]) -> Read | None:
        """None: one has no memory, or is no tensor like others."""
        scratch = take_scratch()
        try:
            memory, at, count = scratch.memory, scratch.at, len(tensors)
            first = HEAD + 8 * (count + 1)  # of the words, behind the addresses
            abi.OBJECTS.pack_into(memory, 0, HEAD, self._function, self._none, id(tensors) + TUPLE, count, at + HEAD, at + first, WORDS - first // 8)
            words = self._library(at) if first < ROOM else 0
            return (memory[first : first + 8 * words], _addresses(count).unpack_from(memory, HEAD)) if words else None
        except Exception:  # whatever torch raises of a tensor that it does not describe; the long way looks at it
            return None
        finally:
            give_scratch(scratch)


@lru_cache(maxsize=None)
def _addresses(count: int) -> struct.Struct:
    return struct.Struct(f"={count + 1}Q")


def _read_each(tensors: tuple[Any, ...]) -> Read | None:
    """The same by attributes, of any version."""
    strided = tensors[0].layout
    what: list[Any] = []
    places, bits = [], 0
    for x in tensors:
        if x is None:
            what.append(None)
            places.append(0)
            continue
        if x.layout is not strided or x.is_nested:
            return None
        at = x.data_ptr()
        if not at:
            return None
        bits |= at
        places.append(at)
        what += x.dtype, x.shape, x.stride(), x.device
    return (*what, bits & 15 == 0), (*places, 0)


class Torch:
    """Of torch, what calls ask again and again.

    Attributes:
        plain: classes of tensors that do nothing but what tensors do.
        read: of tensors of which the first is a tensor, and others may be None, what they are, with their addresses and a 0 behind them; None: of one nothing is known.
    """

    def __init__(self, torch: Any) -> None:
        of = torch._C
        self.plain = frozenset((torch.Tensor, torch.nn.Parameter))
        self.is_negative = torch.Tensor.is_neg
        self.wants_gradient = attrgetter("requires_grad")
        self.records = torch.is_grad_enabled
        self.read: Callable[[tuple[Any, ...]], Read | None] = _exchange(torch) or _read_each
        self._traces, self._dispatches, self._transforms = of._get_tracing_state, of._len_torch_dispatch_stack, of._functorch.peek_interpreter_stack
        self._casts: Callable[[], bool] = getattr(of, "_is_any_autocast_enabled", None) or (lambda: torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"))
        self._forward = torch.autograd.forward_ad

    def is_watched(self) -> bool:
        """Whether something wants to know of calls, or to do something else in their place."""
        return self._traces() is not None or self._dispatches() or self._transforms() is not None or self._forward._current_level >= 0 or self._casts()


def _exchange(torch: Any) -> Callable[[tuple[Any, ...]], Read | None] | None:
    """By the table, where there is one that we know."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None or not hasattr(ctypes, "pythonapi"):
        return None
    of = ctypes.pythonapi.PyCapsule_GetPointer
    of.restype, of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        table = (ctypes.c_uint64 * (READER + 1)).from_address(of(capsule, EXCHANGE))
    except ValueError:  # another capsule
        return None
    pair = capsule, torch
    if ctypes.c_void_p.from_address(id(pair) + TUPLE).value != id(capsule):  # not the interpreter that we know
        return None
    return Reader(table[READER]).read if table[0] & 0xFFFFFFFF == MAJOR and table[READER] else None


@lru_cache(maxsize=None)
def of_torch(torch: Any) -> Torch:
    return Torch(torch)
