"""attune.torch on a CUDA device; skipped where there is none. run.sh in this folder runs these on such a machine."""
import os
import random
import subprocess
import sys
import threading

import pytest

import attune
from attune import command, fast

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)
import attune.torch as at  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

attention = torch.nn.functional.scaled_dot_product_attention
LIMITS = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
HALVES = [torch.float16, torch.bfloat16]


def draw(*sizes, dtype=torch.float16, seed=0):
    generator = torch.Generator("cuda").manual_seed(seed)
    return [torch.randn(size, generator=generator, device="cuda").to(dtype) for size in sizes]


def plain(q, k, v, hidden=None, bias=None, softcap=None, scale=None):
    """In fp64, differentiable; rows that see no key are 0."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.mT * (q.shape[-1]**-0.5 if scale is None else scale)
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    scores = scores if bias is None else scores + bias
    if hidden is None:
        return torch.softmax(scores, -1) @ v
    empty = hidden.expand(scores.shape).all(-1, keepdim=True)
    scores = scores.masked_fill(hidden, float("-inf")).masked_fill(empty, 0)
    return torch.softmax(scores, -1).masked_fill(empty, 0) @ v


def behind(sq, sk, offset):
    return torch.arange(sk, device="cuda") > torch.arange(sq, device="cuda")[:, None] + offset


def close(found, wanted, dtype, factor=1):
    assert found.dtype is dtype
    difference = (found.double() - wanted).abs().max().item() if found.numel() else 0
    assert difference <= factor * LIMITS[dtype] * max(1, wanted.abs().max().item() if found.numel() else 0), difference


@pytest.mark.parametrize("part", range(4))  # most of the time is compilers': in processes side by side
def test_random_calls(part):
    for seed in range(part, 60, 4):
        pick = random.Random(seed)
        batch, group, heads, sq, sk = (pick.randint(1, n) for n in (3, 3, 3, 200, 300))
        dim, dtype, kind = pick.choice([8, 64, 72, 128]), pick.choice(list(LIMITS)), pick.randrange(6)
        shapes = [(batch, heads * group, sq, dim), (batch, heads, sk, dim), (batch, heads, sk, dim)]
        q, k, v = draw(*shapes, dtype=dtype, seed=seed)
        if pick.random() < 0.5:
            q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
        options, terms = {}, {}
        if kind == 1:
            options, terms = {"causal": True}, {"hidden": behind(sq, sk, sk - sq)}
        elif kind == 2:
            options, terms = {"is_causal": True}, {"hidden": behind(sq, sk, 0)}
        elif kind == 3:
            options = terms = {"softcap": 2.0}
        elif kind == 4:
            seen = torch.rand(sq, sk, device="cuda") < 0.5
            options, terms = {"attn_mask": seen}, {"hidden": ~seen}
        elif kind == 5:
            bias, = draw((batch, 1, sq, sk), dtype=dtype, seed=seed + 1)
            options, terms = {"attn_mask": bias}, {"bias": bias.double()}
        found = attune.sdpa(q, k, v, enable_gqa=True, **options)
        close(found, plain(*(t.double() for t in (q, k, v)), **terms), dtype)
        assert torch.equal(at.sdpa(q, k, v, enable_gqa=True, **options), found)


@pytest.mark.parametrize("dtype", list(LIMITS))
@pytest.mark.parametrize("heads", [(8, 2), (4, 4), (14, 2)])
def test_masks_of_one_query(dtype, heads):
    """A padding mask, of all heads or of each; heads that share keys and the mask are computed together."""
    q, k, v = draw((3, heads[0], 1, 64), (3, heads[1], 777, 64), (3, heads[1], 777, 64), dtype=dtype)
    lengths = torch.tensor([777, 1, 400], device="cuda")
    seen = torch.arange(777, device="cuda")[None, None, None] < lengths[:, None, None, None]
    each = seen & (torch.rand(3, heads[0], 1, 777, device="cuda") < 0.8)
    bias, = draw((1, 1, 1, 777), dtype=dtype, seed=2)
    wide = [t.double() for t in (q, k, v)]
    for mask in (seen, each, bias):
        terms = {"bias": mask.double()} if mask is bias else {"hidden": ~mask}
        for turn in range(3):
            found, lse = attune.sdpa(q, k, v, attn_mask=mask, enable_gqa=True, return_lse=True)
            close(found, plain(*wide, **terms), dtype)
        close(attune.sdpa(q, k, v, attn_mask=mask, enable_gqa=True, softcap=3.0),
              plain(*wide, **terms, softcap=3.0), dtype)
        shared = k.repeat_interleave(heads[0] // heads[1], 1).double()
        scores = (q.double() @ shared.mT) / 8 + (mask.double() if mask is bias else 0)
        wanted = torch.logsumexp(scores if mask is bias else scores.masked_fill(~mask, float("-inf")), -1)
        assert torch.allclose(lse.double(), wanted, atol=5e-3, rtol=1e-2)


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_arrays_of_cupy(name):
    """Of DLPack, on a device; attune's work waits for what is before it on their own stream."""
    cupy, dtype = pytest.importorskip("cupy"), getattr(torch, name)
    arrays = [cupy.random.standard_normal((2, 4, length, 64)).astype(name) for length in (90, 130, 130)]
    q, k, v = (torch.from_dlpack(array).double() for array in arrays)
    for options, terms in (({}, {}), ({"causal": True}, {"hidden": behind(90, 130, 40)})):
        for _ in range(2):
            o = attune.sdpa(*arrays, **options)
            assert type(o) is cupy.ndarray and o.dtype == arrays[0].dtype
            close(torch.from_dlpack(o), plain(q, k, v, **terms), dtype)
    plan = attune.plan(f"b2,h4,s200,d64,{'fp32' if name == 'float32' else 'fp16'}", "cuda")
    out = cupy.empty_like(arrays[0])
    assert plan.run(Q=arrays[0], K=arrays[1], V=arrays[2], O=out) is out
    close(torch.from_dlpack(out), plain(q, k, v), dtype)
    wide = cupy.random.standard_normal((4096, 4096)).astype("float32")
    late = [cupy.zeros_like(array) for array in arrays]
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True):
        for _ in range(8):
            wide = wide @ wide / 64
        for own, new in zip(late, arrays):
            own[...] = new
        o = attune.sdpa(*late)
    cupy.cuda.Device().synchronize()
    close(torch.from_dlpack(o), plain(q, k, v), dtype)
    with pytest.raises(attune.Error, match="k: it is of type Tensor, and q of ndarray"):
        attune.sdpa(arrays[0], torch.from_dlpack(arrays[1]), arrays[2])


