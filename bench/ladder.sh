#!/usr/bin/env bash
# Everything that docs/ladder.md and its notes show, measured in one go on a machine with an NVIDIA GPU, PyTorch and ncu.
# ladder.sh DIRECTORY OUT [PART...]: DIRECTORY is build/gpu; files go into OUT, under the names that bench/results/ and
# tools/ladder_tables.py know. Parts, all without one: rungs, stages, plans, guards, calls, counters, racecheck.
# KERNELS=A,B restricts stages and counters to these; KEEP is the rung whose full report ncu keeps, or none.
# shellcheck disable=SC2317 # functions are called by name
set -u
dir=$(cd "${1:?usage: ladder.sh DIRECTORY OUT [PART...]}" && pwd) || exit 2
out=${2:?usage: ladder.sh DIRECTORY OUT [PART...]}
here=$(cd "$(dirname "$0")" && pwd)
shift 2
mkdir -p "$out"
failed=0
KERNELS=${KERNELS:-}
export LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

machine() {
    nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv | tee "$out/machine.csv"
}
rungs() {
    local ours=minimal,tiled,pipelined,guarded,cublas,cublas_qk,cutlass,wmma,wmma_acc16,wmma_ws
    python3 "$here/ladder.py" --library "$dir/libattune.so.0.2" --seconds "${SECONDS_EACH:-2}" \
        --arms "$ours,torch:flash,torch:efficient,torch:cudnn" > "$out/ladder.tsv"
}
stages() {
    local words=() kernel
    for kernel in ${KERNELS//,/ }; do
        words+=(--kernel "$kernel")
    done
    "$dir/stages" --seconds 1 "${words[@]}" > "$out/stages.tsv"
}
plans() {
    local words=() kernel
    for kernel in minimal tiled pipelined wmma wmma_ws cublas; do
        words+=("$kernel" "b1,h8,s512,d64,fp16" "$kernel" "b8,h16,s2048,d128,fp16")
    done
    # NVRTC and the driver keep caches of their own: an empty cache is empty.
    CUDA_CACHE_DISABLE=1 "$dir/plan_times" cuda "${words[@]}" > "$out/plans.tsv"
}
guards() {
    "$dir/test_gpu_guarded" > "$out/guards.log" || return 1
    {
        printf 'problem\tinputs\texponents\tlogits\tdenominators\tulp\n'
        awk '$3 == "exponents" { print $1 "\t" $2 "\t" $4 "\t" $6 "\t" $8 "\t" $12 }' "$out/guards.log"
    } > "$out/guards.tsv"
}
calls() {
    "$dir/test_gpu_launch" > "$out/calls.log" || return 1
    {
        printf 'bare_ns\texecute_ns\tforeign_ns\n'
        sed -n 's/^bare launch \([0-9]*\) ns; plan execute \([0-9]*\) ns.* context \([0-9]*\) ns.*/\1\t\2\t\3/p' \
            "$out/calls.log"
    } > "$out/calls.tsv"
}
counters() {
    local words=(--keep "${KEEP-wmma_ws}")
    [ -z "$KERNELS" ] || words+=(--kernels "$KERNELS")
    python3 "$here/counters.py" --stages "$dir/stages" --out "$out" "${words[@]}" > "$out/counters.log" 2>&1
}
# Built here by nvcc: it is about the tool that is here, and nothing of attune's.
racecheck() {
    local program
    program=$(mktemp)
    PATH=$PATH:/usr/local/cuda/bin
    nvcc -arch=native "$here/racecheck.cu" -o "$program" || return 1
    compute-sanitizer --tool racecheck --print-limit 1000 "$program" > "$out/racecheck.log"
    rm -f "$program"
    {
        printf 'first\tsecond\tbarriers\tlaunches\treported\twrong\n'
        awk '
            $1 == "launch" { which = $2 "\t" $3 "\t" $4; seen = 0; if (!launches[which]++) order[++count] = which }
            /Race reported/ && !seen { ++reported[which]; seen = 1 }
            $1 == "wrong" { wrong[which] += $2 }
            END {
                for (i = 1; i <= count; ++i) {
                    print order[i] "\t" launches[order[i]] "\t" 0 + reported[order[i]] "\t" 0 + wrong[order[i]]
                }
            }' "$out/racecheck.log"
    } > "$out/racecheck.tsv"
}

machine
[ $# -gt 0 ] || set -- rungs stages plans guards calls counters racecheck
for part in "$@"; do
    case $part in
    rungs | stages | plans | guards | calls | counters | racecheck) ;;
    *)
        echo "there is no part $part: rungs, stages, plans, guards, calls, counters, racecheck"
        exit 2
        ;;
    esac
    begin=$SECONDS
    $part || {
        failed=1
        echo "FAILED: $part"
    }
    echo "$part: $((SECONDS - begin)) s"
done
exit $failed
