"""torch's CUDA tensors on Vulkan where they are: memory that Vulkan allocated and exported by file descriptor and CUDA imported, from which torch's allocator takes
what it gives out (runtime/torch), and a number by which the two drivers wait for each other, so that no thread does."""

from __future__ import annotations

import ctypes
import operator
import os
import threading
import warnings
from array import array
from contextlib import contextmanager, nullcontext
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int32, c_size_t, c_ssize_t, c_uint64, c_void_p
from functools import lru_cache
from typing import Any, Iterator, Mapping

from ._devices import Device, devices
from ._errors import CopyWarning, Error, LibraryError
from ._libaule import VulkanQueue, VulkanSemaphore, library
from ._libraries import load_library
from ._tensors import LEGACY_STREAM, View, is_torch, view

PROBE = 1 << 16  # bytes of an allocation that shows whether there will be others


class Functions(Structure):
    """aule_torch_memory"""

    NAMES = ("aule_buffer_export", "aule_buffer_import", "aule_buffer_free", "aule_buffer_data", "aule_device_synchronize", "aule_error_message", "aule_error_free")
    _fields_ = [("struct_size", c_size_t), ("vulkan", c_void_p), ("cuda", c_void_p), *((name, c_void_p) for name in NAMES)]


@lru_cache(maxsize=None)
def _library() -> tuple[Any, str]:
    """libaule_torch, and its path."""
    cdll, path = load_library("aule_torch")
    cdll.aule_torch_use.argtypes = [c_int, POINTER(Functions)]
    cdll.aule_torch_allocate.restype, cdll.aule_torch_allocate.argtypes = c_void_p, [c_ssize_t, c_int, c_void_p]
    cdll.aule_torch_release.restype, cdll.aule_torch_release.argtypes = None, [c_void_p, c_size_t, c_int, c_void_p]
    cdll.aule_torch_why.restype, cdll.aule_torch_why.argtypes = None, [c_int, c_char_p, c_size_t]
    cdll.aule_torch_places.restype, cdll.aule_torch_places.argtypes = c_size_t, [c_int, c_size_t, c_void_p, c_void_p]
    cdll.aule_torch_bytes.restype, cdll.aule_torch_bytes.argtypes = c_uint64, [c_int]
    return cdll, path


class _Timeline:
    """The order of a stream of torch's and of Vulkan's queue: the stream sets a number, Vulkan's commands wait for it and set the next one, for which the stream waits."""

    def __init__(self, vulkan: Device, cuda: Device) -> None:
        lib, made, fd = library(), c_void_p(), c_int32(-1)
        lib.timeline_export(vulkan.handle, byref(made), byref(fd))
        try:
            self._of_cuda = lib.handle(lib.timeline_import, cuda.handle, fd)
        except Error:
            lib.timeline_free(made)
            raise
        finally:
            os.close(fd.value)
        self._of_vulkan, self._semaphore = made, lib.timeline_handle(made)
        self._value, self._lock = 0, threading.Lock()

    def __del__(self) -> None:
        if getattr(self, "_of_vulkan", None):
            library().timeline_free(self._of_cuda)
            library().timeline_free(self._of_vulkan)

    @contextmanager
    def around(self, stream: int) -> Iterator[int]:
        """What is put on Vulkan's queue with this address of an aule_vulkan_queue comes behind what is on the stream, and before what follows there."""
        lib = library()
        with self._lock:
            lib.timeline_signal(self._of_cuda, stream, self._value + 1)
            self._value += 1
            before, behind = VulkanSemaphore(self._semaphore, self._value), VulkanSemaphore(self._semaphore, self._value + 1)
            queue = VulkanQueue(ctypes.sizeof(VulkanQueue), ctypes.pointer(before), 1, ctypes.pointer(behind), 1)
            yield ctypes.addressof(queue)
            self._value += 1
            lib.timeline_wait(self._of_cuda, stream, self._value)


class _Waiting:
    """In place of that, where a driver has no such numbers: the thread waits for both."""

    def __init__(self, vulkan: Device, cuda: Device) -> None:
        self._vulkan, self._cuda = vulkan, cuda

    @contextmanager
    def around(self, stream: int) -> Iterator[int]:
        library().device_synchronize(self._cuda.handle, stream)
        try:
            yield 0
        finally:
            library().device_synchronize(self._vulkan.handle, None)


