#!/usr/bin/env python3
"""What AMD's Vulkan driver of Mesa makes of modules, without a GPU: every kernel becomes a pipeline, and none spills more than docs/dev/vulkan.md says.

    radv_table.py AULEC RADV PIPELINES PAGE SCRIPT [--only navi31] [--write]

RADV is what tests/tools/radv.sh makes (where it is not there, this is skipped), PIPELINES the program of vulkan_pipelines.c. PAGE has a table between the
markers `<!-- radv -->` and `<!-- end -->`: vector registers of a lane, bytes of private memory (what is spilled) and subgroups that a SIMD holds.
--write makes it anew. A driver of another version may spill more or less: then the table is to be written again, and looked at.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ocloc_table import modules

BEGIN, END = "<!-- radv -->\n", "<!-- end -->"
HEAD = "| kernel, width | architecture, type | GPU | registers | private bytes | subgroups a SIMD | instructions | built in, s |\n" + "|---" * 8 + "|\n"
# GPU, architecture, lanes that a pipeline asks for, operand type, width
CASES = [("navi31", "vulkan12", 0, "f32", 64), ("navi31", "vulkan12-coop16", 32, "f16", 64), ("navi31", "vulkan12-coop16", 32, "f16", 128),
         *[("navi31", f"vulkan12-coop16-{how}", 32, "f16", width) for how in ("words", "layout") for width in (64, 128)],
         ("navi31", "vulkan12-coop16-at", 32, "f16", 64), ("navi31", "vulkan12-coop16-at", 32, "f16", 128), ("navi21", "vulkan12", 0, "f32", 64), ("navi21", "vulkan12-lanes64", 64, "f32", 64)]


def compile_modules(given, case, folder: Path) -> list:
    gpu, arch, lanes, dtype, width = case
    out = folder / "modules"
    subprocess.run([given.aulec, given.script, "--target=vulkan", f"--arch={arch}", f"--dtype={dtype}", f"--width=D={width}", f"--width=E={width}", "--emit=spirv", "-o", out],
                   check=True, capture_output=True)
    paths = []
    for n, module in enumerate(modules(out.read_bytes())):
        paths.append(folder / f"{n}.spv")
        paths[-1].write_bytes(module)
    return paths


def measure(given, case, folder: Path) -> dict:
    """Cells by (kernel, width, architecture and type, GPU); what the driver refuses ends the program."""
    gpu, arch, lanes, dtype, width = case
    command = [given.radv, given.pipelines, "--lanes", str(lanes), *compile_modules(given, case, folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, RADV_FORCE_FAMILY=gpu))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or not lines or gpu.upper() not in lines[0]["device"]:
        sys.exit(f"{case}: {done.stdout[-300:]} {done.stderr[-500:]}")
    cells = {}
    for line in lines[1:]:
        has = line["statistics"]
        kernel = line["kernel"].split(arch.replace("-", "_") + "_")[-1]
        cells[f"`{kernel}`, {width}", f"`{arch}`, {dtype}", gpu] = [has["VGPRs"], has["Scratch size"], has["Subgroups per SIMD"], has["Instructions"], f"{line['ms'] / 1000:.1f}"]
    if not cells:
        sys.exit(f"{case}: no kernel became a pipeline")
    return cells


def private(page: str) -> dict:
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in page.split(BEGIN)[1].split(END)[0].splitlines()[2:]]
    return {row[:3]: int(row[4]) for row in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("aulec", "radv", "pipelines", "page", "script"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--only", default="", help="cases of this GPU")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if not given.radv.exists():
        print(f"{given.radv} (tests/tools/radv.sh) is not there")
        return 77
    cells = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if given.only in case[0]:
                cells |= measure(given, case, Path(folder))
    page = given.page.read_text()
    if given.write:
        table = HEAD + "".join(f"| {' | '.join([*key, *map(str, row)])} |\n" for key, row in cells.items())
        given.page.write_text(page.split(BEGIN)[0] + BEGIN + table + END + page.split(BEGIN)[1].split(END, 1)[1])
        return 0
    said = private(page)
    wrong = [f"{', '.join(key)}: {row[1]} bytes, {said.get(key, 0)} said" for key, row in cells.items() if row[1] > said.get(key, 0)]
    print("\n".join(wrong) or f"{len(cells)} kernels spill no more than {given.page.name} says")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
