"""Measures attention of one or a few queries over long caches, beside torch's and libraries' that serve, in one process.

    python bench/decode.py [--device cuda|cpu] [--dtype bf16] [--filter WORD] [--peers cudnn,fa2,fa3,flashinfer,xqa] [--rounds N] [--pages 16,64,128]
                           [--storage e4m3,i8:token] [--artifacts DIR,DIR..] [--write docs/performance.md --marker decode]
    python bench/decode.py --compile DIR [--arch sm_90] [--shape ROW] [--storage e4m3,i8:token]
    python bench/decode.py --check [--storage e4m3,i8:token] [--artifacts DIR]
    python bench/decode.py --ragged [--dtype bf16] [--filter WORD] [--artifacts DIR]
    python bench/decode.py --schedule [--dtype bf16] [--filter WORD] [--artifacts DIR]
    python bench/decode.py --prefix [--check] [--dtype bf16] [--filter WORD] [--artifacts DIR]

Each call of a turn has a cache of its own, so many that the far cache of the device does not hold them; the calls of a turn are one
CUDA graph. Bytes are those of the keys and values of all sequences, read once. Errors are against float64, of one group of heads,
over the largest value. On a processor the calls of a turn follow each other, the least time of all turns counts, --dtype may name several types, and a column has the time in which all
threads read the same caches (their sum by torch). Rows with pages have the same keys in pages drawn at random from a pool. Where fa3, flashinfer and xqa come
from is in bench/serving_peers.py; cells of a peer that is not here say `missing`. --check calls sequences of all
lengths in pages of all sizes, with NaN wherever no sequence is and wild entries behind each. --compile writes the artifacts for a machine
without the compiler, where --artifacts names the folder; of further folders there are further columns. --storage adds columns, and checks, of
caches in 8 bits: bytes are then those that are stored, scales of tokens among them, and errors are against float64 on the elements, scale
times stored; with e4m3 fa3 has such a column, too. --ragged has sequences of different lengths, by equal parts of a list and by as many parts each
(bench/ragged.py). --schedule has lists of work made once for several layers (bench/schedules.py). --prefix has sequences that share their first keys, with groups
and without (bench/prefixes.py).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import prefixes
import ragged as lengths_apart
import schedules
import torch
from bench import TYPES, Row, compile_artifact, note, peers_of, tell
from measure import FAR, first_of, graph_of, graph_seconds, median_seconds
from peers import SCRIPTS, Missing
from serving_peers import Fa3, Fa3Stored


@dataclass(frozen=True)
class Decode:
    B: int
    T: int
    S: int = 1
    H: int = 32
    Hk: int = 8
    D: int = 128
    page: int = 0  # 0: dense
    script = "full"

    @property
    def name(self) -> str:
        width = f", width {self.D}" if self.D != 128 else ""
        return f"B {self.B}, {self.H}/{self.Hk}, S {self.S}, T {self.T}{width}" + (f", pages of {self.page}" if self.page else "")

    def bytes(self, dtype: torch.dtype) -> int:
        return 2 * self.B * self.Hk * self.T * self.D * dtype.itemsize


DENSE = [Decode(1, 1024), Decode(1, 8192), Decode(1, 65536), Decode(8, 8192), Decode(64, 1024), Decode(64, 8192), Decode(256, 8192), Decode(64, 65536), Decode(8, 8192, S=4),
         Decode(8, 8192, H=8), Decode(8, 8192, H=40, S=2)]
PAGED = [Decode(1, 1024), Decode(1, 8192), Decode(1, 65536), Decode(8, 8192), Decode(64, 1024), Decode(64, 8192), Decode(256, 8192), Decode(64, 65536)]
FEW = [Decode(B, T, S=S) for B, T in ((1, 65536), (8, 8192), (64, 1024), (64, 8192)) for S in (4, 8)]  # in pages of the first size
FEW += [Decode(B, T, S=S) for B, T in ((1, 65536), (16, 8192), (64, 1024)) for S in (16, 17, 32, 64, 128)] + [Decode(1, 16384, S=S, Hk=2) for S in (1, 5)]
HOST_DENSE = [Decode(B, T) for B in (1, 8) for T in (8192, 32768)]
HOST_DENSE += [Decode(1, 8192, S=4), Decode(1, 8192, H=8), Decode(1, 32768, D=64), Decode(1, 65536, H=1, Hk=1), Decode(1, 65536, H=1, Hk=1, D=64)]
HOST_PAGED = [Decode(1, 32768), Decode(8, 8192)]


def dense(case: Decode, dtype: torch.dtype, device: str, copies: int):
    q = torch.randn(case.B, case.H, case.S, case.D, device=device).to(dtype)
    caches = [[torch.randn(case.B, case.Hk, case.T, case.D, device=device, dtype=dtype) for _ in "kv"] for _ in range(copies)]
    return q, caches


def in_pages(case: Decode, cache: list, table: torch.Tensor) -> list:
    """The same rows, page table[b, n] of the pool being rows n * page .. of sequence b."""
    pools = []
    for x in cache:
        pages = x.view(case.B, case.Hk, -1, case.page, case.D).transpose(1, 2).reshape(-1, case.Hk, case.page, case.D)
        pool = torch.empty_like(pages)
        pool[table.flatten().long()] = pages
        pools.append(pool)
    return pools


def exact(case: Decode, q, cache):
    """Of the last sequence's last group of heads."""
    group = case.H // case.Hk
    qs, k, v = q[-1, -group:].double(), cache[0][-1, -1].double(), cache[1][-1, -1].double()
    return torch.softmax(qs @ k.T * case.D**-0.5, -1) @ v


