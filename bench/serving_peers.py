"""Peers that serve: FlashAttention-3 and FlashMLA, the files that vLLM ships of them, and FlashInfer with its XQA. What each takes is a `Batch`, and a call of
it over a cache; a `--peers` name is one of `PEERS` of bench/peers.py.

    fa3         `pip download --no-deps vllm==0.22.0` (for torch 2.11, CUDA 13), of which `unzip -j` brings vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so and
    flashmla    vllm/_flashmla_C.abi3.so; AULE_BENCH_FA3 and AULE_BENCH_FLASHMLA name the two files
    flashinfer  `pip install --no-deps flashinfer-python==0.6.11.post2 apache-tvm-ffi==0.1.15.post2`, beside them einops, tabulate, requests, tqdm, nvidia-ml-py, click; it
    xqa         compiles its kernels at first use, a minute or two for each family, by nvcc and ninja

Lists and plans are made once, outside of what is timed: a step of a server makes them once for all of its layers, too. Operations take their arguments by the names
of their schema, so that a version which has others says which."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

E_LATENT = 512


@dataclass(frozen=True)
class Batch:
    """Packed queries over keys in pages."""

    q: torch.Tensor  # [rows, H, D]
    starts: torch.Tensor  # [B + 1] i32: the rows of each sequence
    table: torch.Tensor  # [B, entries] i32; behind a sequence's end anything
    lengths: torch.Tensor  # [B] i32
    page: int
    Hk: int
    causal: bool
    window: int = 0  # keys that a query sees; 0: all

    @staticmethod
    def of_rows(q: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, page: int, Hk: int, causal: bool, window: int = 0) -> "Batch":
        """Of q [B, H, S, D]: as many rows each."""
        B, H, S, D = q.shape
        starts = torch.arange(B + 1, device=q.device, dtype=torch.int32) * S
        # One row sees every key either way, and with a mask it is FlashAttention-3's kernel for pages, as vLLM calls it
        return Batch(q.transpose(1, 2).reshape(B * S, H, D), starts, table, lengths, page, Hk, causal or S == 1, window)

    def by_heads(self, o: torch.Tensor) -> torch.Tensor:
        """[B, H, S, E] again."""
        return o.unflatten(0, (len(self.lengths), -1)).transpose(1, 2)

    @property
    def most(self) -> int:
        return int(self.starts.diff().max())

    @property
    def keys(self) -> int:
        return int(self.lengths.max())

    def entries(self) -> torch.Tensor:
        """The table with pages that exist behind each end, too."""
        held = torch.arange(self.table.shape[1], device=self.table.device) * self.page < self.lengths[:, None]
        return self.table.masked_fill(~held, 0).contiguous()

    def listed(self) -> tuple:
        """FlashInfer's lists: where each sequence's pages begin, all of them, how much of the last one is filled."""
        counts = -(-self.lengths // self.page)
        indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).int()
        held = torch.arange(self.table.shape[1], device=self.table.device) < counts[:, None]
        return indptr, self.table[held], (self.lengths - (counts - 1) * self.page).int()


def by_schema(op, defaults: dict, given: dict):
    """A call of op without arguments: every argument of its schema by name, None where nothing says more."""
    names = [x.name for x in op.default._schema.arguments]
    if unknown := [name for name in given if name not in names]:
        raise TypeError(f"{op} has no argument {', '.join(unknown)}; it has {', '.join(names)}")
    values = {name: given.get(name, defaults.get(name)) for name in names}
    return lambda: op(**values)


def library(file: str | None, variable: str, what: str) -> None:
    if not file:
        raise FileNotFoundError(f"{variable} names no file of {what} (bench/serving_peers.py says where it comes from)")
    torch.ops.load_library(file)


class Planned:
    """Plans by the tensors that they are of: a case's caches share one."""

    def __init__(self) -> None:
        self.of, self.made = (), None

    def get(self, of: tuple, make):
        if len(of) != len(self.of) or any(x is not y for x, y in zip(of, self.of)):
            self.of, self.made = of, make()
        return self.made


class Paged:
    """What a peer with `over_pages(batch)` is to bench/decode.py."""

    pages = True

    def __init__(self) -> None:
        self.planned = Planned()

    def call(self, case, q, k, v, T_table=None, T_lengths=None):
        if T_table is None:
            return self.dense(case, q, k, v)
        batch, plan = self.planned.get((q, T_table), lambda: self.plan_of(Batch.of_rows(q, T_table, T_lengths, case.page, case.Hk, case.script != "full")))
        if plan is None:
            return None
        run = plan(k, v)
        return lambda: batch.by_heads(run())

    def plan_of(self, batch: Batch) -> tuple:
        return batch, self.over_pages(batch)

    def dense(self, case, q, k, v):
        return None


