#!/usr/bin/env bash
# The device tests. test-gpu.sh DIRECTORY [PART...], where DIRECTORY holds attune and test_gpu_* (build/gpu, carried to a
# machine with a GPU), and PART is one or more of
#
#   units      one tile, one fragment, one reduction, one barrier; launches, mistakes, threads
#   suite      each CUDA kernel at the origin's shape, CASES cases (100), of which 40 are exactly that shape
#   features   the general kernels on the built-in problems, which cover every feature
#   params     each parameter value of each kernel that any config of a small problem can have, 10 cases a config
#   zoo        the gate on kernels that are known to be bad, each to be rejected at the right stage for the right reason,
#              and on honest ones, which must not be called wrong (tests/gate/zoo_folders.h says how they are written)
#   sanitizer  compute-sanitizer's memcheck, racecheck, initcheck and synccheck over each kernel
#
# Without a PART, all of them. KERNELS="wmma tiled" restricts to these, TOOLS="racecheck" the sanitizer to these tools.
# What fails is shown whole, with the command that repeats it; the last line counts, and the exit code is 1 where anything
# failed.
set -u
dir=$(cd "${1:?usage: test-gpu.sh DIRECTORY [units|suite|features|params|zoo|sanitizer]...}" && pwd) || exit 2
shift
attune=$dir/attune
export ATTUNE_TARGET=${ATTUNE_TARGET:-cuda}
passed=0 failed=0 failures=()
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# A command as a person would type it.
typed() {
    local word text=
    for word in "$@"; do
        [[ $word =~ ^[A-Za-z0-9_,:=./+-]+$ ]] || word=$(printf '%q' "$word")
        text+="$word "
    done
    printf '%s' "${text% }"
}

# missing WHAT: a failure without a command.
missing() {
    failed=$((failed + 1))
    failures+=("# $1")
    printf 'FAILED          %s\n' "$1"
}

# tell NAME CODE SECONDS COMMAND...: how a step went whose words are in $output; a failure is shown.
tell() {
    local name=$1 code=$2 seconds=$3
    shift 3
    if [ "$code" -eq 0 ]; then
        passed=$((passed + 1))
        printf 'passed  %4d s  %s\n' "$seconds" "$name"
    else
        failed=$((failed + 1))
        failures+=("ATTUNE_TARGET=$ATTUNE_TARGET $(typed "$@")")
        printf 'FAILED  %4d s  %s (exit code %d)\n' "$seconds" "$name" "$code"
        tail -n 60 "$output" | sed 's/^/    /'
        printf '    repeat with: %s\n' "${failures[-1]}"
    fi
}

# step NAME COMMAND...: runs it quietly.
step() {
    local name=$1 begin=$SECONDS code=0
    shift
    timeout "${STEP_SECONDS:-500}" "$@" > "$output" 2>&1 || code=$?
    tell "$name" $code $((SECONDS - begin)) "$@"
}

# What `attune info` says, as tab-separated subject, name, property, value.
facts() {
    "$attune" info --format tsv "$@"
}

cuda_kernels() {
    facts | awk -F'\t' '$1 == "kernel" && $3 == "target" && $4 == "cuda" { print $2 }'
}

# Configs of a kernel that run the problem: the first for each parameter value that no earlier one has.
covering_configs() {
    facts --kernel "$1" "$2" | awk -F'\t' '
        $1 == "config" && $3 == "fits" && $4 == "yes" {
            count = split(substr($2, index($2, ":") + 1), value, ",")
            new = 0
            for (i = 1; i <= count; i++) new += !(value[i] in seen)
            if (new) print $2
            for (i = 1; i <= count; i++) seen[value[i]] = 1
        }'
}

units() {
    for test in "$dir"/test_gpu_*; do
        step "$(basename "$test")" "$test"
    done
}

suite() {
    for kernel in $kernels; do
        step "$kernel: suite" "$attune" check --kernel "$kernel" --cases "${CASES:-100}" b1,h8,s512,d64,fp16
    done
}

features() {
    for kernel in $kernels; do
        case $kernel in
        tiled | guarded) step "$kernel: features" "$attune" check --kernel "$kernel" ;;
        esac
    done
}

params() {
    local problem=b1,h4,s200,d64,fp16,causal
    for kernel in $kernels; do
        local configs
        configs=$(covering_configs "$kernel" $problem)
        if [ -z "$configs" ]; then
            missing "$kernel: attune info --kernel $kernel $problem lists no config that fits"
        fi
        for config in $configs; do
            step "$config" "$attune" check --kernel "$config" --cases 10 $problem
        done
    done
}

# Whether a zoo's folder was judged as it should be; says what was expected where it was not. FOLDER, what the gate said.
judged_well() {
    local stage words line said
    said=$(awk '$1 ~ /^(build|launch|sanity|correctness)$/ && $2 != "pass"' "$2" | head -n 1)
    while IFS= read -r line; do
        stage=${line%%: *} words=${line#*: }
        case $line in
        'problem '*) ;;
        right) grep -q 'right: pass' "$2" && return 0 ;;
        *) [[ $said =~ ^\ *$stage\  && $said == *"$words"* ]] && return 0 ;;
        esac
    done < "$1/expect.txt"
    echo "$(basename "$1"): expected"
    cat "$1/expect.txt" "$2"
    return 1
}

