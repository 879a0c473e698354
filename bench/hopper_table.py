#!/usr/bin/env python3
"""The table of wgmma's heuristic from recorded races, and how good its choices are on problems that it has not seen.

    hopper_table.py [--evaluate] [--rules FILE] [ARMS] > kernels/cuda/wgmma_table.c

ARMS (bench/results/hopper_arms.tsv) is what `hopper_choice.py --arms` writes: problem, config, us. Printed are

    paces       us that a tile of keys and a job besides take, of each config of a head dim, by least squares
    effects     what a counter costs (a share of the whole, and us), and what turns of groups save
    candidates  configs that were raced at least FEWEST times for a class: head dims up to 64, 96, 128, 256, with a
                causal mask or without
    raced       a row for each problem: where it lies, and how much slower than the model says each candidate was

kernels/cuda/wgmma_choice.c works out the time of each candidate as `predict` does, adds what the nearest rows say
of it, and takes the least. --evaluate prints no table: every problem's choice by a table without that problem, of the
configs that were raced on it; behind: its time / the best one's - 1. --rules: choices of another heuristic, as
bench/choices prints them, evaluated likewise.
"""
import argparse
import collections
import heapq
import math
import os
import statistics

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
WISDOM = os.path.join(ROOT, "wisdom", "NVIDIA_H200.wisdom")
ARMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results", "hopper_arms.tsv")
SM, FEWEST = 132, 8
BUSIEST = 0.8        # a launch takes this share of the busiest multiprocessor's time and the rest of the mean
SIMULATED = 16       # jobs a multiprocessor up to which they are shared out one by one
NEAR, KEYS, JOBS, WORTH = 0.5, 1.0, 0.7, 0.3  # width of the kernel and weights of its axes; weight of the model's word
AHEAD = 0.02         # what wisdom's choice is taken to be ahead by, and any other behind
TURNS = 0.005        # a counter must be expected to gain as much
FIRMNESS = 0.3       # of paces that few races say something of
CLASSES = (64, 96, 128, 256)
BEFORE = {64: 1.09, 96: 1.51, 128: 1.51, 192: 2.3, 256: 2.98}  # us of a tile of 128 keys for two groups, roughly

Problem = collections.namedtuple("Problem", "text batch heads shared sq skv dim causal")
Config = collections.namedtuple("Config", "groups block_n q_stages pingpong scheduler ahead")
NAMES = ("GROUPS", "BLOCK_N", "Q_STAGES", "PINGPONG", "SCHEDULER", "AHEAD")


def problem_of(text):
    field, causal = {}, text.endswith(",causal")
    for term in text.split(","):
        name = term.rstrip("0123456789")
        if name in ("b", "h", "hkv", "s", "d"):
            field[name] = int(term[len(name):])
    return Problem(text, field["b"], field["h"], field["h"] // field.get("hkv", field["h"]), field["s"], field["s"],
                   field["d"], causal)


def config_of(text):
    value = dict(term.split("=") for term in text.split(","))
    config = Config(*(int(value[name]) for name in NAMES))
    return config._replace(scheduler=min(config.scheduler, 2))  # few heads at a time is a counter's, of short keys


def read_arms(path):
    """us by problem and config; the latest of a pair that was timed again."""
    races = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            cells = line.rstrip("\n").split("\t")[-3:]
            if not line.startswith("#") and cells[-1] != "us":
                races.setdefault(problem_of(cells[0]), {})[config_of(cells[1].rpartition(":")[2])] = float(cells[2])
    return races


def class_of(dim):
    return min(c for c in CLASSES if dim <= c)


def group_of(p):
    return class_of(p.dim), p.causal


def pace_key(p, c):
    return p.dim, p.causal, c.groups, c.block_n, c.q_stages, c.ahead


def effect_key(p, c):
    return class_of(p.dim), p.causal, c.groups


def pace_before(key):
    return BEFORE[key[0]] * key[3] / 128 * (key[2] / 2) ** 0.8, 1.5 * key[2] / 2 + (1.5 if key[0] > 128 else 0)


# ---- The model: tiles and jobs of the busiest multiprocessor --------------------------------------------------------

