"""On an NVIDIA GPU (AULE_TEST_DEVICE=cuda; tests/device/run.py): streams, graphs, threads, other libraries' arrays, tensors whose rows lie
far apart, checked kernels, and errors after which the process goes on. What also runs elsewhere is in the other modules."""

import concurrent.futures
import os
import subprocess
import sys
import time
import unittest

import numpy as np

import aule
from aule._devices import Device
from aule._libaule import library
from support import DEVICE, torch
from test_compile import TABLE

SCRIPT = """
attention biased {
    q: [B, H, S, D];
    k: [B, Hk, T, D];
    v: [B, Hk, T, E];
    input bias: f32[H, T] grad;
    score_mod(score, b, h, i, j) = score * rsqrt(D) + bias[h, j];
    mask(b, h, i, j) = j <= q_pos;
    online softmax;
}
"""
GB = 1 << 30


def tensors(seed=0, B=2, H=4, Hk=2, S=130, T=200, D=64, dtype=None, device="cuda"):
    g = torch.Generator(device).manual_seed(seed)
    q, k, v, bias = (torch.randn(shape, generator=g, device=device) for shape in ((B, H, S, D), (B, Hk, T, D), (B, Hk, T, D), (H, T)))
    dtype = dtype or torch.float16
    return {"q": q.to(dtype), "k": k.to(dtype), "v": v.to(dtype), "bias": bias}


