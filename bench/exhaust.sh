#!/usr/bin/env bash
# The ledgers that replays are tested on (tests/evolve/ledgers), recorded anew: exhaust.sh OUT [SET...]
#
# On one thread, and on a machine that does nothing else; ten to fifteen seconds a problem. The problems of held_out were
# chosen before any of their times was looked at. Sets: training, held_out_1, held_out_2 (all of them, if none is named).
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
out=$1
shift
export ATTUNE_THREADS=1

record() { # folder problem
    local file
    file=$out/$1/$(echo "$2" | tr ',=:' '_').jsonl
    mkdir -p "$out/$1"
    rm -f "$file" "$file.gz"
    "${EXHAUST:-$here/build/bench/exhaust}" cpu_tiled "$2" "$file"
}

[ $# -gt 0 ] || set -- training held_out_1 held_out_2
for name in "$@"; do
    case $name in
    training)
        for problem in b1,h2,s128,d64,fp32 b1,h2,s192,d64,fp16,causal b1,h1,sq64,skv512,d128,bf16 \
            b2,h4,hkv2,s96,d32,fp32; do
            record training "$problem"
        done
        ;;
    held_out_1)
        for problem in b1,h3,s144,d64,fp32 b1,h2,s128,d96,bf16,causal b2,h1,s112,d64,fp16; do
            record held_out "$problem"
        done
        ;;
    held_out_2)
        for problem in b1,h2,s256,d32,fp32,causal b1,h6,hkv2,s80,d64,fp16,softcap=30 \
            b1,h1,sq48,skv640,d128,bf16; do
            record held_out "$problem"
        done
        ;;
    *)
        echo "exhaust.sh: there is no set '$name'" >&2
        exit 2
        ;;
    esac
done
find "$out" -name '*.jsonl' -exec gzip -9 -n {} +
