#!/usr/bin/env python3
"""Writes what was measured from recorded evidence, fresh verdicts only.

    readme_tables.py [ROOT [BUILD]]

Runs BUILD/bin/attune report on ROOT/evidence, and writes three things: in docs/results.md, between
"<!-- table measured -->" and "<!-- end -->", of each device and problem the fastest right kernel beside its peers; in
README.md, between "<!-- table chosen -->" and "<!-- end -->", the problems of CHOSEN; and docs/images/results.svg, the
picture in README.
"""
import csv
import os
import re
import subprocess
import sys

README, RESULTS, PICTURE = "README.md", "docs/results.md", "docs/images/results.svg"
CHOSEN = [("NVIDIA_H200", "b1,h8,s512,d64,fp16"), ("NVIDIA_H200", "b8,h32,s2048,d64,fp16,causal"),
          ("NVIDIA_H200", "b4,h16,s4096,d128,fp16"), ("NVIDIA_H200", "b1,h16,s16384,d128,fp16,causal"),
          ("NVIDIA_H200", "b1,h64,hkv8,s8192,d128,bf16,causal"), ("NVIDIA_H200", "b1,h8,s16384,d256,fp16"),
          ("AMD_EPYC", "b1,h8,s1024,d64,fp32"), ("AMD_EPYC", "b1,h8,s1024,d128,bf16")]
# The picture: lengths at head dim 128 in fp16, whose batches hold 16,384 rows.
LENGTHS, PANELS = (512, 1024, 2048, 4096, 8192, 16384), (("no mask", ""), ("causal", ",causal"))
ARMS = (("attune", None, "#2f81f7"), ("cuDNN", "cudnn", "#8b949e"),
        ("FlashAttention-3", "py:fa3.py:attention", "#d29922"))
NOTHING = "No fresh verdict is recorded.\n"


