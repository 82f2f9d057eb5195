"""Measures steps of a server, packed queries over keys in pages: rows that decode beside chunks of prefills, in one call, beside what other calls take for it.

    python bench/mixed.py [--dtype bf16] [--filter WORD] [--peers fa3,flashinfer,flashinfer-fa3] [--rounds N] [--artifacts DIR] [--write docs/performance.md --marker mixed]
    python bench/mixed.py --compile DIR [--arch sm_90]
    python bench/mixed.py --check [--device cuda] [--artifacts DIR]

Pages of 16 in an order drawn at random, 32 heads of 8, width 128, causal; a call is a CUDA graph of its own. "one call" says how many queries a sequence
has at most (S=packed:most), "given lists" likewise, its lists of work made before; "without" does not, and has the kernel for any number; "two calls" are T=paged for the sequences of one query and packed queries
for the rest; "invariant" is one call whose results do not depend on the batch. Peers have one call, whose lists and plans are made before (bench/serving_peers.py; `missing` where they are not). Errors are against float64, of all rows of one query and the last ones of
chunks, over the largest value. --check: batches of hard lengths, few queries alone and beside many, over pages and packed keys, NaN in rows and slots of none,
against float64; wrong starts; replays of one graph over changing batches, to the bit as calls; results that do not depend on the batch, to the bit.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from bench import TYPES, Row, compile_artifact, note, peers_of, tell
from measure import graph_of, graph_seconds
from peers import SCRIPTS, Missing
from serving_peers import Batch
from varlen import WIDTH, Own, by_heads, by_rows, error, in_pages, starts_of

LAYOUTS = {"most": "S=packed:most,T=paged", "any": "S=packed,T=paged", "dense": "T=paged", "keys": "S=packed:most,T=packed"}
LAST = 64  # queries of a sequence that are compared


@dataclass(frozen=True)
class Step:
    name: str
    pairs: tuple  # queries and keys of each sequence
    H: int = 32
    Hk: int = 8


CASES = [
    Step("63 rows over 4096 and a chunk of 2048 over 8192", ((1, 4096),) * 63 + ((2048, 8192),)),
    Step("63 rows over 4096 and a chunk of 256 over 4096", ((1, 4096),) * 63 + ((256, 4096),)),
    Step("63 rows over 68 to 23600 and a chunk of 256 over 4096", (*((1, int(64 * 1.1 ** n) + 4) for n in range(63)), (256, 4096))),
    Step("64 rows over 4096", ((1, 4096),) * 64),
    Step("64 x 4 rows over 4096", ((4, 4096),) * 64),
    Step("8 rows over 32768", ((1, 32768),) * 8),
    Step("200 rows over 1024 and 4 chunks of 512 over 1024", ((1, 1024),) * 200 + ((512, 1024),) * 4),
]


def rows_of(step: Step, a, behind: int = 0):
    """q, k, v [rows, heads, width], NaN behind the last sequence, and where sequences begin."""
    torch.manual_seed(1)
    at, keys = (starts_of([p[n] for p in step.pairs], a.device) for n in (0, 1))
    made = []
    for starts, heads in ((at, step.H), (keys, step.Hk), (keys, step.Hk)):
        x = torch.randn(int(starts[-1]) + behind, heads, WIDTH, device=a.device).to(TYPES[a.dtype])
        x[int(starts[-1]) :] = float("nan")
        made.append(x)
    return *made, at, keys


def last_error(o, q, k, v, step: Step, at, keys, script: str = "causal", window: int = 0) -> float:
    """Of the last rows of each sequence."""
    worst = 0.0
    for b, (S, T) in enumerate(step.pairs):
        if S:
            first, end = max(int(at[b]), int(at[b + 1]) - LAST), int(at[b + 1])
            one = (x[int(keys[b]) : int(keys[b + 1])] for x in (k, v))
            # Of none of its keys a full row sees nothing, too
            worst = max(worst, error(o[first:end], q[first:end], *one, [0, end - first], [0, T], script, window))
    return worst


PAGE = 16


def calls_of(step: Step, own: Own, peers: list, q, k, v, at, keys) -> dict:
    """What makes each column's call; None: the peer is missing."""
    pools, given = in_pages(k, v, keys.tolist(), PAGE)
    pools = [x.nan_to_num() for x in pools]  # FlashAttention-3 multiplies weights of 0 with what slots of no sequence hold
    most, ones = max(p[0] for p in step.pairs), sum(p[0] == 1 for p in step.pairs)
    head = by_heads(q)

    def call(layout: str, invariant: bool = False, **more):
        f = own.function("causal", layout, invariant)
        return lambda: by_rows(f(head, *pools, S_starts=at, **given, **more))

    def two():
        o = torch.empty_like(q)
        rows, rest = own.function("causal", "dense"), own.function("causal", "any")
        first, then = ({name: x[part].contiguous() for name, x in given.items()} for part in (slice(0, ones), slice(ones, None)))
        starts = at[ones:] - ones

        def run():
            if ones:
                rows(q[:ones, :, None], *pools, out=o[:ones, :, None], **first)
            if ones < len(step.pairs):
                rest(by_heads(q[ones:]), *pools, S_starts=starts, out=by_heads(o[ones:]), **then)
            return o

        return run

    def given_lists():
        f = own.function("causal", "most")
        work = f.schedule(head, *pools, S_starts=at, **given, S_most=most)
        return call("most", S_most=most, schedule=work)

    batch = Batch(q, at, given["T_table"], given["T_lengths"], PAGE, step.Hk, True)
    return {
        "one call": lambda: call("most", S_most=most), "given lists": given_lists, "without": lambda: call("any"), "two calls": two,
        "invariant": lambda: call("most", True, S_most=most), **{p.name: None if isinstance(p, Missing) else (lambda p=p: p.over_pages(batch)(*pools)) for p in peers},
    }


