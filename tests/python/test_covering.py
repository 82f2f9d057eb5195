"""Scripts, layouts of queries and of keys, types, storages, numbers of rows and keys, heads, options and targets, any two of each in a row of a covering design
(tests/tools/covering.py; docs/dev/testing.md): a call of a batch against dense calls of each sequence by itself.

Numbers are as near as the rule of numerics asks. To the bit the same: other pages, and other lines of caches; pages of another size; with `invariant` the batch in another
order, with other neighbours, and the sequence alone. What the compiler refuses is in REFUSED and nowhere else: a refusal that is
not there fails, and so does a row of it that compiles."""

from __future__ import annotations

import itertools
import re
import sys
import unittest
from functools import lru_cache
from pathlib import Path

import numpy as np

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
import aule
from batches import Batch, Compared, results
from covering import covering
from support import DEVICE, FULL, OTHERS, ROOT, narrow, torch

SCRIPTS = ROOT / "attn_scripts"
HEAD = "attention own {{ q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; {} }}"
# Of ours: what attn_scripts has not together. Data of each key, pairs and rows; weights that are changed; an online function with a state more; values that are rotated.
OWN = {
    "own_data": HEAD.format("input keep: bool[B, T]; input at: f32[B, H, S]; input pair: f32[B, H, S, T]; score_mod(s, b, h) = s * rsqrt(D) + at[b, h, q_idx] * pair[b, h, q_idx, kv_idx];"
                            " mask(b, h, i, j) = keep[b, j] || j == q_pos; weight_mod(p, b, h, i, j) = p * (1.0 + 0.5 * pair[b, h, i, j]); online softmax;"),
    "own_online": "online tempered { rowscale m = -inf; rowscale r = 0.0; rowscale n = 0.0; final lse; final count; online_fwd(s) { let top = max(m, rowmax(s)); let f = exp(m - top); let p = exp(s - top);"
                  " r = r * f + rowsum(p); n = n + rowsum(where(s > -inf, 1.0, 0.0)); m = top; return p, f; } online_fwd_epilogue(o) { lse = m + log(r); count = n; return o / r; } forward(s) = exp(s - lse);"
                  " combine(a, b) { let top = max(a.m, b.m); r = a.r * exp(a.m - top) + b.r * exp(b.m - top); n = a.n + b.n; m = top; return exp(a.m - top), exp(b.m - top); } }"
                  + HEAD.format("score_mod(s) = s * rsqrt(D); mask(b, h, i, j) = j <= q_pos && (q_pos - j) % 3 < 2; online tempered;"),
    "own_rows": HEAD.format("input gain: f32[H, E]; q_mod(x, b, h, i, c) = x * (1.0 + 0.01 * f32(q_pos % 7)); k_mod(x, b, g, j, c) = rope(x, j); v_mod(x, b, g, j, c) = x * (1.0 + 0.1 * f32(j % 5));"
                            " score_mod(s) = s * rsqrt(D); mask(b, h, i, j) = j <= q_pos && q_pos - j < 40; out_mod(o, b, h, i, c) = o * gain[h, c]; online softmax;"),
    "own_whole": HEAD.format("param scale: f32 = 0.5; score_mod(s, b, h, i, j) = s * scale - 0.01 * abs(f32(q_pos - j)) / (1.0 + log(f32(max(T, 1)))); online softmax;"),
}
SHORT = ["gqa", "alibi", "rope", "attention_sink", "block_causal", "gated", "tree", "own_online"]
QUERIES = ["dense", "packed:most", "packed", "padded", "padded:rows"]
LONG = SHORT + ["mla_decode", "sliding_window", "softcap", "qk_norm", "forgetting", "sigmoid", "softmax_one", "relu", "power", "retention", "laplace", "cross", "t5_decoder", "relative_bias", "kerple",
                "scalable_softmax", "chunked", "sink_window", "differential", "squared_relu", "mla_prefill", "own_data", "own_rows", "own_whole"]
KEYS = ["dense", "paged", "padded", "packed", "paged:groups", "paged:rows:csr", "packed:most", "dense:rows", "paged:positions", "paged:modified"]
MORE_KEYS = KEYS + ["padded:rows", "padded:positions", "dense:positions", "paged:rows", "paged:csr", "paged:groups:rows", "paged:csr:groups", "padded:modified"]
STORAGES = [None, "e4m3", "i8:token", "k=e5m2:token,v=i8:channels8", "i4:channels8:zero"]
MORE_STORAGES = STORAGES + ["e5m2", "i8:zero", "k=i4:token,v=e4m3", "e4m3:channels8", "v=i8:token"]
ONE_AXIS = ["documents", "pair_bias", "cosine", "prefix_lm", "t5_encoder", "strided", "natten", "global_window"]
HEADS = {"groups of 2": {"H": 4, "Hk": 2, "Hv": 2, "D": 16, "E": 16}, "groups of 3": {"H": 6, "Hk": 2, "Hv": 3, "D": 24, "E": 40}, "one of keys": {"H": 2, "Hk": 1, "Hv": 1, "D": 16, "E": 8}}
TARGETS = [d for d in ("cpu", "other") if d == "cpu" or OTHERS] if DEVICE == "cpu" else ["other"]  # on a GPU that alone


