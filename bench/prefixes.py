"""Decoding where neighbouring sequences share their first keys (`T=paged:groups`), beside the same call without groups, and beside peers that take
pages (of --peers), which read the prefix for each sequence: bench/decode.py --prefix has it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from bench import TYPES, Row, note, peers_of, tell
from measure import FAR, first_of, graph_of, graph_seconds
from peers import SCRIPTS, Missing
from serving_peers import Batch

D = 128


@dataclass(frozen=True)
class Prefix:
    B: int
    shared: int
    own: int
    groups: int = 1
    S: int = 1
    H: int = 32
    Hk: int = 8
    page: int = 16
    script: str = "causal"

    @property
    def name(self) -> str:
        of = f"{self.groups} groups of " if self.groups > 1 else ""
        return f"{self.script}, {of}{self.B // self.groups}, {self.shared} + {self.own}, {self.H}/{self.Hk}, S {self.S}, pages of {self.page}"

    def keys(self, once: bool) -> int:
        """Of one head."""
        return self.B * self.own + self.shared * (self.groups if once else self.B)


CASES = [
    Prefix(64, 8192, 512), Prefix(64, 8192, 512, script="full"), Prefix(64, 2048, 512), Prefix(64, 512, 512), Prefix(64, 128, 512), Prefix(64, 64, 512),
    Prefix(64, 0, 512), Prefix(64, 8192, 512, groups=8), Prefix(64, 8192, 512, groups=64), Prefix(8, 8192, 512), Prefix(2, 8192, 512), Prefix(256, 2048, 128),
    Prefix(64, 8192, 512, S=4), Prefix(64, 8192, 512, script="window"), Prefix(64, 8192, 512, H=32, Hk=32), Prefix(64, 8192, 512, page=64),
]
SCRIPTS_OF = ("full", "causal", "window")
WINDOW = 1024


def tables(case: Prefix, lengths: list, device: str) -> tuple[dict, dict, int]:
    """The lists of a call, those of groups, and how many pages there are. Pages of a group's prefix are drawn once for all of its sequences."""
    entries, of = -(-max(lengths) // case.page) + 1, case.B // case.groups
    shared = case.shared // case.page
    pages = case.groups * shared + case.B * entries + 3
    drawn = torch.randperm(pages, device=device).to(torch.int32)
    prefix, table = drawn[: case.groups * shared].view(case.groups, shared), drawn[case.groups * shared : case.groups * shared + case.B * entries].view(case.B, entries).clone()
    for b, n in enumerate(lengths):
        if n >= case.shared:
            table[b, :shared] = prefix[b // of]
        table[b, -(-n // case.page) :] = (-1, 2**31 - 1, -(2**31))[b % 3]
    given = {"T_table": table, "T_lengths": torch.tensor(lengths, device=device, dtype=torch.int32)}
    borders = torch.arange(case.groups + 1, device=device, dtype=torch.int32) * of
    return given, {"T_groups": borders, "T_shared": torch.full((case.groups,), case.shared, device=device, dtype=torch.int32)}, pages


def exact(case: Prefix, q: torch.Tensor, pools: list, given: dict, b: int, window: int) -> torch.Tensor:
    """Of sequence b, in float64."""
    n = int(given["T_lengths"][b])
    j = torch.arange(n, device=q.device)
    k, v = (pool[given["T_table"][b, j // case.page].long(), :, j % case.page].transpose(0, 1).double().repeat_interleave(case.H // case.Hk, 0) for pool in pools)
    i = torch.arange(case.S, device=q.device)[:, None] + n - case.S
    seen = torch.ones(case.S, n, dtype=torch.bool, device=q.device) if case.script == "full" else j <= i
    if case.script == "window":
        seen = seen & (i - j < window)
    scores = (q[b].double() @ k.transpose(1, 2) * D**-0.5).masked_fill(~seen, -torch.inf)
    return torch.nan_to_num(torch.softmax(scores, -1)) @ v


def function(a, script: str, groups: bool):
    import aule

    if a.artifacts:
        return aule.load(f"{a.artifacts.split(',')[0]}/{script}_{'groups' if groups else 'paged'}.so")
    return aule.compile(SCRIPTS / f"{script}.attn", layout="T=paged:groups" if groups else "T=paged")


OWN = {"apart": (False, False), "groups": (True, False), "apart, given lists": (False, True), "groups, given lists": (True, True)}  # by groups, given lists


def row(a, case: Prefix, peers: list) -> str:
    torch.manual_seed(1)
    dtype, params = TYPES[a.dtype], {"window": WINDOW} if case.script == "window" else {}
    each = 2 * case.Hk * D * dtype.itemsize * case.keys(True)
    copies = max(2, min(16, -(-FAR // each)))
    given, groups, pages = tables(case, [case.shared + case.own] * case.B, a.device)
    q = torch.randn(case.B, case.H, case.S, D, device=a.device).to(dtype)
    caches = [[torch.randn(pages, case.Hk, case.page, D, device=a.device, dtype=dtype) for _ in "kv"] for _ in range(copies)]
    want = exact(case, q, caches[-1], given, case.B - 1, WINDOW)
    made, kept = Row(case.name), []

    def own(by_groups: bool, lists: bool) -> list:
        f, more = function(a, case.script, by_groups), groups if by_groups else {}
        work = {"schedule": f.schedule(q, *caches[0], **given, **more, **params)} if lists else {}
        return [lambda k=k, v=v: f(q, k, v, **given, **more, **params, **work) for k, v in caches]

    def others(peer) -> list | None:
        batch = Batch.of_rows(q, given["T_table"], given["T_lengths"], case.page, case.Hk, case.script != "full", **params)
        plan = peer.over_pages(batch)
        return plan and [lambda run=plan(k, v): batch.by_heads(run()) for k, v in caches]

    def add(name: str, calls_of, *of) -> None:
        def prepare():
            calls = calls_of(*of)
            kept.append(calls)
            return calls and (((first_of(calls[-1]())[-1].double() - want).abs().max() / want.abs().max()).item(), graph_of(calls, a.device))

        made.add(name, prepare)

    for name, of in OWN.items():
        add(name, own, *of)
    for peer in peers:
        if isinstance(peer, Missing):
            made.say(peer.name, "missing")
        else:
            add(peer.name, others, peer)
    seconds, cells = graph_seconds(made.graphs, copies, a.rounds, a.device), []
    found = made.found(seconds, lambda s, off: f"{s * 1e6:.3g} us, {off:.0e}")
    for how in ("", ", given lists"):
        pair = [f"apart{how}", f"groups{how}"]
        cells += [found[n] for n in pair]
        cells.append(f"{seconds[pair[0]] / seconds[pair[1]]:.2f}" if seconds.keys() >= set(pair) else "")
    rate = f"{each / seconds['groups'] * 1e-9:.0f} GB/s" if "groups" in seconds else ""
    return f"| {case.name} | {' | '.join([*cells, rate, *(found[p.name] for p in peers)])} |"


def measure(a) -> None:
    peers = [p for p in peers_of(a.peers) if isinstance(p, Missing) or hasattr(p, "over_pages")]
    heads = ["each sequence by itself", "`groups`", "times", "by itself, given lists", "`groups`, given lists", "times", "keys and values read once", *(p.name for p in peers)]
    lines = [f"| case | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for case in CASES:
        if a.filter in case.name:
            lines.append(row(a, case, peers))
            note(lines[-1])
            if a.device != "cpu":
                torch.cuda.empty_cache()
    tell(a, f"{a.dtype}, width {D}. Median times, largest error against float64.", lines)


def check(a) -> None:
    """Groups of sequences of hard lengths, in pages of hard sizes: NaN in every slot that none has, wild entries behind each."""
    worst = 0.0
    for script in SCRIPTS_OF:
        f = function(a, script, True)
        for page, shared, groups, of, H, Hk, S in (
            (16, 256, 1, 7, 8, 2, 1), (16, 144, 3, 5, 4, 4, 3), (64, 640, 2, 9, 32, 8, 2), (128, 128, 4, 3, 6, 2, 1), (7, 70, 2, 4, 4, 2, 1), (16, 16, 5, 2, 8, 8, 4),
            (32, 2048, 1, 70, 8, 2, 1), (16, 0, 2, 3, 4, 2, 1), (16, 128, 40, 1, 4, 2, 1), (16, 512, 300, 2, 2, 1, 1), (16, 1008, 2, 33, 40, 8, 2),
        ):
            case = Prefix(groups * of, shared, 300, groups, S, H, Hk, page, script)
            lengths = [shared + 200 if b % of == 0 else (shared + (b * 37) % 300, shared, max(shared - 9, 0), 0, shared + 1)[b % 5] for b in range(case.B)]
            given, lists, pages = tables(case, lengths, a.device)
            pools = [torch.full((pages, Hk, page, D), float("nan"), device=a.device, dtype=TYPES[a.dtype]) for _ in "kv"]
            for pool in pools:
                for b, n in enumerate(lengths):
                    for e in range(-(-n // page)):
                        rows = min(page, n - e * page)
                        pool[given["T_table"][b, e].long(), :, :rows] = torch.randn(Hk, rows, D, device=a.device).to(pool.dtype)
            q = torch.randn(case.B, H, S, D, device=a.device).to(TYPES[a.dtype])
            o = first_of(f(q, *pools, **given, **lists, **({"window": 37} if script == "window" else {})))
            off = 0.0
            for b in range(case.B):
                want = exact(case, q, pools, given, b, 37)
                one = (o[b].double() - want).abs().max().item() / max(want.abs().max().item(), 1e-3)
                off = max(off, one if one == one else float("inf"))
            worst = max(worst, off)
            if off > 2e-2:
                note(f"{case.name}: error {off:.1e}")
    print(f"groups of sequences of hard lengths, {a.dtype}: largest error {worst:.1e} of the largest value, against float64")
