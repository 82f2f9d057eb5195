"""Attentions of keys in several places: `unfinished` and `combine`, held against the formula in double precision."""

import os
import pickle
import tempfile
import unittest

import numpy as np

import aule
from support import DEVICE, OTHERS

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
            (lambda: self.f.unfinished(x["q"], x["k"], x["v"], axes={"T": None}), TypeError, "axes"),
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


CAUSAL = """
attention shared_out {
    q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E];
    input sink: f32[H];
    score_mod(s) = s * rsqrt(D);
    mask(b, h, i, j) = j <= q_pos && j > q_pos - 19;
    online softmax_sink(sink[h]);
}
"""
OF_A_SEQUENCE = PLAIN.replace("online softmax;", "input gate: f32[B]; out_mod(row, b) = row * gate[b]; online softmax;")


class Layouts(unittest.TestCase):
    """Keys of several caches, padded, in pages and packed, each left unfinished by itself: joined, the attention of all of them."""

    WHOLE, QUERIES, RANKS, SLOTS = [23, 6, 0, 40], [4, 3, 2, 1], 3, 4

    def setUp(self):
        r = np.random.default_rng(7)
        self.q = [r.standard_normal((1, H, n, D)).astype(np.float32) for n in self.QUERIES]
        self.k, self.v = ([r.standard_normal((1, HK, n, w)).astype(np.float32) for n in self.WHOLE] for w in (D, E))
        self.sink = r.standard_normal(H).astype(np.float32)
        f = aule.compile(CAUSAL)
        self.wanted = [f.forward(q, k, v, sink=self.sink) for q, k, v in zip(self.q, self.k, self.v)]

    def shard(self, rank):
        """Keys of a rank, which has every third position: rows of each sequence, and how many there are."""
        own = [[x[0, :, rank :: self.RANKS] for x in side] for side in (self.k, self.v)]
        lengths = np.array([x.shape[1] for x in own[0]], np.int32)
        first = np.minimum(rank, self.WHOLE).astype(np.int32)
        return own, lengths, aule.Positions(first, np.array(self.WHOLE, np.int32), self.RANKS)

    def padded(self, rank):
        own, lengths, positions = self.shard(rank)
        made = []
        for side, width in zip(own, (D, E)):
            made.append(np.full((len(side), HK, 20, width), np.nan, np.float32))
            for b, x in enumerate(side):
                made[-1][b, :, : x.shape[1]] = x
        return *made, aule.padded(lengths, positions=positions)

    def paged(self, rank):
        k, v, axis = self.padded(rank)
        batch, entries = len(k), 20 // self.SLOTS
        table = np.random.default_rng(rank).permutation(batch * entries).reshape(batch, entries).astype(np.int32)
        pools = []
        for x in (k, v):
            pool = np.empty((batch * entries, HK, self.SLOTS, x.shape[3]), np.float32)
            pool[table] = x.reshape(batch, HK, entries, self.SLOTS, -1).transpose(0, 2, 1, 3, 4)
            pools.append(pool)
        _, lengths, positions = self.shard(rank)
        return *pools, aule.paged(table, lengths, positions=positions)

    def queries(self, packed):
        """Rows of all sequences, and of none behind them, whose values no result has; or as many for each, those of the longest."""
        if packed:
            starts = np.cumsum([0, *self.QUERIES]).astype(np.int32)
            return np.concatenate([x[0] for x in self.q] + [np.full((H, 3, D), np.nan, np.float32)], 1)[None], {"S": aule.packed(starts)}
        made = np.full((len(self.q), H, max(self.QUERIES), D), np.nan, np.float32)
        for b, x in enumerate(self.q):
            made[b, :, : x.shape[2]] = x[0]
        return made, {"S": aule.padded(np.array(self.QUERIES, np.int32))}

    def rows_of(self, result, packed, b):
        if not packed:
            return result[b : b + 1, :, : self.QUERIES[b]]
        first = sum(self.QUERIES[:b])
        return result[:, :, first : first + self.QUERIES[b]]

    def test_shards_by_turns(self):
        f = aule.compile(CAUSAL)
        for device in ([None, *OTHERS[:1]] if DEVICE == "cpu" else OTHERS[:1]):
            for keys in (self.padded, self.paged):
                for packed in (True, False):
                    with self.subTest(device=device, keys=keys.__name__, packed=packed):
                        q, axes = self.queries(packed)
                        parts = []
                        for rank in range(self.RANKS):
                            k, v, axis = keys(rank)
                            parts.append(f.unfinished(q, k, v, sink=self.sink, axes={**axes, "T": axis}, device=device))
                        self.assertEqual(parts[0]["acc"].shape, (*q.shape[:3], E))
                        found = f.combine(parts, sink=self.sink, device=device)
                        for b, wanted in enumerate(self.wanted):
                            np.testing.assert_allclose(self.rows_of(found.o, packed, b), wanted.o, rtol=3e-6, atol=3e-6)
                            np.testing.assert_allclose(self.rows_of(found.lse, packed, b), wanted.lse, rtol=3e-6, atol=3e-6)
                        if packed:  # rows of no sequence, in results as in parts
                            self.assertEqual(float(np.abs(found.o[:, :, sum(self.QUERIES) :]).max()), 0.0)
                        # What is compared is not met by chance.
                        short = f.combine(parts[:2], sink=self.sink, device=device)
                        self.assertGreater(np.abs(self.rows_of(short.o, packed, 3) - self.wanted[3].o).max(), 0.01)

    def test_packed_keys(self):
        """A call's keys, and those of a cache."""
        f = aule.compile(PLAIN)
        r = np.random.default_rng(9)
        lengths, own = [5, 0, 9], [3, 2, 4]
        q, k_new, v_new = (np.concatenate([r.standard_normal((H, n, D)).astype(np.float32) for n in own], 1)[None] for _ in range(3))
        k, v = (r.standard_normal((3, H, 9, D)).astype(np.float32) for _ in range(2))
        starts = np.cumsum([0, *own]).astype(np.int32)
        cached = f.unfinished(q, k, v, axes={"S": aule.packed(starts), "T": aule.padded(np.array(lengths, np.int32))})
        beside = f.unfinished(q, k_new, v_new, axes={"S": aule.packed(starts), "T": aule.packed(starts)})
        found = f.combine([cached, beside])
        for b, length in enumerate(lengths):
            rows = slice(starts[b], starts[b + 1])
            keys, values = (np.concatenate([old[b, :, :length], new[0, :, rows]], 1)[None] for old, new in ((k, k_new), (v, v_new)))
            wanted = f.forward(q[:, :, rows], keys, values)
            np.testing.assert_allclose(found.o[:, :, rows], wanted.o, rtol=3e-6, atol=3e-6)
            np.testing.assert_allclose(found.lse[:, :, rows], wanted.lse, rtol=3e-6, atol=3e-6)

    def test_an_artifact_of_all_layouts(self):
        """What `aulec --serve --parts` makes: pages of a cache and packed rows beside them are parts of one attention, and so are padded rows."""
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "plain.so")
            with open(made, "wb") as file:
                file.write(aule._compiler.compiler().run("plain.attn", PLAIN.encode(), targets="cpu", dtypes="f32", optimize=1, serve=1, parts=1, widths=f"D={D}"))
            f = aule.load(made)
            dense = aule.compile(PLAIN)
            r = np.random.default_rng(13)
            lengths, own, slots = np.array([5, 0, 9], np.int32), [3, 2, 4], 4
            q, k_new, v_new = (r.standard_normal((1, H, sum(own), D)).astype(np.float32) for _ in range(3))
            k, v = (r.standard_normal((3, H, 12, D)).astype(np.float32) for _ in range(2))
            table = r.permutation(9).reshape(3, 3).astype(np.int32)
            pools = [np.empty((9, H, slots, D), np.float32) for _ in "kv"]
            for pool, x in zip(pools, (k, v)):
                pool[table] = x.reshape(3, H, 3, slots, D).swapaxes(1, 2)
            starts = np.cumsum([0, *own]).astype(np.int32)
            packed = aule.packed(starts)
            found = f.combine([f.unfinished(q, *pools, axes={"S": packed, "T": aule.paged(table, lengths)}), f.unfinished(q, k_new, v_new, axes={"S": packed, "T": packed})])
            short = f.combine([f.unfinished(q, *pools, axes={"S": packed, "T": aule.paged(table, lengths)})])
            for b, length in enumerate(lengths):
                rows = slice(starts[b], starts[b + 1])
                keys, values = (np.concatenate([old[b, :, :length], new[0, :, rows]], 1)[None] for old, new in ((k, k_new), (v, v_new)))
                wanted = dense.forward(q[:, :, rows], keys, values)
                np.testing.assert_allclose(found.o[:, :, rows], wanted.o, rtol=3e-6, atol=3e-6)
                np.testing.assert_allclose(found.lse[:, :, rows], wanted.lse, rtol=3e-6, atol=3e-6)
                self.assertGreater(np.abs(short.o[:, :, rows] - wanted.o).max(), 0.01)
            one = r.standard_normal((3, H, 1, D)).astype(np.float32)
            whole = f.forward(one, k, v, axes={"T": aule.padded(lengths)})
            joined = f.combine([f.unfinished(one, k[:, :, :4], v[:, :, :4], axes={"T": aule.padded(np.minimum(lengths, 4))}), f.unfinished(one, k[:, :, 4:], v[:, :, 4:], axes={"T": aule.padded(np.maximum(lengths - 4, 0))})])
            np.testing.assert_allclose(joined.o, whole.o, rtol=3e-6, atol=3e-6)

    def test_a_function_of_one_layout(self):
        """Its combine is given no list, and asks for none."""
        k, v, axis = self.paged(0)
        q, _ = self.queries(True)
        starts = np.cumsum([0, *self.QUERIES]).astype(np.int32)
        for layout in ("T=paged", "S=packed,T=paged"):
            with self.subTest(layout):
                f = aule.compile(CAUSAL, layout=layout, checked=layout == "T=paged")
                lists = {"T_table": np.arange(20, dtype=np.int32).reshape(4, 5), "T_lengths": np.array([20, 7, 0, 13], np.int32)}
                rows = q if "S" in layout else np.ascontiguousarray(q[0, :, :4].swapaxes(0, 1)[:, :, None])
                given = {"S_starts": starts, **lists} if "S" in layout else lists
                k, v = (np.nan_to_num(x) for x in (k, v))
                whole = f.forward(rows, k, v, sink=self.sink, **given)
                found = f.combine([f.unfinished(rows, k, v, sink=self.sink, **given)], sink=self.sink)
                last = sum(self.QUERIES) if "S" in layout else None
                np.testing.assert_allclose(found.o[:, :, :last], whole.o[:, :, :last], rtol=3e-6, atol=3e-6)

    def test_codes(self):
        """Caches of codes: scales are of the part's own keys."""
        f, stored = aule.compile(PLAIN), aule.compile(PLAIN, storage="i8")
        r = np.random.default_rng(11)
        q = r.standard_normal((2, H, 3, D)).astype(np.float32)
        codes = {name: r.integers(-127, 128, (2, H, 20, D)).astype(np.int8) for name in "kv"}
        parts, whole = [], {name: [] for name in "kv"}
        for first, end in ((0, 7), (7, 20)):
            scales = {name: r.uniform(0.005, 0.02, (2, H, 1, 1)).astype(np.float32) for name in "kv"}
            own = {name: np.ascontiguousarray(x[:, :, first:end]) for name, x in codes.items()}
            for name in "kv":
                whole[name].append(own[name] * scales[name])
            parts.append(stored.unfinished(q, own["k"], own["v"], k_scale=scales["k"], v_scale=scales["v"]))
        found, wanted = stored.combine(parts), f.forward(q, *(np.concatenate(whole[name], 2).astype(np.float32) for name in "kv"))
        np.testing.assert_allclose(found.o, wanted.o, rtol=1e-5, atol=1e-5)

    def test_what_asks_for_a_sequence_is_refused(self):
        """Rows of packed queries say nothing of it behind the sums."""
        f = aule.compile(OF_A_SEQUENCE)
        q, axes = self.queries(True)
        k, v = (np.zeros((len(self.q), H, 20, D), np.float32) for _ in range(2))
        axes["T"] = aule.padded(np.array([1, 2, 3, 4], np.int32))
        with self.assertRaisesRegex(aule.Error, "what follows the sums asks for which sequence a row is of, which no part says"):
            f.unfinished(q, k, v, gate=np.ones(len(self.q), np.float32), axes=axes)
