"""aule.vllm: steps as vLLM makes them, over its cache in both orders, against aule.attention of each request; with a stand-in for vLLM's interface
(vllm_standin.py), since vLLM itself is not here."""

from __future__ import annotations

import types
import unittest

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

    def __init__(self, impl, pages=40, size=16, stored=None):
        backend = aule.vllm.AuleBackend
        shape = backend.get_kv_cache_shape(pages, size, HK, D)
        order = backend.get_kv_cache_stride_order()
        memory = torch.full([shape[n] for n in order], 0x7F if stored else torch.nan, dtype=torch.uint8 if stored else torch.float32, device=DEVICE)
        self.cache = memory.permute([order.index(n) for n in range(5)])
        self.impl, self.size, self.stored = impl, size, stored
        self.builder = backend.get_builder_cls()(None, ["layer"], None, torch.device(DEVICE))
        self.free = list(range(pages))
        np.random.default_rng(0).shuffle(self.free)
        self.requests = []  # keys, values and pages of each
        self.layer = types.SimpleNamespace(_k_scale=torch.tensor(0.02, device=DEVICE), _v_scale=torch.tensor([0.02, 0.03], device=DEVICE))

    def step(self, counts, r, padding=0, causal=True):
        """New rows for each request, of which those with one come first; returns q, o and the keys and values of each."""
        rows, starts, table, slots = sum(counts), np.concatenate([[0], np.cumsum(counts)]), np.full((len(counts), 12), 10**6), []
        q = torch.from_numpy(r.standard_normal((rows + padding, H, D)).astype(np.float32)).to(DEVICE)
        k, v = (torch.from_numpy(r.standard_normal((rows + padding, HK, D)).astype(np.float32)).to(DEVICE) for _ in "kv")
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
        to = lambda x, t: torch.as_tensor(np.asarray(x), dtype=t, device=DEVICE)  # noqa: E731
        common = standin.CommonAttentionMetadata(
            to(starts, torch.int32), torch.from_numpy(starts).int(), to([len(one[0]) for one in self.requests], torch.int32), len(counts), rows, max(counts),
            1000, to(table, torch.int32), to(slots + [-1] * padding, torch.int64), causal,
        )
        o = torch.full_like(q, torch.nan)
        self.step_of = self.builder.build(0, common)
        self.impl.forward(self.layer, q, k, v, self.cache, self.step_of, o)
        return q, o, [(q[a:z], o[a:z], *one[:2]) for a, z, one in zip(starts, starts[1:], self.requests)]

    def kept(self, x, n):
        """Rows as they are after they were stored."""
        if self.stored is None:
            return x
        scale = (self.layer._k_scale, self.layer._v_scale)[n].reshape(-1, 1)
        return (x / scale).to(self.stored).float() * scale


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


if __name__ == "__main__":
    unittest.main()
