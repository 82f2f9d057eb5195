"""Tensors of torch on "xpu" on Level Zero's double (tests/runtime/levelzero): with libaule_sycl, made of a stand-in for SYCL, they stay in torch's context, and
runs go on torch's own list or queue, in order with what it puts there; without, they are copied by way of the host, and that is said. torch is a stand-in: none
with that device was there. The double does first what no barrier orders."""

import ctypes
import os
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

import aule
from aule import _devices, _plans, _tensors, _xpu
from aule._errors import LibraryError
from test_compile import CAUSAL, expected, inputs
from test_foreign import CPU, OfOthers, Place, copies_said, stand_in
from test_foreign import Tensor as HostTensor

FOLDER = os.environ.get("AULE_TEST_XPU", "")
THERE = os.path.isdir(FOLDER) and any(d.id == "levelzero:0" and d.available for d in aule.devices())
XPU = Place(type="xpu", index=0)


class Own(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("device", "context", "list", "queue")] + [("uuid", ctypes.c_uint8 * 16)]


class Program:
    """What torch is by SYCL: a context, a list or a queue, and memory."""

    def __init__(self, level_zero=True, in_order=True, commands=False, late=False):
        self.own, self.kept = Own(), []
        self.level_zero = library("libxpu_memory.so")
        self.sycl = library("libsycl_queues.so")
        for name in ("own_memory", "own_host", "own_broken"):
            getattr(self.level_zero, name).restype = ctypes.c_void_p
        self.sycl.sycl_queue_new.restype = ctypes.c_void_p
        assert not self.level_zero.own_begin(ctypes.byref(self.own))
        self.late = [] if late else None
        self.work = ctypes.CFUNCTYPE(None)(self.hand_on)
        self.address = self.sycl.sycl_queue_new(
            int(level_zero), int(in_order), ctypes.c_void_p(self.own.context), ctypes.c_void_p(None if commands else self.own.list),
            ctypes.c_void_p(self.own.queue), bytes(self.own.uuid), self.work)

    def hand_on(self):
        """SYCL gives its commands to the queue, and waits for them."""
        while self.late:
            self.copy(*self.late.pop(0))
        self.level_zero.own_work()

    def copy(self, to, source, size):
        if self.level_zero.own_copy(ctypes.byref(self.own), ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(size)):
            raise AssertionError(ctypes.string_at(self.level_zero.own_broken() or b"?"))

    def memory(self, size, host=False):
        of = self.level_zero.own_host if host else self.level_zero.own_memory
        return of(ctypes.byref(self.own), ctypes.c_size_t(size))

    def waits(self):
        return self.sycl.sycl_queue_waits(ctypes.c_void_p(self.address))


def library(name):
    return ctypes.CDLL(str(Path(FOLDER) / name))


class Tensor(HostTensor):
    """In memory of torch's context; nothing but copies on its queue reads or writes it."""

    def __init__(self, program, shape, dtype):
        self.program, self.shape, self.dtype, self.device = program, tuple(shape), dtype, XPU
        self.type = np.dtype(dtype.removeprefix("torch."))
        self.size = int(np.prod(self.shape)) * self.type.itemsize
        self.at = program.memory(max(self.size, 1))

    @classmethod
    def of(cls, program, values):
        made = cls(program, values.shape, f"torch.{values.dtype}")
        host = program.memory(max(made.size, 1), host=True)
        ctypes.memmove(host, np.ascontiguousarray(values).ctypes.data, made.size)
        command = (made.at, host, made.size)
        program.copy(*command) if program.late is None else program.late.append(command)
        return made

    def numpy(self):
        host = self.program.memory(max(self.size, 1), host=True)
        self.program.copy(host, self.at, self.size)
        self.program.level_zero.own_work()
        return np.frombuffer((ctypes.c_char * self.size).from_address(host), self.type).reshape(self.shape).copy()

    def stride(self, axis=None):
        strides = tuple(_tensors.compact(list(self.shape)))
        return strides if axis is None else strides[axis]

    dim = lambda self: len(self.shape)
    data_ptr = lambda self: self.at
    values = property(numpy)

    cpu = lambda self: HostTensor(self.numpy(), CPU)


def torch_of(program):
    torch = stand_in()
    torch.Tensor = HostTensor
    torch.uint8 = "torch.uint8"
    host = torch.empty
    torch.empty = lambda shape, dtype, device: host(shape, dtype, device) if device is CPU else Tensor(program, np.atleast_1d(shape), dtype)
    torch.xpu = types.SimpleNamespace(current_stream=lambda index: types.SimpleNamespace(sycl_queue=program.address))
    return torch


