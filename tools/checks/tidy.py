#!/usr/bin/env python3
"""clang-tidy over src/, kernels/ and examples/, as .clang-tidy says: tidy.py ROOT BUILD | --self-test

Works from the build's compile_commands.json. A source that is compiled for several instruction sets is read once, and
gcc-only flags are left out, so that the build may use either compiler.
"""
import json
import multiprocessing.pool
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tree

FOLDERS = ("src/", "kernels/", "examples/")
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


def complaints_of(source, database):
    # The analyser costs most of the time and nothing is shared between sources, so each is a process of its own.
    run = subprocess.run([TIDY, "-p", database, "--quiet", source], capture_output=True, text=True, check=False)
    return [] if run.returncode == 0 else [run.stdout.strip() or run.stderr.strip()]


def check(root, build):
    kept = commands(root, build)
    if not kept:
        return [f"{build}/compile_commands.json names no source of ours"]
    with tempfile.TemporaryDirectory() as database, multiprocessing.pool.ThreadPool(os.cpu_count()) as pool:
        with open(os.path.join(database, "compile_commands.json"), "w", encoding="utf-8") as file:
            json.dump(list(kept.values()), file)
        sources = sorted((entry["file"] for entry in kept.values()), key=os.path.getsize, reverse=True)
        found = pool.map(lambda source: complaints_of(source, database), sources, 1)
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
    ({"src/base/a.c": "#define TWICE(x) x * 2\nint f(int x);\nint f(int x)\n{\n    return TWICE(x);\n}\n"},
     "macro-parentheses"),
    ({"kernels/a.c": "int f(int x);\nint f(int x)\n{\n    if (x)\n        return 1;\n    return 0;\n}\n"}, "braces"),
]
CLEAN = {"src/base/a.c": "int f(int x);\nint f(int x)\n{\n    return x + 1;\n}\n"}

if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        sys.exit(tree.self_test(check_planted, MISTAKES, CLEAN))
    COMPLAINTS = check(sys.argv[1], sys.argv[2])
    print("\n".join(COMPLAINTS))
    sys.exit(1 if COMPLAINTS else 0)
