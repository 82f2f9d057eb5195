"""Measures packed (varlen) attention, sequences of any lengths one after the other, beside torch's, in one process.

    python bench/varlen.py [--pass backward] [--dtype bf16] [--filter WORD] [--peers fa3] [--rounds N] [--artifacts DIR] [--write docs/performance.md --marker varlen]
    python bench/varlen.py [--pass backward] --compile DIR [--arch sm_90]
    python bench/varlen.py [--pass backward] --check [--device cuda] [--artifacts DIR]

A call is a CUDA graph of its own. Peers: torch's FlashAttention-2 for packed rows, a call of cuDNN, or of ours, for each sequence, and, forward, FlashAttention-3
(bench/serving_peers.py; `missing` where it is not). Errors are
against float64, of all rows, over the largest value. --check: batches of hard lengths, also fewer queries than keys, NaN in rows of no sequence,
against float64, and to the bit against dense calls of ours where those have the same kernels. --compile writes the artifacts for a machine
without the compiler, where --artifacts names the folder. With --pass backward it is gradients, of which artifacts are made with them, too:
backward alone is timed, 2.5 times the work of forward (varlen_gradients.py).
"""

from __future__ import annotations

import argparse
import inspect
from dataclasses import dataclass
from pathlib import Path

import torch
import varlen_gradients
from bench import TYPES, Row, compile_artifact, note, peers_of, tell
from measure import first_of, graph_of, graph_seconds
from peers import SCRIPTS, Missing

WIDTH, SAME_KERNELS = 128, 65  # queries from which on dense calls have the kernel of packed rows


@dataclass(frozen=True)
class Varlen:
    name: str
    lengths: tuple
    H: int = 32
    Hk: int = 8


def random_lengths(count: int, most: int, seed: int = 5) -> tuple:
    g = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(1, most + 1, (count,), generator=g).tolist())


CASES = [Varlen("64 of 1 to 2048", random_lengths(64, 2048)), Varlen("24 of 1 to 2730", random_lengths(24, 2730)), Varlen("64 x 512", (512,) * 64),
         Varlen("8 x 4096", (4096,) * 8)]


def starts_of(lengths, device: str) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(device, torch.int32)


def by_heads(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, 1)[None]


def exact(q, k, v, script: str, window: int) -> torch.Tensor:
    """Of one sequence: q [S, H, D], k and v [T, Hk, D]."""
    S, T, group = q.shape[0], k.shape[0], q.shape[1] // k.shape[1]
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, 0) for x in (k, v))
    i, j = torch.arange(S, device=q.device)[:, None] + T - S, torch.arange(T, device=q.device)[None]
    seen = torch.ones(S, T, dtype=torch.bool, device=q.device) if script == "full" else (j <= i) & (i - j < (window if script == "window" else T + S))
    none = ~seen.any(1, keepdim=True)  # rows without a pair, whose output and gradients are 0
    scores = (q @ k.transpose(1, 2) * q.shape[2] ** -0.5).masked_fill(~seen, -torch.inf).masked_fill(none, 0.0)
    return (torch.softmax(scores, -1).masked_fill(none, 0.0) @ v).transpose(0, 1)


def causal(q, k, v) -> torch.Tensor:
    return exact(q, k, v, "causal", 0)


def pieces(x: torch.Tensor, starts: list):
    return [x[begin:end] for begin, end in zip(starts, starts[1:])]


def error(o, q, k, v, at: list, keys: list, script: str = "causal", window: int = 0) -> float:
    worst = largest = 0.0
    for got, *of in zip(pieces(o, at), pieces(q, at), pieces(k, keys), pieces(v, keys)):
        if len(of[0]) and len(of[1]):
            want = exact(*of, script, window)
            off = (got.double() - want).abs().max().item()
            worst, largest = max(worst, off if off == off else float("inf")), max(largest, want.abs().max().item())
        elif got.any():
            return float("inf")
    return worst / max(largest, 1e-3)


LAYOUTS = {"packed": "S=packed,T=packed", "padded": "T=padded", "over_pages": "S=packed,T=paged"}


