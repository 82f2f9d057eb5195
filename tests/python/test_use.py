"""Artifacts of several layouts: aule.load, and aule.serving.use, by which calls take their kernels and compile none."""
import os
import tempfile
import unittest
from unittest import mock

import numpy

import aule
import aule.serving
from aule import _used

SCRIPT = """attention small {
    q: [B, H, S, D];
    k: [B, Hk, T, D];
    v: [B, Hk, T, D];
    score_mod(score) = score * rsqrt(D);
    mask(b, h, i, j) = j <= q_pos;
    online softmax;
}
"""


def compiled(folder, text, widths, storage=None, layout=None):
    """As `aulec x.attn --serve` makes it, or with --layout."""
    handle, made = tempfile.mkstemp(".so", dir=folder)  # another one each time: what is loaded must not change
    how = {"layout": layout} if layout else {"serve": 1}
    with os.fdopen(handle, "wb") as file:
        file.write(aule._compiler.compiler().run("x.attn", text.encode(), targets="cpu", dtypes="f32", optimize=1, widths=widths, storage=storage, **how))
    return made


def rows(r, *shape):
    return r.standard_normal(shape).astype(numpy.float32)


def formula(q, k, v, length):
    """A sequence's [S, H, D] over [T, Hk, D], in double precision."""
    S, H, D = q.shape
    k, v = (x[:length].astype(float).repeat(H // x.shape[1], 1) for x in (k, v))
    scores = numpy.einsum("ihd,jhd->hij", q.astype(float), k) * D**-0.5
    scores = numpy.where(numpy.arange(length)[None] <= numpy.arange(S)[:, None] + length - S, scores, -numpy.inf)
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return numpy.einsum("hij,jhd->ihd", weights / weights.sum(-1, keepdims=True), v)


class Case:
    """Three sequences over pages of 7 slots."""

    def __init__(self):
        r = numpy.random.default_rng(3)
        self.k, self.v = (rows(r, 6, 7, 2, 16) for _ in "kv")
        self.table = numpy.array([[3, 0, -1], [5, -1, -1], [1, 2, 4]], numpy.int32)
        self.lengths = numpy.array([8, 7, 20], numpy.int32)
        self.starts = numpy.array([0, 5, 6, 7], numpy.int32)
        self.q = rows(r, 7, 6, 16)

    def of(self, b):
        pages = self.table[b, : -(-self.lengths[b] // 7)]
        return (x[pages].reshape(-1, 2, 16) for x in (self.k, self.v))

    def want(self):
        return numpy.concatenate([formula(self.q[a:z], *self.of(b), self.lengths[b]) for b, (a, z) in enumerate(zip(self.starts, self.starts[1:]))])


class Loads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = compiled(cls.folder.name, SCRIPT, "D=16")
        cls.f = aule.load(cls.path)
        cls.case = Case()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def near(self, found, want):
        numpy.testing.assert_allclose(found, want, atol=2e-6)

    def test_axes_choose(self):
        c = self.case
        keys = {"T": aule.paged(c.table, c.lengths)}
        k, v = c.k.swapaxes(1, 2), c.v.swapaxes(1, 2)
        for starts in (aule.packed(c.starts), aule.packed(c.starts, most=5)):
            o = self.f(c.q.swapaxes(0, 1)[None], k, v, axes={"S": starts, **keys})
            self.near(o[0].swapaxes(0, 1), c.want())
        q = c.q[[4, 5, 6]][:, None].swapaxes(1, 2)  # the last row of each
        self.near(self.f(q, k, v, axes=keys)[:, :, 0], c.want()[[4, 5, 6]])
        dense_k, dense_v = (x[:8][None].swapaxes(1, 2) for x in c.of(0))
        self.near(self.f(c.q[:5][None].swapaxes(1, 2), dense_k, dense_v)[0].swapaxes(0, 1), c.want()[:5])
        o = self.f(c.q[:5][None].swapaxes(1, 2), *(x[None].swapaxes(1, 2) for x in c.of(0)), axes={"T": aule.padded(c.lengths[:1])})
        self.near(o[0].swapaxes(0, 1), c.want()[:5])

    def test_appends(self):
        c = Case()
        k, v = (numpy.full_like(x, numpy.nan).swapaxes(1, 2) for x in (c.k, c.v))
        axes = {"S": aule.packed(numpy.array([0, 8, 15, 35], numpy.int32)), "T": aule.paged(c.table, c.lengths)}
        new = [numpy.concatenate([list(c.of(b))[n][: c.lengths[b]] for b in range(3)]).swapaxes(0, 1)[None] for n in range(2)]
        self.f.append(*new, k, v, axes=axes)
        o = self.f(c.q.swapaxes(0, 1)[None], k, v, axes={"S": aule.packed(c.starts), "T": axes["T"]})
        self.near(o[0].swapaxes(0, 1), c.want())

    def test_what_is_not_there_is_named(self):
        c = self.case
        with self.assertRaisesRegex(aule.Error, r"without --layout T=paged:groups; it has T=padded, T=paged, S=packed:most,T=paged, S=packed:most,T=packed:most"):
            groups = {"groups": numpy.array([0, 3], numpy.int32), "shared": numpy.zeros(1, numpy.int32)}
            self.f(c.q[:3][:, None].swapaxes(1, 2), c.k.swapaxes(1, 2), c.v.swapaxes(1, 2), axes={"T": aule.paged(c.table, c.lengths, **groups)})
        with self.assertRaisesRegex(aule.Error, "there is no attention 'small@T=no', the artifact has small, small@T=padded"):
            aule.load(self.path, "small@T=no")
        paged = aule.load(self.path, "small@T=paged")
        self.assertIn("T_table", str(paged))
        with self.assertRaisesRegex(aule.Error, "small@T=paged: the artifact was compiled without --layout T=padded"):
            paged(c.q[:3][:, None].swapaxes(1, 2), c.k[:3].swapaxes(1, 2), c.v[:3].swapaxes(1, 2), axes={"T": aule.padded(c.lengths)})

    def test_layouts_of_which_none_is_dense(self):
        c = self.case
        keys = {"T": aule.paged(c.table, c.lengths)}
        k, v = c.k.swapaxes(1, 2), c.v.swapaxes(1, 2)
        path = compiled(self.folder.name, SCRIPT, "D=16", layout="T=paged;S=packed:most,T=paged")
        for name in (None, "small"):
            f = aule.load(path, name)
            self.near(f(c.q.swapaxes(0, 1)[None], k, v, axes={"S": aule.packed(c.starts), **keys})[0].swapaxes(0, 1), c.want())
            self.near(f(c.q[[4, 5, 6]][:, None].swapaxes(1, 2), k, v, axes=keys)[:, :, 0], c.want()[[4, 5, 6]])
            with self.assertRaisesRegex(aule.Error, "without --layout T=dense; it has T=paged, S=packed:most,T=paged"):
                f(c.q[:5][None].swapaxes(1, 2), k[:1], v[:1], axes={"T": aule.dense()})
        with self.assertRaisesRegex(aule.Error, "there is no attention 'large'"):
            aule.load(path, "large")

    def test_modified_rows_are_another_layout(self):
        """Their tensors are those of rows as they come: the name of the attention tells."""
        c = self.case
        k, v = c.k.swapaxes(1, 2), c.v.swapaxes(1, 2)
        q = c.q[[4, 5, 6]][:, None].swapaxes(1, 2)
        twice = SCRIPT.replace("score_mod", "k_mod(x) = 2.0 * x;\n    score_mod", 1)
        both = aule.load(compiled(self.folder.name, twice, "D=16", layout="T=dense;T=paged;T=paged:modified"))
        plain = both(q, k, v, axes={"T": aule.paged(c.table, c.lengths)})
        self.near(both(q, 2 * k, v, axes={"T": aule.paged(c.table, c.lengths, modified=True)}), plain)
        one = aule.load(compiled(self.folder.name, twice, "D=16", layout="T=dense;T=paged"), "small@T=paged")
        self.near(one(q, k, v, axes={"T": aule.paged(c.table, c.lengths)}), plain)
        for f, axis in ((one, aule.paged(c.table, c.lengths, modified=True)), (both, aule.dense(modified=True))):
            with self.assertRaisesRegex(aule.Error, "without --layout T=.*:modified"):
                f(q, k[:3], v[:3], axes={"T": axis})
        # Where there is one layout no name tells it, but k does
        for how in (False, True):
            f = aule.load(compiled(self.folder.name, twice, "D=16", layout="T=paged" + ":modified" * how))
            self.near(f(q, 2 * k if how else k, v, axes={"T": aule.paged(c.table, c.lengths, modified=how)}), plain)
            with self.assertRaisesRegex(aule.Error, "small: the artifact was compiled without --layout T=paged" + ":modified" * (not how)):
                f(q, k, v, axes={"T": aule.paged(c.table, c.lengths, modified=not how)})


class Uses(unittest.TestCase):
    """None of these calls compiles a kernel."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(_used._used.clear)
        self.made = []
        real = aule._compiler.Compiled._make

        def make(f, options):
            self.made.append(options)
            return real(f, options)

        patch = mock.patch.object(aule._compiler.Compiled, "_make", make)
        patch.start()
        self.addCleanup(patch.stop)

    def kernels(self):
        """What was compiled beside signatures."""
        return [options for options in self.made if options["targets"] != "opencl"]

    def use(self, text, widths, storage=None):
        return aule.serving.use(compiled(self.folder.name, text, widths, storage))

    def decodes(self, c, **more):
        q = c.q[[4, 5, 6]][:, None]
        return aule.decode(q, c.k, c.v, c.lengths, page_table=c.table, **more)[:, 0]

    def test_options(self):
        c = Case()
        # As a server's operator has it: text that a shell wrote, with a line's end more
        self.use(aule.attention_script(c.q[None].swapaxes(1, 2), c.k.swapaxes(1, 2), causal=True) + "\n", "D=16;E=16")
        self.made.clear()
        numpy.testing.assert_allclose(self.decodes(c), c.want()[[4, 5, 6]], atol=2e-6)
        new = {"k": numpy.stack([list(c.of(b))[0][n - 1 : n] for b, n in enumerate(c.lengths)]), "v": numpy.stack([list(c.of(b))[1][n - 1 : n] for b, n in enumerate(c.lengths)])}
        for name in "kv":
            for b, n in enumerate(c.lengths):
                getattr(c, name)[c.table[b, (n - 1) // 7], (n - 1) % 7] = numpy.nan
        numpy.testing.assert_allclose(self.decodes(c, **new), c.want()[[4, 5, 6]], atol=2e-6)
        for most in (None, 5):
            o = aule.attention_varlen(c.q, c.k, c.v, c.starts, max_seqlen_q=most, seqused_k=c.lengths, page_table=c.table, causal=True)
            numpy.testing.assert_allclose(o, c.want(), atol=2e-6)
        # Calls whose kernels have a backward pass where they are compiled: padded rows of a cache, packed rows, and dense ones
        q, n = rows(numpy.random.default_rng(4), 2, 6, 16), int(c.lengths[2])
        k, v = (rows(numpy.random.default_rng(5), 2, n, 2, 16) for _ in "kv")
        caches = [numpy.concatenate([x, numpy.full_like(x[:, :5], numpy.nan)], 1) for x in (k, v)]
        o = aule.decode(q[:, None], *caches, numpy.full(2, n, numpy.int32))[:, 0]
        dense = aule.attention(q[:, :, None], k.swapaxes(1, 2), v.swapaxes(1, 2), causal=True)
        numpy.testing.assert_allclose(o, dense[:, :, 0], atol=2e-6)
        starts = numpy.array([0, 1, 2], numpy.int32), numpy.array([0, n, 2 * n], numpy.int32)
        for most in ((None, None), (1, n)):
            numpy.testing.assert_allclose(aule.attention_varlen(q, k.reshape(-1, 2, 16), v.reshape(-1, 2, 16), *starts, *most, causal=True), o, atol=2e-6)
        self.assertEqual(self.kernels(), [])
        self.decodes(c, softcap=20.0)  # another script
        self.assertEqual(len(self.kernels()), 1)

    def test_storage_and_types(self):
        c = Case()
        self.use(SCRIPT, "D=16", "i8:token")
        f = aule.compile(SCRIPT, storage="i8:token")
        g = aule.compile(SCRIPT, storage="i8")
        self.made.clear()
        k, v = ((100 * x).clip(-127, 127).astype(numpy.int8).swapaxes(1, 2) for x in (c.k, c.v))
        q, axes = c.q[:3][:, None].swapaxes(1, 2), {"T": aule.paged(c.table, c.lengths)}
        token, head = numpy.full((6, 2, 7, 1), 0.01, numpy.float32), numpy.full((1, 2, 1, 1), 0.01, numpy.float32)
        o = f(q, k, v, k_scale=token, v_scale=token, axes=axes)
        self.assertEqual(self.kernels(), [])
        numpy.testing.assert_allclose(g(q, k, v, k_scale=head, v_scale=head, axes=axes), o, atol=1e-5)  # of other scales
        self.assertEqual(len(self.kernels()), 1)
        f(q.astype(numpy.float16), k, v, k_scale=token, v_scale=token, axes=axes)
        self.assertEqual(len(self.kernels()), 2)
        h = aule.compile(SCRIPT, optimize=0)
        h(q, k.astype(numpy.float32), v.astype(numpy.float32), axes=axes)  # told otherwise
        self.assertEqual(len(self.kernels()), 3)

    def test_refusals(self):
        with self.assertRaisesRegex(aule.Error, "this is empty"):
            aule.serving.use("")
        with self.assertRaisesRegex(aule.Error, "nowhere.so"):
            aule.serving.use(os.path.join(self.folder.name, "nowhere.so"))
        names = self.use(SCRIPT, "D=16")
        self.assertEqual(names, ["small", "small@T=padded", "small@T=paged", "small@S=packed:most,T=paged", "small@S=packed:most,T=packed:most"])


if __name__ == "__main__":
    unittest.main()
