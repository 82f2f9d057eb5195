"""Calls of kernels. A call is checked and prepared once for tensors of the same types, shapes and strides; later ones bring new
addresses and parameters (aule.h, aule_plan and aule_run).

Kernels read and write the tensors where they are. Only what is in memory that the call's device does not see is copied, the host's or another device's, and
only because the caller, or the environment, asked for that device.
"""

from __future__ import annotations

import ctypes
import threading
import time
from array import array
from contextlib import contextmanager
from ctypes import c_uint32
from typing import Any, Callable, Iterator, Mapping, Sequence

from . import _libaule as abi, _vulkan, _xpu
from ._artifact import Loaded
from ._builds import tell_of
from ._devices import Device
from ._errors import ArgumentError, Error
from ._foreign import ByHost
from ._staging import Staged, span
from ._tensors import GPUS, LEGACY_STREAM, View, check_writeable, describe, finished, heads_inside, is_cupy, is_torch, lists_maker, maker, view
from ._workspaces import HostMemory, give_back, take

WORK = "work"  # the tensor of lists of work, as artifacts call it
MOST = 256  # prepared calls an attention keeps; the oldest goes


def _is_float_tensor(x: Any) -> bool:
    """Tensors of every type have __index__; those of floats raise."""
    return "float" in str(getattr(x, "dtype", ""))


def number(name: str, x: Any) -> int | float:
    """The value of a parameter as Python's own number.

    Raises:
        TypeError: not a number.
    """
    if isinstance(x, (int, float)):
        return x
    if hasattr(x, "__index__") and not _is_float_tensor(x):
        return int(x.__index__())
    if not hasattr(x, "__float__"):
        raise TypeError(f"parameter {name} must be a number, it is {type(x).__name__}")
    return float(x)


def _check_whole(name: str, x: int | float) -> None:
    if not isinstance(x, float) and not -(1 << 63) <= x < 1 << 63:
        raise ArgumentError(f"parameter {name} is {x}, which does not fit 64 bits", "param")


def _value(x: int | float) -> abi.Value:
    return abi.Value(1, 0, 0, x) if isinstance(x, float) else abi.Value(0, 0, x, 0.0)


def arguments(operation: str, views: Mapping[str, View], params: Mapping[str, Any], flags: int = 0) -> abi.Call:
    """The call's arguments; the caller keeps the views."""
    tensors = (abi.TensorArg * max(len(views), 1))(*[abi.TensorArg(name.encode(), ctypes.pointer(v.tensor)) for name, v in views.items()])
    values = (abi.ParamArg * max(len(params), 1))(*[abi.ParamArg(name.encode(), _value(x)) for name, x in params.items()])
    return abi.Call(ctypes.sizeof(abi.Call), operation.encode(), tensors, len(views), values, len(params), None, flags)


def packed(values: Sequence[int | float]) -> array:
    """Values of parameters, as runs take them."""
    return array("B", b"".join([abi.VALUE.pack(1, 0, 0, x) if isinstance(x, float) else abi.VALUE.pack(0, 0, x, 0.0) for x in values]))


