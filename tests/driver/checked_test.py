"""Artifacts compiled with --checked, run by `aule run`: which index left its tensor, in which line; what is not chosen does not count.
Standard library only. With AULE_TEST_DEVICE=cuda (or hip: tests/emulate) on that device alone.

    checked_test.py AULEC AULE [TEST...]
"""
import os
import platform
import random
import re
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


KINDS = {"f": "<f4", "i": "<i4", "q": "<i8", "B": "|u1"}  # struct's letters


def write_npy(path, shape, values, letter):
    text = f"{{'descr': '{KINDS[letter]}', 'fortran_order': False, 'shape': {shape + (0,) if not shape else tuple(shape)}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + struct.pack(f"<{len(values)}{letter}", *values))


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

    def given(self, name, shape, values=None, letter=None):
        letter = letter or ("f" if values is None else "i")
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
                    self.assertEqual(done.returncode, 1, done.stderr)
                    where = f"docs.attn:7:{5 + clause.index('table')}"
                    number = 0 if place in ("score_mod", "mask", "weight_mod") else 7
                    self.assertIn(f"{where}: index 13 on axis 0 of 'table' is not in [0, 8) (b 1, h 0, {row} {number})", done.stderr)
                    self.assertFalse((self.folder / "out" / "o.npy").exists())

    def test_below_zero(self):
        self.indices(-3)
        target = devices()[0]
        done = self.run_it(self.compiled(READS["score_mod"][0], target, "--checked", "--no-grad"), target, False)
        self.assertEqual(done.returncode, 1, done.stderr)
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
            self.given("x", (37,), [n % N + wide for n in range(37)], "q")
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
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn("r: " + message, done.stderr)
            with self.subTest(f"right on {target}"):
                done = self.run_lists(artifact, target, [0, 5, 5, 19])
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("checks 1 lists", subprocess.run([AULE, "inspect", artifact], capture_output=True, text=True).stdout)
            with self.subTest(f"gradients on {target}"):
                done = self.run_lists(artifact, target, [0, 12, 5, 19], "--dout", self.inputs["do"])
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("cu_seqlens decreases", done.stderr)

    def test_without_it_devices_take_them_as_parts_of_the_tensors(self):
        for name in ("q", "k", "v"):
            self.given(name, (1, 2, 19, 8))
        for target in devices()[1:]:
            self.assertEqual(self.run_lists(self.artifact(target, "--no-grad"), target, [0, 12, 5, 19]).returncode, 0)


