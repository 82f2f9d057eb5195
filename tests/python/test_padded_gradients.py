"""Gradients of padded queries (docs/dev/serving.md), keys dense, padded, packed or of the same axis: against dense calls of each sequence by itself, on the processor as
near as sums in other parts are, on OpenCL devices to the bit. Behind each length q, k, v, gradients of the output and inputs are NaN."""

from __future__ import annotations

import os
import unittest

import numpy as np

import aule
import test_layout_gradients
from support import DEVICE, OTHERS, ROOT
from test_layout_gradients import FEW, NEAR, gradients
from test_layouts import FIRST_ALONE, INPUTS, SIZES, Rows, compiled, packing, starts_of

try:
    import torch
except ImportError:
    torch = None

SCRIPTS = ROOT / "attn_scripts"
QUERIES = [130, 0, 1, 37, 64, 13, 2, 127]  # all of the room but REST, none, one, primes
KEYS = [70, 9, 0, 130, 1, 129, 97, 127]
MORE = (3, 5)  # room that no sequence uses
ENCODER = "attention encoder { q: [B, H, S, D]; k: [B, H, S, D]; v: [B, H, S, E]; score_mod(s) = s * rsqrt(D); online softmax; }"


class Padded:
    """What a call of padded rows is given, and of each sequence by itself."""

    def __init__(self, dense, pairs, dtype=np.float32, keys_end=True):
        self.rows = Rows(dense, pairs, SIZES | {"B": 1}, dtype)
        self.pairs, axes = pairs, self.rows.axes
        self.room = [max(p[n] for p in pairs) + (MORE[n] if n == 0 or keys_end else 0) for n in (0, 1)]
        if self.rows.shared:
            self.room[1] = self.room[0]
        self.given = {name: self.spread([x[:, :, slice(*self.rows.starts[name != "q"][b : b + 2])] for b in range(len(pairs))], self.room[name != "q"]) for name, x in self.rows.tensors.items()}
        for t in dense.tensors:
            if t.role != "input":
                continue
            x = self.rows.inputs[t.name]
            shape = [len(pairs) if a == "B" else self.room[axes.index(a)] if a in axes else n for a, n in zip(t.axes, x.shape)]
            out = np.full(shape, np.nan if x.dtype.kind == "f" else 77, x.dtype)
            for b in range(len(pairs)):
                mine = self.rows.rows_in(t.name, b) if "B" in t.axes else x
                out[tuple(slice(b, b + 1) if a == "B" else slice(0, n) for a, n in zip(t.axes, mine.shape))] = mine
            self.given[t.name] = out
        self.axes = {t.name: t.axes for t in dense.tensors if t.role == "input"}

    def spread(self, rows, room):
        out = np.full((len(rows), rows[0].shape[1], room, *rows[0].shape[3:]), np.nan, rows[0].dtype)
        for b, x in enumerate(rows):
            out[b, :, : x.shape[2]] = x[0]
        return out

    def lengths(self):
        return {f"{axis}_lengths": np.array([p[n] for p in self.pairs], np.int32) for n, axis in enumerate(self.rows.axes)}

    def of_input(self, name, b, x):
        """What sequence b has of an input, or its gradient."""
        at = [slice(b, b + 1) if a == "B" else slice(0, self.pairs[b][self.rows.axes.index(a)]) if a in self.rows.axes else slice(None) for a in self.axes[name]]
        return x[(*at, ...)]


def output_gradients(case, width, dtype, seed=5):
    r = np.random.default_rng(seed)
    return case.spread([r.standard_normal((1, SIZES["H"], queries, width)).astype(dtype) for queries, _ in case.pairs], case.room[0])


