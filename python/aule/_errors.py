"""Exceptions. The message is the library's own: what was expected, what was found, with names and numbers."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import Iterator, Mapping


class Error(RuntimeError):
    """Something that the library refuses or cannot do.

    Attributes:
        status: the library's word for the kind of error: "tensor", "param", "device", ... (``aule_status`` in aule.h).
    """

    def __init__(self, message: str, status: str = "unknown") -> None:
        super().__init__(message)
        self.status = status


class ArgumentError(Error, ValueError):
    """Arguments of a call that do not fit the script: shapes, dtypes, strides, names, parameters, ``require`` conditions."""


KERNELS = "aule_attention: "  # begins what is said of the kernels behind plain calls


@contextmanager
def renamed(call: str, names: Mapping[str, str]) -> Iterator[None]:
    """Errors of the kernels behind [call] say what its caller calls the arguments."""
    try:
        yield
    except ArgumentError as e:
        text = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), str(e).removeprefix(KERNELS))
        raise ArgumentError(f"{call}: {text}" if str(e).startswith(KERNELS) else text, e.status) from None


class CompileError(Error):
    """A script that does not compile. The message holds all diagnostics, with places."""


class LibraryError(Error):
    """``libaule`` or ``libaulec`` cannot be found or loaded, or is of another version."""


class CompileWarning(UserWarning):
    """Something in a script that compiles and is hardly meant, reported at the script's own file and line.

    Attributes:
        code: "W0401"; docs/errors.md says what to do about each. Messages begin with it, for filters.
        file: the script, as :func:`aule.compile` was given it; "<script>" where it was given its text.
        line, column: the place, from 1.
    """

    def __init__(self, message: str, code: str, file: str, line: int, column: int) -> None:
        super().__init__(message)
        self.code, self.file, self.line, self.column = code, file, line, column

    def __reduce__(self) -> tuple:
        return CompileWarning, (self.args[0], self.code, self.file, self.line, self.column)


class CacheWarning(RuntimeWarning):
    """Compiled kernels cannot be kept on disk: each process compiles its own."""


class CopyWarning(RuntimeWarning):
    """A call's tensors are in memory that its device does not see, nor is it the host's: they are copied twice, by way of the host, and results back. Also where they
    need not be copied (:func:`vulkan_memory`), but calls wait for two drivers."""
