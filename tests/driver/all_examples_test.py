"""Every example, and every script of attn_scripts, as `aulec` compiles it for all targets. Standard library only.

    all_examples_test.py AULEC EXAMPLES [TEST...]
"""
import sys
import unittest
from pathlib import Path

from aulec_test import EXAMPLES, Case, aulec

RECURRENCES = {"gated_delta_net", "gla", "mamba2", "retention_linear", "simple_gla"}
FIXED = {"mla_decode"}  # their widths are numbers


class AllExamples(Case):  # the full suite's
    WIDTHS = ("64", "96", "128")
    every = 3  # of the scripts for groups of warps

    def widths(self, number):
        return self.WIDTHS[number % 3:][:1]

    def archs(self, number):
        """Of the processors' two each other one: code of both runs in tests/exec."""
        return ["--arch", ("x86-64-v3", "x86-64-v4")[number % 2] + ",generic"]

    def test_they_compile_for_all_targets(self):
        for number, script in enumerate(sorted(EXAMPLES.glob("*.attn"))):
            with self.subTest(script.stem):
                width = [] if script.stem in FIXED | RECURRENCES else ["--width", "D=64"]
                done = aulec(script, "--dtype", "f32", *width, *self.archs(number), "-o", self.folder / "x.so")
                self.expect(done, 0)
                self.assertEqual((self.folder / "x.so").read_bytes()[:4], b"\x7fELF")

    def test_recurrences_compile_for_gpus(self):
        for script in sorted(EXAMPLES.parent.parent.parent.glob("attn_scripts/*.attn")):
            if "linear {" not in script.read_text():
                continue
            for target in (["cuda", "--arch=sm_90"], ["opencl"]):
                with self.subTest(script=script.stem, target=target[0]):
                    self.expect(aulec(script, "--target", *target, "--dtype=f32", "-o", self.folder / "x.so"), 0)

    def test_groups_of_warps_take_them_or_others_do(self):
        """For sm_90a shapes are chosen by arithmetic: what it lets pass must be kernels, with gradients; at one width each, another at each."""
        root = EXAMPLES.parent.parent.parent
        scripts = sorted([*root.glob("attn_scripts/*.attn"), *root.glob("bench/scripts/*.attn")])
        for number, script in enumerate(scripts[::self.every]):
            for width in self.widths(number):
                with self.subTest(script=script.stem, width=width):
                    done = aulec(script, "--target=cuda", "--arch=sm_90a", "--dtype=bf16", "--width", f"D={width}", "--emit=tiled-ir", "--after=order")
                    if "no axis of the script is called 'D'" not in done.stderr.decode():
                        self.expect(done, 0)


class AllWidths(AllExamples):  # the slow suite's
    every = 1

    def widths(self, number):
        return self.WIDTHS

    def archs(self, number):
        return []


sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from parts import PartLoader

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + (sys.argv[3:] or ["AllExamples"]), testLoader=PartLoader())
