"""attune: fused scaled dot-product attention, planned and run on NumPy's arrays, PyTorch's tensors and DLPack's.

    import attune
    o = attune.sdpa(q, k, v, is_causal=True)                   # arrays [batch, heads, seqlen, dim]
    plan = attune.plan("b2,h32,hkv8,s4096,d128,bf16,causal")   # sizes are maxima
    o = plan.run(Q=q, K=k, V=v)

What fails raises attune.Error, with a status and a sentence. docs/python.md is the guide.
"""
from __future__ import annotations

from attune.attention import sdpa
from attune.library import Error, Status
from attune.packed import varlen
from attune.plans import BoundCall, Context, Plan, plan

TYPE_CHECKING = False  # as in attention.py
if TYPE_CHECKING:
    from attune.command import bench, gate, info

__all__ = ["BoundCall", "Context", "Error", "Plan", "Status", "bench", "gate", "info", "plan", "sdpa",
           "varlen"]


def __getattr__(name):
    if name in ("torch", "hf", "jax"):  # what they are for is loaded when they are asked for
        import importlib
        try:
            return importlib.import_module(f"attune.{name}")
        except ModuleNotFoundError as error:
            raise AttributeError(f"attune.{name} cannot be had: {error}") from error
    if name in ("bench", "gate", "info"):  # likewise
        from attune import command
        return getattr(command, name)
    raise AttributeError(f"module 'attune' has no attribute {name!r}")
