"""attune.torch on a CPU; where there is no PyTorch these are skipped."""
import random
import threading

import pytest

import attune

torch = pytest.importorskip("torch")
import attune.torch as at  # noqa: E402
from attune import attention as attention_  # noqa: E402

attention = torch.nn.functional.scaled_dot_product_attention
LIMITS = {torch.float32: 4e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def draw(*sizes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator).to(dtype) for size in sizes]


def exact(q, k, v, scores_of=None, scale=None):
    """(O, LSE) in fp64; rows that see no key are 0."""
    q, k, v = q.double(), *(t.double().repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.mT * (q.shape[-1]**-0.5 if scale is None else scale)
    scores = scores if scores_of is None else scores_of(scores)
    return torch.softmax(scores, -1).nan_to_num(0) @ v, torch.logsumexp(scores, -1)


def close(found, wanted, dtype):
    return torch.allclose(found.double(), wanted, rtol=0, atol=LIMITS[dtype])


@pytest.mark.parametrize("block", range(10))
def test_random_calls(block):
    """500 calls: dtypes, GQA, memory orders, causal, window, softcap, mask, bias."""
    for seed in range(50 * block, 50 * block + 50):
        pick = random.Random(seed)
        batch, group, heads, sq, sk = (pick.randint(1, n) for n in (3, 3, 3, 40, 60))
        dim, dtype = pick.choice([1, 8, 17, 32, 64]), pick.choice(list(LIMITS))
        shapes = [(batch, heads * group, sq, dim), (batch, heads, sk, dim), (batch, heads, sk, dim)]
        if pick.random() < 0.4:
            shapes = [(b, s, h, d) for b, h, s, d in shapes]
            q, k, v = (t.transpose(1, 2) for t in draw(*shapes, dtype=dtype, seed=seed))
        else:
            q, k, v = draw(*shapes, dtype=dtype, seed=seed)
        kind, options, change = pick.randrange(6), {}, None
        position = torch.arange(sq)[:, None] + sk - sq
        key = torch.arange(sk)
        if kind == 1:
            options, hidden = {"causal": True}, key > position
        elif kind == 2:
            options, hidden = {"window": (5, 3)}, (key > position + 3) | (key < position - 5)
        elif kind == 3:
            options, change = {"softcap": 2.0}, lambda s: 2 * torch.tanh(s / 2)
        elif kind == 4:
            hidden = torch.rand(sq, sk, generator=torch.Generator().manual_seed(seed)) < 0.3
            options = {"attn_mask": ~hidden}
        elif kind == 5:
            bias, = draw((batch, 1, sq, sk), dtype=dtype, seed=seed + 1)
            options, change = {"attn_mask": bias}, lambda s: s + bias.double()
        if kind in (1, 2, 4):
            change = lambda s: s.masked_fill(hidden, float("-inf"))  # noqa: E731
        o, lse = at.sdpa(q, k, v, enable_gqa=True, return_lse=True, **options)
        wanted, wanted_lse = exact(q, k, v, change)
        assert close(o, wanted, dtype), (seed, options, (o.double() - wanted).abs().max())
        assert torch.allclose(lse.double(), wanted_lse, atol=1e-4 if dtype is torch.float32 else 2e-2), seed
        assert torch.equal(at.sdpa(q, k, v, enable_gqa=True, **options), o), seed


@pytest.mark.parametrize("name", ["sdpa", "sdpa_lse"])
def test_operators_are_registered_rightly(name):
    q, k, v = draw((2, 4, 9, 16), (2, 2, 11, 16), (2, 2, 11, 24))
    swapped = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]
    for tensors in ((q, k, v), swapped):
        rest = (None, None, None, None, False, None, True, "bhsd", True, "br", None, 3.0, False, True, False)
        result = torch.library.opcheck(getattr(torch.ops.attune, name).default, (*tensors, *rest))
        assert set(result.values()) == {"SUCCESS"}, result


def gradients(function, tensors, grad):
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    o = function(*leaves)
    o.backward(grad)
    return [o.detach(), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": "bool"},
                                     {"attn_mask": "bias"}])
