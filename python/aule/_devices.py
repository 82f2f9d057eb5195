"""Devices of the runtime."""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import c_void_p
from dataclasses import dataclass
from typing import Any

from ._errors import Error
from ._libaule import DeviceOptions, library
from ._tensors import BACKENDS, gpu_of

KINDS = ("cpu", "gpu", "other")


@dataclass(frozen=True)
class DeviceInfo:
    """A device, or a backend that is not available.

    Attributes:
        id: what ``device=`` takes: "cpu", "opencl:1".
        backend: "cpu", "opencl", "cuda", "hip", "levelzero", "metal", "vulkan".
        available: whether it can be used.
        reason: why not; "" if it can.
        name: the driver's name for it.
        driver: platform and version.
        features: what kernels may ask for.
        kind: "cpu", "gpu" or "other".
        units: cores or compute units.
        memory_bytes: of the device; 0 if unknown.
        uuid: what it is called whatever else is in the machine, "vulkan:UUID", "hip:UUID" or "levelzero:UUID" being its id, too; "" if its driver is not asked.
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
    uuid: str = ""


def devices() -> list[DeviceInfo]:
    """All devices of all backends, with one entry for each backend that is not available."""
    lib = library()
    handle = lib.handle(lib.device_list_new, None)
    try:
        infos = [lib.device_list_get(handle, n).contents for n in range(lib.device_list_count(handle))]
        return [
            DeviceInfo(
                i.id.decode(), i.backend.decode(), bool(i.available), i.reason.decode(), i.name.decode(errors="replace"),
                i.driver.decode(errors="replace"), tuple(i.features.decode().split()), KINDS[min(i.kind, 2)], i.units, i.memory_bytes, i.uuid.decode(),
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


REQUIRES = {
    "cpu": "nothing", "opencl": "libOpenCL.so.1 and a driver", "cuda": "libcuda.so.1, which NVIDIA's driver brings", "hip": "libamdhip64.so",
    "levelzero": "libze_loader.so.1 and a driver", "metal": "macOS", "vulkan": "libvulkan.so.1 and a driver",
}


def _by_preference(found: list[DeviceInfo]) -> dict[str, list[DeviceInfo]]:
    """Devices by backend, in the order in which the runtime takes one: its own kernels for the processor come before those of a driver
    that has nothing but the processor."""
    backends: dict[str, list[DeviceInfo]] = {}
    for d in found:
        backends.setdefault(d.backend, []).append(d)
    after_cpu = [name for name, every in backends.items() if name != "cpu" and all(d.available and d.kind == "cpu" for d in every)]
    return {name: backends[name] for name in [*(n for n in backends if n not in after_cpu), *after_cpu]}


def get_available_backends() -> list[str]:
    """The backends that can be used on this machine, in order of preference: the first is the fastest that there is. Host tensors are
    nevertheless computed on the processor unless a call, or the environment, names another."""
    return [name for name, every in _by_preference(devices()).items() if any(d.available for d in every)]


def get_backend_info() -> dict[str, dict[str, Any]]:
    """What is known of each backend of this build, in order of preference.

    Returns:
        by backend: "available"; "reason", why it is not, else ""; "description", its devices by name; "devices", their
        :class:`DeviceInfo`; "requires", what it needs; "performance", how to learn it: nothing is promised here.
    """

    def info(name: str, every: list[DeviceInfo]) -> dict[str, Any]:
        usable = [d for d in every if d.available]
        return {
            "available": bool(usable), "reason": "" if usable else every[0].reason, "description": ", ".join(d.name for d in usable),
            "devices": usable, "requires": REQUIRES.get(name, ""), "performance": "measured by `aule bench`",
        }

    return {name: info(name, every) for name, every in _by_preference(devices()).items()}


def print_backend_info() -> None:
    """Prints every backend and device, available or why not (:func:`describe_devices`), and which one is used by default."""
    print(describe_devices(), end="")
    print(f"used for host tensors: {chosen() or 'cpu'}")


_named: list[str | None] = []  # what `chosen` found; no cache of functools, at which torch.compile warns


def chosen() -> str | None:
    """The device that the environment names, which is read once: AULE_DEVICE with a whole id ("opencl:1"), or AULE_BACKEND, whose device number
    AULE_DEVICE may give. None: it names none."""
    if not _named:
        _named.append(_from_environment())
    return _named[0]


def _from_environment() -> str | None:
    backend, device = os.environ.get("AULE_BACKEND"), os.environ.get("AULE_DEVICE")
    if not device:
        return backend or None
    if not (device.isascii() and device.isdigit()):
        return device
    if not backend or "," in backend or ":" in backend:
        raise Error(f"AULE_DEVICE={device} is a number: AULE_BACKEND must name the one backend whose device it is, it is {backend!r}", "device")
    return f"{backend}:{device}"


def _where(x: Any) -> tuple[str, int] | None:
    """Backend and number of the device in whose memory a tensor is; None: in the host's, or where no backend of ours looks for it."""
    gpu = None if type(x).__module__ == "numpy" else gpu_of(x)
    return None if gpu is None else (BACKENDS[gpu[0]], gpu[1])


