#!/usr/bin/env python3
"""Times attention with a bias, a mask, ALiBi, a softcap or a sink against PyTorch's back ends and its compiled
FlexAttention, in turns, in one process.

    features.py [--library PATH] [--build NAME=PATH]... [--seconds S] [--density D] [--shared-mask] [--mixed] ITEM...

An ITEM is PROBLEM@ARM+ARM+...: a problem's text and the arms to run on it. An arm is a kernel's text, "auto",
torch:efficient, torch:cudnn, torch:math (which take a bias and a mask as attn_mask), torch:flash, or flex (bias, mask
and ALiBi by score_mod, softcap too, a causal mask by mask_mod). NAME/ and a kernel's text is that of the library given
by --build. Masks are random, with D of their keys seen (0.9) and the first key by all; one for all heads of all
sequences with --shared-mask. --mixed: heads of five kinds, as the gate times. Each arm's calls are captured into a CUDA
graph; graphs are replayed in random order. Standard output is TSV:

    problem arm kernel median_us lo_us hi_us tflops ratio error

ratio: the fastest arm's that is not attune's / this one's. error: max |O - O_fp64| over some rows. Arms that cannot run
are named in lines that begin with #.
"""
import argparse
import math
import os
import random
import sys

import torch
from torch.nn.attention import sdpa_kernel

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hopper import mix_heads  # noqa: E402
from ladder import BACKENDS, capture, inputs, interval, replay_us  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from attune import Context, Error  # noqa: E402
from attune.library import ROLES, Library  # noqa: E402

NO_BIAS, BIAS_1X1, BIAS_BX1, BIAS_1XH, BIAS_BXH = range(5)


