#!/bin/bash
# Draws a bench's throughput over the sequence length, on the terminal and, where gnuplot is, as a PNG:
# demo_plot.sh BENCH.tsv FOLDER
set -euo pipefail
tsv=$1 out=$2
# Columns are found by name; one block of "length gflops" an arm, as gnuplot wants them.
most=$(awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i; next }
    $column["gflops"] > most { most = $column["gflops"] } END { print most + 0 }' "$tsv")
if [ "${most%.*}" -ge 10000 ]; then unit=1000 name=TFLOP/s; else unit=1 name=GFLOP/s; fi
if ! command -v gnuplot >/dev/null; then # bars, as long as the rate is high
    awk -F'\t' -v unit=$unit -v most="$most" -v name=$name '
        NR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i; next }
        match($column["problem"], /,s[0-9]+/) {
            length_of = substr($column["problem"], RSTART + 2, RLENGTH - 2)
            bar = ""
            while (length(bar) < 50 * $column["gflops"] / most) bar = bar "#"
            printf "    %7s %-10s %-50s %.1f %s\n", length_of, $column["arm"], bar, $column["gflops"] / unit, name }' "$tsv"
    exit 0
fi
awk -F'\t' -v unit=$unit '
    NR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i; next }
    match($column["problem"], /,s[0-9]+/) {
        arm = $column["arm"]
        if (!(arm in rows)) order[++arms] = arm
        rows[arm] = rows[arm] substr($column["problem"], RSTART + 2, RLENGTH - 2) " " $column["gflops"] / unit "\n"
    }
    END { for (i = 1; i <= arms; ++i) printf "\"%s\"\n%s\n\n", order[i], rows[order[i]] }' "$tsv" >"$out/bench.dat"
arms=$(grep -c '^"' "$out/bench.dat")
draw() { # terminal and other settings
    gnuplot <<END
        set terminal $1
        set logscale x 2
        set yrange [0:*]
        set key bottom right
        set xlabel "sequence length"
        set ylabel "$name"
        set xtics 64,2,65536
        plot for [i=0:$arms-1] "$out/bench.dat" index i using 1:2 with linespoints title columnheader(1)
END
}
draw 'dumb 76 18' | sed 's/^/    /; s/ *$//'
draw "png size 900,560
set grid
set output '$out/bench.png'"
