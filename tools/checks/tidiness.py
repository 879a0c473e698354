#!/usr/bin/env python3
"""Files stay short and clean: 700 lines of code, 120 columns, no trailing blanks, no tabs, one final newline.
No binary profile is kept, and no file over 1 MB but evidence, wisdom and data."""
import os
import re

import tree

LINES, COLUMNS = 700, 120
TEXT = tree.CODE + (".md", ".py", ".sh", ".cmake", ".yml", ".in", "CMakeLists.txt")
LENGTHY = tree.CODE + (".py", ".sh", ".cmake", "CMakeLists.txt")
WIDE = tree.CODE + (".py",)
PROFILES = (".ncu-rep", ".nsys-rep", ".qdstrm", ".sqlite")
MOST_BYTES = 1 << 20
GIVEN = ("tests/fuzz/corpus/", "evidence/", "wisdom/", "examples/data/")  # data, not ours to format


def faults(path, text):
    lines = text.split("\n")
    if path.endswith(LENGTHY) and len(lines) - 1 > LINES:
        yield f"{path}: {len(lines) - 1} lines, at most {LINES}"
    for number, line in enumerate(lines, 1):
        if re.search(r"[ \t\r]$", line):
            yield f"{path}:{number}: trailing blanks"
        if "\t" in line:
            yield f"{path}:{number}: a tab"
        if len(line) > COLUMNS and path.endswith(WIDE):
            yield f"{path}:{number}: {len(line)} columns, at most {COLUMNS}"
    if text and not text.endswith("\n"):
        yield f"{path}: no newline at the end"
    if text.endswith("\n\n"):
        yield f"{path}: blank lines at the end"


def large(root):
    """What does not belong into a repository's history."""
    for path in tree.files(root):
        size = os.path.getsize(os.path.join(root, path))
        if path.endswith(PROFILES):
            yield f"{path}: a binary profile"
        elif size > MOST_BYTES and not path.startswith(GIVEN):
            yield f"{path}: {size} bytes, at most {MOST_BYTES}"


def check(root):
    return list(large(root)) + [fault for path in tree.files(root, TEXT) if not path.startswith(GIVEN)
            for fault in faults(path, tree.read(root, path))]


MISTAKES = [
    ({"src/a.c": "int x;\n" * 701}, "701 lines"),
    ({"src/a.c": "int x; \n"}, "trailing"),
    ({"src/a.c": "\tint x;\n"}, "a tab"),
    ({"a.md": "text\r\n"}, "trailing"),
    ({"src/a.c": "int " + "x" * 120 + ";\n"}, "125 columns"),
    ({"src/a.c": "int x;"}, "no newline"),
    ({"src/a.c": "int x;\n\n"}, "blank lines"),
    ({"bench/a.ncu-rep": "x"}, "a binary profile"),
    ({"bench/a.tsv": "x" * ((1 << 20) + 1)}, "at most 1048576"),
]
CLEAN = {"src/a.c": "int x;\n" * 700, "a.md": "x" * 500 + "\n", "empty.md": "", "tests/a/data.txt": "a\t \n"}

if __name__ == "__main__":
    tree.main(check, MISTAKES, CLEAN)
