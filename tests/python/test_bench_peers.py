"""bench/serving_peers.py: what its peers ask of the libraries, for which stand-ins answer that have their operations' schemas, look at shapes as those do and compute
attention plainly; the tables of the benches that have these peers; peers that are missing, and ones that fail. Where AULE_BENCH_FA3 and AULE_BENCH_FLASHMLA name
the files of the real libraries, the schemas are theirs."""

import contextlib
import io
import os
import re
import sys
import types
import unittest
from unittest import mock

from support import ROOT, torch

FILES = {"AULE_BENCH_FA3": "_vllm_fa3_C", "AULE_BENCH_FLASHMLA": "_flashmla_C"}
SCHEMAS = {
    "_vllm_fa3_C": [
        "fwd(Tensor(a!) q, Tensor k, Tensor v, Tensor? k_new, Tensor? v_new, Tensor? q_v, Tensor(b!)? out, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? cu_seqlens_k_new, "
        "Tensor? seqused_q, Tensor? seqused_k, int? max_seqlen_q, int? max_seqlen_k, Tensor? page_table, Tensor? kv_batch_idx, Tensor? leftpad_k, Tensor? rotary_cos, Tensor? rotary_sin, "
        "Tensor? seqlens_rotary, Tensor? q_descale, Tensor? k_descale, Tensor? v_descale, float softmax_scale, bool is_causal, int window_size_left, int window_size_right, float softcap, "
        "bool is_rotary_interleaved, Tensor? scheduler_metadata, int num_splits, bool? pack_gqa, int sm_margin, Tensor? s_aux, int cp_world_size, int cp_rank, Tensor? cp_tot_seqused_k) -> Tensor[]",
        "get_scheduler_metadata(int batch_size, int max_seqlen_q, int max_seqlen_k, int num_heads, int num_heads_k, int headdim, int headdim_v, ScalarType qkv_dtype, Tensor seqused_k, "
        "Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? cu_seqlens_k_new, Tensor? seqused_q, Tensor? leftpad_k, int? page_size, int max_seqlen_k_new, bool is_causal, "
        "int window_size_left, int window_size_right, bool has_softcap, int num_splits, bool? pack_gqa, int sm_margin) -> Tensor",
    ],
    "_flashmla_C": ["dense_decode_fwd(Tensor _0, Tensor _1, int _2, Tensor _3, Tensor _4, float _5, bool _6, Tensor? _7, Tensor? _8, Tensor? _9) -> (Tensor, Tensor, Tensor?, Tensor?)"],
}
KEPT = []  # libraries of operations, which end with their objects


def attend(q, k, v, scale, causal, left=-1):
    """q [S, H, D], k [T, Hk, D], v [T, Hk, E]; masks are aligned to the end."""
    S, T, group = len(q), len(k), q.shape[1] // k.shape[1]
    k, v = (x.float().repeat_interleave(group, 1) for x in (k, v))
    ahead = torch.arange(S)[:, None] + T - S - torch.arange(T)
    hidden = (ahead < 0) & causal | (ahead > left) & (left >= 0)
    scores = torch.einsum("shd,thd->hst", q.float(), k) * scale
    return torch.einsum("hst,the->she", torch.softmax(scores.masked_fill(hidden, -torch.inf), -1), v)


def gathered(pool, line, length):
    """The first rows of a sequence in pages [pages, page, ..]; entries behind its end have to be pages, too."""
    assert line.dtype == torch.int32 and ((line >= 0) & (line < len(pool))).all()
    return pool[line.long()].flatten(0, 1)[:length]


def by_name(op, args):
    return types.SimpleNamespace(**dict(zip([x.name for x in op.default._schema.arguments], args)))


def lists(a):
    """What a list has to agree in with its call."""
    page, sizes = a.page_size or 0, (a.max_seqlen_q, a.max_seqlen_k, a.num_heads, a.num_heads_k, a.headdim, a.headdim_v)
    assert a.batch_size == len(a.seqused_k) == len(a.cu_seqlens_q) - 1 and a.num_splits == 0 and a.max_seqlen_k_new == 0
    return torch.tensor([page, *sizes, a.is_causal, a.window_size_left, a.window_size_right], dtype=torch.int32)


