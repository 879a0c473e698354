"""attune.recent: what Python serves in few steps is what it says the longer way, and what it must not serve so it
leaves to that. Skipped without PyTorch, and where PyTorch has not what it takes."""
import random
import threading

import pytest

import attune
from attune import attention, fast, recent, tensors

torch = pytest.importorskip("torch")
if tensors.Torch.guards() is None or tensors.Torch.plain_empty(torch.device("cpu")) is None:
    pytest.skip("this PyTorch has no guards", allow_module_level=True)
NAMES = "is_causal", "scale", "enable_gqa", "layout"
PLAIN = (False, None, False, "bhsd")


@pytest.fixture(autouse=True)
def without_fast(monkeypatch):
    """As where there is no attune._fast, and nothing has been seen."""
    for module, name, value in ((attention, "fast_sdpa", None), (attention, "fast_with_lse", None),
                                (fast, "table", None), (fast, "opened", True),
                                (attention, "spares", type(attention.spares)())):
        monkeypatch.setattr(module, name, value)
    recent.kinds.clear()
    recent.latest.clear()


def draw(*sizes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator).to(dtype) for size in sizes]


def served(q, k, v, *options):
    """What is said in few steps; None where that is left to others."""
    return recent.serve(q, k, v, (type(q), *(options or PLAIN)))


def known(q, k, v, *options):
    for _ in range(2):
        attune.sdpa(q, k, v, **dict(zip(NAMES, options)))
    return served(q, k, v, *options)


def test_it_says_what_is_said_otherwise():
    found = 0
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
        first = attune.sdpa(q, k, v, **dict(zip(NAMES, options)))
        again = known(q, k, v, *options)
        found += again is not None
        if again is not None:
            assert torch.equal(first, again) and first.stride() == again.stride() and type(again) is torch.Tensor
            assert again.dtype is dtype and again.device == q.device and not again.requires_grad
        assert torch.equal(attune.sdpa(q, k, v, **dict(zip(NAMES, options))), first)
    assert found >= 75  # but for rows that are not aligned


def test_one_kind_is_not_another():
    q, k, v = draw((1, 2, 6, 8), (1, 2, 6, 8), (1, 2, 6, 8))
    assert known(q, k, v) is not None
    rows = q.transpose(1, 2).contiguous().transpose(1, 2)
    wide = torch.cat([v, v], -1)
    for given in ((q.half(), k.half(), v.half()), (q[:, :, :3], k, v), (q, k, wide[..., :8]), (rows, k, v),
                  (q, k, wide), (q, k[:, :, :3], v[:, :, :3])):
        assert served(*given) is None
        first = attune.sdpa(*given)
        assert torch.equal(known(*given), first) and torch.equal(attune.sdpa(*given), first)
    for options in ((True, None, False, "bhsd"), (False, 0.5, False, "bhsd"), (False, None, True, "bhsd"),
                    (False, None, False, "bshd")):
        assert served(q, k, v, *options) is None
        first = attune.sdpa(q, k, v, **dict(zip(NAMES, options)))
        assert torch.equal(known(q, k, v, *options), first)
    assert torch.equal(attune.sdpa(q, k, v), served(q, k, v))


def test_what_is_left_to_others():
    q, k, v = draw(*[(1, 2, 6, 8)] * 3)
    assert known(q, k, v) is not None
    odd, freed, moved = torch.randn(1 + q.numel())[1:].view_as(q), q.clone(), q.clone()  # odd: by four bytes
    freed.untyped_storage().resize_(0)
    kind = type("Kind", (torch.Tensor, ), {})
    closed = type("Closed", (torch.Tensor, ), {"__torch_function__": classmethod(lambda *_: {}["nothing"])})
    nested = torch.nested.nested_tensor([torch.randn(2, 6, 8)])
    others = (q.clone().requires_grad_(), torch._neg_view(q), odd, freed, q.numpy(), q.to("meta"), q.to_sparse(),
              nested, q[0].to_sparse_csr(), q.as_subclass(kind), q[0], None, "q", torch.randn(1, 2, 6, 9), k,
              torch.Tensor._make_subclass(closed, q))
    one, = recent.kinds[(k.shape, torch.Tensor, *PLAIN)]
    for tensor in others:
        assert one(tensor, k, v) is None and one(q, k, tensor) is None, type(tensor)
        assert tensor is k or one(q, tensor, v) is None
    assert torch.equal(attune.sdpa(torch.nn.Parameter(q, False), k, v), attune.sdpa(q, k, v))
    for tensor, words in ((others[0], "requires a gradient"), (nested, "nested"), (q.to_sparse(), "strided"),
                          (freed, "freed|NULL")):
        for _ in range(2):
            with pytest.raises(attune.Error, match=words):
                attune.sdpa(tensor, k, v)
    with pytest.raises(attune.Error, match="no memory of its own|requires"):
        torch.func.vmap(lambda one: attune.sdpa(one[None], k, v))(q.repeat(2, 1, 1, 1))
    for scale in ([1], q, "big"):
        with pytest.raises(attune.Error, match="scale: a number is needed"):
            attune.sdpa(q, k, v, scale=scale)
    moved.set_(torch.zeros(1, 2, 6, 8))  # other memory, in the same object
    assert torch.equal(attune.sdpa(moved, k, v), attune.sdpa(torch.zeros_like(q), k, v))
    assert torch.equal(attune.sdpa(q, q, q), attune.sdpa(q, q.clone(), q.clone()))


