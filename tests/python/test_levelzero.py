"""A Level Zero device by its name: the double of tests/runtime/levelzero, whose kernels an OpenCL device runs. Where that is not there, or no
device of it takes SPIR-V, nothing is tried."""

import threading
import unittest

import numpy as np

import aule
from support import torch
from test_compile import CAUSAL, expected, inputs

FOUND = [d for d in aule.devices() if d.backend == "levelzero"]
DEVICE = "levelzero:0"


@unittest.skipUnless(FOUND and FOUND[0].available, f"no device: {FOUND[0].reason if FOUND else 'no backend'}")
class LevelZero(unittest.TestCase):
    def test_device(self):
        device = next(d for d in aule.devices() if d.id == DEVICE)
        self.assertEqual(device.backend, "levelzero")
        self.assertIn("SPIR-V_1.0", device.features)
        self.assertIn(device.name, aule.describe_devices())

    def test_arrays_of_numpy(self):
        f = aule.compile(CAUSAL)
        q, k, v, bias = inputs(4)
        for _ in range(2):
            self.assertLess(np.abs(f(q, k, v, bias=bias, device=DEVICE) - expected(q, k, v, bias)).max(), 5e-6)
        half = [x.astype(np.float16) for x in (q, k, v)]
        o = f(*half, bias=bias, device=DEVICE)
        self.assertEqual(o.dtype, np.float16)
        self.assertLess(np.abs(o - expected(*half, bias)).max(), 4e-3)

    def test_threads(self):
        f = aule.compile(CAUSAL)
        tensors = [inputs(n) for n in range(3)]
        wrong = []

        def call(q, k, v, bias):
            if np.abs(f(q, k, v, bias=bias, device=DEVICE) - expected(q, k, v, bias)).max() > 5e-6:
                wrong.append(bias)

        threads = [threading.Thread(target=call, args=x) for x in tensors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertFalse(wrong)

    @unittest.skipUnless(torch, "torch is not there")
    def test_gradients_of_torch(self):
        f = aule.compile(CAUSAL)
        q, k, v, bias = (torch.from_numpy(x) for x in inputs(6))
        gradients = []
        for device in ("cpu", DEVICE):
            leaves = [x.clone().requires_grad_() for x in (q, k, v)]
            f(*leaves, bias=bias, device=device).square().sum().backward()
            gradients.append([x.grad for x in leaves])
        for ours, theirs in zip(*gradients):
            self.assertLess((ours - theirs).abs().max(), 2e-5 * float(theirs.abs().max()) + 2e-5)


if __name__ == "__main__":
    unittest.main()
