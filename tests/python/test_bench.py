"""bench/recurrences.py: its passes and peers on the processor, what it refuses, and the table of kernels, of which a stand-in has the times; bench/shapes.py:
what it compiles and refuses."""

import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from support import ROOT, torch

BENCH = ROOT / "bench/recurrences.py"
AULEC = shutil.which("aulec", path=os.environ.get("AULE_LIBRARY_PATH", ""))


@unittest.skipIf(torch is None, "torch is not installed")
class Recurrences(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        spec = importlib.util.spec_from_file_location("recurrences", BENCH)
        cls.bench = sys.modules["recurrences"] = importlib.util.module_from_spec(spec)
        with mock.patch.object(sys, "path", [str(BENCH.parent), *sys.path]):
            spec.loader.exec_module(cls.bench)

    def said(self, *options, status=None):
        """What it prints; with an exit status what it says against the options."""
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.object(sys, "argv", [str(BENCH), *options]), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            if status is None:
                self.bench.main()
                return out.getvalue()
            with self.assertRaises(SystemExit) as ended:
                self.bench.main()
        self.assertEqual(ended.exception.code, status)
        return err.getvalue()

    def test_passes_beside_nothing(self):
        said = self.said("--filter", "scalar 1, 8, 2048, 64", "--pass", "forward,backward,both", "--peers", "aule", "--tokens", "128", "--rounds", "1")
        rows = re.findall(r"^\| scalar \| 1, 8, 128, 64 \| f32 \| (\w+) \| ([\d.e-]+) ms, (\S+) \|  \|$", said, re.M)
        self.assertEqual([row[0] for row in rows], ["forward", "backward", "both"], said)
        for _, ms, error in rows:
            self.assertGreater(float(ms), 0)
            self.assertLess(float(error), 1e-4)

    def test_what_is_refused(self):
        for options, words in ((("--pass", "forward,back"), "no pass 'back'"), (("--peers", "fla"), "no peer 'fla' here"),
                               (("--kernels",), "--kernels needs --device cuda"), (("--kernels", "--device", "cuda", "--write", "x"), "writes no table")):
            self.assertIn(words, self.said(*options, status=2))

    def test_the_table_of_kernels(self):
        spans = 4 * [("states", 0.25), ("carry", 0.5), ("states", 0.75)]
        self.assertEqual(self.bench.kernel_rows("aule", spans, 4), ["aule: 1.500 ms of kernels a call", "", "| kernel | launches | ms |", "|---|---|---|",
                                                               "| states | 2 | 1.000 |", "| carry | 1 | 0.500 |", ""])


@unittest.skipIf(torch is None, "torch is not installed")
class Served(unittest.TestCase):
    """bench/served.py: small caches, whose results its own formulas agree with."""

    def said(self, what):
        place = ROOT / "bench/served.py"
        spec = importlib.util.spec_from_file_location("served", place)
        bench = importlib.util.module_from_spec(spec)
        with mock.patch.object(sys, "path", [str(place.parent), *sys.path]):
            spec.loader.exec_module(bench)
        case = bench.Decode(2, 96, H=6, Hk=2, D=64, page=16)
        out, kinds = io.StringIO(), {name: (of, names, [case]) for name, (of, names, _) in bench.KINDS.items()}
        options = [str(place), "--device", "cpu", "--dtype", "f32", "--what", what, "--rounds", "1"]
        with mock.patch.object(sys, "argv", options), mock.patch.object(bench, "KINDS", kinds), mock.patch.object(bench, "FAR", 1), contextlib.redirect_stdout(out):
            bench.main()
        return out.getvalue()

    def test_tables(self):
        for what, columns in (("scripts", 6), ("rows", 4), ("append", 2)):
            said = self.said(what)
            errors = re.findall(r" us \([\d.]+\), ([\d.e+-]+)", said.splitlines()[-1])
            self.assertEqual(len(errors), columns, said)
            self.assertLess(max(map(float, errors)), 1e-4, said)


@unittest.skipIf(AULEC is None, "aulec is not beside its library")
class Shapes(unittest.TestCase):
    """bench/shapes.py --compile: what is written, which shapes do not do, and what it refuses, for a processor, whose kernels compile quickly."""

    def run_it(self, folder, *options):
        command = [sys.executable, str(ROOT / "bench/shapes.py"), "--target", "cpu", "--arch", "x86-64-v3", "--dtype", "f32", "--width", "16", "--scripts", "causal",
                   "--schedule", "lanes_forward", "--aulec", AULEC, *(("--compile", folder) if folder else ()), *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    def test_shapes(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = self.run_it(folder, "--keys", "registers=4,64 keys=16", "--keys", "registers=4,64 keys=1024", "--keys", "keys=16 registers=4", "--no-grad")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            about = json.loads((Path(folder) / "shapes.json").read_text())
            said = [line for line in ran.stderr.splitlines() if "does not do for f32" in line]
            self.assertEqual(len(about["made"]) + len(said), 6, ran.stderr)
            self.assertEqual((about["made"][0]["shape"], about["made"][1]["shape"]), ("rule", "registers=4 keys=16"))
            self.assertIn("causal: lanes_forward: registers=64 keys=1024 does not do", ran.stderr)
            self.assertTrue(all((Path(folder) / made["file"]).stat().st_size for made in about["made"]))

    def test_what_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for options, words in ((("--keys", "registres=4"), "'registres' is no key of lanes_forward"), (("--keys", "keys"), "expected keys and their values"), ((), "--keys is ''"),
                                   (("--keys", "keys=16", "--schedule", "lanes"), "'lanes' is no schedule"), (("--keys", "keys=16", "--scripts", "causa"), "causa.attn"),
                                   (("--keys", "keys=16", "--arch", "x86"), "unknown architecture 'x86'"), (("--keys", "keys=16", "--width", "16/"), "--width is '16/'"),
                                   (("--keys", "keys=16", "--aulec", folder + "/none"), "/none: No such file")):
                with self.subTest(words):
                    ran = self.run_it(folder, *options)
                    self.assertIn(words, ran.stderr)
                    self.assertNotIn("Traceback", ran.stderr)
                    self.assertNotEqual(ran.returncode, 0)
                    self.assertFalse((Path(folder) / "shapes.json").exists())
            self.assertIn("--compile DIR or --measure DIR is needed", self.run_it(None).stderr)
            self.assertIn("--compile makes it", self.run_it(None, "--measure", folder).stderr)


if __name__ == "__main__":
    unittest.main()
