"""Calls on PyTorch's tensors of kinds that have been seen, where attune._fast is not there to serve them: by Python, in
as few steps as that takes. What is of no kind that is known here goes the longer way, with the same answers."""
from __future__ import annotations

import sys

from attune.library import Call
from attune.plans import SPARE_CALLS, leave_room
from attune.tensors import Torch

FEW = 8  # kinds with a key in common: they differ in lengths of q, dtypes, strides
STREAM, WORKSPACE, WORKSPACE_BYTES = (getattr(Call, name).offset // 8 for name in
                                      ("stream", "workspace", "workspace_bytes"))

kinds = {}  # (shape of k, type of q, options): functions of q, k, v that serve a kind each
latest = {}  # (type of q, options): that of them which served the call before


def serve(q, k, v, key):
    """What `server` says of a call with this key, the type of q and the options; None where its kind is not known."""
    try:
        last = latest.get(key)
    except TypeError:  # an option that will be refused
        return None
    if last is None:
        return None
    made = last(q, k, v)
    return serve_other(q, k, v, key, last) if made is None else made


def serve_other(q, k, v, key, last):
    """The same by other kinds than the one that was asked."""
    try:
        known = kinds.get((k.shape, *key), ())
    except (AttributeError, RuntimeError):  # k has no shape
        return None
    for one in known:
        made = None if one is last else one(q, k, v)
        if made is not None:
            latest[key] = one
            return made
    return None


def learn(bound, kept, given, o, with_lse):
    """Serves calls of this kind from now on; False where this PyTorch has not what that takes. kept: the list of bound
    calls that `bound` is of; given: q, k, v and the options."""
    q, k, v, *options = given
    guards, empty, key = Torch.guards(), Torch.plain_empty(o.device), (type(q), *options)
    if guards is None or empty is None:
        return False
    wanted = not with_lse and (q.requires_grad or k.requires_grad or v.requires_grad)  # guards ask for no grad mode
    if wanted or q is k or q is v or k is v:  # which guards never let pass
        return True
    known = kinds.get((k.shape, *key), ())
    one = next((old for old in known if old.check(q, k, v)), None)
    if one is None:
        check = guards(q, k, v, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        one = server(bound, kept, check, empty, o, with_lse)
        leave_room(kinds, SPARE_CALLS)
        kinds[(k.shape, *key)] = (one, *known[:FEW - 1])
    leave_room(latest, SPARE_CALLS)
    latest[key] = one
    return True


def server(bound, kept, check, empty, o, with_lse):
    """A function of q, k, v that gives (O, LSE), without with_lse O alone; or None, and has written nothing, where they
    are not of the kind that `check` knows, all bound calls are in use, or the library refuses them."""
    take, keep, execute = kept.pop, kept.append, bound.execute
    at_q, at_k, at_v, at_o = bound.places[:4]
    at_lse = bound.places[4] if len(bound.places) > 4 else None
    shape, strides, dtype = tuple(o.shape), o.stride(), o.dtype
    rows, torch = shape[:3], sys.modules["torch"]
    steps, single, byte = (rows[1] * rows[2], rows[2], 1), torch.float32, torch.uint8
    device, number, room = bound.device, o.device.index, bound.room
    stream, current = Torch.raw_stream(), torch._C._cuda_getDevice if device is not None else None
    if device is not None and torch.cuda.device_count() == 1:
        current = None  # it always is this one

    def serve_kind(q, k, v):
        # NOTE: what has an address has sizes and strides, which `check` asks for, but for nested tensors; PyTorch ends
        # the process where they are not there.
        try:
            one, two, three = q.data_ptr(), k.data_ptr(), v.data_ptr()
            if q.is_nested or k.is_nested or v.is_nested:
                return None
        except Exception:  # whatever else is there instead of a plain tensor
            return None
        if not check(q, k, v) or (current is not None and current() != number):
            return None
        try:
            mine = take()
        except IndexError:
            return None
        words = mine.words
        made = empty(shape, strides, dtype)
        words[at_q] = one
        words[at_k] = two
        words[at_v] = three
        words[at_o] = made.data_ptr()
        if at_lse is not None:
            lse = empty(rows, steps, single)
            words[at_lse] = lse.data_ptr()
        if device is not None:
            words[STREAM] = stream(device)
        if room:
            memory = empty((room + 255,), (1,), byte)
            words[WORKSPACE] = memory.data_ptr() + 255 & -256
            words[WORKSPACE_BYTES] = room
        status = execute(*mine.arguments)
        keep(mine)
        if status:  # such as data that is not aligned: the longer way knows, or says why not
            return None
        return (made, lse if at_lse is not None else None) if with_lse else made

    serve_kind.check = check
    return serve_kind
