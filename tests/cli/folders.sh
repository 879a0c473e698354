#!/bin/bash
# A kernel as a folder, wherever a kernel is named: what `attune new` writes is right, every verb takes it however it is
# spelled, and a fault of it is said once.
#   folders.sh ATTUNE
set -u
attune=$(realpath "$1") || exit 1
in=$(mktemp -d) && cd "$in" || exit 1
trap 'rm -rf "$in"' EXIT
export ATTUNE_CACHE=$in/cache XDG_CACHE_HOME=$in/user
failures=0
fail() { echo "$1" && failures=$((failures + 1)); }
# runs CODE COMMAND...: the exit code; what was said stays in $in/said
runs() {
    local code=0 wanted=$1
    shift
    "$attune" "$@" > "$in/said" 2>&1 || code=$?
    [ $code -eq "$wanted" ] || fail "attune $*: exit code $code, expected $wanted: $(head -c 2000 "$in/said")"
}
says() { grep -q -- "$1" "$in/said" || fail "not said: $1; but: $(head -c 2000 "$in/said")"; }
says_not() { ! grep -q -- "$1" "$in/said" || fail "said: $1, in: $(head -c 2000 "$in/said")"; }
# edited FOLDER FILE SED: a copy of mine with one edit
edited() { rm -rf "$1" && cp -r mine "$1" && sed -i "$3" "$1/$2"; }
small=b1,h2,s64,d32,fp32

runs 0 new mine
says 'attune check --kernel ./mine'
runs 64 new mine
says 'mine is there already'
runs 64 new Mine
says "a kernel's name is lower-case"
[ "$(ls -A mine | tr '\n' ' ')" = '.attune compile_flags.txt mine.c mine.kernel.c ' ] || fail "mine has: $(ls -A mine)"
! grep -rq my_kernel mine || fail 'a name was not replaced'
# Editors find every header that the files include.
(cd mine && xargs -a compile_flags.txt cc -Wall -Wextra -Werror -fsyntax-only mine.c mine.kernel.c) ||
    fail 'compile_flags.txt: the descriptor does not compile by it'

# Right, and however it is spelled.
for spelled in mine ./mine mine/ mine:BLOCK_N=16 ./mine:BLOCK_N=16; do
    runs 0 check --kernel "$spelled" --cases 8 $small
    says right
done
runs 64 check --kernel mine:BLOCK_N=17 $small
says 'BLOCK_N'
runs 64 check --kernel ./nowhere $small
says 'there is no folder'
runs 0 check --kernel mine --all-configs --cases 2 $small
for n in 16 32 64 128; do says "BLOCK_N=$n"; done

# Offsets over 2^31 take address space, which a process that is locked has, too.
if [ "$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)" -gt 12000000 ]; then
    runs 0 check --kernel mine --cases 40 $small
    says_not 'offsets over'
fi

# What it supports of the built-in set is checked, the rest left out in a line.
edited narrow mine.c 's/\.features = .*,$/.features = 0,/; s/ATTUNE_DTYPES_FORWARD/ATTUNE_BIT(ATTUNE_BF16)/'
runs 0 check --kernel narrow --cases 1
says 'does not support'
says_not '^refused'

runs 0 info ./mine --format tsv
says 'BLOCK_N'
says 'scratch bytes a thread'
runs 0 info mine $small --format tsv
says "plan.*mine:BLOCK_N=64"
runs 0 evolve ./mine $small --budget 3runs --no-gate --seeds none
says "author's own first config"
runs 0 evolve mine:BLOCK_N=32 $small --budget 2runs --no-gate --seeds none
"$attune" gate mine:BLOCK_N=32 $small --quick --cases 2 --against ./mine > "$in/said" 2>&1
[ $? -le 2 ] || fail "gate --against a folder could not run: $(head -c 2000 "$in/said")"
says 'correctness'
says '\./mine'
runs 0 bench --target cpu --arms auto,./mine,openblas,mine:BLOCK_N=16 --seconds 0.1 --format tsv $small
says '^b1,h2,s64,d32,fp32.\./mine.[0-9]'
says '^b1,h2,s64,d32,fp32.mine:BLOCK_N=16.[0-9]'
says_not nan
runs 64 export --arch 90a --kernel ./mine $small -o pack
says 'cpu'

runs 64 bench --target cpu --kernel ./mine $small
says "nothing of a folder's runs in this process"

# Faults are said once, as what they are.
once() { # FOLDER WORDS
    runs "${3:-64}" check --kernel "$1" --cases 4 $small
    says "$2"
    [ "$(grep -c -- "$2" "$in/said")" -eq 1 ] || fail "said more than once: $2"
    says_not WRONG
}
edited unset mine.c 's/\.workspace = attune_term_const(0)/.threads = 0/'
once unset 'workspace: it is not set: attune_term_const(0)'
edited grid mine.c 's/attune_term_size(ATTUNE_SIZE_HEADS_Q)/{{0}, {0}}/'
once grid 'grid\[1\]: it is not set'
edited broken mine.kernel.c '1i neither C nor C++'
once broken 'does not compile' 3
edited prints mine.kernel.c 's/^#include <math.h>/#include <math.h>\n#include <stdio.h>/; s/^    const int tile = .*/&\n    (void)printf("%d", tile);/'
once prints "it uses 'printf'" 3

cp -r mine pipe && rm pipe/mine.kernel.c && mkfifo pipe/mine.kernel.c
once pipe 'pipe/mine.kernel.c is no regular file'

# For CUDA: compiled and looked at without a device, where the compiler is.
runs 0 new yours --target cuda
says '--arch 80,90a'
for verb in 'gate ./yours' 'check --kernel yours'; do
    # shellcheck disable=SC2086
    ATTUNE_LIBCUDA=/nonexistent runs 3 $verb
    says 'info KERNEL --arch 80,90a'
done
if "$attune" export b1,h8,s512,d64,fp16 --kernel tiled --arch 90a -o pack > /dev/null 2>&1; then
    runs 0 info yours --arch sm_80,sm_90a --format tsv
    says '^sm_80.yours:BLOCK_N=32.registers.[1-9]'
    says '^sm_90a.yours:BLOCK_N=64.spill bytes.0$'
    says '^sm_90a.yours:BLOCK_N=32.shared memory bytes.16384$'
    says '^sm_80.yours:BLOCK_N=16.warnings.0$'
    runs 0 info ./yours:BLOCK_N=16 b1,h2,s64,d32,fp32,causal,window=9:0 --arch 90 --format tsv
    runs 0 export --kernel ./yours --arch 80 b1,h8,s512,d64,fp16 -o pack
    says 'yours:BLOCK_N=64'
    runs 0 export --kernel ./yours:BLOCK_N=32 --arch 80 b1,h8,s512,d64,fp16 -o pack
    says 'yours:BLOCK_N=32'
    says_not 'yours:BLOCK_N=64' # nobody asked for it
    sed -i 's/__syncthreads();/__syncthreads()/' yours/yours.cu
    runs 3 info yours --arch 80
    says 'does not compile for sm_80'
    [ "$(grep -c 'does not compile' "$in/said")" -eq 1 ] || fail 'a source that does not compile is said more than once'
fi
exit $((failures > 0))
