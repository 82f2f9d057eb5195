"""Calls on torch tensors: autograd, autocast, and the operations that ``torch.compile`` and ``torch.export`` keep whole.

Plain tensors take the short way: straight to the kernels, or through an ``autograd.Function`` where a gradient will be wanted. Whatever
traces or intercepts calls (``torch.compile``, fake tensors, tensor subclasses, dispatch modes) meets ``torch.ops.aule.forward`` and
``torch.ops.aule.backward`` instead, which know shapes without running and each other as derivative.

Imported only where the program has imported torch.
"""

from __future__ import annotations

import sys
from typing import Any, List, Mapping, Optional, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ._errors import ArgumentError, Error
from ._function import AttentionFunction, Call, by_key
from ._plans import WORK
from ._tensors import heads_inside, nested
from ._together import append_alone, run_with_rows

FLOATS = (torch.float32, torch.float16, torch.bfloat16)  # what autocast casts


def takes(call: Call) -> bool:
    """Whether the call's first tensor is torch's, and with it the results. Others then have no gradient to lose."""
    first = next(iter(call.tensors.values()), None)
    if isinstance(first, Tensor):
        return True
    for name, x in call.tensors.items():
        if isinstance(x, Tensor) and x.requires_grad and torch.is_grad_enabled():
            raise ArgumentError(
                f"{name} requires a gradient, and results are of the first tensor's library, {type(first).__module__.partition('.')[0]}: pass that one as a "
                f"tensor of torch's, too, or {name}.detach()", "tensor")
    return False


# ---- what must not be lost, or is not understood


def _has_tangent(x: Tensor) -> bool:
    """Whether forward-mode differentiation follows it."""
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None


def _is_batched(x: Tensor) -> bool:
    """Whether vmap stacked several tensors behind it."""
    return torch._C._functorch.is_batchedtensor(x) or torch._C._functorch.is_legacy_batchedtensor(x)


def _check_transforms(name: str) -> None:
    if torch.compiler.is_compiling():
        return
    if torch._C._get_tracing_state() is not None:
        raise Error(f"{name}: torch.jit.trace records operations of torch alone, and an attention is none there; use torch.compile or torch.export", "unsupported")
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise Error(f"{name}: transforms of torch.func (vmap, grad, jvp, ...) cannot look into an attention; use autograd, and the batch axis", "unsupported")


def check_number(x: Any, what: str, way: str, caller: str) -> None:
    """A parameter given as a tensor: numbers have no gradient, so one that is wanted is refused.

    Args:
        way: how to have one.
    """
    if not isinstance(x, Tensor):
        return
    _check_transforms(caller)
    if x.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(f"{caller}: {what} requires a gradient, and parameters have none: {way}, or pass {what}.detach()", "param")
    if _has_tangent(x):
        raise ArgumentError(f"{caller}: {what} has a tangent of forward-mode differentiation, and parameters have none: {way} and use backward()", "param")


def _check_tangents(f: AttentionFunction, tensors: Mapping[str, Any]) -> None:
    if forward_ad._current_level < 0:
        return
    for name, x in tensors.items():
        if isinstance(x, Tensor) and _has_tangent(x):
            raise ArgumentError(
                f"{f.name}: {name} has a tangent, and an attention has no forward-mode derivative (jvp); use backward(), or pass "
                f"torch.autograd.forward_ad.unpack_dual({name}).primal", "tensor")


def _check_kinds(f: AttentionFunction, tensors: Mapping[str, Any]) -> None:
    """Tensors whose class keeps their data elsewhere than a kernel looks, and which no operation can take apart for it."""
    spread = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", ())
    for name, x in tensors.items():
        if isinstance(x, spread):
            raise ArgumentError(
                f"{f.name}: {name} is a DTensor, and an attention works on one device: pass {name}.to_local() of tensors that are sharded along "
                "the batch or the heads", "tensor")
        if isinstance(x, Tensor) and x.is_nested:
            raise ArgumentError(f"{f.name}: {name} {nested(name)}", "tensor")


def _check_meta(f: AttentionFunction, tensors: Mapping[str, Any]) -> bool:
    """Whether they are tensors without data, of which only shapes are wanted."""
    if not any(isinstance(x, Tensor) and x.is_meta for x in tensors.values()):
        return False
    meta = {name: x for name, x in tensors.items() if isinstance(x, Tensor) and x.is_meta}
    if meta and len(meta) < len(tensors):
        other = next(name for name in tensors if name not in meta)
        raise ArgumentError(f"{f.name}: {next(iter(meta))} is a meta tensor and {other} is not: shapes without data follow from meta tensors alone", "tensor")
    return True


