"""Sequences of any lengths one after the other: :func:`attention_varlen`."""

from __future__ import annotations

from typing import Any

import numpy

from . import _again, _devices
from ._axes import check_most
from ._compiler import Compiled
from ._decode import CACHED, OVER_A_CACHE, check_caches, heads_first, prefixes_of, rates_of, step_of, storage_of, tensor, whole_numbers
from ._errors import ArgumentError, Error, renamed
from ._function import is_traced
from ._plain import _check_heads, _flag, _prepare, check_unrecorded
from ._slots import check_rows
from ._tensors import is_torch

PACKED = ("cpu", "opencl", "levelzero", "cuda")  # backends with kernels of packed rows; elsewhere a call is one dense call for each sequence
NAMES = CACHED | {"T_lengths": "seqused_k", "S_starts": "cu_seqlens_q", "T_starts": "cu_seqlens_k", "S_most": "max_seqlen_q", "T_most": "max_seqlen_k"}

# Tensors of a call, which those like one before differ in (_again.py), as plans call them
TENSORS = {name: n for n, name in enumerate(("q", "k", "v", "S_starts", "T_starts", "T_lengths", "T_table", "k_new", "v_new", "alibi", "sinks", "k_scale", "v_scale", "T_groups", "T_shared", "o"))}
_calls = _again.Calls()


def _most(given: int | None, what: str) -> int | None:
    most = check_most(given, what)
    return None if most is None else _bound(most)


def _bound(most: int) -> int:
    """Which need not be near where rows are many: calls of few bounds have few plans."""
    return most if most <= 16 else min(1 << (most - 1).bit_length(), (1 << 31) - 1)


def _check_starts(x: Any, what: str) -> None:
    """All that can be said of them without their values."""
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise TypeError(f"{what} must be a tensor, it is {type(x).__name__}")
    name = str(x.dtype).removeprefix("torch.")
    if name != "int32" or len(x.shape) != 1:
        raise ArgumentError(f"{what} is {name} of {len(x.shape)} axes, expected int32 [B + 1]", "tensor")
    if x.shape[0] < 1:
        raise ArgumentError(f"{what} has no elements, expected where each sequence begins and where the last ends: 1 at least, of no sequence", "tensor")


def _rows(x: Any) -> int:
    return int(x.shape[0]) if len(getattr(x, "shape", ())) else 0


def _as_one(starts: Any, key_starts: Any, table: Any, lengths: Any, alibi: Any) -> tuple[Any, ...]:
    """No sequence at all is as one without rows, whose starts are twice the same. What is of sequences, which it does not have, is left as it is, to be refused."""
    given = starts, key_starts, table, lengths, alibi
    by_sequence = len(getattr(alibi, "shape", ())) == 2
    if _rows(starts) != 1 or (key_starts is not None and _rows(key_starts) != 1) or _rows(table) or _rows(lengths):
        return given
    if by_sequence and alibi.shape[0]:
        raise ArgumentError(f"alibi has {alibi.shape[0]} rows, cu_seqlens_q has 0 sequences", "tensor")

    def one(x: Any, what: str, axes: str) -> Any:
        if x is None or x.shape[0]:
            return x
        x = tensor(x, what, axes)
        shape = (1, *[max(n, 1) for n in x.shape[1:]])
        return x.new_zeros(shape) if is_torch(x) else numpy.zeros(shape, x.dtype)

    starts, key_starts = (x if x is None else tensor(x, "cu_seqlens", "[B + 1]").repeat(2) for x in (starts, key_starts))
    return starts, key_starts, one(table, "page_table", "[B, entries]"), one(lengths, "seqused_k", "[B]"), one(alibi, "alibi", "[B, H]") if by_sequence else alibi


def _is_far(x: Any) -> bool:
    """Whether its values are not waited for: those on a device, which kernels keep within the tensors, and those of a call that is traced, which a
    processor looks at when it runs."""
    return is_torch(x) and (x.device.type != "cpu" or is_traced())


def _starts(x: Any, what: str, of: str, rows: int) -> list[int]:
    """The values, on the host, if they are what they must be."""
    values: list[int] = x.tolist()
    if values[0] != 0:
        raise ArgumentError(f"{what} begins with {values[0]}, expected 0", "tensor")
    for n, (before, after) in enumerate(zip(values, values[1:])):
        if after < before:
            raise ArgumentError(f"{what} decreases at {n + 1}: {after} after {before}", "tensor")
    if values[-1] > rows:
        raise ArgumentError(f"{what} ends with {values[-1]}, {of} has {rows} rows", "tensor")
    return values


def _longest(said: int | None, starts: list[int]) -> int:
    """What a call does not say, where the host has read the starts anyway: kernels for few queries of a sequence then run for those who have few."""
    return said if said is not None else _bound(max(after - before for before, after in zip(starts, starts[1:])))


