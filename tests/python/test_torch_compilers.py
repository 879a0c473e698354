"""Two versions of NVRTC in one process, as PyTorch's packages for CUDA 12 and 13 bring them: each compiles as if it
were alone, and what attune compiles is kept apart. Beside the tests' CUDA driver, which runs nothing; skipped without
that or without both."""
import glob
import os
import subprocess
import sys

import pytest

import attune
from attune import library

CODE = '''
import ctypes as c, os, sys
paths = sys.argv[1:]


def compiled_by(lib):
    program, size, options = c.c_void_p(), c.c_size_t(), (c.c_char_p * 1)(b"--gpu-architecture=sm_90")
    source = b'extern "C" __global__ void f(float *x) { x[threadIdx.x] += 1; }'
    assert lib.nvrtcCreateProgram(c.byref(program), source, b"f.cu", 0, None, None) == 0
    assert lib.nvrtcCompileProgram(program, 1, options) == 0
    assert lib.nvrtcGetCUBINSize(program, c.byref(size)) == 0
    code = c.create_string_buffer(size.value)
    assert lib.nvrtcGetCUBIN(program, code) == 0
    return code.raw


libs = [c.CDLL(path, c.RTLD_GLOBAL) for path in paths]
before = [compiled_by(lib) for lib in libs]
assert before[0] != before[1]
import attune
plan = attune.plan("b1,h2,s512,d64,fp16", "cuda", kernel="mma")
for path in paths:
    os.environ["ATTUNE_NVRTC"] = path
    assert attune.Context("cuda").plan("b1,h2,s512,d64,fp16", kernel="mma").kernel == plan.kernel
assert [compiled_by(lib) for lib in libs] == before
maps = {line.split()[-1] for line in open("/proc/self/maps") if "libnvrtc.so" in line}
assert maps == {os.path.realpath(path) for path in paths}, maps
os.environ["ATTUNE_NVRTC"] = "/nowhere/libnvrtc.so.12"
try:
    attune.Context("cuda").plan("b1,h2,s777,d72,fp16", kernel="mma")
except attune.Error as error:
    print(error)
'''


def compilers():
    """One of 12 and one of 13, of this Python's packages; 13's may be the toolkit's."""
    places = [os.path.join(folder, "nvidia/*/lib") for folder in sys.path] + ["/usr/local/cuda*/lib64"]
    found = [[path for place in places for path in sorted(glob.glob(f"{place}/libnvrtc.so.{major}"))]
             for major in (12, 13)]
    return [paths[0] for paths in found if paths]


@pytest.mark.parametrize("order", [1, -1])
def test_two_versions_of_nvrtc(order, tmp_path):
    driver = os.path.join(os.path.dirname(os.path.abspath(library.default().path)), "../tests/libfake_driver.so")
    paths = compilers()[::order]
    if len(paths) < 2 or not os.path.exists(driver):
        pytest.skip("there are no two versions of NVRTC, or no driver of the tests")
    own = {"ATTUNE_LIBCUDA": driver, "ATTUNE_CACHE": str(tmp_path), "ATTUNE_TARGET": "cuda",
           "PYTHONPATH": ":".join(sys.path), "ATTUNE_LIBRARY": library.default().path}
    done = subprocess.run([sys.executable, "-c", CODE, *paths], capture_output=True, text=True, timeout=3600,
                          env={**os.environ, **own})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("compile error: mma must be compiled and NVRTC is not to be found"), done.stdout
    assert len(list((tmp_path / "cuda").iterdir())) == 2  # one of each compiler's
