"""The benchmark's cases: data only.

A case is a script of attn_scripts/ or of this folder, the name of the formula that peers implement, the shape, and how many pairs of
a query and a key take part.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    name: str
    script: str  # file in bench/scripts
    formula: str  # what peers are asked for: full, causal, softcap, alibi, window, sigmoid
    B: int
    H: int
    Hk: int
    S: int
    D: int
    params: dict = field(default_factory=dict)

    def pairs(self) -> float:
        """Pairs of a query and a key that take part, of one head."""
        if self.formula in ("full", "sigmoid"):
            return self.S * self.S
        if self.formula == "window":
            w = self.params["window"]
            return sum(min(i + 1, w) for i in range(self.S))
        return self.S * (self.S + 1) / 2

    def flops(self) -> float:
        return 4.0 * self.B * self.H * self.D * self.pairs()


def _grid() -> list[Case]:
    cases = []
    for S, D in ((512, 64), (2048, 64), (2048, 128), (8192, 128)):
        for formula in ("full", "causal"):
            cases.append(Case(f"SDPA {formula}", f"{formula}.attn", formula, 1, 8, 8, S, D))
    for S in (512, 2048):
        cases.append(Case("soft cap, causal", "softcap.attn", "softcap", 1, 8, 8, S, 64))
        cases.append(Case("ALiBi, causal", "alibi.attn", "alibi", 1, 8, 8, S, 64))
    cases.append(Case("window of 256", "window.attn", "window", 1, 8, 8, 2048, 64, {"window": 256}))
    cases.append(Case("sigmoid", "sigmoid.attn", "sigmoid", 1, 8, 8, 2048, 64))
    cases.append(Case("grouped heads, causal", "causal.attn", "causal", 1, 8, 2, 2048, 128))
    return cases


CASES = _grid()
