"""The benchmark's cases, data only: a script of bench/scripts, the formula of the same name in formulas.py, and a shape."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    script: str  # bench/scripts/NAME.attn, and the formula of that name
    B: int
    H: int
    Hk: int
    S: int
    D: int
    E: int
    params: dict = field(default_factory=dict, hash=False)  # parameters of the script; of documents: `length`
    T: int = 0  # keys, where they are not as many as queries: of `full` only

    @property
    def keys(self) -> int:
        return self.T or self.S

    @property
    def name(self) -> str:
        return " ".join([self.script] + [f"{key} {value}" for key, value in self.params.items()])

    @property
    def shape(self) -> str:
        heads = f"{self.H}" if self.H == self.Hk else f"{self.H}/{self.Hk}"
        return f"{self.B}, {heads}, {self.S}{f'/{self.T}' if self.T else ''}, " + (f"{self.D}" if self.D == self.E else f"{self.D}/{self.E}")

    def pairs(self) -> float:
        """Pairs of a query and a key that take part, of one head."""
        causal = self.S * (self.S + 1) / 2
        if self.script in ("full", "sigmoid", "relative"):
            return float(self.S * self.keys)
        if self.script == "window":
            w = min(self.params["window"], self.S)
            return w * (w + 1) / 2 + (self.S - w) * w
        if self.script == "prefix":
            p = min(self.params["prefix"], self.S)
            return causal + p * (p - 1) / 2
        if self.script == "documents":
            length = self.params["length"]
            return sum(n * (n + 1) / 2 for n in [length] * (self.S // length) + [self.S % length])
        return causal

    def flops(self, backward: bool) -> float:
        """2 (D + E) a pair forward; backward 2.5 times that, as the field counts."""
        return (2.5 if backward else 1.0) * 2.0 * self.B * self.H * (self.D + self.E) * self.pairs()


def _square(script: str, B: int, H: int, S: int, D: int, **params) -> Case:
    return Case(script, B, H, H, S, D, D, params)


def _cpu() -> list[Case]:
    cases = [_square(script, 1, 8, S, D) for S, D in ((512, 64), (2048, 64), (2048, 128), (8192, 128)) for script in ("full", "causal")]
    cases += [_square(script, 1, 8, S, 64) for S in (512, 2048) for script in ("softcap", "alibi")]
    cases += [_square("window", 1, 8, 2048, 64, window=256), _square("sigmoid", 1, 8, 2048, 64)]
    return cases + [Case("causal", 1, 8, 2, 2048, 128, 128)]


def _cuda() -> list[Case]:
    shapes = ((8, 32, 2048, 64), (1, 32, 16384, 64), (8, 16, 2048, 128), (1, 16, 16384, 128), (8, 8, 2048, 256), (1, 8, 16384, 256))
    cases = [_square(script, *shape) for shape in shapes for script in ("full", "causal")]
    cases += [Case("causal", 1, 32, 8, 8192, 128, 128), Case("causal", 1, 16, 16, 8192, 192, 128)]
    cases += [Case("full", B, 32, 32, S, 128, 128, T=8192) for B in (1, 16) for S in (1, 16, 32)]  # few queries
    modified = (("alibi", {}), ("relative", {}), ("softcap", {}), ("window", {"window": 1024}), ("documents", {"length": 2048}),
                ("prefix", {"prefix": 2048}), ("sigmoid", {}))
    return cases + [_square(script, 1, 16, 16384, 128, **params) for script, params in modified]


SETS = {"cpu": _cpu(), "cuda": _cuda()}