ROUNDED = {"f32": 0.0, "f16": 2.0**-12, "bf16": 2.0**-9}  # half a unit in the last place


def factors(scripts, keys, storages):
    return {
        "script": scripts, "keys": keys, "queries": QUERIES, "type": ["f32", "f16", "bf16"] if torch else ["f32", "f16"], "storage": storages,
        "rows": [4, 1, 17, 130], "length": ["short", "long"], "heads": list(HEADS), "slots": [16, 48, 1, 7], "option": ["plain", "invariant", "checked"], "target": TARGETS,
    }


def has(row, **levels):
    """Has the row, or the part of one, these levels? A function says which are meant."""
    return all(name in row and (level(row[name]) if callable(level) else row[name] == level) for name, level in levels.items())


def some(text):
    """Levels of text with that in it."""
    return lambda level: level is not None and text in level


def stored(storage):
    return storage is not None


def words(text):
    """Layouts of that kind with one of those words behind it."""
    kind, _, behind = text.partition(":")
    return lambda level: level is not None and level.split(":")[0] == kind and bool({*level.split(":")[1:]} & {*behind.split(":")})


def laid(level):
    return level is not None and level != "dense"


# What the compiler refuses, and in which words: levels of a row, a message. Of words behind layouts these are all that there are, beside those of KEYS and QUERIES.
REFUSED: list[tuple[dict, str]] = [
    ({"keys": words("padded:csr")}, "`csr` is a table of pages"),
    ({"keys": words("packed:csr")}, "`csr` is a table of pages"),
    ({"keys": words("dense:csr")}, "`csr` is a table of pages"),
    ({"keys": words("padded:groups")}, "`groups` share pages"),
    ({"keys": words("packed:groups")}, "`groups` share pages"),
    ({"keys": words("dense:groups")}, "`groups` share pages"),
    ({"keys": "paged:groups:positions"}, "what `groups` share are keys from position 0 on, `positions` are not carried yet"),
    ({"keys": words("padded:most")}, "`most` is how many packed rows a sequence has, of others shapes say it"),
    ({"keys": words("paged:most")}, "`most` is how many packed rows a sequence has, of others shapes say it"),
    ({"keys": words("dense:most")}, "`most` is how many packed rows a sequence has, of others shapes say it"),
    ({"keys": words("packed:rows")}, "packed rows are where starts say, they have no `rows`"),
    ({"keys": words("packed:positions")}, "packed rows are positions from 0 on, others are not carried yet"),
    ({"keys": words("packed:modified")}, "modified rows are those of a cache: of keys, dense, padded or paged"),
    ({"queries": "paged"}, "it is the length of q, and queries lie in no pages"),
    ({"queries": words("padded:rows"), "keys": words("paged:groups")}, "beside `groups` `rows` of queries are not carried yet"),
    ({"queries": words("padded:rows"), "script": "mla_prefill"}, "has rows of each sequence, which beside `rows` of queries are not carried yet"),
    *(({"queries": words("padded:rows"), "script": script}, "q and k have one axis; rows and positions are those of queries or of keys") for script in ONE_AXIS),
    ({"script": "swin", "queries": laid}, "a `require` asks for its length, which is each sequence's own"),
    ({"script": "natten2d", "queries": laid}, "a `require` asks for its length, which is each sequence's own"),
    *(
        ({"script": script, "keys": words(keys)}, "has elements for all positions, of which k has fewer rows; keys in pages may have such inputs")
        for script in ("forgetting", "own_data") for keys in ("padded:positions", "dense:positions")
    ),
    ({"script": "mla_decode", "storage": some("v=")}, "--storage: v: values are channels of the keys and are stored as they are"),
]
NOWHERE = [f"{kind}:{word}" for kind in ("dense", "padded", "packed", "paged") for word in ("rows", "csr", "positions", "groups", "most", "modified")] + ["paged:groups:positions"]
# What the test does not compare, and why.
APART: list[dict] = [
    {"keys": some("modified"), "storage": stored},  # codes of modified rows are made by `append`: test_append.py
    {"keys": some("modified"), "script": "mla_prefill"},  # whose further keys `append` writes, too
]


