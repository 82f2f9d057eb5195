"""aule.vllm: steps as vLLM makes them, over its cache in both orders, against aule.attention of each request; with a stand-in for vLLM's interface
(vllm_standin.py), since vLLM itself is not here."""

from __future__ import annotations

import os
import types
import unittest
import warnings
from unittest import mock

import numpy as np

import aule
from support import DEVICE, torch

if torch is not None:
    import vllm_standin as standin

    standin.install()
    import aule.vllm

H, HK, D = 4, 2, 32


class Engine:
    """Requests with their tokens in pages of a cache of one layer, as the library keeps them."""

    def __init__(self, impl, pages=40, size=16, stored=None, entries=12, mode="FULL_AND_PIECEWISE", dtype=None):
        backend = aule.vllm.AuleBackend
        shape = backend.get_kv_cache_shape(pages, size, HK, D)
        order = backend.get_kv_cache_stride_order()
        self.dtype = dtype or torch.float32
        memory = torch.full([shape[n] for n in order], 0x7F if stored else torch.nan, dtype=torch.uint8 if stored else self.dtype, device=DEVICE)
        self.cache = memory.permute([order.index(n) for n in range(5)])
        self.impl, self.size, self.stored, self.entries = impl, size, stored, entries
        self.builder = backend.get_builder_cls()(None, ["layer"], standin.config(standin.CUDAGraphMode[mode]), torch.device(DEVICE))
        self.free = list(range(pages))
        np.random.default_rng(0).shuffle(self.free)
        self.requests = []  # keys, values and pages of each
        self.layer = types.SimpleNamespace(_k_scale=torch.tensor(0.02, device=DEVICE), _v_scale=torch.tensor([0.02, 0.03], device=DEVICE))

    def step(self, counts, r, padding=0, causal=True, prefix=0, captured=None):
        """New rows for each request, of which those with one come first; returns q, o and the keys and values of each."""
        rows, starts, table, slots = sum(counts), np.concatenate([[0], np.cumsum(counts)]), np.full((len(counts), self.entries), 10**6), []
        q, k, v = (torch.from_numpy(r.standard_normal((rows + padding, h, D))).to(DEVICE, self.dtype) for h in (H, HK, HK))
        while len(self.requests) < len(counts):
            self.requests.append([k[:0], v[:0], []])
        for b, request in enumerate(self.requests):
            request[:2] = [torch.cat([old, self.kept(x[starts[b] : starts[b + 1]], n)]) for n, (old, x) in enumerate(zip(request, (k, v)))]
            length = len(request[0])
            while len(request[2]) * self.size < length:
                request[2].append(self.free.pop())
            table[b, : len(request[2])] = request[2]
            slots += [request[2][n // self.size] * self.size + n % self.size for n in range(length - counts[b], length)]
        if self.impl.kv_sharing_target_layer_name is not None:
            raise unittest.SkipTest("writes nothing")
        lengths = [len(one[0]) for one in self.requests]
        if captured is not None:
            o = captured.replay(q, k, v, starts, lengths, table, slots)
        else:
            common, o = self.common(starts, lengths, table, slots + [-1] * padding, causal=causal), torch.full_like(q, torch.nan)
            self.step_of = self.builder.build(prefix, common)
            self.impl.forward(self.layer, q, k, v, self.cache, self.step_of, o)
        return q, o, [(q[a:z], o[a:z], *one[:2]) for a, z, one in zip(starts, starts[1:], self.requests)]

    @staticmethod
    def common(starts, lengths, table, slots, most=None, causal=True):
        to = lambda x, t: torch.as_tensor(np.asarray(x), dtype=t, device=DEVICE)  # noqa: E731
        return standin.CommonAttentionMetadata(
            to(starts, torch.int32), torch.from_numpy(np.array(starts)).int(), to(lengths, torch.int32), len(lengths), int(starts[-1]),
            int(np.diff(starts).max()) if most is None else most, 1000, to(table, torch.int32), to(slots, torch.int64), causal,
        )

    def some(self, which, counts):
        """What their last rows see, as a step of these requests alone, for a layer that writes nothing."""
        pages = [self.requests[b][2] for b in which]
        table = [one + [10**6] * (self.entries - len(one)) for one in pages]
        starts = np.concatenate([[0], np.cumsum([counts[b] for b in which])])
        return self.common(starts, [len(self.requests[b][0]) for b in which], table, [-1] * int(starts[-1]))

    def kept(self, x, n):
        """Rows as they are after they were stored."""
        if self.stored is None:
            return x
        scale = (self.layer._k_scale, self.layer._v_scale)[n].reshape(-1, 1)
        return (x / scale).to(self.stored).float() * scale


class Captured:
    """A step in a graph, captured with a dummy of so many requests: its tensors stay where they are and are written again before each replay. Where there are
    no graphs, two layers are called again with the same ones, of which the host then knows what it knew before."""

    def __init__(self, engine, rows, requests, each, most, **options):
        self.engine, self.rows = engine, rows
        starts = [min(n * each, rows) for n in range(requests)] + [rows]
        self.common = engine.common(starts, [rows] * requests, np.zeros((requests, engine.entries)), [-1] * rows, most=most)
        self.q, self.k, self.v = (torch.zeros(rows, h, D, dtype=engine.dtype, device=DEVICE) for h in (H, HK, HK))
        self.o, self.second = torch.zeros_like(self.q), torch.zeros_like(self.q)
        self.layers = [engine.impl, aule.vllm.AuleImpl(H, D, 0.2, HK, kv_sharing_target_layer_name="layer", **options)]
        self.step = engine.builder.build_for_cudagraph_capture(self.common)
        self.graph = None
        if DEVICE != "cpu":
            aside = torch.cuda.Stream()  # the library warms up with the same step
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                self.run()
            aside.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.run()
            self.step = self.layers = None  # a graph outlives them

    def run(self):
        for layer, o in zip(self.layers, (self.o, self.second)):
            layer.forward(self.engine.layer, self.q, self.k, self.v, self.engine.cache, self.step, o)

    def replay(self, q, k, v, starts, lengths, table, slots):
        c, count, rows = self.common, len(lengths), len(q)
        for x, new in ((self.q, q), (self.k, k), (self.v, v)):
            x[:rows], x[rows:] = new, torch.nan
        for x, new, fill in ((c.query_start_loc, starts, rows), (c.seq_lens, lengths, 0), (c.block_table_tensor, table, 0), (c.slot_mapping, slots, -1)):
            x[: len(new)], x[len(new) :] = torch.as_tensor(np.asarray(new), dtype=x.dtype, device=DEVICE), fill
        assert count <= len(c.seq_lens) and rows <= self.rows
        self.o.fill_(torch.nan), self.second.fill_(torch.nan)
        self.run() if self.graph is None else self.graph.replay()
        torch.testing.assert_close(self.o, self.second, rtol=0, atol=0)
        torch.testing.assert_close(self.o[rows:], torch.zeros_like(self.o[rows:]))  # rows that fill up
        return self.o[:rows].clone()


@unittest.skipIf(torch is None, "torch is not installed")
class Steps(unittest.TestCase):
    def check(self, options, wanted, layout="NHD", size=16, stored=None, causal=True):
        standin.layout[0] = layout
        named = {"kv_cache_dtype": {None: "auto", torch.float8_e4m3fn: "fp8", torch.float8_e5m2: "fp8_e5m2"}[stored]}
        engine = Engine(aule.vllm.AuleImpl(H, D, 0.2, HK, **named, **options), size=size, stored=stored)
        r = np.random.default_rng(1)
        for counts in ([5, 40, 17], [1, 1, 1], [1, 20, 3], [1, 1, 1, 1], [1, 1, 1, 30], [2, 1, 1, 1]):  # prompts, rows that decode, chunks beside them
            _, _, made = engine.step(counts, r, causal=causal)
            self.assertEqual(engine.step_of.singles, next((n for n, count in enumerate(counts) if count > 1), len(counts)))
            for q, o, k, v in made:
                q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
                want = aule.attention(q, k, v, scale=0.2, **{"causal": causal} | wanted)
                torch.testing.assert_close(o, want[0].transpose(0, 1), rtol=1e-4, atol=2e-5)

    def close(self, made, **options):
        for q, o, k, v in made:
            q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
            near = {"rtol": 1e-4, "atol": 2e-5} if o.dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
            torch.testing.assert_close(o, aule.attention(q, k, v, scale=0.2, **{"causal": True} | options)[0].transpose(0, 1), **near)

    def switch(self, on):
        """VLLM_BATCH_INVARIANT, until the test ends."""
        switched = mock.patch.dict(os.environ, {"VLLM_BATCH_INVARIANT": str(int(on))})
        switched.start()
        self.addCleanup(switched.stop)

    def calls(self):
        """What is asked of decode and attention_varlen, until the test ends."""
        made = []
        for name in ("decode", "attention_varlen"):
            through = getattr(aule.vllm, name)
            patch = mock.patch.object(aule.vllm, name, side_effect=lambda *a, name=name, through=through, **n: (made.append((name, n)), through(*a, **n))[1])
            patch.start()
            self.addCleanup(patch.stop)
        return made

    def test_results_that_do_not_depend_on_the_batch(self):
        """The bits of a request are those of a step of it alone, of one in another order, and of one beside others."""
        standin.layout[0] = "NHD"
        self.switch(True)
        for dtype, options, wanted in ((None, {}, {}), (None, {"sliding_window": 300}, {"window": 300}), (torch.bfloat16, {}, {})):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                engine = Engine(aule.vllm.AuleImpl(H, D, 0.2, HK, **options), pages=260, entries=140, dtype=dtype)
            reader, r = aule.vllm.AuleImpl(H, D, 0.2, HK, kv_sharing_target_layer_name="layer", **options), np.random.default_rng(2)
            engine.step([1100, 17, 70, 3, 1], r)
            for counts in ([1, 1, 1, 1, 1], [1, 1, 40, 3, 200], [1, 1, 3, 2, 1]):
                calls = self.calls()
                _, _, made = engine.step(counts, r)
                self.assertEqual([(name, n["invariant"]) for name, n in calls], [("attention_varlen", True)])
                self.close(made, **wanted)
                for which in ([0], [1], [4], [2, 3], [4, 0, 2], [0] * 20):
                    q = torch.cat([made[b][0] for b in which])
                    o = reader.forward(engine.layer, q, None, None, engine.cache, engine.builder.build(0, engine.some(which, counts)), torch.full_like(q, torch.nan))
                    self.assertTrue(torch.equal(o, torch.cat([made[b][1] for b in which])), f"{which} of {counts}")

    def test_without_the_switch(self):
        standin.layout[0] = "NHD"
        self.switch(False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine = Engine(aule.vllm.AuleImpl(H, D, 0.2, HK))
        calls = self.calls()
        engine.step([1, 1, 20], np.random.default_rng(0))
        self.assertEqual([(name, n["invariant"], "groups" in n) for name, n in calls], [("decode", False, False), ("attention_varlen", False, False)])
        self.assertEqual(calls[1][1]["max_seqlen_q"], 20)

    def test_what_the_switch_warns_of(self):
        """Where other requests may say where a prompt is cut."""
        self.switch(True)
        make = lambda **on: aule.vllm.AuleMetadataBuilder(None, [], standin.config(**on), None)  # noqa: E731
        with self.assertWarnsRegex(UserWarning, "with enable_chunked_prefill and enable_prefix_caching other requests may say"):
            make()
        with self.assertWarnsRegex(UserWarning, "with enable_prefix_caching other requests"):
            make(chunked=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            make(chunked=False, caching=False)

    def test_prefixes(self):
        """Requests whose first pages are the same ones: read once for those that have one row each; with the switch for each."""
        slopes, many = [0.5, 0.25, 0.1, 0.05], 9
        for layout, stored, options, wanted in (
            ("NHD", None, {}, {}), ("HND", None, {"alibi_slopes": slopes}, {"alibi": torch.tensor(slopes, device=DEVICE)}), ("NHD", torch.float8_e4m3fn, {}, {}),
            ("HND", None, {"sliding_window": 50, "logits_soft_cap": 3.0}, {"window": 50, "softcap": 3.0}),
        ):
            standin.layout[0] = layout
            for mode in ("FULL_AND_PIECEWISE", "FULL"):
                made = aule.vllm.AuleImpl(H, D, 0.2, HK, kv_cache_dtype="fp8" if stored else "auto", **options)
                engine, r = Engine(made, pages=80, stored=stored, mode=mode), np.random.default_rng(3)
                engine.step([64], r)
                k, v, pages = engine.requests[0]
                engine.requests += [[k, v, list(pages)] for _ in range(many - 1)]
                for counts in ([1] * many, [1] * (many - 1) + [20], [5] + [1] * (many - 1)):
                    calls = self.calls()
                    _, o, made = engine.step(counts, r, prefix=64)
                    singles = counts.index(max(counts)) if max(counts) > 1 else many
                    said = [(n["groups"].tolist(), n["shared"].tolist()) for name, n in calls if "groups" in n]
                    self.assertEqual((said, len(calls)), ([([0, singles], [64])] if singles else [], 1 + (0 < singles < many)))
                    self.assertTrue(all(name == "decode" for name, n in calls if "groups" in n))
                    self.close(made, **wanted)
                    apart = engine.builder.build(0, engine.some(range(many), counts))
                    reader = aule.vllm.AuleImpl(H, D, 0.2, HK, kv_sharing_target_layer_name="layer", kv_cache_dtype=engine.impl.kv_cache_dtype, **options)
                    q = torch.cat([one[0] for one in made])
                    without = reader.forward(engine.layer, q, None, None, engine.cache, apart, torch.full_like(q, torch.nan))
                    torch.testing.assert_close(o, without, rtol=1e-5, atol=1e-6)
        self.switch(True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            builder = Engine(engine.impl).builder
        self.assertEqual(builder.build(64, engine.some(range(many), counts)).prefix, {})
        self.assertFalse(self.pays(builder))

    @staticmethod
    def pays(builder, prefix=8192, rows=(1,) * 64, window=False, local=False, world=1):
        return builder.use_cascade_attention(
            common_prefix_len=prefix, query_lens=np.array(rows, np.int32), num_query_heads=H, num_kv_heads=HK, use_alibi=False, use_sliding_window=window,
            use_local_attention=local, num_sms=132, dcp_world_size=world,
        )

    def test_whether_a_prefix_pays(self):
        builder = aule.vllm.AuleMetadataBuilder(None, [], standin.config(), None)
        for named in ({}, {"prefix": 512}, {"rows": (1,) * 8 + (500,)}, {"rows": (1,) * 200, "prefix": 256}):
            self.assertIs(self.pays(builder, **named), True, named)
        for named in (
            {"prefix": 0}, {"prefix": 496}, {"rows": (1,) * 7}, {"rows": (4,) * 64}, {"rows": (1,) * 4000, "prefix": 240}, {"window": True}, {"local": True},
            {"world": 2},
        ):
            self.assertIs(self.pays(builder, **named), False, named)

    def check_captured(self, mode, rows, requests, each, most, steps, prompts, dtype=None, entries=12, **options):
        standin.layout[0] = "NHD"
        engine, r = Engine(aule.vllm.AuleImpl(H, D, 0.2, HK, **options), pages=400, entries=entries, mode=mode, dtype=dtype), np.random.default_rng(4)
        captured = Captured(engine, rows, requests, each, most, **options)
        engine.step(prompts, r)
        for counts in steps:
            del engine.requests[len(counts) :]
            engine.requests.reverse()  # other lengths in the same places
            with self.subTest(mode=mode, most=most, counts=counts):
                self.close(engine.step(counts, r, captured=captured)[2], **({"window": options["sliding_window"]} if options else {}))

    def test_captured_steps(self):
        """Steps in a graph of whose requests the host knows as much as when it was captured: how many rows there are room for, and no more."""
        singles, drafts = [[1] * 6, [1] * 6, [1] * 4, [1]], [[3] * 4, [3] * 4, [3] * 2]
        mixed = [[1, 1, 1, 1, 1, 19], [1, 1, 20, 2], [24], [1] * 6, [3] * 6, [1, 1, 5, 7, 4, 6], [24]]
        prompts = [30, 5, 70, 20, 16, 1]
        for switched in (False, True):
            self.switch(switched)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.check_captured("FULL_AND_PIECEWISE", 6, 6, 1, 1, singles, prompts)
                self.check_captured("FULL_DECODE_ONLY", 12, 4, 3, 3, drafts, prompts[:4])
                for most in (24, 4):  # what is said of the dummy is either
                    self.check_captured("FULL", 24, 6, 4, most, mixed, prompts)
                self.check_captured("FULL", 24, 6, 4, 24, mixed, prompts, sliding_window=9)
                for most in (6, 1):  # a dummy of single rows stands for any other step of as many
                    self.check_captured("FULL", 6, 6, 1, most, [[1, 5], [6], [2, 1, 3], [1] * 6], prompts)

    def test_captured_lists(self):
        """Enough requests of long caches that kernels of a GPU have a list of who reads what: made in each replay of the lengths that are there then."""
        prompts, many = [1500, 3, 900, 40, 1, 700, 64, 1200, 17, 300], 10
        singles, mixed = [[1] * many] * 3 + [[1] * 8], [[1] * 9 + [31], [1] * many, [4] * many, [1] * 8, [1] * 3 + [37], [40]]
        for switched in (False, True):
            self.switch(switched)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                more = {"dtype": torch.bfloat16, "entries": 128}
                self.check_captured("FULL_AND_PIECEWISE", many, many, 1, 1, singles, prompts, **more)
                self.check_captured("FULL_AND_PIECEWISE", 4 * many, many, 4, 4, [[4] * many] * 3 + [[4] * 8], prompts, **more)
                self.check_captured("FULL", 4 * many, many, 4, 4, mixed, prompts, **more)

    def test_a_step_that_stands_for_others(self):
        """Rows of which the library says that there are more of a request than any has are a dummy's."""
        builder = Engine(aule.vllm.AuleImpl(H, D, 0.2, HK)).builder
        made = lambda most: builder.build(0, Engine.common(range(7), [6] * 6, np.zeros((6, 12)), [-1] * 6, most=most))  # noqa: E731
        self.assertEqual([(made(most).singles, made(most).most) for most in (1, 6)], [(6, 1), (0, 6)])

    def test_another_pass_with_the_same_step(self):
        """Lists of work are a pass's, not a step's: a draft's next step has other lengths in the same tensors."""
        standin.layout[0] = "NHD"
        one, two = aule.vllm.AuleImpl(H, D, 0.2, HK), aule.vllm.AuleImpl(H, D, 0.2, HK)
        engine = Engine(one)
        engine.step([1, 1], np.random.default_rng(0))
        step = engine.builder.build(0, engine.some([0, 1], [1, 1]))
        first = step._lists_of(one)
        self.assertIs(step._lists_of(two), first)
        again = step._lists_of(one)
        self.assertIsNot(again, first)
        self.assertIs(step._lists_of(two), again)

    def test_steps_that_are_filled_up(self):
        """More rows than requests with one row each have: of nobody, and 0."""
        standin.layout[0] = "NHD"
        engine = Engine(aule.vllm.AuleImpl(H, D, 0.2, HK))
        q, _, made = engine.step([1, 1, 1], np.random.default_rng(0))
        common = engine.some([0, 1, 2], [1, 1, 1])
        common.num_actual_tokens, common.slot_mapping = 5, torch.full((5,), -1, device=DEVICE)
        q, kv = torch.cat([q, q[:2]]), torch.full((5, HK, D), torch.nan, device=DEVICE)
        o = engine.impl.forward(engine.layer, q, kv, kv, engine.cache, engine.builder.build(0, common), torch.full_like(q, torch.nan))
        torch.testing.assert_close(o[:3], torch.cat([one[1] for one in made]), rtol=0, atol=0)
        self.assertFalse(o[3:].any())

    def test_orders_and_pages(self):
        for layout in ("NHD", "HND"):
            for size in (16, 48):
                self.check({}, {}, layout, size)

    def test_options(self):
        slopes, sinks = [0.5, 0.25, 0.1, 0.05], torch.randn(H, device=DEVICE)
        self.check({"sliding_window": 7}, {"window": 7})
        self.check({"logits_soft_cap": 3.0, "sinks": sinks}, {"softcap": 3.0, "sinks": sinks})
        self.check({"alibi_slopes": slopes}, {"alibi": torch.tensor(slopes, device=DEVICE)}, "HND")
        self.check({"logits_soft_cap": 0.0}, {}, causal=False)

    def test_fp8(self):
        for layout, stored in (("NHD", torch.float8_e4m3fn), ("HND", torch.float8_e5m2)):
            self.check({}, {}, layout, stored=stored)

    def test_rows_that_pad(self):
        """They have slot -1; no slot but those of requests is written."""
        standin.layout[0] = "NHD"
        engine = Engine(aule.vllm.AuleImpl(H, D, 0.2, HK))
        for counts in ([3, 20], [1, 1]):
            _, o, made = engine.step(counts, np.random.default_rng(0), padding=5)
            self.assertFalse(any(one[1].isnan().any() for one in made))
        written = ~engine.cache.isnan().any((1, 3, 4))
        self.assertEqual(int(written.sum()), 4 + 21)

    def test_a_layer_that_shares_the_cache_of_another(self):
        standin.layout[0] = "NHD"
        engine = Engine(aule.vllm.AuleImpl(H, D, 0.2, HK))
        q, o, _ = engine.step([3, 20], np.random.default_rng(0))
        before = engine.cache.clone()
        sharing = aule.vllm.AuleImpl(H, D, 0.2, HK, kv_sharing_target_layer_name="layer")
        again = sharing.forward(engine.layer, q, None, None, engine.cache, engine.step_of, torch.full_like(o, torch.nan))
        torch.testing.assert_close(again, o, rtol=0, atol=0)
        torch.testing.assert_close(engine.cache, before, rtol=0, atol=0, equal_nan=True)

    def test_encoders(self):
        standin.layout[0] = "NHD"
        impl = aule.vllm.AuleImpl(H, D, 0.2, HK, attn_type="encoder_only")
        engine = Engine(aule.vllm.AuleImpl(H, D, 0.2, HK))
        q, _, made = engine.step([3, 20], np.random.default_rng(0))
        k, v = (torch.cat([one[n] for one in made]) for n in (2, 3))
        o = impl.forward(None, q, k, v, None, engine.step_of, torch.full_like(q, torch.nan))
        for at, (q, _, k, v) in zip((slice(0, 3), slice(3, 23)), made):
            want = aule.attention(*(x.transpose(0, 1)[None] for x in (q, k, v)), scale=0.2)
            torch.testing.assert_close(o[at], want[0].transpose(0, 1), rtol=1e-4, atol=2e-5)

    def test_what_the_library_asks(self):
        backend = aule.vllm.AuleBackend
        aule.vllm.register()
        self.assertEqual(standin.registered, {standin.AttentionBackendEnum.CUSTOM: "aule.vllm.AuleBackend"})
        self.assertEqual((backend.get_name(), backend.get_supported_kernel_block_sizes()[0].base), ("CUSTOM", 16))
        self.assertTrue(backend.supports_sink() and backend.supports_attn_type("encoder_only") and not backend.supports_attn_type("encoder_decoder"))
        self.assertTrue(backend.supports_batch_invariance())
        self.assertIs(backend.get_builder_cls().get_cudagraph_support(standin.config(), None), standin.AttentionCGSupport.ALWAYS)
        for standin.layout[0], order in (("NHD", [0, 1, 2, 3, 4]), ("HND", [0, 1, 3, 2, 4])):
            self.assertEqual(list(backend.get_kv_cache_stride_order()), order)
            self.assertEqual(sorted(backend.get_kv_cache_stride_order(True)), list(range(6)))
        o = torch.full((4, H, D), torch.nan)
        self.assertFalse(aule.vllm.AuleImpl(H, D, 0.2).forward(None, o, o, o, o, None, o).any())  # a run that measures memory

    def test_refusals(self):
        make = lambda **named: aule.vllm.AuleImpl(H, D, 0.2, HK, **named)  # noqa: E731
        for named, message in (
            ({"attn_type": "encoder_decoder"}, "no attention of type encoder_decoder"),
            ({"kv_cache_dtype": "int8"}, "kv_cache_dtype is int8, expected auto"),
            ({"sinks": torch.zeros(3)}, r"sinks is \[3\], expected \[4\]"),
            ({"use_alibi_sqrt": True}, "aule has no use_alibi_sqrt in its backend"),
        ):
            with self.assertRaisesRegex(aule.ArgumentError, message):
                make(**named)
        make(use_alibi_sqrt=False, chunk=None)
        with self.assertRaisesRegex(aule.ArgumentError, "pages have 8 slots, expected a multiple of 16"):
            aule.vllm.AuleBackend.get_kv_cache_shape(4, 8, HK, D)
        x = torch.zeros(1, H, D)
        with self.assertRaisesRegex(aule.Error, "does not quantize the output"):
            make().forward(None, x, x, x, x, None, x, output_scale=x)
        standin.AttentionImpl.world = 2
        self.addCleanup(setattr, standin.AttentionImpl, "world", 1)
        with self.assertRaisesRegex(aule.ArgumentError, "context parallelism is not supported"):
            make()
        standin.layout[0] = "DNH"
        with self.assertRaisesRegex(aule.ArgumentError, "in the order DNH"):
            aule.vllm.AuleBackend.get_kv_cache_stride_order()
        common = types.SimpleNamespace(causal=torch.ones(2, dtype=torch.bool))
        with self.assertRaisesRegex(aule.ArgumentError, "causal is a tensor"):
            aule.vllm.AuleMetadataBuilder(None, [], None, None).build(0, common)
        common = types.SimpleNamespace(causal=True, mm_req_doc_ranges={0: [(1, 4)]})
        with self.assertRaisesRegex(aule.ArgumentError, r"see those behind them \(mm_req_doc_ranges\) are not supported"):
            aule.vllm.AuleMetadataBuilder(None, [], None, None).build(0, common)


if __name__ == "__main__":
    unittest.main()
