#!/usr/bin/env python3
"""The ladder's pages and the Hopper pages show the numbers that bench/results keeps; each rung has its table."""
import os
import sys

import tree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import ladder_tables  # noqa: E402


def shown(root, document, text):
    """What is wrong with a document's tables."""
    try:
        rendered = ladder_tables.render(root, text)
    except (KeyError, IndexError, ValueError, StopIteration) as reason:
        return [f"{document}: the tables need {reason!r} of {ladder_tables.RESULTS}"]
    for line, kept in zip(text.splitlines(), rendered.splitlines()):
        if line != kept:
            return [f"{document}: tools/ladder_tables.py would write \"{kept}\" instead of \"{line}\""]
    return [f"{document}: tools/ladder_tables.py would change its end"] if rendered != text else []


def check(root):
    there = [name for name in ladder_tables.DOCUMENTS if os.path.exists(os.path.join(root, name))]
    texts = {name: tree.read(root, name) for name in there}
    rungs = texts.get(ladder_tables.BY_RUNG)
    complaints = [f"{ladder_tables.BY_RUNG}: no table of rung {name}" for name in ladder_tables.RUNGS
                  if rungs is not None and f"<!-- table rung {name} -->" not in rungs]
    return complaints + [complaint for name, text in texts.items() for complaint in shown(root, name, text)]


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
    ({"docs/notes/rungs.md": PLACES + SHOWN.replace("2100", "2050"), "bench/results/calls.tsv": CALLS}, "instead of"),
    ({"docs/notes/rungs.md": PLACES + SHOWN, "bench/results/calls.tsv": "bare_ns\n2000\n"}, "the tables need"),
    ({"docs/notes/rungs.md": SHOWN, "bench/results/calls.tsv": CALLS}, "no table of rung minimal"),
    ({"docs/hopper.md": SHOWN.replace("2300", "2350"), "bench/results/calls.tsv": CALLS}, "docs/hopper.md: tools"),
]
CLEAN = {"docs/notes/rungs.md": PLACES + SHOWN, "bench/results/calls.tsv": CALLS}
# Lines of a kernel measured anew replace those of before, whatever its config; others stay, new ones come last.
BEFORE = ["# machine", "problem\tkernel\tus", "s\tminimal:A=1\t9", "s\twmma:A=1\t8", "s\twmma:A=1\t7", "l\twmma:A=1\t6"]
ANEW = ["# machine", "problem\tkernel\tus", "s\twmma:A=2\t5", "s\twmma_ws:A=1\t4"]
MERGED = BEFORE[:3] + ANEW[2:3] + BEFORE[5:] + ANEW[3:]

if __name__ == "__main__":
    if "--self-test" in sys.argv and ladder_tables.merged(BEFORE, ANEW) != MERGED:
        print("self-test: lines of single rungs are merged wrongly")
        sys.exit(1)
    tree.main(check, MISTAKES, CLEAN)