@pytest.mark.parametrize("name", ["sdpa", "sdpa_lse"])
def test_opcheck(name):
    q, k, v = draw((2, 4, 64, 64), (2, 2, 96, 64), (2, 2, 96, 64))
    rest = (None, None, None, None, False, None, True, "bhsd", True, "br", None, None, False, False, False)
    result = torch.library.opcheck(getattr(torch.ops.attune, name).default, (q, k, v, *rest))
    assert set(result.values()) == {"SUCCESS"}, result


# ---- Gradients -----------------------------------------------------------------------------------------------------


def gradients(function, tensors, grad):
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    o = function(*leaves)
    o.backward(grad)
    return [o.detach(), *(leaf.grad for leaf in leaves)]


def compare(function, wide, tensors, grad, dtype):
    found = gradients(function, tensors, grad)
    wanted = gradients(wide, [t.double() for t in tensors], grad.double())
    for have, want in zip(found, wanted):
        close(have, want, dtype, 4)


@pytest.mark.parametrize("dtype", list(LIMITS))
@pytest.mark.parametrize("kind", ["plain", "causal", "window", "mask", "bias", "dim", "longer"])
def test_gradients(dtype, kind):
    if kind in ("window", "longer") and dtype is torch.float32:
        pytest.skip("refused")
    sk = 160 if kind == "longer" else 96
    dim = 72 if kind == "dim" else 64
    q, k, v, grad = draw((2, 4, 96, dim), (2, 2, sk, dim), (2, 2, sk, dim), (2, 4, 96, dim), dtype=dtype)
    options, terms = {}, {}
    if kind in ("causal", "longer"):
        options, terms = {"causal": True}, {"hidden": behind(96, sk, sk - 96)}
    elif kind == "window":
        i, j = torch.arange(96, device="cuda")[:, None], torch.arange(96, device="cuda")
        options, terms = {"window": (9, 4)}, {"hidden": (j < i - 9) | (j > i + 4)}
    elif kind == "mask":
        seen = torch.rand(96, 96, device="cuda") < 0.5
        seen[7] = False
        options, terms = {"attn_mask": seen}, {"hidden": ~seen}
    elif kind == "bias":
        bias, = draw((2, 1, 96, 96), dtype=dtype, seed=3)
        options, terms = {"attn_mask": bias}, {"bias": bias.double()}
    compare(lambda *t: at.sdpa(*t, enable_gqa=True, **options), lambda *t: plain(*t, **terms), (q, k, v), grad, dtype)


