#!/usr/bin/env python3
"""What searches reached beside the best of their whole space: searches.py FOLDER, which bench/searches.sh filled.

best_us is the fastest of all candidates that an exhaustive search found; without one, of what the two searches found.
at_best_1 and at_best_2 are its time / the time of what each seed's search found, timed beside each other in one run; 1
where it is the same config. measured and seconds are those of the slower of both searches, the seconds of its whole
process; whole_s is what the exhaustive search took.
"""
import gzip
import glob
import json
import os
import sys

COLUMNS = ["kernel", "problem", "candidates", "whole_s", "best_us", "measured", "seconds", "at_best_1", "at_best_2",
           "same"]


def lines(path):
    """A ledger's events; None where there is no such ledger, or it has no end."""
    for name, opened in ((path + ".gz", gzip.open), (path, open)):
        if os.path.exists(name):
            with opened(name, "rt", encoding="utf-8") as file:
                events = [json.loads(line) for line in file if line.endswith("\n")]
            return events if events[-1]["kind"] == "end" else None
    return None


def times(path):
    """The median of each arm of a run of `attune bench`, by its config."""
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    at = {name: place for place, name in enumerate(rows[0])}
    medians = {}
    for row in rows[1:]:
        medians.setdefault(row[at["arm"]], float(row[at["median_us"]]))
    return medians


def seconds(folder, what, name):
    """Of the process, or of all that it took to end it."""
    with open(os.path.join(folder, "seconds.tsv"), encoding="utf-8") as file:
        rows = [line.split("\t") for line in file]
    return sum(float(row[2]) for row in rows if row[0] == what and row[1] == name)


def row(folder, name):
    whole = lines(os.path.join(folder, "whole", name))
    seeds = [lines(os.path.join(folder, f"seed_{seed}", name)) for seed in (1, 2)]
    medians = times(os.path.join(folder, "beside", name.replace(".jsonl", ".tsv")))
    found = [events[-1]["best"] for events in seeds]
    best = whole[-1]["best"] if whole else min(found, key=medians.get)
    start = seeds[0][0]
    space = next(event["space"] for event in seeds[0] if event["kind"] == "space")
    stem = name.removesuffix(".jsonl")
    took = max(seconds(folder, f"seed_{seed}", stem) for seed in (1, 2))
    return [start["kernel"], start["problem"], len(space["candidates"]),
            f"{seconds(folder, 'whole', stem):.1f}" if whole else "-", f"{medians[best]:.4g}",
            max(events[-1]["measured"] for events in seeds), f"{took:.1f}",
            *(f"{medians[best] / medians[one]:.4f}" for one in found), "yes" if found[0] == found[1] else "no"]


def table(rows):
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows)]
    for cells in rows:
        texts = [str(cell).ljust(width) if place < 2 or place == 9 else str(cell).rjust(width)
                 for place, (cell, width) in enumerate(zip(cells, widths))]
        print("  ".join(texts).rstrip())


def main(folder):
    names = sorted({os.path.basename(path).removesuffix(".gz") for path in glob.glob(f"{folder}/seed_1/*.jsonl*")})
    complete = [name for name in names
                if all(lines(os.path.join(folder, f"seed_{seed}", name)) for seed in (1, 2))]
    table([COLUMNS] + [row(folder, name) for name in complete])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
