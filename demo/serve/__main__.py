"""Serves two small language models over a cache in pages:

    python demo/serve [--model llama|tutorial] [--prompts 32] [--most 700] [--tokens 16] [--page 16] [--draft 4] [--branches 3]
                      [--storage i8:token] [--bf16] [--backend opencl:1]

Prints how the pages fill, tokens a second with the cache and without one, and whether the tokens are the same. --bf16: attention is invariant, and tokens
are compared with those of each request served by itself, to the bit of their logits. --backend cuda: all is on the GPU, and steps are replayed from graphs.
"""

from __future__ import annotations

import argparse
import os
import random
import time

import torch

import aule
from engine import Request, Server
from models import Llama, Tutorial


def requests(model, prompts: int, most: int, tokens: int) -> list[tuple[int, Request]]:
    """Prompts of 1 to [most] tokens, and the step in which each arrives; some go on in two ways."""
    r, made = random.Random(0), []
    for n in range(prompts):
        length = 1 if n == 0 else most if n == 1 else 1 + int((most - 1) * r.random() ** 2)  # many are short
        # A pattern that repeats, so that there is something to guess
        part = [r.randrange(model.vocabulary) for _ in range(r.choice((5, 40, length)))]
        prompt = (part * length)[:length]
        made.append((r.randrange(2 * prompts) // 2, Request(f"prompt {n}", prompt, length + 1 + r.randrange(tokens), samples=2 if n % 3 == 2 else 1)))
    return sorted(made, key=lambda one: one[0])


def fresh(arriving: list[tuple[int, Request]]) -> list[tuple[int, Request]]:
    """The same requests for another server."""
    return [(step, Request(one.name, list(one.tokens[: one.prompt]), one.most, one.samples)) for step, one in arriving]


def serve(server: Server, arriving: list[tuple[int, Request]], pictures: int = 0) -> float:
    """Until all are answered; the seconds that it took."""
    since, step, arriving = time.perf_counter(), 0, list(arriving)
    while True:
        while arriving and arriving[0][0] <= step:
            server.submit(arriving.pop(0)[1])
        if not server.step() and not arriving:
            return time.perf_counter() - since
        if pictures and step % pictures == 0:
            print(f"\nstep {step}: {len(server.running)} run, {len(server.waiting)} wait, {server.pages.available} pages are free")
            print(server.pages.picture())
        step += 1


def plain(model, prompt: list[int], most: int, second: bool = False) -> list[int]:
    """The same without a cache: every token is a call for all rows."""
    tokens = list(prompt)
    while len(tokens) < most:
        best = model.plain(tokens).topk(2).indices
        tokens.append(int(best[1] if second and len(tokens) == len(prompt) else best[0]))
    return tokens


def expected(model, arriving: list[tuple[int, Request]]) -> dict[str, list[int]]:
    made = {}
    for _, one in arriving:
        made[one.name] = plain(model, one.tokens, one.most)
        if one.samples == 2:
            made[f"{one.name}, second"] = plain(model, one.tokens, one.most, second=True)
    return made


def by_themselves(model, arriving: list[tuple[int, Request]], page: int, **options) -> tuple[dict[str, list[int]], dict[str, list[torch.Tensor]]]:
    """Each request in a server where there is no other: tokens, and the logits that they were taken from."""
    done, logits = {}, {}
    for _, one in fresh(arriving):
        server = Server(model, 2 * -(-one.most // page) + 1, page, **options)  # its second sample may need as many
        server.logits = logits
        serve(server, [(0, one)])
        done |= server.done
    return done, logits


def same_bits(some: dict[str, list[torch.Tensor]], others: dict[str, list[torch.Tensor]]) -> bool:
    bits = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
    return some.keys() == others.keys() and all(
        len(x) == len(others[name]) and all(torch.equal(a.view(bits[a.dtype]), b.view(bits[b.dtype])) for a, b in zip(x, others[name])) for name, x in some.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("llama", "tutorial"), default="llama")
    for name, default in (("prompts", 32), ("most", 700), ("tokens", 16), ("page", 16), ("pages", 0), ("draft", 0), ("branches", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--storage", help="of the cache: e4m3, i8:token, i4:channels16:zero; tokens may be others then")
    parser.add_argument("--bf16", action="store_true", help="a Llama in bfloat16, with attention that does not depend on the batch")
    parser.add_argument("--backend", help="a device that `aule devices` lists, as AULE_BACKEND names it: cpu, opencl:1, cuda")
    given = parser.parse_args()
    for name in ("most", "tokens", "page", "branches"):
        if getattr(given, name) < 1:
            parser.error(f"--{name} is {getattr(given, name)}, expected 1 at least")
    longest = -(-(given.most + given.tokens) // given.page)
    if given.pages and given.pages < longest:
        parser.error(f"--pages is {given.pages}: a prompt of --most {given.most} with --tokens {given.tokens} alone may take {longest} pages of {given.page}")
    if given.bf16 and (given.model == "tutorial" or given.draft):
        parser.error("--bf16 is of --model llama without a --draft")
    if given.backend:
        os.environ["AULE_BACKEND"] = given.backend  # what the first call reads
    backend = os.environ.get("AULE_BACKEND", "cpu")
    devices = {one.id if ":" in backend else one.backend: one for one in reversed(aule.devices())}
    if backend not in devices or not devices[backend].available:
        parser.error(f"there is no device {backend}: {devices[backend].reason if backend in devices else 'aule devices lists those there are'}")
    on_gpu = devices[backend].backend == "cuda"
    where = {"device": backend if on_gpu else "cpu"}  # tensors; other devices are given those of the host
    model = Llama(dtype=torch.bfloat16, alone=True, **where) if given.bf16 else Llama(**where) if given.model == "llama" else Tutorial(**where)
    options = {"invariant": given.bf16, "fixed": on_gpu, "storage": given.storage}
    arriving = requests(model, given.prompts, given.most, given.tokens)
    pages = given.pages or longest + 64 // given.page  # too few for all at a time
    draft = {"draft": given.draft, "branches": given.branches}
    # Compiles kernels: of rows that decode, of chunks, of guesses
    serve(Server(model, 8 + 24 // given.page, given.page, **options, **draft), [(0, Request("warm", [1] * 5, 8)), (0, Request("up", [2, 3, 2, 4, 2, 3, 2, 4, 2], 12))])
    since = time.perf_counter()
    want, want_logits = by_themselves(model, arriving, given.page, **options) if given.bf16 else (expected(model, arriving), {})
    without = time.perf_counter() - since
    server = Server(model, pages, given.page, **options, **draft)
    server.logits = {} if given.bf16 else None
    took = serve(server, fresh(arriving), pictures=20)
    count = server.counts["tokens"]
    print(f"\n{len(want)} samples of {given.prompts} prompts, {count} tokens, {pages} pages of {given.page}, on {backend} ({devices[backend].name})")
    print(", ".join(f"{name} {n}" for name, n in server.counts.items()))
    print(f"{count / took:.0f} tokens a second with the cache, {count / without:.0f} {'one request at a time' if given.bf16 else 'without one'}")
    same = server.done == want and (not given.bf16 or same_bits(server.logits, want_logits))
    right = sum(a == b for name in want for a, b in zip(server.done[name], want[name])) / sum(map(len, want.values()))
    said = "the same" if same else f"not the same, {right:.1%} of them are" if given.storage else "not the same"
    print(f"the tokens are {said}{', and all bits of their logits' if same and given.bf16 else ''}; the best one is ahead by {server.least_gap:.2g} at least")
    return not same and not given.storage


if __name__ == "__main__":
    raise SystemExit(main())
