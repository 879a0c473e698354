#!/usr/bin/env bash
# The gate on every CUDA kernel: gate.sh DIRECTORY EVIDENCE, where DIRECTORY holds attune (build/bin, or build/gpu carried
# to a machine with a GPU), and verdicts are kept below EVIDENCE.
#
# KERNELS, PROBLEMS and AGAINST restrict it; LIMIT is how many seconds one kernel may take. What has fresh evidence is
# passed over, so that an interrupted run is taken up again by the same command. That a kernel is not faster than its peers
# is a finding, and no failure of this script: the exit code is 1 where one is not right, 3 where the gate could not run.
set -u
dir=$(cd "${1:?usage: gate.sh DIRECTORY EVIDENCE}" && pwd) || exit 2
evidence=${2:?usage: gate.sh DIRECTORY EVIDENCE}
attune=$dir/attune
problems=${PROBLEMS:-b1,h8,s512,d64,fp16 b4,h16,s2048,d128,bf16,causal b2,h32,hkv8,s4096,d128,bf16 b8,h32,hkv8,sq1,skv8192,d128,bf16}
against=${AGAINST:-cudnn,torch:flash,torch:default}
export ATTUNE_TARGET=${ATTUNE_TARGET:-cuda}
kernels=${KERNELS:-$("$attune" info --format tsv | awk -F'\t' '$1 == "kernel" && $3 == "target" && $4 == "cuda" { print $2 }')}
[ -n "$kernels" ] || { echo "no CUDA kernel can be listed: $attune info --format tsv" && exit 3; }

worst=0
for kernel in $kernels; do
    code=0
    # shellcheck disable=SC2086 # problems are words
    "$attune" gate "$kernel" $problems --against "$against" --evidence "$evidence" --limit "${LIMIT:-540}" || code=$?
    [ $code -ge 128 ] && exit $code
    if [ $code -eq 3 ]; then
        worst=3
    fi
done
# What is not right stands in the evidence, in the column of that name.
if "$attune" report --format tsv "$evidence" | cut -f 13 | grep -qx fail; then
    echo "a kernel is not right: attune report $evidence"
    exit 1
fi
exit $worst
