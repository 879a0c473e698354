#!/bin/bash
# The first look, on a machine that has not what it is asked for: no GPU at all, and a driver that runs nothing.
#   demo.sh TOOLS BUILD FAKE_DRIVER
set -u
tools=$(realpath "$1") build=$(realpath "$2") driver=$(realpath "$3")
failures=0
# shows WHAT: the demo, by the environment; no number that is none, no arm that cannot run
shows() {
    local what=$1
    shift
    env DEMO_BRIEF=1 "$@" "$tools/demo.sh" "$build" > "$build/demo.said" 2>&1
    code=$?
    for words in nan 'cannot run' 'command not found' 'syntax error'; do
        if grep -qw -- "$words" "$build/demo.said"; then
            echo "$what: \"$words\": $(grep -w -m 3 -- "$words" "$build/demo.said")" && failures=$((failures + 1))
        fi
    done
}
shows 'no driver' ATTUNE_TARGET=cuda ATTUNE_LIBCUDA=/nonexistent
[ $code -eq 0 ] || { echo "no driver: exit code $code: $(tail -5 "$build/demo.said")" && failures=$((failures + 1)); }
grep -q 'which is not here' "$build/demo.said" || { echo 'no driver: not said' && failures=$((failures + 1)); }
grep -q 'From here' "$build/demo.said" || { echo 'no driver: it did not end' && failures=$((failures + 1)); }
shows 'no OpenBLAS' ATTUNE_TARGET=cpu ATTUNE_OPENBLAS=/nonexistent
[ $code -eq 0 ] || { echo "no OpenBLAS: exit code $code: $(tail -5 "$build/demo.said")" && failures=$((failures + 1)); }
# Nothing that this driver launches computes: the first thing that is looked at is wrong, and the demo says so.
shows 'a driver that runs nothing' ATTUNE_TARGET=cuda ATTUNE_LIBCUDA="$driver"
[ $code -ne 0 ] || { echo 'a driver that runs nothing: exit code 0' && failures=$((failures + 1)); }
exit $((failures > 0))
