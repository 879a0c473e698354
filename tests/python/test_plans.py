"""Plans on arrays: what they compute, and what becomes of them across threads, forks and the interpreter's end."""
import copy
import gc
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import attune
import reference
from attune import attention, library, packed, plans


def draw(*sizes, seed=1):
    random = np.random.default_rng(seed)
    return [random.standard_normal(size).astype("f4") for size in sizes]


def close_to(o, q, k, v, **case):
    exact = reference.attention(q, k, v, case)[0]
    return np.abs(o - exact).max(initial=0) <= 2e-5


def run_python(code, **environment):
    ended = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": ":".join(sys.path), **environment})
    assert ended.returncode == 0, ended
    return ended.stdout


# ---- What is computed ----


def test_one_plan_serves_smaller_calls():
    plan = attune.plan("b2,h4,hkv2,s64,d16,fp32,causal", "cpu")
    assert plan.origin in ("proven", "heuristic") and plan.kernel and plan.workspace() >= 0
    for batch, heads, rows, keys in [(2, 4, 64, 64), (1, 2, 1, 64), (2, 4, 7, 9), (1, 4, 64, 3), (2, 4, 0, 5)]:
        q, k, v = draw((batch, heads, rows, 16), (batch, heads // 2, keys, 16), (batch, heads // 2, keys, 16))
        o, lse = plan.run(Q=q, K=k, V=v, LSE=True)
        assert close_to(o, q, k, v, causal=True) and lse.shape == (batch, heads, rows)
        given = np.full((batch, heads, rows, 20), 7, "f4")
        assert plan.run(q=q, k=k, v=v, o=given[..., :16]) is not None
        assert (given[..., :16] == o).all() and (given[..., 16:] == 7).all()


def test_packed_sequences():
    plan = attune.plan("b3,h2,s20,d8,fp32,varlen", "cpu")
    cu = np.array([0, 5, 5, 17], "i4")
    q, k, v = draw((17, 2, 8), (17, 2, 8), (17, 2, 8))
    o, lse = plan.run(Q=q, K=k, V=v, CU_Q=cu, CU_KV=cu, LSE=True)
    assert lse.shape == (2, 17)
    for begin, end in ((0, 5), (5, 17)):
        alone = [x[begin:end].transpose(1, 0, 2)[None] for x in (q, k, v)]
        assert close_to(o[begin:end].transpose(1, 0, 2)[None], *alone)
    with pytest.raises(attune.Error, match="CU_KV"):
        plan.run(Q=q, K=k, V=v, CU_Q=cu, CU_KV=cu[::-1].copy())


def test_outputs_keep_the_order_of_q():
    q, k, v = draw((2, 3, 9, 8), (2, 3, 9, 8), (2, 3, 9, 8))
    assert attune.sdpa(q, k, v).flags.c_contiguous
    o = attune.sdpa(*[x.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3) for x in (q, k, v)])
    assert o.transpose(0, 2, 1, 3).flags.c_contiguous and close_to(o, q, k, v)
    out = np.empty_like(q)
    assert attune.sdpa(q, k, v, out=out) is out and close_to(out, q, k, v)


def test_a_kept_call_sees_only_its_own_arrays():
    """The second call of a shape takes the short way: data, alignment and arguments are still its own."""
    for seed in range(4):
        q, k, v = draw((1, 2, 30, 16), (1, 2, 30, 16), (1, 2, 30, 16), seed=seed)
        memory = np.empty(q.nbytes + 16, "u1")[4:4 + q.nbytes].view("f4").reshape(q.shape)
        memory[...] = q
        assert close_to(attune.sdpa(q, k, v), q, k, v)
        assert close_to(attune.sdpa(memory, k, v), q, k, v)
        seen, bias = draw((30, 30), seed=seed)[0] < 0.5, draw((1, 2, 30, 30), seed=seed)[0]
        for mask in (seen, bias, ~seen, seen.T, bias[:, :, ::-1]):
            assert close_to(attune.sdpa(q, k, v, attn_mask=mask), q, k, v, attn_mask=mask)
            out = np.empty_like(q)
            o, lse = attune.sdpa(memory, k, v, attn_mask=mask, out=out, return_lse=True)
            assert o is out and close_to(o, q, k, v, attn_mask=mask)
            assert np.abs(lse - reference.attention(q, k, v, {"attn_mask": mask})[1]).max() < 2e-5
        assert close_to(attune.sdpa(q, k, v, is_causal=True), q, k, v, is_causal=True)
        assert close_to(attune.sdpa(q, k, v, scale=0.5), q, k, v, scale=0.5)
        for name, values in (("causal", (True, False)), ("window", ((3, 0), (0, 3))), ("softcap", (2.0, 9.0)),
                             ("sink", draw(2, 2)), ("alibi", draw(2, 2))):
            for value in values:
                assert close_to(attune.sdpa(q, k, v, **{name: value}), q, k, v, **{name: value}), name


def test_tf32_is_a_term_of_its_own(monkeypatch):
    """Calls that differ in it alone share no plan; kernels of a CPU compute the same bits."""
    monkeypatch.setattr(plans, "families", {})
    monkeypatch.setattr(packed, "plans", {})
    monkeypatch.setattr(attention, "spares", plans.Spares())
    q, k, v = draw((1, 4, 33, 16), (1, 2, 40, 16), (1, 2, 40, 16))
    cu_q, cu_k = np.array([0, 33], "i4"), np.array([0, 40], "i4")
    rows = [x[0].transpose(1, 0, 2) for x in (q, k, v)]
    exact = attune.sdpa(q, k, v, enable_gqa=True), attune.varlen(*rows, cu_q, cu_k, 33, 40)
    for tf32 in (True, False, True):
        assert (attune.sdpa(q, k, v, enable_gqa=True, tf32=tf32) == exact[0]).all()
        assert (attune.varlen(*rows, cu_q, cu_k, 33, 40, tf32=tf32) == exact[1]).all()
    made = [plan.text for kept in plans.families.values() for plan in kept.values()]
    assert sorted("tf32" in text for text in made) == [False, True]
    assert ["tf32" in plan.text for plan in packed.plans.values()] == [False, True]
    bound = {call.plan for kept in attention.spares.values() for call in kept}
    assert len(bound) == 2
    plan = attune.plan("b1,h4,hkv2,sq33,skv40,d16,fp32,tf32", "cpu")
    assert plan.text.endswith(",tf32") and (plan.run(Q=q, K=k, V=v) == exact[0]).all()


def test_bound_calls_follow_their_arrays():
    plan = attune.plan("b1,h2,s32,d8,fp32", "cpu")
    q, k, v, o = draw(*[(1, 2, 32, 8)] * 4)
    call = plan.bind({"Q": q, "K": k, "V": v, "O": o})
    call.run()
    assert close_to(o, q, k, v)
    q[...] = -q
    call.run()
    assert close_to(o, q, k, v)
    call.arrays["O"].resize((1, 2, 16, 8), refcheck=False)
    with pytest.raises(attune.Error, match="another shape"):
        call.run()


class Wrapped:
    """An array of a framework that attune does not know: DLPack is all that it has."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def test_any_framework_with_dlpack():
    q, k, v = draw((1, 2, 9, 8), (1, 2, 9, 8), (1, 2, 9, 8))
    module = sys.modules[Wrapped.__module__.partition(".")[0]]
    with pytest.raises(attune.Error, match="has no empty_like"):
        attune.sdpa(Wrapped(q), Wrapped(k), Wrapped(v))
    module.empty_like = lambda like: Wrapped(np.empty_like(like.array))
    try:
        for _ in range(2):
            o = attune.sdpa(Wrapped(q), Wrapped(k), Wrapped(v))
            assert type(o) is Wrapped and close_to(o.array, q, k, v)
    finally:
        del module.empty_like
    out = np.empty_like(q)
    attune.sdpa(Wrapped(q), Wrapped(k), Wrapped(v), out=Wrapped(out))
    assert close_to(out, q, k, v)


# ---- How they live ----


def test_closed_plans_and_contexts_say_so():
    context = attune.Context("cpu", threads=1)
    plan, q = context.plan("b1,h1,s8,d8,fp32"), draw((1, 1, 8, 8))[0]
    call = plan.bind({"Q": q, "K": q, "V": q, "O": q.copy()})
    context.close()
    with pytest.raises(attune.Error, match="this context is closed"):
        context.plan("b1,h1,s8,d8,fp32")
    assert close_to(plan.run(Q=q, K=q, V=q), q, q, q)
    plan.close()
    for use in (lambda: plan.run(Q=q, K=q, V=q), plan.workspace, call.run):
        with pytest.raises(attune.Error, match="this plan is closed"):
            use()
    plan.close()


def test_arrays_that_are_let_go_live_while_they_are_used():
    plan = attune.plan("b1,h1,s64,d8,fp32", "cpu")
    o = np.empty((1, 1, 64, 8), "f4")
    call = plan.bind({"Q": np.ones((1, 1, 64, 8), "f4"), "K": np.ones((1, 1, 64, 8), "f4"),
                      "V": np.full((1, 1, 64, 8), 3, "f4"), "O": o})
    gc.collect()
    rest = [np.full((1, 1, 64, 8), 9, "f4") for _ in range(100)]
    call.run()
    assert (o == 3).all() and rest


def test_threads_share_plans_and_kept_calls():
    plan, wrong, stop = attune.plan("b1,h2,s64,d16,fp32", "cpu"), [], time.monotonic() + 1

    def work(seed):
        q, k, v = draw(*[(1, 2, 40, 16)] * 3, seed=seed)
        exact = attune.sdpa(q, k, v)
        if not close_to(exact, q, k, v):
            wrong.append(seed)
        while time.monotonic() < stop:
            if not (attune.sdpa(q, k, v) == exact).all() or not close_to(plan.run(Q=q, K=k, V=v), q, k, v):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_closing_while_others_run():
    q = draw((1, 2, 64, 16))[0]
    for _ in range(20):
        plan = attune.plan("b1,h2,s64,d16,fp32", "cpu")
        seen = []

        def work():
            try:
                while True:
                    plan.run(Q=q, K=q, V=q)
            except attune.Error as error:
                seen.append(error.sentence)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        plan.close()
        for thread in threads:
            thread.join()
        assert seen == ["this plan is closed"] * 3


def test_kept_calls_are_bounded():
    for rows in range(1, plans.SPARE_CALLS + 40):
        q = np.ones((1, 1, rows, 8), "f4")
        attune.sdpa(q, q, q)
    assert len(attention.spares) <= plans.SPARE_CALLS


def test_a_forked_child_computes():
    assert run_python("""
import os, sys, threading, numpy as np, attune
q = np.ones((1, 2, 64, 16), "f4")
attune.sdpa(q, q, q)
threading.Thread(target=lambda: [attune.sdpa(q, q, q) for _ in range(20000)], daemon=True).start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        ok = (attune.sdpa(q, q, q) == 1).all() and (attune.plan("b1,h1,s8,d8,fp32", "cpu") is not None)
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
print("done")
""") == "done\n"


def test_the_interpreters_end_is_quiet():
    """Daemon threads at work, and objects that only module globals and cycles hold."""
    assert run_python("""
import threading, numpy as np, attune
q = np.ones((1, 2, 256, 64), "f4")
plan = attune.plan("b1,h2,s256,d64,fp32", "cpu")
class Cycle: pass
cycle = Cycle(); cycle.me, cycle.call = cycle, plan.bind({"Q": q, "K": q, "V": q, "O": q.copy()})
class Late:
    def __del__(self, sdpa=attune.sdpa, error=attune.Error):
        try:
            sdpa(q, q, q)
        except Exception:
            pass
late = Late()
def work():
    while True:
        attune.sdpa(q, q, q); plan.run(Q=q, K=q, V=q)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
attune.sdpa(q, q, q)
print("done")
""") == "done\n"


def test_import_is_light():
    """Neither NumPy nor PyTorch, nor the library, is loaded before it is needed."""
    assert run_python("""
import sys, attune
print([name for name in ("numpy", "torch", "jax", "ml_dtypes") if name in sys.modules], attune.library.loaded)
""") == "[] None\n"


# ---- Caches ----


def test_a_paged_cache_is_filled_and_read():
    """Rows go into pages by slots; decoding reads them by a page table; two halves merge into the whole."""
    batch, heads, dim, page, lengths = 2, 2, 16, 16, np.array([23, 40], "i4")
    random = np.random.default_rng(5)
    pools = [np.full((8, heads, page, dim), np.nan, "f4") for _ in range(2)]
    table = np.array([[3, 1, 0], [6, 2, 5]], "i4")
    slots = np.concatenate([[table[b][j // page] * page + j % page for j in range(lengths[b])] for b in range(batch)])
    new = [random.standard_normal((63, heads, dim), np.float32) for _ in range(2)]
    append = attune.plan(f"append:b{batch},h{heads},sq40,skv48,d{dim},fp32,page={page},slots", "cpu")
    assert append.run(K=pools[0], V=pools[1], NEW_K=new[0], NEW_V=new[1], SLOTS=slots.astype("i4"))[0] is pools[0]
    q = random.standard_normal((batch, 4, 1, dim), np.float32)
    decode = attune.plan(f"b{batch},h4,hkv{heads},sq1,skv48,d{dim},fp32,seqused,page={page}", "cpu")
    o = decode.run(Q=q, K=pools[0], V=pools[1], PAGE_TABLE_K=table, USED_KV=lengths)
    begin, alone = 0, []
    for b in range(batch):
        k, v = (rows[begin:begin + lengths[b]].transpose(1, 0, 2)[None] for rows in new)
        begin += lengths[b]
        alone.append((q[b:b + 1], k, v))
        assert close_to(o[b:b + 1], *alone[b])
    with pytest.raises(attune.Error, match=r"V: its shape is \(7, 2, 16, 16\): \(8, 2, 16, 16\) is needed"):
        decode.run(Q=q, K=pools[0], V=pools[1][:7], PAGE_TABLE_K=table, USED_KV=lengths)
    with pytest.raises(attune.Error, match="NEW_V: its shape is"):
        append.run(K=pools[0], V=pools[1], NEW_K=new[0], NEW_V=new[1][:5], SLOTS=slots.astype("i4"))
    q, k, v = alone[1]
    halves = [attune.sdpa(q, k[:, :, part], v[:, :, part], enable_gqa=True, return_lse=True) for part in
              (slice(0, 11), slice(11, None))]
    states, lses = (np.stack([half[i] for half in halves]) for i in range(2))
    merge, whole = attune.plan(f"merge:b1,h4,sq1,d{dim},fp32,states=4", "cpu"), np.empty_like(q)
    merge.run(STATE_O=states, STATE_LSE=lses, O=whole)
    assert close_to(whole, q, k, v)


def test_plans_of_lengths_that_are_ever_new(monkeypatch):
    """As with a cache that grows: few plans, the same answers, whether a plan is for this length or for more."""
    import numpy as np
    monkeypatch.setattr(plans, "families", {})
    monkeypatch.setattr(attention, "spares", plans.Spares())
    assert all(n <= plans.rounded(n) <= max(n * 9 // 8, 1) for n in range(5000)) and plans.rounded(512) == 512
    random = np.random.default_rng(0)
    k, v = random.standard_normal((2, 2, 2, 300, 16)).astype(np.float32)
    for rows, options in ((1, {}), (5, {"causal": True, "window": (9, 0)}), (3, {"is_causal": True})):
        q = random.standard_normal((2, 4, rows, 16)).astype(np.float32)
        for length in range(200, 300):
            found = attune.sdpa(q, k[:, :, :length], v[:, :, :length], enable_gqa=True, **options)
            plan = attune.plan(f"b2,h4,hkv2,sq{rows},skv{length},d16,fp32" +
                               {1: "", 3: ",causal,offset=tl", 5: ",causal,window=9:0"}[rows], "cpu")
            assert np.allclose(found, plan.run(Q=q, K=k[:, :, :length], V=v[:, :, :length]), rtol=0, atol=1e-6)
    made = [len(kept) for kept in plans.families.values()]
    assert len(made) == 3 and max(made) < 16
    for length in range(200, 210):
        attune.sdpa(q, k[:, :, :length], v[:, :, :length], enable_gqa=True, deterministic=True)
    assert len(list(plans.families.values())[-1]) == 10  # equal bits are promised: each has its own


def test_kernels_that_the_package_brings_compiled(tmp_path):
    """What lies beside the library is read where a device is opened and no other pack is named."""
    driver = os.path.join(os.path.dirname(os.path.realpath(library.default().path)), "../tests/libfake_driver.so")
    if not os.path.exists(driver):
        pytest.skip("there is no driver of the tests")
    name = str(tmp_path / library.NAME)
    shutil.copy(library.default().path, name)
    (tmp_path / library.PACK).write_bytes(b"attunepk")
    (tmp_path / "other.pack").write_bytes(b"attunepk")
    code = ("import attune\nattune.Context('cpu').plan('b1,h1,s8,d8,fp32')\n"
            "try:\n    attune.Context('cuda', pack={!r})\nexcept attune.Error as error:\n"
            "    print(error.status.name, error)")
    own = {"ATTUNE_LIBRARY": name, "ATTUNE_LIBCUDA": driver}
    assert run_python(code.format(None), **own).startswith("CORRUPT")
    assert library.PACK in run_python(code.format(None), **own)
    assert run_python(code.format("/no/such/pack"), **own).startswith("NOT_FOUND")
    assert "other.pack" in run_python(code.format(None), **own, ATTUNE_PACK=str(tmp_path / "other.pack"))
    assert run_python(code.format(None), **own, ATTUNE_PACK="") == ""
    (tmp_path / library.PACK).unlink()
    assert run_python(code.format(None), **own) == ""


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_plans_are_not_copied(copied):
    with pytest.raises(attune.Error, match=r"attune.plan\('b1,h1,s8,d16,fp32'\) makes it again"):
        copied({"plan": attune.plan("b1,h1,s8,d16,fp32", "cpu")} if copied is not copy.copy else
               attune.plan("b1,h1,s8,d16,fp32", "cpu"))


def test_the_second_call_of_a_process_is_kept():
    """The first one, too, is of a kind that is known from then on."""
    code = ("import numpy, attune; from attune import attention; q = numpy.ones((1, 2, 8, 16), 'f4')\n"
            "attune.sdpa(q, q, q); attention.Asked = None; assert (attune.sdpa(q, q, q) == 1).all()")
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"], text=True,
                          capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
