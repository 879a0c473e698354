#!/usr/bin/env python3
"""What a call of attune.sdpa costs from Python: microseconds of a call that has been seen, and of its parts.

    python_calls.py [PROBLEM] [--seconds S] [--cuda]

On a CPU, on NumPy's arrays and, where it is installed, on PyTorch's tensors; the problem is tiny, so that what is left
is what Python, the binding and the library's checks take, on one thread of attune's own. With --cuda on PyTorch's
tensors on a device, each call with and without a wait for the device. "by Python": without attune._fast, in this run.

Arms take turns, each in short blocks, on the core that was the least busy together with what shares its circuits. A
block is quiet where a loop in C, timed before and after it, took no more than a sixth longer than it ever did, and
nobody else was given the core meanwhile. Medians, and the least, are those of quiet blocks. How many blocks were quiet,
and what the loop took, is said: where few were, the host was busy, and the figures are no measure of what calls cost.

Hosts differ. Of a host with a device, this is the floor of the same run: "attune_plan_execute", one call of C by ctypes
that is nothing but checks and a launch; "a CUDA graph", of the same call; "nothing", whose wait is a wait alone.
"""
import argparse
import contextlib
import ctypes as c
import os
import resource
import statistics
import sys
import time
import zlib

os.environ.setdefault("ATTUNE_THREADS", "1")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import numpy as np  # noqa: E402

import attune  # noqa: E402
from attune import attention, fast, library, tensors  # noqa: E402

# ---- The host --------------------------------------------------------------------------------------------------------

LOOP = bytes(1 << 16)
NOISE = 7 / 6  # of the loop in C, between its least time and that beside a quiet block


def loop_in_c():
    """Microseconds of work that is always the same, none of it Python's."""
    begin = time.perf_counter_ns()
    zlib.crc32(LOOP)
    return (time.perf_counter_ns() - begin) / 1e3


def busy_ticks():
    """{core: time that it was busy}."""
    with open("/proc/stat", encoding="ascii") as lines:
        rows = [line.split() for line in lines if line.startswith("cpu") and line[3].isdigit()]
    return {int(row[0][3:]): sum(map(int, row[1:])) - int(row[4]) - int(row[5]) for row in rows}


