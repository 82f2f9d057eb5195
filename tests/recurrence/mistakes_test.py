"""Planted mistakes: the engine of recurrences with one line changed fails its test, each time.

    mistakes_test.py [third] SOURCE CC...
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from planted import try_all  # noqa: E402

# what, file of dsl/recurrence, the text, what stands there instead
MISTAKES = [
    ("the state does not decay over a chunk", "chunks_body.h",
     "state[n * V + e] *= NAME(span)(c, C, 0, n);", "state[n * V + e] *= 1;"),
    ("a writer's own decay counts twice", "chunk_body.h",
     "writer[j * K + n] * NAME(span)(c, c->r->T, j + 1, n)", "writer[j * K + n] * NAME(span)(c, c->r->T, j, n)"),
    ("the mask comes after the exponential", "chunk_body.h",
     "            if (!NAME(sees)(r, i, j))\n                *a = 0;\n            else if (!vector)\n                *a *= NAME(span)(c, NAME(at)(r, i), j + 1, 0);",
     "            if (!vector)\n                *a *= NAME(span)(c, NAME(at)(r, i), j + 1, 0) * NAME(sees)(r, i, j);\n            else if (!NAME(sees)(r, i, j))\n                *a = 0;"),
    ("exponents are clamped at 0 where decays may exceed 1", "chunk_body.h",
     "NAME(EXP)((c->high[l] - c->high[e]) + (c->low[l] - c->low[e]))",
     "NAME(EXP)((REAL)fmin((c->high[l] - c->high[e]) + (c->low[l] - c->low[e]), 0))"),
    ("decays split into two factors at the chunk's start", "chunk_body.h",
     "NAME(rounded)(w[j * K + n] * NAME(span)(c, first, j + 1, n), bits)",
     "NAME(rounded)(w[j * K + n] * (NAME(span)(c, first, 0, n) / NAME(span)(c, j + 1, 0, n)), bits)"),
    ("read before, with the token's own decay", "chunk_body.h", "r.reads == AU_READS_BEFORE ? i : i + 1", "i + 1"),
    ("the delta rule erases before it decays", "chunks_body.h", "r->e, AU_READS_BETWEEN", "r->e, AU_READS_BEFORE"),
    ("a token by itself erases before it decays", "steps_body.h",
     "    for (int64_t c = 0; c < K && r->G; c++)\n        for (int64_t e = 0; e < V; e++) state[c * V + e] *= NAME(decay)(r, t, c);\n"
     "    if (r->feedback == AU_FEEDBACK_KEY) NAME(read)(p, r->k + t * K, state, K, V);\n",
     "    if (r->feedback == AU_FEEDBACK_KEY) NAME(read)(p, r->k + t * K, state, K, V);\n"
     "    for (int64_t c = 0; c < K && r->G; c++)\n        for (int64_t e = 0; e < V; e++) state[c * V + e] *= NAME(decay)(r, t, c);\n"),
    ("the inverse is not transposed in the backward", "chunks_body.h",
     "NAME(turned)(c->inverse, C, c->how->solve)", "NAME(plain)(c->inverse, C, c->how->solve)"),
    ("gradient of A(x, k) from values before the solution", "chunks_body.h", "key ? c->u : r->v;", "r->v;"),
    ("the strength of erasing is rounded into operands", "chunk_body.h",
     "X[i * C + j] += NAME(factor)(r, i) * A[i * C + n] * X[n * C + j];",
     "X[i * C + j] += NAME(rounded)(NAME(factor)(r, i) * A[i * C + n], c->how->operand) * X[n * C + j];"),
    ("a decay's gradient begins one token late", "chunks_body.h",
     "for (int64_t t = 0; t < NAME(at)(r, i) && t < C && G; t++)", "for (int64_t t = 0; t < NAME(at)(r, i) - 1 && t < C && G; t++)"),
    ("a decay's gradient lacks the state that passes through", "chunks_body.h", "+= along;\n        for (int64_t e = 0; e < V; e++) ds[n",
     "+= 0 * along;\n        for (int64_t e = 0; e < V; e++) ds[n"),
    ("blocks between two sub-chunks are forgotten", "chunk_body.h",
     "    for (int64_t t = behind; t < I; t++) to.g[t * K + n] += whole;\n", "    (void)whole;\n"),
    ("a decay's gradient counts what stands before the writer", "chunk_body.h",
     "        g[t * G] += sum;\n        sum += of_pair[t - first];", "        sum += of_pair[t - first];\n        g[t * G] += sum;"),
    ("exclusive sums as a difference", "chunk_body.h",
     "        to.g[j * K + n] += before;\n        before += w[j * K + n] * of_j[j - J];",
     "        before += w[j * K + n] * of_j[j - J];\n        to.g[j * K + n] += before;"),
    ("the backward takes the state behind the chunk", "chunks_body.h", "states + n * cells, dout", "states + (n + 1 < chunks ? n + 1 : n) * cells, dout"),
    ("the gradient of a state does not decay", "chunks_body.h", "ds[n * V + e] *= whole;", "ds[n * V + e] *= 1;"),
    ("the gradient of a state lacks what is fed back", "chunks_body.h", "    NAME(read_back)(c, c->x, y, state, ds, into);\n",
     "    NAME(read_back)(c, c->x, y, state, NAME(room)(c, r->K, V), into);\n"),
    ("the floor of log decays swallows nan", "steps_body.h", "return g < NAME(FLOOR) ? NAME(FLOOR) : g;", "return g > NAME(FLOOR) ? g : NAME(FLOOR);"),
    ("no floor: a reset makes inf - inf", "steps_body.h", "return g < NAME(FLOOR) ? NAME(FLOOR) : g;", "return g;"),
    ("the floor is not low enough for 0", "recurrence.h", "-746.0", "-30.0"),
    ("totals in f32 without compensation", "chunk_body.h", "if (!c->how->plain_sums)", "if (c->how->plain_sums)"),
    ("products with the inverse in bf16", "chunks_body.h", "NAME(plain)(c->inverse, C, c->how->solve)", "NAME(plain)(c->inverse, C, c->how->operand)"),
    ("values behind the inverse in bf16", "chunks_body.h", "values = c->how->values", "values = c->how->operand"),
    ("the gradient of erase lacks what reads the chunk", "chunks_body.h",
     "NAME(dot)(dA + i * C, c->Axk + i * C, C);", "0;"),
    ("a token's gradient of erase is that before the decay", "steps_body.h",
     "NAME(read)(w->kept, k, w->decayed, K, V);", "NAME(read)(w->kept, k, ds, K, V);"),
]


def main():
    third, words = sys.argv[1] == "third", sys.argv[1 + (sys.argv[1] == "third") :]
    source, command = Path(words[0]).resolve(), words[1:]
    engine, support, tests = source / "dsl/recurrence", source / "dsl/support", source / "tests/recurrence"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flags = ["-std=c17", "-O1", "-D_POSIX_C_SOURCE=200809L", f"-I{engine}", f"-I{support}"]
        rest = []
        for path in (tests / "engine_test.c", tests / "support.c", support / "arena.c", support / "text.c"):
            rest.append(folder / f"{path.stem}.o")
            subprocess.run([*command, *flags, "-c", path, "-o", rest[-1]], check=True)

        def fails(file, text):
            changed = folder / "engine"
            shutil.rmtree(changed, ignore_errors=True)
            shutil.copytree(engine, changed)
            if file:
                (changed / file).write_text(text)
            subprocess.run([*command, f"-I{changed}", *flags, "-c", changed / "engine.c", "-o", folder / "engine.o"], check=True)
            subprocess.run([*command, "-o", folder / "test", folder / "engine.o", *rest, "-lcmocka", "-lm"], check=True)
            first = os.environ | {"CMOCKA_TEST_ABORT": "1"}  # the first that fails is enough
            return subprocess.run([folder / "test"], capture_output=True, timeout=120, env=first).returncode != 0

        try_all(MISTAKES[:: 3 if third else 1], engine, fails)


main()