def test_gradients_of_rows_without_keys():
    """Causal with more queries than keys: the first see none."""
    q, k, v, grad = draw((1, 2, 96, 64), (1, 2, 64, 64), (1, 2, 64, 64), (1, 2, 96, 64))
    compare(lambda *t: at.sdpa(*t, causal=True), lambda *t: plain(*t, hidden=behind(96, 64, -32)), (q, k, v), grad,
            torch.float16)


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_of_packed_sequences(dtype):
    lengths = [33, 1, 70]
    cu = torch.tensor([0, 33, 34, 104], dtype=torch.int32, device="cuda")
    q, k, v, grad = draw((104, 4, 64), (104, 2, 64), (104, 2, 64), (104, 4, 64), dtype=dtype)

    def each(q, k, v):
        parts = zip(*(t.split(lengths) for t in (q, k, v)))
        rows = [plain(*(t.transpose(0, 1)[None] for t in part), hidden=behind(len(part[0]), len(part[0]), 0))[0]
                for part in parts]
        return torch.cat([o.transpose(0, 1) for o in rows])

    compare(lambda *t: at.varlen(*t, cu, cu, 70, 70, causal=True), each, (q, k, v), grad, dtype)


def test_what_is_refused():
    q, k, v = draw(*[(1, 2, 64, 64)] * 3)
    wants = q.clone().requires_grad_()
    for options, words in (({"softcap": 2.0}, "softcap"), ({"sink": torch.zeros(2, device="cuda")}, "sink"),
                           ({"causal": True, "offset": 3}, "causal")):
        with pytest.raises(attune.Error, match=f"cannot be computed: {words}"):
            at.sdpa(wants, k, v, **options)
    for tensors, words in (((q, k.cpu(), v), "k: it is on the CPU"), ((q.double(), k, v), "q: its dtype"),
                           ((q, k, v.cpu()), "v: it is on"), ((wants, k, v), "requires a gradient")):
        with pytest.raises(attune.Error, match=words):
            attune.sdpa(*tensors)


# ---- PyTorch's own function ----------------------------------------------------------------------------------------


def places(tensor):
    """Strides, but of dimensions of one index, of which PyTorch's own kernels say what they like."""
    return [stride for stride, extent in zip(tensor.stride(), tensor.shape) if extent > 1]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("back_end", [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION])
def test_install(dtype, back_end):
    for shapes, options in (([(2, 4, 96, 64)] * 3, {}), ([(2, 4, 96, 64)] * 3, {"is_causal": True}),
                            ([(2, 4, 96, 128)] + [(2, 4, 160, 128)] * 2, {"scale": 0.2}),
                            ([(2, 4, 1, 64)] + [(2, 2, 160, 64)] * 2, {"enable_gqa": True})):
        q, k, v = draw(*shapes, dtype=dtype)
        q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
        grad, = draw(shapes[0], dtype=dtype, seed=9)
        with sdpa_kernel(back_end):
            try:
                before = attention(q, k, v, **options)
            except RuntimeError as error:
                print("PyTorch has not", back_end, shapes, options, error)
                continue
            with at.use() as calls:
                calls.reset()
                found = attention(q, k, v, **options)
                assert (calls.attune, calls.pytorch) == (1, 0), calls
                assert places(found) == places(before), (shapes, options)
                hidden = {"hidden": behind(96, 96, 0)} if "is_causal" in options else {}
                own = {"scale": options["scale"]} if "scale" in options else {}
                compare(lambda *t: attention(*t, **options), lambda *t: plain(*t, **own, **hidden), (q, k, v), grad,
                        dtype)
                assert calls.attune == 2 and calls.pytorch == 0
            attention(q, k, v, **options)
            assert calls.attune == 2


def test_the_default_choice_is_served_and_falls_back():
    q, k, v = draw(*[(2, 4, 128, 64)] * 3)
    own = attention(q, k, v)
    with at.use() as calls:
        calls.reset()
        close(attention(q, k, v), own.double(), torch.float16)
        assert (calls.attune, calls.pytorch) == (1, 0), calls
        attention(q, k, v, dropout_p=0.5)
        assert (calls.attune, calls.pytorch) == (1, 1) and "dropout" in repr(calls)
    again = attention(q, k, v)
    assert torch.equal(again, own) and calls.attune == 1


