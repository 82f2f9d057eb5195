"""Measures our kernels on devices beside each other, by `aule bench` and without a library of others: Vulkan beside CUDA on a GPU, drivers
for processors beside our own target.

    python bench/devices.py --compile DIR [--set SET]            AULEC, BUILD: the compiler, the folder it was built in
    python DIR/devices.py --artifacts DIR [--set SET] [--filter WORD] [--write docs/performance.md]

--compile makes a folder that needs nothing else where the device is but Python with NumPy: artifacts, modules, `aule`, the program of
tests/codegen/vulkan_pipelines.c, this file. Of a case all columns are measured one after the other. A cell is the median time and the largest
error of o, or of dq, dk and dv, of the same kernels on a small call, over the largest value of a reference in float64. For a GPU it prints: forward and
backward by cooperative matrices beside `mma.sync` (sm_90) and without matrices; soft cap and ALiBi beside causal softmax by the same kernels; what the
driver lists of matrices, whether it loads them with a stride of 0, and how long it takes to build pipelines that nobody keeps. For processors a
time is that of all cores together (processor's time), least of the runs' medians, since other work falls on it less.
decode and decode-gpu: a query over a cache, on processors and on a GPU; bytes are those of K and V.
mi100: the shapes at which AOTriton is tuned and timed, of widths 32, 64 and 128, on any device: `--ways gfx908` there, `--ways sm_90` on a H100, when compiling
too. `--results` ends before the times, which an emulator has none of; shapes stand with their floating-point operations.
--write puts it between `<!-- bench:devices-SET -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SMALL = {"B": 1, "H": 2, "Hk": 2, "S": 384, "T": 384}  # of the calls whose results are looked at
SMALL_DECODE = {"B": 2, "H": 8, "Hk": 2, "S": 1, "T": 1383}


@dataclass(frozen=True)
class Way:
    name: str
    target: str
    arch: str  # of an operand type where it has another name: + "-bf16"
    device: str
    types: tuple = ("f16", "bf16")
    loader: str = ""  # a program that runs aule with another driver


GPU = [
    Way("mma.sync", "cuda", "sm_90", "cuda:0"),
    Way("nv2", "vulkan", "vulkan13-coop16-nv2", "vulkan:0"),
    Way("KHR", "vulkan", "vulkan12-coop16", "vulkan:0"),
    Way("without", "vulkan", "vulkan12", "vulkan:0", ("f32",)),
    Way("OpenCL C", "opencl", "generic", "opencl:gpu", ("f32",)),
]
PROCESSORS = [
    Way("cpu", "cpu", "", "cpu", ("f32",)),
    Way("lavapipe", "vulkan", "vulkan12", "vulkan:0", ("f32",)),
    Way("lavapipe, newer", "vulkan", "vulkan12", "vulkan:0", ("f32",), loader="lavapipe"),
    Way("Intel, OpenCL C", "opencl", "generic", "opencl:1", ("f32",)),
    Way("Intel, SPIR-V", "opencl", "spirv", "opencl:1", ("f32",)),
    Way("Intel, SPIR-V, subgroups of 16", "opencl", "spirv-lanes16", "opencl:1", ("f32",)),
]
DECODE = [
    Way("cpu", "cpu", "", "cpu", ("f32", "bf16")),
    Way("Intel, OpenCL C", "opencl", "generic", "opencl:1", ("f32", "bf16")),
    Way("Intel, SPIR-V", "opencl", "spirv", "opencl:1", ("f32",)),
    Way("PoCL", "opencl", "generic", "opencl:0", ("f32", "bf16")),
]
DECODE_GPU = [
    Way("CUDA", "cuda", "sm_90", "cuda:0", ("f32", "bf16")),
    Way("OpenCL C", "opencl", "generic", "opencl:gpu", ("f32", "bf16")),
]
# Of any vendor; --ways says which is there.
MI100 = [Way(arch, "hip", arch, "hip:0") for arch in ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200")] + [Way(arch, "cuda", arch, "cuda:0") for arch in ("sm_80", "sm_90")]


@dataclass(frozen=True)
class Case:
    script: str
    dtype: str
    width: int
    S: int
    H: int = 16
    passes: tuple = ("forward", "backward")
    B: int = 1
    Hk: int = 0  # else H
    T: int = 0  # else S

    @property
    def extents(self) -> str:
        return f"{self.B}, {self.H}, {self.S}, {self.width}"

    @property
    def sizes(self) -> dict:
        return {"B": self.B, "H": self.H, "Hk": self.Hk or self.H, "S": self.S, "T": self.T or self.S}

    @property
    def small(self) -> dict:
        return SMALL_DECODE if self.T else SMALL

    @property
    def bytes(self) -> float:
        """Of keys and values."""
        of = self.sizes
        return 2 * of["B"] * of["Hk"] * of["T"] * self.width * (4 if self.dtype == "f32" else 2)

    def work(self, name: str) -> float:
        """Floating-point operations of the pairs that take part; backward's five products to forward's two."""
        return 4 * self.B * self.H * self.S**2 / (1 if self.script == "full" else 2) * self.width * (1 if name == "forward" else 2.5)

    @property
    def shape(self) -> str:
        return ",".join(f"{name}={size}" for name, size in {**self.sizes, "D": self.width, "E": self.width}.items())


# ROCm/aotriton: defaults of test/tune_flash.py (8 sequences, 12 heads; the MI100 fork Jack31098/aotriton_gfx908 has them with widths 32 and 64), test/performance_forward.py and _backward.py
# (64 heads of 8 or 4 sequences of 8192).
TUNED = [Case(script, dtype, width, S, H=12, B=8) for width in (32, 64) for dtype in ("f16", "bf16") for script in ("full", "causal") for S in (1024, 4096, 8192)]
TIMED = [Case("full", "f16", width, 8192, H=64, passes=(name,), B=B) for width in (64, 128) for name, B in (("forward", 8), ("backward", 4))]
CASES = {
    "mi100": TUNED + TIMED,
    "gpu": [Case(script, dtype, width, 16384) for width in (64, 128) for dtype in ("f16", "bf16") for script in ("full", "causal")]
    + [Case(script, "f16", width, 16384) for width in (64, 128) for script in ("softcap", "alibi")]
    + [Case("causal", "f32", width, 4096) for width in (64, 128)],
    "processors": [Case(script, "f32", width, 2048, H=2, passes=("forward",)) for width in (64, 128) for script in ("full", "causal")],
}
CACHES = {"decode": ((1, 8192), (8, 8192), (1, 32768)), "decode-gpu": ((1, 8192), (1, 65536), (64, 8192))}  # B, T
CASES |= {name: [Case("causal", dtype, 128, 1, H=32, Hk=8, passes=("forward",), B=B, T=T) for dtype in ("f32", "bf16") for B, T in of] for name, of in CACHES.items()}
WAYS = {"gpu": GPU, "processors": PROCESSORS, "mi100": MI100, "decode": DECODE, "decode-gpu": DECODE_GPU}


def arch_of(way: Way, dtype: str) -> str:
    return way.arch + ("-bf16" if dtype == "bf16" and "coop" in way.arch else "")


def file_of(way: Way, case: Case) -> str:
    return f"{case.script}-{case.dtype}-{case.width}-{way.target}{'-' + way.arch if way.target == 'opencl' else ''}.so"


# ---- making the folder


def modules(data: bytes) -> list[bytes]:
    """Modules lie one behind the other; a module's words are instructions that say their lengths."""
    words, found, at = struct.unpack(f"<{len(data) // 4}I", data), [], 0
    while at < len(words):
        begin, at = at, at + 5
        while at < len(words) and words[at] != words[0]:
            at += words[at] >> 16
        found.append(data[begin * 4:at * 4])
    return found


