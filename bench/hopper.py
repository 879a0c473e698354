#!/usr/bin/env python3
"""Times configs of attune's kernels against PyTorch's cuDNN and any Python callable, in turns, in one process.

    hopper.py [--library PATH] [--seconds S] [--rounds N] [--rest MS] [--spread X] [--mixed] [--kind KIND]
              [--peer FILE:FUNCTION]... ITEM...

An ITEM is PROBLEM@ARM+ARM+...: a problem's text and the arms to run on it. An arm is a kernel's text
("wgmma:GROUPS=2,BLOCK_N=128" gives what it names and leaves the rest to the heuristic's first config), "auto" (the
planner's choice), torch:cudnn, torch:flash, or peer:N, the N-th --peer: a function of (q, k, v, causal) that returns O,
tensors being [batch, heads, seqlen, dim]. Without arms: auto and torch:cudnn.

Each arm's calls on one set of buffers are captured into a CUDA graph (warm L2); graphs are replayed in random order; a
sample is one replay's time by events, divided by its calls. With --rest each graph is one call, and the device idles
before it: clocks are then those of calls far apart, not those that many calls on end leave. Standard output is TSV:

    problem arm kernel median_us lo_us hi_us tflops ratio error

ratio: the fastest peer's median / this arm's, peers being all arms that are not attune's. error: max |O - O_fp64| over
some rows. Arms that cannot run are named in lines that begin with #.
"""
import argparse
import importlib.util
import math
import os
import random
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ladder import capture, error_of, inputs, interval, replay_us, torch_call  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from attune import Context, Error  # noqa: E402
from attune.library import Library  # noqa: E402


def load_peer(text):
    path, function = text.rsplit(":", 1)
    spec = importlib.util.spec_from_file_location("peer_" + function, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)


