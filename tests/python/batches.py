"""Batches of sequences, each by itself, and what a call in any layout is given of them (docs/dev/serving.md): test_covering.py. What is of no sequence is NaN, or as far off
as its type goes; tables go on with numbers that are no pages."""

from __future__ import annotations

import unittest

import numpy as np

from support import torch
from test_storage import NAN, grain, grouped, meaning, scales, stored, zeros

REST = 5  # rows behind the last packed sequence
WILD = (-1, 2**31 - 1)


def starts_of(counts):
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def rounded(x, dtype):
    """Numbers of the operand type, as float32."""
    if dtype == "bf16":
        return torch.from_numpy(np.ascontiguousarray(x, np.float32)).bfloat16().float().numpy()
    return x.astype(np.float16 if dtype == "f16" else np.float32).astype(np.float32)


def operand(x, dtype):
    """The same numbers in a tensor of that type; bfloat16 is torch's."""
    if dtype == "bf16":
        return torch.from_numpy(x).bfloat16()
    return x.astype(np.float16, order="K") if dtype == "f16" else x


def numbers_of(x):
    return np.asarray(x.detach().float().cpu() if torch is not None and isinstance(x, torch.Tensor) else x).astype(np.float32)


def nothing(dtype, fill=np.nan):
    """What lies where nobody looks."""
    return fill if dtype.kind == "f" else True if dtype.kind == "b" else 77


def memory(shape, dtype, fill, odd):
    """[odd]: rows that lie further apart than they are long."""
    return np.full((*shape[:-1], shape[-1] + 3 * odd), fill, dtype)[..., : shape[-1]]


