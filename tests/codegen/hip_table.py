#!/usr/bin/env python3
"""Registers, memory and spills of kernels for AMD's GPUs, as a table in a document, which is also the list of what may spill.

    hip_table.py AULEC PAGE [--only SCRIPT,TYPE,WIDTH] [--write [--grown]]

Compiles the configurations below for every machine of the target hip that has matrix units, reads the code objects' metadata, and compares with PAGE: more scratch
memory or spilled registers, more LDS or kernarg bytes, fewer waves, or code longer by more than a tenth than it says are a failure, and so are less scratch memory and
more waves, since they have to be told; so is a kernel that the page does not know and that spills. --write puts what was found between the page's
markers (tools/hip-table), but not while something is worse, unless --grown says that it may; with --only beside the rows of others."""
import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path

from hip_objects import Object, objects

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from table_page import TablePage, judge

ROOT = Path(__file__).resolve().parent.parent.parent
RECURRENCES = ("gla",)  # whose widths are K and V
# Script, type, widths.
CONFIGURATIONS = [("mha", "f16", ("16", "32", "48", "64", "80", "96", "128", "160")), ("mha", "bf16", ("64", "128")), ("mha", "f32", ("64", "128")),
                  ("softcap", "f16", ("64", "128")), ("gqa", "f16", ("128",)), ("kerple", "f16", ("64", "128")), ("alibi", "f16", ("64", "128")), ("differential", "f16", ("128",)),
                  ("documents", "f16", ("128",)), ("gla", "f32", ("64",))]
# Of a SIMD: vector registers a lane, in what steps they are given, most waves; LDS of what waves share it, and how many SIMDs those are of.
# AMD's ISA documents and "AMDGPU Usage", Kernel Descriptor. gfx908 has as many accumulation registers besides.
MACHINES = {"gfx908": (256, 4, 10, 64, 4), "gfx90a": (512, 8, 8, 64, 4), "gfx942": (512, 8, 8, 64, 4), "gfx950": (512, 8, 8, 160, 4),
            "gfx1100": (1536, 24, 16, 128, 4), "gfx1200": (1536, 24, 16, 128, 4)}
ARCHS = tuple(MACHINES)
HEAD = "| kernel | machine | VGPR | AGPR | SGPR | LDS | scratch | spilled V | spilled S | waves | code | kernarg |"


@dataclass
class Row:
    vgpr: int
    agpr: int
    sgpr: int
    lds: int
    scratch: int
    spilled_vector: int
    spilled_scalar: int
    waves: float
    code: int
    kernarg: int


def waves_of(arch, metadata):
    """Waves a SIMD that registers and LDS leave room for, in whole workgroups."""
    registers, step, most, lds, simds = MACHINES[arch]
    used = max(metadata[".vgpr_count"], metadata.get(".agpr_count", 0), 1)  # of both kinds together but on gfx908
    most = min(most, registers // (-(-used // step) * step))
    of_group = -(-metadata[".max_flat_workgroup_size"] // metadata[".wavefront_size"])
    groups = most * simds // of_group
    if metadata[".group_segment_fixed_size"]:
        groups = min(groups, (lds << 10) // metadata[".group_segment_fixed_size"])
    return groups * of_group / simds


def row_of(arch, of, name):
    k = of.kernels[name]
    return Row(k[".vgpr_count"], k.get(".agpr_count", 0), k[".sgpr_count"], k[".group_segment_fixed_size"], k[".private_segment_fixed_size"],
               k[".vgpr_spill_count"], k[".sgpr_spill_count"], waves_of(arch, k), of.sizes[name], k[".kernarg_segment_size"])


def measure(aulec, only):
    """{(script, type, width, kernel, architecture): Row}"""
    jobs = [(script, dtype, width, arch) for script, dtype, widths in CONFIGURATIONS for width in widths for arch in ARCHS
            if not only or only == f"{script},{dtype},{width}"]

    def one(job):
        script, dtype, width, arch = job
        axes = "KV" if script in RECURRENCES else "DE"
        with tempfile.TemporaryDirectory() as folder:
            artifact = Path(folder) / "x.so"
            made = subprocess.run([aulec, ROOT / f"attn_scripts/{script}.attn", "--target=hip", f"--arch={arch}", f"--dtype={dtype}",
                                   f"--width={axes[0]}={width};{axes[1]}={width}", "-o", artifact], capture_output=True, text=True)
            if made.returncode:
                sys.exit(f"{script}, {dtype}, {width}, {arch}: {made.stderr}")
            return {(script, dtype, width, name.partition(arch + "_")[2], arch): row_of(arch, of, name)
                    for of in map(Object, objects(artifact)) for name in of.kernels}

    with ThreadPoolExecutor(2) as pool:
        return {key: row for found in pool.map(one, jobs) for key, row in found.items()}


def written(table):
    lines = [HEAD, "|" + "---|" * HEAD.count(" | ") + "---|"]
    order = {key[:4]: n for n, key in reversed(list(enumerate(table)))}
    for key in sorted(table, key=lambda key: (order[key[:4]], list(ARCHS).index(key[4]))):
        lines.append(f"| {' '.join(key[:4])} | {key[4]} | " + " | ".join(f"{number:g}" if isinstance(number, float) else str(number)
                                                                     for number in astuple(table[key])) + " |")
    return "\n".join(lines)


def allowed(text):
    known = {}
    for line in text.splitlines():
        cells = [word.strip() for word in line.strip().strip("|").split("|")]
        if len(cells) == 12 and len(cells[0].split()) == 4:
            numbers = [float(cell) if n == 7 else int(cell) for n, cell in enumerate(cells[2:])]
            known[(*cells[0].split(), cells[1])] = Row(*numbers)
    return known


def compare(table, known):
    """Lines of what has become worse, and of what has become better."""
    worse, better = [], []
    for key, row in table.items():
        was = known.get(key)
        if not was:
            (worse if row.scratch or row.spilled_vector else better).append(f"{' '.join(key)}: not in the page, {row}")
            continue
        bad = [what for what in ("scratch", "spilled_vector", "spilled_scalar", "lds", "kernarg") if getattr(row, what) > getattr(was, what)]
        bad += ["waves"] * (row.waves < was.waves) + ["code"] * (row.code > 1.1 * was.code)
        good = row.scratch < was.scratch or row.spilled_vector < was.spilled_vector or row.waves > was.waves
        if bad:
            worse.append(f"{' '.join(key)}: {', '.join(bad)}: {row}; the page says {was}")
        elif good:
            better.append(f"{' '.join(key)}: {row}; the page says {was}")
    return worse, better


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("aulec")
    parser.add_argument("page", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--grown", action="store_true")
    arguments = parser.parse_args()
    page = TablePage(arguments.page, "hip")
    table = measure(arguments.aulec, arguments.only)
    if not table:
        sys.exit("no such configuration")
    known = allowed(page.text)
    worse, better = compare(table, known)
    judge(page, {**known, **table} if arguments.only and arguments.write else table, written, worse, better, arguments, "tools/hip-table")


if __name__ == "__main__":
    main()
