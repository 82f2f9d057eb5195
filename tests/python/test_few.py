"""Few queries that are packed or padded (docs/dev/serving.md): kernels for few queries, where a call says that no sequence has more. To the bit the dense
calls of each sequence, whose kernels they are; lengths 0 among sequences, NaN in rows and slots of none."""

from __future__ import annotations

import os
import unittest
from unittest import mock

import numpy as np

import aule
import test_decode
from aule import _plans
from support import OTHERS, torch
from test_layouts import FIRST_ALONE, MOST, REST, SCRIPTS, SIZES, Case, Rows, compiled, is_softmax, outputs, packing, starts_of

# Queries and keys: none, one, a part of 1024 keys less one and more one, several parts, fewer keys than queries
PAIRS = [(0, 0), (1, 1), (3, 70), (0, 9), (2, 0), (1, 2600), (4, 1025), (1, 1023), (4, 4), (3, 2), (0, 0)]
# More than kernels for few take, and not more than a block of 16 rows
BLOCKS = [(12, 70), (0, 0), (16, 300), (9, 9), (13, 2), (10, 0), (16, 1100)]
COUNTS = [3, 0, 1, 2, 4, 0, 4]  # of the sequences of Case
# A slope; rotated rows; sinks; a window; an input that is packed, too, and a changed output
FEW = "alibi rope attention_sink sliding_window gated".split()


def of_packed(case, counts, name="q"):
    """Queries of a Case, the first of each sequence, one behind the other, and NaN behind them; and their starts."""
    q, starts = case.tensors[name], starts_of(counts)
    rows = np.full((1, q.shape[1], starts[-1] + REST, q.shape[3]), np.nan, np.float32)
    for b, count in enumerate(counts):
        rows[0, :, starts[b] : starts[b + 1]] = q[b, :, :count]
    return rows, starts


