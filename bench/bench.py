"""Measures attention side by side with peers, on the same random tensors, in one process.

    python bench/bench.py [--device cpu|cuda] [--dtype f32,bf16] [--pass forward,backward,both] [--peers sdpa,flex] [--filter WORD] [--scripts NAMES]
                          [--artifacts DIR] [--beside OLD=DIR,..] [--rounds N] [--kernels] [--json FILE] [--plot FILE.svg] [--write docs/performance.md --marker cpu]
    python bench/bench.py --compile DIR --target cuda --dtype bf16 [--width D=64,128]

Every round calls each peer once, in turn; reported are medians (GPU: of device events). FLOP/s count the pairs that take part:
2 (D + E) a pair forward, 2.5 times that backward, `both`: forward and backward together. Errors are against the formula in float64, of
one group of heads. --compile writes an artifact for each script, for a machine without the compiler, where --artifacts names the
folder; --beside has further such folders, of other compilers or shapes, as columns of their own. --kernels: in place of
times, what each call spends in which kernel, the mean of the rounds under torch's profiler. --write puts the table between the markers `<!-- bench:MARKER -->` and `<!-- end -->` of a document.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
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


LIMITED = limit_onednn() if "cuda" not in " ".join(sys.argv) else ""
import torch

sys.path.insert(0, str(Path(__file__).parent))
from cases import SETS
from formulas import exact, largest_error
from measure import kernel_rows, matmul_ceiling, median_seconds, spans_of
from peers import PEERS, SCRIPTS, Aule, Missing

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def tensors(case, dtype: str, device: str, grad: bool):
    torch.manual_seed(1)
    shapes = ((case.H, case.S, case.D), (case.Hk, case.keys, case.D), (case.Hk, case.keys, case.E), (case.H, case.S, case.E))
    q, k, v, do = (torch.randn(case.B, *shape, device=device).to(TYPES[dtype]) for shape in shapes)
    return [x.requires_grad_(grad) for x in (q, k, v)] + [do]


def usable(name: str, make, failed=lambda why: None):
    """What [make] makes, or None, with the reason on the terminal and for [failed]: a peer that cannot be used here is an empty column."""
    try:
        return make()
    except Exception as error:  # of foreign code: anything
        why = " ".join(f"{type(error).__name__}: {error}".split())
        note(f"{name}: {why[:300]}")
        failed(why)
        return None


def peers_of(names: str) -> list:
    """The peers that a command names, in its order."""
    if unknown := [name for name in names.split(",") if name and name not in PEERS]:
        sys.exit(f"bench: no peer is called {unknown[0]}; there are {', '.join(PEERS)}")
    return [usable(name, PEERS[name]) or Missing(name) for name in names.split(",") if name]


class Row:
    """The columns of one case: what each makes is tried, and then all that could be made takes turns."""

    def __init__(self, case: str) -> None:
        self.case, self.errors, self.graphs, self.cells = case, {}, {}, {}

    def add(self, name: str, prepare) -> None:
        """[prepare] makes an error and a graph; None: there is no such call."""
        self.cells[name] = ""
        if made := usable(f"{name}, {self.case}", prepare, lambda why: self.say(name, "failed: " + why.replace("|", "/")[:80])):
            self.errors[name], self.graphs[name] = made

    def say(self, name: str, what: str) -> None:
        self.cells[name] = what

    def found(self, seconds: dict, cell) -> dict:
        """Of each column in its place cell(seconds, error), or what there is to say."""
        return {name: cell(seconds[name], self.errors[name]) if name in seconds else said for name, said in self.cells.items()}


def backward_call(call, leaves, do):
    o = call()
    return lambda: torch.autograd.grad(o, leaves, do, retain_graph=True)


def passes(call, which: str, leaves, do):
    if which == "forward":
        return call
    if which == "backward":
        return backward_call(call, leaves, do)
    return lambda: torch.autograd.grad(call(), leaves, do)


def measure_case(case, dtype: str, which: str, peers: list, a) -> list[dict]:
    grad = which != "forward"
    q, k, v, do = tensors(case, dtype, a.device, grad)
    want = exact(case, q, k, v, do if grad else None)
    calls, errors = {}, {}
    for peer in peers:
        def prepare():
            call = peer.call(case, q, k, v)
            if call is None:
                return None
            run = passes(call, which, (q, k, v), do)
            got = dict(zip(("dq", "dk", "dv"), run())) if grad else {"o": run()}
            if a.deterministic and grad and not all(torch.equal(x, y) for x, y in zip(got.values(), run())):
                raise AssertionError("two calls do not have the same bits")
            return run, max(largest_error(got[name], want[name]) for name in got)

        if made := usable(f"{peer.name}, {case.name} {case.shape} {dtype} {which}", prepare):
            calls[peer.name], errors[peer.name] = made
    if a.kernels:
        for name, run in calls.items():
            title = f"{name}, {case.name}, {case.shape}, {dtype}, {which}, error {errors[name]:.0e}"
            print("\n".join(kernel_rows(title, spans_of(run, a.rounds), a.rounds)), flush=True)
        return []
    seconds = median_seconds(calls, a.device, a.rounds)
    flops = case.flops(False) * (which != "backward") + case.flops(True) * (which != "forward")
    return [
        {"case": case.name, "shape": case.shape, "dtype": dtype, "pass": which, "peer": name, "ms": s * 1e3, "tflops": flops / s * 1e-12, "error": errors[name]}
        for name, s in seconds.items()
    ]


def cell(row, unit: float) -> str:
    return f"{row['tflops'] * unit:.0f} ({row['ms']:.3g} ms, {row['error']:.0e})" if row else ""


def table(rows: list[dict], names: list[str], unit: float, ceilings: dict) -> str:
    lines = ["| case | B, H, S, D | dtype | pass | " + " | ".join(names) + " | of matmul | aule / best peer |", "|" + "---|" * (len(names) + 6)]
    for key in dict.fromkeys((r["case"], r["shape"], r["dtype"], r["pass"]) for r in rows):
        found = {r["peer"]: r for r in rows if (r["case"], r["shape"], r["dtype"], r["pass"]) == key}
        others = [r["tflops"] for n, r in found.items() if not n.startswith("aule")]
        own = found.get("aule")
        ratio = f"{own['tflops'] / max(others):.2f}x" if others and own else ""
        share = f"{own['tflops'] * 1e12 / ceilings[key[2]] * 100:.0f} %" if own else ""
        lines.append(f"| {' | '.join(key)} | " + " | ".join(cell(found.get(n), unit) for n in names) + f" | {share} | {ratio} |")
    return "\n".join(lines)


def plot(rows: list[dict], names: list[str], path: Path) -> None:
    """Bars of TFLOP/s, a group a case, as SVG."""
    keys = list(dict.fromkeys((r["case"], r["shape"], r["dtype"], r["pass"]) for r in rows))
    colours, top, bar, row_height = ("#1b6ca8", "#c44e52", "#55a868", "#8172b2", "#ccb974"), max(r["tflops"] for r in rows), 420, 14 * len(names) + 14
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="{row_height * len(keys) + 30}" font-family="sans-serif" font-size="11">']
    for at, name in enumerate(names):
        parts.append(f'<rect x="{10 + 150 * at}" y="6" width="10" height="10" fill="{colours[at % 5]}"/><text x="{24 + 150 * at}" y="15">{name}</text>')
    for line, key in enumerate(keys):
        y = 30 + line * row_height
        parts.append(f'<text x="10" y="{y + row_height / 2}">{", ".join(key)}</text>')
        for at, name in enumerate(names):
            for r in rows:
                if r["peer"] == name and (r["case"], r["shape"], r["dtype"], r["pass"]) == key:
                    width = bar * r["tflops"] / top
                    parts.append(f'<rect x="380" y="{y + 14 * at}" width="{width:.1f}" height="11" fill="{colours[at % 5]}"/>')
                    parts.append(f'<text x="{385 + width:.1f}" y="{y + 14 * at + 10}">{r["tflops"]:.3g}</text>')
    path.write_text("\n".join(parts) + "\n</svg>\n")


def write_between(path: Path, marker: str, text: str) -> None:
    begin, end = f"<!-- bench:{marker} -->", "<!-- end -->"
    head, rest = path.read_text().split(begin, 1)
    path.write_text(head + begin + "\n" + text + "\n" + end + rest.split(end, 1)[1])


def tell(a, head: str, lines: list[str]) -> None:
    """A table under the machine and what else it was measured with: printed, and with --write put between a document's markers."""
    text = f"{machine(a.device)}. {head}\n\n" + "\n".join(lines)
    print(text)
    if a.write:
        write_between(a.write, a.marker, text)


