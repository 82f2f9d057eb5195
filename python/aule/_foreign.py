"""Tensors that neither the host nor the device of a call holds, as torch's on CUDA for a call on Vulkan: they go by way of the host, and what is written goes
back to them. That is slow, so it is said once."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Callable, Mapping

import numpy

from . import _xpu
from ._devices import Device
from ._errors import ArgumentError, CopyWarning
from ._tensors import CPU, dlpack_device, is_cupy, is_torch, library_of, torch_trouble

_said: set[tuple[str, str]] = set()


def _place(x: Any) -> str | None:
    """What its library, or DLPack, calls the memory that it is in; None: the host's."""
    if isinstance(x, (numpy.ndarray, numpy.generic)):
        return None
    if is_torch(x):
        return None if x.device.type == "cpu" else str(x.device)
    kind, index = dlpack_device(x)
    return None if kind == CPU else f"{type(x).__module__.partition('.')[0]}'s device {index} (type {kind} of DLPack)"


def _say(place: str, device: Device) -> None:
    """Once for each pair of memories."""
    if (place, device.id) not in _said:
        _said.add((place, device.id))
        kind, _, index = place.partition(":")
        why = _xpu.why_not(int(index or 0)) if (kind, device.backend) == ("xpu", "levelzero") else ""
        warnings.warn(
            f"tensors on {place} go by way of the host to {device.id} and back, each call: {why or 'that device does not see their memory'}", CopyWarning,
            stacklevel=2)


def _by_dlpack(x: Any) -> Any:
    return numpy.from_dlpack(x, device="cpu", copy=True)  # type: ignore[call-arg]  # since NumPy 2.1


def _copied(x: Any, what: str, place: str) -> Any:
    """A copy in the host's memory: torch's of tensors of torch, of others NumPy's."""
    if is_torch(x):
        trouble = torch_trouble(x, what)
        if trouble is not None:
            raise ArgumentError(f"{what} {trouble}", "tensor")
        return x.detach().cpu()
    ways: list[Callable[[Any], Any]] = [lambda x: x.get()] if is_cupy(x) else [_by_dlpack, numpy.asarray]
    why: Exception | None = None
    for way in ways:
        try:
            made = way(x)
        except (TypeError, ValueError, RuntimeError, BufferError, NotImplementedError) as error:
            why = error
        else:
            if not made.dtype.hasobject:
                return made
    raise ArgumentError(f"{what} is on {place}, of which NumPy has no copy (numpy.asarray{f': {why}' if why else ''}): pass one in the host's memory", "tensor")


def _moved(host: Any, x: Any) -> Any:
    """A tensor of [x]'s library where [x] is, of what is in the host's memory."""
    if is_torch(x):
        return host.to(x.device)
    if is_cupy(x):
        cupy: Any = sys.modules["cupy"]
        with x.device:
            return cupy.asarray(host)
    return library_of(x).asarray(host, device=x.device)


def _write(host: Any, x: Any, what: str) -> None:
    """Into a tensor of the caller's."""
    if is_torch(x):
        x.detach().copy_(host)
        return
    try:
        x[...] = _moved(host, x)
    except TypeError as error:
        raise ArgumentError(f"{what} is of a library that does not write into its tensors: {error}", "tensor") from None


class ByHost:
    """The tensors of a call in the host's memory: those that are there, and copies of others.

    Attributes:
        given, out: as of the call.
    """

    def __init__(self, device: Device, given: Mapping[str, Any], out: Mapping[str, Any]) -> None:
        self._of, self._out = next(iter(given.values())), out
        self._copies: dict[int, Any] = {}  # by the tensor that they are of: what is given twice is one
        self._there = _place(self._of) is not None
        if self._there and not out and not is_torch(self._of) and not is_cupy(self._of):
            library_of(self._of)  # before anything runs
        self.given = {name: self._host(x, name, device) for name, x in given.items()}
        self.out = {name: self._host(x, name, device) for name, x in out.items()}

    def _host(self, x: Any, what: str, device: Device) -> Any:
        place = _place(x)
        if place is None:
            return x
        _say(place, device)
        if id(x) not in self._copies:
            self._copies[id(x)] = _copied(x, what, place)
        return self._copies[id(x)]

    def back(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """Results as callers get them: in their own tensors, else where the first tensor is. What the caller brought is written, wanted or not."""
        for name, x in self._out.items():
            if self.out[name] is not x:
                _write(self.out[name], x, name)
        return {name: self._out[name] if name in self._out else _moved(x, self._of) if self._there else x for name, x in made.items()}
