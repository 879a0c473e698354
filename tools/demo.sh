#!/bin/bash
# A first look at attune, for whoever has just built it: demo.sh [BUILD]
# It shows what this machine is for: kernels of a GPU where one can be used, else those of the CPU; $ATTUNE_TARGET
# chooses. DEMO_BRIEF=1 leaves out what takes more than seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath --relative-to=. "${1:-build}") && attune=$build/bin/attune layer=examples/data/minilm_layer.safetensors
out=$build/demo said=$build/demo/said && mkdir -p "$out" && rm -f "$out/bench.png"
# For PyTorch's arms: the library of this build.
[ ! -e "$build/lib/libattune-gate.so" ] || export ATTUNE_LIBRARY=${ATTUNE_LIBRARY:-$PWD/$build/lib/libattune-gate.so}

if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
number=0
section() { number=$((number + 1)) && printf '\n%s%d. %s%s\n\n' "$bold" $number "$1" "$plain"; }
show() { # prints a command as a person would type it, then runs it
    printf '  $ %s\n' "${*/#$attune/attune}"
    "$@" 2>&1 | sed 's/^/    /'
    return "${PIPESTATUS[0]}"
}
judge() { # a finding, whichever it is, is no failure of this script; that it could not run is
    local code=0
    show "$attune" gate "$@" --quick || code=$?
    [ $code -le 2 ]
}
# A text of the file's __metadata__. The header is JSON behind eight bytes that give its length.
metadata() { head -c 4096 "$layer" | grep -a -o "\"$1\":\"[^\"]*\"" | head -1 | cut -d'"' -f4; }
# One fact of `attune info`: fact SUBJECT PROPERTY [PROBLEM]
fact() { "$attune" info ${3:+"$3"} --format tsv | awk -F'\t' -v s="$1" -v p="$2" '$1 == s && $2 == "" && $3 == p { print $4 }'; }
# Those of these arms that can run a problem here: runnable PROBLEM ARM...
runnable() {
    local problem=$1 IFS=,
    shift
    { "$attune" bench "$problem" --arms "$*" --seconds 0 --format tsv 2>"$said" || true; } |
        awk -F'\t' 'NR > 1 { list = list (NR > 2 ? "," : "") $2 } END { print list }'
}
# Times arms, and prints a table for people: speeds FILE SECONDS ARMS PROBLEM...
speeds() {
    local file=$1 seconds=$2 arms=$3
    shift 3
    echo "  \$ attune bench $* --arms $arms"
    "$attune" bench "$@" --arms "$arms" --seconds "$seconds" --format tsv >"$file" 2>"$said" || { cat "$said" && return 1; }
    awk -F'\t' '
        function time(us) { return us < 1000 ? sprintf("%.1f us", us) : us < 1e6 ? sprintf("%.2f ms", us / 1e3) : sprintf("%.2f s", us / 1e6) }
        function rate(gflops) { return gflops < 1000 ? sprintf("%.1f GFLOP/s", gflops) : sprintf("%.1f TFLOP/s", gflops / 1e3) }
        NR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i
                  printf "    %-38s %-14s %10s %15s %7s %14s\n", "problem", "arm", "median", "rate", "ratio", "share of peak" }
        NR > 1 { printf "    %-38s %-14s %10s %15s %7.2f %13.0f%%\n", $column["problem"], $column["arm"],
                 time($column["median_us"]), rate($column["gflops"]), $column["ratio"], 100 * $column["peak_share"] }' "$file"
    echo
}
picture() { # of a bench over lengths
    echo
    tools/demo_plot.sh "$1" "$out"
    if [ -s "$out/bench.png" ]; then echo "    (the same picture: $out/bench.png)"; fi
}

if [ -n "${ATTUNE_TARGET:-}" ] && ! "$attune" info >/dev/null 2>"$said"; then
    echo "ATTUNE_TARGET is $ATTUNE_TARGET, which is not here: $(sed 's/^attune: info: //' "$said")"
    unset ATTUNE_TARGET
fi
case $(fact machine target) in cuda*) gpu=1 ;; *) gpu= ;; esac
brief=${DEMO_BRIEF:-}
seconds=2 budget=20s
[ -z "$gpu" ] || seconds=0.5 # enough for calls of microseconds
[ -z "$brief" ] || seconds=0

cpu_speed() {
    local lengths='128 256 512 1024 2048' problems=() s arms
    [ -z "$brief" ] || lengths='64 128'
    for s in $lengths; do problems+=("b1,h8,s$s,d64,fp32"); done
    arms=$(runnable b1,h1,s16,d16,fp32 auto openblas)
    section "How fast?$([[ $arms != *openblas* ]] || echo ' Against OpenBLAS doing GEMM, softmax, GEMM')"
    [[ $arms == *openblas* ]] || echo '  OpenBLAS is not here (apt install libopenblas0 brings it), so attune is timed alone.'
    speeds "$out/bench.tsv" $seconds "$arms" "${problems[@]}"
    echo "    ratio: the first row's time / this one's. share of peak: of what this machine could do at most, measured"
    picture "$out/bench.tsv"
}

