#!/usr/bin/env python3
"""Fills the tables of docs/ladder.md and of the Hopper pages from bench/results, as bench/ladder.sh, bench/ablations.py
and bench/ladder.py measured them.

    ladder_tables.py [--check] [--take OUT] [ROOT]

With --take, what bench/ladder.sh has left in OUT comes into bench/results first; of files with a line a kernel only the
lines of kernels measured anew.

A table is between "<!-- table NAME -->" and "<!-- end -->". With --check nothing is written: exit code 1 where a
document shows other numbers than the files.
"""
import argparse
import csv
import math
import os
import re
import shutil
import sys

BY_RUNG = "docs/notes/rungs.md"
DOCUMENTS = ("docs/ladder.md", BY_RUNG, "docs/hopper.md", "docs/hopper_small.md",
             "docs/notes/hopper.md", "docs/notes/hopper_small.md", "docs/notes/ladder.md")
RESULTS = "bench/results"
MERGED = ("stages.tsv", "counters.tsv")
SMALL, BIG = "b1,h8,s512,d64,fp16", "b8,h16,s2048,d128,fp16"
RUNGS = ["minimal", "tiled", "guarded", "pipelined", "cublas", "cublas_qk", "cutlass", "wmma", "wmma_acc16", "wmma_ws"]
PEERS = {"torch:flash": "PyTorch, FlashAttention-2", "torch:efficient": "PyTorch, memory-efficient",
         "torch:cudnn": "PyTorch, cuDNN"}
# What the program that this ladder retraces measured on an L4 at the small problem, in microseconds.
BEGINNINGS = {"minimal": "2,870", "tiled": "1,634 → 1,028 → 839–870", "peers": "47–69.7"}
STAGES = [("qk", "QKᵀ"), ("softmax", "softmax"), ("pv", "PV"), ("loading", "loading")]
COUNTERS = [("tensor_pct", "tensor pipe %"), ("fma_pct", "FMA pipe %"), ("issue_pct", "issue slots %"),
            ("sm_pct", "SM %"), ("warps_pct", "warps %"), ("shared_pct", "shared memory %"),
            ("dram_read_mb", "DRAM read MB"), ("dram_write_mb", "written MB"), ("dram_pct", "DRAM %"),
            ("l2_hit_pct", "L2 hits %")]
COUNTED = [("tensor_pct", "tensor %"), ("xu_pct", "XU %"), ("issue_pct", "issued %"),
           ("instructions_m", "instructions, M"), ("sm_ghz", "GHz")]
# Arms of the ablations that say what their neighbours say, and those whose counters say why.
HIDDEN = ("RESCALE=0", "AHEAD=1", "SCHEDULER=1,Q_STAGES=1", "BLOCK_N=96", "KV_STAGES=4", "EMULATED=1", "EMULATED=4")
SHOWN = ("-", "OVERLAP=0,RESCALE=0,AHEAD=0,SCHEDULER=1", "RESCALE=0,AHEAD=0", "AHEAD=0", "SCHEDULER=0,Q_STAGES=1",
           "EMULATED=2")
SM_COUNT, FMA_LANES = 132, 128  # an H200; 128 fp32 lanes an SM, each 2 flops a cycle


