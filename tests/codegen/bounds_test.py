#!/usr/bin/env python3
"""Bounds of masks over tiles (compiler/hooks/hook_bounds.c) beside the masks themselves.

    bounds_test.py AULEC [MASKS [SEED]]

Random masks of all that has a rule, and of some that has none, over tensors of integers and truth values in runs and parameters of both signs. The
program of the tiled IR says `may` and `must` of a tile; here they are evaluated for random tiles, and the mask for each of their pairs. A tile
that cannot take part has no pair that does, one that must has all. Of a single pair both say what the mask says, if every operation has a rule.
Last line: "N passed, N failed"."""
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROWS, KEYS = 60, 70
INTEGERS = ("i", "j", "region[b, i]", "part[b, j]", "step", "edge", "S", "T")


def integer(r, depth):
    """An expression, and whether bounds know it at a single pair."""
    if depth == 0:
        return (r.choice(INTEGERS), True) if r.random() < 0.75 else (str(r.randint(0, 40)), True)
    kind = r.random()
    a, known_a = integer(r, depth - 1)
    b, known_b = integer(r, depth - 1)
    if kind < 0.3:
        return f"({a} - {b})", False  # of two that are read no difference is known
    if kind < 0.4:
        return f"({a} + {b})", False
    if kind < 0.55:
        return f"{r.choice(('min', 'max'))}({a}, {b})", known_a and known_b
    if kind < 0.65:
        return f"abs({a})", False
    if kind < 0.75:
        return f"({a} / {r.choice(('step', '7', '16'))})", False
    if kind < 0.8:
        return f"(-({a}))", False
    if kind < 0.83:
        return f"({a} % 5)", False
    return a, known_a


def place(r):
    """Of places alone. What simplification makes of a sum or a quotient, bounds need not know."""
    a = r.choice(("i", "j", "(i - j)", "(j - i)", "abs(i - j)", "min(i, j)", "max(i, 20)", "(i + T - S)"))
    whole = r.choice((a, f"({a} / step)", f"({a} / 16)"))
    return whole, whole in ("i", "j")


def truth(r, depth):
    if depth == 0:
        if r.random() < 0.2:
            return r.choice(("shown[b, j]", "alive[b, i]")), True
        (a, known_a), (b, known_b) = (place(r) if r.random() < 0.5 else integer(r, r.randint(0, 2)) for _ in range(2))
        return f"{a} {r.choice(('<', '<=', '>', '>=', '==', '!='))} {b}", known_a and known_b
    a, known_a = truth(r, depth - 1)
    kind = r.random()
    if kind < 0.15:
        return f"!({a})", known_a
    b, known_b = truth(r, depth - 1)
    if kind < 0.8:
        return f"(({a}) {r.choice(('&&', '||'))} ({b}))", known_a and known_b
    c, known_c = truth(r, 0)
    return f"where({c}, {a}, {b})", known_a and known_b and known_c


SCRIPT = """attention bounded {{
    q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E];
    input region: i32[B, S]; input alive: bool[B, S];
    input part: i32[B, T]; input shown: bool[B, T];
    param step: i32; param edge: i32;
    mask(b, h, i, j) = {};
    online softmax;
}}
"""


def python_of(text):
    text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or "))
    return text.replace("/", "//").replace("true", "True").replace("false", "False").replace("$", "").strip()


def where(c, a, b):
    return a if c else b


def bounds_of(aulec, mask, folder):
    """The statements up to `may` and `must`, compiled; the reads of rows and keys that they ask for. None: the mask has no bounds."""
    path = Path(folder) / "bounded.attn"
    path.write_text(SCRIPT.format(mask))
    done = subprocess.run([aulec, path, "--target", "cuda", "--arch", "sm_80", "--dtype", "bf16", "--width=D=64", "--width=E=64", "--emit=tiled-ir"], capture_output=True, text=True)
    if done.returncode:
        return done.stderr, None
    # Kernels for few queries, which some masks have, stand in front of those for any number
    every = [part.split("hooks inlined", 1)[-1] for part in done.stdout.split("// ==== ")[1:]]
    inlined, found = next(((part, at) for part in every if (at := re.search(r"^ +at = .*?^ +sure = ", part, re.M | re.S))), (None, None))
    if not found:
        return None, None
    lines = [line.strip() for line in found.group(0).splitlines()[1:-1]]
    reads = dict(re.findall(r"^ +((?:row|key)\d+)_read = f32\((.*)\)$", inlined.split("kernel compact", 1)[0], re.M))
    return [line.split(" = ", 1) for line in lines], {name: read_of(text) for name, text in reads.items()}


