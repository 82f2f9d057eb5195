"""The demo's two language models: both compute rows of any sequences, whose attention they leave to a function, and whole sequences without a cache."""

from __future__ import annotations

import re
from pathlib import Path

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parent.parent.parent


def each_alone(model: torch.nn.Module) -> None:
    """What has no parts is computed for a row at a time, so that a row's bits do not depend on how many there are: torch chooses products by their sizes,
    and vectors of elements end elsewhere. What is left, sums and products of elements, is rounded in one way."""

    def rows(one: torch.nn.Module) -> None:
        forward = one.forward

        def alone(*given, **named):
            """Of tensors [1, rows, ..]. Copies, which begin where any tensor of their own does."""
            count = next(x for x in (*given, *named.values()) if isinstance(x, torch.Tensor)).shape[1]
            at = lambda x, n: x[:, n : n + 1].clone() if isinstance(x, torch.Tensor) else x  # noqa: E731
            if not count:
                return forward(*given, **named)
            made = [forward(*(at(x, n) for x in given), **{name: at(x, n) for name, x in named.items()}) for n in range(count)]
            return tuple(torch.cat(x, 1) for x in zip(*made)) if isinstance(made[0], tuple) else torch.cat(made, 1)

        one.forward = alone

    for one in model.modules():
        if not list(one.children()) and not isinstance(one, torch.nn.Embedding):
            rows(one)


class Llama:
    """A Llama of transformers with random weights and grouped heads."""

    script = ROOT / "attn_scripts/gqa.attn"
    tree = ROOT / "attn_scripts/tree.attn"  # the same over a tree of guesses

    def __init__(
        self, vocabulary: int = 128, size: int = 64, heads: int = 4, kv_heads: int = 2, layers: int = 2, *, dtype=torch.float32, device="cpu", alone: bool = False,
    ) -> None:
        """[alone]: a row's bits do not depend on how many there are (:func:`each_alone`)."""
        import transformers

        self.layers, self.kv_heads, self.width, self.vocabulary = layers, kv_heads, size // heads, vocabulary
        self.dtype, self.device = dtype, device
        transformers.AttentionInterface.register("serve", _attend)
        transformers.AttentionMaskInterface.register("serve", lambda *_, **__: None)
        sizes = dict(
            vocab_size=vocabulary, hidden_size=size, intermediate_size=2 * size, num_hidden_layers=layers, num_attention_heads=heads,
            num_key_value_heads=kv_heads, initializer_range=0.2,
        )
        torch.manual_seed(0)
        made = [transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**sizes), attn_implementation=name) for name in ("sdpa", "serve")]
        self._plain, self._rows = (one.eval().to(device, dtype) for one in made)
        self._rows.load_state_dict(self._plain.state_dict())
        if alone:
            each_alone(self._plain)
            each_alone(self._rows)

    @torch.no_grad()
    def logits(self, tokens, positions, attend, wanted, depths=None):
        """[wanted, vocabulary], of rows one after the other. Positions tell where a guess is, so that nothing else has to (``depths``)."""
        return self._rows(tokens[None], position_ids=positions[None], use_cache=False, logits_to_keep=wanted, attend=attend).logits[0]

    @torch.no_grad()
    def plain(self, tokens):
        """[vocabulary], of the last token: the whole sequence without a cache, by torch's attention."""
        return self._plain(torch.tensor([tokens], device=self.device), use_cache=False, logits_to_keep=1).logits[0, -1]


def _attend(module, query, key, value, mask, *, attend, **_):
    """An attention of transformers, which is [B, H, S, D] in and [B, S, H, D] out."""
    return attend(module.layer_idx, query, key, value).transpose(1, 2), None


class Tutorial:
    """The model of docs/tutorial.md, whose attention is a script, trained for a little while on a page of this project."""

    dtype = torch.float32

    def __init__(self, steps: int = 150, *, device="cpu", alone: bool = False) -> None:
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/tutorial.md").read_text(), re.S | re.M)
        names = {"torch": torch, "F": F}
        for begin in ("SCRIPT =", "import torch\n", "from torch import nn\n"):  # the script, its formula, the model
            exec(next(block for block in blocks if block.startswith(begin)), names)
        text = (ROOT / "docs/language.md").read_text()
        self._alphabet = sorted(set(text))
        self.script, self.vocabulary = names["SCRIPT"], len(self._alphabet)
        self.tree = _over_a_tree(self.script)
        self._attention = self._formula = names["formula"]
        torch.manual_seed(0)
        self._model = names["Model"](lambda *q, **inputs: self._attention(*q, **inputs), self.vocabulary)
        self.layers, self.kv_heads = len(self._model.blocks), self._model.blocks[0].heads
        self.width = self._model.blocks[0].out.in_features // self.kv_heads
        self._train(torch.tensor(self.encode(text)), steps)
        self.device = device
        self._model.to(device)
        if alone:
            each_alone(self._model)

    def encode(self, text: str) -> list[int]:
        """Characters that the model knows, as numbers."""
        return [self._alphabet.index(c) for c in text if c in self._alphabet]

    def _train(self, data, steps: int, length: int = 128, batch: int = 8) -> None:
        optimizer = torch.optim.AdamW(self._model.parameters(), lr=3e-3)
        for _ in range(steps):
            first = torch.randint(0, len(data) - length - 1, (batch,))
            rows = data[first[:, None] + torch.arange(length + 1)]
            loss = F.cross_entropy(self._model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    @torch.no_grad()
    def logits(self, tokens, positions, attend, wanted, depths=None):
        layers, more = iter(range(self.layers)), {} if depths is None else {"depth": depths[None]}
        self._attention = lambda q, k, v, **inputs: attend(next(layers), q, k, v, **inputs, **more)
        try:
            return self._model(tokens[None])[0, wanted]
        finally:
            self._attention = self._formula

    @torch.no_grad()
    def plain(self, tokens):
        with torch.device(self.device):  # where the formula makes its positions
            return self._model(torch.tensor([tokens]))[0, -1]


def _over_a_tree(script: str) -> str:
    """The script where the last S rows are a tree (attn_scripts/tree.attn). Two guesses that follow one token have the same position, so that the distance
    of a key goes by how deep in the tree both are."""
    made = script
    for old, new in (
        ("input t:", "input ancestor: bool[B, S, S];\n    input depth: i32[B, S];\n    input t:"),
        ("log1p(q_pos - j)", "log1p(where(j < T - S, T - S + depth[b, i] - j, depth[b, i] - depth[b, j - (T - S)]))"),
        ("= j <= q_pos;", "= j < T - S || ancestor[b, i, j - (T - S)];"),
    ):
        if made.count(old) != 1:
            raise ValueError(f"the tutorial's script is another than it was: it has {made.count(old)} times {old!r}")
        made = made.replace(old, new)
    return made
