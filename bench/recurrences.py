"""Measures recurrences side by side with peers, on the same random tensors, in one process.

    python bench/recurrences.py [--device cpu|cuda] [--dtype f32] [--pass forward,backward,both] [--peers aule,fla] [--filter WORD] [--rounds N]
                                [--tokens N] [--artifacts DIR] [--write docs/performance.md --marker recurrences-cpu]
    python bench/recurrences.py --device cuda --kernels [--pass backward] [--filter "gated delta 1, 96"] ..
    python bench/recurrences.py --compile DIR [--arch sm_90] [--dtype bf16]

Peers: `loop`, the recurrence token after token in torch, by torch.compile 16 tokens at a time; `chunks`, the chunk formula in torch's matrix
products, the chunk that is fastest of 16, 32, 64 and 128; on CUDA `fla`, flash-linear-attention's chunk kernels, where it can be imported.
Every round calls each peer once, in turn; a cell is the median time and the largest error, of o, or with the passes `backward` and `both` of the
gradients of q, k and v, against the loop in float64 of the first head. `backward` is the gradients alone, of one forward again and again. --peers:
only these; `--peers aule` times it beside nothing. --kernels: in place of that, what each call spends in which kernel, ms and launches by name, the
mean of the rounds under torch's profiler, whose CUPTI sees what any library launches. --compile writes the artifacts for a machine without the compiler, where --artifacts names
the folder.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))
from bench import TYPES, backward_call, compile_artifact, machine, note, tell, usable
from measure import kernel_rows, median_seconds, spans_of

SCRIPTS = Path(__file__).parent.parent / "attn_scripts"
UNROLLED, CHUNKS = 16, (16, 32, 64, 128)


@dataclass(frozen=True)
class Case:
    kind: str  # none, constant, scalar, vector, delta, gated delta, kimi delta, low rank, mamba2, norm (linear attention divided by its sum of scores), retnet
    B: int
    T: int
    H: int
    K: int
    V: int = 0  # 0: K
    G: int = 0  # heads of q and k; 0: H

    @property
    def shape(self) -> str:
        return f"{self.B}, {self.H}, {self.T}, {self.K}" + (f" ({self.V}" + (f" of {self.G})" if self.G else ")") if self.V else "")


SETS = {
    "cpu": [Case(kind, 1, 2048, 8, K) for K in (64, 128) for kind in ("scalar", "vector", "delta")] + [Case("low rank", 1, 2048, 8, 64)],
    "cuda": [Case(kind, 1, 8192, 96, 128) for kind in ("none", "constant", "scalar", "vector", "gated delta")]
    + [Case(kind, 4, 4096, 64, 128) for kind in ("scalar", "vector")]
    + [Case("vector", 2, 16384, 16, 128), Case("scalar", 1, 32768, 16, 128), Case("gated delta", 1, 32768, 16, 128)]
    + [Case("kimi delta", B, T, H, 128) for B, T, H in ((1, 8192, 96), (1, 32768, 16))]
    + [Case("low rank", B, T, H, 64) for B, T, H in ((1, 8192, 96), (8, 4096, 32))]
    + [Case("norm", 1, 8192, 96, 128), Case("retnet", 1, 8192, 96, 64, 128), Case("retnet", 1, 8192, 96, 128)]
    + [Case("mamba2", B, T, 80, 128, 64, 1) for B, T in ((8, 4096), (8, 8192), (1, 4096))],
}
FILES = {"constant": "retention_recurrent", "scalar": "simple_gla", "vector": "gla", "delta": "delta_rule", "gated delta": "gated_delta", "kimi delta": "kimi_delta", "low rank": "rwkv7", "mamba2": "mamba2", "norm": "linear_attention", "retnet": "retnet"}

PLAIN = "attention plain { q: [B, H, T, K]; k: [B, H, T, K]; v: [B, H, T, V]; linear { q = q * rsqrt(K); } }"


# ---- a case in numbers: q, k and v as the recurrence takes them, log decay [B, H, T, 1 or K] and strength [B, H, T]; None where there is none. In
# place of a strength `low rank` has what reads the state and what writes it, side by side, [B, H, T, 2 K]


def arguments_of(case: Case, dtype: torch.dtype, device: str):
    """As layers hold them, [B, T, H, ..] in memory, which no peer has to copy; as views [B, H, T, ..]."""
    torch.manual_seed(1)

    def draw(*more: int, heads: int = case.H):
        return torch.randn(case.B, case.T, heads, *more, device=device).transpose(1, 2)

    q, k = (draw(case.K, heads=case.G or case.H).to(dtype) for _ in range(2))
    v = draw(case.V or case.K).to(dtype)
    gate = draw(*([case.K] if case.kind in ("vector", "kimi delta", "low rank") else [v.shape[3]] if case.kind == "retnet" else []))
    if case.kind == "retnet":
        gate = gate.to(dtype)
    return q, k, v, gate, draw(2 * case.K).to(dtype) if case.kind == "low rank" else draw()


def normal(case: Case, q, k, v, gate, beta, exact: bool = False):
    wide = torch.Tensor.double if exact else torch.Tensor.float
    q, k, v, gate, beta = (wide(x) for x in (q, k, v, gate, beta))
    decay, strength = None, None
    if case.kind == "mamba2":  # of step sizes softplus(gate), with A = -1 and no skip
        step = F.softplus(gate)[..., None]
        q, k = (x.expand(-1, v.shape[1], -1, -1) for x in (q, k))
        return q, k, v * step, -step, strength
    if has_norm(case):  # one more column of values, whose output is the sum of scores
        v = torch.cat([v, torch.ones_like(v[..., :1])], 3)
    if case.kind == "norm":
        return F.elu(q) + 1, F.elu(k) + 1, v, decay, strength
    if case.kind in ("constant", "retnet"):
        heads = torch.arange(q.shape[1], device=q.device, dtype=q.dtype)
        decay = torch.log1p(-torch.exp2(-5 - heads))[None, :, None, None].expand(q.shape[0], -1, q.shape[2], 1)
    if case.kind == "scalar":
        decay = F.logsigmoid(gate)[..., None] / 16
    if case.kind == "vector":
        decay = F.logsigmoid(gate) / 16
    if case.kind == "gated delta":
        decay = -F.softplus(gate)[..., None]
    if case.kind == "kimi delta":
        decay = -F.softplus(gate)
    if case.kind == "low rank":
        removal, rate = beta.chunk(2, 3)
        u = F.normalize(removal, dim=3)
        return q, k, v, -math.exp(-0.5) * torch.sigmoid(gate), torch.cat([-u, torch.sigmoid(rate) * u], 3)
    if "delta" in case.kind:
        q, k, strength = F.normalize(q, dim=3), F.normalize(k, dim=3), torch.sigmoid(beta)
    return q * case.K**-0.5, k, v, decay, strength


def has_norm(case: Case) -> bool:
    return case.kind in ("norm", "retnet")


def finished(case: Case, o, gate):
    """The output, of what q reads."""
    if not has_norm(case):
        return o
    o, sums = o[..., :-1], o[..., -1:]
    if case.kind == "norm":
        return o / sums.clamp_min(1e-6)
    o = o / sums.abs().clamp_min(1).detach()
    return o * torch.rsqrt(o.square().mean(3, keepdim=True) + 1e-6) * F.silu(gate.to(o.dtype))


def tokens(S, q, k, v, decay, strength):
    """Tokens one after another: the state behind them, and o."""
    o = []
    for t in range(q.shape[2]):
        fed = None
        if strength is not None and strength.dim() == 4:
            x, b = strength[:, :, t].chunk(2, 2)
            fed = b[..., None] * (x[:, :, None] @ S)
        if decay is not None:
            S = decay[:, :, t, :, None].exp() * S
        u = v[:, :, t]
        if strength is not None and fed is None:
            u = strength[:, :, t, None] * (u - (k[:, :, t, None] @ S)[:, :, 0])
        S = S + k[:, :, t, :, None] * u[:, :, None]
        if fed is not None:
            S = S + fed
        o.append((q[:, :, t, None] @ S)[:, :, 0])
    return S, torch.stack(o, 2)


def part(x, first: int, count: int):
    return None if x is None else x[:, :, first : first + count]


def loop(run, x, step: int):
    S, o = x[0].new_zeros(*x[0].shape[:2], x[0].shape[3], x[2].shape[3]), []
    for first in range(0, x[0].shape[2], step):
        S, made = run(S, *(part(y, first, step) for y in x))
        o.append(made)
    return torch.cat(o, 2)


def chunks(x, size: int):
    """The chunk formula: pairs inside of a chunk as products of all chunks at once, then states from chunk to chunk."""
    q, k, v, decay, strength = (None if y is None else y.unflatten(2, (-1, size)) for y in x)
    total = q.new_zeros(*q.shape[:4], 1) if decay is None else decay.cumsum(3)
    low = torch.ones(size, size, dtype=torch.bool, device=q.device).tril()
    start, whole = q * total.exp(), total[..., -1:, :]
    end = k * (whole - total).exp()
    if total.shape[4] == 1:
        span = (total - total.mT).masked_fill(~low, -torch.inf).exp()
        pairs, among = (q @ k.mT) * span, (k @ k.mT) * span
    else:
        back = k * (-total).exp()
        pairs, among = ((y @ back.mT).masked_fill(~low, 0) for y in (start, k * total.exp()))
    key = k * total.exp()
    if strength is not None:
        solved = torch.eye(size, device=q.device, dtype=q.dtype) + strength[..., None] * among.tril(-1)
        v, key = torch.linalg.solve_triangular(solved, strength[..., None] * torch.cat([v, key], 4), upper=False, unitriangular=True).split(v.shape[4], 4)
    S, o = q.new_zeros(*q.shape[:2], q.shape[4], v.shape[4]), []
    for n in range(q.shape[2]):
        u = v[:, :, n] if strength is None else v[:, :, n] - key[:, :, n] @ S
        o.append(start[:, :, n] @ S + pairs[:, :, n] @ u)
        S = whole[:, :, n].mT.exp() * S + end[:, :, n].mT @ u
    return torch.stack(o, 2).flatten(2, 3)


# ---- peers: each a function of (q, k, v, gate, beta) that gives o in the type of q


def artifact_of(folder, kind: str) -> Path:
    return Path(folder) / f"{kind.replace(' ', '_')}.so"


def compile_artifacts(folder: Path, arch: str, dtype: str) -> None:
    """Of the cases for CUDA, and of steps."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "none.attn").write_text(PLAIN)
    shapes = {(case.kind, case.K, case.V or case.K) for case in SETS["cuda"]} | {("delta", 128, 128)}
    for kind in sorted({kind for kind, _, _ in shapes}):
        script = SCRIPTS / f"{FILES[kind]}.attn" if kind in FILES else folder / "none.attn"
        sizes = zip(*((K, V) for name, K, V in shapes if name == kind))
        widths = [f"{axis}={','.join(map(str, sorted(set(of))))}" for axis, of in zip("NP" if kind == "mamba2" else "KV", sizes)]
        compile_artifact(script, artifact_of(folder, kind), "cuda", arch, dtype, widths)


