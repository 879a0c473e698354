#!/usr/bin/env python3
"""How exact attention of fp32 is when its products are made of shorter ones, for lack of tensor cores of fp32: nothing
but the splitting is modelled (products and sums are of fp64, weights are rounded to fp32).

    fp32_splits.py [--rows N] [--keys N] [--dim N] [--seed N]

Rows of standard normal queries, keys and values; the same with scores eight times as large; and one key alone, whose
value O should be. A way to split is the parts of a number, each rounded to so many bits, or all but the last cut off,
and which products of two parts are kept. Standard output is TSV: the way, products, and of each kind of input the
largest |O - O_exact| / the largest |O|. The last row is fp32 itself, every product and sum rounded, in order.
"""
import argparse
import math
import random
import struct

BF16, TF32 = 8, 11  # bits of a significand, the leading one among them

WAYS = {
    "TF32": (TF32, [(0, 0)]),
    "TF32, two parts": (TF32, [(0, 0), (0, 1), (1, 0)]),
    "bf16, two parts": (BF16, [(0, 0), (0, 1), (1, 0)]),
    "bf16, two parts, cut": (BF16, [(0, 0), (0, 1), (1, 0)], True),
    "bf16, three parts, six": (BF16, [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0)]),
    "bf16, three parts, all": (BF16, [(i, j) for i in range(3) for j in range(3)]),
}


def fp32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def rounded(x, bits, cut=False):
    if x == 0:
        return 0.0
    fraction, exponent = math.frexp(x)
    return math.ldexp((math.trunc if cut else round)(math.ldexp(fraction, bits)), exponent - bits)


def parts_of(x, bits, count, cut):
    parts = []
    for i in range(count):
        parts.append(rounded(x, bits, cut and i + 1 < count))
        x -= parts[-1]
    return parts


class Split:
    """Rows of numbers, as parts: part[i][row][column]."""

    def __init__(self, rows, way):
        bits, products, cut = (*way, False)[:3]
        count = 1 + max(max(pair) for pair in products)
        split = [[parts_of(x, bits, count, cut) for x in row] for row in rows]
        self.part = [[[x[i] for x in row] for row in split] for i in range(count)]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def product(a, b, way):
    """a times the transposed b."""
    if way is None:
        return [[dot(x, y) for y in b] for x in a]
    a, b = Split(a, way), Split(b, way)
    rows, columns = range(len(a.part[0])), range(len(b.part[0]))
    return [[sum(dot(a.part[i][r], b.part[j][c]) for i, j in way[1]) for c in columns] for r in rows]


def product_fp32(a, b):
    def in_order(x, y):
        total = 0.0
        for p, q in zip(x, y):
            total = fp32(total + fp32(p * q))
        return total
    return [[in_order(x, y) for y in b] for x in a]


def attention(q, k, v, multiply, keep):
    s = multiply(q, k)
    columns = [list(column) for column in zip(*v)]
    weights, sums = [], []
    for row in s:
        most = max(row)
        weights.append([keep(math.exp(x - most)) for x in row])
        sums.append(sum(weights[-1]))
    return [[x / total for x in row] for row, total in zip(multiply(weights, columns), sums)]


def inputs(options, spread, keys):
    draw = random.Random(options.seed)
    scale = spread / math.sqrt(options.dim)

    def normal(rows, by=1.0):
        return [[fp32(draw.gauss(0, 1) * by) for _ in range(options.dim)] for _ in range(rows)]
    return normal(options.rows, scale), normal(keys), normal(keys)


def error_of(o, exact):
    largest = max(abs(x) for row in exact for x in row)
    return max(abs(x - y) for row, other in zip(o, exact) for x, y in zip(row, other)) / largest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--keys", type=int, default=512)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cases = [inputs(options, 1, options.keys), inputs(options, 8, options.keys), inputs(options, 1, 1)]
    exact = [attention(*case, lambda a, b: product(a, b, None), lambda x: x) for case in cases]
    print("way\tproducts\tnormal\tsharp\tone_key")
    for name, way in WAYS.items():
        errors = [error_of(attention(*case, lambda a, b, way=way: product(a, b, way), fp32), o)
                  for case, o in zip(cases, exact)]
        print("\t".join([name, str(len(way[1])), *(f"{error:.1e}" for error in errors)]), flush=True)
    errors = [error_of(attention(*case, product_fp32, fp32), o) for case, o in zip(cases, exact)]
    print("\t".join(["fp32", "1", *(f"{error:.1e}" for error in errors)]))


if __name__ == "__main__":
    main()
