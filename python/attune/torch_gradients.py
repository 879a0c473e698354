"""Gradients for attune.torch: attune's O and LSE, given to PyTorch's own backward operators."""
from __future__ import annotations

import torch

# What PyTorch's backward operators know nothing of.
UNKNOWN = ("alibi", "sink", "seqused", "softcap")


def why_not(q, k, v, extras, options):
    """Why no backward operator of PyTorch takes this call of attune.torch.sdpa; None where one does."""
    for term in UNKNOWN:
        if extras.get(term) is not None or options.get(term) is not None:
            return f"{term}: PyTorch's backward operator does not know it"
    mask, masks = extras["attn_mask"], options["causal"] or options["is_causal"]
    if mask is not None and mask.requires_grad:
        return "attn_mask: its own gradient is not computed"
    if mask is not None and mask.dim() not in (2, 4):
        return f"attn_mask: it has {mask.dim()} dimensions: 2 or 4 are needed for a gradient"
    if options["layout"] != "bhsd":
        return "layout: bhsd is needed for a gradient: give views, which costs nothing"
    if q.shape[-1] != v.shape[-1]:
        return f"v: its dim is {v.shape[-1]}, and q's {q.shape[-1]}: they must be equal for a gradient"
    if mask is not None and masks:
        return "attn_mask: with causal, PyTorch's backward operator takes none"
    if takes_flash(q, mask):
        return why_not_flash(q, k, options)
    return why_not_plain(q, k, options)


def takes_flash(q, mask):
    """Whether it is the operator of FlashAttention that computes the gradient."""
    return q.device.type == "cuda" and mask is None and q.dtype in (torch.float16, torch.bfloat16)


def why_not_flash(q, k, options):
    """It aligns bottom-right, and takes windows."""
    top_left = options["is_causal"] or options["offset"] == "tl"
    bounded = options["causal"] or options["is_causal"] or options["window"] is not None
    if bounded and ((top_left and q.shape[2] != k.shape[2]) or options["offset"] not in (None, "br", "tl")):
        return "causal: PyTorch's backward operator on CUDA aligns bottom-right only"
    return None


def why_not_plain(q, k, options):
    """Those of a CPU and of fp32 on CUDA align top-left, and have no window."""
    if options["window"] is not None:
        return "window: PyTorch's backward operator does not know it"
    if options["offset"] not in (None, "tl") or (options["causal"] and options["offset"] != "tl" and
                                                 q.shape[2] != k.shape[2]):
        return "causal: PyTorch's backward operator aligns top-left only"
    return None


def why_not_packed(q, v, extras, options):
    """The same for attune.torch.varlen."""
    for term in UNKNOWN:
        if extras.get(term) is not None or options.get(term) is not None:
            return f"{term}: PyTorch's backward operator does not know it"
    if not takes_flash(q, None):
        return (f"q: it is {q.dtype} on {q.device.type}: of packed sequences, gradients are computed for fp16 and bf16 "
                "on CUDA")
    if q.shape[-1] != v.shape[-1]:
        return f"v: its dim is {v.shape[-1]}, and q's {q.shape[-1]}: they must be equal for a gradient"
    if options["offset"] not in (None, "br"):
        return "offset: PyTorch's backward operator on CUDA aligns bottom-right only"
    return None


def finite(lse):
    """LSE as backward operators want it: a row that sees no key has no weights."""
    return torch.where(lse == float("-inf"), float("inf"), lse)


def window_of(options):
    """(left, right) as the operator of FlashAttention counts, -1 for no bound."""
    left, right = options["window"] or (-1, -1)
    return left, 0 if options["causal"] or options.get("is_causal") else right


def padded(tensors, multiple):
    """Each with zeros behind its rows, so that dims are multiples of what an operator loads at once."""
    rest = -tensors[0].shape[-1] % multiple
    return [torch.nn.functional.pad(t, (0, rest)) if rest else t for t in tensors]


def states(q, dtype):
    """The random state that a backward operator without dropout never reads."""
    return torch.empty(2, dtype=dtype, device=q.device), torch.empty((), dtype=dtype, device=q.device)