def _by_heads(x: Any, what: str) -> Any:
    """[total, H, D] as [1, H, total, D], a view."""
    return heads_first(tensor(x, what, "[total, H, D]"))[None]


def _backend_of(q: Any, backend: str | None) -> str:
    if backend not in (None, "auto"):
        return str(backend).split(":")[0]
    if is_torch(q) and q.device.type != "cpu":
        return str(q.device.type)
    return str(_devices.chosen() or "cpu").split(":")[0]


def _joined(pieces: list[Any], rows: int, shape: tuple[int, ...], q: Any, dtype: Any, value: float) -> Any:
    """Of [1, H, rows of a sequence, ..]; rows of no sequence are [value]."""
    missing = rows - sum(x.shape[2] for x in pieces)
    shape = (1, q.shape[1], missing, *shape)
    if is_torch(q):
        import torch

        return torch.cat([*pieces, torch.full(shape, value, dtype=dtype, device=q.device)], 2)
    return numpy.concatenate([*pieces, numpy.full(shape, value, dtype)], 2)


def _one_by_one(f: Compiled, q: Any, k: Any, v: Any, starts: Any, named: dict[str, Any], backend: str | None) -> dict[str, Any]:
    """As many dense calls as there are sequences with queries."""
    made = []
    some = starts[0][-1] > 0
    for n, (begin, end, first, last) in enumerate(zip(starts[0], starts[0][1:], starts[1], starts[1][1:])):
        if end > begin or not some:  # where none has any, calls without rows: autograd has what there is no gradient of
            own = {name: x[n : n + 1] if name == "alibi" and len(x.shape) == 2 else x for name, x in named.items()}
            made.append(f._outputs((q[:, :, begin:end], k[:, :, first:last], v[:, :, first:last]), own, None, backend))
    if is_torch(q):
        import torch

        row = torch.float32
    else:
        row = numpy.float32
    rows = q.shape[2]
    return {
        "o": _joined([m["o"] for m in made], rows, (v.shape[3],), q, q.dtype, 0.0),
        "lse": _joined([m["lse"] for m in made], rows, (), q, row, float("-inf")),
    }


