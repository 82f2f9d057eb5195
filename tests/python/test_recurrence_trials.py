"""Recurrences of papers, written from language.md alone, beside a loop over tokens in double precision that knows the slots' meaning and nothing of kernels.

Each is tried in f32 and a type of 16 bits in turn (both in the suite `slow`), with shared heads, K != V, lengths of 1 and primes, first states, packed sequences with empty ones among them, steps in a pool,
and with the gradients of torch's autograd through the loop.
"""

import unittest

import numpy as np

import aule
from support import FULL, torch

B, H, G, K, V = 2, 4, 2, 8, 12
SIZES = {"B": B, "H": H, "G": G, "K": K, "V": V}
BOUNDS = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}  # of the largest value
TRIALS = {}


def trial(name, body, slots, inputs="", q="H", k="H", v="H", constants="", lets=""):
    """A script; `inputs` are `name:axes`, with `:o` of the operand type. `slots` gives what the loop needs, each broadcast to [B, H, T, width]."""
    axes = {"q": f"B{q}TK", "k": f"B{k}TK", "v": f"B{v}TV"}
    script = f"{constants}\nattention {name} {{\n" + "".join(f"    {x}: [{', '.join(axes[x])}];\n" for x in "qkv")
    operands = set("qkv")
    for declared in inputs.split():
        x, letters, *kind = declared.split(":")
        axes[x] = letters
        operands |= {x} if kind else set()
        script += f"    input {x}: {'' if kind else 'f32'}[{', '.join(letters)}] grad;\n"
    TRIALS[name] = (f"{script}{lets}{body}\n}}\n", axes, operands, slots)


