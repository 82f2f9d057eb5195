"""Attention by options, without writing a script: :func:`attention`, and :class:`Attention` for those without autograd.

Options make a script (:mod:`._options`), scripts make kernels; so every option works on every backend, forward and backward.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, overload

import numpy

from . import _again, _devices, _options
from ._compiler import Compiled
from ._errors import ArgumentError, Error
from ._function import AttentionFunction, Results, T, check_number
from ._options import AXES, Options, Tensor
from ._tensors import is_torch

FLOATS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}

TENSORS = {name: n for n, name in enumerate(("q", "k", "v", "alibi", "sinks", "bias", "o"))}  # of a call, as plans call them

_functions = SimpleNamespace()  # compiled attentions by their options
_calls = _again.Calls()


def _tensor(kind: str) -> Tensor | None:
    """The inverse of :func:`_kind`."""
    if not kind:
        return None
    dtype, axes, gradient = kind.split(" ")
    return Tensor(dtype, tuple(axes), gradient == "grad")


def _options_of(causal: bool, left: bool, right: bool, softcap: bool, dropout: bool, alibi: str, sinks: str, bias: str, alike: bool) -> Options:
    return Options(causal, left, right, softcap, dropout, _tensor(alibi), _tensor(sinks), _tensor(bias), alike)


def _make(name: str, deterministic: bool, *options: Any) -> None:
    """Compiles the attention of these options, once."""
    if not hasattr(_functions, name):
        text = _options.script(_options_of(*options)).encode()
        setattr(_functions, name, Compiled("<options of aule.attention>", text, None, {"deterministic": 1 if deterministic else None}))


# torch.compile runs it while it traces, and then finds the attention as anybody's attribute.
_make._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _function(*options: Any) -> Compiled:
    """The compiled attention of these options."""
    name = "|".join([str(option) for option in options])
    if not hasattr(_functions, name):
        _make(name, *options)
    return getattr(_functions, name)


def _as_tensor(x: Any, what: str, q: Any) -> Any:
    """A tensor; of a list, one of q's library."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return x
    if not isinstance(x, (list, tuple)):
        raise TypeError(f"{what} must be a tensor or a list of numbers, it is {type(x).__name__}")
    if is_torch(q):
        import torch

        tensor = torch.tensor(x, device=q.device)
        return tensor if tensor.dtype == torch.bool else tensor.float()
    array = numpy.asarray(x)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{what} must be a tensor or a list of numbers, its elements are {array.dtype.name}")
    return array if array.dtype == bool else array.astype(numpy.float32)


def _kind(x: Any, what: str, axes: tuple[str, ...], gradients: bool, types: dict[str, str] = FLOATS) -> str:
    """What a script has to know of an input: "f32 H11T grad". Axes of extent 1 are broadcast: "1"."""
    name = str(x.dtype).removeprefix("torch.")
    dtype = types.get(name)
    if dtype is None:
        raise ArgumentError(f"{what} is of type {name}, expected {', '.join(types)}", "tensor")
    wants = dtype != "bool" and (gradients or (is_torch(x) and x.requires_grad))
    return f"{dtype} {''.join(axes)} {'grad' if wants else '-'}"


def _bias_axes(bias: Any, q: Any, k: Any) -> tuple[str, ...]:
    """Its axes: "1" where it is broadcast. One script serves a bias [B, 1, S, T] for every S, 1 among them."""
    rank = len(bias.shape)
    if not 1 <= rank <= 4:
        raise ArgumentError(f"bias has {rank} axes, expected at most 4, the last of [B, H, S, T]", "tensor")
    sizes = (*q.shape[:3], k.shape[2])
    return tuple("1" if n == 1 and n != size else axis for n, axis, size in zip(bias.shape, AXES[4 - rank :], sizes[4 - rank :]))