def attention_varlen(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any = None, max_seqlen_q: int | None = None, max_seqlen_k: int | None = None, *, k_new: Any = None, v_new: Any = None, seqused_k: Any = None, page_table: Any = None, causal: bool = False,
    window: int | tuple[int, int] | None = None, softcap: float | None = None, alibi: Any = None, sinks: Any = None, scale: float | None = None,
    k_scale: Any = None, v_scale: Any = None, groups: Any = None, shared: Any = None, invariant: bool = False, out: Any = None, return_lse: bool = False, backend: str | None = None,
    schedule: Any = None,
) -> Any:
    """:func:`attention` of each of B sequences that lie one after the other, of any lengths, 0 too.

    On processors, devices of OpenCL and Level Zero and NVIDIA GPUs it is one call of kernels for packed rows, and gradients are another; starts that lie on a GPU are not
    waited for, and wrong ones are kept within the tensors. On other devices, and where ``torch.use_deterministic_algorithms`` asks for one order of the sums that gradients
    of alibi and sinks are, it is a dense call for each sequence, whose starts are waited for; on other devices keys in pages are refused.
    Differentiable as :func:`attention` is, but for keys in pages.

    Args:
        q: [total queries, H, D]; sequence b has the rows cu_seqlens_q[b] to cu_seqlens_q[b + 1].
        k: [total keys, Hk, D]; with a page_table [pages, slots, Hk, D]; in float8_e4m3fn, float8_e5m2 or int8 too, with k_scale.
        v: [total keys, Hv, E]; with a page_table [pages, slots, Hv, E].
        cu_seqlens_q: int32 [B + 1], from 0 on and never less; [0] of no sequence. Rows from the last one on are of no sequence: o is 0 there, and what q has does not matter.
        cu_seqlens_k: the same of k and v; by default that of the queries. Not with a page_table.
        max_seqlen_q, max_seqlen_k: no sequence has more queries, more keys. Sequences of few queries are then as fast as with :func:`decode`; both must be right. By
            default what starts on the host say, on processors.
        k_new: [total queries, Hk, D], with a page_table: keys of the queries' tokens, written to the cache first, as the last rows of each sequence. v_new as well, or neither.
        seqused_k: int32 [B], with a page_table: how many keys each sequence has, those of its queries among them.
        page_table: int32 [B, entries]: keys lie in pages, row j of sequence b in slot j % slots of page page_table[b, j // slots].
        causal: query i of a sequence sees its keys j <= i + (T - S), S and T of the sequence: its queries are the last S of T positions.
        alibi: slopes [H] or [B, H].
        k_scale: a number, [Hk], or of each token [pages, slots, Hk], of packed keys [total keys, Hk], float32, float16 or bfloat16: the element is scale times what is stored. v_scale as well.
        groups, shared: as of :func:`decode`, with a page_table: sequences that have the same first keys, which are read once for those of few queries.
        window, softcap, sinks, scale, backend: as of :func:`attention`.
        invariant: the bits of a sequence's result depend on that sequence alone, whatever else is in the batch and however long others are. Without gradients.
        out: a tensor to write o into.
        return_lse: also return the log of the normaliser, [total queries, H] in float32.
        schedule: as of :func:`decode`.

    Returns:
        o [total queries, H, E] in the type of q; with return_lse (o, lse).

    Raises:
        ArgumentError: something does not fit; the message says what was expected and found.
        Error: no kernel for this call on this device, or the device fails.
    """
    step = step_of(schedule)
    (k_rate, k_rates), (v_rate, v_rates) = rates_of(k_scale), rates_of(v_scale)
    tensors = (q, k, v, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, k_new, v_new, alibi, sinks, k_rates, v_rates, groups, shared, out)
    call = None
    if getattr(q, "is_cuda", False):  # starts on the host are read by each call
        bounds = [_bound(n) if type(n) is int and 0 < n < 1 << 31 else n for n in (max_seqlen_q, max_seqlen_k)]
        call = _again.like((*bounds, causal, softcap, scale, invariant, backend, return_lse, step is None, k_rate, v_rate, *_again.flat(window)), tensors)
    made = _calls.run(call, tensors, None, step)
    if made is not None:
        o = made[0] if out is None else out
        return (o, made[-1][0].swapaxes(0, 1)) if return_lse else o
    return_lse, invariant = _flag("return_lse", return_lse), _flag("invariant", invariant)
    _check_starts(cu_seqlens_q, "cu_seqlens_q")
    if cu_seqlens_q.shape[0] == 1:
        cu_seqlens_q, cu_seqlens_k, page_table, seqused_k, alibi = _as_one(cu_seqlens_q, cu_seqlens_k, page_table, seqused_k, alibi)
        if groups is not None and shared is not None and not _rows(shared):
            groups = shared = None
    q = _by_heads(q, "q")
    if page_table is not None:
        k, v = (heads_first(tensor(x, what, "[pages, slots, heads, channels]")) for x, what in ((k, "k"), (v, "v")))
        check_unrecorded("aule.attention_varlen()", OVER_A_CACHE, q=q, k=k, v=v)
        check_caches(heads_first(k), heads_first(v), "k", "v", "[pages, slots, ..]")
    else:
        k, v = _by_heads(k, "k"), _by_heads(v, "v")
    _check_heads(q, k, v)
    f, named = _prepare(
        q, k, v, causal=causal, window=window, softcap=softcap, alibi=alibi, sinks=sinks, bias=None, scale=scale, dropout=0.0, seed=None,
        deterministic=False, gradients=False,
    )
    if invariant:
        check_unrecorded("aule.attention_varlen()", "calls with invariant=True have", q=q, k=k, v=v, **named)
    most = _most(max_seqlen_q, "max_seqlen_q"), _most(max_seqlen_k, "max_seqlen_k")
    into = None if out is None else {"o": _by_heads(out, "out")}
    with _again.watched(call) as runs:
        if page_table is not None:
            more = prefixes_of(groups, shared, page_table) | _new_rows(q, k, v, k_new, v_new)
            scales = {"k": k_scale, "v": v_scale}
            results = _over_pages(f, q, k, v, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, scales, most[0], invariant, into, named | more, backend, step)
        else:
            for what, x in (("seqused_k", seqused_k), ("groups", groups), ("shared", shared), ("k_new", k_new), ("v_new", v_new)):
                if x is not None:
                    raise ArgumentError(f"{what} is for keys in pages, with a page_table; packed keys have none", "tensor")
            storage, scales = storage_of({"k": k, "v": v}, {"k": k_scale, "v": v_scale}, q, packed=True)
            if storage:
                check_unrecorded("aule.attention_varlen()", "keys and values stored as codes have", q=q, **named)
            results = _over_rows(f, q, k, v, cu_seqlens_q, cu_seqlens_k, most, invariant, into, named | scales, backend, step, storage)
    o = heads_first(results["o"][0]) if out is None else out
    if call is not None:
        names = TENSORS if cu_seqlens_k is not None else TENSORS | {"T_starts": TENSORS["S_starts"]}
        _calls.keep(call, tensors, names, runs, {"o": o, "lse": results["lse"]} if return_lse else {"o": o}, None, step)
    return (o, results["lse"][0].swapaxes(0, 1)) if return_lse else o


