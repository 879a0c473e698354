#!/bin/bash
# A first look at attune, for whoever has just built it: demo.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build} attune=${1:-build}/bin/attune layer=examples/data/minilm_layer.safetensors
out=$build/demo && mkdir -p "$out"

if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
chapter() { printf '\n%s%s%s\n\n' "$bold" "$1" "$plain"; }
show() { # prints a command as a person would type it, then runs it
    printf '  $ %s\n' "${*/#$attune/attune}"
    "$@" 2>&1 | sed 's/^/    /'
    return "${PIPESTATUS[0]}"
}
# A text of the file's __metadata__. The header is JSON behind eight bytes that give its length.
metadata() { head -c 4096 "$layer" | grep -a -o "\"$1\":\"[^\"]*\"" | head -1 | cut -d'"' -f4; }

chapter '1. This machine, and what attune can run on it'
show "$attune" info

chapter '2. Attention on something real'
echo "  $layer holds Q, K and V of layer $(metadata layer) of"
echo "  $(metadata model), a sentence embedder, while it read these sentences:"
echo
metadata sentences | sed 's/\\n/\n/g' | sed 's/^/      /'
echo
echo "  and O as $(metadata framework) computed it. Does attune, which has none of it, agree?"
echo
show "$attune" run --in "$layer" --compare "$layer" --check

chapter '3. The same kernel against a proven suite of hard cases'
show "$attune" check --cases 6 b1,h2,s64,d64,fp32,causal

chapter '4. How fast? Against OpenBLAS doing GEMM, softmax, GEMM'
lengths='128 256 512 1024 2048'
problems=()
for s in $lengths; do problems+=("b1,h8,s$s,d64,fp32"); done
echo "  \$ attune bench ${problems[*]} --arms auto,openblas"
"$attune" bench "${problems[@]}" --arms auto,openblas --seconds 2 --format tsv >"$out/bench.tsv"
awk -F'\t' '
    NR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i
              printf "    %-24s %-10s %12s %12s %8s %14s\n", "problem", "arm", "median us", "GFLOP/s", "ratio", "share of peak" }
    NR > 1 { printf "    %-24s %-10s %12.1f %12.1f %8.2f %13.0f%%\n", $column["problem"], $column["arm"],
             $column["median_us"], $column["gflops"], $column["ratio"], 100 * $column["peak_share"] }' "$out/bench.tsv"
echo
echo "    ratio: the first arm's time / this arm's. share of peak: of what this machine could do at most, measured"
if command -v gnuplot >/dev/null; then
    tools/demo_plot.sh "$out/bench.tsv" "$out"
    echo "    (the same picture: $out/bench.png)"
fi

chapter '5. Can it be faster? Twenty seconds of searching'
echo "  A search that finds nothing says so: what wins must win twice, and once more in fresh processes."
echo
show "$attune" evolve cpu_tiled b1,h8,s384,d64,fp32,causal --budget 8s --no-gate || true

chapter '6. Right, and really faster? The gate'
echo '  A claim is judged, not believed: every stage in processes of its own, each timed output looked at, and an interval'
echo '  over fresh processes. This is the quick form; a verdict that is kept takes longer.'
echo
judge() { # a finding, whichever it is, is no failure of this script; that it could not run is
    local code=0
    show "$attune" gate "$@" --quick --against openblas || code=$?
    [ $code -le 2 ]
}
judge cpu_tiled b1,h8,s128,d64,fp32
echo
echo '  And a stranger, whose kernel has its scale one percent wrong? A folder with its source is all that is needed:'
echo
judge tests/gate/zoo/cpu/scale_off b1,h8,s128,d64,fp32

chapter '7. From here'
line() { printf '    %-40s %s\n' "$1" "$2"; }
line "$attune --help" 'every verb explains itself'
line "$attune info b1,h8,s512,d64,fp16" 'which kernel would run, and why not a faster one'
line examples/ten_lines.c 'the same from C'
line docs/README.md 'for callers, kernel authors and maintainers'
