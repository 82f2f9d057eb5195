#!/usr/bin/env python3
"""What Intel's offline compiler makes of modules: every one for its matrix units compiles, each kernel with all registers and nothing in private memory, and
none spills more, has fewer products in its loop over keys or queries (DPAS), or more instructions or cycles there, than docs/dev/levelzero.md says; and what kernels
without matrix units keep in private memory, on those and on dg2, whose units have other lanes.

    ocloc_table.py AULEC OCLOC PAGE SCRIPT [--widths 64,128] [--types f16,bf16] [--devices pvc,bmg,dg2] [--layouts dense,packed] [--kernel forward] [--write]

OCLOC is what tests/tools/ocloc.sh makes; where it is not there, this is skipped. PAGE has four tables, of bytes a subgroup that are spilled, of
`DPAS / all instructions` of the shortest loop that has any, of `cycles of products / of all else / bytes by blocks` of that loop, and of private bytes a lane, between the markers `<!-- ocloc TABLE -->` and `<!-- end -->`;
kernels that are not in the first spill nothing, those that are not in the second have no DPAS. --write makes them anew. A compiler of another version may
do more or less: then the tables are to be written again, and looked at. --kernel compiles the modules of that kernel alone.
"""
import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

MAGIC = 0x07230203
DEVICES = "pvc", "bmg", "lnl"  # with products of 16 lanes
PLAIN_DEVICES = "bmg", "dg2"  # without matrix units; dg2 has products of 8 lanes alone, so that it is given no others
PLAIN_OPTIONS = "-ze-opt-greater-than-4GB-buffer-required"  # the backend's
PRODUCT = {"pvc": 8, "bmg": 16, "lnl": 16}  # cycles of an engine for 8 x 16 x 16: 4096 and 2048 operations a cycle of an Xe-core, which has eight
OPTIONS = "-ze-opt-large-register-file " + PLAIN_OPTIONS  # for modules with matrix units
END = "<!-- end -->"
PRIVATE_TYPES = "f32", "f16"
# What is compiled: how rows lie, a width, devices, what else aulec is told. lnl's compiler makes what bmg's does.
CONFIGURATIONS = (
    *(("dense", width, DEVICES, ()) for width in (64, 128)),
    *(("dense", width, ("pvc", "bmg"), ()) for width in (160, 192)),
    ("dense", 256, ("pvc", "bmg"), ("--no-grad",)),  # gradients go through shared memory
    *((layout, width, ("pvc", "bmg"), (f"--layout=S={layout},T={layout}",)) for layout in ("packed", "padded") for width in (64, 128, 192)),
)


def modules(data: bytes) -> list:
    """Modules lie one behind the other; a module's words are instructions that say their lengths."""
    words = struct.unpack(f"<{len(data) // 4}I", data)
    found, at = [], 0
    while at < len(words):
        begin, at = at, at + 5
        while at < len(words) and words[at] != MAGIC:
            at += words[at] >> 16
        found.append(data[begin * 4:at * 4])
    return found


def kernels(binary: bytes) -> list:
    """(name, fields) of the compiler's description of kernels, which is text in the binary."""
    begin = binary.find(b"kernels:")
    text = binary[begin:binary.find(b"\0", begin)].decode("latin1") if begin >= 0 else ""
    text = text.partition("kernels_misc_info:")[0]  # where each stands again
    parts = [part for part in text.split("- name:")[1:] if not part.split()[0].startswith("Intel_")]
    return [(part.split()[0], dict(re.findall(r"(spill_size|private_size|grf_count): *(\d+)", part))) for part in parts]


def shortest_loop(assembly: str) -> list:
    """Instructions, (name, line), of the shortest loop with any DPAS: from a label to a branch behind it that names it."""
    labels, ops, loops = {}, [], []
    for line in assembly.splitlines():
        label = re.match(r"(\w+):", line)
        op = re.match(r"(?:\([^)]*\))?\s+([a-z][\w.]*)\s", line)
        if label:
            labels[label[1]] = len(ops)
        elif op:
            ops.append((op[1], line))
            targets = re.findall(r"\w+", line.partition("//")[0]) if op[1].startswith(("jmpi", "goto", "while")) else []
            loops += [ops[labels[target]:] for target in targets if target in labels]
    return min((loop for loop in loops if products(loop)), key=len, default=[])


