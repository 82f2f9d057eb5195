"""Layouts and recurrences against formulas in float64, written from the papers in torch, with nothing of aule's on the other side: outputs and all gradients."""

from __future__ import annotations

import unittest

import aule
from support import DEVICE, ROOT, torch

# A function of one's own: max(s - t, 0)^2 over 1 plus their sum, with inputs of queries, of keys and of heads
OWN = """
online squares(t) {
    rowscale r = 0.0;
    final r;
    online_fwd(s) { let p = relu(s - t) * relu(s - t); r = r + rowsum(p); return p, 1.0; }
    online_fwd_epilogue(o) = o / (1.0 + r);
    forward(s) = relu(s - t) * relu(s - t) / (1.0 + r);
}
attention own {
    q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E];
    input t: f32[H] grad;
    input key_bias: f32[B, Hk, T] grad;
    input gate: [B, H, S, E] grad;
    score_mod(s, b, h, i, j) = s * rsqrt(D) + key_bias[b, kv_h, j];
    mask(b, h, i, j) = j <= q_pos && (q_pos - j < 30 || j < 4);
    out_mod(o, b, h, i, c) = o * sigmoid(gate[b, h, i, c]);
    online squares(t[h]);
}
"""
QUERIES, KEYS = [3, 0, 17, 40, 16], [15, 4, 17, 57, 0]  # of each sequence


