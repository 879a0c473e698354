"""attune._fast, an extension in C, where it can be had: it serves calls on PyTorch's tensors that have been seen.
Without it, with a PyTorch that has no table of DLPack's (before 2.10), or with ATTUNE_FAST=0 in the environment, Python
serves them (attune.recent), with the same answers."""
from __future__ import annotations

import ctypes as c
import importlib.util
import os
import sys

from attune import library, recent, tensors

NAME = "_fast.abi3.so"
AGAIN = 64  # calls served by Python of a kind that C has learned: it may have forgotten
# How PyTorch's versions call what makes a Python object of a tensor: all take its address.
WRAPS = tuple(f"_Z16THPVariable_Wrap{how}N2at10TensorBaseE" for how in ("RK", "O", ""))

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
    make_by_torch(made, torch)
    return made


def make_by_torch(made, torch):
    """Tensors are made by the functions of libtorch that compiled models use, where they can be found and do what is
    expected; else by torch.empty_like, which takes three times as long."""
    try:
        names = "libtorch_cpu.so", "libtorch_python.so"
        cpu, python = (c.CDLL(name, os.RTLD_NOLOAD | os.RTLD_LAZY) for name in names)
        wrap = next(getattr(python, name) for name in WRAPS if hasattr(python, name))
        made.make_by(address(cpu.aoti_torch_empty_strided), address(wrap), address(cpu.aoti_torch_delete_tensor_object),
                     address(cpu.aoti_torch_get_data_ptr))
    except (OSError, AttributeError, StopIteration):
        return
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int64, torch.uint64):
        like = torch.empty(2, 3, 5, dtype=dtype).mT
        one = made.empty_like(like)
        if type(one) is not torch.Tensor or one.stride() != like.stride() or one.shape != like.shape or \
                one.dtype is not dtype or one.device != like.device or one.requires_grad:
            return made.make_by(0, 0, 0, 0)
    read_by_torch(made, torch, cpu)


def read_by_torch(made, torch, cpu):
    """Likewise what is asked of each tensor: half a microsecond less."""
    try:
        core = c.CDLL("libc10.so", os.RTLD_NOLOAD | os.RTLD_LAZY)
        made.read_by(address(cpu._ZN2at6native6is_negERKNS_6TensorE),
                     address(core._ZNK3c1010TensorImpl13requires_gradEv), torch._C.TensorBase.__basicsize__)
    except (OSError, AttributeError):
        return
    one = torch.ones(3)
    parameter, wants = torch.nn.Parameter(one), one.clone().requires_grad_()
    known = {True: (one, one[1:], parameter.detach(), torch.nn.Parameter(one, False), torch._neg_view(one).clone()),
             False: (torch._neg_view(one), parameter, wants, wants * 2, parameter[1:])}
    if any(made.is_plain(tensor) is not plain for plain, of in known.items() for tensor in of):
        made.read_by(0, 0, 0)


def makers_of(bound, made):
    """Functions of q, each of which makes one of what `made` says, and the last the workspace."""
    empty, rest = sys.modules["torch"].empty, [(tensor.shape, tensor.dtype) for tensor in made[1:]]
    makers = [lambda q, shape=shape, dtype=dtype: empty(shape, dtype=dtype, device=q.device) for shape, dtype in rest]
    return (bound.make_output, *makers, lambda q: tensors.Torch.room(bound.room, q)[0])


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
