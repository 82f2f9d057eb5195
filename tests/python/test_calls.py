"""Calls on NumPy arrays and DLPack tensors: results, layouts without copies, finals, outputs given, arguments refused."""

import ctypes
import mmap
import os
import signal
import threading
import unittest

import numpy as np

import aule
from aule import _workspaces
from aule._libaule import DLDataType, DLManagedTensorVersioned, DLTensor
from support import D, E, inputs, load, sample


class Capsule:
    """An array by a versioned DLPack tensor that is made by hand."""

    def __init__(self, array, lanes, read_only=False):
        self.array, self.shape = array, (ctypes.c_int64 * array.ndim)(*array.shape)
        self.managed = DLManagedTensorVersioned(major=1, flags=int(read_only))
        self.managed.dl_tensor = DLTensor(data=array.ctypes.data, device=(1, 0), ndim=array.ndim, dtype=DLDataType(2, 32, lanes), shape=self.shape)

    def __dlpack__(self, **options):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor_versioned", None)

    def __dlpack_device__(self):
        return 1, 0


class Calls(unittest.TestCase):
    def setUp(self):
        self.f = load()

    def expect(self, o, x, window=3, **more):
        np.testing.assert_allclose(o, sample(**x, window=window, **more)[0], rtol=2e-5, atol=2e-6)

    def test_positions_and_names(self):
        x = inputs()
        o = self.f(x["q"], x["k"], x["v"], lengths=x["lengths"], slope=x["slope"], window=3)
        self.assertIsInstance(o, np.ndarray)
        self.assertEqual((o.shape, o.dtype), ((2, 4, 5, E), np.float32))
        self.expect(o, x)
        np.testing.assert_array_equal(o, self.f(**x, window=3))

    def test_parameters(self):
        x = inputs(1)
        for scale in (0.5, 1, np.float32(0.25), np.int64(2), True):
            self.expect(self.f(**x, window=np.int32(4), scale=scale), x, window=4, scale=float(scale))

    def test_forward_gives_finals(self):
        x = inputs(2)
        results = self.f.forward(**x, window=9)
        o, lse = sample(**x, window=9)
        self.assertEqual(list(results), ["o", "lse"])
        np.testing.assert_allclose(results["o"], o, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(results["lse"], lse, rtol=2e-5, atol=2e-6)

    def test_layouts_are_taken_as_they_are(self):
        x = inputs(3)
        q = np.ascontiguousarray(x["q"].transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)  # [B, S, H, D] in memory
        k = np.zeros((2, 2, 14, D), np.float32)[:, :, ::-2]
        k[:] = x["k"]
        v = np.broadcast_to(x["v"][:1], x["v"].shape)  # stride 0
        self.expect(self.f(**(x | {"q": q, "k": k, "v": v}), window=3), x | {"v": v})

    def test_read_only_inputs(self):
        x = inputs(4)
        for tensor in x.values():
            tensor.flags.writeable = False
        self.expect(self.f(**x, window=3), x)

    def test_given_output(self):
        x = inputs(5)
        whole = np.full((2, 5, 4, 2 * E), 7, np.float32)
        out = whole.transpose(0, 2, 1, 3)[..., ::2]
        self.assertIs(self.f(**x, window=3, out=out), out)
        self.expect(out, x)
        self.assertTrue((whole[..., 1::2] == 7).all())
        lse = np.empty((2, 4, 5), np.float32)
        results = self.f.forward(**x, window=3, out={"lse": lse})
        self.assertIs(results["lse"], lse)

    def test_dlpack(self):
        class Opaque:
            """A tensor of which nothing is known but __dlpack__."""

            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        x = inputs(6)
        o = self.f(**{name: Opaque(tensor) for name, tensor in x.items()}, window=3)
        self.assertIsInstance(o, np.ndarray)
        self.expect(o, x)

    def test_dlpack_that_is_not_what_it_was(self):
        """A plan of one element a place is none for vectors of them, and what is read-only is not written."""
        x = inputs(6)
        for lanes in (2, 1, 2, 0, 65535):
            call = lambda: self.f(**(x | {"q": Capsule(x["q"], lanes)}), window=3)  # noqa: E731
            if lanes == 1:
                self.expect(call(), x)
                continue
            with self.assertRaisesRegex(aule.ArgumentError, f"float32 in vectors of {lanes}"):
                call()
        out = np.zeros((2, 4, 5, E), np.float32)
        with self.assertRaisesRegex(aule.ArgumentError, "o is read-only"):
            self.f(**x, window=3, out=Capsule(out, 1, read_only=True))
        self.assertFalse(out.any())
        self.f(**x, window=3, out=Capsule(out, 1))
        self.expect(out, x)

    def test_other_devices_get_copies(self):
        tried = 0
        for device in aule.devices():
            if device.backend in ("cpu", "vulkan", "levelzero") or not device.available:  # the sample has no modules
                continue
            tried += 1
            x = inputs(7)
            self.expect(self.f(**x, window=3, device=device.id), x)
            q = x["q"][:, :, ::-1]
            out = np.full((2, 4, 5, 2 * E), 7, np.float32)
            self.f(**(x | {"q": q}), window=3, device=device.id, out=out[..., ::2])
            self.expect(out[..., ::2], x | {"q": q})
            self.assertTrue((out[..., 1::2] == 7).all())
        if not tried:
            self.skipTest("no device but the processor")

    def test_a_forked_process(self):
        x = inputs(9, S=64, T=64)
        self.expect(self.f(**x, window=3), x)
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            os._exit(0 if np.array_equal(self.f(**x, window=3), self.f(**x, window=3)) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_threads(self):
        import concurrent.futures

        x = inputs(8, S=64, T=64)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for o in pool.map(lambda _: self.f(**x, window=3), range(64)):
                self.expect(o, x)


class Refusals(unittest.TestCase):
    def setUp(self):
        self.f = load()

    def refused(self, kind, pattern, **change):
        x = inputs() | {"window": 3} | change
        with self.assertRaisesRegex(kind, pattern) as caught:
            self.f(**{name: value for name, value in x.items() if value is not None})
        return caught.exception

    def test_shapes(self):
        error = self.refused(aule.ArgumentError, r"k", k=np.zeros((2, 2, 7, D + 1), np.float32))
        self.assertEqual(error.status, "tensor")
        self.assertIsInstance(error, ValueError)
        self.refused(aule.ArgumentError, "lengths", lengths=np.zeros((3,), np.int32))
        self.refused(aule.ArgumentError, "q", q=np.zeros((2, 4, 5), np.float32))

    def test_types(self):
        self.refused(aule.ArgumentError, r"sample: lengths is int64, expected int32: pass lengths.astype\('int32'\), or declare it i64", lengths=np.zeros((2,), np.int64))
        self.refused(aule.ArgumentError, "complex64", q=np.zeros((2, 4, 5, D), np.complex64))
        self.refused(aule.ArgumentError, "byte order", q=np.zeros((2, 4, 5, D), ">f4"))
        x = inputs(dtype=np.float16)
        self.assertEqual(self.refused(aule.Error, "f16", q=x["q"], k=x["k"], v=x["v"]).status, "unsupported")

    def test_strides(self):
        bytes_ = np.zeros((2, 4, 5, D * 4 + 2), np.uint8)[..., : D * 4]
        q = np.ndarray((2, 4, 5, D), np.float32, bytes_.base, strides=bytes_.strides[:3] + (4,))
        self.refused(aule.ArgumentError, "no multiples", q=q)
        o = np.broadcast_to(np.zeros((1, 1, 1, E), np.float32), (2, 4, 5, E))
        with self.assertRaisesRegex(aule.ArgumentError, "o"):
            self.f(**inputs(), window=3, out=o)

    def test_names(self):
        self.refused(TypeError, "does not take bias; it takes q, k, v, lengths, slope, scale, window", bias=1)
        self.refused(TypeError, "needs lengths, window", lengths=None, window=None)
        x = inputs()
        with self.assertRaisesRegex(TypeError, "q twice"):
            self.f(x["q"], x["k"], x["v"], **x, window=3)
        with self.assertRaisesRegex(TypeError, "by position, and was given 4"):
            self.f(x["q"], x["k"], x["v"], x["v"], window=3)
        with self.assertRaisesRegex(TypeError, "no output p; it has o, lse"):
            self.f.forward(**x, window=3, out={"p": x["q"]})

    def test_values(self):
        self.refused(TypeError, "k must be a NumPy array", k=[1, 2])
        self.refused(TypeError, "window must be a number", window="3")
        self.assertEqual(self.refused(aule.ArgumentError, "window", window=2.5).status, "param")
        self.refused(aule.ArgumentError, "64 bits", window=1 << 70)
        self.assertEqual(self.refused(aule.ArgumentError, "window > 0", window=0).status, "require")

    def test_devices(self):
        x = inputs()
        with self.assertRaises(aule.Error) as caught:
            self.f(**x, window=3, device="cuda:7")
        self.assertEqual(caught.exception.status, "device")


class Workspaces(unittest.TestCase):
    """A thread keeps the memory of its last run, unless it is much."""

    def setUp(self):
        _workspaces._threads.__dict__.clear()

    def test_kept(self):
        first = _workspaces.take(1 << 20)
        self.assertEqual(first.data % mmap.PAGESIZE, 0)
        other = _workspaces.take(4096)  # in use: not the same
        self.assertNotEqual(other.data, first.data)
        _workspaces.give_back(first)
        self.assertIs(_workspaces.take(4096), first)
        _workspaces.give_back(first)
        self.assertGreater(_workspaces.take(2 << 20).size, first.size)

    def test_much_is_not_kept(self):
        _workspaces.give_back(_workspaces.take(_workspaces.KEPT + 1))
        self.assertEqual(_workspaces._threads.__dict__, {})

    def test_each_thread_has_its_own(self):
        mine, found = _workspaces.take(4096), []
        _workspaces.give_back(mine)
        thread = threading.Thread(target=lambda: found.append(_workspaces.take(4096)))
        thread.start()
        thread.join()
        self.assertIsNot(found[0], mine)
        self.assertIs(_workspaces.take(4096), mine)

    def test_runs_take_what_was_kept(self):
        f = load()
        x = inputs(dtype=np.float32)
        results = f.forward(**x, window=3)
        gradients = [f.backward(results, np.ones_like(results["o"])) for _ in range(2)]
        self.assertIn("kept", _workspaces._threads.__dict__)
        np.testing.assert_array_equal(gradients[0]["dq"], gradients[1]["dq"])  # whatever the first left there


if __name__ == "__main__":
    unittest.main()
