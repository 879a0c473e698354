#!/usr/bin/env python3
"""What refreshing a grid's wisdom took: refresh.py LEDGERS, the folder that tools/evolve.sh filled, with its calls.tsv.

A row for each kernel: cells is how many problems it was asked for, raced and proven how many of them have a race and a
verdict, right and faster how many verdicts say so, gains how often a race found something faster than what would have
run, rows the rows of wisdom. calls and seconds are of all calls that it took; races_s is what of that went into races.
"""
import glob
import gzip
import json
import os
import sys

COLUMNS = ["kernel", "cells", "raced", "proven", "right", "faster", "gains", "rows", "calls", "races_s", "seconds"]


def events(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def main(folder):
    with open(os.path.join(folder, "calls.tsv"), encoding="utf-8") as file:
        calls = [line.rstrip("\n").split("\t") for line in file]
    ledgers = [events(path) for path in sorted(glob.glob(f"{folder}/*.jsonl*"))]
    print("\t".join(COLUMNS))
    for kernel in sorted({call[0] for call in calls}):
        mine = [call for call in calls if call[0] == kernel]
        races = [ledger for ledger in ledgers if ledger and ledger[0]["kernel"] == kernel]
        gates = [event for ledger in races for event in ledger if event["kind"] == "gate"]
        kinds = [event["kind"] for ledger in races for event in ledger]
        ends = [ledger[-1] for ledger in races if ledger[-1]["kind"] == "end"]
        # A race's clock stops while the gate is at work on its batch.
        print("\t".join(str(cell) for cell in (
            kernel, max(int(call[1]) for call in mine), sum("check" in [e["kind"] for e in race] for race in races),
            len(gates), sum(gate["right"] == "pass" for gate in gates), sum(gate["fast"] == "pass" for gate in gates),
            sum(end["outcome"] == "gain" for end in ends), kinds.count("wisdom"), len(mine),
            f"{sum(race[-1]['at_s'] for race in races):.0f}", f"{sum(float(call[2]) for call in mine):.0f}")))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
