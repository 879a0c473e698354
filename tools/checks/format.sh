#!/bin/bash
# The house's format, as .clang-format says it: format.sh ROOT [BUILD] | --write | --self-test
# NOTE: clang-format changes its mind between versions; 14 is the one the tree is kept in.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)

sources() { # root
    find "$1"/{include,src,kernels,tests,examples,bench,python} -type f \
        \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0 2>/dev/null || true
}

check() { # root
    sources "$1" | xargs -0 -r -n 16 -P "$(nproc)" clang-format-14 --style=file --dry-run -Werror
}

self_test() {
    root=$(mktemp -d) && trap 'rm -rf "$root"' EXIT
    cp "$here/.clang-format" "$root" && mkdir -p "$root/src/base" "$root/kernels/cuda"
    echo 'int  x;' >"$root/src/base/a.c"
    check "$root" 2>/dev/null && echo "self-test: two blanks were not noticed" && exit 1
    echo 'int x;' >"$root/src/base/a.c"
    echo 'int* x;' >"$root/kernels/cuda/a.cu"
    check "$root" 2>/dev/null && echo "self-test: a misplaced star in device code was not noticed" && exit 1
    echo 'int *x;' >"$root/kernels/cuda/a.cu"
    check "$root"
}

case ${1:-.} in
--self-test) self_test ;;
--write) sources "$here" | xargs -0 -r clang-format-14 --style=file -i ;;
*) check "$1" ;;
esac
