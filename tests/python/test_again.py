"""aule.decode's short way for calls like one before (python/aule/_again.py)."""

from __future__ import annotations

import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import aule
from aule import _again
from support import torch
from test_decode import Case, E, H


@unittest.skipUnless(torch, "needs torch")
class Again(unittest.TestCase):
    """Calls like one before take a short way (_again.py): to the bit the long one, and nothing goes it that should not."""

    def setUp(self):
        _again._kept.clear()
        case = Case(16, 1, False)
        self.lengths = torch.tensor(case.lengths)
        self.q, self.k, self.v, self.table = (torch.from_numpy(x) for x in (case.q, *case.caches, case.table))

    def call(self, **named):
        given = {"page_table": self.table, **named}
        return aule.decode(given.pop("q", self.q), given.pop("k_cache", self.k), given.pop("v_cache", self.v), given.pop("lengths", self.lengths), **given)

    def long(self, **named):
        with mock.patch.object(_again, "key_of", return_value=None):
            return self.call(**named)

    def equal(self, a, b):
        for x, y in zip(a if isinstance(a, tuple) else (a,), b if isinstance(b, tuple) else (b,)):
            self.assertEqual((x.shape, x.stride(), x.dtype), (y.shape, y.stride(), y.dtype))
            self.assertTrue(torch.equal(x, y))

    def test_new_values_at_new_addresses(self):
        for options in ({}, {"causal": False}, {"window": (20, 0), "softcap": 3.0}, {"scale": 0.3}, {"invariant": True}):
            first = self.call(**options, return_lse=True)
            count = len(_again._kept)
            with mock.patch.object(aule._decode, "_prepare", side_effect=AssertionError("the long way")):
                again = self.call(**options, return_lse=True)
                self.assertIsNot(again[0], first[0])
                self.equal(again, first)
                alone = self.call(**options)
            self.equal(alone, first[0])
            other = {"q": self.q * 2, "k_cache": self.k * 0.5, "v_cache": self.v + 1, "lengths": (self.lengths - 1).clamp(min=0), "page_table": self.table.clone()}
            self.equal(self.call(**other, **options, return_lse=True), self.long(**other, **options, return_lse=True))
            self.assertEqual(len(_again._kept), count)
        self.assertEqual(len(_again._kept), 5)

    def test_others_go_the_long_way(self):
        self.call()
        with mock.patch.object(_again, "run", wraps=_again.run) as run:
            def misses(**named):
                run.reset_mock()
                self.call(**named)
                self.assertTrue(not run.called or run.call_args[0][0] not in before, named)

            before = set(_again._kept)
            misses(q=self.q.repeat(1, 1, 1, 2)[..., ::2])  # other strides
            misses(q=self.q.half(), k_cache=self.k.half(), v_cache=self.v.half())
            misses(q=torch.nn.Parameter(self.q, requires_grad=False))
            misses(out=torch.empty(*self.q.shape[:3], E))
            misses(sinks=torch.zeros(H))
            with torch.autocast("cpu", torch.bfloat16):
                misses()
        with self.assertRaisesRegex(aule.ArgumentError, "requires a gradient"):
            self.call(q=self.q.clone().requires_grad_())
        for name in ("sinks", "alibi"):
            for table in (self.table, None):
                with self.assertRaisesRegex(aule.ArgumentError, f"aule.decode.*{name} requires a gradient"):
                    self.call(page_table=table, **{name: torch.zeros(H, requires_grad=True)})
        with self.assertRaisesRegex(aule.ArgumentError, "a cache in pages has a page_table"):
            self.call(page_table=None)
        with self.assertRaisesRegex((TypeError, aule.ArgumentError), "window"):
            self.call(window=[3, 0, 1])  # which no dictionary has
        with self.assertRaisesRegex((TypeError, aule.ArgumentError), "lengths"):
            self.call(lengths=self.lengths.long())
        for known, refused in ((5, True), ((5, 0), (True, False)), ((5, 0), (5.5, 0))):
            self.call(window=known)
            with self.assertRaisesRegex((TypeError, aule.ArgumentError), "window"):
                self.call(window=refused)
        with self.assertRaisesRegex(aule.Error, "torch.jit.trace"):
            torch.jit.trace(lambda q: self.call(q=q), (self.q,), check_trace=False)
        with self.assertRaisesRegex(aule.Error, "torch.jit.trace"):
            torch.jit.trace(lambda q: aule.attention(q, q, q), (self.q.swapaxes(1, 2),), check_trace=False)

    def test_options_that_change(self):
        """Tensors are looked at anew."""
        for name, first, then in (("scale", 0.3, 2.0), ("softcap", 5.0, 0.5), ("window", 3, 60)):
            option = torch.tensor(first)
            self.call(**{name: option})
            option.fill_(then)
            self.equal(self.call(**{name: option}), self.long(**{name: then}))
        scale = torch.tensor(0.3)
        self.call(scale=scale)
        with self.assertRaisesRegex(aule.ArgumentError, "scale requires a gradient"):
            self.call(scale=scale.requires_grad_())

    def test_wrong_numbers_are_told(self):
        """A call that fails on the short way says why on the long one."""
        self.call()
        self.assertTrue(_again._kept)
        wrong = self.lengths.clone()
        wrong[0] = 1 << 20
        with self.assertRaisesRegex(aule.Error, "lengths"):
            self.call(lengths=wrong)
        self.equal(self.call(), self.long())

    def test_no_more_are_kept_than_are_asked_for(self):
        for n in range(_again.MOST + 3):
            self.call(scale=0.1 + n / 1000)
        self.assertLessEqual(len(_again._kept), _again.MOST)

    def test_threads(self):
        want = self.long()
        with ThreadPoolExecutor(4) as pool:
            for made in pool.map(lambda _: self.call(), range(200)):
                self.equal(made, want)


if __name__ == "__main__":
    unittest.main()
