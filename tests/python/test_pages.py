"""docs/tutorial.md, docs/python.md, docs/serving.md and docs/from-flexattention.md run: their blocks of Python, one after another."""

import importlib.util
import unittest

from support import ROOT, run_page, torch


@unittest.skipIf(torch is None, "torch is not installed")
class Tutorial(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = ROOT / "docs/tutorial.md"
        cls.names, cls.printed = run_page(cls.page)

    def test_it_runs_and_learns(self):
        self.assertEqual(len(self.names["losses"]), self.names["STEPS"])
        self.assertIn("step   0:", self.printed)

    def test_what_it_says_is_printed(self):
        self.assertIn(f"    {self.printed.splitlines()[0]}\n", self.page.read_text())


@unittest.skipIf(torch is None or importlib.util.find_spec("transformers") is None, "torch or transformers is not installed")
class Reference(unittest.TestCase):
    def test_it_runs(self):
        names, printed = run_page(ROOT / "docs/python.md")
        self.assertEqual(set(names["gradients"]), {"dq", "dk", "dv", "dtable"})
        self.assertIn("attention aule_attention {", printed)
        self.assertIn("cpu ['dk', 'dq', 'dv']", printed)
        self.assertIn("expected", printed)


@unittest.skipIf(torch is None or importlib.util.find_spec("transformers") is None, "torch or transformers is not installed")
class Serving(unittest.TestCase):
    def test_it_runs(self):
        names, printed = run_page(ROOT / "docs/serving.md")
        self.assertEqual(len(names["served"]), 8)
        self.assertEqual(printed.splitlines(), [
            "(4, 4, 16)", "<aule attention softcap(q, k, v, cap=) -> o, lse> (1, 4, 4, 16)", "tensor(True) torch.int8", "[5, 5]",
        ])


@unittest.skipIf(torch is None, "torch is not installed")
class FromFlexAttention(unittest.TestCase):
    def test_it_runs(self):
        names, printed = run_page(ROOT / "docs/from-flexattention.md")
        self.assertTrue(names["o"].is_contiguous())
        self.assertEqual((tuple(names["o"].shape), printed), ((2, 100, 8, 64), "torch.Size([1, 100])\n"))


if __name__ == "__main__":
    unittest.main()