def row(step: Step, own: Own, peers: list, a) -> dict:
    q, k, v, at, keys = rows_of(step, a)
    made, kept = Row(step.name), []
    for name, prepare in calls_of(step, own, peers, q, k, v, at, keys).items():

        def measured():
            kept.append(prepare())
            return last_error(kept[-1](), q, k, v, step, at, keys), graph_of(kept[-1:], a.device)

        if prepare:
            made.add(name, measured)
        else:
            made.say(name, "missing")
    read = sum(p[1] for p in step.pairs) * step.Hk * WIDTH * 2 * q.element_size()
    return made.found(graph_seconds(made.graphs, 1, a.rounds, a.device), lambda s, off: (s * 1e6, read / s * 1e-9, off))


HARD = ((1, 70), (0, 9), (3, 300), (0, 0), (2, 2), (130, 400), (1, 1), (8, 17), (9, 96), (33, 33), (1, 2600), (16, 1025), (17, 1023), (32, 64), (0, 5), (300, 300))
FEW = ((1, 70), (0, 9), (3, 300), (0, 0), (2, 2), (1, 1), (4, 1025), (4, 4), (1, 4000), (2, 15), (0, 3))


def batches():
    yield FEW
    yield HARD
    yield ((1, 333),) * 70 + ((500, 700),)
    yield ((0, 4),) * 3
    g = torch.Generator().manual_seed(4)
    for most in (1, 4, 60):
        lengths = torch.randint(0, 500, (40, 2), generator=g).tolist()
        yield tuple((min(s % (most + 1), t), t) for s, t in lengths)


