#!/bin/bash
# torch.sh BUILD [PYTEST'S ARGUMENTS]: what of the Python package's tests needs PyTorch, transformers or JAX, on a CPU.
# With $ATTUNE_PYTHON where that has PyTorch, else with an environment that is made once, in BUILD/torch, from PyPI; where
# PyPI has it not for this machine, nothing is tested, and that is said.
set -euo pipefail
build=$(cd "$1" && pwd) here=$(cd "$(dirname "$0")" && pwd)
shift
if ! "${ATTUNE_PYTHON:-python3}" -c 'import torch' 2>/dev/null; then
    export ATTUNE_PYTHON=$build/torch/bin/python
    if ! "$ATTUNE_PYTHON" -c 'import torch, transformers, jax, pytest' 2>/dev/null; then
        rm -rf "$build/torch"
        python3 -m venv "$build/torch"
        timeout 900 "$ATTUNE_PYTHON" -m pip install -q --disable-pip-version-check --prefer-binary \
            torch transformers jax numpy ml_dtypes pytest || {
            echo "PyTorch cannot be had here: attune.torch, attune.hf and attune.jax are not tested" >&2
            rm -rf "$build/torch"
            exit 0
        }
        # A second version of NVRTC beside PyTorch's own, for the one test that is about two of them.
        timeout 300 "$ATTUNE_PYTHON" -m pip install -q --disable-pip-version-check --no-deps nvidia-cuda-nvrtc-cu12 ||
            echo "going on with one version of NVRTC" >&2
    fi
fi
"${ATTUNE_PYTHON:=python3}" -c 'import sys, torch; print(f"Python {sys.version.split()[0]}, torch {torch.__version__}")'
"$here/run.sh" "$build" -k 'torch or fast or recent or sdpa_cases or varlen or hf or jax' "$@"
# Each call three times, so that attune._fast serves what it can.
ATTUNE_THRICE=1 exec "$here/run.sh" "$build" -k 'test_torch.py or torch_tensors or sdpa_cases'
