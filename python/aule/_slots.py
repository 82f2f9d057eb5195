"""New rows of keys and values in caches, by the operation ``append`` of a script that changes no rows.

A slot is the number of a row of a cache: page * slots of a page + its place in the page; of -1 nothing is written.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ._compiler import Compiled
from ._errors import ArgumentError
from ._tensors import is_torch

# Of each storage of 8 bits the type of the tensors, by NumPy's and torch's name
STORED = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "i8": "int8"}
ROWS = b"attention cache { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hv, T, E]; score_mod(s) = s; online softmax; }"


_functions = SimpleNamespace()  # by layouts and storages


def _make(name: str, layout: str, storage: str | None) -> None:
    setattr(_functions, name, Compiled("<rows of a cache>", ROWS, None, {"layout": layout, "storage": storage}))


# torch.compile runs it while it traces, and then finds the attention as anybody's attribute.
_make._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _rows(layout: str, storage: str | None) -> Compiled:
    name = f"{layout}|{storage}"
    if not hasattr(_functions, name):
        _make(name, layout, storage)
    made: Compiled = getattr(_functions, name)
    return made


def append(k: Any, v: Any, caches: dict[str, Any], *, storage: str | None = None, slots: Any = None, device: str | None = None, **lists: Any) -> None:
    """Writes rows k and v [M, heads, N, channels] to a cache [pages, heads, slots, channels], in place, as codes where it has such.

    Args:
        caches: "k" and "v", and where they are stored as codes "k_scale" and "v_scale" (and "k_zero"): of heads they are read, of tokens made and
            written.
        storage: as what, as the compiler spells it.
        slots: int64 [M, N]; without them T_lengths, and of pages T_table, say that the rows are the last ones of each sequence.
    """
    scales = {name: x for name, x in caches.items() if name not in ("k", "v")}
    f = _rows("T=padded" if "T_lengths" in lists and "T_table" not in lists else "T=paged", storage)
    f.append(k, v, caches["k"], caches["v"], slots=slots, device=device, **lists, **scales)


def as_bytes(x: Any) -> Any:
    """Numbers of 8 bits as their codes, of which torch has more operations; others as they are."""
    if not is_torch(x) or x.element_size() > 1:
        return x
    import torch

    return x.view(torch.uint8)


def check_rows(rows: Any, cache: Any, what: str, codes_of_byte: int = 1) -> None:
    """Refuses rows [.., heads, channels] that do not fit a cache [pages, heads, slots, channels], or so many channels an element."""
    expected = (cache.shape[1], cache.shape[3] * codes_of_byte)
    if tuple(rows.shape[-2:]) != expected:
        raise ArgumentError(f"{what} is {list(rows.shape)}, expected [.., {expected[0]}, {expected[1]}], heads and channels of the cache", "tensor")