def compile_modules(aulec: str, folder: Path) -> None:
    """Of which pipelines are made: mha's, causal, as scripts of its kind have them."""
    for dtype, arch in (("f16", "vulkan13-coop16-nv2"), ("f16", "vulkan12-coop16"), ("f32", "vulkan12")):
        for width in (64, 128):
            made = subprocess.run([aulec, HERE / "scripts/causal.attn", "--target=vulkan", f"--arch={arch}", f"--dtype={dtype}", f"--width=D={width}", f"--width=E={width}", "--emit=spirv", "-o", "-"],
                                  check=True, capture_output=True).stdout
            for n, module in enumerate(modules(made)):
                (folder / f"{arch}_{width}_{n}.spv").write_bytes(module)


def compile_probe(folder: Path) -> None:
    """Where there is an assembler that knows matrices: tests/tools/vulkan-device.sh brings one."""
    tree = HERE.parent / "build-devices/lavapipe"
    for lanes, n in ((32, 16), (8, 8)):
        text = "\n".join(line.removesuffix(" N") + f" {n}" if line.endswith("u32 N") else line for line in (HERE / "stride0.spvasm").read_text().replace("LANES", str(lanes)).splitlines())
        made = subprocess.run([tree / "run", tree / "root/usr/bin/spirv-as", "--target-env", "vulkan1.3", "-", "-o", folder / f"stride0_{n}.spv"], input=text.encode())
        if made.returncode:
            print("devices: without the probe of strides: no assembler of SPIR-V that knows matrices", file=sys.stderr)


