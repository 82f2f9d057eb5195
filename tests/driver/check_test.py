"""The command line `aule check`: scripts that are right pass on the processor, scripts that are wrong are told what and by how much.
Standard library only.

    check_test.py AULE LIBRARY_FOLDER SOURCE [TEST...]

Exit statuses of aule: 0 all holds, 1 something does not, 2 wrong use, 3 a file cannot be read or written.
"""
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

AULE, SOURCE = os.path.abspath(sys.argv[1]), Path(sys.argv[3]).resolve()
EXAMPLES, SCRIPTS = SOURCE / "tests" / "front" / "examples", SOURCE / "attn_scripts"
ENVIRONMENT = os.environ | {"AULE_LIBRARY_PATH": os.path.abspath(sys.argv[2])}
RECURRENCES = {"gated_delta", "gated_delta_net", "gla", "hgrn2", "kimi_delta", "mamba2", "simple_gla"}
CUTS, FORGETS, GRADIENTS = "cut anywhere, states carried", "a decay of 0 forgets", "gradients of tensors and first states"
LAWS = {"the normal form, beside what the slots say", "chunks of 1, 16 and 64 tokens", "chunks in f32", CUTS, FORGETS, GRADIENTS}
# Laws that cannot be tried: no token's decay of 0 is all; differences do not know stop_grad.
UNTRIED = dict.fromkeys(RECURRENCES, set()) | dict.fromkeys(
    ("delta_rule", "lightning", "linear_attention", "retention_linear", "retention_recurrent", "rwkv7"), {FORGETS}) | {"retnet": {FORGETS, GRADIENTS}}
MOST_SECONDS = 10  # of the processor, for one script

# Softmax written out in the language with one fault each: what is exchanged for what; the clause, and what is said of it.
SPELLED_OUT = EXAMPLES / "softmax_spelled_out.attn"
FAULTS = {
    "a sum that is not rescaled": (
        "r = r * scale + rowsum(p);", "r = r + rowsum(p);", "online_fwd",
        r"row scale 'r' is 2\.7\d+, expected 1\.7\d+",
        "r = r * exp(state.m - max(state.m, rowmax($score))) + rowsum(..), found state.r + rowsum(..)"),
    "an output that is not rescaled": (
        "return p, scale;", "return p, 1.0;", "online_fwd",
        r"the output is 1\.1\d+, expected 0\.9\d+",
        "the factor of the output so far is exp(state.m - max(state.m, rowmax($score))), found 1.0"),
    "parts joined without rescaling": (
        "r = a.r * exp(a.m - top) + b.r", "r = a.r + b.r", "combine",
        r"joined by combine: row scale 'r' is 2\.7\d+, expected 1\.7\d+",
        "r = state.r * exp(state.m - max(state.m, other.m)) + other.r * exp(other.m - max(state.m, other.m))"),
    "weights that are others": (
        "exp(score - lse - rest);", "exp(score - 2.0 * lse - rest);", "forward",
        r"the weights make 0\.02\d+ of a row, online_fwd and the epilogue 0\.2\d+",
        "exp($score - final.lse)"),
    "half of a derivative": (
        "p * (dp - rowsum(dp * p));", "p * dp;", "backward",
        r"backward gives 0\.1\d+ for a pair with dp = 0\.9\d+ and p = 0\.1\d+, the derivative is 0\.1\d+",
        "exp($score - final.lse) * ($dp + adjoint.lse)"),
}

LSE_ALONE = SOURCE / "tests" / "exec" / "scripts" / "lse_alone.attn"

BIAS_BY_POSITION = """attention a {
    q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E];
    input bias: f32[B, T] grad;
    score_mod(s, b, h, i, j) = s * rsqrt(D) - 0.5 * f32(abs(i - j)) + bias[b, j];
    online softmax;
}
"""

OUTSIDE = """attention a {
    q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E];
    input table: f32[W];
    score_mod(s) = s + table[q_idx - kv_idx];
    online softmax;
}
"""