def products(loop: list) -> int:
    return sum(name.startswith("dpas") for name, _ in loop)


def cycles(name: str, line: str) -> int:
    """Of a vector engine of 512 bits for an instruction that is no product: as many as its lanes fill; functions (math) take four times as long."""
    lanes = re.search(r"\((\d+)\|M\d+\)", line)
    wide = re.search(r">:(?:u?q|df)\b", line) is not None
    return max(1, int(lanes[1] if lanes else 1) * (8 if wide else 4) // 64) * (4 if name.startswith("math") else 1)


def cost(loop: list, device: str) -> tuple:
    """Cycles of an engine for products and for all else, and bytes that blocks bring."""
    loads = [re.search(r"\)\s+r\d+:(\d+)\s", line) for name, line in loop if name.startswith("load_block2d")]
    return (products(loop) * PRODUCT[device], sum(cycles(*one) for one in loop if not one[0].startswith("dpas")), sum(64 * int(load[1]) for load in loads if load))


def assemblies(dump: Path) -> dict:
    """Texts by (kernel, spilled bytes): the compiler may try a kernel twice, and dumps both."""
    found = {}
    for path in dump.glob("*.asm"):
        text = path.read_text(errors="replace")
        spilled = re.search(r"^//\.spill size (\d+)", text, re.M)
        found[re.match(r"//\.kernel (\S+)", text)[1], int(spilled[1]) if spilled else 0] = text
    return found


def compiled(given, arch: str, dtype: str, width: int, devices: tuple, options: str, folder: Path, told: tuple = ()):
    """Of each kernel on each device: its name without what all have in front, the device, its fields, its loop."""
    out = folder / "modules"
    subprocess.run([given.aulec, given.script, "--target=levelzero", f"--arch={arch}", f"--dtype={dtype}", f"--width=D={width}", f"--width=E={width}", "--emit=spirv", "-o", out, *told],
                   check=True, capture_output=True)
    for module in modules(out.read_bytes()):
        if given.kernel and f"_{arch}_{given.kernel}\0".encode() not in module:
            continue
        (folder / "one.spv").write_bytes(module)
        for device in devices:
            made, dump = folder / f"k_{device}.bin", folder / "dump"
            command = [given.ocloc, "compile", "-q", "-spirv_input", "-file", folder / "one.spv", "-device", device, "-out_dir", folder, "-output", "k", "-options", options]
            done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, IGC_ShaderDumpEnable="1", IGC_DumpToCustomDir=str(dump)))
            if done.returncode or not made.exists():
                sys.exit(f"{dtype}, width {width}, {device}: ocloc refuses a module: {(done.stdout + done.stderr).strip()[-500:]}")
            found, texts = kernels(made.read_bytes()), assemblies(dump)
            made.unlink()
            shutil.rmtree(dump, ignore_errors=True)
            if not found:
                sys.exit(f"{dtype}, width {width}, {device}: ocloc's binary names no kernels")
            for name, fields in found:
                text = texts.get((name, int(fields.get("spill_size", 0))))
                if text is None:
                    sys.exit(f"{name} on {device}: no assembly of it was dumped")
                yield name.split(f"_{arch}_")[-1], device, fields, shortest_loop(text)


