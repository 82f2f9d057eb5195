"""torch's CUDA tensors on Vulkan where they are: on Mesa's device for processors, CUDA's stand-in of the runtime's tests, which maps what is imported, so that memory is
really shared, and a stand-in for torch whose allocator is ours, called as torch calls it."""

import ctypes
import os
import sys
import threading
import types
import unittest
import warnings
from contextlib import contextmanager
from unittest import mock

import numpy as np

import aule
from aule import _vulkan
from aule._devices import Device
from aule._libaule import library
from support import run_beside
from test_compile import CAUSAL, expected
from test_compile import inputs as four
from test_foreign import Place, Tensor

MOCK = os.environ.get("AULE_TEST_CUDA", "")
DRIVERS = os.environ.get("AULE_TEST_DRIVERS", "")  # the mock of Vulkan, beside which CUDA's is
UNDER_MOCK = not {"MOCK_CUDA", "MOCK_VULKAN"}.isdisjoint(os.environ)
VULKAN = [d.id for d in aule.devices() if d.available and d.backend == "vulkan"]
CUDA = Place(type="cuda", index=0)


def inputs():
    return dict(zip(("q", "k", "v", "bias"), four()))


class OnGpu(Tensor):
    """Of memory at an address; the host may read it, since the stand-in's is the host's."""

    def data_ptr(self):
        return self.values.ctypes.data

    def to(self, device):
        Tensor.copies.append(f"{self.device} to {device}")
        return OnGpu(self.values.copy(order="K"), device)

    swapaxes = lambda self, a, b: OnGpu(self.values.swapaxes(a, b), self.device)


def first_byte():
    """Where what Mesa's device exports begins in its file: CUDA's stand-in maps that, as a driver of NVIDIA's maps its own."""
    lib, device = library(), Device.get(VULKAN[0])
    buffer, fd, size = ctypes.c_void_p(), ctypes.c_int32(), ctypes.c_uint64()
    lib.buffer_export(device.handle, 4096, ctypes.byref(buffer), ctypes.byref(fd), ctypes.byref(size))
    mark = np.random.default_rng(9).bytes(4096)
    lib.buffer_upload(buffer, 0, mark, len(mark))
    at = os.pread(fd.value, 1 << 16, 0).index(mark)
    os.close(fd.value)
    lib.buffer_free(buffer)
    return at


class Pool:
    def __init__(self, allocator):
        self.allocate, self.release = allocator
        self.taken = threading.Lock()


class Torch(types.ModuleType):
    """The module torch: an allocator that takes all from the pool that a thread uses, else its own memory."""

    def __init__(self):
        super().__init__("torch")
        self.Tensor, self.strided, self.version = Tensor, "strided", types.SimpleNamespace(hip=None)
        self.float32, self.uint8 = "torch.float32", "torch.uint8"
        self.blocks, self.inside, self.capturing, self.lock = [], threading.local(), False, threading.Lock()
        self.device = lambda kind, index: Place(type=kind, index=index)
        self.cuda = types.SimpleNamespace(
            memory=types.SimpleNamespace(CUDAPluggableAllocator=self.allocator), MemPool=Pool, use_mem_pool=self.use, current_device=lambda: 0,
            is_current_stream_capturing=lambda: self.capturing, current_stream=lambda index: types.SimpleNamespace(cuda_stream=0))

    def allocator(self, path, allocate, release):
        library = ctypes.CDLL(path)
        allocate, release = getattr(library, allocate), getattr(library, release)
        allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        release.restype, release.argtypes = None, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        return types.SimpleNamespace(allocator=lambda: (allocate, release))

    @contextmanager
    def use(self, pool, device):
        assert getattr(self.inside, "pool", None) is None  # torch takes one once
        if not pool.taken.acquire(blocking=False):
            raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
        self.inside.pool = pool
        try:
            yield
        finally:
            self.inside.pool = None
            pool.taken.release()

    def empty(self, shape, dtype, device):
        dtype = np.dtype(dtype.removeprefix("torch."))
        shape = shape if isinstance(shape, tuple) else (shape,)
        size = int(np.prod(shape)) * dtype.itemsize
        pool = getattr(self.inside, "pool", None)
        if pool is None:
            return OnGpu(np.full(shape, 1, dtype), device)
        with self.lock:  # of torch's own allocator
            at = pool.allocate(size + 64, 0, None)
        if not at:
            raise MemoryError
        self.blocks.append((pool, at))
        values = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(at + 64)).view(dtype).reshape(shape)
        return OnGpu(values, device)

    def end(self):
        for pool, at in self.blocks:
            pool.release(at, 0, 0, None)
        self.blocks.clear()


