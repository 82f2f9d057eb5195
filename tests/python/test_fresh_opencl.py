"""The attentions of test_fresh.py on OpenCL devices."""

import unittest

import aule
import test_fresh
from support import FULL


class FreshOnOpenCL(test_fresh.Comparison):
    def test_opencl(self):
        devices = [d.id for d in aule.devices() if d.available and d.backend == "opencl"]
        if not devices:
            self.skipTest("no OpenCL device")
        for n, name in enumerate(test_fresh.CASES):  # in turns: drivers take seconds to build a backward kernel
            if n % 3 and not FULL:
                continue
            with self.subTest(name):
                self.run_case(name, devices[n // (1 if FULL else 3) % len(devices)])


if __name__ == "__main__":
    unittest.main()
