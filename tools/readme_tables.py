#!/usr/bin/env python3
"""Fills README's table of measurements from recorded evidence, fresh verdicts only.

    readme_tables.py [ROOT [BUILD]]

Runs BUILD/bin/attune report on ROOT/evidence, and writes what stands between "<!-- table measured -->" and
"<!-- end -->" in README.md: of each device and problem the fastest right kernel beside its peers.
"""
import csv
import os
import re
import subprocess
import sys

DOCUMENT = "README.md"
PLACE = re.compile(r"(<!-- table measured -->\n).*?(<!-- end -->)", re.S)
NOTHING = "No fresh verdict is recorded.\n"


def report(root, build):
    """The rows of attune report: of the newest verdict of each kernel, problem and device."""
    evidence = os.path.join(root, "evidence")
    if not os.path.isdir(evidence):
        return []
    cache = {"ATTUNE_CACHE": os.path.join(build, "kernel-cache"), **os.environ}
    printed = subprocess.run([os.path.join(build, "bin", "attune"), "report", "--earnest", "--format", "tsv", evidence],
                             capture_output=True, text=True, check=True, env=cache).stdout
    return list(csv.DictReader(printed.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def fastest(rows):
    """The rows of the fastest right kernel, by its warm median."""
    right = [row for row in rows if row["right"] == "pass" and row["mode"] == "warm"]
    if not right:
        return []
    best = min(right, key=lambda row: float(row["candidate_us"]))
    return [row for row in right if (row["kernel"], row["config"]) == (best["kernel"], best["config"])]


def unique(values):
    return list(dict.fromkeys(values))


def cell(row):
    if row is None:
        return ""
    low, high = float(row["lo"]), float(row["hi"])
    text = f"{(low * high) ** 0.5:.3f} ({low:.3f} … {high:.3f})"  # the interval is symmetric on a logarithmic scale
    return f"**{text}**" if row["faster"] == "pass" else text


def line(problem, rows, peers):
    beside = {row["peer"]: row for row in rows}
    us, tflops = float(rows[0]["candidate_us"]), float(rows[0]["tflops"])
    cells = [f"`{problem}`", f"`{rows[0]['kernel']}`", f"{us:.4g}" if us < 1e4 else f"{us:.0f}", f"{tflops:.3g}"]
    return "| " + " | ".join(cells + [cell(beside.get(peer)) for peer in peers]) + " |\n"


def device_table(device, rows):
    chosen = {problem: fastest([row for row in rows if row["problem"] == problem])
              for problem in unique(row["problem"] for row in rows)}
    chosen = {problem: picked for problem, picked in chosen.items() if picked}
    peers = unique(row["peer"] for picked in chosen.values() for row in picked)
    if not chosen:
        return ""
    head = "| " + " | ".join([device.replace("_", " "), "kernel", "µs", "TFLOP/s"] + peers) + " |\n"
    head += "|---|---|--:|--:|" + "--:|" * len(peers) + "\n"
    return head + "".join(line(problem, picked, peers) for problem, picked in chosen.items())


def outdated(shown, every):
    """What to say of the problems of one device where a faster kernel was changed after its verdict."""
    names = []
    for problem in unique(row["problem"] for row in shown):
        here, all_here = ([row for row in some if row["problem"] == problem] for some in (shown, every))
        best, before = fastest(here), fastest([row for row in all_here if row in here or row["state"] == "stale"])
        if best and before[0] not in best:
            names.append(f"`{before[0]['kernel']}` at `{problem}`")
    if not names:
        return ""
    return f"\nFaster when it was judged, changed since, and so not shown: {', '.join(names)}.\n"


def table(rows, states):
    """What stands in the document for these rows; only those of the states count."""
    texts = []
    for device in unique(row["device"] for row in rows):
        every = [row for row in rows if row["device"] == device]
        shown = [row for row in every if row["state"] in states]
        texts.append(device_table(device, shown) + outdated(shown, every))
    return "\n".join(text for text in texts if text) or NOTHING


def render(text, rows, states=("fresh",)):
    return PLACE.sub(lambda match: match.group(1) + table(rows, states) + match.group(2), text)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    build = sys.argv[2] if len(sys.argv) > 2 else os.path.join(root, "build")
    path = os.path.join(root, DOCUMENT)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    rows = report(root, build)
    if any(row["state"] == "unchecked" for row in rows):
        print("some verdicts are unchecked here, and left out: attune verify says why", file=sys.stderr)
    with open(path, "w", encoding="utf-8") as file:
        file.write(render(text, rows))


if __name__ == "__main__":
    main()
