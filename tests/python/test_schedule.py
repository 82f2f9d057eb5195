"""Lists of work as an operation (docs/dev/operations.md, schedule): calls that are given what f.schedule made, to the bit as calls that make their own."""

from __future__ import annotations

import unittest
from pathlib import Path

import numpy as np

import aule
from aule.serving import Step
from support import OTHERS, torch

SCRIPTS = Path(__file__).resolve().parents[2] / "attn_scripts"
DEVICES = [None, *OTHERS]
COUNTS = [5, 0, 130, 17, 1, 0]


def starts_of(counts):
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def packed(counts, heads=4, key_heads=2, width=32, seed=0):
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((1, h, sum(counts), width), np.float32) for h in (heads, key_heads, key_heads))
    starts = starts_of(counts)
    return (q, k, v), {"S": aule.packed(starts), "T": aule.packed(starts)}, starts


def paged(counts, lengths, heads=4, key_heads=2, width=32, size=16, seed=0):
    """Packed queries, keys in pages in an order of their own; NaN in slots of nobody."""
    rng = np.random.default_rng(seed)
    entries = max(1, -(-max(lengths) // size))
    table = rng.permutation(len(lengths) * entries).reshape(len(lengths), entries).astype(np.int32)
    q = rng.standard_normal((1, heads, sum(counts), width), np.float32)
    k, v = (rng.standard_normal((table.size, key_heads, size, width), np.float32) for _ in range(2))
    for b, n in enumerate(lengths):
        for page in range(entries):
            left = max(0, min(size, n - page * size))
            k[table[b, page], :, left:] = v[table[b, page], :, left:] = np.nan
    lengths = np.asarray(lengths, np.int32)
    starts = starts_of(counts)
    return (q, k, v), {"S": aule.packed(starts), "T": aule.paged(table, lengths)}, starts


def aligned(size):
    """int32, at a multiple of 64 bytes."""
    room = np.zeros(size + 16, np.int32)
    return room[-room.__array_interface__["data"][0] % 64 // 4 :][:size]


class Lists(unittest.TestCase):
    def test_starts_of_each_layer(self):
        """Lists of starts that a layer makes and lets go of are not those of the next one's, which come to lie there."""
        f, (qkv, _, _) = aule.compile(SCRIPTS / "gqa.attn"), packed(COUNTS)
        step = Step()
        for n in range(30):
            counts = COUNTS if n % 2 else [1, 150, 0, 0, 1, 1]
            axes = {axis: aule.packed(starts_of(counts)) for axis in "ST"}
            np.testing.assert_array_equal(f(*qkv, axes=axes, schedule=step), f(*qkv, axes=axes))

    def test_room_in_pages(self):
        """Entries times rows of a page are counted in 32 bits."""
        f = aule.compile(SCRIPTS / "gqa.attn")
        q, k = np.ones((1, 4, 1, 16), np.float32), np.broadcast_to(np.ones((1, 1, 1, 16), np.float32), (1, 2, 2**27, 16))
        for entries, good in ((15, True), (16, False), (33, False)):
            axes = {"T": aule.paged(np.zeros((1, entries), np.int32), np.array([9], np.int32))}
            if good:
                np.testing.assert_array_equal(f(q, k, k, axes=axes), q)
            else:
                with self.assertRaisesRegex(aule.Error, f"a line of T_table has {entries} pages of {2**27} rows"):
                    f(q, k, k, axes=axes)

    @unittest.skipIf(torch is None, "no torch")
    def test_steps_before_gradients(self):
        """Lists are nothing that gradients read: steps go on before they are asked for, and follow ones without gradients."""
        f, (qkv, _, starts) = aule.compile(SCRIPTS / "gqa.attn"), packed(COUNTS)
        axes = {axis: aule.packed(torch.from_numpy(starts)) for axis in "ST"}

        def call(step):
            x = [torch.from_numpy(t).clone().requires_grad_() for t in qkv]
            return x, f(*x, axes=axes, schedule=step)

        x, o = call(None)
        want = torch.autograd.grad(o.sum(), x)
        step = Step()
        with torch.inference_mode():
            f(*(torch.from_numpy(t) for t in qkv), axes=axes, schedule=step)
        made = [call(step)]
        for _ in range(2):
            step.begin()
            made.append(call(step))
        for x, o in made:
            for got, exact in zip(torch.autograd.grad(o.sum(), x), want):
                self.assertTrue(torch.equal(got, exact))

    def test_layers(self):
        f = aule.compile(SCRIPTS / "gqa.attn")
        for device in DEVICES:
            for made in (packed(COUNTS), paged(COUNTS, [9, 0, 200, 17, 40, 33])):
                with self.subTest(device=device, layout=str(made[1])):
                    qkv, axes, _ = made
                    work = f.schedule(*qkv, axes=axes, device=device)
                    self.assertEqual((work.dtype, work.ndim), (np.int32, 1))
                    self.assertGreater(work.size, 0)
                    for layer in range(3):
                        mine = (np.roll(qkv[0], layer, 3), *qkv[1:])
                        expected = f(*mine, axes=axes, device=device)
                        np.testing.assert_array_equal(f(*mine, axes=axes, device=device, schedule=work), expected)
                        np.testing.assert_array_equal(f.forward(*mine, axes=axes, device=device, schedule=work)["o"], expected)

    def test_they_are_read_and_written_again(self):
        """Of other starts in the same memory: results of an old list are others, those of a new one are right."""
        f = aule.compile(SCRIPTS / "gqa.attn")
        qkv, axes, starts = packed(COUNTS)
        work = f.schedule(*qkv, axes=axes)
        starts[:] = starts_of([150, 0, 0, 1, 2, 0])
        expected = f(*qkv, axes=axes)
        self.assertFalse(np.array_equal(f(*qkv, axes=axes, schedule=work), expected, equal_nan=True))
        again = f.schedule(*qkv, axes=axes, out=work)
        self.assertIs(again, work)
        np.testing.assert_array_equal(f(*qkv, axes=axes, schedule=work), expected)

    def test_garbage(self):
        """Whatever is in it, no address is outside and the call ends; the next one is right."""
        f = aule.compile(SCRIPTS / "gqa.attn")
        rng = np.random.default_rng(1)
        for device in DEVICES:
            for made in (packed(COUNTS), paged(COUNTS, [9, 0, 200, 17, 40, 33])):
                qkv, axes, _ = made
                expected = f(*qkv, axes=axes, device=device)
                work = f.schedule(*qkv, axes=axes, device=device)
                kept = work.copy()
                for low, high in ((-1, 0), (2**31 - 1, 2**31), (-(2**31), -(2**31) + 1), (-(2**31), 2**31), (0, 200)):
                    work[:] = rng.integers(low, high, work.size)
                    f(*qkv, axes=axes, device=device, schedule=work)
                work[:] = kept
                np.testing.assert_array_equal(f(*qkv, axes=axes, device=device, schedule=work), expected)

    def test_lists_of_another_call(self):
        """Of the same size they are known by the tensor; a copy of them is not, and no address is outside."""
        f = aule.compile(SCRIPTS / "gqa.attn")
        qkv, axes, _ = packed(COUNTS)
        work = f.schedule(*qkv, axes=axes)
        expected = f(*qkv, axes=axes)
        fewer, others, _ = packed([n - 1 if b == COUNTS.index(max(COUNTS)) else n for b, n in enumerate(COUNTS)])
        halves = [x.astype(np.float16) for x in qkv]
        for call, text in (
            (lambda lists: f(*fewer, axes=others, schedule=lists), r"gqa: schedule was made for a call with \w+ = float32 \[.*\], this one has float32 \["),
            (lambda lists: aule.compile(SCRIPTS / "sliding_window.attn")(*qkv, axes=axes, window=9, schedule=lists), "sliding_window: schedule was made for a call of gqa"),
            (lambda lists: f(*halves, axes=axes, schedule=lists), r"schedule was made for a call with q = float32 .*, this one has float16"),
        ):
            with self.assertRaisesRegex(aule.ArgumentError, text) as caught:
                call(work)
            self.assertEqual(caught.exception.status, "work")
        self.assertEqual(f(*halves, axes=axes, schedule=f.schedule(*halves, axes=axes)).shape, expected.shape)
        np.testing.assert_array_equal(f(*qkv, axes=axes, schedule=work), expected)
        again = f.schedule(*fewer, axes=others, out=work) if f.schedule(*fewer, axes=others).size == work.size else None
        if again is not None:  # it is of that call then
            np.testing.assert_array_equal(f(*fewer, axes=others, schedule=work), f(*fewer, axes=others))
            with self.assertRaisesRegex(aule.ArgumentError, "schedule was made for a call"):
                f(*qkv, axes=axes, schedule=work)
        window = aule.compile(SCRIPTS / "sliding_window.attn")
        lists = window.schedule(*qkv, axes=axes, window=9)
        with self.assertRaisesRegex(aule.ArgumentError, "schedule was made for a call with window = 9, this one has 12"):
            window(*qkv, axes=axes, window=12, schedule=lists)

    def test_refusals(self):
        f = aule.compile(SCRIPTS / "gqa.attn")
        qkv, axes, _ = packed(COUNTS)
        work = f.schedule(*qkv, axes=axes)
        other = f.schedule(*packed([200, *COUNTS])[0], axes=packed([200, *COUNTS])[1])
        copied = aligned(other.size)  # what is known of the tensor is not known of it
        copied[:] = other
        with self.assertRaisesRegex(aule.ArgumentError, "schedule was made for a call with"):
            f(*qkv, axes=axes, schedule=other)
        spread, moved = aligned(2 * work.size)[::2], aligned(work.size + 1)[1:]
        for wrong, text in (
            (copied, rf"work has {other.size} elements, those of this call are {work.size}"), (work[:-1], "work has"), (work[:0], "work has 0 elements"),
            (work.astype(np.int64), "work is int64, expected int32"), (work[None], r"work: shape is \[1, "), (spread, "stride 2, expected 1"),
            (moved, "work: its address is 4 past a multiple of 64"),
        ):
            with self.assertRaisesRegex(aule.ArgumentError, text):
                f(*qkv, axes=axes, schedule=wrong)
        with self.assertRaisesRegex(TypeError, "must be a NumPy array"):
            f(*qkv, axes=axes, schedule=[1, 2, 3])
        with self.assertRaisesRegex(aule.ArgumentError, "work: it is written and overlaps S_starts"):
            lists = aligned(1024)
            starts = lists[: len(COUNTS) + 1]
            starts[:] = starts_of(COUNTS)
            same = {"S": aule.packed(starts), "T": aule.packed(starts)}
            f.schedule(*qkv, axes=same, out=lists[: work.size])
        dense = [np.zeros((1, h, 4, 32), np.float32) for h in (4, 2, 2)]
        for call in (lambda: f.schedule(*dense), lambda: f(*dense, schedule=work)):
            with self.assertRaisesRegex(aule.Error, "no operation 'schedule'"):
                call()
        with self.assertRaisesRegex(TypeError, "aule.serving.Step"):
            aule.attention_varlen(*(x[0].swapaxes(0, 1) for x in qkv), starts_of(COUNTS), schedule=work)

    def test_many_sequences(self):
        """4096 sequences: single rows over pages, some without any, and lists of them."""
        rng = np.random.default_rng(2)
        counts = rng.integers(0, 3, 4096).tolist()
        lengths = [int(n + c) for n, c in zip(rng.integers(0, 30, 4096), counts)]
        lengths[7], lengths[4095] = 0, 32
        qkv, axes, starts = paged(counts, lengths, heads=2, key_heads=1, width=16)
        f = aule.compile(SCRIPTS / "gqa.attn")
        work = f.schedule(*qkv, axes=axes)
        self.assertGreaterEqual(work.size, 4096)
        got = f(*qkv, axes=axes, schedule=work)
        np.testing.assert_array_equal(got, f(*qkv, axes=axes))
        self.assertTrue(np.isfinite(got).all())
        q, k, v = qkv
        single = [b for b, n in enumerate(counts) if n == 1][:50]
        one_each = {"T": aule.paged(*self.lists_of(axes["T"]))}
        decoding = f(np.stack([q[0, :, starts[b] if counts[b] else 0] for b in range(4096)])[:, :, None], k, v, axes=one_each)
        for b in single:
            np.testing.assert_allclose(got[0, :, starts[b]], decoding[b, :, 0], rtol=2e-5, atol=2e-6)

    @staticmethod
    def lists_of(axis):
        """Table and lengths of a paged axis."""
        return axis.tensors["table"], axis.tensors["lengths"]

    def test_new_rows(self):
        f = aule.compile(SCRIPTS / "gqa.attn")
        counts, lengths = [2, 1, 0, 3], [9, 1, 12, 33]
        (q, k, v), axes, _ = paged(counts, lengths)
        new = [np.random.default_rng(3 + n).standard_normal((1, 2, sum(counts), 32), np.float32) for n in range(2)]
        work = f.schedule(q, k, v, axes=axes)
        caches = [x.copy() for x in (k, v)]
        expected = f(q, *caches, k_new=new[0], v_new=new[1], axes=axes)
        mine = [x.copy() for x in (k, v)]
        np.testing.assert_array_equal(f(q, *mine, k_new=new[0], v_new=new[1], axes=axes, schedule=work), expected)
        for a, b in zip(mine, caches):
            np.testing.assert_array_equal(a, b)


class Steps(unittest.TestCase):
    def test_once_a_step(self):
        f = aule.compile(SCRIPTS / "gqa.attn")
        qkv, axes, starts = packed(COUNTS)
        made = []
        laid = f._for_layout("S=packed,T=packed", ("S_starts", "T_starts"))
        run = laid._run_schedule
        laid._run_schedule = lambda call, out: made.append(out) or run(call, out)
        step = Step()
        for turn, counts in enumerate((COUNTS, [150, 0, 0, 1, 2, 0], [0] * 6)):
            step.begin()
            starts[:] = starts_of(counts)
            for layer in range(3):
                mine = (np.roll(qkv[0], layer, 3), *qkv[1:])
                np.testing.assert_array_equal(f(*mine, axes=axes, schedule=step), f(*mine, axes=axes))
            self.assertEqual(len(made), turn + 1)
        self.assertIsNone(made[0])
        self.assertIs(made[1], made[2])  # the same memory
        other, axes, _ = packed([3, 4])
        np.testing.assert_array_equal(f(*other, axes=axes, schedule=step), f(*other, axes=axes))
        self.assertEqual(len(made), 4)
        dense = [np.ones((1, h, 4, 32), np.float32) for h in (4, 2, 2)]
        np.testing.assert_array_equal(f(*dense, schedule=step), f(*dense))

    def test_functions(self):
        counts, lengths = [2, 1, 0, 3], [9, 1, 12, 33]
        (q, k, v), axes, starts = paged(counts, lengths)
        table, lengths = Lists.lists_of(axes["T"])
        q, k, v = q[0].swapaxes(0, 1), k.swapaxes(1, 2), v.swapaxes(1, 2)
        step = Step()
        for layer in range(2):
            mine = np.roll(q, layer, 2)
            said = {"seqused_k": lengths, "page_table": table, "causal": True}
            np.testing.assert_array_equal(
                aule.attention_varlen(mine, k, v, starts, schedule=step, **said), aule.attention_varlen(mine, k, v, starts, **said))
            some = np.ascontiguousarray(mine[:4, None])
            np.testing.assert_array_equal(
                aule.decode(some, k, v, lengths, page_table=table, schedule=step), aule.decode(some, k, v, lengths, page_table=table))

    @unittest.skipUnless(torch, "needs torch")
    def test_torch(self):
        f = aule.compile(SCRIPTS / "gqa.attn")
        (q, k, v), _, starts = packed(COUNTS)
        q, k, v, starts = (torch.from_numpy(x) for x in (q, k, v, starts))
        axes = {"S": aule.packed(starts), "T": aule.packed(starts)}
        work, step = f.schedule(q, k, v, axes=axes), Step()
        self.assertIs(work.dtype, torch.int32)
        gradients = []
        for given in (None, work, step):
            mine = [x.clone().requires_grad_() for x in (q, k, v)]
            o = f(*mine, axes=axes, schedule=given)
            o.backward(torch.ones_like(o))
            gradients.append([o.detach(), *(x.grad for x in mine)])
        for other in gradients[1:]:
            for a, b in zip(gradients[0], other):
                torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)
        with torch.autocast("cpu", torch.bfloat16):
            expected = f(q, k, v, axes=axes)
            self.assertTrue(torch.equal(f(q, k, v, axes=axes, schedule=f.schedule(q, k, v, axes=axes)), expected))
            self.assertTrue(torch.equal(f(q, k, v, axes=axes, schedule=Step()), expected))

    @unittest.skipUnless(torch, "needs torch")
    def test_traced(self):
        f = aule.compile(SCRIPTS / "gqa.attn")
        (q, k, v), _, starts = packed(COUNTS)
        q, k, v, starts = (torch.from_numpy(x) for x in (q, k, v, starts))

        def layers(q, k, v, starts):
            axes = {"S": aule.packed(starts), "T": aule.packed(starts)}
            work = f.schedule(q, k, v, axes=axes)
            return f(f(q, k, v, axes=axes, schedule=work), k, v, axes=axes, schedule=work)

        compiled = torch.compile(layers, backend="aot_eager", fullgraph=True)
        self.assertTrue(torch.equal(compiled(q, k, v, starts), layers(q, k, v, starts)))


if __name__ == "__main__":
    unittest.main()
