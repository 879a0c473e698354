#!/bin/bash
# The zoo as folders: folders.sh TO. Those with code of their own are copied; a kernel that takes a line or two is a row
# of cpu.txt, cuda.txt or descriptor.txt, and its folder is written here:
#
#     NAME: what it does
#         STAGE: words of the reason      a line of expect.txt; tests/gate/zoo_folders.h says which there are
#         descriptor LINE                 a line of the descriptor, before the header that its part of the zoo shares
#         source LINE                     a line of the source likewise
set -euo pipefail
zoo=$(cd "$(dirname "$0")" && pwd) to=${1:?usage: folders.sh TO}

rm -rf "$to" && mkdir -p "$to"
for part in cpu cuda descriptor; do
    cp -r "$zoo/$part" "$to/$part"
    awk -v part="$part" -v to="$to/$part" '
        function refuse(why) {
            printf "%s:%d: %s\n", FILENAME, FNR, why > "/dev/stderr"
            refused = 1
            exit 1
        }
        function write(file, text) {
            file = to "/" name "/" file
            printf "%s", text > file
            close(file)
        }
        function finish(  head) {
            if (name == "") return
            if (expect == "") refuse(name ": nothing is expected of it")
            if (system("mkdir \"" to "/" name "\"") != 0) refuse(name ": there is a folder of this name")
            head = "/* " name ": " what ". */\n"
            write("expect.txt", expect)
            if (part == "descriptor") {
                write(name ".c", head descriptor "#include \"../plain.h\"\n")
                write(name ".kernel.c", "#include \"../nothing.h\"\n")
                return
            }
            descriptor = "#define NAME " name "\n#define SUMMARY \"" what "\"\n" descriptor
            write(name ".c", head descriptor "#include \"../descriptor.h\"\n")
            if (part == "cuda") {
                if (source !~ /include "..\/[a-z]+.cuh"/) source = source "#include \"../attend.cuh\"\n"
                write(name ".cu", head source)
            } else {
                if (source !~ /#define ENTRY /) source = "#define ENTRY attend_" name "\n" source
                write(name ".kernel.c", head source "#include \"../attend.h\"\n")
            }
        }
        /^#/ || /^$/ { next }
        /^[a-z0-9_]+: ./ {
            finish()
            name = substr($1, 1, length($1) - 1)
            what = substr($0, length(name) + 3)
            expect = descriptor = source = ""
            next
        }
        name == "" || !/^    [a-z]/ { refuse("neither \"NAME: what it does\" nor one of its lines: " $0) }
        { line = substr($0, 5) }
        line ~ /^descriptor / { descriptor = descriptor substr(line, 12) "\n"; next }
        line ~ /^source / { source = source substr(line, 8) "\n"; next }
        line ~ /^(build|launch|sanity|correctness): ./ || line ~ /^(right|alone|problem .*)$/ { expect = expect line "\n"; next }
        { refuse("no stage, \"right\", \"alone\", \"problem\", \"descriptor\" or \"source\": " line) }
        END { if (!refused) finish() }' "$zoo/$part.txt"
done