class Prepared:
    """A plan, with what has to be made anew for each run of it."""

    __slots__ = ("_library", "plan", "loaded", "device", "made", "bytes", "align", "reports", "_spans", "_at")

    def __init__(self, loaded: Loaded, device: Device, call: abi.Call, made: list[tuple], passed: Sequence[View] = ()) -> None:
        self._library = lib = abi.library()
        since = time.monotonic()
        self.plan = lib.handle(lib.plan_new, loaded.handle, device.handle, ctypes.byref(call))
        tell_of(f"building kernels by the driver of {device.id}", since)
        self.loaded, self.device = loaded, device
        self.made = made  # name and maker of each tensor that a call makes
        self._spans = [span(v) for v in passed]  # of the tensors that a call brings
        self._at = [(v.tensor.data or 0) + v.tensor.byte_offset for v in passed]
        align = c_uint32()
        self.bytes: int = lib.plan_workspace(self.plan, ctypes.byref(align))
        self.align: int = align.value
        self.reports: bool = device.backend != "cpu" and lib.plan_variant(self.plan).contents.checked()  # cpu: the run itself does

    def __del__(self) -> None:
        if getattr(self, "plan", None):
            self._library.plan_free(self.plan)

    def apart(self, words: Sequence[int], read: int) -> bool:
        """Whether nothing lies between the first and the last byte of what is written, the tensors behind the first [read], but for others that
        are written and were as far from it when the call was prepared, which then was looked at: keys and values in one tensor."""
        at = [place + offset for place, offset in zip(words[::2], words[1::2])]
        ranges = [(a + first, a + end) for a, (first, end) in zip(at, self._spans)]
        return not any(
            first < other_end and other < end and (m < read or at[n] - at[m] != self._at[n] - self._at[m])
            for n, (first, end) in enumerate(ranges[read:], read) for m, (other, other_end) in enumerate(ranges) if m != n
        )

    def run(self, words: list[int], values: Sequence[int | float], like: Any) -> None:
        """Runs with tensors at these addresses, in the order of the call; [like] says where a workspace comes from."""
        tensors = array("Q", words)
        queue, space, space_bytes, kept = queue_of(like, self.device), 0, self.bytes, None
        if space_bytes:
            space, kept = _workspace(like, self.device, space_bytes, self.align)
        numbers = packed(values)
        run = self._packed(queue, space, tensors, numbers)
        if _is_apart(like, self.device):
            import torch

            torch.mps.synchronize()
        try:
            self._library.plan_run(self.plan, run)
            if self.reports:
                self._library.plan_report(self.plan, run)
        finally:
            if isinstance(kept, _Buffer) or _reads_at_once(like, self.device):
                self._library.device_synchronize(self.device.handle, queue or None)  # before it is given back, or read
            if isinstance(kept, HostMemory):
                give_back(kept)

    def run_in(self, memory: _vulkan.SharedMemory, words: list[int], values: Sequence[int | float]) -> None:
        """Runs on a Vulkan device with tensors at these places, in the order of torch's stream, which is CUDA's."""
        tensors, numbers, space, kept = array("Q", words), packed(values), 0, None
        if self.bytes:
            space, kept = memory.workspace(self.bytes, self.align)
        with memory.in_order(memory.stream()) as queue:
            run = self._packed(queue, space, tensors, numbers)
            self._library.plan_run(self.plan, run)
        if self.reports:
            self._library.plan_report(self.plan, self._packed(0, space, tensors, numbers))
        del kept  # until here the memory is the run's

    def _packed(self, queue: int, space: int, tensors: array, numbers: array) -> bytes:
        """A run, which has the addresses of both arrays."""
        return abi.RUN.pack(abi.RUN.size, queue, space, self.bytes, tensors.buffer_info()[0], numbers.buffer_info()[0] if numbers else 0)


class _Buffer:
    """Memory of a device that no tensor library gives us."""

    def __init__(self, device: Device, size: int) -> None:
        self._library = abi.library()
        self._handle = self._library.handle(self._library.buffer_new, device.handle, size)
        self.data: int = self._library.buffer_data(self._handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.buffer_free(self._handle)


class Run:
    """A run of a plan on tensors of a call: those it reads and those it writes, in their order, and those it makes."""

    def __init__(self, prepared: Prepared, operation: str, given: Mapping[str, Any], out: Mapping[str, Any], made: Mapping[str, Any], params: Mapping[str, int | float]) -> None:
        self.prepared, self.operation, self.given, self.out, self.made, self.params = prepared, operation, given, out, made, params


_watched = threading.local()


@contextmanager
def watched_runs() -> Iterator[list[Run]]:
    """The runs of plans of this thread meanwhile."""
    runs: list[Run] = []
    before, _watched.runs = getattr(_watched, "runs", None), runs
    try:
        yield runs
    finally:
        _watched.runs = before
        if before is not None:
            before += runs


def queue_of(like: Any, device: Device) -> int:
    """The stream on which the caller's library works; 0, the device's own queue, for copies that are ours (no [like])."""
    return queues_of(like, device)()


def queues_of(like: Any, device: Device) -> Callable[[], int]:
    """What asks for it, of tensors of one device, each time that they are used."""
    if device.xpu is not None and like is not None:
        return lambda: _xpu.queue_of(device)
    if device.backend not in GPUS.values() or like is None:
        return lambda: 0
    if is_torch(like):
        import torch

        of_number = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)  # without an object of it, which takes microseconds
        index = like.device.index
        return lambda: (of_number(index) if of_number is not None else torch.cuda.current_stream(index).cuda_stream) or LEGACY_STREAM
    if is_cupy(like):
        import cupy

        return lambda: cupy.cuda.get_current_stream().ptr or LEGACY_STREAM
    return lambda: LEGACY_STREAM