class Device:
    """An open device. Devices are opened once a process and stay open: they own threads and compiled code."""

    _open: dict[str, "Device"] = {}
    _lock = threading.Lock()

    def __init__(self, name: str, options: DeviceOptions | None = None, xpu: int | None = None) -> None:
        lib = library()
        self.handle: c_void_p = lib.handle(lib.device_open, name.encode(), None if options is None else ctypes.byref(options))
        self.xpu = xpu  # whose memory and queue it has: torch's device "xpu" of that number
        self.queue_kind: int = 0 if options is None else options.queue_kind
        info = lib.device_get_info(self.handle).contents
        self.id: str = info.id.decode()
        self.backend: str = info.backend.decode()
        self.features = tuple(info.features.decode().split())
        self.dl = (info.dl.device_type, info.dl.device_id)

    @classmethod
    def get(cls, name: str) -> "Device":
        """The device of that id.

        Raises:
            Error: there is none, or it is not available; the message says why.
        """
        found = cls._open.get(name) if isinstance(name, str) else None
        if found is not None:
            return found
        if not isinstance(name, str):
            raise TypeError(f"a device is named by its id, as aule.devices() has it: \"cpu\", \"opencl:1\"; this is {name!r}")
        with cls._lock:
            if name not in cls._open:
                cls._open[name] = cls._first(name.split(","))
            return cls._open[name]

    @classmethod
    def _first(cls, names: list[str]) -> "Device":
        """The first of them that can be opened, once all are names that there could be, as in libaule."""
        names = [name.strip() for name in names]
        for name in names:
            if name.partition(":")[0] not in REQUIRES:
                return cls(name)  # which says that there is no such backend
        for name in names[:-1]:
            try:
                return cls(name)
            except Error:
                pass
        return cls(names[-1])

    @classmethod
    def of(cls, device: str | None, x: Any) -> "Device":
        """The device for a call: what the caller names, else what the environment names, else where the tensor [x] is."""
        name = device if device is not None and device != "auto" else chosen()
        at = _where(x)
        if at is not None and at[0] == "levelzero":
            there = cls._of_xpu(at[1])
            if there is not None and name in (None, "levelzero", there.id):
                return there
        if name is None:
            return cls.get("cpu" if at is None else f"{at[0]}:{at[1]}")
        return cls.get(f"{name}:{at[1]}" if at is not None and name == at[0] else name)

    @classmethod
    def _of_xpu(cls, index: int) -> "Device | None":
        """The device with the context and the queues of torch's "xpu", which is another than the one that a name alone opens; None: they are not to be had."""
        from . import _xpu

        name = f"levelzero with xpu:{index}"
        if name not in cls._open:
            with cls._lock:
                if name not in cls._open and not _xpu.why_not(index):
                    cls._open[name] = _xpu.opened(cls, index)
        return cls._open.get(name)

    def sees(self, x: Any) -> bool:
        """Whether kernels can work on the tensor where it is; what is on a wrong device is the library's to refuse."""
        at = None if self.backend == "cpu" else _where(x)
        return self.backend == "cpu" or (at is not None and at[0] == self.backend and (at[0] != "levelzero" or at[1] == self.xpu))
