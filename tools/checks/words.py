#!/usr/bin/env python3
"""Code, documents and commit messages speak of attune in engineers' words, not of how it was written; no promises."""
import re
import subprocess

import tree

# Words and why they do not belong. A GPU may "issue" instructions and a clock may have sessions; a numbered issue or
# the last session is somebody's planning.
WORDS = [
    (r"\bissues?\s*#?\s*\d+\b|\b(?:this|that|a later|an earlier|later|earlier|first|next|the) issues?\b", "planning"),
    (r"\b(?:this|last|later|next|previous|earlier|another|other|my|our) sessions?\b", "planning"),
    (r"\b(?:another|other|our|by the|which) helpers?\b", "planning"),
    (r"\bwork-?trees?\b(?! *\*/)", "planning"),
    (r"\bsub-?agents?\b|\bchatgpt\b|\bclaude\b|\banthropic\b|\bopenai\b", "planning"),
    (r"/work/|/root/|/tmp/bash", "a path of one machine"),
    (r"\b(?:TODO|FIXME|XXX|HACK|WIP)\b", "a promise instead of the work"),
    (r"\bplaceholders?\b|\bnot (?:yet )?implemented\b|\bcoming soon\b", "a promise instead of the work"),
]
# Private words for what engineers name otherwise, alone or as a part of an identifier.
PRIVATE = {
    "beware": "say what goes wrong", "blot": "overwrite, fill", "chapter": "section, scope", "court": "gate, judge",
    "errand": "request, job", "exhibit": "example, evidence", "foresee": "predict", "guest": "caller", "guise": "form",
    "journey": "path, pass", "let_pass": "accept", "litter": "former contents", "place_full": "say what is full",
    "dress": "form", "lift": "raise, copy", "standing": "kind, static", "story": "example, log", "street": "neighbours",
    "wear": "apply", "witness": "harness, check", "worn": "applied",
}
PART = "|".join(PRIVATE) + "|stories|foresaw|foreseen|wearing"
PRIVATE_PATTERN = re.compile(rf"(?<![A-Za-z])(?:{PART})(?:s|ed|ted|ing)?(?![A-Za-z])", re.I)
# A strategy is asked and told; what can be told apart, and who was not told otherwise, is plain English.
TOLD = re.compile(r"(?<!unless )(?<!can be )(?<![A-Za-z])told(?![A-Za-z])(?![ _](?:apart|otherwise|to)\b)", re.I)
PATTERNS = [(re.compile(pattern, 0 if "TODO" in pattern else re.I), why) for pattern, why in WORDS]
TEXT = tree.CODE + (".md", ".py", ".sh", ".txt", ".cmake", ".yml", ".in", ".html")
OWN = "tools/checks/words.py"


def complaints_of(name, text):
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, why in PATTERNS:
            match = pattern.search(line)
            if match:
                found.append(f"{name}:{number}: '{match.group(0)}': {why}")
    return found


def private(name, text):
    return [f"{name}:{number}: '{match.group(0)}': a private word; see PRIVATE in {OWN}"
            for number, line in enumerate(text.splitlines(), 1) for pattern in (PRIVATE_PATTERN, TOLD)
            for match in pattern.finditer(line)]


def messages(root):
    """Commit messages, where there is a history."""
    log = subprocess.run(["git", "-C", root, "log", "--format=%h %B"], capture_output=True, text=True, check=False)
    return log.stdout if log.returncode == 0 else ""


def check(root):
    complaints = []
    for path in tree.files(root):
        if path != OWN and (path.endswith(TEXT) or path in ("Makefile", ".ci/run")):
            text = tree.read(root, path)
            complaints += complaints_of(path, text) + private(path, text)
    return complaints + complaints_of("commit message", messages(root))


MISTAKES = [
    ({"a.md": "see issue 12\n"}, "planning"),
    ({"a.md": "a later issue makes it fast\n"}, "planning"),
    ({"src/a.c": "/* the last session left this */\n"}, "planning"),
    ({"a.sh": "cd /root/attune\n"}, "a path"),
    ({"src/a.c": "int x; /* TODO */\n"}, "promise"),
    ({"src/a.c": "static int tell_story(void);\n"}, "private"),
    ({"src/a.c": "int street_device; /* worn */\n"}, "private"),
    ({"a.md": "Chapters of the court.\n"}, "private"),
    ({"src/a.c": "static void damage_is_told(void);\n"}, "private"),
    ({"kernels/cuda/a.cu": "/* what the witness saw */\n"}, "private"),
    ({"Makefile": "# not yet implemented\n"}, "promise"),
]
CLEAN = {"a.md": "The scheduler issues one instruction a cycle; an issue slot is free. Todo lists are fine.\n"
                 "Cases are told apart, 9 unless told otherwise.\n",
         "src/b.c": "int courtesy, outstanding, history, wearable;\n"}

if __name__ == "__main__":
    tree.main(check, MISTAKES, CLEAN)
