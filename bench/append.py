#!/usr/bin/env python3
"""Appending to a cache on an NVIDIA GPU beside PyTorch's copy_ of as many bytes: append.py [--rounds N]

Graph replays in turns; rows and pools rotate, so that nothing is left in L2 of what is larger. us in the median, and
TB/s of reading and writing. Needs libattune ($ATTUNE_LIBRARY) and PyTorch.
"""
import argparse
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "python"), HERE]
import torch  # noqa: E402

import decode  # noqa: E402
from attune import plans  # noqa: E402

CELLS = [(64, 1, 4096, 16), (64, 1, 4096, 0), (16, 4096, 8192, 64)] # batch, rows, room, page; 0: in one piece


def calls_of(cell, context):
    batch, rows, room, page = cell
    size = 2 * batch * rows * 8 * 128 * 2
    sets = 2 if size > 1 << 26 else 1
    problem = f"append:b{batch},h8,sq{rows},skv{room},d128,bf16,seqused" + (f",page={page}" if page else "")
    plan, used = context.plan(problem), torch.full((batch,), room, dtype=torch.int32, device="cuda")
    table = torch.randperm(batch * room // page, device="cuda").int().view(batch, -1) if page else None
    appends, copies = [], []
    for _ in range(sets):
        shape = (batch * room // page, 8, page, 128) if page else (batch, 8, room, 128)
        given = {"K": decode.randn(*shape), "V": decode.randn(*shape), "NEW_K": decode.randn(batch * rows, 8, 128),
                 "NEW_V": decode.randn(batch * rows, 8, 128), "USED_KV": used}
        appends.append(plan.bind({**given, **({"PAGE_TABLE_K": table} if page else {})}).run)
        new, to = decode.randn(2, batch * rows, 8, 128), torch.empty(2, batch * rows, 8, 128, dtype=torch.bfloat16,
                                                                     device="cuda")
        copies.append(lambda to=to, new=new: to.copy_(new))
    return problem, 2 * size, {"append": appends, "copy": copies}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    random.seed(1)
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}\nproblem\tarm\tus\ttb_s")
    for cell in CELLS:
        problem, size, arms = calls_of(cell, plans.Context("cuda"))
        for name, us in decode.race(arms, options.rounds, 2000).items():
            print(f"{problem}\t{name}\t{us:.2f}\t{size / us / 1e6:.3f}", flush=True)


if __name__ == "__main__":
    main()
