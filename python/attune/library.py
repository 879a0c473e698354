"""libattune through ctypes: the structs of include/attune/attune.h, the loaded library and its errors."""
from __future__ import annotations

import ctypes as c
import enum
import os
import sys
import threading

# ---- Errors --------------------------------------------------------------------------------------------------------


class Status(enum.IntEnum):
    """attune_status: what kind of failure an Error is."""
    OK = 0
    INVALID_ARGUMENT = 1
    INVALID_PROBLEM = 2
    UNSUPPORTED = 3
    NOT_FOUND = 4
    OUT_OF_MEMORY = 5
    WORKSPACE_TOO_SMALL = 6
    IO_ERROR = 7
    CORRUPT = 8
    NO_DEVICE = 9
    DEVICE_ERROR = 10
    COMPILE_ERROR = 11
    INTERRUPTED = 12
    WRONG_RESULT = 13
    INTERNAL = 14


class Error(RuntimeError):
    """What attune refuses, or what failed: `status`, a Status, and `sentence`, which names the argument, its value and
    the limit."""

    def __init__(self, status, sentence: str):
        super().__init__(status, sentence)
        self.status = Status(status) if status in Status._value2member_map_ else status
        self.sentence = sentence

    def __str__(self):
        words = getattr(self.status, "name", f"status {self.status}").lower().replace("_", " ")
        return f"{words}: {self.sentence}"


def invalid(sentence: str) -> Error:
    return Error(Status.INVALID_ARGUMENT, sentence)


ROLES = ["Q", "K", "V", "O", "LSE", "BIAS", "MASK", "SINK", "SLOPES", "CU_Q", "CU_KV", "USED_KV", "DO", "DQ", "DK",
         "DV", "DBIAS", "DSINK", "DLSE", "PAGE_TABLE_K", "PAGE_TABLE_V", "NEW_K", "NEW_V", "SLOTS", "DRAFT_MASK",
         "SCALE_Q", "SCALE_K", "SCALE_V", "SCALE_O", "STATE_O", "STATE_LSE"]
DTYPES = {"torch.float32": 0, "torch.float16": 1, "torch.bfloat16": 2, "torch.int32": 3, "torch.bool": 4}


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("stride", c.c_int64 * 3), ("dtype", c.c_int32), ("settled", c.c_int32)]


class Problem(c.Structure):
    _fields_ = [("size", c.c_size_t), ("op", c.c_int32), ("dtype", c.c_int32), ("batch", c.c_int64),
                ("heads_q", c.c_int64), ("heads_kv", c.c_int64), ("seqlen_q", c.c_int64), ("seqlen_kv", c.c_int64),
                ("head_dim_qk", c.c_int32), ("head_dim_v", c.c_int32), ("scale", c.c_float), ("softcap", c.c_float),
                ("window_left", c.c_int64), ("window_right", c.c_int64), ("offset", c.c_int64),
                ("offset_kind", c.c_int32), ("layout", c.c_int32), ("bias", c.c_int32), ("align", c.c_int32),
                ("mask", c.c_int32), ("alibi", c.c_int32), ("sink", c.c_int32), ("seqused_kv", c.c_int32),
                ("strict", c.c_int32), ("varlen", c.c_int32),
                ("role_dtype", c.c_uint8 * 64), ("page_size", c.c_int32), ("page_table_v", c.c_int32),
                ("draft_mask", c.c_int32), ("slots", c.c_int32), ("states", c.c_int32), ("tf32", c.c_int32)]

    @property
    def causal(self):
        return self.window_right == 0


class Call(c.Structure):
    _fields_ = [("size", c.c_size_t), ("batch", c.c_int64), ("heads_q", c.c_int64), ("heads_kv", c.c_int64),
                ("seqlen_q", c.c_int64), ("seqlen_kv", c.c_int64), ("total_q", c.c_int64), ("total_kv", c.c_int64),
                ("offset", c.c_int64), ("page_count", c.c_int64), ("page_table_width", c.c_int64),
                ("total_new", c.c_int64), ("states", c.c_int64), ("state_stride_o", c.c_int64),
                ("state_stride_lse", c.c_int64), ("workspace", c.c_void_p), ("workspace_bytes", c.c_size_t),
                ("stream", c.c_void_p), ("tensor", Tensor * len(ROLES))]


