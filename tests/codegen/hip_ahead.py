#!/usr/bin/env python3
"""What main loops of kernels for AMD's GPUs have loaded ahead is not waited for where scores are made.

    hip_ahead.py AULEC SCRIPT

The next tile is under way while products run; loads end in order, so a wait for anything that was loaded later, or that LLVM cannot tell from it, is a
wait for the tile. Looked at are the blocks whose products begin a sum: they have no wait for loads (vmcnt). hip_arrive.c and hip_memory.c say what it takes."""
import re
import subprocess
import sys

MACHINES = {"gfx942": "64", "gfx950": "128"}
KERNELS = ("_forward", "_backward_dkdv")
FEWEST = 8  # products of a block of scores


def blocks(text):
    """(kernel, lines of a block)"""
    kernel, lines = None, []
    for line in text.splitlines():
        label = re.match(r"([\w.]+):", line)
        if label or line.startswith("; %bb."):
            yield kernel, lines
            lines = []
            if label and not label[1].startswith(".L"):
                kernel = label[1]
        elif line.startswith("\t"):
            lines.append(line.strip())
    yield kernel, lines


def main():
    compiler, script = sys.argv[1:]
    seen, bad = 0, 0
    for machine, width in MACHINES.items():
        command = [compiler, script, "--target", "hip", "--arch", machine, "--dtype", "f16", "--width", f"D={width}", "--emit=asm"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = set()
        for kernel, lines in blocks(text):
            products = [n for n, line in enumerate(lines) if line.startswith("v_mfma")]
            begins = any(lines[n].endswith(", 0") for n in products)
            if not kernel or "few_" in kernel or not kernel.endswith(KERNELS) or len(products) < FEWEST or not begins:
                continue
            found.add(kernel)
            seen += 1
            waits = [line for line in lines[: products[-1]] if "vmcnt" in line]
            bad += bool(waits)
            if waits:
                print(f"{kernel}: among products of scores: {', '.join(waits)}")
        if len(found) != len(KERNELS):
            print(f"{machine}: scores of {sorted(found)} alone were found")
            bad += 1
    print(f"{seen} blocks of scores, {bad} wait for loads")
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