def siblings(core):
    """The cores that share a core's circuits, itself among them."""
    try:
        with open(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list", encoding="ascii") as text:
            ends = [part.partition("-") for part in text.read().strip().split(",")]
        return [i for first, _, last in ends for i in range(int(first), int(last or first) + 1)]
    except (OSError, ValueError):
        return [core]


def stay_on_an_idle_core():
    """This thread alone: those that a driver has started stay where they are. Its number, None where it cannot."""
    try:
        before = busy_ticks()
        time.sleep(0.3)
        after, allowed = busy_ticks(), os.sched_getaffinity(0)
        core = min(allowed, key=lambda core: (sum(after.get(i, 0) - before.get(i, 0) for i in siblings(core)), -core))
        os.sched_setaffinity(0, {core})
        return core
    except (OSError, ValueError):
        return None


def preempted():
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


class Blocks:
    """Samples of arms, in microseconds a call, each with the worse of the two loops in C beside it."""

    def __init__(self):
        self.samples, self.loops = {}, []

    def add(self, name, timed):
        """timed: a function that gives a sample."""
        before, switches = loop_in_c(), preempted()
        took = timed()
        quiet, after = preempted() == switches, loop_in_c()
        self.loops += before, after
        self.samples.setdefault(name, []).append((took, max(before, after) if quiet else float("inf")))

    def quiet(self, name):
        most = NOISE * min(self.loops)
        found = [took for took, loop in self.samples[name] if loop <= most]
        return found if len(found) >= 5 else [took for took, _ in self.samples[name]]

    def account(self):
        """How busy the host was, in words."""
        loops, most = [loop for of in self.samples.values() for _, loop in of], NOISE * min(self.loops)
        share = sum(loop <= most for loop in loops) / len(loops)
        return (f"{100 * share:.0f} % of {len(loops)} blocks were quiet; a loop in C took {min(self.loops):.1f} us at "
                f"the least, {statistics.median(self.loops):.1f} in the middle" +
                ("" if share >= 0.2 else ": THE HOST WAS BUSY, and these figures do not count"))


@contextlib.contextmanager
def by_python():
    """attune._fast is not there."""
    kept = attention.fast_sdpa, attention.fast_with_lse, fast.table, fast.opened
    attention.fast_sdpa, attention.fast_with_lse, fast.table, fast.opened = None, None, None, True
    try:
        yield
    finally:
        attention.fast_sdpa, attention.fast_with_lse, fast.table, fast.opened = kept


# ---- On a CPU --------------------------------------------------------------------------------------------------------


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
    """({name: its median}, how busy the host was)."""
    blocks, end = Blocks(), time.monotonic() + seconds
    while time.monotonic() < end or len(blocks.samples["attune.sdpa"]) < 5:
        for name, function in named.items():
            with within(name):
                function()
                blocks.add(name, lambda: time_of(function, 100))
    return {name: statistics.median(blocks.quiet(name)) for name in named}, blocks.account()


BY_PYTHON, INSTALLED, OWN, GRAPH = ", by Python", "through install()", "PyTorch's own", "a CUDA graph"


@contextlib.contextmanager
def within(name):
    """What an arm of this name is called in."""
    with contextlib.ExitStack() as stack:
        if name.endswith(BY_PYTHON):
            stack.enter_context(by_python())
        if name.startswith(INSTALLED):
            import attune.torch
            stack.enter_context(attune.torch.use())
        yield


def both_ways(q, k, v, asked):
    """Arms that attune._fast serves, and Python."""
    import torch

    import attune.torch
    own = torch.nn.functional.scaled_dot_product_attention
    arms = {"attune.sdpa": lambda: attune.sdpa(q, k, v, **asked),
            "attune.torch.sdpa": lambda: attune.torch.sdpa(q, k, v, **asked), INSTALLED: lambda: own(q, k, v, **asked)}
    arms = {name + how: function for name, function in arms.items() for how in ("", BY_PYTHON)}
    return {**arms, OWN: lambda: own(q, k, v, **asked)}


def warm(named):
    """Calls each as often as it takes until it is served as it will be."""
    for name, function in named.items():
        with within(name):
            for _ in range(2 * fast.AGAIN + 2):
                function()


def torch_arms(arrays, text):
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    q, k, v = (torch.from_numpy(array) for array in arrays)
    arms = {**both_ways(q, k, v, {}), **parts(tensors.Torch, q, k, v, text)}
    warm(arms)
    return arms


# ---- On a device -----------------------------------------------------------------------------------------------------


def time_with_wait(function, count, wait):
    begin = time.perf_counter_ns()
    for _ in range(count):
        function()
        wait()
    return (time.perf_counter_ns() - begin) / count / 1e3


def arms_on_device(p, text):
    """(the kernel, {name: what is called})."""
    import torch
    dtype = (torch.float32, torch.float16, torch.bfloat16)[p.dtype]
    q, k, v = (torch.randn(shape, device="cuda", dtype=dtype) for shape in
               ((p.batch, p.heads_q, p.seqlen_q, p.head_dim_qk), (p.batch, p.heads_kv, p.seqlen_kv, p.head_dim_qk),
                (p.batch, p.heads_kv, p.seqlen_kv, p.head_dim_v)))
    out, asked = torch.empty_like(q), {"enable_gqa": True} if p.heads_q != p.heads_kv else {}
    plan = attune.plan(text, "cuda")
    call = plan.bind({"Q": q, "K": k, "V": v, "O": out})
    room = torch.empty(plan.workspace() + 255, dtype=torch.uint8, device="cuda")
    bound = plan.bind(call.arrays, workspace=room[-room.data_ptr() % 256:]).make()
    bound.run([t.data_ptr() for t in (q, k, v, out)], None, tensors.Torch, q)
    graph = torch.cuda.CUDAGraph()
    attune.sdpa(q, k, v, **asked)
    with torch.cuda.graph(graph):
        attune.sdpa(q, k, v, **asked)
    arms = {**both_ways(q, k, v, asked), "attune.sdpa, out=": lambda: attune.sdpa(q, k, v, out=out, **asked),
            "Plan.bind(...).run": call.run, "torch.empty_like": lambda: torch.empty_like(q),
            "attune_plan_execute": lambda room=room: bound.execute(*bound.arguments), GRAPH: graph.replay,
            "nothing": lambda: None}
    return plan.kernel, arms


def on_device(p, text, seconds):
    """Prints microseconds of calls on a CUDA device: the host's share, and with a wait, for all of the device's work or
    for that of the current stream."""
    import torch
    kernel, arms = arms_on_device(p, text)
    waits = {"and a wait": torch.cuda.synchronize, "stream's wait": torch.cuda.current_stream().synchronize}
    of = {name: Blocks() for name in ("host alone", *waits)}
    with torch.no_grad():
        warm(arms)
        core, end = stay_on_an_idle_core(), time.monotonic() + seconds
        while time.monotonic() < end or len(of["host alone"].samples[OWN]) < 5:
            for name, function in arms.items():
                with within(name):
                    function()
                    torch.cuda.synchronize()
                    of["host alone"].add(name, lambda: time_of(function, 40))
                    torch.cuda.synchronize()
                    for how, wait in waits.items():
                        of[how].add(name, lambda: time_with_wait(function, 40, wait))
    print(f"microseconds a call, {text}, {torch.cuda.get_device_name()}, torch {torch.__version__}, CPython "
          f"{sys.version.split()[0]}, {kernel}, core {core}; \"of own\": parts of PyTorch's own in this run")
    for how, blocks in of.items():
        print(f"{how}: {blocks.account()}")
    print(f"\n{'':30}" + "".join(f"{how:>14}{'least':>8}{'of own':>8}" for how in of))
    medians = {how: {name: statistics.median(blocks.quiet(name)) for name in arms} for how, blocks in of.items()}
    for name in arms:
        print(f"{name:30}" + "".join(
            f"{medians[how][name]:>14.2f}{min(of[how].quiet(name)):>8.2f}{medians[how][name] / medians[how][OWN]:>8.2f}"
            for how in of), flush=True)


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
    named = {"NumPy": parts(tensors.NumPy, *arrays, options.problem), "PyTorch": torch_arms(arrays, options.problem)}
    core, found = stay_on_an_idle_core(), {}
    print(f"microseconds a call, {options.problem}, CPython {sys.version.split()[0]}, core {core}")
    for name, arms in named.items():
        if arms:
            found[name], account = measure(arms, options.seconds)
            print(f"{name}: {account}")
    print()
    for name in {name: None for of in found.values() for name in of}:
        print(f"{name:36}" + "".join(f"{of[name]:>10.2f}" if name in of else " " * 10 for of in found.values()))
    print(f"{'':36}" + "".join(f"{name:>10}" for name in found))


if __name__ == "__main__":
    main()