def check_values(own: Own, a) -> int:
    failed, worst = 0, 0.0
    for script in ("full", "causal", "window"):
        params = {"window": 37} if script == "window" else {}
        for n, batch in enumerate(batches()):
            for H, Hk in ((32, 8), (7, 1), (3, 3), (16, 2)):
                step = Step(f"{script}, batch {n}, {H}/{Hk} heads", batch, H, Hk)
                q, k, v, at, keys = rows_of(step, a, 5)
                most = max(p[0] for p in batch)
                pools, given = in_pages(k, v, keys.tolist(), (16, 48, 128)[n % 3])
                made = {"pages": own.function(script, "most")(by_heads(q), *pools, S_starts=at, S_most=most, **given, **params)}
                made["packed keys"] = own.function(script, "keys")(by_heads(q), by_heads(k), by_heads(v), S_starts=at, T_starts=keys, S_most=most, **params)
                for what, o in made.items():
                    o = by_rows(o)
                    off = max(last_error(o, q, k, v, step, at, keys, script, 37), float("inf") if o[int(at[-1]) :].any() else 0.0)
                    worst = max(worst, off)
                    if off > 2e-2:
                        note(f"{step.name}, {what}: error {off:.1e}")
                        failed += 1
    print(f"few rows and many, {a.dtype}: largest error {worst:.1e} of the largest value, against float64; {failed} failed")
    return failed


def check_wrong(own: Own, a) -> int:
    """Starts that are wrong, and sequences with more rows than the call says: results are finite."""
    failed = 0
    for wrong in ([0, 3, -9, 2**31 - 1], [-(2**31), 100, 50, 10**6], [0, 0, 0, 0], [0, 90, 91, 180]):
        for most in (1, 4, 1000):
            starts = torch.tensor(wrong, dtype=torch.int32, device=a.device)
            q, k, v = (torch.randn(1, h, 200, WIDTH, device=a.device).to(TYPES[a.dtype]) for h in (8, 2, 2))
            o = torch.zeros_like(q)
            own.function("causal", "keys")(q, k, v, S_starts=starts, T_starts=starts.flip(0), S_most=most, out=o)
            if not torch.isfinite(o).all():
                note(f"starts {wrong}, at most {most}: results that are not finite")
                failed += 1
            failed += check_wrong_pages(own, a, starts, most)
    return failed


def check_wrong_pages(own: Own, a, starts, most: int) -> int:
    """Tables and lengths that are wrong: all rows are of some page."""
    g = torch.Generator().manual_seed(most)
    q = torch.randn(1, 8, 200, WIDTH, device=a.device).to(TYPES[a.dtype])
    pools = [torch.randn(20, 2, 16, WIDTH, device=a.device).to(TYPES[a.dtype]) for _ in "kv"]
    table = torch.randint(-30, 50, (3, 12), generator=g, dtype=torch.int32)
    table[0, :2] = torch.tensor([-(2**31), 2**31 - 1])
    lengths = torch.tensor([-5, 2**31 - 1, 177], dtype=torch.int32)
    o = torch.zeros_like(q)
    own.function("causal", "most")(q, *pools, S_starts=starts, T_table=table.to(a.device), T_lengths=lengths.to(a.device), S_most=most, out=o)
    if torch.isfinite(o).all():
        return 0
    note(f"starts {starts.tolist()}, at most {most}, a wrong table: results that are not finite")
    return 1


def check_graphs(own: Own, a) -> int:
    """One graph for few and one for few and many, replayed over batches from empty to full."""
    failed, rows, B, most_keys = 0, 600, 24, 700
    f, g = own.function("causal", "most"), torch.Generator().manual_seed(9)
    q = torch.randn(1, 8, rows, WIDTH, device=a.device).to(TYPES[a.dtype])
    k, v = (torch.randn(B * 44, 2, 16, WIDTH, device=a.device).to(TYPES[a.dtype]) for _ in "kv")
    table = torch.randperm(B * 44, generator=g).view(B, 44).to(a.device, torch.int32)
    for most in (4, 300):
        starts, lengths = (torch.zeros(n, dtype=torch.int32, device=a.device) for n in (B + 1, B))
        call = lambda: by_rows(f(q, k, v, S_starts=starts, T_table=table, T_lengths=lengths, S_most=most))  # noqa: E731
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o = call()
        for turn in range(60):
            counts = torch.randint(0, most + 1 if most < 10 or turn % 3 == 0 else 3, (B,), generator=g)
            counts *= torch.rand(B, generator=g) < turn / 60
            ends = counts.cumsum(0).clamp(max=rows)
            starts.copy_(torch.cat([torch.zeros(1), ends]).int())
            lengths.copy_((torch.randint(0, most_keys, (B,), generator=g) * (torch.rand(B, generator=g) < 0.9)).int())
            graph.replay()
            if not torch.equal(o, call()):
                note(f"replay {turn} of at most {most} rows is not what a call makes")
                failed += 1
    print(f"graphs: 120 replays, {failed} failed")
    return failed


