#!/bin/bash
# How tools/test-gpu.sh judges a zoo: against an attune whose gate says of each folder what is in it, and ends when it
# reads where it is to wait: before it says anything of a folder, or after, as one that times.
#   zoo.sh TOOLS
set -u
script=$(cd "$1" && pwd)/test-gpu.sh || exit 1
in=$(mktemp -d)
trap 'rm -rf "$in"' EXIT
export TMPDIR=$in/tmp ZOO_JOBS=2 ZOO_WORDS=$in/words
mkdir -p "$in/tmp" "$in/zoo"
failures=0
cat > "$in/attune" <<'END_OF_ATTUNE'
#!/bin/bash
[ "$1" = gate ] || { printf 'kernel\twgmma\ttarget\tcuda\n' && exit 0; }
echo "$*" >> "${0%/*}/calls"
halt() {
    [ ! -p "$1" ] || { echo $$ > "${1%/*}/process" && read -r _ < "$1"; }
}
mktemp > /dev/null
for folder in "${@:2}"; do
    [ -d "$folder" ] || break
    echo "  $folder"
    halt "$folder/wait"
    cat "$folder/says"
    halt "$folder/times"
done
echo "end $2" >> "${0%/*}/calls"
exit 1
END_OF_ATTUNE
chmod +x "$in/attune"

# animal NAME EXPECTED SAID: a folder of the zoo, and what the gate says of it.
animal() {
    mkdir -p "$in/zoo/$1"
    printf '%b\n' "$2" > "$in/zoo/$1/expect.txt"
    printf '%b\n' "$3" > "$in/zoo/$1/says"
}

wrong() {
    echo "$1" && failures=$((failures + 1))
    cat "$in/report"
}

# expect CODE LINES WHAT: judges the zoo; its exit code, and what its lines are without their seconds.
expect() {
    local code=0 lines
    rm -f "$in/calls"
    "$script" "$in" zoo > "$in/report" 2>&1 || code=$?
    lines=$(grep -E '^(passed|FAILED)|, [0-9]+ failed$' "$in/report" | sed 's/  *[0-9]* s  / /')
    [ $code -eq "$1" ] || wrong "$3: exit code $code, expected $1"
    [ "$lines" = "$2" ] || wrong "$3: expected these lines:"$'\n'"$2"$'\n'"but:"
    [ -z "$(ls "$in/tmp")" ] || wrong "$3: left in its temporary folder: $(ls "$in/tmp")"
}

# Waits until a command succeeds, which it does unless the script is broken: then the test's own limit ends it.
until_so() {
    until "$@" 2> /dev/null; do
        sleep 0.02
    done
}

right='    correctness  pass  0.2 s\n  NAME:A=1 on b1,h8,s512,d64,fp16\n    speed        inconclusive\n    right: pass   faster: fail'
animal bad 'sanity: other bits\nsanity: was not written' '    build        pass  0.2 s\n    sanity       fail  O was not written'
animal masked 'problem b2,causal\ncorrectness: rule 1' '    sanity       pass  0.2 s\n    correctness  fail  3 cases: rule 1'
animal honest_a right "${right/NAME/honest_a}"
animal honest_b right "${right/NAME/honest_b}"
all_well='passed zoo: bad
passed zoo: honest_a
passed zoo: honest_b
passed zoo: masked
4 passed, 0 failed'
expect 0 "$all_well" 'all are judged well'
grep -q "gate $in/zoo/honest_a $in/zoo/honest_b b1,h8,s512,d64,fp16 .*--quick" "$in/calls" ||
    wrong 'honest kernels are not judged together:'
grep -q "gate $in/zoo/masked b2,causal" "$in/calls" || wrong 'a folder is not judged on the problem that it names:'
grep -q 'O was not written' "$in/words/bad.txt" || wrong 'what the gate said is not kept:'

# Of several that are judged together, the one that is called wrong fails, and none that the verdict is not about.
animal honest_b right '\n  honest_b on b1,h8,s512,d64,fp16\n    right: fail   faster: not run'
expect 1 'passed zoo: bad
passed zoo: honest_a
FAILED zoo: honest_b (exit code 1)
passed zoo: masked
3 passed, 1 failed' 'an honest kernel is called wrong'
eval "$(grep -A 1 '^to repeat' "$in/report" | tail -n 1)" > "$in/repeated" && wrong 'what failed does not fail again:'
grep -q 'honest_b: expected' "$in/repeated" || wrong 'what failed does not say so again:'
animal honest_b right "${right/NAME/honest_b}"

# The right words, but of another stage.
animal bad 'sanity: was not written' '    launch       fail  O was not written'
expect 1 "$(sed -e 's/passed zoo: bad/FAILED zoo: bad (exit code 1)/' -e 's/4 passed, 0/3 passed, 1/' <<< "$all_well")" \
    'rejected at another stage'
