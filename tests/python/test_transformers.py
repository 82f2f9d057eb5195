"""Small models of transformers give the same with aule as with the library's own attention; on the device that AULE_TEST_DEVICE names
("cuda"), else on the CPU."""

import os
import unittest
from unittest import mock

from support import DEVICE, torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
try:
    import transformers
except ImportError:
    transformers = None

SIZES = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)


def allow(test, model):
    """gpt-oss names flash kernels of its own, which the library puts in the place of any other's."""
    patched = mock.patch.object(model, "_compatible_flash_implementations", ["aule_flash"])
    patched.start()
    test.addCleanup(patched.stop)


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
        for name in ("eager", "aule", "aule_flash"):
            model.set_attn_implementation(name)
            with torch.no_grad():
                logits = model(self.ids).logits, model(self.ids, attention_mask=self.mask).logits[self.mask.bool()]
            texts = [model.generate(self.ids, attention_mask=mask, max_new_tokens=8, do_sample=False, pad_token_id=0) for mask in (None, self.mask)]
            found[name] = logits, texts
        for name in ("aule", "aule_flash"):
            for theirs, ours in zip(found["eager"][0], found[name][0]):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
            for theirs, ours in zip(found["eager"][1], found[name][1]):
                self.assertTrue(torch.equal(ours, theirs))

    def test_llama(self):  # grouped heads
        self.same(transformers.LlamaConfig(**SIZES))

    def test_another_device(self):  # that the environment names; the model's tensors are copied there and back
        from aule import devices
        from aule._devices import Device, _named

        if DEVICE != "cpu" or not any(d.available and d.backend == "vulkan" for d in devices()):
            self.skipTest("no Vulkan device")
        of, asked = Device.of, []
        _named.clear()  # it is read once
        self.addCleanup(_named.clear)
        with mock.patch.dict(os.environ, AULE_BACKEND="vulkan"), mock.patch.object(Device, "of", lambda *given: asked.append(of(*given)) or asked[-1]):
            self.same(transformers.LlamaConfig(**SIZES))
        self.assertEqual({device.backend for device in asked}, {"vulkan"})

    def test_gemma2(self):  # a soft cap, sliding windows
        self.same(transformers.Gemma2Config(**SIZES, head_dim=16, sliding_window=8))

    def test_gpt_oss(self):  # sinks
        allow(self, transformers.GptOssForCausalLM)
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

    def test_packed_rows(self):
        """Sequences one after the other, which positions say or the caller does."""
        model = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**SIZES), attn_implementation="aule_flash").eval()
        import aule

        sizes, ids = (5, 1, 17), torch.randint(1, 97, (1, 23))
        positions = torch.cat([torch.arange(n) for n in sizes])[None]
        starts = torch.tensor([0, 5, 6, 23], dtype=torch.int32)
        with torch.no_grad():
            want = torch.cat([model(part).logits for part in ids.split(sizes, 1)], 1)
            torch.testing.assert_close(model(ids, position_ids=positions, use_cache=False).logits, want, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(model(ids, position_ids=positions + 3, use_cache=False).logits, want, rtol=1e-4, atol=1e-5)
            with self.assertRaisesRegex(aule.ArgumentError, "position_ids begin again with less"):
                model(ids, position_ids=torch.cat([positions[:, 1:], positions[:, :1]], 1), use_cache=False)
            named = {"cu_seq_lens_q": starts, "cu_seq_lens_k": starts, "max_length_q": 17, "max_length_k": 17}
            torch.testing.assert_close(model(ids, position_ids=positions, use_cache=False, **named).logits, want, rtol=1e-4, atol=1e-5)

    def test_refusals(self):
        import aule

        x, module = torch.zeros(1, 2, 4, 16), torch.nn.Module()
        starts = torch.tensor([0, 4], dtype=torch.int32)
        for named, message in (
            ({"attention_mask": torch.ones(1, 1, 4, 4)}, "takes masks .* of padding, this has 4 axes"),
            ({"attention_mask": None, "output_attentions": True}, "has no output_attentions"),
            ({"attention_mask": None, "position_bias": x}, "has no position_bias"),
            ({"attention_mask": None, "dropout": 0.1, "cu_seq_lens_q": starts, "cu_seq_lens_k": starts}, "has no dropout where rows"),
            ({"attention_mask": None, "cu_seq_lens_q": starts}, "cu_seq_lens_q without cu_seq_lens_k"),
            ({"attention_mask": None, "cache": object(), "cu_seq_lens_q": starts}, "is not one of transformers 5.23: object"),
        ):
            with self.assertRaisesRegex(aule.Error, message):
                aule.transformers.flash_forward(mock.Mock(is_causal=True, layer_idx=0), x, x, x, **named)
        for forward, name in ((aule.transformers.flash_forward, "aule_flash"), (aule.transformers.attention_forward, "aule")):
            for unknown, value in (("indices", starts), ("block_indices", starts), ("sinks", x), ("a_new_option", 3), ("output_attentions", True)):
                with self.subTest(name, unknown=unknown), self.assertRaisesRegex(aule.ArgumentError, f'^"{name}" has no {unknown}, '):
                    forward(mock.Mock(is_causal=True, layer_idx=0), x, x, x, None, **{unknown: value})
            known = {"num_items_in_batch": starts, "position_ids": starts[:1], "use_cache": True, "sliding_window": 3, "indices": None, "output_attentions": False, "deterministic": True}
            self.assertEqual(forward(mock.Mock(is_causal=True, layer_idx=0), x, x, x, None, **known)[0].shape, (1, 4, 2, 16))
        for given in ({"cache": object()}, {"cu_seq_lens_q": starts}):
            with self.assertRaisesRegex(aule.ArgumentError, "aule_flash"):
                aule.transformers.attention_forward(module, x, x, x, None, **given)
        with self.assertRaisesRegex(aule.ArgumentError, "a name with 'flash' in it"):
            aule.transformers.register(flash="fast")


@unittest.skipIf(transformers is None or torch is None, "transformers is not installed")
class ContinuousBatching(unittest.TestCase):
    """generate_batch gives the tokens of generate, whose attention is the library's own: prompts in pieces beside rows that decode, pages of 16."""

    def setUp(self):
        import aule.transformers

        if not hasattr(transformers.ContinuousBatchingConfig, "page_size"):
            self.skipTest("continuous batching of this version of transformers takes its own attentions alone")
        aule.transformers.register()
        torch.manual_seed(0)
        self.prompts = [torch.randint(1, 97, (n,)).tolist() for n in (1, 5, 17, 40, 23, 8, 16)]

    def check(self, config, theirs="sdpa", pages=16):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=theirs).eval().to(DEVICE)
        want = []
        for prompt in self.prompts:
            ids = torch.tensor([prompt], device=DEVICE)
            want.append(model.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=0, eos_token_id=None)[0, len(prompt) :].tolist())
        model.set_attn_implementation("aule_flash")
        asked = transformers.GenerationConfig(max_new_tokens=12, do_sample=False, eos_token_id=-1, pad_token_id=0)
        sizes = transformers.ContinuousBatchingConfig(
            page_size=pages, num_blocks=48, max_batch_tokens=24, max_memory_percent=0.5, allow_block_sharing=False, use_cuda_graph=False, use_async_batching=False,
        )
        with self.assertNoLogs("ContinuousBatchingLogger", "CRITICAL"):
            made = model.generate_batch(self.prompts, generation_config=asked, continuous_batching_config=sizes)
        self.assertEqual([one.error for one in made.values()], [None] * len(self.prompts))
        made = sorted(made.values(), key=lambda one: self.prompts.index(one.prompt_ids))
        self.assertEqual([one.generated_tokens for one in made], want)

    def test_llama(self):
        """Grouped heads; the cache is not gathered, which the library does by index_select."""
        refused = mock.patch.object(torch, "index_select", side_effect=AssertionError("the cache is gathered"))
        with refused:
            self.check(transformers.LlamaConfig(**SIZES))
            self.check(transformers.LlamaConfig(**SIZES), pages=5)

    def test_block_tables(self):
        """Which the library keeps for CUDA: here it is told that all is well."""
        from transformers.generation.continuous_batching import initialization

        import aule._batching

        with mock.patch.object(initialization, "ensure_decode_fast_path_is_available"), mock.patch.object(aule._batching, "decode", wraps=aule._batching.decode) as decode:
            self.check(transformers.LlamaConfig(**SIZES))
        self.assertEqual(decode.call_args.kwargs["out"].shape[1], 1)  # only block tables write into a tensor that is there

    def test_windows(self):
        """Rings of 8 slots beside full attention, with soft caps; all layers rings. Rows that decode are read in place."""
        import aule._batching

        steps = {False: [], True: []}  # gathers of calls, by whether each request has one row
        step = aule._batching._over_cache

        def watched(layer, q, k, v, cache, starts, key_starts, more, options):
            with mock.patch.object(torch, "index_select", wraps=torch.index_select) as select:
                o = step(layer, q, k, v, cache, starts, key_starts, more, options)
            steps[more["max_length_q"] == 1].append(select.call_count)
            return o

        with mock.patch.object(aule._batching, "_over_cache", watched):
            self.check(transformers.Gemma2Config(**SIZES, head_dim=16, sliding_window=8), "eager")
            self.check(transformers.MistralConfig(**SIZES, sliding_window=8))
        self.assertEqual((max(steps[True]), max(steps[False])), (0, 2))

    def test_sinks(self):
        allow(self, transformers.GptOssForCausalLM)
        self.check(transformers.GptOssConfig(**SIZES, head_dim=16, sliding_window=8, num_local_experts=2, num_experts_per_tok=1), "eager")


if __name__ == "__main__":
    unittest.main()
