"""include/aule/aulec.h for ctypes, and attentions whose kernels are compiled when they are first needed."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import stat
import warnings
from concurrent.futures import ThreadPoolExecutor
from ctypes import POINTER, Structure, byref, c_char_p, c_size_t, c_uint32, c_void_p
from contextlib import contextmanager
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Callable, Collection, Iterator, Mapping, Sequence

import numpy

from . import _cache, _used
from ._artifact import Loaded
from ._axes import spelled
from ._builds import builds
from ._devices import Device, chosen
from ._errors import CompileError, CompileWarning, Error
from ._function import AttentionFunction, by_key, is_traced
from ._libraries import load_library
from ._tensors import NAMES, TYPES, View

OK, SCRIPT, USAGE, MEMORY = range(4)
EMIT = {
    "artifact": 0, "ast": 1, "attention-ir": 2, "tiled-ir": 3, "kernel-ir": 4, "llvm-ir": 5, "asm": 6, "opencl-c": 7, "stdlib": 8,
    "gradients": 13, "spirv-text": 15, "metal": 16, "shapes": 17,
}
# What is compiled to learn a script's signature: the target that takes least time, without what it may not have
SIGNATURE = {"targets": "opencl", "dtypes": "f32", "f32": "exact"}
ALONE = 2  # of an option that asks for further operations: those and no others
OPERANDS = {TYPES["float32"]: "f32", TYPES["float16"]: "f16", TYPES["bfloat16"]: "bf16"}


class Options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("targets", c_char_p), ("archs", c_char_p), ("dtypes", c_char_p), ("widths", c_char_p),
        ("attention", c_char_p), ("optimize", c_uint32), ("emit", c_uint32), ("no_gradients", c_uint32), ("deterministic", c_uint32),
        ("checked", c_uint32), ("f32", c_char_p), ("after", c_char_p), ("lines", c_uint32), ("shape", c_char_p), ("shapes", c_char_p),
        ("shapes_name", c_char_p), ("parts", c_uint32), ("layout", c_char_p), ("storage", c_char_p), ("append", c_uint32),
        ("invariant", c_uint32), ("serve", c_uint32),
    ]


class Diagnostic(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("severity", c_uint32), ("code", c_char_p), ("file", c_char_p), ("line", c_uint32), ("column", c_uint32),
        ("message", c_char_p), ("text", c_char_p),
    ]


WARNING = 1  # aulec_severity
OF_SHAPES = "W0601"  # a row of a table of shapes that does not do, which shows when kernels are made
MOST_BYTES = 4 << 20  # of a script or a table of shapes


class Compiler:
    """libaulec."""

    def __init__(self) -> None:
        self.cdll, self.path = load_library("aulec")
        functions = {
            "aulec_compile": (ctypes.c_int, [c_char_p, c_char_p, c_size_t, POINTER(Options), POINTER(c_void_p)]),
            "aulec_result_data": (c_void_p, [c_void_p]),
            "aulec_result_length": (c_size_t, [c_void_p]),
            "aulec_result_diagnostics": (c_char_p, [c_void_p]),
            "aulec_result_diagnostic_count": (c_size_t, [c_void_p]),
            "aulec_result_get_diagnostic": (POINTER(Diagnostic), [c_void_p, c_size_t]),
            "aulec_result_free": (None, [c_void_p]),
            "aulec_version": (c_char_p, []),
            "aulec_best_arch": (c_char_p, [c_char_p, c_char_p, c_char_p]),
        }
        for name, (result, arguments) in functions.items():
            function = getattr(self.cdll, name)
            function.restype, function.argtypes = result, arguments
        self.release = self.cdll.aulec_version().decode()

    @contextmanager
    def _result(self, name: str, text: bytes, options: Mapping[str, Any]) -> Iterator[tuple[int, c_void_p]]:
        """Status and result of one compilation."""
        filled = Options(ctypes.sizeof(Options))
        for key, value in options.items():
            given = value.encode() if isinstance(value, str) else value
            if isinstance(given, bytes) and b"\0" in given:  # C's strings end there
                raise CompileError(f"{key} is {value!r}: a zero byte is none of its characters", "usage")
            setattr(filled, key, given)
        result = c_void_p()
        status = self.cdll.aulec_compile(os.fsencode(name), text, len(text), byref(filled), byref(result))
        if not result:
            raise CompileError("out of memory" if status == MEMORY else "the compiler gave no result", "memory")
        try:
            yield status, result
        finally:
            self.cdll.aulec_result_free(result)

    def run(self, name: str, text: bytes, **options: Any) -> bytes:
        """One compilation: the artifact, or the text of the stage that ``emit`` names."""
        with self._result(name, text, options) as (status, result):
            if status != OK:
                raise self._error(status, result)
            for warning in self._warnings(result):
                if warning.code == OF_SHAPES:  # others are of the script, and were said when it was given
                    warnings.warn_explicit(warning, CompileWarning, warning.file, warning.line, module="aule")
            return ctypes.string_at(self.cdll.aulec_result_data(result), self.cdll.aulec_result_length(result))

    def warnings(self, name: str, text: bytes, options: Mapping[str, Any]) -> list[CompileWarning]:
        """What the compiler has to say of a script that compiles. Options that are wrong, of which nothing else is made, are an error."""
        with self._result(name, text, {**options, "emit": EMIT["gradients"]}) as (status, result):
            if status == USAGE:
                raise self._error(status, result)
            return self._warnings(result)

    def note(self, name: str, text: bytes, options: Mapping[str, Any], code: str) -> str:
        """The message of the first note of that code; "" where there is none."""
        with self._result(name, text, options) as (_, result):
            every = [self.cdll.aulec_result_get_diagnostic(result, n).contents for n in range(self.cdll.aulec_result_diagnostic_count(result))]
            return next((d.message.decode() for d in every if (d.code or b"").decode() == code), "")

    def _warnings(self, result: c_void_p) -> list[CompileWarning]:
        every = [self.cdll.aulec_result_get_diagnostic(result, n).contents for n in range(self.cdll.aulec_result_diagnostic_count(result))]
        return [_warning(d) for d in every if d.severity == WARNING]

    def _error(self, status: int, result: c_void_p) -> CompileError:
        said = self.cdll.aulec_result_diagnostics(result).decode(errors="replace")
        return CompileError(said.rstrip("\n"), "usage" if status == USAGE else "script")


def _warning(d: Diagnostic) -> CompileWarning:
    """Its message has the line with a caret and the notes, as the compiler shows them: "W0401: ...". """
    code, file = d.code.decode(), os.fsdecode(d.file)
    shown = d.text.decode(errors="replace").rstrip("\n")
    return CompileWarning(shown[shown.index(f"{code}: ") :], code, file, d.line, d.column)


@lru_cache(maxsize=None)
def compiler() -> Compiler:
    """libaulec, loaded on first use."""
    return Compiler()


def version() -> str:
    """The version of libaulec that is loaded."""
    return compiler().release


def artifact(name: str, text: bytes, options: Mapping[str, Any]) -> Loaded:
    """The artifact of a script with these options: of the cache on disk, or compiled."""
    key = [compiler().release, _cache.stamp(compiler().path), name, text, sorted(options.items())]
    what = " ".join(str(options[part]) for part in ("dtypes", "widths", "targets") if part in options)

    def make(slow: Callable[[], None]) -> Loaded:
        def run() -> bytes:
            slow()
            return compiler().run(name, text, **options)

        return _cache.load(run, key, lambda path: Loaded(path, options.get("attention")))

    return builds.once((_cache.folder(), repr(key)), f"{os.path.basename(name)} {what}", make)


PROBE = b"attention probe { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; score_mod(s) = s; online identity; }"


@lru_cache(maxsize=None)
def best_arch(device: Device, dtype: str) -> str | None:
    """The architecture to compile for where kernels are for this device alone: a GPU's own, else of those that the target compiles by
    default the one whose kernels would be chosen: the best by the compiler's table, unless it makes none of its own for this type.
    Learnt from a small script, once for each build of the compiler. None: let the compiler decide."""
    options = {"targets": device.backend, "dtypes": dtype, "widths": "D=16", "optimize": 1, "no_gradients": 1}
    for own in [word for word in device.features if word.startswith(("sm_", "gfx"))][:1]:
        try:
            return next(iter(artifact("<probe>", PROBE, options | {"archs": own}).archs(device.features)), None)
        except CompileError:  # not one that the compiler knows, or not with this type
            pass
    archs = artifact("<probe>", PROBE, options).archs(device.features)
    best = compiler().cdll.aulec_best_arch(device.backend.encode(), " ".join(device.features).encode(), dtype.encode())
    return best.decode() if best and best.decode() in archs else next(iter(archs), None)


# How names of architectures of GPUs begin (``aulec --arch``).
GPUS = ("sm_", "gfx", "apple", "generic", "spirv", "vulkan", "levelzero", "xe2")


def _for_signature(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the signature is learnt from: the cheapest code; that of named processors, so that a wrong name is said at once."""
    if options.get("archs", "").startswith(GPUS):
        options = {key: value for key, value in options.items() if key != "archs"}
    return {**options, **SIGNATURE, **({"targets": "cpu"} if "archs" in options else {})}


