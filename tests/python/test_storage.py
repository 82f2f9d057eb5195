"""Keys and values stored in 8 or 4 bits (docs/dev/serving.md): a call is what the formula says of scale times what is stored less its zero point. Codes that no
sequence has are NaN or, of integers, large, and so are their scales and zero points."""

from __future__ import annotations

import itertools
import re
import unittest

import numpy as np

import aule
from support import DEVICE, FULL, OTHERS, ROOT, narrow

SCRIPTS = ROOT / "attn_scripts"
GQA = SCRIPTS / "gqa.attn"
NAN = {"e4m3": 0x7F, "e5m2": 0x7D, "i8": 0x80, "i4": 0x88}
GROUP = 8  # channels of a scale, where tests ask for groups


def numbers(kind):
    """What each of the 256 codes means, by f16, which has them all."""
    codes = np.arange(256, dtype=np.uint16)
    if kind == "i8":
        return codes.astype(np.uint8).view(np.int8).astype(np.float64)
    if kind == "e5m2":
        table = (codes << 8).view(np.float16).astype(np.float64)
        return np.where(np.isnan(table), np.nan, table)  # quiet ones, which nanmax leaves out
    table = ((codes & 0x80) << 8 | (codes & 0x7F) << 7).view(np.float16).astype(np.float64) * 256
    table[[0x7F, 0xFF]] = np.nan
    return table


