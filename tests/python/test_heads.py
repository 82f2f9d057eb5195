"""The lines `// Call:` and `// Decode:` in the heads of attn_scripts/ are calls that work: the latter over pages, what dense calls of each sequence give; by steps, what a call with all
tokens gives. Scripts of which it says that there is none are refused."""

from __future__ import annotations

import ast
import re
import unittest

import numpy as np

import aule
from support import DEVICE, ROOT, narrow

SIZES = {"H": 4, "Hk": 2, "Hv": 2, "G": 2, "S": 3, "D": 16, "E": 16, "K": 16, "V": 16, "N": 16, "P": 16, "W": 9}
LENGTHS = np.array([70, 3, 17], np.int32)
SLOTS, MOST, TOKENS = 16, 96, 7
OWN = {"swin": {"S": 49, "N": 13}, "natten2d": {"S": 2 * 56}}  # sizes of a script that asks for them
OTHERS = {"layer": 1, "layers": 4, "lam": 0.5, "aule": aule, "lengths": LENGTHS}  # that no tensor is


def heads(word: str) -> dict[str, str]:
    lines = {path.stem: re.findall(rf"^// {word}: (.*?)(?: +# .*)?$", path.read_text(), re.M) for path in (ROOT / "attn_scripts").glob("*.attn")}
    assert all(len(found) == 1 for found in lines.values()), lines
    return {stem: found[0] for stem, found in sorted(lines.items())}


CALLS, HEADS = heads("Call"), heads("Decode")


def stems(kind) -> list[str]:
    return [stem for stem, line in HEADS.items() if kind == ("none" if line.startswith("none,") else "step" if f"{stem}.step(" in line else "paged")]


def array(r, spec, sizes):
    shape = tuple(sizes[axis] if isinstance(axis, str) else axis for axis in spec.axes)
    dtype = np.dtype("float32" if spec.dtype == "operand" else spec.dtype)
    return r.standard_normal(shape).astype(dtype) if dtype.kind == "f" else r.integers(0, 2, shape).astype(dtype)


def called(stem: str, f, tensors: dict[str, np.ndarray], more: dict) -> tuple[object, dict, list[str]]:
    """Runs the line; what the function gave, its parameters, and its positional tensors. [tensors] go by the script's names."""
    line, made, asked = HEADS[stem], [], {}
    call = next(node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Call) and stem in ast.unparse(node.func).split("."))
    given = [x.id for x in call.args if x.id != "state"]
    assert all(name == of for name, of in zip(given, "qkv") if name in "qkv"), line
    names = dict(zip(given, "qkv")) | {x.value.id: x.arg for x in call.keywords if isinstance(x.value, ast.Name) and x.arg in tensors}

    def spy(function):
        def run(*qkv, **named):
            asked.update(named)
            made.append(function(*qkv, device=DEVICE, **named))
            return made[0]

        return run

    run = spy(f)
    run.step = spy(f.step)
    exec(line, OTHERS | {name: tensors[of] for name, of in names.items() if name not in OTHERS} | more | {stem: run})
    return made[0], {name: x for name, x in asked.items() if name != "axes"}, given


class Paged:
    """Keys of sequences as far as each has some, and in pages; what else the script takes."""

    def __init__(self, f, paged):
        r = np.random.default_rng(0)
        self.of_pages = {t.name for t in paged.tensors if t.axes and t.axes[0] == "T_pages"}
        self.specs = [t for t in f.tensors if t.role in ("q", "k", "v", "input") and not t.in_k]
        self.dense = {t.name: array(r, t, SIZES | {"B": len(LENGTHS), "T": MOST}) for t in self.specs}
        entries = MOST // SLOTS
        self.table = r.permutation(len(LENGTHS) * entries).reshape(-1, entries).astype(np.int32)
        self.given = dict(self.dense)
        for t in self.specs:
            if t.name in self.of_pages:
                x = self.dense[t.name]
                pages = x.reshape(len(LENGTHS), x.shape[1], entries, SLOTS, -1).swapaxes(1, 2)
                self.given[t.name] = np.empty((self.table.size, *pages.shape[2:]), x.dtype)
                self.given[t.name][self.table] = pages

    def of(self, b, named):
        """Sequence b by itself; [named]: what a call gave by name."""
        one = dict(named)
        for t in self.specs:
            x = self.dense[t.name] if t.name in self.of_pages else named.get(t.name, self.dense[t.name])
            for n, axis in enumerate(t.axes):
                x = x[(slice(None),) * n + (slice(b, b + 1) if axis == "B" else slice(0, LENGTHS[b]) if axis == "T" else slice(None),)]
            one[t.name] = x
        return one


