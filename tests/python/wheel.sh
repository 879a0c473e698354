#!/bin/bash
# wheel.sh BUILD [PYTHON...]: installs BUILD/wheel/*.whl into a fresh environment of each Python, outside of the source
# tree, and runs the package's tests and its command there. NumPy, ml_dtypes and pytest are BUILD/deps/python's where
# they are for this Python, else fetched.
set -euo pipefail
build=$(cd "$1" && pwd) here=$(cd "$(dirname "$0")" && pwd)
shift
[ $# -gt 0 ] || set -- "${ATTUNE_PYTHON:-python3}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$here" "$work/tests"
unset ATTUNE_LIBRARY ATTUNE_COMMAND PYTHONPATH
export ATTUNE_INSTALLED=1 ATTUNE_TARGET=cpu PYTHONDONTWRITEBYTECODE=1
cd "$work"
for python in "$@"; do
    rm -rf env
    "$python" -m venv env
    env/bin/pip install -q --disable-pip-version-check --no-deps --no-index "$build"/wheel/*.whl
    if PYTHONPATH=$build/deps/python env/bin/python -c 'import numpy, ml_dtypes, pytest' 2>/dev/null; then
        export PYTHONPATH=$build/deps/python
    else
        env/bin/pip install -q --disable-pip-version-check --prefer-binary numpy ml_dtypes pytest
    fi
    echo "$(env/bin/python --version), $(env/bin/attune version), in $(env/bin/python -c 'import attune; print(attune.__path__[0])')"
    env/bin/attune check --cases 5 b1,h2,s40,d16,fp32 >/dev/null
    env/bin/python -m pytest -q -p no:cacheprovider tests
    unset PYTHONPATH
done
