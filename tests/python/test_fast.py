"""attune._fast: what it serves is what Python serves, and what it must not serve it leaves to Python. Skipped without
it, without PyTorch, and where PyTorch has no table of DLPack's."""
import os
import random
import subprocess
import sys
import threading

import pytest

import attune
from attune import attention, fast, tensors

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("this PyTorch has no table of DLPack's", allow_module_level=True)
if os.environ.get("ATTUNE_FAST") == "0" or fast.find() is None:
    pytest.skip("there is no attune._fast", allow_module_level=True)


def draw(*sizes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator).to(dtype) for size in sizes]


def known(q, k, v, *options):
    """That C knows calls like this one."""
    for _ in range(3):
        attune.sdpa(q, k, v, **dict(zip(("is_causal", "scale", "enable_gqa", "layout"), options)))
    return fast.table.sdpa(q, k, v, *(options or (False, None, False, "bhsd")))


def test_it_says_what_python_says():
    served = 0
    for seed in range(80):
        pick = random.Random(seed)
        batch, group, heads, sq, sk = (pick.randint(1, n) for n in (3, 3, 3, 40, 60))
        dim, dtype = pick.choice([8, 16, 24, 64]), pick.choice([torch.float32, torch.float16, torch.bfloat16])
        q, k, v = draw((batch, heads * group, sq, dim), (batch, heads, sk, dim), (batch, heads, sk, dim + 8),
                       dtype=dtype, seed=seed)
        layout = pick.choice(["bhsd", "bshd"])
        if pick.random() < 0.5:
            q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
        if layout == "bshd":
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        options = (pick.random() < 0.5, pick.choice([None, 0.3]), True, layout)
        terms = dict(zip(("is_causal", "scale", "enable_gqa", "layout"), options))
        first, found = attune.sdpa(q, k, v, **terms), known(q, k, v, *options)
        served += found is not None
        if found is not None:
            assert torch.equal(first, found) and first.stride() == found.stride() and type(found) is torch.Tensor
            assert found.dtype is dtype and found.device == q.device and not found.requires_grad
        assert torch.equal(attune.sdpa(q, k, v, **terms), first)
    assert served >= 75  # but for rows that are not aligned


def test_one_kind_is_not_another():
    """What was learned of one call is not said of others, whose shapes, strides or options differ."""
    q, k, v = draw((1, 2, 6, 8), (1, 2, 6, 8), (1, 2, 6, 8))
    assert known(q, k, v) is not None
    others = [((q.half(), k.half(), v.half()), ()), ((q[:, :1], k[:, :1], v[:, :1]), ()),
              ((q, k, v.mT[..., :6].mT), ()), ((q, k, v), (True, None, False, "bhsd")),
              ((q, k, v), (False, 0.5, False, "bhsd")),
              ((q, k, v), (False, None, False, "bshd")), ((q.transpose(1, 2).contiguous().transpose(1, 2), k, v), ())]
    for tensors, options in others:
        terms = dict(zip(("is_causal", "scale", "enable_gqa", "layout"), options))
        before = attune.sdpa(*tensors, **terms)
        for _ in range(3):
            assert torch.equal(attune.sdpa(*tensors, **terms), before)


def test_what_is_left_to_python():
    q, k, v = draw(*[(1, 2, 6, 8)] * 3)
    plain = (False, None, False, "bhsd")
    assert known(q, k, v) is not None
    odd = torch.randn(1 + q.numel())[1:].view_as(q)  # by four bytes
    freed = q.clone()
    freed.untyped_storage().resize_(0)
    kind = type("Kind", (torch.Tensor, ), {})
    for tensor in (q.clone().requires_grad_(), torch._neg_view(q), odd, freed, q.numpy(), q.to("meta"), q.to_sparse(),
                   q.as_subclass(kind), q[0], None, torch.randn(1, 2, 6, 9)):
        assert fast.table.sdpa(tensor, k, v, *plain) is None
        assert fast.table.sdpa(q, k, tensor, *plain) is None
    for options in ((1, None, False, "bhsd"), (False, 1, False, "bhsd"), (False, "1", False, "bhsd"),
                    (False, None, None, "bhsd"), (False, None, False, "sbhd"), (False, None, False, None)):
        assert fast.table.sdpa(q, k, v, *options) is None
    for given in ((q, k, v), (q, k, v, False, None), (q, k, v, *plain, None)):
        with pytest.raises(TypeError):
            fast.table.sdpa(*given)
    with pytest.raises(TypeError):
        fast.table.with_lse(q, k, v, {})
    assert torch.allclose(attune.sdpa(odd, k, v), attune.sdpa(odd.clone(), k, v), atol=1e-6)
    with pytest.raises(attune.Error, match="requires a gradient"):
        attune.sdpa(q.clone().requires_grad_(), k, v)
    with pytest.raises(attune.Error, match="no memory of its own|requires"):
        torch.func.vmap(lambda one: attune.sdpa(one[None], k, v))(q.repeat(2, 1, 1, 1))
    assert torch.equal(attune.sdpa(torch.nn.Parameter(q, False), k, v), attune.sdpa(q, k, v))


