"""What the gate measures of PyTorch: its back ends for attention, and any Python callable, as arms on given buffers.

An arm computes on tensors that wrap the caller's memory: nothing is copied on the way in, and on the way out only where
a check asks for it. On CUDA what is timed is a graph of its own, with outputs of its own.
"""
import contextlib
import ctypes as c
import functools
import hashlib
import importlib.util
import inspect
import math
import os
import sys
import warnings

from attune import library
from attune.roles import ARRAYS, FORWARD, INNER, SIZES, roles_of, wanted_shape

INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY, DEVICE_ERROR, WRONG_RESULT = 1, 3, 5, 10, 13
NONDETERMINISTIC, BATCH_VARIANT, TAINTS = 1 << 1, 1 << 2, 1 << 3
FP32, FP16, BF16 = 0, 1, 2
BOTTOM_RIGHT, TOP_LEFT = 0, 1
BACK_ENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION",
             "math": "MATH"}


class Refused(Exception):
    """The arm cannot do what it was asked for: a status and its reason."""

    def __init__(self, status, reason):
        super().__init__(reason)
        self.status = status


def import_torch():
    try:
        import torch
    except Exception as error:  # an installation may be there and broken in many ways
        raise Refused(UNSUPPORTED, f"there is no PyTorch here: {error}")
    return torch


def version_of(torch):
    cudnn = torch.backends.cudnn.version() if torch.cuda.is_available() else None
    return f"torch {torch.__version__}" + (f", cuDNN {cudnn}" if cudnn else "")


# ---- What is asked -------------------------------------------------------------------------------------------------


