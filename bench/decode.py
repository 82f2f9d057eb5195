"""Measures attention of one or a few queries over long caches, beside torch's, in one process.

    python bench/decode.py [--device cuda] [--dtype bf16] [--filter WORD] [--peers sdpa,cudnn,fa2] [--rounds N] [--pages 16,64,128]
                           [--artifacts DIR,DIR..] [--write docs/performance.md --marker decode]
    python bench/decode.py --compile DIR [--arch sm_90] [--shape ROW]

Each call of a turn has a cache of its own, so many that the far cache of the device does not hold them; the calls of a turn are one
CUDA graph. Bytes are those of the keys and values of all sequences, read once. Errors are against float64, of one group of heads,
over the largest value. `paged` has the same keys in pages drawn at random from a pool. --compile writes the artifacts for a machine
without the compiler, where --artifacts names the folder; of further folders there are further columns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

import torch
from bench import TYPES, machine, note, usable, write_between
from measure import median_seconds
from peers import PEERS, SCRIPTS

FAR = 300 << 20  # bytes of all caches of a turn: several times the far cache


@dataclass(frozen=True)
class Decode:
    B: int
    T: int
    S: int = 1
    H: int = 32
    Hk: int = 8
    D: int = 128
    page: int = 0  # 0: dense
    script = "full"

    @property
    def name(self) -> str:
        return f"B {self.B}, {self.H}/{self.Hk}, S {self.S}, T {self.T}" + (f", pages of {self.page}" if self.page else "")

    def bytes(self, dtype: torch.dtype) -> int:
        return 2 * self.B * self.Hk * self.T * self.D * dtype.itemsize


DENSE = [Decode(1, 1024), Decode(1, 8192), Decode(1, 65536), Decode(8, 8192), Decode(64, 1024), Decode(64, 8192), Decode(8, 8192, S=4),
         Decode(8, 8192, H=8), Decode(8, 8192, H=40, S=2)]
PAGED = [Decode(1, 65536), Decode(8, 8192), Decode(64, 8192)]


def dense(case: Decode, dtype: torch.dtype, device: str, copies: int):
    q = torch.randn(case.B, case.H, case.S, case.D, device=device).to(dtype)
    caches = [[torch.randn(case.B, case.Hk, case.T, case.D, device=device, dtype=dtype) for _ in "kv"] for _ in range(copies)]
    return q, caches


def in_pages(case: Decode, cache: list, table: torch.Tensor) -> list:
    """The same rows, page table[b, n] of the pool being rows n * page .. of sequence b."""
    pools = []
    for x in cache:
        pages = x.view(case.B, case.Hk, -1, case.page, case.D).transpose(1, 2).reshape(-1, case.Hk, case.page, case.D)
        pool = torch.empty_like(pages)
        pool[table.flatten().long()] = pages
        pools.append(pool)
    return pools


def exact(case: Decode, q, cache):
    """Of the last sequence's last group of heads."""
    group = case.H // case.Hk
    qs, k, v = q[-1, -group:].double(), cache[0][-1, -1].double(), cache[1][-1, -1].double()
    return torch.softmax(qs @ k.T * case.D**-0.5, -1) @ v


