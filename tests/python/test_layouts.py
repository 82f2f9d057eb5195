"""Keys that are padded or lie in pages (docs/dev/serving.md): a call is what as many dense calls are as it has sequences, to the bit, since
kernels of both are one schedule in tiles of the same keys. What lies in slots that no sequence has is NaN throughout; tables end in -1."""

from __future__ import annotations

import os
import unittest

import numpy as np

import aule
from support import DEVICE, ROOT

SCRIPTS = ROOT / "attn_scripts"
# Masks of data, ALiBi, windows, sinks, row mods of keys and values, weight_mod, groups, values in keys, an input by kv_idx, finals
FEW = "gqa alibi documents sink_window rope retnet softcap mla_decode t5_encoder qk_norm dropout gated sigmoid prefix_lm".split()
SIZES = {"H": 4, "Hk": 2, "Hv": 2, "D": 16, "E": 16, "S": 37}
LENGTHS = np.array([0, 1, 15, 16, 17, 70, 96], np.int32)
MOST = 96
UNLIKE = {"differential": "further products", "deberta": "further products"}


def is_softmax(path):
    text = path.read_text()
    return "online" in text and "linear {" not in text


def array(r, spec, sizes):
    shape = tuple(sizes[axis] if isinstance(axis, str) else axis for axis in spec.axes)
    dtype = np.dtype("float32" if spec.dtype == "operand" else spec.dtype)
    return r.standard_normal(shape).astype(dtype) if dtype.kind == "f" else r.integers(0, 2, shape).astype(dtype)


class Case:
    """Arguments of one dense call of all sequences, and of the same in pages of [slots] rows, spread over more than there need be."""

    def __init__(self, f, slots, seed=0):
        r = np.random.default_rng(seed)
        B = len(LENGTHS)
        sizes = SIZES | {"B": B, "T": MOST}
        self.given = [t for t in f.tensors if t.role in ("q", "k", "v", "input") and not t.in_k]
        self.tensors = {}
        for t in self.given:
            if any(not isinstance(axis, (str, int)) or (isinstance(axis, str) and axis not in sizes) for axis in t.axes):
                raise unittest.SkipTest(f"{f.name}: {t.name} {t.axes}")
            self.tensors[t.name] = array(r, t, sizes)
        self.keys = [t.name for t in self.given if t.role in ("k", "v")]
        for name in self.keys:
            for b, length in enumerate(LENGTHS):
                self.tensors[name][b, :, length:] = np.nan
        entries = -(-MOST // slots)
        self.table = r.permutation(B * entries + 3)[: B * entries].reshape(B, entries).astype(np.int32)
        self.pools = {}
        for name in self.keys:
            dense = self.tensors[name]
            pool = np.full((B * entries + 3, dense.shape[1], slots, dense.shape[3]), np.nan, np.float32)
            for b, length in enumerate(LENGTHS):
                for j in range(length):
                    pool[self.table[b, j // slots], :, j % slots] = dense[b, :, j]
            self.pools[name] = pool
        for b, length in enumerate(LENGTHS):
            self.table[b, -(-length // slots) :] = -1
        self.params = {p.name: 1.0 if p.dtype == "float32" else 5 for p in f.parameters if p.required}

    def of(self, b):
        """Sequence b by itself."""
        length, one = LENGTHS[b], {}
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
    def check(self, path, slots):
        dense = compiled(path)
        case = Case(dense, slots)
        try:
            paged = compiled(path, "T=paged")
        except aule.CompileError as error:
            self.assertIn("--layout: axis T: ", str(error))
            return str(error)
        padded = compiled(path, "T=padded")
        of_pages = outputs(paged, case.tensors | case.pools | {"T_lengths": LENGTHS, "T_table": case.table}, case.params)
        of_rows = outputs(padded, case.tensors | {"T_lengths": LENGTHS}, case.params)
        for b in range(len(LENGTHS)):
            if not LENGTHS[b] and any("T" in t.axes for t in case.given[3:]):
                continue  # an input without an element where the script asks for one
            want = outputs(dense, case.of(b), case.params)
            for n, x in enumerate(want):
                np.testing.assert_array_equal(of_rows[n][b], x[0], err_msg=f"{path.name}: padded, {LENGTHS[b]} keys")
                np.testing.assert_array_equal(of_pages[n][b], x[0], err_msg=f"{path.name}: pages of {slots}, {LENGTHS[b]} keys")
        return None


def is_first_batch(path):
    return path.stem in ("dropout",)


if __name__ == "__main__":
    unittest.main()
