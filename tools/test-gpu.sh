#!/usr/bin/env bash
# The device tests. test-gpu.sh DIRECTORY [PART...], where DIRECTORY holds attune and test_gpu_* (build/gpu, carried to a
# machine with a GPU), and PART is one or more of
#
#   units      one tile, one fragment, one reduction, one barrier; launches, mistakes, threads; caches; the server
#   suite      each CUDA kernel at the origin's shape, CASES cases (100), of which 40 are exactly that shape
#   features   the general kernels on the built-in problems, which cover every feature
#   params     each parameter value of each kernel that any config of two small problems can have, 10 cases a config
#   zoo        the gate on kernels that are known to be bad, each to be rejected at the right stage for the right reason,
#              and on honest ones, which must not be called wrong (tests/gate/zoo/folders.sh says how they are written)
#   proposed   the same kernels as answers of a proposer of code, each to be refused
#   sanitizer  compute-sanitizer's memcheck, racecheck, initcheck and synccheck over each kernel
#
# Without a PART, all of them. KERNELS="wmma tiled" restricts to these, TOOLS="racecheck" the sanitizer to these tools.
# The zoo is judged by ZOO_JOBS (6) gates at a time, and who asks to be alone after all others, in the draws of ZOO_SEED
# (1); ZOO_WORDS=FOLDER keeps what they said. What fails is shown whole, with the command that repeats it; the last line
# counts, and the exit code is 1 where anything failed. SIGINT and SIGTERM end what runs; what was judged is reported, and
# of the zoo what was under way.
set -u
dir=$(cd "${1:?usage: test-gpu.sh DIRECTORY [units|suite|features|params|zoo|proposed|sanitizer]...}" && pwd) || exit 2
shift
attune=$dir/attune
export ATTUNE_TARGET=${ATTUNE_TARGET:-cuda}
passed=0 failed=0 failures=() part='' cut='' waiting=''
work=$(mktemp -d)
output=$work/output
export TMPDIR=$work # of all that is started here: what is ended twice, by a terminal and by this script, leaves its files
accounts=${ZOO_WORDS:-$work}
trap 'rm -rf "$work"' EXIT

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

# report NAME CODE SECONDS COMMAND...: how a step went whose words are in $output; a failure is shown.
report() {
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

# Replaces this shell by a command that is ended with all that it started, when its time is over or it is asked to end.
bounded() {
    exec timeout -k 5 "${STEP_SECONDS:-500}" "$@"
}

# Waits as `wait` does. Signals are heard here alone, where no report is half printed.
await() {
    local code=0
    waiting=yes
    [ -z "$cut" ] || cut_short
    wait "$@" || code=$?
    waiting=
    return $code
}

# step NAME COMMAND...: runs it quietly.
step() {
    local name=$1 begin=$SECONDS code=0
    shift
    bounded "$@" > "$output" 2>&1 &
    await $! || code=$?
    report "$name" $code $((SECONDS - begin)) "$@"
}

# What failed, and how much; the exit code.
count() {
    if [ $failed -gt 0 ]; then
        printf '\nto repeat what failed:\n'
        printf '  %s\n' "${failures[@]}"
    fi
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ]
}

# hear SIGNAL: notes it, for whoever waits next where nobody does.
hear() {
    cut=$1
    [ -z "$waiting" ] || cut_short
}

# Ends what runs, and reports what is known.
cut_short() {
    local pid pids
    trap '' INT TERM
    mapfile -t pids < <(jobs -p)
    for pid in "${pids[@]}"; do
        kill -TERM "$pid" 2> /dev/null
    done
    wait
    [ "$part" != zoo ] || report_rest
    echo "cut short by SIG$cut"
    count
    exit $((128 + $(kill -l "$cut")))
}

# What `attune info` says, as tab-separated subject, name, property, value.
facts() {
    "$attune" info --format tsv "$@"
}

cuda_kernels() {
    facts | awk -F'\t' '$1 == "kernel" && $3 == "target" && $4 == "cuda" { print $2 }'
}

# covering_configs KERNEL PROBLEM...: a config and a problem a line, the first for each parameter value that no earlier one
# has; a later problem is only asked for what earlier ones lack.
covering_configs() {
    local kernel=$1 problem
    shift
    : > "$work/seen"
    for problem in "$@"; do
        facts --all-configs --kernel "$kernel" "$problem" | awk -F'\t' -v problem="$problem" -v file="$work/seen" '
            BEGIN { while ((getline line < file) > 0) seen[line] = 1 }
            $1 == "parameter" && $3 == "values" { allowed += split($4, all, " ") }
            $1 == "config" && $3 == "fits" && $4 == "yes" {
                count = split(substr($2, index($2, ":") + 1), value, ",")
                new = 0
                for (i = 1; i <= count; i++) new += !(value[i] in seen)
                if (new) print $2, problem
                for (i = 1; i <= count; i++) seen[value[i]] = 1
            }
            END {
                close(file)
                for (each in seen) { print each > file; found++ }
                exit found >= allowed
            }' || return 0
    done
}

