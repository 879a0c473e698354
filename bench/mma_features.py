#!/usr/bin/env python3
"""What features cost a kernel of attune's: times beside the same kernel without them, in turns, in one process.

    mma_features.py [--library [NAME=]PATH ...] [--seconds S] [--rounds N] [--kernel KERNEL] [--lengths KIND] GROUP...

A GROUP is PROBLEM@TERMS@TERMS...: a problem, and what is added to it ("causal", "bias=1xh,mask"; "window=1024:0"). A
kernel may follow ("causal#mma:AHEAD=0"). Arrays are drawn on the device, standard normals; masks hide a fifth of the
keys; "varlen" packs as many sequences as the batch says, lengths drawn evenly up to the longest (another KIND than
"mix": another draw), or all the longest ("whole") or half of it ("half"). Standard output is TSV:

    problem kernel median_us lo_us hi_us tflops share

Of several libraries each has arms of its own; their names then stand before the kernel.

tflops counts the pairs that lengths, causal masks and windows leave; share: of the plain problem's tflops. That results
are right is `attune check`'s to say.
"""
import argparse
import math
import os
import random
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ladder import TORCH, capture, interval, replay_us  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from attune import Context, Error  # noqa: E402
from attune.library import Library  # noqa: E402


def draw(shape, dtype):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def lengths_of(text, p, kind):
    """Of packed sequences; None where there are none."""
    if "varlen" not in text:
        return None
    if kind in ("whole", "half"):
        return [p.seqlen_q // (2 if kind == "half" else 1)] * p.batch
    lengths = random.Random(text if kind == "mix" else text + kind)
    return [lengths.randint(1, p.seqlen_q) for _ in range(p.batch)]


def pairs_of(p, text, lengths):
    """Pairs of queries and keys that are seen, of one head."""
    left = right = -1
    for term in text.split(","):
        if term == "causal":
            right = 0
        if term.startswith("window="):
            left, right = (int(x) for x in term[7:].split(":"))
    total = 0
    for length in lengths or [p.seqlen_q] * p.batch:
        rows = torch.arange(length, dtype=torch.int64)
        first = (rows - left).clamp(min=0) if left >= 0 else torch.zeros_like(rows)
        end = (rows + right + 1).clamp(max=length) if right >= 0 else torch.full_like(rows, length)
        total += int((end - first).sum())
    return total


def roles_of(text, p, lengths):
    dtype = TORCH[p.dtype]
    roles = {}
    if lengths:
        total = sum(lengths)
        starts = torch.tensor([0] + lengths).cumsum(0).int().cuda()
        shape = (total, p.heads_q, p.head_dim_qk), (total, p.heads_kv, p.head_dim_qk), (total, p.heads_kv, p.head_dim_v)
        roles.update(CU_Q=starts, CU_KV=starts.clone())
    else:
        shape = ((p.batch, p.heads_q, p.seqlen_q, p.head_dim_qk), (p.batch, p.heads_kv, p.seqlen_kv, p.head_dim_qk),
                 (p.batch, p.heads_kv, p.seqlen_kv, p.head_dim_v))
    roles.update(Q=draw(shape[0], dtype), K=draw(shape[1], dtype), V=draw(shape[2], dtype))
    roles["O"] = torch.empty_like(roles["Q"])
    for term in text.split(","):
        if term.startswith("bias="):
            kind, _, of = term[5:].partition(":")
            sizes = (p.batch if kind[0] == "b" else 1, p.heads_q if kind[-1] == "h" else 1, p.seqlen_q, p.seqlen_kv)
            roles["BIAS"] = draw(sizes, torch.float32 if of == "fp32" else dtype)
        elif term == "mask":
            roles["MASK"] = torch.rand(p.batch, p.heads_q, p.seqlen_q, p.seqlen_kv, device="cuda") < 0.8
        elif term == "alibi":
            roles["SLOPES"] = torch.tensor([2.0 ** -(8 * (h + 1) / p.heads_q) for h in range(p.heads_q)], device="cuda")
        elif term == "sink":
            roles["SINK"] = draw((p.heads_q,), torch.float32)
    return roles


class Features:
    def __init__(self, options):
        self.options, self.contexts = options, {}
        named = [path.rpartition("=") for path in options.library or [""]]
        self.libraries = {name: Library(path or None) for name, _, path in named}

    def arm(self, name, text, kernel):
        """(graph, calls, operations, kernel, what must stay alive)"""
        library = self.libraries[name]
        if (name, kernel) not in self.contexts:
            self.contexts[name, kernel] = Context("cuda", kernel, lib=library)
        plan = self.contexts[name, kernel].plan(text)
        p = library.problem(text)
        lengths = lengths_of(text, p, self.options.lengths)
        roles = roles_of(text, p, lengths)
        need = plan.workspace()
        workspace = torch.empty(max(need, 1), device="cuda", dtype=torch.uint8) if need else None

        def call():
            plan.run(workspace=workspace, **roles)
        graph, _ = capture(call, 1)
        once = min(replay_us(graph, 1) for _ in range(2))
        calls = max(1, min(100, int(2000 / once)))
        graph, _ = capture(call, calls)
        operations = 2 * p.heads_q * (p.head_dim_qk + p.head_dim_v) * pairs_of(p, text, lengths)
        return graph, calls, operations, plan.kernel, (plan, roles, workspace)

    def group(self, group):
        plain, *more = group.split("@")
        arms, samples, order = {}, {}, random.Random(1)
        for terms in ["", *more]:
            terms, _, kernel = terms.partition("#")
            text = plain + ("," + terms if terms else "")
            for name in self.libraries:
                try:
                    arms[name, text, kernel] = self.arm(name, text, kernel or self.options.kernel)
                    samples[name, text, kernel] = []
                except (Error, RuntimeError) as reason:
                    print(f"# {text} {name} {kernel}: {str(reason).splitlines()[0]}", flush=True)
                    torch.cuda.synchronize()
        spent = 0.0
        while arms and (spent < self.options.seconds * 1e6 or len(next(iter(samples.values()))) < self.options.rounds):
            for name in order.sample(list(arms), len(arms)):
                us = replay_us(arms[name][0], arms[name][1])
                samples[name].append(us)
                spent += us * arms[name][1]
        base = math.nan
        for (name, text, kernel), (_, _, operations, chosen, _) in arms.items():
            median, lo, hi = interval(samples[name, text, kernel])
            rate = operations / median * 1e-6
            base = rate if math.isnan(base) else base
            label = f"{name} {chosen}" if name else chosen
            print(f"{text}\t{label}\t{median:.2f}\t{lo:.2f}\t{hi:.2f}\t{rate:.1f}\t{rate / base:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", action="append")
    parser.add_argument("--kernel", default="mma")
    parser.add_argument("--seconds", type=float, default=0.3, help="of measuring, a group")
    parser.add_argument("--rounds", type=int, default=7, help="samples of a problem, at least")
    parser.add_argument("--lengths", default="mix", help="of packed sequences: mix, whole, half, another draw's name")
    parser.add_argument("groups", nargs="+")
    options = parser.parse_args()
    features = Features(options)
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}: bench/mma_features.py")
    print("problem\tkernel\tmedian_us\tlo_us\thi_us\ttflops\tshare")
    for group in options.groups:
        features.group(group)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
