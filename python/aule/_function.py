"""Attentions that can be called."""

from __future__ import annotations

import sys
import weakref
from typing import Any, Callable, Collection, Dict, Literal, Mapping, Sequence, TypeVar, overload

from ._again import Calls, output
from ._append import AppendNames, bind
from ._artifact import BACKWARD, INPUTS, PARTS, STATES, Loaded, Parameter, TensorSpec
from ._axes import Axis, layout_of, spellings
from ._devices import Device
from ._errors import ArgumentError, Error
from ._libaule import CALL_INVARIANT
from ._names import Names
from ._parts import PartNames, Unfinished, by_parts
from ._plans import WORK, Runner, arguments, number
from ._schedules import Schedules, Step
from ._states import State, bind_states, check_states
from ._tensors import NAMES, STORED_AS, TYPES, View, heads_inside, is_torch, maker, view
from ._together import forward_with_rows, is_given_rows

SCRIPT_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "int64": "i64", "uint8": "u8", "bool": "bool"}
OPERANDS = ("float32", "float16", "bfloat16")  # types that q, k, v and o may have
TORCH_CASTS = {"float32": "float", "float16": "half", "bfloat16": "bfloat16", "int32": "int", "int64": "long", "uint8": "byte", "bool": "bool"}

T = TypeVar("T")  # tensors of a library: what comes out is of the kind that went in


class Results(Dict[str, T]):
    """Output and finals of :meth:`AttentionFunction.forward` by name, as items and as attributes: ``r["o"]``, ``r.o``, ``r.lse``.

    It keeps what :meth:`AttentionFunction.backward` needs of the call, the inputs among it, as long as it lives.
    """

    def __init__(self, named: Mapping[str, T], call: "Call | None", kept: Mapping[str, Any]) -> None:
        super().__init__(named)
        self._call = call  # None: of a combine, or of a forward with new rows, which have no backward pass
        self._kept = kept  # results that are only for the backward pass
        self._of: AttentionFunction | None = None  # whose, where `axes` asked for another than the one that was called

    def __getattr__(self, name: str) -> T:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no result {name}; there are {', '.join(self)}") from None


class Call:
    """The arguments of a call by name: tensors, parameters as Python's numbers, and the device as the caller said it."""

    __slots__ = ("tensors", "params", "device")

    def __init__(self, tensors: dict[str, Any], params: dict[str, int | float], device: str | None) -> None:
        self.tensors, self.params, self.device = tensors, params, device


# Attentions that mean the same share an entry, which lives as long as one of them: any of them serves a graph that names their key.
by_key: "weakref.WeakValueDictionary[str, weakref.WeakSet[AttentionFunction]]" = weakref.WeakValueDictionary()


def _read_append(key: str) -> None:
    """What attentions of that key append."""
    for f in tuple(by_key[key]):
        f._read_append()


# torch.compile runs it while it traces, and then finds what it found.
_read_append._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _named_arguments(call: Any) -> tuple[str, ...]:
    return tuple(call.__kwdefaults__)


