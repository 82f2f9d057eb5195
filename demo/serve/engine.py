"""A small server: requests arrive and leave, all rows of a step are one call of a model over a cache in pages (docs/serving.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

import aule
from aule.serving import Cache, OutOfPages

SEQUENCES = 64  # most at a time


@dataclass
class Request:
    """A prompt that is to go on for some tokens. [tokens]: the prompt and what came of it; the cache has the first ones of them."""

    name: str
    tokens: list[int]
    most: int  # tokens, the prompt's among them
    samples: int = 1  # 2: a second one goes on from the second best first token
    row: int | None = None  # of the table of pages; None: it has no pages
    evicted: int = 0
    prompt: int = 0  # tokens of it; 0: all that there are

    def __post_init__(self) -> None:
        self.prompt = self.prompt or len(self.tokens)


@dataclass
class Guesses:
    """Tokens that may come, as a tree: each follows another guess that stands before it, or (-1) the text."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)

    def add(self, tokens: list[int], most: int) -> None:
        """A way on, of which those tokens are new that no way before begins with; no more than [most] guesses in all."""
        at = -1
        for token in tokens:
            same = [n for n, parent in enumerate(self.parents) if parent == at and self.tokens[n] == token]
            if not same and len(self.tokens) == most:
                return
            if not same:
                self.tokens.append(token)
                self.parents.append(at)
            at = same[0] if same else len(self.tokens) - 1

    def branches(self) -> bool:
        """A chain is causal, a tree is not."""
        return self.parents != list(range(-1, len(self.parents) - 1))


@dataclass
class Rows:
    """Of a request in a step: tokens whose rows are computed, and behind them the guesses' rows."""

    request: Request
    tokens: list[int]
    guesses: Guesses

    @property
    def all(self) -> list[int]:
        return self.tokens + self.guesses.tokens

    def ways(self) -> list[list[int]]:
        """Of each row those that lead to it and itself, from the first of these rows on."""
        made = [list(range(n + 1)) for n in range(len(self.tokens))]
        for n, parent in enumerate(self.guesses.parents):
            made.append([*made[len(self.tokens) + parent], len(self.tokens) + n])
        return made


