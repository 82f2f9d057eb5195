#!/usr/bin/env python3
"""What ptxas makes of the kernels: registers, spills and local memory of every variant of some scripts.

    ptxas_report.py AULEC PTXAS [--arch sm_80,sm_90] [--dtype bf16,f32] [--width D=64] [--loops NVDISASM] SCRIPT...

Prints a table, one row a kernel. Fails where a module is not accepted, where an array of a lane lies in local memory, where a kernel
spills, or where ptxas says that it ends products of groups one before the next. What is known to spill in spite of it is in docs/dev/registers.md (ptxas_table.py). With --loops the machine code is
taken apart (nvdisasm: pip install nvidia-cuda-nvdisasm) and each long loop printed with what it consists of: how much of it is
HMMA, LDSM and MUFU, and what is only there to serve them."""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

LONG_LOOP = 150  # instructions
ASSEMBLER_LEAST = {"sm_70": "sm_75"}  # CUDA 13 has no sm_70 any more; its PTX is assembled for the next


def modules(text):
    """The modules of a listing, each with the architecture that it names."""
    starts = [m.start() for m in re.finditer(r"^\.version", text, re.M)]
    for begin, end in zip(starts, starts[1:] + [len(text)]):
        part = text[begin:end]
        yield re.search(r"^\.target (\w+)", part, re.M).group(1), part


def functions(listing):
    """The functions of a listing of nvdisasm: name, and instructions in blocks that begin at labels."""
    name, blocks = "", []
    for line in listing.splitlines():
        if found := re.match(r"\.text\.(\S+):", line):
            if name:
                yield name, blocks
            name, blocks = found.group(1), [("", [])]
        elif found := re.match(r"(\.L_x_\d+):", line):
            blocks.append((found.group(1), []))
        elif blocks and (found := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?);", line)):
            blocks[-1][1].append(found.group(1))
    if name:
        yield name, blocks


def loops(blocks):
    """Spans of blocks with a branch back to the first of them."""
    at = {label: n for n, (label, _) in enumerate(blocks)}
    for n, (_, code) in enumerate(blocks):
        for instruction in code:
            found = re.search(r"BRA.*`\((\.L_x_\d+)\)", instruction)
            if found and at.get(found.group(1), n + 1) <= n:
                yield [i for _, part in blocks[at[found.group(1)]:n + 1] for i in part]


def print_loops(nvdisasm, cubin):
    listing = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=True).stdout
    for name, blocks in functions(listing):
        for body in loops(blocks):
            if len(body) < LONG_LOOP:
                continue
            words = (re.sub(r"^@!?U?P\w+\s+", "", i).split()[0].split(".")[0] for i in body)
            counts = collections.Counter(words).most_common(14)
            print(f"    {name}: {len(body)} in a loop:", ", ".join(f"{word} {n}" for word, n in counts))


@dataclass
class Kernel:
    """What ptxas says of one."""

    name: str
    arch: str
    registers: int
    stack: int
    stores: int  # bytes spilled
    loads: int
    shared: int
    local: bool  # its module has arrays of lanes in local memory
    lines: int = 0  # of PTX of its module
    serialised: bool = False  # products of groups end one before the next (C7510 to C7517)


class Refused(Exception):
    """The compiler, or ptxas, does not take something."""


def assemble(ptxas, arch, text, nvdisasm=""):
    """The kernels of a module."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = os.path.join(folder, "x.ptx"), os.path.join(folder, "x.cubin")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([ptxas, "-v", "-arch=" + ASSEMBLER_LEAST.get(arch, arch), source, "-o", cubin],
                              capture_output=True, text=True)
        if nvdisasm and not done.returncode:
            print_loops(nvdisasm, cubin)
    if done.returncode:
        raise Refused(f"{arch}: {done.stderr}")
    name, frame, serialised = "", (0, 0, 0), bool(re.search(r"\(C751\d\)", done.stderr))
    for line in done.stderr.splitlines():
        if found := re.search(r"Compiling entry function '(\S+)'", line):
            name, frame = found.group(1), (0, 0, 0)
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            frame = tuple(int(n) for n in found.groups())
        elif found := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            yield Kernel(name, arch, int(found.group(1)), *frame, int(shared.group(1)) if shared else 0, "__local_depot" in text, text.count("\n"), serialised)


def kernels(aulec, ptxas, script, nvdisasm="", **options):
    """The kernels of a script, for options of aulec (arch, dtype, width)."""
    command = [aulec, script, "--target=cuda", "--emit=asm"] + [f"--{name}={value}" for name, value in options.items() if value]
    listing = subprocess.run(command, capture_output=True, text=True)
    if listing.returncode:
        raise Refused(listing.stderr.strip().splitlines()[0])
    for arch, text in modules(listing.stdout):
        yield from assemble(ptxas, arch, text, nvdisasm)


def report(arguments):
    bad = 0
    print(f"{'kernel':60} {'arch':7} regs stack spill+ spill-  smem")
    for script in arguments.scripts:
        try:
            for k in kernels(arguments.aulec, arguments.ptxas, script, arguments.loops, arch=arguments.arch, dtype=arguments.dtype, width=arguments.width):
                wrong = " SERIALISED" if k.serialised else " LOCAL" if k.local else " SPILLS" if k.stores else ""
                bad += bool(wrong)
                print(f"{k.name:60} {k.arch:7} {k.registers:4} {k.stack:5} {k.stores:6} {k.loads:6} {k.shared:5}{wrong}")
        except Refused as error:
            print(f"{script}: {error}")
            bad += 1
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("aulec")
    parser.add_argument("ptxas")
    parser.add_argument("scripts", nargs="+")
    parser.add_argument("--arch", default="sm_70,sm_75,sm_80,sm_86,sm_89,sm_90,sm_120")
    parser.add_argument("--dtype", default="f16,bf16,f32")
    parser.add_argument("--width", default="")
    parser.add_argument("--loops", metavar="NVDISASM", default="")
    bad = report(parser.parse_args())
    print(f"{bad} that should not be" if bad else "none spills")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
