"""attune.sdpa on drawn problems against fp64, by the rules for numbers. ATTUNE_SEED and ATTUNE_CALLS draw others."""
import os

import ml_dtypes
import numpy as np
import pytest

import attune
import reference
from attune import attention

CALLS, SEED = int(os.environ.get("ATTUNE_CALLS", 500)), int(os.environ.get("ATTUNE_SEED", 1))
DTYPES = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


class Draw:
    """One call: its arrays, in the layout and with the strides that are drawn, and what is asked."""

    def __init__(self, number):
        self.random = random = np.random.default_rng([SEED, number])
        self.dtype = DTYPES[number % 3]
        self.layout = "bshd" if random.random() < 0.3 else "bhsd"
        heads_kv, groups = int(random.integers(1, 4)), int(random.choice([1, 1, 2, 3]))
        batch, rows, keys = int(random.integers(1, 4)), self.length(), self.length()
        empty = random.integers(0, 60)
        batch, rows, keys = (0 if empty == 0 else batch, 0 if empty == 1 else rows, 0 if empty == 2 else keys)
        dim = int(random.choice([1, 3, 8, 16, 17, 40, 64, 80, 128]))
        dim_v = dim if random.random() < 0.7 else int(random.integers(1, 70))
        self.shape = (batch, heads_kv * groups, rows, keys)
        heads = heads_kv * groups
        self.sizes = ((batch, heads, rows, dim), (batch, heads_kv, keys, dim), (batch, heads_kv, keys, dim_v))
        self.inputs = self.draw()
        self.case = {"enable_gqa": groups > 1 or bool(random.random() < 0.5)}
        self.add_positions()
        self.add_features()
        if number % 6 == 0:  # of float32; kernels of a CPU are as exact with it
            self.case["tf32"] = True

    def length(self):
        random = self.random
        return int(random.choice([1, 2, 7, 16, 31, 64, 65, int(random.integers(1, 150))]))

    def draw(self):
        return [self.random.standard_normal(size).astype(self.dtype) for size in self.sizes]

    def add_positions(self):
        random, case = self.random, self.case
        kind = random.integers(0, 5)
        if kind == 0:
            case["is_causal"] = True
        elif kind == 1:
            case["causal"] = True
        elif kind == 2:
            case["window"] = (int(random.integers(-1, 40)), int(random.integers(-1, 40)))
        if kind in (1, 2) and random.random() < 0.6:
            case["offset"] = ["br", "tl", int(random.integers(-50, 50))][random.integers(0, 3)]

    def add_features(self):
        random, case, (batch, heads, rows, keys) = self.random, self.case, self.shape
        if random.random() < 0.4:
            shape = [1 if random.random() < 0.4 else size for size in self.shape]
            shape = shape[random.integers(0, 4):] if random.random() < 0.3 else shape
            boolean = random.random() < 0.5
            mask = random.random(shape) < 0.7 if boolean else random.standard_normal(shape).astype(self.dtype)
            if not boolean and random.random() < 0.3:
                mask[random.random(shape) < 0.2] = -np.inf
            case["attn_mask"] = mask
        if random.random() < 0.15:
            case["softcap"] = float(random.choice([5.0, 30.0]))
        if random.random() < 0.15:
            case["scale"] = float(random.choice([0.3, 0.05, -0.2]))
        if random.random() < 0.15:
            case["alibi"] = random.random(heads).astype(np.float32)
        if random.random() < 0.15:
            case["sink"] = random.standard_normal(heads).astype(np.float32)
        if random.random() < 0.15:
            case["seqused"] = random.integers(0, keys + 1, batch).astype(np.int32)

    def spread(self, array):
        """The same values with other strides."""
        random, kind = self.random, self.random.integers(0, 9)
        if kind == 0:  # a part of a larger array
            outer = [size + int(random.integers(0, 3)) for size in array.shape[:3]]
            room = np.full([*outer, array.shape[3] + 8], np.nan, array.dtype)
            part = room[tuple(slice(0, size) for size in array.shape)]
        elif kind == 1:  # every second row
            part = np.full([*array.shape[:2], 2 * array.shape[2], array.shape[3]], np.nan, array.dtype)[:, :, ::2]
        elif kind == 2:  # not aligned
            memory = np.zeros(array.nbytes + 1, np.uint8)
            part = memory[1:].view(array.dtype).reshape(array.shape) if array.nbytes else array.copy()
        elif kind == 3:
            part = np.empty(array.shape[::-1], array.dtype).transpose()
        elif kind == 4:
            part = np.empty_like(array)[:, :, ::-1]
        elif kind == 5:
            part = np.empty([*array.shape[:3], 2 * array.shape[3]], array.dtype)[..., ::2]
        elif kind == 6:
            part = np.empty([array.shape[i] for i in (0, 2, 1, 3)], array.dtype).transpose(0, 2, 1, 3)
        else:
            return array
        part[...] = array
        return part

    def call(self):
        swap = (lambda x: x.transpose(0, 2, 1, 3)) if self.layout == "bshd" else (lambda x: x)
        given = [swap(self.spread(array)) for array in self.inputs]
        found, lse = attune.sdpa(*given, **self.case, layout=self.layout, return_lse=True)
        again = attune.sdpa(*given, **self.case, layout=self.layout)
        return swap(found), lse, swap(again)


