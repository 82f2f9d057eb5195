"""Recurrences (`linear`): calls with states, in pieces, and what is refused, on NumPy arrays and torch tensors."""

import unittest

import numpy as np

import aule

GLA = """
attention gla {
    q: [B, H, T, K];
    k: [B, H, T, K];
    v: [B, H, T, V];
    input gate: f32[B, H, T, K] grad;
    linear {
        q     = q * rsqrt(K);
        decay = sigmoid(gate);
    }
}
"""
NORMED = """
attention normed {
    q: [B, H, T, K];
    k: [B, Hk, T, K];
    v: [B, Hk, T, V];
    linear {
        q    = elu(q) + 1.0;
        k    = elu(k) + 1.0;
        norm = max(abs(sum), 1e-6);
    }
}
"""
SOFTMAX = """
attention plain {
    q: [B, H, S, D];
    k: [B, H, T, D];
    v: [B, H, T, D];
    online softmax;
}
"""


def inputs(T=19, B=2, H=3, K=8, V=5, seed=0):
    r = np.random.default_rng(seed)
    shapes = {"q": (B, H, T, K), "k": (B, H, T, K), "v": (B, H, T, V), "gate": (B, H, T, K)}
    return {name: r.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def gla(q, k, v, gate, state=None):
    """Token after token, in double precision."""
    q, k, v, gate = (x.astype(np.float64) for x in (q, k, v, gate))
    B, H, T, K = q.shape
    S = np.zeros((B, H, K, v.shape[3])) if state is None else state.astype(np.float64)
    o = np.empty(v.shape)
    for t in range(T):
        S = S / (1 + np.exp(-gate[:, :, t]))[..., None] + k[:, :, t, :, None] * v[:, :, t, None]
        o[:, :, t] = np.einsum("bhk,bhkv->bhv", q[:, :, t] * K**-0.5, S)
    return o, S


def normed(q, k, v, state=None):
    def elu1(x):
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    share = q.shape[1] // k.shape[1]
    q, k, v = elu1(q), np.repeat(elu1(k), share, 1), np.repeat(v, share, 1)
    B, H, T, K = q.shape
    S, z = (np.zeros((B, H, K, v.shape[3])), np.zeros((B, H, K))) if state is None else [np.array(x, np.float64) for x in state]
    o = np.empty(v.shape)
    for t in range(T):
        S = S + k[:, :, t, :, None] * v[:, :, t, None]
        z = z + k[:, :, t]
        o[:, :, t] = np.einsum("bhk,bhkv->bhv", q[:, :, t], S) / np.maximum(np.abs(np.einsum("bhk,bhk->bh", q[:, :, t], z)), 1e-6)[..., None]
    return o, (S, z)


def cut(x, first, end):
    return {name: tensor[:, :, first:end] for name, tensor in x.items()}


class Recurrences(unittest.TestCase):
    def near(self, got, expected):
        np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=2e-5, atol=2e-5)

    def test_output_and_state(self):
        f, x = aule.compile(GLA), inputs()
        o, S = gla(**x)
        self.assertEqual(f.states, ("state",))
        self.near(f(**x), o)
        got, state = f(**x, return_state=True)
        self.near(got, o)
        self.near(state, S)
        self.assertEqual((state.shape, state.dtype), ((2, 3, 8, 5), np.float32))
        results = f.forward(**x, return_state=True)
        self.assertEqual(list(results), ["o", "state_out"])
        self.near(results.state_out, S)

    def test_pieces(self):
        f, x = aule.compile(GLA), inputs(T=23)
        o, S = gla(**x)
        state, parts, at = None, [], 0
        for tokens in (7, 1, 0, 15):
            part, state = f(**cut(x, at, at + tokens), initial_state=state, return_state=True)
            parts.append(part)
            at += tokens
        self.near(np.concatenate(parts, axis=2), o)
        self.near(state, S)
        self.near(f(**cut(x, 7, 23), initial_state=f(**cut(x, 0, 7), return_state=True)[1]), o[:, :, 7:])

    def test_state_of_any_strides(self):
        f, x = aule.compile(GLA), inputs()
        whole = np.random.default_rng(1).standard_normal((5, 3, 16, 2)).astype(np.float32)
        state = whole.transpose(3, 1, 2, 0)[:, :, ::-2]
        o, S = gla(**x, state=state)
        got, after = f(**x, initial_state=state, return_state=True)
        self.near(got, o)
        self.near(after, S)

    def packed(self, lengths, **more):
        """Inputs of packed sequences, and o and states of each alone, from states that are given."""
        cu = np.cumsum([0, *lengths]).astype(np.int32)
        x = inputs(T=int(cu[-1]), B=1, **more)
        first = np.random.default_rng(3).standard_normal((len(lengths), 3, 8, 5)).astype(np.float32)
        alone = [gla(**cut(x, a, b), state=first[n : n + 1]) for n, (a, b) in enumerate(zip(cu, cu[1:]))]
        return cu, x, first, np.concatenate([o for o, _ in alone], 2), np.concatenate([S for _, S in alone])

    def test_packed_sequences(self):
        f = aule.compile(GLA)
        for lengths in ((5, 0, 1, 40, 0), (33,), (1, 1, 1), (0, 16, 17)):
            with self.subTest(lengths):
                cu, x, first, o, S = self.packed(lengths)
                got, state = f(**x, initial_state=first, return_state=True, cu_seqlens=cu)
                self.near(got, o)
                self.near(state, S)
                self.near(f(**x, initial_state=first, cu_seqlens=np.repeat(cu, 3)[::3]), o)

    def test_packed_refused(self):
        f = aule.compile(GLA)
        cu, x, first, *_ = self.packed((5, 14))
        wrong = (
            (dict(cu_seqlens=np.array([0, 12, 5, 19], np.int32)), "cu_seqlens decreases at 2: 5 after 12"),
            (dict(cu_seqlens=np.array([0, 5, 20], np.int32)), "cu_seqlens ends with 20, there are 19 tokens"),
            (dict(cu_seqlens=np.array([0, 5, 18], np.int32)), "cu_seqlens ends with 18, there are 19 tokens"),
            (dict(cu_seqlens=np.array([1, 5, 19], np.int32)), "cu_seqlens begins with 1, expected 0"),
            (dict(cu_seqlens=np.array([0], np.int32)), "cu_seqlens has 1 elements, expected where each sequence begins and where the last ends"),
            (dict(cu_seqlens=cu.astype(np.int64)), r"cu_seqlens is int64, expected int32: pass cu_seqlens.astype\('int32'\)$"),
            (dict(cu_seqlens=cu[None]), r"cu_seqlens: shape is \[1, 3\], expected 1 axis \[cu_seqlens_count\]"),
            (dict(cu_seqlens=cu, initial_state=first[:1]), r"initial_state has the shape \[1, 3, 8, 5\], expected \[2, 3, 8, 5\]"),
        )
        for more, message in wrong:
            with self.subTest(message), self.assertRaisesRegex(aule.ArgumentError, message):
                f(**x, **more)
        with self.assertRaisesRegex(aule.ArgumentError, "cu_seqlens packs sequences into one batch, q has 2"):
            f(**inputs(), cu_seqlens=cu)
        y = {name: x[name] for name in ("q", "k")} | {"v": x["k"]}
        with self.assertRaisesRegex(aule.ArgumentError, "plain: cu_seqlens is for recurrences"):
            aule.compile(SOFTMAX)(**y, cu_seqlens=cu)

    def test_steps(self):
        f, x = aule.compile(GLA), inputs(T=23)
        o, S = gla(**x)
        first, state = f(**cut(x, 0, 7), return_state=True)
        parts, at = [first], 7
        for tokens in (1, 1, 4, 10):
            parts.append(f.step(state, **cut(x, at, at + tokens)))
            at += tokens
        self.near(np.concatenate(parts, axis=2), o)
        self.near(state, S)

    def test_steps_in_a_pool(self):
        f, x = aule.compile(GLA), inputs(T=3, B=4)
        pool = np.random.default_rng(5).standard_normal((6, 3, 8, 5, 2)).astype(np.float32)[..., 0]
        before, slots = pool.copy(), np.array([4, -1, 0, 3], np.int32)
        start = np.where((slots < 0)[:, None, None, None], 0, before[slots])
        o, S = gla(**x, state=start)
        there = [d.id for d in aule.devices() if d.available and d.backend in ("cpu", "opencl")]
        for backend in there:  # of OpenCL copies, the state among them
            pool[:] = before
            out = np.empty((4, 3, 3, 5), np.float32)
            self.assertIs(f.step(pool, **x, slots=slots, out=out, device=backend), out)
            self.near(out, o)
            for n, slot in enumerate(slots):
                if slot >= 0:
                    self.near(pool[slot], S[n])
            for slot in (1, 2, 5):
                np.testing.assert_array_equal(pool[slot], before[slot])

    def test_steps_with_a_norm(self):
        f, x = aule.compile(NORMED), inputs(H=4)
        x = {"q": x["q"], "k": x["k"][:, ::2], "v": x["v"][:, ::2]}
        o, expected = normed(**x)
        state = f(**cut(x, 0, 6), return_state=True)[1]
        self.near(np.concatenate([f.step(state, **cut(x, t, t + 1)) for t in range(6, 19)], 2), o[:, :, 6:])
        self.near(state.state, expected[0])
        self.near(state.sum, expected[1])

    def test_steps_refused(self):
        f, x = aule.compile(GLA), inputs(T=1)
        pool = np.zeros((4, 3, 8, 5), np.float32)
        frozen = np.zeros((2, 3, 8, 5), np.float32)
        frozen.flags.writeable = False

        def slots(*numbers):
            return {"slots": np.array(numbers, np.int32)}

        cases = (
            (pool, {}, "state has 4 elements along axis 0, q has 2: pass slots"),
            (pool, slots(1), "slots has 1 elements along axis 0, q has 2"),
            (pool, slots(0, 4), r"slots\[1\] is 4, there are 4 states \(-1: none\)"),
            (pool, slots(-2, 1), r"slots\[0\] is -2, there are 4 states"),
            (pool, slots(3, 3), r"slots\[0\] and slots\[1\] are both 3: one state for two sequences"),
            (pool[:, :, :7], slots(0, 1), r"state: axis 2 \(K\) has 7 elements, expected 8"),
            (pool.astype(np.float16), slots(0, 1), "state: dtype is f16, expected f32"),
            (frozen, {}, "state is read-only, and step writes it"),
            (np.broadcast_to(frozen[:1], frozen.shape), {}, "read-only"),
            ((pool, pool), slots(0, 1), "the state of a step is one tensor; it was given 2"),
        )
        for state, more, message in cases:
            with self.subTest(message), self.assertRaisesRegex(aule.ArgumentError, message):
                f.step(state, **x, **more)
        y = {name: x[name] for name in ("q", "k")} | {"v": x["k"]}
        with self.assertRaisesRegex(aule.ArgumentError, "plain: the state of a step is for recurrences"):
            aule.compile(SOFTMAX).step(pool, **y)

    def test_lists_of_checked_scripts_are_looked_at_on_devices(self):
        f, x, pool = aule.compile(GLA, checked=True), inputs(T=1), np.zeros((4, 3, 8, 5), np.float32)
        cu, whole, *_ = self.packed((5, 14))
        there = [d.id for d in aule.devices() if d.available and d.backend in ("cpu", "opencl")]
        for device in there:
            for slots, message in (((0, 4), r"slots\[1\] is 4, there are 4 states \(-1: none\)"), ((-2, 1), r"slots\[0\] is -2, there are 4 states"),
                                   ((3, 3), r"slots\[0\] and slots\[1\] are both 3: one state for two sequences")):
                with self.subTest(f"{slots} on {device}"), self.assertRaisesRegex(aule.ArgumentError, message):
                    f.step(pool, **x, slots=np.array(slots, np.int32)[::-1][::-1], device=device)
            f.step(pool, **x, slots=np.array((3, -1), np.int32), device=device)
            with self.subTest(device), self.assertRaisesRegex(aule.ArgumentError, "cu_seqlens ends with 18, there are 19 tokens"):
                f(**whole, cu_seqlens=np.array([0, 5, 18], np.int32), device=device)
            f(**whole, cu_seqlens=cu, device=device)

    def test_heads_inside(self):
        f, x = aule.compile(GLA), inputs()
        inside = {name: np.ascontiguousarray(tensor.swapaxes(1, 2)).swapaxes(1, 2) for name, tensor in x.items()}
        o, S = gla(**x)
        for _ in range(2):  # prepared, and from what was
            got, state = f(**inside, return_state=True)
            self.near(got, o)
            self.near(state, S)
            self.assertTrue(state.flags.c_contiguous)

    def test_norm_has_a_pair(self):
        f, x = aule.compile(NORMED), inputs(H=4)
        x = {"q": x["q"], "k": x["k"][:, ::2], "v": x["v"][:, ::2]}
        o, expected = normed(**x)
        self.assertEqual(f.states, ("state", "sum"))
        got, state = f(**x, return_state=True)
        self.assertIsInstance(state, aule.State)
        self.near(got, o)
        self.near(state.state, expected[0])
        self.near(state.sum, expected[1])
        first = f(**cut(x, 0, 6), return_state=True)[1]
        self.near(f(**cut(x, 6, 19), initial_state=first), o[:, :, 6:])
        self.near(f(**cut(x, 6, 19), initial_state=tuple(first)), o[:, :, 6:])
        with self.assertRaisesRegex(aule.ArgumentError, r"initial_state is the pair \(state, sum\), since the script has a norm; it was given 1"):
            f(**x, initial_state=first.state)

    def test_loaded(self):
        import pathlib
        import tempfile

        from aule._compiler import compiler

        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "gla.so"
            path.write_bytes(compiler().run("gla.attn", GLA.encode(), targets="cpu", dtypes="f32", widths="K=8;V=5"))
            f, x = aule.load(path), inputs()
            got, state = f(**x, return_state=True)
            self.near(got, gla(**x)[0])
            self.near(state, gla(**x)[1])
            damaged = path.with_name("damaged.so")
            damaged.write_bytes(path.read_bytes().replace(b"\0state_in\0", b"\0state_i\xee\0"))
            with self.assertRaisesRegex(aule.Error, "damaged"):
                aule.load(damaged)

    def test_refused(self):
        f, x = aule.compile(GLA), inputs()
        state = np.zeros((2, 3, 8, 5), np.float32)
        plain = aule.compile(SOFTMAX)
        y = {name: x[name] for name in ("q", "k")} | {"v": x["k"]}
        cases = (
            (lambda: plain(**y, return_state=True), "plain: return_state is for recurrences, and the script has none"),
            (lambda: plain(**y, initial_state=state), "plain: initial_state is for recurrences, and the script has none"),
            (lambda: plain.forward(**y, return_state=True), "plain: return_state is for recurrences"),
            (lambda: f(**x, initial_state=state[:1]), r"gla: initial_state has the shape \[1, 3, 8, 5\], expected \[2, 3, 8, 5\], which is \[B, H, K, V\]"),
            (lambda: f(**x, initial_state=state[..., 0]), r"gla: initial_state has the shape \[2, 3, 8\], expected \[2, 3, 8, 5\]"),
            (lambda: f(**x, initial_state=state.astype(np.float16)), "gla: initial_state is float16, expected float32: pass initial_state.astype"),
            (lambda: f(**x, initial_state=(state, state)), "gla: initial_state is one tensor; it was given 2"),
            (lambda: f.forward(**x, initial_state=state, return_state=True, out={"state_out": state}), "state_out.*state_in|state_in.*state_out"),
        )
        for call, message in cases:
            with self.subTest(message), self.assertRaisesRegex(aule.ArgumentError, message):
                call()
        for name in ("initial_state", "return_state", "cu_seqlens"):
            with self.assertRaisesRegex(TypeError, rf"gla\.step\(\) does not take {name}: its first argument is the state"):
                f.step(state, **x, **{name: state})
        with self.assertRaisesRegex(TypeError, "return_state is True or False"):
            f(**x, return_state=1)
        with self.assertRaisesRegex(TypeError, "gla: initial_state must be a NumPy array, .*it is list"):
            f(**x, initial_state=[[1]])

    def test_names_that_calls_have_taken(self):
        script = "attention n {{ q: [B, H, T, K]; k: [B, H, T, K]; v: [B, H, T, V]; {0}: f32[B, H, T]; linear {{ decay = sigmoid({1}); }} }}"
        for name in ("initial_state", "return_state", "out", "device", "self"):
            with self.subTest(name), self.assertRaisesRegex(aule.ArgumentError, f"n: the script has a tensor or param called {name}, and so have calls"):
                aule.compile(script.format(f"input {name}", name))
        slots = script.format("param slots: i32 = 1; input g", "g * slots")
        with self.assertRaisesRegex(aule.ArgumentError, "called slots, and so have calls"):
            aule.compile(slots)


