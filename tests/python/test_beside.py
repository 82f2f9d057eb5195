"""What a call gives beside the layout of keys (docs/dev/serving.md): rows of tables and caches, tables that are one list, positions of a longer sequence; and
padded queries. Against calls of the same layout without it, to the bit, and dense calls of each sequence."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

import aule
from support import OTHERS
from test_layouts import FIRST_ALONE, LENGTHS, MOST, SCRIPTS, SIZES, Case, Rows, compiled, outputs, packing, starts_of


class Beside(unittest.TestCase):
    """What a call gives beside the layout of keys: calls are to the bit those of the same layout without it, of the same keys."""

    def check(self, path, slots=16, device=None, **sizes):
        """Rows: sequences have rows of the table, and of caches, in an order of their own, two of them one row; rows that nobody has are NaN, or -1."""
        case = Case(compiled(path), slots, **sizes)
        B = len(case.lengths)
        rows = np.random.default_rng(3).permutation(B + 3)[:B].astype(np.int32)
        rows[4] = rows[5]  # so they have the same keys, the fourth only the first ones
        lists = {"T_lengths": case.lengths, "T_rows": rows}
        table = np.full((B + 3, case.table.shape[1]), -1, np.int32)
        table[rows] = case.table

        def spread(x):
            lines = np.full((B + 3, *x.shape[1:]), np.nan, np.float32)
            lines[rows] = x
            return lines

        caches = {name: spread(case.tensors[name]) for name in case.keys}
        near = {name: x[rows] for name, x in caches.items()}
        of_pages = outputs(compiled(path, "T=paged:rows"), case.tensors | case.pools | lists | {"T_table": table}, case.params, device)
        of_rows = outputs(compiled(path, "T=padded:rows"), case.tensors | caches | lists, case.params, device)
        want_pages = outputs(compiled(path, "T=paged"), case.tensors | case.pools | {"T_lengths": case.lengths, "T_table": table[rows]}, case.params, device)
        want_rows = outputs(compiled(path, "T=padded"), case.tensors | near | {"T_lengths": case.lengths}, case.params, device)
        for got, want in ((of_pages, want_pages), (of_rows, want_rows)):
            for x, y in zip(got, want):
                self.assertFalse(np.isnan(x).any())
                np.testing.assert_array_equal(x, y, err_msg=path.name)
        whole = {name: np.nan_to_num(x) for name, x in caches.items()}
        got = outputs(compiled(path, "T=dense:rows"), case.tensors | whole | {"T_rows": rows}, case.params, device)
        for x, y in zip(got, outputs(compiled(path), case.tensors | {name: x[rows] for name, x in whole.items()}, case.params, device)):
            np.testing.assert_array_equal(x, y, err_msg=path.name)

    def test_rows(self):
        for stem, queries in (("gqa", 130), ("gqa", 1), ("rope", 130), ("rope", 2), ("mla_decode", 3), ("block_causal", 70), ("alibi", 5)):
            with self.subTest(stem, queries=queries):
                self.check(SCRIPTS / f"{stem}.attn", queries=queries)

    def test_axes(self):
        """What axes= says is what the layout of that name takes."""
        path = SCRIPTS / "rope.attn"
        case = Case(compiled(path), 16, queries=2)
        B, plain, used = len(case.lengths), aule.compile(path), -(-case.lengths // 16)
        rows, whole = np.arange(B, dtype=np.int32)[::-1].copy(), (case.lengths + 5).astype(np.int32)
        table = np.concatenate([case.table[b, :n] for b, n in enumerate(used)])
        lists = {"T_lengths": case.lengths, "T_table": case.table}
        first, most = np.zeros(B, np.int32), int(max(case.lengths))
        positions, pools, starts = aule.Positions(first, whole, 1), case.tensors | case.pools, starts_of(used)
        cases = (
            ("T=paged:rows", aule.paged(case.table, case.lengths[rows], rows=rows), lists | {"T_lengths": case.lengths[rows], "T_rows": rows}, {}),
            ("T=paged:csr", aule.paged(table, case.lengths, starts=starts, most=most), {"T_lengths": case.lengths, "T_table": table, "T_table_starts": starts}, {"T_most": most}),
            ("T=paged:positions", aule.paged(case.table, case.lengths, positions=positions), lists | {"T_first": first, "T_whole": whole}, {}),
            ("T=paged:positions", aule.paged(case.table, case.lengths, positions=(first, 2 * whole, 2)), lists | {"T_first": first, "T_whole": 2 * whole}, {"T_every": 2}),
            ("T=paged:modified", aule.paged(case.table, case.lengths, modified=True), lists, {}),
            ("T=paged:modified:rows", aule.paged(case.table, case.lengths[rows], rows=rows, modified=True), lists | {"T_lengths": case.lengths[rows], "T_rows": rows}, {}),
        )
        for layout, axis, given, params in cases:
            want = outputs(compiled(path, layout), pools | given, case.params | params, None)
            got = outputs(plain, pools, case.params | {"axes": {"T": axis}}, None)
            for x, y in zip(got, want):
                self.assertFalse(np.isnan(x).any())
                np.testing.assert_array_equal(x, y, err_msg=layout)
        rows_of = {name: np.nan_to_num(case.tensors[name]) for name in case.keys}
        for layout, axis, given in (("T=dense:rows", aule.dense(rows=rows), {"T_rows": rows}), ("T=padded:rows", aule.padded(case.lengths, rows=rows), {"T_lengths": case.lengths, "T_rows": rows})):
            want = outputs(compiled(path, layout), case.tensors | rows_of | given, case.params, None)
            for x, y in zip(outputs(plain, case.tensors | rows_of, case.params | {"axes": {"T": axis}}, None), want):
                np.testing.assert_array_equal(x, y, err_msg=layout)
        for wrong, error in (({"most": 3}, aule.ArgumentError), ({"positions": 3}, TypeError), ({"positions": (first,)}, TypeError), ({"modified": 1}, TypeError), ({"rows": 3}, TypeError),
                             ({"positions": (first, whole, 1.5)}, TypeError)):
            with self.assertRaises(error):
                aule.paged(case.table, case.lengths, **wrong)
        made, axis = compiled(path, "T=paged:rows:modified"), cases[-1][1]  # words in another order
        for x, y in zip(outputs(made, pools, case.params | {"axes": {"T": axis}}, None), outputs(made, pools | cases[-1][2], case.params, None)):
            np.testing.assert_array_equal(x, y)

    def check_csr(self, path, slots, device=None, **sizes):
        """The pages of all sequences in one list, no more of each than it needs; a call that says how many keys there are at most, and one that does not."""
        case = Case(compiled(path), slots, **sizes)
        used = -(-case.lengths // slots)
        table = np.concatenate([case.table[b, :n] for b, n in enumerate(used)] + [np.array([-1, 2**31 - 1], np.int32)])
        starts, paged = starts_of(used), {"T_lengths": case.lengths, "T_table": case.table}
        want = outputs(compiled(path, "T=paged"), case.tensors | case.pools | paged, case.params, device)
        f, lists = compiled(path, "T=paged:csr"), {"T_lengths": case.lengths, "T_table": table, "T_table_starts": starts}
        order = np.array([3, 0, 6, 2, 5, 1, 4], np.int32)  # places in the list of each
        listed, places = [case.table[b, : used[b]] for b in np.argsort(order)], starts_of(used[np.argsort(order)])
        by_rows = {"T_lengths": case.lengths, "T_table": np.concatenate(listed), "T_table_starts": places, "T_rows": order}
        for f, given, more in ((f, lists, {"T_most": int(max(case.lengths))}), (f, lists, {}), (compiled(path, "T=paged:rows:csr"), by_rows, {})):
            for x, y in zip(outputs(f, case.tensors | case.pools | given, case.params | more, device), want):
                self.assertFalse(np.isnan(x).any())
                np.testing.assert_array_equal(x, y, err_msg=path.name)

    def test_csr(self):
        for stem, queries, slots in (("gqa", 130, 16), ("gqa", 1, 1), ("rope", 130, 1), ("rope", 2, 16), ("mla_decode", 3, 7), ("block_causal", 70, 16), ("alibi", 5, 48)):
            with self.subTest(stem, queries=queries):
                self.check_csr(SCRIPTS / f"{stem}.attn", slots, queries=queries)
        self.check_csr(SCRIPTS / "gqa.attn", 16, queries=2, lengths=np.array([1024, 0, 1, 1023, 1025, 2600, 17], np.int32), most=2600)

    def test_token_pool(self):
        """Pages of one slot, packed queries: tokens [total, H, D] over a pool of tokens whose numbers are one list, as servers that count by tokens have it."""
        r, path = np.random.default_rng(8), SCRIPTS / "gqa.attn"
        queries, keys = [3, 1, 17, 0, 1], [30, 9, 17, 4, 1]
        pool = r.standard_normal((2, 200, 2, 16)).astype(np.float32)  # [k and v, tokens, Hk, D]
        index = r.permutation(200)[: sum(keys)].astype(np.int32)
        q = r.standard_normal((sum(queries), 4, 16)).astype(np.float32)
        starts, places = starts_of(queries), starts_of(keys)
        f = compiled(path, "S=packed,T=paged:csr")
        o = f(q.transpose(1, 0, 2)[None], *(x[:, :, None] for x in pool), S_starts=starts, T_table=index, T_table_starts=places, T_lengths=np.diff(places), T_most=30)
        one = compiled(path, "S=packed,T=packed")
        k, v = (x[index].transpose(1, 0, 2)[None] for x in pool)
        np.testing.assert_array_equal(o, one(q.transpose(1, 0, 2)[None], k, v, S_starts=starts, T_starts=places))

    def refused(self, f, given, rows):
        """Rows of a tensor's name, an element, what it is instead, the message."""
        for name, at, wrong, message in rows:
            changed = given[name].copy()
            changed[at] = wrong
            with self.subTest(message), self.assertRaisesRegex(aule.ArgumentError, "gqa: " + message):
                outputs(f, given | {name: changed}, {})

    def test_wrong_csr(self):
        case, f = Case(compiled(SCRIPTS / "gqa.attn"), 16), compiled(SCRIPTS / "gqa.attn", "T=paged:csr")
        used = -(-LENGTHS // 16)
        table = np.concatenate([case.table[b, :n] for b, n in enumerate(used)])
        given = case.tensors | case.pools | {"T_lengths": LENGTHS, "T_table": table, "T_table_starts": starts_of(used)}
        self.refused(f, given, (
            ("T_table_starts", 0, 1, "T_table_starts begins with 1, expected 0"),
            ("T_table_starts", 3, 99, r"T_table_starts\[3\] is 99, T_table has 16 rows"),
            ("T_table_starts", 3, -1, "T_table_starts decreases at 3: -1 after 5"),
            ("T_lengths", 6, 97, r"T_lengths\[6\] is 97, the table reaches to 96"),
            ("T_lengths", 1, 1, r"T_lengths\[1\] is 1, the table reaches to 0"),
            ("T_table", 6, 45, r"T_table\[6\] is 45, there are 45 pages \(keys from 0 on\)"),
            ("T_table", 15, -2, r"T_table\[15\] is -2, there are 45 pages \(keys from 80 on\)"),
        ))
        with self.assertRaisesRegex(aule.ArgumentError, r"T_lengths\[6\] is 96, the call says that no sequence has more than 95"):
            outputs(f, given, {"T_most": 95})
        for most in (16 * len(table) + 1, 2**31 - 1):
            with self.assertRaisesRegex(aule.ArgumentError, rf"requirement not met: T_most is at most what the pages of T_table have room for: .*T_most = {most}.*T_entries = 16"):
                outputs(f, given, {"T_most": most})
        outputs(f, given, {"T_most": 16 * len(table)})
        with self.assertRaisesRegex(aule.ArgumentError, r"requirement not met: T_table_starts has an element for each sequence and one for the end: T_ends == B \+ 1, with T_ends = 5, B = 7; .*T_table_starts is \[5\]"):
            outputs(f, given | {"T_table_starts": starts_of(used[:4])}, {})
        with self.assertRaisesRegex(aule.CompileError, "`csr` is a table of pages"):
            compiled(SCRIPTS / "gqa.attn", "T=padded:csr")

    def shards(self, path, layout, slots, queries, ranks, device=None):
        """Positions of each sequence dealt out to ranks by turns, in caches of their own; what they give is joined by lse. And one rank that has them in
        one piece, behind others: then a window's tiles, too."""
        dense = compiled(path)
        case = Case(dense, slots, queries=queries)
        B, f, parts = len(LENGTHS), compiled(path, layout + ":positions"), []
        for every, firsts in ((ranks, range(ranks)), (1, [None, 0])):
            for rank in firsts:
                # in one piece: the last third of the positions, behind all others, in two caches
                cut = LENGTHS - LENGTHS // 3
                first = np.where(LENGTHS > 0, min(rank, 1 << 30), 0).astype(np.int32) if every > 1 else np.zeros(B, np.int32) if rank == 0 else cut
                rows = -(-np.maximum(LENGTHS - first, 0) // every) if every > 1 else cut if rank == 0 else LENGTHS - cut
                first, rows = np.minimum(first, LENGTHS).astype(np.int32), rows.astype(np.int32)
                own = {}
                for name in case.keys:
                    x = case.tensors[name]
                    own[name] = np.full((B, x.shape[1], MOST, x.shape[3]), np.nan, np.float32)
                    for b in range(B):
                        own[name][b, :, : rows[b]] = x[b, :, first[b] : LENGTHS[b] : every][:, : rows[b]]
                given = {"T_first": first, "T_whole": LENGTHS, "T_lengths": rows}
                if "paged" in layout:
                    entries = -(-MOST // slots)
                    table = np.random.default_rng(4).permutation(B * entries).reshape(B, entries).astype(np.int32)
                    for name in case.keys:
                        pool = np.empty((B * entries, own[name].shape[1], slots, own[name].shape[3]), np.float32)
                        room = np.full((B, own[name].shape[1], entries * slots, own[name].shape[3]), np.nan, np.float32)
                        room[:, :, :MOST] = own[name]
                        pool[table] = room.reshape(B, room.shape[1], entries, slots, -1).transpose(0, 2, 1, 3, 4)
                        own[name] = pool
                    given["T_table"] = table
                params = case.params | ({"T_every": every} if every > 1 else {})
                parts.append((every, f.forward(*[(case.tensors | own)[n] for n in "qkv" if n in case.tensors],
                                               **{n: x for n, x in case.tensors.items() if n not in "qkv"}, **given, **params, device=device)))
        for every in (ranks, 1):
            made = [r for e, r in parts if e == every]
            lse = np.stack([r["lse"] for r in made])
            most = lse.max(0)
            weight = np.exp(lse - np.where(np.isfinite(most), most, 0))
            o = sum(w[..., None] * r["o"] for w, r in zip(weight, made)) / np.maximum(weight.sum(0), 1e-30)[..., None]
            for b, length in enumerate(LENGTHS):
                if not length and any("T" in t.axes for t in case.given if t.role == "input"):
                    continue  # a dense call is refused: an input without an element
                want = dense(*[case.of(b)[n] for n in "qkv" if n in case.tensors], **{n: x for n, x in case.of(b).items() if n not in "qkv"}, **case.params)
                np.testing.assert_allclose(o[b], want[0], rtol=2e-5, atol=8e-6, err_msg=f"{path.name}, {layout}, every {every}: {length} keys")

    def test_positions(self):
        for stem, layout, slots, queries in (("gqa", "T=padded", 16, 130), ("gqa", "T=paged", 16, 1), ("alibi", "T=paged", 16, 130), ("sliding_window", "T=paged", 16, 70),
                                             ("sliding_window", "T=padded", 16, 2), ("rope", "T=paged", 7, 130), ("rope", "T=padded", 16, 3), ("mla_decode", "T=paged", 16, 2), ("forgetting", "T=paged", 16, 70)):
            with self.subTest(stem, layout=layout, queries=queries):
                self.shards(SCRIPTS / f"{stem}.attn", layout, slots, queries, 3)

    def test_positions_with_lists(self):
        """A mask of data, by lists of tiles; what inputs say of keys is of positions, however they are dealt out."""
        text = """attention marked { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; input group: i32[B, T]; score_mod(s) = s * rsqrt(D);
            mask(b, h, i, j) = j <= q_pos && (group[b, j] == group[b, q_pos] || j < 3); online softmax; }"""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "marked.attn"
            path.write_text(text)
            for queries in (70, 2):
                self.shards(path, "T=paged", 16, queries, 2)

    def test_devices(self):
        """Devices: to the bit as the same layouts without rows, and by lists; then numbers that are wrong, which make no address outside."""
        if not OTHERS:
            self.skipTest("no device beside the processor")
        path = SCRIPTS / "gqa.attn"
        self.check(path, queries=40, device=OTHERS[0])
        self.check_csr(path, 16, queries=40, device=OTHERS[0])
        self.shards(path, "T=paged", 16, 40, 2, device=OTHERS[0])
        case = Case(compiled(path), 16, queries=40)
        rows = {name: np.nan_to_num(x) for name, x in (case.tensors | case.pools).items()}
        f = compiled(path, "T=paged:rows:csr:positions")
        r = np.random.default_rng(6)
        for _ in range(6):
            wild = [r.choice([-(2**31), -1, 0, 5, 96, 2**31 - 1], n).astype(np.int32) for n in (7, 7, 7, 7, 8, 40)]
            given = dict(zip(("T_lengths", "T_rows", "T_first", "T_whole", "T_table_starts", "T_table"), wild))
            self.assertTrue(np.isfinite(outputs(f, rows | given, {"T_every": 3}, OTHERS[0])[0]).all())

    def test_positions_of_all(self):
        """Rows that are all positions, in order: the bits of a call without positions; a cache whose rows are all in use."""
        case = Case(compiled(SCRIPTS / "alibi.attn"), 16)
        given = case.tensors | case.pools | {"T_lengths": LENGTHS, "T_table": case.table}
        more = {"T_first": np.zeros(7, np.int32), "T_whole": LENGTHS}
        want = outputs(compiled(SCRIPTS / "alibi.attn", "T=paged"), given, case.params)
        np.testing.assert_array_equal(outputs(compiled(SCRIPTS / "alibi.attn", "T=paged:positions"), given | more, case.params)[0], want[0])
        whole = {name: np.nan_to_num(x) for name, x in case.tensors.items()}
        more = {"T_first": np.full(7, 3, np.int32), "T_whole": np.full(7, 400, np.int32), "T_rows": np.arange(7, dtype=np.int32)[::-1].copy()}
        o = outputs(compiled(SCRIPTS / "gqa.attn", "T=dense:positions:rows"), {n: whole[n] for n in "qkv"} | more, {"T_every": 4})[0]
        spread = [np.zeros((7, x.shape[1], 400, 16), np.float32) for x in (whole["k"], whole["v"])]
        for x, name in zip(spread, "kv"):
            x[:, :, 3 : 3 + 4 * 96 : 4] = whole[name][::-1]
        here = np.zeros(400, np.int32)
        here[3 : 3 + 4 * 96 : 4] = 1
        some = aule.compile("attention some { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; input here: i32[T]; score_mod(s) = s * rsqrt(D); "
                            "mask(b, h, i, j) = j <= q_pos && here[j] != 0; online softmax; }", optimize=1)
        np.testing.assert_allclose(o, some(whole["q"], *spread, here=here), rtol=2e-5, atol=8e-6)

    def test_wrong_positions(self):
        case = Case(compiled(SCRIPTS / "gqa.attn"), 16)
        given = case.tensors | case.pools | {"T_lengths": LENGTHS, "T_table": case.table, "T_first": np.zeros(7, np.int32), "T_whole": LENGTHS}
        f = compiled(SCRIPTS / "gqa.attn", "T=paged:positions")
        self.refused(f, given, (
            ("T_first", 2, -1, r"T_first\[2\] is -1, T_whole has 1 positions"),
            ("T_first", 2, 2, r"T_first\[2\] is 2, T_whole has 1 positions"),
            ("T_first", 0, 1, r"T_whole\[0\] is 70, and the last of 70 keys is position 70"),
            ("T_whole", 6, 95, r"T_whole\[6\] is 95, and the last of 96 keys is position 95"),
            ("T_whole", 1, -1, r"T_first\[1\] is 0, T_whole has -1 positions"),
        ))
        outputs(f, given | {"T_first": (LENGTHS == 0).astype(np.int32)}, {})  # a sequence without tokens may begin behind its end, as those of a shard do
        far = given | {"T_whole": np.full(7, 2**31 - 2, np.int32)}
        with self.assertRaisesRegex(aule.ArgumentError, r"T_whole\[0\] is 2147483646, with T_every 3 there are at most 2147483645 positions"):
            outputs(f, far, {"T_every": 3})
        for every in (0, 65537):
            with self.assertRaisesRegex(aule.ArgumentError, f"requirement not met: T_every is from 1 to 65536: .*T_every = {every}"):
                outputs(f, given, {"T_every": every})
        text = "attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E]; input x: f32[T]; score_mod(s) = s + x[kv_idx]; online softmax; }"
        with self.assertRaisesRegex(aule.CompileError, "axis T: positions: the input 'x' has elements for all positions, of which k has fewer rows"):
            aule.compile(text, layout="T=padded:positions")
        f, short = aule.compile(text, layout="T=paged:positions", optimize=1), np.zeros(95, np.float32)
        given |= {n: given[n][:, :1] for n in "qkv"}
        with self.assertRaisesRegex(aule.ArgumentError, r"T_whole\[6\] is 96, inputs have 95 positions"):
            outputs(f, given | {"x": short}, {})
        with self.assertRaisesRegex(aule.CompileError, "axis T: packed rows are positions from 0 on"):
            compiled(SCRIPTS / "gqa.attn", "T=packed:positions")

    def test_wrong_rows(self):
        path = SCRIPTS / "gqa.attn"
        case = Case(compiled(path), 16)
        pages = case.tensors | case.pools | {"T_table": case.table, "T_lengths": LENGTHS}
        rows = np.arange(7, dtype=np.int32)
        for layout, given, of in (("T=paged:rows", pages, "T_table"), ("T=padded:rows", case.tensors | {"T_lengths": LENGTHS}, "k"), ("T=dense:rows", case.tensors, "k")):
            for wrong in (-1, 7, 2**31 - 1):
                rows[3] = wrong
                with self.assertRaisesRegex(aule.ArgumentError, rf"gqa: T_rows\[3\] is {wrong}, {of} has 7 rows"):
                    outputs(compiled(path, layout), given | {"T_rows": rows}, {})
        with self.assertRaisesRegex(aule.ArgumentError, "T_rows.* expected 7"):
            outputs(compiled(path, "T=paged:rows"), pages | {"T_rows": rows[:4]}, {})
        for layout, message in (("T=paged:lines", "unknown word behind a layout 'lines'; expected rows, csr, positions, groups, most or modified"), ("T=packed:rows", "packed rows are where starts say, they have no `rows`")):
            with self.assertRaisesRegex(aule.CompileError, message):
                compiled(path, layout)


    def test_append(self):
        """Caches that append does not write to yet are refused by name."""
        x = np.zeros((2, 2, 16, 16), np.float32)
        for layout, message in (("T=paged:csr", "it takes no caches by `csr` or `positions`"), ("T=paged:positions", "it takes no caches by `csr` or `positions`"),
                                ("S=padded,T=padded", "beside it queries are dense or packed: no padded ones")):
            with self.subTest(layout), self.assertRaisesRegex(aule.CompileError, f"--append: 'gqa': {message}"):
                compiled(SCRIPTS / "gqa.attn", layout).append(x, x, x, x, slots=np.zeros((2, 16), np.int64))


class PaddedQueries(unittest.TestCase):
    """Each sequence's own number of queries, in rows with room for most: what a packed call gives, to the bit. Rows behind are NaN, their output is 0."""

    QUERIES = [130, 0, 1, 127, 40, 128, 129]

    def check(self, path, keys=None, device=None):
        dense = compiled(path)
        shared = "," not in packing(dense)
        rows = Rows(dense, [(n, n if shared else m) for n, m in zip(self.QUERIES, keys or LENGTHS)], SIZES | {"B": 1})
        packed = compiled(path, packing(dense))
        padded = compiled(path, packing(dense).replace("packed", "padded"))
        room = [max(p[n] for p in rows.pairs) + 3 for n in (0, 1)]

        def spread(x, side):
            out = np.full((len(rows.pairs), x.shape[1], room[side], *x.shape[3:]), np.nan, np.float32)
            for b in range(len(rows.pairs)):
                out[b, :, : rows.pairs[b][side]] = x[0, :, slice(*rows.starts[side][b : b + 2])]
            return out

        given = {name: spread(x, int(name != "q")) for name, x in rows.tensors.items()}
        for t in dense.tensors:
            if t.role == "input" and t.name in rows.cuts:  # of the batch, padded alike
                x = rows.inputs[t.name]
                out = np.zeros([len(rows.pairs) if a == "B" else room[rows.axes.index(a)] if a in rows.axes else n for a, n in zip(t.axes, x.shape)], x.dtype)
                for b in range(len(rows.pairs)):
                    of = rows.rows_in(t.name, b)
                    at = tuple(slice(b, b + 1) if a == "B" else slice(0, n) for a, n in zip(t.axes, of.shape))
                    if "B" in t.axes:
                        out[at] = of
                    else:
                        out[tuple(slice(0, n) for n in x.shape)] = x
                given[t.name] = out
            elif t.role == "input":
                given[t.name] = rows.inputs[t.name]
        lengths = {f"{axis}_lengths": np.array([p[n] for p in rows.pairs], np.int32) for n, axis in enumerate(rows.axes)}
        got = outputs(padded, given | lengths, rows.params, device)
        want = outputs(packed, rows.tensors | rows.inputs | rows.named_starts(), rows.params, device)
        for n, (x, y) in enumerate(zip(got, want)):
            self.assertFalse(np.isnan(x).any(), f"{path.name}: result {n}")
            for b, (queries, _) in enumerate(rows.pairs):
                if path.stem not in FIRST_ALONE:
                    np.testing.assert_array_equal(x[b, :, :queries], y[0, :, slice(*rows.starts[0][b : b + 2])], err_msg=f"{path.name}: {queries} queries")
                self.assertFalse(n == 0 and x[b, :, queries:].any(), f"{path.name}: rows of no sequence")

    def test_scripts(self):
        for stem in ("gqa", "alibi", "rope", "attention_sink", "documents", "gated", "forgetting"):
            with self.subTest(stem):
                self.check(SCRIPTS / f"{stem}.attn")

    def test_devices(self):
        if not OTHERS:
            self.skipTest("no device beside the processor")
        self.check(SCRIPTS / "documents.attn", device=OTHERS[0])

    def test_beside_pages(self):
        """Drafts of different lengths that are verified: queries padded, keys in pages; and dense keys, each sequence with all of them."""
        case, queries = Case(compiled(SCRIPTS / "gqa.attn"), 16, queries=5), np.array([5, 0, 1, 3, 5, 2, 4], np.int32)
        given = case.tensors | case.pools | {"T_lengths": LENGTHS, "T_table": case.table}
        for b, n in enumerate(queries):
            given["q"][b, :, n:] = np.nan
        o = outputs(compiled(SCRIPTS / "gqa.attn", "S=padded,T=paged"), given | {"S_lengths": queries}, {})[0]
        whole = {name: np.nan_to_num(case.tensors[name]) for name in "kv"} | {"q": case.tensors["q"]}
        other = outputs(compiled(SCRIPTS / "gqa.attn", "S=padded"), whole | {"S_lengths": queries}, {})[0]
        dense = compiled(SCRIPTS / "gqa.attn")
        for b, n in enumerate(queries):
            one = case.of(b) | {"q": case.tensors["q"][b : b + 1, :, :n]}
            for got, want in ((o, one), (other, {name: x[b : b + 1] for name, x in whole.items()} | {"q": one["q"]})):
                self.assertFalse(got[b, :, n:].any())
                np.testing.assert_allclose(got[b, :, :n], outputs(dense, want, {})[0][0], rtol=2e-5, atol=8e-6)

    def test_wrong_lengths(self):
        case, f = Case(compiled(SCRIPTS / "gqa.attn"), 16, queries=5), compiled(SCRIPTS / "gqa.attn", "S=padded,T=padded")
        for wrong in (-1, 6, 2**31 - 1):
            lengths = np.array([5, 0, 1, wrong, 5, 2, 4], np.int32)
            with self.assertRaisesRegex(aule.ArgumentError, rf"gqa: S_lengths\[3\] is {wrong}, q has 5 rows"):
                outputs(f, case.tensors | {"T_lengths": LENGTHS, "S_lengths": lengths}, {})


class QueryPositions(unittest.TestCase):
    """Queries that are some of a sequence's, dealt out to ranks by turns or in pieces: what dense calls of all of them have in these rows, whatever the
    mask and the score ask of positions."""

    def check(self, stem, layout, queries=70, ranks=3, device=None, most=None):
        dense = compiled(SCRIPTS / f"{stem}.attn")
        case = Case(dense, 16, queries=queries)
        B, rows = len(LENGTHS), np.minimum([queries, 0, 1, queries - 1, 7, ranks, queries], queries).astype(np.int32)  # of the whole sequences
        q, f = case.tensors["q"], compiled(SCRIPTS / f"{stem}.attn", layout)
        keys = case.pools | {"T_lengths": LENGTHS, "T_table": case.table} if "paged" in layout else {n: case.tensors[n] for n in case.keys} | {"T_lengths": LENGTHS}
        want = []
        for b in range(B):
            one = case.of(b) | {"q": q[b : b + 1, :, : rows[b]]}
            want.append(dense(*[one[n] for n in "qkv" if n in one], **{n: x for n, x in one.items() if n not in "qkv"}, **case.params, device=device))
        zigzag = [(np.full(B, piece, np.int32) * (-(-rows // (2 * ranks))), -(-rows // (2 * ranks)), 1) for piece in range(2 * ranks)]
        turns = [(np.full(B, rank, np.int32), -(-(rows - rank) // ranks), ranks) for rank in range(ranks)]
        for first, count, every in turns + zigzag:
            first = np.minimum(first, rows).astype(np.int32)
            count = np.clip(np.minimum(count, rows - first), 0, None).astype(np.int32)
            at = [np.arange(n) * every + start for n, start in zip(count, first)]
            more = {"S_first": first, "S_whole": rows}
            if "packed" in layout:
                starts = starts_of(count)
                own = np.full((1, q.shape[1], starts[-1] + 2, q.shape[3]), np.nan, np.float32)
                for b in range(B):
                    own[0, :, starts[b] : starts[b + 1]] = q[b][:, at[b]]
                more["S_starts"] = starts
            else:
                own = np.full((B, q.shape[1], count.max() + 3, q.shape[3]), np.nan, np.float32)
                for b in range(B):
                    own[b, :, : count[b]] = q[b][:, at[b]]
                more["S_lengths"] = count
            given = case.tensors | keys | more | {"q": own}
            numbers = case.params | ({"S_every": every} if every > 1 else {}) | ({"S_most": int(count.max())} if most else {})
            got = outputs(f, given, numbers, device)[0]
            for b in range(B):
                mine = got[0, :, starts[b] : starts[b + 1]] if "packed" in layout else got[b, :, : count[b]]
                np.testing.assert_allclose(mine, want[b][0][:, at[b]], rtol=2e-5, atol=8e-6, err_msg=f"{stem}, {layout}, every {every} from {first[b]}: {rows[b]} queries")
                self.assertFalse("packed" not in layout and got[b, :, count[b] :].any())
            self.assertFalse("packed" in layout and got[0, :, starts[-1] :].any())

    def test_scripts(self):
        for stem, layout in (("gqa", "S=padded:positions,T=padded"), ("alibi", "S=padded:positions,T=paged"), ("sliding_window", "S=padded:positions,T=paged"),
                             ("rope", "S=padded:positions,T=padded"), ("softcap", "S=packed:positions,T=paged"), ("sink_window", "S=packed:positions,T=paged")):
            with self.subTest(stem, layout=layout):
                self.check(stem, layout)

    def test_few(self):
        """As many as have kernels of their own, in packed rows of which a call says so, too."""
        for stem, layout, most in (("gqa", "S=padded:positions,T=paged", None), ("sliding_window", "S=packed:most:positions,T=paged", 1), ("alibi", "S=packed:most:positions,T=paged", 1)):
            for queries in (3, 24):
                with self.subTest(stem, layout=layout, queries=queries):
                    self.check(stem, layout, queries=queries, ranks=2, most=most)

    def test_lists(self):
        """A mask of data, by lists of tiles."""
        text = """attention marked { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; input group: i32[B, T]; score_mod(s) = s * rsqrt(D);
            mask(b, h, i, j) = j <= q_pos && (group[b, j] == i % 3 || j < 3); online softmax; }"""
        f, dense = aule.compile(text, layout="S=padded:positions", optimize=1), aule.compile(text, optimize=1)
        r = np.random.default_rng(1)
        q, k, v = (r.standard_normal((2, 2, n, 16)).astype(np.float32) for n in (200, 210, 210))
        group = r.integers(0, 3, (2, 210)).astype(np.int32)
        want = dense(q, k, v, group=group)
        got = f(q[:, :, 1::2], k, v, group=group, S_lengths=np.full(2, 100, np.int32), S_first=np.ones(2, np.int32), S_whole=np.full(2, 200, np.int32), S_every=2)
        np.testing.assert_allclose(got, want[:, :, 1::2], rtol=2e-5, atol=8e-6)

    def test_axes(self):
        """By axes=, of rows that are all in use, too; ranks that have a shard of the keys beside, joined by parts."""
        f = compiled(SCRIPTS / "gqa.attn")
        plain = aule.compile(SCRIPTS / "gqa.attn", optimize=1)
        r = np.random.default_rng(2)
        q, k, v = (r.standard_normal((2, h, 40, 16)).astype(np.float32) for h in (4, 2, 2))
        want = outputs(f, {"q": q, "k": k, "v": v}, {})[0]
        whole = np.full(2, 40, np.int32)
        for rank in range(2):
            turn = aule.Positions(np.full(2, rank, np.int32), whole, 2)
            for axes in ({"S": aule.dense(positions=turn)}, {"S": aule.padded(whole // 2, positions=turn)}, {"S": aule.dense(positions=turn), "T": aule.padded(whole)}):
                np.testing.assert_allclose(plain(q[:, :, rank::2], k, v, axes=axes), want[:, :, rank::2], rtol=2e-5, atol=8e-6)
            rows = q[:, :, rank::2].transpose(1, 0, 2, 3).reshape(1, 4, 40, 16)
            o = plain(rows, k, v, axes={"S": aule.packed(np.array([0, 20, 40], np.int32), positions=turn), "T": aule.padded(whole)})
            np.testing.assert_allclose(o[0].reshape(4, 2, 20, 16).swapaxes(0, 1), want[:, :, rank::2], rtol=2e-5, atol=8e-6)
            halves = [plain.unfinished(q[:, :, rank::2], k[:, :, n::2], v[:, :, n::2], axes={"S": aule.dense(positions=turn), "T": aule.dense(positions=(np.full(2, n, np.int32), whole, 2))})
                      for n in range(2)]
            np.testing.assert_allclose(plain.combine(halves)["o"], want[:, :, rank::2], rtol=2e-5, atol=8e-6)

    def test_devices(self):
        if not OTHERS:
            self.skipTest("no device beside the processor")
        self.check("sliding_window", "S=padded:positions,T=paged", queries=40, ranks=2, device=OTHERS[0])
        self.check("alibi", "S=packed:positions,T=paged", queries=40, ranks=2, device=OTHERS[0])
        f, r = compiled(SCRIPTS / "sliding_window.attn", "S=padded:positions,T=padded"), np.random.default_rng(6)
        case = Case(compiled(SCRIPTS / "sliding_window.attn"), 16, queries=40)
        rows = {name: np.nan_to_num(x) for name, x in case.tensors.items()}
        for _ in range(6):
            wild = [r.choice([-(2**31), -1, 0, 5, 96, 2**31 - 1], 7).astype(np.int32) for _ in range(3)]
            given = dict(zip(("S_lengths", "S_first", "S_whole"), wild))
            self.assertTrue(np.isfinite(outputs(f, rows | given | {"T_lengths": LENGTHS}, {"S_every": 3}, OTHERS[0])[0]).all())

    def test_wrong_lists(self):
        f, case = compiled(SCRIPTS / "gqa.attn", "S=padded:positions,T=padded"), Case(compiled(SCRIPTS / "gqa.attn"), 16, queries=5)
        right = {"S_lengths": np.full(7, 3, np.int32), "S_first": np.zeros(7, np.int32), "S_whole": np.full(7, 5, np.int32), "T_lengths": LENGTHS}
        for name, at, value, message in (
            ("S_first", 2, -1, r"gqa: S_first\[2\] is -1, S_whole has 5 positions"),
            ("S_first", 2, 3, r"gqa: S_whole\[2\] is 5, and the last of 3 queries is position 5"),
            ("S_whole", 4, 2, r"gqa: S_whole\[4\] is 2, and the last of 3 queries is position 2"),
            ("S_whole", 1, -1, r"gqa: S_first\[1\] is 0, S_whole has -1 positions"),
            ("S_lengths", 3, 6, r"gqa: S_lengths\[3\] is 6, q has 5 rows"),
        ):
            wrong = right | {name: right[name].copy()}
            wrong[name][at] = value
            with self.subTest(message), self.assertRaisesRegex(aule.ArgumentError, message):
                outputs(f, case.tensors | wrong, {})
        far = right | {"S_whole": np.full(7, 2**31 - 2, np.int32)}
        with self.assertRaisesRegex(aule.ArgumentError, r"S_whole\[0\] is 2147483646, with S_every 3 there are at most 2147483645 positions"):
            outputs(f, case.tensors | far, {"S_every": 3})
        with self.assertRaisesRegex(aule.ArgumentError, "requirement not met: S_every is from 1 to 65536: .*S_every = 0"):
            outputs(f, case.tensors | right, {"S_every": 0})
        packed = compiled(SCRIPTS / "gqa.attn", "S=packed:positions,T=padded")
        given = case.tensors | {"T_lengths": LENGTHS, "S_starts": np.array([0, 5, 5, 5, 5, 5, 5, 5], np.int32), "S_first": np.zeros(7, np.int32), "S_whole": np.full(7, 4, np.int32)}
        with self.assertRaisesRegex(aule.ArgumentError, r"gqa: S_whole\[0\] is 4, and the last of 5 queries is position 4"):
            outputs(packed, given | {"q": case.tensors["q"][:1]}, {})

    def test_refused(self):
        text = "attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E]; input x: f32[S]; score_mod(s) = s + x[q_idx]; online softmax; }"
        for layout in ("S=padded:positions", "S=dense:positions", "S=packed:positions,T=paged"):
            with self.assertRaisesRegex(aule.CompileError, "(?m)axis S: positions: the input 'x' has elements for all positions, of which q has fewer rows$"):
                aule.compile(text, layout=layout)
        for extent, read, layout, axis in (("2 * S - 1", "q_idx", "S=dense:positions", "S"), ("S + T", "q_idx + kv_idx", "S=padded:positions", "S"), ("S + T", "kv_idx", "T=dense:positions", "T"), ("2 * T", "2 * kv_idx", "T=padded:positions", "T")):
            made_of = text.replace("f32[S]", f"f32[{extent}]").replace("x[q_idx]", f"x[{read}]")
            with self.subTest(extent), self.assertRaisesRegex(aule.CompileError, f"axis {axis}: positions: the input 'x' has elements for all positions, of which . has fewer rows"):
                aule.compile(made_of, layout=layout)
        with self.assertRaisesRegex(aule.CompileError, "axis S: q and k have one axis; rows and positions are those of queries or of keys"):
            compiled(SCRIPTS / "documents.attn", "S=padded:positions")
        with self.assertRaisesRegex(aule.CompileError, "axis S: what `groups` share is for queries that are the last of their sequences; beside it `positions` of queries are not carried yet"):
            compiled(SCRIPTS / "gqa.attn", "S=padded:positions,T=paged:groups")
        f = compiled(SCRIPTS / "gqa.attn", "S=padded:positions")
        q = np.zeros((1, 4, 3, 16), np.float32)
        k = np.zeros((1, 2, 3, 16), np.float32)
        lists = {"S_lengths": np.full(1, 3, np.int32), "S_first": np.zeros(1, np.int32), "S_whole": np.full(1, 3, np.int32)}
        with self.assertRaisesRegex(aule.Error, "gqa with layout S=padded:positions has no backward pass"):
            f.backward(f.forward(q, k, k, **lists), q)


class QueryRows(unittest.TestCase):
    """Queries in rows of an order of their own, some of them nobody's: o and finals lie as q does, to the bit what a call in order has; rows of nobody are 0,
    their finals those of rows without a pair."""

    def check(self, stem, layout, queries, device=None, more=(), params=None):
        path = SCRIPTS / f"{stem}.attn"
        case = Case(compiled(path), 16, queries=queries)
        B = len(LENGTHS)
        rows = np.random.default_rng(5).permutation(B + 3)[:B].astype(np.int32)
        nobody = np.setdiff1d(np.arange(B + 3), rows)
        q = np.full((B + 3, *case.tensors["q"].shape[1:]), np.nan, np.float32)
        q[rows] = case.tensors["q"]
        keys = {"T_lengths": LENGTHS} | (case.pools | {"T_table": case.table} if "paged" in layout else {n: case.tensors[n] for n in case.keys})
        lists = dict(more)
        if "S=padded" in layout:
            lists["S_lengths"] = np.minimum([queries, 0, 1, queries - 1, 7, 2, queries], queries).astype(np.int32)
        params = case.params | (params or {})
        got = outputs(compiled(path, layout), case.tensors | keys | lists | {"q": q, "S_rows": rows}, params, device)
        plain = layout.replace(":rows", "", 1).replace("S=dense,", "")
        want = outputs(compiled(path, plain), case.tensors | keys | lists, params, device)
        for n, (x, y) in enumerate(zip(got, want)):
            np.testing.assert_array_equal(x[rows], y, err_msg=f"{stem}, {layout}: result {n}")
            self.assertFalse(np.isnan(x).any())
            if n == 0:
                self.assertFalse(x[nobody].any(), "rows of nobody")
            else: # as a row of the sequence without keys
                np.testing.assert_array_equal(x[nobody], np.broadcast_to(y[LENGTHS == 0][0, :1, :1], x[nobody].shape))

    def test_scripts(self):
        for stem, layout, queries in (("gqa", "S=padded:rows,T=padded", 130), ("gqa", "S=dense:rows,T=padded", 70), ("rope", "S=padded:rows,T=paged", 130), ("alibi", "S=dense:rows,T=paged", 2),
                                      ("gqa", "S=padded:rows,T=padded", 1), ("attention_sink", "S=padded:rows,T=paged", 40)):
            with self.subTest(stem, layout=layout, queries=queries):
                self.check(stem, layout, queries)

    def test_beside(self):
        """Keys by rows, too; positions of what the queries are."""
        path, case = SCRIPTS / "gqa.attn", Case(compiled(SCRIPTS / "gqa.attn"), 16, queries=20)
        order = np.arange(7, dtype=np.int32)[::-1].copy()
        caches = {n: case.tensors[n][order] for n in case.keys}
        given = case.tensors | {"T_lengths": LENGTHS}
        want = outputs(compiled(path, "T=padded"), given, {})[0]
        got = outputs(compiled(path, "S=dense:rows,T=padded:rows"), given | caches | {"q": case.tensors["q"][order], "S_rows": order, "T_rows": order}, {})[0]
        np.testing.assert_array_equal(got[order], want)
        odd = {"S_first": np.ones(7, np.int32), "S_whole": np.full(7, 40, np.int32)}
        for layout in ("S=padded:rows:positions,T=paged", "S=dense:rows:positions,T=padded"):
            self.check("sliding_window", layout, 20, more=odd, params={"S_every": 2})

    def test_axes(self):
        """By axes=; parts are joined as they lie."""
        f, plain = aule.compile(SCRIPTS / "gqa.attn", optimize=1), compiled(SCRIPTS / "gqa.attn")
        r = np.random.default_rng(2)
        q, k, v = (r.standard_normal((3, h, 40, 16)).astype(np.float32) for h in (4, 2, 2))
        want = outputs(plain, {"q": q, "k": k, "v": v}, {})[0]
        rows, lines = np.array([4, 0, 2], np.int32), np.full((5, 4, 40, 16), np.nan, np.float32)
        lines[rows] = q
        for axes in ({"S": aule.dense(rows=rows)}, {"S": aule.padded(np.full(3, 40, np.int32), rows=rows)}, {"S": aule.dense(rows=rows), "T": aule.padded(np.full(3, 40, np.int32))}):
            o = f(lines, k, v, axes=axes)
            np.testing.assert_allclose(o[rows], want, rtol=2e-5, atol=8e-6)
            self.assertFalse(o[[1, 3]].any())
        whole = np.full(3, 40, np.int32)
        halves = [f.unfinished(lines, k[:, :, n::2], v[:, :, n::2], axes={"S": aule.dense(rows=rows), "T": aule.dense(positions=(np.full(3, n, np.int32), whole, 2))}) for n in range(2)]
        o = f.combine(halves)["o"]
        np.testing.assert_allclose(o[rows], want, rtol=2e-5, atol=8e-6)
        self.assertFalse(o[[1, 3]].any())

    def test_again(self):
        """Another list is another call's: what rows were somebody's before is forgotten. More sequences than a block marks."""
        f, r = compiled(SCRIPTS / "gqa.attn", "S=padded:rows,T=padded"), np.random.default_rng(4)
        B, k = 70, r.standard_normal((70, 2, 4, 16)).astype(np.float32)
        lists = {"S_lengths": np.ones(B, np.int32), "T_lengths": np.full(B, 4, np.int32)}
        for device in (None, *OTHERS[:1]):
            for _ in range(3):
                rows = r.permutation(2 * B)[:B].astype(np.int32)
                o = outputs(f, {"q": np.zeros((2 * B, 4, 1, 16), np.float32), "k": k, "v": k, "S_rows": rows} | lists, {}, device)[0]
                np.testing.assert_allclose(o[rows], np.repeat(k.mean(2, keepdims=True), 2, 1), rtol=1e-5, atol=1e-6)
                self.assertFalse(np.delete(o, rows, 0).any())

    def test_devices(self):
        if not OTHERS:
            self.skipTest("no device beside the processor")
        self.check("gqa", "S=padded:rows,T=paged", 40, device=OTHERS[0])
        self.check("gqa", "S=padded:rows,T=padded", 3, device=OTHERS[0])
        f, case, r = compiled(SCRIPTS / "gqa.attn", "S=padded:rows,T=padded"), Case(compiled(SCRIPTS / "gqa.attn"), 16, queries=20), np.random.default_rng(6)
        given = {name: np.nan_to_num(x) for name, x in case.tensors.items()}
        for _ in range(4):  # rows of several sequences, too
            wild = {name: r.choice([-(2**31), -1, 0, 5, 96, 2**31 - 1], 7).astype(np.int32) for name in ("S_lengths", "S_rows")}
            self.assertTrue(np.isfinite(outputs(f, given | wild | {"T_lengths": LENGTHS}, {}, OTHERS[0])[0]).all())

    def test_modules(self):
        """Rows behind lengths, of nobody and of no sequence are written by SPIR-V modules as by source."""
        devices = [d.id for d in aule.devices() if d.id in OTHERS and "SPIR-V_1.0" in d.features]
        aulec = shutil.which("aulec", path=os.environ.get("AULE_LIBRARY_PATH", ""))
        if not devices or aulec is None:
            self.skipTest("no OpenCL device that takes modules, or no aulec")
        q, k = (np.random.default_rng(2).standard_normal((2, heads, 40, 16)).astype(np.float32) for heads in (4, 2))
        numbers = {"S_lengths": [20, 0], "T_lengths": [40, 40], "S_rows": [1, 0], "S_starts": [0, 9, 30]}
        numbers = {name: np.array(x, np.int32) for name, x in numbers.items()}
        for layout, lists in (("S=padded,T=padded", ("S_lengths", "T_lengths")), ("S=padded:rows,T=padded", ("S_lengths", "S_rows", "T_lengths")),
                              ("S=packed,T=padded", ("S_starts", "T_lengths"))):
            with self.subTest(layout), tempfile.TemporaryDirectory() as folder:
                made = f"{folder}/f.so"
                subprocess.run([aulec, SCRIPTS / "gqa.attn", "--target=opencl,cpu", "--arch=spirv,x86-64-v3", "--no-grad", "--dtype=f32", "--width=D=16", "--layout", layout, "-o", made], check=True)
                f, rows = aule.load(made), q[:1] if "packed" in layout else q
                given = {name: numbers[name] for name in lists}
                want, o = f(rows, k, k, **given), np.full(rows.shape, 7, np.float32)
                f(rows, k, k, **given, device=devices[0], out=o)
                np.testing.assert_allclose(o, want, rtol=2e-5, atol=8e-6)

    def test_wrong_rows(self):
        f, case = compiled(SCRIPTS / "gqa.attn", "S=dense:rows,T=padded"), Case(compiled(SCRIPTS / "gqa.attn"), 16, queries=5)
        for at, value, message in ((3, -1, r"gqa: S_rows\[3\] is -1, q has 7 rows"), (3, 7, r"gqa: S_rows\[3\] is 7, q has 7 rows"),
                                   (5, 1, r"gqa: S_rows\[1\] and \[5\] are both 1, where one output lies")):
            rows = np.arange(7, dtype=np.int32)
            rows[at] = value
            with self.subTest(message), self.assertRaisesRegex(aule.ArgumentError, message):
                outputs(f, case.tensors | {"T_lengths": LENGTHS, "S_rows": rows}, {})
        with self.assertRaisesRegex(aule.ArgumentError, "S_rows.* expected 7"):
            outputs(f, case.tensors | {"T_lengths": LENGTHS, "S_rows": np.arange(4, dtype=np.int32)}, {})
        q, k = np.zeros((70001, 2, 1, 16), np.float32), np.zeros((3, 1, 4, 16), np.float32)
        lists = {"T_lengths": np.full(3, 4, np.int32), "S_rows": np.array([70000, 3, 70000], np.int32)}
        with self.assertRaisesRegex(aule.ArgumentError, r"S_rows\[0\] and \[2\] are both 70000"):
            f(q, k, k, **lists)

    def test_refused(self):
        for script, layout, why in (("documents", "S=padded:rows", "q and k have one axis; rows and positions are those of queries or of keys"),
                                    ("gqa", "S=padded:rows,T=paged:groups", "beside `groups` `rows` of queries are not carried yet"),
                                    ("gqa", "S=packed:rows", "packed rows are where starts say, they have no `rows`"),
                                    ("mla_prefill", "S=padded:rows", "has rows of each sequence, which beside `rows` of queries are not carried yet")):
            with self.subTest(script, layout=layout), self.assertRaisesRegex(aule.CompileError, why):
                compiled(SCRIPTS / f"{script}.attn", layout)
        f = compiled(SCRIPTS / "gqa.attn", "S=dense:rows")
        q, k = np.zeros((2, 4, 3, 16), np.float32), np.zeros((2, 2, 3, 16), np.float32)
        with self.assertRaisesRegex(aule.Error, "gqa with layout S=dense:rows has no backward pass"):
            f.backward(f.forward(q, k, k, S_rows=np.arange(2, dtype=np.int32)), q)


if __name__ == "__main__":
    unittest.main()
