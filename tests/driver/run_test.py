"""`aule run` and `aule inspect` of a recurrence: states in and out, packed sequences, steps on a pool, gradients of states, and what is refused;
of an attention whose keys are in several files, or come into a cache. Expected numbers are loops in Python's own. Standard library only.

    run_test.py AULEC AULE
"""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

AULEC, AULE = (os.path.abspath(path) for path in sys.argv[1:3])
H, T, K, V = 2, 7, 8, 8
SCRIPT = """attention decayed {
    q: [B, H, T, K];
    k: [B, H, T, K];
    v: [B, H, T, V];
    input gate: f32[B, H, T];
    linear { decay = sigmoid(gate); }
}
"""


def write_npy(path, shape, values, letter="f", size=4):
    kind = "i" if letter in "qb" else letter
    text = f"{{'descr': '{'|' if size == 1 else '<'}{kind}{size}', 'fortran_order': False, 'shape': ({''.join(f'{n}, ' for n in shape)}), }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + struct.pack(f"<{len(values)}{letter}", *values))


def read_npy(path):
    data = path.read_bytes()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])


def loop(x, state, first=0, end=T):
    """o [H][t][V] and the state [H][K][V] behind token [end]; x by name, one batch."""
    state = [[list(row) for row in head] for head in state]
    o = []
    for h in range(H):
        rows = []
        for t in range(first, end):
            at = h * T + t
            keep = 1 / (1 + math.exp(-x["gate"][at]))
            q, k, v = (x[n][at * K : at * K + K] for n in "qkv")
            state[h] = [[keep * state[h][c][e] + k[c] * v[e] for e in range(V)] for c in range(K)]
            rows.append([sum(q[c] * state[h][c][e] for c in range(K)) for e in range(V)])
        o.append(rows)
    return o, state