def test_tables_are_checked():
    module, q = fast.find(), torch.randn(1, 2, 6, 8)
    with pytest.raises(ValueError):
        module.Table(torch.Tensor, torch.Tensor, torch.nn.Parameter, torch.Tensor.is_neg, 0, print)
    given = (q, q, q, False, None, False, "bhsd")
    for short, call in ((given[:6], b""), (given, b"x")):
        with pytest.raises(ValueError):
            fast.table.learn(short, (q, ), 0, call, 16, 0, (None, ) * 2, None)
    with pytest.raises(TypeError):
        fast.table.learn(given)


def test_more_kinds_than_it_keeps():
    before = {}
    for turn in range(3):
        for length in range(1, 700):
            q, k, v = draw((1, 1, 1, 8), (1, 1, length, 8), (1, 1, length, 8))
            found = attune.sdpa(q, k, v)
            assert torch.equal(before.setdefault(length, found), found)


def of_its_own(monkeypatch, plain):
    """A table that makes tensors by a function (shape, strides, dtype), None: by Python's code alone; in the place of
    fast.table."""
    monkeypatch.setattr(tensors.Torch, "plain_empty", staticmethod(lambda device: plain))
    own = fast.open_table()
    monkeypatch.setattr(fast, "table", own)
    monkeypatch.setattr(attention, "fast_sdpa", own.sdpa)
    monkeypatch.setattr(attention, "fast_with_lse", own.with_lse)
    return own


def elsewhere(shape, strides, dtype):
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


@pytest.mark.parametrize("plain", [None, elsewhere])
def test_outputs_by_either_way(monkeypatch, plain):
    """A tensor that the function of PyTorch's compiler makes, and one that Python makes, as where the current device is
    another, are the same but for their values."""
    q, k, v = draw(*[(2, 3, 5, 8)] * 3)
    first, bound_calls = known(q, k, v), len(attention.spares)
    own = of_its_own(monkeypatch, plain)
    for _ in range(fast.AGAIN + 2):
        found = attune.sdpa(q, k, v)
    for _ in range(70):
        assert torch.equal(first, own.sdpa(q, k, v, False, None, False, "bhsd"))
    assert bound_calls == len(attention.spares)
    assert torch.equal(first, found) and first.stride() == found.stride() and found.device == q.device


def test_outputs_of_inference_mode():
    q, k, v = draw(*[(2, 3, 5, 8)] * 3)
    assert known(q, k, v) is not None
    with torch.inference_mode():
        assert attune.sdpa(q, k, v).is_inference()
    assert not attune.sdpa(q, k, v).is_inference()


def test_what_cannot_be_made(monkeypatch):
    """What making an output raises is raised, and the kind is served after that as before."""
    q, k, v = draw(*[(2, 3, 5, 8)] * 3)
    want, empty, full = attune.sdpa(q, k, v), tensors.Torch.plain_empty(q.device), [False]

    def plain(*given):
        if full[0]:
            raise MemoryError("full")
        return empty(*given)

    own = of_its_own(monkeypatch, plain)
    for _ in range(fast.AGAIN + 2):
        attune.sdpa(q, k, v)
    for turn in range(3):
        full[0] = True
        with pytest.raises(MemoryError, match="full"):
            own.sdpa(q, k, v, False, None, False, "bhsd")
        full[0] = False
        assert torch.equal(own.sdpa(q, k, v, False, None, False, "bhsd"), want)


def test_a_call_within_a_call(monkeypatch):
    """Making an output may run anything, another call of the same kind among it."""
    q, k, v = draw(*[(2, 3, 5, 8)] * 3)
    others = draw(*[(2, 3, 5, 8)] * 3, seed=1)
    want, within = attune.sdpa(q, k, v), attune.sdpa(*others)
    empty, depth, found = tensors.Torch.plain_empty(q.device), [3], []

    def plain(*given):
        if depth[0] < 3:
            depth[0] += 1
            found.append(own.sdpa(*others, False, None, False, "bhsd"))
        return empty(*given)

    own = of_its_own(monkeypatch, plain)
    for _ in range(fast.AGAIN + 2):
        attune.sdpa(q, k, v)
    depth[0] = 0
    assert torch.equal(own.sdpa(q, k, v, False, None, False, "bhsd"), want)
    assert len(found) == 3 and all(torch.equal(one, within) for one in found)


