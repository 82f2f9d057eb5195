"""aule.attention_varlen: sequences one after the other, against aule.attention of each by itself; with torch, its gradients."""

from __future__ import annotations

import unittest

import numpy as np

import aule
from support import DEVICE, FULL, OTHERS, ROOT

try:
    import torch
except ImportError:
    torch = None

LENGTHS = [(3, 5), (0, 4), (1, 1), (17, 17), (6, 0), (130, 130), (20, 9), (1, 40)]
VULKAN = [d.id for d in aule.devices() if d.available and d.backend == "vulkan"][:1]  # without kernels of packed rows
H, HK, D, E, REST = 4, 2, 16, 24, 3


def starts_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def tensors():
    r = np.random.default_rng(3)
    starts = [starts_of([pair[n] for pair in LENGTHS]) for n in (0, 1)]
    q, k, v = (r.standard_normal((s[-1], h, w)).astype(np.float32) for s, h, w in ((starts[0], H, D), (starts[1], HK, D), (starts[1], HK, E)))
    rest = [np.full((REST, *x.shape[1:]), np.nan, np.float32) for x in (q, k, v)]
    return [np.concatenate([x, y]) for x, y in zip((q, k, v), rest)], starts


OPTIONS = (
    {},
    {"causal": True},
    {"causal": True, "window": 5, "softcap": 3.0},
    {"alibi": np.array([0.5, 0.25, 0.1, 0.0], np.float32), "sinks": np.array([0.5, -1.0, 0.0, 2.0], np.float32), "scale": 0.3},
)


def one(x, starts, b):
    return x[starts[b] : starts[b + 1]].transpose(1, 0, 2)[None]


