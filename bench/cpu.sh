#!/usr/bin/env bash
# What the CPU kernels reach: cpu.sh ATTUNE RESULTS [WHAT...] writes RESULTS/cpu*.tsv, all of them or those named. With
# QUIET, a command that keeps the machine to itself, every call of attune is run by it.
set -eu
attune=${1:?usage: cpu.sh ATTUNE RESULTS [WHAT...]}
results=${2:?usage: cpu.sh ATTUNE RESULTS [WHAT...]}
shift 2
seconds=${SECONDS_EACH:-3}

# table NAME REMARK: what follows on stdin, "OPTIONS -- PROBLEM" a line, becomes rows of RESULTS/NAME.tsv.
table() {
    local file=$results/$1.tsv options problem header=
    printf '# %s\n' "$2" > "$file"
    while read -r options; do
        problem=${options##*-- }
        # shellcheck disable=SC2086 # options are words
        ${QUIET:-} "$attune" bench --format tsv --seconds "$seconds" ${options%%-- *} "$problem" < /dev/null > "$file.part"
        [ -n "$header" ] || { head -1 "$file.part" >> "$file"; header=1; }
        tail -n +2 "$file.part" >> "$file"
    done
    rm -f "$file.part"
}

model=$("$attune" info --format tsv | awk -F '\t' '$1 == "machine" && $3 == "target" {print $4}')
remark="attune bench on $model; ratio: the first arm's time / this arm's; peak_share: of what is measured in turns"

# Every kind of problem at the widest tier, beside OpenBLAS; bf16 as storage (without the CPU's own dot products).
what_cpu() {
    local s
    {
        for s in 128 256 512 1024 2048 4096; do echo "--isa avx512 --arms auto,openblas -- b1,h8,s$s,d64,fp32"; done
        echo '--isa avx512 --arms auto,openblas -- b1,h8,s4096,d64,fp32,causal'
        for s in 512 1024 2048 4096; do echo "--isa avx512 --arms auto,openblas -- b1,h8,s$s,d128,fp32"; done
        echo '--isa avx512 --arms auto,openblas -- b1,h8,s1024,d256,fp32'
        for s in fp16 bf16; do echo "--isa avx512 --arms auto,openblas -- b1,h8,s2048,d64,$s"; done
        for s in fp16 bf16; do echo "--isa avx512 --arms auto,openblas -- b1,h8,s2048,d128,$s"; done
    } | table cpu "$remark; isa avx512"
}

what_cpu_avx2() {
    for s in b1,h8,s1024,d64,fp32 b1,h8,s2048,d64,fp32 b1,h8,s4096,d64,fp32 b1,h8,s4096,d64,fp32,causal \
        b1,h8,s1024,d128,fp32 b1,h8,s2048,d128,fp32 b1,h8,s1024,d256,fp32 b1,h8,s2048,d64,fp16; do
        echo "--isa avx2 --arms auto -- $s"
    done | table cpu_avx2 "$remark; isa avx2"
}

# Few query rows: memory is the limit, and others on the same host use it too: so five times. Order 1 is key by key.
what_cpu_decode() {
    local dtype
    for _ in 1 2 3 4 5; do
        for dtype in fp32 fp16 bf16; do
            echo "--arms cpu_decode,cpu_decode:ORDER=0,cpu_decode:ORDER=1 -- b1,h32,hkv8,sq1,skv16384,d128,$dtype"
        done
    done | table cpu_decode "$remark; five turns"
    for dtype in fp32 fp16 bf16; do
        echo "--arms cpu_decode,openblas -- b1,h32,hkv8,sq1,skv16384,d128,$dtype"
    done | table cpu_decode_blas "$remark"
}

# One thread, to be held against all.
what_cpu_threads() {
    local s threads
    for s in b1,h8,s256,d64,fp32 b1,h8,s1024,d64,fp32 b1,h8,s2048,d64,fp32 b1,h8,s2048,d128,fp32 b1,h8,s2048,d64,fp32,causal \
        b1,h8,s2048,d64,fp16 b1,h1,sq64,skv8192,d64,fp32 b1,h32,hkv8,sq1,skv16384,d128,fp32 \
        b1,h32,hkv8,sq1,skv16384,d128,fp16 b1,h32,hkv8,sq1,skv1024,d128,fp32; do
        for threads in '--threads 1' ''; do echo "--isa avx512 $threads --arms auto -- $s"; done
    done | table cpu_threads "$remark; isa avx512; of each problem on one thread, then on all"
}

# What one parameter is worth beside the kernel's own choice, where it shows most.
what_cpu_parameters() {
    local k=cpu_tiled
    {
        echo "--arms $k,$k:BLOCK_M=16,$k:BLOCK_M=32,$k:BLOCK_N=16,$k:BLOCK_N=48,$k:PANEL=1,$k:PANEL=2,$k:PACK=1 -- b1,h8,s1024,d64,fp32"
        echo "--arms $k,$k:BLOCK_M=16,$k:BLOCK_M=32 -- b1,h8,s1024,d256,fp32"
        echo "--arms $k,$k:EXP=5,$k:EXP=6 -- b1,h8,s512,d16,fp16"
        echo "--arms $k,$k:PREFETCH=1 -- b1,h8,s256,d64,fp32"
        echo "--arms $k,$k:PREFETCH=0,$k:ORDER=1 -- b1,h8,s4096,d64,fp32"
        echo "--arms $k,$k:SPLIT=0,$k:SPLIT=256,$k:SPLIT=4096 -- b1,h1,sq64,skv8192,d64,fp32"
        k=cpu_decode
        echo "--arms $k,$k:SPLIT=256,$k:BLOCK_N=16,$k:BLOCK_N=256,$k:AHEAD=4,$k:AHEAD=32,$k:ORDER=0 -- b1,h32,hkv8,sq1,skv16384,d128,fp32"
    } | sed 's/^/--isa avx512 /' | table cpu_parameters "$remark; isa avx512, one parameter changed"
}

for what in "${@:-cpu cpu_avx2 cpu_decode cpu_threads cpu_parameters}"; do
    for one in $what; do "what_$one"; done
done