def formula(q, k, v, bias):
    """In double precision."""
    q, k, v, bias = (x.double() for x in (q, k, v, bias))
    H, S, T = q.shape[1], q.shape[2], k.shape[2]
    k, v = (x.repeat_interleave(H // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(2, 3) * q.shape[3] ** -0.5 + bias[None, :, None, :]
    i, j = (torch.arange(n, device=q.device) for n in (S, T))
    return s.masked_fill(j[None] > i[:, None] + T - S, -torch.inf).softmax(-1) @ v


def gradients_of(function, t, do):
    leaves = {name: x.detach().requires_grad_() for name, x in t.items()}
    o = function(**leaves)
    return o, dict(zip(leaves, torch.autograd.grad(o, leaves.values(), do.to(o))))


@unittest.skipUnless(torch is not None and DEVICE.startswith("cuda"), "for a GPU: AULE_TEST_DEVICE=cuda")
class Gpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.f = aule.compile(SCRIPT)

    def close(self, ours, theirs, bound=4e-3, what=""):
        self.assertEqual(ours.shape, theirs.shape, what)
        self.assertLess(float((ours.double() - theirs.double()).abs().max()), bound * max(1.0, float(theirs.abs().max())), what)

    def check(self, function, t, bound=4e-3):
        """Output and gradients of a function with the script's meaning."""
        g = torch.Generator(t["q"].device).manual_seed(9)
        do = torch.randn(t["q"].shape, generator=g, device=t["q"].device).to(t["q"].dtype)
        o, ours = gradients_of(function, t, do)
        want, theirs = gradients_of(formula, t, do)
        self.close(o.detach(), want.detach(), bound, "o")
        for name in t:
            self.close(ours[name], theirs[name], 2 * bound, name)


class Torch(Gpu):
    def test_autograd(self):
        for dtype, bound in ((torch.float16, 4e-3), (torch.bfloat16, 3e-2), (torch.float32, 5e-5)):
            with self.subTest(dtype=dtype):
                self.check(self.f, tensors(dtype=dtype), bound)

    def test_current_stream(self):
        """A call is put behind the work of the caller's stream, and neither it nor its gradients wait for that."""
        t, side, ended = tensors(1), torch.cuda.Stream(), torch.cuda.Event()

        def step():
            leaves = {name: (x * 2 if name == "q" else x + 0).detach().requires_grad_() for name, x in t.items()}
            o = self.f(**leaves)
            o.backward(torch.ones_like(o))
            return o.detach(), leaves

        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            step()  # compiled, loaded, memory taken
            side.synchronize()
            torch.cuda._sleep(2_000_000_000)  # a second or so
            begin = time.monotonic()
            o, leaves = step()
            ended.record(side)
            took = time.monotonic() - begin
            self.assertFalse(ended.query(), f"the call has waited, {took:.3f} s")
        side.synchronize()
        want, gradients = gradients_of(formula, {**t, "q": t["q"] * 2}, torch.ones_like(o))
        self.close(o, want.detach())
        for name, x in leaves.items():
            self.close(x.grad, gradients[name], 1e-2, name)

    def test_nothing_is_copied(self):
        """Views of one projection are read where they are: what a call allocates is its output and a workspace."""
        x = torch.randn(2, 1024, 3, 4, 64, device="cuda", dtype=torch.float16)
        q, k, v = x.permute(2, 0, 3, 1, 4)
        f = lambda: aule.attention(q, k, v, causal=True)
        o = f()
        del o
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        o = f()
        grown = torch.cuda.max_memory_allocated() - before
        self.assertLess(grown, 2 * o.numel() * o.element_size())
        self.close(o, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))

    def test_graph_capture(self):
        t = {name: x.requires_grad_() for name, x in tensors(2).items()}
        do = torch.randn_like(t["q"])

        def step():
            o = self.f(**t)
            return o, torch.autograd.grad(o, t.values(), do)

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o, gradients = step()
        with torch.no_grad():  # other contents at the same addresses
            for name, x in tensors(3).items():
                t[name].copy_(x)
        for _ in range(2):
            graph.replay()
        torch.cuda.synchronize()
        want, theirs = gradients_of(formula, {name: x.detach() for name, x in t.items()}, do)
        self.close(o.detach(), want.detach())
        for ours, name in zip(gradients, t):
            self.close(ours, theirs[name], 1e-2, name)

    def test_threads(self):
        """Each on a stream of its own, with kernels of the same function."""

        def work(seed):
            t = tensors(seed, S=64 + seed)
            torch.cuda.synchronize()
            with torch.cuda.stream(torch.cuda.Stream()):
                leaves = {name: x.detach().requires_grad_() for name, x in t.items()}
                o = self.f(**leaves)
                o.backward(torch.ones_like(o))
                torch.cuda.current_stream().synchronize()
            return t, o.detach(), {name: x.grad for name, x in leaves.items()}

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            results = list(pool.map(work, range(24)))
        for t, o, ours in results:
            want, theirs = gradients_of(formula, t, torch.ones_like(o))
            self.close(o, want.detach())
            for name in t:
                self.close(ours[name], theirs[name], 1e-2, name)

    def test_devices(self):
        if torch.cuda.device_count() < 2:
            self.skipTest("one device here")
        for index in reversed(range(torch.cuda.device_count())):  # the current device stays the first one
            self.check(self.f, tensors(index, device=f"cuda:{index}"))
        t = tensors()
        with self.assertRaisesRegex(aule.ArgumentError, "k: it is on cuda:1"):
            self.f(**{**t, "k": t["k"].to("cuda:1")})

    def test_host_tensors_are_copied_where_they_are_sent(self):
        t = {name: x.cpu() for name, x in tensors(6).items()}
        self.close(self.f(**t, device="cuda"), formula(**t))


class Compiled(Gpu):
    def test_compiled(self):
        torch.compiler.reset()
        compiled = torch.compile(lambda **t: self.f(**t) * 1.0, fullgraph=True)
        self.check(compiled, tensors(4))
        changing = torch.compile(lambda **t: self.f(**t), fullgraph=True, dynamic=True)
        for S in (64, 77, 130):
            self.check(changing, tensors(S, S=S))

    def test_compiled_with_graphs(self):
        """The mode in which torch itself captures what it has compiled."""
        torch.compiler.reset()
        compiled = torch.compile(lambda **t: self.f(**t) * 1.0, mode="reduce-overhead")
        t = tensors(5)
        with torch.no_grad():
            for _ in range(4):
                torch.compiler.cudagraph_mark_step_begin()
                self.close(compiled(**t), formula(**t))


class Far(Gpu):
    """Rows, and heads, more than 2^32 bytes apart: every tensor of a call lies within one buffer, row beside row."""

    def place(self, axis, apart, count):
        # Enough rows that products of index and stride pass 2^33, within the memory that is there.
        unused, _ = torch.cuda.mem_get_info()
        count = min(count, (unused - 4 * GB) // apart)
        if count < 3:
            self.skipTest(f"{unused // GB} GB are free, rows that far apart need {3 * apart // GB + 4}")
        space = torch.empty(apart * (count - 1) + (1 << 20), dtype=torch.uint8, device="cuda").view(torch.float16)
        at = [0]

        def far(rest, columns=64):
            """A tensor [1, H, S, columns] with `count` of one of them far apart."""
            shape = [1, count, rest, columns] if axis == 1 else [1, rest, count, columns]
            strides = [apart // 2, apart // 2, columns, 1] if axis == 1 else [apart // 2, columns, apart // 2, 1]
            x = torch.as_strided(space, shape, strides, at[0])
            at[0] += rest * columns + 64
            return x

        return count, far

    def try_axis(self, axis, apart, most):
        torch.cuda.empty_cache()
        count, far = self.place(axis, apart, most)
        rest = 40 if axis == 1 else 2
        shapes = far(rest), far(rest), far(rest), far(rest), far(rest)
        g = torch.Generator("cuda").manual_seed(axis)
        for x in shapes:
            x.copy_(torch.randn(x.shape, generator=g, device="cuda"))
        q, k, v, do, out = shapes
        bias = torch.zeros(q.shape[1], k.shape[2], device="cuda")
        results = self.f.forward(q, k, v, bias=bias, out={"o": out})
        given = {name: far(rest) for name in ("dq", "dk", "dv")}
        gradients = self.f.backward(results, do, out=given)
        near = {"q": q.contiguous(), "k": k.contiguous(), "v": v.contiguous(), "bias": bias}
        want, theirs = gradients_of(formula, near, do.contiguous())
        self.close(out, want.detach())
        for name in "qkv":
            self.close(gradients["d" + name], theirs[name], 1e-2, f"d{name} over axis {axis}, {count} of them")

    def test_rows(self):
        self.try_axis(2, (4 * GB) + 4096, 20)

    def test_heads(self):
        self.try_axis(1, (4 * GB) + 8192, 4)


class Foreign:
    """A tensor of torch's that shows nothing but DLPack, as another library's array."""

    def __init__(self, tensor):
        self.tensor, self.shape = tensor, tuple(tensor.shape)

    @property
    def device(self):
        return self.tensor.device

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__(stream=stream)

    def __array_namespace__(self):
        return Namespace


class Namespace:
    float32, float16 = "float32", "float16"

    @staticmethod
    def empty(shape, dtype, device):
        return Foreign(torch.empty(shape, dtype=getattr(torch, dtype), device=device))


class Arrays(Gpu):
    def test_dlpack(self):
        t = tensors(7)
        results = self.f.forward(**{name: Foreign(x) for name, x in t.items()})
        self.assertIsInstance(results.o, Foreign)
        gradients = self.f.backward(results, Foreign(torch.ones_like(t["q"])))
        torch.cuda.synchronize()
        want, theirs = gradients_of(formula, t, torch.ones_like(t["q"]))
        self.close(results.o.tensor, want.detach())
        for name in t:
            self.close(gradients["d" + name].tensor, theirs[name], 1e-2, name)

    def test_cupy(self):
        try:
            import cupy
        except ImportError:
            self.skipTest("CuPy is not installed")
        t = tensors(8)
        with cupy.cuda.Stream(non_blocking=True) as stream:
            o = self.f(**{name: cupy.asarray(x.cpu().numpy()) for name, x in t.items()})
            stream.synchronize()
        self.assertIsInstance(o, cupy.ndarray)
        self.close(torch.from_numpy(cupy.asnumpy(o)).cuda(), formula(**t))

    def test_jax(self):
        try:
            import jax

            device = jax.devices("gpu")[0]
        except (ImportError, RuntimeError):
            self.skipTest("JAX for GPUs is not installed")
        t = tensors(9)
        o = self.f(**{name: jax.device_put(x.cpu().numpy(), device) for name, x in t.items()})
        self.assertIsInstance(o, jax.Array)
        self.close(torch.from_numpy(np.array(o)).cuda(), formula(**t))


class Checked(Gpu):
    def test_an_index_outside_is_an_error_with_its_line(self):
        g = torch.Generator("cuda").manual_seed(1)
        for dtype in (torch.float16, torch.float32):  # by matrix units, and by multiply-adds
            q, k, v = (torch.randn(1, 2, n, 64, generator=g, device="cuda").to(dtype) for n in (70, 90, 90))
            table, x = torch.randn(4, generator=g, device="cuda"), torch.zeros(90, dtype=torch.int32, device="cuda")
            f, plain = aule.compile(TABLE, checked=True), aule.compile(TABLE)
            r = f.forward(q, k, v, x=x, table=table)
            self.assertTrue(torch.equal(r.o, plain(q, k, v, x=x, table=table)))
            x[3] = 4
            for call in (lambda: f(q, k, v, x=x, table=table), lambda: f.backward(r, r["o"])):
                with self.assertRaisesRegex(aule.ArgumentError, r":8:32: index 4 on axis 0 of 'table' is not in \[0, 4\)"):
                    call()
            x[3] = 0  # nothing was lost by it
            self.assertTrue(torch.equal(f(q, k, v, x=x, table=table), r.o))


ILLEGAL = """
import numpy as np, torch, aule
from test_device import SCRIPT, Foreign, tensors, formula

class Wild(Foreign):
    def __dlpack__(self, stream=None):
        import ctypes
        capsule = self.tensor.__dlpack__()
        name = ctypes.pythonapi.PyCapsule_GetPointer
        name.restype, name.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_uint64.from_address(name(capsule, b"dltensor")).value = 1 << 20  # where nothing is
        return capsule

f = aule.compile(SCRIPT)
t = tensors()
arrays = {name: Foreign(x) for name, x in t.items()}
f(**arrays)
arrays["k"] = Wild(t["k"])
said = []
for n in range(3):
    try:
        f(**arrays, device="cuda:0")
        aule.Attention("cuda").forward(np.ones((1, 1, 8, 16), np.float32), *[np.ones((1, 1, 8, 16), np.float32)] * 2)
    except aule.Error as error:
        said.append(str(error))
print(*said, sep="\\n")
x = np.ones((1, 2, 5, 16), np.float32)
np.testing.assert_allclose(aule.attention(x, x, x), x)  # the processor still computes
print("goes on")
"""


class Errors(Gpu):
    """Each a clear message; those that cannot be provoked here are tested on a mock of the driver (tests/runtime/cuda_test.c)."""

    def python(self, script, **environment):
        ran = subprocess.run([sys.executable, "-c", script], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120,
                             cwd=os.path.dirname(os.path.abspath(__file__)))
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def test_an_illegal_address(self):
        said = self.python(ILLEGAL, CUDA_LAUNCH_BLOCKING="0")
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", said)
        self.assertIn("a kernel that ran before has failed, and the device's context is lost with it", said)
        self.assertTrue(said.endswith("goes on\n"), said)

    def test_no_device(self):
        script = "import aule\nprint(*[f'{d.id}: {d.available} {d.reason}' for d in aule.devices()], sep='\\n')\n" \
                 "try: aule.Attention('cuda')\nexcept aule.Error as error: print(error)"
        said = self.python(script, CUDA_VISIBLE_DEVICES="-1")
        self.assertRegex(said, r"cuda: False libcuda.so.1 is there, but cuInit: CUDA_ERROR_NO_DEVICE")
        self.assertRegex(said.splitlines()[-1], "CUDA_ERROR_NO_DEVICE")

    def test_no_memory(self):
        """What was asked for and what is free is said, and the device works on."""
        device, lib = Device.get("cuda:0"), library()
        with self.assertRaisesRegex(aule.Error, r"CUDA_ERROR_OUT_OF_MEMORY.*; 4398046511104 bytes were asked for, \d+ of \d+ are free") as caught:
            lib.handle(lib.buffer_new, device.handle, 1 << 42)
        self.assertEqual(caught.exception.status, "memory")
        self.close(self.f(**tensors(11)), formula(**tensors(11)))

    def test_an_architecture_without_a_kernel(self):
        major, minor = torch.cuda.get_device_capability()
        other = "sm_120" if major < 12 else None
        if other is None:
            self.skipTest("every architecture's code runs here")
        with self.assertRaisesRegex(aule.Error, rf"no forward kernel for device cuda:0.*{other}.*the device is sm_{major}{minor}"):
            aule.compile(SCRIPT, archs=other)(**tensors())

    def test_a_grid_that_is_too_large(self):
        t = tensors(B=1, H=70000, Hk=70000, S=2, T=2, D=16)
        try:
            self.close(self.f(**t), formula(**t))
        except aule.Error as error:
            self.assertRegex(str(error), r"a grid of \d+ x \d+ x \d+ blocks")
        self.close(self.f(**tensors(10)), formula(**tensors(10)))


if __name__ == "__main__":
    unittest.main()
