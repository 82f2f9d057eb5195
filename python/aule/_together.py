"""Calls that are given new rows of a cache: append and then the attention, in one plan (docs/dev/operations.md, append)."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from ._append import AppendNames
from ._errors import ArgumentError
from ._plans import check_writeable

NEW_ROWS = ("k_new", "v_new", "slots")


def is_given_rows(f: Any, named: Mapping[str, Any]) -> bool:
    """Of a script that has an input that is called so, it is that."""
    return any(named.get(name) is not None and name not in f._names.inputs + f._param_names for name in NEW_ROWS)


def _new_rows(caller: str, names: AppendNames, new: Mapping[str, Any]) -> dict[str, Any]:
    """Those that were given, if they are those that there must be."""
    given = {name: x for name, x in new.items() if x is not None}
    missing = [name for name in names.new if name not in given]
    if missing:
        raise TypeError(f"{caller} is given new rows, and needs {', '.join(missing)}")
    if "slots" in given and not names.slots:
        raise ArgumentError(f"{caller} takes no slots: the cache holds what mods of rows make of them, and these ask for the place in the sequence", "name")
    unknown = sorted(set(given) - set(names.new) - {"slots"})
    if unknown:
        raise TypeError(f"{caller} does not take {unknown[0]}: values are a part of the keys")
    return given


def forward_with_rows(
    f: Any, qkv: tuple, named: dict[str, Any], out: Mapping[str, Any] | None, device: str | None, wanted: tuple[str, ...], torch_calls_for: Callable[[Any], Any],
    work: Any = None,
) -> dict[str, Any]:
    """The results [wanted], after the rows were written into k and v."""
    f = f._that_appends()
    names = f._appends()
    new = {name: named.pop(name) for name in dict.fromkeys((*NEW_ROWS, *names.new)) if name in named}
    call = f._with_work(f._bind(qkv, named, device), work)
    new = _new_rows(f"{f.name}()", names, new)
    torch_calls = torch_calls_for(call)
    if torch_calls is not None:
        made: dict[str, Any] = torch_calls.forward_with_rows(f, call, new, wanted, out or {})
        return made
    return run_with_rows(f, call, new, wanted, out or {})


def run_with_rows(f: Any, call: Any, new: Mapping[str, Any], wanted: tuple[str, ...], out: Mapping[str, Any]) -> dict[str, Any]:
    """In one plan; what is appended to is written, as results are."""
    unknown = sorted(set(out) - set(wanted))
    if unknown:
        raise TypeError(f"{f.name}() has no output {unknown[0]}; it has {', '.join(wanted)}")
    tensors = {**call.tensors, **new}
    written = {name: tensors.pop(name) for name in f._appends().written}
    check_writeable(written, "append")
    results: dict[str, Any] = f._runner.run("forward", tensors, call.params, {**written, **out}, wanted, call.device, False)
    return results


def append_alone(f: Any, call: Any, new: Mapping[str, Any]) -> None:
    """The first of the two, for calls that are traced, whose second is an operation of its own."""
    names = f._appends()
    beside = {name: call.tensors[name] for name in names.lists + names.inputs if "slots" not in new or name not in names.lists}
    order = [*(new[name] for name in names.new), *(call.tensors[name] for name in names.caches)]
    f.append(*order, slots=new.get("slots"), device=call.device, **beside, **call.params)
