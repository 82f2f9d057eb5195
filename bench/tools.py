"""Measures the tools: seconds to compile, sizes of what is written and of the runtime, what a warm call costs.

    python bench/tools.py BUILD [--calls] [--write docs/performance.md]

BUILD is a build folder. Times are medians of seven runs of the whole process; --write puts the table between the markers
`<!-- bench:tools -->` and `<!-- end -->`. --calls measures warm calls and plans alone; --write then leaves the other rows as they are.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tests/front/examples/mha.attn"
CALL, PLAN, MARK = "a warm call:", "a plan whose Vulkan pipelines are kept, beside vkCreateComputePipelines", "<!-- bench:tools -->"


def seconds(command: list, runs: int = 7) -> float:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def stripped(path: Path, folder: Path) -> int:
    copy = folder / "stripped.so"
    subprocess.run(["strip", "-o", copy, path], check=True)
    return copy.stat().st_size


def rows(build: Path, folder: Path) -> list[tuple]:
    aulec, out = build / "compiler/driver/aulec", folder / "mha.so"

    def compile_seconds(*options: str, runs: int = 7) -> str:
        return f"{seconds([aulec, SCRIPT, '-o', out, *options], runs):.2f} s"

    def most_memory() -> str:
        return f"{resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MB"

    default = compile_seconds(), f"{out.stat().st_size / 1024:.0f} KB", most_memory()
    cuda = compile_seconds("--target", "cuda", runs=3), f"{out.stat().st_size / 1024:.0f} KB"

    table = [
        ("aulec mha.attn --target cpu --dtype f32 --width D=64 --arch x86-64-v4 (one kernel)",
         compile_seconds("--target", "cpu", "--dtype", "f32", "--width", "D=64", "--arch", "x86-64-v4"), ""),
        ("aulec mha.attn --target cpu (all its operand types, widths 64 and 128, architectures)", compile_seconds("--target", "cpu"), "0.5 s"),
        ("aulec mha.attn --target opencl", compile_seconds("--target", "opencl"), "0.5 s"),
        ("aulec mha.attn --target vulkan", compile_seconds("--target", "vulkan"), "0.5 s"),
        ("aulec mha.attn --target levelzero", compile_seconds("--target", "levelzero"), "0.5 s"),
        ("aulec mha.attn --target cuda (on request: all types, widths 64 and 128, architectures)", ", ".join(cuda), "0.5 s"),
        ("aulec mha.attn (all targets by default)", default[0], "10 s"),
        ("mha.so, all targets by default", default[1], "8 MB"),
        ("most memory of that compilation", default[2], "1 GB"),
        ("most memory of a compilation", most_memory(), "1 GB"),
        ("libaule.so, stripped", f"{stripped(build / 'runtime/libaule.so.0', folder) / 1024:.0f} KB", "1 MB"),
    ]
    return table


def calls(build: Path) -> list[tuple]:
    """On stand-ins for drivers, which do nothing."""
    table, env = [], dict(os.environ, LD_LIBRARY_PATH=str(build / "tests/metal"))
    for name in ("launch", "launch_hip", "launch_levelzero", "launch_metal"):
        bench = subprocess.run([build / f"tests/runtime/runtime_{name}_bench"], capture_output=True, text=True, env=env)
        bench.check_returncode()
        for line in (bench.stdout + bench.stderr).splitlines():
            what, _, time_ = line.rpartition("  ")
            if time_.strip().endswith(" ns"):
                table.append((f"{CALL} {what.strip()}", time_.strip(), "3 us"))
    return table


def plans(build: Path) -> list[tuple]:
    """On the first Vulkan device, where there is one: what is ours of a plan whose pipelines the driver has kept."""
    bench = build / "tests/embed/embed_vulkan_bench"
    done = subprocess.run([bench, build / "tests/embed/vulkan_mha.so"], capture_output=True, text=True) if bench.exists() else None
    if not done or done.returncode == 77:
        return []
    done.check_returncode()
    ours = re.search(r"^a plan, its pipelines kept .* beside vkCreateComputePipelines +(\d+) us", done.stdout, re.M)
    return [(PLAN, f"{int(ours[1]) / 1000:.2f} ms", "5 ms")]


def kept(page: str) -> list[tuple]:
    """The rows of a page that are not of calls."""
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in page.split("<!-- end -->", 1)[0].splitlines() if line.startswith("| ")]
    return [row for row in rows[1:] if not row[0].startswith((CALL, PLAN))]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=Path)
    p.add_argument("--calls", action="store_true")
    p.add_argument("--write", type=Path)
    a = p.parse_args()
    table, head, rest = [], "", ""
    if a.write:
        head, rest = a.write.read_text().split(MARK, 1)
    if a.calls:
        table = kept(rest)
    else:
        with tempfile.TemporaryDirectory() as folder:
            table = rows(a.build.resolve(), Path(folder))
    table += calls(a.build.resolve()) + plans(a.build.resolve())
    text = "\n".join(["| what | measured | bar |", "|---|---|---|"] + [f"| {' | '.join(r)} |" for r in table])
    print(text)
    if a.write:
        a.write.write_text(head + MARK + "\n" + text + "\n<!-- end -->" + rest.split("<!-- end -->", 1)[1])


if __name__ == "__main__":
    main()
