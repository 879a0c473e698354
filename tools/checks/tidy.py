#!/usr/bin/env python3
"""clang-tidy over src/, kernels/ and examples/, as .clang-tidy says: tidy.py ROOT BUILD | --self-test

Works from the build's compile_commands.json. A source that is compiled for several instruction sets is read once, and
gcc-only flags are left out, so that the build may use either compiler. A source found clean is not read again until it,
what it includes, or the checks change: BUILD/tidy/ remembers.
"""
import hashlib
import json
import multiprocessing.pool
import os
import re
import shutil
import subprocess
import sys

import tree

FOLDERS = ("src/", "kernels/", "examples/")
# The analyser follows paths until it has seen so many states of a function: 225,000 unless told, for which a few
# functions of many branches take most of the time.
STATES = "75000"
TIDY = shutil.which("clang-tidy-14") or "clang-tidy"


def commands(root, build):
    """One compile command for each source of ours, the first named."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    kept = {}
    for entry in entries:
        path = os.path.relpath(os.path.realpath(entry["file"]), os.path.realpath(root))
        if path.startswith(FOLDERS):
            entry["command"] = re.sub(r" -(mtune|fno-tree|fgraphite|fprefetch)\S*", "", entry["command"])
            kept.setdefault(path, entry)
    return kept


def digest(root, entry):
    """Of all that the answer depends on: the source with what it includes, the checks, the tool."""
    command = re.sub(r" -o \S+| -c\b", "", entry["command"]) + " -E -o -"
    text = subprocess.run(command, shell=True, cwd=entry["directory"], capture_output=True, check=True).stdout
    with open(os.path.join(root, ".clang-tidy"), "rb") as file:
        checks = file.read()
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    return hashlib.sha256(b"\0".join([text, checks, version])).hexdigest()


def complaints_of(root, entry, folder):
    clean = os.path.join(folder, digest(root, entry))
    if os.path.exists(clean):
        return []
    # The analyser costs most of the time and nothing is shared between sources, so each is a process of its own.
    limit = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={STATES}")]
    run = subprocess.run([TIDY, "-p", folder, "--quiet", *limit, entry["file"]], capture_output=True, text=True,
                         check=False)
    if run.returncode != 0:
        return [run.stdout.strip() or run.stderr.strip()]
    with open(clean, "w", encoding="utf-8"):
        return []


def check(root, build):
    entries = list(commands(root, build).values())
    if not entries:
        return [f"{build}/compile_commands.json names no source of ours"]
    folder = os.path.join(build, "tidy")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(entries, file)
    entries.sort(key=lambda entry: os.path.getsize(entry["file"]), reverse=True)
    with multiprocessing.pool.ThreadPool(os.cpu_count()) as pool:
        found = pool.map(lambda entry: complaints_of(root, entry, folder), entries, 1)
    return [complaint for complaints in found for complaint in complaints]


def check_planted(root):
    """For the self-test: a tree without a build."""
    sources = tree.files(root, (".c",))
    shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.clang-tidy"), root)
    entries = [{"directory": root, "file": os.path.join(root, path), "command": f"cc -std=c11 -c {path}"}
               for path in sources]
    with open(os.path.join(root, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(entries, file)
    return check(root, root)


MISTAKES = [
    ({"src/base/a.c": "int f(const int *p);\nint f(const int *p)\n{\n    return p == 0 ? *p : 0;\n}\n"}, "NullDeref"),
    ({"src/base/a.c": "int f(unsigned x);\nint f(unsigned x)\n{\n    switch (x) {\n    case 1:\n        return 2;\n"
      "    case 3:\n        return 2;\n    default:\n        return 0;\n    }\n}\n"}, "branch-clone"),
    ({"kernels/a.c": "int f(int x);\nint f(int x)\n{\n    if (x)\n        return 1;\n    return 0;\n}\n"}, "braces"),
]
CLEAN = {"src/base/a.c": "int f(int x);\nint f(int x)\n{\n    return x + 1;\n}\n"}

if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        sys.exit(tree.self_test(check_planted, MISTAKES, CLEAN))
    COMPLAINTS = check(sys.argv[1], sys.argv[2])
    print("\n".join(COMPLAINTS))
    sys.exit(1 if COMPLAINTS else 0)
