#!/usr/bin/env python3
"""Decoding on an NVIDIA GPU: cells of batches, lengths and pages, beside cuDNN and a bare read of the same bytes.

    decode.py [--arm NAME=LIBRARY[:KERNEL[:PARAM=VALUE,...]][+settled]]... [--cells GROUP,...] [--rounds N] [--tsv FILE]

An arm is a libattune, and a kernel of it if one is named; +settled: all but Q is promised to be there (attune_call).
`cudnn` is PyTorch's scaled_dot_product_attention by cuDNN, on contiguous K and V, for one query; `cudnn_paged` is its
graph for pages (cudnn_paged.py), where nvidia-cudnn-frontend is installed, `xqa` FlashInfer's kernel, where that is;
`read` copies as many bytes of K and V into shared memory and does nothing with them. Times are of CUDA graphs of many
calls, a replay of each arm in turns and random order; a cell's time is the median of rounds. cold: K and V rotate
through pools of together 256 MB and more, so that nothing is left in L2; warm: the same ones each time. Q, O, tables
and lengths are always the same. Each arm's O is compared with fp64 first, for the last head of the last sequence: err.
Pages are of a random permutation; NHD: [pages, rows, heads, d], else [pages, heads, rows, d].
"""
import argparse
import concurrent.futures
import ctypes
import math
import os
import random
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

sys.path.insert(0, HERE)
from attune import library, plans  # noqa: E402

READ = r"""
__device__ __forceinline__ unsigned shared_of(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
extern __shared__ __align__(128) unsigned char memory[];
/* Each warp has every (blocks x warps)-th part, and three on their way. */
__global__ void __launch_bounds__(256, 1) read_parts(const unsigned char *from, long long parts)
{
    enum { STAGES = 3, PART = 8192 };
    __shared__ unsigned long long full[8][STAGES];
    const int warp = threadIdx.x / 32;
    const long long stride = gridDim.x * 8;
    if (threadIdx.x % 32 != 0) return;
    for (int i = 0; i < STAGES; ++i)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_of(&full[warp][i])) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    long long next = blockIdx.x * 8 + warp;
    auto copy = [&](int stage) {
        if (next < parts) {
            const unsigned bar = shared_of(&full[warp][stage]);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"((int)PART)
                         : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                         "[%0], [%1], %2, [%3], %4;" ::"r"(shared_of(memory) + (warp * STAGES + stage) * PART),
                         "l"(from + next * PART), "r"((int)PART), "r"(bar), "l"(0x12f0000000000000ull) : "memory");
        }
        next += stride;
    };
    for (int i = 0; i < STAGES; ++i) copy(i);
    int stage = 0, parity = 0;
    for (long long at = blockIdx.x * 8 + warp; at < parts; at += stride) {
        unsigned done = 0;
        while (!done)
            asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                         " selp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(shared_of(&full[warp][stage])), "r"(parity)
                         : "memory");
        copy(stage);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
}
extern "C" int read_bytes(const void *from, long long bytes, int blocks, void *stream)
{
    cudaFuncSetAttribute(read_parts, cudaFuncAttributeMaxDynamicSharedMemorySize, 8 * 3 * 8192);
    read_parts<<<blocks, 256, 8 * 3 * 8192, (cudaStream_t)stream>>>((const unsigned char *)from, bytes / 8192);
    return cudaGetLastError();
}
"""


class Read:
    """Reads memory; there is none where there is no nvcc."""

    def __init__(self):
        folder = tempfile.mkdtemp()
        with open(f"{folder}/read.cu", "w") as source:
            source.write(READ)
        try:
            subprocess.run(["nvcc", "-O3", "-arch=sm_90", "-shared", "-Xcompiler", "-fPIC", "-o", f"{folder}/read.so",
                            f"{folder}/read.cu"], check=True)
            self.c = ctypes.CDLL(f"{folder}/read.so").read_bytes
            self.c.argtypes = [ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int, ctypes.c_void_p]
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"# read: {error}", flush=True)
            self.c = None
        self.blocks = torch.cuda.get_device_properties(0).multi_processor_count

    def __call__(self, tensor, size):
        if self.c(tensor.data_ptr(), size, self.blocks, torch.cuda.current_stream().cuda_stream):
            raise RuntimeError("read_bytes failed")


