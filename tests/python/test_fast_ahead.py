"""What attune._fast makes ahead, behind a launch, for the next call of a kind: by a table that says of a CPU's tensors
that they are a CUDA device's. Skipped as tests/python/test_fast.py is."""
import ctypes as c
import gc
import os
import weakref

import pytest

import attune
from attune import attention, fast, tensors

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("this PyTorch has no table of DLPack's", allow_module_level=True)
if os.environ.get("ATTUNE_FAST") == "0" or fast.find() is None:
    pytest.skip("there is no attune._fast", allow_module_level=True)

CAPSULE = b"dlpack_exchange_api"
CUDA = 2


class View(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32), ("device", c.c_int32), ("dims", c.c_int32)]


VIEW = c.PYFUNCTYPE(c.c_int, c.py_object, c.POINTER(View))
STREAM = c.PYFUNCTYPE(c.c_int, c.c_int32, c.c_int32, c.POINTER(c.c_void_p))


class Exchange(c.Structure):
    _fields_ = [("major", c.c_uint32), ("minor", c.c_uint32), ("older", c.c_void_p), ("functions", c.c_void_p * 3),
                ("view", VIEW), ("current_stream", STREAM)]


class Device:
    """What a device has: a current stream, how many pools of memory were made, and what was made, in order."""

    def __init__(self, monkeypatch):
        self.stream, self.pools, self.made = None, c.c_uint64(1), []
        get, new = c.pythonapi.PyCapsule_GetPointer, c.pythonapi.PyCapsule_New
        get.restype, get.argtypes = c.c_void_p, (c.py_object, c.c_char_p)
        new.restype, new.argtypes = c.py_object, (c.c_void_p, c.c_char_p, c.c_void_p)
        real = Exchange.from_address(get(torch.Tensor.__dlpack_c_exchange_api__, CAPSULE))

        def view(tensor, at):
            status = real.view(tensor, at)
            at[0].device_type, at[0].device = CUDA, 0
            return status

        def current_stream(kind, number, at):
            at[0] = self.stream
            return 0

        self.exchange = Exchange(1, 3, None, (c.c_void_p * 3)(), VIEW(view), STREAM(current_stream))
        monkeypatch.setattr(torch.Tensor, "__dlpack_c_exchange_api__", new(c.addressof(self.exchange), CAPSULE, None))
        empty = tensors.Torch.plain_empty(torch.device("cpu"))
        self.before = lambda: None

        def plain(*given):
            self.before()
            one = empty(*given)
            self.made.append(weakref.ref(one))
            return one

        monkeypatch.setattr(tensors.Torch, "plain_empty", staticmethod(lambda device: plain))
        self.table = fast.open_table()
        inference = c.CDLL("libc10.so", os.RTLD_NOLOAD | os.RTLD_LAZY)._ZN3c1013InferenceMode10is_enabledEv
        self.table.spare_by(fast.address(inference), c.addressof(self.pools))
        for of, name, value in ((fast, "table", self.table), (fast, "opened", True),
                                (attention, "fast_sdpa", self.table.sdpa)):
            monkeypatch.setattr(of, name, value)
        attention.spares.clear()

    def learn(self, q, k, v):
        """What Python says of a call, and a function that has it served in C."""
        want = attune.sdpa(q, k, v)
        for _ in range(2):
            attune.sdpa(q, k, v)

        def serve():
            return self.table.sdpa(q, k, v, False, None, False, "bhsd")

        assert torch.equal(serve(), want)
        self.made.clear()
        return want, serve

    def left(self):
        """How many tensors that were made are still there."""
        gc.collect()
        return sum(one() is not None for one in self.made)


@pytest.fixture
def device(monkeypatch):
    return Device(monkeypatch)


def draw(length=5, keys=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn((2, 3, rows, 8), generator=generator) for rows in (length, keys, keys)]


def test_an_output_is_made_by_the_call_before(device):
    want, serve = device.learn(*draw())
    found = [serve() for _ in range(5)]
    assert all(made() is one for made, one in zip(device.made, found[1:]))
    assert len(device.made) == 5 and len({one.data_ptr() for one in found}) == 5
    assert all(torch.equal(one, want) for one in found)
    del found
    assert device.left() == 1


def test_other_streams(device):
    """They may be captured. A CPU has none, and says so."""
    _, serve = device.learn(*draw())
    device.stream = 7
    with pytest.raises(attune.Error, match="call.stream is 0x7"):
        serve()
    assert len(device.made) == 1 and device.left() == 0


def test_pools_of_memory(device):
    want, serve = device.learn(*draw())
    device.pools.value = 2
    found = [serve() for _ in range(3)]
    assert all(made() is one for made, one in zip(device.made, found)) and len(device.made) == 3
    assert all(torch.equal(one, want) for one in found)


def test_none_is_kept_once_there_was_a_pool(device):
    served = [device.learn(*draw(length))[1] for length in range(1, 4)]
    device.made.clear()
    for serve in served:
        serve()
    assert device.left() == 3
    device.pools.value, device.stream = 2, 7  # on any stream
    with pytest.raises(attune.Error, match="call.stream is 0x7"):
        served[0]()
    assert device.left() == 0


def test_a_pool_that_was_made_since_the_launch(device):
    want, serve = device.learn(*draw())
    serve()

    def pool():
        device.pools.value = 2

    device.before = pool
    assert torch.equal(serve(), want)
    assert device.left() == 0


def test_a_kind_that_is_learned_anew_lets_its_output_go(device, monkeypatch):
    given = draw()
    want, serve = device.learn(*given)
    serve()
    assert device.left() == 1
    monkeypatch.setattr(attention, "fast_sdpa", None)
    for _ in range(fast.AGAIN):  # served by Python
        attune.sdpa(*given)
    assert device.left() == 0
    for _ in range(2):
        assert torch.equal(serve(), want)
    assert device.left() == 1


def test_inference_mode(device):
    _, serve = device.learn(*draw())
    for inference in (True, True, False, False, True):
        with torch.inference_mode(inference):
            assert serve().is_inference() is inference


def test_large_ones_are_not(device):
    _, serve = device.learn(*draw(6000))
    serve()
    assert len(device.made) == 1 and device.left() == 0


def test_few_are(device):
    served = [device.learn(*draw(length))[1] for length in range(1, 21)]
    for serve in served:
        serve()
    assert device.left() == 8


def test_no_memory_for_the_next(device):
    want, serve = device.learn(*draw())

    def refuse():
        raise MemoryError("full")

    device.before = refuse
    assert torch.equal(serve(), want)
    with pytest.raises(MemoryError, match="full"):
        serve()
    device.before = lambda: None
    assert torch.equal(serve(), want) and torch.equal(serve(), want)


def test_a_call_within_the_making(device):
    want, serve = device.learn(*draw())
    others = [device.learn(*draw(length))[1] for length in range(6, 20)]
    depth = []

    def call_others():
        if not depth:
            depth.append(1)
            found.extend(other() for other in others)
            found.append(serve())
            depth.pop()

    found, device.before = [], call_others
    assert torch.equal(serve(), want) and torch.equal(found[-1], want) and len(found) >= 15
    assert len({one.data_ptr() for one in found}) == len(found)