def check(script, *options):
    return subprocess.run([AULE, "check", str(script), *map(str, options)], capture_output=True, text=True, timeout=240, env=ENVIRONMENT)


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def written(self, text):
        path = self.folder / "x.attn"
        path.write_text(text)
        return path

    def passes(self, script, *options, dtypes=("f32", "f16", "bf16")):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = check(script, "--backend", "cpu", *options)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("error", done.stderr)
        self.assertIn("ok   tiles of keys, forward, backward, combine\n", done.stdout)
        self.assertRegex(done.stdout, r"ok   gradients, beside central differences|stop_grad, which differences do not know")
        for dtype in dtypes:
            self.assertRegex(done.stdout, rf"cpu +{dtype} +o \S+ .*dq \S+")
        self.assertNotIn("(!)", done.stdout)
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, MOST_SECONDS)
        return done.stdout


    def recurs(self, script, *options, tried=LAWS):
        """A recurrence is what it says, and its kernels with it; laws that are not tried are said to be so."""
        done = check(script, "--backend", "cpu", *options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("error", done.stderr)
        for dtype in ("f32", "f16", "bf16"):
            self.assertRegex(done.stdout, rf"(?m)^  cpu +{dtype} +o [^!]* state_out [^!]* dq [^!]* dk [^!]* dv [^!]* dstate_in [^!]*$")
        for law in LAWS:
            self.assertRegex(done.stdout, rf"{'ok  ' if law in tried else '--  '} {law}")
        return done.stdout


RECURRENCE = """attention a {{
    q: [B, H, T, K]; k: [B, H, T, K]; v: [B, H, T, V];
    input gate: f32[B, H, T] grad;
    linear {{ {} }}
}}
"""


class Recurrences(Case):
    def test_examples(self):
        said = self.recurs(EXAMPLES / "gated_delta_net.attn")
        self.assertIn("a recurrence with a decay a token, feedback by the key (erase)", said)
        self.assertIn("its logarithm: -exp(A_log{h}) * softplus(a{b, h, t} + dt_bias{h}), proved at most 0", said)
        self.assertIn("proved at most 0 and at least -0.03175", self.recurs(EXAMPLES / "retention_linear.attn", tried=LAWS - {FORGETS}))

    def test_what_cannot_be_tried_is_said(self):
        path = self.written(RECURRENCE.format("decay = sigmoid(gate) * f32(1 + t % 2) / 2.0;"))
        self.assertIn("not tried, the script reads positions", self.recurs(path, tried=LAWS - {CUTS}))
        path = self.written(RECURRENCE.format("decay = sigmoid(gate); lowrank = (k * 0.1, k);"))
        self.assertIn("not tried, lowrank reads what the decay has not touched", self.recurs(path, tried=LAWS - {FORGETS}))
        path = self.written(RECURRENCE.format("decay = sigmoid(stop_grad(gate));"))
        self.assertIn("not tried, stop_grad", self.recurs(path, tried=LAWS - {GRADIENTS}))
        path = self.written(RECURRENCE.format("decay = gate;"))
        self.assertIn("the output is not finite: is a decay below 0", check(path, "--backend", "cpu").stdout)

    def test_a_gate_of_the_token_itself_is_cut_with_it(self):
        script = RECURRENCE.format("decay = sigmoid(gate);").replace("[B, H, T] grad;", "[B, H, T] grad; input g: f32[B, H, T, V] grad;")
        path = self.written(script.replace("}\n}", "}\n    out_mod(o, b, h, n, c) = o * sigmoid(g[b, h, n, c]);\n}"))
        self.assertIn("out_mod", path.read_text())
        self.recurs(path)
        path = self.written(path.read_text().replace("g[b, h, n, c])", "g[b, h, n, c]) / f32(n + 1)"))
        self.assertIn("not tried, the script reads positions", self.recurs(path, tried=LAWS - {CUTS}))

    def test_other_sizes(self):
        self.recurs(EXAMPLES / "simple_gla.attn", "--shape", "T=100,K=5,V=7")

    def test_no_mask_is_drawn(self):
        done = check(EXAMPLES / "gla.attn", "--backend", "cpu", "--plot", self.folder / "x.svg")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("a recurrence has no mask that could be drawn", done.stderr)

    def test_an_index_outside(self):
        path = self.written(RECURRENCE.format("write = table[t];").replace("input gate: f32[B, H, T] grad", "input table: f32[W]"))
        done = check(path, "--backend", "cpu")
        self.assertEqual(done.returncode, 1)
        self.assertIn("x.attn:4:22: index 24 on axis 0 of 'table' is not in [0, 24)", done.stderr)


class Right(Case):
    def test_a_mask_and_grouped_heads(self):
        said = self.passes(EXAMPLES / "mha.attn")
        self.assertIn("48.4 % full, 3.1 % partial, 48.4 % empty and skipped", said)

    def test_sizes_move_to_where_the_script_wants_them(self):
        self.assertIn("S = 49, T = 49", self.passes(SCRIPTS / "swin.attn"))

    def test_a_width_of_further_products(self):
        self.passes(SCRIPTS / "mla_prefill.attn")

    def test_rows_far_below_0(self):
        said = self.passes(SCRIPTS / "pair_bias.attn")
        self.assertIn("ok   gradients of rows far below 0: bias = -1e9\n", said)
        for dtype in ("f32", "f16", "bf16"):
            self.assertRegex(said, rf"cpu +{dtype} +far +o \S+ lse \S+/3\.\d*e\+38 dq ")
        self.assertNotIn("far", self.passes(EXAMPLES / "mha.attn"))  # nothing is added to its scores

    def test_what_f32_does_not_hold_beside_a_far_bias(self):
        said = self.passes(self.written(BIAS_BY_POSITION))
        self.assertIn("--   not tested: rows far below 0: f32 holds nothing else beside bias = -1e9\n", said)


class Wrong(Case):
    def test_each_clause_is_named_with_the_numbers_and_what_is_right(self):
        for what, (right, wrong, clause, numbers, expression) in FAULTS.items():
            with self.subTest(what):
                text = SPELLED_OUT.read_text()
                self.assertEqual(text.count(right), 1)
                done = check(self.written(text.replace(right, wrong)), "--backend", "cpu")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertRegex(done.stderr, rf"x\.attn:\d+:\d+: error E0606: {clause}: .*{numbers}")
                self.assertIn(expression, done.stderr)
                self.assertRegex(done.stdout, rf"FAIL {clause}: .*{numbers}")
                self.assertEqual(len(re.findall("FAIL", done.stdout)), 1)
                self.assertNotIn("kernels:", done.stdout)

    def test_gradients_of_rows_far_below_0(self):
        text = LSE_ALONE.read_text()
        added = "+ bias[h, q_idx, kv_idx]"
        self.assertEqual(text.count(added), 1)
        for expression in (added, "* 2.0 - bias[h, q_idx, kv_idx]", "+ bias[h, 0, 0]"):
            with self.subTest(expression):
                done = check(self.written(text.replace(added, expression)), "--backend", "cpu")
                self.assertEqual(done.returncode, 1, done.stdout)
                said = rf"forward: rows far below 0, as where 'bias' is -1e9: the gradient of 'q', at most \S+, is off by"
                self.assertRegex(done.stderr, rf"x\.attn:\d+:\d+: error E0606: {said}")
                self.assertRegex(done.stdout, f"FAIL {said}")
                self.assertIn("`kept rest`", done.stdout)
                self.assertNotIn("kernels:", done.stdout)
        alone = check(self.written(text.replace(added, "")), "--backend", "cpu")  # products alone are far nowhere
        self.assertEqual(alone.returncode, 0, alone.stdout + alone.stderr)

    def test_an_index_outside_of_a_table(self):
        done = check(self.written(OUTSIDE), "--backend", "cpu")
        self.assertEqual(done.returncode, 1)
        self.assertIn("x.attn:4:24: index -1 on axis 0 of 'table' is not in [0, 24)", done.stderr)

    def test_a_script_that_does_not_parse(self):
        done = check(self.written("attention a {"), "--backend", "cpu")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("x.attn:1:14: error E0", done.stderr)

    def test_what_cannot_hold(self):
        text = OUTSIDE.replace("online", "require S == T + S; online")
        done = check(self.written(text), "--backend", "cpu")
        self.assertEqual(done.returncode, 1)
        self.assertIn("this does not hold for the sizes of the trial", done.stderr)


class Layouts(Case):
    """--layout: sequences of different lengths, beside the interpreter and dense calls of each."""

    def laid(self, script, layout, *options, dtypes=("f32",)):
        done = check(script, "--backend", "cpu", "--layout", layout, *[word for dtype in dtypes for word in ("--dtype", dtype)], *options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("(!)", done.stdout)
        return done.stdout

    def test_gradients_and_several(self):
        said = self.laid(SCRIPTS / "gqa.attn", "T=padded;T=paged:rows:csr;S=packed:most,T=packed;S=padded,T=dense:rows", "--shape", "S=21,T=40")
        for layout, more in (("T=padded", "dq .* dk .* dv"), ("T=paged:rows:csr", ""), ("S=packed:most,T=packed:?", "dq .* dk .* dv"), ("S=padded,T=dense:rows", "")):
            self.assertRegex(said, rf"cpu +f32 +{layout} +o \S+ lse \S+ ?{more}.*; \S+ of the largest value from dense calls{'' if more else ' .no kernels of gradients here'}")

    def test_positions(self):
        said = self.laid(SCRIPTS / "sliding_window.attn", "S=padded:positions,T=paged;S=dense:positions,T=padded:positions;T=paged:groups", "--shape", "window=9")
        self.assertEqual(len(re.findall("of the largest value from dense calls", said)), 3)
        self.assertEqual(said.count("not tested: other positions of keys than those from 0 on"), 1)
        self.assertEqual(said.count("not tested: keys that sequences share"), 1)

    def test_one_axis_and_inputs(self):
        said = self.laid(SCRIPTS / "documents.attn", "S=packed", dtypes=["bf16"])
        self.assertRegex(said, r"cpu +bf16 +S=packed +o \S+ lse \S+ dq ")
        said = self.laid(SCRIPTS / "alibi.attn", "S=padded,T=padded", "--shape", "B=2,T=9")
        self.assertRegex(said, r"S=padded,T=padded +o .* dslope [^!]*; \S+ of the largest")

    def test_axes_that_are_numbers(self):
        """Of inputs: no size of the call has their name. Terms of sizes likewise."""
        script = """attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E]; input x: f32[H, 64]; input y: f32[2 * H];
            score_mod(s, b, h, i, j) = s + x[h, clamp(q_pos - j, 0, 63)] + y[2 * h + 1]; online softmax; }"""
        self.laid(self.written(script), "T=paged;S=packed,T=padded")

    def test_what_is_not_by_itself_what_it_is_in_a_batch(self):
        """The first sequence's number is another one's in a call of it alone: found. A sequence's own number is asked for: refused."""
        script = "attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E]; input x: f32[B, H]; score_mod(s, b, h) = s * (1.0 + x[%s, h]); online softmax; }"
        done = check(self.written(script % 0), "--backend", "cpu", "--dtype", "f32", "--layout", "T=paged")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"T=paged +o \S+ \(!\) \[bound \S+\] .* of the largest value from dense calls \(!\) \[bound 1\.5e-05\]")
        self.laid(self.written(script % "b"), "T=paged")
        done = check(self.written((script % "b").replace("s * (1.0 +", "s * f32(b) * (1.0 +")), "--backend", "cpu", "--dtype", "f32", "--layout", "T=paged")
        self.assertEqual(done.returncode, 1)
        self.assertIn("error E0605: the script asks for the number of a sequence, of which one by itself has another", done.stderr)

    def test_windows_wider_than_sequences(self):
        """They are tried once more within them: what goes wrong there alone is found."""
        script = """attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E]; input x: f32[B, H]; param window: i32 = 1000;%s
            score_mod(s, b, h) = %s; mask(b, h, i, j) = j > q_pos - window; online softmax; }"""
        said = self.laid(self.written(script % ("", "s * (1.0 + x[b, h])")), "T=paged;T=padded")
        self.assertEqual(re.findall("T=pa[gd]+ed.*? o ", said), ["T=paged  o ", "T=padded  o ", "T=paged, with window=9  o ", "T=padded, with window=9  o "])
        self.assertEqual(self.laid(self.written(script % ("", "s")), "T=paged", "--shape", "window=1000").count("T=paged"), 1)
        said = self.laid(self.written(script % (" require window > 99;", "s")), "T=paged")
        self.assertIn("not tested: window=9, which the script does not take", said)
        done = check(self.written(script % ("", "s * (1.0 + where(window > 99, x[b, h], x[0, h]))")), "--backend", "cpu", "--dtype", "f32", "--layout", "T=paged")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(re.findall(r"T=paged.*? o (?=\S+ \(!\))", done.stdout), ["T=paged, with window=9  o "])

    def test_refused_before_anything_is_tried(self):
        for layout, status, message in (
            ("T=foo", 2, "error E0601: unknown layout 'foo'; expected dense, padded, paged or packed"),
            ("", 2, "error E0601: unknown layout ''; expected AXIS=LAYOUT"),
            ("T=paged;", 2, "error E0601: unknown layout ''; expected AXIS=LAYOUT"),
            ("T=paged;T=paged", 2, "error E0601: --layout T=paged: it is asked for twice, by --serve or in the list"),
            ("T=paged:bar", 2, "error E0601: unknown word behind a layout 'bar'; expected rows, csr, positions, groups, most or modified"),
            ("X=paged", 1, "error E0811: --layout: axis X: the attention 'gqa' has no such axis of queries or keys"),
            ("S=paged", 1, "error E0811: --layout: axis S: it is the length of q, and queries lie in no pages"),
        ):
            with self.subTest(layout):
                done = check(SCRIPTS / "gqa.attn", "--backend", "cpu", "--layout", layout)
                self.assertEqual((done.returncode, done.stdout), (status, ""))
                self.assertIn(message, done.stderr)
        done = check(SCRIPTS / "gla.attn", "--backend", "cpu", "--layout", "T=packed")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("sequences of a recurrence are packed by cu_seqlens", done.stderr)
        done = check(SCRIPTS / "gqa.attn", "--backend", "cpu", "--layout", "T=paged", "--shape", "B=65,S=2,T=2", "--dtype", "f32")
        self.assertEqual(done.returncode, 2)
        self.assertIn("aule: --shape: with --layout there are at most 64 sequences", done.stderr)


class Limits(Case):
    def test_as_many_gradients_as_there_is_room_for(self):
        most = int(re.search(r"AULE_MAX_GRADS = (\d+)", (SOURCE / "include/aule/artifact.h").read_text()).group(1))
        names = [f"w{n}" for n in range(most)]
        script = self.folder / "many.attn"
        script.write_text(
            "attention many {\n    q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E];\n"
            + "".join(f"    input {name}: f32[H] grad;\n" for name in names)
            + f"    score_mod(s, b, h) = s + {' + '.join(name + '[h]' for name in names)};\n    online softmax_one;\n}}\n")
        done = check(script, "--backend", "cpu")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"d{names[-1]}", done.stdout)


