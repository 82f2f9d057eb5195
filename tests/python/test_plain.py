"""aule.attention and aule.Attention: every option against a formula in NumPy, what is refused, the scripts that options make."""

import os
import unittest
from unittest import mock

import numpy as np

import aule
from aule import _devices, _plain
from support import torch

B, H, HK, S, T, D, E = 2, 4, 2, 13, 19, 8, 12
I, J = np.arange(S)[:, None] + T - S, np.arange(T)[None, :]


def tensors(seed=0):
    r = np.random.default_rng(seed)
    return [r.standard_normal(shape).astype(np.float32) for shape in ((B, H, S, D), (B, HK, T, D), (B, HK, T, E))]


def softmax(q, k, v, part=True, add=0.0, scale=None, softcap=None, sinks=None):
    """o and the log of the normaliser, in double precision."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, H // x.shape[1], axis=1) for x in (k, v))
    s = q @ k.swapaxes(2, 3) * (D**-0.5 if scale is None else scale)
    s = s if softcap is None else softcap * np.tanh(s / softcap)
    s = np.where(part, s + add, -np.inf)
    e = np.exp(s)
    total = e.sum(-1, keepdims=True) + (0 if sinks is None else np.exp(sinks.astype(np.float64))[None, :, None, None])
    return e @ v / np.where(total > 0, total, 1), np.log(np.maximum(total, 1e-300))[..., 0]


FAR = """attention far {
    q: [B, H, S, D];
    k: [B, H, T, D];
    v: [B, H, T, E];
    input bias: f32[H, S, T] grad;
    input sink: f32[H] grad;
    score_mod(score, b, h, i, j) = score + bias[h, i, j];
    online %s;
}
"""


def far_gradients(k, v, bias, sink, do):
    """o and gradients in double precision where queries are 0: biases are scores then, and no f32 rounds them."""
    k, v, s, sink, do = (x.astype(np.float64) for x in (k, v, np.broadcast_to(bias, (B, *bias.shape)), sink, do))
    logits = np.concatenate([s, np.broadcast_to(sink[None, :, None, None], (*s.shape[:3], 1))], axis=-1)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    p = (e / e.sum(-1, keepdims=True))[..., :-1]
    dp = do @ v.swapaxes(2, 3)
    delta = (p * dp).sum(-1, keepdims=True)
    ds = p * (dp - delta)
    dsink = -((1 - p.sum(-1)) * delta[..., 0]).sum((0, 2))
    return p @ v, {"dq": ds @ k, "dv": p.swapaxes(2, 3) @ do, "dbias": ds.sum(0), "dsink": dsink}


class FarBiases(unittest.TestCase):
    """Finite biases that cover whole rows, ends of them, or one head: gradients are those of a softmax."""

    def check(self, f, bias, sink, **more):
        r = np.random.default_rng(3)
        k, v = (r.standard_normal((B, H, T, n)).astype(np.float32) for n in (D, E))
        do = r.standard_normal((B, H, S, E)).astype(np.float32)
        results = f.forward(np.zeros((B, H, S, D), np.float32), k, v, bias=bias, sink=sink)
        o, want = far_gradients(k, v, bias, more.get("weighs", sink), do)
        np.testing.assert_allclose(results.o, o, rtol=2e-5, atol=3e-6)
        gradients = f.backward(results, do)
        for name, gradient in want.items():
            if name == "dsink" and "weighs" in more:
                continue
            np.testing.assert_allclose(gradients[name], gradient, rtol=5e-5, atol=1e-5, err_msg=name)

    def test_gradients(self):
        fs = {form: aule.compile(FAR % form) for form in ("softmax", "softmax_one", "softmax_sink(sink[h])")}
        r = np.random.default_rng(4)
        parts = {"all": np.s_[:, :, :], "head": np.s_[0, :, :], "front": np.s_[:, :, :7], "back": np.s_[:, :, 12:], "row": np.s_[:, 5, :]}
        for far in (-1e4, -1e9, -1e20, -1e38, np.finfo(np.float32).min, 1e4, 1e9, 1e20):
            for part, where in parts.items():
                bias = r.standard_normal((H, S, T)).astype(np.float32)
                bias[where] = far
                near = r.standard_normal(H).astype(np.float32)
                with self.subTest(far=far, part=part):
                    self.check(fs["softmax"], bias, near, weighs=np.full(H, -np.inf))
                    self.check(fs["softmax_one"], bias, near, weighs=np.zeros(H))
                    self.check(fs["softmax_sink(sink[h])"], bias, near)
                    self.check(fs["softmax_sink(sink[h])"], bias, np.full(H, far, np.float32))


class Options(unittest.TestCase):
    def expect(self, options, **formula):
        q, k, v = tensors()
        o = aule.attention(q, k, v, **options)
        self.assertEqual((o.shape, o.dtype), ((B, H, S, E), np.float32))
        np.testing.assert_allclose(o, softmax(q, k, v, **formula)[0], rtol=2e-5, atol=3e-6, err_msg=repr(options))

    def test_plain(self):
        self.expect({})
        self.expect({"scale": 0.7}, scale=0.7)
        self.expect({"softcap": 1.5}, softcap=1.5)
        self.assertIs(aule.flash_attention, aule.attention)

    def test_causal_is_aligned_to_the_end_of_the_keys(self):
        self.expect({"causal": True}, part=J <= I)

    def test_windows(self):
        self.expect({"window": 4}, part=np.abs(I - J) < 4)
        self.expect({"window": 4, "causal": True}, part=(J <= I) & (I - J < 4))
        self.expect({"window": (4, 2)}, part=(I - J <= 4) & (J - I <= 2))
        self.expect({"window": (-1, 0)}, part=J <= I)
        self.expect({"window": (3, -1)}, part=I - J <= 3)
        self.expect({"window": (-1, -1)})
        for none in (2**30, 2**31 - 1):  # "no window": ends of ranges must not leave what 32 bits hold
            self.expect({"window": none})
            self.expect({"window": (none, none)})
            self.expect({"window": (none, 0)}, part=J <= I)

    def test_inputs(self):
        r = np.random.default_rng(1)
        slopes, sinks = (r.random(H).astype(np.float32) for _ in range(2))
        self.expect({"alibi": slopes}, add=-slopes[:, None, None] * np.abs(I - J))
        each = r.random((B, H)).astype(np.float32)
        self.expect({"alibi": each, "causal": True}, add=-each[:, :, None, None] * np.abs(I - J), part=J <= I)
        self.expect({"sinks": sinks}, sinks=sinks)
        q, k, v = tensors()
        o, lse = aule.attention(q, k, v, sinks=sinks, return_lse=True)
        np.testing.assert_allclose(lse, softmax(q, k, v, sinks=sinks)[1], rtol=2e-5)

    def test_biases_are_broadcast(self):
        r = np.random.default_rng(2)
        for shape in ((S, T), (H, S, T), (B, H, S, T), (B, 1, S, T), (1, 1, 1, T), (H, 1, 1), (T,), (B, 1, 1, T)):
            bias = r.standard_normal(shape).astype(np.float32)
            self.expect({"bias": bias}, add=bias)
            self.expect({"bias": bias > 0}, part=bias > 0)
        half = r.standard_normal((S, T)).astype(np.float16)
        self.expect({"bias": half, "causal": True, "window": 5}, add=half, part=(J <= I) & (I - J < 5))

    def test_seed_in_memory(self):
        """As a number of 64 bits that an input brings: what is dropped is that of the parameter."""
        text = """attention a {{ q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; {}; score_mod(s) = s * rsqrt(D);
                  weight_mod(p) = dropout(p, 0.4, seed); online softmax; }}"""
        q, k, v = (np.random.default_rng(n).standard_normal((2, 2, 9, 16)).astype(np.float32) for n in range(3))
        brought, given = aule.compile(text.format("input seed: i64[]")), aule.compile(text.format("param seed: i64"))
        for seed in (0, 7, -1, 2**31, 2**40 + 5, 2**63 - 1, -(2**63)):
            np.testing.assert_array_equal(brought(q, k, v, seed=np.array(seed)), given(q, k, v, seed=seed))

    def test_dropout(self):
        q, k, v = tensors()
        first = aule.attention(q, k, v, dropout=0.4, seed=1)
        np.testing.assert_array_equal(first, aule.attention(q, k, v, dropout=0.4, seed=1))
        self.assertGreater(np.abs(first - aule.attention(q, k, v, dropout=0.4, seed=2)).max(), 0.01)
        np.random.seed(5)
        drawn = aule.attention(q, k, v, dropout=0.4)
        np.random.seed(5)
        np.testing.assert_array_equal(drawn, aule.attention(q, k, v, dropout=0.4))
        ones = np.ones((B, HK, T, E), np.float32)
        kept = np.mean([aule.attention(q, k, ones, dropout=0.25, seed=n).mean() for n in range(20)])
        self.assertAlmostEqual(float(kept), 1.0, delta=0.03)

    def test_options_make_one_script(self):
        q, k, v = tensors()
        bias = np.zeros((B, 1, S, T), np.float32)
        text = aule.attention_script(q, k, causal=True, bias=bias, softcap=30.0)
        self.assertIn("input bias: f32[B, 1, S, T];", text)
        self.assertIn("mask(b, h, i, j) = j <= q_pos;", text)
        aule.attention(q, k, v, causal=True, bias=bias, softcap=30.0)
        with mock.patch.object(_plain, "Compiled", side_effect=AssertionError("compiled again")):
            aule.attention(q, k, v, causal=True, bias=bias + 1, softcap=20.0, scale=0.1)

    def test_lists(self):
        slopes = [0.5, 1, 0.25, 0]
        self.expect({"alibi": slopes}, add=-np.array(slopes)[:, None, None] * np.abs(I - J))
        self.expect({"sinks": slopes, "bias": (J <= I).tolist()}, sinks=np.array(slopes), part=J <= I)
        if torch is not None:
            q, k, v = (torch.from_numpy(x) for x in tensors())
            np.testing.assert_array_equal(aule.attention(q, k, v, alibi=slopes), aule.attention(*tensors(), alibi=slopes))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_numbers_have_no_gradient(self):
        q, k, v = (torch.from_numpy(x) for x in tensors())
        for option in ("scale", "softcap", "dropout"):
            with self.assertRaisesRegex(aule.ArgumentError, f"aule.attention: {option} requires a gradient, .* write a script with `input {option}"):
                aule.attention(q, k, v, **{option: torch.tensor(0.5, requires_grad=True)})
        np.testing.assert_array_equal(aule.attention(q, k, v, scale=torch.tensor(0.5)), aule.attention(*tensors(), scale=0.5))

    def test_refusals(self):
        q, k, v = tensors()

        def refused(pattern, kind=aule.ArgumentError, **options):
            with self.assertRaisesRegex(kind, pattern):
                aule.attention(*options.pop("qkv", (q, k, v)), **options)

        refused("window is 0, expected at least 1", window=0)
        refused(r"window is \(3,\), expected \(left, right\)", window=(3,))
        refused(r"window is \(-2, 0\)", window=(-2, 0))
        refused("dropout is 1.0, expected a probability below 1", dropout=1.0)
        refused("dropout is nan, expected a probability below 1", dropout=float("nan"))
        refused("scale is nan, expected a finite number", scale=float("nan"))
        refused("scale is -inf, expected a finite number", scale=-float("inf"))
        refused("softcap is -1, expected a finite number above 0", softcap=-1)
        refused("softcap is nan, expected a finite number above 0", softcap=float("nan"))
        refused("causal is 'no', expected True or False", causal="no")
        refused("deterministic is 2, expected True or False", deterministic=2)
        refused("bias is of type float64", bias=np.zeros((S, T)))
        refused("bias has 5 axes", bias=np.zeros((1, B, H, S, T), np.float32))
        refused("bias", bias=np.zeros((H, S, T + 1), np.float32))
        refused("alibi has 3 axes, expected .H. or .B, H.", alibi=np.zeros((1, 1, H), np.float32))
        refused("sinks has 2 axes, expected .H.", sinks=np.zeros((B, H), np.float32))
        refused("alibi is of type bool, expected float32, float16, bfloat16", alibi=np.zeros(H, bool))
        refused("aule_attention: alibi: axis 0 .H. has 5 elements, expected 4 as in q", alibi=np.zeros(H + 1, np.float32))
        refused("aule_attention: sinks: axis 0 .H.", sinks=np.zeros(H + 1, np.float32))
        refused("alibi must be a tensor or a list of numbers, it is str", TypeError, alibi="0.5")
        refused("window is 2.5, expected whole numbers", window=2.5)
        refused("window is 1099511627776, expected whole numbers below 2.31", window=1 << 40)
        refused("q has 4 heads and k has 3", qkv=(q, np.zeros((B, 3, T, D), np.float32), v))
        refused("q has 4 heads and v has 3", qkv=(q, k, np.zeros((B, 3, T, E), np.float32)))
        refused("k", qkv=(q, k[..., :4], v))
        refused("unexpected keyword argument 'is_causal'", TypeError, is_causal=True)
        refused("cuda", aule.Error, backend="cuda:9")

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self):
        q, k, v = (torch.from_numpy(x) for x in tensors())
        for dtype, bound in ((torch.float32, 3e-6), (torch.bfloat16, 3e-2), (torch.float16, 3e-3)):
            o = aule.attention(q.to(dtype), k.to(dtype), v.to(dtype), causal=True)
            self.assertEqual(o.dtype, dtype)
            np.testing.assert_allclose(o.float(), softmax(*tensors(), part=J <= I)[0], atol=bound, rtol=bound)
        with torch.autocast("cpu", torch.bfloat16):
            o = aule.attention(q, k.bfloat16(), v, bias=torch.zeros(S, T))
        self.assertEqual(o.dtype, torch.bfloat16)
        torch.manual_seed(3)
        drawn = aule.attention(q, k, v, dropout=0.5)
        torch.manual_seed(3)
        self.assertTrue(torch.equal(drawn, aule.attention(q, k, v, dropout=0.5)))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_compiled_whole(self):
        q, k, v = (torch.from_numpy(x) for x in tensors())
        slopes, keep = torch.rand(H), torch.rand(B, 1, S, T) > 0.3

        def two(q, k, v):
            first = aule.attention(q, k, v, causal=True, window=7, alibi=slopes)
            return first + aule.attention(q, k, v, bias=keep, softcap=9.0, sinks=[0.5] * H)

        torch.compiler.reset()
        torch.testing.assert_close(torch.compile(two, fullgraph=True)(q, k, v), two(q, k, v))
        with self.assertRaisesRegex(Exception, "dropout needs a seed under torch.compile"):
            torch.compile(lambda q: aule.attention(q, k, v, dropout=0.5), fullgraph=True)(q)


class Sessions(unittest.TestCase):
    def test_session(self):
        q, k, v = tensors()
        with aule.Attention() as a:
            self.assertEqual((a.backend, a.backend_name, a.fp16_supported, a.backward_available), ("cpu", "cpu", True, True))
            np.testing.assert_allclose(a.forward(q, k, v, causal=True), softmax(q, k, v, part=J <= I)[0], rtol=2e-5, atol=3e-6)
        with self.assertRaisesRegex(aule.Error, "was closed"):
            a.forward(q, k, v)
        with self.assertRaisesRegex(aule.Error, "backward comes after forward"):
            aule.Attention("cpu").backward(q)
        with self.assertRaises(aule.Error):
            aule.Attention("cuda:9")

    def test_every_backend(self):
        q, k, v = tensors()
        names = aule.get_available_backends()
        self.assertIn("cpu", names)
        info = aule.get_backend_info()
        self.assertEqual([name for name in info if info[name]["available"]], sorted(names, key=list(info).index))
        for name, about in info.items():
            self.assertEqual(bool(about["reason"]), not about["available"])
            if about["available"]:
                with aule.Attention(name) as a:
                    self.assertEqual(a.backend_name, name)
                    np.testing.assert_allclose(a.forward(q, k, v), softmax(q, k, v)[0], rtol=2e-5, atol=3e-6)

    def test_backends_are_in_order_of_preference(self):
        def device(backend, kind, n=0, available=True):
            return aule.DeviceInfo(f"{backend}:{n}", backend, available, "" if available else "no driver", "", "", (), kind, 1, 0)

        cuda, gpu, pocl, cpu = device("cuda", "gpu"), device("opencl", "gpu"), device("opencl", "cpu", 1), device("cpu", "cpu")
        for found, names in (
            ([cuda, gpu, cpu], ["cuda", "opencl", "cpu"]), ([cuda, pocl, cpu], ["cuda", "cpu", "opencl"]), ([gpu, pocl, cpu], ["opencl", "cpu"]),
            ([device("cuda", "gpu", 0, False), pocl, cpu], ["cpu", "opencl"]), ([device("opencl", "other", 0, False), cpu], ["cpu"]),
        ):
            with mock.patch.object(_devices, "devices", return_value=found):
                self.assertEqual(aule.get_available_backends(), names)
                self.assertEqual([name for name, about in aule.get_backend_info().items() if about["available"]], names)

    def test_environment(self):
        def chosen(**environment):
            _devices._named.clear()
            with mock.patch.dict(os.environ, environment):
                for name in {"AULE_BACKEND", "AULE_DEVICE"} - set(environment):
                    os.environ.pop(name, None)
                return _devices.chosen()

        self.addCleanup(_devices._named.clear)
        self.assertIsNone(chosen())
        self.assertEqual(chosen(AULE_BACKEND="opencl"), "opencl")
        self.assertEqual(chosen(AULE_BACKEND="opencl", AULE_DEVICE="1"), "opencl:1")
        self.assertEqual(chosen(AULE_BACKEND="opencl", AULE_DEVICE="cpu"), "cpu")
        with self.assertRaisesRegex(aule.Error, "AULE_BACKEND must name the one backend"):
            chosen(AULE_DEVICE="1")
        self.assertEqual(chosen(AULE_BACKEND="vulkan:99, cpu"), "vulkan:99, cpu")
        self.assertEqual(aule.Attention().backend, "cpu")  # the first that there is
        for names in ("nothing,cpu", "cpu,nothing"):  # as in libaule: no name is passed over
            self.assertEqual(chosen(AULE_BACKEND=names), names)
            with self.assertRaisesRegex(aule.Error, "no backend 'nothing'"):
                aule.Attention()


if __name__ == "__main__":
    unittest.main()
