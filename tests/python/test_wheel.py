"""`pip install .`: a wheel for all Pythons is built without the network, installed into a new environment, and works there by itself."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CHECK = """
import sys
import numpy, aule
assert aule.__file__.startswith(sys.prefix), aule.__file__
x = numpy.ones((1, 2, 3, 16), numpy.float32)
numpy.testing.assert_allclose(aule.attention(x, x, 2 * x, causal=True), 2 * x, rtol=1e-6)
print(aule.version(), aule.compiler_version())
"""

@unittest.skipIf(importlib.util.find_spec("mesonpy") is None or not shutil.which("patchelf"), "meson-python or patchelf is not installed")
class Wheel(unittest.TestCase):
    def run_(self, *command, **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AULE_LIBRARY"))}
        ran = subprocess.run(command, env=kept | environment, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, f"{command}:\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}")
        return ran.stdout

    def check_contents(self, wheel):
        self.assertRegex(wheel.name, r"^aule-[0-9.]+-py3-none-(many)?linux_")
        self.assertLess(wheel.stat().st_size, 64 << 20)
        with zipfile.ZipFile(wheel) as held:
            names = held.namelist()
            metadata = Parser().parsestr(held.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode())
        self.assertEqual((metadata["Name"], metadata["License-Expression"], metadata["License-File"]), ("aule", "MIT", "LICENSE"))
        self.assertEqual(metadata["Description-Content-Type"], "text/markdown")
        self.assertEqual(metadata.get_payload().strip(), (ROOT / "README.md").read_text().strip())
        modules = {Path(name).name for name in names if "/aule/" in name}
        self.assertEqual(modules, {path.name for path in (ROOT / "python/aule").iterdir() if path.is_file()})

    def test_wheel(self):
        with tempfile.TemporaryDirectory(prefix="aule-wheel-") as folder:
            pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
            offline = ("--no-index", "--no-deps")
            # Not optimised, which takes a third of the time: what it computes is for other tests.
            settings = ("--config-settings", f"builddir={folder}/build", "--config-settings", "setup-args=-Doptimization=0")
            self.run_(*pip, "wheel", *offline, "--no-build-isolation", *settings, "-w", folder, str(ROOT), PYTHONPATH=os.environ.get("AULE_TEST_PACKAGES", ""))
            wheel, = Path(folder).glob("*.whl")
            self.check_contents(wheel)
            place = Path(folder, "environment")
            venv.create(place, system_site_packages=True)  # for NumPy
            self.run_(*pip, "--python", str(place / "bin/python"), "install", *offline, str(wheel))
            versions = self.run_(str(place / "bin/python"), "-c", CHECK, XDG_CACHE_HOME=folder)
            self.assertEqual(len(versions.split()), 2)
            self.assertIn("cpu", self.run_(str(place / "bin/aule"), "devices"))
            self.assertIn("aulec", self.run_(str(place / "bin/aulec"), "--version"))
            script = ROOT / "tests/front/examples/gemma_local.attn"
            self.assertIn("gemma", self.run_(str(place / "bin/aule"), "check", str(script), "--backend", "cpu", "--shape", "S=20,T=20"))


if __name__ == "__main__":
    unittest.main()
