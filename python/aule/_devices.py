"""Devices of the runtime."""

from __future__ import annotations

import ctypes
import threading
from ctypes import c_void_p
from dataclasses import dataclass

from ._libaule import library

KINDS = ("cpu", "gpu", "other")


@dataclass(frozen=True)
class DeviceInfo:
    """A device, or a backend that is not available.

    Attributes:
        id: what ``device=`` takes: "cpu", "opencl:1".
        backend: "cpu", "opencl".
        available: whether it can be used.
        reason: why not; "" if it can.
        name: the driver's name for it.
        driver: platform and version.
        features: what kernels may ask for.
        kind: "cpu", "gpu" or "other".
        units: cores or compute units.
        memory_bytes: of the device; 0 if unknown.
    """

    id: str
    backend: str
    available: bool
    reason: str
    name: str
    driver: str
    features: tuple[str, ...]
    kind: str
    units: int
    memory_bytes: int


def devices() -> list[DeviceInfo]:
    """All devices of all backends, in order of preference, with one entry for each backend that is not available."""
    lib = library()
    handle = lib.handle(lib.device_list_new, None)
    try:
        infos = [lib.device_list_get(handle, n).contents for n in range(lib.device_list_count(handle))]
        return [
            DeviceInfo(
                i.id.decode(), i.backend.decode(), bool(i.available), i.reason.decode(), i.name.decode(errors="replace"),
                i.driver.decode(errors="replace"), tuple(i.features.decode().split()), KINDS[min(i.kind, 2)], i.units, i.memory_bytes,
            )
            for i in infos
        ]
    finally:
        lib.device_list_free(handle)


def describe_devices() -> str:
    """Every backend and device as text, available or why not: what ``python -m aule devices`` prints."""
    lib = library()
    text = lib.handle(lib.describe_devices, None)
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        lib.text_free(text)


def print_backend_info() -> None:
    """Prints :func:`describe_devices`."""
    print(describe_devices(), end="")


class Device:
    """An open device. Devices are opened once a process and stay open: they own threads and compiled code."""

    _open: dict[str, "Device"] = {}
    _lock = threading.Lock()

    def __init__(self, name: str) -> None:
        lib = library()
        self.handle: c_void_p = lib.handle(lib.device_open, name.encode(), None)
        info = lib.device_get_info(self.handle).contents
        self.backend: str = info.backend.decode()
        self.dl = (info.dl.device_type, info.dl.device_id)

    @classmethod
    def get(cls, name: str) -> "Device":
        """The device of that id.

        Raises:
            Error: there is none, or it is not available; the message says why.
        """
        with cls._lock:
            if name not in cls._open:
                cls._open[name] = cls(name)
            return cls._open[name]