class Case:
    """A problem's tensors."""

    def __init__(self, p, options):
        self.p = p
        self.q, self.k, self.v = inputs(p)
        if options.mixed:
            mix_heads(self.q, self.k, p)
        on = {"device": "cuda"}
        pairs = (p.seqlen_q, p.seqlen_kv)
        self.bias = self.mask = self.slopes = self.sink = None
        if p.bias != NO_BIAS:
            batch = p.batch if p.bias in (BIAS_BX1, BIAS_BXH) else 1
            heads = p.heads_q if p.bias in (BIAS_1XH, BIAS_BXH) else 1
            own = p.role_dtype[ROLES.index("BIAS")]
            dtype = (torch.float32, torch.float16, torch.bfloat16)[own - 1] if own else self.q.dtype
            self.bias = torch.randn(batch, heads, *pairs, dtype=dtype, **on)
        if p.mask:
            shape = (1, 1, *pairs) if options.shared_mask else (p.batch, p.heads_q, *pairs)
            self.mask = torch.rand(shape, dtype=torch.float16, **on) < options.density
            self.mask[..., 0] = True
        if p.alibi:
            self.slopes = torch.exp2(-8 * (torch.arange(p.heads_q, **on) + 1) / p.heads_q)
        if p.sink:
            self.sink = torch.randn(p.heads_q, **on)

    def whole(self, tensor):
        return tensor.expand(self.p.batch, self.p.heads_q, -1, -1)

    def expected(self, b, h, rows):
        """Rows of O in fp64."""
        p, hk = self.p, h // (self.p.heads_q // self.p.heads_kv)
        s = self.q[b, h, rows].double() @ self.k[b, hk].double().T / math.sqrt(p.head_dim_qk)
        i, j = rows[:, None] + p.seqlen_kv - p.seqlen_q, torch.arange(p.seqlen_kv, device="cuda")[None, :]
        if p.softcap:
            s = p.softcap * torch.tanh(s / p.softcap)
        if p.alibi:
            s = s - self.slopes[h].double() * (i - j).abs()
        if p.bias:
            s = s + self.whole(self.bias)[b, h, rows].double()
        if p.mask:
            s = s.masked_fill(~self.whole(self.mask)[b, h, rows], -math.inf)
        if p.causal:
            s = s.masked_fill(j > i, -math.inf)
        if p.sink:
            s = torch.cat([s, self.sink[h].double().expand(len(rows), 1)], 1)
        return s.softmax(-1)[:, :p.seqlen_kv] @ self.v[b, hk].double()

    def error_of(self, out):
        rows = torch.unique(torch.linspace(0, self.p.seqlen_q - 1, min(64, self.p.seqlen_q)).long()).cuda()
        errors = [(out[b, h, rows].double() - self.expected(b, h, rows)).abs().max().item()
                  for b, h in ((0, 0), (0, self.p.heads_q - 1), (self.p.batch - 1, self.p.heads_q // 2))]
        return max(errors, key=lambda error: math.inf if math.isnan(error) else error)

    # ---- What is not attune's ----

    def torch_call(self, back_end):
        p, added = self.p, None
        if p.softcap or p.alibi or p.sink:
            raise RuntimeError("scaled_dot_product_attention has no place for it")
        if p.bias or p.mask:
            added = self.whole(self.mask) if not p.bias else self.whole(self.bias)
            if p.bias and p.mask:
                added = added.masked_fill(~self.mask, -math.inf)
            if p.causal:
                i, j = torch.arange(p.seqlen_q, device="cuda")[:, None], torch.arange(p.seqlen_kv, device="cuda")[None]
                seen = j <= i + p.seqlen_kv - p.seqlen_q
                added = added & seen if added.dtype == torch.bool else added.masked_fill(~seen, -math.inf)

        def call():
            with sdpa_kernel(BACKENDS[back_end]):
                return torch.nn.functional.scaled_dot_product_attention(
                    self.q, self.k, self.v, attn_mask=added, is_causal=bool(p.causal) and added is None,
                    enable_gqa=p.heads_q != p.heads_kv)
        return call

    def flex_call(self):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        p, bias, mask, slopes = self.p, self.bias, self.mask, self.slopes
        if p.sink:
            raise RuntimeError("sink: not asked of FlexAttention here")
        behind, softcap = p.seqlen_kv - p.seqlen_q, p.softcap

        def index(tensor, b, h, i, j):
            return tensor[b if tensor.shape[0] > 1 else 0, h if tensor.shape[1] > 1 else 0, i, j]

        def score_mod(score, b, h, i, j):
            if softcap:
                score = softcap * torch.tanh(score / softcap)
            if slopes is not None:
                score = score - slopes[h] * (i + behind - j).abs()
            if bias is not None:
                score = score + index(bias, b, h, i, j)
            if mask is not None:
                score = torch.where(index(mask, b, h, i, j), score, -math.inf)
            return score

        blocks = None
        if p.causal:
            blocks = create_block_mask(lambda b, h, i, j: j <= i + behind, None, None, p.seqlen_q, p.seqlen_kv)
        torch.compiler.reset()  # one function may be compiled for eight problems; the ninth would not be
        compiled = torch.compile(flex_attention, dynamic=False)

        def call():
            return compiled(self.q, self.k, self.v, score_mod=score_mod, block_mask=blocks,
                            enable_gqa=p.heads_q != p.heads_kv)
        call()
        return call


class Bench:
    def __init__(self, options):
        self.library, self.contexts, self.options = Library(options.library), {}, options
        self.builds = {name: Library(path) for name, path in (build.split("=") for build in options.build)}

    def attune(self, name, text, case):
        if name not in self.contexts:
            build, _, kernel = name.rpartition("/")
            self.contexts[name] = Context("cuda", None if kernel == "auto" else kernel,
                                          lib=self.builds[build] if build else self.library)
        plan, p = self.contexts[name].plan(text), case.p
        out = torch.empty(p.batch, p.heads_q, p.seqlen_q, p.head_dim_v, device="cuda", dtype=case.q.dtype)
        need = plan.workspace()
        workspace = torch.empty(max(need, 1), device="cuda", dtype=torch.uint8) if need else None
        mask = None if case.mask is None else case.whole(case.mask)

        def call():
            plan.run(Q=case.q, K=case.k, V=case.v, O=out, BIAS=case.bias, MASK=mask, SLOPES=case.slopes,
                     SINK=case.sink, workspace=workspace)
            return out
        return call, plan.kernel

    def arm(self, name, text, case):
        if name == "flex":
            return case.flex_call(), f"torch {torch.__version__}"
        if name.startswith("torch:"):
            return case.torch_call(name[6:]), f"torch {torch.__version__}"
        return self.attune(name, text, case)

    def item(self, item):
        text, _, names = item.partition("@")
        p = self.library.problem(text)
        case, arms = Case(p, self.options), {}
        for name in (names or "auto").split("+"):
            try:
                call, kernel = self.arm(name, text, case)
                graph, _ = capture(call, 1)
                once = min(replay_us(graph, 1) for _ in range(2))
                calls = max(1, min(200, int(3000 / once)))
                graph, out = capture(call, calls)
                graph.replay()
                torch.cuda.synchronize()
                arms[name] = (graph, calls, case.error_of(out), kernel, [], call)
            except Exception as reason:  # of a compiler too
                print(f"# {text} {name}: {type(reason).__name__} {(str(reason).splitlines() or [''])[0][:300]}",
                      flush=True)
        self.sample(arms)
        self.report(text, p, arms)

    def sample(self, arms):
        order, spent = random.Random(1), 0.0
        while arms and (spent < self.options.seconds * 1e6 or len(next(iter(arms.values()))[4]) < 7):
            for name in order.sample(list(arms), len(arms)):
                us = replay_us(arms[name][0], arms[name][1])
                arms[name][4].append(us)
                spent += us * arms[name][1]

    def report(self, text, p, arms):
        others = [interval(arms[name][4])[0] for name in arms if name == "flex" or name.startswith("torch:")]
        for name, (_, _, error, kernel, samples, _) in arms.items():
            median, lo, hi = interval(samples)
            ratio = f"{min(others) / median:.3f}" if others else "-"
            print("\t".join([text, name, kernel, f"{median:.2f}", f"{lo:.2f}", f"{hi:.2f}",
                             f"{self.library.flops(p) / median * 1e-6:.1f}", ratio, f"{error:.1e}"]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library")
    parser.add_argument("--build", action="append", default=[], metavar="NAME=PATH", help="another library")
    parser.add_argument("--mixed", action="store_true", help="heads of five kinds, as the gate times")
    parser.add_argument("--seconds", type=float, default=0.1, help="of measuring, an item")
    parser.add_argument("--density", type=float, default=0.9, help="of what random masks let be seen")
    parser.add_argument("--shared-mask", action="store_true", help="one mask for all")
    parser.add_argument("items", nargs="+")
    options = parser.parse_args()
    bench = Bench(options)
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, attune "
          f"{bench.library.c.attune_version_string().decode()}")
    print("problem\tarm\tkernel\tmedian_us\tlo_us\thi_us\ttflops\tratio\terror")
    for item in options.items:
        bench.item(item)


if __name__ == "__main__":
    main()
