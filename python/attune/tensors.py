"""What attune reads of an array, whoever made it: NumPy's, PyTorch's, and any with DLPack. Nothing is imported here: an
array that is given has its framework loaded.

A framework is a set of functions: `key` (all that a call depends on but where the data lies), `view` (the same taken
apart), `data` (where it lies), `empty`, `copy`, `stream`, `room`. `keys` and `places` are key and data of three arrays,
for calls that have been seen, where each tenth of a microsecond counts; a place is 0 where that is for `view` to see.
"""
from __future__ import annotations

import ctypes as c
import functools
import sys

from attune.library import Error, Status, invalid

FP32, FP16, BF16, INT32, BOOL = range(5)
DTYPE_NAMES = ("fp32", "fp16", "bf16", "int32", "bool")
DTYPE_BYTES = (4, 2, 2, 4, 1)
FLOATS = "float32, float16 or bfloat16"
WANTED = {**dict.fromkeys(("q", "k", "v", "out"), FLOATS), **dict.fromkeys(("alibi", "sink"), "float32"),
          **dict.fromkeys(("seqused", "cu_q", "cu_k"), "int32"), "attn_mask": f"bool, {FLOATS}"}
NAMED = {"float32": FP32, "float16": FP16, "bfloat16": BF16, "int32": INT32, "bool": BOOL}


class View:
    """An array taken apart: shape and strides in elements, an attune_dtype, a CUDA device's number or None on a CPU."""
    __slots__ = ("shape", "strides", "dtype", "device", "writable")

    def __init__(self, shape, strides, dtype, device=None, writable=True):
        self.shape, self.dtype = shape, dtype
        self.strides = contiguous(shape) if 0 in shape else strides  # what has no element may say anything
        self.device, self.writable = device, writable


def dtype_named(name, text):
    dtype = NAMED.get(text)
    if dtype is None:
        raise unknown_dtype(name, text)
    return dtype


def unknown_dtype(name, text):
    """The error that an array has none of attune's dtypes."""
    wanted = WANTED.get(name)
    return invalid(f"{name}: its dtype is {text}: " +
                   (f"{wanted} is needed" if wanted else f"{', '.join(NAMED)} are what attune knows"))


def check_floats(name, view):
    """That they are numbers to attend with."""
    if view.dtype not in (FP32, FP16, BF16):
        raise invalid(f"{name}: its dtype is {DTYPE_NAMES[view.dtype]}: {FLOATS} is needed")


def place(device):
    return "the CPU" if device is None else f"cuda:{device}"


def order_of(strides):
    """Dimensions from the outermost in, the last one innermost."""
    outer = range(len(strides) - 1)
    return [*sorted(outer, key=lambda i: -abs(strides[i])), len(strides) - 1]


def aligned(owner, address):
    """(owner, the first multiple of 256 from an address on)."""
    return owner, address + -address % 256


capsule_pointer = c.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
address_at = c.c_void_p.from_address


class ArrayStruct(c.Structure):
    """PyArrayInterface of NumPy's array protocol."""
    _fields_ = [("two", c.c_int), ("nd", c.c_int), ("typekind", c.c_char), ("itemsize", c.c_int), ("flags", c.c_int),
                ("shape", c.c_void_p), ("strides", c.c_void_p), ("data", c.c_void_p), ("descr", c.c_void_p)]


DATA_OF_ARRAY_STRUCT = ArrayStruct.data.offset

# ---- NumPy ---------------------------------------------------------------------------------------------------------

numpy_dtypes = {}  # dtype: (attune_dtype, bytes)


def numpy_dtype(name, dtype):
    known = numpy_dtypes.get(dtype)
    if known is None:
        if not dtype.isnative:
            raise invalid(f"{name}: its dtype is {dtype.str}, of the other byte order")
        known = numpy_dtypes[dtype] = dtype_named(name, dtype.name), dtype.itemsize
    return known