class Compiled(AttentionFunction):
    """An attention with its script at hand: artifacts are made for operand types and widths as calls bring them."""

    def __init__(self, name: str, text: bytes, attention: str | None, options: Mapping[str, Any]) -> None:
        self._source = name, text
        self._options = {key: value for key, value in options.items() if value is not None}
        self._which = attention
        self._made: dict[tuple, Loaded] = {}
        self._signatures: dict[str, Loaded] = {}  # with further operations
        self._layouts = SimpleNamespace()  # the same script for other layouts and storages
        remake = _compile_again, (name, text, attention, dict(self._options))
        digest = hashlib.sha256(repr((text, attention, sorted(self._options.items()))).encode()).hexdigest()[:16]
        super().__init__(self._make(_for_signature(self._options)), digest, remake)
        self._fixed = sorted(self._loaded.fixed_names())
        self._ask_invariant(self._options.get("invariant"))

    @property
    def source(self) -> str:
        """The script's text."""
        return self._source[1].decode()

    def _make(self, options: Mapping[str, Any]) -> Loaded:
        if self._which is not None:
            options = {**options, "attention": self._which}
        return artifact(*self._source, options)

    def _for_layout(self, layout: str, given: Collection[str]) -> AttentionFunction:
        own = self._options.get("layout")
        if own is not None:
            if spelled(own) != spelled(layout):
                raise Error(f"{self.name} was compiled with layout={own!r}, and axes ask for {layout!r}: compile it without a layout", "usage")
            return self
        return self._laid_out(layout, self._options.get("storage"))

    def _laid_out(self, layout: str | None, storage: str | None = None, invariant: bool = False) -> "Compiled":
        """The same script for rows that lie so, and are stored so."""
        name = f"{layout}|{storage}|{invariant}"
        if not hasattr(self._layouts, name):
            if is_traced():
                _lay_out(self._key, name, layout, storage, invariant)
            else:
                self._lay_out(name, layout, storage, invariant)
        made: Compiled = getattr(self._layouts, name)
        return made

    def _lay_out(self, name: str, layout: str | None, storage: str | None, invariant: bool) -> None:
        given = {**self._options, "layout": layout, "storage": storage, "invariant": 1 if invariant else self._options.get("invariant")}
        setattr(self._layouts, name, Compiled(*self._source, self._which, given))

    def _as_compiled(self) -> str:
        given = [f"{option} {self._options[option]}" for option in ("layout", "storage") if self._options.get(option)]
        return " with ".join([self.name, " and ".join(given)]) if given else self.name

    def _kernels(self, views: Mapping[str, View], device: Device, gradients: bool) -> Loaded:
        """Kernels for q's type and the widths of these shapes; what cannot be is the library's to refuse."""
        sizes = self._sizes(views)
        dtype = OPERANDS.get(views["q"].dtype) if "q" in views else None
        if dtype is None or any(name not in sizes for name in self._fixed):
            return self._loaded
        return self._built(device, dtype, tuple(sizes[name] for name in self._fixed), gradients)

    def _kernels_of_parts(self, views: Mapping[str, View], device: Device, gradients: bool) -> Loaded:
        """Of combine, to which no tensor gives the width of the keys, nor do its kernels ask for it: any does."""
        sizes = self._sizes(views)
        if "q" not in views and "o" in views and "acc_parts" in views:
            sizes = {name: sizes.get(name, views["acc_parts"].shape[4]) for name in self._fixed}
        given = views["q"] if "q" in views else views.get("o")
        dtype = OPERANDS.get(given.dtype) if given is not None else None
        if dtype is None or any(name not in sizes for name in self._fixed):
            return self._with("parts")
        return self._built(device, dtype, tuple(sizes[name] for name in self._fixed), False, "parts")

    def _with(self, more: str) -> Loaded:
        if more not in self._signatures:
            self._signatures[more] = self._make({**_for_signature(self._options), more: 1, "no_gradients": 1})
        return self._signatures[more]

    def _kernels_of_append(self, views: Mapping[str, View], device: Device, gradients: bool) -> Loaded:
        """For the type of the new rows; what widths there are beside those of the cache, its kernels do not ask for."""
        sizes, new = self._sizes(views), views["k_new"]
        dtype = OPERANDS.get(new.dtype)
        if dtype is None or len(new.shape) != 4:
            return self._with("append")
        return self._built(device, dtype, tuple(sizes.get(name, new.shape[3]) for name in self._fixed), False, "append")

    def _that_appends(self) -> AttentionFunction:
        if self._options.get("append"):
            return self
        if not hasattr(self._layouts, "appending"):
            if is_traced():
                _add_append(self._key)
            else:
                self._add_append()
        made: Compiled = self._layouts.appending
        return made

    def _add_append(self) -> None:
        self._layouts.appending = Compiled(*self._source, self._which, {**self._options, "append": 1, "no_gradients": 1})

    def _why_no_parts(self) -> str:
        name, text = self._source
        options = {**_for_signature(self._options), "parts": 1, "no_gradients": 1}
        if self._which is not None:
            options["attention"] = self._which
        return compiler().note(name, text, options, "N0603")

    def _built(self, device: Device, dtype: str, widths: tuple[int, ...], gradients: bool, more: str | None = None) -> Loaded:
        """[more]: an option that asks for further operations."""
        key = device.id, dtype, widths, gradients, more
        if key not in self._made and not gradients and more in (None, "append"):
            found = _used.find(self._source[1], self._which, self._options, self._with("append") if more else self._loaded, device, dtype, dict(zip(self._fixed, widths)), more)
            if found is not None:
                self._made[key] = found
        if key not in self._made:
            asked: dict[str, Any] = {"targets": device.backend, "dtypes": dtype}
            arch = best_arch(device, dtype)
            if arch is not None:
                asked["archs"] = arch
            asked |= self._options
            if widths:
                asked["widths"] = ";".join(f"{name}={n}" for name, n in zip(self._fixed, widths))
            if not gradients:
                asked["no_gradients"] = 1
            if more:
                asked[more] = ALONE
            self._made[key] = self._make(asked)
        return self._made[key]

    def _sizes(self, views: Mapping[str, View]) -> dict[str, int]:
        """Sizes that shapes bind directly; contradictions are the library's to report."""
        sizes: dict[str, int] = {}
        for spec in self.tensors:
            shape = views[spec.name].shape if spec.name in views else ()
            if len(shape) == len(spec.axes):
                sizes.update({axis: n for axis, n in zip(spec.axes, shape) if isinstance(axis, str) and axis not in sizes})
            width = self._specs["o"].axes[3] if spec.role == "v" and spec.codes_of_byte > 1 else None
            if isinstance(width, str) and len(shape) == 4:
                sizes.setdefault(width, shape[3] * spec.codes_of_byte)
        return sizes

    def prepare(
        self, *, dtypes: Any = "float32", widths: int | Mapping[str, int] | Sequence[int | Mapping[str, int]] = ({},), device: str | None = None,
        gradients: bool = True,
    ) -> None:
        """Compiles kernels before the first calls need them, those for different types and widths in parallel.

        Args:
            dtypes: an operand type or several: "float32", "float16", "bfloat16", or torch's or NumPy's objects for them.
            widths: for each set of kernels the sizes of the script's width axes: ``[{"D": 64, "E": 64}, {"D": 192, "E": 128}]``; a number where
                all are alike: ``[64, 128]``.
            device: where they are to run; by default where calls on host tensors do.
            gradients: with the kernels of the backward pass.
        """
        place = Device.get(device or chosen() or "cpu")
        types = [self._operand(dtype) for dtype in (dtypes if isinstance(dtypes, (list, tuple)) else [dtypes])]
        if not isinstance(gradients, (bool, int)) or gradients not in (0, 1):
            raise TypeError(f"{self.name}.prepare(): gradients is True or False, not {gradients!r}")
        sets = [self._widths(given) for given in (widths if isinstance(widths, Sequence) and not isinstance(widths, str) else [widths])]
        if not types or not sets:
            raise TypeError(f"{self.name}.prepare() was given no {'widths' if types else 'operand types'} to compile for")
        asked = [(place, operand, given, gradients) for operand in types for given in sets]
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            for made in [pool.submit(self._built, *one) for one in asked]:
                made.result()


    def _operand(self, dtype: Any) -> str:
        name = dtype.__name__ if isinstance(dtype, type) else str(dtype).removeprefix("torch.")
        operand = OPERANDS.get(TYPES.get(name, (0, 0)))
        if operand is None:
            raise TypeError(f"{self.name}.prepare() was given the operand type {name}, expected {', '.join(NAMES[code] for code in OPERANDS)}")
        return operand

    def _widths(self, given: int | Mapping[str, int]) -> tuple[int, ...]:
        named = given if isinstance(given, Mapping) else dict.fromkeys(self._fixed, given)
        whole = all(isinstance(n, (int, numpy.integer)) and not isinstance(n, bool) and n > 0 for n in named.values())
        if sorted(named) != self._fixed:
            raise TypeError(f"{self.name}.prepare() needs the widths {', '.join(self._fixed)}, it was given {', '.join(named) or 'none'}")
        if not whole:
            raise TypeError(f"{self.name}.prepare() was given the widths {given!r}, expected numbers or {{{', '.join(f'{axis!r}: number' for axis in self._fixed)}}}")
        return tuple(named[axis] for axis in self._fixed)


