"""Gradients of aule.attention, for every option, against the same formula in double precision by torch's autograd; in eager mode, in graphs,
without autograd, in every operand type and on every device. Tensors are on the device that AULE_TEST_DEVICE names, else on the processor."""

import unittest

import numpy as np

import aule
from support import DEVICE, torch

B, H, HK, S, T, D, E = 2, 4, 2, 13, 19, 8, 12


def setUpModule():
    if torch:
        torch.set_default_device(DEVICE)


def tearDownModule():
    if torch:
        torch.set_default_device(None)


def generator(seed):
    return torch.Generator(torch.get_default_device()).manual_seed(seed)


def leaves(*shapes, seed=0, dtype=None):
    g = generator(seed)
    return [torch.randn(shape, generator=g).to(dtype or torch.float32).requires_grad_() for shape in shapes]


def qkv(**options):
    return leaves((B, H, S, D), (B, HK, T, D), (B, HK, T, E), **options)


def formula(q, k, v, causal=False, window=None, softcap=None, alibi=None, sinks=None, bias=None, scale=None):
    """o and lse."""
    k, v = (x.repeat_interleave(H // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(2, 3) * (D**-0.5 if scale is None else scale)
    s = s if softcap is None else softcap * torch.tanh(s / softcap)
    i, j = torch.arange(S)[:, None] + T - S, torch.arange(T)[None, :]
    s = s if alibi is None else s - alibi[..., :, None, None] * (i - j).abs()
    part = torch.ones(S, T, dtype=torch.bool) if not causal else j <= i
    part = part if window is None else part & (i - j <= window[0]) & (j - i <= window[1])
    if bias is not None:
        s, part = (s, part & bias) if bias.dtype == torch.bool else (s + bias, part)
    s = s.masked_fill(~part, -torch.inf)
    logits = s if sinks is None else torch.cat([s, sinks[None, :, None, None].expand(B, -1, S, 1)], -1)
    return logits.softmax(-1)[..., :T] @ v, logits.logsumexp(-1)


@unittest.skipIf(torch is None, "torch is not installed")
class Gradients(unittest.TestCase):
    def check(self, options, dtype=None, bound=2e-5, device=None, run=None, lse=True):
        """Gradients of a random function of o and lse, with respect to all floating tensors."""
        tensors = dict(zip("qkv", qkv(dtype=dtype))) | {n: x for n, x in options.items() if isinstance(x, torch.Tensor)}
        others = {n: x for n, x in options.items() if not isinstance(x, torch.Tensor)}
        exact = {n: x.detach().double().requires_grad_() if x.is_floating_point() else x for n, x in tensors.items()}
        wanted = [n for n, x in tensors.items() if x.requires_grad]
        g = generator(7)
        do, dlse = torch.randn(B, H, S, E, generator=g), torch.randn(B, H, S, generator=g) * lse
        run = run or (lambda **named: aule.attention(**named, backend=device, return_lse=True))

        def gradients(results, leaves_):
            o, lse = results
            return torch.autograd.grad((o * do.to(o)).sum() + (lse * dlse.to(lse)).sum(), [leaves_[n] for n in wanted])

        ours, theirs = gradients(run(**tensors, **others), tensors), gradients(formula(**exact, **others), exact)
        for name, x, y in zip(wanted, ours, theirs):
            self.assertEqual((x.shape, x.dtype), (tensors[name].shape, tensors[name].dtype), name)
            self.assertLess(float((x - y).abs().max()), bound * max(1.0, float(y.abs().max())), f"{name} with {options.keys()}")

    def options(self):
        slopes, each, sinks = leaves((H,), (B, H), (H,), seed=3)
        yield {}
        yield {"causal": True, "scale": 0.5}
        yield {"window": (4, 2), "softcap": 2.0}
        yield {"alibi": slopes, "causal": True}
        yield {"alibi": each}
        yield {"sinks": sinks, "causal": True}
        yield {"bias": torch.rand(B, 1, S, T) > 0.3}
        for shape in ((S, T), (H, S, T), (B, H, S, T), (B, 1, S, T), (T,), (H, 1, 1), (1, 1, S, 1)):
            yield {"bias": leaves(shape, seed=5)[0]}
        yield {"bias": leaves((B, 1, S, T), seed=6)[0], "sinks": sinks, "alibi": slopes, "causal": True, "window": (6, 0), "softcap": 3.0}

    def test_options(self):
        torch.manual_seed(1)
        for options in self.options():
            with self.subTest(options={name: tuple(x.shape) if isinstance(x, torch.Tensor) else x for name, x in options.items()}):
                self.check(options)

    def test_operand_types(self):
        slopes, = leaves((H,), seed=3)
        for dtype, bound in ((torch.bfloat16, 2e-2), (torch.float16, 3e-3)):
            self.check({"causal": True, "alibi": slopes}, dtype, bound)
            self.check({"bias": leaves((B, 1, S, T), seed=4, dtype=dtype)[0]}, dtype, bound)

    @unittest.skipIf(DEVICE != "cpu", "host tensors are sent to devices")
    def test_devices(self):
        for device in aule.devices():
            if device.available and device.backend != "cpu":
                self.check({"causal": True, "bias": leaves((H, S, T), seed=4)[0]}, device=device.id)

    def test_graphs(self):
        torch.compiler.reset()
        slopes, bias = leaves((H,), (B, 1, S, T), seed=3)
        compiled = torch.compile(lambda **named: aule.attention(**named, return_lse=True), fullgraph=True)
        self.check({"causal": True, "alibi": slopes, "bias": bias}, run=compiled)
        self.check({"softcap": 2.0}, run=compiled)
        changing = torch.compile(lambda **named: aule.attention(**named, return_lse=True), fullgraph=True, dynamic=True)
        self.check({"causal": True, "alibi": slopes, "bias": bias}, run=changing)

    def test_layouts(self):
        """Views of one projection, as models have them: read in place, and gradients flow back into it."""
        x, = leaves((B, T, 3, H, D))
        y = x.detach().double().requires_grad_()

        def loss(attention, x):
            q, k, v = x.permute(2, 0, 3, 1, 4)
            return attention(q, k, v).transpose(1, 2).reshape(B, T, H * D).square().sum()

        ours, = torch.autograd.grad(loss(lambda q, k, v: aule.attention(q, k, v, causal=True), x), x)
        theirs, = torch.autograd.grad(loss(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), y), y)
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)

    def test_autocast(self):
        q, k, v = qkv()
        bias, = leaves((H, S, T), seed=4)
        with torch.autocast(DEVICE, torch.bfloat16):
            aule.attention(q, k, v, bias=bias).float().sum().backward()
        self.assertEqual({x.grad.dtype for x in (q, k, v, bias)}, {torch.float32})

    def test_dropout(self):
        """What is dropped is the same in both directions: the gradient is that of the function with this seed."""
        q, k, v = qkv()
        run = lambda v: aule.attention(q, k, v, dropout=0.5, seed=11)  # linear in v
        dv, = torch.autograd.grad((run(v) * 3).sum(), v)
        self.assertLess(float(abs((dv * v).sum() - (run(v) * 3).sum()).detach()), 1e-2)
        direction = torch.randn(q.shape, generator=generator(2)).double()
        dq, = torch.autograd.grad(aule.attention(q, k, v, dropout=0.5, seed=11).square().sum(), q)
        ahead, behind = (aule.attention((q.double() + h * direction).float(), k, v, dropout=0.5, seed=11).double().square().sum() for h in (1e-2, -1e-2))
        self.assertAlmostEqual(float((dq.double() * direction).sum()), float((ahead - behind) / 2e-2), delta=2e-2 * float(dq.abs().sum()))

    def test_nothing_to_attend_to(self):
        for b, s, t in ((0, 3, 4), (1, 0, 4), (1, 3, 0)):
            q, k, v = leaves((b, 2, s, D), (b, 2, t, D), (b, 2, t, E))
            o = aule.attention(q, k, v, causal=True)
            o.sum().backward()
            self.assertEqual(tuple(o.shape), (b, 2, s, E))
            for x in (o, q.grad, k.grad, v.grad):
                self.assertEqual(float(x.detach().abs().sum()), 0)

    def test_deterministic(self):
        def gradient(**options):
            q, k, v = qkv()
            bias, = leaves((H, 1, 1), seed=4)
            aule.attention(q, k, v, bias=bias, **options).square().sum().backward()
            return bias.grad

        first = gradient(deterministic=True)
        self.assertTrue(all(torch.equal(first, gradient(deterministic=True)) for _ in range(5)))
        torch.testing.assert_close(first, gradient(), rtol=1e-4, atol=1e-4)


