#!/usr/bin/env python3
"""Times attune beside PyTorch's scaled_dot_product_attention, ONNX Runtime's MultiHeadAttention and ggml's
flash_attn_ext on a CPU.

    cpu_peers.py [--library PATH] [--threads N,N...] [--rounds N] [--milliseconds N] [PROBLEM]...

All run in one process on as many threads. Attune and PyTorch work on the same tensors [batch, heads, seqlen, dim];
ONNX Runtime, which has fp32 only and no GQA, on copies in its own layout [batch, seqlen, heads * dim]; ggml, whose
libraries $GGML_LIBRARIES names as a folder, on copies with Q and O in fp32. Arms take turns in an order drawn anew
each round. A sample begins when the process is quiet, for threads of the arm before that wait busily for more work
would slow down whoever comes next, and with calls that are not timed for half of --milliseconds, until the arm's own
threads are awake and on CPUs of their own; then so many calls are timed as last --milliseconds, and divided. Without
problems: the twelve below. Standard output is TSV:

    problem threads arm kernel median_us lo_us hi_us gflops ratio error

ratio: this arm's median / attune's. lo_us, hi_us: the quartiles. gflops counts what causal masks leave. error: max
|O - O_fp64| over some rows. Arms that cannot run are named in lines that begin with #.
"""
import argparse
import ctypes
import math
import os
import random
import statistics
import sys
import time

import numpy
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from attune import Context, Error, Status  # noqa: E402
from attune.library import Library  # noqa: E402

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

PROBLEMS = ["b4,h12,s128,d64,fp32", "b1,h8,s256,d64,fp32", "b1,h8,s512,d64,fp32", "b1,h8,s1024,d64,fp32",
            "b1,h8,s2048,d64,fp32", "b1,h8,s2048,d64,fp32,causal", "b1,h8,s1024,d128,fp32", "b1,h8,s2048,d128,fp32",
            "b1,h8,s2048,d128,fp32,causal", "b1,h16,sq1,skv8192,d128,fp32", "b1,h8,s1024,d128,bf16",
            "b1,h8,s1024,d64,fp16"]
TYPES = {0: torch.float32, 1: torch.float16, 2: torch.bfloat16}


