"""attune.varlen: attention of packed sequences; plans are made on the way and kept."""
from __future__ import annotations

import ctypes as c

from attune import library, tensors
from attune.attention import OFFSETS, flag, number, renamed
from attune.library import Error, Problem, invalid
from attune.plans import align_of, context_of, whole
from attune.tensors import DTYPE_BYTES, framework_of

TYPE_CHECKING = False  # as in attention.py
if TYPE_CHECKING:
    from attune.attention import Array

KEPT_PLANS = 64
plans = {}  # of this process, by what a problem has
ROWS = {"q": "[total_q, heads_q, dim]", "k": "[total_kv, heads_kv, dim]", "v": "[total_kv, heads_kv, dim_v]"}
EXTRAS = {"SLOPES": "alibi", "SINK": "sink", "USED_KV": "seqused", "O": "out"}


def varlen(q: Array, k: Array, v: Array, cu_q: Array, cu_k: Array, max_q: int, max_k: int, *,
           scale: float | None = None, causal: bool = False, offset: int | str | None = None,
           window: tuple[int | None, int | None] | None = None, softcap: float | None = None,
           alibi: Array | None = None, sink: Array | None = None, seqused: Array | None = None, strict: bool = False,
           tf32: bool = False, deterministic: bool = False, return_lse: bool = False, out: Array | None = None,
           kernel: str | None = None, stream: int | None = None) -> Array | tuple[Array, Array]:
    """Attention of packed sequences, each of its own length.

    q [total_q, heads_q, dim], k [total_kv, heads_kv, dim], v [total_kv, heads_kv, dim_v]; rows cu_q[b] ... cu_q[b + 1]
    of q are those of sequence b, and so for k and v by cu_k, both int32 [batch + 1]. max_q and max_k: no sequence is
    longer. heads_q may be a multiple of heads_kv. The other arguments are those of attune.sdpa; positions count within
    each sequence.

    Returns [total_q, heads_q, dim_v], or with return_lse (O, LSE), LSE float32 [heads_q, total_q]. Rows behind the last
    sequence are not written. On a CPU cu_q and cu_k are checked; on CUDA the kernel alone reads them. Raises
    attune.Error, whose sentence names the argument."""
    arrays = {"Q": q, "K": k, "V": v, "CU_Q": cu_q, "CU_KV": cu_k}
    arrays.update({role: array for role, array in zip(EXTRAS, (alibi, sink, seqused, out)) if array is not None})
    names = {"Q": "q", "K": "k", "V": "v", "CU_Q": "cu_q", "CU_KV": "cu_k", **EXTRAS}
    framework = framework_of("q", q)
    for role, array in arrays.items():
        if framework_of(names[role], array) is not framework:
            raise invalid(f"{names[role]}: it is of type {type(array).__name__}, and q of {type(q).__name__}: arrays "
                          "of one framework are needed")
    views = {role: framework.view(names[role], array) for role, array in arrays.items()}
    check(views, names, max_q, max_k)
    if views["Q"].device is None:
        check_offsets(framework, arrays, views, (max_q, max_k))
    terms = (None if scale is None else number("scale", scale), flag("causal", causal), offset,
             None if window is None else tuple(window), None if softcap is None else number("softcap", softcap),
             flag("strict", strict), flag("tf32", tf32))
    plan = plan_for(framework, arrays, views, (max_q, max_k), terms, (kernel, flag("deterministic", deterministic)))
    try:
        return plan.run(stream=stream, LSE=flag("return_lse", return_lse), **arrays)
    except Error as error:
        raise renamed(error, names) from None


def check(views, names, max_q, max_k):
    for role in "QKV":
        if len(views[role].shape) != 3:
            raise invalid(f"{names[role]}: its shape is {views[role].shape}: 3 dimensions are needed, "
                          f"{ROWS[names[role]]}")
    for role in ("Q", "K", "V", "O"):
        if role in views:
            tensors.check_floats(names[role], views[role])
    for name, longest in (("max_q", max_q), ("max_k", max_k)):
        whole(name, longest, 0, 2**31 - 1)
    for role in ("CU_Q", "CU_KV"):
        if len(views[role].shape) != 1 or views[role].shape[0] < 1 or views[role].dtype != tensors.INT32:
            raise invalid(f"{names[role]}: int32 [batch + 1] is needed, not {tensors.DTYPE_NAMES[views[role].dtype]} "
                          f"{views[role].shape}")
    for role, view in views.items():
        if view.device != views["Q"].device:
            raise invalid(f"{names[role]}: it is on {tensors.place(view.device)}, and q on "
                          f"{tensors.place(views['Q'].device)}: one device is needed")
    q, k, v = (views[role].shape for role in "QKV")
    for name, size, have, want in (("k", "dim", k[2], q[2]), ("v", "total_kv", v[0], k[0]),
                                   ("v", "heads", v[1], k[1])):
        if have != want:
            raise invalid(f"{name}: its {size} is {have}: {want} is needed")
    if k[1] == 0 or q[1] % k[1] != 0:
        raise invalid(f"k: its heads are {k[1]}: a divisor of q's {q[1]} is needed")