# ---- Compiled, captured, on streams --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compile(mode):
    def function(q, k, v):
        return at.sdpa(q * 1, k, v, is_causal=True) + 1

    def through(q, k, v):
        return attention(q * 1, k, v, is_causal=True) + 1

    q, k, v = draw(*[(2, 4, 128, 64)] * 3)
    grad, = draw((2, 4, 128, 64), seed=3)
    for one in (function, through):
        with at.use():
            compiled = torch.compile(one, fullgraph=True, mode=mode)
            for _ in range(4):
                close(compiled(q, k, v), one(q, k, v).double(), torch.float16)
            for have, want in zip(gradients(compiled, (q, k, v), grad), gradients(one, (q, k, v), grad)):
                close(have, want.double(), torch.float16)
        torch._dynamo.reset()


def test_graphs():
    q, k, v = draw(*[(2, 4, 200, 64)] * 3)
    with at.use(), torch.no_grad():
        for function in (lambda: attune.sdpa(q, k, v, is_causal=True), lambda: at.sdpa(q, k, v, is_causal=True),
                         lambda: attention(q, k, v, is_causal=True)):
            function()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                o = function()
            for seed in (1, 2):
                for own, new in zip((q, k, v), draw(*[(2, 4, 200, 64)] * 3, seed=seed)):
                    own.copy_(new)
                graph.replay()
                torch.cuda.synchronize()
                close(o, plain(*(t.double() for t in (q, k, v)), hidden=behind(200, 200, 0)), torch.float16)


def test_the_second_call_of_a_process_is_captured():
    code = ("import torch, attune; q = torch.ones(1, 2, 64, 64, device='cuda', dtype=torch.float16)\n"
            "want, graph = attune.sdpa(q, q, q), torch.cuda.CUDAGraph(); torch.cuda.synchronize()\n"
            "with torch.cuda.graph(graph): o = attune.sdpa(q, q, q)\n"
            "graph.replay(); torch.cuda.synchronize(); assert torch.equal(o, want)")
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"], text=True,
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_calls_that_were_never_seen_are_refused_while_capturing():
    q, k, v = draw(*[(1, 3, 77, 40)] * 3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = q + 1
        with pytest.raises(attune.Error, match="is being captured"):
            attune.sdpa(q, k, v)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(o, q + 1)


def test_streams():
    """Work waits for what is before it on PyTorch's current stream."""
    source = draw(*[(2, 4, 256, 64)] * 3)
    wanted = attune.sdpa(*source)
    late = [torch.zeros_like(t) for t in source]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        for own, new in zip(late, source):
            own.copy_(new)
        o = attune.sdpa(*late)
    stream.synchronize()
    assert torch.equal(o, wanted)


def test_outputs_of_calls_that_have_been_seen():
    """Whoever makes them, they are tensors as PyTorch's own."""
    q, k, v = draw(*[(2, 4, 128, 64)] * 3)
    rows = q.transpose(1, 2).contiguous().transpose(1, 2)
    for given in (q, rows):
        for _ in range(4):
            o = attune.sdpa(given, k, v)
        assert type(o) is torch.Tensor and o.stride() == given.stride() and o.dtype is q.dtype and o.is_cuda
        close(o, plain(*(t.double() for t in (q, k, v))), torch.float16)
        assert not o.is_inference() and not o.requires_grad
        with torch.inference_mode():
            assert attune.sdpa(given, k, v).is_inference()


AHEAD = """
import torch, attune
from attune import fast
torch.set_grad_enabled(False)
q, k, v = (torch.randn(1, 8, 64, 64, device="cuda", dtype=torch.float16) for _ in range(3))
size = q.numel() * 2
for _ in range(5):
    want = attune.sdpa(q, k, v)
there = {block["address"] for part in torch.cuda.memory_snapshot() for block in part["blocks"]
         if block["state"] == "active_allocated"}
o = attune.sdpa(q, k, v)
assert o.data_ptr() in there and torch.equal(o, want)
before = torch.cuda.memory_allocated()
kept = [attune.sdpa(q, k, v) for _ in range(20)]
assert len({o.data_ptr() for o in kept}) == 20 and all(torch.equal(o, want) for o in kept)
assert torch.cuda.memory_allocated() - before == 20 * size  # what lies ahead was there before
del kept
for inference in (True, True, False, True, False):
    with torch.inference_mode(inference):
        assert attune.sdpa(q, k, v).is_inference() is inference
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(3):
        attune.sdpa(q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        o = attune.sdpa(q, k, v)
others = [attune.sdpa(q * 2, k, v) for _ in range(5)]  # of the default stream: none is where the graph writes
o.zero_()
graph.replay()
torch.cuda.synchronize()
assert torch.equal(o, want) and all(torch.equal(other, others[0]) for other in others)
assert o.data_ptr() not in {other.data_ptr() for other in others}
if hasattr(torch.cuda, "use_mem_pool"):
    pool = torch.cuda.MemPool()
    attune.sdpa(q, k, v)
    with torch.cuda.use_mem_pool(pool):
        inside = [attune.sdpa(q, k, v) for _ in range(3)]
    ends = [(part["address"], part["address"] + part["total_size"]) for part in pool.snapshot()]
    assert all(any(first <= o.data_ptr() < last for first, last in ends) for o in inside), ends
    after = [attune.sdpa(q, k, v) for _ in range(3)]
    assert not any(first <= o.data_ptr() < last for first, last in ends for o in after), ends
    assert all(torch.equal(o, want) for o in inside + after)
assert fast.table is not None
"""


@pytest.mark.skipif(os.environ.get("ATTUNE_FAST") == "0" or fast.find() is None, reason="there is no attune._fast")
@pytest.mark.skipif(not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="PyTorch has no table of DLPack's")
def test_outputs_made_ahead():
    """In a process of its own: once somebody has made a pool of memory there are none."""
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{AHEAD}"], text=True,
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_no_memory_for_an_output():
    q, k, v = draw((1, 1, 2048, 256), (1, 1, 8, 256), (1, 1, 8, 256))
    many = q.expand(1, 64, 2048, 256)  # O takes 64 MiB
    for _ in range(4):
        o = attune.sdpa(many, k, v, enable_gqa=True)
    del o
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (1 << 24)) / total)
    try:
        for _ in range(3):
            with pytest.raises(torch.OutOfMemoryError):
                attune.sdpa(many, k, v, enable_gqa=True)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    for _ in range(3):
        assert attune.sdpa(many, k, v, enable_gqa=True).shape == many.shape