class Fa3(Paged):
    """`torch.ops._vllm_fa3_C`: keys in pages, [pages, page, Hk, D] by strides, its list (`get_scheduler_metadata`) given; packed keys; dense ones; latent attention by q_v.
    Of e4m3 its queries are rounded, too: it has no other products."""

    DEFAULTS = {"is_causal": False, "window_size_left": -1, "window_size_right": -1, "softcap": 0.0, "is_rotary_interleaved": True, "num_splits": 0, "sm_margin": 0,
                "cp_world_size": 1, "cp_rank": 0, "max_seqlen_k_new": 0, "has_softcap": False}

    def __init__(self, storage: str = "") -> None:
        super().__init__()
        library(os.environ.get("AULE_BENCH_FA3"), "AULE_BENCH_FA3", "FlashAttention-3")
        self.ops, self.storage, self.name = torch.ops._vllm_fa3_C, storage, f"FA3 {storage}".strip()

    def forward(self, **given):
        run = by_schema(self.ops.fwd, self.DEFAULTS, given)
        return lambda: run()[0]

    def lists(self, batch: Batch, **given) -> dict:
        """What a call over pages is told of the batch."""
        sizes = {"max_seqlen_q": batch.most, "max_seqlen_k": batch.keys, "cu_seqlens_q": batch.starts, "seqused_k": batch.lengths, "is_causal": batch.causal}
        if batch.window:
            sizes |= {"window_size_left": batch.window - 1, "window_size_right": 0}
        D = batch.q.shape[2]
        about = {"batch_size": len(batch.lengths), "num_heads": batch.q.shape[1], "num_heads_k": batch.Hk, "headdim": D, "headdim_v": D, "qkv_dtype": batch.q.dtype, "page_size": batch.page}
        made = by_schema(self.ops.get_scheduler_metadata, self.DEFAULTS, sizes | about | given)()
        return sizes | {"page_table": batch.entries(), "scheduler_metadata": made}

    def over_pages(self, batch: Batch):
        given, scale = self.lists(batch), batch.q.shape[2] ** -0.5
        return lambda k, v: self.forward(q=batch.q, k=k.transpose(1, 2), v=v.transpose(1, 2), softmax_scale=scale, **given)

    def latent(self, batch: Batch, scale: float):
        """Of q [rows, H, 576]: pages of 576 channels, of which the first 512 are the value."""
        q, q_v = batch.q[..., E_LATENT:].contiguous(), batch.q[..., :E_LATENT].contiguous()
        given = self.lists(batch, headdim=q.shape[2], headdim_v=E_LATENT)

        def over(pool):
            rows = pool.view(-1, batch.page, 1, pool.shape[-1])
            return self.forward(q=q, q_v=q_v, k=rows[..., E_LATENT:], v=rows[..., :E_LATENT], softmax_scale=scale, **given)

        return over

    def packed(self, q, k, v, starts, most: int):
        """Causal, rows and keys of the same sequences."""
        return self.forward(q=q, k=k, v=v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=most, max_seqlen_k=most, is_causal=True, softmax_scale=q.shape[2] ** -0.5)

    def dense(self, case, q, k, v):
        how = {"full": {}, "causal": {"is_causal": True}, "softcap": {"is_causal": True, "softcap": 50.0},
               "window": {"window_size_left": getattr(case, "params", {}).get("window", 1) - 1, "window_size_right": 0}}.get(case.script)
        if how is None or q.requires_grad or self.storage:
            return None
        # This build has packed rows alone: as many each, in an order of its own
        (rows, keys, values), sizes = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)), {}
        for name, x in (("q", q), ("k", k)):
            sizes |= {f"cu_seqlens_{name}": torch.arange(len(x) + 1, device=x.device, dtype=torch.int32) * x.shape[2], f"max_seqlen_{name}": x.shape[2]}
        run = self.forward(q=rows, k=keys, v=values, softmax_scale=q.shape[3] ** -0.5, **sizes, **how)
        return lambda: run().unflatten(0, (len(q), -1)).transpose(1, 2)


class Fa3Stored(Fa3):
    """Its caches of e4m3, a scale a head; bench/decode.py has what they are quantized by."""

    def __init__(self, quantized) -> None:
        super().__init__("e4m3")
        self.quantized = quantized

    def call(self, case, q, k, v, T_table=None, T_lengths=None):
        if T_table is None:
            return None
        (k, k_scale), (v, v_scale) = self.quantized(k, "e4m3"), self.quantized(v, "e4m3")
        batch, given = self.planned.get((q, T_table), lambda: self.stored(Batch.of_rows(q, T_table, T_lengths, case.page, case.Hk, case.script != "full")))
        scales = {name: scale.reshape(1, case.Hk).expand(case.B, -1).contiguous() for name, scale in (("k_descale", k_scale), ("v_descale", v_scale))}
        run = self.forward(q=batch.q, k=k.transpose(1, 2), v=v.transpose(1, 2), softmax_scale=case.D**-0.5, **scales, **given)
        return lambda: batch.by_heads(run())

    def stored(self, batch: Batch) -> tuple:
        batch = Batch(batch.q.to(torch.float8_e4m3fn), *(getattr(batch, name) for name in ("starts", "table", "lengths", "page", "Hk", "causal")))
        return batch, self.lists(batch)


