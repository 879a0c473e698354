#!/usr/bin/env bash
# Wisdom and evidence for a whole grid of problems on a GPU: evolve.sh DIRECTORY EVIDENCE WISDOM, where DIRECTORY holds
# attune (build/bin, or build/gpu carried to a machine with a GPU). Of each problem a short race among what is known, then
# the gate: verdicts go below EVIDENCE, proven rows into the file WISDOM, and every step into EVIDENCE/../ledgers.
#
# KERNELS, DTYPES (fp16; "fp16 bf16"; grouped heads are bf16), PROBLEMS and AGAINST say of what and against whom,
# STRATEGY and BUDGET make it search. What each call took is added to calls.tsv beside the ledgers (bench/refresh.py sums
# it up). It begins nothing that would end after LIMIT seconds: the last line says what is left, and the same command
# goes on there. A winner that is slower than a peer is a finding, and no failure of this script: the exit code is 1
# where one is not right, 3 where nothing could run, 4 where something is left, void or not proven.
set -u
export LC_ALL=C # EPOCHREALTIME with a point
dir=$(cd "${1:?usage: evolve.sh DIRECTORY EVIDENCE WISDOM}" && pwd) || exit 2
evidence=${2:?usage: evolve.sh DIRECTORY EVIDENCE WISDOM}
wisdom=${3:?usage: evolve.sh DIRECTORY EVIDENCE WISDOM}
attune=$dir/attune
against=${AGAINST:-cudnn,torch:flash,torch:default}
how=(--refresh)
[ -z "${STRATEGY:-}" ] || how=(--strategy "$STRATEGY")
ledgers=${LEDGERS:-$(dirname "$evidence")/ledgers}
limit=${LIMIT:-1200} dtypes=${DTYPES:-fp16}
export ATTUNE_TARGET=${ATTUNE_TARGET:-cuda}

# 16,384 tokens and 2,048 columns of queries, from many short sequences to one long one; then grouped heads.
grid() {
    local dtype heads length mask
    for dtype in $dtypes; do
        for heads in 32 16 8; do
            for length in 512 1024 2048 4096 8192 16384; do
                for mask in '' ,causal; do
                    echo "b$((16384 / length)),h$heads,s$length,d$((2048 / heads)),$dtype$mask"
                done
            done
        done
    done
    for length in 2048 8192; do
        echo "b1,h64,hkv8,s$length,d128,bf16" "b1,h64,hkv8,s$length,d128,bf16,causal"
    done
    echo b1,h64,hkv8,s32768,d128,bf16,causal
}

# The smallest problems have a kernel of their own.
small() {
    local dtype of
    for dtype in $dtypes; do
        for of in b1,h8 b2,h8 b4,h16; do
            echo "$of,s512,d64,$dtype" "$of,s512,d64,$dtype,causal"
        done
    done
}

began=$SECONDS worst=0
# Whether the evidence says of KERNEL that it is not right. Slower than a peer is the same exit code.
is_wrong() {
    "$attune" report --format tsv "$evidence" | awk -F'\t' -v kernel="$1" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { wrong = wrong || $at["kernel"] == kernel && $at["right"] == "fail" }
        END { exit !wrong }'
}

# run KERNEL PROBLEM...: in the time that is left.
run() {
    local kernel=$1 left=$((limit - SECONDS + began)) code=0 start=$EPOCHREALTIME
    shift
    [ "$left" -gt 30 ] || { echo "$kernel: no time is left" && worst=$((worst > 4 ? worst : 4)) && return; }
    "$attune" evolve "$kernel" "$@" "${how[@]}" ${BUDGET:+--budget "$BUDGET"} --against "$against" \
        --evidence "$evidence" --wisdom "$wisdom" --ledger "$ledgers" --resume --limit "$left" || code=$?
    awk -v OFS='\t' -v kernel="$kernel" -v cells=$# -v start="$start" -v end="$EPOCHREALTIME" -v code=$code \
        'BEGIN { print kernel, cells, end - start, code }' >> "$ledgers/calls.tsv"
    [ $code -ge 128 ] && exit $code
    [ $code -eq 1 ] && ! is_wrong "$kernel" && code=0
    worst=$((code > worst ? code : worst))
}

mkdir -p "$ledgers"
# shellcheck disable=SC2046,SC2086 # problems are words
if [ -n "${PROBLEMS:-}" ]; then
    for kernel in ${KERNELS:-wgmma}; do
        run "$kernel" $PROBLEMS
    done
else
    for kernel in ${KERNELS:-wgmma_small wgmma}; do
        [ "$kernel" = wgmma ] || run "$kernel" $(small)
        [ "$kernel" = wgmma_small ] || run "$kernel" $(grid)
    done
fi
exit $worst
