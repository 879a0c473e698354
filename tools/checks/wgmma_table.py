#!/usr/bin/env python3
"""kernels/cuda/wgmma_table.c is what bench/hopper_table.py prints of the recorded races and of shipped wisdom."""
import contextlib
import io
import os
import sys
import tempfile

import tree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import hopper_table  # noqa: E402

TABLE, ARMS = "kernels/cuda/wgmma_table.c", "bench/results/hopper_arms.tsv"
WISDOM = "wisdom/NVIDIA_H200.wisdom"


def printed(root):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        hopper_table.make(os.path.join(root, ARMS), os.path.join(root, WISDOM))
    return text.getvalue()


def check(root):
    shown, made = tree.read(root, TABLE).splitlines(), printed(root).splitlines()
    if shown == made:
        return []
    line = next((i for i, (a, b) in enumerate(zip(shown, made)) if a != b), min(len(shown), len(made)))
    there, wanted = (lines[line] if line < len(lines) else "its end" for lines in (shown, made))
    return [f"{TABLE}:{line + 1}: \"{there}\", but {ARMS} and {WISDOM} give \"{wanted}\": "
            f"bench/hopper_table.py > {TABLE}, which changes what wgmma's heuristic chooses"]


CONFIGS = [f"wgmma:GROUPS=2,BLOCK_N={n},Q_STAGES=1,PINGPONG=1,SCHEDULER=1,AHEAD=2" for n in (128, 176)]
RACES = "problem\tconfig\tus\n" + "".join(
    f"b1,h{16 << i},s4096,d128,fp16\t{config}\t{(700 + 30 * j) << i}\n"
    for i in range(hopper_table.FEWEST) for j, config in enumerate(CONFIGS))
LEARNED = f"attune-wisdom 1\nproven fwd,bh16,g1,sq4096,skv4096,d128,dv128,fp16 cuda/NVIDIA_H200/90a {CONFIGS[0]} 00\n"


def planted(races=RACES, learned=LEARNED):
    """A tree whose table is of RACES and LEARNED."""
    return {ARMS: races, WISDOM: learned, TABLE: SHOWN}


def shown_of_planted():
    with tempfile.TemporaryDirectory() as root:
        tree.plant(root, {ARMS: RACES, WISDOM: LEARNED})
        return printed(root)


if __name__ == "__main__":
    SHOWN = shown_of_planted() if "--self-test" in sys.argv else ""
    CLEAN = planted()
    MISTAKES = [
        (planted(races=RACES.replace("\t730\n", "\t760\n")), "bench/hopper_table.py >"),
        (planted(learned=LEARNED.replace("BLOCK_N=128", "BLOCK_N=176")), "give"),
        ({**CLEAN, TABLE: SHOWN.replace("0.8,", "0.7,")}, "busiest = 0.7"),
        ({**CLEAN, TABLE: SHOWN + "int more;\n"}, "give \"its end\""),
    ]
    tree.main(check, MISTAKES, CLEAN)
