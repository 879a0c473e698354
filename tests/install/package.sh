#!/bin/bash
# package.sh SOURCE BUILD WAY LINKAGE: builds the ten-line example against the installed package as a stranger would,
# and runs it. WAY is "cmake" or "pkgconfig", LINKAGE "shared" or "static". The package is in BUILD/install-test/prefix,
# which "package.sh SOURCE BUILD install" fills.
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
    exit 0
fi

work=$root/$way-$linkage
rm -rf "$work"
mkdir -p "$work"
config=$(find "$prefix" -name attuneConfig.cmake)
libdir=$(dirname "$(find "$prefix" -name libattune.a)")

case $way in
cmake)
    components=$linkage
    [ "$linkage" = shared ] && components= # the default
    cmake -S "$source/tests/install/consumer" -B "$work" -DEXAMPLE="$example" -DGATE_EXAMPLE="$gate_example" -DLINKAGE="$components" \
        -Dattune_DIR="$(dirname "$config")" >/dev/null
    cmake --build "$work" >/dev/null
    ;;
pkgconfig)
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    version=$(sed -n 's/^#define ATTUNE_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$source/include/attune/attune.h" | paste -sd.)
    [ "$(pkg-config --modversion attune)" = "$version" ]
    if [ "$linkage" = static ]; then
        flags=$(pkg-config --static --cflags --libs attune)
        flags=${flags/-lattune/-l:libattune.a}
        gate_flags=$(pkg-config --static --cflags --libs attune-gate)
        gate_flags=${gate_flags/-lattune-gate/-l:libattune-gate.a}
        gate_flags=${gate_flags/-lattune /-l:libattune.a }
    else
        flags=$(pkg-config --cflags --libs attune)
        gate_flags=$(pkg-config --cflags --libs attune-gate)
        export LD_LIBRARY_PATH=$libdir
    fi
    # shellcheck disable=SC2086
    "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -o "$work/ten_lines" "$example" $flags
    # shellcheck disable=SC2086
    "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -o "$work/gate_worker" "$gate_example" $gate_flags -lm
    ;;
esac

# What it is linked to is what was asked for.
if LC_ALL=C readelf -d "$work/ten_lines" | grep -q 'NEEDED.*libattune'; then is=shared; else is=static; fi
if [ "$is" != "$linkage" ]; then
    echo "ten_lines is linked to the $is library, not the $linkage one" >&2
    exit 1
fi
# The worker ends, without a word, when nobody asks anything of it.
"$work/gate_worker" </dev/null
said=$("$work/ten_lines")
echo "$said"
case $said in
*"last row of O = 255.5") ;;
*)
    echo "expected the mean of 0 ... 511 in the last row of O" >&2
    exit 1
    ;;
esac
