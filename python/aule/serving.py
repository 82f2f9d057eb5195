"""A cache of keys and values in pages, for programs that serve: who has which pages, and the memory of them.

    cache = aule.serving.Cache(layers=2, pages=64, page_size=16, heads=2, widths=32, dtype="float32")
    f = aule.compile("mha.attn", layout="S=packed,T=paged")
    a = cache.pages.add()                                    # a sequence
    cache.copy(cache.pages.extend(a, 10))                    # room for ten tokens
    cache.append(layer, k, v, cache.pages.slots([a], [10]))  # k, v [10, heads, width]
    table, lengths = cache.pages.of([a])
    o = f(q, **cache.named(layer), T_table=table, T_lengths=lengths, S_starts=starts)

It is for tests, demos and small programs: engines have their own (:mod:`aule.vllm`, :mod:`aule.transformers`). Tensors are NumPy arrays, or torch's on a
device; who has which page is kept on the host, and what kernels read of it is brought to the device without waiting for it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Iterable, Sequence

import numpy

from ._decode import tensor
from ._errors import ArgumentError, Error
from ._schedules import Step
from ._slots import STORED, append, as_bytes, check_rows
from ._tensors import STORED_AS
from ._used import use

__all__ = ["Cache", "OutOfPages", "Pages", "Step", "use"]


class OutOfPages(Error):
    """There are too few free pages for what was asked; nothing was changed."""

    def __init__(self, wanted: int, free: int) -> None:
        super().__init__(f"{wanted} pages are needed, {free} are free: let go of sequences (Pages.free), and compute their rows again later", "memory")


def _tensor(values: Any, dtype: str, device: Any) -> Any:
    """A NumPy array where device is None, else torch's, whose copy to a GPU is not waited for."""
    if device is None and dtype == "bfloat16":
        import ml_dtypes

        return numpy.array(values, ml_dtypes.bfloat16)
    if device is None:
        return numpy.array(values, dtype)
    import torch

    host = torch.tensor(values, dtype=getattr(torch, dtype), pin_memory=torch.device(device).type == "cuda")
    return host.to(device, non_blocking=True)


