#!/bin/bash
# Builds a source tree with clang, the sanitizers and the fuzzers: sanitized-build.sh SOURCE BUILD
set -euo pipefail
cc=$(command -v clang-14 || command -v clang)
cmake -G Ninja -S "$1" -B "$2" -DCMAKE_C_COMPILER="$cc" -DATTUNE_SANITIZE=address,undefined -DATTUNE_FUZZ=ON \
    -DATTUNE_CHECKS=OFF -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O2 -gline-tables-only -DNDEBUG" # traces need no more
cmake --build "$2"
