#!/usr/bin/env python3
"""docs/ladder.md shows the numbers that bench/results keeps, and has a table for each rung."""
import os
import sys

import tree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import ladder_tables  # noqa: E402


def check(root):
    path = os.path.join(root, ladder_tables.DOCUMENT)
    if not os.path.exists(path):
        return []
    text = tree.read(root, ladder_tables.DOCUMENT)
    complaints = [f"{ladder_tables.DOCUMENT}: no table of rung {name}" for name in ladder_tables.RUNGS
                  if f"<!-- table rung {name} -->" not in text]
    try:
        rendered = ladder_tables.render(root, text)
    except (KeyError, IndexError, ValueError) as reason:
        return complaints + [f"{ladder_tables.RESULTS}: the tables need {reason!r}"]
    for shown, kept in zip(text.splitlines(), rendered.splitlines()):
        if shown != kept:
            return complaints + [f"{ladder_tables.DOCUMENT}: tools/ladder_tables.py would write \"{kept}\" instead of "
                                 f"\"{shown}\""]
    return complaints + ([f"{ladder_tables.DOCUMENT}: tools/ladder_tables.py would change its end"]
                         if rendered != text else [])


PLACES = "".join(f"<!-- table rung {name} -->\n| problem | config | µs | 95 % interval | max error |\n"
                 "|---|--:|--:|--:|--:|\n<!-- end -->\n" for name in ladder_tables.RUNGS)
CALLS = "bare_ns\texecute_ns\tforeign_ns\n2000\t2100\t2300\n"
SHOWN = """<!-- table calls -->
| what | host time, ns | more than the bare launch |
|---|--:|--:|
| a bare `cuLaunchKernelEx` | 2000 |  |
| `attune_plan_execute` | 2100 | 100 |
| the same, in a thread without a context | 2300 | 300 |
<!-- end -->
"""
MISTAKES = [
    ({"docs/ladder.md": PLACES + SHOWN.replace("2100", "2050"), "bench/results/calls.tsv": CALLS}, "instead of"),
    ({"docs/ladder.md": PLACES + SHOWN, "bench/results/calls.tsv": "bare_ns\n2000\n"}, "the tables need"),
    ({"docs/ladder.md": SHOWN, "bench/results/calls.tsv": CALLS}, "no table of rung minimal"),
]
CLEAN = {"docs/ladder.md": PLACES + SHOWN, "bench/results/calls.tsv": CALLS}
# Lines of a kernel measured anew replace those of before, whatever its config; others stay, new ones come last.
BEFORE = ["# machine", "problem\tkernel\tus", "s\tminimal:A=1\t9", "s\twmma:A=1\t8", "s\twmma:A=1\t7", "l\twmma:A=1\t6"]
ANEW = ["# machine", "problem\tkernel\tus", "s\twmma:A=2\t5", "s\twmma_ws:A=1\t4"]
MERGED = BEFORE[:3] + ANEW[2:3] + BEFORE[5:] + ANEW[3:]

if __name__ == "__main__":
    if "--self-test" in sys.argv and ladder_tables.merged(BEFORE, ANEW) != MERGED:
        print("self-test: lines of single rungs are merged wrongly")
        sys.exit(1)
    tree.main(check, MISTAKES, CLEAN)
