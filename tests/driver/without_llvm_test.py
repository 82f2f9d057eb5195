"""The command line of a build with -Dllvm=none, as Macs have: what needs LLVM is refused by name, the rest is what other builds make, byte for byte.

    without_llvm_test.py AULEC_WITHOUT AULEC AULE SCRIPT"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

WITHOUT, WITH, AULE, SCRIPT = sys.argv[1:5]
SMALL = ["--dtype", "f32", "--width", "D=16", "--no-grad"]
HAS = "opencl, metal, vulkan, levelzero"


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, timeout=60)


class WithoutLLVM(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def refused(self, status, says, *options):
        out = self.folder / "out"
        done = run(WITHOUT, SCRIPT, "-o", out, *SMALL, *options)
        self.assertEqual(done.returncode, status, options)
        self.assertIn(says, done.stderr.decode())
        self.assertFalse(out.exists())

    def test_refusals(self):
        for target in ("cpu", "cuda", "hip", "metal,cpu"):
            self.refused(2, f"target '{target.split(',')[-1]}' needs LLVM, without which this aulec was built; it has {HAS}", "--target", target)
        for stage in ("asm", "llvm-ir"):
            self.refused(2, "target 'cpu' needs LLVM", f"--emit={stage}")
        for stage in ("obj", "archive"):
            self.refused(1, "objects and archives need LLVM, without which this aulec was built; --emit=c", f"--emit={stage}", "--target=metal")
        self.refused(2, f"unknown target 'quantum'; expected {HAS}", "--target", "quantum")
        self.refused(2, "unknown architecture 'sm_80'", "--arch", "sm_80")

    def test_the_same(self):
        for options in (["--target", "metal,opencl,vulkan,levelzero"], ["--target", "metal", "--emit=c"], ["--emit=metal"], ["--target", "opencl", "--emit=header"]):
            made = []
            for which in (WITHOUT, WITH):
                out = self.folder / "out"
                done = run(which, SCRIPT, "-o", out, *SMALL, *options)
                self.assertEqual(done.returncode, 0, done.stderr)
                made.append(out.read_bytes())
            self.assertEqual(made[0], made[1], options)
            self.assertTrue(made[0])

    def test_default_targets(self):
        out = self.folder / "mha.so"
        self.assertEqual(run(WITHOUT, SCRIPT, "-o", out, *SMALL).returncode, 0)
        said = run(AULE, "inspect", out).stdout.decode()
        self.assertEqual({line.split(":")[1].split()[0] for line in said.splitlines() if line.lstrip().startswith("kernel ")}, set(HAS.split(", ")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
