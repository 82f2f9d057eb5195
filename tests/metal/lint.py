#!/usr/bin/env python3
"""The linter over what aulec prints for Metal: lint.py LINTER AULEC FOLDER
Of each script of a folder, of which a third comes each time (AULE_TEST_TURN, docs/dev/testing.md), every architecture, operand type and width, forward and
backward, with the script's lines in comments."""
import os, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

linter, aulec, folder = sys.argv[1:]
scripts = sorted(Path(folder).glob("*.attn"))
if os.environ.get("AULE_TEST_TURN"):
    scripts = scripts[int(os.environ["AULE_TEST_TURN"]) % 3 :: 3]


def wrong(job):
    """What is wrong with one architecture's text of one script, "" if nothing is; and how many kernels it has."""
    script, architecture = job
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / (Path(script).stem + ".metal")
        made = subprocess.run([aulec, script, "--target=metal", f"--arch={architecture}", "--emit=metal", "--lines", "-o", text], capture_output=True, text=True)
        if made.returncode:
            return made.stderr, 0
        found = subprocess.run([linter, text], capture_output=True, text=True)
        return found.stdout if found.returncode else "", text.read_text().count(" kernel void ")


with ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(wrong, [(script, architecture) for script in scripts for architecture in ("apple7", "apple9")]))
kernels = sum(count for _, count in results)
for words, _ in results:
    print(words, end="")
print(f"{len(scripts)} scripts, {kernels} kernels")
sys.exit(any(words or not count for words, count in results) or not scripts)
