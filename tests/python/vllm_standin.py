"""A stand-in for vLLM's interface of attention backends: names, signatures and abstract methods as in vllm/v1/attention/backend.py, backends/registry.py and
backends/utils.py of vLLM 0.22, and nothing behind them. `install` puts it where `import vllm` finds it."""

from __future__ import annotations

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


class AttentionMetadataBuilder(ABC):
    reorder_batch_threshold = None

    @abstractmethod
    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        self.device = device

    @abstractmethod
    def build(self, common_prefix_len, common_attn_metadata, fast_build=False): ...


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


class AttentionBackendEnum(Enum):
    CUSTOM = None


def register_backend(backend, class_path=None, is_mamba=False):
    registered[backend] = class_path
    return lambda x: x


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
    sys.modules["vllm.v1.attention.backends.utils"].get_kv_cache_layout = lambda: layout[0]
