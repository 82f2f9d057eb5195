"""Calls on Apple's GPUs, by the double of tests/metal, which runs their kernels on the host: which buffer and offset tensors of torch on "mps" are, that they
stay where they are, and who waits for whom. torch is a stand-in: none with that device was there. What it writes is in memory once it is waited for, so
that a call which does not wait computes with something else."""

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

FOLDER = os.environ.get("AULE_TEST_METAL", "")
DOUBLE = "METAL_DOUBLE" in os.environ
METAL = 8
SCRIPT = "attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; score_mod(s) = s * rsqrt(D); online softmax; }"
BEFORE = 24  # elements that a storage has before a tensor


class ManagedTensor(ctypes.Structure):
    _fields_ = [("dl_tensor", abi.DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Tensor:
    """A tensor of f16 on "mps" in a buffer of the double, behind some elements of others."""

    layout, dtype, device = "strided", "torch.float16", None
    is_nested = is_quantized = is_meta = False
    is_neg = _is_zerotensor = lambda self: False
    is_mps = True
    pending: list = []  # what the queue has not done yet
    places = "handle"  # what data_ptr() is: "handle" or "address", by torch's version
    offsets = "told"  # by DLPack: "told", "added" to the handle, or "lost"

    def __init__(self, shape, before=BEFORE):
        self.shape, self.before, self.device = shape, before, DEVICE
        self.buffer = _plans._Buffer(_devices.Device.get("metal:0"), 2 * (before + int(np.prod(shape))))
        self.handle = self.buffer.data

    @classmethod
    def of(cls, values, before=BEFORE):
        made = cls(values.shape, before)
        lib = abi.library()
        lib.buffer_upload(made.buffer._handle, 0, np.full(before + values.size, np.nan, np.float16).ctypes.data, 2 * (before + values.size))
        Tensor.pending.append(lambda: lib.buffer_upload(made.buffer._handle, 2 * before, values.ctypes.data, values.nbytes))
        return made

    def numpy(self):
        values = np.empty(self.shape, np.float16)
        abi.library().buffer_download(self.buffer._handle, 2 * self.before, values.ctypes.data, values.nbytes)
        return values

    detach = lambda self: self
    storage_offset = lambda self: self.before
    element_size = lambda self: 2
    dim = lambda self: len(self.shape)

    def stride(self, axis=None):
        strides = tuple(_tensors.compact(list(self.shape)))
        return strides if axis is None else strides[axis]

    def untyped_storage(self):
        base = self.handle if Tensor.places == "handle" else 1 << 20
        return types.SimpleNamespace(data_ptr=lambda: base)

    def data_ptr(self):
        return self.untyped_storage().data_ptr() + 2 * self.before


class Device(types.SimpleNamespace):
    __hash__ = lambda self: hash((self.type, self.index))


DEVICE = Device(type="mps", index=0)


def to_dlpack(x):
    offset = 2 * x.before
    data = x.handle + (offset if Tensor.offsets == "added" else 0)
    shape, strides = ((ctypes.c_int64 * len(x.shape))(*n) for n in (x.shape, x.stride()))
    x.managed = ManagedTensor(abi.DLTensor(data, (METAL, 0), len(x.shape), abi.DLDataType(2, 16, 1), shape, strides, offset * (Tensor.offsets == "told")))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(x.managed), b"dltensor", None)


def torch_with(events):
    def synchronize():
        events.append("torch")
        while Tensor.pending:
            Tensor.pending.pop(0)()

    torch = types.ModuleType("torch")
    torch.Tensor, torch.strided, torch.float16 = Tensor, "strided", "torch.float16"
    torch.version, torch.mps = types.SimpleNamespace(hip=None), types.SimpleNamespace(synchronize=synchronize)
    torch.utils = types.SimpleNamespace(dlpack=types.SimpleNamespace(to_dlpack=to_dlpack))
    torch.empty = lambda shape, dtype, device: Tensor(tuple(shape))
    return torch


def oracle(q, k, v):
    s = np.einsum("bhsd,bhtd->bhst", q.astype(np.float64), k.astype(np.float64)) * q.shape[-1] ** -0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhst,bhtd->bhsd", p / p.sum(-1, keepdims=True), v.astype(np.float64))


def values(seed):
    r = np.random.default_rng(seed)
    return [r.standard_normal((1, 2, n, 32)).astype(np.float16) for n in (5, 37, 37)]


@unittest.skipUnless(DOUBLE, "started by test_stand_in")
class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runner = aule.compile(SCRIPT)._runner
        cls.of_families = aule.compile(SCRIPT, archs="apple7,apple9")._runner

    def setUp(self):
        self.events = []
        Tensor.pending, Tensor.places, Tensor.offsets = [], "handle", "told"
        _tensors.torch_gpu.cache_clear()
        self.enterContext(mock.patch.dict(sys.modules, torch=torch_with(self.events)))
        lib = abi.library()
        for name in ("plan_run", "device_synchronize"):
            plain = getattr(lib, name)
            spied = lambda *given, name=name, plain=plain: (self.events.append(name), plain(*given))[1]
            self.enterContext(mock.patch.object(lib, name, spied))

    def call(self, given, **more):
        with mock.patch.object(_plans, "Staged", side_effect=AssertionError("copies")):
            return self.runner.run("forward", dict(zip("qkv", given)), {}, more, ("o",), None, False)["o"]

    def expect(self, got, x):
        np.testing.assert_allclose(got.astype(np.float64), oracle(*x), rtol=2e-3, atol=2e-3)

    def test_tensors_stay(self):
        x = values(1)
        o = self.call([Tensor.of(a) for a in x])
        self.assertIsInstance(o, Tensor)
        self.expect(o.numpy(), x)
        self.assertEqual(self.events, ["torch", "plan_run", "device_synchronize"])

    def test_offsets_of_later_calls(self):
        """A prepared call takes other buffers and offsets."""
        made = set()
        for seed, before in ((2, 24), (3, 0), (4, 64), (5, 7)):
            x = values(seed)
            self.expect(self.call([Tensor.of(a, before) for a in x]).numpy(), x)
            made.add(len(self.runner._prepared))
        self.assertLessEqual(len(made), 2)  # one for offsets of whole 16 bytes, one for others

    def test_every_torch(self):
        """data_ptr() is a handle or an address; DLPack tells the offset, or has added it to the handle."""
        for places, offsets in (("handle", "told"), ("address", "told"), ("handle", "added")):
            Tensor.places, Tensor.offsets = places, offsets
            x = values(5)
            self.expect(self.call([Tensor.of(a) for a in x]).numpy(), x)

    def test_what_is_not_understood(self):
        for places, offsets in (("handle", "lost"), ("address", "lost"), ("address", "added")):
            Tensor.places, Tensor.offsets = places, offsets
            with self.assertRaisesRegex(aule.ArgumentError, r"q: what torch's DLPack says .* pass q.clone\(\)"):
                self.call([Tensor.of(a) for a in values(6)])

    def test_no_buffer(self):
        """An address of the host's is refused when a call is prepared, before it is taken for an object."""
        given = [Tensor.of(a[:, :1]) for a in values(7)]
        memory = ctypes.create_string_buffer(1 << 16)
        given[1].handle = ctypes.addressof(memory)
        Tensor.offsets = "told"
        with self.assertRaisesRegex(aule.Error, "k: its data is no Metal buffer"):
            self.call(given)

    def test_waits_are_needed(self):
        """The stand-in shows a call that does not wait."""
        x = values(8)
        with mock.patch.object(_plans, "_is_apart", lambda like, device: False), mock.patch.object(_plans, "_workspace", lambda *_: (0, None)):
            self.assertFalse(np.allclose(self.call([Tensor.of(a) for a in x]).numpy(), oracle(*x), atol=0.1))

    def test_results_of_the_caller(self):
        x, o = values(9), Tensor((1, 2, 5, 32), 3)
        self.assertIs(self.call([Tensor.of(a) for a in x], o=o), o)
        self.expect(o.numpy(), x)

    def test_other_devices_refuse(self):
        with self.assertRaisesRegex(aule.ArgumentError, "q: it is on metal:0"):
            self.runner.run("forward", dict(zip("qkv", [Tensor.of(a) for a in values(10)])), {}, {}, ("o",), "cpu", False)

    def test_host_tensors_stay(self):
        """In the pages where they are, which are no one's else while they are waited for; a driver that refuses them gets copies."""
        lib = abi.library()
        refuse = mock.Mock(side_effect=aule.Error("no such buffer", "unsupported"))
        for seed, buffers in ((11, lib.buffer_host), (12, refuse)):
            x, o = values(seed), np.full((1, 2, 5, 64), 7, np.float16)
            self.events.clear()
            uploads = mock.Mock(wraps=lib.buffer_upload)
            with mock.patch.object(lib, "buffer_host", buffers), mock.patch.object(lib, "buffer_upload", uploads):
                self.runner.run("forward", dict(zip("qkv", x)), {}, {"o": o[..., :32]}, ("o",), "metal:0", False)
            self.expect(o[..., :32], x)
            self.assertTrue((o[..., 32:] == 7).all())
            self.assertEqual(bool(uploads.call_count), buffers is refuse)
            self.assertNotIn("torch", self.events)
            self.assertEqual(self.events[-1] == "device_synchronize", buffers is not refuse)

    def test_kernels_of_the_family(self):
        # Of an artifact with kernels for two families a device has those of its own, else of the older one; both are right.
        seen, lib, x = [], abi.library(), values(14)
        plain = lib.plan_variant
        with mock.patch.object(lib, "plan_variant", lambda plan: (seen.append(plain(plan).contents.arch), plain(plan))[1]):
            self.expect(self.of_families.run("forward", dict(zip("qkv", x)), {}, {}, ("o",), "metal:0", False)["o"], x)
        self.assertEqual(seen, [b"apple9" if os.environ.get("METAL_DOUBLE_FAMILY") == "9" else b"apple7"])

    def test_host_tensors_at_odd_addresses(self):
        """Kernels cannot read them where they are: they are copied, as on devices without such buffers."""
        def odd(a):
            return np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(np.float16).reshape(a.shape)

        x = values(13)
        o = np.zeros(2 * x[0].size + 1, np.uint8)[1:].view(np.float16).reshape(x[0].shape)
        self.runner.run("forward", dict(zip("qkv", map(odd, x))), {}, {"o": o}, ("o",), "metal:0", False)
        self.expect(o, x)


@unittest.skipIf(DOUBLE or not os.path.isdir(FOLDER), "no double of Metal")
class StandIn(unittest.TestCase):
    def test_stand_in(self):
        run_beside(self, FOLDER, "METAL_DOUBLE", "test_metal.Calls", "test_tensors_stay")

    def test_newer_family(self):
        with mock.patch.dict(os.environ, METAL_DOUBLE_FAMILY="9"):
            run_beside(self, FOLDER, "METAL_DOUBLE", "test_metal.Calls.test_kernels_of_the_family", "test_kernels_of_the_family")


if __name__ == "__main__":
    unittest.main()