def _per_head(x: Any, what: str, ranks: tuple[int, ...]) -> tuple[str, ...]:
    rank = len(x.shape)
    if rank not in ranks:
        raise ArgumentError(f"{what} has {rank} axes, expected {' or '.join('[B, H]' if n == 2 else '[H]' for n in ranks)}", "tensor")
    return ("H",) if rank == 1 else ("B", "H")


def _window(window: Any, causal: bool) -> tuple[int | None, int | None]:
    """How far a query sees to the left and to the right; None: without end."""
    if window is None:
        return None, None
    for n in window if isinstance(window, (tuple, list)) else (window,):
        if isinstance(n, bool) or not hasattr(n, "__int__") or isinstance(n, float) and not math.isfinite(n):
            raise ArgumentError(f"window is {window!r}, expected a whole number or (left, right), -1 for no end", "param")
    if isinstance(window, (tuple, list)):
        if len(window) != 2 or min(window) < -1:
            raise ArgumentError(f"window is {window}, expected (left, right), each at least 0, or -1 for no end", "param")
        left, right = (None if n == -1 else n for n in window)
    else:
        if window < 1:
            raise ArgumentError(f"window is {window}, expected at least 1: the keys less than that far from the query", "param")
        left = right = window - 1
    if any(n is not None and (n != int(n) or n >= 2**31) for n in (left, right)):
        raise ArgumentError(f"window is {window}, expected whole numbers below 2^31", "param")
    return left, None if causal else right


def _check_heads(q: Any, k: Any, v: Any, names: tuple[str, str] = ("k", "v")) -> None:
    """What of shapes the script would put in its own words; all else is told of q, k, v by their [names]."""
    for name, x in zip(names, (k, v)):
        if len(getattr(q, "shape", ())) == len(getattr(x, "shape", ())) == 4 and x.shape[1] > 0 and q.shape[1] % x.shape[1]:
            raise ArgumentError(f"q has {q.shape[1]} heads and {name} has {x.shape[1]}: each of {name}'s serves as many of q's, so that {q.shape[1]} is a multiple", "tensor")


def _flag(what: str, x: Any) -> bool:
    """A truth: "no" and [False] are none."""
    if not isinstance(x, (bool, int, numpy.bool_)) or x not in (0, 1):
        raise ArgumentError(f"{what} is {x!r}, expected True or False", "param")
    return bool(x)


def _number(what: str, x: Any) -> Any:
    if not isinstance(x, (int, float)):
        check_number(x, what, f"write a script with `input {what}: f32[] grad` (aule.attention_script shows the one of these options)", "aule.attention")
        if not hasattr(x, "__float__"):
            raise TypeError(f"{what} must be a number, it is {type(x).__name__}")
    return x


def _drawn_seed(q: Any) -> int:
    """From the generator that the program seeds for its library."""
    if is_torch(q):
        import torch

        if torch.compiler.is_compiling():
            raise ArgumentError("dropout needs a seed under torch.compile", "param")
        return int(torch.randint(0, 2**62, ()).item())
    return int(numpy.random.randint(0, 2**62, dtype=numpy.int64))


def check_unrecorded(caller: str, operation: str, **tensors: Any) -> None:
    """Refuses what would have a gradient, where it would be lost. [operation]: "calls over a cache have"."""
    if any(is_torch(x) for x in tensors.values()):
        from ._torch import refuse_gradients

        refuse_gradients(caller, tensors, operation)


def _torch_is_deterministic(q: Any) -> bool:
    if not is_torch(q):
        return False
    import torch

    return bool(torch.are_deterministic_algorithms_enabled())


