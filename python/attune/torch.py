"""attune for PyTorch: attention as an operator with gradients, and as what serves PyTorch's own function.

    import attune.torch
    o = attune.torch.sdpa(q, k, v, is_causal=True)
    with attune.torch.use():                      # or install() ... uninstall()
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v)

Importing this changes nothing of PyTorch's.
"""
from __future__ import annotations

import torch

from attune import attention, packed, tensors, torch_gradients, torch_serving
from attune.library import Error, Status, invalid
from attune.torch_serving import calls, install, installed, uninstall, use

__all__ = ["calls", "install", "installed", "sdpa", "uninstall", "use", "varlen"]

ARGUMENTS = ("Tensor q, Tensor k, Tensor v, Tensor? attn_mask, Tensor? alibi, Tensor? sink, Tensor? seqused, "
             "bool is_causal, float? scale, bool enable_gqa, str layout, bool causal, str? offset, int[]? window, "
             "float? softcap, bool strict, bool tf32, bool deterministic")
PACKED = ("Tensor q, Tensor k, Tensor v, Tensor cu_q, Tensor cu_k, SymInt max_q, SymInt max_k, Tensor? alibi, "
          "Tensor? sink, Tensor? seqused, float? scale, bool causal, str? offset, int[]? window, float? softcap, "
          "bool strict, bool tf32, bool deterministic")
TAG = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)

library = torch.library.Library("attune", "DEF")
library.define(f"sdpa({ARGUMENTS}) -> Tensor", tags=(TAG,))
library.define(f"sdpa_lse({ARGUMENTS}) -> (Tensor, Tensor)", tags=(TAG,))
library.define(f"varlen({PACKED}) -> Tensor", tags=(TAG,))
library.define(f"varlen_lse({PACKED}) -> (Tensor, Tensor)", tags=(TAG,))


def output_for(q, v, layout):
    """What O and LSE of a call are made as, fake or real."""
    batch, heads, seqlen, _ = [q.shape[i] for i in attention.LAYOUTS[layout]]
    return tensors.Torch.empty(q, (*q.shape[:3], v.shape[3])), (batch, heads, seqlen)


def number_of(offset):
    try:
        return offset if offset in (None, "br", "tl") else int(offset)
    except ValueError:
        return offset  # which is refused by its name


def operate(want_lse, q, k, v, attn_mask, alibi, sink, seqused, is_causal, scale, enable_gqa, layout, causal, offset,
            window, softcap, strict, tf32, deterministic):
    out = output_for(q, v, layout)[0] if q.dim() == 4 and v.dim() == 4 else None
    return attention.serve(q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa,
                           layout=layout, alibi=alibi, sink=sink, seqused=seqused, causal=causal,
                           offset=number_of(offset), window=window and tuple(window), softcap=softcap, strict=strict,
                           tf32=tf32, deterministic=deterministic, out=out, return_lse=want_lse)


def run_sdpa(*arguments):
    return operate(False, *arguments)


def run_sdpa_lse(*arguments):
    return operate(True, *arguments)


def fake_sdpa(q, k, v, *rest):
    return output_for(q, v, rest[7])[0]


def fake_sdpa_lse(q, k, v, *rest):
    o, rows = output_for(q, v, rest[7])
    return o, q.new_empty(rows, dtype=torch.float32)


def operate_packed(want_lse, q, k, v, cu_q, cu_k, max_q, max_k, alibi, sink, seqused, scale, causal, offset, window,
                   softcap, strict, tf32, deterministic):
    return packed.varlen(q, k, v, cu_q, cu_k, max_q, max_k, alibi=alibi, sink=sink, seqused=seqused, scale=scale,
                         causal=causal, offset=number_of(offset), window=window and tuple(window), softcap=softcap,
                         strict=strict, tf32=tf32, deterministic=deterministic, return_lse=want_lse)


def run_varlen(*arguments):
    return operate_packed(False, *arguments)


