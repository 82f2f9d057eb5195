"""The command line `aulec`: results, every class of bad input, exit statuses, what is left on disk. Standard library only.

    aulec_test.py AULEC EXAMPLES [TEST...]

Exit statuses of aulec: 0 done, 1 the script has errors, 2 wrong use, 3 a file cannot be read or written.
"""
import os
import re
import resource
import signal
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
        "no architecture of target vulkan that was asked for takes bf16; there are vulkan12, vulkan12-sums, vulkan12-shared16, vulkan12-lanes8, vulkan12-lanes16, vulkan12-lanes32, vulkan13-coop16-nv2-bf16, vulkan12-coop16-bf16"),
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
            (["--layout=T=paged;"], 2, "unknown layout ''"), (["--serve", "--checked"], 2, "--serve: not with --checked yet"),
            (["--serve", "--parts"], 2, "--serve: not with --parts yet"), (["--serve", "--emit=obj"], 2, "--serve: not of static builds yet"),
            (["--serve", "--storage=i4:channels48"], 1, "64 channels do not consist of groups of 48", "--serve asks for it, as gqa@T=padded"),
        ):
            self.expect(aulec(script, *common, *words, "-o", out), status, *said)
        self.expect(aulec(script, "--serve", "--target=metal", "-o", out), 2, "--serve: target metal has no kernels of layouts yet")
        for name, *said in (
            ("gla", "--serve: 'gla': it is a recurrence, whose state is its cache"), ("swin", "q and k have one axis, and keys of a cache have one of their own"),
            ("mla_prefill", "further products (`dot`) of keys", "--serve asks for it, as mla_prefill@T=padded"),
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
        gates = [EXAMPLES.parents[2] / "attn_scripts/gla.attn", "--target=cuda", "--arch=sm_80", "--dtype=bf16", "--width=K=64", "--width=V=64", "--emit=tiled-ir", "-o", os.devnull]
        self.assertNotIn(b"N0605", aulec(*gates).stderr)
        self.expect(aulec(*gates, "--deterministic"), 0, "note N0605: backward of 'gla' for cuda sm_80 has no matrices: not linear_warps_backward: sums in one order")


# Valid scripts that kernels were hard to make of: items of an attention.
HARD = {
    "a row mod without channels": "    q_mod(x) = sum(x);\n    k_mod(x) = mean(x);\n    v_mod(x) = 1.0;\n    out_mod(o) = sum(o);\n",
    "a row mod without rows": "    input g: f32[128] grad;\n    q_mod(x, b, h, i, c) = g[c];\n    k_mod(x, b, kv_h, j, c) = g[c];\n",
    "a sum without the row": "    input g: f32[128] grad;\n    q_mod(x, b, h, i, c) = x * sum(g[c]) + rmsnorm(sum(x) * g[c]);\n",
    "a score that is a number": "    score_mod(s) = 1.0;\n",
    "a score that is a bias": "    input t: f32[S, T] grad;\n    score_mod(s, b, h, i, j) = t[i, j];\n",
    "a score that is a position": "    score_mod(s, b, h, i, j) = j;\n",
    "a table indexed by the score": "    input t: f32[8] grad;\n    score_mod(s) = s + t[i32(s)];\n",
    "a table indexed by the element": "    input t: f32[8] grad;\n    q_mod(x) = t[i32(x)];\n    out_mod(o) = o * t[i32(o)];\n",
    "many learned inputs": "".join(f"    input w{n}: f32[H] grad;\n" for n in range(12))
    + "    score_mod(s, b, h) = s + " + " + ".join(f"w{n}[h] * tanh({n}.0 * abs(q_pos - kv_idx))" for n in range(12)) + ";\n",
}
TARGETS = (["--target=cpu", "--arch=x86-64-v3"], ["--target=cpu", "--arch=x86-64-v4-amx"], ["--target=opencl"], ["--target=cuda", "--arch=sm_75,sm_90"])


class HardScripts(Case):
    def test_all_targets_have_kernels(self):
        for what, items in HARD.items():
            script = (HEAD + items + TAIL).replace("64]", "D]")
            for target in TARGETS:
                with self.subTest(what, target=target):
                    options = [*target, "--width=D=64", "--emit=kernel-ir", "-o", "/dev/null"]
                    self.expect(aulec("-", *options, input=script.encode()), 0)

    def test_kernels_of_many_inputs_fit_registers(self):
        for count in range(1, 13):
            script = HEAD.replace("64]", "D]")
            script += "".join(f"    input w{n}: f32[H] grad;\n" for n in range(count))
            script += "    score_mod(s, b, h) = s + " + " + ".join(f"w{n}[h] * tanh({n}.0 * abs(q_pos - kv_idx))" for n in range(count)) + ";\n" + TAIL
            options = ["--target=cpu", "--arch=x86-64-v3,x86-64-v4", "--dtype=f32", "--width=D=64,96,128,192", "--emit=tiled-ir", "-o", "/dev/null"]
            self.expect(aulec("-", *options, input=script.encode()), 0)

    def test_what_no_schedule_carries_is_said_with_its_line(self):
        script = HEAD + "    out_mod(o) = rope(o, q_pos);\n" + TAIL
        self.expect(aulec("-", "--emit=kernel-ir", input=script.encode()), 1, "-:5:18: error E0811", "turn it after the call")
        rows = "    input x: f32[N, P];\n    input y: f32[T, P] grad;\n    input id: i32[S];\n    input jd: i32[T];\n"
        for product, status in (("x[id[i]], y[j]", 1), ("y[3], y[j]", 1), ("y[id[i]], x[jd[j]]", 1), ("y[i], x[j]", 0)):
            script = HEAD + rows + f"    score_mod(s, b, h, i, j) = s + dot({product});\n" + TAIL
            words = ["-:9:36: error E0811", "gather the rows"] if status else []
            self.expect(aulec("-", "--target=cpu", "--dtype=f32", "--width=P=32", "--emit=kernel-ir", input=script.encode()), status, *words)


class BadOptions(Case):
    def test_each_is_refused(self):
        for what, (options, status, words) in OPTIONS.items():
            with self.subTest(what):
                self.expect(aulec(self.mha, *options, cwd=self.folder), status, words)
                self.assertEqual(list(self.folder.iterdir()), [])

    def test_no_script(self):
        self.expect(aulec(), 2, "no script")


class Stages(Case):
    def test_grids_that_overlap(self):
        """Kernels for few queries wait for those before them themselves, as late as they may, on machines that have that; all others do not."""
        options = "--dtype=bf16", "--width=D=64", "--no-grad", "--layout=T=paged:groups", "--emit=kernel-ir"
        for arch, overlaps in (("sm_80", False), ("sm_90", True)):
            done = aulec(self.mha, "--target=cuda", f"--arch={arch}", *options)
            self.expect(done, 0)
            kernels = {k.split(" ", 1)[0]: k for k in done.stdout.decode().split("kernel ")[1:]}
            of = {part: next(k for name, k in kernels.items() if name.endswith(part)) for part in ("decode_prefix", "decode_keys", "decode_forward")}
            lines = {part: [line.strip() for line in k.split("\n")] for part, k in of.items()}
            self.assertEqual([part for part in of if "grid_next" in lines[part]], ["decode_prefix", "decode_keys"] if overlaps else [])
            self.assertEqual([part for part in of if "grid_wait" in lines[part]], ["decode_prefix", "decode_keys", "decode_forward"] if overlaps else [])
            self.assertFalse([name for name, k in kernels.items() if "decode_" not in name and "grid_" in k])
            if overlaps:
                keys, joins = lines["decode_keys"], lines["decode_forward"]
                self.assertEqual(keys[keys.index("grid_wait") + 1], "}")  # it has nothing to do with the prefix
                marked = {line.split()[1].rstrip(":") for line in joins if line.startswith("memory") and line.endswith("earlier")}
                self.assertLessEqual({"@part_acc", "@shared_acc"}, marked)
                self.assertFalse(marked & {"@$T_table", "@$T_lengths"})
                before = "\n".join(joins[joins.index("{"):joins.index("grid_wait")])
                self.assertFalse([m for m in marked if f"{m}[" in before])

    def test_each_has_a_text_that_stays_the_same(self):
        for stage in ("ast", "attention-ir", "tiled-ir", "kernel-ir", "llvm-ir", "asm", "opencl-c", "spirv-text", "stdlib", "shapes"):
            with self.subTest(stage):
                options = [self.mha, "--emit", stage, "--dtype", "f32", "--width", "D=64"]
                first, second = aulec(*options), aulec(*options)
                self.expect(first, 0)
                self.assertGreater(len(first.stdout), 200)
                self.assertEqual(first.stdout, second.stdout)
                first.stdout.decode("utf-8")

    def test_an_artifact_stays_the_same(self):
        first, second = (aulec(self.mha, *NARROW, "-o", "-") for _ in range(2))
        self.assertEqual(first.stdout[:4], b"\x7fELF")
        self.assertEqual(first.stdout, second.stdout)

    def test_tf32_is_of_f32_on_architectures_that_have_it(self):
        done = aulec(self.mha, "--target=cuda", "--f32=tf32", "--dtype=f32,bf16", "--width=D=64", "--no-grad", "--emit=tiled-ir")
        self.expect(done, 0)
        heads = [line for line in done.stdout.decode().splitlines() if line.startswith("// ==== ") and ": warps_forward" in line]
        self.assertEqual({line.split()[5] for line in heads if line.endswith("# tf32")}, {"sm_80:", "sm_86:", "sm_90:"})
        self.assertFalse([line for line in heads if (", f32," in line) != (line.endswith("# tf32"))])

    def test_code_objects_of_a_machine_run_on_no_other(self):
        """So each has its own kernels of f32, too, which are the same text."""
        done = aulec(self.mha, "--target=hip", "--dtype=f32", "--width=D=16", "--width=E=16", "--emit=tiled-ir")
        self.expect(done, 0)
        heads = [line.split() for line in done.stdout.decode().splitlines() if line.startswith("// ==== ")]
        made = {(words[5].rstrip(":"), words[6].rstrip(":")) for words in heads}
        machines = "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200"
        self.assertEqual(made, {(machine, kernel) for machine in machines for kernel in ("lanes_forward", "lanes_backward")})

    def test_level_zero_is_given_the_modules_of_opencl(self):
        """But for the names of kernels. Those for matrix units are not in an artifact but by their names."""
        texts = []
        for target, arch in (("levelzero", "levelzero10"), ("opencl", "spirv")):
            done = aulec(self.mha, "--target", target, f"--arch={arch}", "--dtype=f32", "--width=D=64", "--emit=spirv-text")
            self.expect(done, 0)
            texts.append(done.stdout.decode().replace("for opencl spirv", "for levelzero levelzero10").replace("_spirv_", "_levelzero10_"))
        self.assertEqual(*texts)
        self.expect(aulec(self.mha, "--target=levelzero", "--dtype=f32", "--emit=llvm-ir"), 1, "E0623: target levelzero has no LLVM IR")
        for archs, has in (([], False), (["--arch=levelzero10,xe2"], True)):
            done = aulec(self.mha, "--target=levelzero", *archs, "--dtype=f16", "--width=D=64", "--no-grad", "-o", "-")
            self.expect(done, 0)
            self.assertIn(b"_levelzero10_forward", done.stdout)
            self.assertEqual(b"_xe2_" in done.stdout, has)

    def made(self, *options):
        """Targets and architectures of the kernels that options make."""
        done = aulec(self.mha, *options, "--dtype=f32", "--width=D=64", "--no-grad", "--emit=kernel-ir")
        self.expect(done, 0)
        heads = [line.split() for line in done.stdout.decode().splitlines() if line.startswith("// ==== ")]
        return {(words[4], words[5].rstrip(":")) for words in heads}

    def test_what_is_made_where_no_target_is_named(self):
        """Not what takes long, nor what needs matrix units; of layouts and stored types, what has kernels of them."""
        made = self.made()
        self.assertEqual(made - {m for m in made if m[0] == "cpu"}, {("opencl", "generic"), ("vulkan", "vulkan12"), ("levelzero", "levelzero10"), ("metal", "apple7")})
        self.assertIn(("cpu", "x86-64-v3"), made)
        self.assertEqual(self.made("--arch=generic,x86-64-v3"), {("cpu", "x86-64-v3"), ("opencl", "generic")})
        # A target that is named keeps its own where no architecture of it is; generators of one target are one.
        self.assertEqual(self.made("--target=hip,metal,opencl,cpu", "--arch=gfx942,x86-64-v3"),
                         {("hip", "gfx942"), ("metal", "apple7"), ("opencl", "generic"), ("cpu", "x86-64-v3")})
        self.assertEqual(self.made("--target=opencl,metal", "--arch=spirv"), {("opencl", "spirv"), ("metal", "apple7")})
        for of_rows in ("--layout=T=paged", "--storage=k=e4m3"):
            self.assertEqual({target for target, arch in self.made(of_rows)}, {"cpu", "opencl", "levelzero"})
            self.assertEqual(self.made(of_rows, "--arch=generic"), {("opencl", "generic")})
            for asked in ("--target=vulkan", "--arch=vulkan12", "--arch=generic,vulkan12"):
                self.expect(aulec(self.mha, of_rows, asked, "-o", "-"), 2, "E0601", f"{of_rows[2:].replace('=', ' ', 1)}: target vulkan has no kernels")

    def test_kernels_without_matrix_units_say_why(self):
        """Where the machine has some for the type: of the schedule that would have used them, whatever kind of matrices they are."""
        for arch, schedule in (("vulkan12-coop16", "matrices"), ("vulkan13-coop16-nv2", "warps"), ("xe2", "warps")):
            for width, dtype, why in ((40, "f16", "{}: widths 40 and 40 are no multiples of 16"), (64, "f16", ""), (40, "f32", "")):
                with self.subTest(f"{arch} {width} {dtype}"):
                    target = "levelzero" if arch == "xe2" else "vulkan"
                    done = aulec(self.mha, "--target", target, "--arch", arch, f"--width=D={width}", f"--dtype={dtype}", "--emit=tiled-ir")
                    self.expect(done, 0)
                    heads = [line for line in done.stdout.decode().splitlines() if line.startswith("// ==== ")]
                    said = [line.partition(" # not ")[2].removesuffix(" ====") for line in heads]
                    self.assertEqual(said[0], why.format(f"{schedule}_forward"))
                    self.assertEqual(said[-1], why.format(f"{schedule}_backward"))

    def test_functions_take_as_many_tensors_as_artifacts(self):
        inputs = "".join(f"    input x{n}: f32[H];\n" for n in range(100))
        sums = " + ".join(f"x{n}[h]" for n in range(100))
        script = self.folder / "many.attn"
        script.write_text(HEAD + inputs + f"    score_mod(s, b, h) = s * ({sums});\n" + TAIL)
        self.expect(aulec(script, *QUICK, "--no-grad", "--emit=obj", "-o", self.folder / "many.o"), 0)

    def test_ptx_names_lines_and_is_the_same_otherwise(self):
        script = EXAMPLES / "gemma_local.attn"
        options = ["--target=cuda", "--arch=sm_90", "--dtype=bf16", "--width=D=64", "--no-grad", "--emit=asm"]
        plain, named = (aulec(script, *options, *more).stdout.decode() for more in ([], ["--lines"]))
        kept = [line for line in named.splitlines() if not re.match(r"\t\.(loc|file)\t", line)]
        self.assertEqual(kept, plain.splitlines())
        self.names_places(script, re.findall(r'\t\.file\t(\d+) "(.*)"', named), re.findall(r"\t\.loc\t(\d+) (\d+) ", named))

    def names_places(self, script, files, lines):
        """Of gemma_local: what the script does, and what the library does for it, have places in these files and lines."""
        places = {(dict(files)[f], int(line)) for f, line in lines}
        text = script.read_text().splitlines()
        for words in ("tanh(score", "slope[h]", "distance < window", "attention gemma_local"):
            number = next(n for n, line in enumerate(text, 1) if words in line)
            self.assertIn((str(script), number), places, words)
        self.assertTrue(any(name == "<std>" for name, _ in places))

    def test_spirv_names_lines_and_is_the_same_otherwise(self):
        script = EXAMPLES / "gemma_local.attn"
        for target in (["--target=vulkan", "--arch=vulkan12,vulkan12-coop16,vulkan13-coop16-nv2"], ["--target=opencl", "--arch=spirv"]):
            options = [*target, "--dtype=f16", "--width=D=64", "--emit=spirv-text"]
            plain, named = (aulec(script, *options, *more).stdout.decode() for more in ([], ["--lines"]))
            words, bound = re.compile(r"%\d+"), re.compile(r"ids below \d+")
            kept = [words.sub("%", line) for line in named.splitlines() if "OpLine" not in line and not re.search(r'OpString "(.*[.]attn|<std>)"', line)]
            self.assertEqual([bound.sub("", line) for line in kept], [bound.sub("", words.sub("%", line)) for line in plain.splitlines()])
            self.names_places(script, re.findall(r'(%\d+) = OpString "(.*)"', named), re.findall(r"OpLine (%\d+) (\d+) ", named))

    def test_text_names_lines_and_is_the_same_otherwise(self):
        """MSL and OpenCL C, in comments; and a golden text (these options)."""
        root, script, place = EXAMPLES.parents[2], EXAMPLES / "gemma_local.attn", re.compile(r" *// (gemma_local[.]attn|<std>):(\d+)")
        for target, stage, dtype in (("metal", "metal", "f16"), ("metal", "metal", "f32"), ("opencl", "opencl-c", "f32")):
            options = [f"--target={target}", f"--dtype={dtype}", "--width=D=16", "--no-grad", f"--emit={stage}"]
            plain, named = (aulec(script, *options, *more).stdout.decode() for more in ([], ["--lines"]))
            found = [place.fullmatch(line) for line in named.splitlines()]
            self.assertEqual([line for line, at in zip(named.splitlines(), found) if not at], plain.splitlines())
            places = {at.groups() for at in found if at}
            for words in ("tanh(score", "slope[h]", "attention gemma_local"):
                number = next(n for n, line in enumerate(script.read_text().splitlines(), 1) if words in line)
                self.assertIn((script.name, str(number)), places, words)
            self.assertTrue(any(name == "<std>" for name, _ in places))
            if (target, dtype) == ("metal", "f32"):
                self.assertEqual(named.replace(str(script), script.name), (root / "tests/golden/metal/lines.metal").read_text())

    def test_after_a_pass(self):
        options = ["--target=cuda", "--arch=sm_90", "--dtype=bf16", "--width=D=64", "--no-grad"]
        for more in ([], [self.mha], [self.mha, "--emit=kernel-ir"]):
            made = aulec("--after=help", *more)
            self.expect(made, 0)
            self.assertRegex(made.stdout.decode(), r"(?s)  sums .*\n  exponents .*\n  order ")
        self.expect(aulec(self.mha, *options, "--emit=tiled-ir", "--after=sums"), 0)
        self.expect(aulec(self.mha, *options, "--emit=tiled-ir", "--after=tea"), 2, "unknown pass 'tea'", "exponents")
        self.expect(aulec(self.mha, *options, "--emit=kernel-ir", "--after=sums"), 2, "goes with the stage tiled-ir")

    def test_f32_where_groups_of_warps_multiply(self):
        """They have no products of f32; what asks which shape they had must not need one."""
        for script in ("mha", "gemma_local", "documents_bias_sink"):
            with self.subTest(script=script):
                made = aulec(EXAMPLES / f"{script}.attn", "--target=cuda", "--arch=sm_90a", "--dtype=f32", "--width=D=64", "--width=E=64", "--emit=kernel-ir")
                self.expect(made, 0)
                self.assertIn(b"backward", made.stdout)

    def test_subgroups_beside_plain(self):
        """Modules that exchange values are no doubles of those of as many lanes that do not."""
        made = aulec(EXAMPLES / "mha.attn", "--target=opencl", "--arch=spirv,spirv-lanes16,spirv-lanes32", "--dtype=f32", "--width=D=64", "--width=E=64", "--no-grad", "--emit=tiled-ir")
        self.expect(made, 0)
        for arch in (b"spirv", b"spirv-lanes16", b"spirv-lanes32"):
            self.assertIn(b"f32, opencl " + arch + b": ", made.stdout)

    def test_shapes(self):
        script = EXAMPLES / "mha.attn"
        options = ["--target=cuda", "--arch=sm_90", "--dtype=bf16", "--width=D=64", "--no-grad", "--emit=tiled-ir"]
        table = self.folder / "my.shapes"
        table.write_bytes(b"\xef\xbb\xbfsm_90 bf16 64 64 warps_forward: keys=32\n")  # with a mark, as editors leave
        for more, row in ((["--shape=warps_forward: rows=16 keys=64"], b"warps=4 rows=16 keys=64"),
                          ([f"--shapes={table}"], b"warps=4 rows=32 keys=32"),
                          ([f"--shapes={table}", "--shape=warps_forward: keys=64"], b"warps=4 rows=32 keys=64")):
            made = aulec(script, *options, *more)
            self.expect(made, 0)
            self.assertIn(b"warps_forward: " + row, made.stdout)
        self.expect(aulec(script, *options, "--shape=warps_forward: keys=24"), 2, "24 keys for 4 warps do not divide", "with keys=16 it does")
        self.expect(aulec(script, *options, "--shape="), 2, "--shape needs a row")
        self.expect(aulec(script, *options, f"--shapes={self.folder}/none"), 3, "cannot read")
        self.expect(aulec("-", *options, "--shapes=-", input=script.read_bytes()), 2, "cannot both be read from the standard input")

    def test_packed_rows_on_matrix_units(self):
        """A golden text: kernels of packed rows, as the schedule writes them (these options, as far as hooks are inlined)."""
        root = EXAMPLES.parents[2]
        options = ["--target=cuda", "--arch=sm_80", "--dtype=bf16", "--width=D=64", "--no-grad", "--layout=S=packed,T=packed", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/gqa.attn", *options, "-o", "-")
        self.expect(made, 0)
        written = made.stdout.decode().split("// ---- hooks inlined")[0]
        self.assertEqual(written, (root / "tests/golden/tiled-ir/packed.tile").read_text())
        groups = [x.replace("sm_80", "sm_90a") for x in options]
        dense = [x for x in groups if not x.startswith("--layout")]
        for width in (64, 128):  # of the shape of dense rows: a sequence is to the bit what a dense call of it makes
            shapes = []
            for asked in (groups, dense):
                made = aulec(root / "attn_scripts/gqa.attn", *[x.replace("D=64", f"D={width}") for x in asked], "-o", "-")
                self.assertRegex(made.stdout, rb"sm_90a: group_forward: .* apart=0 [^#]*\n")
                shapes.append(re.findall(rb"sm_90a: (group_forward: .* apart=0 [^#\n]*)", made.stdout))
            self.assertEqual(*shapes)
        # .. and of a row of a table: of both, and of no other length
        table = self.folder / "long.shapes"
        table.write_text("sm_90a bf16 128 128 long causal group_forward: keys=64\nsm_90a bf16 128 128 window group_forward: keys=48\n")
        lengths = []
        for asked in (groups, dense):
            made = aulec(root / "attn_scripts/gqa.attn", *[x.replace("D=64", "D=128").replace("tiled-ir", "shapes") for x in asked], f"--shapes={table}", "-o", "-")
            found = re.findall(rb"sm_90a: group_forward: groups=3 keys=(\d+) .*\n// for tables: sm_90a bf16 128 128 causal (\w+);", made.stdout)
            self.assertEqual(found, [(b"80", b"short"), (b"64", b"long")])
            self.assertIn(b"N0602: a row of this table is for none", made.stderr)

    def test_architectures(self):
        """Their names, without a script; those of a stage's target where nobody names one; what no kernel has is said once."""
        made = aulec("--target=cuda", "--arch=help")
        self.expect(made, 0)
        self.assertRegex(made.stdout.decode(), r"^sm_70, .*, sm_120\n$")
        self.assertIn(b"gfx1100", aulec("--arch=help").stdout)
        few = ["--dtype=f32", "--width=D=32", "--width=E=32", "--no-grad"]
        for arch, word in (("spirv", b"OpCapability Kernel"), ("levelzero10", b"OpCapability Kernel"), ("vulkan12", b"OpCapability Shader")):
            made = aulec(self.mha, *few, f"--arch={arch}", "--emit=spirv-text")
            self.expect(made, 0)
            self.assertIn(word, made.stdout)
        self.expect(aulec(self.mha, *few, "--arch=generic", "--emit=spirv-text"), 2, "expected spirv, spirv-lanes8")
        made = aulec(self.mha, "--target=metal", "--emit=asm")
        self.expect(made, 1, "E0623")
        self.assertEqual(made.stderr.count(b"E0623"), 1)

    def test_wide_heads_in_little_memory(self):
        """Of 16 KB a block holds two keys of 513 channels, which are fewer than its warps."""
        for more in ([], ["--no-grad"]):
            self.expect(aulec(self.mha, "--arch=vulkan12-shared16", "--dtype=f32", "--width=D=513", "--width=E=1024", *more, "-o", "-"), 0)

    def test_ranked_shapes(self):
        """--emit=shapes: of each kernel what it has, or that there is no ranking; why others do not fit; and a shape that it names is one that can be asked for."""
        options = ["--target=cuda", "--arch=sm_90a", "--dtype=bf16", "--width=D=128", "--width=E=128"]
        made = aulec(self.mha, *options, "--emit=shapes")
        self.expect(made, 0)
        parts = made.stdout.decode().split("// ==== ")[1:]
        self.assertEqual(len(parts), 7)
        ranked = [part for part in parts if "// for tables: sm_90a bf16 128 128 causal long;" in part]
        self.assertEqual([re.search(r"sm_90a: (\w+):", part)[1] for part in ranked], ["group_forward", "group_backward"])
        self.assertTrue(all("// no ranking: there is none of warps_" in part for part in parts if part not in ranked))
        self.assertIn("    - groups=3 stages=2 held=0 keys=96  # fragments of 136 registers beside 24 others, where a consumer has 160\n", ranked[0])
        for part in ranked:
            rows = re.findall(r"^ +\d+ +([\d.]+) .*?(group_.*)$", part, re.M)
            self.assertEqual([float(cycles) for cycles, _ in rows], sorted(float(cycles) for cycles, _ in rows))
            again = aulec(self.mha, *options, "--emit=shapes", f"--shape={rows[0][1]}")
            self.expect(again, 0)
            self.assertIn(f"taken {float(rows[0][0]):7.1f} ", again.stdout.decode())

    def test_few_packed_rows(self):
        """Golden texts: kernels of few queries that are packed, over pages, by a list of equal parts, alone, and beside many."""
        root = EXAMPLES.parents[2]
        options = ["--target=cuda", "--arch=sm_80", "--dtype=bf16", "--width=D=64", "--no-grad", "--layout=S=packed:most,T=paged", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/gqa.attn", *options, "-o", "-")
        self.expect(made, 0)
        programs = [text.split("// ---- hooks inlined")[0] for text in made.stdout.decode().split("// ==== ")[1:]]
        for name, golden in ((" start=3", "shares"), ("warps_decode", "few"), ("warps_mixed", "mixed")):
            written = "".join(f"// ==== {text}" for text in programs if name in text.splitlines()[0] and (" start=" in text.splitlines()[0]) == (golden == "shares"))
            self.assertEqual(written, (root / f"tests/golden/tiled-ir/{golden}.tile").read_text())

    def test_few_rows_without_matrices(self):
        """A golden text: few queries over pages by multiply-adds of a warp; who has none of them, and shapes that do not do."""
        root = EXAMPLES.parents[2]
        options = ["--target=opencl", "--dtype=bf16", "--width=D=64", "--no-grad", "--layout=S=packed:most,T=paged", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/gqa.attn", *options, "-o", "-")
        programs = [text for text in made.stdout.decode().split("// ==== ")[1:] if "lanes_packed" in text.splitlines()[0]]
        self.assertEqual("// ==== " + programs[0].split("// ---- hooks inlined")[0], (root / "tests/golden/tiled-ir/few_lanes.tile").read_text())
        for given, why in (("keys=40", "tiles of 40 keys, no multiple of 32"), ("rows=64 keys=128", "bytes of shared memory")):
            self.expect(aulec(root / "attn_scripts/gqa.attn", *options, f"--shape=lanes_packed: {given}", "-o", "-"), 2, why)
        for more in (["--width=D=72"], ["--width=D=64", "--storage=i4", "--layout=T=paged"]):  # rows that are no whole pieces, codes with scales of groups
            self.assertNotIn(b"lanes_packed", aulec(root / "attn_scripts/gqa.attn", *options[:2], "--no-grad", "--emit=tiled-ir", *more, "-o", "-").stdout)
        made = aulec(root / "attn_scripts/gqa.attn", "--target=cuda", "--arch=sm_80", "--dtype=f32,bf16", "--width=D=64", "--no-grad", "--emit=tiled-ir", "-o", "-")
        self.assertEqual({line.split(",")[1].strip() for line in made.stdout.decode().splitlines() if "lanes_packed" in line}, {"f32"})

    def test_pages_by_boxes(self):
        """A golden text: few queries beside many, whose keys come from pages by boxes; those for few are as they are alone."""
        root = EXAMPLES.parents[2]
        options = ["--target=cuda", "--arch=sm_90a", "--dtype=bf16", "--width=D=64", "--no-grad", "--layout=S=packed:most,T=paged", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/gqa.attn", *options, "-o", "-")
        self.expect(made, 0)
        programs = [text for text in made.stdout.decode().split("// ==== ")[1:] if "group_mixed" in text.splitlines()[0]]
        self.assertEqual(len(programs), 1)
        written, whole = programs[0].split("// ---- hooks inlined")
        self.assertEqual("// ==== " + written, (root / "tests/golden/tiled-ir/pages.tile").read_text())
        for text in (written, whole):  # their maxima are exact, though those of the others may lie behind
            self.assertEqual(text.count("on warp exact {"), 2)
        made = aulec(root / "attn_scripts/gqa.attn", *options, "--shape=group_forward: keys=64", "-o", "-")
        self.assertEqual(len(re.findall(rb"group_(?:mixed|forward): groups=3 keys=64 ", made.stdout)), 2)
        made = aulec(root / "attn_scripts/mla_decode.attn", *[x for x in options if not x.startswith("--width")], "-o", "-")
        programs = re.findall(rb"// ==== .*: (\w+): .*", made.stdout)  # of any number of rows the last one, whatever the size of pages
        self.assertEqual((programs[-1], b"lanes_forward" in programs), (b"warps_wide", False))

    def test_wide_values_by_groups(self):
        """A golden text: latent attention of some queries over pages by groups of warps, whose keys two roles have."""
        root = EXAMPLES.parents[2]
        options = ["--target=cuda", "--arch=sm_90a", "--dtype=bf16", "--no-grad", "--layout=T=paged", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/mla_decode.attn", *options, "-o", "-")
        self.expect(made, 0)
        programs = [text for text in made.stdout.decode().split("// ==== ")[1:] if "group_wide" in text.splitlines()[0]]
        self.assertEqual([" start=" in text.splitlines()[0] for text in programs], [True, False, False])
        self.assertEqual("// ==== " + programs[1].split("// ---- hooks inlined")[0], (root / "tests/golden/tiled-ir/wide.tile").read_text())

    def test_gradients_of_few_queries(self):
        """A golden text: kernels of gradients of few queries, causal, of heads that share keys; who has none says why."""
        root = EXAMPLES.parents[2]
        options = ["--target=cuda", "--arch=sm_80", "--dtype=bf16", "--width=D=64", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/gqa.attn", *options, "-o", "-")
        self.expect(made, 0)
        programs = [text.split("// ---- hooks inlined")[0] for text in made.stdout.decode().split("// ==== ")[1:]]
        written = "".join(f"// ==== {text}" for text in programs if "warps_back_few" in text)
        self.assertEqual(written, (root / "tests/golden/tiled-ir/back_few.tile").read_text())
        made = aulec(root / "attn_scripts/alibi.attn", *options, "-o", "-")
        self.assertIn(b" # few queries, too: gradients of inputs that pairs read", made.stdout)
        made = aulec(root / "attn_scripts/gqa.attn", *options, "--shape=warps_back_few: queries=24", "-o", "-")
        self.expect(made, 2, "warps_back_few: queries=24 does not do for bf16 backward on sm_80")

    def test_new_rows_of_a_cache(self):
        """A golden text: kernels of append, by slots and at the ends of packed sequences, keys as they are and values as codes with a scale a token."""
        root = EXAMPLES.parents[2]
        options = ["--target=cuda", "--arch=sm_80", "--dtype=bf16", "--width=D=64", "--append", "--layout=S=packed,T=paged", "--storage=v=e4m3:token", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/gqa.attn", *options, "-o", "-")
        self.expect(made, 0)
        programs = [text.split("// ---- hooks inlined")[0] for text in made.stdout.decode().split("// ==== ")[1:]]
        written = "".join(f"// ==== {text}" for text in programs if "lanes_append" in text)
        self.assertEqual(written, (root / "tests/golden/tiled-ir/append.tile").read_text())
        self.expect(aulec(root / "attn_scripts/gqa.attn", "--append", "--emit=obj", "-o", "-"), 2, "--append: it is for artifacts: static builds have no function of 'append'")
        self.expect(aulec(root / "attn_scripts/gqa.attn", "--append", "--checked", "-o", "-"), 2, "--append: not with --checked yet")

    def test_codes_that_become_elements(self):
        """A golden text: the kernel of few queries over keys with scales along channels, and values of 4 bits with zero points."""
        root = EXAMPLES.parents[2]
        options = ["--target=cuda", "--arch=sm_80", "--dtype=bf16", "--width=D=64", "--storage=k=e4m3:channels32,v=i4:token:zero", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/gqa.attn", *options, "-o", "-")
        self.expect(made, 0)
        programs = [text.split("// ---- hooks inlined")[0] for text in made.stdout.decode().split("// ==== ")[1:]]
        written = "".join(f"// ==== {text}" for text in programs if "warps_decode" in text)
        self.assertEqual(written, (root / "tests/golden/tiled-ir/codes.tile").read_text())

        self.expect(aulec(root / "attn_scripts/gqa.attn", "--storage=e4m3:channels48", "--width=D=64", "-o", "-"), 1, "--storage: k: 64 channels do not consist of groups of 48")

    def test_what_is_wrong_with_a_table_of_shapes(self):
        options = ["--target=cuda", "--arch=sm_90", "--dtype=bf16", "--width=D=64", "--no-grad", "--emit=tiled-ir"]
        table = self.folder / "my.shapes"
        for row, place, words in (("sm_90 bf16 64 wide warps_forward: keys=32", "2:15: error E0601", "number"),
                                  ("sm_99 bf16 64 64 warps_forward: keys=32", "2:1: error E0601", "'sm_99' is no machine; expected sm_70, "),
                                  ("sm_90 f64 64 64 warps_forward: keys=32", "2:7: error E0601", "'f64' is no operand type; expected f32, tf32"),
                                  ("sm_90 bf16 0 64 warps_forward: keys=32", "2:12: error E0601", "a width is 1 to 1024"),
                                  ("sm_90 bf16 64 64 lines_forward: keys=32", "2:18: error E0601", "expected warps_forward, "),
                                  ("sm_90 bf16 64 64 causal window warps_forward: keys=32", "2:25: error E0601", "a row has one mask, and this has 'causal'"),
                                  ("sm_90 bf16 64 64 warps_forward: keys=3\0", "", "zero bytes")):
            table.write_text(f"# mine\n{row}\n")
            done = aulec(self.mha, *options, f"--shapes={table}")
            self.expect(done, 2, words, f"my.shapes:{place}" if place else "my.shapes")
        # The rule decides: the row is a wish, which is said.
        rule = aulec(self.mha, *options)
        for row, words in (("sm_90 bf16 64 64 warps_forward: keys=24", ":2:1: warning W0601: this row does not do for bf16 forward of 'mha' on sm_90"),
                           ("sm_90 bf16 64 64 full warps_forward: keys=32", ":2:1: note N0602: a row of this table is for none"),
                           ("avx2 f32 64 64 lanes_forward: keys=16", ":2:1: note N0602: a row of this table is for none"),
                           ("sm_90 bf16 64 64 lanes_forward: keys=16\nsm_90 f16 64 64 warps_forward: keys=32", "none of the kernels that are compiled: lines 2, 3")):
            table.write_text(f"# mine\n{row}\n")
            done = aulec(self.mha, *options, f"--shapes={table}")
            self.expect(done, 0, words)
            self.assertEqual(done.stdout, rule.stdout)
        # .. also where it shows when kernels are made
        table.write_text("avx2 f32 64 64 lanes_forward: keys=1024 registers=64\n")
        self.expect(aulec(self.mha, *NARROW, "--emit=kernel-ir", f"--shapes={table}"), 0, "W0601", "registers a lane")

    def test_a_long_one_on_a_terminal_says_how_long_it_was(self):
        for stage, words in (("kernel-ir", b" lines; -o FILE keeps them"), ("ast", b"")):
            ours, theirs = os.openpty()
            with subprocess.Popen([AULEC, self.mha, "--emit", stage, "--dtype=f32"], stdout=theirs, stderr=subprocess.PIPE) as running:
                os.close(theirs)
                try:
                    while os.read(ours, 1 << 16):
                        pass
                except OSError:  # the terminal's other end is closed
                    pass
                said = running.stderr.read()
            os.close(ours)
            self.assertEqual(running.returncode, 0, said)
            self.assertIn(words, said)
            self.assertEqual(bool(words), bool(said))

    def test_version_and_help(self):
        self.assertRegex(aulec("--version").stdout.decode(), r"^aulec \d+\.\d+\.\d+\n$")
        self.assertIn(b"--emit", aulec("--help").stdout)


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
    unittest.main(argv=sys.argv[:1] + (sys.argv[3:] or ["BadScripts", "BadOptions", "Examples", "Readme"]), testLoader=PartLoader())