def some_attention(q, k, v, causal=False, scale=None):
    return attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1])


def a_wrong_one(q, k, v, causal=False, scale=None):
    return some_attention(q, k, v, causal, scale) * 1.01


def needs_the_command():
    try:
        command.executable()
    except attune.Error as error:
        pytest.skip(str(error))


def test_gate_of_a_function():
    needs_the_command()
    rows = attune.gate(some_attention, "b1,h4,hkv2,s256,d64,bf16,causal", seconds=0.2, target="cuda")
    assert [row["arm"].rpartition(":")[2] for row in rows] == ["some_attention", "auto"], rows
    assert all(row["median_us"] > 0 for row in rows), rows
    with pytest.raises(attune.Error, match="wrong, and therefore not timed") as caught:
        attune.gate(a_wrong_one, "b1,h4,s256,d64,fp16", seconds=0.2, target="cuda")
    assert caught.value.status == attune.Status.WRONG_RESULT


def test_autocast():
    q, k, v = draw(*[(1, 2, 64, 64)] * 3, dtype=torch.float32)
    with torch.autocast("cuda", torch.bfloat16):
        o = at.sdpa(q, k, v)
    assert o.dtype is torch.bfloat16 and torch.equal(o, at.sdpa(*(t.bfloat16() for t in (q, k, v))))


def test_threads():
    q, k, v = draw(*[(1, 2, 100, 64)] * 3)
    wanted, wrong = attune.sdpa(q, k, v), []

    def work():
        with torch.cuda.stream(torch.cuda.Stream()):
            wrong.extend(i for i in range(50) if not torch.equal(attune.sdpa(q, k, v), wanted))

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def in_process(code):
    lines = ["import sys", f"sys.path[:0] = {sys.path!r}", "import os, torch, attune",
             "q, k, v = (torch.randn(1, 2, 64, 64, device='cuda', dtype=torch.float16) for _ in range(3))",
             "o = attune.sdpa(q, k, v)", *code]
    return subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120)


def test_the_end_of_an_interpreter():
    done = in_process(["import attune.torch", "attune.torch.install()", "o = attune.sdpa(q, k, v)"])
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_a_child_is_refused():
    done = in_process(["torch.cuda.synchronize()", "if os.fork() == 0:", "    try:",
                       "        attune.plan('b1,h2,s64,d64,fp16', 'cuda').run(Q=q, K=k, V=v, O=o)",
                       "    except Exception as error:", "        print(type(error).__name__, error, flush=True)",
                       "    os._exit(0)", "os.wait()", "attune.sdpa(q, k, v)", "torch.cuda.synchronize()",
                       "print('parent goes on')"])
    assert done.returncode == 0, done.stderr
    assert "Error" in done.stdout and "parent goes on" in done.stdout, done.stdout
