"""attune.sdpa and plans on PyTorch's tensors, on a CPU; where there is no PyTorch these are skipped."""
import json
import subprocess
import sys

import numpy as np
import pytest

import attune

torch = pytest.importorskip("torch")
attention = torch.nn.functional.scaled_dot_product_attention


def draw(*sizes, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(sizes[0]))
    return [torch.randn(size, generator=generator).to(dtype) for size in sizes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_it_is_pytorchs_attention(dtype):
    limit = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    q, k, v = draw((2, 4, 9, 16), (2, 2, 11, 16), (2, 2, 11, 24), dtype=dtype)
    bias, = draw((2, 1, 9, 11), dtype=dtype)
    seen = bias[0, 0] < 0.7
    for options in ({}, {"is_causal": True}, {"attn_mask": seen}, {"attn_mask": bias}, {"scale": 0.3}):
        exact = {name: value.double() if name == "attn_mask" and value.dtype != torch.bool else value
                 for name, value in options.items()}
        wanted = attention(*(t.repeat_interleave(4 // t.shape[1], 1).double() for t in (q, k, v)), **exact)
        for _ in range(2):
            found = attune.sdpa(q, k, v, enable_gqa=True, **options)
            assert found.dtype == dtype and (found.double() - wanted).abs().max() <= limit
        swapped = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]
        assert (attune.sdpa(*swapped, enable_gqa=True, **options).double() - wanted).abs().max() <= limit


def test_outputs_have_the_strides_of_q():
    q, k, v = draw(*[(2, 3, 9, 8)] * 3)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    assert attune.sdpa(q, k, v).stride() == q.stride() == torch.empty_like(q).stride()
    assert torch.equal(attune.sdpa(q, k, torch.nn.Parameter(v, requires_grad=False)), attune.sdpa(q, k, v))


def test_tensors_that_are_refused():
    q, k, v = draw(*[(1, 2, 8, 16)] * 3)
    attune.sdpa(q, k, v)  # what is kept must not let them through
    freed, negative = torch.randn(1, 2, 8, 16), torch.randn(1, 2, 8, 16, dtype=torch.complex64)
    freed.untyped_storage().resize_(0)
    same = torch.view_as_real(torch.randn(1, 2, 8, 16, dtype=torch.complex64))[..., 0]
    assert same.stride() == negative.imag.stride()
    attune.sdpa(same, k, v)
    nested = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)])
    for tensor, words in [(q.clone().requires_grad_(), "q: it requires a gradient"), (q.double(), "q: its dtype is"),
                          (q.to("meta"), "q: it is on meta"), (q.to_sparse(), "q: a plain strided tensor"),
                          (freed, "data is NULL|has been freed"), (negative.conj().imag, "its sign pending"),
                          (nested, "not a nested one"), (q.numpy(), "k: it is of type Tensor, and q of ndarray")]:
        for _ in range(2):
            with pytest.raises(attune.Error, match=words):
                attune.sdpa(tensor, k, v)
    with torch.no_grad():
        assert not attune.sdpa(q.clone().requires_grad_(), k, v).requires_grad
    with pytest.raises(attune.Error, match="no memory of its own|requires"):
        torch.func.vmap(lambda one: attune.sdpa(one[None], k, v))(q.repeat(2, 1, 1, 1))


def test_plans_take_tensors():
    plan = attune.plan("b1,h2,s64,d16,fp32,causal", "cpu")
    q, k, v = draw(*[(1, 2, 8, 16)] * 3)
    o, lse = plan.run(Q=q, K=k, V=v, LSE=True)
    assert (o - attention(q, k, v, is_causal=True)).abs().max() < 2e-6 and lse.shape == (1, 2, 8)
    call = plan.bind({"Q": q, "K": k, "V": v, "O": o})
    q.resize_(1, 2, 64, 16)
    with pytest.raises(attune.Error, match="another shape"):
        call.run()
    assert np.isfinite(o.numpy()).all()


def test_first_calls_load_no_modules():
    """But attune's own: much of PyTorch is loaded when it is asked for, which can take seconds."""
    code = (f"import json, sys\nsys.path[:0] = {sys.path!r}\nimport numpy, torch, attune\n"
            "q = torch.ones(1, 2, 6, 8)\nbefore = set(sys.modules)\n"
            "for _ in range(4):\n    attune.sdpa(q, q + 1, q + 2)\n"
            "print(json.dumps([name for name in sys.modules if name not in before and 'attune' not in name]))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) < 10, done.stdout


def test_outputs_larger_than_a_hosts_memory(monkeypatch):
    """A device may have more: what its host cannot hold even unwritten is made without."""

    def refused(*_, **__):
        raise RuntimeError("not enough memory")

    q, k, v = draw((1, 5, 7, 24), (1, 5, 7, 24), (1, 5, 7, 24))
    monkeypatch.setattr(torch, "empty_strided", refused)
    for _ in range(3):
        np.testing.assert_allclose(attune.sdpa(q, k, v), attention(q, k, v), rtol=1e-5, atol=1e-6)
