"""The command line `aule` on the artifact made by hand: results, messages, exit statuses. Standard library only.

    tool_test.py AULE SAMPLE_SO FOREIGN_SO MOCK_OF_LIBCUDA CUDA_SMOKE
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

AULE, SAMPLE, FOREIGN, LIBCUDA, SMOKE = sys.argv[1:6]
B, H, HK, S, T, D, E, WINDOW = 2, 4, 2, 5, 7, 8, 4, 4


def write_npy(path, descr, shape, data):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (descr, "".join("%d, " % n for n in shape))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def read_floats(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<H", data[8:10])
    values = data[10 + length:]
    return struct.unpack("<%df" % (len(values) // 4), values), data[10:10 + length].decode()


def floats(values):
    return struct.pack("<%df" % len(values), *values)


def rounded(count):
    return [struct.unpack("<f", struct.pack("<f", random.uniform(-1, 1)))[0] for _ in range(count)]


class Tool(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        random.seed(1)
        self.q, self.k = rounded(B * H * S * D), rounded(B * HK * T * D)
        self.v, self.slope, self.lengths = rounded(B * HK * T * E), rounded(2 * H - 1), [7, 5]
        write_npy(self.path("q.npy"), "<f4", (B, H, S, D), floats(self.q))
        write_npy(self.path("k.npy"), "<f4", (B, HK, T, D), floats(self.k))
        write_npy(self.path("v.npy"), "<f4", (B, HK, T, E), floats(self.v))
        write_npy(self.path("slope.npy"), "<f4", (2 * H - 1,), floats(self.slope))
        write_npy(self.path("lengths.npy"), "<i4", (B,), struct.pack("<2i", *self.lengths))
        self.inputs = [x for n in ("q", "k", "v", "slope", "lengths") for x in ("--" + n, self.path(n + ".npy"))]

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def aule(self, *arguments, status=0, **environment):
        done = subprocess.run([AULE, *map(str, arguments)], capture_output=True, text=True, timeout=60, env={**os.environ, **environment})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        if status:
            self.assertEqual(done.stdout, "")
        return done.stdout if status == 0 else done.stderr

    def refused(self, text, *arguments, status=1, **environment):
        """One clear line on stderr."""
        message = self.aule(*arguments, status=status, **environment)
        self.assertIn(text, message)
        self.assertTrue(message.startswith("aule: "), message)
        self.assertEqual(message.count("\n"), 1, message)

    def expected(self):
        out = []
        for b in range(B):
            for h in range(H):
                for i in range(S):
                    q = self.q[((b * H + h) * S + i) * D:][:D]
                    acc, total = [0.0] * E, 0.0
                    for j in range(self.lengths[b]):
                        if abs(i - j) >= WINDOW:
                            continue
                        row = (b * HK + h // (H // HK)) * T + j
                        w = math.exp(sum(x * y for x, y in zip(q, self.k[row * D:])) / math.sqrt(D) + self.slope[h])
                        total += w
                        acc = [a + w * x for a, x in zip(acc, self.v[row * E:])]
                    out += [a / total for a in acc]
        return out

    def check_outputs(self, folder):
        found, header = read_floats(os.path.join(folder, "o.npy"))
        self.assertIn("(2, 4, 5, 4)", header)
        self.assertLess(max(abs(a - b) for a, b in zip(found, self.expected())), 2e-6)
        self.assertIn("(2, 4, 5)", read_floats(os.path.join(folder, "lse.npy"))[1])

    def test_run(self):
        out = self.aule("run", SAMPLE, "--backend", "cpu", *self.inputs, "--window=4", "-o", self.path("out"))
        self.assertIn("o.npy: f32 [2, 4, 5, 4], by cpu", out)
        self.check_outputs(self.path("out"))
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["lse.npy", "o.npy"])
        # Again, over the old files; threads and environment.
        self.aule("run", SAMPLE, *self.inputs, "--window", "4", "--threads", "1", "-o", self.path("out"), AULE_BACKEND="cpu")
        self.check_outputs(self.path("out"))

    def test_run_backward(self):
        """With do = 1 everywhere, dv sums weights of rows that sum to 1; the gradient given for lse reaches the slopes."""
        write_npy(self.path("do.npy"), "<f4", (B, H, S, E), floats([1.0] * (B * H * S * E)))
        write_npy(self.path("dlse.npy"), "<f4", (B, H, S), floats([0.5] * (B * H * S)))
        out = ["-o", self.path("out")]
        run = ["run", SAMPLE, "--backend", "cpu", *self.inputs, "--window", "4", "--dout", self.path("do.npy")]
        text = self.aule(*run, *out)
        self.assertIn("dv.npy: f32 [2, 2, 7, 4], by cpu", text)
        self.check_outputs(self.path("out"))
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["dk.npy", "dq.npy", "dslope.npy", "dv.npy", "lse.npy", "o.npy"])
        self.assertAlmostEqual(sum(read_floats(self.path("out/dv.npy"))[0]), B * H * S * E, places=3)
        for slope in read_floats(self.path("out/dslope.npy"))[0]:
            self.assertAlmostEqual(slope, 0, places=4)
        self.aule(*run, "--dlse", self.path("dlse.npy"), *out)
        for head, slope in enumerate(read_floats(self.path("out/dslope.npy"))[0]):
            self.assertAlmostEqual(slope, 0.5 * B * S if head < H else 0, places=4)
        self.refused("--dlse needs --dout", *run[:-2], "--dlse", self.path("dlse.npy"), *out, status=2)
        self.refused("do: axis 3 (E) has 8 elements, expected 4 as in v", *run[:-1], self.path("q.npy"), *out)

    def test_run_on_opencl(self):
        if "opencl:0" not in self.aule("devices"):
            self.skipTest("no OpenCL device")
        self.aule("run", SAMPLE, "--backend", "opencl:0", *self.inputs, "--window", "4", "-o", self.path("out"))
        self.check_outputs(self.path("out"))

    def cuda(self, text=""):
        """The environment in which the driver is the mock of it (cuda_mock.h)."""
        return {"LD_LIBRARY_PATH": os.path.dirname(LIBCUDA), "MOCK_CUDA": text, "XDG_CACHE_HOME": self.folder.name}

    def test_run_on_cuda(self):
        out = self.aule("devices", **self.cuda("devices=1"))
        self.assertIn("cuda:0     Mock 0, GPU, 132 units, 1.0 GiB\n           CUDA 12.8, PTX up to 8.7, compute capability 9.0\n", out)
        out = self.aule("run", SAMPLE, *self.inputs, "--window", "4", "-o", self.path("out"), **self.cuda())
        self.assertIn("o.npy: f32 [2, 4, 5, 4], by cuda:0 sm_90", out)
        self.check_outputs(self.path("out"))
        out = self.aule("bench", SAMPLE, "--backend", "cuda:1", "--shape", "B=1,H=2,S=16,T=16", "--window", "4", "--backward", **self.cuda())
        self.assertIn("sample on cuda:1 (Mock 1, sm_80): f32 ", out)

    def test_smoke(self):
        """The program for machines with a GPU (tests/device/cuda_smoke.c)."""
        arguments = [SMOKE, SAMPLE, "--backend", "cuda", "--shape", "B=2,H=4,Hk=2,S=33,T=7", *self.inputs[8:], "--window", "9"]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, env={**os.environ, **self.cuda()})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"pass beside cpu: o 0.0e\+00 .*\n10 passed, 0 failed\n$")
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, env={**os.environ, **self.cuda("fail=cuLaunchKernel code=1")})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)

    def test_cuda_errors(self):
        out, run = ["-o", self.path("out")], ["run", SAMPLE, *self.inputs, "--window", "4", "--backend", "cuda"]
        self.refused("cuda is not available: libcuda.so.1 is there, but cuInit: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)", *run,
                     *out, **self.cuda("devices=0"))
        self.refused("there is no cuda:7, this machine has cuda:0 to cuda:1", *run[:-1], "cuda:7", *out, **self.cuda())
        self.refused("cuda sm_90 f32 D=8 E=4 (needs ptx81, the driver takes up to ptx70)", *run, "--arch", "sm_90", *out, **self.cuda("driver=11000"))
        self.refused("CUDA_ERROR_ILLEGAL_ADDRESS", *run, *out, **self.cuda("fail=cuStreamSynchronize code=700"))
        self.refused("out of memory", *run, *out, **self.cuda("fail=cuMemAlloc code=2"))
        with open(self.path("libcuda.so.1"), "w") as file:
            file.write("not a library")
        self.refused("cuda is not available: libcuda.so.1, which NVIDIA's driver brings, cannot be loaded: ", *run, *out,
                     LD_LIBRARY_PATH=self.folder.name)

    def test_safetensors(self):
        data, entries, offset = b"", {}, 0
        for name, shape, values in (("q", (B, H, S, D), self.q), ("keys", (B, HK, T, D), self.k)):
            piece = floats(values)
            entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(piece)]}
            data, offset = data + piece, offset + len(piece)
        header = json.dumps(entries).encode()
        with open(self.path("x.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + data)
        x = self.path("x.safetensors")
        self.aule("run", SAMPLE, "--q", x, "--k", x + ":keys", *self.inputs[4:], "--window", "4", "-o", self.path("out"))
        self.check_outputs(self.path("out"))
        self.refused("no tensor 'k', it has q, keys", "run", SAMPLE, "--q", x, "--k", x, *self.inputs[4:], "-o", self.path("out"), status=3)

    def test_inspect_and_devices(self):
        self.assertIn("attention sample\n", self.aule("inspect", SAMPLE))
        self.assertIn("cpu ", self.aule("devices"))
        self.assertIn("aule devices", self.aule("--help"))
        self.assertRegex(self.aule("--version"), r"^aule \d+\.\d+\.\d+\n$")

    def test_no_driver(self):
        """Why a backend is missing, and that the others do not care."""
        out = self.aule("devices", OCL_ICD_VENDORS="/nonexistent")
        self.assertIn("opencl     not available: libOpenCL.so.1 is there, but no driver (ICD) with a device is installed\n", out)
        self.assertIn("cpu ", out)
        with open(self.path("libOpenCL.so.1"), "w") as file:
            file.write("not a library")
        out = self.aule("devices", LD_LIBRARY_PATH=self.folder.name)
        self.assertIn("opencl     not available: libOpenCL.so.1 cannot be loaded: ", out)
        self.refused("opencl is not available: libOpenCL.so.1 cannot be loaded", "run", SAMPLE, "--backend", "opencl:0", "-o", self.path("out"),
                     LD_LIBRARY_PATH=self.folder.name)
        for name in ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"):
            with open(self.path(name), "w") as file:
                file.write("not a library")
        out = self.aule("devices", LD_LIBRARY_PATH=self.folder.name)
        self.assertIn("hip        not available: libamdhip64.so, which ROCm brings, cannot be loaded: ", out)
        self.aule("run", SAMPLE, *self.inputs, "--window", "4", "-o", self.path("out"), LD_LIBRARY_PATH=self.folder.name)
        self.check_outputs(self.path("out"))

    def test_bench(self):
        out = self.aule("bench", SAMPLE, "--backend", "cpu", "--shape", "B=1,H=2,Hk=1,S=16,T=16", "--window", "4", "--json")
        row = json.loads(out)
        self.assertEqual(row["dtype"], "f32")
        self.assertGreater(row["ms"], 0)
        self.assertGreaterEqual(row["runs"], 9)
        self.assertGreater(row["processor_ms"], 0)
        self.assertEqual(row["spilled"], 0)
        self.assertIn("q[1,2,16,8]", row["shape"])
        self.assertIn("median", self.aule("bench", SAMPLE, "--backend", "cpu", "--shape", "B=1,H=2,S=4,T=4", "--window", "4"))
        self.refused("no size 'X'", "bench", SAMPLE, "--shape", "X=1", status=2)
        self.refused("expected NAME=NUMBER", "bench", SAMPLE, "--shape", "B=x", status=2)
        self.refused("--shape does not give H", "bench", SAMPLE, "--backend", "cpu", "--shape", "B=1", "--window", "4", status=2)
        row = json.loads(self.aule("bench", SAMPLE, "--backend", "cpu", "--shape", "B=1,H=2,S=16,T=16", "--window", "4", "--backward", "--json"))
        self.assertEqual(row["operation"], "backward")
        self.assertIn("do[1,2,16,4]", row["shape"])
        self.assertLess(row["ms_least"], row["both"]["ms"])
        text = self.aule("bench", SAMPLE, "--backend", "cpu", "--shape", "B=1,H=2,S=16,T=16", "--window", "4", "--backward")
        self.assertRegex(text, r"\n  backward: median .*\n  both: median ")

    def test_cache(self):
        where = {"XDG_CACHE_HOME": self.folder.name}
        folder = self.path("aule")
        self.assertEqual(self.aule("cache", **where), f"{folder}: 0 files, 0 B of at most 1.1 GB\n")
        for age, (name, size) in enumerate([("a" * 40 + ".so", 3000), ("cuda-" + "b" * 48, 2000), ("mine.txt", 10)]):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(bytes(size))
            os.utime(file.name, (1e9 - age, 1e9 - age))
        self.assertIn("2 files, 5.0 KB of at most 4.1 KB", self.aule("cache", "size", AULE_CACHE_MAX="4K", **where))
        listed = self.aule("cache", "list", **where)
        self.assertIn("    3.0 KB  2001-09-", listed)
        self.assertIn("  cuda-bbbb", listed)
        self.assertNotIn("mine", listed)
        self.assertIn("1 files, 3.0 KB", self.aule("cache", "prune", AULE_CACHE_MAX="4K", **where))
        for kind in ("vulkan", "levelzero", "metal"):
            with open(os.path.join(folder, kind + "-" + "c" * 48), "wb") as file:
                file.write(bytes(1000))
        self.assertIn("4 files, 6.0 KB", self.aule("cache", "size", **where))
        self.assertEqual(self.aule("cache", "list", **where).count("1.0 KB"), 3)
        self.assertIn("0 files, 0 B", self.aule("cache", "clear", **where))
        self.assertEqual(os.listdir(folder), ["mine.txt"])
        self.refused("'cache empty': expected list, size, prune or clear", "cache", "empty", status=2, **where)
        self.refused("AULE_CACHE_MAX is 'x'", "cache", status=2, AULE_CACHE_MAX="x", **where)
        self.refused("/dev/full/aule: Not a directory", "cache", status=3, XDG_CACHE_HOME="/dev/full")

    def test_usage(self):
        out = ["-o", self.path("out")]
        self.aule(status=2)
        self.refused("unknown command 'fly'", "fly", status=2)
        self.refused("x.attn: cannot be read: No such file", "check", "x.attn", status=3)
        self.refused("expected: aule run x.so", "run", status=2)
        self.refused("expected -o DIR", "run", SAMPLE, *self.inputs, status=2)
        self.refused("--k-new: the artifact writes no rows into caches; aulec --append makes one that does", "run", SAMPLE, "--k-new", "q.npy", *out)
        self.refused("unknown option --bias; sample takes --q --k --v --lengths --slope --dout --dlse --scale", "run", SAMPLE, "--bias", "1", *out, status=2)
        self.refused("--window is 'wide', expected a number", "run", SAMPLE, "--window", "wide", *out, status=2)
        self.refused("--window needs a value", "run", SAMPLE, "--window", status=2)
        self.refused("--q is given twice", "run", SAMPLE, *self.inputs[:2], *self.inputs[:2], *out, status=2)
        self.refused("unknown option '-x'", "run", SAMPLE, "-x", status=2)
        self.refused("'b.so' is one argument too many", "run", SAMPLE, "b.so", status=2)
        self.refused("there is no attention 'mha', the artifact has sample", "run", SAMPLE, "--attention", "mha", *out, status=2)
        self.refused("sample: q is missing", "run", SAMPLE, "--backend", "cpu", *out, status=2)

    def test_nothing_is_guessed(self):
        """What is given is read as a whole, or refused by its name."""
        out, bench = ["-o", self.path("out")], ["bench", SAMPLE, "--backend", "cpu", "--window", "4"]
        for threads in ("0", "1025", "2x", "", " 2", "+2", "0x2", "2.0", "18446744073709551617"):
            self.refused(f"--threads is '{threads}', expected 1 to 1024", "run", SAMPLE, "--threads", threads, *out, status=2)
            if threads:
                self.refused(f"AULE_NUM_THREADS is '{threads}', expected 1 to 1024", "run", SAMPLE, *self.inputs, "--window", "4", *out, status=2,
                             AULE_NUM_THREADS=threads)
        self.refused("AULE_NUM_THREADS is 'abc'", "check", __file__, status=2, AULE_NUM_THREADS="abc")
        for seed in ("x", "-1", "1.5", "1e3", "", "18446744073709551616"):
            self.refused(f"--seed is '{seed}'", "check", __file__, "--seed", seed, status=2)
        for backend, why in (("tpu", "there is no backend 'tpu', this build has cuda, hip, levelzero, opencl, metal, vulkan, cpu"), ("cuda", "cuda is not available: "),
                             ("opencl:999", "opencl"), ("cpu:", "'cpu:' is not a device"), ("", "there is no backend ''")):
            for command in (["check", __file__], ["bench", SAMPLE, "--shape", "B=1"], ["run", SAMPLE, *self.inputs, *out]):
                self.refused(why, *command, "--backend", backend, MOCK_CUDA="devices=0")
        for ids in ("tpu", "tpu,cpu", "cpu,tpu", "cpu,", "opencl:x,cpu"):
            self.refused("AULE_BACKEND: ", "check", __file__, AULE_BACKEND=ids)
            self.refused("AULE_DEVICE: ", "check", __file__, AULE_BACKEND="cpu", AULE_DEVICE=ids)
        self.refused("AULE_DEVICE is '3', a number", "check", __file__, AULE_DEVICE="3")
        self.refused("there is no cpu:3", "bench", SAMPLE, "--window", "4", "--shape", "B=1", AULE_BACKEND="cpu", AULE_DEVICE="3")
        for window in ("", "4x", " 4", "1e999", "0x", "1,5", "--"):
            self.aule("run", SAMPLE, *self.inputs, "--window=" + window, *out, status=2)
        for shape in ("", "B", "B=", "=1", "B=-1", "B=+1", "B=1.5", "B=0x1", "B=1,", ",B=1", "B=1 ", "B=99999999999999999999"):
            self.refused("expected NAME=NUMBER", *bench, "--shape", shape, status=2)
        self.refused("--shape: B is given twice", *bench, "--shape", "B=1,H=2,B=1", status=2)
        self.refused("--shape: sample has no size 'X', it has B, H, ", *bench, "--shape", "X=1", status=2)
        self.refused("--backend is given twice", *bench, "--backend", "cpu", status=2)
        self.refused("--window is given twice", *bench, "--window=3", status=2)
        self.refused("--json takes no value", *bench, "--json=no", status=2)
        self.refused("--shape needs a value", *bench, "--shape", "--json", status=2)
        self.refused("unknown option '--plot'", "inspect", SAMPLE, "--plot", "x.svg", status=2)
        self.refused("unknown option '--json'", "devices", "--json", status=2)
        self.refused("unknown option '--'", *bench, "--", status=2)
        self.refused("--f32 is 'fast', expected exact or tf32", "check", __file__, "--f32", "fast", status=2)
        self.refused("--threads is for cpu, the device is cuda:0", "bench", SAMPLE, "--backend", "cuda", "--threads", "2", status=2, **self.cuda())
        self.assertFalse(os.path.exists(self.path("out")))

    def test_inputs_called_as_options(self):
        given = ["--input." + word[2:] if word.startswith("--") else word for word in self.inputs]
        out = self.path("out")
        self.aule("run", SAMPLE, *given, "--input.window", WINDOW, "--backend", "cpu", "-o", out)
        self.refused("unknown option --input.qq", "run", SAMPLE, *given, "--input.qq", "1", "--backend", "cpu", "-o", out, status=2)

    def test_a_type_without_kernels(self):
        self.refused("--dtype is bf16, of which", "bench", SAMPLE, "--shape", f"B={B},H={H},S={S},T={T}", "--dtype", "bf16", "--backend", "cpu", status=2)

    def test_help_of_each_command(self):
        whole = self.aule("--help")
        for command in ("devices", "inspect", "check", "run", "bench"):
            self.assertIn("aule " + command, whole)
            self.assertTrue(self.aule(command, "--help").startswith("aule " + command))
            self.assertEqual(self.aule(command, "x.so", "--nothing", "-h"), self.aule(command, "--help"))
        self.assertIn("--backward ", self.aule("bench", "--help"))

    def test_what_is_printed_arrives(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        bench = ["bench", SAMPLE, "--backend", "cpu", "--shape", "B=1,H=2,S=4,T=4", "--window", "4"]
        run = ["run", SAMPLE, "--backend", "cpu", *self.inputs, "--window", "4", "-o", self.path("out")]
        for command in (["inspect", SAMPLE], ["devices"], ["--help"], ["--version"], ["run", "--help"], bench, [*bench, "--json"], run):
            with self.subTest(command[0]), open("/dev/full", "w") as full:
                done = subprocess.run([AULE, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (3, "aule: standard output: No space left on device\n"))

    def test_bad_input(self):
        out = ["-o", self.path("out")]
        run = ["run", SAMPLE, "--backend", "cpu"]
        self.refused("not an aule artifact", "run", FOREIGN, *self.inputs, *out, status=3)
        self.refused("not an aule artifact", "inspect", self.path("q.npy"), status=3)
        self.refused("cannot be read: No such file", "inspect", self.path("none.so"), status=3)
        self.refused("there is no backend 'rocket'", "run", SAMPLE, "--backend", "rocket", *out)
        self.refused("AULE_BACKEND: there is no backend 'rocket'", "run", SAMPLE, *out, AULE_BACKEND="rocket")
        self.refused("param window (i32) is missing", *run, *self.inputs, *out)
        self.refused("requirement not met: window > 0", *run, *self.inputs, "--window", "0", *out)
        self.refused("axis 3 (D) has 4 elements, expected 8 as in q", *run, *self.inputs[:2], "--k", self.path("v.npy"), *self.inputs[4:],
                     "--window", "4", *out)
        self.refused("lengths: dtype is f32, expected i32", *run, *self.inputs[:8], "--lengths", self.path("slope.npy"), "--window", "4", *out)
        with open(self.path("q.npy"), "rb+") as file:
            file.truncate(1000)
        self.refused("q.npy: truncated: it has 872 bytes of data, its shape needs 1280", *run, *self.inputs, *out, status=3)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_nan_and_inf_pass_through(self):
        self.v[0] = math.nan
        write_npy(self.path("v.npy"), "<f4", (B, HK, T, E), floats(self.v))
        self.aule("run", SAMPLE, "--backend", "cpu", *self.inputs, "--window", "4", "-o", self.path("out"))
        found, _ = read_floats(self.path("out/o.npy"))
        self.assertEqual([math.isnan(x) for x in found[:4]], [True, False, False, False])

    def test_output_cannot_be_written(self):
        self.refused("cannot be made: File exists", "run", SAMPLE, "--backend", "cpu", *self.inputs, "--window", "4", "-o", self.path("q.npy"), status=3)
        self.refused("cannot be made: No such file", "run", SAMPLE, "--backend", "cpu", *self.inputs, "--window", "4", "-o", self.path("a/b/c"), status=3)

    def test_files_that_are_none(self):
        """Pipes and devices are refused, not waited for or read without end; what a symbolic link points to is not written to."""
        out, pipe = ["-o", self.path("out")], self.path("pipe")
        os.mkfifo(pipe)
        for path in (pipe, "/dev/zero", "/dev/null", self.folder.name):
            self.refused("cannot be read: not a file", "inspect", path, status=3)
            self.refused("cannot be read: not a file", "check", path, status=3)
            self.refused("cannot be read: not a file", "run", SAMPLE, "--backend", "cpu", "--q", path, *self.inputs[2:], *out, status=3)
        run = ["run", SAMPLE, "--backend", "cpu", *self.inputs, "--window", "4", *out]
        os.mkdir(self.path("out"))
        os.symlink(self.path("q.npy"), self.path("out/o.npy"))
        with open(self.path("q.npy"), "rb") as file:
            before = file.read()
        self.aule(*run)
        with open(self.path("q.npy"), "rb") as file:
            self.assertEqual(file.read(), before)
        self.check_outputs(self.path("out"))
        self.assertFalse(os.path.islink(self.path("out/o.npy")))
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(os.stat(self.path("out/o.npy")).st_mode & 0o777, 0o666 & ~mask)
        os.remove(self.path("out/o.npy"))
        os.mkfifo(self.path("out/o.npy"))
        self.refused("o.npy: cannot be written: it is there and is no file", *run, status=3)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["lse.npy", "o.npy"])

    def test_dtype(self):
        self.refused("no forward kernel for device cpu, dtype bf16", "run", SAMPLE, "--backend", "cpu", *self.inputs, "--window", "4", "--dtype",
                     "bf16", "-o", self.path("out"))
        doubles = [x + 2.0 ** -30 for x in self.q]
        write_npy(self.path("q.npy"), "<f8", (B, H, S, D), struct.pack("<%dd" % len(doubles), *doubles))
        write_npy(self.path("slope.npy"), "<f8", (2 * H - 1,), struct.pack("<%dd" % len(self.slope), *self.slope))
        run = ["run", SAMPLE, "--backend", "cpu", *self.inputs, "--window", "4", "-o", self.path("out")]
        self.refused("q: dtype is f64, which no kernel takes: --dtype f32 rounds it", *run)
        self.aule(*run, "--dtype", "f32")
        self.check_outputs(self.path("out"))
        self.refused("--dtype is 'i8'", "run", SAMPLE, *self.inputs, "--dtype", "i8", "-o", self.path("out"), status=2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
