"""vLLM's attention on aule, as its backend CUSTOM::

    import aule.vllm

    aule.vllm.register()
    llm = LLM(model, attention_backend="CUSTOM")

Its cache is read and written where it lies, in the order NHD or HND, in pages of multiples of 16. A step is two calls at most: one for the requests that have
one row each, which the library puts first, and one for all others, prompts and chunks of them.

Written to the interface of vLLM 0.22 (vllm/v1/attention/backend.py and backends/registry.py of its source), and tested with a stand-in for that interface: it
has not run inside vLLM yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
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
    def supports_attn_type(cls, attn_type: str) -> bool:
        return attn_type in (AttentionType.DECODER, *ENCODERS)


@dataclass
class AuleMetadata(AttentionMetadata):
    """A step, the same for all layers. [singles]: how many of the requests, the first ones, have one row each."""

    rows: int
    singles: int
    most: int  # no request has more rows
    starts: Tensor  # of all requests
    starts_of_rest: Tensor
    lengths: Tensor
    table: Tensor
    slots: Tensor
    causal: bool
    lists: Step = field(default_factory=Step)  # of work, which the first layer makes


class AuleMetadataBuilder(AttentionMetadataBuilder):
    """Makes the tensors of a step of vLLM's: nothing is read back from the device."""

    # Graphs of steps in which every request has one row: all that they read then are tensors of vLLM's own, which stay where they are
    _cudagraph_support = AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE
    reorder_batch_threshold = 1  # requests with one row come first

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> AuleMetadata:
        """[common_prefix_len]: of a prefix that all requests share, which saves nothing here."""
        common = common_attn_metadata
        if not isinstance(common.causal, (bool, int)):
            raise ArgumentError("requests that are causal and such that are not in one step (causal is a tensor) are not supported by aule", "param")
        count = common.num_reqs
        each = common.query_start_loc_cpu[: count + 1].diff()
        singles = count if common.max_query_len <= 1 else int((each == 1).int().cumprod(0).sum())
        starts = common.query_start_loc[: count + 1]
        return AuleMetadata(
            rows=common.num_actual_tokens, singles=singles, most=common.max_query_len, starts=starts,
            starts_of_rest=starts[singles:] - singles if singles else starts, lengths=common.seq_lens[:count],
            table=common.block_table_tensor[:count], slots=common.slot_mapping[: common.num_actual_tokens], causal=bool(common.causal),
        )


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
        options: dict[str, Any] = {**self._options, "alibi": self._slopes, "causal": step.causal}
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
        n = step.singles
        if n:
            decode(query[:n, None], keys, values, step.lengths[:n], page_table=step.table[:n], out=o[:n, None], schedule=step.lists, **options, **scales)
        if step.rows > n:
            rest = {"max_seqlen_q": step.most, "seqused_k": step.lengths[n:], "page_table": step.table[n:], "out": o[n : step.rows], "schedule": step.lists}
            attention_varlen(query[n : step.rows], keys, values, step.starts_of_rest, **rest, **options, **scales)
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