GATED = """
attention gated {
    q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E];
    input gain: f32[D] grad;
    input gate: [B, H, S, E] grad;
    q_mod(x, b, h, i, c) = l2norm(x) * gain[c];
    out_mod(o, b, h, i, c) = o * sigmoid(gate[b, h, i, c]);
    mask(b, h, i, j) = j <= q_pos;
    online softmax;
}
"""
LATENT = """
attention latent {
    q: [B, H, S, 24]; k: [B, 1, T, 24]; v = k[.., 0:16];
    input bias: f32[] grad;
    score_mod(s) = sigmoid(s * 0.3 + bias);
    online identity;
}
"""


def gated(q, k, v, gain, gate):
    s = (q / (q.square().sum(-1, keepdim=True) + 1e-6).sqrt() * gain) @ k.transpose(2, 3)
    i, j = torch.arange(S)[:, None] + T - S, torch.arange(T)[None, :]
    return s.masked_fill(j > i, -torch.inf).softmax(-1) @ v * gate.sigmoid()


def latent(q, k, bias):
    return (q @ k.transpose(2, 3) * 0.3 + bias).sigmoid() @ k[..., :16]


@unittest.skipIf(torch is None, "torch is not installed")
class Scripts(unittest.TestCase):
    """What options do not have: mods of rows and of the output, values within keys, scalars, no finals."""

    def check(self, script, formula_, **tensors):
        f = aule.compile(script)
        exact = {name: x.detach().double().requires_grad_() for name, x in tensors.items()}
        o = formula_(**exact)
        do = torch.randn(o.shape, generator=generator(1))
        want = dict(zip(tensors, torch.autograd.grad(o, exact.values(), do.double())))
        self.assertEqual(sorted(f.gradients), sorted(tensors))
        torch.compiler.reset()
        ways = {"eager": f, "graph": torch.compile(lambda **named: f(**named), fullgraph=True)}
        found = {way: dict(zip(tensors, torch.autograd.grad(run(**tensors), tensors.values(), do))) for way, run in ways.items()}
        arrays = {name: x.detach().cpu().numpy() for name, x in tensors.items()}
        gradients = f.backward(f.forward(**arrays), do.cpu().numpy())
        found["numpy"] = {name: torch.from_numpy(gradients["d" + name]).to(DEVICE) for name in tensors}
        for way, named in found.items():
            for name, x in named.items():
                torch.testing.assert_close(x.double(), want[name], rtol=1e-4, atol=2e-5, msg=lambda said: f"{way} {name}: {said}")

    def test_mods(self):
        q, k, v, gain, gate = leaves((B, H, S, D), (B, H, T, D), (B, H, T, E), (D,), (B, H, S, E))
        self.check(GATED, gated, q=q, k=k, v=v, gain=gain, gate=gate)

    def test_values_within_keys(self):
        q, k, bias = leaves((B, H, S, 24), (B, 1, T, 24), ())
        self.check(LATENT, latent, q=q, k=k, bias=bias)


