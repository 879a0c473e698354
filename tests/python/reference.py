"""Attention written out in NumPy: in fp64, and as a plain framework would in the arrays' own type (docs/numbers.md)."""
import numpy as np


def scores_of(q, k, case, rounded):
    """Scaled scores with everything that is added to them, rounded to a type after each step."""
    groups = q.shape[1] // k.shape[1]
    scale = case.get("scale") or q.shape[3] ** -0.5
    scores = rounded(np.matmul(q, np.repeat(k, groups, 1).transpose(0, 1, 3, 2)) * scale)
    if case.get("softcap"):
        scores = rounded(case["softcap"] * np.tanh(scores / case["softcap"]))
    mask = case.get("attn_mask")
    if mask is not None and mask.dtype != bool:
        scores = rounded(scores + mask.astype(scores.dtype))
    i, j = positions(scores.shape, case)
    if case.get("alibi") is not None:
        scores = rounded(scores - case["alibi"].astype(scores.dtype)[:, None, None] * np.abs(i - j))
    return scores


def positions(shape, case):
    """The positions of queries, [batch, 1, seqlen_q, 1], and of keys."""
    batch, _, rows, keys = shape
    used = np.full(batch, keys) if case.get("seqused") is None else case["seqused"].astype(np.int64)
    offset = "tl" if case.get("is_causal") else case.get("offset", "br")
    offset = used - rows if offset == "br" else np.full(batch, 0 if offset == "tl" else offset)
    return np.arange(rows)[:, None] + offset[:, None, None, None], np.arange(keys)


def seen_by(shape, case):
    """Which keys each query sees."""
    i, j = positions(shape, case)
    left, right = case.get("window") or (-1, -1)
    right = 0 if case.get("is_causal") or case.get("causal") else right
    seen = np.ones(shape, bool)
    if left >= 0:
        seen &= j >= i - left
    if right >= 0:
        seen &= j <= i + right
    if case.get("seqused") is not None:
        seen &= j < case["seqused"][:, None, None, None]
    if case.get("attn_mask") is not None and case["attn_mask"].dtype == bool:
        seen &= case["attn_mask"]
    return seen


def attention(q, k, v, case, dtype=None):
    """(O, LSE) in fp64; with a dtype, computed in fp32 with S and P rounded to it."""
    wide = np.float64 if dtype is None else np.float32

    def rounded(x):
        return x.astype(wide) if dtype is None else x.astype(dtype).astype(wide)

    scores = scores_of(q.astype(wide), k.astype(wide), case, rounded)
    scores = np.where(seen_by(scores.shape, case), scores, -np.inf)
    sink = case.get("sink")
    logits = scores if sink is None else np.concatenate(
        [scores, np.broadcast_to(sink.astype(wide)[:, None, None], (*scores.shape[:3], 1))], -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        top = logits.max(-1, keepdims=True, initial=-np.inf)
        weights = np.exp(logits - np.where(np.isfinite(top), top, 0))
        total = weights.sum(-1, keepdims=True)
        p = np.where(total > 0, weights / total, 0)[..., :scores.shape[3]]
        lse = (np.log(total) + np.where(np.isfinite(top), top, 0))[..., 0]
    return rounded(np.matmul(rounded(p), np.repeat(v.astype(wide), q.shape[1] // v.shape[1], 1))), lse


def rounding_of_scores(q, k, v, case):
    """What rounding each score in fp32 may cost, to first order: never less is allowed."""
    scores = scores_of(q.astype(float), k.astype(float), case, lambda x: x)
    sizes = scores_of(abs(q.astype(float)), abs(k.astype(float)), {**case, "softcap": None, "alibi": None},
                      lambda x: x)
    if scores.size == 0 or v.size == 0:
        return 0.0
    return 2.0 ** -24 * np.sqrt(max(q.shape[3], 9)) / 3 * (np.abs(sizes).max() + np.abs(scores).max()) * np.abs(v).max()


def ulp(dtype, largest):
    bits = {"float32": 23, "float16": 10, "bfloat16": 7}[dtype.name]
    return 2.0 ** (np.floor(np.log2(largest)) - bits) if largest > 0 else 0.0


def tolerance(q, k, v, case, redraws):
    """Rule 1's, with the naive error of the case and of redraws, which are (q, k, v) too."""
    exact, _ = attention(q, k, v, case)
    naive = max([np.abs(attention(*one, case, q.dtype)[0] - attention(*one, case)[0]).max(initial=0)
                 for one in [(q, k, v), *redraws]])
    naive = max(naive, float(rounding_of_scores(q, k, v, case)))
    return (3 if case.get("softcap") else 2) * naive + 4 * ulp(q.dtype, np.abs(exact).max(initial=0))