class Question:
    """A problem as PyTorch could be asked it, on CUDA device `device` or, with -1, on the CPU."""

    def __init__(self, problem, device):
        self.torch = import_torch()
        self.device = self.torch.device("cpu" if device < 0 else f"cuda:{device}")
        self.dtypes = (self.torch.float32, self.torch.float16, self.torch.bfloat16)
        self.dtype = self.dtypes[problem.dtype]
        self.size = (problem.batch, problem.heads_q, problem.heads_kv, problem.seqlen_q, problem.seqlen_kv)
        self.head_dim_qk, self.head_dim_v = problem.head_dim_qk, problem.head_dim_v
        self.causal, self.offset = problem.causal, problem.offset_kind
        self.scale, self.tf32 = problem.scale or None, bool(problem.tf32)
        self.problem = library.Problem.from_buffer_copy(problem)
        refuse_unanswerable(problem)
        self.roles = roles_of(problem)[0]

    def key(self):
        return (str(self.device), self.dtype, self.size, self.head_dim_qk, self.head_dim_v, self.causal, self.offset,
                self.scale, self.tf32)

    def draw(self, batch, heads_kv):
        """Normal inputs of the problem's shape, or of fewer sequences and heads."""
        torch, (_, heads_q, all_kv, seqlen_q, seqlen_kv) = self.torch, self.size
        random = torch.Generator(self.device).manual_seed(1)
        shapes = ((heads_q // all_kv * heads_kv, seqlen_q, self.head_dim_qk), (heads_kv, seqlen_kv, self.head_dim_qk),
                  (heads_kv, seqlen_kv, self.head_dim_v))
        return [torch.randn((batch, *shape), generator=random, device=self.device, dtype=self.dtype)
                for shape in shapes]

    def dtype_of(self, role):
        if role in ("Q", "K", "V", "O", "BIAS"):
            own = self.problem.role_dtype[library.ROLES.index(role)]
            return self.dtypes[own - 1] if own else self.dtype
        return {"MASK": self.torch.bool, "SLOPES": self.torch.float32, "SINK": self.torch.float32}.get(
            role, self.torch.int32)

    def sizes(self, call=None):
        """{size: value} of a call; without one, of the largest."""
        problem = self.problem
        if call is not None:
            sizes = {name: getattr(call, name) for name in SIZES}
        else:
            width = -(-problem.seqlen_kv // problem.page_size) if problem.page_size else 0
            sizes = {name: getattr(problem, name) for name in SIZES if hasattr(problem, name)}
            sizes.update(total_q=problem.batch * problem.seqlen_q, total_kv=problem.batch * problem.seqlen_kv,
                         page_count=problem.batch * width, page_table_width=width)
        sizes.update({"batch+1": sizes["batch"] + 1, "page_size": problem.page_size,
                      "head_dim_qk": self.head_dim_qk, "head_dim_v": self.head_dim_v})
        return sizes

    def example(self):
        """{parameter: tensor} of the largest call: normal numbers, whole lengths, everything seen."""
        sizes = self.sizes()
        return {PARAMETERS[name]: self.example_of(role, wanted_shape(self.problem, role, sizes))
                for name, role in self.roles.items() if name in PARAMETERS}

    def example_of(self, role, shape):
        torch, on = self.torch, {"device": self.device, "dtype": self.dtype_of(role.name)}
        if role.name in ("CU_Q", "CU_KV"):
            return torch.arange(shape[0], **on) * (self.size[3] if role.name == "CU_Q" else self.size[4])
        if role.name in ("PAGE_TABLE_K", "PAGE_TABLE_V"):
            return torch.arange(math.prod(shape), **on).reshape(shape)
        if role.name == "DRAFT_MASK":
            return torch.full(shape, -1, **on)
        if role.name == "USED_KV":
            return torch.full(shape, self.size[4], **on)
        return torch.ones(shape, **on) if role.name == "MASK" else torch.randn(shape, **on)


# What arrays are called as parameters of a function.
PARAMETERS = {"Q": "q", "K": "k", "V": "v", "BIAS": "bias", "MASK": "mask", "SLOPES": "alibi", "SINK": "sink",
              "USED_KV": "seqused", "CU_Q": "cu_q", "CU_KV": "cu_kv", "PAGE_TABLE_K": "page_table",
              "PAGE_TABLE_V": "page_table_v", "DRAFT_MASK": "draft"}


def refuse_unanswerable(problem):
    """What no arm of PyTorch's has: other operations, masks by a number, rows that see nothing."""
    if problem.op != FORWARD:
        raise Refused(UNSUPPORTED, "an operation other than fwd")
    if problem.causal and problem.offset_kind not in (BOTTOM_RIGHT, TOP_LEFT):
        raise Refused(UNSUPPORTED, f"offset {problem.offset}: masks are top-left or bottom-right")
    if problem.causal and problem.offset_kind == BOTTOM_RIGHT and problem.seqlen_q > problem.seqlen_kv:
        raise Refused(UNSUPPORTED, f"seqlen_q {problem.seqlen_q}: more than seqlen_kv, {problem.seqlen_kv}, leaves "
                                   "rows that see no key")
    for field in ("seqlen_q", "seqlen_kv"):
        if getattr(problem, field) == 0:
            raise Refused(UNSUPPORTED, f"{field} 0: there is nothing to compute")


def has_window(problem):
    return problem.window_left >= 0 or problem.window_right > 0


def refuse_features(problem):
    """What scaled_dot_product_attention has no place for."""
    for field in ("softcap", "bias", "mask", "alibi", "sink", "seqused_kv", "varlen", "strict", "page_size",
                  "draft_mask"):
        if getattr(problem, field):
            raise Refused(UNSUPPORTED, f"{field}: this arm has no place for it")
    if any(problem.role_dtype):
        raise Refused(UNSUPPORTED, "role_dtype: one dtype for all of Q, K, V and O only")
    if has_window(problem):
        raise Refused(UNSUPPORTED, f"window {problem.window_left}:{problem.window_right}: causal masks only")


# ---- What computes it ----------------------------------------------------------------------------------------------


def on_cuda(question):
    return question.device.type == "cuda"


@contextlib.contextmanager
def precision_of(question):
    """For the time of a `with`, products on CUDA may be TF32's where the problem says `tf32`, and nowhere else."""
    if not on_cuda(question):
        yield
        return
    # NOTE: by this switch alone, which sets the newer fp32_precision, too. Where only that is set PyTorch raises.
    switch = question.torch.backends.cuda.matmul
    former = switch.allow_tf32
    switch.allow_tf32 = question.tf32
    try:
        yield
    finally:
        switch.allow_tf32 = former


def mask_options(question, seqlen_q, seqlen_kv):
    """How PyTorch is asked for the mask. A last row alone sees every key; is_causal is top-left."""
    if not question.causal or (question.offset == BOTTOM_RIGHT and seqlen_q == 1):
        return {}
    if question.offset == TOP_LEFT or seqlen_q == seqlen_kv:
        return {"is_causal": True}
    from torch.nn.attention.bias import causal_lower_right
    return {"attn_mask": causal_lower_right(seqlen_q, seqlen_kv)}


def sdpa(question, back_end):
    """scaled_dot_product_attention, held to one back end; as PyTorch chooses with None."""
    attention = question.torch.nn.functional.scaled_dot_product_attention

    def compute(q, k, v):
        options = mask_options(question, q.shape[2], k.shape[2])
        if q.shape[1] != k.shape[1]:
            options["enable_gqa"] = True
        return attention(q, k, v, scale=question.scale, **options)

    if back_end is None:
        return compute
    from torch.nn.attention import SDPBackend, sdpa_kernel
    only = getattr(SDPBackend, BACK_ENDS[back_end])

    def held(q, k, v):
        with sdpa_kernel(only):
            return compute(q, k, v)
    return held


def torch_arm(name, question):
    back_end = name.partition(":")[2]
    on_cpu = question.device.type == "cpu"
    if back_end not in (*BACK_ENDS, "default", "cpu"):
        raise Refused(UNSUPPORTED, f"there is no back end {back_end}: flash, cudnn, efficient, math, default, cpu")
    if (back_end == "cpu") != on_cpu:
        raise Refused(UNSUPPORTED, f"{name} runs on {'CUDA devices' if on_cpu else 'the CPU'} only")
    refuse_features(question.problem)
    return sdpa(question, back_end if back_end in BACK_ENDS else None), validate(question)


def load_function(path, name):
    """The callable of a file, and the file's digest."""
    try:
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        spec.loader.exec_module(module)
        return getattr(module, name), digest
    except Exception as error:
        raise Refused(UNSUPPORTED, f"{os.path.basename(path)}: {type(error).__name__}: {error}")


def options_for(question, function, name):
    """The options that a function is called with; one that has no parameter for what the problem has is refused."""
    problem, parameters = question.problem, inspect.signature(function).parameters
    options = {"causal": question.causal, "scale": question.scale}
    terms = {"softcap": problem.softcap or None, "strict": True if problem.strict else None,
             "window": (problem.window_left, problem.window_right) if has_window(problem) else None}
    options.update({term: value for term, value in terms.items() if value is not None})
    needed = [*(PARAMETERS[role] for role in question.roles if role in PARAMETERS), *options]
    for parameter in needed:
        if parameter not in parameters:
            raise Refused(UNSUPPORTED, f"{parameter}: {name} has no parameter `{parameter}`")
    if "offset" in parameters:
        options["offset"] = "tl" if question.offset == TOP_LEFT else "br"
    elif question.causal and question.offset == TOP_LEFT and (question.size[3] != question.size[4] or
                                                              problem.seqused_kv or problem.varlen):
        raise Refused(UNSUPPORTED, f"offset=tl: {name} has no parameter `offset`, and causal alone is bottom-right")
    for size in ("seqlen_q", "seqlen_kv"):
        if size in parameters:
            options[size] = getattr(problem, size)
    if question.tf32 and "tf32" in parameters:  # a permission, which nobody need know of
        options["tf32"] = True
    return options


def python_arm(name, question):
    """py:FILE:FUNCTION. The function is called as function(q, k, v, causal=..., scale=...) with tensors [batch, heads,
    seqlen, dim] and returns O likewise; what else the problem has comes by its name (PARAMETERS, options_for; shapes as
    in args.h). `causal` is bottom-right; a function with a parameter `offset` is also handed "tl" or "br", and others
    are not asked for top-left masks of unequal lengths. tf32=True, a permission, goes to who has the parameter. One
    with an attribute `prepare` is not called itself: prepare(...), outside of what is captured, returns what is called
    without arguments."""
    path, _, wanted = name.partition(":")[2].rpartition(":")
    if not path or not wanted:
        raise Refused(UNSUPPORTED, "py:FILE:FUNCTION is needed")
    function, digest = load_function(path, wanted)
    prepare = getattr(function, "prepare", None)
    compute = functools.partial(prepare or function, **options_for(question, prepare or function, wanted))
    compute.prepares = prepare is not None
    return compute, f"{os.path.basename(path)} sha256:{digest}"


# ---- Whether PyTorch's back ends can be trusted ----------------------------------------------------------------------


def some_rows(question, q):
    """Rows to compare: all of few, else a choice with both ends."""
    count = q.shape[2]
    step = max(1, count // 256)
    return question.torch.tensor(sorted({*range(0, count, step), count - 1}), device=q.device)


def plain(question, q, k, v, rows, dtype):
    """Attention written out for some rows, S and P rounded to `dtype`."""
    torch, groups = question.torch, q.shape[1] // k.shape[1]
    q, k, v = (t.to(dtype) for t in (q[:, :, rows], k, v))
    k, v = (t.repeat_interleave(groups, 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * (question.scale or question.head_dim_qk ** -0.5)
    if question.causal:
        offset = k.shape[2] - question.size[3] if question.offset == BOTTOM_RIGHT else 0
        hidden = torch.arange(k.shape[2], device=q.device) > rows[:, None] + offset
        scores = scores.masked_fill(hidden, -math.inf)
    wide = scores if dtype == torch.float64 else scores.float()
    return (wide.softmax(-1).to(dtype) @ v).double()


def back_end_error(question, back_end, inputs, rows, expected):
    """The largest error of a back end, and its output; None where it refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            output = sdpa(question, back_end)(*inputs)[:, :, rows].double()
    except RuntimeError:
        return None
    return (output - expected).abs().max().item(), output


@functools.lru_cache(maxsize=64)
def validated(key, question):
    torch, inputs = question.torch, question.draw(1, 1)
    rows = some_rows(question, inputs[0])
    expected = plain(question, *inputs, rows, torch.float64)
    naive = (plain(question, *inputs, rows, question.dtype) - expected).abs().max().item()
    largest = expected.abs().max().item()
    ulp = torch.finfo(question.dtype).eps * 2.0 ** math.floor(math.log2(largest)) if largest > 0 else 0.0
    limit = 2 * naive + 4 * ulp
    found = {name: back_end_error(question, name, inputs, rows, expected) for name in ("flash", "math")}
    notes = []
    for name, result in found.items():
        if result is not None and not result[0] <= limit:
            raise Refused(WRONG_RESULT, f"{version_of(torch)}: its back end {name} is off by {result[0]:.3g} from the "
                                        f"computation in fp64, at most {limit:.3g} is allowed")
        notes.append(f"{name} {'refuses' if result is None else f'{result[0]:.2g} from fp64'}")
    if all(found.values()):
        notes.append(f"{(found['flash'][1] - found['math'][1]).abs().max().item():.2g} apart")
    return ", ".join(notes) + f" (limit {limit:.2g})"


trusted = False  # whether another worker has validated the back ends already


def validate(question):
    """Whatever the version of PyTorch: flash and math must agree with attention in fp64, and so with each other. What
    was found, in words; wrong ones are refused."""
    return "validated before" if trusted else validated(question.key(), question)


# ---- Tensors over a caller's memory ---------------------------------------------------------------------------------


class Memory:
    """Device memory in the form that PyTorch takes over without a copy."""

    def __init__(self, data, count, width):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": f"<i{width}", "data": (data, False),
                                         "version": 3}


def wrap(question, tensor, shape, strides=None, dtype=None):
    """A view of a caller's array; without strides [batch, heads, rows, dim], of the problem's dtype without one."""
    torch, dtype = question.torch, dtype or question.dtype
    strides = strides or (*tensor.stride[:3], 1)
    strides = tuple(stride if extent > 1 else math.prod(shape[i + 1:])
                    for i, (stride, extent) in enumerate(zip(strides, shape)))
    count = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
    if question.device.type == "cpu":
        flat = torch.frombuffer((c.c_char * (count * dtype.itemsize)).from_address(tensor.data), dtype=dtype)
    else:
        flat = torch.as_tensor(Memory(tensor.data, count, dtype.itemsize), device=question.device).view(dtype)
    return flat.as_strided(shape, strides)


# ---- The arm -------------------------------------------------------------------------------------------------------


class Arm:
    """One arm for one problem."""

    def __init__(self, name, problem, device):
        self.question = Question(problem, device)
        self.torch = self.question.torch
        maker = python_arm if name.startswith("py:") else torch_arm
        with precision_of(self.question):
            self.compute, found = maker(name, self.question)
        self.traits = NONDETERMINISTIC | BATCH_VARIANT | TAINTS
        self.account = f"{version_of(self.torch)}; {found}"
        self.views, self.graphs, self.last = {}, {}, None
        self.try_once()

    def try_once(self):
        """Runs the problem as it is, so that what refuses it does so now, with what PyTorch warns of."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                with precision_of(self.question):
                    self.check(self.prepare(self.question.example())(), self.question.sizes())
                if self.question.device.type == "cuda":
                    self.torch.cuda.synchronize(self.question.device)
            except self.torch.OutOfMemoryError as error:
                raise Refused(OUT_OF_MEMORY, str(error))
            except Refused:
                raise
            except Exception as error:
                why = [str(one.message).partition(" (Triggered")[0] for one in said]
                raise Refused(UNSUPPORTED, "; ".join([f"{type(error).__name__}: {error}", *why]))

    def prepare(self, inputs):
        """What computes O of {parameter: tensor}, when it is called."""
        return self.compute(**inputs) if getattr(self.compute, "prepares", False) else \
            functools.partial(self.compute, **inputs)

    def check(self, output, sizes):
        question = self.question
        shape, dtype = wanted_shape(question.problem, question.roles["O"], sizes), question.dtype_of("O")
        if tuple(output.shape) != shape or output.dtype != dtype or output.stride(-1) != 1:
            raise Refused(UNSUPPORTED, f"its output is {output.dtype} {tuple(output.shape)} with strides "
                                       f"{output.stride()}: {dtype} {shape} with contiguous rows is needed")

    def view(self, call, name, sizes):
        role, tensor = self.question.roles[name], call.tensor[library.ROLES.index(name)]
        shape = wanted_shape(self.question.problem, role, sizes)
        key = (name, tensor.data, *tensor.stride[:3], shape)
        if key not in self.views:
            if len(self.views) > 512:
                self.views.clear()
            strides = tuple(1 if place == INNER or name in ARRAYS else tensor.stride[place] for place in role.places)
            self.views[key] = wrap(self.question, tensor, shape, strides, self.question.dtype_of(name))
        return self.views[key]

    def inputs(self, call):
        """{parameter: tensor} of a call."""
        sizes = self.question.sizes(call)
        return {PARAMETERS[name]: self.view(call, name, sizes) for name in self.question.roles if name in PARAMETERS}

    def stream(self, call):
        if self.question.device.type == "cpu":
            return contextlib.nullcontext()
        if not call.stream:
            return self.torch.cuda.stream(self.torch.cuda.default_stream(self.question.device))
        return self.torch.cuda.stream(self.torch.cuda.ExternalStream(call.stream, device=self.question.device))

    def run(self, call):
        with self.torch.no_grad(), self.stream(call), precision_of(self.question):
            self.view(call, "O", self.question.sizes(call)).copy_(self.prepare(self.inputs(call))())

    def run_own(self, call, output):
        with self.torch.no_grad():
            self.last = self.prepare(self.inputs(call))()
        self.report(self.last, output)

    def capture(self, calls, outputs):
        """A graph of all calls, as PyTorch captures it; it lives until it is released."""
        torch = self.torch
        with torch.no_grad(), torch.cuda.device(self.question.device), precision_of(self.question):
            aside = torch.cuda.Stream()
            with torch.cuda.stream(aside):
                prepared = [self.prepare(self.inputs(call)) for call in calls]
                prepared[0]()  # what is built for these strides is built before
            torch.cuda.synchronize()
            try:
                graph = torch.cuda.CUDAGraph(keep_graph=True)
            except TypeError:
                raise Refused(UNSUPPORTED, f"{version_of(torch)} does not give its graphs away: 2.8 or later is needed")
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                results = [one() for one in prepared]
        for call, result, output in zip(calls, results, outputs):
            self.check(result, self.question.sizes(call))
            self.report(result, output)
        handle = graph.raw_cuda_graph()
        self.graphs[handle] = (graph, results, prepared)
        return handle

    def release(self, handle):
        self.graphs.pop(handle, None)

    def report(self, result, output):
        """Where the result lies."""
        output.data = result.data_ptr()
        output.dtype = library.DTYPES[str(result.dtype)]
        for place, stride in zip(self.question.roles["O"].places, result.stride()):
            if place != INNER:
                output.stride[place] = stride
