#!/usr/bin/env python3
"""Decoding on a CPU from pages beside keys in one piece: cpu_pages.py [--threads N] [--mb N] [--rounds N]

K and V take as many MB, and are the same in every arm; pages are of a random permutation, none is shared. Arms take
turns in random order; each call finds caches that the others have filled. A row of TSV for each: us in the median,
GB/s of K and V, and the time in one piece / this one's. --dtypes: some of fp32,fp16,bf16. Needs libattune
($ATTUNE_LIBRARY) and NumPy, for bf16 ml_dtypes.
"""
import argparse
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import numpy as np  # noqa: E402

from attune import plans  # noqa: E402

try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = None
DTYPES = {"fp32": np.float32, "fp16": np.float16, "bf16": bfloat16}
HEADS_KV, GROUP, KEYS, DIM = 8, 4, 8192, 128


def arms_of(name, mb, context):
    """{page: a call}; page 0: in one piece."""
    dtype, draw = np.dtype(DTYPES[name]), np.random.default_rng(1)
    batch = max(1, (mb << 20) // (2 * HEADS_KV * KEYS * DIM * dtype.itemsize))
    k, v = (draw.standard_normal((batch, HEADS_KV, KEYS, DIM), np.float32).astype(dtype) for _ in range(2))
    q = draw.standard_normal((batch, HEADS_KV * GROUP, 1, DIM), np.float32).astype(dtype)
    calls, outputs = {}, {}
    for page in (0, 16, 64, 256):
        problem = f"b{batch},h{HEADS_KV * GROUP},hkv{HEADS_KV},sq1,skv{KEYS},d{DIM},{name},seqused"
        arrays = {"Q": q, "K": k, "V": v, "USED_KV": np.full(batch, KEYS, np.int32), "O": np.empty_like(q)}
        if page:
            problem += f",page={page}"
            order = draw.permutation(batch * KEYS // page)
            arrays["PAGE_TABLE_K"] = np.argsort(order).astype(np.int32).reshape(batch, -1)
            for role in "KV":
                pages = arrays[role].reshape(batch, HEADS_KV, -1, page, DIM).swapaxes(1, 2)
                arrays[role] = np.ascontiguousarray(pages.reshape(-1, HEADS_KV, page, DIM)[order])
        calls[page], outputs[page] = context.plan(problem, kernel="cpu_decode").bind(arrays), arrays["O"]
        calls[page].run()
    return batch, calls, max(np.abs(np.float32(o) - np.float32(outputs[0])).max() for o in outputs.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--mb", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--dtypes", default="fp32,fp16,bf16")
    options = parser.parse_args()
    os.environ["ATTUNE_THREADS"] = str(options.threads)
    context = plans.Context("cpu")
    print("problem\tpage\tmedian_us\tgb_s\tratio\tdifference")
    for name in options.dtypes.split(","):
        batch, calls, difference = arms_of(name, options.mb, context)
        size, times = 2 * batch * HEADS_KV * KEYS * DIM * np.dtype(DTYPES[name]).itemsize, {page: [] for page in calls}
        for turn in range(options.rounds + 1):
            for page in random.sample(list(calls), len(calls)):
                begin = time.perf_counter()
                calls[page].run()
                times[page].append(time.perf_counter() - begin)
        median = {page: sorted(of[1:])[len(of) // 2] * 1e6 for page, of in times.items()}
        for page, us in median.items():
            print(f"b{batch},h32,hkv8,sq1,skv{KEYS},d{DIM},{name}\t{page}\t{us:.0f}\t{size / us / 1e3:.1f}\t"
                  f"{median[0] / us:.3f}\t{difference:.1e}", flush=True)


if __name__ == "__main__":
    main()