class SharedMemory:
    """Memory of one GPU that torch's CUDA tensors and a Vulkan device have in common."""

    def __init__(self, vulkan: Device, index: int) -> None:
        import torch

        lib, (cdll, path) = library(), _library()
        self.device, self.index = vulkan, index
        self._cuda = Device.get(f"cuda:{index}")
        functions = {name: ctypes.cast(getattr(lib.cdll, name), c_void_p) for name in Functions.NAMES}
        given = Functions(ctypes.sizeof(Functions), vulkan.handle, self._cuda.handle, **functions)
        if cdll.aule_torch_use(index, byref(given)):
            raise Error(f"torch's cuda:{index} has memory of another Vulkan device already", "device")
        self._try()
        self._allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "aule_torch_allocate", "aule_torch_release")
        self._pools: list[Any] = []  # that no thread uses: torch lets one have a pool at a time
        self._inside = threading.local()
        self._lock = threading.RLock()  # a finalizer may call within
        self._orders: dict[int, _Timeline | _Waiting] = {}  # of streams
        self._waits = False
        self._order_of(self.stream())

    def _try(self) -> None:
        """Whether both drivers have such memory.

        Raises:
            Error: why not.
        """
        cdll = _library()[0]
        made = cdll.aule_torch_allocate(PROBE, self.index, LEGACY_STREAM)
        if not made:
            raise Error(self.why(), "unsupported")
        cdll.aule_torch_release(made, PROBE, self.index, LEGACY_STREAM)

    def why(self) -> str:
        """What the driver said when it had no memory."""
        text = ctypes.create_string_buffer(512)
        _library()[0].aule_torch_why(self.index, text, len(text))
        return text.value.decode(errors="replace")

    @property
    def bytes(self) -> int:
        """That torch has of it, in use or not."""
        made: int = _library()[0].aule_torch_bytes(self.index)
        return made

    @contextmanager
    def used(self) -> Iterator[None]:
        """What this thread has torch allocate on that device meanwhile is such memory."""
        import torch

        depth = getattr(self._inside, "depth", 0)
        self._inside.depth = depth + 1
        try:
            if depth:  # torch takes a pool once
                yield
            else:
                with self._a_pool() as pool, torch.cuda.use_mem_pool(pool, device=self.index):
                    yield
        finally:
            self._inside.depth = depth

    @contextmanager
    def _a_pool(self) -> Iterator[Any]:
        """One that is this thread's meanwhile."""
        import torch

        with self._lock:
            pool = self._pools.pop() if self._pools else None
        if pool is None:
            pool = torch.cuda.MemPool(self._allocator.allocator())
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))  # the drivers may end before Python does
        try:
            yield pool
        finally:
            with self._lock:
                self._pools.append(pool)

    def places(self, addresses: list[int]) -> array | None:
        """Where they are for Vulkan; None: not all are in such memory."""
        given, places = array("Q", addresses), array("Q", bytes(8 * len(addresses)))
        found = _library()[0].aule_torch_places(self.index, len(given), given.buffer_info()[0], places.buffer_info()[0])
        return places if found == len(given) else None

    def _made_here(self, addresses: list[int]) -> array:
        """Of tensors that were looked at, or that torch was asked for in such memory."""
        places = self.places(addresses)
        if places is None:
            raise Error(f"torch has taken results from elsewhere than memory of {self.device.id}: is the call in another torch.cuda.use_mem_pool?", "device")
        return places

    def view(self, x: Any, name: str) -> View:
        """The tensor as Vulkan has it."""
        made = view(x, name)
        places = self.places([made.tensor.data or 0])
        if places is None:
            raise Error(f"{name} is not in memory of {self.device.id}", "device")
        made.tensor.data = places[0]
        made.tensor.device.device_type, made.tensor.device.device_id = self.device.dl
        return made

    def words(self, words: list[int]) -> list[int]:
        """Addresses and offsets, in turn, as Vulkan has them."""
        places = self._made_here(words[::2])
        return [word for place, offset in zip(places, words[1::2]) for word in (place, offset)]

    def workspace(self, size: int, align: int) -> tuple[int, Any]:
        """Its address for Vulkan, and torch's tensor, whose memory is another's only behind the stream's work."""
        import torch

        with self.used():
            tensor = torch.empty(size + align, dtype=torch.uint8, device=torch.device("cuda", self.index))
        places = self._made_here([tensor.data_ptr()])
        return -(-places[0] // align) * align, tensor

    def stream(self) -> int:
        """On which torch works.

        Raises:
            Error: a graph is captured there, into which nothing of Vulkan goes.
        """
        import torch

        if torch.cuda.is_current_stream_capturing():
            raise Error(f"a call on {self.device.id} cannot be captured into a graph of CUDA: {self.device.id} has a queue of its own", "unsupported")
        return torch.cuda.current_stream(self.index).cuda_stream or LEGACY_STREAM

    def in_order(self, stream: int) -> Any:
        """See :class:`_Timeline`."""
        return self._order_of(stream).around(stream)

    def _order_of(self, stream: int) -> _Timeline | _Waiting:
        with self._lock:
            if stream not in self._orders:
                self._orders[stream] = _Waiting(self.device, self._cuda) if self._waits else self._first_order()
            return self._orders[stream]

    def _first_order(self) -> _Timeline | _Waiting:
        try:
            return _Timeline(self.device, self._cuda)
        except Error as error:
            if error.status not in ("unsupported", "driver"):
                raise
            self._waits = True
            warnings.warn(
                f"calls on {self.device.id} with tensors of cuda:{self.index} in memory of both wait for both drivers, which share no semaphores: {error}", CopyWarning,
                stacklevel=2)
            return _Waiting(self.device, self._cuda)


_shared: dict[tuple[str, int], SharedMemory | str] = {}  # by the Vulkan device's id and torch's number; why there is none
_lock = threading.Lock()


def _uuid_of(index: int) -> str:
    """Of torch's device; "" where torch does not tell."""
    import torch

    of = getattr(torch.cuda, "get_device_properties", None)
    return str(getattr(of(index), "uuid", "")) if of is not None else ""


def _number(index: int | None) -> int:
    """torch's number of its device.

    Raises:
        Error: torch has none, or not as many.
    """
    import torch

    try:
        number: int = torch.cuda.current_device() if index is None else operator.index(index)
        _uuid_of(number)
    except (RuntimeError, AssertionError) as error:  # as torch is made, and what its driver says
        raise Error(f"vulkan_memory(): torch has no {'CUDA device' if index is None else f'cuda:{index}'}: {error}", "device") from None
    return number


def _same_gpu(index: int) -> str:
    """The id of the Vulkan device that is torch's GPU.

    Raises:
        Error: none is, or it cannot be told.
    """
    uuid, found = _uuid_of(index), [d for d in devices() if d.backend == "vulkan"]
    usable = [d for d in found if d.available]
    same = [d.id for d in usable if uuid and d.uuid.rpartition(":")[2] == uuid]
    if same:
        return same[0]
    there = ", ".join(f"{d.id} ({d.name}, {d.uuid or 'no UUID'})" for d in usable) or "; ".join(d.reason for d in found)
    raise Error(f"no Vulkan device is torch's cuda:{index}, whose UUID is {uuid or 'not told'}: {there or 'there is no Vulkan'}", "device")


def _memory(device: str | None, index: int) -> SharedMemory | str:
    """What the two have in common, or why it is nothing."""
    try:
        name = _same_gpu(index) if device is None else Device.get(device).id
        with _lock:
            if (name, index) not in _shared:
                vulkan = Device.get(name)
                if vulkan.backend != "vulkan":
                    raise Error(f"{name} is no device of Vulkan", "device")
                _shared[name, index] = SharedMemory(vulkan, index)
            return _shared[name, index]
    except (Error, LibraryError) as error:
        if device is not None and getattr(error, "status", "") == "device":
            raise
        return str(error)


class VulkanMemory:
    """What :func:`vulkan_memory` makes: with-blocks, which may be many, one in another, and in several threads.

    Attributes:
        shared: whether tensors that are allocated there are in memory of both drivers.
        bytes: that torch has of such memory now, in use or kept for later.
    """

    def __init__(self, memory: SharedMemory | None) -> None:
        self._memory = memory
        self._entered = threading.local()

    @property
    def shared(self) -> bool:
        return self._memory is not None

    @property
    def bytes(self) -> int:
        return self._memory.bytes if self._memory is not None else 0

    def __enter__(self) -> "VulkanMemory":
        entered = self._memory.used() if self._memory is not None else nullcontext()
        entered.__enter__()
        self._entered.blocks = [*getattr(self._entered, "blocks", ()), entered]
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.blocks.pop().__exit__(*error)


def vulkan_memory(device: str | None = None, index: int | None = None) -> VulkanMemory:
    """Memory for torch's CUDA tensors that Vulkan allocated and exported and CUDA imported: calls with ``device="vulkan"`` (or AULE_BACKEND=vulkan) on tensors that were
    allocated in ``with aule.vulkan_memory():`` run where they are, in the order of torch's stream, and so do results. Nothing is copied, and no thread waits where both
    drivers share semaphores.

    By thread, as torch has it: what other threads allocate meanwhile, as autograd's in a backward pass, is torch's own. A call with one tensor elsewhere goes by way of
    the host, and says so (:class:`CopyWarning`). Where the drivers have no such memory all calls do, and the warning says why; where they share no semaphores calls
    wait for both, which is said, too.

    Args:
        device: the Vulkan device, by its id; by default the one that is torch's GPU, by its UUID.
        index: torch's number of its CUDA device; by default the current one.

    Raises:
        Error: there is no such device, of Vulkan or torch, or torch's has memory of another one.
    """
    number = _number(index)
    memory = _memory(device, number)
    if isinstance(memory, SharedMemory):
        return VulkanMemory(memory)
    warnings.warn(f"vulkan_memory(): tensors on cuda:{number} are torch's own and go by way of the host to Vulkan: {memory}", CopyWarning, stacklevel=2)
    return VulkanMemory(None)


def shared_by(device: Device, tensors: Mapping[str, Any], more: Mapping[str, Any]) -> SharedMemory | None:
    """The memory that all of these tensors are in, which the Vulkan device has, too; None: some are elsewhere, or the device is not one of Vulkan."""
    if device.backend != "vulkan" or not _shared:
        return None
    every = [*tensors.values(), *more.values()]
    first = every[0]
    if not is_torch(first) or first.device.type != "cuda":
        return None
    memory = _shared.get((device.id, first.device.index or 0))
    if not isinstance(memory, SharedMemory) or any(not is_torch(x) or x.device != first.device for x in every):
        return None
    return memory if memory.places([x.data_ptr() for x in every]) is not None else None
