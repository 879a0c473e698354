#!/usr/bin/env python3
"""What each idea of wgmma is worth: the heuristic's config and the same with one idea off, timed in turns and counted.

    ablations.py [--library PATH] [--stages PATH] [--rounds N] [--list] [PROBLEM...]

For each problem the configs of IDEAS that differ from the heuristic's and that the kernel admits are timed beside it
and PyTorch's cuDNN as bench/hopper.py times its arms: graphs, in turns, in one process. Then ncu looks at one launch of
each, as bench/counters.py has it, all of a problem in one process of `stages`. Standard output is TSV, a line a config:

    problem idea without with kernel median_us lo_us hi_us tflops ratio worth error and bench/counters.py's columns

idea: what it is about; without, with: the parameters named, "-" where there are none, which is the heuristic's choice.
ratio: cuDNN's median / this one's; worth: this one's median / that of the config with the idea - 1, so that above 0
the idea gains. A config of two ideas has a line for each, unless both are held against the same. With
--list nothing runs: PROBLEM and KERNEL of every arm are printed, for compiling ahead. Exit code 1 where a result is off
by more than 0.01 or counters are missing.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import counters  # noqa: E402

JOBS = "b16,h16,s1024,d128,fp16,causal"  # short jobs of many sizes: by OF_JOBS alone
PROBLEMS = ("b4,h16,s4096,d128,fp16", "b4,h16,s4096,d128,fp16,causal", "b4,h32,s4096,d64,fp16",
            "b4,h32,s4096,d64,fp16,causal", "b4,h8,s4096,d256,fp16", "b4,h8,s4096,d256,fp16,causal", JOBS)
CHOSEN, PEER, WRONG = "-", "torch:cudnn", 0.01
OF_JOBS = ("turns", "no turns", "order of jobs", "two places for queries")
# Idea, parameters without it or with another value, parameters with it; for which head dims, all where none are named.
IDEAS = (
    ("static reference", "RESCALE=0", CHOSEN),
    ("static reference", "RESCALE=0,AHEAD=0", CHOSEN),
    ("exponentials before the wait", "AHEAD=0", CHOSEN),
    ("exponentials before the wait", "AHEAD=1", CHOSEN, 128),
    ("exponentials before the wait", "AHEAD=2", CHOSEN),
    ("exponentials before the wait", "AHEAD=3", CHOSEN, 128),
    ("exponentials before the wait", "AHEAD=4", CHOSEN),
    ("turns", "PINGPONG=0", CHOSEN),
    ("no turns", "PINGPONG=1", CHOSEN),
    ("order of jobs", "SCHEDULER=1", CHOSEN),
    ("order of jobs", "SCHEDULER=2", CHOSEN),
    ("two places for queries", "Q_STAGES=1", CHOSEN),
    ("two places for queries", "SCHEDULER=1,Q_STAGES=1", "SCHEDULER=1"),
    ("groups", "GROUPS=2", CHOSEN, 64),
    ("groups", "GROUPS=3,BLOCK_N=80", CHOSEN, 128),
    ("tiles of keys", "BLOCK_N=64", CHOSEN),
    ("tiles of keys", "BLOCK_N=80", CHOSEN, 256),
    ("tiles of keys", "BLOCK_N=96", CHOSEN),
    ("tiles of keys", "BLOCK_N=160,AHEAD=3", CHOSEN, 128),
)


def ideas_of(problem):
    dim = int(problem.split(",d")[1].split(",")[0])
    return [idea[:3] for idea in IDEAS
            if (dim in idea[3:] or len(idea) == 3) and (problem != JOBS or idea[0] in OF_JOBS)]


def arm_of(params):
    return "wgmma" if params == CHOSEN else f"wgmma:{params}"


def arms_of(problem):
    """Each once: the choice first."""
    return list(dict.fromkeys([arm_of(CHOSEN)] + [arm_of(params) for _, *pair in ideas_of(problem)
                                                  for params in reversed(pair)]))


class Raced:
    """A problem's arms by their config, which is timed once."""

    def __init__(self, bench, problem):
        self.problem, arms = problem, bench.ready(problem, [PEER, *arms_of(problem)])[1]
        self.kernel = {name: kernel for name, (_, _, _, kernel, _) in arms.items()}
        first = {kernel: name for name, kernel in reversed(self.kernel.items())}
        samples = bench.sample({name: arms[name] for name in first.values()})
        self.error = {kernel: arms[name][2] for kernel, name in first.items()}
        self.samples = {kernel: samples[name] for kernel, name in first.items()}
        self.flops = bench.library.flops(bench.library.problem(problem))

    def configs(self):
        return [kernel for name, kernel in self.kernel.items() if name != PEER]

    def pairs(self):
        """(idea, without, with) of the configs that run and differ, each pair once."""
        names = [(idea, arm_of(without), arm_of(beside), without, beside)
                 for idea, without, beside in ideas_of(self.problem)]
        runs = {(self.kernel[arm], self.kernel[other]): (idea, without, beside)
                for idea, arm, other, without, beside in reversed(names) if {arm, other} <= self.kernel.keys()}
        return [rows for (kernel, base), rows in reversed(runs.items()) if kernel != base]