@unittest.skipUnless("MOCK_CUDA" in os.environ and VULKAN, "started by test_stand_in")
class Shared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["MOCK_CUDA_OFFSET"] = str(first_byte())
        cls.torch = Torch()  # which makers of results keep
        cls.runner = aule.compile(CAUSAL, optimize=1)._runner
        plain = "attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; score_mod(s) = s * rsqrt(D); online softmax; }"
        cls.plain = aule.compile(plain, optimize=1)

    def setUp(self):
        patched = mock.patch.dict(sys.modules, torch=self.torch)
        patched.start()
        self.addCleanup(patched.stop)
        from aule import _tensors

        _tensors.torch_gpu.cache_clear()
        Tensor.copies = []
        self.torch.capturing = False
        _vulkan._shared.clear()

    def f(self, device="vulkan", out=None, **x):
        params = {"scale": 0.125, "window": 10**6}
        return self.runner.run("forward", x, params, {} if out is None else {"o": out}, ("o",), device, False)["o"]

    def on_gpu(self, x):
        made = self.torch.empty(x.shape, f"torch.{x.dtype}", CUDA)
        made.values[...] = x
        return made

    def memory(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of semaphores, which Mesa's device has not
            made = aule.vulkan_memory(VULKAN[0])
        self.assertTrue(made.shared)
        return made

    def run_shared(self, memory):
        given = inputs()
        with memory:
            x = {name: self.on_gpu(array) for name, array in given.items()}
        return x, given

    def test_in_place(self):
        memory = self.memory()
        x, given = self.run_shared(memory)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for turn in range(3):
                for array in x.values():
                    array.values *= 1 - turn / 4
                now = {name: array.values.copy() for name, array in x.items()}
                o = self.f(**x, device="vulkan")
                np.testing.assert_allclose(o.values, expected(**now), rtol=2e-5, atol=2e-6)
            self.assertIsNotNone(_vulkan._shared[VULKAN[0], 0].places([o.data_ptr()]))  # results are there, too
            with memory:
                out = self.torch.empty(tuple(o.shape), "torch.float32", CUDA)
            self.assertIs(self.f(**x, out=out, device=VULKAN[0]), out)
            np.testing.assert_array_equal(out.values, o.values)
        self.assertEqual(Tensor.copies, [])
        self.assertGreater(memory.bytes, 0)
        self.torch.end()
        self.assertEqual(memory.bytes, 0)

    def test_gradients(self):
        memory = self.memory()
        f, r = self.plain, np.random.default_rng(3)
        given = {name: r.standard_normal((1, 2, 5, 16), np.float32) for name in ("q", "k", "v", "do")}
        with memory:
            x = {name: self.on_gpu(array) for name, array in given.items()}
        host, got = {name: given[name] for name in ("q", "k", "v")}, {}
        for tensors, do, device in ((host, given["do"], "cpu"), ({name: x[name] for name in host}, x["do"], "vulkan")):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                made = f._runner.run("forward", tensors, {}, {}, f._names.outputs + f._names.kept, device, True)
                got[device] = f._runner.run("backward", {**tensors, **made, "do": do}, {}, {}, f._names.gradients_of(tensors), device, True)
        want, got = got["cpu"], got["vulkan"]
        for name, array in want.items():
            np.testing.assert_allclose(got[name].values, array, rtol=5e-5, atol=5e-6)
        self.assertEqual(Tensor.copies, [])
        self.torch.end()

    def test_elsewhere(self):
        """One tensor of torch's own: all go by way of the host, which is said."""
        memory = self.memory()
        x, given = self.run_shared(memory)
        x["k"] = OnGpu(given["k"], CUDA)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            from aule import _foreign

            _foreign._said.clear()
            o = self.f(**x, device="vulkan")
        self.assertEqual([w.category for w in said], [aule.CopyWarning])
        np.testing.assert_allclose(o.values, expected(**given), rtol=2e-5, atol=2e-6)
        self.assertTrue(Tensor.copies)
        self.torch.end()

    def test_threads(self):
        """Each thread says for itself where its tensors are."""
        memory, wrong = self.memory(), []

        def work():
            try:
                x, given = self.run_shared(memory)
                for _ in range(5):
                    np.testing.assert_allclose(self.f(**x, device="vulkan").values, expected(**given), rtol=2e-5, atol=2e-6)
            except BaseException as error:
                wrong.append(error)

        with memory:
            with memory:  # again
                threads = [threading.Thread(target=work) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            self.assertIsNotNone(self.torch.inside.pool)
        self.assertIsNone(self.torch.inside.pool)
        self.assertEqual(wrong, [])
        self.torch.end()

    def test_captured(self):
        memory = self.memory()
        x, _ = self.run_shared(memory)
        self.torch.capturing = True
        with self.assertRaisesRegex(aule.Error, "cannot be captured into a graph of CUDA"):
            self.f(**x, device="vulkan")
        self.torch.end()

    def test_refused(self):
        with self.assertRaisesRegex(aule.Error, "cpu is no device of Vulkan"):
            aule.vulkan_memory("cpu")
        with self.assertRaisesRegex(aule.Error, "vulkan:77"):
            aule.vulkan_memory("vulkan:77")
        with warnings.catch_warnings(record=True) as said:  # torch's device is none of Vulkan's
            warnings.simplefilter("always")
            none = aule.vulkan_memory()
            self.assertFalse(none.shared)
            with none:
                x = {name: self.on_gpu(array) for name, array in inputs().items()}
            self.assertEqual(none.bytes, 0)
        self.assertRegex(str(said[0].message), "no Vulkan device is torch's cuda:0, whose UUID is not told")
        self.assertEqual(len(said), 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_allclose(self.f(**x, device=VULKAN[0]).values, expected(**inputs()), rtol=2e-5, atol=2e-6)

    def test_no_memory(self):
        """What a driver says when it has none."""
        memory = self.memory()
        with memory, self.assertRaises(MemoryError):
            self.torch.empty((1 << 44,), "torch.uint8", CUDA)
        self.assertRegex(_vulkan._shared[VULKAN[0], 0].why(), VULKAN[0])


class MockOfVulkan(ctypes.Structure):
    """VulkanMock (tests/runtime/vulkan_mock.h), as far as it is needed."""

    _fields_ = [
        ("devices", ctypes.c_uint32), ("loader", ctypes.c_uint32), ("version", ctypes.c_uint32), ("lacks", ctypes.c_uint32), ("hidden", ctypes.c_bool),
        ("most_blocks", ctypes.c_uint32), ("shared_bytes", ctypes.c_uint32), ("driver", ctypes.c_uint32), ("external", ctypes.c_bool), ("signals", ctypes.c_bool),
    ]


@unittest.skipUnless("MOCK_VULKAN" in os.environ, "started by test_order")
class Order(unittest.TestCase):
    """The order of CUDA's stream and Vulkan's queue, on the mocks of both: what waits for a number that is not there is told by them."""

    def setUp(self):
        vulkan = ctypes.CDLL("libvulkan.so.1")
        vulkan.vulkan_mock_reset()
        self.mock = MockOfVulkan.in_dll(vulkan, "vulkan_mock")
        self.mock.signals = True
        self.vulkan, self.cuda = Device("vulkan:0"), Device("cuda:0")

    def test_numbers(self):
        lib, other, fd = library(), ctypes.c_void_p(), ctypes.c_int32()
        order = _vulkan._Timeline(self.vulkan, self.cuda)
        lib.timeline_export(self.vulkan.handle, ctypes.byref(other), ctypes.byref(fd))  # stands for a run
        with os.fdopen(fd.value, "r+b") as file:
            number = np.memmap(file, np.uint64, shape=1)
        for turn in range(1, 4):
            with order.around(1) as queue:
                self.assertEqual(int(number[0]), turn - 1)
                lib.timeline_signal(other, queue, turn)
            self.assertEqual(int(number[0]), turn)
        self.assertEqual(order._value, 6)
        with self.assertRaisesRegex(aule.Error, "cuWaitExternalSemaphoresAsync"):  # nothing of Vulkan's came between
            with order.around(1):
                pass
        lib.timeline_free(other)

    def test_a_run_that_fails(self):
        order = _vulkan._Timeline(self.vulkan, self.cuda)
        with self.assertRaises(KeyError), order.around(1):
            raise KeyError
        self.assertEqual(order._value, 1)  # the next one goes on from what CUDA's stream has set
        with order.around(1) as queue:
            at = _vulkan.VulkanQueue.from_address(queue)
            self.assertEqual((at.waits[0].value, at.signals[0].value), (2, 3))
            self.assertEqual(at.waits[0].semaphore, library().timeline_handle(order._of_vulkan))
            library().timeline_wait(order._of_vulkan, queue, 2)

    def test_without(self):
        self.mock.signals = False
        with self.assertRaisesRegex(aule.Error, "timelines cannot be exported"):
            _vulkan._Timeline(Device("vulkan:0"), self.cuda)


class NoGpu(unittest.TestCase):
    def test_refused(self):
        """torch has no device, or not as many: what it says of it, as an error of ours."""

        def none(*_):
            raise RuntimeError("Found no NVIDIA driver")

        def few(index):
            raise AssertionError(f"Invalid device id {index}")

        for index, cuda, message in (
            (None, types.SimpleNamespace(current_device=none), "torch has no CUDA device: Found no NVIDIA driver"),
            (3, types.SimpleNamespace(get_device_properties=few), "torch has no cuda:3: Invalid device id 3"),
        ):
            torch = types.ModuleType("torch")
            torch.cuda = cuda
            with self.subTest(message), mock.patch.dict(sys.modules, torch=torch), self.assertRaisesRegex(aule.Error, message):
                aule.vulkan_memory(index=index)


class StandIn(unittest.TestCase):
    @unittest.skipIf(UNDER_MOCK or not DRIVERS, "no stand-ins for the drivers")
    def test_order(self):
        run_beside(self, os.path.dirname(DRIVERS), "MOCK_VULKAN", "test_vulkan_memory.Order", "test_numbers")

    @unittest.skipIf(UNDER_MOCK or not MOCK or not VULKAN, "no stand-in for the driver, or no Vulkan")
    def test_stand_in(self):
        run_beside(self, os.path.dirname(MOCK), "MOCK_CUDA", "test_vulkan_memory.Shared", "test_in_place")
