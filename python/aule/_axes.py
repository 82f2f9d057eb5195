"""Where the rows of a call's length axes lie: :func:`paged`, :func:`padded`, :func:`packed`, :func:`dense`."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from ._errors import ArgumentError


class Axis:
    """The layout of an axis, and the tensors and numbers that belong to it; ``axes=`` of calls takes it. Made by :func:`paged`, :func:`padded`,
    :func:`packed` and :func:`dense`."""

    __slots__ = ("layout", "tensors", "numbers")

    def __init__(self, layout: str, numbers: Mapping[str, int] | None = None, **tensors: Any) -> None:
        for name, x in tensors.items():
            if not hasattr(x, "shape"):
                raise TypeError(f"{name} must be a tensor, it is {type(x).__name__}")
        self.layout, self.tensors, self.numbers = layout, tensors, dict(numbers or {})

    def apart(self) -> Axis:
        """The same without what says which sequences share keys and how many rows they have at most, which is nothing to a row that is written."""
        own = {name: x for name, x in self.tensors.items() if name not in ("groups", "shared")}
        words = [word for word in self.layout.split(":") if word not in ("groups", "most")]
        return Axis(":".join(words), {name: n for name, n in self.numbers.items() if name != "most" or "csr" in words}, **own)

    def __repr__(self) -> str:
        return f"aule.{self.layout.partition(':')[0]}({', '.join(f'{name}={list(x.shape)}' for name, x in self.tensors.items())})"


class Positions(NamedTuple):
    """Row j of sequence b is position first[b] + every * j of a sequence of whole[b] positions. Of keys the last positions are those of its queries: a
    shard of a cache keeps its positions. Of queries whole[b] is how many the sequence has, of which the call has some: a rank's share of them.

    Args:
        first: int32 [B].
        whole: int32 [B].
        every: from one row's position to the next one's: how many share a cache, or queries, by turns.
    """

    first: Any
    whole: Any
    every: int = 1


def _beside(layout: str, rows: Any, positions: Any, modified: bool) -> tuple[str, dict[str, Any], dict[str, int]]:
    """What goes with rows that are paged, padded or dense: words behind the layout, tensors, numbers."""
    tensors, numbers = {}, {}
    if rows is not None:
        layout, tensors["rows"] = layout + ":rows", rows
    if positions is not None:
        if not isinstance(positions, tuple) or len(positions) not in (2, 3):
            raise TypeError("positions is aule.Positions(first, whole, every)")
        first, whole, every = Positions(*positions)
        layout, tensors["first"], tensors["whole"], numbers["every"] = layout + ":positions", first, whole, check_most(every, "every") or 0
    if not isinstance(modified, bool):
        raise TypeError(f"modified must be True or False, it is {modified!r}")
    return layout + ":modified" * modified, tensors, numbers


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


def paged(
    table: Any, lengths: Any, *, groups: Any = None, shared: Any = None, rows: Any = None, starts: Any = None, most: int | None = None,
    positions: Positions | tuple | None = None, modified: bool = False,
) -> Axis:
    """Keys in pages: k is [pages, Hk, slots, D], and row j of sequence b is slot j % slots of page table[b, j // slots].

    Args:
        table: int32 [B, entries]; what is behind a sequence's last page is not read. With starts one list, int32 [entries].
        lengths: int32 [B].
        groups: int32 [n + 1], from 0 to B: sequences groups[g] to groups[g + 1] have the same first shared[g] keys, on the same pages, which are then
            read once where there are few queries. Results are the same. With shared, or neither.
        shared: int32 [n], whole pages.
        rows: int32 [B]: sequence b has row rows[b] of the table, or of the list, and two may have one.
        starts: int32 [B + 1]: the pages of sequence b are elements starts[b] to starts[b + 1] of the table.
        most: with starts: no sequence has more keys; memory and grids have room for as many, else for all that the table has. It must be right.
        positions: :class:`Positions`, of keys that are a part of a longer sequence.
        modified: the cache holds rows as the script's k_mod and v_mod make them, as :meth:`append` with this then writes them.
    """
    layout, tensors, numbers = _beside("paged", rows, positions, modified)
    tensors |= {"table": table, "lengths": lengths}
    if starts is not None:
        layout, tensors["table_starts"] = layout + ":csr", starts
    if most is not None:
        if starts is None:
            raise ArgumentError("most is of a table that is one list, with starts; another says how many keys there are by its shape", "param")
        numbers["most"] = check_most(most, "most") or 0
    if check_shared(groups, shared, (*getattr(lengths, "shape", ()), None)[0]):
        layout, tensors["groups"], tensors["shared"] = layout + ":groups", groups, shared
    return Axis(layout, numbers, **tensors)


def padded(lengths: Any, *, rows: Any = None, positions: Positions | tuple | None = None, modified: bool = False) -> Axis:
    """Queries or keys of which the first lengths[b] rows of sequence b count, int32 [B]. The rest is of keys, as of :func:`paged`, rows and positions of
    queries too; with rows a cache, or q, has any number of lines, of which sequence b has rows[b]. Of queries no two sequences have one line: o lies as q
    does, 0 in lines that no sequence has."""
    layout, tensors, numbers = _beside("padded", rows, positions, modified)
    return Axis(layout, numbers, lengths=lengths, **tensors)


def dense(*, rows: Any = None, positions: Positions | tuple | None = None, modified: bool = False) -> Axis:
    """Rows that are all there: as they lie without ``axes=``, with what :func:`padded` has beside."""
    layout, tensors, numbers = _beside("dense", rows, positions, modified)
    return Axis(layout, numbers, **tensors)


def check_most(most: Any, what: str) -> int | None:
    """A number of rows."""
    if most is None:
        return None
    if isinstance(most, bool) or not hasattr(most, "__index__"):
        raise TypeError(f"{what} must be a whole number, it is {type(most).__name__}")
    if not 0 <= (count := most.__index__()) < 1 << 31:
        raise ArgumentError(f"{what} is {count}, expected a number of rows", "param")
    return count


def packed(starts: Any, *, most: int | None = None, positions: Positions | tuple | None = None) -> Axis:
    """Queries or keys [1, H, total, D], of which sequence b has the rows starts[b] to starts[b + 1], int32 [B + 1].

    Args:
        starts: int32 [B + 1].
        most: no sequence has more rows. Of queries that are few it makes a call as fast as one that decodes; it must be right.
        positions: :class:`Positions`, of queries that are some of a sequence's.
    """
    layout, tensors, numbers = _beside("packed", None, positions, False)
    if (count := check_most(most, "most")) is not None:
        layout, numbers["most"] = layout + ":most", count
    return Axis(layout, numbers, starts=starts, **tensors)


def spelled(layout: str) -> str:
    """The words behind each axis in one order, whatever the order they were written in."""
    axes = [axis.split(":") for axis in layout.split(",")]
    return ",".join(":".join([axis[0], *sorted(axis[1:])]) for axis in axes)


def spellings(layout: str) -> list[str]:
    """The layout, and those that take what it gives: of packed rows a call may say how many a sequence has at most, and need not."""
    every = [""]
    for axis in layout.split(","):
        words = axis.partition("=")[2].split(":")
        forms = [axis, f"{axis}:most"] if words[0] == "packed" and "most" not in words else [axis]
        every = [",".join(filter(None, (before, form))) for before in every for form in forms]
    return [spelled(one) for one in every]


def layout_of(attention: str, axes: Mapping[str, Axis], known: Sequence[str]) -> tuple[str, dict[str, Any], dict[str, int]]:
    """The layout as the compiler spells it, the inputs of a call, and its parameters. [known]: the script's length axes, of queries and of keys."""
    if not isinstance(axes, Mapping) or not all(isinstance(axis, Axis) for axis in axes.values()):
        raise TypeError(f"{attention}(): axes is {{'T': aule.paged(table, lengths)}} and so on, by the script's names of axes, not {axes!r}")
    for name in axes:
        if name not in known:
            raise ArgumentError(f"{attention} has no length axis {name}; it has {', '.join(dict.fromkeys(known))}", "name")
    given = {f"{name}_{what}": x for name, axis in axes.items() for what, x in axis.tensors.items()}
    numbers = {f"{name}_{what}": n for name, axis in axes.items() for what, n in axis.numbers.items()}
    return ",".join(f"{name}={axes[name].layout}" for name in dict.fromkeys(known) if name in axes), given, numbers