class Server:
    """Continuous batching. What it did is counted in :attr:`counts`."""

    def __init__(
        self, model, pages: int, page_size: int, *, storage: str | None = None, chunk: int = 32, budget: int = 128, draft: int = 0, branches: int = 3,
        invariant: bool = False, fixed: bool = False,
    ) -> None:
        """
        Args:
            model: one of models.py; the cache has its type, and is where it is.
            chunk: most rows of a prompt in one step.
            budget: most rows of a step.
            draft: most tokens in a row that are guessed from what the text had before, and verified in one call.
            branches: from how many places in the text; of several, guesses are a tree.
            invariant: the bits of a request's logits are the same whatever else is there, if the model's rows are (``alone``). Its rows are cut in one way then,
                also when they are computed again, so that there are no guesses.
            fixed: steps are calls of tensors of two sizes, rows that decode and any rows, which on a GPU are captured once and replayed.
                Steps with trees are not.
        """
        if invariant and draft:
            raise ValueError("invariant: draft is 0, since bits of rows that are verified depend on how many there are")
        if chunk > budget:
            raise ValueError(f"chunk is {chunk}, more than a step's budget of {budget}")
        self.model, self.chunk, self.budget, self.draft, self.branches = model, chunk, budget, draft, branches
        self.invariant, self.fixed = invariant, fixed
        # Tokens and groups of channels make scales of their own; heads are given one.
        scales = 1.0 if storage and not all(":token" in one or ":channels" in one for one in storage.split(",")) else None
        where = {"sequences": SEQUENCES, "device": model.device}
        self.cache = Cache(model.layers, pages, page_size, model.kv_heads, model.width, model.dtype, storage=storage, scales=scales, **where)
        self.pages = self.cache.pages
        self.attention = aule.compile(model.script, storage=storage, invariant=invariant)
        self.over_a_tree = aule.compile(model.tree, storage=storage) if draft else None
        self.lists = aule.serving.Step()  # lists of work, of all layers
        self.waiting: list[Request] = []
        self.running: list[Request] = []  # in the order in which they came
        self.done: dict[str, list[int]] = {}
        self.logits: dict[str, list[torch.Tensor]] | None = None  # a dictionary: of each request those that its tokens were taken from
        self.least_gap = float("inf")  # between the best token and the next one
        counted = "steps", "rows", "tokens", "evicted", "copied pages", "guessed", "guessed right", "steps with trees", "moved rows", "replays"
        self.counts = dict.fromkeys(counted, 0)
        self._captured: dict[int, Captured] = {}  # by most rows of a sequence

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
        self.counts["rows"] += sum(len(one.all) for one in work)
        wanted, end = [], 0
        for one in work:
            end += len(one.all)
            wanted += range(end - (len(one.guesses.tokens) + 1 if self._ends(one) else 0), end)
        logits = self._run(work, wanted)
        for one in work:
            if self._ends(one):
                count = len(one.guesses.tokens) + 1
                self._take(one, logits[:count])
                logits = logits[count:]
        return True

    def _ends(self, one: Rows) -> bool:
        """Whether a token follows."""
        return self.pages.length(one.request.row) >= len(one.request.tokens)

    def _admit(self) -> None:
        """Requests that wait get a row of the table, as long as there are pages for the tokens that all have so far. For what comes of them there may be none."""
        size = self.pages.page_size
        left = self.pages.available - sum(-(-len(one.tokens) // size) - len(self.pages.pages_of(one.row)) for one in self.running)
        while self.waiting and len(self.running) < SEQUENCES // 2:  # each may become two
            left -= -(-len(self.waiting[0].tokens) // size)
            if left < 0 and self.running:
                return
            request = self.waiting.pop(0)
            request.row = self.pages.add()
            self.running.append(request)

    def _plan(self) -> list[Rows]:
        """Of each request that goes on: the tokens whose rows are computed, and guesses."""
        work: list[Rows] = []
        left = self.budget
        for request in list(self.running):
            if request.row is None or not left:
                continue
            tokens = self._next(request, left)
            if not tokens:
                continue
            last = len(request.tokens) == self.pages.length(request.row) + 1
            guesses = self._guess(request, left - 1) if last else Guesses()
            if self.pages.needed(request.row, len(tokens + guesses.tokens)) > self.pages.available:
                guesses = Guesses()  # nobody's pages are taken for them
            one = Rows(request, tokens, guesses)
            if self._room(request, len(one.all), [other.request for other in work]):
                work.append(one)
                left -= len(one.all)
        return work

    def _next(self, request: Request, left: int) -> list[int]:
        length = self.pages.length(request.row)
        if not self.invariant:
            return request.tokens[length : length + min(self.chunk, left)]
        # A prompt in whole chunks, what came of it a token at a time, now and when it is computed again
        count = min(self.chunk, request.prompt - length) if length < request.prompt else 1
        return request.tokens[length : length + count] if count <= left else []

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

    def _guess(self, request: Request, left: int) -> Guesses:
        """What followed the last two tokens where they stood before, the latest places first, then what followed the last one alone: a tree."""
        tokens, guesses, places = request.tokens, Guesses(), set()
        deep = min(self.draft, request.most - len(tokens) - 1)
        if deep <= 0 or request.samples == 2:  # a second sample has the pages as they are after the prompt
            return guesses
        for size in (2, 1):
            for n in range(len(tokens) - size - 1, -1, -1):
                if len(places) == self.branches:
                    return guesses
                if tokens[n : n + size] == tokens[-size:] and n + size not in places:
                    places.add(n + size)
                    guesses.add(tokens[n + size : n + size + deep], left)
        return guesses

    # ---- a call

    def _run(self, work: list[Rows], wanted: list[int]) -> torch.Tensor:
        """Logits [wanted] of these rows, whose pages are there and whose keys are not."""
        rows, counts = [one.request.row for one in work], [len(one.all) for one in work]
        ways = [one.ways() for one in work]
        depths = [len(way) - 1 for one in ways for way in one]
        first = [self.pages.length(row) - count for row, count in zip(rows, counts) for _ in range(count)]
        to = lambda x, dtype=torch.int64: torch.tensor(x, dtype=dtype, device=self.model.device)  # noqa: E731
        x: dict[str, Any] = {
            "tokens": to([token for one in work for token in one.all]), "positions": to(first) + to(depths), "slots": self.pages.slots(rows, counts),
            "starts": to([0, *counts]).cumsum(0).int(), "wanted": to(wanted),
        }
        x["table"], x["lengths"] = self.pages.of(rows)
        if any(one.guesses.branches() for one in work):
            self.counts["steps with trees"] += 1
            leads = torch.zeros(len(depths), max(counts), dtype=torch.bool)
            for n, way in enumerate(way for one in ways for way in one):
                leads[n, way] = True
            return self._call({**x, "depths": to(depths, torch.int32), "ancestor": leads.to(self.model.device)}, max(counts), self.lists)
        if not self.fixed:
            return self._call(x, max(counts), self.lists)
        most = 1 if max(counts) == 1 else max(self.chunk, self.draft * self.branches + 1)
        if most not in self._captured:
            self._captured[most] = Captured(self, SEQUENCES if most == 1 else self.budget, most)
        self.counts["replays"] += 1
        return self._captured[most].run(x)

    def _call(self, x: dict[str, Any], most: int, lists: aule.serving.Step) -> torch.Tensor:
        axes = {"T": aule.paged(x["table"], x["lengths"])}
        one_each = most == 1 and "ancestor" not in x and not self.invariant  # invariant: rows that decode are as others
        if not one_each:
            axes["S"] = aule.packed(x["starts"], most=most)
        tree = {"ancestor": x["ancestor"][None]} if "ancestor" in x else {}
        script = self.over_a_tree if tree else self.attention
        lists.begin()

        def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
            """[1, H, rows, D] in and out."""
            self.cache.append(layer, k[0].transpose(0, 1), v[0].transpose(0, 1), x["slots"])
            q = q.transpose(0, 2) if one_each else q  # a row for each sequence: [B, H, 1, D]
            o = script(q, **self.cache.named(layer), axes=axes, schedule=lists, **inputs, **tree)
            return o.transpose(0, 2) if one_each else o

        return self.model.logits(x["tokens"], x["positions"], attend, x["wanted"], x.get("depths"))

    def _take(self, one: Rows, logits: torch.Tensor) -> None:
        """The tokens that follow, of the rows of the last token and of those that were guessed."""
        request, best = one.request, logits.topk(2)
        first, second = best.indices[:, 0].tolist(), int(best.indices[0, 1])
        follows = {(parent + 1, token): n + 1 for n, (parent, token) in enumerate(zip(one.guesses.parents, one.guesses.tokens))}
        way = [0]  # row 0 is that of the last token
        while (way[-1], first[way[-1]]) in follows:
            way.append(follows[way[-1], first[way[-1]]])
        self.counts["guessed"] += len(one.guesses.tokens)
        self.counts["guessed right"] += len(way) - 1
        self.least_gap = min(self.least_gap, (best.values[way, 0] - best.values[way, 1]).min().item())
        if self.logits is not None:
            self.logits.setdefault(request.name, []).extend(logits[way].clone())
        if request.samples == 2:
            self._fork(request, second)
        self._keep(request, len(one.guesses.tokens) + 1, way)
        request.tokens = request.tokens + [first[n] for n in way]
        self.counts["tokens"] += len(way)
        self.pages.shorten(request.row, len(request.tokens) - 1)
        self._end(request)

    def _keep(self, request: Request, count: int, way: list[int]) -> None:
        """Of the last [count] rows of a sequence, those of the way that came true move to the places right behind the text."""
        moved = [(row, n) for n, row in enumerate(way) if row != n]
        if not moved:
            return
        self.counts["moved rows"] += len(moved)
        have, size, begin = self.pages.pages_of(request.row), self.pages.page_size, self.pages.length(request.row) - count

        def places(rows):
            at = torch.tensor([(have[(begin + n) // size], (begin + n) % size) for n in rows], device=self.model.device)
            return at[:, 0], at[:, 1]

        (page, slot), (to_page, to_slot) = places([row for row, _ in moved]), places([n for _, n in moved])
        for layer in range(self.model.layers):
            for pool in self.cache.named(layer).values():
                if pool.shape[0] == self.pages.count and pool.shape[2] == size:  # scales of heads are of all pages
                    pool = pool.view(torch.uint8) if pool.element_size() == 1 else pool  # of 8 bits torch has copies of bytes
                    pool[to_page, :, to_slot] = pool[page, :, slot]

    def _fork(self, request: Request, token: int) -> None:
        """A second sample, which has the pages of the first until one of them writes."""
        request.samples = 1
        second = Request(f"{request.name}, second", [*request.tokens, token], request.most, row=self.pages.fork(request.row), prompt=request.prompt)
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
        request, total = Request("text", tokens, len(tokens), row=self.pages.add()), 0.0
        for begin in range(0, len(tokens) - 1, self.chunk):
            some = tokens[begin : begin + self.chunk + 1]
            self.cache.copy(self.pages.extend(request.row, len(some) - 1))
            logits = self._run([Rows(request, some[:-1], Guesses())], list(range(len(some) - 1)))
            total += torch.nn.functional.cross_entropy(logits.float(), torch.tensor(some[1:], device=logits.device), reduction="sum").item()
        self.pages.free(request.row)
        return total / (len(tokens) - 1)


class Captured:
    """Steps of so many rows at most, over tensors of one size: rows of nobody have slot -1, and what is left of the batch has no keys. On a GPU the calls
    are captured once, and a step replays them; elsewhere it calls the same."""

    def __init__(self, server: Server, rows: int, most: int) -> None:
        self.server, self.most, self.lists = server, most, aule.serving.Step()  # its lists lie in the graph's memory
        device, entries = server.model.device, server.pages.table.shape[1]
        make = lambda *shape, dtype=torch.int32: torch.zeros(shape, dtype=dtype, device=device)  # noqa: E731
        long = {"dtype": torch.int64}
        self.x = {
            "tokens": make(rows, **long), "positions": make(rows, **long), "slots": make(rows, **long), "starts": make(SEQUENCES + 1),
            "table": make(SEQUENCES, entries), "lengths": make(SEQUENCES), "wanted": torch.arange(rows, device=device),
        }
        self.graph: Any = None
        self.logits: Any = None

    def run(self, x: dict[str, Any]) -> torch.Tensor:
        rows, sequences = len(x["tokens"]), len(x["lengths"])
        self.x["slots"].fill_(-1)
        self.x["lengths"].zero_()
        self.x["starts"].fill_(rows)
        for name, to in self.x.items():
            if name != "wanted":
                to[: {"starts": sequences + 1, "table": sequences, "lengths": sequences}.get(name, rows)] = x[name]
        if self.graph is None:
            self.logits = self.server._call(self.x, self.most, self.lists)  # compiles, and makes plans
            if torch.device(self.server.model.device).type == "cuda":
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph):
                    self.logits = self.server._call(self.x, self.most, self.lists)
        if self.graph is not None:
            self.graph.replay()
        return self.logits[x["wanted"]]
