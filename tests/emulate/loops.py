#!/usr/bin/env python3
"""What the main loops of kernels for AMD's GPUs execute, by the emulator's counts, as a table in a document.

    loops.py LOOPS_TEST SCRIPTS PAGE [--write | --only WORDS]

LOOPS_TEST (loops_test.c) runs kernels on the emulated machines and prints a line for each configuration; the environment says where their driver
is. The result is compared with PAGE: more 16-bit reads of LDS, a tenth more
conflicts of banks, or a share of matrix cycles that is more than a point below what it says, are
a failure, and so is one that is more than a point above, until it is written down. --write puts the table between the page's markers
(tools/hip-loops); --only: configurations that have all of these words."""
import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from table_page import TablePage

HEAD = "| kernel | machine | matrix | vector | LDS | of 16 bits | memory | scalar | waits | matrix cycles | all others' | LDS cycles | conflicts | share |"
POINT = 1.0


def measure(program, scripts, words):
    """{(kernel, machine): cells}"""
    made = subprocess.run([program, scripts, *words], capture_output=True, text=True)
    if made.returncode:
        sys.exit(made.stdout + made.stderr)
    table = {}
    for line in made.stdout.splitlines():
        name, _, numbers = line.partition(":")
        *kernel, machine = name.split()
        scalar, vector, matrix, lds, memory, waits, narrow, busy, other, banks, conflicts = map(float, numbers.split())
        table[" ".join(kernel), machine] = [matrix, vector, lds, narrow, memory, scalar, waits, busy, other, banks, conflicts, 100 * busy / (busy + other)]
    return table


def written(table):
    lines = [HEAD, "|" + "---|" * (HEAD.count("|") - 1)]
    order = list(dict.fromkeys(kernel for kernel, _ in table))
    for kernel, machine in sorted(table, key=lambda key: order.index(key[0])):
        *numbers, share = table[kernel, machine]
        lines.append(f"| {kernel} | {machine} | " + " | ".join(f"{number:g}" for number in numbers) + f" | {share:.1f} % |")
    return "\n".join(lines)


def read(text):
    known = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 14 and cells[-1].endswith("%"):
            known[cells[0], cells[1]] = [float(cell.rstrip(" %")) for cell in cells[2:]]
    return known


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("scripts")
    parser.add_argument("page", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    page = TablePage(arguments.page, "loops")
    known, table = read(page.text), measure(arguments.program, arguments.scripts, arguments.only.split())
    if arguments.write:
        page.write(written({**known, **table} if arguments.only else table))
        return
    bad = 0
    for key, cells in table.items():
        was = known.get(key)
        good = was and cells[3] <= was[3] and cells[-2] <= 1.1 * was[-2] + 1 and abs(cells[-1] - was[-1]) <= POINT
        bad += not good
        if not good:
            print(f"{' '.join(key)}: {cells[3]:g} reads of 16 bits, {cells[-2]:g} conflicts, share {cells[-1]:.1f} %; the page says {was and (was[3], *was[-2:])}")
    print(f"{len(table)} kernels, {bad} other than {page.name} says")
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
