"""A short way for calls like one before.

What a call takes on the host is, but for addresses, said by the types, shapes, strides and devices of its tensors and by its options; those of the
steps of a server are the same for thousands of calls. A call of plain torch tensors, that nothing but itself wants to know of, is looked up by them: what is
found runs with new addresses. Any other goes the long way, which checks, says what is wrong, and leaves here the one run of a plan that came of it.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from ._plans import WORK, Run, packed, queues_of, watched_runs
from ._schedules import Step
from ._together import forward_with_rows, is_given_rows
from ._workspaces import give_back, take

MOST = 64  # calls that are remembered
SEEN = 256  # places of written tensors of a call, of which it is known that nothing overlaps
ALIGN = 256  # bytes: of what lies behind a workspace
ROWS = ("q", "k", "v", "k_new", "v_new", "slots", "o")  # which lists of work do not depend on
DEVICES = ("cpu", "cuda")  # whose tensors are addresses
PLAIN = frozenset((bool, int, float, str, type(None), type))


class _Kept:
    """A prepared call.

    Attributes:
        queue: what asks for the stream.
        order: of each tensor that the plan takes, its number in the call; -1: the lists of a step; of one that the call does not bring, the tensor itself.
        read: how many of them it only reads.
        written: numbers of tensors that the call writes into.
        lists: numbers of tensors that a step's lists depend on.
        numbers: the values of its parameters, for calls that have the same.
        makers: of each tensor that a run makes, what makes it; of one that the caller does not want, its place in the workspace.
        bytes: of the workspace, with what the caller does not want; align: its alignment.
        byte: a tensor of one byte where workspaces are tensors.
        apart: places of tensors, where some are written, of which it is known that nothing overlaps.
    """

    __slots__ = ("prepared", "queue", "order", "read", "written", "lists", "numbers", "makers", "bytes", "align", "byte", "apart")

    def __init__(self, run: Run, first: Any) -> None:
        self.prepared, self.read = run.prepared, len(run.given)
        self.queue = queues_of(first, run.prepared.device)
        self.order: list[Any] = []
        self.written: list[int] = []
        self.lists: list[int] = []
        self.numbers = packed(list(run.params.values()))
        self.makers: list[Callable[[Any], Any] | int] = []
        self.bytes, self.align = run.prepared.bytes, max(run.prepared.align, ALIGN)
        self.byte: Any = None if run.prepared.device.backend == "cpu" else first.new_empty(1, dtype=sys.modules["torch"].uint8)
        self.apart: set[tuple[int, ...]] = set()


def flat(x: Any) -> tuple:
    """An option that may be a tuple, as options of a call."""
    return (tuple, *x) if type(x) is tuple else (x,)


class Like:
    """What calls that go the same way have in common, and where the tensors of this one are (0: there is none)."""

    __slots__ = ("key", "places")

    def __init__(self, key: tuple, places: list[int]) -> None:
        self.key, self.places = key, places


def like(options: tuple, tensors: Sequence[Any]) -> Like | None:
    """What a call is like; None: it goes the long way, whatever came before.

    Args:
        options: all that is no tensor; tuples flat. Types are a part of the key: True is 1, and not what takes it.
        tensors: in an order of the caller's, None where there is none. The first one says where results are.
    """
    torch = sys.modules.get("torch")
    if torch is None or torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return None
    first, plain = tensors[0], torch.Tensor
    kind = type(first) is plain and first.device.type
    if kind not in DEVICES or torch.is_autocast_enabled(kind) or torch._C._len_torch_dispatch_stack():
        return None
    if torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0:
        return None
    parameter, strided, recorded = torch.nn.Parameter, torch.strided, torch.is_grad_enabled()
    key: list[Any] = [options, *map(type, options)]
    places = []
    bits = 0
    for x in tensors:
        if x is None:
            key.append(None)
            places.append(0)
            continue
        of = type(x)
        if of is not plain and of is not parameter or recorded and x.requires_grad or x.layout is not strided or x.is_nested or x.is_neg():
            return None
        at = x.data_ptr()
        if not at:
            return None
        bits |= at
        places.append(at)
        key += x.dtype, x.shape, x.stride(), x.device
    key.append(bits & 15 == 0)  # as calls are prepared (_plans.py)
    return Like(tuple(key), places)


def watched(call: Like | None) -> AbstractContextManager[list[Run]]:
    """What the long way runs meanwhile, of a call that may be kept."""
    return nullcontext([]) if call is None else watched_runs()


class Calls:
    """Calls of one kind that are remembered, by what they are like."""

    def __init__(self) -> None:
        self._kept: dict[tuple, _Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        self._kept.clear()

    def run(self, call: Like | None, tensors: Sequence[Any], values: Sequence[int | float] | None = None, step: Any = None) -> list[Any] | None:
        """What the call makes, in its order; None: there is none like it, or it fails, which the long way tells.

        Args:
            tensors: those that the call is of.
            values: of the parameters, in the order of the long way; None: they are what they were.
            step: the lists of work, if any.
        """
        if call is None:
            return None
        try:
            kept = self._kept.get(call.key)
        except TypeError:  # an option that has no hash
            return None
        if kept is None:
            return None
        places = call.places
        words: list[int] = []
        for n in kept.order:
            if type(n) is int and n >= 0:
                words += places[n], 0
                continue
            x = n if type(n) is not int else step._found(self._of_step(call, kept, values))
            if x is None:
                return None
            words += x.data_ptr(), 0
        if kept.written and not _lie_apart(kept, words):
            return None
        try:
            numbers = kept.numbers if values is None else packed(values)
        except struct.error:
            return None
        return _run(kept, words, numbers, tensors)

    def _of_step(self, call: Like, kept: _Kept, values: Sequence[int | float] | None) -> tuple:
        """What a step's lists are for: calls of this kind, with these parameters and the lists that lie there (Step.of)."""
        return (self, call.key, None if values is None else tuple(values), *[call.places[n] for n in kept.lists])

    def keep(
        self, call: Like, tensors: Sequence[Any], names: Mapping[str, int], runs: Sequence[Run], results: Mapping[str, Any], values: Sequence[int | float] | None = None,
        step: Any = None,
    ) -> None:
        """After the long way.

        Args:
            values, step: as of :meth:`run`.
            names: numbers of the call's tensors, by the names of the plan's. Of one that the call does not bring the plan's is made of options alone.
            runs: what it ran.
            results: what the caller gets of what it made, by name, as the caller gets it.
        """
        forward = [r for r in runs if r.operation == "forward"]
        if len(forward) != 1 or any(r.operation not in ("forward", "schedule") for r in runs):
            return
        key, run = call.key, forward[0]
        if any(type(x) not in PLAIN for x in key[0]):  # tensors, whose numbers change
            return
        if run.prepared.reports or run.prepared.device.backend != "cpu" and tensors[0].device.type != "cuda":
            return
        if tensors[0].is_cuda and sys.modules["torch"].cuda.is_current_stream_capturing():  # what is kept would lie in the graph's memory
            return
        kept = _Kept(run, tensors[0])
        if not _find_tensors(kept, run, tensors, names) or not _find_results(kept, run, tensors[0], results):
            return
        if WORK in run.given:
            if not isinstance(step, Step):
                return
            told = {n for name, n in names.items() if name not in ROWS and tensors[n] is not None}
            kept.lists = sorted(n for n in told if not tensors[n].dtype.is_floating_point)
            step._remember(self._of_step(call, kept, values), run.given[WORK])
        if len(self._kept) >= MOST and key not in self._kept:
            self._kept.clear()
        self._kept[key] = kept


