#!/bin/bash
# A bounded run of one fuzzer: fuzz.sh FUZZER CORPUS WORK
#
# Starts from the kept corpus, writes what it finds below WORK. A crash prints the command that reproduces it. Set
# FUZZ_RUNS and FUZZ_SECONDS for a longer hunt; a good find belongs into the corpus.
set -euo pipefail
fuzzer=$1 corpus=$2 work=$3
[ -n "$(ls -A "$corpus")" ] || { echo "fuzz.sh: no seeds in $corpus" >&2 && exit 1; }
mkdir -p "$work/found"
"$fuzzer" -runs="${FUZZ_RUNS:-200000}" -max_total_time="${FUZZ_SECONDS:-5}" -timeout=600 -rss_limit_mb=2048 \
    -max_len=4096 -seed=1 -verbosity=0 -print_final_stats=1 -artifact_prefix="$work/" "$work/found" "$corpus" || {
    status=$?
    echo "reproduce with: $fuzzer $work/crash-* (the newest)" >&2
    exit $status
}
