"""attune.torch where processes fork and end, and tensors that are not what they seem; without PyTorch, skipped."""
import subprocess
import sys

import pytest

import attune

torch = pytest.importorskip("torch")
import attune.torch as at  # noqa: E402

attention = torch.nn.functional.scaled_dot_product_attention


def run(*lines):
    code = ["import sys", f"sys.path[:0] = {sys.path!r}", "import os, threading, time, torch",
            "import attune, attune.torch as at",
            "q, k, v = (torch.randn(2, 4, 70, 32) for _ in range(3))", "wanted = attune.sdpa(q, k, v)", *lines]
    return subprocess.run([sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, timeout=120)


def test_a_child_goes_on():
    """On a CPU plans work in a child, with what PyTorch is served too."""
    done = run("import warnings", "warnings.filterwarnings('ignore', 'This process')",  # of threads: CPython 3.12
               "at.install()", "if os.fork() == 0:",
               "    same = torch.equal(attune.sdpa(q, k, v), wanted) and torch.equal(at.sdpa(q, k, v), wanted)",
               "    served = torch.nn.functional.scaled_dot_product_attention(q, k, v)",
               "    os._exit(0 if same and torch.equal(served, wanted) and at.calls.attune == 1 else 1)",
               "status = os.wait()[1]", "assert status == 0, status",
               "assert torch.equal(attune.sdpa(q, k, v), wanted)")
    assert done.returncode == 0 and not done.stderr, done.stderr


@pytest.mark.parametrize("ending", ["pass", "sys.exit(0)", "os._exit(0)"])
def test_the_end_of_an_interpreter(ending):
    """While threads are at work, with everything installed, and with plans that nobody has let go. The threads have
    arrays of NumPy: PyTorch itself aborts where a thread is in its functions when an interpreter ends."""
    done = run("at.install()", "plan = attune.plan('b2,h4,s70,d32,fp32', 'cpu')",
               "arrays = [t.numpy() for t in (q, k, v)]",
               "call = plan.bind(dict(zip('QKVO', [*arrays, arrays[0].copy()])))", "def work():", "    while True:",
               "        call.run()", "        attune.sdpa(*arrays)", "for _ in range(3):",
               "    threading.Thread(target=work, daemon=True).start()", "time.sleep(0.2)", ending)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_use_in_threads():
    """One that ends while another goes on takes nothing away."""
    done = run("def work():", "    for _ in range(200):", "        with at.use():",
               "            o = torch.nn.functional.scaled_dot_product_attention(q, k, v)",
               "        assert torch.allclose(o, wanted, atol=1e-5)", "errors = []",
               "threading.excepthook = lambda args: errors.append(args.exc_value)",
               "threads = [threading.Thread(target=work) for _ in range(3)]", "[t.start() for t in threads]",
               "[t.join() for t in threads]", "assert not errors, errors", "assert not at.installed")
    assert done.returncode == 0, done.stderr


def test_strides():
    """What kernels do not take is copied; what has one element for many places is read, and never written."""
    q, k, v = (torch.randn(2, 3, 9, 16) for _ in range(3))
    wanted = attune.sdpa(q, k, v)
    for strange in (q.mT.contiguous().mT, q.flip(2).flip(2), torch.as_strided(q, q.shape, q.stride())):
        assert torch.equal(attune.sdpa(strange, k, v), wanted) and torch.equal(at.sdpa(strange, k, v), wanted)
    overlapping = torch.randn(40).as_strided((1, 1, 9, 16), (0, 0, 2, 1))
    copy = overlapping.contiguous()
    assert torch.allclose(attune.sdpa(*[overlapping] * 3), attune.sdpa(*[copy] * 3), atol=1e-6)
    with pytest.raises(attune.Error, match="out: the stride"):
        attune.sdpa(q, k, v, out=torch.empty(1, 1, 1, 1).expand(2, 3, 9, 16))


def test_tensors_that_go_away():
    q, k, v = (torch.randn(1, 2, 9, 16) for _ in range(3))
    call = attune.plan("b1,h2,s9,d16,fp32", "cpu").bind({"Q": q, "K": k, "V": v, "O": torch.empty_like(q)})
    wanted = attune.sdpa(q, k, v)
    o = call.arrays["O"]
    del q, k, v
    call.run()  # which holds them
    assert torch.equal(o, wanted)
    gone = torch.randn(1, 2, 9, 16)
    gone.untyped_storage().resize_(0)
    for function in (attune.sdpa, at.sdpa):
        with pytest.raises(attune.Error, match="freed|NULL"):
            function(o, gone, o)


def test_devices_and_dtypes():
    q, k, v = (torch.randn(1, 2, 9, 16) for _ in range(3))
    for function in (attune.sdpa, at.sdpa):
        for tensors, words in (((q, k.to("meta"), v), "k: it is on meta"), ((q.to("meta"), k, v), "q|k"),
                               ((q, k.int(), v), "k: its dtype|K"), ((q.to(torch.complex64), k, v), "q: its dtype"),
                               ((q, k.to_sparse(), v), "k: a plain strided"), ((q, None, v), "k: it is of type")):
            with pytest.raises(attune.Error, match=words):
                function(*tensors)
    with at.use() as calls:
        calls.reset()
        with pytest.raises(RuntimeError):
            attention(q, k.half(), v)
        assert calls.attune == 0
