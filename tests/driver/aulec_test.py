"""The command line `aulec`: results, every class of bad input, exit statuses, what is left on disk (stages: stages_test.py). Standard library only.

    aulec_test.py AULEC EXAMPLES [TEST...]

Exit statuses of aulec: 0 done, 1 the script has errors, 2 wrong use, 3 a file cannot be read or written.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

AULEC, EXAMPLES = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).resolve()
QUICK = ["--dtype", "f32", "--no-grad", "--target", "cpu", "--arch", "x86-64-v3", "-O1"]
NARROW = [*QUICK, "--width", "D=64"]  # a kernel, where a script leaves its widths open

HEAD = "attention a {\n    q: [B, H, S, 64];\n    k: [B, H, T, 64];\n    v: [B, H, T, 64];\n"
TAIL = "    online softmax;\n}\n"

# What is wrong with a script: the code and words that its message has.
SCRIPTS = {
    "lexical": (HEAD + "    score_mod(s) = s $ 2.0;\n" + TAIL, "E0101", "5:"),
    "text that is not UTF-8": (HEAD.encode() + b"    // \xff\xfe\n" + TAIL.encode(), "E0102", "5:"),
    "a zero byte": (HEAD.encode() + b"\0" + TAIL.encode(), "E0103", "5:"),
    "syntactic": (HEAD + "    score_mod(s) = (s * 2.0;\n" + TAIL, "E0107", "5:"),
    "cut off": (HEAD, "E0", "expected"),
    "unknown name": (HEAD + "    score_mod(s) = s * sharpness;\n" + TAIL, "E0201", "sharpness"),
    "unknown function": (HEAD + "    score_mod(s) = sharpen(s);\n" + TAIL, "E0202", "sharpen"),
    "unknown online function": (HEAD + "    online softmex;\n}\n", "E0", "softmex"),
    "axes": (HEAD.replace("v: [B, H, T, 64]", "v: [B, H, S, 64]") + TAIL, "E0305", "T"),
    "types": (HEAD + "    score_mod(s) = s + true;\n" + TAIL, "E0301", "bool"),
    "arguments": (HEAD + "    score_mod(s) = pow(s);\n" + TAIL, "E0302", "2 arguments, found 1"),
    "an index of the wrong type": (HEAD + "    input x: f32[H];\n    score_mod(s, b, h) = s * x[s];\n" + TAIL, "E0303", ""),
    "a mask that is not boolean": (HEAD + "    mask(b, h, i, j) = i - j;\n" + TAIL, "E0401", "condition, found i32"),
    "a loop": (HEAD + "    score_mod(s) { for (;;) { } return s; }\n" + TAIL, "E0508", ""),
    "nothing": ("", "E0215", "no attention"),
}

# Options that are wrong: exit status and words.
OPTIONS = {
    "unknown option": (["--frob"], 2, "--frob"),
    "an option without its value": (["-o"], 2, "-o"),
    "unknown stage": (["--emit=sass"], 2, "sass"),
    "unknown target": (["--target", "quantum"], 2, "expected cpu, cuda, hip, opencl"),
    "unknown architecture": (["--arch", "z80"], 2, "x86-64-v3"),
    "tf32 beside a target that is not asked for its architecture": (["--target=cuda,cpu", "--arch=sm_80", "--f32=tf32"], 2, "target cpu has no matrix unit for tf32"),
    "unknown type": (["--dtype", "f128"], 2, "expected f32, f16 or bf16"),
    "a type that no architecture asked for takes": (["--target=vulkan", "--arch=vulkan12-coop16,vulkan12-coop8", "--dtype=f16,bf16"], 2,
        "no architecture of target vulkan that was asked for takes bf16; there are vulkan12-simt1, vulkan12, vulkan12-sums, vulkan12-shared16, vulkan12-simt8, vulkan12-simt16, vulkan12-simt64, vulkan12-lanes8, vulkan12-lanes16, vulkan12-lanes32, vulkan12-lanes64, vulkan12-coop16x8x16-bf16, vulkan12-coop8x16x16-bf16, vulkan12-coop8x8x16-bf16, vulkan12-coop16-words-bf16, vulkan12-coop16-layout-bf16, vulkan12-coop16-at-bf16, vulkan13-coop16-nv2-bf16, vulkan13-coop16-nv2-tensors-bf16, vulkan13-coop16-nv2-blocks-bf16, vulkan13-coop16-nv2-blocks256-bf16, vulkan12-coop16-bf16"),
    "the same of a stage": (["--arch=vulkan12-coop8", "--dtype=bf16", "--emit=spirv-text"], 2, "vulkan that was asked for takes bf16"),
    "an unknown way to multiply f32": (["--f32=fast"], 2, "expected exact or tf32"),
    "tf32 on a target that has no unit for it": (["--target", "cpu", "--f32=tf32"], 2, "target cpu has no matrix unit for tf32"),
    "tf32 on an architecture that has no unit for it": (["--arch", "sm_75,sm_80", "--target=cuda", "--f32=tf32"], 2, "cuda sm_75 has no"),
    "tf32 of widths that no unit takes": (["--arch", "sm_80", "--target=cuda", "--f32=tf32", "--dtype=f32", "--width=D=20"], 1, "forward in tf32"),
    "a width that is no number": (["--width", "D=wide"], 2, "expected numbers from 1 to 1024"),
    "a width of zero": (["--width", "D=0"], 2, "expected numbers from 1 to 1024"),
    "a width without a number": (["--width", "D"], 2, "NAME=NUMBER"),
    "an axis that is none": (["--width", "Z=64"], 2, "'Z'"),
    "an attention that is none": (["--attention", "nobody"], 2, "'nobody'"),
    "a level that is none": (["-O", "9"], 2, "0, 1, 2 or 3"),
    "a width of more digits": (["--width", "D=064"], 2, "expected numbers from 1 to 1024"),
    "a width twice": (["--width", "D=64,64"], 2, "'64' stands twice in the list of widths of 'D'"),
    "an axis twice": (["--width", "D=64", "--width", "D=128"], 2, "widths of 'D' are given twice"),
    "a comma too many": (["--dtype", "f32,"], 2, "an item is empty in the list of operand types: 'f32,'"),
    "a width too few": (["--width", "D=64,"], 2, "an item is empty in the list of widths of 'D'"),
    "no output": (["-o", ""], 2, "-o needs a file's name"),
    "a type twice": (["--dtype", "f32,f32"], 2, "'f32' stands twice"),
    "a target twice": (["--target", "cpu,cpu"], 2, "'cpu' stands twice"),
    "an architecture twice": (["--arch", "sm_80,sm_80"], 2, "'sm_80' stands twice"),
    "an option twice": (["--dtype", "f32", "--dtype", "f16"], 2, "given twice"),
    "more items than there is room for": (["--width", "D=" + ",".join(map(str, range(1, 34)))], 2, "more than 32 items in the list of widths of 'D'"),
    "a stage by another name": (["--emit=ptx"], 2, "did you mean --emit=asm --target=cuda"),
    "a file by another name": (["--emit=o"], 2, "did you mean --emit=obj"),
    "two scripts": ([str(EXAMPLES / "gla.attn")], 2, "more than one script"),
    "a stage of a target that was not asked for": (["--target", "cpu", "--emit=opencl-c"], 1, "opencl"),
}


def aulec(*arguments, **options):
    options = {"capture_output": True, "timeout": 120, **options}
    return subprocess.run([AULEC, *map(str, arguments)], **options)


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.mha = EXAMPLES / "mha.attn"

    def expect(self, done, status, *words):
        said = done.stderr.decode("utf-8", "replace")
        self.assertEqual(done.returncode, status, said)
        for word in words:
            self.assertIn(word, said)


class BadScripts(Case):
    def test_each_class_has_its_diagnostic(self):
        for what, (script, code, word) in SCRIPTS.items():
            with self.subTest(what):
                path = self.folder / "bad.attn"
                path.write_bytes(script if isinstance(script, bytes) else script.encode())
                self.expect(aulec(path, "-o", self.folder / "bad.so"), 1, "bad.attn:", "error " + code, word)
                self.assertFalse((self.folder / "bad.so").exists())

    def test_all_errors_come_in_one_run(self):
        done = aulec("-", "--emit=attention-ir", input=(HEAD + "    score_mod(s) = s * one;\n    mask(b, h, i, j) = two;\n" + TAIL).encode())
        self.expect(done, 1, "'one'", "'two'")

    def test_a_name_that_the_compiler_gives(self):
        script = self.mha.read_text().replace("v: [B, Hk, T, E];", "v: [B, Hk, T, E];\n    input dq: f32[H];")
        done = aulec("-", "-o", self.folder / "x.so", input=script.encode())
        self.expect(done, 1, "E0607", "input dq", "'dq' belongs to this")
        self.expect(aulec("-", *NARROW, "-o", self.folder / "x.so", input=script.encode()), 0)

    def test_parameters_are_not_called_like_sizes_that_the_compiler_adds(self):
        for name in ("pool", "slots_count", "cu_seqlens_count"):
            for dtype in ("i32", "f32"):
                script = (f"attention x {{ q: [B, H, T, K]; k: [B, H, T, K]; v: [B, H, T, V]; param {name}: {dtype} = 1;"
                          f" linear {{ k = k * f32({name}); decay = 0.5; }} }}")
                self.expect(aulec("-", "--target=cpu", "-o", self.folder / "x.so", input=script.encode()), 1, "E0607", f"a parameter '{name}'")
        script = self.mha.read_text().replace("v: [B, Hk, T, E];", "v: [B, Hk, T, E];\n    param T_entries: i32 = 1;")
        layout = "--layout=T=padded", "--target=cpu", "--no-grad"
        self.expect(aulec("-", *layout, "-o", self.folder / "x.so", input=script.encode()), 1, "E0607", "a parameter 'T_entries'")

    def test_serve(self):
        """Several layouts in one artifact: names, what is refused, and by which option."""
        script, out = EXAMPLES.parents[2] / "attn_scripts/gqa.attn", self.folder / "x.so"
        common = ["--target=cpu", "--arch=x86-64-v3", "--dtype=f32", "--width=D=64", "-O0"]
        stage = aulec(script, *common, "--serve", "--layout=T=paged:groups", "--emit=kernel-ir")
        self.expect(stage, 0)
        names = dict.fromkeys(re.findall(r"^// ==== (\S+),", stage.stdout.decode(), re.M))
        layouts = ["T=padded", "T=paged", "S=packed:most,T=paged", "S=packed:most,T=packed:most", "T=paged:groups"]
        self.assertEqual(list(names), ["gqa", *(f"gqa@{layout}" for layout in layouts)])
        kernels = re.findall(r"^kernel (\S+?)\(", stage.stdout.decode(), re.M)
        self.assertEqual(len(kernels), len(set(kernels)))
        self.assertFalse(re.search("[^A-Za-z0-9_]", "".join(kernels)))
        stage = aulec(script, *common, "--layout=T=paged,S=packed;T=dense", "--emit=kernel-ir")
        self.assertEqual(list(dict.fromkeys(re.findall(r"^// ==== (\S+),", stage.stdout.decode(), re.M))), ["gqa@S=packed,T=paged", "gqa"])
        for words, status, *said in (
            (["--serve", "--layout=T=paged"], 2, "--layout T=paged: it is asked for twice"), (["--layout=T=paged;T=paged"], 2, "it is asked for twice"),
            (["--layout=T=paged;"], 2, "unknown layout ''"),
            (["--serve", "--emit=obj"], 2, "--serve: an object has one layout, since its functions are called as the attention is"),
            (["--layout=T=paged;T=padded", "--emit=obj"], 2, "--layout T=paged;T=padded: an object has one layout"),
            (["--serve", "--storage=i4:channels48"], 1, "64 channels do not consist of groups of 48", "--serve asks for it, as gqa@T=padded"),
        ):
            self.expect(aulec(script, *common, *words, "-o", out), status, *said)
        self.expect(aulec(script, "--serve", "--target=metal", "-o", out), 2, "--serve: target metal has no kernels of layouts yet")
        for name, *said in (
            ("gla", "--serve: 'gla': it is a recurrence, whose state is its cache"), ("swin", "q and k have one axis, and keys of a cache have one of their own"),
        ):
            self.expect(aulec(script.parent / f"{name}.attn", "--serve", "--target=cpu", "--dtype=f32", "-o", out), 1, *said)

    def test_names_of_what_schedules_declare_are_free(self):
        """Names of a script and names of kernels' own variables live apart: nothing of one can be the other."""
        params = ("rows", "round", "sum", "n", "mb", "turn", "stage", "self", "i", "c")
        inputs = ("acc", "score", "weight", "ds", "dp", "row0", "scale", "K", "Q")
        script = HEAD + "".join(f"    param {name}: f32 = 1.0;\n" for name in params) + "".join(
            f"    input {name}: f32[H] grad;\n" for name in inputs) + (
            f"    score_mod(s, b, head, query, key) = s + {' + '.join(f'{name}[head]' for name in inputs)} + {' + '.join(params)};\n") + TAIL
        for target, archs in (("cpu", "x86-64-v3,x86-64-v4-amx"), ("opencl", ""), ("cuda", "sm_70,sm_90a")):
            with self.subTest(target):
                arch = [f"--arch={archs}"] if archs else []
                done = aulec("-", f"--target={target}", *arch, "--dtype=bf16" if target == "cpu" else "--dtype=f16", "--emit=tiled-ir",
                             "-o", "-", input=script.encode())
                self.expect(done, 0)
                for name in ("$rows", "$round", "$acc", "$score"):
                    self.assertIn(name, done.stdout.decode())

    def test_more_gradients_than_there_is_room_for(self):
        script = HEAD + "".join(f"    input w{n}: f32[H] grad;\n" for n in range(41)) + TAIL
        self.expect(aulec("-", "-o", self.folder / "x.so", input=script.encode()), 1, "E0608", "input w40", "room for 40")
        self.expect(aulec("-", "--no-grad", *QUICK, "-o", self.folder / "x.so", input=script.encode()), 0)

    def test_gradients_as_expressions(self):
        done = aulec(self.mha, "--emit=gradients")
        self.expect(done, 0)
        self.assertIn("adjoint lse = dfinal.lse - $delta", done.stdout.decode())

    def test_what_kernels_of_recurrences_do_not_have_is_said_by_name(self):
        script = b"attention a { q: [B, H, T, K]; k: [B, H, T, K]; v: [B, H, T, V]; linear { v = v * sum(k); } }"
        self.expect(aulec("-", *QUICK, "-o", self.folder / "x.so", input=script), 1, "E0603", "'v'", "channels of keys and of values", "pass it as an input")
        slots = (("skip = sum(k) * v;", "E0603", "'skip'", "pass it as an input"), ("norm = sum(k) + sum;", "E0603", "'norm'", "a sum over channels"), ("decay = sigmoid(sum(w));", "E0603", "'decay'", "no token's own"),
                 ("q = rope(q, t);", "E0811", "a rotation in a slot"), ("k = k * sum(rope_interleaved(w, t));", "E0811", "a rotation in a slot"))
        for slot, *said in slots:
            script = "attention a { q: [B, H, T, K]; k: [B, H, T, K]; v: [B, H, T, V]; input w: f32[H, K]; linear { %s } }" % slot
            self.expect(aulec("-", *QUICK, "-o", self.folder / "x.so", input=script.encode()), 1, *said)
            out = script.replace("} }", "} out_mod(o, b, h, i, c) = o * 0.5; }") # a row mod before the slots
            self.expect(aulec("-", *QUICK, "-o", self.folder / "x.so", input=out.encode()), 1, *said)
        gla = [EXAMPLES / "gla.attn", "--dtype=f32", "--width=K=16", "--width=V=16", "-o", self.folder / "x.so"]
        for target in ("cpu", "opencl"):
            self.assertNotIn(b"N0601", aulec(*gla, f"--target={target}").stderr)
        with_norm = b"attention a { q: [B, H, T, K]; k: [B, H, T, K]; v: [B, H, T, V]; linear { norm = max(sum, 1.0); } }"
        wide = ["-", "--target=opencl", "--dtype=f32", "--width=K=256", "--width=V=512", "--emit=kernel-ir"]
        self.expect(aulec(*wide, input=with_norm), 0, "N0601", "'a'", "opencl", "a norm", "so wide a state")
        self.assertNotIn(b"N0601", aulec(*wide, "--no-grad", input=with_norm).stderr)
        rows = "--target=cuda", "--arch=sm_90", "--dtype=bf16", "--width=K=1024", "--width=V=16", "--emit=kernel-ir", "-o", os.devnull
        self.expect(aulec(EXAMPLES / "gla.attn", *rows), 0, "N0601", "gla", "sm_90", "rows of 1024 channels of keys")

    def test_matrices_that_are_not_used(self):
        """Of an architecture that was named, and no other, it is said why kernels have no matrices."""
        narrow = [EXAMPLES / "mha.attn", "--target=vulkan", "--dtype=f16", "--width=D=40", "--width=E=40", "-o", self.folder / "x.so"]
        said = aulec(*narrow, "--arch=vulkan12,vulkan12-coop16")
        for operation, schedule in ("forward", "matrices_forward"), ("backward", "matrices_backward"):
            self.expect(said, 0, f"note N0605: {operation} of 'mha' for vulkan vulkan12-coop16 has no matrices: not {schedule}: widths 40 and 40 are no multiples of 16")
        self.assertEqual(said.stderr.count(b"N0605"), 2)
        for options in ["--arch=vulkan12"], ["--arch=vulkan12-lanes32"], []:
            self.assertNotIn(b"N0605", aulec(*narrow, *options).stderr)
        odd = [EXAMPLES / "mha.attn", "--target=cuda", "--dtype=f16", "--width=D=72", "--width=E=72", "--no-grad", "--emit=tiled-ir", "-o", os.devnull]
        self.assertIn(b"N0605", aulec(*odd, "--arch=sm_70").stderr)
        self.assertNotIn(b"N0605", aulec(*odd).stderr)
        wide = [EXAMPLES / "mha.attn", "--target=vulkan", "--arch=vulkan12-coop16", "--dtype=f16", "--width=D=64", "--width=E=64", "-o", self.folder / "x.so"]
        self.assertNotIn(b"N0605", aulec(*wide).stderr)
        lone = [EXAMPLES / "mha.attn", "--dtype=f16", "--width=D=512", "--width=E=512", "--emit=tiled-ir", "-o", os.devnull]
        self.expect(aulec(*lone, "--target=metal"), 0, "note N0605: forward of 'mha' for metal apple7 has no matrices: not warps_forward: widths 512 and 512 take")
        for options in [], ["--target=hip"], ["--target=opencl"]: # nobody named a machine
            self.assertNotIn(b"N0605", aulec(*lone, *options).stderr)
        pairs = [EXAMPLES / "mha.attn", "--target=hip", "--arch=gfx1030", "--width=D=64", "--width=E=64", "--emit=tiled-ir", "-o", os.devnull]
        for operation in "forward", "backward":
            self.expect(aulec(*pairs, "--dtype=bf16,f32"), 0, f"note N0605: {operation} of 'mha' for hip gfx1030 has no matrices: the machine adds up products of f16 by one instruction, of bf16 by none")
        self.assertNotIn(b"N0605", aulec(*pairs, "--dtype=f16,f32").stderr)
        gates = [EXAMPLES.parents[2] / "attn_scripts/gla.attn", "--target=cuda", "--arch=sm_80", "--dtype=bf16", "--width=K=64", "--width=V=64", "--emit=tiled-ir", "-o", os.devnull]
        self.assertNotIn(b"N0605", aulec(*gates).stderr)
        self.expect(aulec(*gates, "--deterministic"), 0, "note N0605: backward of 'gla' for cuda sm_80 has no matrices: not linear_warps_backward: sums in one order")

    def test_few_queries_without_kernels_of_theirs(self):
        """Of a cache, what of a script it is that few queries have the kernels for many, or one part of all keys; of calls that ask for no cache, and where keys are shared out, nothing."""
        script = b"""attention a { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, %s, T, E]; input w: i32[H];
            mask(b, h, i, j) = %s; online %s; }
            online of_length_one { rowscale r = 0.0; final norm; online_fwd(s) { r = sqrt(r * r + rowsum(s * s)); return s, 1.0; }
            online_fwd_epilogue(o) { norm = r; return o / r; } forward(score) = score / norm; }"""
        by_head, by_values = script % (b"Hk", b"j <= q_pos && q_pos - j < w[h]", b"softmax"), script % (b"Hv", b"j <= q_pos", b"softmax")
        unjoined, plain = script % (b"Hk", b"j <= q_pos", b"of_length_one"), script % (b"Hk", b"j <= q_pos", b"softmax")
        cuda = ["-", "--target=cuda", "--arch=sm_90", "--dtype=bf16", "--width=D=64", "--width=E=64", "--no-grad", "--emit=kernel-ir", "-o", os.devnull]
        opencl = ["-", "--target=opencl", "--dtype=bf16", "--width=D=64", "--width=E=64", "--no-grad", "--emit=kernel-ir", "-o", os.devnull]
        says = "note N0606: few queries of 'a' read all keys of a head in one block on cuda sm_90: what parts of them come to no 'combine' joins"
        for layout in "T=paged", "T=padded", "S=packed:most,T=paged":
            said = aulec(*cuda, "--layout", layout, input=unjoined)
            self.expect(said, 0, says)
            self.assertEqual(said.stderr.count(b"N0606"), 1)
        for layout in [], ["--layout", "S=packed,T=packed"]:
            self.assertNotIn(b"N0606", aulec(*cuda, *layout, input=unjoined).stderr)
        for target in cuda, opencl:
            for text in by_head, by_values, plain:
                self.assertNotIn(b"N0606", aulec(*target, "--layout", "T=paged", input=text).stderr)
        self.expect(aulec(*opencl, "--layout", "T=paged", input=unjoined), 0, "N0606", "on opencl generic", "no 'combine' joins")
        said = aulec(EXAMPLES.parents[1] / "exec/scripts/unseen.attn", *cuda[1:], "--layout", "T=paged")
        self.expect(said, 0, "note N0606: few queries of 'unseen' have the kernels for any number on cuda sm_90", "rows of keys of further products that heads have for themselves")


class BadOptions(Case):
    def test_each_is_refused(self):
        for what, (options, status, words) in OPTIONS.items():
            with self.subTest(what):
                self.expect(aulec(self.mha, *options, cwd=self.folder), status, words)
                self.assertEqual(list(self.folder.iterdir()), [])

    def test_no_script(self):
        self.expect(aulec(), 2, "no script")


class Examples(Case):
    def test_all_are_parsed_and_checked(self):
        scripts = sorted(EXAMPLES.glob("*.attn"))
        self.assertEqual(len(scripts), 20)
        for script in scripts:
            with self.subTest(script.stem):
                self.expect(aulec(script, "--emit=attention-ir"), 0)


class Readme(Case):
    def test_its_scripts_compile(self):
        text = (EXAMPLES.parents[2] / "README.md").read_text()
        scripts = re.findall(r"```attn[^\n]*\n(.*?)```", text, re.S)
        self.assertGreater(len(scripts), 0)
        for script in scripts:
            self.expect(aulec("-", *QUICK, "-o", "-", input=script.encode()), 0)


sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from parts import PartLoader

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], testLoader=PartLoader())
