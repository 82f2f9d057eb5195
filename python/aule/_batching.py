"""Flash attention's part in transformers, "aule_flash": packed rows, padding masks of two axes, and continuous batching over its paged cache.

What the library hands to implementations of this name (transformers 5.23): no masks of pairs but flags, windows and lengths; the rows of all requests of a
step one after the other; and its cache, to which the new rows are to be added. The cache is read where it lies:

* a block table: pages as they are, for steps in which every request has one row;
* ``read_index``, the rows of a request's keys: of full attention the first row of each page says which page it is, so a table of pages follows from it;
* of sliding windows, whose cache is a ring, with one row for every request: pages of one row. A prompt's chunk may write over rows that it has still to read,
  so there, and nowhere else, the library copies the window's rows and the new ones before they are read.
"""

from __future__ import annotations

from typing import Any, Mapping

import torch
from torch import Tensor

from ._decode import decode
from ._errors import ArgumentError, Error
from ._plain import attention
from ._varlen import attention_varlen


# What reaches every implementation and says nothing of the attention: counts, what else a model is to give back, what the library has put into masks and
# positions already, where rows of its cache lie, which is read where that is given.
BESIDE = frozenset((
    "attn_implementation", "block_table", "cache_position", "cu_seq_lens_k", "labels", "layer_idx", "logits_indices", "logits_processor_args", "logits_to_keep",
    "max_length_k", "max_length_q", "mm_token_type_ids", "num_items_in_batch", "output_hidden_states", "output_router_logits", "position_embeddings",
    "position_ids", "read_index", "return_dict", "seq_idx", "sliding_window", "target_dtype", "token_type_ids", "use_cache", "use_top_left_mask", "write_index",
))


def refuse_others(name: str, more: Mapping[str, Any]) -> None:
    """Refuses what a model says of its attention that this implementation would drop: keys that an index chooses, sinks of other names."""
    for key, x in more.items():
        if key not in BESIDE and x is not None and x is not False:
            raise ArgumentError(f'"{name}" has no {key}, which says something else of the attention: use attn_implementation="eager"', "name")