animal bad 'sanity: was not written' '    sanity       fail  O was not written'

# A bad kernel that is found right is not timed: its gate, which would not end, is ended.
animal found_right 'sanity: other bits' '    sanity       pass  0.2 s\n    correctness  pass  0.2 s'
mkfifo "$in/zoo/found_right/times"
expect 1 'passed zoo: bad
FAILED zoo: found_right (exit code 1)
passed zoo: honest_a
passed zoo: honest_b
passed zoo: masked
4 passed, 1 failed' 'a bad kernel is found right'
rm -r "$in/zoo/found_right"

# An honest one is timed; meanwhile nobody is begun who is to be alone, and of those one after the other, reported in turn.
animal a_alone 'correctness: rule 1\nalone' '    correctness  fail  3 cases: rule 1'
animal b_alone 'alone\ncorrectness: rule 1' '    correctness  fail  3 cases: rule 1'
mkfifo "$in/zoo/honest_b/times"
rm -f "$in/calls"
"$script" "$in" zoo > "$in/report" 2>&1 &
script_pid=$!
until_so [ -s "$in/zoo/honest_b/process" ]
until_so grep -q "^end $in/zoo/bad" "$in/calls"
until_so grep -q "^end $in/zoo/masked" "$in/calls"
grep -q '_alone' "$in/calls" && wrong 'begun beside others:'
echo go > "$in/zoo/honest_b/times"
wait $script_pid || wrong 'those who are alone are not judged well:'
[ "$(tail -n 4 "$in/calls" | sed "s|$in/zoo/||; s/ b1,.*//")" = $'gate a_alone\nend a_alone\ngate b_alone\nend b_alone' ] ||
    wrong "not alone: $(cat "$in/calls")"
[ "$(sed -n 's/^passed .*zoo: //p' "$in/report" | xargs)" = 'a_alone b_alone bad honest_a honest_b masked' ] ||
    wrong 'not reported in the order of folders:'
rm -r "$in/zoo"/*_alone "$in/zoo/honest_b/times" "$in/zoo/honest_b/process"

# A gate that does not end gives no judgement, whatever it said before. No other has to be quick for that.
mkdir "$in/aside"
mv "$in/zoo"/{bad,honest_a,honest_b} "$in/aside"
mkfifo "$in/zoo/masked/times"
STEP_SECONDS=1 expect 1 'FAILED zoo: masked (exit code 124)
0 passed, 1 failed' 'a gate that does not end'
mv "$in/aside"/* "$in/zoo"
rm -f "$in/zoo/masked"/{times,process}
mkfifo "$in/zoo/masked/wait"

# What is judged is reported while others are under way, in the folders' order.
"$script" "$in" zoo > "$in/report" 2>&1 &
script_pid=$!
until_so grep -q 'zoo: honest_b' "$in/report"
grep -q 'zoo: masked' "$in/report" && wrong 'reports what is under way:'
until_so [ -s "$in/zoo/masked/process" ]
echo go > "$in/zoo/masked/wait"
wait $script_pid || wrong 'one that waited is not judged well:'
grep -q 'zoo: masked' "$in/report" || wrong 'one that waited is not reported:'

# A signal ends what is under way, and leaves neither processes nor files; what was judged is reported, whatever its turn.
mkfifo "$in/zoo/bad/wait"
animal zebra 'sanity: was not written' '    sanity       fail  O was not written'
for signal in TERM:143 INT:130; do
    rm -rf "$in/zoo"/*/process "$in/words"
    # A shell starts what it does not wait for without ears for SIGINT.
    env --default-signal=INT "$script" "$in" zoo > "$in/report" 2>&1 &
    script_pid=$!
    until_so [ -s "$in/zoo/bad/process" ]
    until_so [ -s "$in/zoo/masked/process" ]
    kill -"${signal%:*}" $script_pid
    code=0
    wait $script_pid || code=$?
    [ $code -eq "${signal#*:}" ] || wrong "exit code $code after SIG${signal%:*}:"
    for folder in bad masked; do
        grep -q "^ended .*zoo: $folder, which was under way" "$in/report" || wrong "not reported: $folder, which was ended:"
        kill -0 "$(cat "$in/zoo/$folder/process")" 2> /dev/null && wrong "the gate of $folder still runs:"
    done
    grep -q '^passed .*zoo: honest_a' "$in/report" || wrong 'does not report what was judged:'
    grep -q '^not begun .*zoo: zebra' "$in/report" || wrong 'does not report what was not begun:'
    [ "$(tail -n 1 "$in/report")" = '2 passed, 0 failed' ] || wrong 'not counted:'
    [ -z "$(ls "$in/tmp")" ] || wrong "left after a signal: $(ls "$in/tmp")"
done
exit $((failures > 0))
