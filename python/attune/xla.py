"""XLA's calls of attune: what its C interface for foreign functions (xla/ffi/api/c_api.h) hands over, as arrays that
attune.sdpa takes."""
from __future__ import annotations

import ctypes as c
import json

from attune import attention, tensors
from attune.library import Error, Status

METADATA = 1  # the kind of an extension that asks what a handler was built for
INVALID_ARGUMENT, INTERNAL = 3, 13  # XLA_FFI_Error_Code
DTYPES = {11: tensors.FP32, 10: tensors.FP16, 16: tensors.BF16, 4: tensors.INT32, 1: tensors.BOOL}


class Extension(c.Structure):
    _fields_ = [("size", c.c_size_t), ("kind", c.c_int), ("next", c.c_void_p)]


HEAD = [("size", c.c_size_t), ("extension", c.POINTER(Extension))]


class Version(c.Structure):
    _fields_ = [*HEAD, ("major", c.c_int), ("minor", c.c_int)]


class Metadata(c.Structure):
    _fields_ = [("size", c.c_size_t), ("version", Version), ("traits", c.c_uint32)]


class MetadataExtension(c.Structure):
    _fields_ = [("base", Extension), ("metadata", c.POINTER(Metadata))]


class ErrorCreate(c.Structure):
    _fields_ = [*HEAD, ("message", c.c_char_p), ("code", c.c_int)]


class StreamGet(c.Structure):
    _fields_ = [*HEAD, ("context", c.c_void_p), ("stream", c.c_void_p)]


class Allocate(c.Structure):
    _fields_ = [*HEAD, ("context", c.c_void_p), ("bytes", c.c_size_t), ("alignment", c.c_size_t), ("data", c.c_void_p)]


class Free(c.Structure):
    _fields_ = [*HEAD, ("context", c.c_void_p), ("bytes", c.c_size_t), ("data", c.c_void_p)]


class Ordinal(c.Structure):
    _fields_ = [*HEAD, ("context", c.c_void_p), ("ordinal", c.c_int32)]


FUNCTIONS = ("error_create", "error_message", "error_destroy", "register", "stream_get", "type_register", "context_get",
             "state_set", "state_get", "allocate", "free", "schedule", "threads", "future_create", "future_set",
             "future_fail", "run_id_get", "ordinal_get")
function_of = c.CFUNCTYPE(c.c_void_p, c.c_void_p)


class Api(c.Structure):
    _fields_ = [*HEAD, ("version", Version), ("internal", c.c_void_p), *[(name, c.c_void_p) for name in FUNCTIONS]]


class XlaBuffer(c.Structure):
    _fields_ = [*HEAD, ("dtype", c.c_int), ("data", c.c_void_p), ("rank", c.c_int64), ("dims", c.POINTER(c.c_int64))]


class Values(c.Structure):
    _fields_ = [*HEAD, ("count", c.c_int64), ("types", c.POINTER(c.c_int)), ("values", c.POINTER(c.c_void_p))]


class Attributes(c.Structure):
    _fields_ = [*HEAD, ("count", c.c_int64), ("types", c.POINTER(c.c_int)), ("names", c.c_void_p),
                ("values", c.POINTER(c.c_void_p))]


class Span(c.Structure):
    _fields_ = [("data", c.c_void_p), ("length", c.c_size_t)]


class Frame(c.Structure):
    _fields_ = [*HEAD, ("api", c.POINTER(Api)), ("context", c.c_void_p), ("stage", c.c_int), ("arguments", Values),
                ("results", Values), ("attributes", Attributes)]


def ask(frame, name, kind, **fields):
    """What a function of XLA's wrote into the struct that it was given."""
    api = frame.api.contents
    if api.size < getattr(Api, name).offset + c.sizeof(c.c_void_p) or not getattr(api, name):
        raise Error(Status.UNSUPPORTED, f"this JAX has no {name}, which several CUDA devices and workspace need")
    question = kind(size=c.sizeof(kind), context=frame.context, **fields)
    if function_of(getattr(api, name))(c.addressof(question)):
        raise Error(Status.OUT_OF_MEMORY if kind is Allocate else Status.DEVICE_ERROR, f"XLA's {name} failed")
    return question


# ---- Arrays --------------------------------------------------------------------------------------------------------