def is_apart(row):
    return any(has(row, **levels) for levels, _ in REFUSED) or any(has(row, **levels) for levels in APART)


def design():
    rows = covering(factors(LONG, MORE_KEYS, MORE_STORAGES) if FULL else factors(SHORT, KEYS, STORAGES), is_apart)
    scripts = ONE_AXIS if FULL else ONE_AXIS[:4]
    one = factors(scripts, [None], [None]) | {"slots": [16], "queries": [x for x in QUERIES if "rows" not in x]}
    return rows + covering(one, is_apart)


def source(script):
    return OWN[script] if script in OWN else narrow(SCRIPTS / f"{script}.attn")


@lru_cache(maxsize=64)
def compiled(script, layout=None, storage=None, invariant=False, checked=False):
    return aule.compile(source(script), layout=layout, storage=storage, invariant=invariant, checked=checked, optimize=1)


def layout_of(row, axes):
    parts = [f"{axes[0]}={row['queries']}"] if row["queries"] != "dense" else []
    if row["keys"] and row["keys"] != "dense":
        parts.append(f"{axes[1]}={row['keys']}")
    return ",".join(parts) or None


def made(row, axes):
    return compiled(row["script"], layout_of(row, axes), row["storage"], row["option"] == "invariant", row["option"] == "checked")


def lengths_of(row):
    """Rows and keys of each sequence: none, one, borders of pages and of tiles, fewer keys than rows; of long ones borders of the parts that kernels for few share out."""
    slots, rows = row["slots"], row["rows"]
    keys = [70, 0, 1, max(slots - 1, 2), slots, slots + 1, 96, 33] if row["length"] == "short" else [1025, 0, 1, 1023, 1024, 1300, 17, 64]
    if row["keys"] and row["keys"].startswith("dense"):
        keys = [keys[0]] * len(keys)
    some = [rows, rows, rows, 0, 1, rows, max(rows - 1, 1), rows]
    queries = some if row["queries"] != "dense" else [rows] * len(keys)
    return list(zip(queries, queries if row["keys"] is None else keys))