# What attune.h calls attune_arm and attune_arm_hooks: see there.
WORKSPACE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Call), c.POINTER(c.c_size_t))
RUN = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Call))
RUN_OWN = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Call), c.POINTER(Tensor))
CAPTURE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Call), c.c_int32, c.POINTER(c.c_void_p), c.POINTER(Tensor))
RELEASE = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p)
CLOSE = c.CFUNCTYPE(None, c.c_void_p)


class Arm(c.Structure):
    _fields_ = [("size", c.c_size_t), ("self", c.c_void_p), ("account", c.c_char_p), ("traits", c.c_uint32),
                ("reserved", c.c_uint32), ("workspace", WORKSPACE), ("run", RUN), ("run_own", RUN_OWN),
                ("capture", CAPTURE), ("release", RELEASE), ("close", CLOSE), ("name", c.c_char_p)]


OPEN = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_char_p, c.POINTER(Problem), c.c_int32, c.c_int32, c.POINTER(Arm))


class ArmHooks(c.Structure):
    _fields_ = [("size", c.c_size_t), ("self", c.c_void_p), ("open", OPEN)]


NAME = "libattune.so.0.2"
GATE = "libattune-gate.so.0.2"  # with what a worker serves
PACK = "common.pack"  # beside the library, where the package was built with it: python/common.txt says of what


def beside(name=NAME):
    """The library that came with this package: in its folder or two above, in the build folder of the source tree, or
    in the lib of the PREFIX that has it as PREFIX/share/attune/python/attune; None where it came without."""
    package = os.path.dirname(os.path.abspath(__file__))
    import glob  # here: with all that it imports it takes a third of the time that importing attune does
    prefix = glob.escape(os.path.abspath(f"{package}/../../../.."))
    places = [package, f"{package}/lib", os.path.abspath(f"{package}/../.."),
              os.path.abspath(f"{package}/../../build/lib"),
              *glob.glob(f"{prefix}/lib*"), *glob.glob(f"{prefix}/lib*/*")]
    paths = (os.path.join(place, name) for place in places)
    return next((path for path in paths if os.path.exists(path)), None)


def named(name):
    """The library that $ATTUNE_LIBRARY names; where another is wanted than it is, that of its folder."""
    path = os.environ.get("ATTUNE_LIBRARY")
    other = os.path.join(os.path.dirname(path or ""), name)
    return other if path and name != NAME and os.path.exists(other) else path


class Options(c.Structure):
    _fields_ = [("size", c.c_size_t), ("target", c.c_char_p), ("kernel", c.c_char_p), ("isa", c.c_char_p),
                ("threads", c.c_int32), ("reserved", c.c_int32), ("wisdom", c.c_char_p), ("cache", c.c_char_p),
                ("pack", c.c_char_p)]


class PlanOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("effort", c.c_int32), ("deterministic", c.c_int32),
                ("batch_invariant", c.c_int32), ("reserved", c.c_int32), ("kernel", c.c_char_p)]


