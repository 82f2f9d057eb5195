"""Code objects of the target hip: what AMD's loader will read of them, what kernels take, and that LLVM's disassembler knows every
instruction. Nothing here runs a kernel: that needs the device.

    hip_objects.py AULEC OBJDUMP SCRIPT...     OBJDUMP "": its part is left out, and that is said

Code objects are found in artifacts by their ELF heads, metadata is read here (MessagePack), not by LLVM's tools.
"""
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

AMDGPU, NOTE_METADATA, FUNCTION = 224, 32, 2
# Low byte of e_flags, "AMDGPU Usage", processors. LDS of a workgroup; registers of a lane, vector and accumulation together.
MACHINES = {"gfx908": (0x30, 64, 512), "gfx90a": (0x3F, 64, 512), "gfx942": (0x4C, 64, 512), "gfx950": (0x4F, 160, 512),
            "gfx1030": (0x36, 64, 256), "gfx1100": (0x41, 64, 256), "gfx1200": (0x48, 64, 256)}
# Other machines of a generation, and generic ISAs, whose code objects have version 6.
OTHERS = {"gfx1101": (0x46, 64, 256), "gfx1102": (0x47, 64, 256), "gfx1103": (0x44, 64, 256), "gfx1150": (0x43, 64, 256), "gfx1151": (0x4A, 64, 256),
          "gfx1152": (0x55, 64, 256), "gfx1153": (0x58, 64, 256), "gfx1201": (0x4E, 64, 256), "gfx9-4-generic": (0x5F, 64, 512),
          "gfx10-3-generic": (0x53, 64, 256), "gfx11-generic": (0x54, 64, 256), "gfx12-generic": (0x59, 64, 256)}
ARCHS = MACHINES | OTHERS
# Products that a kernel on matrix units must have, by operand type; RDNA2 has no such units.
PRODUCTS = {"gfx1030": {"f16": "v_dot2c_f32_f16"},
            "gfx908": {"f16": "v_mfma_f32_32x32x8f16", "bf16": "v_mfma_f32_32x32x4bf16"},
            "gfx90a": {"f16": "v_mfma_f32_32x32x8f16", "bf16": "v_mfma_f32_32x32x8bf16_1k"},
            "gfx942": {"f16": "v_mfma_f32_32x32x8_f16", "bf16": "v_mfma_f32_32x32x8_bf16"},
            "gfx950": {"f16": "v_mfma_f32_32x32x16_f16", "bf16": "v_mfma_f32_32x32x16_bf16"},
            "gfx1100": {"f16": "v_wmma_f32_16x16x16_f16", "bf16": "v_wmma_f32_16x16x16_bf16"},
            "gfx1200": {"f16": "v_wmma_f32_16x16x16_f16", "bf16": "v_wmma_f32_16x16x16_bf16"}}
ELDEST = {"gfx9-4": "gfx942", "gfx10-3": "gfx1030", "gfx11": "gfx1100", "gfx12": "gfx1200"}


def unpack(data, at=0):
    """A MessagePack value, and where it ends."""
    def items(count, at):
        found = []
        for _ in range(count):
            value, at = unpack(data, at)
            found.append(value)
        return found, at

    def number(form, at):
        return struct.unpack_from(">" + form, data, at)[0], at + struct.calcsize(form)

    head, at = data[at], at + 1
    if head < 0x80:
        return head, at
    if head >= 0xE0:
        return head - 256, at
    if head < 0xA0 or head in (0xDC, 0xDD, 0xDE, 0xDF):
        count = head & 15
        if head >= 0xDC:
            count, at = number("H" if head in (0xDC, 0xDE) else "I", at)
        is_map = head < 0x90 or head in (0xDE, 0xDF)
        found, at = items(2 * count if is_map else count, at)
        return (dict(zip(found[::2], found[1::2])) if is_map else found), at
    if head < 0xC0 or head in (0xD9, 0xDA, 0xDB):
        count = head & 31
        if head >= 0xD9:
            count, at = number({0xD9: "B", 0xDA: "H", 0xDB: "I"}[head], at)
        return data[at:at + count].decode(), at + count
    if head in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[head], at
    return number({0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q"}[head], at)


class Object:
    """A code object: kernels by name, each its metadata and its descriptor's fields."""

    def __init__(self, data):
        self.data = data
        self.abi, self.machine = data[8], struct.unpack_from("<H", data, 18)[0]
        at, self.flags = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<I", data, 48)[0]
        size, count = struct.unpack_from("<HH", data, 58)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + n * size) for n in range(count)]
        self.kernels = {k[".name"]: k for k in self.metadata()["amdhsa.kernels"]}
        self.symbols, self.sizes = {}, {}
        for name, value, size in self.dynamic():
            self.symbols[name], self.sizes[name] = value, size
        for name, kernel in self.kernels.items():
            where = self.place(self.symbols[name + ".kd"])
            shared, private, arguments = struct.unpack_from("<III", data, where)
            entry, = struct.unpack_from("<q", data, where + 16)
            kernel["descriptor"] = {"shared": shared, "private": private, "arguments": arguments,
                                    "entry": self.symbols[name + ".kd"] + entry}

    def metadata(self):
        for _, kind, _, _, at, length, *_ in self.sections:
            if kind == 7:
                name, size, what = struct.unpack_from("<III", self.data, at)
                assert what == NOTE_METADATA and self.data[at + 12:at + 12 + name] == b"AMDGPU\0"
                return unpack(self.data[at + 12 + (name + 3 & ~3):][:size])[0]
        raise AssertionError("no metadata")

    def dynamic(self):
        for _, kind, _, _, at, length, link, *_ in self.sections:
            if kind == 11:
                names = self.sections[link][4]
                for n in range(at + 24, at + length, 24):
                    name, info, _, _, value, size = struct.unpack_from("<IBBHQQ", self.data, n)
                    yield self.data[names + name:self.data.index(b"\0", names + name)].decode(), value, size

    def place(self, address):
        for _, kind, _, start, at, length, *_ in self.sections:
            if kind != 8 and start and start <= address < start + length:
                return at + address - start
        raise AssertionError(f"nothing is at {address:#x}")