class Varlen(unittest.TestCase):
    def test_each_sequence_by_itself(self):
        (q, k, v), (at, keys) = tensors()
        for options in OPTIONS:
            with self.subTest(**options):
                o, lse = aule.attention_varlen(q, k, v, at, keys, return_lse=True, **options)
                self.assertEqual((o.shape, lse.shape), ((len(q), H, E), (len(q), H)))
                self.assertFalse(o[at[-1] :].any(), "rows of no sequence")
                for b, (S, T) in enumerate(LENGTHS):
                    if S:
                        want, want_lse = aule.attention(one(q, at, b), one(k, keys, b), one(v, keys, b), return_lse=True, **options)
                        np.testing.assert_allclose(o[at[b] : at[b + 1]], want[0].transpose(1, 0, 2), rtol=2e-5, atol=8e-6, err_msg=f"{S} queries of {T} keys")
                        np.testing.assert_allclose(lse[at[b] : at[b + 1]], want_lse[0].T, rtol=2e-5, atol=8e-6)

    def test_devices(self):
        """On every device there is, a type in turn, f32 and f16: what the processor makes. Kernels clamp starts that are wrong. Without the window:
        docs/STATUS.md."""
        if not OTHERS:
            self.skipTest("no device beside the processor")
        arrays, (at, keys) = tensors()
        types = ((np.float32, 8e-6), (np.float16, 4e-3))
        for number, device in enumerate(OTHERS):
            for dtype, near in types if FULL else types[number % 2 :][:1]:
                q, k, v = (x.astype(dtype) for x in arrays)
                for options in (OPTIONS[0], OPTIONS[1], OPTIONS[3]):
                    with self.subTest(device=device, dtype=dtype, **options):
                        o, lse = aule.attention_varlen(q, k, v, at, keys, return_lse=True, backend=device, **options)
                        want, want_lse = aule.attention_varlen(q, k, v, at, keys, return_lse=True, backend="cpu", **options)
                        np.testing.assert_allclose(o.astype(np.float32), want.astype(np.float32), rtol=near, atol=near)
                        np.testing.assert_allclose(lse, want_lse, rtol=near, atol=near)
            f = aule.compile(aule.attention_script(*(x.transpose(1, 0, 2)[None] for x in arrays[:2])), layout="S=packed,T=packed")
            q, k, v = (np.nan_to_num(x).transpose(1, 0, 2)[None] for x in arrays)
            for wrong in ([7, 3, -9, 2**31 - 1], [-(2**31), 100, 50, 10**6]):
                starts = np.array(wrong, np.int32)
                self.assertTrue(np.isfinite(f(q, k, v, S_starts=starts, T_starts=starts[::-1].copy(), device=device)).all())

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_codes(self):
        """Packed keys of 8 bits, with a scale for all, for heads, for tokens: what their elements give."""
        (q, k, v), (at, keys) = tensors()
        q, starts = torch.from_numpy(q), [torch.from_numpy(x) for x in (at, keys)]
        for dtype, per, numbers in ((torch.float8_e4m3fn, "heads", torch.float32), (torch.int8, "tokens", torch.float16), (torch.float8_e5m2, "one", torch.float32)):
            most = 127 if dtype == torch.int8 else torch.finfo(dtype).max
            codes, named, exact = {}, {}, {}
            for name, x in (("k", k), ("v", v)):
                x = torch.from_numpy(x).nan_to_num(1.0)
                scale = {"heads": x.abs().amax((0, 2)), "tokens": x.abs().amax(2), "one": x.abs().max()}[per] / most
                scale = scale.to(numbers)
                each = (scale if per == "one" else scale[..., None]).float()
                scaled = x / each
                codes[name] = (scaled.round() if dtype == torch.int8 else scaled).clamp(-most, most).to(dtype)
                exact[name], named[f"{name}_scale"] = codes[name].float() * each, float(scale) if per == "one" else scale
            with self.subTest(dtype=dtype, per=per):
                o = aule.attention_varlen(q, codes["k"], codes["v"], *starts, causal=True, **named)
                want = aule.attention_varlen(q, exact["k"], exact["v"], *starts, causal=True)
                torch.testing.assert_close(o, want, rtol=2e-5, atol=1e-5)
        with self.assertRaisesRegex(aule.ArgumentError, r"k_scale is \[3\], expected a number, \[2\] for the heads, or \[\d+, 2\] for the tokens"):
            aule.attention_varlen(q, codes["k"], codes["v"], *starts, k_scale=torch.ones(3), v_scale=1.0)
        with self.assertRaisesRegex(aule.ArgumentError, "v is float8_e5m2 and needs v_scale"):
            aule.attention_varlen(q, codes["k"], codes["v"], *starts, k_scale=1.0)
        with self.assertRaisesRegex(aule.ArgumentError, "keys and values stored as codes have none"):
            aule.attention_varlen(q.clone().requires_grad_(), codes["k"], codes["v"], *starts, **named)
        with self.assertRaisesRegex(aule.Error, "vulkan has no kernels of packed keys stored as codes"):
            aule.attention_varlen(q, codes["k"], codes["v"], *starts, backend="vulkan", **named)

    def test_one_list(self):
        (q, _, _), (at, _) = tensors()
        o = aule.attention_varlen(q[:, :2], q[:, 2:], q[:, 2:], at)
        np.testing.assert_array_equal(o, aule.attention_varlen(q[:, :2], q[:, 2:], q[:, 2:], at, at))

    def test_no_sequence(self):
        """Starts are [0]: all rows are of no sequence; over pages tables and lengths have no rows."""
        (q, k, v), _ = tensors()
        none, empty = np.array([0], np.int32), np.array([0, 0], np.int32)
        for rows in (q, q[:0]):
            for options in (*OPTIONS, {"alibi": np.zeros((0, H), np.float32)}):
                for keys in (None, none):
                    o, lse = aule.attention_varlen(rows, k, v, none, keys, return_lse=True, **options)
                    self.assertEqual((o.shape, lse.shape), ((len(rows), H, E), (len(rows), H)))
                    self.assertFalse(o.any())
                    one = options if getattr(options.get("alibi"), "ndim", 1) == 1 else {"alibi": np.zeros((1, H), np.float32)}
                    np.testing.assert_array_equal(lse, aule.attention_varlen(rows, k, v, empty, return_lse=True, **one)[1])
        pages = [np.full((3, 16, HK, d), np.nan, np.float32) for d in (k.shape[2], E)]
        for entries in (2, 0):
            given = {"page_table": np.zeros((0, entries), np.int32), "seqused_k": np.zeros(0, np.int32)}
            for more in ({}, {"groups": none, "shared": np.zeros(0, np.int32)}):
                self.assertFalse(aule.attention_varlen(q, *pages, none, **given, **more).any())
        with self.assertRaisesRegex(aule.ArgumentError, "page_table has 1 rows, cu_seqlens_q has 0 sequences"):
            aule.attention_varlen(q, *pages, none, page_table=np.zeros((1, 2), np.int32), seqused_k=np.zeros(0, np.int32))
        with self.assertRaisesRegex(aule.ArgumentError, "alibi has 1 rows, cu_seqlens_q has 0 sequences"):
            aule.attention_varlen(q, k, v, none, alibi=np.zeros((1, H), np.float32))

    def test_refused(self):
        (q, k, v), (at, keys) = tensors()
        q, k, v = q[:9], k[:9], v[:9]
        i32 = lambda *values: np.array(values, np.int32)  # noqa: E731
        for more, message in (
            ((i32(1, 4, 9),), "cu_seqlens_q begins with 1, expected 0"),
            ((i32(0, 4, 9), i32(0, 5, 3)), "cu_seqlens_k decreases at 2: 3 after 5"),
            ((i32(0, 4, 10),), "cu_seqlens_q ends with 10, q has 9 rows"),
            ((i32(0, 4, 9), i32(0, 9)), "cu_seqlens_q has 3 elements, cu_seqlens_k has 2"),
            ((i32(),), "cu_seqlens_q has no elements, expected .* 1 at least"),
            ((i32(3),), "cu_seqlens_q begins with 3, expected 0"),
            ((i32(0), i32(0, 9)), "cu_seqlens_q has 1 elements, cu_seqlens_k has 2"),
            ((np.array([0, 9]),), r"cu_seqlens_q is int64 of 1 axes, expected int32 \[B \+ 1\]"),
        ):
            with self.subTest(message), self.assertRaisesRegex(aule.ArgumentError, message):
                aule.attention_varlen(q, k, v, *more)
        with self.assertRaisesRegex(aule.ArgumentError, r"q has 4 axes, expected \[total, H, D\]"):
            aule.attention_varlen(q[None], k, v, i32(0, 9))
        with self.assertRaisesRegex(TypeError, "cu_seqlens_q must be a tensor, it is list"):
            aule.attention_varlen(q, k, v, [0, 9])