@unittest.skipUnless(THERE, "no double of Level Zero")
class Xpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.compiled = aule.compile(CAUSAL)

    def begin(self, **how):
        """A process' first look at torch's queue."""
        self.runner = _plans.Runner(self.compiled._checked_kernels)  # which has prepared nothing yet
        program = Program(**how)
        self.enterContext(mock.patch.dict(sys.modules, torch=torch_of(program)))
        self.enterContext(mock.patch.dict(os.environ, AULE_LIBRARY_PATH=FOLDER + ":" + os.environ.get("AULE_LIBRARY_PATH", "")))
        self.enterContext(mock.patch.dict(_devices.Device._open))
        self.enterContext(mock.patch.dict(_xpu._why, clear=True))
        self.enterContext(mock.patch.dict(_tensors.XPU_NUMBERS, clear=True))
        _xpu._library.cache_clear()
        self.addCleanup(_xpu._library.cache_clear)
        return program

    def run_forward(self, program, x, device=None, settled=False, **out):
        given = dict(zip(("q", "k", "v", "bias"), (Tensor.of(program, a) for a in x)))
        if settled:
            program.level_zero.own_work()
        return self.runner.run("forward", given, {"scale": 0.125, "window": 10**6}, out, ("o",), device, False)["o"]

    def test_tensors_stay(self):
        program = self.begin()
        with mock.patch.object(_plans, "Staged", side_effect=AssertionError("copies")), copies_said() as said:
            for seed, device in ((1, None), (2, "levelzero"), (3, "levelzero:0"), (4, None)):
                x = inputs(seed)
                o = self.run_forward(program, x, device)
                self.assertIsInstance(o, Tensor)
                np.testing.assert_allclose(o.numpy(), expected(*x), rtol=2e-5, atol=5e-6)
        self.assertEqual(said, [])
        self.assertEqual(program.waits(), 0)
        self.assertIsNone(program.level_zero.own_broken())

    def test_queues_that_sycl_keeps_back(self):
        """Of command queues what SYCL has not handed on is waited for before a run, and the run before its results are read."""
        program = self.begin(commands=True, late=True)
        for seed in (5, 6):
            x = inputs(seed)
            np.testing.assert_allclose(self.run_forward(program, x).numpy(), expected(*x), rtol=2e-5, atol=5e-6)
        self.assertEqual(program.waits(), 2)

    def test_another_device_by_name(self):
        """Which tensors of torch's device are not in the memory of: copies, and that is said."""
        program = self.begin()
        x = inputs(7)
        other = next(d.id for d in aule.devices() if d.available and d.backend == "opencl")
        o, said = self.run_on_copies(program, x, other)
        np.testing.assert_allclose(o.numpy(), expected(*x), rtol=2e-5, atol=5e-6)
        self.assertRegex(said[0], f"tensors on xpu:0 go by way of the host to {other} and back, each call: that device does not see their memory")

    def run_on_copies(self, program, x, device=None):
        """The output, and what was said. What torch copies is done when it returns."""

        def moved(host, device):
            made = Tensor.of(program, host.values)
            program.level_zero.own_work()
            return made

        with copies_said() as said, mock.patch.object(HostTensor, "to", moved):
            return self.run_forward(program, x, device, settled=True), said

    def staged(self, program, why):
        x = inputs(8)
        o, said = self.run_on_copies(program, x)
        self.assertIsInstance(o, Tensor)
        np.testing.assert_allclose(o.numpy(), expected(*x), rtol=2e-5, atol=5e-6)
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], "tensors on xpu:0 go by way of the host to levelzero:0 and back, each call: " + why)

    def test_without_the_library(self):
        program = self.begin()
        with mock.patch.object(_xpu, "load_library", side_effect=LibraryError("it is not there")):
            self.staged(program, "libaule_sycl is not there, which knows torch's queue")

    def test_queues_that_are_not_taken(self):
        for how, why in (({"level_zero": False}, "its backend is not Level Zero"), ({"in_order": False}, "its commands are in no order")):
            self.staged(self.begin(**how), "the queue of torch's xpu:0: " + why)

    def test_what_sycl_throws(self):
        program = self.begin()
        program.address = program.sycl.sycl_queue_new(1, 1, None, None, None, bytes(16), None)
        self.staged(program, "the queue of torch's xpu:0: the queue has no native handle")

    def test_a_queue_of_another_kind(self):
        """A later stream that is a command queue is refused: the device has immediate lists."""
        program = self.begin()
        x = inputs(9)
        self.run_forward(program, x)
        program.address = Program(commands=True).address
        with self.assertRaisesRegex(aule.Error, "torch's xpu:0 has immediate lists and command queues"):
            self.run_forward(program, x)

    def test_processors_refuse(self):
        program = self.begin()
        with self.assertRaisesRegex(aule.ArgumentError, "q: it is on oneapi:0"):
            self.run_forward(program, inputs(10), "cpu")

    def test_tensors_of_two_places(self):
        program = self.begin()
        q, k, v, bias = (Tensor.of(program, a) for a in inputs(11))
        with self.assertRaisesRegex(aule.ArgumentError, "k: it is on cpu"):
            self.runner.run("forward", {"q": q, "k": HostTensor(inputs(11)[1], CPU), "v": v, "bias": bias}, {"scale": 1.0, "window": 5}, {}, ("o",), None, False)


@unittest.skipUnless(THERE, "no double of Level Zero")
class Arrays(OfOthers, unittest.TestCase):
    """Of libraries that are not torch."""

    device = "levelzero:0"


if __name__ == "__main__":
    unittest.main()
