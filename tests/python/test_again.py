"""aule.decode's short way for calls like one before (python/aule/_again.py)."""

from __future__ import annotations

import unittest
from pathlib import Path
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import aule
from aule import _again, _reading, _workspaces
from aule._decode import _calls
from support import torch
from test_decode import Case, E, H


SCRIPT = """attention scaled {
    q: [B, H, S, D];
    k: [B, H, T, D];
    v: [B, H, T, E];
    param t: f32 = 1.0;
    score_mod(score) = score * t;
    online softmax;
}"""

if torch:

    class Marked(torch.Tensor):
        """Of a class that may do something else with it."""


@unittest.skipUnless(torch, "needs torch")
class Again(unittest.TestCase):
    """Calls like one before take a short way (_again.py): to the bit the long one, and nothing goes it that should not."""

    def setUp(self):
        _calls.clear()
        case = Case(16, 1, False)
        self.lengths = torch.tensor(case.lengths)
        self.q, self.k, self.v, self.table = (torch.from_numpy(x) for x in (case.q, *case.caches, case.table))

    def call(self, **named):
        given = {"page_table": self.table, **named}
        return aule.decode(given.pop("q", self.q), given.pop("k_cache", self.k), given.pop("v_cache", self.v), given.pop("lengths", self.lengths), **given)

    def long(self, **named):
        with mock.patch.object(_again, "like", return_value=None):
            return self.call(**named)

    def equal(self, a, b):
        for x, y in zip(a if isinstance(a, tuple) else (a,), b if isinstance(b, tuple) else (b,)):
            self.assertEqual((x.shape, x.stride(), x.dtype), (y.shape, y.stride(), y.dtype))
            self.assertTrue(torch.equal(x, y))

    def test_new_values_at_new_addresses(self):
        for options in ({}, {"causal": False}, {"window": (20, 0), "softcap": 3.0}, {"scale": 0.3}, {"invariant": True}):
            first = self.call(**options, return_lse=True)
            self.call(**options)
            count = len(_calls)
            with mock.patch.object(aule._decode, "_prepare", side_effect=AssertionError("the long way")):
                again = self.call(**options, return_lse=True)
                self.assertIsNot(again[0], first[0])
                self.equal(again, first)
                alone = self.call(**options)
            self.equal(alone, first[0])
            other = {"q": self.q * 2, "k_cache": self.k * 0.5, "v_cache": self.v + 1, "lengths": (self.lengths - 1).clamp(min=0), "page_table": self.table.clone()}
            self.equal(self.call(**other, **options, return_lse=True), self.long(**other, **options, return_lse=True))
            self.assertEqual(len(_calls), count)
        self.assertEqual(len(_calls), 10)

    def test_others_go_the_long_way(self):
        self.call()
        with mock.patch.object(_calls, "run", wraps=_calls.run) as run:
            def misses(**named):
                run.reset_mock()
                self.call(**named)
                self.assertTrue(not run.called or run.call_args[0][0] is None or run.call_args[0][0][0] not in before, named)

            before = set(_calls._kept)
            misses(q=self.q.repeat(1, 1, 1, 2)[..., ::2])  # other strides
            misses(q=self.q.half(), k_cache=self.k.half(), v_cache=self.v.half())
            misses(q=torch.nn.Parameter(self.q, requires_grad=False))
            misses(sinks=torch.nn.Buffer(torch.zeros(H)) if not hasattr(torch.nn, "Buffer") else torch.zeros(H).as_subclass(Marked))
            misses(sinks=torch.zeros(H))
            misses(sinks=[0.0] * H)
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

    def short(self, f):
        """Nothing but the short way."""
        with mock.patch.object(aule._plans.Runner, "run", side_effect=AssertionError("the long way")):
            return f()

    def test_new_rows(self):
        """They are written and seen; the caches count a version more, as those know who saved them."""
        self.k.nan_to_num_(), self.v.nan_to_num_()
        new = {"k": torch.randn(self.q.shape[0], 1, *self.k.shape[2:]), "v": torch.randn(self.q.shape[0], 1, *self.v.shape[2:])}
        self.call(**new)
        for turn in range(3):
            new = {name: torch.randn_like(x) for name, x in new.items()}
            caches = [x.clone() for x in (self.k, self.v)]
            want = self.long(**new, k_cache=caches[0], v_cache=caches[1])
            before = self.k._version
            self.equal(self.short(lambda: self.call(**new)), want)
            self.equal((self.k, self.v), tuple(caches))
            self.assertGreater(self.k._version, before)

    def test_new_rows_that_lie_in_the_cache(self):
        """What is read must not be written: as long as it was far from it that is known, and then looked at again."""
        k, v = (torch.randn(self.q.shape[0], 1, *x.shape[2:]) for x in (self.k, self.v))
        self.call(k=k, v=v)
        self.short(lambda: self.call(k=k, v=v))
        inside = self.k.as_strided(k.shape, k.stride())
        with self.assertRaisesRegex(aule.ArgumentError, "overlap"):
            self.call(k=inside, v=v)

    def test_given_outputs(self):
        out = torch.empty(*self.q.shape[:3], E)
        want = self.long()
        self.call(out=out)
        out.zero_()
        version = out._version
        self.assertIs(self.short(lambda: self.call(out=out)), out)
        self.equal(out, want)
        self.assertGreater(out._version, version)
        q = self.q.clone()
        if q.shape == out.shape:
            with self.assertRaisesRegex(aule.ArgumentError, "overlap"):
                self.call(q=q, out=q)

    def test_other_tensors_of_a_call(self):
        """Sinks and slopes at new addresses; parameters of a module, under no_grad, too."""
        for options in ({"sinks": torch.randn(H)}, {"alibi": torch.rand(H)}, {"sinks": torch.nn.Parameter(torch.randn(H))}):
            with torch.no_grad():
                self.call(**options)
                other = {name: x + 1 for name, x in options.items()}
                self.equal(self.short(lambda: self.call(**options)), self.long(**options))
                self.equal(self.call(**other), self.long(**other))

    def test_codes(self):
        """Scales that are numbers belong to the call, those that are tensors are looked at."""
        codes = {"k_cache": (self.k * 10).to(torch.int8), "v_cache": (self.v * 10).to(torch.int8)}
        for k_scale, v_scale in ((0.1, 0.2), (0.3, 0.2), (torch.tensor(0.1), 0.2), (torch.rand(self.k.shape[2]), torch.rand(self.v.shape[2]))):
            given = {**codes, "k_scale": k_scale, "v_scale": v_scale}
            self.call(**given)
            self.equal(self.short(lambda: self.call(**given)), self.long(**given))
            if isinstance(k_scale, torch.Tensor):
                k_scale += 0.5
                self.equal(self.call(**given), self.long(**given))

    def test_one_cache_for_both(self):
        """Keys and values in the same memory first, then in their own."""
        k, v = self.k[..., : min(self.k.shape[3], E)], self.v[..., : min(self.k.shape[3], E)]
        k, v = (torch.empty_strided(k.shape, k.contiguous().stride()).copy_(x) for x in (k, v))
        if k.shape != v.shape:
            return
        q = self.q[..., : k.shape[3]].contiguous()
        self.call(q=q, k_cache=k, v_cache=k)
        self.equal(self.call(q=q, k_cache=k, v_cache=v), self.long(q=q, k_cache=k, v_cache=v))

    def test_steps(self):
        """Layers of a step, which have one list; the next step has other lengths at the same place."""
        step = aule.serving.Step()
        for turn in range(3):
            step.begin()
            self.lengths.copy_((self.lengths - 1).clamp(min=0))
            want = self.long()
            self.equal(self.call(schedule=step), want)
            self.equal(self.call(schedule=step), want)
            other = (self.lengths - 2).clamp(min=0)
            self.equal(self.call(schedule=step, lengths=other), self.long(lengths=other))
        self.equal(self.short(lambda: self.call(schedule=step)), want)

    def test_layers_of_a_step_that_differ(self):
        """Lists are of an attention and its parameters: layers of two attentions with the same tensors, in one step, have their own."""
        scripts = Path(__file__).resolve().parents[2] / "attn_scripts"
        fs = [aule.compile(scripts / f"{name}.attn") for name in ("gqa", "rope")]
        starts = torch.tensor([0, 5, 5, 135, 150], dtype=torch.int32)
        q, k, v = torch.randn(1, 4, 150, 32), *torch.randn(2, 1, 2, 150, 32)
        step = aule.serving.Step()
        for turn in range(4):
            starts[1:4] = torch.tensor([[5, 5, 135], [1, 60, 61], [0, 149, 150], [10, 20, 30]][turn])
            step.begin()
            axes = {"S": aule.packed(starts), "T": aule.packed(starts)}
            with mock.patch.object(_again, "like", return_value=None):
                want = [f(q, k, v, axes=axes) for f in fs]
            for f, w in list(zip(fs, want))[:: -1 if turn == 0 else 1]:
                self.equal(f(q, k, v, axes=axes, schedule=step), w)
        windowed = aule.compile(scripts / "sliding_window.attn")
        step.begin()
        for window in (9, 100, 9, 100):
            got = windowed(q, k, v, axes=axes, schedule=step, window=window)
            with mock.patch.object(_again, "like", return_value=None):
                self.equal(got, windowed(q, k, v, axes=axes, window=window))

    def test_layers_with_codes(self):
        """Caches of integers differ from layer to layer; lists do not depend on them."""
        step, codes = aule.serving.Step(), [torch.randint(-9, 9, (2, *self.k.shape[:3], 24), dtype=torch.int8) for _ in range(3)]
        def layer(x):
            return self.call(k_cache=x[0][..., : self.k.shape[3]], v_cache=x[1][..., :E], k_scale=0.1, v_scale=0.1, schedule=step)

        for _ in range(2):
            step.begin()
            for x in codes:
                layer(x)
        for x in codes:
            self.short(lambda: layer(x))

    def test_plain_attention(self):
        q, k, v = (torch.randn(2, 4, n, 16) for n in (5, 7, 7))
        for options in ({}, {"causal": True, "return_lse": True}, {"window": (3, 0)}, {"bias": torch.randn(5, 7)}, {"scale": 0.5, "softcap": 2.0}):
            first = aule.attention(q, k, v, **options)
            with mock.patch.object(aule._plain, "_prepare", side_effect=AssertionError("the long way")):
                self.equal(self.short(lambda: aule.attention(q, k, v, **options)), first)
            with mock.patch.object(_again, "like", return_value=None):
                want = aule.attention(q * 2, k, v, **options)
            self.equal(aule.attention(q * 2, k, v, **options), want)
        inside = q.transpose(1, 2).contiguous().transpose(1, 2)  # heads inside, as results then are
        self.equal(aule.attention(inside, k, v), aule.attention(inside, k, v))
        dropped = [aule.attention(q, k, v, dropout=0.5) for _ in range(3)]
        self.assertFalse(torch.equal(dropped[0], dropped[1]) and torch.equal(dropped[1], dropped[2]))
        leaf = q.clone().requires_grad_()
        for _ in range(2):
            aule.attention(leaf, k, v).sum().backward()
        self.assertEqual(leaf.grad.shape, q.shape)

    def test_scripts(self):
        """Calls of compiled attentions: parameters are numbers of the call, not of what it is like."""
        f = aule.compile(SCRIPT)
        q, k, v = (torch.randn(1, 2, n, 16) for n in (3, 5, 5))
        f(q, k, v, t=0.5)
        for t in (0.25, 1.5, 3):
            o = f(q, k, v, t=t)
            with mock.patch.object(_again, "like", return_value=None):
                self.equal(o, f(q, k, v, t=t))
        self.short(lambda: f(q, k, v, t=0.75))
        with self.assertRaises((TypeError, aule.ArgumentError)):
            f(q, k, v, t="0.5")
        out = torch.empty_like(q)
        self.assertIs(f(q, k, v, t=0.5, out=out), out)
        self.assertIs(self.short(lambda: f(q, k, v, t=0.5, out=out)), out)
        with self.assertRaisesRegex(aule.ArgumentError, "overlap"):
            f(q, k, v, t=0.5, out=q)

    def test_wrong_numbers_are_told(self):
        """A call that fails on the short way says why on the long one."""
        self.call()
        self.assertTrue(len(_calls))
        wrong = self.lengths.clone()
        wrong[0] = 1 << 20
        with self.assertRaisesRegex(aule.Error, "lengths"):
            self.call(lengths=wrong)
        self.equal(self.call(), self.long())

    def test_no_more_are_kept_than_are_asked_for(self):
        for n in range(_again.MOST + 3):
            self.call(scale=0.1 + n / 1000)
        self.assertLessEqual(len(_calls), _again.MOST)

    def test_threads(self):
        want = self.long()
        with ThreadPoolExecutor(4) as pool:
            for made in pool.map(lambda _: self.call(), range(200)):
                self.equal(made, want)

    def test_what_tensors_are(self):
        """Read at once by torch's table, or one attribute after the other: the same calls are alike, and tensors that do something of their own are not read."""
        ways = [_reading._read_each, _reading._exchange(torch)]
        self.assertTrue(ways[1] or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"))
        x, i = torch.zeros(3, 4, 5), torch.arange(6, dtype=torch.int32)
        same = torch.zeros(3, 4, 5)
        # of one element of an axis the stride is nobody's, and results have it all the same
        others = (torch.zeros(3, 4, 6), torch.zeros(3, 20), torch.zeros(3, 5, 4).mT, torch.zeros(3, 4, 5, dtype=torch.int32), torch.zeros(61)[1:].view(3, 4, 5), torch.zeros(3, 4, 5).half(), torch.zeros(3, 4, 5).bfloat16())
        for read in filter(None, ways):
            key, places = read((x, None, i))
            self.assertEqual(places, (x.data_ptr(), 0, i.data_ptr(), 0))
            self.assertEqual(read((same, None, i.clone()))[0], key)
            keys = [key, read((x, i, None))[0], read((x, i))[0], read((x, None, i.long()))[0], *[read((y, None, i))[0] for y in others]]
            self.assertEqual([n for n in range(len(keys)) if keys[n] in keys[:n]], [])
            self.assertNotEqual(read((torch.zeros(1, 4), i))[0], read((torch.zeros(1, 8)[:, :4], i))[0])
            self.assertIsNone(read((x, torch.zeros(0))))
            self.assertIsNone(read((x, torch.eye(3).to_sparse())))
            self.assertIsNone(read((x, torch.zeros(2, device="meta"))))
            self.assertIsNone(read((x,) * 700) if read is not _reading._read_each else None)
            self.assertEqual(read((x, None, i)), (key, places))
        negative = torch.zeros(3, dtype=torch.complex64).conj().imag
        self.assertTrue(negative.is_neg())
        self.assertIsNone(_again.like((), (x, negative)))
        self.assertIsNone(_again.like((), (x, torch.zeros(3).as_subclass(Marked))))
        self.assertIsNone(_again.like((), (x, [1.0])))
        self.assertIsNone(_again.like((), (x, torch.zeros(3, requires_grad=True))))
        with torch.no_grad():
            self.assertIsNotNone(_again.like((), (x, torch.zeros(3, requires_grad=True))))
        for watched in (torch.autocast("cpu", torch.bfloat16), torch.autograd.forward_ad.dual_level(), torch.utils._python_dispatch.TorchDispatchMode()):
            with watched:
                self.assertIsNone(_again.like((), (x, i)))
        self.assertIsNotNone(_again.like((), (x, i)))

    def test_memory_of_streams(self):
        """Runs on a stream take the same memory one after the other, calls beside them, larger ones and other streams their own."""
        byte = torch.empty(1, dtype=torch.uint8)
        with mock.patch.object(_workspaces, "_streams", {}) as streams:
            first = _workspaces.take_on((0, 7), byte, 1000, 256)
            self.assertEqual((first.data % 256, first.size), (0, 1000))
            self.assertLessEqual(first.data + 1000, first.tensor.data_ptr() + first.tensor.numel())
            beside = _workspaces.take_on((0, 7), byte, 1000, 256)
            self.assertIsNot(beside, first)
            _workspaces.give_back_on((0, 7), first)
            for other in ((0, 8), (1, 7)):
                self.assertIsNot(_workspaces.take_on(other, byte, 10, 256), first)
            self.assertIs(_workspaces.take_on((0, 7), byte, 10, 256), first)
            for size, align in ((1001, 256), (1000, 512)):
                _workspaces.give_back_on((0, 7), first)
                self.assertIsNot(_workspaces.take_on((0, 7), byte, size, align), first)
            large = _workspaces.take_on((0, 7), byte, _workspaces.ON_STREAM + 1, 256)
            _workspaces.give_back_on((0, 7), large)
            self.assertEqual(streams, {})
            for n in range(3 * _workspaces.STREAMS):
                _workspaces.give_back_on((0, n), first)
            self.assertLessEqual(len(streams), _workspaces.STREAMS)

    def test_calls_within_calls(self):
        """Memory of a call is its own, whoever calls meanwhile."""
        want, inner = self.long(), []
        self.call()
        kept = next(iter(_calls._kept.values()))
        queue = kept.queue

        def meanwhile():
            kept.queue = queue
            inner.append(self.call(q=self.q * 2))
            return queue()

        kept.queue = meanwhile
        self.equal(self.short(self.call), want)
        self.equal(inner[0], self.long(q=self.q * 2))


@unittest.skipUnless(torch, "needs torch")
class ByAttributes(Again):
    """As with torch of before 2.10."""

    def setUp(self):
        super().setUp()
        known = _reading.of_torch(torch)
        patch = mock.patch.object(known, "read", _reading._read_each)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(_calls.clear)


if __name__ == "__main__":
    unittest.main()
