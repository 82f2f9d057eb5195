"""Copies of host tensors on a device that does not see host memory, for calls that ask for such a device by name."""

from __future__ import annotations

from typing import Any, Mapping

from ._devices import Device
from ._errors import ArgumentError
from ._libaule import library
from ._tensors import View


def span(v: View) -> tuple[int, int]:
    """First byte and end of what the tensor covers, from its element 0."""
    strides = [v.tensor.strides[n] for n in range(v.tensor.ndim)]
    ends = [(n - 1) * stride for n, stride in zip(v.shape, strides)]
    size = v.tensor.dtype.bits // 8
    if 0 in v.shape:
        return 0, 0
    return size * sum(min(end, 0) for end in ends), size * (sum(max(end, 0) for end in ends) + 1)


class Staged:
    """With-block around a launch: uploads on entry, downloads the outputs on exit.

    Attributes:
        views: the tensors on the device, inputs and outputs, by name.
    """

    def __init__(self, device: Device, inputs: Mapping[str, View], outputs: Mapping[str, View], fresh: set[str]) -> None:
        self._device = device
        self._inputs, self._outputs = inputs, outputs
        self._fresh = fresh  # outputs made for this call: compact, nothing in them to keep
        self._buffers: dict[str, Any] = {}
        self.views: dict[str, View] = {}

    def _stage(self, name: str, v: View, upload: bool) -> None:
        lib = library()
        if not v.on_host:
            raise ArgumentError(f"{name} is not in host memory; device={self._device.backend!r} takes copies of host tensors only", "tensor")
        first, end = span(v)
        buffer = lib.handle(lib.buffer_new, self._device.handle, max(end - first, 1))
        self._buffers[name] = buffer
        if upload and end > first:
            lib.buffer_upload(buffer, 0, self._address(v) + first, end - first)
        strides = [v.tensor.strides[n] for n in range(v.tensor.ndim)]
        copy = View(v, lib.buffer_data(buffer), self._device.dl, v.dtype, v.shape, strides)
        copy.tensor.byte_offset = -first
        self.views[name] = copy

    @staticmethod
    def _address(v: View) -> int:
        return (v.tensor.data or 0) + v.tensor.byte_offset

    def __enter__(self) -> "Staged":
        try:
            for name, v in self._inputs.items():
                self._stage(name, v, upload=True)
            for name, v in self._outputs.items():
                self._stage(name, v, upload=name not in self._fresh)  # gaps between its rows come back as they were
        except BaseException:
            self._free()
            raise
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        lib = library()
        try:
            for name, v in self._outputs.items():
                first, end = span(v)
                if kind is None and end > first:
                    lib.buffer_download(self._buffers[name], 0, self._address(v) + first, end - first)
        finally:
            self._free()

    def _free(self) -> None:
        for buffer in self._buffers.values():
            library().buffer_free(buffer)
        self._buffers.clear()
