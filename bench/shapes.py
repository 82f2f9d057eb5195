"""Measures shapes of one schedule side by side: which row of a table of shapes (docs/tuning.md) is the best for a machine, a type, widths and lengths.

    python bench/shapes.py --compile DIR --schedule group_backward --keys "held=0,64 exchange=1,2 boxes=0,1" [--keys ..] [--scripts full,causal] [--width 128[/128]]
                           [--target cuda] [--arch sm_90a] [--dtype bf16] [--no-grad]
    python bench/shapes.py --measure DIR [--pass backward] [--lengths 8x2048,1x16384] [--heads 2048] [--window 1024] [--rounds 5] [--top 8] [--warm 16]

--compile writes an artifact for each combination of the keys' values that the compiler takes (it says why it does not take others), and one by rule, for a
machine without the compiler. --measure calls all of them in turns, in another order each round, and prints TFLOP/s by pairs that take part, medians, the
best first; `rule` is the compiler's choice. Lengths are BxS, heads so many that H * D is --heads. Results are compared with those of the rule: a shape
that differs by more than 2 % of the largest value is printed as wrong. Drivers assemble PTX when a kernel is called first: with --warm so many processes
call everything once before anything is measured, so that the driver's cache has it."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cases import Case

SCRIPTS = Path(__file__).parent / "scripts"
ROOT = Path(__file__).parent.parent
UNFIT = "error E0811: "  # of a shape that the compiler does not take here


def combinations(keys: str) -> list[str]:
    axes = [[f"{key}={value}" for value in values.split(",")] for key, values in (word.split("=") for word in keys.split())]
    return [" ".join(c) for c in itertools.product(*axes)]


def first_error(said: str) -> str:
    return next((line for line in said.splitlines() if "error" in line), said.strip() or "nothing was said")


def compile_all(a: argparse.Namespace) -> None:
    aulec = a.aulec or str(ROOT / "build" / "compiler" / "driver" / "aulec")
    folder = Path(a.compile)
    folder.mkdir(parents=True, exist_ok=True)
    d, e = (a.width.split("/") * 2)[:2]
    asked = list(dict.fromkeys(shape for keys in a.keys for shape in combinations(keys)))
    jobs = [(script, shape) for script in a.scripts.split(",") for shape in [""] + asked]

    def build(job: tuple[int, tuple[str, str]]) -> str:
        """What the compiler has against it."""
        n, (script, shape) = job
        command = [aulec, str(SCRIPTS / f"{script}.attn"), "-o", str(folder / f"{n}.so"), "--target", a.target, "--arch", a.arch, "--dtype", a.dtype,
                   "--width", f"D={d}", "--width", f"E={e}"] + (["--no-grad"] if a.no_grad else []) + (["--shape", f"{a.schedule}: {shape}"] if shape else [])
        try:
            ran = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            return f"error: {aulec}: {error.strerror}"
        return "" if ran.returncode == 0 else first_error(ran.stderr)

    with ThreadPoolExecutor(a.jobs) as pool:
        against = list(pool.map(build, enumerate(jobs)))
    for (_, shape), error in zip(jobs, against):
        if error and not (shape and UNFIT in error):  # a key, a schedule, a script or a machine that there is not: nothing to measure
            sys.exit(f"{error}")
    for (script, shape), error in zip(jobs, against):
        if error:
            print(f"{script}: {error.partition(UNFIT)[2]}", file=sys.stderr)
    kept = [{"file": f"{n}.so", "script": script, "shape": shape or "rule"} for n, (script, shape) in enumerate(jobs) if not against[n]]
    with open(folder / "shapes.json", "w") as f:
        json.dump({"d": int(d), "e": int(e), "dtype": a.dtype, "made": kept}, f)
    print(f"{len(kept)} artifacts, {len(jobs) - len(kept)} shapes do not do", file=sys.stderr)


class Measured:
    """One artifact, called on the tensors of a case."""

    def __init__(self, aule, folder: Path, made: dict, tensors, backward: bool, params: dict) -> None:
        import torch

        self.torch, self.shape, self.backward, self.params = torch, made["shape"], backward, params
        self.f, (self.q, self.k, self.v, self.do) = aule.load(folder / made["file"]), tensors
        self.seconds: list[float] = []
        self.o = self.f(self.q, self.k, self.v, **params)

    def call(self):
        if not self.backward:
            return (self.f(self.q, self.k, self.v, **self.params),)
        return self.torch.autograd.grad(self.o, (self.q, self.k, self.v), self.do, retain_graph=True)

    def time(self, calls: int) -> None:
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.call()
        begin.record()
        for _ in range(calls):
            self.call()
        end.record()
        end.synchronize()
        self.seconds.append(begin.elapsed_time(end) * 1e-3 / calls)


def is_near(torch, results, wanted) -> bool:
    return all(bool(torch.isfinite(x).all()) and float((x - y).abs().max()) <= 0.02 * float(y.abs().max()) for x, y in zip(results, wanted))


def case_of(a: argparse.Namespace, about: dict, script: str, batch: int, length: int):
    """The case, its tensors."""
    import torch

    heads, backward = a.heads // about["d"], a.pass_ == "backward"
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[about["dtype"]]
    torch.manual_seed(1)
    widths = (about["d"], about["d"], about["e"], about["e"])
    tensors = [torch.randn(batch, heads, length, w, device="cuda").to(dtype) for w in widths]
    tensors = [x.requires_grad_(backward) for x in tensors[:3]] + tensors[3:]
    params = {"window": a.window} if script == "window" else {}
    return Case(script, batch, heads, heads, length, about["d"], about["e"], params), tensors


def measure_case(a: argparse.Namespace, folder: Path, about: dict, script: str, batch: int, length: int) -> None:
    import aule
    import torch

    backward = a.pass_ == "backward"
    case, tensors = case_of(a, about, script, batch, length)
    todo = [Measured(aule, folder, made, tensors, backward, case.params) for made in about["made"] if made["script"] == script]
    wanted = [x.float() for x in todo[0].call()]
    wrong = {id(m) for m in todo if not is_near(torch, [x.float() for x in m.call()], wanted)}
    for n in range(a.rounds):
        order = todo[:]
        random.Random(n).shuffle(order)
        for m in order:
            m.time(a.calls)
    rate = lambda m: case.flops(backward) / statistics.median(m.seconds) * 1e-12
    print(f"{case.name} {case.shape} {a.pass_}: rule {rate(todo[0]):.0f}")
    for m in sorted(todo, key=rate, reverse=True)[: a.top]:
        print(f"  {rate(m):6.0f} {rate(m) / rate(todo[0]):5.2f}x  {m.shape}{'  WRONG' if id(m) in wrong else ''}")
    sys.stdout.flush()


def warm_part(a: argparse.Namespace, folder: Path, about: dict) -> None:
    """Calls every so many-th artifact once, of each length."""
    import aule

    part, parts = map(int, a.part.split("/"))
    for made in about["made"][part::parts]:
        for length in a.lengths.split(","):
            case, tensors = case_of(a, about, made["script"], 1, int(length.split("x")[1]))
            Measured(aule, folder, made, [x[:, :1].detach().requires_grad_(x.requires_grad) for x in tensors], a.pass_ == "backward", case.params).call()
    import torch

    torch.cuda.synchronize()
    os._exit(0)  # torch, leaving so soon after its first backward, may end by "terminate called without an active exception"


def warm(a: argparse.Namespace) -> None:
    command = [sys.executable, __file__, *sys.argv[1:]]
    running = [subprocess.Popen([*command, "--part", f"{n}/{a.warm}"], stdout=subprocess.DEVNULL) for n in range(a.warm)]
    if any([one.wait() for one in running]):
        sys.exit("a process that was to call everything once has failed")


def measure_all(a: argparse.Namespace) -> None:
    folder = Path(a.measure)
    about = json.load(open(folder / "shapes.json"))
    if a.part:
        return warm_part(a, folder, about)
    if a.warm:
        warm(a)
    for script in dict.fromkeys(m["script"] for m in about["made"]):
        for length in a.lengths.split(","):
            batch, rows = length.split("x")
            measure_case(a, folder, about, script, int(batch), int(rows))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--compile", default="")
    p.add_argument("--measure", default="")
    p.add_argument("--schedule", default="group_backward")
    p.add_argument("--keys", action="append", default=[])
    p.add_argument("--scripts", default="full,causal")
    p.add_argument("--width", default="128")
    p.add_argument("--target", default="cuda")
    p.add_argument("--arch", default="sm_90a")
    p.add_argument("--dtype", default="bf16")
    p.add_argument("--aulec", default="", help="the compiler; default: of the build folder")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--no-grad", action="store_true")
    p.add_argument("--pass", dest="pass_", default="backward", choices=("forward", "backward"))
    p.add_argument("--lengths", default="8x2048,1x16384")
    p.add_argument("--heads", type=int, default=2048)
    p.add_argument("--window", type=int, default=1024, help="of the script of that name")
    p.add_argument("--warm", type=int, default=0)
    p.add_argument("--part", default="", help=argparse.SUPPRESS)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--calls", type=int, default=3)
    p.add_argument("--top", type=int, default=8)
    a = p.parse_args()
    if not a.compile and not a.measure:
        p.error("--compile DIR or --measure DIR is needed")
    for keys in (a.keys or [""]) if a.compile else []:
        if not (keys.split() and all(re.fullmatch(r"\w+=\d+(,\d+)*", word) for word in keys.split())):
            p.error(f"--keys is '{keys}', expected keys and their values, as in 'held=0,64 exchange=1,2'")
    if not re.fullmatch(r"\d+(/\d+)?", a.width):
        p.error(f"--width is '{a.width}', expected that of keys, or those of keys and values, as in 192/128")
    if a.measure and not a.compile and not (Path(a.measure) / "shapes.json").exists():
        p.error(f"{a.measure} has no shapes.json: --compile makes it")
    if a.compile:
        compile_all(a)
    if a.measure:
        measure_all(a)


if __name__ == "__main__":
    main()
