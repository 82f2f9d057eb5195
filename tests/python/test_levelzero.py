"""A Level Zero device by its name: the double of tests/runtime/levelzero, whose kernels an OpenCL device runs. Where that is not there, or no
device of it takes SPIR-V, nothing is tried. Packed rows want that device's compiler without its vectorizer (CL_CONFIG_CPU_VECTORIZER_MODE=1):
docs/dev/testing.md."""

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

    def test_layouts(self):
        """What the processor makes of packed rows, with rows of no sequence at the end, and of keys in pages."""
        r = np.random.default_rng(0)
        q, k, v = (r.standard_normal((1, 3, 45, 32)).astype(np.float32) for _ in "qkv")
        starts = np.array([0, 10, 10, 30, 40], np.int32)
        packed = aule.compile(aule.attention_script(q, k), layout="S=packed,T=packed")
        made = [packed(q, k, v, S_starts=starts, T_starts=starts, out=np.full_like(q, 7), device=d) for d in ("cpu", DEVICE)]
        np.testing.assert_allclose(made[1], made[0], rtol=2e-5, atol=8e-6)
        self.assertFalse(made[1][:, :, 40:].any())
        paged = aule.compile(aule.attention_script(q, k), layout="T=paged")
        pool = [np.concatenate([x[..., n : n + 15, :] for n in (30, 0, 15)]) for x in (k, v)]
        lengths, table = np.array([37], np.int32), np.array([[1, 2, 0]], np.int32)
        made = [paged(q, *pool, T_lengths=lengths, T_table=table, device=d) for d in ("cpu", DEVICE)]
        np.testing.assert_allclose(made[1], made[0], rtol=2e-5, atol=8e-6)

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