def compile_all(a) -> None:
    aulec, build = os.environ.get("AULEC", "aulec"), Path(os.environ.get("BUILD", HERE.parent / "build"))
    a.compile.mkdir(parents=True, exist_ok=True)
    archs: dict = {}
    for case in CASES[a.set]:
        for way in WAYS[a.set]:
            if case.dtype in way.types:
                archs.setdefault((file_of(way, case), way.target, case), []).append(arch_of(way, case.dtype))
    for (name, target, case), of in archs.items():
        of = [f"--arch={','.join(dict.fromkeys(of))}"] if all(of) else []
        subprocess.run([aulec, HERE / f"scripts/{case.script}.attn", "-o", a.compile / name, "--target", target, "--dtype", case.dtype, f"--width=D={case.width}", f"--width=E={case.width}", *of],
                       check=True)
    shutil.copy(build / "runtime/tools/aule", a.compile)
    shutil.copy(build / "tests/codegen/vulkan_pipelines", a.compile)
    shutil.copy(__file__, a.compile)
    if a.set == "gpu":
        compile_modules(aulec, a.compile)
        compile_probe(a.compile)
    print(f"{sum(f.stat().st_size for f in a.compile.iterdir()) / 1e6:.1f} MB in {a.compile}")


# ---- one measurement


def run_aule(a, way: Way, *arguments) -> subprocess.CompletedProcess:
    loader = [HERE.parent / f"build-devices/{way.loader}/run"] if way.loader else []
    return subprocess.run([*loader, a.artifacts / "aule", *arguments], capture_output=True, text=True)


def milliseconds(a, way: Way, case: Case, name: str):
    """Of the pass; None where it was not measured, for the reason that is told."""
    arch = ["--arch", arch_of(way, case.dtype)] if way.arch else []
    best = None
    for _ in range(a.rounds):
        done = run_aule(a, way, "bench", a.artifacts / file_of(way, case), "--json", "--shape", case.shape, "--dtype", case.dtype, "--backend", way.device, *arch, *(["--backward"] if name == "backward" else []))
        if done.returncode:
            print(f"devices: {way.name}, {case}: {done.stderr.strip()[-300:]}", file=sys.stderr)
            return None
        of = json.loads(done.stdout)
        best = min(best or 1e30, of["processor_ms" if a.set == "processors" else "ms"])
    return best


