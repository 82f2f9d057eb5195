"""Batches that are hard by their lengths, tables and numbers (docs/dev/serving.md), on processors and another device: beside dense calls of each sequence, or a formula in
double precision where those would be wrong, too. What has tests of its own is not here: borders of pages and tiles, fewer keys than rows, heads that share one of keys (test_covering.py, test_layouts.py)."""

from __future__ import annotations

import unittest
from functools import lru_cache

import numpy as np

import aule
from batches import Batch, Compared, results
from support import DEVICE, OTHERS, ROOT

SCRIPTS = ROOT / "attn_scripts"
DEVICES = [None, *OTHERS[:1]] if DEVICE == "cpu" else OTHERS[:1]
SIZES = {"H": 4, "Hk": 2, "D": 16, "E": 16}
LAYOUTS = [("dense", "paged"), ("dense", "padded"), ("packed:most", "paged"), ("packed", "packed"), ("padded", "paged:rows:csr")]


def source(script):
    return SCRIPTS / f"{script}.attn" if " " not in script else script


@lru_cache(maxsize=None)
def compiled(script, layouts=("dense", "dense"), storage=None):
    words = [f"{axis}={layout}" for axis, layout in zip("ST", layouts) if layout != "dense"]
    return aule.compile(source(script), layout=",".join(words) or None, storage=storage, optimize=1)


