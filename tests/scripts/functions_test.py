"""tools/functions finds a function that is a little wrong."""
import importlib.machinery
import importlib.util
import math
import sys
import unittest
from pathlib import Path

TOOL, BUILD = Path(sys.argv[1]), sys.argv[2]


def functions():
    loader = importlib.machinery.SourceFileLoader("functions", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("functions", loader))
    loader.exec_module(module)
    return module


class Functions(unittest.TestCase):
    def test_units(self):
        f = functions()
        self.assertEqual(f.ulps(1.0, 1.0), 0)
        self.assertEqual(f.ulps(1 + 2**-23, 1.0), 1)
        self.assertEqual(f.ulps(1 - 2**-24, 1.0), 0.5)
        self.assertEqual(f.ulps(math.inf, 1.0), math.inf)
        self.assertEqual(f.ulps(math.nan, 1.0), math.inf)

    def test_what_is_wrong(self):
        f = functions()
        self.assertEqual(len(f.arguments((-3, 4), True, "x")[0]), f.ROWS)
        expression, exact, *rest = f.FUNCTIONS["tanh"]
        f.FUNCTIONS = {"sqrt": f.FUNCTIONS["sqrt"]}
        self.assertFalse(f.main([BUILD, "--check", "--executors", "cpu"]))
        f.FUNCTIONS = {"tanh": (expression, lambda x: exact(x) * (1 + 2**-20), *rest)}
        self.assertTrue(f.main([BUILD, "--check", "--executors", "cpu"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
