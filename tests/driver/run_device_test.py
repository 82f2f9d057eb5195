"""`aule run` on a device beside the same call on `cpu`, forward and backward, by one artifact that has kernels for both. Standard library only.

    run_device_test.py AULEC AULE SCRIPTS BACKEND ARCH       as hip:0 gfx942, on the emulated driver
"""
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

AULEC, AULE, SCRIPTS = (os.path.abspath(path) for path in sys.argv[1:4])
BACKEND, ARCH = sys.argv[4:6]
H, S, T, D = 2, 9, 13, 64


def write_npy(path, shape, values):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({''.join(f'{n}, ' for n in shape)}), }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + struct.pack(f"<{len(values)}f", *values))


def read_npy(path):
    data = path.read_bytes()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])


class OnDevice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        random.seed(7)
        cls.words = []
        for name, rows in (("q", S), ("k", T), ("v", T), ("dout", S)):
            write_npy(cls.folder / f"{name}.npy", (1, H, rows, D), [random.gauss(0, 1) for _ in range(H * rows * D)])
            cls.words += [f"--{name}", f"{name}.npy"]
        target = BACKEND.partition(":")[0]
        subprocess.run([AULEC, f"{SCRIPTS}/mha.attn", f"--target={target},cpu", f"--arch={ARCH}", "--dtype=f32", "--width=D=64", "-o", cls.folder / "mha.so"], check=True)

    def run_tool(self, *words):
        return subprocess.run([AULE, "run", "mha.so", *words], cwd=self.folder, capture_output=True, text=True)

    def test_beside_cpu(self):
        names = ["dk.npy", "dq.npy", "dv.npy", "lse.npy", "o.npy"]
        for backend in (BACKEND, "cpu"):
            done = self.run_tool(*self.words, "--backend", backend, "-o", backend.partition(":")[0])
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"o.npy: f32 [1, {H}, {S}, {D}], by {backend} ", done.stdout)
        self.assertEqual(sorted(os.listdir(self.folder / "cpu")), names)
        for name in names:
            own, other = (read_npy(self.folder / where / name) for where in (BACKEND.partition(":")[0], "cpu"))
            largest = max(map(abs, other))
            self.assertGreater(largest, 0.1)
            self.assertLess(max(abs(a - b) for a, b in zip(own, other, strict=True)), 4e-6 * largest, name)

    def test_what_is_refused(self):
        done = self.run_tool(*self.words, "--backend", BACKEND.partition(":")[0] + ":99", "-o", "none")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"there is no {BACKEND.partition(':')[0]}:99", done.stderr)
        self.assertFalse((self.folder / "none").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