class Layouts(Case):
    """Rows in layouts: an index is told with the numbers of its own sequence; what lies behind the end of one does not count; and of lists
    that say where sequences are, what is wrong with them, on devices, too."""

    B, ROOM = 3, 24
    LENGTHS, QUERIES = [24, 11, 0], [5, 9, 2]  # the last sequence has no keys
    SLOTS = 4
    CLAUSES = {
        "of a key": ("score_mod(s, b) = s + table[x[b, kv_idx]];", "q_idx 0"),
        "of a key's row": ("v_mod(row, b) = row * table[x[b, kv_idx]];", "kv_idx 7"),
        "of a query": ("q_mod(row, b) = row * table[y[b, q_idx]];", "q_idx 4"),
    }
    LAYOUTS = ("T=padded", "T=padded:rows", "T=paged", "T=paged:csr", "S=packed,T=packed", "S=packed,T=paged", "S=packed:most,T=paged", "S=padded")

    def artifact(self, clause, target, layout, *options):
        script = self.folder / "rows.attn"
        script.write_text(HEAD + "    input x: i32[B, T];\n    input y: i32[B, S];\n    input table: f32[N];\n    " + clause + "\n    online softmax;\n}\n")
        artifact = self.folder / f"rows-{target}.so"
        done = subprocess.run([AULEC, script, "--target", target, "--dtype", "f32", "--width", "D=8;E=8", "-O1", "--no-grad", *(["--layout", layout] if layout else []),
                               *ARCH.get(target, []), *options, "-o", artifact], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return artifact

    @staticmethod
    def starts(lengths):
        return [sum(lengths[:n]) for n in range(len(lengths) + 1)]

    def calls(self, layout, bad=None, behind=None, **lists):
        """Tensors of a call. [bad]: at key 7, and at query 4, of sequence 1; [behind]: where no sequence has one. [lists]: others than the right ones."""
        packed_q, packed_k, paged = "S=packed" in layout, "T=packed" in layout, "T=paged" in layout
        padded_q = "S=padded" in layout
        keys = self.LENGTHS if not padded_q else [self.ROOM] * self.B
        queries = self.QUERIES if packed_q or padded_q else [9] * self.B
        rows = {"x": (keys, packed_k, self.ROOM, 7), "y": (queries, packed_q, 9, 4)}
        self.inputs = {}
        for name, (lengths, packed, room, at) in rows.items():
            values = [[self.random.randrange(N) if n < lengths[b] else behind or 0 for n in range(lengths[b] if packed else room)] for b in range(self.B)]
            if bad is not None:
                values[1][at] = bad
            flat = sum(values, [])
            if packed:
                flat += [behind or 0] * 3
            self.given(name, (1, len(flat)) if packed else (self.B, room), flat)
        self.given("table", (N,))
        total_q, total_k = sum(queries) + 3, sum(keys) + 3
        self.given("q", (1, 2, total_q, 8) if packed_q else (self.B, 2, 9, 8))
        pages = self.B * self.ROOM // self.SLOTS
        for name in ("k", "v"):
            self.given(name, (pages, 2, self.SLOTS, 8) if paged else (1, 2, total_k, 8) if packed_k else (self.B, 2, self.ROOM, 8))
        numbers = {}
        if packed_q:
            numbers["S_starts"] = self.starts(queries)
        if packed_k:
            numbers["T_starts"] = self.starts(keys)
        elif layout and not padded_q:
            numbers["T_lengths"] = keys
        if padded_q:
            numbers["S_lengths"] = queries
        if ":rows" in layout:
            numbers["T_rows"] = [0, 1, 2]
        if paged:
            numbers["T_table"] = list(range(pages))
        if ":csr" in layout:
            numbers["T_table_starts"] = [0, pages // 3, 2 * pages // 3, pages]
        for name, values in (numbers | lists).items():
            line = name == "T_table" and ":csr" not in layout
            self.given(name, (self.B, len(values) // self.B) if line else (len(values),), values)
        self.most = ["--S_most", "9"] if ":most" in layout else []

    def run_rows(self, artifact, target):
        named = [word for name, path in self.inputs.items() for word in ("--" + name, path)]
        return subprocess.run([AULE, "run", artifact, *named, *self.most, "--backend", target, "-o", self.folder / "out"], capture_output=True, text=True,
                              timeout=120)

    def test_indices_have_the_numbers_of_their_sequence(self):
        for target in devices():
            for layout in self.LAYOUTS if target == "cpu" else self.LAYOUTS[2:6:3]:
                clauses = self.CLAUSES if target == "cpu" else list(self.CLAUSES)[:1]
                for what in clauses:
                    clause, row = self.CLAUSES[what]
                    with self.subTest(f"{what}, {layout}, {target}"):
                        artifact = self.artifact(clause, target, layout, "--checked")
                        self.calls(layout, N + 5)
                        done = self.run_rows(artifact, target)
                        self.assertEqual(done.returncode, 1, done.stderr)
                        self.assertIn(f"rows.attn:8:{5 + clause.index('table')}: index 13 on axis 0 of 'table' is not in [0, 8) (b 1, h 0, {row})", done.stderr)
                        self.calls(layout, behind=N + 5)
                        done = self.run_rows(artifact, target)
                        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_axis_ends_where_the_sequence_does(self):
        """`T` in an index is the sequence's own, whatever the tensor has room for."""
        clause = "score_mod(s, b) = s + where(q_idx == 3, f32(x[b, kv_idx + 1]), 0.0);"
        for layout, length in (("T=padded", 24), ("T=paged", 24), ("S=packed,T=packed", 24)):
            with self.subTest(layout):
                self.calls(layout)
                done = self.run_rows(self.artifact(clause, "cpu", layout, "--checked"), "cpu")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"index {length} on axis 1 of 'x' is not in [0, {length}) (b 0, h 0, q_idx 3)", done.stderr)

    def test_what_is_right_gives_the_same_bits(self):
        clause = " ".join(clause for clause, _ in self.CLAUSES.values())
        for target in devices():
            for layout in self.LAYOUTS if target == "cpu" else self.LAYOUTS[2:3]:
                with self.subTest(f"{layout}, {target}"):
                    self.calls(layout)
                    self.assertEqual(self.run_rows(self.artifact(clause, target, layout), target).returncode, 0)
                    unchecked = self.results()
                    done = self.run_rows(self.artifact(clause, target, layout, "--checked"), target)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertEqual(self.results(), unchecked)

    def test_wrong_lists_are_named(self):
        wrong = [
            ("T=padded", {"T_lengths": [24, 25, 0]}, "T_lengths[1] is 25, k reaches to 24"),
            ("T=paged", {"T_lengths": [24, 11, -1]}, "T_lengths[2] is -1, the table reaches to 24"),
            ("T=paged", {"T_table": [0, 1, 2, 3, 4, 99] + list(range(12))}, "T_table[0, 5] is 99, there are 18 pages (keys from 20 on)"),
            ("S=packed,T=packed", {"S_starts": [0, 9, 5, 16]}, "S_starts decreases at 2: 5 after 9"),
            ("S=packed,T=packed", {"T_starts": [0, 24, 35, 99]}, "T_starts[3] is 99, k has 38 rows"),
            ("S=padded", {"S_lengths": [5, 10, 2]}, "S_lengths[1] is 10, q has 9 rows"),
        ]
        clause = self.CLAUSES["of a key"][0]
        for target in devices():
            for layout, lists, message in wrong:
                with self.subTest(f"{message}, {target}"):
                    self.calls(layout, **lists)
                    done = self.run_rows(self.artifact(clause, target, layout, "--checked"), target)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn("a: " + message, done.stderr)
                    said = subprocess.run([AULE, "inspect", self.folder / f"rows-{target}.so"], capture_output=True, text=True).stdout
                    self.assertRegex(said, r"checks 1 indices, checks \d lists\n")


class Caches(Layouts):
    """Of `--append`, codes and a server's layouts: what is told is the same, and slots are looked at on devices, too."""

    test_indices_have_the_numbers_of_their_sequence = test_an_axis_ends_where_the_sequence_does = None  # those of Layouts
    test_what_is_right_gives_the_same_bits = test_wrong_lists_are_named = None

    def test_codes(self):
        for target in devices():
            with self.subTest(target):
                artifact = self.artifact(self.CLAUSES["of a key's row"][0], target, "T=paged", "--checked", "--storage", "e4m3")
                self.calls("T=paged", N + 5)
                for name in ("k", "v"):
                    self.given(name, (18, 2, self.SLOTS, 8), [self.random.randrange(112) for _ in range(18 * 2 * self.SLOTS * 8)], "B")
                    self.given(name + "_scale", (self.B, 2, 1, 1))
                done = self.run_rows(artifact, target)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("is not in [0, 8) (b 1, h 0, kv_idx 7)", done.stderr)

    def test_new_rows(self):
        told = (([4, 9, -1], None), ([4, 9, 4], "slots[0, 0] and slots[2, 0] are both 4"), ([4, 99, 5], "slots[1, 0] is 99, there are 72 slots"))
        for target, layout in [(target, layout) for target in devices() for layout in ("T=paged", None)]:
            artifact = self.artifact(self.CLAUSES["of a key"][0], target, layout, "--checked", "--append")
            for operation, (slots, wrong) in [(operation, one) for operation in ("append", "forward") for one in told]:
                with self.subTest(f"{operation}, {layout or 'dense'}, {target}: {wrong}"):
                    self.calls(layout or "")
                    for name in ("q", "x", "y", "table", "T_lengths", "T_table") if operation == "append" else ():
                        self.inputs.pop(name, None)
                    for name in ("k_new", "v_new"):
                        self.given(name, (self.B, 2, 1, 8))
                    self.given("slots", (3, 1), slots, "q")
                    self.most = ["--operation", "append"] if operation == "append" else []
                    done = self.run_rows(artifact, target)
                    self.assertEqual(done.returncode, 1 if wrong else 0, done.stderr)
                    self.assertIn(wrong or "", done.stderr)

    def test_a_server(self):
        script, artifact = self.folder / "rows.attn", self.folder / "served.so"
        script.write_text(HEAD + "    input table: f32[N];\n    score_mod(s) = s + table[kv_idx];\n    online softmax;\n}\n")
        done = subprocess.run([AULEC, script, "--serve", "--checked", "--target", "cpu", "--dtype", "f32", "--width", "D=8;E=8", *ARCH.get("cpu", []), "-o", artifact],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = subprocess.run([AULE, "inspect", artifact], capture_output=True, text=True).stdout
        lists = re.findall(r"^attention (\S+)$|kernel forward: .*(checks 1 indices(?:, checks \d lists)?)", said, re.MULTILINE)
        found = {}
        for name, checks in lists:
            if name:
                found[name] = []
            else:
                found[list(found)[-1]].append(checks)
        self.assertEqual({name: set(checks) for name, checks in found.items()}, {
            "a": {"checks 1 indices"}, "a@T=padded": {"checks 1 indices, checks 1 lists"}, "a@T=paged": {"checks 1 indices, checks 2 lists"},
            "a@S=packed:most,T=paged": {"checks 1 indices, checks 3 lists"}, "a@S=packed:most,T=packed:most": {"checks 1 indices, checks 2 lists"}})


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
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("docs.attn:7: axis 1 of 'x', which is read here, has elements, with T = 0", done.stderr)


sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from parts import PartLoader

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], testLoader=PartLoader())
