"""The roles of a problem's arrays: which it has, their shapes, and which sizes of a call they give; args.h says the
same in C."""
from __future__ import annotations

from attune.library import ROLES, invalid

FORWARD, APPEND, MERGE = 0, 2, 3
BATCH, HEAD, SEQUENCE, STATE, INNER = range(5)  # the first three as in attune_tensor.stride
ARRAYS = ("CU_Q", "CU_KV", "USED_KV", "SLOTS")  # plain and contiguous
REPEATED = ("BIAS", "MASK")  # one value may serve all of a dimension but the last
SIZES = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_kv", "total_q", "total_kv", "page_count",
         "page_table_width", "total_new", "states")
LIMITED = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_kv", "states")

PLACES = {"batch": BATCH, "page_count": BATCH, "heads_q": HEAD, "heads_kv": HEAD, "seqlen_q": SEQUENCE,
          "seqlen_kv": SEQUENCE, "total_q": SEQUENCE, "total_kv": SEQUENCE, "page_size": SEQUENCE,
          "total_new": SEQUENCE, "states": STATE}


class Role:
    """A role's dimensions: the names of their sizes, and what stride each is."""

    def __init__(self, name, text):
        self.name, self.names, self.index = name, tuple(text.split()), ROLES.index(name)
        last = len(self.names) - 1
        inner = name not in ("LSE", "STATE_LSE", "SINK", "SLOPES", "DRAFT_MASK")
        self.places = tuple([INNER if i == last and inner else PLACES[size] for i, size in enumerate(self.names)])
        self.text = f"[{', '.join(self.names)}]"


def roles_of(problem):
    """({role: Role} of what the problem has, the names of those that a call may leave out)."""
    if problem.op == APPEND:
        texts = of_append(problem)
    elif problem.op == MERGE:
        texts = of_merge()
    else:
        texts = of_forward(problem)
    if problem.sink:
        texts["SINK"] = "heads_q"
    if problem.seqused_kv:
        texts["USED_KV"] = "batch"
    if problem.varlen:
        texts["CU_Q"] = "batch+1"
    if problem.page_size and not problem.slots:
        texts["PAGE_TABLE_K"] = "batch page_table_width"
    if problem.page_table_v:
        texts["PAGE_TABLE_V"] = "batch page_table_width"
    return {name: Role(name, text) for name, text in texts.items()}, ("LSE",)


def cache_of(problem, rows):
    """The sizes before the head dim of K and V."""
    return "page_count heads_kv page_size" if problem.page_size else rows


def of_forward(problem):
    rows = "total_q heads_q" if problem.varlen else "batch heads_q seqlen_q"
    keys = cache_of(problem, "total_kv heads_kv" if problem.varlen else "batch heads_kv seqlen_kv")
    texts = {"Q": f"{rows} head_dim_qk", "K": f"{keys} head_dim_qk", "V": f"{keys} head_dim_v",
             "O": f"{rows} head_dim_v", "LSE": "heads_q total_q" if problem.varlen else rows}
    scores = "batch heads_q seqlen_q seqlen_kv"
    texts.update({role: scores for role, has in (("BIAS", problem.bias), ("MASK", problem.mask)) if has})
    if problem.alibi:
        texts["SLOPES"] = "heads_q"
    if problem.varlen and not problem.page_size:
        texts["CU_KV"] = "batch+1"
    if problem.draft_mask:
        texts["DRAFT_MASK"] = "total_q" if problem.varlen else "batch seqlen_q"
    return texts


def of_append(problem):
    keys = cache_of(problem, "batch heads_kv seqlen_kv")
    texts = {"K": f"{keys} head_dim_qk", "V": f"{keys} head_dim_v", "NEW_K": "total_new heads_kv head_dim_qk",
             "NEW_V": "total_new heads_kv head_dim_v"}
    return {**texts, "SLOTS": "total_new"} if problem.slots else texts


def of_merge():
    rows = "batch heads_q seqlen_q"
    return {"STATE_O": f"states {rows} head_dim_v", "STATE_LSE": f"states {rows}", "O": f"{rows} head_dim_v",
            "LSE": rows}


def written(problem):
    """The roles that a call writes."""
    return ("K", "V") if problem.op == APPEND else ("O", "LSE")


def sizes_of(problem, roles, views):
    """{size: value} of a call, by its arrays, each at most the problem's."""
    sizes, source = {"head_dim_qk": problem.head_dim_qk, "head_dim_v": problem.head_dim_v}, {}
    if problem.page_size:
        sizes["page_size"] = problem.page_size
    for name, view in views.items():
        for i, size in enumerate(roles[name].names):
            if size not in sizes and (name not in REPEATED or i == len(view.shape) - 1):
                sizes[size], source[size] = view.shape[i], name
    if "batch+1" in sizes and "batch" not in sizes:
        sizes["batch"], source["batch"] = sizes["batch+1"] - 1, source["batch+1"]
    fill_in(problem, sizes)
    for size in LIMITED:
        if sizes[size] > getattr(problem, size):
            raise invalid(f"{source.get(size, size)}: {size} is {sizes[size]}: this plan takes at most "
                          f"{getattr(problem, size)}")
    return sizes


def fill_in(problem, sizes):
    """What no array says: the problem's own, or what follows from the others."""
    if problem.op != FORWARD:
        heads = sizes.get("heads_q", sizes.get("heads_kv"))
        sizes["heads_q"] = sizes["heads_kv"] = heads
    if problem.page_size and "seqlen_kv" not in sizes:
        reach = sizes.get("page_table_width", problem.seqlen_kv) * problem.page_size
        sizes["seqlen_kv"] = min(problem.seqlen_kv, reach)
    for size in ("batch", "seqlen_q", "seqlen_kv"):
        sizes.setdefault(size, getattr(problem, size))
    sizes.setdefault("total_q", sizes["batch"] * sizes["seqlen_q"])
    sizes.setdefault("total_kv", sizes["batch"] * sizes["seqlen_kv"])
    for size in ("page_count", "page_table_width", "total_new", "states"):
        sizes.setdefault(size, 0)
    sizes["batch+1"] = sizes["batch"] + 1


def wanted_shape(problem, role, sizes):
    """The shape that an array of this role has in a call of these sizes."""
    wanted = [sizes[name] for name in role.names]
    if role.name == "BIAS":
        wanted[0] = 1 if problem.bias in (1, 3) else wanted[0]
        wanted[1] = 1 if problem.bias in (1, 2) else wanted[1]
    return tuple(wanted)


def fill(call, role, view):
    """Writes strides as C wants them. Those of dimensions with one index are never used: a contiguous array's, or 0
    where all indices read the same."""
    slot, name = call.tensor[role.index], role.name
    row = view.shape[-1] if role.places[-1] == INNER else 1
    span = max([row, *(stride * extent for extent, stride in zip(view.shape, view.strides) if extent > 1)])
    slot.stride[:] = (0, 0, 0)
    for place, extent, stride in zip(role.places, view.shape, view.strides):
        stride = stride if extent > 1 else 0 if name in REPEATED else span
        if place == STATE:
            setattr(call, "state_stride_o" if name == "STATE_O" else "state_stride_lse", stride)
        elif place != INNER:
            slot.stride[place] = stride
    if name in ARRAYS:
        slot.stride[0] = 1
