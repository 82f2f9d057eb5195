"""Lists of work: made once a step by the operation `schedule`, read by calls of all layers (docs/dev/operations.md, schedule)."""

from __future__ import annotations

import weakref
from typing import Any, Mapping, TypeVar

from ._axes import Axis
from ._errors import ArgumentError, Error
from ._plans import WORK
from ._tensors import describe

T = TypeVar("T")


class _Made:
    """Whose lists a tensor has, by the object: as long as it lives, no other has its number."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[Any, str, dict[str, Any], dict[str, str]]] = {}

    @staticmethod
    def _tensors(f: Any, call: Any) -> dict[str, str]:
        """What lists depend on: of caches not how many pages there are, of which layers may have other numbers."""
        keys = f._names.positional[1:]
        return {name: f"{x.dtype} {list(x.shape[1 if name in keys else 0 :])}" for name, x in call.tensors.items()}

    def keep(self, work: Any, f: Any, call: Any) -> None:
        number = id(work)
        known = number in self._calls and self._calls[number][0]() is work
        of = self._calls[number][0] if known else weakref.ref(work, lambda _: self._calls.pop(number, None))
        self._calls[number] = of, f.name, dict(call.params), self._tensors(f, call)

    def check(self, work: Any, f: Any, call: Any) -> None:
        """Are they of such a call? Of tensors that another has made, or that are copies, nothing is known."""
        of, name, params, tensors = self._calls.get(id(work), (None, "", {}, {}))
        if of is None or of() is not work:
            return
        here = {**params, **call.params, **self._tensors(f, call)}  # what is not said is a default, known when kernels are made
        if name != f.name:
            raise ArgumentError(f"{f.name}: schedule was made for a call of {name}", "work")
        for what, said in {**params, **tensors}.items():
            if here.get(what) != said:
                raise ArgumentError(f"{f.name}: schedule was made for a call with {what} = {said}, this one has {here.get(what, 'none')}", "work")


_made = _Made()


class Step:
    """Lists of work of one step of a model: the first layer's call makes them, those behind it read them. Given as ``schedule=`` in place of what
    :meth:`AttentionFunction.schedule` makes, to any number of attentions.

    Layers have the same lists where kernels, shapes, parameters and the tensors that say which rows are whose (lengths, starts, tables, and whatever
    else is no floating-point input) are the same ones, in the same memory; others make their own. What these say must not change within a step:
    :meth:`begin` begins the next one. For one thread at a time.
    """

    def __init__(self) -> None:
        self._made: dict[Any, tuple[Any, list[Any]]] = {}  # and what says which rows are whose, so that nothing else comes to lie there
        self._before: dict[Any, tuple[Any, list[Any]]] = {}  # of the step before, whose memory is written again
        self._known: dict[Any, Any] = {}  # lists for calls like one before (_again.py)

    def begin(self) -> None:
        """The next step: lists are made anew, where those of before are. In a captured graph that is part of each replay."""
        self._before, self._made, self._known = self._made, {}, {}

    def _found(self, call: tuple) -> Any:
        """The lists that such a call of this step was given; None: the long way finds them."""
        return self._known.get(call)

    def _remember(self, call: tuple, work: Any) -> None:
        self._known[call] = work

    def of(self, f: Any, call: Any) -> Any:
        """The lists for a call; None: it makes its own, since it is traced, or of no layout."""
        if not f._names.work or f._is_traced(call):
            return None
        key: list[Any] = [f._key, call.device, *call.params.items()]
        said, bits = [], 0
        for name, x in call.tensors.items():
            kind, place, offset, owner = describe(x, name)
            address = place + offset
            floats = name in f._names.positional or "float" in f._specs[name].dtype
            bits |= address if floats else 0
            key += [name, kind, None if floats else address]
            if not floats:
                said += [x, owner]
        made = (*key, bits & 15 == 0)  # kernels that copy by tensor maps are for such addresses alone
        if made not in self._made:
            self._made[made] = self._make(f, call, self._before.get(made, (None, []))[0]), said
        return self._made[made][0]

    @staticmethod
    def _make(f: Any, call: Any, before: Any) -> Any:
        """None where calls make their own, since lists are of kernels that strides or addresses rule out."""
        try:
            return f._make_work(call, before)
        except Error as error:
            if error.status != "work":
                raise
            return None


class Schedules:
    """What an attention has of it."""

    name: str
    _names: Any
    _runner: Any
    _placed: Any
    _bind: Any
    _torch_calls_for: Any
    _as_compiled: Any

    def schedule(self, *qkv: T, out: T | None = None, device: str | None = None, axes: Mapping[str, Axis] | None = None, **named: Any) -> T:
        """Lists of who does what in a call of rows in layouts: which blocks have which sequences, and which keys. A call makes its own, unless it is given
        these as ``schedule=``: made once a step, they serve all layers whose calls have the same shapes, lists, parameters and mask.

        Nothing of q, k and v is read but their shapes, and nothing is waited for: made in a captured graph, lists follow what lengths and starts are in
        each replay. Where kernels need no lists there are none, and the tensor is empty.

        Args:
            qkv, device, axes, named: as in :meth:`__call__`.
            out: what an earlier call of the same shapes made, to be written again.

        Returns:
            int32 [n] at a multiple of 64 bytes, as what is given has to be. It means something to calls of the same kernels alone: this tensor is refused by calls
            of another attention, other shapes or parameters. A copy of it, or what another program made, is refused where it has another size, and else is
            a wrong list: no address is outside, results are wrong.

        Raises:
            Error: there are no such lists: of rows that lie densely, of recurrences, of artifacts of before there were any.
        """
        if axes:
            f, named = self._placed(axes, named)
            return f.schedule(*qkv, out=out, device=device, **named)
        call = self._bind(qkv, named, device)
        self._check_work("schedule")
        return self._make_work(call, out)

    def _make_work(self, call: Any, out: Any) -> Any:
        torch_calls = self._torch_calls_for(call)
        work = self._run_schedule(call, out) if torch_calls is None else torch_calls.schedule(self, call, out)
        if not self._is_traced(call):
            _made.keep(work, self, call)
        return work

    def _run_schedule(self, call: Any, out: Any) -> Any:
        return self._runner.run("schedule", call.tensors, call.params, {} if out is None else {WORK: out}, (WORK,), call.device, False)[WORK]

    def _check_work(self, what: str) -> None:
        if not self._names.work:
            raise Error(f"{self._as_compiled()} has no operation 'schedule', and calls of it take no {what}: lists of work are of rows in layouts", "unsupported")

    def _with_work(self, call: Any, work: Any) -> Any:
        """The call with lists of work that it is given."""
        if isinstance(work, Step):
            work = work.of(self, call)
        elif work is not None:
            self._check_work("schedule")
            _made.check(work, self, call)
        if work is not None:
            call.tensors[WORK] = work
        return call

    def _is_traced(self, call: Any) -> bool:
        """Is it a call whose tensors have no memory yet?"""
        torch_calls = self._torch_calls_for(call)
        return torch_calls is not None and bool(torch_calls.has_no_memory(call))
