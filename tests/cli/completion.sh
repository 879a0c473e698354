#!/bin/bash
# Completes command lines as an interactive bash would, and compares with what must be offered.
#   completion.sh COMMAND COMPLETIONS
set -u
PATH=$(cd "$(dirname "$1")" && pwd):$PATH
# shellcheck source=/dev/null
source "$2" || exit 1
failures=0

offers() { # "what is typed" expected words...
    local line=$1 IFS=$' \t\n'
    shift
    read -ra COMP_WORDS <<<"$line"
    [[ $line == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    local previous=${COMP_WORDS[COMP_CWORD - 1]}
    _attune attune "${COMP_WORDS[COMP_CWORD]}" "$previous"
    local expected
    for expected in "$@"; do
        local found=
        local reply
        for reply in "${COMPREPLY[@]}"; do [[ $reply == "$expected" ]] && found=1; done
        [[ -n $found ]] || { echo "'$line' offers '${COMPREPLY[*]}', not $expected"; failures=$((failures + 1)); }
    done
}

count() { # "what is typed" number of offers
    offers "$1"
    ((${#COMPREPLY[@]} == $2)) || { echo "'$1' offers '${COMPREPLY[*]}', not $2 words"; failures=$((failures + 1)); }
}

offers 'attune ' bench info help version --help --version
offers 'attune be' bench
count 'attune be' 1
count 'attune zzz' 0
offers 'attune bench --' --arms --seconds --seed --cold --target --format --help
offers 'attune bench --se' --seed --seconds
count 'attune bench --se' 2
count 'attune version --se' 0
offers 'attune bench --format ' text tsv json
offers 'attune bench --format t' text tsv
count 'attune bench --format t' 2
offers 'attune bench --format = j' json # as COMP_WORDBREAKS splits --format=j
offers 'attune info --isa ' baseline avx2 avx512 avx512_bf16 amx
offers 'attune info --kernel cpu_' cpu_tiled
offers 'attune bench --arms ' auto openblas cudnn cpu_tiled
offers 'attune gate --against ' best openblas cudnn cpu_tiled
offers 'attune gate --against best,cud' best,cudnn
offers 'attune bench --arms auto,op' auto,openblas
offers 'attune help in' info
cd "$(dirname "$2")" || exit 1
offers 'attune bench --wisdom att' attune.bash
exit $((failures > 0))
