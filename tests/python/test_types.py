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
from typing import Any, assert_type
import aule

class Tensor: ...  # of any library

f = aule.compile("x.attn")
x = Tensor()
assert_type(f(x, x, x, bias=x, window=3), Tensor)
assert_type(f(q=x, k=x, v=x), Any)
results = f.forward(x, x, x)
assert_type(results.o, Tensor)
assert_type(results["lse"], Tensor)
assert_type(f.backward(results, x, dlse=x), dict[str, Tensor])
assert_type(aule.attention(x, x, x, causal=True, window=(3, -1)), Tensor)
assert_type(aule.attention(x, x, x, return_lse=True), tuple[Tensor, Tensor])
with aule.Attention() as a:
    dq, dk, dv = a.backward(a.forward(x, x, x, causal=True, window=(3, -1)))
    assert_type(dq, Tensor)
wrong: int = aule.get_available_backends()
aule.attention(x, x, x, causal="yes")
count: int = aule.attention(x, x, x)
f.backward({"o": x}, x)
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
        mistakes = [str(number) for number, line in enumerate(USE.splitlines(), 1) if number > USE.count("\n", 0, USE.index("wrong:"))]
        self.assertEqual([line.split(":")[1] for line in errors], mistakes, ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
