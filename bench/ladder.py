#!/usr/bin/env python3
"""Times kernels of attune against each other and PyTorch's SDPA back ends, in turns, in one process on one stream.

    ladder.py [--library PATH] [--seconds S] [--cold] [--arms A,B:P=V,...] PROBLEM...

An arm is a kernel's text ("wmma:WARPS=4;BLOCK_N=64" with ; for , between parameters), auto for the planner's choice,
or torch:flash, torch:cudnn, torch:efficient, torch:math. Each arm's calls on one set of buffers are captured into a
CUDA graph (warm L2); graphs are replayed in random order; a sample is one replay's time by events, divided by its
calls. With --cold a graph has one call, and other data fill the L2 before each replay. Prints TSV:

    problem arm kernel median_us lo_us hi_us tflops ratio error

ratio: the first arm's median / this arm's. lo and hi: the interval that covers the median with 95 % (of order
statistics). error: max |O - O_fp64| against a reference in fp64 of a few rows.
"""
import argparse
import math
import os
import random
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from attune import Context, Error  # noqa: E402
from attune.library import Library  # noqa: E402

COLD_BYTES, COLD_US = 256 << 20, 150  # more than any L2 has, and what writing it takes
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
TORCH = {0: torch.float32, 1: torch.float16, 2: torch.bfloat16}


def inputs(p):
    torch.manual_seed(1)
    def draw(heads, seqlen, dim):
        return torch.randn(p.batch, heads, seqlen, dim, device="cuda", dtype=TORCH[p.dtype])
    return (draw(p.heads_q, p.seqlen_q, p.head_dim_qk), draw(p.heads_kv, p.seqlen_kv, p.head_dim_qk),
            draw(p.heads_kv, p.seqlen_kv, p.head_dim_v))


def error_of(out, q, k, v, p):
    """max |O - O_fp64| over the first five heads and the last and some rows; NaN if any is."""
    errors = []
    for b, h in {(0, h) for h in range(min(5, p.heads_q))} | {(p.batch - 1, p.heads_q - 1)}:
        hk = h // (p.heads_q // p.heads_kv)
        rows = torch.unique(torch.linspace(0, p.seqlen_q - 1, min(64, p.seqlen_q)).long()).cuda()
        s = q[b, h, rows].double() @ k[b, hk].double().T / math.sqrt(p.head_dim_qk)
        if p.causal:
            j = torch.arange(p.seqlen_kv, device="cuda")
            s.masked_fill_(j[None, :] > rows[:, None] + p.seqlen_kv - p.seqlen_q, -math.inf)
        errors.append((out[b, h, rows].double() - s.softmax(-1) @ v[b, hk].double()).abs().max().item())
    return max(errors, key=lambda error: math.inf if math.isnan(error) else error)  # Python's max loses NaN


def torch_call(backend, q, k, v, p):
    def call():
        with sdpa_kernel(BACKENDS[backend]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(p.causal),
                                                                    enable_gqa=p.heads_q != p.heads_kv)
    return call, f"torch {torch.__version__}"


def attune_call(library, contexts, name, text, q, k, v, p):
    if name not in contexts:
        contexts[name] = Context("cuda", None if name == "auto" else name.replace(";", ","), lib=library)
    plan = contexts[name].plan(text)
    out = torch.empty(p.batch, p.heads_q, p.seqlen_q, p.head_dim_v, device="cuda", dtype=q.dtype)
    need = plan.workspace()
    workspace = torch.empty(max(need, 1), device="cuda", dtype=torch.uint8) if need else None

    def call():
        plan.run(Q=q, K=k, V=v, O=out, workspace=workspace)
        return out
    call.keep = (plan, workspace)
    return call, plan.kernel


def capture(call, calls):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                out = call()
    return graph, out


def replay_us(graph, calls, other=None):
    """Microseconds a call; `other`, where given, is data that are written before."""
    if other is not None:
        other.add_(1)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / calls


def interval(samples):
    s = sorted(samples)
    n = len(s)
    half = 0.98 * math.sqrt(n)
    return s[n // 2], s[max(0, int(n / 2 - half))], s[min(n - 1, math.ceil(n / 2 + half))]


def bench(library, contexts, text, names, seconds, other=None):
    p = library.problem(text)
    q, k, v = inputs(p)
    arms = []
    for name in names:
        try:
            if name.startswith("torch:"):
                call, kernel = torch_call(name[6:], q, k, v, p)
            else:
                call, kernel = attune_call(library, contexts, name, text, q, k, v, p)
            graph, _ = capture(call, 1)
            once = min(replay_us(graph, 1) for _ in range(3))
            calls = 1 if other is not None else max(1, min(200, int(2000 / once)))
            graph, out = capture(call, calls)
            graph.replay()
            torch.cuda.synchronize()
            arms.append((name, kernel, graph, calls, error_of(out, q, k, v, p), [], call))
        except (Error, RuntimeError) as reason:
            print(f"# {text} {name}: {str(reason).splitlines()[0]}", flush=True)
            torch.cuda.synchronize()
    order = random.Random(1)
    start = torch.cuda.Event(enable_timing=True)
    start.record()
    spent = 0.0
    for _ in range(3):
        for arm in arms:
            replay_us(arm[2], arm[3], other)
    while arms and (spent < seconds * 1e6 or len(arms[0][5]) < 7):
        for arm in order.sample(arms, len(arms)):
            us = replay_us(arm[2], arm[3], other)
            arm[5].append(us)
            spent += us * arm[3] + (COLD_US if other is not None else 0)
    first = None
    for name, kernel, _, _, error, samples, _ in arms:
        median, lo, hi = interval(samples)
        first = first or median
        print("\t".join([text, name, kernel, f"{median:.2f}", f"{lo:.2f}", f"{hi:.2f}",
                         f"{library.flops(p) / median * 1e-6:.2f}", f"{first / median:.3f}", f"{error:.2e}"]),
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--arms", default="minimal,tiled,pipelined,guarded,cublas,cublas_qk,cutlass,wmma,"
                                          "wmma_acc16,wmma_ws,torch:flash,torch:cudnn")
    parser.add_argument("problems", nargs="*", default=[])
    options = parser.parse_args()
    library, contexts = Library(options.library), {}
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, attune "
          f"{library.c.attune_version_string().decode()}")
    print("problem\tarm\tkernel\tmedian_us\tlo_us\thi_us\ttflops\tratio\terror")
    other = torch.zeros(COLD_BYTES // 4, device="cuda", dtype=torch.int32) if options.cold else None
    for text in options.problems or ["b1,h8,s512,d64,fp16", "b8,h16,s2048,d128,fp16"]:
        bench(library, contexts, text, options.arms.split(","), options.seconds, other)


if __name__ == "__main__":
    main()
