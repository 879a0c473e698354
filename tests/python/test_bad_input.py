"""Each bad argument is refused with a sentence that names it, its value and the limit; nothing is written."""
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import attune
from attune import attention


def arrays(*shape, dtype=np.float32):
    shape = shape or (1, 2, 8, 16)
    return [np.ones(shape, dtype) for _ in range(3)]


Q, K, V = arrays()
HALVES, BRAINS = arrays(dtype=np.float16), arrays(dtype=ml_dtypes.bfloat16)
FROZEN = np.empty_like(Q)
FROZEN.flags.writeable = False


class Elsewhere:
    """An array of DLPack's on a device that attune has nothing for."""

    def __dlpack_device__(self):
        return 8, 0  # Metal

    def __dlpack__(self, **_):
        raise BufferError("not for you")


BAD_CALLS = [
    (lambda: attune.sdpa([1.0], K, V), "q: it is of type list"),
    (lambda: attune.sdpa(Q, None, V), "k: it is of type NoneType"),
    (lambda: attune.sdpa(Q, K, Elsewhere()), "v: it is of type Elsewhere, and q of ndarray"),
    (lambda: attune.sdpa(Elsewhere(), K, V), "k: it is of type ndarray, and q of Elsewhere"),
    (lambda: attune.sdpa(*[Elsewhere()] * 3), "q: its __dlpack__ gives no tensor: BufferError: not for you"),
    (lambda: attune.sdpa(Q[0], K, V), r"q: its shape is \(2, 8, 16\): 4 dimensions are needed, \[b, h, s, d\]"),
    (lambda: attune.sdpa(Q, K, V[..., None]), r"v: its shape is \(1, 2, 8, 16, 1\): 4 dimensions"),
    (lambda: attune.sdpa(Q.astype(np.float64), K, V), "q: its dtype is float64: float32, float16 or bfloat16 is"),
    (lambda: attune.sdpa(Q, K.astype(np.complex64), V), "k: its dtype is complex64"),
    (lambda: attune.sdpa(Q, K, V.astype(">f4")), "v: its dtype is >f4, of the other byte order"),
    (lambda: attune.sdpa(Q, K, V.astype(np.int32)), "v: its dtype is int32: float32, float16 or bfloat16 is needed"),
    (lambda: attune.sdpa(Q.astype(np.int32), K, V), "q: its dtype is int32: float32"),
    (lambda: attune.sdpa(Q, K > 0, V), "k: its dtype is bool: float32"),
    (lambda: attune.sdpa(Q, K, V, out=np.empty(Q.shape, np.int32)), "out: its dtype is int32: float32"),
    (lambda: attune.varlen(*[a[0] for a in (Q, K)], V[0].astype(np.int32), *[np.array([0, 2], "i4")] * 2, 2, 2),
     "v: its dtype is int32: float32"),
    (lambda: attune.sdpa(np.ma.masked_array(Q), K, V), "it is of type|q: it is a masked array"),
    (lambda: attune.sdpa(Q, K[..., :15], V), "k: its dim is 15, and q's 16"),
    (lambda: attune.sdpa(Q, K[:, :, :7], V), "v: its seqlen is 8, and k's 7"),
    (lambda: attune.sdpa(Q, K, V[:, :1]), "v: its heads is 1, and k's 2"),
    (lambda: attune.sdpa(Q, np.concatenate([K, K]), V), "k: its batch is 2, and q's 1"),
    (lambda: attune.sdpa(Q, K[:, :1], V[:, :1]), "enable_gqa: q has 2 heads and k 1"),
    (lambda: attune.sdpa(np.ones((1, 3, 8, 16), "f4"), K, V, enable_gqa=True), "k: its heads are 2: a divisor of"),
    (lambda: attune.sdpa(*arrays(1, 1, 4, 300)), "head_dim_qk .d. is 300: 1 ... 256 is allowed"),
    (lambda: attune.sdpa(*arrays(1, 1, 4, 0)), "head_dim_qk .d. is 0"),
    (lambda: attune.sdpa(Q, K, V, layout="sbhd"), "layout: it is 'sbhd': bhsd, bshd are allowed"),
    (lambda: attune.sdpa(Q, K, V, layout=["bhsd"]), r"layout: it is \['bhsd'\]"),
    (lambda: attune.sdpa(Q, K, V, casual=True), "casual: sdpa has no such argument: did you mean causal?"),
    (lambda: attune.sdpa(Q, K, V, dropout_p=0.1), "dropout_p: sdpa has no such argument"),
    (lambda: attune.sdpa(Q, K, V, is_causal=1), "is_causal: it is 1: True or False is needed"),
    (lambda: attune.sdpa(Q, K, V, is_causal=True, causal=True), "is_causal: it is aligned top-left"),
    (lambda: attune.sdpa(Q, K, V, scale=0), "scale is 0"),
    (lambda: attune.sdpa(Q, K, V, scale=float("nan")), "scale is nan: a finite number is needed"),
    (lambda: attune.sdpa(Q, K, V, scale=1e300), "scale"),
    (lambda: attune.sdpa(Q, K, V, scale="big"), "scale: a number is needed"),
    (lambda: attune.sdpa(Q, K, V, scale=Q), "scale: a number is needed"),
    (lambda: attune.sdpa(Q, K, V, softcap=-1), "softcap is -1: above 0 is needed"),
    (lambda: attune.sdpa(Q, K, V, window=5), r"window: it is 5: \(left, right\) is needed"),
    (lambda: attune.sdpa(Q, K, V, window=(-2, 0)), "window is -2: -1 ... "),
    (lambda: attune.sdpa(Q, K, V, causal=True, offset="middle"), "offset: it is 'middle'"),
    (lambda: attune.sdpa(Q, K, V, causal=True, offset=1.5), "offset: it is 1.5: a whole number is needed"),
    (lambda: attune.sdpa(Q, K, V, causal=True, offset=2**31), "offset is 2147483648"),
    (lambda: attune.sdpa(Q, K, V, attn_mask=np.ones((3, 8), bool)), r"attn_mask: its shape is \(3, 8\)"),
    (lambda: attune.sdpa(Q, K, V, attn_mask=np.ones((1, 1, 1, 8, 8), bool)), r"attn_mask: its shape is"),
    (lambda: attune.sdpa(Q, K, V, attn_mask=np.ones((8, 8), np.int32)), "attn_mask: its dtype is int32: bool or a"),
    (lambda: attune.sdpa(Q, K, V, attn_mask=[[True]]), "attn_mask: it is of type list"),
    (lambda: attune.sdpa(Q, K, V, alibi=np.ones(3, "f4")), r"alibi: its shape is \(3,\): \(2,\) is needed"),
    (lambda: attune.sdpa(Q, K, V, sink=np.ones(2, "f2")), "sink: its dtype is fp16: fp32 is needed"),
    (lambda: attune.sdpa(Q, K, V, seqused=np.ones(2, "i4")), r"seqused: its shape is \(2,\): \(1,\) is needed"),
    (lambda: attune.sdpa(Q, K, V, out=np.ones((1, 2, 8, 15), "f4")), r"out: its shape is \(1, 2, 8, 15\)"),
    (lambda: attune.sdpa(Q, K, V, out=Q), "out overlaps q: it begins 0 bytes"),
    (lambda: [attune.sdpa(Q, K, V, out=out) for out in (np.empty_like(Q), V)], "out overlaps v: it begins 0 bytes"),
    (lambda: attune.varlen(Q[0], K[0], V[0], *[np.array([0, 2], "i4")] * 2, 2, 2, out=K[0]), "out overlaps k"),
    (lambda: attune.sdpa(Q, K, V, seqused=np.array([9], "i4")), r"seqused\[0\] is 9: 0 to seqlen_kv, 8"),
    (lambda: [attune.sdpa(Q, K, V, seqused=np.array([n], "i4")) for n in (8, 3, -1)], r"seqused\[0\] is -1"),
    (lambda: attune.sdpa(Q, K, V, seqused=np.array([8])), "seqused: its dtype is int64: int32 is needed"),
    (lambda: attune.varlen(Q[0], K[0], V[0], *[np.array([0, 2])] * 2, 2, 2), "cu_q: its dtype is int64: int32 is"),
    (lambda: attune.sdpa(Q, K, V, sink=np.ones(2)), "sink: its dtype is float64: float32 is needed"),
    (lambda: attune.sdpa(Q, K, V, attn_mask=np.ones((8, 8))), "attn_mask: its dtype is float64: bool, float32, float"),
    (lambda: attune.sdpa(Q, K, V, scale=10**400), "scale: a number is needed"),
    (lambda: attune.sdpa(Q, K, V, stream=7), "stream: it is 7, and a CPU has none"),
    (lambda: [attune.sdpa(Q, K, V, stream=s) for s in (0, None, 0, "0x7")], "stream: it is '0x7', and a CPU has none"),
    (lambda: attune.varlen(Q[0], K[0], V[0], *[np.array([0, 2], "i4")] * 2, 2, 2, stream=7), "stream: it is 7"),
    (lambda: attune.plan("b1,h1,s8,d16,fp32", "cpu", deterministic="no"), "deterministic: it is 'no'"),
    (lambda: attune.plan("b1,h1,s8,d16,fp32", "cpu").workspace("all"), "call: it is of type str"),
    (lambda: attune.plan("b1,h2,s8,d16,fp32", "cpu").run(Q=Q, q=Q, K=K, V=V), "q: Q is given, too"),
    (lambda: attune.plan("b1,h2,s8,d16,fp32", "cpu").bind([Q, K, V]), "arrays: it is of type list"),
    (lambda: attune.bench("b1,h2,s8,d16,fp32", arms=3), "arms: it is of type int"),
    (lambda: attune.gate("cpu_tiled", against=3), "against: it is of type int"),
    (lambda: attune.gate(3, "b1,h2,s8,d16,fp32"), "candidate: it is of type int"),
    (lambda: [attune.sdpa(Q, K, V, out=out) for out in (np.empty_like(Q), FROZEN)], "out: it is not writable"),
    (lambda: attune.sdpa(Q, K, V, kernel="cpu_tield"), "did you mean .cpu_tiled"),
    (lambda: attune.sdpa(Q, K, V, kernel=3), "kernel: a text is needed"),
    (lambda: attune.sdpa(Q, K, V, strict="yes"), "strict: it is 'yes'"),
    (lambda: attune.sdpa(Q, K, V, tf32="yes"), "tf32: it is 'yes': True or False is needed"),
    (lambda: attune.sdpa(*HALVES, tf32=True), "tf32 is 1: 0 is needed with dtype fp16, or dtype fp32"),
    (lambda: attune.sdpa(*BRAINS, tf32=True), "tf32 is 1: 0 is needed with dtype bf16, or dtype fp32"),
    (lambda: [attune.sdpa(*HALVES, tf32=tf32) for tf32 in (False, False, True)], "tf32 is 1: 0 is needed with dtype"),
    (lambda: attune.varlen(Q[0], K[0], V[0], *[np.array([0, 2], "i4")] * 2, 2, 2, tf32=1), "tf32: it is 1"),
    (lambda: [attune.sdpa(*[a[..., ::-1] for a in HALVES], tf32=tf32) for tf32 in (False, True)], "tf32 is 1: 0 is"),
    (lambda: [attune.varlen(*[a[0] for a in HALVES], *[np.array([0, 2], "i4")] * 2, 2, 2, tf32=tf32)
              for tf32 in (False, True)], "tf32 is 1: 0 is needed with dtype fp16"),
    (lambda: attune.plan("b1,h1,s8,d16,fp16,tf32"), "tf32 is 1: 0 is needed with dtype fp16, or dtype fp32"),
    (lambda: attune.plan("b1,h1,s8,d16"), "dtype"),
    (lambda: attune.plan("b1,h1,s8,d300,fp32"), "head_dim_qk is 300"),
    (lambda: attune.plan(3), "problem: a text such as"),
    (lambda: attune.plan("b1,h1,s8,d16,fp32\0"), "problem: it has a zero byte"),
    (lambda: attune.plan("b1,h1,s8,d16,fp32", "gpu"), "target 'gpu' is unknown"),
    (lambda: attune.plan("b1,h1,s8,d16,fp32", "cpu", effort="much"), "effort: it is 'much'"),
    (lambda: attune.plan("b1,h1,s8,d16,fp32", "cpu", kernel="nothing"), "there is no kernel"),
    (lambda: attune.Context("cpu", threads=-1), "threads is -1: 0 ... 1024 are allowed"),
    (lambda: attune.Context("cpu", threads="two"), "threads: it is 'two': a whole number"),
    (lambda: attune.Context("cpu", wisdom="/nowhere"), "/nowhere"),
]