def machine(device: str) -> str:
    if device.startswith("cuda"):
        return f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else 'unknown processor'}, {len(os.sched_getaffinity(0))} cores, PyTorch {torch.__version__}, {torch.get_num_threads()} threads{LIMITED}"


def compile_artifact(script: Path, out: Path, target: str, arch: str, dtype: str, widths: list[str], *options) -> None:
    """By the compiler that AULEC names; [widths] as D=64,128; [arch] "": the compiler's own choice."""
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [os.environ.get("AULEC", "aulec"), script, "-o", out, "--target", target, "--dtype", dtype, *(f"--width={w}" for w in widths), *options]
    subprocess.run(command + (["--arch", arch] if arch else []), check=True)


def compile_artifacts(a) -> None:
    """One artifact a script, with the widths that the device's cases have."""
    cases = SETS["cuda" if "cuda" in a.target else "cpu"]
    for script in dict.fromkeys(c.script for c in cases):
        widths = [f"{axis}=" + ",".join(map(str, sorted({getattr(c, axis) for c in cases if c.script == script}))) for axis in "DE"]
        compile_artifact(SCRIPTS / f"{script}.attn", a.compile / f"{script}.so", a.target, a.arch, a.dtype, widths, *["--deterministic"] * a.deterministic)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cpu")
    p.add_argument("--dtype", default="")
    p.add_argument("--pass", dest="passes", default="forward")
    p.add_argument("--peers", default="")
    p.add_argument("--devices", default="", help="further devices of aule, as opencl:1 (tensors of the CPU)")
    p.add_argument("--filter", default="", help="only cases whose name and shape contain this")
    p.add_argument("--scripts", default="", help="only cases of these scripts, as full,causal")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--artifacts", type=Path)
    p.add_argument("--beside", default="", help="further folders of artifacts, as old=DIR,wide=DIR")
    p.add_argument("--kernels", action="store_true", help="in place of times: what a call spends in each kernel; --device cuda")
    p.add_argument("--json")
    p.add_argument("--plot", type=Path)
    p.add_argument("--write", type=Path)
    p.add_argument("--marker", default="cpu")
    p.add_argument("--compile", type=Path)
    p.add_argument("--target", default="cuda")
    p.add_argument("--arch", default="")
    p.add_argument("--deterministic", action="store_true", help="gradients with sums in one order: artifacts of --compile, and the peers, fa4 alone")
    a = p.parse_args()
    on_cuda = a.device.startswith("cuda") or (a.compile and "cuda" in a.target)
    a.dtype = a.dtype or ("bf16" if on_cuda else "f32,bf16")
    if a.kernels and not on_cuda:
        p.error("--kernels needs --device cuda: kernels of other devices are not seen by torch's profiler")
    if a.deterministic and a.peers not in ("", "fa4") and not a.compile:
        p.error("--deterministic: of the peers fa4 alone is asked for sums in one order")
    if a.kernels and a.write:
        p.error("--kernels writes no table of times")
    a.peers = a.peers or "fa4" * a.deterministic or ("cudnn,fa2,fa4,flex" if on_cuda else "sdpa,flex")
    return a