class Heads(unittest.TestCase):
    def test_lines(self):
        self.assertEqual([len(stems(kind)) for kind in ("none", "step", "paged")], [10, 12, 31])

    def test_calls(self):
        for stem, line in CALLS.items():
            with self.subTest(stem):
                f = aule.compile(narrow(ROOT / f"attn_scripts/{stem}.attn"), optimize=1)
                r, sizes = np.random.default_rng(0), SIZES | {"B": 2, "T": 40, "S": 40} | OWN.get(stem, {})
                x = {t.name: array(r, t, sizes) for t in f.tensors if t.role in ("q", "k", "v", "input") and not t.in_k}
                call = next(node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Call) and ast.unparse(node.func) == stem)
                names = {arg.id: x[of] for arg, of in zip(call.args, "qkv")} | {"np": np, "H": SIZES["H"], "step": 3, stem: f}
                for given in (k for k in call.keywords if k.arg in x and k.arg != "slope"):  # `fade=log_f.cumsum(-1)`: log_f
                    names[next(node.id for node in ast.walk(given.value) if isinstance(node, ast.Name))] = x[given.arg]
                exec(line, made := OTHERS | names)
                o = made[ast.parse(line).body[-1].targets[0].elts[0].id if "return_state" in line else ast.parse(line).body[-1].targets[0].id]
                self.assertTrue(np.isfinite(o).all())

    def test_pages(self):
        for stem in stems("paged"):
            with self.subTest(stem):
                f, paged = (aule.compile(narrow(ROOT / f"attn_scripts/{stem}.attn"), layout=layout, optimize=1) for layout in (None, "T=paged"))
                case = Paged(f, paged)
                o, named, _ = called(stem, f, case.given, {"table": case.table} if "table" not in case.given else {"page_table": case.table})
                for b in range(len(LENGTHS)):
                    one = case.of(b, named)
                    want = f(*[one.pop(n) for n in "qkv" if n in one], **one, device=DEVICE)
                    first = lambda x: x[0] if isinstance(x, tuple) else x  # noqa: E731
                    np.testing.assert_allclose(first(o)[b], first(want)[0], rtol=0, atol=2e-5 * np.abs(first(want)).max(), err_msg=f"{LENGTHS[b]} keys")

    def test_steps(self):
        for stem in stems("step"):
            with self.subTest(stem):
                f = aule.compile(ROOT / f"attn_scripts/{stem}.attn", optimize=1)
                r, specs = np.random.default_rng(0), [t for t in f.tensors if t.role in ("q", "k", "v", "input")]
                x = {t.name: array(r, t, SIZES | {"B": 2, "T": TOKENS}) for t in specs}

                def cut(tokens):
                    return {t.name: x[t.name][tuple(tokens if axis == "T" else slice(None) for axis in t.axes)] for t in specs}

                def whole(tensors, **more):
                    return f(*[tensors[n] for n in "qkv"], **{n: y for n, y in tensors.items() if n not in "qkv"}, **more, device=DEVICE)

                depth = {"depth": OTHERS["layer"] / OTHERS["layers"]} if stem == "lightning" else {}
                _, state = whole(cut(slice(0, TOKENS - 1)), **depth, return_state=True)
                o, named, given = called(stem, f, cut(slice(TOKENS - 1, TOKENS)), {"state": state})
                self.assertEqual((len(given), set(named)), (3, set(x) - set("qkv") | set(depth)))
                want = whole(x, **depth)
                np.testing.assert_allclose(o, want[:, :, -1:], rtol=0, atol=2e-5 * np.abs(want).max())

    def test_none(self):
        for stem in stems("none"):
            with self.subTest(stem), self.assertRaisesRegex(aule.CompileError, r"--layout: axis T: the attention '\w+' has no such axis"):
                aule.compile(ROOT / f"attn_scripts/{stem}.attn", layout="T=paged")
            self.assertIn("have one axis", HEADS[stem], stem)


if __name__ == "__main__":
    unittest.main()
