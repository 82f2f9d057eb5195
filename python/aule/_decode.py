"""Attention over a cache of keys and values: :func:`decode`, and what it has in common with :func:`aule.attention_varlen`."""

from __future__ import annotations

import sys
from typing import Any

import numpy

from . import _again
from ._axes import check_shared
from ._errors import ArgumentError, renamed
from ._plain import _as_tensor, _check_heads, _flag, _number, _prepare, check_unrecorded
from ._schedules import Step
from ._slots import STORED, check_rows
from ._tensors import is_torch

OVER_A_CACHE = "calls over a cache have"  # no gradients

CACHED = {"T_table": "page_table", "T_groups": "groups", "T_shared": "shared", "o": "out"}  # what calls over a cache name otherwise than scripts
NAMES = CACHED | {"T_lengths": "lengths", "k_new": "k", "v_new": "v", "k": "k_cache", "v": "v_cache"}

# Tensors of a call, which those like one before differ in, as plans call them
TENSORS = {name: n for n, name in enumerate(("q", "k", "v", "T_lengths", "T_table", "k_new", "v_new", "alibi", "sinks", "k_scale", "v_scale", "T_groups", "T_shared", "o"))}
_calls = _again.Calls()

KINDS = {name: kind for kind, name in STORED.items()}


def tensor(x: Any, what: str, axes: str) -> Any:
    """A tensor with as many axes as are named; of other libraries by DLPack torch's, where the program has it, else NumPy's."""
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise TypeError(f"{what} must be a tensor, it is {type(x).__name__}")
    if len(x.shape) != axes.count(",") + 1:
        raise ArgumentError(f"{what} has {len(x.shape)} axes, expected {axes}", "tensor")
    if is_torch(x) or isinstance(x, numpy.ndarray) or not hasattr(x, "__dlpack__"):
        return x if is_torch(x) else numpy.asarray(x)
    torch = sys.modules.get("torch")
    return torch.from_dlpack(x) if torch is not None else numpy.from_dlpack(x)


def heads_first(x: Any) -> Any:
    """[.., rows, heads, channels] as [.., heads, rows, channels], a view; and back."""
    return x.swapaxes(-3, -2)


def whole_numbers(x: Any, what: str, axes: str) -> Any:
    x = tensor(x, what, axes)
    name = str(x.dtype).removeprefix("torch.")
    if name != "int32":
        raise ArgumentError(f"{what} is {name}, expected int32 {axes}", "tensor")
    return x


SCALES = {"float16": ":f16", "bfloat16": ":bf16"}  # what a storage says of scales that are no float32


def storage_of(caches: dict[str, Any], scales: dict[str, Any], like: Any, suffix: str = "", packed: bool = False) -> tuple[str | None, dict[str, Any]]:
    """As what keys and values [pages, heads, slots, width], packed ones [1, heads, total, width], are stored, as the compiler spells it, and their scales as
    calls take them.

    [suffix]: behind k and v in the names of the caches as arguments.
    """
    words, given = [], {}
    for name, cache in caches.items():
        stored, scale = str(cache.dtype).removeprefix("torch."), scales[name]
        kind = KINDS.get(stored)
        if kind is None:
            if scale is not None and stored == "uint8":
                raise ArgumentError(f"{name}{suffix} is uint8, which does not say of what type its codes are: {name}{suffix}.view(..) as {', '.join(KINDS)} (of ml_dtypes, torch)", "tensor")
            if scale is not None:
                raise ArgumentError(f"{name}_scale is of keys and values in {', '.join(KINDS)}, and {name}{suffix} is {stored}", "tensor")
            continue
        if scale is None:
            raise ArgumentError(f"{name}{suffix} is {stored} and needs {name}_scale: the element is scale times what is stored", "tensor")
        scale, token = _scale(scale, name, cache, like, packed)
        words.append(f"{name}={kind}{':token' * token}{SCALES.get(str(scale.dtype).removeprefix('torch.'), '')}")
        given[f"{name}_scale"] = scale
    return ",".join(words) or None, given


