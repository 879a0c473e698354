"""attune for transformers: after register(), models take attn_implementation="attune"."""
from __future__ import annotations

import torch

import attune.torch
from attune.library import Error, Status


def forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **options):
    """What transformers calls: query [batch, heads_q, seqlen_q, dim], key and value with heads_kv; gives O as
    [batch, seqlen_q, heads_q, dim_v], and no weights. A mask says all of causality and window."""
    if dropout:
        raise Error(Status.UNSUPPORTED, f"dropout is {dropout}: attune has none: use model.eval()")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    window = options.get("sliding_window")
    if window is not None and window == getattr(attention_mask, SAYS_WINDOW, None) and \
            not (query.requires_grad and torch.is_grad_enabled()):  # gradients are computed of masks, not of windows
        attention_mask = None
    causal = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    if attention_mask is not None:
        attention_mask = attention_mask[..., :key.shape[2]]
    window = (int(window) - 1, -1) if window is not None and attention_mask is None and is_causal else None
    sink = options.get("s_aux")
    # Without a mask a prompt stands at the beginning of a cache that may be longer, as PyTorch's is_causal has it.
    o = attune.torch.sdpa(query, key, value, attn_mask=attention_mask, is_causal=causal, scale=scaling,
                          enable_gqa=True, window=window, softcap=options.get("softcap"),
                          sink=None if sink is None else sink.float())
    return o.transpose(1, 2).contiguous(), None


SAYS_WINDOW = "attune_window"  # an attribute of masks that say no more than that there is this sliding window


def same_function(one, other):
    """Whether functions do the same as far as one can see: code and what is bound to it."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return all(same_function(*pair) for pair in zip(one, other))
    code = getattr(one, "__code__", None)
    if code is None or code is not getattr(other, "__code__", None):
        return type(one) is type(other) and isinstance(one, (int, type(None))) and one == other
    bound = [[cell.cell_contents for cell in function.__closure__ or ()] for function in (one, other)]
    return same_function(*map(tuple, bound))


def is_window_alone(options):
    """Whether the mask that these arguments of sdpa_mask ask for hides nothing but what is outside of a sliding window
    aligned bottom-right, in a call where attune's alignments are that."""
    from transformers.masking_utils import sliding_window_causal_mask_function
    window, asked = options.get("local_size"), options.get("attention_mask")
    sizes = [options.get(name, 0) for name in ("q_length", "kv_length", "q_offset", "kv_offset")]
    if torch.compiler.is_compiling() or not options.get("allow_is_causal_skip", True) or \
            any(type(n) is not int for n in (window, *sizes)):
        return False
    q_length, kv_length, q_offset, kv_offset = sizes
    return (q_length in (1, kv_length) and q_offset - kv_offset == kv_length - q_length and
            same_function(options.get("mask_function"), sliding_window_causal_mask_function(window)) and
            (asked is None or bool(asked.all())))


def mask(*given, **options):
    """The mask of "sdpa". Kernels for a window read less than those for a mask, and split the keys of a single query
    among them: where a window is all that the mask says, it says so."""
    from transformers.masking_utils import sdpa_mask
    made = sdpa_mask(*given, **options)
    if made is not None and not given and is_window_alone(options):
        setattr(made, SAYS_WINDOW, options["local_size"])
    return made


def of_layer(lengths, window):
    """What transformers says for each kind of layer, for one of them."""
    kind = "full_attention" if window is None else "sliding_attention"
    return lengths[kind] if isinstance(lengths, dict) else lengths


def paged(module, query, key, value, attention_mask=None, dropout=0.0, scaling=None, cache=None, cu_seq_lens_q=None,
          cu_seq_lens_k=None, max_seqlen_q=None, max_seqlen_k=None, **options):
    """The same for continuous batching, as packed sequences: query [1, heads_q, total_q, dim]; keys and values are
    those that the paged cache gives for the batch, [total_kv, heads_kv, dim]. Lengths say what the mask would."""
    if dropout:
        raise Error(Status.UNSUPPORTED, f"dropout is {dropout}: attune has none: use model.eval()")
    window, sink = getattr(module, "sliding_window", None) or None, options.get("s_aux")
    if cache is not None:
        key, value = cache.update(key, value, module.layer_idx, **options)
    else:
        key, value = (t.squeeze(0).transpose(0, 1) for t in (key, value))
    cu_k, max_k = of_layer(cu_seq_lens_k, window), of_layer(max_seqlen_k, window)
    o = attune.torch.varlen(query.squeeze(0).transpose(0, 1), key, value, cu_seq_lens_q.int(), cu_k.int(),
                            int(max_seqlen_q), int(max_k), causal=True, scale=scaling,
                            window=None if window is None else (int(window) - 1, 0), softcap=options.get("softcap"),
                            sink=None if sink is None else sink.float())
    return o.unsqueeze(0), None


def register(name: str = "attune"):
    """Makes `name` an attn_implementation of transformers: the attention, and its mask, that of "sdpa"; and
    `name`_paged one for continuous batching, in transformers before 5."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface
    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, mask)
    AttentionInterface.register(f"{name}_paged", paged)
