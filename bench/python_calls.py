#!/usr/bin/env python3
"""What a call of attune.sdpa costs from Python: microseconds of a call that has been seen, and of its parts.

    python_calls.py [PROBLEM] [--seconds S] [--cuda]

On a CPU, on NumPy's arrays and, where it is installed, on PyTorch's tensors; the problem is tiny, so that what is left
is what Python, the binding and the library's checks take. Medians of rounds, in turns, on one thread of attune's own.
With --cuda on PyTorch's tensors on a device, each call with and without a wait for the device.
"""
import argparse
import contextlib
import ctypes as c
import os
import statistics
import sys
import time

os.environ.setdefault("ATTUNE_THREADS", "1")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import numpy as np  # noqa: E402

import attune  # noqa: E402
from attune import library, tensors  # noqa: E402


def parts(framework, q, k, v, text):
    """{name: what is called}; each part is done as attune.sdpa does it."""
    plan = attune.plan(text, "cpu")
    o = framework.empty(q, q.shape)
    call = plan.bind({"Q": q, "K": k, "V": v, "O": o})
    bound, lib = call.make(), library.default()
    bound.run([framework.data(t) for t in (q, k, v, o)], None, framework, q)
    arguments = plan.handle.pointer, c.byref(bound.call)
    pointers = [framework.data(t) for t in (q, k, v, o)]
    return {"attune.sdpa": lambda: attune.sdpa(q, k, v),
            "  key of three arrays": lambda: (framework.key(q), framework.key(k), framework.key(v)),
            "  their addresses": lambda: (framework.data(q), framework.data(k), framework.data(v)),
            "  an output": lambda: framework.empty(q, q.shape),
            "  setting pointers, and execute": lambda: bound.run(pointers, None, framework, q),
            "    attune_plan_execute": lambda: lib.execute(*arguments),
            "  an empty function of the library": lib.c.attune_kernel_count,
            "Plan.run": lambda: plan.run(Q=q, K=k, V=v, O=o),
            "BoundCall.run": call.run}


def time_of(function, count):
    begin = time.perf_counter_ns()
    for _ in range(count):
        function()
    return (time.perf_counter_ns() - begin) / count / 1e3


def measure(named, seconds):
    samples, end = {name: [] for name in named}, time.monotonic() + seconds
    while time.monotonic() < end or len(samples["attune.sdpa"]) < 5:
        for name, function in named.items():
            samples[name].append(time_of(function, 500))
    return {name: statistics.median(of) for name, of in samples.items()}


def torch_arms(arrays, text):
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    q, k, v = (torch.from_numpy(array) for array in arrays)
    attention = torch.nn.functional.scaled_dot_product_attention
    attune.sdpa(q, k, v)
    return {**parts(tensors.Torch, q, k, v, text), "PyTorch's own": lambda: attention(q, k, v)}


def time_with_wait(function, count, wait):
    begin = time.perf_counter_ns()
    for _ in range(count):
        function()
        wait()
    return (time.perf_counter_ns() - begin) / count / 1e3


def on_device(p, text, seconds):
    """Prints microseconds of calls on a CUDA device: the host's share, and with a wait for the result."""
    import torch

    import attune.torch
    dtype = (torch.float32, torch.float16, torch.bfloat16)[p.dtype]
    q, k, v = (torch.randn(shape, device="cuda", dtype=dtype) for shape in
               ((p.batch, p.heads_q, p.seqlen_q, p.head_dim_qk), (p.batch, p.heads_kv, p.seqlen_kv, p.head_dim_qk),
                (p.batch, p.heads_kv, p.seqlen_kv, p.head_dim_v)))
    attention, out = torch.nn.functional.scaled_dot_product_attention, torch.empty_like(q)
    asked = {"enable_gqa": True} if p.heads_q != p.heads_kv else {}
    plan = attune.plan(text, "cuda")
    call = plan.bind({"Q": q, "K": k, "V": v, "O": out})
    graph = torch.cuda.CUDAGraph()
    attune.sdpa(q, k, v, **asked)
    with torch.cuda.graph(graph):
        attune.sdpa(q, k, v, **asked)

    def installed():
        return attention(q, k, v, **asked)

    arms = {"attune.sdpa": lambda: attune.sdpa(q, k, v, **asked),
            "attune.sdpa, out=": lambda: attune.sdpa(q, k, v, out=out, **asked),
            "attune.torch.sdpa": lambda: attune.torch.sdpa(q, k, v, **asked), "Plan.bind(...).run": call.run,
            "through install()": installed, "PyTorch's own": lambda: attention(q, k, v, **asked),
            "a CUDA graph": graph.replay, "torch.empty_like": lambda: torch.empty_like(q)}
    alone, waited = {name: [] for name in arms}, {name: [] for name in arms}
    end = time.monotonic() + seconds
    with torch.no_grad():
        while time.monotonic() < end or len(alone["attune.sdpa"]) < 5:
            for name, function in arms.items():
                with attune.torch.use() if function is installed else contextlib.nullcontext():
                    function()
                    torch.cuda.synchronize()
                    alone[name].append(time_of(function, 50))
                    torch.cuda.synchronize()
                    waited[name].append(time_with_wait(function, 200, torch.cuda.synchronize))
    print(f"microseconds a call, {text}, {torch.cuda.get_device_name()}, torch {torch.__version__}, "
          f"{plan.kernel}; parts of PyTorch's own, and of a CUDA graph with its wait, in this run\n\n"
          f"{'':24}{'host alone':>12}{'of own':>8}{'and a wait':>12}{'of own':>8}{'of graph':>9}"
          f"{'least':>8}{'of own':>8}")
    host, both = ({name: statistics.median(of[name]) for name in arms} for of in (alone, waited))
    least, own, graph = {name: min(waited[name]) for name in arms}, "PyTorch's own", "a CUDA graph"
    for name in arms:
        print(f"{name:24}{host[name]:>12.2f}{host[name] / host[own]:>8.2f}{both[name]:>12.2f}"
              f"{both[name] / both[own]:>8.2f}{both[name] / both[graph]:>9.2f}{least[name]:>8.2f}"
              f"{least[name] / least[own]:>8.2f}")

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", nargs="?", default="b1,h1,s1,d8,fp32")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--cuda", action="store_true")
    options = parser.parse_args()
    if options.cuda:
        text = "b1,h8,s512,d64,fp16" if options.problem == parser.get_default("problem") else options.problem
        return on_device(library.default().problem(text), text, options.seconds)
    p = library.default().problem(options.problem)
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in
              ((p.batch, p.heads_q, p.seqlen_q, p.head_dim_qk), (p.batch, p.heads_kv, p.seqlen_kv, p.head_dim_qk),
               (p.batch, p.heads_kv, p.seqlen_kv, p.head_dim_v))]
    attune.sdpa(*arrays)
    found = {"NumPy": measure(parts(tensors.NumPy, *arrays, options.problem), options.seconds)}
    torch = torch_arms(arrays, options.problem)
    if torch:
        found["PyTorch"] = measure(torch, options.seconds)
    print(f"microseconds a call, {options.problem}, CPython {sys.version.split()[0]}\n")
    for name in {name: None for of in found.values() for name in of}:
        print(f"{name:36}" + "".join(f"{of[name]:>10.2f}" if name in of else " " * 10 for of in found.values()))
    print(f"{'':36}" + "".join(f"{name:>10}" for name in found))


if __name__ == "__main__":
    main()
