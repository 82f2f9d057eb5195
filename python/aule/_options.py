"""Scripts for the options of :func:`aule.attention`: the same options always give the same text.

A script reads like one that is written by hand; :func:`aule.attention_script` shows it. Its inputs and parameters are called like the
options, so that what is said of them is said of the options.
"""

from __future__ import annotations

from dataclasses import dataclass

AXES = ("B", "H", "S", "T")  # of scores
INDICES = dict(zip(AXES, ("b", "h", "i", "j")))


@dataclass(frozen=True)
class Tensor:
    """An input of the script: its element type ("f32", "bool"), its axes ("B", "H", "S", "T" or "1"), whether it has a gradient."""

    dtype: str
    axes: tuple[str, ...]
    gradient: bool

    def declaration(self, name: str) -> str:
        return f"    input {name}: {self.dtype}[{', '.join(self.axes)}]{' grad' if self.gradient else ''};\n"

    def read(self, name: str) -> str:
        return f"{name}[{', '.join(INDICES.get(axis, '0') for axis in self.axes)}]"


@dataclass(frozen=True)
class Options:
    """What decides a script. Numbers are parameters of it, not a part of its text."""

    causal: bool = False
    left: bool = False  # a window's bound in the past
    right: bool = False  # and in the future
    softcap: bool = False
    dropout: bool = False
    alibi: Tensor | None = None
    sinks: Tensor | None = None
    bias: Tensor | None = None
    alike: bool = False  # values have the keys' heads


def _inputs(o: Options) -> str:
    named = (("alibi", o.alibi), ("sinks", o.sinks), ("bias", o.bias))
    return "".join(tensor.declaration(name) for name, tensor in named if tensor is not None)


def _params(o: Options) -> str:
    lines = ["scale: f32 = rsqrt(f32(D))"]
    lines += ["softcap: f32"] * o.softcap + ["left: i32"] * o.left + ["right: i32"] * o.right
    lines += ["rate: f32", "seed: i64"] * o.dropout
    return "".join(f"    param {line};\n" for line in lines)


def _score(o: Options) -> str:
    score = "softcap * tanh(score * scale / softcap)" if o.softcap else "score * scale"
    if o.alibi is not None:
        score += f" - {o.alibi.read('alibi')} * abs(q_pos - j)"
    if o.bias is not None and o.bias.dtype != "bool":
        score += f" + {o.bias.read('bias')}"
    return f"    score_mod(score, b, h, i, j) = {score};\n"


def _mask(o: Options) -> str:
    conditions = ["j <= q_pos"] * o.causal + ["q_pos - j <= left"] * o.left + ["j - q_pos <= right"] * o.right
    if o.bias is not None and o.bias.dtype == "bool":
        conditions.append(o.bias.read("bias"))
    return f"    mask(b, h, i, j) = {' && '.join(conditions)};\n" if conditions else ""


def script(o: Options) -> str:
    """The text of the script."""
    online = "softmax" if o.sinks is None else f"softmax_sink({o.sinks.read('sinks')})"
    return (
        "attention aule_attention {\n"
        "    q: [B, H, S, D];\n"
        "    k: [B, Hk, T, D];\n"
        + f"    v: [B, {'Hk' if o.alike else 'Hv'}, T, E];\n"
        + _inputs(o) + _params(o) + "\n" + _score(o) + _mask(o)
        + ("    weight_mod(p) = dropout(p, rate, seed);\n" if o.dropout else "")
        + f"    online {online};\n"
        "}\n"
    )
