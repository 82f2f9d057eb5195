"""vLLM's attention on aule, as its backend CUSTOM::

    import aule.vllm

    aule.vllm.register()
    llm = LLM(model, attention_backend="CUSTOM")

Its cache is read and written where it lies, in the order NHD or HND, in pages of multiples of 16. A step is two calls at most: one for the requests that have
one row each, which the library puts first, and one for all others, prompts and chunks of them. It is one call where the library captures steps of any kind in
graphs (cudagraph_mode FULL), and where it asks for results that do not depend on the batch (VLLM_BATCH_INVARIANT).

Written to the interface of vLLM 0.22 (vllm/v1/attention/backend.py and backends/registry.py of its source), and tested with a stand-in for that interface: it
has not run inside vLLM yet.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
import vllm.envs as envs
from torch import Tensor
from vllm.v1.attention.backend import AttentionBackend, AttentionCGSupport, AttentionImpl, AttentionMetadata, AttentionMetadataBuilder, AttentionType, MultipleOf
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
from vllm.v1.attention.backends.utils import get_kv_cache_layout

from ._decode import decode, storage_of
from ._errors import ArgumentError, Error
from ._schedules import Step
from ._slots import append
from ._varlen import attention_varlen

FP8 = {"fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}
ENCODERS = (AttentionType.ENCODER, AttentionType.ENCODER_ONLY)  # rows that see each other, without a cache

# From how many on it pays that requests of one row read a prefix together: of fewer, or of less, what is saved is nothing (docs/performance.md, prefixes)
SHARING, SHARED, SPARED = 8, 256, 32768  # requests, keys of the prefix, and their product


class AuleBackend(AttentionBackend):
    """What vLLM asks of a backend before it makes layers of it."""

    supported_dtypes = [torch.float16, torch.bfloat16, torch.float32]
    supported_kv_cache_dtypes = ["auto", "float16", "bfloat16", *FP8]
    forward_includes_kv_cache_update = True

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type["AuleImpl"]:
        return AuleImpl

    @staticmethod
    def get_builder_cls() -> type["AuleMetadataBuilder"]:
        return AuleMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes() -> list[Any]:
        return [MultipleOf(16)]

    @staticmethod
    def get_kv_cache_shape(num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, cache_dtype_str: str = "auto") -> tuple[int, ...]:
        """Keys and values of a page beside each other."""
        if block_size % 16:
            raise ArgumentError(f"pages have {block_size} slots, expected a multiple of 16", "param")
        return num_blocks, 2, block_size, num_kv_heads, head_size

    @staticmethod
    def get_kv_cache_stride_order(include_num_layers_dimension: bool = False) -> tuple[int, ...]:
        order = {"NHD": (0, 1, 2, 3, 4), "HND": (0, 1, 3, 2, 4)}.get(get_kv_cache_layout())
        if order is None:
            raise ArgumentError(f"the cache lies in the order {get_kv_cache_layout()}, expected NHD or HND", "param")
        return (1, 0, *(n + 1 for n in order[1:])) if include_num_layers_dimension else order

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_non_causal(cls) -> bool:
        return True

    @classmethod
    def supports_per_head_quant_scales(cls) -> bool:
        return True

    @classmethod
    def supports_batch_invariance(cls) -> bool:
        return True

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        return attn_type in (AttentionType.DECODER, *ENCODERS)


@dataclass
class AuleMetadata(AttentionMetadata):
    """A step, the same for all layers. [singles]: how many of the requests, the first ones, have one row each and a call of their own."""

    rows: int
    singles: int
    most: int  # no request has more rows
    starts: Tensor  # of all requests
    starts_of_rest: Tensor
    lengths: Tensor
    table: Tensor
    slots: Tensor
    causal: bool
    invariant: bool = False  # results must not depend on the batch
    prefix: dict[str, Tensor] = field(default_factory=dict)  # what says that the first keys of the singles are the same ones
    _lists: Step = field(default_factory=Step)  # of work, which the first layer makes
    _seen: set[Any] = field(default_factory=set)  # layers that have them

    def _lists_of(self, layer: Any) -> Step:
        """Lists of work for a layer. One that comes again begins another pass of the model, whose lengths may be others in the same memory: a capture after a
        warm-up, the next step of a draft. Lists are then made anew, in memory of their own, since that of a warm-up does not outlive it and a graph does."""
        if layer in self._seen:
            self._lists, self._seen = Step(), set()
        self._seen.add(layer)
        return self._lists


class AuleMetadataBuilder(AttentionMetadataBuilder):
    """Makes the tensors of a step of vLLM's: nothing is read back from the device."""

    # In a graph the host knows nothing but shapes. A graph of requests with one row each, or with as many rows each as are verified, has all that it reads in
    # tensors of vLLM's own, which stay where they are; one of any steps is one packed call (build), with the starts of its rows from such a tensor too
    _cudagraph_support = AttentionCGSupport.ALWAYS
    reorder_batch_threshold = 1  # requests with one row come first

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self._invariant = bool(envs.VLLM_BATCH_INVARIANT)
        if self._invariant:
            self._warn_of_cuts()

    def _warn_of_cuts(self) -> None:
        """A chunk of a few rows has other kernels than one of many, and where a prompt is cut may be up to other requests."""
        cutting = {"enable_chunked_prefill": "scheduler_config", "enable_prefix_caching": "cache_config"}
        on = [name for name, part in cutting.items() if getattr(getattr(self.vllm_config, part, None), name, False)]
        if on:
            warnings.warn(f"VLLM_BATCH_INVARIANT: with {' and '.join(on)} other requests may say where a prompt is cut, and bits depend on that", stacklevel=3)

    def _captures_any_step(self) -> bool:
        """Does the library capture graphs of steps of any kind? Asked in each step, since it settles that after it has made this."""
        mode = self.vllm_config.compilation_config.cudagraph_mode
        return mode is not None and mode.mixed_mode().name == "FULL"

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> AuleMetadata:
        """[common_prefix_len]: of a prefix that all requests share, in whole pages; 0 unless :meth:`use_cascade_attention` has said that it pays."""
        common = common_attn_metadata
        if not isinstance(common.causal, (bool, int)):
            raise ArgumentError("requests that are causal and such that are not in one step (causal is a tensor) are not supported by aule", "param")
        if getattr(common, "mm_req_doc_ranges", None) is not None:
            raise ArgumentError("tokens of a prompt that see those behind them (mm_req_doc_ranges) are not supported by aule in its backend of vLLM", "param")
        shared = 0 if self._invariant else common_prefix_len  # an end of a prefix would be an end of a part
        any_step = not shared and self._captures_any_step()  # steps that share are never captured
        count = common.num_reqs
        singles = 0 if any_step or self._invariant else self._singles(common)
        starts = common.query_start_loc[: count + 1]
        prefix = {}
        if shared and singles > 1:  # made on the device, which the host does not wait for
            prefix["groups"] = torch.arange(0, singles + 1, singles, dtype=torch.int32, device=starts.device)
            prefix["shared"] = torch.full((1,), shared, dtype=torch.int32, device=starts.device)
        return AuleMetadata(
            rows=common.num_actual_tokens, singles=singles,
            # A graph of any steps is captured with one that need not have the longest prompt
            most=max(common.num_actual_tokens, 1) if any_step else common.max_query_len, starts=starts,
            starts_of_rest=starts[singles:] - singles if singles else starts, lengths=common.seq_lens[:count],
            table=common.block_table_tensor[:count], slots=common.slot_mapping[: common.num_actual_tokens], causal=bool(common.causal),
            invariant=self._invariant, prefix=prefix,
        )

    @staticmethod
    def _singles(common: Any) -> int:
        count = int(common.num_reqs)
        if common.max_query_len <= 1:
            return count
        each = common.query_start_loc_cpu[: count + 1].diff()
        singles = int((each == 1).int().cumprod(0).sum())
        return singles if singles < count else 0  # it says that there are more rows than it has: it stands for other steps

    def use_cascade_attention(
        self, common_prefix_len: int, query_lens: Any, num_query_heads: int, num_kv_heads: int, use_alibi: bool, use_sliding_window: bool,
        use_local_attention: bool, num_sms: int, dcp_world_size: int,
    ) -> bool:
        """Does it pay to read the prefix once? Rows of prompts and of drafts gain nothing, windows and chunks see little of it, and the library runs such a step
        without graphs of the whole step."""
        singles = int((query_lens == 1).sum())
        excluded = self._invariant or use_sliding_window or use_local_attention or dcp_world_size > 1
        return not excluded and singles >= SHARING and common_prefix_len >= SHARED and singles * common_prefix_len >= SPARED


