#!/usr/bin/env bash
# Everything that docs/ladder.md shows, measured in one go on a machine with an NVIDIA GPU, PyTorch and ncu.
# ladder.sh DIRECTORY OUT [PART...]: DIRECTORY is build/gpu; files go into OUT, under the names that bench/results/ and
# tools/ladder_tables.py know. Parts, all without one: rungs, stages, tile, plans, counters.
# shellcheck disable=SC2317 # functions are called by name
set -u
dir=$(cd "${1:?usage: ladder.sh DIRECTORY OUT [rungs|stages|tile|plans|counters]...}" && pwd) || exit 2
out=${2:?usage: ladder.sh DIRECTORY OUT [PART...]}
here=$(cd "$(dirname "$0")" && pwd)
shift 2
mkdir -p "$out"
failed=0
export LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

machine() {
    nvidia-smi --query-gpu=name,driver_version,clocks.current.sm,clocks.max.sm,power.limit --format=csv |
        tee "$out/machine.csv"
}
rungs() { python3 "$here/ladder.py" --library "$dir/libattune.so.0" --seconds "${SECONDS_EACH:-2}" > "$out/ladder.tsv"; }
stages() { "$dir/stages" --seconds 1 > "$out/stages.tsv"; }
tile() { "$dir/attune" bench --tile --target cuda --format tsv > "$out/tile.tsv"; }
plans() {
    local words=() kernel
    for kernel in minimal tiled pipelined wmma wmma_ws cublas; do
        words+=("$kernel" b1,h8,s512,d64,fp16 "$kernel" b8,h16,s2048,d128,fp16)
    done
    "$dir/plan_times" cuda "${words[@]}" > "$out/plans.tsv"
}
counters() {
    python3 "$here/counters.py" --stages "$dir/stages" --out "$out" --keep "${KEEP:-wmma_ws}" > "$out/counters.log" 2>&1
}

machine
[ $# -gt 0 ] || set -- rungs stages tile plans counters
for part in "$@"; do
    case $part in
    rungs | stages | tile | plans | counters) ;;
    *)
        echo "there is no part $part: rungs, stages, tile, plans, counters"
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
