#!/bin/bash
# run.sh BUILD [PYTEST'S ARGUMENTS]: the tests of the Python package, against BUILD's library. NumPy, ml_dtypes and pytest
# are those of $ATTUNE_PYTHON, else what tools/install-deps.sh put into BUILD/deps/python.
set -euo pipefail
build=$(cd "$1" && pwd) here=$(cd "$(dirname "$0")" && pwd)
shift
python=${ATTUNE_PYTHON:-python3}
export ATTUNE_LIBRARY=$build/lib/libattune.so ATTUNE_TARGET=cpu PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=$build/deps/python${PYTHONPATH:+:$PYTHONPATH}
"$python" -c 'import numpy, ml_dtypes, pytest' || {
    echo "the tests of the Python package need NumPy, ml_dtypes and pytest: tools/install-deps.sh test fetches them from" >&2
    echo "PyPI; where it cannot: $python -m pip install numpy ml_dtypes pytest" >&2
    exit 1
}
exec "$python" -m pytest -q -p no:cacheprovider "$here" "$@"