units() {
    for test in "$dir"/test_gpu_*; do
        [ "$test" != "$dir/test_gpu_proposed" ] || continue
        step "$(basename "$test")" "$test"
    done
    step 'examples/serve.c' "$dir/serve" cuda
}

# A problem of the kernel's operation, of the usual size.
usual_problem() {
    case $1 in
    append) echo append:b16,h8,sq4,skv512,d128,bf16,seqused,varlen=1,page=16 ;;
    merge) echo merge:b4,h8,sq64,d128,fp32,o=bf16,states=8,sink ;;
    *_fp32) echo b1,h8,s512,d64,fp32 ;;
    decode) echo b4,h32,hkv8,sq1,skv4096,d128,bf16 ;; # it takes few rows
    *) echo b1,h8,s512,d64,fp16 ;;
    esac
}

suite() {
    for kernel in $kernels; do
        step "$kernel: suite" "$attune" check --kernel "$kernel" --cases "${CASES:-100}" "$(usual_problem "$kernel")"
    done
}

features() {
    for kernel in $kernels; do
        case $kernel in
        tiled | guarded | append | merge) step "$kernel: features" "$attune" check --kernel "$kernel" ;;
        esac
    done
}

# Problems that a kernel's configs are checked on.
small_problems() {
    case $1 in
    append) echo append:b3,h8,sq5,skv60,d64,dv40,bf16,page=16,seqused append:b3,h1,sq5,skv60,d16,fp16,slots ;;
    merge) echo merge:b2,h4,sq13,d64,fp32,states=4 merge:b2,h4,sq13,d16,fp32,states=4 ;;
    *_fp32) echo b1,h4,s200,d64,fp32,causal b1,h4,s200,d128,fp32 b1,h4,s200,d64,fp32,tf32 ;;
    decode) echo b2,h8,hkv2,sq3,skv1300,d64,fp16,causal b2,h8,hkv2,sq3,skv1300,d64,fp16 ;; # it takes few rows
    *) echo b1,h4,s200,d64,fp16,causal b1,h4,s200,d64,fp16 ;;
    esac
}

params() {
    local kernel config problem problems found
    for kernel in $kernels; do
        read -ra problems <<< "$(small_problems "$kernel")"
        found=
        while read -r config problem; do
            found=yes
            step "$config" "$attune" check --kernel "$config" --cases 10 "$problem" < /dev/null
        done < <(covering_configs "$kernel" "${problems[@]}")
        [ -n "$found" ] || missing "$kernel: attune info --kernel $kernel lists no config that fits"
    done
}

# ---- The zoo -----------------------------------------------------------------------------------------------------

# Folders are judged in gates: a bad one in one of its own; honest ones of a problem in one together, for a gate times
# one kernel after the other. Gates that time at once wait for each other's turns on the device, most of a minute long.
# Who asks to be alone has a gate of its own, after all others, one at a time: a fault that shows by what an earlier
# launch left in the device's shared memory is hidden by what other processes launch in between.
declare -A gate_of                                 # by a folder
declare -A folders_of pid_of began seconds_of code_of # by the gate's name; folders in lines
folders=() gates=() reported=0 running=0

is_honest() {
    grep -qx right "$1/expect.txt"
}

is_alone() {
    grep -qx alone "$1/expect.txt"
}

problem_of() {
    local problem
    problem=$(sed -n 's/^problem //p' "$1/expect.txt")
    echo "${problem:-b1,h8,s512,d64,fp16}"
}

# How soon to begin: honest kernels go through everything, who hangs is waited for, and each stage comes after another;
# who is to be alone comes last.
turn_of() {
    local turn=0 words
    for words in '^right$' 'no answer' '^correctness:' '^sanity:' '^launch:' ''; do
        grep -q "$words" "$1/expect.txt" && break
        turn=$((turn + 1))
    done
    is_alone "$1" && turn=9
    echo $turn
}

deal_zoo() {
    local folder gate
    for folder in "$dir"/zoo/*/; do
        [ -f "$folder/expect.txt" ] || continue
        folder=${folder%/} gate=${folder##*/}
        is_honest "$folder" && ! is_alone "$folder" && gate=honest-$(problem_of "$folder")
        folders+=("$folder")
        gate_of[$folder]=$gate
        [ -n "${folders_of[$gate]:-}" ] || gates+=("$(turn_of "$folder") $gate")
        folders_of[$gate]+=$folder$'\n'
    done
    mapfile -t gates < <(printf '%s\n' "${gates[@]}" | sort -s -n -k 1,1 | cut -d ' ' -f 2-)
}