def run_varlen_lse(*arguments):
    return operate_packed(True, *arguments)


def fake_varlen(q, k, v, *_):
    return tensors.Torch.empty(q, (*q.shape[:2], v.shape[2]))


def fake_varlen_lse(q, k, v, *_):
    return fake_varlen(q, k, v), q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)


for name, run, fake in (("sdpa", run_sdpa, fake_sdpa), ("sdpa_lse", run_sdpa_lse, fake_sdpa_lse),
                        ("varlen", run_varlen, fake_varlen), ("varlen_lse", run_varlen_lse, fake_varlen_lse)):
    library.impl(name, run, "CPU")
    library.impl(name, run, "CUDA")
    torch.library.register_fake(f"attune::{name}", fake, lib=library)
torch_serving.register()

# ---- Functions -------------------------------------------------------------------------------------------------------


def check_types(given):
    for name, tensor in given.items():
        if not isinstance(tensor, torch.Tensor):
            raise invalid(f"{name}: it is of type {type(tensor).__name__}: a torch.Tensor is needed")


def check_devices(q, given):
    for name, tensor in given.items():
        if tensor is not None and tensor.device != q.device:
            raise invalid(f"{name}: it is on {tensor.device}, and q on {q.device}: one device is needed")


def autocast(*tensors_):
    """In the dtype of autocast, where it is on."""
    kind = tensors_[0].device.type
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return tensors_
    dtype = torch.get_autocast_dtype(kind)
    return [tensor.to(dtype) for tensor in tensors_]


# What says that somebody listens, or changes what functions mean.
listeners = [getattr(torch._C, name, None) for name in
             ("_is_any_autocast_enabled", "_len_torch_dispatch_stack", "_len_torch_function_stack")]
listeners.append(getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None))
any_autocast, dispatch_modes, function_modes, transform = listeners
can_tell = None not in listeners


def is_quiet():
    """Whether there is no compiler, no autocast and nobody who listens."""
    return not torch.compiler.is_compiling() and can_tell and not (any_autocast() or dispatch_modes() or
                                                                  function_modes() or transform())


PLAIN = torch.Tensor, torch.nn.Parameter


