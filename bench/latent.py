"""Measures latent attention (attn_scripts/mla_decode.attn: keys of 576 channels of which 512 are the value, one for all heads) of a few queries over
caches in pages, beside two products of torch's over the same keys as rows and libraries that serve (bench/serving_peers.py; `missing` where they are not), in one process.

    python bench/latent.py [--device cuda] [--dtype bf16] [--filter WORD] [--peers fa3,flashmla,flashinfer,products] [--page 64] [--rounds N] [--artifacts A.so,B.so..] [--write docs/performance.md --marker latent]

Each call of a turn has a cache of its own, so many that the far cache of the device does not hold them; the calls of a turn are one CUDA graph.
TFLOP/s count the products of pairs (2 * (576 + 512) operations each), GB/s the keys, read once. Errors are against float64, of the last sequence, over
the largest value. --artifacts: instead of the compiler's choice, of `aulec attn_scripts/mla_decode.attn --layout T=paged --shape "warps_wide: warps=8 rows=64 keys=32 stages=2" ..`, say.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from bench import TYPES, Row, note, peers_of, tell
from decode import copy_rate, in_pages
from measure import FAR, graph_of, graph_seconds
from peers import Missing
from serving_peers import Batch

E = 512
SCRIPT = Path(__file__).resolve().parent.parent / "attn_scripts/mla_decode.attn"


@dataclass(frozen=True)
class Latent:
    B: int
    T: int
    H: int = 128
    S: int = 1
    page: int = 64
    Hk, D = 1, 576

    @property
    def name(self) -> str:
        return f"B {self.B}, {self.H} heads, S {self.S}, T {self.T}"


CASES = [Latent(64, 8192), Latent(64, 32768), Latent(8, 8192), Latent(8, 8192, S=2), Latent(1, 8192), Latent(64, 8192, H=16), Latent(8, 8192, H=16), Latent(8, 8192, H=16, S=2), Latent(1, 8192, H=16),
         Latent(64, 1024, H=32), Latent(4, 8192, S=256)]


def exact(case: Latent, q, rows):
    """The last sequence in float64: o [H, S, E]."""
    scores = q[-1].double() @ rows[-1].double().T * 192**-0.5
    i, j = torch.arange(case.S, device=q.device)[:, None] + case.T - case.S, torch.arange(case.T, device=q.device)
    return torch.softmax(scores.masked_fill(j > i, -torch.inf), -1) @ rows[-1, :, :E].double()


def products(q, rows):
    """torch's two products, of one query, from which nothing is hidden."""
    return torch.softmax(torch.einsum("bhsd,btd->bhst", q, rows) * 192**-0.5, -1, dtype=torch.float32).to(q.dtype) @ rows[:, None, :, :E]


class Own:
    """aule's artifact; [lists]: which is given its lists, made once for a step, as peers' plans are."""

    def __init__(self, name: str, function, lists: bool = False) -> None:
        self.name, self.function, self.lists = f"{name}, lists given" if lists else name, function, lists

    def calls(self, case: Latent, batch: Batch, q, caches, pools) -> list:
        given = {"T_table": batch.table, "T_lengths": batch.lengths}
        work = {"schedule": self.function.schedule(q, pools[0], **given)} if self.lists else {}
        return [lambda x=x: self.function(q, x, **given, **work) for x in pools]


class Products:
    name = "two products"

    def calls(self, case: Latent, batch: Batch, q, caches, pools) -> list | None:
        return None if case.S > 1 else [lambda x=x: products(q, x) for x in caches]


class Other:
    """A peer with `latent(batch, scale)`, a call of it for each pool."""

    def __init__(self, peer) -> None:
        self.name, self.peer = peer.name, peer

    def calls(self, case: Latent, batch: Batch, q, caches, pools) -> list | None:
        plan = None if isinstance(self.peer, Missing) else self.peer.latent(batch, 192**-0.5)
        return plan and [lambda run=plan(x): batch.by_heads(run()) for x in pools]


def row(case: Latent, columns: list, a) -> dict:
    torch.manual_seed(1)
    dtype, entries = TYPES[a.dtype], case.T // case.page
    copies = max(2, min(64, -(-FAR // (2 * case.B * case.T * case.D))))
    q = torch.randn(case.B, case.H, case.S, case.D, device=a.device).to(dtype)
    caches = [torch.randn(case.B, case.T, case.D, device=a.device).to(dtype) for _ in range(copies)]
    table = torch.randperm(case.B * entries, device=a.device).to(torch.int32).view(case.B, entries)
    batch = Batch.of_rows(q, table, torch.full((case.B,), case.T, device=a.device, dtype=torch.int32), case.page, 1, True)
    pools, want, made, kept = in_pages(case, caches, table), exact(case, q, caches[-1]), Row(case.name), []
    for column in columns:

        def prepare():
            calls = column.calls(case, batch, q, caches, pools)
            kept.append(calls)
            if not calls:
                return None
            o = calls[-1]()[-1].double()
            return ((o - want).abs().max() / want.abs().max()).item(), graph_of(calls, a.device)

        made.add(column.name, prepare)
        if isinstance(getattr(column, "peer", None), Missing):
            made.say(column.name, "missing")
    work, read = 2 * case.B * case.H * case.S * case.T * (case.D + E), 2 * case.B * case.T * case.D
    seconds = graph_seconds(made.graphs, copies, a.rounds, a.device)
    return made.found(seconds, lambda s, off: f"{s * 1e6:.3g} us, {work / s * 1e-12:.0f} TFLOP/s, {read / s * 1e-9:.0f} GB/s, {off:.0e}")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("device", "cuda"), ("dtype", "bf16"), ("filter", ""), ("peers", "fa3,flashmla,flashinfer,products"), ("artifacts", ""), ("marker", "latent")):
        p.add_argument(f"--{name}", default=default)
    p.add_argument("--page", type=int, default=64)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--write", type=Path)
    a = p.parse_args()
    import aule

    artifacts = [Path(s) for s in a.artifacts.split(",") if s]
    own = {f"aule {path.stem}" if len(artifacts) > 1 else "aule": aule.load(path) for path in artifacts} or {"aule": aule.compile(SCRIPT, layout="T=paged")}
    asked = [name for name in a.peers.split(",") if name]
    columns = [Own(name, f, lists) for name, f in own.items() for lists in (False, True)] + [Other(p) for p in peers_of(",".join(n for n in asked if n != "products"))] + [Products()] * ("products" in asked)
    lines = [f"| case | {' | '.join(c.name for c in columns)} |", "|---|" + "---|" * len(columns)]
    for case in CASES:
        if a.filter not in case.name:
            continue
        found = row(replace(case, page=a.page), columns, a)
        lines.append(f"| {case.name} | {' | '.join(found.values())} |")
        note(lines[-1])
        torch.cuda.empty_cache()
    tell(a, f"{a.dtype}, pages of {a.page}. Copy: {copy_rate(a.device):.0f} GB/s. Median times, largest error against float64.", lines)


if __name__ == "__main__":
    main()
