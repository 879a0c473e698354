#!/usr/bin/env python3
"""How far wgmma's heuristic is from the best of its configs, on problems that nobody chose.

    hopper_choice.py [--library PATH] [--seed N] [--shapes N] [--dims LIST] [--seconds S] [--list | --arms FILE]
                     [PROBLEM...]

Draws problems by the seed: head dims 64 to 256, fp16 and bf16, both masks, any length from 300 to 16,384, grouped heads
or not, with at least a tile of queries for every multiprocessor and at most 0.5 TFLOP. PROBLEMs, without
features but a causal mask at the end, come first. Each is run with the heuristic's first config and with every config
of RIVALS that the kernel admits, as bench/hopper.py runs its arms: graphs, in turns. The least of eight noisy figures
is too small: where another config seems ahead by more than 2 %, the two are timed again, alone and for three times as
long, and that counts. Standard output is TSV:

    problem chosen chosen_us best best_us behind

behind: the chosen config's median / the best one's - 1; chosen and best are the parameters that differ from each other.
The last line, a comment, has the largest of them and how many problems are more than 5 % behind. With --list nothing
runs: PROBLEM and KERNEL of every arm are printed, for compiling ahead. --arms writes what every arm took, for whoever
makes rules of it: problem, config, us.
"""
import argparse
import math
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

BLOCKS, FLOP_MAX = 132, 0.5e12
SURE = 0.02  # ahead by less is not asked again
DIMS = (64, 64, 96, 128, 128, 128, 192, 256, 256)
# Parameters that differ from the heuristic's, by the largest head dim they are for and whether there is a causal mask:
# those that have been best or near it somewhere (docs/hopper.md), at most eight.
RIVALS = {
    (64, False): ("PINGPONG=0", "SCHEDULER=2", "GROUPS=3,BLOCK_N=128", "GROUPS=2,BLOCK_N=128",
                  "GROUPS=2,BLOCK_N=128,PINGPONG=0", "GROUPS=2,BLOCK_N=176", "GROUPS=2,BLOCK_N=192"),
    (64, True): ("Q_STAGES=2,PINGPONG=0,SCHEDULER=1", "Q_STAGES=2,PINGPONG=0,SCHEDULER=2",
                 "GROUPS=3,Q_STAGES=2,PINGPONG=1,SCHEDULER=1", "GROUPS=3,Q_STAGES=2,PINGPONG=1,SCHEDULER=2",
                 "GROUPS=3,Q_STAGES=1,PINGPONG=1,SCHEDULER=1", "GROUPS=3,Q_STAGES=1,PINGPONG=1,SCHEDULER=2",
                 "GROUPS=2,Q_STAGES=2,PINGPONG=0", "GROUPS=2,Q_STAGES=2,PINGPONG=1"),
    (128, False): ("SCHEDULER=2", "BLOCK_N=128,Q_STAGES=2,AHEAD=2", "BLOCK_N=128,Q_STAGES=2,AHEAD=4",
                   "BLOCK_N=128,Q_STAGES=2,PINGPONG=0,AHEAD=2", "BLOCK_N=160,Q_STAGES=2,AHEAD=3",
                   "BLOCK_N=176,Q_STAGES=1,AHEAD=3", "BLOCK_N=192,Q_STAGES=1,AHEAD=1"),
    (128, True): ("PINGPONG=0", "SCHEDULER=1", "SCHEDULER=2", "SCHEDULER=1,AHEAD=4", "SCHEDULER=2,AHEAD=4",
                  "SCHEDULER=1,PINGPONG=0,AHEAD=2", "BLOCK_N=112", "BLOCK_N=160"),
    (256, False): ("PINGPONG=0", "SCHEDULER=2", "BLOCK_N=64", "BLOCK_N=80", "BLOCK_N=96", "BLOCK_N=112"),
    (256, True): ("PINGPONG=0,SCHEDULER=1", "PINGPONG=0,SCHEDULER=2", "SCHEDULER=2", "BLOCK_N=64", "BLOCK_N=80",
                  "BLOCK_N=96", "BLOCK_N=112"),
}