def define():
    silu, elu, softplus, sigmoid = torch.nn.functional.silu, torch.nn.functional.elu, torch.nn.functional.softplus, torch.sigmoid

    def l2(x, eps=1e-6):
        return x / (x.square().sum(-1, keepdim=True) + eps).sqrt()

    def of_head(x):  # [H]
        return x[:, None, None]

    def heads(T):
        return torch.arange(H, dtype=torch.float64)[:, None, None]

    def delta_of(x):
        return softplus(x["dt"] + x["dt_bias"][:, None])[..., None]

    trial("retnet", """
    linear { q = q * rsqrt(K); decay = 1.0 - exp2(-5.0 - h); norm = max(abs(sum), 1.0); }
    out_mod(o, b, h, i, c) = rmsnorm(o) * silu(gate[b, h, i, c]);""",
        lambda x, T: {"q": x["q"] * K**-0.5, "decay": 1 - 2 ** (-5 - heads(T)), "norm": lambda s: s.abs().clamp(min=1),
                      "out": lambda o: o / (o.square().mean(-1, keepdim=True) + 1e-6).sqrt() * silu(x["gate"])}, "gate:BHTV:o")
    trial("mamba2", "    linear { v = delta * v; decay = exp(-exp(A_log) * delta); skip = D * v; }",
        lambda x, T: {"v": x["v"] * delta_of(x), "decay": torch.exp(-of_head(x["A_log"].exp()) * delta_of(x)), "skip": of_head(x["D"]) * x["v"]},
        "dt:BHT dt_bias:H A_log:H D:H", q="G", k="G", lets="    let delta = softplus(dt + dt_bias);\n")
    trial("gla", "    linear { decay = pow(sigmoid(g), 1.0 / 16.0); }", lambda x, T: {"decay": sigmoid(x["g"]) ** (1 / 16)}, "g:BHTK")
    trial("hgrn2", "    linear { q = silu(q); k = (1.0 - low) * (1.0 - sigmoid(f)); decay = low + (1.0 - low) * sigmoid(f); }",
        lambda x, T: {"q": silu(x["q"]), "k": (1 - sigmoid(x["low_raw"])[:, None]) * (1 - sigmoid(x["f"])),
                      "decay": sigmoid(x["low_raw"])[:, None] + (1 - sigmoid(x["low_raw"])[:, None]) * sigmoid(x["f"])},
        "f:BHTK:o low_raw:HK", lets="    let low = sigmoid(low_raw);\n")
    trial("delta_twice", "    linear { q = rmsnorm(q); k = l2norm(elu(k) + 1.0, 1e-3); erase = 2.0 * sigmoid(beta); }",  # eigenvalues down to -1
        lambda x, T: {"q": x["q"] / (x["q"].square().mean(-1, keepdim=True) + 1e-6).sqrt(), "k": l2(elu(x["k"]) + 1, 1e-3), "erase": 2 * sigmoid(x["beta"])[..., None]},
        "beta:BHT")
    trial("gated_delta", "    linear { q = l2norm(q) * rsqrt(K); k = l2norm(k); decay = exp(-exp(A_log) * softplus(a + bias)); erase = sigmoid(beta); write = tanh(w); }",
        lambda x, T: {"q": l2(x["q"]) * K**-0.5, "k": l2(x["k"]), "decay": torch.exp(-of_head(x["A_log"].exp()) * softplus(x["a"] + x["bias"][:, None])[..., None]),
                      "erase": sigmoid(x["beta"])[..., None], "write": torch.tanh(x["w"])[..., None]},
        "a:BHT beta:BHT w:BHT:o A_log:H bias:H", q="G", k="G")
    trial("kimi_before", "    linear { k = l2norm(k); decay = sigmoid(g); erase = sigmoid(beta); read = before; bonus = tanh(u); }",
        lambda x, T: {"k": l2(x["k"]), "decay": sigmoid(x["g"]), "erase": sigmoid(x["beta"])[..., None], "bonus": torch.tanh(x["u"])[:, None]},
        "g:BHTK beta:BHT u:HK")
    trial("rwkv6_normed", "    linear { decay = exp(-exp(w)); read = before; bonus = u; write = sigmoid(s); norm = abs(sum) + 1.0; skip = v; }",
        lambda x, T: {"decay": torch.exp(-x["w"].exp()), "bonus": x["u"][:, None], "write": sigmoid(x["s"])[..., None], "norm": lambda s: s.abs() + 1, "skip": x["v"]},
        "w:BHTK u:HK s:BHT")
    trial("rwkv7", "    linear { decay = exp(-0.606531 * sigmoid(w)); lowrank = (-l2norm(r), l2norm(r) * sigmoid(a)); }",
        lambda x, T: {"decay": torch.exp(-0.606531 * sigmoid(x["w"])), "lowrank": (-l2(x["r"]), l2(x["r"]) * sigmoid(x["a"]))}, "w:BHTK r:BHTK:o a:BHTK:o")
    trial("mlstm", """
    linear { q = q * rsqrt(K); decay = sigmoid(f); write = exp(min(i, 3.0)); norm = max(abs(sum), 1.0); }
    out_mod(o, b, h, n, c) = o * sigmoid(gate[b, h, n, c]);""",
        lambda x, T: {"q": x["q"] * K**-0.5, "decay": sigmoid(x["f"])[..., None], "write": x["i"].clamp(max=3).exp()[..., None],
                      "norm": lambda s: s.abs().clamp(min=1), "out": lambda o: o * sigmoid(x["gate"])}, "i:BHT f:BHT gate:BHTV:o")
    trial("polynomial", "    linear { q = feature(q * 0.5); k = feature(k * 0.5); norm = sum; }",
        lambda x, T: {"q": 1 + x["q"] / 2 + x["q"] ** 2 / 8, "k": 1 + x["k"] / 2 + x["k"] ** 2 / 8, "norm": lambda s: s}, k="G", v="G",
        constants="fn feature(x) = 1.0 + x + x * x * 0.5;")
    trial("real_gated", "    linear { decay = exp(rate); k = sqrt(1.0 - exp(2.0 * rate)) * k; }",
        lambda x, T: {"decay": torch.exp(-8 * softplus(x["L"])[:, None] * sigmoid(x["a"])),
                      "k": x["k"] * (1 - torch.exp(-16 * softplus(x["L"])[:, None] * sigmoid(x["a"]))).sqrt()},
        "a:BHTK L:HK", lets="    let rate = -8.0 * softplus(L) * sigmoid(a);\n")
    trial("resets", "    linear { q = k + q; k = q * k; decay = where(g > 0.5, 0.0, sigmoid(g)); norm = max(abs(sum), 0.5); }",  # slots see the tensors as passed in
        lambda x, T: {"q": shared(x["k"]) + x["q"], "k": x["q"] * shared(x["k"]), "decay": torch.where(x["g"] > 0.5, 0.0, sigmoid(x["g"]))[..., None],
                      "norm": lambda s: s.abs().clamp(min=0.5)}, "g:BHT", k="G")
    trial("running_mean", "    linear { q = 0.0 * q + 1.0 / K; k = 0.0 * k + 1.0; decay = f32(t) / (t + 1); write = sigmoid(g) / (t + 1); }",
        lambda x, T: {"q": 0 * x["q"] + 1 / K, "k": 0 * x["k"] + 1, "decay": (torch.arange(T) / (torch.arange(T) + 1.0).double())[:, None],
                      "write": sigmoid(shared(x["g"])[..., None]) / (torch.arange(T)[:, None] + 1)}, "g:BGT", v="G")


