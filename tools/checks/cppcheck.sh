#!/bin/bash
# cppcheck over the host code: cppcheck.sh ROOT [BUILD] | --self-test
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)

check() { # root
    cppcheck --enable=warning,portability,performance --error-exitcode=1 --quiet --inline-suppr -j "$(nproc)" \
        --std=c11 --platform=unix64 --suppressions-list="$here/tools/checks/cppcheck.suppress" \
        -D_GNU_SOURCE -D__linux__=1 "-DATTUNE_TIER(symbol)=symbol##_baseline" -DATTUNE_TIER_baseline=1 \
        -DATTUNE_VERSION_TEXT=\"0\" -I "$1/include" -I "$1/src" \
        $(find "$1/src" "$1/kernels" -name '*.c' 2>/dev/null)
}

self_test() {
    root=$(mktemp -d) && trap 'rm -rf "$root"' EXIT
    mkdir -p "$root/src/base" "$root/kernels"
    cat >"$root/src/base/a.c" <<'END'
#include <stdlib.h>
int f(int n)
{
    char *p = malloc(4);
    if (n) {
        return 1;
    }
    free(p);
    return 0;
}
END
    check "$root" 2>/dev/null && echo "self-test: a leak was not noticed" && exit 1
    printf 'int f(void)\n{\n    return 0;\n}\n' >"$root/src/base/a.c"
    check "$root"
}

if [ "${1:-}" = --self-test ]; then self_test; else check "${1:-.}"; fi