def forward(a):
    assert all(x.stride(-1) == 1 for x in (a.q, a.k, a.v)) and a.q.dtype == a.k.dtype == a.v.dtype
    assert (a.softcap, a.cp_world_size, a.cp_rank, a.num_splits, a.sm_margin) == (0.0, 1, 0, 0, 0)
    H, D = a.q.shape[-2:]
    Hk, E = a.v.shape[-2:]
    f8 = a.q.dtype == torch.float8_e4m3fn
    q, keys = a.q.float(), (lambda b: (a.k[b], a.v[b]))
    if a.page_table is not None:
        assert a.k.shape == (*a.v.shape[:3], D) and a.page_table.shape[0] == len(a.seqused_k) and a.page_table.stride(-1) == 1
        want = [a.k.shape[1], a.max_seqlen_q, a.max_seqlen_k, H, Hk, D, E, a.is_causal, a.window_size_left, a.window_size_right]
        assert a.scheduler_metadata.tolist() == want, (a.scheduler_metadata, want)
        keys = lambda b: [gathered(x, a.page_table[b], int(a.seqused_k[b])) for x in (a.k, a.v)]  # noqa: E731
    elif a.cu_seqlens_k is not None:
        keys = lambda b: [x[a.cu_seqlens_k[b] : a.cu_seqlens_k[b + 1]] for x in (a.k, a.v)]  # noqa: E731
    if a.q_v is not None:
        assert D <= 64 and E >= 256 and a.q_v.shape == (*a.q.shape[:-1], E)
    out = torch.zeros(*a.q.shape[:-1], E)
    B = len(a.q) if a.cu_seqlens_q is None else len(a.cu_seqlens_q) - 1
    for b in range(B):
        at = b if a.cu_seqlens_q is None else slice(a.cu_seqlens_q[b], a.cu_seqlens_q[b + 1])
        (k, v), rows = keys(b), q[at]
        k, v = k.float(), v.float()
        if f8:
            assert a.k_descale.shape == a.v_descale.shape == (B, Hk)
            k, v = k * a.k_descale[b][:, None], v * a.v_descale[b][:, None]
        if a.q_v is not None:
            rows, k = torch.cat([rows, a.q_v[at].float()], -1), torch.cat([k, v], -1)
        out[at] = attend(rows, k, v, a.softmax_scale, a.is_causal, a.window_size_left)
    return [out.to(torch.bfloat16 if f8 else a.q.dtype)]


def latent(q, pool, E, lengths, table, scale, causal, meta, splits, out):
    assert pool.shape[1:3] == (64, 1) and q.stride(-1) == 1 and q.shape[-1] == pool.shape[-1] == 576 and E == 512 and (meta is None) == (splits is None)
    rows = [gathered(pool, line, int(n)) for line, n in zip(table, lengths)]
    o = torch.stack([attend(x, k, k[..., :E], scale, causal) for x, k in zip(q, rows)]).to(q.dtype)
    return o, torch.zeros(()), torch.zeros(1, 8, dtype=torch.int32), torch.zeros(len(q) + 1, dtype=torch.int32)


class Wrapper:
    """FlashInfer's, by its documentation: lists of pages, a layout, plan and run."""

    def __init__(self, room, layout="NHD", **options):
        assert room.dtype == torch.uint8 and not room.any()
        self.layout, self.options, self.kind = layout, options, type(self).__name__

    def held(self, pool, b):
        pages = self.indices[self.indptr[b] : self.indptr[b + 1]].long()
        rows = pool[pages].transpose(1, 2) if self.layout == "HND" else pool[pages]
        return rows.flatten(0, 1)[: (len(pages) - 1) * self.page + int(self.last[b])]

    def run(self, q, pools, out):
        assert all((x.shape[2] if self.layout == "HND" else x.shape[1]) == self.page for x in pools) and q.dtype == self.dtype
        for b in range(len(self.indptr) - 1):
            at = slice(self.starts[b], self.starts[b + 1])
            k, v = (self.held(pool, b) for pool in pools)
            out[at] = attend(q[at], k, v, q.shape[-1] ** -0.5, self.causal).to(q.dtype)
        return out