def _find_tensors(kept: _Kept, run: Run, tensors: Sequence[Any], names: Mapping[str, int]) -> bool:
    """Which of the call's tensors the plan takes; not where one was converted."""
    torch = sys.modules["torch"]
    for name, x in [*run.given.items(), *run.out.items()]:
        n = -1 if name == WORK else names.get(name)
        if n is None or not isinstance(x, torch.Tensor):
            return False
        if n >= 0 and tensors[n] is None:
            kept.order.append(x)
            continue
        if n >= 0 and (x.data_ptr(), x.dtype) != (tensors[n].data_ptr(), tensors[n].dtype):
            return False
        kept.order.append(n)
    kept.written = kept.order[kept.read :]
    return all(type(n) is int for n in kept.written)


def _find_results(kept: _Kept, run: Run, first: Any, results: Mapping[str, Any]) -> bool:
    """How what a run makes is made."""
    torch = sys.modules["torch"]
    for name, make in run.prepared.made:
        x, wanted = run.made[name], results.get(name)
        if type(x) is not torch.Tensor or not x.numel():
            return False
        if wanted is None:
            at = -(-kept.bytes // ALIGN) * ALIGN
            kept.makers.append(at)
            kept.bytes = at + x.numel() * x.element_size()
        elif wanted is x and not x.is_contiguous():
            kept.makers.append(_with_none(make))
        elif not wanted.is_contiguous():
            return False
        elif (wanted.shape, wanted.stride(), wanted.dtype) == (first.shape, torch.empty_like(first).stride(), first.dtype):
            kept.makers.append(torch.empty_like)  # half the time of the others
        else:
            kept.makers.append(_with_none(partial(torch.empty_strided, wanted.shape, wanted.stride(), dtype=wanted.dtype, device=wanted.device)))
    return True


def _with_none(make: Callable[[], Any]) -> Callable[[Any], Any]:
    """Of a maker that wants no tensor to go by, one that is given it."""
    return lambda first: make()


def _lie_apart(kept: _Kept, words: list[int]) -> bool:
    """Layers come again and again with the same caches, and new rows lie where those of the step before lay."""
    places = tuple(words)
    if places in kept.apart:
        return True
    if not kept.prepared.apart(words, kept.read):
        return False
    if len(kept.apart) >= SEEN:
        kept.apart.clear()
    kept.apart.add(places)
    return True


def _run(kept: _Kept, words: list[int], numbers: Any, tensors: Sequence[Any]) -> list[Any] | None:
    first, memory, space = tensors[0], None, 0
    if kept.bytes and kept.byte is None:
        memory = take(kept.bytes)
        space = memory.data
    elif kept.bytes:
        memory = kept.byte.new_empty(kept.bytes + kept.align)
        space = -(-memory.data_ptr() // kept.align) * kept.align
    results = []
    for make in kept.makers:
        if isinstance(make, int):
            words += space + make, 0
        else:
            results.append(x := make(first))
            words += x.data_ptr(), 0
    failed = kept.prepared.run_quietly(kept.queue(), space, array("Q", words), numbers)
    if kept.byte is None and memory is not None:
        give_back(memory)
    if failed:
        return None
    if kept.written:
        sys.modules["torch"].autograd.graph.increment_version([tensors[n] for n in kept.written])  # who saved them must know
    return results


def output(f: Any, qkv: tuple, named: dict[str, Any], out: Any, device: str | None, step: Step | None) -> Any:
    """The output of a call of an attention, without states."""
    names, parameters = f._names.positional, f._param_names
    tensors, order = [*qkv], dict(zip(names, range(len(qkv))))
    options: list[Any] = [len(qkv), device, step is None]
    values: list[int | float] = []
    for name in parameters:
        if name in named:
            x = named[name]
            values.append(x)
            options += name, x if name.endswith("_most") or type(x) not in (int, float) else type(x)  # as calls are prepared (_plans.py)
    for name, x in named.items():
        if name not in parameters:
            order[name] = len(tensors)
            options.append(name)
            tensors.append(x)
    order["o"] = len(tensors)
    tensors.append(out)
    call = like(tuple(options), tensors)
    made = f._calls.run(call, tensors, values, step)
    if made is not None:
        return made[0] if out is None else out
    into = None if out is None else {"o": out}
    with watched(call) as runs:
        if is_given_rows(f, named):
            o = forward_with_rows(f, qkv, named, into, device, ("o",), f._torch_calls_for, step)["o"]
        else:
            o = f._forward(f._with_work(f._bind(qkv, named, device), step), ("o",), into, False)["o"]
    if call is not None:
        f._calls.keep(call, tensors, order, runs, {"o": o}, values, step)
    return o
