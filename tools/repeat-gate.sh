#!/usr/bin/env bash
# Does the gate say the same again? repeat-gate.sh DIRECTORY RESULTS, where DIRECTORY holds attune: TIMES (10) gates in
# full of KERNEL on PROBLEM against AGAINST, each with a seed of its own, none of them knowing of the others. A row of
# each goes into the file RESULTS, what the gate said of it into RESULTS.SEED.txt; rows that are there already are not
# made again, so that a call that ends after LIMIT seconds is continued by giving it again.
#
# At the end: the verdicts, and how far ratios are from their mean. The exit code is 0 where all verdicts are the same
# and no warm ratio is further from the mean than 1.5 %, 1 where not, 2 where repeats are left, 3 where one could not run.
set -u
dir=$(cd "${1:?usage: repeat-gate.sh DIRECTORY RESULTS}" && pwd) || exit 64
results=${2:?usage: repeat-gate.sh DIRECTORY RESULTS}
kernel=${KERNEL:-wgmma_small} problem=${PROBLEM:-b1,h8,s512,d64,fp16} against=${AGAINST:-cudnn}
times=${TIMES:-10} limit=${LIMIT:-540} longest=0
export ATTUNE_TARGET=${ATTUNE_TARGET:-cuda}
columns=$'seed\tkernel\tproblem\tpeer\tmode\tratio\tlo\thi\tright\tfaster\tseconds'

[ -s "$results" ] || echo "$columns" > "$results"
for ((seed = 1; seed <= times; seed++)); do
    grep -q "^$seed"$'\t' "$results" && continue
    if ((SECONDS + longest > limit)); then
        echo "repeats from $seed on are left: give the same command again"
        exit 2
    fi
    began=$SECONDS
    said=$("$dir/attune" gate "$kernel" "$problem" --against "$against" --seed "$seed" ${OPTIONS:-} --format tsv \
        2> "$results.$seed.txt")
    code=$?
    if ((code >= 3)); then
        cat "$results.$seed.txt"
        exit 3
    fi
    took=$((SECONDS - began))
    ((took > longest)) && longest=$took
    awk -F'\t' -v OFS='\t' -v seed="$seed" -v took="$took" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { print seed, $at["kernel"], $at["problem"], $at["peer"], $at["mode"], $at["ratio"], $at["lo"], $at["hi"],
                $at["right"], $at["faster"], took }' <<< "$said" >> "$results"
    grep "^$seed"$'\t' "$results"
done

awk -F'\t' '
    NR == 1 { next }
    {
        key = $4 "\t" $5
        ratio[key, ++count[key]] = $6
        sum[key] += $6
        seconds[$1] = $11
        if (!(($4 SUBSEP $9 SUBSEP $10) in seen)) { seen[$4, $9, $10] = 1; ++verdicts[$4]; words[$4] = words[$4] " right " $9 ", faster " $10 ";" }
    }
    END {
        for (peer in verdicts) {
            printf "against %s, %d verdict%s:%s\n", peer, verdicts[peer], verdicts[peer] == 1 ? "" : "s", words[peer]
            differ = differ || verdicts[peer] > 1
        }
        for (key in count) {
            mean = sum[key] / count[key]
            low = high = 0
            for (i = 1; i <= count[key]; i++) {
                off = 100 * (ratio[key, i] / mean - 1)
                low = off < low ? off : low
                high = off > high ? off : high
            }
            split(key, part, "\t")
            printf "%s, %s: %d ratios, mean %.4f, %+.2f to %+.2f %% of it\n", part[1], part[2], count[key], mean, low, high
            far = far || (part[2] == "warm" && (low < -1.5 || high > 1.5))
        }
        for (seed in seconds) { all += seconds[seed]; n++ }
        printf "%.1f s a repeat\n", all / n
        exit differ || far
    }' "$results"
