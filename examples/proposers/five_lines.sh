#!/bin/sh
# A command that answers, in the place of a model's: the task on standard input, the whole file in a fence on standard
# output. Adding another CLI is such a line: attune evolve ... --proposer 'the-cli --its-options < task.md'
grep -q '^# Task' || exit 1
echo '```c mine.kernel.c' && sed 's/^ *for (int[^ ]* c = /#pragma GCC unroll 4\n&/' candidate/mine.kernel.c && echo '```'
echo '{"idea":"loops over columns unrolled","tags":["unroll"],"model":"sed","tokens_in":0,"tokens_out":0,"usd":0}'
