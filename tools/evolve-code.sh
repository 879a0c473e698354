#!/bin/bash
# A search of code that needs no model: evolve-code.sh BIN FOLDER [KERNEL]. Begins with examples/weakened/KERNEL, which is
# cpu_tiled, or on a machine with a GPU tiled; changes it by rules, and says how much of what the weakening lost against
# KERNEL comes back. The engine and two of its controls have BUDGET (cpu_tiled: 2m, tiled: 1m) each, the third as many
# measurements: about nine minutes, and five. PROBLEM and SEED may be set, and OPTIONS, more of attune evolve's. A search
# that was ended, or that --limit SECONDS among OPTIONS ended, goes on where it was.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
bin=$1 folder=$2 kernel=${3:-cpu_tiled}
case $kernel in
cpu_tiled) target=cpu problem=${PROBLEM:-b1,h8,s256,d64,fp32} budget=${BUDGET:-2m} ;;
tiled) target=cuda problem=${PROBLEM:-b1,h8,s512,d64,fp16} budget=${BUDGET:-1m} ;;
*) echo "evolve-code.sh: there is no weakened $kernel: cpu_tiled and tiled are" >&2 && exit 64 ;;
esac
weak=$here/examples/weakened/$kernel
mkdir -p "$folder"
resume=() && [ -e "$folder/run/code.jsonl" ] && resume=(--resume)
rm -rf "$folder/better"

ended=0
# shellcheck disable=SC2086 # OPTIONS are words
"$bin/attune" evolve "$weak" "$problem" --target "$target" --proposer mutate --proposals 1000 --budget "$budget" \
    --tune 4 --seed "${SEED:-1}" --ledger "$folder/run" "${resume[@]}" --output "$folder/better" ${OPTIONS:-} || ended=$?
[ -e "$folder/run/report.html" ] && echo "the report: $folder/run/report.html"
[ -d "$folder/better" ] || { echo "nothing of what was lost has come back"; exit "$ended"; }

"$bin/attune" bench "$problem" --target "$target" --arms "$kernel,$weak,$folder/better" --format tsv >"$folder/times.tsv"
awk -F'\t' -v kernel="$kernel" '
    /^#/ { next }
    !column { for (i = 1; i <= NF; ++i) if ($i == "median_us") column = i; next }
    { us[n++] = $column }
    END {
        if (n != 3) { print "bench said something else: see times.tsv"; exit 1 }
        printf "%s %.1f us, weakened %.1f us, found %.1f us: %.0f %% of the lost speed\n", kernel, us[0], us[1], us[2],
               100 * (1 / us[2] - 1 / us[1]) / (1 / us[0] - 1 / us[1])
    }' "$folder/times.tsv"
exit "$ended"
