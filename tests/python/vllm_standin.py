"""A stand-in for vLLM's interface of attention backends: names, signatures and abstract methods as in vllm/v1/attention/backend.py, backends/registry.py and
backends/utils.py of vLLM 0.22, its switch VLLM_BATCH_INVARIANT (vllm/envs.py) and modes of graphs (vllm/config/compilation.py), and nothing behind them. `install`
puts it where `import vllm` finds it."""

from __future__ import annotations

import os
import sys
import types
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

import torch

layout = ["NHD"]  # of the cache
registered = {}


class AttentionType(str, Enum):
    DECODER, ENCODER, ENCODER_ONLY, ENCODER_DECODER = "decoder", "encoder", "encoder_only", "encoder_decoder"


class MultipleOf:
    def __init__(self, base: int) -> None:
        self.base = base


class AttentionCGSupport(Enum):
    ALWAYS, UNIFORM_BATCH, UNIFORM_SINGLE_TOKEN_DECODE, NEVER = 3, 2, 1, 0


class AttentionMetadata:
    pass


class AttentionBackend(ABC):
    supported_dtypes = [torch.float16, torch.bfloat16]
    supported_kv_cache_dtypes = ["auto"]
    forward_includes_kv_cache_update = True

    @staticmethod
    @abstractmethod
    def get_name(): ...

    @staticmethod
    @abstractmethod
    def get_impl_cls(): ...

    @staticmethod
    @abstractmethod
    def get_builder_cls(): ...

    @staticmethod
    @abstractmethod
    def get_kv_cache_shape(num_blocks, block_size, num_kv_heads, head_size, cache_dtype_str="auto"): ...

    @classmethod
    def supports_alibi_sqrt(cls):
        return False

    @classmethod
    def supports_batch_invariance(cls):
        return False


class CUDAGraphMode(Enum):
    """What is captured as a whole: (steps in which all requests have as many rows, all others), or the same for both."""

    NONE, PIECEWISE, FULL = 0, 1, 2
    FULL_DECODE_ONLY, FULL_AND_PIECEWISE = (2, 0), (2, 1)

    def mixed_mode(self):
        return CUDAGraphMode(self.value[1]) if isinstance(self.value, tuple) else self


def config(mode=CUDAGraphMode.FULL_AND_PIECEWISE, chunked=True, caching=True):
    of = types.SimpleNamespace
    return of(
        compilation_config=of(cudagraph_mode=mode), scheduler_config=of(enable_chunked_prefill=chunked), cache_config=of(enable_prefix_caching=caching),
    )


class AttentionMetadataBuilder(ABC):
    _cudagraph_support = AttentionCGSupport.NEVER
    reorder_batch_threshold = None

    @classmethod
    def get_cudagraph_support(cls, vllm_config, kv_cache_spec):
        return cls._cudagraph_support

    @abstractmethod
    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        self.vllm_config, self.device = vllm_config, device

    @abstractmethod
    def build(self, common_prefix_len, common_attn_metadata, fast_build=False): ...

    def build_for_cudagraph_capture(self, common_attn_metadata):
        return self.build(common_prefix_len=0, common_attn_metadata=common_attn_metadata)

    def use_cascade_attention(
        self, common_prefix_len, query_lens, num_query_heads, num_kv_heads, use_alibi, use_sliding_window, use_local_attention, num_sms, dcp_world_size,
    ):
        return False


class AttentionImpl(ABC):
    world = 1

    def __new__(cls, *args, **named):
        self = super().__new__(cls)
        self.total_cp_world_size = AttentionImpl.world
        return self

    @abstractmethod
    def __init__(self, num_heads, head_size, scale, num_kv_heads=None, alibi_slopes=None, sliding_window=None, kv_cache_dtype="auto", logits_soft_cap=None,
                 attn_type="decoder", kv_sharing_target_layer_name=None): ...

    @abstractmethod
    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, output_scale=None, output_block_scale=None): ...


@dataclass
class CommonAttentionMetadata:
    query_start_loc: torch.Tensor
    query_start_loc_cpu: torch.Tensor
    seq_lens: torch.Tensor
    num_reqs: int
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    block_table_tensor: torch.Tensor
    slot_mapping: torch.Tensor
    causal: bool | torch.Tensor = True
    mm_req_doc_ranges: dict[int, list[tuple[int, int]]] | None = None


class AttentionBackendEnum(Enum):
    CUSTOM = None


def register_backend(backend, class_path=None, is_mamba=False):
    registered[backend] = class_path
    return lambda x: x


def _environment(name):
    if name != "VLLM_BATCH_INVARIANT":
        raise AttributeError(name)
    return bool(int(os.getenv(name, "0")))


def install() -> None:
    here = globals()
    names = {
        "backend": ("AttentionBackend", "AttentionCGSupport", "AttentionImpl", "AttentionMetadata", "AttentionMetadataBuilder", "AttentionType", "MultipleOf"),
        "backends.registry": ("AttentionBackendEnum", "register_backend"),
        "backends.utils": (),
    }
    for name in ("vllm", "vllm.v1", "vllm.v1.attention", "vllm.v1.attention.backends", *(f"vllm.v1.attention.{name}" for name in names)):
        sys.modules[name] = types.ModuleType(name)
    for name, has in names.items():
        sys.modules[f"vllm.v1.attention.{name}"].__dict__.update({each: here[each] for each in has})
    envs = sys.modules["vllm.envs"] = sys.modules["vllm"].envs = types.ModuleType("vllm.envs")
    envs.__getattr__ = _environment
    sys.modules["vllm.v1.attention.backends.utils"].get_kv_cache_layout = lambda: layout[0]
