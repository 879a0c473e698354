#!/usr/bin/env bash
# The gate on every CUDA kernel: gate.sh DIRECTORY EVIDENCE, where DIRECTORY holds attune (build/bin, or build/gpu carried
# to a machine with a GPU), and verdicts are kept below EVIDENCE.
#
# KERNELS, PROBLEMS and AGAINST restrict it. It begins no problem that would end after LIMIT seconds: the last line says
# what is left, and the same command goes on there, as it does after an interrupt, for what has fresh evidence is passed
# over. That a kernel is not faster than its peers is a finding, and no failure of this script: the exit code is 1 where
# one is not right, 3 where the gate could not run, 4 where something is left.
set -u
dir=$(cd "${1:?usage: gate.sh DIRECTORY EVIDENCE}" && pwd) || exit 2
evidence=${2:?usage: gate.sh DIRECTORY EVIDENCE}
attune=$dir/attune
problems=${PROBLEMS:-b1,h8,s512,d64,fp16 b1,h8,s1024,d64,bf16,causal b1,h16,hkv4,s512,d128,fp16 b4,h16,hkv4,sq1,skv2048,d128,bf16}
against=${AGAINST:-cudnn,torch:flash,torch:default}
export ATTUNE_TARGET=${ATTUNE_TARGET:-cuda}
kernels=${KERNELS:-$("$attune" info --format tsv | awk -F'\t' '$1 == "kernel" && $3 == "target" && $4 == "cuda" { print $2 }')}
[ -n "$kernels" ] || { echo "no CUDA kernel can be listed: $attune info --format tsv" && exit 3; }

# The code is compiled ahead, by all processors at once, where this attune has not done so before: the gate itself
# compiles one kernel at a time.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/attune
stamp=$cache/compiled-$({ sha256sum < "$attune"; echo "$kernels $problems"; } | sha256sum | cut -c 1-16)
if [ ! -e "$stamp" ]; then
    for problem in $problems; do
        for kernel in $kernels; do
            while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
                wait -n
            done
            timeout 120 "$attune" check --threads 1 --cases 30 --kernel "$kernel" "$problem" > /dev/null 2>&1 &
        done
    done
    wait
    mkdir -p "$cache" && touch "$stamp"
fi

# All in one call: they share references, peers and processes.
code=0
# shellcheck disable=SC2086 # kernels and problems are words
"$attune" gate $kernels $problems --against "$against" --evidence "$evidence" --limit "${LIMIT:-540}" || code=$?
# What is not faster is no failure, and what is not right is in the evidence; of the kernels and problems asked for.
if [ "$code" -le 2 ]; then
    "$attune" report --format tsv "$evidence" | kernels=$kernels problems=$problems awk -F'\t' '
        BEGIN {
            count = split(ENVIRON["kernels"] " " ENVIRON["problems"], word, /[ \n]+/)
            for (i = 1; i <= count; i++) { sub(/:.*/, "", word[i]); asked[word[i]] = 1 }
        }
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["right"] == "fail" && ($at["kernel"] in asked) && ($at["problem"] in asked) {
            if (!wrong[$at["kernel"], $at["problem"]]++) print $at["kernel"] " is not right on " $at["problem"]
            any = 1
        }
        END { exit any }' || exit 1
    code=0
fi
exit "$code"
