"""Measures the tools: seconds to compile, sizes of what is written and of the runtime, what a warm call costs.

    python bench/tools.py BUILD [--calls | --compilations] [--write docs/performance.md]

BUILD is a build folder. Times of compilations are the processor's, user's and system's, of the whole process, medians of three runs; --write puts the
table between the markers `<!-- bench:tools -->` and `<!-- end -->`. --calls measures warm calls and plans alone, --compilations all but these; --write
then leaves the other rows as they are.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tests/front/examples/mha.attn"
CALL, PLAN, MARK = "a warm call:", "a plan whose Vulkan pipelines are kept, beside vkCreateComputePipelines", "<!-- bench:tools -->"


def cost(command: list, runs: int = 3) -> tuple[str, str]:
    """Seconds, and the most memory that a run had at once."""
    used = []
    for _ in range(runs):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"{command}: {child.returncode}")
        used.append(usage)
    user, system = (statistics.median(getattr(u, name) for u in used) for name in ("ru_utime", "ru_stime"))
    return f"{user:.2f} s and {system:.2f} s", f"{max(u.ru_maxrss for u in used) / 1024:.0f} MB"


def stripped(path: Path, folder: Path) -> int:
    copy = folder / "stripped.so"
    subprocess.run(["strip", "-o", copy, path], check=True)
    return copy.stat().st_size


def rows(build: Path, folder: Path) -> list[tuple]:
    aulec, out = build / "compiler/driver/aulec", folder / "mha.so"

    def compile(*options: str) -> tuple[str, str]:
        return cost([aulec, SCRIPT, "-o", out, *options])

    def size() -> str:
        return f"{out.stat().st_size / 1024:.0f} KB"

    default = (*compile(), size())
    cuda = (*compile("--target", "cuda"), size())
    hip = (*compile("--target", "hip", "--arch", "gfx942"), size())
    one = [(f"aulec mha.attn --target {target}", ", ".join(compile("--target", target)), "0.5 s") for target in ("opencl", "vulkan", "levelzero", "metal")]

    table = [
        ("aulec mha.attn --target cpu --dtype f32 --width D=64 --arch x86-64-v4 (one set of kernels)",
         ", ".join(compile("--target", "cpu", "--dtype", "f32", "--width", "D=64", "--arch", "x86-64-v4")), "0.5 s"),
        ("aulec mha.attn --target cpu (all its operand types, widths 64 and 128, architectures)", ", ".join(compile("--target", "cpu")), "0.5 s"),
        *one,
        ("aulec mha.attn --target cuda (on request: all types, widths 64 and 128, architectures)", ", ".join(cuda), "0.5 s"),
        ("aulec mha.attn --target hip --arch gfx942 (on request: all types, widths 64 and 128)", ", ".join(hip), "3 s"),
        ("aulec mha.attn (all targets by default)", default[0], "10 s of two processors"),
        ("mha.so, all targets by default", default[2], "8 MB"),
        ("most memory of that compilation", default[1], "1 GB"),
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


def kept(page: str, of_calls: bool) -> list[tuple]:
    """The rows of a page that are of calls and plans, or the others."""
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in page.split("<!-- end -->", 1)[0].splitlines() if line.startswith("| ")]
    return [row for row in rows[1:] if row[0].startswith((CALL, PLAN)) == of_calls]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=Path)
    p.add_argument("--calls", action="store_true")
    p.add_argument("--compilations", action="store_true")
    p.add_argument("--write", type=Path)
    a = p.parse_args()
    table, head, rest = [], "", ""
    if a.write:
        head, rest = a.write.read_text().split(MARK, 1)
    if a.calls:
        table = kept(rest, False)
    else:
        with tempfile.TemporaryDirectory() as folder:
            table = rows(a.build.resolve(), Path(folder))
    table += kept(rest, True) if a.compilations else calls(a.build.resolve()) + plans(a.build.resolve())
    text = "\n".join(["| what | measured | bar |", "|---|---|---|"] + [f"| {' | '.join(r)} |" for r in table])
    print(text)
    if a.write:
        a.write.write_text(head + MARK + "\n" + text + "\n<!-- end -->" + rest.split("<!-- end -->", 1)[1])


if __name__ == "__main__":
    main()
