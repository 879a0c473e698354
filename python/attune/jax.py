"""attune for JAX: attention as a foreign function of XLA's, on a CPU and on CUDA, under jit, with gradients.

    import attune.jax
    o = attune.jax.sdpa(q, k, v, is_causal=True)
"""
from __future__ import annotations

import ctypes as c
import functools
import json

import jax
import jax.numpy as jnp

from attune import attention, library, tensors, xla
from attune.library import invalid

__all__ = ["sdpa"]

NAME = "attune_sdpa"
ARRAYS = ("attn_mask", "alibi", "sink", "seqused")  # what may be beside q, k and v, in this order

for function, platform in ((xla.for_cpu, "cpu"), (xla.for_cuda, "CUDA")):
    jax.ffi.register_ffi_target(NAME, jax.ffi.pycapsule(c.cast(function, c.c_void_p).value), platform=platform)


def sdpa(q: jax.Array, k: jax.Array, v: jax.Array, *, attn_mask: jax.Array | None = None, is_causal: bool = False,
         scale: float | None = None, enable_gqa: bool = False, layout: str = "bhsd", causal: bool = False,
         offset: int | str | None = None, window: tuple[int | None, int | None] | None = None,
         softcap: float | None = None, alibi: jax.Array | None = None, sink: jax.Array | None = None,
         seqused: jax.Array | None = None, strict: bool = False, tf32: bool = False, deterministic: bool = False,
         return_lse: bool = False) -> jax.Array | tuple[jax.Array, jax.Array]:
    """attune.sdpa for arrays of JAX, with the same arguments, under jax.jit too; options are static. Gradients of all
    floating arrays, of O and LSE, are computed in jax.numpy by doing attention again, with its seqlen_q x seqlen_kv
    scores. Under vmap calls are made one by one. Raises attune.Error for what it refuses; what is found out only when
    it runs, JAX raises where the result is waited for."""
    given = {"q": q, "k": k, "v": v, "attn_mask": attn_mask, "alibi": alibi, "sink": sink, "seqused": seqused}
    for name, array in given.items():
        if (array is not None or name in ("q", "k", "v")) and not (hasattr(array, "shape") and hasattr(array, "dtype")):
            raise invalid(f"{name}: it is of type {type(array).__name__}: an array of JAX is needed")
    arrays = {name: jnp.asarray(array) for name, array in given.items() if array is not None}
    if attn_mask is not None:
        arrays["attn_mask"] = whole_rows(arrays["attn_mask"], arrays["k"], layout)
    terms = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa, "layout": layout, "causal": causal,
             "offset": offset, "window": None if window is None else list(window), "softcap": softcap,
             "strict": strict, "tf32": tf32, "deterministic": deterministic}
    check(arrays, terms)
    o, lse = compute(json.dumps(terms), arrays)
    return (o, lse) if return_lse else o


def whole_rows(mask, k, layout):
    """A mask whose last dimension is repeated, written out: XLA's arrays have no strides."""
    keys = k.shape[1 if layout == "bshd" else 2] if k.ndim == 4 else 1
    if mask.ndim > 0 and mask.shape[-1] == keys:
        return mask
    return jnp.broadcast_to(mask, (*mask.shape[:-1], keys)) if mask.ndim == 0 or mask.shape[-1] == 1 else mask


def check(arrays, terms):
    """What attune.sdpa refuses by shapes, dtypes and options, said now and not when it runs."""
    shown = {name: xla.Buffer(tuple(array.shape), tensors.dtype_named(name, array.dtype.name))
             for name, array in arrays.items()}
    q, k, v = (shown.pop(name) for name in "qkv")
    mask = shown.pop("attn_mask", None)
    first = {name: terms[name] for name in ("is_causal", "scale", "enable_gqa", "layout")}
    rest = {name: value for name, value in terms.items() if name not in first}
    asked = attention.Asked(q, k, v, mask, terms=dict(rest, **shown), **first)
    problem, lib = asked.problem(), library.default()
    if all(problem_size > 0 for problem_size in (problem.batch, problem.heads_q, problem.seqlen_q, problem.seqlen_kv)):
        lib.check(lib.c.attune_problem_check(c.byref(problem)))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def compute(text, arrays):
    """(O, LSE) by attune."""
    terms = json.loads(text)
    q, v = arrays["q"], arrays["v"]
    rows = tuple(q.shape[i] for i in attention.LAYOUTS[terms["layout"]][:3])
    results = (jax.ShapeDtypeStruct((*q.shape[:3], v.shape[3]), q.dtype), jax.ShapeDtypeStruct(rows, jnp.float32))
    names = [name for name in ARRAYS if name in arrays]
    options = json.dumps({"terms": terms, "arrays": names, "devices": jax.local_device_count()})
    call = jax.ffi.ffi_call(NAME, results, vmap_method="sequential")
    return tuple(call(*(arrays[name] for name in ("q", "k", "v", *names)), options=options))