def aule_call(case: Case, artifacts: str = ""):
    import aule

    if artifacts:
        f = aule.load(artifact_of(artifacts, case.kind))
    else:
        f = aule.compile(PLAIN if case.kind == "none" else SCRIPTS / f"{FILES[case.kind]}.attn")
    names = {"scalar": ("gate",), "vector": ("gate",), "low rank": ("w",), "delta": (None, "beta"), "gated delta": ("a", "beta"), "kimi delta": ("a", "beta"), "mamba2": ("dt",), "retnet": ("gate",)}.get(case.kind, ())

    def run(q, k, v, *inputs, state=None):  # state: a step, which writes on it
        more = {name: x for name, x in zip(names, inputs) if name}
        if case.kind == "low rank":
            more["removal"], more["rate"] = inputs[1].chunk(2, 3)
        if case.kind == "gated delta":
            more |= {name: q.new_zeros(case.H, dtype=torch.float32) for name in ("A_log", "dt_bias")}
        if case.kind == "kimi delta":
            more |= {"A_log": q.new_zeros(case.H, dtype=torch.float32), "dt_bias": q.new_zeros(case.H, case.K, dtype=torch.float32)}
        if case.kind == "mamba2":
            more |= {name: q.new_zeros(case.H, dtype=torch.float32) for name in ("A_log", "dt_bias", "d_skip")}
        return f(q, k, v, **more) if state is None else f.step(state, q, k, v, **more)

    return run


