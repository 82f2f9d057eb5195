"""Kernels are built once however many threads ask for them, different ones in parallel, with a line on a terminal."""

import concurrent.futures
import io
import os
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

import numpy as np

import aule
from aule import _builds, _compiler
from test_compile import CAUSAL, expected, inputs


PTX = " ".join(f"ptx{n}" for n in range(90, 59, -1))


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Once(unittest.TestCase):
    def test_one_build_for_many_threads(self):
        made, go = [], threading.Event()

        def make(slow):
            slow()
            go.wait(10)
            made.append(threading.get_ident())
            return len(made)

        builds = _builds.Builds()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            waiting = [pool.submit(builds.once, "key", "what", make) for _ in range(4)]
            time.sleep(0.5)  # for those that are not the first to come and wait
            go.set()
            self.assertLessEqual({future.result() for future in waiting}, set(range(1, len(made) + 1)))
        self.assertLess(len(made), 4)

    def test_different_builds_run_together(self):
        both = threading.Barrier(2, timeout=10)
        builds = _builds.Builds()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(builds.once, key, key, lambda slow: both.wait() >= 0) for key in "ab"]
            self.assertTrue(all(future.result() for future in futures))

    def test_errors_reach_all_and_stay_with_none(self):
        builds, started, go = _builds.Builds(), threading.Event(), threading.Event()

        def fail(slow):
            started.set()
            go.wait(10)
            raise aule.CompileError("no")

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first = pool.submit(builds.once, "key", "what", fail)
            started.wait(10)
            second = pool.submit(builds.once, "key", "what", fail)
            go.set()
            for future in (first, second):
                with self.assertRaisesRegex(aule.CompileError, "no"):
                    future.result()
        self.assertEqual(builds.once("key", "what", lambda slow: 5), 5)

    def test_progress(self):
        terminal = Terminal()
        with mock.patch.object(sys, "stderr", terminal):
            _builds.Builds().once("key", "mha.attn f32 D=64", lambda slow: slow())
        self.assertEqual(terminal.getvalue(), "\r\033[Kaule: compiling mha.attn f32 D=64\r\033[K")
        plain = io.StringIO()
        with mock.patch.object(sys, "stderr", plain):
            _builds.Builds().once("key", "mha.attn f32 D=64", lambda slow: slow())
        self.assertEqual(plain.getvalue(), "")

    def test_log(self):
        with self.assertLogs("aule", "INFO") as caught, mock.patch.object(_builds, "LONG", 0.0):
            _builds.Builds().once("key", "mha.attn f32 D=64", lambda slow: slow())
        self.assertEqual([record.levelname for record in caught.records], ["INFO", "WARNING"])
        self.assertRegex(caught.output[1], "compiling mha.attn f32 D=64 took 0 s")


class Compiled(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        environment = mock.patch.dict(os.environ, XDG_CACHE_HOME=folder.name)
        environment.start()
        self.addCleanup(folder.cleanup)
        self.addCleanup(environment.stop)
        self.compilations = []
        run = _compiler.Compiler.run

        def counted(compiler, name, text, **options):
            if name != "<probe>":
                self.compilations.append(tuple(options.get(part) for part in ("dtypes", "widths")))
            return run(compiler, name, text, **options)

        patch = mock.patch.object(_compiler.Compiler, "run", counted)
        patch.start()
        self.addCleanup(patch.stop)

    def test_calls_from_threads(self):
        f, g = aule.compile(CAUSAL), aule.compile(CAUSAL)
        self.compilations.clear()

        def call(n):
            D = (16, 24)[n % 2]
            q, k, v, bias = inputs(n, D=D, E=D, dtype=(np.float32, np.float16)[n // 2 % 2])
            return np.abs((f, g)[n % 3 == 0](q, k, v, bias=bias) - expected(q, k, v, bias)).max()

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertLess(max(pool.map(call, range(24))), 4e-3)
        self.assertEqual(sorted(self.compilations), sorted((dtype, f"D={n};E={n}") for dtype in ("f16", "f32") for n in (16, 24)))

    def test_architectures(self):
        """Kernels are compiled for the device at hand alone."""

        def best(backend, features, dtype="f16"):
            return _compiler.best_arch.__wrapped__(types.SimpleNamespace(backend=backend, features=features.split()), dtype)

        self.assertEqual(best("cpu", "avx2 fma f16c bmi bmi2 lzcnt movbe popcnt avx sse3 ssse3 sse4.1 sse4.2", "f32"), "x86-64-v3")
        level4 = "avx2 fma f16c avx512f avx512bw avx512cd avx512dq avx512vl avx512bf16"
        self.assertEqual(best("cpu", level4, "bf16"), "x86-64-v4")  # of Intel's, where multiply-adds are faster
        self.assertEqual(best("cpu", level4 + " fast-bf16-dot", "bf16"), "x86-64-v4-bf16")
        self.assertEqual(best("cuda", "sm_89 sm_86 sm_80 sm_75 sm_70 " + PTX), "sm_89")
        self.assertEqual(best("cuda", "sm_100 sm_90 sm_89 sm_86 sm_80 sm_75 sm_70 " + PTX), "sm_90")
        self.assertIsNone(best("cuda", "sm_52 " + PTX))

    def test_prepare(self):
        f = aule.compile(CAUSAL)
        self.compilations.clear()
        f.prepare(dtypes=("float32", "float16"), widths=[{"D": 16, "E": 16}, {"D": 24, "E": 8}])
        self.assertEqual(len(self.compilations), 4)
        q, k, v, bias = inputs(D=24, E=8)
        f.forward(q, k, v, bias=bias)
        self.assertEqual(len(self.compilations), 4)
        with self.assertRaisesRegex(TypeError, "needs the widths D, E, it was given D"):
            f.prepare(widths=[{"D": 16}])
        f.prepare(dtypes=np.float32, widths=16)  # D and E alike
        f.prepare(dtypes=[np.dtype("float16")], widths=[{"D": 24, "E": 8}, 16])
        self.assertEqual(len(self.compilations), 4)
        with self.assertRaisesRegex(TypeError, "widths {'D': '16', 'E': 16}, expected numbers or {'D': number, 'E': number}"):
            f.prepare(widths={"D": "16", "E": 16})
        with self.assertRaisesRegex(TypeError, "operand type float64, expected float32, float16, bfloat16"):
            f.prepare(dtypes="float64", widths=16)

    def test_importing_torch_later(self):
        code = "import aule, sys; f = aule.load(sys.argv[1]); assert 'torch' not in sys.modules\n" \
               "try:\n    import torch\nexcept ImportError:\n    sys.exit()\n" \
               "x = [torch.zeros(1, 2, 3, n) for n in (8, 8, 4)]; o = f(*x, lengths=torch.ones(1, dtype=torch.int32), slope=torch.zeros(3), window=2)\n" \
               "assert isinstance(o, torch.Tensor)"
        packages = os.pathsep.join([os.environ["PYTHONPATH"], os.environ.get("AULE_TEST_PACKAGES", "")])
        subprocess.run([sys.executable, "-c", code, os.environ["AULE_TEST_SAMPLE"]], env={**os.environ, "PYTHONPATH": packages}, check=True)


if __name__ == "__main__":
    unittest.main()
