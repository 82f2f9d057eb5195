"""Keys that are padded or lie in pages, and packed queries and keys (docs/dev/serving.md): a call is what as many dense calls are as it has sequences, to the bit, since
kernels of both are one schedule in tiles of the same keys. What lies in slots that no sequence has is NaN throughout; tables end in -1."""

from __future__ import annotations

import dataclasses
import os
import re
import resource
import unittest

import numpy as np

import aule
from support import ROOT, narrow

SCRIPTS = ROOT / "attn_scripts"
# A slope; lists of tiles; rotated keys; values in keys; sinks; rows of keys of a further product. Groups are in the test of pages
FEW = "alibi block_causal rope mla_decode attention_sink mla_prefill".split()
INPUTS = "documents pair_bias gated cosine tree forgetting mla_prefill".split()  # with a packed axis
SIZES = {"H": 4, "Hk": 2, "Hv": 2, "D": 16, "E": 16, "P": 8}
LENGTHS = np.array([70, 0, 1, 15, 16, 17, 96], np.int32)
MOST = 96
FIRST_ALONE = ["dropout"]  # its random numbers are of the sequence's place in the batch, which by itself is the first


def is_softmax(path):
    text = path.read_text()
    return "online" in text and "linear {" not in text


def array(r, spec, sizes):
    shape = tuple(sizes[axis] if isinstance(axis, str) else axis for axis in spec.axes)
    dtype = np.dtype("float32" if spec.dtype == "operand" else spec.dtype)
    return r.standard_normal(shape).astype(dtype) if dtype.kind == "f" else r.integers(0, 2, shape).astype(dtype)