def _scale(scale: Any, name: str, cache: Any, like: Any, packed: bool) -> tuple[Any, bool]:
    """[1, heads, 1, 1] or, of tokens, [pages, heads, slots, 1], packed ones [1, heads, total, 1]; and whether it is of tokens."""
    pages, heads, slots, _ = cache.shape
    if not hasattr(scale, "shape"):
        scale = _as_tensor(scale if isinstance(scale, (list, tuple)) else [_number(f"{name}_scale", scale)], f"{name}_scale", like)
    shape = tuple(scale.shape)
    if packed and shape == (slots, heads):
        return scale[None, ..., None].swapaxes(1, 2), True
    if not packed and shape == (pages, slots, heads):
        return scale[..., None].swapaxes(1, 2), True
    if shape not in ((), (1,), (heads,)):
        tokens = f"[{slots}, {heads}]" if packed else f"[{pages}, {slots}, {heads}]"
        raise ArgumentError(f"{name}_scale is {list(shape)}, expected a number, [{heads}] for the heads, or {tokens} for the tokens", "tensor")
    return scale.reshape(1, -1, 1, 1), False


def decode(
    q: Any, k_cache: Any, v_cache: Any, lengths: Any, *, k: Any = None, v: Any = None, page_table: Any = None, causal: bool = True,
    window: int | tuple[int, int] | None = None, softcap: float | None = None, alibi: Any = None, sinks: Any = None, scale: float | None = None,
    k_scale: Any = None, v_scale: Any = None, groups: Any = None, shared: Any = None, invariant: bool = False, out: Any = None, return_lse: bool = False, backend: str | None = None,
    schedule: Any = None,
) -> Any:
    """:func:`aule.attention` of a few new rows of each sequence over a cache, to which their keys and values are added first where they are given.

    One row that decodes, several that are verified, a chunk of a prompt: queries are the last S positions of each sequence. Lengths and tables that lie on
    a GPU are not waited for. On processors, OpenCL and Level Zero devices and NVIDIA GPUs. Without gradients: tensors that require one are refused but for `torch.no_grad()`.

    Args:
        q: [B, S, H, D].
        k_cache: [pages, slots, Hk, D] with a page_table, else [B, most, Hk, D]; any strides. In float8_e4m3fn, float8_e5m2 or int8 with k_scale.
        v_cache: the same of values, [.., Hv, E].
        lengths: int32 [B]: keys of each sequence, the new ones among them; 0 for a sequence that is none, whose output is 0.
        k: [B, S, Hk, D]: written to the cache as the last S rows of each sequence, those of positions below 0 left out. v as well, or neither.
        v: [B, S, Hv, E].
        page_table: int32 [B, entries]: row j of sequence b is slot j % slots of page page_table[b, j // slots].
        causal: row i sees keys j <= i + (lengths[b] - S); False: all of them.
        alibi: slopes [H] or [B, H].
        k_scale: a number, [Hk], or of each token [pages, slots, Hk], written too where k is; float32, float16 or bfloat16. v_scale as well.
        groups: int32 [n + 1], from 0 to B, with shared and a page_table: sequences groups[g] to groups[g + 1] have the same first shared[g] keys, on the same pages.
            These are then read once for all of them; results are the same.
        shared: int32 [n], whole pages; 0 for a group that shares nothing.
        invariant: the bits of a sequence's result depend on that sequence alone, whatever else is in the batch; what sequences share is then read for each.
        window, softcap, sinks, scale, backend: as of :func:`aule.attention`.
        out: a tensor to write o into.
        return_lse: also return the log of the normaliser, [B, S, H] in float32.
        schedule: an :class:`aule.serving.Step`, which calls of all layers of a model's step are given: lists of work are then made once.

    Returns:
        o [B, S, H, E] in the type of q; with return_lse (o, lse).

    Raises:
        ArgumentError: something does not fit; the message says what was expected and found.
        Error: no kernel for this call on this device, or the device fails.
    """
    step = None if schedule is None else step_of(schedule)
    (k_rate, k_rates), (v_rate, v_rates) = rates_of(k_scale), rates_of(v_scale)
    tensors = (q, k_cache, v_cache, lengths, page_table, k, v, alibi, sinks, k_rates, v_rates, groups, shared, out)
    call = _again.like((causal, softcap, scale, invariant, backend, return_lse, step is None, k_rate, v_rate, *_again.flat(window)), tensors)
    made = _calls.run(call, tensors, None, step)
    if made is not None:
        o = made[0] if out is None else out
        return (o, made[-1].swapaxes(1, 2)) if return_lse else o
    return_lse, invariant = _flag("return_lse", return_lse), _flag("invariant", invariant)
    rows = "[B, most, {}]" if page_table is None else "[pages, slots, {}]"
    q = heads_first(tensor(q, "q", "[B, S, H, D]"))
    caches = {name: heads_first(tensor(x, f"{name}_cache", rows.format(h))) for name, x, h in (("k", k_cache, "Hk, D"), ("v", v_cache, "Hv, E"))}
    lengths = whole_numbers(lengths, "lengths", "[B]")
    table = None if page_table is None else whole_numbers(page_table, "page_table", "[B, entries]")
    check_unrecorded("aule.decode()", OVER_A_CACHE, q=q, k_cache=k_cache, v_cache=v_cache, k=k, v=v, alibi=alibi, sinks=sinks)
    _check_heads(q, caches["k"], caches["v"], ("k_cache", "v_cache"))
    for what, x in (("lengths", lengths), ("page_table", table), ("k_cache", k_cache if table is None else None)):
        if x is not None and x.shape[0] != q.shape[0]:
            pages = "; a cache in pages has a page_table" if what == "k_cache" else ""
            raise ArgumentError(f"{what} has {x.shape[0]} rows, q has {q.shape[0]} sequences{pages}", "tensor")
    check_caches(k_cache, v_cache, "k_cache", "v_cache", "[B, most, ..]" if table is None else "[pages, slots, ..]")
    prefixes = prefixes_of(groups, shared, table)
    storage, scales = storage_of(caches, {"k": k_scale, "v": v_scale}, q, "_cache")
    if (k is None) != (v is None):
        raise ArgumentError("k and v are added to the cache together; one of them is missing", "tensor")
    new = {} if k is None else {f"{name}_new": _new_rows(x, name, caches[name], q) for name, x in (("k", k), ("v", v))}
    f, named = _prepare(
        q, caches["k"], caches["v"], causal=causal, window=window, softcap=softcap, alibi=alibi, sinks=sinks, bias=None, scale=scale, dropout=0.0, seed=None,
        deterministic=False, gradients=False,
    )
    named |= scales | new | {"T_lengths": lengths} | ({} if table is None else {"T_table": table}) | prefixes
    into = None if out is None else {"o": heads_first(tensor(out, "out", "[B, S, H, E]"))}
    f = f._laid_out("T=padded" if table is None else "T=paged:groups" if prefixes else "T=paged", storage, invariant)
    with renamed("aule.decode()", NAMES):
        with _again.watched(call) as runs:
            results = f._outputs((q, caches["k"], caches["v"]), dict(named), into, backend, step)
    o = heads_first(results["o"]) if out is None else out
    if call is not None:
        wanted = {"o": o, "lse": results["lse"]} if return_lse else {"o": o}
        _calls.keep(call, tensors, TENSORS, runs, wanted, None, step)
    return (o, results["lse"].swapaxes(1, 2)) if return_lse else o


