"""What Python asks of the command."""
import os
import subprocess
import sys

import pytest

import attune
from attune import command


@pytest.fixture(autouse=True)
def needs_the_command():
    try:
        command.executable()
    except attune.Error as error:
        pytest.skip(str(error))


def test_info():
    found = attune.info("b1,h2,s64,d64,fp32,causal", target="cpu")
    assert found["problem"]["text"] == "b1,h2,s64,d64,fp32,causal" and found["machine"]["target"].startswith("cpu/")
    assert found["kernels"]["cpu_tiled"]["for the problem"] == "runs it"
    with pytest.raises(attune.Error, match="term 'd64x'"):
        attune.info("b1,h2,s64,d64x,fp32")
    with pytest.raises(attune.Error, match="target"):
        attune.info(target="tpu")


def test_bench():
    rows = attune.bench("b1,h2,s32,d16,fp32", arms=["auto", "cpu_tiled"], seconds=0.05, target="cpu")
    assert [row["arm"] for row in rows] == ["auto", "cpu_tiled"] and all(row["median_us"] > 0 for row in rows)
    with pytest.raises(attune.Error, match="cudnn"):
        attune.bench("b1,h2,s32,d16,fp32", arms="cudnn", target="cpu")


def test_gate_of_a_kernel():
    rows = attune.gate("cpu_tiled", "b1,h1,s16,d16,fp32", against="cpu_decode", quick=True, target="cpu", threads=1)
    assert all(row["kernel"] == "cpu_tiled" and row["right"] == "pass" for row in rows), rows
    assert all(row["faster"] in ("pass", "fail", "inconclusive") for row in rows), rows
    with pytest.raises(attune.Error, match="cpu_tield"):
        attune.gate("cpu_tield", "b1,h1,s16,d16,fp32", target="cpu")


def some_attention(q, k, v, causal=False, scale=None):
    import torch
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)


def a_wrong_one(q, k, v, causal=False, scale=None):
    return v * 1.01


def test_callables_have_names():
    assert command.arm_of(some_attention) == f"py:{os.path.abspath(__file__)}:some_attention"
    assert command.arm_of("mine.py:f") == "py:mine.py:f" and command.arm_of("torch:cpu") == "torch:cpu"
    for other in (lambda q, k, v: q, max, 3, test_callables_have_names.__class__):
        with pytest.raises(attune.Error, match="a function of a file's top level is needed|a text or a callable"):
            command.arm_of(other)


def test_the_command_runs():
    line = [sys.executable, "-c", "from attune.command import main; main()", "version"]
    found = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
    assert found.returncode == 0 and found.stdout.startswith("attune 0."), found


def test_python_functions_are_timed_beside_kernels():
    """With PyTorch both have a row; without it the function is passed over, and the kernel is timed all the same."""
    rows = attune.bench("b1,h2,s32,d16,fp32", arms=["cpu_tiled", some_attention], seconds=0.05, target="cpu")
    try:
        import torch  # noqa: F401
        assert len(rows) == 2 and rows[1]["arm"].endswith(":some_attention"), rows
        assert len(attune.gate(some_attention, "b1,h2,s32,d16,fp32", seconds=0.05, target="cpu")) == 2
        with pytest.raises(attune.Error, match="wrong, and therefore not timed") as caught:
            attune.gate(a_wrong_one, "b1,h2,s32,d16,fp32", seconds=0.05, target="cpu")
        assert caught.value.status == attune.Status.WRONG_RESULT
    except ImportError:
        assert [row["arm"] for row in rows] == ["cpu_tiled"], rows
    with pytest.raises(attune.Error, match="torch:nothing"):
        attune.bench("b1,h2,s32,d16,fp32", arms="torch:nothing", target="cpu")
    with pytest.raises(attune.Error, match="its file cannot be read"):
        attune.bench("b1,h2,s32,d16,fp32", arms="/nowhere.py:f", target="cpu")
