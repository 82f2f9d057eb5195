"""Artifacts on disk: compiled once, found again by content.

A folder private to the user, ``$XDG_CACHE_HOME/aule``. Files are written beside their place and renamed, so that readers see whole
ones and writers do not meet. What cannot be opened (a disk that was full, another machine's file) is made again.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Any, Callable, TypeVar

from ._errors import Error

T = TypeVar("T")


def folder() -> Path | None:
    """The cache's folder, made if need be; None if there is none that only this user can write."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(base) / "aule"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError:
        return None
    foreign = found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return None if foreign else path


def stamp(path: str) -> str:
    """Tells builds of a library apart."""
    try:
        found = os.stat(path)
    except OSError:
        return path  # found by the system's rules
    return f"{found.st_size} {found.st_mtime_ns}"


def load(make: Callable[[], bytes], key: list[Any], open_: Callable[[str], T]) -> T:
    """Opens the artifact of that key, made if it is not there."""
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:40] + ".so"
    kept = folder()
    if kept is not None and (kept / name).exists():
        try:
            return open_(str(kept / name))
        except Error:
            pass
    artifact = make()
    if kept is not None:
        try:
            return open_(_write(kept, name, artifact))
        except OSError:
            pass
    with tempfile.TemporaryDirectory(prefix="aule-") as private:  # mapped when opened: the file may go
        return open_(_write(Path(private), name, artifact))


def _write(place: Path, name: str, content: bytes) -> str:
    handle, temporary = tempfile.mkstemp(dir=place, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, place / name)
    except OSError:
        os.unlink(temporary)
        raise
    return str(place / name)