def is_plain(*given):
    """Whether nothing but the values is wanted of a quiet call on these, so that it need not be an operator."""
    wants = False
    for tensor in given:
        if type(tensor) not in PLAIN:
            return False
        wants = wants or tensor.requires_grad
    return not (wants and torch.is_grad_enabled()) and (given[0].is_cuda or given[0].is_cpu)


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, attn_mask: torch.Tensor | None = None,
         is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, layout: str = "bhsd",
         causal: bool = False, offset: int | str | None = None, window: tuple[int | None, int | None] | None = None,
         softcap: float | None = None, alibi: torch.Tensor | None = None, sink: torch.Tensor | None = None,
         seqused: torch.Tensor | None = None, strict: bool = False, tf32: bool = False,
         deterministic: bool | None = None,
         return_lse: bool = False) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """attune.sdpa for tensors of PyTorch, with the same arguments: under torch.compile without a graph break, under
    autocast in its dtype, and with gradients of q, k and v where PyTorch's backward operator takes the problem.

    deterministic None: what torch.use_deterministic_algorithms says. tf32: this argument alone decides, whatever
    torch.backends.cuda.matmul.allow_tf32 says. return_lse: (O, LSE), LSE without gradient. Raises attune.Error;
    UNSUPPORTED, with the reason, where a gradient is required that cannot be computed."""
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    quiet = is_quiet()
    if quiet and attn_mask is alibi is sink is seqused is offset is window is softcap is None and \
            not (causal or strict or tf32 or deterministic or return_lse):
        if attention.fast_sdpa is not None:
            made = attention.fast_sdpa(q, k, v, is_causal, scale, enable_gqa, layout)
            if made is not None:
                return made
        if is_plain(q, k, v):
            return attention.serve(q, k, v, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa, layout=layout)
    present = [t for t in (q, k, v, attn_mask, alibi, sink, seqused) if t is not None]
    if quiet and is_plain(*present):
        window = tuple(window) if isinstance(window, list) else window
        terms = {"causal": causal, "offset": offset, "window": window, "softcap": softcap, "alibi": alibi, "sink": sink,
                 "seqused": seqused, "strict": strict, "tf32": tf32, "deterministic": deterministic,
                 "return_lse": return_lse}
        given = {name: value for name, value in terms.items() if value is not None and value is not False}
        return attention.serve(q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa,
                               layout=layout, **given)
    check_types({"q": q, "k": k, "v": v})
    if not isinstance(layout, str) or layout not in attention.LAYOUTS:
        raise invalid(f"layout: it is {layout!r}: {', '.join(attention.LAYOUTS)} are allowed")
    extras = {"attn_mask": attn_mask, "alibi": alibi, "sink": sink, "seqused": seqused}
    check_devices(q, {"k": k, "v": v, **extras})
    q, k, v = autocast(q, k, v)
    options = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa, "layout": layout, "causal": causal,
               "offset": None if offset is None else str(offset), "window": None if window is None else list(window),
               "softcap": softcap, "strict": strict, "tf32": tf32, "deterministic": deterministic}
    arguments = (alibi, sink, seqused, *options.values())
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (q, k, v, *extras.values())):
        why = torch_gradients.why_not(q, k, v, extras, options)
        if why is not None:
            raise Error(Status.UNSUPPORTED, f"a gradient is required, and cannot be computed: {why}")
        o, lse = torch_gradients.Attention.apply(q, k, v, attn_mask, torch_gradients.window_of(options), scale,
                                                   arguments)
        return (o, lse) if return_lse else o
    operator = torch.ops.attune.sdpa_lse if return_lse else torch.ops.attune.sdpa
    return operator(q, k, v, attn_mask, *arguments)


def varlen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_q: torch.Tensor, cu_k: torch.Tensor, max_q: int,
           max_k: int, *, scale: float | None = None, causal: bool = False, offset: int | str | None = None,
           window: tuple[int | None, int | None] | None = None, softcap: float | None = None,
           alibi: torch.Tensor | None = None, sink: torch.Tensor | None = None, seqused: torch.Tensor | None = None,
           strict: bool = False, tf32: bool = False, deterministic: bool | None = None,
           return_lse: bool = False) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """attune.varlen for tensors of PyTorch, with the same arguments: packed sequences, under torch.compile without a
    graph break, under autocast, and on CUDA with gradients of q, k and v where PyTorch's backward operator takes the
    problem: fp16 and bf16, equal dims, causal bottom-right, windows. Raises attune.Error as attune.torch.sdpa does."""
    check_types({"q": q, "k": k, "v": v, "cu_q": cu_q, "cu_k": cu_k})
    extras = {"alibi": alibi, "sink": sink, "seqused": seqused}
    check_devices(q, {"k": k, "v": v, "cu_q": cu_q, "cu_k": cu_k, **extras})
    q, k, v = autocast(q, k, v)
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    options = {"scale": scale, "causal": causal, "offset": None if offset is None else str(offset),
               "window": None if window is None else list(window), "softcap": softcap, "strict": strict,
               "tf32": tf32, "deterministic": deterministic}
    arguments = (alibi, sink, seqused, *options.values())
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (q, k, v, *extras.values())):
        why = torch_gradients.why_not_packed(q, v, extras, options)
        if why is not None:
            raise Error(Status.UNSUPPORTED, f"a gradient is required, and cannot be computed: {why}")
        o, lse = torch_gradients.Packed.apply(q, k, v, cu_q, cu_k, (max_q, max_k), torch_gradients.window_of(options),
                                              scale, arguments)
        return (o, lse) if return_lse else o
    operator = torch.ops.attune.varlen_lse if return_lse else torch.ops.attune.varlen
    return operator(q, k, v, cu_q, cu_k, max_q, max_k, *arguments)
