#!/usr/bin/env python3
"""What the model of shapes for sm_90a forecasts beside what was measured, as a table in a document.

    forecast_shapes.py AULEC SCRIPTS PAGE [--write]

A row of the table names a script of SCRIPTS, widths, a length and a shape, and has TFLOP/s: the forecast, which this writes, and what was measured, which it
leaves as it is. Forecasts are cycles, of `aulec --emit=shapes`, at the clock and with the processors below. Without --write: exit status 1 where PAGE has
other forecasts."""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from table_page import TablePage

PROCESSORS, CLOCK = 132, 1.62e9  # of an H100 or H200 at its power limit
PAIRS = 32 * 32


def cycles(aulec, script, widths, length, shape, folder):
    """For 32 x 32 pairs, of the kernel whose shape it is; it need not be what is made by rule."""
    d, e = (widths.split("/") * 2)[:2]
    table = folder / "one.shapes"
    schedule = shape.partition(":")[0]
    other = "" if length == "long" else f"sm_90a bf16 {d} {e} long {schedule}: stages=1\n"  # so that there is one for short rows
    table.write_text(f"sm_90a bf16 {d} {e} {length} {shape}\n{other}")
    done = subprocess.run([aulec, script, "--target=cuda", "--arch=sm_90a", "--dtype=bf16", "--width", f"D={d}", "--width", f"E={e}", "--emit=shapes", "--shapes", table],
                          capture_output=True, text=True, check=True)
    if "W0601" in done.stderr:
        sys.exit(f"{shape}: {done.stderr}")
    part = next(p for p in done.stdout.split("// ==== ")[1:] if f": {schedule}:" in p.splitlines()[0] and re.search(rf"// for tables: .* {length};", p))
    return float(re.search(r"^taken +([\d.]+)", part, re.M).group(1))


def table(aulec, scripts, lines):
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for line in lines:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == 6 and cells[0] in ("full", "causal", "window"):
                script, widths, length, shape = cells[:4]
                d, e = map(int, (widths.split("/") * 2)[:2])
                flops = (1.0 if "forward" in shape else 2.5) * 2.0 * (d + e) * PAIRS
                cells[4] = f"{flops / cycles(aulec, scripts / f'{script}.attn', widths, length, shape.strip('`'), Path(folder)) * PROCESSORS * CLOCK * 1e-12:.0f}"
                line = "| " + " | ".join(cells) + " |"
            made.append(line)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("aulec")
    parser.add_argument("scripts", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    page = TablePage(given.page, "shapes")
    made = "\n".join(table(given.aulec, given.scripts, page.text.split("\n")))
    if given.write:
        page.write(made)
    elif made != page.text:
        sys.exit(f"{page.name} has another table: tests/driver/forecast_shapes.py --write\n{made}")


if __name__ == "__main__":
    main()
