"""New keys and values into caches (docs/dev/operations.md, append): each byte is what a few lines of NumPy put there, and what the attention of
such a cache is, is that of one filled by hand. Slots that nobody has hold NaN."""

from __future__ import annotations

import re
import unittest

import numpy as np

import aule
from aule._devices import Device
from support import FULL, OTHERS, ROOT
from test_storage import NAN, meaning, numbers

try:
    import torch
except ImportError:
    torch = None

SCRIPTS = ROOT / "attn_scripts"
GQA = SCRIPTS / "gqa.attn"
WIDE = "attention wide { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; score_mod(s) = s * rsqrt(D); mask(b, h, i, j) = j <= q_pos; online softmax; }"
LATENT = "attention latent { q: [B, H, S, D]; k: [B, Hk, T, D]; v = k[.., 0:16]; score_mod(s) = s * rsqrt(D); online softmax; }"
LARGEST = {"e4m3": 448, "e5m2": 57344, "i8": 127}


def encode(x, kind):
    """The nearest code of each f32, of two the even one, of what is larger than all numbers the largest; NaN is a NaN, of i8 0."""
    table = numbers(kind)
    top = LARGEST[kind]
    low = -128 if kind == "i8" else -top
    codes = np.flatnonzero((table >= low) & (table <= top))  # NaN and infinities are none
    order = codes[np.lexsort((codes & 1, table[codes]))]
    order = order[np.unique(table[order], return_index=True)[1]]
    clipped = np.clip(np.nan_to_num(x.astype(np.float64), nan=0, posinf=top, neginf=low), low, top)
    high = np.clip(np.searchsorted(table[order], clipped), 1, len(order) - 1)
    below, above = clipped - table[order[high - 1]], table[order[high]] - clipped
    up = (above < below) | ((above == below) & (order[high] & 1 == 0))
    out = np.where(up, order[high], order[high - 1]).astype(np.uint8)
    if kind != "i8":
        out = np.where(table[out] == 0, np.where(np.signbit(x), 0x80, 0), out).astype(np.uint8)
    out = np.where(np.isnan(x), 0 if kind == "i8" else 0x7F, out).astype(np.uint8)
    return out.view(np.int8) if kind == "i8" else out


