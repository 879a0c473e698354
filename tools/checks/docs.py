#!/usr/bin/env python3
"""Documents stay true where a machine can tell: links lead somewhere, and the C shown is the C that is compiled.

A fenced block right after the line "<!-- FILE -->" must equal that file, its opening comment left out.
"""
import os
import re

import tree

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.M)
SHOWN = re.compile(r"^<!-- (\S+) -->\n```\w*\n(.*?)^```$", re.M | re.S)
OPENING = re.compile(r"\A/\*.*?\*/\n+", re.S)


def parts(text):
    """The names by which links reach a page's headings."""
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in HEADING.findall(text)}


def links(root, path, text):
    for target in LINK.findall(re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)):
        file, _, part = target.partition("#")
        if "://" in file or file.startswith("mailto:"):
            continue
        to = os.path.join(os.path.dirname(path), file) if file else path
        if not os.path.exists(os.path.join(root, to)):
            yield f"{path}: link to {target}, which is not there"
        elif part and to.endswith(".md") and part not in parts(tree.read(root, to)):
            yield f"{path}: link to {target}, and no heading there has that name"


def shown(root, path, text):
    for file, block in SHOWN.findall(text):
        if not os.path.exists(os.path.join(root, file)):
            yield f"{path}: shows {file}, which is not there"
        elif OPENING.sub("", tree.read(root, file)) != block:
            yield f"{path}: what it shows of {file} differs from the file"


def check(root):
    complaints = []
    for path in tree.files(root, (".md",)):
        text = tree.read(root, path)
        complaints += [*links(root, path, text), *shown(root, path, text)]
    return complaints


MISTAKES = [
    ({"a.md": "see [b](docs/b.md)\n"}, "link to docs/b.md"),
    ({"docs/a.md": "see [b](b.md)\n", "b.md": ""}, "link to b.md"),
    ({"a.md": "see [b](b.md#two)\n", "b.md": "# One\n"}, "no heading"),
    ({"a.md": "<!-- x.c -->\n```c\nint x;\n```\n", "x.c": "/* X. */\nint y;\n"}, "differs"),
    ({"a.md": "<!-- x.c -->\n```c\nint x;\n```\n"}, "not there"),
]
CLEAN = {"a.md": "[b](docs/b.md#part) [w](https://w)\n<!-- x.c -->\n```c\nint x;\n```\n",
         "docs/b.md": "# `Part`\n[a](../a.md)\n",
         "x.c": "/* X. */\nint x;\n"}

if __name__ == "__main__":
    tree.main(check, MISTAKES, CLEAN)
