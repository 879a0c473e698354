#!/usr/bin/env bash
# The tables of docs/strategies.md and docs/evolve.md from the kept ledgers: replays.sh [ATTUNE]; a minute, and no clock
# is involved.
set -euo pipefail
cd "$(dirname "$0")/.."
attune=${1:-build/bin/attune}
ledgers=tests/evolve/ledgers

sums() { # of all ledgers of a folder
    "$attune" evolve replay "$@" | sed -n '1p;/^all /p'
}

sums $ledgers/training/* >bench/results/replay_training.txt
sums --blind $ledgers/training/* >bench/results/replay_training_blind.txt
for kernel in wmma wgmma; do
    "$attune" evolve replay --blind $ledgers/h200/whole/${kernel}_* >bench/results/replay_h200_$kernel.txt
done
"$attune" evolve replay $ledgers/h200/whole/* >bench/results/replay_h200.txt
bench/searches.py $ledgers/h200 >bench/results/searches_h200.txt
"$attune" evolve replay $ledgers/held_out/* >bench/results/replay_held_out.txt
sums --blind $ledgers/held_out/* >bench/results/replay_held_out_blind.txt
