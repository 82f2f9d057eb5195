"""A small server: requests arrive and leave, all rows of a step are one call of a model over a cache in pages (docs/serving.md)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import aule
from aule.serving import Cache, OutOfPages


@dataclass
class Request:
    """A prompt that is to go on for some tokens. [tokens]: the prompt and what came of it; the cache has the first ones of them."""

    name: str
    tokens: list[int]
    most: int  # tokens, the prompt's among them
    samples: int = 1  # 2: a second one goes on from the second best first token
    row: int | None = None  # of the table of pages; None: it has no pages
    evicted: int = 0


class Server:
    """Continuous batching. What it did is counted in :attr:`counts`."""

    def __init__(self, model, pages: int, page_size: int, *, storage: str | None = None, chunk: int = 32, budget: int = 128, draft: int = 0) -> None:
        """
        Args:
            model: one of models.py.
            chunk: most rows of a prompt in one step.
            budget: most rows of a step.
            draft: most tokens that are guessed from what the text had before, and verified in one call.
        """
        self.model, self.chunk, self.budget, self.draft = model, chunk, budget, draft
        scales = (1.0, 1.0) if storage and ":token" not in storage else None
        self.cache = Cache(model.layers, pages, page_size, model.kv_heads, model.width, torch.float32, storage=storage, scales=scales)
        self.pages = self.cache.pages
        self.attention = aule.compile(model.script, storage=storage)
        self.lists = aule.serving.Step()  # lists of work, of all layers
        self.waiting: list[Request] = []
        self.running: list[Request] = []  # in the order in which they came
        self.done: dict[str, list[int]] = {}
        self.least_gap = float("inf")  # between the best token and the next one
        self.counts = dict.fromkeys(("steps", "rows", "tokens", "evicted", "copied pages", "guessed", "guessed right"), 0)

    def submit(self, request: Request) -> None:
        self.waiting.append(request)

    # ---- which rows a step has

    def step(self) -> bool:
        """One call of the model; False where there is nothing to do."""
        self._admit()
        work = self._plan()
        if not work:
            return False
        self.counts["steps"] += 1
        self.counts["rows"] += sum(len(rows) for _, rows, _ in work)
        wanted, end = [], 0
        for request, rows, guessed in work:
            end += len(rows)
            finished = self.pages.length(request.row) >= len(request.tokens)
            wanted += range(end - (len(guessed) + 1 if finished else 0), end)
        logits = self._run([request.row for request, _, _ in work], [rows for _, rows, _ in work], wanted)
        for request, rows, guessed in work:
            if self.pages.length(request.row) >= len(request.tokens):
                self._take(request, guessed, logits[: len(guessed) + 1])
                logits = logits[len(guessed) + 1 :]
        return True

    def _admit(self) -> None:
        """Requests that wait get a row of the table, as long as there are pages for the tokens that all have so far. For what comes of them there may be none."""
        size = self.pages.page_size
        left = self.pages.available - sum(-(-len(one.tokens) // size) - len(self.pages.pages_of(one.row)) for one in self.running)
        while self.waiting and len(self.running) < 64:
            left -= -(-len(self.waiting[0].tokens) // size)
            if left < 0 and self.running:
                return
            request = self.waiting.pop(0)
            request.row = self.pages.add()
            self.running.append(request)

    def _plan(self) -> list[tuple[Request, list[int], list[int]]]:
        """Of each request that goes on: the tokens whose rows are computed, the last of them guessed."""
        work: list[tuple[Request, list[int], list[int]]] = []
        left = self.budget
        for request in list(self.running):
            if request.row is None or not left:
                continue
            length = self.pages.length(request.row)
            rows = request.tokens[length : length + min(self.chunk, left)]
            guessed = self._guess(request)[: left - 1] if len(request.tokens) == length + 1 else []
            if self._room(request, len(rows + guessed), [one for one, _, _ in work]):
                work.append((request, rows + guessed, guessed))
                left -= len(rows + guessed)
        return work

    def _room(self, request: Request, n: int, kept: list[Request]) -> bool:
        """Pages for n more rows, if need be those of the youngest request that this step has not taken yet."""
        while True:
            try:
                copies = self.pages.extend(request.row, n)
                self.cache.copy(copies)
                self.counts["copied pages"] += len(copies)
                return True
            except OutOfPages:
                last = next(one for one in reversed(self.running) if one not in kept)
                self._evict(last)
                if last is request:
                    if not kept:
                        raise
                    return False

    def _evict(self, request: Request) -> None:
        """Takes a request's pages; its rows are computed again when there are others."""
        self.pages.free(request.row)
        request.row = None
        request.evicted += 1
        self.counts["evicted"] += 1
        self.running.remove(request)
        self.waiting.insert(0, request)

    def _guess(self, request: Request) -> list[int]:
        """What followed the last two tokens where they stood before, or the last one."""
        tokens = request.tokens
        most = min(self.draft, request.most - len(tokens) - 1)
        for size in (2, 1) if most > 0 else ():
            for n in range(len(tokens) - size - 1, -1, -1):
                if tokens[n : n + size] == tokens[-size:]:
                    return tokens[n + size : n + size + most]
        return []

    # ---- a call

    def _run(self, rows: list[int], tokens: list[list[int]], wanted: list[int]) -> torch.Tensor:
        """Logits [wanted] of the last rows of these sequences, whose pages are there and whose keys are not."""
        counts = [len(new) for new in tokens]
        slots, (table, lengths) = self.pages.slots(rows, counts), self.pages.of(rows)
        axes = {"T": aule.paged(table, lengths)}
        one_each = max(counts) == 1
        self.lists.begin()
        if not one_each:
            axes["S"] = aule.packed(torch.tensor([0, *counts]).cumsum(0).int())

        def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
            """[1, H, rows, D] in and out."""
            self.cache.append(layer, k[0].transpose(0, 1), v[0].transpose(0, 1), slots)
            q = q.transpose(0, 2) if one_each else q  # a row for each sequence: [B, H, 1, D]
            o = self.attention(q, **self.cache.named(layer), axes=axes, schedule=self.lists, **inputs)
            return o.transpose(0, 2) if one_each else o

        positions = [at for row, count in zip(rows, counts) for at in range(self.pages.length(row) - count, self.pages.length(row))]
        return self.model.logits(torch.tensor([token for new in tokens for token in new]), torch.tensor(positions), attend, wanted)

    def _take(self, request: Request, guessed: list[int], logits: torch.Tensor) -> None:
        """The tokens that follow, of the rows of the last token and of those that were guessed."""
        best = logits.topk(2)
        right = 0
        while right < len(guessed) and guessed[right] == best.indices[right, 0]:
            right += 1
        self.counts["guessed"] += len(guessed)
        self.counts["guessed right"] += right
        self.least_gap = min(self.least_gap, (best.values[: right + 1, 0] - best.values[: right + 1, 1]).min().item())
        if request.samples == 2:
            self._fork(request, int(best.indices[0, 1]))
        request.tokens = request.tokens + guessed[:right] + [int(best.indices[right, 0])]
        self.counts["tokens"] += right + 1
        self.pages.shorten(request.row, len(request.tokens) - 1)
        self._end(request)

    def _fork(self, request: Request, token: int) -> None:
        """A second sample, which has the pages of the first until one of them writes."""
        request.samples = 1
        second = Request(f"{request.name}, second", [*request.tokens, token], request.most, row=self.pages.fork(request.row))
        self.counts["tokens"] += 1
        self.running.append(second)
        self._end(second)

    def _end(self, request: Request) -> None:
        if len(request.tokens) >= request.most:
            self.pages.free(request.row)
            self.running.remove(request)
            self.done[request.name] = request.tokens

    def loss(self, tokens: list[int]) -> float:
        """Of a text, read in chunks over the cache as prompts are: the mean loss of a token."""
        row, total = self.pages.add(), 0.0
        for begin in range(0, len(tokens) - 1, self.chunk):
            some = tokens[begin : begin + self.chunk + 1]
            self.cache.copy(self.pages.extend(row, len(some) - 1))
            logits = self._run([row], [some[:-1]], list(range(len(some) - 1)))
            total += torch.nn.functional.cross_entropy(logits, torch.tensor(some[1:]), reduction="sum").item()
        self.pages.free(row)
        return total / (len(tokens) - 1)
