"""Host tensors on a device that does not see host memory, for calls that ask for such a device by name: copies, or, where the device has such
buffers, the pages in which they lie."""

from __future__ import annotations

import mmap
from typing import Any, Mapping

from ._devices import Device
from ._errors import Error
from ._libaule import library
from ._tensors import View


IN_PLACE = ("metal",)  # backends with buffers of the process's memory


def span(v: View) -> tuple[int, int]:
    """First byte and end of what the tensor covers, from its element 0."""
    strides = [v.tensor.strides[n] for n in range(v.tensor.ndim)]
    ends = [(n - 1) * stride for n, stride in zip(v.shape, strides)]
    size = v.tensor.dtype.bits // 8
    if 0 in v.shape:
        return 0, 0
    return size * sum(min(end, 0) for end in ends), size * (sum(max(end, 0) for end in ends) + 1)


def address(v: View) -> int:
    """Of element 0."""
    return (v.tensor.data or 0) + v.tensor.byte_offset


def together(views: Mapping[str, View], written: set[str]) -> list[list[str]]:
    """Names of tensors whose bytes lie between each other's, of which some are written: keys and values in one tensor. Others are a list each."""
    groups: list[tuple[int, list[str]]] = []  # the end of all that is in it, and the names
    alone = []
    for (first, end), name in sorted(((address(v) + span(v)[0], address(v) + span(v)[1]), name) for name, v in views.items()):
        if first == end:
            alone.append([name])
        elif groups and first < groups[-1][0]:
            groups[-1] = max(groups[-1][0], end), [*groups[-1][1], name]
        else:
            groups.append((end, [name]))
    made = [names for _, names in groups]
    return alone + [one for names in made for one in ([names] if written & set(names) else [[name] for name in names])]


def in_place(device: Device, first: int, end: int) -> tuple[Any, int] | None:
    """A buffer of the pages around these bytes, and where they begin; None: the device, or its driver, wants copies."""
    page = mmap.PAGESIZE
    start = first - first % page
    if device.backend not in IN_PLACE or end == first:
        return None
    try:
        return library().handle(library().buffer_host, device.handle, start, -(-end // page) * page - start), start
    except Error as error:
        if error.status != "unsupported":
            raise
        return None


class Staged:
    """With-block around a launch: uploads on entry, downloads the outputs on exit; what is in place is only waited for.

    Attributes:
        views: the tensors on the device, inputs and outputs, by name.
    """

    def __init__(self, device: Device, inputs: Mapping[str, View], outputs: Mapping[str, View], fresh: set[str]) -> None:
        self._device = device
        self._inputs, self._outputs = inputs, outputs
        self._fresh = fresh  # outputs made for this call: compact, nothing in them to keep
        self._buffers: dict[str, Any] = {}
        self._of: dict[str, Any] = {}  # the buffer that a tensor is in
        self._placed: set[str] = set()  # tensors that were not copied
        self._starts: dict[str, int] = {}  # of each tensor's buffer the address on the host that its first byte has
        self.views: dict[str, View] = {}

    def _stage(self, views: Mapping[str, View], upload: bool) -> None:
        """Tensors in a buffer of their own, which begins as far behind a multiple of 64 as they do where there are several."""
        lib = library()
        spans = {name: tuple(address(v) + at for at in span(v)) for name, v in views.items()}
        first, end = min(s[0] for s in spans.values()), max(s[1] for s in spans.values())
        start = first - (first % 64 if len(views) > 1 else 0)
        aligned = all(address(v) % (v.tensor.dtype.bits // 8) == 0 for v in views.values())  # as kernels read; a copy begins where it should
        placed = in_place(self._device, first, end) if aligned else None
        if placed is not None:
            buffer, start = placed
            self._placed.update(views)
        else:
            buffer = lib.handle(lib.buffer_new, self._device.handle, max(end - start, 1))
        self._buffers[next(iter(views))] = buffer
        if placed is None and upload and end > first:
            lib.buffer_upload(buffer, first - start, first, end - first)
        for name, v in views.items():
            strides = [v.tensor.strides[n] for n in range(v.tensor.ndim)]
            copy = View(v, lib.buffer_data(buffer), self._device.dl, v.dtype, v.shape, strides)
            copy.tensor.byte_offset = address(v) - start
            self.views[name], self._starts[name], self._of[name] = copy, start, buffer

    def __enter__(self) -> "Staged":
        every = {**self._inputs, **self._outputs}
        try:
            for names in together(every, set(self._outputs)):
                # Gaps between rows of what is written come back as they were
                self._stage({name: every[name] for name in names}, upload=not self._fresh.issuperset(names))
            self.views = {name: self.views[name] for name in every}
        except BaseException:
            self._free()
            raise
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        lib = library()
        try:
            if self._placed:
                lib.device_synchronize(self._device.handle, None)  # also after an error: their memory may go
            for name, v in self._outputs.items():
                first, end = span(v)
                if kind is None and end > first and name not in self._placed:
                    at = address(v) + first
                    lib.buffer_download(self._of[name], at - self._starts[name], at, end - first)
        finally:
            self._free()

    def _free(self) -> None:
        for buffer in self._buffers.values():
            library().buffer_free(buffer)
        self._buffers.clear()
