"""Planted mistakes: what stands around the engine of recurrences with one line changed fails `attn linear`, each time.

    linear_mistakes_test.py SOURCE BUILD CC...

The changed file of dsl/ir is linked before the library that has the right one.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from planted import try_all  # noqa: E402

# what, file of dsl/ir, the text, what stands there instead
MISTAKES = [
    ("a packed sequence goes on with the state before it", "linear.c",
     "    linear_load_state(r, r->call->state_in, r->call->sum_in, r->state);\n    recurrence_forward",
     "    r->state_at = r->o.h;\n    linear_load_state(r, r->call->state_in, r->call->sum_in, r->state);\n    recurrence_forward"),
    ("tokens of a packed sequence are counted from the first one's", "leaves.c", "offset += o->first + o->i;", "offset += o->i;"),
    ("the gradient of a shared head is that of its last", "linear_gradient.c", "to[offset] += x;", "to[offset] = x;"),
    ("the normaliser's gradient without its slope", "linear_gradient.c",
     "draw[V] = attn_step_at(r->sum_back->roots[0], 0);", "draw[V] = dnorm;"),
    ("the column of ones is not weighed by the write", "linear.c", "(w ? w[t] : 1) * (e < V ? r->row[AU_SLOT_V][t * V + e] : 1)",
     "(e < V ? (w ? w[t] : 1) * r->row[AU_SLOT_V][t * V + e] : 1)"),
    ("erase does not strengthen the write", "normal_form.c", "l->write.i ? l->write : l->erase", "l->write"),
    ("the gradient of erase through the write alone", "linear_gradient.c", "if (d.e) d.e[t] = -d.e[t];", "if (d.e) d.e[t] = 0;"),
    ("the bonus is not given its gradient", "linear_gradient.c", "w->of[AU_SLOT_BONUS][c] = along * q * k;", "w->of[AU_SLOT_BONUS][c] = 0 * along;"),
    ("a gradient passes through a reset", "normal_gradient.c", "return (AuGuarded){dx, attn_op1(a, AU_OP_NOT, below, nowhere)};",
     "(void)below;\n    return (AuGuarded){dx, none};"),
    ("1 - sigmoid(x) taken for sigmoid(x)", "log_decay.c", "attn_op1(a, AU_OP_SOFTPLUS, attn_arg(a, x[1], 0), s)",
     "attn_op1(a, AU_OP_SOFTPLUS, attn_op1(a, AU_OP_NEG, attn_arg(a, x[1], 0), s), s)"),
    ("a low-rank update that only looks like erase", "normal_form.c", "return s.i && !(attn_at(a, s)->axes & (AU_AX_K | AU_AX_V)) ? s : none;", "return s.i ? s : none;"),
    ("a number taken out of the value stays in it", "normal_form.c", "        *v = rest;\n", "        if (strength.i) break;\n"),
    ("a sum over keys' channels in a row of values has the values' number", "eval.c",
     "return s->of_keys && p->key_count ? p->key_count : count;", "return count;"),
]


def main():
    source, build, command = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3:]
    tests = source / "tests/attn"
    flags = ["-std=c17", "-O1", "-D_POSIX_C_SOURCE=200809L", f'-DAU_GOLDEN="{source / "tests/golden/attn"}"']
    flags += [f"-I{source / 'dsl' / name}" for name in ("support", "recurrence", "ir", "front", "std")]
    libraries = [build / "dsl" / name for name in ("front/libfront.a", "std/libau_std.a", "ir/libattn_oracle.a", "ir/libattn.a", "recurrence/librecurrence.a", "libsupport.a")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rest = []
        for stem in ("linear_test", "support", "gradient_support"):
            rest.append(folder / f"{stem}.o")
            subprocess.run([*command, *flags, "-c", tests / f"{stem}.c", "-o", rest[-1]], check=True)

        def fails(file, text):
            changed = []
            if file:
                (folder / "changed.c").write_text(text)
                changed.append(folder / "changed.o")
                subprocess.run([*command, *flags, "-c", folder / "changed.c", "-o", changed[0]], check=True)
            subprocess.run([*command, "-o", folder / "test", *changed, *rest, "-Wl,--start-group", *libraries, "-Wl,--end-group", "-lcmocka", "-lm"],
                           check=True)
            return subprocess.run([folder / "test"], capture_output=True, timeout=120).returncode != 0

        try_all(MISTAKES, source / "dsl/ir", fails)


main()