class Options(Case):
    def test_sizes_by_name(self):
        said = self.passes(EXAMPLES / "mha.attn", "--shape", "S=7,T=19,H=2,Hk=1")
        self.assertIn("S = 7, T = 19", said)

    def test_a_name_that_is_none(self):
        done = check(EXAMPLES / "mha.attn", "--shape", "Q=3")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'Q=3' is no size or parameter of 'mha'", done.stderr)

    def test_a_size_that_the_script_refuses(self):
        done = check(SCRIPTS / "relative_bias.attn", "--shape", "W=4")
        self.assertEqual(done.returncode, 1)
        self.assertIn("relative_bias.attn:13:13: error E0605: this does not hold", done.stderr)

    def test_the_mask_as_a_drawing(self):
        plot = self.folder / "mask.svg"
        self.passes(SCRIPTS / "sliding_window.attn", "--plot", plot)
        drawing = ElementTree.parse(plot).getroot()
        self.assertTrue(drawing.tag.endswith("svg"))
        self.assertGreater(len(list(drawing)), 32)
        words = [part.text for part in drawing.iter() if part.tag.endswith("}text")]
        for word in ("sliding_window: its mask", "queries", "keys", "0", "256", "full", "partial", "empty"):
            self.assertIn(word, words)
        self.assertIn("S = 512, T = 512; the same for all heads", words)
        wide = float(drawing.get("width"))
        for part in drawing.iter():  # nothing is cut: a letter is at most 8 units wide
            if part.tag.endswith("}text") and part.get("text-anchor") != "end":
                self.assertLess(float(part.get("x")) + 8 * len(part.text), wide)

    def test_the_mask_as_letters(self):
        said = check(SCRIPTS / "sliding_window.attn", "--backend", "cpu").stdout
        picture = said[said.index("  mask\n"):said.index("    ## full")].splitlines()
        self.assertTrue(all(len(line) <= 80 for line in said[:said.index("  kernels:")].splitlines()), said)
        self.assertGreater(max(map(len, picture)), 70)
        self.assertEqual([line[:9].strip() for line in picture[4::4]][:3], ["0", "64", "128"])
        self.assertIn("S = 512, T = 512; the same for all heads", said)
        per_head = self.written("attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E];"
                                " mask(b, h, i, j) = j <= i + h; online softmax; }")
        self.assertIn("head 0 of batch 0, others may differ", check(per_head, "--backend", "cpu").stdout)

    def test_tf32_is_refused_where_there_is_no_unit(self):
        done = check(EXAMPLES / "mha.attn", "--backend", "cpu", "--f32", "tf32")
        self.assertEqual(done.returncode, 1)
        self.assertIn("target cpu has no matrix unit for tf32", done.stderr)

    def test_wrong_use(self):
        for options in (["--frob", "1"], ["--shape"], ["--f32", "fast"], ["--dtype", "f64"], ["--dtype", "f32,bf16"]):
            self.assertEqual(check(EXAMPLES / "mha.attn", *options).returncode, 2)
        done = check(EXAMPLES / "mha.attn", "--attention", "nobody")
        self.assertEqual((done.returncode, done.stderr), (2, "error E0601: the script has no attention 'nobody'\n"))
        self.assertEqual(check(self.folder / "absent.attn").returncode, 3)
        done = check("")
        self.assertEqual(done.returncode, 3)
        self.assertIn("'': cannot be read", done.stderr)

    def test_numbers_are_read_as_a_whole(self):
        for shape in ("S=3x", "S=", "S=-3", "S=3.5", "S=1e30", "S= 3", "S=3,", ",S=3", "=3", "S", "S=nan"):
            done = check(EXAMPLES / "mha.attn", "--backend", "cpu", "--shape", shape)
            self.assertEqual(done.returncode, 2, shape)
            self.assertIn("error E0601: '", done.stderr)
        done = check(EXAMPLES / "mha.attn", "--backend", "cpu", "--shape", "S=3,T=5,S=4")
        self.assertIn("'S=4': expected each name once", done.stderr)
        self.assertEqual(check(EXAMPLES / "mha.attn", "--backend", "cpu", "--shape", "").returncode, 2)

    def test_a_backend_that_is_not_there(self):
        for backend in ("tpu", "cpu:3", "opencl:999"):
            done = check(EXAMPLES / "mha.attn", "--backend", backend)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("there is no ", done.stderr)

    def test_what_the_data_cannot_show(self):
        """Masks that leave out nothing or all but one key, gradients of nothing but zeros: no test."""
        head = "attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E]; param window: i32 = 1000;"
        full = check(self.written(head + " mask(b, h, i, j) = abs(i - j) < window; online softmax; }"), "--backend", "cpu")
        self.assertEqual(full.returncode, 0, full.stderr)
        self.assertIn("--   not tested: the mask: every pair takes part, where S = 37, T = 53; --shape gives others", full.stdout)
        one = check(self.written(head + " mask(b, h, i, j) = i == j; online softmax; }"), "--backend", "cpu")
        self.assertEqual(one.returncode, 0, one.stderr)
        self.assertIn("--   not tested: weights: no row has more than one key", one.stdout)
        self.assertIn("beside central differences; not tested: dq, dk, all 0", one.stdout)
        none = check(self.written(head + " mask(b, h, i, j) = i > j + 1000; online softmax; }"), "--backend", "cpu")
        self.assertIn("--   not tested: anything but empty rows: no pair takes part", none.stdout)
        self.assertIn("o (not tested: all 0)", none.stdout)

    def test_the_compiler_is_found(self):
        """In a build folder without a word; else the message says where it was looked for, and a broken one is not passed over."""
        run = [AULE, "check", str(EXAMPLES / "mha.attn"), "--backend", "cpu", "--shape", "S=3,T=3"]
        plain = {name: value for name, value in ENVIRONMENT.items() if name != "AULE_LIBRARY_PATH"}
        self.assertEqual(subprocess.run(run, capture_output=True, timeout=240, env=plain).returncode, 0)
        (self.folder / "libaulec.so.0").write_text("no library")
        broken = subprocess.run(run, capture_output=True, text=True, timeout=240, env=plain | {"AULE_LIBRARY_PATH": f"/nowhere:{self.folder}"})
        self.assertEqual(broken.returncode, 1)
        self.assertIn(f"looked for in /nowhere, {self.folder} and the system's folders", broken.stderr)


