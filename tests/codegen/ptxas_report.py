#!/usr/bin/env python3
"""What ptxas makes of the kernels: registers, spills and local memory of every variant of some scripts.

    ptxas_report.py AULEC PTXAS [--arch sm_80,sm_90] [--dtype bf16,f32] [--width D=64] [--all] SCRIPT...

Prints a table, one row a kernel. Fails where a module is not accepted, where an array of a lane lies in local memory, or
where a kernel spills more than a line of its loop can hide: that is more than SPILL bytes of stores."""
import argparse
import os
import re
import subprocess
import sys
import tempfile

SPILL = 128
ASSEMBLER_LEAST = {"sm_70": "sm_75"}  # CUDA 13 has no sm_70 any more; its PTX is assembled for the next


def modules(text):
    """The modules of a listing, each with the architecture that it names."""
    starts = [m.start() for m in re.finditer(r"^\.version", text, re.M)]
    for begin, end in zip(starts, starts[1:] + [len(text)]):
        part = text[begin:end]
        yield re.search(r"^\.target (\w+)", part, re.M).group(1), part


def assemble(ptxas, arch, text):
    """Rows of (kernel, registers, stack, spill stores, spill loads, shared)."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([ptxas, "-v", "-arch=" + ASSEMBLER_LEAST.get(arch, arch), file.name, "-o", os.devnull],
                              capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr
    rows, name, frame = [], "", (0, 0, 0)
    for line in done.stderr.splitlines():
        if found := re.search(r"Compiling entry function '(\S+)'", line):
            name, frame = found.group(1), (0, 0, 0)
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            frame = tuple(int(n) for n in found.groups())
        elif found := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            rows.append((name, int(found.group(1)), *frame, int(shared.group(1)) if shared else 0))
    return rows, ""


def report(arguments):
    bad = 0
    print(f"{'kernel':60} {'arch':7} regs stack spill+ spill-  smem")
    for script in arguments.scripts:
        command = [arguments.aulec, script, "--target=cuda", "--emit=asm"]
        for option in ("arch", "dtype", "width"):
            if getattr(arguments, option):
                command.append(f"--{option}={getattr(arguments, option)}")
        listing = subprocess.run(command, capture_output=True, text=True)
        if listing.returncode:
            print(f"{script}: {listing.stderr.strip().splitlines()[0]}")
            bad += 1
            continue
        for arch, text in modules(listing.stdout):
            rows, said = assemble(arguments.ptxas, arch, text)
            if rows is None:
                print(f"{script} {arch}: {said}")
                bad += 1
                continue
            for name, registers, stack, stores, loads, shared in rows:
                local = "__local_depot" in text
                wrong = " LOCAL" if local else " SPILLS" if stores > SPILL else ""
                bad += bool(wrong)
                print(f"{name:60} {arch:7} {registers:4} {stack:5} {stores:6} {loads:6} {shared:5}{wrong}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("aulec")
    parser.add_argument("ptxas")
    parser.add_argument("scripts", nargs="+")
    parser.add_argument("--arch", default="sm_70,sm_75,sm_80,sm_86,sm_89,sm_90,sm_120")
    parser.add_argument("--dtype", default="f16,bf16,f32")
    parser.add_argument("--width", default="")
    bad = report(parser.parse_args())
    print(f"{bad} that should not be" if bad else "none spills")
    sys.exit(1 if bad else 0)


main()