@pytest.mark.parametrize("number", range(len(BAD_CALLS)))
def test_calls_are_refused_by_name(number):
    call, words = BAD_CALLS[number]
    with pytest.raises(attune.Error, match=words) as caught:
        call()
    assert caught.value.status != attune.Status.INTERNAL and caught.value.sentence in str(caught.value)


def bad_roles():
    plan = attune.plan("b2,h4,hkv2,s512,d64,fp32,bias=1xh", "cpu")
    q, k, bias = np.ones((2, 4, 512, 64), "f4"), np.ones((2, 2, 512, 64), "f4"), np.ones((1, 4, 512, 512), "f4")
    good = {"Q": q, "K": k, "V": k, "BIAS": bias}
    frozen = np.empty_like(q)
    frozen.flags.writeable = False
    for changed, words in [
        ({"O": q[:, :, :256].copy()}, r"O: its shape is \(2, 4, 256, 64\): \(2, 4, 512, 64\) is needed"),
        ({"Q": np.ones((2, 4, 513, 64), "f4")}, "Q: seqlen_q is 513: this plan takes at most 512"),
        ({"Q": np.ones((3, 4, 8, 64), "f4")}, "Q: batch is 3: this plan takes at most 2"),
        ({"Q": np.ones((2, 5, 8, 64), "f4")}, "Q: heads_q is 5"),
        ({"K": np.ones((2, 2, 8, 64), "f4")}, r"V: its shape is \(2, 2, 512, 64\): \(2, 2, 8, 64\) is needed"),
        ({"Q": q[..., :32]}, r"Q: its shape is"),
        ({"Q": q.astype("f2")}, "Q: its dtype is fp16: fp32 is needed"),
        ({"V": k[..., ::-1]}, "V: the stride of its last dimension is -1 elements: 1 is needed"),
        ({"V": k[:, :, ::-1]}, "V: the sequence stride is -64 elements"),
        ({"K": k.view("u1")[..., 1:]}, "K: its dtype is uint8"),
        ({"O": frozen}, "O: it is not writable"),
        ({"O": q}, "O overlaps Q"),
        ({"BIAS": np.ones((2, 4, 512, 512), "f4")}, r"BIAS: its shape is \(2, 4, 512, 512\): \(1, 4, 512, 512\)"),
        ({"BIAS": None}, "BIAS: it is missing"),
        ({"V": None}, "V: it is missing"),
        ({"Q": None}, "Q: it is missing"),
        ({"SINK": np.ones(4, "f4")}, "SINK is given, but the problem"),
        ({"WHAT": q}, "WHAT: there is no such role"),
        ({"Q": np.zeros(q.nbytes + 4, "u1")[4:].view("f4").reshape(q.shape)}, "Q: its data is 4 bytes past"),
        ({"Q": q.tolist()}, "Q: it is of type list"),
        ({"workspace": np.empty(3, "u1")}, "workspace"),
        ({"offset": 3}, "offset: the problem .* has no number"),
    ]:
        yield plan, {**good, **changed}, words


