"""Gradients of packed queries and keys and of padded keys (docs/dev/serving.md), against dense calls of each sequence by itself: on the processor as
near as sums in other parts are, on OpenCL devices to the bit, whose kernels are the dense ones in blocks of sequences. NaN in rows of no sequence."""

from __future__ import annotations

import os
import unittest

import numpy as np

import aule
from support import FULL, OTHERS, ROOT
from test_layouts import INPUTS, PACKED, REST, SAME, SIZES, Rows, compiled, packing

try:
    import torch
except ImportError:
    torch = None

SCRIPTS = ROOT / "attn_scripts"
FEW = "gqa alibi block_causal rope mla_decode attention_sink qk_norm softmax_one mla_prefill".split()
NEAR = {np.float32: 4e-6, np.float16: 4e-3}  # of the largest gradient


def rows_like(r, o, end, dtype):
    """Gradients of the output: NaN behind the last sequence."""
    x = r.standard_normal(o.shape).astype(dtype)
    x[:, :, end:] = np.nan
    return x


def gradients(f, given, params, do, device="cpu"):
    results = f.forward(*[given[n] for n in "qkv" if n in given], **{n: x for n, x in given.items() if n not in "qkv"}, **params, device=device)
    return f.backward(results, do)


class Gradients(unittest.TestCase):
    def near(self, got, want, near, say):
        self.assertTrue(np.isfinite(got).all(), say)
        scale = max(float(np.abs(want.astype(np.float32)).max(initial=0)), 1e-2)
        np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=0, atol=near * scale, err_msg=say)

    def check(self, path, layout=None, pairs=None, dtype=np.float32, device="cpu", to_the_bit=False):
        dense = compiled(path)
        layout = layout or packing(dense)
        f = compiled(path, layout)
        pairs = pairs or (PACKED if "," in layout else SAME)
        rows = Rows(dense, pairs, SIZES | {"B": 1}, dtype)
        r = np.random.default_rng(5)
        do = rows_like(r, np.empty((1, SIZES["H"], rows.starts[0][-1] + REST, f.tensors[-2].axes[3] if isinstance(f.tensors[-2].axes[3], int) else 16)), rows.starts[0][-1], dtype)
        got = gradients(f, rows.tensors | rows.inputs | rows.named_starts(), rows.params, do, device)
        sums = {name: np.zeros(x.shape) for name, x in got.items() if name[1:] in rows.inputs}
        for b, (queries, keys) in enumerate(pairs):
            say = f"{path.name}, {dtype.__name__} on {device}: sequence {b}, {queries} queries of {keys} keys"
            span = {n: slice(*rows.starts[n != "dq"][b : b + 2]) for n in ("dq", "dk", "dv")}
            if not queries or not keys:
                for n, at in span.items():
                    self.assertFalse(n in got and got[n][:, :, at].any(), f"{n}, {say}")
                if not queries or rows.needs_keys():
                    continue
            want = gradients(dense, rows.of(b), rows.params, do[:, :, span["dq"]], device)
            for n, x in want.items():
                if n in sums:
                    rows.rows_in(n[1:], b, sums[n])[...] += x
                elif to_the_bit:
                    np.testing.assert_array_equal(got[n][:, :, span[n]], x, err_msg=f"{n}, {say}")
                else:
                    self.near(got[n][:, :, span[n]], x, NEAR[dtype], f"{n}, {say}")
        for n, x in sums.items():
            self.near(got[n], x, 10 * NEAR[dtype], f"{path.name}: {n}")
        for n, starts in (("dq", rows.starts[0]), ("dk", rows.starts[1]), ("dv", rows.starts[1])):
            self.assertFalse(n in got and got[n][:, :, starts[-1] :].any(), f"{path.name}: {n} of rows of no sequence")

    def test_scripts(self):
        for stem in (*FEW, *INPUTS):
            with self.subTest(stem):
                self.check(SCRIPTS / f"{stem}.attn")

    def test_half(self):
        for stem in ("gqa", "rope"):
            self.check(SCRIPTS / f"{stem}.attn", dtype=np.float16)

    def test_devices(self):
        if not OTHERS:
            self.skipTest("no device beside the processor")
        pairs = [(0, 3), (40, 70), (5, 0), (1, 1), (33, 33)]
        for stem, dtype in (("gqa", np.float32), ("documents", np.float32), ("block_causal", np.float16), ("pair_bias", np.float32), ("forgetting", np.float16))[: 5 if FULL else 1]:
            with self.subTest(stem):
                own = pairs if stem in ("gqa", "forgetting") else [(n, n) for n in (0, 70, 1, 33)]
                self.check(SCRIPTS / f"{stem}.attn", pairs=own, dtype=dtype, device=OTHERS[0], to_the_bit=True)

    def test_padded(self):
        """Keys of other lengths than the room there is; gradients behind them are 0."""
        lengths, queries, most = np.array([70, 0, 1, 96, 65], np.int32), 40, 96
        for stem in ("gqa", "alibi", "attention_sink", "rope"):
            dense, f = compiled(SCRIPTS / f"{stem}.attn"), compiled(SCRIPTS / f"{stem}.attn", "T=padded")
            r = np.random.default_rng(6)
            heads = {"q": 4, "k": 4 if stem == "alibi" else 2, "v": 4 if stem == "alibi" else 2}
            x = {n: r.standard_normal((len(lengths), h, queries if n == "q" else most, 16)).astype(np.float32) for n, h in heads.items()}
            for b, n in enumerate(lengths):
                x["k"][b, :, n:] = x["v"][b, :, n:] = np.nan
            inputs = {t.name: np.linspace(0.1, 0.4, 4).astype(np.float32) for t in dense.tensors if t.role == "input"}
            params = {p.name: 30 for p in dense.parameters if p.required}
            do = r.standard_normal((len(lengths), 4, queries, 16)).astype(np.float32)
            got = gradients(f, x | inputs | {"T_lengths": lengths}, params, do)
            sums = {f"d{name}": 0 for name in inputs if f"d{name}" in got}
            for b, n in enumerate(lengths):
                one = {"q": x["q"][b : b + 1], "k": x["k"][b : b + 1, :, :n], "v": x["v"][b : b + 1, :, :n]}
                want = gradients(dense, one | inputs, params, do[b : b + 1])
                self.near(got["dq"][b], want["dq"][0], 4e-6, f"{stem}: dq of {n} keys")
                for name in ("dk", "dv"):
                    self.near(got[name][b, :, :n], want[name][0], 4e-6, f"{stem}: {name} of {n} keys")
                    self.assertFalse(got[name][b, :, n:].any(), f"{stem}: {name} behind {n} keys")
                for name in sums:
                    sums[name] = sums[name] + want[name]
            for name, want in sums.items():
                self.near(got[name], want, 4e-5, f"{stem}: {name}")

    def test_keys_packed_alone(self):
        """Dense queries: each sequence has as many."""
        dense, f = compiled(SCRIPTS / "gqa.attn"), compiled(SCRIPTS / "gqa.attn", "T=packed")
        r, lengths = np.random.default_rng(7), [9, 0, 130, 1]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        q, do = (r.standard_normal((4, 4, 33, 16)).astype(np.float32) for _ in range(2))
        k, v = (r.standard_normal((1, 2, starts[-1] + REST, 16)).astype(np.float32) for _ in range(2))
        k[:, :, starts[-1] :] = v[:, :, starts[-1] :] = np.nan
        got = gradients(f, {"q": q, "k": k, "v": v, "T_starts": starts}, {}, do)
        for b in range(4):
            at = slice(*starts[b : b + 2])
            want = gradients(dense, {"q": q[b : b + 1], "k": k[:, :, at], "v": v[:, :, at]}, {}, do[b : b + 1])
            self.near(got["dq"][b], want["dq"][0], 4e-6, "dq")
            for name in ("dk", "dv"):
                self.near(got[name][:, :, at], want[name], 4e-6, name)
        self.assertFalse(got["dk"][:, :, starts[-1] :].any() or got["dv"][:, :, starts[-1] :].any())

    def test_embedding_model(self):
        """What a model's own gradients were (tests/data/README.md)."""
        data = {n: np.load(ROOT / f"tests/data/minilm_packed_layer0_{n}.npy").transpose(1, 0, 2)[None] for n in ("q", "k", "v", "dout", "dq", "dk", "dv")}
        starts = np.load(ROOT / "tests/data/minilm_packed_cu_seqlens.npy")
        text = "attention encoder { q: [B, H, S, D]; k: [B, H, S, D]; v: [B, H, S, E]; score_mod(s) = s * rsqrt(D); online softmax; }"
        f = aule.compile(text, layout="S=packed", optimize=1)
        got = gradients(f, {n: data[n] for n in "qkv"} | {"S_starts": starts}, {}, data["dout"])
        for n in ("dq", "dk", "dv"):
            self.near(got[n], data[n], 4e-6, n)

    def test_all_empty_and_no_rows(self):
        f = compiled(SCRIPTS / "gqa.attn", "S=packed,T=packed")
        for total in (0, 4):
            q, k, v, do = (np.full((1, h, total, 16), np.nan, np.float32) for h in (4, 2, 2, 4))
            none = np.zeros(4, np.int32)
            for x in gradients(f, {"q": q, "k": k, "v": v, "S_starts": none, "T_starts": none}, {}, do).values():
                self.assertFalse(x.any())

    def test_one_order(self):
        """Gradients of rows have one with --deterministic; those of inputs are refused by name, and keys in pages have none."""
        f = aule.compile(SCRIPTS / "gqa.attn", layout="S=packed,T=packed", optimize=1, deterministic=True)
        rows = Rows(compiled(SCRIPTS / "gqa.attn"), PACKED, SIZES | {"B": 1})
        do = np.ones((1, 4, rows.starts[0][-1] + REST, 16), np.float32)
        first, second = (gradients(f, rows.tensors | rows.named_starts(), {}, do) for _ in range(2))
        for n in ("dq", "dk", "dv"):
            np.testing.assert_array_equal(first[n], second[n])
        with self.assertRaisesRegex(aule.CompileError, "gradients of inputs in one order, of rows in a layout"):
            aule.compile(SCRIPTS / "alibi.attn", layout="S=packed,T=packed", optimize=1, deterministic=True)
        paged = compiled(SCRIPTS / "gqa.attn", "T=paged")
        with self.assertRaisesRegex(aule.Error, "no backward pass"):
            paged.backward(paged.forward(*(np.zeros((1, h, 16, 16), np.float32) for h in (4, 2, 2)), T_lengths=np.array([9], np.int32), T_table=np.zeros((1, 1), np.int32)), do[:, :, :16])

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch_compile(self):
        """Recorded by autograd, and in a graph without a break: the same bits."""
        f = aule.compile(SCRIPTS / "alibi.attn", layout="S=packed,T=packed", optimize=1)
        starts, keys = (torch.tensor(x, dtype=torch.int32) for x in ([0, 3, 3, 40, 41], [0, 5, 9, 60, 61]))
        torch.manual_seed(0)
        given = [torch.randn(1, 2, n, 16, requires_grad=True) for n in (43, 64, 64)] + [torch.tensor([0.5, 0.2], requires_grad=True)]

        def call(q, k, v, slope):
            return f(q, k, v, slope=slope, S_starts=starts, T_starts=keys)

        found = []
        for run in (call, torch.compile(call, fullgraph=True, backend="aot_eager")):
            o = run(*given)
            found.append([o.detach(), *torch.autograd.grad(o.square().sum(), given)])
        for x, y in zip(*found):
            self.assertTrue(torch.equal(x, y) and torch.isfinite(x).all())

    @unittest.skipUnless(os.environ.get("AULE_TEST_FULL_SIZES"), "all scripts, with AULE_TEST_FULL_SIZES")
    def test_all_scripts(self):
        for path in sorted(SCRIPTS.glob("*.attn")):
            with self.subTest(path.stem):
                try:
                    compiled(path, packing(compiled(path)))
                except aule.CompileError as error:
                    self.assertIn("--layout: axis ", str(error))
                    continue
                self.check(path)


if __name__ == "__main__":
    unittest.main()
