"""aule.decode, attention_varlen over pages and axes= of calls: as aule.attention of each sequence by itself. Slots that no sequence has are NaN, tables end in -1."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from unittest import mock

import numpy as np

import aule
import aule.serving
from support import DEVICE, OTHERS, ROOT, torch

if torch is not None:
    from torch._dynamo.testing import CompileCounter

H, HK, D, E = 4, 2, 16, 24
LENGTHS = [70, 0, 1, 15, 16, 17, 2, 96]
OPTIONS = (
    {}, {"causal": False}, {"window": 9}, {"window": (20, 0), "softcap": 3.0}, {"alibi": "H"}, {"alibi": "BH", "scale": 0.3}, {"sinks": "H"},
)


class Case:
    """Keys and values of sequences, as rows of each and in a cache that lacks the last [new] of them."""

    def __init__(self, slots, rows, new, lengths=LENGTHS, dtype=np.float32):
        r = np.random.default_rng(len(lengths) + rows)
        self.lengths, B = np.array(lengths, np.int32), len(lengths)
        self.q = r.standard_normal((B, rows, H, D)).astype(dtype)
        self.k, self.v = (r.standard_normal((B, max(lengths) + 1, HK, d)).astype(dtype) for d in (D, E))
        self.new = [np.full((B, rows, HK, d), np.nan, dtype) for d in (D, E)]
        if slots is None:
            self.table, most = None, max(lengths) + 1
            self.caches = [np.full((B, most, HK, d), np.nan, dtype) for d in (D, E)]
        else:
            entries = -(-max(lengths) // slots)
            self.table = r.permutation(B * entries + 2)[: B * entries].reshape(B, entries).astype(np.int32)
            self.caches = [np.full((B * entries + 2, slots, HK, d), np.nan, dtype) for d in (D, E)]
        for b, length in enumerate(lengths):
            for n in range(length):
                place = (b, n) if slots is None else (self.table[b, n // slots], n % slots)
                for cache, x, made in zip(self.caches, (self.k, self.v), self.new):
                    if new and n >= length - rows:
                        made[b, n - length + rows] = x[b, n]
                    else:
                        cache[place] = x[b, n]
            if slots is not None:
                self.table[b, -(-length // slots) :] = -1

    def given(self, options):
        r = np.random.default_rng(7)
        shapes = {"H": (H,), "BH": (len(self.lengths), H)}
        return {name: r.random(shapes[x]).astype(np.float32) if x in shapes else x for name, x in options.items()}

    def want(self, b, options, causal=True):
        """o [rows, H, E] and lse of a dense call of sequence b."""
        length = self.lengths[b]
        k, v = (x[b : b + 1, :length].swapaxes(1, 2) for x in (self.k, self.v))
        own = {name: x[b : b + 1] if getattr(x, "ndim", 0) == 2 else x for name, x in options.items()}
        o, lse = aule.attention(self.q[b : b + 1].swapaxes(1, 2), k, v, **{"causal": causal} | own, return_lse=True)
        return o[0].swapaxes(0, 1), lse[0].T


class Decode(unittest.TestCase):
    def check(self, slots, rows, options, new=True, to=lambda x: x, dtype=np.float32, bound=2e-6):
        case = Case(slots, rows, new, dtype=dtype)
        given = case.given(options)
        named = {name: to(x) if isinstance(x, np.ndarray) else x for name, x in given.items()}
        named |= {"k": to(case.new[0]), "v": to(case.new[1])} if new else {}
        caches = [to(x) for x in case.caches]
        o, lse = aule.decode(to(case.q), *caches, to(case.lengths), page_table=None if slots is None else to(case.table), return_lse=True, **named)
        o, lse = (np.asarray(x.float().cpu() if torch is not None and isinstance(x, torch.Tensor) else x) for x in (o, lse))
        self.assertEqual((o.shape, lse.shape), ((len(case.lengths), rows, H, E), (len(case.lengths), rows, H)))
        for b, length in enumerate(case.lengths):
            say = f"{slots} slots, {rows} rows of {length} keys, {options}"
            if not length:
                self.assertFalse(o[b].any(), say)
                continue
            want, want_lse = case.want(b, given)
            np.testing.assert_allclose(o[b], want.astype(np.float32), rtol=bound * 10, atol=bound * 4, err_msg=say)
            np.testing.assert_allclose(lse[b], want_lse, rtol=bound * 10, atol=bound * 4, err_msg=say)
        return case, caches

    def test_layouts_and_rows(self):
        for slots in (None, 1, 16, 48):
            for rows in (1, 3, 20):
                for new in (True, False):
                    self.check(slots, rows, {}, new)

    def test_options(self):
        for options in OPTIONS:
            for slots in (None, 16):
                self.check(slots, 2, options)

    @unittest.skipIf(torch is None, "torch is not installed: NumPy takes what others have for read-only")
    def test_dlpack(self):
        """Tensors of which shape, type and __dlpack__ are known: caches are written where they lie."""
        class Other:
            def __init__(self, array):
                self.array, self.shape, self.dtype = array, array.shape, array.dtype

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        case = Case(16, 2, True)
        o = aule.decode(*map(Other, (case.q, *case.caches, case.lengths)), k=Other(case.new[0]), v=Other(case.new[1]), page_table=Other(case.table))
        for b, length in enumerate(case.lengths):
            rows = slice(max(2 - length, 0), None)
            np.testing.assert_allclose(np.asarray(o[b])[rows], case.want(b, {})[0][rows] if length else 0, rtol=2e-5, atol=2e-6)

    def test_only_its_own_slots_are_written(self):
        case, caches = self.check(16, 3, {})
        written = {(case.table[b, n // 16], n % 16) for b, length in enumerate(case.lengths) for n in range(max(length - 3, 0), length)}
        before = Case(16, 3, True).caches
        for cache, old in zip(caches, before):
            for page in range(len(cache)):
                for slot in range(16):
                    same = np.array_equal(cache[page, slot], old[page, slot], equal_nan=True)
                    self.assertEqual(same, (page, slot) not in written, (page, slot))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self):
        to = lambda x: torch.from_numpy(x).to(DEVICE)  # noqa: E731
        for slots in (None, 16):
            for rows in (1, 4):
                self.check(slots, rows, {"sinks": "H"}, to=to)
        self.check(16, 1, {}, to=to, dtype=np.float16, bound=5e-4)
        case = Case(16, 1, True)
        q = to(case.q).requires_grad_()
        with self.assertRaisesRegex(aule.ArgumentError, "q requires a gradient, and calls over a cache have none"):
            aule.decode(q, *(to(x) for x in case.caches), to(case.lengths), page_table=to(case.table))
        with torch.no_grad():
            o = torch.full((len(LENGTHS), 1, H, E), torch.nan, device=DEVICE)
            made = aule.decode(q, *(to(x) for x in case.caches), to(case.lengths), k=to(case.new[0]), v=to(case.new[1]), page_table=to(case.table), out=o)
        self.assertIs(made, o)
        np.testing.assert_allclose(o[0].cpu(), case.want(0, {})[0], rtol=2e-5, atol=1e-5)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_caches_of_8_bits(self):
        """Rows that are added are stored as they will be read: as with elements that were rounded beforehand."""
        to = torch.from_numpy
        for dtype, scale in ((torch.float8_e4m3fn, "number"), (torch.float8_e5m2, "heads"), (torch.int8, "heads"), (torch.int8, "tokens"), (torch.float8_e4m3fn, "tokens"), (torch.float8_e4m3fn, "tokens, half")):
            with self.subTest(dtype=dtype, scale=scale):
                case = Case(16, 2, True, lengths=[2, 1, 0])  # all rows are new ones
                most = 127 if dtype == torch.int8 else torch.finfo(dtype).max
                caches = [torch.zeros(x.shape, dtype=torch.uint8).fill_(0x7F).view(dtype) for x in case.caches]
                one = {"number": 0.02, "heads": torch.tensor([0.02, 0.03])}.get(scale)
                numbers = torch.float16 if scale.endswith("half") else torch.float32
                scales = [torch.full(caches[0].shape[:3], torch.nan, dtype=numbers) if scale.startswith("tokens") else one for _ in "kv"]
                o = aule.decode(to(case.q), *caches, to(case.lengths), k=to(case.new[0]), v=to(case.new[1]), page_table=to(case.table), k_scale=scales[0], v_scale=scales[1])
                for name in "kv":
                    x = to(getattr(case, name))
                    own = (x.abs().amax(-1, keepdim=True) / most).to(numbers).float() if scale.startswith("tokens") else torch.as_tensor(one).reshape(-1, 1)
                    codes = (x / own).round() if dtype == torch.int8 else x / own
                    setattr(case, name, (codes.clamp(-most, most).to(dtype).float() * own).numpy())
                for b in (0, 1):
                    np.testing.assert_allclose(o[b], case.want(b, {})[0], rtol=1e-5, atol=1e-5)

    def test_devices(self):
        """Caches on the host, which are copied to the device and, where rows were added, back."""
        if not OTHERS:
            self.skipTest("no device beside the processor")
        for slots in (None, 16):
            self.check(slots, 2, {"window": 9, "backend": OTHERS[0]})

    def test_refusals(self):
        case = Case(16, 1, True)
        args, named = (case.q, *case.caches, case.lengths), {"page_table": case.table, "k": case.new[0], "v": case.new[1]}
        for change, message in (
            ({"k": None}, "k and v are added to the cache together"),
            ({"k": case.new[0][:, :, :1]}, r"k is \[8, 1, 1, 16\], expected \[.., 2, 16\]"),
            ({"v": np.zeros((8, 2, HK, E), np.float32)}, r"v is \[8, 2, 2, 24\], expected \[8, 1, ..\] as q is"),
            ({"page_table": case.table[:3]}, "page_table has 3 rows, q has 8 sequences"),
            ({"page_table": case.table.astype(np.int64)}, "page_table is int64, expected int32"),
            ({"k_scale": 0.5}, "k_scale is of keys and values in float8_e4m3fn, float8_e5m2, int8, and k_cache is float32"),
            ({"window": 0}, "window is 0"),
        ):
            with self.subTest(message):
                with self.assertRaisesRegex(aule.ArgumentError, message):
                    aule.decode(*args, **named | change)
        with self.assertRaisesRegex(aule.ArgumentError, "q has 3 heads and k_cache has 2"):
            aule.decode(case.q[:, :, :3], *args[1:], **named)
        with self.assertRaisesRegex(aule.ArgumentError, "q has 3 axes"):
            aule.decode(case.q[0], *args[1:])
        with self.assertRaisesRegex(aule.ArgumentError, "k_cache has .* rows, q has 8 sequences"):
            aule.decode(*args)
        with self.assertRaisesRegex(aule.ArgumentError, "k_cache is int8 and needs k_scale"):
            aule.decode(case.q, np.zeros(case.caches[0].shape, np.int8), *args[2:], page_table=case.table)
        codes = [np.zeros(x.shape, np.uint8) for x in case.caches]
        with self.assertRaisesRegex(aule.ArgumentError, "k_cache is uint8, which does not say of what type its codes are"):
            aule.decode(case.q, *codes, case.lengths, page_table=case.table, k_scale=1.0, v_scale=1.0)
        with self.assertRaisesRegex(aule.ArgumentError, "k_cache is read-only, and append writes it"):
            aule.decode(*[np.broadcast_to(x, x.shape) for x in args], **named)
        with self.assertRaisesRegex(aule.ArgumentError, r"k_cache is \[.*, 16, 2, 16\] and v_cache \[.*, 8, 2, 24\], expected the same \[pages, slots, ..\]"):
            aule.decode(case.q, case.caches[0], case.caches[1][:, :8], case.lengths, page_table=case.table)

    def test_lists_by_the_names_of_arguments(self):
        """What a processor says of lists, and what kernels say of tensors, names the arguments of the call."""
        case = Case(16, 1, True)
        last = int(np.argmax(case.lengths))
        wild, long = case.table.copy(), case.lengths.copy()
        wild[last, 0], long[last] = 2**31 - 1, 1 << 20
        groups, shared = np.array([0, 8], np.int32), np.array([7], np.int32)
        for change, message in (
            ({"page_table": wild}, rf"^aule.decode\(\): page_table\[{last}, 0\] is 2147483647, there are"),
            ({"lengths": long}, rf"^aule.decode\(\): lengths\[{last}\] is 1048576, the table reaches to"),
            ({"lengths": -case.lengths - 1}, r"^aule.decode\(\): lengths\[0\] is -"),
            ({"groups": groups, "shared": shared}, r"^aule.decode\(\): shared\[0\] is 7, expected whole pages of 16"),
            ({"out": case.q[..., :1].repeat(E, -1)[:, :, :1]}, r"^aule.decode\(\): out: axis"),
            ({"k": case.new[0].astype(np.float64)}, r"^aule.decode\(\): k: dtype is float64"),
        ):
            given = {"lengths": case.lengths, "page_table": case.table, "k": case.new[0], "v": case.new[1]} | change
            with self.subTest(message):
                with self.assertRaisesRegex(aule.ArgumentError, message):
                    aule.decode(case.q, *case.caches, **given)
        starts = np.arange(9, dtype=np.int32)
        with self.assertRaisesRegex(aule.ArgumentError, rf"^aule.attention_varlen\(\): page_table\[{last}, 0\] is"):
            aule.attention_varlen(case.q[:, 0], *case.caches, starts, seqused_k=case.lengths, page_table=wild)
        with self.assertRaisesRegex(aule.ArgumentError, r"^aule.attention_varlen\(\): cu_seqlens_q: sequence 1 has 2 rows, the call says that none has more than 1"):
            aule.attention_varlen(case.q[:, 0], *case.caches, np.array([0, 1, 3, 3, 4, 5, 6, 7, 8], np.int32), seqused_k=case.lengths, page_table=case.table, max_seqlen_q=1)
        given = {"seqused_k": case.lengths, "page_table": case.table}
        many = aule.attention_varlen(case.q[:, 0], *case.caches, starts, max_seqlen_q=2**31 - 1, **given)  # the largest number there is
        np.testing.assert_array_equal(many, aule.attention_varlen(case.q[:, 0], *case.caches, starts, **given))

    def test_one_place_for_two_new_rows(self):
        """On a processor it is said; pages that are read by two are no mistake."""
        q = np.zeros((2, 2, H, D), np.float32)
        caches = [np.zeros((6, 16, HK, n), np.float32) for n in (D, E)]
        rows = [np.zeros((2, 2, HK, n), np.float32) for n in (D, E)]
        lengths = np.array([20, 20], np.int32)

        def call(table, **more):
            aule.decode(q, *caches, lengths, k=rows[0], v=rows[1], page_table=np.array(table, np.int32), **more)

        call([[0, 1], [0, 2]])
        with self.assertRaisesRegex(aule.ArgumentError, r"^aule.decode\(\): page_table: sequences 0 and 1 both have slot [23] of page 1 for a new row"):
            call([[0, 1], [2, 1]])
        lengths[1] = 18  # slots 0 and 1 of the page, not 2 and 3
        call([[0, 1], [2, 1]])
        lengths[:] = 17, 1  # the row before the first is left out
        call([[0, 1], [2, -1]])
        packed = [x.reshape(4, *x.shape[2:]) for x in (q, *rows)]
        with self.assertRaisesRegex(aule.ArgumentError, r"^aule.attention_varlen\(\): page_table: sequences 0 and 1 both have slot 0 of page 1 for a new row"):
            aule.attention_varlen(
                packed[0], *caches, np.array([0, 3, 4], np.int32), seqused_k=lengths, k_new=packed[1], v_new=packed[2], page_table=np.array([[0, 1], [1, -1]], np.int32), causal=True,
            )


class Hard(unittest.TestCase):
    """Batches of hard shapes, one row each, against the formula in double precision."""

    def call(self, k, v, table, lengths, heads=2, scale=1.0, only=None):
        """k, v [pages, slots, 1, channels]."""
        r = np.random.default_rng(3)
        q = (scale * r.standard_normal((len(lengths), 1, heads, k.shape[-1]))).astype(np.float32)
        lengths = np.asarray(lengths, np.int32)
        o = aule.decode(q, k, v, lengths, page_table=table)
        self.assertFalse(o[lengths == 0].any())
        slots = k.shape[1]
        for b in range(len(lengths)) if only is None else only:
            j = np.arange(lengths[b])
            if len(j):
                keys, values = (x[table[b, j // slots], j % slots, 0].astype(np.float64) for x in (k, v))
                scores = q[b, 0].astype(np.float64) @ keys.T / np.sqrt(k.shape[-1])
                weights = np.exp(scores - scores.max(-1, keepdims=True))
                np.testing.assert_allclose(o[b, 0], weights @ values / weights.sum(-1, keepdims=True), rtol=3e-5, atol=2e-5, err_msg=f"{lengths[b]} keys of sequence {b}")

    def pools(self, pages, slots, width=16):
        """Keys and values are one head of a tensor of three: odd strides."""
        r = np.random.default_rng(4)
        return [r.standard_normal((pages, slots, 3, width)).astype(np.float32)[:, :, 1:2] for _ in "kv"]

    def test_thousands_of_sequences(self):
        r = np.random.default_rng(5)
        lengths = r.integers(0, 4, 4096)
        table = np.full((4096, 3), -1, np.int32)
        for b, n in enumerate(lengths):
            table[b, :n] = r.integers(0, 700, n)
        self.call(*self.pools(700, 1), table, lengths, only=range(0, 4096, 37))

    def test_one_long_beside_short(self):
        lengths = [1] * 250 + [100_000] + [1] * 250
        table = np.full((501, 100), -1, np.int32)
        table[:, 0] = np.arange(501) % 90
        table[250] = np.random.default_rng(6).permutation(100)
        self.call(*self.pools(100, 1000), table, lengths, only=(0, 249, 250, 251, 500))

    def test_one_page_shared_by_all(self):
        self.call(*self.pools(4, 48), np.full((60, 1), 2, np.int32), np.arange(60) % 49)

    def test_scores_far_apart(self):
        """Of deviation 9 and more, the largest at the ends of parts of 1024 keys; of all but one part next to nothing."""
        for at in (0, 1023, 1024, 2047, 2048, 2599):
            k, v = self.pools(1, 2600)
            k = k * 9
            k[0, at] *= 8
            with self.subTest(at=at):
                self.call(k, v, np.zeros((1, 1), np.int32), [2600], heads=4)

    def test_lists_of_random_numbers(self):
        """On a processor they are refused, or what they say is right."""
        r = np.random.default_rng(7)
        k, v = self.pools(5, 16)
        taken = 0
        for n in range(300):
            bits = r.integers(-(2**31), 2**31, 9).astype(np.int32) >> r.integers(0, 32, 9).astype(np.int32)
            table, lengths = bits[:6].reshape(3, 2), bits[6:]
            table = table % 5 if n % 3 else table
            lengths = lengths % 35 if n % 3 == 1 else lengths
            try:
                self.call(k, v, table, lengths)
                taken += 1
            except aule.ArgumentError as error:
                self.assertRegex(str(error), r"^aule.decode\(\): (lengths|page_table)\[")
        self.assertGreater(taken, 3)


class VarlenOverPages(unittest.TestCase):
    COUNTS = [3, 0, 1, 15, 7, 1, 2, 40]  # queries of each sequence
    MORE = {}  # beside the options

    def test_options(self):
        for options in OPTIONS[1:]:
            for slots in (1, 16, 48):
                self.check(slots, {"causal": True} | options)

    def check(self, slots, options):
        case = Case(slots, max(self.COUNTS), False)
        given = case.given(options)
        starts = np.concatenate([[0], np.cumsum(self.COUNTS)]).astype(np.int32)
        q = np.full((starts[-1] + 3, H, D), np.nan, np.float32)
        for b, count in enumerate(self.COUNTS):
            q[starts[b] : starts[b + 1]] = case.q[b, max(self.COUNTS) - count :]
        o, lse = aule.attention_varlen(q, *case.caches, starts, seqused_k=case.lengths, page_table=case.table, return_lse=True, **self.MORE, **given)
        self.assertFalse(o[starts[-1] :].any())
        for b, count in enumerate(self.COUNTS):
            if count and case.lengths[b]:
                want, want_lse = case.want(b, given)  # its last rows: queries are the last positions
                say = f"{slots} slots, {count} rows of {case.lengths[b]} keys, {options}"
                np.testing.assert_allclose(o[starts[b] : starts[b + 1]], want[len(want) - count :], rtol=2e-5, atol=1e-5, err_msg=say)
                np.testing.assert_allclose(lse[starts[b] : starts[b + 1]], want_lse[len(want) - count :], rtol=2e-5, atol=1e-5, err_msg=say)

    def test_refusals(self):
        case = Case(16, 1, False)
        starts = np.arange(9, dtype=np.int32)
        args, named = (case.q[:, 0], *case.caches, starts), {"seqused_k": case.lengths, "page_table": case.table}
        aule.attention_varlen(*args, **named)
        for change, message in (
            ({"seqused_k": None}, "keys in pages need seqused_k"),
            ({"cu_seqlens_k": starts}, "cu_seqlens_k is of packed keys"),
            ({"page_table": case.table[:4]}, "page_table has 4 rows, cu_seqlens_q has 8 sequences"),
            ({"page_table": None}, "k has 4 axes"),
        ):
            with self.assertRaisesRegex(aule.ArgumentError, message):
                aule.attention_varlen(*args, **named | change)
        rows = np.zeros((8, HK, D), np.float32)
        with self.assertRaisesRegex(aule.ArgumentError, "seqused_k is for keys in pages"):
            aule.attention_varlen(rows, rows, rows, starts, seqused_k=case.lengths)


class Axes(unittest.TestCase):
    """axes= is the layout and its inputs by another spelling, to the bit."""

    def test_calls(self):
        path, case = ROOT / "attn_scripts/gqa.attn", Case(16, 3, False)
        f = aule.compile(path, optimize=1)
        q, k, v = (np.ascontiguousarray(x.swapaxes(1, 2)) for x in (case.q, *case.caches))
        packed = np.ascontiguousarray(q.transpose(1, 0, 2, 3).reshape(1, H, -1, D))
        starts = np.arange(0, 3 * len(LENGTHS) + 1, 3, dtype=np.int32)
        paged = aule.paged(case.table, case.lengths)
        self.assertEqual(repr(paged), "aule.paged(table=[8, 6], lengths=[8])")
        for layout, x, axes in (("T=paged", q, {"T": paged}), ("S=packed,T=paged", packed, {"T": paged, "S": aule.packed(starts)})):
            g = aule.compile(path, layout=layout, optimize=1)
            named = {"T_table": case.table, "T_lengths": case.lengths} | ({"S_starts": starts} if "S" in axes else {})
            want = g.forward(x, k, v, **named)
            for made in (f.forward(x, k, v, axes=axes), g.forward(x, k, v, axes=axes)):
                np.testing.assert_array_equal(made.o, want.o)
                np.testing.assert_array_equal(made.lse, want.lse)
            np.testing.assert_array_equal(f(x, k, v, axes=axes), want.o)
        self.assertEqual(len(vars(f._layouts)), 2)

    def test_backward(self):
        """Of what a call with axes= gave, by the function that was called."""
        f, r, starts = aule.compile(ROOT / "attn_scripts/gqa.attn", optimize=1), np.random.default_rng(5), np.array([0, 5, 5, 18], np.int32)
        q, k, v, do = (r.standard_normal((1, heads, 18, D)).astype(np.float32) for heads in (H, HK, HK, H))
        axes = {"S": aule.packed(starts), "T": aule.packed(starts)}
        got = f.backward(f.forward(q, k, v, axes=axes), do)
        for a, z in ((0, 5), (5, 18)):
            want = f.backward(f.forward(q[:, :, a:z], k[:, :, a:z], v[:, :, a:z]), do[:, :, a:z])
            for name in ("dq", "dk", "dv"):
                np.testing.assert_allclose(got[name][:, :, a:z], want[name], rtol=1e-4, atol=1e-5)
        pages = f.forward(q, k.reshape(9, HK, 2, D), v.reshape(9, HK, 2, D), axes={"S": aule.packed(starts), "T": aule.paged(np.zeros((3, 9), np.int32), np.diff(starts))})
        with self.assertRaisesRegex(aule.Error, "gqa with layout S=packed,T=paged has no backward pass"):
            f.backward(pages, do)

    def test_append(self):
        f, r = aule.compile(ROOT / "attn_scripts/gqa.attn", optimize=1), np.random.default_rng(6)
        starts, table, lengths = np.array([0, 3, 5], np.int32), np.array([[1, 2], [3, -1]], np.int32), np.array([5, 3], np.int32)
        rows, pool = r.standard_normal((2, 1, HK, 5, D)).astype(np.float32), np.zeros((2, 4, HK, 4, D), np.float32)
        f.append(*rows, *pool, axes={"S": aule.packed(starts), "T": aule.paged(table, lengths)})
        want = np.zeros_like(pool)
        for n, (page, slot) in enumerate(((1, 2), (1, 3), (2, 0), (3, 1), (3, 2))):
            want[:, page, :, slot] = rows[:, 0, :, n]
        np.testing.assert_array_equal(pool, want)

    def test_refusals(self):
        f, case = aule.compile(ROOT / "attn_scripts/gqa.attn", optimize=1), Case(16, 3, False)
        q, k, v = (x.swapaxes(1, 2) for x in (case.q, *case.caches))
        with self.assertRaisesRegex(aule.ArgumentError, "has no length axis X; it has S, T"):
            f(q, k, v, axes={"X": aule.padded(case.lengths)})
        with self.assertRaisesRegex(TypeError, "axes is {'T': aule.paged"):
            f(q, k, v, axes={"T": case.lengths})
        with self.assertRaisesRegex(TypeError, "lengths must be a tensor, it is list"):
            aule.padded([1, 2])
        with self.assertRaisesRegex(TypeError, "was given T_lengths twice"):
            f(q, k, v, axes={"T": aule.padded(case.lengths)}, T_lengths=case.lengths)
        with self.assertRaisesRegex(aule.Error, "was compiled with layout='T=padded', and axes ask for 'T=paged'"):
            aule.compile(ROOT / "attn_scripts/gqa.attn", layout="T=padded", optimize=1)(q, k, v, axes={"T": aule.paged(case.table, case.lengths)})
        with self.assertRaisesRegex(aule.CompileError, "axis S: "):
            f(q, k, v, axes={"S": aule.paged(case.table, case.lengths)})


@unittest.skipIf(torch is None, "torch is not installed")
class Traced(unittest.TestCase):
    """torch.compile(fullgraph=True) of calls whose attentions and layouts nobody has asked for before."""

    def setUp(self):
        case = Case(16, 3, True)
        self.q, self.k, self.v = map(torch.from_numpy, (case.q, *case.new))
        self.k, self.v = self.k.nan_to_num(), self.v.nan_to_num()
        self.caches, self.table, self.lengths = [torch.from_numpy(x) for x in case.caches], torch.from_numpy(case.table), torch.from_numpy(case.lengths)
        torch._dynamo.reset()

    def check(self, call, *tensors, dynamic=None):
        """As without a graph, and compiled once."""
        with mock.patch.object(aule._plain, "_functions", SimpleNamespace()), mock.patch.object(aule._slots, "_functions", SimpleNamespace()):
            made = CompileCounter()
            traced = torch.compile(call, fullgraph=True, backend=made, dynamic=dynamic)
            got = [traced(*tensors) for _ in range(2)]
            self.assertEqual(made.frame_count, 1)
        want = call(*tensors)
        for x in got:
            torch.testing.assert_close(x, want, rtol=0, atol=0)

    def test_decode(self):
        groups, shared = torch.arange(len(LENGTHS) + 1, dtype=torch.int32), torch.zeros(len(LENGTHS), dtype=torch.int32)
        for options in ({}, {"groups": groups, "shared": shared}, {"invariant": True}, {"window": 9, "return_lse": True}):
            with self.subTest(options=list(options)):
                self.check(lambda q: aule.decode(q, *self.caches, (self.lengths - 3).clamp(min=0), page_table=self.table, **options), self.q)
        dense = [torch.zeros(len(LENGTHS), 96, *x.shape[2:]) for x in self.caches]
        self.check(lambda q: aule.decode(q, *dense, self.lengths), self.q, dynamic=True)

    def test_new_rows(self):
        """Rows that a graph writes are those that a call writes."""
        caches = [[x.clone() for x in self.caches] for _ in range(2)]

        def call(q, k, v, *pools):
            return aule.decode(q, *pools, self.lengths, k=k, v=v, page_table=self.table)

        with mock.patch.object(aule._slots, "_functions", SimpleNamespace()):
            got = torch.compile(call, fullgraph=True, backend="aot_eager")(self.q, self.k, self.v, *caches[0])
        torch.testing.assert_close(got, call(self.q, self.k, self.v, *caches[1]), rtol=0, atol=0)
        for x, y in zip(*caches):
            torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)

    def test_axes(self):
        f = aule.compile((ROOT / "attn_scripts/gqa.attn").read_text() + "\n// of this test alone\n", optimize=1)
        q, k, v = (x.transpose(1, 2) for x in (self.q, *self.caches))
        lengths = (self.lengths - 3).clamp(min=0)
        self.check(lambda q: f(q, k, v, axes={"T": aule.paged(self.table, lengths)}), q)
        self.check(lambda q: f.forward(q, k, v, axes={"T": aule.paged(self.table, lengths)}).lse, q)
        pools = [[x.clone() for x in (k, v)] for _ in range(2)]

        def append(k_new, v_new, *pools):
            f.append(k_new, v_new, *pools, axes={"T": aule.paged(self.table, self.lengths)})

        for run, of in ((torch.compile(append, fullgraph=True, backend="aot_eager"), pools[0]), (append, pools[1])):
            run(self.k.transpose(1, 2), self.v.transpose(1, 2), *of)
        for x, y in zip(*pools):
            torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)

    def test_packed(self):
        """Starts are looked at when the graph runs; gradients too."""
        starts, rows = torch.tensor([0, 5, 5, 18], dtype=torch.int32), torch.randn(18, H, D)

        def call(rows, starts):
            return aule.attention_varlen(rows, rows, rows, starts, max_seqlen_q=13, max_seqlen_k=13, causal=True, softcap=7.0)  # what is not said only a call outside a graph reads

        self.check(call, rows, starts)
        with mock.patch.object(aule._plain, "_functions", SimpleNamespace()):
            traced = torch.compile(call, fullgraph=True, backend="aot_eager")
            made = []
            for run in (traced, call):
                x = rows.clone().requires_grad_()
                run(x, starts).square().sum().backward()
                made.append(x.grad)
            torch.testing.assert_close(*made, rtol=1e-5, atol=1e-5)
            with self.assertRaisesRegex(aule.ArgumentError, "decreases at 2: 3 after 5"):
                traced(rows, torch.tensor([0, 5, 3, 18], dtype=torch.int32))
        self.check(lambda q, starts: aule.attention_varlen(q, *self.caches, starts, max_seqlen_q=13, seqused_k=(self.lengths[:3] - 3).clamp(min=0), page_table=self.table[:3], softcap=7.0), rows, starts)


@unittest.skipUnless(torch is not None and DEVICE.startswith("cuda"), "for a GPU: AULE_TEST_DEVICE=cuda")
class Graphs(unittest.TestCase):
    """Steps captured once and replayed over batches that change, from empty to full: each replay as a call of the same, to the bit."""

    SLOTS, ENTRIES, B = 16, 40, 6

    def setUp(self):
        torch.manual_seed(8)
        pages = self.B * self.ENTRIES
        self.caches = [torch.randn(pages, self.SLOTS, HK, 64, device=DEVICE, dtype=torch.bfloat16) for _ in "kv"]
        self.table = torch.zeros(self.B, self.ENTRIES, device=DEVICE, dtype=torch.int32)
        self.lengths = torch.zeros(self.B, device=DEVICE, dtype=torch.int32)

    def shuffle(self, number, rows):
        """Another batch in the same tensors: none, all that there is room for, and what comes; wild entries behind each line."""
        most = self.SLOTS * self.ENTRIES
        lengths = torch.zeros(self.B) if number == 0 else torch.full((self.B,), most) if number == 1 else torch.randint(0, most + 1, (self.B,)) * (torch.rand(self.B) < 0.8)
        table = torch.randperm(self.B * self.ENTRIES).view(self.B, -1).int()
        for b, n in enumerate(lengths.tolist()):
            table[b, -(-int(n) // self.SLOTS) :] = (-1, 2**31 - 1, -(2**31))[b % 3]
        self.lengths.copy_(lengths)
        self.table.copy_(table)
        for x in rows:
            x.copy_(torch.randn(x.shape))

    def replays(self, step, rows, before=lambda: None, count=200):
        step()  # compiles, and makes plans
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o = step()
        for number in range(count):
            self.shuffle(number, rows)
            before()
            kept = [x.clone() for x in self.caches]
            graph.replay()
            made, written = o.clone(), [x.clone() for x in self.caches]
            for x, old in zip(self.caches, kept):
                x.copy_(old)
            torch.testing.assert_close(made, step(), rtol=0, atol=0, equal_nan=True, msg=lambda said: f"replay {number}: {said}")
            for x, after in zip(self.caches, written):
                torch.testing.assert_close(x, after, rtol=0, atol=0)
            if number % 20 == 1:
                yield number, made

    def want(self, q, b):
        """Sequence b in float64: rows [n, H, D] that are its last positions, causal."""
        length = int(self.lengths[b])
        k, v = (x[self.table[b, : -(-length // self.SLOTS)].long()].flatten(0, 1)[:length].double().repeat_interleave(H // HK, 1) for x in self.caches)
        scores = torch.einsum("shd,thd->hst", q.double(), k) * 64**-0.5
        hidden = torch.arange(length, device=DEVICE)[None] > torch.arange(len(q), device=DEVICE)[:, None] + length - len(q)
        return torch.einsum("hst,thd->shd", torch.softmax(scores.masked_fill(hidden, -torch.inf), -1).nan_to_num(), v)

    def near(self, made, want, number):
        torch.testing.assert_close(made.double(), want, rtol=2e-2, atol=2e-2, msg=lambda said: f"replay {number}: {said}")

    def test_decode(self):
        for count in (1, 3):
            q = torch.zeros(self.B, count, H, 64, device=DEVICE, dtype=torch.bfloat16)
            new = [torch.zeros(self.B, count, HK, 64, device=DEVICE, dtype=torch.bfloat16) for _ in "kv"]
            step = lambda: aule.decode(q, *self.caches, self.lengths, k=new[0], v=new[1], page_table=self.table)  # noqa: B023, E731
            for number, made in self.replays(step, [q, *new]):
                for b in range(self.B):
                    self.near(made[b], self.want(q[b], b), number)

    def test_lists_of_a_step(self):
        """New rows, lists of work and two layers that read them in one graph, of as many sequences as have lists: to the bit as layers that make their own."""
        self.B, self.ENTRIES = 9, 72
        self.setUp()
        lists = aule.serving.Step()
        q, new = torch.zeros(self.B, 1, H, 64, device=DEVICE, dtype=torch.bfloat16), [torch.zeros(self.B, 1, HK, 64, device=DEVICE, dtype=torch.bfloat16) for _ in "kv"]

        def layers(schedule):
            rows = {"page_table": self.table, "schedule": schedule}
            first = aule.decode(q, *self.caches, self.lengths, k=new[0], v=new[1], **rows)
            return aule.decode(first, *self.caches, self.lengths, **rows)

        def step():
            lists.begin()
            return layers(lists)

        for _, made in self.replays(step, [q, *new]):
            torch.testing.assert_close(made, layers(None), rtol=0, atol=0, equal_nan=True)

    def test_two_streams(self):
        """Calls on two streams that one graph has beside each other, over the same caches and lists: as one after the other."""
        q = torch.zeros(2, self.B, 1, H, 64, device=DEVICE, dtype=torch.bfloat16)
        side = torch.cuda.Stream()

        def one(x):
            return aule.decode(x, *self.caches, self.lengths, page_table=self.table)

        def step():
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                beside = one(q[1])
            made = one(q[0])
            torch.cuda.current_stream().wait_stream(side)
            return torch.stack([made, beside])

        for number, made in self.replays(step, [q], count=100):
            torch.testing.assert_close(made, torch.stack([one(q[0]), one(q[1])]), rtol=0, atol=0, equal_nan=True)
            for n in range(2):
                for b in range(self.B):
                    self.near(made[n][b], self.want(q[n][b], b), number)

    def test_a_refused_call_between_replays(self):
        """What is refused, of the plan that the graph has and of another, takes nothing from the replays behind it."""
        q = torch.zeros(self.B, 1, H, 64, device=DEVICE, dtype=torch.bfloat16)
        new = [torch.zeros(self.B, 1, HK, 64, device=DEVICE, dtype=torch.bfloat16) for _ in "kv"]
        calls = []

        def step(table=None, x=q):
            return aule.decode(x, *self.caches, self.lengths, k=new[0], v=new[1], page_table=self.table if table is None else table)

        def refused():
            for wrong in ({"x": q[0]}, {"x": q[:, :, :3]}, {"table": self.table[:2]}):
                with self.assertRaises(aule.ArgumentError):
                    step(**wrong)
                calls.append(wrong)

        for number, made in self.replays(step, [q, *new], refused, 40):
            for b in range(self.B):
                self.near(made[b], self.want(q[b], b), number)
        self.assertEqual(len(calls), 3 * 40)

    def test_mixed(self):
        """Packed rows: prompts in pieces beside rows that decode."""
        q = torch.zeros(70, H, 64, device=DEVICE, dtype=torch.bfloat16)
        starts = torch.zeros(self.B + 1, device=DEVICE, dtype=torch.int32)

        def before():
            counts = torch.minimum(torch.tensor([1, 40, 1, 1, 3, 20]), self.lengths.cpu())
            starts.copy_(torch.cat([torch.zeros(1), counts.cumsum(0)]))

        step = lambda: aule.attention_varlen(q, *self.caches, starts, seqused_k=self.lengths, page_table=self.table, causal=True)  # noqa: E731
        for number, made in self.replays(step, [q], before, 100):
            at = starts.tolist()
            for b in range(self.B):
                self.near(made[at[b] : at[b + 1]], self.want(q[at[b] : at[b + 1]], b), number)
            self.assertFalse(made[at[-1] :].any())


if __name__ == "__main__":
    unittest.main()
