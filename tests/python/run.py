"""Runs a module of tests with the packages that tests/tools/python-packages.sh installed, if AULE_TEST_PACKAGES names them:

    python run.py test_autograd

They come before those of the system: their torch wants their NumPy.
"""

import os
import sys
import unittest
from pathlib import Path

if os.environ.get("AULE_TEST_PACKAGES"):
    sys.path.insert(1, os.environ["AULE_TEST_PACKAGES"])

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from parts import PartLoader

if __name__ == "__main__":
    unittest.main(module=None, testLoader=PartLoader())
