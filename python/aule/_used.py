"""Artifacts that calls take kernels from before they compile any: :func:`aule.serving.use`."""

from __future__ import annotations

import os
from typing import Any, Collection, Mapping

from ._artifact import Loaded, names_in
from ._axes import spelled, spellings
from ._devices import Device
from ._errors import Error

KNOWN = {"layout", "storage", "invariant", "append", "no_gradients"}  # options that an artifact says it has; with others kernels are compiled

_used: dict[tuple[int, str], dict[str, Loaded]] = {}  # by the script's hash and the attention's name: by layout


def _hash(text: bytes) -> int:
    """FNV-1a of 64 bits, as artifacts have it of their scripts."""
    h = 14695981039346656037
    for byte in text:
        h = (h ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    return h


def use(path: str | os.PathLike[str]) -> list[str]:
    """Takes the kernels of an artifact of ``aulec`` for calls of the script that it was made of, which else compile theirs when they are first needed.

    ``aulec decode.attn --serve`` of what ``aule.attention_script(q, k, causal=True)`` gives has those of :func:`aule.decode` and
    :func:`aule.attention_varlen`, so that the first requests of a server do not wait for a compiler. What the artifact has not (another type, width,
    layout, device or option) is compiled as ever. An artifact that is named again, or another one of the same script, comes in the place of the one before.

    Returns:
        the names of its attentions: "mha", "mha@T=paged".

    Raises:
        Error: not a file, not an artifact, damaged, newer than the library.
    """
    if not os.fspath(path):
        raise Error("an artifact is given as its path; this is empty", "file")
    place = os.path.abspath(os.fsdecode(os.fspath(path)))
    names = names_in(place)
    opened = [Loaded(place, name) for name in names]
    for key in {(one.source_hash(), name.partition("@")[0]) for one, name in zip(opened, names)}:
        _used[key] = {}
    for one, name in zip(opened, names):
        attention, _, layout = name.partition("@")
        _used[one.source_hash(), attention][spelled(layout)] = one
    return names


def find(
    text: bytes, which: str | None, options: Mapping[str, Any], signature: Loaded, device: Device, dtype: str, widths: Mapping[str, int], more: str | None,
) -> Loaded | None:
    """What there is of a script in the artifacts that are used; it takes the same tensors as [signature], and has kernels for the call."""
    if not _used or not set(options) <= KNOWN:
        return None
    name = which or signature.descriptor.name.decode()
    layouts = next((_used[key] for key in ((_hash(text), name), (_hash(text + b"\n"), name)) if key in _used), {})
    for layout in spellings(options.get("layout") or ""):
        found = layouts.get(layout)
        if found is not None and _fits(found, signature, options, more) and _has(found, options, device, dtype, widths, more):
            return found
    return None


def _fits(found: Loaded, signature: Loaded, options: Mapping[str, Any], more: str | None) -> bool:
    appends = any(t.role == "new" for t in found.tensors())
    return found.signature() == signature.signature() and (appends or not (more or options.get("append")))


def _has(found: Loaded, options: Mapping[str, Any], device: Device, dtype: str, widths: Mapping[str, int], more: str | None) -> bool:
    features: Collection[str] = device.features
    return found.has_kernels(more or "forward", device.backend, features, dtype, widths, bool(options.get("invariant")) and more is None)
