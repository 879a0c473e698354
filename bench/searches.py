#!/usr/bin/env python3
"""What searches reached beside the best of their whole space: searches.py FOLDER, which bench/searches.sh filled.

best is the fastest of all candidates by an exhaustive search; without one, of what the two searches found. best_us is
its time in the final of the search that found it, and fastest_us that of the fastest there: what differs from it by
less than the tie band ties, and a fixed key chooses. at_best_1 and at_best_2 are the best's time / that of what each
seed's search found, as the gate saw them beside each other in eight fresh processes, by the inputs that searches go by;
1 where it is the same config, - where they did not meet. measured and seconds are those
of the slower of both searches, the seconds of its whole process (of all of them where it was ended and gone on with);
whole_s is what the exhaustive search took. Parameters that a kernel is named with were left as they are.
"""
import gzip
import glob
import json
import os
import statistics
import sys

FINAL = 2  # the round of a measurement
COLUMNS = ["kernel", "problem", "candidates", "whole_s", "best_us", "fastest_us", "measured", "seconds", "at_best_1",
           "at_best_2", "same"]


def lines(path):
    """A ledger's events; None where there is no such ledger, or it has no end."""
    for name, opened in ((path + ".gz", gzip.open), (path, open)):
        if os.path.exists(name):
            with opened(name, "rt", encoding="utf-8") as file:
                events = [json.loads(line) for line in file if line.endswith("\n")]
            return events if events[-1]["kind"] == "end" else None
    return None


def times(path):
    """Of configs that met in the gate, by config: warm time / that of the first; none where no meeting was needed."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    at = {name: place for place, name in enumerate(rows[0])}
    warm = [row for row in rows[1:] if row[at["mode"]] == "warm"]
    first = ":".join(warm[0][at[name]] for name in ("kernel", "config"))
    return {first: 1.0} | {row[at["peer"]]: float(row[at["ratio"]]) for row in warm}


def finals_us(events):
    """Of the searched kernel's configs in a search's final, by config: the median over its processes."""
    return {event["config"]: statistics.median(event["us"]) for event in events
            if event["kind"] == "measurement" and event["round"] == FINAL
            and event["config"].startswith(events[0]["kernel"] + ":")}


def seconds(folder, what, name, events):
    """Of the process, or of all that it took to end it; where none was timed, what the ledger says."""
    with open(os.path.join(folder, "seconds.tsv"), encoding="utf-8") as file:
        rows = [line.split("\t") for line in file]
    timed = [float(row[2]) for row in rows if row[0] == what and row[1] == name]
    return sum(timed) if timed else events[-1]["at_s"]


def row(folder, name):
    stem = name.removesuffix(".jsonl")
    whole = lines(os.path.join(folder, "whole", name))
    seeds = [lines(os.path.join(folder, f"seed_{seed}", name)) for seed in (1, 2)]
    met = times(os.path.join(folder, "beside", stem + ".tsv"))
    found = [events[-1]["best"] for events in seeds]
    of = whole or min(seeds, key=lambda events: met.get(events[-1]["best"], 0))
    best = of[-1]["best"]
    space = next(event["space"] for event in seeds[0] if event["kind"] == "space")
    finals = finals_us(of)
    took = max(seconds(folder, f"seed_{seed}", stem, seeds[seed - 1]) for seed in (1, 2))
    at_best = ["1.0000" if one == best else f"{met[best] / met[one]:.4f}" if {one, best} <= met.keys() else "-"
               for one in found]
    start = seeds[0][0]
    kernel = start["kernel"] + (":" + start["fixed"] if "fixed" in start else "")
    return [kernel, start["problem"], len(space["candidates"]),
            f"{seconds(folder, 'whole', stem, whole):.1f}" if whole else "-", f"{finals[best]:.4g}",
            f"{min(finals.values()):.4g}", max(events[-1]["measured"] for events in seeds), f"{took:.1f}",
            *at_best, "yes" if found[0] == found[1] else "no"]


def table(rows):
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows)]
    for cells in rows:
        texts = [str(cell).ljust(width) if place < 2 or place == 10 else str(cell).rjust(width)
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
