"""States of recurrences in calls: what comes before the first token, and what is there after the last."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from ._errors import ArgumentError
from ._tensors import GPUS, NAMES, TORCH_DEVICES, View, is_torch, not_a_tensor


class State(NamedTuple):
    """The state of a recurrence that has a ``norm``.

    Attributes:
        state: float32 [B, H, K, V].
        sum: float32 [B, H, K], the same recurrence over a column of ones.
    """

    state: Any
    sum: Any


def bind_states(attention: str, names: tuple[str, ...], initial: Any, what: str = "initial_state") -> dict[str, Any]:
    """The tensors of a state by the artifact's names, "state_in" and "sum_in" or "state" and "sum".

    Raises:
        ArgumentError: the script has no state, or one of another kind.
    """
    if not names:
        raise ArgumentError(f"{attention}: {what} is for recurrences, and the script has none (`linear`)", "name")
    parts = tuple(initial) if isinstance(initial, (tuple, list)) else (initial,)
    if len(parts) != len(names):
        expected = "the pair (state, sum), since the script has a norm" if len(names) > 1 else "one tensor"
        raise ArgumentError(f"{attention}: {what} is {expected}; it was given {len(parts)}", "tensor")
    for part in parts:
        if not hasattr(part, "shape") and not hasattr(part, "__dlpack__"):
            raise not_a_tensor(part, f"{attention}: {what}")
    return dict(zip(names, parts))


def _place(view: View) -> str:
    kind, number = view.device
    names = {**GPUS, **{code: name for name, code in TORCH_DEVICES.items()}}
    return f"{names.get(kind, f'device type {kind}')}:{number}"


def check_states(attention: str, views: Mapping[str, View], expected: Mapping[str, tuple[tuple[int, ...], tuple[int, int]]], like: View) -> None:
    """Looks at an initial state by the name that callers know it by.

    Args:
        views: its tensors by the artifact's names.
        expected: shape and type of each.
        like: the call's first tensor, on whose device the state must be.

    Raises:
        ArgumentError: another shape, type or device.
    """
    for name, view in views.items():
        what = f"{attention}: initial_state" + (f" ({name.removesuffix('_in')})" if len(views) > 1 else "")
        shape, dtype = expected[name]
        if view.dtype != dtype:
            way = "initial_state.float()" if is_torch(view.owner) else "initial_state.astype('float32')"
            raise ArgumentError(f"{what} is {NAMES.get(view.dtype, 'of an unknown type')}, expected {NAMES[dtype]}: pass {way}", "tensor")
        if view.shape != shape:
            axes = "[B, H, K, V]" if len(shape) == 4 else "[B, H, K]"
            axes += ", one a sequence where they are packed"
            raise ArgumentError(f"{what} has the shape {list(view.shape)}, expected {list(shape)}, which is {axes}", "tensor")
        if view.device != like.device:
            raise ArgumentError(f"{what} is on {_place(view)}, the other tensors on {_place(like)}", "tensor")