def error(case: Decode, o, want) -> float:
    got = o[-1, -(case.H // case.Hk):].double()
    return ((got - want).abs().max() / want.abs().max()).item()


def graph_of(calls: list):
    """One replay is a turn of all calls."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def graph_seconds(graphs: dict, copies: int, rounds: int) -> dict:
    times = {name: [] for name in graphs}
    for turn in range(rounds + 1):
        for name, graph in graphs.items():
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            for _ in range(3):
                graph.replay()
            last.record()
            last.synchronize()
            if turn:
                times[name].append(first.elapsed_time(last) * 1e-3 / 3 / copies)
    return {name: statistics.median(t) for name, t in times.items()}


class Own:
    """aule's artifacts of a folder."""

    def __init__(self, folder: Path | None, label: str) -> None:
        import aule

        self.aule, self.folder, self.name, self.made = aule, folder, label, {}

    def call(self, case: Decode, q, k, v, **pages):
        which = "paged" if case.page else "dense"
        if which not in self.made:
            layout = {"layout": "T=paged"} if case.page else {}
            self.made[which] = self.aule.load(self.folder / f"{which}.so") if self.folder else self.aule.compile(SCRIPTS / "full.attn", **layout)
        f = self.made[which]
        return lambda: f(q, k, v, **pages)


def first_of(o):
    return o[0] if isinstance(o, (tuple, list)) else o


def row(case: Decode, peers: list, a) -> dict:
    torch.manual_seed(1)
    dtype = TYPES[a.dtype]
    copies = max(2, min(64, -(-FAR // case.bytes(dtype))))
    q, caches = dense(case, dtype, a.device, copies)
    want, pages, calls = exact(case, q, caches[-1]), {}, {}
    if case.page:
        entries = case.T // case.page
        table = torch.randperm(case.B * entries, device=a.device).to(torch.int32).view(case.B, entries)
        pages = {"T_table": table, "T_lengths": torch.full((case.B,), case.T, device=a.device, dtype=torch.int32)}
        caches = [in_pages(case, cache, table) for cache in caches]
    errors, graphs = {}, {}
    for peer in peers:
        if case.page and not isinstance(peer, Own):
            continue

        def prepare():
            calls = [peer.call(case, q, *cache, **pages) for cache in caches]
            return error(case, first_of(calls[-1]()), want), graph_of(calls)

        if made := usable(f"{peer.name}, {case.name}", prepare):
            errors[peer.name], graphs[peer.name] = made
    seconds = graph_seconds(graphs, copies, a.rounds)
    return {name: (s * 1e6, case.bytes(dtype) / s * 1e-9, errors[name]) for name, s in seconds.items()}


def copy_rate(device: str) -> float:
    """GB/s, read and written."""
    x = torch.empty(1 << 30, dtype=torch.uint8, device=device)
    y = torch.empty_like(x)
    return 2e-9 * x.nbytes / median_seconds({"copy": lambda: y.copy_(x)}, device, 5)["copy"]


def compile_artifacts(a) -> None:
    a.compile.mkdir(parents=True, exist_ok=True)
    for name, layout in (("dense", []), ("paged", ["--layout", "T=paged"])):
        options = ["--target", "cuda", "--dtype", a.dtype, "--width", "D=128", "--no-grad", *layout]
        options += ["--arch", a.arch] if a.arch else []
        options += ["--shape", a.shape] if a.shape else []
        subprocess.run([os.environ.get("AULEC", "aulec"), SCRIPTS / "full.attn", "-o", a.compile / f"{name}.so", *options], check=True)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("device", "cuda"), ("dtype", "bf16"), ("filter", ""), ("peers", "sdpa,cudnn,fa2"), ("pages", "16,64,128"), ("artifacts", ""),
                          ("marker", "decode"), ("arch", ""), ("shape", "")):
        p.add_argument(f"--{name}", default=default)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--write", type=Path)
    p.add_argument("--compile", type=Path)
    a = p.parse_args()
    if a.compile:
        return compile_artifacts(a)
    folders = [Path(f) for f in a.artifacts.split(",") if f] or [None]
    peers = [Own(f, "aule" if n == 0 else f"aule {f.name}") for n, f in enumerate(folders)]
    peers += [x for x in (usable(name, PEERS[name]) for name in a.peers.split(",") if name) if x]
    names = [x.name for x in peers]
    cases = DENSE + [Decode(c.B, c.T, page=int(page)) for c in PAGED for page in a.pages.split(",") if page]
    lines = [f"| case | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for case in cases:
        if a.filter not in case.name:
            continue
        found = row(case, peers, a)
        cells = [f"{r[0]:.3g} us, {r[1]:.0f} GB/s, {r[2]:.0e}" if (r := found.get(n)) else "" for n in names]
        lines.append(f"| {case.name} | {' | '.join(cells)} |")
        note(lines[-1])
        torch.cuda.empty_cache()
    text = f"{machine(a.device)}. {a.dtype}, width 128. Copy: {copy_rate(a.device):.0f} GB/s. Median times, largest error against float64.\n\n" + "\n".join(lines)
    print(text)
    if a.write:
        write_between(a.write, a.marker, text)


if __name__ == "__main__":
    main()