def check_offsets(framework, arrays, views, longest):
    """That sequences lie one behind the other within their rows: kernels would read what these say."""
    for role, name, rows, most in (("CU_Q", "cu_q", "Q", longest[0]), ("CU_KV", "cu_k", "K", longest[1])):
        count, total = views[role].shape[0], views[rows].shape[0]
        first = framework.data(arrays[role])
        step = views[role].strides[0] * 4
        values = [c.c_int32.from_address(first + i * step).value for i in range(count)]
        if values[0] != 0 or values[-1] > total or any(b < a for a, b in zip(values, values[1:])):
            raise invalid(f"{name}: it is {values[:8]}{' ...' if count > 8 else ''}: 0, then ends of sequences, each "
                          f"at least the one before, the last at most {total}, are needed")
        if any(b - a > most for a, b in zip(values, values[1:])):
            raise invalid(f"max_{name[-1]} is {most}: {name} has a sequence that is longer")


def plan_for(framework, arrays, views, longest, terms, options):
    align = 16
    for role in ("Q", "K", "V", "O"):
        if role in views:
            align |= framework.data(arrays[role])
            for stride in views[role].strides[:2]:
                align |= stride * DTYPE_BYTES[views[role].dtype]
    key = (framework, align & -align, longest, terms, options, views["Q"].device, views["CU_Q"].shape,
           *[(role, views[role].shape[1:], views[role].dtype) for role in views])
    try:
        plan = plans.get(key)
    except TypeError:
        raise invalid(f"offset: it is {terms[2]!r}: 'br', 'tl' or a number is needed") from None
    if plan is None:
        problem = problem_for(views, longest, terms)
        problem.align = align & -align if align & -align < align_of(problem) else 0
        device = views["Q"].device
        if device is not None:
            framework.check_planning(device)
        context = context_of("cpu" if device is None else f"cuda:{device}")
        while len(plans) >= KEPT_PLANS:
            plans.pop(next(iter(plans)), None)
        plan = plans[key] = context.plan(problem, "estimate", *options)
    return plan


def problem_for(views, longest, terms):
    problem = Problem()
    scale, causal, offset, window, softcap, strict, tf32 = terms
    library.default().c.attune_problem_init_sized(c.byref(problem), c.sizeof(problem))
    q, k, v = (views[role] for role in "QKV")
    problem.dtype, problem.varlen, problem.layout = q.dtype, 1, 1
    problem.batch, problem.heads_q, problem.heads_kv = views["CU_Q"].shape[0] - 1, q.shape[1], k.shape[1]
    problem.seqlen_q, problem.seqlen_kv = (max(most, 1) for most in longest)
    problem.head_dim_qk, problem.head_dim_v = q.shape[2], v.shape[2]
    for role, place in (("K", 1), ("V", 2), ("O", 3)):
        if role in views and views[role].dtype != q.dtype:
            problem.role_dtype[place] = views[role].dtype + 1
    problem.scale, problem.softcap, problem.strict, problem.tf32 = scale or 0, softcap or 0, strict, tf32
    if scale == 0 or (softcap is not None and softcap <= 0):
        raise invalid(f"scale is {scale}, softcap {softcap}: a scale of 0 says nothing, and a cap is above 0")
    if window is not None:
        if len(window) != 2:
            raise invalid(f"window: it is {window!r}: (left, right) is needed")
        problem.window_left, problem.window_right = (-1 if side is None else whole("window", side, -1, 2**31 - 1)
                                                     for side in window)
    if causal:
        problem.window_right = 0
    if offset in OFFSETS:
        problem.offset_kind = OFFSETS[offset]
    else:
        problem.offset_kind, problem.offset = 2, whole("offset", offset, -2**31 + 1, 2**31 - 1)
    problem.alibi, problem.sink, problem.seqused_kv = "SLOPES" in views, "SINK" in views, "USED_KV" in views
    return problem
