"""Memory of runs on processors. Fresh pages cost a fault each, which for the sums of a backward run can be a third of its time; so a
thread keeps what its last run used."""

from __future__ import annotations

import ctypes
import mmap
import threading

from ._errors import Error

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