# ---- calls


def is_traced() -> bool:
    return torch.compiler.is_compiling()


def _autocast(f: AttentionFunction, tensors: dict[str, Any]) -> dict[str, Any]:
    """Under autocast: operands in its type, like the tensors of torch's own attention; other floating inputs in the script's."""
    kind = next(iter(tensors.values())).device.type
    if kind not in ("cpu", "cuda", "mps", "xpu") or not torch.is_autocast_enabled(kind):  # meta tensors have no autocast; is_autocast_available cannot be traced
        return tensors
    wanted = {"operand": torch.get_autocast_dtype(kind), "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

    def cast(name: str, x: Any) -> Any:
        dtype = wanted.get(f._specs[name].dtype)
        return x.to(dtype) if dtype is not None and isinstance(x, Tensor) and x.dtype in FLOATS else x

    return {name: cast(name, x) for name, x in tensors.items()}


def _plain(tensors: Mapping[str, Any]) -> bool:
    """Whether nothing but autograd wants to know of the call."""
    if torch._C._len_torch_dispatch_stack():
        return False
    for x in tensors.values():
        if type(x) is not Tensor and type(x) is not torch.nn.Parameter and isinstance(x, Tensor):
            return False
    return True


def forward(f: AttentionFunction, call: Call, wanted: tuple[str, ...], out: Mapping[str, Any], gradients: bool) -> dict[str, Any]:
    """The forward pass, recorded where gradients are wanted."""
    traced = torch.compiler.is_compiling()
    if not traced:
        _check_transforms(f.name)
        _check_tangents(f, call.tensors)
        traced = not _plain(call.tensors) or _check_meta(f, call.tensors)
    call.tensors = tensors = _autocast(f, call.tensors)
    recorded = [name for name, x in tensors.items() if isinstance(x, Tensor) and x.requires_grad] if torch.is_grad_enabled() else []
    for name in recorded:
        f._check_differentiable(name)
    if out and (recorded or traced or torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in out.values())):
        raise ArgumentError(f"{f.name}: out= cannot be used where gradients are recorded or calls are traced", "tensor")
    if traced:
        return _trace(f, call, wanted, bool(recorded) or gradients)
    if not recorded:
        results = f._run_forward(call, wanted, out, gradients)
        if out:
            torch.autograd.graph.increment_version([x for x in out.values() if isinstance(x, Tensor)])  # who saved them must know
        return results
    made = _with_finals(f, wanted)
    results = Recorded.apply(f, (tuple(tensors), made), call.params, call.device, *[_as_tensor(x) for x in tensors.values()])
    return dict(zip(made + f._names.kept, results))