class AttentionFunction(Schedules):
    """An attention that can be called. Made by :func:`aule.load` and :func:`aule.compile`.

    Calls may come from several threads at once. With torch tensors that require gradients, calls are recorded by autograd, and
    ``torch.compile`` takes a call as one operation.

    Attributes:
        name: as in the script.
        formula: the script, normalised.
        tensors: the signature, in order: q, k, v, inputs, the output "o", finals.
        parameters: scalar parameters.
        gradients: names of the tensors that have gradients; () where the artifact has no backward pass.
        states: of a recurrence ("state",), or where it has a ``norm`` ("state", "sum"); else ().
    """

    def __init__(self, loaded: Loaded, key: str, remake: tuple[Callable[..., Any], tuple]) -> None:
        self._loaded = loaded
        self._modified = loaded.is_modified()
        self._remake = remake
        self.name: str = loaded.descriptor.name.decode()
        self.formula: str = (loaded.descriptor.formula or b"").decode()
        self.parameters: list[Parameter] = loaded.parameters()
        every = loaded.tensors()
        self.tensors: list[TensorSpec] = [t for t in every if t.role not in BACKWARD + STATES + PARTS]
        self._names = Names(every)
        self._specs = {t.name: t for t in every}
        self._param_names = tuple(p.name for p in self.parameters)
        self._float_params = frozenset(p.name for p in self.parameters if "float" in p.dtype)
        self._required = tuple(p.name for p in self.parameters if p.required)
        self._check_names()
        self._calls = Calls()
        self._ways: dict[tuple, Any] = {}  # of calls, by what they name (_again.py)
        self._others: dict[str, AttentionFunction] = {}  # the same attention of the artifact for other layouts
        self._runner = Runner(self._checked_kernels, self._names.states_out)
        self._part_names: PartNames | None = None  # read when they are first asked for, as are those of append
        self._part_runner = Runner(self._kernels_of_parts)
        self._append_runner = Runner(self._checked_kernels_of_append)
        self.states: tuple[str, ...] = tuple(name.removesuffix("_in") for name in self._names.states)
        self._key = f"{self.name} {key}"  # equal for attentions that mean the same
        self._equals = by_key.setdefault(self._key, weakref.WeakSet())
        self._equals.add(self)
        _find_torch()

    def _ask_invariant(self, invariant: Any) -> None:
        """Whether results must not depend on the batch: of all operations but append, which writes each row by itself; most are then refused."""
        self._runner.flags = self._part_runner.flags = CALL_INVARIANT if invariant else 0

    def _check_names(self) -> None:
        """What a script calls as calls themselves call an argument could never be passed."""
        taken = {"self", *_named_arguments(self.__call__), *(("state", *_named_arguments(self.step)) if self._names.states else ())}
        for name in (*self._names.inputs, *self._param_names):
            if name in taken:
                raise ArgumentError(f"{self.name}: the script has a tensor or param called {name}, and so have calls an argument; call it otherwise", "name")

    @property
    def gradients(self) -> tuple[str, ...]:
        return tuple(name[1:] for name in self._names.gradients) if self._names.has_backward else ()

    def __repr__(self) -> str:
        takes = ", ".join([*self._names.inputs, *(p.name if p.required else f"{p.name}=" for p in self.parameters)])
        return f"<aule attention {self.name}({takes}) -> {', '.join(self._names.outputs)}>"

    def __deepcopy__(self, memo: dict) -> "AttentionFunction":
        return self  # nothing of it changes: copies of a model share it

    def __reduce__(self) -> tuple[Callable[..., Any], tuple]:
        return self._remake

    @overload
    def __call__(
        self, *, return_state: Literal[True], initial_state: Any = None, cu_seqlens: Any = None, out: Any = None, device: str | None = None, **named: Any,
    ) -> tuple[Any, Any]: ...

    @overload
    def __call__(
        self, *qkv: T, return_state: Literal[True], initial_state: T | tuple[T, T] | None = None, cu_seqlens: T | None = None, out: T | None = None,
        device: str | None = None, **named: Any,
    ) -> tuple[T, Any]: ...

    @overload
    def __call__(
        self, *, out: Any = None, device: str | None = None, initial_state: Any = None, return_state: bool = False, cu_seqlens: Any = None, **named: Any,
    ) -> Any: ...

    @overload
    def __call__(
        self, *qkv: T, out: T | None = None, device: str | None = None, initial_state: T | tuple[T, T] | None = None, return_state: bool = False,
        cu_seqlens: T | None = None, **named: Any,
    ) -> T: ...

    def __call__(
        self, *qkv: Any, out: Any = None, device: str | None = None, initial_state: Any = None, return_state: bool = False,
        cu_seqlens: Any = None, axes: Mapping[str, Axis] | None = None, schedule: Any = None, **named: Any,
    ) -> Any:
        """The attention's output o, [B, H, S, E] in the operand type.

        Args:
            qkv: the tensors q, k, v of the script, in the order of its signature: [B, H, S, D], [B, Hk, T, D], [B, Hv, T, E].
                They may be given by name instead. A script whose values are a part of the keys takes no v.
            out: a tensor to write o into; by default a new one of q's library, [B, S, H, E] in memory where q is.
            device: an id of :func:`aule.devices`; by default the one where the tensors are, and for host tensors what
                AULE_BACKEND says, else "cpu". A device that does not see host memory gets copies of host tensors, and the
                result is copied back.
            initial_state: of a recurrence, the state before the first token, float32 [B, H, K, V] of any strides; by default 0. Where the script has
                a ``norm`` a pair, with the sum [B, H, K]: what a call with ``return_state`` gave.
            return_state: of a recurrence, (o, state): with the state after the last token, or where the script has a ``norm`` the pair
                :class:`State`.
            cu_seqlens: of a recurrence, int32 [N + 1]: N sequences are packed in the one batch, sequence n at tokens cu_seqlens[n] to
                cu_seqlens[n + 1]; lengths of 0 are fine. Each has a state of its own: states are [N, H, K, V]. On a processor what is wrong with the
                numbers is an error; on other devices, where they are not waited for, a wrong number counts as the nearest token there is.
            axes: where the rows of length axes lie, by the script's names of them: ``{"S": aule.packed(starts), "T": aule.paged(table, lengths)}``
                (docs/serving.md). The same as a layout of :func:`aule.compile` with the inputs that belong to it, which are compiled as calls bring them.
            schedule: what :meth:`schedule` made for calls of these shapes and lists; by default a call makes its own.
            named: inputs and parameters of the script by name. With ``k_new=`` and ``v_new=`` (and ``slots=``), as :meth:`append` takes them, new rows are
                written into k and v first, those of the queries, in one call: without slots [B, Hk, S, D], or packed as q is. Nothing is recorded then.

        Raises:
            ArgumentError: something does not fit the script; the message names it, with what was expected and found.
            Error: no kernel for this call on this device, or the device fails.
            CompileError: kernels for these types and widths cannot be compiled.
            TypeError: an argument that is no tensor, unknown, missing, or given twice.
        """
        if axes:
            f, named = self._placed(axes, named)
            return f(*qkv, out=out, device=device, initial_state=initial_state, return_state=return_state, cu_seqlens=cu_seqlens, schedule=schedule, **named)
        if qkv and initial_state is None and return_state is False and cu_seqlens is None and (schedule is None or isinstance(schedule, Step)):
            return output(self, qkv, named, out, device, schedule)
        if is_given_rows(self, named):
            return forward_with_rows(self, qkv, named, None if out is None else {"o": out}, device, ("o",), torch_calls_for, schedule)["o"]
        call = self._with_work(self._bind(qkv, named, device), schedule)
        wanted = self._with_states(call, initial_state, return_state, cu_seqlens, ("o",))
        results = self._forward(call, wanted, None if out is None else {"o": out}, False)
        return (results["o"], self._state_of(results)) if return_state else results["o"]

    @overload
    def forward(
        self, *, out: Mapping[str, Any] | None = None, device: str | None = None, initial_state: Any = None, return_state: bool = False,
        cu_seqlens: Any = None, **named: Any,
    ) -> Results[Any]: ...

    @overload
    def forward(
        self, *qkv: T, out: Mapping[str, T] | None = None, device: str | None = None, initial_state: T | tuple[T, T] | None = None,
        return_state: bool = False, cu_seqlens: T | None = None, **named: Any,
    ) -> Results[T]: ...

    def forward(
        self, *qkv: Any, out: Mapping[str, Any] | None = None, device: str | None = None, initial_state: Any = None, return_state: bool = False,
        cu_seqlens: Any = None, axes: Mapping[str, Axis] | None = None, schedule: Any = None, **named: Any,
    ) -> Results[Any]:
        """Output and finals: "o" [B, H, S, E], each final [B, H, S] in float32; with ``return_state`` "state_out" [B, H, K, V], and
        where a recurrence has a ``norm`` "sum_out" [B, H, K], in float32.

        Args:
            out: tensors to write into, by name; new ones are made for the rest.

        The rest is as in :meth:`__call__`.
        """
        if axes:
            f, named = self._placed(axes, named)
            made = f.forward(
                *qkv, out=out, device=device, initial_state=initial_state, return_state=return_state, cu_seqlens=cu_seqlens, schedule=schedule, **named)
            made._of = f
            return made
        if is_given_rows(self, named):
            return Results(forward_with_rows(self, qkv, named, out, device, self._names.outputs, torch_calls_for, schedule), None, {})
        call = self._with_work(self._bind(qkv, named, device), schedule)
        wanted = self._with_states(call, initial_state, return_state, cu_seqlens, self._names.outputs)
        results = self._forward(call, wanted, out, self._names.has_backward)
        return Results({name: results[name] for name in wanted}, call, {name: results[name] for name in self._names.kept if name in results})

    def _outputs(self, qkv: tuple[Any, ...], named: dict[str, Any], out: Mapping[str, Any] | None, device: str | None, schedule: Any = None) -> Mapping[str, Any]:
        """Output and finals, for callers of whom nobody but autograd asks for gradients: else kernels need have no backward pass, as those of a server have not."""
        if is_given_rows(self, named):
            return forward_with_rows(self, qkv, named, out, device, self._names.outputs, torch_calls_for, schedule)
        return self._forward(self._with_work(self._bind(qkv, named, device), schedule), self._names.outputs, out, False)

    def step(
        self, state: T | tuple[T, T], *qkv: T, slots: T | None = None, out: T | None = None, device: str | None = None, **named: Any,
    ) -> T:
        """Of a recurrence, the output o of some more tokens, by kernels made for few (1 to 16); the state is updated in place.

        Nothing is recorded for autograd.

        Args:
            state: float32 [P, H, K, V] of any strides, written in place; where the script has a ``norm`` the pair with the sum, [P, H, K].
            qkv: as in :meth:`__call__`, [B, H, T, K] and so on.
            slots: int32 [B]: which of the P states is whose; -1: none, the sequence begins with 0 and its state is not kept. By default sequence b
                has state b, and P is B. No two of a call may be equal but for -1: on a processor that, and numbers beyond P, are an error; on other
                devices a number beyond P counts as -1.
            out, device, named: as in :meth:`__call__`.
        """
        for name in ("initial_state", "return_state", "cu_seqlens"):
            if name in named:
                raise TypeError(f"{self.name}.step() does not take {name}: its first argument is the state, which it updates in place")
        call = self._bind(qkv, named, device)
        states = bind_states(self.name, self.states, state, "the state of a step")
        if slots is not None:
            call.tensors["slots"] = slots
        given = {**states, "o": out} if out is not None else states
        torch_calls = torch_calls_for(call)
        if torch_calls is not None:
            return torch_calls.step(self, call, given)
        return self._run_step(call, given)

    def _run_step(self, call: Call, given: Mapping[str, Any]) -> Any:
        return self._runner.run("step", call.tensors, call.params, given, ("o",), call.device, False)["o"]

    def backward(self, results: Results[T], do: T, *, out: Mapping[str, T] | None = None, **dfinals: T | None) -> dict[str, T]:
        """Gradients by name: "dq", "dk", "dv", and "dx" for every input x marked ``grad``; of their shapes, and types. Of a recurrence that was
        given an initial state also "dstate_in", and where it has a ``norm`` "dsum_in".

        For those without autograd: of torch tensors the gradients are plain tensors, not recorded.

        Args:
            results: what :meth:`forward` returned.
            do: the gradient of o.
            out: tensors to write into, by name; new ones are made for the rest.
            dfinals: gradients of finals, ``dlse=`` for the final lse, and of the states that a recurrence returned, ``dstate_out=`` and
                ``dsum_out=``; left out they are zero.

        Raises:
            Error: the script, or the artifact, has no backward pass.
        """
        if not isinstance(results, Results):
            raise TypeError(f"{self.name}.backward() takes what {self.name}.forward() returned, it was given {type(results).__name__}")
        unknown = sorted(set(dfinals) - set(self._names.dfinals))
        if unknown:
            raise TypeError(f"{self.name}.backward() does not take {unknown[0]}; gradients of finals are {', '.join(self._names.dfinals) or 'none'}")
        if results._call is None:
            raise Error(f"{self.name}: there is no backward pass of combine, nor of a forward that was given new rows", "unsupported")
        if results._of not in (None, self):
            return results._of.backward(results, do, out=out, **dfinals)
        given = {name: x for name, x in dfinals.items() if x is not None}
        return self._backward(results._call, {**results, **results._kept}, {"do": do, **given}, out)

    def _torch_calls_for(self, call: Call) -> Any:
        return torch_calls_for(call)

    # ---- keys in several places

    def unfinished(
        self, *qkv: T, out: Mapping[str, T] | None = None, device: str | None = None, axes: Mapping[str, Axis] | None = None, **named: Any,
    ) -> Unfinished[T]:
        """The attention of some of the keys, not yet finished: what :meth:`combine` makes the attention of all of them of.

        For caches that lie on several devices (ring attention), a prefix that many sequences share, splits of a long row. What the script says by
        position (``kv_idx``) is said of the keys of this call, numbered from 0: a mask that asks for the place among all keys takes it as a
        parameter. Nothing is recorded for autograd.

        Args:
            qkv: as in :meth:`__call__`, with some of the keys: k [B, Hk, T, D], and v, of any T, 0 too.
            out: tensors to write into, by name, as slices of [N, B, H, S, E] that combine then takes as they are; new ones are made for the rest.
            device, named: as in :meth:`__call__`.
            axes: as in :meth:`__call__`: keys padded or in pages, or some positions of a longer sequence; of packed queries parts have one batch, as q
                has. :meth:`combine` takes all of them as they are, of any layouts of keys.

        Raises:
            Error: there are no such kernels: of a recurrence, of an online function whose ``combine`` neither stands in the script nor can be
                derived, of an artifact that was compiled without ``--parts``.
        """
        if axes:
            f, named = self._placed(axes, named)
            if f is not self:
                return f.unfinished(*qkv, out=out, device=device, **named)
        call = self._bind(qkv, named, device)
        wanted = self._parts("unfinished").made
        unknown = sorted(set(out or ()) - set(wanted))
        if unknown:
            raise TypeError(f"{self.name}.unfinished() has no output {unknown[0]}; it has {', '.join(wanted)}")
        torch_calls = torch_calls_for(call)
        if torch_calls is not None:
            torch_calls.check_unrecorded(self, call, out or {}, "unfinished")
        made = self._part_runner.run("unfinished", call.tensors, call.params, out or {}, wanted, call.device, False)
        return Unfinished(made, self._operand_of(call))

    def combine(
        self, parts: Sequence[Mapping[str, T]] | Mapping[str, T], *, dtype: Any = None, out: Mapping[str, T] | None = None, device: str | None = None,
        **named: Any,
    ) -> Results[T]:
        """Output and finals, by name as of :meth:`forward`, of all the keys whose attentions were left unfinished.

        Parts are joined in their order: the same parts give the same bits. Nothing is recorded for autograd, and :meth:`backward` takes no such results.

        Args:
            parts: what calls of :meth:`unfinished` with disjoint sets of keys returned, at least one, which are copied into tensors [N, ..]; or one
                mapping with such tensors, "acc" [N, B, H, S, E], all others [N, B, H, S], which are not copied. N may be 0; float32 of any strides.
            dtype: the type of the output, that of q in :meth:`unfinished`; not needed with a list of what that returned, nor where o is in out.
            out: tensors to write into, by name; new ones are made for the rest.
            device: as in :meth:`__call__`.
            named: parameters of the script, and of its inputs those that what follows the sums reads, as a sink or a gate of the output.

        Raises:
            Error: there are no such kernels, as of :meth:`unfinished`.
        """
        names = self._parts("combine")
        tensors = by_parts(self.name, names, parts)
        for name in names.joined:
            if name not in named:
                raise TypeError(f"{self.name}.combine() needs {name}, which what follows the sums reads")
            tensors[name] = named.pop(name)
        for name in named:
            if name in self._names.inputs:
                raise TypeError(f"{self.name}.combine() does not take {name}: it went into the parts")
        call = Call(tensors, self._params(named), device)
        unknown = sorted(set(out or ()) - set(self._names.outputs))
        if unknown:
            raise TypeError(f"{self.name}.combine() has no output {unknown[0]}; it has {', '.join(self._names.outputs)}")
        torch_calls = torch_calls_for(call)
        if torch_calls is not None:
            torch_calls.check_unrecorded(self, call, out or {}, "combine")
        given = dict(out or {})
        for name in self._names.outputs:
            if name not in given:
                given[name] = self._new_output(name, tensors["acc_parts"], parts, dtype)
        made = self._part_runner.run("combine", call.tensors, call.params, given, self._names.outputs, device, False)
        return Results(made, None, {})

    def _new_output(self, name: str, acc: Any, parts: Any, dtype: Any) -> Any:
        """A tensor for a result of combine, which lies as those of forward do."""
        shape = tuple(acc.shape)[1:]
        if name != "o":
            return maker(acc, shape[:3], TYPES["float32"])()
        first = None if isinstance(parts, Mapping) else parts[0]
        known = getattr(first, "dtype", None) if dtype is None else type_name(dtype)
        if known not in OPERANDS:
            found = "it is not known here" if known is None else f"it was given {known}"
            raise TypeError(f"{self.name}.combine() needs dtype, the type of the output, one of {', '.join(OPERANDS)}; {found}")
        return maker(acc, shape, TYPES[known], inside=first is not None and heads_inside(first["acc"]))()

    def _operand_of(self, call: Call) -> str:
        return NAMES[view(call.tensors["q"], "q").dtype]

    def _parts(self, operation: str) -> PartNames:
        """Names of the tensors of parts; refuses where there are none."""
        if self._part_names is None:
            self._part_names = PartNames(self._with("parts").tensors())
        if not self._part_names.made:
            raise Error(f"{self.name} has no operation '{operation}': {self._why_no_parts()}", "unsupported")
        return self._part_names

    def _with(self, more: str) -> Loaded:
        """An artifact whose signature has the tensors of further operations: "parts" or "append"."""
        return self._loaded

    def _why_no_parts(self) -> str:
        return "the artifact was compiled without --parts, or the script allows none"

    def _kernels_of_parts(self, views: Mapping[str, View], device: Device, gradients: bool) -> Loaded:
        return self._loaded

    # ---- caches

    def append(self, *tensors: Any, slots: Any = None, device: str | None = None, axes: Mapping[str, Axis] | None = None, **named: Any) -> None:
        """Writes new keys and values where a cache has them, in place; to the types of the cache, saturating.

        Without slots they become the last rows of each sequence: the last of the N new ones is row T_lengths[b] - 1 of sequence b, of a dense
        cache its last row. Lengths count the new rows, as calls of the attention then do. Where N is more than a sequence's length, the first
        ones are written nowhere.

        Args:
            tensors: new keys and values, then the cache, ``f.append(k_new, v_new, k, v, ...)`` (new rows of keys of further products behind v_new,
                ``f.append(k_new, v_new, k_pe_new, k, v, k_pe=k_pe, ...)``): [M, Hk, N, D] of any strides, and k and v as calls of
                the attention take them. Where values are a part of the keys there are neither v_new nor v: ``f.append(k_new, k, ...)``.
            slots: int64 [M, N], a slot for each new row: row j of k[p], a page or a sequence, is slot p * rows + j, with rows = k.shape[2]. A number
                that is no slot, as -1, writes nothing; on a processor others than -1 are an error, and so is one slot for two rows. With slots, M is
                any number, one batch of all tokens for example, and lists may be left out.
            device, axes: as in :meth:`__call__`.
            named: the lists of the layout as calls take them, ``T_lengths=``, ``T_table=``, and of packed rows ``S_starts=``, new rows [1, Hk, total, D];
                scales, ``k_scale=`` and ``v_scale=``: of heads they are read, of tokens made (largest magnitude / largest code) and written;
                parameters of the script that have no default, and where the cache holds modified rows the inputs that their mods read.

        Raises:
            ArgumentError: something does not fit the script.
            Error: there are no such kernels: of a recurrence, of packed keys, of an artifact that was compiled without ``--append``.
        """
        if axes:
            f, named = self._placed({name: axis.apart() if isinstance(axis, Axis) else axis for name, axis in axes.items()}, named)
            return f.append(*tensors, slots=slots, device=device, **named)
        names = self._appends()
        params = {name: named.pop(name) for name in self._param_names if name in named}
        given, written = bind(self.name, names, tensors, slots, named)
        call = Call(given, self._params(params, "append"), device)
        torch_calls = torch_calls_for(call)
        if torch_calls is not None:
            torch_calls.append(self, call, written)
        else:
            self._run_append(call, written)

    def _that_appends(self) -> "AttentionFunction":
        """The same with kernels of append beside those of forward."""
        self._appends()
        return self

    def _run_append(self, call: Call, written: Mapping[str, Any]) -> None:
        self._append_runner.run("append", call.tensors, call.params, written, (), call.device, False)

    def _appends(self) -> AppendNames:
        """Names of the tensors of append; refuses where there is none."""
        if not hasattr(self, "_append_names"):
            if is_traced():
                _read_append(self._key)
            else:
                self._read_append()
        if not self._append_names.new:
            raise Error(f"{self.name} has no operation 'append': the artifact was compiled without --append", "unsupported")
        return self._append_names

    def _read_append(self) -> None:
        self._append_names = AppendNames(self._with("append").tensors())

    def _kernels_of_append(self, views: Mapping[str, View], device: Device, gradients: bool) -> Loaded:
        return self._loaded

    def _checked_kernels_of_append(self, views: Mapping[str, View], device: Device, gradients: bool) -> Loaded:
        for name, spec in self._appends().specs.items():
            if name in views and spec.dtype in TYPES and views[name].dtype not in (TYPES[spec.dtype], STORED_AS.get(spec.dtype)):
                raise ArgumentError(self._wrong_type(spec, views[name]), "tensor")
        return self._kernels_of_append(views, device, gradients)

    # ---- arguments

    def _placed(self, axes: Mapping[str, Axis], named: dict[str, Any]) -> tuple["AttentionFunction", dict[str, Any]]:
        """The attention for rows that lie so, and the arguments with those that belong to it."""
        known = [str(spec.axes[2]).removesuffix("_slots") for spec in self.tensors if spec.role in ("q", "k")]
        layout, given, most = layout_of(self.name, axes, known)
        for name in (*given, *most):
            if name in named:
                raise TypeError(f"{self.name}() was given {name} twice, by name and by axes")
        f = self._for_layout(layout, given)
        # Where inputs count the rows of a sequence they say how many it has at most
        return f, {**named, **given, **{name: n for name, n in most.items() if name in f._param_names}}

    def _for_layout(self, layout: str, given: Collection[str]) -> "AttentionFunction":
        """The attention for a layout, whose inputs are [given]."""
        for one in spellings(layout):
            if one in self._others:
                return self._others[one]
        if set(given) <= set(self._names.inputs) and self._lies_so(layout):
            return self
        there = f"; it has {', '.join(self._others)}" if self._others else ""
        raise Error(f"{self.name}: the artifact was compiled without --layout {layout}{there}", "unsupported")

    def _lies_so(self, layout: str) -> bool:
        """Whether rows lie as [layout] says, as far as their tensors do not show it: the kind, which the name of one of several layouts tells, and
        whether keys are modified."""
        name = self.name.partition("@")[2]
        own = dict(axis.split("=") for axis in name.split(",") if axis)
        keys = next(str(spec.axes[2]).removesuffix("_slots") for spec in self.tensors if spec.role == "k")
        for axis, how in (one.split("=") for one in layout.split(",") if one):
            words = how.split(":")
            if (name or self._others) and words[0] != own.get(axis, "dense").partition(":")[0]:
                return False
            if axis == keys and self._modified not in (None, "modified" in words):
                return False
        return True

    def _params(self, named: dict[str, Any], operation: str = "combine") -> dict[str, int | float]:
        """Parameters alone, of an operation that takes its tensors otherwise."""
        params = {name: self._number(name, named.pop(name)) for name in self._param_names if name in named}
        if named:
            raise TypeError(f"{self.name}.{operation}() does not take {min(named)}; beside its tensors it takes {', '.join(self._param_names) or 'nothing'}")
        missing = [name for name in self._required if name not in params]
        if missing:
            raise TypeError(f"{self.name}.{operation}() needs {', '.join(missing)}")
        return params

    def _bind(self, qkv: tuple, named: dict[str, Any], device: str | None) -> Call:
        names = self._names
        if len(qkv) > len(names.positional):
            raise TypeError(f"{self.name}() takes {', '.join(names.positional)} by position, and was given {len(qkv)} tensors; all else goes by name")
        tensors = dict(zip(names.positional, qkv))
        for name in names.inputs:
            if name in named:
                if name in tensors:
                    raise TypeError(f"{self.name}() was given {name} twice")
                tensors[name] = named.pop(name)
        params = {name: self._number(name, named.pop(name)) for name in self._param_names if name in named}
        if named:
            raise TypeError(f"{self.name}() does not take {min(named)}; it takes {', '.join([*names.inputs, *self._param_names])}")
        if len(tensors) < len(names.inputs) or any(name not in params for name in self._required):
            missing = [name for name in names.inputs if name not in tensors] + [name for name in self._required if name not in params]
            raise TypeError(f"{self.name}() needs {', '.join(missing)}")
        return Call(tensors, params, device)

    def _with_states(self, call: Call, initial: Any, returned: bool, cu_seqlens: Any, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Adds the initial state and the sequences to the call; names of its results."""
        if cu_seqlens is not None:
            if not self._names.states:
                raise ArgumentError(f"{self.name}: cu_seqlens is for recurrences, and the script has none (`linear`)", "name")
            call.tensors["cu_seqlens"] = cu_seqlens
        if initial is not None:
            call.tensors.update(bind_states(self.name, self._names.states, initial))
        if not isinstance(returned, bool):
            raise TypeError(f"{self.name}(): return_state is True or False, not {returned!r}")
        if returned and not self._names.states_out:
            raise ArgumentError(f"{self.name}: return_state is for recurrences, and the script has none (`linear`)", "name")
        return wanted + self._names.states_out if returned else wanted

    def _state_of(self, results: Mapping[str, Any]) -> Any:
        states = [results[name] for name in self._names.states_out]
        return State(*states) if len(states) > 1 else states[0]

    def _number(self, name: str, x: Any) -> int | float:
        if not isinstance(x, (int, float)):
            check_number(x, name, f"declare it in the script, `input {name}: f32[] grad`", self.name)
        return number(name, x)

    def _checked_kernels(self, views: Mapping[str, View], device: Device, gradients: bool) -> Loaded:
        for name in (*self._names.inputs, "cu_seqlens", WORK):
            spec = self._specs.get(name)
            if spec and name in views and spec.dtype in TYPES and views[name].dtype not in (TYPES[spec.dtype], STORED_AS.get(spec.dtype)):
                raise ArgumentError(self._wrong_type(spec, views[name]), "tensor")
        given = {name: views[name] for name in self._names.states if name in views}
        if given:
            call = arguments("forward", {name: view for name, view in views.items() if name in (*self._names.inputs, "cu_seqlens")}, {})
            check_states(self.name, given, {name: self._loaded.shape(name, call) for name in given}, next(iter(views.values())))
        return self._kernels(views, device, gradients)

    def _wrong_type(self, spec: TensorSpec, view: View) -> str:
        """What most often is an index of torch's own integers, where the script has i32."""
        found, name = NAMES.get(view.dtype, "of an unknown type"), spec.name
        if spec.role in ("k", "v"):  # of 8 bits, which no cast makes: the scale belongs to it
            return f"{self.name}: {name} is {found}, expected {spec.dtype}, as it is stored"
        convert = f"{name}.{TORCH_CASTS[spec.dtype]}()" if is_torch(view.owner) else f"{name}.astype({spec.dtype!r})"
        declare = f", or declare it {SCRIPT_TYPES[found]} in the script" if found in SCRIPT_TYPES and name in self._names.inputs and not spec.brought else ""
        return f"{self.name}: {name} is {found}, expected {spec.dtype}: pass {convert}{declare}"

    def _kernels(self, views: Mapping[str, View], device: Device, gradients: bool) -> Loaded:
        """The artifact for tensors of these types and shapes."""
        return self._loaded

    # ---- operations

    def _forward(self, call: Call, wanted: tuple[str, ...], out: Mapping[str, Any] | None, gradients: bool) -> dict[str, Any]:
        if out:
            unknown = sorted(set(out) - set(wanted))
            if unknown:
                raise TypeError(f"{self.name}() has no output {unknown[0]}; it has {', '.join(wanted)}")
        torch_calls = torch_calls_for(call)
        if torch_calls is not None:
            return torch_calls.forward(self, call, wanted, out or {}, gradients)
        return self._run_forward(call, wanted, out or {}, gradients)

    def _run_forward(self, call: Call, wanted: tuple[str, ...], out: Mapping[str, Any], gradients: bool) -> dict[str, Any]:
        """With no regard to autograd."""
        if gradients:
            wanted = wanted + self._names.kept
        return self._runner.run("forward", call.tensors, call.params, out, wanted, call.device, gradients)

    def _backward(self, call: Call, results: Mapping[str, Any], given: Mapping[str, Any], out: Mapping[str, Any] | None) -> dict[str, Any]:
        """Gradients from what the forward pass was given and made, and the gradients of its results."""
        self._check_backward()
        made = self._names.gradients_of(call.tensors)
        unknown = sorted(set(out or ()) - set(made))
        if unknown:
            raise TypeError(f"{self.name}() has no gradient {unknown[0]}; it has {', '.join(made)}")
        tensors = {**call.tensors, **results, **given}
        for name in (*self._names.states_out, WORK):
            tensors.pop(name, None)
        if self._names.keeps_output:
            del tensors["o"]  # kept as it was before out_mod
        return self._runner.run("backward", tensors, call.params, out or {}, made, call.device, True)

    def _as_compiled(self) -> str:
        """Its name, and what gradients may be missing for."""
        return self.name

    def _check_backward(self) -> None:
        if not self._names.has_backward:
            raise Error(f"{self._as_compiled()} has no backward pass: the script has no gradient, or was compiled without or in a layout that has none", "unsupported")

    def _check_differentiable(self, name: str) -> None:
        known = name in self._names.differentiable
        name = "initial_state" if name in self._names.states else name
        if not self._names.has_backward:
            raise ArgumentError(f"{name} requires a gradient, and {self._as_compiled()} has no backward pass; call under torch.no_grad() or pass {name}.detach()", "tensor")
        if not known:
            raise ArgumentError(f"{self.name}: {name} requires a gradient, and the script does not mark it: write `grad` after its axes, or pass {name}.detach()", "tensor")


def type_name(dtype: Any) -> str:
    """"float32" of NumPy's or torch's object for it, or of its name."""
    return dtype.__name__ if isinstance(dtype, type) else str(dtype).removeprefix("torch.")


_torch_calls: Any = None


def _find_torch() -> None:
    """Takes notice of torch once the program has imported it."""
    global _torch_calls
    if _torch_calls is None and "torch" in sys.modules:
        from . import _torch

        _torch_calls = _torch


# As _read_append: a program may import torch after the attention, and trace its first call.
_find_torch._dynamo_marked_constant = True  # type: ignore[attr-defined]


def check_number(x: Any, what: str, way: str, caller: str) -> None:
    """Refuses a parameter whose gradient would be lost: a tensor of torch's that wants one. [way]: how to have it."""
    if is_torch(x):
        _find_torch()
        _torch_calls.check_number(x, what, way, caller)


def is_traced() -> bool:
    """Whether torch.compile looks at what is done, in place of doing it."""
    _find_torch()
    return _torch_calls is not None and _torch_calls.is_traced()


def torch_calls_for(call: Call) -> Any:
    """The module for calls on torch tensors; None for other tensors. torch is not imported for it."""
    _find_torch()
    return _torch_calls if _torch_calls is not None and _torch_calls.takes(call) else None