def test_gradients(options):
    q, k, v, grad = draw((2, 4, 9, 16), (2, 2, 11, 16), (2, 2, 11, 16), (2, 4, 9, 16))
    if "attn_mask" in options:
        bias, = draw((9, 11))
        seen = bias < 0.5
        seen[3] = False  # a row that sees no key
        options = {"attn_mask": seen if options["attn_mask"] == "bool" else bias}
    found = gradients(lambda *t: at.sdpa(*t, enable_gqa=True, **options), (q, k, v), grad)
    plain = {n: t.double() if n == "attn_mask" and t.dtype != torch.bool else t for n, t in options.items()}
    wide = [t.double() for t in (q, k, v, grad)]
    wanted = gradients(lambda *t: attention(*t, enable_gqa=True, **plain), wide[:3], wide[3])
    for have, want in zip(found, wanted):
        assert torch.allclose(have.double(), want, atol=1e-5)


def efficient_backward(grad, q, k, v, mask, o, lse, seed, offset, dropout_p, wanted, causal, *, scale):
    """aten::_scaled_dot_product_efficient_attention_backward, which reads O and LSE as its kernels on CUDA do: rows of
    O lie heads * dim apart, rows of LSE are padded to a multiple of 32."""
    rows, dim = q.shape[2:]
    assert lse.shape[2] % 32 == 0 and dropout_p == 0 and not causal and wanted == [True, True, True, False]
    o = o.as_strided(o.shape, (*o.stride()[:2], o.shape[1] * dim, 1)).double()
    grad, q, k, v = (t.double() for t in (grad, q, k, v))
    weights = torch.exp(q @ k.mT * scale + mask.double() - lse[..., :rows, None].double())
    scores = weights * (grad @ v.mT - (grad * o).sum(-1, keepdim=True)) * scale
    return *(t.to(mask.dtype) for t in (scores @ k, scores.mT @ q, weights.mT @ grad)), None


@pytest.mark.parametrize("dtype", list(LIMITS))
@pytest.mark.parametrize("kind", ["bool", "bias"])
def test_gradients_of_masks_on_cuda(dtype, kind, monkeypatch):
    """What PyTorch's operator on CUDA is given, by a stand-in for it."""
    from attune import torch_gradients
    monkeypatch.setattr(torch.ops.aten, "_scaled_dot_product_efficient_attention_backward", efficient_backward)
    q, k, v, grad = draw(*[(2, 4, 9, 12)] * 4, dtype=dtype)
    mask, = draw((2, 1, 9, 9), dtype=dtype)
    if kind == "bool":
        mask = torch.zeros_like(mask).masked_fill(mask < 0, float("-inf"))
        mask[1, :, 3] = float("-inf")  # a row that sees no key
    o, lse = at.sdpa(q, k, v, attn_mask=mask, return_lse=True)
    found = torch_gradients.from_efficient(grad, q, k, v, o, lse, mask, False, None)
    wanted = gradients(lambda *t: attention(*t, attn_mask=mask.double()), [t.double() for t in (q, k, v)],
                       grad.double())
    for have, want in zip(found, wanted[1:]):
        assert torch.allclose(have.double(), want, rtol=0, atol=4 * LIMITS[dtype])


def test_gradients_that_are_refused():
    q, k, v = draw(*[(1, 2, 8, 16)] * 3)
    wants = q.clone().requires_grad_()
    for options, words in (({"softcap": 2.0}, "softcap"), ({"window": (2, 0)}, "window"),
                           ({"sink": torch.zeros(2)}, "sink"), ({"layout": "bshd"}, "layout"),
                           ({"attn_mask": torch.zeros(8, 8, requires_grad=True)}, "attn_mask"),
                           ({"causal": True, "offset": 3}, "causal")):
        with pytest.raises(attune.Error, match=f"cannot be computed: {words}") as caught:
            at.sdpa(wants, k, v, **options)
        assert caught.value.status == attune.Status.UNSUPPORTED
    with pytest.raises(attune.Error, match="v: its dim"):
        at.sdpa(wants, k, v[..., :8])
    with pytest.raises(attune.Error, match="requires a gradient"):
        torch.ops.attune.sdpa(wants, k, v, None, None, None, None, False, None, False, "bhsd", False, None, None, None,
                              False, False, False)
    with torch.no_grad():
        assert not at.sdpa(wants, k, v, softcap=2.0).requires_grad


def test_gradients_by_torch_func():
    q, k, v = draw(*[(1, 2, 8, 16)] * 3)
    wanted = gradients(lambda *t: at.sdpa(*t).sum(), (q, k, v), torch.tensor(1.0))[1:]
    for have, want in zip(torch.func.grad(lambda *t: at.sdpa(*t).sum(), (0, 1, 2))(q, k, v), wanted):
        assert torch.allclose(have, want, atol=1e-6)