def mix_heads(q, k, p):
    """Heads of five kinds in turns: standard normals; scores of deviation 50; equal keys; one key in a hundred that
    matches one query by a score of 15; scores about -200."""
    group, scale = p.heads_q // p.heads_kv, 1 / math.sqrt(p.head_dim_qk)
    for b in range(p.batch):
        for h in range(p.heads_kv):
            kind, queries, keys = (b + h) % 5, q[b, h * group:(h + 1) * group], k[b, h]
            if kind == 1:
                queries *= math.sqrt(50)
                keys *= math.sqrt(50)
            elif kind == 2:
                keys[:] = keys[0].clone()
            elif kind == 3:
                rows = torch.randperm(min(p.seqlen_q, p.seqlen_kv), device=q.device)[:max(p.seqlen_kv // 100, 1)]
                needles = queries[0, rows].float()
                keys[rows] = (needles * 15 / (scale * needles.square().sum(-1, keepdim=True))).to(keys.dtype)
            elif kind == 4:
                queries[:] = 1 + 0.05 * queries
                keys[:] = -200 * scale * (1 + 0.05 * keys)


def falling(q, k, p, nats=1.5, keys=64):
    """Scores fall by `nats` each `keys` keys, from the first to the last: a walk from the right sees them rise."""
    scale = 1 / math.sqrt(p.head_dim_qk)
    q[..., 0] = 16
    step = torch.arange(p.seqlen_kv, device=k.device, dtype=torch.float32) * (-nats / keys / (scale * 16))
    k[..., 0] = (step - step.mean()).to(k.dtype)


def rising(q, k, p):
    falling(q, k, p, -1.5)


def diagonal(q, k, p, peak=12):
    """Scores are largest beside the diagonal, by `peak` nats, as rotary positions of low frequencies make them."""
    pairs, scale = p.head_dim_qk // 4, 1 / math.sqrt(p.head_dim_qk)
    frequency = torch.logspace(0, -math.log10(p.seqlen_kv), pairs, device=q.device)
    length = math.sqrt(peak / (scale * pairs))
    behind = p.seqlen_kv - p.seqlen_q
    for tensor, first in ((q, behind), (k, 0)):
        turn = (torch.arange(tensor.shape[2], device=q.device)[:, None] + first) * frequency
        tensor[..., :pairs] = (length * turn.cos()).to(tensor.dtype)
        tensor[..., pairs:2 * pairs] = (length * turn.sin()).to(tensor.dtype)


KINDS = {"normal": lambda q, k, p: None, "falling": falling, "rising": rising, "diagonal": diagonal}


class Bench:
    def __init__(self, options):
        self.library, self.contexts, self.options = Library(options.library), {}, options
        self.outs = {}
        self.peers = [load_peer(text) for text in options.peer]

    def attune(self, name, text, q, k, v, p):
        if name not in self.contexts:
            self.contexts[name] = Context("cuda", None if name == "auto" else name, lib=self.library)
        plan = self.contexts[name].plan(text)
        bshd = "layout=bshd" in text
        shape = (p.batch, p.seqlen_q, p.heads_q, p.head_dim_v) if bshd else (p.batch, p.heads_q, p.seqlen_q,
                                                                             p.head_dim_v)
        # One O for all configs: where tensors lie can be worth 8 %.
        out = self.outs.setdefault((text, shape), torch.empty(shape, device="cuda", dtype=q.dtype))
        out = out.transpose(1, 2) if bshd else out
        need = plan.workspace()
        workspace = torch.empty(max(need, 1), device="cuda", dtype=torch.uint8) if need else None

        def call():
            plan.run(Q=q, K=k, V=v, O=out, workspace=workspace)
            return out
        call.keep = (plan, workspace)
        return call, plan.kernel

    def arm(self, name, text, q, k, v, p):
        if name.startswith("torch:"):
            return torch_call(name[6:], q, k, v, p)
        if name.startswith("peer:"):
            function = self.peers[int(name[5:])]
            return lambda: function(q, k, v, bool(p.causal)), self.options.peer[int(name[5:])]
        return self.attune(name, text, q, k, v, p)

    def prepare(self, name, text, q, k, v, p):
        """(graph, calls a graph, error, kernel, what must stay alive)"""
        call, kernel = self.arm(name, text, q, k, v, p)
        graph, _ = capture(call, 1)
        once = min(replay_us(graph, 1) for _ in range(2))
        calls = 1 if self.options.rest else max(1, min(200, int(self.options.graph_us / once)))
        graph, out = capture(call, calls)
        graph.replay()
        torch.cuda.synchronize()
        return graph, calls, error_of(out, q, k, v, p), kernel, call

    def machine(self):
        return (f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, attune "
                f"{self.library.c.attune_version_string().decode()}")

    def ready(self, text, names):
        """A problem, and what `prepare` makes of its arms by name; those that cannot run are named."""
        p = self.library.problem(text)
        self.outs.clear()
        q, k, v = inputs(p)
        q = q * self.options.spread
        KINDS[self.options.kind](q, k, p)
        if self.options.mixed:
            mix_heads(q, k, p)
        if "layout=bshd" in text:
            q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
        arms = {}
        for name in names:
            try:
                arms[name] = self.prepare(name, text, q, k, v, p)
            except (Error, RuntimeError) as reason:
                print(f"# {text} {name}: {str(reason).splitlines()[0]}", flush=True)
                torch.cuda.synchronize()
        return p, arms

    def item(self, item):
        text, _, names = item.partition("@")
        p, arms = self.ready(text, (names or "auto+torch:cudnn").split("+"))
        self.report(text, p, arms, self.sample(arms))

    def sample(self, arms):
        samples = {name: [] for name in arms}
        order, spent = random.Random(1), 0.0
        for graph, calls, *_ in arms.values():
            replay_us(graph, calls)
        while arms and (spent < self.options.seconds * 1e6 or len(next(iter(samples.values()))) < self.options.rounds):
            for name in order.sample(list(arms), len(arms)):
                time.sleep(self.options.rest / 1e3)
                us = replay_us(arms[name][0], arms[name][1])
                samples[name].append(us)
                spent += us * arms[name][1]
        return samples

    def report(self, text, p, arms, samples):
        peers = [interval(samples[name])[0] for name in arms if name.startswith(("torch:", "peer:"))]
        for name, (_, _, error, kernel, _) in arms.items():
            median, lo, hi = interval(samples[name])
            ratio = f"{min(peers) / median:.3f}" if peers else "-"
            print("\t".join([text, name, kernel, f"{median:.2f}", f"{lo:.2f}", f"{hi:.2f}",
                             f"{self.library.flops(p) / median * 1e-6:.1f}", ratio, f"{error:.1e}"]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library")
    parser.add_argument("--seconds", type=float, default=0.1, help="of measuring, an item")
    parser.add_argument("--rounds", type=int, default=7, help="samples of an arm, at least")
    parser.add_argument("--graph-us", type=float, default=2000, help="length of a graph")
    parser.add_argument("--rest", type=float, default=0, metavar="MS", help="of the device before a sample of one call")
    parser.add_argument("--spread", type=float, default=1, help="of scores: what queries are multiplied by")
    parser.add_argument("--mixed", action="store_true", help="heads of five kinds, as the gate times")
    parser.add_argument("--kind", choices=KINDS, default="normal", help="of scores: how they lie along the keys")
    parser.add_argument("--peer", action="append", default=[], metavar="FILE:FUNCTION")
    parser.add_argument("items", nargs="+")
    options = parser.parse_args()
    bench = Bench(options)
    print(bench.machine())
    print("problem\tarm\tkernel\tmedian_us\tlo_us\thi_us\ttflops\tratio\terror")
    for item in options.items:
        bench.item(item)


if __name__ == "__main__":
    main()
