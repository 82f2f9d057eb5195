#!/usr/bin/env python3
"""What Intel's offline compiler makes of modules for its matrix units: every module compiles, for every kernel with all registers and nothing in private
memory, and none spills more than docs/dev/levelzero.md says.

    ocloc_table.py AULEC OCLOC PAGE SCRIPT [--widths 64,128] [--types f16,bf16] [--devices pvc,bmg] [--kernel forward] [--write]

OCLOC is what tests/tools/ocloc.sh makes; where it is not there, this is skipped. PAGE has a table of bytes a subgroup between the markers
`<!-- ocloc -->` and `<!-- end -->`; kernels that are not in it spill nothing. --write makes it anew. A compiler of another version may spill more or less:
then the table is to be written again, and looked at. --kernel compiles the modules of that kernel alone.
"""
import argparse
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

MAGIC = 0x07230203
DEVICES = "pvc", "bmg"
OPTIONS = "-ze-opt-large-register-file -ze-opt-greater-than-4GB-buffer-required"  # the backend's, for such modules
BEGIN, END = "<!-- ocloc -->\n", "<!-- end -->"


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


def measure(given, dtype: str, width: int, folder: Path) -> dict:
    """Spilled bytes by (kernel, width, type, device); what is wrong ends the program."""
    out, spills = folder / "modules", {}
    subprocess.run([given.aulec, given.script, "--target=levelzero", "--arch=xe2", f"--dtype={dtype}", f"--width=D={width}", f"--width=E={width}", "--emit=spirv", "-o", out],
                   check=True, capture_output=True)
    for module in modules(out.read_bytes()):
        if f"_xe2_{given.kernel}\0".encode() not in module and given.kernel:
            continue
        (folder / "one.spv").write_bytes(module)
        for device in given.devices.split(","):
            made = folder / f"k_{device}.bin"
            command = [given.ocloc, "compile", "-q", "-spirv_input", "-file", folder / "one.spv", "-device", device, "-out_dir", folder, "-output", "k", "-options", OPTIONS]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode or not made.exists():
                sys.exit(f"{dtype}, width {width}, {device}: ocloc refuses a module: {(done.stdout + done.stderr).strip()[-500:]}")
            found = kernels(made.read_bytes())
            made.unlink()
            if not found:
                sys.exit(f"{dtype}, width {width}, {device}: ocloc's binary names no kernels")
            for name, fields in found:
                kernel = name.split("_xe2_")[-1]
                if fields.get("grf_count") != "256" or int(fields.get("private_size", 0)):
                    sys.exit(f"{name} on {device}: {fields}; expected 256 registers and no private memory")
                spills[kernel, width, dtype, device] = int(fields.get("spill_size", 0))
    return spills


def read(page: str) -> dict:
    rows = re.findall(r"\| `(\w+)`, (\d+) \|(.*)\|\n", page.split(BEGIN)[1].split(END)[0])
    heads = [(dtype, device) for dtype in ("f16", "bf16") for device in DEVICES]
    return {(kernel, int(width), *head): int(cell) for kernel, width, cells in rows for head, cell in zip(heads, cells.split("|"))}


def table(spills: dict) -> str:
    heads = [(dtype, device) for dtype in ("f16", "bf16") for device in DEVICES]
    text = "| kernel, width | " + " | ".join(f"{dtype}, `{device}`" for dtype, device in heads) + " |\n" + "|---" * 5 + "|\n"
    for kernel, width in dict.fromkeys(key[:2] for key in sorted(spills)):
        cells = [spills.get((kernel, width, *head)) for head in heads]
        if any(cells) or kernel == "forward":
            text += f"| `{kernel}`, {width} | {' | '.join('-' if cell is None else str(cell) for cell in cells)} |\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("aulec", "ocloc", "page", "script"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--widths", default="64,128")
    parser.add_argument("--types", default="f16,bf16")
    parser.add_argument("--devices", default=",".join(DEVICES))
    parser.add_argument("--kernel", default="", help="modules that have this one")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if not given.ocloc.exists():
        print(f"{given.ocloc} (tests/tools/ocloc.sh) is not there")
        return 77
    spills = {}
    with tempfile.TemporaryDirectory() as folder:
        for dtype in given.types.split(","):
            for width in map(int, given.widths.split(",")):
                spills |= measure(given, dtype, width, Path(folder))
    if not spills:
        parser.error(f"no module has a kernel {given.kernel}")
    page = given.page.read_text()
    if given.write:
        given.page.write_text(page.split(BEGIN)[0] + BEGIN + table(spills) + END + page.split(BEGIN)[1].split(END, 1)[1])
        return 0
    said = read(page)
    wrong = [f"{', '.join(map(str, key))}: {spilled} bytes, {said.get(key, 0)} said" for key, spilled in spills.items() if spilled > said.get(key, 0)]
    print("\n".join(wrong) or f"{len(spills)} kernels spill no more than {given.page.name} says")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
