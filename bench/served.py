"""Measures what serving calls cost beside the plain one on the same keys, in one process: scripts with a modification, rows that are verified,
new rows that the call adds to the cache, and the host's part of a call from Python.

    python bench/served.py --what scripts|rows|append|host [--device cuda] [--dtype bf16] [--filter WORD] [--artifacts DIR] [--rounds N]
                           [--write docs/performance.md --marker served-scripts]
    python bench/served.py --compile DIR [--arch sm_90]

Caches lie in pages of 16 drawn at random, and each call of a turn has its own, as in bench/decode.py; the calls of a turn are one CUDA graph. Errors are
against float64, of the last sequence's last group of heads, over the largest value. Every script sees all keys. `host` times calls of
which nothing is waited for, until the device has a queue of them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

import torch
from bench import TYPES, compile_artifact, note, tell, usable
from decode import Decode, dense, error, in_pages
from measure import FAR, first_of, graph_of, graph_seconds
from peers import SCRIPTS

PAGE = 16
CASES = [Decode(1, 65536, page=PAGE), Decode(8, 8192, page=PAGE), Decode(64, 1024, page=PAGE), Decode(64, 8192, page=PAGE)]
MODIFIED = ("full", "softcap", "alibi", "window", "sigmoid", "off_by_one")
ROWS = (1, 2, 4, 8)


def slopes(case: Decode, device: str) -> torch.Tensor:
    return 2.0 ** (-8 * torch.arange(1, case.H + 1, device=device, dtype=torch.float32) / case.H)


def inputs(script: str, case: Decode, device: str) -> dict:
    """What a call of the script has beside q, k and v: windows as wide as the sequence, so that it reads what the others read."""
    return {"alibi": {"slope": slopes(case, device)}, "window": {"window": case.T}}.get(script, {})


def weights(script: str, case: Decode, scores: torch.Tensor) -> torch.Tensor:
    """Of scaled scores [G, S, T] in float64, as the formulas of the papers have them."""
    i, j = (torch.arange(n, device=scores.device) for n in (case.S, case.T))
    ahead = (case.T - case.S + i)[:, None] - j
    if script == "sigmoid":
        return torch.sigmoid(scores - torch.log(torch.tensor(float(case.T))))
    if script == "softcap":
        scores = 50 * torch.tanh(scores / 50)
    if script == "alibi":
        scores = scores - slopes(case, scores.device)[-scores.shape[0] :, None, None].double() * ahead
    if script in ("alibi", "window"):
        scores = scores.masked_fill(ahead < 0, -torch.inf)
    if script == "off_by_one":
        top = scores.amax(-1, keepdim=True).clamp(min=0)
        e = torch.exp(scores - top)
        return e / (e.sum(-1, keepdim=True) + torch.exp(-top))
    return torch.softmax(scores, -1)


def exact(script: str, case: Decode, q, cache):
    group = case.H // case.Hk
    qs, k, v = q[-1, -group:].double(), cache[0][-1, -1].double(), cache[1][-1, -1].double()
    return weights(script, case, qs @ k.T * case.D**-0.5) @ v


class Functions:
    """The artifacts of a folder, or compiled here."""

    def __init__(self, folder: str) -> None:
        import aule

        self.aule, self.folder, self.made = aule, folder, {}

    def of(self, script: str):
        if script not in self.made:
            self.made[script] = self.aule.load(f"{self.folder}/{script}.so") if self.folder else self.aule.compile(SCRIPTS / f"{script}.attn", layout="T=paged")
        return self.made[script]


class Caches:
    """A case's caches in pages, so many that the far cache helps nobody."""

    def __init__(self, a, case: Decode) -> None:
        torch.manual_seed(1)
        dtype = TYPES[a.dtype]
        copies = max(2, min(64, -(-FAR // case.bytes(dtype))))
        self.q, self.rows = dense(case, dtype, a.device, copies)
        entries = case.T // case.page
        table = torch.randperm(case.B * entries, device=a.device).to(torch.int32).view(case.B, entries)
        self.given = {"T_table": table, "T_lengths": torch.full((case.B,), case.T, device=a.device, dtype=torch.int32)}
        self.pools = [in_pages(case, cache, table) for cache in self.rows]
        self.rows = self.rows[-1:]


def timed(a, rows: dict, copies: int) -> dict:
    """name: (calls of a turn, what makes an error of the last one's result): microseconds and errors."""
    graphs, errors = {}, {}
    for name, (calls, off) in rows.items():
        made = usable(name, lambda calls=calls, off=off: (off(first_of(calls[-1]())), graph_of(calls, a.device)))
        if made:
            errors[name], graphs[name] = made
    seconds = graph_seconds(graphs, copies, a.rounds, a.device)
    return {name: (s * 1e6, errors[name]) for name, s in seconds.items()}


def cells(found: dict, names) -> str:
    """The first one's time, of the others how much longer."""
    first = next(iter(found.values()))[0]
    return " | ".join(f"{found[n][0]:.3g} us ({found[n][0] / first:.2f}), {found[n][1]:.0e}" if n in found else "" for n in names)


def scripts(a, own: Functions, case: Decode) -> dict:
    c = Caches(a, case)

    def calls(script):
        f, more = own.of(script), inputs(script, case, a.device)
        want = exact(script, case, c.q, c.rows[-1])
        return [lambda k=k, v=v: f(c.q, k, v, **more, **c.given) for k, v in c.pools], lambda o: error(case, o, want)

    return timed(a, {script: calls(script) for script in MODIFIED}, len(c.pools))


def verified(a, own: Functions, case: Decode) -> dict:
    c, f = Caches(a, case), own.of("full")

    def calls(rows):
        q = torch.randn(case.B, case.H, rows, case.D, device=a.device).to(c.q.dtype)
        want = exact("full", case, q, c.rows[-1])
        return [lambda k=k, v=v: f(q, k, v, **c.given) for k, v in c.pools], lambda o: error(case, o, want)

    return timed(a, {f"S {rows}": calls(rows) for rows in ROWS}, len(c.pools))


class Served:
    """`aule.decode` over the case's caches, one row of each sequence, and the rows that it adds: the last ones of the caches, so that results are the same."""

    def __init__(self, a, case: Decode, folder: str) -> None:
        import aule
        from aule.serving import use

        if folder:
            use(f"{folder}/served.so")
        self.aule, self.case, self.c = aule, case, Caches(a, case)
        self.q = self.c.q.transpose(1, 2)
        self.new = [x[:, :, -1:].transpose(1, 2).contiguous() for x in self.c.rows[-1]]
        self.pools = [[x.transpose(1, 2) for x in pool] for pool in self.c.pools]

    def calls(self, appends: bool):
        new = {"k": self.new[0], "v": self.new[1]} if appends else {}
        want = exact("full", self.case, self.c.q, self.c.rows[-1])
        given = {"page_table": self.c.given["T_table"], "lengths": self.c.given["T_lengths"]}
        return [lambda k=k, v=v: self.aule.decode(self.q, k, v, **given, **new) for k, v in self.pools], lambda o: error(self.case, o.transpose(1, 2), want)


def appended(a, own: Functions, case: Decode) -> dict:
    s = Served(a, case, a.artifacts)
    return timed(a, {name: s.calls(name == "with new rows") for name in ("decode", "with new rows")}, len(s.pools))


def host(a, own: Functions, case: Decode) -> dict:
    """Microseconds of the host a call, of few keys, so that the device is never what is waited for."""
    CALLS = 50
    s, f = Served(a, case, a.artifacts), own.of("full")
    given, (k, v), out = s.c.given, s.c.pools[0], torch.empty_like(s.c.q)
    plan = {"decode": s.calls(False), "with new rows": s.calls(True), "f(q, k, v, ..)": ([lambda: f(s.c.q, k, v, **given)], None), "f(.., out=)": ([lambda: f(s.c.q, k, v, **given, out=out)], None)}
    found = {}
    for name, (calls, off) in plan.items():
        off_by = off(first_of(calls[-1]())) if off else float("nan")
        for _ in range(6 * CALLS):  # as a server that has run for a while
            calls[0]()
        turns = []
        for _ in range(a.rounds + 2):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                calls[0]()
            turns.append((time.perf_counter() - start) / CALLS)
        found[name] = (median(turns[2:]) * 1e6, off_by)
    torch.cuda.synchronize()
    return found


KINDS = {"scripts": (scripts, MODIFIED, CASES), "rows": (verified, [f"S {n}" for n in ROWS], CASES), "append": (appended, ["decode", "with new rows"], CASES),
         "host": (host, ["decode", "with new rows", "f(q, k, v, ..)", "f(.., out=)"], [Decode(1, 64, page=PAGE)])}


def compile_artifacts(a) -> None:
    import aule

    a.compile.mkdir(parents=True, exist_ok=True)
    for script in MODIFIED:
        compile_artifact(SCRIPTS / f"{script}.attn", a.compile / f"{script}.so", "cuda", a.arch, a.dtype, ["D=128", "E=128"], "--no-grad", "--layout", "T=paged")
    q = torch.zeros(1, 1, 8, 128, dtype=TYPES[a.dtype])
    text = a.compile / "served.attn"
    text.write_text(str(aule.attention_script(q, q, causal=True)))
    compile_artifact(text, a.compile / "served.so", "cuda", a.arch, a.dtype, ["D=128", "E=128"], "--no-grad", "--serve")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("device", "cuda"), ("dtype", "bf16"), ("filter", ""), ("artifacts", ""), ("marker", ""), ("arch", "")):
        p.add_argument(f"--{name}", default=default)
    p.add_argument("--what", choices=KINDS, default="scripts")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--write", type=Path)
    p.add_argument("--compile", type=Path)
    a = p.parse_args()
    if a.compile:
        return compile_artifacts(a)
    of, names, cases = KINDS[a.what]
    a.marker = a.marker or f"served-{a.what}"
    own = Functions(a.artifacts)
    lines = [f"| case | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for case in cases:
        if a.filter in case.name:
            lines.append(f"| {case.name} | {cells(of(a, own, case), names)} |")
            note(lines[-1])
            torch.cuda.empty_cache()
    tell(a, f"{a.dtype}, width 128. Median times (of the first column), largest error against float64.", lines)


if __name__ == "__main__":
    main()
