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


def rows_of(pool, table, length):
    """[heads, length, dim] of a sequence, by its pages; entries behind them may hold anything."""
    pages = table[:-(-length // pool.shape[2])].long()
    return pool[pages].transpose(0, 1).flatten(1, 2)[:, :length]


def sees(rows, keys, length_q, length_kv, causal, window):
    """Which of some queries' rows sees which key."""
    import torch
    apart = torch.arange(keys) - torch.arange(rows)[:, None] - (length_kv - length_q)
    left, right = window or (-1, -1)
    right = 0 if causal else right
    seen = (torch.arange(keys) < length_kv).expand(rows, keys)
    return seen & (apart >= -left if left >= 0 else True) & (apart <= right if right >= 0 else True)


def one(q, k, v, seen, scale, softcap, alibi):
    """Attention of one sequence, [heads, rows, dim], where something may be hidden from all."""
    import torch
    groups = q.shape[0] // k.shape[0]
    k, v = (x.repeat_interleave(groups, 0).double() for x in (k, v))
    scores = q.double() @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if alibi is not None:
        apart = torch.arange(k.shape[1]) - torch.arange(q.shape[1])[:, None] - (k.shape[1] - q.shape[1])
        scores = scores - alibi[:, None, None].double() * apart.abs()
    scores = scores.masked_fill(~seen, float("-inf"))
    weights = torch.where(seen.any(-1, keepdim=True), scores, 0.0).softmax(-1).where(seen, torch.zeros(()).double())
    return (weights @ torch.where(seen.any(-2)[:, None], v, 0.0)).to(q.dtype)


def serving(q, k, v, causal, scale, seqused, page_table, page_table_v=None, softcap=0, window=None):
    """Decoding with pages: K and V are pools."""
    import torch
    made = []
    for i, length in enumerate(seqused.tolist()):
        keys = rows_of(k, page_table[i], length)
        values = rows_of(v, (page_table if page_table_v is None else page_table_v)[i], length)
        seen = sees(q.shape[2], length, q.shape[2], length, causal, window)
        made.append(one(q[i], keys, values, seen, scale, softcap, None))
    return torch.stack(made)


def packed(q, k, v, causal, scale, cu_q, cu_kv, seqlen_q, alibi=None):
    """Packed sequences: [rows, heads, dim]."""
    import torch
    output, ends, key_ends = torch.empty_like(q[..., :1]).expand(-1, -1, v.shape[-1]).contiguous(), cu_q, cu_kv
    for i in range(len(ends) - 1):
        assert ends[i + 1] - ends[i] <= seqlen_q
        own, keys = slice(ends[i], ends[i + 1]), slice(key_ends[i], key_ends[i + 1])
        length_q, length_kv = int(ends[i + 1] - ends[i]), int(key_ends[i + 1] - key_ends[i])
        seen = sees(length_q, length_kv, length_q, length_kv, causal, None)
        output[own] = one(q[own].transpose(0, 1), k[keys].transpose(0, 1), v[keys].transpose(0, 1), seen, scale, 0,
                          alibi).transpose(0, 1)
    return output


def planned(**_):
    raise AssertionError("what has been prepared is called instead")


def prepare(q, k, v, causal, scale, seqused, page_table):
    """As libraries do that plan a step before they run it."""
    lengths = seqused.clone()
    return lambda: serving(q, k, v, causal, scale, lengths, page_table)


planned.prepare = prepare