# Judges one folder of the zoo, in a fresh gate: in full, but for honest ones, which would be timed in full too.
judge_one() {
    local problem said code quick=
    problem=$(sed -n 's/^problem //p' "$1/expect.txt")
    grep -qx right "$1/expect.txt" && quick=--quick
    said=$(mktemp)
    "$attune" gate "$1" "${problem:-b1,h8,s512,d64,fp16}" ${quick:+"$quick"} --cases 24 --against tiled > "$said" 2>&1
    judged_well "$1" "$said"
    code=$?
    rm -f "$said"
    return $code
}

# As judge_one, with what it said, its exit code and its seconds in files NAME.said and NAME.end of a folder.
judge_into() {
    local name begin=$SECONDS code=0
    name=$2/$(basename "$1")
    timeout "${STEP_SECONDS:-500}" "$BASH" "$0" "$dir" "judge:$1" > "$name.said" 2>&1 || code=$?
    echo "$code $((SECONDS - begin))" > "$name.end"
}

# Several at a time, each with processes of its own: most of the time goes into compilers. None is judged by its speed.
zoo() {
    local folder name code seconds work
    [ -d "$dir/zoo" ] || missing "there is no zoo in $dir"
    work=$(mktemp -d)
    for folder in "$dir"/zoo/*/; do
        while [ "$(jobs -rp | wc -l)" -ge "${ZOO_JOBS:-6}" ]; do
            wait -n
        done
        judge_into "${folder%/}" "$work" &
    done
    wait
    for folder in "$dir"/zoo/*/; do
        name=$(basename "$folder")
        read -r code seconds < "$work/$name.end"
        cp "$work/$name.said" "$output"
        tell "zoo: $name" "$code" "$seconds" "$BASH" "$0" "$dir" "judge:${folder%/}"
    done
    rm -rf "$work"
}

# What the sanitizer looks at of a kernel: its text and a problem, a line each. Of wgmma_small also the configs in which
# a warp group is a tile ahead, of wmma one with three tiles under way: small problems are planned without.
sanitized() {
    echo "$1 b1,h2,s100,d64,fp16"
    if [ "$1" = wgmma_small ]; then
        local ahead=BLOCK_N=64,LOOPED=0,STEPS_PV=1,MIN_BLOCKS=1,PROGRAMMATIC=1,OVERLAP=1,LAZY=8,Q_REGISTERS=1
        echo "$1:ROWS=4,SPLITS=1,CLUSTER=1,STAGES=8,$ahead b1,h2,s500,d64,fp16,causal"
        echo "$1:ROWS=2,SPLITS=2,CLUSTER=2,STAGES=4,$ahead b1,h2,s500,d64,fp16,causal"
    elif [ "$1" = wmma ]; then
        echo "$1:WARPS=1,BLOCK_N=32,FRAGMENT_M=16,TENSOR_CORES=1,SPLITS=2,STAGES=3,LAZY=8 b1,h2,s300,d64,fp16,causal"
    fi
}

# NOTE: synccheck has room for as many barriers in shared memory as the compiler counts instructions that set some up,
# of which wgmma_small has one for many (docs/hopper_small.md): room is given for more than any kernel has.
sanitizer() {
    local tool sanitizer room subject problem
    sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer)
    if [ -z "$sanitizer" ]; then
        missing "compute-sanitizer is not here, in PATH or in /usr/local/cuda/bin"
        return
    fi
    for kernel in $kernels; do
        while read -r subject problem; do
            for tool in ${TOOLS:-memcheck racecheck initcheck synccheck}; do
                room=()
                [ "$tool" = synccheck ] && room=(--num-cuda-barriers 128)
                step "$subject: $tool" "$sanitizer" --tool "$tool" "${room[@]}" --error-exitcode 1 --print-limit 5 \
                    "$attune" check --kernel "$subject" --cases 3 "$problem" < /dev/null
            done
        done < <(sanitized "$kernel")
    done
}

# What zoo calls this script for.
case ${1:-} in
judge:*)
    judge_one "${1#judge:}"
    exit $?
    ;;
esac

kernels=${KERNELS:-$(cuda_kernels)}
if [ -z "$kernels" ] || ! facts > "$output" 2>&1; then
    cat "$output"
    echo "no CUDA kernel can be listed: $attune info --format tsv"
    exit 1
fi
[ $# -gt 0 ] || set -- units suite features params zoo sanitizer
for part in "$@"; do
    case $part in
    units | suite | features | params | zoo | sanitizer)
        echo "== $part"
        $part
        ;;
    *)
        echo "there is no part $part: units, suite, features, params, zoo, sanitizer"
        exit 2
        ;;
    esac
done
if [ $failed -gt 0 ]; then
    printf '\nto repeat what failed:\n'
    printf '  %s\n' "${failures[@]}"
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
