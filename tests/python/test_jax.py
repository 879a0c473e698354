"""attune.jax on a CPU (tests/python/gpu runs these on CUDA); where there is no JAX they are skipped."""
import threading

import numpy as np
import pytest
from reference import attention

import attune

jax = pytest.importorskip("jax")
jnp = jax.numpy
import attune.jax as aj  # noqa: E402

LIMITS = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
HEADS = np.linspace(0.1, 0.5, 4, dtype=np.float32)
CASES = [{}, {"is_causal": True}, {"causal": True}, {"window": (5, 2)}, {"softcap": 2.0, "scale": 0.3},
         {"alibi": HEADS, "causal": True}, {"sink": HEADS}, {"seqused": np.array([3, 15], np.int32)},
         {"attn_mask": np.random.default_rng(3).random((2, 1, 9, 15)) < 0.6},
         {"attn_mask": np.random.default_rng(4).standard_normal((9, 15)).astype(np.float32)},
         {"causal": True, "offset": 2}, {"attn_mask": np.arange(9)[:, None] != 4}]


def draw(dtype="float32", seed=0):
    generator = np.random.default_rng(seed)
    shapes = (2, 4, 9, 16), (2, 2, 15, 16), (2, 2, 15, 24)
    return [jnp.asarray(generator.standard_normal(shape), dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", list(LIMITS))
@pytest.mark.parametrize("options", CASES, ids=lambda case: "-".join(case) or "plain")
def test_it_is_attention(dtype, options):
    arrays = draw(dtype)
    if "attn_mask" in options and options["attn_mask"].dtype != bool:
        options = {"attn_mask": jnp.asarray(options["attn_mask"], dtype)}
    wide = [np.asarray(t, np.float32) for t in arrays]
    case = {name: np.asarray(t, bool if t.dtype == bool else t.dtype) if hasattr(t, "dtype") else t
            for name, t in options.items()}
    if "attn_mask" in case:
        case["attn_mask"] = np.broadcast_to(case["attn_mask"], (2, 4, 9, 15))
    wanted, sums = attention(*wide, case)
    for swap in (False, True):
        given = [t.transpose(0, 2, 1, 3) for t in arrays] if swap else arrays
        call = jax.jit(lambda q, k, v, swap=swap: aj.sdpa(
            q, k, v, enable_gqa=True, return_lse=True, layout="bshd" if swap else "bhsd", **options))
        o, lse = call(*given)
        o = o.transpose(0, 2, 1, 3) if swap else o
        assert o.dtype == dtype and np.abs(np.asarray(o, np.float32) - wanted).max() < LIMITS[dtype]
        assert np.allclose(lse, sums, atol=LIMITS[dtype])


@pytest.mark.parametrize("options", CASES, ids=lambda case: "-".join(case) or "plain")
def test_gradients(options):
    """Of O and LSE, against differences."""
    arrays = draw()
    names = [name for name in ("alibi", "sink") if name in options]
    fixed = {name: value for name, value in options.items() if name not in names}
    generator = np.random.default_rng(7)
    weights = jnp.asarray(generator.standard_normal((2, 4, 9, 24)), "float32")

    def loss(q, k, v, *more):
        o, lse = aj.sdpa(q, k, v, enable_gqa=True, return_lse=True, **fixed, **dict(zip(names, more)))
        return (o * weights).sum() + jnp.where(jnp.isfinite(lse), lse, 0).sum()

    given = [*arrays, *(jnp.asarray(options[name]) for name in names)]
    grads = jax.grad(loss, argnums=tuple(range(len(given))))(*given)
    for i, grad in enumerate(grads):
        assert np.isfinite(grad).all()
        step = generator.standard_normal(given[i].shape).astype(np.float32)
        ends = [loss(*given[:i], given[i] + sign * 1e-2 * step, *given[i + 1:]) for sign in (1, -1)]
        slope = float((ends[0] - ends[1]) / 2e-2)
        assert abs(slope - float((grad * step).sum())) < 2e-2 * max(1, abs(slope), float(jnp.abs(grad).sum()) * 1e-2)


def test_tf32():
    """Kernels may be less exact with it, and those of a CPU are not; gradients are computed as ever."""
    q, k, v = draw()
    for tf32 in (False, True):
        call = jax.jit(lambda q, k, v, tf32=tf32: aj.sdpa(q, k, v, enable_gqa=True, tf32=tf32))
        assert np.allclose(call(q, k, v), aj.sdpa(q, k, v, enable_gqa=True), atol=5e-3 if tf32 else 0)
        assert np.isfinite(jax.grad(lambda *t, call=call: call(*t).sum(), argnums=2)(q, k, v)).all()


def test_transformations():
    q, k, v = draw()
    wanted = aj.sdpa(q, k, v, enable_gqa=True)
    many = jax.vmap(lambda q: aj.sdpa(q, k, v, enable_gqa=True))(jnp.stack([q, 2 * q]))
    assert np.array_equal(many[0], wanted) and many.shape == (2, *wanted.shape)
    assert aj.sdpa(q[:0], k[:0], v[:0], enable_gqa=True).shape == (0, 4, 9, 24)


def test_threads():
    q, k, v = draw()
    wanted, wrong = np.asarray(aj.sdpa(q, k, v, enable_gqa=True)), []

    def work():
        wrong.extend(i for i in range(20) if not np.array_equal(aj.sdpa(q, k, v, enable_gqa=True), wanted))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_refused():
    q, k, v = draw()
    for arrays, options, words in (((q, k, v), {}, "enable_gqa"), ((q, k[:, :, :, :7], v), {}, "k: its dim"),
                                   ((q[0], k, v), {}, "q: its shape"), ((q.astype("int8"), k, v), {}, "q: its dtype"),
                                   ((q, k, v), {"window": (1, )}, "window"), (([1], k, v), {}, "q: it is of type list"),
                                   ((q, None, v), {}, "k: it is of type NoneType"),
                                   ((q, k, v), {"softcap": -1.0}, "softcap"), ((q, k, v), {"layout": "x"}, "layout"),
                                   ((q, k, v), {"scale": 0.0}, "scale"),
                                   ((q, k, v), {"sink": jnp.zeros(3)}, "sink: its shape"),
                                   ((q, k, v), {"attn_mask": jnp.zeros((3, 3))}, "attn_mask: its shape"),
                                   ((q, k, v), {"tf32": 1}, "tf32: it is 1"),
                                   (draw("float16"), {"tf32": True}, "tf32 is 1: 0 is needed with dtype fp16"),
                                   ((q, k, v), {"is_causal": True, "causal": True}, "is_causal")):
        options = options if words == "enable_gqa" else {"enable_gqa": True, **options}
        with pytest.raises(Exception, match=words) as caught:
            jax.block_until_ready(aj.sdpa(*arrays, **options))
        assert isinstance(caught.value, attune.Error) or "attune: " in str(caught.value)