class Buffer:
    """A dense array of XLA's. `beside`: what the call allocates from, and the LSE that it writes."""
    __slots__ = ("shape", "dtype", "address", "device", "beside")

    def __init__(self, shape, dtype, address=0, device=None, beside=None):
        self.shape, self.dtype, self.address, self.device, self.beside = shape, dtype, address, device, beside


class Scratch:
    """Device memory of one call: given back when the call is enqueued, to work that is enqueued behind it."""

    def __init__(self, frame, count):
        self.frame, self.count = frame, count
        self.address = ask(frame, "allocate", Allocate, bytes=count, alignment=256).data

    def __del__(self):
        if hasattr(self, "address"):
            ask(self.frame, "free", Free, bytes=self.count, data=self.address)


class XLA:
    """The framework of Buffer; see attune.tensors."""

    @staticmethod
    def key(buffer):
        return buffer.shape, buffer.dtype, buffer.device

    @staticmethod
    def data(buffer):
        return buffer.address

    @staticmethod
    def is_writable(_):
        return True

    @staticmethod
    def is_whole(_):
        return True

    @staticmethod
    def view(_, buffer):
        return tensors.View(buffer.shape, tensors.contiguous(buffer.shape), buffer.dtype, buffer.device)

    @staticmethod
    def maker(_, shape, dtype=None):
        return lambda q: XLA.empty(q, shape, dtype)

    @staticmethod
    def empty(like, shape, dtype=None):
        """The result that XLA has allocated for it."""
        return like.beside[1 if dtype is not None else 0]

    @staticmethod
    def repeat(_, shape):
        raise Error(Status.INTERNAL, f"attn_mask was not broadcast to {shape}")

    @staticmethod
    def check_planning(_):
        pass

    @staticmethod
    def room(count, like):
        if like.device is None:
            memory = (c.c_char * (count + 255))()
            return tensors.aligned(memory, c.addressof(memory))
        scratch = Scratch(like.beside[2], count + 255)
        return tensors.aligned(scratch, scratch.address)


tensors.frameworks[Buffer] = XLA

# ---- The handler ---------------------------------------------------------------------------------------------------


def buffers(values, device, beside=None):
    found = []
    for i in range(values.count):
        buffer = XlaBuffer.from_address(values.values[i])
        shape = tuple(buffer.dims[:buffer.rank])
        found.append(Buffer(shape, DTYPES[buffer.dtype], buffer.data or 0, device, beside))
    return found


options_by_text = {}  # options by their text


def options_of(frame):
    span = Span.from_address(frame.attributes.values[0])
    text = c.string_at(span.data, span.length)
    known = options_by_text.get(text)
    if known is None:
        known = options_by_text[text] = json.loads(text)
    return known


def compute(frame, on_device):
    """One call: its arguments are q, k, v and those that the options name; its results O, and LSE."""
    options = options_of(frame)
    device = stream = None
    if on_device:
        stream = ask(frame, "stream_get", StreamGet).stream or 0
        device = ask(frame, "ordinal_get", Ordinal).ordinal if options["devices"] > 1 else 0
    results = buffers(frame.results, device)
    beside = (results[0], results[1] if len(results) > 1 else None, frame)
    q, k, v, *more = buffers(frame.arguments, device, beside)
    attention.sdpa(q, k, v, **options["terms"], **dict(zip(options["arrays"], more)), out=results[0],
                   return_lse=len(results) > 1, stream=stream)


def handle(address, on_device):
    frame = Frame.from_address(address)
    try:
        asked = frame.extension
        if asked and asked.contents.kind == METADATA:
            metadata = MetadataExtension.from_address(c.addressof(asked.contents)).metadata.contents
            own = frame.api.contents.version  # nothing newer is used than what every version has
            metadata.version.major, metadata.version.minor = own.major, own.minor
            return None
        compute(frame, on_device)
        return None
    except BaseException as error:  # XLA raises it where the result is waited for
        message = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
        code = INVALID_ARGUMENT if isinstance(error, Error) else INTERNAL
        create = ErrorCreate(size=c.sizeof(ErrorCreate), message=f"attune: {message}".encode(), code=code)
        return function_of(frame.api.contents.error_create)(c.addressof(create))


for_cpu = function_of(lambda frame: handle(frame, False))
for_cuda = function_of(lambda frame: handle(frame, True))