# ---- An ONNX model of one node, as the protobuf messages are written ------------------------------------------------


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """A field of a message: an integer, or text or a message by length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor_info(name, shape):
    dims = b"".join(field(1, field(1, extent)) for extent in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))  # elem_type 1: float


def attention_model(problem, shapes):
    integer = 2  # AttributeProto.type
    attributes = field(5, field(1, "num_heads") + field(3, problem.heads_q) + field(20, integer))
    if problem.causal:
        attributes += field(5, field(1, "unidirectional") + field(3, 1) + field(20, integer))
    node = b"".join(field(1, name) for name in "QKV") + field(2, "O") + field(4, "MultiHeadAttention")
    node += attributes + field(7, "com.microsoft")
    inputs = b"".join(field(11, tensor_info(name, shapes[name])) for name in "QKV")
    graph = field(1, node) + field(2, "attention") + inputs + field(12, tensor_info("O", shapes["O"]))
    opsets = field(8, field(1, "") + field(2, 17)) + field(8, field(1, "com.microsoft") + field(2, 1))
    return field(1, 8) + field(7, graph) + opsets


# ---- Arms: name, kernel, call and the output ------------------------------------------------------------------------


class Arm:
    def __init__(self, name, kernel, call, output):
        self.name, self.kernel, self.call, self.output, self.samples = name, kernel, call, output, []


def attune_arm(library, text, tensors):
    context = Context("cpu", lib=library)
    plan = context.plan(text)
    bytes_needed = plan.workspace()
    room = torch.empty(bytes_needed + 256, dtype=torch.uint8)
    skip = -room.data_ptr() % 256
    output = torch.empty_like(tensors["Q"])
    call = plan.bind({**tensors, "O": output}, room[skip:skip + bytes_needed] if bytes_needed else None)
    arm = Arm("attune", plan.kernel, call.run, lambda: output)
    arm.keep = (context, plan, room, tensors)
    return arm


def torch_arm(problem, tensors):
    q, k, v = (tensors[role] for role in "QKV")
    grouped = problem.heads_q != problem.heads_kv
    last = []

    def call():
        last[:] = [torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(problem.causal),
                                                                    enable_gqa=grouped)]

    return Arm("torch", f"torch-{torch.__version__}", call, lambda: last[0])


def onnx_arm(problem, tensors, threads):
    if onnxruntime is None:
        raise Error(Status.UNSUPPORTED, "there is no onnxruntime here")
    if problem.dtype != 0 or problem.heads_q != problem.heads_kv:
        raise Error(Status.UNSUPPORTED, "its MultiHeadAttention has fp32 only, and no GQA")
    packed = {role: tensors[role].transpose(1, 2).flatten(2).contiguous().numpy() for role in "QKV"}
    shapes = {**{role: array.shape for role, array in packed.items()}, "O": packed["Q"].shape}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(attention_model(problem, shapes), options,
                                           providers=["CPUExecutionProvider"])
    values = {role: onnxruntime.OrtValue.ortvalue_from_numpy(array) for role, array in packed.items()}
    output = onnxruntime.OrtValue.ortvalue_from_numpy(numpy.empty_like(packed["Q"]))
    binding = session.io_binding()
    for role, value in values.items():
        binding.bind_ortvalue_input(role, value)
    binding.bind_ortvalue_output("O", output)

    def result():
        rows = torch.from_numpy(output.numpy())
        return rows.reshape(problem.batch, -1, problem.heads_q, problem.head_dim_v).transpose(1, 2)

    arm = Arm("onnxruntime", f"onnxruntime-{onnxruntime.__version__}", lambda: session.run_with_iobinding(binding),
              result)
    arm.keep = values
    return arm


class GgmlPlace(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class GgmlPlan(ctypes.Structure):  # struct ggml_cplan, and room for what later ones have
    _fields_ = [("work_bytes", ctypes.c_size_t), ("work", ctypes.c_void_p), ("rest", ctypes.c_uint64 * 14)]


def ggml_library():
    """Both libraries, whose functions return pointers unless said otherwise."""
    folder = os.environ.get("GGML_LIBRARIES")
    if folder is None:
        raise Error(Status.UNSUPPORTED, "GGML_LIBRARIES names no folder with libggml-base.so and libggml-cpu.so")
    base, cpu = (ctypes.CDLL(f"{folder}/lib{name}.so", ctypes.RTLD_GLOBAL) for name in ("ggml-base", "ggml-cpu"))
    for name in ("ggml_init", "ggml_new_tensor_4d", "ggml_flash_attn_ext", "ggml_new_graph", "ggml_get_data"):
        getattr(base, name).restype = ctypes.c_void_p
    base.ggml_version.restype = ctypes.c_char_p
    cpu.ggml_graph_plan.restype = GgmlPlan
    return base, cpu


def ggml_arm(problem, tensors, threads):
    if problem.causal and problem.seqlen_q > 1:
        raise Error(Status.UNSUPPORTED, "ggml hides keys by a mask: only without, here")
    base, cpu = ggml_library()
    kind = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 30}[tensors["K"].dtype]
    given = {role: tensor.float() if role == "Q" else tensor for role, tensor in tensors.items()}
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
    sizes = sum(tensor.nbytes for tensor in given.values()) + 4 * problem.batch * problem.heads_q * problem.seqlen_q * \
        problem.head_dim_v
    context = pointer(base.ggml_init(GgmlPlace(sizes + (1 << 24), None, False)))
    made = []
    for role, tensor in given.items():
        extents = [size(extent) for extent in reversed(tensor.shape)]
        made.append(pointer(base.ggml_new_tensor_4d(context, 0 if role == "Q" else kind, *extents)))
        ctypes.memmove(base.ggml_get_data(made[-1]), tensor.contiguous().data_ptr(), tensor.nbytes)
    terms = [number(problem.head_dim_qk**-0.5), number(0), number(0)]  # scale, of ALiBi, softcap
    out = pointer(base.ggml_flash_attn_ext(context, *made, None, *terms))
    graph = pointer(base.ggml_new_graph(context))
    base.ggml_build_forward_expand(graph, out)
    cpu.ggml_cpu_init()
    plan = cpu.ggml_graph_plan(graph, threads, None)
    work = ctypes.create_string_buffer(plan.work_bytes + 64)
    plan.work = ctypes.addressof(work) + -ctypes.addressof(work) % 64

    def call():
        if cpu.ggml_graph_compute(graph, ctypes.byref(plan)) != 0:
            raise Error(Status.DEVICE_ERROR, "ggml_graph_compute failed")

    def result():
        shape = (problem.batch, problem.seqlen_q, problem.heads_q, problem.head_dim_v)
        raw = (ctypes.c_float * math.prod(shape)).from_address(base.ggml_get_data(out))
        return torch.from_numpy(numpy.ctypeslib.as_array(raw)).reshape(shape).transpose(1, 2)

    arm = Arm("ggml", f"ggml-{base.ggml_version().decode()}", call, result)
    arm.keep = (work, plan)
    return arm


# ---- Right, and how fast --------------------------------------------------------------------------------------------


def draw(problem):
    torch.manual_seed(1)
    shapes = {"Q": (problem.heads_q, problem.seqlen_q), "K": (problem.heads_kv, problem.seqlen_kv),
              "V": (problem.heads_kv, problem.seqlen_kv)}
    return {role: torch.randn(problem.batch, heads, rows, problem.head_dim_qk).to(TYPES[problem.dtype])
            for role, (heads, rows) in shapes.items()}


def error_of(problem, tensors, output):
    """Over 24 rows of each of three heads, in fp64; NaN if any is."""
    errors = []
    for head in {0, problem.heads_q // 2, problem.heads_q - 1}:
        rows = torch.linspace(0, problem.seqlen_q - 1, 24).long()
        of_kv = head // (problem.heads_q // problem.heads_kv)
        k, v = (tensors[role][-1, of_kv].double() for role in "KV")
        scores = tensors["Q"][-1, head][rows].double() @ k.T / math.sqrt(problem.head_dim_qk)
        if problem.causal:
            last = rows + problem.seqlen_kv - problem.seqlen_q
            scores.masked_fill_(torch.arange(problem.seqlen_kv)[None, :] > last[:, None], -math.inf)
        right = torch.softmax(scores, -1) @ v
        errors.append((output[-1, head][rows].double() - right).abs().max().item())
    return max(errors, key=lambda error: math.inf if math.isnan(error) else error)  # Python's max loses NaN


def wait_until_quiet():
    """Until the process's threads sleep; ONNX Runtime's wait busily for some 50 ms."""
    for _ in range(100):
        before = time.process_time()
        time.sleep(0.01)
        if time.process_time() - before < 0.001:
            return


def sample_us(arm, milliseconds):
    wait_until_quiet()
    begin, warmed = time.perf_counter(), 0
    while warmed < 2 or time.perf_counter() - begin < milliseconds * 0.5e-3:
        arm.call()
        warmed += 1
    calls = max(1, math.ceil(milliseconds * 1e-3 * warmed / (time.perf_counter() - begin)))
    begin = time.perf_counter()
    for _ in range(calls):
        arm.call()
    return (time.perf_counter() - begin) * 1e6 / calls


def prepare(library, text, problem, threads):
    tensors, arms = draw(problem), []
    for make in (lambda: attune_arm(library, text, tensors), lambda: torch_arm(problem, tensors),
                 lambda: onnx_arm(problem, tensors, threads), lambda: ggml_arm(problem, tensors, threads)):
        try:
            arm = make()
            arm.call()
            arm.error = error_of(problem, tensors, arm.output())
            arms.append(arm)
        except Error as why:
            print(f"# {text}: {why}")
    return arms


def run(library, text, threads, options):
    problem = library.problem(text)
    arms = prepare(library, text, problem, threads)
    for number in range(options.rounds):
        order = list(arms)
        random.Random(number).shuffle(order)
        for arm in order:
            arm.samples.append(sample_us(arm, options.milliseconds))
    base = statistics.median(arms[0].samples)
    for arm in arms:
        middle = statistics.median(arm.samples)
        lo, _, hi = statistics.quantiles(arm.samples, n=4)
        print(text, threads, arm.name, arm.kernel, f"{middle:.1f}", f"{lo:.1f}", f"{hi:.1f}",
              f"{library.flops(problem) / middle * 1e-3:.1f}", f"{middle / base:.3f}", f"{arm.error:.2e}", sep="\t",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library")
    parser.add_argument("--threads", default=str(len(os.sched_getaffinity(0))))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--milliseconds", type=float, default=20)
    parser.add_argument("problem", nargs="*", default=PROBLEMS)
    options = parser.parse_args()
    library = Library(options.library)
    print("problem\tthreads\tarm\tkernel\tmedian_us\tlo_us\thi_us\tgflops\tratio\terror")
    for threads in map(int, options.threads.split(",")):
        os.environ["ATTUNE_THREADS"] = str(threads)
        torch.set_num_threads(threads)
        for text in options.problem:
            run(library, text, threads, options)


if __name__ == "__main__":
    main()
