"""A short way for calls like one before.

What a call takes on the host is, but for addresses, said by the types, shapes, strides and devices of its tensors and by its options; those of the
steps of a server are the same for thousands of calls. A call of plain torch tensors, that nothing but itself wants to know of, is looked up by them: what is
found runs with new addresses. Any other goes the long way, which checks, says what is wrong, and leaves here the one run of a plan that came of it.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from operator import itemgetter
from typing import Any

from . import _libaule as abi
from ._plans import WORK, Run, packed, queues_of, watched_runs
from ._reading import ROOM, give_scratch, of_torch, take_scratch
from ._schedules import Step
from ._together import forward_with_rows, is_given_rows
from ._workspaces import StreamMemory, give_back, give_back_on, take, take_on

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
        pick: of the call's addresses those of the tensors that the plan takes, as it takes them (data, byte_offset).
        more: tensors of the plan that the call does not bring, whose addresses come behind those of the call; None: the lists of a step.
        frame: a run and its addresses, as packed.
        read: how many of them it only reads.
        written: numbers of tensors that the call writes into.
        lists: numbers of tensors that a step's lists depend on.
        numbers: the values of its parameters, for calls that have the same.
        makers: of each tensor that a run makes, what makes it; of one that the caller does not want, its place in the workspace.
        bytes: of the workspace, with what the caller does not want; align: its alignment.
        byte: a tensor of one byte where workspaces are tensors; gpu: of which GPU.
        apart: places of tensors, where some are written, of which it is known that nothing overlaps.
        launch, plan, room: what runs the plan, and the bytes of the workspace that it needs.
    """

    __slots__ = ("prepared", "queue", "pick", "more", "frame", "read", "written", "lists", "numbers", "makers", "bytes", "align", "byte", "gpu", "apart", "launch", "plan", "room")

    def __init__(self, run: Run, first: Any) -> None:
        self.prepared, self.read = run.prepared, len(run.given)
        self.queue = queues_of(first, run.prepared.device)
        self.pick: Callable[[tuple[int, ...]], tuple[int, ...]] = tuple
        self.more: list[Any] = []
        self.frame = abi.run_of(0)
        self.written: list[int] = []
        self.lists: list[int] = []
        self.numbers = packed(list(run.params.values()))
        self.makers: list[Callable[[Any], Any] | int] = []
        self.bytes, self.align = run.prepared.bytes, max(run.prepared.align, ALIGN)
        self.byte: Any = None if run.prepared.device.backend == "cpu" else first.new_empty(1, dtype=sys.modules["torch"].uint8)
        self.gpu: int = first.device.index or 0
        self.apart: set[tuple[int, ...]] = set()
        self.launch, self.plan, self.room = abi.library().cdll.aule_plan_run, run.prepared.plan, run.prepared.bytes


def flat(x: Any) -> tuple:
    """An option that may be a tuple, as options of a call."""
    return (tuple, *x) if type(x) is tuple else (x,)


Like = tuple[tuple, tuple[int, ...]]  # what calls that go the same way have in common, and where the tensors of this one are (0: there is none), with a 0 behind them


def _is_compiled() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def like(options: tuple, tensors: tuple) -> Like | None:
    """What a call is like; None: it goes the long way, whatever came before.

    Args:
        options: all that is no tensor; tuples flat. Types are a part of the key: True is 1, and not what takes it.
        tensors: in an order of the caller's, None where there is none. The first one says where results are.
    """
    torch = sys.modules.get("torch")
    if torch is None or torch.compiler.is_compiling() or type(tensors[0]) is not torch.Tensor:
        return None
    known = of_torch(torch)
    present = [x for x in tensors if x is not None]
    if known.is_watched() or not known.plain.issuperset(map(type, present)) or True in map(known.is_negative, present):
        return None
    if known.records() and True in map(known.wants_gradient, present):
        return None
    found = known.read(tensors)
    return None if found is None else ((options, tuple(map(type, options)), found[0]), found[1])


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
        key, places = call
        try:
            kept = self._kept.get(key)
        except TypeError:  # an option that has no hash
            return None
        if kept is None:
            return None
        for x in kept.more:
            if x is None:
                x = step._found(self._of_step(call, kept, values))
                if x is None:
                    return None
            places += (x.data_ptr(),)
        words = kept.pick(places)
        if kept.written and not _lie_apart(kept, words):
            return None
        try:
            numbers = packed(values) if values else kept.numbers
        except struct.error:
            return None
        return _run(kept, words, numbers, tensors)

    def _of_step(self, call: Like, kept: _Kept, values: Sequence[int | float] | None) -> tuple:
        """What a step's lists are for: calls of this kind, with these parameters and the lists that lie there (Step.of)."""
        return (self, call[0], None if values is None else tuple(values), *[call[1][n] for n in kept.lists])

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
        key, run = call[0], forward[0]
        if any(type(x) not in PLAIN for x in key[0]):  # tensors, whose numbers change
            return
        if run.prepared.reports or tensors[0].device.type not in DEVICES or run.prepared.device.backend != "cpu" and not tensors[0].is_cuda:
            return
        if tensors[0].is_cuda and sys.modules["torch"].cuda.is_current_stream_capturing():  # what is kept would lie in the graph's memory
            return
        kept = _Kept(run, tensors[0])
        if not _find_tensors(kept, run, tensors, names) or not _find_results(kept, run, tensors[0], results):
            return
        kept.frame = abi.run_of(len(run.given) + len(run.out) + len(kept.makers))
        if kept.frame.size > ROOM:
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
    order: list[int] = []
    for name, x in [*run.given.items(), *run.out.items()]:
        n = -1 if name == WORK else names.get(name)
        if n is None or not isinstance(x, torch.Tensor):
            return False
        if n < 0 or tensors[n] is None:
            order.append(len(tensors) + 1 + len(kept.more))
            kept.more.append(None if n < 0 else x)
            continue
        if (x.data_ptr(), x.dtype) != (tensors[n].data_ptr(), tensors[n].dtype):
            return False
        order.append(n)
    kept.pick = itemgetter(*[place for n in order for place in (n, len(tensors))])
    kept.written = order[kept.read :]
    return all(n < len(tensors) for n in kept.written)


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


