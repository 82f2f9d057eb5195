"""Drivers' libraries that lack a function which the runtime needs: `aule devices` names it and says what is too old, and other devices do not care.

    old_driver_test.py AULE LIBRARY...    tests' doubles of drivers, of each of which a copy has the function by another name
"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

AULE, LIBRARIES = sys.argv[1], [Path(path) for path in sys.argv[2:]]
OTHERS = {"OCL_ICD_VENDORS": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"}  # real drivers take seconds to begin
# Of a library: functions, and what is said.
CASES = {
    "libcuda.so.1": (["cuDeviceGetAttribute", "cuModuleLoadDataEx"], "cuda       not available: libcuda.so.1 has no {}: the driver is too old, at least 450 (CUDA 11.0) is needed"),
    "libamdhip64.so.6": (["hipGetDevicePropertiesR0600", "hipDrvGetErrorName", "hipModuleLaunchKernel", "hipPointerGetAttributes"],
                         "hip        not available: libamdhip64.so has no {}: ROCm is too old, at least 6.0 is needed"),
    "libobjc.A.dylib": (["objc_autoreleasePoolPush", "sel_registerName"], "metal      not available: the system's libraries have no {}"),
}


class OldDrivers(unittest.TestCase):
    def devices(self, library, function):
        """With the library's table of names changed in one: it does not export the function any more. What is beside it comes along."""
        own, name = function.encode() + b"\0", library.name
        with tempfile.TemporaryDirectory() as folder:
            for path in library.parent.glob("*.dylib") if name.endswith(".dylib") else [library]:
                data = path.read_bytes()
                if path.name == name:
                    self.assertIn(own, data)
                    data = data.replace(own, own[:-2] + b"_\0")
                (Path(folder) / path.name).write_bytes(data)
            done = subprocess.run([AULE, "devices"], env={**os.environ, **OTHERS, "LD_LIBRARY_PATH": folder}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_functions_that_are_missing(self):
        for library in LIBRARIES:
            functions, said = CASES[library.name]
            for function in functions:
                with self.subTest(function):
                    lines = self.devices(library, function)
                    self.assertIn(said.format(function), lines)
                    self.assertTrue(any(line.startswith("cpu ") for line in lines))

    def test_damaged_libraries(self):
        """What is told is of the file that is there, whatever names are looked for behind it."""
        for name, said in {"libcuda.so.1": "cuda ", "libamdhip64.so.7": "hip ", "libamdhip64.so.6": "hip ", "libamdhip64.so": "hip ",
                           "libze_loader.so.1": "levelzero ", "libvulkan.so.1": "vulkan ", "libOpenCL.so.1": "opencl "}.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / name
                path.write_text("no library\n")
                done = subprocess.run([AULE, "devices"], env={**os.environ, **OTHERS, "LD_LIBRARY_PATH": folder}, capture_output=True, text=True)
                (line,) = [line for line in done.stdout.splitlines() if line.startswith(said)]
                self.assertIn(f"{path}: ", line)
                self.assertNotIn("No such file", line)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