# Runs a gate until it finds its kernel right in all cases: nobody wants to know how fast a bad kernel is. A gate that
# is asked to end does so in order, and is waited for, whoever asked.
until_right() {
    local line words gate code=0 found=
    trap : TERM # until the gate has begun, which would inherit what is ignored
    exec {words}< <(exec "$@" 2>&1)
    gate=$!
    trap '' TERM
    while IFS= read -r line <&"$words"; do
        printf '%s\n' "$line"
        [[ $line =~ ^\ +correctness\ +pass ]] && found=yes && kill -TERM $gate
    done
    wait $gate || code=$?
    [ -z "$found" ] || code=1
    return $code
}
export -f until_right

# judge THREADS FOLDER...: the gate on folders of one problem, in place of this shell. Honest ones are timed quickly; a bad
# one is looked at in full, but not timed.
judge() {
    local threads=$1 arguments=(--cases 24 --against tiled --seed "${ZOO_SEED:-1}") way=("$BASH" -c 'until_right "$@"' until_right)
    shift
    [ "$threads" -eq 0 ] || arguments+=(--threads "$threads")
    is_honest "$1" && arguments+=(--quick) way=()
    bounded "${way[@]}" "$attune" gate "$@" "$(problem_of "$1")" "${arguments[@]}"
}

# Whether a folder was judged as it should be; says what was expected where it was not. FOLDER, what the gate said.
judged_well() {
    local stage words line said
    said=$(awk '$1 ~ /^(build|launch|sanity|correctness)$/ && $2 != "pass"' "$2" | head -n 1)
    while IFS= read -r line; do
        stage=${line%%: *} words=${line#*: }
        case $line in
        'problem '* | alone) ;;
        right) found_right "${1##*/}" "$2" && return 0 ;;
        *) [[ $said =~ ^\ *$stage\  && $said == *"$words"* ]] && return 0 ;;
        esac
    done < "$1/expect.txt"
    echo "${1##*/}: expected"
    cat "$1/expect.txt" "$2"
    return 1
}

# Whether the verdict on a kernel, of all that a gate gave, is that it is right.
found_right() {
    awk -v name="$1" '
        /^  [^ ].* on / { sub(/:.*/, "", $1); mine = $1 == name }
        mine && /^    right: pass/ { found = 1 }
        END { exit !found }' "$2"
}

