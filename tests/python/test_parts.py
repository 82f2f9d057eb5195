"""Attentions of keys in several places: `unfinished` and `combine`, held against the formula in double precision."""

import pickle
import unittest

import numpy as np

import aule

try:
    import torch
except ImportError:
    torch = None

HEAD = """
attention tried {
    q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E];
    input sink: f32[H]; input bias: f32[H];
    param first: i32 = 0;
"""
BAND = HEAD + """
    score_mod(s, b, h) = s * rsqrt(D) + bias[h];
    mask(b, h, i, j) = first + j <= 2 * i && i != 3;
    online softmax_sink(sink[h]);
}
"""
PLAIN = "attention plain { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; score_mod(s) = s * rsqrt(D); online softmax; }"
NORM = """
online of_length_one {
    rowscale r = 0.0;
    final norm;
    online_fwd(s) { r = sqrt(r * r + rowsum(s * s)); return s, 1.0; }
    online_fwd_epilogue(o) { norm = r; return o / r; }
    forward(score) = score / norm;
}
attention normed { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; online of_length_one; }
"""
LINEAR = "attention gone { q: [B, H, T, K]; k: [B, H, T, K]; v: [B, H, T, V]; linear { decay = 0.5; } }"
B, H, HK, S, T, D, E = 2, 4, 2, 11, 23, 16, 24
SPLITS = ((23,), (9, 14), (0, 9, 0, 14), (22, 1), (0, 0, 23), (4, 4, 4, 4, 4, 3))


def inputs(spread=1.0, seed=0):
    r = np.random.default_rng(seed)
    x = {name: r.standard_normal(shape).astype(np.float32) for name, shape in
         {"q": (B, H, S, D), "k": (B, HK, T, D), "v": (B, HK, T, E), "sink": (H,), "bias": (H,)}.items()}
    x["q"] *= np.float32(spread)
    return x


