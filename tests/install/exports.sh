#!/bin/bash
# exports.sh SOURCE BUILD: libattune.so exports what attune.h declares and nothing else, libattune-gate.so what gate.h
# declares too; the global names of the static libraries, which share a name space with their user's, all begin with
# attune_ or at_; libattune.so needs nothing but libc, libm and the loader.
#
# exports.sh --self-test: shows that each kind of mistake is found.
set -euo pipefail

declared() { # the functions of a header
    grep -o '\battune_[a-z0-9_]*(' "$1" | tr -d '(' | sort -u
}

check() { # HEADER SHARED STATIC
    local status=0 stray functions unequal
    stray=$(nm -D --defined-only "$2" | awk '$2 != "A" {print $3}' | grep -v '^attune_' || true)
    if [ -n "$stray" ]; then
        echo "$2 exports names without attune_:" $stray
        status=1
    fi
    functions=$(nm -D --defined-only "$2" | awk '$2 == "T" {print $3}' | grep '^attune_' | sort -u || true)
    unequal=$(comm -3 <(declared "$1") <(echo "$functions"))
    if [ -n "$unequal" ]; then
        echo "the header (left) and $2 (right) do not agree:"
        echo "$unequal"
        status=1
    fi
    stray=$(nm -g --defined-only "$3" 2>/dev/null | awk 'NF == 3 {print $3}' | grep -v -E '^(attune|at)_' | sort -u ||
        true)
    if [ -n "$stray" ]; then
        echo "$3 defines names without attune_ or at_:" $stray
        status=1
    fi
    return $status
}

public_header() { # attune.h without comments: what it declares with ATTUNE_API
    awk '/^ATTUNE_API/ {on = 1} on {print} /;/ {on = 0}' "$1"
}

build_sample() { # FOLDER CODE: a header that declares attune_f and the two libraries made of the code
    mkdir -p "$1"
    echo 'ATTUNE_API int attune_f(void);' >"$1/sample.h"
    echo "$2" | cc -x c -fPIC -c -o "$1/sample.o" -
    cc -shared -o "$1/sample.so" "$1/sample.o"
    ar rc "$1/sample.a" "$1/sample.o"
}

if [ "$1" = --self-test ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    f='int attune_f(void) { return 0; }'
    hidden='__attribute__((visibility("hidden")))'
    build_sample "$folder/good" "$f $hidden int at_g = 1;"
    build_sample "$folder/stray" "$f int twice(void) { return 2; }"
    build_sample "$folder/hidden" "$hidden $f"
    build_sample "$folder/static" "$f $hidden int twice = 2;"
    build_sample "$folder/secret" "$f int attune_g(void) { return 0; }"
    check "$folder/good/sample.h" "$folder/good/sample.so" "$folder/good/sample.a"
    for bad in stray hidden static secret; do
        if check "$folder/$bad/sample.h" "$folder/$bad/sample.so" "$folder/$bad/sample.a" >/dev/null; then
            echo "the mistake \"$bad\" was not found"
            exit 1
        fi
    done
    exit 0
fi

needs_little() { # SHARED
    local more
    more=$(LC_ALL=C readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v -E '^(libc|libm|ld-linux.*)\.so\.[0-9]+$' || true)
    [ -z "$more" ] || {
        echo "$1 needs" $more
        return 1
    }
}

headers=$(mktemp -d)
trap 'rm -rf "$headers"' EXIT
public_header "$1/include/attune/attune.h" >"$headers/attune.h"
(cat "$headers/attune.h" && public_header "$1/include/attune/gate.h") >"$headers/gate.h"
check "$headers/attune.h" "$2/lib/libattune.so" "$2/lib/libattune.a"
check "$headers/gate.h" "$2/lib/libattune-gate.so" "$2/lib/libattune-gate.a"
needs_little "$2/lib/libattune.so"
# Code that is built ahead is a file of its own beside it.
if [ "$(size "$2/lib/libattune.so" | awk 'NR == 2 {print $1}')" -gt $((5 << 19)) ]; then
    echo "libattune.so has more than 2.5 MB of code and constants: is what was built ahead in it?"
    exit 1
fi
if needs_little "$2/lib/libattune-gate.so" >/dev/null; then
    echo "libattune-gate.so needs no jansson: is it still looked for?"
    exit 1
fi
