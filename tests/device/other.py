#!/usr/bin/env python3
"""Runs the suite on an AMD or Apple GPU of this machine, with the programs of a build folder, and writes a table to be sent to us:

    other.py [--small] BUILD DEVICE TABLE [PART...]        DEVICE: hip:0, metal:0; every part, or those named

| part | what |
|---|---|
| scripts | the examples' scripts, forward and backward, hard shapes, types in turns, against the oracle |
| library | every script of attn_scripts/, the same |
| sums | long sums: thousands of keys or queries |
| demo | two scripts on the data of two language models |
| times | mha forward and both passes, f16, widths 64 and 128, by the device's own clock (`aule bench`) |

--small takes a script and a short shape of each part: enough to see that the parts work, on devices that are emulated.

The last line is "N passed, N failed". Nothing but the standard library is needed."""
import os
import subprocess
import sys
import time
from pathlib import Path

from run import by_last_line, demo_ran

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES, LIBRARY = ROOT / "tests/front/examples", ROOT / "attn_scripts"
LIMIT = 3600  # seconds a command
SHAPES = ["B=4,H=16,S=2048,T=2048,D=64,E=64", "B=2,H=16,S=4096,T=4096,D=128,E=128"]
SMALL_SHAPES = ["B=1,H=1,S=16,T=16,D=64,E=64"]


class Suite:
    def __init__(self, build, device, small):
        self.build, self.device, self.small, self.rows, self.details = build, device, small, [], []
        self.aule, self.aulec = build / "runtime/tools/aule", build / "compiler/driver/aulec"

    def run(self, words):
        begin = time.monotonic()
        try:
            done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT)
            said, status = done.stdout, done.returncode
        except subprocess.TimeoutExpired as expired:
            said, status = (expired.stdout or b"").decode(errors="replace") + f"\nnot done after {LIMIT} s", 1
        return said, status, time.monotonic() - begin

    def counted(self, part, words):
        """A program that ends with "N passed, N failed"; one that does not has failed, and so has one that was left out (77)."""
        said, status, seconds = self.run(words)
        counts = by_last_line(1 if status == 77 else status, said)
        self.add(part, counts.passed, counts.failed, seconds, said if counts.failed else "")

    def add(self, part, passed, failed, seconds, said=""):
        self.rows.append((part, passed, failed, seconds))
        print(f"{part:8} {passed} passed, {failed} failed, {seconds:.0f} s", flush=True)
        if said:
            self.details.append(f"### {part}\n\n" + "\n".join("    " + line for line in said.strip().splitlines()[-40:]))
            print("\n".join("    " + line for line in said.strip().splitlines()[-12:]), flush=True)

    # ---- parts

    def scripts(self):
        only = ["sigmoid"] if self.small else []
        self.counted("scripts", [self.build / "tests/exec/scripts_test", self.device, EXAMPLES, "turns", *only])

    def library(self):
        self.counted("library", [self.build / "tests/scripts/attn_scripts_test", self.device, LIBRARY, "retnet" if self.small else "turns"])

    def sums(self):
        which = ["turns", "low_sigmoid"] if self.small else ["1"]
        self.counted("sums", [self.build / "tests/exec/sums_test", self.device, EXAMPLES, *which])

    def demo(self):
        said, status, seconds = self.run([self.build / "demo/demo", "--scripts", ROOT / "demo", "--data", ROOT / "tests/data"])
        good = not status and demo_ran(self.device, said)
        self.add("demo", int(good), int(not good), seconds, said)

    def artifact(self):
        """mha for this device alone."""
        where = self.build / f"device-{self.device.replace(':', '-')}.so"
        target = self.device.partition(":")[0]
        arch = ["--arch", self.features()[0]] if target == "hip" else []
        width = ["--width", "D=64"] if self.small else []
        said, status, _ = self.run([self.aulec, LIBRARY / "mha.attn", "--target", target, *arch, *width, "--dtype", "f16", "-o", where])
        return where, said if status else ""

    def times(self):
        artifact, wrong = self.artifact()
        if wrong:
            self.add("times", 0, 1, 0, wrong)
            return
        for shape in SMALL_SHAPES if self.small else SHAPES:
            for backward in ([], ["--backward"]):
                words = [self.aule, "bench", artifact, "--backend", self.device, "--dtype", "f16", "--shape", shape, *backward]
                said, status, seconds = self.run(words)
                self.add("times", int(not status), int(bool(status)), seconds, said)

    # ---- the table

    def listing(self):
        """What `aule devices` says of the device, and why not where it is none."""
        said, _, _ = self.run([self.aule, "devices"])
        own, name = [], self.device.partition(":")[0]
        for line in said.splitlines():
            own += [line] if line.split()[:1] in ([self.device], [name]) or (own and line.startswith(" ")) else []
            if own and not line.startswith(" ") and line != own[0]:
                break
        return own

    def features(self):
        return next((line.split("features:")[1].split() for line in self.listing() if "features:" in line), [""])

    def table(self):
        head = "\n".join("    " + line for line in self.listing())
        rows = "\n".join(f"| {part} | {passed} | {failed} | {seconds:.0f} |" for part, passed, failed, seconds in self.rows)
        return f"# {self.device}\n\n{head}\n\n| part | passed | failed | seconds |\n|---|---|---|---|\n{rows}\n\n" + "\n\n".join(self.details) + "\n"


PARTS = ["scripts", "library", "sums", "demo", "times"]


def main():
    small = sys.argv[1:2] == ["--small"]
    words = sys.argv[1 + small:]
    if len(words) < 3 or any(part not in PARTS for part in words[3:]):
        sys.exit(__doc__)
    build, device, table, *parts = words
    suite = Suite(Path(build).resolve(), device, small)
    os.environ["AULE_LIBRARY_PATH"] = f"{suite.build / 'runtime'}:{suite.build / 'compiler/driver'}"
    listing = suite.listing()
    print("\n".join(listing) or f"{suite.device}: aule devices does not name it", flush=True)
    if not listing or not listing[0].startswith(suite.device + " "):
        print("0 passed, 1 failed")
        return 1
    for part in parts or PARTS:
        getattr(suite, part)()
    Path(table).write_text(suite.table())
    passed, failed = (sum(row[n] for row in suite.rows) for n in (1, 2))
    print(f"the table, which we are glad to be sent: {table}\n{passed} passed, {failed} failed")
    return bool(failed) or not passed


if __name__ == "__main__":
    sys.exit(main())
