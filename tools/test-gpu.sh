#!/usr/bin/env bash
# The device tests: units, then the suite for every CUDA kernel on the problems it is made for, then compute-sanitizer
# over short runs. test-gpu.sh DIRECTORY, which holds attune and test_gpu_*; exits with 1 where anything failed.
set -u
dir=${1:?usage: test-gpu.sh DIRECTORY}
cases=${CASES:-100}
attune=$dir/attune
passed=0 failed=0
export ATTUNE_TARGET=cuda

step() {
    local name=$1
    shift
    echo "== $name"
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $name: $*"
    fi
}

for test in "$dir"/test_gpu_*; do
    step "$(basename "$test")" "$test"
done
kernels=$("$attune" info --target cuda --format tsv --kernels | awk -F'\t' 'NR > 1 && $2 == "cuda" {print $1}')
for kernel in $kernels; do
    step "$kernel: suite" "$attune" check --kernel "$kernel" --cases "$cases" b1,h8,s512,d64,fp16
done
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null)
if [ -n "$sanitizer" ]; then
    for kernel in $kernels; do
        for tool in memcheck racecheck initcheck synccheck; do
            step "$kernel: $tool" "$sanitizer" --tool $tool --error-exitcode 1 --print-limit 5 \
                "$attune" check --kernel "$kernel" --cases 4 b1,h2,s128,d64,fp16
        done
    done
else
    echo "compute-sanitizer is not here: its checks did not run"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