class Results:
    def __init__(self, root):
        self.folder = os.path.join(root, RESULTS)
        self.times = {(row["problem"], row["arm"]): row for row in self.rows("ladder.tsv")}
        self.stages, self.counters = self.rows("stages.tsv"), self.rows("counters.tsv")

    def lines(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [line.rstrip("\n") for line in file]

    def rows(self, name):
        return list(csv.DictReader([x for x in self.lines(name) if x and x[0] != "#"], delimiter="\t"))

    def us(self, problem, arm):
        return float(self.times[problem, arm]["median_us"])

    def clock_mhz(self):
        return float(re.search(r"(\d+) MHz", self.lines("machine.csv")[1]).group(1))

    def fma_peak(self):
        """Tflop/s of fp32 FMAs at the clock the machine ran at."""
        return SM_COUNT * FMA_LANES * 2 * self.clock_mhz() * 1e-6


def microseconds(us):
    return f"{us:,.0f}" if us >= 1000 else f"{us:.1f}"


def table(header, rows):
    return "\n".join(["| " + " | ".join(header) + " |", "|" + "|".join("---" if i == 0 else "--:" for i in
                                                                       range(len(header))) + "|"] +
                     ["| " + " | ".join(row) + " |" for row in rows])


# ---- One function a table -------------------------------------------------------------------------------------------


def machine(results):
    name, driver, clock = [x.strip() for x in results.lines("machine.csv")[1].split(",")][:3]
    software = results.lines("ladder.tsv")[0].lstrip("# ").split(", ", 1)[1]
    return f"{name}, driver {driver}, clocks up to {clock}; {software}."


def summary(results):
    rows = []
    for arm in RUNGS + list(PEERS):
        if (SMALL, arm) not in results.times or (BIG, arm) not in results.times:
            continue
        cells = [f"`{arm}`" if arm in RUNGS else PEERS[arm],
                 BEGINNINGS.get(arm, "") if arm in RUNGS else BEGINNINGS["peers"] if arm == "torch:flash" else ""]
        for problem in SMALL, BIG:
            row = results.times[problem, arm]
            cells += [microseconds(float(row["median_us"])), f"{float(row['tflops']):.1f}",
                      f"{results.us(problem, 'minimal') / float(row['median_us']):.1f}"]
        rows.append(cells)
    return table(["rung", "L4, µs", "small, µs", "TFLOP/s", "× minimal", "large, µs", "TFLOP/s", "× minimal"], rows)


def stage_share(results, problem, kernel, stage):
    for row in results.stages:
        if row["problem"] == problem and row["kernel"].split(":")[0] == kernel and row["without"] == stage:
            return f"{100 * float(row['share']):.0f} %"
    return "–"


def rung(results, kernel):
    header = ["problem", "config", "µs", "95 % interval", "max error"]
    split = any(row["kernel"].split(":")[0] == kernel for row in results.stages)
    header += [f"without {name}" for _, name in STAGES] if split else []
    rows = []
    for problem in SMALL, BIG:
        row = results.times.get((problem, kernel))
        if row is None:
            continue
        config = row["kernel"].partition(":")[2].replace(",", " ")
        cells = [f"`{problem}`", config, microseconds(float(row["median_us"])),
                 f"{microseconds(float(row['lo_us']))}–{microseconds(float(row['hi_us']))}", row["error"]]
        cells += [stage_share(results, problem, kernel, stage) for stage, _ in STAGES] if split else []
        rows.append(cells)
    text = table(header, rows)
    counted = [row for row in results.counters if row["kernel"] == kernel]
    if counted:
        # A profiler replays the launches of a rung one by one: they are rows of their own.
        text += "\n\n" + table(
            ["counted in", "µs"] + [name for _, name in COUNTERS] + ["most frequent stalls"],
            [[("small" if row["problem"] == SMALL else "large") + f", `{row['launch']}`", row["time_us"]] +
             [row[column] for column, _ in COUNTERS] + [row["stalls"]] for row in counted])
    return text


def guards(results):
    return table(["problem", "inputs", "exponents clamped", "logits not finite", "empty denominators",
                  "largest difference from tiled, ulp"],
                 [[f"`{r['problem']}`", r["inputs"], f"{int(r['exponents']):,}", r["logits"], r["denominators"],
                   r["ulp"]] for r in results.rows("guards.tsv")])


def steps(results):
    return table(["rung", "change", "predicted, µs", "measured, µs"],
                 [[f"`{r['rung']}`", r["change"], r["predicted_us"] or "–", r["measured_us"]]
                  for r in results.rows("steps.tsv")])


def plans(results):
    return table(["kernel", "problem", "empty cache, ms", "full cache, new context, ms", "class seen, µs"],
                 [[f"`{r['kernel']}`", f"`{r['problem']}`", r["cold_ms"], r["warm_ms"], r["seen_us"]]
                  for r in results.rows("plans.tsv")])


def calls(results):
    row = results.rows("calls.tsv")[0]
    return table(["what", "host time, ns", "more than the bare launch"],
                 [["a bare `cuLaunchKernelEx`", row["bare_ns"], ""]] +
                 [[what, row[name], f"{int(row[name]) - int(row['bare_ns'])}"] for what, name in
                  (("`attune_plan_execute`", "execute_ns"),
                   ("the same, in a thread without a context", "foreign_ns"))])


def racecheck(results):
    times = {"0": "none", "1": "one", "2": "two"}
    return table(["meetings of the parts", "barriers of the block", "launches", "reported", "wrong words"],
                 [[f"{r['first']} and {r['second']}", times[r["barriers"]], r["launches"], r["reported"],
                   r["wrong"]]
                  for r in results.rows("racecheck.tsv")])


def barriers(results):
    return table(["splits meet by", "`pipelined`, µs", "`wmma`, µs", "`wmma_acc16`, µs", "racecheck: 8 tiles",
                  "racecheck: 2 tiles"],
                 [[r["barrier"], r["pipelined_us"], r["wmma_us"], r["wmma_acc16_us"], r["even"], r["uneven"]]
                  for r in results.rows("barriers.tsv")])


def column_of(problem):
    """An ablation's problem, by what it differs in from the others."""
    short = "" if "s4096" in problem else ", S=1,024"
    return "d=" + problem.split(",d")[1].split(",")[0] + (" causal" if "causal" in problem else "") + short


def instead(row):
    """The parameters that are other than in what a line is held against, and what both have."""
    without, beside = row["without"].split(","), row["with"].split(",")
    both = [param for param in without if param in beside]
    return f"`{','.join(x for x in without if x not in both)}`" + (f", both `{','.join(both)}`" if both else "")


def rounded(text):
    """Three figures and more."""
    value = float(text or "nan")
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ablations(results):
    """A row an idea, a column a problem: the time without it over the time with it."""
    rows = [row for row in results.rows("hopper_ablations.tsv")
            if row["idea"] != "chosen" and row["without"] not in HIDDEN]
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    ideas = list(dict.fromkeys(row["idea"] for row in rows))
    arms = dict.fromkeys((row["idea"], "" if row["without"] == "-" else instead(row)) for row in rows)
    took = {(row["idea"], "" if row["without"] == "-" else instead(row), row["problem"]):
            f"{1 + float(row['worth']):.3f}" for row in rows}
    return table(["idea", "instead"] + [column_of(problem) for problem in problems],
                 [[idea, other] + [took.get((idea, other, problem), "") for problem in problems]
                  for idea, other in sorted(arms, key=lambda arm: (ideas.index(arm[0]), arm[1]))])


def ablation_counters(results):
    return table(["problem", "config", "µs", "cuDNN's time / it"] + [name for _, name in COUNTED],
                 [[column_of(row["problem"]), "chosen" if row["idea"] == "chosen" else f"`{row['without']}`",
                   rounded(row["median_us"]), row["ratio"]] + [rounded(row[name]) for name, _ in COUNTED]
                  for row in results.rows("hopper_ablations.tsv")
                  if row["without"] in SHOWN and row["idea"] != "cuDNN"])


def small_times(results, kept):
    """{problem: {arm: us}} of the lines that are warm, or cold."""
    times = {}
    for row in results.rows("small_table.tsv"):
        if row["warm_or_cold"] == kept:
            times.setdefault(row["problem"], {})[row["arm"]] = float(row["median_us"])
    return times


def small_problems(results, kept):
    arms = ["torch:cudnn", "torch:flash", "wgmma_small", "wgmma"]
    rows = []
    for problem, us in small_times(results, kept).items():
        peer = min(us[arm] for arm in arms[:2] if arm in us)
        rows.append([problem] + [f"{us[arm]:.2f}" if arm in us else "" for arm in arms] +
                    [f"{peer / us['wgmma_small']:.2f}", f"{us['wgmma'] / us['wgmma_small']:.2f}"])
    return table(["problem", "cuDNN", "flash", "wgmma_small", "wgmma", "ratio", "wgmma / wgmma_small"], rows)


def small_warm(results):
    return small_problems(results, "warm")


def small_cold(results):
    return small_problems(results, "cold")


def host(results):
    """A row a run: what a call costs the host beside a bare launch."""
    kinds = {"execute": "comes again", "execute_anew": "O elsewhere", "execute_all_anew": "all elsewhere",
             "execute_shorter": "other length"}
    runs = {}
    for row in results.rows("small_calls.tsv"):
        runs.setdefault((row["run"], row["problem"], row["kernel"]), {})[row["what"]] = float(row["median_us"])
    body = []
    for (run, problem, kernel), us in runs.items():
        bare = us["same_launch"]
        beside = {"execute": bare}  # new calls have parameter blocks of their own
        more = [f"{us[what] - beside.get(what, us.get('model_launch', bare)):+.2f}" if what in us else ""
                for what in kinds]
        waits = [f"{us[what]:.2f}" for what in ("execute_and_wait", "same_launch_and_wait", "empty_launch_and_wait")]
        body.append([run, f"`{problem}`, `{kernel}`", f"{bare:.2f}", *more, f"{us['encode_maps']:.2f}", *waits])
    return table(["run", "problem, kernel", "bare launch", *kinds.values(), "maps", "call and wait",
                  "bare launch and wait", "empty launch and wait"], body)


def mma(results):
    """A row a length and mask, a pair of columns a head dim: TFLOP/s, and FlashAttention-2's time / mma's."""
    found = {(row["problem"], row["arm"]): row for row in results.rows("mma.tsv")}
    heads = {64: 32, 128: 16, 256: 8}
    body = []
    for seqlen in (512, 1024, 2048, 4096, 8192, 16384):
        for mask in ("", ",causal"):
            cells = [f"{seqlen:,}", mask[1:] or "none"]
            for dim, count in heads.items():
                row = found[f"b{16384 // seqlen},h{count},s{seqlen},d{dim},fp16{mask}", "mma"]
                cells += [f"{float(row['tflops']):.0f}", f"{float(row['ratio']):.2f}"]
            body.append(cells)
    return table(["S", "mask"] + [text for dim in heads for text in (f"d={dim}, TFLOP/s", "× FA2")], body)


def mma_features(results):
    """A row a problem: TFLOP/s of mma by its heuristic, and its share of the rate without what is added."""
    rows = {}
    for row in results.rows("mma_features.tsv"):
        rows.setdefault(row["problem"], row)
    return table(["problem", "TFLOP/s", "of its own without"],
                 [[f"`{problem}`", f"{float(row['tflops']):.0f}", f"{float(row['share']):.2f}"]
                  for problem, row in rows.items()])


FEATURES = {"sink": "sink", "strict": "strict", "alibi": "ALiBi", "softcap=30": "softcap 30", "bias=1xh": "bias `1xh`",
            "mask": "mask", "varlen=1": "packed"}


def half_as_long(problem):
    """The plain problem of a packed one, its sequences as long as those are in the mean."""
    return re.sub(r",s(\d+)", lambda found: f",s{int(found.group(1)) // 2}", problem.replace(",varlen=1", ""))


def hopper_features(results):
    """A row a feature, a column a head dim and mask: of the rate of the same problem without the feature; of packed
    sequences also of the rate at their mean length."""
    columns, rows, rates = {}, {}, {}
    for row in results.rows("hopper_features.tsv"):
        rates[row["problem"]] = float(row["tflops"])
        terms = [term for term in row["problem"].split(",") if term != "causal"]
        feature = next((term for term in terms if term in FEATURES), None)
        if feature is not None:
            column = column_of(row["problem"]).split(",")[0]
            columns.setdefault(column)
            plain = row["problem"].replace(f",{feature}", "")
            rows.setdefault(feature, {})[column] = f"{rates[row['problem']] / rates[plain]:.2f}"
    for problem, rate in rates.items():
        whole = rates.get(half_as_long(problem)) if "varlen=1" in problem else None
        if whole is not None:
            rows.setdefault("mean", {})[column_of(problem).split(",")[0]] = f"{rate / whole:.2f}"
    return table(["feature", *columns],
                 [[name, *(rows[feature].get(column, "") for column in columns)]
                  for feature, name in {**FEATURES, "mean": "packed, of the rate at the mean length"}.items()
                  if feature in rows])


def hopper_windows(results):
    """A row a window: of the plain kernel's rate, and what a tile of 128 queries leaves of it."""
    columns, rows, rates = {}, {}, {}
    for row in results.rows("hopper_features.tsv"):
        rates[row["problem"]] = float(row["tflops"])
        width = re.search(r"window=(\d+):0", row["problem"])
        if width:
            column = "d=" + row["problem"].split(",d")[1].split(",")[0]
            columns.setdefault(column)
            plain = row["problem"].replace(f",causal,{width.group(0)}", "")
            rows.setdefault(int(width.group(1)) + 1, {})[column] = f"{rates[row['problem']] / rates[plain]:.2f}"
    return table(["window", *columns, "W / (W + 128)"],
                 [[f"{width:,}", *(cells.get(column, "") for column in columns), f"{width / (width + 128):.2f}"]
                  for width, cells in sorted(rows.items())])


def hopper_peers(results):
    """A row a problem with a feature: µs, and what others take of it."""
    rows, names = {}, {}
    for row in results.rows("hopper_peers.tsv"):
        rows.setdefault(row["problem"], {})[row["arm"]] = float(row["median_us"])
        if row["arm"] != "wgmma":
            names.setdefault(row["arm"])
    shown = {"flex": "FlexAttention", **PEERS}
    return table(["problem", "`wgmma`, µs", *(shown[name] for name in names)],
                 [[f"`{problem}`", microseconds(us["wgmma"]),
                   *(f"{us[name] / us['wgmma']:.2f}" if name in us else "" for name in names)]
                  for problem, us in rows.items() if "wgmma" in us])


KINDS = {("normal", "1"): "normal", ("falling", "1"): "fall by 1.5 nats each 64 keys", ("normal", "4"): "deviation 4",
         ("normal", "16"): "deviation 16", ("diagonal", "1"): "a diagonal of 12 nats"}


def hopper_kinds(results):
    """A row a kind of scores and type: the better peer's time over auto's, and auto's largest error over the least."""
    found, columns = {}, {}
    for row in results.rows("hopper_kinds.tsv"):
        arm = row["arm"]
        if (row["kind"], row["spread"]) in KINDS and (arm == "auto" or not arm.startswith(("trial:", "wgmma"))):
            key = row["kind"], row["spread"], row["problem"], row["run"]
            found.setdefault(key, {})[arm] = float(row["median_us"]), float(row["error"])
    body = {}
    for (kind, spread, problem, _), arms in found.items():
        if len(arms) == 3:
            column = column_of(problem)
            columns.setdefault(column)
            peers = [arms[arm] for arm in arms if arm != "auto"]
            cell = f"{min(us for us, _ in peers) / arms['auto'][0]:.2f}, " \
                   f"{arms['auto'][1] / min(error for _, error in peers):.1f}"
            body.setdefault((kind, spread, "bf16" if "bf16" in problem else "fp16"), {})[column] = cell
    return table(["scores", "", *columns],
                 [[name, dtype, *(body[kind, spread, dtype].get(column, "") for column in columns)]
                  for (kind, spread), name in KINDS.items() for dtype in ("bf16", "fp16")
                  if (kind, spread, dtype) in body])


def ratio_bar(results, upper, lower, factor):
    """Whether `upper` is `factor` times as fast as `lower`, or as a `lower` that just met its own bar."""
    found = results.us(SMALL, lower) / results.us(SMALL, upper)
    slow_tiled = results.us(SMALL, "minimal") / 3.4
    by_own_bar = lower == "tiled" and slow_tiled / results.us(SMALL, upper) >= factor
    word = "met" if found >= factor else "met: tiled is faster than its bar" if by_own_bar else "missed"
    name = f"`{upper}` ≥ {factor} × `{lower}`" if factor > 1 else f"`{upper}` faster than `{lower}`"
    return [name + ", small", f"{found:.2f} ×", word]


def least(name, found, bar, unit):
    return [name, f"{found:.2f}{unit}", "met" if found >= bar else "missed"]


def most(name, found, bar, unit):
    return [name, f"{found:.2f}{unit}", "met" if found <= bar else "missed"]


def bars(results):
    peak = results.fma_peak()
    rows = [ratio_bar(results, "tiled", "minimal", 3.4), ratio_bar(results, "pipelined", "tiled", 2),
            ratio_bar(results, "cublas", "tiled", 1.7), ratio_bar(results, "wmma", "tiled", 5),
            ratio_bar(results, "wmma_ws", "wmma", 1)]
    for kernel, share in (("tiled", 10), ("pipelined", 25)):
        found = 100 * float(results.times[BIG, kernel]["tflops"]) / peak
        rows.append(least(f"`{kernel}` ≥ {share} % of the fp32 FMA peak, {peak:.1f} TFLOP/s, large", found, share,
                          " %"))
    rows.append(least("`wmma_ws` ≥ 0.5 × FlashAttention-2, large",
                      results.us(BIG, "torch:flash") / results.us(BIG, "wmma_ws"), 0.5, " ×"))
    plan = results.rows("plans.tsv")
    for column, name, bar, unit in (("cold_ms", "plan, empty cache ≤ 1.5 s", 1500, " ms"),
                                    ("warm_ms", "plan, full cache ≤ 5 ms", 5, " ms"),
                                    ("seen_us", "plan, class seen ≤ 5 µs", 5, " µs")):
        rows.append(most(name + ", slowest kernel", max(float(row[column]) for row in plan), bar, unit))
    call = results.rows("calls.tsv")[0]
    rows.append(most("`attune_plan_execute` ≤ 0.5 µs over a bare launch",
                     (int(call["execute_ns"]) - int(call["bare_ns"])) * 1e-3, 0.5, " µs"))
    return table(["bar", "measured", "verdict"], rows)


TABLES = {"machine": machine, "summary": summary, "guards": guards, "plans": plans, "calls": calls,
          "bars": bars, "steps": steps, "racecheck": racecheck, "barriers": barriers, "ablations": ablations,
          "ablation_counters": ablation_counters,
          "small_warm": small_warm, "small_cold": small_cold, "host": host, "mma": mma, "mma_features": mma_features,
          "hopper_features": hopper_features, "hopper_windows": hopper_windows, "hopper_peers": hopper_peers,
          "hopper_kinds": hopper_kinds}
PLACE = re.compile(r"(<!-- table (\w+)(?: (\w+))? -->\n).*?(<!-- end -->)", re.S)


def render(root, text):
    results = Results(root)

    def fill(match):
        name, of = match.group(2), match.group(3)
        body = rung(results, of) if name == "rung" else TABLES[name](results)
        return f"{match.group(1)}{body}\n{match.group(4)}"
    return PLACE.sub(fill, text)


def key_of(line):
    """Problem and kernel of a line of stages.tsv or counters.tsv, whatever the config."""
    cells = line.split("\t")
    return cells[0], cells[1].split(":")[0] if len(cells) > 1 else ""


def merged(before, anew):
    """Lines of a file with those of kernels measured anew in their place; those of new kernels at the end."""
    rows = [line for line in anew if line and line[0] != "#"][1:]
    fresh = {key_of(line) for line in rows}
    lines, done = [], set()
    for line in before:
        key = key_of(line)
        if key not in fresh:
            lines.append(line)
        elif key not in done:
            done.add(key)
            lines += [row for row in rows if key_of(row) == key]
    return lines + [row for row in rows if key_of(row) not in done]


def take(out, root):
    for name in sorted(os.listdir(out)):
        target = os.path.join(root, RESULTS, name)
        if name.endswith(".ncu-rep") or name == "machine.csv":
            shutil.copyfile(os.path.join(out, name), target)
        elif name.endswith(".tsv"):
            with open(os.path.join(out, name), encoding="utf-8") as file:
                lines = file.read().splitlines()
            if name in MERGED and os.path.exists(target):
                with open(target, encoding="utf-8") as file:
                    lines = merged(file.read().splitlines(), lines)
            with open(target, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--take", metavar="OUT")
    parser.add_argument("root", nargs="?", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    options = parser.parse_args()
    root = options.root
    if options.take:
        take(options.take, root)
    changed = False
    for document in DOCUMENTS:
        path = os.path.join(root, document)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        rendered = render(root, text)
        changed = changed or rendered != text
        if not options.check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(rendered)
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
