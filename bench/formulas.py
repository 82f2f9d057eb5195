"""What each script means, once more, in PyTorch: what FlexAttention is given, and what errors are measured against.

A formula's functions take (s,) b, h, i, j as numbers, as index tensors that broadcast, or as FlexAttention's scalars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional

import torch


@dataclass(frozen=True)
class Formula:
    score: Optional[Callable]  # (inputs) -> f(s, b, h, i, j); s is already scaled
    mask: Optional[Callable]  # (inputs) -> f(b, h, i, j)
    inputs: Callable  # (case, device) -> tensors and numbers that the script takes
    normalised: bool = True


def slopes(heads: int, device: str) -> torch.Tensor:
    return 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=device) / heads)


def _documents(case, device: str) -> dict:
    return {"document": (torch.arange(case.S, device=device, dtype=torch.int32) // case.params["length"]).expand(case.B, -1).contiguous()}


def _causal(_):
    return lambda b, h, i, j: j <= i


def _params(case, device: str) -> dict:
    return dict(case.params)


FORMULAS = {
    "full": Formula(None, None, _params),
    "causal": Formula(None, _causal, _params),
    "softcap": Formula(lambda x: lambda s, b, h, i, j: 50.0 * torch.tanh(s / 50.0), _causal, _params),
    "alibi": Formula(lambda x: lambda s, b, h, i, j: s - x["slope"][h] * (i - j), _causal, lambda case, device: {"slope": slopes(case.H, device)}),
    "relative": Formula(lambda x: lambda s, b, h, i, j: s + (i - j) / 1024.0, None, _params),
    "window": Formula(None, lambda x: lambda b, h, i, j: (j <= i) & (i - j < x["window"]), _params),
    "documents": Formula(None, lambda x: lambda b, h, i, j: (j <= i) & (x["document"][b, i] == x["document"][b, j]), _documents),
    "prefix": Formula(None, lambda x: lambda b, h, i, j: (j <= i) | (j < x["prefix"]), _params),
    "sigmoid": Formula(lambda x: lambda s, b, h, i, j: torch.sigmoid(s - x["log_length"]), None, _params, normalised=False),
}


def exact(case, q, k, v, do) -> dict[str, torch.Tensor]:
    """In float64, of the last key head of the last batch and its query heads: o, and if [do] is given dq, dk, dv. Rows of queries in
    chunks, so that memory stays bounded."""
    formula, group, b = FORMULAS[case.script], case.H // case.Hk, case.B - 1
    inputs = dict(formula.inputs(case, q.device), log_length=torch.log(torch.tensor(float(case.S), dtype=torch.float64)).item())
    K, V = (x[b, -1].detach().double().requires_grad_(do is not None) for x in (k, v))
    j = torch.arange(case.keys, device=q.device)[None, :]
    step = max(1, min(case.S, 2**25 // case.keys))
    o, dq = [], []
    for h in range(case.H - group, case.H):
        for low in range(0, case.S, step):
            i = torch.arange(low, min(low + step, case.S), device=q.device)[:, None]
            Q = q[b, h, i[:, 0]].detach().double().requires_grad_(do is not None)
            s = Q @ K.T * case.D**-0.5
            if formula.score:
                s = formula.score(inputs)(s, b, h, i, j)
            if formula.mask:
                s = torch.where(formula.mask(inputs)(b, h, i, j), s, -torch.inf)
            out = (torch.softmax(s, -1) if formula.normalised else s) @ V
            o.append(out.detach())
            if do is not None:
                out.backward(do[b, h, i[:, 0]].double())
                dq.append(Q.grad)
    head = {"o": torch.cat(o).view(group, case.S, case.E)}
    if do is not None:
        head |= {"dq": torch.cat(dq).view(group, case.S, case.D), "dk": K.grad[None], "dv": V.grad[None]}
    return head


def largest_error(got: torch.Tensor, want: torch.Tensor) -> float:
    """[want] holds the last heads of the last batch of [got]."""
    return float((got[-1, -want.shape[0] :].double() - want).abs().max())
