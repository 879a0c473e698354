"""libattune through ctypes: the structs of include/attune/attune.h, and plans that run on PyTorch's tensors.

Nothing is copied: a call points at the tensors it is given, on the stream that is current in PyTorch.
"""
import ctypes as c
import glob
import os

ROLES = ["Q", "K", "V", "O", "LSE", "BIAS", "MASK", "SINK", "SLOPES", "CU_Q", "CU_KV", "USED_KV", "DO", "DQ", "DK",
         "DV", "DBIAS", "DSINK", "DLSE", "PAGE_TABLE_K", "PAGE_TABLE_V", "NEW_K", "NEW_V", "SLOTS", "DRAFT_MASK",
         "SCALE_Q", "SCALE_K", "SCALE_V", "SCALE_O", "STATE_O", "STATE_LSE"]
EFFORTS = {"estimate": 0, "measure": 1, "patient": 2, "wisdom-only": 3}
DTYPES = {"torch.float32": 0, "torch.float16": 1, "torch.bfloat16": 2, "torch.int32": 3, "torch.bool": 4}


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("stride", c.c_int64 * 3), ("dtype", c.c_int32), ("reserved", c.c_int32)]


class Problem(c.Structure):
    _fields_ = [("size", c.c_size_t), ("op", c.c_int32), ("dtype", c.c_int32), ("batch", c.c_int64),
                ("heads_q", c.c_int64), ("heads_kv", c.c_int64), ("seqlen_q", c.c_int64), ("seqlen_kv", c.c_int64),
                ("head_dim_qk", c.c_int32), ("head_dim_v", c.c_int32), ("scale", c.c_float), ("softcap", c.c_float),
                ("window_left", c.c_int64), ("window_right", c.c_int64), ("offset", c.c_int64),
                ("offset_kind", c.c_int32), ("layout", c.c_int32), ("bias", c.c_int32), ("align", c.c_int32),
                ("mask", c.c_int32), ("alibi", c.c_int32), ("sink", c.c_int32), ("seqused_kv", c.c_int32),
                ("strict", c.c_int32), ("varlen", c.c_int32),
                ("role_dtype", c.c_uint8 * 64)]

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


def beside(name=NAME):
    """The library that came with this package: in its folder or two above, in the build folder of the source tree, or
    in the lib of the PREFIX that has it as PREFIX/share/attune/python/attune; None where it came without."""
    package = os.path.dirname(os.path.abspath(__file__))
    prefix = glob.escape(os.path.abspath(f"{package}/../../../.."))
    places = [package, os.path.abspath(f"{package}/../.."), os.path.abspath(f"{package}/../../build/lib"),
              *glob.glob(f"{prefix}/lib*"), *glob.glob(f"{prefix}/lib*/*")]
    paths = (os.path.join(place, name) for place in places)
    return next((path for path in paths if os.path.exists(path)), None)


class Failed(RuntimeError):
    """A call of the library failed; the message is its detail."""


class Library:
    """libattune, loaded from a path, $ATTUNE_LIBRARY, beside this package or the loader's own places."""

    def __init__(self, path=None, name=NAME):
        self.c = c.CDLL(path or os.environ.get("ATTUNE_LIBRARY") or beside(name) or name)
        for name in ("attune_last_detail", "attune_status_string", "attune_plan_kernel", "attune_plan_origin",
                     "attune_context_target", "attune_version_string", "attune_kernel_name"):
            getattr(self.c, name).restype = c.c_char_p
        self.c.attune_problem_flops.restype = c.c_double
        self.c.attune_context_destroy.restype = self.c.attune_plan_destroy.restype = None

    def check(self, status):
        if status != 0:
            what = self.c.attune_status_string(c.c_int(status)).decode()
            raise Failed(f"{what}: {self.c.attune_last_detail().decode()}")

    def problem(self, text):
        problem = Problem()
        self.check(self.c.attune_problem_parse_sized(text.encode(), c.byref(problem), c.c_size_t(c.sizeof(problem))))
        return problem

    def kernels(self):
        """The names of all kernels, whatever their target."""
        return [self.c.attune_kernel_name(i).decode() for i in range(self.c.attune_kernel_count())]

    def flops(self, problem):
        return self.c.attune_problem_flops(c.byref(problem))


class Options(c.Structure):
    _fields_ = [("size", c.c_size_t), ("target", c.c_char_p), ("kernel", c.c_char_p), ("isa", c.c_char_p),
                ("threads", c.c_int32), ("reserved", c.c_int32), ("wisdom", c.c_char_p), ("cache", c.c_char_p),
                ("pack", c.c_char_p)]


class PlanOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("effort", c.c_int32), ("deterministic", c.c_int32),
                ("batch_invariant", c.c_int32), ("reserved", c.c_int32), ("kernel", c.c_char_p)]


class Context:
    def __init__(self, library, target=None, kernel=None):
        self.library, self.handle = library, c.c_void_p()
        options = Options(size=c.sizeof(Options), target=target and target.encode(), kernel=kernel and kernel.encode())
        library.check(library.c.attune_context_create(c.byref(options), c.byref(self.handle)))

    def close(self):
        self.library.c.attune_context_destroy(self.handle)
        self.handle = c.c_void_p()

    def plan(self, text, *args, **options):
        return Plan(self, text, *args, **options)

    def why_not(self, text, kernel):
        """Why the planner would not choose the kernel for the problem; "" where it is a candidate."""
        problem, why = self.library.problem(text), c.create_string_buffer(240)
        self.library.check(self.library.c.attune_why_not(self.handle, c.byref(problem), kernel.encode(), why,
                                                         c.c_size_t(len(why))))
        return why.value.decode()


class Plan:
    """A plan for a problem's text. `bind` makes a call of tensors; `run` executes it."""

    def __init__(self, context, text, effort="estimate", kernel=None, deterministic=False, batch_invariant=False):
        self.library, self.problem, self.handle = context.library, context.library.problem(text), c.c_void_p()
        lib = self.library
        options = PlanOptions(size=c.sizeof(PlanOptions), effort=EFFORTS[effort], deterministic=deterministic,
                              batch_invariant=batch_invariant, kernel=kernel and kernel.encode())
        lib.check(lib.c.attune_plan_create(context.handle, c.byref(self.problem), c.byref(options),
                                           c.byref(self.handle)))
        self.kernel = lib.c.attune_plan_kernel(self.handle).decode()
        self.origin = lib.c.attune_plan_origin(self.handle).decode()

    def bind(self, tensors, workspace=None, stream=0):
        """A call over {role: tensor [batch, heads, seqlen, dim]}; the call keeps no reference to them."""
        call = Call()
        lib = self.library
        lib.check(lib.c.attune_call_init_sized(c.byref(call), c.byref(self.problem),
                                               c.c_size_t(c.sizeof(call))))
        for role, tensor in tensors.items():
            slot = call.tensor[ROLES.index(role)]
            slot.data = tensor.data_ptr()
            slot.dtype = DTYPES[str(tensor.dtype)]
            for i, stride in enumerate(tensor.stride()[:3]):
                slot.stride[i] = stride
        call.stream = stream
        if workspace is not None:
            call.workspace, call.workspace_bytes = workspace.data_ptr(), workspace.numel() * workspace.element_size()
        return call

    def workspace_bytes(self):
        size = c.c_size_t()
        self.library.check(self.library.c.attune_plan_workspace(self.handle, None, c.byref(size)))
        return size.value

    def run(self, call):
        self.library.check(self.library.c.attune_plan_execute(self.handle, c.byref(call)))

    def close(self):
        self.library.c.attune_plan_destroy(self.handle)
        self.handle = c.c_void_p()
