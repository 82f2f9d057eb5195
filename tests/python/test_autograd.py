"""Gradients by torch's autograd, in eager mode and in graphs, on the hand-made artifact."""

import concurrent.futures
import gc
import pickle
import shutil
import tempfile
import unittest

import numpy as np

import aule
from support import E, SAMPLE, inputs, load, sample, sample_gradients, torch

DIFFERENTIABLE = ("q", "k", "v", "slope")


def tensors(seed=0, **sizes):
    """Inputs as torch tensors, those that have gradients as leaves."""
    return {name: torch.from_numpy(x).requires_grad_(name in DIFFERENTIABLE) for name, x in inputs(seed, **sizes).items()}


@unittest.skipIf(torch is None, "torch is not installed")
class Autograd(unittest.TestCase):
    def setUp(self):
        self.f = load()
        g = torch.Generator().manual_seed(1)
        self.do, self.dlse = torch.randn(2, 4, 5, E, generator=g), torch.randn(2, 4, 5, generator=g)

    def expect(self, t, seed=0, do=None, dlse=None, window=3):
        x = inputs(seed)
        do = np.zeros((2, 4, 5, E)) if do is None else do.numpy()
        want = sample_gradients(x, window, do, None if dlse is None else dlse.numpy())
        for name in DIFFERENTIABLE:
            np.testing.assert_allclose(t[name].grad, want["d" + name], rtol=5e-5, atol=5e-6, err_msg=name)
            t[name].grad = None

    def test_output(self):
        t = tensors()
        o = self.f(**t, window=3)
        self.assertTrue(o.requires_grad)
        o.backward(self.do)
        self.expect(t, do=self.do)

    def test_finals(self):
        t = tensors()
        results = self.f.forward(**t, window=3)
        torch.autograd.backward([results.o, results.lse], [self.do, self.dlse])
        self.expect(t, do=self.do, dlse=self.dlse)
        self.f.forward(**t, window=3)["lse"].backward(self.dlse)
        self.expect(t, dlse=self.dlse)

    def test_some_inputs(self):
        t = tensors()
        k = t["k"].detach()
        self.f(**(t | {"k": k}), window=3).backward(self.do)
        self.assertIsNone(k.grad)
        t["k"].grad = torch.from_numpy(sample_gradients(inputs(), 3, self.do.numpy())["dk"]).float()
        self.expect(t, do=self.do)

    def test_layouts_are_taken_as_they_are(self):
        t = tensors()
        q = t["q"].detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
        o = self.f(**(t | {"q": q}), window=3)
        self.assertTrue(o.transpose(1, 2).is_contiguous())
        (o * self.do).sum().backward()
        self.assertEqual(q.grad.stride(), q.stride())
        self.expect(t | {"q": q}, do=self.do)
        t = tensors()
        self.f(**t, window=3).sum().backward()  # the gradient of o has strides of 0
        self.expect(t, do=torch.ones(2, 4, 5, E))

    def test_not_recorded(self):
        t = tensors()
        with torch.no_grad():
            self.assertFalse(self.f(**t, window=3).requires_grad)
        with torch.inference_mode():
            np.testing.assert_allclose(self.f(**t, window=3), sample(**inputs(), window=3)[0], rtol=2e-5, atol=2e-6)

    def test_without_autograd(self):
        t = {name: x.detach() for name, x in tensors().items()}
        gradients = self.f.backward(self.f.forward(**t, window=3), self.do, dlse=self.dlse)
        for name, want in sample_gradients(inputs(), 3, self.do.numpy(), self.dlse.numpy()).items():
            np.testing.assert_allclose(gradients[name], want, rtol=5e-5, atol=5e-6)

    def test_refusals(self):
        t = tensors()
        with self.assertRaisesRegex(aule.ArgumentError, "out= cannot be used"):
            self.f(**t, window=3, out=torch.empty(2, 4, 5, E))
        o = self.f(**t, window=3)
        with torch.no_grad():
            t["k"].mul_(2)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            o.sum().backward()

    def test_gradients_of_other_libraries_and_outputs(self):
        t = tensors()
        with self.assertRaisesRegex(aule.ArgumentError, r"k requires a gradient, and results are of the first tensor's library, numpy: .* or k.detach\(\)"):
            self.f(**(t | {"q": inputs()["q"]}), window=3)
        plain = {name: x.detach() for name, x in t.items()}
        self.assertIsInstance(self.f(**(plain | {"q": inputs()["q"]}), window=3), np.ndarray)
        with self.assertRaisesRegex(aule.ArgumentError, "out= cannot be used"):
            self.f(**plain, window=3, out=torch.empty(2, 4, 5, E, requires_grad=True))
        out = torch.ones(2, 4, 5, E)
        y = (t["q"][..., :E] * out).sum()
        self.f(**plain, window=3, out=out)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.backward()

    def test_second_derivatives_are_refused_and_never_zero(self):
        t = tensors()
        for loss in (lambda o: o.pow(2).sum(), lambda o: o.sum()):  # of the second, the gradient of o is a constant
            dq, = torch.autograd.grad(loss(self.f(**t, window=3)), t["q"], create_graph=True)
            with self.assertRaisesRegex(aule.Error, "sample: an attention has first derivatives only; .*create_graph"):
                (dq.pow(2).sum() + t["q"].sum()).backward()
        q = t["q"].detach()
        for transform in (torch.autograd.functional.hessian, torch.autograd.functional.jvp):
            with self.assertRaisesRegex(aule.Error, "first derivatives only"):
                transform(lambda q: self.f(**(t | {"q": q}), window=3).sum(), q, *[q] * (transform is torch.autograd.functional.jvp))
        with self.assertRaisesRegex(aule.Error, "several gradients at once"):
            torch.autograd.grad(self.f(**t, window=3), t["q"], self.do.expand(3, -1, -1, -1, -1), is_grads_batched=True)
        torch.autograd.grad(self.f(**t, window=3), t["q"], self.do, create_graph=True)  # nobody asks for more

    def test_transforms_of_torch_func_are_refused(self):
        t = {name: x.detach() for name, x in tensors().items()}
        for transform in (torch.func.grad, torch.func.jacrev, torch.func.jacfwd, torch.func.hessian, torch.func.vmap):
            with self.assertRaisesRegex(aule.Error, "sample: transforms of torch.func"):
                transform(lambda q: self.f(**(t | {"q": q}), window=3).sum())(t["q"])
            with self.assertRaisesRegex(aule.Error, "sample: transforms of torch.func"):
                transform(lambda scale: self.f(**t, window=3, scale=scale).sum())(torch.ones((1,) * (transform is torch.func.vmap)))

    def test_tangents_are_refused(self):
        t = {name: x.detach() for name, x in tensors().items()}
        with torch.autograd.forward_ad.dual_level():
            self.f(**t, window=3)
            for name in DIFFERENTIABLE:
                dual = torch.autograd.forward_ad.make_dual(t[name], torch.ones_like(t[name]))
                with self.assertRaisesRegex(aule.ArgumentError, f"sample: {name} has a tangent, .*unpack_dual.{name}..primal"):
                    self.f(**(t | {name: dual}), window=3)
            scale = torch.autograd.forward_ad.make_dual(torch.tensor(0.5), torch.tensor(1.0))
            with self.assertRaisesRegex(aule.ArgumentError, "scale has a tangent"):
                self.f(**t, window=3, scale=scale)

    def test_parameters_have_no_gradient(self):
        t = tensors()
        scale = torch.tensor(0.5, requires_grad=True)
        with self.assertRaisesRegex(aule.ArgumentError, r"sample: scale requires a gradient, .*`input scale: f32\[\] grad`, or pass scale.detach"):
            self.f(**t, window=3, scale=scale)
        with torch.no_grad():
            self.f(**t, window=3, scale=scale)
        self.f(**t, window=3, scale=scale.detach()).backward(self.do)


    def test_checkpoint(self):
        from torch.utils.checkpoint import checkpoint

        t = tensors()
        checkpoint(lambda **t: self.f(**t, window=3), **t, use_reentrant=False).backward(self.do)
        self.expect(t, do=self.do)

    def test_threads(self):
        def run(seed):
            t = tensors(seed)
            self.f(**t, window=3).backward(self.do)
            return seed, t

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for seed, t in pool.map(run, range(24)):
                self.expect(t, seed, do=self.do)