class BatchDecodeWithPagedKVCacheWrapper(Wrapper):
    def plan(self, indptr, indices, last, H, Hk, D, page, q_data_type, kv_data_type):
        assert self.options == {"use_tensor_cores": True}
        self.indptr, self.indices, self.last, self.page, self.dtype, self.causal, self.starts = indptr, indices, last, page, q_data_type, False, range(len(indptr))


class BatchPrefillWithPagedKVCacheWrapper(Wrapper):
    def plan(self, starts, indptr, indices, last, H, Hk, D, page, causal, q_data_type, kv_data_type):
        assert self.options["backend"] in ("fa2", "fa3")
        self.indptr, self.indices, self.last, self.page, self.dtype, self.causal, self.starts = indptr, indices, last, page, q_data_type, causal, starts


class BatchMLAPagedAttentionWrapper:
    def __init__(self, room, backend):
        assert backend == "auto"

    def plan(self, starts, indptr, indices, lengths, H, E, rope, page, causal, scale, q_type, kv_type):
        self.of, self.sizes = (starts, indptr, indices, lengths, causal, scale), (H, E, rope, page)

    def run(self, q, q_rope, c, c_rope, out):
        starts, indptr, indices, lengths, causal, scale = self.of
        assert (q.shape[1], q.shape[2], q_rope.shape[2], c.shape[1]) == self.sizes and c.shape[2] == self.sizes[1] and c_rope.shape[2] == self.sizes[2]
        for b, n in enumerate(lengths.tolist()):
            at, pages = slice(starts[b], starts[b + 1]), indices[indptr[b] : indptr[b + 1]]
            v, rope = gathered(c, pages, n)[:, None], gathered(c_rope, pages, n)[:, None]
            out[at] = attend(torch.cat([q[at], q_rope[at]], -1), torch.cat([v, rope], -1), v, scale, causal).to(q.dtype)
        return out


def xqa(q, pools, workspace_buffer, block_tables, seq_lens, max_seq_len, bmm1_scale, bmm2_scale, kv_layout, out):
    assert kv_layout == "HND" and bmm2_scale == 1.0 and max_seq_len >= int(seq_lens.max()) and not workspace_buffer.any()
    for b, n in enumerate(seq_lens.tolist()):
        k, v = (gathered(pool.transpose(1, 2), block_tables[b], n) for pool in pools)
        out[b : b + 1] = attend(q[b : b + 1], k, v, bmm1_scale, False).to(q.dtype)
    return out


def stand_in() -> dict:
    flashinfer, decode, mla = (types.ModuleType(name) for name in ("flashinfer", "flashinfer.decode", "flashinfer.mla"))
    flashinfer.BatchDecodeWithPagedKVCacheWrapper, flashinfer.BatchPrefillWithPagedKVCacheWrapper = BatchDecodeWithPagedKVCacheWrapper, BatchPrefillWithPagedKVCacheWrapper
    mla.BatchMLAPagedAttentionWrapper, decode.xqa_batch_decode_with_kv_cache = BatchMLAPagedAttentionWrapper, xqa
    flashinfer.mla, flashinfer.decode = mla, decode
    return {"flashinfer": flashinfer, "flashinfer.decode": decode, "flashinfer.mla": mla}


def operations():
    """The schemas, and kernels of processors for them."""
    for variable, space in FILES.items():
        if os.environ.get(variable):
            torch.ops.load_library(os.environ[variable])
        else:
            KEPT.append(torch.library.Library(space, "DEF"))
            for schema in SCHEMAS[space]:
                KEPT[-1].define(schema)
    fa3, mla = torch.library.Library("_vllm_fa3_C", "IMPL"), torch.library.Library("_flashmla_C", "IMPL")
    KEPT.extend((fa3, mla))
    fa3.impl("fwd", lambda *args: forward(by_name(torch.ops._vllm_fa3_C.fwd, args)), "CPU")
    fa3.impl("get_scheduler_metadata", lambda *args: lists(by_name(torch.ops._vllm_fa3_C.get_scheduler_metadata, args)), "CPU")
    mla.impl("dense_decode_fwd", latent, "CPU")