def _lie_apart(kept: _Kept, words: tuple[int, ...]) -> bool:
    """Layers come again and again with the same caches, and new rows lie where those of the step before lay."""
    if words in kept.apart:
        return True
    if not kept.prepared.apart(words, kept.read):
        return False
    if len(kept.apart) >= SEEN:
        kept.apart.clear()
    kept.apart.add(words)
    return True


def _run(kept: _Kept, words: tuple[int, ...], numbers: Any, tensors: Sequence[Any]) -> list[Any] | None:
    first, queue, space = tensors[0], kept.queue(), 0
    memory: Any = None
    place, captured = (kept.gpu, queue), False
    if kept.bytes:
        captured = kept.byte is not None and sys.modules["torch"].cuda.is_current_stream_capturing()
        if kept.byte is None:
            memory = take(kept.bytes)
        else:
            memory = StreamMemory(kept.byte, kept.bytes, kept.align) if captured else take_on(place, kept.byte, kept.bytes, kept.align)
        space = memory.data
    results: list[Any] = []
    made: list[int] = []
    for make in kept.makers:
        if isinstance(make, int):
            made += space + make, 0
        else:
            results.append(x := make(first))
            made += x.data_ptr(), 0
    scratch = take_scratch()
    at = scratch.at
    kept.frame.pack_into(scratch.memory, 0, abi.RUN.size, queue, space, kept.room, at + abi.RUN.size, numbers.buffer_info()[0] if numbers else 0, *words, *made)
    failed = kept.launch(kept.plan, at, None)
    give_scratch(scratch)
    if isinstance(memory, StreamMemory):
        if not captured:
            give_back_on(place, memory)
    elif memory is not None:
        give_back(memory)
    if failed:
        return None
    if kept.written:
        sys.modules["torch"].autograd.graph.increment_version([tensors[n] for n in kept.written])  # who saved them must know
    return results


def _way(f: Any, said: tuple) -> tuple[list[str], list[str], dict[str, int]]:
    """Of a call of so many tensors by place and others by name: the names of its parameters and of its tensors, and the numbers of all tensors."""
    count, *names = said
    parameters, others = [n for n in f._param_names if n in names], [n for n in names if n not in f._param_names]
    return parameters, others, {name: n for n, name in enumerate((*f._names.positional[:count], *others, "o"))}


def output(f: Any, qkv: tuple, named: dict[str, Any], out: Any, device: str | None, step: Step | None) -> Any:
    """The output of a call of an attention, without states."""
    if _is_compiled():  # what a graph sees must not change from call to call
        return _output(f, qkv, named, out, device, step)
    said = (len(qkv), *named)
    way = f._ways.get(said)
    if way is None:
        if len(f._ways) >= MOST:
            f._ways.clear()
        way = f._ways[said] = _way(f, said)
    parameters, others, order = way
    values = [named[name] for name in parameters]
    # As calls are prepared (_plans.py)
    numbers = [x if name.endswith("_most") or type(x) not in (int, float) else type(x) for name, x in zip(parameters, values)]
    tensors = (*qkv, *[named[name] for name in others], out)
    call = like((*said, device, step is None, *numbers), tensors)
    made = f._calls.run(call, tensors, values, step)
    if made is not None:
        return made[0] if out is None else out
    with watched(call) as runs:
        o = _output(f, qkv, named, out, device, step)
    if call is not None:
        f._calls.keep(call, tensors, order, runs, {"o": o}, values, step)
    return o


def _output(f: Any, qkv: tuple, named: dict[str, Any], out: Any, device: str | None, step: Step | None) -> Any:
    """The long way."""
    into = None if out is None else {"o": out}
    if is_given_rows(f, named):
        return forward_with_rows(f, qkv, named, into, device, ("o",), f._torch_calls_for, step)["o"]
    return f._forward(f._with_work(f._bind(qkv, named, device), step), ("o",), into, False)["o"]
