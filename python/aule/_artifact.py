"""Open artifacts, and what they say about an attention: its tensors, parameters and sizes."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any, Collection, Mapping

from . import _libaule as abi

ROLES = ("q", "k", "v", "input", "output", "final", "kept", "dout", "dfinal", "gradient", "kept row", "state", "state out", "sequences", "pool", "slots", "dstate out", "dstate", "part out", "part", "new", "new slots", "work")
DTYPES = ("operand", "float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool", "float8_e4m3fn", "float8_e5m2", "int8")
SHORT = ("", "f32", "f16", "bf16")  # operand types as the compiler calls them
INPUTS = ("q", "k", "v", "input")
BACKWARD = ("kept", "kept row", "dout", "dfinal", "gradient")  # roles of tensors that only the backward pass brings
STATES = ("state", "state out", "sequences", "pool", "slots", "dstate out", "dstate")  # of recurrences: calls have names of their own for them
PARTS = ("part out", "part", "new", "new slots", "work")  # of unfinished, combine and append, which have names of their own for them, too


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of a script's signature.

    Attributes:
        name: as in the script; the output is "o", the gradient of x is "dx".
        role: "q", "k", "v", "input", "output", "final"; of the backward pass "dout" and "dfinal" (gradients that are given),
            "gradient" (gradients that are made), "kept" and "kept row" (what the forward pass keeps for it: the output before ``out_mod``, numbers of rows);
            of recurrences "state" and "state out".
        dtype: "float32", ..., or "operand": that of q.
        axes: names of sizes, numbers; None where the script has another expression.
        gradient: marked ``grad``.
        in_k: values that are a part of the keys and are not passed.
        joined: an input that :meth:`AttentionFunction.combine` takes, too; said by artifacts that have it (``--parts``), so not of a compiled function, which makes it
            when it is first called.
        cached, appended, is_list: an input that :meth:`AttentionFunction.append` takes, too; that it writes (both likewise: ``--append``); lengths, a table or starts.
        brought: an input that no script declares: what a layout or a storage brings.
    """

    name: str
    role: str
    dtype: str
    axes: tuple[str | int | None, ...]
    gradient: bool
    in_k: bool
    joined: bool = False
    cached: bool = False
    appended: bool = False
    is_list: bool = False
    brought: bool = False

    @property
    def codes_of_byte(self) -> int:
        """Elements along the last axis that one of the tensor is: 2 of keys or values that are stored in 4 bits."""
        return 2 if self.role in ("k", "v") and self.dtype == "uint8" else 1


@dataclass(frozen=True)
class Parameter:
    """A scalar parameter of a script: its name, dtype, and whether it has no default and must be passed."""

    name: str
    dtype: str
    required: bool


def _axis(axis: abi.Expr, sizes: list[str]) -> str | int | None:
    op = axis.code[0] & 0xFF
    if axis.length == 1 and op == abi.E_SIZE:
        return sizes[axis.code[0] >> 8] or None
    if axis.length == 3 and op == abi.E_CONST_INT:
        return axis.code[1] | axis.code[2] << 32
    return None


def _words(axis: abi.Expr, sizes: list[str]) -> tuple:
    """The code of an extent, with the names of sizes in place of their numbers."""
    words: list[Any] = []
    at = 0
    while at < axis.length:
        word = axis.code[at]
        op, more = word & 0xFF, 2 if word & 0xFF in (abi.E_CONST_INT, abi.E_CONST_FLOAT) else 0
        words += [op, sizes[word >> 8] if op == abi.E_SIZE else word >> 8, *(axis.code[at + 1 + n] for n in range(more))]
        at += 1 + more
    return tuple(words)


def names_in(path: str) -> list[str]:
    """Of all attentions of an artifact."""
    lib = abi.library()
    module = lib.handle(lib.module_open, os.fsencode(path), None)
    try:
        d = lib.module_descriptor(module).contents
        return [abi.step(d.attentions, n, abi.AttentionV1).name.decode() for n in range(d.attention_count)]
    finally:
        lib.module_close(module)