def fla_call(case: Case):
    import fla.ops as ops

    first = []  # the log decays and strengths that its kernels take: made once, not timed

    def run(q, k, v, gate, beta):
        if case.kind == "mamba2":
            raise NotImplementedError("heads that share q and k")
        if case.kind == "retnet":
            raise NotImplementedError("what stands behind the read")
        if not first:
            made = normal(case, *(x[:, :1, :1] for x in (q, k, v)), gate, beta)[3:] if case.kind != "constant" else (None, None)
            first.extend(x if x is None else x.transpose(1, 2).contiguous() for x in made)
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # [B, T, H, K], compact
        (decay, strength), scale = first, case.K**-0.5
        if case.kind == "none":
            return ops.chunk_linear_attn(q, k, v, scale=scale, normalize=False)[0].transpose(1, 2)
        if case.kind == "norm":
            return ops.chunk_linear_attn(F.elu(q) + 1, F.elu(k) + 1, v, scale=1.0, normalize=True)[0].transpose(1, 2)
        if case.kind == "constant":
            return ops.chunk_retention(q, k, v, scale=scale)[0].transpose(1, 2)
        if case.kind == "scalar":
            return ops.chunk_simple_gla(q, k, v, decay[..., 0], scale=scale)[0].transpose(1, 2)
        if case.kind == "vector":
            return ops.chunk_gla(q, k, v, decay.to(q.dtype), scale=scale)[0].transpose(1, 2)
        if case.kind == "low rank":  # what chunk_rwkv7 calls, whose names of the decay are others in each version
            from fla.ops.generalized_delta_rule import chunk_dplr_delta_rule

            a, b = (x.contiguous() for x in strength.to(q.dtype).chunk(2, 3))
            return chunk_dplr_delta_rule(q=q, k=k, v=v, a=a, b=b, gk=decay, scale=1.0)[0].transpose(1, 2)
        strength = strength.to(q.dtype)
        if case.kind == "kimi delta":
            from fla.ops.kda import chunk_kda

            return chunk_kda(q, k, v, decay, strength, scale=scale, use_qk_l2norm_in_kernel=True)[0].transpose(1, 2)
        if case.kind == "delta":
            return ops.chunk_delta_rule(q, k, v, strength, scale=scale, use_qk_l2norm_in_kernel=True)[0].transpose(1, 2)
        return ops.chunk_gated_delta_rule(q, k, v, decay[..., 0], strength, scale=scale, use_qk_l2norm_in_kernel=True)[0].transpose(1, 2)

    return run


