#!/usr/bin/env python3
"""README, docs/results.md and the picture show the numbers of fresh evidence, and no others."""
import os
import sys

import tree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import readme_tables  # noqa: E402


def check(root):
    build = sys.argv[2] if len(sys.argv) > 2 else os.path.join(root, "build")
    names = (readme_tables.README, readme_tables.RESULTS, readme_tables.PICTURE)
    texts = {name: tree.read(root, name) for name in names}
    places = {readme_tables.README: "chosen", readme_tables.RESULTS: "measured"}
    for name, place in places.items():
        if not readme_tables.place(place).search(texts[name]):
            return [f"{name}: no table of what was measured"]
    rows = readme_tables.report(root, build)
    # Where the compiler that made the code is not installed, whether it is fresh is not known: both are then right.
    right = [readme_tables.render(texts, rows, states) for states in (("fresh",), ("fresh", "unchecked"))]
    return [] if texts in right else [f"{name}: it is not that of the evidence: make readme writes it"
                                      for name in names if texts[name] != right[0][name]]


HEAD = "device\tproblem\tkernel\tconfig\tpeer\tmode\tratio\tlo\thi\tcandidate_us\tpeer_us\ttflops\tright\tfaster\tstate"
ROWS = ["D\tp\tslow\tA=1\tq\twarm\t0.5\t0.4\t0.6\t20\t10\t1\tpass\tfail\tfresh",
        "D\tp\tfast\tA=1\tq\twarm\t1.25\t1.2\t1.35\t8\t10\t2.5\tpass\tpass\tfresh",
        "D\tp\tfast\tA=1\tq\tcold\t1.1\t1\t1.2\t9\t10\t2\tpass\tpass\tfresh",
        "D\tp\twrong\tA=1\tq\twarm\t9\t9\t9\t1\t10\t9\tfail\tpass\tfresh",
        "D\tp\taged\tA=1\tq\twarm\t9\t9\t9\t1\t10\t9\tpass\tpass\tstale"]
SHOWN = """<!-- table measured -->
| D | kernel | µs | TFLOP/s | q |
|---|---|--:|--:|--:|
| `p` | `fast` | 8 | 2.5 | **1.273 (1.200 … 1.350)** |

Faster when it was judged, changed since, and so not shown: `aged` at `p`.
<!-- end -->
"""


CHOSEN = "<!-- table chosen -->\n" + readme_tables.NOTHING + "<!-- end -->\n"


def planted(rows, shown, chosen=CHOSEN):
    printed = "\n".join([HEAD] + rows)
    return {"README.md": chosen, "docs/results.md": shown, "evidence/D/k.json": "{}",
            "docs/images/results.svg": readme_tables.picture([], ()),
            "build/bin/attune": f"#!/bin/sh\ncat <<'EOF'\n{printed}\nEOF\n"}


MISTAKES = [
    (planted(ROWS, SHOWN.replace("2.5", "2.6")), "not that of the evidence"),
    (planted([row.replace("fresh", "stale") for row in ROWS], SHOWN), "not that of the evidence"),
    (planted([row.replace("pass\tfresh", "fail\tfresh") for row in ROWS], SHOWN), "not that of the evidence"),
    (planted(ROWS, "nothing"), "no table"),
    (planted(ROWS, SHOWN, "nothing"), "README.md: no table"),
    (planted(ROWS, SHOWN, CHOSEN.replace("No", "A")), "README.md: it is not"),
    ({**planted(ROWS, SHOWN), "docs/images/results.svg": "<svg/>"}, "results.svg: it is not"),
]
CLEAN = planted([row.replace("fresh", "unchecked") for row in ROWS[1:]] + [ROWS[0]], SHOWN)

if __name__ == "__main__":
    tree.main(check, MISTAKES, CLEAN)
