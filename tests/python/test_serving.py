"""aule.serving: pages are counted right whatever sequences do, rows go where they belong in NumPy and torch, and attention over the cache is that over the rows."""

from __future__ import annotations

import random
import unittest

import numpy as np

import aule
from aule.serving import Cache, OutOfPages, Pages
from support import DEVICE, ROOT, torch
from test_storage import grouped, meaning

GQA = ROOT / "attn_scripts/gqa.attn"
H, HK, D = 4, 2, 16


class Bookkeeping(unittest.TestCase):
    def check(self, pages, tokens, memory):
        """Every page has as many users as sequences that have it; what a sequence reads is what was written for it."""
        users = [0] * pages.count
        for row in tokens:
            for page in pages.pages_of(row):
                users[page] += 1
        self.assertEqual(users, [pages.users(page) for page in range(pages.count)])
        self.assertEqual(pages.available, users.count(0))
        if not tokens:
            return
        table, lengths = pages.of(list(tokens))
        for (row, want), line, length in zip(tokens.items(), table, lengths):
            self.assertEqual(length, len(want))
            have = [memory[line[n // pages.page_size], n % pages.page_size] for n in range(length)]
            self.assertEqual(have, want, f"sequence {row}")
            self.assertEqual(pages.table[row][: len(pages.pages_of(row))].tolist(), list(pages.pages_of(row)))

    def test_what_is_no_row(self):
        pages = Pages(4, 2, sequences=2)
        row = pages.add()
        for wrong in (False, 0.0, None, -1, 7, "0"):
            with self.assertRaisesRegex(aule.ArgumentError, "there is no sequence"):
                pages.free(wrong)
        with self.assertRaisesRegex(aule.ArgumentError, "-3 pages"):
            pages.allocate(-3)
        self.assertEqual((row, pages.length(row)), (0, 0))

    def test_anything_in_any_order(self):
        """Sequences arrive, grow, fork, shrink and leave; their tokens are numbers in a memory of pages."""
        for seed, size in enumerate((1, 3, 16)):
            r, pages = random.Random(seed), Pages(40, size, sequences=8)
            memory, tokens, full = np.zeros((40, size), np.int64), {}, 0
            for step in range(600):
                row = r.choice(list(tokens)) if tokens else None
                act = r.choice(["add", "extend", "extend", "extend", "fork", "shorten", "free"])
                if act == "add" and len(tokens) < 8:
                    tokens[pages.add()] = []
                elif row is None:
                    continue
                elif act == "extend":
                    n = r.randrange(3 * size + 2)
                    before = pages.available, pages.pages_of(row), pages.needed(row, n)
                    try:
                        for source, target in pages.extend(row, n):
                            memory[target] = memory[source]
                    except OutOfPages:
                        full += 1
                        self.assertEqual(before[:2], (pages.available, pages.pages_of(row)))
                        self.assertGreater(before[2], before[0])
                        continue
                    self.assertEqual(before[0] - pages.available, before[2])
                    new = [step * 1000 + i for i in range(n)]
                    slots = pages.slots([row], [n])
                    self.assertTrue(all(pages.users(slot // size) == 1 for slot in slots), "a page of several is written")
                    memory.reshape(-1)[slots] = new
                    tokens[row] = tokens[row] + new
                elif act == "fork" and len(tokens) < 8:
                    tokens[pages.fork(row)] = tokens[row]
                elif act == "shorten":
                    length = r.randrange(len(tokens[row]) + 1)
                    pages.shorten(row, length)
                    tokens[row] = tokens[row][:length]
                elif act == "free":
                    pages.free(row)
                    del tokens[row]
                self.check(pages, tokens, memory)
            self.assertGreater(full, 0)
            for row in list(tokens):
                pages.free(row)
            self.check(pages, {}, memory)

    def test_a_kept_prefix(self):
        """Pages that no sequence has any more, because a program keeps them, begin a later one."""
        pages = Pages(4, 8)
        first = pages.add()
        pages.extend(first, 20)
        kept = pages.pages_of(first)[:2]
        pages.share(kept)
        pages.free(first)
        self.assertEqual(pages.available, 2)
        second = pages.add(kept, 16)
        pages.release(kept)
        self.assertEqual((pages.length(second), pages.pages_of(second), pages.extend(second, 1)), (16, kept, []))

    def test_a_prefix_shorter_than_its_pages(self):
        """Pages behind the prefix are not shared: extend would write on them."""
        pages = Pages(6, 4)
        first = pages.add()
        pages.extend(first, 12)
        for length in (0, 3, 4, 5):
            other = pages.add(pages.pages_of(first), length)
            self.assertEqual(pages.pages_of(other), pages.pages_of(first)[: -(-length // 4)])
            copies = pages.extend(other, 8)
            self.assertEqual([source for source, _ in copies], [pages.pages_of(first)[length // 4]] * (length % 4 > 0))
            self.assertTrue(all(pages.users(slot // 4) == 1 for slot in pages.slots([other], [8])), length)
            pages.free(other)
        with self.assertRaisesRegex(aule.ArgumentError, "page 5 is not in use"):
            pages.add([0, 5], 8)
        self.assertEqual(([pages.users(page) for page in range(6)], pages.available), ([1, 1, 1, 0, 0, 0], 3))

    def test_picture(self):
        pages = Pages(6, 4)
        a = pages.add()
        pages.extend(a, 9)
        b = pages.fork(a)
        pages.extend(b, 4)
        pages.allocate(1)
        self.assertEqual(pages.picture(4), "##ab\nb+")

    def test_refusals(self):
        pages = Pages(4, 8, sequences=1, entries=3)
        row = pages.add()
        for call, message in (
            (lambda: Pages(0, 8), "count is 0, expected a whole number"),
            (lambda: Pages(4, True), "page_size is True"),
            (lambda: pages.extend(row, 25), "needs 4 pages, the table has room for 3"),
            (lambda: pages.extend(row, -1), "-1 more tokens"),
            (lambda: pages.add(), "there are 1 sequences already"),
            (lambda: pages.free(5), "there is no sequence 5"),
            (lambda: pages.length("0"), "there is no sequence '0'"),
            (lambda: pages.slots([row], [1]), "sequence 0 has 0 tokens, not 1"),
            (lambda: pages.shorten(row, 1), "length is 1, the sequence has 0"),
            (lambda: pages.release([2]), "page 2 is not in use"),
            (lambda: Cache(1, 2, 4, 2, 8, "float64"), "dtype is float64"),
            (lambda: Cache(1, 2, 4, 2, 8, "float32", storage="i5"), "storage is 'i5', expected e4m3"),
            (lambda: Cache(1, 2, 4, 2, 8, "float32", storage="i8:token:f16:f32"), "storage is 'i8:token:f16:f32', expected e4m3"),
            (lambda: Cache(1, 2, 4, 2, 8, "float32", storage="i4:zero"), "zero points of heads are given with calls"),
            (lambda: Cache(1, 2, 4, 2, 8, "float32", storage="i4:channels16"), "8 channels do not consist of groups of 16"),
            (lambda: Cache(1, 2, 4, 2, 8, "float32", storage="i8"), "k is stored in i8 and needs a scale"),
            (lambda: Cache(1, 2, 4, 2, 8, "float32").append(0, np.zeros((1, 2, 8), "f"), np.zeros((1, 2, 8), "f"), [0]), "slots is a list, expected a tensor of int64"),
            (lambda: Cache(1, pages, 4, 2, 8, "float32"), "page_size is 4, of these pages it is 8"),
            (lambda: Cache(1, 2, 4, 2, 8, "float32").append(0, np.zeros((1, 1, 8)), np.zeros((1, 2, 8)), np.zeros(1, np.int64)), r"k is \[1, 1, 8\], expected \[.., 2, 8\]"),
        ):
            with self.subTest(message):
                with self.assertRaisesRegex(aule.Error, message):
                    call()


class Rows(unittest.TestCase):
    def caches(self, **options):
        yield Cache(2, 9, 4, (HK, HK), (D, D), "float32", **options), lambda x: x
        if torch is not None:
            yield Cache(2, 9, 4, HK, D, torch.float32, **options, device=DEVICE), lambda x: torch.from_numpy(x).to(DEVICE)

    def test_append(self):
        """Slots in any order, -1 among them, first, last and alone; nothing else changes."""
        r = np.random.default_rng(0)
        for order in ("NHD", "HND"):
            for storage in (None, "e4m3", "k=i8:token,v=e5m2", "k=i4:token,v=i8:channels4:zero", "i4:channels8:zero"):
                for cache, to in self.caches(order=order, storage=storage):
                    memory = np.zeros((2, 36, HK, D), np.float32)
                    for slots in ([7, -1, 30, 0, -1], [-1, 1, 2], [-1, -1], [], [35]):
                        rows = r.standard_normal((2, len(slots), HK, D)).astype(np.float32)
                        cache.append(1, *(to(x) for x in rows), to(np.array(slots, np.int64)))
                        for n, slot in enumerate(slots):
                            if slot >= 0:
                                memory[:, slot] = rows[:, n]
                    self.assertEqual(cache.k[0].shape, (9, HK, 4, D // 2 if storage and "i4" in storage else D))
                    for layer, want in ((0, np.zeros_like(memory)), (1, memory)):
                        for x, name in zip(want, "kv"):
                            got = self.elements(cache, name, layer)
                            kind, most = cache._stored[name].kind if name in cache._stored else None, np.abs(x).max()
                            rtol, atol = {None: (0, 0), "e4m3": (2**-4, 2**-10), "e5m2": (2**-3, 2**-17), "i8": (0, most / 253), "i4": (0, most / 13.9)}[kind]
                            np.testing.assert_allclose(got, x, rtol=rtol, atol=atol)

    @staticmethod
    def elements(cache, name, layer):
        """What a layer has in its slots: [slots, heads, channels]."""
        x, scale, zero = (getattr(cache, which)[layer] for which in (name, f"{name}_scale", f"{name}_zero"))
        if torch is not None and isinstance(x, torch.Tensor):
            x = (x if x.dtype == torch.uint8 else x.float()).cpu().numpy()
            scale, zero = (y if y is None else y.cpu().numpy() for y in (scale, zero))
            x = meaning(x, "i4") if x.dtype == np.uint8 else x
        elif scale is not None:
            x = meaning(x, cache._stored[name].kind)
        x = x if zero is None else x - grouped(zero, D if zero.shape[-1] > 1 else 1)
        x = x if scale is None else x * grouped(scale, D if scale.shape[-1] > 1 else 1)
        return x.transpose(0, 2, 1, 3).reshape(-1, HK, D)


class Attention(unittest.TestCase):
    """Chunks and single tokens of several sequences in one call, forked and freed between: each as a dense call of its rows."""

    def serve(self, cache, to, storage=None, bound=1e-5):
        f = aule.compile(GQA, layout="S=packed,T=paged", storage=storage, optimize=1)
        dense = aule.compile(GQA, optimize=1)
        r, rows = np.random.default_rng(3), {}  # of each sequence k and v
        pages = cache.pages
        for step in range(12):
            while len(rows) < 3:
                rows[pages.add()] = np.zeros((2, 0, HK, D), np.float32)
            if step in (4, 7):
                parent = max(rows, key=lambda row: pages.length(row) % pages.page_size)
                rows[pages.fork(parent)] = rows[parent]
            if step == 8:
                row = next(iter(rows))
                pages.free(row)
                del rows[row]
            batch = list(rows)
            counts = [[1, 7, 3, 2, 1][(step + n) % 5] for n in range(len(batch))]
            for row, count in zip(batch, counts):
                cache.copy(pages.extend(row, count))
            new = r.standard_normal((2, sum(counts), HK, D)).astype(np.float32)
            cache.append(0, *(to(x) for x in new), pages.slots(batch, counts))
            starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
            for row, begin, end in zip(batch, starts, starts[1:]):
                rows[row] = np.concatenate([rows[row], new[:, begin:end]], 1)
            q = r.standard_normal((1, H, starts[-1], D)).astype(np.float32)
            table, lengths = pages.of(batch)
            o = np.asarray(f(to(q), **cache.named(0), T_table=table, T_lengths=lengths, S_starts=to(starts)).tolist())
            for row, begin, end in zip(batch, starts, starts[1:]):
                k, v = rows[row].transpose(0, 2, 1, 3)[:, None]
                want = dense(np.ascontiguousarray(q[:, :, begin:end]), k, v)
                np.testing.assert_allclose(o[:, :, begin:end], want, rtol=bound, atol=bound, err_msg=f"step {step}, sequence {row}")

    def test_numpy(self):
        for size, order in ((1, "HND"), (5, "NHD"), (16, "HND")):
            with self.subTest(size):
                self.serve(Cache(1, 200, size, HK, D, "float32", order=order), lambda x: x)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self):
        self.serve(Cache(1, 40, 8, HK, D, torch.float32, device=DEVICE), lambda x: torch.from_numpy(x).to(DEVICE))

    def test_stored_as_codes(self):
        for storage, scales, bound in (("i8:token", None, 0.05), ("k=i8,v=i8:token", (4 / 127, None), 0.05), ("k=i8:channels8:zero,v=i4:channels4:zero", None, 0.3),
                                       ("k=i8:f16,v=i4:channels4:zero:f16", (4 / 127, None), 0.3)):
            with self.subTest(storage):
                self.serve(Cache(1, 40, 8, HK, D, "float32", storage=storage, scales=scales), lambda x: x, storage, bound)


if __name__ == "__main__":
    unittest.main()
