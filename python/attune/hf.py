"""attune for transformers: after register(), models take attn_implementation="attune"."""
from __future__ import annotations

import attune.torch
from attune.library import Error, Status


def forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **options):
    """What transformers calls: query [batch, heads_q, seqlen_q, dim], key and value with heads_kv; gives O as
    [batch, seqlen_q, heads_q, dim_v], and no weights. A mask says all of causality and window."""
    if dropout:
        raise Error(Status.UNSUPPORTED, f"dropout is {dropout}: attune has none: use model.eval()")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    causal = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    window = options.get("sliding_window")
    if attention_mask is not None:
        attention_mask = attention_mask[..., :key.shape[2]]
    window = (int(window) - 1, -1) if window is not None and attention_mask is None and is_causal else None
    sink = options.get("s_aux")
    o = attune.torch.sdpa(query, key, value, attn_mask=attention_mask, causal=causal, scale=scaling, enable_gqa=True,
                          window=window, softcap=options.get("softcap"),
                          sink=None if sink is None else sink.float())
    return o.transpose(1, 2).contiguous(), None


def register(name: str = "attune"):
    """Makes `name` an attn_implementation of transformers: the attention, and its mask, which is that of "sdpa"."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, sdpa_mask)
