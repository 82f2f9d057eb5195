"""Calls on a device that sees neither the host's memory nor that in which their tensors are: by way of the host, and back, which is said once. What holds
them are stand-ins, a torch with tensors on "cuda" and a library that speaks DLPack: their memory is the host's, but nobody may read it in place."""

import contextlib
import sys
import types
import unittest
import warnings
from unittest import mock

import numpy as np

import aule
from aule import _foreign
from test_compile import CAUSAL, expected, inputs

DEVICES = [d.id for d in aule.devices() if d.available and d.backend in ("vulkan", "opencl", "levelzero")]
APPEND = "attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; score_mod(s) = s * rsqrt(D); mask(b, h, i, j) = j <= q_pos; online softmax; }"


class Place(types.SimpleNamespace):
    """torch.device"""

    __hash__ = lambda self: hash((self.type, self.index))
    __str__ = lambda self: self.type if self.index is None else f"{self.type}:{self.index}"


CPU, CUDA = Place(type="cpu", index=None), Place(type="cuda", index=1)


class Tensor:
    """What the library asks of torch's tensors of floats; of one on a GPU only copies give values."""

    layout = "strided"
    is_nested = is_quantized = is_meta = is_mps = requires_grad = False
    is_neg = _is_zerotensor = lambda self: False
    detach = lambda self: self
    copies: list = []

    def __init__(self, values, device):
        self.values, self.device, self.shape, self.dtype = values, device, values.shape, f"torch.{values.dtype}"

    def to(self, device):
        Tensor.copies.append(f"{self.device} to {device}")
        return Tensor(self.values.copy(order="K"), device)

    def cpu(self):
        return self.to(CPU)

    def copy_(self, other):
        Tensor.copies.append(f"{other.device} to {self.device}")
        self.values[...] = other.values

    def stride(self, axis=None):
        strides = tuple(n // self.values.itemsize for n in self.values.strides)
        return strides if axis is None else strides[axis]

    dim = lambda self: self.values.ndim
    swapaxes = lambda self, a, b: Tensor(self.values.swapaxes(a, b), self.device)

    def data_ptr(self):
        return self.values.ctypes.data if self.device is CPU else 1 << 40


def stand_in():
    """The module torch."""
    torch = types.ModuleType("torch")
    torch.Tensor, torch.strided, torch.version = Tensor, "strided", types.SimpleNamespace(hip=None)
    torch.float32, torch.float16 = "torch.float32", "torch.float16"
    torch.empty = lambda shape, dtype, device: Tensor(np.empty(shape, dtype.removeprefix("torch.")), device)
    return torch


class Array:
    """An array of a library without torch's ways, on its device 3, which DLPack calls kDLOneAPI."""

    kind = 14

    def __init__(self, values, readable=True):
        self.values, self.shape, self.readable, self.device = values, values.shape, readable, "its device 3"

    def __dlpack_device__(self):
        return self.kind, 3

    def __dlpack__(self, stream=None, **more):
        if more:
            raise BufferError("no copy of it")
        host = Tensor(self.values, CPU)
        return foreign_capsule(self, host)

    def __array__(self, dtype=None, copy=None):
        if not self.readable:
            raise TypeError("implicit conversion is not allowed")
        return self.values.copy()

    def __array_namespace__(self):
        return Library

    def __setitem__(self, at, other):
        assert isinstance(other, Array)
        self.values[at] = other.values


class Library:
    @staticmethod
    def asarray(values, device):
        assert device == "its device 3"
        return Array(np.array(values))


def foreign_capsule(array, host):
    """A DLPack tensor that says where the array is."""
    import ctypes

    from aule import _libaule as abi

    a = host.values
    shape, strides = ((ctypes.c_int64 * a.ndim)(*n) for n in (a.shape, host.stride()))
    array.managed = abi.DLTensor(1 << 40, (array.kind, 3), a.ndim, abi.DLDataType(2, a.itemsize * 8, 1), shape, strides, 0)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(array.managed), b"dltensor", None)