class Own:
    """Functions of scripts in [layouts], by the name that the artifact of one has, too; compiled, or loaded from a folder."""

    def __init__(self, folder: str, layouts: dict = LAYOUTS) -> None:
        import aule

        self.aule, self.folder, self.layouts, self.made = aule, folder, layouts, {}

    def is_grouped(self, script: str, layout: str) -> bool:
        """Has the artifact kernels of groups of warps, beside which pages are other kernels? Of one that is not compiled here."""
        return bool(self.folder) and b"group_forward" in self.artifact(script, layout).read_bytes()

    def artifact(self, script: str, layout: str) -> Path:
        return Path(self.folder) / f"{script}_{layout or 'dense'}.so"

    def function(self, script: str, layout: str = "", invariant: bool = False):
        key = script, layout, invariant
        if key not in self.made:
            how = {"layout": self.layouts[layout]} if layout else {}
            self.made[key] = self.aule.load(self.artifact(script, layout), invariant=invariant) if self.folder else self.aule.compile(SCRIPTS / f"{script}.attn", invariant=invariant, **how)
        return self.made[key]


def in_pages(k, v, keys: list, page: int):
    """Rows in pages drawn at random, NaN in slots of no sequence, wild entries behind each line of the table."""
    lengths = [b - a for a, b in zip(keys, keys[1:])]
    entries = -(-max(lengths) // page) + 2
    count = len(lengths) * entries + 3
    g = torch.Generator().manual_seed(1)
    table = torch.randperm(count, generator=g)[: len(lengths) * entries].view(len(lengths), entries)
    places = torch.cat([table[b, torch.arange(n) // page] * page + torch.arange(n) % page for b, n in enumerate(lengths)]).to(k.device)
    pools = []
    for x in (k, v):
        pool = torch.full((count * page, *x.shape[1:]), float("nan"), device=x.device, dtype=x.dtype)
        pool[places] = x[: keys[-1]]
        pools.append(pool.view(count, page, *x.shape[1:]).transpose(1, 2))
    for b, n in enumerate(lengths):
        table[b, -(-n // page) :] = (-1, 2**31 - 1, -(2**31))[b % 3] if k.device.type != "cpu" else -1
    return pools, {name: torch.as_tensor(x).to(k.device, torch.int32) for name, x in (("T_table", table), ("T_lengths", lengths))}


def torch_varlen(q, k, v, starts, lengths):
    """torch.nn.attention.varlen, whose options differ by version."""
    from torch.nn.attention.varlen import varlen_attn

    names = inspect.signature(varlen_attn).parameters
    how = {"is_causal": True} if "is_causal" in names else {"window_size": (-1, 0)}
    most = max(lengths)
    if "enable_gqa" in names:
        how["enable_gqa"] = True
    elif q.shape[1] != k.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    return lambda: first_of(varlen_attn(q, k, v, starts, starts, most, most, **how))


def one_by_one(q, k, v, at: list, call):
    """A call for each sequence; outputs side by side, as packed ones are."""
    o = torch.empty_like(q)
    of = [tuple(by_heads(x) for x in rows) for rows in zip(pieces(q, at), pieces(k, at), pieces(v, at), pieces(o, at)) if len(rows[0])]

    def run():
        for a, b, c, d in of:
            call(a, b, c, d)
        return o

    return run


def cudnn(q, k, v, o):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        o.copy_(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))


def calls_of(case: Varlen, own: Own, peers: list, q, k, v, starts) -> dict:
    at = starts.tolist()
    packed, pages = own.function("causal", "packed"), own.function("causal", "over_pages")

    def over(page: int):
        pools, given = in_pages(k, v, at, page)
        return lambda: by_rows(pages(by_heads(q), *pools, S_starts=starts, **given))

    dense = own.function("causal")
    return {
        "aule": lambda: (lambda: by_rows(packed(by_heads(q), by_heads(k), by_heads(v), S_starts=starts, T_starts=starts))),
        "pages of 1": lambda: over(1),
        "pages of 16": lambda: over(16),
        "pages of 128": lambda: over(128),
        "aule, a call each": lambda: one_by_one(q, k, v, at, lambda a, b, c, d: dense(a, b, c, out=d)),
        "FA2 varlen": lambda: torch_varlen(q, k, v, starts, case.lengths),
        "cuDNN, a call each": lambda: one_by_one(q, k, v, at, cudnn),
        **{p.name: None if isinstance(p, Missing) else (lambda p=p: p.packed(q, k, v, starts, max(case.lengths))) for p in peers},
    }


def by_rows(o):
    return first_of(o)[0].transpose(0, 1)


def row(case: Varlen, own: Own, peers: list, a) -> dict:
    torch.manual_seed(1)
    dtype, total = TYPES[a.dtype], sum(case.lengths)
    q, k, v = (torch.randn(total, h, WIDTH, device=a.device).to(dtype) for h in (case.H, case.Hk, case.Hk))
    starts = starts_of(case.lengths, a.device)
    made, kept = Row(case.name), []
    for name, prepare in calls_of(case, own, peers, q, k, v, starts).items():

        def measured():
            run = prepare()
            kept.append(run)  # and with it the tensors that the graph reads
            return error(run(), q, k, v, starts.tolist(), starts.tolist()), graph_of([run], a.device)

        if prepare:
            made.add(name, measured)
        else:
            made.say(name, "missing")
    work = sum(4 * WIDTH * case.H * n * (n + 1) / 2 for n in case.lengths)
    return made.found(graph_seconds(made.graphs, 1, a.rounds, a.device), lambda s, off: (s * 1e6, work / s * 1e-12, off))


# Queries and keys: none, one, borders of tiles, fewer and more queries than keys, one long one.
HARD = ((0, 0), (1, 1), (130, 70), (0, 9), (7, 0), (127, 127), (128, 128), (129, 129), (1, 200), (300, 300), (15, 16), (1, 1), (64, 500), (700, 700), (0, 0))


def batches():
    yield HARD
    yield ((1, 1),) * 40 + ((1000, 1000),) + ((1, 1),) * 40
    yield ((0, 0),) * 3
    yield ((257, 257),)
    g = torch.Generator().manual_seed(3)
    for _ in range(6):
        lengths = torch.randint(0, 400, (int(torch.randint(1, 30, (1,), generator=g)), 2), generator=g).tolist()
        yield tuple((min(s, t), t) for s, t in lengths)


def check(a) -> int:
    own, failed, worst, compared = Own(a.artifacts), 0, 0.0, 0
    for script in ("full", "causal", "window"):
        params = {"window": 37} if script == "window" else {}
        f, dense, padded = own.function(script, "packed"), own.function(script), own.function(script, "padded")
        alike = not own.is_grouped(script, "packed")
        for n, batch in enumerate(batches()):
            for H, Hk in ((32, 8), (7, 1), (3, 3)):
                torch.manual_seed(n)
                at, keys = ([0, *torch.tensor([p[m] for p in batch]).cumsum(0).tolist()] for m in (0, 1))
                q, k, v = (torch.randn(end + 5, h, WIDTH, device=a.device).to(TYPES[a.dtype]) for end, h in ((at[-1], H), (keys[-1], Hk), (keys[-1], Hk)))
                for x, end in ((q, at[-1]), (k, keys[-1]), (v, keys[-1])):
                    x[end:] = float("nan")
                lists = {name: torch.tensor(x, dtype=torch.int32, device=a.device) for name, x in (("S_starts", at), ("T_starts", keys))}
                o = by_rows(f(by_heads(q), by_heads(k), by_heads(v), **lists, **params))
                off = error(o, q, k, v, at, keys, script, 37)
                if o[at[-1] :].any():
                    off = float("inf")
                if keys[-1]:
                    page = (16, 48, 7, 128)[n % 4]
                    pools, given = in_pages(k, v, keys, page)
                    over = by_rows(own.function(script, "over_pages")(by_heads(q), *pools, S_starts=lists["S_starts"], **given, **params))
                    off = max(off, error(over, q, k, v, at, keys, script, 37))
                    compared += alike
                    if alike and page % 16 == 0 and not torch.equal(over, o):
                        note(f"{script}, batch {n}, {H}/{Hk} heads: pages of {page} make other bits")
                        failed += 1
                for b, (S, T) in enumerate(batch):
                    if S < SAME_KERNELS or not T:
                        continue
                    one = [by_heads(x[s[b] : s[b + 1]]) for x, s in ((q, at), (k, keys), (v, keys))]
                    room = [torch.cat([x, torch.full_like(x, float("nan"))], 2) for x in one[1:]]
                    most = torch.tensor([T], dtype=torch.int32, device=a.device)
                    for other in (dense(*one, **params), padded(one[0], *room, T_lengths=most, **params)):
                        compared += 1
                        if not torch.equal(by_rows(other), o[at[b] : at[b + 1]]):
                            note(f"{script}, batch {n}, {H}/{Hk} heads: sequence {b}, {S} queries of {T} keys, is not what a call of it makes")
                            failed += 1
                worst = max(worst, off)
                if off > 2e-2:
                    note(f"{script}, batch {n}, {H}/{Hk} heads: error {off:.1e}")
                    failed += 1
    for wrong in ([7, 3, -9, 2**31 - 1], [-(2**31), 100, 50, 10**6], [0, 0, 0, 0]):
        if a.device == "cpu":
            break  # where they are refused
        starts = torch.tensor(wrong, dtype=torch.int32, device=a.device)
        q, k, v = (torch.randn(1, h, 200, WIDTH, device=a.device).to(TYPES[a.dtype]) for h in (4, 2, 2))
        if not torch.isfinite(first_of(own.function("causal", "packed")(q, k, v, S_starts=starts, T_starts=starts.flip(0)))).all():
            note(f"starts {wrong}: results that are not finite")
            failed += 1
    print(f"packed rows, {a.dtype}: largest error {worst:.1e} of the largest value, against float64; {compared} sequences to the bit; {failed} failed")
    return failed


def compile_artifacts(a) -> None:
    for script in ("full", "causal", "window"):
        for layout in ("", *LAYOUTS):
            how = ["--layout", LAYOUTS[layout]] if layout else []
            out = a.compile / f"{script}_{layout or 'dense'}.so"
            if a.which == "backward" and layout == "over_pages":
                continue  # which have no gradients
            if a.which != "backward":
                how.append("--no-grad")
            compile_artifact(SCRIPTS / f"{script}.attn", out, a.target, a.arch, a.dtype, [f"D={WIDTH}"], *how)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("device", "cuda"), ("dtype", "bf16"), ("filter", ""), ("peers", "fa3"), ("artifacts", ""), ("marker", "varlen"), ("arch", ""), ("target", "cuda")):
        p.add_argument(f"--{name}", default=default)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--write", type=Path)
    p.add_argument("--compile", type=Path)
    p.add_argument("--check", action="store_true")
    p.add_argument("--pass", dest="which", choices=("forward", "backward"), default="forward")
    a = p.parse_args()
    backward = a.which == "backward"
    if a.compile:
        compile_artifacts(a)
        return 0
    own, names, lines = Own(a.artifacts), [], []
    peers = [] if a.check or backward else [p for p in peers_of(a.peers) if isinstance(p, Missing) or hasattr(p, "packed")]
    if a.check:
        return 1 if (varlen_gradients.check(own, a, WIDTH, batches, exact) if backward else check(a)) else 0
    for case in CASES:
        if a.filter not in case.name:
            continue
        found = varlen_gradients.row(case, own, a, WIDTH, causal, torch_varlen) if backward else row(case, own, peers, a)
        names = names or list(found)
        cells = [f"{r[0]:.0f} us, {r[1]:.0f} TFLOP/s, {r[2]:.0e}" if isinstance(r := found.get(n), tuple) else r or "" for n in names]
        lines.append(f"| {case.name}, {sum(case.lengths)} tokens | {' | '.join(cells)} |")
        note(lines[-1])
    head = [f"| sequences | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    tell(a, f"{a.dtype}, width {WIDTH}, 32 heads of 8, causal, {a.which}. Median times, errors against float64.", head + lines)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