def forward(text, arrays):
    return compute(text, arrays), arrays


def backward(text, arrays, grads):
    floating = {name: array for name, array in arrays.items() if jnp.issubdtype(array.dtype, jnp.floating)}
    others = {name: array for name, array in arrays.items() if name not in floating}
    _, pull = jax.vjp(lambda some: plain(json.loads(text), {**some, **others}), floating)
    return ({**pull(grads)[0], **{name: None for name in others}},)


compute.defvjp(forward, backward)

# ---- Attention in jax.numpy ----------------------------------------------------------------------------------------


def plain(terms, arrays):
    """(O, LSE), computed in fp32."""
    turn = (0, 2, 1, 3) if terms["layout"] == "bshd" else (0, 1, 2, 3)
    q, k, v = (arrays[name].transpose(turn).astype(jnp.float32) for name in ("q", "k", "v"))
    k, v = (jnp.repeat(t, q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = jnp.einsum("bhid,bhjd->bhij", q, k, precision="highest")
    scores *= q.shape[3]**-0.5 if terms["scale"] is None else terms["scale"]
    if terms["softcap"] is not None:
        scores = terms["softcap"] * jnp.tanh(scores / terms["softcap"])
    i, j = positions(terms, arrays, q.shape[2], k.shape[2])
    mask = arrays.get("attn_mask")
    if mask is not None and mask.dtype != jnp.bool_:
        scores += mask.astype(jnp.float32)
    if "alibi" in arrays:
        scores -= arrays["alibi"][:, None, None] * jnp.abs(i - j)
    seen = jnp.broadcast_to(seen_by(terms, arrays, i, j), scores.shape)
    o, lse = weigh(scores, seen, arrays.get("sink"), v)
    return o.transpose(turn).astype(arrays["q"].dtype), lse


def positions(terms, arrays, rows, keys):
    offset = "tl" if terms["is_causal"] else terms["offset"]
    if offset in (None, "br"):
        used = arrays["seqused"][:, None, None, None] if "seqused" in arrays else keys
        offset = used - rows
    elif offset == "tl":
        offset = 0
    return jnp.arange(rows)[:, None] + offset, jnp.arange(keys)


def seen_by(terms, arrays, i, j):
    left, right = (-1 if side is None else side for side in terms["window"] or (-1, -1))
    right = 0 if terms["causal"] or terms["is_causal"] else right
    seen = jnp.full((1, 1, 1, 1), True)
    seen = seen & (j >= i - left) if left >= 0 else seen
    seen = seen & (j <= i + right) if right >= 0 else seen
    if "seqused" in arrays:
        seen = seen & (j < arrays["seqused"][:, None, None, None])
    mask = arrays.get("attn_mask")
    return seen & mask if mask is not None and mask.dtype == jnp.bool_ else seen


def weigh(scores, seen, sink, v):
    """Softmax and its product with V; a row that sees nothing is 0, and has a derivative."""
    top = jax.lax.stop_gradient(jnp.max(jnp.where(seen, scores, -jnp.inf), -1, initial=-jnp.inf, keepdims=True))
    if sink is not None:
        top = jnp.maximum(top, jax.lax.stop_gradient(sink)[:, None, None])
    top = jnp.where(jnp.isfinite(top), top, 0)
    weights = jnp.where(seen, jnp.exp(jnp.where(seen, scores, 0) - top), 0)
    total = weights.sum(-1, keepdims=True)
    if sink is not None:
        total += jnp.exp(sink[:, None, None] - top)
    some = jnp.where(total > 0, total, 1)
    lse = jnp.where(total > 0, jnp.log(some) + top, -jnp.inf)[..., 0]
    return jnp.einsum("bhij,bhjd->bhid", weights / some, v, precision="highest"), lse