def test_compile_without_a_graph_break():
    def function(q, k, v):
        return at.sdpa(q * 1, k, v, is_causal=True) + 1

    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (8, 13, 40):
        tensors = draw(*[(1, 2, length, 16)] * 3)
        assert torch.equal(compiled(*tensors), function(*tensors))
        for have, want in zip(gradients(compiled, tensors, torch.ones(1, 2, length, 16)),
                              gradients(function, tensors, torch.ones(1, 2, length, 16))):
            assert torch.allclose(have, want, atol=1e-6)


def test_autocast_says_the_dtype():
    q, k, v = draw(*[(1, 2, 8, 16)] * 3)
    with torch.autocast("cpu", torch.bfloat16):
        o = at.sdpa(q, k, v)
    assert o.dtype is torch.bfloat16 and torch.equal(o, at.sdpa(*(t.bfloat16() for t in (q, k, v))))


def test_tf32_is_what_the_call_says(monkeypatch):
    """Whichever way a call goes; PyTorch's own switch says nothing of it."""
    problems, make = [], attention_.Asked.problem
    monkeypatch.setattr(attention_.Asked, "problem", lambda asked: problems.append(make(asked)) or problems[-1])
    monkeypatch.setattr(attention_, "spares", type(attention_.spares)())
    q, k, v = draw(*[(1, 2, 8, 16)] * 3)
    wanted = gradients(at.sdpa, (q, k, v), q)
    compiled = torch.compile(lambda *t: at.sdpa(*t, tf32=True) * 1, fullgraph=True, backend="aot_eager")
    assert problems and not any([problem.tf32 for problem in problems])
    problems.clear()
    for found in (at.sdpa(q, k, v, tf32=True), at.sdpa(q, k, v, tf32=True, return_lse=True)[0], compiled(q, k, v)):
        assert torch.equal(found, wanted[0])
    for found, want in zip(gradients(lambda *t: at.sdpa(*t, tf32=True), (q, k, v), q), wanted):
        assert torch.equal(found, want)
    assert problems and all([problem.tf32 for problem in problems])
    problems.clear()
    switch = torch.backends.cuda.matmul
    former, switch.allow_tf32 = switch.allow_tf32, True
    try:
        assert torch.equal(at.sdpa(q, k, v, scale=0.25), wanted[0]) and [problem.tf32 for problem in problems] == [0]
    finally:
        switch.allow_tf32 = former
    halves = [t.half() for t in (q, k, v)]
    at.sdpa(*halves)
    wants = [t.clone().requires_grad_() for t in halves]
    for call in (lambda: at.sdpa(*halves, tf32=True), lambda: at.sdpa(*wants, tf32=True), lambda: compiled(*halves)):
        with pytest.raises(attune.Error, match="tf32 is 1: 0 is needed with dtype fp16, or dtype fp32"):
            call()


def test_bad_input():
    q, k, v = draw(*[(1, 2, 8, 16)] * 3)
    for tensors, options, words in (((q.numpy(), k, v), {}, "q: it is of type ndarray"),
                                    ((q, k.half(), v[0]), {}, "v: "),
                                    ((q, k, v), {"layout": "sbhd"}, "layout"), ((q[0], k, v), {}, "q: its shape"),
                                    ((q, k[:, :1], v), {}, "v: its heads"), ((q.double(), k, v), {}, "q: its dtype"),
                                    ((q, k.to("meta"), v), {}, "k: it is on meta"),
                                    ((q, k, v), {"window": [1]}, "window")):
        with pytest.raises(attune.Error, match=words):
            at.sdpa(*tensors, **options)