def _is_apart(like: Any, device: Device) -> bool:
    """Whether torch has a queue of its own on that device, which no program in Python gets: both wait for each other."""
    return device.backend == "metal" and like is not None


def _reads_at_once(like: Any, device: Device) -> bool:
    """Whether the library of GPU arrays reads results on streams of its own, as JAX does, or may not hand on what it does in the order of ours."""
    if _is_apart(like, device) or _xpu.is_apart(device) and like is not None:
        return True
    return device.backend in GPUS.values() and like is not None and not is_torch(like) and not is_cupy(like)


def _workspace(like: Any, device: Device, size: int, align: int) -> tuple[int, Any]:
    """Address of [size] bytes for one run, and what owns them: of this process on a processor, else of torch's allocator for tensors of
    torch, in the order of its stream."""
    if device.backend == "cpu":
        memory = take(size)
        return memory.data, memory
    if is_torch(like) and not _is_apart(like, device):
        import torch

        tensor = torch.empty(size + align, dtype=torch.uint8, device=like.device)
        return -(-tensor.data_ptr() // align) * align, tensor
    buffer = _Buffer(device, size)
    return buffer.data, buffer  # an address or a handle, aligned


class Runner:
    """Runs operations of an attention on tensors of any library, and makes the tensors of results.

    Args:
        kernels: finds the artifact for (views by name, device, whether gradients are wanted).
        compact: names of results that are laid out as their axes say, however q is.
    """

    def __init__(self, kernels: Callable[[Mapping[str, View], Device, bool], Loaded], compact: tuple[str, ...] = ()) -> None:
        self._kernels, self._compact = kernels, compact
        self.flags = 0  # of every call: AULE_CALL_*
        self._prepared: dict[tuple, Prepared] = {}
        self._lock = threading.Lock()

    def run(
        self, operation: str, given: Mapping[str, Any], params: Mapping[str, int | float], out: Mapping[str, Any], wanted: tuple[str, ...],
        device: str | None, gradients: bool,
    ) -> dict[str, Any]:
        """One call.

        Args:
            operation: "forward" or "backward".
            given: tensors by name; the first one decides of which library and on which device results are.
            params: parameters by name.
            out: tensors to write some of the wanted results into.
            wanted: names of results.
            device: as callers say it; None: where the tensors are, or what the environment says.
            gradients: whether kernels for the backward pass are, or will be, needed.
        """
        like = next(iter(given.values()))
        check_writeable(out, operation)
        key, words, owners = self._keyed(operation, given, params, out, wanted, device, gradients)
        prepared = self._prepared.get(key)
        # Outputs of the caller's might overlap something: that is checked when a call is prepared, so those that are not far apart are.
        if prepared is None or out and not prepared.apart(words, len(given)):
            target = Device.of(device, like)
            if not target.sees(like):
                memory = _vulkan.shared_by(target, given, out)
                if memory is not None:
                    return self._in_shared(memory, key, words, operation, given, params, out, wanted, gradients)
                return self._staged(operation, given, params, out, wanted, target, gradients)
            prepared, results = self._prepare(operation, given, params, out, wanted, target, gradients)
            self._keep(key, prepared)
        else:
            results = {name: make() for name, make in prepared.made}
        for name, x in results.items():
            _, address, offset, _ = describe(x, name)
            words += address, offset
        values = list(params.values())
        prepared = self._run(
            prepared, key, lambda plan: plan.run(words, values, like),
            lambda: self._prepare(operation, given, params, {**out, **results}, wanted, prepared.device, gradients)[0])
        runs = getattr(_watched, "runs", None)
        if runs is not None:
            runs.append(Run(prepared, operation, given, out, results, params))
        del owners  # until here their memory is theirs
        return {name: out[name] if name in out else finished(like, results[name]) for name in wanted}

    def _run(self, prepared: Prepared, key: tuple, run: Callable[[Prepared], None], prepare: Callable[[], Prepared]) -> Prepared:
        """Runs the plan, or one prepared anew where these parameters need a larger workspace than those that it was prepared with. Returns the one that ran."""
        try:
            run(prepared)
            return prepared
        except Error as error:
            if error.status != "workspace":
                raise
        again = prepare()
        again.made = prepared.made
        self._keep(key, again)
        run(again)
        return again

    def _keyed(self, operation, given, params, out, wanted, device, gradients) -> tuple[tuple, list[int], list[Any]]:
        """What calls that one plan takes have in common; addresses and offsets, and what keeps these valid."""
        keys: list[Any] = [operation, device, wanted, gradients]
        words: list[int] = []
        owners: list[Any] = []
        bits = 0
        for tensors in (given, out) if out else (given,):
            for name, x in tensors.items():
                key, address, offset, owner = describe(x, name)
                keys += name, key
                words += address, offset
                bits |= address | offset
                owners.append(owner)
        keys.append(bits & 15 == 0)  # kernels that copy by tensor maps are for such addresses alone
        for name, value in params.items():
            _check_whole(name, value)
            # How many packed rows a sequence has at most says which kernels a plan takes
            keys += name, value if name.endswith("_most") and f"{name[:-4]}starts" in given else type(value)
        return tuple(keys), words, owners

    def _keep(self, key: tuple, prepared: Prepared) -> None:
        with self._lock:
            if len(self._prepared) >= MOST:
                self._prepared.pop(next(iter(self._prepared)))
            self._prepared[key] = prepared

    def _prepare(self, operation, given, params, out, wanted, target, gradients, view=view) -> tuple[Prepared, dict[str, Any]]:
        views = {name: view(x, name) for name, x in given.items()}
        views.update((name, view(x, name)) for name, x in out.items())
        loaded = self._kernels(views, target, gradients)
        passed = list(views.values())
        made, results = self._make(loaded, operation, given, views, params, [name for name in wanted if name not in out])
        views.update((name, view(x, name)) for name, x in results.items())
        return Prepared(loaded, target, arguments(operation, views, params, self.flags), made, passed), results

    def _make(self, loaded, operation, given, views, params, names) -> tuple[list[tuple], dict[str, Any]]:
        """New tensors for results."""
        like = next(iter(given.values()))
        made, results = [], {}
        call = arguments(operation, views, params, self.flags)
        for name in names:
            shape, dtype = loaded.shape(name, call)
            source = given.get(name[1:], like) if operation == "backward" else like
            make = lists_maker(like, shape, dtype) if name == WORK else maker(like, shape, dtype, inside=len(shape) == 4 and name not in self._compact and heads_inside(source))
            made.append((name, make))
            results[name] = make()
        return made, results

    def _in_shared(self, memory, key, words, operation, given, params, out, wanted, gradients) -> dict[str, Any]:
        """On torch's CUDA tensors where they are, in memory that the Vulkan device has, too."""
        key = (*key, memory.device.id)
        values, places = list(params.values()), memory.words(words)
        with self._lock:
            prepared = self._prepared.get(key)
        with memory.used():
            if prepared is None or out and not prepared.apart(places, len(given)):
                prepared, results = self._prepare(operation, given, params, out, wanted, memory.device, gradients, memory.view)
                self._keep(key, prepared)
            else:
                results = {name: make() for name, make in prepared.made}
        places += memory.words([word for name, x in results.items() for word in describe(x, name)[1:3]])
        self._run(
            prepared, key, lambda plan: plan.run_in(memory, places, values),
            lambda: self._prepare(operation, given, params, {**out, **results}, wanted, memory.device, gradients, memory.view)[0])
        return {name: out[name] if name in out else results[name] for name in wanted}

    def _staged(self, operation, given, params, out, wanted, target, gradients) -> dict[str, Any]:
        """On copies, those of tensors that are elsewhere than in the host's memory by way of that."""
        host = ByHost(target, given, out)
        return host.back(self._on_copies(operation, host.given, params, host.out, wanted, target, gradients))

    def _on_copies(self, operation, given, params, out, wanted, target, gradients) -> dict[str, Any]:
        """On copies of host tensors."""
        views = {name: view(x, name) for name, x in given.items()}
        outputs = {name: view(x, name) for name, x in out.items()}
        loaded = self._kernels({**views, **outputs}, target, gradients)
        _, results = self._make(loaded, operation, given, {**views, **outputs}, params, [name for name in wanted if name not in out])
        outputs.update((name, view(x, name)) for name, x in results.items())
        with Staged(target, views, outputs, fresh=set(results)) as staged:
            prepared = Prepared(loaded, target, arguments(operation, staged.views, params, self.flags), [])
            words = [word for v in staged.views.values() for word in (v.tensor.data or 0, v.tensor.byte_offset)]
            since = time.monotonic()
            prepared.run(words, list(params.values()), None)
            if target.backend in ("opencl", "vulkan"):  # some drivers build a kernel when it is first launched
                tell_of(f"a call on {target.id}, with what its driver built for it,", since)
        like = next(iter(given.values()))
        return {name: out[name] if name in out else finished(like, results[name]) for name in wanted}