class Packed(unittest.TestCase):
    def check(self, path, exact=True, pairs=PAIRS):
        dense = compiled(path)
        layout = packing(dense)
        if layout.count(",") == 0:
            return "queries and keys have one axis"
        try:
            f = compiled(path, layout.replace("packed", "packed:most"))
        except aule.CompileError as error:
            self.assertIn("--layout: axis ", str(error))
            return str(error)
        rows = Rows(dense, pairs, SIZES | {"B": 1})
        said = {f"{axis}_most": max(p[n] for p in pairs) for n, axis in enumerate(rows.axes)}
        params = rows.params | {name: n for name, n in said.items() if name in f._param_names}
        got = outputs(f, rows.tensors | rows.inputs | rows.named_starts(), params)
        starts = rows.starts[0]
        self.assertFalse(got[0][:, :, starts[-1] :].any(), "rows of no sequence")
        for b, (queries, keys) in enumerate(pairs):
            if not queries or path.stem in FIRST_ALONE and b:
                continue
            say = f"{path.name}: sequence {b}, {queries} queries of {keys} keys"
            mine = [x[:, :, starts[b] : starts[b + 1]] for x in got]
            if not keys and rows.needs_keys():
                self.assertFalse(mine[0].any(), say)
                continue
            for x, y in zip(mine, outputs(dense, rows.of(b), rows.params)):
                if exact:
                    np.testing.assert_array_equal(x, y, err_msg=say)
                else:
                    np.testing.assert_allclose(x, y, rtol=2e-5, atol=8e-6, err_msg=say)
        return None

    def test_scripts(self):
        for stem in FEW:
            with self.subTest(stem):
                self.assertIsNone(self.check(SCRIPTS / f"{stem}.attn"))
                self.assertIsNone(self.check(SCRIPTS / f"{stem}.attn", pairs=BLOCKS))

    @unittest.skipUnless(os.environ.get("AULE_TEST_FULL_SIZES"), "all scripts, with AULE_TEST_FULL_SIZES")
    def test_all_scripts(self):
        for path in sorted(SCRIPTS.glob("*.attn")):
            with self.subTest(path.stem):
                if is_softmax(path):
                    self.check(path, exact=False)  # not all have kernels for few
                    self.check(path, exact=False, pairs=BLOCKS)

    def test_over_pages(self):
        """The last queries of each sequence over its cache, as servers have them."""
        for stem, slots in (("gqa", 16), ("gqa", 7), ("rope", 48), ("sliding_window", 1)):
            path = SCRIPTS / f"{stem}.attn"
            with self.subTest(stem, slots=slots):
                dense, f = compiled(path), compiled(path, "S=packed:most,T=paged")
                case = Case(dense, slots, queries=max(COUNTS), paged=f)
                q, starts = of_packed(case, COUNTS)
                given = case.tensors | case.pools | {"q": q, "S_starts": starts, "T_lengths": case.lengths, "T_table": case.table}
                got = outputs(f, given, case.params | {"S_most": 4})
                self.assertFalse(got[0][:, :, starts[-1] :].any())
                for b, (count, length) in enumerate(zip(COUNTS, case.lengths)):
                    if count:
                        one = {"q": case.tensors["q"][b : b + 1, :, :count], **{name: case.tensors[name][b : b + 1, :, :length] for name in case.keys}}
                        for x, y in zip(got, outputs(dense, one, case.params)):
                            np.testing.assert_array_equal(x[:, :, starts[b] : starts[b + 1]], y, err_msg=f"{count} queries of {length} keys")

    def test_what_a_call_says(self):
        """Kernels for few run, alone or beside those for many, in whatever order calls come."""
        f, dense = compiled(SCRIPTS / "gqa.attn", "S=packed:most,T=packed:most"), compiled(SCRIPTS / "gqa.attn")
        rows = Rows(dense, PAIRS, SIZES | {"B": 1})
        given = rows.tensors | rows.named_starts()
        few, many = outputs(f, given, {"S_most": 4}), outputs(compiled(SCRIPTS / "gqa.attn", "S=packed,T=packed"), given, {})
        self.assertTrue((few[0] != many[0]).any())  # other kernels
        np.testing.assert_allclose(few[0], many[0], rtol=2e-5, atol=1e-5)
        for most in (4, 1000, 6, None, 4):  # of few rows the same, beside many, too
            for x, y in zip(outputs(f, given, {} if most is None else {"S_most": most}), few):
                np.testing.assert_array_equal(x, y, err_msg=f"at most {most}")
        by_axes = dense(*(rows.tensors[n] for n in "qkv"), axes={"S": aule.packed(rows.starts[0], most=4), "T": aule.packed(rows.starts[1], most=2600)})
        np.testing.assert_array_equal(by_axes, few[0])

    def test_plans_are_for_what_they_were_made_with(self):
        """A run of a plan whose parameters ask for other kernels is refused, not computed by those for few."""
        f = compiled(SCRIPTS / "gqa.attn", "S=packed:most,T=packed:most")
        rows = Rows(compiled(SCRIPTS / "gqa.attn"), [(3, 4), (2, 5)], SIZES | {"B": 1})
        given, runner = rows.tensors | rows.named_starts(), f._runner
        runner._prepared.clear()
        outputs(f, given, {"S_most": 4, "T_most": 5})
        (key, plan), = runner._prepared.items()
        runner._prepared[tuple(9 if x == 4 and isinstance(x, int) and key[n - 1] == "S_most" else x for n, x in enumerate(key))] = plan
        with self.assertRaisesRegex(aule.ArgumentError, "gqa: the plan's kernels are not for these parameters"):
            outputs(f, given, {"S_most": 9, "T_most": 5})
        runner._prepared.clear()

    def test_plans_of_a_server(self):
        """Steps of ever other numbers of rows have plans of their own, of which so many are kept; a step whose plan went has another."""
        f = compiled(SCRIPTS / "gqa.attn", "S=packed:most,T=packed:most")
        rows = Rows(compiled(SCRIPTS / "gqa.attn"), [(3, 4), (2, 5)], SIZES | {"B": 1})
        given, runner = rows.tensors | rows.named_starts(), f._runner
        runner._prepared.clear()
        with mock.patch.object(_plans, "MOST", 8):
            for step in range(20):
                outputs(f, given, {"S_most": 3 + step % 10, "T_most": 5 + step % 2})
                self.assertLessEqual(len(runner._prepared), 8)
        runner._prepared.clear()

    def test_wrong_numbers(self):
        f, dense = compiled(SCRIPTS / "gqa.attn", "S=packed:most,T=packed"), compiled(SCRIPTS / "gqa.attn")
        rows = Rows(dense, [(3, 4), (2, 5)], SIZES | {"B": 1})
        given = rows.tensors | rows.named_starts()
        for most, message in ((2, "S_starts: sequence 0 has 3 rows, the call says that none has more than 2"), (-1, "S_most is a number of rows")):
            with self.subTest(most), self.assertRaisesRegex(aule.ArgumentError, message):
                outputs(f, given, {"S_most": most})
        for most, error in ((-1, aule.ArgumentError), (1 << 31, aule.ArgumentError), (2.0, TypeError), (True, TypeError)):
            with self.assertRaises(error):
                aule.packed(rows.starts[0], most=most)
        for layout, message in (("T=paged:most", "`most` is how many packed rows a sequence has"), ("S=packed:most:most", "`most` is there twice")):
            with self.assertRaisesRegex(aule.CompileError, message):
                aule.compile(SCRIPTS / "gqa.attn", layout=layout)

    def test_no_rows(self):
        f = compiled(SCRIPTS / "gqa.attn", "S=packed:most,T=packed")
        for total, most in ((0, 0), (0, 3), (4, 0), (4, 2)):
            q, k, v = (np.full((1, SIZES[h], total, 16), np.nan, np.float32) for h in ("H", "Hk", "Hk"))
            none = np.zeros(4, np.int32)
            o = f(q, k, v, S_starts=none, T_starts=none, S_most=most)
            self.assertEqual(o.shape, q.shape)
            self.assertFalse(o.any())


