"""include/aule/aulec.h for ctypes, and attentions whose kernels are compiled when they are first needed."""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import POINTER, Structure, byref, c_char_p, c_size_t, c_uint32, c_void_p
from functools import lru_cache
from typing import Any, Mapping, Sequence

from . import _cache
from ._attention import Attention, Loaded
from ._errors import CompileError, Error
from ._libraries import load_library
from ._tensors import TYPES, View

OK, SCRIPT, USAGE, MEMORY = range(4)
EMIT = {
    "artifact": 0, "ast": 1, "attention-ir": 2, "tiled-ir": 3, "kernel-ir": 4, "llvm-ir": 5, "asm": 6, "opencl-c": 7, "stdlib": 8,
}
OPERANDS = {TYPES["float32"]: "f32", TYPES["float16"]: "f16", TYPES["bfloat16"]: "bf16"}


class Options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("targets", c_char_p), ("archs", c_char_p), ("dtypes", c_char_p), ("widths", c_char_p),
        ("attention", c_char_p), ("optimize", c_uint32), ("emit", c_uint32),
    ]


class Compiler:
    """libaulec."""

    def __init__(self) -> None:
        self.cdll, self.path = load_library("aulec")
        functions = {
            "aulec_compile": (ctypes.c_int, [c_char_p, c_char_p, c_size_t, POINTER(Options), POINTER(c_void_p)]),
            "aulec_result_data": (c_void_p, [c_void_p]),
            "aulec_result_length": (c_size_t, [c_void_p]),
            "aulec_result_diagnostics": (c_char_p, [c_void_p]),
            "aulec_result_free": (None, [c_void_p]),
            "aulec_version": (c_char_p, []),
        }
        for name, (result, arguments) in functions.items():
            function = getattr(self.cdll, name)
            function.restype, function.argtypes = result, arguments
        self.release = self.cdll.aulec_version().decode()

    def run(self, name: str, text: bytes, **options: Any) -> bytes:
        """One compilation: the artifact, or the text of the stage that ``emit`` names."""
        filled = Options(ctypes.sizeof(Options))
        for key, value in options.items():
            setattr(filled, key, value.encode() if isinstance(value, str) else value)
        result = c_void_p()
        status = self.cdll.aulec_compile(name.encode(), text, len(text), byref(filled), byref(result))
        if not result:
            raise CompileError("out of memory" if status == MEMORY else "the compiler gave no result", "memory")
        try:
            if status != OK:
                said = self.cdll.aulec_result_diagnostics(result).decode(errors="replace")
                raise CompileError(said.rstrip("\n"), "usage" if status == USAGE else "script")
            return ctypes.string_at(self.cdll.aulec_result_data(result), self.cdll.aulec_result_length(result))
        finally:
            self.cdll.aulec_result_free(result)


@lru_cache(maxsize=None)
def compiler() -> Compiler:
    """libaulec, loaded on first use."""
    return Compiler()


def version() -> str:
    """The version of libaulec that is loaded."""
    return compiler().release


class Compiled(Attention):
    """An attention with its script at hand: artifacts are made for operand types and widths as calls bring them."""

    def __init__(self, name: str, text: bytes, attention: str | None, options: Mapping[str, Any]) -> None:
        self._source = name, text
        self._options = {key: value for key, value in options.items() if value is not None}
        self._which = attention
        self._made: dict[tuple, Loaded] = {}
        self._lock = threading.Lock()
        super().__init__(self._make({"targets": "cpu", "dtypes": "f32"} | self._options))
        self._fixed = sorted(self._loaded.fixed_names())

    def _make(self, options: Mapping[str, Any]) -> Loaded:
        name, text = self._source
        if self._which is not None:
            options = {**options, "attention": self._which}
        key = [compiler().release, _cache.stamp(compiler().path), name, text, sorted(options.items())]
        return _cache.load(lambda: compiler().run(name, text, **options), key, lambda path: Loaded(path, self._which))

    def _kernels(self, views: Mapping[str, View], backend: str) -> Loaded:
        """Kernels for q's type and the widths of these shapes; what cannot be is the library's to refuse."""
        sizes = self._sizes(views)
        dtype = OPERANDS.get(views["q"].dtype) if "q" in views else None
        if dtype is None or any(name not in sizes for name in self._fixed):
            return self._loaded
        key = backend, dtype, tuple(sizes[name] for name in self._fixed)
        with self._lock:
            if key not in self._made:
                widths = ";".join(f"{name}={sizes[name]}" for name in self._fixed)
                self._made[key] = self._make({"targets": backend, "dtypes": dtype} | ({"widths": widths} if widths else {}) | self._given())
            return self._made[key]

    def _given(self) -> dict[str, Any]:
        """What the caller of compile() asked for and calls do not decide."""
        return {key: value for key, value in self._options.items() if key in ("archs", "optimize")}


def _script(source: str | os.PathLike[str]) -> tuple[str, bytes]:
    """Name and text of a script given as a path or as its text, which has braces or several lines."""
    if isinstance(source, str) and ("{" in source or "\n" in source):
        return "<script>", source.encode()
    try:
        with open(source, "rb") as file:
            return os.fspath(source), file.read()
    except OSError as error:
        raise Error(f"{os.fspath(source)} cannot be read: {error.strerror}", "file") from None


def _list(value: str | Sequence[str] | None) -> str | None:
    return value if value is None or isinstance(value, str) else ",".join(value)


def compile(
    source: str | os.PathLike[str],
    *,
    attention: str | None = None,
    archs: str | Sequence[str] | None = None,
    optimize: int | None = None,
) -> Attention:
    """Compiles a script.

    The script is checked at once. Kernels are compiled for the operand type and the widths of the first call that has them, and
    kept in ``$XDG_CACHE_HOME/aule``, private to the user.

    Args:
        source: the path of an ``.attn`` file, or a script's text.
        attention: which attention of the script; not needed if there is only one.
        archs: architectures to compile for, instead of all that the target has: "x86-64-v3,x86-64-v4".
        optimize: 0 to 3; default 3.

    Raises:
        CompileError: the script has errors; the message shows all of them.
        Error: the file cannot be read.
        LibraryError: libaulec is not there.
    """
    name, text = _script(source)
    options = {"archs": _list(archs), "optimize": None if optimize is None else 1 + optimize}
    return Compiled(name, text, attention, options)


def emit(source: str | os.PathLike[str], stage: str, **options: Any) -> str:
    """The text of a stage of the compilation: "ast", "attention-ir", "tiled-ir", "kernel-ir", "llvm-ir", "asm", "opencl-c".

    Args:
        options: targets, archs, dtypes, widths, attention as in ``aulec``'s options.
    """
    name, text = _script(source)
    return compiler().run(name, text, emit=EMIT[stage], **options).decode()