def _lay_out(key: str, *asked: Any) -> None:
    """The attentions of that key, for rows that lie as is asked."""
    for f in tuple(by_key[key]):
        if isinstance(f, Compiled):
            f._lay_out(*asked)


# torch.compile runs it while it traces, and then finds the attention as anybody's attribute.
_lay_out._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _add_append(key: str) -> None:
    """Of the attentions of that key those that append, too."""
    for f in tuple(by_key[key]):
        if isinstance(f, Compiled):
            f._add_append()


_add_append._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _compile_again(name: str, text: bytes, attention: str | None, options: Mapping[str, Any]) -> Compiled:
    """For copies that were pickled."""
    return Compiled(name, text, attention, options)


def _script(source: str | os.PathLike[str]) -> tuple[str, bytes]:
    """Name and text of a script given as a path or as its text, which has braces or several lines."""
    return _text(source, "<script>", "{", "a script")


def _text(source: str | os.PathLike[str], name: str, sign: str, what: str) -> tuple[str, bytes]:
    """Name and text of what is given as a path or as its text, which has this sign or several lines."""
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"{what} is given as a path or as its text, not as {type(source).__name__}")
    if isinstance(source, str) and (sign in source or "\n" in source):
        return name, _utf8(source, what)
    path = os.fspath(source)
    if not path.strip():
        raise Error(f"{what} is given as a path or as its text; this is empty", "file")
    try:
        return path, _read(path)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in a name
        raise Error(f"{path[:200]} cannot be read: {getattr(error, 'strerror', None) or error}", "file") from None


