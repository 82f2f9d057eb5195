"""Small models of transformers give the same with aule as with the library's own attention; on the device that AULE_TEST_DEVICE names
("cuda"), else on the CPU."""

import os
import unittest

from support import DEVICE, torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
try:
    import transformers
except ImportError:
    transformers = None

SIZES = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)


@unittest.skipIf(transformers is None or torch is None, "transformers is not installed")
class Models(unittest.TestCase):
    def setUp(self):
        import aule.transformers

        aule.transformers.register()
        torch.set_default_device(DEVICE)
        self.addCleanup(torch.set_default_device, None)
        torch.manual_seed(0)
        self.ids = torch.randint(1, 97, (2, 23))
        self.mask = torch.ones_like(self.ids)
        self.mask[0, :7] = 0  # the first sequence is shorter, padded on its left

    def same(self, config):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        found = {}
        for name in ("eager", "aule"):
            model.set_attn_implementation(name)
            with torch.no_grad():
                logits = model(self.ids).logits, model(self.ids, attention_mask=self.mask).logits[self.mask.bool()]
            texts = [model.generate(self.ids, attention_mask=mask, max_new_tokens=8, do_sample=False, pad_token_id=0) for mask in (None, self.mask)]
            found[name] = logits, texts
        for theirs, ours in zip(found["eager"][0], found["aule"][0]):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        for theirs, ours in zip(found["eager"][1], found["aule"][1]):
            self.assertTrue(torch.equal(ours, theirs))

    def test_llama(self):  # grouped heads
        self.same(transformers.LlamaConfig(**SIZES))

    def test_gemma2(self):  # a soft cap, sliding windows
        self.same(transformers.Gemma2Config(**SIZES, head_dim=16, sliding_window=8))

    def test_gpt_oss(self):  # sinks
        self.same(transformers.GptOssConfig(**SIZES, head_dim=16, sliding_window=8, num_local_experts=2, num_experts_per_tok=1))

    def test_training(self):
        """The loss curve over 50 steps is that of the library's "sdpa"."""
        ids = torch.randint(0, 97, (16, 48)).cumsum(1) % 97  # something to learn: differences repeat
        ids[:, 24:] = ids[:, :24]

        def losses(name):
            torch.manual_seed(1)
            model = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**SIZES), attn_implementation=name)
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
            curve = []
            for step in range(50):
                rows = ids[step % 4 * 4 : step % 4 * 4 + 4]
                loss = model(rows, labels=rows).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                curve.append(loss.item())
            return torch.tensor(curve)

        theirs, ours = losses("sdpa"), losses("aule")
        self.assertLess(theirs[-1], 0.9 * theirs[0])
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)

    def test_bert(self):  # not causal
        model = transformers.AutoModel.from_config(transformers.BertConfig(**{k: v for k, v in SIZES.items() if "key_value" not in k})).eval()
        found = {}
        for name in ("eager", "aule"):
            model.set_attn_implementation(name)
            with torch.no_grad():
                found[name] = model(self.ids, attention_mask=self.mask).last_hidden_state[self.mask.bool()]
        torch.testing.assert_close(found["aule"], found["eager"], rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