class Loaded:
    """An attention of an open artifact. Handles live as long as the object."""

    def __init__(self, path: str, name: str | None) -> None:
        self._library = lib = abi.library()
        self._module = lib.handle(lib.module_open, os.fsencode(path), None)
        try:
            self.handle = lib.handle(lib.module_find, self._module, name.encode() if name else None)
        except Exception:
            lib.module_close(self._module)
            raise
        self.descriptor: abi.AttentionV1 = lib.attention_descriptor(self.handle).contents

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._library.module_close(self._module)

    def source_hash(self) -> int:
        return int(self._library.module_descriptor(self._module).contents.source_hash)

    def is_modified(self) -> bool | None:
        """Do rows of k and v lie as the script's mods make them? None: of before 1.24, which do not tell."""
        d = self.descriptor
        if any(abi.step(d.tensors, n, abi.TensorV1).flags & abi.TENSOR_MODIFIED for n in range(d.tensor_count)):
            return True
        return False if self._library.module_descriptor(self._module).contents.version_minor >= 24 else None

    def size_names(self) -> list[str]:
        d = self.descriptor
        return [d.sizes[n].name.decode() for n in range(d.size_count)]

    def tensors(self) -> list[TensorSpec]:
        sizes, d = self.size_names(), self.descriptor
        specs = []
        for n in range(d.tensor_count):
            t = abi.step(d.tensors, n, abi.TensorV1)
            axes = tuple(_axis(t.axes[a], sizes) for a in range(t.rank))
            known = (abi.TENSOR_GRAD, abi.TENSOR_IN_K, abi.TENSOR_JOINED, abi.TENSOR_CACHED, abi.TENSOR_APPENDED, abi.TENSOR_LISTS, abi.TENSOR_BROUGHT)
            flags = [bool(t.flags & flag) for flag in known]
            specs.append(TensorSpec(t.name.decode(), ROLES[t.role], DTYPES[t.dtype], axes, *flags))
        return specs

    def parameters(self) -> list[Parameter]:
        d = self.descriptor
        params = [abi.step(d.params, n, abi.ParamV1) for n in range(d.param_count)]
        return [Parameter(p.name.decode(), DTYPES[p.dtype], not p.default_value.code) for p in params]

    def _variants(self) -> list[abi.VariantV1]:
        d = self.descriptor
        return [abi.step(d.variants, n, abi.VariantV1) for n in range(d.variant_count)]

    def fixed_names(self) -> set[str]:
        """Sizes for which kernels are compiled: the widths."""
        sizes = self.size_names()
        return {sizes[v.fixed[f].size] for v in self._variants() for f in range(v.fixed_count)}

    def signature(self) -> list[tuple]:
        """What calls of forward give: of each tensor name, role, dtype and axes, with sizes by name."""
        sizes, d = self.size_names(), self.descriptor
        tensors = [abi.step(d.tensors, n, abi.TensorV1) for n in range(d.tensor_count)]
        given = [t for t in tensors if ROLES[t.role] in (*INPUTS, "output", "final", "work")]
        return [(t.name, t.role, t.dtype, t.flags & (abi.TENSOR_IN_K | abi.TENSOR_MODIFIED), *(_words(t.axes[a], sizes) for a in range(t.rank))) for t in given]

    def has_kernels(self, operation: str, target: str, features: Collection[str], dtype: str, widths: Mapping[str, int], invariant: bool) -> bool:
        """Are there some of that operation for such a device, that operand type and those widths; where results must not depend on the batch, none but such?"""
        sizes, found = self.size_names(), []
        for v in self._variants():
            fixed = {sizes[v.fixed[f].size]: v.fixed[f].value for f in range(v.fixed_count)}
            if v.operation.decode() == operation and v.target.decode() == target and SHORT[v.dtype] == dtype and fixed == dict(widths):
                found += [v.flags if v.struct_size > abi.VariantV1.flags.offset else 0] if set(v.features.decode().split()) <= set(features) else []
        return bool(found) and (not invariant or any(flags & abi.VARIANT_INVARIANT for flags in found) or not any(flags & abi.VARIANT_BY_BATCH for flags in found))

    def archs(self, features: Collection[str]) -> list[str]:
        """The architectures of its kernels that a device with these features runs, the best first."""
        return [v.arch.decode() for v in self._variants() if set(v.features.decode().split()) <= set(features)]

    def shape(self, name: str, call: abi.Call) -> tuple[tuple[int, ...], tuple[int, int]]:
        """Shape and DLPack type (code, bits) of a tensor, as the inputs of the call imply.

        Raises:
            ArgumentError: the inputs do not fit the script.
        """
        rank, shape, dtype = ctypes.c_int32(), (ctypes.c_int64 * 8)(), abi.DLDataType()
        self._library.attention_shape(self.handle, ctypes.byref(call), name.encode(), ctypes.byref(rank), shape, ctypes.byref(dtype))
        return tuple(shape[: rank.value]), (dtype.code, dtype.bits)
