#!/usr/bin/env python3
"""Pages say what is: pages_test.py CHECKOUT AULEC

The scripts of docs/from-flexattention.md compile; docs/environment.md lists the variables that the sources read and no others; docs/recipes.md and
docs/README.md leave out no script and no page; anchors of links are headings; code that a page quotes is in the file that it names.
"""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT, AULEC = Path(sys.argv[1]), sys.argv[2]
DOCS = ROOT / "docs"
READS = re.compile(r"""(?<!\w)(?:getenv\(|define \w+_PATIENCE |environ(?:\.get)?[\[(]|["'](?=AULE_TEST_\w+["'] in os\.environ))["'](\w+)["']""")
SOURCES = ("dsl", "compiler", "codegen", "runtime", "python", "demo", "bench", "tests")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)


def variables():
    files = [path for folder in SOURCES for kind in ("*.c", "*.h", "*.cpp", "*.py") for path in (ROOT / folder).rglob(kind)]
    assert len(files) > 300
    return {name for path in files if path != Path(__file__).resolve() for name in READS.findall(path.read_text())}


class Pages(unittest.TestCase):
    def test_scripts_compile(self):
        scripts = blocks("from-flexattention.md", "attn")
        self.assertGreater(len(scripts), 4)
        for script in scripts:
            with self.subTest(script.split("{")[0]), tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "x.attn")
                path.write_text(script)
                done = subprocess.run([AULEC, path, "--target=cpu", "--arch=x86-64-v3", "--dtype=f32", "--width=D=64", "-o", Path(folder, "x.so")],
                                      capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_quotes(self):
        """What a block of code with a path stands for is in that file, word for word."""
        quotes = [(page, path, text) for page in DOCS.rglob("*.md")
                  for path, text in re.findall(r"^```\w+ (tests/\S+)\n(.*?)^```$", page.read_text(), re.M | re.S)]
        self.assertGreater(len(quotes), 9)
        for page, path, text in quotes:
            self.assertIn(text, (ROOT / path).read_text(), f"{page.name}: {path}")
        for page in DOCS.rglob("*.md"):
            for path, lines in re.findall(r"`(tests/[\w/]+\.c)` is [\w ]+, (\d+) lines", page.read_text()):
                self.assertEqual(len((ROOT / path).read_text().splitlines()), int(lines), f"{page.name}: {path}")

    def test_environment(self):
        listed = set()
        for row in re.findall(r"^\| (`.*?`) \|", (DOCS / "environment.md").read_text(), re.M):
            listed |= set(re.findall(r"`(\w+)`", row))
        # Those that a shell script or PyTorch reads, the system's own, and what a double of a driver reads as the driver does.
        self.assertEqual(variables() - {"PATH", "PYTHONPATH", "MOCK_CUDA", "MOCK_CUDA_OFFSET", "LEVELZERO_DOUBLE_RELAXED", "ONEDNN_MAX_CPU_ISA", "HIP_VISIBLE_DEVICES"}, listed)

    def test_recipes(self):
        named = set(re.findall(r"attn_scripts/(\w+)\.attn", (DOCS / "recipes.md").read_text()))
        self.assertEqual(named, {path.stem for path in (ROOT / "attn_scripts").glob("*.attn")})

    def test_index(self):
        linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", (DOCS / "README.md").read_text()))
        self.assertEqual(linked, {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"README.md"})

    def test_anchors(self):
        def anchor(heading):
            return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")

        for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
            for path, name in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", page.read_text()):
                target = page.parent / path if path else page
                self.assertTrue(target.exists(), f"{page.name}: {path}")
                headings = re.findall(r"^#+ (.*)$", target.read_text(), re.M)
                self.assertIn(name, [anchor(heading) for heading in headings], f"{page.name}: {path}#{name}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