@unittest.skipIf(torch is None, "torch is not installed")
class Gradients(unittest.TestCase):
    def test_embedding_model(self):
        """Forward and gradients of sentences of all-MiniLM-L6-v2, which were captured (tests/data/README.md)."""
        names = ("q", "k", "v", "out", "dout", "dq", "dk", "dv")
        data = {name: torch.from_numpy(np.load(ROOT / f"tests/data/minilm_packed_layer0_{name}.npy")) for name in names}
        starts = torch.from_numpy(np.load(ROOT / "tests/data/minilm_packed_cu_seqlens.npy"))
        q, k, v = (data[name].clone().requires_grad_() for name in "qkv")
        with torch.no_grad():
            packed = aule.attention_varlen(q, k, v, starts)
        o = aule.attention_varlen(q, k, v, starts)
        o.backward(data["dout"])
        for got, want in ((packed, "out"), (o.detach(), "out"), (q.grad, "dq"), (k.grad, "dk"), (v.grad, "dv")):
            scale = data[want].abs().max().item()
            torch.testing.assert_close(got, data[want], rtol=1e-5, atol=4e-6 * max(scale, 1.0), msg=lambda text: f"{want}: {text}")

    def test_no_sequence(self):
        """Nothing has a gradient that is not 0, of packed kernels and where each sequence is a call."""
        (q, k, v), _ = tensors()
        for backend in ("cpu", *VULKAN):
            for starts in ([0], [0, 0, 0]):
                with self.subTest(backend=backend, starts=starts):
                    leaves = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
                    aule.attention_varlen(*leaves, torch.tensor(starts, dtype=torch.int32), backend=backend).sum().backward()
                    self.assertFalse(any(x.grad.any() for x in leaves))

    def test_meta_tensors(self):
        """Shapes without data, starts among them."""
        q, k, v = (torch.from_numpy(x).to("meta") for x in tensors()[0])
        for n in (4, 1):
            starts = torch.empty(n, dtype=torch.int32, device="meta")
            o, lse = aule.attention_varlen(q, k, v, starts, starts, return_lse=True)
            self.assertEqual((o.device.type, tuple(o.shape), tuple(lse.shape)), ("meta", (len(q), H, E), (len(q), H)))

    def test_rows_of_no_sequence(self):
        (q, k, v), (at, keys) = tensors()
        q, k, v = (torch.from_numpy(x).requires_grad_() for x in (q, k, v))
        with torch.no_grad():
            want, want_lse = aule.attention_varlen(q, k, v, torch.from_numpy(at), torch.from_numpy(keys), causal=True, return_lse=True)
        o, lse = aule.attention_varlen(q, k, v, torch.from_numpy(at), torch.from_numpy(keys), causal=True, return_lse=True)
        torch.testing.assert_close(o, want, rtol=2e-5, atol=8e-6)
        torch.testing.assert_close(lse, want_lse, rtol=2e-5, atol=8e-6)
        o.sum().backward()
        for x, starts in ((q, at), (k, keys), (v, keys)):
            self.assertTrue(torch.isfinite(x.grad).all())
            self.assertFalse(x.grad[starts[-1] :].any())

    def test_in_one_order(self):
        """torch.use_deterministic_algorithms: gradients of slopes and sinks are summed in one order, which packed kernels cannot; of anything else nothing changes."""
        (q, k, v), (at, keys) = tensors()
        q, k, v, at, keys = (torch.from_numpy(x) for x in (q, k, v, at, keys))
        q, k, v = (x[: starts[-1]] for x, starts in ((q, at), (k, keys), (v, keys)))
        slopes = torch.rand(q.shape[1])

        def gradients(deterministic):
            torch.use_deterministic_algorithms(deterministic)
            self.addCleanup(torch.use_deterministic_algorithms, False)
            leaves = [x.clone().requires_grad_() for x in (q, k, v, slopes)]
            o = aule.attention_varlen(*leaves[:3], at, keys, causal=True, alibi=leaves[3])
            o.square().sum().backward()
            return [o.detach(), *(x.grad for x in leaves)]

        for got, again, want in zip(gradients(True), gradients(True), gradients(False)):
            torch.testing.assert_close(got, again, rtol=0, atol=0)
            torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-5 * want.abs().max().item())