def _read(path: str) -> bytes:
    """A file, as far as the compiler would take it: a pipe may have nobody who writes into it, a device no end."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is a folder" if stat.S_ISDIR(mode) else "it is a pipe or a device; read it, and give its text")
        return file.read(MOST_BYTES + 1)


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Error(f"{what} has a character that is none of Unicode's: {text[error.start]!r}", "file") from None


def _list(value: str | Sequence[str] | None, what: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{what} is a name or several, not {value!r}")
    return ",".join(value)


def _flag(what: str, value: Any) -> int | None:
    """1, or None where it is off: "no" is neither."""
    if value not in (0, 1) or not isinstance(value, (bool, int)):
        raise ValueError(f"{what} is True or False, not {value!r}")
    return 1 if value else None


def compile(
    source: str | os.PathLike[str],
    *,
    attention: str | None = None,
    archs: str | Sequence[str] | None = None,
    optimize: int | None = None,
    deterministic: bool = False,
    checked: bool = False,
    f32: str | None = None,
    shapes: str | os.PathLike[str] | None = None,
    layout: str | None = None,
    storage: str | None = None,
    invariant: bool = False,
) -> Compiled:
    """Compiles a script.

    The script is checked at once. Kernels are compiled for the operand type and the widths of the first call that has them, and
    kept in ``$XDG_CACHE_HOME/aule``, private to the user.

    Args:
        source: the path of an ``.attn`` file, or a script's text.
        attention: which attention of the script; not needed if there is only one.
        archs: architectures to compile for, instead of the one of the device at hand: "x86-64-v3,x86-64-v4", or "sm_80,sm_90".
        optimize: 0 to 3; default 3.
        deterministic: gradients are summed in a fixed order, the same bits every time, which takes longer (on GPUs those of queries, too). Results always are.
        checked: an index of the script that leaves its tensor is an ``ArgumentError`` of the call, which names the line and the numbers; else it
            is clamped. Calls take longer, and wait for the device: for finding mistakes.
        f32: how operands of float32 are multiplied: "exact", the default, or "tf32", rounded to 10 bits of mantissa, which is faster on CUDA from
            sm_80 on and refused everywhere else.
        shapes: a table of shapes of kernels (docs/tuning.md), its path or its text; its rows come before the compiler's own.
        layout: how the rows of axes lie in memory, keys "T=padded" or "T=paged", queries and keys "S=packed,T=packed" or "S=padded,T=padded"
            (docs/dev/serving.md): calls then take `S_lengths`, `T_lengths` and, of pages, `T_table`, of packed rows `S_starts` and `T_starts`. Words behind keys add to that: "T=paged:rows"
            `T_rows`, which row of the table (of the cache, "T=padded:rows", "T=dense:rows") each sequence has; "T=paged:csr" `T_table_starts`, where the
            pages of each begin in a table that is one list; "T=paged:positions" `T_first`, `T_whole` and `T_every`, which positions of a longer
            sequence the rows are; "T=paged:groups" `T_groups` and `T_shared`, which neighbouring sequences have the same first keys; behind packed rows
            "S=packed:most" `S_most`, how many no sequence has more of, which makes calls of few queries fast. On processors, OpenCL devices and CUDA; pages, and keys with such words, without gradients.

        storage: keys and values are stored in 8 bits or 4, "e4m3", "e5m2", "i8" or "i4", or "k=i8,v=e4m3:token", where ":token" says that each token
            has a scale of its own (docs/dev/serving.md): calls then take `k_scale` and `v_scale`, float32 of k's axes with 1 for the last one, and for
            each other that they do not vary along. ":channels32" says that each token has one for each 32 channels, ":zero" that there are
            zero points, `k_zero`, shaped as the scales, ":f16" and ":bf16" that both are of that type, "i4:channels32:zero:f16". The element is scale * (stored - zero). Of "i4" two channels are
            a uint8, the lower one its lower half. Forward, on processors, OpenCL devices and CUDA.

        invariant: the bits of a row's result depend on its own sequence alone, whatever else is in the batch. Forward of attentions with weights; few
            queries over long caches take a little longer, and what sequences share is read for each.

    What the compiler warns of is reported as :class:`aule.CompileWarning` through ``warnings``, at the script's file and line.

    Raises:
        CompileError: the script has errors; the message shows all of them.
        Error: the file cannot be read.
        LibraryError: libaulec is not there.
    """
    if optimize not in (None, 0, 1, 2, 3) or isinstance(optimize, (bool, float)):
        raise ValueError(f"optimize is 0, 1, 2 or 3, not {optimize!r}")
    if f32 not in (None, "exact", "tf32"):
        raise ValueError(f'f32 is "exact" or "tf32", not {f32!r}')
    if layout is not None and not isinstance(layout, str):
        raise TypeError(f'layout is "T=padded", "T=paged" or "S=packed,T=packed", not {layout!r}')
    if storage is not None and not isinstance(storage, str):
        raise TypeError(f'storage is "e4m3", "e5m2", "i8" or "k=e4m3,v=i8:token", not {storage!r}')
    name, text = _script(source)
    if attention is not None and not isinstance(attention, str):
        raise TypeError(f"attention is the name of one of the script's, not {attention!r}")
    options: dict[str, Any] = {"archs": _list(archs, "archs"), "optimize": None if optimize is None else 1 + optimize, "f32": f32}
    options["layout"], options["storage"] = layout, storage
    options |= {"deterministic": _flag("deterministic", deterministic), "checked": _flag("checked", checked)}
    options["invariant"] = _flag("invariant", invariant)
    if shapes is not None:
        options["shapes_name"], options["shapes"] = _text(shapes, "<shapes>", "=", "a table of shapes")
        if b"\0" in options["shapes"]:
            raise Error(f"{options['shapes_name']}: a table of shapes is text, and this has zero bytes", "file")
    # Which devices have units for tf32 is seen when there is one.
    found = compiler().warnings(name, text, {key: value for key, value in options.items() if value is not None and key != "f32"})
    made = Compiled(name, text, attention, options)
    _warn(name, text, found)
    return made


# By script: what was said of one is said again of another that has the same line.
_warned: dict[bytes, dict] = {}


def _warn(name: str, text: bytes, found: Sequence[CompileWarning]) -> None:
    """Reports what the compiler warns of, at the script's lines as Python reports its own warnings of a source."""
    script = hashlib.sha256(os.fsencode(name) + b"\0" + text).digest()
    for warning in found:
        registry = _warned.setdefault(script, {})
        warnings.warn_explicit(warning, CompileWarning, warning.file, warning.line, module="aule", registry=registry)


def emit(source: str | os.PathLike[str], stage: str, **options: Any) -> str:
    """The text of a stage of the compilation: "ast", "attention-ir", "tiled-ir", "kernel-ir", "llvm-ir", "asm", "opencl-c", "spirv-text", "metal", "shapes".

    Args:
        options: of ``aulec_options`` (``include/aule/aulec.h``), by their names there, those that the stage has: targets, archs, dtypes, widths,
            attention; shape and shapes as text; after, a pass, with "tiled-ir"; lines, 1 for the script's lines in PTX.
    """
    if stage not in EMIT or stage == "artifact":
        raise ValueError(f"there is no stage {stage!r}, there are {', '.join(name for name in EMIT if name != 'artifact')}")
    name, text = _script(source)
    return compiler().run(name, text, emit=EMIT[stage], **options).decode()
