"""Decoding where sequences have different lengths: parts of the keys by a list, which are equal, beside as many parts of each sequence. bench/decode.py --ragged
has it; of --peers those that take keys in pages have columns, too."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from bench import TYPES, Row, note, peers_of, tell
from measure import FAR, first_of, graph_of, graph_seconds
from peers import SCRIPTS, Missing
from serving_peers import Batch

D = 128
EVEN = "warps_decode: start=0"


@dataclass(frozen=True)
class Ragged:
    B: int
    mean: int
    spread: float = 1.0  # of the logarithm; 0: all alike
    H: int = 32
    Hk: int = 8
    page: int = 16
    script: str = "full"

    @property
    def name(self) -> str:
        of = f"of mean {self.mean}, spread {self.spread:g}" if self.spread else f"of {self.mean}"
        return f"{self.script}, {self.B} {of}, {self.H}/{self.Hk}, pages of {self.page}"

    def lengths(self) -> list:
        drawn = torch.randn(self.B, generator=torch.Generator().manual_seed(3)) * self.spread
        scaled = drawn.exp() / drawn.exp().mean() * self.mean
        return [max(1, int(x)) for x in scaled]


CASES = [
    Ragged(64, 4096), Ragged(256, 2048), Ragged(64, 4096, 0.5), Ragged(8, 8192), Ragged(2, 32768), Ragged(16, 4096), Ragged(24, 8192, 0), Ragged(64, 4096, script="window"),
    Ragged(64, 8192, 0), Ragged(64, 1024, 0), Ragged(8, 8192, 0), Ragged(2, 8192, 0), Ragged(4, 1024, 0), Ragged(64, 4096, Hk=32), Ragged(64, 4096, Hk=1),
]
WINDOW = 1024


def in_pages(case: Ragged, lengths: list, device: str) -> tuple:
    """A table of pages drawn at random, which nobody shares, and the lengths; how many pages there are."""
    entries, pages = -(-max(lengths) // case.page), sum(-(-n // case.page) for n in lengths)
    table, drawn, at = torch.full((case.B, entries), -1, dtype=torch.int32), torch.randperm(pages).to(torch.int32), 0
    for b, n in enumerate(lengths):
        own = -(-n // case.page)
        table[b, :own] = drawn[at : at + own]
        at += own
    given = {"T_table": table.to(device), "T_lengths": torch.tensor(lengths, dtype=torch.int32, device=device)}
    return given, pages


def call_of(a, case: Ragged, even: bool):
    import aule

    if a.artifacts:
        return aule.load(f"{a.artifacts.split(',')[0]}/{case.script}_{'even' if even else 'paged'}.so")
    if even:
        raise ValueError("kernels without lists are those of bench/decode.py --compile")
    return aule.compile(SCRIPTS / f"{case.script}.attn", layout="T=paged")


def error(case: Ragged, o, q, pools, given) -> float:
    """Of the first head of all sequences, against float64."""
    worst = 0.0
    for b, n in enumerate(given["T_lengths"].tolist()):
        j = torch.arange(max(0, n - WINDOW) if case.script == "window" else 0, n, device=q.device)
        k, v = (pool[given["T_table"][b, j // case.page].long(), 0, j % case.page].double() for pool in pools)
        want = torch.softmax(k @ q[b, 0, 0].double() * D**-0.5, 0) @ v
        worst = max(worst, ((o[b, 0, 0].double() - want).abs().max() / want.abs().max()).item())
    return worst


def calls_of(a, case: Ragged, peer, q, caches, given) -> list | None:
    """Of each cache, by equal parts ("list"), as many parts each ("even"), or a peer."""
    params = {"window": WINDOW} if case.script == "window" else {}
    if isinstance(peer, str):
        f = call_of(a, case, peer == "even")
        return [lambda k=k, v=v: f(q, k, v, **given, **params) for k, v in caches]
    batch = Batch.of_rows(q, given["T_table"], given["T_lengths"], case.page, case.Hk, bool(params), **params)
    plan = peer.over_pages(batch)
    return plan and [lambda run=plan(k, v): batch.by_heads(run()) for k, v in caches]


def row(a, case: Ragged, rate: float, peers: list) -> str:
    torch.manual_seed(1)
    dtype, lengths = TYPES[a.dtype], case.lengths()
    read = 2 * case.Hk * D * dtype.itemsize * sum(min(n, WINDOW) if case.script == "window" else n for n in lengths)
    given, pages = in_pages(case, lengths, a.device)
    copies = max(2, min(32, -(-FAR // read)))
    q = torch.randn(case.B, case.H, 1, D, device=a.device).to(dtype)
    caches = [[torch.randn(pages, case.Hk, case.page, D, device=a.device, dtype=dtype) for _ in "kv"] for _ in range(copies)]
    made, kept = Row(case.name), []
    for peer in ("list", "even", *peers):

        def prepare():
            calls = calls_of(a, case, peer, q, caches, given)
            kept.append(calls)
            return calls and (error(case, first_of(calls[-1]()), q, caches[-1], given), graph_of(calls, a.device))

        if isinstance(peer, Missing):
            made.say(peer.name, "missing")
        else:
            made.add(peer if isinstance(peer, str) else peer.name, prepare)
    seconds = graph_seconds(made.graphs, copies, a.rounds, a.device)
    cells = list(made.found(seconds, lambda s, off: f"{s * 1e6:.3g} us, {read / s * 1e-9:.0f} GB/s, {off:.0e}").values())
    times = f"{seconds['even'] / seconds['list']:.2f}" if seconds.keys() >= {"list", "even"} else ""
    of_copy = f"{read / seconds['list'] * 1e-9 / rate:.2f}" if "list" in seconds else ""
    return f"| {case.name} | {' | '.join([*cells[:2], times, of_copy, *cells[2:]])} |"


def measure(a, rate: float) -> None:
    peers = [p for p in peers_of(a.peers) if isinstance(p, Missing) or hasattr(p, "over_pages")]
    heads = ["equal parts of a list", "as many parts each", "times", "of copy", *(p.name for p in peers)]
    lines = [f"| case | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for case in CASES:
        if a.filter in case.name:
            lines.append(row(a, case, rate, peers))
            note(lines[-1])
            torch.cuda.empty_cache()
    tell(a, f"{a.dtype}, width {D}. Copy: {rate:.0f} GB/s. Median times, keys and values read a second, largest error against float64.", lines)
