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
            calls chooses then; "mha@T=paged" is one of these.
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
        made = AttentionFunction(Loaded(place, attention), f"{place} {stamp(place)}{' invariant' * invariant}", (partial(load, invariant=invariant), (place, attention)))
        made._ask_invariant(invariant)
        if "@" not in made.name:
            made._others = {spelled(name.partition("@")[2]): load(place, name, invariant=invariant) for name in names_in(place) if name.startswith(f"{made.name}@")}
        return made
    except UnicodeDecodeError as e:
        raise Error(f"{place} is damaged: a name in it is no text", "artifact") from e