class BadInput(unittest.TestCase):
    """Each of what cannot be is told by its name."""

    def test_shapes(self):
        f, g, x, y = aule.compile(GLA), aule.compile(NORMED), inputs(), inputs(H=4)
        short = {name: tensor[:, :, :18] for name, tensor in x.items()}
        cases = (
            (lambda: g(y["q"], y["k"][:, :3], y["v"][:, :3]), r"normed: requirement not met: .* % Hk == 0, with H = 4, Hk = 3"),
            (lambda: f(**x | {"k": short["k"]}), r"gla: k: axis 2 \(T\) has 18 elements, expected 19 as in q"),
            (lambda: f(**x | {"v": short["v"]}), r"gla: v: axis 2 \(T\) has 18 elements, expected 19 as in q"),
            (lambda: f(**x | {"gate": short["gate"]}), r"gla: gate: axis 2 \(T\) has 18 elements, expected 19 as in q"),
            (lambda: f(**x | {"gate": x["gate"][..., :7]}), r"gla: gate: axis 3 \(K\) has 7 elements, expected 8"),
        )
        for call, message in cases:
            with self.subTest(message), self.assertRaisesRegex(aule.ArgumentError, message):
                call()

    def test_states_that_overlap(self):
        """A state that is made must not be the memory of one that is read, of the same sequence or of another."""
        f, x = aule.compile(GLA), inputs()
        pool = np.zeros((3, 3, 8, 5), np.float32)
        for first, after in ((0, 0), (0, 1), (1, 0)):
            with self.subTest(first=first, after=after), self.assertRaisesRegex(aule.ArgumentError, "gla: state_out: it is written and overlaps state_in in memory"):
                f.forward(**x, initial_state=pool[first : first + 2], return_state=True, out={"state_out": pool[after : after + 2]})
        with self.assertRaisesRegex(aule.ArgumentError, "state_out.* overlap"):
            f.forward(**x, return_state=True, out={"state_out": np.lib.stride_tricks.as_strided(pool, (2, 3, 8, 5), (0, 160, 20, 4))})

    def test_widths(self):
        f = aule.compile(GLA)
        x = inputs(B=1, H=1, T=5, K=512, V=40)
        o, S = gla(**x)
        got, state = f(**x, return_state=True)
        np.testing.assert_allclose(got, o, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(state, S, rtol=1e-4, atol=1e-4)
        # Sums of a norm need all columns at once.
        f = aule.compile("attention a { q: [B, H, T, K]; k: [B, H, T, K]; v: [B, H, T, V]; linear { norm = max(abs(sum), 1.0); } }")
        x = {name: np.ones((1, 1, 3, 1024), np.float32) for name in ("q", "k", "v")}
        with self.assertRaisesRegex(aule.CompileError, r"E0811: forward on \w+: a state of 1024 by 1024 takes \d+ numbers of a lane, which has \d+; keys of (\d+) channels do") as raised:
            f(**x)
        import re

        K = int(re.search(r"keys of (\d+) channels", str(raised.exception))[1])
        x |= {name: np.ones((1, 1, 3, K), np.float32) for name in ("q", "k")}
        np.testing.assert_allclose(f(**x), 1, rtol=1e-5)

    def test_nan_stays_where_it_is(self):
        """Of a gate: it reaches no other sequence, no other head, and nothing in chunks before its own."""
        def scalar(gate):
            return {**inputs(T=70), "gate": gate[..., 0]}

        def vector(gate):
            return {**inputs(T=70), "gate": gate}

        text = GLA.replace("gate: f32[B, H, T, K]", "gate: f32[B, H, T]")
        delta = text.replace("    linear {", "    linear {\n        erase = 0.5;\n        k = l2norm(k);")
        for script, call in ((GLA, vector), (text, scalar), (delta, scalar)):
            f = aule.compile(script)
            clean = f(**call(inputs(T=70)["gate"]))
            for value in (np.nan, np.inf, -np.inf):
                with self.subTest(script, value=value):
                    gate = inputs(T=70)["gate"]
                    gate[0, 1, 40] = value
                    o, state = f(**call(gate), return_state=True)
                    np.testing.assert_array_equal(o[1], clean[1])
                    np.testing.assert_array_equal(o[0, ::2], clean[0, ::2])
                    np.testing.assert_array_equal(o[0, 1, :32], clean[0, 1, :32])
                    self.assertEqual(np.isnan(o[0, 1, 40:]).all(), np.isnan(value))
                    self.assertEqual(np.isfinite(state[0, 1]).all(), not np.isnan(value))
                    x = {name: tensor[:1] for name, tensor in call(gate).items()}
                    packed = f(**x, cu_seqlens=np.array([0, 32, 50, 50, 70], np.int32))
                    self.assertTrue(np.isfinite(packed[0, 1, :32]).all() and np.isfinite(packed[0, 1, 50:]).all())


if __name__ == "__main__":
    unittest.main()
