#!/usr/bin/env bash
# What searches reach on a GPU: searches.sh DIRECTORY OUT KERNEL PROBLEM BUDGET [whole], where DIRECTORY holds attune
# (build/bin, or build/gpu carried to a machine with a GPU; with ATTUNE_CACHE filled by build/bench/ahead nothing is
# compiled there).
#
# Two searches by the default strategy, with seeds 1 and 2, each in a process of its own that knows nothing from before;
# with "whole" every candidate besides, as ground truth. Where winners differ, they meet in the gate, in eight fresh
# processes, by the inputs that searches go by (attune bench has others). Ledgers go below OUT/whole, OUT/seed_1 and
# OUT/seed_2, what the gate saw to OUT/beside: bench/searches.py makes the table.
# What is there already is not run again, so that a run that was ended goes on.
set -uo pipefail
dir=$(cd "${1:?usage: searches.sh DIRECTORY OUT KERNEL PROBLEM BUDGET [whole]}" && pwd) || exit 2
out=${2:?a folder for results is needed} kernel=${3:?a kernel is needed} problem=${4:?a problem is needed}
budget=${5:?a budget is needed} whole=${6:-}
name=$(echo "${kernel}_$problem" | tr ',=:' '_')
export ATTUNE_TARGET=${ATTUNE_TARGET:-cuda}
worst=0

# search FOLDER OPTION...: into a ledger of its own; what the whole process took goes to OUT/seconds.tsv
search() {
    local folder=$out/$1 code=0 began=$EPOCHREALTIME
    shift
    mkdir -p "$folder"
    "$dir/attune" evolve "$kernel" "$problem" --no-gate --ledger "$folder/$name.jsonl" --resume "$@" >>"$folder/$name.txt" 2>&1 ||
        code=$?
    tail -n 5 "$folder/$name.txt"
    awk -v OFS='\t' -v began="$began" -v now="$EPOCHREALTIME" -v what="${folder##*/}" -v name="$name" \
        'BEGIN { print what, name, now - began }' >>"$out/seconds.tsv"
    worst=$((code > worst ? code : worst))
}

# Of a ledger that has its end.
winner() {
    sed -n 's/.*"kind":"end".*"best":"\([^"]*\)".*/\1/p' "$1"
}

[ "$whole" = whole ] && search whole --exhaustive
for seed in 1 2; do
    search seed_$seed --budget "$budget" --seed $seed --seeds "$out/seed_$seed/${name}_micro.txt"
done
winners=$(for ledger in "$out"/whole/"$name".jsonl "$out"/seed_[12]/"$name".jsonl; do
    [ -f "$ledger" ] && winner "$ledger"
done | awk '!seen[$0]++')
beside=$out/beside/$name.tsv
if [ "$(echo "$winners" | wc -l)" -gt 1 ] && [ ! -f "$beside" ]; then
    mkdir -p "$out/beside"
    "$dir/attune" gate "$(echo "$winners" | sed 1q)" --against "$(echo "$winners" | sed 1d | paste -sd,)" --must 1 \
        --cases 1 --format tsv "$problem" >"$beside.part" 2>>"$out/beside/$name.txt"
    [ -s "$beside.part" ] && mv "$beside.part" "$beside"
fi
[ -f "$beside" ] && cut -f 5-11 "$beside"
exit $worst
