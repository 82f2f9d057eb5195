#!/usr/bin/env python3
"""Registers and spills of the shipped configurations, as a table in a document, which is also the list of what may spill.

    ptxas_table.py AULEC PTXAS PAGE [--only SCRIPT,TYPE,WIDTH,ARCHITECTURE | --archs NAME,.. [--part N] | --write [--grown]]

Compiles the configurations below, assembles them for every architecture, and compares with PAGE: more bytes spilled than it says, or arrays of
lanes in local memory of which it does not know, are a failure; so are fewer, since the list may only shrink and has to be told. Registers are for
reading: assemblers differ in them. --write puts what was found between the page's markers (tools/ptxas-table), but not while something has
grown, unless --grown says that it may: where a shape that spills was measured to be the faster one."""
import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ptxas_report import Refused, kernels

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from table_page import TablePage

ROOT = Path(__file__).resolve().parent.parent.parent
ARCHS = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_120")
NEWER = ARCHS[2:]  # those with bf16
GROUPS = "sm_90a"  # of which kernels of groups of warps are listed, whose names say so; the others are those of sm_90
SOME = ("sm_80", "sm_90")
RECURRENCES = ("linear_attention", "retnet", "gla", "gated_delta")  # whose widths are K and V
MOST_LINES = 12000  # of PTX of a recurrence's module: ptxas takes a second for 6000, and much more than twice as long for twice as many
# Script, type, widths (of keys, or of keys/of values), architectures.
CONFIGURATIONS = [
    ("mha", "f16", ("64", "128"), ARCHS),
    ("mha", "bf16", ("64", "96", "128", "192/128", "256"), NEWER),
    ("mha", "f32", ("64",), SOME),
    ("gqa", "bf16", ("128",), NEWER),
    ("alibi", "bf16", ("64", "128"), NEWER),
    ("softcap", "bf16", ("64", "128"), NEWER),
    ("relative_bias", "bf16", ("128",), NEWER),
    ("sliding_window", "bf16", ("128",), NEWER),
    ("documents", "bf16", ("128",), NEWER),
    ("prefix_lm", "bf16", ("128",), NEWER),
    ("attention_sink", "bf16", ("64",), NEWER),
    ("dropout", "bf16", ("64",), NEWER),
    ("sigmoid", "bf16", ("64",), NEWER),
    ("retention", "bf16", ("64",), NEWER),
    ("relative_bias", "bf16", ("64",), (GROUPS,)),
    ("documents", "bf16", ("64",), (GROUPS,)),
    ("tree", "bf16", ("64",), (GROUPS,)),
    ("kerple", "bf16", ("64",), (GROUPS,)),
    ("t5_encoder", "bf16", ("64",), (GROUPS,)),
    ("linear_attention", "f32", ("64", "128"), SOME),
    ("retnet", "f32", ("64",), SOME),
    ("gla", "f32", ("64",), SOME),
    ("gated_delta", "f32", ("64",), SOME),
]


def measure(aulec, ptxas, only, chosen, part):
    """{(script, type, width, kernel): {architecture: Kernel}}"""
    jobs = [(script, dtype, width, arch) for script, dtype, widths, archs in CONFIGURATIONS for width in widths for arch in archs]
    jobs = [job for job in jobs if (not only or ",".join(job) == only) and job[3] in chosen][::part]

    def one(job):
        script, dtype, width, arch = job
        keys, _, values = width.partition("/")
        axes = "KV" if script in RECURRENCES else "DE"
        given = f"{axes[0]}={keys};{axes[1]}={values or keys}"
        found = kernels(aulec, ptxas, ROOT / f"attn_scripts/{script}.attn", arch=arch, dtype=dtype, width=given)
        return [kernel for kernel in found if arch != GROUPS or "_boxes_" in kernel.name]

    table = {}
    with ThreadPoolExecutor(2) as pool:
        for (script, dtype, width, arch), found in zip(jobs, pool.map(one, jobs)):
            for kernel in found:
                name = kernel.name.partition(arch + "_")[2]
                table.setdefault((script, dtype, width, name), {})[arch] = kernel
    return table


def cell(kernel):
    return f"{kernel.registers}" + (" serialised" if kernel.serialised else "") + (f" +{kernel.stores} B" if kernel.stores else "") + (" local" if kernel.local else "")


def written(table, version):
    lines = [f"Registers a thread; `+n B`: bytes spilled; `local`: arrays in local memory. {version}.", "",
             "| kernel | " + " | ".join(ARCHS) + " |", "|---|" + "---|" * len(ARCHS)]
    for key, row in table.items():
        lines.append("| " + " ".join(key) + " | " + " | ".join(cell(row[arch]) if arch in row else "" for arch in ARCHS) + " |")
    return "\n".join(lines)


def allowed(text):
    """{(script, type, width, kernel, architecture): (bytes, local)} of a page's table."""
    known, archs = {}, []
    for line in text.splitlines():
        cells = [word.strip() for word in line.strip().strip("|").split("|")]
        if cells[0] == "kernel":
            archs = cells[1:]
        elif archs and len(cells) == len(archs) + 1 and len(cells[0].split()) == 4:
            for arch, said in zip(archs, cells[1:]):
                spilled = re.search(r"\+(\d+) B", said)
                known[(*cells[0].split(), arch)] = int(spilled.group(1)) if spilled else 0, "local" in said
    return known


def compare(table, known):
    """Lines of what has grown, and of what has shrunk."""
    grown, shrunk = [], []
    for key, row in table.items():
        for arch, kernel in row.items():
            most, local = known.get((*key, arch), (0, False))
            said = f"{' '.join(key)} {arch}: {kernel.stores} bytes spilled{', local memory' if kernel.local else ''}; the page says {most}{', local memory' if local else ''}"
            if key[0] in RECURRENCES and kernel.lines > MOST_LINES:
                grown.append(f"{' '.join(key)} {arch}: {kernel.lines} lines of PTX, at most {MOST_LINES}")
            if kernel.serialised:
                grown.append(f"{' '.join(key)} {arch}: products end one before the next")
            elif kernel.stores > most or kernel.local > local:
                grown.append(said)
            elif kernel.stores < most or kernel.local < local:
                shrunk.append(said)
    return grown, shrunk


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("aulec")
    parser.add_argument("ptxas")
    parser.add_argument("page", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--archs", type=lambda names: names.split(","), default=ARCHS)
    parser.add_argument("--part", type=int, default=1, help="every Nth configuration")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--grown", action="store_true")
    arguments = parser.parse_args()
    page = TablePage(arguments.page, "ptxas")
    try:
        table = measure(arguments.aulec, arguments.ptxas, arguments.only, arguments.archs, arguments.part)
    except Refused as error:
        sys.exit(str(error))
    known = allowed(page.text)
    grown, shrunk = compare(table, known)
    for line in grown:
        print("more:", line)
    whole = not arguments.only and arguments.archs == ARCHS and arguments.part == 1
    if arguments.write and whole and (arguments.grown or not grown):
        said = subprocess.run([arguments.ptxas, "--version"], capture_output=True, text=True).stdout
        version = re.search(r"release ([\d.]+)", said)
        page.write(written(table, f"ptxas {version.group(1)}" if version else "ptxas"))
        grown, shrunk = [], []
    for line in shrunk:
        print("fewer, to be written down (tools/ptxas-table):", line)
    if not table:
        sys.exit("no such configuration")
    print(f"{sum(map(len, table.values()))} kernels, {len(grown)} spill more than {page.name} says, {len(shrunk)} less")
    sys.exit(1 if grown or shrunk else 0)


if __name__ == "__main__":
    main()
