# Completion of the attune command for bash: verbs, options, their values, kernels and, for arguments, files.
# What there is, the command says itself: `attune help --format tsv` lists every option of every verb.

_attune_options() { # prints "option argument values" of a verb, blank for none, tabs between
    local verb option argument values _
    while IFS=$'\t' read -r verb option argument values _; do
        [[ $verb == "$2" ]] && printf '%s\t%s\t%s\n' "$option" "${argument:--}" "${values:--}"
    done < <("$1" help --format tsv 2>/dev/null | sed 's/\t\t/\t-\t/g; s/\t\t/\t-\t/g')
}

_attune_verbs() { # prints the verbs
    "$1" help --format tsv 2>/dev/null | sed -n '2,$s/\t.*//p' | uniq
}

_attune_kernels() { # prints the kernels' names
    "$1" info --format tsv 2>/dev/null | sed -n 's/^kernel\t\([^\t]*\)\ttarget\t.*/\1/p'
}

_attune() {
    local command=${COMP_WORDS[0]} current=$2 previous=$3 verb=${COMP_WORDS[1]} option argument values
    COMPREPLY=()
    command -v -- "$command" >/dev/null || return 0
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$(_attune_verbs "$command") --help --version" -- "$current")
        return 0
    fi
    # `--name=value` arrives as three words, or without the value as two.
    [[ $current == = ]] && current=
    [[ $previous == = ]] && previous=${COMP_WORDS[COMP_CWORD - 2]}
    [[ $verb == help && $current != -* && $previous != --* ]] &&
        mapfile -t COMPREPLY < <(compgen -W "$(_attune_verbs "$command")" -- "$current") && return 0
    while IFS=$'\t' read -r option argument values; do
        if [[ $option == "$previous" && $argument != - ]]; then
            _attune_value "$command" "$option" "$argument" "$values" "$current"
            return 0
        fi
        [[ $current == -* && $option == "$current"* ]] && COMPREPLY+=("$option")
    done < <(_attune_options "$command" "$verb")
    return 0
}

_attune_value() { # command option argument values current
    local start= words="cudnn openblas"
    case $2:$3 in
    --arms:* | --against:*) # the last of a list
        [[ $5 == *,* ]] && start=${5%,*},
        [[ $2 == --arms ]] && words+=" auto" || words+=" best"
        mapfile -t COMPREPLY < <(compgen -P "$start" -W "$words $(_attune_kernels "$1")" -- "${5##*,}")
        compopt -o nospace 2>/dev/null
        ;;
    *:KERNEL) mapfile -t COMPREPLY < <(compgen -W "$(_attune_kernels "$1")" -- "$5") ;;
    *:FILE) mapfile -t COMPREPLY < <(compgen -f -- "$5") ;;
    *) [[ $4 != - ]] && mapfile -t COMPREPLY < <(compgen -W "$4" -- "$5") ;;
    esac
    return 0
}

complete -o default -F _attune attune
