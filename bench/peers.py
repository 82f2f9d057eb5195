"""Who is measured: each peer makes a function without arguments for a case, or None where it does not have the feature."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Optional

import torch

SCRIPTS = Path(__file__).parent / "scripts"
Call = Callable[[], torch.Tensor]


def slopes(heads: int) -> torch.Tensor:
    return 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)


class Aule:
    """This project, on one of its devices."""

    def __init__(self, device: str = "cpu") -> None:
        import aule

        self.aule, self.device = aule, device
        self.name = "aule" if device == "cpu" else f"aule {device}"
        self.functions = {}

    def call(self, case, q, k, v) -> Optional[Call]:
        f = self.functions.setdefault(case.script, self.aule.compile(SCRIPTS / case.script))
        inputs = dict(case.params)
        if case.formula == "alibi":
            inputs["slope"] = slopes(case.H)
        return lambda: f(q, k, v, device=self.device, **inputs)


class Sdpa:
    """torch.nn.functional.scaled_dot_product_attention."""

    name = "SDPA"

    def call(self, case, q, k, v) -> Optional[Call]:
        if case.formula not in ("full", "causal"):
            return None
        causal, grouped = case.formula == "causal", case.H != case.Hk
        return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)


class Flex:
    """torch.nn.attention.flex_attention under torch.compile."""

    name = "FlexAttention"

    def __init__(self) -> None:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        torch._dynamo.config.cache_size_limit = 1000  # beyond the limit it would run uncompiled
        self.create_block_mask = create_block_mask
        self.flex = torch.compile(flex_attention, dynamic=False)

    def call(self, case, q, k, v) -> Optional[Call]:
        if case.formula == "sigmoid" or case.H != case.Hk:
            return None
        slope = slopes(case.H)
        mods = {
            "softcap": lambda s, b, h, i, j: 50.0 * torch.tanh(s / 50.0),
            "alibi": lambda s, b, h, i, j: s - slope[h] * (i - j),
        }
        window = case.params.get("window", case.S)
        mask = None
        if case.formula != "full":
            mask = self.create_block_mask(lambda b, h, i, j: (j <= i) & (i - j < window), None, None, case.S, case.S, device="cpu")
        return lambda: self.flex(q, k, v, score_mod=mods.get(case.formula), block_mask=mask)


def exact(case, q, k, v) -> torch.Tensor:
    """The formula in float64, one head at a time, the last 128 rows of queries (they see every key): what errors are measured against."""
    rows = slice(max(case.S - 128, 0), case.S)
    i, j = torch.arange(case.S)[rows, None].double(), torch.arange(case.S)[None, :].double()
    out = []
    for h in range(case.H):
        K, V = k[0, h * case.Hk // case.H].double(), v[0, h * case.Hk // case.H].double()
        s = q[0, h, rows].double() @ K.T / case.D**0.5
        if case.formula == "softcap":
            s = 50.0 * torch.tanh(s / 50.0)
        if case.formula == "alibi":
            s = s - slopes(case.H)[h].double() * (i - j)
        if case.formula == "sigmoid":
            out.append(torch.sigmoid(s - torch.log(torch.tensor(float(case.S)).double())) @ V)
            continue
        if case.formula != "full":
            s = torch.where((j <= i) & (i - j < case.params.get("window", case.S)), s, -torch.inf)
        out.append(torch.softmax(s, -1) @ V)
    return torch.stack(out)[None]


PEERS = {"aule": lambda: Aule("cpu"), "sdpa": Sdpa, "flex": Flex}