def sections(p, tiles):
    """Tiles of keys of a causal problem's jobs, in their order (device/job.cuh)."""
    heads, most, row = p.batch * p.heads, 32 << 20, p.skv * p.dim * 4
    fit = min(most // row, max(most // 2 // row, 32))
    section = min(max(fit, 1) * p.shared, heads)
    left = -(-heads // section)
    for head in range(0, heads, section):
        for of in tiles[::-1] if left % 2 else tiles:
            yield from [of] * min(section, heads - head)
        left -= 1


def share(p, c):
    """(tiles, jobs) that the launch takes the time of."""
    m, n = c.groups * 64, c.block_n
    rows = -(-p.sq // m)
    count = rows * p.heads * p.batch
    if not p.causal:
        jobs = BUSIEST * -(-count // SM) + (1 - BUSIEST) * count / SM
        return jobs * -(-p.skv // n), jobs
    tiles = [-(-max(min(min((row + 1) * m, p.sq) + p.skv - p.sq, p.skv), 1) // n) for row in range(rows)]
    mean = sum(tiles) * p.heads * p.batch / SM, count / SM
    if count > SIMULATED * SM:
        busiest = mean[0] + tiles[-1] / 2, mean[1] + 0.5
    else:
        busiest = shared_out(p, c, tiles)
    return tuple(BUSIEST * a + (1 - BUSIEST) * b for a, b in zip(busiest, mean))


def shared_out(p, c, tiles):
    tile, job = pace_before(pace_key(p, c))
    busy = [(0.0, i, 0, 0) for i in range(SM)]
    for number, of in enumerate(sections(p, tiles)):
        if c.scheduler == 2:
            time, at, had, jobs = heapq.heappop(busy)
            heapq.heappush(busy, (time + of * tile + job, at, had + of, jobs + 1))
        else:
            turn, place = divmod(number, SM)
            place = SM - 1 - place if turn % 2 else place
            time, at, had, jobs = busy[place]
            busy[place] = (time + of * tile + job, at, had + of, jobs + 1)
    return max(busy)[2:]


# ---- Fitting --------------------------------------------------------------------------------------------------------

def least_squares(rows, before, firmness):
    """x, y of x a + y b = c over rows (a, b, c), drawn to what was thought before."""
    weight = [firmness ** 2 / (z * z) if z else firmness ** 2 for z in before]
    aa, bb, ab = weight[0], weight[1], 0.0
    ac, bc = (w * z for w, z in zip(weight, before))
    for a, b, c in rows:
        aa, bb, ab, ac, bc = aa + a * a, bb + b * b, ab + a * b, ac + a * c, bc + b * c
    det = aa * bb - ab * ab
    return (ac * bb - bc * ab) / det, (bc * aa - ac * ab) / det


class Model:
    def __init__(self, races, shares):
        self.shares, self.pace = shares, {}
        self.counter, self.no_turns = {}, {}
        rows = [(p, c, us) for p, arms in races.items() for c, us in arms.items()]
        for _ in range(3):
            self.fit_paces(rows)
            self.fit_effects(races)

    def effects(self, p, c):
        """(of a tile without turns, of a job, of the whole with a counter, us besides)."""
        key = effect_key(p, c)
        return (self.no_turns.get(key, (0, 0)) if not c.pingpong else (0, 0)) + (
            self.counter.get(key, (0, 0)) if c.scheduler == 2 else (0, 0))

    def fit_paces(self, rows):
        known = collections.defaultdict(list)
        for p, c, us in rows:
            tile, job, whole, besides = self.effects(p, c)
            tiles, jobs = self.shares[p, c]
            known[pace_key(p, c)].append((tiles * (1 + tile) * (1 + whole) / us, jobs * (1 + job) * (1 + whole) / us,
                                          1 - besides / us))
        for key, of in known.items():
            pace = least_squares(of, pace_before(key), FIRMNESS)
            self.pace[key] = pace if min(pace) > 0 else pace_before(key)

    def fit_effects(self, races):
        """From pairs of one race that differ in nothing else: other rows were raced where one was likely to be best."""
        counter, no_turns = collections.defaultdict(list), collections.defaultdict(list)
        for p, arms in races.items():
            for c, us in arms.items():
                by_turns, with_turns = arms.get(c._replace(scheduler=1)), arms.get(c._replace(pingpong=1))
                if c.scheduler == 2 and by_turns:
                    counter[effect_key(p, c)].append((by_turns / us, 1 / us, 1 - by_turns / us))
                if not c.pingpong and with_turns:
                    tiles, jobs = (x * y / us for x, y in zip(self.shares[p, c], self.pace[pace_key(p, c)]))
                    no_turns[effect_key(p, c)].append((tiles, jobs, 1 - with_turns / us))
        self.counter = {key: least_squares(of, (0, 0), 0.1) for key, of in counter.items()}
        self.no_turns = {key: least_squares(of, (0, 0), 0.22) for key, of in no_turns.items()}

    def predict(self, p, c):
        tile, job, whole, besides = self.effects(p, c)
        pace = self.pace.get(pace_key(p, c)) or pace_before(pace_key(p, c))
        tiles, jobs = self.shares[p, c]
        return (tiles * pace[0] * (1 + tile) + jobs * pace[1] * (1 + job)) * (1 + whole) + besides


# ---- Nearest rows ---------------------------------------------------------------------------------------------------

def is_ahead(group, c, times):
    """Of one place for queries where there is room for two: raced up to head dim 128, and clearly ahead of two in one
    class alone, with three groups (run 19)."""
    has_room = c.q_stages == 1 and (group, c._replace(q_stages=2)) in times
    return not has_room or (group == (64, True) and c.groups == 3)


def candidates_of(races):
    times = collections.Counter((group_of(p), c) for p, arms in races.items() for c in arms)
    found = collections.defaultdict(list)
    for (group, c), count in sorted(times.items()):
        if count >= FEWEST and is_ahead(group, c, times):
            found[group].append(c)
    return found


def place_of(p):
    m = 192 if p.dim <= 64 else 128
    return (KEYS * math.log2(p.skv), JOBS * math.log2(p.batch * p.heads * -(-p.sq // m) / SM), math.log2(p.dim))


def slower_by(model, p, arms, candidates):
    """log(us / model), its median among the candidates taken off: what races say beyond the model."""
    off = {c: math.log(us / model.predict(p, c)) for c, us in arms.items()}
    middle = statistics.median([x for c, x in off.items() if c in candidates] or off.values())
    return {c: x - middle for c, x in off.items()}


def winners(path, candidates):
    """Rows by class for what wisdom names for problems without features, as if it had won by twice AHEAD."""
    near = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        rows = [line.split() for line in file if " wgmma:" in line]
    for row in rows:
        terms = row[1].split(",")
        if terms[-1] not in ("fp16", "bf16") and terms[-2:] not in (["fp16", "causal"], ["bf16", "causal"]):
            continue
        value = {term.rstrip("0123456789"): int(term[len(term.rstrip("0123456789")):]) for term in terms[1:]
                 if term[-1].isdigit() and term not in ("fp16", "bf16")}
        p = Problem(row[1], 1, value["bh"], value["g"], value["sq"], value["skv"], value["d"], terms[-1] == "causal")
        config = config_of(row[3].partition(":")[2])
        if config in candidates[group_of(p)] and value["d"] == value["dv"]:
            near[group_of(p)].append((place_of(p), {c: -AHEAD if c == config else AHEAD
                                                    for c in candidates[group_of(p)]}))
    return near


def choose(p, model, near, among):
    said, weight = collections.Counter(), collections.Counter()
    here = place_of(p)
    for place, off in near:
        w = math.exp(-sum((a - b) ** 2 for a, b in zip(here, place)) / (2 * NEAR * NEAR))
        for c, x in off.items():
            said[c] += w * x
            weight[c] += w
    return min(among, key=lambda c: math.log(model.predict(p, c)) + said[c] / (weight[c] + WORTH) +
               (TURNS if c.scheduler == 2 else 0))


def left_out(races, shares, candidates, p):
    """The choice for a problem that the table has not seen."""
    group = group_of(p)
    others = {o: arms for o, arms in races.items() if group_of(o) == group and o != p}
    model = Model(others, shares)
    near = [(place_of(o), slower_by(model, o, arms, candidates[group])) for o, arms in others.items()]
    among = [c for c in races[p] if c in candidates[group]] or list(races[p])
    return choose(p, model, near + winners(WISDOM, candidates)[group], among)


def judge(name, races, choice):
    """Prints how far choices are behind the best raced; those that were not raced are counted apart."""
    behind = {p: arms[choice[p]] / min(arms.values()) - 1 for p, arms in races.items() if choice[p] in arms}
    worst = max(behind, key=behind.get)
    print(f"{name}\t{len(races)}\t{len(behind)}\t{sum(x <= 0.05 for x in behind.values())}\t"
          f"{statistics.mean(behind.values()):.4f}\t{behind[worst]:.3f}\t{worst.text}")


def evaluate(races, shares, candidates, rules):
    print("choices\tproblems\traced\twithin_5_pct\tmean_behind\tmost_behind\twhere")
    judge("table without the problem", races,
          {p: left_out(races, shares, candidates, p) for p in races})
    if rules:
        with open(rules, encoding="utf-8") as file:
            named = dict(line.rstrip("\n").split("\t") for line in file)
        judge(os.path.basename(rules), races, {p: config_of(named[p.text]) for p in races})


# ---- Printing -------------------------------------------------------------------------------------------------------

def print_row(group, place, permille):
    print(f"    {{{group[0]}, {int(group[1])}, {{{', '.join(f'{x:.2f}F' for x in place)}}}, {{{permille}}}}},")


def print_table(races, shares, candidates, wisdom=WISDOM):
    model = Model(races, shares)
    used = {pace_key(p, c) for p, arms in races.items() for c in arms if c in candidates[group_of(p)]}
    print("/* wgmma: what races on an NVIDIA H200 say of its configs. Printed by bench/hopper_table.py; not edited. */")
    print("/* clang-format off */")
    print('#include "wgmma_table.h"\n')
    weights = {"busiest": BUSIEST, "near": NEAR, "keys": KEYS, "jobs": JOBS, "worth": WORTH, "turns": TURNS,
               "simulated": SIMULATED}
    print("const wgmma_weights at_wgmma_model = {")
    for name, value in weights.items():
        print(f"    .{name} = {value},")
    print("};\n\nconst wgmma_pace at_wgmma_paces[] = {")
    for key in sorted(used):
        tile, job = model.pace[key]
        print(f"    {{{key[0]}, {int(key[1])}, {', '.join(map(str, key[2:]))}, {tile:.3f}F, {job:.3f}F}},")
    print("    {0},\n};\n\nconst wgmma_effect at_wgmma_effects[] = {")
    for key in sorted(set(model.counter) | set(model.no_turns)):
        four = model.no_turns.get(key, (0, 0)) + model.counter.get(key, (0, 0))
        print(f"    {{{key[0]}, {int(key[1])}, {key[2]}, {', '.join(f'{x:.3f}F' for x in four)}}},")
    print("    {0},\n};\n\nconst wgmma_candidates at_wgmma_classes[] = {")
    for (dim, causal), configs in sorted(candidates.items()):
        print(f"    {{{dim}, {int(causal)}, {len(configs)}, {{")
        for c in configs:
            print(f"        {{{', '.join(map(str, c))}}},")
        print("    }},")
    won = winners(wisdom, candidates)
    print("    {0},\n};\n\nconst wgmma_raced at_wgmma_races[] = {")
    for p, arms in sorted(races.items()):
        group = group_of(p)
        off = slower_by(model, p, arms, candidates[group])
        permille = ", ".join(str(round(off[c] * 1000)) if c in off else "NA" for c in candidates[group])
        print_row(group, place_of(p), permille)
    for group in sorted(won):
        for place, off in won[group]:
            print_row(group, place, ", ".join(str(round(off[c] * 1000)) for c in candidates[group]))
    print("    {0},\n};")


def read(path):
    """Races, what each launch takes the time of, and candidates."""
    races = read_arms(path)
    return races, {(p, c): share(p, c) for p, arms in races.items() for c in arms}, candidates_of(races)


def make(arms, wisdom):
    """Prints the table of these files; tools/checks/wgmma_table.py compares."""
    print_table(*read(arms), wisdom)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--rules", metavar="FILE")
    parser.add_argument("arms", nargs="?", default=ARMS)
    options = parser.parse_args()
    races, shares, candidates = read(options.arms)
    if options.evaluate:
        evaluate(races, shares, candidates, options.rules)
    else:
        print_table(races, shares, candidates)


if __name__ == "__main__":
    main()
