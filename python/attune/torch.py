"""attune for PyTorch: attention as an operator with gradients, and as what serves PyTorch's own function.

    import attune.torch
    o = attune.torch.sdpa(q, k, v, is_causal=True)
    with attune.torch.use():                      # or install() ... uninstall()
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v)

Importing this changes nothing of PyTorch's.
"""
from __future__ import annotations

import contextlib
import threading
import warnings

import torch

from attune import attention, tensors
from attune.library import Error, Status, invalid

__all__ = ["calls", "install", "sdpa", "uninstall", "use"]

ARGUMENTS = ("Tensor q, Tensor k, Tensor v, Tensor? attn_mask, Tensor? alibi, Tensor? sink, Tensor? seqused, "
             "bool is_causal, float? scale, bool enable_gqa, str layout, bool causal, str? offset, int[]? window, "
             "float? softcap, bool strict, bool deterministic")
TAG = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)

library = torch.library.Library("attune", "DEF")
library.define(f"sdpa({ARGUMENTS}) -> Tensor", tags=(TAG,))
library.define(f"sdpa_lse({ARGUMENTS}) -> (Tensor, Tensor)", tags=(TAG,))


def output_for(q, v, layout):
    """What O and LSE of a call are made as, fake or real."""
    batch, heads, seqlen, _ = [q.shape[i] for i in attention.LAYOUTS[layout]]
    return tensors.Torch.empty(q, (*q.shape[:3], v.shape[3])), (batch, heads, seqlen)


def operate(want_lse, q, k, v, attn_mask, alibi, sink, seqused, is_causal, scale, enable_gqa, layout, causal, offset,
            window, softcap, strict, deterministic):
    if offset not in (None, "br", "tl"):
        offset = int(offset)
    out = output_for(q, v, layout)[0] if q.dim() == 4 and v.dim() == 4 else None
    return attention.sdpa(q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa,
                          layout=layout, alibi=alibi, sink=sink, seqused=seqused, causal=causal, offset=offset,
                          window=window and tuple(window), softcap=softcap, strict=strict,
                          deterministic=deterministic, out=out, return_lse=want_lse)


def run_sdpa(*arguments):
    return operate(False, *arguments)


def run_sdpa_lse(*arguments):
    return operate(True, *arguments)


def fake_sdpa(q, k, v, *rest):
    return output_for(q, v, rest[7])[0]


def fake_sdpa_lse(q, k, v, *rest):
    o, rows = output_for(q, v, rest[7])
    return o, q.new_empty(rows, dtype=torch.float32)


for name, run, fake in (("sdpa", run_sdpa, fake_sdpa), ("sdpa_lse", run_sdpa_lse, fake_sdpa_lse)):
    library.impl(name, run, "CPU")
    library.impl(name, run, "CUDA")
    torch.library.register_fake(f"attune::{name}", fake, lib=library)

# ---- Gradients -----------------------------------------------------------------------------------------------------

NO_BACKWARD = ("alibi", "sink", "seqused", "window", "softcap")


def why_no_gradient(q, k, v, extras, options):
    """Why PyTorch's backward operator cannot take this call; None where it can."""
    for term in NO_BACKWARD:
        if extras.get(term) is not None or options.get(term) is not None:
            return f"{term}: PyTorch's backward operator does not know it"
    mask = extras["attn_mask"]
    if mask is not None and mask.requires_grad:
        return "attn_mask: its own gradient is not computed"
    if mask is not None and mask.dim() not in (2, 4):
        return f"attn_mask: it has {mask.dim()} dimensions: 2 or 4 are needed for a gradient"
    if options["layout"] != "bhsd":
        return "layout: bhsd is needed for a gradient: give views, which costs nothing"
    if q.device.type != "cpu":
        return f"q: it is on {q.device.type}: gradients are computed on a CPU only, so far"
    if q.shape[-1] != v.shape[-1]:
        return f"v: its dim is {v.shape[-1]}, and q's {q.shape[-1]}: they must be equal for a gradient"
    masks = options["causal"] or options["is_causal"]
    if options["offset"] not in (None, "tl") or (options["causal"] and options["offset"] != "tl" and
                                                 q.shape[2] != k.shape[2]):
        return "causal: PyTorch's backward operator aligns top-left only"
    return "attn_mask: with causal, PyTorch's backward operator takes none" if masks and mask is not None else None


class Attention(torch.autograd.Function):
    """attune's forward pass; PyTorch's backward operator, given attune's O and LSE."""

    @staticmethod
    def forward(ctx, q, k, v, mask, causal, scale, arguments):
        o, lse = torch.ops.attune.sdpa_lse(q, k, v, mask, *arguments)
        ctx.save_for_backward(q, k, v, o, lse, mask)
        ctx.causal, ctx.scale = causal, scale
        ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    def backward(ctx, grad, _):
        q, k, v, o, lse, mask = ctx.saved_tensors
        group = q.shape[1] // k.shape[1]
        keys, values = (t if group == 1 else t.repeat_interleave(group, 1) for t in (k, v))
        if mask is not None and mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, float("-inf"))
        elif mask is not None:
            mask = mask.to(q.dtype)
        lse = torch.where(lse == float("-inf"), float("inf"), lse)  # a row that sees no key has no weights
        dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad.contiguous(), q, keys, values, o, lse, 0.0, ctx.causal, attn_mask=mask, scale=ctx.scale)
        if group > 1:
            dk, dv = (t.unflatten(1, (k.shape[1], group)).sum(2) for t in (dk, dv))
        return dq, dk, dv, None, None, None, None


