#!/bin/bash
# Every header compiles alone: the public ones as C11 and C++17 with gcc and clang, pedantically; args.h also as a
# run-time compiler of device code sees it, without any include path; the rooms' headers as C11.
#   headers.sh ROOT [BUILD] | --self-test
set -uo pipefail

complaints=0
compile() { # root header compiler arguments...
    local root=$1 header=$2
    shift 2
    echo "#include \"$header\"" |
        "$@" -Wall -Wextra -Wshadow -Werror -fsyntax-only -I"$root/include" -I"$root/src" - ||
        { echo "$header does not compile alone: $*"; complaints=$((complaints + 1)); }
}

check() { # root
    local root=$1 header cc cxx
    cc=$(command -v clang-14 || command -v clang) cxx=${cc/clang/clang++}
    for header in $(cd "$root/include" && echo attune/*.h); do
        for compiler in gcc "$cc"; do
            compile "$root" "$header" "$compiler" -x c -std=c11 -Wpedantic -Wstrict-prototypes
        done
        for compiler in g++ "$cxx"; do
            compile "$root" "$header" "$compiler" -x c++ -std=c++17 -Wpedantic
        done
    done
    for compiler in g++ "$cxx"; do
        compile "$root" attune/args.h "$compiler" -x c++ -std=c++17 -nostdinc -D__CUDACC_RTC__
    done
    for header in $(cd "$root/src" 2>/dev/null && find . -name '*.h' | sort); do
        compile "$root" "${header#./}" gcc -x c -std=c11 -D_GNU_SOURCE
    done
    return $((complaints > 0))
}

self_test() {
    local planted
    root=$(mktemp -d) && trap 'rm -rf "$root"' EXIT
    mkdir -p "$root/include/attune" "$root/src/base"
    good='typedef int at_good;'
    for planted in 'typedef size_t at_needs_a_header;' 'int class;' 'int f();' '#include <stdint.h>'; do
        echo "$planted" >"$root/include/attune/args.h"
        complaints=0
        check "$root" >/dev/null 2>&1 && { echo "self-test: '$planted' was not noticed" && exit 1; }
    done
    echo "$good" >"$root/include/attune/args.h"
    echo 'int at_f(void); at_unknown x;' >"$root/src/base/a.h"
    complaints=0
    check "$root" >/dev/null 2>&1 && { echo "self-test: an unknown type in a room's header was not noticed" && exit 1; }
    echo "$good" >"$root/src/base/a.h"
    complaints=0
    check "$root" || { echo "self-test: a clean tree was refused" && exit 1; }
}

if [ "${1:-}" = --self-test ]; then self_test; else check "${1:-.}"; fi
