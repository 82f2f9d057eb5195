"""Gradients without autograd: forward, then backward, on the hand-made artifact."""

import copy
import pickle
import unittest

import numpy as np

import aule
from support import E, inputs, load, sample_gradients


class Gradients(unittest.TestCase):
    def setUp(self):
        self.f = load()
        self.do = np.random.default_rng(9).standard_normal((2, 4, 5, E)).astype(np.float32)
        self.dlse = np.random.default_rng(8).standard_normal((2, 4, 5)).astype(np.float32)

    def expect(self, gradients, x, do, dlse=None, **more):
        want = sample_gradients(x, 3, do, dlse, **more)
        self.assertEqual(list(gradients), ["dq", "dk", "dv", "dslope"])
        for name, gradient in gradients.items():
            self.assertEqual((gradient.shape, gradient.dtype), (x[name[1:]].shape, x[name[1:]].dtype), name)
            np.testing.assert_allclose(gradient, want[name], rtol=5e-5, atol=5e-6, err_msg=name)

    def test_all(self):
        x = inputs()
        results = self.f.forward(**x, window=3)
        self.assertIs(results.o, results["o"])
        self.expect(self.f.backward(results, self.do), x, self.do)
        self.expect(self.f.backward(results, self.do, dlse=self.dlse), x, self.do, self.dlse)
        self.expect(self.f.backward(results, self.do, dlse=None), x, self.do)

    def test_parameters_and_layouts(self):
        x = inputs(1)
        q = np.ascontiguousarray(x["q"].transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        do = np.broadcast_to(np.float32(0.5), (2, 4, 5, E))
        results = self.f.forward(**(x | {"q": q}), window=3, scale=0.7)
        gradients = self.f.backward(results, do)
        self.expect(gradients, x, do, scale=0.7)
        self.assertEqual(gradients["dq"].strides, q.strides)
        self.assertEqual(results.o.transpose(0, 2, 1, 3).flags.c_contiguous, True)

    def test_given_tensors(self):
        x = inputs(2)
        dv = np.zeros((2, 7, 2, E), np.float32).transpose(0, 2, 1, 3)
        gradients = self.f.backward(self.f.forward(**x, window=3), self.do, out={"dv": dv})
        self.assertIs(gradients["dv"], dv)
        self.expect(gradients, x, self.do)

    def test_other_devices(self):
        x = inputs(3)
        tried = [device.id for device in aule.devices() if device.available and device.backend not in ("cpu", "vulkan", "levelzero")]
        for device in tried:
            results = self.f.forward(**x, window=3, device=device)
            self.expect(self.f.backward(results, self.do, dlse=self.dlse), x, self.do, self.dlse)
        if not tried:
            self.skipTest("no device but the processor")

    def test_refusals(self):
        x = inputs(4)
        results = self.f.forward(**x, window=3)
        with self.assertRaisesRegex(TypeError, "takes what sample.forward.. returned, it was given dict"):
            self.f.backward(dict(results), self.do)
        with self.assertRaisesRegex(TypeError, "does not take dmax; gradients of finals are dlse"):
            self.f.backward(results, self.do, dmax=self.dlse)
        with self.assertRaisesRegex(TypeError, "no gradient dlengths"):
            self.f.backward(results, self.do, out={"dlengths": x["lengths"]})
        with self.assertRaisesRegex(aule.ArgumentError, "do"):
            self.f.backward(results, self.do[:, :2])
        with self.assertRaisesRegex(AttributeError, "no result m; there are o, lse"):
            results.m

    def test_copies(self):
        self.assertEqual(self.f.gradients, ("q", "k", "v", "slope"))
        self.assertIs(copy.deepcopy([self.f])[0], self.f)
        again = pickle.loads(pickle.dumps(self.f))
        x = inputs(5)
        np.testing.assert_array_equal(again(**x, window=3), self.f(**x, window=3))


if __name__ == "__main__":
    unittest.main()