@pytest.mark.parametrize("first", range(0, CALLS, 50))
def test_random_calls(first):
    for number in range(first, min(first + 50, CALLS)):
        draw = Draw(number)
        case_text = f"ATTUNE_SEED={SEED}, call {number}: {draw.sizes} {draw.dtype} {draw.layout} {draw.case}"
        found, lse, again = draw.call()
        exact, exact_lse = reference.attention(*draw.inputs, draw.case)
        assert found.shape == exact.shape and found.dtype == draw.dtype, case_text
        limit = reference.tolerance(*draw.inputs, draw.case, [draw.draw() for _ in range(7)])
        error = np.abs(found.astype(float) - exact).max(initial=0)
        assert error <= limit, f"{case_text}: off by {error:.3g}, at most {limit:.3g} is allowed"
        assert (again.view(np.uint8) == found.view(np.uint8)).all() if again.flags.c_contiguous else True, case_text
        finite = np.isfinite(exact_lse)
        assert (np.isfinite(lse) == finite).all() and (lse[~finite] == exact_lse[~finite]).all(), case_text
        allowed = np.maximum(1e-5 * np.maximum(1, np.abs(exact_lse[finite])), 2 * limit)
        assert (np.abs(lse[finite] - exact_lse[finite]) <= allowed).all(), case_text


def test_a_wrong_answer_would_be_seen():
    """One key of 40 left out."""
    random = np.random.default_rng(3)
    for dtype in DTYPES:
        q, k, v = (random.standard_normal((1, 2, 40, 16)).astype(dtype) for _ in range(3))
        short = reference.attention(q, k[:, :, :-1], v[:, :, :-1], {})[0]
        error = np.abs(short - reference.attention(q, k, v, {})[0]).max()
        assert error > 3 * reference.tolerance(q, k, v, {}, [])


@pytest.mark.parametrize("number", range(40))
def test_heads_that_share_a_mask(monkeypatch, number):
    """On a device one query's heads that share keys and a mask are queries of one head: the same is computed."""
    random = np.random.default_rng([SEED, number])
    batch, heads_kv, group, keys, dim = (int(random.integers(1, most)) for most in (4, 4, 5, 70, 40))
    group, layout = group + (number % 4 > 0), ["bhsd", "bshd"][number % 2]
    sizes = (batch, heads_kv * group, 1, dim), (batch, heads_kv, keys, dim), (batch, heads_kv, keys, dim + 3)
    q, k, v = (random.standard_normal(size).astype(DTYPES[number % 3]) for size in sizes)
    shape = [(batch, 1, 1, keys), (1, 1, 1, keys), (keys, ), (batch, heads_kv * group, 1, keys)][number % 4]
    mask = random.random(shape) < 0.7
    case = {"attn_mask": mask if number % 3 else np.where(mask, random.standard_normal(shape), -9).astype(q.dtype)}
    case.update([{}, {"softcap": 3.0}, {"scale": 0.3, "is_causal": True}, {"window": (5, -1)},
                 {"alibi": random.standard_normal(heads_kv * group).astype(np.float32)},
                 {"seqused": random.integers(0, keys + 1, batch).astype(np.int32)}][number % 6])
    given = [a.swapaxes(1, 2) if layout == "bshd" else a for a in (q, k, v)]
    out = np.full((batch, 1, heads_kv * group, dim + 3) if layout == "bshd" else (*q.shape[:3], dim + 3), 7, q.dtype)
    found, joined = [], []
    join = attention.Asked.join_heads
    monkeypatch.setattr(attention.Asked, "join_heads", lambda asked: joined.append(asked) or join(asked))
    for device in (False, True):
        monkeypatch.setattr(attention, "on_device", lambda view, device=device: device)
        attention.spares.clear()
        for more in ({}, {"out": out}, {}):
            found.append(attune.sdpa(*given, enable_gqa=True, layout=layout, return_lse=True, **case, **more))
    attention.spares.clear()
    plain = not {"is_causal", "window", "alibi"} & case.keys()
    assert bool(joined) == (group > 1 and (shape[:2] != (batch, heads_kv * group) or heads_kv * group == 1) and plain)
    exact, lse = reference.attention(q, k, v, {**case, "enable_gqa": True})[:2]
    for o, have in found:
        o = (o.swapaxes(1, 2) if layout == "bshd" else o).astype(np.float64)
        assert np.abs(o - exact).max() <= (3e-6, 3e-3, 3e-2)[number % 3]
        assert np.allclose(have, lse, atol=2e-3, rtol=1e-3)