@contextlib.contextmanager
def modules(named: dict):
    """These, and what was there before behind it; others that are loaded meanwhile stay, since PyTorch's cannot be loaded twice."""
    before = {name: sys.modules.get(name) for name in named}
    sys.modules.update(named)
    yield
    for name, module in before.items():
        if module is None:
            del sys.modules[name]
        else:
            sys.modules[name] = module


class Broken:
    """Artifacts of which every call fails."""

    def function(self, *_):
        return self

    def schedule(self, *_, **__):
        raise RuntimeError("no schedule | here")

    def __call__(self, *_, **__):
        raise RuntimeError("no call | here")


@unittest.skipIf(torch is None, "torch is not installed")
class Peers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        operations()
        folder = str(ROOT / "bench")
        with mock.patch.object(sys, "path", [folder, *sys.path]), mock.patch.object(sys, "argv", ["bench", "--device", "cuda"]):  # cuda: nothing of oneDNN is tried
            import decode
            import latent as latent_bench
            import mixed
            import prefixes
            import ragged
            import serving_peers
            import varlen

            cls.decode, cls.latent, cls.mixed, cls.prefixes, cls.ragged, cls.peers, cls.varlen = decode, latent_bench, mixed, prefixes, ragged, serving_peers, varlen
        cls.a = types.SimpleNamespace(device="cpu", dtype="f32", rounds=1, artifacts="", storage="", pages="16", filter="", write=None, marker="", peers="")

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(modules(stand_in()))
        stack.enter_context(mock.patch.object(self.peers, "library", lambda *_: None))
        stack.enter_context(mock.patch.object(self.peers.FlashInfer, "WORKSPACE", 1 << 10))
        for module in (self.decode, self.latent, self.ragged, self.prefixes):
            stack.enter_context(mock.patch.object(module, "FAR", 1))
        self.noted = stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        p = self.peers
        self.fa3, self.flashmla, self.flashinfer, self.xqa = p.Fa3(), p.FlashMla(), p.FlashInfer(), p.Xqa()

    def test_decode(self):
        D, peers = self.decode.Decode, [self.fa3, self.flashinfer, self.xqa, self.decode.OtherStored()]
        for case, columns in ((D(3, 64, H=8, Hk=2, page=16), "FA3 FlashInfer XQA FA3_e4m3"), (D(2, 128, H=6, Hk=2, page=64, S=3), "FA3 FlashInfer FA3_e4m3"), (D(2, 48, H=8, Hk=2), "FA3")):
            found = self.decode.row(case, peers, torch.float32, self.a)
            for name, r in found.items():
                if name.replace(" ", "_") in columns.split():
                    self.assertIsInstance(r, tuple, f"{case.name}, {name}: {r}; {self.noted.getvalue()}")
                    self.assertLess(r[2], 5e-2 if "e4m3" in name else 1e-5, f"{case.name}, {name}")
                else:
                    self.assertEqual(r, "", f"{case.name}, {name}")

    def test_latent(self):
        columns = [self.latent.Other(p) for p in (self.fa3, self.flashmla, self.flashinfer)]
        for case in (self.latent.Latent(2, 128, H=4), self.latent.Latent(2, 128, H=4, S=2)):
            self.near(self.latent.row(case, columns, self.a), r"us, .*GB/s, (\S+)$", 3)

    def test_pages_of_other_sizes(self):
        found = self.latent.row(self.latent.Latent(2, 128, H=4, page=32), [self.latent.Other(self.flashmla)], self.a)
        self.assertEqual(found, {"FlashMLA": ""})

    def near(self, found, pattern, count):
        errors = {name: float(m[1]) for name, text in found.items() if (m := re.search(pattern, text))}
        self.assertEqual(len(errors), count, f"{found}; {self.noted.getvalue()}")
        self.assertLess(max(errors.values()), 1e-5, errors)

    def cells(self, line):
        return dict(enumerate(x.strip() for x in line.strip("|").split("|")))

    def test_ragged(self):
        with mock.patch.object(self.ragged, "call_of", lambda *_: Broken()):
            case = self.ragged.Ragged(5, 40, H=8, Hk=2)
            said = self.cells(self.ragged.row(self.a, case, 1.0, [self.fa3, self.flashinfer, self.xqa]))
            self.assertTrue(said[1].startswith("failed: RuntimeError: no call / here"), said)
            self.near(said, r" us, .*GB/s, (\S+)$", 3)
            window = self.ragged.Ragged(3, 1500, H=2, Hk=2, script="window")
            self.near(self.cells(self.ragged.row(self.a, window, 1.0, [self.fa3, self.flashinfer])), r" us, .*GB/s, (\S+)$", 1)

    def test_prefixes(self):
        with mock.patch.object(self.prefixes, "function", lambda *_: Broken()):
            for case in (self.prefixes.Prefix(4, 32, 20, H=4, Hk=2), self.prefixes.Prefix(4, 32, 20, S=3, H=4, Hk=2), self.prefixes.Prefix(4, 32, 20, H=4, Hk=2, script="full")):
                said = self.cells(self.prefixes.row(self.a, case, [self.fa3, self.flashinfer]))
                self.assertIn("no schedule / here", said[4])
                self.near(said, r" us, (\S+)$", 2)

    def test_packed(self):
        found = self.varlen.row(self.varlen.Varlen("few", (5, 1, 40), 4, 2), Broken(), [self.fa3], self.a)
        self.assertLess(found["FA3"][2], 1e-5, self.noted.getvalue())
        self.assertTrue(found["aule"].startswith("failed: "), found)

    def test_mixed(self):
        step = self.mixed.Step("few", ((1, 40), (1, 33), (20, 50)), 4, 2)
        peers = [self.fa3, self.flashinfer, self.peers.FlashInfer("fa3")]
        found = self.mixed.row(step, Broken(), peers, self.a)
        for peer in peers:
            self.assertIsInstance(found[peer.name], tuple, f"{found}; {self.noted.getvalue()}")
            self.assertLess(found[peer.name][2], 1e-5, peer.name)
        self.assertTrue(found["one call"].startswith("failed: "), found)

    def test_arguments_of_another_version(self):
        with self.assertRaisesRegex(TypeError, "has no argument sinks; it has q, k, v"):
            self.peers.by_schema(torch.ops._vllm_fa3_C.fwd, {}, {"sinks": None})