def main() -> None:
    a = arguments()
    if a.compile:
        return compile_artifacts(a)
    if unknown := [name for name in a.peers.split(",") if name and name not in PEERS]:
        sys.exit(f"bench: no peer is called {unknown[0]}; there are {', '.join(PEERS)}, and aule is always there")
    made = [usable(name, PEERS[name]) for name in a.peers.split(",") if name]
    for peer in made:
        if a.deterministic and peer:
            peer.deterministic = True
    beside = [Aule("", Path(folder), f"aule {label}") for label, _, folder in (x.partition("=") for x in a.beside.split(",") if x)]
    peers = [Aule(artifacts=a.artifacts)] + beside + [Aule(d, a.artifacts, f"aule {d}") for d in a.devices.split(",") if d] + [x for x in made if x]
    names, rows, ceilings = [x.name for x in peers], [], {}
    unit, word = (1.0, "TFLOP/s") if a.device.startswith("cuda") else (1e3, "GFLOP/s")
    for dtype in a.dtype.split(","):
        ceilings[dtype] = matmul_ceiling(a.device, TYPES[dtype])
        for which in a.passes.split(","):
            for case in SETS["cuda" if a.device.startswith("cuda") else "cpu"]:
                if a.filter not in f"{case.name} {case.shape}" or (a.scripts and case.script not in a.scripts.split(",")):
                    continue
                rows += (new := measure_case(case, dtype, which, peers, a))
                note(f"{case.name} {case.shape} {dtype} {which}: " + ", ".join(f"{r['peer']} {r['tflops'] * unit:.0f}" for r in new))
    if a.kernels:
        return
    matmul = ", ".join(f"{dtype} {c * 1e-12 * unit:.0f}" for dtype, c in ceilings.items())
    head = f"{machine(a.device)}. {word} by pairs that take part (median time, largest error against float64). Matrix product: {matmul} {word}."
    text = head + "\n\n" + table(rows, names, unit, ceilings)
    print(text)
    if a.json:
        with open(a.json, "a") as f:
            f.writelines(json.dumps(r) + "\n" for r in rows)
    if a.plot:
        plot(rows, names, a.plot)
    if a.write:
        write_between(a.write, a.marker, text)


if __name__ == "__main__":
    main()