class Padded(unittest.TestCase):
    def test_rows(self):
        for stem in ("gqa", "rope", "alibi", "gated"):
            path = SCRIPTS / f"{stem}.attn"
            with self.subTest(stem):
                dense = compiled(path)
                case, lengths = Case(dense, 16, queries=max(COUNTS)), np.array(COUNTS, np.int32)
                tensors = dict(case.tensors)
                q = tensors["q"] = tensors["q"].copy()
                for b, count in enumerate(COUNTS):
                    q[b, :, count:] = np.nan
                if stem == "gated":
                    f, given, most = compiled(path, "S=padded"), {}, np.full(len(COUNTS), MOST)
                    tensors |= {name: np.nan_to_num(tensors[name]) for name in case.keys}
                else:
                    f, given, most = compiled(path, "S=padded,T=paged"), case.pools | {"T_lengths": case.lengths, "T_table": case.table}, case.lengths
                got = outputs(f, tensors | given | {"S_lengths": lengths}, case.params)
                for b, (count, length) in enumerate(zip(COUNTS, most)):
                    self.assertFalse(got[0][b, :, count:].any(), "rows of no sequence")
                    if not count:
                        continue
                    one = {}
                    for t in case.given:
                        x = tensors[t.name]
                        for n, axis in enumerate(t.axes):
                            cut = {"B": slice(b, b + 1), "S": slice(0, count), "T": slice(0, length)}.get(axis, slice(None))
                            x = x[(slice(None),) * n + (cut,)]
                        one[t.name] = x
                    for x, y in zip(got, outputs(dense, one, case.params)):
                        np.testing.assert_array_equal(x[b, :, :count], y[0], err_msg=f"{count} queries of {length} keys")