class PaddedQueries(unittest.TestCase):
    near = test_layout_gradients.Gradients.near

    def check(self, path, keys="padded", dtype=np.float32, device="cpu", to_the_bit=False, pairs=None):
        dense = compiled(path)
        axes = dict.fromkeys(t.axes[2] for t in dense.tensors if t.role in ("q", "k"))
        layout = ",".join(f"{axis}={how}" for axis, how in zip(axes, ("padded", keys)) if how)
        if not pairs:
            pairs = [(n, n if len(axes) == 1 else m if keys else 130) for n, m in zip(QUERIES, KEYS)]
        f, case = compiled(path, layout), Padded(dense, pairs, dtype, keys_end=bool(keys))
        width = next(t.axes[3] for t in f.tensors if t.name == "o")
        width = width if isinstance(width, int) else SIZES["E"]
        do = output_gradients(case, width, dtype)
        lists = case.lengths() if keys else {k: x for k, x in case.lengths().items() if k == f"{case.rows.axes[0]}_lengths"}
        got = gradients(f, case.given | lists, case.rows.params, do, device)
        sums = {name: np.zeros(x.shape) for name, x in got.items() if name[1:] in case.axes}
        for b, (queries, n_keys) in enumerate(pairs):
            say = f"{path.name}, {layout}, {dtype.__name__} on {device}: sequence {b}, {queries} queries of {n_keys} keys"
            length = {"dq": queries, "dk": n_keys, "dv": n_keys}
            for n in length.keys() & got.keys():
                self.assertFalse(got[n][b, :, length[n] :].any(), f"{n} behind the end, {say}")
            if not queries or not n_keys:
                for n in length.keys() & got.keys():
                    self.assertFalse(got[n][b].any(), f"{n}, {say}")
                if not queries or case.rows.needs_keys():
                    continue
            if path.stem in FIRST_ALONE and b:
                continue
            want = gradients(dense, case.rows.of(b), case.rows.params, do[b : b + 1, :, :queries], device)
            for n, x in want.items():
                if n in sums:
                    case.of_input(n[1:], b, sums[n])[...] += x
                elif to_the_bit:
                    np.testing.assert_array_equal(got[n][b, :, : length[n]], x[0], err_msg=f"{n}, {say}")
                else:
                    self.near(got[n][b, :, : length[n]], x[0], NEAR[dtype], f"{n}, {say}")
        for n, x in sums.items():
            self.near(got[n], x, 10 * NEAR[dtype], f"{path.name}, {layout}: {n}")
        return got

    def test_scripts(self):
        for stem in (*FEW, *INPUTS):
            with self.subTest(stem):
                self.check(SCRIPTS / f"{stem}.attn")

    def test_dense_keys(self):
        for stem in ("gqa", "alibi", "attention_sink", "rope", "gated", "mla_prefill"):
            with self.subTest(stem):
                self.check(SCRIPTS / f"{stem}.attn", keys=None)

    def test_half(self):
        for stem in ("gqa", "forgetting"):
            self.check(SCRIPTS / f"{stem}.attn", dtype=np.float16)

    def test_devices(self):
        if not OTHERS:
            self.skipTest("no device beside the processor")
        pairs = [(40, 70), (0, 3), (5, 0), (1, 1), (33, 33)]
        for stem, dtype in (("gqa", np.float32), ("documents", np.float32), ("forgetting", np.float16)):
            with self.subTest(stem):
                own = pairs if stem != "documents" else [(n, n) for n in (70, 0, 1, 33)]
                # By matrix units of 16-bit types gradients are sums in other parts, and on sm_90a in any order
                same = dtype == np.float32 or DEVICE == "cpu"
                self.check(SCRIPTS / f"{stem}.attn", dtype=dtype, device=OTHERS[0], to_the_bit=same, pairs=own)

    def test_wild_lengths(self):
        """Where memory is a device's nobody looks at lists: lengths are kept within the rooms, what comes out is finite."""
        if not OTHERS:
            self.skipTest("no device beside the processor")
        f, r = compiled(SCRIPTS / "gqa.attn", "S=padded,T=padded"), np.random.default_rng(3)
        given = {n: r.standard_normal((4, h, rows, 16)).astype(np.float32) for n, h, rows in (("q", 4, 40), ("k", 2, 70), ("v", 2, 70))}
        lists = {"S_lengths": np.array([-1, 2**31 - 1, 41, 7], np.int32), "T_lengths": np.array([9, -(2**31), 71, 2**31 - 1], np.int32)}
        kept = {"S_lengths": np.array([0, 40, 40, 7], np.int32), "T_lengths": np.array([9, 0, 70, 70], np.int32)}
        do = r.standard_normal((4, 4, 40, 16)).astype(np.float32)
        got, want = (gradients(f, given | x, {}, do, OTHERS[0]) for x in (lists, kept))
        for n, x in want.items():
            np.testing.assert_array_equal(got[n], x, err_msg=n)

    def test_beside_packed_keys(self):
        """Queries that are padded, of keys one sequence behind the other."""
        dense, f = compiled(SCRIPTS / "alibi.attn"), compiled(SCRIPTS / "alibi.attn", "S=padded,T=packed")
        case = Padded(dense, list(zip(QUERIES, KEYS)))
        do, starts = output_gradients(case, SIZES["E"], np.float32), starts_of(KEYS)
        keys = {n: case.rows.tensors[n] for n in "kv"}
        got = gradients(f, case.given | keys | {"S_lengths": np.array(QUERIES, np.int32), "T_starts": starts}, case.rows.params, do)
        slope = 0
        for b, (queries, n_keys) in enumerate(case.pairs):
            self.assertFalse(got["dq"][b, :, queries:].any())
            if not queries or not n_keys:
                continue
            want = gradients(dense, case.rows.of(b), case.rows.params, do[b : b + 1, :, :queries])
            self.near(got["dq"][b, :, :queries], want["dq"][0], NEAR[np.float32], "dq")
            for n in ("dk", "dv"):
                self.near(got[n][:, :, slice(*starts[b : b + 2])], want[n], NEAR[np.float32], n)
            slope = slope + want["dslope"]
        self.near(got["dslope"], slope, 4e-5, "dslope")

    def test_all_empty(self):
        f = compiled(SCRIPTS / "alibi.attn", "S=padded,T=padded")
        q, k, v, do = (np.full((3, 4, 20, 16), np.nan, np.float32) for _ in range(4))
        none = np.zeros(3, np.int32)
        given = {"q": q, "k": k, "v": v, "slope": np.ones(4, np.float32), "S_lengths": none, "T_lengths": none}
        for n, x in gradients(f, given, {}, do).items():
            self.assertFalse(x.any(), n)

    def test_one_order(self):
        """With deterministic=True gradients of rows have the same bits each time; those of inputs are refused by name."""
        f = aule.compile(SCRIPTS / "gqa.attn", layout="S=padded,T=padded", optimize=1, deterministic=True)
        case = Padded(compiled(SCRIPTS / "gqa.attn"), list(zip(QUERIES, KEYS)))
        do = output_gradients(case, SIZES["E"], np.float32)
        first, second = (gradients(f, case.given | case.lengths(), {}, do) for _ in range(2))
        for n in ("dq", "dk", "dv"):
            np.testing.assert_array_equal(first[n], second[n])
        with self.assertRaisesRegex(aule.CompileError, "gradients of inputs in one order, of rows in a layout"):
            aule.compile(SCRIPTS / "alibi.attn", layout="S=padded,T=padded", optimize=1, deterministic=True)

    def test_wrong_lengths(self):
        """What a list says is looked at where gradients are made, too: a forward of other lengths came before."""
        f, case = compiled(SCRIPTS / "gqa.attn", "S=padded,T=padded"), Padded(compiled(SCRIPTS / "gqa.attn"), list(zip(QUERIES, KEYS)))
        lists = case.lengths()
        results = f.forward(*(case.given[n] for n in "qkv"), **lists)
        lists["S_lengths"][3] = 134
        with self.assertRaisesRegex(aule.ArgumentError, r"gqa: S_lengths\[3\] is 134, q has 133 rows"):
            f.backward(results, output_gradients(case, SIZES["E"], np.float32))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_autograd(self):
        """By `axes=`: a batch of padded sequences as a data loader makes it, q, k and v of one axis; then keys of their own."""
        lengths = [7, 0, 1, 23]
        encoder, alibi = aule.compile(ENCODER, optimize=1), aule.compile(SCRIPTS / "alibi.attn", optimize=1)
        torch.manual_seed(0)
        keys = [9, 4, 0, 31]
        for f, axes, of_keys in (
            (encoder, {"S": aule.padded(torch.tensor(lengths, dtype=torch.int32))}, lengths),
            (alibi, {"S": aule.padded(torch.tensor(lengths, dtype=torch.int32)), "T": aule.padded(torch.tensor(keys, dtype=torch.int32))}, keys),
        ):
            slopes = [torch.tensor([0.5, 0.2], requires_grad=True)] if f is alibi else []
            named = dict(zip(["slope"], slopes))
            room = [25, 25 if f is encoder else 31]
            given = [torch.randn(4, 2, n, 16) for n in (room[0], room[1], room[1])]
            do = torch.randn(4, 2, room[0], 16)
            for b in range(4):
                for x, n in zip((*given, do), (lengths[b], of_keys[b], of_keys[b], lengths[b])):
                    x[b, :, n:] = torch.nan
            rows = [x.requires_grad_() for x in given]
            o = f(*rows, **named, axes=axes)
            got = torch.autograd.grad(o, [*rows, *slopes], do)
            sums = [torch.zeros_like(x) for x in slopes]
            for b in range(4):
                for x, n in zip(got, (lengths[b], of_keys[b], of_keys[b])):
                    self.assertFalse(x[b, :, n:].any())
                if not lengths[b] or not of_keys[b]:
                    continue
                one = [x[b : b + 1, :, :n].detach().requires_grad_() for x, n in zip(given, (lengths[b], of_keys[b], of_keys[b]))]
                want = torch.autograd.grad(f(*one, **named), [*one, *slopes], do[b : b + 1, :, : lengths[b]])
                for x, y in zip(got, want[:3]):
                    torch.testing.assert_close(x[b : b + 1, :, : y.shape[2]], y, rtol=0, atol=2e-5)
                sums = [x + y for x, y in zip(sums, want[3:])]
            for x, y in zip(got[3:], sums):
                torch.testing.assert_close(x, y, rtol=0, atol=2e-4)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch_compile(self):
        """Recorded by autograd, and in a graph without a break: the same bits."""
        f = aule.compile(SCRIPTS / "alibi.attn", layout="S=padded,T=padded", optimize=1)
        lengths, keys = (torch.tensor(x, dtype=torch.int32) for x in ([3, 0, 17, 1], [5, 4, 64, 1]))
        torch.manual_seed(0)
        given = [torch.randn(4, 2, n, 16, requires_grad=True) for n in (17, 64, 64)] + [torch.tensor([0.5, 0.2], requires_grad=True)]

        def call(q, k, v, slope):
            return f(q, k, v, slope=slope, S_lengths=lengths, T_lengths=keys)

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
                    compiled(path, packing(compiled(path)).replace("packed", "padded"))
                except aule.CompileError as error:
                    self.assertIn("--layout: axis ", str(error))
                    continue
                self.check(path)


if __name__ == "__main__":
    unittest.main()
