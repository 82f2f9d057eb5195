"""Lists of work once a step: `schedule` by itself, and a step of several layers that is given its lists beside one whose calls make their own. bench/decode.py
--schedule has it."""

from __future__ import annotations

import ragged
import torch
from bench import TYPES, note, tell, usable
from measure import graph_of, graph_seconds

D, LAYERS = 128, 8


class Step(ragged.Ragged):
    @property
    def name(self) -> str:
        return f"{self.B} of mean {self.mean}, {self.H}/{self.Hk}, pages of {self.page}"


CASES = [Step(1024, 512), Step(1024, 64), Step(256, 2048), Step(64, 4096), Step(8, 8192), Step(1024, 512, Hk=1)]


def row(a, case: Step) -> str:
    torch.manual_seed(1)
    lengths = case.lengths()
    given, pages = ragged.in_pages(case, lengths, a.device)
    q = torch.randn(case.B, case.H, 1, D, device=a.device).to(TYPES[a.dtype])
    caches = [[torch.randn(pages, case.Hk, case.page, D, device=a.device, dtype=q.dtype) for _ in "kv"] for _ in range(LAYERS)]
    f = ragged.call_of(a, case, False)
    work = f.schedule(q, *caches[0], **given)
    lists = [lambda: f.schedule(q, *caches[0], **given, out=work)]
    own = [lambda k=k, v=v: f(q, k, v, **given) for k, v in caches]
    read = [lambda k=k, v=v: f(q, k, v, **given, schedule=work) for k, v in caches]
    same = all(torch.equal(x(), y()) for x, y in zip(own, read))
    graphs = {name: made for name, calls in (("lists", lists * LAYERS), ("own", own), ("read", lists + read)) if (made := usable(f"{name}, {case.name}", lambda: graph_of(calls)))}
    seconds = graph_seconds(graphs, 1, a.rounds)
    cells = [f"{seconds[name] * 1e6 / per:.3g} us" if name in seconds else "" for name, per in (("lists", LAYERS), ("own", 1), ("read", 1))]
    return f"| {case.name} | {work.numel()} | {' | '.join(cells)} | {'the same bits' if same else 'OTHER BITS'} |"


def measure(a) -> None:
    lines = [f"| case | elements of `work` | `schedule` | {LAYERS} layers, each its own lists | `schedule` and {LAYERS} layers | |", "|---|---|---|---|---|---|"]
    for case in CASES:
        if a.filter in case.name:
            lines.append(row(a, case))
            note(lines[-1])
            torch.cuda.empty_cache()
    tell(a, f"{a.dtype}, width {D}. Median times of graphs.", lines)
