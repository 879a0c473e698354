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
        self.dtype = {FP32: self.torch.float32, FP16: self.torch.float16, BF16: self.torch.bfloat16}[problem.dtype]
        self.size = (problem.batch, problem.heads_q, problem.heads_kv, problem.seqlen_q, problem.seqlen_kv)
        self.head_dim_qk, self.head_dim_v = problem.head_dim_qk, problem.head_dim_v
        self.causal, self.offset = problem.causal, problem.offset_kind
        self.scale = problem.scale or None
        refuse_features(problem)

    def key(self):
        return (str(self.device), self.dtype, self.size, self.head_dim_qk, self.head_dim_v, self.causal, self.offset,
                self.scale)

    def draw(self, batch, heads_kv):
        """Normal inputs of the problem's shape, or of fewer sequences and heads."""
        torch, (_, heads_q, all_kv, seqlen_q, seqlen_kv) = self.torch, self.size
        random = torch.Generator(self.device).manual_seed(1)
        shapes = ((heads_q // all_kv * heads_kv, seqlen_q, self.head_dim_qk), (heads_kv, seqlen_kv, self.head_dim_qk),
                  (heads_kv, seqlen_kv, self.head_dim_v))
        return [torch.randn((batch, *shape), generator=random, device=self.device, dtype=self.dtype)
                for shape in shapes]


def refuse_features(problem):
    for field in ("softcap", "bias", "mask", "alibi", "sink", "seqused_kv", "varlen", "strict"):
        if getattr(problem, field):
            raise Refused(UNSUPPORTED, f"{field}: this arm has no place for it")
    if any(problem.role_dtype):
        raise Refused(UNSUPPORTED, "role_dtype: one dtype for all of Q, K, V and O only")
    if problem.window_left >= 0 or problem.window_right > 0:
        raise Refused(UNSUPPORTED, f"window {problem.window_left}:{problem.window_right}: causal masks only")
    if problem.causal and problem.offset_kind not in (BOTTOM_RIGHT, TOP_LEFT):
        raise Refused(UNSUPPORTED, f"offset {problem.offset}: masks are top-left or bottom-right")
    if problem.causal and problem.offset_kind == BOTTOM_RIGHT and problem.seqlen_q > problem.seqlen_kv:
        raise Refused(UNSUPPORTED, f"seqlen_q {problem.seqlen_q}: more than seqlen_kv, {problem.seqlen_kv}, leaves "
                                   "rows that see no key")
    for field in ("seqlen_q", "seqlen_kv"):
        if getattr(problem, field) == 0:
            raise Refused(UNSUPPORTED, f"{field} 0: there is nothing to compute")


# ---- What computes it ----------------------------------------------------------------------------------------------


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


def python_arm(name, question):
    """py:FILE:FUNCTION. The function is called as function(q, k, v, causal=..., scale=...) with tensors [batch, heads,
    seqlen, dim] and returns O likewise. `causal` is bottom-right; a function with a parameter `offset` is also handed
    "tl" or "br", and others are not asked for top-left masks of unequal lengths."""
    path, _, wanted = name.partition(":")[2].rpartition(":")
    if not path or not wanted:
        raise Refused(UNSUPPORTED, "py:FILE:FUNCTION is needed")
    function, digest = load_function(path, wanted)
    options = {"causal": question.causal, "scale": question.scale}
    if "offset" in inspect.signature(function).parameters:
        options["offset"] = "tl" if question.offset == TOP_LEFT else "br"
    elif question.causal and question.offset == TOP_LEFT and question.size[3] != question.size[4]:
        raise Refused(UNSUPPORTED, f"offset=tl: {wanted} has no parameter `offset`, and causal alone is bottom-right")
    return functools.partial(function, **options), f"{os.path.basename(path)} sha256:{digest}"


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


def wrap(question, tensor, shape):
    torch = question.torch
    strides = (*tensor.stride[:3], 1)
    strides = tuple(stride if extent > 1 else math.prod(shape[i + 1:])
                    for i, (stride, extent) in enumerate(zip(strides, shape)))
    count = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
    width = torch.finfo(question.dtype).bits // 8
    if question.device.type == "cpu":
        flat = torch.frombuffer((c.c_char * (count * width)).from_address(tensor.data), dtype=question.dtype)
    else:
        flat = torch.as_tensor(Memory(tensor.data, count, width), device=question.device).view(question.dtype)
    return flat.as_strided(shape, strides)


# ---- The arm -------------------------------------------------------------------------------------------------------


class Arm:
    """One arm for one problem."""

    def __init__(self, name, problem, device):
        self.question = Question(problem, device)
        self.torch = self.question.torch
        maker = python_arm if name.startswith("py:") else torch_arm
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
                self.check(self.compute(*self.question.draw(self.question.size[0], self.question.size[2])))
                if self.question.device.type == "cuda":
                    self.torch.cuda.synchronize(self.question.device)
            except self.torch.OutOfMemoryError as error:
                raise Refused(OUT_OF_MEMORY, str(error))
            except Refused:
                raise
            except Exception as error:
                why = [str(one.message).partition(" (Triggered")[0] for one in said]
                raise Refused(UNSUPPORTED, "; ".join([f"{type(error).__name__}: {error}", *why]))

    def check(self, output):
        batch, heads, _, rows, _ = self.question.size
        shape = (batch, heads, rows, self.question.head_dim_v)
        if tuple(output.shape) != shape or output.dtype != self.question.dtype or output.stride(-1) != 1:
            raise Refused(UNSUPPORTED, f"its output is {output.dtype} {tuple(output.shape)} with strides "
                                       f"{output.stride()}: {self.question.dtype} {shape} with contiguous rows is "
                                       "needed")

    def view(self, call, role, shape):
        tensor = call.tensor[library.ROLES.index(role)]
        key = (tensor.data, *tensor.stride[:3], shape)
        if key not in self.views:
            if len(self.views) > 512:
                self.views.clear()
            self.views[key] = wrap(self.question, tensor, shape)
        return self.views[key]

    def inputs(self, call):
        q = (call.batch, call.heads_q, call.seqlen_q, self.question.head_dim_qk)
        k = (call.batch, call.heads_kv, call.seqlen_kv, self.question.head_dim_qk)
        v = (*k[:3], self.question.head_dim_v)
        return self.view(call, "Q", q), self.view(call, "K", k), self.view(call, "V", v)

    def stream(self, call):
        if self.question.device.type == "cpu":
            return contextlib.nullcontext()
        if not call.stream:
            return self.torch.cuda.stream(self.torch.cuda.default_stream(self.question.device))
        return self.torch.cuda.stream(self.torch.cuda.ExternalStream(call.stream, device=self.question.device))

    def run(self, call):
        shape = (call.batch, call.heads_q, call.seqlen_q, self.question.head_dim_v)
        with self.torch.no_grad(), self.stream(call):
            self.view(call, "O", shape).copy_(self.compute(*self.inputs(call)))

    def run_own(self, call, output):
        with self.torch.no_grad():
            self.last = self.compute(*self.inputs(call))
        report(self.last, output)

    def capture(self, calls, outputs):
        """A graph of all calls, as PyTorch captures it; it lives until it is released."""
        torch, inputs = self.torch, [self.inputs(call) for call in calls]
        with torch.no_grad(), torch.cuda.device(self.question.device):
            aside = torch.cuda.Stream()
            with torch.cuda.stream(aside):
                self.compute(*inputs[0])  # what is built for these strides is built before
            torch.cuda.synchronize()
            try:
                graph = torch.cuda.CUDAGraph(keep_graph=True)
            except TypeError:
                raise Refused(UNSUPPORTED, f"{version_of(torch)} does not give its graphs away: 2.8 or later is needed")
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                results = [self.compute(*one) for one in inputs]
        for result, output in zip(results, outputs):
            self.check(result)
            report(result, output)
        handle = graph.raw_cuda_graph()
        self.graphs[handle] = (graph, results)
        return handle

    def release(self, handle):
        self.graphs.pop(handle, None)


def report(result, output):
    output.data = result.data_ptr()
    output.dtype = library.DTYPES[str(result.dtype)]
    for i in range(3):
        output.stride[i] = result.stride(i)
