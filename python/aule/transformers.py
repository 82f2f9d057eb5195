"""Models of Hugging Face's transformers on aule::

    import aule.transformers

    aule.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="aule")

Grouped heads are not repeated, masks are read as they are, and soft caps, sinks and position biases go into the kernel: what the
library's "sdpa" does or refuses, without its copies. For continuous batching there is "aule_flash"::

    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="aule_flash")
    model.generate_batch(prompts, ..)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._batching import admit, flash_forward, refuse_others
from ._errors import ArgumentError
from ._plain import attention


def _bias(mask: Tensor | None, position_bias: Tensor | None, keys: int) -> Tensor | None:
    """One tensor that is added to scores, or says which pairs take part, of what models bring."""
    if mask is not None:
        mask = mask[..., :keys]  # a mask may be as long as a cache that is not full
    if position_bias is None or mask is None:
        return mask if position_bias is None else position_bias[..., :keys]
    if mask.dtype == torch.bool:
        return torch.where(mask, position_bias[..., :keys], -torch.inf)
    return mask + position_bias[..., :keys]


def attention_forward(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, dropout: float = 0.0,
    scaling: float | None = None, is_causal: bool | None = None, softcap: float | None = None, s_aux: Tensor | None = None,
    position_bias: Tensor | None = None, cache: Any = None, cu_seq_lens_q: Tensor | None = None, deterministic: bool | None = None, **more: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in place of its own attention: [B, H, S, D] in, [B, S, H, D] out."""
    if cache is not None:
        raise ArgumentError('continuous batching goes by attn_implementation="aule_flash"', "tensor")
    if cu_seq_lens_q is not None and attention_mask is None:
        raise ArgumentError('cu_seq_lens_q, packed rows without a mask, goes by attn_implementation="aule_flash"', "tensor")
    refuse_others("aule", more)
    rows = query.shape[2]
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    # The library leaves the mask away where "causal" says all, with queries and keys that begin together
    # (a cache that is longer is then still empty behind them); a single query of a decoder sees every key.
    causal = bool(causal) and attention_mask is None and rows > 1
    if causal:
        key, value = key[:, :, :rows], value[:, :, :rows]
    if query.shape[0] != key.shape[0]:  # learned queries
        query = query.expand(key.shape[0], -1, -1, -1)
    o = attention(
        query, key, value, causal=causal, bias=_bias(attention_mask, position_bias, key.shape[2]), softcap=softcap, sinks=s_aux, scale=scaling,
        dropout=dropout, deterministic=bool(deterministic),
    )
    return o.transpose(1, 2).contiguous(), None


def register(name: str = "aule", flash: str = "aule_flash") -> None:
    """Makes two implementations known to transformers, as ``attn_implementation=name`` and ``=flash``.

    Args:
        name: what the library's "sdpa" does: any mask.
        flash: what its "flash_attention_2" does: packed rows, padding, windows, and continuous batching (docs/serving.md). Its name has "flash" in it; one
            that ends in 2, as "aule_flash2", is given block tables on CUDA, which the library keeps for names like that.
    """
    from transformers.masking_utils import AttentionMaskInterface, flash_attention_mask, sdpa_mask
    from transformers.modeling_utils import AttentionInterface

    if "flash" not in flash:
        raise ArgumentError(f"flash is {flash!r}, expected a name with 'flash' in it: transformers goes by that", "name")
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)
    admit(flash)
    AttentionInterface.register(flash, flash_forward)
    AttentionMaskInterface.register(flash, flash_attention_mask)