def lines_of(raced, counted, interval):
    """A line for the peer, one for the choice, one for each idea."""
    median = {kernel: interval(samples)[0] for kernel, samples in raced.samples.items()}

    def line(idea, without, beside, kernel, base):
        us, lo, hi = interval(raced.samples[kernel])
        return "\t".join([raced.problem, idea, without, beside, kernel, f"{us:.2f}", f"{lo:.2f}", f"{hi:.2f}",
                          f"{raced.flops / us * 1e-6:.1f}", f"{median[raced.kernel[PEER]] / us:.3f}",
                          f"{us / median[base] - 1:.4f}", f"{raced.error[kernel]:.1e}",
                          *counted.get(kernel, [""] * len(counters.COUNTED))])
    chosen = raced.kernel[arm_of(CHOSEN)]
    lines = [line("cuDNN", CHOSEN, CHOSEN, raced.kernel[PEER], chosen), line("chosen", CHOSEN, CHOSEN, chosen, chosen)]
    for idea, without, beside in raced.pairs():
        lines.append(line(idea, without, beside, raced.kernel[arm_of(without)], raced.kernel[arm_of(beside)]))
    return lines


def take(bench, interval, metrics, problem):
    """Prints a problem's lines; whether all is right and counted."""
    raced, counted = Raced(bench, problem), {}
    if not {PEER, arm_of(CHOSEN)} <= raced.kernel.keys():
        return False
    configs = list(dict.fromkeys(raced.configs()))
    try:
        counted = counters.by_config(bench.options.stages, metrics, problem, configs)
    except (RuntimeError, StopIteration) as reason:
        print(f"# {problem}: {str(reason)!r}")
    print("\n".join(lines_of(raced, counted, interval)), flush=True)
    return all(error <= WRONG for error in raced.error.values()) and all(config in counted for config in configs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library")
    parser.add_argument("--stages", default=os.path.join(HERE, "..", "build", "gpu", "stages"))
    parser.add_argument("--rounds", type=int, default=25, help="samples of an arm")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("problems", nargs="*", default=PROBLEMS)
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{problem} {arm}" for problem in options.problems for arm in arms_of(problem)))
        return 0
    import hopper  # and with it PyTorch, which takes seconds and a list does without
    for name, value in {"seconds": 0, "graph_us": 2000, "rest": 0, "spread": 1, "mixed": False, "kind": "normal",
                        "peer": []}.items():
        setattr(options, name, value)
    bench, metrics = hopper.Bench(options), counters.metrics_here()
    print(bench.machine())
    print("\t".join(["problem", "idea", "without", "with", "kernel", "median_us", "lo_us", "hi_us", "tflops", "ratio",
                     "worth", "error"] + counters.COUNTED))
    return 0 if all([take(bench, hopper.interval, metrics, problem) for problem in options.problems]) else 1


if __name__ == "__main__":
    sys.exit(main())
