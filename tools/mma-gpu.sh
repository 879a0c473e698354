#!/usr/bin/env bash
# mma on a machine with a GPU: mma-gpu.sh DIRECTORY OUT, where DIRECTORY holds attune and libattune.so.0.2 (build/gpu,
# carried there), and OUT gets what bench/results keeps: mma.tsv, the grid beside PyTorch's flash back end,
# mma_features.tsv, what each feature costs, and mma_decode.tsv, few queries against long keys; mma_others.tsv is for
# reading. First each feature's cases: nothing is timed where one is wrong. About three minutes of an H200; LIMIT (480)
# seconds at most. Exit codes: 1 something is wrong, 4 time was short.
set -u
dir=$(cd "${1:?usage: mma-gpu.sh DIRECTORY OUT}" && pwd) out=${2:?usage: mma-gpu.sh DIRECTORY OUT} began=$SECONDS worst=0
top=$(cd "$(dirname "$0")/.." && pwd)
export ATTUNE_TARGET=${ATTUNE_TARGET:-cuda} LC_ALL=C
mkdir -p "$out"

left() { echo $((${LIMIT:-480} - SECONDS + began)); }

# shellcheck disable=SC2054 # problems have commas
features=(b4,h16,s4096,d128,bf16@causal@bias=1xh@bias=1xh:fp32@mask@causal,mask@bias=1xh,mask@alibi@sink@strict@causal,strict@softcap=30@softcap=30,causal
          b4,h32,s4096,d64,bf16@causal@bias=1xh@mask@alibi@softcap=30
          b1,h16,s16384,d128,bf16@causal@window=128:0@window=512:0@window=1024:0@window=4096:0@window=1024:1024
          b1,h24,s16384,d128,bf16@window=1024:0 b4,h16,s16384,d128,bf16@window=1024:0
          b1,h32,s16384,d64,bf16@causal@window=128:0@window=512:0@window=1024:0@window=4096:0@window=1024:1024
          b4,h32,s16384,d64,bf16@window=1024:0
          b16,h16,s4096,d128,bf16@varlen=1@causal@varlen=1,causal b16,h32,s2048,d64,bf16@varlen=1@causal@varlen=1,causal
          b16,h32,s4096,d64,bf16@varlen=1@causal@varlen=1,causal)
# shellcheck disable=SC2054 # problems have commas
cases=(b1,h8,s512,d64,fp16 b2,h4,hkv2,s300,d128,bf16,causal b2,h4,s333,d64,fp16,bias=bxh,mask
       b2,h4,sq200,skv331,d128,bf16,bias=1xh:fp32 b1,h4,s257,d256,fp16,mask,causal
       b2,h8,hkv2,s300,d72,dv40,bf16,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused,strict
       b2,h8,hkv2,sq130,skv700,d128,bf16,causal,seqused,page=16
       b2,h8,hkv2,sq70,skv700,d64,fp16,window=200:0,seqused,page=128
       b3,h8,hkv2,sq8,skv600,d128,fp16,seqused,varlen=1,page=16,vtable,draft
       b2,h8,hkv2,sq40,skv500,d128,bf16,causal,seqused,page=1
       b2,h4,s300,d128,bf16,causal,o=fp32 b2,h4,s300,d40,dv24,fp16,o=bf16
       b1,h32,hkv8,sq1,skv8192,d128,bf16 b3,h8,hkv2,sq4,skv3000,d64,fp16,causal,seqused,page=16,sink
       b2,h8,hkv2,sq12,skv1300,d72,dv40,bf16,causal,bias=bxh,mask,alibi,sink,seqused,strict)

# Two at a time: compiling one hides the other's cases.
check() {
    timeout "$(left)" "$dir/attune" check --kernel mma --cases 30 --threads 4 "$1" > "$out/check.$2" 2>&1
    local code=$?
    [ $code -eq 0 ] && tail -n 1 "$out/check.$2" && return
    echo "$1: exit code $code" && tail -n 12 "$out/check.$2"
    return 1
}
pids=()
for i in "${!cases[@]}"; do
    check "${cases[$i]}" "$i" &
    pids+=($!)
    [ $((i % 4)) -lt 3 ] || { for pid in "${pids[@]}"; do wait "$pid" || worst=1; done; pids=(); }
done
for pid in "${pids[@]}"; do wait "$pid" || worst=1; done
[ $worst -eq 0 ] || { echo "wrong: nothing is timed"; exit 1; }

[ "$(left)" -gt 60 ] || exit 4
timeout "$(left)" python3 "$top/bench/mma_features.py" --library "$dir/libattune.so.0.2" "${features[@]}" \
    > "$out/mma_features.tsv" || worst=4
cat "$out/mma_features.tsv"
[ "$(left)" -gt 30 ] && timeout "$(left)" python3 "$top/bench/decode.py" --cells even --rounds 5 \
    --arm decode="$dir/libattune.so.0.2:decode" --arm mma="$dir/libattune.so.0.2:mma" > "$out/mma_decode.tsv" || worst=4

items=()
for heads in 32 16 8; do
    for length in 512 1024 2048 4096 8192 16384; do
        for mask in '' ,causal; do
            items+=("b$((16384 / length)),h$heads,s$length,d$((2048 / heads)),fp16$mask@torch:flash+mma")
        done
    done
done
# times FILE ITEM...: arms in turns, in the time that is left.
times() {
    local file=$out/$1
    shift
    [ "$(left)" -gt 30 ] || { worst=4; return; }
    timeout "$(left)" python3 "$top/bench/hopper.py" --library "$dir/libattune.so.0.2" --seconds 0.12 "$@" > "$file" ||
        worst=4
    cat "$file"
}
times mma.tsv "${items[@]}"
times mma_others.tsv b1,h8,s512,d64,fp16@torch:flash+mma b8,h32,hkv8,sq512,skv4096,d128,bf16,causal@torch:flash+mma \
    b1,h16,s16384,d128,bf16@torch:flash+mma
exit $worst