def shared_in(pairs, slots):
    """Groups of three: their first keys are those of the first, whole pages, as many as all of them have."""
    made = []
    for b in range(len(pairs)):
        first = b - b % 3
        least = min(keys for _, keys in pairs[first : first + 3])
        made.append((first, least // slots * slots) if b != first else None)
    return made


class Case:
    """A row of the design, its batch and what dense calls say of it."""

    def __init__(self, row, number):
        self.row = row
        self.dense = compiled(row["script"])
        self.device = None if row["target"] == "cpu" else OTHERS[number % len(OTHERS)]
        self.odd = row["heads"] == "one of keys"
        pairs = lengths_of(row)
        keys = row["keys"] or ""
        sizes = HEADS[row["heads"]] | {"W": 33, "P": 8, "B": len(pairs)}
        self.batch = Batch(self.dense, number, pairs, sizes, row["type"], row["storage"], shared_in(pairs, row["slots"]) if "groups" in keys else None, as_keys=("k_pe",))
        self.f = made(row, self.batch.axes)
        self.layouts = (row["queries"], row["keys"] or row["queries"])

    def run(self, order, seed, slots=None, batch=None):
        """Results of each sequence in the order, by its number."""
        batch = batch or self.batch
        tensors, params, places = batch.call(self.layouts, order, seed, slots or self.row["slots"], self.odd)
        if "modified" in self.layouts[1]:
            self.modify(batch, order, tensors, places)
        taken = {p.name for p in self.f.parameters}  # where inputs count the rows of a sequence their size says what is the most
        got = results(self.f, tensors, {name: x for name, x in params.items() if name in taken}, self.device)
        rest = [x for x in places[0].left(got[0]) if x.any()]
        return {b: [places[0].read(x, n) for x in got] for n, b in enumerate(order)}, rest

    def modify(self, batch, order, tensors, places):
        """The cache's rows as `append` writes them: all are new."""
        place, new = places[1], {}
        most = max(place.most, 1)
        for name in (name for name in "kv" if name in batch.own):
            pieces = [batch.own[name][b] for b in order]
            new[name] = np.zeros((len(order), pieces[0].shape[1], most, pieces[0].shape[3]), np.float32)
            for n, x in enumerate(pieces):
                new[name][n, :, most - x.shape[2] :] = x[0]
        f = compiled(self.row["script"], f"{batch.axes[1]}={self.layouts[1]}")
        lists = {name: x for name, x in tensors.items() if name in place.lists or name == "k_gain"}
        f.append(*batch.typed(new).values(), *[tensors[name] for name in new], **lists, device=self.device)

    def wanted(self, exact):
        """What dense calls of each sequence say: of the operands as float32, or of the case's own type, which of float32 is that of scores off by a rounding.
        None: of no rows, or an input without an element."""
        said = {}
        for b, (rows, _) in enumerate(self.batch.pairs):
            one = self.batch.of(b, "f32" if exact else None)
            if not exact and self.row["type"] == "f32":
                one["q"] = one["q"] * np.float32(1 + 2**-23)
            empty = any(0 in x.shape for name, x in one.items() if name not in "qkv")
            said[b] = None if not rows or empty else [x[0] for x in results(self.dense, one, self.batch.params, None)]
        return said


class Covering(Compared):
    def check(self, row, number):
        case = Case(row, number)
        count = len(case.batch.pairs)
        every = list(range(count))
        got, rest = case.run(every, number)
        self.assertFalse(rest, "rows of no sequence are not 0")
        exact, plain = case.wanted(True), case.wanted(False)
        for n in range(len(got[0])):
            self.near(n, got, exact, plain, every, ROUNDED[row["type"]] if self.scales_weights(row["storage"]) else 0.0)
        self.bits(case, got, number)

    @staticmethod
    def scales_weights(storage):
        """Have values a scale a token, by which weights are multiplied before they become operands? On processors and in f32 that rounds nothing."""
        return DEVICE != "cpu" and any("token" in part and part[:2] != "k=" for part in (storage or "").split(","))

    def bits(self, case, got, number):
        """What may change nothing. CUDA shares out as many parts as fill the machine of what a table has room for, but with `invariant`."""
        row, every = case.row, list(range(len(case.batch.pairs)))
        invariant = row["option"] == "invariant"
        self.same("other places", got, case.run(every, number + 1)[0], every)
        if "paged" in case.layouts[1] and not case.batch.shared and (invariant or DEVICE == "cpu"):
            self.same("pages of another size", got, case.run(every, number, slots={16: 48, 48: 16, 1: 7, 7: 1}[row["slots"]])[0], every)
        if not invariant:
            return
        self.same("another order", got, case.run(every[::-1], number)[0], every)
        keep = number % len(every)
        if not case.batch.shared:
            self.same("other neighbours", got, case.run(every, number, batch=case.batch.changed(keep, number))[0], [keep])
        self.same("alone", got, case.run([keep], number)[0], [keep])


def name_of(row):
    words = [str(row[name]) for name in ("script", "queries", "keys", "type", "storage", "rows", "option", "target") if row[name] is not None]
    return re.sub(r"\W+", "_", "_".join(words))


def add_tests():
    for number, row in enumerate(design()):
        def test(self, row=row, number=number):
            with self.subTest(**row):
                self.check(row, number)

        setattr(Covering, f"test_{number:03}_{name_of(row)}", test)


add_tests()


class Design(unittest.TestCase):
    def test_pairs(self):
        """Every two levels that may stand together do; none that may not."""
        every = factors(SHORT, KEYS, STORAGES)
        rows = covering(every, is_apart)
        for f, g in itertools.combinations(every, 2):
            have = {(row[f], row[g]) for row in rows}
            want = {(x, y) for x, y in itertools.product(every[f], every[g]) if not is_apart({f: x, g: y})}
            self.assertEqual(have, want, (f, g))
        self.assertFalse([row for row in rows if is_apart(row)])
        self.assertLess(len(rows), 2 * len(SHORT) * len(KEYS))

    def test_refused(self):
        """What is in REFUSED is refused, in these words."""
        every = {"script": LONG + ONE_AXIS + ["swin", "natten2d"], "keys": [*MORE_KEYS, *NOWHERE], "queries": QUERIES + ["paged", "padded:positions"], "storage": MORE_STORAGES}
        for levels, message in REFUSED:
            found = [dict(zip(levels, row)) for row in itertools.product(*[[x for x in every[f] if has({f: x}, **{f: levels[f]})] for f in levels])]
            self.assertTrue(found, message)
            for row in found if FULL else found[:3]:
                whole = {"script": "gqa", "keys": "dense", "queries": "dense", "storage": None} | row
                said = [text for other, text in REFUSED if has(whole, **other)]
                with self.subTest(**row), self.assertRaisesRegex(aule.CompileError, "|".join(map(re.escape, said))):
                    aule.compile(source(whole["script"]), layout=layout_of(whole, "ST"), storage=whole["storage"], optimize=1)


if __name__ == "__main__":
    unittest.main()
