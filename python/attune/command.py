"""The command `attune`, which comes with the package: what of it Python can ask for, and a way to it.

The command judges kernels in processes of its own, so that what crashes or hangs there ends nothing here.
"""
from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from typing import Callable

from attune.library import Error, Status, invalid

CODES = {"gate": (0, 1, 2, 3, 4), "bench": (0, 1), "info": (0,)}


def executable() -> str:
    """The command's path: $ATTUNE_COMMAND, else in the package, in the source tree's build folder, or in the bin of the
    PREFIX that has PREFIX/share/attune/python/attune."""
    package = os.path.dirname(os.path.abspath(__file__))
    places = ["bin/attune", "../../build/bin/attune", "../../../../bin/attune"]
    paths = [os.environ.get("ATTUNE_COMMAND"), *(os.path.normpath(os.path.join(package, place)) for place in places)]
    for path in paths:
        if path and os.access(path, os.X_OK):
            return path
    raise Error(Status.NOT_FOUND, "the command attune: it is not with this package; ATTUNE_COMMAND can name it")


def environment():
    """What the command starts is this Python, with the library of its own; who names the command names that, too."""
    chosen = "ATTUNE_COMMAND" in os.environ
    found = {name: value for name, value in os.environ.items() if chosen or name != "ATTUNE_LIBRARY"}
    found.setdefault("ATTUNE_PYTHON", sys.executable or "python3")
    return found


def main():
    """What pip installs as `attune`."""
    try:
        path = executable()
    except Error as error:
        sys.exit(f"attune: {error.sentence}")
    os.execve(path, ["attune", *sys.argv[1:]], environment())


def ask(verb, words, options) -> list[dict]:
    """The rows that a verb answers with."""
    return rows_and_words(verb, words, options)[0]


def rows_and_words(verb, words, options) -> tuple[list[dict], str]:
    """(the rows, what was said beside them)."""
    line = [executable(), verb, *words, "--format", "json"]
    for name, value in options.items():
        if value is None or value is False:
            continue
        line.append("--" + name.replace("_", "-"))
        if value is not True:
            line.append(",".join(value) if isinstance(value, (list, tuple)) else str(value))
    try:
        ended = subprocess.run(line, env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except (OSError, ValueError, TypeError) as error:
        raise invalid(f"{verb}: the command cannot be started: {error}") from None
    lines = [line for line in ended.stderr.splitlines() if line.startswith("attune: ")] or [ended.stderr]
    beside = "; ".join(line.replace(f"attune: {verb}: ", "", 1) for line in lines).strip()
    if ended.returncode not in CODES[verb]:
        raise Error(Status.INVALID_ARGUMENT if ended.returncode == 64 else Status.UNSUPPORTED, beside)
    return json.loads(ended.stdout), beside


def info(problem: str | None = None, *, target: str | None = None, kernel: str | None = None) -> dict:
    """What attune sees of this machine and, with a problem's text, what would run it and why other kernels would not:
    {"machine": {property: text}, "problem": {property: text}, "kernels": {name: {property: text}}}.
    INVALID_ARGUMENT names the term, the target or the kernel."""
    found = {"machine": {}, "problem": {}, "kernels": {}}
    for row in ask("info", [] if problem is None else [problem], {"target": target, "kernel": kernel}):
        of = found[row["subject"]] if row["subject"] in found else found["kernels"].setdefault(row["name"], {})
        of[row["property"]] = row["value"]
    return found


def bench(*problems: str, arms=None, seconds: float | None = None, target: str | None = None,
          threads: int | None = None) -> list[dict]:
    """Times arms on the problems, in turns, each first compared with the reference in fp64. One row for each arm that
    could run: its problem, arm, median_us, lo_us and hi_us (the 95 % interval), gflops, ratio (the first arm's time /
    this one's) and peak_share. arms: names, or Python callables (see gate); None: auto and a peer. seconds: for each
    problem. UNSUPPORTED: none of the arms could run."""
    names = None if arms is None else arms_of("arms", arms)
    return ask("bench", problems, {"arms": names, "seconds": seconds, "target": target, "threads": threads})


def gate(candidate: str | Callable, *problems: str, against=None, must: float | None = None, cases: int | None = None,
         quick: bool = False, target: str | None = None, threads: int | None = None, evidence=None,
         seconds: float | None = None) -> list[dict]:
    """Is it right, and really faster? One row for each problem (none: b1,h8,s512,d64,fp16) and rival.

    candidate: a kernel's name, or a folder with a kernel (docs/kernels.md): `attune gate` judges it by the whole suite
    of cases, and the rows have its findings: right, faster ("pass", "fail", "inconclusive"), ratio with lo and hi.
    against: rivals, of which "best" (the default) means PyTorch's back ends; a callable is one too. must, cases, quick,
    evidence: as the command has them.

    candidate: a callable function(q, k, v, causal=..., scale=...), from a file that can be imported, or
    "FILE:FUNCTION"; docs/peers.md says what it is given. Python code cannot be taken through the suite: it is compared
    with the reference in fp64 on the problem's own inputs, and timed in turns with its rivals ("auto" by default) for
    `seconds`. The rows are those of `bench`, the candidate's first; one that is not right has none, and Error
    WRONG_RESULT or UNSUPPORTED says why.

    What this needs of a machine, and how long it takes, is the command's: docs/gate.md."""
    own = callable(candidate) or is_function(candidate)
    if not own and not isinstance(candidate, (str, os.PathLike)):
        raise invalid(f"candidate: it is of type {type(candidate).__name__}: a kernel's name, a folder or a callable "
                      "is needed")
    rivals = None if against is None else arms_of("against", against)
    if own:
        name, problems = arm_of(candidate), problems or ("b1,h8,s512,d64,fp16",)
        rows, words = rows_and_words("bench", problems, {"arms": [name, *(rivals or ["auto"])], "seconds": seconds,
                                                         "target": target, "threads": threads})
        if sum(row["arm"] == name for row in rows) < len(problems):
            wrong = "wrong, and therefore not timed" in words
            raise Error(Status.WRONG_RESULT if wrong else Status.UNSUPPORTED, words)
        return rows
    return ask("gate", [os.fspath(candidate), *problems],
               {"against": rivals, "must": must, "cases": cases, "quick": quick, "target": target, "threads": threads,
                "evidence": None if evidence is None else os.fspath(evidence)})


def is_function(text):
    """FILE.py:FUNCTION."""
    return isinstance(text, str) and ".py:" in text


def arms_of(name, arms) -> list[str]:
    """The names of one arm, or of several."""
    if isinstance(arms, str) or callable(arms):
        arms = [arms]
    if not isinstance(arms, (list, tuple)):
        raise invalid(f"{name}: it is of type {type(arms).__name__}: a text, a callable or a list of them is needed")
    return [arm_of(arm) for arm in arms]


def arm_of(arm) -> str:
    """The name of an arm: a text as it is, a callable as py:FILE:FUNCTION."""
    if isinstance(arm, str):
        return f"py:{arm}" if is_function(arm) and not arm.startswith("py:") else arm
    if not callable(arm):
        raise invalid(f"an arm is a text or a callable, not {type(arm).__name__}")
    name = getattr(arm, "__qualname__", "")
    try:
        path = os.path.abspath(inspect.getsourcefile(arm))
    except TypeError:
        path = None
    if not path or not os.path.exists(path) or not name.isidentifier() or name == "<lambda>":
        raise invalid(f"{arm!r}: a function of a file's top level is needed, which another process can import")
    return f"py:{path}:{name}"
