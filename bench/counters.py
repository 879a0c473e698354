#!/usr/bin/env python3
"""What the hardware counted while each CUDA kernel ran once: ncu over `stages --once KERNEL PROBLEM`, as TSV.

    counters.py [--stages PATH] [--out DIR] [--keep KERNEL] [--kernels A,B,...] [PROBLEM...]

Writes DIR/counters.tsv, a line a launch; DIR/counters-*.csv, what ncu said; and DIR/KERNEL.ncu-rep, the full report of
--keep's kernel at the last problem. Clocks are left as they are; ncu flushes the caches before each pass, so what is
read from DRAM includes each input once.
"""
import argparse
import csv
import io
import os
import re
import subprocess
import sys

PERCENT_ACTIVE = ".avg.pct_of_peak_sustained_active"
PERCENT_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
# Column: metrics that say it, the first that this chip and this ncu have; factor from ncu's base unit.
COLUMNS = [
    ("time_us", ["gpu__time_duration.sum"], 1e-3),
    ("tensor_pct", ["sm__pipe_tensor_cycles_active" + PERCENT_ACTIVE,
                    "sm__pipe_tensor_op_hmma_cycles_active" + PERCENT_ACTIVE,
                    "sm__inst_executed_pipe_tensor" + PERCENT_ACTIVE], 1),
    ("xu_pct", ["sm__inst_executed_pipe_xu" + PERCENT_ACTIVE], 1),
    ("fma_pct", ["sm__pipe_fma_cycles_active" + PERCENT_ACTIVE, "sm__inst_executed_pipe_fma" + PERCENT_ACTIVE], 1),
    ("sm_pct", ["sm__throughput" + PERCENT_ELAPSED], 1),
    ("issue_pct", ["smsp__issue_active" + PERCENT_ACTIVE, "sm__inst_issued" + PERCENT_ACTIVE], 1),
    ("instructions_m", ["smsp__inst_executed.sum", "sm__inst_executed.sum"], 1e-6),
    ("warps_pct", ["sm__warps_active" + PERCENT_ACTIVE], 1),
    ("shared_pct", ["l1tex__data_pipe_lsu_wavefronts_mem_shared" + PERCENT_ELAPSED,
                    "l1tex__data_pipe_lsu_wavefronts" + PERCENT_ELAPSED], 1),
    ("dram_read_mb", ["dram__bytes_read.sum"], 1e-6),
    ("dram_write_mb", ["dram__bytes_write.sum"], 1e-6),
    ("dram_pct", ["dram__throughput" + PERCENT_ELAPSED, "gpu__dram_throughput" + PERCENT_ELAPSED], 1),
    ("l2_hit_pct", ["lts__t_sector_hit_rate.pct"], 1),
    ("l2_pct", ["lts__throughput" + PERCENT_ELAPSED], 1),
    ("l2_mb", ["lts__t_bytes.sum"], 1e-6),
    ("l2_to_sm_mb", ["l1tex__m_xbar2l1tex_read_bytes.sum"], 1e-6),
    ("sm_ghz", ["sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second"], 1e-9),
]
COUNTED = [name for name, _, _ in COLUMNS] + ["stalls"]
STALL = re.compile(r"smsp__average_warps?_(?:latency_)?issue_stalled_(\w+?)(?:_per_issue_active|_per_warp_active)?"
                   r"\.(?:ratio|pct)$")
KERNELS = "minimal,tiled,pipelined,guarded,cublas,cublas_qk,cutlass,wmma,wmma_acc16,wmma_ws,wgmma_small,wgmma"