def draw(number, dims):
    """One problem's text."""
    while True:
        dim, seqlen = number.choice(dims), int(math.exp(number.uniform(math.log(300), math.log(16384))))
        heads, batch = number.choice((8, 16, 32, 64)), number.choice((1, 1, 2, 4, 8, 16, 32))
        shared, causal = number.choice((1, 1, 4, 8)), number.random() < 0.5
        dtype = number.choice(("fp16", "bf16"))
        flop = 4 * batch * heads * seqlen * seqlen * dim / (2 if causal else 1)
        if flop <= FLOP_MAX and batch * heads * (seqlen // 192) >= BLOCKS and batch * heads * seqlen * dim < 2 ** 27:
            kv = f",hkv{heads // shared}" if shared > 1 else ""
            return f"b{batch},h{heads}{kv},s{seqlen},d{dim},{dtype}" + (",causal" if causal else "")


def rivals(text):
    dim, causal = int(text.split(",d")[1].split(",")[0]), text.endswith(",causal")
    return ["wgmma:" + params for params in RIVALS[min(d for d, _ in RIVALS if d >= dim), causal]]


def difference(config, other):
    """The parameters of a kernel's text that another has otherwise."""
    theirs = set(other.split(":")[1].split(","))
    return ",".join(p for p in config.split(":")[1].split(",") if p not in theirs) or "-"


def sample(hopper, bench, arms, longer=1):
    """Median us of every arm."""
    seconds, rounds = bench.options.seconds, bench.options.rounds
    bench.options.seconds, bench.options.rounds = seconds * longer * len(arms) / 8, rounds * longer
    times = {name: hopper.interval(s)[0] for name, s in bench.sample(arms).items()}
    bench.options.seconds, bench.options.rounds = seconds, rounds
    return times


def race(hopper, bench, text, table):
    """(behind, line) of one problem."""
    made = bench.ready(text, ["wgmma", *rivals(text)])[1]
    first = {arm[3]: name for name, arm in reversed(made.items())}  # a config comes once, by the name it has first
    arms = {name: arm for name, arm in made.items() if first[arm[3]] == name}
    times = sample(hopper, bench, arms)
    best = min(times, key=times.get)
    if table:
        print("\n".join(f"{text}\t{arms[name][3]}\t{us:.2f}" for name, us in times.items()), file=table, flush=True)
    if times["wgmma"] > times[best] * (1 + SURE):
        times = sample(hopper, bench, {name: arms[name] for name in ("wgmma", best)}, 3)
        best = min(times, key=times.get)
    behind, chosen = times["wgmma"] / times[best] - 1, arms["wgmma"][3]
    return behind, "\t".join([text, difference(chosen, arms[best][3]), f"{times['wgmma']:.2f}",
                              difference(arms[best][3], chosen), f"{times[best]:.2f}", f"{behind:.3f}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=30)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--arms", type=argparse.FileType("w"), help="where to write what every arm took")
    parser.add_argument("--seconds", type=float, default=0.1, help="of measuring, a problem")
    parser.add_argument("--dims", help="draw only problems of these head dims: 64,128")
    parser.add_argument("problems", nargs="*", metavar="PROBLEM")
    options = parser.parse_args()
    options.rounds, options.graph_us, options.rest, options.peer = 7, 1500, 0, []
    options.spread, options.mixed, options.kind = 1, False, "normal"
    number = random.Random(options.seed)
    dims = [int(dim) for dim in options.dims.split(",")] if options.dims else DIMS
    texts = options.problems + [draw(number, dims) for _ in range(options.shapes)]
    if options.list:
        print("\n".join(f"{text} {name}" for text in texts for name in ["wgmma", *rivals(text)]))
        return
    import hopper  # and with it PyTorch, which takes seconds and a list does without
    bench = hopper.Bench(options)
    print("problem\tchosen\tchosen_us\tbest\tbest_us\tbehind")
    found = []
    for text in texts:
        behind, line = race(hopper, bench, text, options.arms)
        found.append(behind)
        print(line, flush=True)
    print(f"# most behind: {max(found):.3f}; more than 5 %: {sum(x > 0.05 for x in found)} of {len(found)}")


if __name__ == "__main__":
    main()
