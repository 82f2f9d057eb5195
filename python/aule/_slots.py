"""New rows of keys and values in caches: where they go, and as what they are stored.

A slot is the number of a row of a cache: page * slots of a page + its place in the page; of -1 nothing is written. Everything here is in operations of
the tensors' own library, none of which waits for a device.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy

from ._errors import ArgumentError
from ._tensors import is_torch

# Of each storage: the type of the tensors, by NumPy's and torch's name, and the largest number that it has
STORED = {"e4m3": ("float8_e4m3fn", 448.0), "e5m2": ("float8_e5m2", 57344.0), "i8": ("int8", 127.0)}


@lru_cache(maxsize=None)
def _numbers(kind: str) -> numpy.ndarray:
    """What the codes 0, 1, .. of a float of 8 bits mean, as far as they are finite and not below 0, in order."""
    exponents, mantissas, bias = (16, 8, 7) if kind == "e4m3" else (31, 4, 15)
    e, m = numpy.divmod(numpy.arange(exponents * mantissas), mantissas)
    values = numpy.where(e == 0, m * 2.0 ** (1 - bias), (mantissas + m) * 2.0 ** (e - bias)) / mantissas
    return values[:-1] if kind == "e4m3" else values  # the last one of e4m3 is NaN


def _codes(x: numpy.ndarray, kind: str) -> numpy.ndarray:
    """The nearest codes, of two that are as near the even one; numbers that are too large become the largest."""
    values = _numbers(kind)
    between = (values[1:] + values[:-1]) / 2
    size = numpy.abs(x.astype(numpy.float64))
    low, high = numpy.searchsorted(between, size, "left"), numpy.searchsorted(between, size, "right")
    code = numpy.where(low % 2, high, low)
    code = numpy.where(numpy.isnan(x), 0x7F, code)
    return (code | numpy.signbit(x) * 0x80).astype(numpy.uint8)


def encode(x: Any, kind: str, scale: Any) -> Any:
    """What is stored of x where the element is scale times it, saturating."""
    name, most = STORED[kind]
    if is_torch(x):
        import torch

        x = x.float() / scale
        x = x.round() if kind == "i8" else x
        return x.clamp(-most, most).to(getattr(torch, name))
    x = x.astype(numpy.float32) / scale
    if kind == "i8":
        return numpy.clip(numpy.rint(x), -most, most).astype(numpy.int8)
    return _codes(numpy.clip(x, -most, most), kind)


def scales_of(x: Any, kind: str) -> Any:
    """A scale for each row, by which its largest number is the largest that can be stored: [..., 1], float32."""
    most = STORED[kind][1]
    if is_torch(x):
        largest = x.float().abs().amax(-1, keepdim=True)
        return largest.where(largest > 0, 1) / most
    largest = numpy.abs(x.astype(numpy.float32)).max(-1, keepdims=True)
    return numpy.where(largest > 0, largest, 1).astype(numpy.float32) / numpy.float32(most)


def write(cache: Any, rows: Any, slots: Any) -> None:
    """Writes rows [n, H, D] to the slots of a cache [pages, H, slots, D] of any strides, in place.

    Args:
        slots: int64 [n], -1 for a row that is not written. No two of a call are equal but for -1.
    """
    if is_torch(cache):
        _write_torch(cache, rows, slots)
        return
    wanted = slots >= 0
    page, at = numpy.divmod(slots[wanted], cache.shape[2])
    cache[page, :, at] = rows[wanted]


def _write_torch(cache: Any, rows: Any, slots: Any) -> None:
    import torch

    if not rows.shape[0]:
        return
    # How many are not written is known to the device alone: instead, they write once more what another row writes. Where none is written, that is what slot 0 has.
    wanted = slots >= 0
    instead = wanted.int().argmax()  # the first one that is
    source = torch.where(wanted, torch.arange(rows.shape[0], device=rows.device), instead)
    target = slots[source].clamp(min=0)
    page, at = target // cache.shape[2], target % cache.shape[2]
    rows = rows.to(cache.dtype)[source]
    cache, rows = as_bytes(cache), as_bytes(rows)
    with torch.no_grad():
        cache[page, :, at] = torch.where(wanted.any(), rows, cache[page, :, at])


def as_bytes(x: Any) -> Any:
    """Numbers of 8 bits as their codes, of which torch has more operations; others as they are."""
    if not is_torch(x) or x.element_size() > 1:
        return x
    import torch

    return x.view(torch.uint8)


def append(cache: Any, rows: Any, slots: Any, kind: str | None = None, scale: Any = None, by_token: bool = False) -> None:
    """Writes rows as :func:`write` does, as codes where they are stored in 8 bits, then with scales of their own where each token has one."""
    if kind is not None:
        own = scales_of(rows, kind) if by_token else scale.reshape(-1, 1)
        if by_token:
            write(scale, own, slots)
        rows = encode(rows, kind, own)
    write(cache, rows, slots)


def slots_of_last(lengths: Any, rows: int, table: Any, slots: int, most: int) -> Any:
    """The slots of the last [rows] positions of each sequence, [B * rows]; -1 of positions below 0 and beyond the room there is.

    Args:
        lengths: int32 [B], these rows among them.
        table: int32 [B, entries]; None: sequence b has page b.
        slots: of a page.
        most: positions that a sequence has room for.
    """
    if is_torch(lengths):
        import torch

        position = lengths[:, None].long() - rows + torch.arange(rows, device=lengths.device)
        page = torch.arange(lengths.shape[0], device=lengths.device)[:, None]
        where: Any = torch.where
    else:
        position = lengths[:, None].astype(numpy.int64) - rows + numpy.arange(rows)
        page = numpy.arange(lengths.shape[0])[:, None]
        where = numpy.where
    there = (position >= 0) & (position < most)
    position = position.clip(0, max(most - 1, 0))
    if table is not None:
        at = position // slots
        page = table.long().gather(1, at) if is_torch(table) else numpy.take_along_axis(table, at, 1).astype(numpy.int64)
        position = position % slots
    return where(there & (page >= 0), page * slots + position, -1).reshape(-1)


def check_rows(rows: Any, cache: Any, what: str) -> None:
    """Refuses rows [n, H, D] that do not fit a cache [pages, H, slots, D]."""
    expected = (cache.shape[1], cache.shape[3])
    if len(rows.shape) != 3 or tuple(rows.shape[1:]) != expected:
        raise ArgumentError(f"{what} is {list(rows.shape)}, expected [rows, {expected[0]}, {expected[1]}] for a cache {list(cache.shape)}", "tensor")
