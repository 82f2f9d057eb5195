"""for_sanitizer.py IN.so OUT.so: the same kernels of groups of warps in a form that compute-sanitizer follows (sanitizer_sees.cu shows
on a few lines what it does not).

racecheck: kernels store, meet (`bar.warp.sync`), and let one lane arrive at a barrier in memory for all. That is right by PTX's memory
model, but ptxas leaves the meeting out where lanes are together anyway, and the tool then orders the stores of that one lane alone and
reports the other 31. Here each arrival is made by 32 lanes and each barrier counts 32 times as many.
synccheck: groups that go different ways meet at a named barrier by two instructions, which the tool takes for divergence unless they are
not `aligned`. Here they are not.
What is stored, read and waited for stays as it is. PTX lies in the artifact as text, between zeros, and keeps its length: comments and
indentation make the room."""

import re
import sys

OBJECT = r"\[[^\]]+\]"
# elected arrival, perhaps with the bytes that copies will bring
ARRIVE = re.compile(rf"@(%p\d+) (mbarrier\.arrive(\.expect_tx)?\.shared::cta\.b64 _, ({OBJECT})[^;]*;)")
BEGIN = re.compile(rf"(@%p\d+ mbarrier\.init\.shared::cta\.b64 {OBJECT}, )(%r\d+);")
NAMED = re.compile(r"\bbar\.sync(?=[ \t]+%?\w+, %?\w+;)")
MODULE = re.compile(rb"[^\0]*\.version [0-9.]+\n\.target sm_90a[^\0]*\0")


def arrive(found):
    by, whole, expects, where = found.groups()
    if not expects:
        return whole
    return f"@{by} {whole}\n@!{by} mbarrier.arrive.shared::cta.b64 _, {where};"


def rewritten(ptx):
    text = ARRIVE.sub(arrive, ptx)
    text = BEGIN.sub(r"{.reg .b32 n;\nshl.b32 n, \2, 5;\n\1n;}", text)
    text = NAMED.sub("barrier.sync", text)
    text = re.sub(r"[ \t]*//[^\n]*", "", text)
    return re.sub(r"\n\s+", "\n", text)


def same_length(found):
    old = found.group(0)[:-1]
    new = rewritten(old.decode()).encode()
    if len(new) > len(old):
        raise SystemExit(f"for_sanitizer.py: {len(new) - len(old)} bytes too long")
    return new + b"\n" * (len(old) - len(new)) + b"\0"


def main(source, target):
    with open(source, "rb") as file:
        artifact = file.read()
    result, count = MODULE.subn(same_length, artifact)
    if not count or len(ARRIVE.findall(artifact.decode("latin-1"))) == 0:
        raise SystemExit(f"for_sanitizer.py: {source}: no PTX for sm_90a with barriers in memory")
    with open(target, "wb") as file:
        file.write(result)


if __name__ == "__main__":
    main(*sys.argv[1:])