class Cache:
    """Keys and values of some sequences in a layout, new rows for them, and where those go."""

    def __init__(self, layout, lengths, rows, *, slots=16, D=32, E=24, Hk=2, seed=0, dtype=np.float32, odd=False, kinds=(None, None), token=(0, 0), room=64):
        self.r = r = np.random.default_rng(seed)
        self.layout, self.lengths, self.rows, self.slots = layout or "", np.array(lengths, np.int32), rows, slots
        self.packed, self.paged = "S=packed" in self.layout, "paged" in self.layout
        self.kinds, self.token = kinds, token
        self.B, self.Hk, self.widths = len(lengths), Hk, (D, E)
        counts = rows if self.packed else [rows] * self.B
        self.starts = np.cumsum([0, *counts]).astype(np.int32)
        M, N = (1, int(self.starts[-1])) if self.packed else (self.B, rows)
        self.new = [self.tensor((M, Hk, N, width), dtype, odd) for width in self.widths]
        for x in self.new:
            x[:] = r.standard_normal(x.shape)
        self.entries = -(-room // slots)
        P = self.B * self.entries + 3 if self.paged else self.B
        self.rows_of = slots if self.paged else room
        self.table = r.permutation(P)[: self.B * self.entries].reshape(self.B, -1).astype(np.int32)
        self.caches = [self.cache((P, Hk, self.rows_of, width), kind, dtype, odd) for width, kind in zip(self.widths, kinds)]
        shapes = [(P, Hk, self.rows_of, 1) if by else (1, Hk, 1, 1) for by in token]
        self.scales = [np.full(s, np.nan, np.float32) if by else (0.01 + 0.01 * r.random(s)).astype(np.float32) for s, by in zip(shapes, token)]

    def tensor(self, shape, dtype, odd):
        """With heads inside of rows, and gaps."""
        if not odd:
            return np.zeros(shape, dtype)
        return np.zeros((shape[0], shape[2] + 1, shape[1] + 2, 2 * shape[3] + 1), dtype)[:, 1:, 1:-1, :-1:2].swapaxes(1, 2)

    def cache(self, shape, kind, dtype, odd):
        x = self.tensor(shape, {None: dtype, "i8": np.int8}.get(kind, np.uint8), odd)
        x[:] = np.array(NAN[kind], np.uint8).view(x.dtype) if kind else np.nan
        return x

    def place(self, b, n):
        """Page or sequence, and the row of it, of row n of the new ones of a sequence; None: it goes nowhere."""
        count = self.rows[b] if self.packed else self.rows
        at = int(self.lengths[b] if self.layout and "T=dense" not in self.layout else self.rows_of) - count + n
        if at < 0:
            return None
        return (int(self.table[b, at // self.slots]), at % self.slots) if self.paged else (b, at)

    def each(self):
        """(batch and row of the new ones, sequence, number in it)"""
        for b in range(self.B):
            for n in range(self.rows[b] if self.packed else self.rows):
                yield ((0, self.starts[b] + n) if self.packed else (b, n)), b, n

    def by_hand(self, new=None):
        """The caches, and the scales, as they must become."""
        caches, scales = [x.copy() for x in self.caches], [x.copy() for x in self.scales]
        for (m, row), b, n in self.each():
            place = self.place(b, n)
            for side, x in enumerate(self.new if new is None else new):
                if place is not None and side < len(caches):
                    self.put(caches[side], scales[side], side, place, x[m, :, row])
        return caches, scales

    def put(self, cache, scale, side, place, x):
        kind = self.kinds[side]
        if not kind:
            cache[place[0], :, place[1]] = x
            return
        f = x.astype(np.float32)
        if self.token[side]:
            top = np.abs(f).max(-1, keepdims=True)
            one = np.where(top < np.float32(2**-100), np.float32(1), top / np.float32(LARGEST[kind]))
            scale[place[0], :, place[1]] = one
        else:
            one = scale[0, :, 0]
        with np.errstate(invalid="ignore"):
            cache[place[0], :, place[1]] = encode(f / one, kind)

    def named(self, forward=False, slots=None):
        named = {}
        if slots is None or forward:
            if "padded" in self.layout or self.paged:
                named["T_lengths"] = self.lengths
            if self.paged:
                named["T_table"] = self.table
            if self.packed:
                named["S_starts"] = self.starts
        for name, kind, scale in zip("kv", self.kinds, self.scales):
            if kind:
                named[f"{name}_scale"] = scale
        return named

    def numbers_of_slots(self):
        """For each new row the slot of the place that it would have without slots; -1: none."""
        out = np.full((self.new[0].shape[0], self.new[0].shape[2]), -1, np.int64)
        for (m, row), b, n in self.each():
            place = self.place(b, n)
            if place is not None:
                out[m, row] = place[0] * self.rows_of + place[1]
        return out


def same(found, wanted):
    """Bits, but for those of NaN."""
    for x, y in zip(found, wanted):
        np.testing.assert_array_equal(x, y)


class Append(unittest.TestCase):
    def check(self, f, cache, *, device=None, heads=4, params=None):
        """By ends of sequences, then by slots; and the attention of both and of what is filled by hand."""
        more, params = ({"device": device} if device else {}), params or {}
        wanted, scales = cache.by_hand()
        before = [x.copy() for x in (*cache.caches, *cache.scales)]
        q = cache.r.standard_normal((1 if cache.packed else cache.B, heads, cache.new[0].shape[2] if cache.packed else 3, cache.widths[0])).astype(cache.new[0].dtype)
        outputs = []
        for slots in (None, cache.numbers_of_slots()):
            for x, old in zip((*cache.caches, *cache.scales), before):
                x[:] = old
            f.append(*cache.new, *cache.caches, slots=slots, **cache.named(slots=slots), **params, **more)
            same(cache.caches, wanted)
            same(cache.scales, scales)
            outputs.append(f(q, *cache.caches, **cache.named(True), **params, **more))
        by_hand = cache.named(True) | {f"{n}_scale": s for n, kind, s in zip("kv", cache.kinds, scales) if kind}
        outputs.append(f(q, *wanted, **by_hand, **params, **more))
        self.assertEqual({np.asarray(o).tobytes() for o in outputs}, {np.asarray(outputs[0]).tobytes()})
        return outputs[0]

    def test_layouts(self):
        for layout in (None, "T=padded", "T=paged", "S=packed,T=paged", "S=packed,T=padded"):
            f = aule.compile(WIDE, layout=layout, optimize=1)
            for odd in (False, True):
                for rows, lengths in ((1, [64, 1, 5, 17, 33]), (5, [64, 5, 16, 47, 2]), (0, [3, 4])):
                    with self.subTest(layout=layout, odd=odd, rows=rows):
                        counts = [rows, 0, 2 * rows, rows, 1][: len(lengths)] if layout and "packed" in layout else rows
                        self.check(f, Cache(layout, lengths, counts, odd=odd, D=40, E=72))

    def test_pages(self):
        f = aule.compile(GQA, layout="T=paged", optimize=1)
        for slots in (1, 16, 48, 107):
            with self.subTest(slots=slots):
                self.check(f, Cache("T=paged", [200, 31, 107, 108, 16], 30, slots=slots, room=214, E=32))

    def test_half(self):
        f = aule.compile(GQA, layout="T=paged", optimize=1)
        self.check(f, Cache("T=paged", [30, 1, 16], 4, dtype=np.float16, E=32))

    def test_devices(self):
        if not OTHERS:
            self.skipTest("no device beside the processor")
        for layout, kinds, token in ((None, (None, None), (0, 0)), ("T=padded", (None, None), (0, 0)), ("T=paged", (None, None), (0, 0)), ("S=packed,T=paged", (None, None), (0, 0)),
                                     ("T=paged", ("i8", "i8"), (0, 0))):
            f = aule.compile(WIDE, layout=layout, storage="i8" if kinds[0] else None, optimize=1)
            for device in OTHERS if FULL else OTHERS[:1]:
                with self.subTest(layout=layout, device=device, kinds=kinds):
                    rows = [5, 0, 7, 1] if layout and "packed" in layout else 5
                    cache = Cache(layout, [64, 3, 16, 47], rows, D=40, E=72, odd=True, kinds=kinds)
                    if kinds[0]:  # powers of two, by which all devices divide alike
                        cache.scales = [np.full((1, 2, 1, 1), 0.03125, np.float32)] * 2
                    self.check(f, cache, device=device)

    def test_devices_scales_of_tokens(self):
        """Devices may divide otherwise, so the row that is read is compared: half a step of the largest code, and what a quotient is off."""
        if not OTHERS:
            self.skipTest("no device beside the processor")
        f = aule.compile(WIDE, layout="T=paged", storage="k=i8:token,v=e4m3:token", optimize=1)
        cache = Cache("T=paged", [64, 3, 16, 47], 5, D=40, E=72, kinds=("i8", "e4m3"), token=(1, 1))
        cache.new[0][1, :, 4] = 0
        f.append(*cache.new, *cache.caches, **cache.named(), device=OTHERS[0])
        _, scales = cache.by_hand()
        for side, (codes, scale, step) in enumerate(zip(cache.caches, cache.scales, (0.5, 16))):
            np.testing.assert_allclose(scale, scales[side], rtol=1e-6)
            for (m, row), b, n in cache.each():
                place = cache.place(b, n)
                if place is not None:
                    found = meaning(codes[place[0], :, place[1]], cache.kinds[side]) * scale[place[0], :, place[1]]
                    self.assertLessEqual((np.abs(found - cache.new[side][m, :, row]) / scale[place[0], :, place[1]]).max(), step * 1.001)

    def test_slots(self):
        """Any row anywhere, of one batch; what is no slot is refused where memory is the host's, and else passed by."""
        f = aule.compile(WIDE, layout="T=paged", optimize=1)
        cache = Cache("T=paged", [64, 3], 6)
        new = [x.reshape(1, 2, -1, x.shape[-1]) for x in (np.ascontiguousarray(x) for x in cache.new)]  # [1, Hk, 12, ..]
        slots = np.array([[5, -1, 0, 63, 17, -1, 80, 81, 82, 83, 16, 100]], np.int64)
        wanted, _ = cache.by_hand(new=[])
        for n, slot in enumerate(slots[0]):
            for side in (0, 1):
                if slot >= 0:
                    wanted[side][slot // 16, :, slot % 16] = new[side][0, :, n]
        f.append(*new, *cache.caches, slots=slots)
        same(cache.caches, wanted)
        room = cache.caches[0].shape[0] * 16
        for wrong in (room, -2, 2**32 + 3, -(2**63), 2**63 - 1):
            slots[0, 3] = wrong
            with self.assertRaisesRegex(aule.ArgumentError, re.escape(f"slots[0, 3] is {wrong}, there are {room} slots (-1: none)")):
                f.append(*new, *cache.caches, slots=slots)
        same(cache.caches, wanted)
        if OTHERS:
            slots[0] = [room, -2, 2**32 + 3, -(2**63), 2**63 - 1, 2**31, -(2**31), 2**62, -1, room + 1, 2**40, 7]
            for side in (0, 1):
                wanted[side][0, :, 7] = new[side][0, :, 11]
            f.append(*new, *cache.caches, slots=slots, device=OTHERS[0])
            same(cache.caches, wanted)
        slots[0] = [3, 4, 5, 6, 7, -1, -1, 5, 8, 9, 10, 11]
        with self.assertRaisesRegex(aule.ArgumentError, re.escape("slots[0, 2] and slots[0, 7] are both 5: one slot for two rows")):
            f.append(*new, *cache.caches, slots=slots)

    def test_further_products(self):
        """Rows of keys that a further product reads lie in pages of their own, are appended with the others, and in one plan with forward."""
        f, dense = (aule.compile(SCRIPTS / "mla_prefill.attn", layout=layout, optimize=1) for layout in ("T=paged", None))
        r, cache = np.random.default_rng(4), Cache("T=paged", [5, 0, 18, 33], 2, D=16, E=16, Hk=3, slots=7)
        pool, new = np.full((len(cache.caches[0]), 1, 7, 8), np.nan, np.float32), r.standard_normal((4, 1, 2, 8)).astype(np.float32)
        for b, length in enumerate(cache.lengths):
            for j in range(length):
                for x in (*cache.caches, pool):
                    page = cache.table[b, j // 7]
                    x[page, :, j % 7] = r.standard_normal(x[page, :, j % 7].shape)
        wanted = [x.copy() for x in (*cache.caches, pool)]
        for (m, row), b, n in cache.each():
            place = cache.place(b, n)
            for x, y in zip(wanted, (*cache.new, new)):
                if place is not None:
                    x[place[0], :, place[1]] = y[m, :, row]
        q, q_pe = (r.standard_normal((4, 3, 2, width)).astype(np.float32) for width in (16, 8))
        named = {"T_table": cache.table, "T_lengths": cache.lengths}
        before = [x.copy() for x in (*cache.caches, pool)]
        rows = {"k_new": cache.new[0], "v_new": cache.new[1], "k_pe_new": new}
        o = f(q, *cache.caches, q_pe=q_pe, k_pe=pool, **rows, **named)
        same([*cache.caches, pool], wanted)
        f.append(*rows.values(), *before[:2], k_pe=before[2], **named)
        same(before, wanted)
        np.testing.assert_array_equal(o, f(q, *before[:2], q_pe=q_pe, k_pe=before[2], **named))
        for b, length in enumerate(cache.lengths):
            at = [(cache.table[b, j // 7], j % 7) for j in range(length)]
            k, v, k_pe = (np.stack([x[page, :, slot] for page, slot in at], 1)[None] if at else None for x in wanted)
            want = np.zeros_like(o[b]) if k is None else dense(q[b : b + 1], k, v, q_pe=q_pe[b : b + 1], k_pe=k_pe)[0]
            np.testing.assert_allclose(o[b], want, rtol=2e-5, atol=8e-6, err_msg=f"{length} keys")
        pages = np.arange(8).reshape(4, 2)
        slots = pages * 7 + 3
        f.append(*rows.values(), *before[:2], k_pe=before[2], slots=slots)
        for x, y in zip(before, rows.values()):
            np.testing.assert_array_equal(x[pages, :, 3], y.swapaxes(1, 2))
        with self.assertRaisesRegex(TypeError, "needs k_pe_new"):
            f(q, *before[:2], q_pe=q_pe, k_pe=before[2], k_new=cache.new[0], v_new=cache.new[1], **named)
        with self.assertRaisesRegex(aule.ArgumentError, "T_slots"):
            f(q, *before[:2], q_pe=q_pe, k_pe=before[2][:, :, :6], **named)

    def test_its_kernels_are_no_others(self):
        """Of what a script has beside, the kernels are in another artifact, and not made again."""
        f = aule.compile(WIDE, layout="T=paged", optimize=1)
        for more, wanted in (("append", {"append"}), ("parts", {"unfinished", "combine"})):
            made = aule.compile(WIDE, optimize=1) if more == "parts" else f
            loaded = made._built(Device.get("cpu"), "f32", (16, 16), False, more)
            self.assertEqual({v.operation.decode() for v in loaded._variants()}, wanted)

    def test_wrong_lists(self):
        """On a processor they are refused as calls of the attention refuse them; kernels of devices write no row that has no place."""
        f = aule.compile(WIDE, layout="T=paged", optimize=1)
        cache = Cache("T=paged", [64, 40], 4)
        for name, at, wrong, message in (("T_lengths", 1, 65, "T_lengths[1] is 65, the table reaches to 64"), ("T_lengths", 0, -1, "T_lengths[0] is -1"),
                                         ("T_table", (1, 2), 11, "T_table[1, 2] is 11, there are 11 pages"), ("T_table", (0, 3), -5, "T_table[0, 3] is -5")):
            named = cache.named()
            named[name] = named[name].copy()
            named[name][at] = wrong
            before = [x.copy() for x in cache.caches]
            with self.subTest(name=name, wrong=wrong):
                with self.assertRaisesRegex(aule.ArgumentError, re.escape(message)):
                    f.append(*cache.new, *cache.caches, **named)
                same(cache.caches, before)
        if not OTHERS:
            return
        wanted, _ = cache.by_hand(new=[])
        for side in (0, 1):  # the first two of sequence 1; nothing of sequence 0
            for n in (0, 1):
                wanted[side][cache.table[1, 3], :, 14 + n] = cache.new[side][1, :, n]
        named = cache.named() | {"T_lengths": np.array([-(2**31), 66], np.int32)}
        f.append(*cache.new, *cache.caches, **named, device=OTHERS[0])
        same(cache.caches, wanted)
        for page in (11, -1, 2**31 - 1, -(2**31)):
            table = cache.table.copy()
            table[:, 3] = page
            f.append(*cache.new, *cache.caches, T_lengths=np.array([64, 64], np.int32), T_table=table, device=OTHERS[0])
        same(cache.caches, wanted)

    def test_rows(self):
        """Sequences that have other rows of the table, or of the cache, than their numbers."""
        lines = np.array([3, 0, 4], np.int32)
        for layout in ("T=paged", "T=padded", "T=dense"):
            plain = aule.compile(WIDE, layout=None if layout == "T=dense" else layout, optimize=1)
            f = aule.compile(WIDE, layout=f"{layout}:rows", optimize=1)
            with self.subTest(layout=layout):
                cache = Cache("" if layout == "T=dense" else layout, [64, 1, 5, 17, 33], 5)
                wanted, _ = cache.by_hand()
                given = [x[lines] for x in cache.new]
                named = cache.named()
                few = {name: x[lines] for name, x in named.items() if name == "T_lengths"}
                f.append(*given, *cache.caches, **named | few, T_rows=lines)
                for b in (1, 2):  # those that no sequence of the call has are as they were
                    for n in range(5):
                        place = cache.place(b, n)
                        for x in wanted:
                            if place:
                                x[place[0], :, place[1]] = np.nan
                same(cache.caches, wanted)
                q = cache.r.standard_normal((5, 4, 5, 32)).astype(np.float32)
                got = f(q[lines], *cache.caches, **named | few, T_rows=lines)
                np.testing.assert_array_equal(got, plain(q, *cache.caches, **named)[lines])
                with self.assertRaisesRegex(aule.ArgumentError, r"T_rows\[1\] is 5, .* has 5 rows"):
                    f.append(*given, *cache.caches, **named | few, T_rows=np.array([3, 5, 4], np.int32))
                with self.assertRaisesRegex(TypeError, "needs T_rows, or slots" if layout == "T=dense" else "needs .*T_rows"):
                    f.append(*given, *cache.caches, **named | few)

    def test_storage(self):
        for storage, kinds, token in (("e4m3", ("e4m3", "e4m3"), (0, 0)), ("k=e5m2,v=i8:token", ("e5m2", "i8"), (0, 1)), ("k=i8:token,v=e4m3:token", ("i8", "e4m3"), (1, 1)),
                                      ("v=e5m2:token", (None, "e5m2"), (0, 1))):
            for layout in (None, "T=padded", "T=paged") if storage[0] == "k" else ("T=paged",):
                f = aule.compile(WIDE, layout=layout, storage=storage, optimize=1)
                with self.subTest(storage=storage, layout=layout):
                    cache = Cache(layout, [64, 2, 16, 33], 5, kinds=kinds, token=token, odd=True)
                    cache.new[0][0, 1, 3] = 0
                    cache.new[1][2, 0, 0] = 0
                    self.check(f, cache)

    def test_shapes_of_scales(self):
        """One for all, one a head, one a sequence and head; by slots the sequences are those of the new rows."""
        f = aule.compile(WIDE, layout="T=paged", storage="i8", optimize=1)
        for shape in ((1, 1, 1, 1), (1, 2, 1, 1), (2, 1, 1, 1), (2, 2, 1, 1)):
            for slots in (False, True):
                with self.subTest(shape=shape, slots=slots):
                    cache = Cache("T=paged", [64, 20], 3, kinds=("i8", "i8"))
                    scale = (0.01 + 0.02 * cache.r.random(shape)).astype(np.float32)
                    named = cache.named() | {"k_scale": scale, "v_scale": scale}
                    f.append(*cache.new, *cache.caches, slots=cache.numbers_of_slots() if slots else None, **named)
                    full = np.broadcast_to(scale, (2, 2, 1, 1))
                    for (m, row), b, n in cache.each():
                        page, at = cache.place(b, n)
                        np.testing.assert_array_equal(cache.caches[0][page, :, at], encode(cache.new[0][m, :, row] / full[b, :, 0], "i8"))
        cache = Cache("T=paged", [64, 20], 3, kinds=("i8", "i8"))
        new = [np.ascontiguousarray(x).reshape(1, 2, 6, -1) for x in cache.new]
        wrong = np.ones((2, 2, 1, 1), np.float32)
        with self.assertRaisesRegex(aule.ArgumentError, "k_scale: axis 0 has 2 elements, expected 1 as in k_new, or 1"):
            f.append(*new, *cache.caches, slots=np.full((1, 6), -1, np.int64), k_scale=wrong, v_scale=wrong)
        f = aule.compile(WIDE, layout="T=paged", storage="i8:token", optimize=1)
        for shape in ((11, 2, 1, 1), (11, 1, 16, 1)):
            scale = np.ones(shape, np.float32)
            with self.assertRaisesRegex(aule.ArgumentError, r"k_scale: axis . \(.*\) has 1 elements"):
                f.append(*cache.new, *cache.caches, T_lengths=cache.lengths, T_table=cache.table, k_scale=scale, v_scale=scale)

    def test_what_is_no_number(self):
        """NaN and infinities go into a cache of operands as they are; codes saturate, NaN is the NaN that a type has and 0 in i8; with a scale a token
        the whole row is read as NaN, so that nothing that was wrong looks right."""
        for kind in (None, "e4m3", "e5m2", "i8"):
            for by_token in (False, True) if kind else (False,):
                f = aule.compile(WIDE, layout="T=padded", storage=(kind + (":token" if by_token else "")) if kind else None, optimize=1)
                cache = Cache("T=padded", [4], 4, kinds=(kind, kind), token=(by_token, by_token))
                cache.new[0][0, 0, 0, 3], cache.new[0][0, 0, 1, 5], cache.new[0][0, 1, 2, 7] = np.nan, np.inf, -np.inf
                f.append(*cache.new, *cache.caches, **cache.named())
                with self.subTest(kind=kind, by_token=by_token):
                    wanted, scales = cache.by_hand()
                    same(cache.caches, wanted)
                    if not kind:
                        continue
                    same(cache.scales, scales)
                    with np.errstate(invalid="ignore"):
                        read = meaning(cache.caches[0], kind) * cache.scales[0]
                    if by_token:
                        self.assertTrue(np.isnan(read[0, 0, 0]).all() and np.isnan(read[0, 0, 1]).all() and np.isnan(read[0, 1, 2]).all())
                    else:
                        largest = LARGEST[kind] * float(cache.scales[0][0, 0, 0, 0])
                        self.assertEqual(read[0, 0, 1, 5], largest)
                        self.assertTrue(read[0, 0, 0, 3] == 0 if kind == "i8" else np.isnan(read[0, 0, 0, 3]))
                    self.assertTrue(np.isfinite(read[0, 1, 0]).all())

    def test_values_in_keys(self):
        for storage, kinds, token in ((None, (None,), (0,)), ("i8:token", ("i8",), (1,))):
            f = aule.compile(LATENT, layout="T=paged", storage=storage, optimize=1)
            cache = Cache("T=paged", [64, 3, 16], 5, Hk=1, D=40, kinds=kinds + (None,), token=token + (0,))
            del cache.new[1], cache.caches[1], cache.scales[1]
            with self.subTest(storage=storage):
                self.check(f, cache)
                with self.assertRaisesRegex(TypeError, "takes k_new, k by position, and was given 4"):
                    f.append(*cache.new, *cache.new, *cache.caches, *cache.caches, **cache.named())

    def test_one_tensor(self):
        """Keys and values of a page side by side."""
        f = aule.compile(GQA, layout="T=paged", optimize=1)
        cache = Cache("T=paged", [64, 3, 16], 5, D=32, E=32)
        both = np.full((len(cache.caches[0]), 2, 16, 2, 32), np.nan, np.float32)  # [page, k or v, slot, head, channel]
        cache.caches = [both[:, n].swapaxes(1, 2) for n in (0, 1)]
        self.check(f, cache)
        with self.assertRaisesRegex(aule.ArgumentError, "k: it is written and overlaps v"):
            f.append(*cache.new, cache.caches[0], cache.caches[0], **cache.named())
        prepared = dict(f._append_runner._prepared)
        for layer in range(3):  # others that lie so are prepared once; the check of what overlaps is not lost
            other = both.copy()
            f.append(*cache.new, *[other[:, n].swapaxes(1, 2) for n in (0, 1)], **cache.named())
            np.testing.assert_array_equal(other, both)
        self.assertEqual(f._append_runner._prepared, prepared)  # the same objects
        with self.assertRaisesRegex(aule.ArgumentError, "k: it is written and overlaps v"):
            f.append(*cache.new, other[:, 0].swapaxes(1, 2), other[:, 0].swapaxes(1, 2), **cache.named())
        new = [np.lib.stride_tricks.as_strided(other[:3, 0], cache.new[0].shape, other[:, 0].swapaxes(1, 2).strides), cache.new[1]]
        with self.assertRaisesRegex(aule.ArgumentError, "overlaps"):
            f.append(*new, *[other[:, n].swapaxes(1, 2) for n in (0, 1)], **cache.named())

    def test_one_tensor_on_a_device(self):
        """Host tensors that lie between each other's rows are one copy: what one brings back is not what the other had before; and overlaps are seen."""
        if not OTHERS:
            self.skipTest("no device beside the processor")
        f = aule.compile(GQA, layout="T=paged", optimize=1)
        for first in (0, 1):  # the rows before of one or of the other come back last
            cache = Cache("T=paged", [64, 3, 16], 5, D=32, E=32)
            both = np.full((len(cache.caches[0]), 16, 2, 2, 32), np.nan, np.float32)  # [page, slot, head, k or v, channel]
            cache.caches = [both[..., n, :].swapaxes(1, 2) for n in (first, 1 - first)]
            self.check(f, cache, device=OTHERS[0])
        for args, message in (
            ((*cache.new, cache.caches[0], cache.caches[0]), "k: it is written and overlaps v"),
            ((cache.caches[0][:3, :, :5], cache.new[1], *cache.caches), "k: it is written and overlaps k_new"),
        ):
            with self.assertRaisesRegex(aule.ArgumentError, message):
                f.append(*args, **cache.named(), device=OTHERS[0])

    def test_decoding(self):
        """A prompt, then token after token: what a dense call of all of them gives, row by row."""
        f = aule.compile(WIDE, layout="T=paged", optimize=1)
        r = np.random.default_rng(3)
        lengths, more = [20, 3], 6
        k, v, q = (r.standard_normal((2, heads, 26, width)).astype(np.float32) for heads, width in ((2, 32), (2, 24), (4, 32)))
        dense = aule.compile(WIDE, optimize=1)
        caches = [np.full((9, 2, 16, width), np.nan, np.float32) for width in (32, 24)]
        table = np.array([[4, 0], [7, 2]], np.int32)
        for step in range(more):
            at = np.array(lengths, np.int32) + step
            for b in range(2):
                rows = slice(0, at[b]) if step == 0 else slice(at[b] - 1, at[b])
                f.append(k[b : b + 1, :, rows], v[b : b + 1, :, rows], *caches, T_table=table[b : b + 1], T_lengths=at[b : b + 1])
            last = np.stack([q[b, :, at[b] - 1 : at[b]] for b in range(2)])
            got = f(last, *caches, T_table=table, T_lengths=at)
            for b in range(2):
                want = dense(last[b : b + 1], k[b : b + 1, :, : at[b]], v[b : b + 1, :, : at[b]])
                np.testing.assert_allclose(got[b], want[0], rtol=0, atol=2e-6)

    def test_modified(self):
        """A cache of rotated and normed keys: the attention is that of raw keys; the mods are in append alone."""
        for script, inputs in (("rope", ()), ("qk_norm", ("q_gain", "k_gain"))):
            path, r = SCRIPTS / f"{script}.attn", np.random.default_rng(4)
            gains = {name: (0.5 + r.random(32)).astype(np.float32) for name in inputs}
            for layout in ("T=paged", "T=padded", "T=dense", "S=packed,T=paged"):
                raw = aule.compile(path, layout=None if layout == "T=dense" else layout, optimize=1)
                f = aule.compile(path, layout=f"{layout}:modified", optimize=1)
                for device in [None, *OTHERS[:1]] if layout == "T=paged" else [None]:
                    more = {"device": device} if device else {}
                    rows = [5, 0, 7, 1] if "packed" in layout else 5
                    cache = Cache(layout, [64, 3, 16, 47], rows, E=32)
                    for x in cache.caches:
                        x[:] = 0
                    if layout == "T=dense":
                        cache.layout = ""
                    q = cache.r.standard_normal((1 if cache.packed else 4, 4, 13 if cache.packed else 2, 32)).astype(np.float32)
                    wanted, _ = cache.by_hand()
                    if layout == "T=dense":  # all other rows are of no sequence that begins at 0: all are new
                        cache.rows = cache.rows_of
                        cache.new = [cache.r.standard_normal((4, 2, 64, 32)).astype(np.float32) for _ in range(2)]
                        wanted = cache.new
                    only_new = [int(n) for n in cache.lengths]
                    k_inputs = {name: gains[name] for name in inputs if name.startswith("k")}
                    with self.subTest(script=script, layout=layout, device=device):
                        if layout != "T=dense":  # whole sequences, so that all keys of the raw cache are known
                            cache = self.whole(cache, only_new)
                            wanted, _ = cache.by_hand()
                        f.append(*cache.new, *cache.caches, **cache.named(), **k_inputs, **more)
                        np.testing.assert_array_equal(cache.caches[1], wanted[1])
                        self.assertGreater(np.abs(cache.caches[0] - wanted[0]).max(), 0.1)
                        if cache.packed:
                            q = cache.r.standard_normal((1, 4, int(cache.starts[-1]), 32)).astype(np.float32)
                        got = f(q, *cache.caches, **cache.named(True), **gains, **more)
                        want = raw(q, *wanted, **cache.named(True), **gains, **more)
                        np.testing.assert_allclose(got, want, rtol=0, atol=0 if script == "rope" and not device else 3e-6)
                        with self.assertRaisesRegex(aule.ArgumentError, "takes no slots"):
                            f.append(*cache.new, *cache.caches, slots=np.zeros((4, 5), np.int64), **k_inputs)

    def whole(self, cache, lengths):
        """With all rows of each sequence new."""
        if cache.packed:
            made = Cache("S=packed,T=paged", lengths, lengths, E=32)
        else:
            made = Cache(cache.layout, lengths, 64, E=32)
        for x in made.caches:
            x[:] = 0
        return made

    def test_modified_storage(self):
        """Codes of rotated keys, with a scale of each."""
        r = np.random.default_rng(5)
        f = aule.compile(SCRIPTS / "rope.attn", layout="T=paged:modified", storage="i8:token", optimize=1)
        raw = aule.compile(SCRIPTS / "rope.attn", layout="T=paged", optimize=1)
        cache = Cache("T=paged", [64, 17], 64, E=32, kinds=("i8", "i8"), token=(1, 1))
        plain = Cache("T=paged", [64, 17], 64, E=32)
        plain.new = cache.new
        f.append(*cache.new, *cache.caches, **cache.named())
        q = r.standard_normal((2, 4, 3, 32)).astype(np.float32)
        got, want = f(q, *cache.caches, **cache.named(True)), raw(q, *plain.by_hand()[0], **plain.named(True))
        self.assertLess(np.abs(got - want).max(), 0.03)
        self.assertGreater(np.abs(got - want).max(), 1e-5)

    def test_refusals(self):
        cache = Cache("T=paged", [64, 3], 5)
        f = aule.compile(WIDE, layout="T=paged", optimize=1)
        for args, named, error, message in (
            ((*cache.new, *cache.caches), {}, TypeError, "needs T_table, T_lengths, or slots, which say where each row goes"),
            (cache.new, cache.named(), TypeError, "needs k, v"),
            ((*cache.new, *cache.caches), cache.named() | {"k_scale": 1}, TypeError, "does not take k_scale; it takes k_new, v_new, k, v, T_table, T_lengths, slots"),
            ((*cache.new, *cache.caches), cache.named() | {"k": 1}, TypeError, "was given k twice"),
            ((cache.new[0], cache.new[1][:, :, :4], *cache.caches), cache.named(), aule.ArgumentError, "v_new: axis 2 (new_rows) has 4 elements, expected 5"),
            ((cache.new[0][:1], cache.new[1][:1], *cache.caches), cache.named(), aule.ArgumentError, "k_new: axis 0 has 1 elements, expected 2: a sequence's rows each"),
            ((*[x.astype(np.float16) for x in cache.new], *cache.caches), cache.named(), aule.ArgumentError, "dtype is f16, expected f32, as the other operands are"),
            ((*cache.new, *cache.caches), cache.named() | {"slots": np.zeros((2, 4), np.int64)}, aule.ArgumentError, "slots: axis 1 has 4 elements, expected 5 as in k_new"),
            ((*cache.new, *cache.caches), cache.named() | {"slots": np.zeros((2, 5), np.int32)}, aule.ArgumentError, "slots is int32, expected int64: pass slots.astype('int64')"),
            ((*cache.new, *cache.caches), cache.named() | {"T_table": cache.table.astype(np.int64)}, aule.ArgumentError, "T_table is int64, expected int32"),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, re.escape(message)):
                f.append(*args, **named)
        read_only = cache.caches[0].copy()
        read_only.flags.writeable = False
        with self.assertRaisesRegex(aule.ArgumentError, "k is read-only, and append writes it"):
            f.append(*cache.new, read_only, cache.caches[1], **cache.named())
        for script, options, message in (
            (SCRIPTS / "gla.attn", {}, "--append: 'gla': a recurrence has a state instead of a cache, which `step` updates"),
            (GQA, {"layout": "S=packed,T=packed"}, "--append: 'gqa': packed keys are no cache: they have no room"),
            (GQA, {"layout": "S=dense:rows,T=paged"}, "--append: 'gqa': beside it queries are dense or packed: no padded ones, no `rows` or `positions` of dense ones yet"),
            ("attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; input k_new: f32[H]; score_mod(s, b, h) = s * k_new[h]; online softmax; }", {},
             "two tensors of attention 'a' are called 'k_new'"),
            ("attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; input x: [B, S, P]; input y: [B, T, P]; score_mod(s, b, h, i, j) = s + dot(x[b, i], y[b, j]); "
             "online softmax; }", {}, "--append: 'a': rows of keys of a further product (`dot`) are no [B, heads, T, channels]"),
            ("attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; input x: f32[new_rows]; score_mod(s, b, h) = s * x[h]; online softmax; }", {},
             "has a size 'new_rows', which is what a size of a tensor is called"),
        ):
            with self.subTest(message), self.assertRaisesRegex(aule.Error, re.escape(message)):
                aule.compile(script, **options).append()
        for script, layout, message in (
            (GQA, "T=paged:turned", "expected rows, csr, positions, groups, most or modified"),
            (GQA, "S=packed,T=packed:modified", "modified rows are those of a cache: of keys, dense, padded or paged"),
            ("attention a { q: [B, H, S, D]; k: [B, H, T, D]; v = k[.., 0:8]; k_mod(x, b, g, j, c) = x * f32(j); online softmax; }", "T=paged:modified", "values are channels of the keys as they were before k_mod"),
            ("attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; k_mod(x, b, g, j, c) = x * f32(T - j); online softmax; }", "T=paged:modified", "asks for a length, which grows"),
        ):
            with self.subTest(message), self.assertRaisesRegex(aule.Error, re.escape(message)):
                aule.compile(script, layout=layout)


@unittest.skipIf(torch is None, "no torch")
class Torch(unittest.TestCase):
    def tensors(self, cache, dtype=None):
        dtype = dtype or torch.float32
        return [torch.from_numpy(np.ascontiguousarray(x)).to(dtype) for x in (*cache.new, *cache.caches)], {name: torch.from_numpy(x) for name, x in cache.named().items()}

    def test_types(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            f = aule.compile(WIDE, layout="T=paged", optimize=1)
            cache = Cache("T=paged", [64, 3, 16], 5)
            (k_new, v_new, k, v), named = self.tensors(cache, dtype)
            version = k._version
            self.assertIsNone(f.append(k_new, v_new, k, v, **named))
            self.assertGreater(k._version, version)
            wanted, _ = cache.by_hand(new=[k_new.float().numpy(), v_new.float().numpy()])
            same([k.float().numpy(), v.float().numpy()], wanted)
        f = aule.compile(WIDE, layout="T=paged", storage="k=e4m3:token,v=e5m2", optimize=1)
        cache = Cache("T=paged", [64, 3, 16], 5, kinds=("e4m3", "e5m2"), token=(1, 0))
        named = {name: torch.from_numpy(x) for name, x in cache.named().items()}
        codes = torch.from_numpy(cache.caches[0]).view(torch.float8_e4m3fn), torch.from_numpy(cache.caches[1]).view(torch.float8_e5m2)
        new = [torch.from_numpy(x).bfloat16() for x in cache.new]
        wanted, scales = cache.by_hand(new=[x.float().numpy() for x in new])
        f.append(*new, *codes, **named)
        same(cache.caches, wanted)
        same(cache.scales, scales)

    def test_refused(self):
        f = aule.compile(WIDE, layout="T=paged", optimize=1)
        (k_new, v_new, k, v), named = self.tensors(Cache("T=paged", [64, 3, 16], 5))
        k_new.requires_grad_()
        with self.assertRaisesRegex(aule.ArgumentError, "k_new requires a gradient, and append has none: call it under torch.no_grad"):
            f.append(k_new, v_new, k, v, **named)
        with torch.no_grad():
            f.append(k_new, v_new, k, v, **named)

    def test_compiled(self):
        """One graph of append and the attention, in which the caches are written; views of one tensor among them."""
        for storage, kinds, token in ((None, (None, None), (0, 0)), ("i8:token", ("i8", "i8"), (1, 1))):
            f = aule.compile(GQA, layout="T=paged", storage=storage, optimize=1)

            def step(q, k_new, v_new, k, v, named):
                f.append(k_new, v_new, k, v, **named)
                return f(q, k, v, **named)

            compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
            results = []
            for call in (step, compiled):
                cache = Cache("T=paged", [64, 3, 16], 5, D=32, E=32, kinds=kinds, token=token)
                named = {name: torch.from_numpy(x) for name, x in cache.named().items()}
                k_new, v_new = (torch.from_numpy(x) for x in cache.new)
                if storage:
                    k, v = (torch.from_numpy(x) for x in cache.caches)
                else:
                    both = torch.full((len(cache.caches[0]), 2, 16, 2, 32), float("nan"))
                    k, v = both[:, 0].transpose(1, 2), both[:, 1].transpose(1, 2)
                q = torch.from_numpy(np.random.default_rng(7).standard_normal((3, 4, 2, 32)).astype(np.float32))
                o = call(q, k_new, v_new, k, v, named)
                wanted, scales = cache.by_hand() if not storage else (None, None)
                if not storage:
                    same([k.numpy(), v.numpy()], wanted)
                results.append([x.numpy() for x in (o, k, v, *(named[n] for n in sorted(named)))])
            same(*results)


if __name__ == "__main__":
    unittest.main()
