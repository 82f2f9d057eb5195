"""Attentions that can be called, from artifacts; what an artifact says about them."""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_int32, c_int64
from dataclasses import dataclass
from typing import Any, Mapping

from . import _libaule as abi
from ._devices import Device
from ._errors import ArgumentError
from ._staging import Staged
from ._tensors import View, new_like, view

ROLES = ("q", "k", "v", "input", "output", "final")
DTYPES = ("operand", "float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool")


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of a script's signature.

    Attributes:
        name: as in the script; the output is "o".
        role: "q", "k", "v", "input", "output" or "final".
        dtype: "float32", ..., or "operand": that of q.
        axes: names of sizes; "" where the script has an expression or a number.
        gradient: marked ``grad``.
        in_k: values that are a part of the keys and are not passed.
    """

    name: str
    role: str
    dtype: str
    axes: tuple[str, ...]
    gradient: bool
    in_k: bool


@dataclass(frozen=True)
class Parameter:
    """A scalar parameter of a script: its name, dtype, and whether it has no default and must be passed."""

    name: str
    dtype: str
    required: bool


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

    def size_names(self) -> list[str]:
        d = self.descriptor
        return [d.sizes[n].name.decode() for n in range(d.size_count)]

    def tensors(self) -> list[TensorSpec]:
        sizes, d = self.size_names(), self.descriptor
        specs = []
        for n in range(d.tensor_count):
            t = abi.step(d.tensors, n, abi.TensorV1)
            axes = tuple(_axis_name(t.axes[a], sizes) for a in range(t.rank))
            specs.append(TensorSpec(t.name.decode(), ROLES[t.role], DTYPES[t.dtype], axes, bool(t.flags & abi.TENSOR_GRAD), bool(t.flags & abi.TENSOR_IN_K)))
        return specs

    def parameters(self) -> list[Parameter]:
        d = self.descriptor
        params = [abi.step(d.params, n, abi.ParamV1) for n in range(d.param_count)]
        return [Parameter(p.name.decode(), DTYPES[p.dtype], not p.default_value.code) for p in params]

    def fixed_names(self) -> set[str]:
        """Sizes for which kernels are compiled: the widths."""
        sizes, d = self.size_names(), self.descriptor
        variants = [abi.step(d.variants, n, abi.VariantV1) for n in range(d.variant_count)]
        return {sizes[v.fixed[f].size] for v in variants for f in range(v.fixed_count)}


def _axis_name(axis: abi.Expr, sizes: list[str]) -> str:
    one_size = axis.length == 1 and axis.code[0] & 0xFF == abi.E_SIZE
    return sizes[axis.code[0] >> 8] if one_size else ""


class Attention:
    """An attention that can be called. Made by :func:`aule.load` and :func:`aule.compile`.

    Calls may come from several threads at once.

    Attributes:
        name: as in the script.
        formula: the script, normalised.
        tensors: the signature, in order: q, k, v, inputs, the output "o", finals.
        parameters: scalar parameters.
    """

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self.name: str = loaded.descriptor.name.decode()
        self.formula: str = (loaded.descriptor.formula or b"").decode()
        self.tensors: list[TensorSpec] = loaded.tensors()
        self.parameters: list[Parameter] = loaded.parameters()
        self._inputs = [t.name for t in self.tensors if t.role in ("q", "k", "v", "input") and not t.in_k]
        self._outputs = [t.name for t in self.tensors if t.role in ("output", "final")]

    def __repr__(self) -> str:
        takes = ", ".join(self._inputs + [p.name if p.required else f"{p.name}=" for p in self.parameters])
        return f"<aule attention {self.name}({takes}) -> {', '.join(self._outputs)}>"

    def __call__(self, *qkv: Any, out: Any = None, device: str | None = None, **named: Any) -> Any:
        """The attention's output o, [B, H, S, E] in the operand type.

        Args:
            qkv: the tensors q, k, v of the script, in the order of its signature: [B, H, S, D], [B, Hk, T, D], [B, Hv, T, E].
                They may be given by name instead. A script whose values are a part of the keys takes no v.
            out: a tensor to write o into; by default a new one of q's library.
            device: "cpu" (default, unless AULE_BACKEND is set) works on the tensors where they are. Another device of
                :func:`aule.devices` gets copies of host tensors, and the result is copied back.
            named: inputs and parameters of the script by name.

        Raises:
            ArgumentError: something does not fit the script; the message names it, with what was expected and found.
            Error: no kernel for this call on this device, or the device fails.
            CompileError: kernels for these types and widths cannot be compiled.
            TypeError: an argument that is no tensor, unknown, missing, or given twice.
        """
        return self._run(qkv, named, {} if out is None else {"o": out}, ["o"], device)["o"]

    def forward(self, *qkv: Any, out: Mapping[str, Any] | None = None, device: str | None = None, **named: Any) -> dict[str, Any]:
        """Output and finals by name: {"o": [B, H, S, E], final: [B, H, S] in float32, ...}.

        Args:
            out: tensors to write into, by name; new ones are made for the rest.

        The rest is as in :meth:`__call__`.
        """
        return self._run(qkv, named, dict(out or {}), self._outputs, device)

    # ---- arguments

    def _bind(self, qkv: tuple, named: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Tensors and parameters by name."""
        positional = [t.name for t in self.tensors if t.role in ("q", "k", "v") and not t.in_k]
        if len(qkv) > len(positional):
            raise TypeError(f"{self.name}() takes {', '.join(positional)} by position, and was given {len(qkv)} tensors; all else goes by name")
        tensors = dict(zip(positional, qkv))
        twice = [name for name in tensors if name in named]
        if twice:
            raise TypeError(f"{self.name}() was given {twice[0]} twice")
        params = {p.name: named.pop(p.name) for p in self.parameters if p.name in named}
        unknown = sorted(set(named) - set(self._inputs))
        if unknown:
            known = self._inputs + [p.name for p in self.parameters]
            raise TypeError(f"{self.name}() does not take {unknown[0]}; it takes {', '.join(known)}")
        tensors.update(named)
        missing = [name for name in self._inputs if name not in tensors]
        missing += [p.name for p in self.parameters if p.required and p.name not in params]
        if missing:
            raise TypeError(f"{self.name}() needs {', '.join(missing)}")
        return tensors, params

    def _kernels(self, views: Mapping[str, View], backend: str) -> Loaded:
        """The artifact for tensors of these types and shapes."""
        return self._loaded

    def _sizes(self, views: Mapping[str, View]) -> dict[str, int]:
        """Sizes that shapes bind directly; contradictions are the library's to report."""
        sizes: dict[str, int] = {}
        for spec in self.tensors:
            shape = views[spec.name].shape if spec.name in views else ()
            if len(shape) == len(spec.axes):
                sizes.update({axis: n for axis, n in zip(spec.axes, shape) if axis and axis not in sizes})
        return sizes

    # ---- a call

    def _run(self, qkv: tuple, named: dict, out: dict[str, Any], wanted: list[str], device: str | None) -> dict[str, Any]:
        tensors, params = self._bind(qkv, named)
        unknown = sorted(set(out) - set(wanted))
        if unknown:
            raise TypeError(f"{self.name}() has no output {unknown[0]}; it has {', '.join(self._outputs)}")
        views = {name: view(tensor, name) for name, tensor in tensors.items()}
        target = Device.get(device or os.environ.get("AULE_BACKEND") or "cpu")
        loaded = self._kernels(views, target.backend)
        results = dict(out)
        like = tensors[self._inputs[0]]
        for name in wanted:
            if name not in results:
                results[name] = new_like(like, *_shape(loaded, views, params, name))
        outputs = {name: view(results[name], name) for name in wanted}
        if target.backend == "cpu":
            _launch(loaded, target, {**views, **outputs}, params)
        else:
            with Staged(target, views, outputs, fresh=set(wanted) - set(out)) as staged:
                _launch(loaded, target, staged.views, params)
        return {name: results[name] for name in wanted}