@contextlib.contextmanager
def copies_said():
    """The texts of aule.CopyWarning meanwhile, none of them said before."""
    with mock.patch.object(_foreign, "_said", set()), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        texts = []
        yield texts
        texts += [str(w.message) for w in said if w.category is aule.CopyWarning]


class OfTorch:
    """On `device`."""

    device = ""

    @classmethod
    def setUpClass(cls):
        cls.runner = aule.compile(CAUSAL)._runner

    def setUp(self):
        self.enterContext(mock.patch.dict(sys.modules, torch=stand_in()))
        Tensor.copies = []

    def run_forward(self, given, out=None):
        params = {"scale": 0.125, "window": 10**6}
        return self.runner.run("forward", given, params, {} if out is None else {"o": out}, ("o",), self.device, False)["o"]

    def test_tensors_of_torch(self):
        x = inputs(3)
        with copies_said() as said:
            for _ in range(2):
                o = self.run_forward(dict(zip(("q", "k", "v", "bias"), (Tensor(a, CUDA) for a in x))))
                self.assertIs(o.device, CUDA)
                np.testing.assert_allclose(o.values, expected(*x), rtol=2e-5, atol=5e-6)
        self.assertEqual(Tensor.copies, 2 * (4 * ["cuda:1 to cpu"] + ["cpu to cuda:1"]))
        self.assertEqual(len(said), 1, said)
        self.assertRegex(said[0], rf"tensors on cuda:1 go by way of the host to {self.device} and back")

    def test_results_into_tensors_of_the_caller(self):
        """Those with gaps keep what is in these; layouts of the heads stay."""
        x = inputs(4)
        rows = np.full((2, 37, 4, 80), 7, np.float32)
        o = Tensor(rows.transpose(0, 2, 1, 3)[..., :64], CUDA)
        with copies_said():
            self.assertIs(self.run_forward(dict(zip(("q", "k", "v", "bias"), (Tensor(a, CUDA) for a in x))), o), o)
        np.testing.assert_allclose(o.values, expected(*x), rtol=2e-5, atol=5e-6)
        self.assertTrue((rows[..., 64:] == 7).all())

    def test_some_on_the_host(self):
        """Results are where the first tensor is."""
        x = inputs(5)
        for places in ((CPU, CUDA, CUDA, CPU), (CUDA, CPU, CUDA, CPU)):
            with copies_said() as said:
                o = self.run_forward(dict(zip(("q", "k", "v", "bias"), (Tensor(a, place) for a, place in zip(x, places)))))
            self.assertIs(o.device, places[0])
            np.testing.assert_allclose(o.values, expected(*x), rtol=2e-5, atol=5e-6)
            self.assertEqual(len(said), 1)

    def test_what_has_no_data(self):
        x = [Tensor(a, CUDA) for a in inputs(6)]
        x[1].layout = "torch.sparse_coo"
        with copies_said(), self.assertRaisesRegex(aule.ArgumentError, r"k is of layout sparse_coo, not strided: pass k.to_dense\(\)"):
            self.run_forward(dict(zip(("q", "k", "v", "bias"), x)))

    def test_host_tensors_say_nothing(self):
        x = inputs(7)
        with copies_said() as said:
            o = self.run_forward(dict(zip(("q", "k", "v", "bias"), (Tensor(a, CPU) for a in x))))
        np.testing.assert_allclose(o.values, expected(*x), rtol=2e-5, atol=5e-6)
        self.assertEqual((said, Tensor.copies), ([], []))