def _with_finals(f: AttentionFunction, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """What a recorded call makes: all that its backward pass reads, and of the states after the last token those that are wanted."""
    return f._names.outputs + tuple(name for name in f._names.states_out if name in wanted)


def refuse_gradients(caller: str, tensors: Mapping[str, Any], operation: str, way: str = "under torch.no_grad()") -> None:
    """Refuses tensors whose gradients would be lost."""
    for name, x in tensors.items():
        if torch.is_grad_enabled() and isinstance(x, Tensor) and x.requires_grad:
            raise ArgumentError(f"{caller}: {name} requires a gradient, and {operation} none: call it {way}", "tensor")


def _unrecorded(f: AttentionFunction, tensors: Mapping[str, Any], operation: str, way: str = "under torch.no_grad()") -> bool:
    """Refuses what an operation without gradients cannot be given; whether the call is traced."""
    traced = torch.compiler.is_compiling()
    if not traced:
        _check_transforms(f.name)
        _check_tangents(f, tensors)
        _check_kinds(f, tensors)
    refuse_gradients(f.name, tensors, f"{operation} has", way)
    return traced or not _plain(tensors) or _check_meta(f, tensors)


def step(f: AttentionFunction, call: Call, given: Mapping[str, Any]) -> Any:
    """A step: states are written in place, and nothing is recorded."""
    traced = _unrecorded(f, {**call.tensors, **given}, "a step")
    call.tensors = _autocast(f, call.tensors)
    if traced:
        return _trace_step(f, call, given)
    o = f._run_step(call, given)
    torch.autograd.graph.increment_version([x for x in given.values() if isinstance(x, Tensor)])
    return o


def forward_with_rows(f: AttentionFunction, call: Call, new: Mapping[str, Any], wanted: tuple[str, ...], out: Mapping[str, Any]) -> dict[str, Any]:
    """New rows into a cache, and what is made of all of it: in one plan, or, of a call that is traced, as two operations."""
    traced = _unrecorded(f, {**call.tensors, **new}, "a call that appends")
    if traced:
        append_alone(f, call, new)
        return forward(f, call, wanted, out, False)
    written = {name: call.tensors[name] for name in f._appends().written}  # as they are: what a cast makes of them is no cache
    call.tensors = {**call.tensors, **_autocast(f, {name: x for name, x in call.tensors.items() if name not in written})}
    results = run_with_rows(f, call, _autocast(f, dict(new)), wanted, out)
    torch.autograd.graph.increment_version([x for x in (*written.values(), *out.values()) if isinstance(x, Tensor)])
    return results


def append(f: AttentionFunction, call: Call, written: Mapping[str, Any]) -> None:
    """New rows into a cache, which is written in place; nothing is recorded."""
    if _unrecorded(f, {**call.tensors, **written}, "append"):
        caches = [written.get(name) for name in CACHES]
        torch.ops.aule.append(f._key, call.device or "", *caches, *_spread(f, call))
        return
    f._run_append(call, written)
    torch.autograd.graph.increment_version([x for x in written.values() if isinstance(x, Tensor)])


def check_unrecorded(f: AttentionFunction, call: Call, out: Mapping[str, Any], operation: str) -> None:
    """Refuses calls of parts whose gradients would be lost, and such as are traced; casts under autocast."""
    if _unrecorded(f, {**call.tensors, **out}, operation, "under torch.no_grad(), or forward"):
        raise Error(f"{f.name}: {operation} is not traced (torch.compile, fake and meta tensors, dispatch modes): call it outside of them", "unsupported")
    if operation == "unfinished":
        call.tensors = _autocast(f, call.tensors)


def _as_tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else torch.as_tensor(x)


class Recorded(torch.autograd.Function):
    """A call in eager mode. [named]: names of the tensors, and of the results."""

    @staticmethod
    def forward(ctx: Any, f: AttentionFunction, named: tuple, params: dict, device: str | None, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        read = _without_lists(dict(zip(named[0], tensors)))
        ctx.names, ctx.call = named[0], (f, (tuple(read), named[1]), params, device)
        results = f._run_forward(Call(dict(zip(named[0], tensors)), params, device), named[1], {}, True)
        ctx.save_for_backward(*read.values(), *_read_back(f, results).values())
        ctx.mark_non_differentiable(*[results[name] for name in f._names.kept])
        return tuple(results.values())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        f, (names, _) = ctx.call[:2]
        saved = ctx.saved_tensors  # once: checkpoints count
        run = RecordedOnce.apply if torch.is_grad_enabled() else _run_backward  # create_graph=True
        made = dict(zip(f._names.gradients_of(names), run(ctx.call, len(saved), *saved, *gradients)))
        return (None, None, None, None, *[made.get("d" + name) if needed else None for name, needed in zip(ctx.names, ctx.needs_input_grad[4:])])


def _without_lists(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a call that its backward pass reads: not lists of work, which the next step writes anew."""
    return {name: x for name, x in tensors.items() if name != WORK}


def _read_back(f: AttentionFunction, results: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The results that the backward pass reads: not the states, which steps may write on."""
    return {name: x for name, x in results.items() if name not in f._names.states_out}


def _run_backward(call: tuple, count: int, *tensors: Tensor | None) -> tuple[Tensor, ...]:
    """Gradients of a call, from the first [count] tensors, which it saved, and the gradients of its results."""
    f, (names, made), params, device = call
    saved, gradients = tensors[:count], tensors[count:]
    if any(x is not None and _is_batched(x) for x in gradients):
        raise Error(f"{f.name}: several gradients at once (is_grads_batched, vectorize=True) are not there; ask for them one after another", "unsupported")
    results = dict(zip(f._names.outputs + f._names.kept, saved[len(names) :]))
    back = f._backward(Call(dict(zip(names, saved)), params, device), results, _given(f, results, made, gradients), None)
    return tuple(back[name] for name in f._names.gradients_of(names))


class RecordedOnce(torch.autograd.Function):
    """The backward pass of a call, which depends on all that it reads: under ``create_graph`` a derivative of it is refused where it is
    wanted, and never taken for zero."""

    @staticmethod
    def forward(ctx: Any, call: tuple, count: int, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        ctx.name = call[0].name
        return _run_backward(call, count, *tensors)

    @staticmethod
    def backward(ctx: Any, *_: Tensor | None) -> Any:
        raise _twice(ctx.name)


def _twice(name: str) -> Error:
    return Error(
        f"{name}: an attention has first derivatives only; a gradient of its gradient (create_graph=True, gradient penalties, Hessians) needs the "
        "formula in torch's own operations", "unsupported")


def _given(f: AttentionFunction, results: Mapping[str, Tensor], made: Sequence[str], gradients: Sequence[Tensor | None]) -> dict[str, Tensor]:
    """The gradients that the backward pass is given, by name: those of the results called [made]."""
    given = {"d" + name: x for name, x in zip(made, gradients) if x is not None}
    refused = [name for name in given if name != "do" and name not in f._names.dfinals]
    if refused:
        name = refused[0][1:]
        raise Error(f"{f.name}: {name} depends on a running maximum itself and takes no gradient (W0402); detach it where it is used: {name}.detach()", "usage")
    if "do" not in given:  # only finals or states are differentiated
        given["do"] = torch.zeros_like(results["o"])
    return given


# ---- operations for what traces calls



_traced: dict[str, AttentionFunction] = {}  # a graph may be kept when its attention is not: it is kept with it


def _function(key: str) -> AttentionFunction:
    """Graphs name an attention by its key, which depends on nothing but its meaning, so that they can be kept."""
    f = _traced.get(key) or next(iter(by_key.get(key, ())), None)
    if f is None:
        raise Error(f"the graph calls the attention {key}, which this process has not made: aule.compile or aule.load it first", "name")
    return f


def _trace(f: AttentionFunction, call: Call, wanted: tuple[str, ...], gradients: bool) -> dict[str, Any]:
    """The call as an operation."""
    if not torch.compiler.is_compiling():
        _check_kinds(f, call.tensors)
    names = _with_finals(f, wanted) + f._names.kept if gradients else wanted
    return dict(zip(names, torch.ops.aule.forward(f._key, call.device or "", " ".join(names), *_spread(f, call))))


def _trace_step(f: AttentionFunction, call: Call, given: Mapping[str, Any]) -> Tensor:
    """The step as an operation that writes on its states."""
    if "o" in given:
        raise ArgumentError(f"{f.name}: out= cannot be used where calls are traced", "tensor")
    states = [given[name] if name in given else None for name in ("state", "sum")]
    return torch.ops.aule.step(f._key, call.device or "", *states, *_spread(f, call))


def _spread(f: AttentionFunction, call: Call) -> tuple:
    """The arguments of a call as operations take them; :func:`_call_of` puts them together again."""
    ints = [name for name in call.params if name not in f._float_params]
    floats = [name for name in call.params if name in f._float_params]
    numbers = [int(call.params[name]) for name in ints], [float(call.params[name]) for name in floats]
    return " ".join(call.tensors), [_as_tensor(x) for x in call.tensors.values()], " ".join(ints + floats), *numbers


def _call_of(device: str, names: str, tensors: Sequence[Tensor], params: str, ints: Sequence[int], floats: Sequence[float]) -> Call:
    return Call(dict(zip(names.split(), tensors)), dict(zip(params.split(), (*ints, *floats))), device or None)


@torch.library.custom_op(
    "aule::forward", mutates_args=(),
    schema="(str attention, str device, str results, str names, Tensor[] tensors, str params, SymInt[] ints, float[] floats) -> Tensor[]",
)
def forward_op(
    attention: str, device: str, results: str, names: str, tensors: Sequence[Tensor], params: str, ints: Sequence[int], floats: Sequence[float],
) -> List[Tensor]:
    f = _function(attention)
    wanted = tuple(name for name in results.split() if name not in f._names.kept)
    gradients = bool(set(results.split()) - {"o", *f._names.states_out})
    made = f._run_forward(_call_of(device, names, tensors, params, ints, floats), wanted, {}, gradients)
    return [made[name] for name in results.split()]


def _new(like: Tensor, shape: Sequence[Any], dtype: torch.dtype, source: Tensor) -> Tensor:
    """A tensor as :func:`aule._tensors.new_like` makes it."""
    if len(shape) != 4 or not heads_inside(source):
        return like.new_empty(shape, dtype=dtype)
    b, h, s, d = shape
    return like.new_empty((b, s, h, d), dtype=dtype).transpose(1, 2)


def _shape_of_output(f: AttentionFunction, given: Mapping[str, Tensor]) -> tuple:
    q = given["q"]
    b, h, s = q.shape[:3]
    if f._names.states:  # of a recurrence heads of any may be shared
        h = max((given[name].shape[1] for name in f._names.positional), key=int)
    return b, h, s, given["v"].shape[3] * f._specs["v"].codes_of_byte if "v" in given else f._specs["o"].axes[3]


@forward_op.register_fake
def _(attention, device, results, names, tensors, params, ints, floats):
    f = _traced[attention] = _function(attention)
    given = dict(zip(names.split(), tensors))
    q, (*rows, width) = given["q"], _shape_of_output(f, given)

    def fake(name: str) -> Tensor:
        if name in f._names.states_out:
            count = given["cu_seqlens"].shape[0] - 1 if "cu_seqlens" in given else rows[0]
            shape = (count, rows[1], q.shape[3], width)
            return q.new_empty(shape if name == "state_out" else shape[:3], dtype=torch.float32)
        return _new(q, rows, torch.float32, q) if name in f._names.finals + f._names.kept_rows else _new(q, (*rows, width), q.dtype, q)

    return [fake(name) for name in results.split()]


@torch.library.custom_op(
    "aule::backward", mutates_args=(),
    schema="(str attention, str device, str names, Tensor[] tensors, Tensor[] results, Tensor?[] given, str params, SymInt[] ints, float[] floats, "
    "str made='') -> Tensor[]",
)
def backward_op(
    attention: str, device: str, names: str, tensors: Sequence[Tensor], results: Sequence[Tensor], given: Sequence[Optional[Tensor]], params: str,
    ints: Sequence[int], floats: Sequence[float], made: str = "",
) -> List[Tensor]:
    """[made]: whose gradients are given; "" in graphs that were kept before there were states: of all outputs."""
    f = _function(attention)
    read = dict(zip(f._names.outputs + f._names.kept, results))
    gradients = f._backward(_call_of(device, names, tensors, params, ints, floats), read, _given(f, read, made.split() or f._names.outputs, given), None)
    return [gradients[name] for name in f._names.gradients_of(names.split())]


@backward_op.register_fake
def _(attention, device, names, tensors, results, given, params, ints, floats, made=""):
    f = _function(attention)
    inputs = dict(zip(names.split(), tensors))
    sources = [inputs[name[1:]] for name in f._names.gradients_of(inputs)]
    return [_new(x, x.shape, x.dtype, x) for x in sources]


def _setup_context(ctx: Any, inputs: tuple, output: list[Tensor]) -> None:
    attention, device, results, names, tensors, params, ints, floats = inputs
    read = _without_lists(dict(zip(names.split(), tensors)))
    ctx.names, ctx.call = names.split(), (attention, device, " ".join(read), params, ints, floats)
    ctx.count, ctx.results = len(read), results.split()
    ctx.save_for_backward(*read.values(), *_read_back(_function(attention), dict(zip(ctx.results, output))).values())


def _backward_of_forward(ctx: Any, gradients: list[Tensor | None]) -> tuple:
    attention, device, names, params, ints, floats = ctx.call
    f = _function(attention)
    needed = f._names.outputs + f._names.kept
    if [name for name in ctx.results if name not in f._names.states_out] != list(needed):
        raise Error(f"{f.name}: its gradient needs all results of the forward pass: {', '.join(needed)}", "usage")
    tensors, results = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
    made = [name for name in ctx.results if name not in f._names.kept]
    given = list(gradients[: len(made)])
    more = [] if tuple(made) == f._names.outputs else [" ".join(made)]  # graphs without states are those of before
    back = torch.ops.aule.backward(attention, device, names, tensors, results, given, params, ints, floats, *more)
    by_name = dict(zip(f._names.gradients_of(names.split()), back))
    nothing: list[Any] = [None if numbers else [] for numbers in (ints, floats)]  # an empty list counts as one of tensors
    return None, None, None, None, [by_name.get("d" + name) for name in ctx.names], None, *nothing


forward_op.register_autograd(_backward_of_forward, setup_context=_setup_context)


def _setup_refusal(ctx: Any, inputs: tuple, output: list[Tensor]) -> None:
    ctx.name = inputs[0].partition(" ")[0]


def _backward_of_backward(ctx: Any, gradients: list[Tensor | None]) -> Any:
    raise _twice(ctx.name)


backward_op.register_autograd(_backward_of_backward, setup_context=_setup_refusal)


@torch.library.custom_op(
    "aule::step", mutates_args=("state", "sum"),
    schema="(str attention, str device, Tensor(a!) state, Tensor(b!)? sum, str names, Tensor[] tensors, str params, SymInt[] ints, float[] floats) -> Tensor",
)
def step_op(
    attention: str, device: str, state: Tensor, sum: Optional[Tensor], names: str, tensors: Sequence[Tensor], params: str, ints: Sequence[int],
    floats: Sequence[float],
) -> Tensor:
    given = {"state": state} if sum is None else {"state": state, "sum": sum}
    return _function(attention)._run_step(_call_of(device, names, tensors, params, ints, floats), given)


@step_op.register_fake
def _(attention, device, state, sum, names, tensors, params, ints, floats):
    f = _traced[attention] = _function(attention)
    given = dict(zip(names.split(), tensors))
    return _new(given["q"], _shape_of_output(f, given), given["q"].dtype, given["q"])


def has_no_memory(call: Call) -> bool:
    """Whether it is traced, or its tensors are no plain ones."""
    return is_traced() or not _plain(call.tensors) or any(isinstance(x, Tensor) and x.is_meta for x in call.tensors.values())


def schedule(f: AttentionFunction, call: Call, out: Tensor | None) -> Tensor:
    """Lists of work, which have no gradients; a traced call makes them as an operation."""
    with torch.no_grad():
        traced = _unrecorded(f, call.tensors, "schedule")
        call = Call(_autocast(f, call.tensors), call.params, call.device)
    if traced:
        if out is not None:
            raise ArgumentError(f"{f.name}: out= cannot be used where calls are traced", "tensor")
        made: Tensor = torch.ops.aule.schedule(f._key, call.device or "", *_spread(f, call))
        return made
    work: Tensor = f._run_schedule(call, out)
    if out is not None:
        torch.autograd.graph.increment_version([out])
    return work


@torch.library.custom_op(
    "aule::schedule", mutates_args=(),
    schema="(str attention, str device, str names, Tensor[] tensors, str params, SymInt[] ints, float[] floats) -> Tensor",
)
def schedule_op(
    attention: str, device: str, names: str, tensors: Sequence[Tensor], params: str, ints: Sequence[int], floats: Sequence[float],
) -> Tensor:
    return _function(attention)._run_schedule(_call_of(device, names, tensors, params, ints, floats), None)


@schedule_op.register_fake
def _(attention, device, names, tensors, params, ints, floats):
    _traced[attention] = _function(attention)
    # How many there are kernels say, which a trace has none of
    return tensors[0].new_empty((torch.library.get_ctx().new_dynamic_size(),), dtype=torch.int32)


CACHES = ("k", "v", "k_scale", "v_scale")  # what append writes, as far as an attention has it


@torch.library.custom_op(
    "aule::append", mutates_args=CACHES,
    schema="(str attention, str device, Tensor(a!) k, Tensor(b!)? v, Tensor(c!)? k_scale, Tensor(d!)? v_scale, str names, Tensor[] tensors, "
    "str params, SymInt[] ints, float[] floats) -> ()",
)
def append_op(
    attention: str, device: str, k: Tensor, v: Optional[Tensor], k_scale: Optional[Tensor], v_scale: Optional[Tensor], names: str,
    tensors: Sequence[Tensor], params: str, ints: Sequence[int], floats: Sequence[float],
) -> None:
    written = {name: x for name, x in zip(CACHES, (k, v, k_scale, v_scale)) if x is not None}
    _function(attention)._run_append(_call_of(device, names, tensors, params, ints, floats), written)


@append_op.register_fake
def _(attention, device, k, v, k_scale, v_scale, names, tensors, params, ints, floats):
    _traced[attention] = _function(attention)
