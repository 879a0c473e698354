#!/bin/bash
# run.sh DIRECTORY: on a machine with a GPU, the tests of attune.torch, attune.hf and attune.jax there, what a call
# costs, and whole models. DIRECTORY holds libattune.so.0.2, libattune-gate.so.0.2 and attune (build/gpu, carried there);
# Python has PyTorch, transformers and JAX.
set -uo pipefail
dir=$(cd "${1:?usage: run.sh DIRECTORY}" && pwd) here=$(cd "$(dirname "$0")" && pwd) failed=0
top=$here/../../..
export ATTUNE_LIBRARY=$dir/libattune.so.0.2 ATTUNE_COMMAND=$dir/attune PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=$top/python:$top/tests/python
export XLA_PYTHON_CLIENT_PREALLOCATE=false HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
python=${ATTUNE_PYTHON:-python3}
"$python" -m pytest -q -p no:cacheprovider --tb=short --show-capture=no -W ignore "$here" "$here/../test_jax.py" \
    "$here/../test_sdpa_cases.py" "$here/../test_fast.py" 2>&1 | tail -n "${LINES_SHOWN:-150}" || failed=1
for problem in b1,h8,s512,d64,fp16 b1,h32,hkv8,sq1,skv4096,d128,bf16; do
    timeout 60 "$python" "$top/bench/python_calls.py" --cuda --seconds 3 "$problem" || failed=1
done
timeout 200 "$python" "$top/bench/models.py" || failed=1
exit $failed