# ---- errors: results of a small call beside float64


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers that the operands' type has."""
    if dtype == "f16":
        return x.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        return (x.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
    return x.astype(np.float32)


def read(path: Path) -> np.ndarray:
    """bf16 comes as two bytes of no type that NumPy has."""
    x = np.load(path)
    if x.dtype.kind == "V" or x.dtype == np.uint16:
        x = (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.float64)


def reference(case: Case, x: dict) -> dict:
    """o and the gradients of q, k and v, in float64."""
    q, k, v, do = (x[n].astype(np.float64) for n in ("q", "k", "v", "do"))
    S, T, scale = q.shape[2], k.shape[2], q.shape[3] ** -0.5
    k, v = (np.repeat(kept, q.shape[1] // kept.shape[1], axis=1) for kept in (k, v))
    score, slope_of_score = q @ k.swapaxes(2, 3) * scale, np.ones(1)
    if case.script == "softcap":
        bounded = np.tanh(score / 50.0)
        score, slope_of_score = 50.0 * bounded, 1 - bounded**2
    if case.script == "alibi":
        score = score - x["slope"].astype(np.float64)[None, :, None, None] * (np.arange(S)[:, None] - np.arange(S)[None, :])
    if case.script != "full":
        score = np.where(np.arange(T)[None, :] <= np.arange(S)[:, None] + T - S, score, -np.inf)
    p = np.exp(score - score.max(axis=3, keepdims=True))
    p /= p.sum(axis=3, keepdims=True)
    o = p @ v
    dp = do @ v.swapaxes(2, 3)
    ds = p * (dp - (do * o).sum(axis=3, keepdims=True)) * slope_of_score * scale
    return {"o": o, "dq": ds @ k, "dk": ds.swapaxes(2, 3) @ q, "dv": p.swapaxes(2, 3) @ do}


def errors(a, way: Way, case: Case) -> dict:
    """The largest by pass, over the largest value."""
    rng = np.random.default_rng(1)
    of = case.small
    x = {n: rounded(rng.standard_normal((of["B"], of[heads], of[rows], case.width)), case.dtype) for n, heads, rows in (("q", "H", "S"), ("k", "Hk", "T"), ("v", "Hk", "T"), ("do", "H", "S"))}
    x["slope"] = np.array([0.5, 0.0625], np.float32)
    with tempfile.TemporaryDirectory() as folder:
        given = []
        for n in ("q", "k", "v") + (("do",) if "backward" in case.passes else ()) + (("slope",) if case.script == "alibi" else ()):
            np.save(f"{folder}/{n}.npy", x[n])
            given += [f"--{'dout' if n == 'do' else n}", f"{folder}/{n}.npy"]
        arch = ["--arch", arch_of(way, case.dtype)] if way.arch else []
        done = run_aule(a, way, "run", a.artifacts / file_of(way, case), *given, "--dtype", case.dtype, "--backend", way.device, *arch, "-o", folder)
        if done.returncode:
            print(f"devices: {way.name}, {case}: {done.stderr.strip()[-300:]}", file=sys.stderr)
            return {}
        found = {n: read(Path(folder) / f"{n}.npy") for n in (("o", "dq", "dk", "dv") if "backward" in case.passes else ("o",))}
    expected = reference(case, x)
    far = {n: float(np.abs(given - expected[n]).max() / np.abs(expected[n]).max()) for n, given in found.items()}
    return {"forward": far.pop("o"), **({"backward": max(far.values())} if far else {})}


# ---- tables


def measure(a) -> dict:
    """(milliseconds, error) by case, pass and way."""
    cells, seen = {}, {}
    for case in CASES[a.set]:
        ways = [way for way in WAYS[a.set] if case.dtype in way.types]
        if a.filter not in f"{case.script} {case.dtype} {case.width}":
            continue
        small = case.script, case.dtype, case.width
        far = {way: seen[small, way.name] if (small, way.name) in seen else seen.setdefault((small, way.name), errors(a, way, case)) for way in ways}
        for name in case.passes:
            for way in ways:
                if a.results and name in far[way]:
                    cells[case, name, way.name] = None, far[way][name]
                elif name in far[way] and (ms := milliseconds(a, way, case, name)):
                    cells[case, name, way.name] = ms, far[way][name]
                    print(f"devices: {case.script} {case.dtype} {case.width} {name}, {way.name}: {ms:.4g} ms, {far[way][name]:.0e}", file=sys.stderr, flush=True)
    return cells


def table(head: list, rows: list) -> list:
    return ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def of_cell(cell) -> str:
    return f"{cell[0]:.3g} ms, {cell[1]:.0e}" if cell else ""


def shapes(cells: dict, ways: list) -> list:
    """Each with its operations, its rate and its error."""
    rows = []
    for case, name in dict.fromkeys(key[:2] for key in cells):
        of = [cells.get((case, name, way)) for way in ways]
        said = [f"{case.work(name) / cell[0] * 1e-9:.1f} TFLOP/s ({of_cell(cell)})" if cell and cell[0] else f"{cell[1]:.0e}" if cell else "" for cell in of]
        rows.append([case.script, case.extents, case.dtype, name, f"{case.work(name) / 1e9:.1f}", *said])
    return table(["case", "B, H, S, D", "dtype", "pass", "GFLOP", *ways], rows) if rows else []


def share(reference_cell, cell) -> str:
    return f"{100 * reference_cell[0] / cell[0]:.0f} %" if reference_cell and cell else ""


def beside(cells: dict, cases: list, ways: list) -> list:
    """Each beside the first."""
    rows = []
    for case, name in dict.fromkeys(key[:2] for key in cells if key[0] in cases):
        of = [cells.get((case, name, way)) for way in ways]
        rows.append([case.script, case.extents, case.dtype, name, *map(of_cell, of), *(share(of[0], cell) for cell in of[1:])])
    return table(["case", "B, H, S, D", "dtype", "pass", *ways, *(f"{way} of {ways[0]}" for way in ways[1:])], rows) if rows else []


def rates(cells: dict, cases: list, ways: list) -> list:
    """TFLOP/s by pairs that take part."""
    rows = []
    for case, name in dict.fromkeys(key[:2] for key in cells if key[0] in cases):
        work = case.work(name)
        of = [cells.get((case, name, way)) for way in ways]
        rows.append([case.script, case.extents, case.dtype, name, *(f"{work / cell[0] * 1e-9:.2f} TFLOP/s ({of_cell(cell)})" if cell else "" for cell in of)])
    return table(["case", "B, H, S, D", "dtype", "pass", *ways], rows) if rows else []


def caches(cells: dict, ways: list) -> list:
    """Of a query over a cache: times, bytes of the cache a second, and the first one's time by each."""
    rows = []
    for case in dict.fromkeys(key[0] for key in cells):
        of = [cells.get((case, "forward", way)) for way in ways]
        said = [f"{of_cell(cell)}, {case.bytes / cell[0] * 1e-6:.1f} GB/s" if cell else "" for cell in of]
        rows.append([f"{case.B}, {case.T}", case.dtype, *said, *(f"{of[0][0] / cell[0]:.2f}" if of[0] and cell else "" for cell in of[1:])])
    return table(["B, T", "dtype", *ways, *(f"{ways[0]} / {way}" for way in ways[1:])], rows) if rows else []


def modified(cells: dict, ways: list) -> list:
    """What a soft cap and biases by distance leave of causal softmax' rate, by the same kernels."""
    rows = []
    for (case, name, way), cell in cells.items():
        plain = cells.get((replace(case, script="causal"), name, way))
        if case.script in ("softcap", "alibi") and plain and way in ways:
            rows.append([case.script, case.extents, case.dtype, name, way, of_cell(cell), f"{plain[0]:.3g} ms", f"{plain[0] / cell[0]:.2f}"])
    return table(["case", "B, H, S, D", "dtype", "pass", "kernels", "time, error", "causal", "causal / it"], rows) if rows else []


def driver(a) -> list:
    """What the driver says, and does, without our runtime."""
    env = dict(os.environ, __GL_SHADER_DISK_CACHE="0", MESA_SHADER_CACHE_DISABLE="true")

    def ask(*arguments):
        done = subprocess.run([a.artifacts / "vulkan_pipelines", *arguments], capture_output=True, text=True, env=env)
        if done.returncode:
            print(f"devices: vulkan_pipelines {arguments}: {done.returncode} {done.stderr.strip()[-300:]}", file=sys.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    said, lines = ask("--matrices"), []
    for key, what in (("matrix", "Products of matrices that it lists"), ("multiples", "Of which extents may be multiples (`NV2`)")):
        listed = dict.fromkeys(f"{x[key]} of {x['operands']} with sums of {x['sums']}, {x['scope']}" + (f" of {x['threads']} threads" if x.get("threads") else "") for x in said if key in x and not x.get("saturates"))
        if listed:
            lines += ["", f"{what}: {'; '.join(listed)}."]
    for n, lanes in ((16, 32), (8, 8)):
        path = a.artifacts / f"stride0_{n}.spv"
        sizes = {x["matrix"].split("x")[0] for x in said if "matrix" in x}
        answer = [x["probe"] for x in (ask("--lanes", str(lanes), "--probe", path) if path.exists() and str(n) in sizes else []) if "probe" in x]
        for p in answer:
            right = [all(p[1024 + r * n + c] == c and p[2048 + r * n + c] == r for c in range(n)) for r in range(n)]
            lines += ["", f"A matrix of {n} x {n} loaded with a stride of 0 has {'the same row, or column, again and again, as it should' if all(right) else 'WRONG elements'}."]
    rows = []
    for arch, lanes in (("vulkan13-coop16-nv2", 32), ("vulkan12-coop16", 32), ("vulkan12", 0)):
        for width in (64, 128):
            built = [x for path in sorted(a.artifacts.glob(f"{arch}_{width}_*.spv")) for x in ask("--lanes", str(lanes), path) if "ms" in x]
            rows += [[f"`{arch}`, {width}", x["kernel"].split(arch.replace("-", "_") + "_")[-1], f"{x['ms']:.0f} ms", ", ".join(f"{k} {v}" for k, v in x["statistics"].items() if any(w in k.lower() for w in ("register", "gpr", "spill", "local", "scratch", "shared", "lds")) and "hash" not in k.lower())] for x in built]
    return lines + (["", "Pipelines, built without a cache:"] + table(["architecture, width", "kernel", "built in", "what the driver says of it"], rows) if rows else [])


def devices(a) -> list:
    return subprocess.run([a.artifacts / "aule", "devices"], capture_output=True, text=True).stdout.splitlines()


def machine(a) -> str:
    done = devices(a)
    wanted = [way.device for way in WAYS[a.set]]
    return "; ".join(f"{line.split()[0]} {' '.join(line.split()[1:])} ({done[n + 1].strip()})" for n, line in enumerate(done) if line.split() and line.split()[0] in wanted and "not available" not in line) + "."


def tables(a) -> list:
    """Of what was measured."""
    cells = measure(a)
    ways = [way.name for way in WAYS[a.set]]
    of = CASES[a.set]
    if a.set == "mi100":
        return shapes(cells, ways)
    if a.set == "processors":
        return beside(cells, of, ways)
    if a.set.startswith("decode"):
        return caches(cells, ways)
    return beside(cells, [c for c in of if c.dtype != "f32"], ways[:3]) + rates(cells, [c for c in of if c.dtype == "f32"], ways[3:]) + modified(cells, ways[1:3])


def write(a, text: str) -> None:
    mark = f"<!-- bench:devices-{a.set} -->"
    head, rest = a.write.read_text().split(mark, 1)
    a.write.write_text(head + mark + "\n" + text + "\n<!-- end -->" + rest.split("<!-- end -->", 1)[1])


def first_gpu(a) -> str:
    """Of OpenCL's devices, whose order is the loader's; none: a name that nothing has."""
    return next((line.split()[0] for line in devices(a) if line.startswith("opencl:") and ", GPU," in line), "opencl:none")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--set", choices=CASES, default="gpu")
    p.add_argument("--compile", type=Path)
    p.add_argument("--artifacts", type=Path)
    p.add_argument("--filter", default="", help="only cases whose script, type and width contain this; driver: only what the driver says")
    p.add_argument("--ways", default="", help="only columns whose names begin with one of these, as cpu,Intel")
    p.add_argument("--results", action="store_true", help="mi100: errors of the small calls, and no times")
    p.add_argument("--rounds", type=int, default=1, help="of each measurement; the least is taken")
    p.add_argument("--write", type=Path)
    a = p.parse_args()
    if a.set == "mi100" and not a.ways:
        a.ways = "gfx908"
    WAYS[a.set] = [way for way in WAYS[a.set] if way.name.startswith(tuple(a.ways.split(",")))]
    if a.compile:
        return compile_all(a)
    if not a.artifacts:
        p.error("--compile DIR or --artifacts DIR")
    a.artifacts = a.artifacts.resolve()
    WAYS[a.set] = [replace(way, device=first_gpu(a)) if way.device == "opencl:gpu" else way for way in WAYS[a.set]]
    # What was measured is told, and written, before the driver is asked, which takes minutes.
    lines = [machine(a)] + tables(a)
    print("\n".join(lines), flush=True)
    if a.write:
        write(a, "\n".join(lines))
    if a.set == "gpu" and a.filter in ("", "driver"):
        said = driver(a)
        print("\n".join(said))
        if a.write:
            write(a, "\n".join(lines + said))


if __name__ == "__main__":
    main()
