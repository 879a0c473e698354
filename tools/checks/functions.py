#!/usr/bin/env python3
"""Host functions are short, none over 60 lines, their median at most 11: functions.py ROOT [--longest] | --self-test

A function's lines are those from its first to its closing brace, as clang-format sets them: the opening brace on a line
of its own. --longest prints the median and the ten longest.
"""
import statistics
import sys

import tree

LINES, MEDIAN = 60, 11
FOLDERS = ("src/", "kernels/")


def first_line(lines, brace):
    """Of the definition whose opening brace is there."""
    at = brace
    while at > 0 and lines[at - 1] and not lines[at - 1].startswith(("/*", " *", "#", "}")) \
            and not lines[at - 1].endswith((";", "*/")):
        at -= 1
    return at


def functions(path, text):
    lines = text.split("\n")
    for brace, line in enumerate(lines):
        if line == "{" and "}" in lines[brace:]:
            first = first_line(lines, brace)
            yield lines.index("}", brace) - first + 1, f"{path}:{first + 1}: {lines[first]}"


def all_functions(root):
    return sorted((function for path in tree.files(root, (".c", ".h")) if path.startswith(FOLDERS)
                   for function in functions(path, tree.read(root, path))), reverse=True)


def check(root):
    found = all_functions(root)
    complaints = [f"{where}: {lines} lines, at most {LINES}" for lines, where in found if lines > LINES]
    median = statistics.median(lines for lines, _ in found) if found else 0
    if median > MEDIAN:
        complaints.append(f"the median function has {median:g} lines, at most {MEDIAN}")
    return complaints


def print_longest(root):
    found = all_functions(root)
    print(f"{len(found)} functions, median {statistics.median(lines for lines, _ in found):g} lines")
    for lines, where in found[:10]:
        print(f"{lines:4} {where}")


def function(name, lines):
    return f"static int {name}(void)\n{{\n" + "    step();\n" * (lines - 3) + "}\n\n"


MISTAKES = [
    ({"src/a.c": function("a", 61) + function("b", 3)}, "61 lines"),
    ({"kernels/cpu/a.h": "/* What\n * it is. */\n" + function("a", 70) + function("b", 3) * 2}, "kernels/cpu/a.h:3:"),
    ({"src/a.c": function("a", 12) * 3 + function("b", 3)}, "median function has 12"),
]
CLEAN = {"src/a.c": "struct a {\n" + "    int x;\n" * 80 + "};\n" + function("a", 60) + function("b", 10) * 2,
         "tests/a.c": function("a", 90)}

if __name__ == "__main__":
    if sys.argv[2:3] == ["--longest"]:
        sys.exit(print_longest(sys.argv[1]))
    tree.main(check, MISTAKES, CLEAN)
