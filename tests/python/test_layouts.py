"""Keys that are padded or lie in pages (docs/dev/serving.md): a call is what as many dense calls are as it has sequences, to the bit, since
kernels of both are one schedule in tiles of the same keys. What lies in slots that no sequence has is NaN throughout; tables end in -1."""

from __future__ import annotations

import os
import unittest

import numpy as np

import aule
from support import ROOT

SCRIPTS = ROOT / "attn_scripts"
# A slope; lists of tiles; rotated keys; values in keys; sinks. Groups are in the test of pages
FEW = "alibi block_causal rope mla_decode attention_sink".split()
SIZES = {"H": 4, "Hk": 2, "Hv": 2, "D": 16, "E": 16}
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

    def __init__(self, f, slots, queries=130, lengths=LENGTHS, most=MOST):
        r = np.random.default_rng(0)
        B, self.lengths = len(lengths), lengths
        sizes = SIZES | {"B": B, "S": queries, "T": most}
        self.given = [t for t in f.tensors if t.role in ("q", "k", "v", "input") and not t.in_k]
        self.tensors = {}
        for t in self.given:
            if any(not isinstance(axis, (str, int)) or (isinstance(axis, str) and axis not in sizes) for axis in t.axes):
                raise unittest.SkipTest(f"{f.name}: {t.name} {t.axes}")
            self.tensors[t.name] = array(r, t, sizes)
        self.keys = [t.name for t in self.given if t.role in ("k", "v")]
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


def outputs(f, tensors, params):
    made = f(*[tensors[n] for n in "qkv" if n in tensors], **{n: x for n, x in tensors.items() if n not in "qkv"}, **params)
    return made if isinstance(made, tuple) else (made,)


def compiled(path, layout=None):
    return aule.compile(path, layout=layout, optimize=1)


class Layouts(unittest.TestCase):
    def check(self, path, slots, **sizes):
        dense = compiled(path)
        case = Case(dense, slots, **sizes)
        lengths = case.lengths
        try:
            paged = compiled(path, "T=paged")
        except aule.CompileError as error:
            self.assertIn("--layout: axis T: ", str(error))
            return str(error)
        padded = compiled(path, "T=padded")
        of_pages = outputs(paged, case.tensors | case.pools | {"T_lengths": lengths, "T_table": case.table}, case.params)
        of_rows = outputs(padded, case.tensors | {"T_lengths": lengths}, case.params)
        for b in range(1 if path.stem in FIRST_ALONE else len(lengths)):
            if not lengths[b] and any(t.role == "input" and "T" in t.axes for t in case.given):
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
        del self.given["T_table"]
        with self.assertRaisesRegex(TypeError, "needs T_table"):
            outputs(self.f, self.given, {})

    def test_scripts(self):
        for script, layout, message in (
            ("natten.attn", "S=paged", "axis S: it is the length of q"),
            ("gla.attn", "T=padded", "axis T: sequences of a recurrence are packed by cu_seqlens"),
            ("gqa.attn", "U=paged", "axis U: the attention 'gqa' has no such axis of keys"),
            ("gqa.attn", "T=packed", "unknown layout 'packed'; expected dense, padded or paged"),
            ("gqa.attn", "paged", "expected AXIS=LAYOUT"),
        ):
            with self.subTest(script), self.assertRaisesRegex(aule.CompileError, message):
                aule.compile(SCRIPTS / script, layout=layout)
        with self.assertRaisesRegex(aule.CompileError, "not with --checked yet"):
            aule.compile(SCRIPTS / "gqa.attn", layout="T=paged", checked=True)
        with self.assertRaisesRegex(TypeError, "layout is"):
            aule.compile(SCRIPTS / "gqa.attn", layout={"T": "paged"})


if __name__ == "__main__":
    unittest.main()