def read_of(text):
    return next(name for name in ("region", "alive", "part", "shown") if f"${name}" in text)


def runs(r, count, values):
    out = []
    while len(out) < count:
        out += [r.choice(values)] * r.choice((1, 3, 20))
    return out[:count]


def tile_says(statements, reads, data, tile):
    i, i_last, j, j_last = tile
    names = dict(data, where=where, min=min, max=max, abs=abs, at=j, end=i_last + 1)  # rows of the block begin at mb * 16
    for name, tensor in reads.items():
        span = data[tensor][0][i : i_last + 1] if name.startswith("row") else data[tensor][0][j : j_last + 1]
        names[f"{name}_low"], names[f"{name}_high"] = int(min(span)), int(max(span))
    for target, value in statements:
        names[target] = i if value == "mb * 16" else j_last if target == "j_last" else eval(python_of(value), {}, names)
    return names["may"], names["must"]


def try_mask(aulec, mask, known, r, folder):
    statements, reads = bounds_of(aulec, mask, folder)
    if isinstance(statements, str):
        return "refused" if "error" in statements else statements, 0
    if statements is None:
        return None, 0
    of_pair = re.sub(r"(region|part|alive|shown)\[b, (\w)\]", r"\1[0][\2]", python_of(mask))
    code, useful = compile(of_pair, mask, "eval"), 0
    for _ in range(12):
        S, T = r.randint(1, ROWS), r.randint(1, KEYS)
        data = {"S": S, "T": T, "step": r.choice((-3, 0, 1, 5, 16)), "edge": r.choice((-9, 0, 4, 50)), "region": [runs(r, S, (0, 1, 2, 40))], "part": [runs(r, T, (0, 1, 2, 40))]}
        data["alive"], data["shown"] = [runs(r, S, (False, True))], [runs(r, T, (False, True))]
        for _ in range(12):
            i, j = r.randrange(S), r.randrange(T)
            i_last, j_last = r.choice((i, r.randrange(i, S))), r.choice((j, r.randrange(j, T)))
            names = dict(data, where=where, min=min, max=max, abs=abs)
            try:
                may, must = tile_says(statements, reads, data, (i, i_last, j, j_last))
                pairs = [bool(eval(code, {}, dict(names, i=a, j=c))) for a in range(i, i_last + 1) for c in range(j, j_last + 1)]
            except ZeroDivisionError:  # means nothing on any device
                continue
            if (not may and any(pairs)) or (must and not all(pairs)):
                return f"{mask}\n    {data}\n    rows {i} to {i_last}, keys {j} to {j_last}: may {may}, must {must}, pairs {sum(pairs)} of {len(pairs)}", 0
            if known and len(pairs) == 1 and not (may == must == pairs[0]):
                return f"{mask}: one pair, {i}, {j}: may {may}, must {must}, it is {pairs[0]}", 0
            useful += may == must
    return None, useful


def main():
    aulec, masks = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60
    r = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    passed = failed = useful = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        for n in range(masks):
            mask, known = truth(r, n % 4)
            wrong, told = try_mask(aulec, mask, known, r, folder)
            refused += wrong == "refused"
            useful += told
            if wrong and wrong != "refused":
                print("wrong:", wrong)
                failed += 1
            else:
                passed += 1
    print(f"tiles that bounds settled: {useful}; masks that are refused: {refused}")
    # a test that settles nothing shows nothing
    failed += useful < 10 * masks or refused > masks // 4
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
