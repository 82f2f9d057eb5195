"""New keys and values into a cache: the tensors of `append` by the artifact's names."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ._artifact import TensorSpec
from ._errors import ArgumentError

NEW, SLOTS = "new", "new slots"  # roles


class AppendNames:
    """Names of an artifact that has the operation; empty where it has none."""

    def __init__(self, tensors: Sequence[TensorSpec]) -> None:
        self.new = tuple(t.name for t in tensors if t.role == NEW)  # "k_new", "v_new"
        self.caches = tuple(t.name for t in tensors if t.role in ("k", "v") and not t.in_k)
        self.lists = tuple(t.name for t in tensors if t.cached and t.is_list)  # lengths, table, starts
        self.inputs = tuple(t.name for t in tensors if t.cached and not t.is_list)  # scales, and what mods of rows read
        self.written = self.caches + tuple(t.name for t in tensors if t.appended)  # and the scales of tokens
        self.slots = any(t.role == SLOTS for t in tensors)
        self.specs = {t.name: t for t in tensors if t.cached or t.role in (NEW, SLOTS, "k", "v")}


def bind(attention: str, names: AppendNames, tensors: Sequence[Any], slots: Any, named: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a call reads and what it writes, by the artifact's names.

    Raises:
        TypeError: a tensor that is missing, unknown or given twice.
    """
    order = names.new + names.caches
    caller = f"{attention}.append()"
    if len(tensors) > len(order):
        raise TypeError(f"{caller} takes {', '.join(order)} by position, and was given {len(tensors)} tensors; all else goes by name")
    given = dict(zip(order, tensors))
    for name, x in named.items():
        if name in given:
            raise TypeError(f"{caller} was given {name} twice")
        if name not in order + names.lists + names.inputs:
            raise TypeError(f"{caller} does not take {name}; it takes {', '.join((*order, *names.lists, *names.inputs, 'slots'))}")
        given[name] = x
    needed = order + names.inputs + (names.lists if slots is None else ())
    missing = [name for name in needed if name not in given]
    if missing:
        way = ", or slots, which say where each row goes" if missing[0] in names.lists else ""
        raise TypeError(f"{caller} needs {', '.join(missing)}{way}")
    if slots is not None and not names.slots:
        raise ArgumentError(f"{caller} takes no slots: the cache holds what mods of rows make of them, and these ask for the place in the sequence", "name")
    if slots is not None:
        given["slots"] = slots
    return given, {name: given.pop(name) for name in names.written}