@unittest.skipIf(torch is None, "torch is not installed")
class Absent(unittest.TestCase):
    """Nothing is stood in for."""

    def test_tables_say_so(self):
        out, err = io.StringIO(), io.StringIO()
        place = str(ROOT / "bench")
        options = ["decode.py", "--device", "cpu", "--dtype", "f32", "--pages", "16", "--peers", "fa3,flashinfer,xqa", "--rounds", "1", "--filter", "T 48"]
        with mock.patch.object(sys, "path", [place, *sys.path]), mock.patch.object(sys, "argv", options), modules({"flashinfer": None}), \
                mock.patch.dict(os.environ, {name: "" for name in FILES}), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            import decode

            small = decode.Decode(2, 48, H=4, Hk=2, D=32)
            with mock.patch.object(decode, "HOST_DENSE", [small]), mock.patch.object(decode, "HOST_PAGED", [small]), mock.patch.object(decode, "FAR", 1):
                decode.main()
        rows = [line for line in out.getvalue().splitlines() if "T 48" in line]
        self.assertEqual([row.count("| missing ") for row in rows], [3, 3], out.getvalue())
        self.assertIn("AULE_BENCH_FA3 names no file of FlashAttention-3", err.getvalue())


if __name__ == "__main__":
    unittest.main()
