"""The package's type hints hold together, and say what people are told."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import mypy  # noqa: F401
except ImportError:
    mypy = None

ROOT = Path(__file__).resolve().parent.parent.parent
USE = """
import numpy
import aule

f = aule.compile("x.attn")
x: numpy.ndarray = numpy.zeros((1, 1, 1, 8), numpy.float32)
results: aule.Results = f.forward(x, x, x)
gradients: dict[str, object] = f.backward(results, x)
with aule.Attention() as a:
    dq, dk, dv = a.backward(a.forward(x, x, x, causal=True, window=(3, -1)))
wrong: int = aule.get_available_backends()
aule.attention(x, x, x, causal="yes")
"""


@unittest.skipIf(mypy is None, "mypy is not installed")
class Types(unittest.TestCase):
    def mypy(self, *arguments):
        command = [sys.executable, "-m", "mypy", *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), os.environ.get("AULE_TEST_PACKAGES", "")])}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    def test_package(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = self.mypy("--cache-dir", folder)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_use(self):
        with tempfile.TemporaryDirectory() as folder:
            use = Path(folder, "use.py")
            use.write_text(USE)
            ran = self.mypy("--cache-dir", folder, str(use))
        errors = [line for line in ran.stdout.splitlines() if "error:" in line]
        self.assertEqual([line.split(":")[1] for line in errors], ["11", "12"], ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
