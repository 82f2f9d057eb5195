"""libaule, libaulec and what tools/test-device runs on a Mac, compiled and linked for macOS on AArch64 by zig, which brings Apple's C headers and the
stubs of its system library; and the files as a Mac would see them.

    build_test.py SOURCE FOLDER ZIG NM LIBAULE LIBAULEC      the last two: of this system, whose names are exported there, too

What this shows: that all of it compiles without a warning, needs libSystem alone, and nothing of it that a Mac lacks. It runs nothing."""
import os
import shutil
import struct
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE, FOLDER = (Path(word).resolve() for word in sys.argv[1:3])
ZIG, NM, *LIBRARIES = sys.argv[3:]
TARGET = "aarch64-macos.13.0"  # the first with Metal 3
DYLIBS = {"runtime/libaule.0.dylib": 0, "compiler/driver/libaulec.0.dylib": 1}
PROGRAMS = ["runtime/tools/aule", "compiler/driver/aulec", "demo/demo", "tests/exec/scripts_test", "tests/exec/sums_test", "tests/scripts/attn_scripts_test"]
SYSTEM = "/usr/lib/libSystem.B.dylib"

# <mach-o/loader.h>, <mach-o/nlist.h>
MAGIC, ARM64, EXECUTE, DYLIB, MACOS = 0xFEEDFACF, 0x0100000C, 2, 6, 1
SYMTAB, LOAD_DYLIB, ID_DYLIB, BUILD_VERSION = 0x2, 0xC, 0xD, 0x32
LOADS = {LOAD_DYLIB, 0x80000018, 0x8000001F, 0x80000023}  # weak, exported again, upward
STAB, TYPE, EXTERNAL, UNDEFINED = 0xE0, 0x0E, 0x01, 0


class MachO:
    def __init__(self, path):
        self.bytes = path.read_bytes()
        magic, self.machine, _, self.kind, count, _, _, _ = struct.unpack_from("<8I", self.bytes)
        assert magic == MAGIC, f"{path} is no Mach-O of 64 bits"
        self.name, self.libraries, self.platform, self.symbols = None, [], None, []
        at = 32
        for _ in range(count):
            command, size = struct.unpack_from("<2I", self.bytes, at)
            self.read(command, at, size)
            at += size

    def read(self, command, at, size):
        if command in LOADS | {ID_DYLIB}:
            (offset,) = struct.unpack_from("<I", self.bytes, at + 8)
            name = self.bytes[at + offset:at + size].split(b"\0")[0].decode()
            if command == ID_DYLIB:
                self.name = name
            else:
                self.libraries.append(name)
        elif command == BUILD_VERSION:
            self.platform, least = struct.unpack_from("<2I", self.bytes, at + 8)
            self.least = least >> 16
        elif command == SYMTAB:
            table, count, names, _ = struct.unpack_from("<4I", self.bytes, at + 8)
            for n in range(count):
                name, kind, _, about, _ = struct.unpack_from("<IBBHQ", self.bytes, table + 16 * n)
                text = self.bytes[names + name:].split(b"\0", 1)[0] if kind & STAB == 0 else b""
                self.symbols.append((text.decode(), kind, about >> 8))

    def exported(self):
        return {name for name, kind, _ in self.symbols if kind & STAB == 0 and kind & EXTERNAL and kind & TYPE != UNDEFINED}

    def needed(self):
        """Names that others define, with the library that each is looked for in."""
        return {(name, self.libraries[library - 1] if 0 < library <= len(self.libraries) else library)
                for name, kind, library in self.symbols if kind & STAB == 0 and kind & TYPE == UNDEFINED}


def environment():
    return {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(FOLDER / "zig"), "ZIG_LOCAL_CACHE_DIR": str(FOLDER / "zig")}


def run(*words):
    return subprocess.run([str(word) for word in words], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")


def compiler(language):
    return [str(SOURCE / "tests/macos/compiler.sh"), ZIG, language, TARGET]


def cross_file():
    """As on a Mac there is no re2c (but one that is too old), and none of this system's packages."""
    return "\n".join(["[binaries]", f"c = {compiler('cc')}", f"cpp = {compiler('c++')}", f"ar = {[ZIG, 'ar']}", "re2c = ['echo', '0.1']",
                      "pkg-config = 'false'", "[host_machine]", "system = 'darwin'", "cpu_family = 'aarch64'", "cpu = 'aarch64'", "endian = 'little'", ""])


def build():
    FOLDER.mkdir(parents=True, exist_ok=True)
    made, cross = FOLDER / "build", FOLDER / "cross.ini"
    meson = "/usr/bin/meson" if Path("/usr/bin/meson").exists() else shutil.which("meson")
    if not cross.exists() or cross.read_text() != cross_file():
        shutil.rmtree(made, ignore_errors=True)
        cross.write_text(cross_file())
    if not (made / "build.ninja").exists():
        shutil.rmtree(made, ignore_errors=True)
        done = run(meson, "setup", made, SOURCE, "--cross-file", cross, "-Dllvm=none", "-Dtests=false", "-Ddevice_suite=true", "-Doptimization=1")
        assert done.returncode == 0, done.stdout[-3000:]
    done = run("ninja", "-C", made, "-k", "0")
    wrong = [line for line in done.stdout.splitlines() if "error" in line or "warning" in line or "undefined" in line]
    assert done.returncode == 0, "\n".join(wrong[:40]) or done.stdout[-3000:]
    return made


class MacOS(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = build()

    def look_at(self, name, kind):
        file = MachO(self.made / name)
        self.assertEqual((file.machine, file.kind, file.platform, file.least), (ARM64, kind, MACOS, 13), name)
        self.assertEqual(file.libraries, [SYSTEM], name)
        self.assertTrue(file.needed(), name)
        self.assertEqual({library for _, library in file.needed()}, {SYSTEM}, name)
        return file

    def test_programs(self):
        for name in PROGRAMS:
            self.look_at(name, EXECUTE)

    def test_libraries(self):
        for name, which in DYLIBS.items():
            file = self.look_at(name, DYLIB)
            self.assertEqual(file.name, "@rpath/" + Path(name).name)
            listed = subprocess.run([NM, "-D", "--defined-only", LIBRARIES[which]], stdout=subprocess.PIPE, text=True, check=True).stdout
            here = {"_" + line.split()[-1].split("@")[0] for line in listed.splitlines()}
            self.assertTrue(here)
            self.assertEqual({name for name in file.exported() if not name.startswith(("___dso_handle", "__mh_"))}, here)

    def test_what_linux_has(self):
        """A program that needs what Linux alone has does not come to be: the headers and stubs are macOS's."""
        for text, said in (("#include <link.h>\nint main(void) { return 0; }\n", "link.h"),
                           ("int memfd_create(const char *, unsigned); int main(void) { return memfd_create(\"\", 0); }\n", "memfd_create"),
                           ("#include <sys/sysctl.h>\nint main(void) { return sysctlbyname(\"\", 0, 0, 0, 0); }\n", None)):
            source = FOLDER / "trial.c"
            source.write_text(text)
            done = run(*compiler("cc"), source, "-o", FOLDER / "trial")
            self.assertEqual(done.returncode == 0, said is None, done.stdout)
            if said:
                self.assertIn(said, done.stdout)


if __name__ == "__main__":
    if not ZIG:
        print("zig is not there: tests/tools/zig.sh build-devices installs it")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