def measure(given, folder: Path) -> dict:
    """Numbers by table and (kernel, width, type, device); what is wrong ends the program."""
    def among(devices: tuple) -> tuple:
        return tuple(device for device in devices if device in given.devices.split(","))

    tables = {"spills": {}, "loops": {}, "cycles": {}, "private": {}}
    for dtype in given.types.split(","):
        for layout, width, devices, told in CONFIGURATIONS:
            if not (layout in given.layouts.split(",") and str(width) in given.widths.split(",")):
                continue
            for kernel, device, fields, loop in compiled(given, "xe2", dtype, width, among(devices), OPTIONS, folder, told):
                kernel += "" if layout == "dense" else f" {layout}"
                if fields.get("grf_count") != "256" or int(fields.get("private_size", 0)):
                    sys.exit(f"{kernel} on {device}: {fields}; expected 256 registers and no private memory")
                tables["spills"][kernel, width, dtype, device] = (int(fields.get("spill_size", 0)),)
                tables["loops"][kernel, width, dtype, device] = products(loop), len(loop)
                tables["cycles"][kernel, width, dtype, device] = cost(loop, device) if loop else (0, 0, 0)
    for dtype in [dtype for dtype in PRIVATE_TYPES if not given.kernel or dtype in given.types.split(",")]:
        for kernel, device, fields, _ in compiled(given, "levelzero10", dtype, 64, among(PLAIN_DEVICES), PLAIN_OPTIONS, folder):
            tables["private"][kernel, 64, dtype, device] = (int(fields.get("private_size", 0)),)
    return tables


def heads(name: str) -> list:
    if name == "private":
        return [(dtype, device) for dtype in PRIVATE_TYPES for device in PLAIN_DEVICES]
    return [(dtype, device) for dtype in ("f16", "bf16") for device in DEVICES]


def begin(name: str) -> str:
    return f"<!-- ocloc {name} -->\n"


def read(page: str, name: str) -> dict:
    rows = re.findall(r"\| `([\w ]+)`, (\d+) \|(.*)\|\n", page.split(begin(name))[1].split(END)[0])
    return {(kernel, int(width), *head): tuple(map(int, re.findall(r"\d+", cell)))
            for kernel, width, cells in rows for head, cell in zip(heads(name), cells.split("|"))}


def table(name: str, measured: dict) -> str:
    text = "| kernel, width | " + " | ".join(f"{dtype}, `{device}`" for dtype, device in heads(name)) + " |\n" + "|---" * (len(heads(name)) + 1) + "|\n"
    for kernel, width in dict.fromkeys(key[:2] for key in sorted(measured)):
        cells = [measured.get((kernel, width, *head), ()) for head in heads(name)]
        if any(any(cell) for cell in cells) or (kernel.startswith("forward") and name == "spills"):
            text += f"| `{kernel}`, {width} | {' | '.join(' / '.join(map(str, cell)) or '-' for cell in cells)} |\n"
    return text


def worse(name: str, found: tuple, said: tuple) -> bool:
    """Fewer products, or more of anything else; cycles of kernels that are listed."""
    if name == "cycles":
        return len(said) == len(found) and any(now > then for now, then in zip(found, said))
    if name == "loops":
        return found[0] < said[0] or found[1] > said[1]
    return found[0] > said[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("aulec", "ocloc", "page", "script"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--widths", default=",".join(dict.fromkeys(str(width) for _, width, *_ in CONFIGURATIONS)))
    parser.add_argument("--layouts", default=",".join(dict.fromkeys(layout for layout, *_ in CONFIGURATIONS)))
    parser.add_argument("--types", default="f16,bf16")
    parser.add_argument("--devices", default=",".join(dict.fromkeys(DEVICES + PLAIN_DEVICES)))
    parser.add_argument("--kernel", default="", help="modules that have this one")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if not given.ocloc.exists():
        print(f"{given.ocloc} (tests/tools/ocloc.sh) is not there")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        tables = measure(given, Path(folder))
    if not any(tables.values()):
        parser.error(f"no module has a kernel {given.kernel}")
    page = given.page.read_text()
    if given.write:
        for name, measured in tables.items():
            head, rest = page.split(begin(name))
            page = head + begin(name) + table(name, measured) + END + rest.split(END, 1)[1]
        given.page.write_text(page)
        return 0
    wrong = []
    for name, measured in tables.items():
        said = read(page, name)
        wrong += [f"{name}: {', '.join(map(str, key))}: {found}, {said.get(key, (0, 0))} said" for key, found in measured.items() if worse(name, found, said.get(key, (0, 0)))]
    print("\n".join(wrong) or f"{sum(map(len, tables.values()))} kernels are no worse than {given.page.name} says")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