def test_a_gradient_is_never_lost():
    """What was learned where no gradient is computed is not said where one is."""
    q, k, v = draw(*[(1, 2, 6, 8)] * 3)
    wants = q.clone().requires_grad_()
    with torch.no_grad():
        assert known(q, k, v) is not None
        assert known(wants, k, v) is None and torch.equal(attune.sdpa(wants, k, v), attune.sdpa(q, k, v))
    with pytest.raises(attune.Error, match="requires a gradient"):
        attune.sdpa(wants, k, v)
    for _ in range(fast.AGAIN + 2):
        with torch.inference_mode():
            assert attune.sdpa(q, k, v).is_inference()
        assert not attune.sdpa(q, k, v).is_inference()


def test_what_was_let_go_is_learned_again():
    q, k, v = draw(*[(1, 2, 6, 8)] * 3)
    assert known(q, k, v) is not None
    recent.latest.clear()
    for _ in range(fast.AGAIN):
        first = attune.sdpa(q, k, v)
    assert torch.equal(served(q, k, v), first) and sum(map(len, recent.kinds.values())) == 1


def test_compiled_code_goes_on():
    q, k, v = draw(*[(1, 2, 6, 8)] * 3)
    wanted = [known(q, k, v), attune.sdpa(q, k, v)][1] + 1
    compiled = torch.compile(lambda *t: attune.sdpa(*t) + 1, backend="eager")
    assert all(torch.equal(compiled(q, k, v), wanted) for _ in range(3))


def test_more_kinds_than_are_kept(monkeypatch):
    monkeypatch.setattr(recent, "SPARE_CALLS", 8)
    before = {}
    for turn in range(3):
        for length in range(1, 60):
            q, k, v = draw((1, 1, length % 7 + 1, 8), (1, 1, length // 4 + 1, 8), (1, 1, length // 4 + 1, 8))
            found = attune.sdpa(q, k, v)
            assert torch.equal(before.setdefault((length % 7, length // 4), found), found)
            assert len(recent.kinds) <= 8 and all(len(kinds) <= recent.FEW for kinds in recent.kinds.values())


def test_threads():
    tensors_ = [draw(*[(1, 2, n, 16)] * 3) for n in (5, 33, 64)]
    wanted, wrong = [attune.sdpa(*each) for each in tensors_], []

    def work():
        wrong.extend(i for i in range(200) for each, want in zip(tensors_, wanted)
                     if not torch.equal(attune.sdpa(*each), want))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_call_that_fails_says_so_again():
    """The library's own refusals pass, and calls of the kind go on."""
    q, k, v = draw(*[(1, 2, 6, 8)] * 3)
    first = attune.sdpa(q, k, v)
    assert known(q, k, v) is not None
    bound = next(kept for kept in attention.spares.values() if kept)[0]
    own, bound.call.batch = bound.call.batch, 99
    with pytest.raises(attune.Error, match="batch is 99"):
        attune.sdpa(q, k, v)
    bound.call.batch = own
    assert all(torch.equal(attune.sdpa(q, k, v), first) for _ in range(3))


@pytest.mark.parametrize("form", range(4))
def test_what_stands_in_for_pytorchs_operators(form):
    from attune import torch_serving
    q, k, v = draw((2, 4, 9, 8), (2, 2, 11, 8), (2, 2, 11, 8), dtype=torch.bfloat16)
    given = (q, k.requires_grad_(form == 1), v, False, 0.5, False, form)
    first = attention.with_lse(*given, torch_serving.rest)
    for _ in range(2):
        attention.with_lse(*given, torch_serving.rest)
    found = served(q, k, v, *given[3:])
    assert found is not None and torch.equal(found[0], first[0]) and not found[0].requires_grad
    if form == attention.ALONE:
        assert found[1] is None
    else:
        lse = first[1].reshape(2, 4, 9)
        assert torch.equal(found[1], lse) and found[1].stride() == lse.stride()
    again = attention.with_lse(*given, torch_serving.rest)
    assert [getattr(one, "shape", one) for one in again] == [getattr(one, "shape", one) for one in first]
