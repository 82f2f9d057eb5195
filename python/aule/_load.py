"""Artifacts of ``aulec``: :func:`load`."""

from __future__ import annotations

import os
from functools import partial

from ._artifact import Loaded, names_in
from ._axes import spelled
from ._cache import stamp
from ._errors import Error
from ._function import AttentionFunction


def load(path: str | os.PathLike[str], attention: str | None = None, *, invariant: bool = False) -> AttentionFunction:
    """Opens an artifact that ``aulec`` wrote.

    Args:
        path: the ``.so``.
        attention: which of its attentions; not needed if there is only one, or one with several layouts (``aulec --serve``), among which ``axes=`` of
            calls chooses then (without ``axes=`` it is the dense one, or where there is none the first); "mha@T=paged" is one of these.
        invariant: as of :func:`aule.compile`; few queries over long caches are then faster with an artifact of ``aulec --invariant``.

    Raises:
        Error: not a file, not an artifact, damaged, newer than the library, or without that attention.
    """
    if invariant not in (0, 1) or not isinstance(invariant, (bool, int)):
        raise ValueError(f"invariant is True or False, not {invariant!r}")
    invariant = bool(invariant)
    name = os.fspath(path)
    if not name:
        raise Error("an artifact is given as its path; this is empty", "file")
    place = os.path.abspath(os.fsdecode(name))
    try:
        first = _first_layout(place, attention)
        made = AttentionFunction(Loaded(place, first or attention), f"{place} {stamp(place)}{' invariant' * invariant}", (partial(load, invariant=invariant), (place, attention)))
        made._ask_invariant(invariant)
        if first or "@" not in made.name:
            other = f"{made.name.partition('@')[0]}@"
            made._others = {spelled(name.partition("@")[2]): load(place, name, invariant=invariant) for name in names_in(place) if name.startswith(other)}
        return made
    except UnicodeDecodeError as e:
        raise Error(f"{place} is damaged: a name in it is no text", "artifact") from e


def _first_layout(place: str, attention: str | None) -> str | None:
    """Of an attention that an artifact has in layouts alone, none of them dense, the first one: it stands for all, among which ``axes=`` chooses."""
    names = names_in(place)
    mine = [name for name in names if attention is None or name.partition("@")[0] == attention]
    if not mine or attention in names or len({name.partition("@")[0] for name in mine}) > 1 or any("@" not in name for name in mine):
        return None
    return mine[0]
