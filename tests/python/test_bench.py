"""bench/recurrences.py: its passes and peers on the processor, what it refuses, and the table of kernels, of which a stand-in has the times."""

import contextlib
import importlib.util
import io
import re
import sys
import unittest
from unittest import mock

from support import ROOT, torch

BENCH = ROOT / "bench/recurrences.py"


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


if __name__ == "__main__":
    unittest.main()