gpu_speed() {
    local origin=b1,h8,s512,d64,fp16 prefill=b1,h32,hkv8,s4096,d128,bf16,causal cudnn s problems=()
    section "How fast? ${device#* }"
    cudnn=$(runnable $origin cudnn)
    if [ -z "$cudnn" ]; then
        echo "  cuDNN is not here, beside PyTorch's package or in the system (pip install nvidia-cudnn-cu12 brings it;"
        echo '  ATTUNE_CUDNN can name it), so kernels are timed beside one another.'
        echo
    fi
    echo "  The problem that this project began with, and a Llama's prefill:"
    echo
    speeds "$out/flagship.tsv" $seconds "auto${cudnn:+,cudnn}" $origin $prefill
    echo '  The ladder: from the first kernel that was right to the fastest, on the same problem (docs/ladder.md):'
    echo
    speeds "$out/ladder.tsv" $seconds \
        "$(runnable $origin minimal tiled pipelined cublas_qk cublas cutlass wmma wmma_ws mma wgmma wgmma_small $cudnn)" $origin
    echo '  The prefill by length:'
    echo
    for s in 512 1024 2048 4096 8192; do problems+=("b1,h32,hkv8,s$s,d128,bf16,causal"); done
    speeds "$out/bench.tsv" $seconds "auto${cudnn:+,cudnn}" "${problems[@]}"
    echo "    ratio: the first row's time / this one's. share of peak: of the tensor cores' published rate at the top clock"
    picture "$out/bench.tsv"
}

cpu_search() { show "$attune" evolve cpu_tiled b1,h8,s384,d64,fp32,causal --budget "$budget" --no-gate || true; }
gpu_search() { show "$attune" evolve "$kernel" b1,h8,s512,d64,fp16 --budget "$budget" --no-gate || true; }

cpu_gate() {
    local against
    against=$(runnable b1,h1,s16,d16,fp32 openblas)
    judge cpu_tiled b1,h8,s128,d64,fp32 --against "${against:-cpu_tiled:BLOCK_M=16}"
    echo
    echo '  And a stranger, whose kernel has its scale one percent wrong? A folder with its source is all that is needed:'
    echo
    judge "$build"/zoo/cpu/scale_off b1,h8,s128,d64,fp32 --against "${against:-cpu_tiled}"
}

gpu_gate() {
    local against
    against=$(runnable b1,h8,s512,d64,fp16 cudnn)
    judge "$kernel" b1,h8,s512,d64,fp16 --against "${against:-tiled}"
    echo
    if python3 -c 'import torch; assert torch.cuda.is_available()' >/dev/null 2>&1; then
        echo "  And against PyTorch's best, which is each of its back ends that runs:"
        echo
        judge "$kernel" b1,h8,s512,d64,fp16 --against best || echo '    (its worker does not come up here: see above)'
    else
        echo '  (PyTorch with CUDA is not here: with it, --against best is its best back end.)'
    fi
    echo
    echo '  And a stranger, whose kernel has its scale one percent wrong? A folder with its source is all that is needed:'
    echo
    judge "$build"/zoo/cuda/scale_off b1,h8,s128,d64,fp16 --against tiled
}

section 'This machine, and what attune can run on it'
show "$attune" info
device=$(fact machine target)
kernel=$([ -z "$gpu" ] || fact problem plan b1,h8,s512,d64,fp16) && kernel=${kernel%%:*}

section 'Attention on something real'
echo "  $layer holds Q, K and V of layer $(metadata layer) of"
echo "  $(metadata model), a sentence embedder, while it read these sentences:"
echo
metadata sentences | sed 's/\\n/\n/g' | sed 's/^/      /'
echo
echo "  and O as $(metadata framework) computed it. Does attune, which has none of it, agree?"
echo
show "$attune" run --in "$layer" --compare "$layer" --check

section 'The same kernel against a proven suite of hard cases'
if [ -n "$gpu" ]; then
    show "$attune" check --cases 6 b1,h2,s64,d64,fp16,causal
else
    show "$attune" check --cases 6 b1,h2,s64,d64,fp32,causal
fi

if [ -n "$gpu" ]; then gpu_speed; else cpu_speed; fi

if [ -x "$build/tests/example_serve" ]; then
    section 'A server: requests come and go, over one paged cache'
    echo '  examples/serve.c: prompts read in chunks beside answers, a prompt that several share, pages used again; every'
    echo '  output is compared with causal attention over the whole sequence.'
    echo
    show "$build/tests/example_serve" ${gpu:+cuda}
fi

if [ -z "$brief" ]; then
    section "Can it be faster? ${budget%s} seconds of searching"
    echo "  A search that finds nothing says so: what wins must win twice, and once more in fresh processes."
    echo
    if [ -n "$gpu" ]; then gpu_search; else cpu_search; fi

    section 'Right, and really faster? The gate'
    echo '  A claim is judged, not believed: every stage in processes of its own, each timed output looked at, and an interval'
    echo '  over fresh processes. This is the quick form; a verdict that is kept takes longer.'
    echo
    if [ -n "$gpu" ]; then gpu_gate; else cpu_gate; fi
fi

section 'From here'
line() { printf '    %-48s %s\n' "$1" "$2"; }
line "$attune --help" 'every verb explains itself'
line "$attune info b1,h8,s512,d64,fp16" 'which kernel would run, and why not a faster one'
line "$attune new mine --target $([ -n "$gpu" ] && echo cuda || echo cpu)" 'a kernel of your own, complete and right'
line examples/ten_lines.c 'the same from C'
line docs/README.md 'for callers, kernel authors and maintainers'
