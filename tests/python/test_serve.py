"""demo/serve: a server whose cache lies in pages gives the tokens of plain generation, whatever the pages' size, with evictions, forks and trees of guesses; in
bfloat16 the bits of logits do not depend on the batch; caches of 8 and 4 bits lose little."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import unittest
from unittest import mock

from support import DEVICE, FULL, OTHERS, ROOT, torch

try:
    import transformers
except ImportError:
    transformers = None
if torch is not None:
    sys.path.insert(0, str(ROOT / "demo/serve"))  # the demo's modules
    spec = importlib.util.spec_from_file_location("demo_serve", ROOT / "demo/serve/__main__.py")
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    from engine import Guesses


class Case(unittest.TestCase):
    def served(self, model, arriving, want, pages, page, **options):
        server = demo.Server(model, pages, page, **options)
        demo.serve(server, demo.fresh(arriving))
        self.assertEqual(server.done, want, f"the best token is ahead by {server.least_gap:.2g} at least")
        self.assertEqual(server.pages.available, server.pages.count)
        return server

    WAYS = (1, {}), (16, {}), (48, {"draft": 3}), (16, {"draft": 3, "branches": 1}), (16, {"fixed": True})

    def check(self, model, prompts=10, most=70, tokens=10, ways=WAYS):
        arriving = demo.requests(model, prompts, most, tokens)
        self.assertEqual({1, most}, {min(len(one.tokens) for _, one in arriving), max(len(one.tokens) for _, one in arriving)})
        want = demo.expected(model, arriving)
        servers = []
        for page, options in ways:
            with self.subTest(page=page, **options):
                # Room for the longest sequence and some more: others are evicted
                servers.append(self.served(model, arriving, want, -(-(most + tokens) // page) + 64 // page, page, **options))
                if "draft" in options:
                    self.assertGreater(servers[-1].counts["guessed"], 0)
                counts = servers[-1].counts
                self.assertEqual(counts["replays"], counts["steps"] - counts["steps with trees"] if "fixed" in options else 0)
        for what in ("copied pages", "evicted"):
            self.assertGreater(sum(server.counts[what] for server in servers), 0, what)
        return servers


@unittest.skipIf(torch is None or transformers is None, "torch or transformers is not installed")
class Serve(Case):
    def test_what_its_options_refuse(self):
        for options, message in ((["--pages", "3"], "--pages is 3: a prompt of --most 700 with --tokens 16 alone may take 45 pages of 16"),
                                 (["--page", "0"], "--page is 0, expected 1 at least"),
                                 (["--bf16", "--draft", "2"], "--bf16 is of --model llama without a --draft"),
                                 (["--backend", "opencl:77"], "there is no device opencl:77: aule devices lists those there are")):
            with mock.patch.object(sys, "argv", ["serve", *options]), mock.patch.dict(os.environ), contextlib.redirect_stderr(io.StringIO()) as said:
                with self.assertRaises(SystemExit):
                    demo.main()
            self.assertIn(message, said.getvalue())

    def test_llama(self):
        """Its products are of a row at a time, since torch's own depend on the batch."""
        self.check(demo.Llama(alone=True))

    @unittest.skipUnless(FULL, "in the suite slow")
    def test_many_long_prompts(self):
        """32 prompts of 1 to 700 tokens."""
        for model in (demo.Llama(alone=True), demo.Tutorial()):
            self.check(model, prompts=32, most=700, tokens=16, ways=((1, {}), (16, {"draft": 3}), (48, {})))

    def test_bf16(self):
        """Invariant attention, and rows of the model by themselves: tokens and all bits of logits are those of each request alone, whatever else is there, also when
        it was evicted and computed again. (Attention as it is for speed may have others: on some processors it does.)"""
        model = demo.Llama(dtype=torch.bfloat16, alone=True)
        arriving = demo.requests(model, 10, 70, 10)
        done, logits = demo.by_themselves(model, arriving, 16, invariant=True)
        evicted = 0
        for page, budget, order in ((16, 128, arriving), (48, 40, arriving), (1, 128, [(0, one) for _, one in reversed(arriving)])):
            with self.subTest(page=page, budget=budget):
                server = demo.Server(model, -(-80 // page) + 64 // page, page, invariant=True, budget=budget)
                server.logits = {}
                demo.serve(server, demo.fresh(order))
                self.assertEqual(server.done, done)
                self.assertTrue(demo.same_bits(server.logits, logits))
                evicted += server.counts["evicted"]
        self.assertGreater(evicted, 0)
        name, rows = next(iter(logits.items()))
        last = rows[-1].clone()
        last.view(torch.int16 if last.dtype == torch.bfloat16 else torch.int32).view(-1)[-1] ^= 1
        self.assertFalse(demo.same_bits({**logits, name: [*rows[:-1], last]}, logits), "the test sees a bit that differs")
        with self.assertRaisesRegex(ValueError, "invariant: draft is 0"):
            demo.Server(model, 9, 16, invariant=True, draft=2)

    def test_an_opencl_device(self):
        """The program with --backend, whose every call is one of that device; and with what the environment says."""
        if not OTHERS or DEVICE != "cpu":
            self.skipTest("no OpenCL device")
        sizes = ["--prompts", "6", "--most", "40", "--tokens", "6", "--draft", "3"]
        for options, variable in ((["--backend", OTHERS[-1]], None), ([], OTHERS[0])):
            environment = {name: x for name, x in os.environ.items() if name not in ("AULE_BACKEND", "AULE_DEVICE")}
            environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | ({"AULE_BACKEND": variable} if variable else {})
            ran = subprocess.run([sys.executable, str(ROOT / "demo/serve"), *sizes, *options], env=environment, capture_output=True, text=True, timeout=300)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            self.assertRegex(ran.stdout, rf", on {variable or options[1]} \(.+\)\n")
            self.assertIn("the tokens are the same;", ran.stdout)


@unittest.skipIf(torch is None, "torch is not installed")
class Script(Case):
    """The tutorial's model: its attention is a script, and guesses come true, since it learnt to repeat."""

    @classmethod
    def setUpClass(cls):
        cls.model = demo.Tutorial()
        cls.text = cls.model.encode((ROOT / "docs/recipes.md").read_text()[:1500])

    def test_tokens(self):
        self.assertGreater(max(server.counts["guessed right"] for server in self.check(self.model, prompts=8, tokens=20)), 0)

    def test_guesses_as_a_tree(self):
        """Ways with the same beginning share it; no guess stands before what it follows."""
        made = Guesses()
        made.add([5, 6, 7], 6)
        self.assertFalse(made.branches())
        made.add([5, 8, 7], 6)
        made.add([9, 6], 6)
        made.add([3], 6)  # no room
        self.assertEqual((made.tokens, made.parents), ([5, 6, 7, 8, 7, 9], [-1, 0, 1, 0, 3, -1]))
        self.assertTrue(made.branches())

    def test_trees(self):
        """Guesses from three places are verified in one call. Tokens are those of plain generation, and what the cache keeps are the keys and values of the
        text alone, in its order: a row that came true on a later branch moves. Two of the prompts end a row behind a chunk, where a second sample forks."""
        prompts = [self.text[:11] * 3, self.text[80:144], self.text[160:193] * 2 + self.text[160:191], self.text[240:366]]
        arriving = [(n, demo.Request(f"{n}", one, len(one) + 60, samples=2 - n % 2)) for n, one in enumerate(prompts)]
        want = demo.expected(self.model, arriving)
        for page in (1, 16):
            self.check_trees(arriving, want, page)
            tree, chain = (self.served(self.model, arriving, want, 800 // page, page, draft=4, branches=branches) for branches in (3, 1))
            self.assertGreater(tree.counts["steps with trees"], 0)
            self.assertEqual(chain.counts["steps with trees"], 0)

    def test_trees_over_codes(self):
        """Rows that move take their scales and zero points along; tokens are those of the same cache without guesses."""
        arriving = [(0, demo.Request("one", self.text[240:366], 186))]
        for storage in ("e4m3", "i8:token", "i4:channels16:zero"):
            with self.subTest(storage):
                self.check_trees(arriving, demo.by_themselves(self.model, arriving, 16, storage=storage)[0], 16, storage)

    def check_trees(self, arriving, want, page, storage=None):
        """Which guess comes true is not left to what the model learnt: of two ways the first is wrong, so that rows of the second one move."""
        server = demo.Server(self.model, 800 // page, page, draft=4, storage=storage)

        def two_ways(request, left):
            guesses, known = Guesses(), len(request.tokens)
            right = want[request.name][known : min(known + 4, request.most - 1)]
            if right and request.samples == 1:
                guesses.add([(right[0] + 1) % self.model.vocabulary, *right[1:]], left)
                guesses.add(right, left)
            return guesses

        moved = checked = 0
        with mock.patch.object(server, "_guess", two_ways):
            for _, one in demo.fresh(arriving):
                server.submit(one)
            while server.step():
                if server.counts["moved rows"] > moved and checked < 4:
                    moved, checked = server.counts["moved rows"], checked + 1
                    for one in server.running:
                        self.same_rows(server, one, storage)
        self.assertEqual(server.done, want, f"the best token is ahead by {server.least_gap:.2g} at least")
        self.assertEqual(server.pages.available, server.pages.count)
        self.assertGreater(server.counts["steps with trees"], 0)
        self.assertEqual(checked, 4)
        self.assertEqual(server.counts["guessed right"], server.counts["moved rows"])

    def same_rows(self, server, request, storage):
        """The cache has as many rows of this sequence as a text of its tokens would leave there, and the same ones. Those of the first layer depend on one
        token each, so that what is made of them for codes, scales and zero points, is nearly the same, too."""
        length = server.pages.length(request.row)
        self.assertLess(length, len(request.tokens))
        self.assertEqual(len(server.pages.pages_of(request.row)), -(-length // server.pages.page_size))
        other = demo.Server(self.model, server.pages.count, server.pages.page_size, storage=storage)
        again = demo.Request("again", request.tokens[:length], length + 2)
        other.submit(again)
        while again.row is None or other.pages.length(again.row) < length:
            other.step()
        for layer in range(1 if storage else self.model.layers):
            for name, pool in server.cache.named(layer).items():
                if pool.shape[0] != server.pages.count:  # scales of heads
                    continue
                mine, read = (self.rows(x, s.pages, row, length) for x, s, row in ((pool, server, request.row), (other.cache.named(layer)[name], other, again.row)))
                if pool.element_size() > 1:
                    torch.testing.assert_close(mine, read, rtol=1e-3, atol=1e-4, msg=lambda said: f"{name}: {said}")  # noqa: B023
                else:  # a number near the middle of two codes may be either
                    self.assertLess((mine != read).float().mean().item(), 0.01, name)

    @staticmethod
    def rows(pool, pages, row, length):
        pool = pool.view(torch.uint8) if pool.element_size() == 1 else pool
        return pool[list(pages.pages_of(row))].transpose(1, 2).flatten(0, 1)[:length]

    def test_codes(self):
        """A held page costs little more over a cache of 8 bits, and somewhat more over one of 4."""
        model, text = self.model, self.text
        exact = demo.Server(model, 120, 16).loss(text)
        blind = demo.Server(model, 120, 16)
        blind.attention = lambda q, **_: torch.zeros_like(q)
        self.assertGreater(blind.loss(text), 1.08 * exact, "what is read from the cache matters")
        batch = torch.tensor([text])
        with torch.no_grad():
            plain = torch.nn.functional.cross_entropy(model._model(batch[:, :-1])[0], batch[0, 1:]).item()
        self.assertLess(exact, 0.9 * torch.log(torch.tensor(model.vocabulary)).item(), "it learnt something")
        self.assertAlmostEqual(exact, plain, delta=1e-4)
        bounds = {"e4m3": 0.01, "i8:token": 0.01, "k=i8:channels8,v=e4m3": 0.01, "i4:token": 0.05, "i4:channels16:zero": 0.05, "i4:channels8": 0.05}
        for storage, bound in bounds.items():
            with self.subTest(storage):
                loss = demo.Server(model, 120, 16, storage=storage).loss(text)
                self.assertNotEqual(loss, exact)
                self.assertLess(abs(loss - exact), bound * exact)


@unittest.skipIf(torch is None or DEVICE == "cpu", "no GPU")
class Graphs(Case):
    """All on the GPU: steps are captured once and replayed, of rows that decode as of chunks beside them; trees between them are calls."""

    def test_tutorial(self):
        self.check(demo.Tutorial(device=DEVICE), ways=((16, {"fixed": True}), (1, {"fixed": True}), (48, {"fixed": True, "draft": 3}), (16, {})))

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_llama(self):
        self.check(demo.Llama(device=DEVICE), ways=((16, {"fixed": True}), (1, {"fixed": True}), (48, {"fixed": True, "draft": 3}), (16, {})))


if __name__ == "__main__":
    unittest.main()
