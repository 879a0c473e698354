"""What arms of PyTorch's may use of TF32: what their problem says. On a CPU, whose arms are taken for CUDA's here."""
import contextlib
import types

import pytest

from attune import arms, library

torch = pytest.importorskip("torch")

SWITCH = torch.backends.cuda.matmul
ALLOWED, PLAIN = "b2,h4,hkv2,sq8,skv12,d16,fp32,tf32", "b2,h4,hkv2,sq8,skv12,d16,fp32"
SOURCE = """
import torch
said = [torch.backends.cuda.matmul.allow_tf32]

def plain(q, k, v, causal, scale):
    said.append(torch.backends.cuda.matmul.allow_tf32)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=True)

def knowing(q, k, v, causal, scale, tf32=False):
    said.append(tf32)
    return plain(q, k, v, causal, scale)

def broken(q, k, v, causal, scale):
    torch.backends.cuda.matmul.allow_tf32 = not torch.backends.cuda.matmul.allow_tf32
    raise ValueError("out of sorts")

def prepared(**_):
    pass

def prepare(q, k, v, causal, scale):
    said.append(torch.backends.cuda.matmul.allow_tf32)
    return lambda: plain(q, k, v, causal, scale)

prepared.prepare = prepare
"""


@pytest.fixture(autouse=True)
def as_on_cuda(monkeypatch):
    monkeypatch.setattr(arms, "on_cuda", lambda question: True)
    former = SWITCH.allow_tf32
    yield
    SWITCH.allow_tf32 = former


def open_arm(tmp_path, text, function="plain", name=None):
    """An arm, and what its function has seen."""
    (tmp_path / "own.py").write_text(SOURCE)
    arm = arms.Arm(name or f"py:{tmp_path / 'own.py'}:{function}", library.default().problem(text), -1)
    return arm, getattr(getattr(arm.compute, "func", None), "__globals__", {}).get("said")


def call_of(arm):
    """A call, and the arrays that it is about."""
    q, k, v = arm.question.draw(2, 2)
    call = library.Call(batch=2, heads_q=4, heads_kv=2, seqlen_q=8, seqlen_kv=12)
    held = {"Q": q, "K": k, "V": v, "O": torch.empty_like(q)}
    for role, tensor in held.items():
        slot = call.tensor[library.ROLES.index(role)]
        slot.data, slot.stride[:] = tensor.data_ptr(), tensor.stride()[:3]
    return call, held


@pytest.mark.parametrize("former", [False, True])
@pytest.mark.parametrize("function", ["plain", "prepared"])
def test_the_switch_is_the_problems(tmp_path, former, function):
    """Where the file is loaded, tried, prepared and run; what it was before is back after that."""
    SWITCH.allow_tf32 = former
    for text in (ALLOWED, PLAIN):
        arm, said = open_arm(tmp_path, text, function)
        assert said == [text is ALLOWED] * (3 if function == "prepared" else 2) and SWITCH.allow_tf32 is former
        call, held = call_of(arm)
        said.clear()
        arm.run(call)
        assert said and set(said) == {text is ALLOWED} and SWITCH.allow_tf32 is former
        assert torch.equal(held["O"], arm.prepare({name: held[name.upper()] for name in "qkv"})())


@pytest.mark.parametrize("former", [False, True])
def test_the_switch_is_back_after_what_failed(tmp_path, former):
    SWITCH.allow_tf32 = former
    for text in (ALLOWED, PLAIN):
        with pytest.raises(arms.Refused, match="out of sorts"):
            open_arm(tmp_path, text, "broken")
        assert SWITCH.allow_tf32 is former
        with pytest.raises(arms.Refused, match="SyntaxError"):
            (tmp_path / "bad.py").write_text("def")
            open_arm(tmp_path, text, name=f"py:{tmp_path / 'bad.py'}:f")
        assert SWITCH.allow_tf32 is former
        arm, _ = open_arm(tmp_path, text)
        arm.compute = lambda **_: 1 / 0
        with pytest.raises(ZeroDivisionError):
            arm.run(call_of(arm)[0])
        assert SWITCH.allow_tf32 is former


def stand_in(graph):
    """PyTorch where what is captured is run."""
    null = contextlib.nullcontext
    cuda = types.SimpleNamespace(device=lambda device: null(), stream=lambda stream: null(), Stream=lambda: None,
                                 synchronize=lambda: None, graph=graph,
                                 CUDAGraph=lambda keep_graph: types.SimpleNamespace(raw_cuda_graph=lambda: 7))
    return types.SimpleNamespace(no_grad=torch.no_grad, cuda=cuda)


@pytest.mark.parametrize("former", [False, True])
def test_the_switch_while_a_graph_is_captured(tmp_path, former):
    SWITCH.allow_tf32, seen = former, []

    @contextlib.contextmanager
    def graph(made, capture_error_mode):
        seen.append(SWITCH.allow_tf32)
        yield
        seen.append(SWITCH.allow_tf32)

    def failing(made, capture_error_mode):
        raise RuntimeError("not while capturing")

    for text in (ALLOWED, PLAIN):
        arm, said = open_arm(tmp_path, text)
        (call, held), output = call_of(arm), library.Tensor()
        said.clear()
        arm.torch = stand_in(graph)
        assert arm.capture([call, call], [output, output]) == 7
        assert set(said) | set(seen) == {text is ALLOWED} and len(said) == 3 and SWITCH.allow_tf32 is former
        seen.clear()
        arm.torch = stand_in(failing)
        with pytest.raises(RuntimeError, match="not while capturing"):
            arm.capture([call], [output])
        assert SWITCH.allow_tf32 is former and held


def test_a_permission_goes_to_who_knows_of_it(tmp_path):
    for text in (ALLOWED, PLAIN):
        said = open_arm(tmp_path, text, "knowing")[1]
        assert said == [text is ALLOWED] * 3  # where it is loaded, as an argument, in `plain`
        assert "tf32" not in open_arm(tmp_path, text)[0].compute.keywords


def test_back_ends_are_held_to_what_is_allowed(monkeypatch, tmp_path):
    """They are validated as they will compute, and what was found of one kind is not said of the other."""
    arms.validated.cache_clear()
    seen, sdpa = [], arms.sdpa
    monkeypatch.setattr(arms, "sdpa", lambda *asked: seen.append(SWITCH.allow_tf32) or sdpa(*asked))
    for text in (ALLOWED, PLAIN):
        seen.clear()
        arm, _ = open_arm(tmp_path, text.replace("hkv2,", ""), name="torch:cpu")
        assert len(seen) == 3 and set(seen) == {text is ALLOWED} and "from fp64" in arm.account
    one, other = (arms.Question(library.default().problem(text), -1) for text in (ALLOWED, PLAIN))
    assert one.key() != other.key() and one.key() == arms.Question(library.default().problem(ALLOWED), -1).key()
    arms.validated.cache_clear()


def test_a_cpu_has_no_such_switch(monkeypatch, tmp_path):
    monkeypatch.undo()
    arm, said = open_arm(tmp_path, ALLOWED)
    assert not arms.on_cuda(arm.question) and set(said) == {SWITCH.allow_tf32}