def report(root, build):
    """The rows of attune report: of the newest verdict of each kernel, problem and device."""
    evidence = os.path.join(root, "evidence")
    if not os.path.isdir(evidence):
        return []
    cache = {"ATTUNE_CACHE": os.path.join(build, "kernel-cache"), **os.environ}
    printed = subprocess.run([os.path.join(build, "bin", "attune"), "report", "--earnest", "--format", "tsv", evidence],
                             capture_output=True, text=True, check=True, env=cache).stdout
    return list(csv.DictReader(printed.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def fastest(rows):
    """The rows of the fastest right kernel, by its warm median."""
    right = [row for row in rows if row["right"] == "pass" and row["mode"] == "warm"]
    if not right:
        return []
    best = min(right, key=lambda row: float(row["candidate_us"]))
    return [row for row in right if (row["kernel"], row["config"]) == (best["kernel"], best["config"])]


def unique(values):
    return list(dict.fromkeys(values))


def cell(row):
    if row is None:
        return ""
    low, high = float(row["lo"]), float(row["hi"])
    text = f"{(low * high) ** 0.5:.3f} ({low:.3f} … {high:.3f})"  # the interval is symmetric on a logarithmic scale
    return f"**{text}**" if row["faster"] == "pass" else text


def line(problem, rows, peers):
    beside = {row["peer"]: row for row in rows}
    us, tflops = float(rows[0]["candidate_us"]), float(rows[0]["tflops"])
    cells = [f"`{problem}`", f"`{rows[0]['kernel']}`", f"{us:.4g}" if us < 1e4 else f"{us:.0f}", f"{tflops:.3g}"]
    return "| " + " | ".join(cells + [cell(beside.get(peer)) for peer in peers]) + " |\n"


def device_table(device, rows):
    chosen = {problem: fastest([row for row in rows if row["problem"] == problem])
              for problem in unique(row["problem"] for row in rows)}
    chosen = {problem: picked for problem, picked in chosen.items() if picked}
    peers = unique(row["peer"] for picked in chosen.values() for row in picked)
    if not chosen:
        return ""
    head = "| " + " | ".join([device.replace("_", " "), "kernel", "µs", "TFLOP/s"] + peers) + " |\n"
    head += "|---|---|--:|--:|" + "--:|" * len(peers) + "\n"
    return head + "".join(line(problem, picked, peers) for problem, picked in chosen.items())


def outdated(shown, every):
    """What to say of the problems of one device where a faster kernel was changed after its verdict."""
    names = []
    for problem in unique(row["problem"] for row in shown):
        here, all_here = ([row for row in some if row["problem"] == problem] for some in (shown, every))
        best, before = fastest(here), fastest([row for row in all_here if row in here or row["state"] == "stale"])
        if best and before[0] not in best:
            names.append(f"`{before[0]['kernel']}` at `{problem}`")
    if not names:
        return ""
    return f"\nFaster when it was judged, changed since, and so not shown: {', '.join(names)}.\n"


def table(rows, states):
    """What is in the document for these rows; only those of the states count."""
    texts = []
    for device in unique(row["device"] for row in rows):
        every = [row for row in rows if row["device"] == device]
        shown = [row for row in every if row["state"] in states]
        texts.append(device_table(device, shown) + outdated(shown, every))
    return "\n".join(text for text in texts if text) or NOTHING


def ratio(row):
    return (float(row["lo"]) * float(row["hi"])) ** 0.5


def chosen_line(device, problem, rows):
    """One row of README's table; "" where there is no verdict."""
    picked = fastest([row for row in rows if row["device"] == device and row["problem"] == problem])
    if not picked:
        return ""
    names = {peer: name for name, peer, _ in ARMS}
    beside = ", ".join(f"{ratio(row):.2f} × {names.get(row['peer'], row['peer'])}" for row in picked)
    return (f"| `{problem}` | {device.replace('_', ' ')} | `{picked[0]['kernel']}` | "
            f"{float(picked[0]['candidate_us']):.4g} | {float(picked[0]['tflops']):.3g} | {beside} |\n")


def chosen_table(rows, states):
    shown = [row for row in rows if row["state"] in states]
    lines = "".join(chosen_line(device, problem, shown) for device, problem in CHOSEN)
    head = "| problem | machine | kernel | µs | TFLOP/s | as fast as |\n|---|---|---|--:|--:|---|\n"
    return head + lines if lines else NOTHING


def bars(rows, suffix, length):
    """TFLOP/s of each arm at one length; None where there is none."""
    problem = f"b{16384 // length},h16,s{length},d128,fp16{suffix}"
    picked = fastest([row for row in rows if row["device"] == "NVIDIA_H200" and row["problem"] == problem])
    beside = {row["peer"]: row for row in picked}
    values = []
    for _, peer, _ in ARMS:
        row = picked[0] if picked and peer is None else beside.get(peer)
        scale = 1.0 if peer is None or row is None else 1 / ratio(row)
        values.append(float(row["tflops"]) * scale if row is not None else None)
    return values


def panel(rows, title, suffix, left):
    """The parts of one panel: 330 wide, 200 high, 1000 TFLOP/s at its top."""
    parts = [f'<text x="{left + 165}" y="20" text-anchor="middle">{title}</text>']
    for tflops in (0, 200, 400, 600, 800):
        y = 230 - tflops / 4.5
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + 330}" y2="{y:.1f}" stroke="#8b949e" '
                     'stroke-opacity="0.35"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{tflops}</text>')
    for place, length in enumerate(LENGTHS):
        x = left + 6 + 54 * place
        parts.append(f'<text x="{x + 21}" y="247" text-anchor="middle">{length}</text>')
        for index, (value, (_, _, colour)) in enumerate(zip(bars(rows, suffix, length), ARMS)):
            if value is not None:
                parts.append(f'<rect x="{x + 14 * index}" y="{230 - value / 4.5:.1f}" width="13" '
                             f'height="{value / 4.5:.1f}" fill="{colour}"/>')
    return parts


def picture(rows, states):
    """An SVG without a background, in colours that are read on a light and on a dark page."""
    shown = [row for row in rows if row["state"] in states]
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 300" font-family="sans-serif" font-size="12" '
             'fill="#768390">']
    for index, (title, suffix) in enumerate(PANELS):
        parts += panel(shown, f"TFLOP/s by length, {title}", suffix, 45 + 390 * index)
    for index, (name, _, colour) in enumerate(ARMS):
        parts.append(f'<rect x="{250 + 100 * index}" y="270" width="12" height="12" fill="{colour}"/>'
                     f'<text x="{267 + 100 * index}" y="280">{name}</text>')
    return "\n".join(parts + ["</svg>", ""])


def place(name):
    return re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.S)


def render(texts, rows, states=("fresh",)):
    """{document: its text} as it should be."""
    made = {README: chosen_table(rows, states), RESULTS: table(rows, states)}
    names = {README: "chosen", RESULTS: "measured"}
    done = {document: place(names[document]).sub(lambda match, new=new: match.group(1) + new + match.group(2),
                                                 texts[document]) for document, new in made.items()}
    return {**done, PICTURE: picture(rows, states)}


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    build = sys.argv[2] if len(sys.argv) > 2 else os.path.join(root, "build")
    texts = {}
    for document in (README, RESULTS):
        with open(os.path.join(root, document), encoding="utf-8") as file:
            texts[document] = file.read()
    rows = report(root, build)
    if any(row["state"] == "unchecked" for row in rows):
        print("some verdicts are unchecked here, and left out: attune verify says why", file=sys.stderr)
    for document, text in render(texts, rows).items():
        with open(os.path.join(root, document), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
