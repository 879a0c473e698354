"""Callables for test_python_worker.c."""


def plain(q, k, v, causal, scale):
    """Attention written out; the mask is bottom-right."""
    import torch
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = (q.float() @ k.float().transpose(-1, -2)) * (scale or q.shape[-1] ** -0.5)
    if causal:
        rows, columns = scores.shape[-2:]
        seen = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)
        scores = scores.masked_fill(~seen, float("-inf"))
    return (scores.softmax(-1) @ v.float()).to(q.dtype)


def sharper(q, k, v, causal, scale):
    """The scale one per cent too large."""
    return plain(q, k, v, causal, 1.01 * (scale or q.shape[-1] ** -0.5))


def narrow(q, k, v, causal, scale):
    """Half of what was asked for."""
    return plain(q, k, v, causal, scale)[..., ::2]


def broken(q, k, v, causal, scale):
    raise ValueError("out of sorts")


def leaves(q, k, v, causal, scale):
    raise SystemExit(0)