def peers_of(case: Case, device: str, artifacts: str, chosen: list[str]) -> dict:
    """The [chosen] ones that can be used; of all where none is named."""
    compiled = torch.compile(tokens)
    made = {"aule": usable("aule", lambda: aule_call(case, artifacts))}
    if device.startswith("cuda"):
        made["fla"] = usable("fla", lambda: fla_call(case)) if not chosen or "fla" in chosen else None
    else:  # thousands of launches: nobody's choice on a GPU
        made["loop"] = lambda *x: finished(case, loop(compiled, normal(case, *x), UNROLLED), x[3]).to(x[0].dtype)
    for size in CHUNKS if case.kind != "low rank" else ():
        made[f"chunks {size}"] = lambda *x, size=size: finished(case, chunks(normal(case, *x), size), x[3]).to(x[0].dtype)
    return {name: call for name, call in made.items() if call and (not chosen or name.split()[0] in chosen)}


def gradients(call, x, do):
    leaves = [y.detach().requires_grad_() for y in x[:3]]
    return torch.autograd.grad(call(*leaves, *x[3:]), leaves, do)


def call_of(which: str, call, x, do):
    """A function of nothing that does what the pass times, and gives o, or the gradients of q, k and v."""
    if which == "forward":
        return lambda: [call(*x)]
    if which == "both":
        return lambda: gradients(call, x, do)
    leaves = [y.detach().requires_grad_() for y in x[:3]]
    return backward_call(lambda: call(*leaves, *x[3:]), leaves, do)


