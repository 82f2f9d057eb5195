"""Artifacts compiled with --checked, run by `aule run`: which index left its tensor, in which line; what is not chosen does not count.
Standard library only. With AULE_TEST_DEVICE=cuda (or hip: tests/emulate) on that device alone.

    checked_test.py AULEC AULE [TEST...]
"""
import os
import platform
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from math import prod
from pathlib import Path

AULEC, AULE = (os.path.abspath(path) for path in sys.argv[1:3])
SHAPES = {"q": (2, 3, 20, 16), "k": (2, 3, 37, 16), "v": (2, 3, 37, 16), "do": (2, 3, 20, 16)}
HEAD = "attention a {\n    q: [B, H, S, D];\n    k: [B, H, T, D];\n    v: [B, H, T, E];\n"
ARCH = {"cuda": ["--arch", "sm_70"], "hip": ["--arch", "gfx942"]} | ({"cpu": ["--arch", "x86-64-v3"]} if platform.machine() == "x86_64" else {})
N = 8  # entries of the table

# What reads a table at x[b, kv_idx] (or at x[b, q_idx]), on line 7; and the row that the message tells of.
READS = {
    "score_mod": ("score_mod(s, b) = s + table[x[b, kv_idx]];", "q_idx"),
    "mask": ("mask(b, h, i, j) = table[x[b, j]] < 100.0;", "q_idx"),
    "weight_mod": ("weight_mod(p, b) = p * table[x[b, kv_idx]];", "q_idx"),
    "k_mod": ("k_mod(row, b) = row * table[x[b, kv_idx]];", "kv_idx"),
    "v_mod": ("v_mod(row, b) = row * table[x[b, kv_idx]];", "kv_idx"),
    "q_mod": ("q_mod(row, b) = row * table[x[b, q_idx]];", "q_idx"),
    "out_mod": ("out_mod(row, b) = row * table[x[b, q_idx]];", "q_idx"),
}
# The key 7 of batch 1 is bad; these do not choose it.
PROTECTED = {
    "where": "score_mod(s, b) = s + where(kv_idx == 7, 0.0, table[x[b, kv_idx]]);",
    "the other branch": "score_mod(s, b) = s + where(x[b, kv_idx] < N, table[x[b, kv_idx]], 0.0);",
    "and": "mask(b, h, i, j) = x[b, j] < N && table[x[b, j]] < 100.0;",
    "or": "mask(b, h, i, j) = x[b, j] >= N || table[x[b, j]] < 100.0;",
    "the mask": "score_mod(s, b) = s + table[x[b, kv_idx]]; mask(b, h, i, j) = j != 7;",
    "a score of -inf": "score_mod(s) = where(kv_idx == 7, -inf, s); weight_mod(p, b) = p * table[x[b, kv_idx]];",
    "two ways": "score_mod(s, b) { let t = table[x[b, kv_idx]]; return s + where(kv_idx < 7, t, 0.0) + where(kv_idx > 7, t, 0.0); }",
}


def write_npy(path, shape, values, letter):
    text = f"{{'descr': '<{letter}4', 'fortran_order': False, 'shape': {shape + (0,) if not shape else tuple(shape)}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    body = struct.pack(f"<{len(values)}{'f' if letter == 'f' else 'i'}", *values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + body)


