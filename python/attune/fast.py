"""attune._fast, an extension in C, where it can be had: it serves calls on PyTorch's tensors that have been seen.
Without it, with a PyTorch that has no table of DLPack's (before 2.10), or with ATTUNE_FAST=0 in the environment, Python
serves them (attune.recent), with the same answers."""
from __future__ import annotations

import ctypes as c
import functools
import importlib.util
import os
import sys

from attune import library, recent, tensors

NAME = "_fast.abi3.so"
AGAIN = 64  # calls served by Python of a kind that C has learned: it may have forgotten

table = None  # of this process, once `opened`
opened = False


def find():
    """The extension: in this package, or beside the library; None where there is none that can be loaded."""
    folders = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(library.default().path)]
    for folder in folders:
        path = os.path.join(folder, NAME)
        if folder and os.path.exists(path):
            spec = importlib.util.spec_from_file_location("attune._fast", path)
            try:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return module
            except ImportError:  # of another machine, or an interpreter without a stable interface
                continue
    return None


def fail(status):
    raise library.default().failure(status)


def address(function):
    return c.cast(function, c.c_void_p).value


def open_table():
    torch = sys.modules["torch"]
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    module = None if exchange is None or os.environ.get("ATTUNE_FAST") == "0" else find()
    if module is None:
        return None
    try:
        made = module.Table(exchange, torch.Tensor, torch.nn.Parameter, torch.Tensor.is_neg,
                            address(library.default().execute), fail)
    except ValueError:  # a table that it does not know
        return None
    read_by_torch(made, torch)
    spare_by_torch(made)
    return made


POOLS = ("libtorch_cuda.so", "_ZN2at4cuda7MemPool4uid_E"), ("libc10_cuda.so", "_ZN3c104cuda7MemPool4uid_E")


def spare_by_torch(made):
    """Outputs of calls on a device are made ahead where it can be seen whether that is allowed."""
    for name, pools in POOLS:
        try:
            core, cuda = (c.CDLL(library, os.RTLD_NOLOAD | os.RTLD_LAZY) for library in ("libc10.so", name))
            made.spare_by(address(core._ZN3c1013InferenceMode10is_enabledEv),
                          c.addressof(c.c_uint64.in_dll(cuda, pools)))
            return
        except (OSError, AttributeError, ValueError):
            continue


def read_by_torch(made, torch):
    """What is asked of each tensor is asked by functions of libtorch, where they can be found and say what is expected:
    half a microsecond less than by Python's."""
    with torch.inference_mode(False), torch.enable_grad():  # whatever the call is made in, of which this is learned
        one = torch.ones(3, device="cpu")
        parameter, wants = torch.nn.Parameter(one), one.clone().requires_grad_()
        known = {True: (one, one[1:], parameter.detach(), torch.nn.Parameter(one, False), torch._neg_view(one).clone()),
                 False: (torch._neg_view(one), parameter, wants, wants * 2, parameter[1:])}
    try:
        cpu, core = (c.CDLL(name, os.RTLD_NOLOAD | os.RTLD_LAZY) for name in ("libtorch_cpu.so", "libc10.so"))
        made.read_by(address(cpu._ZN2at6native6is_negERKNS_6TensorE),
                     address(core._ZNK3c1010TensorImpl13requires_gradEv), one, torch._C.TensorBase.__basicsize__,
                     one._cdata)
    except (OSError, AttributeError):
        return
    if any(made.is_plain(tensor) is not plain for plain, of in known.items() for tensor in of):
        made.read_by(0, 0, one, 0, 0)


def maker_of(shape, strides, dtype, device, other):
    """How C makes a tensor: what compiled code calls (a function, or None, and its arguments), and a function of q."""
    return tensors.Torch.plain_empty(device), (tuple(shape), tuple(strides), dtype), other


def makers_of(bound, made):
    """Of each of what `made` says, and the last of the workspace."""
    torch, makers = sys.modules["torch"], []
    for tensor in made:
        shape, dtype, device = tensor.shape, tensor.dtype, tensor.device
        other = bound.make_output if not makers else functools.partial(empty_beside, shape, dtype)
        makers.append(maker_of(shape, tensor.stride(), dtype, device, other))
    room = bound.room + 255
    return (*makers, maker_of((room, ), (1, ), torch.uint8, made[0].device,
                              functools.partial(empty_beside, (room, ), torch.uint8)))


def empty_beside(shape, dtype, q):
    return sys.modules["torch"].empty(shape, dtype=dtype, device=q.device)


def learn(bound, kept, given, made, with_lse):
    """Says to C what a call was that Python has served, or where there is no C to attune.recent, unless that was done
    lately. kept: the list of bound calls that it came from; given: q, k, v and the options, as C takes them; made: what
    was given back."""
    global table, opened
    bound.lessons += 1
    if bound.lessons % AGAIN != 1:
        return
    if not opened:
        table, opened = open_table(), True
    if table is None:
        if not recent.learn(bound, kept, given, made[0], with_lse):
            bound.lessons = None
        return
    from attune import attention
    attention.fast_sdpa, attention.fast_with_lse = table.sdpa, table.with_lse
    made = tuple(part for part in made if type(part) is sys.modules["torch"].Tensor)
    try:
        table.learn(given, made, bound.pointer.value, bytes(bound.call), bound.align, bound.room,
                    makers_of(bound, made), bound.plan)
    except ValueError:  # of another version of the library
        table, bound.lessons = None, None
        attention.fast_sdpa = attention.fast_with_lse = None
