"""Exceptions. The message is the library's own: what was expected, what was found, with names and numbers."""

from __future__ import annotations


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


class CompileError(Error):
    """A script that does not compile. The message holds all diagnostics, with places."""


class LibraryError(Error):
    """``libaule`` or ``libaulec`` cannot be found or loaded, or is of another version."""