def flash_forward(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, dropout: float = 0.0, scaling: float | None = None,
    sliding_window: int | None = None, softcap: float | None = None, is_causal: bool | None = None, s_aux: Tensor | None = None, cache: Any = None,
    position_ids: Tensor | None = None, cu_seq_lens_q: Tensor | None = None, cu_seq_lens_k: Any = None, deterministic: bool | None = None, **more: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in place of its own attention: [B, H, S, D] in, [B, S, H, D] out."""
    if more.get("position_bias") is not None:
        raise ArgumentError('"aule_flash" has no position_bias: use attn_implementation="aule"', "name")
    refuse_others("aule_flash", more)
    causal = is_causal if is_causal is not None else bool(getattr(module, "is_causal", True))
    options: dict[str, Any] = {"causal": causal, "window": sliding_window, "softcap": softcap, "sinks": s_aux, "scale": scaling}
    if cu_seq_lens_q is None and attention_mask is None:
        cu_seq_lens_q = cu_seq_lens_k = _starts_of(position_ids, query, key)
    if cu_seq_lens_q is None:
        return _padded(query, key, value, attention_mask, dropout, options | {"deterministic": bool(deterministic)}), None
    for what, there in (("dropout", dropout), ("a mask", attention_mask is not None), ("order of the sums of sinks' gradients", deterministic and s_aux is not None)):
        if there:
            raise ArgumentError(f'"aule_flash" has no {what} where rows of several sequences are packed: leave it out, or use attn_implementation="aule"', "param")
    if cu_seq_lens_k is None and cache is None:
        raise ArgumentError("cu_seq_lens_q without cu_seq_lens_k: where the sequences of keys begin", "tensor")
    rows, keys, values = (x[0].transpose(0, 1) for x in (query, key, value))  # [rows, heads, channels]
    if cache is None:
        return attention_varlen(rows, keys, values, cu_seq_lens_q.int(), cu_seq_lens_k.int(), **options)[None], None
    return _over_cache(module.layer_idx, rows, keys, values, cache, cu_seq_lens_q, cu_seq_lens_k, more, options)[None], None


def _starts_of(positions: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """Where sequences begin that lie one after the other in a batch of one, and say so by positions that begin again with the least; None: there is one."""
    if positions is None or query.shape[0] != 1 or query.shape[2] == 1 or query.shape[2] != key.shape[2] or positions.numel() != query.shape[2]:
        return None
    positions = positions.reshape(-1)
    first = (positions == positions.min()).nonzero().reshape(-1).int()
    if first[0] != 0:
        raise ArgumentError('position_ids begin again with less than the first has: "aule_flash" takes rows of several sequences that begin alike', "tensor")
    if len(first) < 2:
        return None
    return torch.cat([first, first.new_tensor([len(positions)])])


def _padded(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, options: dict[str, Any]) -> Tensor:
    """A batch of sequences, of whose keys the mask [B, T] says which are padding."""
    bias = None
    if mask is not None:
        if mask.dim() != 2:
            raise ArgumentError(f'"aule_flash" takes masks [B, T] of padding, this has {mask.dim()} axes: use attn_implementation="aule"', "tensor")
        key, value = key[:, :, : mask.shape[1]], value[:, :, : mask.shape[1]]  # a cache may have room for more
        bias = mask.bool()[:, None, None]
    return attention(query, key, value, bias=bias, dropout=dropout, **options).transpose(1, 2).contiguous()


@torch.compiler.disable  # caches are written in place
def _over_cache(
    layer: int, q: Tensor, k: Tensor, v: Tensor, cache: Any, starts: Tensor, key_starts: Any, more: dict[str, Any], options: dict[str, Any],
) -> Tensor:
    """A step of continuous batching: [rows, H, D]."""
    try:
        allocator = cache.layer_to_allocator[layer]
        kind, index = allocator.layer_type, allocator.index
    except (AttributeError, KeyError) as error:
        raise Error(f"this cache of continuous batching is not one of transformers 5.23: {type(cache).__name__}, {error!r}", "unsupported") from None
    key_starts, most = key_starts[kind].int(), more["max_length_k"][kind]
    count, lengths = len(key_starts) - 1, key_starts.diff()
    if more.get("block_table") is not None:
        keys, values = allocator.get_cache_for_block_table(layer)
        table, size, last = more["block_table"][index], allocator.tokens_per_page, lengths[:, None].long() - 1
        page = table.long().gather(1, last.clamp(min=0) // size)
        write = torch.where(last >= 0, page * size + last % size, allocator.write_trash_index)[:, 0]
        allocator.update(k[:count], v[:count], layer, write[:0], write)  # its views of keys and of values are of the same memory, which append refuses
        o = q.new_zeros(*q.shape[:2], v.shape[2])  # rows that pad a step are behind those of requests
        decode(q[:count, None], keys, values, lengths, page_table=table, out=o[:count, None], **options)
        return o
    read, write = more["read_index"][index], more["write_index"][index]
    longest = more["max_length_q"]
    one_each = longest == 1 and len(q) == count
    if not read.numel():  # all requests begin
        allocator.update(k, v, layer, read, write)
        return attention_varlen(q, k, v, starts.int(), key_starts, longest, most, **options)
    if kind == "full_attention":
        allocator.update(k, v, layer, read[:0], write)  # writes, and reads nothing
        size = allocator.tokens_per_page
        table = _entries(read, key_starts, -(-most // size), size) // size
        keys, values = allocator.get_cache_for_block_table(layer)
    elif one_each and kind == "sliding_attention" and hasattr(allocator, "_kv_token_views"):
        allocator.update(k, v, layer, read[:0], write)
        read = read.masked_scatter(read == allocator.sentinel_index, write)  # new rows are where they were written
        table = _entries(read, key_starts, most, 1)
        rows = min(map(len, allocator._kv_token_views[layer]))
        keys, values = (x[:rows, None] for x in allocator._kv_token_views[layer])
    else:
        k, v = allocator.update(k, v, layer, read, write)
        return attention_varlen(q, k, v, starts.int(), key_starts, longest, most, **options)
    if one_each:
        return decode(q[:, None], keys, values, lengths, page_table=table.int(), **options)[:, 0]
    return attention_varlen(q, keys, values, starts.int(), max_seqlen_q=longest, seqused_k=lengths, page_table=table.int(), **options)


def _entries(read: Tensor, starts: Tensor, count: int, step: int) -> Tensor:
    """Of each sequence's part of a list every [step]th number, [B, count]; behind a sequence's end any."""
    at = starts[:-1, None].long() + torch.arange(count, device=read.device) * step
    return read[at.clamp(max=len(read) - 1)]


def admit(name: str) -> None:
    """Lets transformers take a name with "flash" in it: it looks for FlashAttention's own functions then, which it never calls for a registered one."""
    from transformers import modeling_flash_attention_utils as utils

    if name in _admitted or not hasattr(utils, "_lazy_imports"):
        return
    if not _admitted:
        load = utils._lazy_imports

        def lazy_imports(implementation: str | None, *args: Any, **named: Any) -> Any:
            if implementation not in _admitted:
                return load(implementation, *args, **named)
            return (_no_function, _no_function, _no_function, utils._pad_input, utils._unpad_input)

        utils._lazy_imports = lazy_imports
    _admitted.add(name)


_admitted: set[str] = set()  # names that were registered


def _no_function(*_: Any, **__: Any) -> Any:
    raise Error("this model calls FlashAttention's functions itself, in place of the attention that transformers lets it choose: use another attn_implementation", "unsupported")
