"""The device suite's own counting (run.py), on a folder whose programs are stand-ins: what fails, hangs, runs nothing or says nothing is
counted as failed, and what is missing as skipped. No GPU is needed.

    run_test.py RUN.PY CUDA_RUNNER
"""
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RUN, RUNNER = (Path(sys.argv.pop(1)).resolve() for _ in range(2))


class Suite(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        for name in ("bin", "smoke", "tree/attn_scripts", "tree/tests/front/examples"):
            (self.folder / name).mkdir(parents=True)
        text = RUN.read_text()
        self.assertIn('beside cpu", 60, smoke', text)
        (self.folder / "run.py").write_text(text.replace('beside cpu", 60, smoke', 'beside cpu", 1, smoke'))  # a second is enough to wait
        (self.folder / "smoke/rows").write_text("smoke/a.so --shape B=1\nsmoke/b.so --shape B=2\n")
        self.program("aule", "")

    def program(self, name, script):
        path = self.folder / "bin" / name
        devices = """case $1 in devices) printf 'cpu  x\\ncuda:0     Stand-in, GPU\\n           CUDA 1.0\\n'; exit;; esac\n""" if name == "aule" else ""
        path.write_text("#!/bin/sh\n" + devices + script + "\n")
        path.chmod(0o755)

    def run_parts(self, *parts):
        done = subprocess.run([sys.executable, "run.py", *parts], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def test_sums(self):
        self.program("cuda_runner", "echo on a device; echo '7 passed, 0 failed'")
        self.program("cuda_smoke", "echo '3 passed, 0 failed'")
        status, lines = self.run_parts("operations", "smoke")
        self.assertEqual((status, lines[-1]), (0, "13 passed, 0 failed"))
        self.assertEqual(lines[0], "on Stand-in, GPU CUDA 1.0")
        self.assertTrue(lines[1].startswith("operations: 7 passed, 0 failed, 0 skipped; "), lines[1])
        self.assertRegex((self.folder / "logs/smoke/smoke-a-so.log").read_text(), r"/cuda_smoke smoke/a.so --shape B=1\n3 passed, 0 failed\n[0-9.]+ s\n$")

    def test_failures(self):
        for script, last in {
            "echo '7 passed, 2 failed'; exit 1": "7 passed, 2 failed",
            "echo '7 passed, 0 failed'; exit 1": "7 passed, 1 failed",  # it broke afterwards
            "echo '0 passed, 0 failed'": "0 passed, 1 failed",
            "echo 'no device'; exit 2": "0 passed, 1 failed",
            "true": "0 passed, 1 failed",
            "exit 77": "0 passed, 0 failed",
        }.items():
            self.program("cuda_runner", script)
            status, lines = self.run_parts("operations")
            self.assertEqual((status, lines[-1]), (int("0 failed" not in last), last), script)

    def test_what_does_not_end(self):
        self.program("cuda_smoke", 'case $1 in smoke/a.so) echo begun; exec sleep 20;; esac; echo "1 passed, 0 failed"')
        status, lines = self.run_parts("smoke")
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))
        self.assertIn("        it did not end within 1 s", lines)

    def test_no_time(self):
        for name in "ab":
            (self.folder / f"tree/attn_scripts/{name}.attn").touch()
        self.program("aule", "exec sleep 2")
        status, lines = self.run_parts("--at-once", "1", "--within", "3", "check")
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"), lines)

    def test_what_is_not_there(self):
        status, lines = self.run_parts("operations")
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed"))
        (self.folder / "bin/aule").write_text("#!/bin/sh\necho 'cuda       not available: no driver'\n")
        self.assertEqual(self.run_parts()[1], ["there is no CUDA device: not available: no driver", "0 passed, 1 failed"])
        shutil.rmtree(self.folder / "bin")
        status, lines = self.run_parts()
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed"))

    def test_scripts_and_checks(self):
        for name, text in (("a", "online softmax;"), ("b", "linear;")):
            for folder in ("attn_scripts", "tests/front/examples"):
                (self.folder / "tree" / folder / f"{name}.attn").write_text(text + "\n")
        self.program("aule", "case $2 in *b.attn) exit 1;; esac")
        self.program("scripts_test", 'echo "$3"; echo "2 passed, 0 failed"')
        self.assertEqual(self.run_parts("check")[1][-1], "1 passed, 1 failed")
        hard = len(self.names("HARD"))
        self.assertEqual(self.run_parts("scripts")[1][-1], f"{2 + 2 * hard} passed, 0 failed")  # recurrences have no kernels

    def test_recurrences(self):
        """A command a script of the folder and of the examples, and nineteen more for all by warps."""
        for script in "tests/exec/linear/a.attn", "tests/front/examples/b.attn", "tests/front/examples/c.attn":
            (self.folder / "tree" / script).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / "tree" / script).write_text("linear;\n" if "/c" not in script else "online softmax;\n")
        self.program("linear_test", 'case $3 in a.attn) echo "3 passed, 0 failed";; b.attn) echo "0 passed, 0 failed"; exit 77;; *) echo "5 passed, 1 failed"; exit 1; esac')
        self.assertEqual(self.run_parts("recurrences")[1][-1], "98 passed, 19 failed")

    def names(self, of):
        return ast.literal_eval(re.search(rf"^{of} = (\(.*?\))$", RUN.read_text(), re.M | re.S)[1])

    def test_sums_and_hard_cases(self):
        """Each case of both programs belongs to one command."""
        self.program("sums_test", 'test "$1 $3" = "cuda:0 1" && echo "9 passed, 1 failed"; exit 1')
        count = len(self.names("SUMS"))
        self.assertEqual(self.run_parts("sums")[1][-1], f"{9 * count} passed, {count} failed")
        for program, names in ("sums_test.c", self.names("SUMS")), ("scripts_test.c", self.names("HARD")):
            text = (RUN.parent.parent / "exec" / program).read_text()
            scripts = set(re.findall(r'"([\w/.]+\.attn)"', text)) | {"/" + s for s in re.findall(r'(?:SCRIPTS|OWN) "(\w+\.attn)"', text)}
            scripts.discard("../../exec/scripts/lse_alone.attn")  # planted: it must be found wrong
            scripts.discard("../../exec/scripts/many_units.attn")  # its kernels are too long for a GPU, which scripts_test knows
            for script in scripts:
                examples = program == "scripts_test.c" and "/" not in script
                found = [name for name in names if f"{name}.attn" in f"/{script}"]
                self.assertTrue(examples or found, script)

    def test_operations_without_a_driver(self):
        """The runner itself, where libcuda cannot be loaded."""
        (self.folder / "libcuda.so.1").write_text("not a library")
        done = subprocess.run([RUNNER, self.folder], env={**os.environ, "LD_LIBRARY_PATH": str(self.folder)}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("libcuda.so.1", done.stderr)

    def test_unittest(self):
        folder = self.folder / "tree/tests/python"
        folder.mkdir()
        for last, expected in {
            "OK": "8 passed, 0 failed", "OK (skipped=1)": "6 passed, 0 failed", "FAILED (failures=1, errors=2)": "2 passed, 6 failed",
            "FAILED (errors=1, skipped=1)": "4 passed, 2 failed", "": "0 passed, 2 failed",
        }.items():
            (folder / "run.py").write_text(f"print('Ran 4 tests in 0.1s\\n\\n{last}'); raise SystemExit({int('FAILED' in last)})")
            self.assertEqual(self.run_parts("memory")[1][-1], expected, last)

    def test_no_sanitizer(self):
        self.watched()
        self.assertIn("0 passed, 0 failed, 25 skipped", self.run_parts("sanitizer")[1][1])

    def watched(self):
        rows = [f"smoke/{name}.so --shape B=1 --dtype f32\n" for name in ("mha-f32", "gqa-bf16", "relative_bias-f16", "rope-bf16")]
        (self.folder / "smoke/rows").write_text("".join(rows))

    def test_what_a_sanitizer_sees(self):
        self.watched()
        self.program("sanitizer_sees", "")
        (self.folder / "smoke/rope-bf16-watched.so").write_text("")
        tools = self.folder / "tools"
        tools.mkdir()
        said = {  # of rope alone: what racecheck finds is told, by the kernels that were made for it
            "echo '========= ERROR SUMMARY: 0 errors'": "23 passed, 2 failed",  # it sees what it was blind to
            "case $* in *racecheck*rope-bf16-watched*|*elected|*places) echo '= RACECHECK SUMMARY: 3 hazards displayed'; exit 9;; esac; "
            "echo '= ERROR SUMMARY: 0 errors'": "24 passed, 1 failed",
            "case $* in *racecheck*rope-bf16.so*|*elected|*places) echo '= RACECHECK SUMMARY: 3 hazards displayed'; exit 9;; esac; "
            "echo '= ERROR SUMMARY: 0 errors'": "25 passed, 0 failed",
        }
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{tools}:{before}"
        try:
            for script, last in said.items():
                (tools / "compute-sanitizer").write_text(f"#!/bin/sh\n{script}\n")
                (tools / "compute-sanitizer").chmod(0o755)
                self.assertEqual(self.run_parts("sanitizer")[1][-1], last, script)
        finally:
            os.environ["PATH"] = before


if __name__ == "__main__":
    unittest.main()