def test_other_words_than_a_role_stay():
    names = {**attention.ARGUMENTS, "O": "out"}
    for sentence in ["OpenBLAS is not there", "Kernels overlaps O", "O_ is given", "", "what it is"]:
        error = attune.Error(1, sentence)
        assert attention.renamed(error, names) is error
    for sentence, wanted in [("O", "out"), ("Q[3] is 7", "q[3] is 7"), ("O overlaps K: it", "out overlaps k: it"),
                             ("LSE: none", "lse: none")]:
        assert attention.renamed(attune.Error(1, sentence), names).sentence == wanted


@pytest.mark.parametrize("number", range(22))
def test_roles_are_refused_by_name(number):
    plan, roles, words = list(bad_roles())[number]
    if "Q: its data" in words and roles["Q"].ctypes.data % 16 == 0:
        pytest.skip("the allocator gave an address that is aligned behind 4 bytes")
    if "workspace" in roles and plan.workspace() == 0:
        roles["workspace"] = np.empty(600, "u1")[1:]
    with pytest.raises(attune.Error, match=words):
        plan.run(**roles)


def test_a_refused_call_has_written_nothing():
    plan, o = attune.plan("b1,h2,s512,d16,fp32", "cpu"), np.full((1, 2, 8, 16), 7, "f4")
    with pytest.raises(attune.Error, match="O: its shape"):
        plan.run(Q=np.ones((1, 2, 512, 16), "f4"), K=K, V=V, O=o)
    assert (o == 7).all()


