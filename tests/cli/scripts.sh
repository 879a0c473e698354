#!/bin/bash
# What tools/gate.sh and tools/evolve.sh make of attune's answers: exit codes, against an attune that only says what it
# was asked to.
#   scripts.sh TOOLS
set -u
tools=$(cd "$1" && pwd) || exit 1
in=$(mktemp -d)
trap 'rm -rf "$in"' EXIT
export XDG_CACHE_HOME=$in/cache KERNELS=wgmma PROBLEMS=b1,h8,s512,d64,fp16
failures=0
cat > "$in/attune" <<'END'
#!/bin/bash
case $1 in
gate | evolve) echo "$SAYS" && exit "$CODE" ;;
report)
    printf 'device\tproblem\tkernel\tconfig\tpeer\tmode\tratio\tlo\thi\tcandidate_us\tpeer_us\ttflops\tright\n'
    [ -z "$WRONG" ] || printf 'gpu\tb1,h8,s512,d64,fp16\t%s\tA=1\t\t\tnan\tnan\tnan\tnan\tnan\tnan\tfail\n' "$WRONG"
    ;;
esac
END
chmod +x "$in/attune"

# expect CODE SCRIPT WHAT: the script's exit code, attune's being $CODE, what it prints $SAYS, who is not right $WRONG.
expect() {
    local code=0
    "$tools/$2" "$in" "$in/evidence" "$in/wisdom" > /dev/null 2>&1 || code=$?
    [ $code -eq "$1" ] || { echo "$2: $3: exit code $code, expected $1" && failures=$((failures + 1)); }
}

export CODE SAYS WRONG
CODE=0 SAYS='1 pass, 0 fail' WRONG=other
expect 0 evolve.sh 'all is well'
CODE=1 SAYS='0 pass, 1 fail'
expect 0 evolve.sh 'slower than a peer, while the evidence of another kernel says that it is not right'
WRONG=wgmma
expect 1 evolve.sh 'not right'
expect 1 gate.sh 'not right'
CODE=4 WRONG=
expect 4 evolve.sh 'something is left'
expect 4 gate.sh 'something is left'
[ "$(cut -f 1,2,4 "$in/ledgers/calls.tsv" | tail -n 1)" = $'wgmma\t1\t4' ] || {
    echo "evolve.sh: the last call is recorded as: $(tail -n 1 "$in/ledgers/calls.tsv")" && failures=$((failures + 1))
}
CODE=0
expect 0 gate.sh 'all is well'
CODE=1
expect 0 gate.sh 'slower than a peer'
WRONG=other
expect 0 gate.sh 'slower than a peer, while the evidence of another kernel says that it is not right'
CODE=2 WRONG=
expect 0 gate.sh 'inconclusive'
CODE=130
expect 130 gate.sh 'interrupted'
exit $((failures > 0))