class NumPy:
    """numpy.ndarray; bf16 by ml_dtypes."""

    @staticmethod
    def key(array):
        return array.shape, array.strides, array.dtype

    @staticmethod
    def data(array):
        capsule = array.__array_struct__  # NumPy's protocol for C: a third of the time of __array_interface__
        return address_at(capsule_pointer(capsule, None) + DATA_OF_ARRAY_STRUCT).value or 0

    @staticmethod
    def keys(q, k, v):
        return q.shape, q.strides, q.dtype, k.shape, k.strides, k.dtype, v.shape, v.strides, v.dtype

    @staticmethod
    def places(q, k, v):
        return NumPy.data(q), NumPy.data(k), NumPy.data(v)

    @staticmethod
    def shape(_, array):
        return array.shape

    @staticmethod
    def is_writable(array):
        return array.flags.writeable

    @staticmethod
    def view(name, array):
        if isinstance(array, getattr(sys.modules["numpy"], "ma").MaskedArray):
            raise invalid(f"{name}: it is a masked array, whose mask attune would not see: give attn_mask")
        dtype, size = numpy_dtype(name, array.dtype)
        if any(stride % size for stride in array.strides):
            raise invalid(f"{name}: its strides {array.strides} are no multiples of its {size}-byte elements")
        return View(array.shape, tuple([stride // size for stride in array.strides]), dtype, None,
                    array.flags.writeable)

    @staticmethod
    def empty(like, shape, dtype=None):
        """Of these sizes, outer dimensions in the order of `like`'s, rows contiguous."""
        numpy = sys.modules["numpy"]
        if dtype is not None:
            return numpy.empty(shape, numpy.float32)
        if like.flags.c_contiguous:
            return numpy.empty(shape, like.dtype)
        order = order_of(like.strides)
        return numpy.empty([shape[i] for i in order], like.dtype).transpose([order.index(i) for i in range(len(order))])

    @staticmethod
    def maker(like, shape, dtype=None):
        """What `empty` does for arrays of `like`'s kind, as a function of one."""
        empty, kind = sys.modules["numpy"].empty, like.dtype
        if dtype is None and like.flags.c_contiguous:
            return lambda _: empty(shape, kind)
        return lambda q: NumPy.empty(q, shape, dtype)

    @staticmethod
    def is_whole(array):
        """Whether strides are multiples of an element, and data is aligned to one."""
        return array.flags.aligned and not any([stride % array.itemsize for stride in array.strides])

    @staticmethod
    def copy(array):
        return sys.modules["numpy"].array(array, order="C", copy=True, subok=False)

    @staticmethod
    def repeat(array, shape):
        numpy = sys.modules["numpy"]
        return numpy.ascontiguousarray(numpy.broadcast_to(array, shape))

    @staticmethod
    def stream(_):
        return None

    @staticmethod
    def check_planning(_):
        pass

    @staticmethod
    def room(count, _):
        """(what owns it, the address of `count` bytes at a multiple of 256), where `like` lies."""
        memory = sys.modules["numpy"].empty(count + 255, "u1")
        return aligned(memory, NumPy.data(memory))


# ---- PyTorch -------------------------------------------------------------------------------------------------------

torch_dtypes = {}  # torch.dtype: attune_dtype


def torch_dtype(name, dtype):
    known = torch_dtypes.get(dtype)
    if known is None:
        known = torch_dtypes[dtype] = dtype_named(name, str(dtype).rpartition(".")[2])
    return known


class Torch:
    """torch.Tensor, on the stream that is current in PyTorch."""

    @staticmethod
    def key(tensor):
        try:
            return (tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.is_neg(),
                    tensor.requires_grad and sys.modules["torch"].is_grad_enabled())
        except RuntimeError:
            return object()  # a kind without strides: no call is kept for it, and `view` says its name

    @staticmethod
    def keys(q, k, v):
        # A tensor on another device than q's has another number, or no address.
        try:
            return (q.shape, q.stride(), q.dtype, q.device, k.shape, k.stride(), k.dtype, k.get_device(), v.shape,
                    v.stride(), v.dtype, v.get_device(), q.is_neg() or k.is_neg() or v.is_neg(),
                    (q.requires_grad or k.requires_grad or v.requires_grad) and sys.modules["torch"].is_grad_enabled())
        except RuntimeError:
            return object()

    @staticmethod
    def places(q, k, v):
        try:
            return q.data_ptr(), k.data_ptr(), v.data_ptr()
        except RuntimeError:
            return 0, 0, 0

    @staticmethod
    def data(tensor):
        try:
            return tensor.data_ptr()
        except RuntimeError as error:
            raise invalid(f"a tensor has no memory of its own: {error}") from None

    @staticmethod
    def shape(_, tensor):
        return tuple(tensor.shape)

    @staticmethod
    def is_writable(_):
        return True

    @staticmethod
    def view(name, tensor):
        torch, kind = sys.modules["torch"], tensor.device.type
        if kind not in ("cpu", "cuda"):
            raise invalid(f"{name}: it is on {tensor.device}: cpu or cuda is needed")
        if tensor.is_nested or tensor.layout is not torch.strided or tensor.is_neg():
            raise invalid(f"{name}: a plain strided tensor is needed, not "
                          f"{'a nested one' if tensor.is_nested else tensor.layout}"
                          f"{', its sign pending' if tensor.is_neg() else ''}")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise invalid(f"{name}: it requires a gradient, which is not computed here: attune.torch.sdpa, "
                          "torch.no_grad() or detach() is needed")
        dtype = torch_dtype(name, tensor.dtype)
        try:
            freed = tensor.numel() > 0 and tensor.untyped_storage().nbytes() == 0
        except RuntimeError as error:
            raise invalid(f"{name}: it has no memory of its own: {error}") from None
        if freed:
            raise invalid(f"{name}: its memory has been freed")
        return View(tuple(tensor.shape), tensor.stride(), dtype, tensor.device.index if kind == "cuda" else None)

    @staticmethod
    def empty(like, shape, dtype=None):
        torch = sys.modules["torch"]
        if dtype is not None:
            return torch.empty(shape, dtype=torch.float32, device=like.device)
        if tuple(like.shape) == tuple(shape):
            return torch.empty_like(like)
        order = order_of(like.stride())
        made = torch.empty([shape[i] for i in order], dtype=like.dtype, device=like.device)
        return made.permute([order.index(i) for i in range(len(order))])

    @staticmethod
    def maker(like, shape, dtype=None):
        """As NumPy's. What Inductor's code makes its tensors with takes half the time of torch.empty_like, and knows no
        device but the current one."""
        torch, device, shape = sys.modules["torch"], like.device, tuple(shape)

        def plain(q):
            return Torch.empty(q, shape, dtype)

        try:
            # Memory that nobody writes to; on "meta" PyTorch would load four hundred modules first, for seconds.
            same = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device="cpu")
            layout = Torch.empty(same, shape, dtype)
        except RuntimeError:  # a device may have more memory than its host
            return plain
        strides, kind, empty = layout.stride(), layout.dtype, Torch.plain_empty(device)
        if empty is None:
            return plain
        if device.type == "cpu":
            return lambda _: empty(shape, strides, kind)
        current, number = torch._C._cuda_getDevice, device.index
        return lambda q: empty(shape, strides, kind) if current() == number else plain(q)

    @staticmethod
    def of_compiler(name):
        """A function that code of PyTorch's compiler calls; None where this PyTorch has none."""
        return getattr(getattr(getattr(sys.modules["torch"]._C, "_dynamo", None), "guards", None), name, None)

    @staticmethod
    def plain_empty(device):
        """A function (shape, strides, dtype): a tensor on the device, where that is the current one; None where this
        PyTorch has none."""
        torch, empty = sys.modules["torch"], Torch.of_compiler(f"_empty_strided_{device.type}")
        try:
            one = empty((2, 3), (1, 2), torch.float16)
        except (TypeError, RuntimeError):  # there is none, or another
            return None
        known = one.stride() == (1, 2) and one.dtype is torch.float16 and one.device.type == device.type
        return empty if known else None

    @staticmethod
    @functools.lru_cache(None)
    def guards():
        """The type of what compiled code asks whether tensors are as they were: Python's type, sizes, strides, dtype,
        device, what changes how a tensor is read (a sign that is pending), whether it requires a gradient. None where
        this PyTorch has none, or it does not see one of these."""
        torch, guards = sys.modules["torch"], Torch.of_compiler("TensorGuards")
        like, wide = torch.empty(2, 3, 5), torch.empty(2, 5, 3)
        others = (wide, wide.mT, like[:1], like.half(), like.to("meta"), torch._neg_view(like),
                  like.clone().requires_grad_(), torch.nn.Parameter(like, False))
        try:
            check = guards(like, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
            known = check(torch.empty(2, 3, 5)) and not any([check(other) for other in others])
        except (TypeError, RuntimeError):
            return None
        return guards if known else None

    @staticmethod
    def is_whole(_):
        return True

    @staticmethod
    def copy(tensor):
        return tensor.clone(memory_format=sys.modules["torch"].contiguous_format)

    @staticmethod
    def repeat(tensor, shape):
        return tensor.expand(shape).contiguous()

    @staticmethod
    @functools.lru_cache(None)
    def raw_stream():
        """A function of a device's number: the handle of the stream that is current there."""
        torch = sys.modules["torch"]
        return getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
            lambda device: torch.cuda.current_stream(device).cuda_stream)

    @staticmethod
    def stream(device):
        return Torch.raw_stream()(device)

    @staticmethod
    def check_planning(device):
        """That plans can be made now: while a CUDA graph is captured, nothing can be compiled or loaded."""
        cuda = sys.modules["torch"].cuda
        with cuda.device(device):
            if cuda.is_current_stream_capturing():
                raise Error(Status.UNSUPPORTED, "a CUDA graph is being captured, and calls of this kind have no plan "
                                                "yet: make one call before")

    @staticmethod
    def room(count, like):
        torch = sys.modules["torch"]
        memory = torch.empty(count + 255, dtype=torch.uint8, device=like.device)
        return aligned(memory, memory.data_ptr())


# ---- DLPack --------------------------------------------------------------------------------------------------------


class DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32),
                ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


