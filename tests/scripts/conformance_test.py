"""What `tools/conformance --check` takes for a cell that is lost, and for an executor that has to be there; how a hard case and a missing column are written.

    conformance_test.py CONFORMANCE
"""
import importlib.machinery
import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

loader = importlib.machinery.SourceFileLoader("conformance", sys.argv.pop(1))
conformance = importlib.util.module_from_spec(importlib.util.spec_from_loader("conformance", loader))
sys.dont_write_bytecode = True
loader.exec_module(conformance)

AT = {"executor": "cpu", "script": "mha", "pass": "forward", "dtype": "f16"}
PASSED, FAILED = {**AT, "status": "passed", "error": 0.5}, {**AT, "status": "failed", "why": "o"}
REFUSED, OTHERWISE = {**AT, "status": "refused", "code": "E0601"}, {**AT, "status": "refused", "code": "E0620"}
CUT = {**AT, "status": "not run", "why": "loops"}
HARD = {**PASSED, "how": "odd nan", "error": 0.25}
MISSING = {"executor": "vulkan", "status": "not run", "why": "no driver"}


class Conformance(unittest.TestCase):
    def test_lost(self):
        for old, new, lost in [(None, PASSED, False), (None, REFUSED, False), (None, FAILED, True), (PASSED, REFUSED, True), (PASSED, CUT, True), (REFUSED, REFUSED, False),
                               (REFUSED, OTHERWISE, True), (REFUSED, CUT, True), (REFUSED, PASSED, False), (CUT, CUT, False), (CUT, REFUSED, True), (FAILED, PASSED, False)]:
            self.assertEqual(conformance.is_lost(old, new), lost, (old, new))

    def test_executors_that_have_to_be_there(self):
        self.assertEqual(conformance.lost([MISSING], []), [])
        self.assertEqual(len(conformance.lost([MISSING], ["vulkan"])), 1)

    def test_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            x = conformance.Executor("x", "x:0", "", library="double", sign=[f"{folder}/driver*"])
            self.assertFalse(x.is_installed(Path(folder)))
            (Path(folder) / "double").mkdir()
            self.assertFalse(x.is_installed(Path(folder)))
            (Path(folder) / "driver.json").touch()
            self.assertTrue(x.is_installed(Path(folder)))

    def test_tables(self):
        text = conformance.tables([PASSED, HARD, MISSING])
        self.assertIn("| mha | - 0.50 - |", text)
        self.assertIn("### Hard cases, forward\n\n| script | cpu |\n|---|---|\n| mha: odd nan | - 0.25 - |", text)
        self.assertNotIn("| vulkan |", text)

    def test_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            conformance.LINES, conformance.TABLE = Path(folder) / "lines", Path(folder) / "page"
            conformance.TABLE.write_text(conformance.BEGIN + conformance.END)
            conformance.write([HARD, MISSING, PASSED])
            self.assertEqual(conformance.read_lines(), [PASSED, HARD, MISSING])
            conformance.write([MISSING, {**PASSED, "executor": "vulkan"}])  # it ran: of a column that is there no line says that it is not
            self.assertEqual(conformance.read_lines(), [{**PASSED, "executor": "vulkan"}])


if __name__ == "__main__":
    unittest.main()