class FlashMla:
    """`torch.ops._flashmla_C.dense_decode_fwd`, whose arguments have no names: q [B, S, H, 576], pages of 64 slots, E, lengths, table, scale, causal, the two parts of its
    list (of the first call; None there), out."""

    name, page = "FlashMLA", 64

    def __init__(self) -> None:
        library(os.environ.get("AULE_BENCH_FLASHMLA"), "AULE_BENCH_FLASHMLA", "FlashMLA")

    def call(self, case, q, k, v):
        return None

    def latent(self, batch: Batch, scale: float):
        if batch.page != self.page:
            return None
        op, q, table = torch.ops._flashmla_C.dense_decode_fwd, batch.q.unflatten(0, (len(batch.lengths), -1)).contiguous(), batch.entries()
        lists = []

        def over(pool):
            rows = pool.view(-1, batch.page, 1, pool.shape[-1])
            given = (q, rows, E_LATENT, batch.lengths, table, scale, batch.causal)
            if not lists:
                lists.extend(op(*given, None, None, None)[2:4])
            return lambda: op(*given, *lists, None)[0].flatten(0, 1)

        return over


class FlashInfer(Paged):
    """Its wrappers, planned once; rows of one query by the one for decoding, others by the one for chunks, whose backend is [backend]."""

    WORKSPACE = 512 << 20

    def __init__(self, backend: str = "fa2") -> None:
        super().__init__()
        import flashinfer

        self.flashinfer, self.backend, self.name, self.room = flashinfer, backend, "FlashInfer" + ("" if backend == "fa2" else f" {backend}"), None

    def workspace(self, device):
        if self.room is None:
            self.room = torch.zeros(self.WORKSPACE, dtype=torch.uint8, device=device)
        return self.room

    def over_pages(self, batch: Batch):
        if batch.window:
            return None
        H, D, dtype, out = batch.q.shape[1], batch.q.shape[2], batch.q.dtype, torch.empty_like(batch.q)
        room, lists = self.workspace(batch.q.device), batch.listed()
        if batch.most == 1 and self.backend == "fa2":
            wrapper = self.flashinfer.BatchDecodeWithPagedKVCacheWrapper(room, "HND", use_tensor_cores=True)
            wrapper.plan(*lists, H, batch.Hk, D, batch.page, q_data_type=dtype, kv_data_type=dtype)
        else:
            wrapper = self.flashinfer.BatchPrefillWithPagedKVCacheWrapper(room, "HND", backend=self.backend)
            wrapper.plan(batch.starts, *lists, H, batch.Hk, D, batch.page, causal=batch.causal, q_data_type=dtype, kv_data_type=dtype)
        return lambda k, v: lambda: wrapper.run(batch.q, (k, v), out=out)

    def latent(self, batch: Batch, scale: float):
        indptr, indices, _ = batch.listed()
        wrapper = self.flashinfer.mla.BatchMLAPagedAttentionWrapper(self.workspace(batch.q.device), backend="auto")
        q_nope, q_pe = batch.q[..., :E_LATENT].contiguous(), batch.q[..., E_LATENT:].contiguous()
        dtype, out = batch.q.dtype, torch.empty_like(q_nope)
        wrapper.plan(batch.starts, indptr, indices, batch.lengths, batch.q.shape[1], E_LATENT, q_pe.shape[2], batch.page, batch.causal, scale, dtype, dtype)

        def over(pool):
            rows = pool.view(-1, batch.page, pool.shape[-1])
            return lambda: wrapper.run(q_nope, q_pe, rows[..., :E_LATENT], rows[..., E_LATENT:], out=out)

        return over


class Xqa(FlashInfer):
    """`xqa_batch_decode_with_kv_cache`: one query a sequence, pages of 16, 32, 64 and 128 slots."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "XQA"

    def over_pages(self, batch: Batch):
        if batch.window or batch.most != 1 or batch.page not in (16, 32, 64, 128):
            return None
        from flashinfer.decode import xqa_batch_decode_with_kv_cache

        given = {"workspace_buffer": self.workspace(batch.q.device), "block_tables": batch.entries(), "seq_lens": batch.lengths, "max_seq_len": batch.table.shape[1] * batch.page,
                 "bmm1_scale": batch.q.shape[2] ** -0.5, "bmm2_scale": 1.0, "kv_layout": "HND", "out": torch.empty_like(batch.q)}
        return lambda k, v: lambda: xqa_batch_decode_with_kv_cache(batch.q, (k, v), **given)

    def latent(self, batch: Batch, scale: float):
        return None
