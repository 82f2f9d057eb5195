"""Attentions of some of the keys, left unfinished, and how calls are given several of them."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence, TypeVar

from ._artifact import TensorSpec
from ._errors import ArgumentError
from ._tensors import is_torch, view

T = TypeVar("T")


class Unfinished(Dict[str, T]):
    """What :meth:`AttentionFunction.unfinished` returns: float32 tensors by name, which may be sent elsewhere one by one.

    "acc" [B, H, S, E], the sum of the weighted values; "state_NAME" [B, H, S] of each row scale of the online function, of softmax "state_m" and
    "state_l", the largest score of a row and the sum of its weights; and where what follows the sums asks for it "seen" [B, H, S], above 0 where
    the row has a pair.

    Attributes:
        dtype: the type of q, and of the output that :meth:`AttentionFunction.combine` makes: "float32", "float16" or "bfloat16".
    """

    def __init__(self, named: Mapping[str, T], dtype: str) -> None:
        super().__init__(named)
        self.dtype = dtype


class PartNames:
    """Names of an artifact that has the operations of parts; empty where it has none."""

    def __init__(self, tensors: Sequence[TensorSpec]) -> None:
        self.made = tuple(t.name for t in tensors if t.role == "part out")
        self.given = tuple(t.name for t in tensors if t.role == "part")  # "acc_parts" and so on
        self.joined = tuple(t.name for t in tensors if t.joined)


def by_parts(attention: str, names: PartNames, parts: Any) -> dict[str, Any]:
    """The tensors of combine by the artifact's names, with an axis for the parts before the others."""
    several = not isinstance(parts, Mapping)
    if several and not (isinstance(parts, (list, tuple)) and all(isinstance(one, Mapping) for one in parts)):
        raise TypeError(f"{attention}.combine() takes a list of what {attention}.unfinished() returned, or one mapping of tensors [N, ..]")
    if several and not parts:
        raise ArgumentError(f"{attention}.combine() was given no part; of none, pass a mapping of tensors with N = 0, which say the shapes", "tensor")
    for one in parts if several else (parts,):
        if set(one) != set(names.made):
            given = ", ".join(map(str, one)) or "nothing"
            raise TypeError(f"{attention}.combine() takes parts with {', '.join(names.made)}; it was given one with {given}")
    if not several:
        if len(view(parts["acc"], "acc").shape) != 5:
            found = list(parts["acc"].shape)
            raise ArgumentError(f"{attention}.combine(): acc is {found}, expected [N, B, H, S, E]; one part goes in a list", "tensor")
        return {given: parts[made] for given, made in zip(names.given, names.made)}
    kinds = {one.dtype for one in parts if isinstance(one, Unfinished)}
    if len(kinds) > 1:
        raise ArgumentError(f"{attention}.combine() was given parts of several types of q: {', '.join(sorted(kinds))}", "tensor")
    return {given: _stacked(f"{attention}.combine()", made, [one[made] for one in parts]) for given, made in zip(names.given, names.made)}


def _stacked(caller: str, name: str, tensors: Sequence[Any]) -> Any:
    shapes = sorted({tuple(x.shape) for x in tensors})
    if len(shapes) > 1:
        found = " and ".join(str(list(shape)) for shape in shapes)
        raise ArgumentError(f"{caller}: {name} has the shapes {found} in different parts", "tensor")
    if is_torch(tensors[0]):
        import torch

        return torch.stack(list(tensors))
    if not hasattr(tensors[0], "__array_namespace__"):
        import numpy

        if not isinstance(tensors[0], numpy.ndarray):
            raise TypeError(f"{caller} cannot stack {name}, {type(tensors[0]).__name__}: pass one mapping of tensors [N, ..]")
        return numpy.stack(tensors)
    return tensors[0].__array_namespace__().stack(list(tensors))