# ---- PyTorch's own function ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", list(LIMITS))
def test_it_serves_pytorchs_function(dtype):
    for sq, sk in ((9, 9), (9, 13), (13, 9), (1, 40)):
        q, k, v = draw((2, 4, sq, 16), (2, 4, sk, 16), (2, 4, sk, 16), dtype=dtype)
        bias, = draw((sq, sk), dtype=dtype)
        for options in ({}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": bias}, {"attn_mask": bias < 0.5}):
            before = attention(q, k, v, **options)
            at.calls.reset()
            with at.use():
                found = attention(q, k, v, **options)
            assert (at.calls.attune, at.calls.pytorch) == (1, 0), at.calls
            assert found.stride() == before.stride() and close(found, before.double(), dtype)
            attention(q, k, v, **options)
            assert at.calls.attune == 1  # PyTorch's own is back


def test_gradients_through_pytorchs_function():
    q, k, v, grad = draw(*[(2, 4, 9, 16)] * 4)
    seen = draw((9, 9))[0] < 0.5
    seen[2] = False
    for options in ({}, {"is_causal": True}, {"attn_mask": seen}):
        wanted = gradients(lambda *t: attention(*t, **options), (q, k, v), grad)
        with at.use() as calls:
            calls.reset()
            found = gradients(lambda *t: attention(*t, **options), (q, k, v), grad)
        assert calls.attune == 1
        for have, want in zip(found, wanted):
            assert torch.allclose(have, want, atol=1e-5)


def test_what_attune_refuses_pytorch_computes():
    q, k, v, grad = draw(*[(1, 2, 8, 16)] * 4)
    q, k, v, grad = (t.double() for t in (q, k, v, grad))
    wanted = gradients(lambda *t: attention(*t, is_causal=True), (q, k, v), grad)
    at.install()
    at.install()
    at.calls.reset()
    with at.use():
        found = gradients(lambda *t: attention(*t, is_causal=True), (q, k, v), grad)
    assert at.installed and (at.calls.attune, at.calls.pytorch) == (0, 1) and "dtype" in repr(at.calls)
    at.uninstall()
    at.uninstall()
    assert not at.installed
    for have, want in zip(found, wanted):
        assert torch.allclose(have, want)


def test_what_serves_cuda():
    """The kernels that stand in on CUDA, on a CPU's tensors: what they return is what the operators do."""
    from attune import torch_serving
    aten, (q, k, v) = torch.ops.aten, draw(*[(2, 4, 20, 16)] * 3)
    grads = [(f"{name}_backward", lambda grad, q, k, v, *_, **__: (q + grad, k + 1, v + 1)) for name, _, _ in
             torch_serving.OVERRIDES]
    kernels = (*torch_serving.OVERRIDES, *grads)
    handle = torch_serving.Handle([(name, function, "CPU") for name, function, *_ in kernels])
    both = hasattr(aten, "_cudnn_attention_forward")  # else cuDNN's is not overridden
    calls = (lambda q, k, v: aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True),
             lambda q, k, v: aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, True))
    wanted, lse = exact(q, k, v, lambda s: s.masked_fill(torch.ones(20, 20).triu(1) > 0, float("-inf")))
    try:
        at.calls.reset()
        shapes = (2, 4, 20), (2, 4, 20, 1) if both and torch_serving.has_column() else (2, 4, 20)
        for call, shape in zip(calls if both else calls[:1], shapes):
            found, fakes = call(q, k, v), call(*(t.to("meta") for t in (q, k, v)))
            assert close(found[0], wanted, torch.float32) and found[1].shape == shape
            assert torch.allclose(found[1].reshape(lse.shape).double(), lse, atol=1e-5)
            for have, fake in zip(found, fakes):
                if isinstance(fake, torch.Tensor) and isinstance(have, torch.Tensor):
                    assert (have.shape, have.dtype, have.stride()) == (fake.shape, fake.dtype, fake.stride())
                else:
                    assert have == fake
            again = call(q, k, v)  # CUDA graphs own the memory of their outputs: no two calls may share any
            outputs = [t for t in (*found, *again) if isinstance(t, torch.Tensor) and t.numel()]
            places = [t.untyped_storage().data_ptr() for t in outputs]
            assert len(set(places)) == len(places)
            # Inductor looks at sizes and strides of what it is given, for gradients of all that is kept.
            compiled = torch.compile(lambda *t, call=call: call(*t)[0], backend="inductor", fullgraph=True)
            assert close(compiled(q, k, v), wanted, torch.float32)
            o, *grads = gradients(compiled, (q, k, v), torch.ones_like(q))
            assert close(o, wanted, torch.float32) and torch.equal(grads[0], q + 1)
        if both:  # what a gradient needs is not made where none is wanted
            plain = torch.compile(lambda q, k, v: aten._scaled_dot_product_cudnn_attention(
                q, k, v, None, False, 0.0, True)[0], backend="inductor", fullgraph=True)
            with torch.no_grad():
                found = [aten._scaled_dot_product_cudnn_attention(q, k, v, None, False, 0.0, True) for _ in range(4)]
                assert all(close(o, wanted, torch.float32) and rest == [None, None, None, 20, 20, None, None, None]
                           for o, *rest in found)
                assert close(plain(q, k, v), wanted, torch.float32)
        assert at.calls.pytorch == 0 and at.calls.attune >= 2
    finally:
        handle.remove()


def test_threads():
    q, k, v = draw(*[(1, 2, 33, 16)] * 3)
    wanted, wrong = at.sdpa(q, k, v), []

    def work():
        wrong.extend(i for i in range(50) if not torch.equal(at.sdpa(q, k, v), wanted))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
