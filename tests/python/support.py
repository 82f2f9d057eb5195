"""What the tests share: the hand-made artifact of tests/runtime/sample.h, and its formula in NumPy."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

try:
    import torch
except ImportError:
    torch = None

import aule

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLE = os.environ.get("AULE_TEST_SAMPLE", "")
DEVICE = os.environ.get("AULE_TEST_DEVICE", "cpu")  # where tests run that run anywhere: "cuda"
FULL = os.environ.get("AULE_TEST_FULL_SIZES") == "1"  # the suite `slow`: what takes turns else
D, E = 8, 4
# Devices that arrays of NumPy are copied to: OpenCL's, or, where the tests run on a GPU, that GPU alone.
OTHERS = [d.id for d in aule.devices() if d.available and d.backend == ("opencl" if DEVICE == "cpu" else DEVICE.partition(":")[0])]


def run_beside(case, folder: str, variable: str, tests: str, passed: str) -> None:
    """These tests in a process of their own that loads a stand-in for a driver from the folder; [variable] says so there."""
    environment = {**os.environ, "LD_LIBRARY_PATH": folder, variable: ""}
    environment.pop("AULE_BACKEND", None)
    ran = subprocess.run([sys.executable, "-m", "unittest", "-v", tests], env=environment, capture_output=True, text=True)
    case.assertEqual(ran.returncode, 0, ran.stderr)
    case.assertRegex(ran.stderr, rf"{passed}.* ok\n")


def narrow(path: Path) -> Path | str:
    """The script; in place of mla_decode, whose widths are numbers, one with a sixth of them, but in `slow` and on GPUs: on a processor the compiler
    takes seconds for each layout of it."""
    if path.stem != "mla_decode" or FULL or DEVICE != "cpu":
        return path
    return path.read_text().replace("576", "96").replace("512", "64")


def inputs(seed: int = 0, B: int = 2, H: int = 4, Hk: int = 2, S: int = 5, T: int = 7, dtype=np.float32) -> dict[str, np.ndarray]:
    """Tensors of the sample's signature."""
    r = np.random.default_rng(seed)
    return {
        "q": r.standard_normal((B, H, S, D)).astype(dtype),
        "k": r.standard_normal((B, Hk, T, D)).astype(dtype),
        "v": r.standard_normal((B, Hk, T, E)).astype(dtype),
        "lengths": r.integers(1, T + 1, (B,), dtype=np.int32),
        "slope": r.standard_normal(2 * H - 1).astype(np.float32),
    }


def parted(S, T, lengths, window):
    """Which pairs take part in the sample."""
    i, j = np.arange(S)[:, None], np.arange(T)[None, :]
    return (np.abs(i - j) < window)[None, None] & (j < lengths[:, None, None])[:, None]


def sample(q, k, v, lengths, slope, window, scale=None):
    """o and lse of the sample, in double precision."""
    (_, H, S, _), (_, Hk, T, _) = q.shape, k.shape
    k, v = (np.repeat(x.astype(np.float64), H // Hk, axis=1) for x in (k, v))
    scale = D**-0.5 if scale is None else scale
    scores = np.einsum("bhsd,bhtd->bhst", q.astype(np.float64), k) * scale + slope[:H].astype(np.float64)[None, :, None, None]
    part = parted(S, T, lengths, window)
    scores = np.where(part, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.where(part, np.exp(scores - np.where(np.isfinite(top), top, 0)), 0)
    total = weights.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.where(np.isfinite(top), top, 0) + np.log(total))[..., 0]
    return np.einsum("bhst,bhte->bhse", weights / np.where(total > 0, total, 1), v), lse


def sample_gradients(x, window, do, dlse=None, scale=None):
    """Gradients of q, k, v and slope, in double precision: of sum(do * o) + sum(dlse * lse)."""
    q, k, v = (x[name].astype(np.float64) for name in "qkv")
    (B, H, S, _), (_, Hk, T, _) = q.shape, k.shape
    k, v = np.repeat(k, H // Hk, axis=1), np.repeat(v, H // Hk, axis=1)
    scale = D**-0.5 if scale is None else scale
    o, lse = sample(**x, window=window, scale=scale)
    scores = np.einsum("bhsd,bhtd->bhst", q, k) * scale + x["slope"][:H].astype(np.float64)[None, :, None, None]
    p = np.where(parted(S, T, x["lengths"], window), np.exp(scores - np.where(np.isfinite(lse), lse, 0)[..., None]), 0)
    given = 0 if dlse is None else dlse[..., None]
    ds = p * (np.einsum("bhse,bhte->bhst", do, v) - (do * o).sum(-1, keepdims=True) + given)
    slope = np.zeros(x["slope"].shape)
    slope[:H] = ds.sum((0, 2, 3))

    def grouped(gradient):
        return gradient.reshape(B, Hk, H // Hk, *gradient.shape[2:]).sum(2)

    return {
        "dq": np.einsum("bhst,bhtd->bhsd", ds, k) * scale, "dk": grouped(np.einsum("bhst,bhsd->bhtd", ds, q) * scale),
        "dv": grouped(np.einsum("bhst,bhse->bhte", p, do)), "dslope": slope,
    }


def run_page(path) -> tuple[dict, str]:
    """Runs a document's blocks of Python one after another in the project's folder: their names, and what they printed."""
    page, names, printed, here = path.read_text(), {"__name__": path.stem}, io.StringIO(), os.getcwd()
    os.chdir(ROOT)
    try:
        with contextlib.redirect_stdout(printed):
            for block in re.finditer(r"^```python\n(.*?)^```", page, re.S | re.M):
                line = page[: block.start(1)].count("\n")  # for messages
                exec(compile("\n" * line + block[1], str(path), "exec"), names)
    finally:
        os.chdir(here)
    return names, printed.getvalue()


def load() -> aule.AttentionFunction:
    return aule.load(SAMPLE)
