"""Artifacts on disk: compiled once, found again by content.

They lie in the folder of the runtime's cache (aule.h, aule_cache_folder), whose limit they share. A file ends with a sum of all before
it, is written to the disk beside its place and then renamed: readers see whole ones, writers do not meet, and what a power cut or a
broken disk left is made again, never loaded.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any, Callable, TypeVar

from ._errors import CacheWarning, Error
from ._libaule import library

T = TypeVar("T")
MARK = b"aulekept"  # before the sum, behind the library: loaders read what headers speak of and no further
SUM_BYTES = hashlib.sha256().digest_size

_said: set[str] = set()


def _warn(why: str) -> None:
    """Once a process: a cache that is not there slows down every start, and nothing else."""
    if why not in _said:
        _said.add(why)
        warnings.warn(f"kernels are not kept, each process compiles its own: {why}", CacheWarning, stacklevel=2)


def folder() -> Path | None:
    """The cache's folder; None if nothing is kept.

    Raises:
        Error: AULE_CACHE_MAX is no number of bytes.
    """
    limit, path = ctypes.c_uint64(), ctypes.c_void_p()
    library().cache_limit(ctypes.byref(limit))
    if limit.value == 0:
        return None
    try:
        library().cache_folder(ctypes.byref(path))
    except Error as error:
        _warn(str(error))
        return None
    try:
        return Path(os.fsdecode(ctypes.string_at(path)))
    finally:
        library().text_free(path)


def _trim() -> None:
    """Keeps to the limit."""
    limit = ctypes.c_uint64()
    library().cache_limit(ctypes.byref(limit))
    try:
        library().cache_trim(limit, None)
    except Error as error:
        _warn(str(error))


def stamp(path: str) -> str:
    """Tells builds of a library apart."""
    try:
        found = os.stat(path)
    except OSError:
        return path  # found by the system's rules
    return f"{found.st_size} {found.st_mtime_ns}"


def _is_whole(path: Path) -> bool:
    """Whether the file is there and is what was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    end = len(content) - SUM_BYTES
    return content[: max(end, 0)].endswith(MARK) and hashlib.sha256(memoryview(content)[:end]).digest() == content[end:]


def _kept(path: Path, open_: Callable[[str], T]) -> T | None:
    """The artifact of that file, if it is whole and this library takes it."""
    if not _is_whole(path):
        return None
    try:
        made = open_(str(path))
        os.utime(path)  # used now: what was not used for long goes first
    except (Error, OSError):  # another process may have removed it meanwhile
        return None
    return made


def _keep(place: Path, name: str, artifact: bytes, open_: Callable[[str], T]) -> T | None:
    """Writes the artifact and opens it; None where it cannot be kept."""
    marked = artifact + MARK
    try:
        path = _write(place, name, marked + hashlib.sha256(marked).digest())
        return open_(path)
    except OSError as error:
        _warn(f"{place}: {error.strerror}")
    except Error:
        pass  # removed by another process before it was opened
    finally:
        _trim()
    return None


def load(make: Callable[[], bytes], key: list[Any], open_: Callable[[str], T]) -> T:
    """Opens the artifact of that key, made if it is not there."""
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:40] + ".so"
    place = folder()
    made = _kept(place / name, open_) if place is not None else None
    if made is not None:
        return made
    artifact = make()
    made = _keep(place, name, artifact, open_) if place is not None else None
    if made is not None:
        return made
    try:
        with tempfile.TemporaryDirectory(prefix="aule-") as private:  # mapped when opened: the file may go
            return open_(_write(Path(private), name, artifact))
    except OSError as error:
        raise Error(f"kernels need a file to be loaded from, and {tempfile.gettempdir()} takes none: {error.strerror}", "file") from None


def _write(place: Path, name: str, content: bytes) -> str:
    """Under that name is the whole content or what was there before, also after a power cut."""
    handle, temporary = tempfile.mkstemp(dir=place, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place / name)
    except OSError:
        os.unlink(temporary)
        raise
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return str(place / name)
