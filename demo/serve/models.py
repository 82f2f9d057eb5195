"""The demo's two language models: both compute rows of any sequences, whose attention they leave to a function, and whole sequences without a cache."""

from __future__ import annotations

import re
from pathlib import Path

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parent.parent.parent


class Llama:
    """A Llama of transformers with random weights and grouped heads."""

    script = ROOT / "attn_scripts/gqa.attn"

    def __init__(self, vocabulary: int = 128, size: int = 64, heads: int = 4, kv_heads: int = 2, layers: int = 2) -> None:
        import transformers

        self.layers, self.kv_heads, self.width, self.vocabulary = layers, kv_heads, size // heads, vocabulary
        transformers.AttentionInterface.register("serve", _attend)
        transformers.AttentionMaskInterface.register("serve", lambda *_, **__: None)
        sizes = dict(
            vocab_size=vocabulary, hidden_size=size, intermediate_size=2 * size, num_hidden_layers=layers, num_attention_heads=heads,
            num_key_value_heads=kv_heads, initializer_range=0.2,
        )
        torch.manual_seed(0)
        made = [transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**sizes), attn_implementation=name) for name in ("sdpa", "serve")]
        self._plain, self._rows = (one.eval() for one in made)
        self._rows.load_state_dict(self._plain.state_dict())

    @torch.no_grad()
    def logits(self, tokens, positions, attend, wanted):
        """[wanted, vocabulary], of rows one after the other."""
        at = torch.tensor(wanted, dtype=torch.long)
        return self._rows(tokens[None], position_ids=positions[None], use_cache=False, logits_to_keep=at, attend=attend).logits[0]

    @torch.no_grad()
    def plain(self, tokens):
        """[vocabulary], of the last token: the whole sequence without a cache, by torch's attention."""
        return self._plain(torch.tensor([tokens]), use_cache=False, logits_to_keep=1).logits[0, -1]


def _attend(module, query, key, value, mask, *, attend, **_):
    """An attention of transformers, which is [B, H, S, D] in and [B, S, H, D] out."""
    return attend(module.layer_idx, query, key, value).transpose(1, 2), None


class Tutorial:
    """The model of docs/tutorial.md, whose attention is a script, trained for a little while on a page of this project."""

    def __init__(self, steps: int = 60) -> None:
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/tutorial.md").read_text(), re.S | re.M)
        names = {"torch": torch, "F": F}
        for begin in ("SCRIPT =", "import torch\n", "from torch import nn\n"):  # the script, its formula, the model
            exec(next(block for block in blocks if block.startswith(begin)), names)
        text = (ROOT / "docs/language.md").read_text()
        self._alphabet = sorted(set(text))
        self.script, self.vocabulary = names["SCRIPT"], len(self._alphabet)
        self._attention = self._formula = names["formula"]
        torch.manual_seed(0)
        self._model = names["Model"](lambda *q, **inputs: self._attention(*q, **inputs), self.vocabulary)
        self.layers, self.kv_heads = len(self._model.blocks), self._model.blocks[0].heads
        self.width = self._model.blocks[0].out.in_features // self.kv_heads
        self._train(torch.tensor(self.encode(text)), steps)

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
    def logits(self, tokens, positions, attend, wanted):
        layers = iter(range(self.layers))
        self._attention = lambda q, k, v, **inputs: attend(next(layers), q, k, v, **inputs)
        try:
            return self._model(tokens[None])[0, wanted]
        finally:
            self._attention = self._formula

    @torch.no_grad()
    def plain(self, tokens):
        return self._model(torch.tensor([tokens]))[0, -1]
