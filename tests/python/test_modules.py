"""Artifacts, signatures, devices, the command line."""

import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import aule
from aule.__main__ import main
from support import ROOT, SAMPLE, load


class Modules(unittest.TestCase):
    def test_all_files_are_installed(self):
        """What wheels hold is what python/meson.build names; `test_wheel`, in the suite slow, builds one."""
        text = (ROOT / "python/meson.build").read_text()
        for path in sorted((ROOT / "python/aule").rglob("*.py*")):
            if path.suffix in (".py", ".typed"):
                self.assertIn(f"'{path.relative_to(ROOT / 'python')}'", text)

    def test_signature(self):
        f = load()
        self.assertEqual(f.name, "sample")
        self.assertEqual(repr(f), "<aule attention sample(q, k, v, lengths, slope, scale=, window, flag=, seed=) -> o, lse>")
        self.assertEqual(f.tensors[1], aule.TensorSpec("k", "k", "operand", ("B", "Hk", "T", "D"), True, False))
        self.assertEqual(f.tensors[4].axes, (None,))
        self.assertEqual(f.parameters[1], aule.Parameter("window", "int32", True))

    def test_by_name(self):
        self.assertEqual(aule.load(Path(SAMPLE), "sample").name, "sample")
        with self.assertRaisesRegex(aule.Error, "sample") as caught:
            aule.load(SAMPLE, "other")
        self.assertEqual(caught.exception.status, "name")

    def test_descriptors_that_are_numbered_again(self):
        """The loader may remember a closed module's descriptor as a name of another that is still open."""
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder) / "other.so"
            other.write_bytes(Path(SAMPLE).read_bytes().replace(b"o = softmax(scale", b"O = softmax(scale"))
            first, second = load(), load()
            self.assertEqual(second.formula, first.formula)
            del second
            self.assertTrue(aule.load(other).formula.startswith("O = softmax"))

    def test_bad_files(self):
        with self.assertRaises(aule.Error) as caught:
            aule.load("/nowhere/x.so")
        self.assertEqual(caught.exception.status, "file")
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / "part.so"
            part.write_bytes(Path(SAMPLE).read_bytes()[:5000])
            with self.assertRaises(aule.Error) as caught:
                aule.load(part)
            self.assertEqual(caught.exception.status, "artifact")

    def test_devices(self):
        devices = aule.devices()
        cpu = next(d for d in devices if d.id == "cpu")
        self.assertTrue(cpu.available and cpu.kind == "cpu" and cpu.units >= 1)
        self.assertTrue(all(d.available or d.reason for d in devices))

    def test_command_line(self):
        shown = io.StringIO()
        with redirect_stdout(shown):
            self.assertEqual(main(["devices"]), 0)
        self.assertIn("cpu", shown.getvalue())
        self.assertEqual(shown.getvalue(), aule.describe_devices())
        with self.assertRaises(SystemExit), redirect_stdout(shown):
            main(["--version"])

    def test_the_reference_is_current(self):
        """docs/python-api.md: tools/python-api writes it."""
        run = subprocess.run([sys.executable, str(ROOT / "tools/python-api"), "--check"])
        self.assertEqual(run.returncode, 0, "docs/python-api.md is not what tools/python-api writes")
        page = (ROOT / "docs/python-api.md").read_text()
        named = set(re.findall(r"^### aule\.(\w+)", page, re.M))
        self.assertEqual(set(aule.__all__) - named, {"flash_attention"})  # another name of attention
        self.assertEqual(named - set(aule.__all__), {"Compiled", "serving", "transformers", "vllm"})

    def test_names_of_libraries(self):
        """As meson calls them on each system; tests/macos has the files."""
        from aule import _libraries
        for platform, name in (("linux", "libaulec.so.0"), ("darwin", "libaulec.0.dylib")):
            with mock.patch.object(sys, "platform", platform):
                self.assertEqual(_libraries._file_name("aulec"), name)

    def test_library_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "libaule.so.0").write_bytes(b"not a library")
            run = subprocess.run([sys.executable, "-m", "aule", "devices"], env=os.environ | {"AULE_LIBRARY_PATH": folder},
                                 capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn("libaule.so.0 cannot be loaded", run.stderr)
        self.assertNotIn("Traceback", run.stderr)


if __name__ == "__main__":
    unittest.main()
