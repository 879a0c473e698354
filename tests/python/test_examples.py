"""The example in Python runs, and what it prints is right."""
import os
import re
import subprocess
import sys

import pytest


def test_tour():
    tour = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/python_tour.py")
    if not os.path.exists(tour):
        pytest.skip("the sources are not here")
    ended = subprocess.run([sys.executable, tour], capture_output=True, text=True,
                           env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
    assert ended.returncode == 0, ended.stderr
    sums = dict(re.findall(r"^(\S.*?) +rows sum to (.*?), ", ended.stdout, re.M))
    assert sums["causal"] == "1.000 ... 1.000" and float(sums["sink"].split()[0]) < 0.9, ended.stdout
    assert "INVALID_ARGUMENT - v: its seqlen is 100, and k's 99" in ended.stdout
