"""Calls that are wrong over caches and layouts: each is refused with its name, and nothing is read or written outside of the tensors, which end at pages that
nobody may touch."""

from __future__ import annotations

import ctypes
import re
import unittest

import numpy as np

import aule
from aule.serving import Cache, Pages
from support import ROOT

GQA = ROOT / "attn_scripts/gqa.attn"
LATENT = "attention latent { q: [B, H, S, D]; k: [B, Hk, T, D]; v = k[.., 0:16]; score_mod(s) = s * rsqrt(D); online softmax; }"
BIAS = "attention biased { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; input x: f32[B, T]; score_mod(s, b, h, i, j) = s + x[b, j]; online softmax; }"
# A rotation reads the partner of a channel by an index of its own
ROTATED = """attention rotated { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E];
    q_mod(x, b, h, i, c) = rope(x, q_pos, 10000.0); k_mod(x, b, g, j, c) = rope(x, j, 10000.0); score_mod(s) = s; online softmax; }"""
OPENCL = [d.id for d in aule.devices() if d.backend == "opencl" and d.available]


class Guarded:
    """Arrays that end where a page begins that cannot be read: what reads or writes behind them ends the process."""

    def __init__(self) -> None:
        self._c = ctypes.CDLL(None)
        self._c.mmap.restype = ctypes.c_void_p
        self._c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        self._c.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._c.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._maps: list[tuple[int, int]] = []

    def array(self, shape, dtype=np.float32):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        room = -(-size // 4096) * 4096
        at = self._c.mmap(None, room + 8192, 0, 0x22, -1, 0)
        self._maps.append((at, room + 8192))
        if room and self._c.mprotect(at + 4096, room, 3):
            raise OSError("mprotect")
        memory = (ctypes.c_uint8 * size).from_address(at + 4096 + room - size)
        return np.ndarray(shape, dtype, memory)

    def free(self) -> None:
        for at, size in self._maps:
            self._c.munmap(at, size)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Lists(unittest.TestCase):
    def test_slots_beside_some_lists(self):
        """By slots lists are not read, whichever were passed: wrong ones neither, on no device."""
        new, slots = random(2, 2, 1, 16), np.array([[7], [9]])
        lengths, rows = np.array([2**31 - 1, -5], np.int32), np.array([-(2**31), 99], np.int32)
        for layout, given in (
            ("T=paged", {"T_lengths": lengths}), ("T=paged", {"T_table": np.full((2, 2), 77, np.int32)}),
            ("T=padded:rows", {"T_lengths": lengths}), ("T=padded:rows", {"T_rows": rows}), ("S=packed,T=paged", {"S_starts": np.array([5, 3, 9], np.int32)}),
        ):
            f = aule.compile(GQA, layout=layout, optimize=0)
            packed = "S=packed" in layout
            for device in ["cpu", *OPENCL[:1]]:
                with self.subTest(layout, given=list(given), device=device):
                    k, v = np.zeros((5, 2, 4, 16), np.float32), np.zeros((5, 2, 4, 16), np.float32)
                    rows_of = new.swapaxes(0, 2) if packed else new
                    f.append(rows_of, rows_of, k, v, slots=slots.reshape(1, 2) if packed else slots, device=device, **given)
                    wanted = np.zeros_like(k)
                    wanted[1, :, 3], wanted[2, :, 1] = new[:, :, 0]
                    np.testing.assert_array_equal(k, wanted)
                    np.testing.assert_array_equal(v, wanted)

    def test_no_rows(self):
        """Packed rows of which there are none, whose lists have blocks all the same."""
        for layout, S, T in (("S=packed,T=packed", 3, 0), ("S=packed,T=packed", 0, 3), ("S=packed,T=packed", 0, 0)):
            with self.subTest(layout, S=S, T=T):
                guarded = Guarded()
                f = aule.compile(ROTATED, layout=layout, optimize=0)
                q, k, v = (guarded.array((1, 2, n, 16)) for n in (S, T, T))
                for x in (q, k, v):
                    x[...] = 1
                r = f.forward(q, k, v, S_starts=np.array([0, S, S], np.int32), T_starts=np.array([0, 0, T], np.int32))
                self.assertEqual(r.o.shape, (1, 2, S, 16))
                self.assertFalse(r.o.any())
                gradients = f.backward(r, np.ones_like(r.o))
                self.assertFalse(any(x.any() for x in gradients.values()))
                guarded.free()

    def test_nothing_that_can_be_read(self):
        """Kernels clamp numbers of lists to what there is: one page, slot and position at least."""
        none = np.zeros((1, 1), np.int32)
        q = random(1, 2, 1, 16)
        for pages, slots, message in ((0, 16, "k has a page at least: 0 < T_pages, with T_pages = 0"), (2, 0, "k has a slot a page at least: 0 < T_slots, with T_slots = 0")):
            f = aule.compile(GQA, layout="T=paged", optimize=0)
            k = np.zeros((pages, 2, slots, 16), np.float32)
            for device in ["cpu", *OPENCL[:1]]:
                with self.subTest(message, device=device), self.assertRaisesRegex(aule.ArgumentError, re.escape(message)):
                    f(q, k, k, T_table=none, T_lengths=none[0], device=device)
        f = aule.compile(BIAS, layout="T=paged:positions", optimize=0)
        k = random(2, 2, 4, 16)
        with self.assertRaisesRegex(aule.ArgumentError, "x has a position at least: 0 < T, with T = 0"):
            f(q, k, k, x=np.zeros((1, 0), np.float32), T_table=none, T_lengths=none[0], T_first=none[0], T_whole=none[0])

    def test_types_of_lists(self):
        """No script declares them, so it is not asked to declare them otherwise."""
        k, q = random(3, 2, 4, 16), random(1, 4, 1, 16)
        f = aule.compile(GQA, layout="T=paged", optimize=0)
        with self.assertRaises(aule.ArgumentError) as raised:
            f(q, k, k, T_table=np.zeros((1, 1), np.int64), T_lengths=np.zeros(1, np.int32))
        self.assertEqual(str(raised.exception), "gqa: T_table is int64, expected int32: pass T_table.astype('int32')")


class Tensors(unittest.TestCase):
    def test_read_only_outputs(self):
        f = aule.compile(GQA, optimize=0)
        q, k = random(1, 4, 3, 16), random(1, 2, 3, 16)
        o = np.zeros((1, 4, 3, 16), np.float32)
        o.flags.writeable = False
        with self.assertRaisesRegex(aule.ArgumentError, "o is read-only, and forward writes it"):
            f(q, k, k, out=o)
        self.assertFalse(o.any())
        r = f.forward(q, k, k)
        with self.assertRaisesRegex(aule.ArgumentError, "dq is read-only, and backward writes it"):
            f.backward(r, q, out={"dq": o})

    def test_masked_arrays(self):
        f = aule.compile(GQA, optimize=0)
        q, k = random(1, 4, 3, 16), random(1, 2, 3, 16)
        with self.assertRaisesRegex(aule.ArgumentError, "k is a masked array: pass k.filled"):
            f(q, np.ma.masked_array(k, mask=k > 0), k)

    def test_scales(self):
        r = np.random.default_rng(0)
        codes, q = r.integers(-9, 9, (3, 4, 2, 16)).astype(np.int8), random(1, 1, 4, 16)
        lengths, table = np.array([5], np.int32), np.array([[2, 0]], np.int32)
        want = aule.decode(q, codes, codes, lengths, page_table=table, k_scale=np.array([0.1, 0.2], np.float32), v_scale=0.5)
        np.testing.assert_array_equal(want, aule.decode(q, codes, codes, lengths, page_table=table, k_scale=[0.1, 0.2], v_scale=[0.5, 0.5]))
        for wrong, message in (("x", "k_scale must be a number, it is str"), (1j, "k_scale must be a number, it is complex"), (10**400, "its elements are object")):
            with self.subTest(message), self.assertRaisesRegex(TypeError, message):
                aule.decode(q, codes, codes, lengths, page_table=table, k_scale=wrong, v_scale=0.5)
        for wrong in (float("nan"), float("inf"), (1, float("nan"))):
            with self.subTest(window=wrong), self.assertRaisesRegex(aule.ArgumentError, "window is .*expected a whole number"):
                aule.attention(q, q, q, window=wrong)

    def test_too_large_a_workspace(self):
        f = aule.compile(GQA, layout="T=paged:csr", optimize=0)
        k, q = random(2, 2, 4, 16), random(1, 4, 1, 16)
        table = np.lib.stride_tricks.as_strided(np.zeros(1, np.int32), (2**29 - 1,), (0,))  # one number, so many times
        lists = {"T_table": table, "T_table_starts": np.array([0, 1], np.int32), "T_lengths": np.array([3], np.int32)}
        want = f(q, k, k, **lists, T_most=3)
        try:
            np.testing.assert_allclose(f(q, k, k, **lists, T_most=2**31 - 4), want, rtol=1e-5)
        except aule.Error as error:
            self.assertEqual(error.status, "memory")


class Words(unittest.TestCase):
    def test_words(self):
        for options, message in (
            ({"layout": "T=paged\0:rows"}, r"layout is 'T=paged\x00:rows': a zero byte is none of its characters"),
            ({"attention": "gqa\0x"}, "attention is 'gqa\\x00x': a zero byte"),
            ({"layout": "T=paged:rows:csr:rows"}, "--layout T: `rows` is there twice"),
        ):
            with self.subTest(message), self.assertRaisesRegex(aule.CompileError, re.escape(message)):
                aule.compile(GQA, **options)
        with self.assertRaisesRegex(aule.CompileError, "v: values are channels of the keys and are stored as they are"):
            aule.compile(LATENT, storage="k=i8,v=i8:token")


class Serving(unittest.TestCase):
    def test_what_is_refused_changes_nothing(self):
        pages = Pages(8, 4)
        row = pages.add()
        pages.extend(row, 10)
        have = pages.pages_of(row)
        for act in (lambda: pages.share([have[0], 99]), lambda: pages.release([have[0], 99]), lambda: pages.release([have[1], have[1]]), lambda: pages.add([have[0], 7], 8)):
            with self.assertRaisesRegex(aule.ArgumentError, "is not in use, of 8 pages"):
                act()
            self.assertEqual(([pages.users(page) for page in range(8)], pages.available), ([1, 1, 1, 0, 0, 0, 0, 0], 5))
        self.assertEqual((pages.users(-8), pages.users(8)), (0, 0))

    def test_caches(self):
        def cache(**more):
            return Cache(1, 4, 4, 2, 8, "float32", **more)

        for more, error, message in (
            ({"scales": 1}, aule.ArgumentError, "storage is None, so that k has no scales to be given, and was given 1"),
            ({"scales": (1, 2), "storage": "k=i8"}, aule.ArgumentError, "so that v has no scales to be given, and was given 2"),
            ({"scales": (1, 2), "storage": "i8:token"}, aule.ArgumentError, "so that k has no scales"),
            ({"scales": (1, 2, 3), "storage": "i8"}, aule.ArgumentError, "expected (of keys, of values)"),
            ({"scales": (1, float("nan")), "storage": "i8"}, aule.ArgumentError, "scales of v are nan, expected finite numbers above 0"),
            ({"storage": "k=i8,k=e4m3"}, aule.ArgumentError, "storage is 'k=i8,k=e4m3', expected"),
            ({"storage": 5}, TypeError, "not 5"),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, re.escape(message)):
                cache(**more)
        self.assertIsNone(cache(storage="k=i8", scales=0.5).v_scale[0])
        with self.assertRaisesRegex(aule.ArgumentError, "layers is 0, expected a whole number, 1 at least"):
            Cache(0, 4, 4, 2, 8, "float32")
        c = cache()
        for pair in ((-1, 0), (0, 4)):
            with self.assertRaisesRegex(aule.ArgumentError, "there is no page"):
                c.copy([pair])
        rows = random(2, 2, 8)
        with self.assertRaisesRegex(aule.ArgumentError, "slots is a list, expected a tensor of int64"):
            c.append(0, rows, rows, [0, 1])
        with self.assertRaisesRegex(aule.ArgumentError, "slots is a ndarray, expected a tensor of int64 with one axis"):
            c.append(0, rows, rows, np.zeros((1, 2), np.int64))
