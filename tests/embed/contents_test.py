#!/usr/bin/env python3
"""What embedding makes, looked at with binutils: contents_test.py AULEC MHA.attn PROGRAM...

Programs need no library of LLVM's and hold none of its code; objects define what their header declares, need nothing, and are the
same each time; the archive's index is what `ranlib` would make; combinations that cannot be are refused by name.
"""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

AULEC, SCRIPT, *PROGRAMS = map(str, map(Path.resolve, map(Path, sys.argv[1:])))
SMALL = ["--target=cpu", "--arch=x86-64-v3", "--dtype=f32", "--width=D=16"]


def run(*command):
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def aulec(*options):
    return subprocess.run([AULEC, SCRIPT, *options], capture_output=True, text=True)


def symbols(name, *options):
    return {line.split()[-1] for line in run("nm", *options, name).splitlines() if len(line.split()) > 1}


class Programs(unittest.TestCase):
    def test_no_llvm(self):
        for program in PROGRAMS:
            needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", program))
            for library in needed:
                self.assertRegex(library, r"^(lib(c|m|stdc\+\+|gcc_s|pthread|dl|asan|ubsan|tsan)\.so|ld-linux)", program)
            self.assertFalse([s for s in symbols(program) if "llvm" in s.lower() or "lld" in s.lower()], program)


class Several(unittest.TestCase):
    def test_attentions_of_one_script(self):
        """An object and a header for each: nothing is there twice."""
        attention = "attention %s { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; online softmax; }"
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "two.attn").write_text("\n".join(attention % name for name in ("one", "another")))
            for name in ("one", "another"):
                for kind, end in (("obj", "o"), ("header", "h")):
                    run(AULEC, f"{folder}/two.attn", f"--attention={name}", "--no-grad", f"--emit={kind}", *SMALL, "-o", f"{folder}/{name}.{end}")
            run("ld", "-r", f"{folder}/one.o", f"{folder}/another.o", "-o", f"{folder}/both.o")
            self.assertLessEqual({"one_module", "another_module", "one_forward", "another_forward"}, symbols(f"{folder}/both.o", "--defined-only"))
            guards = {re.search("#ifndef (\\w+)", Path(folder, f"{name}.h").read_text()).group(1) for name in ("one", "another")}
            self.assertEqual(guards, {"AULE_EMBED_ONE_H", "AULE_EMBED_ANOTHER_H"})

    def test_new_rows(self):
        """Sizes in comments are those of the structure."""
        with tempfile.TemporaryDirectory() as folder:
            run(AULEC, SCRIPT, "--append", "--layout=T=paged", "--no-grad", "--emit=header", *SMALL, "-o", f"{folder}/x.h")
            self.assertIn("/* i64[new_batch, new_rows]; NULL: rows are the last of their sequences */", Path(folder, "x.h").read_text())


class Objects(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = Path(self.folder.name)

    def make(self, kind, name, *options):
        path = str(self.at / name)
        done = aulec(f"--emit={kind}", "-o", path, *(options or SMALL))
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_object(self):
        made = self.make("obj", "mha.o")
        self.assertEqual(symbols(made, "-u"), set(), "an object needs nothing")
        wanted = {"mha_module", "mha_message"} | {f"mha_{o}{w}" for o in ("forward", "backward") for w in ("", "_workspace")}
        self.assertTrue(wanted <= symbols(made, "-g", "--defined-only"))
        self.assertEqual(Path(made).read_bytes(), Path(self.make("obj", "again.o")).read_bytes())

    def test_declared_is_defined(self):
        header = Path(self.make("header", "mha.h")).read_text()
        declared = set(re.findall(r"(\w+)\(", re.sub(r"/\*.*?\*/|#define.*", "", header, flags=re.S)))
        declared = {name for name in declared if name.startswith("mha_")}
        self.assertTrue(declared <= symbols(self.make("obj", "mha.o"), "-g", "--defined-only"), declared)

    def test_archive(self):
        made = self.make("archive", "libmha.a")
        names = run("ar", "t", made).split()
        self.assertEqual(names[:2], ["calls.o", "module.o"])
        before = run("nm", "-s", made).split("\n\n")[0]
        run("ranlib", "-D", made)
        index = lambda text: sorted(line for line in text.splitlines() if " in " in line)
        self.assertEqual(index(before), index(run("nm", "-s", made).split("\n\n")[0]))

    def test_default_names(self):
        for kind, name in (("obj", "mha.o"), ("archive", "libmha.a")):
            subprocess.run([AULEC, SCRIPT, f"--emit={kind}", *SMALL], cwd=self.at, check=True)
            self.assertTrue((self.at / name).exists())
        self.assertIn("mha_forward_args", aulec("--emit=header", *SMALL).stdout)

    def test_aarch64(self):
        made = self.make("obj", "arm.o", "--target=cpu", "--arch=aarch64", "--dtype=f32", "--width=D=16")
        self.assertIn("AArch64", run("readelf", "-h", made))

    def test_refused(self):
        for options, words in (
            (["--emit=c", "--target=cpu"], ["--emit=c", "cpu", "--emit=obj"]),
            (["--emit=obj", "--arch=x86-64-v3,aarch64"], ["x86-64-v3", "aarch64"]),
        ):
            done = aulec(*options)
            self.assertNotEqual(done.returncode, 0, options)
            for word in words:
                self.assertIn(word, done.stderr, options)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
