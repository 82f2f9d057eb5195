"""What `tools/conformance --check` takes for a cell that is lost, and for an executor that has to be there; how a hard case and a missing column are written.

    conformance_test.py CONFORMANCE
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
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
        self.assertEqual(conformance.lost([MISSING], [], []), [])
        self.assertEqual(len(conformance.lost([MISSING], ["vulkan"], [])), 1)

    def test_cells_that_vanished(self):
        """Of what was asked for, every cell of the table is printed; of executors that are not there none has to be."""
        with tempfile.TemporaryDirectory() as folder:
            conformance.LINES = Path(folder) / "lines"
            table = [PASSED, {**PASSED, "pass": "backward"}, {**REFUSED, "dtype": "f32"}, HARD, {**PASSED, "script": "gla"}, {**PASSED, "executor": "vulkan"}]
            conformance.LINES.write_text("".join(json.dumps(cell) + "\n" for cell in table))
            for cells, words, count in [([PASSED], ["mha"], 2), (table[:3], ["mha"], 0), ([PASSED], ["f16", "mha"], 1), ([], [], 4), ([PASSED], ["hard"], 1), ([HARD], ["hard", "mha"], 0),
                                        ([HARD], ["hard", "gla"], 0), ([], ["relu"], 0)]:
                said = conformance.lost(cells, [], [("cpu", words)])
                self.assertEqual(len(said), count, (words, said))
            self.assertIn("cpu mha backward f16: 0.50 before, now there is no such cell", conformance.lost([PASSED], [], [("cpu", ["mha"])]))
            self.assertEqual(conformance.lost([MISSING], [], [("vulkan", ["mha"])]), [])

    def test_program_that_prints_less(self):
        """--check by a program in the place of attn_scripts_test: every cell of the table, or the first alone."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            conformance.LINES = root / "lines"
            cells = [{"script": "mha", "pass": at, "dtype": dtype, "status": "passed", "error": 0.5} for at in conformance.PASSES for dtype in conformance.DTYPES]
            conformance.LINES.write_text("".join(json.dumps({"executor": "sm_80", **cell}) + "\n" for cell in cells))
            program = root / "tests/scripts/attn_scripts_test"
            program.parent.mkdir(parents=True)
            for printed, status, said in [(cells, False, "6 cells are as the table says"), (cells[:1], True, "sm_80 mha backward bf16: 0.50 before, now there is no such cell")]:
                text = "".join(json.dumps(cell) + "\n" for cell in printed)
                program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
                program.chmod(0o755)
                sys.argv[1:] = [folder, "--check", "--executors", "sm_80"]
                with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
                    self.assertEqual(bool(conformance.main()), status)
                self.assertIn(said, out.getvalue())
                del sys.argv[1:]

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
