"""Neighbouring sequences that share their first keys (docs/dev/serving.md): calls with `groups` and `shared` are those without, within a few roundings, since a row's
keys are joined in other parts. What lies in slots that no sequence has is NaN throughout, tables end in wild numbers."""

from __future__ import annotations

import os
import unittest

import numpy as np

import aule
from support import OTHERS
import test_storage
from test_layouts import SCRIPTS, Case, compiled, is_softmax, outputs

# Lengths of the sequences of each group, and what they share. Of one, of none, one that is shorter, one without a key, a first one that is shorter, nothing shared
GROUPS = [
    ([100, 64, 70, 10, 0, 65], 64), ([70], 48), ([], 16), ([40, 41], 0), ([20, 90, 70], 64), ([33, 32, 34, 48], 32), ([150, 147, 135, 144, 130], 144), ([0, 50], 48), ([16, 17, 15], 16),
]
LONG = [([2100, 2049, 2048, 1024, 2047, 2500, 2300] * 3, 2048), ([1040, 1100], 1024), ([30, 1030], 16)]
NEW = [1, 2, 3, 6]  # rows of queries


class Shared(Case):
    """Sequences of [groups], of which those of one have the rows of its first sequence, and its pages."""

    def __init__(self, f, slots, groups, queries):
        lengths = np.array([length for of, _ in groups for length in of], np.int32)
        super().__init__(f, slots, queries=queries, lengths=lengths, most=-(-int(max(lengths)) // slots) * slots)
        self.groups = np.cumsum([0] + [len(of) for of, _ in groups]).astype(np.int32)
        self.shared = np.array([shared for _, shared in groups], np.int32)
        for first, end, shared in zip(self.groups, self.groups[1:], self.shared):
            for b in range(first + 1, end):
                self.share(first, b, shared)
        wild = np.where(np.arange(self.table.size) % 2, 2**31 - 1, -1).reshape(self.table.shape)
        self.table = np.where(self.table < 0, wild, self.table).astype(np.int32)

    def share(self, first, b, shared):
        """Pages of [first] that are sequence b's; its own for these hold NaN. One that is shorter than what is shared has its own, with the same rows."""
        slots = self.pools[self.keys[0]].shape[2]
        keys = shared if self.lengths[first] >= shared else 0
        for name in self.keys:
            dense, pool = self.tensors[name], self.pools[name]
            rows = min(keys, self.lengths[b])
            dense[b, :, :rows] = dense[first, :, :rows]
            for j in range(rows):
                pool[self.table[b, j // slots], :, j % slots] = np.nan if self.lengths[b] >= keys else dense[first, :, j]
        if self.lengths[b] >= keys:
            self.table[b, : keys // slots] = self.table[first, : keys // slots]

    def lists(self, groups=True):
        return {"T_lengths": self.lengths, "T_table": self.table} | ({"T_groups": self.groups, "T_shared": self.shared} if groups else {})


def share_codes(case, first, sequences, keys):
    """The first keys of [sequences], those long enough, become those of the first one, on its pages; what is one scale for all of a sequence is its for all."""
    slots = case.args["k"].shape[2]
    for b in sequences:
        shares = case.lengths[b] >= keys <= case.lengths[first]
        for n, name in enumerate("kv"):
            scale = case.args[f"{name}_scale"]
            if scale.shape[0] == len(case.lengths):
                case.exact[n][b] *= scale[first].astype(np.float64) / scale[b]
                scale[b] = scale[first]
            case.exact[n][b, :, : keys * shares] = case.exact[n][first, :, : keys * shares]
        if shares:
            case.table[b, : keys // slots] = case.table[first, : keys // slots]


def check_codes(test, storage, groups, queries, device=None):
    case = test_storage.Case(storage, [length for of, _ in groups for length in of], "T=paged", queries=queries)
    borders, shared = np.cumsum([0] + [len(of) for of, _ in groups]), [keys for _, keys in groups]
    for first, end, keys in zip(borders, borders[1:], shared):
        share_codes(case, first, range(first, end), keys)
    f = aule.compile(test_storage.GQA, layout="T=paged:groups", storage=storage, optimize=1)
    lists = {"T_groups": borders.astype(np.int32), "T_shared": np.array(shared, np.int32)}
    (got,), want = outputs(f, {"q": case.q, **case.args, **lists}, {}, device), case.expected(True)
    test.assertLess(np.abs(got.astype(np.float64) - want).max(), 2e-5 * max(np.abs(want).max(), 1))


def check(test, path, slots, groups, queries, device=None, bound=1e-5, params=None):
    try:
        of_groups, paged = compiled(path, "T=paged:groups"), compiled(path, "T=paged")
    except aule.CompileError as error:
        test.assertIn("--layout: axis T: ", str(error))
        return
    case = Shared(compiled(path), slots, groups, queries)
    tensors, params = case.tensors | case.pools, case.params | (params or {})
    got, want = outputs(of_groups, tensors | case.lists(), params, device), outputs(paged, tensors | case.lists(False), params, device)
    for x, y in zip(got, want):
        test.assertFalse(np.isnan(x).any(), path.name)
        scale = max(1.0, float(np.abs(y[np.isfinite(y)]).max(initial=0)))
        np.testing.assert_allclose(x, y, rtol=bound, atol=bound * scale, err_msg=f"{path.name}, pages of {slots}, {queries} queries")


class Groups(unittest.TestCase):
    def test_groups(self):
        for queries in NEW:
            for slots in (1, 16, 16, 8):
                with self.subTest(queries=queries, slots=slots):
                    check(self, SCRIPTS / "gqa.attn", slots, GROUPS, queries)

    def test_parts(self):
        for stem in ("gqa", "mha", "alibi"):
            check(self, SCRIPTS / f"{stem}.attn", 16, LONG, 2)

    def test_scripts(self):
        """Every script with keys of its own: those whose parts join, and those that read each sequence's keys."""
        paths = [path for path in sorted(SCRIPTS.glob("*.attn")) if is_softmax(path)]
        if not os.environ.get("AULE_TEST_FULL_SIZES"):
            paths = [path for path in paths if path.stem in ("alibi", "attention_sink", "sliding_window", "rope", "mla_decode", "block_causal", "softcap", "tree", "dropout", "sigmoid")]
        self.assertGreater(len(paths), 8)
        for path in paths:
            with self.subTest(path.stem):
                try:
                    check(self, path, 16, GROUPS, 2)
                except unittest.SkipTest:
                    pass

    def test_windows(self):
        """What no sequence of a group sees is not read, though it is shared: NaN there, and pages that are none."""
        path = SCRIPTS / "sliding_window.attn"
        check(self, path, 16, [([300, 310, 290, 500], 256), ([100, 99], 80)], 3, params={"window": 20})
        f, paged = compiled(path, "T=paged:groups"), compiled(path, "T=paged")
        case = Shared(compiled(path), 16, [([300, 310, 270], 256)], 1)
        for pool in case.pools.values():
            pool[case.table[0, :14]] = np.nan
        tensors = case.tensors | case.pools
        got, want = (outputs(*x, case.params | {"window": 30}) for x in ((f, tensors | case.lists()), (paged, tensors | case.lists(False))))
        self.assertFalse(np.isnan(got[0]).any())
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-5)
        case.table[:, :14] = 0
        got = outputs(f, tensors | case.lists(), case.params | {"window": 30})
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-5)

    def test_decode(self):
        """aule.decode with new rows, and axes=."""
        r, slots, lengths = np.random.default_rng(2), 16, np.array([70, 66, 90, 64, 33], np.int32)
        groups, shared = np.array([0, 3, 5], np.int32), np.array([64, 32], np.int32)
        pools = [r.standard_normal((40, slots, 2, d)).astype(np.float32) for d in (16, 32)]
        table = r.permutation(40)[:30].reshape(5, 6).astype(np.int32)
        table[1:3, :4], table[4, :2] = table[0, :4], table[3, :2]
        q, k, v = (r.standard_normal((5, 1, h, d)).astype(np.float32) for h, d in ((8, 16), (2, 16), (2, 32)))
        for options in ({}, {"window": 40, "softcap": 5.0}, {"causal": False, "return_lse": True}):
            caches = [[x.copy() for x in pools] for _ in range(2)]
            want = aule.decode(q, *caches[0], lengths, k=k, v=v, page_table=table, **options)
            got = aule.decode(q, *caches[1], lengths, k=k, v=v, page_table=table, groups=groups, shared=shared, **options)
            for x, y in zip(got if isinstance(got, tuple) else [got], want if isinstance(want, tuple) else [want]):
                np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
            for x, y in zip(*caches):
                np.testing.assert_array_equal(x, y)
        for given, message in (
            ({"groups": groups, "page_table": table}, "one of them is missing"), ({"groups": groups, "shared": shared}, "groups share pages, and there is no page_table"),
            ({"groups": groups[:2], "shared": shared, "page_table": table}, r"groups is \[2\] and shared \[2\], expected \[n \+ 1\] and \[n\] for n groups"),
            ({"groups": groups[:1], "shared": shared[:0], "page_table": table}, r"shared has an element for each group, of which there are 1 to 4096"),
            ({"groups": groups.astype(np.int64), "shared": shared, "page_table": table}, r"groups is int64, expected int32 \[n \+ 1\]"),
        ):
            with self.assertRaisesRegex(aule.ArgumentError, message):
                aule.decode(q, *(pools if "page_table" in given else [x[:5] for x in pools]), lengths, **given)
        none = aule.decode(q[:0], *pools, lengths[:0], page_table=table[:0], groups=groups[:1], shared=shared[:0])
        self.assertEqual(none.shape, (0, 1, 8, 32))
        self.assertEqual(aule.paged(table[:0], lengths[:0], groups=groups[:1], shared=shared[:0]).layout, "paged")
        f = compiled(SCRIPTS / "gqa.attn")
        heads_first = [x.swapaxes(1, 2) for x in (q, *pools)]
        axis = aule.paged(table, lengths, groups=groups, shared=shared)
        self.assertEqual(repr(axis), "aule.paged(table=[5, 6], lengths=[5], groups=[3], shared=[2])")
        np.testing.assert_allclose(f(*heads_first, axes={"T": axis}), f(*heads_first, axes={"T": aule.paged(table, lengths)}), rtol=1e-5, atol=1e-5)
        two = [[x.copy() for x in heads_first[1:]] for _ in range(2)]
        for pools, places in zip(two, (axis, aule.paged(table, lengths))):
            f.append(k.swapaxes(1, 2), v.swapaxes(1, 2), *pools, axes={"T": places})
        for x, y in zip(*two):
            np.testing.assert_array_equal(x, y)
        with self.assertRaisesRegex(aule.ArgumentError, "one of them is missing"):
            aule.paged(table, lengths, groups=groups)

    def test_wrong_lists(self):
        """Processors look at the numbers before a run."""
        f = compiled(SCRIPTS / "gqa.attn", "T=paged:groups")
        case = Shared(compiled(SCRIPTS / "gqa.attn"), 16, GROUPS, 1)
        tensors = case.tensors | case.pools
        for name, n, value, message in (
            ("T_groups", 0, 1, r"T_groups\[0\] is 1, expected borders from 0 up to 26 sequences"), ("T_groups", 2, 3, r"T_groups\[2\] is 3"),
            ("T_groups", 9, 20, r"T_groups\[9\] is 20"), ("T_groups", 9, 27, r"T_groups\[9\] is 27"), ("T_shared", 0, 63, r"T_shared\[0\] is 63, expected whole pages of 16 keys"),
            ("T_shared", 0, -16, r"T_shared\[0\] is -16"), ("T_shared", 3, 32, r"T_groups: page 0 of sequence 8 is \d+ and of sequence 7, whose first 32 keys it shares, \d+"),
        ):
            lists = case.lists() | {name: case.lists()[name].copy()}
            lists[name][n] = value
            with self.subTest(message), self.assertRaisesRegex(aule.ArgumentError, message):
                outputs(f, tensors | lists, case.params)
        for layout, message in (
            ("T=padded:groups", "`groups` share pages"), ("T=paged:groups:positions", "`positions` are not carried yet"), ("T=paged:groups:groups", "`groups` is there twice"),
        ):
            with self.assertRaisesRegex(aule.CompileError, message):
                compiled(SCRIPTS / "gqa.attn", layout)
        with self.assertRaisesRegex(aule.ArgumentError, "T_groups"):
            outputs(f, tensors | case.lists() | {"T_groups": case.groups[:-1]}, case.params)
        many = {"T_groups": np.append(np.zeros(4097, np.int32), np.int32(26)), "T_shared": np.zeros(4097, np.int32)}
        with self.assertRaisesRegex(aule.ArgumentError, r"T_shared has an element for each group, of which there are 1 to 4096: T_shares <= 4096, with T_shares = 4097; T_shared is \[4097\]"):
            outputs(f, tensors | case.lists() | many, case.params)

    def test_beside(self):
        """With rows of the table, and a table that is one list."""
        path = SCRIPTS / "gqa.attn"
        case = Shared(compiled(path), 16, GROUPS, 2)
        tensors, want = case.tensors | case.pools, outputs(compiled(path, "T=paged:groups"), case.tensors | case.pools | case.lists(), case.params)
        B, rows = len(case.lengths), np.random.default_rng(1).permutation(len(case.lengths) + 3)[: len(case.lengths)].astype(np.int32)
        spread = np.full((B + 3, case.table.shape[1]), -1, np.int32)
        spread[rows] = case.table
        by_rows = case.lists() | {"T_table": spread, "T_rows": rows}
        used = -(-case.lengths // 16)
        one = case.lists() | {"T_table": np.concatenate([case.table[b, :n] for b, n in enumerate(used)]), "T_table_starts": np.cumsum([0, *used]).astype(np.int32)}
        for layout, lists in (("T=paged:rows:groups", by_rows), ("T=paged:csr:groups", one)):
            for x, y in zip(outputs(compiled(path, layout), tensors | lists, case.params), want):
                np.testing.assert_array_equal(x, y, err_msg=layout)

    def test_packed(self):
        """Rows of queries one after the other, each sequence its own number: fewer than its group's first, more, none; few beside many. Against kernels for any number."""
        r = np.random.default_rng(4)
        for stem, most, params in (("gqa", 3, {}), ("gqa", 1, {}), ("sliding_window", 4, {"window": 30}), ("alibi", 2, {}), ("gqa", 60, {}), ("softcap", 40, {})):
            path = SCRIPTS / f"{stem}.attn"
            of_groups, packed = compiled(path, "S=packed:most,T=paged:groups"), compiled(path, "S=packed,T=paged")
            for slots, groups in ((16, GROUPS), (8, [([1100, 1050, 1040] * 2, 1040), ([70, 90, 64], 64), ([20], 16)])):
                with self.subTest(stem, most=most, slots=slots):
                    case = Shared(compiled(path), slots, groups, most)
                    B = len(case.lengths)
                    rows = np.minimum(r.integers(0, 3, B), most) if most > 8 else r.integers(0, most + 1, B)
                    if most > 8:
                        rows[[1, B - 2]], rows[4] = most, 8
                    starts = np.cumsum([0, *rows]).astype(np.int32)
                    q = np.concatenate([case.tensors["q"][b, :, :n] for b, n in enumerate(rows)] + [np.full_like(case.tensors["q"][0, :, :2], np.nan)[:, : 1 + (most > 1)]], 1)
                    tensors, params = case.tensors | case.pools | {"q": q[None], "S_starts": starts}, case.params | params
                    got = outputs(of_groups, tensors | case.lists(), params | {"S_most": most})
                    want = outputs(packed, tensors | case.lists(False), params)
                    for x, y in zip(got, want):
                        self.assertFalse(np.isnan(x).any())
                        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(y[np.isfinite(y)]).max(initial=0))))
                    self.assertFalse(got[0][:, :, starts[-1] :].any())

    def test_varlen(self):
        """aule.attention_varlen: a step in which some decode and one is a chunk."""
        r, slots, lengths, starts = np.random.default_rng(3), 16, np.array([70, 66, 90, 64, 33], np.int32), np.array([0, 1, 1, 41, 43, 44], np.int32)
        groups, shared = np.array([0, 3, 5], np.int32), np.array([64, 32], np.int32)
        k, v = (r.standard_normal((40, slots, 2, d)).astype(np.float32) for d in (16, 32))
        table = r.permutation(40)[:30].reshape(5, 6).astype(np.int32)
        table[1:3, :4], table[4, :2] = table[0, :4], table[3, :2]
        q, paged = r.standard_normal((44, 8, 16)).astype(np.float32), {"seqused_k": lengths, "page_table": table}
        for options in ({"causal": True}, {"causal": True, "max_seqlen_q": 40}, {"window": 20, "max_seqlen_q": 40}, {"causal": True, "max_seqlen_q": 40, "invariant": True}):
            want = aule.attention_varlen(q, k, v, starts, **paged, **options)
            np.testing.assert_allclose(aule.attention_varlen(q, k, v, starts, **paged, **options, groups=groups, shared=shared), want, rtol=1e-5, atol=1e-5)
        for given, message in (({"groups": groups}, "one of them is missing"), ({"groups": groups[:2], "shared": shared}, r"groups is \[2\] and shared \[2\]")):
            with self.assertRaisesRegex(aule.ArgumentError, message):
                aule.attention_varlen(q, k, v, starts, **paged, **given)
        with self.assertRaisesRegex(aule.ArgumentError, "groups is for keys in pages, with a page_table"):
            aule.attention_varlen(q, k[0], v[0], starts, starts, groups=groups, shared=shared)

    def test_stored(self):
        """Codes of 8 and 4 bits, of which scales lie beside the pages, or are one for the sequences of a group: against the formula, in double precision."""
        ragged, long = [([100, 64, 70, 10, 0, 65], 64), ([70], 48), ([], 16), ([40, 41], 0), ([33, 32, 34, 48], 32)], [([2100, 2049, 2048, 1024, 2500] * 2, 2048), ([1040, 1100], 1024)]
        for storage, groups, queries in (("e4m3", ragged, 1), ("k=i8:token,v=e5m2", ragged, 3), ("k=e4m3:channels16,v=i8:token:zero", ragged, 2), ("i4:channels8:zero", ragged, 1), ("k=i8,v=i4", long, 2)):
            with self.subTest(storage):
                check_codes(self, storage, groups, queries)

    @unittest.skipIf(not OTHERS, "no device but processors")
    def test_other_devices(self):
        """Keys that are read once, of windows and codes, too; lists, whatever is in them."""
        path = SCRIPTS / "gqa.attn"
        for device in OTHERS:
            check(self, path, 16, GROUPS, 1, device)
        check(self, SCRIPTS / "sliding_window.attn", 16, GROUPS, 2, OTHERS[-1], params={"window": 50})
        check_codes(self, "k=i8:token:zero,v=i4:channels8", [([100, 64, 70, 10, 0, 65], 64), ([70], 48), ([33, 32, 34, 48], 32)], 1, OTHERS[-1])
        f, case = compiled(path, "T=paged:groups"), Shared(compiled(path), 16, GROUPS, 1)
        wild = np.random.default_rng(5).integers(-(2**31), 2**31 - 1, (2, 10)).astype(np.int32)
        pools = {name: np.nan_to_num(x) for name, x in case.pools.items()}
        (o, *_) = outputs(f, case.tensors | pools | case.lists() | {"T_groups": wild[0], "T_shared": wild[1, :9]}, case.params, OTHERS[0])
        self.assertTrue(np.isfinite(o).all())


if __name__ == "__main__":
    unittest.main()
