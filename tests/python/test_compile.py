"""Scripts compiled in the process: results in every operand type, widths as they come, the cache, errors."""

import os
import pickle
import re
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy as np

import aule
from aule import _cache, _compiler
from support import torch

CAUSAL = """
attention biased {
    q: [B, H, S, D];
    k: [B, Hk, T, D];
    v: [B, Hk, T, E];
    input bias: f32[H, T];
    param scale: f32 = 1 / sqrt(f32(D));
    param window: i32 = 1000000;
    score_mod(score, b, h, i, j) = score * scale + bias[h, j];
    mask(b, h, i, j) = j <= q_pos && q_pos - j < window;
    online softmax;
}
"""


def inputs(seed=0, B=2, H=4, Hk=2, S=37, T=45, D=64, E=64, dtype=np.float32):
    r = np.random.default_rng(seed)
    q, k, v = (r.standard_normal(shape).astype(dtype) for shape in ((B, H, S, D), (B, Hk, T, D), (B, Hk, T, E)))
    return q, k, v, r.standard_normal((H, T)).astype(np.float32)


def expected(q, k, v, bias, window=10**6, scale=None):
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    (_, H, S, D), (_, Hk, T, _) = q.shape, k.shape
    k, v = np.repeat(k, H // Hk, axis=1), np.repeat(v, H // Hk, axis=1)
    scores = np.einsum("bhsd,bhtd->bhst", q, k) * (D**-0.5 if scale is None else scale) + bias[None, :, None, :]
    i, j = np.arange(S)[:, None] + T - S, np.arange(T)[None, :]
    scores = np.where((j <= i) & (i - j < window), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("bhst,bhte->bhse", weights / weights.sum(axis=-1, keepdims=True), v)


TABLE = """
attention looked_up {
    q: [B, H, S, D];
    k: [B, H, T, D];
    v: [B, H, T, E];
    input x: i32[T];
    input table: f32[N] grad;
    score_mod(score) = score + table[x[kv_idx]];
    online softmax;
}
"""


DOUBTFUL = """
attention doubtful {
    q: [B, H, S, D];
    k: [B, H, T, D];
    v: [B, H, T, E];
    param n: i32 = 3;
    score_mod(s) = s * (n / 2);
    mask(b, h, i, j) = j <= i;
    online softmax;
}
"""


class FewQueries(unittest.TestCase):
    """Blocks of as few rows as the queries fill, whatever their number; each is right."""

    def check(self, mask, rows_of):
        text = f"attention plain {{ q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; {mask} online softmax; }}"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plain.so"
            path.write_bytes(_compiler.compiler().run("plain.attn", text.encode(), targets="cpu", dtypes="f32", widths="D=64"))
            f = aule.load(path)
        for S, rows in rows_of.items():
            q, k, v, _ = inputs(S, S=S, T=S + 9)
            o = f(q, k, v)
            plan = list(f._runner._prepared.values())[-1]
            variant = plan._library.plan_variant(plan.plan).contents
            vectors = re.search(r" registers=(\d+) ", variant.schedule.decode())
            lanes = {"x86-64-v3": 8, "aarch64": 4}.get(variant.arch.decode(), 16)
            made = "decode" if variant.schedule.startswith(b"lanes_decode:") else int(vectors[1]) * lanes
            self.assertEqual(made, rows, f"{S} queries")
            scores = np.einsum("bhqd,bhkd->bhqk", q, np.repeat(k, 2, 1), dtype=np.float64)
            if mask:
                scores = np.where(np.arange(S + 9) <= np.arange(S)[:, None] + 9, scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            np.testing.assert_allclose(o, weights @ np.repeat(v, 2, 1), rtol=1e-4, atol=2e-5)

    def test_without_a_mask(self):
        self.check("", {1: "decode", 8: "decode", 9: 16, 16: 16, 17: 16, 32: 16, 33: 64, 64: 64, 128: 64, 129: 256, 300: 256})

    def test_causal(self):
        self.check("mask(b, h, i, j) = j <= q_pos;", {1: "decode", 9: 16, 64: 16, 65: 128, 200: 128})


class Warnings(unittest.TestCase):
    def said(self, *sources):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for source in sources:
                aule.compile(source)
        return [(w.filename, w.lineno, w.category, w.message.code, w.message.column) for w in caught]

    def test_each_place_is_named_once(self):
        places = [("<script>", 7, aule.CompileWarning, "W0301", 24), ("<script>", 8, aule.CompileWarning, "W0401", 29)]
        self.assertEqual(self.said(DOUBTFUL, DOUBTFUL), places)
        self.assertEqual(self.said(DOUBTFUL + "// another", DOUBTFUL + "// a third"), 2 * places)
        self.assertEqual(self.said(CAUSAL), [])

    def test_files_and_kept_artifacts(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.attn")
            path.write_text(DOUBTFUL)
            for _ in range(2):  # the second compiles nothing
                self.assertEqual([place[:2] for place in self.said(path)], [(str(path), 7), (str(path), 8)])
                path.rename(path := Path(folder, "y.attn"))

    def test_filters(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error", aule.CompileWarning)
            with self.assertRaisesRegex(aule.CompileWarning, r"(?s)^W0301: this quotient .*\n *score_mod.*\n *\^~~~~~~\nnote: make an operand f32") as caught:
                aule.compile(DOUBTFUL)
            self.assertEqual((caught.exception.file, caught.exception.line), ("<script>", 7))
            self.assertEqual(str(pickle.loads(pickle.dumps(caught.exception))), str(caught.exception))
            warnings.filterwarnings("ignore", "W0301", aule.CompileWarning)
            with self.assertRaisesRegex(aule.CompileWarning, "^W0401"):
                aule.compile(DOUBTFUL)
            warnings.filterwarnings("ignore", "W0401", aule.CompileWarning)
            self.assertEqual(aule.compile(DOUBTFUL).name, "doubtful")


HELD = """
online held {
    rowscale m = -inf;
    rowscale r = 0.0;
    final lse;
    final top;
    online_fwd(s) {
        let n = max(m, rowmax(s));
        let c = exp(m - n);
        let p = exp(s - n);
        r = r * c + rowsum(p);
        m = n;
        return p, c;
    }
    online_fwd_epilogue(o) { lse = m + log(r); top = m; return o / r; }
    forward(s) = exp(s - lse);
}
attention held_top { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E]; online held; }
"""


class Held(unittest.TestCase):
    """Finals without a gradient: one that is given is refused."""

    def test_a_running_maximum(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            f = aule.compile(HELD)
        self.assertEqual([w.message.code for w in caught], ["W0402"])
        x = [np.ones((1, 1, 2, 16), np.float32)] * 3
        results = f.forward(*x)
        f.backward(results, x[0], dlse=np.ones((1, 1, 2), np.float32))
        with self.assertRaisesRegex(TypeError, r"does not take dtop; gradients of finals are dlse"):
            f.backward(results, x[0], dtop=np.ones((1, 1, 2), np.float32))

    def test_by_autograd(self):
        if torch is None:
            self.skipTest("no torch")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f = aule.compile(HELD)
        q, k, v = (torch.rand(1, 1, 2, 16, requires_grad=True) for _ in range(3))
        results = f.forward(q, k, v)
        (results.o.sum() + results.lse.sum() + results.top.detach().sum()).backward()
        self.assertIsNotNone(q.grad)
        results = f.forward(q, k, v)
        with self.assertRaisesRegex(aule.Error, r"top depends on a running maximum itself .*detach"):
            (results.o.sum() + results.top.sum()).backward()


class Options(unittest.TestCase):
    def test_values_that_there_are_not(self):
        with self.assertRaisesRegex(ValueError, "optimize is 0, 1, 2 or 3, not 9"):
            aule.compile(CAUSAL, optimize=9)
        with self.assertRaisesRegex(ValueError, 'f32 is "exact" or "tf32", not \'fp32\''):
            aule.compile(CAUSAL, f32="fp32")


class Checked(unittest.TestCase):
    def test_an_index_outside_is_an_error_of_forward_and_of_backward(self):
        q, k, v, _ = inputs(H=2, Hk=2, S=5, T=7, D=16, E=16)
        table, x = np.zeros(4, np.float32), np.zeros(7, np.int32)
        f = aule.compile(TABLE, checked=True)
        r = f.forward(q, k, v, x=x, table=table)
        x[3] = 4
        for call in (lambda: f(q, k, v, x=x, table=table), lambda: f.backward(r, r["o"])):
            with self.assertRaisesRegex(aule.ArgumentError, r":8:32: index 4 on axis 0 of 'table' is not in \[0, 4\)"):
                call()
        np.testing.assert_array_equal(aule.compile(TABLE)(q, k, v, x=x, table=table), r["o"])  # clamped


class Tf32(unittest.TestCase):
    def test_it_is_of_float32_where_there_is_a_unit_for_it(self):
        f = aule.compile(TABLE, f32="tf32")
        q, k, v, _ = inputs(H=2, Hk=2, S=5, T=7, D=16, E=16)
        table, x = np.zeros(4, np.float32), np.zeros(7, np.int32)
        with self.assertRaisesRegex(aule.CompileError, "no matrix unit for tf32"):
            f(q, k, v, x=x, table=table)
        halves = [t.astype(np.float16) for t in (q, k, v)]
        np.testing.assert_array_equal(f(*halves, x=x, table=table), aule.compile(TABLE)(*halves, x=x, table=table))
        text = _compiler.emit(TABLE, "tiled-ir", targets="cuda", archs="sm_90", dtypes="f32", widths="D=64", f32="tf32")
        self.assertIn("mma1688tf32", text)
        with self.assertRaisesRegex(aule.CompileError, "expected exact or tf32"):
            _compiler.emit(TABLE, "tiled-ir", f32="fast")


class Shapes(unittest.TestCase):
    PLAIN = "attention plain { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; online softmax; }"
    TABLE = "".join(f"{machine} f32 16 16 lanes_forward: keys=8\n" for machine in ("avx2", "avx512", "avx512bf16", "avx512amx", "neon"))

    def test_a_table_of_the_user_is_asked_first(self):
        how = dict(targets="cpu", archs="x86-64-v3", dtypes="f32", widths="D=16;E=16")
        rule, given = (_compiler.emit(CAUSAL, "tiled-ir", **how, **more) for more in ({}, {"shapes": self.TABLE}))
        self.assertNotRegex(rule, r"lanes_forward: .*keys=8\b")
        self.assertRegex(given, r"lanes_forward: .*keys=8\b")
        self.assertEqual(_compiler.emit(CAUSAL, "tiled-ir", **how, shape="lanes_forward: keys=8").count("keys=8"), given.count("keys=8"))

    def test_as_text_and_as_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "my.shapes")
            path.write_text(self.TABLE)
            q, k, v, _ = inputs(H=2, Hk=2, S=5, T=7, D=16, E=16)
            a, b, c = (aule.compile(self.PLAIN, **how)(q, k, v) for how in ({}, {"shapes": self.TABLE}, {"shapes": path}))
            np.testing.assert_array_equal(b, c)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
            with self.assertRaisesRegex(aule.Error, "nowhere.shapes cannot be read"):
                aule.compile(self.PLAIN, shapes=Path(folder, "nowhere.shapes"))
        with self.assertRaisesRegex(aule.CompileError, "<shapes>:1:"):
            aule.compile(self.PLAIN, shapes="avx2 f32 16 16 lanes_forward: kees=8")

    def test_a_row_that_does_not_do_is_said(self):
        # tiles of more than the 2 MB of a stack, on every processor
        table = self.TABLE.replace("16 16", "1024 1024").replace("keys=8", "registers=64 keys=1024")
        q, k, v, _ = inputs(H=2, Hk=2, S=5, T=7, D=1024, E=1024)
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, XDG_CACHE_HOME=folder):
            with self.assertWarnsRegex(aule.CompileWarning, "W0601: this row does not do for f32 forward of 'plain'") as caught:
                o = aule.compile(self.PLAIN, shapes=table)(q, k, v)
        self.assertEqual((caught.warning.file, caught.warning.line > 0), ("<shapes>", True))
        np.testing.assert_array_equal(o, aule.compile(self.PLAIN)(q, k, v))

    def test_stages_after_a_pass(self):
        how = dict(targets="cuda", archs="sm_90", dtypes="f16", widths="D=64")
        self.assertNotEqual(_compiler.emit(CAUSAL, "tiled-ir", **how), _compiler.emit(CAUSAL, "tiled-ir", after="exponents", **how))
        self.assertIn(".loc", _compiler.emit(CAUSAL, "asm", lines=1, **how))


class WrongArguments(unittest.TestCase):
    """Whatever is given in a wrong form is refused in the words of who gave it, not in those of what it reached."""

    def refused(self, call, error, words, **arguments):
        with self.subTest(arguments), self.assertRaisesRegex(error, words):
            call(**arguments)

    def test_of_prepare(self):
        f = aule.compile(Shapes.PLAIN)
        for name, value, words in (("dtypes", [], "no operand types"), ("dtypes", 3, "operand type 3"), ("widths", [], "no widths"),
                                   ("widths", 2.0, "widths 2.0"), ("widths", True, "widths True"), ("widths", "x", "widths 'x'"),
                                   ("gradients", "x", "gradients is True or False"), ("device", 3, "named by its id")):
            self.refused(f.prepare, TypeError, words, **({"widths": 16} | {name: value}))

    def test_of_stages_and_artifacts(self):
        with self.assertRaisesRegex(ValueError, "no stage 'ptx', there are ast, "):
            _compiler.emit(Shapes.PLAIN, "ptx")
        with self.assertRaisesRegex(aule.Error, "this is empty"):
            aule.load("")
        with self.assertRaisesRegex(TypeError, "named by its id"):
            aule.Attention(3)

    def test_of_options(self):
        q, k, v, _ = inputs(H=2, Hk=2, S=5, T=5, D=16, E=16)
        for name, value, words in (("window", "3", "window is '3'"), ("window", (1, "a"), "window is"), ("window", (None, None), "-1 for no end"),
                                   ("window", True, "window is True"), ("softcap", "x", "softcap must be a number"),
                                   ("scale", [1], "scale must be a number"), ("dropout", "x", "dropout must be a number"),
                                   ("alibi", ["a", "b"], "its elements are"), ("return_lse", "x", "expected True or False"),
                                   ("backend", 3, "named by its id"), ("foo", 1, "unexpected keyword argument 'foo'")):
            self.refused(lambda **given: aule.attention(q, k, v, **given), (TypeError, aule.ArgumentError), words, **{name: value})
        with self.assertRaisesRegex(TypeError, r"attention_script\(\) does not take foo"):
            aule.attention_script(q, k, foo=1)

    def test_conditions_are_told_as_they_were_written(self):
        script = Shapes.PLAIN.replace("online", "param w: i32 = 3;\nrequire w > 2 &&\n  T % 2 == 0; online")
        q, k, v, _ = inputs(H=2, Hk=2, S=5, T=6, D=16, E=16)
        with self.assertRaisesRegex(aule.ArgumentError, r"<script>:2: w > 2 && T % 2 == 0, with w = 1, T = 6$"):
            aule.compile(script)(q, k, v, w=1)


class Compile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.environment = mock.patch.dict(os.environ, XDG_CACHE_HOME=cls.folder.name)
        cls.environment.start()

    @classmethod
    def tearDownClass(cls):
        cls.environment.stop()
        cls.folder.cleanup()

    def test_types_and_widths(self):
        f = aule.compile(CAUSAL)
        self.assertEqual(f.name, "biased")
        for dtype, bound in ((np.float32, 5e-6), (np.float16, 2e-3)):
            for D, E in ((64, 64), (32, 32), (40, 24)):
                q, k, v, bias = inputs(D=D, E=E, dtype=dtype)
                o = f(q, k, v, bias=bias)
                self.assertEqual((o.shape, o.dtype), ((2, 4, 37, E), dtype))
                self.assertLess(np.abs(o - expected(q, k, v, bias)).max(), bound)

    def test_parameters_and_layouts(self):
        f = aule.compile(CAUSAL)
        q, k, v, bias = inputs(1)
        q = np.ascontiguousarray(q.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        o = f(q, k, v, bias=bias[:, ::1], window=7, scale=0.3)
        self.assertLess(np.abs(o - expected(q, k, v, bias, 7, 0.3)).max(), 5e-6)
        results = f.forward(q, k, v, bias=bias)
        self.assertIn("o", results)
        for name, final in results.items():
            self.assertEqual(final.shape[:3], (2, 4, 37), name)

    def test_bfloat16(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not installed")
        q, k, v, bias = inputs(2, dtype=ml_dtypes.bfloat16)
        o = aule.compile(CAUSAL)(q, k, v, bias=bias)
        self.assertEqual(o.dtype, ml_dtypes.bfloat16)
        self.assertLess(np.abs(o.astype(np.float32) - expected(q, k, v, bias)).max(), 2e-2)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self):
        f = aule.compile(CAUSAL)
        q, k, v, bias = (torch.from_numpy(x) for x in inputs(3))
        mask = (torch.arange(45)[None] <= torch.arange(37)[:, None] + 8)
        scores = torch.where(mask, bias[None, :, None, :].float(), -torch.inf).expand(2, -1, 37, -1)
        for dtype, bound in ((torch.float32, 5e-6), (torch.bfloat16, 3e-2), (torch.float16, 4e-3)):
            x = [t.to(dtype) for t in (q, k, v)]
            o = f(*x, bias=bias)
            self.assertEqual(o.dtype, dtype)
            want = torch.nn.functional.scaled_dot_product_attention(
                *(t.float().repeat_interleave(n, 1) for t, n in zip(x, (1, 2, 2))), attn_mask=scores)
            self.assertLess((o.float() - want).abs().max(), bound)

    def test_other_devices(self):
        f = aule.compile(CAUSAL)
        q, k, v, bias = inputs(4)
        for device in aule.devices():
            if device.available:
                self.assertLess(np.abs(f(q, k, v, bias=bias, device=device.id) - expected(q, k, v, bias)).max(), 5e-6, device.id)

    def test_shapes_that_contradict_each_other_are_refused(self):
        f = aule.compile(CAUSAL)
        q, k, v, bias = inputs(5)
        with self.assertRaisesRegex(aule.ArgumentError, "k"):
            f(q, k[..., :32], v, bias=bias)
        with self.assertRaisesRegex(aule.ArgumentError, "q"):
            f(q[0], k, v, bias=bias)

    def test_second_use_compiles_nothing(self):
        q, k, v, bias = inputs(6, D=16, E=16)
        first = aule.compile(CAUSAL)(q, k, v, bias=bias)
        with mock.patch.object(_compiler.Compiler, "run", side_effect=AssertionError("compiled again")):
            np.testing.assert_array_equal(aule.compile(CAUSAL)(q, k, v, bias=bias), first)

    def test_damaged_cache_is_made_again(self):
        script = CAUSAL.replace("biased", "damaged")
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, XDG_CACHE_HOME=folder):
            aule.compile(script)
            for kept in Path(folder, "aule").iterdir():
                kept.write_bytes(kept.read_bytes()[:3000])
            self.assertEqual(aule.compile(script).name, "damaged")

    def test_cache_is_private(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, XDG_CACHE_HOME=folder):
            self.assertEqual(_cache.folder().stat().st_mode & 0o777, 0o700)
            os.chmod(Path(folder, "aule"), 0o777)
            self.assertIsNone(_cache.folder())
            self.assertEqual(aule.compile(CAUSAL.replace("biased", "elsewhere")).name, "elsewhere")
            self.assertEqual(list(Path(folder, "aule").iterdir()), [])

    def test_files(self):
        path = Path(self.folder.name, "x.attn")
        path.write_text(CAUSAL)
        self.assertEqual(aule.compile(path).name, "biased")
        self.assertEqual(aule.compile(str(path)).name, "biased")
        with self.assertRaisesRegex(aule.Error, "nothing.attn cannot be read: No such file") as caught:
            aule.compile("nothing.attn")
        self.assertEqual(caught.exception.status, "file")

    def test_sources_that_are_none(self):
        folder = self.folder.name
        os.mkfifo(Path(folder, "pipe"))
        for source, error, words in (("", aule.Error, "a script is given as a path or as its text; this is empty"),
                                     (" ", aule.Error, "this is empty"),
                                     (None, TypeError, "not as NoneType"), (0, TypeError, "not as int"), (b"x.attn", TypeError, "not as bytes"),
                                     (folder, aule.Error, "folder|directory"),
                                     ("/dev/zero", aule.Error, "a pipe or a device"), (Path(folder, "pipe"), aule.Error, "a pipe or a device"),
                                     ("a" * 5000, aule.Error, "name too long"), ("x\0.attn", aule.Error, "cannot be read"),
                                     ("{ \ud800 }", aule.Error, "none of Unicode's")):
            with self.subTest(source=source), self.assertRaisesRegex(error, words):
                aule.compile(source)

    def test_options_are_checked_at_once(self):
        for options, error, words in (({"archs": "sm_9999"}, aule.CompileError, "'sm_9999'; expected x86-64-v3.*sm_90.*generic"),
                                      ({"archs": ["sm_80", "z80"]}, aule.CompileError, "unknown architecture 'z80'"),
                                      ({"archs": []}, aule.CompileError, "unknown architecture ''; expected x86-64-v3"),
                                      ({"archs": "x86-64-v3,"}, aule.CompileError, "an item is empty"),
                                      ({"archs": [3]}, TypeError, "archs is a name or several"), ({"archs": 3}, TypeError, "archs is"),
                                      ({"attention": "x"}, aule.CompileError, "no attention 'x'"), ({"attention": 3}, TypeError, "not 3"),
                                      ({"optimize": True}, ValueError, "0, 1, 2 or 3"), ({"optimize": "3"}, ValueError, "not '3'"),
                                      ({"deterministic": "no"}, ValueError, "True or False"), ({"checked": 2}, ValueError, "True or False"),
                                      ({"shapes": ""}, aule.Error, "a table of shapes is given"), ({"shapes": 3}, TypeError, "table of shapes"),
                                      ({"shapes": "sm_1 f32 16 16 lanes_forward: keys=8"}, aule.CompileError, "'sm_1' is no machine"),
                                      ({"shapes": "# =\0"}, aule.Error, "zero bytes")):
            with self.subTest(options), self.assertRaisesRegex(error, words):
                aule.compile(CAUSAL, **options)

    def test_errors_show_all_diagnostics(self):
        script = CAUSAL.replace("bias[h, j]", "bais[h, j]").replace("q_pos - j", "q_pos - keys")
        with self.assertRaises(aule.CompileError) as caught:
            aule.compile(script)
        message = str(caught.exception)
        self.assertIn("bais", message)
        self.assertIn("keys", message)
        self.assertIn("<script>:9:", message)
        with self.assertRaises(aule.CompileError):
            aule.compile(CAUSAL, archs="z80")

    def test_stages(self):
        self.assertIn("__kernel", _compiler.emit(CAUSAL, "opencl-c", targets="opencl", dtypes="f32", widths="D=16;E=16"))
        self.assertIn("biased", _compiler.emit(CAUSAL, "attention-ir"))


if __name__ == "__main__":
    unittest.main()
