"""Measures forward attention on the CPU side by side with peers, on the same random tensors, in one process.

    python bench/bench.py [--dtype f32,bf16] [--peers aule,sdpa,flex] [--filter WORD] [--rounds N] [--json FILE] [--write docs/performance.md]

Every round calls each peer once, in turn, so that what else the machine does falls on all of them; reported are medians. GFLOP/s count
the pairs that take part: 4 B H D pairs. Errors are against the formula in float64. --write puts the table between the
markers `<!-- bench:MARKER -->` and `<!-- end -->` of a document (--marker, default cpu).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

LIMIT = "ONEDNN_MAX_CPU_ISA"
PROBE = "import torch; x = torch.randn(1, 1, 512, 64).bfloat16(); torch.nn.functional.scaled_dot_product_attention(x, x, x)"


def limit_onednn() -> str:
    """PyTorch's bf16 attention dies of an illegal instruction on some virtual machines with AMX; there it gets the best level that
    runs. Says which. Before torch is imported."""
    for level in ("", "AVX512_CORE_AMX", "AVX512_CORE_FP16", "AVX512_CORE_BF16"):
        if level:
            os.environ[LIMIT] = level
        if subprocess.run([sys.executable, "-c", PROBE], capture_output=True).returncode == 0:
            break
    return f", {LIMIT}={os.environ[LIMIT]} (PyTorch crashes without)" if LIMIT in os.environ else ""


LIMITED = limit_onednn()
import torch

sys.path.insert(0, str(Path(__file__).parent))
from cases import CASES
from peers import PEERS, Aule, exact

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def measure(calls: dict, rounds: int, least_seconds: float) -> dict:
    """Median seconds of each call; the calls take turns, and each repeats within its turn until a turn is long enough to time."""
    repeats, times = {}, {name: [] for name in calls}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        repeats[name] = max(1, int(least_seconds / max(time.perf_counter() - start, 1e-6)))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            times[name].append((time.perf_counter() - start) / repeats[name])
    return {name: statistics.median(t) for name, t in times.items()}


def run_case(case, dtype: str, peers: list, rounds: int) -> list[dict]:
    torch.manual_seed(1)
    q = torch.randn(case.B, case.H, case.S, case.D).to(TYPES[dtype])
    k, v = (torch.randn(case.B, case.Hk, case.S, case.D).to(TYPES[dtype]) for _ in range(2))
    calls = {peer.name: call for peer in peers if (call := peer.call(case, q, k, v)) is not None}
    want = exact(case, q, k, v)
    errors = {name: float((call()[:, :, -want.shape[2] :].double() - want).abs().max()) for name, call in calls.items()}
    seconds = measure(calls, rounds, 0.02)
    return [
        dict(case=case.name, S=case.S, D=case.D, H=case.H, Hk=case.Hk, dtype=dtype, peer=name, ms=s * 1e3, gflops=case.flops() / s * 1e-9, error=errors[name])
        for name, s in seconds.items()
    ]


def cell(row) -> str:
    return f"{row['gflops']:.0f} ({row['ms']:.1f} ms, {row['error']:.0e})" if row else ""


def table(rows: list[dict], names: list[str]) -> str:
    lines = ["| case | S, D, H/Hk | dtype | " + " | ".join(names) + " | aule / best peer |", "|" + "---|" * (len(names) + 4)]
    keys = list(dict.fromkeys((r["case"], r["S"], r["D"], r["H"], r["Hk"], r["dtype"]) for r in rows))
    for key in keys:
        by_peer = {r["peer"]: r for r in rows if (r["case"], r["S"], r["D"], r["H"], r["Hk"], r["dtype"]) == key}
        others = [r["gflops"] for n, r in by_peer.items() if not n.startswith("aule")]
        ratio = f"{by_peer['aule']['gflops'] / max(others):.2f}x" if others and "aule" in by_peer else ""
        name, S, D, H, Hk, dtype = key
        lines.append(f"| {name} | {S}, {D}, {H}/{Hk} | {dtype} | " + " | ".join(cell(by_peer.get(n)) for n in names) + f" | {ratio} |")
    return "\n".join(lines)


def write_between(path: Path, marker: str, text: str) -> None:
    begin, end = f"<!-- bench:{marker} -->", "<!-- end -->"
    document = path.read_text()
    head, rest = document.split(begin, 1)
    path.write_text(head + begin + "\n" + text + "\n" + end + rest.split(end, 1)[1])


def machine() -> str:
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else 'unknown processor'}, {len(os.sched_getaffinity(0))} cores, PyTorch {torch.__version__}, {torch.get_num_threads()} threads{LIMITED}"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dtype", default="f32,bf16")
    p.add_argument("--peers", default="aule,sdpa,flex")
    p.add_argument("--devices", default="", help="further devices of aule, as opencl:1")
    p.add_argument("--filter", default="")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--json")
    p.add_argument("--write")
    p.add_argument("--marker", default="cpu")
    a = p.parse_args()
    peers = [PEERS[name]() for name in a.peers.split(",")] + [Aule(d) for d in a.devices.split(",") if d]
    rows = []
    for dtype in a.dtype.split(","):
        for case in CASES:
            if a.filter not in f"{case.name} {case.S} {case.D}":
                continue
            new = run_case(case, dtype, peers, a.rounds)
            rows += new
            print(f"{case.name} S{case.S} D{case.D} {dtype}: " + ", ".join(f"{r['peer']} {r['gflops']:.0f}" for r in new), file=sys.stderr, flush=True)
    text = f"{machine()}. GFLOP/s by pairs that take part (median time, largest error against float64).\n\n" + table(rows, [x.name for x in peers])
    print(text)
    if a.json:
        with open(a.json, "a") as f:
            f.writelines(json.dumps(r) + "\n" for r in rows)
    if a.write:
        write_between(Path(a.write), a.marker, text)


if __name__ == "__main__":
    main()