def sdpa(q, k, v, *, attn_mask=None, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
         layout: str = "bhsd", causal: bool = False, offset=None, window=None, softcap: float | None = None, alibi=None,
         sink=None, seqused=None, strict: bool = False, deterministic: bool | None = None, return_lse: bool = False):
    """attune.sdpa for tensors of PyTorch, with the same arguments: under torch.compile without a graph break, under
    autocast in its dtype, and with gradients of q, k and v where PyTorch's backward operator takes the problem.

    deterministic None: what torch.use_deterministic_algorithms says. return_lse: (O, LSE), LSE without gradient.
    Raises attune.Error; UNSUPPORTED, with the reason, where a gradient is required that cannot be computed."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not isinstance(tensor, torch.Tensor):
            raise invalid(f"{name}: it is of type {type(tensor).__name__}: a torch.Tensor is needed")
    if not isinstance(layout, str) or layout not in attention.LAYOUTS:
        raise invalid(f"layout: it is {layout!r}: {', '.join(attention.LAYOUTS)} are allowed")
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    for name, tensor in (("k", k), ("v", v), ("attn_mask", attn_mask), ("alibi", alibi), ("sink", sink),
                         ("seqused", seqused)):
        if tensor is not None and tensor.device != q.device:
            raise invalid(f"{name}: it is on {tensor.device}, and q on {q.device}: one device is needed")
    kind = q.device.type
    if kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    extras = {"attn_mask": attn_mask, "alibi": alibi, "sink": sink, "seqused": seqused}
    options = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa, "layout": layout, "causal": causal,
               "offset": None if offset is None else str(offset), "window": None if window is None else list(window),
               "softcap": softcap, "strict": strict, "deterministic": deterministic}
    arguments = (alibi, sink, seqused, *options.values())
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (q, k, v, *extras.values())):
        why = why_no_gradient(q, k, v, extras, options)
        if why is not None:
            raise Error(Status.UNSUPPORTED, f"a gradient is required, and cannot be computed: {why}")
        o, lse = Attention.apply(q, k, v, attn_mask, is_causal or causal, scale, arguments)
        return (o, lse) if return_lse else o
    operator = torch.ops.attune.sdpa_lse if return_lse else torch.ops.attune.sdpa
    return operator(q, k, v, attn_mask, *arguments)


# ---- PyTorch's own function ----------------------------------------------------------------------------------------


class Calls:
    """How many calls of scaled_dot_product_attention attune served, how many PyTorch, and why the last of these."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.attune, self.pytorch, self.last_reason = 0, 0, ""

    def __repr__(self):
        return f"<attune {self.attune}, PyTorch {self.pytorch}{self.last_reason and f': {self.last_reason}'}>"


calls = Calls()
installing = threading.RLock()
installed = []  # the Library that overrides


def own(q, k, v, is_causal, mask, scale):
    """PyTorch's plain attention, and its LSE: the operator that is overridden cannot be called from inside."""
    group = q.shape[1] // k.shape[1]
    k, v = (t if group == 1 else t.repeat_interleave(group, 1) for t in (k, v))
    o, _ = torch.ops.aten._scaled_dot_product_attention_math(q, k, v, mask, 0.0, is_causal, None, scale=scale)
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).mT * (q.shape[-1]**-0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    return o, torch.logsumexp(scores if mask is None else scores + mask, -1)


def serve_cpu(q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    """aten::_scaled_dot_product_flash_attention_for_cpu. O has the strides of q, LSE lies as [batch, seqlen, heads]."""
    o = tensors.Torch.empty(q, (*q.shape[:3], v.shape[3]))
    try:
        if dropout_p > 0:
            raise Error(Status.UNSUPPORTED, f"dropout_p is {dropout_p}: attune has no dropout")
        with torch.no_grad():
            _, lse = attention.sdpa(q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale,
                                    enable_gqa=True, out=o, return_lse=True,
                                    deterministic=torch.are_deterministic_algorithms_enabled())
        calls.attune += 1
    except Error as error:
        if dropout_p > 0:  # PyTorch takes no such call to this kernel
            raise
        calls.pytorch, calls.last_reason = calls.pytorch + 1, str(error)
        found, lse = own(q, k, v, is_causal, attn_mask, scale)
        o.copy_(found)
    lse = torch.where(lse == float("-inf"), float("inf"), lse)  # as the backward operator wants it
    return o, lse.transpose(1, 2).contiguous().transpose(1, 2)


def install():
    """From here on attune serves torch.nn.functional.scaled_dot_product_attention on a CPU where PyTorch would take its
    flash kernel; what attune refuses PyTorch computes. `calls` counts both. A second call does nothing."""
    with installing:
        if not installed:
            overrides = torch.library.Library("aten", "IMPL")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a kernel is overridden is what was asked for
                overrides.impl("_scaled_dot_product_flash_attention_for_cpu", serve_cpu, "CPU")
            installed.append(overrides)


def uninstall():
    """Gives PyTorch its own kernel back."""
    with installing:
        while installed:
            installed.pop()._destroy()


@contextlib.contextmanager
def use():
    """install() for the time of a `with`; one that is inside another, or after install(), changes nothing."""
    had = bool(installed)
    install()
    try:
        yield calls
    finally:
        if not had:
            uninstall()
