"""Attentions written from the language page alone, beside formulas of their own in NumPy's double precision: outputs, and gradients beside
central differences of the formula along random directions, on the processor; test_fresh_opencl.py has the other devices."""

import unittest

import numpy as np

import aule

SHAPES = "q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E];"


def attention(name, body, before=""):
    return f"{before}\nattention {name} {{ {SHAPES}\n{body}\n}}"


# ---- pieces of the formulas


def heads(x, like):
    return np.repeat(x, like.shape[1] // x.shape[1], axis=1)


def product(q, k):
    return np.einsum("bhsd,bhtd->bhst", q, heads(k, q))


def positions(q, k):
    """Of queries, of keys, as columns and rows: the last query stands at the last key."""
    S, T = q.shape[2], k.shape[2]
    return np.arange(S)[:, None] + T - S, np.arange(T)[None, :]


def weighed(p, v):
    return np.einsum("bhst,bhte->bhse", p, heads(v, p))


def softmax(s, part=True, more=0.0):
    """Rows without a pair are 0; [more]: what is added to the sum, times exp of nothing."""
    s = np.where(part, s, -np.inf)
    top = np.maximum(s.max(-1, keepdims=True), -700.0)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True) + more * np.exp(-top)
    return p / np.where(total > 0, total, 1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


def turned(x, angle):
    """Pairs (j, j + n / 2) of the channels, turned by angle[position, j]."""
    n = x.shape[-1] // 2
    a, b, c, s = x[..., :n], x[..., n:], np.cos(angle), np.sin(angle)
    return np.concatenate([a * c - b * s, a * s + b * c], -1)


# ---- the attentions: script, formula, sizes, inputs

CASES = {}


def case(script, sizes, **inputs):
    def enter(formula):
        CASES[formula.__name__] = (script, dict(zip(("B", "H", "Hk", "S", "T", "D", "E"), sizes)), inputs, formula)
        return formula

    return enter


GRID = attention(
    "grid",
    """input down: f32[H, 16] grad; input across: f32[H, 16] grad; param width: i32;
    score_mod(s, b, h, i, j) = s * rsqrt(D) + down[h, i / width - j / width + 8] + across[h, i % width - j % width + 8];
    online softmax;""",
)


@case(GRID, (2, 2, 2, 35, 35, 16, 16), down=("H", 16), across=("H", 16), width=5)
def grid(q, k, v, down, across, width):
    i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
    bias = down[:, i // width - j // width + 8] + across[:, i % width - j % width + 8]
    return weighed(softmax(product(q, k) * q.shape[3] ** -0.5 + bias), v)


RBF = attention(
    "rbf",
    """input qq: f32[B, H, S] grad; input kk: f32[B, Hk, T] grad; input width: f32[H] grad;
    score_mod(s, b, h, i, j) = (s - 0.5 * (qq[b, h, i] + kk[b, kv_h, j])) / (width[h] * width[h] + 1.0);
    online softmax_one;""",
)


@case(RBF, (1, 4, 2, 23, 41, 8, 24), qq=("B", "H", "S"), kk=("B", "Hk", "T"), width=("H",))
def kernel_regression(q, k, v, qq, kk, width):
    s = product(q, k) - 0.5 * (qq[..., None] + heads(kk, q)[:, :, None, :])
    return weighed(softmax(s / (width * width + 1)[:, None, None], more=1.0), v)


DECAYED = attention(
    "decayed",
    """input rate: f32[H] grad;
    score_mod(s, b, h, i, j) = tanh(s * rsqrt(D)) * exp(-softplus(rate[h]) * f32(q_pos - j));
    mask(b, h, i, j) = j <= q_pos;
    online identity;""",
)


@case(DECAYED, (2, 3, 3, 31, 47, 16, 8), rate=("H",))
def decayed_tanh(q, k, v, rate):
    i, j = positions(q, k)
    p = np.tanh(product(q, k) * q.shape[3] ** -0.5) * np.exp(-softplus(rate)[:, None, None] * np.maximum(i - j, 0))
    return weighed(np.where(j <= i, p, 0), v)


DILATED = attention(
    "dilated",
    """param reach: i32;
    score_mod(s) = s * rsqrt(D);
    mask(b, h, i, j) = j <= q_pos && (j < 2 || (q_pos - j) % 3 == h % 3 && q_pos - j < reach);
    online softmax_one;""",
)


@case(DILATED, (1, 4, 1, 67, 67, 16, 16), reach=30)
def dilated_window(q, k, v, reach):
    i, j = positions(q, k)
    h = np.arange(q.shape[1])[:, None, None]
    part = (j <= i) & ((j < 2) | (((i - j) % 3 == h % 3) & (i - j < reach)))
    return weighed(softmax(product(q, k) * q.shape[3] ** -0.5, part, 1.0), v)


KEPT = attention(
    "kept_keys",
    """input keep: f32[B, T] grad; input gate: [B, H, S, E] grad;
    score_mod(s) = s * rsqrt(D);
    weight_mod(p, b, h, i, j) = p * sigmoid(keep[b, j]);
    out_mod(o, b, h, i, c) = o * silu(gate[b, h, i, c]);
    online softmax;""",
)


@case(KEPT, (2, 2, 1, 19, 53, 16, 40), keep=("B", "T"), gate=("B", "H", "S", "E"))
def kept_and_gated(q, k, v, keep, gate):
    p = softmax(product(q, k) * q.shape[3] ** -0.5) * sigmoid(keep)[:, None, None, :]
    return weighed(p, v) * gate * sigmoid(gate)


LENGTHS = attention(
    "lengths",
    """input length: i32[B]; input sink: f32[H] grad;
    score_mod(s) = 20.0 * tanh(s * rsqrt(D) / 20.0);
    mask(b, h, i, j) = j < length[b];
    online softmax_sink(sink[h]);""",
)


@case(LENGTHS, (3, 2, 2, 9, 75, 32, 16), length=np.array([75, 0, 33], np.int32), sink=("H",))
def lengths_and_sinks(q, k, v, length, sink):
    _, j = positions(q, k)
    s = 20 * np.tanh(product(q, k) * q.shape[3] ** -0.5 / 20)
    return weighed(softmax(s, j < length[:, None, None, None], np.exp(sink)[:, None, None]), v)


NORMS = attention(
    "norms",
    """input sharp: f32[H] grad; input gain: f32[E] grad;
    q_mod(x) = l2norm(x); k_mod(x) = l2norm(x);
    v_mod(x, b, kv_h, j, c) = rmsnorm(x) * gain[c];
    score_mod(s, b, h) = s * softplus(sharp[h]) * log(f32(T));
    mask(b, h, i, j) = j <= q_pos;
    online softmax;""",
)


@case(NORMS, (1, 4, 2, 37, 37, 24, 16), sharp=("H",), gain=("E",))
def norms(q, k, v, sharp, gain):
    i, j = positions(q, k)
    q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    v = v / np.sqrt((v * v).mean(-1, keepdims=True) + 1e-6) * gain
    return weighed(softmax(product(q, k) * softplus(sharp)[:, None, None] * np.log(k.shape[2]), j <= i), v)


POLYNOMIAL = attention(
    "polynomial",
    """input c: f32[H, 5] grad;
    score_mod(s, b, h) {
        let x = s * rsqrt(D);
        let y = c[h, 0];
        for n in 1:5 { y = y * x + c[h, n]; }
        return softplus(y);
    }
    online normalised;""",
)


@case(POLYNOMIAL, (1, 2, 2, 29, 61, 16, 16), c=("H", 5))
def polynomial(q, k, v, c):
    x, y = product(q, k) * q.shape[3] ** -0.5, 0
    for n in range(5):
        y = y * x + c[:, n, None, None]
    p = softplus(y)
    return weighed(p / p.sum(-1, keepdims=True), v)


TURNED = attention(
    "turned",
    """input place: i32[B, T];
    q_mod(x, b, h, i, c) = rope(x, place[b, q_pos], 100.0);
    k_mod(x, b, kv_h, j, c) = rope(x, place[b, j], 100.0);
    score_mod(s) = s * rsqrt(D);
    mask(b, h, i, j) = place[b, j] <= place[b, q_pos];
    online softmax;""",
)


@case(TURNED, (2, 4, 2, 21, 33, 16, 16), place=np.stack([np.arange(33)[::-1], np.arange(33) // 3]).astype(np.int32))
def turned_by_places(q, k, v, place):
    S, n = q.shape[2], q.shape[3] // 2
    angle = place[:, None, :, None] * 100.0 ** (-np.arange(n) / n)
    at = place[:, -S:]
    s = product(turned(q, angle[:, :, -S:]), turned(k, angle)) * q.shape[3] ** -0.5
    return weighed(softmax(s, place[:, None, None, :] <= at[:, None, :, None]), v)


BASE = """online base_two {
    rowscale m = -inf; rowscale r = 0.0; kept m, r;
    online_fwd(s) {
        let top = max(m, rowmax(s)); let scale = exp2(m - top); let p = exp2(s - top);
        r = r * scale + rowsum(p); m = top;
        return p, scale;
    }
    online_fwd_epilogue(o) = o / r;
    forward(score) = exp2(score - m) / r;
}"""
EXTRA = attention(
    "two_products",
    """input u: f32[B, H, S, P] grad; input w: f32[B, 1, T, P] grad; input temperature: f32[] grad;
    score_mod(s, b, h, i, j) = (s * rsqrt(D) + dot(u[b, h, i], w[b, 0, j])) / temperature;
    mask(b, h, i, j) = abs(q_pos - j) < 12;
    online base_two;""",
    BASE,
)


@case(EXTRA, (2, 2, 1, 43, 43, 16, 16), u=("B", "H", "S", 8), w=("B", 1, "T", 8), temperature=np.float32(1.7))
def base_two(q, k, v, u, w, temperature):
    i, j = positions(q, k)
    s = (product(q, k) * q.shape[3] ** -0.5 + np.einsum("bhsp,bhtp->bhst", u, heads(w, u))) / temperature
    return weighed(softmax(s * np.log(2), abs(i - j) < 12), v)


PACKED = attention(
    "packed",
    """input sentence: i32[B, T]; input slope: f32[H] grad;
    score_mod(s, b, h, i, j) = s * rsqrt(D) - softplus(slope[h]) * log1p(f32(abs(q_pos - j)));
    mask(b, h, i, j) = sentence[b, q_pos] == sentence[b, j] && sentence[b, j] >= 0;
    online softmax;""",
)


@case(PACKED, (2, 2, 2, 59, 59, 16, 16), sentence=np.stack([np.arange(59) // 13 - 1, np.arange(59) * 7 % 4]).astype(np.int32), slope=("H",))
def packed_sentences(q, k, v, sentence, slope):
    i, j = positions(q, k)
    s = product(q, k) * q.shape[3] ** -0.5 - softplus(slope)[:, None, None] * np.log1p(abs(i - j))
    same = (sentence[:, :, None] == sentence[:, None, :]) & (sentence >= 0)[:, None, :]
    return weighed(softmax(s, same[:, None]), v)


ODD = attention(
    "odd_powers",
    """input shift: f32[E] grad; input p0: f32[B, H, S] grad;
    score_mod(s, b, h, i, j) = where(s > 0.0, pow(1.0 + s * rsqrt(D), 1.5) - 1.0, 0.1 * s) * sigmoid(p0[b, h, i]);
    mask(b, h, i, j) = j <= q_pos && i % 4 != 1;
    out_mod(o, b, h, i, c) = o + shift[c];
    online retention_true;""",
)


@case(ODD, (1, 2, 1, 50, 30, 16, 16), shift=("E",), p0=("B", "H", "S"))
def odd_powers(q, k, v, shift, p0):
    i, j = positions(q, k)
    s = product(q, k)
    rows = np.arange(q.shape[2])[:, None]
    part = (j <= i) & (rows % 4 != 1)
    f = np.where(s > 0, (1 + np.maximum(s, 0) * q.shape[3] ** -0.5) ** 1.5 - 1, 0.1 * s) * sigmoid(p0)[..., None]
    p = np.where(part, f, 0)
    p = p / np.maximum(abs(p).sum(-1, keepdims=True), 1)
    return np.where(part.any(-1)[:, None], weighed(p, v) + shift, 0)


# ---- the comparison


def tensors(sizes, inputs, r):
    """q, k, v and inputs in f32; params and integers as they are given."""
    shapes = {"q": ("B", "H", "S", "D"), "k": ("B", "Hk", "T", "D"), "v": ("B", "Hk", "T", "E")}
    shapes |= {name: given for name, given in inputs.items() if isinstance(given, tuple)}
    made = {name: r.standard_normal([sizes.get(n, n) for n in shape]).astype(np.float32) for name, shape in shapes.items()}
    return made | {name: given for name, given in inputs.items() if name not in shapes}


def doubled(x):
    return {n: np.asarray(t, np.float64) if np.asarray(t).dtype == np.float32 else t for n, t in x.items()}


class Comparison(unittest.TestCase):
    def run_case(self, name, device):
        script, sizes, inputs, formula = CASES[name]
        r = np.random.default_rng(len(name))
        x, f = tensors(sizes, inputs, r), aule.compile(script)
        exact = doubled(x)
        want = formula(**exact)
        results = f.forward(**x, device=device)
        np.testing.assert_allclose(results.o, want, rtol=0, atol=4e-6 * (1 + abs(want).max()), err_msg=name)
        do = r.standard_normal(want.shape).astype(np.float32)
        gradients = f.backward(results, do)
        self.assertEqual(set(gradients), {"d" + n for n, t in exact.items() if np.asarray(t).dtype == np.float64})
        for n, gradient in gradients.items():
            for _ in range(3):
                self.expect_slope(name, n[1:], gradient.astype(np.float64), exact, formula, do, r)

    def expect_slope(self, name, of, gradient, x, formula, do, r):
        """Along a direction in which each element moves by 1 or not at all."""
        direction = r.choice([-1.0, 0.0, 1.0], size=np.shape(x[of])) if np.ndim(x[of]) else 1.0
        step = 1e-6
        ends = [float((formula(**(x | {of: x[of] + side * step * direction})) * do).sum()) for side in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * step)
        size = np.sqrt((gradient * gradient).sum()) + abs(gradient).max()
        self.assertLess(abs((gradient * direction).sum() - slope), 2e-5 * size + 1e-5, f"{name}: d{of}")
        self.assertGreater(size, 1e-3, f"{name}: d{of} is nothing, and so is this test")


class Fresh(Comparison):
    def test_cpu(self):
        for name in CASES:
            with self.subTest(name):
                self.run_case(name, "cpu")

    def test_wrong_gradients_are_seen(self):
        script, sizes, inputs, formula = CASES["grid"]
        r = np.random.default_rng(1)
        x, f = tensors(sizes, inputs, r), aule.compile(script)
        results = f.forward(**x)
        do = r.standard_normal(results.o.shape).astype(np.float32)
        gradient = f.backward(results, do)["dk"].astype(np.float64)
        gradient[0, 1, 3] *= 1.01
        with self.assertRaises(AssertionError):
            for _ in range(8):
                self.expect_slope("planted", "k", gradient, doubled(x), formula, do, r)


if __name__ == "__main__":
    unittest.main()
