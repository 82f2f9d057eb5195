"""The command line `aulec`: scripts that are hard to compile, the texts of its stages, and what they are the same as (tests/golden). Standard library only.

    stages_test.py AULEC EXAMPLES [TEST...]
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from aulec_test import AULEC, EXAMPLES, HEAD, NARROW, QUICK, TAIL, Case, aulec

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from parts import PartLoader

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


class Stages(Case):
    def test_grids_that_overlap(self):
        """Kernels for few queries wait for those before them themselves, as late as they may, on machines that have that; all others do not."""
        options = "--dtype=bf16", "--width=D=64", "--no-grad", "--layout=T=paged:groups", "--emit=kernel-ir"
        for arch, overlaps in (("sm_80", False), ("sm_90", True)):
            done = aulec(self.mha, "--target=cuda", f"--arch={arch}", *options)
            self.expect(done, 0)
            kernels = {k.split(" ", 1)[0]: k for k in done.stdout.decode().split("kernel ")[1:]}
            of = {part: next(k for name, k in kernels.items() if name.endswith(part)) for part in ("decode_prefix", "decode_keys", "decode_forward")}
            handed = {part: re.findall(r"^  grid_wait %(\d+)$", k, re.M) for part, k in of.items()}  # what is to be there before
            lines = {part: [re.sub(r"^grid_wait %\d+$", "grid_wait", line.strip()) for line in k.split("\n")] for part, k in of.items()}
            self.assertEqual([part for part in of if handed[part]], ["decode_prefix", "decode_forward"] if overlaps else [])
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

    def test_grids_that_overlap_with_append(self):
        """Where a call of forward may append rows first, kernels for few queries wait for those rows, the first one too, before they touch the cache."""
        options = "--target=cuda", "--arch=sm_90", "--dtype=bf16", "--width=D=64", "--no-grad", "--layout=T=paged", "--emit=kernel-ir"
        plain, appends = (aulec(self.mha, *options, *more) for more in ((), ("--append",)))
        self.expect(plain, 0)
        self.expect(appends, 0)
        of = {k.split(" ", 1)[0]: k for k in appends.stdout.decode().split("kernel ")[1:]}
        waits = {name: re.search(r"^  grid_wait", k, re.M) for name, k in of.items()}
        self.assertTrue(all(waits[name] for name in of if "decode_" in name))
        for name, k in of.items():
            if "_append_" in name:  # what comes next may begin at once
                self.assertIn("\n  grid_next\n", k)
                self.assertFalse(waits[name])
            elif name.endswith("_keys"):
                self.assertRegex(k, r"(?m)^memory @k: .* earlier$")
            elif name.endswith("_shares"):  # touches nothing of the cache, but ends behind what writes it
                self.assertRegex(k, r"grid_wait.*\n}")
        for k in plain.stdout.decode().split("kernel ")[1:]:
            self.assertNotRegex(k, r"(?m)^memory @k: .* earlier$")

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

    def test_operands_from_memory_as_metal(self):
        """Kernels of Apple's newer family: neither threadgroup memory nor a barrier; and their text."""
        root = EXAMPLES.parents[2]
        made = aulec(self.mha, "--target=metal", "--arch=apple9", "--dtype=f16", "--width=D=16", "--no-grad", "--shape=warps_forward: keys=16 rows=8", "--emit=metal")
        self.expect(made, 0)
        text = made.stdout.decode()
        forward = text[text.index("struct mha_f16_16_16_forward_slots"):]
        self.assertNotIn("threadgroup_barrier", forward)
        self.assertNotIn("threadgroup(0)", forward)
        self.assertEqual(forward, (root / "tests/golden/metal/apple9.metal").read_text())
        made = aulec(self.mha, "--target=metal", "--arch=apple9", "--dtype=bf16", "--width=D=32", "--emit=metal")
        self.expect(made, 0)
        text = made.stdout.decode()
        for kernel in ("dkdv", "dq"):
            found = re.search(rf"kernel void mha_bf16_32_32_backward_{kernel}\(.*?\n}}\n", text, re.S)
            for word in ("threadgroup_barrier", "threadgroup(0)", "atomic"):
                self.assertNotIn(word, found.group(0))

    def test_equal_code_is_there_once(self):
        """Of two architectures whose kernels of a recurrence are the same, in an artifact and in C; kernels that differ are all there."""
        script, options = EXAMPLES / "mamba2.attn", ["--target=metal", "--dtype=f16", "--width=N=16", "--width=P=16", "--no-grad"]
        kernels, tables, sizes = set(), set(), {}
        for archs in ("apple7", "apple9", "apple7,apple9"):
            artifact = self.folder / f"{archs}.so"
            self.expect(aulec(script, *options, f"--arch={archs}", "-o", artifact), 0)
            found = re.findall(rb"kernel void (\w+)\(", artifact.read_bytes())
            self.assertEqual(len(found), len(set(found)))
            made = aulec(script, *options, f"--arch={archs}", "--emit=c")
            self.expect(made, 0)
            source = made.stdout.decode()
            for name in archs.split(","):
                self.assertIn(f'"{name} metal3"', source)
            kernels.add(tuple(found))
            tables.add(len(re.findall(r"(?m)^static const char t\d+\[\] =$", source)))
            sizes[archs] = artifact.stat().st_size
        self.assertEqual((len(kernels), len(tables)), (1, 1))
        self.assertLess(sizes["apple7,apple9"], 1.5 * sizes["apple7"])
        both = aulec(self.mha, "--target=metal", "--arch=apple7,apple9", "--dtype=f16", "--width=D=16", "--no-grad", "-o", self.folder / "mha.so")
        self.expect(both, 0)
        self.assertEqual((self.folder / "mha.so").read_bytes().count(b"kernel void mha_f16_16_16_forward("), 2)

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

    def test_lanes_that_no_device_promises(self):
        """Rows of 1, 8, 16 and 64 lanes use nothing of subgroups: work-groups of four times as many."""
        few = ["--dtype=f32", "--width=D=32", "--width=E=32", "--no-grad", "--emit=spirv-text"]
        for plain in ("vulkan12", "spirv", "levelzero10"):
            for lanes in (1, 8, 16, 64):
                made = aulec(self.mha, *few, f"--arch={plain}-simt{lanes}")
                self.expect(made, 0)
                self.assertRegex(made.stdout, rb"LocalSize %d 1 1" % (4 * lanes))
                self.assertNotRegex(made.stdout, rb"Subgroup|GroupNonUniform")

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
        self.expect(aulec(self.mha, *few, "--arch=generic", "--emit=spirv-text"), 2, "expected spirv-simt1, spirv, spirv-simt8, spirv-simt16, spirv-simt64, spirv-lanes8")
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
        self.assertEqual(len(parts), 10)  # few queries in three forms, and more of them by groups
        ranked = [part for part in parts if "// for tables: sm_90a bf16 128 128 causal long;" in part]
        self.assertEqual([re.search(r"sm_90a: (\w+):", part)[1] for part in ranked], ["group_forward", "group_backward"])
        self.assertTrue(all("// no ranking: only groups of warps on sm_90a" in part for part in parts if part not in ranked))
        self.assertIn("    - groups=3 stages=2 held=0 keys=96  # fragments of 136 registers beside 24 others, where a consumer has 160\n", ranked[0])
        for part in ranked:
            rows = re.findall(r"^ +\d+ +([\d.]+) .*?(group_.*)$", part, re.M)
            self.assertEqual([float(cycles) for cycles, _ in rows], sorted(float(cycles) for cycles, _ in rows))
            again = aulec(self.mha, *options, "--emit=shapes", f"--shape={rows[0][1]}")
            self.expect(again, 0)
            self.assertIn(f"taken {float(rows[0][0]):7.1f} ", again.stdout.decode())

    def test_unranked_shapes(self):
        """--emit=shapes where nothing is ranked: by whom each shape is, and a row for tables, which asks for it."""
        options = ["--target=hip", "--arch=gfx942", "--dtype=f16", "--width=D=64", "--no-grad", "--emit=shapes", "-o", "-"]

        def said(*more):
            made = aulec(self.mha, *options, *more)
            self.expect(made, 0)
            return made.stdout.decode().split("// ==== ")[1:]

        (many,) = [part for part in said() if "apart=0" in part]
        self.assertIn("; this one is by the schedule's rule\n", many)
        row = re.search(r"; for tables: (gfx942 f16 64 64 (warps_forward: .*))\n", many)
        few = [part for part in said() if "apart=1" in part]
        self.assertTrue(few and all("by the schedule's rule, which kernels for few queries keep\n" in part and "for tables" not in part for part in few))
        with tempfile.TemporaryDirectory() as folder:
            table = os.path.join(folder, "own.shapes")
            with open(table, "w") as file:
                file.write(row[1].replace("keys=96", "keys=64") + "\n")
            by_table = said(f"--shapes={table}")
        self.assertTrue(any("keys=64" in part and "; this one is by --shapes\n" in part for part in by_table))
        self.assertTrue(any("; this one is by --shape\n" in part for part in said(f"--shape={row[2]}")))
        made = aulec(self.mha, "--target=cuda", "--arch=sm_90", "--dtype=bf16", "--width=D=64", "--no-grad", "--emit=shapes", "-o", "-")
        self.assertIn("; this one is by the compiler's table\n", made.stdout.decode())

    def test_few_packed_rows(self):
        """Golden texts: kernels of few queries that are packed, over pages, by a list of equal parts, alone, and beside many."""
        root = EXAMPLES.parents[2]
        options = ["--target=cuda", "--arch=sm_80", "--dtype=bf16", "--width=D=64", "--no-grad", "--layout=S=packed:most,T=paged", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/gqa.attn", *options, "-o", "-")
        self.expect(made, 0)
        programs = [text.split("// ---- hooks inlined")[0] for text in made.stdout.decode().split("// ==== ")[1:]]
        for name, golden in ((" start=", "shares"), ("warps_decode", "few"), ("warps_mixed", "mixed")):
            written = "".join(f"// ==== {text}" for text in programs if name in text.splitlines()[0] and (" start=" in text.splitlines()[0]) == (golden == "shares"))
            self.assertEqual(written, (root / f"tests/golden/tiled-ir/{golden}.tile").read_text())

    def test_few_rows_without_matrices(self):
        """Golden texts: few queries over pages by multiply-adds of a warp, alone and beside many; who has none of them, and shapes that do not do."""
        root = EXAMPLES.parents[2]
        options = ["--target=opencl", "--dtype=bf16", "--width=D=64", "--no-grad", "--layout=S=packed:most,T=paged", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/gqa.attn", *options, "-o", "-")
        for name, golden in (("lanes_packed", "few_lanes"), ("lanes_mixed", "mixed_lanes")):
            programs = [text for text in made.stdout.decode().split("// ==== ")[1:] if name in text.splitlines()[0]]
            self.assertEqual("// ==== " + programs[0].split("// ---- hooks inlined")[0], (root / f"tests/golden/tiled-ir/{golden}.tile").read_text())
        for given, why in (("keys=40", "tiles of 40 keys, no multiple of 32"), ("rows=64 keys=128", "bytes of shared memory")):
            self.expect(aulec(root / "attn_scripts/gqa.attn", *options, f"--shape=lanes_packed: {given}", "-o", "-"), 2, why)
        # rows that are no whole pieces
        self.assertNotIn(b"lanes_packed", aulec(root / "attn_scripts/gqa.attn", *options[:2], "--no-grad", "--emit=tiled-ir", "--width=D=72", "-o", "-").stdout)
        made = aulec(root / "attn_scripts/gqa.attn", "--target=cuda", "--arch=sm_80", "--dtype=f32,bf16", "--width=D=64", "--no-grad", "--emit=tiled-ir", "-o", "-")
        self.assertEqual({line.split(",")[1].strip() for line in made.stdout.decode().splitlines() if "lanes_packed" in line}, {"f32"})

    def test_few_rows_of_lanes(self):
        """Golden texts: latent attention on processors, whose values are in the keys' tile, and by multiply-adds of a warp; a prefix of codes; masks of data and of a head."""
        root = EXAMPLES.parents[2]

        def few(golden, script, *options):
            made = aulec(script, *options, "--dtype=f32", "--no-grad", "--emit=tiled-ir", "-o", "-")
            self.expect(made, 0)
            programs = [text for text in made.stdout.decode().split("// ==== ")[1:] if re.search("lanes_(decode|packed)", text.splitlines()[0])]
            self.assertEqual("// ==== " + programs[0].split("// ---- hooks inlined")[0], (root / f"tests/golden/tiled-ir/{golden}.tile").read_text())

        few("latent", root / "attn_scripts/mla_decode.attn", "--target=cpu", "--arch=x86-64-v3", "--layout=T=paged")
        few("latent_lanes", root / "attn_scripts/mla_decode.attn", "--target=opencl")
        few("prefix_lanes", root / "attn_scripts/gqa.attn", "--target=opencl", "--width=D=64", "--layout=T=paged:groups", "--storage=i4:channels32:zero")
        few("by_head", EXAMPLES / "groups.attn", "--target=cpu", "--arch=x86-64-v3", "--width=D=64")

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

    def test_rows_of_heads_by_groups(self):
        """A golden text: more than few rows of the heads that share keys, over pages, by groups of warps that have parts of the keys."""
        root = EXAMPLES.parents[2]
        options = ["--target=cuda", "--arch=sm_90a", "--dtype=bf16", "--width=D=64", "--no-grad", "--layout=T=paged", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/gqa.attn", *options, "-o", "-")
        self.expect(made, 0)
        programs = [text for text in made.stdout.decode().split("// ==== ")[1:] if "group_packed" in text.splitlines()[0]]
        self.assertEqual([" start=" in text.splitlines()[0] for text in programs], [True, False])
        self.assertEqual("// ==== " + programs[1].split("// ---- hooks inlined")[0], (root / "tests/golden/tiled-ir/chunk.tile").read_text())
        made = aulec(root / "attn_scripts/gqa.attn", *options[:3], "--width=D=80", *options[4:], "-o", "-")
        self.expect(made, 0)  # rows that are no multiple of a warp's lanes
        self.assertNotIn(b"group_packed", made.stdout)

    def test_gradients_of_padded_queries(self):
        """A golden text: kernels of gradients of padded queries and keys, and of a slope."""
        root = EXAMPLES.parents[2]
        options = ["--target=cuda", "--arch=sm_80", "--dtype=bf16", "--width=D=64", "--layout=S=padded,T=padded", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/alibi.attn", *options, "-o", "-")
        self.expect(made, 0)
        (program,) = [text.split("// ---- hooks inlined")[0] for text in made.stdout.decode().split("// ==== ")[1:] if "warps_backward" in text.splitlines()[0]]
        self.assertEqual("// ==== " + program, (root / "tests/golden/tiled-ir/padded.tile").read_text())

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
        header = aulec(root / "attn_scripts/gqa.attn", "--target=cpu", "--append", "--parts", "--layout=T=paged", "--emit=header", "-o", "-").stdout.decode()
        structures = {text.split("_args")[0]: text.split("} ")[0] for text in header.split("typedef struct gqa_")[1:]}
        self.assertEqual(list(structures), ["forward", "unfinished", "combine", "append"])
        for size, have in (("new_rows", {"append"}), ("slots_rows", set()), ("parts", {"combine"}), ("T_entries", {"forward", "unfinished", "append"}), ("S", {"forward", "unfinished", "combine"})):
            self.assertEqual({name for name, text in structures.items() if f"int64_t {size};" in text}, have, size)

    def test_codes_that_become_elements(self):
        """A golden text: the kernel of few queries over keys with scales along channels, and values of 4 bits with zero points."""
        root = EXAMPLES.parents[2]
        options = ["--target=cuda", "--arch=sm_80", "--dtype=bf16", "--width=D=64", "--storage=k=e4m3:channels32,v=i4:token:zero", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/gqa.attn", *options, "-o", "-")
        self.expect(made, 0)
        programs = [text.split("// ---- hooks inlined")[0] for text in made.stdout.decode().split("// ==== ")[1:]]
        written = "".join(f"// ==== {text}" for text in programs if "warps_decode" in text)
        self.assertEqual(written, (root / "tests/golden/tiled-ir/codes.tile").read_text())
        # codes that become operands, of up to eight rows
        options = ["--target=cuda", "--arch=sm_90a", "--dtype=bf16", "--width=D=128", "--storage=k=i4:token,v=i8:token", "--layout=T=paged", "--no-grad", "--emit=tiled-ir"]
        made = aulec(root / "attn_scripts/gqa.attn", *options, "-o", "-")
        self.expect(made, 0)
        programs = [text.split("// ---- hooks inlined")[0] for text in made.stdout.decode().split("// ==== ")[1:]]
        written = next(f"// ==== {text}" for text in programs if "mma81616" in text and " start=" not in text.splitlines()[0])
        self.assertEqual(written, (root / "tests/golden/tiled-ir/operands.tile").read_text())

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], testLoader=PartLoader())