def measure(case: Case, dtype: str, which: str, a) -> dict[str, tuple[float, float]]:
    """Milliseconds and error by peer."""
    x = arguments_of(case, TYPES[dtype], a.device)
    do = torch.randn_like(x[2])
    first = [y[:1, :1].double() for y in x]
    exact = lambda *y: finished(case, loop(tokens, normal(case, *y, exact=True), case.T), y[3])
    backward = which != "forward"
    want = gradients(exact, first, do[:1, :1].double()) if backward else [exact(*first)]
    calls, errors = {}, {}
    for name, call in peers_of(case, a.device, a.artifacts, a.peers).items():

        def prepare():
            run = call_of(which, call, x, do)
            pairs = list(zip(run(), want))[2 if case.G and backward else 0 :]  # gradients of shared heads are all heads'
            return run, max(((got[:1, :1].double() - w).abs().max() / w.abs().max()).item() for got, w in pairs)

        with torch.set_grad_enabled(backward):
            if (made := usable(f"{name}, {case.kind} {case.shape}", prepare)) is not None:
                calls[name], errors[name] = made
    with torch.set_grad_enabled(backward):
        if a.kernels:
            for name, run in calls.items():
                title = f"{name}, {case.kind}, {case.shape}, {dtype}, {which}, error {errors[name]:.0e}"
                print("\n".join(kernel_rows(title, spans_of(run, a.rounds), a.rounds)), flush=True)
            return {}
        seconds = median_seconds(calls, a.device, a.rounds)
    return {name: (s * 1e3, errors[name]) for name, s in seconds.items()}


def row(case: Case, dtype: str, which: str, found: dict, columns: list[str]) -> str:
    swept = {name: cell for name, cell in found.items() if name.startswith("chunks")}
    if swept:
        best = min(swept, key=lambda name: swept[name][0])
        found = {name: cell for name, cell in found.items() if name not in swept} | {"chunks": swept[best]}
    others = [ms for name, (ms, _) in found.items() if name != "aule"]
    ratio = f"{min(others) / found['aule'][0]:.2f}x" if others and "aule" in found else ""
    cells = [f"{found[n][0]:.3g} ms, {found[n][1]:.0e}" + (f" ({best.split()[1]})" if n == "chunks" else "") if n in found else "" for n in columns]
    return f"| {case.kind} | {case.shape} | {dtype} | {which} | " + " | ".join(cells) + f" | {ratio} |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cpu")
    p.add_argument("--dtype", default="")
    p.add_argument("--pass", dest="passes", default="forward,both", help="forward, backward (gradients alone), both")
    p.add_argument("--peers", default="", help="only these of aule, fla, loop and chunks")
    p.add_argument("--kernels", action="store_true", help="in place of times: what a call spends in each kernel; --device cuda")
    p.add_argument("--filter", default="", help="only cases whose kind and shape, as `gated delta 1, 96, 8192, 128`, contain this")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--tokens", type=int, default=0, help="in place of each case's own: to try the command")
    p.add_argument("--artifacts", default="")
    p.add_argument("--compile", type=Path)
    p.add_argument("--arch", default="sm_90")
    p.add_argument("--write", type=Path)
    p.add_argument("--marker", default="recurrences-cpu")
    a = p.parse_args()
    if a.compile:
        return compile_artifacts(a.compile, a.arch, a.dtype or "bf16")
    on_cuda = a.device.startswith("cuda")
    columns = ["aule", "fla" if on_cuda else "loop", "chunks"]
    a.peers = [name for name in a.peers.split(",") if name]
    for given, known, what in ((a.passes.split(","), ["forward", "backward", "both"], "pass"), (a.peers, columns, "peer")):
        for word in given:
            if word not in known:
                p.error(f"there is no {what} {word!r} here, expected {', '.join(known)}")
    if a.kernels and not on_cuda:
        p.error("--kernels needs --device cuda: kernels of other devices are not seen by torch's profiler")
    if a.kernels and a.write:
        p.error("--kernels writes no table of times")
    columns = [name for name in columns if not a.peers or name in a.peers]
    lines = ["| decay | B, H, T, K = V (V of heads of q and k) | dtype | pass | " + " | ".join(columns) + " | best peer / aule |", "|" + "---|" * (len(columns) + 5)]
    for dtype in (a.dtype or ("bf16" if on_cuda else "f32")).split(","):
        for which in a.passes.split(","):
            for case in SETS["cuda" if on_cuda else "cpu"]:
                if a.filter in f"{case.kind} {case.shape}":
                    case = replace(case, T=a.tokens or case.T)
                    found = measure(case, dtype, which, a)
                    if a.kernels:
                        continue
                    lines.append(row(case, dtype, which, found, columns))
                    note(lines[-1])
    if a.kernels:
        return
    tell(a, "Median time, largest error beside the largest value; of the chunks the fastest, its size behind.", lines)


if __name__ == "__main__":
    main()