class Varlen(test_decode.VarlenOverPages):
    """attention_varlen with max_seqlen_q: the tests of calls over pages, and packed keys."""

    COUNTS = [3, 0, 1, 2, 1, 1, 2, 4]
    MORE = {"max_seqlen_q": 4}

    def setUp(self):
        self.enterContext(mock.patch.object(test_decode, "E", 32))  # whole vectors, as kernels for few queries ask for

    def test_blocks_of_few_rows(self):
        """Packed queries that are too many for decode and no more than a block of 16 or 64 rows, on a processor, as dense calls of each sequence."""
        r = np.random.default_rng(5)
        for pairs in ([(16, 70), (0, 9), (15, 300), (13, 13)], [(17, 40), (33, 700), (64, 64)], [(100, 5), (90, 200)]):
            queries, keys = (starts_of([p[n] for p in pairs]) for n in (0, 1))
            q, k, v = (r.standard_normal((n[-1], h, 32)).astype(np.float32) for n, h in ((queries, 4), (keys, 2), (keys, 2)))
            for options in ({}, {"causal": True}, {"window": (5, 9), "softcap": 3.0}):
                o = aule.attention_varlen(q, k, v, queries, keys, **options)
                for a, z, first, last in zip(queries, queries[1:], keys, keys[1:]):
                    if z > a:
                        one = [x.swapaxes(0, 1)[None] for x in (q[a:z], k[first:last], v[first:last])]
                        np.testing.assert_allclose(o[a:z], aule.attention(*one, **options)[0].swapaxes(0, 1), rtol=2e-5, atol=1e-5)

    def test_packed_keys(self):
        r = np.random.default_rng(3)
        queries, keys = (starts_of([p[n] for p in PAIRS]) for n in (0, 1))
        q, k, v = (r.standard_normal((n[-1], h, 32)).astype(np.float32) for n, h in ((queries, 4), (keys, 2), (keys, 2)))
        for options in ({}, {"causal": True, "window": 50}, {"softcap": 5.0}):
            o, lse = aule.attention_varlen(q, k, v, queries, keys, 4, 2600, return_lse=True, **options)
            np.testing.assert_array_equal(o, aule.attention_varlen(q, k, v, queries, keys, **options))  # a processor reads what is not said
            with mock.patch.object(aule._varlen, "_longest", lambda said, starts: said):
                want, want_lse = aule.attention_varlen(q, k, v, queries, keys, return_lse=True, **options)
            np.testing.assert_allclose(o, want, rtol=2e-5, atol=1e-5)
            np.testing.assert_allclose(lse, want_lse, rtol=2e-5, atol=1e-5)
            self.assertTrue((o != want).any())  # other kernels
        if torch is not None:  # gradients are those of the same call
            made = []
            for more in ((), (4, 2600)):
                leaves = [torch.from_numpy(x.copy()).requires_grad_() for x in (q, k, v)]
                o = aule.attention_varlen(*leaves, torch.from_numpy(queries), torch.from_numpy(keys), *more, causal=True)
                o.square().sum().backward()
                made.append([x.grad for x in leaves])
            for x, y in zip(*made):
                torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)
        for most, message in (((2,), "sequence 2 has 3 rows, the call says that none has more than 2"), ((4, 1000), "has 2600 rows")):
            with self.assertRaisesRegex(aule.ArgumentError, message):
                aule.attention_varlen(q, k, v, queries, keys, *most)
        for device in OTHERS:
            o = aule.attention_varlen(q, k, v, queries, keys, 4, 2600, backend=device)
            np.testing.assert_allclose(o, aule.attention_varlen(q, k, v, queries, keys), rtol=2e-5, atol=1e-5)