def rates_of(scale: Any) -> tuple[int | float | None, Any]:
    """A scale as a number, which is an option of the call, and as a tensor: one of both, the other None."""
    return (scale, None) if type(scale) in (int, float) else (None, scale)


def step_of(given: Any) -> Any:
    """Which lists a call has says the kernel, which callers do not know: they pass what finds out."""
    if given is None or isinstance(given, Step):
        return given
    raise TypeError(f"schedule is an aule.serving.Step, not {type(given).__name__}; lists of f.schedule are for calls of f")


def check_caches(k: Any, v: Any, k_name: str, v_name: str, axes: str) -> None:
    """Keys and values lie in the same pages."""
    if tuple(k.shape[:2]) != tuple(v.shape[:2]):
        raise ArgumentError(f"{k_name} is {list(k.shape)} and {v_name} {list(v.shape)}, expected the same {axes}", "tensor")


def prefixes_of(groups: Any, shared: Any, table: Any) -> dict[str, Any]:
    """What says which sequences have the same first keys, as calls take it."""
    if not check_shared(groups, shared, None if table is None else table.shape[0]):
        return {}
    if table is None:
        raise ArgumentError("groups share pages, and there is no page_table", "tensor")
    return {"T_groups": whole_numbers(groups, "groups", "[n + 1]"), "T_shared": whole_numbers(shared, "shared", "[n]")}


def _new_rows(x: Any, name: str, cache: Any, q: Any) -> Any:
    """[B, S, heads, channels] with heads first, if they fit."""
    x = tensor(x, name, "[B, S, heads, channels]")
    if tuple(x.shape[:2]) != (q.shape[0], q.shape[2]):
        raise ArgumentError(f"{name} is {list(x.shape)}, expected [{q.shape[0]}, {q.shape[2]}, ..] as q is", "tensor")
    check_rows(x, cache, name)
    return heads_first(x)
