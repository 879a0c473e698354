#!/usr/bin/env python3
"""attune from Python, cell by cell (`# %%`: VS Code, Spyder and jupytext open this as a notebook).

    python_tour.py [PICTURE.png]

NumPy is all that it needs; with a name and matplotlib it draws what it computes.
"""
# %% One call: arrays [batch, heads, seqlen, dim], three times as many query heads as key heads
import sys
import time

import numpy as np

import attune

random = np.random.default_rng(1)
q = random.standard_normal((2, 6, 100, 64), np.float32)
k, v = (random.standard_normal((2, 2, 100, 64), np.float32) for _ in range(2))
o, lse = attune.sdpa(q, k, v, causal=True, enable_gqa=True, return_lse=True)
print("O", o.shape, "LSE", lse.shape)

# %% What is refused says why
try:
    attune.sdpa(q, k[:, :, :99], v, enable_gqa=True)
except attune.Error as error:
    print(error.status.name, "-", error.sentence)

# %% The weights themselves: with V the unit matrix, O = P V is P
keys = 64
query, key, unit = (x[None, None] for x in (random.standard_normal((keys, 32), np.float32) * 0.6,
                                            random.standard_normal((keys, 32), np.float32), np.eye(keys, dtype="f4")))
slopes, sink = np.array([0.25], "f4"), np.array([3.0], "f4")
weights = {"all keys": {}, "causal": {"causal": True}, "window=(12, 0)": {"window": (12, 0)},
           "alibi": {"causal": True, "alibi": slopes}, "sink": {"causal": True, "sink": sink},
           "seqused": {"seqused": np.array([40], "i4")}}
weights = {name: attune.sdpa(query, key, unit, **terms)[0, 0] for name, terms in weights.items()}
for name, p in weights.items():
    print(f"{name:16} rows sum to {p.sum(-1).min():.3f} ... {p.sum(-1).max():.3f}, {np.mean(p > 0):.0%} of keys seen")

# %% A plan serves every call that is not larger; which kernel it runs, and why not another
plan = attune.plan("b4,h8,s1024,d64,fp32,causal", "cpu")
print(plan)
step = plan.run(Q=np.ones((1, 8, 1, 64), "f4"), K=np.ones((1, 8, 700, 64), "f4"), V=np.ones((1, 8, 700, 64), "f4"))
print("one token against 700:", step.shape)


# %% How long it takes, beside the same in NumPy
def in_numpy(q, k, v):
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(np.float32(q.shape[-1]))
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def milliseconds(function, *arrays):
    function(*arrays)
    spans = []
    for _ in range(5):
        begin = time.perf_counter()
        function(*arrays)
        spans.append(time.perf_counter() - begin)
    return 1e3 * sorted(spans)[2]


lengths, times = (64, 128, 256, 512, 1024), {"attune": [], "NumPy": []}
for length in lengths:
    arrays = [random.standard_normal((1, 8, length, 64), np.float32) for _ in range(3)]
    for name, function in (("attune", attune.sdpa), ("NumPy", in_numpy)):
        times[name].append(milliseconds(function, *arrays))
    print(f"s={length:5}", "  ".join(f"{name} {of[-1]:8.3f} ms" for name, of in times.items()))

# %% Pictures
if len(sys.argv) > 1:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(2, 4, figsize=(14, 7), layout="constrained")
    for (name, p), axis in zip(weights.items(), [*axes[0, :3], *axes[1, :3]]):
        axis.imshow(p ** 0.5, cmap="magma", vmin=0, vmax=1)
        axis.set(title=name, xlabel="key", ylabel="query")
    for name, of in times.items():
        axes[0, 3].loglog(lengths, of, "o-", label=name)
    axes[0, 3].set(title="b1,h8,d64,fp32", xlabel="seqlen", ylabel="ms a call")
    axes[0, 3].legend()
    axes[1, 3].axis("off")
    figure.savefig(sys.argv[1], dpi=110)
    print("drawn into", sys.argv[1])
