"""libaule.so as others see it: exports aule_* alone, has no writable data of its own, needs libc alone, and is small.

    symbols_test.py NM READELF LIBAULE_SO
"""
import os
import re
import subprocess
import sys

nm, readelf, library = sys.argv[1:4]


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


wrong = []
exported = [line.split()[-1] for line in lines(nm, "-D", "--defined-only", library)]
wrong += ["exports %s" % name for name in exported if not name.startswith("aule_")]
if len(exported) < 40:
    wrong.append("exports only %d functions" % len(exported))

# d: constant tables with addresses in them lie in .data.rel.ro, which nm cannot tell from .data; so sections are asked for.
for line in lines(readelf, "-SW", library):
    found = re.match(r"\s*\[\s*\d+\]\s+(\.data|\.bss|\.tdata|\.tbss)\s+\S+\s+\S+\s+\S+\s+([0-9a-f]+)", line)
    # What the compiler's start files put there: __dso_handle, completed.
    if found and int(found.group(2), 16) > 8:
        wrong.append("%s of %d bytes: the library has state" % (found.group(1), int(found.group(2), 16)))

for line in lines(readelf, "-dW", library):
    found = re.search(r"\(NEEDED\).*\[(.*)\]", line)
    if found and not re.match(r"(libc|libm|libdl|libpthread|ld-linux.*)\.so", found.group(1)):
        wrong.append("needs %s" % found.group(1))

if os.path.getsize(library) > 440 * 1024:  # the bar is 1 MB; what is added should be noticed
    wrong.append("%d bytes, more than 440 KB" % os.path.getsize(library))

print("\n".join(wrong) or "%d functions, %d bytes" % (len(exported), os.path.getsize(library)))
sys.exit(bool(wrong))
