"""Times calls that take turns, so that what else the machine does, and its clocks, fall on all of them alike."""

from __future__ import annotations

import statistics
import time
from typing import Callable

import torch

FAR = 300 << 20  # bytes of all caches of a turn of few queries: several times the far cache


def first_of(o):
    """o, of what may have finals beside it."""
    return o[0] if isinstance(o, (tuple, list)) else o


def _seconds_cpu(call: Callable, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def _seconds_cuda(call: Callable, repeats: int) -> float:
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(repeats):
        call()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) * 1e-3 / repeats


def median_seconds(calls: dict[str, Callable], device: str, rounds: int, least_seconds: float = 0.02) -> dict[str, float]:
    """Each call repeats within its turn until a turn is long enough to time."""
    once = _seconds_cuda if device.startswith("cuda") else _seconds_cpu
    repeats, times = {}, {name: [] for name in calls}
    for name, call in calls.items():
        call()
        repeats[name] = max(1, int(least_seconds / max(once(call, 1), 1e-6)))
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(once(call, repeats[name]))
    return {name: statistics.median(t) for name, t in times.items()}


def spans_of(call, rounds: int) -> list[tuple[str, float]]:
    """Name and milliseconds of each launch of [rounds] calls on the CUDA device, by torch's profiler."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(rounds):
            call()
        torch.cuda.synchronize()
    return [(e.name, e.time_range.elapsed_us() * 1e-3) for e in profiled.events() if e.device_type == DeviceType.CUDA]


def kernel_rows(title: str, spans: list[tuple[str, float]], rounds: int) -> list[str]:
    """A table of what one call spends in each kernel, the longest first."""
    by_name: dict[str, list[float]] = {}
    for name, ms in spans:
        by_name.setdefault(name[:100], []).append(ms)
    rows = sorted(((sum(ms) / rounds, len(ms) / rounds, name) for name, ms in by_name.items()), reverse=True)
    lines = [f"{title}: {sum(row[0] for row in rows):.3f} ms of kernels a call", "", "| kernel | launches | ms |", "|---|---|---|"]
    return lines + [f"| {name} | {launches:g} | {ms:.3f} |" for ms, launches, name in rows] + [""]


class Turn:
    """Calls one after the other, where there are no graphs."""

    def __init__(self, calls: list) -> None:
        self.calls = calls

    def replay(self) -> None:
        for call in self.calls:
            call()


def graph_of(calls: list, device: str = "cuda"):
    """One replay is a turn of all calls."""
    for call in calls:
        call()
    if not device.startswith("cuda"):
        return Turn(calls)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def graph_seconds(graphs: dict, copies: int, rounds: int, device: str = "cuda") -> dict:
    """Of one of the [copies] calls of each graph, the median; the first turn is not counted. On a processor the least: what else runs there only
    adds; and each turn waits until the threads of the one before, which spin for a while, sleep."""
    times, on_cuda = {name: [] for name in graphs}, device.startswith("cuda")
    once, repeats = (_seconds_cuda, 3) if on_cuda else (_seconds_cpu, 1)
    for turn in range(rounds + 1):
        for name, graph in graphs.items():
            if not on_cuda:
                time.sleep(0.05)
            seconds = once(graph.replay, repeats) / copies
            if turn:
                times[name].append(seconds)
    return {name: (statistics.median if on_cuda else min)(t) for name, t in times.items()}


def matmul_ceiling(device: str, dtype: torch.dtype) -> float:
    """FLOP/s of a large matrix product on random data: what the device has for attention at most."""
    n = 8192 if device.startswith("cuda") else 2048
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    return 2.0 * n**3 / median_seconds({"matmul": lambda: a @ b}, device, 5, 0.1)["matmul"]
