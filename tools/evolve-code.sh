#!/bin/bash
# A search of code that needs no model: evolve-code.sh BIN FOLDER. Begins with examples/weakened/cpu_tiled, changes it by
# rules, and says how much of what the weakening lost against cpu_tiled comes back. About ten minutes on two quiet cores.
# PROBLEM, PROPOSALS (of each arm) and SEED may be set. A search that was ended goes on where it was.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
bin=$1 folder=$2 problem=${PROBLEM:-b1,h8,s512,d64,fp32}
weak=$here/examples/weakened/cpu_tiled
mkdir -p "$folder"
resume=() && [ -e "$folder/run/code.jsonl" ] && resume=(--resume)
rm -rf "$folder/better"

ended=0
"$bin/attune" evolve "$weak" "$problem" --target cpu --proposer mutate --proposals "${PROPOSALS:-30}" --tune 4 \
    --seed "${SEED:-1}" --ledger "$folder/run" "${resume[@]}" --output "$folder/better" || ended=$?
echo "the report: $folder/run/report.html"
[ -d "$folder/better" ] || { echo "no gain: nothing of what was lost comes back"; exit "$ended"; }

"$bin/attune" bench "$problem" --target cpu --arms "cpu_tiled,$weak,$folder/better" --format tsv >"$folder/times.tsv"
awk -F'\t' '
    /^#/ { next }
    !column { for (i = 1; i <= NF; ++i) if ($i == "median_us") column = i; next }
    { us[n++] = $column }
    END {
        if (n != 3) { print "bench said something else: see times.tsv"; exit 1 }
        printf "cpu_tiled %.0f us, weakened %.0f us, found %.0f us: %.0f %% of the lost speed\n", us[0], us[1], us[2],
               100 * (1 / us[2] - 1 / us[1]) / (1 / us[0] - 1 / us[1])
    }' "$folder/times.tsv"
exit "$ended"
