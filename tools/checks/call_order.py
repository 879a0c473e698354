#!/usr/bin/env python3
"""Calls between source files run one way: call_order.py ROOT BUILD [--edges ROOM] | --self-test

A file calls another where its object code needs a function that the other's defines; a circle is a set of files each of
which reaches every other by such calls. What both sides of a circle need belongs in a file below both. Reads the object
files that BUILD/compile_commands.json names, so the tree must be built. --edges prints who calls whom in a room.
"""
import collections
import json
import os
import re
import subprocess
import sys

import tree

def objects(root, build):
    """{source below src/: its object file}; a source compiled several times counts once."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        path = os.path.relpath(os.path.realpath(entry["file"]), os.path.realpath(root))
        output = os.path.join(entry["directory"], re.search(r" -o (\S+)", entry["command"]).group(1))
        if path.startswith("src/") and os.path.exists(output):
            found.setdefault(path, output)
    return found


def symbols(found):
    """({function: the source that defines it}, {source: the names it needs})"""
    defined, needed = {}, collections.defaultdict(set)
    sources = {output: path for path, output in found.items()}
    listed = subprocess.run(["nm", "-A", *sources], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        output, _, rest = line.partition(":")
        kind, name = rest.split()[-2:]
        if kind == "T":
            defined[name] = sources[output]
        elif kind == "U":
            needed[sources[output]].add(name)
    return defined, needed


def calls(found):
    """{caller: {callee: the functions}} between files."""
    defined, needed = symbols(found)
    graph = {path: collections.defaultdict(set) for path in found}
    for path, names in needed.items():
        for name in names & defined.keys():
            graph[path][defined[name]].add(name)
    return graph


def circles(graph):
    """The strongly connected components of more than one file, by Tarjan's algorithm."""
    number, lowest, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in graph[node]:
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def name_of(path):
    return os.path.splitext(os.path.basename(path))[0]


def describe(graph, circle):
    lines = [f"a circle of calls among {len(circle)} files: {', '.join(circle)}"]
    for path in circle:
        for other in sorted(set(graph[path]) & set(circle)):
            lines.append(f"    {path} -> {other}: {', '.join(sorted(graph[path][other]))}")
    return "\n".join(lines)


def check(root, build):
    found = objects(root, build)
    if not found:
        return [f"{build}: no object file of src/: build the tree first"]
    graph = calls(found)
    return [describe(graph, circle) for circle in circles(graph)]


def print_edges(root, build, room):
    graph = calls(objects(root, build))
    for path in sorted(graph):
        inside = sorted(name_of(other) for other in graph[path] if path.startswith(f"src/{room}/")
                        and other.startswith(f"src/{room}/"))
        if inside:
            print(f"{name_of(path)}: {' '.join(inside)}")


def check_planted(root):
    """For the self-test: compiles the tree's sources."""
    entries = []
    for path in tree.files(root, (".c",)):
        command = f"cc -c {path} -o {path.replace('/', '_')}.o"
        subprocess.run(command.split(), cwd=root, check=True, capture_output=True)
        entries.append({"directory": root, "file": os.path.join(root, path), "command": command})
    with open(os.path.join(root, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(entries, file)
    return check(root, root)


MISTAKES = [
    ({}, "build the tree"),
    ({"src/x/a.c": "void b(void);\nvoid a(void)\n{\n    b();\n}\n",
      "src/x/b.c": "void a(void);\nvoid b(void)\n{\n    a();\n}\n"}, "src/x/a.c -> src/x/b.c: b"),
    ({"src/x/a.c": "void b(void);\nvoid a(void)\n{\n    b();\n}\n",
      "src/x/b.c": "void c(void);\nvoid b(void)\n{\n    c();\n}\n",
      "src/y/c.c": "void a(void);\nvoid c(void)\n{\n    a();\n}\n"}, "among 3 files"),
    ({"src/x/a.c": "void b(void);\nvoid (*const table[])(void) = {b};\nvoid a(void)\n{\n}\n",
      "src/x/b.c": "void a(void);\nvoid b(void)\n{\n    a();\n}\n"}, "circle"),
]
CLEAN = {
    "src/x/a.c": "void b(void);\nvoid c(void);\nvoid a(void)\n{\n    b();\n    c();\n}\n",
    "src/x/b.c": "void c(void);\nstatic void a(void)\n{\n}\nvoid b(void)\n{\n    a();\n    c();\n}\n",
    "src/x/c.c": "extern int value;\nvoid c(void)\n{\n    value = 1;\n}\n",
    "src/x/d.c": "void a(void);\nint value;\nvoid d(void)\n{\n    a();\n}\n",
}

if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        sys.exit(tree.self_test(check_planted, MISTAKES, CLEAN))
    if sys.argv[3:4] == ["--edges"]:
        sys.exit(print_edges(*sys.argv[1:3], sys.argv[4]))
    COMPLAINTS = check(sys.argv[1], sys.argv[2])
    print("\n".join(COMPLAINTS))
    sys.exit(1 if COMPLAINTS else 0)
