"""Calls on torch tensors: autograd, autocast, and the operations that ``torch.compile`` and ``torch.export`` keep whole.

Plain tensors take the short way: straight to the kernels, or through an ``autograd.Function`` where a gradient will be wanted. Whatever
traces or intercepts calls (``torch.compile``, fake tensors, tensor subclasses, dispatch modes) meets ``torch.ops.aule.forward`` and
``torch.ops.aule.backward`` instead, which know shapes without running and each other as derivative.

Imported only where the program has imported torch.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence

import torch
from torch import Tensor

from ._errors import ArgumentError, Error
from ._function import AttentionFunction, Call, by_key
from ._tensors import heads_inside

FLOATS = (torch.float32, torch.float16, torch.bfloat16)  # what autocast casts


def takes(call: Call) -> bool:
    """Whether the call's first tensor is torch's."""
    for x in call.tensors.values():
        return isinstance(x, Tensor)
    return False


def _autocast(f: AttentionFunction, tensors: dict[str, Any]) -> dict[str, Any]:
    """Under autocast: operands in its type, like the tensors of torch's own attention; other floating inputs in the script's."""
    kind = next(iter(tensors.values())).device.type
    if not torch.is_autocast_enabled(kind):
        return tensors
    wanted = {"operand": torch.get_autocast_dtype(kind), "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

    def cast(name: str, x: Any) -> Any:
        dtype = wanted.get(f._specs[name].dtype)
        return x.to(dtype) if dtype is not None and isinstance(x, Tensor) and x.dtype in FLOATS else x

    return {name: cast(name, x) for name, x in tensors.items()}


def _plain(tensors: Mapping[str, Any]) -> bool:
    """Whether nothing but autograd wants to know of the call."""
    if torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    for x in tensors.values():
        if type(x) is not Tensor and type(x) is not torch.nn.Parameter and isinstance(x, Tensor):
            return False
    return True


def forward(f: AttentionFunction, call: Call, wanted: tuple[str, ...], out: Mapping[str, Any], gradients: bool) -> dict[str, Any]:
    """The forward pass, recorded where gradients are wanted."""
    call.tensors = tensors = _autocast(f, call.tensors)
    recorded = [name for name, x in tensors.items() if isinstance(x, Tensor) and x.requires_grad] if torch.is_grad_enabled() else []
    for name in recorded:
        f._check_differentiable(name)
    traced = torch.compiler.is_compiling() or not _plain(tensors)
    if out and (recorded or traced):
        raise ArgumentError(f"{f.name}: out= cannot be used where gradients are recorded or calls are traced", "tensor")
    if traced:
        return _trace(f, call, wanted, bool(recorded) or gradients)
    if not recorded:
        return f._run_forward(call, wanted, out, gradients)
    names = tuple(tensors)
    results = Recorded.apply(f, names, call.params, call.device, *[x if isinstance(x, Tensor) else torch.as_tensor(x) for x in tensors.values()])
    return dict(zip(f._names.outputs + f._names.kept, results))


class Recorded(torch.autograd.Function):
    """A call in eager mode."""

    @staticmethod
    def forward(ctx: Any, f: AttentionFunction, names: tuple[str, ...], params: dict, device: str | None, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.call = f, names, params, device
        results = f._run_forward(Call(dict(zip(names, tensors)), params, device), f._names.outputs, {}, True)
        made = tuple(results.values())
        ctx.save_for_backward(*tensors, *made)
        ctx.mark_non_differentiable(*[results[name] for name in f._names.kept])
        return made

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        f, names, params, device = ctx.call
        saved = ctx.saved_tensors
        results = dict(zip(f._names.outputs + f._names.kept, saved[len(names) :]))
        made = f._backward(Call(dict(zip(names, saved)), params, device), results, _given(f, results, gradients), None)
        return (None, None, None, None, *[made.get("d" + name) if needed else None for name, needed in zip(names, ctx.needs_input_grad[4:])])


def _given(f: AttentionFunction, results: Mapping[str, Tensor], gradients: Sequence[Tensor | None]) -> dict[str, Tensor]:
    """The gradients that the backward pass is given, by name."""
    given = {"d" + name: x for name, x in zip(f._names.outputs, gradients) if x is not None}
    if "do" not in given:  # only finals are differentiated
        given["do"] = torch.zeros_like(results["o"])
    return given


# ---- operations for what traces calls



def _function(key: str) -> AttentionFunction:
    """Graphs name an attention by its key, which depends on nothing but its meaning, so that they can be kept."""
    f = by_key.get(key)
    if f is None:
        raise Error(f"the graph calls the attention {key}, which this process has not made: aule.compile or aule.load it first", "name")
    return f


def _trace(f: AttentionFunction, call: Call, wanted: tuple[str, ...], gradients: bool) -> dict[str, Any]:
    """The call as an operation."""
    if not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None:
        raise Error(f"{f.name}: transforms of torch.func (vmap, grad, jvp, ...) cannot look into an attention; use autograd, and the batch axis", "unsupported")
    names = f._names.outputs + f._names.kept if gradients else wanted
    tensors = [call.tensors[name] for name in f._names.inputs]
    ints = [name for name in call.params if name not in f._float_params]
    floats = [name for name in call.params if name in f._float_params]
    results = torch.ops.aule.forward(
        f._key, call.device or "", " ".join(names), tensors, " ".join(ints + floats),
        [int(call.params[name]) for name in ints], [float(call.params[name]) for name in floats],
    )
    return dict(zip(names, results))


def _call_of(f: AttentionFunction, device: str, tensors: Sequence[Tensor], params: str, ints: Sequence[int], floats: Sequence[float]) -> Call:
    return Call(dict(zip(f._names.inputs, tensors)), dict(zip(params.split(), (*ints, *floats))), device or None)


@torch.library.custom_op(
    "aule::forward", mutates_args=(),
    schema="(str attention, str device, str results, Tensor[] tensors, str params, SymInt[] ints, float[] floats) -> Tensor[]",
)
def forward_op(
    attention: str, device: str, results: str, tensors: Sequence[Tensor], params: str, ints: Sequence[int], floats: Sequence[float],
) -> List[Tensor]:
    f = _function(attention)
    names = tuple(results.split())
    made = f._run_forward(_call_of(f, device, tensors, params, ints, floats), f._names.outputs if names != ("o",) else names, {}, names != ("o",))
    return [made[name] for name in names]


def _new(like: Tensor, shape: Sequence[Any], dtype: torch.dtype, source: Tensor) -> Tensor:
    """A tensor as :func:`aule._tensors.new_like` makes it."""
    if len(shape) != 4 or not heads_inside(source):
        return like.new_empty(shape, dtype=dtype)
    b, h, s, d = shape
    return like.new_empty((b, s, h, d), dtype=dtype).transpose(1, 2)


@forward_op.register_fake
def _(attention, device, results, tensors, params, ints, floats):
    f = _function(attention)
    given = dict(zip(f._names.inputs, tensors))
    q = given["q"]
    width = given["v"].shape[3] if "v" in given else f._specs["o"].axes[3]
    rows = tuple(q.shape[:3])

    def fake(name: str) -> Tensor:
        return _new(q, rows, torch.float32, q) if name in f._names.finals else _new(q, (*rows, width), q.dtype, q)

    return [fake(name) for name in results.split()]


@torch.library.custom_op(
    "aule::backward", mutates_args=(),
    schema="(str attention, str device, Tensor[] tensors, Tensor[] results, Tensor?[] given, str params, SymInt[] ints, float[] floats) -> Tensor[]",
)
def backward_op(
    attention: str, device: str, tensors: Sequence[Tensor], results: Sequence[Tensor], given: Sequence[Optional[Tensor]], params: str,
    ints: Sequence[int], floats: Sequence[float],
) -> List[Tensor]:
    f = _function(attention)
    made = dict(zip(f._names.outputs + f._names.kept, results))
    gradients = f._backward(_call_of(f, device, tensors, params, ints, floats), made, _given(f, made, given), None)
    return [gradients[name] for name in f._names.gradients]


@backward_op.register_fake
def _(attention, device, tensors, results, given, params, ints, floats):
    f = _function(attention)
    inputs = dict(zip(f._names.inputs, tensors))
    sources = [inputs[name[1:]] for name in f._names.gradients]
    return [_new(x, x.shape, x.dtype, x) for x in sources]


def _setup_context(ctx: Any, inputs: tuple, output: list[Tensor]) -> None:
    attention, device, results, tensors, params, ints, floats = inputs
    ctx.call = attention, device, params, ints, floats
    ctx.count = len(tensors)
    ctx.complete = results.split() == list(_names(attention))
    ctx.save_for_backward(*tensors, *output)


def _names(attention: str) -> tuple[str, ...]:
    f = _function(attention)
    return f._names.outputs + f._names.kept


def _backward_of_forward(ctx: Any, gradients: list[Tensor | None]) -> tuple:
    attention, device, params, ints, floats = ctx.call
    f = _function(attention)
    if not ctx.complete:
        raise Error(f"{f.name}: its gradient needs all results of the forward pass: {', '.join(_names(attention))}", "usage")
    tensors, results = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
    given = list(gradients[: len(f._names.outputs)])
    made = dict(zip(f._names.gradients, torch.ops.aule.backward(attention, device, tensors, results, given, params, ints, floats)))
    nothing: list[Any] = [None if numbers else [] for numbers in (ints, floats)]  # an empty list counts as one of tensors
    return None, None, None, [made.get("d" + name) for name in f._names.inputs], None, *nothing


forward_op.register_autograd(_backward_of_forward, setup_context=_setup_context)