def test_errors_carry_status_and_sentence():
    with pytest.raises(attune.Error) as caught:
        attune.plan("b1,h1,s8,d16,fp32,offset=x")
    error = caught.value
    assert error.status is attune.Status.INVALID_PROBLEM and error.status.name == "INVALID_PROBLEM"
    assert str(error) == f"invalid problem: {error.sentence}"
    import pickle
    again = pickle.loads(pickle.dumps(error))
    assert (again.status, again.sentence) == (error.status, error.sentence)


def test_a_library_that_is_missing_is_named():
    ended = subprocess.run([sys.executable, "-c", "import attune; attune.plan('b1,h1,s1,d8,fp32')"], text=True,
                          env={"PYTHONPATH": ":".join(sys.path), "ATTUNE_LIBRARY": "/nowhere/lib.so"},
                          capture_output=True)
    assert "attune.library.Error: not found: /nowhere/lib.so" in ended.stderr


def test_arguments_have_names():
    """What is given by place where only names are taken is not taken for something else."""
    with pytest.raises(TypeError, match="positional"):
        attune.plan("b1,h2,s8,d16,fp32", "cpu").run(Q, K, V)


def test_parts_of_the_package_are_there():
    """attune.torch, without another import, as far as PyTorch is; what there is not is said as of any module."""
    code = ("import importlib.util, sys, attune\n"
            "for name, of in (('torch', 'torch'), ('hf', 'torch'), ('jax', 'jax')):\n"
            "    assert f'attune.{name}' not in sys.modules or importlib.util.find_spec(of)\n"
            "    there = bool(importlib.util.find_spec(of))\n"
            "    try: assert getattr(attune, name).__name__ == f'attune.{name}' and there\n"
            "    except AttributeError as error: assert not there and of in str(error), error\n"
            "assert not hasattr(attune, 'tensorflow')\n")
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"], text=True,
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