class Place:
    """Where the rows of an axis lie in one call: counts of its sequences, places of all of them, and the lists that say so."""

    def __init__(self, r, axis, layout, counts, slots, shared):
        self.kind, *self.words = layout.split(":")
        self.axis, self.counts, self.slots = axis, np.array(counts, np.int32), slots
        count = len(counts)
        self.most = max(counts, default=0)
        self.room = self.most + 3 * (self.kind == "padded")
        self.starts = starts_of(counts)
        self.lines = r.permutation(count + 2)[:count].astype(np.int32) if "rows" in self.words else np.arange(count, dtype=np.int32)
        self.line_count = count + 2 * ("rows" in self.words)
        self.lists, self.params = {}, {}
        if self.kind == "packed":
            self.lists[f"{axis}_starts"] = self.starts
            if "most" in self.words:
                self.params[f"{axis}_most"] = int(self.most)
        elif self.kind != "dense":
            self.lists[f"{axis}_lengths"] = self.counts
        if "rows" in self.words:
            self.lists[f"{axis}_rows"] = self.lines
        if self.kind == "paged":
            self.tables(r, shared)

    def tables(self, r, shared):
        """The pages of each sequence, those of a group's first keys once; then the table, or the list."""
        used = -(-self.counts // self.slots)
        self.pool = int(used.sum()) + 3
        free, self.pages = list(r.permutation(self.pool)), []
        for b, n in enumerate(used):
            same = self.pages[shared[b][0]][: shared[b][1] // self.slots] if shared and shared[b] else []
            self.pages.append([*same, *[free.pop() for _ in range(n - len(same))]])
        if shared:
            firsts = [b for b in range(len(used)) if not shared[b]]
            self.lists[f"{self.axis}_groups"] = np.array([*firsts, len(used)], np.int32)
            self.lists[f"{self.axis}_shared"] = np.array([max([shared[b][1] for b in range(len(used)) if shared[b] and shared[b][0] == first], default=0) for first in firsts], np.int32)
        entries = int(max(used, default=0)) + 2
        table = np.resize(np.array(WILD, np.int32), (self.line_count, entries))
        for b, pages in enumerate(self.pages):
            table[self.lines[b], : len(pages)] = pages
        if "csr" in self.words:
            of_line = {int(line): pages for line, pages in zip(self.lines, self.pages)}
            listed = [of_line.get(line, []) for line in range(self.line_count)]
            table = np.array([page for pages in listed for page in pages] + [*WILD], np.int32)
            self.lists[f"{self.axis}_table_starts"] = starts_of([len(pages) for pages in listed])
            self.params[f"{self.axis}_most"] = int(self.most)
        self.lists[f"{self.axis}_table"] = table

    def positions(self, first, whole, every):
        self.lists[f"{self.axis}_first"], self.lists[f"{self.axis}_whole"] = np.array(first, np.int32), np.array(whole, np.int32)
        self.params[f"{self.axis}_every"] = every

    def write(self, pieces, fill, odd):
        """Memory of rows [heads, row, channel] of each sequence."""
        heads, _, width = pieces[0].shape
        if self.kind == "packed":
            whole = memory((1, heads, int(self.starts[-1]) + REST, width), pieces[0].dtype, fill, odd)
            for b, x in enumerate(pieces):
                whole[0, :, self.starts[b] : self.starts[b + 1]] = x
        elif self.kind == "paged":
            whole = memory((self.pool, heads, self.slots, width), pieces[0].dtype, fill, odd)
            for b, x in enumerate(pieces):
                for n, page in enumerate(self.pages[b]):
                    rows = x[:, n * self.slots : (n + 1) * self.slots]
                    whole[page, :, : rows.shape[1]] = rows
        else:
            whole = memory((self.line_count, heads, self.room, width), pieces[0].dtype, fill, odd)
            if "rows" in self.words and self.kind == "dense":
                whole[:] = 0  # all rows of a cache that others have are in use
            for b, x in enumerate(pieces):
                whole[self.lines[b], :, : x.shape[1]] = x
        return whole

    def read(self, x, b):
        """Of a result [B or 1, heads, rows, ..]: what sequence b has."""
        return x[0, :, self.starts[b] : self.starts[b + 1]] if self.kind == "packed" else x[self.lines[b], :, : self.counts[b]]

    def left(self, x):
        """What is of no sequence."""
        if self.kind == "packed":
            return [x[:, :, self.starts[-1] :]]
        return [x[self.lines[b], :, n:] for b, n in enumerate(self.counts)] + [x[n] for n in range(self.line_count) if n not in self.lines]


class Batch:
    """The sequences of a case: for each tensor of a dense call what each of them has, of operands as numbers of the operand type."""

    def __init__(self, dense, seed, pairs, sizes, dtype, storage=None, shared=None, as_keys=()):
        r = np.random.default_rng(seed)
        self.pairs, self.dtype, self.storage, self.shared = pairs, dtype, storage, shared
        self.as_keys = as_keys  # inputs whose rows are keys, as those of further products: they lie as k does
        self.given = [t for t in dense.tensors if t.role in ("q", "k", "v", "input") and not t.in_k]
        self.names = [t.name for t in self.given]
        self.axes = [next(t.axes[2] for t in self.given if t.role == role) for role in "qk"]
        self.of_all, self.own, self.codes, self.params = {}, {}, {}, {}
        for p in dense.parameters:
            if p.required:
                self.params[p.name] = 1.0 if p.dtype == "float32" else 5
        for t in self.given:
            ranks = [n for n, axis in enumerate(t.axes) if axis in self.axes]
            if "B" not in t.axes:  # one for all, as large as the longest asks for
                have = dict(sizes) | {axis: max(p[self.axes.index(axis)] for p in pairs) for axis in self.axes[::-1]}
                self.of_all[t.name] = self.numbers(r, t, have), ranks
                continue
            self.own[t.name] = [self.numbers(r, t, sizes | {"B": 1} | dict(zip(self.axes[::-1], pair[::-1]))) for pair in pairs]
        for name in (name for name in "kv" if storage and name in self.own):
            self.store(r, name, storage)
        for b, of in enumerate(shared or []):
            for name in ("k", "v", *as_keys):
                if of and name in self.own:
                    self.share(name, b, *of)

    def numbers(self, r, t, have):
        shape = [have[axis] if isinstance(axis, str) else axis for axis in t.axes]
        if t.dtype == "operand":
            return rounded(r.standard_normal(shape), self.dtype)
        if t.dtype == "float32":
            return r.standard_normal(shape).astype(np.float32)
        return r.integers(0, 2 if t.dtype == "bool" else 40, shape).astype(t.dtype)

    def store(self, r, name, storage):
        """Codes, a scale and perhaps a zero point for them; the rows become what these mean. A scale of heads is the same for all sequences."""
        of = {text.partition("=")[0] if "=" in text else "": text for text in storage.split(",")}
        if name not in of and "" not in of:
            return
        kind, per, has_zero = grain(of.get(name, of.get("")))
        largest = {"e4m3": 448, "e5m2": 57344, "i8": 128, "i4": 8}[kind]
        self.codes[name] = {"kind": kind, "per": per, "codes": [], "scale": [], "zero": []}
        one = None
        for b, x in enumerate(self.own[name]):
            codes = stored(r, kind, x.shape)
            beside = [scales(r, x.shape, per, 2 * largest), zeros(r, x.shape, per, largest) if has_zero else None]
            one = beside if one is None else one
            scale, zero = beside if per else one
            exact = meaning(codes, kind) - (grouped(zero, x.shape[3] if per > 1 else 1) if has_zero else 0)
            self.own[name][b] = (exact * grouped(scale, x.shape[3] if per > 1 else 1)).astype(np.float32)
            for what, value in (("codes", codes), ("scale", scale), ("zero", zero)):
                self.codes[name][what].append(value)

    def share(self, name, b, first, keys):
        """Sequence b's first keys are those of another one."""
        of = self.codes.get(name)
        for pieces in [self.own[name]] + ([of["codes"]] + [of[what] for what in ("scale", "zero") if of["per"] and of[what][0] is not None] if of else []):
            pieces[b][:, :, :keys] = pieces[first][:, :, :keys]

    def of(self, b, dtype=None):
        """Sequence b in a dense call, of the batch's operand type or another."""
        one = {name: pieces[b] for name, pieces in self.own.items()}
        for name, (x, ranks) in self.of_all.items():
            axes = next(t.axes for t in self.given if t.name == name)
            for n in ranks:
                x = x[(slice(None),) * n + (slice(0, self.pairs[b][self.axes.index(axes[n])]),)]
            one[name] = x
        return self.typed(one, dtype)

    def typed(self, tensors, dtype=None):
        kinds = {t.name: t.dtype for t in self.given}
        return {name: operand(x, dtype or self.dtype) if kinds.get(name) == "operand" and x.dtype == np.float32 else x for name, x in tensors.items()}

    def changed(self, keep, seed):
        """The same, with other numbers in all sequences but [keep]."""
        other = object.__new__(Batch)
        other.__dict__.update(self.__dict__)
        r = np.random.default_rng(seed)
        other.own = {n: [x if b == keep or n in self.codes else self.another(r, x) for b, x in enumerate(pieces)] for n, pieces in self.own.items()}
        return other

    @staticmethod
    def another(r, x):
        return r.permutation(x.reshape(-1)).reshape(x.shape)

    def call(self, layouts, order, seed, slots, odd, fill=np.nan):
        """Tensors and parameters of a call of the sequences in [order], and the places of its queries and keys. [fill]: what is where there is nothing."""
        r = np.random.default_rng(seed)
        shared = None
        if "groups" in layouts[1]:
            shared = self.groups_in(order)
        places = [Place(r, axis, layout, [self.pairs[b][n] for b in order], slots, shared if n else None) for n, (axis, layout) in enumerate(zip(self.axes, layouts))]
        if self.axes[0] == self.axes[1]:
            places[1] = places[0]
        tensors = {}
        for t in self.given:
            if t.role == "input" and t.name not in self.as_keys:
                tensors[t.name] = self.input_of(t, places, order, fill)
                continue
            place = places[t.role != "q"]
            of = self.codes.get(t.name)
            if not of:
                tensors[t.name] = place.write([self.own[t.name][b][0] for b in order], fill, odd)
                continue
            codes = place.write([of["codes"][b].view(np.uint8)[0] for b in order], NAN[of["kind"]], odd)
            tensors[t.name] = codes.view(np.int8) if of["kind"] == "i8" else codes
            for what in ("scale", "zero"):
                if of[what][0] is None:
                    continue
                tensors[f"{t.name}_{what}"] = place.write([of[what][b][0] for b in order], fill, False) if of["per"] else of[what][0]
        lists, params = {}, dict(self.params)
        for place in places:
            if "positions" in place.words:
                place.positions(np.zeros(len(order)), place.counts, 1)
            lists |= place.lists
            params |= place.params
        return self.typed(tensors) | lists, params, places

    def groups_in(self, order):
        """Who shares what with whom, by places in the order."""
        leaders, made = {}, []
        for n, b in enumerate(order):
            group = self.shared[b][0] if self.shared[b] else b
            keys = max([of[1] for of in self.shared if of and of[0] == group], default=0)
            made.append((leaders[group], keys) if group in leaders else None)
            leaders.setdefault(group, n)
        return made

    def input_of(self, t, places, order, fill):
        by_axis = {axis: place for axis, place in zip(self.axes[::-1], places[::-1])}
        packed = [n for n, axis in enumerate(t.axes) if axis in by_axis and by_axis[axis].kind == "packed"]
        if t.name in self.of_all:
            x, ranks = self.of_all[t.name]
            pads = [(0, 0)] * x.ndim
            for n in ranks:
                place = by_axis[t.axes[n]]
                room = place.room if place.kind in ("dense", "padded") else max(place.most, 1)
                x = x[(slice(None),) * n + (slice(0, room),)]
                pads[n] = (0, room - x.shape[n])
            return np.pad(x, pads, constant_values=nothing(x.dtype, fill)) if ranks else x
        pieces = [self.own[t.name][b] for b in order]
        shape = list(pieces[0].shape)
        for n, axis in enumerate(t.axes):
            if axis in by_axis:
                place = by_axis[axis]
                shape[n] = int(place.starts[-1]) + REST if packed[:1] == [n] else place.room if place.kind in ("dense", "padded") else max(place.most, 1)
        shape[t.axes.index("B")] = 1 if packed else len(order)
        whole = np.full(shape, nothing(pieces[0].dtype, fill), pieces[0].dtype)
        for b, x in enumerate(pieces):
            at = [slice(0, n) for n in x.shape]
            if packed:
                starts = by_axis[t.axes[packed[0]]].starts
                at[packed[0]] = slice(starts[b], starts[b + 1])
            else:
                at[t.axes.index("B")] = slice(b, b + 1)
            whole[tuple(at)] = x
        return whole


def results(f, tensors, params, device):
    o = f(*[tensors[n] for n in "qkv" if n in tensors], **{n: x for n, x in tensors.items() if n not in "qkv"}, **params, device=device)
    return [numbers_of(x) for x in (o if isinstance(o, tuple) else (o,))]


def difference(x, y):
    with np.errstate(invalid="ignore"):
        return np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.abs(x.astype(np.float64) - y))


class Compared(unittest.TestCase):
    """Results of the sequences of a call, each a list, beside others'."""

    def near(self, n, got, exact, plain, sequences, more=0.0):
        """The rule of numerics: twice the error of a plain kernel in the operand type, and a few roundings of the largest result; [more]: of it, what such
        a kernel does not round (docs/dev/serving.md: weights times scales of tokens)."""
        known = [b for b in sequences if exact[b] is not None]
        largest = max((float(np.abs(exact[b][n][np.isfinite(exact[b][n])]).max(initial=0)) for b in known), default=0)
        error = max((float(difference(plain[b][n], exact[b][n]).max(initial=0)) for b in known), default=0)
        bound = 2 * error + (2**-20 + more) * max(largest, 0)
        for b in sequences:
            if exact[b] is None:
                self.assertFalse(n == 0 and got[b][n].any(), f"sequence {b}: no keys, and not 0")
                continue
            self.assertEqual(got[b][n].shape, exact[b][n].shape)
            worst = float(difference(got[b][n], exact[b][n]).max(initial=0))
            self.assertLessEqual(worst, bound, f"result {n} of sequence {b}, largest {largest:.3g}")

    def same(self, what, got, other, sequences):
        for b in sequences:
            for n, (x, y) in enumerate(zip(got[b], other[b])):
                np.testing.assert_array_equal(y, x, err_msg=f"{what}: result {n} of sequence {b}")
