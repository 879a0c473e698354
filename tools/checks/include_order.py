#!/usr/bin/env python3
"""Includes point leftward only.

Host:    attune/ <- base <- core <- {reference, cpu, cuda} <- measure <- library <- peers <- wire <- stranger
         <- worker <- judge <- evidence <- gate <- evolve <- report <- cli
Device:  args, ptx <- barrier <- {element, sequence, stage, tma} <- copy <- {tile, fragment, swizzle, wgmma, pages}
         <- {softmax, exponential, visibility, schedule, guard} <- score <- {job, rows, key_loop, small} <- kernels
Kernels include attune/kernel.h, what a sibling in their folder shares (NAME.h, NAME.cu) and system headers; device code
includes nothing of the system's. What is built ahead (NAME.image.cu) may also include CUTLASS and its NAME.h.
"""
import os
import re

import tree

ROOMS = [["attune"], ["base"], ["core"], ["reference", "cpu", "cuda"], ["measure"], ["library"], ["peers"], ["wire"],
         ["stranger"], ["worker"], ["judge"], ["evidence"], ["gate"], ["evolve"], ["report"], ["cli"]]
RANK = {room: rank for rank, rooms in enumerate(ROOMS) for room in rooms}
PUBLIC = {"args.h": [], "attune.h": ["args.h"], "kernel.h": ["args.h", "attune.h"],
          "gate.h": ["attune.h"]}
DEVICE = [["args", "ptx"], ["barrier", "warp_groups", "bf16_parts"], ["element", "sequence", "stage", "tma", "cluster"],
          ["copy", "pair_rows"],
          ["tile", "fragment", "swizzle", "wgmma", "mma", "pages"],
          ["softmax", "exponential", "visibility", "schedule", "guard", "nonfinite"], ["score"],
          ["job", "rows", "key_loop", "small", "pairs", "spans", "scaling", "row_again", "plain_row"],
          ["packed_jobs"],
          ["static_max", "wgmma_block", "mma_block", "packed_tile", "spans_join", "spans_cluster", "fp32_rows",
           "small_pairs"],
          ["wgmma_consumer", "wgmma_producer", "fp32_block", "mma_rows", "mma_queries", "spans_pages"],
          ["wgmma_pairs", "fp32_units", "spans_ring"], ["wgmma_score", "mma_values", "spans_warps"],
          ["mma_weights", "mma_store", "wgmma_softmax"], ["mma_ends"]]
DEVICE_RANK = {name: rank for rank, names in enumerate(DEVICE) for name in names}
# measure knows arms, not kernels; evolve has no clock of its own.
FORBIDDEN = {"measure": ("attune/kernel.h", "core/plan.h", "core/config.h", "core/device.h"),
             "evolve": ("measure/clock.h",)}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def host(path, target):
    """Why src/ROOM/FILE may not include target, or None."""
    room = path.split("/")[1]
    if "/" not in target:
        return "name the room: ROOM/FILE.h"
    other = target.split("/")[0]
    if room not in RANK or other not in RANK:
        return f"there is no room '{room if room not in RANK else other}'"
    if target in FORBIDDEN.get(room, ()):
        return f"{room} knows nothing of that"
    if other != room and RANK[other] >= RANK[room]:
        return f"{other} is not left of {room}"
    return None


def public(path, target):
    allowed = PUBLIC.get(os.path.basename(path))
    if allowed is None:
        return "public headers are " + ", ".join(PUBLIC)
    return None if target in ["attune/" + name for name in allowed] else "a public header includes only public ones"


def device(path, target):
    """Device headers, and the kernels right of them."""
    if target == "attune/args.h":
        return None
    if "/device/" not in path and "/" not in target and target.endswith(".cu"):
        return None
    if path.endswith(".image.cu") and (target.startswith("cutlass/") or "/" not in target and target.endswith(".h")):
        return None
    other = os.path.splitext(os.path.basename(target))[0]
    if other not in DEVICE_RANK:
        return "device code includes attune/args.h and the headers of kernels/cuda/device/"
    if "/device/" in path:
        own = os.path.splitext(os.path.basename(path))[0]
        if own not in DEVICE_RANK:
            return f"device header '{own}' has no place in the order"
        if DEVICE_RANK[other] >= DEVICE_RANK[own]:
            return f"{other} is not left of {own}"
    return None