def objects(artifact):
    """The code objects in an artifact."""
    data, at = Path(artifact).read_bytes(), 1
    while (at := data.find(b"\x7fELF\x02\x01", at)) >= 0:
        if struct.unpack_from("<H", data, at + 18)[0] == AMDGPU:
            sections, = struct.unpack_from("<Q", data, at + 40)
            size, count = struct.unpack_from("<HH", data, at + 58)
            yield data[at:at + sections + size * count]
        at += 1


def check_kernel(name, kernel, of, arch):
    _, lds, registers = ARCHS[arch]
    said = kernel["descriptor"]
    assert said["entry"] == of.symbols[name], f"{name}: the descriptor points to another place"
    assert said["shared"] == kernel[".group_segment_fixed_size"] <= lds << 10, f"{name}: {said['shared']} bytes of LDS"
    assert said["arguments"] == kernel[".kernarg_segment_size"], name
    slots, = kernel[".args"]
    assert (slots[".offset"], slots[".size"]) == (0, kernel[".kernarg_segment_size"]), f"{name} has arguments behind the slots: {kernel['.args']}"
    assert kernel[".wavefront_size"] == (64 if arch < "gfx1" or arch.startswith("gfx9") else 32), name
    assert kernel[".vgpr_count"] <= registers, f"{name}: {kernel['.vgpr_count']} registers"
    assert said["private"] == kernel[".private_segment_fixed_size"], name  # what may spill is in docs/dev/registers-hip.md (hip_table.py)


def disassemble(objdump, data, folder):
    """The instructions of a code object by LLVM, each as text."""
    path = Path(folder) / "code.o"
    path.write_bytes(data)
    made = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    return re.findall(r"^\t(\S.*?)\s*//", made.stdout, re.M)


def check(aulec, objdump, script, arch, dtype, width):
    with tempfile.TemporaryDirectory() as folder:
        artifact = Path(folder) / "x.so"
        subprocess.run([aulec, script, "--target=hip", f"--arch={arch}", f"--dtype={dtype}", f"--width=D={width}", "-o", artifact,
                        *(["--no-grad"] if dtype == "bf16" else [])], check=True)
        found = [Object(data) for data in objects(artifact)]
        eldest = arch if arch in MACHINES else next(name for prefix, name in ELDEST.items() if arch.startswith(prefix))
        product = PRODUCTS.get(eldest, {}).get(dtype)
        expected = 2 + (dtype != "bf16")
        assert len(found) == expected, "forward, once more for few queries, and backward, whose launches are one object"
        products = 0
        for of in found:
            assert of.flags & 0xFF == ARCHS[arch][0], f"{of.flags:#x} is not {arch}"
            assert of.abi == (4 if "generic" in arch else 3), f"code object version {of.abi + 2}"
            for name, kernel in of.kernels.items():
                check_kernel(name, kernel, of, arch)
                print(f"{name:48} vgpr {kernel['.vgpr_count']:3} agpr {kernel.get('.agpr_count', 0):3} sgpr {kernel['.sgpr_count']:3} "
                      f"lds {kernel['.group_segment_fixed_size']:6} spills {kernel['.vgpr_spill_count']} and {kernel['.sgpr_spill_count']}")
            if objdump:
                text = disassemble(objdump, of.data, folder)
                assert text, "no instructions"
                for line in text:
                    assert "unknown" not in line and not re.match(r"s_trap|s_setpc|s_swappc", line), line
                products += sum(line.startswith(product or "v_wmma") for line in text)
        assert bool(products) == bool(product) or not objdump, f"{script}, {arch}, {dtype}: {products} {product}"


def main():
    aulec, objdump, *scripts = sys.argv[1:]
    if not objdump:
        print("llvm-objdump is not installed: instructions are not looked at")
    for script in scripts:
        for arch in MACHINES:
            for dtype in ("f16", "bf16"):
                check(aulec, objdump, script, arch, dtype, 64)
        for arch in list(OTHERS)[2::3]:  # two machines, two generic ISAs: they differ from the eldest in names alone
            check(aulec, objdump, script, arch, "bf16", 64)


if __name__ == "__main__":
    main()