class Pages:
    """Who has which pages of a pool. A sequence is a row of :attr:`table`; pages may be those of several, and then are not written.
    What is refused changes nothing. For one thread at a time.

    Attributes:
        count: pages of the pool.
        page_size: slots, of one token each, of a page.
    """

    def __init__(self, count: int, page_size: int, *, sequences: int = 64, entries: int | None = None, device: Any = None) -> None:
        """
        Args:
            sequences: most sequences at a time, rows of the table.
            entries: most pages of a sequence, columns of the table; by default as many as there are.
            device: of torch ("cpu", "cuda") where the table is a tensor of torch's; None: a NumPy array.
        """
        for what, n in (("count", count), ("page_size", page_size), ("sequences", sequences), ("entries", count if entries is None else entries)):
            if not isinstance(n, (int, numpy.integer)) or isinstance(n, bool) or n < 1:
                raise ArgumentError(f"{what} is {n!r}, expected a whole number, 1 at least", "param")
        self.count, self.page_size, self.device = int(count), int(page_size), device
        self._entries = int(count if entries is None else entries)
        self._users = [0] * self.count  # of each page
        self._unused = list(range(self.count - 1, -1, -1))  # a stack
        self._rows = list(range(int(sequences) - 1, -1, -1))
        self._have: dict[int, list[int]] = {}  # pages of each sequence
        self._lengths: dict[int, int] = {}
        self._table = _tensor([[-1] * self._entries] * int(sequences), "int32", device)
        self._table_lengths = _tensor([0] * int(sequences), "int32", device)
        self._new_entries: dict[tuple[int, int], int] = {}  # what the tensors do not have yet
        self._new_lengths: dict[int, int] = {}

    # ---- pages

    @property
    def available(self) -> int:
        """Free pages."""
        return len(self._unused)

    def allocate(self, n: int = 1) -> list[int]:
        """n free pages, which then have one user.

        Raises:
            OutOfPages: there are fewer.
        """
        if n < 0:
            raise ArgumentError(f"{n} pages", "param")
        if n > len(self._unused):
            raise OutOfPages(n, len(self._unused))
        pages = [self._unused.pop() for _ in range(n)]
        for page in pages:
            self._users[page] = 1
        return pages

    def share(self, pages: Iterable[int]) -> None:
        """One more user for each of these pages."""
        pages = list(pages)
        for page in pages:
            self._check_used(page)
        for page in pages:
            self._users[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """One user less for each of these pages; those without one are free."""
        counts = Counter(pages)
        for page, n in counts.items():
            self._check_used(page, n)
        for page in counts.elements():
            self._users[page] -= 1
            if not self._users[page]:
                self._unused.append(page)

    def users(self, page: int) -> int:
        """How many sequences, and calls of :meth:`share` and :meth:`allocate`, a page has."""
        return self._users[page] if 0 <= page < self.count else 0

    def _check_used(self, page: int, users: int = 1) -> None:
        if not 0 <= page < self.count or self._users[page] < users:
            raise ArgumentError(f"page {page} is not in use, of {self.count} pages", "param")

    # ---- sequences

    def add(self, pages: Sequence[int] = (), length: int = 0) -> int:
        """A new sequence: the number of its row. With pages, of a prefix that is kept, it has so many tokens already, and shares the pages that these are in."""
        if not 0 <= length <= len(pages) * self.page_size:
            raise ArgumentError(f"length is {length}, {len(pages)} pages of {self.page_size} have room for {len(pages) * self.page_size}", "param")
        if not self._rows:
            raise Error(f"there are {len(self._have)} sequences already, as many as the table has rows", "memory")
        have = list(pages)[: -(-length // self.page_size)]  # behind them `extend` would write on what is another's
        self._check_room(len(have))
        self.share(have)
        row = self._rows.pop()
        self._have[row] = []
        self._set(row, have, length)
        return row

    def fork(self, row: int) -> int:
        """A new sequence with the tokens of another, whose pages it shares until one of the two writes on them (:meth:`extend`)."""
        return self.add(self.pages_of(row), self._lengths[row])

    def needed(self, row: int, n: int) -> int:
        """How many free pages :meth:`extend` takes for n more tokens."""
        have, length = self.pages_of(row), self._lengths[row]
        return -(-(length + n) // self.page_size) - len(have) + bool(n and self._copied(row))

    def extend(self, row: int, n: int) -> list[tuple[int, int]]:
        """Room for n more tokens of a sequence, which then count in its length.

        Returns:
            pages to copy, (from, to), before rows are written: the last page of the sequence if it has other users (:meth:`Cache.copy`).

        Raises:
            OutOfPages: too few are free.
        """
        have, length = list(self.pages_of(row)), self._lengths[row]
        copies: list[tuple[int, int]] = []
        if n < 0:
            raise ArgumentError(f"{n} more tokens; shorten makes a sequence shorter", "param")
        self._check_room(-(-(length + n) // self.page_size))
        new = self.allocate(self.needed(row, n))
        if n and self._copied(row):
            last = length // self.page_size
            copies.append((have[last], new[0]))
            self.release([have[last]])
            have[last] = new.pop(0)
        self._set(row, have + new, length + n)
        return copies

    def shorten(self, row: int, length: int) -> None:
        """Forgets a sequence's tokens from a length on, such as those of a draft that was wrong. Pages without a token are released."""
        have = list(self.pages_of(row))
        if not 0 <= length <= self._lengths[row]:
            raise ArgumentError(f"length is {length}, the sequence has {self._lengths[row]} tokens", "param")
        keep = -(-length // self.page_size)
        self.release(have[keep:])
        self._set(row, have[:keep], length)

    def free(self, row: int) -> None:
        """Ends a sequence: its row is free, and those of its pages that no other has."""
        self.release(self.pages_of(row))
        self._set(row, [], 0)
        del self._have[row], self._lengths[row]
        self._rows.append(row)

    def pages_of(self, row: int) -> tuple[int, ...]:
        """The pages of a sequence, in the order of its tokens."""
        if isinstance(row, (bool, float)) or row not in self._have:  # which are equal to numbers of rows
            raise ArgumentError(f"there is no sequence {row!r}", "param")
        return tuple(self._have[row])

    def length(self, row: int) -> int:
        """How many tokens a sequence has."""
        self.pages_of(row)
        return self._lengths[row]

    def _copied(self, row: int) -> bool:
        """Whether the next token goes into a page that others have, too."""
        last, at = divmod(self._lengths[row], self.page_size)
        return at > 0 and self._users[self._have[row][last]] > 1

    def _check_room(self, pages: int) -> None:
        if pages > self._entries:
            raise ArgumentError(f"a sequence needs {pages} pages, the table has room for {self._entries} of each", "param")

    def _set(self, row: int, have: list[int], length: int) -> None:
        before = self._have[row]
        self._new_entries.update({(row, n): page for n, page in enumerate(have) if n >= len(before) or before[n] != page})
        self._have[row], self._lengths[row] = have, length
        self._new_lengths[row] = length

    # ---- tensors

    @property
    def table(self) -> Any:
        """int32 [sequences, entries]: the pages of each sequence; entries behind its last page mean nothing."""
        self._bring()
        return self._table

    @property
    def lengths(self) -> Any:
        """int32 [sequences]: tokens of each sequence."""
        self._bring()
        return self._table_lengths

    def of(self, rows: Sequence[int]) -> tuple[Any, Any]:
        """Table and lengths of these sequences, as the arguments T_table and T_lengths of a call whose batch they are."""
        for row in rows:
            self.pages_of(row)
        self._bring()
        at = _tensor(list(rows), "int64", self.device)
        return self._table[at], self._table_lengths[at]

    def slots(self, rows: Sequence[int], counts: Sequence[int]) -> Any:
        """int64: the slots of the last counts[n] tokens of each of these sequences, one after the other."""
        if len(rows) != len(counts):
            raise ArgumentError(f"there are {len(rows)} sequences and {len(counts)} counts", "param")
        made: list[int] = []
        for row, count in zip(rows, counts):
            have, length = self.pages_of(row), self._lengths[row]
            if not 0 <= count <= length:
                raise ArgumentError(f"sequence {row} has {length} tokens, not {count}", "param")
            made += [have[at // self.page_size] * self.page_size + at % self.page_size for at in range(length - count, length)]
        return _tensor(made, "int64", self.device)

    def _bring(self) -> None:
        """What changed goes to the tensors."""
        if self._new_entries:
            row, entry, page = (_tensor(list(x), "int64", self.device) for x in zip(*[(*at, page) for at, page in self._new_entries.items()]))
            self._table[row, entry] = page.astype(numpy.int32) if self.device is None else page.int()
            self._new_entries.clear()
        if self._new_lengths:
            row, length = (_tensor(list(x), "int64", self.device) for x in zip(*self._new_lengths.items()))
            self._table_lengths[row] = length.astype(numpy.int32) if self.device is None else length.int()
            self._new_lengths.clear()

    def picture(self, width: int = 64) -> str:
        """A character for each page: "." is free, "#" has several users, else a letter for the sequence; "+" where it is nobody's row."""
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        shown = ["." if not n else "#" if n > 1 else "+" for n in self._users]
        for row, have in self._have.items():
            for page in have:
                if self._users[page] == 1:
                    shown[page] = letters[row % len(letters)]
        return "\n".join("".join(shown[n : n + width]) for n in range(0, self.count, width))


def _pair(x: Any, what: str) -> tuple[int, int]:
    pair = tuple(x) if isinstance(x, (tuple, list)) else (x, x)
    if len(pair) != 2 or any(not isinstance(n, (int, numpy.integer)) or isinstance(n, bool) or n < 1 for n in pair):
        raise ArgumentError(f"{what} is {x!r}, expected a number, or one of keys and one of values", "param")
    return int(pair[0]), int(pair[1])


@dataclass(frozen=True)
class _Stored:
    """Of k or v as codes: which, scales of a token (else of a head), channels that have one (0: all), whether there are zero points, and of what type."""

    kind: str
    by_token: bool
    channels: int
    has_zero: bool
    numbers: str

    def scales(self, width: int) -> int:
        """Of a token."""
        if self.channels and width % self.channels:
            raise ArgumentError(f"{width} channels do not consist of groups of {self.channels}", "param")
        return width // self.channels if self.channels else 1

    def elements(self, width: int) -> int:
        """Of memory, that so many channels are."""
        if self.kind == "i4" and width % 2:
            raise ArgumentError(f"{width} channels of i4 do not fill whole bytes", "param")
        return width // 2 if self.kind == "i4" else width


SCALES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}  # of scales and zero points


def _stored(word: str) -> _Stored | None:
    kind, *parts = word.split(":")
    types = [part for part in parts if part in SCALES] or ["f32"]
    grain = [part for part in parts if part != "zero" and part not in SCALES] or ["head"]
    channels = re.fullmatch(r"channels([1-9]\d*)", grain[0])
    if kind not in (*STORED, "i4") or len(grain) > 1 or len(types) > 1 or parts.count("zero") > 1 or (not channels and grain[0] not in ("head", "token")):
        return None
    return _Stored(kind, grain[0] != "head", int(channels[1]) if channels else 0, "zero" in parts, SCALES[types[0]])


def _storages(storage: str | None) -> dict[str, _Stored]:
    """Of k and v that are stored as codes, how. As :func:`aule.compile` has it."""
    made: dict[str, _Stored] = {}
    if storage is not None and not isinstance(storage, str):
        raise TypeError(f"storage is e4m3, e5m2, i8 or i4, or as k=i8,v=e4m3:token, not {storage!r}")
    for word in storage.split(",") if storage else ():
        names, _, how = word.rpartition("=")
        stored = _stored(how)
        if stored is None or names not in ("", "k", "v") or made.keys() & set(names or "kv"):
            raise ArgumentError(f"storage is {storage!r}, expected e4m3, e5m2, i8 or i4, or as k=i8,v=e4m3:token, k=i4:channels32:zero", "param")
        if stored.has_zero and not stored.by_token:
            raise ArgumentError(f"storage is {storage!r}: zero points of heads are given with calls, of tokens (:token:zero) they are made", "param")
        made |= {name: stored for name in names or "kv"}
    return made


class Cache:
    """Keys and values of several layers in pages, which they share: sequence, page and slot are the same in all of them.

    Attributes:
        pages: who has which page, a :class:`Pages`.
        k: of each layer [pages, heads, slots, width].
        v: of each layer.
        k_scale: of each layer, or None where k is stored as it is: float32, or what the storage names (``:f16``, ``:bf16``), [1, heads, 1, 1], or
            where each token has its own [pages, heads, slots, 1], or one for each group of channels.
        v_scale: the same of v.
        k_zero: as the scales of tokens, or None where there are no zero points.
        v_zero: the same of v.
        storage: as it was given, for :func:`aule.compile`.
    """

    def __init__(
        self, layers: int, pages: int | Pages, page_size: int, heads: int | tuple[int, int], widths: int | tuple[int, int], dtype: Any, *,
        storage: str | None = None, scales: Any = None, order: str = "NHD", sequences: int = 64, entries: int | None = None, device: Any = None,
    ) -> None:
        """
        Args:
            pages: how many, or whose :class:`Pages` they are.
            page_size: tokens of a page.
            heads: of keys and values, or (of keys, of values).
            widths: channels of a head, or (of keys, of values).
            dtype: of queries, keys and values: "float32", "float16", "bfloat16", or torch's object for it, which makes tensors of torch's.
            storage: keys and values are stored in 8 bits or 4: "e4m3", "e5m2", "i8", "i4", or "k=i8,v=e4m3:token", "i4:channels32:zero:f16", as
                :func:`aule.compile` has it; of 4 bits two channels are a uint8.
            scales: of what is stored without scales of tokens: (of keys, of values), each a number or one for each head; the element is
                scale times what is stored. Default 1; i8 and i4 have none.
            order: of a page in memory: "NHD", [slot, head, channel], or "HND".
            sequences, entries, device: as of :class:`Pages`.
        """
        if device is None and type(dtype).__module__ == "torch":
            device = "cpu"
        self.pages = pages if isinstance(pages, Pages) else Pages(pages, page_size, sequences=sequences, entries=entries, device=device)
        if self.pages.page_size != page_size:
            raise ArgumentError(f"page_size is {page_size}, of these pages it is {self.pages.page_size}", "param")
        if not isinstance(layers, (int, numpy.integer)) or layers < 1:
            raise ArgumentError(f"layers is {layers!r}, expected a whole number, 1 at least", "param")
        if order not in ("NHD", "HND"):
            raise ArgumentError(f'order is {order!r}, expected "NHD" or "HND"', "param")
        name = dtype.__name__ if isinstance(dtype, type) else str(dtype).removeprefix("torch.")
        if name not in ("float32", "float16", "bfloat16"):
            raise ArgumentError(f"dtype is {name}, expected float32, float16 or bfloat16", "param")
        self.storage, self._stored, self._device = storage, _storages(storage), self.pages.device
        tensors: dict[str, list[Any]] = {}
        given = self._given_scales(scales)
        for which, h, d, scale in zip("kv", _pair(heads, "heads"), _pair(widths, "widths"), given):
            s = self._stored.get(which)
            elem, elements = (STORED.get(s.kind, "uint8"), s.elements(d)) if s else (name, d)
            tensors[which] = [self._pool(h, elements, elem, order) for _ in range(layers)]
            tensors[f"{which}_scale"] = [self._scale(which, s, h, d, order, scale) for _ in range(layers)]
            tensors[f"{which}_zero"] = [self._pool(h, s.scales(d), s.numbers, order) if s and s.has_zero else None for _ in range(layers)]
        self.k, self.v, self.k_scale, self.v_scale = tensors["k"], tensors["v"], tensors["k_scale"], tensors["v_scale"]
        self.k_zero, self.v_zero = tensors["k_zero"], tensors["v_zero"]
        beside = [f"{which}_{what}" for which, s in self._stored.items() if s.by_token for what in ("scale", "zero")[: 1 + s.has_zero]]
        self._pools = [pool for name in ("k", "v", *beside) for pool in tensors[name]]  # what pages are copied in

    def _pool(self, heads: int, width: int, name: str, order: str) -> Any:
        shape = (self.pages.count, *((self.pages.page_size, heads) if order == "NHD" else (heads, self.pages.page_size)), width)
        if self._device is not None:
            import torch

            pool: Any = torch.zeros(shape, dtype=getattr(torch, name), device=self._device)
        elif name == "bfloat16":
            import ml_dtypes

            pool = numpy.zeros(shape, ml_dtypes.bfloat16)
        else:
            pool = numpy.zeros(shape, "uint8" if name in STORED_AS else name)
        return pool.swapaxes(1, 2) if order == "NHD" else pool

    def _given_scales(self, scales: Any) -> tuple[Any, Any]:
        """Of keys and of values; one number is that of all that have scales."""
        takes = [which in self._stored and not self._stored[which].by_token for which in "kv"]
        if not isinstance(scales, (tuple, list)):
            scales = [scales if one or not any(takes) else None for one in takes]
        if len(scales) != 2:
            raise ArgumentError(f"scales is {scales!r}, expected (of keys, of values), each a number or one for each head", "param")
        for which, one, given in zip("kv", takes, scales):
            if given is not None and not one:
                raise ArgumentError(f"storage is {self.storage!r}, so that {which} has no scales to be given, and was given {given!r}", "param")
        return scales[0], scales[1]

    def _scale(self, which: str, stored: _Stored | None, heads: int, width: int, order: str, given: Any) -> Any:
        if stored is None:
            return None
        if stored.by_token:
            return self._pool(heads, stored.scales(width), stored.numbers, order)
        if given is None and stored.kind in ("i8", "i4"):
            raise ArgumentError(f"{which} is stored in {stored.kind} and needs a scale: scales=(of keys, of values), or storage={which}={stored.kind}:token", "param")
        values = [given] * heads if isinstance(given, (int, float)) else [1.0] * heads if given is None else [float(x) for x in given]
        if not all(0 < x < float("inf") for x in values):
            raise ArgumentError(f"scales of {which} are {given!r}, expected finite numbers above 0", "param")
        if len(values) != heads:
            raise ArgumentError(f"{which} has {heads} heads, and {len(values)} scales were given", "param")
        return _tensor(values, stored.numbers, self._device).reshape(1, heads, 1, 1)

    def named(self, layer: int) -> dict[str, Any]:
        """The tensors of a layer by their names as arguments of calls: k, v, and the scales and zero points there are."""
        names = ("k", "v", "k_scale", "v_scale", "k_zero", "v_zero")
        every = {name: getattr(self, name)[layer] for name in names}
        return {name: x for name, x in every.items() if x is not None}

    def append(self, layer: int, k: Any, v: Any, slots: Any) -> None:
        """Writes new rows of a layer, k [n, heads, width] and v, to their slots, int64 [n] (:meth:`Pages.slots`); of slot -1 nothing is written."""
        for which, rows, pool in (("k", k, self.k[layer]), ("v", v, self.v[layer])):
            if len(rows.shape) != 3:
                raise ArgumentError(f"{which} has {len(rows.shape)} axes, expected [rows, heads, channels]", "tensor")
            stored = self._stored.get(which)
            check_rows(rows, pool, which, 2 if stored and stored.kind == "i4" else 1)
        if len(getattr(slots, "shape", ())) != 1:
            raise ArgumentError(f"slots is a {type(slots).__name__}, expected a tensor of int64 with one axis, a slot for each row", "tensor")
        append(k.swapaxes(0, 1)[None], v.swapaxes(0, 1)[None], self.named(layer), storage=self.storage, slots=slots[None])

    def copy(self, pages: Sequence[tuple[int, int]]) -> None:
        """Copies pages of all layers, (from, to), as :meth:`Pages.extend` says."""
        for page in (page for pair in pages for page in pair):
            if not 0 <= page < self.pages.count:
                raise ArgumentError(f"there is no page {page}, of {self.pages.count}", "param")
        if not pages:
            return
        source, target = (_tensor(list(x), "int64", self._device) for x in zip(*pages))
        for pool in self._pools:
            pool = as_bytes(pool)
            pool[target] = pool[source]
