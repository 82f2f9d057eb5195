#!/usr/bin/env python3
"""Which scripts of attn_scripts are carried by groups of warps (wgmma), and why the others are not, as a table in a document.

    groups_table.py AULEC PAGE [--write]

Asks the compiler for the schedules of every script for sm_90a, operands of bf16, default widths, and compares with what stands between the page's
markers; --write puts it there (tools/groups-table). Reasons are the compiler's words, those that `aule inspect` shows behind `#`."""
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from table_page import TablePage

ROOT = Path(__file__).resolve().parent.parent.parent
OPERATIONS = ("forward", "backward")
ASIDE = ("decode", "step", "few", "append", "combine")  # for few rows, beside the kernels for any number


def schedules(listing):
    """(attention, widths, operation, schedule, why) of each program in a listing of tiled IR."""
    heads = list(re.finditer(r"^// ==== (\w+), \w+, [\w ]+: (\w+):[^#\n]*(?:# (.*))?$", listing, re.M))
    for head, end in zip(heads, [h.start() for h in heads[1:]] + [len(listing)]):
        attention, schedule, why = head.groups()
        text = listing[head.end():end]
        widths = "/".join(dict.fromkeys(found.group(1) for axis in "de" if (found := re.search(rf"[ \[]{axis}:(\d+)\]", text))))
        reasons = [reason for reason in (why or "").split(" # ") if not reason.startswith("few queries, too: ")]
        yield attention, widths, OPERATIONS["back" in schedule], schedule, " # ".join(reasons)


def cell(found):
    """What carries the operation, and why no groups of warps do. Only those are passed by in silence that are for fewer rows."""
    by_group = [schedule for schedule, _ in found if schedule.startswith("group_")]
    if by_group:
        return by_group[0]
    told = [(schedule, why) for schedule, why in found if why]
    schedule, why = (told or found)[-1]
    return schedule + (": " + why.removeprefix("no boxes: ") if why else "")


def rows_of(listing):
    """{(attention, forward, backward): [widths]}"""
    found = {}
    for attention, widths, operation, schedule, why in schedules(listing):
        if not any(word in schedule for word in ASIDE):
            found.setdefault((attention, widths), {}).setdefault(operation, []).append((schedule, why))
    rows = {}
    for (attention, widths), operations in found.items():
        cells = tuple(cell(operations[o]) if o in operations else "none" for o in OPERATIONS)
        rows.setdefault((attention, *cells), []).append(widths)
    return rows


def ask(aulec, script):
    command = [aulec, str(script), "--target=cuda", "--arch=sm_90a", "--dtype=bf16", "--emit=tiled-ir"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{script.name}: {done.stderr.strip().splitlines()[0]}")
    return script.name, rows_of(done.stdout)


def table(aulec):
    lines = ["| script | attention | widths | forward | backward |", "|---|---|---|---|---|"]
    with ThreadPoolExecutor(2) as pool:
        for name, rows in pool.map(lambda script: ask(aulec, script), sorted(ROOT.glob("attn_scripts/*.attn"))):
            lines += [f"| {name} | {attention} | {', '.join(widths)} | {forward} | {backward} |" for (attention, forward, backward), widths in rows.items()]
    return lines


def main():
    aulec, page = sys.argv[1], TablePage(Path(sys.argv[2]), "groups")
    lines, known = table(aulec), page.text.splitlines()
    if "--write" in sys.argv[3:]:
        page.write("\n".join(lines))
        known = lines
    for line in known:
        if line not in lines:
            print("the page says, the compiler not:", line)
    for line in lines:
        if line not in known:
            print("the compiler says, the page not:", line)
    silent = [line for line in lines[2:] for said in line.split(" | ")[3:] if not re.match(r"group_|none|\w+: \w", said)]
    for line in silent:
        print("no reason is given:", line)
    by_groups = sum("group_" in line for line in lines)
    print(f"{len(lines) - 2} rows, {by_groups} with groups of warps")
    sys.exit(0 if lines == known and by_groups and not silent else 1)


if __name__ == "__main__":
    main()
