"""Calls with ``invariant=True``: the bits of a sequence's result are those of a call of it alone, whatever else is in the batch and in whatever order. What of it
processors cannot show, how kernels for CUDA share out keys, is read in their text."""

from __future__ import annotations

import itertools
import os
import re
import tempfile
import unittest
from pathlib import Path

import numpy as np

import aule
from aule import _libaule as abi
from support import DEVICE, OTHERS, ROOT, torch

LENGTHS = np.array([70, 0, 1, 1024, 1025, 2600, 17, 2048], np.int32)
H, HK, D, SLOTS = 8, 2, 64, 16


class Case:
    def __init__(self, rows=1, dtype=np.float32):
        r = np.random.default_rng(rows)
        entries = -(-int(LENGTHS.max()) // SLOTS)
        B = len(LENGTHS)
        self.q = r.standard_normal((B, rows, H, D)).astype(dtype)
        self.pools = [r.standard_normal((B * entries, SLOTS, HK, D)).astype(dtype) for _ in "kv"]
        self.table = r.permutation(B * entries).reshape(B, entries).astype(np.int32)

    def call(self, which, to=lambda x: x, entries=None, **options):
        table = self.table[which] if entries is None else self.table[which, :entries]
        o = aule.decode(to(self.q[which]), *map(to, self.pools), to(LENGTHS[which]), page_table=to(np.ascontiguousarray(table)), **options)
        return np.asarray(o if isinstance(o, np.ndarray) else o.float().cpu())


class Invariant(unittest.TestCase):
    def check(self, to=lambda x: x, **options):
        for rows in (1, 3):
            case = Case(rows)
            everything = np.arange(len(LENGTHS))
            want = case.call(everything, to, invariant=True, **options)
            np.testing.assert_allclose(want, case.call(everything, to, **options), rtol=1e-4, atol=1e-5)
            for which in ([5], [0, 5], [7, 5, 3], everything[::-1], [5] * 40, [4, 1, 1, 6]):
                got = case.call(np.array(which), to, invariant=True, **options)
                for n, b in enumerate(which):
                    np.testing.assert_array_equal(got[n], want[b], err_msg=f"{rows} rows of {LENGTHS[b]} keys among {which}")
            np.testing.assert_array_equal(case.call(np.array([6]), to, entries=2, invariant=True, **options)[0], want[6])  # a table with less room

    def test_batches(self):
        self.check()
        self.check(window=700, softcap=4.0)

    def check_packed(self, to=lambda x: x, **options):
        """attention_varlen: sequences beside others of few rows and of many, over pages and packed keys, whether a call says how many rows there are or not."""
        case, counts = Case(140), np.array([3, 2, 1, 140, 1, 4, 8, 0])
        entries, keys = case.table.shape[1], [x.reshape(-1, HK, D)[:3000] for x in case.pools]

        def call(which, paged, said):
            rows = [case.q[b, : counts[b]] for b in which]
            starts = np.concatenate([[0], np.cumsum(counts[which])]).astype(np.int32)
            places = np.concatenate([[0], np.cumsum(LENGTHS[which])]).astype(np.int32)
            more = {"max_seqlen_q": int(counts[which].max())} if said else {}
            if paged:
                own = (*map(to, case.pools), to(starts))
                more |= {"seqused_k": to(LENGTHS[which]), "page_table": to(np.ascontiguousarray(case.table[which, :entries]))}
            else:
                own = (*(to(np.concatenate([x[: LENGTHS[b]] for b in which])) for x in keys), to(starts), to(places))
            o = aule.attention_varlen(to(np.concatenate(rows)), *own, causal=True, invariant=True, **more, **options)
            o = np.asarray(o if isinstance(o, np.ndarray) else o.float().cpu())
            return [o[a:z] for a, z in zip(starts, starts[1:])]

        for paged in (True, False):
            everything = np.arange(len(LENGTHS))
            want = call(everything, paged, False)
            for which in ([5], [0, 5], [5, 3, 0], everything[::-1], [5] * 40, [4, 7, 1, 6]):
                for said in (True, False):
                    for got, b in zip(call(np.array(which), paged, said), which):
                        np.testing.assert_array_equal(got, want[b], err_msg=f"{counts[b]} rows of {LENGTHS[b]} keys among {which}, pages: {paged}")

    @unittest.skipIf(not OTHERS, "no device but processors")
    def test_packed_on_other_devices(self):
        """Few by multiply-adds of warps: in a call of few alone as beside many."""
        case, counts = Case(70), np.array([3, 2, 1, 70, 1, 4, 17, 0])
        entries = case.table.shape[1]

        def call(which, **more):
            starts = np.concatenate([[0], np.cumsum(counts[which])]).astype(np.int32)
            lists = {"seqused_k": LENGTHS[which], "page_table": np.ascontiguousarray(case.table[which, :entries])}
            rows = np.concatenate([case.q[b, : counts[b]] for b in which])
            o = aule.attention_varlen(rows, *case.pools, starts, causal=True, invariant=True, max_seqlen_q=int(counts[which].max()), backend=OTHERS[-1], **lists, **more)
            return [o[a:z] for a, z in zip(starts, starts[1:])]

        want = call(np.arange(len(LENGTHS)))
        for which in ([5], [5, 3, 0], [5] * 12, [4, 7, 1, 6]):
            for got, b in zip(call(np.array(which)), which):
                np.testing.assert_array_equal(got, want[b], err_msg=f"{counts[b]} rows of {LENGTHS[b]} keys among {which}")

    def test_packed(self):
        self.check_packed()

    def test_plain(self):
        r = np.random.default_rng(4)
        for rows in (1, 70):
            q, k, v = (r.standard_normal((9, h, n, D)).astype(np.float32) for h, n in ((H, rows), (HK, 1500), (HK, 1500)))
            want = aule.attention(q, k, v, causal=True, invariant=True)
            for which in ([5], [8, 5, 0], [5] * 30):
                got = aule.attention(q[which], k[which], v[which], causal=True, invariant=True)
                np.testing.assert_array_equal(got, want[which])
        if torch is not None:
            q, k, v = map(torch.from_numpy, (q, k, v))
            rows = q[0].transpose(0, 1), *(x[0].transpose(0, 1) for x in (k, v)), torch.tensor([0, 70], dtype=torch.int32), torch.tensor([0, 1500], dtype=torch.int32)
            with self.assertRaisesRegex(aule.ArgumentError, "q requires a gradient, and calls with invariant=True have none"):
                aule.attention(q.clone().requires_grad_(), k, v, invariant=True)
            with self.assertRaisesRegex(aule.ArgumentError, "q requires a gradient, and calls with invariant=True have none"):
                aule.attention_varlen(rows[0].clone().requires_grad_(), *rows[1:], invariant=True)

    @unittest.skipIf(torch is None or DEVICE == "cpu", "no GPU")
    def test_batches_on_a_device(self):
        self.check(to=lambda x: torch.from_numpy(x).to(DEVICE))
        self.check_packed(to=lambda x: torch.from_numpy(x).to(DEVICE))

    def test_groups(self):
        """What sequences share is read for each: the bits of calls without groups."""
        case, B = Case(), len(LENGTHS)
        case.table[5, :32] = case.table[3, :32]
        order = np.array([3, 5, 0, 1])
        groups, shared = np.array([0, 2, 4], np.int32), np.array([512, 0], np.int32)
        want = case.call(np.arange(B), invariant=True)
        got = case.call(order, invariant=True, groups=groups, shared=shared)
        np.testing.assert_array_equal(got, want[order])
        self.assertFalse(np.array_equal(case.call(order, groups=groups, shared=shared), case.call(order)))  # here they are joined in other parts

    def test_artifacts(self):
        """An artifact of other kernels too, and one without; what has none is refused."""
        path, case = ROOT / "attn_scripts/gqa.attn", Case()
        q, k, v = (x.swapaxes(1, 2) for x in (case.q, *case.pools))
        given = {"T_table": case.table, "T_lengths": LENGTHS}
        with tempfile.TemporaryDirectory() as folder:
            for name, more in (("with", {"invariant": 1}), ("without", {})):
                data = aule._compiler.compiler().run("gqa.attn", path.read_bytes(), targets="cpu", dtypes="f32", widths="D=64", no_gradients=1, layout=b"T=paged:groups".decode(), **more)
                Path(folder, f"{name}.so").write_bytes(data)
            f, g = (aule.load(Path(folder, f"{name}.so"), invariant=True) for name in ("with", "without"))
            lists = given | {"T_groups": np.array([0, 8], np.int32), "T_shared": np.array([0], np.int32)}
            for one in (f, g):
                all_of_them = one(q, k, v, **lists)
                alone = one(q[5:6], k, v, T_table=case.table[5:6], T_lengths=LENGTHS[5:6], T_groups=np.array([0, 1], np.int32), T_shared=np.array([0], np.int32))
                np.testing.assert_array_equal(alone[0], all_of_them[5])
            np.testing.assert_allclose(f(q, k, v, **lists), g(q, k, v, **lists), rtol=1e-4, atol=1e-5)
        recurrence = aule.compile(ROOT / "attn_scripts/retention_recurrent.attn", invariant=True)
        tensors = [np.zeros((1, 2, 4, 16), np.float32) for _ in "qkv"]
        needed = {t.name: np.zeros([2 if axis == "H" else 1 if axis == "B" else 4 if axis == "T" else 16 for axis in t.axes], np.float32) for t in recurrence.tensors if t.role == "input"}
        with self.assertRaisesRegex(aule.Error, "whose results do not depend on the batch"):
            recurrence(*tensors, **needed)

    def test_refusals(self):
        """Operations without such kernels do not go on without what was asked for."""
        path, r = ROOT / "attn_scripts/gqa.attn", np.random.default_rng(4)
        f = aule.compile(path, invariant=True)
        q, k, v = (r.standard_normal((1, heads, 5, 16)).astype(np.float32) for heads in (H, HK, HK))
        parts, message = [aule.compile(path).unfinished(q, k, v)], "no {} kernel for device cpu whose results do not depend on the batch"
        for name, call in (
            ("unfinished", lambda: f.unfinished(q, k, v)), ("combine", lambda: f.combine(parts, dtype="float32")), ("backward", lambda: f.backward(f.forward(q, k, v), q)),
        ):
            with self.subTest(name), self.assertRaisesRegex(aule.Error, message.format(name)):
                call()
        k_new, pools = k[:, :, :1], [x.copy() for x in (k, v)]
        f.append(k_new, k_new, *pools)  # a row is written whatever others are
        np.testing.assert_array_equal(pools[0][:, :, -1:], k_new)
        for make in (aule.compile, aule.load):
            with self.assertRaisesRegex(ValueError, "invariant is True or False, not 'no'"):
                make(path, invariant="no")

    def test_kernels_of_cuda(self):
        """How many sequences there are is not asked for where keys are shared out and parts joined."""
        for script in ("gqa", "sliding_window"):
            for more, depends in (({}, True), ({"invariant": 1}, False)):
                text = aule._compiler.emit(ROOT / f"attn_scripts/{script}.attn", "tiled-ir", targets="cuda", archs="sm_90", dtypes="bf16", widths="D=128", no_gradients=1, layout="T=paged", **more)
                variants = [v for v in text.split("// ==== ") if "warps_decode" in v.split("\n")[0] and " start=" not in v.split("\n")[0]]
                self.assertEqual(len(variants), 3 if depends else 4)  # of many sequences, any, of more rows; and the one that does not depend
                body = [line for line in variants[-1].split("\n") if not re.match(r"(kernel|grid)", line)]
                self.assertEqual(any(re.search(r"\$B\b", line) for line in body), depends)

    def test_what_is_chosen_does_not_depend_on_the_batch(self):
        """Conditions of the kernels that an invariant call may have ask neither how many sequences there are nor, of packed rows, how many rows all have."""
        layouts = "T=dense;T=paged;S=packed:most,T=paged"
        scripts = [(ROOT / f"{name}.attn").read_bytes() for name in ("attn_scripts/gqa", "tests/exec/scripts/unjoined")]
        for script, (target, arch, dtype) in itertools.product(scripts, (("cuda", "sm_90a", "bf16"), ("cpu", "x86-64-v3", "f32"))):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "x.so")
                with open(path, "wb") as file:
                    file.write(aule._compiler.compiler().run("x.attn", script, targets=target, archs=arch, dtypes=dtype, widths="D=64", layout=layouts, invariant=1, no_gradients=1, optimize=0))
                for name in aule._artifact.names_in(path):
                    loaded = aule._artifact.Loaded(path, name)
                    batch = {"B"} | ({"S", "S_ends"} if "S=packed" in name else set()) | ({"T", "T_ends"} if "T=packed" in name else set())
                    for v in loaded._variants():
                        if v.operation == b"forward" and not v.flags & abi.VARIANT_BY_BATCH:
                            words = aule._artifact._words(v.condition, loaded.size_names())
                            self.assertFalse(batch & {w for w in words if isinstance(w, str)}, f"{name} {arch}: {v.schedule.decode()}")

    def test_kernels_of_packed_rows_for_cuda(self):
        """Of few rows alone and beside many: parts of so many keys of their own, in the same kernels."""
        text = aule._compiler.emit(ROOT / "attn_scripts/gqa.attn", "tiled-ir", targets="cuda", archs="sm_90", dtypes="bf16", widths="D=128", no_gradients=1, layout="S=packed:most,T=paged", invariant=1)
        for name, forms in (("warps_decode", 3), ("warps_mixed", 1)):
            variants = [v.split("// ---- hooks inlined")[0] for v in text.split("// ==== ") if name in v.split("\n")[0] and " start=" not in v.split("\n")[0]]
            self.assertEqual(["let share = cdiv(" in v for v in variants], [True] * forms + [False], name)
            self.assertIn("let first_tile = clamp(span * 8, n_low, n_high)", variants[-1])
            self.assertIn("let parts = max(cdiv(kv_length, 1024), 1)", variants[-1])


if __name__ == "__main__":
    unittest.main()