def _is_float_tensor(x: Any) -> bool:
    """Tensors of every type have __index__; those of floats raise."""
    return "float" in str(getattr(x, "dtype", ""))


def _value(name: str, x: Any) -> abi.Value:
    if isinstance(x, float):
        return abi.Value(1, 0, 0, x)
    if hasattr(x, "__index__") and not _is_float_tensor(x):
        whole = x.__index__()
        if not -(1 << 63) <= whole < 1 << 63:
            raise ArgumentError(f"parameter {name} is {whole}, which does not fit 64 bits", "param")
        return abi.Value(0, 0, whole, 0.0)
    if not hasattr(x, "__float__"):
        raise TypeError(f"parameter {name} must be a number, it is {type(x).__name__}")
    return abi.Value(1, 0, 0, float(x))


def _call(views: Mapping[str, View], params: Mapping[str, Any]) -> abi.Call:
    """The call's arguments; the caller keeps the views."""
    tensors = (abi.TensorArg * max(len(views), 1))(*[abi.TensorArg(name.encode(), ctypes.pointer(v.tensor)) for name, v in views.items()])
    values = (abi.ParamArg * max(len(params), 1))(*[abi.ParamArg(name.encode(), _value(name, x)) for name, x in params.items()])
    return abi.Call(ctypes.sizeof(abi.Call), None, tensors, len(views), values, len(params), None)


def _shape(loaded: Loaded, views: Mapping[str, View], params: Mapping[str, Any], name: str) -> tuple[tuple[int, ...], tuple[int, int]]:
    """Shape and type of an output."""
    rank, shape, dtype = c_int32(), (c_int64 * 8)(), abi.DLDataType()
    abi.library().attention_shape(loaded.handle, byref(_call(views, params)), name.encode(), byref(rank), shape, byref(dtype))
    return tuple(shape[: rank.value]), (dtype.code, dtype.bits)


def _launch(loaded: Loaded, device: Device, views: Mapping[str, View], params: Mapping[str, Any]) -> None:
    lib = abi.library()
    call = _call(views, params)
    plan = lib.handle(lib.plan_new, loaded.handle, device.handle, byref(call))
    workspace = None
    try:
        run = abi.Run(struct_size=ctypes.sizeof(abi.Run))
        bytes_needed = lib.plan_workspace(plan, None)
        if bytes_needed:
            workspace = lib.handle(lib.buffer_new, device.handle, bytes_needed)
            run.workspace, run.workspace_bytes = lib.buffer_data(workspace), bytes_needed
        lib.plan_run(plan, byref(run))
        if device.backend != "cpu" and workspace:
            lib.device_synchronize(device.handle, None)
    finally:
        lib.plan_free(plan)
        lib.buffer_free(workspace)


def load(path: str | os.PathLike[str], attention: str | None = None) -> Attention:
    """Opens an artifact that ``aulec`` wrote.

    Args:
        path: the ``.so``.
        attention: which of its attentions; not needed if there is only one.

    Raises:
        Error: not a file, not an artifact, damaged, newer than the library, or without that attention.
    """
    return Attention(Loaded(os.fspath(path), attention))
