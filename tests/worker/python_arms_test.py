"""What arms.py makes of PyTorch where it can be believed and where not, on a CPU. Without PyTorch: that it says so."""
import ctypes
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))
from attune import arms, library

try:
    import torch
except ImportError:
    torch = None


def problem(**fields):
    made = library.Problem(size=ctypes.sizeof(library.Problem), dtype=0, batch=2, heads_q=4, heads_kv=2, seqlen_q=20,
                           seqlen_kv=30, head_dim_qk=16, head_dim_v=16, window_left=-1, window_right=-1)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class WithoutTorch(unittest.TestCase):
    def test_every_arm_says_so(self):
        for name in ("torch:cpu", "torch:flash", "py:a.py:f"):
            with self.assertRaisesRegex(arms.Refused, "there is no PyTorch here") as caught:
                arms.Arm(name, problem(), -1)
            self.assertEqual(caught.exception.status, arms.UNSUPPORTED)


class BackEnds(unittest.TestCase):
    def setUp(self):
        arms.validated.cache_clear()
        self.sdpa = arms.sdpa

    def tearDown(self):
        arms.sdpa = self.sdpa
        arms.validated.cache_clear()

    def spoil(self, only, by):
        """Makes one back end compute something else."""
        def broken(question, back_end):
            compute = self.sdpa(question, back_end)
            return (lambda q, k, v: by(compute(q, k, v))) if back_end == only else compute
        arms.sdpa = broken

    def test_those_that_agree_are_believed(self):
        for fields in ({}, {"window_right": 0}, {"window_right": 0, "offset_kind": 1}, {"dtype": 2}, {"scale": 0.3}):
            found = arms.validate(arms.Question(problem(heads_kv=4, **fields), -1))  # older ones refuse groups there
            self.assertRegex(found, r"flash .* from fp64, math .* from fp64, .* apart \(limit ")

    def test_one_that_is_off_is_refused_by_name(self):
        for only in ("flash", "math"):
            self.spoil(only, lambda output: output * 1.001)
            with self.assertRaisesRegex(arms.Refused, f"its back end {only} is off by") as caught:
                arms.Arm("torch:cpu", problem(heads_kv=4), -1)
            self.assertEqual(caught.exception.status, arms.WRONG_RESULT)
            arms.validated.cache_clear()

    def test_nan_matches_nothing(self):
        self.spoil("math", lambda output: output * float("nan"))
        with self.assertRaisesRegex(arms.Refused, "math is off by nan"):
            arms.validate(arms.Question(problem(), -1))

    def test_one_that_refuses_is_said_to(self):
        def refuse(output):
            raise RuntimeError("No available kernel")
        self.spoil("flash", refuse)
        self.assertIn("flash refuses, math", arms.validate(arms.Question(problem(), -1)))


class Tensors(unittest.TestCase):
    def test_views_share_memory_and_strides(self):
        question = arms.Question(problem(), -1)
        memory = torch.arange(2 * 4 * 20 * 40, dtype=torch.float32)
        tensor = library.Tensor(data=memory.data_ptr(), stride=(4 * 20 * 40, 20 * 40, 40))
        view = arms.wrap(question, tensor, (2, 4, 20, 24))
        self.assertEqual(view.data_ptr(), memory.data_ptr())
        self.assertEqual(view[1, 2, 3, 4].item(), ((1 * 4 + 2) * 20 + 3) * 40 + 4)
        view[1, 2, 3, 4] = -1
        self.assertEqual(memory[((1 * 4 + 2) * 20 + 3) * 40 + 4].item(), -1)

    def test_a_single_index_may_have_any_stride(self):
        question = arms.Question(problem(batch=1, heads_q=1, heads_kv=1), -1)
        memory = torch.arange(20 * 16, dtype=torch.float32)
        tensor = library.Tensor(data=memory.data_ptr(), stride=(0, 0, 16))
        self.assertTrue(torch.equal(arms.wrap(question, tensor, (1, 1, 20, 16)).flatten(), memory))

    def test_own_outputs_are_reported(self):
        arm = arms.Arm("torch:cpu", problem(seqlen_kv=20), -1)
        q, k, v = arm.question.draw(2, 2)
        call = library.Call(batch=2, heads_q=4, heads_kv=2, seqlen_q=20, seqlen_kv=20)
        for role, held in zip("QKV", (q, k, v)):
            slot = call.tensor[library.ROLES.index(role)]
            slot.data = held.data_ptr()
            for i in range(3):
                slot.stride[i] = held.stride(i)
        output = library.Tensor()
        arm.run_own(call, output)
        self.assertEqual(output.data, arm.last.data_ptr())
        self.assertEqual(list(output.stride), list(arm.last.stride()[:3]))
        self.assertTrue(torch.equal(arms.wrap(arm.question, output, (2, 4, 20, 16)), arm.compute(q, k, v)))


def load_tests(loader, *_):
    """The cases for what is installed."""
    cases = [WithoutTorch] if torch is None else [BackEnds, Tensors]
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)


if __name__ == "__main__":
    unittest.main()
