"""Calls on AMD's GPUs, by the driver's stand-in of tests/emulate, which executes their machine code in the host's memory: which device and stream tensors
of ROCm belong to, and that they stay where they are. torch is a stand-in, too: none made for ROCm was there."""

import ctypes
import os
import sys
import types
import unittest
from unittest import mock

import numpy as np

import aule
from aule import _devices, _plans, _tensors
from aule import _libaule as abi
from support import run_beside

FOLDER = os.environ.get("AULE_TEST_HIP", "")
EMULATED = "EMULATED_HIP" in os.environ
ROCM, STREAM = 10, 0x5000
SCRIPT = "attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; score_mod(s) = s * rsqrt(D); online softmax; }"


class ManagedTensor(ctypes.Structure):
    _fields_ = [("dl_tensor", abi.DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Array:
    """An array in memory of the device hip:0, of a library that speaks DLPack."""

    streams: list = []  # that consumers named

    def __init__(self, values):
        self.buffer = _plans._Buffer(_devices.Device.get("hip:0"), values.nbytes)
        memory = (ctypes.c_char * values.nbytes).from_address(self.buffer.data)
        self.values = np.frombuffer(memory, values.dtype).reshape(values.shape)
        self.values[...] = values
        self.shape, self.device = values.shape, 0

    def __dlpack_device__(self):
        return ROCM, 0

    def __dlpack__(self, stream=None):
        Array.streams.append(stream)
        a = self.values
        shape, strides = ((ctypes.c_int64 * a.ndim)(*n) for n in (a.shape, [s // a.itemsize for s in a.strides]))
        self.managed = ManagedTensor(abi.DLTensor(a.ctypes.data, (ROCM, 0), a.ndim, abi.DLDataType(2, a.itemsize * 8, 1), shape, strides, 0))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)

    def __array_namespace__(self):
        return types.SimpleNamespace(float16=np.float16, empty=lambda shape, dtype, device: Array(np.empty(shape, dtype)))


class Tensor:
    """What the library asks of a tensor of torch."""

    layout = "strided"
    is_nested = is_quantized = is_meta = False
    is_neg = _is_zerotensor = lambda self: False
    dtype = "torch.float16"
    stride = lambda self: (16, 1)
    data_ptr = lambda self: 4096
    shape = (4, 16)

    def __init__(self, kind, index):
        self.device = types.SimpleNamespace(type=kind, index=index)


def torch_for(hip, stream=STREAM):
    """A torch that was made for ROCm, or (None) for CUDA."""
    torch = types.ModuleType("torch")
    torch.Tensor, torch.strided, torch.version = Tensor, "strided", types.SimpleNamespace(hip=hip)
    torch.cuda = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=stream))
    return torch


def oracle(q, k, v):
    s = np.einsum("bhsd,bhtd->bhst", q.astype(np.float64), k.astype(np.float64)) * q.shape[-1] ** -0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhst,bhtd->bhsd", p / p.sum(-1, keepdims=True), v.astype(np.float64))


class Torch(unittest.TestCase):
    """torch calls the GPUs of both vendors "cuda"; what it was made for says whose they are."""

    def setUp(self):
        _tensors.torch_gpu.cache_clear()
        self.addCleanup(_tensors.torch_gpu.cache_clear)

    def test_device(self):
        for hip, kind, name in (("6.3.42131", ROCM, "hip:3"), (None, 2, "cuda:3")):
            _tensors.torch_gpu.cache_clear()
            with mock.patch.dict(sys.modules, torch=torch_for(hip)), mock.patch.object(_devices.Device, "get", lambda name: name):
                x = Tensor("cuda", 3)
                self.assertEqual(_tensors.view(x, "q").device, (kind, 3))
                self.assertEqual(_devices.Device.of(None, x), name)
                self.assertEqual(_devices.Device.of(name.partition(":")[0], x), name)
                self.assertEqual(_devices.Device.of("cpu", x), "cpu")
                self.assertEqual(_devices.Device.of(None, Tensor("cpu", None)), "cpu")

    def test_stream(self):
        """That of torch; 1 is the default one, of which torch's handle is 0."""
        device = types.SimpleNamespace(backend="hip", xpu=None)
        for stream, queue in ((STREAM, STREAM), (0, 1)):
            with mock.patch.dict(sys.modules, torch=torch_for("6.3.42131", stream)):
                self.assertEqual(_plans.queue_of(Tensor("cuda", 0), device), queue)
                self.assertFalse(_plans._reads_at_once(Tensor("cuda", 0), device))

    def test_which_devices_see_it(self):
        sees = _devices.Device.sees
        for hip, there, elsewhere in (("6.3.42131", "hip", "cuda"), (None, "cuda", "hip")):
            _tensors.torch_gpu.cache_clear()
            with mock.patch.dict(sys.modules, torch=torch_for(hip)):
                self.assertTrue(sees(types.SimpleNamespace(backend=there), Tensor("cuda", 0)))
                self.assertFalse(sees(types.SimpleNamespace(backend=elsewhere), Tensor("cuda", 0)))


@unittest.skipUnless(EMULATED, "started by test_stand_in")
class Calls(unittest.TestCase):
    def setUp(self):
        r = np.random.default_rng(1)
        self.x = [r.standard_normal((1, 2, n, 32)).astype(np.float16) for n in (5, 37, 37)]
        self.f = aule.compile(SCRIPT)
        Array.streams = []

    def test_tensors_stay(self):
        given = [Array(x) for x in self.x]
        with mock.patch.object(_plans, "Staged", side_effect=AssertionError("copies")):
            o = self.f(*given)
        self.assertIsInstance(o, Array)
        self.assertEqual(set(Array.streams), {0})  # ROCm's default stream, as the array API has it
        np.testing.assert_allclose(o.values.astype(np.float64), oracle(*self.x), rtol=2e-3, atol=2e-3)

    def test_machines_of_their_own(self):
        """A machine that is none of the default ones is compiled for by its name (hip:6 is gfx1030), and architectures may be named."""
        x = [a.astype(np.float32) for a in self.x]
        for f, device in ((self.f, "hip:6"), (aule.compile(SCRIPT, archs="gfx10-3-generic"), "hip:6"), (aule.compile(SCRIPT, archs="gfx1100"), "hip:1")):
            np.testing.assert_allclose(f(*x, device=device), oracle(*x), rtol=1e-5, atol=1e-5)
        with self.assertRaisesRegex(aule.CompileError, "gfx999"):
            aule.compile(SCRIPT, archs="gfx999")(*x, device="hip:0")

    def test_other_devices_refuse(self):
        given = [Array(x) for x in self.x]
        with self.assertRaisesRegex(aule.ArgumentError, "q: it is on rocm:0"):
            self.f(*given, device="cpu")
        with self.assertRaisesRegex(aule.ArgumentError, "k: it is on cpu"):
            self.f(given[0], self.x[1], given[2])


@unittest.skipIf(EMULATED or not os.path.isdir(FOLDER), "no stand-in for the driver")
class StandIn(unittest.TestCase):
    def test_stand_in(self):
        run_beside(self, FOLDER, "EMULATED_HIP", "test_hip.Calls", "test_tensors_stay")


if __name__ == "__main__":
    unittest.main()