class AuleImpl(AttentionImpl):
    """The attention of one layer."""

    def __init__(
        self, num_heads: int, head_size: int, scale: float, num_kv_heads: int | None = None, alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None, kv_cache_dtype: str = "auto", logits_soft_cap: float | None = None, attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None, sinks: Tensor | None = None, **more: Any,
    ) -> None:
        for name, x in more.items():
            if x is not None and x is not False:
                raise ArgumentError(f"aule has no {name} in its backend of vLLM", "name")
        if attn_type not in (AttentionType.DECODER, *ENCODERS):
            raise ArgumentError(f"aule has no attention of type {attn_type} in its backend of vLLM", "param")
        if kv_cache_dtype not in AuleBackend.supported_kv_cache_dtypes:
            raise ArgumentError(f"kv_cache_dtype is {kv_cache_dtype}, expected {', '.join(AuleBackend.supported_kv_cache_dtypes)}", "param")
        if getattr(self, "total_cp_world_size", 1) > 1:
            raise ArgumentError("context parallelism is not supported by aule in its backend of vLLM", "param")
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.kv_cache_dtype, self.attn_type = kv_cache_dtype, attn_type
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        if sinks is not None and tuple(sinks.shape) != (num_heads,):
            raise ArgumentError(f"sinks is {list(sinks.shape)}, expected [{num_heads}]", "tensor")
        self._slopes = None if alibi_slopes is None else torch.tensor(alibi_slopes, dtype=torch.float32)
        # A window of w keys has a left end alone where rows are causal
        self._options = {"window": sliding_window, "softcap": logits_soft_cap or None, "sinks": sinks, "scale": self.scale}

    def forward(
        self, layer: Any, query: Tensor, key: Tensor, value: Tensor, kv_cache: Tensor, attn_metadata: AuleMetadata, output: Tensor,
        output_scale: Tensor | None = None, output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """[rows, heads, channels]; writes the keys and values of the step to the cache, then the output."""
        if output_scale is not None or output_block_scale is not None:
            raise Error("aule does not quantize the output of its backend of vLLM (output_scale, output_block_scale)", "unsupported")
        if attn_metadata is None:  # a run that measures memory
            return output.fill_(0)
        step, o = attn_metadata, output.view(-1, self.num_heads, self.head_size)
        query = query.view(-1, self.num_heads, self.head_size)
        if self._slopes is not None:
            self._slopes = self._slopes.to(query.device)
        options: dict[str, Any] = {**self._options, "alibi": self._slopes, "causal": step.causal, "invariant": step.invariant}
        if self.attn_type in ENCODERS:
            keys, values = self._rows(key, value, step.rows)
            attention_varlen(query[: step.rows], keys, values, step.starts, out=o[: step.rows], **options | {"causal": False})
            return output
        keys, values, scales = self._caches(layer, kv_cache)
        if self.kv_sharing_target_layer_name is None:  # else another layer has written them
            caches = {"k": keys.transpose(1, 2), "v": values.transpose(1, 2)}
            storage, given = storage_of(caches, {"k": scales.get("k_scale"), "v": scales.get("v_scale")}, keys)
            k, v = (x.transpose(0, 1)[None] for x in self._rows(key, value, step.rows))
            append(k, v, caches | given, storage=storage, slots=step.slots[None])
        n, options["schedule"] = step.singles, step._lists_of(self)
        if n:
            decode(query[:n, None], keys, values, step.lengths[:n], page_table=step.table[:n], out=o[:n, None], **step.prefix, **options, **scales)
        if len(step.lengths) > n:
            rest = {"max_seqlen_q": step.most, "seqused_k": step.lengths[n:], "page_table": step.table[n:], "out": o[n : step.rows]}
            attention_varlen(query[n : step.rows], keys, values, step.starts_of_rest, **rest, **options, **scales)
        elif step.rows > n:  # that are there to fill up a step
            o[n : step.rows].zero_()
        return output

    def _rows(self, key: Tensor, value: Tensor, rows: int) -> list[Tensor]:
        return [x.view(-1, self.num_kv_heads, self.head_size)[:rows] for x in (key, value)]

    def _caches(self, layer: Any, kv_cache: Tensor) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Keys and values [pages, slots, heads, channels], and the scales of such as are stored in 8 bits."""
        scales: dict[str, Any] = {}
        if self.kv_cache_dtype in FP8:
            kv_cache = kv_cache.view(FP8[self.kv_cache_dtype])
            scales = {"k_scale": layer._k_scale.reshape(-1), "v_scale": layer._v_scale.reshape(-1)}
        keys, values = kv_cache.unbind(1)
        return keys, values, scales


def register() -> None:
    """Makes aule vLLM's backend CUSTOM, in this process: ``attention_backend="CUSTOM"``."""
    register_backend(AttentionBackendEnum.CUSTOM, f"{AuleBackend.__module__}.{AuleBackend.__qualname__}")
