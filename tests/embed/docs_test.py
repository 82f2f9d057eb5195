#!/usr/bin/env python3
"""The examples of a page: docs_test.py PAGE MHA.attn AULEC AULE LIBAULE INCLUDE

Blocks ```c NAME become files, and so do those of other languages that have a name; blocks ```sh run, all in one folder and in their
order. What the page names of the checkout is there as well. (What a page says of Meson and CMake is built by consumers_test.py.)
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

page, script, aulec, aule, library, include = map(lambda name: Path(name).resolve(), sys.argv[1:7])
blocks = re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", page.read_text(), re.M | re.S)
environment = dict(os.environ, C_INCLUDE_PATH=str(include), LIBRARY_PATH=str(library.parent), LD_LIBRARY_PATH=str(library.parent),
                   PATH=f"{aulec.parent}:{aule.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}")
environment["XDG_CACHE_HOME"] = "cache"
checkout, build = include.parent, library.parent.parent
ran = 0
with tempfile.TemporaryDirectory() as folder:
    shutil.copy(script, Path(folder, "mha.attn"))
    for name, there in (("attn_scripts", checkout), ("tests", checkout), ("python", checkout), ("build", None)):
        Path(folder, name).symlink_to(there / name if there else build)
    for language, name, text in blocks:
        if name:
            Path(folder, name).write_text(text)
        elif language == "sh":
            done = subprocess.run(["sh", "-euc", text], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True)
            if done.returncode:
                sys.exit(f"{page.name}: these commands fail:\n{text}\n{done.stdout}")
            ran += 1
print(f"{ran} blocks of commands")
sys.exit(ran == 0)