def flat(x):
    return [n for y in x for n in flat(y)] if isinstance(x, list) else [x]


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        (cls.folder / "decayed.attn").write_text(SCRIPT)
        cls.artifact = cls.folder / "decayed.so"
        subprocess.run([AULEC, cls.folder / "decayed.attn", "--target", "cpu", "--dtype", "f32", "--width", "K=8;V=8", "-o", cls.artifact], check=True)
        r = random.Random(1)
        cls.x = {n: [r.uniform(-1, 1) for _ in range(H * T * width)] for n, width in (("q", K), ("k", K), ("v", V), ("gate", 1))}
        for n, values in cls.x.items():
            write_npy(cls.folder / f"{n}.npy", (1, H, T) + (() if n == "gate" else (8,)), values)
        cls.states = [[[[r.uniform(-1, 1) for _ in range(V)] for _ in range(K)] for _ in range(H)] for _ in range(3)]
        write_npy(cls.folder / "first.npy", (1, H, K, V), flat(cls.states[0]))
        write_npy(cls.folder / "three.npy", (3, H, K, V), flat(cls.states))
        cls.tensors = [word for n in cls.x for word in (f"--{n}", f"{n}.npy")]

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def run_tool(self, *words):
        return subprocess.run([AULE, *map(str, words)], cwd=self.folder, capture_output=True, text=True)

    def ran(self, *words):
        done = self.run_tool("run", self.artifact, *self.tensors, *words, "--backend", "cpu", "-o", "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def near(self, name, expected):
        got = read_npy(self.folder / "out" / f"{name}.npy")
        self.assertEqual(len(got), len(expected))
        self.assertLess(max(map(abs, (a - b for a, b in zip(got, expected)))), 1e-5, name)

    def test_states(self):
        zero = [[[0.0] * V for _ in range(K)] for _ in range(H)]
        for words, first in (((), zero), (("--state-in", "first.npy"), self.states[0]), (("--state_in=first.npy",), self.states[0])):
            with self.subTest(words):
                said = self.ran(*words)
                o, state = loop(self.x, first)
                self.near("o", flat(o))
                self.near("state", flat(state))
                self.assertRegex(said, r"out/state.npy: f32 \[1, 2, 8, 8\], by cpu ")

    def test_packed(self):
        write_npy(self.folder / "cu.npy", (4,), [0, 3, 3, 7], "i")
        said = self.ran("--state-in", "three.npy", "--cu-seqlens", "cu.npy")
        parts = [loop(self.x, self.states[n], *ends) for n, ends in enumerate(((0, 3), (3, 3), (3, 7)))]
        self.near("o", flat([parts[0][0][h] + parts[2][0][h] for h in range(H)]))
        self.near("state", flat([state for _, state in parts]))
        self.assertIn("out/state.npy: f32 [3, 2, 8, 8]", said)

    def test_step(self):
        write_npy(self.folder / "slots.npy", (1,), [2], "i")
        said = self.ran("--state", "three.npy", "--slots", "slots.npy")
        o, state = loop(self.x, self.states[2])
        self.near("o", flat(o))
        self.near("state", flat([self.states[0], self.states[1], state]))
        self.assertIn("out/state.npy: f32 [3, 2, 8, 8]", said)

    def test_gradients(self):
        """Of the sum of o: a state before the first token is seen by each token, decayed."""
        write_npy(self.folder / "do.npy", (1, H, T, V), [1.0] * (H * T * V))
        self.ran("--dout", "do.npy", "--state-in", "first.npy")
        want = []
        for h in range(H):
            keep, row = 1.0, [0.0] * K
            for t in range(T):
                at = h * T + t
                keep /= 1 + math.exp(-self.x["gate"][at])
                row = [sum_ + keep * q for sum_, q in zip(row, self.x["q"][at * K : at * K + K])]
            want += [row[c] for c in range(K) for _ in range(V)]
        self.near("dstate_in", want)

    def test_damaged_files_are_refused_before_the_loader_sees_them(self):
        """What the loader reads, the first segment and the dynamic section, wrong in one to four bytes: an answer, never its end."""
        data, r = (self.folder / self.artifact).read_bytes(), random.Random(7)
        count = struct.unpack_from("<H", data, 56)[0]
        parts = [struct.unpack_from("<IIQQQQ", data, 64 + 56 * n) for n in range(count)]
        first = next((offset, length) for kind, _, offset, _, _, length in parts if kind == 1)
        dynamic = next((offset, length) for kind, _, offset, _, _, length in parts if kind == 2)
        bent, refused = self.folder / "bent.so", 0
        for n in range(160):
            wrong = bytearray(data)
            for _ in range(1 + n % 4):
                begin, length = (first, dynamic)[n % 2]
                wrong[begin + r.randrange(length)] = r.randrange(256)
            bent.write_bytes(wrong)
            done = subprocess.run([AULE, "inspect", bent], capture_output=True, text=True)
            self.assertIn(done.returncode, (0, 3), f"try {n}: {done.stderr}")
            refused += "damaged" in done.stderr
        self.assertGreater(refused, 40)
        # What random bytes hardly meet: a segment that nobody may read, a list of functions without a length, names of another library, no end
        at, length = dynamic
        tags = [struct.unpack_from("<Q", data, at + n)[0] for n in range(0, length, 16)]
        list_at, end_at = at + 16 * tags.index(30), at + 16 * tags.index(0)  # DT_FLAGS, DT_NULL
        load_at = 64 + 56 * next(n for n in range(count) if parts[n][0] == 1)
        for place, wrong in ((load_at + 4, 0), (list_at, 26), (end_at, 0x7FFFFFFF), (end_at, 0x7FFFFFFD)):  # DT_FINI_ARRAY, DT_FILTER, DT_AUXILIARY
            bent.write_bytes(data[:place] + struct.pack("<I", wrong) + data[place + 4 :])
            done = subprocess.run([AULE, "inspect", bent], capture_output=True, text=True)
            self.assertIn("damaged", done.stderr)
            self.assertEqual(done.returncode, 3)

    def test_inspect(self):
        done = self.run_tool("inspect", self.artifact)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in (
            r"  state  state_in: f32 \[.*, H, K, V\]", r"  state  state_out: f32 \[.*, H, K, V\]", r"  packed cu_seqlens: i32 \[.*\]",
            r"  pool   state: f32 \[.*, H, K, V\]", r"  slots  slots: i32 \[.*\]", r"  given  dstate_out: f32", r"  made   dstate_in: f32",
            r"  kernel step: cpu",
        ):
            self.assertRegex(done.stdout, f"(?m)^{line}")

    def test_inspect_words(self):
        """What rows of lanes ask of a device: of one lane nothing more than the plainest."""
        made = self.folder / "widths.so"
        (self.folder / "plain.attn").write_text("attention a { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; score_mod(s) = s; online softmax; }")
        for target, plain, needs in (("vulkan", "vulkan12", "shared32k"), ("opencl", "spirv", "SPIR-V_1.0"), ("levelzero", "levelzero10", "SPIR-V_1.0 shared32k")):
            archs = ",".join(f"{plain}-simt{lanes}" for lanes in (1, 8, 16, 64))
            subprocess.run([AULEC, self.folder / "plain.attn", f"--target={target}", f"--arch={archs}", "--dtype=f32", "--width=D=32", "--no-grad", "-o", made], check=True)
            told = self.run_tool("inspect", made).stdout
            for lanes, word in ((1, ""), (8, " subgroup8"), (16, " subgroup16"), (64, " subgroup64")):
                self.assertRegex(told, rf"kernel forward: {target} {plain}-simt{lanes} f32 D=32, needs {needs}{word}, 'lanes_forward")

    def test_refused(self):
        write_npy(self.folder / "cu.npy", (3,), [0, 5, 4], "i")
        write_npy(self.folder / "slots.npy", (1,), [3], "i")
        write_npy(self.folder / "half.npy", (1, H, K, 4), [0.0] * (H * K * 4))
        cases = (
            (("--state", "three.npy", "--slots", "slots.npy"), 1, r"slots\[0\] is 3, there are 3 states \(-1: none\)"),
            (("--state", "three.npy", "--state-in", "first.npy"), 2, "--state_in is not for a step, which --state asks for"),
            (("--state", "three.npy"), 1, "state has 3 elements along axis 0, q has 1: pass slots"),
            (("--slots", "slots.npy"), 2, "--slots is for a step: it needs --state"),
            (("--dstate-out", "first.npy"), 2, "--dstate_out needs --dout"),
            (("--cu-seqlens", "cu.npy"), 1, "cu_seqlens decreases at 2: 4 after 5"),
            (("--state-in", "three.npy"), 1, r"state_in: axis 0 .* has 3 elements, expected 1"),
            (("--state-in", "half.npy"), 1, r"state_in: axis 3 \(V\) has 4 elements, expected 8"),
            (("--state-in", "first.npy", "--state_in", "first.npy"), 2, "--state_in is given twice"),
            (("--state-out", "first.npy"), 2, "unknown option --state-out; decayed takes .* --state_in "),
        )
        for words, status, message in cases:
            with self.subTest(words):
                done = self.run_tool("run", self.artifact, *self.tensors, *words, "--backend", "cpu", "-o", "none")
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertRegex(done.stderr, f"^aule: .*{message}")
                self.assertFalse((self.folder / "none").exists())


SINK = """attention sunk {
    q: [B, H, S, D];
    k: [B, H, T, D];
    v: [B, H, T, E];
    input sink: f32[H];
    score_mod(s) = s * 3.0;
    online softmax_sink(sink[h]);
}
"""


def sunk(q, k, v, sink, keys):
    """o and lse of one batch and head, rows of 8 channels."""
    rows = lambda x: [x[n : n + 8] for n in range(0, len(x), 8)]
    o, lse = [], []
    for row in rows(q):
        scores = [3 * sum(a * b for a, b in zip(row, key)) for key in rows(k)[:keys]]
        weights = [math.exp(s) for s in scores]
        total = sum(weights) + math.exp(sink)
        o.append([sum(w * value[c] for w, value in zip(weights, rows(v))) / total for c in range(8)])
        lse.append(math.log(total))
    return flat(o), lse


class Parts(unittest.TestCase):
    S, T, CUT = 5, 9, 4

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        (self.folder / "sunk.attn").write_text(SINK)
        words = ["--target", "cpu", "--dtype", "f32,f16", "--width", "D=8;E=8", "--parts", "--no-grad", "-o", "sunk.so"]
        subprocess.run([AULEC, "sunk.attn", *words], cwd=self.folder, check=True)
        r = random.Random(2)
        self.x = {n: [r.uniform(-1, 1) for _ in range(count * 8)] for n, count in (("q", self.S), ("k", self.T), ("v", self.T))}
        self.write("q", (1, 1, self.S, 8), self.x["q"])
        self.write("sink", (1,), [0.5])
        for n, (first, end) in enumerate(((0, self.CUT), (self.CUT, self.T))):
            for name in "kv":
                self.write(f"{name}{n}", (1, 1, end - first, 8), self.x[name][first * 8 : end * 8])

    def write(self, name, shape, values):
        write_npy(self.folder / f"{name}.npy", shape, values)

    def run_tool(self, *words):
        return subprocess.run([AULE, "run", "sunk.so", *words, "--backend", "cpu"], cwd=self.folder, capture_output=True, text=True)

    def unfinished(self, n):
        words = ["--operation", "unfinished", "--q", "q.npy", "--k", f"k{n}.npy", "--v", f"v{n}.npy", "--sink", "sink.npy"]
        done = self.run_tool(*words, "-o", f"part{n}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {path.stem: read_npy(path) for path in (self.folder / f"part{n}").iterdir()}

    def combine(self, names, *words):
        return self.run_tool("--operation", "combine", *[w for n in names for w in (f"--{n}_parts", f"{n}.npy")], *words)

    def test_parts(self):
        parts = [self.unfinished(n) for n in range(2)]
        names = sorted(parts[0])
        self.assertEqual([n for n in names if n != "seen"], ["acc", "state_m", "state_r"] if "state_r" in names else ["acc", "state_l", "state_m"])
        for count, keys in ((2, self.T), (1, self.CUT)):
            for n in names:
                shape = (count, 1, 1, self.S) + ((8,) if n == "acc" else ())
                self.write(n, shape, [number for part in parts[:count] for number in part[n]])
            done = self.combine(names, "--sink", "sink.npy", "-o", "whole")
            self.assertEqual(done.returncode, 0, done.stderr)
            for name, expected in zip(("o", "lse"), sunk(*self.x.values(), 0.5, keys)):
                got = read_npy(self.folder / "whole" / f"{name}.npy")
                self.assertLess(max(abs(a - b) for a, b in zip(got, expected, strict=True)), 1e-5)
        self.assertIn("o.npy: f16 [1, 1, 5, 8]", self.combine(names, "--sink", "sink.npy", "--dtype", "f16", "-o", "half").stdout)
        inspected = subprocess.run([AULE, "inspect", "sunk.so"], cwd=self.folder, capture_output=True, text=True).stdout
        for line in (r"  part   acc: f32 \[B, H, S, E\]", r"  parts  acc_parts: f32 \[parts, B, H, S, E\]", "  input  sink: f32 .*, for combine too", "  kernel combine: cpu"):
            self.assertRegex(inspected, f"(?m)^{line}")
        for words, status, message in (
            (("--operation", "join"), 2, "expected unfinished, combine, append or schedule"),
            (("--acc-parts", "acc.npy"), 2, "--acc_parts is for --operation combine"),
            (("--operation", "combine", "--q", "q.npy"), 2, "--q is not for the operation combine"),
            (("--operation", "combine", "--acc-parts", "acc.npy"), 2, "sunk: sink is missing"),
            (("--operation", "combine", "--acc-parts", "acc.npy", "--sink", "sink.npy"), 2, "sunk: state_m_parts is missing"),
            (("--operation", "unfinished", "--acc-parts", "acc.npy"), 2, "--acc_parts is not for the operation unfinished"),
        ):
            done = self.run_tool(*words, "-o", "none")
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stderr, f"^aule: .*{message}")


class Append(unittest.TestCase):
    PAGED = "attention paged { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, D]; online softmax; }"
    PAGES, SLOTS, D = 3, 4, 8

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "paged.attn").write_text(self.PAGED)
        words = ["--target", "cpu", "--dtype", "f32", "--width", "D=8", "--layout", "T=paged", "--storage", "v=i8:token", "--append", "-o", "paged.so"]
        subprocess.run([AULEC, "paged.attn", *words], cwd=self.folder, check=True)
        room = self.PAGES * self.SLOTS
        self.write("k", (self.PAGES, 1, self.SLOTS, self.D), [7.0] * (room * self.D))
        self.write("v", (self.PAGES, 1, self.SLOTS, self.D), [5] * (room * self.D), "b", 1)
        self.write("v_scale", (self.PAGES, 1, self.SLOTS, 1), [9.0] * room)
        self.new = [float(n + 1) for n in range(3 * self.D)]
        for name in ("k_new", "v_new"):
            self.write(name, (1, 1, 3, self.D), self.new)
        self.write("lengths", (1,), [6], "i")
        self.write("table", (1, 2), [2, 0], "i")

    def write(self, name, shape, values, letter="f", size=4):
        write_npy(self.folder / f"{name}.npy", shape, values, letter, size)

    def run_tool(self, *words):
        tensors = [word for name in ("k_new", "v_new", "k", "v", "v_scale") for word in (f"--{name}", f"{name}.npy")]
        return subprocess.run([AULE, "run", "paged.so", *tensors, *words, "--backend", "cpu", "-o", "out"], cwd=self.folder, capture_output=True, text=True)

    def check(self, done, slots, *results):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()), sorted(["k.npy", "v.npy", "v_scale.npy", *results]))
        keys, scales = [7.0] * (self.PAGES * self.SLOTS * self.D), [9.0] * (self.PAGES * self.SLOTS)
        for n, slot in enumerate(slots):
            row = self.new[n * self.D : (n + 1) * self.D]
            if slot >= 0:
                keys[slot * self.D : (slot + 1) * self.D], scales[slot] = row, struct.unpack("f", struct.pack("f", max(row) / 127))[0]
        self.assertEqual(list(read_npy(self.folder / "out/k.npy")), keys)
        self.assertEqual(list(read_npy(self.folder / "out/v_scale.npy")), scales)

    def test_together(self):
        """Rows that are given to the attention are appended first: as by two runs."""
        self.check(self.run_tool("--operation", "append", "--T_lengths", "lengths.npy", "--T_table", "table.npy"), [11, 0, 1])
        lists = ("--q", "k_new.npy", "--T_lengths", "lengths.npy", "--T_table", "table.npy")
        caches = [word for name in ("k", "v", "v_scale") for word in (f"--{name}", f"out/{name}.npy")]
        after = subprocess.run([AULE, "run", "paged.so", *caches, *lists, "--backend", "cpu", "-o", "after"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(after.returncode, 0, after.stderr)
        wanted = list(read_npy(self.folder / "after/o.npy"))
        self.check(self.run_tool(*lists), [11, 0, 1], "o.npy", "lse.npy")
        self.assertEqual(list(read_npy(self.folder / "out/o.npy")), wanted)

    def test_append(self):
        self.write("q_one", (1, 1, 1, self.D), self.new[: self.D])
        self.check(self.run_tool("--operation", "append", "--T_lengths", "lengths.npy", "--T_table", "table.npy"), [11, 0, 1])
        self.write("slots", (1, 3), [5, -1, 2], "q", 8)
        self.check(self.run_tool("--operation", "append", "--slots", "slots.npy"), [5, -1, 2])
        inspected = subprocess.run([AULE, "inspect", "paged.so"], cwd=self.folder, capture_output=True, text=True).stdout
        for line in (r"  new    k_new: operand \[new_batch, Hk, new_rows, D\]", r"  slots  slots: i64 \[new_batch, slots_rows\]", "  input  T_table: i32 .*, for append too",
                     "  input  v_scale: f32 .*, which append writes", "  kernel append: cpu"):
            self.assertRegex(inspected, f"(?m)^{line}")
        self.write("slots", (1, 3), [5, 12, 2], "q", 8)
        for words, status, message in (
            (("--operation", "append", "--slots", "slots.npy"), 1, r"paged: slots\[0, 1\] is 12, there are 12 slots"),
            (("--operation", "append"), 2, "paged: T_table is missing"),
            (("--operation", "append", "--q", "k_new.npy"), 2, "--q is not for the operation append"),
            (("--q", "k_new.npy", "--T_lengths", "lengths.npy"), 2, "paged: T_table is missing"),
            (("--q", "q_one.npy", "--T_lengths", "lengths.npy", "--T_table", "table.npy"), 1, "paged: k_new: axis 2 has 3 elements, expected 1 as in q"),
        ):
            done = self.run_tool(*words)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stderr, f"^aule: .*{message}")


class Schedule(unittest.TestCase):
    PACKED = "attention packed { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; online softmax; }"
    COUNTS, D = (3, 0, 17, 1), 8

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "packed.attn").write_text(self.PACKED)
        words = ["--target", "cpu", "--dtype", "f32", "--width", "D=8", "--no-grad", "--layout", "S=packed,T=packed", "-o", "packed.so"]
        subprocess.run([AULEC, "packed.attn", *words], cwd=self.folder, check=True)
        r, rows = random.Random(2), sum(self.COUNTS)
        for name in "qkv":
            write_npy(self.folder / f"{name}.npy", (1, 2, rows, self.D), [r.uniform(-1, 1) for _ in range(2 * rows * self.D)])
        starts = [sum(self.COUNTS[:n]) for n in range(len(self.COUNTS) + 1)]
        write_npy(self.folder / "starts.npy", (len(starts),), starts, "i")

    def run_tool(self, out, *words, status=0, message=""):
        lists = ("--S_starts", "starts.npy", "--T_starts", "starts.npy")
        command = [AULE, "run", "packed.so", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", *lists, *words, "--backend", "cpu", "-o", out]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(message, done.stderr)
        return sorted(path.name for path in (self.folder / out).iterdir()) if not status else []

    def test_schedule(self):
        """Lists of work that one run writes, and another reads."""
        self.assertEqual(self.run_tool("lists", "--operation", "schedule"), ["work.npy"])
        self.assertEqual(self.run_tool("own"), self.run_tool("given", "--work", "lists/work.npy"))
        self.assertEqual((self.folder / "own/o.npy").read_bytes(), (self.folder / "given/o.npy").read_bytes())
        inspected = subprocess.run([AULE, "inspect", "packed.so"], cwd=self.folder, capture_output=True, text=True).stdout
        self.assertRegex(inspected, r"(?m)^  work   work: i32 \[work_words\]")
        write_npy(self.folder / "short.npy", (1,), [0], "i")
        self.run_tool("x", "--work", "short.npy", status=1, message="packed: work has 1 elements, those of this call are ")
        self.run_tool("x", "--work", "q.npy", status=1, message="packed: work: ")
        self.run_tool("x", "--operation", "schedule", "--work", "short.npy", status=2, message="--work is what the operation schedule writes")
        words = struct.unpack("<H", (self.folder / "lists/work.npy").read_bytes()[8:10])[0]
        size = ((self.folder / "lists/work.npy").stat().st_size - words - 10) // 4
        write_npy(self.folder / "wild.npy", (size,), [(-1, 2**31 - 1, -(2**31), 5)[n % 4] for n in range(size)], "i")
        self.run_tool("wild", "--work", "wild.npy")


class PaddedGradients(unittest.TestCase):
    """Gradients of a batch of padded sequences, NaN behind each: `aule run --dout` against the formula in loops."""

    SCRIPT = """attention slanted { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, D]; input slope: f32[H] grad;
        score_mod(s, b, h, i, j) = s - slope[h] * abs(q_pos - j); mask(b, h, i, j) = j <= q_pos + 1; online softmax; }"""
    H, D, S, T = 2, 8, 5, 6
    QUERIES, KEYS = (3, 0, 5, 1), (6, 2, 3, 0)

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "slanted.attn").write_text(self.SCRIPT)
        words = ["--target", "cpu", "--dtype", "f32", "--width", "D=8", "--layout", "S=padded,T=padded", "-o", "slanted.so"]
        subprocess.run([AULEC, "slanted.attn", *words], cwd=self.folder, check=True)
        r = random.Random(3)
        self.slope = [0.3, 0.1]
        self.x = {name: self.rows(r, *lengths) for name, lengths in (("q", (self.QUERIES, self.S)), ("k", (self.KEYS, self.T)), ("v", (self.KEYS, self.T)), ("do", (self.QUERIES, self.S)))}
        for name, rows in self.x.items():
            write_npy(self.folder / f"{name}.npy", (4, self.H, len(rows[0][0]), self.D), flat(rows))
        write_npy(self.folder / "slope.npy", (self.H,), self.slope)
        self.write_lengths(self.QUERIES)
        write_npy(self.folder / "keys.npy", (4,), self.KEYS, "i")

    def rows(self, r, lengths, room):
        return [[[[r.uniform(-1, 1) if i < n else math.nan for _ in range(self.D)] for i in range(room)] for _ in range(self.H)] for n in lengths]

    def write_lengths(self, lengths):
        write_npy(self.folder / "queries.npy", (4,), lengths, "i")

    def run_tool(self):
        given = [word for name in ("q", "k", "v", "slope") for word in (f"--{name}", f"{name}.npy")]
        lists = ("--S_lengths", "queries.npy", "--T_lengths", "keys.npy")
        return subprocess.run([AULE, "run", "slanted.so", *given, *lists, "--dout", "do.npy", "--backend", "cpu", "-o", "out"], cwd=self.folder, capture_output=True, text=True)

    def formula(self):
        def dot(a, b):
            return sum(m * n for m, n in zip(a, b))

        made = {name: [[[[0.0] * self.D for _ in range(room)] for _ in range(self.H)] for _ in range(4)] for name, room in (("dq", self.S), ("dk", self.T), ("dv", self.T))}
        dslope = [0.0] * self.H
        for b, (queries, keys) in enumerate(zip(self.QUERIES, self.KEYS)):
            for h in range(self.H):
                q, k, v, do = (self.x[name][b][h] for name in ("q", "k", "v", "do"))
                for i in range(queries):
                    position = i + keys - queries
                    seen = [j for j in range(keys) if j <= position + 1]
                    if not seen:
                        continue
                    parts = [math.exp(dot(q[i], k[j]) - self.slope[h] * abs(position - j)) for j in seen]
                    p = [x / sum(parts) for x in parts]
                    dp = [dot(do[i], v[j]) for j in seen]
                    delta = dot(p, dp)
                    for j, weight, of_weight in zip(seen, p, dp):
                        ds = weight * (of_weight - delta)
                        dslope[h] -= ds * abs(position - j)
                        for c in range(self.D):
                            made["dq"][b][h][i][c] += ds * k[j][c]
                            made["dk"][b][h][j][c] += ds * q[i][c]
                            made["dv"][b][h][j][c] += weight * do[i][c]
        return {name: flat(rows) for name, rows in made.items()} | {"dslope": dslope}

    def test_formula(self):
        done = self.run_tool()
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, want in self.formula().items():
            got = read_npy(self.folder / f"out/{name}.npy")
            self.assertEqual(len(got), len(want))
            for x, y in zip(got, want):
                self.assertLess(abs(x - y), 2e-6, name)  # rows that are none are 0 in both

    def test_wrong_lengths(self):
        self.write_lengths((3, 0, 6, 1))
        done = self.run_tool()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"^aule: .*slanted: S_lengths\[2\] is 6, q has 5 rows")


