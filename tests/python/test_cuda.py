"""Calls on CUDA, by the driver's stand-in of the runtime's tests (tests/runtime/cuda_mock.h), whose memory is the host's: which device and
stream a call goes to, and what is copied."""

import ctypes
import os
import sys
import types
import unittest
from unittest import mock

import numpy as np

import aule
from aule import _libaule as abi
from support import inputs, load, run_beside, sample, sample_gradients

MOCK = os.environ.get("AULE_TEST_CUDA", "")
UNDER_MOCK = "MOCK_CUDA" in os.environ


class ManagedTensor(ctypes.Structure):
    _fields_ = [("dl_tensor", abi.DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Array:
    """An array of some library for GPUs, on the device `index`."""

    streams: list = []  # that consumers named

    def __init__(self, array, index=0):
        self.array, self.index = array, index
        self.shape = array.shape

    @property
    def device(self):
        return self.index

    def __dlpack_device__(self):
        return 2, self.index

    def __dlpack__(self, stream=None):
        Array.streams.append(stream)
        a = self.array
        code = {"f": 2, "i": 0}[a.dtype.kind]
        shape, strides = ((ctypes.c_int64 * a.ndim)(*n) for n in (a.shape, [s // a.itemsize for s in a.strides]))
        self.managed = ManagedTensor(abi.DLTensor(a.ctypes.data, (2, self.index), a.ndim, abi.DLDataType(code, a.itemsize * 8, 1), shape, strides, 0))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)

    def __array_namespace__(self):
        return Library


class Library:
    float32 = np.float32

    @staticmethod
    def empty(shape, dtype, device):
        return Array(np.empty(shape, dtype), device)


@unittest.skipUnless(UNDER_MOCK, "started by test_stand_in")
class Calls(unittest.TestCase):
    def setUp(self):
        self.f = load()
        Array.streams = []

    def test_host_tensors_are_copied_where_they_are_sent(self):
        x = inputs()
        for device in ("cuda", "cuda:1"):
            np.testing.assert_allclose(self.f(**x, window=3, device=device), sample(**x, window=3)[0], rtol=2e-5, atol=2e-6)

    def test_gpu_tensors_stay(self):
        x = inputs()
        for index in (0, 1):
            on_gpu = {name: Array(array, index) for name, array in x.items()}
            results = self.f.forward(**on_gpu, window=3)
            self.assertIsInstance(results.o, Array)
            self.assertEqual(results.o.index, index)
            np.testing.assert_allclose(results.o.array, sample(**x, window=3)[0], rtol=2e-5, atol=2e-6)
            do = np.ones(results.o.shape, np.float32)
            gradients = self.f.backward(results, Array(do, index))
            for name, want in sample_gradients(x, 3, do).items():
                np.testing.assert_allclose(gradients[name].array, want, rtol=5e-5, atol=5e-6)
        self.assertEqual(set(Array.streams), {1})  # the default stream, on which calls are

    def test_tensors_of_two_devices(self):
        x = {name: Array(array, int(name == "k")) for name, array in inputs().items()}
        with self.assertRaisesRegex(aule.ArgumentError, "k: it is on cuda:1"):
            self.f(**x, window=3)
        with self.assertRaisesRegex(aule.ArgumentError, "q: it is on cuda:0"):
            self.f(**{name: Array(array) for name, array in inputs().items()}, window=3, device="cpu")
        with self.assertRaisesRegex(aule.Error, "cuda:7"):
            self.f(**inputs(), window=3, device="cuda:7")

    def test_cupy(self):
        """Its arrays are made on the array's device, and calls go to its current stream."""
        entered = []

        class Device(int):
            __enter__ = lambda self: entered.append(int(self))
            __exit__ = lambda self, *_: None

        made = type("ndarray", (Array,), {"__module__": "cupy", "device": property(lambda self: Device(self.index)), "__array_namespace__": None})
        cupy = types.ModuleType("cupy")
        cupy.empty = lambda shape, dtype: made(np.empty(shape, dtype), entered[-1])
        cupy.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=0))
        with mock.patch.dict(sys.modules, cupy=cupy):
            x = inputs()
            other = self.f(**{name: Array(array, 1) for name, array in x.items()}, window=3)  # like them but for the library
            o = self.f(**{name: made(array, 1) for name, array in x.items()}, window=3)
        self.assertEqual((type(other), type(o), o.index, entered), (Array, made, 1, [1]))
        np.testing.assert_allclose(o.array, sample(**x, window=3)[0], rtol=2e-5, atol=2e-6)

    def test_architectures(self):
        script = "attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; score_mod(s) = s; online softmax; }"
        x = np.ones((1, 1, 4, 16), np.float32)
        with self.assertRaisesRegex(aule.Error, r"no forward kernel for device cuda:0.*cuda sm_120 f32 D=16 \(needs sm_120, the device is sm_90"):
            aule.compile(script, archs="sm_120")(x, x, x, device="cuda")

    def test_lists_of_equal_parts_are_for_sequences_that_may_differ(self):
        """Of eight sequences whose tables have room for more than 1024 keys, without a window; else each has as many parts. By the kernels that were
        launched."""
        script = "attention a { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, D]; score_mod(s) = s; %s online softmax; }"
        window = "mask(b, h, i, j) = j <= q_pos && q_pos - j < 300;"
        launched = (ctypes.c_char * 32768).in_dll(ctypes.CDLL("libcuda.so.1"), "cuda_mock")  # the driver's notes
        for mask, sequences, entries, listed in (("", 8, 128, True), ("", 7, 128, False), ("", 8, 64, False), ("", 8, 65, True), (window, 8, 128, False)):
            with self.subTest(mask=mask, sequences=sequences, entries=entries):
                f = aule.compile(script % mask, archs="sm_90", layout="T=paged")
                launched.raw = launched.raw.replace(b"_decode_", b"_before_")
                k = np.zeros((3, 2, 16, 64), np.float16)
                lists = {"T_table": np.zeros((sequences, entries), np.int32), "T_lengths": np.full(sequences, 16, np.int32)}
                f(np.zeros((sequences, 4, 1, 64), np.float16), k, k, **lists, device="cuda:0")
                self.assertIn(b"_decode_", launched.raw)
                self.assertEqual(b"_decode_balanced_shares" in launched.raw, listed)

    def test_how_many_rows_are_few(self):
        """32 queries of any number of heads by matrix units, tf32's too, and 128 where all heads have 2048 rows together at most; 48 queries by multiply-adds. By the kernels
        that were launched."""
        script = "attention a { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, D]; score_mod(s) = s; online softmax; }"
        launched = (ctypes.c_char * 32768).in_dll(ctypes.CDLL("libcuda.so.1"), "cuda_mock")
        for how, heads, queries, few in (("tf32", 17, 4, True), ("tf32", 64, 32, True), ("tf32", 64, 33, False), ("tf32", 16, 128, True), ("tf32", 17, 128, False), ("tf32", 1, 129, False), ("exact", 17, 4, True), ("exact", 1, 48, True), ("exact", 1, 49, False)):
            with self.subTest(how, heads=heads, queries=queries):
                f = aule.compile(script, archs="sm_90", f32=how)
                launched.raw = launched.raw.replace(b"_decode_", b"_before_")
                k = np.zeros((1, 1, 100, 64), np.float32)
                f(np.zeros((1, heads, queries, 64), np.float32), k, k, device="cuda:0")
                self.assertEqual(b"_decode_" in launched.raw, few)

    def test_backends(self):
        self.assertEqual(aule.get_available_backends()[0], "cuda")
        self.assertEqual([d.id for d in aule.get_backend_info()["cuda"]["devices"]], ["cuda:0", "cuda:1"])
        with aule.Attention("cuda:1") as a:
            self.assertEqual((a.backend, a.backend_name), ("cuda:1", "cuda"))


@unittest.skipIf(UNDER_MOCK or not os.path.exists(MOCK), "no stand-in for the driver")
class StandIn(unittest.TestCase):
    def test_stand_in(self):
        run_beside(self, os.path.dirname(MOCK), "MOCK_CUDA", "test_cuda", "test_gpu_tensors_stay")


if __name__ == "__main__":
    unittest.main()