def test_kinds_are_kept_apart():
    """Kinds that differ in one length hardly drive each other out."""
    tensors_of = {length: draw((1, 1, 1, 8), (1, 1, length, 8), (1, 1, length, 8)) for length in range(1000, 1128)}
    for each in tensors_of.values():
        known(*each)
    kept = sum(fast.table.sdpa(*each, False, None, False, "bhsd") is not None for each in tensors_of.values())
    assert kept >= 110


def test_threads():
    shapes = [[(1, 2, n, 16)] * 3 for n in (5, 33, 64)]
    given = [draw(*sizes) for sizes in shapes]
    wanted, wrong = [attune.sdpa(*each) for each in given], []

    def work():
        wrong.extend(i for i in range(200) for each, want in zip(given, wanted)
                     if not torch.equal(attune.sdpa(*each), want))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_it_can_be_left_out():
    code = ("import torch, attune; from attune import fast; q = torch.ones(1, 1, 2, 8)\n"
            "for _ in range(3): o = attune.sdpa(q, q, q)\n"
            "print(fast.table, bool((o == 1).all()))")
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"], text=True,
                          capture_output=True, timeout=120, env={**os.environ, "ATTUNE_FAST": "0"})
    assert done.stdout.split() == ["None", "True"], done.stderr


def test_what_is_asked_of_tensors():
    """By PyTorch's functions in C, and by Python where these are not to be had."""
    one = torch.ones(3)
    plain, others = (one, torch.nn.Parameter(one, False)), (torch._neg_view(one), one.clone().requires_grad_())
    assert attune.sdpa(*draw(*[(1, 1, 2, 8)] * 3)) is not None and known(*draw(*[(1, 1, 2, 8)] * 3)) is not None
    own = fast.open_table()
    for _ in range(2):
        assert all(own.is_plain(tensor) for tensor in plain) and not any(own.is_plain(tensor) for tensor in others)
        assert own.read_by(0, 0, one, 0, 0) is False


@pytest.mark.parametrize("within", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_tensors_are_asked_in_c(monkeypatch, within):
    """Where PyTorch has the functions, whatever the first call is made in."""
    asked = []
    monkeypatch.setattr(torch.Tensor, "is_neg", lambda tensor: asked.append(tensor))
    with within():
        own, one = fast.open_table(), torch.ones(3)
    assert own.is_plain(one) and not asked
    own.read_by(0, 0, one, 0, 0)
    own.is_plain(one)
    assert asked


def test_arguments_by_name():
    """As attune.sdpa hands them on."""
    q, k, v = draw(*[(1, 2, 6, 8)] * 3)
    plain, causal = known(q, k, v), known(q, k, v, True, 0.5, True, "bshd")
    assert plain is not None and causal is not None
    serve = fast.table.sdpa
    asked = {"layout": "bshd", "is_causal": True, "attn_mask": None, "scale": 0.5, "enable_gqa": True}
    assert torch.equal(serve(q, k, v, {}), plain) and torch.equal(serve(q, k, v, asked), causal)
    assert torch.equal(attune.sdpa(q, k, v, **asked), causal) and torch.equal(attune.sdpa(q=q, k=k, v=v), plain)
    for name, value in (("attn_mask", q), ("is_causal", 1), ("scale", "1"), ("enable_gqa", None), ("layout", "sbhd"),
                        ("layout", None), ("causal", False), ("softcap", None), ("tf32", True), ("is_causa", True)):
        assert serve(q, k, v, {**asked, name: value}) is None
    assert serve(q, k, v, None) is None and serve(q, k, v, (False, )) is None


@pytest.mark.parametrize("form", range(4))
def test_what_stands_in_for_pytorchs_operators(form):
    from attune import torch_serving
    q, k, v = draw((2, 4, 9, 8), (2, 2, 11, 8), (2, 2, 11, 8), dtype=torch.bfloat16)
    given = (q, k.requires_grad_(form == 1), v, False, 0.5, False, form)
    want = attune.sdpa(q, k.detach(), v, scale=0.5, enable_gqa=True, return_lse=True)
    python = attention.Asked(q, k.detach(), v, None, False, 0.5, True, "bhsd", {"return_lse": True}).run(None)
    python = attention.in_form(q, k, python[0], None if form == attention.ALONE else python[1], form,
                               torch_serving.rest)
    for _ in range(3):
        attention.with_lse(*given, torch_serving.rest)
    found = fast.table.with_lse(*given)
    assert torch.equal(found[0], want[0]) and len(found) == len(python)
    for have, wanted in zip(found, python):
        if isinstance(wanted, torch.Tensor):
            assert (have.shape, have.dtype, have.stride()) == (wanted.shape, wanted.dtype, wanted.stride())
        else:
            assert have == wanted
    if form != attention.ALONE:
        assert torch.equal(found[1].reshape(want[1].shape), want[1])
    assert fast.table.with_lse(*given[:6], 4) is None and fast.table.with_lse(*given[:6], -1) is None
    assert fast.table.with_lse(*given[:6], 2**70) is None