class Hard(Compared):
    def laid(self, script, layouts, batch, device, *, params=None, storage=None, fill=np.nan, slots=16):
        """What each sequence gets of a call in these layouts."""
        f, order = compiled(script, layouts, storage), list(range(len(batch.pairs)))
        tensors, given, places = batch.call(layouts, order, 0, slots, False, fill)
        taken = {p.name for p in f.parameters}
        got = results(f, tensors, {name: x for name, x in (given | (params or {})).items() if name in taken}, device)
        self.assertFalse([x for x in places[0].left(got[0]) if x.any()])
        return [[places[0].read(x, b) for x in got] for b in order]

    def alone(self, script, batch, params=None):
        """What dense calls of each sequence say; None of those without rows."""
        f = compiled(script)
        return [[x[0] for x in results(f, batch.of(b), batch.params | (params or {}), None)] if batch.pairs[b][0] else None for b in range(len(batch.pairs))]

    def check(self, script, layouts, pairs, *, storage=None, params=None, **more):
        batch = Batch(compiled(script), 0, pairs, SIZES | {"B": len(pairs)}, "f32", storage)
        want = self.alone(script, batch, params)
        for device in DEVICES:
            with self.subTest(script=script, layouts=layouts, device=device):
                got = self.laid(script, layouts, batch, device, storage=storage, params=params, **more)
                for n in range(len(got[0])):
                    self.near(n, got, want, want, list(range(len(pairs))))

    def test_all_empty(self):
        """No keys, no rows, no rows at all."""
        for layouts in LAYOUTS:
            for rows in (0, 3):
                pairs = [(rows if layouts[0] != "dense" else 3, 0)] * 4
                self.check("gqa", layouts, pairs)

    def test_one_long_beside_many_of_one(self):
        for layouts in (LAYOUTS[0], LAYOUTS[2], LAYOUTS[3]):  # padded ones would need room for as many in each
            self.check("gqa", layouts, [(1, 1)] * 250 + [(1, 100_003)] + [(1, 1)] * 250)

    def test_one_and_many_sequences(self):
        for layouts in LAYOUTS:
            for count in (1, 4096):
                self.check("gqa", layouts, [(1, 1 + b % 5) for b in range(count)])

    def test_windows_in_one_page(self):
        for window in (1, 5, 16):
            self.check("sliding_window", ("dense", "paged"), [(3, n) for n in (7, 47, 48, 49, 96, 200)], params={"window": window}, slots=48)

    def test_infinite_numbers_of_nobody(self):
        """In slots, pages, rows and scales that are of no sequence, and in what inputs have there."""
        for fill in (np.inf, -np.inf):
            for layouts in LAYOUTS:
                self.check("gqa", layouts, [(2, n) for n in (70, 0, 1, 15, 16, 17, 33)], fill=fill)
            for storage in ("i8:token", "e4m3:channels8"):
                self.check("gqa", ("dense", "paged"), [(2, n) for n in (70, 0, 1, 15, 16, 17)], fill=fill, storage=storage)
            self.check("gated", ("packed", "paged"), [(2, n) for n in (70, 1, 16)], fill=fill)

    def test_one_page_for_all(self):
        """Every entry of every line is the same page: each sequence has its rows again and again."""
        r = np.random.default_rng(0)
        lengths = np.array([1, 16, 40, 33, 0, 64], np.int32)
        pools = [r.standard_normal((3, 2, 16, 16)).astype(np.float32) for _ in "kv"]
        for pool in pools:
            pool[[0, 2]] = np.nan
        q = r.standard_normal((len(lengths), 4, 2, 16)).astype(np.float32)
        table = np.ones((len(lengths), 4), np.int32)
        for device in DEVICES:
            got = compiled("gqa", ("dense", "paged"))(q, *pools, T_lengths=lengths, T_table=table, device=device)
            for b, n in enumerate(lengths):
                k, v = (np.tile(pool[1:2], (1, 1, 4, 1))[:, :, :n] for pool in pools)
                want = compiled("gqa")(q[b : b + 1], k, v)
                np.testing.assert_allclose(got[b], want[0], rtol=0, atol=2**-20 * max(1, np.abs(want).max()))

    def test_keys_in_one_part(self):
        """Kernels for few rows share out keys in parts: all that a row sees lies in the last one, or the first, or at a border."""
        pairs = [(1, n) for n in (1024, 1025, 1100, 2048, 2049, 3000, 5)]
        for window in (1, 60, 1024):
            for layouts in (("dense", "paged"), ("dense", "padded")):
                self.check("sliding_window", layouts, pairs, params={"window": window})
        text = "attention a { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; input first: i32[B]; input end: i32[B]; score_mod(s) = s * rsqrt(D); mask(b, h, i, j) = j >= first[b] && j < end[b]; online softmax; }"
        for layouts in (("dense", "paged"), ("dense", "padded"), ("dense", "dense")):
            first, end = (np.array(x, np.int32) for x in ((0, 0, 1024, 2050, 1500, 7), (10, 1024, 2048, 2500, 1500, 9)))  # of which the one before the last sees none
            batch = Batch(compiled(text), 2, [(2, 2600)] * 6, SIZES | {"B": 6}, "f32")
            for name, x in (("first", first), ("end", end)):
                batch.own[name] = [x[b : b + 1] for b in range(6)]
            want = self.alone(text, batch)
            for device in DEVICES:
                with self.subTest(layouts=layouts, device=device):
                    got = self.laid(text, layouts, batch, device)
                    for n in range(len(got[0])):
                        self.near(n, got, want, want, list(range(6)))

    def test_parts_without_a_pair(self):
        """Of the parts of 1024 keys every other one has none that the mask admits."""
        text = "attention a { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; input keep: bool[B, T]; score_mod(s) = s * rsqrt(D); mask(b, h, i, j) = keep[b, j]; online softmax; }"
        pairs = [(1, 4096), (1, 3000), (1, 1024), (1, 1025)]
        for layouts in (("dense", "paged"), ("dense", "padded"), ("packed:most", "paged")):
            for odd in (0, 1):
                batch = Batch(compiled(text), 3, pairs, SIZES | {"B": 4}, "f32")
                batch.own["keep"] = [(np.arange(n) // 1024 % 2 == odd)[None] for _, n in pairs]
                want = self.alone(text, batch)
                for device in DEVICES:
                    with self.subTest(layouts=layouts, odd=odd, device=device):
                        got = self.laid(text, layouts, batch, device)
                        for n in range(len(got[0])):
                            self.near(n, got, want, want, list(range(4)))

    def test_scores_far_apart(self):
        """Scores of deviation 9 whose largest lie at the borders of parts and grow from part to part, or fall: beside a formula in double precision."""
        r, pairs = np.random.default_rng(5), [(1, 4100)]
        for direction in (1, -1):
            batch = Batch(compiled("mha"), 4, pairs, SIZES | {"B": 1}, "f32")
            q, k, v = (batch.own[name][0] for name in "qkv")
            scores = 9 * r.standard_normal((4, 4100))
            for border in (1023, 1024, 2047, 2048, 3071, 3072, 4095, 4096):
                scores[:, border] = 30 + direction * border / 100
            q[:] = r.standard_normal(q.shape)
            q64 = q[0].astype(np.float64)
            k[0] = (scores[:, :, None] * 4 * q64 / (q64**2).sum(-1, keepdims=True)).astype(np.float32)  # of width 16: s * rsqrt(16)
            s = np.einsum("hsd,htd->hst", q64, k[0].astype(np.float64)) / 4
            p = np.exp(s - s.max(-1, keepdims=True))
            want = [[np.einsum("hst,htd->hsd", p / p.sum(-1, keepdims=True), v[0].astype(np.float64))]]
            for layouts in (("dense", "paged"), ("dense", "padded"), ("packed:most", "packed:most")):
                for device in DEVICES:
                    with self.subTest(layouts=layouts, device=device, direction=direction):
                        got = self.laid("mha", layouts, batch, device)
                        # a score of 70 has an error of 70 * 2^-22 in float32, so that its weight is off by as much
                        np.testing.assert_allclose(got[0][0], want[0][0], rtol=0, atol=72 * 2**-22 * np.abs(want[0][0]).max())

    def test_pool_beyond_2_to_the_32(self):
        """A pool of more than 2^31 elements and 2^32 bytes, of which a few pages at its ends are in use; the rest of it is never touched."""
        slots, heads, width = 64, 2, 64
        pages = 2**31 // (slots * heads * width) + 5
        try:
            pools = [np.zeros((pages, heads, slots, width), np.float16) for _ in "kv"]
        except MemoryError:
            self.skipTest("no memory to be reserved")
        r, lengths = np.random.default_rng(6), np.array([100, 64, 1], np.int32)
        table = np.array([[pages - 1, 0], [pages - 2, -1], [pages - 3, -1]], np.int32)
        q = r.standard_normal((3, 4, 1, width)).astype(np.float16)
        rows = [r.standard_normal((4, heads, slots, width)).astype(np.float16) for _ in "kv"]
        for pool, own in zip(pools, rows):
            pool[pages - 3 :], pool[0] = own[:3], own[3]
        far = compiled("gqa", ("dense", "paged"))(q, *pools, T_lengths=lengths, T_table=table)
        near = np.array([[2, 3], [1, -1], [0, -1]], np.int32)
        np.testing.assert_array_equal(far, compiled("gqa", ("dense", "paged"))(q, *rows, T_lengths=lengths, T_table=near))


if __name__ == "__main__":
    unittest.main()
