"""attune.varlen and attune.torch.varlen: packed sequences are what each sequence alone is."""
import random

import numpy as np
import pytest
from reference import attention

import attune


def packed(seed, dtype=np.float32):
    """A case: (q, k, v, cu_q, cu_k), and longest lengths."""
    pick, generator = random.Random(seed), np.random.default_rng(seed)
    group, heads, dim = pick.randint(1, 3), pick.randint(1, 2), pick.choice([8, 16, 33])
    lengths = [(pick.randint(0, 20), pick.randint(0, 30)) for _ in range(pick.randint(1, 4))]
    cu = [np.cumsum([0, *[pair[i] for pair in lengths]]).astype(np.int32) for i in (0, 1)]
    shapes = (cu[0][-1], heads * group, dim), (cu[1][-1], heads, dim), (cu[1][-1], heads, dim + 8)
    longest = [max(1, *[pair[i] for pair in lengths]) if len(lengths) > 1 else max(1, lengths[0][i]) for i in (0, 1)]
    return [generator.standard_normal(shape).astype(dtype) for shape in shapes] + cu, longest


def one_by_one(q, k, v, cu_q, cu_k, case):
    """(O, LSE) in fp64."""
    o, lse = np.zeros((*q.shape[:2], v.shape[2])), np.zeros(q.shape[1::-1])
    for b in range(len(cu_q) - 1):
        rows, keys = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b + 1])
        own = {**case, **({"seqused": case["seqused"][b:b + 1]} if "seqused" in case else {})}
        alone = [t.transpose(1, 0, 2)[None] for t in (q[rows], k[keys], v[keys])]
        found, sums = attention(*alone, own)
        o[rows], lse[:, rows] = found[0].transpose(1, 0, 2), sums[0]
    return o, lse


@pytest.mark.parametrize("seed", range(40))
def test_sequences_alone(seed):
    (q, k, v, cu_q, cu_k), longest = packed(seed)
    heads = np.linspace(0.1, 0.5, q.shape[1], dtype=np.float32)
    for options in ({}, {"causal": True}, {"window": (3, 1)}, {"softcap": 2.0, "scale": 0.3}, {"sink": heads},
                    {"alibi": heads, "causal": True}, {"causal": True, "offset": "tl"}, {"causal": True, "offset": 2}):
        o, lse = attune.varlen(q, k, v, cu_q, cu_k, *longest, return_lse=True, **options)
        wanted, sums = one_by_one(q, k, v, cu_q, cu_k, options)
        assert np.abs(o - wanted).max(initial=0) < 4e-6, options
        assert np.allclose(lse, sums, atol=1e-5), options


def test_what_is_refused():
    (q, k, v, cu_q, cu_k), (most_q, most_k) = packed(3)
    total = q.shape[0]
    other = [(dict(q=q[None]), "q: its shape"), (dict(cu_q=cu_q.astype(np.int64)), "cu_q: its dtype"),
             (dict(cu_q=cu_q[::-1].copy()), "cu_q: it is"), (dict(cu_q=cu_q + 1), "cu_q: it is"),
             (dict(cu_q=np.append(cu_q[:-1], total + 1).astype(np.int32)), f"the last at most {total}"),
             (dict(cu_k=cu_k[:-1]), "cu_k: its shape"), (dict(max_q=1), "max_q is 1: cu_q has a sequence"),
             (dict(max_k=-1), "max_k is -1"), (dict(k=k[:, :, :7]), "k: its dim"), (dict(v=v[:-1]), "v: its total_kv"),
             (dict(k=k.astype(np.float64)), "k: its dtype is float64"), (dict(window=(1, )), "window"),
             (dict(scale=0.0), "scale is 0"), (dict(softcap=-1.0), "softcap -1"), (dict(offset="x"), "offset"),
             (dict(sink=np.zeros(77, np.float32)), "sink: its shape"), (dict(q=q.tolist()), "q: it is of type list")]
    for change, words in other:
        given = dict(q=q, k=k, v=v, cu_q=cu_q, cu_k=cu_k, max_q=most_q, max_k=most_k)
        given.update(change)
        with pytest.raises(attune.Error, match=words):
            attune.varlen(**given)


def test_operators_of_pytorch():
    torch = pytest.importorskip("torch")
    import attune.torch as at
    arrays, longest = packed(5)
    tensors = [torch.from_numpy(array) for array in arrays]
    wanted, sums = attune.varlen(*arrays, *longest, causal=True, return_lse=True)
    o, lse = at.varlen(*tensors, *longest, causal=True, return_lse=True)
    assert np.array_equal(o.numpy(), wanted) and np.array_equal(lse.numpy(), sums)
    rest = (None, None, None, None, True, None, [5, 0], 3.0, False, True, False)
    for name in ("varlen", "varlen_lse"):
        result = torch.library.opcheck(getattr(torch.ops.attune, name).default, (*tensors, *longest, *rest))
        assert set(result.values()) == {"SUCCESS"}, result
    assert torch.equal(at.varlen(*tensors, *longest, causal=True, tf32=True), o)
    with pytest.raises(attune.Error, match="tf32 is 1: 0 is needed with dtype fp16"):
        at.varlen(*[t.half() for t in tensors[:3]], *tensors[3:], *longest, tf32=True)
    compiled = torch.compile(lambda *t: at.varlen(*t, *longest, causal=True) * 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*tensors), o)
    with torch.autocast("cpu", torch.bfloat16):
        assert at.varlen(*tensors, *longest).dtype is torch.bfloat16
    tensors[0].requires_grad_()
    with pytest.raises(attune.Error, match="cannot be computed: q: it is torch.float32 on cpu"):
        at.varlen(*tensors, *longest)
    with pytest.raises(attune.Error, match="cannot be computed: softcap"):
        at.varlen(*tensors, *longest, softcap=2.0)
