"""What the checks share: which files are ours, and how a check is run and tested.

A check is a function from a root folder to a list of complaints. Its self-test plants mistakes in a small tree and
expects each to be found, and a clean tree to pass.
"""
import os
import subprocess
import sys
import tempfile

CODE = (".c", ".h", ".cu", ".cuh")


def files(root, suffixes=None):
    """Paths below root, relative to it: those git tracks or would track; without git, all but builds."""
    try:
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "-co", "--exclude-standard"],
            capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        listed = list(walk(root))
    return sorted(path for path in listed
                  if (suffixes is None or path.endswith(suffixes)) and os.path.isfile(os.path.join(root, path)))


def walk(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith("build") and name not in (".git", "out")]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), root)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace", newline="") as file:
        return file.read()


def plant(root, planted):
    for path, text in planted.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        if text.startswith("#!"):
            os.chmod(full, 0o755)


def main(check, mistakes, clean):
    """mistakes: (a tree's files, a word the complaint must contain); clean: files that must pass."""
    if sys.argv[1:2] == ["--self-test"]:
        sys.exit(self_test(check, mistakes, clean))
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    complaints = check(root)
    for complaint in complaints:
        print(complaint)
    sys.exit(1 if complaints else 0)


def self_test(check, mistakes, clean):
    missed = 0
    for planted, word in mistakes + [(clean, None)]:
        with tempfile.TemporaryDirectory() as root:
            plant(root, planted)
            complaints = check(root)
        found = not complaints if word is None else any(word in complaint for complaint in complaints)
        if not found:
            missed += 1
            print(f"self-test: wanted {'no complaint' if word is None else repr(word)} for {planted}, got {complaints}")
    print(f"self-test: {len(mistakes)} planted mistakes, {missed} wrong answers")
    return 1 if missed else 0