@unittest.skipUnless(torch is not None and DEVICE.startswith("cuda"), "for a GPU: AULE_TEST_DEVICE=cuda")
class Cuda(unittest.TestCase):
    """Packed rows on matrix units, against the processor's kernels in f32."""

    def given(self, dtype, lengths=LENGTHS, width=64):
        torch.manual_seed(4)
        starts = [starts_of([pair[n] for pair in lengths]) for n in (0, 1)]
        rows = [torch.randn(s[-1] + REST, h, width) for s, h in ((starts[0], H), (starts[1], HK), (starts[1], HK))]
        for x, s in zip(rows, (starts[0], starts[1], starts[1])):
            x[s[-1] :] = float("nan")
        return [x.to(DEVICE, dtype) for x in rows], [torch.from_numpy(s).to(DEVICE) for s in starts]

    def test_each_sequence_by_itself(self):
        for dtype, near in ((torch.float16, 3e-3), (torch.bfloat16, 2e-2), (torch.float32, 2e-5)):
            (q, k, v), (at, keys) = self.given(dtype)
            for options in OPTIONS:
                with self.subTest(dtype=dtype, **options):
                    on = {name: torch.from_numpy(x).to(DEVICE) if isinstance(x, np.ndarray) else x for name, x in options.items()}
                    o, lse = aule.attention_varlen(q, k, v, at, keys, return_lse=True, **on)
                    arrays = (x.float().cpu().numpy() for x in (q, k, v))
                    want, want_lse = aule.attention_varlen(*arrays, at.cpu().numpy(), keys.cpu().numpy(), return_lse=True, **options)
                    self.assertFalse(o[at[-1] :].any(), "rows of no sequence")
                    np.testing.assert_allclose(o.float().cpu().numpy(), want, rtol=near, atol=near)
                    np.testing.assert_allclose(lse.cpu().numpy(), want_lse, rtol=near, atol=near)

    def test_in_a_graph(self):
        """Nothing waits for starts, and a replay takes those that are there by then, wrong ones too."""
        (q, k, v), _ = self.given(torch.bfloat16, ((300, 300),))
        at = torch.tensor([0, 40, 300], dtype=torch.int32, device=DEVICE)
        aule.attention_varlen(q, k, v, at, causal=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o = aule.attention_varlen(q, k, v, at, causal=True)
        for values in ((0, 300, 300), (0, 129, 130), (0, 0, 0), (0, 1, 300)):
            at.copy_(torch.tensor(values, dtype=torch.int32))
            graph.replay()
            torch.testing.assert_close(o, aule.attention_varlen(q, k, v, at, causal=True), rtol=0, atol=0)
        for values in ((7, -9, 2**31 - 1), (-(2**31), 100, 50)):
            at.copy_(torch.tensor(values, dtype=torch.int32))
            q[300:], k[300:], v[300:] = 0, 0, 0
            graph.replay()
            self.assertTrue(torch.isfinite(o).all())

    def test_over_pages(self):
        """To the bit what packed keys give, whose tiles have as many keys for sm_90: NaN in free slots, wild entries behind each line."""
        (q, k, v), (at, keys) = self.given(torch.bfloat16)
        text = aule.attention_script(*(x.transpose(0, 1)[None] for x in (q, k)), causal=True)
        packed, paged = (aule.compile(text, layout=f"S=packed,T={how}", archs="sm_90") for how in ("packed", "paged"))
        slots, entries, starts = 16, 10, keys.tolist()
        pools = [torch.full((len(LENGTHS) * entries, HK, slots, 64), float("nan"), device=DEVICE, dtype=q.dtype) for _ in "kv"]
        table = torch.randperm(len(LENGTHS) * entries).view(len(LENGTHS), entries)
        for b, (_, length) in enumerate(LENGTHS):
            for j in range(length):
                for pool, x in zip(pools, (k, v)):
                    pool[table[b, j // slots], :, j % slots] = x[starts[b] + j]
            table[b, -(-length // slots) :] = (-1, 2**31 - 1)[b % 2]
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        given = {"T_table": table.to(DEVICE, torch.int32), "T_lengths": keys.diff(), "S_starts": at}
        torch.testing.assert_close(paged(q, *pools, **given), packed(q, k, v, S_starts=at, T_starts=keys), rtol=0, atol=0)


if __name__ == "__main__":
    unittest.main()
