"""Where the rows of a call's length axes lie: :func:`paged`, :func:`padded`, :func:`packed`."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ._errors import ArgumentError


class Axis:
    """The layout of an axis, and the tensors that belong to it; ``axes=`` of calls takes it. Made by :func:`paged`, :func:`padded` and :func:`packed`."""

    __slots__ = ("layout", "tensors", "most")

    def __init__(self, layout: str, most: int | None = None, **tensors: Any) -> None:
        for name, x in tensors.items():
            if not hasattr(x, "shape"):
                raise TypeError(f"{name} must be a tensor, it is {type(x).__name__}")
        self.layout, self.tensors, self.most = layout, tensors, most

    def apart(self) -> Axis:
        """The same without what says which sequences share keys and how many rows they have at most, which is nothing to a row that is written."""
        own = {name: x for name, x in self.tensors.items() if name not in ("groups", "shared")}
        return Axis(self.layout.removesuffix(":groups").removesuffix(":most"), **own)

    def __repr__(self) -> str:
        return f"aule.{self.layout.partition(':')[0]}({', '.join(f'{name}={list(x.shape)}' for name, x in self.tensors.items())})"


def check_shared(groups: Any, shared: Any, sequences: Any) -> bool:
    """Is it said which sequences share keys? An ArgumentError if it is half of it. Of an empty batch there may be no group."""
    if (groups is None) != (shared is None):
        raise ArgumentError("groups and shared say together which sequences have the same first keys; one of them is missing", "tensor")
    if groups is None:
        return False
    shapes = [tuple(getattr(x, "shape", ())) for x in (groups, shared)]
    if [len(shape) for shape in shapes] == [1, 1] and shapes[0][0] != shapes[1][0] + 1:
        raise ArgumentError(f"groups is {list(shapes[0])} and shared {list(shapes[1])}, expected [n + 1] and [n] for n groups", "tensor")
    return not (shapes == [(1,), (0,)] and sequences == 0)


def paged(table: Any, lengths: Any, *, groups: Any = None, shared: Any = None) -> Axis:
    """Keys in pages: k is [pages, Hk, slots, D], and row j of sequence b is slot j % slots of page table[b, j // slots].

    Args:
        table: int32 [B, entries]; what is behind a sequence's last page is not read.
        lengths: int32 [B].
        groups: int32 [n + 1], from 0 to B: sequences groups[g] to groups[g + 1] have the same first shared[g] keys, on the same pages, which are then
            read once where there are few queries. Results are the same. With shared, or neither.
        shared: int32 [n], whole pages.
    """
    if not check_shared(groups, shared, (*getattr(lengths, "shape", ()), None)[0]):
        return Axis("paged", table=table, lengths=lengths)
    return Axis("paged:groups", table=table, lengths=lengths, groups=groups, shared=shared)


def padded(lengths: Any) -> Axis:
    """Queries or keys of which the first lengths[b] rows of sequence b count, int32 [B]."""
    return Axis("padded", lengths=lengths)


def check_most(most: Any, what: str) -> int | None:
    """A number of rows."""
    if most is None:
        return None
    if isinstance(most, bool) or not hasattr(most, "__index__"):
        raise TypeError(f"{what} must be a whole number, it is {type(most).__name__}")
    if not 0 <= (count := most.__index__()) < 1 << 31:
        raise ArgumentError(f"{what} is {count}, expected a number of rows", "param")
    return count


def packed(starts: Any, *, most: int | None = None) -> Axis:
    """Queries or keys [1, H, total, D], of which sequence b has the rows starts[b] to starts[b + 1], int32 [B + 1].

    Args:
        starts: int32 [B + 1].
        most: no sequence has more rows. Of queries that are few it makes a call as fast as one that decodes; it must be right.
    """
    most = check_most(most, "most")
    return Axis("packed" if most is None else "packed:most", most=most, starts=starts)


def spellings(layout: str) -> list[str]:
    """The layout, and those that take what it gives: of packed rows a call may say how many a sequence has at most, and need not."""
    every = [""]
    for axis in layout.split(","):
        forms = [axis, f"{axis}:most"] if axis.endswith("=packed") else [axis]
        every = [",".join(filter(None, (before, form))) for before in every for form in forms]
    return every


def layout_of(attention: str, axes: Mapping[str, Axis], known: Sequence[str]) -> tuple[str, dict[str, Any], dict[str, int]]:
    """The layout as the compiler spells it, the inputs of a call, and its parameters. [known]: the script's length axes, of queries and of keys."""
    if not isinstance(axes, Mapping) or not all(isinstance(axis, Axis) for axis in axes.values()):
        raise TypeError(f"{attention}(): axes is {{'T': aule.paged(table, lengths)}} and so on, by the script's names of axes, not {axes!r}")
    for name in axes:
        if name not in known:
            raise ArgumentError(f"{attention} has no length axis {name}; it has {', '.join(dict.fromkeys(known))}", "name")
    given = {f"{name}_{what}": x for name, axis in axes.items() for what, x in axis.tensors.items()}
    most = {f"{name}_most": axis.most for name, axis in axes.items() if axis.most is not None}
    return ",".join(f"{name}={axes[name].layout}" for name in dict.fromkeys(known) if name in axes), given, most