def error(case: Decode, o, want) -> float:
    got = o[-1, -(case.H // case.Hk):].double()
    return ((got - want).abs().max() / want.abs().max()).item()


STORED = {"e4m3": (torch.float8_e4m3fn, 448), "e5m2": (torch.float8_e5m2, 57344), "i8": (torch.int8, 127), "i4": (torch.uint8, 7)}


def scales_of(case: Decode, storage: str) -> int:
    """Of a token: none where a head has one."""
    how = storage.partition(":")[2]
    return case.D // int(how[8:]) if how.startswith("channels") else 1 if how else 0


def quantized(x: torch.Tensor, storage: str) -> tuple:
    """Codes of [.., Hk, T, D], and their scale: one a head, a token, or so many channels of a token. Two codes of i4 are a byte, the lower one first."""
    kind, _, how = storage.partition(":")
    dtype, largest = STORED[kind]
    parts = x.float().unflatten(-1, (-1, int(how[8:]) if how.startswith("channels") else x.shape[-1]))
    scale = parts.abs().amax(-1 if how else (0, 2, 3, 4), keepdim=True).clamp(min=1e-20) / largest
    codes = (parts / scale).flatten(-2)
    scale = scale.squeeze(-1)
    if dtype == torch.uint8:
        nibbles = codes.round().to(torch.int16) & 15
        return (nibbles[..., ::2] | nibbles[..., 1::2] << 4).to(dtype), scale
    return (codes.round() if dtype == torch.int8 else codes).to(dtype), scale


def elements(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    if codes.dtype == torch.uint8:
        nibbles = torch.stack([codes & 15, codes >> 4], -1).flatten(-2).to(torch.int8)
        codes = nibbles - 16 * (nibbles > 7)
    return (codes.float().unflatten(-1, (scale.shape[-1], -1)) * scale.unsqueeze(-1)).flatten(-2)


class Own:
    """aule's artifacts of a folder."""

    pages = True

    def __init__(self, folder: Path | None, label: str, storage: str = "") -> None:
        import aule

        self.aule, self.folder, self.name, self.made, self.storage = aule, folder, label, {}, storage

    def bytes(self, case: Decode, dtype: torch.dtype) -> int:
        if not self.storage:
            return case.bytes(dtype)
        width = case.D // 2 if self.storage.startswith("i4") else case.D
        return 2 * case.B * case.Hk * case.T * (width + 4 * scales_of(case, self.storage))

    def want(self, case: Decode, q, cache):
        return exact(case, q, [elements(*quantized(x, self.storage)) for x in cache] if self.storage else cache)

    def loaded(self, case: Decode):
        which = "full_paged" if case.page else "dense"
        if which not in self.made:
            layout = ({"layout": "T=paged"} if case.page else {}) | ({"storage": self.storage} if self.storage else {})
            self.made[which] = self.aule.load(self.folder / f"{which}{suffix(self.storage)}.so") if self.folder else self.aule.compile(SCRIPTS / "full.attn", **layout)
        return self.made[which]

    def call(self, case: Decode, q, k, v, **pages):
        f = self.loaded(case)
        if self.storage:
            (k, k_scale), (v, v_scale) = quantized(k, self.storage), quantized(v, self.storage)
            pages = pages | {"k_scale": k_scale, "v_scale": v_scale}
        return lambda: f(q, k, v, **pages)


class OwnListed(Own):
    """Given its lists of work, made once outside of what is timed, as a step of a server and other peers' plans are. Where kernels have none it is the same call."""

    def call(self, case: Decode, q, k, v, **pages):
        if not case.page:
            return None
        f = self.loaded(case)
        work = f.schedule(q, k, v, **pages)
        return lambda: f(q, k, v, **pages, schedule=work)


class OtherStored(Fa3Stored):
    """FlashAttention-3 over caches of e4m3 that are quantized as ours."""

    def __init__(self) -> None:
        super().__init__(quantized)

    def bytes(self, case: Decode, dtype: torch.dtype) -> int:
        return case.bytes(dtype) // dtype.itemsize

    def want(self, case: Decode, q, cache):
        return exact(case, q, [elements(*quantized(x, "e4m3")) for x in cache])


class Read:
    """The caches' numbers added up, by as many threads as torch has."""

    name = "read"

    def call(self, case: Decode, q, k, v):
        return lambda: [x.view(torch.float32).sum() for x in (k, v)]


def suffix(storage: str) -> str:
    return "_" + storage.replace(":", "_") if storage else ""


def row(case: Decode, peers: list, dtype: torch.dtype, a) -> dict:
    torch.manual_seed(1)
    copies = max(2, min(64, -(-FAR // case.bytes(dtype))))
    q, caches = dense(case, dtype, a.device, copies)
    plain = exact(case, q, caches[-1])
    want, pages = {p.name: p.want(case, q, caches[-1]) if hasattr(p, "want") else plain for p in peers}, {}
    if case.page:
        entries = case.T // case.page
        table = torch.randperm(case.B * entries, device=a.device).to(torch.int32).view(case.B, entries)
        pages = {"T_table": table, "T_lengths": torch.full((case.B,), case.T, device=a.device, dtype=torch.int32)}
        caches = [in_pages(case, cache, table) for cache in caches]
    made, kept = Row(case.name), []
    for peer in peers:

        def prepare():
            if isinstance(peer, Read):
                return 0.0, graph_of([peer.call(case, q, *cache) for cache in caches], a.device)
            if case.page and not getattr(peer, "pages", False):
                return None
            calls = [peer.call(case, q, *cache, **pages) for cache in caches]
            if calls[-1] is None:
                return None
            kept.append(calls)  # graphs do not keep what calls made for themselves
            return error(case, first_of(calls[-1]()), want[peer.name]), graph_of(calls, a.device)

        made.add(peer.name, prepare)
        if isinstance(peer, Missing):
            made.say(peer.name, "missing")
    read = {p.name: p.bytes(case, dtype) if hasattr(p, "bytes") else case.bytes(dtype) for p in peers}
    seconds = graph_seconds(made.graphs, copies, a.rounds, a.device)
    return made.found({name: (s, read[name] / s * 1e-9) for name, s in seconds.items()}, lambda s, off: (s[0] * 1e6, s[1], off))


def ragged(lengths: list, page: int, H: int, Hk: int, S: int, dtype: torch.dtype, device: str):
    """Sequences in pages drawn at random: NaN in every slot that none has, and what makes wild addresses behind each line of the table."""
    entries, D = -(-max(lengths) // page) + 2, 128
    pages = len(lengths) * entries + 3
    pools = [torch.full((pages, Hk, page, D), float("nan"), device=device, dtype=dtype) for _ in "kv"]
    table = torch.randperm(pages)[: len(lengths) * entries].view(len(lengths), entries)
    rows = [[torch.randn(Hk, n, D, device=device).to(dtype) for n in lengths] for _ in "kv"]
    for pool, of in zip(pools, rows):
        for b, x in enumerate(of):
            for j in range(0, lengths[b], page):
                pool[table[b, j // page], :, : x[:, j : j + page].shape[1]] = x[:, j : j + page]
    for b, n in enumerate(lengths):
        table[b, -(-n // page) :] = (-1, 2**31 - 1, -(2**31))[b % 3]
    q = torch.randn(len(lengths), H, S, D, device=device).to(dtype)
    given = {"T_table": table.to(device, torch.int32), "T_lengths": torch.tensor(lengths, device=device, dtype=torch.int32)}
    return q, pools, rows, given


def ragged_error(script: str, q, pools, rows, given, f, window: int) -> float:
    params = {"window": window} if script == "window" else {}
    o, worst = first_of(f(q, *pools, **given, **params)), 0.0
    B, H, S, D = q.shape
    for b in range(B):
        k, v = (x[b].double().repeat_interleave(H // x[b].shape[0], 0) for x in rows)
        T = k.shape[1]
        i, j = torch.arange(S, device=q.device)[:, None] + T - S, torch.arange(T, device=q.device)[None]
        seen = torch.ones(S, T, dtype=torch.bool, device=q.device) if script == "full" else (j <= i) & (i - j < (window if params else T + S))
        scores = (q[b].double() @ k.transpose(1, 2) * D**-0.5).masked_fill(~seen, -torch.inf)
        want = torch.nan_to_num(torch.softmax(scores, -1)) @ v
        off = (o[b].double() - want).abs().max().item() / max(want.abs().max().item(), 1e-3)
        worst = max(worst, off if off == off else float("inf"))
    return worst


def stored(q, pools, rows, given, storage: str) -> tuple:
    """The same in 8 bits: codes that are NaN, of i8 large, where no sequence is, and so their scales where each token has one."""
    scales, codes = [], []  # the rows become what they mean
    for pool, of in zip(pools, rows):
        free = pool[..., :1].isnan()
        code, scale = quantized(pool.nan_to_num(), storage)
        exact, page = elements(code, scale), pool.shape[2]
        for b, x in enumerate(of):
            j = torch.arange(x.shape[1], device=x.device)
            of[b] = exact[given["T_table"][b, j // page].long(), :, j % page].transpose(0, 1)
        code.view(torch.uint8).masked_fill_(free, 0x7F)
        scales.append(scale.masked_fill(free, float("nan")) if ":" in storage else scale)
        codes.append(code)
    return q, codes, rows, given | {"k_scale": scales[0], "v_scale": scales[1]}


def check(a) -> None:
    for storage in ("", *filter(None, a.storage.split(","))):
        check_one(a, storage)


def check_one(a, storage: str) -> None:
    """Pages of hard sizes and sequences of hard lengths."""
    import aule

    folder, worst = Path(a.artifacts.split(",")[0]), 0.0
    for script in ("full", "causal", "window"):
        f = aule.load(folder / f"{script}_paged{suffix(storage)}.so") if a.artifacts else aule.compile(SCRIPTS / f"{script}.attn", layout="T=paged", storage=storage or None)
        for page in (1, 7, 16, 48, 64, 107, 128, 256):
            for H, Hk, S in ((32, 8, 1), (6, 2, 3), (7, 1, 5), (5, 5, 2), (3, 1, 20)):
                lengths = [0, 1, page - 1, page, page + 1, 127, 128, 129, 300, 1000]
                given = ragged(lengths, page, H, Hk, S, TYPES[a.dtype], a.device)
                off = ragged_error(script, *(stored(*given, storage) if storage else given), f, 37)
                worst = max(worst, off)
                if off > 2e-2:
                    note(f"{storage} {script}, pages of {page}, {H}/{Hk} heads, S {S}: error {off:.1e}")
    print(f"lengths in pages of hard sizes, {a.dtype}{storage and ', stored as ' + storage}: largest error {worst:.1e} of the largest value, against float64")


def copy_rate(device: str) -> float:
    """GB/s, read and written."""
    x = torch.empty(1 << 30, dtype=torch.uint8, device=device)
    y = torch.empty_like(x)
    return 2e-9 * x.nbytes / median_seconds({"copy": lambda: y.copy_(x)}, device, 5)["copy"]


def compile_artifacts(a) -> None:
    a.compile.mkdir(parents=True, exist_ok=True)
    paged = ["--layout", "T=paged"]
    for name, script, layout in (("dense", "full", []), *((f"{s}_paged", s, paged) for s in ("full", "causal", "window"))):
        shape = ["--shape", a.shape] if a.shape else []
        if name.endswith("_paged"):
            compile_artifact(SCRIPTS / f"{script}.attn", a.compile / f"{script}_even.so", "cuda", a.arch, a.dtype, ["D=128"], "--no-grad", *layout, "--shape", lengths_apart.EVEN)
            compile_artifact(SCRIPTS / f"{script}.attn", a.compile / f"{script}_groups.so", "cuda", a.arch, a.dtype, ["D=128"], "--no-grad", "--layout", "T=paged:groups")
        for storage in ("", *filter(None, a.storage.split(","))):
            out = a.compile / f"{name}{suffix(storage)}.so"
            how = ["--storage", storage] if storage else []
            compile_artifact(SCRIPTS / f"{script}.attn", out, "cuda", a.arch, a.dtype, ["D=128"], "--no-grad", *layout, *shape, *how)


def cases_of(a) -> list:
    on_cuda, sizes = a.device.startswith("cuda"), [int(page) for page in a.pages.split(",") if page]
    dense_cases, paged = (DENSE, PAGED) if on_cuda else (HOST_DENSE, HOST_PAGED)
    return dense_cases + [replace(c, page=page) for c in paged for page in sizes] + [replace(c, page=sizes[0]) for c in FEW if on_cuda and sizes]


def shares(found: dict, names: list) -> str:
    """On a processor: our speed of reading's, and of the fastest peer's."""
    timed = {name: r for name, r in found.items() if isinstance(r, tuple)}
    own, read = timed.get(names[0]), timed.get(Read.name)
    others = [r[0] for n, r in timed.items() if n != Read.name and not n.startswith("aule")]
    return f" {read[0] / own[0] * 100:.0f} % | " + (f"{min(others) / own[0]:.2g}x |" if others else " |") if own and read else " | |"


def cell(r: tuple | str, on_cuda: bool, name: str) -> str:
    if isinstance(r, str):
        return r
    time_of = f"{r[0]:.3g} us" if on_cuda else f"{r[0] * 1e-3:.3g} ms"
    return f"{time_of}, {r[1]:.{0 if on_cuda else 1}f} GB/s" + ("" if name == Read.name else f", {r[2]:.0e}")


def compare(a) -> None:
    on_cuda = a.device.startswith("cuda")
    folders = [Path(f) for f in a.artifacts.split(",") if f] or [None]
    peers = [Own(f, "aule" if n == 0 else f"aule {f.name}") for n, f in enumerate(folders)]
    peers += [OwnListed(folders[0], "aule, lists given")] if on_cuda and a.pages else []
    peers += [Own(folders[0], f"aule {storage}", storage) for storage in a.storage.split(",") if storage]
    peers += peers_of(a.peers)
    if "e4m3" in a.storage.split(",") and any(isinstance(p, Fa3) for p in peers):
        peers.append(OtherStored())
    peers += [] if on_cuda else [Read()]
    names, types = [x.name for x in peers], a.dtype.split(",")
    heads = names if on_cuda else [*names, "aule of read", "aule / best peer"]
    lines = [f"| case | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for case, dtype in [(case, dtype) for dtype in types for case in cases_of(a)]:
        if a.filter not in case.name:
            continue
        found = row(case, peers, TYPES[dtype], a)
        cells = [cell(found[n], on_cuda, n) for n in names]
        lines.append(f"| {case.name}{f', {dtype}' if len(types) > 1 else ''} | {' | '.join(cells)} |" + ("" if on_cuda else shares(found, names)))
        note(lines[-1])
        if on_cuda:
            torch.cuda.empty_cache()
    ceiling = f" Copy: {copy_rate(a.device):.0f} GB/s." if on_cuda else ""
    tell(a, f"{a.dtype}, width 128{'' if on_cuda else ' unless said'}.{ceiling} {'Median' if on_cuda else f'Least of {a.rounds}'} times, largest error against float64.", lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("device", "cuda"), ("dtype", "bf16"), ("filter", ""), ("peers", ""), ("pages", "16,64,128"), ("artifacts", ""),
                          ("marker", "decode"), ("arch", ""), ("shape", ""), ("storage", "")):
        p.add_argument(f"--{name}", default=default)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--write", type=Path)
    p.add_argument("--compile", type=Path)
    p.add_argument("--check", action="store_true")
    p.add_argument("--prefix", action="store_true")
    p.add_argument("--ragged", action="store_true")
    p.add_argument("--schedule", action="store_true")
    a = p.parse_args()
    a.peers = a.peers or ("sdpa,cudnn,fa2,fa3,flashinfer,xqa" if a.device.startswith("cuda") else "sdpa")
    if a.compile:
        return compile_artifacts(a)
    if a.ragged:
        return lengths_apart.measure(a, copy_rate(a.device))
    if a.schedule:
        return schedules.measure(a)
    if a.prefix:
        return prefixes.check(a) if a.check else prefixes.measure(a)
    if a.check:
        return check(a)
    compare(a)


if __name__ == "__main__":
    main()
