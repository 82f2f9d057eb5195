"""Calls on torch tensors."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np

import aule
from support import E, ROOT, inputs, load, sample, torch


@unittest.skipIf(torch is None, "torch is not installed")
class Torch(unittest.TestCase):
    def test_imported_late(self):
        """A program that imports torch after the attention, and whose first call is traced: a dense one, and one with axes."""
        for call in ("f(t, t, t)", "f(t, t, t, axes={'T': aule.padded(n)})"):
            program = f"""import aule
f = aule.compile({str(ROOT / "attn_scripts/gqa.attn")!r})
import torch
t, n = torch.ones(2, 2, 5, 16), torch.tensor([5, 3], dtype=torch.int32)
assert torch.equal(torch.compile(lambda t, n: {call}, fullgraph=True, backend="eager")(t, n), {call})"""
            with self.subTest(call):
                ran = subprocess.run([sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, capture_output=True, text=True, timeout=120)
                self.assertEqual(ran.returncode, 0, ran.stderr)

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

    def test_tensors_without_strided_data(self):
        q = self.t["q"]
        parts = [q[0], q[1]]
        with warnings.catch_warnings():  # torch's own, of what it would rather not have any more
            warnings.simplefilter("ignore")
            strange = {
                r"q is of layout sparse_coo, not strided: pass q.to_dense\(\)": q.to_sparse(),
                r"q is a nested tensor: call once for each of q.unbind\(\)": torch.nested.nested_tensor(parts),
                r"sample: q is a nested tensor": torch.nested.nested_tensor(parts, layout=torch.jagged),
                r"q is quantized: pass q.dequantize\(\)": torch.quantize_per_tensor(q, 0.1, 0, torch.qint8),
                r"q is a negated view: pass q.resolve_neg\(\)": torch.complex(q, q).conj().imag,
                r"q is of type complex64": torch.complex(q, q).conj(),
                r"q is a tensor of zeros without data: pass q.clone\(\)": torch._efficientzerotensor(q.shape),
            }
        for message, x in strange.items():
            for given in ({"q": x}, {"k": x}):
                with self.assertRaisesRegex(aule.ArgumentError, re.sub(r"\bq\b", next(iter(given)), message)):
                    self.f(**(self.t | given), window=3)

    def test_subclasses(self):
        class Tagged(torch.Tensor):
            pass

        self.expect(self.f(**(self.t | {"q": self.t["q"].as_subclass(Tagged)}), window=3))

    @unittest.skipUnless(torch is not None and torch.distributed.is_available(), "torch has no torch.distributed")
    def test_distributed(self):
        from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
            try:
                q = distribute_tensor(self.t["q"], init_device_mesh("cpu", (1,)), [Shard(1)])
                with self.assertRaisesRegex(aule.ArgumentError, r"sample: q is a DTensor, .* pass q.to_local\(\)"):
                    self.f(**(self.t | {"q": q}), window=3)
                self.expect(self.f(**(self.t | {"q": q.to_local()}), window=3))
            finally:
                torch.distributed.destroy_process_group()


if __name__ == "__main__":
    unittest.main()
