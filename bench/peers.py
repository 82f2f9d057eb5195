"""Who is measured. A peer's `call(case, q, k, v)` gives a function without arguments that computes o, differentiable if q, k, v ask for
gradients; None where it does not have the feature; it may raise where it cannot be used here."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Optional

import torch
from formulas import FORMULAS
from serving_peers import Fa3, FlashInfer, FlashMla, Xqa

SCRIPTS = Path(__file__).parent / "scripts"
Call = Callable[[], torch.Tensor]


class Aule:
    """This project: scripts compiled in the process, or artifacts of `bench.py --compile`."""

    def __init__(self, device: str = "", artifacts: Optional[Path] = None, label: str = "aule") -> None:
        import aule

        self.aule, self.device, self.artifacts, self.name = aule, device, artifacts, label
        self.functions: dict = {}

    def function(self, script: str):
        if script not in self.functions:
            artifact = self.artifacts / f"{script}.so" if self.artifacts else None
            self.functions[script] = self.aule.load(artifact) if artifact else self.aule.compile(SCRIPTS / f"{script}.attn")
        return self.functions[script]

    def call(self, case, q, k, v) -> Optional[Call]:
        f, inputs = self.function(case.script), FORMULAS[case.script].inputs(case, str(q.device))
        device = {"device": self.device} if self.device else {}
        return lambda: f(q, k, v, **device, **inputs)


class Sdpa:
    """torch.nn.functional.scaled_dot_product_attention, with the backend that is named, or the one it chooses."""

    def __init__(self, name: str, backend: str = "") -> None:
        self.name, self.backend = name, backend

    def call(self, case, q, k, v) -> Optional[Call]:
        if case.script not in ("full", "causal"):
            return None
        causal, grouped = case.script == "causal", case.H != case.Hk

        def run() -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

        if not self.backend:
            return run
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def chosen() -> torch.Tensor:
            with sdpa_kernel(getattr(SDPBackend, self.backend)):
                return run()

        return chosen


class Flash4:
    """FlashAttention-4's package, where it can be imported; its layout is [B, S, H, D]."""

    name = "FA4"
    deterministic = False  # sums of dQ in one order

    def __init__(self) -> None:
        from flash_attn.cute import flash_attn_func

        self.attention = flash_attn_func

    def call(self, case, q, k, v) -> Optional[Call]:
        options = {"full": {}, "causal": {"causal": True}, "softcap": {"causal": True, "softcap": 50.0},
                   "window": {"causal": True, "window_size": (case.params.get("window", 1) - 1, 0)}}.get(case.script)
        if options is None:
            return None
        if self.deterministic:
            options = {**options, "deterministic": True}

        def run() -> torch.Tensor:
            o = self.attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **options)
            return (o[0] if isinstance(o, tuple) else o).transpose(1, 2)

        return run


class Flex:
    """torch.nn.attention.flex_attention under torch.compile."""

    name = "FlexAttention"

    def __init__(self) -> None:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        torch._dynamo.config.cache_size_limit = 1000  # beyond the limit it would run uncompiled
        self.create_block_mask = create_block_mask
        self.flex = torch.compile(flex_attention, dynamic=False)

    def call(self, case, q, k, v) -> Optional[Call]:
        formula = FORMULAS[case.script]
        if not formula.normalised or (q.device.type == "cpu" and case.H != case.Hk):
            return None
        inputs = formula.inputs(case, str(q.device))
        score = formula.score(inputs) if formula.score else None
        mask = None
        if formula.mask:
            by_batch = case.B if case.script == "documents" else None
            mask = self.create_block_mask(formula.mask(inputs), by_batch, None, case.S, case.keys, device=q.device.type)
        return lambda: self.flex(q, k, v, score_mod=score, block_mask=mask, enable_gqa=case.H != case.Hk)


class Missing:
    """A peer that cannot be used here: its column says so."""

    def __init__(self, name: str) -> None:
        self.name = name

    def call(self, case, q, k, v) -> Optional[Call]:
        return None


PEERS = {
    "sdpa": lambda: Sdpa("SDPA"),
    "cudnn": lambda: Sdpa("cuDNN", "CUDNN_ATTENTION"),
    "fa2": lambda: Sdpa("FA2", "FLASH_ATTENTION"),
    "fa4": Flash4,
    "flex": Flex,
    "fa3": Fa3,
    "flashmla": FlashMla,
    "flashinfer": FlashInfer,
    "flashinfer-fa3": lambda: FlashInfer("fa3"),
    "xqa": Xqa,
}