def ncu(*words):
    found = subprocess.run(["ncu", *words], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise RuntimeError(f"ncu {' '.join(words)}: {(found.stdout + found.stderr).strip()[-600:]}")
    return found.stdout


def metrics_here():
    """The wished metrics that exist here: ncu fails as a whole where one does not."""
    known = set(re.findall(r"^(\w+__\w+)", ncu("--query-metrics"), re.MULTILINE))
    return [m for _, names, _ in COLUMNS for m in names if m.split(".")[0] in known]


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def launches(text):
    """Rows of ncu's raw page: dictionaries by metric. Programs' own output and ncu's remarks come before the table."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[first:]))))
    return [row for row in rows if row["ID"]]  # the first row holds the units


def top_stalls(row):
    stalls = {}
    for name, value in row.items():
        match = STALL.match(name or "")
        if match and "not_issued" not in name and match.group(1) != "selected" and number(value or "") is not None:
            stalls[match.group(1)] = number(value)
    total = sum(stalls.values()) or 1
    order = sorted(stalls, key=stalls.get, reverse=True)[:3]
    return " ".join(f"{name}:{100 * stalls[name] / total:.0f}%" for name in order)


def counted(row):
    """The cells of COUNTED."""
    cells = []
    for _, names, factor in COLUMNS:
        value = next((number(row[n]) for n in names if number(row.get(n) or "") is not None), None)
        cells.append("" if value is None else f"{value * factor:.2f}")
    return cells + [top_stalls(row)]


def line_of(problem, kernel, row):
    launch = re.sub(r"[(<].*", "", row["Kernel Name"]).replace("void ", "").strip()
    return "\t".join([problem, kernel, launch] + counted(row))


def ask(stages, metrics, words, *which):
    """What ncu says of one process of `stages`; which: options that choose launches."""
    return ncu("--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", "--section",
               "WarpStateStats", "--metrics", ",".join(metrics), *which, stages, *words)


def measure(options, metrics, problem, kernel):
    text = ask(options.stages, metrics, ["--once", kernel, problem])
    name = re.sub(r"\W+", "_", f"{kernel}-{problem}")
    with open(os.path.join(options.out, f"counters-{name}.csv"), "w", encoding="utf-8") as to:
        to.write(text)
    return [line_of(problem, kernel, row) for row in launches(text)]


def by_config(stages, metrics, problem, kernels):
    """The cells of COUNTED by config, of kernels that are one launch each, in one process."""
    words = ["--once", kernels[0]] + [word for kernel in kernels[1:] for word in ("--kernel", kernel)]
    text = ask(stages, metrics, [*words, problem], "--kernel-name", "regex:fwd")  # and no fill before it
    configs, rows = re.findall(r"^once\t\S+\t(\S+)$", text, re.MULTILINE), launches(text)
    if len(configs) != len(rows):
        raise RuntimeError(f"{len(configs)} configs and {len(rows)} launches")
    return {config: counted(row) for config, row in zip(configs, rows)}


def keep(options, problem):
    report = os.path.join(options.out, options.keep)
    ncu("--clock-control", "none", "--set", "full", "--force-overwrite", "--export", report, options.stages, "--once",
        options.keep, problem)
    print(f"# {report}.ncu-rep: {os.path.getsize(report + '.ncu-rep')} bytes")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", default=os.path.join(here, "..", "build", "gpu", "stages"))
    parser.add_argument("--out", default=".")
    parser.add_argument("--keep", default="")
    parser.add_argument("--kernels", default=KERNELS)
    parser.add_argument("problems", nargs="*")
    options = parser.parse_args()
    problems = options.problems or ["b1,h8,s512,d64,fp16", "b8,h16,s2048,d128,fp16"]
    metrics, failed = metrics_here(), False
    lines = ["\t".join(["problem", "kernel", "launch"] + COUNTED)]
    for problem in problems:
        for kernel in options.kernels.split(","):
            try:
                lines += measure(options, metrics, problem, kernel)
            except (RuntimeError, StopIteration) as reason:
                lines.append(f"# {problem} {kernel}: {str(reason)!r}")
                failed = True
    with open(os.path.join(options.out, "counters.tsv"), "w", encoding="utf-8") as to:
        to.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    if options.keep:
        keep(options, problems[-1])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
