"""New rows given to the attention itself (docs/dev/operations.md, append): the same bytes in the cache, and the same bits of the result, as of append and then
a call."""

from __future__ import annotations

import unittest

import numpy as np

import aule
from support import OTHERS
from test_append import GQA, LATENT, SCRIPTS, WIDE, Cache, same, torch


class Together(unittest.TestCase):
    @staticmethod
    def filled(cache):
        """With numbers where rows were before."""
        for x, kind in zip(cache.caches, cache.kinds):
            x[:] = cache.r.integers(0, 50, x.shape) if kind else cache.r.standard_normal(x.shape)
        for x, by_token in zip(cache.scales, cache.token):
            x[:] = 0.01 if by_token else x
        return cache

    def both(self, f, cache, queries, device=None, slots=None, wrap=lambda x: x, **more):
        """Rows of queries, 4 heads, and what is left of the call."""
        q, results = cache.r.standard_normal((1 if cache.packed else cache.B, 4, queries, cache.widths[0])).astype(cache.new[0].dtype), []
        caches = cache.caches if any(t.role == "v" and not t.in_k for t in f.tensors) else cache.caches[:1]
        new = cache.new[: len(caches)]
        for together in (False, True):
            own = [wrap(x.copy()) for x in caches]
            named = {name: wrap(x.copy()) for name, x in cache.named(True).items()}
            if together:
                rows = dict(zip(("k_new", "v_new"), (wrap(x) for x in new))) | ({} if slots is None else {"slots": wrap(slots)})
                made = f.forward(wrap(q), *own, **rows, **named, **more, device=device)
            else:
                inputs = {name: x for name, x in named.items() if slots is None or "scale" in name}
                f.append(*(wrap(x) for x in new), *own, slots=None if slots is None else wrap(slots), device=device, **inputs, **{n: x for n, x in more.items() if n == "k_gain"})
                made = f.forward(wrap(q), *own, **named, **more, device=device)
            results.append([*made.values(), *own, *(named[name] for name in sorted(named))])
        for x, y in zip(*results):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
        self.assertTrue(np.isfinite(np.asarray(results[0][0])).all())

    def test_layouts(self):
        for layout, rows, queries in ((None, 3, 3), ("T=padded", 1, 1), ("T=paged", 2, 2), ("T=paged", 40, 40), ("S=packed,T=paged", [3, 0, 40, 1], 44), ("S=packed:most,T=paged", [1, 0, 2, 1], 4)):
            with self.subTest(layout, rows=rows):
                f = aule.compile(WIDE, layout=layout, optimize=1)
                most = {"S_most": 2} if layout and "most" in layout else {}
                self.both(f, self.filled(Cache(layout, [64, 3, 44, 17], rows)), queries, **most)
                self.both(f, self.filled(Cache(layout, [64, 2, 44, 17], rows, odd=True)), queries, **most)

    def test_storage(self):
        for storage, kinds, token in (("i8:token", ("i8", "i8"), (1, 1)), ("k=e4m3,v=i8:token", ("e4m3", "i8"), (0, 1))):
            with self.subTest(storage):
                self.both(aule.compile(GQA, layout="T=paged", storage=storage, optimize=1), self.filled(Cache("T=paged", [64, 3, 44], 2, E=32, kinds=kinds, token=token)), 2)

    def test_scripts(self):
        """A parameter that changes from run to run, rows that mods change, values in keys, groups, slots, half precision, torch."""
        window = aule.compile(SCRIPTS / "sliding_window.attn", layout="T=paged", optimize=1)
        for n in (5, 30, 5):
            self.both(window, self.filled(Cache("T=paged", [64, 3, 44], 2, E=32)), 2, window=n)
        self.both(aule.compile(SCRIPTS / "rope.attn", layout="T=paged:modified", optimize=1), self.filled(Cache("T=paged", [64, 3, 44], 2, E=32)), 2)
        gains = {name: np.full(32, 1.5, np.float32) for name in ("q_gain", "k_gain")}
        self.both(aule.compile(SCRIPTS / "qk_norm.attn", layout="S=packed,T=paged:modified", optimize=1), self.filled(Cache("S=packed,T=paged", [64, 3, 44], [2, 0, 1], E=32)), 3, **gains)
        self.both(aule.compile(LATENT, layout="T=padded", optimize=1), self.filled(Cache("T=padded", [64, 3, 44], 2)), 2)
        f, cache = aule.compile(GQA, layout="T=paged", optimize=1), self.filled(Cache("T=paged", [64, 3, 44], 2, E=32))
        slots = cache.numbers_of_slots()
        slots[1] = -1
        self.both(f, cache, 2, slots=slots)
        self.both(f, self.filled(Cache("T=paged", [64, 3, 44], 2, E=32, dtype=np.float16)), 2)
        if torch is not None:
            self.both(f, self.filled(Cache("T=paged", [64, 3, 44], 2, E=32)), 2, wrap=lambda x: torch.from_numpy(np.ascontiguousarray(x)))
        for device in OTHERS[:1]:
            self.both(f, self.filled(Cache("T=paged", [64, 3, 44], 2, E=32)), 2, device=device)

    def test_refused(self):
        f, cache = aule.compile(GQA, layout="T=paged", optimize=1), self.filled(Cache("T=paged", [64, 3, 44], 2, E=32))
        q, (k_new, v_new), (k, v), lists = np.zeros((3, 4, 2, 32), np.float32), cache.new, cache.caches, cache.named(True)
        before = k.copy()
        for given, error, message in (
            ({"k_new": k_new}, TypeError, "gqa.. is given new rows, and needs v_new"),
            ({"slots": np.zeros((3, 2), np.int64)}, TypeError, "needs k_new, v_new"),
            ({"k_new": k_new[:, :, :1], "v_new": v_new[:, :, :1]}, aule.ArgumentError, "k_new: axis 2 has 1 elements, expected 2 as in q: its rows are those of the queries"),
            ({"k_new": k_new[:2], "v_new": v_new[:2]}, aule.ArgumentError, "k_new: axis 0 has 2 elements, expected 3 as in q"),
            ({"k_new": k_new[:, :1], "v_new": v_new[:, :1]}, aule.ArgumentError, "k_new: axis 1"),
            ({"k_new": k_new.astype(np.float16), "v_new": v_new}, aule.ArgumentError, "k_new: dtype is f16, expected f32"),
            ({"k_new": k[:3, :, :2], "v_new": v_new}, aule.ArgumentError, "k: it is written and overlaps k_new"),
            ({"k_new": k_new, "v_new": v_new, "slots": np.zeros((3, 2), np.int64)}, aule.ArgumentError, "both 0: one slot for two rows"),
            ({"k_new": k_new, "v_new": v_new, "slots": np.zeros((3, 1), np.int64)}, aule.ArgumentError, "slots: axis 1"),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                f(q, k, v, **given, **lists)
        with self.assertRaisesRegex(aule.ArgumentError, "it is written and overlaps"):
            f(k[:3, :, :2].repeat(2, 1)[:, :4], k, k, k_new=k_new, v_new=v_new, **lists)
        with self.assertRaisesRegex(aule.ArgumentError, "T_lengths"):
            f(q, k, v, k_new=k_new, v_new=v_new, **lists | {"T_lengths": np.array([900, 1, 1], np.int32)})
        given = {"k_new": k_new, "v_new": v_new, "slots": np.arange(6, dtype=np.int64).reshape(3, 2)}
        for name, wrong in (("T_lengths", np.array([900, 1, 1], np.int32)), ("T_lengths", np.array([-1, 1, 1], np.int32)), ("T_table", lists["T_table"] + 1000)):
            with self.subTest(name), self.assertRaisesRegex(aule.ArgumentError, name):  # slots say where rows go, lists what is read then
                f(q, k, v, **given, **lists | {name: wrong})
        np.testing.assert_array_equal(k, before)
        with self.assertRaisesRegex(aule.Error, "no backward pass of .* a forward that was given new rows"):
            f.backward(f.forward(q, k.copy(), v.copy(), k_new=k_new, v_new=v_new, **lists), q)
        with self.assertRaisesRegex(aule.CompileError, "it takes no caches by `csr`|append"):
            csr = {"T_table": cache.table.ravel(), "T_table_starts": np.arange(0, 13, 4, dtype=np.int32), "T_lengths": cache.lengths}
            aule.compile(GQA, layout="T=paged:csr", optimize=1)(q, k, v, k_new=k_new, v_new=v_new, **csr)
        if torch is not None:
            with self.assertRaisesRegex(aule.ArgumentError, "k_new requires a gradient, and a call that appends has none"):
                f(*(torch.from_numpy(x) for x in (q, k, v)), k_new=torch.from_numpy(k_new.copy()).requires_grad_(), v_new=torch.from_numpy(v_new), **{n: torch.from_numpy(x) for n, x in lists.items()})

    @unittest.skipIf(torch is None, "torch is not there")
    def test_traced(self):
        """torch.compile has two operations of it, of which the first writes the caches."""
        f = aule.compile(GQA, layout="T=paged", optimize=1)
        results = []
        for call in (lambda *x, **named: f(*x, **named), torch.compile(lambda *x, **named: f(*x, **named), fullgraph=True, backend="aot_eager")):
            cache = self.filled(Cache("T=paged", [64, 3, 44], 2, E=32))
            k, v, k_new, v_new = (torch.from_numpy(x) for x in (*cache.caches, *cache.new))
            q = torch.from_numpy(cache.r.standard_normal((3, 4, 2, 32)).astype(np.float32))
            results.append([call(q, k, v, k_new=k_new, v_new=v_new, **{n: torch.from_numpy(x) for n, x in cache.named().items()}), k, v])
        same(*[[x.numpy() for x in one] for one in results])


if __name__ == "__main__":
    unittest.main()
