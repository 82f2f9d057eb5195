"""Serves two small language models over a cache in pages:

    python demo/serve [--model llama|tutorial] [--prompts 32] [--most 700] [--tokens 16] [--page 16]

Prints how the pages fill, tokens a second with the cache and without one, and whether the tokens are the same.
"""

from __future__ import annotations

import argparse
import random
import time

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("llama", "tutorial"), default="llama")
    for name, default in (("prompts", 32), ("most", 700), ("tokens", 16), ("page", 16), ("pages", 0), ("draft", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    for name in ("most", "tokens", "page"):
        if getattr(given, name) < 1:
            parser.error(f"--{name} is {getattr(given, name)}, expected 1 at least")
    longest = -(-(given.most + given.tokens) // given.page)
    if given.pages and given.pages < longest:
        parser.error(f"--pages is {given.pages}: a prompt of --most {given.most} with --tokens {given.tokens} alone may take {longest} pages of {given.page}")
    model = Llama() if given.model == "llama" else Tutorial()
    arriving = requests(model, given.prompts, given.most, given.tokens)
    pages = given.pages or longest + 64 // given.page  # too few for all at a time
    serve(Server(model, 8 + 24 // given.page, given.page), [(0, Request("warm", [1] * 5, 8)), (0, Request("up", [2] * 9, 12))])  # compiles kernels
    since = time.perf_counter()
    want = expected(model, arriving)
    without = time.perf_counter() - since
    server = Server(model, pages, given.page, draft=given.draft)
    took = serve(server, arriving, pictures=20)
    count = server.counts["tokens"]
    print(f"\n{len(want)} samples of {given.prompts} prompts, {count} tokens, {pages} pages of {given.page}")
    print(", ".join(f"{name} {n}" for name, n in server.counts.items()))
    print(f"{count / took:.0f} tokens a second with the cache, {count / without:.0f} without one")
    same = server.done == want
    print(f"the tokens are {'the same' if same else 'not the same'}; the best one is ahead by {server.least_gap:.2g} at least")
    return not same


if __name__ == "__main__":
    raise SystemExit(main())