def _prepare(
    q: Any, k: Any, v: Any, *, causal: bool, window: Any, softcap: float | None, alibi: Any, sinks: Any, bias: Any, scale: float | None, dropout: float,
    seed: int | None, deterministic: bool, gradients: bool,
) -> tuple[Compiled, dict[str, Any]]:
    """The compiled attention for the options, and its inputs and parameters. Where v has as many heads as k the script says so: kernels for few queries ask
    for it, and gradients are then sums within a block."""
    alike = k.shape[1] == v.shape[1]
    causal, deterministic = _flag("causal", causal), _flag("deterministic", deterministic)
    left, right = _window(window, causal)
    named: dict[str, Any] = {}
    kinds = ["", "", ""]
    if alibi is not None:
        named["alibi"] = alibi = _as_tensor(alibi, "alibi", q)
        kinds[0] = _kind(alibi, "alibi", _per_head(alibi, "alibi", (1, 2)), gradients)
    if sinks is not None:
        named["sinks"] = sinks = _as_tensor(sinks, "sinks", q)
        kinds[1] = _kind(sinks, "sinks", _per_head(sinks, "sinks", (1,)), gradients)
    if bias is not None:
        named["bias"] = bias = _as_tensor(bias, "bias", q)
        kinds[2] = _kind(bias, "bias", _bias_axes(bias, q, k), gradients, FLOATS | {"bool": "bool"})
    if scale is not None:
        named["scale"] = scale = _number("scale", scale)
        if not -math.inf < scale < math.inf:
            raise ArgumentError(f"scale is {scale}, expected a finite number", "param")
    if softcap is not None:
        softcap = _number("softcap", softcap)
        if not 0 <= softcap < math.inf:
            raise ArgumentError(f"softcap is {softcap}, expected a finite number above 0, or 0 or None for no cap", "param")
    if softcap:
        named["softcap"] = softcap
    if left is not None:
        named["left"] = left
    if right is not None:
        named["right"] = right
    dropout = _number("dropout", dropout)
    if dropout or dropout != dropout:
        if not 0 <= dropout < 1:
            raise ArgumentError(f"dropout is {dropout}, expected a probability below 1", "param")
        named["rate"], named["seed"] = dropout, _drawn_seed(q) if seed is None else seed
    # With changing shapes torch.compile makes symbols of numbers, also of a default's 0.0: branches say what they are.
    flags = [True if x else False for x in (deterministic or _torch_is_deterministic(q), causal, left is not None, right is not None, softcap, dropout, alike)]
    return _function(*flags[:-1], *kinds, flags[-1]), named


@overload
def attention(
    q: T, k: T, v: T, *, causal: bool = False, window: int | tuple[int, int] | None = None, softcap: float | None = None,
    alibi: Any = None, sinks: Any = None, bias: Any = None, scale: float | None = None, dropout: float = 0.0, seed: int | None = None,
    deterministic: bool = False, invariant: bool = False, return_lse: Literal[False] = False, out: T | None = None, backend: str | None = None,
) -> T: ...


@overload
def attention(
    q: T, k: T, v: T, *, causal: bool = False, window: int | tuple[int, int] | None = None, softcap: float | None = None,
    alibi: Any = None, sinks: Any = None, bias: Any = None, scale: float | None = None, dropout: float = 0.0, seed: int | None = None,
    deterministic: bool = False, invariant: bool = False, return_lse: Literal[True], out: T | None = None, backend: str | None = None,
) -> tuple[T, T]: ...


@overload
def attention(
    q: T, k: T, v: T, *, causal: bool = False, window: int | tuple[int, int] | None = None, softcap: float | None = None,
    alibi: Any = None, sinks: Any = None, bias: Any = None, scale: float | None = None, dropout: float = 0.0, seed: int | None = None,
    deterministic: bool = False, invariant: bool = False, return_lse: bool, out: T | None = None, backend: str | None = None,
) -> T | tuple[T, T]: ...