def devices():
    said = subprocess.run([AULE, "devices"], capture_output=True, text=True).stdout
    if "AULE_TEST_DEVICE" in os.environ:
        return [os.environ["AULE_TEST_DEVICE"]]
    return ["cpu"] + (["opencl"] if "\nopencl:0" in "\n" + said else [])


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.random = random.Random(1)
        self.inputs = {}

    def given(self, name, shape, values=None):
        letter = "f" if values is None else "i"
        if values is None:
            values = [self.random.gauss(0, 1) for _ in range(prod(shape))]
        write_npy(self.folder / f"{name}.npy", shape, values, letter)
        self.inputs[name] = self.folder / f"{name}.npy"

    def indices(self, bad=None, at=37 + 7):
        values = [self.random.randrange(N) for _ in range(2 * 37)]
        if bad is not None:
            values[at] = bad
        self.given("x", (2, 37), values)

    def compiled(self, clause, target, *options):
        script, artifact = self.folder / "docs.attn", self.folder / f"docs-{target}{len(options)}.so"
        script.write_text(HEAD + "    input x: i32[B, T];\n    input table: f32[N] grad;\n    " + clause + "\n    online softmax;\n}\n")
        done = subprocess.run([AULEC, script, "--target", target, "--dtype", "f32", "--width", "D=16", "-O1", *ARCH.get(target, []), *options, "-o", artifact],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return artifact

    def run_it(self, artifact, target, backward=True):
        for name, shape in SHAPES.items():
            if name not in self.inputs:
                self.given(name, shape)
        if "table" not in self.inputs:
            self.given("table", (N,))
        named = [word for name, path in self.inputs.items() if name != "do" for word in ("--" + name, path)]
        given = ["--dout", self.inputs["do"]] if backward else []
        return subprocess.run([AULE, "run", artifact, *named, *given, "--backend", target, "-o", self.folder / "out"],
                              capture_output=True, text=True, timeout=120)

    def results(self):
        return {path.name: path.read_bytes() for path in sorted((self.folder / "out").iterdir())}


class Checked(Case):
    def test_what_is_right_gives_the_same_bits(self):
        self.indices()
        for target in devices():
            with self.subTest(target):
                clause = READS["score_mod"][0]
                self.assertEqual(self.run_it(self.compiled(clause, target, "--deterministic"), target).returncode, 0)
                unchecked = self.results()
                artifact = self.compiled(clause, target, "--deterministic", "--checked")
                done = self.run_it(artifact, target)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(self.results(), unchecked)
                said = subprocess.run([AULE, "inspect", artifact], capture_output=True, text=True).stdout
                self.assertRegex(said, r"kernel forward: .*, checks 1 indices\n")
                self.assertRegex(said, r"kernel backward: .*, checks 1 indices\n")

    def test_the_line_and_the_numbers_are_named(self):
        self.indices(N + 5)
        for target in devices():
            for place, (clause, row) in READS.items() if target != "opencl" else list(READS.items())[:1]:
                with self.subTest(f"{place} on {target}"):
                    done = self.run_it(self.compiled(clause, target, "--checked", "--no-grad"), target, False)
                    self.assertEqual(done.returncode, 1)
                    where = f"docs.attn:7:{5 + clause.index('table')}"
                    number = 0 if place in ("score_mod", "mask", "weight_mod") else 7
                    self.assertIn(f"{where}: index 13 on axis 0 of 'table' is not in [0, 8) (b 1, h 0, {row} {number})", done.stderr)
                    self.assertFalse((self.folder / "out" / "o.npy").exists())

    def test_below_zero(self):
        self.indices(-3)
        target = devices()[0]
        done = self.run_it(self.compiled(READS["score_mod"][0], target, "--checked", "--no-grad"), target, False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("index -3 on axis 0 of 'table' is not in [0, 8)", done.stderr)

    def test_what_is_not_chosen_does_not_count(self):
        self.indices(N + 5)
        for what, clause in PROTECTED.items():
            for target in devices() if what in ("where", "the mask") else devices()[:1]:
                with self.subTest(f"{what} on {target}"):
                    done = self.run_it(self.compiled(clause, target, "--checked", "--no-grad"), target, False)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_without_it_indices_are_clamped(self):
        self.indices(N + 5)
        target = devices()[0]
        self.assertEqual(self.run_it(self.compiled(READS["score_mod"][0], target, "--no-grad"), target, False).returncode, 0)

    def test_numbers_of_64_bits_are_read_as_their_low_32(self):
        """As the pages say: no mode looks for what does not fit."""
        script, artifact = self.folder / "wide.attn", self.folder / "wide.so"
        script.write_text(HEAD + "    input x: i64[T];\n    input table: f32[N];\n    score_mod(s) = s + table[x[kv_idx]];\n    online softmax;\n}\n")
        target = devices()[0]
        made = subprocess.run([AULEC, script, "--target", target, "--dtype", "f32", "--width", "D=16", "--no-grad", "--checked", *ARCH.get(target, []),
                               "-o", artifact], capture_output=True, text=True, timeout=120)
        self.assertEqual(made.returncode, 0, made.stderr)
        results = []
        for wide in (0, 1 << 32):
            values = struct.pack("<37q", *(n % N + wide for n in range(37)))
            head = "{'descr': '<i8', 'fortran_order': False, 'shape': (37,), }"
            head += " " * (-(len(head) + 11) % 64) + "\n"
            self.inputs["x"] = self.folder / "x.npy"
            self.inputs["x"].write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + values)
            done = self.run_it(artifact, target, False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            results.append(self.results()["o.npy"])
        self.assertEqual(*results)


class Lists(Case):
    """Where sequences begin, and which state is whose, of recurrences: they fail the call on every target, by name."""

    RECURRENCE = "attention r {\n    q: [B, H, T, K];\n    k: [B, H, T, K];\n    v: [B, H, T, V];\n    linear { decay = 0.5; }\n}\n"
    WRONG = {
        "begins": ([1, 5, 19], "cu_seqlens begins with 1, expected 0"),
        "decreases": ([0, 12, 5, 19], "cu_seqlens decreases at 2: 5 after 12"),
        "too long": ([0, 5, 20], "cu_seqlens ends with 20, there are 19 tokens"),
        "does not end": ([0, 5, 18], "cu_seqlens ends with 18, there are 19 tokens"),
    }

    def artifact(self, target, *options):
        script, artifact = self.folder / "r.attn", self.folder / f"r-{target}{len(options)}.so"
        script.write_text(self.RECURRENCE)
        done = subprocess.run([AULEC, script, "--target", target, "--dtype", "f32", "--width", "K=8", "--width", "V=8", "-O1", *ARCH.get(target, []),
                               *options, "-o", artifact], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return artifact

    def run_lists(self, artifact, target, lists, *options):
        self.given("cu_seqlens", (len(lists),), lists)
        named = [word for name in ("q", "k", "v", "cu_seqlens") for word in ("--" + name, self.inputs[name])]
        return subprocess.run([AULE, "run", artifact, *named, *options, "--backend", target, "-o", self.folder / "out"],
                              capture_output=True, text=True, timeout=120)

    def test_wrong_sequences_are_named(self):
        for name in ("q", "k", "v", "do"):
            self.given(name, (1, 2, 19, 8))
        for target in devices():
            artifact = self.artifact(target, "--checked")
            for what, (lists, message) in self.WRONG.items():
                with self.subTest(f"{what} on {target}"):
                    done = self.run_lists(artifact, target, lists)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn("r: " + message, done.stderr)
            with self.subTest(f"right on {target}"):
                done = self.run_lists(artifact, target, [0, 5, 5, 19])
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("checks 1 lists", subprocess.run([AULE, "inspect", artifact], capture_output=True, text=True).stdout)
            with self.subTest(f"gradients on {target}"):
                done = self.run_lists(artifact, target, [0, 12, 5, 19], "--dout", self.inputs["do"])
                self.assertEqual(done.returncode, 1)
                self.assertIn("cu_seqlens decreases", done.stderr)

    def test_without_it_devices_take_them_as_parts_of_the_tensors(self):
        for name in ("q", "k", "v"):
            self.given(name, (1, 2, 19, 8))
        for target in devices()[1:]:
            self.assertEqual(self.run_lists(self.artifact(target, "--no-grad"), target, [0, 12, 5, 19]).returncode, 0)


class Empty(Case):
    """Tensors without elements: an index cannot be clamped into them, so that the call is refused; what is read along its own axis is not."""

    def test_a_table_without_elements_is_refused(self):
        self.indices()
        self.given("table", (0,))
        for target in devices():
            for clause, _ in READS.values() if target == "cpu" else list(READS.values())[:1]:
                with self.subTest(f"{clause} on {target}"):
                    done = self.run_it(self.compiled(clause, target), target)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn("docs.attn:7: axis 0 of 'table', which is read here, has elements, with N = 0", done.stderr)

    def test_no_keys(self):
        for name, shape in {**SHAPES, "k": (2, 3, 0, 16), "v": (2, 3, 0, 16)}.items():
            self.given(name, shape)
        self.given("x", (2, 0), [])
        target = devices()[0]
        done = self.run_it(self.compiled(READS["score_mod"][0], target), target)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(set(self.results()["o.npy"][-4 * prod(SHAPES["do"]):]), {0})
        done = self.run_it(self.compiled("score_mod(s, b) = s + table[x[b, q_pos]];", target), target)  # of the keys' axis, but not along it
        self.assertEqual(done.returncode, 1)
        self.assertIn("docs.attn:7: axis 1 of 'x', which is read here, has elements, with T = 0", done.stderr)


sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from parts import PartLoader

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], testLoader=PartLoader())
