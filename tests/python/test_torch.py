"""Calls on torch tensors."""

import unittest

import numpy as np

import aule
from support import E, inputs, load, sample, torch


@unittest.skipIf(torch is None, "torch is not installed")
class Torch(unittest.TestCase):
    def setUp(self):
        self.f = load()
        self.x = inputs()
        self.t = {name: torch.from_numpy(tensor) for name, tensor in self.x.items()}

    def expect(self, o, **change):
        np.testing.assert_allclose(o.numpy(), sample(**(self.x | change), window=3)[0], rtol=2e-5, atol=2e-6)

    def test_tensors_in_tensors_out(self):
        o = self.f(**self.t, window=3)
        self.assertIsInstance(o, torch.Tensor)
        self.assertEqual((tuple(o.shape), o.dtype), ((2, 4, 5, E), torch.float32))
        self.expect(o)
        again = self.f.forward(**self.t, window=torch.tensor(3), scale=torch.tensor(8**-0.5))
        self.assertEqual(again["lse"].dtype, torch.float32)
        self.expect(again["o"])

    def test_strides(self):
        q = self.t["q"].transpose(1, 2).contiguous().transpose(1, 2)
        self.expect(self.f(**(self.t | {"q": q, "v": self.t["v"][:1].expand(2, -1, -1, -1)}), window=3), v=self.x["v"][[0, 0]])

    def test_output_is_written_in_place(self):
        out = torch.empty(2, 5, 4, E).transpose(1, 2)
        self.assertIs(self.f(**self.t, window=3, out=out), out)
        self.expect(out)

    def test_types(self):
        half = {name: tensor.bfloat16() if name in "qkv" else tensor for name, tensor in self.t.items()}
        with self.assertRaisesRegex(aule.Error, "bf16") as caught:
            self.f(**half, window=3)
        self.assertEqual(caught.exception.status, "unsupported")
        with self.assertRaisesRegex(aule.ArgumentError, "complex64"):
            self.f(**(self.t | {"q": self.t["q"].to(torch.complex64)}), window=3)
        with self.assertRaisesRegex(aule.ArgumentError, "strided"):
            self.f(**(self.t | {"q": self.t["q"].to_sparse()}), window=3)


if __name__ == "__main__":
    unittest.main()
