"""A short way for calls like one before.

What a call over a cache takes on the host is, but for addresses, said by the types, shapes, strides and devices of its tensors and by its options; those of the
steps of a server are the same for thousands of calls. A call of plain torch tensors, that nothing but itself wants to know of, is looked up by them: what is found
runs with new addresses. Any other goes the long way, which checks, says what is wrong, and leaves here what it prepared.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from ._errors import Error

MOST = 64  # calls that are remembered
DEVICES = ("cpu", "cuda")  # whose tensors are addresses
PLAIN = frozenset((bool, int, float, str))


class _Kept:
    """A prepared call: which tensors it takes, in what order, the numbers of its options, and how what it makes is made."""

    __slots__ = ("prepared", "order", "values", "makers")

    def __init__(self, prepared: Any, order: list[int], values: list[int | float], makers: list[Any]) -> None:
        self.prepared, self.order, self.values, self.makers = prepared, order, values, makers


_kept: dict[tuple, _Kept] = {}


def _is_plain(x: Any) -> bool:
    """What is equal is the same, now and later: no tensors, whose numbers change, and none that the long way looks at."""
    return x is None or type(x) in PLAIN or type(x) is tuple and all(type(y) is int for y in x)


def key_of(options: tuple, tensors: Sequence[Any]) -> tuple | None:
    """What calls that go the same way have in common; None: this one goes the long way."""
    torch = sys.modules.get("torch")
    if torch is None or torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None or not all(map(_is_plain, options)):
        return None
    first = tensors[0]
    kind = type(first) is torch.Tensor and first.device.type
    if kind not in DEVICES or torch.is_autocast_enabled(kind) or torch._C._len_torch_dispatch_stack():
        return None
    if torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0:
        return None
    key: list[Any] = [options, *map(type, options)]  # True is 1, and not what takes it
    bits = 0
    for x in tensors:
        if x is None:
            key.append(None)
            continue
        if type(x) is not torch.Tensor or x.requires_grad or x.layout is not torch.strided or x.is_nested or x.is_neg():
            return None
        at = x.data_ptr()
        if not at:
            return None
        bits |= at
        key += x.dtype, x.shape, x.stride(), x.device
    key.append(bits & 15 == 0)  # as calls are prepared (_plans.py)
    return tuple(key)


def run(key: tuple | None, tensors: Sequence[Any]) -> list[Any] | None:
    """What the call makes, in its order; None: there is none like it, or it fails, which the long way tells."""
    kept = _kept.get(key) if key is not None else None
    if kept is None:
        return None
    words: list[int] = []
    for n in kept.order:
        words += tensors[n].data_ptr(), 0
    results = [make() for make in kept.makers]
    for x in results:
        words += x.data_ptr(), 0
    try:
        kept.prepared.run(words, kept.values, tensors[0])
    except Error:
        return None
    return results


def keep(key: tuple, f: Any, call: Any, wanted: tuple[str, ...], order: dict[str, int], results: dict[str, Any]) -> None:
    """After the long way: what it prepared for [call], whose tensors are, by name, those of the numbers in [order], and made [results], by name, as callers get them."""
    if any(name not in order for name in call.tensors):
        return
    prepared = f._runner.prepared("forward", call.tensors, call.params, wanted, call.device, False)
    if prepared is None or [name for name, _ in prepared.made] != list(results):
        return
    torch = sys.modules["torch"]
    if any(type(x) is not torch.Tensor or not x.is_contiguous() or not x.numel() for x in results.values()):
        return
    if len(_kept) >= MOST:
        _kept.clear()
    makers = [partial(torch.empty, x.shape, dtype=x.dtype, device=x.device) for x in results.values()]
    _kept[key] = _Kept(prepared, [order[name] for name in call.tensors], list(call.params.values()), makers)