def turned(x, positions, theta=10000.0):
    """RoFormer, section 3.2.2, with pairs (c, c + D/2)."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * theta ** (-torch.arange(half, dtype=torch.float64) / half)
    x, y = x[..., :half], x[..., half:]
    return torch.cat([x * angles.cos() - y * angles.sin(), y * angles.cos() + x * angles.sin()], -1)


def attention(name, q, k, v, x):
    """Of one sequence: q [H, S, D], k and v [Hk, T, ..]."""
    S, T, D, group = q.shape[1], k.shape[1], q.shape[2], q.shape[0] // k.shape[0]
    p, j = torch.arange(S)[:, None] + T - S, torch.arange(T)[None]
    if name == "rope":
        q, k = turned(q, p[:, 0].double()), turned(k, j[0].double())
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    s, seen = q @ k.transpose(1, 2) * D**-0.5, (j <= p).expand(S, T)
    if name == "own":
        s, seen = s + x["key_bias"].repeat_interleave(group, 0)[:, None], seen & ((p - j < 30) | (j < 4))
        w = torch.relu(s - x["t"][:, None, None]) ** 2 * seen
        return w @ v / (1 + w.sum(-1, keepdim=True)) * torch.sigmoid(x["gate"])
    if name == "relative_bias":
        s, seen = s + x["table"][:, (j - p + 16).clamp(0, 32)], torch.ones_like(seen)
    w = s.masked_fill(~seen, -1e300)
    if name == "attention_sink":
        w = torch.cat([w, x["sink"][:, None, None].expand(-1, S, 1)], -1)
    return (torch.softmax(w, -1)[..., :T] * seen) @ v


def rwkv7(q, k, v, w, removal, rate, state):
    """arXiv:2503.14456, of one sequence [H, T, ..]: o and the last state."""
    decay, into = torch.exp(-(torch.e**-0.5) * torch.sigmoid(w)), removal / torch.sqrt((removal**2).sum(-1, keepdim=True) + 1e-6)
    o = []
    for t in range(q.shape[1]):
        out = torch.einsum("hkv,hk->hv", state, -into[:, t])
        state = decay[:, t, :, None] * state + (torch.sigmoid(rate) * into)[:, t, :, None] * out[:, None] + k[:, t, :, None] * v[:, t, None]
        o.append(torch.einsum("hkv,hk->hv", state, q[:, t]))
    return torch.stack(o, 1) if o else v[:, :0], state


@unittest.skipIf(torch is None, "torch is not installed")
class Formulas(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def near(self, got, want, bound, what):
        error = (got.detach().cpu().double() - want).abs().max().item() / max(0.1, want.abs().max().item()) if want.numel() else 0.0
        self.assertLess(error, bound, what)  # also where it is NaN

    def check(self, name, layout, groups, D, E, dtype="float32", **inputs):
        """[inputs]: the shape of each that heads have; of sequences "S" or "T", the axis that they have, behind the heads."""
        HK, H = 2, 2 * groups
        dtype, bound = getattr(torch, dtype), {"float32": 1e-5, "float16": 6e-3, "bfloat16": 5e-2}[dtype]
        counts = {"S": QUERIES, "T": KEYS}
        sequences = {"q": ("S", (H, D), dtype), "k": ("T", (HK, D), dtype), "v": ("T", (HK, E), dtype)}
        sequences |= {n: x for n, x in inputs.items() if isinstance(x[0], str)}
        leaves, lists = {n: torch.randn(x) for n, x in inputs.items() if n not in sequences}, {}
        for n, (axis, (heads, *channels), kind) in sequences.items():
            rows = [torch.randn(heads, count, *channels).to(kind) for count in counts[axis]]
            if f"{axis}=padded" in layout:
                leaves[n] = torch.full((len(rows), heads, max(counts[axis]) + 1, *channels), float("nan"), dtype=kind)
                for b, x in enumerate(rows):
                    leaves[n][b, :, : x.shape[1]] = x
                lists[f"{axis}_lengths"] = torch.tensor(counts[axis], dtype=torch.int32)
            else:
                leaves[n] = torch.cat(rows, 1)[None]
                lists[f"{axis}_starts"] = torch.tensor([0, *counts[axis]]).cumsum(0).int()

        def own(x, n, b):
            """The rows of sequence b, of what lies as [n] does."""
            axis = sequences[n][0]
            if f"{axis}_lengths" in lists:
                return x[b, :, : counts[axis][b]]
            first = sum(counts[axis][:b])
            return x[0, :, first : first + counts[axis][b]]

        source = OWN if name == "own" else ROOT / f"attn_scripts/{name}.attn"
        f = aule.compile(source, layout=layout, optimize=1)
        given = {n: x.to(DEVICE, copy=True).requires_grad_() for n, x in leaves.items()}
        o = f(*(given[n] for n in "qkv"), **{n: x for n, x in given.items() if n not in "qkv"}, **{n: x.to(DEVICE) for n, x in lists.items()})
        do = torch.randn(o.shape).to(dtype)
        o.backward(do.to(DEVICE))
        exact = {n: x.detach().double().nan_to_num(0.0).requires_grad_() for n, x in leaves.items()}
        total = torch.zeros((), dtype=torch.float64)
        for b in range(len(QUERIES)):
            if not QUERIES[b] or not KEYS[b]:
                self.assertFalse(own(o, "q", b).any())
                continue
            mine = {n: own(x, n, b) if n in sequences else x for n, x in exact.items()}
            want = attention(name, mine.pop("q"), mine.pop("k"), mine.pop("v"), mine)
            self.near(own(o, "q", b), want.detach(), bound, f"{name}, {layout}, o of sequence {b}")
            total = total + (want * own(do, "q", b).double()).sum()
        total.backward()
        for n, x in given.items():
            self.near(x.grad, exact[n].grad, 4 * bound, f"{name}, {layout}, d{n}")

    def test_an_online_function_of_ones_own(self):
        inputs = {"t": (10,), "key_bias": ("T", (2,), torch.float32), "gate": ("S", (10, 16), torch.float32)}
        self.check("own", "S=packed,T=packed", 5, 80, 16, **inputs)

    def test_rotations_sinks_and_tables(self):
        self.check("rope", "S=packed,T=packed", 3, 80, 80)
        self.check("attention_sink", "S=packed,T=packed", 7, 48, 16, "bfloat16", sink=(14,))
        self.check("relative_bias", "S=packed,T=padded", 1, 64, 64, "float16", table=(2, 33))

    def test_rwkv7(self):
        """Gradients of a recurrence with lowrank: packed sequences, one of them empty, states in and out."""
        H, K, counts = 2, 16, [0, 17, 1, 30]
        names, total = ("q", "k", "v", "w", "removal", "rate"), sum(counts)
        given = {n: (torch.randn(1, H, total, K) * (0.25 if n == "k" else 1.0)).to(DEVICE).requires_grad_() for n in names}
        before = torch.randn(len(counts), H, K, K).to(DEVICE).requires_grad_()
        starts = torch.tensor([0, *counts]).cumsum(0).int()
        f = aule.compile(ROOT / "attn_scripts/rwkv7.attn", optimize=1)
        o, after = f(**given, cu_seqlens=starts.to(DEVICE), initial_state=before, return_state=True)
        do, dafter = torch.randn(o.shape), torch.randn(after.shape)
        torch.autograd.backward([o, after], [do.to(DEVICE), dafter.to(DEVICE)])
        exact, first = {n: x.detach().cpu().double().requires_grad_() for n, x in given.items()}, before.detach().cpu().double().requires_grad_()
        loss = torch.zeros((), dtype=torch.float64)
        for b in range(len(counts)):
            at = slice(starts[b], starts[b + 1])
            want, state = rwkv7(*(exact[n][0][:, at] for n in names), first[b])
            self.near(o[0][:, at], want.detach(), 1e-5, f"o of sequence {b}")
            self.near(after[b], state.detach(), 1e-5, f"state of sequence {b}")
            loss = loss + (want * do[0][:, at]).sum() + (state * dafter[b]).sum()
        loss.backward()
        for n, x in {**given, "initial state": before}.items():
            self.near(x.grad, exact.get(n, first).grad, 4e-5, n)


@unittest.skipIf(torch is None, "needs torch")
class Rounding(unittest.TestCase):
    def test_rows_that_mods_change_weigh_the_same_forward_and_backward(self):
        """One query and one key: its weight is 1, so the value's gradient is the output's, to the bit. Scores of magnitude 100, as of Swin v2."""
        f = aule.compile("attention c { q: [B,H,S,D]; k: [B,H,T,D]; v: [B,H,T,E]; q_mod(x) = l2norm(x); k_mod(x) = l2norm(x); score_mod(s) = s * 100.0; online softmax; }")
        for dtype in (torch.bfloat16, torch.float16):
            for keys in (1, 40):  # among others that a row hardly sees, too: the row's weights sum to 1
                r = torch.Generator().manual_seed(1)
                q, k, v = (torch.randn(64, 1, n, 40, generator=r).to(dtype).requires_grad_() for n in (1, keys, keys))
                o = f.forward(q, k, v, device=DEVICE).o
                dv, = torch.autograd.grad(o, v, torch.ones_like(o))
                error = (dv[..., 0].double().sum(-1) - 1).abs().max().item()
                self.assertLessEqual(error, 0 if keys == 1 else 4 * torch.finfo(dtype).eps, f"{dtype}, {keys} keys")


if __name__ == "__main__":
    unittest.main()