class Page(Case):
    """docs/checking.md: what its scripts are told, but for the numbers' last digits."""

    def test_its_examples(self):
        text = (SOURCE / "docs" / "checking.md").read_text()
        found = re.findall(r"```attn file=(\S+)\n(.*?)```\n.*?```text\n\$ aule check (.*?)\n(.*?)```", text, re.S)
        self.assertGreater(len(found), 0)
        for name, script, command, expected in found:
            (self.folder / name).write_text(script)
            done = subprocess.run([AULE, "check", *command.split()], capture_output=True, text=True, timeout=240, env=ENVIRONMENT, cwd=self.folder)
            said = done.stdout + done.stderr
            shorter = [re.sub(r"(\.\d)\d+(e[-+]\d+)?|\d\.\de[-+]\d+", r"\1", part) for part in (said, expected)]
            for line in shorter[1].splitlines():
                if line.strip() != "...":
                    self.assertIn(line, shorter[0].splitlines())


class All(Case):  # the slow suite's
    every = 1

    def tried(self, script, number):
        return self.passes(script)

    def test_every_script_passes(self):
        for number, script in enumerate(sorted([*EXAMPLES.glob("*.attn"), *SCRIPTS.glob("*.attn")])):
            if number % self.every:
                continue
            with self.subTest(script.stem):
                if script.stem in UNTRIED:
                    self.recurs(script, tried=LAWS - UNTRIED[script.stem])
                else:
                    self.tried(script, number)


class Turns(All):  # the full suite's: every 24th script, one type, another at each
    every = 24

    def tried(self, script, number):
        dtype = ("f32", "f16", "bf16")[number // self.every % 3]
        said = self.passes(script, "--dtype", dtype, dtypes=[dtype])
        self.assertEqual(set(re.findall(r"cpu +(\w+) ", said)), {dtype})


sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from parts import PartLoader

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + (sys.argv[4:] or ["Right", "Wrong", "Layouts", "Recurrences", "Options", "Page"]), testLoader=PartLoader())