class Cell:
    """What is asked. lengths: of the batch, where they differ."""

    def __init__(self, batch, heads, heads_kv, length, sq=1, page=0, lengths=None, nhd=False, dim=128, name=None):
        self.batch, self.heads, self.heads_kv = batch, heads, heads_kv
        self.length, self.sq, self.page = length, sq, page
        self.lengths, self.nhd, self.dim = lengths, nhd, dim
        self.name = name or (f"b{batch},h{heads}," + (f"hkv{heads_kv}," if heads_kv != heads else "") +
                             f"sq{sq},skv{length},d{dim},bf16" + (",causal" if sq > 1 else "") +
                             (f",page={page}" if page else "") + (",NHD" if nhd else ""))
        self.keys = sum(lengths) if lengths else batch * length
        self.bytes = 2 * 2 * self.keys * heads_kv * dim

    def problem(self):
        return (f"b{self.batch},h{self.heads},hkv{self.heads_kv},sq{self.sq},skv{self.length},d{self.dim},bf16" +
                (",causal" if self.sq > 1 else "") + (",seqused" if self.lengths or self.page else "") +
                (f",page={self.page}" if self.page else "") + (",layout=bshd" if self.nhd else ""))


def randn(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


class Data:
    """A cell's arrays: one set of Q, O, tables and lengths, and as many pools of K and V as are asked for."""

    def __init__(self, cell, pools):
        b, sq, d = cell.batch, cell.sq, cell.dim
        self.cell = cell
        self.q = randn(b, sq, cell.heads, d).transpose(1, 2) if cell.nhd else randn(b, cell.heads, sq, d)
        self.used = torch.tensor(cell.lengths or [cell.length] * b, dtype=torch.int32, device="cuda")
        self.table = None
        if cell.page:
            counts = [-(-length // cell.page) for length in self.used.tolist()]
            order = torch.randperm(sum(counts), device="cuda").int()
            self.table = torch.full((b, max(counts)), 2147480000, dtype=torch.int32, device="cuda")
            at = 0
            for i, count in enumerate(counts):
                self.table[i, :count] = order[at:at + count]
                at += count
            shape = (sum(counts), *((cell.page, cell.heads_kv) if cell.nhd else (cell.heads_kv, cell.page)), d)
        else:
            shape = (b, cell.heads_kv, cell.length, d)
        self.raw = [randn(2, *shape) for _ in range(pools)]
        self.k, self.v = ([pool[i].transpose(1, 2) if cell.nhd else pool[i] for pool in self.raw] for i in (0, 1))

    def rows(self, pool, index, head):
        """K and V of one head of one sequence."""
        cell, length = self.cell, int(self.used[index])
        if cell.page:
            pages = self.table[index, :-(-length // cell.page)].long()
            return (x[pages, head].reshape(-1, cell.dim)[:length] for x in (self.k[pool], self.v[pool]))
        return self.k[pool][index, head, :length], self.v[pool][index, head, :length]

    def reference(self, pool):
        cell = self.cell
        k, v = (x.double() for x in self.rows(pool, cell.batch - 1, cell.heads_kv - 1))
        q = self.q[-1, -1].double()
        scores = q @ k.T / math.sqrt(cell.dim)
        hidden = torch.arange(k.shape[0], device="cuda")[None] > torch.arange(cell.sq, device="cuda")[:, None] + \
            k.shape[0] - cell.sq
        return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v


def plan_of(spec, problem):
    path, _, kernel = spec.partition(":")
    with opening:
        if path not in contexts:
            contexts[path] = plans.Context("cuda", lib=library.Library(os.path.abspath(path)))
    return contexts[path].plan(problem, kernel=kernel or None)


def attune_arm(spec, cell, data):
    promise, spec = spec.endswith("+settled"), spec.removesuffix("+settled")
    plan = plan_of(spec, cell.problem())
    o = torch.empty_like(data.q)
    room = torch.full((max(plan.workspace(), 256),), 255, dtype=torch.uint8, device="cuda")
    roles = {"Q": data.q, "O": o}
    if cell.page:
        roles["PAGE_TABLE_K"] = data.table
    if cell.page or cell.lengths:
        roles["USED_KV"] = data.used
    settled = [role for role in ("K", "V", "PAGE_TABLE_K", "USED_KV") if role in (*roles, "K", "V")] if promise else []
    calls = [plan.bind({**roles, "K": k, "V": v}, room, settled=settled) for k, v in zip(data.k, data.v)]
    return [call.run for call in calls], o, plan.kernel


contexts, opening = {}, threading.Lock()


def cudnn_arm(data):
    outputs = [None]

    def call(k, v):
        def run():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                outputs[0] = F.scaled_dot_product_attention(data.q, k, v, enable_gqa=True)
        return run
    calls = [call(k, v) for k, v in zip(data.k, data.v)]
    calls[0]()
    return calls, outputs, "cudnn"


def cudnn_paged_arm(cell, data):
    import cudnn_paged
    calls = [cudnn_paged.prepare(data.q, k, v, causal=cell.sq > 1, scale=1 / math.sqrt(cell.dim), page_table=data.table,
                                 seqused=data.used, seqlen_kv=cell.length) for k, v in zip(data.k, data.v)]
    return calls, [calls[0]()], "cudnn_paged"


def xqa_arm(cell, data):
    """FlashInfer's XQA, which takes lengths and tables on the device, too; it keeps semaphores from call to call."""
    from flashinfer import xqa
    heads = (cell.batch, 1, cell.heads, cell.dim)
    o, q = torch.empty(heads, dtype=torch.bfloat16, device="cuda"), data.q.transpose(1, 2).reshape(heads)
    room, semaphores = (torch.zeros(size << 20, dtype=torch.uint8, device="cuda") for size in (256, 8))
    table, used = data.table.clamp(0, data.k[0].shape[0] - 1), data.used.to(torch.uint32).view(-1, 1)

    def call(k, v):
        return lambda: xqa(q, k.transpose(1, 2), v.transpose(1, 2), table, used, o, room, semaphores.view(torch.uint32),
                           cell.heads_kv, cell.page, kv_layout="NHD")
    calls = [call(k, v) for k, v in zip(data.k, data.v)]
    calls[0]()
    return calls, [o.transpose(1, 2)], "xqa"


def capture(calls, most_us):
    """A graph of many calls, and how many."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls[:3]:
            call()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record(stream)
        for i in range(3):
            calls[i % len(calls)]()
        end.record(stream)
        end.synchronize()
        count = max(2, min(256, int(most_us / max(begin.elapsed_time(end) / 3e-3, 4))))
        count = max(count, len(calls))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(count):
                calls[i % len(calls)]()
    graph.replay()
    torch.cuda.synchronize()
    return graph, count


def race(arms, rounds, most_us):
    """{name: median us of a call}."""
    graphs, times = {}, {name: [] for name in arms}
    for name, calls in arms.items():
        try:
            graphs[name] = capture(calls, most_us)
        except Exception as error:  # an arm that cannot leaves the others
            print(f"# {name}: {str(error)[-300:]}", flush=True)
            torch.cuda.synchronize()
    for turn in range(rounds + 1):
        for name in random.sample(list(graphs), len(graphs)):
            graph, count = graphs[name]
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if turn > 0:
                times[name].append(begin.elapsed_time(end) * 1e3 / count)
    return {name: sorted(of)[len(of) // 2] for name, of in times.items() if of}


def run_cell(cell, options, read, out):
    pools = max(2, -(-(256 << 20) // cell.bytes))
    data = Data(cell, pools)
    arms, words, errors = {}, {}, {}
    for text in options.arm:
        name, _, spec = text.partition("=")
        try:
            arms[name], o, words[name] = attune_arm(spec, cell, data)
            arms[name][0]()
            errors[name] = (o[-1, -1].double() - data.reference(0)).abs().max().item()
        except Exception as error:
            arms.pop(name, None)
            print(f"# {cell.name}: {name}: {str(error)[-300:]}", flush=True)
            torch.cuda.synchronize()
    peers = {"cudnn": lambda: cudnn_arm(data)} if cell.sq == 1 and not cell.page else {}
    if cell.page:
        peers["cudnn_paged"] = lambda: cudnn_paged_arm(cell, data)
    if cell.page in (16, 32, 64, 128) and cell.sq == 1:
        peers["xqa"] = lambda: xqa_arm(cell, data)
    for peer, make in peers.items():
        try:
            arms[peer], o, words[peer] = make()
            errors[peer] = (o[0][-1, -1].double() - data.reference(0)).abs().max().item()
        except Exception as error:
            arms.pop(peer, None)
            print(f"# {cell.name}: {peer}: {str(error)[-300:]}", flush=True)
            torch.cuda.synchronize()
    if read.c is not None:
        arms["read"] = [lambda raw=raw: read(raw, cell.bytes) for raw in data.raw]
    for state in options.states.split(","):
        times = race({name: calls if state == "cold" else calls[:1] for name, calls in arms.items()}, options.rounds,
                     options.most_us)
        for name, us in times.items():
            row = (cell.name, state, name, words.get(name, ""), f"{us:.2f}", f"{cell.bytes / us / 1e6:.3f}",
                   f"{errors.get(name, 0):.1e}")
            print("\t".join(row), file=out, flush=True)
    del data, arms
    torch.cuda.empty_cache()


def groups():
    random.seed(1)
    drawn = [random.choice([128, 512, 1024, 2048, 16384]) for _ in range(64)]
    mixes = {"64x512": [512] * 64, "64x4k": [4096] * 64, "32x128+32x4k": [128] * 32 + [4096] * 32,
             "1x16k+15x64": [16384] + [64] * 15, "1x64k+31x4k": [65536] + [4096] * 31, "2x32k+30x4k": [32768] * 2 +
             [4096] * 30, "drawn": drawn}
    draws = {}
    for seed, batch in ((2, 64), (3, 64), (4, 64), (5, 64), (6, 32), (7, 16)):
        of = random.Random(seed)
        draws[f"five b{batch} seed {seed}"] = [of.choice([128, 512, 1024, 2048, 16384]) for _ in range(batch)]
    for seed, batch in ((2, 64), (3, 64), (4, 32), (5, 16)):
        of = random.Random(seed)
        draws[f"any b{batch} seed {seed}"] = [of.randint(1, 8192) for _ in range(batch)]
    even = [(1, 32, 8, 1024), (1, 32, 8, 8192), (1, 32, 8, 65536), (8, 32, 8, 8192), (128, 32, 8, 1024),
            (64, 32, 8, 4096), (16, 32, 8, 32768), (32, 64, 8, 8192), (16, 32, 32, 4096)]
    queries = [(8, 32, 8, 8192, sq) for sq in (1, 2, 4, 8)] + [(64, 32, 8, 4096, 4), (64, 32, 8, 4096, 8),
                                                               (1, 32, 8, 8192, 8)]
    return {"even": [Cell(*shape) for shape in even],
            "queries": [Cell(*shape) for shape in queries],
            "choice": [Cell(batch, 32, 8, length, sq) for batch, length in ((1, 8192), (8, 8192), (64, 4096), (8, 1024))
                       for sq in (1, 4, 8, 16, 32, 64)],
            "rows": [Cell(8, 64, 8, 8192, 8), Cell(8, 32, 8, 8192, 16), Cell(8, 64, 8, 8192, 16),
                     Cell(64, 64, 8, 4096, 8), Cell(8, 64, 8, 8192, 32), Cell(1, 64, 8, 8192, 8),
                     Cell(8, 64, 8, 8192, 8, page=64), Cell(8, 64, 8, 8192, 32, page=64)],
            "pages": [Cell(1, 32, 8, 8192, page=64)] +
                     [Cell(*shape, page=page) for shape in ((8, 32, 8, 8192), (64, 32, 8, 4096))
                      for page in (256, 64, 16, 1)] +
                     [Cell(64, 32, 8, 4096, page=page, nhd=True) for page in (64, 16, 1)],
            "draws": [Cell(len(mix), 32, 8, max(mix), page=64, lengths=mix, name=name) for name, mix in draws.items()],
            "mixes": [Cell(len(mix), 32, 8, max(mix), page=64, lengths=mix, name=f"mix {name},page=64")
                      for name, mix in mixes.items()]}


def prepare(options):
    cells = [cell for name in options.cells.split(",") for cell in groups()[name]]
    jobs = {(arm.partition("=")[2].removesuffix("+settled"), cell.problem()) for arm in options.arm for cell in cells}

    def plan(job):
        try:
            made = plan_of(*job)
            print(f"{job}: {made.kernel}", flush=True)
        except Exception as error:
            print(f"{job}: {error}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(plan, jobs))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arm", action="append", default=[])
    parser.add_argument("--cells", default="even,queries,pages,mixes")
    parser.add_argument("--states", default="cold,warm")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--most-us", type=float, default=2000)
    parser.add_argument("--tsv")
    parser.add_argument("--prepare", action="store_true", help="make the plans, which compiles their kernels, and end")
    options = parser.parse_args()
    if options.prepare:
        return prepare(options)
    torch.manual_seed(0)
    out = open(options.tsv, "a") if options.tsv else sys.stdout
    print("# " + ", ".join([torch.cuda.get_device_name(), f"PyTorch {torch.__version__}",
                            f"cuDNN {torch.backends.cudnn.version()}", *options.arm]), file=out)
    print("cell\tstate\tarm\tkernel\tus\ttb_s\terr", file=out, flush=True)
    read, every = Read(), groups()
    for name in options.cells.split(","):
        for cell in every[name]:
            try:
                run_cell(cell, options, read, out)
            except Exception as error:
                print(f"# {cell.name}: {str(error)[-400:]}", flush=True)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