CODES = {(2, 32): FP32, (2, 16): FP16, (4, 16): BF16, (0, 32): INT32, (6, 8): BOOL}
CPU_DEVICES, CUDA_DEVICES = (1, 3), (2, 13)  # plain, and what cudaMallocHost and cudaMallocManaged give
LEGACY_STREAM = 1  # what DLPack calls the default stream of CUDA


def exported(name, array):
    """(the capsule, which keeps the memory alive and frees it when it is let go; what it says)."""
    try:
        device_type, _ = array.__dlpack_device__()
        capsule = array.__dlpack__(stream=LEGACY_STREAM) if device_type in CUDA_DEVICES else array.__dlpack__()
        return capsule, DLTensor.from_address(capsule_pointer(capsule, b"dltensor"))
    except Exception as error:  # whatever a framework raises
        raise invalid(f"{name}: its __dlpack__ gives no tensor: {type(error).__name__}: {error}") from error


class DLPack:
    """Any array with __dlpack__ and __dlpack_device__. On CUDA, work goes to the legacy default stream, to which DLPack
    makes the array's own wait."""

    @staticmethod
    def key(array):
        try:
            view = DLPack.view("array", array)
        except Error:
            return object()  # no call is kept for it, and who reads it next says its name
        return view.shape, view.strides, view.dtype, view.device

    @staticmethod
    def data(array):
        _, tensor = exported("array", array)
        return (tensor.data or 0) + tensor.byte_offset

    @staticmethod
    def shape(name, array):
        return DLPack.view(name, array).shape

    @staticmethod
    def is_writable(_):
        return True

    @staticmethod
    def view(name, array):
        _, tensor = exported(name, array)
        if tensor.device_type not in (*CPU_DEVICES, *CUDA_DEVICES):
            raise invalid(f"{name}: it is on a device of DLPack's type {tensor.device_type}: a CPU (1) or CUDA (2) is "
                          "needed")
        dtype = CODES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
        if dtype is None:
            raise unknown_dtype(name, f"DLPack's type {tensor.code} of {tensor.bits} bits and {tensor.lanes} lanes")
        shape = tuple(tensor.shape[:tensor.ndim])
        strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else contiguous(shape)
        return View(shape, strides, dtype, None if tensor.device_type in CPU_DEVICES else tensor.device_id)

    @staticmethod
    def namespace(array):
        """The module that makes arrays like this one."""
        space = getattr(array, "__array_namespace__", None)
        space = space() if space else sys.modules.get(type(array).__module__.partition(".")[0])
        name = getattr(space, "__name__", "")
        if name.partition(".")[0] in ("jax", "jaxlib"):
            raise Error(Status.UNSUPPORTED, "JAX's arrays cannot be written to: use attune.jax.sdpa")
        if not hasattr(space, "empty_like"):
            raise Error(Status.UNSUPPORTED, f"{type(array).__name__}: {name or 'its module'} has no empty_like to make "
                                            "the output with: give out")
        return space

    @staticmethod
    def empty(like, shape, dtype=None):
        space = DLPack.namespace(like)
        if dtype is None and tuple(DLPack.view("q", like).shape) == tuple(shape):
            return space.empty_like(like)
        try:
            return space.empty(shape, dtype=like.dtype if dtype is None else space.float32)
        except Exception as error:
            raise Error(Status.UNSUPPORTED, f"{space.__name__}.empty gives no output of shape {tuple(shape)}: "
                                            f"{error}: give out") from error

    @staticmethod
    def keys(*arrays):
        return tuple([DLPack.key(array) for array in arrays])

    @staticmethod
    def places(*arrays):
        return [DLPack.data(array) for array in arrays]

    @staticmethod
    def maker(_, shape, dtype=None):
        return lambda q: DLPack.empty(q, shape, dtype)

    @staticmethod
    def is_whole(_):
        return True

    @staticmethod
    def copy(array):
        raise invalid(f"an array of {type(array).__name__} has strides that kernels do not take: contiguous rows are "
                      "needed, one behind the other (arrays of NumPy and PyTorch are copied)")

    @staticmethod
    def repeat(array, shape):
        raise invalid(f"attn_mask: rows of {shape[-1]} contiguous elements are needed (arrays of NumPy and PyTorch are "
                      "copied)")

    @staticmethod
    def stream(_):
        return LEGACY_STREAM

    @staticmethod
    def check_planning(_):
        pass

    @staticmethod
    def room(count, like):
        if like.__dlpack_device__()[0] in CPU_DEVICES:
            memory = (c.c_char * (count + 255))()
            return aligned(memory, c.addressof(memory))
        space = DLPack.namespace(like)
        memory = space.empty(count + 255, dtype=space.uint8)
        return aligned(memory, DLPack.data(memory))


def contiguous(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


# ---- Which one -----------------------------------------------------------------------------------------------------

frameworks = {}  # of types that have been seen


def framework_of(name, array):
    known = frameworks.get(type(array))
    if known is None:
        known = frameworks[type(array)] = find_framework(name, array)
    return known


def known(array):
    """The same; None where it is of none."""
    try:
        return framework_of("array", array)
    except Error:
        return None


def find_framework(name, array):
    for module, kind, framework in (("numpy", "ndarray", NumPy), ("torch", "Tensor", Torch)):
        loaded = getattr(sys.modules.get(module), kind, None)
        if loaded is not None and isinstance(array, loaded):
            return framework
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        return DLPack
    raise invalid(f"{name}: it is of type {type(array).__name__}: an array of NumPy, or one with __dlpack__, is needed")
