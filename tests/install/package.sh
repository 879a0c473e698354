#!/bin/bash
# package.sh SOURCE BUILD WAY LINKAGE: builds the ten-line example, in C and in C++, as a stranger would, and runs it. WAY
# is how the stranger comes by attune: "find_package" or "pkgconfig", by the installed package in BUILD/install-test/prefix,
# which "package.sh SOURCE BUILD install" fills; "add_subdirectory" or "FetchContent", by the sources. LINKAGE is "shared"
# or "static".
set -euo pipefail
source=$1 build=$2 way=$3 linkage=${4:-}
root=$build/install-test
prefix=$root/prefix
example=$source/examples/ten_lines.c
gate_example=$source/examples/gate_worker.c

if [ "$way" = install ]; then
    rm -rf "$root"
    cmake --install "$build" --prefix "$root/elsewhere" >/dev/null
    # Moved, because a package must not remember where it was installed.
    mv "$root/elsewhere" "$prefix"
    # So must the package in Python, which finds its own library.
    PYTHONPATH=$prefix/share/attune/python PYTHONDONTWRITEBYTECODE=1 python3 -c '
from attune import library
path = library.beside()
assert path and path.startswith("'"$prefix"'"), path
library.Library().problem("b1,h1,s1,d8,fp32")'
    # What is built for the package is what it has, without what only tests need.
    if [ -f "$build/build.ninja" ]; then
        needed=$(ninja -C "$build" -t inputs attune_package | grep '\.o$')
        grep -q '/attune_objects\.dir/' <<<"$needed"
        if grep -E '(test|example|bench)_[a-z_]*\.dir/' <<<"$needed"; then
            echo "make install builds these, which are not installed" >&2
            exit 1
        fi
    fi
    exit 0
fi

work=$root/$way-$linkage
rm -rf "$work"
mkdir -p "$work"

# configure WAY [VARIABLE...]
configure() {
    cmake -S "$source/tests/install/consumer" -B "$work" --no-warn-unused-cli -DWAY="$way" -DEXAMPLE="$example" \
        -DGATE_EXAMPLE="$gate_example" -DATTUNE_SOURCE="$source" "$@" >/dev/null
}

# compile_both FLAGS...: the example in C and in C++.
compile_both() {
    "${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -o "$work/ten_lines" "$example" "$@"
    "${CXX:-c++}" -std=c++17 -Wall -Wextra -Wpedantic -Werror -o "$work/ten_lines_cpp" -x c++ "$example" -x none "$@"
}

case $way in
add_subdirectory)
    shared=OFF
    [ "$linkage" = shared ] && shared=ON
    configure -DBUILD_SHARED_LIBS=$shared
    cmake --build "$work" -j "$(nproc)" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
    ;;
FetchContent) # as above but for how the sources are found: that all is there is seen without building it again
    configure -DFETCHCONTENT_FULLY_DISCONNECTED=ON
    cmake --build "$work" --target help >"$work/targets"
    grep -q ten_lines_cpp "$work/targets"
    exit 0
    ;;
find_package)
    components=$linkage
    [ "$linkage" = shared ] && components= # the default
    configure -DLINKAGE="$components" -Dattune_DIR="$(dirname "$(find "$prefix" -name attuneConfig.cmake)")"
    cmake --build "$work" >/dev/null
    ;;
pkgconfig)
    libdir=$(dirname "$(find "$prefix" -name libattune.a)")
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    version=$(sed -n 's/^#define ATTUNE_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$source/include/attune/attune.h" | paste -sd.)
    [ "$(pkg-config --modversion attune)" = "$version" ]
    if [ "$linkage" = static ]; then
        package=attune-static gate_package=attune-gate-static
    else
        package=attune gate_package=attune-gate
        export LD_LIBRARY_PATH=$libdir
    fi
    # shellcheck disable=SC2046
    compile_both $(pkg-config --cflags --libs $package)
    # shellcheck disable=SC2046
    "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -o "$work/gate_worker" "$gate_example" \
        $(pkg-config --cflags --libs $gate_package) -lm
    ;;
esac

# What it is linked to is what was asked for.
for program in ten_lines ten_lines_cpp; do
    if LC_ALL=C readelf -d "$work/$program" | grep -q 'NEEDED.*libattune'; then is=shared; else is=static; fi
    if [ "$is" != "$linkage" ]; then
        echo "$program is linked to the $is library, not the $linkage one" >&2
        exit 1
    fi
    said=$("$work/$program")
    echo "$said"
    case $said in
    *"last row of O = 255.5") ;;
    *)
        echo "expected the mean of 0 ... 511 in the last row of O" >&2
        exit 1
        ;;
    esac
done
# The worker ends, without a word, when nobody asks anything of it.
[ ! -x "$work/gate_worker" ] || "$work/gate_worker" </dev/null
