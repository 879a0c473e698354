"""What attune.torch.install() does: attune in the place of PyTorch's own kernels of attention."""
from __future__ import annotations

import contextlib
import functools
import threading
import warnings

import torch

from attune import attention, tensors
from attune.attention import ALONE, CUDNN, FLASH, PAIR, with_lse
from attune.library import Error, Status
from attune.torch_gradients import finite

aten = torch.ops.aten
is_deterministic = getattr(torch._C, "_get_deterministic_algorithms", torch.are_deterministic_algorithms_enabled)
FLASH_SCHEMA = str(aten._scaled_dot_product_flash_attention.default._schema)
FAULTS = (Status.DEVICE_ERROR, Status.INTERNAL, Status.WRONG_RESULT)  # not refusals: nobody else is asked


class Calls:
    """How many calls of scaled_dot_product_attention attune served, how many PyTorch, and why the last of these."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.attune, self.pytorch, self.last_reason = 0, 0, ""

    def refused(self, error):
        """Counts a call for PyTorch; a fault is raised instead."""
        if error.status in FAULTS:
            raise error
        self.pytorch, self.last_reason = self.pytorch + 1, str(error)

    def __repr__(self):
        return f"<attune {self.attune}, PyTorch {self.pytorch}{self.last_reason and f': {self.last_reason}'}>"


calls = Calls()
installing = threading.RLock()
installed = []  # Libraries that override
users = []  # of use(), in any thread; None stands for install()


def serve(q, k, v, mask, dropout_p, is_causal, scale, form=PAIR):
    """What attention.with_lse gives, O with the strides of q; who asked computes gradients."""
    if dropout_p > 0:
        raise Error(Status.UNSUPPORTED, f"dropout_p is {dropout_p}: attune has no dropout")
    if mask is None:
        found = with_lse(q, k, v, is_causal, scale, is_deterministic(), form, rest)
    else:
        q, k, v = (t.detach() for t in (q, k, v))
        o, lse = attention.serve(q, k, v, attn_mask=mask, is_causal=is_causal, scale=scale, enable_gqa=True,
                                  return_lse=True, deterministic=is_deterministic())
        found = attention.in_form(q, k, o, lse, form, rest)
    calls.attune += 1
    return found


# ---- CPU -----------------------------------------------------------------------------------------------------------


def own(q, k, v, is_causal, mask, scale):
    """PyTorch's plain attention, and its LSE: the operator that is overridden cannot be called from inside."""
    group = q.shape[1] // k.shape[1]
    k, v = (t if group == 1 else t.repeat_interleave(group, 1) for t in (k, v))
    o, _ = aten._scaled_dot_product_attention_math(q, k, v, mask, 0.0, is_causal, None, scale=scale)
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).mT * (q.shape[-1]**-0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    return o, torch.logsumexp(scores if mask is None else scores + mask, -1)


def for_cpu(q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    """aten::_scaled_dot_product_flash_attention_for_cpu. O has the strides of q, LSE lies as [batch, seqlen, heads]."""
    mask = attn_mask.detach() if attn_mask is not None and attn_mask.requires_grad else attn_mask
    try:
        o, lse = serve(q, k, v, mask, dropout_p, is_causal, scale)
    except Error as error:
        if dropout_p > 0:  # PyTorch takes no such call to this kernel
            raise
        calls.refused(error)
        found, lse = own(q, k, v, is_causal, attn_mask, scale)
        o = tensors.Torch.empty(q, found.shape).copy_(found)
    if attn_mask is not None or k.shape[2] == 0:  # else every row sees a key
        lse = finite(lse)
    return o, lse if 1 in lse.shape[1:] else lse.transpose(1, 2).contiguous().transpose(1, 2)


# ---- CUDA ----------------------------------------------------------------------------------------------------------


def blank(q, form):
    """(seed, offset, debug mask) as the operator of this PyTorch has them: the random state, which nothing reads
    without dropout. New for each call, as outputs must be: CUDA graphs and compiled code own the memory of theirs."""
    if form == FLASH and "rng_state" in FLASH_SCHEMA:
        state = [torch.empty(shape, dtype=torch.uint64, device=q.device) for shape in ((2, ), ())]
    else:
        state = [torch.empty((), dtype=torch.int64, device=q.device) for _ in range(2)]
    return (*state, torch.empty(0, dtype=q.dtype, device=q.device) if form == FLASH else None)


@functools.lru_cache(None)
def has_column():
    """Whether cuDNN's LSE is [batch, heads, seqlen, 1] in this PyTorch: in 2.8 it has three dimensions."""
    q = torch.empty(1, 1, 1, 8, dtype=torch.float16, device="meta")
    return aten._scaled_dot_product_cudnn_attention(q, q, q, None, True)[1].dim() == 4


def rest(q, k, lse, form):
    """What operators give behind O."""
    lse = lse.unsqueeze(-1) if form == CUDNN and has_column() else lse
    return lse, None, None, q.shape[2], k.shape[2], *blank(q, form)


def check_square(q, k):
    """PyTorch's kernels do not agree on what causal means elsewhere, and its choice of one sees to that."""
    if q.shape[2] != k.shape[2]:
        raise Error(Status.UNSUPPORTED, f"is_causal: {q.shape[2]} queries and {k.shape[2]} keys are left to PyTorch")


def flash(q, k, v, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    """aten::_scaled_dot_product_flash_attention."""
    try:
        if is_causal:
            check_square(q, k)
        return serve(q, k, v, None, dropout_p, is_causal, scale, FLASH)
    except Error as error:
        calls.refused(error)
        rows = [t.transpose(1, 2) for t in (q, k, v)]
        o, lse, *state = aten._flash_attention_forward(*rows, None, None, q.shape[2], k.shape[2], dropout_p, is_causal,
                                                       return_debug_mask, scale=scale)
        return o.transpose(1, 2), lse, None, None, q.shape[2], k.shape[2], *state


def cudnn(q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False, *,
          scale=None):
    """aten::_scaled_dot_product_cudnn_attention. LSE, and what else a gradient needs, is there where it is asked for:
    it takes microseconds to make."""
    try:
        if is_causal:
            check_square(q, k)
        if attn_bias is not None and compute_log_sumexp:
            raise Error(Status.UNSUPPORTED, "attn_bias: with a gradient it is left to PyTorch")
        return serve(q, k, v, attn_bias, dropout_p, is_causal, scale, CUDNN if compute_log_sumexp else ALONE)
    except Error as error:
        calls.refused(error)
        return aten._cudnn_attention_forward(q, k, v, attn_bias, None, None, q.shape[2], k.shape[2], compute_log_sumexp,
                                             dropout_p, is_causal, return_debug_mask, scale=scale)


# ---- Installing ----------------------------------------------------------------------------------------------------

NAME = "attune"  # in PyTorch's registry of implementations of FlashAttention
OVERRIDES = (("_scaled_dot_product_flash_attention", flash, "_flash_attention_forward"),
             ("_scaled_dot_product_cudnn_attention", cudnn, "_cudnn_attention_forward"))


class Handle:
    """Kernels that are overridden until remove()."""

    def __init__(self, overridden):
        self.library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is overridden is what was asked for
            for name, function, key in overridden:
                self.library.impl(name, function, key)

    def remove(self):
        self.library._destroy()


def override_cuda():
    """Both kernels that PyTorch may choose, as far as it has what to fall back to."""
    return Handle([(name, function, "CUDA") for name, function, own_worker in OVERRIDES if hasattr(aten, own_worker)])


def registry():
    """PyTorch's own place for this, where it has one."""
    from torch.nn import attention as place
    return place if hasattr(place, "activate_flash_attention_impl") else None


def register():
    """Makes "attune" a name for torch.nn.attention.activate_flash_attention_impl, where PyTorch has that."""
    if registry():
        registry().register_flash_attention_impl(NAME, register_fn=override_cuda)


def install():
    """From here on attune serves torch.nn.functional.scaled_dot_product_attention: on a CPU where PyTorch would take
    its flash kernel, on CUDA where it would take FlashAttention's or cuDNN's. What attune refuses PyTorch computes.
    `calls` counts both. A second call does nothing."""
    with installing:
        if None not in users:
            users.append(None)
        override()


def override():
    """Takes the place of PyTorch's kernels, unless that was done."""
    if not installed:
        installed.append(Handle([("_scaled_dot_product_flash_attention_for_cpu", for_cpu, "CPU")]))
        if torch.cuda.is_available() and registry():
            registry().activate_flash_attention_impl(NAME)
        elif torch.cuda.is_available():
            installed.append(override_cuda())


def uninstall():
    """Gives PyTorch its own kernels back, at once; no other thread may be in its function just then."""
    with installing:
        had = bool(installed)
        users.clear()
        while installed:
            installed.pop().remove()
        place = registry()
        if had and place and place.current_flash_attention_impl() == NAME:
            place.restore_flash_attention_impl()


@contextlib.contextmanager
def use():
    """install() for the time of a `with`; one that is inside another, or after install(), changes nothing, and the last
    of those in several threads ends it."""
    mine = object()
    with installing:
        users.append(mine)
        override()
    try:
        yield calls
    finally:
        with installing:
            if mine in users:
                users.remove(mine)
                if not users:
                    uninstall()
