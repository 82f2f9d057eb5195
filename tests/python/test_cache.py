"""What is kept on disk: found again, bounded, and never loaded when it is damaged."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy as np

import aule
from aule import _cache, _compiler

SCRIPT = "attention cached { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E]; score_mod(s) = s * %s; online softmax; }"
PAGE = 4096
SEVERAL = """
import sys, numpy, aule
x = numpy.ones((1, 2, 3, 16), numpy.float32)
for n in range(6):
    o = aule.compile(sys.argv[1] % (1 + (n + int(sys.argv[2])) % 3))(x, x, 2 * x)
    assert abs(o - 2).max() < 1e-6, o
"""


class Cache(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.set(XDG_CACHE_HOME=folder.name)
        self.folder = Path(folder.name, "aule")
        self.compiled = 0
        run = _compiler.Compiler.run

        def counted(compiler, *arguments, **options):
            self.compiled += 1
            return run(compiler, *arguments, **options)

        patch = mock.patch.object(_compiler.Compiler, "run", counted)
        patch.start()
        self.addCleanup(patch.stop)

    def set(self, **environment):
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)

    def compile(self, n=1, compilations=1):
        """Learning the signature compiles one artifact: unless it is kept."""
        before = self.compiled
        self.assertEqual(aule.compile(SCRIPT % n).name, "cached")
        self.assertEqual(self.compiled - before, compilations)

    def files(self):
        return sorted(self.folder.iterdir())

    def test_pages_of_zeros(self):
        """What a power cut leaves of a file whose data did not reach the disk; loaded, it ends the process."""
        self.compile()
        kept, = self.files()
        whole = kept.read_bytes()
        for at in range(0, len(whole), PAGE):
            kept.unlink()  # a new one: the old is mapped
            kept.write_bytes(whole[:at] + bytes(len(whole[at : at + PAGE])) + whole[at + PAGE :])
            self.compile()
            self.assertEqual(self.files(), [kept])
            self.compile(compilations=0)
        self.assertEqual(kept.read_bytes(), whole)

    def test_other_damage(self):
        self.compile()
        kept, = self.files()
        whole = kept.read_bytes()
        flipped = whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:]
        for content in (b"", b"x", whole[:-1], whole + b"x", whole[: len(whole) // 2], bytes(len(whole)), flipped, whole[: -_cache.SUM_BYTES - len(_cache.MARK)]):
            kept.unlink()
            kept.write_bytes(content)
            self.compile()
            self.assertEqual(kept.read_bytes(), whole)

    def test_data_reach_the_disk_before_the_name(self):
        calls = []

        def noted(name, function):
            return mock.patch.object(os, name, lambda *a, **k: (calls.append(name), function(*a, **k))[1])

        with noted("fsync", os.fsync), noted("replace", os.replace):
            self.compile()
        self.assertEqual(calls, ["fsync", "replace", "fsync"])

    def test_those_used_least_recently_go(self):
        self.compile(1)
        size = self.files()[0].stat().st_size
        self.set(AULE_CACHE_MAX=str(2 * size + size // 2))
        self.compile(2)
        time.sleep(0.02)
        self.compile(1, compilations=0)
        time.sleep(0.02)
        self.compile(3)
        self.assertEqual(len(self.files()), 2)
        self.compile(1, compilations=0)
        self.compile(2)
        stranger, forsaken = self.folder / "notes.txt", self.folder / "x.part"
        for path in (stranger, forsaken):
            path.write_text("x")
            os.utime(path, (1, 1))
        self.set(AULE_CACHE_MAX="1")
        self.compile(4)
        self.assertEqual(self.files(), [stranger])

    def test_nothing_is_kept(self):
        self.set(AULE_CACHE_MAX="0")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.compile()
            self.compile()
        self.assertFalse(self.folder.exists())

    def test_a_limit_that_is_none(self):
        for text in ("1 GB", "-1", "0x10", "G", "99999999999999999999", "20000000T"):
            self.set(AULE_CACHE_MAX=text)
            with self.assertRaisesRegex(aule.Error, f"AULE_CACHE_MAX is '{text}', expected bytes as in 500M or 2G"):
                aule.compile(SCRIPT % 1)

    def test_without_a_folder(self):
        full = OSError(28, "No space left on device")
        for why, patch in (
            ("/dev/full/aule: Not a directory", mock.patch.dict(os.environ, XDG_CACHE_HOME="/dev/full")),
            ("No space left on device", mock.patch.object(os, "fsync", side_effect=[full, None, None, full, None, None])),
        ):
            _cache._said.clear()
            with warnings.catch_warnings(record=True) as caught, patch:
                warnings.simplefilter("always")
                self.compile()
                self.compile()
            said = [str(w.message) for w in caught if w.category is aule.CacheWarning]
            self.assertEqual(len(said), 1, said)
            self.assertIn(why, said[0])
        self.assertEqual(self.files(), [])

    def test_no_place_at_all(self):
        with mock.patch.object(_cache, "_write", side_effect=OSError(28, "No space left on device")), warnings.catch_warnings():
            warnings.simplefilter("ignore", aule.CacheWarning)
            with self.assertRaisesRegex(aule.Error, "kernels need a file to be loaded from, and .* takes none: No space left"):
                aule.compile(SCRIPT % 1)

    def test_processes(self):
        """They write, read and remove the same few files; each gets what it asked for."""
        self.compile()
        environment = {**os.environ, "AULE_CACHE_MAX": str(2 * self.files()[0].stat().st_size)}
        running = [subprocess.Popen([sys.executable, "-c", SEVERAL, SCRIPT, str(n)], env=environment, stderr=subprocess.PIPE) for n in range(4)]
        for process in running:
            said = process.communicate()[1].decode()
            self.assertEqual(process.returncode, 0, said)
            self.assertNotIn("Warning", said)
        self.assertEqual([path for path in self.files() if path.suffix != ".so"], [])
        self.assertLessEqual(sum(path.stat().st_size for path in self.files()), int(environment["AULE_CACHE_MAX"]))
        for path in self.files():
            self.assertTrue(_cache._is_whole(path))


if __name__ == "__main__":
    unittest.main()