class Case:
    """Arguments of one dense call of all sequences, and of the same in pages of [slots] rows, spread over more than there need be."""

    def __init__(self, f, slots, queries=130, lengths=LENGTHS, most=MOST, paged=None):
        r = np.random.default_rng(0)
        B, self.lengths = len(lengths), lengths
        sizes = SIZES | {"B": B, "S": queries, "T": most}
        self.given = [t for t in f.tensors if t.role in ("q", "k", "v", "input") and not t.in_k]
        self.tensors = {}
        for t in self.given:
            if any(not isinstance(axis, (str, int)) or (isinstance(axis, str) and axis not in sizes) for axis in t.axes):
                raise unittest.SkipTest(f"{f.name}: {t.name} {t.axes}")
            self.tensors[t.name] = array(r, t, sizes)
        of_pages = {t.name for t in paged.tensors if t.axes and t.axes[0] == "T_pages"} if paged else ()
        self.keys = [t.name for t in self.given if t.role in ("k", "v") or t.name in of_pages]
        for name in self.keys:
            for b, length in enumerate(lengths):
                self.tensors[name][b, :, length:] = np.nan
        entries = -(-most // slots)
        self.table = r.permutation(B * entries + 3)[: B * entries].reshape(B, entries).astype(np.int32)
        self.pools = {}
        for name in self.keys:
            dense = self.tensors[name]
            pool = np.full((B * entries + 3, dense.shape[1], slots, dense.shape[3]), np.nan, np.float32)
            for b, length in enumerate(lengths):
                for j in range(length):
                    pool[self.table[b, j // slots], :, j % slots] = dense[b, :, j]
            self.pools[name] = pool
        for b, length in enumerate(lengths):
            self.table[b, -(-length // slots) :] = -1
        self.params = {p.name: 1.0 if p.dtype == "float32" else 5 for p in f.parameters if p.required}

    def of(self, b):
        """Sequence b by itself."""
        length, one = self.lengths[b], {}
        for t in self.given:
            x = self.tensors[t.name]
            for n, axis in enumerate(t.axes):
                x = x[(slice(None),) * n + (slice(b, b + 1) if axis == "B" else slice(0, length) if axis == "T" else slice(None),)]
            one[t.name] = x
        return one


def outputs(f, tensors, params, device=None):
    made = f(*[tensors[n] for n in "qkv" if n in tensors], **{n: x for n, x in tensors.items() if n not in "qkv"}, **params, device=device)
    return made if isinstance(made, tuple) else (made,)


def compiled(path, layout=None):
    return aule.compile(narrow(path), layout=layout, optimize=1)


class Layouts(unittest.TestCase):
    def check(self, path, slots, **sizes):
        dense = compiled(path)
        try:
            paged = compiled(path, "T=paged")
        except aule.CompileError as error:
            self.assertIn("--layout: axis T: ", str(error))
            return str(error)
        case = Case(dense, slots, **sizes, paged=paged)
        lengths = case.lengths
        padded = compiled(path, "T=padded")
        of_pages = outputs(paged, case.tensors | case.pools | {"T_lengths": lengths, "T_table": case.table}, case.params)
        of_rows = outputs(padded, case.tensors | {"T_lengths": lengths}, case.params)
        for b in range(1 if path.stem in FIRST_ALONE else len(lengths)):
            if not lengths[b] and any(t.role == "input" and "T" in t.axes and t.name not in case.keys for t in case.given):
                self.assertFalse(of_rows[0][b].any() or of_pages[0][b].any())
                continue  # of which a dense call is refused: an input without an element
            want = outputs(dense, case.of(b), case.params)
            for n, x in enumerate(want):
                np.testing.assert_array_equal(of_rows[n][b], x[0], err_msg=f"{path.name}: padded, {lengths[b]} keys")
                np.testing.assert_array_equal(of_pages[n][b], x[0], err_msg=f"{path.name}: pages of {slots}, {lengths[b]} keys")
        return None

    def test_scripts(self):
        for stem in FEW:
            with self.subTest(stem):
                self.assertIsNone(self.check(SCRIPTS / f"{stem}.attn", 16))

    def test_pages_of_one_and_of_any_size(self):
        for slots in (1, 48, 107):
            with self.subTest(slots):
                self.assertIsNone(self.check(SCRIPTS / "gqa.attn", slots))

    def test_few_queries(self):
        """Parts of 1024 keys, each sequence as many as it has; then kernels of a few rows."""
        for stem, queries, slots in (("gqa", 1, 16), ("gqa", 3, 107), ("alibi", 1, 48), ("sliding_window", 2, 16), ("attention_sink", 1, 1),
                                     ("rope", 4, 64), ("softcap", 7, 16), ("dropout", 1, 16), ("gqa", 20, 16), ("gqa", 50, 48)):
            with self.subTest(stem, queries=queries, slots=slots):
                few = {"queries": queries, "lengths": np.array([1024, 0, 1, 1023, 1025, 2600, 17], np.int32), "most": 2600}
                self.assertIsNone(self.check(SCRIPTS / f"{stem}.attn", slots, **few))

    @unittest.skipUnless(os.environ.get("AULE_TEST_FULL_SIZES"), "all scripts, with AULE_TEST_FULL_SIZES")
    def test_all_scripts(self):
        for path in sorted(SCRIPTS.glob("*.attn")):
            with self.subTest(path.stem):
                if is_softmax(path):
                    self.check(path, 16)


# Queries and keys of each packed sequence: none, one, tiles of the processor's kernels less and more one, fewer queries than keys and more, one long one.
PACKED = [(0, 0), (1, 1), (130, 70), (0, 9), (7, 0), (127, 127), (128, 128), (129, 129), (1, 200), (300, 300), (15, 16), (1, 1), (1, 1)]
SAME = [(n, n) for n in (0, 1, 1, 15, 16, 17, 130, 0, 257, 1)]
AS_DENSE = 130  # from so many queries on, dense calls have the same kernels; fewer are made by others, whose sums are in another order
REST = 5  # rows behind the last sequence


def starts_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


class Rows:
    """Arguments of a packed call, and of each sequence by itself. [layout]: which axes are packed. Rows of no sequence are NaN, strides odd."""

    def __init__(self, f, pairs, sizes, dtype=np.float32):
        r = np.random.default_rng(1)
        self.axes = [t.axes[2] for t in f.tensors if t.role in ("q", "k")]
        self.shared = self.axes[0] == self.axes[1]
        self.starts = [starts_of([p[n] for p in pairs]) for n in (0, 1)]
        self.tensors, self.inputs, self.pairs, self.of_batch, self.cuts = {}, {}, pairs, set(), {}
        for t in f.tensors:
            if t.role not in ("q", "k", "v", "input") or t.in_k or t.name.endswith("_starts"):
                continue
            if t.role == "input" and any(axis in self.axes for axis in t.axes):
                self.inputs[t.name] = self.rows_of(r, t, sizes)
                continue
            have = sizes | {"B": len(pairs)} if t.role == "input" else sizes
            shape = [have.get(axis, axis) if isinstance(axis, str) else axis for axis in t.axes]
            if t.role == "input":
                if any(isinstance(axis, str) for axis in shape):
                    raise unittest.SkipTest(f"{f.name}: {t.name} {t.axes}")
                self.inputs[t.name] = array(r, t, have)
                self.of_batch |= {t.name} if "B" in t.axes else set()
                continue
            starts = self.starts[t.role != "q"]
            memory = np.full((1, starts[-1] + REST, shape[1], shape[3] + 3), np.nan, np.float32)
            memory[:, : starts[-1], :, : shape[3]] = r.standard_normal((1, starts[-1], shape[1], shape[3]))
            self.tensors[t.name] = memory.astype(dtype).transpose(0, 2, 1, 3)[..., : shape[3]]
        self.params = {p.name: 1.0 if p.dtype == "float32" else 5 for p in f.parameters if p.required}

    def rows_of(self, r, t, sizes):
        """An input with packed axes: the first of one that each sequence has for its own is packed, of others no sequence has more than the longest."""
        have, packed = dict(sizes), [n for n, axis in enumerate(t.axes) if axis in self.axes]
        own = packed[0] if "B" in t.axes else None
        shape = [have.get(axis, axis) if n not in packed else max(p[self.axes.index(axis)] for p in self.pairs) for n, axis in enumerate(t.axes)]
        starts = self.starts[self.axes.index(t.axes[packed[0]])]
        if own is not None:
            shape[own] = starts[-1] + REST
        if any(isinstance(axis, str) for axis in shape):
            raise unittest.SkipTest(f"{t.name} {t.axes}")
        x = array(r, dataclasses.replace(t, axes=tuple(shape)), {})
        if own is not None:
            x[(slice(None),) * own + (slice(starts[-1], None),)] = np.nan if x.dtype.kind == "f" else 77
        self.cuts[t.name] = [(n, t.axes[n], n == own) for n in packed]
        return x

    def rows_in(self, name, b, of=None):
        """What sequence b has of an input, or of another array like it: a view."""
        x = self.inputs[name] if of is None else of
        x = x[b : b + 1] if name in self.of_batch else x
        for n, axis, own in self.cuts.get(name, ()):
            side = self.axes.index(axis)
            x = x[(slice(None),) * n + (slice(*self.starts[side][b : b + 2]) if own else slice(0, self.pairs[b][side]),)]
        return x

    def needs_keys(self):
        """Does a call by itself of a sequence without keys lack an element of an input, so that it is refused?"""
        return any(axis == "T" for cuts in self.cuts.values() for _, axis, _ in cuts)

    def named_starts(self, first=0, last=None):
        """Of a call of the sequences first .. last; all, of all rows."""
        made = {}
        for axis, starts in zip(self.axes, self.starts):
            made[f"{axis}_starts"] = starts if last is None else (starts[first : last + 1] - starts[first]).astype(np.int32)
        return made

    def of(self, b):
        return {name: x[:, :, slice(*self.starts[name != "q"][b : b + 2])] for name, x in self.tensors.items()} | {
            name: self.rows_in(name, b) for name in self.inputs
        }


def packing(f):
    axes = dict.fromkeys(t.axes[2] for t in f.tensors if t.role in ("q", "k"))
    return ",".join(f"{axis}=packed" for axis in axes)


class Packed(unittest.TestCase):
    def check(self, path, sizes=SIZES, dtype=np.float32):
        dense = compiled(path)
        shared = len(set(packing(dense).split(","))) == 1
        try:
            f = compiled(path, packing(dense))
        except aule.CompileError as error:
            self.assertIn("--layout: axis ", str(error))
            return str(error)
        rows = Rows(dense, SAME if shared else PACKED, sizes | {"B": 1}, dtype)
        got = outputs(f, rows.tensors | rows.inputs | rows.named_starts(), rows.params)
        begins = rows.starts[0]
        self.assertFalse(got[0][:, :, begins[-1] :].any(), "rows of no sequence")
        for n, x in enumerate(got):
            self.assertFalse(np.isnan(x.astype(np.float32)).any(), f"{path.name}: result {n}")
        for b, (queries, keys) in enumerate(rows.pairs):
            if not queries or path.stem in FIRST_ALONE and b:
                continue
            say = f"{path.name}: sequence {b}, {queries} queries of {keys} keys"
            mine = [x[:, :, begins[b] : begins[b + 1]] for x in got]
            if not keys and rows.needs_keys():
                self.assertFalse(mine[0].any(), say)
                continue
            alone = outputs(f, rows.of(b) | rows.named_starts(b, b + 1), rows.params)
            want = outputs(dense, rows.of(b), rows.params)
            for x, y, z in zip(mine, alone, want):
                np.testing.assert_array_equal(x, y, err_msg=f"{say}, packed alone")
                if queries >= AS_DENSE:
                    np.testing.assert_array_equal(x, z, err_msg=f"{say}, dense")
                else:
                    near = 2e-6 if dtype == np.float32 else 1e-3
                    np.testing.assert_allclose(x.astype(np.float32), z.astype(np.float32), rtol=near * 10, atol=near * 4, err_msg=f"{say}, dense")
        return None

    def test_scripts(self):
        for stem in (*FEW, "gqa", "qk_norm", *INPUTS):
            with self.subTest(stem):
                self.assertIsNone(self.check(SCRIPTS / f"{stem}.attn"))

    def test_half(self):
        self.assertIsNone(self.check(SCRIPTS / "gqa.attn", dtype=np.float16))

    def test_queries_and_keys_have_one_axis(self):
        text = "attention encoder { q: [B, H, S, D]; k: [B, H, S, D]; v: [B, H, S, E]; score_mod(s) = s * rsqrt(D) - 0.01 * abs(q_idx - kv_idx); online softmax; }"
        f, dense = aule.compile(text, layout="S=packed", optimize=1), aule.compile(text, optimize=1)
        rows = Rows(dense, SAME, SIZES | {"B": 1})
        got = outputs(f, rows.tensors | rows.named_starts(), {})
        for b in range(len(SAME)):
            if SAME[b][0] < AS_DENSE:
                continue
            at = slice(*rows.starts[0][b : b + 2])
            for x, y in zip(got, outputs(dense, rows.of(b), {})):
                np.testing.assert_array_equal(x[:, :, at], y)

    def test_embedding_model(self):
        """Sentences of all-MiniLM-L6-v2 one after the other, [tokens, H, D] as the model has them (tests/data/README.md)."""
        q, k, v, want = (np.load(ROOT / f"tests/data/minilm_packed_layer0_{name}.npy") for name in ("q", "k", "v", "out"))
        starts = np.load(ROOT / "tests/data/minilm_packed_cu_seqlens.npy")
        text = "attention encoder { q: [B, H, S, D]; k: [B, H, S, D]; v: [B, H, S, E]; score_mod(s) = s * rsqrt(D); online softmax; }"
        o = aule.compile(text, layout="S=packed", optimize=1)(*(x.transpose(1, 0, 2)[None] for x in (q, k, v)), S_starts=starts)
        np.testing.assert_allclose(o[0].transpose(1, 0, 2), want, rtol=1e-5, atol=2e-6)

    def test_queries_packed_keys_in_pages(self):
        """Each sequence's last queries over its cache: a prefill in chunks, and decoding beside it."""
        path, slots, lengths = SCRIPTS / "gqa.attn", 16, [3, 0, 1, 15, 1, 140, 96]
        case = Case(compiled(path), slots)
        r, starts = np.random.default_rng(2), starts_of(lengths)
        q = r.standard_normal((1, SIZES["H"], starts[-1] + REST, SIZES["D"])).astype(np.float32)
        q[:, :, starts[-1] :] = np.nan
        f = compiled(path, "S=packed,T=paged")
        got = outputs(f, case.tensors | case.pools | {"q": q, "S_starts": starts, "T_lengths": LENGTHS, "T_table": case.table}, {})
        one = compiled(path, "S=packed,T=packed")
        for b, length in enumerate(LENGTHS):
            keys = {name: case.tensors[name][b : b + 1, :, :length] for name in "kv"}
            mine = q[:, :, starts[b] : starts[b + 1]]
            want = outputs(one, keys | {"q": mine, "S_starts": starts_of(lengths[b : b + 1]), "T_starts": starts_of([length])}, {})
            for x, y in zip(got, want):
                np.testing.assert_array_equal(x[:, :, starts[b] : starts[b + 1]], y, err_msg=f"{lengths[b]} queries of {length} keys")
        self.assertFalse(got[0][:, :, starts[-1] :].any())

    def test_all_empty_and_no_rows(self):
        f = compiled(SCRIPTS / "gqa.attn", "S=packed,T=packed")
        for total in (0, 4):
            q, k, v = (np.full((1, SIZES[h], total, 16), np.nan, np.float32) for h in ("H", "Hk", "Hk"))
            none = np.zeros(4, np.int32)
            o = f(q, k, v, S_starts=none, T_starts=none)
            self.assertEqual(o.shape, q.shape)
            self.assertFalse(o.any())

    def test_one_long_beside_many_of_one(self):
        f, dense = compiled(SCRIPTS / "gqa.attn", "S=packed,T=packed"), compiled(SCRIPTS / "gqa.attn")
        rows = Rows(dense, [(1, 1)] * 40 + [(1000, 1000)] + [(1, 1)] * 40, SIZES | {"B": 1})
        got = outputs(f, rows.tensors | rows.named_starts(), {})
        for x, y in zip(got, outputs(dense, rows.of(40), {})):
            np.testing.assert_array_equal(x[:, :, 40:1040], y)

    def test_wrong_starts(self):
        f = compiled(SCRIPTS / "gqa.attn", "S=packed,T=packed")
        rows = Rows(compiled(SCRIPTS / "gqa.attn"), [(3, 4), (2, 5)], SIZES | {"B": 1})
        given = rows.tensors | rows.named_starts()
        for name, values, message in (
            ("S_starts", [1, 3, 5], "S_starts begins with 1, expected 0"),
            ("T_starts", [0, 9, 4], "T_starts decreases at 2: 4 after 9"),
            ("T_starts", [0, 4, 40], r"T_starts\[2\] is 40, k has 14 rows"),
            ("S_starts", [0, 3, 11], r"S_starts\[2\] is 11, q has 10 rows"),
            ("S_starts", [0, 3, 4, 5], "T_starts: axis 0 .* has 3 elements, expected 4 as in S_starts"),
        ):
            with self.subTest(values), self.assertRaisesRegex(aule.ArgumentError, message):
                outputs(f, given | {name: np.array(values, np.int32)}, {})
        with self.assertRaisesRegex(aule.ArgumentError, "S_starts has 1 elements, expected where each sequence begins"):
            outputs(f, given | {name: np.zeros(1, np.int32) for name in ("S_starts", "T_starts")}, {})
        with self.assertRaisesRegex(aule.ArgumentError, "S_starts is int64, expected int32"):
            outputs(f, given | {"S_starts": rows.starts[0].astype(np.int64)}, {})

    def test_as_many_sequences_as_dense_rows(self):
        """Dense keys beside packed queries, and the other way round, have a batch, which is that of the starts."""
        r = np.random.default_rng(1)
        packed, dense = (r.standard_normal(shape).astype(np.float32) for shape in ((1, 2, 9, 16), (3, 2, 5, 16)))
        for layout, q, k in (("S=packed", packed, dense), ("T=packed", dense, packed)):
            f = compiled(SCRIPTS / "gqa.attn", layout)
            outputs(f, {"q": q, "k": k, "v": k, f"{layout[0]}_starts": np.array([0, 4, 4, 9], np.int32)}, {})
            for starts in ([0, 9], [0, 4, 9], [0, 2, 4, 6, 9]):
                with self.subTest(starts, layout=layout), self.assertRaisesRegex(aule.ArgumentError, f"{layout[0]}_ends == B \\+ 1, with {layout[0]}_ends = {len(starts)}, B = 3"):
                    outputs(f, {"q": q, "k": k, "v": k, f"{layout[0]}_starts": np.array(starts, np.int32)}, {})

    def test_inputs(self):
        """What no sequence may have, what no call may have, and what no script may ask for."""
        f = compiled(SCRIPTS / "pair_bias.attn", "S=packed")
        rows = Rows(compiled(SCRIPTS / "pair_bias.attn"), [(3, 3), (5, 5)], SIZES | {"B": 1})
        given = rows.tensors | rows.inputs | rows.named_starts()
        self.assertEqual(given["bias"].shape, (4, 5, 5))
        with self.assertRaisesRegex(aule.ArgumentError, "pair_bias: S_starts: sequence 1 has 5 rows, inputs have 4 for each"):
            outputs(f, given | {"bias": given["bias"][:, :4, :4]}, {})
        with self.assertRaisesRegex(aule.ArgumentError, "gate: axis 2 .* has 8 elements, expected 13 as in q"):
            outputs(f, given | {"gate": given["gate"][:, :, :8]}, {})
        with self.assertRaisesRegex(aule.ArgumentError, "gate: axis 0 .* has 2 elements, expected 1"):
            outputs(f, given | {"gate": np.zeros((2, 4, 13, 16), np.float32)}, {})
        head = "attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E]; "
        for text, message in (
            ("input x: f32[B, S]; score_mod(s) = s + x[B - 1, q_idx];", "axis S: the input 'x', which has it, is read at another sequence than the pair's own"),
            ("input x: f32[H, 2 * T - 1]; score_mod(s, b, h) = s + x[h, kv_idx];", "axis T: axis 1 of the input 'x' is made of it"),
            ("param w: i32 = T / 2; param x: i32 = w + 1; mask(b, h, i, j) = q_pos - j < x;", "axis T: the default of the param 'w' asks for its length"),
            ("param x: f32 = 1.0 / S; score_mod(s) = s * x;", "axis S: the default of the param 'x' asks for its length"),
        ):
            with self.assertRaisesRegex(aule.CompileError, message):
                aule.compile(f"{head}{text} online softmax; }}", layout="S=packed,T=packed", optimize=1)
        text = f"{head} input x: f32[H, 2 * T - 1]; score_mod(s, b, h) = s + x[h, kv_idx - q_pos + T - 1]; online softmax; }}"
        with self.assertRaisesRegex(aule.CompileError, "axis T: axis 1 of the input 'x' is made of it, and of keys in pages nothing in a call says it"):
            aule.compile(text, layout="T=paged", optimize=1)
        with self.assertRaisesRegex(aule.CompileError, "axis T: the default of the param 'x' asks"):
            aule.compile(f"{head} param x: f32 = 1.0 / T; score_mod(s) = s * x; online softmax; }}", layout="T=padded", optimize=1)

    def test_inputs_of_some_axes(self):
        """Keys packed beside dense queries; a second packed axis, which counts the keys of a sequence; padded keys beside packed queries."""
        text = """attention a { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; input x: f32[B, S, T]; input y: f32[B, T]; input z: i32[B];
            score_mod(s, b) = s * rsqrt(D) + x[b, q_idx, kv_idx] + y[b, kv_idx]; mask(b, h, i, j) = j >= z[b]; online softmax; }"""
        dense, r = aule.compile(text, optimize=1), np.random.default_rng(3)
        queries, keys, z = [4, 0, 33, 1], [7, 5, 40, 20], np.array([2, 0, 1, 19], np.int32)
        q, k, v = ([r.standard_normal((1, h, n, 16)).astype(np.float32) for n in of] for h, of in ((4, queries), (2, keys), (2, keys)))
        x = [r.standard_normal((1, s, t)).astype(np.float32) for s, t in zip(queries, keys)]
        y = [r.standard_normal((1, t)).astype(np.float32) for t in keys]
        want = [dense(*[each[b] for each in (q, k, v)], x=x[b], y=y[b], z=z[b : b + 1]) for b in range(4)]
        most, lists = max(keys), {"S_starts": starts_of(queries), "T_starts": starts_of(keys)}

        def room(pieces, axis, rows):
            return [np.pad(p, [(0, rows - p.shape[n] if n == axis else 0) for n in range(p.ndim)], constant_values=np.nan) for p in pieces]

        both = aule.compile(text, layout="S=packed,T=packed", optimize=1)
        o = both(*[np.concatenate(p, 2) for p in (q, k, v)], x=np.concatenate(room(x, 2, most), 1), y=np.concatenate(y, 1), z=z, **lists)
        padded = aule.compile(text, layout="S=packed,T=padded", optimize=1)
        of_room = padded(np.concatenate(q, 2), *[np.concatenate(room(p, 2, most)) for p in (k, v)], x=np.concatenate(room(x, 2, most), 1),
                         y=np.concatenate(room(y, 1, most)), z=z, S_starts=lists["S_starts"], T_lengths=np.array(keys, np.int32))
        for b in range(4):
            for got in (o, of_room):
                np.testing.assert_allclose(got[:, :, slice(*lists["S_starts"][b : b + 2])], want[b], rtol=2e-5, atol=8e-6)
        # dense queries: the keys' rows are packed, also of an input whose first length axis is the queries'
        some = aule.compile(text, layout="T=packed", optimize=1)
        q4 = r.standard_normal((4, 4, 6, 16)).astype(np.float32)
        x6 = [r.standard_normal((1, 6, t)).astype(np.float32) for t in keys]
        o = some(q4, *[np.concatenate(p, 2) for p in (k, v)], x=np.concatenate(x6, 2), y=np.concatenate(y, 1), z=z, T_starts=lists["T_starts"])
        for b in range(4):
            np.testing.assert_allclose(o[b : b + 1], dense(q4[b : b + 1], k[b], v[b], x=x6[b], y=y[b], z=z[b : b + 1]), rtol=2e-5, atol=8e-6)

    def test_refused_by_name(self):
        for stem, layout, message in (
            ("gqa", "S=paged", "it is the length of q, and queries lie in no pages"),
            ("documents", "S=padded:rows", "q and k have one axis; rows and positions are those of queries or of keys"),
            ("gqa", "X=packed", "has no such axis of queries or keys"),
            ("gqa", "T=packed,T=paged", "the axis has a layout already"),
            ("gqa", "T=dense,T=paged", "T=paged: the axis has a layout already"),
            ("gqa", "T=paged,T=dense", "T=dense: the axis has a layout already"),
            ("gqa", "X=dense", "has no such axis of queries or keys"),
            ("gqa", "S=dense,T=paged,T=dense", "T=dense: the axis has a layout already"),
        ):
            with self.subTest(layout), self.assertRaisesRegex(aule.CompileError, message):
                compiled(SCRIPTS / f"{stem}.attn", layout)

    def test_further_products_refused_by_name(self):
        """Rows of further products that no kernel would find where they lie."""
        for x, y, layout, message in (
            ("x[0, i]", "y[b, j]", "S=packed", "axis S: 'x', of a further product (`dot`), has packed rows, and is read at another sequence than the pair's own"),
            ("x[b, i]", "y[0, j]", "T=paged", "axis T: 'y', of a further product (`dot`), lies as keys do, and is read at another sequence than the pair's own"),
            ("x[b, i]", "y[0, j]", "T=packed", "axis T: 'y', of a further product (`dot`), has packed rows, and is read at another sequence"),
            ("x[b, i]", "z[j]", "T=paged:positions", "axis T: 'z', of a further product (`dot`), has a row for each position, of which keys have fewer"),
            ("x[b, i]", "w[j, b]", "T=paged", "axis T: 'w', of a further product (`dot`), lies in pages, and its batch is no axis before that of its rows"),
            ("x[b, i]", "y[b, j]) + dot(x[b, i], k[b, h, j]", "T=paged:modified", "axis T: 'k', of a further product (`dot`), is the keys as they were before k_mod"),
            ("x[b, i]", "y[b, j]) + f32(y[b, j, 0]", "T=padded:rows", "axis T: 'y', of a further product (`dot`), lies as keys do, and elements of it are read, too"),
            ("q[b, h, i]", "x[b, j]", "S=packed,T=packed", "axis T: 'x', of a further product (`dot`), is read at rows of the other side, which lie elsewhere"),
        ):
            text = ("attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; input x: [B, S, D]; input y: [B, T, D]; input z: [T, D]; input w: [T, B, D]; "
                    f"k_mod(e, b, g, j, c) = 2.0 * e; score_mod(s, b, h, i, j) = s + dot({x}, {y}); online softmax; }}")
            with self.subTest(message), self.assertRaisesRegex(aule.CompileError, re.escape(message)):
                aule.compile(text, layout=layout)

    @unittest.skipUnless(os.environ.get("AULE_TEST_FULL_SIZES"), "all scripts, with AULE_TEST_FULL_SIZES")
    def test_all_scripts(self):
        for path in sorted(SCRIPTS.glob("*.attn")):
            with self.subTest(path.stem):
                if is_softmax(path):
                    self.check(path)


class Far(unittest.TestCase):
    """Pools of more than 2^31 elements and 2^32 bytes: what lies behind both is what a small pool has, to the bit. Memory that nobody touches is not there."""

    HEADS, SLOTS, LENGTHS = 2, 16, np.array([70, 0, 1, 33, 96], np.int32)
    BORDER = 2**31 // (HEADS * SLOTS * SIZES["D"])  # the page whose first element is number 2^31, of 2 bytes each

    def setUp(self):
        r = np.random.default_rng(0)
        entries, self.f = -(-96 // self.SLOTS), compiled(SCRIPTS / "gqa.attn", "T=paged")
        # Behind the border, at it, around 2^31 bytes and at the beginning.
        near = (0, 1, self.BORDER // 2 - 1, self.BORDER // 2, self.BORDER - 1)
        places = np.concatenate([near, self.BORDER + np.arange(len(self.LENGTHS) * entries - len(near))])
        self.table = r.permutation(len(places)).reshape(len(self.LENGTHS), entries).astype(np.int32)
        self.small = [r.standard_normal((len(places), self.HEADS, self.SLOTS, SIZES["D"])).astype(np.float16) for _ in "kv"]
        try:
            self.large = [np.zeros((self.BORDER + len(places), *x.shape[1:]), x.dtype) for x in self.small]
        except MemoryError:
            self.skipTest("the system gives no 4 GB of addresses")
        self.assertTrue(all(x.size > 2**31 and x.nbytes > 2**32 for x in self.large))
        for x, y in zip(self.large, self.small):
            x[places] = y
        self.places, self.random = places, r

    def rows(self, heads, count):
        return self.random.standard_normal((len(self.LENGTHS), heads, count, SIZES["D"])).astype(np.float16)

    def test_reads(self):
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for queries in (1, 3, 20, 130):
            with self.subTest(queries):
                q = self.rows(4, queries)
                want = outputs(self.f, {"q": q, "k": self.small[0], "v": self.small[1], "T_lengths": self.LENGTHS, "T_table": self.table}, {})
                far = self.places[self.table].astype(np.int32)
                made = outputs(self.f, {"q": q, "k": self.large[0], "v": self.large[1], "T_lengths": self.LENGTHS, "T_table": far}, {})
                self.assertTrue(want[0][0].any())
                for x, y in zip(made, want):
                    np.testing.assert_array_equal(x, y)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used, 2**20, "KB: pools were copied")

    def test_writes(self):
        for slots in (False, True):
            with self.subTest(slots=slots):
                new, named = [self.rows(self.HEADS, 3) for _ in "kv"], [{"T_lengths": self.LENGTHS, "T_table": t} for t in (self.table, self.places[self.table].astype(np.int32))]
                if slots:  # whole numbers of rows of the pool, which i32 has not
                    pages = self.random.permutation(len(self.places))[: 3 * len(self.LENGTHS)].reshape(-1, 3)
                    named = [{"slots": p * self.SLOTS + 5} for p in (pages, self.places[pages])]
                before = [x.copy() for x in self.small]
                for caches, more in zip((self.small, self.large), named):
                    self.f.append(*new, *caches, **more)
                for x, y, old in zip(self.large, self.small, before):
                    self.assertEqual((y != old).any(3).sum(), self.HEADS * (3 * len(self.LENGTHS) if slots else np.minimum(self.LENGTHS, 3).sum()))
                    np.testing.assert_array_equal(x[self.places], y)


class Refused(unittest.TestCase):
    """On processors values are looked at; what is not carried is refused by name when compiling."""

    def setUp(self):
        self.f = compiled(SCRIPTS / "gqa.attn", "T=paged")
        case = Case(compiled(SCRIPTS / "gqa.attn"), 16)
        self.given = case.tensors | case.pools | {"T_lengths": LENGTHS.copy(), "T_table": case.table.copy()}

    def refused(self, message, **changed):
        with self.assertRaisesRegex(aule.ArgumentError, message):
            outputs(self.f, self.given | changed, {})

    def test_values(self):
        lengths, table = self.given["T_lengths"], self.given["T_table"]
        for wrong in (-1, 97, 2**31 - 1, -(2**31)):
            lengths[3] = wrong
            self.refused(rf"T_lengths\[3\] is {wrong}, the table reaches to 96")
        lengths[3] = 15
        for wrong in (-1, 45, 2**31 - 1, -(2**31)):
            table[0, 4] = wrong
            self.refused(rf"T_table\[0, 4\] is {wrong}, there are 45 pages \(keys from 64 on\)")

    def test_shapes(self):
        self.refused("T_lengths.* expected 7", T_lengths=LENGTHS[:4])
        self.refused("T_table.* expected 7", T_table=self.given["T_table"][:4])
        self.refused("T_lengths is int64, expected int32", T_lengths=LENGTHS.astype(np.int64))
        self.refused("T_slots", v=self.given["v"][:, :, :8])
        f = compiled(SCRIPTS / "gqa.attn", "S=packed,T=paged")
        rows = self.given["q"].transpose(1, 0, 2, 3).reshape(1, self.given["q"].shape[1], -1, self.given["q"].shape[3])
        message = r"gqa: requirement not met: S_starts has an element for each sequence and one for the end: S_ends == B \+ 1, with S_ends = 3, B = 7; .*S_starts is \[3\]"
        with self.assertRaisesRegex(aule.ArgumentError, message):
            outputs(f, self.given | {"q": rows, "S_starts": np.array([0, 5, 9], np.int32)}, {})
        del self.given["T_table"]
        with self.assertRaisesRegex(TypeError, "needs T_table"):
            outputs(self.f, self.given, {})

    def test_lists(self):
        """Of another type, rank or extent they are refused by name; in any strides they are what they say."""
        table, lengths = self.given["T_table"], self.given["T_lengths"]
        for kind in (np.float32, np.int16, np.int64):
            self.refused(f"T_table is {np.dtype(kind).name}, expected int32", T_table=table.astype(kind))
        self.refused(r"T_table: shape is \[7, 6, 1\], expected 2 axes \[B, T_entries\]", T_table=table[..., None])
        self.refused(r"T_lengths: shape is \[7, 1\], expected 1 axis \[B\]", T_lengths=lengths[:, None])
        self.refused(r"T_lengths\[0\] is 70, the table reaches to 0", T_table=table[:, :0])
        with self.assertRaisesRegex(TypeError, "needs T_lengths"):
            outputs(self.f, {name: x for name, x in self.given.items() if name != "T_lengths"}, {})
        want = outputs(self.f, self.given, {})
        for other in (np.repeat(table, 2, 1)[:, ::2], np.ascontiguousarray(table.T).T, np.ascontiguousarray(table[::-1])[::-1]):
            for counts in (np.repeat(lengths, 3)[::3], np.ascontiguousarray(lengths[::-1])[::-1]):
                made = outputs(self.f, self.given | {"T_table": other, "T_lengths": counts}, {})
                self.assertTrue(all(np.array_equal(a, b) for a, b in zip(want, made)))

    def test_scripts(self):
        for script, layout, message in (
            ("natten.attn", "S=paged", "axis S: it is the length of q"),
            ("gla.attn", "T=padded", "axis T: sequences of a recurrence are packed by cu_seqlens"),
            ("gqa.attn", "U=paged", "axis U: the attention 'gqa' has no such axis of queries or keys"),
            ("gqa.attn", "T=ragged", "unknown layout 'ragged'; expected dense, padded, paged or packed"),
            ("gqa.attn", "paged", "expected AXIS=LAYOUT"),
        ):
            with self.subTest(script), self.assertRaisesRegex(aule.CompileError, message):
                aule.compile(SCRIPTS / script, layout=layout)
        with self.assertRaisesRegex(TypeError, "layout is"):
            aule.compile(SCRIPTS / "gqa.attn", layout={"T": "paged"})


if __name__ == "__main__":
    unittest.main()