def attention(
    q: Any, k: Any, v: Any, *, causal: bool = False, window: int | tuple[int, int] | None = None, softcap: float | None = None,
    alibi: Any = None, sinks: Any = None, bias: Any = None, scale: float | None = None, dropout: float = 0.0, seed: int | None = None,
    deterministic: bool = False, invariant: bool = False, return_lse: bool = False, out: Any = None, backend: str | None = None,
) -> Any:
    """Softmax attention: o[b, h, i] = sum over j of softmax_j(s[b, h, i, j]) v[b, h, j].

    Differentiable with respect to q, k, v, alibi, sinks and bias where they are torch tensors that require gradients, under
    ``torch.compile`` too. Works on NumPy arrays and anything with ``__dlpack__`` as well; nothing is copied.

    Args:
        q: [B, H, S, D].
        k: [B, Hk, T, D]; Hk divides H: query head h reads key head h // (H // Hk).
        v: [B, Hv, T, E]; E may differ from D.
        causal: query i sees keys j <= i + (T - S): the queries are the last S of T positions, as when decoding with a cache.
        window: (left, right): of position p = i + (T - S) the keys p - left <= j <= p + right take part; -1 is no end. A number w
            stands for (w - 1, w - 1): with causal, the last w keys.
        softcap: scores become softcap * tanh(score / softcap).
        alibi: slopes [H] or [B, H]: slope * abs(i + (T - S) - j) is taken from scores.
        sinks: [H]: logits that take part in the normaliser and have no value.
        bias: added to scores; where bool, pairs with False take no part. The last axes of [B, H, S, T]: [S, T], [H, S, T],
            [B, H, S, T]; an axis of extent 1 is broadcast ([B, 1, S, T]), also in its gradient.
        scale: of scores; default 1 / sqrt(D).
        dropout: probability with which a weight is dropped. What is dropped depends on the seed and on the position alone.
        seed: of dropout; by default drawn from torch's, or NumPy's, generator. Under ``torch.compile`` it must be given.
        deterministic: gradients of alibi, sinks and bias, and on GPUs those of q, and of k and v of unequal heads, are summed in a fixed order, as
            ``torch.use_deterministic_algorithms`` asks for as well; everything else always is.
        invariant: the bits of an element of the batch's result depend on that element alone, whatever else is in the batch. Without gradients.
        return_lse: also return the log of the normaliser, [B, H, S] in float32, differentiable too.
        out: a tensor to write o into.
        backend: a device of :func:`aule.devices`, or "auto"; default as for calls of compiled scripts.

    Returns:
        o [B, H, S, E] in the type of q; with return_lse (o, lse).

    Raises:
        ArgumentError: something does not fit; the message says what was expected and found.
        Error: no kernel for this call on this device, or the device fails.
    """
    tensors = (q, k, v, alibi, sinks, bias, out)
    call = _again.like((causal, softcap, scale, dropout, seed, deterministic, invariant, return_lse, backend, *_again.flat(window)), tensors)
    made = _calls.run(call, tensors)
    if made is not None:
        o = made[0] if out is None else out
        return (o, made[-1]) if return_lse else o
    _check_heads(q, k, v)
    return_lse, invariant = _flag("return_lse", return_lse), _flag("invariant", invariant)
    f, named = _prepare(
        q, k, v, causal=causal, window=window, softcap=softcap, alibi=alibi, sinks=sinks, bias=bias, scale=scale, dropout=dropout, seed=seed,
        deterministic=deterministic, gradients=False,
    )
    if invariant:
        check_unrecorded("aule.attention()", "calls with invariant=True have", q=q, k=k, v=v, **named)
        f = f._laid_out(None, None, True)
    into = None if out is None else {"o": out}
    with _again.watched(call) as runs:
        results = f._outputs((q, k, v), named, into, backend) if return_lse else {"o": f(q, k, v, out=out, device=backend, **named)}
    if call is not None and "seed" not in named:
        _calls.keep(call, tensors, TENSORS, runs, {name: results[name] for name in ("o", "lse")[: 1 + return_lse]})
    return (results["o"], results["lse"]) if return_lse else results["o"]


flash_attention = attention