def formula(x, T=T):
    """Output and lse, [B, H, S, ..], of the script BAND with its first T keys."""
    q, k, v, sink, bias = (x[name].astype(np.float64) for name in ("q", "k", "v", "sink", "bias"))
    k, v = (np.repeat(t[:, :, :T], H // HK, 1) for t in (k, v))
    scores = np.einsum("bhsd,bhtd->bhst", q, k) * D**-0.5 + bias[:, None, None]
    i, j = np.arange(S)[:, None], np.arange(T)[None, :]
    scores = np.where((j <= 2 * i) & (i != 3), scores, -np.inf)
    most = np.maximum(scores.max(-1, initial=-np.inf), sink[:, None])[..., None]
    weights = np.exp(scores - most)
    total = weights.sum(-1) + np.exp(sink[:, None] - most[..., 0])
    return np.einsum("bhst,bhte->bhse", weights, v) / total[..., None], most[..., 0] + np.log(total)


def parts_of(f, x, split, out=None, **more):
    """The unfinished attentions of consecutive sets of keys."""
    made, first = [], 0
    for n, keys in enumerate(split):
        k, v = (x[name][:, :, first : first + keys] for name in ("k", "v"))
        slices = None if out is None else {name: t[n] for name, t in out.items()}
        made.append(f.unfinished(x["q"], k, v, sink=x["sink"], bias=x["bias"], first=first, out=slices, **more))
        first += keys
    return made


class Parts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.f = aule.compile(BAND)

    def same(self, found, x, tolerance=3e-6):
        o, lse = formula(x)
        np.testing.assert_allclose(np.asarray(found.o), o, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(np.asarray(found.lse), lse, rtol=tolerance, atol=tolerance)

    def test_splits(self):
        for spread in (1.0, 9.0):
            x = inputs(spread)
            for split in SPLITS:
                with self.subTest(split=split, spread=spread):
                    self.same(self.f.combine(parts_of(self.f, x, split), sink=x["sink"]), x, 3e-6 * spread)

    def test_order_and_repetition(self):
        x = inputs()
        parts = parts_of(self.f, x, (5, 8, 10))
        once, again = (self.f.combine(parts, sink=x["sink"]).o for _ in range(2))
        self.assertEqual(once.tobytes(), again.tobytes())
        self.same(self.f.combine(parts[::-1], sink=x["sink"]), x)

    def test_a_missing_part_shows(self):
        """What the tests above compare with would not be met by chance."""
        x = inputs()
        found = self.f.combine(parts_of(self.f, x, (5, 8, 10))[:2], sink=x["sink"])
        self.assertGreater(np.abs(found.o - formula(x)[0]).max(), 0.01)
        np.testing.assert_allclose(found.o, formula(x, 13)[0], rtol=3e-6, atol=3e-6)

    def test_stacked_without_copies(self):
        x = inputs()
        shapes = {name: t.shape for name, t in parts_of(self.f, x, (T,))[0].items()}
        stacked = {name: np.full((3, *shape), np.nan, np.float32) for name, shape in shapes.items()}
        parts_of(self.f, x, (9, 0, 14), stacked)
        o = np.empty((B, H, S, E), np.float32)
        found = self.f.combine(stacked, sink=x["sink"], out={"o": o})
        self.assertIs(found.o, o)
        self.same(found, x)
        none = self.f.combine({name: t[:0] for name, t in stacked.items()}, sink=x["sink"], dtype="float32")
        self.assertEqual(float(np.abs(none.o).max()), 0.0)
        np.testing.assert_allclose(none.lse, np.broadcast_to(x["sink"][:, None], (B, H, S)), rtol=1e-6)

    def test_infinite_scores(self):
        """A score of minus infinity is a pair with the weight 0, and a part of nothing else changes nothing."""
        f = aule.compile(PLAIN)
        r = np.random.default_rng(3)
        q, k, v = (np.abs(r.standard_normal((1, 1, n, 8))).astype(np.float32) + 0.1 for n in (5, 7, 7))
        k[:, :, :3] = -np.inf
        whole = f.forward(q, k, v)
        found = f.combine([f.unfinished(q, k[:, :, a:b], v[:, :, a:b]) for a, b in ((0, 3), (3, 7))])
        np.testing.assert_allclose(found.o, whole.o, rtol=2e-6)
        np.testing.assert_allclose(found.lse, whole.lse, rtol=2e-6)

    def test_types_and_layout(self):
        f = aule.compile(PLAIN)
        r = np.random.default_rng(4)
        q, k, v = (r.standard_normal((1, n, 2, 32)).astype(np.float16).swapaxes(1, 2) for n in (5, 40, 40))
        parts = [f.unfinished(q, k[:, :, a:b], v[:, :, a:b]) for a, b in ((0, 17), (17, 40))]
        self.assertEqual({t.dtype.name for one in parts for t in one.values()}, {"float32"})
        found, whole = f.combine(parts), f.forward(q, k, v)
        self.assertEqual((found.o.dtype, found.o.strides), (whole.o.dtype, whole.o.strides))
        np.testing.assert_allclose(found.o.astype(float), whole.o.astype(float), atol=2e-3)

    def test_sent_elsewhere(self):
        x = inputs()
        parts = [pickle.loads(pickle.dumps(one)) for one in parts_of(self.f, x, (9, 14))]
        self.assertEqual(parts[0].dtype, "float32")
        self.same(self.f.combine(parts, sink=x["sink"]), x)
        self.same(self.f.combine([dict(one) for one in parts], sink=x["sink"], dtype=np.float32), x)

    def test_refused(self):
        x = inputs()
        parts = parts_of(self.f, x, (9, 14))
        for wrong, error, words in (
            (lambda: self.f.combine(parts), TypeError, "needs sink"),
            (lambda: self.f.combine(parts, sink=x["sink"], bias=x["bias"]), TypeError, "bias: it went into the parts"),
            (lambda: self.f.combine([], sink=x["sink"]), aule.ArgumentError, "no part"),
            (lambda: self.f.combine(parts[0]["acc"], sink=x["sink"]), TypeError, "a list of what"),
            (lambda: self.f.combine([{"acc": parts[0]["acc"]}], sink=x["sink"]), TypeError, "takes parts with acc, state_"),
            (lambda: self.f.combine([dict(one) for one in parts], sink=x["sink"]), TypeError, "needs dtype"),
            (lambda: self.f.combine(parts, sink=x["sink"], dtype="int32"), TypeError, "it was given int32"),
            (lambda: self.f.combine(parts, sink=x["sink"], out={"p": x["q"]}), TypeError, "no output p"),
            (lambda: self.f.combine([parts[0], {name: t[:1] for name, t in parts[1].items()}], sink=x["sink"]), aule.ArgumentError, "acc has the shapes"),
            (lambda: self.f.combine({**parts[0]}, sink=x["sink"], dtype="float32"), aule.ArgumentError, "one part goes in a list"),
            (lambda: self.f.unfinished(x["q"], x["k"], x["v"], sink=x["sink"]), TypeError, "needs bias"),
            (lambda: self.f.unfinished(x["q"], x["k"], x["v"], axes={"T": None}), TypeError, "unfinished() does not take axes: parts of the keys have no layouts"),
            (lambda: self.f.backward(self.f.combine(parts, sink=x["sink"]), x["q"]), aule.Error, "no backward pass of combine"),
        ):
            with self.subTest(words), self.assertRaises(error) as caught:
                wrong()
            self.assertIn(words, str(caught.exception))

    def test_scripts_without(self):
        for script, words in ((NORM, "has no combine, and none that is right can be derived"), (LINEAR, "state_in and state_out")):
            f = aule.compile(script)
            for call in (lambda: f.unfinished(*[np.zeros((1, 1, 2, 8), np.float32)] * 3), lambda: f.combine([])):
                with self.assertRaises(aule.Error) as caught:
                    call()
                self.assertIn(words, str(caught.exception))

    @unittest.skipIf(torch is None, "no torch")
    def test_torch(self):
        x = {name: torch.from_numpy(t) for name, t in inputs().items()}
        found = self.f.combine(parts_of(self.f, x, (9, 0, 14)), sink=x["sink"])
        self.assertIsInstance(found.o, torch.Tensor)
        self.same(found, {name: t.numpy() for name, t in x.items()})
        x["q"].requires_grad_()
        with self.assertRaises(aule.ArgumentError) as caught:
            parts_of(self.f, x, (9, 14))
        self.assertIn("unfinished has none", str(caught.exception))
        with torch.no_grad():
            parts = parts_of(self.f, x, (9, 14))
        parts[0]["acc"].requires_grad_()
        with self.assertRaises(aule.ArgumentError) as caught:
            self.f.combine(parts, sink=x["sink"])
        self.assertIn("combine has none", str(caught.exception))
