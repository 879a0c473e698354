#!/bin/bash
# Sees to what building (and testing) needs: looks first, and calls apt only for what is missing.
#
#   tools/install-deps.sh build [test]
#
# Where nvcc is, CUTLASS's headers are fetched from PyPI too, into build/deps: what brings the kernel `cutlass`.
#
# As root, or where sudo works without a password, missing Debian packages are installed. Elsewhere the command that
# installs them is printed: missing needs end with status 1, missing extras are only printed.
set -euo pipefail

# probe | package: what must answer, and what provides it on Debian and Ubuntu.
needs_build='
cc                     gcc
file:stddef-compile    libc6-dev
cmake                  cmake
ninja                  ninja-build
pkg-config             pkg-config
pc:jansson             libjansson-dev
pc:zlib                zlib1g-dev
pc:cmocka              libcmocka-dev'
extras_build='
pc:openblas            libopenblas-dev
pc:libseccomp          libseccomp-dev
gnuplot                gnuplot-nox'
needs_test='
clang                  clang
file:clang-fuzzer      libclang-rt-14-dev
clang-format-14        clang-format-14
clang-tidy-14          clang-tidy-14
cppcheck               cppcheck
python3                python3
c++                    g++
git                    git'

present() {
    case $1 in
    pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
    file:stddef-compile) echo '#include <stdio.h>' | cc -E -o /dev/null - 2>/dev/null ;;
    file:clang-fuzzer) [ -e "$(clang -print-file-name="libclang_rt.fuzzer-$(uname -m).a" 2>/dev/null)" ] ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

# Packages of a list that do not answer, in one line.
missing() {
    local probe package
    while read -r probe package; do
        [ -z "$probe" ] || present "$probe" || printf '%s ' "$package"
    done <<<"$1"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_install() {
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

# Installs packages; refreshes the package lists only when the first attempt fails for want of them.
install() {
    local get=(env DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends install)
    echo "installing: $*"
    as_root "${get[@]}" "$@" >/dev/null 2>&1 || { as_root apt-get -q update >/dev/null && as_root "${get[@]}" "$@"; }
}

needs='' extras=''
for group in "$@"; do
    case $group in
    build) needs+=$needs_build extras+=$extras_build ;;
    test) needs+=$needs_test ;;
    *) echo "install-deps.sh: unknown group '$group'; there are build and test" >&2 && exit 2 ;;
    esac
done

# fetch FOLDER WHAT-IS-LEFT-OUT WHEEL...: from PyPI; nothing is installed but files in our own folder.
fetch() {
    local to=${BUILD:-build}/deps/$1 without=$2
    shift 2
    [ ! -e "$to" ] && python3 -m pip --version >/dev/null 2>&1 || return 0
    echo "fetching $*"
    timeout 120 python3 -m pip install -q --disable-pip-version-check --retries 1 --timeout 10 --no-deps --target "$to" \
        "$@" >/dev/null 2>&1 || { rm -rf "$to" && echo "going on without: $without"; }
}

with_cuda() { command -v "$1" || [ -x "/usr/local/cuda/bin/$1" ]; } >/dev/null

fetch_cutlass() {
    [ -z "${ATTUNE_CUTLASS_INCLUDE:-}" ] && with_cuda nvcc || return 0
    fetch cutlass "the headers of CUTLASS (the kernel cutlass is left out)" nvidia-cutlass==4.2.0.0
}

# Reads the machine code of images.
fetch_disassembler() {
    with_cuda cuobjdump || fetch disassembler "cuobjdump (the check of images' registers is left out)" \
        nvidia-cuda-cuobjdump==13.2.51 nvidia-cuda-nvdisasm==13.2.51
}

# What the tests of the Python package need beside Python, and what that needs in turn.
fetch_python() {
    local older=(exceptiongroup tomli typing_extensions)
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' && older=()
    python3 -c 'import numpy, ml_dtypes, pytest' 2>/dev/null ||
        fetch python "NumPy and pytest (the tests of the Python package fail)" numpy ml_dtypes pytest iniconfig packaging \
            pluggy pygments "${older[@]}"
}

case " $* " in *' build '*) fetch_cutlass ;; esac
case " $* " in *' test '*) fetch_disassembler && fetch_python ;; esac

read -ra need <<<"$(missing "$needs")"
read -ra extra <<<"$(missing "$extras")"
[ ${#need[@]} -gt 0 ] || [ ${#extra[@]} -gt 0 ] || exit 0

if may_install; then
    [ ${#need[@]} -eq 0 ] || install "${need[@]}"
    [ ${#extra[@]} -eq 0 ] || install "${extra[@]}" || echo "going on without: ${extra[*]}"
else
    [ ${#extra[@]} -eq 0 ] || echo "optional, not here: ${extra[*]}"
    [ ${#need[@]} -eq 0 ] && exit 0
    echo "attune needs packages that are not here, and may not install them itself. Run:" >&2
    echo "    sudo apt-get install --no-install-recommends ${need[*]} ${extra[*]}" >&2
    exit 1
fi

read -ra need <<<"$(missing "$needs")"
[ ${#need[@]} -eq 0 ] || { echo "still missing after installing: ${need[*]}" >&2 && exit 1; }
