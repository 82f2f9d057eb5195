"""Recurrences (`linear`) on torch tensors: autograd through states, packed sequences, `step` and calls in torch.compile; gradients beside
torch's own of the same recurrence in float64, token after token."""

import unittest

import aule
from support import DEVICE, torch
from test_recurrences import GLA, NORMED, cut, gla, inputs

DELTA = """
attention delta {
    q: [B, H, T, K];
    k: [B, Hk, T, K];
    v: [B, H, T, V];
    input a:    f32[B, H, T] grad;
    input beta: f32[B, H, T] grad;
    linear {
        q     = l2norm(q);
        k     = l2norm(k);
        decay = exp(-softplus(a));
        erase = 2.0 * sigmoid(beta);
        skip  = v;
    }
    out_mod(o) = silu(o);
}
"""


def rand(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def rows(x, t, heads):
    return x[:, :, t].repeat_interleave(heads // x.shape[1], 1)


def gla_token(x, t, S):
    S = S * torch.sigmoid(x["gate"][:, :, t])[..., None] + x["k"][:, :, t, :, None] * x["v"][:, :, t, None]
    return torch.einsum("bhk,bhkv->bhv", x["q"][:, :, t] * 8**-0.5, S), S


def normed_token(x, t, S, z):
    def elu1(y):
        return torch.nn.functional.elu(y) + 1

    k, v, q = elu1(rows(x["k"], t, 4)), rows(x["v"], t, 4), elu1(x["q"][:, :, t])
    S, z = S + k[..., None] * v[:, :, None], z + k
    return torch.einsum("bhk,bhkv->bhv", q, S) / torch.einsum("bhk,bhk->bh", q, z).abs().clamp(min=1e-6)[..., None], S, z


def delta_token(x, t, S):
    q, k = (torch.nn.functional.normalize(rows(x[name], t, 4), dim=-1, eps=0) for name in "qk")
    v, strength = x["v"][:, :, t], 2 * torch.sigmoid(x["beta"][:, :, t])[..., None]
    S = S * torch.exp(-torch.nn.functional.softplus(x["a"][:, :, t]))[..., None, None]
    S = S + k[..., None] * (strength * (v - torch.einsum("bhk,bhkv->bhv", k, S)))[:, :, None]
    return torch.nn.functional.silu(torch.einsum("bhk,bhkv->bhv", q, S) + v), S


# script, what a token does, heads of the tensors, shapes of the states behind [n]
CASES = {
    "gla": (GLA, gla_token, dict(q=3, k=3, v=3, gate=3), [(3, 8, 5)]),
    "normed": (NORMED, normed_token, dict(q=4, k=2, v=2), [(4, 8, 5), (4, 8)]),
    "delta": (DELTA, delta_token, dict(q=4, k=2, v=4, a=4, beta=4), [(4, 8, 5)]),
}


class Case:
    """Random tensors and states of a script, and what a loop in float64 makes of them."""

    def __init__(self, name, B=2, T=21, lengths=None):
        text, self.token, heads, states = CASES[name]
        self.f = aule.compile(text)
        shapes = {n: (1 if lengths else B, H, T) + {"v": (5,), "a": (), "beta": ()}.get(n, (8,)) for n, H in heads.items()}
        self.x = {n: rand(*shape, seed=i) for i, (n, shape) in enumerate(shapes.items())}
        self.states = [rand(len(lengths) if lengths else B, *shape, seed=10 + i).abs() for i, shape in enumerate(states)]
        self.ends = torch.tensor([0, *lengths], device=DEVICE).cumsum(0).int() if lengths else None
        self.o_weights = rand(1 if lengths else B, max(heads.values()), T, 5, seed=20)
        self.state_weights = [rand(*state.shape, seed=30 + i) for i, state in enumerate(self.states)]

    def ours(self, **x):
        states = [x.pop(f"s{n}") for n in range(len(self.states))]
        more = {} if self.ends is None else {"cu_seqlens": self.ends}
        o, after = self.f(**x, initial_state=tuple(states), return_state=True, **more)
        return o, after if len(states) > 1 else [after]

    def loop(self, **x):
        states, T = [x.pop(f"s{n}") for n in range(len(self.states))], x["q"].shape[2]
        pieces = [(0, T)] if self.ends is None else list(zip(self.ends.tolist(), self.ends.tolist()[1:]))
        o, after = [], []
        for n, (start, end) in enumerate(pieces):
            now = states if self.ends is None else [state[n : n + 1] for state in states]
            for t in range(start, end):
                out, *now = self.token(x, t, *now)
                o.append(out)
            after.append(now)
        return torch.stack(o, 2), [torch.cat(parts) for parts in zip(*after)]

    def gradients(self, run, dtype, of_o=True, of_state=True):
        """Of a random function of o and the states."""
        tensors = self.x | {f"s{n}": state for n, state in enumerate(self.states)}
        tensors = {n: x.to(dtype, copy=True).requires_grad_() for n, x in tensors.items()}
        o, after = run(**tensors)
        loss = sum(((state * w).sum() for state, w in zip(after, self.state_weights)), torch.zeros((), device=DEVICE)) if of_state else 0
        (loss + (o * self.o_weights).sum() if of_o else loss).backward()
        return {n: x.grad for n, x in tensors.items()}


def worst(got, want):
    """The largest error, of any tensor, beside the tensor's largest value."""
    assert got.keys() == want.keys()
    return max(((got[n] - want[n]).abs().max() / want[n].abs().max()).item() for n in want)


@unittest.skipUnless(torch, "needs torch")
class Gradients(unittest.TestCase):
    BOUND = 5e-6

    def test_through_states(self):
        for name in CASES:
            for lengths in (None, (5, 0, 1, 15)):
                with self.subTest(name, lengths=lengths):
                    case = Case(name, lengths=lengths)
                    want = case.gradients(case.loop, torch.float64)
                    self.assertLess(worst(case.gradients(case.ours, torch.float32), want), self.BOUND)

    def test_of_the_state_alone(self):
        case = Case("delta")
        for which in ({"of_o": False}, {"of_state": False}):
            with self.subTest(**which):
                want = case.gradients(case.loop, torch.float64, **which)
                got = case.gradients(case.ours, torch.float32, **which)
                for n in [n for n in want if want[n] is None]:  # q and a state that is only read do not meet
                    self.assertEqual(got[n].abs().max(), 0, n)
                self.assertLess(worst({n: got[n] for n in want if want[n] is not None}, {n: x for n, x in want.items() if x is not None}), self.BOUND)

    def test_in_pieces(self):
        case = Case("gla")

        def pieces(s0, **x):
            state, o = s0, []
            for first, end in ((0, 8), (8, 9), (9, 9), (9, 21)):
                part, state = case.f(**cut(x, first, end), initial_state=state, return_state=True)
                o.append(part)
            return torch.cat(o, 2), [state]

        self.assertLess(worst(case.gradients(pieces, torch.float32), case.gradients(case.loop, torch.float64)), self.BOUND)

    def test_in_graphs(self):
        for name, lengths, backend in (("gla", None, "inductor" if DEVICE == "cpu" else "aot_eager"), ("normed", (5, 0, 16), "aot_eager")):
            with self.subTest(name):
                case = Case(name, lengths=lengths)
                compiled = torch.compile(case.ours, fullgraph=True, backend=backend)
                self.assertLess(worst(case.gradients(compiled, torch.float32), case.gradients(case.loop, torch.float64)), self.BOUND)

    def test_without_autograd(self):
        for name in ("gla", "normed"):
            case = Case(name)
            want = case.gradients(case.loop, torch.float64)
            x = {n: t.cpu().numpy() for n, t in case.x.items()}
            r = case.f.forward(**x, initial_state=tuple(s.cpu().numpy() for s in case.states), return_state=True)
            given = {f"d{n}": w.cpu().numpy() for n, w in zip(("state_out", "sum_out"), case.state_weights)}
            do = case.o_weights.cpu().numpy()
            got = case.f.backward(r, do, **given)
            names = {f"d{n}": n for n in case.x} | {"dstate_in": "s0", "dsum_in": "s1"}
            got = {names[n]: torch.from_numpy(g).to(DEVICE) for n, g in got.items()}
            self.assertLess(worst(got, want), self.BOUND)
        r = case.f.forward(**x)
        self.assertEqual(set(case.f.backward(r, do)), {"dq", "dk", "dv"})
        with self.assertRaisesRegex(TypeError, "does not take dstate; gradients of finals are dstate_out, dsum_out"):
            case.f.backward(r, do, dstate=r.o)

    def test_what_is_written_later(self):
        case = Case("gla", T=1)
        x = case.x | {"q": case.x["q"].clone().requires_grad_()}
        o, state = case.f(**x, initial_state=case.states[0], return_state=True)
        with torch.no_grad():
            case.f.step(state, **case.x)  # the backward pass does not read it
        (want,) = torch.autograd.grad((o * case.o_weights).sum(), x["q"], retain_graph=True)
        self.assertTrue(want.isfinite().all())
        with torch.no_grad():
            case.f.step(case.states[0], **case.x)  # but this
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            torch.autograd.grad(o.sum(), x["q"])

    def test_only_what_is_marked(self):
        f = aule.compile(GLA.replace(" grad", ""))
        x = {name: torch.from_numpy(tensor).to(DEVICE) for name, tensor in inputs().items()}
        x["gate"].requires_grad_()
        with self.assertRaisesRegex(aule.ArgumentError, "gate requires a gradient, and the script does not mark it"):
            f(**x, return_state=True)


@unittest.skipUnless(torch, "needs torch")
class OfTorch(unittest.TestCase):
    def setUp(self):
        self.x = {name: torch.from_numpy(tensor).to(DEVICE) for name, tensor in inputs().items()}
        self.o, self.S = (torch.from_numpy(x).float() for x in gla(**inputs()))

    def near(self, got, expected):
        torch.testing.assert_close(got.cpu(), expected.cpu(), rtol=2e-5, atol=2e-5)

    def test_pieces(self):
        f = aule.compile(GLA)
        first, state = f(**cut(self.x, 0, 11), return_state=True)
        second, after = f(**cut(self.x, 11, 19), initial_state=state, return_state=True)
        self.near(torch.cat([first, second], 2), self.o)
        self.near(after, self.S)

    def test_steps(self):
        f = aule.compile(GLA)
        first, state = f(**cut(self.x, 0, 11), return_state=True)
        version = state._version
        parts = [first] + [f.step(state, **cut(self.x, t, t + 2)) for t in range(11, 19, 2)]
        self.near(torch.cat(parts, 2), self.o)
        self.near(state, self.S)
        self.assertGreater(state._version, version)
        self.x["q"].requires_grad_()
        with self.assertRaisesRegex(aule.ArgumentError, "q requires a gradient, and a step has none"):
            f.step(state, **self.x)

    def test_types(self):
        f = aule.compile(GLA)
        low = {name: tensor.to(torch.bfloat16) if name != "gate" else tensor for name, tensor in self.x.items()}
        o, state = f(**low, return_state=True)
        self.assertEqual((o.dtype, state.dtype), (torch.bfloat16, torch.float32))
        torch.testing.assert_close(o.float().cpu(), self.o, rtol=5e-2, atol=5e-2)

    def test_torch_compile(self):
        f = aule.compile(GLA)

        @torch.compile(fullgraph=True, backend="aot_eager")
        def run(x, state):
            o, state = f(**x, initial_state=state, return_state=True)
            return o * 2, state + 1

        state = torch.zeros(2, 3, 8, 5, device=DEVICE)
        for T in (19, 12):
            o, S = gla(**cut(inputs(), 0, T))
            got, after = run(cut(self.x, 0, T), state)
            self.near(got, torch.from_numpy(2 * o).float())
            self.near(after, torch.from_numpy(S + 1).float())

    def test_packed_in_torch_compile(self):
        f = aule.compile(GLA)
        cu = torch.tensor([0, 4, 4, 19], dtype=torch.int32, device=DEVICE)
        x = {name: tensor[:1] for name, tensor in self.x.items()}

        @torch.compile(fullgraph=True, backend="aot_eager")
        def run(x, cu):
            return f(**x, cu_seqlens=cu, return_state=True)

        for got, want in zip(run(x, cu), f(**x, cu_seqlens=cu, return_state=True)):
            self.near(got, want)
        self.near(run(x, cu)[0][:, :, :4], self.o[:1, :, :4])

    def test_steps_in_graphs(self):
        f, g = aule.compile(GLA), aule.compile(NORMED)

        def run(state, x, slots):
            return f.step(state, **x, slots=slots) + 1, state.sum()

        def normed(state, x):
            return g.step(state, **x)

        def steps(run, normed):
            pool, pair = rand(5, 3, 8, 5), aule.State(rand(2, 4, 8, 5), rand(2, 4, 8, seed=1).abs())
            slots, made = torch.tensor([3, 0], dtype=torch.int32, device=DEVICE), []
            y = Case("normed").x
            for t in range(0, 19, 2):
                made += run(pool, cut(self.x, t, t + 2), slots)
                made.append(normed(pair, cut(y, t, t + 2)))
            return [*made, pool, *pair]

        want = steps(run, normed)
        for backend in ("aot_eager", "inductor") if DEVICE == "cpu" else ("aot_eager",):
            with self.subTest(backend):
                compiled = [torch.compile(one, fullgraph=True, backend=backend) for one in (run, normed)]
                for got, expected in zip(steps(*compiled), want, strict=True):
                    self.near(got, expected)
        state = torch.zeros(2, 3, 8, 5, device=DEVICE)
        version = state._version
        torch.compile(lambda state, x: f.step(state, **x), fullgraph=True, backend="aot_eager")(state, self.x)
        self.assertGreater(state._version, version)
        with self.assertRaisesRegex(Exception, "out= cannot be used where calls are traced"):
            torch.compile(lambda state, x, out: f.step(state, **x, out=out), fullgraph=True, backend="aot_eager")(state, self.x, self.o.to(DEVICE))

    def test_the_operation_of_steps(self):
        f, state = aule.compile(GLA), torch.zeros(2, 3, 8, 5, device=DEVICE)
        names = " ".join(self.x)
        torch.library.opcheck(torch.ops.aule.step.default, (f._key, "", state, None, names, list(self.x.values()), "", [], []))

    def test_steps_prepare_once(self):
        """Steps on other states of the same shapes take the plan that the first made, unless what they write may overlap something."""
        f, pool = aule.compile(GLA), torch.zeros(6, 3, 8, 5, device=DEVICE)
        x = cut(self.x, 0, 1)
        f.step(pool[:2], **x)
        (prepared,) = f._runner._prepared.values()
        for _ in range(3):
            f.step(pool[2:4], **x)
        self.assertEqual(list(f._runner._prepared.values()), [prepared])
        with self.assertRaisesRegex(aule.ArgumentError, "overlaps"):
            f.step(x["k"].as_strided((2, 3, 8, 5), (120, 40, 5, 1)), **x)
        inside = {n: tensor.contiguous() for n, tensor in x.items()}
        memory = torch.zeros(2, 3, 8, 10, device=DEVICE)
        state, inside["v"] = memory[..., :5], memory[:, :, :1, 5:]  # between its rows
        f.step(state, **inside)
        f.step(state, **inside)
        inside["v"] = memory[:, :, :1, 4:9]
        with self.assertRaisesRegex(aule.ArgumentError, "overlaps"):
            f.step(state, **inside)

    def test_another_device(self):
        f = aule.compile(GLA)
        state = torch.zeros(2, 3, 8, 5, device="meta")
        with self.assertRaisesRegex(aule.ArgumentError, "meta"):
            f(**self.x, initial_state=state)


if __name__ == "__main__":
    unittest.main()