@unittest.skipIf(torch is None, "torch is not installed")
class Graphs(unittest.TestCase):
    """torch.compile and what it rests on."""

    def setUp(self):
        self.f = load()
        torch.compiler.reset()

    def step(self, q, k, v, lengths, slope, window):
        results = self.f.forward(q, k, v, lengths=lengths, slope=slope, window=window)
        return results.o.transpose(1, 2).reshape(q.shape[0], q.shape[2], -1), results["lse"]

    def test_operations(self):
        t, names = list(tensors().values()), " ".join(tensors())
        results = [x.detach() for x in self.f.forward(**tensors(), window=3).values()]
        torch.library.opcheck(torch.ops.aule.forward.default, (self.f._key, "", "o lse", names, t, "window scale", [3], [0.5]))
        torch.library.opcheck(torch.ops.aule.forward.default, (self.f._key, "cpu", "o", names, [x.detach() for x in t], "window", [3], []))
        for given in ([torch.ones_like(results[0]), torch.ones_like(results[1])], [torch.ones_like(results[0]), None]):
            torch.library.opcheck(torch.ops.aule.backward.default, (self.f._key, "", names, [x.detach() for x in t], results, given, "window", [3], []))

    def test_equals_that_are_gone(self):
        """Graphs name an attention by its meaning: one that is collected does not take its equals along."""
        again = load()
        copy = pickle.loads(pickle.dumps(self.f))
        del again, copy
        gc.collect()
        t = {name: x.detach() for name, x in tensors().items()}
        torch.testing.assert_close(torch.compile(self.step, fullgraph=True)(**t, window=3), self.step(**t, window=3))

    def test_a_graph_keeps_its_attention(self):
        class Module(torch.nn.Module):
            def forward(_, q, k, v, lengths, slope):
                return self.step(q, k, v, lengths, slope, 3)

        t = [x.detach() for x in tensors().values()]
        want = self.step(*t, window=3)
        with tempfile.TemporaryDirectory() as folder:  # one that nobody else has
            self.f = aule.load(shutil.copy(SAMPLE, folder))
            program = torch.export.export(Module(), tuple(t), strict=False)
        self.f = None
        gc.collect()
        torch.testing.assert_close(program.module()(*t), want)

    def test_meta_tensors(self):
        t = {name: x.detach().to("meta").requires_grad_(x.requires_grad) for name, x in tensors().items()}
        results = self.f.forward(**t, window=3)
        self.assertEqual([(x.device.type, tuple(x.shape), x.dtype) for x in results.values()],
                         [("meta", (2, 4, 5, E), torch.float32), ("meta", (2, 4, 5), torch.float32)])
        results["o"].sum().backward()
        self.assertEqual([t[name].grad.shape for name in DIFFERENTIABLE], [t[name].shape for name in DIFFERENTIABLE])
        with self.assertRaisesRegex(aule.ArgumentError, "sample: k is a meta tensor and q is not"):
            self.f(**(tensors() | {"k": t["k"]}), window=3)

    def test_compiled_whole(self):
        compiled = torch.compile(self.step, fullgraph=True)
        for S, T, window in ((5, 7, 3), (6, 9, 3), (8, 9, 4)):
            ours, theirs = tensors(S, S=S, T=T), tensors(S, S=S, T=T)
            for step, t in ((self.step, ours), (compiled, theirs)):
                o, lse = step(**t, window=window)
                (o.pow(2).sum() + lse.sin().sum()).backward()
            for name in DIFFERENTIABLE:
                torch.testing.assert_close(theirs[name].grad, ours[name].grad, rtol=1e-5, atol=1e-6)

    def test_changing_shapes(self):
        compiled = torch.compile(self.step, fullgraph=True, dynamic=True)
        for S, T, window in ((4, 6, 2), (7, 9, 3), (11, 10, 5)):
            t = tensors(S, S=S, T=T)
            torch.testing.assert_close(compiled(**t, window=window), self.step(**t, window=window), rtol=1e-5, atol=1e-6)

    def test_export(self):
        class Module(torch.nn.Module):
            def forward(_, q, k, v, lengths, slope):
                return self.step(q, k, v, lengths, slope, 3)

        first, other = ([x.detach() for x in tensors(S, S=S, T=9).values()] for S in (8, 5))
        changing = {2: torch.export.Dim.AUTO}
        program = torch.export.export(Module(), tuple(first), dynamic_shapes=(changing, {}, {}, {}, {}), strict=False)
        torch.testing.assert_close(program.module()(*other), Module()(*other))

    def test_one_operation(self):
        graphs = []

        def backend(graph, example):
            graphs.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
            return graph

        with torch.no_grad():
            torch.compile(lambda t: self.f(**t, window=3) + 1, backend=backend, fullgraph=True)(tensors())
        self.assertEqual([name.partition(".")[0] for name in graphs[0] if "aule" in name], ["aule"])
        self.assertEqual(len(graphs), 1)

    def test_layouts(self):
        compiled = torch.compile(self.step, fullgraph=True)
        t = tensors()
        t["q"] = t["q"].detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
        torch.testing.assert_close(compiled(**t, window=3), self.step(**t, window=3))

    def test_shapes_without_running(self):
        from torch._subclasses import FakeTensorMode

        with FakeTensorMode():
            t = {name: torch.empty(x.shape, dtype=x.dtype) for name, x in tensors().items()}
            results = self.f.forward(**t, window=3)
        self.assertEqual((tuple(results.o.shape), tuple(results.lse.shape)), ((2, 4, 5, E), (2, 4, 5)))

    def test_unknown_attention(self):
        with self.assertRaisesRegex(aule.Error, "calls the attention nothing 1, which this process has not made"):
            torch.ops.aule.forward("nothing 1", "", "o", "q", [torch.zeros(1)], "", [], [])


if __name__ == "__main__":
    unittest.main()