def from_flash(grad, q, k, v, o, lse, scale, window, cu=(None, None), longest=None):
    """dQ, dK and dV by FlashAttention's operator: rows [batch, seqlen, heads, dim], or packed."""
    dim = q.shape[-1]
    scale = dim**-0.5 if scale is None else scale
    grad, q, k, v, o = padded((grad, q, k, v, o), 8)
    most = longest or (q.shape[1], k.shape[1])
    causal = window[1] == 0 and window[0] < 0
    sides = {} if causal or window == (-1, -1) else {"window_size_left": window[0], "window_size_right": window[1]}
    found = torch.ops.aten._flash_attention_backward(grad, q, k, v, o, finite(lse), *cu, *most, 0.0, causal,
                                                     *states(q, torch.uint64), scale=scale, **sides)
    return [t[..., :dim] for t in found]


def from_efficient(grad, q, k, v, o, lse, mask, causal, scale):
    """dQ, dK and dV by the operator of the memory-efficient kernel: fp32, and masks, on CUDA."""
    dim, rows = q.shape[-1], q.shape[2]
    scale = dim**-0.5 if scale is None else scale
    grad, q, k, v, o = padded((grad, q, k, v, o), 8)
    # NOTE: its kernels for fp16 and bf16 take O's stride between rows to be heads * dim, and nobody checks it.
    o = o.transpose(1, 2).contiguous().transpose(1, 2)
    if mask is not None:
        mask = mask.expand(*q.shape[:3], k.shape[2])
        mask = torch.nn.functional.pad(mask, (0, -k.shape[2] % 16))[..., :k.shape[2]]
    lse = torch.nn.functional.pad(finite(lse), (0, -rows % 32), value=float("inf"))
    found = torch.ops.aten._scaled_dot_product_efficient_attention_backward(
        grad, q, k, v, mask, o, lse, *states(q, torch.int64), 0.0, [True, True, True, False], causal,
        scale=scale)
    return [t[..., :dim] for t in found[:3]]


def from_cpu(grad, q, k, v, o, lse, mask, causal, scale):
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, o, finite(lse), 0.0, causal, attn_mask=mask, scale=scale)


class Attention(torch.autograd.Function):
    """attune's forward pass; PyTorch's backward operator, given attune's O and LSE. It stands outside the operator, as
    that costs the least."""

    @staticmethod
    def forward(q, k, v, mask, window, scale, arguments):
        return torch.ops.attune.sdpa_lse(q, k, v, mask, *arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):  # apart from forward, as torch.func wants it
        q, k, v, mask, ctx.window, ctx.scale, _ = inputs
        ctx.save_for_backward(q, k, v, *output, mask)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        q, k, v, o, lse, mask = ctx.saved_tensors
        grad = grad.contiguous()
        if takes_flash(q, mask):
            rows = [t.transpose(1, 2) for t in (grad, q, k, v, o)]
            dq, dk, dv = (t.transpose(1, 2) for t in from_flash(*rows, lse, ctx.scale, ctx.window))
            return dq, dk, dv, None, None, None, None
        group = q.shape[1] // k.shape[1]
        keys, values = (t if group == 1 else t.repeat_interleave(group, 1) for t in (k, v))
        if mask is not None and mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, float("-inf"))
        elif mask is not None:
            mask = mask.to(q.dtype)
        by = from_cpu if q.device.type == "cpu" else from_efficient
        dq, dk, dv = by(grad, q, keys, values, o, lse, mask, ctx.window[1] == 0, ctx.scale)
        if group > 1:
            dk, dv = (t.unflatten(1, (k.shape[1], group)).sum(2) for t in (dk, dv))
        return dq, dk, dv, None, None, None, None


class Packed(torch.autograd.Function):
    """attune.torch.varlen with a gradient."""

    @staticmethod
    def forward(q, k, v, cu_q, cu_k, longest, window, scale, arguments):
        return torch.ops.attune.varlen_lse(q, k, v, cu_q, cu_k, *longest, *arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, cu_q, cu_k, ctx.longest, ctx.window, ctx.scale, _ = inputs
        ctx.save_for_backward(q, k, v, *output, cu_q, cu_k)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        q, k, v, o, lse, cu_q, cu_k = ctx.saved_tensors
        found = from_flash(grad.contiguous(), q, k, v, o, lse, ctx.scale, ctx.window, (cu_q, cu_k), ctx.longest)
        return *found, None, None, None, None, None, None