@unittest.skipIf(torch is None, "torch is not installed")
class Sessions(unittest.TestCase):
    def test_numpy(self):
        with torch.device("cpu"):
            self.sessions()

    def sessions(self):
        tensors = [x.detach().cpu().numpy() for x in qkv()]
        bias = np.random.default_rng(0).standard_normal((B, 1, S, T)).astype(np.float32)
        sinks, slopes = (np.random.default_rng(n).random(H).astype(np.float32) for n in range(2))
        do = np.random.default_rng(3).standard_normal((B, H, S, E)).astype(np.float32)
        exact = [torch.from_numpy(x).double().requires_grad_() for x in (*tensors, bias, sinks, slopes)]
        o, _ = formula(*exact[:3], bias=exact[3], sinks=exact[4], alibi=exact[5], causal=True)
        want = torch.autograd.grad(o, exact, torch.from_numpy(do).double())
        for name in aule.get_available_backends():
            with aule.Attention(name) as a:
                np.testing.assert_allclose(a.forward(*tensors, bias=bias, sinks=sinks, alibi=slopes, causal=True), o.detach(), rtol=2e-5, atol=3e-6)
                found = a.backward(do)
                self.assertIs(found.dq, a.gradients["dq"])
                for name, gradient in zip(("dq", "dk", "dv", "dbias", "dsinks", "dalibi"), want):
                    np.testing.assert_allclose(a.gradients[name], gradient, rtol=1e-4, atol=2e-5, err_msg=name)


if __name__ == "__main__":
    unittest.main()
