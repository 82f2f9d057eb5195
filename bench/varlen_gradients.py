"""Gradients of packed attention, for bench/varlen.py: what is timed, and what is checked."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from bench import TYPES, note, usable
from measure import graph_seconds

NAMES = ("dq", "dk", "dv")
MOST_ERROR = 3e-2  # of the largest gradient, in bf16; weights and gradients of scores are rounded to it


def exact_gradients(one, q, k, v, do) -> list:
    """Of a sequence, [S, H, D], in float64; [one] is its formula."""
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    if not len(q) or not len(k):
        return [torch.zeros_like(x) for x in leaves]
    return list(torch.autograd.grad(one(*leaves), leaves, do.double()))


def error(got, one, rows, starts) -> float:
    """The largest of dq, dk and dv over the largest of each. [rows]: q, k, v, do; [starts]: of queries and of keys, of got the same rows."""
    worst, largest = [0.0] * 3, [1e-3] * 3
    at, keys = starts
    for b in range(len(at) - 1):
        of_q, of_k = slice(at[b], at[b + 1]), slice(keys[b], keys[b + 1])
        want = exact_gradients(one, *(x[s] for x, s in zip(rows, (of_q, of_k, of_k, of_q))))
        for n, (w, s) in enumerate(zip(want, (of_q, of_k, of_k))):
            if w.numel():
                off = (got[n][s].double() - w).abs().max().item()
                worst[n], largest[n] = max(worst[n], off if off == off else float("inf")), max(largest[n], w.abs().max().item())
    return max(w / m for w, m in zip(worst, largest))


def by_heads(x):
    return x.transpose(0, 1)[None]


def by_rows(made: dict) -> list:
    return [made[name][0].transpose(0, 1) for name in NAMES]


def of_packed(f, q, k, v, do, **given):
    """A call of its backward kernels alone."""
    results = f.forward(by_heads(q), by_heads(k), by_heads(v), **given)
    return lambda: by_rows(f.backward(results, by_heads(do)))


def of_each(q, k, v, do, at: list, forward, backward):
    """A call for each sequence, [forward] before; gradients side by side, as packed ones are."""
    made = [torch.empty_like(x) for x in (q, k, v)]
    spans = [slice(a, b) for a, b in zip(at, at[1:]) if b > a]
    calls = [(forward(*(by_heads(x[s]) for x in (q, k, v))), by_heads(do[s]), {n: by_heads(x[s]) for n, x in zip(NAMES, made)}) for s in spans]

    def run():
        for call in calls:
            backward(*call)
        return made

    return run


def of_torch(forward, q, k, v, do):
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    o = forward(*leaves)
    return lambda: torch.autograd.grad(o, leaves, do, retain_graph=True)


def of_cudnn(q, k, v):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return leaves, torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True, enable_gqa=True)


def cudnn_back(call, do, out) -> None:
    leaves, o = call
    for to, x in zip(out.values(), torch.autograd.grad(o, leaves, do, retain_graph=True)):
        to.copy_(x)


def calls_of(case, own, q, k, v, do, starts, varlen) -> dict:
    at, packed, dense = starts.tolist(), own.function("causal", "packed"), own.function("causal")
    return {
        "aule": lambda: of_packed(packed, q, k, v, do, S_starts=starts, T_starts=starts),
        "aule, a call each": lambda: of_each(q, k, v, do, at, dense.forward, lambda r, d, out: dense.backward(r, d, out=out)),
        "FA2 varlen": lambda: of_torch(lambda a, b, c: varlen(a, b, c, starts, case.lengths)(), q, k, v, do),
        "cuDNN, a call each": lambda: of_each(q, k, v, do, at, of_cudnn, cudnn_back),
    }


def recorded(name: str, prepare, stream):
    """(one run's gradients, the graph of runs). Autograd runs backward on forward's stream, which must be the graph's; what cannot be recorded is
    timed as it is, and said."""
    with torch.cuda.stream(stream):
        run = prepare()
        for _ in range(2):
            made = run()
    torch.cuda.synchronize()
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            run()
    except RuntimeError as error:
        note(f"{name}: not as a graph: {str(error).splitlines()[0]}")
        torch.cuda.synchronize()
        return run, made, SimpleNamespace(replay=run)
    return run, made, graph


def row(case, own, a, width: int, one, varlen) -> dict:
    """Times of backward alone; 2.5 times the work of forward."""
    torch.manual_seed(1)
    total, dtype = sum(case.lengths), TYPES[a.dtype]
    q, k, v, do = (torch.randn(total, h, width, device=a.device).to(dtype) for h in (case.H, case.Hk, case.Hk, case.H))
    starts = torch.tensor([0, *case.lengths]).cumsum(0).to(a.device, torch.int32)
    errors, graphs, kept, stream = {}, {}, [], torch.cuda.Stream()
    for name, prepare in calls_of(case, own, q, k, v, do, starts, varlen).items():

        def made():
            run, got, graph = recorded(f"{name}, {case.name}", prepare, stream)
            kept.append(run)  # and with it the tensors that the graph reads
            return error(got, one, (q, k, v, do), (starts.tolist(),) * 2), graph

        if got := usable(f"{name}, {case.name}", made):
            errors[name], graphs[name] = got
    work = 2.5 * sum(4 * width * case.H * n * (n + 1) / 2 for n in case.lengths)
    return {name: (s * 1e6, work / s * 1e-12, errors[name]) for name, s in graph_seconds(graphs, 1, a.rounds).items()}


def same_as_alone(dense, rows, starts, got, params) -> tuple:
    """Of sequences with dk and dv: to the bit what a dense call of them makes; how many there are. dq is summed in no order."""
    at, keys = starts
    same = count = 0
    for b in range(len(at) - 1):
        of_q, of_k = slice(at[b], at[b + 1]), slice(keys[b], keys[b + 1])
        if at[b + 1] > at[b] and keys[b + 1] > keys[b]:
            alone = of_packed(dense, *(x[s] for x, s in zip(rows, (of_q, of_k, of_k, of_q))), **params)()
            same += all(torch.equal(got[n][of_k], alone[n]) for n in (1, 2))
            count += 1
    return same, count


def sequences(starts: list, total: int) -> list:
    """Rows of sequences as kernels keep them within the tensors, up to the first that begins before another's; of others nothing is said."""
    at = [min(max(n, 0), total) for n in starts]
    good = next((n for n, pair in enumerate(zip(at, at[1:])) if pair[0] > pair[1]), len(at) - 1)
    return [slice(begin, end) for begin, end in zip(at[:good], at[1 : good + 1])]


def wrong_starts(own, a, width: int) -> int:
    failed = 0
    for wrong in ([7, 3, -9, 2**31 - 1], [-(2**31), 100, 50, 10**6], [0, 0, 0, 0]):
        if a.device == "cpu":
            break  # where they are refused
        starts = torch.tensor(wrong, dtype=torch.int32, device=a.device)
        q, k, v, do = (torch.randn(200, h, width, device=a.device).to(TYPES[a.dtype]) for h in (4, 2, 2, 4))
        made = of_packed(own.function("causal", "packed"), q, k, v, do, S_starts=starts, T_starts=starts.flip(0))()
        of_q, of_k = sequences(wrong, 200), sequences(wrong[::-1], 200)
        if not all(torch.isfinite(x[rows]).all() for x, all_rows in zip(made, (of_q, of_k, of_k)) for rows in all_rows):
            note(f"starts {wrong}: gradients that are not finite")
            failed += 1
    return failed


def check_padded(f, one, rows, starts, params) -> float:
    """Each sequence with a room of NaN behind its keys, whose gradients must be 0."""
    at, keys = starts
    worst = 0.0
    for b in range(len(at) - 1):
        of_q, of_k = slice(at[b], at[b + 1]), slice(keys[b], keys[b + 1])
        q, k, v, do = (x[s] for x, s in zip(rows, (of_q, of_k, of_k, of_q)))
        if not len(q) or not len(k):
            continue
        room = [torch.cat([x, torch.full_like(x, float("nan"))]) for x in (k, v)]
        made = of_packed(f, q, *room, do, T_lengths=torch.tensor([len(k)], dtype=torch.int32, device=q.device), **params)()
        off = error([made[0], made[1][: len(k)], made[2][: len(k)]], one, (q, k, v, do), ([0, len(q)], [0, len(k)]))
        worst = max(worst, off if not made[1][len(k) :].any() and not made[2][len(k) :].any() else float("inf"))
    return worst


def check(own, a, width: int, batches, formula) -> int:
    failed = same = count = 0
    worst = 0.0
    for script in ("full", "causal", "window"):
        params = {"window": 37} if script == "window" else {}
        packed, padded, dense = own.function(script, "packed"), own.function(script, "padded"), own.function(script)
        for n, batch in enumerate(batches()):
            for H, Hk in ((32, 8), (7, 1), (3, 3)):
                torch.manual_seed(n)
                at, keys = ([0, *torch.tensor([p[m] for p in batch]).cumsum(0).tolist()] for m in (0, 1))
                ends, heads = (at[-1], keys[-1], keys[-1], at[-1]), (H, Hk, Hk, H)
                rows = [torch.randn(end + 5, h, width, device=a.device).to(TYPES[a.dtype]) for end, h in zip(ends, heads)]
                for x, end in zip(rows, ends):
                    x[end:] = float("nan")
                lists = {name: torch.tensor(x, dtype=torch.int32, device=a.device) for name, x in (("S_starts", at), ("T_starts", keys))}
                got = of_packed(packed, *rows, **lists, **params)()

                def one(q, k, v):
                    return formula(q, k, v, script, 37)

                off = error(got, one, rows, (at, keys))
                if any(x[end:].any() for x, end in zip(got, ends)):
                    off = float("inf")
                if n == 0:
                    off = max(off, check_padded(padded, one, rows, (at, keys), params))
                for_all = same_as_alone(dense, rows, (at, keys), got, params)
                same, count, worst = same + for_all[0], count + for_all[1], max(worst, off)
                if not off <= MOST_ERROR:
                    note(f"gradients, {script}, batch {n}, {H}/{Hk} heads: error {off:.1e}")
                    failed += 1
    failed += wrong_starts(own, a, width)
    print(f"gradients of packed rows, {a.dtype}: largest error {worst:.1e} of the largest, against float64; dk and dv of {same} of {count} sequences "
          f"are to the bit what a dense call makes; {failed} failed")
    return failed
