#!/usr/bin/env python3
"""What the compiler's model forecasts for kernels of AMD's GPUs beside what the emulator counted, as a table in a document.

    forecast.py AULEC SCRIPTS LOOPS_PAGE PAGE [--write]

Counts are those of LOOPS_PAGE (docs/dev/loops-hip.md), forecasts what `aulec --emit=tiled-ir` says. Without --write: exit status 1 where PAGE
has another table, and where a forecast is far from the count. A processor has four SIMDs, so a quarter of a wave's cycles for 32 x 32 pairs: at least those of the class that has more
(products run under other instructions), at most all of them."""
import argparse
import re
import subprocess
import sys
from pathlib import Path

from loops import read

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from table_page import TablePage

SIMDS, FAR = 4, 6  # FAR: of the most cycles that were counted; a forecast beyond has something in it that is no cycle
MATRIX, OTHERS = 7, 8  # columns of cycles of a row of LOOPS_PAGE


def forecasts(aulec, script, dtype, width, machine):
    """{forward, backward: cycles}: of each operation the last kernel that has one, which is of many queries."""
    done = subprocess.run([aulec, script, "--target", "hip", "--arch", machine, "--dtype", dtype, "--width", f"D={width}", "--width", f"E={width}", "--emit=tiled-ir"],
                          capture_output=True, text=True, check=True)
    found = re.findall(r"^// ==== .*: warps_(\w+):.*\n// forecast: ([\d.]+) cycles", done.stdout, re.M)
    return {operation: float(cycles) for operation, cycles in found}


def table(aulec, scripts, loops):
    lines, known = ["| kernel | machine | forecast | counted, at least | at most |", "|---|---|---|---|---|"], {}
    for (kernel, machine), cells in read(loops.read_text()).items():
        script, dtype, width, operation = kernel.split()
        matrix, others = cells[MATRIX], cells[OTHERS]
        key = script, dtype, width, machine
        if key not in known:
            known[key] = forecasts(aulec, scripts / f"{script}.attn", dtype, width, machine)
        least, most = max(matrix, others) / SIMDS, (matrix + others) / SIMDS
        if known[key].get(operation, 0) > FAR * most:
            sys.exit(f"{kernel} on {machine}: a forecast of {known[key][operation]:.0f} cycles, counted {most:.0f}")
        lines.append(f"| {script} {dtype} {width} {operation} | {machine} | {known[key].get(operation, 0):.0f} | {least:.0f} | {most:.0f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("aulec")
    parser.add_argument("scripts", type=Path)
    parser.add_argument("loops", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    page = TablePage(given.page, "forecast")
    made = table(given.aulec, given.scripts, given.loops)
    if given.write:
        page.write(made)
    elif made != page.text:
        sys.exit(f"{page.name} has another table: tests/emulate/forecast.py --write\n{made}")


if __name__ == "__main__":
    main()