def shared(x):
    return x.repeat_interleave(H // x.shape[1], 1)


def loop(x, slots, T, state, total):
    """o, the state and the sum of keys after the last token."""
    s = {name: x[name] for name in "qkv"} | slots(x, T)
    q, k, v = (shared(s[name]) for name in "qkv")
    batch = q.shape[0]

    def of_token(name, other, width):
        y = s.get(name, other)
        return torch.as_tensor(y, dtype=torch.float64).expand(batch, H, T, width)

    decay, write, erase = of_token("decay", 1.0, K), of_token("write", s.get("erase", 1.0), 1), of_token("erase", 0.0, 1)
    rows, sums = [], []
    for t in range(T):
        kt, vt, qt, before, counted = k[:, :, t], v[:, :, t, None], q[:, :, t], state, total
        state = decay[:, :, t, :, None] * state
        state = state - (erase[:, :, t] * kt)[..., None] * (kt[:, :, None] @ state)
        if "lowrank" in s:
            a, b = s["lowrank"]
            state = state + b[:, :, t, :, None] * (a[:, :, t, None] @ before)
        state = state + (write[:, :, t] * kt)[..., None] * vt
        total = decay[:, :, t] * total + write[:, :, t] * kt
        if "bonus" in s:  # reads before the token; the strength of the write is no part of the bonus
            now = (qt * s["bonus"].expand(batch, H, 1, K)[:, :, 0] * kt).sum(-1)[..., None, None]
            rows.append(qt[:, :, None] @ before + now * vt)
            sums.append((qt * counted).sum(-1)[..., None, None] + now)
        else:
            rows.append(qt[:, :, None] @ state)
            sums.append((qt * total).sum(-1)[..., None, None])
    o = torch.cat(rows, 2) if T else v[:, :, :0] * 0.0
    if "norm" in s and T:
        o = o / s["norm"](torch.cat(sums, 2))
    return s.get("out", lambda o: o)(o + shared(torch.as_tensor(s["skip"])) if "skip" in s else o), state, total


def tensors(axes, operands, T, batch=B, dtype="float32", seed=0):
    r, sizes = np.random.default_rng(seed), SIZES | {"T": T, "B": batch}
    return {name: torch.from_numpy(r.standard_normal([sizes[a] for a in letters])).to(getattr(torch, dtype if name in operands else "float32")) for name, letters in axes.items()}


def first_states(*axes, seed=1):
    r = np.random.default_rng(seed)
    return torch.from_numpy(r.standard_normal((*axes, H, K, V), np.float32)), torch.from_numpy(r.random((*axes, H, K), np.float32))


@unittest.skipIf(torch is None, "needs torch")
class Trials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        define()
        cls.functions = {name: aule.compile(script) for name, (script, *_) in TRIALS.items()}

    def near(self, got, expected, bound=1e-5, what=""):
        self.assertEqual(got.shape, expected.shape)
        if expected.numel():
            error, largest = (got.double() - expected).abs().max().item(), max(expected.abs().max().item(), 1e-3)
            self.assertLessEqual(error, bound * largest, what)

    def each(self):
        for name, (_, axes, operands, slots) in TRIALS.items():
            f = self.functions[name]
            yield name, (f, axes, operands, slots, (lambda pair: pair) if "sum" in f.states else (lambda pair: pair[0]))

    def test_types_and_lengths(self):
        halves = [("float16", 37), ("bfloat16", 37)]
        for number, (trial, (f, axes, operands, slots, given)) in enumerate(self.each()):
            with self.subTest(trial):
                for dtype, T in (("float32", 67), ("float32", 1), ("float32", 0), *(halves if FULL else halves[number % 2 :][:1])):
                    x = tensors(axes, operands, T, dtype=dtype)
                    o, after = f(**x, return_state=True)
                    states = [torch.zeros(B, H, K, V, dtype=torch.float64), torch.zeros(B, H, K, dtype=torch.float64)]
                    expected, *states = loop({name: y.double() for name, y in x.items()}, slots, T, *states)
                    self.near(o, expected, BOUNDS[dtype], f"o in {dtype}, T = {T}")
                    for got, state in zip(given(after) if isinstance(after, tuple) else (after,), states):
                        self.near(got, state, what=f"state in {dtype}, T = {T}")

    def test_gradients_of_packed_sequences(self):
        lengths = (5, 0, 1, 22, 0)
        cu = torch.tensor(np.cumsum((0, *lengths)), dtype=torch.int32)
        for trial, (f, axes, operands, slots, given) in self.each():
            with self.subTest(trial):
                x = {name: y.requires_grad_() for name, y in tensors(axes, operands, 28, batch=1).items()}
                exact = {name: y.detach().double().requires_grad_() for name, y in x.items()}
                first = first_states(len(lengths))
                o = f(**x, initial_state=given(first), cu_seqlens=cu)
                parts = []
                for n, (a, b) in enumerate(zip(cu[:-1].tolist(), cu[1:].tolist())):
                    own = {name: y.narrow(axes[name].index("T"), a, b - a) if "T" in axes[name] else y for name, y in exact.items()}
                    parts.append(loop(own, slots, b - a, *(s[n : n + 1].double() for s in first))[0])
                expected = torch.cat(parts, 2)
                self.near(o.detach(), expected.detach())
                do = torch.from_numpy(np.random.default_rng(2).standard_normal(o.shape, np.float32))
                o.backward(do)
                expected.backward(do.double())
                for name, y in x.items():
                    self.near(y.grad, torch.zeros_like(exact[name]) if exact[name].grad is None else exact[name].grad, 3e-5, f"d{name}")

    def steps(self, f, axes, operands, slots, given, device):
        x, (pool, totals) = tensors(axes, operands, 3, batch=4), first_states(6)
        before, numbers = (pool.clone(), totals.clone()), [4, -1, 0, 3]
        rows = [torch.stack([s[n] if n >= 0 else 0 * s[0] for n in numbers]).double() for s in before]
        expected, *after = loop({name: y.double() for name, y in x.items()}, slots, 3, *rows)
        self.near(f.step(given((pool, totals)), **x, slots=torch.tensor(numbers, dtype=torch.int32), device=device), expected)
        for got, was, states in zip(*(((pool, totals), before, after) if "sum" in f.states else ((pool,), before, after))):
            for at, n in enumerate(numbers):
                if n >= 0:
                    self.near(got[n], states[at])
            self.assertTrue(torch.equal(got[[1, 2, 5]], was[[1, 2, 5]]))

    def test_steps_in_a_pool(self):
        for name, trial in self.each():
            with self.subTest(name):
                self.steps(*trial, "cpu")

    def test_steps_on_opencl(self):
        if not any(d.available and d.backend == "opencl" for d in aule.devices()):
            self.skipTest("no OpenCL device")
        for name, trial in self.each():
            if name in ("gated_delta", "rwkv6_normed", "rwkv7"):
                with self.subTest(name):
                    self.steps(*trial, "opencl")

    def test_a_poisoned_sequence_stays_alone(self):
        cu = torch.tensor([0, 9, 20, 37], dtype=torch.int32)
        for trial, (f, axes, operands, _, _) in self.each():
            with self.subTest(trial):
                x = tensors(axes, operands, 37, batch=1)
                clean = f(**x, cu_seqlens=cu)
                for name in axes:
                    if "T" in axes[name]:
                        bad = {**x, name: x[name].clone()}
                        bad[name].narrow(axes[name].index("T"), 9, 11).fill_(float("nan"))
                        o = f(**bad, cu_seqlens=cu)
                        for part in (slice(0, 9), slice(20, 37)):
                            self.assertTrue(torch.equal(o[:, :, part], clean[:, :, part]), name)


if __name__ == "__main__":
    unittest.main()