def attention_script(q: Any, k: Any, v: Any = None, **options: Any) -> str:
    """The script that :func:`attention`, :func:`attention_varlen` and :func:`decode` run for these options. [v]: values, where they have not as many heads
    as k."""
    given: dict[str, Any] = dict.fromkeys(("window", "softcap", "alibi", "sinks", "bias", "scale", "seed"))
    given |= {"causal": False, "dropout": 0.0, "deterministic": False, "gradients": False}
    for name in options:
        if name not in given:
            raise TypeError(f"attention_script() does not take {name}; it takes {', '.join(given)}")
    return _prepare(q, k, k if v is None else v, **(given | options))[0].source


if TYPE_CHECKING:

    class Gradients(NamedTuple, Generic[T]):
        dq: T
        dk: T
        dv: T

else:  # named tuples are generic from Python 3.11 on

    class Gradients(NamedTuple):
        """Gradients of q, k and v."""

        dq: Any
        dk: Any
        dv: Any


class Attention:
    """Attention on one device, forward and backward, for those without autograd. A context manager::

        with aule.Attention() as a:
            o = a.forward(q, k, v, causal=True)
            dq, dk, dv = a.backward(do)

    Attributes:
        backend: the id of its device: "cpu", "opencl:1".
        backend_name: the name of its backend: "cpu", "opencl".
        gradients: after :meth:`backward`, every gradient by name: "dq", "dk", "dv", and "dbias", "dalibi", "dsinks" of those given.
    """

    def __init__(self, backend: str = "auto") -> None:
        """[backend]: an id of :func:`aule.devices`, or a backend's name for its first device; "auto": what AULE_BACKEND and
        AULE_DEVICE say, else the processor.

        Raises:
            Error: there is no such device, or it is not available; the message says why.
        """
        device = _devices.Device.get(backend if backend != "auto" else _devices.chosen() or "cpu")
        self.backend: str = device.id
        self.backend_name: str = device.backend
        self.gradients: dict[str, Any] = {}
        self._last: tuple[AttentionFunction, Results] | None = None
        self._closed = False

    def __enter__(self) -> "Attention":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<aule attention on {self.backend}{', closed' if self._closed else ''}>"

    @property
    def fp16_supported(self) -> bool:
        """Whether it takes float16: so does every backend, with sums in float32."""
        return True

    @property
    def backward_available(self) -> bool:
        """Whether it has a backward pass: so does every backend."""
        return True

    def close(self) -> None:
        """Lets go of the tensors of the last call. The device stays open for others."""
        self._last = None
        self.gradients = {}
        self._closed = True

    def forward(
        self, q: T, k: T, v: T, *, causal: bool = False, window: int | tuple[int, int] | None = None, softcap: float | None = None,
        alibi: Any = None, sinks: Any = None, bias: Any = None, scale: float | None = None, dropout: float = 0.0, seed: int | None = None,
        deterministic: bool = False,
    ) -> T:
        """The output, as :func:`attention` computes it. Keeps what :meth:`backward` needs, until the next call."""
        self._check_open()
        _check_heads(q, k, v)
        f, named = _prepare(
            q, k, v, causal=causal, window=window, softcap=softcap, alibi=alibi, sinks=sinks, bias=bias, scale=scale, dropout=dropout, seed=seed,
            deterministic=deterministic, gradients=True,
        )
        results = f.forward(q, k, v, device=self.backend, **named)
        self._last = f, results
        return results["o"]

    def backward(self, do: T) -> Gradients[T]:
        """Gradients of q, k and v for the last :meth:`forward`, from the gradient of its output; :attr:`gradients` has all."""
        self._check_open()
        if self._last is None:
            raise Error("backward comes after forward", "usage")
        f, results = self._last
        made = f.backward(results, do)
        self.gradients = made
        return Gradients(made["dq"], made["dk"], made["dv"])

    def _check_open(self) -> None:
        if self._closed:
            raise Error("this Attention was closed", "usage")
