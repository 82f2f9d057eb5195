"""Runs docs/tour.md: each command prints what is shown below it, less what `...` stands for.

    tour_test.py PAGE AULEC AULE

A line `...` is any number of lines, a line that ends in ` ..` is only begun; numbers behind % are not compared. Standard library only.
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE, TOOLS = Path(sys.argv[1]), {"aulec": os.path.abspath(sys.argv[2]), "aule": os.path.abspath(sys.argv[3])}


def plain(line):
    return re.sub(r"%\d+", "%", line.rstrip())


def is_line(shown, line):
    shown, line = plain(shown), plain(line)
    return line.startswith(shown[:-2]) if shown.endswith(" ..") else line == shown


def missing(shown, printed):
    """The first line that is not where it should be; None: all are."""
    at, free = 0, False
    for line in shown:
        if line == "...":
            free = True
            continue
        found = next((n for n in range(at, len(printed)) if is_line(line, printed[n])), None)
        if found is None or (found != at and not free):
            return line
        at, free = found + 1, False
    return None if free or at == len(printed) else "(the end)"


def commands(block):
    """(command, lines below it) of a block that begins with `$`."""
    parts = []
    for line in block.splitlines():
        if line.startswith("$ "):
            parts.append((line[2:], []))
        else:
            parts[-1][1].append(line)
    return parts


def main():
    text, failed, passed = PAGE.read_text(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        script = re.search(r"`(\w+\.attn)`:\n\n```attn\n(.*?)```", text, re.S)
        Path(folder, script[1]).write_text(script[2])
        for block in re.findall(r"^```\n(\$ .*?)^```$", text, re.S | re.M):
            for command, shown in commands(block):
                words = shlex.split(command)
                done = subprocess.run([TOOLS[words[0]], *words[1:]], cwd=folder, capture_output=True, text=True, timeout=100)
                wrong = f"exit status {done.returncode}: {done.stderr}" if done.returncode else missing(shown, done.stdout.splitlines())
                if wrong:
                    print(f"FAIL {command}\n     not there: {wrong}")
                failed, passed = failed + bool(wrong), passed + (not wrong)
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed < 10


sys.exit(main())
