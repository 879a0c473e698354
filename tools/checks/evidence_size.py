#!/usr/bin/env python3
"""Evidence is compressed and stays small: of each verdict and as a whole. `attune ratchet --prune` makes room."""
import gzip
import os
import sys

import tree

TOTAL = 2_500_000  # bytes
VERDICT = 40_000   # of a file, for each of its verdicts


def verdicts(path):
    """One a line, of which the first has a head too, before a last line that ends the list."""
    with gzip.open(path) as file:
        return max(1, len(file.read().splitlines()) - 1)


def check(root):
    complaints, total = [], 0
    for path in tree.files(root):
        full = os.path.join(root, path)
        if not path.startswith("evidence/") or path.endswith(".md"):
            continue
        if not path.endswith(".json.gz"):
            complaints.append(f"{path}: not compressed evidence")
            continue
        size = os.path.getsize(full)
        total += size
        try:
            most = VERDICT * verdicts(full)
        except (OSError, EOFError):
            complaints.append(f"{path}: cannot be decompressed")
            continue
        if size > most:
            complaints.append(f"{path}: {size} bytes, at most {most} for its verdicts")
    if total > TOTAL:
        complaints.append(f"evidence/: {total} bytes, at most {TOTAL}")
    return complaints


MISTAKES = [
    ({"evidence/D/k.json": "{}"}, "not compressed"),
    ({"evidence/D/k.json.gz": "{}"}, "cannot be decompressed"),
]

if __name__ == "__main__":
    tree.main(check, MISTAKES, {"evidence/README.md": "words"})