# Gates that share the processors have their share of threads each: more would only be in each other's way. One that
# judges several folders has half of all, as it is waited for longest.
begin_gate() {
    local mine threads
    mapfile -t mine <<< "${folders_of[$1]%$'\n'}"
    threads=$((($(nproc) + most - 1) / most))
    [ ${#mine[@]} -eq 1 ] || threads=$((($(nproc) + 1) / 2))
    judge $threads "${mine[@]}" > "$accounts/$1.txt" 2>&1 &
    pid_of[$1]=$! began[$1]=$SECONDS
    running=$((running + 1))
}

# Waits for any gate to end, and reports what there is.
end_gate() {
    local gate pid code=0
    await -n -p pid || code=$?
    for gate in "${!pid_of[@]}"; do
        if [ "${pid_of[$gate]}" = "$pid" ]; then
            code_of[$gate]=$code seconds_of[$gate]=$((SECONDS - began[$gate]))
        fi
    done
    running=$((running - 1))
    report_judged
}

is_judged() {
    [ -n "${code_of[${gate_of[$1]}]:-}" ]
}

# Reports folders in their order, as far as all before them are judged.
report_judged() {
    while [ $reported -lt ${#folders[@]} ] && is_judged "${folders[reported]}"; do
        report_folder "${folders[reported]}"
        reported=$((reported + 1))
    done
}

# A bad kernel is no success of its gate's; but a gate that was ended gave no judgement. The seconds are the gate's.
report_folder() {
    local gate=${gate_of[$1]} code=0 mine
    mapfile -t mine <<< "${folders_of[$gate]%$'\n'}"
    judged_well "$1" "$accounts/$gate.txt" > "$output" || code=1
    [ "${code_of[$gate]}" -lt 124 ] || code=${code_of[$gate]}
    report "zoo: ${1##*/}" "$code" "${seconds_of[$gate]}" "$BASH" "$0" "$dir" "judge:${mine[0]}" "${mine[@]:1}"
}

# What is known of folders that were not reported when the call is cut short.
report_rest() {
    local folder gate
    for folder in "${folders[@]:reported}"; do
        gate=${gate_of[$folder]}
        if is_judged "$folder"; then
            report_folder "$folder"
        elif [ -n "${began[$gate]:-}" ]; then
            printf 'ended   %4d s  zoo: %s, which was under way\n' $((SECONDS - began[$gate])) "${folder##*/}"
        else
            printf 'not begun       zoo: %s\n' "${folder##*/}"
        fi
    done
}

# Several gates at a time: most of the time goes into compilers, and into what a driver does for a process. Those that
# are to be alone come last.
zoo() {
    local gate most=${ZOO_JOBS:-6}
    [ -d "$dir/zoo" ] || missing "there is no zoo in $dir"
    mkdir -p "$accounts"
    deal_zoo
    for gate in "${gates[@]}"; do
        is_alone "${folders_of[$gate]%%$'\n'*}" && most=1
        while [ $running -ge "$most" ]; do
            end_gate
        done
        begin_gate "$gate"
    done
    while [ $running -gt 0 ]; do
        end_gate
    done
}

# The zoo as proposals, in ZOO_JOBS parts at a time; those that are to be alone come last.
proposed() {
    local jobs=${ZOO_JOBS:-6} begin=$SECONDS part pids=() code
    for part in $(seq "$jobs"); do
        ATTUNE_ZOO_PART=$part/$jobs bounded "$dir/test_gpu_proposed" > "$work/proposed.$part" 2>&1 &
        pids+=($!)
    done
    for part in $(seq "$jobs"); do
        code=0
        await "${pids[part - 1]}" || code=$?
        mv "$work/proposed.$part" "$output"
        report "the zoo proposed, part $part" $code $((SECONDS - begin)) env ATTUNE_ZOO_PART="$part/$jobs" "$dir/test_gpu_proposed"
    done
    step 'the zoo proposed, alone' env ATTUNE_ZOO_PART=alone "$dir/test_gpu_proposed"
}

# What is typed to repeat what failed: the gate on these folders, and whether each was judged as it should be.
judge_again() {
    local folder code=0
    judge 0 "$@" > "$output" 2>&1 &
    await $!
    for folder in "$@"; do
        judged_well "$folder" "$output" || code=1
    done
    return $code
}

# What the sanitizer looks at of a kernel: its text and a problem, a line each. Of wgmma_small also the configs in which
# a warp group is a tile ahead, of wmma one with three tiles under way: small problems are planned without. Of wgmma also
# head dim 256, where O leaves through tiles.
sanitized() {
    case $1 in
    append | merge) echo "$1 $(small_problems "$1" | cut -d ' ' -f 1)" ;;
    decode) echo "$1 b2,h4,hkv2,sq3,skv300,d64,fp16,causal,seqused,page=16" ;;
    *_fp32) echo "$1 b1,h2,s100,d64,fp32" ;;
    *) echo "$1 b1,h2,s100,d64,fp16" ;;
    esac
    if [ "$1" = wgmma_small ]; then
        local ahead=BLOCK_N=64,LOOPED=0,STEPS_PV=1,MIN_BLOCKS=1,PROGRAMMATIC=1,OVERLAP=1,LAZY=8,Q_REGISTERS=1
        echo "$1:ROWS=4,SPLITS=1,CLUSTER=1,STAGES=8,$ahead b1,h2,s500,d64,fp16,causal"
        echo "$1:ROWS=2,SPLITS=2,CLUSTER=2,STAGES=4,$ahead b1,h2,s500,d64,fp16,causal"
    elif [ "$1" = wgmma ]; then
        echo "$1 b1,h2,s300,d256,fp16"
    elif [ "$1" = decode ]; then
        echo "$1 b1,h4,hkv1,sq1,skv1500,d64,fp16"
        echo "$1 b2,h4,hkv2,sq5,skv90,d64,fp16,seqused,page=4,draft"
    elif [ "$1" = tiled ]; then
        echo "$1 b2,h4,hkv2,sq5,skv90,d64,fp16,seqused,page=16,draft"
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

trap 'hear INT' INT
trap 'hear TERM' TERM
case ${1:-} in
judge:*)
    judge_again "${1#judge:}" "${@:2}"
    exit $?
    ;;
esac

kernels=${KERNELS:-$(cuda_kernels)}
if [ -z "$kernels" ] || ! facts > "$output" 2>&1; then
    cat "$output"
    echo "no CUDA kernel can be listed: $attune info --format tsv"
    exit 1
fi
[ $# -gt 0 ] || set -- units suite features params zoo proposed sanitizer
for part in "$@"; do
    case $part in
    units | suite | features | params | zoo | proposed | sanitizer)
        echo "== $part"
        $part
        ;;
    *)
        echo "there is no part $part: units, suite, features, params, zoo, proposed, sanitizer"
        exit 2
        ;;
    esac
done
count