class Layouts(unittest.TestCase):
    """aule bench makes lists that are full sequences, and counts the pairs that lists say."""

    SCRIPT = "attention laid { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, D]; online softmax; }"

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "laid.attn").write_text(self.SCRIPT)

    def check(self, pairs, layout, shape, *words, storage=()):
        """[pairs] of queries and keys are what the rate is of; digits that are printed are all that it is compared by."""
        options = ["--target", "cpu", "--dtype", "f32", "--width", "D=8", "--no-grad", "--layout", layout, *storage, "-o", "laid.so"]
        subprocess.run([AULEC, "laid.attn", *options], cwd=self.folder, check=True)
        done = subprocess.run([AULE, "bench", "laid.so", "--shape", f"H=2,Hk=1,D=8,{shape}", *words, "--backend", "cpu", "--json"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        row = json.loads(done.stdout)
        want = 2 * 2 * pairs * (8 + 8) / row["ms"] * 1e-6
        self.assertAlmostEqual(row["gflops"], want, delta=1e-3 + 1e-3 * want, msg=done.stdout)

    def test_full_sequences(self):
        for layout, shape, pairs in (
            ("S=padded,T=paged:rows:csr", "B=2,S=20,T_pages=4,T_slots=8,T_entries=92,T_ends=4", 2 * 20 * 240),
            ("T=padded:positions:rows", "B=2,S=30,T=200,T_lines=3", 2 * 30 * 200),
            ("S=packed,T=packed", "S=90,T=190,S_ends=4", 30 * 190),
        ):
            with self.subTest(layout):
                self.check(pairs, layout, shape)

    def test_artifacts_without_several(self):
        """What is not there is named as the one who made the artifact would ask for it."""
        options = ["--target", "cpu", "--dtype", "f32", "--width", "D=8", "-o", "laid.so"]
        subprocess.run([AULEC, "laid.attn", *options, "--layout", "T=paged"], cwd=self.folder, check=True)
        for words in (["bench", "--serve", "laid.so"], ["bench", "laid.so", "--layout", "T=paged"]):
            done = subprocess.run([AULE, *words], cwd=self.folder, capture_output=True, text=True)
            self.assertIn("no attention for each of several layouts: aulec --serve", done.stderr)
            self.assertEqual(done.returncode, 2)
        subprocess.run([AULEC, "laid.attn", *options, "--layout", "T=paged;S=packed,T=paged"], cwd=self.folder, check=True)
        for words in (["run", "laid.so", "-o", "out"], ["bench", "laid.so"]):
            done = subprocess.run([AULE, *words], cwd=self.folder, capture_output=True, text=True)
            self.assertIn("has no dense layout: --layout says which it is of T=paged; S=packed,T=paged", done.stderr)
            self.assertEqual(done.returncode, 2)
        subprocess.run([AULEC, "laid.attn", *options, "--serve"], cwd=self.folder, check=True)
        asked = ["--layout", "T=paged", "--dtype", "f32", "--backend", "cpu", "--shape", "B=1,H=1,Hk=1,S=1,D=16,T_pages=2,T_slots=8,T_entries=2"]
        done = subprocess.run([AULE, "bench", "laid.so", *asked], cwd=self.folder, capture_output=True, text=True)
        self.assertIn(' --layout "T=paged", or --serve', done.stderr)

    def test_device_without_kernels(self):
        """Said before sizes are asked for that its kernels would have given."""
        subprocess.run([AULEC, "laid.attn", "--target", "vulkan,opencl", "--dtype", "f32", "--width", "D=8", "-o", "laid.so"], cwd=self.folder, check=True)
        done = subprocess.run([AULE, "bench", "laid.so", "--shape", "B=1,H=1,S=8,T=8", "--backend", "cpu"], cwd=self.folder, capture_output=True, text=True)
        self.assertRegex(done.stderr, r"laid\w* has no kernel for cpu, only for (vulkan, opencl|opencl, vulkan)")
        self.assertEqual(done.returncode, 1)

    def test_lists_that_are_given(self):
        write_npy(self.folder / "lengths.npy", (3,), [400, 0, 50], "i")
        self.check(20 * 450, "T=padded", "B=3,S=20,T=400", "--T_lengths", "lengths.npy", storage=("--storage", "e4m3"))

    def test_invariant(self):
        """The bits of a sequence beside one that has the same pages are those of it alone, where the call asks for that."""
        options = ["--target", "cpu", "--dtype", "f32", "--width", "D=8", "--no-grad", "--layout", "T=paged:groups", "--invariant", "-o", "laid.so"]
        subprocess.run([AULEC, "laid.attn", *options], cwd=self.folder, check=True)
        q, pool = ([((37 * n + 11) % 101) / 50 - 1 for n in range(count)] for count in (2 * 2 * 8, 4 * 16 * 8))
        tables, lengths, bits = ([0, 1, 2], [0, 1, 3]), (40, 37), []
        for these in ([0, 1], [1]):
            B = len(these)
            write_npy(self.folder / "q.npy", (B, 2, 1, 8), [x for b in these for x in q[16 * b : 16 * b + 16]], "f")
            write_npy(self.folder / "k.npy", (4, 1, 16, 8), pool, "f")
            write_npy(self.folder / "v.npy", (4, 1, 16, 8), pool[::-1], "f")
            for name, shape, values in (
                ("T_table", (B, 3), [x for b in these for x in tables[b]]), ("T_lengths", (B,), [lengths[b] for b in these]), ("T_groups", (2,), [0, B]), ("T_shared", (1,), [32]),
            ):
                write_npy(self.folder / f"{name}.npy", shape, values, "i")
            given = [word for name in ("q", "k", "v", "T_table", "T_lengths", "T_groups", "T_shared") for word in (f"--{name}", f"{name}.npy")]
            done = subprocess.run([AULE, "run", "laid.so", *given, "--backend", "cpu", "--invariant", "-o", "out"], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            bits.append(list(read_npy(self.folder / "out/o.npy"))[-16:])
        self.assertEqual(*bits)
        shape = "B=2,H=2,Hk=1,S=1,D=8,T_pages=4,T_slots=16,T_entries=3,T_shares=1"
        done = subprocess.run([AULE, "bench", "laid.so", "--shape", shape, "--backend", "cpu", "--invariant"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        options = ["--target", "cpu", "--dtype", "f32", "--width", "D=8", "--parts", "-o", "parts.so"]
        subprocess.run([AULEC, "laid.attn", *options], cwd=self.folder, check=True)
        for name in "qkv":
            write_npy(self.folder / f"{name}.npy", (1, 1, 1, 8), [1.0] * 8, "f")
        given = ["--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--operation", "unfinished", "--invariant", "-o", "out"]
        done = subprocess.run([AULE, "run", "parts.so", *given], cwd=self.folder, capture_output=True, text=True)
        self.assertRegex(done.stderr, "no unfinished kernel for device cpu whose results do not depend on the batch")

    def server(self, *options, script=SCRIPT, width="D=8"):
        (self.folder / "served.attn").write_text(script)
        subprocess.run([AULEC, "served.attn", "--serve", "--target=cpu", f"--width={width}", "-O0", *options, "-o", "served.so"], cwd=self.folder, check=True)

    def steps(self, *words):
        """bench --serve of it: its lines, its message."""
        done = subprocess.run([AULE, "bench", "--serve", "served.so", "--backend", "cpu", "--json", *words], cwd=self.folder, capture_output=True, text=True)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def test_server(self):
        """Steps over pages are timed, and held to dense calls of single sequences; lengths of none, one, borders of pages."""
        words = "--batch=5", "--keys=20,0,1,7,8", "--page=7", "--chunk=9", "--queries=2", "--shape=H=6,Hk=2,D=8"
        for options, dtype, stored in (((), "f32", "f32"), (("--storage", "k=i8:token,v=e4m3"), "f16", "i8"), (("--storage", "i4:channels4:zero:f16"), "bf16", "u8")):
            with self.subTest(stored):
                self.server("--dtype", dtype, *options)
                status, rows, message = self.steps(*words, f"--dtype={dtype}")
                self.assertEqual((status, message), (0, ""))
                self.assertEqual([(row["step"], row["rows"], row["dtype"], row["stored"]) for row in rows], [("decode", 10, dtype, stored), ("mixed", 17, dtype, stored)])
                self.assertTrue(all(row["us"] > 0 and row["difference"] < 0.02 for row in rows), rows)
                if stored == "f32":  # 36 keys of 2 heads of 8 channels, and as many values
                    self.assertAlmostEqual(rows[0]["gb_s"], 36 * 2 * 2 * 8 * 4 / rows[0]["us"] * 1e-3, delta=1e-3 * rows[0]["gb_s"] + 1e-3)

    def test_server_of_further_products(self):
        """Rows of keys of a further product have pages of their own, which dense calls are given gathered."""
        parts = "input x: [B, H, S, P]; input y: [B, 1, T, P]; score_mod(s, b, h) = (s + dot(x[b, h, q_idx], y[b, 0, kv_idx])) * 0.25;"
        self.server("--dtype=f32", script=self.SCRIPT.replace("online", f"{parts} online"), width="D=8,P=16")
        status, rows, message = self.steps("--batch=5", "--keys=20,0,1,7,8", "--page=7", "--chunk=9", "--queries=2", "--shape=H=6,Hk=2,D=8,P=16")
        self.assertEqual((status, message), (0, ""))
        self.assertTrue(all(row["us"] > 0 and row["difference"] < 1e-5 for row in rows), rows)
        self.assertEqual([row["step"] for row in rows], ["decode", "mixed"])

    def test_server_that_is_not_right(self):
        """A script that asks for the sequence's number says something else of one by itself: what differs is found, and named."""
        self.server("--dtype=f32", script=self.SCRIPT.replace("online", "mask(b, h, i, j) = j <= q_pos - b; online"))
        status, rows, message = self.steps("--batch=3", "--keys=9", "--shape=H=2,Hk=1")
        self.assertEqual((status, len(rows)), (1, 1))
        self.assertRegex(message, r"^aule: decode: o is \S+ of the largest value from dense calls, expected at most 1\.53e-05\n$")

    def test_server_refused(self):
        self.server("--dtype=f32")
        for words, message in (
            (["--keys=9,x"], "--keys is '9,x', expected a number of keys"), (["--shape=B=3"], "--shape: B is said by --batch"),
            (["--backward"], "--backward: caches have no gradients"), (["--layout=T=paged"], "--layout: --serve takes those that it needs"),
            (["--page=0"], "--page is '0', expected 1 to 1048576"), (["--T_table=t.npy"], "t.npy"),
        ):
            status, _, said = self.steps(*words)
            self.assertNotEqual(status, 0)
            self.assertIn(message, said)
        done = subprocess.run([AULEC, "served.attn", "--target=cpu", "--dtype=f32", "--width=D=8", "-o", "one.so"], cwd=self.folder)
        done = subprocess.run([AULE, "bench", "--serve", "one.so"], cwd=self.folder, capture_output=True, text=True)
        self.assertIn("no attention for each of several layouts: aulec --serve", done.stderr)

    def test_layouts_of_one_artifact(self):
        """--layout chooses; without it the dense one runs."""
        self.server("--dtype=f32")
        for name, shape in (("q", (1, 2, 3, 8)), ("k", (1, 1, 5, 8)), ("v", (1, 1, 5, 8))):
            write_npy(self.folder / f"{name}.npy", shape, [((37 * n + len(name)) % 101) / 50 - 1 for n in range(math.prod(shape))])
        write_npy(self.folder / "lengths.npy", (1,), [5], "i")
        run = [AULE, "run", "served.so", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--backend", "cpu"]
        bits = []
        for words in ([], ["--layout", "dense"], ["--attention", "laid"], ["--layout", "T=padded", "--T_lengths", "lengths.npy"], ["--attention", "laid@T=padded", "--T_lengths", "lengths.npy"]):
            done = subprocess.run([*run, *words, "-o", "out"], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            bits.append(read_npy(self.folder / "out/o.npy"))
        self.assertEqual(bits, bits[:1] * 5)
        done = subprocess.run([*run, "--layout", "T=ragged", "-o", "out"], cwd=self.folder, capture_output=True, text=True)
        self.assertRegex(done.stderr, "no attention 'laid@T=ragged', the artifact has laid, laid@T=padded, laid@T=paged")

    def test_a_script_is_no_artifact(self):
        done = subprocess.run([AULE, "bench", "laid.attn"], cwd=self.folder, capture_output=True, text=True)
        self.assertRegex(done.stderr, "laid.attn: not an aule artifact: .*: a script, of which aulec makes one")


sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from parts import PartLoader

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], testLoader=PartLoader())