def check_invariant(own: Own, a) -> int:
    """The bits of a sequence in three batches, one of which says nothing of numbers of rows."""
    failed, step = 0, Step("invariant", HARD)
    q, k, v, at, keys = rows_of(step, a)
    f = own.function("causal", "most", True)

    def call(which, **more):
        of = [(slice(int(at[b]), int(at[b + 1])), slice(int(keys[b]), int(keys[b + 1]))) for b in which]
        starts, places = (starts_of([HARD[b][n] for b in which], a.device) for n in (0, 1))
        pools, given = in_pages(*(torch.cat([x[rows] for _, rows in of]) for x in (k, v)), places.tolist(), 16)
        o = by_rows(f(by_heads(torch.cat([q[rows] for rows, _ in of])), *pools, S_starts=starts, **given, **more))
        return [o[int(starts[n]) : int(starts[n + 1])] for n in range(len(which))]

    everything = list(range(len(HARD)))
    want = call(everything)
    for which, more in (([0, 10, 4], {"S_most": 2}), (everything[::-1], {"S_most": 300}), ([5, 0, 8], {}), ([10] * 70 + [15], {"S_most": 512}), ([8], {"S_most": 16})):
        for got, b in zip(call(which, **more), which):
            if not torch.equal(got, want[b]):
                note(f"invariant: {HARD[b][0]} queries of {HARD[b][1]} keys have other bits among {len(which)}")
                failed += 1
    print(f"results that do not depend on the batch: {failed} failed")
    return failed


def compile_artifacts(a) -> None:
    for script in ("full", "causal", "window"):
        for layout, text in LAYOUTS.items():
            compile_artifact(SCRIPTS / f"{script}.attn", a.compile / f"{script}_{layout}.so", a.target, a.arch, a.dtype, [f"D={WIDTH}"], "--layout", text, "--no-grad", "--invariant")


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("device", "cuda"), ("dtype", "bf16"), ("filter", ""), ("peers", "fa3,flashinfer,flashinfer-fa3"), ("artifacts", ""), ("marker", "mixed"), ("arch", ""), ("target", "cuda")):
        p.add_argument(f"--{name}", default=default)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--write", type=Path)
    p.add_argument("--compile", type=Path)
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    if a.compile:
        compile_artifacts(a)
        return 0
    own = Own(a.artifacts, LAYOUTS)
    if a.check:
        checks = [check_values] if a.device == "cpu" else [check_values, check_wrong, check_graphs, check_invariant]
        return 1 if sum(test(own, a) for test in checks) else 0
    names, lines, peers = [], [], [p for p in peers_of(a.peers) if isinstance(p, Missing) or hasattr(p, "over_pages")]
    for step in CASES:
        if a.filter not in step.name:
            continue
        found = row(step, own, peers, a)
        names = names or list(found)
        cells = [f"{r[0]:.0f} us, {r[1]:.0f} GB/s, {r[2]:.0e}" if isinstance(r := found.get(n), tuple) else r or "" for n in names]
        lines.append(f"| {step.name} | {' | '.join(cells)} |")
        note(lines[-1])
    head = [f"| step | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    tell(a, f"{a.dtype}, width {WIDTH}, 32 heads of 8, causal, pages of 16. Median times, keys and values read a second, errors against float64.", head + lines)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