class Mixed(test_decode.VarlenOverPages):
    """The same with sequences of few queries and of many."""

    MORE = {"max_seqlen_q": 40}
    setUp = Varlen.setUp

    def test_kernels(self):
        """Each sequence to the bit what it is among few alone, or among many alone."""
        f, dense = compiled(SCRIPTS / "gqa.attn", "S=packed:most,T=packed:most"), compiled(SCRIPTS / "gqa.attn")
        pairs = [(1, 1500), (60, 90), (3, 70), (0, 9), (9, 40), (2, 2), (8, 8), (1, 1), (1, 30), (4, 1025)]
        rows = Rows(dense, pairs, SIZES | {"B": 1})
        given, starts = rows.tensors | rows.named_starts(), rows.starts[0]
        mixed = outputs(f, given, {"S_most": 60, "T_most": 1500})
        many = outputs(compiled(SCRIPTS / "gqa.attn", "S=packed,T=packed"), given, {})
        for b, (queries, _) in enumerate(pairs):
            one = slice(*starts[b : b + 2])
            few = outputs(dense, rows.of(b), {}) if queries else mixed
            for x, y, z in zip(mixed, many, few):
                np.testing.assert_array_equal(x[:, :, one], z if queries and queries <= 8 else y[:, :, one], err_msg=f"{pairs[b]}")
        self.assertFalse(mixed[0][:, :, starts[-1] :].any())

    def check_device(self, path, counts, lengths, slots, device, params=None, sizes=None, most=32):
        """Packed rows over pages beside the same without a number, which has the kernel for any: of many rows the same, of few, at most [most], near it."""
        wide = SIZES | {"D": 64, "E": 64} | (sizes or {})
        with mock.patch.dict(SIZES, wide):
            few, any_number, dense = (compiled(path, layout) for layout in ("S=packed:most,T=paged", "S=packed,T=paged", None))
            case = Case(dense, slots, queries=max(counts), lengths=np.array(lengths, np.int32), most=-(-max(lengths) // slots) * slots, paged=few)
        starts = starts_of(counts)
        rows = {t.name: of_packed(case, counts, t.name)[0] for t in case.given if "S" in t.axes}
        given = case.tensors | case.pools | rows | {"S_starts": starts, "T_lengths": case.lengths, "T_table": case.table}
        params = case.params | (params or {})
        got, want = outputs(few, given, params | {"S_most": max(counts)}, device), outputs(any_number, given, params, device)
        for x, y in zip(got, want):
            for b, count in enumerate(counts):
                own, say = np.s_[:, :, starts[b] : starts[b + 1]], f"{count} queries of {lengths[b]} keys on {device}"
                if count > most:  # of two heads that share one of keys: 64 rows
                    np.testing.assert_array_equal(x[own], y[own], err_msg=say)
                else:
                    np.testing.assert_allclose(x[own], y[own], rtol=2e-5, atol=2e-5, err_msg=say)
        self.assertTrue((got[0] != want[0]).any(), "other kernels")
        self.assertFalse(got[0][:, :, starts[-1] :].any(), "rows of no sequence")
        return few, given, params

    @unittest.skipIf(not OTHERS, "no device but processors")
    def test_other_devices(self):
        """By multiply-adds of warps: none, one, as many as are few, one more; keys in several parts; lists, whatever is in them."""
        counts, lengths = [1, 100, 3, 0, 33, 1, 32, 1, 2, 1, 1, 1], [700, 400, 70, 9, 40, 1, 600, 1100, 2, 0, 16, 17]
        self.check_device(SCRIPTS / "gqa.attn", counts, lengths, 16, OTHERS[0])
        few, given, params = self.check_device(SCRIPTS / "sliding_window.attn", counts, lengths, 7, OTHERS[-1], {"window": 50})
        finite = {name: np.nan_to_num(x) for name, x in given.items()}
        r = np.random.default_rng(5)
        wild = {name: r.integers(-(2**31), 2**31 - 1, given[name].shape).astype(np.int32) for name in ("T_lengths", "T_table")}
        starts = np.sort(r.integers(-(2**31), 2**31 - 1, given["S_starts"].shape)).astype(np.int32)
        (o, *_) = outputs(few, finite | wild | {"S_starts": starts}, params | {"S_most": 100}, OTHERS[-1])
        self.assertTrue(np.isfinite(o).all())

    @unittest.skipIf(not OTHERS, "no device but processors")
    def test_heads_apart_and_further_products(self):
        """Windows of a head's own and values of other heads than the keys'; a further product, whose keys lie in the pages, too."""
        counts, lengths = [1, 60, 0, 13, 3, 1, 2, 1, 1], [700, 400, 9, 40, 300, 17, 1, 0, 33]
        windows = SCRIPTS.parent / "tests/exec/scripts/head_windows.attn"
        self.check_device(windows, counts, lengths, 16, OTHERS[0], sizes={"H": 10, "Hk": 2, "Hv": 1}, most=12)
        self.check_device(SCRIPTS / "mla_prefill.attn", counts, lengths, 7, OTHERS[-1], sizes={"P": 32}, most=48)


if __name__ == "__main__":
    unittest.main()