class OfOthers:
    """On `device`."""

    device = ""

    def test_arrays(self):
        q, k, v, bias = inputs(8)
        f = aule.compile(CAUSAL)
        with copies_said() as said:
            o = f(*map(Array, (q, k, v)), bias=Array(bias), device=self.device)
            self.assertIsInstance(o, Array)
            np.testing.assert_allclose(o.values, expected(q, k, v, bias), rtol=2e-5, atol=5e-6)
            out = Array(np.zeros_like(q))
            self.assertIs(f(*map(Array, (q, k, v)), bias=bias, device=self.device, out=out), out)
            np.testing.assert_allclose(out.values, expected(q, k, v, bias), rtol=2e-5, atol=5e-6)
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], r"tensors on test_foreign's device 3 \(type 14 of DLPack\)")

    def test_caches_that_are_written(self):
        """Rows that a call appends are in the caller's caches, and the others as they were."""
        r = np.random.default_rng(9)
        k, v = (r.standard_normal((1, 2, 24, 32)).astype(np.float32) for _ in "kv")
        new = [r.standard_normal((1, 2, 3, 32)).astype(np.float32) for _ in "kv"]
        caches = [Array(k.copy()), Array(v.copy())]
        with copies_said():
            aule.compile(APPEND).append(*map(Array, new), *caches, device=self.device)
        for cache, old, rows in zip(caches, (k, v), new):
            np.testing.assert_array_equal(cache.values, np.concatenate([old[:, :, :21], rows], 2))

    def test_no_copy_to_be_had(self):
        q, k, v, bias = inputs(10)
        with copies_said(), self.assertRaisesRegex(aule.ArgumentError, "k is on test_foreign's device 3 .*of which NumPy has no copy .*not allowed.*: pass one"):
            aule.compile(CAUSAL)(q, Array(k, readable=False), v, bias=bias, device=self.device)

    def test_no_results_to_be_written(self):
        """JAX's arrays, for example."""

        class Fixed(Array):
            def __setitem__(self, at, other):
                raise TypeError("arrays do not change")

        q, k, v, bias = inputs(11)
        with copies_said(), self.assertRaisesRegex(aule.ArgumentError, "o is of a library that does not write into its tensors: arrays do not change"):
            aule.compile(CAUSAL)(q, k, v, bias=bias, device=self.device, out=Fixed(np.zeros_like(q)))

    def test_places_that_are_none(self):
        """What __dlpack_device__ says may be anything, and a library without an array API makes no results."""
        q, k, v, bias = inputs(13)
        f = aule.compile(CAUSAL)
        for said in (None, (14,), ("x", 0), 14):
            odd = type("Odd", (Array,), {"__dlpack_device__": lambda self, said=said: said})
            for device in (self.device, "cpu"):
                with self.assertRaisesRegex(aule.ArgumentError, "__dlpack_device__ of a Odd says .*, no pair of numbers"):
                    f(odd(q), k, v, bias=bias, device=device)
        bare = Array(q)
        with mock.patch.object(Array, "__array_namespace__", new_callable=mock.PropertyMock, side_effect=AttributeError), copies_said() as texts:
            with self.assertRaisesRegex(aule.ArgumentError, "no __array_namespace__ to make results there: pass out="):
                f(bare, k, v, bias=bias, device=self.device)
        self.assertEqual(texts, [])  # nothing was copied for it

    def test_processors_are_not_asked_for_copies(self):
        """`cpu` copies nothing: such tensors are refused there."""
        q, k, v, bias = inputs(12)
        with self.assertRaisesRegex(aule.ArgumentError, "q: it is on oneapi:3"):
            aule.compile(CAUSAL)(Array(q), k, v, bias=bias, device="cpu")


def on(device, *cases):
    """Test cases for that device."""
    return [type(f"{case.__name__}_{device.partition(':')[0]}", (case, unittest.TestCase), {"device": device}) for case in cases]


def load_tests(loader, tests, pattern):
    firsts = {device.partition(":")[0]: device for device in reversed(DEVICES)}
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for device in firsts.values() for case in on(device, OfTorch, OfOthers))


if __name__ == "__main__":
    unittest.main()