def kernel(path, target):
    """Descriptors, and CPU sources with the headers they share."""
    sibling = "/" not in target and target.endswith(".h")
    shared = target.startswith("device/") and (path.endswith(".kernel.c") or "/cpu/device/" in path)
    return None if sibling or shared or target == "attune/kernel.h" else "a kernel includes attune/kernel.h alone"


def rule(path):
    if path.startswith("include/attune/"):
        return public
    if path.startswith("src/"):
        return host
    if path.startswith("kernels/cuda/") and (path.endswith((".cu", ".cuh")) or "/device/" in path):
        return device
    return kernel if path.startswith("kernels/") else None


def check(root):
    complaints = []
    for path in tree.files(root, tree.CODE):
        why = rule(path)
        if why is None:
            continue
        for bracket, target in INCLUDE.findall(tree.read(root, path)):
            ours = bracket == '"' or target.startswith("attune/")
            if not ours and why is not device:
                continue
            reason = why(path, target) if ours else "the run-time compiler has no system headers"
            if reason:
                complaints.append(f"{path}: includes {target}: {reason}")
    return complaints


MISTAKES = [
    ({"src/base/a.c": '#include "core/problem.h"\n'}, "not left"),
    ({"src/cpu/a.h": '#  include "cuda/cuda.h"\n'}, "not left"),
    ({"src/core/a.c": '#include "problem.h"\n'}, "name the room"),
    ({"src/core/a.c": '#include "attic/problem.h"\n'}, "no room"),
    ({"src/measure/a.c": '#include "attune/kernel.h"\n'}, "knows nothing"),
    ({"src/library/a.c": '#include "cli/cli.h"\n'}, "not left"),
    ({"include/attune/args.h": '#include "attune/attune.h"\n'}, "public"),
    ({"include/attune/more.h": '#include "attune/attune.h"\n'}, "public headers are"),
    ({"kernels/cpu/a.c": '#include "core/problem.h"\n'}, "attune/kernel.h alone"),
    ({"kernels/cpu/a.c": '#include "device/vector.h"\n'}, "attune/kernel.h alone"),
    ({"kernels/cuda/a.cu": "#include <cuda_fp16.h>\n"}, "no system headers"),
    ({"kernels/cuda/a.cu": '#include "cutlass/half.h"\n'}, "device code includes"),
    ({"kernels/cuda/a.image.cu": '#include "thrust/sort.h"\n'}, "device code includes"),
    ({"kernels/cuda/device/tile.cuh": '#include "softmax.cuh"\n'}, "not left"),
    ({"kernels/cuda/device/visibility.cuh": '#include "schedule.cuh"\n'}, "not left"),
]
CLEAN = {
    "src/base/a.c": '#include "base/a.h"\n#include <stdio.h>\n#include "attune/attune.h"\n',
    "src/cli/a.c": '#include "gate/a.h"\n#include "measure/clock.h"\n',
    "include/attune/kernel.h": '#include <stdio.h>\n#include "attune/attune.h"\n',
    "kernels/cpu/a.c": '#include "attune/kernel.h"\n#include <math.h>\n',
    "kernels/cpu/a.kernel.c": '#include "attune/kernel.h"\n#include "device/vector.h"\n',
    "kernels/cuda/a.cu": '#include "attune/args.h"\n#include "device/softmax.cuh"\n',
    "kernels/cuda/b.cu": '#define GUARDED 1\n#include "a.cu"\n',
    "kernels/cuda/c.image.cu": '#include "cutlass/half.h"\n#include "c.h"\n#include "device/softmax.cuh"\n',
    "kernels/cuda/b.c": '#include "a.h"\n',
    "kernels/cuda/device/softmax.cuh": '#include "tile.cuh"\n#include "ptx.cuh"\n',
}

if __name__ == "__main__":
    tree.main(check, MISTAKES, CLEAN)
