#!/usr/bin/env python3
"""Images read no special registers but those that say who a thread is in its launch: what src/cuda/ptx.c asks of PTX,
asked of the machine code of kernels that are built ahead. Where there is no image, or nothing to disassemble with
(cuobjdump with nvdisasm beside it: $ATTUNE_CUOBJDUMP, in build/deps/disassembler, in PATH or with the toolkit), this
says so and passes."""
import glob
import os
import re
import shutil
import subprocess
import sys

import tree

# SRZ is a zero.
ALLOWED = re.compile(r"SRZ|SR_(N?TID|N?CTAID)(\.[XYZ])?|SR_LANEID|SR_(EQ|LT|LE|GT|GE)MASK|SR_Cga(CtaId|Size)|"
                     r"SR_N?CLUSTERID(\.[XYZ])?")
READS = re.compile(r"\b(C?S2U?R)[.\w]* ([^;]*);")
FUNCTION = re.compile(r"Function : (\S+)")


def disassembler(build):
    places = [os.path.join(build, "deps/disassembler/nvidia/cu13/bin"), *os.environ.get("PATH", "").split(os.pathsep),
              "/usr/local/cuda/bin"]
    return os.environ.get("ATTUNE_CUOBJDUMP") or shutil.which("cuobjdump", path=os.pathsep.join(places))


def listing(tool, image):
    beside = os.path.dirname(os.path.abspath(tool))
    path = {**os.environ, "PATH": beside + os.pathsep + os.environ.get("PATH", "")}
    return subprocess.run([tool, "-sass", image], capture_output=True, text=True, check=True, env=path).stdout


def complaints_of(name, text):
    """Of an image's listing. One in which nothing reads a register is not one of kernels."""
    function, seen, complaints = "?", 0, []
    for line in text.splitlines():
        entry = FUNCTION.search(line)
        function = entry.group(1) if entry else function
        for opcode, operands in READS.findall(line):
            seen += 1
            register = operands.split(",")[-1].strip()
            if not ALLOWED.fullmatch(register):
                complaints.append(f"{name}: {opcode} in {function} reads {register}")
    return complaints if seen else [f"{name}: its listing has no read of a special register: what is it of?"]


def check(root):
    build = sys.argv[2] if len(sys.argv) > 2 else os.path.join(root, "build")
    listings = glob.glob(os.path.join(root, "*.sass"))  # of the self-test
    images, tool = glob.glob(os.path.join(build, "images/*.fatbin")), disassembler(build)
    if not listings and (not images or not tool):
        print("not checked: there is " + ("no cuobjdump here" if images else "no image in the build"))
        return []
    found = [complaints_of(os.path.basename(path), tree.read(root, os.path.basename(path))) for path in listings]
    found += [complaints_of(os.path.basename(image), listing(tool, image)) for image in images if not listings]
    return [complaint for complaints in found for complaint in complaints]


GOOD = """        Function : attend
        /*0010*/                   S2R R0, SR_TID.X ;     /* 0x0 */
        /*0020*/                   CS2R R2, SRZ ;         /* 0x0 */
        /*0030*/              @!P0 S2UR UR4, SR_CTAID.Y ; /* 0x0 */
"""
MISTAKES = [
    ({"a.sass": GOOD + "        /*0040*/  CS2R R4, SR_GLOBALTIMERLO ; /* 0x0 */\n"}, "CS2R in attend reads SR_GLOBALT"),
    ({"a.sass": GOOD + "        /*0040*/  CS2R.32 R4, SR_CLOCKLO ; /* 0x0 */\n"}, "reads SR_CLOCKLO"),
    ({"a.sass": GOOD + "        /*0040*/  S2R R4, SR_VIRTUALSMID ; /* 0x0 */\n"}, "S2R in attend reads SR_VIRTUALSMID"),
    ({"a.sass": GOOD + "        /*0040*/  S2R R4, SR51 ; /* 0x0 */\n"}, "reads SR51"),
    ({"a.sass": "nothing\n"}, "no read"),
]

if __name__ == "__main__":
    tree.main(check, MISTAKES, {"a.sass": GOOD})
