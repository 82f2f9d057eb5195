"""Measures one step of recurrences, whose states are read and written once, beside a copy of as many bytes, in one process.

    python bench/steps.py [--device cpu|cuda] [--dtype bf16] [--sequences 128] [--heads 32] [--width 128] [--tokens 1] [--rounds N]
                          [--artifacts DIR] [--write docs/performance.md --marker steps-cuda]

A row: time, bytes of states a second, the same as a share of torch's copy of the states, and errors of o and of the states beside the
recurrence in float64, of the first sequence's first head, over the largest value. On CUDA a call is replayed as a graph. --artifacts: a folder
that `recurrences.py --compile` wrote.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import recurrences as r
import torch
from bench import TYPES, note, tell
from measure import graph_of, median_seconds

KINDS = ("constant", "scalar", "vector", "delta", "gated delta")


def arguments_of(kind: str, a):
    case = r.Case(kind, a.sequences, a.tokens, a.heads, a.width)
    return case, r.arguments_of(case, TYPES[a.dtype], a.device)


def errors(case: r.Case, step, state, x) -> tuple[float, float]:
    """Of o and of the state, of which a copy goes in."""
    S, first = state.clone(), [y[:1, :1].double() for y in x]
    o = step(S)
    want_S, want_o = r.tokens(state[:1, :1].double(), *r.normal(case, *first, exact=True))
    return tuple(((got[:1, :1].double() - w).abs().max() / w.abs().max()).item() for got, w in ((o, want_o), (S, want_S)))


def row(kind: str, a) -> str:
    case, x = arguments_of(kind, a)
    state = torch.randn(a.sequences, a.heads, a.width, a.width, device=a.device)
    call, to = r.aule_call(case, a.artifacts), torch.empty_like(state)
    step = lambda S: call(*x, state=S)
    off = errors(case, step, state, x)
    calls = {"step": lambda: step(state), "copy": lambda: to.copy_(state)}
    if a.device.startswith("cuda"):
        calls = {name: graph_of([call]).replay for name, call in calls.items()}
    seconds = median_seconds(calls, a.device, a.rounds)
    rate = 2 * state.nbytes / seconds["step"] / 1e12
    return f"| {kind} | {a.dtype} | {seconds['step'] * 1e3:.3g} ms | {rate:.3g} TB/s | {seconds['copy'] / seconds['step']:.2f} | {off[0]:.0e}, {off[1]:.0e} |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cpu")
    p.add_argument("--dtype", default="bf16")
    for name, default in (("sequences", 128), ("heads", 32), ("width", 128), ("tokens", 1), ("rounds", 9)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--artifacts", default="")
    p.add_argument("--write", type=Path)
    p.add_argument("--marker", default="steps-cuda")
    a = p.parse_args()
    lines = ["| decay | dtype | time | states | of a copy | errors of o, states |", "|---|---|---|---|---|---|"]
    for kind in KINDS:
        lines.append(row(kind, a))
        note(lines[-1])
    tell(a, f"{a.sequences} sequences, {a.heads} heads, K = V = {a.width}, {a.tokens} token(s). Median times.", lines)


if __name__ == "__main__":
    main()
