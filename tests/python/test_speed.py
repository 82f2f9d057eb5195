"""Speeds that mean something on a machine that does nothing else: not part of what every change must pass."""

import time
import unittest

from support import ROOT, run_page, torch


@unittest.skipIf(torch is None, "torch is not installed")
class Tutorial(unittest.TestCase):
    def test_a_step_is_no_slower_than_with_plain_torch(self):
        names, _ = run_page(ROOT / "docs/tutorial.md")

        def seconds(attention):
            start = time.perf_counter()
            names["train"](attention, 3, length=256)
            return time.perf_counter() - start

        ours, formula = (min(seconds(names[name]) for _ in range(3)) for name in ("cosine_fading", "formula"))
        print(f"seconds of 3 steps of length 256: {ours:.3f}, the formula in torch {formula:.3f}")
        self.assertLess(ours, formula)


if __name__ == "__main__":
    unittest.main()
