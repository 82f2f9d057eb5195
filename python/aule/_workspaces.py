"""Memory of runs. On processors fresh pages cost a fault each, which for the sums of a backward run can be a third of its time; so a thread keeps what its last
run used. On GPUs torch's allocator takes microseconds of a call that takes twenty; so calls like one before keep a little for each stream, whose runs are one after the other."""

from __future__ import annotations

import ctypes
import mmap
import threading

from typing import Any

from ._errors import Error

ON_STREAM = 16 << 20  # bytes that are kept for a stream at most
STREAMS = 64  # that have some
KEPT = 128 << 20  # bytes that a thread keeps at most
SMALL = 4 << 20  # where huge pages begin to pay


class HostMemory:
    """Pages of this process alone: children have their own after a fork."""

    def __init__(self, size: int) -> None:
        try:
            self._pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            raise Error(f"a call needs a workspace of {size} bytes, which this system does not give: {error}", "memory") from None
        self.size = size
        if size >= SMALL and hasattr(mmap, "MADV_HUGEPAGE"):
            try:
                self._pages.madvise(mmap.MADV_HUGEPAGE)
            except OSError:
                pass  # a kernel without them; pages are what they are
        self.data: int = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))


_threads = threading.local()


def take(size: int) -> HostMemory:
    """At least [size] bytes at the beginning of a page, nobody else's until they are given back."""
    kept: HostMemory | None = _threads.__dict__.pop("kept", None)
    return kept if kept is not None and kept.size >= size else HostMemory(size)


def give_back(memory: HostMemory) -> None:
    if memory.size <= KEPT:
        _threads.kept = memory


class StreamMemory:
    """Memory of a GPU, for one run after the other."""

    __slots__ = ("tensor", "data", "size", "align")

    def __init__(self, byte: Any, size: int, align: int) -> None:
        self.tensor = byte.new_empty(size + align)
        self.data: int = -(-self.tensor.data_ptr() // align) * align
        self.size, self.align = size, align


Place = tuple[int, int]  # a GPU's number and a stream of it
_streams: dict[Place, StreamMemory] = {}


def take_on(place: Place, byte: Any, size: int, align: int) -> StreamMemory:
    """At least [size] bytes beside [byte], for launches on that stream, nobody else's until they are given back."""
    kept = _streams.pop(place, None)
    return kept if kept is not None and kept.size >= size and kept.align >= align else StreamMemory(byte, size, align)


def give_back_on(place: Place, memory: StreamMemory) -> None:
    """As soon as all is launched: what comes next on the stream waits for it. Not of a stream that is captured, since a graph's memory is its own."""
    if memory.size <= ON_STREAM:
        if len(_streams) >= STREAMS:
            _streams.clear()
        _streams[place] = memory