def scales(r, shape, per, largest):
    """One a head, a token, or so many channels of one."""
    axes = (*shape[:2], shape[2] if per else 1, shape[3] // per if per > 1 else 1)
    return ((0.5 + r.random(axes)) * 3 / largest).astype(np.float32)


def zeros(r, shape, per, largest):
    """Zero points, which are no integers."""
    return (scales(r, shape, per, 1) * largest / 10 - largest / 5).astype(np.float32)


def stored(r, kind, shape):
    """Codes that are numbers, of about normal ones, and a scale of which the largest is 3."""
    if kind == "i4":  # two a byte
        return r.integers(0, 256, (*shape[:-1], shape[-1] // 2), dtype=np.uint8)
    table = numbers(kind)
    largest = np.nanmax(np.abs(np.where(np.isinf(table), 0, table)))
    x = np.clip(r.standard_normal(shape) / 3, -1, 1) * largest
    order = np.argsort(table[np.isfinite(table)], kind="stable")
    sorted_codes = np.arange(256)[np.isfinite(table)][order]
    codes = sorted_codes[np.clip(np.searchsorted(table[sorted_codes], x), 0, len(sorted_codes) - 1)].astype(np.uint8)
    return codes.view(np.int8) if kind == "i8" else codes


def meaning(codes, kind):
    if kind == "i4":  # the lower channel in the lower half
        halves = np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], 2 * codes.shape[-1]).astype(np.float64)
        return halves - 16 * (halves > 7)
    return numbers(kind)[codes.view(np.uint8)]


def grouped(scale, width):
    """A scale, or a zero point, for each channel."""
    return np.repeat(scale.astype(np.float64), width // scale.shape[-1], -1)


def grain(text):
    """Of "k=i8:token,v=i4:channels8:zero": the type, what scales are for (0 a head, 1 a token, more: so many channels), whether there are zeros."""
    kind, *parts = text.split("=")[-1].split(":")
    per = max([1 * (p == "token") or int(p[8:] or 0) * p.startswith("channels") for p in parts if p not in ("zero", "f16", "bf16")], default=0)
    return kind, per, "zero" in parts


def words(storage):
    texts = storage.split(",")
    return [next((t for t in texts if t[:2] == f"{name}="), texts[0]) for name in "kv"]


def grains(storage):
    return [grain(word) for word in words(storage)]


def scale_type(word):
    """Of scales and zero points."""
    if word.endswith("bf16"):
        import ml_dtypes

        return ml_dtypes.bfloat16
    return np.float16 if word.endswith("f16") else np.float32


def attention(q, k, v, causal, scale=None):
    """In double precision, of one sequence."""
    H, S, D = q.shape
    group = H // k.shape[0]
    k, v = np.repeat(k, group, 0), np.repeat(v, H // v.shape[0], 0)
    T = k.shape[1]
    if not T:
        return np.zeros((H, S, v.shape[-1]))
    s = np.einsum("hsd,htd->hst", q.astype(np.float64), k) / np.sqrt(D)
    if causal:
        s = np.where(np.arange(T) <= np.arange(S)[:, None] + (T - S), s, -np.inf)
    m = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(m), m, 0))
    total = p.sum(-1, keepdims=True)
    return np.einsum("hst,hte->hse", np.where(total > 0, p / np.where(total > 0, total, 1), 0), v)


class Case:
    def __init__(self, storage, lengths, layout, *, queries=1, slots=16, D=32, H=4, Hk=2, seed=0, dtype="float32"):
        r = np.random.default_rng(seed)
        B, most = len(lengths), max(max(lengths), 1)
        self.lengths = np.array(lengths, np.int32)
        self.q = r.standard_normal((B, H, queries, D)).astype(np.float32)
        self.args, self.exact = {}, []
        entries = -(-most // slots)
        self.table = r.permutation(B * entries + 3)[: B * entries].reshape(B, entries).astype(np.int32)
        for name, word in zip("kv", words(storage)):
            kind, per, has_zero = grain(word)
            codes = stored(r, kind, (B, Hk, most, D))
            largest = np.nanmax(np.abs(meaning(codes, kind)))
            beside = {f"{name}_scale": scales(r, (B, Hk, most, D), per, largest).astype(scale_type(word))}
            exact = meaning(codes, kind)
            if has_zero:
                zero = beside[f"{name}_zero"] = zeros(r, (B, Hk, most, D), per, largest).astype(scale_type(word))
                exact = exact - grouped(zero, D if per > 1 else 1)
            self.exact.append(exact * grouped(beside[f"{name}_scale"], D if per > 1 else 1))
            for b, length in enumerate(lengths):
                codes.view(np.uint8)[b, :, length:] = NAN[kind]
                for x in beside.values():
                    if per:
                        x[b, :, length:] = np.nan
            if layout == "T=paged":
                codes = self.pool(codes, slots, NAN[kind])
                beside = {n: self.pool(x, slots, np.nan) if per else x for n, x in beside.items()}
            self.args |= {name: codes} | beside
        for b, length in enumerate(lengths):
            self.table[b, -(-length // slots) :] = -1
        if layout:
            self.args["T_lengths"] = self.lengths
        if layout == "T=paged":
            self.args["T_table"] = self.table

    def pool(self, dense, slots, nothing):
        B, entries = self.table.shape
        pool = np.full((B * entries + 3, dense.shape[1], slots, dense.shape[3]), 0, dense.dtype)
        (pool.view(np.uint8) if dense.dtype.itemsize == 1 else pool)[:] = nothing
        for b, length in enumerate(self.lengths):
            for j in range(length):
                pool[self.table[b, j // slots], :, j % slots] = dense[b, :, j]
        return pool

    def expected(self, causal):
        k, v = self.exact
        return np.stack([attention(self.q[b], k[b, :, :n], v[b, :, :n], causal) for b, n in enumerate(self.lengths)])


class Storage(unittest.TestCase):
    def check(self, script, case, f, bound=2e-5):
        got = np.asarray(f(self.operand(case.q), **case.args)).astype(np.float64)
        want = case.expected("causal" in script)
        self.assertTrue(np.isfinite(got).all())
        self.assertLess(np.abs(got - want).max(), bound * max(np.abs(want).max(), 1))

    @staticmethod
    def operand(q):
        return q

    def test_types_and_layouts(self):
        every = (None, "T=padded", "T=paged")
        whole = [(storage, layout) for storage in ("e4m3", "k=e5m2,v=i8:token", "k=i8:token,v=e4m3") for layout in every]
        parts = ("e4m3:channels32", "k=i8:channels8,v=e5m2:channels16", "i8:zero", "k=e4m3:channels16:zero,v=i8:token:zero", "i4", "k=i4:channels32:zero,v=i4:token:zero", "k=i4:token,v=i4:channels8")
        for storage, layout in [*whole, *((storage, layout) for n, storage in enumerate(parts) for layout in (every if FULL else (every[n % 3],)))]:
            f = aule.compile(GQA, layout=layout, storage=storage, optimize=1)
            for queries, lengths in ((1, [70, 0, 1, 15, 16, 17, 96]), (3, [1100, 3, 1024, 1025]), (130, [140, 0, 131])):
                if layout is None:
                    lengths = [max(lengths)] * 2
                with self.subTest(storage=storage, layout=layout, queries=queries):
                    self.check("causal", Case(storage, lengths, layout, queries=queries), f)

    def test_operands(self):
        """Half precision and bfloat16, of torch's own types of 8 bits, too."""
        case = Case("k=e4m3,v=e5m2:token", [70, 1, 17], "T=padded", queries=2)
        f = aule.compile(GQA, layout="T=padded", storage="k=e4m3,v=e5m2:token", optimize=1)
        want = case.expected("causal")
        got = np.asarray(f(case.q.astype(np.float16), **case.args)).astype(np.float64)
        self.assertLess(np.abs(got - want).max(), 4e-3 * np.abs(want).max())
        try:
            import torch
        except ImportError:
            self.skipTest("no torch")
        args = {name: torch.from_numpy(x) for name, x in case.args.items()}
        args["k"], args["v"] = args["k"].view(torch.float8_e4m3fn), args["v"].view(torch.float8_e5m2)
        got = f(torch.from_numpy(case.q).bfloat16(), **args)
        self.assertEqual(got.dtype, torch.bfloat16)
        self.assertLess(np.abs(got.double().numpy() - want).max(), 2e-2 * np.abs(want).max())
        with self.assertRaisesRegex(aule.Error, "k is float8_e5m2, expected float8_e4m3fn, as it is stored"):
            f(torch.from_numpy(case.q), **args | {"k": args["k"].view(torch.float8_e5m2)})

    def test_scripts(self):
        """Rotated keys, values in keys, sinks, masks of data, norms: as dense calls with the elements."""
        every = (None, "T=padded", "T=paged")
        whole = (("rope", "e4m3"), ("rope", "i8:token"), ("mla_decode", "k=e4m3"), ("mla_decode", "i8:token"), ("attention_sink", "i8"), ("alibi", "e4m3:token"), ("block_causal", "v=e5m2:token"), ("qk_norm", "k=i8:token"))
        parts = (("rope", "e4m3:channels8"), ("rope", "k=i8:channels16:zero"), ("mla_decode", "k=e4m3:channels32"), ("mla_decode", "i8:zero"), ("attention_sink", "i8:channels4:zero"), ("alibi", "v=e5m2:channels16"),
                 ("block_causal", "e4m3:channels32"), ("qk_norm", "k=i8:token:zero"), ("rope", "i4:channels8:zero"), ("mla_decode", "k=i4:channels32:zero"), ("attention_sink", "k=i4:token"), ("block_causal", "v=i4:zero"))
        for n, (stem, storage) in enumerate(whole + parts):
            script = narrow(SCRIPTS / f"{stem}.attn")
            dense = aule.compile(script, optimize=1)
            for layout in every if FULL or n < len(whole) else (every[n % 3],):
                f = aule.compile(script, layout=layout, storage=storage, optimize=1)
                for queries in (1, 33):
                    with self.subTest(script=stem, storage=storage, layout=layout, queries=queries):
                        self.against_dense(dense, f, storage, layout, queries)

    def against_dense(self, dense, f, storage, layout, queries, bound=3e-5, device=None):
        r = np.random.default_rng(1)
        lengths = [40, 40] if layout is None else [40, 0, 1, 33]
        sizes = {"B": len(lengths), "H": 4, "Hk": 2, "Hv": 2, "S": queries, "T": 40, "D": 32, "E": 32}
        exact, args, slots = {}, {}, 16
        specs = {t.name: t for t in f.tensors}
        for t in dense.tensors:
            if t.role not in ("q", "k", "v", "input") or t.in_k:
                continue
            shape = tuple(sizes[axis] if isinstance(axis, str) else axis for axis in t.axes)
            if any(axis is None for axis in shape):
                self.skipTest(f"{t.name} {t.axes}")
            kind = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int8": "i8"}.get(specs[t.name].dtype, "i4" if specs[t.name].dtype == "uint8" else None) if t.name in "kv" else None
            if not kind:
                x = r.standard_normal(shape).astype(np.float32) if t.dtype in ("operand", "float32") else r.integers(0, 2, shape).astype(t.dtype)
                exact[t.name] = args[t.name] = x
                continue
            _, per, has_zero = grain(storage.split(",")[-1 if t.name == "v" else 0])
            codes = stored(r, kind, shape)
            largest = np.nanmax(np.abs(meaning(codes, kind)))
            scale = args[f"{t.name}_scale"] = scales(r, shape, per, 3 * largest)
            exact[t.name] = meaning(codes, kind)
            if has_zero:
                zero = args[f"{t.name}_zero"] = zeros(r, shape, per, largest)
                exact[t.name] = exact[t.name] - grouped(zero, shape[3] if per > 1 else 1)
            exact[t.name] = (exact[t.name] * grouped(scale, shape[3] if per > 1 else 1)).astype(np.float32)
            args[t.name] = codes
        if layout:
            args["T_lengths"] = np.array(lengths, np.int32)
        if layout == "T=paged":
            entries = -(-40 // slots)
            args["T_table"] = table = r.permutation(len(lengths) * entries).reshape(-1, entries).astype(np.int32)
            for name in ("k", "v", "k_scale", "v_scale", "k_zero", "v_zero"):
                x = args.get(name)
                if x is None or x.shape[2] == 1:
                    continue
                pool = np.zeros((table.size, x.shape[1], slots, x.shape[3]), x.dtype)
                for b in range(len(lengths)):
                    for j in range(40):
                        pool[table[b, j // slots], :, j % slots] = x[b, :, j]
                args[name] = pool
        params = {p.name: 1.0 if p.dtype == "float32" else 5 for p in f.parameters if p.required}
        got = f(*[args.pop(n) for n in "qkv" if n in args], **args, **params, **({"device": device} if device else {}))
        got = got[0] if isinstance(got, tuple) else got
        for b, length in enumerate(lengths):
            one = {t.name: x[tuple(slice(b, b + 1) if a == "B" else slice(0, length) if a == "T" else slice(None) for a in t.axes)] for t in dense.tensors if (x := exact.get(t.name)) is not None}
            if not length:
                self.assertFalse(np.asarray(got[b]).any() and "sink" not in f.name)
                continue
            want = dense(*[one.pop(n) for n in "qkv" if n in one], **one, **params)
            want = want[0] if isinstance(want, tuple) else want
            np.testing.assert_allclose(got[b], want[0], atol=bound * max(np.abs(want).max(), 1), rtol=0)

    def test_devices(self):
        if not OTHERS:
            self.skipTest("no device beside the processor")
        layouts = ((None, [90, 90]), ("T=padded", [90, 0, 1, 65]), ("T=paged", [90, 0, 1, 65]))
        storages = ("k=e4m3:token,v=e5m2", "k=e4m3:channels32,v=i8:channels8:zero", "k=i4:channels32:zero,v=i4:token")
        all_of_them = FULL or DEVICE != "cpu"
        for (layout, lengths), storage in itertools.product(layouts, storages) if all_of_them else zip(layouts, storages):
            f = aule.compile(GQA, layout=layout, storage=storage, optimize=1)
            case = Case(storage, lengths, layout, queries=3)
            for device in OTHERS if FULL else [OTHERS[len(layout or "") % len(OTHERS)]]:  # 0, 8 and 7 letters: in turns
                with self.subTest(layout=layout, storage=storage, device=device):
                    self.check("causal", case, lambda *args, device=device, **more: f(*args, device=device, **more))

    def test_appended(self):
        """Rows that `append` wrote, into a cache that was of something else: as near as codes are apart."""
        for storage in ("e4m3:channels8", "i8:token:zero", "k=i4:channels8:zero,v=i4:token", "k=e4m3:token:f16,v=i4:channels8:zero:f16"):
            f = aule.compile(GQA, layout="T=paged", storage=storage, optimize=1)
            numbers = [scale_type(word) for word in words(storage)]
            r, lengths, slots = np.random.default_rng(2), np.array([20, 0, 7], np.int32), 16
            rows = r.standard_normal((2, 3, 2, 20, 32)).astype(np.float32) + 0.5
            table, cache, beside = np.arange(1, 7, dtype=np.int32).reshape(3, 2), {}, {}
            for name, (kind, per, has_zero), number in zip("kv", grains(storage), numbers):
                cache[name] = np.full((7, 2, slots, 16 if kind == "i4" else 32), NAN[kind], np.uint8)
                cache[name] = cache[name].view(np.int8) if kind == "i8" else cache[name]
                for what in ("scale", "zero")[: 1 + has_zero]:
                    beside[f"{name}_{what}"] = np.full((7, 2, slots, 32 // per if per > 1 else 1), np.nan, number)
            f.append(*rows, cache["k"], cache["v"], T_lengths=lengths, T_table=table, **beside)
            for n, (name, (kind, per, has_zero)) in enumerate(zip("kv", grains(storage))):
                scale = grouped(beside[f"{name}_scale"], 32 if per > 1 else 1)
                got = (meaning(cache[name], kind) - (grouped(beside[f"{name}_zero"], 32 if per > 1 else 1) if has_zero else 0)) * scale
                for b, length in enumerate(lengths):
                    for j in range(length):
                        page, slot = table[b, j // slots], j % slots
                        with self.subTest(storage=storage, tensor=name, row=(b, j)):
                            apart = np.abs(rows[n, b, :, 20 - length + j]) / 16 if kind == "e4m3" else 0
                            self.assertTrue((np.abs(got[page, :, slot] - rows[n, b, :, 20 - length + j]) <= apart + scale[page, :, slot] * 0.501).all())
                self.assertTrue(np.isnan(beside[f"{name}_scale"][0]).all() and (cache[name].view(np.uint8)[0] == NAN[kind]).all())
            q = r.standard_normal((3, 4, 1, 32)).astype(np.float32)
            self.assertTrue(np.isfinite(f(q, cache["k"], cache["v"], T_lengths=lengths, T_table=table, **beside)).all())

    def packed(self, storage, pairs, *, D=32, H=4, Hk=2, seed=0):
        """A call of packed rows, of (queries, keys) of each sequence, and what it must give; rows of no sequence are NaN, as codes and as scales."""
        r = np.random.default_rng(seed)
        counts = [np.array([0, *np.cumsum([pair[n] for pair in pairs])], np.int32) for n in range(2)]
        behind = 3
        q = np.full((1, H, counts[0][-1] + behind, D), np.nan, np.float32)
        q[:, :, :-behind] = r.standard_normal((1, H, counts[0][-1], D))
        args, exact, total = {"S_starts": counts[0], "T_starts": counts[1]}, [], int(counts[1][-1])
        for name, word in zip("kv", words(storage)):
            kind, per, has_zero = grain(word)
            codes = stored(r, kind, (1, Hk, total + behind, D))
            largest, made = np.nanmax(np.abs(meaning(codes, kind))), meaning(codes, kind)
            of = (1 if per else len(pairs), Hk, total + behind, D)
            beside = {"scale": scales(r, of, per, largest).astype(scale_type(word))}
            if has_zero:
                beside["zero"] = zeros(r, of, per, largest).astype(scale_type(word))
            each = {what: grouped(x if per else np.repeat(x, np.diff([*counts[1][:-1], total + behind]), 0).transpose(2, 1, 0, 3), D if per > 1 else 1) for what, x in beside.items()}
            exact.append((made - each.get("zero", 0)) * each["scale"])
            codes.view(np.uint8)[:, :, total:] = NAN[kind]
            for what, x in beside.items():
                if per:
                    x[:, :, total:] = np.nan
                args[f"{name}_{what}"] = x
            args[name] = codes
        want = np.zeros((1, H, counts[0][-1] + behind, D))
        for (a, b), (c, d) in zip(itertools.pairwise(counts[0]), itertools.pairwise(counts[1])):
            want[0, :, a:b] = attention(q[0, :, a:b], exact[0][0, :, c:d], exact[1][0, :, c:d], True)
        return q, args, want

    def test_packed(self):
        """Packed keys: sequences without keys, without queries, few and many; the processor and every other device."""
        shapes = ([(3, 70), (0, 5), (1, 0), (40, 40), (130, 131), (1, 17)], [(1, 33), (4, 100), (2, 2)], [(0, 0), (1, 1)])
        storages = ("e4m3", "k=i8:token,v=e5m2", "i8:channels8:zero", "k=i4:token:f16,v=i4:channels16:zero:f16")
        layouts = ("S=packed,T=packed", "S=packed:most,T=packed:most")
        for n, (storage, layout) in enumerate(itertools.product(storages, layouts) if FULL else zip(storages, layouts * 2)):
            f = aule.compile(GQA, layout=layout, storage=storage, optimize=1)
            for m, pairs in enumerate(shapes if FULL else [shapes[n % 3], shapes[(n + 1) % 3]]):
                q, args, want = self.packed(storage, pairs, seed=n)
                most = {"S_most": max(p[0] for p in pairs), "T_most": max(p[1] for p in pairs)} if "most" in layout else {}
                own = [] if m or n % 2 else OTHERS[n // 2 % max(len(OTHERS), 1) :][:1]  # compilers of devices take long
                for device in (None, *(OTHERS if FULL else own)):
                    with self.subTest(storage=storage, layout=layout, pairs=pairs, device=device):
                        got = np.asarray(f(q, **args, **most, **({"device": device} if device else {}))).astype(np.float64)
                        self.assertLess(np.abs(got - want).max(), 2e-5 * max(np.abs(want).max(), 1))
        q, args, want = self.packed("e4m3", shapes[1])
        f = aule.compile(GQA, layout="S=packed,T=packed", storage="e4m3", optimize=1)
        one = args | {"k_scale": np.full((1, 1, 1, 1), 0.01, np.float32), "v_scale": np.full((1, 2, 1, 1), 0.02, np.float32)}
        each = args | {"k_scale": np.full((3, 2, 1, 1), 0.01, np.float32), "v_scale": np.full((3, 2, 1, 1), 0.02, np.float32)}
        np.testing.assert_array_equal(f(q, **one), f(q, **each))
        for wrong, message in ((np.ones((2, 2, 1, 1), np.float32), "k_scale: axis 0"), (np.ones((4, 2, 1, 1), np.float32), "k_scale: axis 0"), (np.ones((1, 2, 3, 1), np.float32), "k_scale: axis 2")):
            with self.assertRaisesRegex(aule.Error, message):
                f(q, **args | {"k_scale": wrong})

    def test_packed_scripts(self):
        """Rotated keys, values in keys, sinks, norms: each sequence as a call by itself with the elements."""
        pairs = [(5, 20), (0, 3), (33, 40), (1, 7)]
        cases = (("rope", "k=i4:channels8:zero"), ("mla_decode", "e4m3:token"), ("qk_norm", "k=i8:token,v=e4m3"), ("rope", "i8:token"), ("attention_sink", "k=i8:zero"))
        for stem, storage in cases if FULL else cases[:3]:
            script = narrow(SCRIPTS / f"{stem}.attn")
            dense = aule.compile(script, optimize=1)
            f = aule.compile(script, layout="S=packed,T=packed", storage=storage, optimize=1)
            with self.subTest(script=stem, storage=storage):
                self.packed_against_dense(dense, f, storage, pairs)

    def packed_against_dense(self, dense, f, storage, pairs):
        r = np.random.default_rng(3)
        rows = {"S": [p[0] for p in pairs], "T": [p[1] for p in pairs]}
        starts = {axis: np.array([0, *np.cumsum(n)], np.int32) for axis, n in rows.items()}
        sizes = {"B": 1, "H": 4, "Hk": 2, "Hv": 2, "S": sum(rows["S"]), "T": sum(rows["T"]), "D": 32, "E": 32}
        exact, args = {}, {"S_starts": starts["S"], "T_starts": starts["T"]}
        stores = {t.name: t.dtype != "operand" for t in f.tensors}
        for t in dense.tensors:
            if t.role not in ("q", "k", "v", "input") or t.in_k:
                continue
            shape = tuple(sizes[axis] if isinstance(axis, str) else axis for axis in t.axes)
            if t.name in "kv" and stores[t.name]:
                kind, per, has_zero = grain(words(storage)["kv".index(t.name)])
                codes = stored(r, kind, shape)
                largest = np.nanmax(np.abs(meaning(codes, kind)))
                scale = args[f"{t.name}_scale"] = scales(r, shape, per, 3 * largest)
                zero = args[f"{t.name}_zero"] = zeros(r, shape, per, largest) if has_zero else None
                number = meaning(codes, kind) - (grouped(zero, shape[3] if per > 1 else 1) if has_zero else 0)
                exact[t.name], args[t.name] = (number * grouped(scale, shape[3] if per > 1 else 1)).astype(np.float32), codes
                continue
            exact[t.name] = args[t.name] = r.standard_normal(shape).astype(np.float32)
        args = {name: x for name, x in args.items() if x is not None}
        params = {p.name: 1.0 if p.dtype == "float32" else 5 for p in f.parameters if p.required}
        got = f(*[args.pop(n) for n in "qkv" if n in args], **args, **params)
        got = got[0] if isinstance(got, tuple) else got
        for b in range(len(pairs)):
            cut = {axis: slice(s[b], s[b + 1]) for axis, s in starts.items()}
            if not pairs[b][0]:
                continue
            own = {t.name: exact[t.name][tuple(cut.get(a, slice(None)) if isinstance(a, str) else slice(None) for a in t.axes)] for t in dense.tensors if t.name in exact}
            want = dense(*[own.pop(n) for n in "qkv" if n in own], **own, **params)
            want = want[0] if isinstance(want, tuple) else want
            np.testing.assert_allclose(got[:, :, cut["S"]], want, atol=3e-5 * max(np.abs(want).max(), 1), rtol=0)

    def test_scales_of_16_bits(self):
        """Scales and zero points of f16 and bf16: on the processor and every other device; other types are refused by name."""
        try:
            import ml_dtypes  # noqa: F401
        except ImportError:
            self.skipTest("no ml_dtypes")
        cases = (("e4m3:f16", None, [80, 80]), ("k=i8:token:bf16,v=e5m2:token:f16", "T=padded", [70, 0, 1, 33]), ("k=i8:channels8:zero:f16,v=i4:channels16:zero:bf16", "T=paged", [70, 0, 1, 33]),
                 ("i4:token:f16", "T=paged", [70, 0, 17]))
        for n, (storage, layout, lengths) in enumerate(cases):
            f = aule.compile(GQA, layout=layout, storage=storage, optimize=1)
            for queries in (1, 40):
                case = Case(storage, lengths, layout, queries=queries)
                own = OTHERS[n // 2 % max(len(OTHERS), 1) :][: n % 2 == queries % 2]  # two of the cases, of one row and of many
                for device in (None, *(OTHERS if FULL else own)):
                    with self.subTest(storage=storage, layout=layout, queries=queries, device=device):
                        where = {"device": device} if device else {}
                        self.check("causal", case, lambda *args, where=where, **more: f(*args, **where, **more))
        wide = {name: x.astype(np.float32) if name == "k_scale" else x for name, x in case.args.items()}
        with self.assertRaisesRegex(aule.Error, "k_scale is float32, expected float16"):
            f(case.q, **wide)

    def test_appended_extremes(self):
        """Scales and zero points of 16 bits that `append` makes: rows of tiny, of large and of nearly equal numbers are as near as such types are, what has no
        scale is NaN as it is read."""
        r = np.random.default_rng(4)
        rows = r.standard_normal((1, 1, 8, 32)).astype(np.float32)
        rows[0, 0, 1] *= 1e-6  # scales of f16 that are no normal numbers
        rows[0, 0, 2] = 3.14159
        rows[0, 0, 3] = 1000 + rows[0, 0, 3] * 1e-3
        rows[0, 0, 4] = -5 + rows[0, 0, 4] * 1e-2
        rows[0, 0, 5] *= 1e9  # no scale of f16, but one of bf16
        rows[0, 0, 6] = 0
        rows[0, 0, 7, 3] = np.nan
        for storage in ("i8:token:zero:f16", "i8:token:zero:bf16", "i8:token:f16", "i4:channels8:zero:f16", "i4:channels8:zero:bf16", "e4m3:token:bf16"):
            (kind, per, has_zero), number = grains(storage)[0], scale_type(storage)
            f = aule.compile(GQA, storage=storage, optimize=1)
            codes = {name: np.zeros((1, 1, 8, 16 if kind == "i4" else 32), np.int8 if kind == "i8" else np.uint8) for name in "kv"}
            beside = {f"{name}_{what}": np.zeros((1, 1, 8, 32 // per if per > 1 else 1), number) for name in "kv" for what in ("scale", "zero")[: 1 + has_zero]}
            f.append(rows, rows, codes["k"], codes["v"], **beside)
            scale = grouped(beside["k_scale"].astype(np.float64), 32 if per > 1 else 1)
            with np.errstate(invalid="ignore"):
                got = (meaning(codes["k"], kind) - (grouped(beside["k_zero"].astype(np.float64), 32 if per > 1 else 1) if has_zero else 0)) * scale
            spread = np.repeat(np.ptp(rows.reshape(1, 1, 8, -1, per if per > 1 else 32), -1), per if per > 1 else 32, -1)
            most = np.abs(rows) if has_zero else np.abs(rows).max(-1, keepdims=True)
            steps = {"i8": 255, "i4": 15, "e4m3": 16}[kind] if has_zero else {"i8": 127, "e4m3": 16}[kind]
            part = 2.0**-10 if number is np.float16 else 2.0**-7
            for row in (0, 1, 2, 3, 4, *((5,) if number is not np.float16 else ()), 6):
                with self.subTest(storage=storage, row=row):
                    reach = (spread if has_zero else most)[0, 0, row]
                    bound = reach * (0.51 + steps * part / 2) / steps + np.abs(rows[0, 0, row]) * part + (2.0**-24 * steps if number is np.float16 else 0)
                    self.assertTrue((np.abs(got[0, 0, row] - rows[0, 0, row]) <= bound).all(), np.abs(got[0, 0, row] - rows[0, 0, row]).max())
            if number is np.float16:
                self.assertTrue(np.isnan(got[0, 0, 5]).all())
            self.assertTrue(np.isnan(got[0, 0, 7, : 8 if per > 1 else 32]).all())

    def test_one_scale(self):
        """One element for all sequences and heads, or for all sequences."""
        f = aule.compile(GQA, storage="i8", optimize=1)
        case = Case("i8", [50, 50], None, queries=2)
        for axes in ((1, 1), (1, 2), (2, 1)):
            for n, name in enumerate("kv"):
                scale = case.args[f"{name}_scale"] = np.full((*axes, 1, 1), 0.01 * (n + 1), np.float32)
                scale *= 1 + np.arange(scale.size).reshape(scale.shape)
                case.exact[n] = meaning(case.args[name], "i8") * scale
            self.check("causal", case, f)
        case.args["k_scale"] = np.ones((2, 3, 1, 1), np.float32)
        with self.assertRaisesRegex(aule.Error, "k_scale: axis 1"):
            f(case.q, **case.args)

    def test_refusals(self):
        for script, options, message in (
            (GQA, {"storage": "q=e4m3"}, "keys and values can be stored as codes, k and v; queries cannot"),
            (GQA, {"storage": "e4m4"}, "'e4m4' is no storage, expected e4m3, e5m2, i8 or i4"),
            (GQA, {"storage": "i8:channels0"}, "'i8:channels0' is no storage"),
            (GQA, {"storage": "i8:channels8:token"}, "'i8:channels8:token' is no storage"),
            (GQA, {"storage": "i8:zero:zero"}, "'i8:zero:zero' is no storage"),
            (GQA, {"storage": "i8:token:f16:bf16"}, "'i8:token:f16:bf16' is no storage"),
            (GQA, {"storage": "i8:f8"}, "and ':f16' or ':bf16' where scales are no f32"),
            (SCRIPTS / "mla_decode.attn", {"storage": "k=e4m3,v=e4m3:f16"}, "--storage: v: values are channels of the keys and are stored as they are"),
            (GQA, {"storage": "e4m3,k=i8"}, "'k' has a storage already"),
            (SCRIPTS / "gla.attn", {"storage": "v=i8"}, "--storage: v: recurrences have no cache of keys and values"),
            (SCRIPTS / "mla_decode.attn", {"storage": "k=e4m3,v=i8"}, "--storage: v: values are channels of the keys and are stored as they are"),
            ("attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; input k_scale: f32[H]; score_mod(s, b, h) = s * k_scale[h]; online softmax; }", {"storage": "i8"},
             "attention 'a' has an input 'k_scale', and so is called a tensor that the compiler adds"),
        ):
            with self.subTest(storage=options["storage"]):
                with self.assertRaisesRegex(aule.Error, re.escape(message)):
                    aule.compile(script, **options)
        f = aule.compile(GQA, storage="e4m3", optimize=1)
        self.assertFalse(any(t.role in ("dout", "gradient") or t.gradient for t in f.tensors))
        case = Case("e4m3", [20, 20], None)
        with self.assertRaisesRegex(aule.Error, "k is float32, expected float8_e4m3fn, as it is stored"):
            f(case.q, **case.args | {"k": np.zeros((2, 2, 20, 32), np.float32)})
        for storage, width, message in (("e4m3:channels24", 32, "--storage: k: 32 channels do not consist of groups of 24"), ("i4", 33, "--storage: k: 33 channels of 4 bits do not fill whole bytes")):
            made = {f"{n}_scale": np.ones((1, 1, 1, 1), np.float32) for n in "kv"}
            with self.assertRaisesRegex(aule.Error, message):
                aule.compile(GQA, storage=storage, optimize=1)(np.zeros((1, 2, 1, width), np.float32), *[np.zeros((1, 1, 4, width // (1 + (storage == "i4"))), np.uint8)] * 2, **made)
        with self.assertRaisesRegex(TypeError, "needs v_scale"):
            f(case.q, **{name: x for name, x in case.args.items() if name != "v_scale"})


if __name__ == "__main__":
    unittest.main()