# What the functions take and return; others are called with what ctypes makes of their arguments.
POINTER, SIZE, TEXT = c.c_void_p, c.c_size_t, c.c_char_p
SIGNATURES = {
    "attune_last_detail": (TEXT, []),
    "attune_version_string": (TEXT, []),
    "attune_problem_parse_sized": (c.c_int, [TEXT, POINTER, SIZE]),
    "attune_problem_init_sized": (None, [POINTER, SIZE]),
    "attune_problem_print": (c.c_int, [POINTER, POINTER, SIZE]),
    "attune_problem_check": (c.c_int, [POINTER]),
    "attune_problem_flops": (c.c_double, [POINTER]),
    "attune_kernel_count": (c.c_int32, []),
    "attune_kernel_name": (TEXT, [c.c_int32]),
    "attune_context_create": (c.c_int, [POINTER, POINTER]),
    "attune_context_destroy": (None, [POINTER]),
    "attune_context_target": (TEXT, [POINTER]),
    "attune_why_not": (c.c_int, [POINTER, POINTER, TEXT, POINTER, SIZE]),
    "attune_plan_create": (c.c_int, [POINTER, POINTER, POINTER, POINTER]),
    "attune_plan_destroy": (None, [POINTER]),
    "attune_plan_kernel": (TEXT, [POINTER]),
    "attune_plan_origin": (TEXT, [POINTER]),
    "attune_plan_traits": (c.c_uint32, [POINTER]),
    "attune_plan_workspace": (c.c_int, [POINTER, POINTER, POINTER]),
    "attune_call_init_sized": (c.c_int, [POINTER, POINTER, SIZE]),
    "attune_plan_execute": (c.c_int, [POINTER, POINTER]),
    "attune_wisdom_read": (c.c_int, [POINTER, TEXT, POINTER]),
    "attune_wisdom_write": (c.c_int, [POINTER, TEXT]),
}


def offer_packages():
    """Says where this interpreter's packages are: the wheels of NVIDIA's libraries lie among them."""
    if "ATTUNE_PACKAGES" not in os.environ:
        folders = [folder for folder in sys.path if os.path.isdir(os.path.join(folder, "nvidia"))]
        if folders:
            os.environ["ATTUNE_PACKAGES"] = ":".join(folders)


class Library:
    """libattune, loaded from a path, $ATTUNE_LIBRARY, beside this package or the loader's own places. `c` has its
    functions."""

    def __init__(self, path=None, name=NAME):
        path = path or named(name) or beside(name) or name
        try:
            self.c = c.CDLL(path)
            for function, (result, arguments) in SIGNATURES.items():
                getattr(self.c, function).restype = result
                getattr(self.c, function).argtypes = arguments
        except (OSError, AttributeError) as error:
            raise Error(Status.NOT_FOUND, f"{path}: {error}; ATTUNE_LIBRARY can name the library") from None
        self.path, pack = path, os.path.join(os.path.dirname(os.path.abspath(path)), PACK)
        self.pack = pack if os.path.exists(pack) else None  # of kernels compiled ahead
        self.execute = self.c["attune_plan_execute"]  # one that converts nothing, for what calls it often
        offer_packages()

    def failure(self, status) -> Error:
        """The error of a status that a function of this thread has just returned."""
        return Error(status, self.c.attune_last_detail().decode(errors="replace"))

    def check(self, status):
        if status != 0:
            raise self.failure(status)

    def problem(self, text) -> Problem:
        """A problem of its text form (docs/problems.md)."""
        if not isinstance(text, str):
            raise invalid(f"problem: a text such as 'b1,h8,s512,d64,fp16' is needed, not {type(text).__name__}")
        problem = Problem()
        self.check(self.c.attune_problem_parse_sized(encoded("problem", text), c.byref(problem), c.sizeof(problem)))
        return problem

    def print(self, problem) -> str:
        """The canonical text of a problem."""
        text = c.create_string_buffer(384)
        self.check(self.c.attune_problem_print(c.byref(problem), text, len(text)))
        return text.value.decode()

    def kernels(self) -> list[str]:
        """The names of all kernels, whatever their target."""
        return [self.c.attune_kernel_name(i).decode() for i in range(self.c.attune_kernel_count())]

    def flops(self, problem) -> float:
        return self.c.attune_problem_flops(c.byref(problem))


def encoded(name, text):
    """A text for C, None for none."""
    if text is None:
        return None
    try:
        text = os.fsencode(text)
    except (TypeError, UnicodeError) as error:
        raise invalid(f"{name}: a text is needed: {error}") from None
    if b"\0" in text:
        raise invalid(f"{name}: it has a zero byte")
    return text


loaded = None
loading = threading.Lock()


def default() -> Library:
    """The library of this process, loaded when it is first asked for."""
    global loaded
    if loaded is None:
        with loading:
            loaded = loaded or Library()
    return loaded


def renew_lock():
    global loading
    loading = threading.Lock()


os.register_at_fork(after_in_child=renew_lock)