def _new_rows(q: Any, k: Any, v: Any, k_new: Any, v_new: Any) -> dict[str, Any]:
    """Rows of the queries' tokens that are appended first, packed as those."""
    if (k_new is None) != (v_new is None):
        raise ArgumentError("k_new and v_new are added to the cache together; one of them is missing", "tensor")
    if k_new is None:
        return {}
    for what, x, cache in (("k_new", k_new, k), ("v_new", v_new, v)):
        check_rows(tensor(x, what, "[total queries, heads, channels]"), cache, what)
        if x.shape[0] != q.shape[2]:
            raise ArgumentError(f"{what} has {x.shape[0]} rows, q has {q.shape[2]}: they are of the same tokens", "tensor")
    return {"k_new": _by_heads(k_new, "k_new"), "v_new": _by_heads(v_new, "v_new")}


def _over_pages(
    f: Compiled, q: Any, k: Any, v: Any, starts: Any, key_starts: Any, lengths: Any, table: Any, scales: dict[str, Any], most: int | None, invariant: bool, out: Any,
    named: dict[str, Any], backend: str | None, step: Any,
) -> Any:
    """One call of packed queries over keys in pages."""
    if key_starts is not None:
        raise ArgumentError("cu_seqlens_k is of packed keys; keys in pages have seqused_k, the length of each sequence", "tensor")
    if lengths is None:
        raise ArgumentError("keys in pages need seqused_k, int32 [B], the length of each sequence", "tensor")
    table, lengths = whole_numbers(table, "page_table", "[B, entries]"), whole_numbers(lengths, "seqused_k", "[B]")
    for what, x in (("page_table", table), ("seqused_k", lengths)):
        if x.shape[0] != starts.shape[0] - 1:
            raise ArgumentError(f"{what} has {x.shape[0]} rows, cu_seqlens_q has {starts.shape[0] - 1} sequences", "tensor")
    if not _is_far(starts):
        values = _starts(starts, "cu_seqlens_q", "q", q.shape[2])
        if _backend_of(q, backend) == "cpu":
            most = _longest(most, values)
    storage, given = storage_of({"k": k, "v": v}, scales, q)
    if most is not None:
        named = named | {"S_most": most}
    # Which kernels a sequence has must not depend on whether a call says how many rows the others have; prefixes are read once by those that need to know
    prefixes = ":groups" if "T_groups" in named else ""
    f = f._laid_out(("S=packed,T=paged" if most is None and not invariant and not prefixes else "S=packed:most,T=paged") + prefixes, storage, invariant)
    with renamed("aule.attention_varlen()", NAMES):
        return f._outputs((q, k, v), {"S_starts": starts, "T_table": table, "T_lengths": lengths, **named, **given}, out, backend, step)


def _over_rows(
    f: Compiled, q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any, most: tuple[int | None, int | None], invariant: bool, out: Any,
    named: dict[str, Any], backend: str | None, step: Any, storage: str | None,
) -> Any:
    """One call of packed queries and keys; or one for each sequence, where there are no such kernels."""
    if k.shape[2] != v.shape[2]:
        raise ArgumentError(f"k has {k.shape[2]} rows, v has {v.shape[2]}", "tensor")
    own = starts_k is not None
    lists = ((starts_q, "cu_seqlens_q", "q", q.shape[2]), (starts_k if own else starts_q, "cu_seqlens_k" if own else "cu_seqlens_q", "k", k.shape[2]))
    for x, what, _, _ in lists:
        _check_starts(x, what)
    if len(lists[0][0]) != len(lists[1][0]):
        raise ArgumentError(f"cu_seqlens_q has {len(lists[0][0])} elements, cu_seqlens_k has {len(lists[1][0])}", "tensor")
    # Packed kernels add up gradients of slopes and sinks in any order
    ordered = f._options.get("deterministic") and any(getattr(x, "requires_grad", False) for x in named.values())
    where = _backend_of(q, backend)
    packed = (where in PACKED and not ordered) or getattr(starts_q, "is_meta", False)  # starts without values: shapes alone, wherever it is
    far = packed and any(_is_far(x) for x, _, _, _ in lists)
    starts = [] if far else [_starts(*x) for x in lists]
    if packed:
        if starts and where == "cpu":
            most = _longest(most[0], starts[0]), _longest(most[1], starts[1])
        words = [":most" if n is not None or invariant else "" for n in most]
        named = named | {name: n for name, n in zip(("S_most", "T_most"), most) if n is not None}
        f = f._laid_out(f"S=packed{words[0]},T=packed{words[1]}", storage, invariant)
        with renamed("aule.attention_varlen()", NAMES):
            return f._outputs((q, k, v), {"S_starts": lists[0][0], "T_starts": lists[1][0], **named}, out, backend, step)
    if storage:
        raise Error(f"{where} has no kernels of packed keys stored as codes; {', '.join(PACKED)} have", "unsupported")
    made = _one_by_one(f, q, k, v, starts, named, backend)
    if out is not None:
        out["o"][:] = made["o"]
    return made
