"""demo/serve: a server whose cache lies in pages gives the tokens of plain generation, whatever the pages' size, with evictions, forks and guesses; 8 bits lose little."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import unittest
from unittest import mock

from support import ROOT, torch

try:
    import transformers
except ImportError:
    transformers = None
if torch is not None:
    sys.path.insert(0, str(ROOT / "demo/serve"))  # the demo's modules
    spec = importlib.util.spec_from_file_location("demo_serve", ROOT / "demo/serve/__main__.py")
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)


@unittest.skipIf(torch is None or transformers is None, "torch or transformers is not installed")
class Serve(unittest.TestCase):
    def check(self, model, prompts=10, most=70, tokens=10):
        arriving = demo.requests(model, prompts, most, tokens)
        want = demo.expected(model, arriving)
        copied = evicted = 0
        for page, draft in ((1, 0), (16, 0), (48, 3), (16, 3)):
            with self.subTest(page=page, draft=draft):
                # Room for the longest sequence and some more: others are evicted
                server = demo.Server(model, -(-(most + tokens) // page) + 64 // page, page, draft=draft)
                fresh = [(step, demo.Request(one.name, list(one.tokens), one.most, one.samples)) for step, one in arriving]
                demo.serve(server, fresh)
                self.assertEqual(server.done, want, f"the best token is ahead by {server.least_gap:.2g} at least")
                evicted += server.counts["evicted"]
                self.assertEqual(server.pages.available, server.pages.count)
                copied += server.counts["copied pages"]
                if draft:
                    self.assertGreater(server.counts["guessed"], 0)
        self.assertGreater(copied, 0)
        self.assertGreater(evicted, 0)
        return server

    def test_what_its_options_refuse(self):
        for options, message in ((["--pages", "3"], "--pages is 3: a prompt of --most 700 with --tokens 16 alone may take 45 pages of 16"),
                                 (["--page", "0"], "--page is 0, expected 1 at least")):
            with mock.patch.object(sys, "argv", ["serve", *options]), contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                demo.main()
            self.assertIn(message, said.getvalue())

    def test_llama(self):
        self.check(demo.Llama())

    def test_tutorial(self):
        """Its attention is a script; guesses come true, since it learnt to repeat; a held page costs little more over a cache of 8 bits."""
        model = demo.Tutorial()
        self.assertGreater(self.check(model, prompts=8, tokens=20).counts["guessed right"], 0)
        text = model.encode((ROOT / "docs/recipes.md").read_text()[:1500])
        exact = demo.Server(model, 120, 16).loss(text)
        batch = torch.tensor([text])
        with torch.no_grad():
            plain = torch.nn.functional.cross_entropy(model._model(batch[:, :-1])[0], batch[0, 1:]).item()
        self.assertLess(exact, 0.9 * torch.log(torch.tensor(model.vocabulary)).item(), "it learnt something")
        self.assertAlmostEqual(exact, plain, delta=1e-4)
        for storage in ("e4m3", "i8:token"):
            loss = demo.Server(model, 120, 16, storage=storage).loss(text)
            self.assertNotEqual(loss, exact)
            self.assertLess(abs(loss - exact), 0.01 * exact, storage)


if __name__ == "__main__":
    unittest.main()
